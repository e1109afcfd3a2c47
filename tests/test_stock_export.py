"""Models of ours as stock folders: the same answers, and what cannot be exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.huggingface.architecture import DECODER
from monolayer.stock.labelled import best_cut

X = [["a", "b", "c"], ["b", "a"], ["c", "c", "b", "a"]]
Y = [["u", "v", "u"], ["u", "w"], ["w", "w", "u", "v"]]
TEXT = "Once upon a midnight dreary, while I pondered, weak and weary"


@pytest.mark.parametrize(
    ("to", "Y", "options"),
    [
        ("bert", Y, {}),
        ("distilbert", Y, {"positions": True}),
        ("roberta", ["u", "v", "w"], {}),
        ("gpt2", Y, {"causal": True, "positions": True}),
        ("gpt_neox", None, {"causal": True, "on_conflict": "first"}),
    ],
)
def test_the_folder_says_what_the_model_says(to: str, Y: Any, options: dict[str, Any], tmp_path: Path) -> None:
    X_ = [["a", "b", "c"], ["b", "a"]] if Y is None else X
    model = ml.memorize(X_, Y, **options)
    model.save(tmp_path / "ours")
    built = ml.export(tmp_path / "ours", tmp_path / "theirs", to, X_)  # no labels: the model has them
    assert built.summary.positions == options.get("positions", False)
    assert ml.certify(tmp_path / "theirs", X_, Y).verdict == "proved"
    with pytest.raises(ml.DataError, match="exists already"):
        ml.export(model, tmp_path / "theirs", to, X_)


def test_a_robust_model_stays_robust_in_its_format(tmp_path: Path) -> None:
    model = ml.memorize(X, Y, positions=True, robust=True, dtype="bfloat16")
    built = ml.export(model, tmp_path / "short", "bert", X, rank=16)
    assert (built.dtype, built.summary.rank) == ("bfloat16", 16)
    assert ml.export(model, tmp_path / "exact", "bert", X, storage="steps").dtype == "float64"
    assert ml.certify(tmp_path / "exact", X, Y).verdict == "proved"


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_a_model_that_recites_needs_no_data(unit: Any, tmp_path: Path) -> None:
    built = ml.export(ml.memorize_text(TEXT, unit=unit), tmp_path / "raven", "gpt2")
    assert built.data.vocabulary is not None
    assert "".join(built.data.vocabulary.decode(built.data.tokens)) == TEXT
    assert built.facts.cut == ("pieces" if unit == "words" else "characters")
    assert ml.certify(tmp_path / "raven", built.data).verdict == "proved"


def test_spaces_that_are_tokens_are_given_not_cut() -> None:
    """Cut again, "a b" would be "a" and " b": the tokenizer must take lists."""
    for row, cut in ((["a", " b", " a"], "pieces"), (["a", " ", "b"], "given"), (["a", " b", " "], "pieces")):
        data = ml.Sequences.of([row, ["bb", "  "]])
        assert data.vocabulary is not None
        assert best_cut(DECODER, data) == cut


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    model, out = ml.memorize(X, Y), tmp_path / "out"
    wrong = ml.Sequences.of(X, [["u", "v", "u"], ["u", "u"], ["w", "w", "u", "v"]])
    cases: list[tuple[str, Any, str, Any]] = [
        ("did you mean 'bert'", model, "bart", X),
        ("give the sequences to be answered", model, "bert", None),
        ("take one of bert, roberta, distilbert", model, "gpt2", X),
        ("take one of gpt2", ml.memorize(X, Y, positions=True, causal=True), "bert", X),
        ("token 1 of sequence 1 the model says 'w' and the data 'u'; wrong in all: 1 label", model, "bert", wrong),
        ("'q'", model, "bert", [["q"]]),
        ("real numbers", ml.memorize(X, [[0.5] * len(row) for row in X]), "bert", X),
        ("rows of a table", ml.memorize(np.eye(3)[None], [[0, 1, 2]]), "bert", np.eye(3)[None]),
        ("leave the data out", ml.memorize_text(TEXT), "gpt2", X),
        ("after token 0 of sequence 0 the model says 'b'", ml.memorize([["a", "b"]], causal=True), "opt", [["a", "a"]]),
    ]
    for words, given, to, data in cases:
        with pytest.raises(ml.DataError, match=words):
            ml.export(given, out, to, data)
    assert not out.exists()


def test_the_command_line_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "data.jsonl", str(tmp_path / "model")
    data.write_text("\n".join(json.dumps({"tokens": row}) for row in X), encoding="utf-8")
    ml.memorize(X, Y).save(model)
    words = ["export", model, str(data), "--to", "bert", "--out", str(tmp_path / "out")]
    assert run([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["certificate"]["verdict"]) == ("BertForTokenClassification", "proved")
    assert (tmp_path / "out" / "certificate.json").exists()
    for more, what in (
        (words, "exists already"),
        (["export", model, "--to", "bert", "--out", "n"], "give the sequences"),
    ):
        assert run(more) == 2
        assert what in " ".join(capsys.readouterr().err.split())
