"""Orders, rows and counts of many numbers, for which a processor and a device need different algorithms.

Each function asks once where its numbers lie (`arrays.py`), and PyTorch is not imported here either.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import (
    Array,
    Floats,
    Ints,
    Numbers,
    beside,
    ends_of,
    float64,
    home,
    indices,
    int32,
    is_array,
    nowhere,
    part_by_part,
    pick,
    places,
    slices,
    whole_numbers,
)

COUNTED_IN_PAIRS = 20
"""Up to so many different numbers are counted in pairs on a device: 48 KiB hold a counter for each pair of bytes."""
LAST = 1 << 20
"""Places that a device looks at first, from the last one backwards, to find the last place of every row."""
MANY = 1 << 20
"""So many numbers are worth kernels of their own."""


def passes(x: Numbers) -> Any:
    """The module `fused`, whose passes are one kernel each, where there are many numbers on a GPU; else None."""
    return fused_passes() if many_on_a_gpu(x) else None


def many_on_a_gpu(x: Numbers) -> bool:
    """Whether these are so many numbers on a GPU that kernels of their own pay.

    It must be the one that work is sent to now: Triton asks for no other, where PyTorch looks at each tensor.
    """
    if len(x) < MANY or is_array(x) or x.device.type != "cuda":
        return False
    return bool(x.device.index == sys.modules["torch"].cuda.current_device())


@cache
def fused_passes() -> Any:
    """The module `fused`; None where its kernels cannot be run: without Triton, a compiler, or instructions."""
    try:
        fused = import_module("monolayer.fused")
        fused.try_out()
    except Exception:  # whatever Triton says of this machine: PyTorch's own operations serve as well, if slower
        return None
    return fused


def order_of(x: Numbers) -> Numbers:
    """The places of float64 numbers `(P,)` in rising order, NaN last."""
    return _order_of_floats(x) if is_array(x) else x.argsort()


def _order_of_floats(x: Floats) -> Ints:
    """`order_of` for an array: NumPy sorts whole numbers several times faster than it finds an order.

    Each is the place of a number among steps of equal width, and behind it, in the lower bits, its place in the array.
    The steps rise with the numbers, since differences, products and their rounding do; numbers of one step are sorted
    among themselves in the end.
    """
    room = len(x).bit_length()
    low, high = (float(x.min()), float(x.max())) if len(x) else (0.0, 0.0)
    per_unit = 2.0 ** (63 - room) * (1.0 - 2.0**-50) / (high - low) if low < high else np.inf  # a NaN is not below
    if len(x) < 1 << 12 or not 0.0 < per_unit < np.inf:
        return np.argsort(x)
    keys = np.empty(len(x), np.int64)
    for part in slices(len(x)):
        key = ((x[part] - low) * per_unit).astype(np.int64)  # less than 2^(63 − room)
        key <<= room
        keys[part] = key | np.arange(part.start, part.start + len(key))
    keys.sort()
    step = keys >> room
    same = np.flatnonzero(step[1:] == step[:-1])
    order = np.bitwise_and(keys, (1 << room) - 1, out=keys)
    if len(same):
        shared = np.union1d(same, same + 1)
        some = order[shared]
        order[shared] = some[np.argsort(x[some], kind="stable")]
    return order


def stable_order(x: Numbers) -> Numbers:
    """The places of numbers `(P,)` in rising order, equal ones as they come."""
    return np.argsort(x, kind="stable") if is_array(x) else x.argsort(stable=True)


class InOrder(NamedTuple):
    """Numbers `(P,)` in rising order, and the place that each of them had."""

    numbers: Numbers
    places: Numbers

    def part(self, part: slice) -> InOrder:
        """Some of them, one after the other."""
        return InOrder(self.numbers[part], self.places[part])


class PackedInOrder(NamedTuple):
    """An `InOrder` of arrays as one array `(P,)` of 32 bits each: a number, and its place in the lower `room` bits."""

    keys: NDArray[np.uint32]
    room: int

    def part(self, part: slice) -> InOrder:
        """Some of them, one after the other."""
        keys = self.keys[part]
        return InOrder(keys >> np.uint32(self.room), (keys & np.uint32((1 << self.room) - 1)).view(np.int32))


def short(x: Numbers, most: int) -> Numbers:
    """Whole numbers from 0 to `most` with as few bytes as `digits_in_order` needs."""
    if is_array(x):
        return x.astype(np.uint16 if most < 2**16 else np.uint32)
    torch = sys.modules["torch"]
    return x.to(torch.int16 if most < 2**15 else torch.int32 if most < 2**31 else torch.int64)


class Digits(NamedTuple):
    """Whole numbers `(T,)`, as `short` gives them, that are `low` less than those that are meant."""

    numbers: Numbers
    low: float


def digits_of(x: Numbers, like: Numbers) -> Digits | None:
    """Whole numbers, given as floats, as `digits_in_order` takes them, where `like` lies; None if they span 2^32."""
    low, high = ends_of(x)
    if not high - low < 2.0**32:
        return None
    if not is_array(like) and max(high, -low) < 2.0**31:  # tensors of short numbers have signs
        low, high = 0.0, max(high, -low)
    return Digits(short(beside(x - low, like), int(high - low)), low)


def digits_in_order(digits: Numbers) -> InOrder | PackedInOrder:
    """Numbers `(P,)` as `short` gives them in rising order, equal ones as they come."""
    if not is_array(digits):
        return InOrder(*digits.sort(stable=True))  # by radix: the fewer bytes, the fewer passes
    room = len(digits).bit_length()
    if 0 < room < 32 and int(digits.max()).bit_length() + room <= 32:
        # Each number and its place as one number of 32 bits: NumPy sorts these several times faster than it finds an
        # order.
        keys = np.empty(len(digits), np.uint32)
        for part in slices(len(digits)):
            key = np.left_shift(digits[part], np.uint32(room), out=keys[part], dtype=np.uint32)
            key |= np.arange(part.start, part.start + len(key), dtype=np.uint32)
        keys.sort()
        return PackedInOrder(keys, room)
    # NumPy sorts 16 bits by radix: the lower half first, then, where there is one, the upper half in that order.
    order = np.argsort(digits.astype(np.uint16, copy=False), kind="stable")
    if digits.dtype == np.uint32:
        order = order.take(np.argsort((digits >> 16).astype(np.uint16).take(order), kind="stable"))
    return InOrder(digits.take(order), order)


def rows_of(flat: Numbers, count: int, order: Numbers) -> Numbers:
    """The `count` rows of `flat` in this order, flat again."""
    table = flat.reshape(count, -1)
    if is_array(flat):
        return table.take(order, axis=0).reshape(-1)
    if table.shape[1] * table.element_size() % 16:
        return table[order].reshape(-1)
    # Words of 16 bytes, one column after the other: a device takes them several times faster than rows.
    torch = sys.modules["torch"]
    words = [word.contiguous()[order] for word in table.view(torch.complex128).unbind(1)]
    return torch.stack(words, dim=1).view(flat.dtype).reshape(-1)


def token_major(code: Digits, moved: Numbers, place: Numbers | None, label: Array | None = None) -> InOrder:
    """The sums of the code of each token and what its sequence is moved by, in order, without sorting so many floats.

    `code` `(T,)`: whole numbers. `moved` `(N,)`: one number per sequence, which differ by less than 1/2; all sequences
    are of one length. `place` `(P,)`: the tokens that are wanted; None: all. `label` `(T,)`: what is wanted of each
    token instead of its place, if all tokens are.

    Sums are in order of code, and of `moved` for equal codes. So it is enough to sort the sequences, and then the codes
    in that order by a stable sort of short numbers. What moves a sequence is then picked in the order in which it lies,
    over and over, once for each code: sums are computed faster than carried along.
    """
    count, total = len(moved), len(code.numbers)
    width = total // count
    by_moved = order_of(moved)
    digits, kept, number = rows_of(code.numbers, count, by_moved), None, None
    if place is not None:
        labelled, number = nowhere(total, place), whole_numbers(total, place, short=True)
        labelled[place], number[place] = True, whole_numbers(len(place), place, short=True)
        kept = places(rows_of(labelled, count, by_moved))
        digits = pick(digits, kept)
    label = None if label is None else rows_of(label, count, by_moved)
    in_order = digits_in_order(digits)
    moved = pick(moved, by_moved)
    fused = passes(digits)
    # From a token's place among sequences in order to its own: by so much, the same for all tokens of a sequence.
    back = int32((by_moved - whole_numbers(count, by_moved)) * width, total)
    if fused:
        whole, there = in_order.part(slice(None))
        return InOrder(*fused.sums(there, kept, whole, code.low, moved, back, number, width))

    def sums(part: slice) -> InOrder:
        whole, there = in_order.part(part)
        at = int32(there if kept is None else pick(kept, there), total)
        row = indices(at // width)  # of the sequences in order
        sum_ = float64(whole)
        if code.low != 0.0:
            sum_ += code.low  # exact: whole numbers
        sum_ += pick(moved, row)
        if label is not None:
            return InOrder(sum_, pick(label, at))
        at = pick(back, row) + at
        return InOrder(sum_, at if number is None else pick(number, at))

    return InOrder(*part_by_part(len(digits), digits, sums))


def wide_gaps(ordered: Numbers, width: float) -> Numbers:
    """How many gaps between numbers `(N,)` in order exceed `width`, the least of those, and what all numbers span.

    Three numbers where the others lie: a device is not waited for.
    """
    gap, reach = ordered[1:] - ordered[:-1], ordered[-1] - ordered[0]
    wide = gap > width
    if is_array(ordered):
        return np.array([np.count_nonzero(wide), gap.min(where=wide, initial=np.inf), reach])
    torch = sys.modules["torch"]
    least = torch.where(wide, gap, np.inf).min() if len(gap) else torch.zeros_like(reach)
    return torch.stack([wide.sum(dtype=gap.dtype), least, reach])


def counts_of(values: Numbers, size: int) -> Ints:
    """How often each of the whole numbers below `size` occurs, as an array; 0: below any size."""
    if is_array(values):
        return np.bincount(values, minlength=size)
    if not 0 < size <= COUNTED_IN_PAIRS or len(values) < 2:
        return home(values.bincount(minlength=size))
    # A device waits where many count the same number: two bytes are counted together, as one of many more numbers.
    pairs = len(values) // 2
    both = home(values[: 2 * pairs].byte().view(sys.modules["torch"].int16).bincount())
    table = np.zeros((256, 256), np.int64)
    table.reshape(-1)[: len(both)] = both
    counts: Ints = (table.sum(axis=0) + table.sum(axis=1))[:size]
    return counts + np.bincount(home(values[2 * pairs :]), minlength=size)


def last_of_each(rows: Numbers, number: Numbers, size: int, counts: Ints | None = None) -> Ints:
    """For each of `size` rows, the number at its last place; −1 for rows without one.

    `rows`, `number` `(P,)`: the row of every place, and its number. `counts`: how often each row occurs, if known.
    """
    if is_array(rows):
        last = np.full(size, -1)
        last[rows] = number
        return last
    torch = sys.modules["torch"]
    # A device takes long to scatter many places into few rows: it goes backwards until every row was met.
    different = int(np.count_nonzero(counts_of(rows, size) if counts is None else counts))
    last = beside(np.full(size, -1), rows)
    end, at_once = len(rows), LAST
    while end and int((last >= 0).sum()) < different:
        start = max(0, end - at_once)
        here = beside(np.full(size, -1), rows)
        here.scatter_reduce_(0, rows[start:end], torch.arange(start, end, device=rows.device), "amax")
        last = torch.where(last < 0, here, last)
        end, at_once = start, 4 * at_once
    return home(torch.where(last < 0, -1, number[last.clamp(min=0)]))
