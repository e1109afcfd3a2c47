"""The library of functions: shapes, equivariance, equal tokens, and the Lipschitz constants that it vouches for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.construct.cells.function import Function, check_equivariance
from monolayer.construct.cells.grid import Box
from monolayer.errors import DataError
from monolayer.theory import targets
from monolayer.theory.targets import TARGETS, TargetFunction

NAMES = sorted(TARGETS)


def dims(target: TargetFunction) -> list[int]:
    return [1] if target.scalar else [1, 2, 3, 5]


@pytest.mark.parametrize("name", NAMES)
def test_equivariant_functions_pass_the_check_and_the_others_do_not(name: str) -> None:
    target = TARGETS[name]
    for dim in dims(target):
        function = Function(target, Box(dim, 4, -1.0, 2.0, False), None)
        if target.equivariant:
            check_equivariance(function, 0)
        else:
            with pytest.raises(DataError, match="not permutation equivariant"):
                check_equivariance(function, 0)


@pytest.mark.parametrize("name", [name for name in NAMES if TARGETS[name].lipschitz(1, 3, 0.0, 1.0) is not None])
@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(-3, 3), st.floats(0.1, 4), st.floats(1e-4, 1.0))
def test_no_pair_of_points_breaks_the_constant(
    name: str, seed: int, length: int, low: float, extent: float, size: float
) -> None:
    target, random = TARGETS[name], np.random.default_rng(seed)
    dim = int(random.choice(dims(target)))
    constant = target.lipschitz(dim, length, low, low + extent)
    assert constant is not None
    X = random.uniform(low, low + extent, (200, length, dim))
    # Corners of a cube around X: where a function that is nearly linear changes most.
    Y = np.clip(X + size * extent * random.choice([-1.0, 1.0], X.shape), low, low + extent)
    moved = np.abs(Y - X).max(axis=(1, 2))
    change = np.abs(np.asarray(target(X)) - np.asarray(target(Y))).reshape(200, -1).max(axis=1)
    assert (change <= constant * moved * (1 + 1e-9) + 1e-12).all()


UP = [[0.1], [0.5]], [[0.2], [0.6]]
APART = [[0.5], [0.5]], [[0.49], [0.51]]
NEARLY = {"sort": UP, "max": UP, "sort-in-place": UP, "force": APART, "mean-field": APART}
NEARLY |= {"median": ([[0.1], [0.5], [0.9]], [[0.2], [0.6], [1.0]]), "nearest": ([[0.4], [0.6]], [[0.3], [0.7]])}


@pytest.mark.parametrize("name", NEARLY)
def test_the_constants_are_no_larger_than_they_must_be(name: str) -> None:
    """Two points that nearly attain the constant: with nine tenths of it the test above would fail."""
    one, two = (np.array([each]) for each in NEARLY[name])
    constant = TARGETS[name].lipschitz(1, one.shape[1], 0.0, 1.0)
    change = np.abs(np.asarray(TARGETS[name](one)) - np.asarray(TARGETS[name](two))).max()
    assert change > 0.9 * (constant or np.inf) * np.abs(one - two).max()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_rows_of_the_jacobian_of_gravity_sum_to_at_most_its_constant(dim: int) -> None:
    """The inequality that the proof in its docstring ends with, on a fine sample of directions and distances."""
    random = np.random.default_rng(dim)
    r = random.standard_normal((20_000, dim))
    r *= np.exp(random.uniform(-4, 3, (20_000, 1))) / np.linalg.norm(r, axis=1, keepdims=True)
    rho = np.square(r).sum(axis=1) + targets.SOFTENING**2
    jacobian = np.eye(dim) / rho[:, None, None] - 2 * r[:, :, None] * r[:, None, :] / rho[:, None, None] ** 2
    rows = np.abs(jacobian).sum(axis=2)
    assert rows.max() <= 1 / targets.SOFTENING**2
    step = 1e-6 * random.standard_normal(r.shape)
    moved = (targets.gravity(r + step) - targets.gravity(r - step)) / 2
    assert np.allclose(moved, (jacobian @ step[:, :, None])[:, :, 0], atol=1e-10)


def test_what_the_functions_return() -> None:
    X = np.array([[[0.3], [0.1], [0.3]]])
    for name, wanted in {
        "sort": [[[0.1, 0.3, 0.3]] * 3],
        "ranks": [[1.5, 0.0, 1.5]],
        "max": [[[0.3]] * 3],
        "median": [[[0.3]] * 3],
        "nearest": [[0.0, 0.3 - 0.1, 0.0]],
        "sort-in-place": [[0.1, 0.3, 0.3]],
    }.items():
        assert TARGETS[name](X).tolist() == wanted
    assert np.allclose(TARGETS["force"](X)[0, 1, 0], 2 * 0.2 / (0.04 + 1))
    assert np.allclose(TARGETS["mean-field"](X)[0, 1, 0], (2 / 15) / ((2 / 15) ** 2 + 1))
    weights = np.exp(4 * 0.1 * X[0, :, 0])
    assert np.allclose(TARGETS["softmax-pooling"](X)[0, 1, 0], (weights * X[0, :, 0]).sum() / weights.sum())


def test_sizes_that_a_function_is_not_defined_for_are_named() -> None:
    with pytest.raises(DataError, match="sort is defined for tokens of dimension 1 only, not 2"):
        TARGETS["sort"].check(2, 3)
    with pytest.raises(DataError, match="nearest needs at least 2 tokens"):
        TARGETS["nearest"].check(1, 1)
    TARGETS["force"].check(7, 1)
