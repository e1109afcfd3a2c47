"""The verdict on a robust stock folder: its forward pass on the given sequences, in enclosed numbers. Lemma E7.

    embedding → norm → attention → + → norm → neurons → + → norm → (pooler) → head

What the sums add to is the stream in front of the norms (GPT-2 and its kin) or behind them (BERT and its kin).

Sequences of one length at a time, a few thousand points each. Neurons that surely rest at a token are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.noise import PointVerdicts
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.enclosed import (
    MORE,
    UNIT_32,
    Average,
    Enclosed,
    Linear,
    add,
    average,
    norm,
    scores,
    turned,
)
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.head import StockHead
from monolayer.checker.stock.neurons import ENCLOSED_AT_ONCE, FeedForward, Returned, Sway
from monolayer.checker.stock.places import StockPlaces
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN

MOST_SCORES = 1 << 24
"""Scores held at a time."""
LARGEST_STORED = 2.0**20
"""Stored numbers are at most this."""
LEAST_EPSILON = 2.0**-40


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences of one length, begin token in front `(B, n)`, places `(m,)` that answer, and their points `(B, m)`."""

    ids: Ints
    at: Ints
    points: Ints

    def only(self, chosen: Bools) -> Batch:
        """The sequences and the places that have a chosen point `(B, m)`."""
        rows, columns = chosen.any(axis=1), chosen.any(axis=0)
        return Batch(self.ids[rows], self.at[columns], self.points[np.ix_(rows, columns)])


def judge_robust(net: Network, data: Sequences, places: StockPlaces) -> PointVerdicts:
    """Which points surely get their label, and which surely another. What is unsure is looked at twice as closely."""
    program = Program(net)
    # By token or sequence, whether it has a label or not.
    count = (len(data) if net.task == "sequence" else len(data.tokens)) + places.begins
    wanted = np.full(count, -1)
    wanted[places.answering] = places.wanted
    right, wrong, got = np.zeros(count, bool), np.zeros(count, bool), np.full(count, -1)
    for asked in batches(net, data, places):
        for closely in (False, True):
            points = asked.points.reshape(-1)
            stream = program.stream(asked.ids, asked.at, closely)
            sure, other, larger = program.head.compare(stream, wanted[points])
            right[points] |= sure
            wrong[points] |= other
            got[points] = np.where(other, larger, got[points])
            asked = asked.only(~(right | wrong)[asked.points] & (wanted[asked.points] >= 0))
            if asked.points.size == 0:
                break
    return PointVerdicts(right[places.answering], wrong[places.answering], got[places.answering])


def batches(net: Network, data: Sequences, places: StockPlaces) -> Iterator[Batch]:
    """All places that answer, sequences of one length at a time."""
    for length in np.unique(data.lengths):
        rows = np.flatnonzero(data.lengths == length)
        step = max(1, ENCLOSED_AT_ONCE // ((int(length) + 1) * max(net.width, int(length) + 1)))
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            flat = data.offsets[some][:, None] + np.arange(length)
            ids = np.append(np.full((len(some), 1), BEGIN), places.ids[flat], axis=1)
            if net.task == "sequence":
                yield Batch(ids, np.array([length if net.causal else 0]), some[:, None])
                continue
            for at in np.array_split(np.arange(1, length + 1), 1 + len(some) * int(length) ** 2 // MOST_SCORES):
                yield Batch(ids, at, flat[:, at - 1])
    if places.begins:
        yield Batch(np.array([[BEGIN]]), np.array([0]), np.array([[len(data.tokens)]]))


class Program:
    """The network of a folder on enclosed numbers."""

    def __init__(self, net: Network) -> None:
        _check_sizes(net)
        self.net = net
        self.heads, self.turn = _heads(net)
        self.query, self.key = (Linear(net[f"W_{x}"][self.heads], net[f"b_{x}"][self.heads]) for x in "QK")
        kept = np.flatnonzero(net["W_V"].any(axis=1) | (net["b_V"] != 0))
        self.value = Linear(net["W_V"][kept], net["b_V"][kept])
        self.write = net["W_O"][:, kept]
        self.out = Linear(self.write, net["b_O"])
        self.neurons, self.head = FeedForward(net), StockHead(net)

    def stream(self, ids: Ints, at: Ints, closely: bool) -> Enclosed:
        """What the last norm sees `(B·m, D)` at the places `at` `(m,)` of sequences `(B, n)`."""
        return add(*self.parts(ids, at, closely))

    def parts(
        self, ids: Ints, at: Ints, closely: bool, heard: list[Returned] | None = None
    ) -> tuple[Enclosed, Enclosed]:
        """The same as a sum: the stream in front of the neurons, and what they add; `heard` as for `Neurons`."""
        net = self.net
        # In front of attention a vector is that of its token and place, which occur often: each is evaluated once.
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
        net = self.net
        x = net["tokens"][ids]
        if "places" not in net:
            return Enclosed.of(x, np.zeros_like(x))
        there = net["places"][net.architecture.offset + places]
        both = x + there
        return Enclosed.of(both, np.where((x != 0) & (there != 0), MORE * UNIT_32 * np.abs(both), 0.0))

    def _norm(self, x: Enclosed, number: int) -> Enclosed:
        net = self.net
        return norm(x, net[f"scale_{number}"], net[f"shift_{number}"], net.epsilon, net.architecture.rms)

    def _average(self, x: Enclosed, back: Ints, at: Ints) -> Average:
        """The values that queries at `at` see, averaged; `back` `(B, n)` says which row of `x` stands where."""
        q, k, v = (part(x)[back] for part in (self.query, self.key, self.value))
        if self.turn is not None and len(self.heads):
            q, k = (turned(part, *self.turn) for part in (q, k))
        score, off = scores(q[:, at], k, self.net.width**-0.5)
        there = np.arange(back.shape[1])
        seen = (there <= at[:, None]) if self.net.causal else np.ones((len(at), len(there)), dtype=bool)
        return average(score, off, seen, v)


def _one_row_per_point(x: Enclosed) -> Enclosed:
    return Enclosed(*(part.reshape(-1, part.shape[-1]) for part in x.parts))


def _heads(net: Network) -> tuple[Ints, tuple[Ints, Floats, Floats, float] | None]:
    """Coordinates of the head that scores depend on; how rotary positions turn them."""
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
    return used, (place[partner[used]], sign[used], exponent[used], theta)


def _check_sizes(net: Network) -> None:
    """Sizes within which nothing overflows, padding included; no token types."""
    if "types" in net and net["types"].any():
        raise UnhandledError("the table of token types is not 0")
    if net.width > 2**14 or not LEAST_EPSILON <= net.epsilon <= 1.0:
        raise UnhandledError("the width is too large, or the norms' epsilon out of bounds")
    if max(float(np.abs(part).max(initial=0.0)) for part in net.arrays.values()) > LARGEST_STORED:
        raise UnhandledError(f"stored numbers are larger than {LARGEST_STORED:g}")
    # Padding is masked, but must be finite: the product of any query and key there.
    length = net.width**0.5 * np.abs(net["scale_1"]).max() + np.linalg.norm(net["shift_1"])
    sizes = [np.linalg.norm(net[f"W_{x}"]) * length + np.linalg.norm(net[f"b_{x}"]) for x in "QK"]
    if not sizes[0] * sizes[1] <= 2.0**100:
        raise UnhandledError("scores of padding may not be finite")
