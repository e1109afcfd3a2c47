"""Ids that are tensors on a device are answered there: the same labels; unusual input takes the ordinary path.

On a processor here; the same code runs where the tensors are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.model.shortcut import labels_there

RANDOM = np.random.default_rng(12)


def _data() -> tuple[Any, Any]:
    X = np.stack([RANDOM.permutation(50)[:7] for _ in range(100)])
    return X, RANDOM.integers(0, 5, X.shape)


@pytest.mark.parametrize("options", [{}, {"positions": True}, {"causal": True}, {"per": "sequence"}])
def test_look_ups_by_tensors_alone_are_the_look_ups(options: dict[str, Any]) -> None:
    X, Y = _data()
    Y = X.cumsum(axis=1) % 5 if "causal" in options else Y[:, 0] if "per" in options else Y
    model = ml.memorize(X, Y, **{name: value for name, value in options.items() if name != "per"})
    assert torch.equal(labels_there(model, torch.from_numpy(X)), torch.from_numpy(Y))
    with torch.no_grad():
        model.feed_forward.stages[0].bias_2 += 1.0
    assert np.array_equal(labels_there(model, torch.from_numpy(X)).numpy(), model.predict(X))


def test_real_labels_are_looked_up_by_tensors_too() -> None:
    X, Y = _data()
    labels = Y[..., None] * np.array([0.5, -3.0])
    assert torch.equal(labels_there(ml.memorize(X, labels), torch.from_numpy(X)), torch.from_numpy(labels))


def test_look_ups_that_are_not_plain_go_the_ordinary_way() -> None:
    X, Y = _data()
    ids = torch.from_numpy(X)
    model = ml.memorize(X, Y)
    for odd in (ids + 50, ids - 50, ids.double(), ids[0]):  # the first two hold ids that nobody knows
        assert labels_there(model, odd) is None
    assert labels_there(ml.memorize(X[:, ::-1] * 1000, Y), ids) is None  # ids that are not their row numbers
    assert labels_there(ml.memorize(X[:20], X[:20] % 5, robust=True), ids[:20]) is None
    assert labels_there(ml.memorize(X, 1000 * Y - 3), ids) is None  # classes that are not their numbers
    assert (
        labels_there(ml.memorize(np.where(X == 7, 8, X), Y, positions=True), ids) is None
    )  # an id in between that was never seen
    for none in (ids[:0], ids[:, :0], ids > 3, ids * 1j):
        assert labels_there(model, none) is None
    model.head.register_forward_hook(lambda *_: None)
    assert labels_there(model, ids) is None


def test_rows_longer_than_the_model_has_places_are_refused_as_those_on_a_processor_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = _data()
    model = ml.memorize(X, Y, positions=True)
    longer = torch.from_numpy(np.concatenate([X, X[:, :1]], axis=1))
    with pytest.raises(ml.DataError) as usual:
        model.predict(longer)
    monkeypatch.setattr("monolayer.model.monolayer.elsewhere", lambda X: X is longer)
    with pytest.raises(ml.DataError) as found:
        model.predict(longer)
    assert str(found.value) == str(usual.value)


def test_labels_return_to_where_the_ids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = _data()
    model = ml.memorize(X, Y)
    ids = torch.from_numpy(X)
    monkeypatch.setattr("monolayer.model.monolayer.elsewhere", lambda X: X is ids)
    for path in ("auto", "dense"):
        answer = model.predict(ids, path=path)
        assert isinstance(answer, torch.Tensor)
        assert torch.equal(answer, torch.from_numpy(Y))
    assert isinstance(ml.memorize(X, Y.astype(str)).predict(ids), np.ndarray)  # names are no numbers


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_model_of_tensors_on_a_device_is_built_here_and_goes_there() -> None:
    X, Y = _data()
    ids, labels = torch.from_numpy(X).cuda(), torch.from_numpy(Y).cuda()
    model = ml.memorize(ids, labels)
    assert model.bos.device == ids.device
    assert torch.equal(model.predict(ids), labels)
    assert ml.compare(model.cpu(), ml.memorize(X, Y)).same
