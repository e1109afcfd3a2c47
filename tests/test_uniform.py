"""Theorem C: the constant for sorting three numbers, and sequences that a rank-1 approximator confuses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.checker import confuse as confusing
from monolayer.checker.cells import read_cells
from monolayer.checker.confuse import Walk
from monolayer.checker.seen import Seen, ball
from monolayer.checker.stored import read_model
from monolayer.data import Sequences
from monolayer.errors import DataError, PrecisionError
from monolayer.theory.balls import precision
from monolayer.theory.targets import TARGETS
from tests.stored_models import resealed

SORT = TARGETS["sort"].function


def quarter(X: np.ndarray) -> np.ndarray:
    """The rank-1 network of the proof on `(B, 3)`: own token, mean of all, and a sort. Token 0's answer `(B, 3)`."""
    x, mean = X[:, 0], X.mean(axis=1)
    c = 3 * mean - x
    # y₁ between max(0, c − 1) and c/2, y₂ between c/2 and min(c, 1): the middles.
    one, two = (np.maximum(c - 1, 0) + c / 2) / 2, (c / 2 + np.minimum(c, 1)) / 2
    return np.sort(np.stack([x, one, two], axis=1), axis=1)


def test_sorting_three_numbers_with_rank_1_misses_by_a_quarter_and_no_more() -> None:
    axis = np.linspace(0.0, 1.0, 33)
    X = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    error = np.abs(quarter(X) - np.sort(X, axis=1)).max()
    assert abs(error - 0.25) < 1e-15


@pytest.mark.parametrize("cells", [2, 9])
def test_more_cells_do_not_help(cells: int) -> None:
    model = ml.approximate(SORT, 1, 3, cells=cells)
    found = ml.confuse(model, SORT, lipschitz=1.0)
    assert found.forced > 0.25 - 1e-12
    assert found.forced <= found.error <= found.most
    assert found.most - found.error < 1e-9  # enclosed, not only bounded from below
    # The network in floats, at the floats nearest to the pair, is about as wrong.
    answers = model.predict(np.stack([found.X, found.X_prime]))[:, 0]
    wanted = np.stack([found.wanted, found.wanted_prime])
    assert np.abs(answers - wanted).max() > 0.2
    # Both lie on the walk, opposite to each other, around the centre of the square.
    assert np.allclose(found.X[1:, 0] + found.X_prime[1:, 0], [0.5, 1.5])
    assert found.X[0] == found.X_prime[0] == 0.5


def reference(model: ml.Monolayer) -> Callable[[list[Fraction]], Any]:
    """`B(λ; s)` of a sequence of numbers: every neuron in rationals, softmax in balls, from the module's tensors."""
    lam, _ = model.attention.shortcuts(model.feed_forward.slots)
    block, bos = model.quantizer, model.bos.detach()
    neurons = list(zip(block.weight_1[:, 0].tolist(), block.bias_1.tolist(), block.weight_2[0].tolist(), strict=True))

    def key(x: Fraction) -> Fraction:
        total = Fraction(block.bias_2[0].item())
        for w, b, out in neurons:
            total += Fraction(out) * max(Fraction(0), 1 - max(Fraction(0), Fraction(w) * x + Fraction(b)))
        return total

    def context(sequence: list[Fraction]) -> Any:
        keys = [key(x) for x in sequence]
        keys.append(key(Fraction(bos[-1].item())) + Fraction(bos[1].item()))
        with precision(400):
            balls = [arb(s.numerator) / arb(s.denominator) for s in keys]
            weights = [(arb(lam) * s).exp() for s in balls]
            return sum(w * s for w, s in zip(weights, balls, strict=True)) / sum(weights)

    return context


@pytest.mark.parametrize("cells", [2, 5])
def test_the_contexts_meet_by_a_slow_reference(cells: int, tmp_path: Path) -> None:
    """The certificate: at the ends of the bracket the contexts of opposite sequences differ with opposite signs."""
    model = ml.approximate(SORT, 1, 3, cells=cells, seed=cells)
    found, context = ml.confuse(model, SORT), reference(model)
    walk = Walk.of(Seen.of(read_model(model.save(tmp_path / "m"))))
    for t in (Fraction(0), Fraction(1, 3), Fraction(7, 4), Fraction(3)):  # a closed loop of antipodes
        assert walk.at(t) == walk.at(t + 4)
        assert [a + b for a, b in zip(walk.at(t), walk.at(t + 2), strict=True)] == [1, Fraction(1, 2), Fraction(3, 2)]
    ((start, end),) = found.brackets
    signs = []
    for t in (start, end):
        one, other = (context(walk.at(t + shift)) for shift in (0, 2))
        signs.append(1 if one > other else -1 if one < other else 0)
    if start == end:  # the keys of both are the same, so the contexts are, exactly
        seen = Seen.of(read_model(tmp_path / "m"))
        one, other = (sorted(seen.keys([(x, x) for x in walk.at(start + shift)])) for shift in (0, 2))
        assert one == other
    else:
        assert signs[0] * signs[1] == -1
    ends = zip(walk.at(start) + walk.at(start + 2), walk.at(end) + walk.at(end + 2), strict=True)
    floats = [Fraction(x) for X in (found.X, found.X_prime) for x in X[:, 0].tolist()]
    off = max(abs(x - end) for x, pair in zip(floats, ends, strict=True) for end in pair)
    assert off < Fraction(found.width) < Fraction(1, 2**40)
    one, other = (context([Fraction(x) for x in X[:, 0].tolist()]) for X in (found.X, found.X_prime))
    # A float's rounding moves a context by at most its steepest slope times that.
    steepest = 8.0 * float(np.ptp(model.quantizer.weight_2[0].detach().numpy()) + 2) / model.card.grid.ramp
    assert abs(float(one - other)) <= 2 * steepest * found.width


def bowl(X: np.ndarray) -> np.ndarray:
    """The function of Theorem C₁ on [0, 1]: `4E − 3`, cut to [0, 1]."""
    u = (4 * X[..., 0] - 2) / np.sqrt(3)
    total, squares = u.sum(axis=1, keepdims=True) - u, np.square(u).sum(axis=1, keepdims=True) - u**2
    return np.clip(4 * (1.5 * squares - 0.5 * total**2) - 3, 0.0, 1.0)


def test_one_output_is_confused_on_a_rectangle_by_a_slow_reference() -> None:
    """The certificate: at the ends of three brackets the context lies on either side of the level."""
    model = ml.approximate(bowl, 1, 3, cells=4)
    found = ml.confuse(model, bowl, lipschitz=32.0)
    assert found.forced > 0.5 - 1e-5
    assert found.forced <= found.error <= found.most
    assert sorted((float(found.wanted[0]), float(found.wanted_prime[0]))) == pytest.approx([0.0, 1.0], abs=1e-5)

    context = reference(model)
    _, (kappa,) = model.attention.shortcuts(model.feed_forward.slots)
    level = arb(found.level.numerator) / found.level.denominator / arb(kappa)
    (p, _), first, second, third = found.brackets
    for way in ([(p, q) for q in first], [(p, q) for q in second], [(q, first[0]) for q in third]):
        signs = [context([Fraction(1, 2), *pair]) - level for pair in way]
        assert (signs[0] > 0 and signs[1] < 0) or (signs[0] < 0 and signs[1] > 0)


@pytest.mark.parametrize("which", range(3))
def test_a_wrong_bracket_is_refused(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the three bisections ends beside the level; the other two are right."""
    model, calls, right = ml.approximate(bowl, 1, 3, cells=4), iter(range(3)), confusing.bisect

    def wrong(sign: Any, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
        found = right(sign, low, high)
        return (low, low) if next(calls) == which else found

    monkeypatch.setattr(confusing, "bisect", wrong)
    with pytest.raises(PrecisionError, match=r"enclose different contexts|cannot be told apart"):
        ml.confuse(model, bowl)


def first_of_all(X: np.ndarray) -> np.ndarray:
    """One output: the sum of the first coordinates of the other tokens."""
    return X[..., 0].sum(axis=1, keepdims=True) - X[..., 0]


@pytest.mark.parametrize(("f", "dim", "length"), [
    (TARGETS["force"].function, 2, 2), (TARGETS["nearest"].function, 1, 4), (first_of_all, 2, 2), (first_of_all, 1, 4),
])  # fmt: skip
def test_other_shapes(f: Callable[[Any], Any], dim: int, length: int) -> None:
    found = ml.confuse(ml.approximate(f, dim, length, cells=3), f)
    assert found.X.shape == (length, dim)
    for X, wanted in ((found.X, found.wanted), (found.X_prime, found.wanted_prime)):
        assert np.array_equal(np.asarray(f(X[None])).reshape(length, -1)[0], wanted)
    if dim == 2:  # opposite to each other around the centre of the square
        assert np.allclose(found.X[1] + found.X_prime[1], 1.0)
        assert (found.X[1] != found.X_prime[1]).any()
    assert found.error >= found.forced >= 0.0
    assert (found.answer[0] <= found.answer[1]).all()
    assert found.error <= found.most
    assert "the error is at least" in found.explain()


def test_from_a_folder_and_with_positions(tmp_path: Path) -> None:
    model = ml.approximate(SORT, 1, 3, cells=4, positions=True)
    one, two = ml.confuse(model, SORT), ml.confuse(model.save(tmp_path / "m"), SORT)
    assert one.error == two.error >= 0.2499


def test_two_numbers_need_not_be_confused() -> None:
    with pytest.raises(DataError, match="one context is enough"):
        ml.confuse(ml.approximate(SORT, 1, 2, cells=4), SORT)
    with pytest.raises(DataError, match="only an approximator"):
        ml.confuse(ml.memorize([[0, 1]], [[0, 1]]), SORT)


def test_a_wrong_sign_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ml.approximate(SORT, 1, 3, cells=4)
    right = Walk.sign
    monkeypatch.setattr(Walk, "sign", lambda walk, t: right(walk, t) if t == 0 else 1)
    with pytest.raises(PrecisionError, match=r"enclose different contexts|cannot be told apart"):
        ml.confuse(model, SORT)


def test_weights_that_answer_otherwise_than_is_evaluated_are_refused(tmp_path: Path) -> None:
    folder = ml.approximate(bowl, 1, 3, cells=4, positions=True).save(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    parts = ("lift.weight", "lift.bias", "positions.weight", "head.weight", "head.bias", "attention.W_O")
    for name in (*parts, "feed_forward.stages.0.weight_1", "feed_forward.stages.0.bias_2"):
        with pytest.raises(DataError, match="not those of an approximator as it was built"):
            ml.confuse(resealed(folder, tensors | {name: tensors[name] - 2.0**60}), bowl)


@pytest.mark.parametrize("seed", range(2))
def test_one_output_no_rank_1_context_tells_where_e_is_small_from_where_it_is_large(seed: int) -> None:
    """Theorem C₁ on a grid: any `(A + u(p) + u'(q)) / (B + w(p) + w'(q))` has a value of both sets in common."""
    random, axis = np.random.default_rng(seed), np.linspace(-2 / np.sqrt(3), 2 / np.sqrt(3), 201)
    waves = random.normal(size=(4, 5, 1)) * np.cos(
        3 * random.normal(size=(4, 5, 1)) * axis + random.normal(size=(4, 5, 1))
    )
    u, v, w, x = waves.sum(axis=1)
    w, x = np.exp(w), np.exp(x)
    c = (random.normal() + (u * w)[:, None] + v * x) / (1 + w[:, None] + x)
    E = axis[:, None] ** 2 + axis**2 - axis[:, None] * axis
    small, large = c[E <= 0.75], c[E >= 1]
    assert max(small.min(), large.min()) < min(small.max(), large.max())


# -- the parts, against exact arithmetic -------------------------------------------------------------------


def exact_answer(stored: Any, z: Fraction) -> list[Fraction]:
    """The readout of runs at `z`, over the rationals: it goes from one label to the next on the ramp of a step."""
    block = "feed_forward.stages.0"
    slope, bias, level = (stored[f"{block}.{part}"] for part in ("weight_1", "bias_1", "weight_2"))
    inner = [Fraction(w) * z + Fraction(b) for w, b in zip(slope.tolist(), bias.tolist(), strict=True)]
    passed = [min(max(each, Fraction(0)), Fraction(1)) for each in inner]
    runs = [[Fraction(x) for x in row] for row in level.tolist()]
    return [row[0] + sum((row[j + 1] - row[j]) * passed[j] for j in range(len(passed))) for row in runs]


def exact_block(stored: Any, token: list[tuple[Fraction, Fraction]], row: int) -> tuple[Fraction, Fraction]:
    """The least and the most that the first block adds to a coordinate: every neuron by itself, over the rationals."""
    w_1, b_1, w_2, b_2 = (stored[f"quantizer.{part}"].tolist() for part in ("weight_1", "bias_1", "weight_2", "bias_2"))
    low = high = Fraction(b_2[row])
    for weights, bias, out in zip(w_1, b_1, w_2[row], strict=True):
        ((axis, w),) = [(axis, w) for axis, w in enumerate(weights) if w]
        inner = [max(Fraction(0), Fraction(w) * x + Fraction(bias)) for x in token[axis]]
        written = [Fraction(out) * max(Fraction(0), 1 - each) for each in inner]
        low, high = low + min(written), high + max(written)
    return low, high


@pytest.fixture(scope="module", params=[(1, 3, False), (2, 2, True)], ids=["scalars", "places"])
def approximator(request: Any, tmp_path_factory: Any) -> Any:
    """Read from its folder. Its tokens have their own places, if any, and the readout has three answers, or two."""
    dim, length, positions = request.param
    f = SORT if dim == 1 else TARGETS["force"].function
    model = ml.approximate(f, dim, length, cells=4, positions=positions, ramp=2.0**-4)
    return read_model(model.save(tmp_path_factory.mktemp("walked") / "m"))


def test_the_first_block_on_intervals_is_the_sum_of_its_neurons(approximator: Any) -> None:
    """Short intervals and long ones, on plateaus, across one ramp and across all of them."""
    seen, random = Seen.of(approximator), np.random.default_rng(0)
    for width in (0.0, 2.0**-6, 0.25, 1.0):
        for _ in range(12):
            left = [Fraction(x) for x in random.uniform(0.0, 1.0 - width, seen.shape[1]).tolist()]
            token = [(x, x + Fraction(width)) for x in left]
            for row in (0, 1):
                assert seen.block(token, row + 1) == exact_block(approximator, token, row)


def test_keys_and_codes_of_cells_are_the_sums_of_their_neurons(approximator: Any) -> None:
    """Off the ramps; the begin token has a key and a code of its own besides."""
    n, d = Seen.of(approximator).shape
    X = (np.random.default_rng(1).integers(0, 4, (6, n, d)) + 0.5) / 4.0
    tokens, begin = read_cells(approximator).numbers(Sequences.of(X, None))
    bos = approximator["bos"]
    for row in (0, 1):
        wanted = [
            exact_block(approximator, [(Fraction(x), Fraction(x)) for x in token], row)[0]
            for token in X.reshape(-1, d).tolist()
        ]
        assert tokens[row].tolist() == [float(one) for one in wanted]
        assert len(set(wanted)) > 1
        own = exact_block(approximator, [(Fraction(x), Fraction(x)) for x in bos[-d:].tolist()], row)[0]
        assert begin[row] == float(own + Fraction(float(bos[1 + row])))


def test_the_answer_for_a_context_is_that_of_the_readout(approximator: Any) -> None:
    """On plateaus, on one ramp, and across several: what is possible lies within the bounds, and they are reached."""
    seen = Seen.of(approximator)
    token = [(seen.middle, seen.middle)] * seen.shape[1]
    own = exact_block(approximator, token, 1)[0]
    if approximator.config["positions"]:
        places = approximator["positions.weight"][:, 2].tolist()
        assert len(set(places)) > 1
        own += Fraction(places[0])
    slope, bias = (approximator[f"feed_forward.stages.0.{part}"].tolist() for part in ("weight_1", "bias_1"))
    start = [-Fraction(b) / Fraction(w) for w, b in zip(slope, bias, strict=True)]
    end = [(1 - Fraction(b)) / Fraction(w) for w, b in zip(slope, bias, strict=True)]
    last = len(start) - 1
    for j in sorted({0, 1, len(start) // 2, last - 1, last}):
        ramp = end[j] - start[j]
        before = start[j] - (start[j] - (end[j - 1] if j else start[0] - 1)) / 2
        behind = end[j] + ((start[j + 1] if j < last else end[last] + 1) - end[j]) / 2
        inside = start[j] + ramp / 3
        spans = {
            "in front of it": (before, before), "on it": (inside, inside), "some of it": (inside, inside + ramp / 3),
            "from its middle": (inside, behind), "to its middle": (before, inside), "all of it": (before, behind),
            "behind it": (behind, behind),
            "two of them": (before, (start[j + 1] + end[j + 1]) / 2 if j < last else behind),
            "from the last but one": ((start[j - 1] + end[j - 1]) / 2 if j else before, behind),
        }  # fmt: skip
        for name, (low, high) in spans.items():
            with precision(256):
                found = seen.answer(ball((low - own, high - own)))
            kinks = [low, high, *(x for x in (*start, *end) if low < x < high)]
            values = np.array([[float(x) for x in exact_answer(approximator, z)] for z in kinks])
            assert (found[0] <= values.min(axis=0)).all(), name
            assert (values.max(axis=0) <= found[1]).all(), name
            if name not in ("two of them", "from the last but one"):  # whose bounds are those of all runs that it meets
                size = 1e-4 * (1.0 + np.abs(values).max())  # a ball that holds an interval is a little wider
                assert (found[0] >= values.min(axis=0) - size).all(), name
                assert (found[1] <= values.max(axis=0) + size).all(), name


@pytest.mark.parametrize("answer", [
    [[-0.5, -0.25, 0.0], [-0.25, 0.25, 0.125]],
    [[5.0, 6.0, 5.5], [6.5, 7.0, 9.0]],
    [[-9.0, -8.0, -7.5], [-6.0, -5.5, -5.0]],
], ids=["about", "above", "below"])  # fmt: skip
def test_the_errors_at_a_pair_hold_in_exact_arithmetic(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the bounds of the answer are: least and most error, and what no answer avoids, less their rounding."""

    def lower(X: np.ndarray) -> np.ndarray:
        """`sort` less 3/4 and a little, so that nearly all values are negative, and none is a short fraction."""
        return SORT(X) * 0.9 - 0.8

    model = ml.approximate(lower, 1, 3, cells=4)
    monkeypatch.setattr(Seen, "answer", lambda seen, context: np.array(answer))
    for lipschitz in (0.0, 2.0**20):
        found = ml.confuse(model, lower, lipschitz=lipschitz)
        both = [[Fraction(x) for x in wanted.tolist()] for wanted in (found.wanted, found.wanted_prime)]
        low, high = ([Fraction(x) for x in side] for side in answer)
        least = max(max(a - v, v - b, Fraction(0)) for each in both for a, b, v in zip(low, high, each, strict=True))
        most = max(max(b - v, v - a) for each in both for a, b, v in zip(low, high, each, strict=True))
        half = max(abs(a - b) for a, b in zip(*both, strict=True)) / 2
        size = max(abs(v) for each in both for v in each) + max(abs(v) for v in (*low, *high))
        slack = Fraction(lipschitz) * Fraction(found.width) + size / 2**50
        room = size / 2**52 + slack / 2**50  # half of what is allowed for rounding
        for stated, true in ((found.forced, half), (found.error, max(least, half)), (-found.most, -most)):
            assert true - slack - room <= Fraction(stated) <= true - slack + room


def test_signs_and_distances_of_a_bracket() -> None:
    with precision(64):
        balls = [ball((Fraction(a), Fraction(b))) for a, b in ((1, 2), (-2, -1), (-1, 1), (0, 0), (0, 1), (-1, 0))]
    assert [confusing._sign(each) for each in balls] == [1, -1, 0, 0, 0, 0]
    intervals = [(Fraction(0), Fraction(1)), (Fraction(-3), Fraction(-2)), (Fraction(1, 3), Fraction(1, 3))]
    reach = confusing._reach(intervals, np.array([[0.25], [-2.25], [0.5]]))
    assert reach == [Fraction(3, 4), Fraction(3, 4), Fraction(1, 6)]
    assert confusing._reach(intervals[:1], np.array([[4.0]])) == [Fraction(4)]
    with pytest.raises(PrecisionError, match="cannot be told apart"):
        confusing.bisect(lambda x: 1, Fraction(0), Fraction(1))


# -- value rank for three coordinates or more: upper bounds -----------------------------------------------


def exact_kernel(rows: list[list[int]]) -> list[Fraction]:
    """A vector other than 0 that is orthogonal to `d − 1` integer vectors of `R^d`: their generalized cross product."""
    d = len(rows) + 1
    minors = [[[row[j] for j in range(d) if j != i] for row in rows] for i in range(d)]
    return [Fraction((-1) ** i * round(np.linalg.det(np.array(minor)))) for i, minor in enumerate(minors)]


def signals(a: np.ndarray, y: Any, z: Any) -> list[Fraction]:
    """What the theorem writes of two unordered points: their sum, and the sums of the squares `(a_i·x)²`."""
    squares = [sum((Fraction(sum(map(np.multiply, row, x))) ** 2 for x in (y, z)), Fraction(0)) for row in a.tolist()]
    return [Fraction(p + q) for p, q in zip(y, z, strict=True)] + squares


@pytest.mark.parametrize("seed", range(5))
def test_eight_numbers_determine_two_unordered_points_of_space_and_seven_of_this_kind_do_not(seed: int) -> None:
    """Exact: 3d − 1 numbers for d = 3; with one square less a pair with the same numbers is found for any vectors."""
    random = np.random.default_rng(seed)
    d, a = 3, random.integers(-9, 10, (5, 3))
    while not all(round(np.linalg.det(a[list(some)])) for some in itertools.combinations(range(5), d)):
        a = random.integers(-9, 10, (5, 3))
    y, z = random.integers(-9, 10, (2, d)).tolist()
    seen = signals(a, y, z)
    # From the numbers alone: every choice of signs of three products a_i·w, and which of them the other two confirm.
    squares = [2 * q - sum(Fraction(int(v)) * s for v, s in zip(row, seen[:d], strict=True)) ** 2
               for row, q in zip(a, seen[d:], strict=True)]  # fmt: skip
    roots = [math.isqrt(int(square)) for square in squares]
    assert [root**2 for root in roots] == squares
    found = set()
    for signs in itertools.product((1, -1), repeat=d):
        w = np.linalg.solve(a[:d].astype(float), np.multiply(signs, roots[:d]))
        if np.allclose(np.abs(a @ w), roots, atol=1e-6):
            whole = np.round(w).astype(int)
            found.add(min(tuple(whole.tolist()), tuple((-whole).tolist())))
    w = [p - q for p, q in zip(y, z, strict=True)]
    assert found == {min(tuple(w), tuple(-each for each in w))}
    # One square less: p is orthogonal to two of the vectors, q to the other two.
    p, q = (exact_kernel(part.tolist()) for part in (a[:2], a[2:4]))
    apart = [[s + sign * t for s, t in zip(p, q, strict=True)] for sign in (1, -1)]
    pairs = [([each / 2 for each in w_other], [-each / 2 for each in w_other]) for w_other in apart]
    assert signals(a[:4], *pairs[0]) == signals(a[:4], *pairs[1])
    assert sorted(pairs[0]) != sorted(pairs[1])
    assert signals(a, *pairs[0]) != signals(a, *pairs[1])
