"""Points that the checker judges by runs: what it says of them must be what each point shows by itself."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

import monolayer as ml
from monolayer.arrays import Ints
from monolayer.checker.codes import Sums
from monolayer.checker.readout import CheckedStaircase
from monolayer.checker.rounding import BINARY32, BINARY64
from monolayer.checker.runs import looked_at
from monolayer.checker.stages import _stage


class Drawn(NamedTuple):
    """Points `(M,)` beside a staircase that writes numbers of classes, and the classes that they want."""

    stairs: CheckedStaircase
    sums: Sums
    wanted: Ints
    classes: int


def drawn(rng: np.random.Generator, kind: str) -> Drawn:
    """Points and steps of a right model, or some that are too near each other, or with one thing that is odd.

    Distances are some radii, or many more than that.
    """
    classes, fmt = int(rng.integers(1, 9)), (BINARY64, BINARY32)[rng.integers(2)]
    H = int(rng.integers(0, 12)) if classes > 1 else 0
    off = 2.0 ** float(rng.integers(-60, -20))
    wide = off * (2.0 ** float(rng.integers(4, 30)) if kind == "right" else float(rng.choice([1, 3, 10, 1e3, 1e9])))
    ends = rng.normal() * rng.choice([0.0, wide, 100 * wide, 2.0**54 * off]) + wide * np.cumsum(
        rng.uniform(0.5, 2.0, 2 * H)
    )
    low, high = np.sort(ends).reshape(H, 2).T.copy()
    level = (np.cumsum(rng.integers(1, max(2, classes), H + 1)) % classes).astype(np.float64)  # each step changes it
    stairs = CheckedStaircase(low, high, level[None])
    left, right = np.append(low[:1] - 3 * wide if H else 0.0, high), np.append(low, high[-1:] + 3 * wide if H else 1.0)
    plateau = rng.integers(0, H + 1, int(rng.integers(1, 40)))
    share = rng.uniform(0.3, 0.7) if kind == "right" else rng.choice([0.0, 1e-3, 0.3, 0.5, 0.9, 1.0], len(plateau))
    z, wanted = left[plateau] + share * (right[plateau] - left[plateau]), level[plateau].astype(np.int64)
    before = np.array([1.0, 0.5, 1.0, 2.0]) * off
    terms = np.array(2) if rng.random() < 0.5 or kind == "right" else rng.integers(1, 4, len(z))
    match kind:
        case "another class":
            wanted[rng.integers(len(z))] = rng.integers(classes)
        case "another level":
            stairs.level[0, rng.integers(H + 1)] += rng.choice([-1.0, 0.25, 1.0])
        case "no such class":
            wanted[rng.integers(len(z))] = rng.choice([-1, classes])
        case "no number":
            z[rng.integers(len(z))] = rng.choice([np.nan, -np.nan, np.inf, -np.inf])
        case "another step":
            extra = np.sort(rng.uniform(left[0], right[-1], 2))
            both = np.sort(np.concatenate([low, high, extra])).reshape(-1, 2).T.copy()
            stairs = CheckedStaircase(*both, rng.choice(level, (1, both.shape[1] + 1)))
        case "zero":
            z[rng.integers(len(z))] = rng.choice([0.0, -0.0, 5e-324, -5e-324])
    return Drawn(stairs, Sums(z, terms, (before, 2.0 * before if fmt is BINARY32 else before), fmt), wanted, classes)


KINDS = ("right", "near", "another class", "another level", "no such class", "no number", "another step", "zero")


@pytest.mark.parametrize(("together", "few", "count"), [(1, 1, 600), (3, 8, 1000), (1 << 14, 0, 600)])
def test_what_is_not_looked_at_is_right_and_no_nearer_to_a_step(
    monkeypatch: pytest.MonkeyPatch, together: int, few: int, count: int
) -> None:
    monkeypatch.setattr("monolayer.arrays.NUMBERS_IN_CACHE", together)
    monkeypatch.setattr("monolayer.checker.runs.FEW", few)
    seen: Counter[str] = Counter()
    for seed in range(count):
        rng = np.random.default_rng(seed)
        kind = KINDS[seed % len(KINDS)]
        case = drawn(rng, kind)
        with np.errstate(all="ignore"):
            numbers = looked_at(*case)
            each = _stage(case.stairs, case.sums)
        others = np.full(len(case.wanted), numbers is not None)
        others[[] if numbers is None else numbers] = False
        assert (each.sure & np.isfinite(each.z))[others].all()
        assert (each.value[0] == case.wanted)[others].all()
        least = np.min(each.margin)
        assert (each.margin[others] > least).all() or least == np.inf
        seen[kind] += int(others.sum())
    assert min(seen[kind] for kind in ("right", "near", "zero")) > 40
    # A stretch with one doubt is looked at as a whole.
    assert together > 3 or min(seen[kind] for kind in ("another class", "another level", "another step")) > 40
    assert seen["no such class"] == seen["no number"] == 0


def test_of_a_right_model_hardly_any_point_is_looked_at() -> None:
    """Of 5,000 points on 500 plateaus those near one step or two; but a stretch with a wrong class as a whole."""
    rng = np.random.default_rng(0)
    high = np.arange(1.0, 500.0)
    stairs = CheckedStaircase(high - 0.25, high, (np.arange(500.0) % 7.0)[None])
    plateau = rng.integers(0, 500, 5000)
    z, wanted = plateau + rng.uniform(0.0, 0.75, 5000), plateau % 7
    sums = Sums(z, np.array(1), (np.full(2, 1e-13),) * 2, BINARY64)
    numbers, least = looked_at(stairs, sums, wanted, 7), int(np.argmin(_stage(stairs, sums).margin))
    assert numbers is not None
    assert least in numbers
    assert len(numbers) < 10
    assert looked_at(stairs, sums, wanted, 1 << 13) is None
    wanted[17] += 1
    everything = looked_at(stairs, sums, wanted, 8)
    assert everything is not None
    assert everything.tolist() == list(range(5000))


@pytest.mark.parametrize("labels", [[[0, 0], [0, 0]], [[0, 1], [1, 0]]])
def test_a_label_error_is_0_whether_points_are_looked_at_or_not(labels: list[list[int]]) -> None:
    """Of one class there is no step, and no point that is judged by itself."""
    X = [[1, 2], [2, 3]]
    proof = ml.certify(ml.memorize(X, labels), X, labels)
    assert (proof.verdict, proof.label_error) == ("proved", 0.0)
    assert (proof.margin is None) == (labels[0] == labels[1])
