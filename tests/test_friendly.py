"""What people bring and what they are told: tables, labels per token or sequence, flags in errors, bad arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
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
    table = frame({"tokens": [[1, 2], [2, 3]], "label": [0.1, 1e20]})
    assert ml.memorize(table).predict(table).tolist() == [0.1, 1e20]
    with pytest.raises(ml.DataError, match=r"3 columns, 'doc', 'word', 'tag', and none .*rename.*to_numpy"):
        ml.memorize(frame({"doc": [7, 7, 9], "word": ["a", "b", "a"], "tag": ["x", "y", "z"]}))


def test_per_says_what_a_label_belongs_to_where_shapes_cannot() -> None:
    texts, words = ["ab", "cd"], ["xy", "zw"]
    assert ml.memorize(texts, words).predict(texts).tolist() == words
    model = ml.memorize(texts, words, per="token")
    assert [row.tolist() for row in model.predict(texts)] == [["x", "y"], ["z", "w"]]
    assert ml.certify(model, texts, words, per="token").verdict == "proved"
    with pytest.raises(ml.DataError, match="one per sequence; the model answers with classes, one per token"):
        ml.certify(model, texts, words, per="sequence")
    with pytest.raises(ml.DataError, match="one per sequence; the model answers with classes, one per token"):
        ml.certify(model, texts, ["xyz", "w"])  # it has no label for each token in any way of reading
    assert ml.memorize(X, Y).card.per == "token"
    model = ml.memorize(X, Y, per="sequence")
    assert np.array_equal(model.predict(X), Y)
    assert ml.certify(model, X, Y, per="sequence").verdict == "proved"


PER = {
    # data that look like another kind of labels than `per` says: the columns, two rows, and `per`
    "letters in a column called label": (("tokens", "label"), [(["x", "y"], "AB"), (["y", "y"], "CC")], "token"),
    "vectors in a column called labels": (
        ("tokens", "labels"),
        [(["x", "y"], [0.5, 2.0]), (["y"], [1, 0.5])],
        "sequence",
    ),
    "words in a column called labels": (("tokens", "labels"), [("x y", "big cat"), ("y z", "dog")], "sequence"),
    "one word per word of a key": (("key", "value"), [("x y", "A B"), ("y y", "C C")], "token"),
}


@pytest.mark.parametrize("name", PER)
def test_a_folder_knows_what_its_labels_belong_to(name: str, tmp_path: Path, said: Callable[..., str]) -> None:
    columns, rows, per = PER[name]
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    file, folder, made = str(tmp_path / "d.jsonl"), str(tmp_path / "m"), str(tmp_path / "n")
    Path(file).write_text("".join(f"{json.dumps(row)}\n" for row in table))
    shown = said("memorize", file, "--per", per, "--unit", "words", "--out", folder)
    assert f"verify {folder} {file} --unit words\n" in shown
    for given in (file, table, pd.DataFrame(table)):
        assert ml.certify(folder, given, unit="words").verdict == "proved"
        assert ml.certify(folder, given, unit="words", per=per).verdict == "proved"  # type: ignore[arg-type]
    assert '"verdict": "proved"' in said("verify", folder, file, "--json")
    assert "right" in said("predict", folder, file, errors=True)
    assert len(ml.locate(folder, file)) > 0
    Path(made + ".jsonl").write_text(json.dumps({"tokens": ["y", "y"], "label": "A", "labels": ["A", "B"]}) + "\n")
    other = "labels" if per == "sequence" else "label"  # these cannot be read with the model's `per`
    shown = said("predict", folder, made + ".jsonl", "--labels", other, errors=True)
    assert "of another kind than the model's answers: they are not compared" in shown
    assert "proved" in said("forget", folder, "--rows", "0", "--data", file, "--out", made)
    assert ml.certify(made, table[1:], only=True).verdict == "proved"
    assert ml.certify(ml.memorize(table, draw=ml.load(folder)), table).verdict == "proved"  # type: ignore[arg-type]


def test_files_are_cut_as_asked(tmp_path: Path) -> None:
    letters, words = ["a", "b", " ", "c"], ["ab", "c"]
    for name, content, cut in (
        ("d.jsonl", '{"tokens": "ab c", "label": "x y"}', {None: letters, "words": words}),
        ("d.csv", "tokens,label\nab c,x y", {None: words, "characters": letters}),
    ):
        (tmp_path / name).write_text(content + "\n")
        for unit, tokens in cut.items():
            data: Any = ml.read(tmp_path / name, unit=unit)  # type: ignore[arg-type]
            assert data.vocabulary.decode(data.tokens).tolist() == tokens
            assert data.named_labels().tolist() == ["x y"]


def test_characters_words_and_per_on_the_command_line(tmp_path: Path, said: Callable[..., str]) -> None:
    data, model = str(tmp_path / "d.parquet"), str(tmp_path / "m")
    pd.DataFrame({"tokens": ["ab", "cd"], "tag": ["xy", "zw"]}).to_parquet(data)
    flags = ["--labels", "tag", "--unit", "characters", "--per", "token"]
    said("memorize", data, "--out", model, *flags)
    said("verify", model, data, *flags)
    first = json.loads(said("predict", model, data, *flags).splitlines()[0])
    assert first == {"tokens": ["a", "b"], "labels": ["x", "y"]}


def test_keywords_become_flags() -> None:
    for message, shown in (
        ("wins: on_conflict='majority' or 'first'.", "wins: --on-conflict majority or first."),
        ("Say it with format= (--format on the command line): jsonl", "Say it with --format: jsonl"),
        ("ask to overwrite it (overwrite=True, --overwrite)", "ask to overwrite it (--overwrite)"),
        ("proved: tolerance=1.2e-07 (--tolerance)", "proved: --tolerance 1.2e-07"),
        ("per='sequence' or per='token' (--per)", "--per sequence or --per token"),
        ("missing: give Y, or causal=True to memorize", "missing: add labels, or pass --causal to memorize"),
        ("Use path='dense'", "Use --dense"),
        ('first_block=False needs norm="sup": with', "--no-first-block needs --norm sup: with"),
        ("attach with end=False", "attach with --no-end"),
        (
            "such as tokens='Official name', labels='x' (--tokens, --labels)",
            "such as --tokens 'Official name', --labels x",
        ),
        ("say separator=';' or separator=',' (--separator)", "say --separator ';' or --separator ,"),
        ("""tokens="Côte d'Ivoire" (--tokens)""", """--tokens 'Côte d'"'"'Ivoire'"""),
        ("a token = 3 stays (as it is)", "a token = 3 stays (as it is)"),
    ):
        assert as_flags(message) == shown


REFUSED: dict[str, tuple[Any, str]] = {
    "table": (
        lambda: ml.memorize(pd.DataFrame({"tokens": [[1], 3]})),
        "row 1 of the DataFrame, column 'tokens', holds 3",
    ),
    "per": (lambda: ml.memorize(X, Y, per="word"), "per must be 'token', 'sequence', 'answer', 'continuation' or None"),
    "lists": (lambda: ml.memorize(X, [["a", "b"], ["c", "d"]], per="sequence"), "but the label of sequence 0"),
    "lone": (lambda: ml.memorize(X, [3, 4], per="token"), "per='token', but the labels of sequence 0 are 3"),
    "causal": (lambda: ml.memorize(["ab"], [1], causal="yes"), "causal must be True or False, not 'yes'"),
    "no device": (lambda: ml.memorize(["ab"], [1], device="cudaa"), "cannot be used here"),
    "number": (lambda: ml.approximate(np.copy, 1, 2, cells=2, device=3.5), "cannot be used here"),
    "module": (lambda: ml.refute_hardmax(nn.MultiheadAttention(4, 1)), "weights are a MultiheadAttention; give a file"),
    "model": (
        lambda: ml.certify(nn.Linear(2, 2), X, Y),
        "a Linear is not a model of monolayer: give one, or the folder of a saved one",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_named_before_the_work(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(ml.DataError, match=re.escape(words)):
        call()


def test_the_contextual_mapping_takes_models_and_functions_and_refuses_the_rest_in_words() -> None:
    class Bert(nn.Embedding):
        def forward(self, ids: torch.Tensor) -> Any:
            return SimpleNamespace(last_hidden_state=super().forward(ids))

    texts = ["ab", "bac", "c"]
    model = ml.memorize(texts, [[0, 1], [2, 0, 1], [3]])
    found = ml.contextual_mapping(model, texts)
    assert found.points == 6

    def one_by_one(rows: list[str]) -> list[torch.Tensor]:
        return [model(torch.from_numpy(model.encode([row]).tokens)[None])[0] for row in rows]

    assert found == ml.contextual_mapping(one_by_one, texts)
    bert, ids = Bert(20, 8), [[1, 2], [2, 3]]
    with pytest.raises(ml.DataError, match=r"f failed on X .*last_hidden_state; ml.audit"):
        ml.contextual_mapping(bert, ids)
    with pytest.raises(ml.DataError, match=r"such as a last_hidden_state; it gave a SimpleNamespace"):
        ml.contextual_mapping(bert, torch.tensor(ids))
    assert ml.contextual_mapping(lambda X: bert(torch.as_tensor(X)).last_hidden_state, ids).points == 4


def test_hardmax_of_tensors_is_refuted() -> None:
    attention = ml.memorize(["ab"], [[0, 1]]).attention
    assert ml.refute_hardmax({name: getattr(attention, name) for name in ("W_Q", "W_K", "W_V", "W_O")}).softmax
