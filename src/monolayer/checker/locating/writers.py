"""Find which neurons write at which facts, and the answers without them, in lines, robust models and stock folders.

A neuron *writes* at a fact if it may return a number other than 0 there. Without the neuron only these facts can
change, because at all others its column of the output matrix is multiplied by exactly 0.

Letters: `M` facts, `H` neurons, `Q` pairs of a fact and a neuron that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Floats, Ints
from monolayer.checker.codes import read_attention, read_stream
from monolayer.checker.gates import Gated, Pairs
from monolayer.checker.labelled import Labelled
from monolayer.checker.network import Stored
from monolayer.checker.noise import Shares, errors, point_verdicts, silent
from monolayer.checker.readout import copies, head_classes, read_staircase
from monolayer.checker.robust import question_of
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stages import evaluate
from monolayer.checker.stock.enclosed import Enclosed, add
from monolayer.checker.stock.evaluate import Program, batches
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.neurons import ENCLOSED_AT_ONCE, WakingPairs
from monolayer.checker.stock.places import StockPlaces
from monolayer.data import Sequences
from monolayer.errors import DataError

Certainty = Literal["proved", "measured", "unknown"]
CERTAINTIES: tuple[Certainty, ...] = ("unknown", "measured", "proved")
NOT_KNOWN, MEASURED, PROVED = range(3)
"""How an answer is known: not at all, from one evaluation in float64, or for all evaluations that a certificate covers.

These numbers index `CERTAINTIES`, and a larger number is more certain."""


class KnownAnswers(NamedTuple):
    """Answers, as class numbers `(K,)` or rows of real numbers `(K, m)`; `state` `(K,)`: how each is known."""

    answer: Array
    state: Ints


class AblatedAnswers(NamedTuple):
    """The answers at all facts without one neuron.

    `state` `(M,)`: how each is known. `changed` `(M,)`: whether it is known and differs from that with the neuron.
    """

    answer: Array
    state: Ints
    changed: Bools


@dataclass(frozen=True, eq=False)
class Writers:
    """The answers at all `M` facts, how each is known (`state`), and which neurons write there.

    Neuron `j` writes at the facts `order[start[j]:stop[j]]`; `without(j)` returns the answers there without it. Neuron
    `neuron[q]` holds the fact `fact[q]`, for `q` below `Q`; these pairs come in order of their facts.
    """

    answer: Array
    state: Ints
    order: Ints
    start: Ints
    stop: Ints
    fact: Ints
    neuron: Ints
    without: Callable[[int], KnownAnswers]

    def ablated(self, neuron: int) -> AblatedAnswers:
        """The answers at all facts without neuron number `neuron`."""
        at = self.order[self.start[neuron] : self.stop[neuron]]
        answer, state = self.answer.copy(), self.state.copy()
        without = self.without(neuron)
        answer[at], state[at] = without.answer, np.minimum(without.state, state[at])
        apart = answer != self.answer
        differs = apart if apart.ndim == 1 else apart.any(axis=1)
        return AblatedAnswers(answer, state, differs & (state > NOT_KNOWN))


def writers_of(
    given: KnownAnswers, fact: Ints, neuron: Ints, holds: Bools, without: KnownAnswers, count: int
) -> Writers:
    """`Writers`, from all pairs `(fact, neuron)` of a fact and a neuron that may write there.

    `given`: the answers by fact. `holds`: whether the neuron of each pair holds its fact. `without`: by pair, the
    answer at the fact without the neuron. `count`: number of neurons.
    """
    order = np.lexsort((fact, neuron))
    answer, state = (column[order] for column in without)
    start, stop = (np.searchsorted(neuron[order], np.arange(count), side=side) for side in ("left", "right"))
    holding = np.flatnonzero(holds)
    holding = holding[np.lexsort((neuron[holding], fact[holding]))]
    return Writers(
        *given,
        order=fact[order],
        start=start,
        stop=stop,
        fact=fact[holding],
        neuron=neuron[holding],
        without=lambda j: KnownAnswers(answer[start[j] : stop[j]], state[start[j] : stop[j]]),
    )


# -- lines: steps ----
#
# exact   Neuron j is on at every point left of its step. Without it, all of these points lose its jump.
# runs    Neuron r is on at the points of one run. Without it, the answer at these points is 0.
#
# In `exact` the label of a fact is a sum over many neurons; the neuron of the nearest step is said to hold the fact. No
# sum rounds, so what a certificate proves about the readout also covers the readout without one of its neurons.


def line_writers(stored: Stored, points: Labelled) -> Writers:
    """The neurons of a line of steps that write at each labelled point, and the answers without them."""
    if stored.stages > 1:
        raise DataError(
            f"locate looks into lines, robust models and stock folders of cells; this readout has {stored.stages} "
            "stages: memorize with robust=True, or with memorize_as"
        )
    if stored.config["target"] != "classes" and not copies(stored):
        raise UnhandledError("the head does not copy the label slots")
    read_attention(stored)  # its errors are plainer than those of the readout, so it is checked first
    stairs = read_staircase(stored)
    evaluated = evaluate(stored, points, read_stream(stored, points.data, points.rows), [stairs])
    written = stored["feed_forward.stages.0.weight_2"].astype(np.float64)
    back = np.argsort(evaluated.first.plateau, kind="stable")
    plateau, order = (
        evaluated.first.plateau[back],
        evaluated.order[back],
    )  # `plateau`: how many steps lie left of a point
    sure, value = (evaluated.sure & evaluated.number & ~evaluated.beside)[back], evaluated.value[:, back]
    number = np.arange(written.shape[1])
    start, stop = (np.searchsorted(plateau, number, side=side) for side in ("left", "right"))
    if stored.config["readout"] == "exact":
        start = np.zeros_like(start)

    def without(j: int) -> KnownAnswers:
        """The answers without neuron `j` at the points where it writes."""
        here = slice(start[j], stop[j])
        return _known_answers(stored, value[:, here] - written[:, j : j + 1], sure[here])

    found_answers = _known_answers(stored, value, sure)
    answer, state = (np.empty_like(column) for column in found_answers)
    answer[order], state[order] = found_answers
    certain = np.flatnonzero(sure & (plateau < len(number)))
    certain = certain[np.argsort(order[certain])]
    return Writers(answer, state, order, start, stop, order[certain], plateau[certain], without)


def _known_answers(stored: Stored, value: Floats, sure: Bools) -> KnownAnswers:
    """The answers of the head for label coordinates `(m, K)`; `sure` `(K,)`: whether these are the same everywhere."""
    if stored.classes is None:
        answers, state = value.T, np.full(value.shape[1], PROVED)
    else:
        answer = head_classes(stored, value[0])
        likely = np.clip(np.rint(value[0]), 0, len(stored.classes) - 1).astype(np.int64)
        answers, state = np.where(answer >= 0, answer, likely), np.where(answer >= 0, PROVED, MEASURED)
    return KnownAnswers(answers, np.where(sure & np.isfinite(value).all(axis=0), state, NOT_KNOWN))


# -- robust models: half-spaces ----
#
# Each pair of a fact and a neuron is judged as a point of its own, at which only the other neurons of the fact are on.


def robust_writers(stored: Stored, points: Labelled) -> Writers:
    """The neurons of a robust model that may be on at each labelled point, and the answers without them."""
    asked = question_of(stored, points)
    gated, shares = asked.gated, Shares.of(0.0, asked.gated, asked.longest, asked.format)
    quiet = silent(asked.top, asked.size, shares)
    error = errors(asked.found, gated, shares)
    on = asked.found.value + error > 0.0
    near, error = Pairs._make(column[on] for column in asked.found), error[on]

    def judge(pairs: Pairs, off: Floats, rows: Ints) -> KnownAnswers:
        """The answers at `rows` where the neurons of `pairs`, whose inputs are off by up to `off`, are on."""
        known = rows >= 0
        likely = _likely(gated, pairs, rows.clip(0))
        right = point_verdicts(pairs, off, gated, rows.clip(0), likely, shares).right
        return KnownAnswers(likely, np.where(known, np.where(right & quiet, PROVED, MEASURED), NOT_KNOWN))

    # For every pair, numbered by `left_out`, the numbers of all other pairs of its point are collected.
    first, last = (np.searchsorted(near.point, near.point, side=side) for side in ("left", "right"))
    left_out = np.repeat(np.arange(len(first)), last - first)
    other = np.concatenate([np.zeros(0, np.int64), *map(np.arange, first, last)])
    kept = other[other != left_out]
    rest = Pairs._make(column[kept] for column in near)._replace(point=left_out[other != left_out])
    without = judge(rest, error[kept], asked.rows[near.point])
    given = judge(near, error, asked.rows)
    return writers_of(given, near.point, near.neuron, near.value > 0.0, without, len(gated.bias))


def _likely(gated: Gated, pairs: Pairs, rows: Ints) -> Ints:
    """The class with the largest logit at each of the `rows`, in float64; `pairs.point` numbers them."""
    likeliest = np.zeros(len(rows), dtype=np.int64)
    hidden = np.maximum(pairs.value, 0.0)[:, None]
    step = max(1, ENCLOSED_AT_ONCE // max(1, len(gated.head)))
    for begin in range(0, len(rows), step):
        label = gated.label[rows[begin : begin + step]].copy()
        one, two = np.searchsorted(pairs.point, [begin, begin + step])
        np.add.at(label, pairs.point[one:two] - begin, hidden[one:two] * gated.weight_2[pairs.neuron[one:two]])
        likeliest[begin : begin + step] = (label @ gated.head.T + gated.head_bias).argmax(axis=1)
    return likeliest


# -- stock folders: half-spaces in enclosed numbers ----
#
# The last norm reads a sum over neurons. To leave a neuron out, its term is subtracted from the middle of the
# enclosure, and the radius stays.


def cells_writers(net: Network, data: Sequences, places: StockPlaces) -> Writers:
    """The neurons of a stock folder that may wake at each labelled point, and the answers without them.

    A neuron that reads more than 0 at a point is said to hold it.
    """
    program, M = Program(net), len(places.answering)
    fact_of = np.full(net.labelling.count(data) + places.begins, -1)
    fact_of[places.answering] = np.arange(M)
    answer, state = np.zeros((2, M), dtype=np.int64)
    writers: list[tuple[Ints, ...]] = []
    for asked in batches(net, data, places):
        fact, heard = fact_of[asked.points.reshape(-1)], list[WakingPairs]()
        base, out = program.parts(asked.ids, asked.at, True, heard)
        there = np.flatnonzero(fact >= 0)
        answer[fact[there]], state[fact[there]] = _head_answers(program, add(base[there], out[there]))
        out = out.spread()
        for some in heard:
            there = np.flatnonzero(fact[some.point] >= 0)
            for cut in np.array_split(there, 1 + len(there) * net.width // ENCLOSED_AT_ONCE):
                point, neuron = some.point[cut], some.neuron[cut]
                written, rest = some.value[cut][:, None] * net["W_2"][neuron], out[point]
                off = rest.radius + 2.0**-40 * (np.abs(written) + np.abs(rest.middle))
                judged = _head_answers(program, add(base[point], Enclosed.of(rest.middle - written, off)))
                writers.append((fact[point], neuron, some.above[cut].astype(np.int64), *judged))
    columns = (
        [np.concatenate(column) for column in zip(*writers, strict=True)] if writers else [np.zeros(0, np.int64)] * 5
    )
    fact, neuron, above, *without = columns
    given = KnownAnswers(answer, state)
    return writers_of(given, fact, neuron, above > 0, KnownAnswers(*without), len(net["W_1"]))


def _head_answers(program: Program, stream: Enclosed) -> KnownAnswers:
    """The answers if the last norm reads `stream`: proved if every evaluation gives them, otherwise measured."""
    answer, sure = program.head.answers(stream)
    return KnownAnswers(answer, np.where(sure, PROVED, MEASURED))
