"""Types of arrays, by the names that the whole package uses; and numbers where they lie.

Data on a processor are arrays of NumPy's; data on a device are tensors of PyTorch's, and stay there. Code that works on
either calls the functions below, which ask which of the two they were given. PyTorch is not imported: processes that
build pieces of a model do without it, and a tensor brings its own methods along.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
Array = NDArray[Any]
"""An array of any type."""
NamedArrays = dict[str, Array]
"""Arrays by their names, such as the tensors of a file."""
Numbers: TypeAlias = Any
"""An array, or a tensor on any device."""
NUMBERS_IN_CACHE = 1 << 14
"""So many numbers of 8 bytes, and a few arrays of them beside, fit into the cache of a core."""


COUNTED_IN_PAIRS = 20
"""Up to so many different numbers are counted in pairs on a device: 48 KiB hold a counter for each pair of bytes."""


def slices(count: int) -> Iterator[slice]:
    """`range(count)` in parts: what is computed part by part stays in the cache from one operation to the next."""
    return (slice(start, start + NUMBERS_IN_CACHE) for start in range(0, count, NUMBERS_IN_CACHE))


def dtype_name(dtype: Any) -> Any:
    """`'float32'` for `torch.float32`; whatever else is given stays, for those to judge who know what they take."""
    text = str(dtype)
    return text.removeprefix("torch.") if text.startswith("torch.") and type(dtype).__name__ == "dtype" else dtype


# -- numbers where they lie ---------------------------------------------------------------------------------


def is_array(x: Numbers) -> bool:
    """Whether these are numbers of NumPy's, on the processor, rather than a tensor."""
    return isinstance(x, np.ndarray)


def home(x: Numbers) -> NDArray[Any]:
    """The same numbers as an array."""
    found: NDArray[Any] = x if is_array(x) else x.cpu().numpy()
    return found


def beside(x: Numbers, like: Numbers) -> Numbers:
    """The same numbers where `like` lies."""
    if is_array(like):
        return home(x)
    # Whoever has a tensor has imported PyTorch.
    return (sys.modules["torch"].from_numpy(x) if is_array(x) else x).to(like.device)


def copied(x: Numbers) -> Numbers:
    """A copy that may be written to."""
    return x.copy() if is_array(x) else x.clone()


def float64(x: Numbers) -> Numbers:
    """The same numbers in float64; themselves if they are."""
    return x.astype(np.float64, copy=False) if is_array(x) else x.double()


def pick(table: Numbers, rows: Numbers) -> Numbers:
    """`table[rows]` for a table `(V,)`, where the rows `(P,)` lie."""
    return table.take(rows) if is_array(rows) else beside(table, rows).index_select(0, rows)


def whole_numbers(count: int, like: Numbers, *, short: bool = False) -> Numbers:
    """0, 1, … `(count,)` where `like` lies; `short`: with as few bytes as they need, and a sign."""
    few = short and count < 2**31
    if is_array(like):
        return np.arange(count, dtype=np.int32 if few else np.int64)
    torch = sys.modules["torch"]
    return torch.arange(count, dtype=torch.int32 if few else torch.int64, device=like.device)


def short(x: Numbers, most: int) -> Numbers:
    """Whole numbers from 0 to `most` with as few bytes as `digits_in_order` needs."""
    if is_array(x):
        return x.astype(np.uint16 if most < 2**16 else np.uint32)
    torch = sys.modules["torch"]
    return x.to(torch.int16 if most < 2**15 else torch.int32 if most < 2**31 else torch.int64)


def int32(x: Numbers, most: int) -> Numbers:
    """Whole numbers up to `most` with 4 bytes and a sign, where these are enough; else as they are."""
    if most >= 2**31:
        return x
    return x.astype(np.int32, copy=False) if is_array(x) else x.int()


def ends_of(x: Numbers) -> tuple[float, float]:
    """The least and the largest number."""
    if is_array(x):
        return float(x.min()), float(x.max())
    low, high = sys.modules["torch"].stack(x.aminmax()).tolist()
    return float(low), float(high)


def places(mask: Numbers) -> Numbers:
    """Where a mask `(P,)` is true."""
    return np.flatnonzero(mask) if is_array(mask) else mask.nonzero().flatten()


def nowhere(count: int, like: Numbers) -> Numbers:
    """A mask `(count,)` that is false everywhere, where `like` lies."""
    if is_array(like):
        return np.zeros(count, bool)
    torch = sys.modules["torch"]
    return torch.zeros(count, dtype=torch.bool, device=like.device)


def joined(parts: list[Numbers]) -> Numbers:
    """Numbers one after the other, along their first axis."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if is_array(parts[0]) else sys.modules["torch"].cat(parts)


def rising_at(at: Ints, count: int, like: Numbers) -> Numbers:
    """Numbers `(count,)` that begin with 0 and rise by 1 at each of these places, float64, where `like` lies."""
    if is_array(like):
        return np.repeat(np.arange(len(at) + 1.0), np.diff(at, prepend=0, append=count))
    torch = sys.modules["torch"]
    rise = torch.zeros(count, dtype=torch.float64, device=like.device)
    rise[beside(at, like)] = 1.0
    return rise.cumsum(0)


def order_of(x: Numbers) -> Numbers:
    """The places of float64 numbers `(P,)` in rising order, NaN last."""
    return _order_of_floats(x) if is_array(x) else x.argsort()


def _order_of_floats(x: Floats) -> Ints:
    """The same of an array: NumPy sorts whole numbers several times faster than it finds an order.

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


class InOrder(NamedTuple):
    """Numbers `(P,)` in rising order, and the place that each of them had."""

    numbers: Numbers
    places: Numbers


def digits_in_order(digits: Numbers) -> InOrder:
    """Numbers `(P,)` as `short` gives them in rising order, equal ones as they come."""
    if not is_array(digits):
        return InOrder(*digits.sort(stable=True))  # by radix: the fewer bytes, the fewer passes
    room = len(digits).bit_length()
    if 0 < room < 32 and int(digits.max()).bit_length() + room <= 32:
        # Each number and its place as one number of 32 bits: NumPy sorts these several times faster than it finds an
        # order.
        keys = digits.astype(np.uint32)
        keys <<= np.uint32(room)
        keys |= np.arange(len(digits), dtype=np.uint32)
        keys.sort()
        numbers = keys >> np.uint32(room)
        keys &= np.uint32((1 << room) - 1)
        return InOrder(numbers, keys.view(np.int32))
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


def in_order(x: Numbers) -> Numbers:
    """The numbers `(P,)` themselves in rising order."""
    return np.sort(x) if is_array(x) else x.sort().values


def larger(one: Numbers, other: Numbers) -> Numbers:
    """The larger of each two."""
    return np.maximum(one, other) if is_array(one) else one.maximum(other)


def plus(one: Numbers, other: Numbers, times: float) -> Numbers:
    """`one + times · other`, where the product must be exact: it may be fused with the sum."""
    return one + times * other if is_array(one) else one.add(other, alpha=times)


def count_true(mask: Numbers) -> int:
    """How often a mask is true."""
    return int(np.count_nonzero(mask) if is_array(mask) else mask.count_nonzero())


def least_of(x: Numbers, mask: Numbers) -> float:
    """The least of the numbers where the mask is true; infinity if it is nowhere."""
    if is_array(x):
        return float(x.min(where=mask, initial=np.inf))
    return float(sys.modules["torch"].where(mask, x, np.inf).min()) if len(x) else np.inf


def exponent(x: Numbers) -> Numbers:
    """The largest power of two up to each of these positive normal numbers: the bits of their exponents alone."""
    kind = np.int64 if is_array(x) else sys.modules["torch"].int64
    return (x.view(kind) & 0x7FF0000000000000).view(x.dtype)


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
    found: Ints = (table.sum(axis=0) + table.sum(axis=1))[:size]
    return found + np.bincount(home(values[2 * pairs :]), minlength=size)


def found_at(ordered: Numbers, values: Ints) -> Ints:
    """`searchsorted`: before which of the `ordered` numbers each of these few would stand, as an array."""
    if is_array(ordered):
        return np.searchsorted(ordered, values)
    return home(sys.modules["torch"].searchsorted(ordered, beside(values, ordered)))


def distinct(values: Numbers) -> tuple[list[int], list[int]]:
    """The different numbers in rising order, and how often each occurs."""
    found = np.unique(values, return_counts=True) if is_array(values) else values.unique(return_counts=True)
    return found[0].tolist(), found[1].tolist()
