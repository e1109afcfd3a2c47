"""Folders of steps: each bound is that of its lemma in docs/proofs-stock.md, from both sides."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from monolayer.checker.rounding import EXP_ULPS, UnhandledError
from monolayer.checker.stock.bounds import UNIT_64, bounds
from monolayer.checker.stock.readout import (
    Arrivals,
    StockSteps,
    _exact_sums,
    _signs_decide,
    bent,
    coordinates,
    step_classes,
)
from tests.any_order import Net
from tests.whole_stock import (
    threshold,
)

# -- the bounds of docs/proofs-stock.md ---------------------------------------------------------------------------


def of_lemmas(net: Any, found: Any, longest: int, thresholds: float) -> dict[str, Any]:
    """Lemmas S1 to S4 as they are written."""
    D, X, u, g, eps = net.width, found.largest, 2.0**-53, EXP_ULPS, net.epsilon

    def gamma(k: Any) -> Any:
        return k * u / (1 - k * u)

    def norm(largest: float, variance: float, moved: float) -> float:
        """Lemma S1"""
        return float((8 * D * u * largest**2 + moved) / variance + gamma(8))

    low, high = found.norm[0] * (1 - 2 * gamma(D + 2)), found.norm[1] * (1 + 2 * gamma(D + 2))
    K, variance = (found.norm[0] + found.norm[1]) / 2, low / D + eps
    f, S = (K / D + eps) ** -0.5, np.abs(found.key).max() + np.abs(found.place_key).max()
    rho, mean = norm(X, variance, 0.0) + (high - low) / D / variance, 2 * D * u * X
    ds = f * (rho * S + 2 * gamma(12) * (S + 2 * mean))  # Lemma S2
    keys, n = f * S + ds, np.maximum(np.arange(longest + 1), 1)
    R = abs(found.query) * keys
    x = 16 * R + 2 * g + (2 + n / 16) * (2 * g + 2)
    A, B = gamma(n + 6 + x), gamma(n + x)
    context = abs(found.write) * (keys * (A + B) / (1 - B) + (1 + 2 * R) * ds)  # Lemma S3
    most = abs(found.write) * keys + context.max()
    scale, moved = f if net.architecture.post_norm else 1.0, context.max()
    here = max(scale * X, most)
    if net.architecture.post_norm:
        moved = moved + scale * ((rho + 2 * gamma(8)) * X + 2 * mean) + 2 * u * most
    least = low * scale**2 * (1 - 2.0**-21) / D + eps
    second = norm(here + moved, least, 2 * here * moved + 2 * moved**2 + (high - low) / D * scale**2)
    F, mean = least**-0.5, 2 * D * u * (here + moved)
    GM = found.gate * found.signs
    N = 2 * GM * found.size * scale + most + (2 * GM + 1) * mean
    dot = 1.01 * F * 2 * gamma(D + 24) * N + gamma(D + 8) * (thresholds + F * most)
    return {
        "first": f,
        "norm": K * scale**2,
        "one": found.size * scale,
        "other": 2.0**-20,  # Lemma S4
        "context": context,
        "feature": F * (second * most + 1.01 * context) + dot,  # Lemma S4
        "label": F * (2 * moved + 2 * mean + (second + gamma(8)) * here) if net.architecture.post_norm else 0.0,
        "largest": (here + moved) * (F if net.architecture.post_norm else 1.0),
    }


def toy_stock(post_norm: bool, **changes: Any) -> tuple[Any, Any]:
    """Some numbers of a folder, among which no one outweighs the others."""
    net = SimpleNamespace(
        width=64, epsilon=changes.pop("epsilon", 1e-5), architecture=SimpleNamespace(post_norm=post_norm)
    )
    numbers = {"largest": 2.0, "norm": (80.0, 80.0 * (1 + 2.0**-42)), "key": np.array([0.5, -1.5]), "gate": 0.5}
    numbers |= {"place_key": np.array([-0.25, 0.0]), "query": -1.25, "write": -0.75, "signs": 4, "size": 0.5}
    return net, SimpleNamespace(**numbers | changes)


@pytest.mark.parametrize("post_norm", [True, False])
@pytest.mark.parametrize("changes", [
    {}, {"write": -20.0}, {"norm": (80.0, 80.0)}, {"largest": 8.0}, {"gate": 100.0}, {"key": np.array([0.0, 1e-3])},
    {"size": 50.0}, {"query": 20.0}, {"epsilon": 0.5, "norm": (2.0, 2.0), "largest": 1.0},
    {"epsilon": 100.0, "norm": (80.0, 80.0 * (1 + 2.0**-17)), "query": 300.0, "largest": 0.1},  # the error of g counts
    {"write": 0.0, "largest": 0.0, "gate": 0.0, "norm": (80.0, 80.0)},  # nothing but numbers that are flushed to zero
])  # fmt: skip
def test_bounds_are_those_of_lemmas_s1_to_s4(changes: dict[str, Any], post_norm: bool) -> None:
    net, found = toy_stock(post_norm, **changes)
    for longest, thresholds in ((1, 0.0), (40, 0.5), (3, 100.0)):
        lemmas, bound = of_lemmas(net, found, longest, thresholds), bounds(net, found, longest, thresholds)
        for name, lemma in lemmas.items():
            said = np.asarray(getattr(bound, name))
            if name in ("first", "norm", "one", "other"):
                assert said == pytest.approx(lemma, rel=1e-14), name
            else:
                flushed = 2.0**-600 if name in ("context", "feature") else 0.0
                assert (said >= lemma * (1 + 2.0**-21) + flushed).all(), name
                assert (said <= lemma * (1 + 2.0**-13) + 2.0**-590).all(), name


@pytest.mark.parametrize(("changes", "longest", "words"), [
    ({"query": 60.0}, 3, "scores reach"), ({"query": -60.0}, 3, "scores reach"),
    ({"write": 2.0**21, "query": 0.0}, 3, "beyond what the bound covers"),
    ({"write": -(2.0**21), "query": 0.0}, 3, "beyond what the bound covers"),
    ({"gate": 2.0**21}, 3, "beyond what the bound covers"), ({"largest": 2.0**21}, 3, "beyond what the bound covers"),
    ({}, 2**60, "sequences 1,152,921,504,606,846,976 tokens, beyond"),  # so many that no array of them can be made
    ({"largest": 2.0**12}, 3, "more than the proofs allow"), ({"largest": 2.0**23}, 3, "variance in a norm"),
    ({"norm": (80.0, 80.001)}, 3, "more than the proofs allow"),
    ({"write": 2.0**12, "query": 0.0}, 3, "more than the proofs allow"),  # the second norm alone
])  # fmt: skip
def test_sizes_that_the_bounds_do_not_cover_are_refused(changes: dict[str, Any], longest: int, words: str) -> None:
    net, found = toy_stock(False, **changes)
    with pytest.raises(UnhandledError, match=words):
        bounds(net, found, longest, 1.0)


def toy_head(pool: str | None, width: int = 64, labels: int = 8, slope: float = 4.0, **changes: Any) -> tuple[Any, ...]:
    """As much of a folder as Lemmas S6 and S7 look at."""
    weights = {"W_P": np.diag(np.full(labels, slope))} if pool else {}
    net = Net(False, weights, width=width, epsilon=1e-5)
    net.architecture = SimpleNamespace(post_norm=True, pool=pool, pool_keeps_scale=pool == "relu")
    numbers = {"largest": 1.0, "first": 0.5, "label": 0.25, **changes}
    return net, SimpleNamespace(label=np.arange(labels)), SimpleNamespace(**numbers)


PADDED = 1.0 + 2.0**-20
SMALL = PADDED * (2.0**-21 + 2.0 * 88 * 2.0**-53)
HEADS: dict[str, tuple[Any, float, float, Any, float]] = {
    "a word": ({"pool": None}, 1024.0, 1.0, 0.0, SMALL * 8 * 1024 / 4),
    "a word and its mean": ({"pool": None, "labels": 60}, 2.0**20, 1.0, 2.0**-6, SMALL * 60 * (2.0**20 + 2.0**-6) / 4),
    "a wide word": (
        {"pool": None, "width": 2**28},
        1024.0,
        1.0,
        0.0,
        PADDED * (2.0**-21 + 2 * 2.0**-25) * 8 * 1024 / 4,
    ),
    "a relu": ({"pool": "relu"}, 1024.0, 1.0, 0.0, 4 * SMALL * 8 * 1024),
    "a mean": ({"pool": None}, 32.0, 1.0, 1.0, 16.0),
    "a rounded mean": (
        {"pool": None, "width": 2**20},
        1.0,
        2.0**40,
        0.0,
        16 * PADDED * 2 * 2.0**20 * 2.0**-53 * 2.0**40,
    ),
    "float32": ({"pool": None}, 32.0, 2.0**40, 0.0, 2.0**-36 * 2.0**40),
    "float32 and ε": ({"pool": None}, 2.0**-40, 2.0**-40, 0.0, 2.0**-36 * 1e-5**0.5),
}


@pytest.mark.parametrize("case", HEADS)
def test_signs_decide_from_where_lemma_s7_says(case: str) -> None:
    options, most, largest, mean, wanted = HEADS[case]
    net, found, bound = toy_head(**options, largest=largest)

    def decided(least: float) -> bool:
        return bool(_signs_decide(net, found, bound, *(np.array([part]) for part in (least, most, mean)))[0])

    if case == "a word and its mean":
        wanted = max(wanted, 16 * mean)
    assert threshold(decided, 0.0, 2.0 * wanted) == pytest.approx(wanted, rel=2.0**-22, abs=0.0)
    assert not decided(np.nan)


def test_a_tanh_decides_from_where_lemma_s7_says_and_nothing_may_overflow() -> None:
    for most, mean, epsilon in (
        (64.0, 0.0, 1e-5),
        (64.0, 2.0**-10, 1e-5),
        (64.0, 2.0**-12, 1e-5),
        (0.25, 0.0, 1e-5),
        (0.25, 0.0, 1.0),
    ):
        net, found, bound = toy_head("tanh", slope=0.01)
        net.epsilon = epsilon
        square = 1.001 + 8 * most**2 / 64 + epsilon
        enough = np.arctanh(SMALL * 8 * 1.001 / 4 + 2.0**-20) * np.sqrt(square) / 0.9 / 0.01 + mean
        enough = max(enough, 16 * (mean + 2 * 64 * 2.0**-53 * max(most, 1.0)))

        def decided(least: float, most: float = most, mean: float = mean) -> bool:
            return bool(_signs_decide(net, found, bound, *(np.array([part]) for part in (least, most, mean)))[0])  # noqa: B023

        assert threshold(decided, 0.0, 2.0 * enough) == pytest.approx(enough, rel=1e-4)
    net, found, bound = toy_head(None)
    for size in (2.0**400, 2.0**401):
        large = np.array([size])
        assert _signs_decide(net, found, bound, large, large, 0.0 * large).tolist() == [size == 2.0**400]
    net.arrays, net.architecture = (
        {"W_P": np.eye(8)},
        SimpleNamespace(post_norm=False, pool="tanh", pool_keeps_scale=False),
    )
    with pytest.raises(UnhandledError, match="where norms stand behind"):
        bent(net, found, np.ones(1), np.ones(1))


@pytest.mark.parametrize("post_norm", [True, False])
def test_label_coordinates_are_those_of_lemma_s6(post_norm: bool) -> None:
    net, found, bound = toy_head(None, labels=2)
    net.architecture = SimpleNamespace(post_norm=post_norm)
    net.arrays = {"tokens": np.array([[1.0, -1.0, 9.0], [-2.0, 3.0, 9.0]])}
    level = np.array([[0.0, 0.0], [3.0, -3.0], [6.0, -5.0], [-6.0, 1.0]])
    steps: Any = SimpleNamespace(cell=np.array([4, 4, 7]), level=level)
    token, cell, passed, factor = (
        np.array([0, 1, 1]),
        np.array([4, 7, 9]),
        np.array([2, 3, 3]),
        np.array([2.0, 4.0, 1.0]),
    )
    seen = Arrivals(token, cell, factor, np.zeros(3), np.zeros(3))
    value, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    jump = level[passed] - level[[0, 2, 3]]
    base = net["tokens"][token][:, :2] * (0.5 * factor[:, None] if post_norm else 1.0)
    assert value == pytest.approx(base + jump)
    assert (doubt >= 0.25 * (1 + 2.0**-21)).all()
    assert doubt == pytest.approx(0.25 + 0.0 * base, rel=1e-5)
    assert mean == pytest.approx(np.abs(jump.sum(axis=1)) / 64 + 0.25, rel=1e-5)
    bound.label = 0.0
    _, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    assert doubt == pytest.approx(8 * UNIT_64 * (np.abs(base) + np.abs(jump)), rel=1e-5, abs=0.0)
    assert mean == pytest.approx(np.abs(jump.sum(axis=1)) / 64 + doubt.max(axis=1), rel=1e-5, abs=0.0)


@pytest.mark.parametrize("post_norm", [True, False])
def test_a_class_is_sure_where_the_least_and_the_largest_coordinate_allow_it(post_norm: bool) -> None:
    """Lemmas S6 and S7, point by point. Some words belong to no class: the first, the last, and some between."""
    random, m, M = np.random.default_rng(0), 6, 400
    net, found, bound = toy_head(None, labels=m, largest=1e-9, label=2.0**-28)
    net.architecture = SimpleNamespace(post_norm=post_norm)
    every = np.array([word for word in product([False, True], repeat=m) if sum(word) == m // 2])
    found.words = random.permutation(every[1:-1])[: len(every) // 2]
    small = 2.0 ** random.uniform(-26.0, -18.0, (M, m)) * (random.random((M, m)) < 0.3)
    net.arrays = {"tokens": np.where(every[random.integers(0, len(every), M)], 1.0, -1.0) * np.where(small, small, 1.0)}
    steps: Any = SimpleNamespace(cell=np.array([0]), level=np.zeros((2, m)))
    seen = Arrivals(np.arange(M), np.full(M, 1), random.uniform(1.0, 3.0, M), np.zeros(M), np.zeros(M))
    passed = np.ones(M, dtype=np.int64)
    answers = step_classes(net, found, bound, steps, seen, passed)
    value, doubt, mean = coordinates(net, found, bound, steps, seen, passed)
    known = 0
    for i in range(M):
        sizes = np.abs(value[i])
        ends = np.array([(sizes - doubt[i]).min()]), np.array([(sizes + doubt[i]).max()]), mean[i : i + 1]
        own = np.flatnonzero((found.words == (value[i] > 0)).all(axis=1))
        known += len(own)
        sure = len(own) == 1 and _signs_decide(net, found, bound, *ends)[0]
        assert answers[i] == (own[0] if sure else -1)
    assert 20 < (answers >= 0).sum() < known - 20


EXACT_SUMS: list[tuple[list[float], bool]] = [
    ([1.0, -0.5, 0.25], True), ([1.0, 1.0 + 2.0**-8], True), ([1.0, 1.0 + 2.0**-9], False),
    ([1.0, 1.0 + 2.0**-10], False), ([2.0**31, 1.0], True), ([2.0**33, 1.0], False), ([-(2.0**33), 1.0], False),
    ([2.0**32, 2.0**-1], False), ([], True), ([0.0, 0.0], True), ([2.0**31] * 300 + [1.0], True),
    ([2.0**31] * 400 + [1.0], False), ([2.0**32, 1.0], True),
    ([2.0**32] * 1200 + [1.0], False), ([-(2.0**32)] * 1200 + [1.0], False),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "exact"), EXACT_SUMS)
def test_what_steps_are_worth_is_summed_only_where_nothing_rounds(numbers: list[float], exact: bool) -> None:
    values = np.array(numbers).reshape(-1, 1)
    if exact:
        assert _exact_sums(values).tolist() == np.cumsum([0.0, *(6.0 * number for number in numbers)])[:, None].tolist()
        return
    with pytest.raises(UnhandledError, match="may round"):
        _exact_sums(values)


@pytest.mark.parametrize("seed", range(6))
def test_steps_passed_are_counted_as_by_hand(seed: int) -> None:
    """Lemma S5, with thresholds that are equal to an end of an interval."""
    random = np.random.default_rng(seed)
    cell = np.sort(random.integers(0, 4, 12))
    low = np.concatenate([np.sort(random.integers(0, 9, count)) for count in np.unique(cell, return_counts=True)[1]])
    low, high = low.astype(float), low + 1.0
    steps = StockSteps(np.arange(12), cell, low, high, np.zeros((13, 1)), 0.0)
    where, feature, radius = (
        random.integers(0, 5, 40),
        random.integers(-2, 22, 40) / 2.0,
        random.integers(0, 3, 40) / 2.0,
    )
    passed, sure, room = steps.passed(where, feature, radius)
    for i in range(40):
        own = cell == where[i]
        before = int((cell < where[i]).sum())
        begun, settled = own & (low < feature[i] + radius[i]), own & (high <= feature[i] - radius[i])
        assert passed[i] == before + begun.sum()
        assert sure[i] == (begun.sum() == settled.sum())
        ours = own & (low < feature[i])
        ahead, back = low[own & ~ours] - feature[i], feature[i] - high[ours]
        assert room[i] == min(*ahead, *back, np.inf, np.inf)
    assert steps.lowest == low.min()
