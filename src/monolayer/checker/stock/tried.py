"""Stock folders that bounds leave undecided are tried: one evaluation, at as many points as its work allows."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Ints
from monolayer.checker import tried
from monolayer.checker.certificate import Finding
from monolayer.checker.stock.evaluation import StockEvaluation
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import StockPlaces
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN


class StockTrial(NamedTuple):
    """What one evaluation returned at the labelled points `(M,)`.

    `asked`: which of them were tried. `wrong`: which of these get another class. `got`: which one, −1 for no number.
    """

    asked: Bools
    wrong: Bools
    got: Ints


def try_stock(net: Network, data: Sequences, places: StockPlaces, first: tuple[Finding, ...]) -> StockTrial:
    """Evaluate a stock folder at labelled points, those of the findings `first` before others."""
    network = StockEvaluation(net)
    at_tokens = net.labelling.at_tokens
    # The arrays below have an entry per token or sequence, also for those without a label, and one for the begin token.
    count = net.labelling.count(data) + places.begins
    wanted, asked, answer = np.full(count, -2), np.zeros(count, dtype=bool), np.full(count, -1)
    wanted[places.answering] = places.wanted
    wrong = np.zeros(count, dtype=bool)

    def ask(ids: Ints, at: Ints, points: Ints) -> None:
        logits = network.logits(ids, at).reshape(points.size, -1)
        flat = points.reshape(-1)
        expected = logits[np.arange(len(flat)), np.maximum(wanted[flat], 0)]
        asked[flat] = wanted[flat] != -2
        wrong[flat] = asked[flat] & ~((wanted[flat] >= 0) & (logits <= expected[:, None]).all(axis=1))  # NaN is wrong
        answer[flat] = np.where(np.isnan(logits).any(axis=1), -1, logits.argmax(axis=1))

    if places.begins and tried.MOST_WORK:
        ask(np.array([[BEGIN]]), np.zeros(1, dtype=np.int64), np.array([[count - 1]]))
    answering = places.answering[: len(places.answering) - places.begins]
    rows = np.unique(net.labelling.rows(data, answering))
    named = [finding.sequence for finding in first]
    work = partial(_work, network, at_tokens)
    for batch in tried.batches(data.lengths, rows, named, work, net.width, tried.MOST_WORK):
        flat = data.offsets[batch.rows][:, None] + np.arange(batch.length)
        ids = np.append(np.full((len(flat), 1), BEGIN), places.ids[flat], axis=1)
        if at_tokens:
            ask(ids, np.arange(1, batch.length + 1), flat)
        else:
            ask(ids, np.array([batch.length if net.causal else 0]), batch.rows[:, None])
    return StockTrial(asked[places.answering], wrong[places.answering], answer[places.answering])


def _work(network: StockEvaluation, at_tokens: bool, length: int) -> int:
    """About how many products a sequence of `length` tokens takes, at all places that answer."""
    return network.work(length, length if at_tokens else 1)
