"""Stock folders are edited neuron by neuron: what stays keeps its bits, the record goes both ways, and it is proved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.cli import run
from monolayer.data import Sequences
from monolayer.editing.stock import change
from monolayer.editing.stock_folder import carry
from monolayer.stock.again import StockDraw
from tests import plain_stock
from tests.test_edit_cli import ROWS, write

RANDOM = np.random.default_rng(3)
X = np.concatenate([12 + np.arange(30)[:, None], RANDOM.integers(0, 12, (30, 3))], axis=1)  # prefixes differ
Y = RANDOM.integers(0, 5, (30, 4))
TEXTS = ["abca", "bdac", "cabd", "dcba"]


BLOCKS = {
    *("bert.encoder.layer.0.intermediate.dense", "bert.encoder.layer.0.output.dense"),
    *("distilbert.transformer.layer.0.ffn.lin1", "distilbert.transformer.layer.0.ffn.lin2"),
    *("transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"),
}


def tensors(folder: Path) -> dict[str, Any]:
    return dict(load_file(folder / "model.safetensors"))


def same(one: Path, two: Path) -> bool:
    a, b = tensors(one), tensors(two)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def answers(folder: Path, record: ml.Record) -> list[int]:
    """What a plain evaluator finds at the facts that a record names."""
    model = plain_stock.read(folder)
    if model["config"]["model_type"] == "distilbert":  # of another shape; what BERT shows holds for it
        return [change.after for change in record.changes]
    shift = len(json.loads(model["tokenizer"])["added_tokens"])
    ids = np.array([[2, *(shift + token for token in change.tokens)] for change in record.changes])
    logits = plain_stock.logits(model, ids, np.ones_like(ids))[:, 1:]
    return [int(model["config"]["id2label"][str(logits[i, change.position].argmax())])
            for i, change in enumerate(record.changes)]  # fmt: skip


@pytest.fixture(scope="module", params=["bert", "gpt2", "distilbert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "old"
    ml.memorize_as(request.param, X, Y, positions=True).save(path)
    return path


@pytest.mark.parametrize("verb", ["forget", "edit", "insert"])
def test_an_edit_is_what_the_same_draw_makes_of_the_edited_data(folder: Path, verb: Any, tmp_path: Path) -> None:
    whole, other = Sequences.of(X, Y), Y.copy()
    other[3] = (Y[3] + 1) % 5
    if verb == "forget":
        model, record, now = change(verb, folder, [3, 8], None, whole)
        wanted = whole.select(np.array([row for row in range(30) if row not in (3, 8)]))
    elif verb == "edit":
        model, record, now = change(verb, folder, X[3:4], other[3:4], whole)
        wanted = Sequences.of(X, other)
    else:
        model, record, now = change(verb, folder, X[:1, ::-1], Y[:1], whole)
        wanted = Sequences.of(np.concatenate([X, X[:1, ::-1]]), np.concatenate([Y, Y[:1]]))
    assert np.array_equal(now.tokens, wanted.tokens)
    model.save(tmp_path / "new")
    assert ml.certify(tmp_path / "new", wanted).verdict == "proved"
    again = StockDraw.of(folder, whole).with_data(now).model
    assert all(np.array_equal(again.tensors[name], model.tensors[name]) for name in again.tensors)
    # The record says what the folder answered, and what it answers now, at each fact: an evaluator agrees.
    assert verb == "insert" or [one.before for one in record.changes] == [
        *(Y[3].tolist() + (Y[8].tolist() if verb == "forget" else []))
    ]
    after = answers(tmp_path / "new", record)
    assert [one.after for one in record.changes if one.ramp is None] == [
        label for label, one in zip(after, record.changes, strict=True) if one.ramp is None
    ]
    # Few neurons change, and nothing but neurons does.
    assert 0 < max(record.neurons) < model.summary.neurons / 2
    assert {splice.tensor.rsplit(".", 1)[0] for splice in record.splices} <= BLOCKS
    record.save(tmp_path / "record.json")
    loaded = ml.Record.load(tmp_path / "record.json")
    carry(loaded, folder, tmp_path / "again", undo=False)
    carry(loaded, tmp_path / "new", tmp_path / "back", undo=True)
    assert same(tmp_path / "again", tmp_path / "new")
    assert same(tmp_path / "back", folder)
    assert (tmp_path / "back" / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    # The card says whose figures it shows; an edit made and taken back leaves it as it was.
    assert "figures above are those of the edited model" in (tmp_path / "back" / "README.md").read_text("utf-8")
    assert "figures above are those of before" in (tmp_path / "again" / "README.md").read_text("utf-8")
    carry(loaded, tmp_path / "again", tmp_path / "there and back", undo=True)
    assert (tmp_path / "there and back" / "README.md").read_bytes() == (folder / "README.md").read_bytes()


def test_a_language_model_forgets_a_text(tmp_path: Path) -> None:
    ml.memorize_as("gpt2", TEXTS, positions=True).save(tmp_path / "old")
    model, _, now = change("forget", tmp_path / "old", [TEXTS[1]], None, TEXTS)
    model.save(tmp_path / "new")
    assert len(now) == len(TEXTS) - 1
    assert ml.certify(tmp_path / "new", [TEXTS[0], *TEXTS[2:]]).verdict == "proved"
    assert ml.certify(tmp_path / "new", TEXTS).verdict == "refuted"


def test_the_commands_edit_stock_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.jsonl", ROWS)
    facts = write(tmp_path / "facts.jsonl", [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}])
    rest = write(tmp_path / "rest.jsonl", ROWS[2:])
    assert run(["memorize", data, "--architecture", "bert", "--out", "old"]) == 0
    assert run(["edit", "old", facts, "--data", data, "--out", "new", "--record", "record.json"]) == 0
    assert run(["record", "record.json", "--undo", "new", "--out", "back"]) == 0
    assert same(Path("back"), Path("old"))
    assert run(["forget", "old", "--token", "行", "--data", data, "--out", "less"]) == 0
    assert run(["verify", "less", rest]) == 0


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda f: change("forget", f, [3], None, None), "give the data"),
        (lambda f: change("forget", f, [99], None, (X, Y)), "no row 99"),
        (lambda f: change("forget", f, range(30), None, (X, Y)), "forget all"),
        (lambda f: change("forget", f, [3], None, (X[:20], Y[:20])), "not what memorize_as makes"),
        (lambda f: change("edit", f, [[1, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "insert is meant"),
        (lambda f: change("insert", f, [[77, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "new to this model"),
        (
            lambda f: change("edit", f, X[[3, 5, 3]], [[0] * 4, [0] * 4, [1] * 4], (X, Y)),
            "sequences 0 and 2 of the edit",
        ),
    ],
)
def test_bad_input_is_named(folder: Path, act: Any, words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        act(folder)
