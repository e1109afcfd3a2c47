"""Code and context apart, out of core: `construct/line/apart.py` over ranges of points in order of code, then context.

`codes-D-B` holds, for draw `D`, the codes, the contexts and the label numbers of block `B` in that order; `cells-D-R`
the steps of range `R` as the safetensors file that they stay in, and of every cell in it the code, the first label and
how many steps it has there. A cell may go on in the next range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Rules, named, raw
from monolayer.cluster.crowds import begin_of_part
from monolayer.cluster.ranges import Slices
from monolayer.cluster.spill import Spill
from monolayer.cluster.work import Work
from monolayer.construct.line.points import SLACK, Floats
from monolayer.construct.line.ramps import ramps
from monolayer.construct.line.separate import HOPELESS

if TYPE_CHECKING:
    from monolayer.construct.line.draw import Draw, Tokens
    from monolayer.construct.target import Target

Points = tuple[Floats, Floats, NDArray[Any]]
"""Codes, contexts and label numbers `(P,)`."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A draw with room for all steps of all cells. `gate`, `base`, `count` `(A,)`, `parts`: as the readout has them."""

    draw: Draw
    gate: Floats
    base: Floats
    count: Floats
    parts: tuple[dict[str, Any], ...]
    tried: int

    @property
    def steps(self) -> int:
        return int(self.count.sum())

    @property
    def margin(self) -> float | None:
        """The least gap of a step in rounding errors, None without steps."""
        return min((float(part["margin"]) for part in self.parts if int(part["steps"])), default=None)


def cells(
    work: Work, rules: Rules, pieces: list[Block], some: tuple[Tokens, Target], drawn: list[Draw], labelled: int
) -> Cells | None:
    """The first of the draws, in the order in which they are promising, that serves; None if none does."""
    for tried, draw in enumerate(drawn, 1):
        found = _cells(work, rules, pieces, some, draw, labelled, tried)
        if isinstance(found, Cells):
            return found
        if found > HOPELESS:
            return None
    return None


def _cells(
    work: Work,
    rules: Rules,
    pieces: list[Block],
    some: tuple[Tokens, Target],
    draw: Draw,
    labelled: int,
    tried: int,
) -> Cells | int:
    """The cells of a draw; or how many neighbours with different labels are too close."""
    spill, seen = work.spill, tables.for_workers(draw, rules)
    at = _splitters(draw, *some, max(1, -(-2 * labelled // work.room.range)))
    names = [f"codes-{tried}-{i:05}" for i in range(len(pieces))]
    parts = [f"cells-{tried}-{r:05}" for r in range(len(at) + 1)]
    if not all(map(spill.finished, parts)):
        tasks: dict[str, Any] = {name: (block, rules, seen, at) for name, block in zip(names, pieces, strict=True)}
        work.do("setting code and context apart", (0.98, 0.985), codes, tasks)
        bounds = {name: spill.facts(name)["bounds"].tolist() for name in names}
        error = draw.context_error(some[0])
        own = {
            part: (r, [(name, *cuts[r : r + 2], cuts[-1]) for name, cuts in bounds.items()], rules, error, draw.unit)
            for r, part in enumerate(parts)
        }
        work.do("building the steps of cells", (0.985, 0.995), steps, own)
    spill.drop(*names)
    held: list[dict[str, Any]] = [{"name": part, **spill.facts(part)} for part in parts]
    close = sum(int(part["close"]) for part in held)
    if close:
        return close
    gate, base, count = np.concatenate([part["cells"] for part in held], axis=1)
    first = np.flatnonzero(np.diff(gate, prepend=np.nan) != 0)  # a cell that goes on in the next range is one cell
    gate, base, count = gate[first], base[first], np.add.reduceat(count, first)
    most = sum(float(part["size"]) for part in held) + float(base.sum()) + float(count.max())
    if most * draw.unit >= 1.0 or not (np.abs(gate) * 4.0 * draw.unit < 1.0).all():
        return HOPELESS + 1  # sums of labels, or codes, would round
    return Cells(draw, gate, base, count, tuple(held), tried)


def _splitters(draw: Draw, tokens: Tokens, target: Target, ranges: int) -> list[tuple[float, float]]:
    """Codes with contexts that cut a sample into ranges of about equal size."""
    from monolayer.model.shortcut import spread

    context = draw.contexts(tokens)
    context = context if tokens.causal else spread(context, tokens.lengths)
    code, c = draw.codes(tokens).numpy(), context.numpy()
    order = np.lexsort((c, code))
    at = [int(order[i * len(order) // ranges]) for i in range(1, ranges)]
    return [(float(code[i]), float(c[i])) for i in at]


def codes(spill: Spill, name: str, block: Block, rules: Rules, draw: Any, splitters: list[tuple[float, float]]) -> None:
    """The points of a block, and where the ranges begin."""
    here = raw(spill, block, rules)
    data, target = named(here, rules)
    c = tables.contexts(draw, here, rules)
    c = c if rules.causal else np.repeat(c, data.lengths)
    plain = isinstance(draw, tables.Tables)
    code: Floats = draw.code.take(data.tokens) if plain else draw.codes(rules.tokens(data)).numpy()
    if target.place is not None:
        code, c = code[target.place], c[target.place]
    order = np.lexsort((c, code))
    code, c, label = code[order], c[order], target.number[order].astype(np.min_scalar_type(rules.labels))
    inner = []
    for one, two in splitters:
        begin, end = np.searchsorted(code, one), np.searchsorted(code, one, side="right")
        inner.append(int(begin + np.searchsorted(c[begin:end], two)))
    spill.write(name, [code, c, label], bounds=np.array([0, *inner, len(code)]))


def _piece(spill: Spill, name: str, begin: int, end: int, total: int, rules: Rules) -> Points:
    file, kind = spill.numbers(name), np.min_scalar_type(rules.labels)
    code = np.fromfile(file, np.float64, end - begin, offset=8 * begin)
    c = np.fromfile(file, np.float64, end - begin, offset=8 * (total + begin))
    label = np.fromfile(file, kind, end - begin, offset=16 * total + kind.itemsize * begin)
    if not len(code) == len(c) == len(label) == end - begin:
        raise OSError(f"{file} was cut short while it was in use")
    return code, c, label


def steps(spill: Spill, name: str, number: int, slices: Slices, rules: Rules, error: float, unit: float) -> None:
    """Range `number` as a part of the readout; `error`: of a context, before its last rounding."""
    held: list[Points] = [(np.zeros(0), np.zeros(0), np.zeros(0, np.uint8))]
    before = [_piece(spill, each, begin - 1, begin, total, rules) for each, begin, _, total in slices if begin > 0]
    if before:  # the point before the range: the step behind it belongs here
        held.append(max(before, key=lambda point: (float(point[0][0]), float(point[1][0]))))
    held += [_piece(spill, each, begin, end, total, rules) for each, begin, end, total in slices]
    code, c, label = (np.concatenate(column) for column in zip(*held, strict=True))
    order = np.lexsort((c, code))
    code, c, label = code[order], c[order], label[order].astype(np.float64)
    same = code[1:] == code[:-1]
    change = np.flatnonzero(same & (label[1:] != label[:-1]))
    left, right = c[change], c[change + 1]
    room = (right - left) / (error + unit * np.maximum(np.abs(left), np.abs(right)))
    close = int(np.count_nonzero(~(room >= SLACK)))  # a NaN is no gap either
    with np.errstate(all="ignore"):  # what is too close is not used
        slope, start = ramps(left, right)
        jump = label[change + 1] - label[change]
        tensors = slope, -slope * start, jump
    begin = np.flatnonzero(np.append(True, ~same)[: len(code)])
    count = np.diff(np.append(np.searchsorted(change, begin), len(change)))
    spill.write(
        name,
        [begin_of_part(number, len(change), False), *tensors],
        hashed=True,
        steps=len(change),
        margin=float(room.min(initial=np.inf)),
        close=close,
        size=float(np.abs(jump).sum()),
        cells=np.stack([code[begin], label[begin], count.astype(np.float64)]),
    )
