"""What differs between the tensors of two models: rows out and rows in, with their contents, so that it can be undone.

A neuron is a row of several tensors. Neurons that both models have are found by the bits of all of these rows.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Ints, Words

UNHASHED = ("summary",)
"""What the builder measured: an edited model has no summary, and is the same model with one."""
WINDOW = 1024
"""Neurons of either side among which common ones are looked for at a time."""

Array = NDArray[Any]
NamedArrays = Mapping[str, Array]
NeuronAxes = Mapping[str, int]
"""Tensors whose rows are the neurons of one block, each with the axis that counts them."""


@dataclass(frozen=True, eq=False)
class Content:
    """`tensors`, `config` as JSON, which has the lists of names too; `blocks`: which tensors hold neurons."""

    tensors: NamedArrays
    config: Mapping[str, Any]
    blocks: Mapping[str, NeuronAxes]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything but the summary."""
        found = hashlib.sha256()
        said = {key: value for key, value in self.config.items() if key not in UNHASHED}
        found.update(json.dumps(said, sort_keys=True, ensure_ascii=True).encode())
        for name in sorted(self.tensors):
            array = np.ascontiguousarray(self.tensors[name])
            found.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
            found.update(array.view(np.uint8).data if array.size else b"")
        return found.hexdigest()

    def differing(self, other: Content) -> list[str]:
        """Tensors that are not the same bits, and keys of the configuration that differ; the summary aside."""
        tensors = sorted({*self.tensors, *other.tensors})
        found = [name for name in tensors if not same(self.tensors.get(name), other.tensors.get(name))]
        return found + sorted(config_change(self.config, other.config).keys() - set(UNHASHED))


def config_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Keys whose values differ, with their values `before` and `after`, as far as they have any."""
    sides = (("before", old), ("after", new))
    found = {key: {side: config[key] for side, config in sides if key in config} for key in sorted({*old, *new})}
    return {key: values for key, values in found.items() if len(values) == 1 or values["before"] != values["after"]}


def array_of(tensor: Tensor) -> Array:
    """The numbers of a tensor as an array; of bfloat16, which NumPy lacks, the bits."""
    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def tensor_of(array: Array, dtype: torch.dtype) -> Tensor:
    """The tensor of some format whose array this is."""
    tensor = torch.from_numpy(np.array(array, order="C"))
    return tensor.view(torch.bfloat16) if dtype == torch.bfloat16 else tensor


def bits(array: Array) -> Array:
    """Its numbers as whole numbers of their bits: NaN equals NaN, and 0 is not −0."""
    return array.view(f"u{array.dtype.itemsize}")


def same(one: Array | None, two: Array | None) -> bool:
    """Whether two tensors are the same bits; or neither is there."""
    if one is None or two is None:
        return one is two
    return one.dtype == two.dtype and np.array_equal(bits(one), bits(two))


@dataclass(frozen=True, eq=False)
class Splice:
    """Rows of `tensor` along `axis`: those numbered `out` in the old one go, those numbered `put` in the new one come.

    `before`, `after`: these rows. `axis` None: the tensor as a whole, which comes (`before` None), goes (`after` None)
    or changes its shape.
    """

    tensor: str
    axis: int | None
    out: Ints
    put: Ints
    before: Array | None
    after: Array | None

    def apply(self, old: Array | None) -> Array | None:
        """The new tensor; that `old` is the one of the record is for the caller to check."""
        if self.axis is None or old is None:
            return self.after
        rows = np.delete(np.moveaxis(old, self.axis, 0), self.out, axis=0)
        new = np.empty((len(rows) + len(self.put), *rows.shape[1:]), old.dtype)
        come = np.zeros(len(new), dtype=bool)
        come[self.put] = True
        new[come], new[~come] = self.after, rows
        return np.ascontiguousarray(np.moveaxis(new, 0, self.axis))

    def inverse(self) -> Splice:
        """The replacement that brings the old tensor back."""
        return replace(self, out=self.put, put=self.out, before=self.after, after=self.before)


def difference(
    old: NamedArrays, new: NamedArrays, blocks: Mapping[str, NeuronAxes]
) -> tuple[tuple[Splice, ...], dict[str, tuple[int, int]]]:
    """What makes the tensors `new` of `old`, and by block how many neurons only the one and only the other has.

    `blocks`: which tensors hold neurons, of either side.
    """
    splices: list[Splice] = []
    only: dict[str, tuple[int, int]] = {}
    done: set[str] = set()
    for name, axes in blocks.items():
        if all(part in old and part in new and _alike(old[part], new[part], axis) for part, axis in axes.items()):
            found, only[name] = _neuron_splices(old, new, axes)
            splices += found
            done |= axes.keys()
        else:
            sizes = [next((side[p].shape[axis] for p, axis in axes.items() if p in side), 0) for side in (old, new)]
            only[name] = sizes[0], sizes[1]
    for name in sorted({*old, *new} - done):
        splices += _row_splices(name, old.get(name), new.get(name))
    return tuple(splices), {name: pair for name, pair in sorted(only.items()) if pair != (0, 0)}


def _neuron_splices(old: NamedArrays, new: NamedArrays, axes: NeuronAxes) -> tuple[list[Splice], tuple[int, int]]:
    """Replacements of the neurons that one of the two lacks, and how many these are."""
    sides = [[np.moveaxis(each[name], axis, 0) for name, axis in axes.items()] for each in (old, new)]
    counts = [min(map(len, side)) for side in sides]
    # A staircase of real labels has a label more than steps: that of the run in front of all of them.
    leads = [[len(rows) - count for rows in side] for side, count in zip(sides, counts, strict=True)]
    own = [[rows[lead:] for rows, lead in zip(*pair, strict=True)] for pair in zip(sides, leads, strict=True)]
    one, two = _common(*(_keys(rows, count) for rows, count in zip(own, counts, strict=True)))
    for a, b in zip(*own, strict=True):
        equal = _same_rows(a[one], b[two])
        one, two = one[equal], two[equal]
    out, put = np.delete(np.arange(counts[0]), one), np.delete(np.arange(counts[1]), two)
    splices = []
    for (name, axis), a, b, before, after in zip(axes.items(), *sides, *leads, strict=True):
        front = 0 if same(a[:before], b[:after]) else max(before, after)
        gone, come = (np.append(np.arange(lead)[:front], lead + rows) for lead, rows in ((before, out), (after, put)))
        splices += _splice_if_any(name, axis, a, b, gone, come)
    return splices, (len(out), len(put))


def _row_splices(name: str, old: Array | None, new: Array | None) -> list[Splice]:
    """Rows that changed in place, and those that came or went at the end; or the whole tensor."""
    if old is not None and new is not None and old.ndim and _alike(old, new, 0):
        both = min(len(old), len(new))
        changed = np.flatnonzero(~_same_rows(old[:both], new[:both]))
        out, put = (np.append(changed, np.arange(both, len(side))) for side in (old, new))
        return _splice_if_any(name, 0, old, new, out, put)
    none = np.zeros(0, np.int64)
    return [] if same(old, new) else [Splice(name, None, none, none, old, new)]


def _splice_if_any(name: str, axis: int, old: Array, new: Array, out: Ints, put: Ints) -> list[Splice]:
    return [Splice(name, axis, out, put, old[out], new[put])] if len(out) or len(put) else []


def _common(one: Words, two: Words) -> tuple[Ints, Ints]:
    """Places of equal keys that rise on both sides, a window of both at a time."""
    found = [np.zeros((2, 0), np.int64)]
    i, j, size = 0, 0, WINDOW
    while i < len(one) and j < len(two):
        a, b = one[i : i + size], two[j : j + size]
        if np.array_equal(a, b):  # the usual case, for which nothing need be sorted
            pair = np.tile(np.arange(len(a)), (2, 1))
        else:
            pair = np.stack(np.intersect1d(a, b, return_indices=True)[1:])
            pair = pair[:, pair[0].argsort()]
            pair = pair[:, np.diff(np.maximum.accumulate(pair[1]), prepend=-1) > 0]
        if pair.size:
            found.append(pair + np.array([[i], [j]]))
            i, j, size = i + int(pair[0, -1]) + 1, j + int(pair[1, -1]) + 1, WINDOW
        elif size >= max(len(one) - i, len(two) - j):
            break
        else:
            size *= 4
    mine, theirs = np.concatenate(found, axis=1)
    return mine, theirs


def _keys(parts: list[Array], count: int) -> Words:
    """A word per neuron `(R,)`, the sum of all its words times odd numbers: equal for equal bits, and rarely else."""
    keys, odd = np.zeros(count, np.uint64), 0x9E3779B97F4A7C15
    for rows in parts:
        for column in bits(rows.reshape(count, math.prod(rows.shape[1:]))).T:
            keys += column.astype(np.uint64) * np.uint64(odd)
            odd = odd * 0xBF58476D1CE4E5B9 % 2**64
    return keys


def _alike(a: Array, b: Array, axis: int) -> bool:
    """Whether two arrays have the same type, and the same shape but for one axis."""
    if a.dtype != b.dtype or a.ndim != b.ndim or a.ndim <= axis:
        return False
    return np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist()


def _same_rows(a: Array, b: Array) -> NDArray[np.bool_]:
    """Rows that are the same bits."""
    same: NDArray[np.bool_] = (bits(a) == bits(b)).all(axis=tuple(range(1, a.ndim)))
    return same
