"""Why data do not fit on a line: the format cannot hold them, or the rank that is allowed; and what would hold them."""

from __future__ import annotations

import numpy as np

from monolayer.construct.consistency import Context
from monolayer.construct.line.alphabet import UNIT
from monolayer.construct.line.draw import averaging
from monolayer.construct.line.points import SLACK
from monolayer.construct.line.separate import Separated
from monolayer.construct.line.values import LARGEST_RANK
from monolayer.construct.task import Task
from monolayer.data.number_formats import FLOAT32, FLOAT64, FORMATS
from monolayer.errors import DataError, PrecisionError


def check_format(task: Task, dtype: str) -> None:
    """Classes, labels or tokens that a line in this format cannot hold are an error."""
    if FORMATS[dtype].long:
        return
    if task.vectors is not None:
        raise DataError(f"vectors are memorized in float64, not in {dtype}: leave dtype out, or number the vectors")
    unit, target = FORMATS[dtype].unit, task.target
    # Lemma 10 of docs/proofs.md: the head 2 j y − j² tells classes apart in every evaluation if 32 u C² < 1.
    most = int(np.sqrt(1.0 / (32.0 * unit)))
    if target.classes is not None and 32.0 * unit * len(target.classes) ** 2 >= 1.0:
        raise PrecisionError(
            f"{len(target.classes):,} classes are more than a head in {dtype} tells apart always, {most:,} "
            "at most. Use dtype='float64', or robust=True, whose classes are words of a code"
        )
    if target.classes is None:
        with np.errstate(over="ignore"):  # infinity is no label
            odd = np.argwhere(target.table.astype(dtype).astype(np.float64) != target.table)
        if len(odd):
            value = float(target.table[tuple(odd[0])])
            raise PrecisionError(
                f"the label {value!r} cannot be represented in {dtype}, so no model in that format returns it: "
                f"round the labels (Y.astype('{dtype}')), or use dtype='float64'"
            )


def collision(separated: Separated, context: Context, rank: int | None) -> PrecisionError:
    """The error for data that are consistent but that the format cannot hold at the rank that is allowed.

    `rank`: the least that would hold them, None if none does.
    """
    count, points, target, data = len(separated.margin.close), separated.points, separated.target, context.data
    fmt = FLOAT64 if points.unit == UNIT else FLOAT32
    one, two = separated.colliding()
    if target.place is not None:
        one, two = int(target.place[one]), int(target.place[two])
    low, high = points.ends()
    vectors = data.vocabulary is None  # which have rank 1
    none = "" if rank is not None or vectors else f"; no value rank up to {LARGEST_RANK} tells them apart"
    if separated.draw.kappa is not None:
        return PrecisionError(
            f"with this draw {data.labelled(one)} and {data.labelled(two)} have different labels and lie closer "
            f"together than {SLACK:g} rounding errors{none}. They are different points, not a contradiction: another "
            "draw (memorize without draw=) will tell them apart"
        )
    holds = int(np.sqrt((high - low) / (SLACK * float(points.error(np.array([low, high])).max()))))
    why = f"rank 1 in {fmt.name} can hold about {holds:,} points of this kind, and there are {len(points.z):,}"
    if holds > len(points.z):
        why = f"about {holds:,} points that lie at random could be held, but these {len(points.z):,} crowd together"
    ways = ["split the data over several models, or try another seed if few pairs collide"]
    if vectors:
        ways.insert(0, "merge vectors that are nearly equal, or move them apart")
    if not fmt.long:
        ways.insert(0, "use dtype='float64'")
    why += none
    if rank is not None:
        ways.insert(0, f"leave rank out, or take rank={rank}, which holds them")
    if context.causal and not context.positions:
        why += f". What is seen of {int(data.lengths.max()):,} tokens hardly changes with one more"
        ways.insert(0, "pass positions=True, which gives every place in a sequence its own key and code")
    return PrecisionError(
        f"{count:,} pair{'s' if count > 1 else ''} of points with different labels fell closer together than "
        f"{SLACK:g} rounding errors in every one of {separated.tried} draws, for example {data.labelled(one)} and "
        f"{data.labelled(two)}. They are different points, not a contradiction: {why}. What you can do, best first: "
        f"{'; '.join(ways)}{averaging(separated.draw.temperature)}"
    )
