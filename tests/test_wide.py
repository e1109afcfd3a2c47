"""Wide numbers in exact integers (docs/rate.md): every label, fewer weights than a line, and where float64 ends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.errors import DataError
from monolayer.theory.wide import WideNetwork, significant, wide
from monolayer_experiments.synthetic import without_repeats
from tests.scripts import ROOT, script


def in_fractions(network: WideNetwork, X: np.ndarray) -> list[list[int]]:
    """The same network as a reader would write it down: every token by itself, in fractions."""

    def form(row, state):
        return sum((weight * state.get(name, Fraction(1)) for name, weight in row.items()), Fraction(0))

    answers = []
    for tokens in X.tolist():
        mean = Fraction(sum(network.keys[x] for x in tokens), len(tokens))
        answers.append([])
        for x in tokens:
            state = {"u": Fraction(network.codes[x]) + network.length * mean}
            for layer in network.layers:
                state = {name: max(Fraction(0), form(row, state)) for name, row in layer.items()}
            answers[-1].append(form(network.answer, state))
    return answers


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 20),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(0, 99),
)
def test_every_label_comes_back_exactly_whatever_the_groups(count, length, classes, group, seed):
    X, Y = without_repeats(count, length, 24, classes, seed)
    network = wide(X, Y, group=group, seed=seed)
    assert (network.predict(X) == Y).all()
    assert in_fractions(network, X[:2]) == Y[:2].tolist()
    assert len(max(network.layers, key=len)) <= max(9, 1 + -(-X.size // (group or 1))), "width: steps, or a constant"


def test_a_digit_that_is_changed_changes_its_label_and_no_other() -> None:
    X, Y = without_repeats(20, 4, 60, 16, seed=3)
    network = wide(X, Y, group=4)
    u = np.array(network.codes)[X] + np.array(network.keys)[X].sum(axis=1, keepdims=True)
    place = np.argwhere(u == -network.layers[0]["p0"]["1"])  # the last point of the first group
    assert len(place) == 1
    changed = tuple(place[0])
    # Its last digit is the lowest bit of its label; the step behind the group is the only one that differs for it.
    digit = Fraction(-3 if Y[changed] % 2 else 3, 4**network.digits)
    read = dict(network.layers[2]["y"])
    read["q0"] = read["q0"] + digit
    layers = [*network.layers[:2], network.layers[2] | {"y": read}, *network.layers[3:]]
    expected = Y.copy()
    expected[changed] ^= 1
    assert (replace(network, layers=layers).predict(X) == expected).all()


def test_fewer_weights_than_the_line_but_not_for_few_labels_and_never_fewer_bits_than_the_labels() -> None:
    rows = {}
    for count in (12, 124, 400):
        X, Y = without_repeats(count, 8, 200, 16)
        network, line = wide(X, Y), ml.memorize(X, Y)
        weights = [float(w) for each in line.parameters() for w in each.detach().ravel().tolist()]
        rows[X.size] = len(network.weights()), sum(np.isfinite(weights) & (np.array(weights) != 0.0)), network.bits()
        assert network.bits() > 4 * X.size
    few, some, many = rows.values()
    assert few[0] > few[1]
    assert some[0] < some[1]
    assert many[0] < many[1] / 1.8
    # Labels grew by 3.2, weights by less than its root and a little, bits by about as much as labels.
    assert many[0] / some[0] < 2.0 < 2.5 < many[2] / some[2]


def test_float64_reads_about_26_digits_and_loses_those_behind() -> None:
    X, Y = without_repeats(124, 8, 200, 16)
    near, far = (wide(X, Y, group=group) for group in (1, 8))
    assert near.digits <= 26
    assert (near.predict_in_floats(X) == Y).all()
    assert far.digits > 4 * 26
    assert (far.predict(X) == Y).all()
    assert (far.predict_in_floats(X) == Y).mean() < 0.4


def test_bits_and_refusals() -> None:
    assert [significant(each) for each in (1, -6, 12, Fraction(3, 4), Fraction(-5, 1 << 40))] == [1, 2, 2, 2, 3]
    with pytest.raises(DataError, match="both \\(N, n\\)"):
        wide([[0, 1]], [0])
    with pytest.raises(DataError, match="from 0 on"):
        wide([[0, -1]], [[0, 0]])
    with pytest.raises(DataError, match="a token repeats, or two sequences have the same tokens"):
        wide([[0, 1], [1, 0]], [[0, 1], [1, 1]])


@pytest.mark.one_seed
def test_the_page_has_the_rows_that_the_script_prints() -> None:
    tables = script("docs/figures/wide.py")
    said = (ROOT / "docs" / "rate.md").read_text(encoding="utf-8")
    for labels in (96, 304):
        assert tables.row(tables.measured(labels)) in said
