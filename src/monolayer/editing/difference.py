"""What differs between the tensors of two models: rows that come and go, and tensors of another shape.

Neurons of one staircase are rows of several tensors. They rise, so those that both models have stand in the same order
in both, and are found by their contents:

    old   n₁ n₂ n₃ n₄ n₅         the splice: n₂ n₃ out, m in; and so in every tensor that they are rows of
    new   n₁   m   n₄ n₅
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from monolayer.data.names import Ints
from monolayer.editing.splice import Array, Splice, same_rows
from monolayer.editing.swap import Swap, same

Tensors = Mapping[str, Array]


def difference(old: Tensors, new: Tensors) -> tuple[list[Splice], list[Swap]]:
    """What makes the tensors `new` of `old`."""
    splices: list[Splice] = []
    done: set[str] = set()
    for name in old:
        prefix = name.removesuffix(".weight_1")
        if prefix == name or name not in new:
            continue
        both = f"{prefix}.gate" in old and f"{prefix}.gate" in new
        cell = [_cell_of_step(each, prefix) for each in (old, new)] if both else None
        steps, labels = {name: 0, f"{prefix}.bias_1": 0}, {f"{prefix}.weight_2": 1}
        groups: list[tuple[dict[str, int], list[Array] | None]] = [(steps | labels, cell)]
        if old[name].shape[0] != old[f"{prefix}.weight_2"].shape[1]:  # one label a run, not one a step
            groups = [(steps, None), (labels, [_steps_of_run(each, prefix) for each in (old, new)])]
        groups += [({f"{prefix}.{part}": 0 for part in ("gate", "base", "count")}, None)] if both else []
        for axes, extra in groups:
            found = _aligned(old, new, axes, extra)
            if found is not None:
                splices += found
                done |= set(axes)
    swaps: list[Swap] = []
    for name in dict.fromkeys([*old, *new]):
        if name in done:
            continue
        a, b = old.get(name), new.get(name)
        axis = int(name.endswith("weight_2"))
        if a is None or b is None or _rest(a, axis) != _rest(b, axis):
            swaps += [Swap(name, a, b)]
        elif not same(a, b):
            splices += row_splices(name, a, b) if axis == 0 and len(b) >= len(a) else _between(name, axis, a, b)
    return splices, swaps


def row_splices(name: str, old: Array, new: Array) -> Iterable[Splice]:
    """Rows that changed in place, and those that came behind."""
    changed = np.flatnonzero(~same_rows(old, new[: len(old)]))
    one = np.ones(len(changed), np.int64)
    at, taken, put = np.append(changed, len(old)), np.append(one, 0), np.append(one, len(new) - len(old))
    found = Splice.of(name, 0, old, at, taken, put, np.concatenate([new[changed], new[len(old) :]]))
    if found is not None:
        yield found


def _between(name: str, axis: int, old: Array, new: Array) -> Iterable[Splice]:
    found = Splice.between(name, axis, old, new)
    return [] if found is None else [found]


def _aligned(old: Tensors, new: Tensors, axes: dict[str, int], extra: list[Array] | None) -> list[Splice] | None:
    """Rows, those of all tensors of `axes` taken together, that one of the two lacks; `extra` tells equal rows apart.

    None if the tensors do not have the same number of rows, or rows that stay are not in the same order.
    """
    keys = []
    for number, tensors in enumerate((old, new)):
        rows = [np.moveaxis(tensors[name], axis, 0) for name, axis in axes.items()]
        if len({len(part) for part in rows}) != 1:
            return None
        rows += [] if extra is None else [extra[number]]
        columns = [part.reshape(len(part), math.prod(part.shape[1:])) for part in rows]
        table = np.ascontiguousarray(np.concatenate(columns, axis=1))
        kind = f"V{table.shape[1] * table.itemsize}"
        keys.append(table.view(kind)[:, 0] if table.size else np.zeros(0, kind))
    if keys[0].dtype != keys[1].dtype:
        return None
    stay = [np.isin(keys[0], keys[1]), np.isin(keys[1], keys[0])]
    if not np.array_equal(keys[0][stay[0]], keys[1][stay[1]]):
        return None
    ends = [np.flatnonzero(np.append(mask, True)) for mask in stay]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    taken, put = ends[0] - starts[0], ends[1] - starts[1]  # between two rows that stay
    some = (taken > 0) | (put > 0)
    found = []
    for name, axis in axes.items():
        after = np.moveaxis(new[name], axis, 0)[~stay[1]]
        splice = Splice.of(name, axis, old[name], starts[0][some], taken[some], put[some], after, all_=True)
        found += [] if splice is None else [splice]
    return found


def _cell_of_step(tensors: Tensors, prefix: str) -> Array:
    """The code of the cell that each step belongs to: cells may have equal steps."""
    count: Ints = tensors[f"{prefix}.count"].astype(np.int64)
    return np.repeat(tensors[f"{prefix}.gate"], count)


def _steps_of_run(tensors: Tensors, prefix: str) -> Array:
    """The steps left and right of each run: runs may have equal labels."""
    step = np.stack([tensors[f"{prefix}.{part}"] for part in ("weight_1", "bias_1")], axis=1)
    blank = np.zeros_like(step, shape=(1, 2))  # no step has slope 0
    return np.concatenate([np.concatenate([blank, step]), np.concatenate([step, blank])], axis=1)


def _rest(array: Array, axis: int) -> tuple[int, ...]:
    """The shape but for one axis."""
    return tuple(size for place, size in enumerate(array.shape) if place != axis)
