"""Networks for the maximum norm: the bound holds everywhere, dense and look-up agree, and the rank is as stated."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.checker.rounding import EXP_ULPS, UnhandledError
from monolayer.checker.stored import read_model
from monolayer.checker.uniform import Net, U, _check_parts, _compare_knots, bend_error
from monolayer.cli import run
from monolayer.construct.uniform import BUILT_SHAPES, OTHERS_ERROR
from monolayer.errors import DataError, ModelFileError
from monolayer.model.uniform import Bends, Interpolation
from monolayer.page import page
from monolayer.theory.targets import TARGETS
from tests.stored_models import resealed

SORT = TARGETS["sort"].function
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("name", "dim", "length", "cells"), [
    ("nearest", 1, 3, 9), ("median", 1, 2, 7), ("force", 2, 2, 4), ("sort-in-place", 1, 4, 5), ("force", 2, 3, 2),
])  # fmt: skip
def test_the_bound_holds_everywhere(name: str, dim: int, length: int, cells: int) -> None:
    """The last two need positions: one function is not equivariant, the other has more coordinates."""
    target = TARGETS[name]
    constant, positions = target.lipschitz(dim, length, -1.0, 2.0), (dim, length) not in BUILT_SHAPES
    options: Any = {"cells": cells, "lipschitz": constant, "domain": (-1.0, 2.0), "positions": positions}
    model = ml.approximate(target.function, dim, length, norm="sup", **options)
    assert model.error == pytest.approx(
        3.0 * constant * (1.0 / cells + (0.0 if positions else OTHERS_ERROR[length])), 1e-12
    )
    assert ml.certify(model, target.function).verdict == "proved"
    random = np.random.default_rng(1)
    X = random.uniform(-1.0, 2.0, (3_000, length, dim))
    X[:500] = np.round(X[:500] * 4) / 4  # knots, edges, equal tokens
    X[500:1000, 0] = X[500:1000, 1]
    X[1000:1500, -1] = X[1000:1500, 0] + 1e-9
    X = X.clip(-1.0, 2.0)
    wanted = np.asarray(target(X)).reshape(len(X), -1)
    error = np.abs(model.predict(X).reshape(wanted.shape) - wanted).max()
    assert error <= model.error + 1e-7
    assert model.predict(X).shape == np.asarray(target(X)).shape


@pytest.mark.parametrize(("dim", "length", "positions"), [(1, 3, 0), (2, 2, 0), (3, 2, 1)])
def test_the_dense_network_is_the_look_up_and_its_rank_is_n_less_one_times_d(
    dim: int, length: int, positions: int
) -> None:
    model = ml.approximate(TARGETS["max"].function, dim, length, cells=3, norm="sup", positions=bool(positions))
    X = np.random.default_rng(2).random((40, length, dim))
    dense = model(torch.from_numpy(X)).detach().numpy()
    assert np.abs(dense - model.predict(X).reshape(dense.shape)).max() < 1e-11
    assert np.linalg.matrix_rank((model.attention.W_O @ model.attention.W_V).detach().numpy()) == (length - 1) * dim
    assert not model.attention.W_Q.any()
    order = np.random.default_rng(3).permutation(length)
    assert np.abs(model.predict(X[:, order]) - model.predict(X)[:, order]).max() < 1e-7


@given(seeds, st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=8)
def test_interpolation_is_exact_at_knots_and_for_affine_functions(seed: int, dimensions: int, cells: int) -> None:
    random = np.random.default_rng(seed)
    axis = np.arange(cells + 1) / cells
    knots = np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
    slope, shift = random.normal(size=(dimensions, 2)), random.normal(size=2)
    affine = Interpolation(torch.from_numpy(knots @ slope + shift), cells, dimensions)
    u = random.random((20, dimensions))
    values = random.normal(size=(len(knots), 1))
    rough = Interpolation(torch.from_numpy(values), cells, dimensions)
    with torch.no_grad():
        for part, points, wanted in ((affine, u, u @ slope + shift), (rough, knots, values)):
            for call in (part, part.look_up):
                assert np.abs(call(torch.from_numpy(points)).numpy() - wanted).max() < 1e-12
        assert (rough(torch.from_numpy(u)) - rough.look_up(torch.from_numpy(u))).abs().max() < 1e-12


def test_bends_are_the_line_through_their_knots() -> None:
    random = np.random.default_rng(0)
    knots, values = np.cumsum(random.uniform(0.05, 0.2, 8)), random.normal(size=8)
    bends = Bends(torch.from_numpy(knots), torch.from_numpy(values))
    x = torch.from_numpy(random.uniform(-0.5, 1.5, 50))
    wanted = np.interp(x.numpy(), knots, values)
    assert np.abs(bends(x).detach().numpy() - wanted).max() < 1e-9
    assert np.abs(bends.look_up(x).detach().numpy() - wanted).max() < 1e-12


def test_the_other_two_tokens_come_back_within_epsilon() -> None:
    model, random = ml.approximate(SORT, 1, 3, cells=1, norm="sup"), np.random.default_rng(4)
    y = np.sort(random.random((10_000, 2)), axis=1)
    y[:2_000, 1] = (y[:2_000, 0] + random.random(2_000) * 1e-3).clip(0.0, 1.0)
    square = model.square.look_up(torch.from_numpy(y)).sum(1, keepdim=True)
    found = model._others(torch.cat([torch.from_numpy(y.sum(1, keepdims=True)), square], dim=1), dense=False)
    assert OTHERS_ERROR[3] / 8 < np.abs(found.detach().numpy() - y).max() <= OTHERS_ERROR[3]


@pytest.mark.parametrize(("options", "words"), [
    ({"cells": 4, "length": 4}, "with positions=True for any two tokens or more; not for .1, 4."),
    ({"cells": 4, "positions": True, "length": 1}, "not for .1, 1. with positions"),
    ({"cells": 9, "positions": True, "length": 8}, "n .D . 1..8 = 800,000,000 knots; .* room for 5 cells"),
    ({"error": 1.0, "positions": True, "length": 25, "lipschitz": 1.0}, "are too few for one"),
    ({"cells": 1000}, "1,003,003,001 knots; .* room for 255 cells"),
    ({"error": 0.1}, "needs lipschitz="),
    ({"error": 1e-5, "lipschitz": 1.0}, "out of reach: 255 cells"),
    ({"cells": 4, "norm": "max"}, "norm must be .mean. or .sup."),
])  # fmt: skip
def test_what_is_out_of_reach_is_refused_with_its_reason(options: dict, words: str) -> None:
    given = {"dim": 1, "length": 3, "norm": "sup", **options}
    with pytest.raises(DataError, match=words):
        ml.approximate(SORT, **given)


# -- saved, loaded, certified ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", [1e-3, -1e-3])
def test_a_function_that_treats_places_differently_is_not_equivariant(way: float) -> None:
    """The second token gets a little more, or a little less, than the first would in its place."""
    model = ml.approximate(TARGETS["max"].function, 1, 2, cells=3, norm="sup")
    plain = ml.certify(model, TARGETS["max"].function)

    def partial(X: Any) -> Any:
        found = np.array(TARGETS["max"].function(X))
        found[:, 1] += way
        return found

    proof = ml.certify(model, partial)
    assert (plain.verdict, proof.verdict) == ("proved", "refuted")
    assert (plain.unsure, proof.unsure) == (0, 0)
    assert "not permutation equivariant" in proof.reason
    assert plain.data_digest != proof.data_digest


def test_one_knot_at_which_places_are_treated_differently_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far from equivariance is as far as the function is at its worst knot, at tokens other than the first."""
    f = TARGETS["max"].function
    net = Net(read_model(ml.approximate(f, 1, 3, cells=3, norm="sup").save(tmp_path / "m")))

    def partial(token: int, X: Any) -> Any:
        found = np.array(f(X))
        found[(X == 1.0).all(axis=(1, 2)), token] += 0.5
        return found

    knots = np.stack(np.meshgrid(*[net.axis()] * 3, indexing="ij"), axis=-1).reshape(-1, 3, 1)
    digest = hashlib.sha256(np.asarray(f(knots), dtype="<f8").tobytes()).hexdigest()
    for at_once in (7, 1 << 14):
        monkeypatch.setattr("monolayer.checker.uniform.KNOTS_AT_ONCE", at_once)
        found = _compare_knots(net, f, 0.0)
        assert (found.apart, found.digest) == (0.0, digest), "of all values that the function has at the knots"
        for token in (1, 2):
            assert _compare_knots(net, lambda X, token=token: partial(token, X), 0.0).apart == 0.5


def test_the_rounding_of_a_function_does_not_refute_that_it_is_equivariant(tmp_path: Path) -> None:
    """It is a share of the largest value; at one knot the function is 0."""

    def f(X: Any) -> Any:
        return X + (0.7 * X[:, :1] + 0.3 * X[:, :1] + 0.7 * X[:, 1:2] + 0.3 * X[:, 1:2] + X[:, 2:])

    folder = ml.approximate(f, 1, 3, cells=3, norm="sup").save(tmp_path / "m")
    net = Net(read_model(folder))
    assert 0.0 < _compare_knots(net, f, 0.0).apart < 1e-14
    assert np.abs(net.values).min() == 0.0
    assert ml.certify(folder, f).verdict == "proved"


class Rough:
    """The network, written out, in arithmetic whose every result is off by the whole unit roundoff `u`: up in the
    first half of the sequences, up or down at random in the second. With `u = 0` in long doubles, the network itself.
    """

    def __init__(self, u: float, way: float = 1.0) -> None:
        self.u, self.way, self.random = u, way, np.random.default_rng(0)

    def factor(self, x: Any) -> Any:
        signs = np.ones(x.shape)
        half = len(signs) // 2
        signs[half:] = self.random.choice([-1.0, 1.0], signs[half:].shape)
        return 1.0 + self.u * self.way * signs

    def __call__(self, x: Any) -> Any:
        return x * self.factor(x)

    def sum(self, terms: Any) -> Any:
        """Over the last axis, in random order: a term is off by the factors of all additions that follow it."""
        terms = terms[..., self.random.permutation(terms.shape[-1])]
        return (terms * np.cumprod(self.factor(terms), axis=-1)[..., ::-1]).sum(axis=-1)

    def bend(self, part: Bends, x: Any) -> Any:
        t, v = (each.detach().numpy().astype(x.dtype) for each in (part.knots, part.values))
        slope = self(self(np.diff(v)) / self(np.diff(t)))
        kink = np.concatenate([slope[:1], self(np.diff(slope)), -slope[-1:]])
        terms = self(np.maximum(self(x[..., None] - t), 0.0) * kink)
        return self.sum(np.append(terms, np.full((*x.shape, 1), v[0]), -1))

    def total(self, z: Any) -> Any:
        """Sums over all tokens, `(P, n)` to `(P,)`, by a head whose exp is wrong by 4 ulps."""
        weight = 1.0 + 8.0 * (self.factor(z) - 1.0)
        mean = self.sum(self(self(weight / self.sum(weight)[:, None]) * z))
        return self(z.shape[1] * mean)

    def network(self, model: ml.Uniform, X: Any) -> Any:
        """Token 0 of every sequence, `(P, m)`; with positions, of scalar tokens, the token before the last."""
        x, D, row = self(self(X - model.low) / model.width).clip(0.0, 1.0), model.interpolation.cells, 0
        if model.positions:
            k, last = model.length - 2, x.shape[1] - 1
            slots = [np.eye(1, last + 1, slot) - np.eye(1, last + 1, last) for slot in range(last)]
            sums = [self.total(x[:, :, 0] * signs) for signs in slots] + [np.zeros(len(x))]
            found = [self(x[:, k, 0] + self(each - sums[k])) for each in sums]
            x, y = np.stack(found[:1], axis=1)[:, None], np.stack(found[1:], axis=1)
            row = k * (D + 1) ** model.length
        else:
            y = np.stack([self(self.total(x[:, :, i]) - x[:, 0, i]) for i in range(model.dim)], axis=1)
        if model.length == 3 and not model.positions:
            e, squares = y[:, 0], self.bend(model.square, x[:, :, 0])
            q = self(self.total(squares) - squares[:, 0])
            other = Rough(self.u, -self.way)  # what is taken away errs the other way
            apart = self.bend(model.root, np.maximum(self(2.0 * q - other.bend(model.total, e)), 0.0))
            y = np.stack([self(e - apart), self(e + apart)], axis=1) / 2.0
        place = self(np.concatenate([x[:, 0], y], axis=1).clip(0.0, 1.0) * D).clip(0.0, D)
        knots, corners = model.interpolation.values.detach().numpy(), []
        for step in product((0, 1), repeat=place.shape[1]):
            corner = (np.floor(place) + step).clip(0, D)
            repeated = (np.floor(place) + step > D).any(axis=1)
            away = self(place - corner)
            hat = self(self(1.0 + np.minimum(away.min(1), 0.0)) - np.maximum(away.max(1), 0.0))
            hat = np.where(repeated, 0.0, np.maximum(hat, 0.0))
            held = row + np.ravel_multi_index(tuple(corner.astype(int).T), (D + 1,) * place.shape[1])
            corners.append(self(hat[:, None] * knots[held]))
        return self.sum(np.stack(corners, axis=-1))


ZIGZAG = np.cumsum(np.random.default_rng(1).uniform(0.1, 0.3, 6)), np.random.default_rng(2).normal(size=6) - 1
FLAT, SLOPE = (np.array([0.0, 1.0]), np.array([0.0, 0.0])), (np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""Knots and values of bends: with bends of slope 0 and 1 each term of Lemma U is seen beside the others."""


def net_of(length: int, dim: int, cells: int, positions: bool, bends: Any = (), scale: float = 1.0) -> Net:
    """A network of random knots, and of bends, by their names, that are not those of any model."""
    random, config = np.random.default_rng(0), {"dim": dim, "length": length, "cells": cells, "low": -1.0, "high": 2.0}
    tensors = {"interpolation.values": scale * random.normal(size=((cells + 1) ** (dim * length), 2))}
    for part, (at, values) in dict(bends).items():
        tensors |= {f"{part}.knots": at, f"{part}.values": values}
    flags = {"positions": positions, "first_block": positions or length == 3}
    stored: Any = SimpleNamespace(config={**config, **flags}, tensors=tensors)
    return Net(stored)


def bend_of_lemma_u(t: Any, v: Any) -> float:
    """`b`"""
    s = [0.0, *(np.diff(v) / np.diff(t)), 0.0]
    T = [t[-1] + 2.0**-20 - each for each in t]
    sizes = sum((abs(s[j]) + abs(s[j + 1])) * T[j] for j in range(len(t)))
    bends = sum(abs(s[j + 1] - s[j]) * T[j] for j in range(len(t)))
    return float(U * (5 * sizes + (len(t) + 6) * (bends + np.abs(v).max())))


@pytest.mark.parametrize(("dim", "length", "positions", "bends"), [
    (1, 2, False, ()), (2, 2, False, ()), (1, 3, True, ()),
    (1, 3, False, (ZIGZAG, ZIGZAG, ZIGZAG)), (1, 3, False, (FLAT, FLAT, SLOPE)), (1, 3, False, (SLOPE, SLOPE, SLOPE)),
])  # fmt: skip
def test_the_bound_is_that_of_lemma_u(dim: int, length: int, positions: bool, bends: Any) -> None:
    net = net_of(length, dim, 2, positions, zip(("square", "total", "root"), bends, strict=False))
    n, k, D = length, length * dim, 2

    def steepest(part: str) -> float:
        return float(np.abs(np.diff(net.tensors[f"{part}.values"]) / np.diff(net.tensors[f"{part}.knots"])).max())

    def bent(part: str) -> float:
        return bend_of_lemma_u(net.tensors[f"{part}.knots"], net.tensors[f"{part}.values"])

    def sums(e: float) -> float:
        return n * ((4 * EXP_ULPS + 2 * n + 6) * U + e) + e + 2 * n * U

    error = 2 * sums(5 * U) + 13 * U if positions else sums(5 * U)
    if bends:
        apart = (
            2 * sums(steepest("square") * 5 * U + bent("square")) + steepest("total") * error + bent("total") + 16 * U
        )
        error = (error + steepest("root") * apart + bent("root")) / 2 + 4 * U
    grid = net.values.reshape(-1, *[D + 1] * k, 2)
    steep = max(float(np.abs(np.diff(grid, axis=1 + axis)).max()) for axis in range(k))
    lemma = D * steep * k * (error + 2 * U) + (8 * 3**k + 20) * U * np.abs(net.values).max()
    assert lemma * (1 + 2.0**-11) <= net.rounding() <= lemma * (1 + 2.0**-8)
    net.values = np.ones_like(net.values)  # no slope anywhere: what hats and their sum add is left
    assert net.rounding() == pytest.approx((8 * 3**k + 20) * U, rel=2.0**-9)


def test_a_bend_is_bounded_as_in_lemma_u_also_at_its_last_knot() -> None:
    """Knots so close that the room behind the last of them is most of what there is."""
    close = np.array([0.0, 2.0**-30, 3 * 2.0**-30]), np.array([0.0, 2.0**-30, 2.0**-28])
    for t, v in (ZIGZAG, SLOPE, close, (close[0], -close[1])):
        assert bend_error(t, v) == pytest.approx(bend_of_lemma_u(t, v), rel=2.0**-9)
    assert bend_error(*FLAT) == 0.0


def test_the_ends_of_lemma_u() -> None:
    """Values of 0 leave what underflows; what might overflow, or leave the knots of the root, is not judged."""
    assert net_of(2, 1, 3, False, scale=0.0).rounding() == 2.0**-1000
    assert net_of(2, 1, 3, False, scale=2.0**990).rounding() < np.inf
    with pytest.raises(UnhandledError, match="may overflow"):
        net_of(2, 1, 3, False, scale=2.0**1001).rounding()
    wild = net_of(3, 1, 2, False, dict.fromkeys(("square", "total", "root"), ZIGZAG))
    wild.tensors["square.values"] = wild.tensors["square.values"] * 2.0**24
    with pytest.raises(UnhandledError, match="leave the knots"):
        wild.rounding()
    for length, others, width in ((2, 0, 3.7), (2, 0, 0.1), (2, 0, 5.3), (2, 0, 0.7), (3, Fraction(2.0**-13), 1.9)):
        net = net_of(length, 1, 200 if length == 2 else 50, False)
        net.low, net.width = -1.0, width
        net.high = net.low + net.width
        places = [Fraction(place) for place in np.linspace(net.low, net.high, net.cells + 1).tolist()]
        ideal = [Fraction(net.low) + Fraction(net.width) * j / net.cells for j in range(net.cells + 1)]
        moved = max(abs(place - own) for place, own in zip(places, ideal, strict=True))
        exact = Fraction(net.width) * (Fraction(1, net.cells) + others + 2 * Fraction(U)) + moved
        assert exact < Fraction(net.reach()) < exact * (1 + Fraction(2.0**-48))


@pytest.mark.parametrize(("name", "dim", "length", "cells", "domain", "u"), [
    ("force", 1, 3, 5, (0.0, 1.0), 2.0**-44), ("force", 2, 2, 3, (5.0, 6.0), 2.0**-20),
    ("sort-in-place", 1, 4, 3, (-1.0, 2.0), 2.0**-20),
])  # fmt: skip
def test_rounding_stays_within_the_bound_also_at_its_worst(
    name: str, dim: int, length: int, cells: int, domain: Any, u: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats as they are, and a unit roundoff so coarse that its terms can be told from those of floats."""
    positions = not TARGETS[name].equivariant
    f = TARGETS[name].function
    model = ml.approximate(f, dim, length, cells=cells, norm="sup", domain=domain, positions=positions)
    net, (low, high) = Net(read_model(model.save(tmp_path / "m"))), domain
    X = np.random.default_rng(7).uniform(low, high, (24, length, dim))
    X[::2, -1] = X[::2, 1]  # under the root
    X[4:8, -1] += 1e-9
    X[::3] = low + np.round((X[::3] - low) * cells) / cells
    X = X.clip(low, high)
    exact = Rough(0.0).network(model, X.astype(np.longdouble))
    for floats in (model(torch.from_numpy(X)).detach().numpy(), model.predict(X).reshape(len(X), length, -1)):
        assert np.abs(floats[:, -2 if positions else 0] - exact).max() <= net.rounding() < 1e-5
    worst = float(np.abs(Rough(u).network(model, X) - exact).max())
    monkeypatch.setattr("monolayer.checker.uniform.U", u)
    assert worst <= net.rounding()
    monkeypatch.setattr("monolayer.checker.uniform.U", u / 2**14)
    assert worst > net.rounding()  # the bound for roundings 2^14 times finer is broken: the test can fail


def test_saved_and_loaded_it_is_the_same_network(tmp_path: Path) -> None:
    for name, length in (("sort-in-place", 4), ("sort", 3), ("max", 2)):
        options: Any = {"cells": 4, "lipschitz": 3.0, "domain": (-1, 1), "positions": length == 4}
        model = ml.approximate(TARGETS[name].function, 1, length, norm="sup", **options)
        again = ml.load(model.save(tmp_path / name))
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, length, 1))
        assert np.array_equal(again.predict(X), model.predict(X))
        for part in ("error", "scalar", "rank", "positions"):
            assert getattr(again, part) == getattr(model, part)
    with pytest.raises(DataError, match="float64 only"):
        model.float().save(tmp_path / "short")


def test_what_asks_about_facts_or_steps_refuses_it_with_a_sentence(tmp_path: Path) -> None:
    """Each of these ended in an AttributeError or a TypeError."""
    model = ml.approximate(SORT, 1, 2, cells=2, norm="sup")
    folder = model.save(tmp_path / "m")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: model.explain([[[0.5], [0.2]]]), "an explanation shows the step"),
        (lambda: model.predict([[[0.5]]]), "sequence 0 has 1 tokens: the network takes 2"),
        (model.check_strict, "this one was built from a function"),
    ]
    for each in (model, folder):
        calls += [(partial(page, each), "not facts or steps"), (partial(ml.compare, each, each), "not facts or steps")]
    for call, words in calls:
        with pytest.raises(DataError, match=words):
            call()
    for command in (["explain", "x.jsonl"], ["page", "--out", str(tmp_path / "p.html")]):
        assert run([command[0], str(folder), *command[1:]]) == 2


@pytest.mark.parametrize(("name", "place", "verdict", "words"), [
    ("interpolation.values", (7, 0), "refuted", "1 of 125 knots"),
    ("interpolation.values", (0, 2), "refuted", "1 of 125 knots"),
    ("interpolation.values", (124, 1), "refuted", "1 of 125 knots"),
    ("attention.W_Q", (0, 1), "undecided", "W_Q does not average"),
    ("attention.W_O", (0, 0), "undecided", "W_O does not average"),
    ("square.values", (9,), "undecided", "square is not the one"),
    ("root.knots", (3,), "undecided", "root is not the one"),
])  # fmt: skip
def test_planted_faults_are_found(name: str, place: Any, verdict: str, words: str, tmp_path: Path) -> None:
    folder = ml.approximate(SORT, 1, 3, cells=4, norm="sup").save(tmp_path / "m")
    assert ml.certify(folder, SORT).verdict == "proved"

    tensor = load_file(folder / "model.safetensors")[name]
    tensor[place] += 2.0**-40
    found = ml.certify(resealed(folder, {name: tensor}), SORT)
    assert (found.verdict, words in found.reason) == (verdict, True)
    assert found.unsure == (0 if verdict == "refuted" else found.points)
    if verdict == "refuted":
        assert "another value" in str(found.findings[0])
        assert ml.certify(folder, SORT, tolerance=1e-9).verdict == "proved"


def test_the_domain_of_lemma_u_is_neither_too_wide_nor_too_narrow(tmp_path: Path) -> None:
    net = Net(read_model(ml.approximate(SORT, 1, 2, cells=2, norm="sup").save(tmp_path / "m")))
    for width in (2.0**-400, 1.0, 2.0**400):
        net.width = width
        _check_parts(net)
    for width in (0.0, math.nextafter(2.0**-400, 0.0), math.nextafter(2.0**400, math.inf), math.inf, math.nan):
        net.width = width
        with pytest.raises(UnhandledError, match="wide"):
            _check_parts(net)


def test_a_fault_at_one_place_is_found_with_its_token(tmp_path: Path) -> None:
    places = TARGETS["sort-in-place"].function
    folder = ml.approximate(places, 1, 3, cells=2, norm="sup", positions=True).save(tmp_path / "m")
    values = load_file(folder / "model.safetensors")["interpolation.values"]
    values[2 * 27 + 5] += 2.0**-40  # token 2 of the sequence 0, ½, 1
    found = ml.certify(resealed(folder, {"interpolation.values": values}), places)
    assert (found.verdict, found.wrong) == ("refuted", 1)
    assert (found.findings[0].sequence, found.findings[0].position) == (5, 2)


def test_loader_and_checker_refuse_the_same_folders(tmp_path: Path) -> None:
    folder = ml.approximate(SORT, 1, 3, cells=2, norm="sup").save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    sizes, ends = "dim, length and cells", "end of the domain"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"positions": True}, r"tensors \['root\.knots'"), ({"positions": None}, "positions is"),
        ({"scalar": None}, "scalar is"), ({"scalar": 1}, "scalar is"), ({"scalar": True}, "knots"),
        ({"version": 4}, "version (is )?4"), ({"dim": 3}, sizes), ({"dim": True}, f"dim is True|{sizes}"),
        ({"length": 3, "dim": 2}, sizes), ({"length": 4}, sizes), ({"cells": "4"}, f"cells is '4'|{sizes}"),
        ({"cells": 0}, f"cells is 0|{sizes}"), ({"cells": 5}, r"asks for float64 \(216, |shapes are not those"),
        ({"low": math.nan}, f"low is nan|{ends}"), ({"low": 2.0}, "low (is|must be) below high"),
        ({"high": "1"}, f"high is '1'|{ends}"), ({"error": "small"}, "error is 'small'|or the error, is not a number"),
        ({"more": 1}, r"\['more'\]"), ({"files": {}}, "files (are|must be)"),
        ({"files": {"model.safetensors": "0", "other": "1"}}, "files (are|must be)"),
    ]  # fmt: skip
    for change, words in changes:
        (folder / "config.json").write_text(json.dumps(config))
        resealed(folder, **change)
        for call in (ml.load, read_model):
            with pytest.raises(ModelFileError, match=words):
                call(folder)
    (folder / "config.json").write_text(json.dumps(config))
    resealed(folder, {"interpolation.values": np.zeros((27, 0))})
    for call in (ml.load, read_model):
        with pytest.raises(ModelFileError, match="knots"):
            call(folder)


def test_ends_that_no_float_has_are_rounded_alike_by_loader_and_checker(tmp_path: Path) -> None:
    """Whole numbers in JSON have no bounds: 2^53 + 1 and 2^53 + 3 are 2 apart, and their floats are 4 apart."""

    def f(X: np.ndarray) -> np.ndarray:
        return X - 2.0**53

    folder = ml.approximate(f, 1, 2, cells=2, norm="sup").save(tmp_path / "m")
    values = np.repeat([0.0, 2.0, 4.0], 3)[:, None]
    resealed(folder, {"interpolation.values": values}, low=2**53 + 1, high=2**53 + 3)
    assert ml.certify(folder, f).verdict == "proved"
    X = 2.0**53 + np.array([[[0.0], [2.0]], [[4.0], [2.0]]])
    assert np.array_equal(ml.load(folder).predict(X), f(X))


def test_values_that_overflow_or_underflow(tmp_path: Path) -> None:
    for number, (size, verdict) in enumerate([(1.7e308, "undecided"), (1e300, "proved"), (5e-324, "proved")]):
        f = lambda X, size=size: np.where(X > 0.4, size, 0.0)  # noqa: E731
        proof = ml.certify(ml.approximate(f, 1, 2, cells=4, norm="sup").save(tmp_path / str(number)), f)
        assert proof.verdict == verdict
    assert "+ 0 of" not in proof.claim  # half of 5e-324 is rounded
    with pytest.raises(DataError, match="NaN and infinity are not allowed"):
        ml.approximate(SORT, 1, 2, cells=2, norm="sup").predict(np.full((1, 2, 1), np.nan))


def test_what_the_checker_refuses(tmp_path: Path) -> None:
    folder = ml.approximate(SORT, 1, 3, cells=3, norm="sup").save(tmp_path / "m")
    places = TARGETS["sort-in-place"].function
    lopsided = ml.certify(folder, lambda X: SORT(X) + np.arange(3)[None, :, None] * 0.1)
    assert lopsided.verdict == "refuted"
    assert "not permutation equivariant" in lopsided.reason
    with pytest.raises(DataError, match="must be"):
        ml.certify(folder, places)
    with pytest.raises(DataError, match="compared with its function"):
        ml.certify(folder, np.zeros((2, 3, 1)), np.zeros((2, 3)))
    with pytest.raises(DataError, match="claims about memorizers"):
        ml.certify(folder, SORT, only=True)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-8])
    for call in (lambda: ml.certify(folder, SORT), lambda: ml.load(folder)):
        with pytest.raises(ModelFileError, match="changed"):
            call()


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "m")
    options = ["approximate", "nearest", "--length", "3", "--norm", "sup"]
    assert run([*options, "--error", "0.3", "--out", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["sup"] <= found["bound"] <= 0.3
    assert (found["rank"], found["cells"]) == (2, 7)
    assert run(["verify", folder, "nearest"]) == 0
    assert run(["verify", folder, "max"]) == 1
    assert run(["inspect", folder]) == 0
    assert "approximator in the maximum norm" in capsys.readouterr().out
    places = ["approximate", "sort-in-place", "--length", "4", "--norm", "sup", "--positions", "--cells", "2"]
    assert run([*places, "--out", folder, "--overwrite"]) == 0
    assert "bound on the error  0.5, everywhere" in capsys.readouterr().out
    assert run(["verify", folder, "sort-in-place"]) == 0


def test_a_saved_network_answers_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = str(tmp_path / "m"), tmp_path / "d.jsonl"
    row = '{"tokens": [[0.9], [0.2], [0.5]], "labels": [[0.2, 0.5, 0.9], [0.2, 0.5, 0.9], [0, 0.5, 0.9]]}\n'
    bound = ml.approximate(SORT, 1, 3, cells=8, norm="sup", lipschitz=1.0)
    bound.save(folder)
    data.write_text(row)
    assert run(["predict", folder, str(data), "--dense"]) == 0
    captured = capsys.readouterr()
    assert f"2 of 3 labels are right to within {bound.error:.3g}" in captured.err
    assert np.allclose(json.loads(captured.out)["labels"], bound.predict([[[0.9], [0.2], [0.5]]])[0], atol=1e-12)
    for tokens, words in (
        ("[[0.9], [0.2]]", "has 2 tokens: the network takes 3"),
        ("[[0.9], [0.2], [1.5]]", "lies outside [0, 1]"),
        ("[[0.9, 1], [0.2, 1], [0.5, 1]]", "takes vectors of 1 number"),
    ):
        data.write_text(f'{{"tokens": {tokens}}}\n')
        assert run(["predict", folder, str(data)]) == 2
        assert words in capsys.readouterr().err
    data.write_text(row)
    ml.approximate(SORT, 1, 3, cells=8, norm="sup").save(folder, overwrite=True)
    assert run(["predict", folder, str(data)]) == 0
    assert "no bound on its error" in capsys.readouterr().err


def test_the_network_looks_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ml.approximate(TARGETS["force"].function, 2, 2, cells=3, norm="sup")
    X = torch.from_numpy(np.random.default_rng(0).random((5, 2, 2)))
    found = model.predict(X)

    def look_up(*_: object) -> None:
        raise AssertionError

    for bends in (Interpolation, Bends):
        monkeypatch.setattr(bends, "look_up", look_up)
    with torch.no_grad():
        assert model(X).numpy() == pytest.approx(found, abs=1e-9)
    with pytest.raises(AssertionError):
        model.predict(X)
