"""Whether a readout holds nothing but the data: the other half of a certificate, for models that were made to forget.

docs/editing.md: a construction puts one step, as wide as a power of two allows, into the middle of the gap of each two
neighbours with different labels. So a readout that holds only the data has a labelled point on every plateau, and every
step, up to the rounding of the points beside it, where these put it.

    plateau with a point ─┐                ┌─ another: the step stands in the middle of L R
                     L ●──┘  ·········  ┌──● R
"""

from __future__ import annotations

import numpy as np

from monolayer.checker.readout import Staircase
from monolayer.checker.rounding import BINARY64, Floats, UnhandledError
from monolayer.checker.stored import Stored
from monolayer.data import Sequences
from monolayer.data.fingerprint import contained, fingerprints
from monolayer.data.names import Ints

CLAIM = (
    "; and the readout holds nothing else: every plateau has a labelled point, every step stands in the middle of the "
    "gap between two of them; no token has a row, and no point a fingerprint, that the data lack"
)


def leftover(
    stored: Stored, stairs: Staircase, z: Floats, radius: Floats, passed: Ints, rows: Ints | None
) -> str | None:
    """What the model holds besides the data, or None. `z`, `radius`, `passed` `(M,)`: the labelled points, in order.

    Every point is on the plateau `passed` in every evaluation; `rows` `(T,)` are vocabulary rows of the tokens.
    """
    if stairs.slope is not None:
        raise UnhandledError("what the paper readout holds besides the data is not told apart from its rounding errors")
    steps = len(stairs.low)
    empty = np.flatnonzero(np.bincount(passed, minlength=steps + 1) == 0)
    if len(empty):
        return f"{_plateau(stored, stairs, int(empty[0]))} holds no labelled point; {len(empty):,} such plateaus"
    flat = np.flatnonzero((stairs.level[:, 1:] == stairs.level[:, :-1]).all(axis=0))
    if len(flat):
        return f"the step at {stairs.low[flat[0]]:.17g} changes nothing; {len(flat):,} such steps"
    step = np.arange(steps)
    left, right = np.searchsorted(passed, step, side="right") - 1, np.searchsorted(passed, step + 1, side="left")
    gap, width = z[right] - z[left], stairs.high - stairs.low
    room = radius[left] + radius[right] + 16.0 * BINARY64.unit * np.maximum(np.abs(z[left]), np.abs(z[right]))
    off = np.abs((stairs.low + stairs.high) / 2.0 - (z[left] + z[right]) / 2.0)
    odd = np.flatnonzero(~((off <= room) & (width >= (gap - room) / 8.0 - room) & (width <= (gap + room) / 4.0 + room)))
    if len(odd):
        return (
            f"the step at {stairs.low[odd[0]]:.17g} stands {off[odd[0]]:.3g} from the middle of its gap, or is too "
            f"wide or too narrow for it: something else put it there; {len(odd):,} such steps"
        )
    if rows is not None and stored.vocabulary is not None:
        known = np.isfinite(stored["lift.weight"]).all(axis=1)
        known[rows[rows >= 0]] = False
        if known.any():
            name = stored.vocabulary.names[int(np.flatnonzero(known)[0])]
            return f"the token {name!r} has a row, and does not occur in the data; {int(known.sum()):,} such tokens"
    return None


def remembered(stored: Stored, data: Sequences, rows: Ints | None) -> str | None:
    """Fingerprints of points that the data lack, in words, or None; `rows` as above."""
    if stored.memory is None or rows is None:
        return None
    ours, config = Sequences(rows, data.lengths, stored.vocabulary), stored.config
    found = np.unique(fingerprints(ours, config["per"], positions=config["positions"], causal=config["causal"]))
    strange = int((~contained(stored.memory, found)).sum())
    return f"{strange:,} of {len(stored.memory):,} fingerprints are of points that the data lack" if strange else None


def _plateau(stored: Stored, stairs: Staircase, number: int) -> str:
    """A plateau in words, with its label."""
    low, high = np.append(-np.inf, stairs.high)[number], np.append(stairs.low, np.inf)[number]
    level = stairs.level[:, number]
    label = repr(level.tolist())
    if stored.classes is not None:
        label = repr(stored.classes.names[int(np.clip(np.rint(level[0]), 0, len(stored.classes) - 1))])
    return f"the plateau from {low:.17g} to {high:.17g}, with the label {label},"
