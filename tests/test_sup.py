"""Networks for the maximum norm: the bound holds everywhere, dense and look-up agree, and the rank is as said."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.uniform import OTHERS
from monolayer.errors import DataError
from monolayer.model.uniform import Bends, Interpolation
from monolayer.theory.targets import TARGETS

SORT = TARGETS["sort"].function
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("name", "dim", "length", "cells"), [
    ("sort", 1, 3, 6), ("nearest", 1, 3, 9), ("force", 1, 3, 8),
    ("median", 1, 2, 7), ("force", 2, 2, 4), ("max", 2, 2, 5),
])  # fmt: skip
def test_the_bound_holds_everywhere(name: str, dim: int, length: int, cells: int) -> None:
    target = TARGETS[name]
    model = ml.approximate(
        target.function, dim, length, cells=cells, norm="sup", lipschitz=target.lipschitz(dim, length, -1.0, 2.0),
        domain=(-1.0, 2.0),
    )  # fmt: skip
    random = np.random.default_rng(1)
    X = random.uniform(-1.0, 2.0, (30_000, length, dim))
    X[:5000] = np.round(X[:5000] * 4) / 4  # knots, edges, equal tokens
    X[5000:10_000, 0] = X[5000:10_000, 1]
    X[10_000:15_000, -1] = X[10_000:15_000, 0] + 1e-9
    X = X.clip(-1.0, 2.0)
    wanted = np.asarray(target(X)).reshape(len(X), -1)
    error = np.abs(model.predict(X).reshape(wanted.shape) - wanted).max()
    assert error <= model.error + 1e-7
    assert model.predict(X).shape == np.asarray(target(X)).shape


def test_the_error_falls_and_that_of_rank_1_does_not() -> None:
    f = TARGETS["nearest"].function
    X = np.random.default_rng(0).random((20_000, 3, 1))
    found = [np.abs(ml.approximate(f, 1, 3, cells=D, norm="sup").predict(X) - f(X)).max() for D in (4, 8, 16, 32)]
    assert all(b < 0.6 * a for a, b in pairwise(found))
    # At the very pair that confuses a network of rank 1, rank 2 is right.
    pair = ml.confuse(ml.approximate(SORT, 1, 3, cells=16), SORT)
    both = np.stack([pair.X, pair.X_prime])
    assert np.abs(ml.approximate(SORT, 1, 3, cells=16, norm="sup").predict(both) - SORT(both)).max() < 1e-3
    assert pair.error > 0.2499


@pytest.mark.parametrize(("dim", "length"), [(1, 2), (1, 3), (2, 2)])
def test_the_dense_network_is_the_look_up_and_its_rank_is_n_less_one_times_d(dim: int, length: int) -> None:
    model = ml.approximate(TARGETS["max"].function, dim, length, cells=3, norm="sup")
    X = np.random.default_rng(2).random((40, length, dim))
    dense = model(torch.from_numpy(X)).detach().numpy()
    assert np.abs(dense - model.predict(X).reshape(dense.shape)).max() < 1e-11
    assert np.linalg.matrix_rank((model.attention.W_O @ model.attention.W_V).detach().numpy()) == (length - 1) * dim
    assert not model.attention.W_Q.any()


def test_answers_commute_with_permutations() -> None:
    model = ml.approximate(TARGETS["force"].function, 1, 3, cells=5, norm="sup")
    X = np.random.default_rng(3).random((100, 3, 1))
    order = [2, 0, 1]
    assert np.abs(model.predict(X[:, order]) - model.predict(X)[:, order]).max() < 1e-7


@given(seeds, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=30)
def test_interpolation_is_exact_at_knots_and_for_affine_functions(seed: int, dimensions: int, cells: int) -> None:
    random = np.random.default_rng(seed)
    axis = np.arange(cells + 1) / cells
    knots = np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    slope, shift = random.normal(size=(dimensions, 2)), random.normal(size=2)
    affine = Interpolation(torch.from_numpy(knots @ slope + shift), cells, dimensions)
    u = random.random((20, dimensions))
    for call in (affine, affine.look_up):
        assert np.abs(call(torch.from_numpy(u)).detach().numpy() - (u @ slope + shift)).max() < 1e-12
    values = random.normal(size=(len(knots), 1))
    rough = Interpolation(torch.from_numpy(values), cells, dimensions)
    for call in (rough, rough.look_up):
        assert np.abs(call(torch.from_numpy(knots)).detach().numpy() - values).max() < 1e-12
    both = [call(torch.from_numpy(u)).detach().numpy() for call in (rough, rough.look_up)]
    assert np.abs(both[0] - both[1]).max() < 1e-12


@given(seeds)
@settings(max_examples=30)
def test_bends_are_the_line_through_their_knots(seed: int) -> None:
    random = np.random.default_rng(seed)
    knots, values = np.sort(random.random(8)), random.normal(size=8)
    if np.diff(knots).min() < 1e-3:
        return
    bends = Bends(torch.from_numpy(knots), torch.from_numpy(values))
    x = torch.from_numpy(random.uniform(-0.5, 1.5, 50))
    wanted = np.interp(x.numpy(), knots, values)
    assert np.abs(bends(x).detach().numpy() - wanted).max() < 1e-9
    assert np.abs(bends.look_up(x).detach().numpy() - wanted).max() < 1e-12


def test_the_other_two_tokens_come_back_within_epsilon() -> None:
    model = ml.approximate(SORT, 1, 3, cells=1, norm="sup")
    y = np.sort(np.random.default_rng(4).random((50_000, 2)), axis=1)
    y[:10_000, 1] = y[:10_000, 0] + np.random.default_rng(5).random(10_000) * 1e-3
    y = y.clip(0.0, 1.0)
    square = model.square.look_up(torch.from_numpy(y)).sum(1, keepdim=True)
    found = model._others(torch.cat([torch.from_numpy(y.sum(1, keepdims=True)), square], dim=1), dense=False)
    worst = np.abs(found.detach().numpy() - y).max()
    assert OTHERS[3] / 8 < worst <= OTHERS[3]


def test_error_chooses_cells_and_certify_is_honest() -> None:
    model = ml.approximate(SORT, 1, 3, error=0.1, norm="sup", lipschitz=1.0)
    assert model.error <= 0.1 < 1 / (model.interpolation.cells - 1) + OTHERS[3]
    assert ml.certify(model, SORT).verdict == "undecided"
    assert "maximum norm" in ml.certify(model, SORT).reason


@pytest.mark.parametrize(("options", "words"), [
    ({"cells": 4, "rank": 1}, r"below \(n − 1\)d = 2: by Theorem C .* 1/4 at rank 1"),
    ({"cells": 4, "rank": 3}, "is enough"),
    ({"cells": 4, "length": 4}, r"\(D \+ 1\)\^4 knots"),
    ({"cells": 4, "positions": True}, "with positions"),
    ({"cells": 1000}, "1,003,003,001 knots; .* at most 255 cells fit"),
    ({"error": 0.1}, "needs lipschitz="),
    ({"error": 1e-5, "lipschitz": 1.0}, "out of reach: 255 cells"),
    ({"cells": 4, "norm": "max"}, "norm must be"),
    ({"cells": 4, "norm": "mean", "rank": 2}, "is built with rank 1"),
])  # fmt: skip
def test_what_is_out_of_reach_is_refused_with_its_reason(options: dict, words: str) -> None:
    given = {"dim": 1, "length": 3, "norm": "sup", **options}
    with pytest.raises(DataError, match=words):
        ml.approximate(SORT, **given)


def test_other_shapes_are_refused() -> None:
    model = ml.approximate(SORT, 1, 3, cells=2, norm="sup")
    with pytest.raises(DataError, match=r"takes \(N, 3, 1\)"):
        model.predict(np.zeros((2, 4, 1)))
