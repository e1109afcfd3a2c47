"""Theorem 1: hardmax is refuted for all weights; slow references in Fractions and in balls of 600 bits."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from monolayer.errors import DataError, MonolayerError, PrecisionError
from monolayer.theory.attention import HeadDifference, decide_softmax, dyadic, exact_heads
from monolayer.theory.hardmax import check_witness, refute_hardmax
from monolayer.theory.injectivity import exact
from monolayer.theory.universal import line_through, shared_tokens, universal_pair, universality
from monolayer.theory.weights import NAMES, AttentionWeights, Head
from tests.scripts import script

# -- slow references -----------------------------------------------------------------------------------


def times(matrix, vector):
    """Matrix times vector in Fractions."""
    return [sum((Fraction(a) * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix.tolist()]


def scores_and_values(head, Z, query):
    tokens = [[Fraction(number) for number in token] for token in Z.tolist()]
    asked = times(head.W_Q, tokens[query])
    keys = [times(head.W_K, token) for token in tokens]
    scores = [sum((a * b for a, b in zip(key, asked, strict=True)), Fraction(0)) for key in keys]
    return scores, [times(head.W_O, times(head.W_V, token)) for token in tokens]


def slow_hardmax(weights, Z, query):
    """One token's output of the hardmax layer, from the definition, in Fractions."""
    output = [Fraction(number) for number in Z[query].tolist()]
    for head in weights.heads:
        scores, values = scores_and_values(head, Z, query)
        best = [value for score, value in zip(scores, values, strict=True) if score == max(scores)]
        output = [o + sum(column) / len(best) for o, column in zip(output, zip(*best, strict=True), strict=True)]
    return output


def slow_softmax(weights, Z, query):
    """One token's output of the softmax layer, from the definition, in balls of the precision in force."""
    ball = lambda number: arb(fmpq(number.numerator, number.denominator))  # noqa: E731
    output = [ball(Fraction(number)) for number in Z[query].tolist()]
    for head in weights.heads:
        scores, values = scores_and_values(head, Z, query)
        powers = [ball(score - max(scores)).exp() for score in scores]
        total = sum(powers, arb(0))
        for axis in range(len(output)):
            mean = sum((p * ball(v[axis]) for p, v in zip(powers, values, strict=True)), arb(0)) / total
            output[axis] = output[axis] + mean
    return output


def slow_distance(weights, X, Y, k, place, bits=600):
    with ctx.workprec(bits):
        pairs = zip(slow_softmax(weights, X, k), slow_softmax(weights, Y, place), strict=True)
        moves = [a - b for a, b in pairs]
        # Not `move ** 2`, which is not a number where the ball holds 0.
        return sum((move * move for move in moves), arb(0)).nonnegative_part().sqrt()


# -- weights of every kind -----------------------------------------------------------------------------


@st.composite
def layers(draw, dim=None, scales=(0.0, 1e-160, 1e-3, 0.25, 1.0, 30.0, 1e8, 1e150)):
    """Any heads, dimension, head size, scale and rank: whole-number entries for ties, Gaussian ones for none."""
    dim = draw(st.integers(1, 4)) if dim is None else dim
    heads = []
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    for _ in range(draw(st.integers(1, 3))):
        size, value_size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["whole", "gauss", "rank one", "zero keys", "opposite"]))
        scale = draw(st.sampled_from(scales))

        def matrix(rows, columns, kind=kind, scale=scale):
            if kind == "whole":
                return scale * generator.integers(-2, 3, (rows, columns))
            if kind == "rank one":
                return scale * np.outer(generator.normal(size=rows), generator.normal(size=columns))
            return scale * generator.normal(size=(rows, columns))

        W_Q, W_K = matrix(size, dim), matrix(size, dim)
        W_V, W_O = matrix(value_size, dim), matrix(dim, value_size)
        heads.append(Head(W_Q, 0 * W_K if kind == "zero keys" else W_K, W_V, W_O))
        if kind == "opposite":
            heads.append(Head(-W_Q, W_K, W_V, W_O))
    return AttentionWeights(tuple(heads))


@settings(max_examples=40)
@given(layers(), st.integers(4, 7), st.integers(0, 99))
def test_every_layer_is_refuted_and_the_outputs_are_those_of_the_definition(weights, n, seed):
    found = refute_hardmax(weights, n=n, seed=seed)
    assert found.verdict == "refuted"
    assert found.universal
    assert len(found.X) == len(found.X_prime) == n
    assert len(found.shared) == n - 2
    for (k, place), output in zip(found.shared, found.outputs, strict=True):
        assert (found.X[k] == found.X_prime[place]).all()
        assert list(output) == slow_hardmax(weights, found.X, k) == slow_hardmax(weights, found.X_prime, place)
    json.dumps(found.to_json(), allow_nan=False)
    assert "refuted" in found.explain()


@settings(max_examples=40)
@given(layers(scales=(0.0, 0.1, 0.5, 1.0, 1e150)), st.integers(4, 6), st.sampled_from([None, 3.0]))
def test_softmax_verdict_and_enclosure_agree_with_direct_evaluation_and_with_the_generic_decision(weights, n, r_max):
    """The lemma of symmetric pairs is one way to a verdict, term-by-term comparison another, 600 bits a third."""
    before = ctx.prec
    found = refute_hardmax(weights, n=n, r_max=r_max)
    assert ctx.prec == before
    heads = exact_heads(weights, found.X[[k for k, _ in found.shared]], found.X, found.X_prime)
    for query, ((k, place), comparison) in enumerate(zip(found.shared, found.softmax, strict=True)):
        generic = decide_softmax([HeadDifference.of(x, y, query) for x, y in heads])
        assert generic.verdict in (comparison.verdict, "undecided")
        if any(np.abs(matrix).max() > 1e99 for head in weights.heads for matrix in head):
            continue  # 600 bits are too few
        distance = slow_distance(weights, found.X, found.X_prime, k, place)
        if comparison.verdict == "equal":
            assert distance.contains(0)
        else:
            assert comparison.verdict == "separated"
            if comparison.upper < 1e-150:  # 600 bits do not reach below
                assert distance < 1e-149
                continue
            assert distance > 0
            assert comparison.lower <= distance <= comparison.upper
            assert comparison.lower > 0.99 * comparison.upper


def test_softmax_equal_is_explained():
    head = AttentionWeights.random(1, 4).heads[0]
    zero = refute_hardmax([tuple(0 * matrix for matrix in head)])
    assert zero.softmax_verdict == "equal"
    assert "does not separate" in zero.explain()
    assert "scores the whole line alike" in zero.explain()
    # Opposite temperatures, equal values: D is odd, so the two heads cancel. Balls alone could never say so.
    both = refute_hardmax([head, Head(-head.W_Q, head.W_K, head.W_V, head.W_O)])
    assert both.softmax_verdict == "equal"
    assert "cancel exactly" in both.explain()
    assert refute_hardmax([head]).softmax_verdict == "separated"


def test_huge_weights_are_separated_below_every_float():
    head = AttentionWeights.random(1, 4).heads[0]
    found = refute_hardmax([Head(*(1e200 * matrix for matrix in head))])
    assert found.softmax_verdict == "separated"
    assert all(c.lower == 0.0 for c in found.softmax)
    json.dumps(found.to_json(), allow_nan=False)


def test_rows_and_json():
    found = refute_hardmax(heads=2, dim=3, n=20, seed=5)
    rows = dict(found.rows())
    assert rows["verdict"] == "refuted"
    assert rows["defeats"] == "every hardmax layer"
    assert len([name for name in rows if name.startswith("softmax distance at")]) == 10
    data = found.to_json()
    assert [Fraction(text) for text in data["hardmax_outputs"][0]] == list(found.outputs[0])
    assert np.array_equal(np.array(data["X"]), found.X)


# -- the pair ------------------------------------------------------------------------------------------


def test_the_textbook_pair():
    line = line_through(*universal_pair(4, 3))
    assert line is not None
    assert sorted(line.first) == [1, 2, 5, 6]
    assert sorted(line.second) == [1, 3, 4, 6]
    assert not any(line.origin)


def test_three_tokens_are_too_few():
    with pytest.raises(DataError, match="determine a set of three"):
        refute_hardmax(n=3)


@pytest.mark.parametrize("second", [[1, 3, 5, 6], [1, 3, 4, 7], [0, 3, 5, 6], [1, 2, 5, 6]])
def test_false_pairs_are_told_apart_by_some_layer(second):
    """Other means, other maxima, other minima, and the same vocabulary."""
    v = np.array([1.0, -2.0])
    X, Y = np.outer([1.0, 2.0, 5.0, 6.0], v), np.outer(np.array(second, dtype=float), v)
    identity = np.eye(2)
    mean, top, bottom = (Head(identity, c * identity, identity, identity) for c in (0.0, 1.0, -1.0))
    with pytest.raises(DataError, match=r"not a witness|same vocabulary"):
        check_witness([mean, top, bottom], X, Y)


@settings(max_examples=40)
@given(st.integers(4, 8), st.integers(1, 4), st.integers(0, 999), st.data())
def test_a_token_moved_by_one_float_is_caught(n, dim, seed, data):
    X, Y = universal_pair(n, dim, seed=seed)
    token, axis = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, dim - 1))
    Y[token, axis] = np.nextafter(Y[token, axis], np.inf)
    mean = Head(np.eye(dim), np.zeros((dim, dim)), np.eye(dim), np.eye(dim))
    with pytest.raises(DataError, match="not a witness: head 0 tells token"):
        check_witness([mean], X, Y)


def test_witness_check_refuses_what_is_no_pair():
    X, Y = universal_pair(4, 2)
    for one, other, words in (
        (X[[0, 0, 2, 3]], Y, "token 1 of X repeats"),
        (X, Y + 100.0, "share no token"),
        (np.zeros((4, 3)), Y, r"shape \(4, 3\)"),
        (X, np.where(np.arange(4)[:, None] == 2, np.nan, Y), "token 2 of X' is not finite"),
    ):
        with pytest.raises(DataError, match=words):
            check_witness(AttentionWeights.random(1, 2), one, other)


def square():
    """Two sequences with the corners of a square in common, and two inner points each, of equal sum."""
    corners = [[1.0, 1.0], [9.0, 1.0], [1.0, 9.0], [9.0, 9.0]]
    return np.array([*corners, [2.0, 3.0], [4.0, 6.0]]), np.array([*corners, [3.0, 5.0], [3.0, 4.0]])


@settings(max_examples=20)
@given(layers(dim=2, scales=(0.0, 1.0, 30.0)))
def test_universal_pairs_need_no_line(weights):
    """Equal hulls, and equal means on each face, are enough."""
    X, Y = square()
    found = check_witness(weights, X, Y)
    assert found.line is None
    assert found.universal
    assert [list(o) for o in found.outputs] == [slow_hardmax(weights, Y, k) for k in range(4)]


def test_undecided_is_said():
    """Two heads that cancel, on a pair off any line: balls hold 0 at every precision, and nothing else is known."""
    X, Y = square()
    head = Head(*(0.25 * matrix for matrix in AttentionWeights.random(1, 2, 2).heads[0]))
    found = check_witness([head, Head(head.W_Q, head.W_K, head.W_V, -head.W_O)], X, Y)
    assert found.softmax_verdict == "undecided"
    assert "undecided" in found.explain()
    assert check_witness([head], X, Y).softmax_verdict == "separated"


# -- given geometry ------------------------------------------------------------------------------------


def packed(n, dim, r_min, r_max, gap):
    """Whether some chord of the shell holds n + 2 points more than `gap` apart: greedy, over many heights."""
    for height in [0.0] if dim == 1 else np.linspace(0, r_max, 20001)[:-1]:
        outer = np.sqrt(r_max**2 - height**2)
        hole = np.sqrt(max(r_min**2 - height**2, 0.0))
        left = int(np.ceil((outer - hole) / gap)) if hole else 0
        # Leftmost placement on the left part, then on from there; open intervals never reach their ends.
        start = max(hole, -outer + left * gap) if hole else -outer
        if left + int(np.ceil((outer - start) / gap)) >= n + 2:
            return True
    return False


@settings(max_examples=25)
@given(st.integers(4, 9), st.integers(1, 3), st.floats(0.01, 0.99), st.integers(0, 99))
def test_a_geometry_is_met_exactly_when_the_line_has_room(n, dim, ratio, seed):
    with pytest.raises(DataError, match="ε <") as refusal:
        universal_pair(n, dim, r_min=ratio, r_max=1.0, epsilon=9.0)
    limit = float(str(refusal.value).split("that is ε < ")[1].split(";")[0])
    assert packed(n, dim, ratio, 1.0, limit * 0.998)
    assert not packed(n, dim, ratio, 1.0, limit * 1.002)
    with pytest.raises(DataError, match="no universal pair on a line fits"):
        universal_pair(n, dim, r_min=ratio, r_max=1.0, epsilon=limit * 1.0001)
    X, Y = universal_pair(n, dim, r_min=ratio, r_max=1.0, epsilon=limit * 0.9999, seed=seed)
    assert universality(X, Y).verdict == "universal"
    tokens = [[Fraction(x) for x in token] for token in np.unique(np.concatenate([X, Y]), axis=0).tolist()]
    assert len(tokens) == n + 2
    low, gap = Fraction(ratio), Fraction(limit * 0.9999)
    assert all(low**2 < sum(x * x for x in token) < 1 for token in tokens)
    assert all(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) > gap**2 for one, other in combinations(tokens, 2)
    )


@settings(max_examples=60)
@given(
    st.integers(4, 12),
    st.integers(1, 5),
    st.floats(0, 1e300),
    st.floats(0, 1e300),
    st.one_of(st.none(), st.floats(0, 1e300)),
)
def test_any_geometry_is_met_or_refused(n, dim, r_min, epsilon, r_max):
    try:
        X, Y = universal_pair(n, dim, r_min=r_min, r_max=r_max, epsilon=epsilon)
    except MonolayerError:
        return
    assert universality(X, Y).verdict == "universal"
    squares = [sum(Fraction(x) ** 2 for x in token) for token in np.concatenate([X, Y]).tolist()]
    assert min(squares) > Fraction(r_min) ** 2
    assert r_max is None or max(squares) < Fraction(r_max) ** 2
    tokens = {tuple(map(Fraction, token)) for token in np.concatenate([X, Y]).tolist()}
    assert all(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) > Fraction(epsilon) ** 2
        for one, other in combinations(tokens, 2)
    )


def test_impossible_geometry():
    for dim, options, words in (
        (2, {"r_min": 2.0, "r_max": 1.0}, "r_min < r_max is needed"),
        (2, {"epsilon": -1.0}, "epsilon = -1"),
        (2, {"r_max": float("inf")}, "r_max = inf"),
        (0, {}, "dim = 0"),
        (2, {"r_min": 1.7e308}, "beyond the largest float"),
        (1, {"r_max": 1.0, "epsilon": 0.5}, "n ε < 2"),
    ):
        with pytest.raises(DataError, match=words):
            universal_pair(4, dim, **options)
    # Real numbers fit between these; floats do not.
    with pytest.raises(PrecisionError, match="too little for tokens in float64"):
        universal_pair(4, 1, r_min=1.0, r_max=float(np.nextafter(1.0, 2.0)))


# -- exact floats, and reading weights -----------------------------------------------------------------


@settings(max_examples=100)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_floats_become_integers_exactly(values):
    integers, exponent = exact(np.array([values]))
    assert [dyadic(entry, exponent) for entry in integers.entries()] == [Fraction(value) for value in values]


def test_shared_tokens_do_not_mind_the_sign_of_zero():
    assert shared_tokens(np.array([[0.0], [1.0]]), np.array([[2.0], [-0.0]])) == ((0, 1),)


@pytest.fixture
def arrays():
    heads = AttentionWeights.random(2, 4, 3, seed=8).heads
    return {name: np.stack([getattr(head, name) for head in heads]) for name in NAMES}


@pytest.mark.parametrize("style", ["stacked", "numbered", "float32"])
def test_weights_are_read_back(tmp_path, arrays, style):
    if style == "float32":
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    stored = arrays
    if style == "numbered":
        stored = {f"{name}_{h}": array[h].copy() for name, array in arrays.items() for h in range(2)}
    np.savez(tmp_path / "weights.npz", **stored)
    save_file(stored, tmp_path / "weights.safetensors")
    for path in tmp_path.iterdir():
        read = AttentionWeights.of(str(path))
        assert (len(read), read.dim) == (2, 4)
        for h, head in enumerate(read.heads):
            for name in NAMES:
                assert np.array_equal(getattr(head, name), arrays[name][h])
                assert not getattr(head, name).flags.writeable


def test_weights_from_matrices_and_heads(arrays):
    one = {name: array[0] for name, array in arrays.items()}
    for source in (one, [tuple(one.values())], AttentionWeights.of(one)):
        assert np.array_equal(AttentionWeights.of(source).heads[0].W_V, one["W_V"])
    # Heads of different sizes, and values of another size than keys.
    small, large = (
        [np.ones((s, 2)), np.ones((s, 2)), np.ones((size, 2)), np.ones((2, size))] for s, size in ((1, 3), (4, 1))
    )
    assert refute_hardmax([small, large]).verdict == "refuted"


def test_bad_weights_name_head_matrix_and_shape(arrays):
    poisoned = arrays["W_K"].copy()
    poisoned[1, 2, 3] = np.inf
    cases = {
        r"W_O of head 0 has shape \(3, 4\), but \(4, 3\) is needed": dict(arrays, W_O=arrays["W_Q"]),
        r"W_K of head 0 has shape \(2, 4\), but \(3, 4\) is needed": dict(arrays, W_K=arrays["W_K"][:, :2]),
        r"W_K of head 1, shape \(3, 4\), is not finite at row 2, column 3": dict(arrays, W_K=poisoned),
        "disagree on the number of heads": dict(arrays, W_V=arrays["W_V"][:1]),
        "W_V has shape": dict(arrays, W_V=np.zeros(3)),
        "unknown arrays b_Q": dict(arrays, b_Q=np.zeros(3)),
        "W_O missing": {name: arrays[name] for name in NAMES[:3]},
        "W_Q_0, W_K_0, W_V_0, W_O_0 missing": {},
        "W_O_1 missing": {f"{n}_{h}": arrays[n][h] for n in NAMES for h in range(2) if (n, h) != ("W_O", 1)},
        "type <U1": dict(arrays, W_Q=np.full((2, 3, 4), "x")),
        "type complex128": dict(arrays, W_Q=arrays["W_Q"] * 1j),
        "cannot hold exactly": dict(arrays, W_Q=np.full((2, 3, 4), 2**53 + 1)),
    }
    for message, source in cases.items():
        with pytest.raises(DataError, match=message):
            AttentionWeights.of(source)
    with pytest.raises(DataError, match="has no head"):
        AttentionWeights(())
    for heads in ([[np.eye(2)] * 3], [7], [{"W_Q": np.eye(2)}]):
        with pytest.raises(DataError, match="head 0 is not a list of four matrices"):
            AttentionWeights.of(heads)
    with pytest.raises(DataError, match="W_Q of head 0 is ragged"):
        AttentionWeights.of([[[[1.0], [1.0, 2.0]], np.eye(2), np.eye(2), np.eye(2)]])
    for nothing in (None, 3, []):
        with pytest.raises(DataError, match="give a file, a dict of arrays"):
            AttentionWeights.of(nothing)


def test_bad_files(tmp_path, arrays):
    (tmp_path / "broken.safetensors").write_bytes(b"nothing of the kind")
    (tmp_path / "weights.pt").write_bytes(b"")
    np.savez(tmp_path / "short.npz", W_Q=arrays["W_Q"])
    for name, words in (
        ("none.npz", "there is no file"),
        ("broken.safetensors", "cannot be read as"),
        ("weights.pt", r"are read from \.npz and \.safetensors"),
        ("short.npz", r"short\.npz: W_K, W_V, W_O missing"),
    ):
        with pytest.raises(DataError, match=words):
            AttentionWeights.read(tmp_path / name)


def test_random_weights_have_the_asked_rank():
    for rank in (0, 1, 2):
        for head in AttentionWeights.random(3, 6, 4, seed=1, rank=rank).heads:
            assert [np.linalg.matrix_rank(matrix) for matrix in head] == [rank] * 4
    assert AttentionWeights.random(4, 8).heads[0].W_Q.shape == (2, 8)
    with pytest.raises(DataError, match="rank = 5"):
        AttentionWeights.random(1, 6, 4, rank=5)
    with pytest.raises(DataError, match="heads = 0"):
        refute_hardmax(heads=0)


# -- the benchmark -------------------------------------------------------------------------------------


def test_benchmark_finds_no_survivor_and_would_find_one(monkeypatch, capsys):
    bench = script("bench/no_hardmax_layer_survives.py")
    assert bench.main(["--count", "1000", "--floats", "3"]) == 0
    honest = bench.pair
    monkeypatch.setattr(bench, "pair", lambda dim: (honest(dim)[0], honest(dim)[2], honest(dim)[2]))
    assert bench.main(["--count", "1000", "--floats", "0"]) == 1
    assert "survived" in capsys.readouterr().out
    monkeypatch.setattr(bench, "pair", lambda dim: (honest(dim)[0], honest(dim)[1], honest(dim)[1]))
    assert bench.main(["--count", "1000", "--floats", "0"]) == 1
    assert "cannot fail" in capsys.readouterr().out
