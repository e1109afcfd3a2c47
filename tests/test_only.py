"""`certify(only=True)`: that a readout holds nothing but the data is proved, and what is left of a fact is found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from tests.datasets import view
from tests.kinds import CASCADES, LINES, built, same_bits
from tests.stored_models import Saved
from tests.test_edit import DATA, READINGS, WORDS


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def test_that_nothing_else_is_held_is_proved_or_refuted(words: ml.Monolayer) -> None:
    """After forgetting the rest is all there is; before, the forgotten plateaus are found and named."""
    new, _ = ml.forget(words, ["行走"], DATA)
    rest = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]
    proof = ml.certify(new, *rest, only=True)
    assert proof.verdict == "proved"
    assert "nothing else" in proof.claim
    assert ml.certify(words, *rest).verdict == "proved"
    before = ml.certify(words, *rest, only=True)
    assert before.verdict == "refuted"
    assert "holds no labelled point" in before.reason
    assert "zǒu" in before.reason or "xíng" in before.reason


def test_faults_planted_in_an_edit_are_refuted(words: ml.Monolayer, tmp_path: Path) -> None:
    """Each leaves something of a forgotten fact, or harms a kept one."""
    saved = Saved.read(ml.forget(words, ["行走"], DATA)[0].save(tmp_path / "new"))
    w, b, v = (saved.tensors[f"feed_forward.{name}"] for name in ("weight_1", "bias_1", "weight_2"))
    start, width = -b[1] / w[1], 1.0 / w[1]
    moved = saved.edited("feed_forward.bias_1", 1, -(start + width / 2.0) * w[1])
    wider = saved.edited("feed_forward.weight_1", 1, w[1] / 2.0)
    wider = wider.edited("feed_forward.bias_1", 1, -(start - width / 2.0) * w[1] / 2.0)
    label = saved.edited("feed_forward.weight_2", (0, 1), v[0, 1] + 1.0)
    parts = {"weight_1": w[1], "bias_1": b[1], "weight_2": 0.0}  # a step that changes nothing
    more = {f"feed_forward__{k}": np.insert(saved.tensors[f"feed_forward.{k}"], 2, x, -1) for k, x in parts.items()}
    nothing = saved.changed(**more)
    nothing.config["steps"] += 1
    rest = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]
    for name, fault in {"moved": moved, "wider": wider, "label": label, "nothing": nothing}.items():
        assert ml.certify(fault.write(tmp_path / name), *rest, only=True).verdict == "refuted", name


def test_a_token_that_should_be_gone_is_found(words: ml.Monolayer) -> None:
    new, _ = ml.forget(words, "行", DATA)
    with torch.no_grad():
        new.lift.weight[:] = words.lift.weight
    proof = ml.certify(new, WORDS[2:], READINGS[2:], only=True)
    assert proof.verdict == "refuted"
    assert "does not occur" in proof.reason


def test_a_fingerprint_of_a_forgotten_fact_is_found() -> None:
    """The readout may hold nothing else, and the model still know that it has seen a fact."""
    X, Y = [[0, 1], [1, 2], [0, 2], [2, 2]], [0, 0, 0, 0]
    model = ml.memorize(X, Y, fingerprint=True)
    assert ml.certify(model, X, Y, only=True).verdict == "proved"
    proof = ml.certify(model, X[:3], Y[:3], only=True)
    assert proof.verdict == "refuted"
    assert "1 of 4 fingerprints" in proof.reason
    assert ml.certify(ml.forget(model, [3], (X, Y))[0], X[:3], Y[:3], only=True).verdict == "proved"


@pytest.mark.parametrize("kind", [kind for kind in (*LINES, *CASCADES) if kind != "line paper"])
def test_what_was_forgotten_is_gone_and_what_was_not_is_seen(kind: str) -> None:
    model, data = built(kind)
    assert ml.certify(model, data, only=True).verdict == "proved"
    rest = data.select(np.arange(1, len(data)))
    proof = ml.certify(model, rest, only=True)
    assert proof.verdict == "refuted"
    assert "the model holds more than the data" in proof.reason
    assert ml.certify(model, rest).verdict == "proved"


def test_a_cascade_holds_nothing_else_iff_it_is_the_model_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of small cascades, one after the other: every way in which something may be left is met."""
    held = []
    for seed in (1, 11):
        random = np.random.default_rng(seed)
        X: Any = [random.integers(0, 10, random.integers(2, 6)).tolist() for _ in range(14)]
        labels: dict[Any, int] = {}
        seen = [[view(row, k, False, False) for k in range(len(row))] for row in X]
        Y: Any = [[labels.setdefault(key, int(random.integers(0, 5))) for key in row] for row in seen]
        held.append((ml.Sequences.of(X, Y), False))
    random = np.random.default_rng(1)
    held.append((ml.Sequences.of(random.integers(0, 9, (30, 4)), random.integers(0, 3, 30) / 4.0), True))
    reasons = []
    for whole, positions in held:
        room = 16.0 * ml.memorize(whole, positions=positions).summary.margin
        with monkeypatch.context() as patch:
            for module in ("points", "separate"):
                patch.setattr(f"monolayer.construct.line.{module}.SLACK", room)
            model = ml.memorize(whole, positions=positions)
            model.card = replace(model.card, summary=None)
            assert model.feed_forward.readout == "cascade"
            facts = ml.Facts.of(model, whole)
            for row in range(len(whole)):
                new, _ = ml.forget(facts, [row])
                proof = ml.certify(model, new.data, only=True)
                assert (proof.verdict == "proved") == same_bits(new.model, model)
                reasons.append(proof.reason)
    for words in (
        "holds no labelled point",
        "from the middle of its gap",
        "the least that its points miss",
        "cut into",
    ):
        assert any(words in reason for reason in reasons), words


def test_a_label_hidden_where_no_point_falls_is_found(tmp_path: Path) -> None:
    """Two steps, up and down again, in a later stage, or in a cell: no answer changes."""
    model, data = built("cascade tokens")
    saved = Saved.read(model.save(tmp_path / "model"))
    level = float(saved.tensors["feed_forward.stages.0.bias_2"][1]) + 40.0  # far right of every stretch
    start, slope = np.array([level, level + 0.25], dtype=np.float32), np.float32(2.0**10)
    for name, more in {"weight_1": [slope, slope], "bias_1": -slope * start, "weight_2": [[-1.0, 1.0]]}.items():
        name = f"feed_forward.stages.1.{name}"
        saved.tensors[name] = np.append(saved.tensors[name], more, axis=-1).astype(np.float32)
    steps = [saved.config["cascade"]["steps"][0], len(saved.tensors["feed_forward.stages.1.bias_1"])]
    saved.config |= {"cascade": {"steps": steps}, "steps": sum(steps)}
    folder = saved.write(tmp_path / "planted")
    assert ml.certify(folder, data).verdict == "proved"
    proof = ml.certify(folder, data, only=True)
    assert proof.verdict == "refuted"
    assert "stage 2: the plateau from" in proof.reason


def _numbers_moved(tensors: dict[str, Any]) -> None:
    """Every stretch has the number after its own, and the next stage looks for it there."""
    tensors["feed_forward.stages.0.bias_2"][1] += 1.0
    tensors["feed_forward.stages.1.bias_1"] -= tensors["feed_forward.stages.1.weight_1"]


def _label_in_parts(tensors: dict[str, Any]) -> None:
    """A plateau whose number only rounds to its label: what it is off by could say something."""
    tensors["feed_forward.bias_2"][0] += 2.0**-10


def _half_a_row(tensors: dict[str, Any]) -> None:
    """Of a forgotten token the key and the code."""
    gone = np.isnan(tensors["lift.weight"][:, 0])
    assert gone.any()
    tensors["lift.weight"][gone, 1:3] = 0.5


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("cascade tokens", _numbers_moved, "stage 2: the stretches of the line before do not have the numbers"),
        ("line float32", _label_in_parts, "a plateau writes"),
        ("line float32", _half_a_row, "has a row, and does not occur in the data"),
    ],
)
def test_what_changes_no_label_of_the_data_is_seen_too(kind: str, change: Any, words: str, tmp_path: Path) -> None:
    model, data = built(kind)
    if kind == "line float32":
        token = int(np.flatnonzero(np.bincount(data.tokens) == 1)[0])
        row = int(data.sequence[data.tokens == token][0])
        model, data = ml.forget(model, [row], data)[0], data.select(np.setdiff1d(np.arange(len(data)), [row]))
    saved = Saved.read(model.save(tmp_path / "plain")).changed()
    change(saved.tensors)
    folder = saved.write(tmp_path / "planted")
    assert ml.certify(folder, data).verdict == "proved"
    proof = ml.certify(folder, data, only=True)
    assert proof.verdict == "refuted"
    assert re.search(words, proof.reason)
