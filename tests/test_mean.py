"""What softmax is for: the mean of independent keys separates multisets; of keys that are sums it does not.

The reference is exact: keys as whole numbers, sums in Python integers, all sequences of a small size one by one.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import precision
from monolayer.theory.enclosure import log_difference
from monolayer.theory.targets import TARGETS
from monolayer_experiments.synthetic import without_repeats

seeds = st.integers(0, 2**32 - 1)


def means(keys: list[int], longest: int) -> dict[tuple[int, ...], Fraction]:
    """The exact mean behind a begin token, whose key is the last, of every multiset of tokens up to a length."""
    *own, begin = keys
    return {
        x: Fraction(begin + sum(own[a] for a in x), len(x) + 1)
        for n in range(1, longest + 1)
        for x in combinations_with_replacement(range(len(own)), n)
    }


@given(seed=seeds)
@settings(max_examples=8)
def test_the_mean_of_independent_keys_separates_all_multisets(seed: int) -> None:
    keys = [int(k) for k in np.random.default_rng(seed).integers(-(2**60), 2**60, 6)]
    found = means(keys, 4)
    assert len(set(found.values())) == len(found)


@given(seed=seeds)
@settings(max_examples=10)
def test_added_coordinates_leave_the_mean_blind_to_cells_and_softmax_not(seed: int) -> None:
    a, b = np.random.default_rng(seed).integers(-(2**40), 2**40, (2, 2)).tolist()
    one, other = ([a[0] + b[0], a[1] + b[1]], [a[0] + b[1], a[1] + b[0]])
    assert sum(one) == sum(other)
    if len(set(one + other)) == 4:  # else the four sums of keys are not different numbers
        with precision(512):
            assert log_difference(dict.fromkeys(one, 1), dict.fromkeys(other, 1), arb(2.0**-40))[0] != 0


# -- built and certified -------------------------------------------------------------------------------


def test_the_mean_memorizes_position_free_data_and_is_proved() -> None:
    X, Y = without_repeats(300)
    mean = ml.memorize(X, Y, temperature=0.0)
    assert (mean.predict(X) == Y).all()
    assert (mean.predict(X[:3], path="dense") == Y[:3]).all()
    assert not mean.attention.W_Q.any()
    assert ml.certify(mean, X, Y).verdict == "proved"
    X, Y = [[0, 1], [0, 0, 1, 1], [1]], [[0, 1], [2, 2, 0, 0], [2]]
    assert ml.certify(ml.memorize(X, Y, temperature=0.0), X, Y).verdict == "proved"


def test_order_needs_softmax() -> None:
    X, Y = [[0, 1, 2], [1, 0, 2]], [[0, 1, 0], [2, 3, 1]]
    assert ml.certify(ml.memorize(X, Y, positions=True), X, Y).verdict == "proved"
    with pytest.raises(PrecisionError, match="At temperature=0 the head averages"):
        ml.memorize(X, Y, positions=True, temperature=0.0)
    # Where no label depends on the order of others, the mean will do.
    ml.memorize(X, [[0, 1, 0], [2, 3, 0]], positions=True, temperature=0.0)


@pytest.mark.parametrize(("dim", "length", "separates"), [(1, 3, True), (2, 2, True), (2, 3, False)])
def test_cells_of_several_coordinates_need_softmax(dim: int, length: int, separates: bool) -> None:
    f = TARGETS["nearest"].function
    ml.approximate(f, dim, length, cells=3)
    if separates:
        model = ml.approximate(f, dim, length, cells=3, temperature=0.0)
        assert ml.certify(model, f).verdict == "proved"
    else:
        with pytest.raises(PrecisionError, match="At temperature=0 the head averages"):
            ml.approximate(f, dim, length, cells=3, temperature=0.0)


@pytest.mark.parametrize("temperature", [float("nan"), float("inf"), "warm", 1e4, -900.0])
def test_a_temperature_that_is_no_number_is_refused(temperature: object) -> None:
    with pytest.raises(DataError, match="temperature is λ"):
        ml.memorize([[0, 1]], [[0, 1]], temperature=temperature)
