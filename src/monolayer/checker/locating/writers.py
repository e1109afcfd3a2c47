"""Which neurons write at which facts, and the answers without them: the same few arrays for every construction.

A neuron *writes* at a fact where what it returns there may be other than 0. Without it, only those facts can change: at
all others its column of the output matrix is multiplied by exactly 0.

Letters: `M` facts, `H` neurons, `Q` pairs of a fact and a neuron that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Ints

Verdict = Literal["proved", "measured", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("unknown", "measured", "proved")
UNKNOWN, MEASURED, PROVED = range(3)
"""Of an answer: it is not known; by one evaluation in float64; in every evaluation that a certificate covers."""
Answers = tuple[NDArray[Any], Ints]
"""Class numbers `(K,)` or rows of real numbers `(K, m)`, and what is known of each."""


@dataclass(frozen=True, eq=False)
class Writers:
    """Answers at all facts, each with what is known of it (`state`).

    Neuron `j` writes at the facts `order[start[j]:stop[j]]`, which `without(j)` answers without it. It holds `fact[q]`
    where `neuron[q] = j`; pairs come in order of their facts.
    """

    answer: NDArray[Any]
    state: Ints
    order: Ints
    start: Ints
    stop: Ints
    fact: Ints
    neuron: Ints
    without: Callable[[int], Answers]

    def ablated(self, neuron: int) -> tuple[NDArray[Any], Ints, Bools]:
        """Without one neuron: the answer at every fact, what is known of it, and where it is surely another."""
        at = self.order[self.start[neuron] : self.stop[neuron]]
        answer, state = self.answer.copy(), self.state.copy()
        answer[at], known = self.without(neuron)
        state[at] = np.minimum(known, state[at])
        apart = answer != self.answer
        return answer, state, (apart if apart.ndim == 1 else apart.any(axis=1)) & (state > UNKNOWN)


def listed(given: Answers, fact: Ints, neuron: Ints, holds: Bools, without: Answers, count: int) -> Writers:
    """From all pairs of a fact and one of `count` neurons that may write there, some of which hold it.

    `given`, `without`: answers by fact and by pair.
    """
    order = np.lexsort((fact, neuron))
    answer, state = (column[order] for column in without)
    start, stop = (np.searchsorted(neuron[order], np.arange(count), side=side) for side in ("left", "right"))
    held = np.flatnonzero(holds)
    held = held[np.lexsort((neuron[held], fact[held]))]
    return Writers(
        *given,
        order=fact[order],
        start=start,
        stop=stop,
        fact=fact[held],
        neuron=neuron[held],
        without=lambda j: (answer[start[j] : stop[j]], state[start[j] : stop[j]]),
    )
