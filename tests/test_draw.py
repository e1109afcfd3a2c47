"""The bounds on rounding that a construction places its points by, and the functions that decide its weights."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.line.alphabet import Ids
from monolayer.construct.line.draw import EXP_ULPS, drawn
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.exponential import exponential
from monolayer.construct.line.tokens import Tokens
from monolayer.construct.line.values import averages, draw_value
from monolayer.construct.powers import power_above, power_below, power_near
from monolayer.construct.target import Target
from monolayer.theory.balls import precision

RANDOM = np.random.default_rng(7)
V, Y = RANDOM.normal(size=(30, 3, 2)), RANDOM.integers(0, 3, (30, 3))


def _mean(keys: list[Any], values: list[Any], temperature: float) -> Any:
    weights = [(arb(temperature) * key).exp() for key in keys]
    return sum((w * v for w, v in zip(weights, values, strict=True)), arb(0)) / sum(weights, arb(0))


def test_a_vector_outside_the_data_of_a_draw_is_named() -> None:
    """The bounds on rounding are for keys in [−1, 1]."""
    model = ml.memorize(V, Y)
    with pytest.raises(ml.DataError, match=r"token \d of sequence 30 lies outside the data"):
        ml.memorize(np.concatenate([V, 50.0 * V[:1]]), np.concatenate([Y, Y[:1]]), draw=model)


def test_the_own_exp_is_within_one_ulp_and_ends_where_floats_do() -> None:
    scores = np.concatenate([RANDOM.uniform(-2, 2, 500), RANDOM.uniform(-709, 709, 500), [0.0, 1e-300, -1e-17]])
    found = exponential(scores)
    with precision(120):
        for score, value in zip(scores.tolist(), found.tolist(), strict=True):
            assert abs(arb(value) - arb(score).exp()) < arb(float(np.spacing(value)))
    assert exponential(np.array([0.0, 720.0, 1400.0, -1400.0])).tolist() == [1.0, np.inf, np.inf, 0.0]


@pytest.mark.parametrize(("temperature", "dtype"), [(1.0, "float64"), (-4.0, "float32"), (300.0, "float64")])
def test_contexts_with_places_are_within_their_bound(temperature: float, dtype: Any) -> None:
    """Their weights are products of two `exp`, and keys and values are sums that round in the format of the weights."""
    rows, place = RANDOM.integers(0, 9, 60), np.tile(np.arange(6), 10)
    tokens = Tokens(rows, np.full(10, 6), Ids(9), place, False, temperature, dtype=dtype)
    draw = drawn(tokens, "cells", 0, 0)
    encoded = Encoded(draw, tokens)
    contexts = encoded.contexts.tolist()
    needed = 2.0 * tokens.unit * (6 + 1 + 4.0 * abs(draw.temperature) + 2.0 * EXP_ULPS + 2.0)  # docs/proofs.md
    assert encoded.context_error >= 0.999 * needed
    value, target = draw_value(tokens, 0, 2), Target(np.zeros(10, np.int64), np.zeros((1, 1)), "sequence", None, True)
    means = averages(value, draw, tokens, target, np.arange(10)).tolist()
    each = (value.token[rows] + value.position[place]).tolist()  # one sum of the format, as in the model
    keys = [arb(key) for key in encoded.keys.tolist()]
    with precision(200):
        for row in range(10):
            seen = [arb(draw.bos_key), *keys[6 * row : 6 * row + 6]]
            assert abs(arb(contexts[row]) - _mean(seen, seen, draw.temperature)) < encoded.context_error
            values = [arb(value.bos), *map(arb, each[6 * row : 6 * row + 6])]
            assert abs(arb(means[row]) - _mean(seen, values, draw.temperature)) < encoded.context_error


@given(st.floats(2.0**-1000, 2.0**1000), st.integers(-1, 1))
def test_powers_of_two_are_those_beside_a_number(value: float, ulps: int) -> None:
    """Also right beside a power of two, where `log2` rounds to a whole number."""
    for x in (value, float(power_below(value)) * (1.0 + ulps * 2.0**-53)):
        below, above, near = (float(found(x)) for found in (power_below, power_above, power_near))
        assert {np.frexp(power)[0] for power in (below, above, near)} == {0.5}
        assert below <= x < 2.0 * below
        assert above / 2.0 < x <= above
        assert near in (below, above)
        assert near / 1.4142135623731 < x < near * 1.4142135623731


LIBRARY = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "pow", "power", "cbrt"}
NO_WEIGHTS = {
    "construct/cells/grid.py": "a number in an error message",
    "construct/target.py": "bits of labels, a figure",
    "construct/robust/stream.py": "of balls, the same on every machine",
    "stock/answers.py": "the network is asked",
    "stock/assemble.py": "a probability, compared with what was asked for",
}


def test_no_weight_depends_on_a_function_of_the_math_library() -> None:
    """IEEE 754 defines sums, products, quotients and roots; of everything else libraries differ in the last bit."""
    package, found = Path(ml.__file__).parent, set()
    for layer in ("construct", "stock", "cluster", "editing"):
        for file in (package / layer).rglob("*.py"):
            nodes = ast.walk(ast.parse(file.read_text()))
            if any(isinstance(node, ast.Attribute) and node.attr in LIBRARY for node in nodes):
                found.add(file.relative_to(package).as_posix())
    assert found == set(NO_WEIGHTS)
