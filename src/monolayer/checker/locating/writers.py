"""Which neurons write at which facts, and the answers without them: the same few arrays for every construction.

A neuron *writes* at a fact where what it returns there may be other than 0. Without it, only those facts can change: at
all others its column of the output matrix is multiplied by exactly 0.

Letters: `M` facts, `H` neurons, `Q` pairs of a fact and a neuron that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Ints

Verdict = Literal["proved", "measured", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("unknown", "measured", "proved")
UNKNOWN, MEASURED, PROVED = range(3)
"""Of an answer: it is not known; by one evaluation in float64; in every evaluation that a certificate covers."""
AT_ONCE = 1 << 18
"""Pairs looked at together."""
Without = Callable[[Ints, Ints], tuple[NDArray[Any], Ints]]


@dataclass(frozen=True, eq=False)
class Writers:
    """Answers `(M,)`, class numbers or rows of real numbers, each with what is known of it (`state`).

    Neuron `j` writes at the facts `order[start[j]:stop[j]]`. It holds `fact[q]` where `neuron[q] = j`, and `at[q]` is
    the place of that fact in `order`; pairs come in order of their facts. `writing` `(M,)`: how many neurons write.
    `without(neurons, places)`: for pairs of a neuron and a place in `order`, the answer there without the neuron.
    """

    answer: NDArray[Any]
    state: Ints
    order: Ints
    start: Ints
    stop: Ints
    fact: Ints
    neuron: Ints
    at: Ints
    writing: Ints
    without: Without

    def pairs(self, neurons: Ints, at: Ints) -> tuple[NDArray[Any], Bools, Ints]:
        """Answers without a neuron, whether they are other answers, and what is known of that."""
        answer, state = self.without(neurons, at)
        fact = self.order[at]
        return answer, differ(answer, self.answer[fact]), np.minimum(state, self.state[fact])

    def ablated(self, neuron: int) -> tuple[NDArray[Any], Ints]:
        """The answer at every fact without one neuron, and what is known of it."""
        at = np.arange(self.start[neuron], self.stop[neuron])
        answer, state = self.answer.copy(), self.state.copy()
        fact = self.order[at]
        answer[fact], _, state[fact] = self.pairs(np.full(len(at), neuron), at)
        return answer, state

    def tally(self, neurons: Ints) -> Ints:
        """For each neuron, facts that change without it, facts whose answer is then measured, and unknown: `(K, 3)`."""
        found = np.zeros((len(neurons), 3), dtype=np.int64)
        found[:, 1:] = (self.state == MEASURED).sum(), (self.state == UNKNOWN).sum()
        for which, at in self._blocks(neurons):
            _, changes, state = self.pairs(neurons[which], at)
            before = self.state[self.order[at]]
            found[:, 0] += np.bincount(which[changes & (state > UNKNOWN)], minlength=len(found))
            for column, kind in ((1, MEASURED), (2, UNKNOWN)):
                found[:, column] += np.bincount(which[state == kind], minlength=len(found))
                found[:, column] -= np.bincount(which[before == kind], minlength=len(found))
        return found

    def _blocks(self, neurons: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Numbers of neurons and places in `order`, so many pairs at a time."""
        begin = self.start[neurons]
        count = self.stop[neurons] - begin
        ends = np.cumsum(count)
        total = int(ends[-1]) if len(ends) else 0
        for first in range(0, total, AT_ONCE):
            pair = np.arange(first, min(first + AT_ONCE, total))
            which = np.searchsorted(ends, pair, side="right")
            yield which, pair - (ends - count)[which] + begin[which]


def listed(
    given: tuple[Ints, Ints], fact: Ints, neuron: Ints, holds: Bools, without: tuple[Ints, Ints], count: int
) -> Writers:
    """From all pairs of a fact and one of `count` neurons that may write there, some of which hold it.

    `given`, `without`: answers and what is known of them, by fact and by pair.
    """
    order = np.lexsort((fact, neuron))
    fact, neuron, holds = fact[order], neuron[order], holds[order]
    answer, state = (column[order] for column in without)
    at = np.flatnonzero(holds)
    at = at[np.argsort(fact[at], kind="stable")]
    number = np.arange(count)
    return Writers(
        answer=given[0],
        state=given[1],
        order=fact,
        start=np.searchsorted(neuron, number, side="left"),
        stop=np.searchsorted(neuron, number, side="right"),
        fact=fact[at],
        neuron=neuron[at],
        at=at,
        writing=np.bincount(fact[at], minlength=len(given[0])),
        without=lambda neurons, at: (answer[at], state[at]),
    )


def differ(one: NDArray[Any], two: NDArray[Any]) -> Bools:
    """Whether answers differ, `(K,)`; those of real labels are rows."""
    apart = one != two
    return np.asarray(apart if apart.ndim == 1 else apart.any(axis=1))
