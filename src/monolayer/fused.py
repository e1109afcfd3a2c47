"""Passes over many numbers on a GPU, each one kernel that reads its numbers once (Triton).

PyTorch needs a pass per operation for each of these, and a device that waits for its memory spends its time there. What
they compute is what the functions that call them compute without them, to the bit (tests/test_fused.py): sums in the
order of NumPy, no product whose rounding a fused sum could skip. `passes` in `kernels.py` says where they can be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import beside

WIDEST = 64
"""Tokens per sequence up to which a kernel adds them up; each width is compiled by itself."""
_BLOCK = 1024
_FEW = 256
"""Numbers per block where each needs others from anywhere, and waits for them."""


def _grid(count: int, block: int = _BLOCK) -> tuple[int]:
    return (triton.cdiv(count, block),)


def _few(values: Sequence[float], like: Tensor) -> Tensor:
    """A few float64 numbers where `like` lies, without waiting for the device. (Triton rounds what is no tensor.)"""
    numbers: Tensor = beside(np.array(values, np.float64), like)
    return numbers


def try_out() -> None:
    """Run the smallest of the kernels; an error of Triton's where that is impossible."""
    one = torch.ones(2, dtype=torch.float64, device="cuda")
    found = least_room(one.cumsum(0), torch.zeros(1, dtype=torch.int64, device="cuda"), 0.0, 0.5)
    assert found == 1.0, found


# -- contexts -----------------------------------------------------------------------------------------------


@triton.jit
def _contexts_kernel(rows, terms, columns, out, count, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = sequence < count
    begin, moment = terms + columns - 1, terms + columns
    above, below = _added(rows + sequence * WIDTH, moment, terms, real, WIDTH)
    tl.store(out + sequence, (above + tl.load(begin + columns)) / (below + tl.load(begin)), mask=real)


@triton.jit
def _both(token, one, two, real, COLUMN: tl.constexpr):
    row = tl.load(token + COLUMN, mask=real, other=0)
    return tl.load(one + row), tl.load(two + row)


@triton.jit
def _added(token, one, two, real, WIDTH: tl.constexpr):
    """The sums of both tables over the tokens of a sequence, in the order of `contexts.added`."""
    x, y = _both(token, one, two, real, 0)
    if WIDTH > 1:
        if WIDTH < 9:
            s, t = _both(token, one, two, real, 1)
            for column in tl.static_range(2, WIDTH):
                a, b = _both(token, one, two, real, column)
                s += a
                t += b
        else:
            s0, t0 = _both(token, one, two, real, 1)
            s1, t1 = _both(token, one, two, real, 2)
            s2, t2 = _both(token, one, two, real, 3)
            s3, t3 = _both(token, one, two, real, 4)
            s4, t4 = _both(token, one, two, real, 5)
            s5, t5 = _both(token, one, two, real, 6)
            s6, t6 = _both(token, one, two, real, 7)
            s7, t7 = _both(token, one, two, real, 8)
            for start in tl.static_range(9, WIDTH - 7, 8):
                a, b = _both(token, one, two, real, start)
                s0, t0 = s0 + a, t0 + b
                a, b = _both(token, one, two, real, start + 1)
                s1, t1 = s1 + a, t1 + b
                a, b = _both(token, one, two, real, start + 2)
                s2, t2 = s2 + a, t2 + b
                a, b = _both(token, one, two, real, start + 3)
                s3, t3 = s3 + a, t3 + b
                a, b = _both(token, one, two, real, start + 4)
                s4, t4 = s4 + a, t4 + b
                a, b = _both(token, one, two, real, start + 5)
                s5, t5 = s5 + a, t5 + b
                a, b = _both(token, one, two, real, start + 6)
                s6, t6 = s6 + a, t6 + b
                a, b = _both(token, one, two, real, start + 7)
                s7, t7 = s7 + a, t7 + b
            s = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
            t = ((t0 + t1) + (t2 + t3)) + ((t4 + t5) + (t6 + t7))
            for column in tl.static_range(WIDTH - (WIDTH - 1) % 8, WIDTH):
                a, b = _both(token, one, two, real, column)
                s += a
                t += b
        x += s
        y += t
    return x, y


def contexts(rows: Tensor, width: int, terms: Tensor) -> Tensor:
    """Quotients `(N,)` of two sums over each sequence: `terms[1, rows]` over `terms[0, rows]`.

    `rows` `(N · width,)`: sequences one after the other, `width` up to `WIDEST`. `terms` `(2, V + 1)`: the last column
    is added to the sums of every sequence.
    """
    count = len(rows) // width
    out = torch.empty(count, dtype=terms.dtype, device=rows.device)
    _contexts_kernel[_grid(count, _FEW)](rows, terms, terms.shape[1], out, count, WIDTH=width, BLOCK=_FEW)
    return out


@triton.jit
def _places_kernel(rows, code, moved, z, count, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    there = tl.load(code + tl.load(rows + i, mask=real, other=0))
    tl.store(z + i, there + tl.load(moved + i // WIDTH, mask=real, other=0.0), mask=real)


def places_on_line(rows: Tensor, width: int, code: Tensor, moved: Tensor) -> Tensor:
    """`code[rows] + moved` `(N · width,)`, where all tokens of a sequence are `moved` `(N,)` alike."""
    z = torch.empty(len(rows), dtype=code.dtype, device=rows.device)
    _places_kernel[_grid(len(rows))](rows, code, moved, z, len(rows), WIDTH=width, BLOCK=_BLOCK)
    return z


@triton.jit
def _largest_kernel(rows, table, out, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    x = tl.load(table + tl.load(rows + i, mask=real, other=0), mask=real, other=float("-inf"))
    none = tl.sum((x != x).to(tl.int32), axis=0) > 0
    tl.store(out + block, tl.where(none, float("nan"), tl.max(tl.where(x == x, x, float("-inf")), axis=0)))


def largest(table: Tensor, rows: Tensor) -> float:
    """The largest of `table[rows]` `(T,)`; NaN if one of them is."""
    blocks = _grid(len(rows))
    out = torch.empty(blocks, dtype=table.dtype, device=rows.device)
    _largest_kernel[blocks](rows, table, out, len(rows), BLOCK=_BLOCK)
    return float(out.max())


# -- points on the line -------------------------------------------------------------------------------------


@triton.jit
def _sums_kernel(
    there,
    kept,
    code,
    low,
    table,
    number,
    z,
    order,
    count,
    WIDTH: tl.constexpr,
    SOME: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    at = tl.load(there + i, mask=real, other=0)
    if SOME:
        at = tl.load(kept + at)
    row = table + 2 * (at // WIDTH)
    whole = tl.load(code + i, mask=real, other=0).to(tl.float64) + tl.load(low)
    tl.store(z + i, tl.load(row) + whole, mask=real)
    at += tl.load(row + 1).to(tl.int64, bitcast=True)
    if SOME:
        at = tl.load(number + at).to(tl.int64)
    tl.store(order + i, at.to(order.dtype.element_ty), mask=real)


def sums(
    there: Tensor,
    kept: Tensor | None,
    code: Tensor,
    low: float,
    moved: Tensor,
    back: Tensor,
    number: Tensor | None,
    width: int,
) -> tuple[Tensor, Tensor]:
    """`moved[row] + (code + low)` `(P,)` and its place, `back[row]` behind `there`; `row`: the sequence of `there`.

    `kept`, `number`: None, or which places there are, and the numbers of all of them.
    """
    count, some = len(there), kept is not None
    z = torch.empty(count, dtype=torch.float64, device=there.device)
    order = torch.empty(count, dtype=back.dtype, device=there.device)
    least = _few([low], there)
    table = torch.stack([moved, back.long().view(torch.float64)], dim=1)  # a row of both is one read
    kept_at, number_at = (kept, number) if some else (there, there)
    _sums_kernel[_grid(count, _FEW)](
        there, kept_at, code, least, table, number_at, z, order, count, WIDTH=width, SOME=some, BLOCK=_FEW
    )
    return z, order


class Spaced(NamedTuple):
    """The gaps between neighbours: how many exceed two rounding errors, the least of those, and the tight ones."""

    wide: int
    least: float
    tight: Tensor


@triton.jit
def _room(left, right, fixed, unit):
    return (right - left) / (tl.maximum(right, -left) * unit + fixed)


@triton.jit
def _spaced_kernel(z, bounds, wide, least, tight, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    left, right = tl.load(z + i, mask=real, other=0.0), tl.load(z + i + 1, mask=real, other=0.0)
    room = _room(left, right, tl.load(bounds), tl.load(bounds + 1))
    apart = real & (room > 2.0)
    tl.store(wide + block, tl.sum(apart.to(tl.int32), axis=0))
    tl.store(least + block, tl.min(tl.where(apart, right - left, float("inf")), axis=0))
    tl.store(tight + i, (room >= tl.load(bounds + 2)) == 0, mask=real)


def spaced(z: Tensor, fixed: float, unit: float, slack: float) -> Spaced:
    """The gaps of points `z` `(P,)` in rising order, P from 2 on, in rounding errors as `Points.room_between` has it.

    Tight are those that are not at least `slack`, a NaN among them.
    """
    count = len(z) - 1
    blocks = _grid(count)
    bounds = _few([fixed, unit, slack], z)
    wide = torch.empty(blocks, dtype=torch.int32, device=z.device)
    least = torch.empty(blocks, dtype=torch.float64, device=z.device)
    tight = torch.empty(count, dtype=torch.bool, device=z.device)
    _spaced_kernel[blocks](z, bounds, wide, least, tight, count, BLOCK=_BLOCK)
    number, smallest = torch.stack([wide.sum(dtype=torch.float64), least.min()]).tolist()
    return Spaced(int(number), smallest, tight.nonzero().flatten())


@triton.jit
def _least_room_kernel(z, changes, bounds, least, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    at = tl.load(changes + i, mask=real, other=0)
    room = _room(tl.load(z + at), tl.load(z + at + 1), tl.load(bounds), tl.load(bounds + 1))
    none = tl.sum((real & (room != room)).to(tl.int32), axis=0) > 0
    smallest = tl.min(tl.where(real & (room == room), room, float("inf")), axis=0)
    tl.store(least + block, tl.where(none, float("nan"), smallest))


def least_room(z: Tensor, changes: Tensor, fixed: float, unit: float) -> float:
    """The least room `(R,)`, R from 1 on, of the gaps behind the points `changes`; NaN if one of them is."""
    blocks = _grid(len(changes))
    bounds = _few([fixed, unit], z)
    least = torch.empty(blocks, dtype=torch.float64, device=z.device)
    _least_room_kernel[blocks](z, changes, bounds, least, len(changes), BLOCK=_BLOCK)
    return float(least.min())


@triton.jit
def _ramps_kernel(z, changes, slope, start, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    at = tl.load(changes + i, mask=real, other=0)
    left, right = tl.load(z + at), tl.load(z + at + 1)
    gap = right - left
    power = (gap.to(tl.int64, bitcast=True) & 0x7FF0000000000000).to(tl.float64, bitcast=True)
    tl.store(slope + i, 4.0 / power, mask=real)
    tl.store(start + i, left + (gap + power * -0.25) * 0.5, mask=real)


def ramps(z: Tensor, changes: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes and beginnings `(R,)` of the ramps behind the points `changes`, as `points.ramps` has it.

    Products are with powers of two, so whether a sum is fused with them makes no difference.
    """
    slope, start = (torch.empty(len(changes), dtype=torch.float64, device=z.device) for _ in range(2))
    _ramps_kernel[_grid(len(changes))](z, changes, slope, start, len(changes), BLOCK=_BLOCK)
    return slope, start


@triton.jit
def _falls_kernel(label, fall, low, high, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    here = tl.load(label + i, mask=real, other=0).to(tl.float64)
    here = tl.where(real, here, tl.load(label).to(tl.float64))
    after = tl.load(label + i + 1, mask=real, other=0).to(tl.float64)
    after = tl.where(real, after, here)
    tl.store(fall + i, here - after, mask=real)
    tl.store(low + block, tl.min(tl.minimum(here, after), axis=0))
    tl.store(high + block, tl.max(tl.maximum(here, after), axis=0))


def falls(label: Tensor, begin: NDArray[np.int64] | None) -> tuple[Tensor, float, float]:
    """Each of the whole numbers `label` `(R + 1,)` less the next, as float64 `(1, R)`; the least and the largest.

    `begin`: where other numbers rise by 1; they fall by as much in a second row.
    """
    count = len(label) - 1
    blocks = _grid(count)
    low, high = (torch.empty(blocks, dtype=torch.float64, device=label.device) for _ in range(2))
    fall = torch.empty(1 if begin is None else 2, count, dtype=torch.float64, device=label.device)
    _falls_kernel[blocks](label, fall, low, high, count, BLOCK=_BLOCK)
    if begin is not None:
        fall[1] = 0.0
        fall[1, beside(begin - 1, label)] = -1.0
    least, largest = torch.stack([low.min(), high.max()]).tolist()
    return fall, least, largest


# -- weights ------------------------------------------------------------------------------------------------


@triton.jit
def _mixed_kernel(words, out, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    x = tl.load(words + i, mask=real, other=0) ^ (i * -7046029254386353131)
    x = (x ^ (x >> 32)) * -2960836687051489587
    x = (x ^ (x >> 29)) * -7723592293110705685
    tl.store(out + block, tl.sum(tl.where(real, x ^ (x >> 32), 0), axis=0))


def digest(tensors: list[Tensor]) -> int:
    """A number of 64 bits, almost surely another one for other bits, or the same in other places, of flat tensors."""
    few = [tensor for tensor in tensors if len(tensor) < _BLOCK]
    sums = []
    for tensor in [torch.cat([tensor.double() for tensor in few]), *(each for each in tensors if len(each) >= _BLOCK)]:
        words = (tensor if tensor.element_size() == 8 else tensor.double()).contiguous().view(torch.int64)
        out = torch.empty(_grid(len(words)), dtype=torch.int64, device=words.device)
        _mixed_kernel[_grid(len(words))](words, out, len(words), BLOCK=_BLOCK)
        sums.append(out.sum())
    return hash(tuple(torch.stack(sums).tolist()))


# -- answers ------------------------------------------------------------------------------------------------


@triton.jit
def _ramp_ends_kernel(slope, bias, start, end, wrong, count, BLOCK: tl.constexpr):
    block = tl.program_id(0).to(tl.int64)
    i = block * BLOCK + tl.arange(0, BLOCK)
    real, later = i < count, (i < count) & (i > 0)
    steep = tl.load(slope + i, mask=real, other=1.0)
    begin = -tl.load(bias + i, mask=real, other=0.0) / steep
    stop = begin + 1.0 / steep
    steep = tl.load(slope + i - 1, mask=later, other=1.0)
    before = -tl.load(bias + i - 1, mask=later, other=0.0) / steep + 1.0 / steep
    falls = (real & ((begin < stop) == 0)) | (later & ((before <= begin) == 0))
    tl.store(start + i, begin, mask=real)
    tl.store(end + i, stop, mask=real)
    tl.store(wrong + block, tl.sum(falls.to(tl.int32), axis=0))


def ramp_ends(slope: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Where ramps `(R,)` begin and end, and whether they rise one after the other (`staircase.Steps`)."""
    start, end = torch.empty_like(slope), torch.empty_like(slope)
    blocks = _grid(len(slope))
    wrong = torch.empty(blocks, dtype=torch.int32, device=slope.device)
    _ramp_ends_kernel[blocks](slope, bias, start, end, wrong, len(slope), BLOCK=_BLOCK)
    return start, end, not bool(wrong.any())


class Index(NamedTuple):
    """Where to look among rising numbers `(R,)`: before number `first[b]` none has a bucket from `b` on.

    The bucket of a number is `⌊(number − low) · scale⌋`, which rises with it, whatever rounds.
    """

    first: Tensor
    place: Tensor
    """`low` and `scale`."""


@triton.jit
def _bucket(x, place, most):
    bucket = (x - tl.load(place)) * tl.load(place + 1)
    bucket = tl.where(bucket >= 0.0, bucket, 0.0)  # 0 for a NaN
    return tl.minimum(bucket, most.to(tl.float64)).to(tl.int64)


@triton.jit
def _buckets_kernel(numbers, place, out, count, most, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    bucket = _bucket(tl.load(numbers + i, mask=real, other=0.0), place, most)
    tl.store(out + i, bucket.to(tl.int32), mask=real)


def index_of(numbers: Tensor) -> Index | None:
    """An index of rising numbers `(R,)`, of about half as many buckets; None where they have no finite extent."""
    count = len(numbers)
    low, high = torch.stack([numbers[0], numbers[-1]]).tolist()
    most = triton.next_power_of_2(count) // 2  # twice as many take as long to find as they save
    scale = most / (high - low) if high > low else float("inf")
    if not 0.0 < scale < float("inf") or count >= 2**31:
        return None
    place = _few([low, scale], numbers)
    buckets = torch.empty(count, dtype=torch.int32, device=numbers.device)
    _buckets_kernel[_grid(count)](numbers, place, buckets, count, most, BLOCK=_BLOCK)
    every = torch.arange(most + 2, dtype=torch.int32, device=numbers.device)
    return Index(torch.searchsorted(buckets, every, out_int32=True), place)


@triton.jit
def _labels_kernel(z, first, place, start, end, level, stride, out, count, steps, most, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = i < count
    x = tl.load(z + i, mask=real, other=0.0)
    bucket = _bucket(x, place, most)
    low, high = tl.load(first + bucket), tl.load(first + bucket + 1)
    while tl.max(high - low, axis=0) > 0:
        middle = (low + high) >> 1
        open = low < high
        passed = tl.load(end + middle, mask=open, other=0.0) <= x
        low = tl.where(open & passed, middle + 1, low)
        high = tl.where(open & (passed == 0), middle, high)
    begun = x > tl.load(start + low, mask=low < steps, other=float("inf"))
    label = tl.load(level + low.to(tl.int64) * stride)
    tl.store(out + i, tl.where(begun | (x != x), float("nan"), label), mask=real)


def plateau_labels(z: Tensor, index: Index, start: Tensor, end: Tensor, level: Tensor) -> Tensor:
    """Labels `(m, P)` of `z` `(P,)` on a staircase of ramps `start`, `end` `(R,)`; NaN on ramps, and for a NaN.

    `index`: that of `end`. `level` `(R + 1, m)`.
    """
    out = torch.empty(level.shape[1], len(z), dtype=level.dtype, device=z.device)
    for row, column in zip(out, level.unbind(1), strict=True):
        # A block waits for its slowest search: 32 numbers, one for each of its threads, wait least.
        _labels_kernel[_grid(len(z), 32)](
            *(z, index.first, index.place, start, end, column, column.stride(0), row),
            *(len(z), len(end), len(index.first) - 2),
            BLOCK=32,
            num_warps=1,
        )
    return out
