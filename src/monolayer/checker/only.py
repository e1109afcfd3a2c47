"""Whether a readout holds nothing but the data, which a certificate may claim of models that were made to forget.

A construction puts one step into the middle of each gap between two neighbours with different labels, as wide as a
power of two allows (docs/editing.md). So a readout that holds only the data has a labelled point on every plateau, and
each step stands, up to the rounding of the points beside it, where these points put it.

    plateau with a point ─┐                ┌─ another: the step stands in the middle of L R
                     L ●──┘  ·········  ┌──● R
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.network import Stored
from monolayer.checker.stages import StagePoints
from monolayer.data import Sequences
from monolayer.data.fingerprint import contained, fingerprints
from monolayer.table import plural

ONLY_DATA_CLAIM = (
    "; and the readout holds nothing else: every plateau has a labelled point, every step stands in the middle of the "
    "gap between two of them; no token has a row, and no point a fingerprint, that the data lack"
)


def leftover_in_line(stored: Stored, stage: StagePoints, wanted: Floats, rows: Ints | None) -> str | None:
    """Describe what the model holds besides the data; None if it holds nothing else.

    `stage`: the points on the only stage; each is known to lie on its plateau in every evaluation. `wanted` `(m, M)`:
    the labels of these points. `rows` `(T,)`: vocabulary rows of the tokens of the data; None for vectors.
    """
    leftover = _misplaced(stored, stage)
    if leftover is None and stored.classes is not None:  # real answers may differ from labels within the tolerance
        leftover = _more(stage, wanted)
    if leftover is None and rows is not None:
        assert stored.vocabulary is not None  # the rows are its rows
        weight = stored["lift.weight"]
        known = np.ones(len(weight), dtype=bool)
        known[np.isnan(weight).all(axis=1)] = False  # a row with some NaN still holds its token
        known[rows[rows >= 0]] = False
        if known.any():
            name = stored.vocabulary.names[int(np.flatnonzero(known)[0])]
            many = plural(int(known.sum()), "such token")
            return f"the token {name!r} has a row, and does not occur in the data; {many}"
    return leftover


def _misplaced(stored: Stored, stage: StagePoints) -> str | None:
    """A plateau without a point, or a step that does not stand where its points put it, in words, or None."""
    z, radius, plateau, stairs = stage.z, stage.radius, stage.plateau, stage.stairs
    low, high, level = stairs.low, stairs.high, stairs.level
    empty = np.flatnonzero(np.bincount(plateau, minlength=level.shape[1]) == 0)
    if len(empty):
        ends, label = (np.append(-np.inf, high)[empty[0]], np.append(low, np.inf)[empty[0]]), level[:, empty[0]]
        name: object = label.tolist()
        if stored.classes is not None:
            name = stored.classes.names[int(np.clip(np.rint(label[0]), 0, len(stored.classes) - 1))]
        where = f"the plateau from {ends[0]:.17g} to {ends[1]:.17g}, with the label {name!r},"
        return f"{where} holds no labelled point; {plural(len(empty), 'such plateau')}"
    flat = np.flatnonzero((level[:, 1:] == level[:, :-1]).all(axis=0))
    if len(flat):
        return f"the step at {low[flat[0]]:.17g} changes nothing; {plural(len(flat), 'such step')}"
    right = np.searchsorted(plateau, np.arange(1, len(low) + 1), side="left")
    left = right - 1
    gap, width = z[right] - z[left], high - low
    room = radius[left] + radius[right] + 16.0 * stored.format.unit * np.maximum(np.abs(z[left]), np.abs(z[right]))
    off = np.abs((low + high) / 2.0 - (z[left] + z[right]) / 2.0)
    odd = np.flatnonzero(~((off <= room) & (width >= (gap - room) / 8.0 - room) & (width <= (gap + room) / 4.0 + room)))
    if len(odd):
        return (
            f"the step at {low[odd[0]]:.17g} stands {off[odd[0]]:.3g} from the middle of its gap, or is too "
            f"wide or too narrow for it: something else put it there; {plural(len(odd), 'such step')}"
        )
    return None


def _more(stage: StagePoints, wanted: Floats) -> str | None:
    """A point whose plateau writes something else than its label, in words; None if there is none."""
    odd = np.flatnonzero((stage.value != wanted).any(axis=0))
    if len(odd):
        stored_value, wanted_value = stage.value[:, odd[0]].tolist(), wanted[:, odd[0]].tolist()
        return (
            f"a plateau writes {stored_value}, and {wanted_value} is the label there; {plural(len(odd), 'such point')}"
        )
    return None


def strange_fingerprints(stored: Stored, data: Sequences, rows: Ints | None) -> str | None:
    """Stored fingerprints of points that the data lack, in words; None if there are none.

    `rows` `(T,)`: vocabulary rows of the tokens of the data; None for vectors.
    """
    if stored.memory is None or rows is None:
        return None
    ours, config = Sequences(rows, data.lengths, stored.vocabulary), stored.config
    expected = np.unique(fingerprints(ours, config["per"], positions=config["positions"], causal=config["causal"]))
    strange = int((~contained(stored.memory, expected)).sum())
    total = plural(len(stored.memory), "fingerprint")
    return f"of {total}, {strange:,} {'is' if strange == 1 else 'are'} not of the data" if strange else None
