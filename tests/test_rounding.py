"""The lemmas of docs/proofs.md against exact and ball arithmetic, adversarial rounding, and shuffled sums."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from monolayer.checker.codes import Column, Reads, _at, read_attention, read_stream, read_sums
from monolayer.checker.readout import checked_staircase, head_classes, sums_are_exact, thresholds
from monolayer.checker.rounding import (
    BINARY32,
    BINARY64,
    EXP_ULPS,
    Attention,
    BinaryFormat,
    UnhandledError,
    code_error,
    context_error,
    lift_error,
)
from monolayer.checker.stock.neurons import RESTS, SLEEPING
from monolayer.checker.stored import Stored, read_model
from monolayer.data import Sequences
from tests.evil import Evil, evaluate
from tests.stored_models import LABEL, Case, random_case, true_codes

NUMBERS: dict[str, tuple[float, str]] = {
    "EXP_ULPS": (4, "rounding"), "PADDING": (1 + 2.0**-20, "rounding"), "EPSILON": (2.0**-20, "gates"),
    "LARGEST_GATE_WEIGHT": (2.0**20, "gates"), "WIDEST_SUM": (2**14, "gates"), "STREAM": (2.0**40, "gates"),
    "AWAKE": (-0.5, "gates"),
    "ROBUST_UNDERFLOW": (2.0**-60, "noise"), "LARGEST_SCORE": (32.0, "noise"), "MOST_NOISE": (0.25, "robust"),
    "EVERY": (2**20, "cells"), "ROUNDING": (2.0**-20, "cells"), "OTHER_TOKENS_ERROR": (2.0**-13, "uniform"),
    "ROOM": (2.0**-20, "uniform"), "U": (2.0**-53, "uniform"),
    "SECOND_ORDER": (1 + 2.0**-10, "uniform"), "LARGEST_KNOT": (2.0**1000, "uniform"),
    "UNIFORM_UNDERFLOW": (2.0**-1000, "uniform"), "MEAN": (2.0, "stock.bounds"), "VARIANCE": (8.0, "stock.bounds"),
    "SOFTMAX_BLOCK": (16, "stock.bounds"), "SMALL_ERROR": (2.0**-22, "stock.bounds"),
    "STOCK_UNDERFLOW": (2.0**-600, "stock.bounds"),
    "SHORT_EXP_ULPS": (32, "stock.enclosed"), "TURN_ULPS": (16, "stock.enclosed"),
    "SIZE": (2.0**40, "stock.enclosed"), "FLUSHED_32": (2.0**-60, "stock.enclosed"),
    "SMALL_COMMON": (2.0**-6, "stock.enclosed"),
    "MORE": (1.06, "stock.enclosed"), "LARGEST_ENCLOSED_SCORE": (32.0, "stock.enclosed"),
    "LARGEST_STORED": (2.0**20, "stock.evaluate"), "LEAST_EPSILON": (2.0**-40, "stock.evaluate"),
    "DONE": (6.0, "stock.readout"), "BENT": (1.001, "stock.readout"), "HUGE": (2.0**400, "stock.readout"),
    "FAINT": (2.0**-36, "stock.readout"), "TANH_ERROR": (2.0**-20, "stock.head"),
}  # fmt: skip
"""What the proofs say in numbers, by name and module."""


def test_the_numbers_are_those_of_the_proofs() -> None:
    for name, (value, module) in NUMBERS.items():
        assert getattr(import_module(f"monolayer.checker.{module}"), name) == value, (module, name)
    for fmt, dtype, *sizes in (
        (BINARY64, np.float64, 64.0, 2.0**-400, 2.0**128, 2**31),
        (BINARY32, np.float32, 16.0, 2.0**-100, 2.0**30, 2**20),
    ):
        assert (fmt.unit, fmt.tiny) == (np.finfo(dtype).eps / 2, np.finfo(dtype).tiny)
        assert (fmt.largest_score, fmt.smallest, fmt.largest, fmt.longest) == tuple(sizes)
    assert (RESTS, SLEEPING) == ({"relu6": 0.0, "silu": -24.0}, {"relu6": 0.0, "silu": 1e-9})


def test_a_product_of_too_many_roundings_is_not_judged() -> None:
    """Lemma 1; beyond `k u = 1/8` the proofs do not go."""
    few, many = 2.0**-3 / TOY.unit, np.nextafter(2.0**-3 / TOY.unit, np.inf)
    assert TOY.gamma(few) == 1 / 7
    assert TOY.gamma(np.array([0.0, few]))[1] == 1 / 7
    for k in (many, np.array([1.0, many])):
        with pytest.raises(UnhandledError, match="roundings in a row"):
            TOY.gamma(k)


def points(case: Case, folder: Path) -> tuple[Any, Sequences, Reads, Any]:
    """What the checker reads: the file, the data, what the readout reads, and its own evaluation at every place."""
    stored, data = read_model(case.saved.write(folder)), Sequences.of(case.X)
    key, code = read_stream(stored, data, data.tokens if stored.vocabulary is not None else None)
    reads = Reads(read_attention(stored)[0], key, key, code)
    return stored, data, reads, read_sums(stored, data, reads, None).codes()


def answering(case: Case, values: list[list[Any]]) -> list[Any]:
    """The values at the places where the model answers, flat."""
    return [v for row in values for v in (row[1:] if case.saved.config["per"] == "token" else row[:1])]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_evaluation_leaves_the_bound(dtype: str, tmp_path: Path) -> None:
    """Thousands of points: ours, and evaluations with sums in random order, against the true `z`."""
    worst_own = worst_other = 0.0
    checked = 0
    for seed in range(24):
        case = random_case(seed, dtype=dtype)
        codes = points(case, tmp_path / str(seed))[3]
        true = answering(case, true_codes(case.saved, case.X))
        rng = np.random.default_rng(seed)
        others = [
            answering(case, [evaluate(case.saved, x, Evil.draw(rng))[0].tolist() for x in case.X]) for _ in range(4)
        ]
        for i, z in enumerate(true):
            own = float(abs(arb(float(codes.z[i])) - z).upper()) / codes.own[i]
            other = max(float(abs(arb(float(found[i])) - z).upper()) for found in others) / codes.other[i]
            worst_own, worst_other = max(worst_own, own), max(worst_other, other)
            checked += 5
    assert checked > 900
    assert max(worst_own, worst_other) <= 1.0
    assert worst_other > 1 / 20, "a bound twenty times too wide says little"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_error_of_a_point_is_put_together_of_those_of_its_parts(dtype: str, tmp_path: Path) -> None:
    """Lemmas 3 to 5, point by point; values that are not the keys are averaged too."""
    for seed in range(8):
        case = random_case(seed, dtype=dtype)
        stored, data, reads, _ = points(case, tmp_path / str(seed))
        per_token, causal = case.saved.config["per"] == "token", case.saved.config["causal"]
        value = replace(
            reads.key, column=Column(reads.key.flat * 3), largest=3 * reads.key.largest, size=3 * reads.key.size
        )
        for averaged in (reads.key, value):
            codes = read_sums(stored, data, reads._replace(averaged=averaged), None).codes()
            number = 0
            for x in case.X:
                for place in range(len(x)) if per_token else [0]:
                    n = place + 2 if causal else len(x) + 1
                    for fmt, said in ((BINARY64, codes.own), (stored.format, codes.other)):
                        ds, dv, dt = (
                            lift_error(part.size, part.terms, fmt) for part in (reads.key, averaged, reads.code)
                        )
                        values = averaged.largest + 2 * dv, dv
                        before = context_error(float(n), reads.head, reads.key.largest + 2 * ds, ds, fmt, values)
                        before += dt if per_token else 0.0
                        wanted = code_error(codes.z[number : number + 1], before, fmt)[0]
                        assert said[number] == pytest.approx(wanted, rel=1e-12, abs=0.0)
                    number += 1


def test_a_coordinate_of_vectors_knows_how_large_its_terms_are(tmp_path: Path) -> None:
    case = random_case(3, tokens="vectors", positions=True)
    t = case.saved.tensors
    t["lift.bias"][[1, 2]] = -4.0, -5.0
    t["positions.weight"][:, [1, 2]] -= 1.5
    for key, code in ((-20.0, 60.0), (0.0, 0.0)):
        t["bos"][[1, 2]] = key, code
        reads = points(case, tmp_path / f"{key}")[2]
        for slot, found in ((1, reads.key), (2, reads.code)):
            sums, sizes = [], []
            for x in case.X:
                for place, token in enumerate(x):
                    terms = [
                        *(t["lift.weight"][slot] * token),
                        t["lift.bias"][slot],
                        t["positions.weight"][place, slot],
                    ]
                    sums.append(sum(terms))
                    sizes.append(np.abs(terms).sum())
            assert found.flat == pytest.approx(np.array(sums))
            assert (found.size, found.terms) == (pytest.approx(max(sizes), rel=1e-15), 5)
            assert (found.bos, found.largest) == (
                t["bos"][slot],
                pytest.approx(max(*np.abs(sums), abs(t["bos"][slot]))),
            )
    # Of tokens that are 0 the flushed part is left: every coordinate may be up to τ away from what it is.
    case.saved.tensors["lift.bias"][[1, 2]] = 0.0
    plain = replace(case, X=[[[0.0] * 3] * 2], saved=case.saved.changed(positions__weight=0 * t["positions.weight"]))
    size = np.abs(t["lift.weight"][1]).sum() * BINARY64.tiny / BINARY64.unit
    assert points(plain, tmp_path / "plain")[2].key.size == pytest.approx(size, rel=1e-12, abs=0.0)


def test_a_coordinate_of_ids_knows_the_whole_table(tmp_path: Path) -> None:
    """The largest and the least sum of any row and any place, though no token has them."""
    for sign in (1.0, -1.0):
        case = random_case(3, tokens="ids", positions=True, vocabulary=8)
        lift, place = case.saved.tensors["lift.weight"], case.saved.tensors["positions.weight"]
        lift[:, 1:3] = np.where(np.isnan(lift[:, 1:3]), np.nan, 0.0)
        lift[np.isnan(lift).any(axis=1)] = 0.0
        lift[7, 1], place[0, 1], place[:, 2], lift[7, 2], lift[:, 0] = sign * 3, sign * 2, 0.0, sign * 5, 1.0
        reads = points(case, tmp_path / f"{sign}")[2]
        place_end = abs(place[:, 1].max() if sign > 0 else place[:, 1].min())
        assert (reads.key.largest, reads.code.largest) == (3 + place_end, 5.0)


@pytest.mark.parametrize("table", [np.arange(3.0), np.arange(6.0).reshape(3, 2)])
def test_rows_beyond_a_table_are_no_numbers(table: Any) -> None:
    for rows in ([0, 2, 1], [0, -1, 2], [3, 1], [1, 9, -1, 2, 0], [-1], []):
        wanted = [table[row].tolist() if 0 <= row < 3 else (np.nan * table[0]).tolist() for row in rows]
        found = _at(table, np.array(rows, dtype=np.int64))
        assert found.shape == (len(rows), *table.shape[1:])
        assert np.array_equal(found, np.array(wanted).reshape(found.shape), equal_nan=True)


def lemma_4(n: float, head: Attention, S: float, ds: float, fmt: BinaryFormat) -> float:
    """The bound where keys themselves are averaged."""
    return float(context_error(np.array([float(n)]), head, S, ds, fmt, (S, ds))[0])


TOY = BinaryFormat("toy", 2.0**-10, 2.0**-1022, 64.0, 2.0**-400, 2.0**128, 2**31)
"""So coarse that terms of second order count, so that binary64 can play every operation exactly enough."""


@given(
    keys=st.lists(st.floats(-1, 1), min_size=1, max_size=12),
    head=st.tuples(*[st.sampled_from([0.5, 1.0, -1.5, 2.0])] * 4),
    shifted=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_adversarial_rounding_stays_within_lemma_4(keys: list[float], head: tuple[float, ...], shifted: bool) -> None:
    worst, bound = adversarial(keys, Attention(*head), shifted)
    assert worst <= bound


def test_lemma_4_is_nearly_attained() -> None:
    worst, bound = adversarial([1.0] * 6, Attention(1.0, 1.0, 1.0, 1.0), True)
    assert 0.75 * bound < worst <= bound
    worst, bound = adversarial([-1.0] * 20, Attention(0.5, 1.0, 2.0, 1.0), True)
    assert 0.75 * bound < worst <= bound


def adversarial(keys: list[float], head: Attention, shifted: bool) -> tuple[float, float]:
    """What rounding can do to `y` when every operation errs by all of `u`, in the direction that hurts.

    Numerator and denominator compute their weights anew, so that errors need not agree.
    """
    u, s, n = TOY.unit, np.array(keys), len(keys)
    scale = head.q * head.k

    def weights(pull: Any) -> Any:
        """`e^{λ s − m}` with every rounding pulled the way of the signs `pull`."""
        top = np.max(scale * s) * (1 + u) ** 2 if shifted else 0.0
        score = scale * s * (1 + u * pull * np.sign(scale * s)) ** 2 - top
        # The same m must serve all terms: what it adds to one exponent it adds to all.
        score = score + u * pull * np.abs(score)
        return np.exp(score + top) * (1 + 2 * EXP_ULPS * u * pull)

    exact = np.exp(scale * s)
    c = float((exact * s).sum() / exact.sum())
    worst = 0.0
    for up in (1.0, -1.0):
        above = (weights(up * np.sign(s)) * s * (1 + up * np.sign(s) * u) ** (n + 4)).sum()
        toward = -up * np.sign(above)
        below = weights(toward * np.ones(n)).sum() * (1 + toward * u) ** (n - 1)
        worst = max(worst, abs(head.o * head.v) * abs(above / below - c))
    return worst, float(lemma_4(n, head, float(np.abs(s).max()), 0.0, TOY))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.floats(-3, 3), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_keys_known_to_within_ds_move_the_operator_by_at_most_that_times_1_plus_2R(
    keys: list[float], scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    s, ds = np.array(keys), 0.01
    moved = s + ds * rng.choice([-1, 1], size=len(s))

    def boltzmann(key: Any) -> float:
        weight = np.exp(scale * key)
        return float((weight * key).sum() / weight.sum())

    S = float(max(np.abs(s).max(), np.abs(moved).max()))
    bound = lemma_4(len(s), Attention(scale, 1.0, 1.0, 2.0), S, ds, BINARY64)
    assert 2.0 * abs(boltzmann(moved) - boltzmann(s)) <= bound
    assert bound <= 2.0 * (1 + 2 * abs(scale) * S) * ds * 1.001, "and by no more than this"


COARSE = BinaryFormat("coarse", 2.0**-12, 2.0**-14, 64.0, 2.0**-400, 2.0**128, 2**31)
"""Rounding and underflow count alike, so that every term of a bound does."""
SAID = 1.0 + 2.0**-21, 1.0 + 2.0**-16
"""A bound in floats is above that of its lemma, for its own rounding, and not by much."""


def follows(bound: float, lemma: Any) -> None:
    assert bool(arb(SAID[0]) * lemma <= arb(bound)), "less than the lemma says"
    assert bool(arb(bound) <= arb(SAID[1]) * lemma), "more than the lemma says"


def gamma(k: Any, fmt: BinaryFormat) -> Any:
    return k * arb(fmt.unit) / (1 - k * arb(fmt.unit))


@pytest.mark.parametrize(("size", "terms"), [(1.0, 0), (0.0, 5), (3.7, 1), (0.3, 40)])
def test_the_bound_of_lemma_3_is_the_one_that_is_proved(size: float, terms: int) -> None:
    follows(lift_error(size, terms, COARSE), gamma(terms, COARSE) * size + arb(4 * terms + 3) * COARSE.tiny)


@pytest.mark.parametrize(("n", "S", "ds", "T", "dt"), [
    (1.0, 1.0, 0.0, 1.0, 0.0), (5.0, 2.0, 0.01, 0.5, 0.0), (3.0, 0.25, 0.0, 4.0, 0.003), (40.0, 3.0, 0.02, 3.0, 0.02)
])  # fmt: skip
@pytest.mark.parametrize("head", [(1.0, 1.0, 1.0, 1.0), (-0.5, 1.5, 0.25, -3.0), (1.5, -0.25, -4.0, 0.5)])
def test_the_bound_of_lemma_4_is_the_one_that_is_proved(
    head: tuple[float, ...], n: float, S: float, ds: float, T: float, dt: float
) -> None:
    q, k, v, o = (arb(abs(number)) for number in head)
    fmt, R = COARSE, q * k * arb(S)
    x = 4 * R / (1 - 4 * arb(fmt.unit)) + 3 * (1 + q + k + S) * arb(fmt.tiny) / fmt.unit + 2 * EXP_ULPS
    A, B = gamma(n + 4 + x, fmt), gamma(n - 1 + x, fmt)
    underflow = 64 * arb(n) * (1 + o) * (1 + v) * (1 + max(S, T)) * (2 * R).exp() * fmt.tiny
    lemma = o * v * T * (A + B) / (1 - B) + o * v * (dt + 2 * q * k * T * arb(ds)) + underflow
    follows(float(context_error(np.array([n]), Attention(*head), S, ds, fmt, (T, dt))[0]), lemma)


@pytest.mark.parametrize(("z", "before"), [(0.0, 0.0), (-3.0, 0.0), (2.0, 1e-3), (0.0, 0.5)])
def test_the_bound_of_lemma_5_is_the_one_that_is_proved(z: float, before: float) -> None:
    u = arb(COARSE.unit)
    lemma = ((1 + u) * before + u * abs(z)) / (1 - u) + COARSE.tiny
    follows(float(code_error(np.array([z]), before, COARSE)[0]), lemma)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_and_counts_beyond_the_proof_are_not_judged(sign: float) -> None:
    one = Attention(1.0, 1.0, 1.0, 1.0)
    beyond: list[tuple[float, Attention, BinaryFormat, str]] = [
        (3, replace(one, q=sign * 65.0), BINARY64, "scores reach 65"),
        (2.0**22, one, replace(BINARY32, longest=2**30), "too many for binary32"),
        (3, replace(one, k=float("nan")), BINARY64, "scores reach nan"),
    ]
    for fmt in (BINARY64, BINARY32):  # beyond these, sums may overflow, and quotients be subnormal
        large, products = sign * 2.0 * fmt.largest, re.escape(f"their products {2.0 * fmt.largest:.3g},")
        beyond.append((fmt.longest + 1, one, fmt, f"up to {fmt.longest + 1:,} terms"))
        beyond += [
            (3, head, fmt, products)
            for head in (
                replace(one, o=large),
                replace(one, o=1 / large, v=large),
                replace(one, q=large, k=1 / large),
                replace(one, k=large, q=1 / large),
                replace(one, o=large / 2, v=2.0),
            )
        ]
        lemma_4(fmt.longest, replace(one, q=2.0**-20), 1.0, 0.0, replace(fmt, unit=2.0**-53))
    for n, head, fmt, words in beyond:
        with pytest.raises(UnhandledError, match=words):
            lemma_4(n, head, 1.0, 0.0, fmt)
    for fmt in (BINARY64, BINARY32):  # keys, values, and what is made of these
        L, little = fmt.largest, replace(one, q=1 / fmt.largest)
        for head, S, T in (
            (replace(little, v=1 / L, o=1 / L), 2 * L, 1.0),
            (replace(little, v=1 / L, o=1 / L), 1.0, 2 * L),
            (replace(little, v=sign * 4.0, o=0.25), 1.0, L / 2),
            (replace(little, v=0.5, o=sign * 4.0), 1.0, L),
        ):
            with pytest.raises(UnhandledError, match=re.escape(f"their products {2 * L:.3g},")):
                context_error(np.array([3.0]), head, S, 0.0, fmt, (T, 0.0))
    for fmt in (BINARY64, BINARY32):  # the longest of several sums
        for n in (np.array([3.0, fmt.longest + 1.0]), np.array([fmt.longest + 1.0, 3.0])):
            with pytest.raises(UnhandledError, match="terms"):
                context_error(n, replace(one, q=2.0**-20), 1.0, 0.0, fmt, (1.0, 0.0))
    # A value just below the smallest normal number becomes 0, and W_O makes that error 10^5 times larger.
    assert lemma_4(2, replace(one, o=1e5), BINARY64.tiny, 0.0, BINARY64) > 1e5 * BINARY64.tiny


@pytest.mark.parametrize("fmt", [BINARY64, BINARY32])
def test_every_size_of_lemma_4_has_a_limit_of_its_own(fmt: BinaryFormat) -> None:
    """In each row one number or product alone is beyond it."""
    L, q = fmt.largest, 2.0**-20
    alone: dict[str, tuple[float, ...]] = {
        "q": (2 * L, 0.25 / L, 1, 1, 1, 1), "k": (0.25 / L, 2 * L, 1, 1, 1, 1), "v": (q, 1, 2 * L, 0.25, 1, 0.25),
        "o": (q, 1, 0.25, 2 * L, 1, 1), "S": (0.25 / L, 1, 1, 1, 2 * L, 1), "T": (q, 1, 0.25, 1, 1, 2 * L),
        "o v": (q, 1, 4, L / 2, 1, 0.25), "v T": (q, 1, 4, 0.25, 1, L / 2), "o v T": (q, 1, 0.5, 4, 1, L),
    }  # fmt: skip
    for name, (q, k, v, o, S, T) in alone.items():
        sizes = {"q": q, "k": k, "v": v, "o": o, "S": S, "T": T, "o v": o * v, "v T": v * T, "o v T": o * v * T}
        assert [which for which, size in sizes.items() if size > L] == [name]
        for sign in (1.0, -1.0):
            head = Attention(sign * q, k, sign * v, o)
            with pytest.raises(UnhandledError, match="weights and their products"):
                context_error(3.0, head, S, 0.0, fmt, (T, 0.0))
            assert np.isfinite(context_error(3.0, head, S, 0.0, replace(fmt, largest=2 * L), (T, 0.0)))


def test_underflow_is_in_the_bound(tmp_path: Path) -> None:
    """Keys at the end of the format: products with them lose all their digits, and the bound knows."""
    case = random_case(3, tokens="ids", positions=False, causal=False, per="token", readout="exact")
    lift = case.saved.tensors["lift.weight"]
    lift[:, 1] *= 1e-308
    lift[:, 2] = 0.0
    case.saved.tensors["bos"][1] *= 1e-308
    case.saved.tensors["attention.W_O"] *= 1e-5
    codes = points(case, tmp_path / "m")[3]
    lost = False
    for i, z in enumerate(answering(case, true_codes(case.saved, case.X, bits=400))):
        error = abs(arb(float(codes.z[i])) - z)
        assert bool(error <= arb(float(codes.own[i])))
        assert codes.own[i] < 1e-300
        lost |= bool(error > arb(1e-12) * abs(z))
    assert lost, "this test must reach where relative bounds fail"


# -- the readout ---------------------------------------------------------------------------------------

SLOPES = st.floats(2.0**-30, 2.0**30) | st.integers(-30, 30).map(lambda k: 2.0**k)


def step(w: float, b: float, z: float, fused: bool) -> float:
    """`relu(1 − relu(w z + b))` with one rounding or two, to nearest."""
    exact = Fraction(w) * Fraction(z) + Fraction(b)
    inner = float(exact) if fused else w * z + b
    return max(0.0, 1.0 - max(0.0, inner))


def test_a_ramp_below_the_rounding_of_its_place_ends_in_front_of_the_float_at_which_a_search_passes_it() -> None:
    """`−b/w` and `(1 − b)/w` are one float: alone, and beside a step whose ramp is wide."""
    for w, b in ((np.array([1.0]), np.array([-(2.0**60)])), (np.array([1.0, 1.0]), np.array([-1.0, -(2.0**60)]))):
        low, high = thresholds(w, b)
        assert low[-1] == np.nextafter(2.0**60, 0.0)
        assert high[-1] >= 2.0**60
    assert (low[0], high[0]) == (1.0, 2.0)


@example(1.0, 3 * 2.0**-33 - 2.0**20, 0.0)  # 1 − b rounds down
@example(1.0, 1e-10, 0.0)  # here too, by less than b
@example(1.0 + 2.0**-52, -700001.0, 0.0)  # no power of two by its last bit alone: quotients round up
@example(1.0 + 2.0**-52, -999999.0, 0.0)  # and down
@given(SLOPES, st.floats(-1e6, 1e6).filter(lambda b: b == 0 or abs(b) > 1e-100), st.floats(0, 1e6))
@settings(max_examples=60, deadline=None)
def test_a_step_is_exact_outside_its_thresholds(w: float, b: float, further: float) -> None:
    """Lemma 6, for any slope, with fused products and without."""
    (low,), (high,) = thresholds(np.array([w]), np.array([b]))
    behind = 1 - b  # the least float that is no less than the real number 1 − b
    if Fraction(behind) < 1 - Fraction(b):
        behind = float(np.nextafter(behind, np.inf))
    assert Fraction(w) * Fraction(float(low)) <= -Fraction(b)
    assert Fraction(w) * Fraction(float(high)) >= Fraction(behind)
    for fused in (False, True):
        for z, wanted in ((low, 1.0), (low - further, 1.0), (high, 0.0), (high + further, 0.0)):
            assert step(w, b, float(z), fused) == wanted
    if np.frexp(w)[0] == 0.5 and low:
        assert step(w, b, float(np.nextafter(low, np.inf)), True) < 1 or w * np.spacing(abs(low)) < 2.0**-52, "sharp"


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_thresholds_do_not_depend_on_the_order_of_bytes(kind: str) -> None:
    """Weights are read where they lie in the file, little-endian whatever the machine."""
    w, b = np.array([1.0, 1.5, 3.0, 1.0 + 2.0**-20]), np.array([-5.0, -7.0, 0.3, -(2.0**20) - 1.0])
    for part in (slice(0, 1), slice(None)):
        found = [thresholds(w[part].astype(order + kind), b[part].astype(order + kind)) for order in "<>"]
        assert np.array_equal(*found)


def test_thresholds_hold_in_binary32() -> None:
    """For neurons and for a search, also where ramps are narrower than the floats there are."""
    rng = np.random.default_rng(1)
    w = (10.0 ** rng.uniform(-1, 9, 2000)).astype(np.float32)
    b = (-w * rng.uniform(-50, 50, 2000)).astype(np.float32)
    low, high = thresholds(w, b)
    # The floats of the format nearest to the thresholds on their outer sides.
    z_low, z_high = low.astype(np.float32), high.astype(np.float32)
    z_low = np.where(z_low > low, np.nextafter(z_low, np.float32(-np.inf)), z_low)
    z_high = np.where(z_high < high, np.nextafter(z_high, np.float32(np.inf)), z_high)
    assert z_low.dtype == np.float32
    for z, wanted in ((z_low, 1.0), (z_high, 0.0)):
        assert (np.maximum(1 - np.maximum(w * z + b, 0), 0) == wanted).all()
    passed_from = -b / w + 1 / w
    assert (z_low < passed_from).all()
    assert (passed_from <= z_high).all()


@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=40), st.integers(-60, 60), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_sums_on_a_grid_never_round(units: list[int], power: int, seed: int) -> None:
    """Lemma 8; one number off the grid, or one that is too large, is enough to lose exactness."""
    numbers = np.array([units]) * 2.0**power
    assert sums_are_exact([numbers[:, 1:], numbers[:, :1]], BINARY64)
    order = np.random.default_rng(seed).permutation(len(units))
    assert np.cumsum(numbers[0, order])[-1] == sum(units) * 2.0**power
    whole = np.array([[*units, 1.0]])
    assert not sums_are_exact([whole, np.array([[2.0**-53]])], BINARY64)
    assert not sums_are_exact([whole, np.array([[2.0**53]])], BINARY64)
    assert not sums_are_exact([np.array([[2.0**24, 1.0]])], BINARY32)
    for rows in ([[1.0, 2.0], [2.0**53, 1.0]], [[2.0**53, 1.0], [1.0, 2.0]]):  # one of two label coordinates
        assert not sums_are_exact([np.array(rows)], BINARY64)
    assert sums_are_exact([np.array([[2.0**23, 1.0]])], BINARY32)


STAIRS: list[tuple[str, list[float], list[float], Any, list[float], str]] = [
    ("exact", [4.0, 4.0], [-1.0, -8.0], [[1.0, 2.0], [0.0, 1.0]], [0.5, 0.0], ""),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.1, -2.0, 0.0], [0.3, 1e300, 5.0]], [0.0, 0.0], ""),
    ("exact", [4.0, -4.0], [-1.0, 8.0], [[1.0, 2.0]], [0.0], "must rise"),
    ("exact", [-4.0, 4.0], [1.0, -8.0], [[1.0, 2.0]], [0.0], "must rise"),
    ("exact", [-0.5, 4.0], [0.5, -8.0], [[1.0, 2.0]], [0.0], "must rise"),
    ("exact", [4.0, 4.0, 4.0], [-1.0, -8.0, -4.0], [[1.0, 2.0, 1.0]], [0.0], "in order"),
    ("exact", [4.0, 0.0], [-1.0, -8.0], [[1.0, 2.0]], [0.0], "weight_1 goes outside"),
    ("exact", [4.0, 2.0**130], [-1.0, -8.0], [[1.0, 2.0]], [0.0], "weight_1 goes outside"),
    ("exact", [4.0, 2.0**-401], [-1.0, -8.0], [[1.0, 2.0]], [0.0], "weight_1 goes outside"),
    ("exact", [4.0, 4.0], [-1.0, -(2.0**130)], [[1.0, 2.0]], [0.0], "bias_1 goes outside"),
    ("exact", [4.0, 4.0], [2.0**-401, -8.0], [[1.0, 2.0]], [0.0], "bias_1 goes outside"),
    ("exact", [4.0, 4.0], [-1.0, -8.0], [[1.0, -(2.0**130)]], [0.0], "weight_2 or bias_2 goes outside"),
    ("exact", [4.0, 4.0], [-1.0, -8.0], [[1.0, 2.0]], [2.0**-401], "weight_2 or bias_2 goes outside"),
    ("exact", [4.0, 4.0], [-1.0, -8.0], [[1.0, 2.0], [1.0, 0.1]], [0.0, 1.0], "may round"),
    ("exact", [4.0, 4.0], [-1.0, -8.0], [[1.0, 2.0], [2.0, 1.0]], [2.0**-52, 0.0], "may round"),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.0, np.inf, 0.0]], [0.0], "not finite"),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.0, -np.inf, 0.0]], [0.0], "not finite"),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.0, np.nan, 0.0]], [0.0], "not finite"),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.0, 0.0, -1e-310], [1.0, 2.0, 3.0]], [0.0, 0.0], "subnormal"),
    ("runs", [4.0, 4.0], [-1.0, -8.0], [[1.0, 0.0, 1.0], [1.0, 2.0, 3.0]], [0.0, 1.0], "no bias"),
]


@pytest.mark.parametrize(("form", "w", "b", "written", "bias", "words"), STAIRS)
def test_steps_and_labels_that_lemmas_6_to_12_do_not_cover_are_refused(
    form: str, w: list[float], b: list[float], written: Any, bias: list[float], words: str
) -> None:
    steps = np.array(w), np.array(b), np.array(written)
    if words:
        with pytest.raises(UnhandledError, match=words):
            checked_staircase(steps, np.array(bias), BINARY64, form, "block")
        return
    found = checked_staircase(steps, np.array(bias), BINARY64, form, "block")
    for passed in range(len(w) + 1):
        level = np.array(written)[:, passed] if form == "runs" else np.array(written)[:, passed:].sum(axis=1) + bias
        assert found.level[:, passed].tolist() == level.tolist()
    z = np.array([0.25, 0.3, 0.5, 2.0, 2.25])
    passed, sure = found.passed(z, z)
    assert (passed[sure].tolist(), sure.tolist()) == ([0, 1, 1, 2], [True, False, True, True, True])
    assert found.passed(z[2:3], np.array([2.0 + 2.0**-50]))[1].tolist() == [False]
    assert found.room(np.array([0.0, 0.75, 3.0]), np.array([0, 1, 2])).tolist() == pytest.approx([0.25, 0.25, 0.75])


# -- the head ------------------------------------------------------------------------------------------


def squares(classes: int) -> dict[str, Any]:
    """The head `2 j y − j²`."""
    number = np.arange(classes, dtype=np.float32)
    weight = 2 * number[:, None] * np.eye(4, dtype=np.float32)[[LABEL]]
    return {"head.weight": weight, "head.bias": -number * number}


@pytest.mark.parametrize("i", [0, 3, 255])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_class_is_sure_as_far_as_lemma_10_goes(i: int, side: float) -> None:
    """Of 256 classes in binary32 `32 u C² = 1/8`: up to 7/16 off a class, and not there."""
    stored = Stored(squares(256), {}, None, None, BINARY32)
    off = np.array([0.0, 7 / 16 - 2.0**-30, 7 / 16, 0.5])
    assert head_classes(stored, i + side * off).tolist() == [i, i, -1, -1]


def test_beyond_the_classes_the_last_one_wins() -> None:
    stored = Stored(squares(256), {}, None, None, BINARY32)
    assert head_classes(stored, np.array([-1.0, -1000.0, 256.0, 1e5])).tolist() == [0, 0, 255, 255]
