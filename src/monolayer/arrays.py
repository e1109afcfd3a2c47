"""Types of arrays, by the names that the whole package uses; and numbers where they lie.

Data on a processor are arrays of NumPy's; data on a device are tensors of PyTorch's, and stay there. Code that works on
either calls the functions below, which ask which of the two they were given. PyTorch is not imported: processes that
build pieces of a model do without it, and a tensor brings its own methods along.

These are not the functions of `array-api-compat`, which was tried (1.16, NumPy 2.4, PyTorch 2.13, one core): finding
the namespace takes 6 µs a call where `isinstance` takes 0.1, and small models ask thousands of times; `xp.sort` sorts
stably, 8 times slower for 16,384 floats; `xp.min` and `xp.max` are two passes and two waits of a device where `aminmax`
is one. It has no 16-bit digits, no fused sum, no bincount and nothing of `kernels.py`, so a third of these lines would
have gone, for one more dependency.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

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
FEW_TO_MOVE = 1 << 16
"""Up to so many numbers are copied to a device by way of memory that it reads by itself, which is kept for the next."""
POINTS_IN_CACHE = 1 << 15
"""Points that a processor looks at together: their numbers fit into its cache. A device looks at all of them."""


def slices(count: int) -> Iterator[slice]:
    """`range(count)` in parts: what is computed part by part stays in the cache from one operation to the next."""
    return (slice(start, start + NUMBERS_IN_CACHE) for start in range(0, count, NUMBERS_IN_CACHE))


def overlapping(count: int) -> Iterator[slice]:
    """`slices`, each with the first number of the next: so every pair of neighbours is in one of them."""
    return (slice(part.start, part.stop + 1) for part in slices(count))


def dtype_name(dtype: Any) -> Any:
    """`'float32'` for `torch.float32`; whatever else is given stays, for those to judge who know what they take."""
    text = str(dtype)
    return text.removeprefix("torch.") if text.startswith("torch.") and type(dtype).__name__ == "dtype" else dtype


def stretches_of(count: int, like: Numbers) -> Iterator[slice]:
    """So many numbers in stretches that are looked at together where `like` lies; at least one stretch."""
    at_once = POINTS_IN_CACHE if is_array(like) else max(1, count)
    for start in range(0, max(1, count), at_once):
        yield slice(start, min(start + at_once, count))


def part_by_part(count: int, like: Numbers, numbers: Callable[[slice], tuple[Numbers, ...]]) -> tuple[Numbers, ...]:
    """What `numbers` gives for `range(count)`, where `like` lies: on a processor for one stretch after the other."""
    parts = stretches_of(count, like)
    part = next(parts)
    first = numbers(part)
    if part.stop == count:
        return first
    out = tuple(np.empty(count, each.dtype) for each in first)
    for whole, each in zip(out, first, strict=True):
        whole[part] = each
    for part in parts:
        for whole, each in zip(out, numbers(part), strict=True):
            whole[part] = each
    return out


# -- numbers where they lie ---------------------------------------------------------------------------------


def is_array(x: Numbers) -> bool:
    """Whether these are numbers of NumPy's, on the processor, rather than a tensor."""
    return isinstance(x, np.ndarray)


def home(x: Numbers) -> NDArray[Any]:
    """The same numbers as an array."""
    array: NDArray[Any] = x if is_array(x) else x.cpu().numpy()
    return array


def beside(x: Numbers, like: Numbers) -> Numbers:
    """The same numbers where `like` lies."""
    if is_array(like):
        return home(x)
    # Whoever has a tensor has imported PyTorch.
    there = sys.modules["torch"].from_numpy(x) if is_array(x) else x
    if like.device.type == "cuda" and there.device.type == "cpu" and there.numel() <= FEW_TO_MOVE:
        return there.pin_memory().to(like.device, non_blocking=True)  # what the device has to do is not waited for
    return there.to(like.device)


def copied(x: Numbers) -> Numbers:
    """A copy that may be written to."""
    return x.copy() if is_array(x) else x.clone()


def float64(x: Numbers) -> Numbers:
    """The same numbers in float64, without a copy if they are float64 already."""
    return x.astype(np.float64, copy=False) if is_array(x) else x.double()


def pick(table: Numbers, rows: Numbers) -> Numbers:
    """`table[rows]` for a table `(V,)`, where the rows `(P,)` lie: from 0 to `V − 1`, which is not checked.

    NumPy takes numbers of 8 bytes in half the time where it clips rows than where it looks for one out of bounds.
    """
    return table.take(rows, mode="clip") if is_array(rows) else beside(table, rows).index_select(0, rows)


def fetched(x: Numbers, at: Ints) -> Array:
    """The numbers of `x` at a few places, as an array on the processor."""
    return home(pick(x, beside(at, x)))


def whole_numbers(count: int, like: Numbers, *, short: bool = False) -> Numbers:
    """0, 1, … `(count,)` where `like` lies; `short`: with as few bytes as they need, and a sign."""
    few = short and count < 2**31
    if is_array(like):
        return np.arange(count, dtype=np.int32 if few else np.int64)
    torch = sys.modules["torch"]
    return torch.arange(count, dtype=torch.int32 if few else torch.int64, device=like.device)


def int32(x: Numbers, most: int) -> Numbers:
    """Whole numbers as int32, if `most` fits into it; otherwise unchanged."""
    if most >= 2**31:
        return x
    return x.astype(np.int32, copy=False) if is_array(x) else x.int()


def indices(x: Numbers) -> Numbers:
    """Whole numbers as NumPy takes rows by them: else it converts them each time. A device takes short ones as well."""
    return x.astype(np.intp, copy=False) if is_array(x) else x


def ends_of(x: Numbers) -> tuple[float, float]:
    """The least and the largest number."""
    if is_array(x):
        return float(x.min()), float(x.max())
    low, high = sys.modules["torch"].stack(x.aminmax()).tolist()
    return float(low), float(high)


def unfilled(like: Numbers) -> Numbers:
    """Room for as many numbers of the same type, where `like` lies."""
    return np.empty_like(like) if is_array(like) else like.new_empty(like.shape)


def smallest(x: Numbers, most: int) -> Numbers:
    """Whole numbers from 0 to `most` in the smallest type that holds them; so they lie closer together."""
    if is_array(x):
        return x.astype(np.min_scalar_type(most))
    return x.byte() if most < 2**8 else x.int()


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


def in_order(x: Numbers) -> Numbers:
    """The numbers `(P,)` themselves in rising order."""
    return np.sort(x) if is_array(x) else x.sort().values


def larger(one: Numbers, other: Numbers) -> Numbers:
    """The larger of each two."""
    return np.maximum(one, other) if is_array(one) else one.maximum(other)


def plus(one: Numbers, other: Numbers, times: float) -> Numbers:
    """`one + times · other`, where the product must be exact: it may be fused with the sum."""
    if not is_array(one):
        return one.add(other, alpha=times)
    sum_ = times * other
    sum_ += one
    return sum_


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


def four_by(power: Numbers) -> Numbers:
    """`4 / p` for normal powers of two `p`: NumPy subtracts exponents in half the time of a quotient."""
    return (np.uint64(1 << 63) - power.view(np.uint64)).view(power.dtype) if is_array(power) else 4.0 / power


def found_at(ordered: Numbers, values: Ints) -> Ints:
    """`searchsorted`: before which of the `ordered` numbers each of these few would stand, as an array."""
    if is_array(ordered):
        return np.searchsorted(ordered, values)
    return home(sys.modules["torch"].searchsorted(ordered, beside(values, ordered)))


def distinct(values: Numbers) -> tuple[list[int], list[int]]:
    """The different numbers in rising order, and how often each occurs."""
    counted = np.unique(values, return_counts=True) if is_array(values) else values.unique(return_counts=True)
    return counted[0].tolist(), counted[1].tolist()
