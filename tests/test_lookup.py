"""A table of keys and values, however it comes: one label per key, by words."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

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


def frame(name: str) -> Any:
    return pytest.importorskip(name)


COLUMNS = {"country": list(CAPITALS), "capital": list(CAPITALS.values())}
OBJECTS = [json.dumps({"country": key, "capital": value}) for key, value in CAPITALS.items()]
WAYS = {
    "dict": lambda folder: CAPITALS,
    "csv": lambda folder: delimited(folder / "d.csv", ","),
    "tsv": lambda folder: str(delimited(folder / "d.tsv", "\t")),
    "object": lambda folder: text(folder / "d.json", json.dumps(CAPITALS)),
    "pairs": lambda folder: text(folder / "d.json", json.dumps(list(CAPITALS.items()))),
    "objects": lambda folder: text(folder / "d.json", f"[{', '.join(OBJECTS)}]"),
    "lines": lambda folder: text(folder / "d.jsonl", "\n".join(OBJECTS)),
    "pandas": lambda folder: frame("pandas").DataFrame(COLUMNS),
    "polars": lambda folder: frame("polars").DataFrame(COLUMNS),
    "parquet": lambda folder: frame("pandas").DataFrame(COLUMNS).to_parquet(folder / "d.pq") or folder / "d.pq",
    "arrow": lambda folder: frame("pyarrow").table(COLUMNS),
    "hugging face": lambda folder: frame("datasets").Dataset.from_dict(COLUMNS),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_reads_the_same_table(way: str, tmp_path: Path) -> None:
    data = sequences_of(WAYS[way](tmp_path))
    assert data.vocabulary is not None
    assert [" ".join(row) for row in data.split(data.vocabulary.decode(data.tokens))] == list(CAPITALS)
    assert data.labels is not None
    assert (data.labels.per, data.labels.decode(data.labels.values).tolist()) == ("sequence", list(CAPITALS.values()))


def test_three_lines(tmp_path: Path) -> None:
    with pytest.raises(ml.DataError, match=r"'nothing\.csv', and there is no file of that name: check the path"):
        ml.memorize("nothing.csv")
    model = ml.memorize(CAPITALS)
    assert model.predict(["Saudi Arabia", "France"]).tolist() == ["Riyadh", "Paris"]
    assert ml.certify(model, CAPITALS).verdict == "proved"
    assert ml.certify(model, list(CAPITALS), list(CAPITALS.values())).verdict == "proved"
    assert ml.certify(model, CAPITALS | {"Peru": "Paris"}).verdict == "refuted"
    more, _ = ml.insert(model, ["South Africa"], ["Pretoria"], CAPITALS)  # cut as the model cuts
    assert more.predict(["South Africa"]).tolist() == ["Pretoria"]
    other, _ = ml.edit(model, ["Saudi Arabia"], ["Jeddah"], CAPITALS)
    assert other.predict(["Saudi Arabia", "Peru"]).tolist() == ["Jeddah", "Lima"]
    assert ml.memorize({1: 0.5, 2: 1.5, (1, 2): 3.0}).predict([[1, 2], [2]]).tolist() == [3.0, 1.5]
    frame("pandas").DataFrame({"number": [276, 300], "name": ["Germany", "Greece"]}).to_parquet(tmp_path / "d.pq")
    assert ml.memorize(tmp_path / "d.pq").predict([[276]]).tolist() == ["Germany"]
    path = delimited(tmp_path / "d.csv", ",")
    assert ml.memorize(path).predict(["Peru"]).tolist() == ["Lima"]
    assert ml.certify(ml.memorize(str(path)), path).verdict == "proved"


BAD: list[tuple[Any, str]] = [  # a dict, or text of a file that begins with its suffix
    (".csv a,b\nEU rejects,B O\nPeter,B\n", "equally many words in every row of 'a' and 'b': say .*per='sequence' or"),
    ('.json [["EU rejects", "B O"]]', "equally many words in every row"),
    (".csv a,b\nFrance,Paris\nPeru,\n", "line 3 of .* has no value: give one"),
    (".csv a,b\nFrance,Paris\n ,Lima\n", "line 3 of .* has no key: give one"),
    (".csv tokens,label\nFrance,Paris\nPeru,\n", "line 3 of .* has no label, but line 2 has.* null says"),
    (
        ".csv a,b\nFrance,Paris\nPeru,Lima\nFrance,Lyon\n",
        r"sequence 0 \(line 2 of .*csv\), 'France', .*sequence 2 \(line 4 of .*\), 'France'",
    ),
    (".json [1, 2]", "item 0 of .* is 1, not an object"),
    ('.json {"a": 1, "a": 2}', "has the key 'a' 2 times"),
    ({"": "x", "a": "b"}, "item 0 of the dict has no key"),
    ({"a": "b", "c": float("nan")}, "item 1 of the dict has no value"),
    ({}, "the dict is empty"),
    ({"a": 1, 2: 3}, "mixed token kinds: the first token is a string .* item 1 of the dict is an integer"),
    ({"New York": 1, "York New": 2}, r"sequence 0, 'New York', .*positions=True, or unit='whole'"),
]


@pytest.mark.parametrize(("table", "words"), BAD)
def test_bad_tables_are_named(table: Any, words: str, tmp_path: Path) -> None:
    if isinstance(table, str):
        suffix, _, content = table.partition(" ")
        table = text(tmp_path / f"d{suffix}", content)
    elif table:
        rows = frame("pandas").DataFrame({"k": list(table), "v": list(table.values())}, dtype=object)
        with pytest.raises(ml.DataError, match=words.replace("item", "row").replace("dict", "DataFrame")):
            ml.memorize(rows)
        with pytest.raises(ml.DataError, match="a dict holds the label of each key: leave Y out"):
            ml.memorize(table, ["c"])
    with pytest.raises(ml.DataError, match=words):
        ml.memorize(table)


def test_a_packed_document_is_no_longer_than_a_line_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.json.gz"
    path.write_bytes(gzip.compress(json.dumps(CAPITALS).encode()))
    assert len(ml.read(path)) == len(CAPITALS)
    monkeypatch.setattr("monolayer.data.lines.LONGEST_LINE", 20)
    with pytest.raises(ml.DataError, match="is longer than"):
        ml.read(path)


def test_classes_of_a_hugging_face_dataset_have_names() -> None:
    datasets = pytest.importorskip("datasets")
    kinds, words = datasets.ClassLabel(names=["O", "B-PER"]), datasets.List(datasets.Value("string"))
    for column, kind, rows in (("ner_tags", datasets.List(kinds), [[0, 1], [0]]), ("label", kinds, [0, 1])):
        features = datasets.Features({"tokens": words, column: kind})
        table = datasets.Dataset.from_dict({"tokens": [["EU", "Peter"], ["he"]], column: rows}, features)
        found = ml.Sequences.of(table).labels
        assert found is not None
        assert found.decode(found.values).tolist() == (["O", "B-PER", "O"] if column == "ner_tags" else ["O", "B-PER"])


# -- what a string is, remembered ------------------------------------------------------------------------------------

BASES = {"A C": "one", "C A A": "two", "G": "three"}


def test_the_model_remembers_what_a_string_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words of one letter, keys that are one token, and characters: the names alone do not tell them apart."""
    asked = {"words": "  A  C ", "whole": "A C", "characters": "A C"}
    unknown = {"words": "AC", "whole": "A", "characters": "A-C"}
    cut = {"words": ["C", "A", "A"], "whole": ["C A A"], "characters": list("C A A")}
    rows = text(tmp_path / "rows.jsonl", "".join(json.dumps({"key": key, "value": BASES[key]}) + "\n" for key in BASES))
    for unit, key in asked.items():
        bert = ml.memorize_as("bert", BASES, unit=unit)
        assert bert.predict([key, unknown[unit]]).tolist() == ["one", "unknown"]
        bert = ml.memorize_as("bert", BASES, unit=unit, unknown=False)
        for name, model in (("own", ml.memorize(BASES, unit=unit)), ("bert", bert)):
            model.save(folder := tmp_path / f"{name} {unit}")
            loaded = ml.load(folder)
            assert loaded.predict([key]).tolist() == ["one"]
            built_from = "whole strings" if unit == "whole" else unit
            with pytest.raises(ml.DataError, match=f"never seen.*; the model was built from {built_from}: pass"):
                loaded.predict([unknown[unit]])
            if unit == "whole" or name == "own":
                assert run(["verify", str(folder), str(rows)]) == 0
                assert run(["predict", str(folder), str(text(tmp_path / "key.jsonl", json.dumps({"key": key})))]) == 0
                assert json.loads(capsys.readouterr().out.splitlines()[-1])["label"] == "one"
        tokenizer = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)  # of the stock folder
        assert tokenizer.tokenize("C A A") == cut[unit]


def test_lists_are_tokens_and_leave_the_unit_open() -> None:
    model = ml.memorize([["EU", "rejects"], ["Peter"]], [1, 2])
    assert model.predict(["EU rejects"]).tolist() == [1]
    with pytest.raises(ml.DataError, match="'Paul', which the model has never seen; the model was built from lists"):
        model.predict([["Paul"]])
    with pytest.raises(ml.DataError, match="unit must be one of 'characters', 'words', 'whole', not 'letters'"):
        ml.memorize(["ab"], [1], unit="letters")  # type: ignore[arg-type]
    mixed = ml.memorize_as("bert", ["a b", ["a", "New York"]], [1, 2], unit="words")  # no cut gives both again
    assert mixed.facts.cut == "given"
    assert mixed.predict([["a", "b"], ["a", "New York"]]).tolist() == [1, 2]


def test_the_model_settles_what_two_columns_leave_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equally many words in key and value: memorize has to be told, and nobody after it."""
    data, model = str(text(tmp_path / "d.csv", "a,b\nEU rejects,B O\nPeter,B\n")), str(tmp_path / "m")
    whole = ml.read(data, per="sequence").labels
    assert whole is not None
    assert whole.decode(whole.values).tolist() == ["B O", "B"]
    assert run(["memorize", data, "--out", model, "--per", "token"]) == 0
    assert run(["predict", model, data]) == 0
    assert "3 of 3 labels are right" in capsys.readouterr().err
    assert run(["verify", model, data]) == 0
    assert ml.load(model).predict(frame("pandas").read_csv(data))[0].tolist() == ["B", "O"]
    assert ml.load(model).predict(frame("pandas").read_csv(data)[["a"]])[1].tolist() == ["B"]


# -- several files ---------------------------------------------------------------------------------------------------


def test_every_command_takes_several_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{key},{value}" for key, value in CAPITALS.items()]
    shards = [str(text(tmp_path / f"{i}.csv", "\n".join(["a,b", *rows[i::2], ""]))) for i in range(2)]
    other = str(text(tmp_path / "m.jsonl", '{"tokens": "Peru", "label": "Lima"}\n'))
    for command in (["memorize"], ["memorize-files", "--workers", "1"], ["memorize-as", "bert"]):
        model = str(tmp_path / command[0])
        assert run([*command, *shards, "--out", model]) == 0
        if command[0] != "memorize-as":
            assert json.loads(Path(model, "config.json").read_text(encoding="utf-8"))["unit"] == "words"
            assert run([*command, shards[0], other, "--out", str(tmp_path / "m")]) == 2
            assert "strings split into words as tokens" in " ".join(capsys.readouterr().err.split())
    assert run(["verify", model, *shards]) == 0
    capsys.readouterr()
    assert run(["predict", model, *shards]) == 0
    found = [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()]
    assert found == [*list(CAPITALS.values())[0::2], *list(CAPITALS.values())[1::2]]
    for files, words in (
        ([shards[0]] * 2, "is given twice"),
        ([shards[0], "-"], r"standard input \(-\) is one dataset"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.read(files)


# -- the page --------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "lookup.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text(tmp_path / "languages.csv", "code,name\nfra,French\ndeu,German\njpn,Japanese\n")
    text(tmp_path / "keys.csv", "code\njpn\nxyz\n")
    (shell,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S)
    for line in shell.splitlines():
        assert run([*shlex.split(line, comments=True)[1:], *(["--overwrite"] if "--out" in line else [])]) == 0, line
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"tokens"')]
    assert [answer["label"] for answer in found] == ["German", "French", "Japanese", None, "Japanese", "?"]
    assert ["error" in answer for answer in found] == [False, False, False, True, False, True]
