"""Whether a readout holds nothing but the data: the other half of a certificate, for models that were made to forget.

docs/editing.md: a construction puts one step, as wide as a power of two allows, into the middle of the gap of each two
neighbours with different labels. So a readout that holds only the data has a labelled point on every plateau, and every
step, up to the rounding of the points beside it, where these put it.

    plateau with a point ─┐                ┌─ another: the step stands in the middle of L R
                     L ●──┘  ·········  ┌──● R

In a cascade it holds stage by stage: the points of a stage are those whose stretch is a crowd, where something of a
label is still missing, and the two ends of every other stretch, where nothing is; and a plateau writes the least of
what its points miss (of real labels: all of it, or 0).
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stages import Stage
from monolayer.checker.stored import Stored
from monolayer.data import Sequences
from monolayer.data.fingerprint import contained, fingerprints

CLAIM = (
    "; and the readout holds nothing else: every plateau has a labelled point, every step stands in the middle of the "
    "gap between two of them; no token has a row, and no point a fingerprint, that the data lack"
)
CLAIM_STAGES = (
    "; and the readout holds nothing else: every plateau of every stage has a labelled point, or an end of a stretch "
    "where no label is missing, and writes the least of what is missing there; every step stands in the middle of the "
    "gap between two of these; stretches are numbered one after the other; no token has a row, and no point a "
    "fingerprint, that the data lack. How far the stretches reach that are left to a later stage is not judged"
)


def leftover(stored: Stored, stages: list[Stage], wanted: Floats, rows: Ints | None) -> str | None:
    """What the model holds besides the data, or None. `wanted` `(m, M)`: the labels of the points, in their order.

    Every point is on its plateau in every evaluation; `rows` `(T,)` are vocabulary rows of the tokens.
    """
    if stages[0].stairs.slope is not None:
        raise UnhandledError("what the paper readout holds besides the data is not told apart from its rounding errors")
    missing, m, classes = wanted, len(wanted), stored.config["target"] == "classes"
    for number, stage in enumerate(stages):
        found, mine, lacks = None, stage, missing
        if number:
            found, mine, lacks = _crowds(stage, stages[number - 1], missing)
        found = found or _misplaced(stored, mine, m, len(stages) > 1)
        if found is None and (classes or len(stages) > 1):  # reals of one line are compared with their labels before
            found = _more(mine, lacks, classes)
        if found is not None:
            return found if len(stages) == 1 else f"stage {number + 1}: {found}"
        missing = missing - stage.stairs.level[:m, stage.plateau]
    if rows is not None and stored.vocabulary is not None:
        known = ~np.isnan(stored["lift.weight"]).all(axis=1)  # a key beside a NaN tells of its token too
        known[rows[rows >= 0]] = False
        if known.any():
            name = stored.vocabulary.names[int(np.flatnonzero(known)[0])]
            return f"the token {name!r} has a row, and does not occur in the data; {int(known.sum()):,} such tokens"
    return None


def _misplaced(stored: Stored, stage: Stage, m: int, staged: bool) -> str | None:
    """A plateau without a point, or a step that is not where its points put it."""
    z, radius, plateau, stairs = stage.z, stage.radius, stage.plateau, stage.stairs
    low, high, level = stairs.low, stairs.high, stairs.level
    empty = np.flatnonzero(np.bincount(plateau, minlength=level.shape[1]) == 0)
    if len(empty):
        ends = np.append(-np.inf, high)[empty[0]], np.append(low, np.inf)[empty[0]]
        where = (
            f"the plateau from {ends[0]:.17g} to {ends[1]:.17g}, with {_label(stored, level[:m, empty[0]], staged)},"
        )
        return f"{where} holds no labelled point; {len(empty):,} such plateaus"
    flat = np.flatnonzero((level[:, 1:] == level[:, :-1]).all(axis=0))
    if len(flat):
        return f"the step at {low[flat[0]]:.17g} changes nothing; {len(flat):,} such steps"
    right = np.searchsorted(plateau, np.arange(1, len(low) + 1), side="left")
    left = right - 1
    gap, width = z[right] - z[left], high - low
    room = radius[left] + radius[right] + 16.0 * stored.format.unit * np.maximum(np.abs(z[left]), np.abs(z[right]))
    off = np.abs((low + high) / 2.0 - (z[left] + z[right]) / 2.0)
    odd = np.flatnonzero(~((off <= room) & (width >= (gap - room) / 8.0 - room) & (width <= (gap + room) / 4.0 + room)))
    if len(odd):
        return (
            f"the step at {low[odd[0]]:.17g} stands {off[odd[0]]:.3g} from the middle of its gap, or is too "
            f"wide or too narrow for it: something else put it there; {len(odd):,} such steps"
        )
    return None


def _label(stored: Stored, level: Floats, staged: bool) -> str:
    """What a plateau writes, in words."""
    if staged:
        return f"the number {level.tolist()!r}"
    if stored.classes is None:
        return f"the label {level.tolist()!r}"
    return f"the label {stored.classes.names[int(np.clip(np.rint(level[0]), 0, len(stored.classes) - 1))]!r}"


def _crowds(stage: Stage, before: Stage, missing: Floats) -> tuple[str | None, Stage, Floats]:
    """The points of a later stage, in order of `z`, and what they miss `(m, Q)`; or why the stage has no business."""
    assert stage.read is not None
    stretch = before.stairs.level[-1]
    crowd = np.unique(stage.read[(missing != 0.0).any(axis=0)])
    every = stretch[np.append(True, stretch[1:] != stretch[:-1])]
    if not np.array_equal(every, np.arange(len(every)) - len(every) // 2):
        return "the stretches of the line before do not have the numbers that count them", stage, missing
    calm = ~np.isin(every, crowd)
    if len(crowd) == 0 or (calm[1:] & calm[:-1]).any():
        why = "the line before is cut into stretches where no label is missing on either side of the cut"
        return why, stage, missing
    held, rest = np.isin(stage.read, crowd), every[calm]
    ends = np.concatenate([rest - stage.reach, rest + stage.reach])
    z = np.concatenate([stage.z[held], ends])
    radius = np.concatenate([stage.radius[held], np.zeros(len(ends))])
    plateau = np.concatenate([stage.plateau[held], np.searchsorted(stage.stairs.low, ends, side="left")])
    lacks = np.concatenate([missing[:, held], np.zeros((len(missing), len(ends)))], axis=1)
    order = np.argsort(z, kind="stable")
    return None, stage._replace(z=z[order], radius=radius[order], plateau=plateau[order]), lacks[:, order]


def _more(stage: Stage, lacks: Floats, classes: bool) -> str | None:
    """A plateau that writes something else than the least of what its points miss."""
    first = np.flatnonzero(np.append(True, stage.plateau[1:] != stage.plateau[:-1]))
    least = np.minimum.reduceat(lacks, first, axis=1)
    if not classes:
        same = (least == np.maximum.reduceat(lacks, first, axis=1)).all(axis=0)
        least = np.where(same, least, 0.0)
    written = stage.stairs.level[: len(lacks), stage.plateau[first]]
    odd = np.flatnonzero((written != least).any(axis=0))
    if len(odd):
        got, want = written[:, odd[0]].tolist(), least[:, odd[0]].tolist()
        return f"a plateau writes {got}, and {want} is the least that its points miss; {len(odd):,} such plateaus"
    return None


def remembered(stored: Stored, data: Sequences, rows: Ints | None) -> str | None:
    """Fingerprints of points that the data lack, in words, or None; `rows` as above."""
    if stored.memory is None or rows is None:
        return None
    ours, config = Sequences(rows, data.lengths, stored.vocabulary), stored.config
    found = np.unique(fingerprints(ours, config["per"], positions=config["positions"], causal=config["causal"]))
    strange = int((~contained(stored.memory, found)).sum())
    return f"{strange:,} of {len(stored.memory):,} fingerprints are of points that the data lack" if strange else None
