"""What people bring and what they are told: tables, labels per token or sequence, flags in errors, bad arguments."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from torch import nn

import monolayer as ml
from datasets import Dataset
from monolayer.cli import run
from monolayer.cli.console import as_flags

X, Y = np.array([[1, 2], [3, 4]]), np.array([[0.5, 1.5], [2.5, 3.5]])
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "hugging face": Dataset.from_dict}


@pytest.mark.parametrize("name", FRAMES)
def test_a_table_is_read_by_its_columns(name: str) -> None:
    frame: Any = FRAMES[name]
    table = frame({"tokens": ["the cat sat", "a dog"], "labels": ["D N V", "D N"], "note": [1, 2]})
    model = ml.memorize(table)
    assert model.card.vocabulary is not None
    assert set(model.card.vocabulary.names) == {"the", "cat", "sat", "a", "dog"}
    assert [row.tolist() for row in model.predict(table)] == [["D", "N", "V"], ["D", "N"]]
    assert ml.certify(model, table).verdict == "proved"
    with pytest.raises(ml.DataError, match=r"no column 'tokens'; it has: doc, word, tag.*Rename.*to_numpy"):
        ml.memorize(frame({"doc": [7, 7, 9], "word": ["a", "b", "a"], "tag": ["x", "y", "z"]}))


def test_lists_and_real_labels_in_a_table() -> None:
    table = pd.DataFrame({"tokens": [[1, 2], [2, 3]], "label": [0.1, 1e20]})
    assert ml.memorize(table).predict(table).tolist() == [0.1, 1e20]
    assert ml.memorize(table, [["a", "b"], ["c", "d"]]).predict([[1, 2]])[0].tolist() == ["a", "b"]


def test_per_says_what_a_label_belongs_to_where_shapes_cannot() -> None:
    texts, words = ["ab", "cd"], ["xy", "zw"]
    assert ml.memorize(texts, words).predict(texts).tolist() == words
    model = ml.memorize(texts, words, per="token")
    assert [row.tolist() for row in model.predict(texts)] == [["x", "y"], ["z", "w"]]
    assert ml.certify(model, texts, words, per="token").verdict == "proved"
    with pytest.raises(ml.DataError, match="one per sequence; the model answers with classes, one per token"):
        ml.certify(model, texts, words)
    assert ml.memorize(X, Y).card.per == "token"
    model = ml.memorize(X, Y, per="sequence")
    assert np.array_equal(model.predict(X), Y)
    assert ml.certify(model, X, Y, per="sequence").verdict == "proved"


@pytest.mark.parametrize(
    ("name", "content", "unit", "tokens"),
    [
        ("d.jsonl", '{"tokens": "ab c", "label": "x y"}', None, ["a", "b", " ", "c"]),
        ("d.jsonl", '{"tokens": "ab c", "label": "x y"}', "words", ["ab", "c"]),
        ("d.csv", "tokens,label\nab c,x y", None, ["ab", "c"]),
        ("d.csv", "tokens,label\nab c,x y", "characters", ["a", "b", " ", "c"]),
    ],
)
def test_files_are_cut_as_asked(tmp_path: Path, name: str, content: str, unit: Any, tokens: list[str]) -> None:
    (tmp_path / name).write_text(content + "\n")
    data = ml.read(tmp_path / name, unit=unit)
    assert data.vocabulary is not None
    assert data.vocabulary.decode(data.tokens).tolist() == tokens
    assert data.named_labels().tolist() == ["x y"]


def test_characters_words_and_per_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "d.parquet", str(tmp_path / "m")
    pd.DataFrame({"tokens": ["ab", "cd"], "tag": ["xy", "zw"]}).to_parquet(data)
    flags = ["--labels", "tag", "--unit", "characters", "--per", "token"]
    assert run(["memorize", str(data), "--out", model, *flags]) == 0
    assert run(["verify", model, str(data), *flags]) == 0
    capsys.readouterr()
    assert run(["predict", model, str(data), *flags]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {"tokens": ["a", "b"], "labels": ["x", "y"]}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass positions=True. Otherwise", "pass --positions. Otherwise"),
        ("wins: on_conflict='majority' or 'first'.", "wins: --on-conflict majority or first."),
        ("with tokens= and labels= (--tokens, --labels); go", "with --tokens and --labels; go"),
        ("Say it with format= (--format on the command line): jsonl", "Say it with --format: jsonl"),
        ("ask to overwrite it (overwrite=True, --overwrite)", "ask to overwrite it (--overwrite)"),
        ("proved: tolerance=1.2e-07 (--tolerance)", "proved: --tolerance 1.2e-07"),
        ("per='sequence' or per='token' (--per)", "--per sequence or --per token"),
        ("missing: give Y, or causal=True to memorize", "missing: add labels, or pass --causal to memorize"),
        ("Use path='dense'", "Use --dense"),
        ("rank= goes with robust=True; the line", "--rank goes with --robust; the line"),
        ("a token = 3 stays (as it is)", "a token = 3 stays (as it is)"),
    ],
)  # fmt: skip
def test_keywords_become_flags(message: str, shown: str) -> None:
    assert as_flags(message) == shown


REFUSED: dict[str, tuple[Any, str]] = {
    "table": (
        lambda: ml.memorize(pd.DataFrame({"tokens": [[1], 3]})),
        "row 1 of the DataFrame, column 'tokens', holds 3",
    ),
    "per": (lambda: ml.memorize(X, Y, per="word"), "per must be 'token', 'sequence', 'answer' or None"),
    "lists": (lambda: ml.memorize(X, [["a", "b"], ["c", "d"]], per="sequence"), "but the label of sequence 0"),
    "lone": (lambda: ml.memorize(X, [3, 4], per="token"), "per='token', but the labels of sequence 0 are 3"),
    "causal": (lambda: ml.memorize(["ab"], [1], causal="yes"), "causal must be True or False, not 'yes'"),
    "no device": (lambda: ml.memorize(["ab"], [1], device="cudaa"), "cannot be used here"),
    "number": (lambda: ml.approximate(np.copy, 1, 2, cells=2, device=3.5), "cannot be used here"),
    "module": (lambda: ml.refute_hardmax(nn.MultiheadAttention(4, 1)), "weights are a MultiheadAttention; give a file"),
    "model": (
        lambda: ml.verify(ml.memorize(X, Y), X, Y),
        "takes the folder of a saved model, not a Monolayer: certify",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_named_before_the_work(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(ml.DataError, match=re.escape(words)):
        call()


def test_the_contextual_mapping_takes_models_and_functions_and_refuses_the_rest_in_words() -> None:
    class Output:
        def __init__(self, states: torch.Tensor) -> None:
            self.last_hidden_state = states

    class Bert(nn.Embedding):
        def forward(self, ids: torch.Tensor) -> Any:
            return Output(super().forward(ids))

    X, Y = ["ab", "bac", "c"], [[0, 1], [2, 0, 1], [3]]
    model = ml.memorize(X, Y)
    found = ml.contextual_mapping(model, X)
    assert found.points == 6
    assert found.r > 0
    rows = lambda rows: [model(torch.from_numpy(model.encode([row]).tokens)[None])[0] for row in rows]  # noqa: E731
    assert found == ml.contextual_mapping(rows, X)
    bert, ids = Bert(20, 8), [[1, 2], [2, 3]]
    with pytest.raises(ml.DataError, match=r"f failed on X .*last_hidden_state; ml.audit"):
        ml.contextual_mapping(bert, ids)
    with pytest.raises(ml.DataError, match=r"such as a last_hidden_state; it gave a Output"):
        ml.contextual_mapping(bert, torch.tensor(ids))
    assert ml.contextual_mapping(lambda X: bert(torch.as_tensor(X)).last_hidden_state, ids).points == 4


def test_a_model_in_bfloat16_answers_and_explains() -> None:
    """NumPy has no such numbers; the labels of so small a line survive them. Pairs of neurons may round apart."""
    X, Y = ["ab", "b"], [["x", "y"], ["z"]]
    model = ml.memorize(X, Y).to(torch.bfloat16)
    assert [list(row) for row in model.predict(X)] == Y
    assert model.explain(X).label == ["x", "y", "z"]


def test_hardmax_of_tensors_is_refuted() -> None:
    attention = ml.memorize(["ab"], [[0, 1]]).attention
    assert ml.refute_hardmax({name: getattr(attention, name) for name in ("W_Q", "W_K", "W_V", "W_O")}).softmax
