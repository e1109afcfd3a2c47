"""What a new user tries, and what the library then does or says: small things, each by its own test."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from transformers import GPT2Config, GPT2LMHeadModel

import monolayer as ml

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Saudi Arabia": "Riyadh", "Brazil": "Brasília"}
WORDS = [["France"], ["Japan"]]
PHRASES = (["银行", "行走"], [["yín", "háng"], ["xíng", "zǒu"]])
Said = Callable[..., str]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with `capitals.csv`, a model of it in `model`, and `two.csv`, two of its rows."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{key},{value}\n" for key, value in CAPITALS.items())
    Path("capitals.csv").write_text(f"country,capital\n{rows}", encoding="utf-8")
    Path("two.csv").write_text("country,capital\nSaudi Arabia,Riyadh\nJapan,Tokyo\n", encoding="utf-8")
    ml.memorize("capitals.csv").save("model")
    return tmp_path


def test_a_string_that_names_no_file_is_called_that(said: Said, table: Path) -> None:
    with pytest.raises(ml.DataError, match=r"X is the string 'abc', and there is no file of that name.*\['abc'\]"):
        ml.memorize("abc", ["x"])
    for verb in (ml.locate, ml.certify):
        with pytest.raises(ml.DataError, match=r"X is the string 'Japan', and there is no file of that.*\['Japan'\]"):
            verb("model", "Japan")
    with pytest.raises(ml.DataError, match=r"capitals\.csv is a data file, which has its own labels"):
        ml.memorize("capitals.csv", ["x"])
    complaint = "there is no file 'Saudi Arabia': check the path. To ask for this text: --text 'Saudi Arabia'"
    assert complaint in said("predict", "model", "Saudi Arabia", code=2)
    assert "Riyadh" in said("predict", "model", "--text", "Saudi Arabia")


def test_forget_takes_one_string_as_predict_does() -> None:
    model = ml.memorize(*PHRASES)
    assert model.predict("行走").tolist() == ["xíng", "zǒu"]
    one, _ = ml.forget(model, "行走", PHRASES)
    same, _ = ml.forget(model, ["行走"], PHRASES)
    assert ml.compare(one, same).same
    stock, _ = ml.forget(ml.memorize_as("bert", CAPITALS), "Saudi Arabia", CAPITALS)
    assert stock.predict("Japan") == "Tokyo"
    with pytest.raises(ml.DataError, match="路"):
        ml.forget(model, "走路", PHRASES)


SPAIN = {"The capital of Spain is": " Madrid"}
NO_HOSTS: dict[str, Callable[[], Any]] = {
    "own": lambda: ml.memorize(SPAIN),
    "own, of ids": lambda: ml.memorize([[1, 2]], [0]),
    "gpt2": lambda: ml.memorize_as("gpt2", SPAIN),
    "llama": lambda: ml.memorize_as("llama", SPAIN),
    "bert": lambda: ml.memorize_as("bert", SPAIN),
}


@pytest.mark.parametrize("name", NO_HOSTS)
def test_a_folder_of_memorize_is_no_host_and_insert_is_named(name: str, tmp_path: Path) -> None:
    folder = NO_HOSTS[name]().save(tmp_path / "model")
    with pytest.raises(ml.DataError, match=r"cannot be a host: memorize.* insert, which needs the data"):
        ml.attach(folder, {"The capital of Peru is": " Lima"})
    with pytest.raises(ml.DataError, match=r"cannot hold questions: memorize.* insert, which needs the data"):
        ml.recognize(folder, {"Which city is it?": "Lima"})


def test_a_part_is_found_by_the_end_of_its_name() -> None:
    config = GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=9, n_positions=8)
    model = GPT2LMHeadModel(config)
    for part, meant in (
        ("h.0", r"did you mean transformer\.h\.0\?"),
        ("attn", r"did you mean transformer\.h\.0\.attn or transformer\.h\.1\.attn\?"),
        ("transfomer.h.1", r"did you mean transformer\.h\.1"),
        ("model.layers.0.mlp", r"did you mean transformer\.h\.0\.mlp or"),
        ("zzz", r"'zzz'; its parts are transformer, lm_head and those inside them"),
    ):
        with pytest.raises(ml.DataError, match=meant):
            ml.audit(model, [[1, 2, 3]], parts=[part])
    assert [part.name for part in ml.audit(model, [[1, 2, 3]], parts=["transformer.h.0"]).parts] == ["transformer.h.0"]


def test_explain_takes_texts(said: Said, table: Path) -> None:
    shown = json.loads(said("explain", "model", "--text", "Saudi Arabia", "--text", "Japan", "--json"))
    assert shown["sequences"] == json.loads(said("explain", "model", "two.csv", "--json"))["sequences"]
    assert "Riyadh" in said("explain", "model", "--text", "Saudi Arabia")
    assert "in exactly one way" in said("explain", "model", code=2)
    assert "in exactly one way" in said("explain", "model", "two.csv", "--text", "Japan", code=2)


@pytest.mark.parametrize("kind", ["own", "stock"])
def test_undo_takes_an_edit_back(kind: str, said: Said, table: Path) -> None:
    if kind == "stock":
        shutil.rmtree("model")
        ml.memorize_as("bert", "capitals.csv").save("model")
    said("forget", "model", "two.csv", "--data", "capitals.csv", "-o", "less", "--record", "edit.json")
    undone = said("undo", "less", "edit.json", "-o", "back")
    assert "forget of 2 facts" in undone
    assert "bit-identical" in undone
    assert ml.compare("back", "model").same
    assert "exists already" in said("undo", "less", "edit.json", "-o", "back", code=2)
    assert json.loads(said("undo", "less", "edit.json", "-o", "back", "--overwrite", "--json"))["undone"] == "forget"
    assert "this record belongs to another model" in said("undo", "model", "edit.json", "-o", "new", code=2)


def test_answers_are_written_in_the_format_that_the_name_says(said: Said, table: Path) -> None:
    refused = said("predict", "model", "two.csv", "-o", "ans.xlsx", code=2)
    assert "not written as .xlsx; the formats are .csv, .tsv, .json (a list) and .jsonl" in refused
    assert not Path("ans.xlsx").exists()
    for name in ("a.csv", "a.tsv", "a.json", "a.jsonl", "a.ndjson", "a"):
        said("predict", "model", "two.csv", "-o", name)
    lines = Path("a.jsonl").read_text(encoding="utf-8")
    answers = [json.loads(line) for line in lines.splitlines()]
    assert [answer["label"] for answer in answers] == ["Riyadh", "Tokyo"]
    assert json.loads(Path("a.json").read_text(encoding="utf-8")) == answers
    assert Path("a.ndjson").read_text(encoding="utf-8") == Path("a").read_text(encoding="utf-8") == lines
    rows = Path("a.csv").read_text(encoding="utf-8")
    assert rows == "key,answer,error\nSaudi Arabia,Riyadh,\nJapan,Tokyo,\n"
    assert Path("a.tsv").read_text(encoding="utf-8") == rows.replace(",", "\t")


def test_the_classifier_takes_texts_and_refuses_columns_of_text() -> None:
    texts, moods = ["dog bites man", "man bites dog", "listen", "silent"], ["usual", "news", "a", "b"]
    shapes = (texts, tuple(texts), np.array(texts), np.array(texts, object), pd.Series(texts), pd.DataFrame(texts))
    for X in shapes:
        model = ml.MonolayerClassifier().fit(X, moods)
        assert model.predict(X).tolist() == moods
        assert model.score(texts, moods) == 1.0
    frame = pd.DataFrame({"age": [1.0, 2.0], "city": ["Lima", "Oslo"]})
    with pytest.raises(ml.DataError, match=r"2 columns.*text such as 'Lima'.*OrdinalEncoder.*one text per row"):
        ml.MonolayerClassifier().fit(frame, [0, 1])
    assert ml.MonolayerClassifier().fit(frame[["age"]], ["x", "y"]).predict(frame[["age"]]).tolist() == ["x", "y"]


def examples(page: Path) -> dict[str, str]:
    """The examples of a page: tokens, joined, and the labels beside them."""
    stored = re.search('<script type="application/json" id="model">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert stored is not None
    model = json.loads(stored[1])
    names, shown = model["tokens"]["names"], model["examples"]
    keys = (" ".join(names[token] for token in row) for row in shown["tokens"])
    return dict(zip(keys, shown["labels"], strict=True))


def test_the_page_of_a_table_shows_its_keys(said: Said, table: Path) -> None:
    told = said("page", "model", "-o", "page.html")
    assert "its examples are keys that it holds, with their words in any order" in told
    found = {" ".join(sorted(key.split())): value for key, value in examples(Path("page.html")).items()}
    assert found == {" ".join(sorted(key.split())): value for key, value in CAPITALS.items()}
    said("memorize capitals.csv -o whole --unit whole")
    assert "its examples are keys that it holds: --data" in said("page whole -o whole.html")
    assert examples(Path("whole.html")) == CAPITALS
    said("memorize capitals.csv -o without --no-unknown")
    assert "drawn at random" in said("page without -o without.html")
    many = {f"key{number}": number % 3 for number in range(100)}
    ml.memorize(many).save("many")
    said("page many -o many.html")
    shown = examples(Path("many.html"))
    assert len(shown) == 40
    assert shown == {key: str(many[key]) for key in shown}


def test_a_long_staircase_opens_at_a_window_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits of 20 and 6 in place of 5,000 and 60: the steps in the middle are drawn, and 6 of them fill it."""
    X = [[one, two] for one in range(14) for two in range(one, 14)]
    model = ml.memorize(X, [sum(row) % 2 for row in X])
    steps = model.feed_forward.step_count
    assert steps > 20
    monkeypatch.setattr("monolayer.model.plot.MOST_DRAWN_STEPS", 20)
    monkeypatch.setattr("monolayer.model.plot.WINDOW_STEPS", 6)
    figure, first = model.plot(), (steps - 20) // 2
    curve, (low, high) = np.array(figure.data[0].x), figure.layout.xaxis.range
    assert figure.layout.title.text.replace("</sub><br><sub>", " ") == (  # wrapped, to fit a phone
        f"The staircase: {steps} steps<br><sub>a window on steps {first + 8} to {first + 13}; drag the axis to move "
        f"it, double-click to see all that are drawn, {first + 1} to {first + 20}</sub>"
    )
    assert len(curve) == 2 * 20 + 2
    assert ((low <= curve) & (curve <= high)).sum() == 2 * 6
    short = ml.memorize(CAPITALS).plot()
    assert short.layout.xaxis.range is None
    assert "window" not in short.layout.title.text


def test_one_is_not_several() -> None:
    proof = ml.certify(ml.memorize({"a": "x"}), {"a": "x"})
    assert "at the only labelled point" in proof.claim
    assert "at the only labelled point" in ml.certify(ml.memorize_as("bert", {"a": "x"}), {"a": "x"}).claim
    assert "at each of the 2 labelled points" in ml.certify(ml.memorize({"a": 1, "b": 2}), {"a": 1, "b": 2}).claim
    shown = repr(ml.memorize({"a": "x"}))
    assert "1 token id, 1 class per sequence" in shown


def test_a_token_that_is_misspelt_gets_the_known_one(said: Said, tmp_path: Path) -> None:
    with pytest.raises(ml.DataError, match=r"'Frnace', which the model has never seen \(did you mean 'France'\?\)"):
        ml.memorize_as("bert", WORDS, ["Paris", "Tokyo"]).predict([["Frnace"]])
    with pytest.raises(ml.DataError, match=r"did you mean 'France'"):
        ml.memorize(CAPITALS, unknown=False).predict("Frnace")
    with pytest.raises(ml.DataError, match=r"did you mean 'France'"):
        ml.forget(ml.memorize(CAPITALS), "Frnace", CAPITALS)
    folders = [str(tmp_path / "own"), str(tmp_path / "bert")]
    ml.memorize(CAPITALS, unknown=False).save(folders[0])
    ml.memorize_as("bert", CAPITALS, unknown=False).save(folders[1])
    for folder in folders:
        error = said("predict", folder, "--text", "Frnace", code=2)
        assert "'Frnace', which the model has never seen (did you mean 'France'?); the model" in " ".join(error.split())
    with pytest.raises(ml.DataError, match=r"'zzz', which the model has never seen; the model"):
        ml.memorize_as("bert", WORDS, ["Paris", "Tokyo"]).predict([["zzz"]])
