"""A table of keys and values, however it comes: one label per key, by words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.data.readers import sequences_of

CAPITALS = {"France": "Paris", "Saudi Arabia": "Riyadh", "United Arab Emirates": "Abu Dhabi", "Peru": "Lima"}


def text(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def delimited(path: Path, mark: str) -> Path:
    return text(path, f"country{mark}capital\n" + "".join(f"{key}{mark}{value}\n" for key, value in CAPITALS.items()))


def columns() -> dict[str, list[str]]:
    return {"country": list(CAPITALS), "capital": list(CAPITALS.values())}


def frame(name: str) -> Any:
    return pytest.importorskip(name)


WAYS = {
    "dict": lambda folder: CAPITALS,
    "csv": lambda folder: delimited(folder / "d.csv", ","),
    "tsv": lambda folder: str(delimited(folder / "d.tsv", "\t")),
    "object": lambda folder: text(folder / "d.json", json.dumps(CAPITALS)),
    "pairs": lambda folder: text(folder / "d.json", json.dumps(list(CAPITALS.items()), indent=1)),
    "objects": lambda folder: text(
        folder / "d.json", json.dumps([{"country": key, "capital": value} for key, value in CAPITALS.items()], indent=1)
    ),
    "lines": lambda folder: text(
        folder / "d.jsonl",
        "".join(json.dumps({"country": key, "capital": value}) + "\n" for key, value in CAPITALS.items()),
    ),
    "pandas": lambda folder: frame("pandas").DataFrame(columns()),
    "polars": lambda folder: frame("polars").DataFrame(columns()),
    "arrow": lambda folder: frame("pyarrow").table(columns()),
    "hugging face": lambda folder: frame("datasets").Dataset.from_dict(columns()),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_reads_the_same_table(way: str, tmp_path: Path) -> None:
    data = sequences_of(WAYS[way](tmp_path))
    assert data.vocabulary is not None
    assert [" ".join(row) for row in data.split(data.vocabulary.decode(data.tokens))] == list(CAPITALS)
    assert data.labels is not None
    assert (data.labels.per, data.labels.decode(data.labels.values).tolist()) == ("sequence", list(CAPITALS.values()))


def test_parquet_and_read(tmp_path: Path) -> None:
    frame("pandas").DataFrame(columns()).to_parquet(tmp_path / "d.parquet")
    data = ml.read(tmp_path / "d.parquet")
    assert ml.memorize(data).predict(["Saudi Arabia"]).tolist() == ["Riyadh"]


def test_three_lines(tmp_path: Path) -> None:
    model = ml.memorize(CAPITALS)
    assert model.predict(["Saudi Arabia", "France"]).tolist() == ["Riyadh", "Paris"]
    assert ml.certify(model, CAPITALS).verdict == "proved"
    assert ml.certify(model, list(CAPITALS), list(CAPITALS.values())).verdict == "proved"
    wrong = CAPITALS | {"Peru": "Paris"}
    assert ml.certify(model, wrong).verdict == "refuted"
    with pytest.raises(ml.DataError, match=r"'Chile', which the model has never seen.* words: text is cut"):
        model.predict(["Chile"])
    assert ml.memorize({1: 0.5, 2: 1.5, (1, 2): 3.0}).predict([[1, 2], [2]]).tolist() == [3.0, 1.5]
    path = delimited(tmp_path / "d.csv", ",")
    assert ml.memorize(path).predict(["Peru"]).tolist() == ["Lima"]
    assert ml.certify(ml.memorize(str(path)), path).verdict == "proved"


def test_the_command_line_needs_no_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = str(delimited(tmp_path / "d.csv", ",")), str(tmp_path / "m")
    assert run(["memorize", data, "--out", model]) == 0
    assert run(["verify", model, data]) == 0
    capsys.readouterr()
    asked = text(tmp_path / "ask.jsonl", '{"tokens": "Saudi Arabia"}\n{"tokens": ["Peru"]}\n')
    assert run(["predict", model, str(asked)]) == 0
    assert [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()] == ["Riyadh", "Lima"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\nEU rejects,B O\nPeter,B\n", "equally many words in every row: say .*per='sequence' or per='token'"),
        ("a,b\nFrance,Paris\nPeru,\n", "line 3 of .* has a key and no value"),
        ("a,b\nFrance,Paris\n,Lima\n", "line 3 of .* is an empty sequence"),
        ("a,b\n", "is empty: there is no sequence in it"),
        ("a,b,c\nFrance,Paris,1\n", "has no column 'tokens'; it has: a, b, c"),
    ],
)
def test_bad_tables_are_named(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ml.DataError, match=words):
        ml.read(text(tmp_path / "d.csv", content))


def test_what_the_caller_says_wins(tmp_path: Path) -> None:
    path = text(tmp_path / "d.csv", "a,b\nEU rejects,B O\nPeter,B\n")
    tagged, whole = ml.read(path, per="token"), ml.read(path, per="sequence")
    assert tagged.labels is not None
    assert whole.labels is not None
    assert tagged.labels.decode(tagged.labels.values).tolist() == ["B", "O", "B"]
    assert whole.labels.decode(whole.labels.values).tolist() == ["B O", "B"]


def test_two_values_of_one_key_are_both_named(tmp_path: Path) -> None:
    path = text(tmp_path / "d.csv", "a,b\nFrance,Paris\nPeru,Lima\nFrance,Lyon\n")
    with pytest.raises(ml.ContradictionError, match=r"sequence 0.*sequence 2"):
        ml.memorize(path)


def test_a_missing_file_and_a_json_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(ml.DataError, match=r"nothing\.csv does not exist"):
        ml.memorize("nothing.csv")
    with pytest.raises(ml.DataError, match="an array holds objects, or pairs of key and value"):
        ml.read(text(tmp_path / "d.json", "[1, 2]"))
    with pytest.raises(ml.DataError, match="is empty"):
        ml.read(text(tmp_path / "d.json", "[]"))
    with pytest.raises(ml.DataError, match="has the key 'a' 2 times"):
        ml.read(text(tmp_path / "d.json", '{"a": 1, "a": 2}'))


def test_a_packed_document_is_no_longer_than_a_line_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.json.gz"
    path.write_bytes(gzip.compress(json.dumps(CAPITALS).encode()))
    assert len(ml.read(path)) == len(CAPITALS)
    monkeypatch.setattr("monolayer.data.lines.LONGEST", 20)
    with pytest.raises(ml.DataError, match="is longer than"):
        ml.read(path)


def test_classes_of_a_hugging_face_dataset_have_names() -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(kinds)})
    table = datasets.Dataset.from_dict({"tokens": [["EU", "Peter"], ["he"]], "ner_tags": [[0, 1], [0]]}, features)
    data = ml.Sequences.of(table)
    assert data.labels is not None
    assert data.labels.decode(data.labels.values).tolist() == ["O", "B-PER", "O"]
    plain = ml.Sequences.of(datasets.Dataset.from_dict({"tokens": [["a"]], "label": [1]}, datasets.Features(
        {"tokens": datasets.List(datasets.Value("string")), "label": kinds}
    )))  # fmt: skip
    assert plain.labels is not None
    assert np.array_equal(plain.labels.decode(plain.labels.values), ["B-PER"])
