"""Many models in one are each what they would be alone; and what the three experiments that train on functions and
contexts say follows from their numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from monolayer_experiments import cliff, functions, shortfall
from monolayer_experiments.fleet import Fleet, Shape, _Adam, sail
from tests.small_runs import check_words, quick_runs, training_by_steps

TINY = {
    "functions": {"targets": ("max", "ranks"), "cells": 4, "clock": 0.05, "pool": 200, "held_out": 100},
    "cliff": {"clock": 0.1, "pool": 200, "held_out": 100, "rounds": 3, "climbers": 4, "cells": 2},
    "shortfall": {"sizes": {16: 0.05}, "length": 4, "vocabulary": 14, "width": 32},
}


@pytest.fixture(scope="module")
def results():
    return quick_runs(TINY)


@pytest.mark.parametrize("name", TINY)
def test_words_figures_and_tables_come_from_the_stored_numbers(name, results):
    check_words(name, results[name])


def test_answers_change_with_the_numbers(results):
    stored = copy.deepcopy(results["functions"])
    for row in stored["rows"]:
        row.update(rms=0.5, sup=0.5)
        if row["model"] == "1 layer":
            row.update(rms=0.1 if row["target"] == "max" else 0.9, sup=0.9)
    said = functions.answer(stored)
    assert "ahead in root mean square on 1 of 2 functions (max) and in largest error on 0 of 2 functions;" in said
    assert "One trained layer of rank 1 alone is ahead of the construction of rank 1 in root mean square on 0" in said
    for row in stored["rows"]:
        row["tuned"] = False
    assert "untuned" in str(functions.tables(stored)[0].rows)

    stored = copy.deepcopy(results["cliff"])
    for row, found in zip(stored["rows"], (0.3, 0.03, 0.02), strict=True):
        row["found"] = [found, 2 * found]
    said = cliff.answer(stored)
    assert said.startswith("Yes: for 3 numbers the step to rank n − 1 = 2 divides the largest error by 10, and from")
    stored["rows"][1]["found"] = [0.5]
    assert cliff.answer(stored).startswith("Not in this run, which trained too little to tell")
    assert "multiplies the largest error by 1.7" in cliff.answer(stored)
    stored["rows"][0]["found"] = [0.2]
    assert "did not reach the error that is proved" in cliff.answer(stored)

    stored = copy.deepcopy(results["shortfall"])
    for row in stored["rows"]:
        row["labels"] = 10**4
        row["accuracy"] = {"constructed, 16 numbers": 1.0}.get(row["weights"], 0.5)
        row["any_readout"] = dict.fromkeys(shortfall.FORMATS, 1.0)
    assert "So it is the readout" in shortfall.answer(stored)
    for row in stored["rows"]:
        row["any_readout"]["bfloat16"] = 0.4
    assert "it is the contexts" in shortfall.answer(stored)
    for row in stored["rows"]:
        row["accuracy"] = 0.3
    assert "So " not in shortfall.answer(stored)


def test_a_constructed_readout_loses_nothing_on_trained_contexts(results):
    streams = [row for row in results["shortfall"]["rows"] if "staircase" in row]
    assert len(streams) == 6
    assert {row["staircase"] for row in streams} == {1.0}
    assert {row["any_readout"]["float32"] for row in streams} == {1.0}


# -- the fleet -----------------------------------------------------------------------------------------


def alone(fleet: Fleet, member: int, X: torch.Tensor) -> torch.Tensor:
    """One member by hand, a matrix at a time, in float64."""
    w = {name: weight[member].detach().double() for name, weight in fleet.weights.items()}
    D, r, heads = fleet.shape.width, fleet.shape.rank, fleet.shape.heads

    def linear(name: str, Z: torch.Tensor) -> torch.Tensor:
        return Z @ w[f"{name}.weight"] + w[f"{name}.bias"]

    Z = linear("embed_2", functional.gelu(linear("embed_1", X)))
    for layer in range(fleet.shape.layers):
        A = functional.layer_norm(Z, (D,))
        if r is None:
            Q, K, V = linear(f"{layer}.inward", A).split(D, dim=-1)
        else:
            matrices = [
                w[f"{layer}.right"][:, i * r : i * r + r] @ w[f"{layer}.left"][i * r : i * r + r] for i in range(3)
            ]
            Q, K, V = (A @ matrix for matrix in matrices)
        parts = [(x.split(D // heads, dim=-1)) for x in (Q, K, V)]
        mixed = [
            (q @ k.mT / (D // heads) ** 0.5).softmax(-1) @ v for q, k, v in zip(*parts, strict=True)
        ]  # fmt: skip
        Z = Z + linear(f"{layer}.outward", torch.cat(mixed, dim=-1))
        Z = Z + linear(f"{layer}.down", functional.gelu(linear(f"{layer}.up", functional.layer_norm(Z, (D,)))))
    return linear("head", Z)


@pytest.mark.parametrize(("layers", "rank", "width"), [(1, 1, 16), (2, 3, 16), (1, None, 64), (2, None, 32)])
def test_a_member_is_a_transformer_by_itself(layers, rank, width):
    fleet = Fleet(Shape(layers, rank, width, 2, 3), 3, seed=0)
    X = torch.rand(5, 4, 2, dtype=torch.float64)
    together = torch.from_numpy(fleet.predict(X.numpy()))
    assert together.shape == (3, 5, 4, 3)
    for member in range(3):
        assert torch.allclose(together[member], alone(fleet, member, X), atol=1e-4)
    own = torch.rand(3, 5, 4, 2, dtype=torch.float64)
    assert torch.allclose(torch.from_numpy(fleet.predict(own.numpy()))[1], alone(fleet, 1, own[1]), atol=1e-4)
    assert fleet.shape.parameters * 3 == sum(weight.numel() for weight in fleet.weights.values())


def test_a_member_may_use_no_more_value_directions_than_its_rank():
    fleet = Fleet(Shape(1, 3, 8, 1, 1), 2, seed=0, value_ranks=[1, 3])
    X = torch.rand(4, 3, 1)
    before = fleet.predict(X.numpy())
    with torch.no_grad():
        fleet.weights["0.left"][:, 7:] += 1.0  # value directions 2 and 3
    after = fleet.predict(X.numpy())
    assert np.array_equal(before[0], after[0])
    assert not np.allclose(before[1], after[1])


def test_members_do_not_learn_from_each_other():
    """The same member beside another target and another rate makes the same steps."""

    def trained(target: float, rate: float) -> dict[str, torch.Tensor]:
        fleet = Fleet(Shape(1, 1, 8, 1, 1), 2, seed=0)
        adam, X = _Adam(fleet, [1e-2, rate]), torch.rand(16, 3, 1, generator=torch.Generator().manual_seed(0))
        wanted = torch.stack([X.mean(1, keepdim=True).expand_as(X), torch.full_like(X, target)])
        for _ in range(4):
            adam.step((fleet(X[None]) - wanted).square().flatten(1).mean(1).sum(), 1.0)
        return {name: weight.detach() for name, weight in fleet.weights.items()}

    one, other = trained(0.0, 1e-1), trained(5.0, 1e-3)
    assert all(torch.allclose(one[name][0], other[name][0], atol=1e-6) for name in one)
    assert not torch.allclose(one["head.weight"][1], other["head.weight"][1])


def test_it_learns_what_can_be_learnt_and_not_at_a_rate_of_nothing():
    X = np.random.default_rng(0).random((500, 3, 1))
    Y = np.stack([np.repeat(X.mean(axis=1, keepdims=True), 3, axis=1), 7.0 + 3.0 * X])
    fleet = Fleet(Shape(1, 1, 16, 1, 1), 3, seed=0)
    with training_by_steps(1 / 400):
        sail(fleet, X, Y, [0, 1, 1], [1e-2, 1e-2, 0.0], 1.0, 64)
    error = np.sqrt(np.square(fleet.predict(X) - Y[[0, 1, 1]]).mean(axis=(1, 2, 3)))
    spread = Y.std(axis=(1, 2, 3))
    assert error[0] < spread[0] / 3
    assert error[1] < spread[1] / 3 < error[2]
    assert fleet.steps == 400
