"""How sure a stock folder seems: the rule for the size of its head, which changes no answer and no proof."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN
from monolayer.stock.answers import Evaluation
from monolayer.stock.assemble import SIZES, _logits
from monolayer.stock.folder import StockModel

X = np.stack([np.random.default_rng(row).permutation(12)[:4] for row in range(40)])
Y = np.cumsum(X * X, axis=1) % 5
"""Labels that the tokens so far determine."""
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "bert": ("bert", Y, {"positions": True}),
    "bert sequences": ("bert", Y[:, -1], {}),
    "roberta steps, sequences": ("roberta", Y[:, -1], {"storage": "steps"}),
    "distilbert float16, sequences": ("distilbert", Y[:, -1], {"dtype": "float16"}),
    "gpt2 steps": ("gpt2", Y, {"storage": "steps"}),
    "llama bfloat16": ("llama", Y, {"dtype": "bfloat16"}),
    "opt, next tokens": ("opt", None, {"positions": True, "on_conflict": "first"}),
}


def median(model: StockModel, times: float = 1.0) -> float:
    """Of the probabilities of all answers, with another size of the head."""
    network = Evaluation(model.facts, model.arrays)
    ids = np.insert(X + len(model.facts.architecture.special), 0, BEGIN, axis=1)
    found = network.logits(ids, network.asked) * times
    return float(np.median(found.softmax(dim=-1).max(dim=-1).values.numpy()))


@pytest.mark.parametrize("case", CASES)
def test_the_head_is_the_least_power_of_two_that_is_sure_enough(case: str) -> None:
    name, labels, options = CASES[case]
    data = ml.Sequences.of(X, labels)
    before = None
    for confidence in (0.9, None, 0.9999999):
        model = ml.memorize_as(name, data, rank=None if "storage" in options else 32, confidence=confidence, **options)
        wanted = confidence or 0.99
        assert model.draw.head in SIZES
        assert median(model) >= wanted > median(model, 0.5)
        if labels is not None:
            assert ml.certify(model, data).verdict == "proved"
        # Nothing but the head depends on it, and there a power of two.
        rest = {name: part for name, part in model.arrays.items() if name != "W_H"}
        if before is not None:
            assert all(np.array_equal(part, before.arrays[name]) for name, part in rest.items())
            assert np.array_equal(model.arrays["W_H"] / model.draw.head, before.arrays["W_H"] / before.draw.head)
            assert np.array_equal(model.labels(data), before.labels(data))
        before = model


def test_an_edit_keeps_the_size_of_the_head() -> None:
    """It is part of the draw, so that an edit gives the bits of a construction."""
    model = ml.memorize_as("gpt2", X, Y, confidence=0.6, rank=32)
    less, _ = ml.forget(model, [3, 5], (X, Y))
    assert less.draw.head == model.draw.head < ml.memorize_as("gpt2", X, Y, rank=32).draw.head
    with pytest.raises(ml.DataError, match="draw= decides confidence"):
        ml.memorize_as("gpt2", X, Y, draw=model, confidence=0.6)


def test_of_many_or_long_sequences_some_facts_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monolayer.stock.assemble.ASKED", 7)
    monkeypatch.setattr("monolayer.stock.answers.AT_ONCE", 1 << 10)
    labels: list[Any] = [[None, None, int(row[2]), None] for row in Y]
    for data in (ml.Sequences.of(X, labels), ml.Sequences.of(X, Y[:, -1]), ml.Sequences.of(X[:1])):
        model = ml.memorize_as("gpt2", data, storage="steps")
        asked = _logits(model.facts, model.arrays, data)
        assert sum(map(len, asked)) == min(7, len(data.labelled_places))
        network = Evaluation(model.facts, model.arrays)
        ids = np.insert(data.tokens.reshape(-1, 4) + 4, 0, BEGIN, axis=1)
        every = network.logits(ids, network.asked).flatten(0, 1)[data.labelled_places]
        assert all((np.abs(row - every.numpy()).sum(axis=1) < 1e-9).any() for part in asked for row in part.numpy())


@pytest.mark.parametrize("confidence", [0, 1, 1.5, "high", True, float("nan")])
def test_what_is_no_probability_is_refused(confidence: Any) -> None:
    with pytest.raises(ml.DataError, match="must be a probability between 0 and 1"):
        ml.memorize_as("bert", X, Y, confidence=confidence)
