"""The order of points without sorting them all: contexts first, then codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.line import points
from monolayer.construct.line.points import token_major


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 6),
    st.sampled_from([3, 1000, 70_000, 10**7]),
    st.booleans(),
    st.integers(0, 9999),
)
def test_contexts_then_codes_is_the_order_of_z(
    sequences: int, length: int, codes: int, partly: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    code = random.integers(-codes // 2, codes // 2, sequences * length).astype(np.float64)
    context = random.random(sequences)
    z = code + 0.5 * np.repeat(context, length)
    place = np.flatnonzero(random.random(len(z)) < 0.6) if partly else None
    order = token_major(code, context, place)
    assert order is not None
    chosen = z if place is None else z[place]
    assert sorted(order.tolist()) == list(range(len(chosen)))
    assert np.array_equal(chosen[order], np.sort(chosen))


def test_codes_too_far_apart_for_a_radix_sort_are_left_to_another() -> None:
    assert token_major(np.array([0.0, 2.0**33]), np.array([0.1, 0.2]), None) is None


def test_both_orders_build_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    X, Y = random.integers(0, 30, (200, 6)), random.integers(0, 3, (200, 6))
    one = ml.memorize(X, Y, positions=True).state_dict()
    monkeypatch.setattr(points, "WORTH_IT", 10**9)
    two = ml.memorize(X, Y, positions=True).state_dict()
    assert all(np.array_equal(one[name].numpy(), two[name].numpy(), equal_nan=True) for name in one)
