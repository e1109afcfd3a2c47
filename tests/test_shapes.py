"""Data in every shape that people bring: each is read as what it is, or refused in words, and never misread.

A row of the table gives what `Sequences.of`, or `read` for a path, makes of a shape: tokens and labels, where a label
that is an integer or a string is a class and a float is a real number; or the words of the error.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.sparse import csr_array

import monolayer as ml
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from monolayer.data import Sequences, growing, readers
from monolayer.errors import DataError

AB = [["a"], ["b"]]
BIG = 2**53 + 1
"""The least integer that float64 does not hold."""
LISTS = {"tokens": [["a", "b"], ["c"]], "labels": [[1, 2], [None]]}
TWO, PQ = ["ab", "cd"], {"p": [1, 3], "q": [2, None]}
GAPS = {"tokens": ["a", "b"], "label": [1, None]}
Got = tuple[list[Any], list[Any]]
Given = Callable[[Path], Any]
"""What is given: `X`, or a tuple of `X`, `Y` and maybe `lengths`; a path is that of a file, which may be written."""


def classes(*labels: Any, lists: bool = False) -> Dataset:
    """Three classes by number, as some datasets have them."""
    feature = ClassLabel(names=["x", "y", "z"])
    name, kind = ("labels", List(feature)) if lists else ("label", feature)
    schema = Features({"tokens": List(Value("string")), name: kind}).arrow_schema
    table = pa.table({"tokens": [[text] for text in "abc"[: len(labels)]], name: [*labels]}, schema)
    return Dataset(table)  # unlike from_dict, without a look at the numbers


def written(name: str, content: str | dict[str, Any]) -> Given:
    def write(folder: Path) -> Path:
        if isinstance(content, str):
            (folder / name).write_text(content)
        else:
            pq.write_table(pa.table(content), folder / name)
        return folder / name

    return write


class Opened(io.StringIO):
    """An open file, as far as anybody can see."""

    name = "data.csv"


def arrow(names: list[str]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(["France"]), pa.array(["Paris"])], names=names)


def nested() -> Any:
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([1])])


MASK = np.ma.array([1, 2], mask=[False, True])
FRANCE = ([["France"]], ["Paris"])
TWICE_IN_A_HEADER = "may be data and not the names of the columns: 'c' stands there twice"
TWICE = "has 2 columns called 'c', columns 1 and 2: give each its own name"
ROUNDED = f"is {BIG} among real numbers, and float64 does not hold it (the nearest is {BIG - 1})"
SHAPES: dict[str, tuple[Given, Got | str]] = {
    # −1 and −100 in a ClassLabel column are no label where labels belong to tokens, or where all are −1
    "class -1": (lambda _: classes(-1, 0, 2), "row 0 of the Dataset, column 'label', holds class -1, and there are 3"),
    "class -100": (lambda _: classes(1, -100), "say that there is no label only among labels of tokens"),
    "class None": (lambda _: classes(None, None, 1), ([["a"], ["b"], ["c"]], [None, None, "y"])),
    "classes of tokens": (lambda _: classes([-1], [1], lists=True), (AB, [[None], ["y"]])),
    "class -100 of a token": (lambda _: classes([-100], [1], lists=True), (AB, [[None], ["y"]])),
    "class 3 of 3": (lambda _: classes(0, 3), "row 1 of the Dataset, column 'label', holds class 3"),
    "class -2": (lambda _: classes(0, -2), "row 1 of the Dataset, column 'label', holds class -2, and there are"),
    # two columns of one name
    "csv: c, c": (written("a.csv", "c,c\nFrance,Paris\n"), TWICE_IN_A_HEADER),
    "csv: c, c with blanks": (written("a.csv", "c, c \nFrance,Paris\n"), TWICE_IN_A_HEADER),
    "tsv: c, c": (written("a.tsv", "c\tc\nFrance\tParis\n"), TWICE_IN_A_HEADER),
    "pandas: c, c": (lambda _: pd.DataFrame([["France", "Paris"]], columns=["c", "c"]), "the DataFrame " + TWICE),
    "pandas: 1, '1'": (lambda _: pd.DataFrame([["a", "b"]], columns=[1, "1"]), "has 2 columns called '1'"),
    "pandas: two labels": (
        lambda _: pd.DataFrame([["a", "x", "y"]], columns=["tokens", "label", "label"]),
        "has 2 columns called 'label', columns 2 and 3",
    ),
    "Arrow: c, c": (lambda _: arrow(["c", "c"]), "the Table " + TWICE),
    "Arrow: c, d": (lambda _: arrow(["c", "d"]), FRANCE),
    # numbered columns
    "pandas: 0, 1": (lambda _: pd.DataFrame([["France", "Paris"]]), FRANCE),
    "pandas: a MultiIndex": (
        lambda _: pd.DataFrame([["France", "Paris"]], columns=pd.MultiIndex.from_product([["a"], [1, 2]])),
        FRANCE,
    ),
    # integers among reals
    "an integer among reals": (lambda _: (AB, [2**53, 0.5]), (AB, [float(2**53), 0.5])),
    "a large one": (lambda _: (AB, [BIG, 0.5]), "the label of sequence 0 " + ROUNDED),
    "a large one of NumPy": (lambda _: (AB, [0.5, np.int64(BIG)]), "the label of sequence 1 " + ROUNDED),
    "a large one in a vector": (lambda _: (AB, [[0.5, 1, 2], [0.5, 1, BIG]]), "the label of sequence 1 " + ROUNDED),
    "a large one in a table": (
        lambda _: (["ab", "cd"], pd.DataFrame({"p": [1, BIG], "q": [0.5, 1.5]})),
        "the label of token 0 of sequence 1 " + ROUNDED,
    ),
    "a large one, chunks before": (
        written("a.jsonl", "".join(f'{{"tokens": "a", "label": {y}}}\n' for y in (1, BIG, 3, 4, 5, 6, 0.5))),
        f"the label of line 2 of @ {ROUNDED}",
    ),
    "a large one in a token": (lambda _: ([[[0.5, BIG]]], [1]), "token 0 of sequence 0 " + ROUNDED),
    "vectors of large integers": (lambda _: (np.array([[[BIG, 1]]]), [1]), "token 0 of sequence 0 " + ROUNDED),
    "beyond 64 bits": (lambda _: (AB, [0.5, 2**70]), "label of sequence 1 is 1180591620717411303424, beyond 63 bits"),
    "large integers alone": (lambda _: (AB, [BIG, -(2**63)]), (AB, [BIG, -(2**63)])),
    # a gap changes no kind
    "pandas: whole floats": (
        lambda _: pd.DataFrame({"tokens": ["a", "b", "c"], "label": [1.0, np.nan, 3.0]}),
        ([["a"], ["b"], ["c"]], [1.0, None, 3.0]),
    ),
    "pandas: Int64": (lambda _: pd.DataFrame(GAPS).astype({"label": "Int64"}), (AB, [1, None])),
    "Polars": (lambda _: pl.DataFrame(GAPS), (AB, [1, None])),
    "Arrow": (lambda _: pa.table(GAPS), (AB, [1, None])),
    "Parquet": (written("a.parquet", GAPS), (AB, [1, None])),
    "Polars: lists": (lambda _: pl.DataFrame(LISTS), ([["a", "b"], ["c"]], [[1, 2], [None]])),
    "Arrow: lists": (lambda _: pa.table(LISTS), ([["a", "b"], ["c"]], [[1, 2], [None]])),
    "Parquet: lists": (written("a.parquet", LISTS), ([["a", "b"], ["c"]], [[1, 2], [None]])),
    "Y of pandas": (lambda _: (AB, pd.Series([1, None], dtype="Int64")), (AB, [1, None])),
    "Y of pandas, floats": (lambda _: (AB, pd.Series([1.0, np.nan])), (AB, [1.0, None])),
    "Y of Polars": (lambda _: (AB, pl.Series([1, None])), (AB, [1, None])),
    "Y of Polars, floats": (lambda _: (AB, pl.Series([1.0, None])), (AB, [1.0, None])),
    "Y of Arrow": (lambda _: (AB, pa.array([1, None])), (AB, [1, None])),
    "Y of Arrow, lists": (lambda _: (LISTS["tokens"], pa.array([[1, 2], [None]])), (LISTS["tokens"], [[1, 2], [None]])),
    "Y a table of Polars": (lambda _: (TWO, pl.DataFrame(PQ)), (TWO, [[1, 2], [3, None]])),
    "Y a table of Arrow": (lambda _: (TWO, pa.table(PQ)), (TWO, [[1, 2], [3, None]])),
    "Y a table of pandas": (lambda _: (TWO, pd.DataFrame({"p": [1, 3], "q": 0.5})), (TWO, [[1.0, 0.5], [3.0, 0.5]])),
    "X of Arrow": (lambda _: (pa.array([[1, 2], [3]]), ["x", "y"]), ([[1, 2], [3]], ["x", "y"])),
    # a mask is gaps
    "masked integers": (lambda _: (AB, MASK), (AB, [1, None])),
    "masked reals": (lambda _: (AB, MASK.astype(float)), (AB, [1.0, None])),
    "masked strings": (lambda _: (AB, np.ma.array(["x", "y"], mask=[True, False])), (AB, [None, "y"])),
    "masked labels of tokens": (lambda _: ([[1, 2], [3, 4]], [MASK, [3, 4]]), ([[1, 2], [3, 4]], [[1, None], [3, 4]])),
    "a mask of nothing": (lambda _: (np.ma.array([[1, 2]]), np.ma.array([7])), ([[1, 2]], [7])),
    "np.ma.masked": (lambda _: (AB, [1, np.ma.masked]), (AB, [1, None])),
    "masked tokens": (lambda _: (MASK[None], [1]), "token 1 of sequence 0 is None"),
    "masked vectors": (lambda _: (MASK[None, None] * 0.5, [1]), "token 0 of sequence 0 is [0.5, nan]: NaN and"),
    "masked padding": (lambda _: (MASK[None], [1], [1]), "X has masked tokens, and lengths: pass X.filled(0)"),
    # nothing to read
    "a LazyFrame": (lambda _: pl.LazyFrame(GAPS), "this LazyFrame is a query that has not been run: pass its result"),
    "Y a LazyFrame": (lambda _: (AB, pl.LazyFrame(GAPS)), "this LazyFrame is a query that has not been run"),
    "a sparse tensor": (lambda _: torch.eye(2).to_sparse(), "this is a sparse tensor (torch.sparse_coo): pass"),
    "Y a sparse tensor": (lambda _: (AB, torch.eye(2).to_sparse()), "this is a sparse tensor (torch.sparse_coo)"),
    "a sparse array": (lambda _: csr_array(np.eye(2)), "this csr_array is sparse: pass it as a full array, .toarray()"),
    "a nested tensor": (lambda _: nested(), "this is a nested tensor: pass its tensors as a list"),
    "a meta tensor": (lambda _: torch.zeros(2, 2, device="meta"), "this is a tensor on the device meta, which has"),
    "an open file": (lambda _: Opened("c,d\na,b\n"), "this is an open file (data.csv): pass the path of the file"),
    "Y an open file": (lambda _: (AB, Opened("x\ny\n")), "this is an open file (data.csv)"),
    "text in memory": (lambda _: io.StringIO("a,b\n"), "this is an open file: pass the path of the file"),
    "tables in a dict": (lambda _: DatasetDict(train=classes(0)), "the DatasetDict holds tables: pass one of them"),
    # a mixed list is no vector
    "a mixed list": (lambda _: (["abc"], [["x", 0.5]]), "sequence 0 has 3 tokens but 2 labels"),
    "a mixed list with a boolean": (lambda _: (["abc"], [[True, 0.5]]), "sequence 0 has 3 tokens but 2 labels"),
    "a vector": (lambda _: (["abc"], [[1, 0.5]]), (["abc"], [[1.0, 0.5]])),
}  # fmt: skip


def said(data: Sequences) -> Got:
    """Tokens and labels by the names that users know; None for a gap."""
    flat = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    labels = data.named_labels()
    assert labels is not None
    assert data.labels is not None
    rows = labels if data.labels.per == "sequence" else data.split(labels)
    found = [row.tolist() if isinstance(row, np.generic | np.ndarray) else row for row in rows]
    return [part.tolist() for part in data.split(flat)], found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_read_as_what_it_is_or_refused(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give, wanted = SHAPES[shape]
    monkeypatch.setattr(growing, "TOKENS_AT_ONCE", 3)
    given = give(tmp_path)
    X, Y, lengths = (*(given if isinstance(given, tuple) else (given,)), None, None)[:3]
    if isinstance(wanted, str):
        with pytest.raises(DataError) as caught:
            readers.sequences_of(X, Y, lengths=lengths)
        files = [*tmp_path.iterdir()]
        assert wanted.replace("@", str(files[0] if files else "")) in str(caught.value)
        return
    found = said(readers.sequences_of(X, Y, lengths=lengths))
    tokens = [[*row] for row in wanted[0]]
    assert repr(found) == repr((tokens, wanted[1]))  # 1 is a class and 1.0 is a real number
    assert ml.certify(ml.memorize(X, Y, lengths=lengths), X, Y, lengths=lengths).verdict == "proved"


@pytest.mark.parametrize("key", ["tokens", "text"])
def test_a_column_of_classes_with_no_class_in_it_has_no_labels(key: str) -> None:
    """Test splits are published with −1 throughout; they can be asked about, keys and values too."""
    unlabelled, labelled = classes(-1, -1), classes(2, 0)
    if key != "tokens":
        unlabelled, labelled = (table.rename_column("tokens", key) for table in (unlabelled, labelled))
    data = Sequences.of(unlabelled)
    assert (data.labels, data.plans[0].per, data.plans[0].counts) == (None, None, "2 rows, no labels")
    assert data.plans[0].label is None
    assert ml.memorize(labelled).predict(unlabelled).tolist() == ["z", "x"]


def test_files_are_given_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,value\na,b\n")
    file = Opened("c,d\na,b\n")
    for given, words in (
        (file, r"this is an open file \(data\.csv\)"),
        ([file], "open file"),
        (7, "a int is neither the path of a data file"),
    ):
        with pytest.raises(DataError, match=words):
            ml.read(given)
    with pytest.raises(DataError, match=r"the list of files holds 7 \(int\), which is not a path"):
        ml.read([7])  # type: ignore[list-item]
    assert len(ml.read(tmp_path.glob("*.csv"))) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("storage", ["cells", "steps"])
def test_every_integer_of_64_bits_is_a_label(storage: str, tmp_path: Path) -> None:
    labels = [-(2**63), 2**63 - 1]
    model = ml.memorize(AB, labels) if storage == "steps" else ml.memorize_as("bert", AB, labels)
    model.save(tmp_path / "model")
    assert list(map(int, ml.load(tmp_path / "model").predict(AB))) == labels
    assert ml.certify(tmp_path / "model", AB, labels).verdict == "proved"


@pytest.mark.parametrize(
    ("labels", "unknown", "wanted"),
    [
        ([0, 1], -1, -1),
        ([0, 1], "7", 7),
        ([0, 1], np.int64(7), 7),
        ([0, 1], 1.7, "the labels are integers, and 1.7 is not"),
        ([0, 1], True, -1),
        ([-1, 0], True, -2),
        ([0, 1], "x", "the labels are integers, and 'x' is not"),
        ([0, 1], -100, "unknown=-100 is not a class: -100 means that there is no label"),
        ([0, 1], 2**70, "unknown=1180591620717411303424 is beyond 63 bits"),
        (["x", "y"], "none", "none"),
        (["x", "y"], 3, "unknown must be the name of a class, such as 'unknown', not 3"),
    ],
)
def test_the_class_of_unknown_keys(labels: list[Any], unknown: Any, wanted: Any) -> None:
    if isinstance(wanted, str) and wanted != "none":
        with pytest.raises(DataError, match=wanted):
            ml.memorize_as("bert", AB, labels, unknown=unknown)
        return
    model = ml.memorize_as("bert", AB, labels, unknown=unknown)
    assert model.predict([["a"], ["b"], ["c"]]).tolist() == [*labels, wanted]
    assert ml.certify(model, AB, labels).verdict == "proved"


# -- keys and values: what is given, what is memorized, and what is proved ----------------------------------------

KEYS, VALUES = ["France", "New York", "Peru"], ["Paris", "Big Apple", "Lima of old"]
CAPITALS = dict(zip(KEYS, VALUES, strict=True))
PAIRS = list(CAPITALS.items())
ROWS = [{"country": key, "capital": value} for key, value in PAIRS]
WIDE = {"id": [1, 2, 3], "country": KEYS, "capital": VALUES}
CHOSEN = {"tokens": "country", "labels": "capital"}
AGES = {30: "young", 77: "old"}
FRAMES = {"pandas": pd.DataFrame, "Polars": pl.DataFrame, "Arrow": pa.table, "Hugging Face": Dataset.from_dict}
KEYED: dict[str, tuple[Any, dict[str, Any], dict[Any, Any]]] = {
    # what is given, options, what is memorized
    "dict": (CAPITALS, {}, CAPITALS),
    "words equally many": ({"New York": "Big Apple", "Los Angeles": "Tinsel Town"}, {}, {"New York": "Big Apple"}),
    "pairs": (PAIRS, {}, CAPITALS),
    "items of a dict": (CAPITALS.items(), {}, CAPITALS),
    "pairs, one label per word": ([("the cat", ["D", "N"])], {"per": "token"}, {"the cat": ["D", "N"]}),
    "pairs of numbers": (list(AGES.items()), {}, AGES),
    "list of dicts": (ROWS, {}, CAPITALS),
    "list of dicts by name": ([{"id": 7, **row} for row in ROWS], CHOSEN, CAPITALS),
    "list of dicts of tokens": ([{"tokens": ("a", "b"), "labels": np.array([1, 2])}], {}, {("a", "b"): [1, 2]}),
    "integer keys": (AGES, {}, AGES),
    "Series": (pd.Series(CAPITALS), {}, CAPITALS),
    "Series with named integers": (pd.Series(AGES).rename_axis("age"), {}, AGES),
    "Series with two indices": (
        pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "c": [1, 2]}).set_index(["a", "b"])["c"],
        {},
        {("x", "u"): 1, ("y", "v"): 2},
    ),
    "Polars structs": (pl.Series(ROWS), {}, CAPITALS),
    "dict of columns": ({"prompts": KEYS, "answers": VALUES}, {}, CAPITALS),
    "dict of columns by name": (WIDE, CHOSEN, CAPITALS),
    "dict of arrays": ({"number": np.array([7, 8, 9]), "name": np.array(VALUES)}, {}, {7: "Paris", 9: "Lima of old"}),
    "dict of tokens": ({"tokens": ["the cat", "sat"], "labels": ["D N", "V"]}, {}, {"the cat": ["D", "N"]}),
    "dict of vectors": ({"a": [0.5, 1.0], "b": [1.5, 2.0]}, {}, {"b": [1.5, 2.0]}),
    "dict of labels per word": ({"the cat": ["D", "N"], "a dog": ["E", "M"]}, {"per": "token"}, {"a dog": ["E", "M"]}),
    **{f"{name} by name": (make(WIDE), CHOSEN, CAPITALS) for name, make in FRAMES.items()},
    "list of integers": ([30, 77], {"Y": ["young", "old"], "unit": "whole"}, AGES),
    "column of integers": (pd.Series([30, 77]), {"Y": ["young", "old"], "unit": "whole"}, AGES),
}


@pytest.mark.parametrize("name", KEYED)
def test_every_shape_of_data_is_memorized_and_proved_as_it_was_given(name: str, tmp_path: Path) -> None:
    given, options, wanted = KEYED[name]
    model = ml.memorize(given, **options)
    proof = ml.certify(model, given, **options)
    assert (proof.verdict, proof.wrong) == ("proved", 0)
    model = ml.load(model.save(tmp_path / "model"))  # the file remembers how keys are split, too
    for key, value in wanted.items():
        asked = list(key) if isinstance(key, tuple) else key
        assert np.asarray(model.predict([asked])[0]).tolist() == value
        if not isinstance(key, tuple):
            assert np.asarray(model.predict(key)).tolist() == value
    asked = [list(key) if isinstance(key, tuple) else key for key in wanted]
    assert len(model.predict(asked)) == len(wanted)
    if options.get("per") != "token" and "tokens" not in name:
        built = ml.memorize_as("bert", given, **options) if np.ndim(next(iter(wanted.values()))) == 0 else None
        if built is not None:
            assert built.predict(asked).tolist() == [*wanted.values()]
            assert ml.certify(built, given, **options).verdict == "proved"


@pytest.mark.parametrize("name", KEYED)
def test_the_checker_sees_a_fault_of_the_reader_in_every_shape(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader swaps two labels, or loses the last row: nothing is proved, since the checker reads for itself."""
    given, options, _ = KEYED[name]
    model, of = ml.memorize(given, **options), ml.Sequences.of

    def swapped(data: ml.Sequences) -> ml.Sequences:
        assert data.labels is not None
        return replace(data, labels=replace(data.labels, values=data.labels.values[::-1]))

    def shorter(data: ml.Sequences) -> ml.Sequences:
        return data.select(np.arange(max(1, len(data) - 1)))

    for fault in (swapped, shorter)[: 1 + (len(of(given, **options, labelled=True)) > 1)]:
        with monkeypatch.context() as patch:
            patch.setattr(ml.Sequences, "of", lambda *args, fault=fault, **rest: fault(of(*args, **rest)))
            with pytest.raises(ml.DataError, match="this is a bug in the reader"):
                ml.certify(model, given, **options)


def test_edits_and_questions_take_the_same_shapes(tmp_path: Path) -> None:
    model = ml.memorize(CAPITALS)
    (tmp_path / "d.json").write_text(json.dumps(CAPITALS))
    edits: list[tuple[Any, Any]] = [
        ({"France": "Lyon"}, CAPITALS),
        ([("France", "Lyon")], PAIRS),
        ([{"country": "France", "capital": "Lyon"}], str(tmp_path / "d.json")),
        (pd.Series({"France": "Lyon"}), pd.Series(CAPITALS)),
    ]
    for facts, data in edits:
        new, _ = ml.edit(model, facts, data=data)
        assert new.predict("France") == "Lyon"
        assert new.predict(["New York"]).tolist() == ["Big Apple"]
    more, _ = ml.insert(model, {"Japan": "Tokyo"}, data=PAIRS)
    assert ml.certify(more, CAPITALS | {"Japan": "Tokyo"}).verdict == "proved"
    column = pd.DataFrame({"country": KEYS})["country"]
    for asked in (column, column[[True, True, True]], pl.Series(KEYS), ROWS, CAPITALS, {"country": KEYS}):
        assert model.predict(asked).tolist() == VALUES
    ages = ml.memorize(AGES)
    assert ages.predict(np.array([77, 30])).tolist() == ages.predict(pd.Series([77, 30])).tolist() == ["old", "young"]
    assert ml.forget(ages, [[30]], AGES)[0].predict(77) == "old"
    answers = ml.memorize_as("gpt2", [("France is", " far")], per="answer")
    assert answers.predict("France is") == " far"


TWO_READINGS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "lists of two": ([["a", "b"], ["c", "d"]], {}, r"labels are missing: .* pass \[tuple\(row\) for row in X\]"),
    "numbered Series": (pd.Series(["a", "b"], index=[3, 7]), {}, "if it holds the keys, pass X.to_dict"),
    "Polars Series": (pl.Series(["a", "b"]), {}, "A Series of Polars has no index: pass a DataFrame of two columns"),
    "lists per key": (
        {"the cat": ["D", "N"], "a dog": ["D", "N"]},
        {},
        "tokens='the cat', labels='a dog'; if each holds the labels of the words of its key, say per='token'",
    ),
    "uneven columns": ({"tokens": ["a"], "label": [1, 2]}, {}, "several lengths: 'tokens' has 1, 'label' has 2"),
    "columns of a list": ([["a"]], CHOSEN, "tokens= and labels= choose columns of a table, and X is a list"),
    "columns of keys": (CAPITALS, CHOSEN, "choose columns, and this dict holds a label for each key"),
    "many columns": (
        WIDE,
        {},
        "3 columns, 'id', 'country', 'capital', and none .* such as tokens='id'",
    ),
    "a row of no dict": ([ROWS[0], "x"], {}, "item 1 of X is 'x', not an object"),
    "a row without it": ([ROWS[0], {"country": "Peru"}], {}, "item 1 of X has no value"),
    "integers": ([30, 77], {"Y": [1, 2]}, r"one token, say unit='whole'; if all are one sequence, pass \[X\]"),
    "labels twice": (CAPITALS, {"Y": ["a"]}, "a dict holds the label of each key: leave Y out"),
}


@pytest.mark.parametrize("name", TWO_READINGS)
def test_what_could_be_two_things_is_an_error_with_both_ways_out(name: str) -> None:
    given, options, words = TWO_READINGS[name]
    with pytest.raises(ml.DataError, match=words):
        ml.memorize(given, **options)


def test_pairs_of_text_are_two_things_to_an_architecture_that_generates() -> None:
    with pytest.raises(
        ml.DataError, match=r"say per='answer', or pass dict\(X\); for sequences of two tokens, pass \["
    ):
        ml.memorize_as("gpt2", PAIRS)
    assert ml.memorize_as("gpt2", [list(row) for row in PAIRS]).card.next_token
    assert ml.memorize(PAIRS, causal=True).card.next_token  # without Y, a causal model memorizes next tokens


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "d.tsv",
            "country,capital\nFrance,Paris\n",
            "If commas separate the columns, say separator=','",
        ),
        ("d.csv", "a,b;c\nd,e;f\n", "commas or semicolons; say which, separator=',' or separator=';'"),
    ],
)
def test_another_separator_is_named(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ml.DataError, match=words):
        ml.memorize(tmp_path / name)
    with pytest.raises(ml.DataError, match=words):  # also where a table of keys alone would do
        ml.read(tmp_path / name, like=ml.memorize(CAPITALS).card.manner)


def test_one_prompt_and_one_answer_are_columns_of_one_row() -> None:
    """Not two sequences of one word each, called by the names of the columns."""
    data = ml.Sequences.of({"prompt": ["a b"], "completion": ["c"]})
    assert (len(data), data.lengths.tolist()) == (1, [2])
