"""What differs between the tensors of two models: rows out and rows in, with their contents, so that it can be undone.

old   ──┬──before──┬───────┬before┬──        at: where, in the old tensor
new   ──┴after┴─────────┴──after──┴──        taken, put: how many rows are replaced by how many

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


@dataclass(frozen=True, eq=False)
class Content:
    """`tensors`, `config` as JSON, lists of `names`; `blocks`: which tensors hold neurons."""

    tensors: Tensors
    config: Mapping[str, Any]
    names: Mapping[str, list[Any]]
    blocks: Mapping[str, Block]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything but the summary."""
        found = hashlib.sha256()
        said = {key: value for key, value in self.config.items() if key not in UNHASHED}
        found.update(json.dumps([said, dict(self.names)], sort_keys=True, ensure_ascii=True).encode())
        for name in sorted(self.tensors):
            array = np.ascontiguousarray(self.tensors[name])
            found.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
            found.update(array.view(np.uint8).data if array.size else b"")
        return found.hexdigest()

    def differing(self, other: Content) -> list[str]:
        """Tensors that are not the same bits, and keys of the configuration that differ; the summary aside."""
        tensors = sorted({*self.tensors, *other.tensors})
        found = [name for name in tensors if not same(self.tensors.get(name), other.tensors.get(name))]
        found += sorted(config_change(self.config, other.config).keys() - set(UNHASHED))
        return found + ([] if self.names == other.names else ["names"])


def config_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Keys whose values differ, with their values `before` and `after`, as far as they have any."""
    sides = (("before", old), ("after", new))
    found = {key: {side: config[key] for side, config in sides if key in config} for key in sorted({*old, *new})}
    return {key: values for key, values in found.items() if len(values) == 1 or values["before"] != values["after"]}


Array = NDArray[Any]
Tensors = Mapping[str, Array]
Block = Mapping[str, int]
"""Tensors whose rows are the neurons of one block, each with the axis that counts them."""


def array_of(tensor: Tensor) -> Array:
    """The numbers of a tensor as an array; of bfloat16, which NumPy lacks, the bits."""
    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


@dataclass(frozen=True, eq=False)
class Splice:
    """`K` replacements in `tensor` along `axis`: `at`, `taken`, `put` `(K,)`; `before`, `after`: all rows, axis first.

    `axis` None: the tensor as a whole, which comes (`before` None), goes (`after` None) or changes its shape.
    """

    tensor: str
    axis: int | None
    at: Ints
    taken: Ints
    put: Ints
    before: Array | None
    after: Array | None

    def apply(self, old: Array | None) -> Array | None:
        """The new tensor; that `old` is the one of the record is for the caller to check."""
        if self.axis is None or old is None or self.after is None:
            return self.after
        rows = np.moveaxis(old, self.axis, 0)
        shift = np.cumsum(self.put - self.taken) - (self.put - self.taken)
        come = _ranges(self.at + shift, self.put)
        new = np.empty((len(rows) + int((self.put - self.taken).sum()), *rows.shape[1:]), old.dtype)
        stay = np.ones(len(rows), dtype=bool)
        stay[_ranges(self.at, self.taken)] = False
        own = np.ones(len(new), dtype=bool)
        own[come] = False
        new[come], new[own] = self.after, rows[stay]
        return np.ascontiguousarray(np.moveaxis(new, 0, self.axis))

    def inverse(self) -> Splice:
        """The replacement that brings the old tensor back."""
        shift = np.cumsum(self.put - self.taken) - (self.put - self.taken)
        return replace(self, at=self.at + shift, taken=self.put, put=self.taken, before=self.after, after=self.before)


def difference(
    old: Tensors, new: Tensors, blocks: Mapping[str, Block]
) -> tuple[tuple[Splice, ...], dict[str, tuple[int, int]]]:
    """What makes the tensors `new` of `old`, and by block how many neurons only the one and only the other has.

    `blocks`: which tensors hold neurons, of either side.
    """
    splices: list[Splice] = []
    only: dict[str, tuple[int, int]] = {}
    done: set[str] = set()
    for name, axes in blocks.items():
        if all(part in old and part in new and _alike(old[part], new[part], axis) for part, axis in axes.items()):
            found, only[name] = _neurons(old, new, axes)
            splices += found
            done |= axes.keys()
        else:
            sizes = [next((side[p].shape[axis] for p, axis in axes.items() if p in side), 0) for side in (old, new)]
            only[name] = sizes[0], sizes[1]
    for name in sorted({*old, *new} - done):
        splices += _rows(name, old.get(name), new.get(name))
    return tuple(splices), {name: pair for name, pair in sorted(only.items()) if pair != (0, 0)}


def same(one: Array | None, two: Array | None) -> bool:
    """Whether two tensors are the same bits, NaN as NaN; or neither is there."""
    if one is None or two is None:
        return one is two
    return one.shape == two.shape and one.dtype == two.dtype and bool(_same_rows(one, two).all())


def _neurons(old: Tensors, new: Tensors, axes: Block) -> tuple[list[Splice], tuple[int, int]]:
    """Replacements of the neurons that one of the two lacks, and how many these are."""
    sides = [{name: np.moveaxis(each[name], axis, 0) for name, axis in axes.items()} for each in (old, new)]
    counts = [min(len(rows) for rows in side.values()) for side in sides]
    # A staircase of real labels has a label more than steps: that of the run in front of all of them.
    keys = [
        _keys([rows[len(rows) - count :] for rows in side.values()], count)
        for side, count in zip(sides, counts, strict=True)
    ]
    one, two = _common(*keys)
    for name in axes:
        a, b = (side[name][len(side[name]) - count :] for side, count in zip(sides, counts, strict=True))
        equal = _same_rows(a[one], b[two])
        one, two = one[equal], two[equal]
    stay = [_mask(count, rows) for count, rows in zip(counts, (one, two), strict=True)]
    ends = [np.append(rows, count) for rows, count in zip((one, two), counts, strict=True)]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    taken, put = ends[0] - starts[0], ends[1] - starts[1]  # between two neurons that stay
    some = (taken > 0) | (put > 0)
    at, taken, put = starts[0][some], taken[some], put[some]
    splices = []
    for name, axis in axes.items():
        a, b = sides[0][name], sides[1][name]
        first = len(a) - counts[0]
        out, come = a[first:][~stay[0]], b[first:][~stay[1]]
        places = [at + first, taken, put]
        if first and not bool(_same_rows(a[:first], b[:first]).all()):
            places = [np.append(size, rest) for size, rest in zip((0, first, first), places, strict=True)]
            out, come = np.concatenate([a[:first], out]), np.concatenate([b[:first], come])
        if len(places[0]):
            splices.append(Splice(name, axis, places[0], places[1], places[2], out, come))
    return splices, (counts[0] - len(one), counts[1] - len(two))


def _rows(name: str, old: Array | None, new: Array | None) -> list[Splice]:
    """Rows that changed in place, and those that came or went at the end; or the whole tensor."""
    if same(old, new):
        return []
    if old is None or new is None or not old.ndim or not _alike(old, new, 0):
        none = np.zeros(0, np.int64)
        return [Splice(name, None, none, none, none, old, new)]
    both = min(len(old), len(new))
    changed = np.flatnonzero(~_same_rows(old[:both], new[:both]))
    one = np.ones(len(changed), np.int64)
    at, taken, put = np.append(changed, both), np.append(one, len(old) - both), np.append(one, len(new) - both)
    out, come = (np.concatenate([side[changed], side[both:]]) for side in (old, new))
    return [Splice(name, 0, at, taken, put, out, come)]


def _common(one: Words, two: Words) -> tuple[Ints, Ints]:
    """Places of equal keys that rise on both sides: as far as both agree, and on from where they next do."""
    pairs = [(0, 0, 0)]
    i = j = 0
    while i < len(one) and j < len(two):
        run = _agreeing(one[i:], two[j:])
        pairs.append((i, j, run))
        step = _next(one[i + run :], two[j + run :])
        if step is None:
            break
        i, j = i + run + step[0], j + run + step[1]
    mine, theirs, size = np.array(pairs).T
    return _ranges(mine, size), _ranges(theirs, size)


def _agreeing(a: Words, b: Words) -> int:
    """How many entries agree from the front on."""
    length, done, size = min(len(a), len(b)), 0, 64
    while done < length:
        part = slice(done, min(length, done + size))
        differ = np.flatnonzero(a[part] != b[part])
        if len(differ):
            return done + int(differ[0])
        done, size = done + size, 2 * size
    return length


def _next(a: Words, b: Words) -> tuple[int, int] | None:
    """The nearest places of an entry that both have; None: they have none in common."""
    size = 16
    while len(a) and len(b):
        _, i, j = np.intersect1d(a[:size], b[:size], return_indices=True)
        if len(i):
            best = int(np.argmin(i + j))
            return int(i[best]), int(j[best])
        if size >= max(len(a), len(b)):
            break
        size *= 4
    return None


def _keys(parts: list[Array], count: int) -> Words:
    """A word per neuron `(R,)`, the sum of all its words times odd numbers: equal for equal bits, and rarely else."""
    keys, odd = np.zeros(count, np.uint64), 0x9E3779B97F4A7C15
    for rows in parts:
        flat = np.ascontiguousarray(rows.reshape(count, math.prod(rows.shape[1:])))
        for column in flat.view(f"u{flat.dtype.itemsize}").T:
            keys += column.astype(np.uint64) * np.uint64(odd)
            odd = odd * 0xBF58476D1CE4E5B9 % 2**64
    return keys


def _alike(a: Array, b: Array, axis: int) -> bool:
    """Whether two arrays have the same type, and the same shape but for one axis."""
    if a.dtype != b.dtype or a.ndim != b.ndim or a.ndim <= axis:
        return False
    return np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist()


def _same_rows(a: Array, b: Array) -> NDArray[np.bool_]:
    """Rows that are the same bits: NaN equals NaN, and 0 is not −0."""
    kind = f"u{a.dtype.itemsize}"
    equal = a.view(kind) == b.view(kind) if a.dtype.kind == "f" else a == b
    same: NDArray[np.bool_] = (equal | ((a != a) & (b != b))).all(axis=tuple(range(1, a.ndim)))
    return same


def _mask(count: int, rows: Ints) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=bool)
    mask[rows] = True
    return mask


def _ranges(at: Ints, count: Ints) -> Ints:
    """`at_0, at_0 + 1, …, at_0 + count_0 − 1, at_1, …`."""
    before = np.cumsum(count) - count
    ranges: Ints = np.arange(int(count.sum())) + np.repeat(at - before, count)
    return ranges
