"""The model as a module among others: its shortcut is its dense form; gradients, export, input that does not fit."""

from __future__ import annotations

import copy
import io
import json
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import monolayer as ml
from monolayer.cli import run
from monolayer.model import attention, staircase
from monolayer.model.attention import KEY, RankOneAttention
from monolayer.model.contexts import contexts
from monolayer.model.shortcut import AskedTensors, _common_factor, plan, traced
from monolayer.model.staircase import Staircase
from monolayer.theory.balls import precision
from monolayer.theory.targets import TARGETS

RANDOM = np.random.default_rng(17)
X = RANDOM.integers(0, 30, (25, 6))
Y = RANDOM.integers(0, 4, X.shape)
VECTORS = RANDOM.normal(size=(20, 5, 3))
V = torch.from_numpy(VECTORS)
ROWS = RANDOM.permutation(60).reshape(10, 6)
GRID = RANDOM.random((9, 3, 1))


@pytest.fixture
def model() -> ml.Monolayer:
    return ml.memorize(X, Y, positions=True)


# -- attention -----------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3))
def test_segment_sums_equal_softmax_attention(seed: int, causal: bool, temperature: float) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 7, 9)
    key = torch.from_numpy(random.uniform(-1, 1, lengths.sum()))
    bos = float(random.uniform(-1, 1))
    weight, bos_weight = torch.exp(temperature * key), float(np.exp(temperature * bos))
    fast = contexts(weight, key * weight, torch.from_numpy(lengths), (bos_weight, bos * bos_weight), causal)
    layer = RankOneAttention.constant_query(4, temperature, [1.0])
    start = 0
    for row, size in enumerate(lengths):
        Z = torch.zeros(1, size + 1, 4, dtype=torch.float64)
        Z[0, :, 0] = 1.0
        Z[0, 0, 1], Z[0, 1:, 1] = bos, key[start : start + size]
        slow = layer(Z, torch.ones(1, 1, size + 1, dtype=torch.bool), causal)[0, :, 2]
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
    scores_of_blocks: list[int] = []
    written = RankOneAttention._written

    def counted_written(self: RankOneAttention, queries: Tensor, Z: Tensor, *rest: Any) -> Any:
        scores_of_blocks.append(queries.shape[0] * queries.shape[1] * Z.shape[1])
        return written(self, queries, Z, *rest)

    monkeypatch.setattr(RankOneAttention, "_written", counted_written)
    for scores in (41, 41 * 7, 3 * 41 * 41):
        monkeypatch.setattr(attention, "SCORES_AT_ONCE", scores)
        parts, gradient = both()
        assert np.allclose(parts, whole, rtol=0, atol=1e-12)
        assert torch.allclose(gradient, slope, rtol=1e-9, atol=1e-12)
        assert max(scores_of_blocks) <= scores
        scores_of_blocks.clear()


# -- staircase -----------------------------------------------------------------------------------------


def exact_label(readout: Staircase, z: float) -> Fraction:
    """The network on one number, in rational arithmetic."""
    total = Fraction(readout.bias_2[0].item())
    weights = zip(readout.weight_1.tolist(), readout.bias_1.tolist(), readout.weight_2[0].tolist(), strict=True)
    for weight, bias, out in weights:
        hidden = max(Fraction(0), Fraction(weight) * Fraction(z) + Fraction(bias))
        total += Fraction(out) * max(Fraction(0), 1 - hidden)
    return total


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_dense_and_table_agree_with_rational_arithmetic(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = int(random.integers(1, 8))
    points = np.cumsum(random.uniform(0.01, 1.0, steps + 1)) - 2.0
    level = random.integers(0, 9, steps + 1).astype(float)
    exponent = np.frexp(np.diff(points))[1] - 3
    start = points[:-1] + (np.diff(points) - np.exp2(exponent)) / 2
    given = np.exp2(-exponent), start.copy(), -np.diff(level)[None], level[-1:].copy()
    readout = Staircase.from_steps(*map(torch.from_numpy, given))
    table = readout.steps()
    assert table is not None
    on_ramps = start + np.exp2(exponent) * random.uniform(0, 1, steps)
    z = torch.from_numpy(np.concatenate([points, start, start + np.exp2(exponent), on_ramps, random.uniform(-3, 3, 9)]))
    wanted = torch.tensor([float(exact_label(readout, value)) for value in z.tolist()], dtype=torch.float64)
    for found in (readout(z)[:, 0].detach(), table(z)[:, 0]):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)
        assert torch.equal(found[: steps + 1], torch.from_numpy(level))


def test_blocks_of_points_change_no_label(model: ml.Monolayer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model(torch.from_numpy(X))
    monkeypatch.setattr(staircase, "CELLS_AT_ONCE", 1000)
    assert torch.equal(model(torch.from_numpy(X)), whole)


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", [1, 2])
def test_no_order_in_which_points_are_looked_up_changes_a_label(
    device: bool, dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against `search`, which takes points as they come: on plateaus, on ramps and their ends, and infinities.

    NaN, which `search` looks up as any other number, gets NaN.
    """
    start = torch.arange(40, dtype=dtype)  # a ramp from each whole number to the half behind it
    level = torch.from_numpy(RANDOM.integers(0, 9, (41, width))).to(dtype)
    steps = staircase.Steps(torch.full_like(start, 2.0), -2.0 * start, level)
    numbers = [*RANDOM.uniform(-3.0, 45.0, 20_000), *(i / 2 for i in range(80))]
    beyond = [math.nan, -math.inf, math.inf, -0.0]
    for limit in ("_MANY_POINTS", "_MANY_STEPS", "_MANY_ON_A_DEVICE"):
        monkeypatch.setattr(staircase, limit, 1)
    if device:
        monkeypatch.setattr(staircase, "readable", lambda z: False)
    for z in (numbers, numbers[:1], [*numbers, *beyond], beyond, [math.nan], [3.25] * 20, [-5.0, 3.25]):
        points = torch.tensor(z, dtype=dtype)
        wanted = steps.search(points).T.where(~points.isnan()[:, None], torch.nan)
        assert torch.equal(steps(points).nan_to_num(-7.0), wanted.nan_to_num(-7.0))


def test_a_ramp_that_floats_cannot_see_is_no_step_for_the_shortcut() -> None:
    """At its very start such a ramp is not climbed yet by the network; a search would count it as climbed."""
    one = torch.ones(1, dtype=torch.float64)
    steep = Staircase.from_steps(one * 2.0**60, one.clone(), -one[None], one)
    assert steep.steps() is None
    assert steep(one).item() == 0.0


def test_a_stray_key_in_a_row_that_is_not_asked_for_changes_nothing() -> None:
    model = ml.memorize([["a", "b"], ["b", "c"], ["d"]], [[0, 1], [2, 0], [1]])
    with torch.no_grad():
        model.lift.weight[3, 1] = 5000.0
    X = [["a", "b"], ["b", "c"]]
    assert [row.tolist() for row in model.predict(X, path="fast")] == [[0, 1], [2, 0]]


@pytest.mark.parametrize("asked", ["xx y zy yz xyz", "y zy yz"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("begin", [-1.0, 0.25, 1.0])
@pytest.mark.parametrize("temperature", [700.0, -700.0, 2.0])
def test_the_shortcut_finds_contexts_at_every_temperature(
    temperature: float, begin: float, causal: bool, asked: str
) -> None:
    """Scores up to 1,400 apart: a sequence far below the largest score of all, and a begin token above all scores."""
    X = asked.split()
    model = ml.memorize(["x", "y", "z"], [[0], [0], [0]], causal=causal, temperature=temperature)
    keys = {"x": 1.0, "y": -1.0, "z": -0.999}
    with torch.no_grad():
        model.bos[KEY] = begin
        for name, key in keys.items():
            model.lift.weight[model.card.vocabulary.rows[name], KEY] = key
        found = traced(model, AskedTensors.of(model, model.encode(X)), plan(model)).context.tolist()
    ends = [x[: size + 1] for x in X for size in range(len(x))] if causal else X
    for end, context in zip(ends, found, strict=True):
        seen = [begin, *(keys[name] for name in end)]
        with precision(100):
            weights = [(arb(temperature) * arb(key)).exp() for key in seen]
            exact = float(sum((w * arb(s) for w, s in zip(weights, seen, strict=True)), arb(0)) / sum(weights, arb(0)))
        assert abs(context - exact) < 1e-12


def test_scores_that_no_common_factor_fits_are_left_to_the_dense_network() -> None:
    """Weights in float64 differ by at most e^1415."""
    model = ml.memorize(X, Y, positions=True)
    with torch.no_grad():
        model.bos[KEY] = -3_000.0
        assert traced(model, AskedTensors.of(model, model.encode(X)), plan(model)) is None
    assert (model.predict(X) == model.predict(X, path="dense")).all()
    with pytest.raises(ml.DataError, match="too far apart for an explanation"):
        model.explain(X)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_common_factor_keeps_the_weight_of_the_begin_token_normal_and_every_sum_finite(dtype: torch.dtype) -> None:
    """It is the largest score wherever that does, and none where no factor does: both to within a rounding."""
    floats, lengths, doubt = torch.finfo(dtype), torch.tensor([2, 5]), 1e-9
    least, keys = -math.log(16.0 * floats.tiny), torch.tensor([-1.0, 0.25], dtype=dtype)
    for key, size in ((0.25 * keys, 1.0), (7.0 * keys, 7.0)):
        room = math.log(floats.max / (6.0 * size))  # five tokens and the begin token
        for begin in (0.0, -3.0):
            for score, wanted in (
                ([begin - 9.0, begin - 2.0], begin),
                ([begin + 5.0, begin - 2.0], begin + 5.0),
                ([begin + least * (1.0 - doubt), begin], begin + least * (1.0 - doubt)),
                ([begin + least * (1.0 + 1e-3), begin], begin + least),
                ([begin, begin + least + room - 1e-2], begin + least),
                ([begin, begin + least + room + 1e-2], None),
            ):
                top = _common_factor(max(score), begin, key, lengths)
                assert (top is None) == (wanted is None)
                assert top is None or abs(top - wanted) <= 1e-6 * max(1.0, abs(wanted))


# -- an ordinary module --------------------------------------------------------------------------------


def test_gradients_reach_every_weight_that_the_answer_depends_on() -> None:
    model = ml.memorize(VECTORS, VECTORS[..., 0])
    with torch.no_grad():
        # Wide ramps all over the range, so that the answer is not locally constant.
        model.feed_forward.stages[0].weight_1.fill_(0.25)
        model.feed_forward.stages[0].bias_1.fill_(0.5)
    x = torch.from_numpy(VECTORS).requires_grad_()
    model(x).square().sum().backward()
    names = ("lift.weight", "attention.W_K", "attention.W_V", "attention.W_O", "feed_forward.stages.0.weight_2")
    for name, gradient in [("x", x.grad), *((name, model.get_parameter(name).grad) for name in names)]:
        assert gradient is not None, name
        assert gradient.abs().sum() > 0, name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_answers_and_is_inspected(
    dtype: torch.dtype, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: ml.Monolayer
) -> None:
    half = copy.deepcopy(model).to(dtype)
    for path in ("auto", "dense"):
        assert half.predict(X, path=path).shape == X.shape
    # What PyTorch says once in a process, where a processor lacks the instructions, is no concern of a user.
    half.head.register_forward_hook(lambda *_: warnings.warn("mkldnn bf16 path needs the cpu support", stacklevel=1))
    assert half.predict(X).shape == X.shape
    half.head._forward_hooks.clear()
    folder = half.save(tmp_path / "half")
    assert run(["inspect", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["dtype"] == str(dtype).removeprefix("torch.")
    assert set(shown["ranks"].values()) == {1}
    proof = ml.certify(folder, X, Y)
    assert (proof.verdict, proof.wrong > 0) == ("refuted", True)  # the weights were rounded, and answers are lost
    assert shown["dtype"] in proof.reason  # the bounds are about other formats
    pairs = zip(ml.load(folder).parameters(), half.parameters(), strict=True)
    assert all(torch.equal(a.nan_to_num(9.0), b.nan_to_num(9.0)) for a, b in pairs)  # unseen ids are NaN


CASES: dict[str, Callable[[], tuple[ml.Monolayer, Any]]] = {
    "ids": lambda: (ml.memorize(X, Y, positions=True), X),
    "causal": lambda: (ml.memorize(ROWS, causal=True), ROWS),
    "real labels of sequences": lambda: (ml.memorize(VECTORS, VECTORS[:, 0, :2] / 7), VECTORS),
    "approximator": lambda: (ml.approximate(TARGETS["max"], 1, 3, cells=5, lipschitz=1.0), GRID),
}


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_answers_like_the_network(case: str) -> None:
    """Other batches too, of other lengths where the model takes them; `torch.export` for one of them."""
    model, data = CASES[case]()
    tokens, width = torch.from_numpy(data), data.shape[1]
    free = model.card.grid is None and model.positions is None
    other = torch.cat([tokens, tokens[:4]])
    # One place more, of padding: the tokens themselves stay those of the data.
    other = torch.cat([other, other[:, :1]], dim=1) if free else other
    batches = [(batch, torch.full((len(batch),), width)) for batch in (tokens, other)]
    axes = {"X": {0: "N", 1: "n"} if free else {0: "N"}, "lengths": {0: "N"}}
    names = {"input_names": ["X", "lengths"], "output_names": ["labels"], "dynamic_axes": axes}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(model, batches[0], file, dynamo=False, **names)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for batch in batches:
        inputs = {name: tensor.numpy() for name, tensor in zip(("X", "lengths"), batch, strict=True)}
        out, wanted = torch.from_numpy(session.run(None, inputs)[0]), model(*batch)
        if model.card.per == "token":
            out, wanted = out[:, :width], wanted[:, :width]  # behind it is padding, which means nothing
        if model.card.classes is not None:
            out, wanted = out.argmax(-1), wanted.argmax(-1)
        assert torch.equal(out, wanted)  # off the ramps, real labels bit for bit
    if case == "causal":
        N, n = torch.export.Dim("N"), torch.export.Dim("n")
        program = torch.export.export(model, batches[0], dynamic_shapes=({0: N, 1: n}, {0: N})).module()
        assert all(torch.equal(program(*batch), model(*batch)) for batch in batches)


# -- input that does not fit -------------------------------------------------------------------------------


def ids(*rows: list[int]) -> Tensor:
    return torch.tensor(rows)


@pytest.mark.parametrize(
    ("tokens", "lengths", "message"),
    [
        (ids([1, 2, -1]), None, r"token 2 of sequence 0 is -1: ids go from 0 to 29; padding .* lengths"),
        (ids([1, 2, 3], [4, 99, 5]), None, "token 1 of sequence 1 is 99: ids go from 0 to 29"),
        (ids([1, 2, 99]), torch.tensor([3]), "token 2 of sequence 0 is 99: ids go from 0 to 29"),
        (ids([1, 2, 3]).double(), None, "X is torch.float64, and ids are int64 or int32"),
        (ids([1, 2, 3]), torch.tensor([-1]), "lengths go from -1 to -1 .* whole numbers from 0 to 3"),
        (ids([1, 2, 3]), torch.tensor([4]), "lengths go from 4 to 4"),
        (ids([1, 2, 3]), torch.tensor([3, 3]), r"1 sequence, but lengths has shape \(2,\)"),
        (torch.zeros(3, dtype=torch.long), None, r"ids \(N, n\)"),
        ([[1, 2]], None, "forward takes tensors"),
        (ids([1, 2, 3]), [3], "forward takes tensors"),
        (V.float(), None, r"X is float32 and the model float64: pass X.to\(torch.float64\)"),
        (V[..., :2], None, "X has vectors of 2 numbers, and the model takes 3"),
        (V.masked_fill(V[1, 2, 0] == V, torch.nan), None, "token 2 of sequence 1 is not finite"),
        (V[:, :, 0], None, r"forward takes vectors \(N, n, 3\)"),
    ],
)
def test_what_forward_cannot_take_is_named(model: ml.Monolayer, tokens: Any, lengths: Any, message: str) -> None:
    if isinstance(tokens, Tensor) and len(tokens) == len(V):
        model = ml.memorize(VECTORS, VECTORS[..., 0])
    with pytest.raises(ml.DataError, match=message):
        model(tokens, lengths)


LETTERS, HOLES = ([["a", "b"]], [["x", "y"]]), ([[0, 1], [3, 1]], [[0, 1], [1, 1]])
PAIR = [[[0.0, 1.0]]], [[1]]


@pytest.mark.parametrize(
    ("data", "asked", "message"),
    [
        ((X, Y), np.tile(X[:1], (1, 2)), "longer than any"),
        (LETTERS, [["a", "c"]], "token 1 of sequence 0 is 'c', which the model has never seen"),
        (HOLES, [[0, 2]], "token 1 of sequence 0 is 2, which the model has never seen"),
        (HOLES, np.array([[0, 2]]), "token 1 of sequence 0 is 2, which the model has never seen"),
        (HOLES, [[7]], "is 7, which the model has never seen"),
        (HOLES, np.zeros((1, 2, 3)), "tokens of the model are integers"),
        (PAIR, np.zeros((1, 1, 3)), "vectors of 2 numbers"),
        (PAIR, np.full((1, 1, 2), np.nan), "NaN and infinity"),
    ],
)
def test_what_predict_cannot_answer_is_named(data: Any, asked: Any, message: str) -> None:
    model = ml.memorize(*data, positions=True)
    with pytest.raises(ml.DataError, match=message):
        model.predict(asked)
    with pytest.raises(ml.DataError, match="path must be one of 'auto', 'fast', 'dense', not 'quick'"):
        model.predict(data[0], path="quick")  # type: ignore[arg-type]


def test_an_unseen_id_is_refused_and_padding_may_be_any_number(model: ml.Monolayer) -> None:
    holes = ml.memorize(*HOLES)
    with pytest.raises(ml.DataError, match="token 1 of sequence 0 is 2, which the model has never seen"):
        holes(ids([0, 2]))
    answer = holes(ids([0, 1, 2], [3, 1, -1]), torch.tensor([2, 2]))
    assert answer[:, :2].argmax(-1).tolist() == [[0, 1], [1, 1]]
    assert holes(torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 2, 2)  # no batch, no logits
    lengths = torch.from_numpy(RANDOM.integers(1, 7, len(X)))
    inside = torch.arange(6) < lengths[:, None]
    plain = model(torch.from_numpy(X), lengths)[inside]
    for padding in (-1, 10**9):
        assert torch.equal(model(torch.from_numpy(X).masked_fill(~inside, padding), lengths)[inside], plain)
