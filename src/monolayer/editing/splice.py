"""A change of a tensor: rows taken out and rows put in, with their contents, so that it can be undone.

old   ──┬──before──┬───────┬before┬──        at: where, in the old tensor
new   ──┴after┴─────────┴──after──┴──        taken, put: how many rows are replaced by how many
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.data.names import Ints
from monolayer.errors import DataError

Array = NDArray[Any]

_FEW = 1024


def array_of(tensor: Tensor) -> Array:
    """The numbers of a tensor as an array; of bfloat16, which NumPy lacks, the bits."""
    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def tensor_of(array: Array, dtype: torch.dtype) -> Tensor:
    """The tensor that `array_of` made an array of."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == torch.bfloat16 else tensor


@dataclass(frozen=True, eq=False)
class Splice:
    """`K` replacements in `tensor` along `axis`: `at`, `taken`, `put` `(K,)`; `before`, `after`: the rows, one after
    the other, the axis in front. `whole`: the sum of the old tensor's bits, to know it by."""

    tensor: str
    axis: int
    at: Ints
    taken: Ints
    put: Ints
    before: Array
    after: Array
    whole: int

    @classmethod
    def of(
        cls, tensor: str, axis: int, old: Array, at: Ints, taken: Ints, put: Ints, after: Array, *, all_: bool = False
    ) -> Splice | None:
        """What changes `old` at these places; None: nothing. Replacements that change nothing are left out.

        `all_`: they are kept, since what they are rows of changes elsewhere.
        """
        before = _rows(old, axis, at, taken)
        same = taken == put if not all_ else np.zeros(len(at), dtype=bool)
        if same.any():
            a, b = _spread(same, taken), _spread(same, put)
            differ = np.flatnonzero(~same_rows(before[a], after[b]))
            number = np.repeat(np.flatnonzero(same), taken[same])
            same[number[differ]] = False
        if same.all():
            return None
        keep = ~same
        out, come = before[_spread(keep, taken)], after[_spread(keep, put)]
        return cls(tensor, axis, at[keep], taken[keep], put[keep], out, come, _bits(old))

    @classmethod
    def between(cls, tensor: str, axis: int, old: Array, new: Array) -> Splice | None:
        """One replacement that makes `new` of `old`, as short as a common beginning and end allow."""
        a, b = np.moveaxis(old, axis, 0), np.moveaxis(new, axis, 0)
        length = min(len(a), len(b))
        front = _agreeing(a[:length], b[:length])
        back = min(_agreeing(a[::-1][:length], b[::-1][:length]), length - front)
        if front == len(a) == len(b):
            return None
        middle = b[front : len(b) - back]
        sizes = [np.array([size]) for size in (front, len(a) - back - front, len(middle))]
        return cls.of(tensor, axis, old, sizes[0], sizes[1], sizes[2], middle.copy())

    @classmethod
    def sorted(cls, tensor: str, old: Array, new: Array) -> Splice | None:
        """What makes `new` of `old`, both rising: entries out, and others in."""
        gone, come = np.flatnonzero(~np.isin(old, new)), new[~np.isin(new, old)]
        at = np.concatenate([gone, np.searchsorted(old, come)])
        out = np.arange(len(at)) < len(gone)
        order = np.lexsort((out, at))
        put = (~out[order]).astype(np.int64)
        return cls.of(tensor, 0, old, at[order], 1 - put, put, come)

    def apply(self, old: Array, *, known: bool = False) -> Array:
        """The new tensor; an error where `old` is not what was recorded. `known`: it is, as it was just made of it."""
        fits = self.axis < old.ndim and old.dtype == self.before.dtype
        fits = fits and np.delete(old.shape, self.axis).tolist() == list(self.before.shape[1:])
        size = old.shape[self.axis] if fits else 0
        fits = fits and bool((self.at >= 0).all() and (self.at + self.taken <= size).all())
        fits = fits and (known or _bits(old) == self.whole)  # rows that are only put in would fit into any tensor
        if not fits or not same_rows(_rows(old, self.axis, self.at, self.taken), self.before).all():
            raise DataError(
                f"{self.tensor} is not as this record found it: a record belongs to the very model that was edited "
                "(undone: to the model that came out)"
            )
        if (self.taken == self.put).all():
            new = old.copy()
            np.moveaxis(new, self.axis, 0)[_ranges(self.at, self.taken)] = self.after
            return new
        after, pieces, done, used = np.moveaxis(self.after, 0, self.axis), [], 0, 0
        for at, taken, put in zip(self.at.tolist(), self.taken.tolist(), self.put.tolist(), strict=True):
            pieces += [_slice(old, self.axis, done, at), _slice(after, self.axis, used, used + put)]
            done, used = at + taken, used + put
        return np.concatenate([*pieces, _slice(old, self.axis, done, size)], axis=self.axis)

    def inverse(self) -> Splice:
        """The replacement that brings the old tensor back."""
        shift = np.cumsum(self.put - self.taken) - (self.put - self.taken)
        whole = (self.whole - _bits(self.before) + _bits(self.after)) % 2**64
        return Splice(self.tensor, self.axis, self.at + shift, self.put, self.taken, self.after, self.before, whole)


def without(array: Array, index: Ints) -> Array:
    """`array` without some entries. A few are cut out piece by piece: a mask over a million would take longer."""
    if len(index) > _FEW:
        return np.delete(array, index)
    cuts = np.unique(index).tolist()
    pieces = zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(array)], strict=True)
    return np.concatenate([array[start:stop] for start, stop in pieces])


def with_more(array: Array, index: Ints, values: Array) -> Array:
    """`array` with `values` in front of entries `index`, which rise."""
    values = values.astype(array.dtype, copy=False)
    if len(index) > _FEW:
        return np.insert(array, index, values)
    pieces, done = [], 0
    for i, cut in enumerate(index.tolist()):
        pieces += [array[done:cut], values[i : i + 1]]
        done = cut
    return np.concatenate([*pieces, array[done:]])


def _rows(array: Array, axis: int, at: Ints, count: Ints) -> Array:
    return np.moveaxis(array, axis, 0)[_ranges(at, count)]


def _ranges(at: Ints, count: Ints) -> Ints:
    """`at_0, at_0 + 1, …, at_0 + count_0 − 1, at_1, …`."""
    before = np.cumsum(count) - count
    ranges: Ints = np.arange(int(count.sum())) + np.repeat(at - before, count)
    return ranges


def _spread(mask: NDArray[np.bool_], count: Ints) -> NDArray[np.bool_]:
    return np.repeat(mask, count)


def _slice(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[start:stop] if axis == 0 else array[:, start:stop]


def same_rows(a: Array, b: Array) -> NDArray[np.bool_]:
    """Rows that are the same bits: NaN equals NaN, and 0 is not −0."""
    kind = f"u{a.dtype.itemsize}"
    equal = a.view(kind) == b.view(kind) if a.dtype == b.dtype and a.dtype.kind == "f" else a == b
    same: NDArray[np.bool_] = (equal | ((a != a) & (b != b))).all(axis=tuple(range(1, a.ndim)))
    return same


def _bits(array: Array) -> int:
    """The sum of all numbers as words of bits, modulo 2^64."""
    return int(np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").sum(dtype=np.uint64))


def _agreeing(a: Array, b: Array) -> int:
    """How many rows agree from the front on."""
    differ = np.flatnonzero(~same_rows(a, b)) if len(a) else np.zeros(0, np.int64)
    return int(differ[0]) if len(differ) else len(a)
