"""The line built by tensors alone is the line: the same labels, the same proof, and no opinion on what is not plain.

On a processor here; the same code runs where the tensors are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.construct.line import tensors
from monolayer.construct.line.tensors import LUCK

RANDOM = np.random.default_rng(12)


def _data(kind: str) -> tuple[Any, Any]:
    X = np.stack([RANDOM.permutation(50)[:7] for _ in range(300)])
    Y = {"tokens": RANDOM.integers(0, 5, X.shape), "sequences": RANDOM.integers(0, 5, 300), "one": np.zeros_like(X)}[
        kind
    ]
    return X, Y


@pytest.mark.parametrize("kind", ["tokens", "sequences", "one"])
def test_every_label_is_proved_and_the_summary_is_that_of_the_ordinary_way(kind: str) -> None:
    X, Y = _data(kind)
    model = tensors.build(torch.from_numpy(X), torch.from_numpy(Y), 0, None)
    assert model is not None
    assert np.array_equal(model.predict(X), Y)
    assert np.array_equal(model.predict(X, path="dense"), Y)
    assert ml.certify(model, X, Y).verdict == "proved"
    usual = ml.memorize(X, Y).summary
    found = model.summary
    assert found is not None
    for name in ("sequences", "labelled", "points", "vocabulary", "temperature", "draws", "conflicts", "layout"):
        assert getattr(found, name) == getattr(usual, name), name
    assert found.label_bits == pytest.approx(usual.label_bits)
    assert found.gap == pytest.approx(usual.gap, rel=0.5)
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", ["tokens", "sequences"])
def test_points_too_close_for_a_step_get_a_second_stage(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SLACK", 1e11 if kind == "tokens" else 2e10)
    X, Y = _data(kind)
    model = tensors.build(torch.from_numpy(X), torch.from_numpy(Y), 0, None)
    assert model is not None
    assert model.summary is not None
    assert model.summary.rank == 2
    assert model.summary.contested
    assert model.summary.contested[0] > LUCK
    assert np.array_equal(model.predict(X), Y)
    assert np.array_equal(model.predict(X, path="dense"), Y)
    assert torch.equal(model._labels_there(torch.from_numpy(X)), torch.from_numpy(Y))
    assert ml.certify(model, X, Y).verdict == "proved"
    with torch.no_grad():
        model.lift.weight[:, -2] = 0.0  # what the second stage averages
    assert ml.certify(model, X, Y).verdict == "refuted"


def test_the_weights_are_those_of_the_ordinary_way_to_the_bit_where_the_codes_are() -> None:
    X = np.stack([RANDOM.permutation(50)[:7] for _ in range(300)])
    Y = RANDOM.integers(0, 5, 300)  # one label per sequence: no order of codes to choose
    ours, usual = (
        tensors.build(torch.from_numpy(X), torch.from_numpy(Y), 3, 1.5),
        ml.memorize(X, Y, seed=3, temperature=1.5),
    )
    assert ours is not None
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), usual.parameters(), strict=True))


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        ([[1, 2], [2, 1]], [[0, 1], [1, 2]]),  # a contradiction
        ([[-1, 2]], [[0, 1]]),
        ([[10**9, 2]], [[0, 1]]),
        ([[1, 2]], [[0, 10**9]]),
        ([[1, 2]], [[0.5, 1.5]]),
        ([[1, 2]], [[0, 1, 2]]),
        ([[[0.5], [1.5]]], [[0, 1]]),
    ],
)
def test_what_is_not_plain_is_left_to_the_ordinary_way(X: Any, Y: Any) -> None:
    assert tensors.build(torch.tensor(X), torch.tensor(Y), 0, None) is None


def test_memorize_builds_where_the_tensors_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = _data("tokens")
    here = tensors.build(torch.from_numpy(X), torch.from_numpy(Y), 0, None)
    asked: list[str] = []

    def build(X: Any, Y: Any, seed: int, temperature: float | None) -> Any:
        asked.append(X.device.type)
        return here

    monkeypatch.setattr(tensors, "build", build)
    elsewhere = torch.from_numpy(X).to("meta"), torch.from_numpy(Y).to("meta")
    assert ml.memorize(*elsewhere) is here
    assert asked == ["meta"]
    ml.memorize(torch.from_numpy(X), torch.from_numpy(Y))  # on a processor NumPy sorts faster
    ml.memorize(torch.from_numpy(X), torch.from_numpy(Y), positions=True)
    assert asked == ["meta"]


def test_too_little_memory_says_how_much_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(tensors, "_build", full)
    with pytest.raises(ml.OutOfMemoryError, match=r"2 labels need about .* GiB on cpu .* split the data over several"):
        tensors.build(torch.tensor([[1, 2]]), torch.tensor([[0, 1]]), 0, None)


@pytest.mark.parametrize("options", [{}, {"positions": True}, {"causal": True}, {"per": "sequence"}])
def test_look_ups_by_tensors_alone_are_the_look_ups(options: dict[str, Any]) -> None:
    X = _data("tokens")[0]
    Y = X % 5 if "per" not in options else X[:, 0]
    model = ml.memorize(X, Y, **{name: value for name, value in options.items() if name != "per"})
    found = model._labels_there(torch.from_numpy(X))
    assert found is not None
    assert torch.equal(found, torch.from_numpy(Y))
    with torch.no_grad():
        model.feed_forward.bias_2 += 1.0
    changed = model._labels_there(torch.from_numpy(X))
    assert changed is not None
    assert np.array_equal(changed.numpy(), model.predict(X))


def test_look_ups_that_are_not_plain_go_the_ordinary_way() -> None:
    X, Y = _data("tokens")
    ids = torch.from_numpy(X)
    model = ml.memorize(X, Y)
    assert model._labels_there(ids + 50) is None  # ids that nobody knows
    assert model._labels_there(ids - 50) is None
    assert model._labels_there(ids.double()) is None
    assert model._labels_there(ids[0]) is None
    assert ml.memorize(X[:, ::-1] * 1000, Y)._labels_there(ids) is None  # ids that are not their row numbers
    assert ml.memorize(X[:20], X[:20] % 5, robust=True)._labels_there(ids[:20]) is None
    model.head.register_forward_hook(lambda *_: None)
    assert model._labels_there(ids) is None


def test_labels_return_to_where_the_ids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = _data("tokens")
    model = ml.memorize(X, Y)
    ids = torch.from_numpy(X)
    monkeypatch.setattr("monolayer.model.monolayer.elsewhere", lambda X: X is ids)
    for path in ("auto", "dense"):
        answer = model.predict(ids, path=path)
        assert isinstance(answer, torch.Tensor)
        assert torch.equal(answer, torch.from_numpy(Y))
    assert isinstance(ml.memorize(X, Y.astype(str)).predict(ids), np.ndarray)  # names are no numbers
