"""Numbers of the theory as people write them, and its results as tables in HTML and LaTeX."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer.theory.shown import bytes_of_bits, enclosed, latex, power_of_ten
from monolayer.theory.theorem import Theorem


def test_powers_of_ten_are_written_as_people_write_them() -> None:
    for log10, shown in {
        -math.inf: "0",
        math.log10(0.05): "0.05",
        0.0: "1",
        5.99429: "987,000",
        -985.15234: "7.04·10^-986",
        -3.0001: "10^-3",
        -12.0: "10^-12",
        math.log10(9.999) - 8: "10^-7",  # rounded up into the next power
        -53_482_912.3: "10^-53,482,912",
        -2.52e17: "10^(-2.52·10^17)",
        12_345.6: "10^12,346",
    }.items():
        assert power_of_ten(log10) == shown
    assert [bytes_of_bits(bits) for bits in (118, 10_622, 15_530_333)] == ["14.8 bytes", "1.33 kB", "1.94 MB"]


@given(st.floats(-9_000, 9_000))
def test_what_is_written_is_the_number_to_three_digits(log10: float) -> None:
    factor, power, exponent = power_of_ten(log10).replace(",", "").partition("10^")
    value = Decimal(factor.removesuffix("·") or 1) * (Decimal(10) ** int(exponent) if power else 1)
    assert abs(float(value.log10()) - log10) < math.log10(1.006)


def test_an_enclosure_is_one_number_only_where_both_ends_are_written_alike() -> None:
    assert enclosed(-614.0001, -614.0) == "10^-614"
    assert enclosed(-614.1, -614.0) == "between 7.94·10^-615 and 10^-614"
    assert enclosed(-math.inf, -2.0) == "between 0 and 0.01"
    assert enclosed(-2.0, math.inf) == "at least 0.01"


@pytest.fixture(scope="module")
def carried_out() -> Theorem:
    random = np.random.default_rng(0)
    tokens = random.normal(size=(6, 2))
    return ml.theorem([tokens[random.permutation(6)[:3]] for _ in range(8)])


def test_results_of_the_theory_are_tables_in_notebooks_and_papers(carried_out) -> None:
    results = [carried_out, carried_out.separation, ml.refute_hardmax(heads=2, dim=3)]
    results.append(ml.contextual_mapping(lambda X: np.cumsum(X, axis=1), [[1, 2], [2, 3]]))
    for result in results:
        shown, page = result.latex(), result._repr_html_()
        assert shown.isascii()
        assert shown.count("$") % 2 == 0
        assert not re.search(r"(?<!\\)[&#%_^]", re.sub(r"\$[^$]*\$| & ", "", shown))
        body = shown.splitlines()[2:-2]
        assert len(body) == len(result.rows()) == page.count("<tr>")
        assert all(line.count(" & ") == 1 and line.endswith(r" \\") for line in body)
        assert "^" not in page
        assert "e+" not in repr(result)
    assert re.search(r"\$10\^\{-\d+\{,\}\d+\}\$", carried_out.latex())  # δ of the worst case
    assert re.search(r"10<sup>−\d+,\d+</sup>", carried_out._repr_html_())


def test_latex_obeys_nothing_of_a_text() -> None:
    assert latex("50 % of a_b & {c}^2 \\input ~ #1 $") == (
        r"50 \% of a\_b \& \{c\}\textasciicircum{}2 \textbackslash{}input \textasciitilde{} \#1 \$"
    )
    assert latex("r_min ≤ 10^(-2.5·10^17), rank-1, -3") == (
        r"$r_{\min}$ $\leq $ $10^{-2.5 \cdot 10^{17}}$, rank-1, $-3$"
    )
