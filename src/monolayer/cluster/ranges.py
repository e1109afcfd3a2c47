"""The points, out of core: those of a block in order, cut by `z` into ranges; those of a range, gathered and sorted.

`points-B` holds the points of block `B` in order, as one whole number each (`keys.py`), or `z` and then label numbers
where 64 bits do not hold both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats
from monolayer.cluster import tables
from monolayer.cluster.blocks import Block, Rules, raw
from monolayer.cluster.keys import Keys, Numbers, Packing
from monolayer.cluster.measure import Extent, cut, stored
from monolayer.cluster.spill import Spill
from monolayer.construct.line.points import Points

if TYPE_CHECKING:
    from monolayer.construct.line.draw import Draw


@dataclass(frozen=True)
class Form:
    """How points lie in files: as whole numbers by a `packing`, or as `z` and then the numbers of `labels` labels.

    Or as `z` and then real labels, of `reals` numbers each.
    """

    labels: int
    packing: Packing | None
    reals: int = 0

    @property
    def kind(self) -> np.dtype[Any]:
        """The smallest type that holds label numbers; that of real labels."""
        return np.dtype(np.float64) if self.reals else np.min_scalar_type(self.labels)

    def shaped(self, label: NDArray[Any]) -> NDArray[Any]:
        """Labels as they are read `(P,)`; reals `(P, m)`."""
        return label.reshape(-1, self.reals) if self.reals else label


def form_of(draw: Draw, kappa: float, extent: Extent, rules: Rules) -> Form:
    """For the points of a draw whose contexts have this extent."""
    if rules.reals:
        return Form(0, None, rules.reals)
    reach, least = kappa * max(abs(extent.first), abs(extent.last)), kappa * extent.nearest
    top = reach
    if rules.per == "token":
        if not draw.whole_codes:
            return Form(rules.labels, None)
        top += sum(float(code.abs().max()) for code in (draw.proposal.code, draw.position_code) if code is not None)
        # z = t + κ c with a whole t. Where t = 0 it is κ c. Else it is far from 0 unless κ c passes 1/2: then both are
        # multiples of 2^−53, so their sum is 0 or no less.
        least = min(least, 0.5 if reach < 0.5 else 2.0**-53)
    return Form(rules.labels, Packing.of(least, top * (1.0 + 2.0**-50), rules.labels))


Slices = list[tuple[str, int, int, int]]
"""Pieces that hold points of a range: the name, where the range begins and ends in it, and how many points it has."""


@dataclass(frozen=True)
class Range:
    """Points from one splitter to the next: in which `slices` they lie, and in which `form`; their κ and fixed `error`.

    `most`: how many of them are held at once.
    """

    number: int
    slices: Slices
    form: Form
    kappa: float
    error: float
    most: int

    @property
    def after(self) -> bool:
        """Whether there is a point before them."""
        return any(begin > 0 for _, begin, _, _ in self.slices)

    def points(self, z: Floats, label: NDArray[Any]) -> Points:
        """Points with the rounding errors of these."""
        return Points(z, label, self.kappa, self.error)


class Line(Protocol):
    """Points in order of `z`, then of label."""

    def __len__(self) -> int: ...

    def columns(self, start: int, stop: int) -> tuple[Floats, Numbers]:
        """`z` and label of some of them."""

    def new(self) -> NDArray[np.bool_]:
        """Which of them differ from the one before `(P,)`."""

    def some(self, which: Any) -> Line:
        """Those that a slice or a mask says."""


@dataclass(frozen=True, eq=False)
class Packed:
    """Points as whole numbers."""

    keys: Keys
    packing: Packing
    kind: np.dtype[Any]

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self, start: int, stop: int) -> tuple[Floats, Numbers]:
        here = self.keys[start:stop]
        return self.packing.z(here), self.packing.label(here, self.kind)

    def new(self) -> NDArray[np.bool_]:
        return np.append(True, self.keys[1:] != self.keys[:-1])[: len(self)]

    def some(self, which: Any) -> Line:
        return Packed(self.keys[which], self.packing, self.kind)


@dataclass(frozen=True, eq=False)
class Plain:
    """Points as they are."""

    z: Floats
    label: Numbers

    def __len__(self) -> int:
        return len(self.z)

    def columns(self, start: int, stop: int) -> tuple[Floats, Numbers]:
        return self.z[start:stop], self.label[start:stop]

    def new(self) -> NDArray[np.bool_]:
        other = self.label[1:] != self.label[:-1]
        other = other if other.ndim == 1 else other.any(axis=1)
        return np.append(True, (self.z[1:] != self.z[:-1]) | other)[: len(self)]

    def some(self, which: Any) -> Line:
        return Plain(self.z[which], self.label[which])


def points(
    spill: Spill,
    name: str,
    block: Block,
    rules: Rules,
    draw: Any,
    kappa: float,
    contexts: str,
    form: Form,
    splitters: Floats,
) -> None:
    """The points of a block in order, and where the ranges begin; `contexts`: the piece that has them."""
    here, context = raw(spill, block, rules), stored(spill, contexts, draw)
    if form.packing is not None:
        keys = tables.keys(draw, here, context, rules, kappa, form.packing)
        keys.sort()
        at = form.packing.keys(splitters, np.zeros(len(splitters), dtype=np.uint64))
        spill.write(name, [keys], bounds=cut(keys, at))
        return
    z, label = tables.numbers(draw, here, context, rules, kappa)
    order = np.argsort(z)
    z = z.take(order)
    spill.write(name, [z, label.astype(form.kind).take(order, axis=0)], bounds=cut(z, splitters))


def gather(spill: Spill, range_: Range, *, before: bool = False) -> Line:
    """The points of a range in order. Of more than are held at once, equal ones are kept once.

    `before`: and, as the first, the point that comes before them, if there is one.
    """
    slices, form, most = range_.slices, range_.form, range_.most
    if sum(end - begin for _, begin, end, _ in slices) <= most:
        # Every slice with the point before it: all but the last of these lie before the one that is asked for.
        more = [before and begin > 0 for _, begin, _, _ in slices]
        read = [
            piece(spill, name, total, begin - one, end, form)
            for one, (name, begin, end, total) in zip(more, slices, strict=True)
        ]
        every = in_order(read, form)
        return every.some(slice(max(0, sum(more) - 1), None))
    held = [_last_before(spill, slices, form)] if before else []
    count = 0
    for name, begin, end, total in slices:
        held.append(piece(spill, name, total, begin, end, form))
        count += end - begin
        if count > most:
            every = in_order(held, form)
            held = [every.some(every.new())]
            count = len(held[0])
    return in_order(held, form)


def piece(spill: Spill, name: str, total: int, begin: int, end: int, form: Form) -> Line:
    """Points `begin` to `end` of a piece that has `total`."""
    file = spill.numbers(name)
    first: Any = np.fromfile(file, np.float64 if form.packing is None else np.uint64, end - begin, offset=8 * begin)
    found: Line
    if form.packing is not None:
        found = Packed(first, form.packing, form.kind)
    else:
        size = max(1, form.reals)
        offset = 8 * total + form.kind.itemsize * begin * size
        label = form.shaped(np.fromfile(file, form.kind, (end - begin) * size, offset=offset))
        found = Plain(first[: len(label)], label)
    if len(found) < end - begin:
        raise OSError(f"{file} was cut short while it was in use")
    return found


def _last_before(spill: Spill, slices: Slices, form: Form) -> Line:
    """The point before a range, in order of `z`, then of label; nothing if there is none."""
    found = [piece(spill, name, total, begin - 1, begin, form) for name, begin, _, total in slices if begin > 0]
    every = in_order(found, form)
    return every.some(slice(max(0, len(every) - 1), None))


def in_order(held: list[Line], form: Form) -> Line:
    """Points of several lines as one: sorted as whole numbers, if 64 bits hold `z` and label, else by both."""
    keys = [line.keys for line in held if isinstance(line, Packed)]
    if form.packing is not None:
        every = np.concatenate([np.zeros(0, np.uint64), *keys])
        every.sort()
        return Packed(every, form.packing, form.kind)
    z = np.concatenate([np.zeros(0), *(line.columns(0, len(line))[0] for line in held)])
    nothing = form.shaped(np.zeros(0, form.kind))
    label = np.concatenate([nothing, *(line.columns(0, len(line))[1] for line in held)])
    if form.reals:
        order = np.argsort(z)
        if (np.diff(z.take(order)) == 0.0).any():
            order = np.lexsort((*label.T[::-1], z))  # several times slower
        return Plain(z.take(order), label.take(order, axis=0))
    size = np.abs(z)
    # What all points of one range have in common leaves more room than what all points have.
    packing = Packing.of(size.min(initial=np.inf, where=size > 0.0), size.max(initial=0.0), form.labels)
    if packing is not None:
        every = packing.keys(z, label)
        every.sort()
        return Packed(every, packing, form.kind)
    order = np.argsort(z)
    if (np.diff(z.take(order)) == 0.0).any():
        order = np.lexsort((label, z))  # several times slower
    return Plain(z.take(order), label.take(order))
