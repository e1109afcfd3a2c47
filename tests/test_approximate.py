"""A Transformer close to a function: the cell function exactly, the error as predicted, and honest refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import monolayer as ml
from monolayer.construct.cells import grid as grids
from monolayer.construct.cells.grid import Box, Lattice, all_rows, first_in_row, multisets
from monolayer.construct.cells.refine import measure_error
from monolayer.construct.line import draw
from monolayer.theory.targets import TARGETS
from tests.datasets import smooth

F = Callable[[Any], Any]


def largest(X: Any) -> Any:
    return X.max(axis=1, keepdims=True) + 0.0 * X


def lattice_of(model: ml.Monolayer) -> Lattice:
    grid: Any = model.card.grid
    box = Box(grid.dim, grid.length, grid.low, grid.high, model.positions is not None)
    return Lattice.with_width(box, grid.cells, grid.ramp)


# -- the cell function ---------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.integers(0, 10**6))
def test_off_the_ramps_the_model_is_the_cell_function_dense_and_fast(
    dim: int, length: int, cells: int, positions: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    box = Box(dim, length, *np.sort(random.uniform(-5, 5, 2)).tolist(), positions)
    while box.knots(cells) > 300:
        cells -= 1
    f = smooth(random, dim, positions)
    model = ml.approximate(f, dim, length, cells=cells, domain=(box.low, box.high), positions=positions, seed=seed)
    lattice = lattice_of(model)
    X = np.concatenate([box.uniform(40, random), lattice.corners(40, random)])
    X[::5, -1] = X[::5, 0]  # repeats
    X[1] = np.where(X[1] < (box.low + box.high) / 2.0, box.low - 7.0, box.high + 7.0)  # outside: the cell at the edge
    X = X[~model.on_ramp(X)]
    wanted, room = f(lattice.rounded(X)), 1e-12  # f itself rounds differently for other orders of its tokens
    fast, dense = model.predict(X, path="fast"), model.predict(X, path="dense")
    assert np.array_equal(fast, dense)
    assert np.abs(fast - wanted).max() <= room
    assert np.array_equal(model(torch.from_numpy(X)).detach().numpy(), dense)
    assert {int(torch.linalg.matrix_rank(matrix)) for matrix in model.attention.parameters()} == {1}


def test_on_the_ramps_fast_and_dense_agree_and_stay_between_the_stored_values() -> None:
    model = ml.approximate(TARGETS["force"], 2, 2, cells=5, lipschitz=2.0)
    lattice, random = lattice_of(model), np.random.default_rng(0)
    X = lattice.start[random.integers(0, 4, (500, 2, 2))] + lattice.width * random.random((500, 2, 2))
    fast, dense = model.predict(X, path="fast"), model.predict(X, path="dense")
    assert np.allclose(fast, dense, rtol=0, atol=1e-5)
    stored = TARGETS["force"](lattice.tokens()[multisets(25, 2)])
    assert stored.min() - 1e-9 <= fast.min()
    assert fast.max() <= stored.max() + 1e-9
    assert not np.allclose(fast, TARGETS["force"](lattice.rounded(X)))  # so these points do need the exception


# -- enumeration ---------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.integers(1, 5))
def test_enumeration_equals_a_slow_reference(V: int, n: int) -> None:
    rows = list(itertools.combinations_with_replacement(range(V), n))
    assert multisets(V, n).tolist() == [list(row) for row in rows]
    assert all_rows(V, n).tolist() == [list(row) for row in itertools.product(range(V), repeat=n)]
    assert first_in_row(multisets(V, n)).sum() == sum(len(set(row)) for row in rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.booleans(), st.integers(1, 10**7))
def test_knots_are_counted_before_they_are_made(dim: int, length: int, cells: int, positions: bool, limit: int) -> None:
    box = Box(dim, length, 0.0, 1.0, positions)
    if cells**dim <= 12:
        rows = (all_rows if positions else multisets)(cells**dim, length)
        assert box.knots(cells) == (rows.size if positions else first_in_row(rows).sum())
    most = box.most_cells(limit)
    assert most == 0 or box.knots(most) <= limit
    assert box.knots(most + 1) > limit


# -- the error -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in TARGETS if TARGETS[name].lipschitz(1, 3, 0.0, 1.0) is not None])
def test_the_guarantee_holds_on_fresh_points(name: str) -> None:
    target = TARGETS[name]
    for dim, length, domain in ((1, 3, (0.0, 1.0)), (2, 2, (-1.0, 2.0))):
        if target.scalar and dim > 1:
            continue
        constant = target.lipschitz(dim, length, *domain)
        model = ml.approximate(
            target, dim, length, cells=7, domain=domain, lipschitz=constant, positions=not target.equivariant
        )
        grid, found = model.card.grid, measure_error(model, target, 2000)
        assert grid.guaranteed
        assert 0 < found.sup <= grid.error
        assert found.l1 <= found.l2 <= grid.mean_error(2)


def test_an_error_chooses_the_fewest_cells_that_guarantee_it() -> None:
    for error, modulus in ((0.021, 1.0), (0.03, lambda h: 3 * h), (0.3, math.sqrt)):
        model = ml.approximate(largest, 1, 2, error=error, lipschitz=modulus)  # type: ignore[arg-type]
        grid = model.card.grid
        assert grid.guaranteed
        coarser = ml.approximate(largest, 1, 2, cells=grid.cells - 1, lipschitz=modulus).card.grid  # type: ignore[arg-type]
        assert grid.error <= error < coarser.error


def spike(width: float) -> F:
    return lambda X: np.exp(-(((X[..., 0] - 0.3) / width) ** 2))


def test_cells_are_refined_until_the_measured_error_holds_and_the_model_says_that_it_is_measured() -> None:
    model = ml.approximate(spike(3e-4), 1, 1, error=0.1)
    assert measure_error(model, spike(3e-4)).sup <= 0.1
    assert not model.card.grid.guaranteed
    assert model.card.grid.error <= 0.1


def test_an_error_out_of_reach_names_the_cell_that_misses() -> None:
    with pytest.raises(ml.DataError, match=r"out of reach: .* at \[\[.* the centre of that cell, \[\[.*, it is \[\["):
        ml.approximate(spike(3e-4), 1, 2, error=0.1, most_knots=10_000)
    steps: list[F] = [lambda X: (X[..., 0] > 0.5) * 1.0, lambda X: 10 * X[..., 0] + 0.5 * (X[..., 0] > 0.37)]
    for f, length in ((steps[0], 1), (steps[1], 1), (TARGETS["ranks"], 3)):
        with pytest.raises(ml.DataError, match=r"f is not continuous: between \[.* it jumps from .*error=0.1"):
            ml.approximate(f, 1, length, error=0.1)


@pytest.mark.parametrize("norm", ["mean", "sup"])
def test_a_lipschitz_constant_that_does_not_hold_is_refused(norm: Any) -> None:
    with pytest.raises(ml.DataError, match=r"lipschitz= does not hold: .*Give a larger constant"):
        ml.approximate(lambda X: np.sin(40.0 * X), 1, 2, cells=9, lipschitz=0.5, norm=norm)


def test_few_points_lie_on_ramps_and_their_share_is_the_predicted_one() -> None:
    model = ml.approximate(TARGETS["max"], 2, 2, cells=6, ramp=2.0**-3, lipschitz=1.0)
    grid = model.card.grid
    assert grid is not None
    assert grid.ramp_share <= 2 * 2 * 2.0**-3
    X = np.random.default_rng(0).random((20_000, 2, 2))
    assert model.on_ramp(X).mean() == pytest.approx(grid.ramp_share, rel=0.08)
    every = np.abs(model.predict(X) - TARGETS["max"](X))
    for p in (1.0, 2.0):
        assert (every**p).mean() ** (1 / p) <= grid.mean_error(p)
    assert (every**2).mean() ** 0.5 > grid.error  # on wide ramps the bound needs its second term


# -- functions of all kinds ------------------------------------------------------------------------------


def spoils_its_input(X: Any) -> Any:
    X.sort(axis=1)
    return X[:, :1, 0] + np.zeros(X.shape[:2])


@pytest.mark.parametrize(
    ("f", "dim", "outputs"),
    [
        (lambda X: X.amax(dim=1, keepdim=True).expand_as(X), 2, 2),
        (nn.Linear(2, 3), 2, 3),  # in float32, as users have them
        (lambda X: X[..., 0] > 0.5, 1, 1),
        (lambda X: X.mean(axis=2).tolist(), 2, 1),
        (spoils_its_input, 1, 1),
    ],
    ids=["torch", "module", "booleans", "lists", "spoils its input"],
)
def test_functions_of_all_kinds(f: F, dim: int, outputs: int) -> None:
    model = ml.approximate(f, dim, 2, cells=3)
    assert len(model.feed_forward.stages[0].bias_2) == outputs
    assert measure_error(model, f, 500).sup <= 1.0
    answer = model.predict(np.zeros((5, 2, dim)))
    assert answer.shape == ((5, 2) if model.card.scalar else (5, 2, outputs))


@pytest.mark.parametrize("positions", [False, True])
def test_what_is_saved_comes_back(tmp_path: Any, positions: bool) -> None:
    two, four = np.int64(2), np.int64(4)  # whole numbers as NumPy has them must not spoil the JSON
    model = ml.approximate(TARGETS["mean-field"], two, two, cells=four, positions=positions, lipschitz=1.0)  # type: ignore[arg-type]
    loaded = ml.load(model.save(tmp_path / "m"))
    assert loaded.card == model.card
    X = np.random.default_rng(0).random((50, 2, 2))
    assert np.array_equal(loaded.predict(X), model.predict(X))


# -- refusals --------------------------------------------------------------------------------------------


FORGETFUL = np.random.default_rng(0)


def fails_late(X: Any) -> Any:
    if (X[:, 0] < 0.1).all(axis=1).any():
        raise ZeroDivisionError("too small")
    return X[..., 0]


def ranked(X: Any) -> Any:
    return X[..., 0].argsort(axis=1, kind="stable").argsort(axis=1)


BAD = {
    "shape": (lambda X: X[:, 0], {}, r"f returned float64 of shape \(8, 1\) for a batch of shape \(8, 2, 1\)"),
    "complex": (lambda X: X[..., 0] * 1j, {}, "must return real numbers"),
    "seed": (largest, {"seed": -1}, "seed must be a whole number"),
    "nan": (lambda X: np.where(X[..., 0] < 0.2, np.nan, X[..., 0]), {}, r"f is not finite at \[\[0"),
    "forgetful": (lambda X: X[..., 0] + FORGETFUL.normal() * 1e-3, {}, "different values on equal input"),
    "batch": (lambda X: X[..., 0] - X[..., 0].mean(), {}, "called with that sequence alone"),
    "raises": (lambda X: X.nothing(), {}, "with a NumPy array, AttributeError.*with a tensor, AttributeError"),
    "raises late": (fails_late, {}, "ZeroDivisionError: too small"),
    "no function": (3, {}, "f is a int"),
    "by place": (lambda X: X[..., 0] * np.arange(2), {}, r"in the order \(1, 0\) it should .* positions=True"),
    "by place in ties": (ranked, {"length": 5}, "not permutation equivariant"),
    "long": (lambda X: X[..., 0] + X[:, :1, 0], {"length": 9}, "not permutation equivariant"),
    "error 0": (largest, {"error": 0.0, "cells": None}, "error must be a finite number above 0"),
    "domain": (largest, {"domain": (1.0, 1.0)}, "low < high"),
    "domain one": (largest, {"domain": 1.0}, r"two numbers \(low, high\)"),
    "neither": (largest, {"cells": None}, "either cells.*or error, from which they are chosen$"),
    "both": (largest, {"error": 0.1}, "not both"),
    "cells 0": (largest, {"cells": 0}, "cells must be a whole number from 1 on"),
    "lipschitz": (largest, {"lipschitz": -1.0}, "lipschitz must be a finite number from 0 on"),
    "modulus": (largest, {"lipschitz": lambda h: math.nan}, "the modulus of continuity gives"),
    "dim": (largest, {"dim": 0}, "dim must be"),
    "length": (largest, {"length": 1.5}, "length must be"),
    "ramp": (largest, {"ramp": 0.9}, "ramp must be above 0"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_has_its_own_message(case: str) -> None:
    f, options, message = BAD[case]
    with pytest.raises(ml.DataError, match=message):
        ml.approximate(f, **{"dim": 1, "length": 2, "cells": 4, **options})  # type: ignore[arg-type]


def test_what_is_out_of_reach_is_refused_before_the_work_with_what_would_fit() -> None:
    asked: list[int] = []

    def f(X: Any) -> Any:
        asked.append(len(X))
        return largest(X)

    with pytest.raises(ml.DataError, match=r"room for 33 cells, 14,384,601 knots") as caught:
        ml.approximate(f, 1, 6, cells=1000)
    assert "10^16 knots" in str(caught.value)
    assert sum(asked) < 10_000
    assert Box(1, 6, 0.0, 1.0, False).knots(33) <= grids.MOST_KNOTS < Box(1, 6, 0.0, 1.0, False).knots(34)
    with pytest.raises(ml.DataError, match="room for not even one cell"):
        ml.approximate(largest, 1, 6, error=0.1, most_knots=0)
    with pytest.raises(ml.DataError, match=r"an error of 1e-09 is out of reach: with 4 cells.* by the modulus"):
        ml.approximate(largest, 1, 3, error=1e-9, lipschitz=1.0, most_knots=50)
    with pytest.raises(ml.DataError, match="equivariant function without positions"):
        ml.approximate(largest, 1, 3, cells=1000, positions=True)


def test_cells_that_float64_cannot_tell_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "TEMPERATURES", (300.0,))
    with pytest.raises(ml.PrecisionError, match="rank 1 in float64 does not hold so many"):
        ml.approximate(TARGETS["sort"], 1, 4, cells=8)


def test_other_lengths_are_refused() -> None:
    model = ml.approximate(largest, 1, 2, cells=4)
    for ask, asked, words in (
        (model.predict, [np.zeros((1, 3, 1))], r"sequence 0 has 3 tokens.*exactly 2 tokens"),
        (model.predict, [[[[0.1], [0.2]], [[0.3]]]], "sequence 1 has 1 token:"),
        (model, [torch.zeros(1, 1, 1, dtype=torch.float64)], "exactly 2 tokens"),
        (model, [torch.zeros(1, 2, 1, dtype=torch.float64), torch.tensor([1])], "exactly 2 tokens"),
        (model.predict, [np.zeros((1, 2, 2))], "vectors of 1 number"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ask(*asked)
