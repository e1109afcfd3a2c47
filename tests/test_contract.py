"""Every construction keeps the same promises: each label, one function on every path, a file, a proof, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml

CONSTRUCTIONS: dict[str, dict[str, Any]] = {"exact": {}, "paper": {"readout": "paper"}, "robust": {"robust": True}}
CONSTRUCTIONS["float32"] = {"dtype": "float32"}
"""Wishes, as `memorize` takes them, that choose each construction."""
RANDOM = np.random.default_rng(11)


def _ragged() -> tuple[list[list[int]], list[list[str]]]:
    X = [RANDOM.integers(0, 12, size).tolist() for size in RANDOM.permutation(np.arange(1, 25))]
    return X, [[str((token * len(row)) % 5) for token in row] for row in X]


def _rectangle(labels: Any) -> tuple[Any, Any]:
    return RANDOM.integers(0, 30, (40, 6)), RANDOM.integers(0, 4, labels)


def _prefixes() -> tuple[Any, Any]:
    """Labels that depend on what came before, and on nothing else: prefixes repeat."""
    X = RANDOM.integers(0, 30, (40, 6))
    return X, (X.cumsum(axis=1) * (1 + np.arange(6))) % 4


DATA: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "tokens": (*_rectangle((40, 6)), {"positions": True}),
    "sequences": (*_rectangle(40), {}),
    "ragged strings": (*_ragged(), {}),
    "causal": (*_prefixes(), {"positions": True, "causal": True}),
    "next token": (RANDOM.permutation(200)[None], None, {"causal": True}),
    "vectors": (RANDOM.standard_normal((20, 5, 3)), RANDOM.integers(0, 4, (20, 5)), {}),
}


def _labels(model: ml.Monolayer, X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
    """What the model answers and what it should, flat; the last token has no next token."""
    answers = model.predict(X)
    if Y is None:
        return answers[:, :-1].ravel().tolist(), np.asarray(X)[:, 1:].ravel().tolist()
    flat = [label for row in Y for label in np.ravel(row).tolist()]
    return [label for row in answers for label in np.ravel(row).tolist()], flat


@pytest.fixture(
    scope="module", params=[(c, d) for c in CONSTRUCTIONS for d in DATA], ids=lambda pair: " on ".join(pair)
)
def built(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, Any, Any]:
    wishes, (X, Y, rules) = CONSTRUCTIONS[request.param[0]], DATA[request.param[1]]
    return ml.memorize(X, Y, **rules, **wishes), X, Y


def test_every_label_comes_back(built: Any) -> None:
    got, wanted = _labels(*built)
    assert got == wanted


def test_the_dense_network_answers_like_the_shortcut(built: Any) -> None:
    model, X, _ = built
    data = model.encode(X)
    assert np.array_equal(model.labels(data, path="auto"), model.labels(data, path="dense"))


def test_a_saved_model_is_the_same_model(built: Any, tmp_path: Path) -> None:
    model, X, Y = built
    model.save(tmp_path / "model")
    loaded = ml.load(tmp_path / "model")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    assert _labels(loaded, X, Y)[0] == _labels(model, X, Y)[0]


def test_the_certificate_proves_right_labels_and_refutes_a_wrong_one(built: Any) -> None:
    model, X, Y = built
    assert ml.certify(model, X, Y).verdict == "proved"
    if Y is None:
        return
    wrong = [np.array(row, copy=True) if np.ndim(row) else row for row in Y]
    other = next(label for row in Y for label in np.ravel(row).tolist() if label != np.ravel(wrong[0])[0])
    if np.ndim(wrong[0]):
        wrong[0][0] = other
        wrong = [row.tolist() for row in wrong]
    else:
        wrong[0] = other
    assert ml.certify(model, X, wrong).verdict == "refuted"


def test_the_summary_says_what_was_built(built: Any) -> None:
    model, X, Y = built
    assert model.summary.labelled == len(_labels(model, X, Y)[1])
    assert model.summary.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("wishes", CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_contradictions_are_named_and_can_be_settled(wishes: dict[str, Any]) -> None:
    X, Y = [[1, 2], [2, 1], [1, 2]], [[0, 1], [1, 0], [3, 1]]
    with pytest.raises(ml.ContradictionError, match="token 0 of sequence 2"):
        ml.memorize(X, Y, **wishes)
    assert [row.tolist() for row in ml.memorize(X, Y, on_conflict="first", **wishes).predict(X)] == [
        [0, 1],
        [1, 0],
        [0, 1],
    ]
