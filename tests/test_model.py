"""The model as an ordinary module: shortcut equal to the dense form, devices, dtypes, gradients, memory."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import monolayer as ml
from monolayer.model import attention, staircase
from monolayer.model.attention import RankOneAttention, contexts
from monolayer.model.staircase import Staircase

RANDOM = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Every test draws the same numbers, whichever ran before it."""
    global RANDOM
    RANDOM = np.random.default_rng(11)


def small(**options: Any) -> tuple[ml.Monolayer, np.ndarray, np.ndarray]:
    X, Y = RANDOM.integers(0, 25, (80, 6)), RANDOM.integers(0, 5, (80, 6))
    return ml.memorize(X, Y, positions=True, **options), X, Y


# -- attention -----------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3))
def test_segment_sums_equal_softmax_attention(seed: int, causal: bool, temperature: float) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, 9)
    key = torch.from_numpy(random.uniform(-1, 1, lengths.sum()))
    bos = float(random.uniform(-1, 1))
    weight = torch.exp(temperature * key)
    bos_weight = float(np.exp(temperature * bos))
    fast = contexts(weight, key * weight, torch.from_numpy(lengths), (bos_weight, bos * bos_weight), causal)
    layer = RankOneAttention.constant_query(4, temperature, [1.0])
    start = 0
    for row, size in enumerate(lengths):
        Z = torch.zeros(1, size + 1, 4, dtype=torch.float64)
        Z[0, :, 0] = 1.0
        Z[0, 0, 1], Z[0, 1:, 1] = bos, key[start : start + size]
        place = torch.arange(size + 1)
        seen = (place <= place[:, None])[None] if causal else torch.ones(1, 1, size + 1, dtype=torch.bool)
        slow = layer(Z, seen)[0, :, 2]
        expected = fast[start : start + size] if causal else fast[row].expand(size)
        assert torch.allclose(slow[1:], expected, rtol=0, atol=1e-14)
        start += size


@pytest.mark.parametrize("causal", [False, True])
def test_attention_goes_in_blocks_that_give_what_one_piece_gives_and_so_do_their_gradients(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a long sequence takes memory for its tokens, not for their pairs."""
    model = ml.memorize([[0, 1, 2, 1], [2, 2, 0]], [[0, 1, 2, 1], [2, 2, 0]], causal=causal)
    X, lengths = torch.randint(0, 3, (5, 40)), torch.tensor([40, 1, 17, 39, 2])

    def both() -> tuple[np.ndarray, Tensor]:
        model.zero_grad()
        out = model(X, lengths)
        out[:, :1].sum().backward()
        gradient = model.attention.W_O.grad
        assert gradient is not None
        return out.detach().numpy()[np.arange(40) < lengths.numpy()[:, None]], gradient.clone()

    whole, slope = both()
    for scores in (41, 41 * 7, 41 * 41 + 1, 3 * 41 * 41):
        monkeypatch.setattr(attention, "SCORES_AT_ONCE", scores)
        parts, gradient = both()
        assert np.allclose(parts, whole, rtol=0, atol=1e-12)
        assert torch.allclose(gradient, slope, rtol=1e-9, atol=1e-12)
    blocks: list[int] = []
    written = RankOneAttention._written
    monkeypatch.setattr(
        RankOneAttention,
        "_written",
        lambda self, q, Z, *rest: [blocks.append(q.shape[0] * q.shape[1] * Z.shape[1]), written(self, q, Z, *rest)][1],
    )
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 1 << 14)
    model(torch.randint(0, 3, (1, 1000)))
    assert max(blocks) <= 1 << 14


# -- staircase -----------------------------------------------------------------------------------------


def exact_label(readout: Staircase, z: float) -> Fraction:
    """The network on one number, in rational arithmetic."""
    total = Fraction(readout.bias_2[0].item())
    for weight, bias, out in zip(
        readout.weight_1.tolist(), readout.bias_1.tolist(), readout.weight_2[0].tolist(), strict=True
    ):
        hidden = max(Fraction(0), Fraction(weight) * Fraction(z) + Fraction(bias))
        hidden = max(Fraction(0), 1 - hidden)
        total += Fraction(out) * hidden
    return total


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_dense_and_table_agree_with_rational_arithmetic(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = int(random.integers(1, 8))
    points = np.cumsum(random.uniform(0.01, 1.0, steps + 1)) - 2.0
    level = random.integers(0, 9, steps + 1).astype(float)
    exponent = np.frexp(np.diff(points))[1] - 3
    start = points[:-1] + (np.diff(points) - np.exp2(exponent)) / 2
    tensors = [torch.from_numpy(np.atleast_1d(a)) for a in (np.exp2(-exponent), start, np.diff(level)[None], level[-1])]
    readout = Staircase.from_steps(*tensors)
    table = readout.steps()
    assert table is not None
    on_ramps = start + np.exp2(exponent) * random.uniform(0, 1, steps)
    z = torch.from_numpy(np.concatenate([points, start, start + np.exp2(exponent), on_ramps, random.uniform(-3, 3, 9)]))
    with torch.no_grad():
        dense, fast = readout.dense(z)[:, 0], table(z)[:, 0]
    wanted = torch.tensor([float(exact_label(readout, value)) for value in z.tolist()], dtype=torch.float64)
    assert torch.allclose(dense, wanted, rtol=0, atol=1e-10)
    assert torch.allclose(fast, wanted, rtol=0, atol=1e-10)
    assert torch.equal(dense[: steps + 1], torch.from_numpy(level))
    assert torch.equal(fast[: steps + 1], torch.from_numpy(level))


def test_a_search_in_rough_order_finds_the_same_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, _ = small()
    steps = model.feed_forward.steps()
    assert steps is not None
    z = torch.from_numpy(RANDOM.uniform(-200.0, 200.0, 5000))
    plain = steps(z)
    monkeypatch.setattr(staircase, "_LARGE", 10)
    assert torch.equal(steps(z), plain)
    assert torch.equal(steps(z[:11] * 0 + 3.0), steps.search(z[:11] * 0 + 3.0))


def test_blocks_of_points_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, X, _ = small()
    whole = model(torch.from_numpy(X))
    monkeypatch.setattr(staircase, "CELLS_AT_ONCE", 1000)
    assert torch.equal(model(torch.from_numpy(X)), whole)


def test_a_ramp_that_floats_cannot_see_is_no_step_for_the_shortcut() -> None:
    """At its very start such a ramp is not climbed yet by the network; a search would count it as climbed."""
    one = torch.ones(1, dtype=torch.float64)
    steep = Staircase.from_steps(one * 2.0**60, one.clone(), one[None].clone(), one)
    assert steep.steps() is None
    assert steep.dense(one).item() == 0.0


def test_a_stray_key_in_a_row_that_is_not_asked_for_changes_nothing() -> None:
    model = ml.memorize([["a", "b"], ["b", "c"], ["d"]], [[0, 1], [2, 0], [1]])
    with torch.no_grad():
        assert isinstance(model.lift, torch.nn.Embedding)
        model.lift.weight[3, 1] = 5000.0
    X = [["a", "b"], ["b", "c"]]
    assert [row.tolist() for row in model.predict(X, path="fast")] == [[0, 1], [2, 0]]


# -- an ordinary module --------------------------------------------------------------------------------


def test_gradients_reach_every_weight_that_the_answer_depends_on() -> None:
    X = RANDOM.normal(size=(6, 4, 3))
    model = ml.memorize(X, RANDOM.normal(size=(6, 4)))
    with torch.no_grad():
        # Wide ramps all over the range, so that the answer is not locally constant.
        model.feed_forward.weight_1.fill_(0.25)
        model.feed_forward.bias_1.fill_(0.5)
    x = torch.from_numpy(X).requires_grad_()
    model(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    for name in ("lift.weight", "attention.W_K", "attention.W_V", "attention.W_O", "feed_forward.weight_2"):
        gradient = model.get_parameter(name).grad
        assert gradient is not None, name
        assert gradient.abs().sum() > 0, name


# -- what it refuses -----------------------------------------------------------------------------------


def test_a_token_never_seen_is_named() -> None:
    model = ml.memorize([["a", "b"]], [["x", "y"]])
    with pytest.raises(ml.DataError, match="token 1 of sequence 0 is 'c', which the model has never seen"):
        model.predict([["a", "c"]])
    model = ml.memorize([[0, 2]], [[0, 1]])
    for X in ([[0, 1]], np.array([[0, 1]])):  # a hole in the vocabulary
        with pytest.raises(ml.DataError, match="token 1 of sequence 0 is 1, which the model has never seen"):
            model.predict(X)
    with pytest.raises(ml.DataError, match="is 7, which the model has never seen"):
        model.predict([[7]])


def test_wrong_kinds_and_shapes_are_refused() -> None:
    model, X, _ = small()
    with pytest.raises(ml.DataError, match="tokens of the model are integers"):
        model.predict(np.zeros((1, 2, 3)))
    with pytest.raises(ml.DataError, match=r"ids \(N, n\)"):
        model(torch.zeros(3, dtype=torch.long))
    with pytest.raises(ml.DataError, match="longer than any"):
        model.predict(np.tile(X[:1], (1, 2)))
    with pytest.raises(ml.DataError, match="path must be one of 'auto', 'fast', 'dense', not 'quick'"):
        model.predict(X, path="quick")  # type: ignore[arg-type]
    vectors = ml.memorize([[[0.0, 1.0]]], [[1]])
    with pytest.raises(ml.DataError, match="vectors of 2 numbers"):
        vectors.predict(np.zeros((1, 1, 3)))
    with pytest.raises(ml.DataError, match="NaN and infinity"):
        vectors.predict(np.full((1, 1, 2), np.nan))


def test_an_empty_batch_has_no_logits() -> None:
    model = ml.memorize([[0, 1], [1, 2]], [[0, 1], [2, 0]])
    assert model(torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 2, 3)
