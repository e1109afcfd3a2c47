"""What differs between the tensors of two models: rows that come and go, and tensors of another shape.

Neurons of one staircase are rows of several tensors. Their steps rise, so those that both models have are found by
where they start, and stand in the same order in both:

    old   n₁ n₂ n₃ n₄ n₅         the splice: n₂ n₃ out, m in; and so in every tensor that they are rows of
    new   n₁   m   n₄ n₅
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

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
        for axes, order in _groups(old, new, prefix):
            found = _aligned(old, new, axes, *order)
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


def _groups(old: Tensors, new: Tensors, prefix: str) -> Iterable[tuple[dict[str, int], list[Array]]]:
    """Tensors of a staircase whose rows belong together, each with its axis; and what rises along these rows."""
    steps, labels = {f"{prefix}.weight_1": 0, f"{prefix}.bias_1": 0}, {f"{prefix}.weight_2": 1}
    starts = [_starts(each, prefix) for each in (old, new)]
    heights = [_rest(each[f"{prefix}.weight_2"], 1) for each in (old, new)]
    if heights[0] != heights[1]:  # a last stage that is none any more writes stretches too
        yield steps, starts
        return
    if f"{prefix}.gate" in old and f"{prefix}.gate" in new:
        # Complex numbers are in order of their real parts first: cells, whose steps rise each by themselves.
        gates = [each[f"{prefix}.gate"] for each in (old, new)]
        counts = [each[f"{prefix}.count"].astype(np.int64) for each in (old, new)]
        cells = zip(gates, counts, starts, strict=True)
        yield steps | labels, [np.repeat(gate, count) + 1j * start for gate, count, start in cells]
        yield {f"{prefix}.{part}": 0 for part in ("gate", "base", "count")}, gates
    elif len(starts[0]) == old[f"{prefix}.weight_2"].shape[1]:
        yield steps | labels, starts
    else:  # one label a run, not one a step: runs begin where steps do
        yield steps, starts
        yield labels, [np.append(-np.inf, start) for start in starts]


def _aligned(old: Tensors, new: Tensors, axes: dict[str, int], one: Array, two: Array) -> list[Splice] | None:
    """Rows, those of all tensors of `axes` taken together, that one of the two lacks.

    `one`, `two`: numbers of the rows in both, none of which both have twice; None if they do not rise.
    """
    sides = [[np.moveaxis(each[name], axis, 0) for name, axis in axes.items()] for each in (old, new)]
    for order, rows in zip((one, two), sides, strict=True):
        if any(len(part) != len(order) for part in rows) or not (order[1:] > order[:-1]).all():
            return None
    place = np.searchsorted(two, one)
    stays = place < len(two)
    stays[stays] = two[place[stays]] == one[stays]
    for a, b in zip(*sides, strict=True):
        stays[stays] = same_rows(a[stays], b[place[stays]])
    stay = [stays, np.zeros(len(two), dtype=bool)]
    stay[1][place[stays]] = True
    ends = [np.flatnonzero(np.append(mask, True)) for mask in stay]
    starts = [np.append(0, end[:-1] + 1) for end in ends]
    taken, put = ends[0] - starts[0], ends[1] - starts[1]  # between two rows that stay
    some = (taken > 0) | (put > 0)
    found = []
    for (name, axis), after in zip(axes.items(), sides[1], strict=True):
        places = starts[0][some], taken[some], put[some]
        splice = Splice.of(name, axis, old[name], *places, after[~stay[1]], all_=True)
        found += [] if splice is None else [splice]
    return found


def _starts(tensors: Tensors, prefix: str) -> Array:
    """Where the steps of a staircase start `(R,)`."""
    slope, bias = (tensors[f"{prefix}.{part}"].astype(np.float64) for part in ("weight_1", "bias_1"))
    if slope.ndim != 1:  # half-spaces, which start nowhere
        return np.full(len(slope), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        start: Array = -bias / slope
    return start


def _rest(array: Array, axis: int) -> tuple[int, ...]:
    """The shape but for one axis."""
    return tuple(size for place, size in enumerate(array.shape) if place != axis)
