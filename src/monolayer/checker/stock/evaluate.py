"""The verdict on a robust stock folder: its forward pass on the given sequences, in enclosed numbers. Lemma E7.

    embedding → norm → attention → + → norm → neurons → + → norm → (pooler) → head

Both sums add to the stream: to what enters the norm (GPT-2 and similar), or to what leaves it (BERT and similar).

Sequences of one length are evaluated together, a few thousand points at a time. Neurons that surely return 0 at a token
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Bools, Ints
from monolayer.checker.labelled import PointVerdicts
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.enclosed import (
    MORE,
    UNIT_32,
    Average,
    Enclosed,
    Linear,
    Rotary,
    add,
    average,
    norm,
    scores,
    turned,
)
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.head import StockHead
from monolayer.checker.stock.neurons import ENCLOSED_AT_ONCE, FeedForward, Sway, WakingPairs
from monolayer.checker.stock.places import StockPlaces
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN

MOST_SCORES = 1 << 24
"""How many attention scores are held at a time; it bounds memory, and no result depends on it."""
LARGEST_STORED = 2.0**20
"""Largest absolute value of a stored number."""
LEAST_EPSILON = 2.0**-40
"""Least ε of the norms that is covered."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences of one length, and where they answer.

    `ids` `(B, n)`: their ids, the begin token first. `at` `(m,)`: the places that answer. `points` `(B, m)`: which
    token or sequence of the data each of these places stands for.
    """

    ids: Ints
    at: Ints
    points: Ints

    def only(self, chosen: Bools) -> Batch:
        """The batch without the sequences and the places that have no chosen point; `chosen` `(B, m)`."""
        rows, columns = chosen.any(axis=1), chosen.any(axis=0)
        return Batch(self.ids[rows], self.at[columns], self.points[np.ix_(rows, columns)])


def judge_robust(
    net: Network, data: Sequences, places: StockPlaces, counted: Callable[[int, int], None] = lambda done, total: None
) -> PointVerdicts:
    """Judge every labelled point. Points that a first, quicker bound leaves unsure are judged with a sharper one.

    `counted` is told how many of how many places that answer were judged.
    """
    program = Program(net)
    # The arrays below have an entry per token or sequence, also for those without a label.
    count = net.labelling.count(data) + places.begins
    wanted = np.full(count, -1)
    wanted[places.answering] = places.wanted
    right, wrong, answer = np.zeros(count, bool), np.zeros(count, bool), np.full(count, -1)
    done = 0
    for asked in batches(net, data, places):
        done += asked.points.size
        for closely in (False, True):
            points = asked.points.reshape(-1)
            stream = program.stream(asked.ids, asked.at, closely)
            verdicts = program.head.compare(stream, wanted[points])
            right[points] |= verdicts.right
            wrong[points] |= verdicts.wrong
            answer[points] = np.where(verdicts.wrong, verdicts.got, answer[points])
            asked = asked.only(~(right | wrong)[asked.points] & (wanted[asked.points] >= 0))
            if asked.points.size == 0:
                break
        counted(done, count)
    return PointVerdicts(right[places.answering], wrong[places.answering], answer[places.answering])


def batches(net: Network, data: Sequences, places: StockPlaces) -> Iterator[Batch]:
    """All places that answer, in batches of sequences of one length."""
    for length in np.unique(data.lengths):
        rows = np.flatnonzero(data.lengths == length)
        step = max(1, ENCLOSED_AT_ONCE // ((int(length) + 1) * max(net.width, int(length) + 1)))
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            flat = data.offsets[some][:, None] + np.arange(length)
            ids = np.append(np.full((len(some), 1), BEGIN), places.ids[flat], axis=1)
            if not net.labelling.at_tokens:
                yield Batch(ids, np.array([length if net.causal else 0]), some[:, None])
                continue
            for at in np.array_split(np.arange(1, length + 1), 1 + len(some) * int(length) ** 2 // MOST_SCORES):
                yield Batch(ids, at, flat[:, at - 1])
    if places.begins:
        yield Batch(np.array([[BEGIN]]), np.array([0]), np.array([[len(data.tokens)]]))


class Program:
    """The forward pass of a folder on enclosed numbers."""

    def __init__(self, net: Network) -> None:
        _check_stock_sizes(net)
        self.net = net
        self.heads, self.turn = _heads(net)
        self.query, self.key = (Linear(net[f"W_{x}"][self.heads], net[f"b_{x}"][self.heads]) for x in "QK")
        kept = np.flatnonzero(net["W_V"].any(axis=1) | (net["b_V"] != 0))
        self.value = Linear(net["W_V"][kept], net["b_V"][kept])
        self.write = net["W_O"][:, kept]
        self.out = Linear(self.write, net["b_O"])
        self.neurons, self.head = FeedForward(net), StockHead(net)

    def stream(self, ids: Ints, at: Ints, closely: bool) -> Enclosed:
        """The stream that enters the last norm `(B·m, D)`, at the places `at` `(m,)` of sequences `ids` `(B, n)`.

        `closely`: whether to use the sharper bounds, which take longer.
        """
        return add(*self.parts(ids, at, closely))

    def parts(
        self, ids: Ints, at: Ints, closely: bool, heard: list[WakingPairs] | None = None
    ) -> tuple[Enclosed, Enclosed]:
        """The two parts whose sum is `stream`: what the neurons add to, and what they add, `(B·m, D)` each.

        `heard`: a list that gets what each neuron returns where it may wake (`FeedForward`).
        """
        net = self.net
        # Before attention a vector depends on its token and place alone: each pair of these is evaluated once.
        place = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        number = ids if "places" not in net else ids * ids.shape[1] + place
        _, first, back = np.unique(number, return_index=True, return_inverse=True)
        back = back.reshape(ids.shape)
        stream = self._embedded(ids.reshape(-1)[first], place.reshape(-1)[first])
        normed = self._norm(stream, 1)
        seen = self._average(normed, back, at)
        stream = _one_row_per_point(
            add((normed if net.architecture.post_norm else stream)[back[:, at]], self.out(seen.found))
        )
        normed = self._norm(stream, 2)
        sway = Sway(net, seen, self.write, stream) if closely else None
        written = self.neurons(normed, ids[:, at].reshape(-1), sway, heard)
        return normed if net.architecture.post_norm else stream, written

    def _embedded(self, ids: Ints, places: Ints) -> Enclosed:
        """Embeddings `(P, D)` of ids `(P,)` at places `(P,)`; a sum rounds only where both tables are not 0."""
        net = self.net
        x = net["tokens"][ids]
        if "places" not in net:
            return Enclosed.of(x, np.zeros_like(x))
        there = net["places"][net.architecture.offset + places]
        both = x + there
        return Enclosed.of(both, np.where((x != 0) & (there != 0), MORE * UNIT_32 * np.abs(both), 0.0))

    def _norm(self, x: Enclosed, number: int) -> Enclosed:
        """Norm 1, in front of attention, or 2, in front of the neurons (behind what they add to, in BERT)."""
        net = self.net
        return norm(x, net[f"scale_{number}"], net[f"shift_{number}"], net.epsilon, net.architecture.rms)

    def _average(self, x: Enclosed, back: Ints, at: Ints) -> Average:
        """What attention averages at the places `at`; `back` `(B, n)`: the row of `x` that stands at each place."""
        q, k, v = (part(x)[back] for part in (self.query, self.key, self.value))
        if self.turn is not None and len(self.heads):
            q, k = (turned(part, self.turn) for part in (q, k))
        score, off = scores(q[:, at], k, self.net.width**-0.5)
        there = np.arange(back.shape[1])
        seen = (there <= at[:, None]) if self.net.causal else np.ones((len(at), len(there)), dtype=bool)
        return average(score, off, seen, v)


def _one_row_per_point(x: Enclosed) -> Enclosed:
    """`(B, m, D)` as `(B·m, D)`."""
    return Enclosed(*(part.reshape(-1, part.shape[-1]) for part in x.parts))


def _heads(net: Network) -> tuple[Ints, Rotary | None]:
    """The coordinates of the head that scores depend on, and how rotary positions turn them, if there are any."""
    sides = [net[f"W_{x}"].any(axis=1) | (net[f"b_{x}"] != 0) for x in "QK"]
    if net.rotary is None:
        return np.flatnonzero(sides[0] & sides[1]), None
    theta, turned_ones = net.rotary
    half = turned_ones // 2
    number = np.arange(net.width)
    partner = np.where(number < half, number + half, np.where(number < turned_ones, number - half, number))
    sides = [side | side[partner] for side in sides]
    used = np.flatnonzero(sides[0] & sides[1])
    place = np.zeros(net.width, dtype=np.int64)
    place[used] = np.arange(len(used))
    sign = np.where(number < half, -1.0, np.where(number < turned_ones, 1.0, 0.0))
    exponent = np.where(number < turned_ones, (number % half) / half, np.inf)
    return used, Rotary(place[partner[used]], sign[used], exponent[used], theta)


def _check_stock_sizes(net: Network) -> None:
    """Refuse stored numbers so large that something may overflow, at padding too, and token types other than 0."""
    if "types" in net and net["types"].any():
        raise UnhandledError("the table of token types is not 0")
    if net.width > 2**14 or not LEAST_EPSILON <= net.epsilon <= 1.0:
        raise UnhandledError("the width is too large, or the norms' epsilon out of bounds")
    if max(float(np.abs(part).max(initial=0.0)) for part in net.arrays.values()) > LARGEST_STORED:
        raise UnhandledError(f"stored numbers are larger than {LARGEST_STORED:g}")
    # Padding is masked, but the product of any query and key must be finite there too.
    length = net.width**0.5 * np.abs(net["scale_1"]).max() + np.linalg.norm(net["shift_1"])
    sizes = [np.linalg.norm(net[f"W_{x}"]) * length + np.linalg.norm(net[f"b_{x}"]) for x in "QK"]
    if not sizes[0] * sizes[1] <= 2.0**100:
        raise UnhandledError("scores of padding may not be finite")
