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
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolayer.arrays import Array, Ints, NamedArrays, Words

UNHASHED = ("summary",)
"""Keys left out of the digest: the summary, which an edited model does not have."""
WINDOW = 1024
"""Neurons of either side among which common ones are looked for at a time."""
LONGEST_COMPARED = 1 << 15
"""Neurons that are compared as they stand at a time, at most: their bits stay in the cache."""

ConfigChange = dict[str, dict[str, Any]]
"""Keys of a configuration that change, with their values `before` and `after`; a side without the key is left out."""
NeuronAxes = Mapping[str, int]
"""Tensors whose rows are the neurons of one block, each with the axis that counts them."""


@dataclass(frozen=True, eq=False)
class Content:
    """A model as an edit sees it: its `tensors`, its `config` as JSON, and in `blocks` which tensors hold neurons.

    The lists of names are part of `config`.
    """

    tensors: NamedArrays
    config: Mapping[str, Any]
    blocks: Mapping[str, NeuronAxes]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything but the summary."""
        sha256 = hashlib.sha256()
        hashed = {key: value for key, value in self.config.items() if key not in UNHASHED}
        sha256.update(json.dumps(hashed, sort_keys=True, ensure_ascii=True).encode())
        for name in sorted(self.tensors):
            array = np.ascontiguousarray(self.tensors[name])
            sha256.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
            sha256.update(array.view(np.uint8).data if array.size else b"")
        return sha256.hexdigest()

    def differing(self, other: Content) -> list[str]:
        """Tensors that are not the same bits, and keys of the configuration that differ; the summary aside."""
        tensors = sorted({*self.tensors, *other.tensors})
        changed_names = [name for name in tensors if not same(self.tensors.get(name), other.tensors.get(name))]
        return changed_names + sorted(config_change(self.config, other.config).keys() - set(UNHASHED))


def config_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> ConfigChange:
    """Keys whose values differ, with their values `before` and `after`; a side that lacks the key is left out."""
    sides = (("before", old), ("after", new))
    changes = {key: {side: config[key] for side, config in sides if key in config} for key in sorted({*old, *new})}
    return {key: values for key, values in changes.items() if len(values) == 1 or values["before"] != values["after"]}


def array_of(tensor: Tensor) -> Array:
    """The numbers of a tensor as an array; of bfloat16, which NumPy lacks, the bits."""
    tensor = tensor.detach().cpu()
    return tensor.view(torch.int16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def tensor_of(array: Array, dtype: torch.dtype) -> Tensor:
    """The tensor of this format that `array_of` turns into this array."""
    tensor = torch.from_numpy(np.array(array, order="C"))
    return tensor.view(torch.bfloat16) if dtype == torch.bfloat16 else tensor


def bits(array: Array) -> Array:
    """The bits of every number, as unsigned integers: so NaN equals NaN, and 0 differs from −0."""
    return array.view(f"u{array.dtype.itemsize}")


def same(one: Array | None, two: Array | None) -> bool:
    """Whether two tensors have the same type and bits, or neither exists."""
    if one is None or two is None:
        return one is two
    return one.dtype == two.dtype and np.array_equal(bits(one), bits(two))


@dataclass(frozen=True, eq=False)
class Splice:
    """A replacement of rows of `tensor` along `axis`: rows `out` of the old one go, rows `put` of the new one come.

    `before`, `after`: the contents of these rows. Where `axis` is None the tensor as a whole is added (`before` is
    None), removed (`after` is None), or replaced by one of another shape.
    """

    tensor: str
    axis: int | None
    out: Ints
    put: Ints
    before: Array | None
    after: Array | None

    def apply(self, old: Array | None) -> Array | None:
        """The new tensor. The caller checks that `old` is the tensor that this splice was made from."""
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


class Difference(NamedTuple):
    """`splices` turn the old tensors into the new ones.

    `blocks`: for each block whose neurons differ, how many only the old model has, and how many only the new one.
    """

    splices: tuple[Splice, ...]
    blocks: dict[str, tuple[int, int]]


def difference(old: NamedArrays, new: NamedArrays, blocks: Mapping[str, NeuronAxes]) -> Difference:
    """The difference of two models; `blocks`: which tensors hold neurons, in either of them."""
    splices: list[Splice] = []
    only: dict[str, tuple[int, int]] = {}
    done: set[str] = set()
    for name, axes in blocks.items():
        if all(part in old and part in new and _alike(old[part], new[part], axis) for part, axis in axes.items()):
            replaced, only[name] = _neuron_splices(old, new, axes)
            splices += replaced
            done |= axes.keys()
        else:
            sizes = [next((side[p].shape[axis] for p, axis in axes.items() if p in side), 0) for side in (old, new)]
            only[name] = sizes[0], sizes[1]
    for name in sorted({*old, *new} - done):
        splices += _row_splices(name, old.get(name), new.get(name))
    return Difference(tuple(splices), {name: pair for name, pair in sorted(only.items()) if pair != (0, 0)})


@dataclass(frozen=True, eq=False)
class _Neurons:
    """The neurons of one block of one model: `rows`, those of each of its tensors, neurons counted by the first axis.

    `leads`: how many rows of each tensor stand in front of those of the first neuron. A staircase of real labels has
    one label more than steps: that of the run in front of all of them.
    """

    rows: list[Array]
    leads: list[int]
    count: int

    @classmethod
    def of(cls, tensors: NamedArrays, axes: NeuronAxes) -> _Neurons:
        """The neurons of one block; `axes` says which axis of each tensor counts them."""
        rows = [np.moveaxis(tensors[name], axis, 0) for name, axis in axes.items()]
        count = min(map(len, rows))
        return cls(rows, [len(part) - count for part in rows], count)

    @property
    def own(self) -> list[Array]:
        """The rows of neurons, `count` in every tensor."""
        return [part[lead:] for part, lead in zip(self.rows, self.leads, strict=True)]


def _neuron_splices(old: NamedArrays, new: NamedArrays, axes: NeuronAxes) -> tuple[list[Splice], tuple[int, int]]:
    """Replacements of the neurons that one of the two models lacks, and how many neurons only either of them has."""
    one, two = _Neurons.of(old, axes), _Neurons.of(new, axes)
    kept, pairs = _common_neurons(one, two)
    out, put = np.delete(np.arange(one.count), kept), np.delete(np.arange(two.count), pairs)
    splices = []
    for number, (name, axis) in enumerate(axes.items()):
        before, after = one.rows[number], two.rows[number]
        lead_before, lead_after = one.leads[number], two.leads[number]
        gone, come = lead_before + out, lead_after + put
        if not same(before[:lead_before], after[:lead_after]):
            gone, come = np.append(np.arange(lead_before), gone), np.append(np.arange(lead_after), come)
        splices += _splice_if_any(name, axis, before, after, gone, come)
    return splices, (len(out), len(put))


def _common_neurons(one: _Neurons, two: _Neurons) -> tuple[Ints, Ints]:
    """Numbers, in `one` and in `two`, of neurons that both have in the same order, equal in all their bits.

    Stretches that are equal are compared as they stand. Where one ends, as many neurons of either side as `WINDOW` are
    compared by their keys, and more if these have none in common.
    """
    common = [np.zeros((2, 0), np.int64)]
    i, j, size = 0, 0, WINDOW
    while i < one.count and j < two.count:
        equal = _equal_stretch(one, two, i, j)
        common.append(np.arange(equal) + np.array([[i], [j]]))
        i, j = i + equal, j + equal
        pair = _pairs([part[i : i + size] for part in one.own], [part[j : j + size] for part in two.own])
        if pair.size:
            common.append(pair + np.array([[i], [j]]))
            i, j, size = i + int(pair[0, -1]) + 1, j + int(pair[1, -1]) + 1, WINDOW
        elif size >= max(one.count - i, two.count - j):
            break
        else:
            size *= 4
    mine, theirs = np.concatenate(common, axis=1)
    return mine, theirs


def _equal_stretch(one: _Neurons, two: _Neurons, i: int, j: int) -> int:
    """How many neurons from `i` on in `one` are the bits of those from `j` on in `two`."""
    done, size, most = 0, WINDOW, min(one.count - i, two.count - j)
    while done < most:
        step = min(size, most - done)
        for a, b in zip(one.own, two.own, strict=True):
            equal = _same_rows(a[i + done : i + done + step], b[j + done : j + done + step])
            step = step if equal.all() else int(equal.argmin())
        if step == 0:
            break
        done, size = done + step, min(2 * size, LONGEST_COMPARED)
    return done


def _row_splices(name: str, old: Array | None, new: Array | None) -> list[Splice]:
    """The splice of a tensor without neurons: rows that changed, or came or went at the end; else the whole tensor."""
    if old is not None and new is not None and old.ndim and _alike(old, new, 0):
        both = min(len(old), len(new))
        changed = np.flatnonzero(~_same_rows(old[:both], new[:both]))
        out, put = (np.append(changed, np.arange(both, len(side))) for side in (old, new))
        return _splice_if_any(name, 0, old, new, out, put)
    none = np.zeros(0, np.int64)
    return [] if same(old, new) else [Splice(name, None, none, none, old, new)]


def _splice_if_any(name: str, axis: int, old: Array, new: Array, out: Ints, put: Ints) -> list[Splice]:
    """The splice that replaces rows `out` of the old tensor by rows `put` of the new one; none if there are no rows."""
    return [Splice(name, axis, out, put, old[out], new[put])] if len(out) or len(put) else []


def _pairs(one: list[Array], two: list[Array]) -> Ints:
    """Places `(2, K)` of neurons that both sides have, rising in both; a side has rows of each of its tensors."""
    pair = np.stack(np.intersect1d(_keys(one), _keys(two), return_indices=True)[1:])
    pair = pair[:, pair[0].argsort()]
    pair = pair[:, np.diff(np.maximum.accumulate(pair[1]), prepend=-1) > 0]
    for a, b in zip(one, two, strict=True):  # equal keys do not prove equal rows
        pair = pair[:, _same_rows(a[pair[0]], b[pair[1]])]
    return pair


def _keys(parts: list[Array]) -> Words:
    """A hash per neuron `(count,)`, the sum of its words times odd numbers: equal if the bits are, and rarely else."""
    keys, odd = np.zeros(len(parts[0]), np.uint64), 0x9E3779B97F4A7C15
    for rows in parts:
        for column in bits(rows.reshape(len(rows), math.prod(rows.shape[1:]))).T:
            keys += column.astype(np.uint64) * np.uint64(odd)
            odd = odd * 0xBF58476D1CE4E5B9 % 2**64
    return keys


def _alike(a: Array, b: Array, axis: int) -> bool:
    """Whether two arrays have the same type, and the same shape but for one axis."""
    if a.dtype != b.dtype or a.ndim != b.ndim or a.ndim <= axis:
        return False
    return np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist()


def _same_rows(a: Array, b: Array) -> NDArray[np.bool_]:
    """Which rows of two arrays of one shape have the same bits."""
    same: NDArray[np.bool_] = (bits(a) == bits(b)).all(axis=tuple(range(1, a.ndim)))
    return same
