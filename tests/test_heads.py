"""Heads without a first block (docs/first-block.md): the proofs, step by step, and the network that is built."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker import heads as lemma
from monolayer.checker.stored import read_model
from monolayer.checker.uniform import Net
from monolayer.cli import run
from monolayer.construct.uniform import HEADS_ERROR
from monolayer.errors import DataError
from monolayer.model.heads import OtherTokens, PowerSums, RankOneHeads
from monolayer.theory import heads as theory
from monolayer.theory.balls import precision
from monolayer.theory.boltzmann import boltzmann_ball
from monolayer.theory.heads import (
    BOXES,
    GAINS,
    HEAD_TEMPERATURES,
    MOST_SUMS,
    PieceCounts,
    Slopes,
    contraction,
    head_slopes,
    least_slope,
)
from monolayer.theory.targets import TARGETS
from tests.stored_models import resealed

seeds = st.integers(0, 2**32 - 1)

# -- proof 1: cumulants, in exact arithmetic -------------------------------------------------------------

Polynomial = dict[tuple[int, ...], Fraction]
"""By the exponents of x, e_1, …, e_{n−1}, the coefficients that are not 0."""


def variable(index: int, count: int) -> Polynomial:
    return {tuple(int(i == index) for i in range(count)): Fraction(1)}


def plus(*terms: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for power, coefficient in itertools.chain(*(term.items() for term in terms)):
        found[power] = found.get(power, Fraction(0)) + coefficient
    return {power: coefficient for power, coefficient in found.items() if coefficient}


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    products = [{tuple(map(sum, zip(p, q, strict=True))): s * t} for p, s in a.items() for q, t in b.items()]
    return plus(*products)


def scaled(factor: Fraction | int, a: Polynomial) -> Polynomial:
    return {power: factor * coefficient for power, coefficient in a.items()}


def cumulants(n: int) -> list[Polynomial]:
    """`κ_1, …, κ_{n−1}` of the own token and the others, as polynomials in x and the e_j of the others."""
    x, *e = (variable(index, n) for index in range(n))
    own = x
    sums: list[Polynomial] = []
    moments: list[Polynomial] = []
    found: list[Polynomial] = []
    for j in range(1, n):
        newton = [scaled((-1) ** (i - 1), times(e[i - 1], sums[j - i - 1])) for i in range(1, j)]
        sums.append(plus(*newton, scaled((-1) ** (j - 1) * j, e[j - 1])))
        moments.append(scaled(Fraction(1, n), plus(own, sums[-1])))
        own = times(own, x)
        lower = [scaled(-math.comb(j - 1, i - 1), times(found[i - 1], moments[j - i - 1])) for i in range(1, j)]
        found.append(plus(moments[-1], *lower))
    return found


def at(polynomial: Polynomial, values: list[Fraction]) -> Fraction:
    terms = (
        coefficient * math.prod(value**k for value, k in zip(values, power, strict=True))
        for power, coefficient in polynomial.items()
    )
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("n", range(2, 7))
def test_cumulants_are_a_triangular_map_of_the_symmetric_functions_with_this_diagonal(n: int) -> None:
    random = np.random.default_rng(n)
    values = [Fraction(int(a), int(b)) for a, b in random.integers(1, 9, (n, 2))]
    found, solved = cumulants(n), [values[0]]
    for j, kappa in enumerate(found, 1):
        assert all(not any(power[j + 1 :]) for power in kappa), "no e_i with i > j"
        with_own = {power: coefficient for power, coefficient in kappa.items() if power[j]}
        assert with_own == {tuple(int(i == j) for i in range(n)): Fraction((-1) ** (j - 1) * j, n)}
        # The inverse, one line after the other.
        rest = at({power: c for power, c in kappa.items() if not power[j]}, [*solved, *[Fraction(0)] * (n - j)])
        solved.append((at(kappa, values) - rest) / with_own[tuple(int(i == j) for i in range(n))])
    assert solved == values


@pytest.mark.parametrize("n", [3, 4, 5])
def test_divided_differences_of_close_heads_are_the_cumulants(n: int) -> None:
    """Off by O(ε): a step half as long halves the distance, in balls."""
    tokens = [Fraction(int(k), 16) for k in np.random.default_rng(n).integers(0, 17, n)]
    x, *others = tokens
    e = [
        sum((Fraction(math.prod(some)) for some in itertools.combinations(others, j)), Fraction(0)) for j in range(1, n)
    ]
    exact = [at(kappa, [x, *e]) / math.factorial(j) for j, kappa in enumerate(cumulants(n))]
    with precision(600):
        distance = []
        for step in (arb(2) ** -30, arb(2) ** -31):
            heads = [boltzmann_ball(h * step, [arb(t.numerator) / t.denominator for t in tokens]) for h in range(n - 1)]
            divided = []
            for order in range(n - 1):
                divided.append(heads[0])
                heads = [(b - a) / ((order + 1) * step) for a, b in itertools.pairwise(heads)]
            wanted = [arb(value.numerator) / value.denominator for value in exact]
            distance.append([abs(d - w) for d, w in zip(divided, wanted, strict=True)])
        for far, near in zip(*distance, strict=True):
            assert far < arb(2) ** -26
            assert near < 0.51 * far + arb(2) ** -100


# -- temperatures that are not tiny, in balls ------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "boxes", "least"), [(3, PieceCounts(16, 8, 1), 0.119), (4, PieceCounts(16, 4, 4), 0.084)]
)
def test_the_heads_are_injective_over_the_whole_domain(length: int, boxes: PieceCounts, least: float) -> None:
    assert least_slope(length, boxes) > least


def test_large_temperatures_fold_and_the_bound_says_so() -> None:
    """For one own token the slope at 4 changes its sign, in balls, so two multisets share what both heads show.

    The own token is 1, and the others have the mean 0.4: both are there, or 0.4 ± 0.3.
    """
    slopes = [head_slopes(4.0, 1 - arb("0.4"), arb(q), arb(0), 2).by_q for q in ("0", "0.18")]
    assert slopes[0] < 0 < slopes[1]
    assert least_slope(3, PieceCounts(16, 8, 1), high=4.0) < 0


@given(seeds, st.sampled_from([3, 4]))
@settings(max_examples=10, deadline=None)
def test_slopes_are_those_of_the_heads_and_the_domain_holds_every_sequence(seed: int, n: int) -> None:
    """Against the Boltzmann operator of the tokens themselves, and its differences along a change of one token."""
    tokens = np.random.default_rng(seed).random(n)
    with precision(300):
        x, *others = (arb(float(t)) for t in tokens)
        moved = [others[0] + arb(2) ** -80, *others[1:]]

        def sums(y: list[Any]) -> tuple[Any, Any, Any]:
            """The own token, `q` and `r`, when the others have the mean 0."""
            mean = sum(y, arb(0)) / len(y)
            return (
                x - mean,
                sum(((each - mean) ** 2 for each in y), arb(0)),
                sum(((each - mean) ** 3 for each in y), arb(0)),
            )

        own, q, r = sums(others)
        most = {3: (0.5, 0.0), 4: (2 / 3, 2 / 9)}[n]
        assert -1 <= float(own) <= 1
        assert 0 <= float(q) <= most[0] + 1e-12
        assert n == 3 or abs(float(r)) <= most[1] + 1e-12
        for lam in HEAD_TEMPERATURES[n]:
            found = head_slopes(lam, own, q, r if n == 4 else arb(0), n - 1)
            shift = sum(others, arb(0)) / (n - 1)
            assert (found.value + shift).overlaps(boltzmann_ball(arb(lam), [x, *others]))
            own_2, q_2, r_2 = sums(moved)
            shift_2 = sum(moved, arb(0)) / (n - 1)
            rise = boltzmann_ball(arb(lam), [x, *moved]) - shift_2 - (boltzmann_ball(arb(lam), [x, *others]) - shift)
            # The own token moves as well, by the mean; that part is the partial derivative by x.
            weight = (arb(lam) * own).exp() / sum(((arb(lam) * (t - shift)).exp() for t in [x, *others]), arb(0))
            by_x = weight * (1 + arb(lam) * (own - found.value))
            predicted = by_x * (own_2 - own) + found.by_q * (q_2 - q) + (found.by_r * (r_2 - r) if n == 4 else 0)
            assert abs(rise - predicted) < arb(2) ** -120


@pytest.mark.parametrize("n", [3, 4])
def test_the_pieces_of_the_proofs_hold_every_sequence(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random sequences, and all of which every token is at an end: a domain that is too small would prove too much."""
    asked: list[tuple[Any, Any, Any]] = []

    def recorded(lam: float, x: Any, q: Any, r: Any, others: int) -> Slopes:
        asked.append((x, q, r))
        return Slopes(arb(0), arb(0), arb(0))

    monkeypatch.setattr(theory, "head_slopes", recorded)
    least_slope(n, PieceCounts(*BOXES[n]))
    ends = np.array([[(float(piece.lower()), float(piece.upper())) for piece in pieces] for pieces in asked])
    tokens = np.array([*itertools.product((0.0, 1.0), repeat=n), *np.random.default_rng(n).random((200, n))])
    centred = tokens - tokens[:, 1:].mean(axis=1, keepdims=True)
    q, r = ((centred[:, 1:] ** k).sum(axis=1) for k in (2, 3))
    points = np.stack([centred[:, 0], q, r if n == 4 else 0.0 * r], axis=1)[:, None]
    inside = (ends[None, ..., 0] <= points + 1e-12) & (points - 1e-12 <= ends[None, ..., 1])
    assert inside.all(axis=2).any(axis=1).all()


# -- proof 2: directions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "dim", "side"), [(3, 2, 4), (4, 2, 3), (3, 3, 2)])
def test_enough_directions_tell_all_multisets_of_a_grid_apart_and_fewer_than_d_do_not(
    n: int, dim: int, side: int
) -> None:
    count = (n - 1) * (dim - 1) + 1
    points = list(itertools.product(range(side), repeat=dim))
    multisets = list(itertools.combinations_with_replacement(points, n - 1))

    def seen(multiset: Any, directions: list[tuple[int, ...]]) -> tuple[Any, ...]:
        return tuple(tuple(sorted(sum(map(math.prod, zip(v, y, strict=True))) for y in multiset)) for v in directions)

    directions = [tuple(t**i for i in range(dim)) for t in range(count)]
    assert all(
        abs(np.linalg.det(np.array(some, dtype=float))) > 0.5 for some in itertools.combinations(directions, dim)
    )
    assert len({seen(multiset, directions) for multiset in multisets}) == len(multisets)
    assert len({seen(multiset, directions[: dim - 1]) for multiset in multisets}) < len(multisets)


def test_one_direction_less_may_confuse_two_multisets() -> None:
    """Two of the four corners of a rhombus, in the two directions of its sides: N − 1 = 2 for n = 3, d = 2."""
    Y, other = ((0, 0), (1, 1)), ((1, 0), (0, 1))
    for v in ((1, 0), (0, 1)):
        assert sorted(np.dot(v, y) for y in Y) == sorted(np.dot(v, y) for y in other)
    assert sorted(np.dot((1, 1), y) for y in Y) != sorted(np.dot((1, 1), y) for y in other)


# -- proof 3: levels of one head -------------------------------------------------------------------------


@given(seeds, st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_along_the_direction_of_the_proof_a_head_of_any_rank_sees_one_number(seed: int, dim: int) -> None:
    random = np.random.default_rng(seed)
    x, y, z = random.random((3, dim))
    score = random.normal(size=(dim, dim + 1)) @ np.append(x, 1.0)  # the gradient of the scores, for the query x
    u = score / np.linalg.norm(score)
    i = int(np.argmin(np.abs(u[:2])))
    e = np.eye(dim)[i] - u[i] * u
    e /= np.linalg.norm(e)
    assert e[i] >= 1 / math.sqrt(2) - 1e-12
    assert abs(e @ score) < 1e-9
    assert np.abs(e).sum() <= math.sqrt(dim) + 1e-12

    def head(eta: float, zeta: float) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.stack([x, y + eta * e, z + zeta * e])
        weights = np.exp(tokens @ score)
        weights /= weights.sum()
        return weights, weights @ tokens

    weights, shown = head(0.0, 0.0)
    delta = random.normal()
    share = weights[1] / (weights[1] + weights[2])
    along, still = head((1 - share) * delta, -share * delta)
    assert np.abs(along - weights).max() < 1e-9
    assert np.abs(still - shown).max() < 1e-9
    _, moved = head(1.0, 0.0)
    assert np.abs(moved - shown).max() > 1e-9 * weights[1]


def test_what_one_head_leaves_in_the_plane_is_not_below_the_bound() -> None:
    """Sampled level by level, for scores of every direction. By both differences themselves nothing is left."""
    K, dim, random = 30, 2, np.random.default_rng(0)
    bound = 0.5 - 6 * math.sqrt(2) / math.pi * math.sqrt(dim) / K
    y, z = random.random((2, 60_000, dim))
    f = np.cos(2 * math.pi * K * (y - z)).sum(axis=1)

    def left(order: np.ndarray) -> float:
        return float(np.square(np.diff(f[order])).mean() / 2)

    for angle in np.linspace(0.0, math.pi, 5).tolist():
        for size in (0.0, 2.0, 20.0):
            u = np.array([math.cos(angle), math.sin(angle)])
            weights = np.exp(size * np.stack([y @ u, z @ u, np.full(len(y), 0.5)]))
            weights /= weights.sum(axis=0)
            shown = weights[0][:, None] * y + weights[1][:, None] * z
            # What is shown, two numbers, in the order of a fine grid: neighbours share both, up to a cell.
            cell = np.floor(shown * 150).astype(int)
            assert left(np.lexsort((shown[:, 1], cell[:, 0]))) > bound
    phase = np.floor((K * (y - z) % 1.0) * 30).astype(int)
    assert left(np.lexsort((K * (y - z)[:, 1] % 1.0, phase[:, 0]))) < 0.1 * bound


# -- the network -----------------------------------------------------------------------------------------


def hard_sequences(count: int, n: int) -> np.ndarray:
    """Scalar tokens in [0, 1] `(count, n, 1)`: random, equal, nearly equal, and on coarse grids."""
    random = np.random.default_rng(n)
    X = random.random((count, n, 1))
    part = count // 5
    X[:part, 1] = X[:part, 0]
    X[part : 2 * part] = X[part : 2 * part, :1] + 1e-5 * random.normal(size=(part, n, 1))
    X[2 * part : 3 * part] = np.round(4 * X[2 * part : 3 * part]) / 4
    return X.clip(0.0, 1.0)


def others_of(X: np.ndarray) -> np.ndarray:
    """The other tokens of every token, in rising order `(count, n, n − 1)`."""
    n = X.shape[1]
    return np.stack([np.sort(np.delete(X[..., 0], k, axis=1), axis=1) for k in range(n)], axis=1)


@pytest.mark.parametrize(("n", "cells"), [(2, 8), (3, 8), (4, 4)])
def test_the_network_is_proved_keeps_its_bound_and_survives_its_file(n: int, cells: int, tmp_path: Path) -> None:
    f = TARGETS["sort"].function
    options: Any = {"cells": cells, "norm": "sup", "first_block": False, "domain": (-1.0, 2.0), "lipschitz": 1.0}
    model = ml.approximate(f, 1, n, **options)
    assert model.error == pytest.approx(3.0 / cells + 3.0 * HEADS_ERROR[n], 1e-12)
    loaded = ml.load(model.save(tmp_path / "m"))
    X = 3.0 * hard_sequences(500, n) - 1.0
    found = loaded.predict(X)
    assert np.abs(found - np.asarray(f(X)).reshape(found.shape)).max() <= model.error
    dense = model(torch.from_numpy(X[:50])).detach().numpy()
    # Equal and nearly equal tokens magnify rounding: see Lemma H.
    assert np.abs(dense.reshape(found[:50].shape) - found[:50]).max() <= 6.0 * HEADS_ERROR[n] + 1e-12
    proof = ml.certify(tmp_path / "m", f)
    assert proof.verdict == "proved", proof.reason
    assert ("Lemmas U and H" in proof.reason) == (n > 2)
    assert (lemma.HEAD_ASSUMPTION in proof.assumptions) == (n > 2)
    found_within = lemma.others_error(n).tokens if n > 2 else 0.0
    reach = Net(read_model(tmp_path / "m")).reach()
    assert 3.0 / cells + 3.0 * found_within < reach < 3.0 / cells + 3.0 * found_within + 1e-12
    assert "no first block" in repr(loaded)


@pytest.mark.parametrize("n", [3, 4])
def test_every_head_has_rank_one_and_all_of_them_find_the_other_tokens(n: int) -> None:
    heads, others, X = RankOneHeads.at(HEAD_TEMPERATURES[n]), OtherTokens(n), torch.from_numpy(hard_sequences(2_000, n))
    for matrices in heads.parameters():
        assert all(np.linalg.matrix_rank(matrix) <= 1 for matrix in matrices.detach().numpy())
    with torch.no_grad():
        stream = torch.cat([torch.ones_like(X), X, torch.zeros(len(X), n, n - 1, dtype=torch.float64)], dim=-1)
        shown = heads(stream)[..., 2:]
        found = others(X, shown)
        shifted = others(X, shown + 1e-3 * torch.arange(n - 1))  # other heads, other tokens
    error = np.abs(found.numpy() - others_of(X.numpy())).max()
    assert error < lemma.others_error(n).tokens <= HEADS_ERROR[n]
    assert np.abs(shifted.numpy() - others_of(X.numpy())).max() > HEADS_ERROR[n]


@pytest.mark.parametrize("n", [3, 4])
def test_the_short_series_of_the_readout_shows_what_the_heads_do(n: int) -> None:
    """At the corners of the domain, where its terms are largest, against balls: item 3 of Lemma H."""
    others = OtherTokens(n)
    lam, (most_q, most_r) = HEAD_TEMPERATURES[n][-1], MOST_SUMS[n]
    for x, q, r in itertools.product((-1.0, 1.0), (0.0, most_q), (-most_r, most_r)):
        own = torch.tensor([x], dtype=torch.float64)
        with torch.no_grad():
            shown = others._shown(own, (-lam * own).exp(), (lam * own).exp(), PowerSums(0.0 * own + q, 0.0 * own + r))
        high, low = (head_slopes(at, arb(x), arb(q), arb(r), n - 1).value for at in (lam, -lam))
        wanted = [high] if n == 3 else [(high - low) / 2, high + low]
        for value, exact in zip(shown, wanted, strict=False):
            assert abs(float(value) - float(exact)) <= 2 * lemma.ROUNDED_HEAD * lemma.HEAD_UNIT


@pytest.mark.parametrize(("n", "rate"), [(3, 0.285), (4, 0.39)])
def test_the_iteration_contracts_as_proved_and_other_gains_do_not(
    n: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert contraction(n) < rate
    monkeypatch.setitem(GAINS, n, tuple(2.5 * gain for gain in GAINS[n]))
    assert contraction(n) > 1.0
    with pytest.raises(lemma.UnhandledError, match="not shown to come closer"):
        lemma.others_error(n)
    for stuck in (1.0, 1.5):
        monkeypatch.setattr(lemma, "contraction", lambda length, stuck=stuck: stuck)
        with pytest.raises(lemma.UnhandledError, match="not shown to come closer"):
            lemma.others_error(n)
    monkeypatch.setattr(lemma, "contraction", lambda length: 0.75)
    assert lemma.others_error(n).sums > 0.0


@pytest.mark.parametrize("n", [3, 4])
def test_lemma_h_holds_in_single_precision_with_its_unit(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, heads, steps and roots in float32, against the tokens: errors are large, and below the bounds."""
    X = hard_sequences(5_000, n).astype(np.float32)
    monkeypatch.setattr(lemma, "HEAD_UNIT", 2.0**-24)
    bound = lemma.others_error(n)
    others = OtherTokens(n).float()
    sums: list[PowerSums] = []
    roots = others._roots

    def recorded(found: PowerSums) -> torch.Tensor:
        sums.append(found)
        return roots(found)

    monkeypatch.setattr(others, "_roots", recorded)
    with torch.no_grad():
        x = torch.from_numpy(X)
        weights = (others.temperatures * x).softmax(dim=1)
        shown = (weights * x).sum(dim=1, keepdim=True).expand(-1, n, -1)
        found = others(x, shown).numpy()
    wanted = others_of(X.astype(np.float64))
    centred = wanted - wanted.mean(axis=-1, keepdims=True)
    off = [np.abs(each.numpy()[..., 0] - (centred**k).sum(axis=-1)) for each, k in zip(sums[0], (2, 3), strict=True)]
    if n == 3:
        off[1] = np.zeros(1)  # r, which three tokens do not need
    assert bound.sums / 1000 < max(off[0].max(), off[1].max() / 2) <= bound.sums
    assert np.abs(found - wanted).max() <= bound.tokens


OWN_GAINS = {3: (Fraction(6), Fraction(0), Fraction(0)), 4: (Fraction(35, 8), Fraction(3, 4), Fraction(3))}
OTHER_GAINS = [tuple(map(Fraction, gains)) for gains in ((5, 2, 3), (5, 1, 7))]


@pytest.mark.parametrize(("n", "gains"), [*OWN_GAINS.items(), *((n, gains) for n in (3, 4) for gains in OTHER_GAINS)])
def test_the_bound_is_that_of_lemma_h(
    n: int, gains: tuple[Fraction, Fraction, Fraction], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of docs/uniform.md, in exact arithmetic but for roots. Of four tokens our gains make both terms of
    the largest one equal, so the formula is also held against gains for which the first, or the second, is larger."""
    own = gains == OWN_GAINS[n]
    rate, g, lam = Fraction(contraction(n)) if own else Fraction(3, 8), 4, {3: Fraction(1, 2), 4: Fraction(1)}[n]
    gain, a, b = gains
    if not own:
        monkeypatch.setitem(GAINS, n, tuple(map(float, gains)))
        monkeypatch.setattr(lemma, "contraction", lambda length: float(rate))

    def head(size: Fraction) -> Fraction:
        return 26 * size + 4 * g + 2 * n + 12

    mean = (n * head(Fraction(0)) + 5 + 2 * n) / (n - 1) + 2
    s = head(lam) + mean + 2 * (mean + 6) + 132
    step = gain * s if n == 3 else max(gain * s + 2 * a * s, (b * s + 2 * gain * s) / 2)
    u = Fraction(1, 2**53)
    delta = rate**32 / 3 + u * (step + 64) / (1 - rate) + 2 * u
    found, room = lemma.others_error(n), 1 + 2.0**-10
    assert found.sums == pytest.approx(float(delta) * room, rel=1e-12, abs=0.0)
    roots = math.sqrt(found.sums / 2) if n == 3 else 5 * (1.2 * found.sums) ** (1 / 3) + 2.0**-25
    assert found.tokens == pytest.approx(room * (roots + float((mean + 4) * u)), rel=1e-12, abs=0.0)
    assert found.sums < 4.4e-13 or not own
    assert lemma._head_error(-0.75, n) == lemma._head_error(0.75, n) == float(head(Fraction(3, 4)) * u)


FAULTS: dict[str, tuple[str, tuple[int, ...], str, str]] = {
    "a knot": ("interpolation.values", (7, 0), "refuted", "1 of 125 knots"),
    "a temperature": ("others.temperatures", (1,), "undecided", "others.temperatures is not"),
    "a gain": ("others.gain", (0,), "undecided", "others.gain is not"),
    "a query": ("attention.W_Q", (1, 1, 0), "undecided", "attention.W_Q is not"),
    "a key": ("attention.W_K", (0, 0, 1), "undecided", "attention.W_K is not"),
    "an output": ("attention.W_O", (1, 2, 1), "undecided", "attention.W_O is not"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_the_lemma_is_not_about_are_not_proved(fault: str, tmp_path: Path) -> None:
    f = TARGETS["max"].function
    folder = ml.approximate(f, 1, 3, cells=4, norm="sup", first_block=False).save(tmp_path / "m")
    assert ml.certify(folder, f).verdict == "proved"
    name, at_, verdict, why = FAULTS[fault]
    tensor = ml.load(folder).state_dict()[name].numpy().copy()
    tensor[at_] += 0.25
    proof = ml.certify(resealed(folder, {name: tensor}), f)
    assert proof.verdict == verdict
    assert why in proof.reason


@pytest.mark.parametrize(("options", "words"), [
    ({"length": 5}, "without a first block; not for .1, 5."),
    ({"dim": 2}, "without a first block; not for .2, 3."),
    ({"positions": True}, "positions are written by the first block"),
    ({"norm": "mean"}, "first_block=False needs norm=.sup."),
])  # fmt: skip
def test_what_is_not_built_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        ml.approximate(TARGETS["max"].function, **{"dim": 1, "length": 3, "cells": 4, "norm": "sup", **options},
                       first_block=False)  # fmt: skip


def test_the_command_builds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "m")
    command = ["approximate", "max", "--length", "4", "--cells", "2", "--norm", "sup", "--no-first-block", "--out", out]
    assert run(command) == 0
    assert "in 3 heads" in capsys.readouterr().out
    assert run(["verify", out, "max"]) == 0
    assert run(["inspect", out]) == 0
