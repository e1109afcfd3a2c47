"""How exactly norms see the direction of what a neuron wrote (Lemma A4 of docs/proofs-attached.md).

Whoever builds neurons and whoever judges them need the same bound: the one must not accept what the other cannot prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.huggingface.formats import SUM_UNIT, HostFormat

LONGER = 1.0 + 2.0**-4
"""L is lowered only as long as it is this many times the length of the longest state that was measured, because
rounding changes lengths from one evaluation to the next."""
SHORTEST = 1.0
"""L is not lowered below this either. ε in norms shortens û at states that short, so hardly any is on a cap."""


class Seen(NamedTuple):
    """For written rows `(N,)`: δ, how far the state behind the block is from the row, and σ, how far what a norm
    returns is from the row's direction, as a share of √D, before it is rounded to the format."""

    delta: Floats
    sigma: Floats


class SeenBy(NamedTuple):
    """What norms are like: their width D, the format, ε, and the length L of the longest state of the host."""

    width: int
    fmt: HostFormat
    epsilon: float
    state: float

    def at(self, returned: Floats, whole: Floats, part: Floats, beside: Ints, summed: Floats) -> Seen:
        """δ and σ of written rows `(N,)`.

        `returned`: the least that neurons return which write the row, a. `whole`, `part`: the length of the row, and of
        the part that norms see. `beside`: how many other neurons may write. `summed`: γ of the sum of all of them.
        """
        D, v, least = self.width, self.fmt.unit, returned * part
        with np.errstate(divide="ignore", invalid="ignore"):
            state, kappa = self.state / least, whole / part
            rounding = 3.0 * summed + 2.02 * v
            delta = state + rounding * (kappa + state) + (beside + 4) * np.sqrt(D) * self.fmt.lost / least
            behind = (kappa + delta) / (1.0 - delta)  # κ of the state behind the block
            sigma = 2.0 * delta + 2.0 * (D + 16) * SUM_UNIT * behind * behind + D * self.epsilon / least**2
        return Seen(delta, sigma)


def kept_of(inputs: Any, fmt: HostFormat) -> Any:
    """What an activation returns at least at such inputs, which are not below f, once it is rounded (A3)."""
    return (0.999 - 4.0 * fmt.unit) * inputs


def may_wake(sigma: Floats, eta: float, fmt: HostFormat) -> Floats:
    """How far below its height of silence the product of a later key with a written direction must stay.

    What the norm returns is rounded to the format, which moves it by v |û|, and |û| is at most 1 + σ. `eta`: η.
    """
    margin: Floats = (1.0 + fmt.unit) * sigma + eta + 2.0**-20
    return margin


def lengths_to_prove(fmt: HostFormat, measured: float | None) -> Iterator[float]:
    """The lengths L of states for which answers may be proved, the largest first.

    L is that of the format, doubled until it covers the longest state that was `measured`, and then halved as long as
    it still does. If none was measured, there is one L.
    """
    state = fmt.state
    while state < (measured or 0.0):
        state *= 2.0
    yield state
    least = state if measured is None else max(SHORTEST, LONGER * measured)
    while least <= state / 2.0 < state:
        state /= 2.0
        yield state
