"""`certify(only=True)`: that a line holds nothing but the data is proved, and what is left of a fact is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from tests.kinds import LINES, built
from tests.stored_models import Saved
from tests.test_edit import DATA, READINGS, WORDS
from tests.verdicts import expect

REST = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def refuted(model: Any, *data: Any) -> str:
    """The reason, where every label comes back and the model holds more."""
    expect("proved", "", model, *data)
    return expect("refuted", "the model holds more than the data", model, *data, only=True).reason


def test_that_nothing_else_is_held_is_proved_or_refuted(words: ml.Monolayer) -> None:
    """After forgetting the rest is all there is; before, the forgotten plateaus are found and named."""
    assert "nothing else" in expect("proved", "", ml.forget(words, ["行走"], DATA)[0], *REST, only=True).claim
    before = refuted(words, *REST)
    assert "holds no labelled point" in before
    assert "zǒu" in before or "xíng" in before


def test_faults_planted_in_an_edit_are_refuted(words: ml.Monolayer) -> None:
    """Each leaves something of a forgotten fact."""
    saved = Saved.of(ml.forget(words, ["行走"], DATA)[0])
    w, b = (saved.tensors[f"feed_forward.{name}"] for name in ("weight_1", "bias_1"))
    start, width = -b[1] / w[1], 1.0 / w[1]
    moved = saved.edited("feed_forward.bias_1", 1, -(start + width / 2.0) * w[1])
    wider = saved.edited("feed_forward.weight_1", 1, w[1] / 2.0)
    wider = wider.edited("feed_forward.bias_1", 1, -(start - width / 2.0) * w[1] / 2.0)
    parts = {"weight_1": w[1], "bias_1": b[1], "weight_2": 0.0}  # a step that changes nothing
    more = {f"feed_forward__{k}": np.insert(saved.tensors[f"feed_forward.{k}"], 2, x, -1) for k, x in parts.items()}
    nothing = saved.changed(**more)
    nothing.config["steps"] += 1
    # A plateau whose number only rounds to its label: what it is off by could say something.
    label = saved.edited("feed_forward.bias_2", 0, saved.tensors["feed_forward.bias_2"][0] + 2.0**-10)
    faults = {"moved": "from the middle of its gap", "wider": "too wide", "label": "a plateau writes", "nothing": ""}
    for (name, reason), fault in zip(faults.items(), (moved, wider, label, nothing), strict=True):
        assert reason in refuted(fault, *REST), name
    wrong = saved.edited("feed_forward.weight_2", (0, 1), saved.tensors["feed_forward.weight_2"][0, 1] + 1.0)
    assert "holds more" not in expect("refuted", "", wrong, *REST, only=True).reason


@pytest.mark.parametrize("columns", [slice(None), slice(1, 3)], ids=["a row", "key and code alone"])
def test_a_token_that_should_be_gone_is_found(words: ml.Monolayer, columns: slice) -> None:
    new, _ = ml.forget(words, [0, 1], DATA)
    with torch.no_grad():
        new.lift.weight[:, columns] = words.lift.weight[:, columns]
    assert "has a row, and does not occur in the data" in refuted(new, WORDS[2:], READINGS[2:])


def test_a_fingerprint_of_a_forgotten_fact_is_found() -> None:
    """The readout may hold nothing else, and the model still know that it has seen a fact."""
    X, Y = [[0, 1], [1, 2], [0, 2], [2, 2]], [0, 0, 0, 0]
    model = ml.memorize(X, Y, fingerprint=True)
    expect("proved", "", model, X, Y, only=True)
    assert "1 of 4 fingerprints" in refuted(model, X[:3], Y[:3])
    expect("proved", "", ml.forget(model, [3], (X, Y))[0], X[:3], Y[:3], only=True)


@pytest.mark.parametrize("kind", LINES)
def test_what_was_forgotten_is_gone_and_what_was_not_is_seen(kind: str) -> None:
    model, data = built(kind)
    expect("proved", "", model, data, only=True)
    refuted(model, data.select(np.arange(1, len(data))))


def test_what_is_no_line_is_refused() -> None:
    for kind, words in (("cascade tokens", "this model is a cascade"), ("robust positions", "holds many facts")):
        model, data = built(kind)
        with pytest.raises(ml.DataError, match=rf"only= asks what the steps of one line hold; .*{words}.*draw=model"):
            ml.certify(model, data, only=True)
