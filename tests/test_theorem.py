"""Theorem A in exact arithmetic, its enclosures against balls; Theorem 2, Corollary 1, and bits under noise."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import monolayer as ml
from monolayer.data import Sequences
from monolayer.theory import corollary
from monolayer.theory.balls import precision
from monolayer.theory.boltzmann import boltzmann_ball
from monolayer.theory.bounds import corollary1_counts
from monolayer.theory.corollary import corollary1, possible, prove, returns, task_of
from monolayer.theory.enclosure import UndecidedError, log_difference, smallest_gap, wronskian
from monolayer.theory.faithful import PaperHead
from monolayer.theory.frequency import frequencies
from monolayer.theory.injectivity import exact_projection, projection_injective
from monolayer.theory.network import Readout
from monolayer.theory.rate import (
    bits_of_normal_weights,
    bits_of_weights,
    bits_read_linearly,
    bits_under_any_change,
    bits_under_random_noise,
    gardner,
    mean_log,
)
from monolayer.theory.separation import StrictSeparation, separation, token_rows
from monolayer.theory.theorem import theorem
from monolayer_experiments.embedded import widest
from monolayer_experiments.synthetic import without_repeats
from tests.plain_network import answers_of_matrices

multisets = st.lists(st.integers(-6, 6), min_size=1, max_size=5)


def proportional(s: list[int], t: list[int]) -> bool:
    return frequencies(s) == frequencies(t)


# -- injectivity ---------------------------------------------------------------------------------------

awkward = st.sampled_from([0.0, 1.0, -1.0, 0.1, 0.2, 0.3, 1 / 3, 1e16, 1e-300, 5e-324, 1e300, -1e300])


def exact(x: list[float], v: list[float]) -> Fraction:
    return sum((Fraction(a) * Fraction(b) for a, b in zip(x, v, strict=True)), Fraction(0))


@given(st.lists(st.tuples(awkward, awkward, awkward), min_size=1, max_size=8), st.tuples(awkward, awkward, awkward))
def test_injectivity_is_that_of_the_fractions(vocabulary, v):
    values = [exact(x, v) for x in vocabulary]
    found = projection_injective(vocabulary, v)
    assert found.injective == (len(set(values)) == len(values))
    if found.pair is not None:
        first, second = found.pair
        assert first < second
        assert values[first] == values[second]
    integers, exponent = exact_projection(vocabulary, v)
    assert [Fraction(x) * Fraction(2) ** exponent for x in integers] == values


def test_close_values_are_resolved_in_integers():
    """In float64 both projections are 1e16, exactly they differ by 1; 1e16 + 1 − 1e16 is 1, in floats 0."""
    assert projection_injective([[1e16, 0.0], [1e16, 1.0]], [1.0, 1.0]).injective
    vocabulary = [[1e16, 1.0, -1e16], [1.0, 0.0, 0.0], [7.0, 0.0, 0.0]]
    assert projection_injective(vocabulary, [1.0, 1.0, 1.0]).pair == (0, 1)


# -- Theorem A, and differences enclosed -----------------------------------------------------------------


@settings(max_examples=40)
@given(multisets, multisets)
def test_the_wronskian_vanishes_iff_the_multisets_are_proportional(s, t):
    """The algebraic half of Theorem A; the other half is Lindemann and Weierstrass."""
    expected: Counter[int] = Counter()
    for x, y in itertools.product(s, t):
        expected[x + y] += x - y
    found = wronskian(Counter(s), Counter(t))
    assert found == {sigma: c for sigma, c in expected.items() if c}
    assert (found == {}) == proportional(s, t)


@settings(max_examples=40)
@given(multisets, multisets, st.sampled_from([-30.0, -1.0, 2.0**-20, 0.5, 40.0]))
def test_theorem_a_and_the_enclosure_against_plain_balls(s, t, lam):
    with precision(4000):
        plain = boltzmann_ball(lam, s) - boltzmann_ball(lam, t)
    with precision(256):
        sign, log = log_difference(Counter(s), Counter(t), arb(lam))
    if proportional(s, t):
        assert sign == 0
        assert plain.contains(0)
        assert abs(float(plain)) < 1e-300
    else:
        assert (plain > 0) == (sign > 0)
        assert (plain < 0) == (sign < 0)
        with precision(4000):
            assert abs(plain).log().overlaps(log)
        assert log.rel_accuracy_bits() > 100 or abs(float(log)) < 1e-20


def test_theorem_a_fails_at_a_temperature_that_is_not_algebraic():
    """At λ = ln(1 + √2) the values of {0, −1} and {0, −2} agree; the float next to it tells them apart."""
    with precision(2000):
        lam = (1 + arb(2).sqrt()).log()
        assert abs(boltzmann_ball(lam, [0, -1]) - boltzmann_ball(lam, [0, -2])) < arb(2) ** -1900
    with precision(200):
        sign, log = log_difference(Counter([0, -1]), Counter([0, -2]), arb(math.log1p(math.sqrt(2))))
    assert sign != 0
    assert -45 < float(log) < -30


def test_a_precision_that_is_too_low_is_noticed():
    """Equal means: near λ = 0 the values differ by λ times a difference of variances, and all above it cancels."""
    a, t = Counter([1, 2, 5, 6]), Counter([1, 3, 4, 6])

    def lam() -> arb:
        return arb(2) ** -100

    with precision(64), pytest.raises(UndecidedError):
        log_difference(a, t, lam())
    with pytest.raises(UndecidedError):
        smallest_gap([a, t], [0, 1], lam, bits=64, max_bits=127)
    assert smallest_gap([a, t], [0, 1], lam, bits=64, max_bits=2000).bits > 64


@settings(max_examples=30)
@given(st.lists(multisets, min_size=2, max_size=8), st.sampled_from([-3.0, 0.25, 7.0]))
def test_smallest_gap_against_all_pairs(contexts, lam):
    unique = list({frozenset(frequencies(s).items()): s for s in contexts}.values())
    groups = [hash(frozenset(s)) for s in unique]
    found = smallest_gap([Counter(s) for s in unique], groups, lambda: arb(lam), bits=128, max_bits=4096)
    with precision(3000):
        gaps = [
            abs(boltzmann_ball(lam, unique[i]) - boltzmann_ball(lam, unique[j])).log()
            for i, j in itertools.combinations(range(len(unique)), 2)
            if groups[i] != groups[j]
        ]
        assert (found is None) == (not gaps)
        if found is not None:
            assert min(gaps, key=lambda gap: gap.mid()).overlaps(found.log)
            assert groups[found.first] != groups[found.second]
            one, two = (boltzmann_ball(lam, unique[i]) for i in (found.first, found.second))
            assert abs(one - two).log().overlaps(found.log)


# -- Theorem 2 -----------------------------------------------------------------------------------------


def random_data(seed: int, size: int = 7, d: int = 2, n: int = 3, count: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    vocabulary = rng.normal(size=(size, d))
    return np.stack([vocabulary[rng.permutation(size)[:n]] for _ in range(count)])


def plain_head(X: np.ndarray, v: np.ndarray, log_beta: float, weight: float) -> list[list[arb]]:
    """Outputs of the head, evaluated as they stand: needs a bit for each bit of 1/δ."""
    length = sum((arb(x) ** 2 for x in v.tolist()), arb(0)).sqrt()
    outputs = []
    for row in X.tolist():
        s = [sum((arb(a) * b for a, b in zip(x, v.tolist(), strict=True)), arb(0)) / length for x in row]
        beta = arb(log_beta).exp()
        c = [weight * boltzmann_ball(beta * q, s) for q in s]
        outputs += [
            [arb(a) + ck * b / length for a, b in zip(x, v.tolist(), strict=True)] for x, ck in zip(row, c, strict=True)
        ]
    return outputs


def test_the_enclosure_against_all_pairs_evaluated_as_they_stand():
    """The measured direction of small data: 10^-hundreds, within reach of plain balls at a few thousand bits."""
    X = random_data(0, size=5)
    found = theorem(X)
    built, data = found.measured, found.separation
    assert built.verdict == found.worst.verdict == "proved"
    points = [(i, k) for i in range(len(X)) for k in range(X.shape[1])]
    sets = [{tuple(x) for x in row} for row in X.tolist()]
    with precision(2 * built.bounds.bits + 200):
        outputs = plain_head(X, np.array(found.direction), built.bounds.log_beta, data.epsilon / (4 * data.r_max))
        distances = [
            (sum(((a - b) ** 2 for a, b in zip(outputs[p], outputs[q], strict=True)), arb(0)), p, q)
            for (p, (i, k)), (q, (j, m)) in itertools.combinations(enumerate(points), 2)
            if sets[i] != sets[j] or (X[i, k] != X[j, m]).any()
        ]
        smallest, p, q = min(distances, key=lambda item: item[0].mid())
        log10 = float(smallest.log() / 2 / arb(10).log())
    # β went through a float here, so the exponents agree to about 1e-13 of themselves.
    assert built.log10_separation == pytest.approx((log10, log10), rel=1e-10, abs=1e-9)
    tokens = [tuple(X[i, k]) for i, k in built.closest]
    assert tokens[0] == tokens[1] == tuple(X[points[p]]) == tuple(X[points[q]])
    assert built.log10_separation[0] > built.bounds.log10_delta


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 4))
def test_theorem_2_is_proved_on_random_data(seed, d, n):
    found = theorem(random_data(seed, d=d, n=n))
    assert found.separation.broken == ()
    for built in found.constructions.values():
        assert built.verdict == "proved"
        assert built.log10_separation[0] > built.bounds.log10_delta
        assert built.bits < 1000  # though δ needs far more
    assert found.worst.bounds.bits > 10_000
    assert found.sharper.bounds.log_delta > found.measured.bounds.log_delta > found.worst.bounds.log_delta
    assert found.injectivity.injective
    names = [name for name, _ in found.rows()]
    assert (len(set(names)), dict(found.rows())["hypotheses of Theorem 2"]) == (len(names), "hold")
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (plain["verdict"], plain["worst"]["bounds"]["bits"]) == ("proved", found.worst.bounds.bits)


def test_under_a_mask_contexts_are_prefixes_against_all_pairs_evaluated_as_they_stand():
    """Sequences of several lengths; the wrong mask, a planted fault, gives another separation."""
    random = np.random.default_rng(3)
    tokens = random.normal(size=(5, 2))
    X = [tokens[random.permutation(5)[:n]].tolist() for n in (3, 2, 3, 1, 3, 2)]
    found = theorem(X, causal=True)
    data = found.separation
    assert data.broken == ()
    assert found.verdict == "proved"
    assert dict(found.rows())["context of a token"] == "the prefix that ends there"
    assert len(theorem(X).separation.broken) == 1  # lengths differ
    v = np.array(found.direction)
    for built in (found.measured, found.sharper):
        with precision(2 * built.bounds.bits + 200):
            outputs = {}
            for i, row in enumerate(X):
                for k in range(len(row)):
                    last = plain_head(np.array([row[: k + 1]]), v, built.bounds.log_beta, data.epsilon / 4 / data.r_max)
                    outputs[i, k] = last[-1]
            distances = [
                sum(((a - b) ** 2 for a, b in zip(outputs[p], outputs[q], strict=True)), arb(0)).log() / 2
                for p, q in itertools.combinations(outputs, 2)
                if X[p[0]][p[1]] != X[q[0]][q[1]]
                or {tuple(x) for x in X[p[0]][: p[1] + 1]} != {tuple(x) for x in X[q[0]][: q[1] + 1]}
            ]
            log10 = float(min(distances, key=lambda log: log.mid()) / arb(10).log())
        assert built.verdict == "proved"
        assert built.log10_separation == pytest.approx((log10, log10), rel=1e-10, abs=1e-9)
        (i, k), (j, m) = built.closest
        assert X[i][k] == X[j][m]
    assert theorem(X).measured.log10_separation != found.measured.log10_separation


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_theorem_2_is_proved_for_prefixes_and_for_any_lengths(seed):
    random = np.random.default_rng(seed)
    tokens = random.normal(size=(7, 2))
    X = [tokens[random.permutation(7)[: random.integers(1, 6)]].tolist() for _ in range(10)]
    for causal in (True, False):
        found = theorem(X, causal=causal)
        assert separation(X, causal=causal).broken_for_any_lengths == ()
        for built in found.constructions.values():
            assert built.verdict == "proved"


def test_a_delta_that_is_too_large_is_refuted_and_one_inside_the_enclosure_stays_undecided():
    """A planted fault: the same head, with a δ that it does not reach."""
    data = Sequences.of(random_data(0))
    vocabulary, rows = token_rows(data)
    head = PaperHead(data, vocabulary, rows, np.array([0.6, 0.8]), StrictSeparation(0.1, 4.0, 0.1))

    def built(log_delta: arb) -> Any:
        return head.carry_out(lambda: (arb(100), log_delta), 1 << 12, 10**6)

    low = built(arb(-1))
    assert low.verdict == "refuted"
    assert "below δ" in low.reason
    assert built(arb(-(10**9))).verdict == "proved"
    inside = built(arb(low.log10_separation[0] * math.log(10), 1.0))
    assert inside.verdict == "undecided"
    assert "within max_bits = 4,096" in inside.reason


def test_too_few_bits_and_too_many_data_are_undecided_not_wrong():
    found = theorem(random_data(1), max_bits=64)
    assert all(words in found.worst.reason for words in ("max_bits = 64", f"{found.worst.bounds.bits:,}"))
    many = theorem(random_data(2, count=40), max_terms=1000)
    assert (found.verdict, many.verdict, many.worst.log10_separation) == ("undecided", "undecided", None)
    assert "over max_terms = 1,000; give fewer" in many.worst.reason


def test_repeats_and_lengths_break_theorem_2_but_not_theorem_a():
    found = theorem(["aab", "abb", "ab", "abc"])
    assert (len(found.separation.broken), found.worst.verdict) == (2, "proved")
    text = found.explain()
    for words in ("sequences 0, 1 repeat a token", "Theorem 2 does not cover these data", "Theorem A holds"):
        assert words in text
    proved = [value for name, value in found.rows() if name.endswith("exceeds δ")]
    assert len(proved) == sum("computed for these data, which the theorem does not cover" in value for value in proved)


def test_what_the_construction_cannot_be_carried_out_on():
    found = theorem([[[0.0, 0.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 1.0]]])
    assert found.worst is None
    assert found.verdict == "undecided"
    assert found.injectivity.injective
    assert "β divides by it" in found.explain()
    assert ("worst case", found.refused) in found.rows()
    found = theorem(["aa", "a"])
    assert found.verdict == "proved"
    assert "nothing has to be separated" in found.explain()
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["separation"]["epsilon"] is None
    found = theorem([[3, 9], [9, 4]])
    data = found.separation
    assert (data.vocabulary, data.dimension, data.r_min, data.r_max, data.epsilon) == (3, 1, 3.0, 5.0, 1.0)
    assert "at |V| + i" in found.explain()


# -- Corollary 1 ---------------------------------------------------------------------------------------


def test_every_label_is_proved_at_either_scale_and_float64_cannot_hold_it() -> None:
    four, eight = (without_repeats(min(2 * size, math.comb(size, 3)), 3, size) for size in (4, 8))
    found = corollary1(*four)
    assert (found.verdict, found.bits) == ("proved", 8192)
    assert found.parameters == corollary1_counts(3 * 4, 1)[0]
    assert found.distinct < found.points
    assert found.possible < 1.0
    found = corollary1(*eight, scale="measured")  # fewer bits do
    assert (found.verdict, found.bits) == ("proved", 256)
    assert 0.8 < found.possible < 1.0
    assert corollary1(*eight, scale="measured", max_bits=128).verdict == "undecided"


def on_tokens(N: int, n: int, d: int, V: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """`N` different sets of `n` of `V` random tokens, and `d` real label coordinates at each."""
    random = np.random.default_rng(seed)
    return random.normal(size=(V, d))[without_repeats(N, n, V)[0]], random.normal(size=(N, n, d))


@pytest.mark.parametrize(("N", "n", "d", "s", "V"), [(6, 3, 1, 2, 5), (6, 3, 2, 1, 5), (5, 2, 3, 4, 5)])
def test_corollary_1_in_every_dimension_is_a_network_with_the_papers_count(N, n, d, s, V) -> None:
    """Its numbers are those of the formula, and plain matrices and neurons return every label; a fault is seen."""
    X, Y = on_tokens(N, n, d, V)
    task = task_of(Sequences.of(X, Y), "sharper")
    proof = prove(task, head_size=s)
    assert proof.network is not None
    assert proof.network.parameters == 4 * (s + d) + d * (2 * n * N + d)
    found = corollary1(X, Y, scale="sharper", head_size=s)
    assert (found.verdict, found.parameters, found.formula) == ("proved",) + (proof.network.parameters,) * 2
    broken = proof.network.readouts[-1].weight
    for fault in (False, True):
        if fault:
            broken[1] = broken[1] * (1 + arb(2) ** -10)
        with precision(2 * proof.bits):
            off = max(
                abs(answer - label)
                for tokens, labels in zip(X, Y, strict=True)
                for row, wanted in zip(answers_of_matrices(proof.network, tokens), labels.tolist(), strict=True)
                for answer, label in zip(row, wanted, strict=True)
            )
            assert (off < task.tolerance) != fault


def test_what_a_proof_costs_is_said_in_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = on_tokens(6, 3, 2, 5)
    found = corollary1(X, Y, max_bits=1 << 10)
    assert found.verdict == "undecided"
    assert f"max_bits = 1,024; δ asks for {found.delta_bits:,} bits" in found.reason
    monkeypatch.setattr(corollary, "MOST_BITS", 25 * 512)
    assert "25 exponentials of 1,024 bits each are more than 12,800 bits" in corollary1(X, Y).reason


def test_the_readout_passes_through_its_points_and_a_wrong_label_does_not() -> None:
    labels = [2, 0, 5, 5, 1]
    with precision(128):
        knots, wanted = [(arb(i) / 3).mid() for i in range(5)], [arb(label) for label in labels]
        for closed in (False, True):
            readout = Readout.through([arb(1)], knots, wanted, closed=closed)
            assert len(readout.bias) == len(readout.weight) == 5 + closed
            # A ball of radius 0.05 is so wide that the slope makes half a label of it.
            for radius, right in ((2.0**-60, True), (0.05, False)):
                assert returns(readout, [knot + arb(0, radius) for knot in knots], wanted, 0.5) == right
            wrong = [wanted[0] + 1, *wanted[1:]]
            assert not returns(readout, knots, wrong, 0.5)
            beyond = readout.answers([knots[0] - 2, knots[0] / 2 + knots[1] / 2, knots[-1] + 9])
            assert [abs(each - label) < 1e-9 for each, label in zip(beyond[:2], (0, 1), strict=True)] == [True, True]
            assert (abs(beyond[2] - 1) < 1e-9) == closed


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 2**32))
def test_the_best_readout_answers_the_most_frequent_label_of_an_id(kinds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, label = random.integers(0, kinds, 30), random.integers(0, 3, 30)
    best = sum(np.bincount(label[rows == kind], minlength=3).max() for kind in range(kinds))
    assert possible(random.normal(size=(kinds, 4))[rows], label) == best / 30
    assert possible(np.array([0.0, -0.0, 2.0]), np.array([0, 1, 1])) == 2 / 3


def test_data_that_the_corollary_does_not_cover() -> None:
    for X, Y, words in (
        ([[0, 0]], [[1, 1]], "hypotheses of Theorem 2"),
        ([[0, 1]], [0], "one label per token"),
        ([[0]], [[0]], "one token only"),
        ([[0, 1], [1, 0]], [[0, 1], [1, 1]], "contradict"),
    ):
        with pytest.raises(ml.DataError, match=words):
            corollary1(X, Y)


# -- bits under noise: disjoint boxes counted one by one, and a capacity by Blahut and Arimoto ---------------

RANGES = [(1.0, 1.0), (0.5, 4.0), (2.0**-8, 2.0**3)]


@pytest.mark.parametrize("eta", [0.01, 0.2, 0.9])
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_one_weight_packs_no_more_disjoint_boxes_than_the_bound_and_nearly_as_many(
    low: float, high: float, eta: float
) -> None:
    count, next_free = 1, 0.0  # zero is a box of its own
    weight = low
    while weight <= high:  # of either sign, as close as disjoint boxes can be
        count, next_free = count + 2, math.nextafter(weight * (1 + eta), math.inf)
        weight = next_free / (1 - eta)
    bound = 2 ** bits_under_any_change(low, high, eta)
    assert count <= bound * (1 + 1e-12)
    assert count > bound - 4


@pytest.mark.parametrize(("low", "high", "sigma"), [(*RANGES[1], 0.02), (*RANGES[2], 0.3)])
def test_the_bound_on_random_noise_lies_above_the_capacity_of_the_channel(
    low: float, high: float, sigma: float
) -> None:
    """Blahut and Arimoto on a grid of inputs and bins of outputs: less than the channel holds, and not much less."""
    inputs = np.exp(np.linspace(math.log(low), math.log(high), 120))
    ends = np.exp(np.linspace(math.log(low) - 6 * sigma, math.log(high) + 6 * sigma, 400))
    edges = np.concatenate([[-np.inf], -ends[::-1], ends, [np.inf]])
    rows = [np.diff(norm.cdf(edges, loc=weight, scale=sigma * abs(weight))) for weight in (*-inputs, *inputs)]
    channel = np.zeros((len(rows) + 1, len(edges)))
    channel[:-1, :-1], channel[-1, -1] = rows, 1.0  # zero stays zero
    share = np.full(len(channel), 1 / len(channel))
    for _ in range(100):
        output = share @ channel
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.nansum(np.where(channel > 0, channel * np.log(channel / output), 0.0), axis=1)
        share = share * np.exp(gain)
        share /= share.sum()
    capacity, bound = float(share @ gain / math.log(2)), bits_under_random_noise(low, high, sigma)
    assert bound - 1.3 < capacity <= bound


@pytest.mark.parametrize("sigma", [0.02, 0.3])
@pytest.mark.parametrize(
    "weights", [(1.0, 1.0, 1.0), (0.0, 0.0, 1.0), (-1.0, 1.0), (-2.0, -1.0, 0.0, 0.5, 3.0), (1.0, 1.1, 1.2, 5.0)]
)
def test_the_bound_by_the_average_lies_above_the_information_of_the_weights_that_occur(
    weights: tuple[float, ...], sigma: float
) -> None:
    """The mutual information of `w` and `w(1 + σξ)` for `w` uniform over a few values, integrated on a fine grid."""
    some = np.array([weight for weight in weights if weight])
    share = len(some) / len(weights)
    outputs = np.linspace(-30.0, 30.0, 600_001)
    each = norm.pdf(outputs, loc=some[:, None], scale=sigma * np.abs(some)[:, None])
    mean = each.mean(axis=0)
    told = np.where(each > 0.0, each * np.log2(np.maximum(each, 1e-300) / np.maximum(mean, 1e-300)), 0.0)
    information = share * told.sum(axis=1).mean() * (outputs[1] - outputs[0])
    information -= sum(part * math.log2(part) for part in (share, 1.0 - share) if part)
    bound = bits_of_weights([np.array(weights)], sigma)
    assert information <= bound + 1e-6
    if len(set(weights)) == 1:
        assert bound == pytest.approx(0.0, abs=1e-9)  # a weight that never changes tells nothing


def test_normal_weights_hold_the_bits_of_their_closed_form() -> None:
    draw = np.random.default_rng(0).normal(size=400_000)
    for sigma in (0.001, 0.048, 1.0):
        assert bits_of_weights([3.0 * draw], sigma) == pytest.approx(bits_of_normal_weights(sigma), abs=0.02)
        # Two tensors of different sizes are asked apart: together they would look wider than each is.
        assert bits_of_weights([draw, 1e3 * draw], sigma) < bits_of_weights([np.append(draw, 1e3 * draw)], sigma)
    assert bits_of_normal_weights(0.048) == pytest.approx(5.3, abs=0.005)
    assert bits_of_weights([np.zeros(5)], 0.1) == 0.0


def test_gardner_is_what_perceptrons_of_largest_margin_reach() -> None:
    assert gardner(0.0) == pytest.approx(2.0)  # Cover
    for kappa in (0.1, 1.0, 3.0):
        grid = np.linspace(-kappa, 12.0, 200_001)
        integral = np.sum((grid + kappa) ** 2 * norm.pdf(grid)) * (grid[1] - grid[0])
        assert gardner(kappa) == pytest.approx(1.0 / integral, rel=1e-4)
    for sigma, bits in ((0.026, 1.82), (0.037, 1.75), (0.048, 1.68), (0.12, 1.31)):
        assert bits_read_linearly(sigma, 0.01) == pytest.approx(bits, abs=0.005)
    # 150 random signs on 100 random features: the largest margin is the one at which Gardner's formula says 1.5. One
    # draw is off by 0.09 and their mean, at this size, by 0.09: nine draws are within 0.225 by 4 standard deviations.
    random, said = np.random.default_rng(0), []
    for _ in range(9):
        rows = random.choice([-1.0, 1.0], (150, 100))
        e = widest(rows, 1e-6)
        said.append(gardner(float((rows @ e).min() / np.linalg.norm(e))))
    assert np.mean(said) == pytest.approx(1.5, rel=0.15)


def test_wrong_labels_and_known_values() -> None:
    exact = bits_under_random_noise(0.5, 4.0, 0.1, classes=16)
    assert bits_under_random_noise(0.5, 4.0, 0.1, error=0.01, classes=16) > exact
    assert bits_under_random_noise(0.5, 4.0, 0.1) == exact  # without errors the classes do not matter
    assert mean_log(1e-3) == pytest.approx(1e-3 * math.sqrt(2 / math.pi), rel=1e-3)


def test_what_makes_no_sense_is_refused() -> None:
    for call, words in (
        (lambda: bits_under_any_change(0.0, 1.0, 0.1), "0 < low ≤ high"),
        (lambda: bits_under_any_change(1.0, 2.0, 1.0), "lie between 0 and 1"),
        (lambda: bits_under_random_noise(1.0, 2.0, 0.0), "must be.* positive"),
        (lambda: bits_under_random_noise(1.0, 2.0, 0.1, error=0.5), "no better than guessing"),
        (lambda: bits_of_normal_weights(0.0), "must be.* positive"),
        (lambda: bits_of_weights([], 0.1), "no weights"),
        (lambda: bits_of_weights([np.array([1.0, np.nan])], 0.1), "not a number"),
        (lambda: bits_read_linearly(0.1, 0.0), "above 0"),
        (lambda: bits_read_linearly(-0.1, 0.1), "must be 0 or positive"),
        (lambda: gardner(-1.0), "proved for 0"),
    ):
        with pytest.raises(ml.DataError, match=words):
            call()
