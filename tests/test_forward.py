"""The model as a module among others: hooks, wrappers, half precision, tracing, export, and input that does not fit."""

from __future__ import annotations

import copy
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import monolayer as ml
from monolayer.cli import run
from monolayer.theory.targets import TARGETS

RANDOM = np.random.default_rng(17)
X = RANDOM.integers(0, 30, (25, 6))
Y = RANDOM.integers(0, 4, X.shape)
VECTORS = RANDOM.normal(size=(20, 5, 3))


@pytest.fixture
def model() -> ml.Monolayer:
    return ml.memorize(X, Y, positions=True)


# -- half precision ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float16, "reals"), (torch.bfloat16, "classes")])
def test_half_precision_answers_and_is_inspected(
    dtype: torch.dtype, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ml.memorize(X, Y, positions=True) if kind == "classes" else ml.memorize(VECTORS, VECTORS[..., 0])
    half = copy.deepcopy(model).to(dtype)
    data = X if kind == "classes" else VECTORS
    for path in ("auto", "dense"):
        assert half.predict(data, path=path).shape == data.shape[:2]
    folder = half.save(tmp_path / "half")
    assert run(["inspect", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["dtype"] == str(dtype).removeprefix("torch.")
    assert set(shown["ranks"].values()) == {1}
    proof = ml.certify(folder, data, model.predict(data))
    assert (proof.verdict, proof.wrong) == ("undecided", 0)
    assert shown["dtype"] in proof.reason
    loaded = ml.load(folder)
    pairs = zip(loaded.parameters(), half.parameters(), strict=True)
    assert all(torch.equal(a.nan_to_num(9.0), b.nan_to_num(9.0)) for a, b in pairs)  # unseen ids are NaN


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
        ([[1, 2]], None, "forward takes tensors"),
        (ids([1, 2, 3]), [3], "forward takes tensors"),
    ],
)
def test_ids_that_do_not_fit_are_named(model: ml.Monolayer, tokens: Any, lengths: Any, message: str) -> None:
    with pytest.raises(ml.DataError, match=message):
        model(tokens, lengths)


def test_an_unseen_id_is_refused_not_answered_from_nan() -> None:
    model = ml.memorize([[0, 1], [3, 1]], [[0, 1], [1, 1]])
    with pytest.raises(ml.DataError, match="token 1 of sequence 0 is 2, which the model has never seen"):
        model(ids([0, 2]))
    answer = model(ids([0, 1, 2], [3, 1, -1]), torch.tensor([2, 2]))
    assert answer[:, :2].argmax(-1).tolist() == [[0, 1], [1, 1]]


def test_padding_may_be_any_number(model: ml.Monolayer) -> None:
    lengths = torch.from_numpy(RANDOM.integers(1, 7, len(X)))
    inside = torch.arange(6) < lengths[:, None]
    plain = model(torch.from_numpy(X), lengths)[inside]
    for padding in (-1, -100, 10**9):
        padded = torch.from_numpy(X).masked_fill(~inside, padding)
        assert torch.equal(model(padded, lengths)[inside], plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda V: V.float(), r"X is float32 and the model float64: pass X.to\(torch.float64\)"),
        (lambda V: V[..., :2], "X has vectors of 2 numbers, and the model takes 3"),
        (lambda V: V.masked_fill(V[1, 2, 0] == V, torch.nan), "token 2 of sequence 1 is not finite"),
        (lambda V: V[0], r"forward takes vectors \(N, n, 3\)"),
    ],
)
def test_vectors_that_do_not_fit_are_named(change: Any, message: str) -> None:
    model = ml.memorize(VECTORS, RANDOM.integers(0, 3, (20, 5)))
    with pytest.raises(ml.DataError, match=message):
        model(change(torch.from_numpy(VECTORS)))


# -- recorded ----------------------------------------------------------------------------------------------


def _next_tokens() -> tuple[ml.Monolayer, Tensor]:
    rows = RANDOM.permutation(60).reshape(10, 6)
    return ml.memorize(rows, causal=True), torch.from_numpy(rows)


CASES: dict[str, Callable[[], tuple[ml.Monolayer, Tensor]]] = {
    "ids": lambda: (ml.memorize(X, Y, positions=True), torch.from_numpy(X)),
    "causal": _next_tokens,
    "real labels of sequences": lambda: (ml.memorize(VECTORS, VECTORS[:, 0, :2] / 7), torch.from_numpy(VECTORS)),
    "approximator": lambda: (
        ml.approximate(TARGETS["max"], 1, 3, cells=5, lipschitz=1.0),
        torch.from_numpy(RANDOM.random((9, 3, 1))),
    ),
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def recorded(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, tuple[Tensor, Tensor], tuple[Tensor, Tensor], bool]:
    """A model, what it is recorded on, a batch of another size, and whether its length may change."""
    model, tokens = CASES[request.param]()
    lengths = torch.full((len(tokens),), tokens.shape[1])
    fixed = model.card.grid is not None
    other = torch.cat([tokens, tokens[:4]])
    if fixed:
        return model, (tokens, lengths), (other, torch.full((len(other),), tokens.shape[1])), fixed
    # One place more, of padding: the tokens themselves stay those of the data.
    padded = torch.cat([other, other[:, :1]], dim=1)[:, : None if model.positions is None else tokens.shape[1]]
    return model, (tokens, lengths), (padded, torch.full((len(other),), tokens.shape[1])), fixed


def test_a_trace_answers_other_batches(recorded: Any) -> None:
    model, (seen, _), (other, _), _ = recorded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # tracing itself is on its way out; nothing else is
        trace = torch.jit.trace(model, (seen,))
    for batch in (seen, other):
        assert torch.equal(trace(batch), model(batch))


def test_an_export_has_dynamic_shapes(recorded: Any) -> None:
    model, seen, other, fixed = recorded
    N, n = torch.export.Dim("N"), torch.export.Dim("n")
    shapes = ({0: N} if fixed or model.positions is not None else {0: N, 1: n}, {0: N})
    program = torch.export.export(model, seen, dynamic_shapes=shapes).module()
    for batch in (seen, other):
        assert torch.equal(program(*batch), model(*batch))


def test_onnxruntime_answers_like_the_network(recorded: Any) -> None:
    model, seen, other, fixed = recorded
    axes = {"X": {0: "N"} if fixed else {0: "N", 1: "n"}, "lengths": {0: "N"}}
    names = {"input_names": ["X", "lengths"], "output_names": ["labels"], "dynamic_axes": axes}
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(model, seen, file, dynamo=False, **names)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for batch in (seen, other):
        inputs = {name: tensor.numpy() for name, tensor in zip(("X", "lengths"), batch, strict=True)}
        out, wanted = torch.from_numpy(session.run(None, inputs)[0]), model(*batch)
        if model.card.per == "token":
            width = int(seen[1][0])
            out, wanted = out[:, :width], wanted[:, :width]  # behind it is padding, which means nothing
        if model.card.classes is None:
            assert torch.equal(out, wanted)  # off the ramps, real labels bit for bit
        else:
            assert torch.equal(out.argmax(-1), wanted.argmax(-1))
