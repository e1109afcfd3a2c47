"""Attention of rank one in linear time is the same attention: values, gradients, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import monolayer as ml
from monolayer.model import rank_one
from monolayer.theory.boltzmann import boltz

LONG = 1500


def _plain(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """All scores."""
    scores = q[..., :, None] * k[..., None, :]
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return scores.softmax(-1) @ v


def _draw(seed: int, reach: float, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values whose largest score is `reach`."""
    random = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(*shape, generator=random, dtype=torch.float64) for _ in range(2))
    q = q * (reach / float(q.abs().max() * k.abs().max()))
    return q, k, torch.rand(*shape, 2, generator=random, dtype=torch.float64) * 2 - 1


@settings(deadline=None, max_examples=6)
@given(st.integers(0, 10**6), st.floats(0.0, 50.0), st.booleans(), st.sampled_from(["", "shifted", "one side"]))
def test_it_errs_by_less_than_1e_12(seed: int, reach: float, causal: bool, kind: str) -> None:
    q, k, v = _draw(seed, reach, LONG)
    if kind == "shifted":
        k = k + 3.0 * (reach < 10.0)
    if kind == "one side":
        q = q.abs()
    assert (ml.attention(q, k, v, causal=causal) - _plain(q, k, v, causal)).abs().max() <= 1e-12


def test_the_interpolated_way_is_taken_and_the_exact_boltzmann_operator_agrees(monkeypatch: Any) -> None:
    monkeypatch.setattr(rank_one, "_direct", lambda *_: pytest.fail("all scores were computed"))
    q, k, _ = _draw(3, 40.0, LONG)
    answer = ml.attention(q, k, k)
    for place in (0, 17, LONG - 1):
        wanted = float(boltz((q[place] * k).numpy())) / float(q[place])
        assert math.isclose(float(answer[place]), wanted, rel_tol=0, abs_tol=1e-12)


def test_constant_queries_need_no_interpolation(monkeypatch: Any) -> None:
    monkeypatch.setattr(rank_one, "_sums_over_keys", lambda *_: pytest.fail("the operator was interpolated"))
    _, k, v = _draw(4, 1.0, LONG)
    q = torch.full((LONG,), 1.7, dtype=torch.float64)
    for causal in (False, True):
        assert (ml.attention(q, k, v, causal=causal) - _plain(q, k, v, causal)).abs().max() < 1e-13


@pytest.mark.parametrize("causal", [False, True])
def test_batches_are_rows_and_one_value_a_key_will_do(causal: bool) -> None:
    q, k, v = _draw(5, 20.0, 2, 3, 700)
    answer = ml.attention(q.float(), k, v[..., 0].float(), causal=causal)
    wanted = _plain(q.float().double(), k, v[..., :1].float().double(), causal)[..., 0]
    assert (answer.shape, answer.dtype) == ((2, 3, 700), torch.float32)
    assert (answer - wanted).abs().max() <= 1e-7


@pytest.mark.parametrize(("causal", "n"), [(True, 40), (False, 700)])
def test_gradients_are_those_of_all_scores(causal: bool, n: int) -> None:
    parts = [part.requires_grad_() for part in _draw(6, 15.0, n)]
    pull = torch.cos(torch.arange(n * 2.0)).view(n, 2).double()
    ours = torch.autograd.grad((ml.attention(*parts, causal=causal) * pull).sum(), parts)
    wanted = torch.autograd.grad((_plain(*parts, causal) * pull).sum(), parts)
    for one, two in zip(ours, wanted, strict=True):
        assert (one - two).abs().max() <= 1e-11 * max(1.0, float(two.abs().max()))


def test_wide_scores_and_equal_keys_are_computed_one_by_one() -> None:
    q, k, v = _draw(7, 5000.0, LONG)
    for causal in (False, True):
        assert (ml.attention(q, k, v, causal=causal) - _plain(q, k, v, causal)).abs().max() <= 1e-12
        flat = ml.attention(q, torch.ones_like(k), v, causal=causal)
        assert (flat - _plain(q, torch.ones_like(k), v, causal)).abs().max() <= 1e-12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, k, v: (q.long(), k, v, {}), "takes tensors of floats"),
        (lambda q, k, v: (q, k, v[:-1], {}), "one value per key"),
        (lambda q, k, v: (q[:-1], k, v, {"causal": True}), "one query per key; here are 4 queries and 5 keys"),
        (lambda q, k, v: (q.expand(2, 5), k.expand(3, 5), v.expand(3, 5, 2), {}), "in equal batches"),
    ],
)
def test_what_does_not_fit_is_said(change: Any, words: str) -> None:
    q, k, v, options = change(*_draw(9, 1.0, 5))
    with pytest.raises(ml.DataError, match=words):
        ml.attention(q, k, v, **options)
