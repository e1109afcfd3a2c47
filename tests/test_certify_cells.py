"""Certificates of approximators: the stored network is the cell function, everywhere off the ramps."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker.cells import CellBlock, _sequences_of_cells, cell_function, function_values, read_cells
from monolayer.checker.codes import read_stream
from monolayer.checker.readout import CheckedStaircase
from monolayer.checker.stored import read_model
from monolayer.theory.targets import TARGETS
from tests.datasets import smooth
from tests.verdicts import expect

pytestmark = pytest.mark.usefixtures("bounds_alone")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
def test_approximators_are_proved_and_what_is_proved_holds_all_over_the_cells(
    dim: int, length: int, cells: int, positions: bool, seed: int
) -> None:
    while cells > 1 and cells ** (dim * length) > 700:
        cells -= 1
    f, random = smooth(np.random.default_rng(seed), dim, positions), np.random.default_rng(seed)
    low, high = np.sort(random.uniform(-9, 9, 2)).tolist()
    model = ml.approximate(f, dim, length, cells=cells, domain=(low, high), positions=positions)
    proof = expect("proved", "", model, f)
    grid = model.card.grid
    assert grid is not None
    assert proof.label_error == 0.0
    assert f"h = {high - low:.6g}"[:3] in proof.notes[0]
    # Random points of random cells, by PyTorch and the dense network: as the certificate says.
    X = random.uniform(low, high, (60, length, dim))
    X = X[~model.on_ramp(X)]
    edges = np.linspace(low, high, cells + 1)
    which = np.clip(np.searchsorted(edges, X, side="right") - 1, 0, cells - 1)
    centre = (edges[which] + edges[which + 1]) / 2
    far = np.abs(model.predict(X, path="dense") - f(centre)).max(initial=0.0)
    # The checker's centres are the middles of plateaus: a ramp's width beside these.
    assert far <= 30 * grid.ramp + 30 * 2.0**-24 * max(abs(low), abs(high))


def test_the_points_are_all_sequences_of_cells() -> None:
    for V, n in ((1, 3), (4, 1), (4, 3), (3, 4)):
        assert _sequences_of_cells(V, n, False).tolist() == [
            list(row) for row in combinations_with_replacement(range(V), n)
        ]
        assert _sequences_of_cells(V, n, True).tolist() == [list(row) for row in product(range(V), repeat=n)]
    proof = ml.certify(ml.approximate(TARGETS["sort"], 1, 3, cells=6, lipschitz=1.0), TARGETS["sort"])
    assert proof.points == 3 * math.comb(8, 3)
    assert f"each of the {proof.points} tokens of all sequences of cells" in proof.claim
    with TemporaryDirectory() as folder:
        model = ml.approximate(TARGETS["max"], 2, 2, cells=4, domain=(-1.0, 3.0), ramp=2.0**-6, lipschitz=1.0)
        found, grid = read_cells(read_model(model.save(Path(folder) / "m"))), model.card.grid
    assert grid is not None
    assert np.allclose(np.unique(found.centres()), [-0.5, 0.5, 1.5, 2.5], atol=grid.ramp)
    assert (found.ramp_share, found.reach) == (pytest.approx(grid.ramp_share), pytest.approx(grid.error))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 10**6), st.sampled_from([0.0, 1e3, -1e12]))
def test_no_end_of_a_plateau_is_farther_from_its_centre_than_is_said(steps: list[int], seed: int, at: float) -> None:
    """`h`, in exact arithmetic: far from 0 a centre is rounded, and nearer to one end of its cell than to the other."""
    random, stairs, ends = np.random.default_rng(seed), [], []
    low, high = at, at + 1.0
    for count in steps:
        middle = at + (np.arange(count) + random.uniform(0.3, 0.7, count)) / count
        left, right = middle - 2.0**-12, middle + 2.0**-12
        stairs.append(CheckedStaircase(left, right, np.zeros((2, count + 1))))
        ends.append([*zip([low, *right.tolist()], [*left.tolist(), high], strict=True)])
    stored: Any = None
    block, far = CellBlock(stored, tuple(stairs), low, high), Fraction(0)
    centres = block.centres()
    for axis, plateaus in enumerate(ends):
        for centre, (start, end) in zip(np.unique(centres[:, axis]).tolist(), plateaus, strict=True):
            assert start < centre < end
            far = max(far, Fraction(centre) - Fraction(start), Fraction(end) - Fraction(centre))
    assert far <= Fraction(block.reach) <= far * (1 + Fraction(2.0**-48))


# -- faults --------------------------------------------------------------------------------------------


def odd(x: float) -> float:
    """A float within one rounding of `x` whose last bit is 1: sums of several such numbers round."""
    return float((np.array(x).view(np.int64) | 1).view(np.float64))


FAULTS: dict[str, tuple[str, Any, Callable[[float], float], str]] = {
    "a stored value": ("feed_forward.stages.0.weight_2", (0, 7), lambda x: x + 2.0**-10, "refuted"),
    "a code": ("quantizer.weight_2", (1, 1), lambda x: x + 1.0, "refuted"),
    "a key": ("quantizer.weight_2", (0, 1), lambda x: x + 0.25, "refuted"),
    "the context": ("attention.W_O", (2, 1), lambda x: x * 4.0, "refuted"),
    "the begin token": ("bos", 1, lambda x: x + 0.5, "refuted"),
    "a key off its grid": ("quantizer.weight_2", (0, 1), odd, "undecided: may round"),
    "a begin token off the grid": ("bos", 1, odd, "undecided: may round"),
    "a begin token on a ramp": ("bos", -1, lambda x: 0.25 - 2.0**-24 - 2.0**-23, "undecided: lies on a ramp"),
    "no coordinate": ("quantizer.weight_1", (0, 0), lambda x: 0.0, "undecided: exactly one coordinate"),
    "two coordinates": ("quantizer.weight_1", (0, 1), lambda x: 1.0, "undecided: exactly one coordinate"),
    "a lift that scales": ("lift.weight", (-1, 1), lambda x: 2.0, "undecided: the lift must copy"),
    "a lift with a key": ("lift.weight", (1, 1), lambda x: 2.0**-20, "undecided: the lift must copy"),
    "a lift that shifts keys": ("lift.bias", 1, lambda x: 2.0**-20, "undecided: the lift must copy"),
    "a lift that shifts codes": ("lift.bias", 2, lambda x: 2.0**-20, "undecided: the lift must copy"),
    "a lift that shifts": ("lift.bias", -1, lambda x: 2.0**-20, "undecided: the lift must copy"),
    "a ramp outside": ("quantizer.bias_1", 2, lambda x: 10 * x, "undecided: overlap, or leave the domain"),
    "NaN": ("quantizer.weight_2", (0, 1), lambda x: math.nan, "undecided: may round"),
    "a place with a key off its grid": ("positions.weight", (1, 1), lambda x: 2.0**-60, "undecided: may round"),
    "a place with a code off its grid": ("positions.weight", (1, 2), lambda x: 2.0**-60, "undecided: may round"),
    "positions that move tokens": ("positions.weight", (1, -1), lambda x: 0.3, "undecided: positions must not touch"),
    "a head": ("head.weight", (0, 0), lambda x: 1.0, "undecided: the head does not copy"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_planted_faults_are_never_proved(fault: str) -> None:
    name, where, change, expected = FAULTS[fault]
    model = ml.approximate(TARGETS["force"], 2, 2, cells=4, lipschitz=2.0, positions=name == "positions.weight")
    with torch.no_grad():
        entry = model.get_parameter(name)
        entry[where] = change(float(entry[where]))
    verdict, _, words = expected.partition(": ")
    assert not expect(verdict, words, model, TARGETS["force"])


def test_attention_that_reads_and_writes_coordinates_of_tokens_is_not_covered() -> None:
    """They lie where a second stage would have its value and its code; this model has one stage."""
    model = ml.approximate(TARGETS["force"], 2, 2, cells=4, lipschitz=2.0)
    with torch.no_grad():
        value, write = (model.get_parameter(f"attention.W_{letter}") for letter in "VO")
        token = value.shape[1] - 2
        (row, reads), (code, column) = (part.nonzero()[0].tolist() for part in (value, write))
        value[row, token], write[token + 1, column] = value[row, reads].item(), write[code, column].item()
        value[row, reads] = write[code, column] = 0.0
    expect("undecided", "attention must read", model, TARGETS["force"])


@pytest.fixture(scope="module")
def highest() -> ml.Monolayer:
    return ml.approximate(TARGETS["max"], 1, 2, cells=5, lipschitz=1.0)


def test_the_largest_number_of_a_coordinate_is_over_all_tokens_and_the_begin_token(tmp_path: Path) -> None:
    """What a score may be at most decides how far a softmax may be off."""
    f = TARGETS["force"].function
    stored = read_model(ml.approximate(f, 2, 2, cells=3, lipschitz=2.0).save(tmp_path / "m"))
    X = np.random.default_rng(0).uniform(0.0, 1.0, (20, 2, 2))
    for coordinate in read_stream(stored, ml.Sequences.of(X, None), None):
        assert coordinate.largest == max(float(np.abs(coordinate.flat).max()), abs(coordinate.bos))
        assert abs(coordinate.bos) != float(np.abs(coordinate.flat).max()), "so that their largest is not their least"


@pytest.mark.parametrize("key", [1000.0, -1000.0])
def test_a_begin_token_whose_score_is_too_large_is_left_open(key: float) -> None:
    """Keys on a coarse grid, so that the sums with it do not round."""
    model = ml.approximate(TARGETS["force"], 2, 2, cells=4, lipschitz=2.0)
    with torch.no_grad():
        keys = model.get_parameter("quantizer.weight_2")[0]
        keys.copy_(torch.round(keys * 64) / 64)
        model.get_parameter("quantizer.bias_2")[0] = 0.0
        model.get_parameter("bos")[1] = key
    expect("undecided", "scores reach", model, TARGETS["force"])


def test_another_function_is_refuted_at_the_cells_where_it_differs(highest: ml.Monolayer) -> None:
    def other(X: Any) -> Any:
        value = np.array(TARGETS["max"](X))
        value[(X < 0.2).all(axis=(1, 2))] += 1e-6
        return value

    proof = expect("refuted", "", highest, other)
    assert [finding.sequence for finding in proof.findings] == [0, 0]
    expect("proved", "", highest, other, tolerance=2e-6)


def test_what_does_not_fit_together_is_an_error(highest: ml.Monolayer) -> None:
    for model, data, words in (
        (ml.memorize([["a"]], [["b"]]), (TARGETS["max"],), "this model is a memorizer"),
        (highest, (np.zeros((1, 3, 1)), np.zeros((1, 3, 1))), "compared with its function"),
        (highest, (lambda X: X[:, 5],), "the function failed"),
        (highest, (lambda X: X.transpose(1, 0, 2),), r"of shape \(2, 15, 1\) for a batch of shape \(15, 2, 1\)"),
        (highest, (lambda X: np.where(X < 0.15, np.nan, X),), "is not finite at"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.certify(model, *data)
    with pytest.raises(ml.DataError, match="too many sequences"):
        _sequences_of_cells(10**6, 4, False)
    short = ml.approximate(TARGETS["max"], 1, 2, cells=2, lipschitz=1.0).float()
    expect("undecided", "covered in float64", short, TARGETS["max"])


def test_the_first_sequence_at_which_a_function_is_not_finite_is_named() -> None:
    X = np.arange(10.0).reshape(5, 2, 1)

    def f(X: Any) -> Any:
        value = X.copy()
        value[2, 1], value[4] = np.nan, np.inf
        return value

    with pytest.raises(ml.DataError, match=r"not finite at \[\[4.0\], \[5.0\]\]: it returned \[\[4.0\], \[nan\]\]"):
        function_values(f, X, 1)


def test_verify_takes_a_function(tmp_path: Path, said: Any) -> None:
    folder = str(tmp_path / "m")
    said("approximate", "nearest", "--length", "3", "--cells", "6", "--out", folder)
    assert "modulus of continuity" in " ".join(said("verify", folder, "nearest", "--save").split())
    assert "are those of certificate.json" in " ".join(said("verify", folder, "nearest").split())
    said("verify", folder, "median", code=1)
    said("verify", folder, "math:nothing", code=2)


# -- the order of tokens -----------------------------------------------------------------------------------


def first_token(X: Any) -> Any:
    """Not equivariant, but like `max` where the tokens are in falling order: every token gets the first one."""
    return np.repeat(np.asarray(X)[:, :1], X.shape[1], axis=1)


def mean(X: Any) -> Any:
    """Rounded by the order of its tokens, coarsely enough that nearly every other order gives another number."""
    return np.repeat((((X[:, 0] + 1e3) * 0.7 + X[:, 1] * 0.7) + X[:, 2] * 0.7)[:, None] / 3, 3, axis=1)


@pytest.mark.parametrize("every", [True, False])
def test_the_claim_says_which_orders_were_tried(every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not every:
        monkeypatch.setattr("monolayer.checker.cells.EVERY", 60)
    how = "in all others, where the function, asked there, is equivariant {}"
    how = how if every else "in all others if the function is permutation equivariant, as it was {}"
    for f, words in ((TARGETS["sort"], "exactly"), (mean, "to within")):
        proof = ml.certify(ml.approximate(f, 1, 3, cells=7, domain=(0.1, 0.8), lipschitz=1.0), f)
        assert (proof.verdict, how.format(words) in proof.claim) == ("proved", True), proof.claim
    for length, positions, cells in ((1, False, 4), (2, True, 4), (2, False, 1)):
        model = ml.approximate(TARGETS["sort"], 1, length, cells=cells, lipschitz=1.0, positions=positions)
        assert "order" not in ml.certify(model, TARGETS["sort"]).claim
    # Two cells are enough for orders to differ.
    model = ml.approximate(lambda X: np.repeat(X.min(axis=1, keepdims=True), X.shape[1], axis=1), 1, 3, cells=2)
    assert "not permutation equivariant" in ml.certify(model, first_token).notes[0]
    # A counterexample. The model is `min`; in the order in which the cells are tried, so is the function.
    model = ml.approximate(lambda X: np.repeat(X.min(axis=1, keepdims=True), X.shape[1], axis=1), 1, 3, cells=4)
    proof = ml.certify(model, first_token)
    assert (proof.verdict, "not permutation equivariant" in proof.notes[0]) == ("refuted", True)
    assert "in one other order in which the function is not" in proof.claim
    assert proof.findings[0].sequence == math.comb(6, 3), "the sequence behind all multisets"
    assert proof.findings[0].got != proof.findings[0].expected


def test_one_token_of_one_order_makes_a_function_not_equivariant_and_its_own_rounding_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = read_model(ml.approximate(mean, 1, 3, cells=4, domain=(0.1, 0.9), lipschitz=1.0).save(tmp_path / "m"))
    top = 0.1 + 0.2 * 3

    def one_token(X: Any) -> Any:
        value = np.array(mean(X))
        value[(X[:, 0] > top).all(axis=1) & (X[:, 1:] < top).all(axis=(1, 2)), 2] += 0.5
        return value

    def zero_somewhere(X: Any) -> Any:
        return np.where((top > X).all(axis=(1, 2), keepdims=True), 0.0, mean(X))

    assert cell_function(stored, one_token).apart == pytest.approx(0.5, rel=1e-6)
    for f in (mean, zero_somewhere):
        found = cell_function(stored, f)
        assert found.apart is None
        assert "to within" in found.condition
    for every, tried in ((60, "in 20 that were tried"), (2, "in 1 that were tried")):
        monkeypatch.setattr("monolayer.checker.cells.EVERY", every)
        assert tried in cell_function(stored, mean).condition
