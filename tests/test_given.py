"""The second look at the caller's data: what it finds in files, tables and dicts, and which differences it sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monolayer.checker import files as given_files
from monolayer.checker.asked import asked_data, asked_files, confirm_given
from monolayer.checker.given import DataComparison, _flat, _per_token, confirm_texts
from monolayer.checker.rows import rows_of_memory
from monolayer.data import Sequences, read
from monolayer.data.layout import Manner
from monolayer.data.plan import ReadColumn
from monolayer.errors import DataError
from tests.read_files import needed, put

LIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a header that is none": ("a.csv", "country,capital\nFrance,Paris\n", {"header": False}),
    "no header where one is": ("a.csv", "country,capital\nFrance,Paris\n", {"header": True, "rows": 2}),
    "another separator": ("a.csv", "country,capital\nFrance,Paris;x\n", {"separator": ";"}),
    "another column": ("a.csv", "tokens,label,other\na,x,y\nb,y,x\n", {"label": ("other", 2)}),
    "a column by another name": ("a.csv", "country,capital\nFrance,Paris\n", {"key": ("land", 0)}),
    "another unit": ("a.csv", "country,capital\nNew York,x\n", {"unit": "whole"}),
    "no unit": ("a.csv", "country,capital\nFrance,Paris\n", {"unit": None}),
    "one row more": ("a.csv", "country,capital\nFrance,Paris\n", {"rows": 2}),
    "a gap less": ("a.jsonl", '{"tokens": "a", "label": null}\n{"tokens": "b", "label": 1}\n', {"gaps": 0}),
    "labels of tokens": ("a.jsonl", '{"text": "a b", "label": "x"}\n', {"per": "token"}),
    "quotes": ("a.csv", 'country,capital\n"Fra,nce",Paris\n', {"format": "tsv"}),
}
"""By name: a file, its content, and what a reader with a fault would state of it."""


@pytest.mark.parametrize("kind", LIES)
def test_a_plan_that_is_not_what_was_read_is_found(kind: str, tmp_path: Path) -> None:
    name, text, lie = LIES[kind]
    file = str(put(tmp_path / name, text))
    data = read(file)
    given_files.confirm_files(data, [file])
    lie = {field: ReadColumn(*value) if field in ("key", "label") else value for field, value in lie.items()}
    told = replace(data, plans=(replace(data.plans[0], **lie),))
    with pytest.raises(DataError, match="this is a bug in the reader, so nothing is proved"):
        given_files.confirm_files(told, [file])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "datasets", "dict"])
def test_the_second_reading_of_tables_and_parquet(library: str, tmp_path: Path) -> None:
    """Tables with columns before, between and behind those that are read; and with none for labels."""
    columns = {"x": [1, 2], "labels": [["A"], ["B"]], "y": [3, 4], "tokens": [["to"], ["be"]], "z": [5, 6]}
    rows = [(["to"], ["A"]), (["be"], ["B"])]
    alone = [(tokens, None) for tokens, _ in rows]
    for table, wanted in ((columns, rows), ({"x": [1, 2], "tokens": columns["tokens"]}, alone)):
        if library == "pyarrow":
            file = str(put(tmp_path / "a.parquet", table))
            (plan,) = asked_files(file).plans
            assert list(given_files._rows_of_file(file, plan)) == wanted
        makers = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
        shape: Any = table
        if library != "dict":
            module = needed(library)
            made = makers.get(library)
            shape = getattr(module, made)(table) if made else module.Dataset.from_dict(table)
        (plan,) = asked_data(shape, None, None, Manner()).plans
        found = rows_of_memory(shape, plan)
        assert [(list(tokens), label and list(label)) for tokens, label in found] == wanted


def test_columns_under_other_names_and_pickled_arrays_are_not_read(tmp_path: Path) -> None:
    table = {"tokens": [["a"]], "labels": [["A"]], "more": [["B"]]}
    for shape in (pd.DataFrame(table), needed("pyarrow").table(table)):
        (plan,) = asked_data(shape, None, None, Manner()).plans
        moved = replace(plan, label=ReadColumn("labels", 2))
        with pytest.raises(DataError, match="column 2 was read as 'labels' and is called 'more'"):
            list(rows_of_memory(shape, moved))
    np.savez(tmp_path / "a.npz", X=np.array([[1]]))
    plan = read(tmp_path / "a.npz").plans[0]
    np.savez(tmp_path / "a.npz", X=np.array([["a"]], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        given_files._confirm_npz(DataComparison(Sequences.of([["a"]])), str(tmp_path / "a.npz"), plan)


BIG = 2**53
DIFFER: dict[str, tuple[Any, Any, str]] = {
    "one coordinate of the last vector": (
        ([[[0.5, 1.0]], [[2.0, 0.25]]], [[1], [2]]),
        (np.array([[[0.5, 1.0]], [[2.0, 0.5]]]), [[1], [2]]),
        "token 0 of sequence 1 was given as .2.0, 0.5. and",
    ),
    "one coordinate of a real label": (
        ([["a"], ["b"]], [[0.5, 1.0], [2.0, 0.25]]),
        ([["a"], ["b"]], np.array([[0.5, 1.0], [2.0, 0.5]])),
        "the label of sequence 1 was given as .2.0, 0.5. and",
    ),
    "the last of three labels": (
        ([["a"]] * 3, [0.5, 1.5, 2.5]),
        ([["a"]] * 3, np.array([0.5, 1.5, 3.5])),
        "the label of sequence 2 was given as 3.5",
    ),
    "the first of three labels": (
        ([["a"]] * 3, ["x", "y", "z"]),
        ([["a"]] * 3, ["v", "y", "z"]),
        "the label of sequence 0 was given as 'v'",
    ),
    **{
        f"a large integer of {kind}, {sign}": (
            ([["a"]], [float(sign * BIG)]),
            ([["a"]], np.array([sign * BIG + sign], kind)),
            f"the label of sequence 0 was given as {sign * BIG + sign}",
        )
        for kind, sign in (("i8", 1), ("i8", -1), ("u8", 1))
    },
    "a large integer among small ones": (
        ([["a"], ["b"]], [1.0, float(BIG)]),
        ([["a"], ["b"]], np.array([1, BIG + 1])),
        f"the label of sequence 1 was given as {BIG + 1}",
    ),
    "a large negative integer among small ones": (
        ([["a"], ["b"]], [1.0, float(-BIG)]),
        ([["a"], ["b"]], np.array([1, -BIG - 1])),
        f"the label of sequence 1 was given as {-BIG - 1}",
    ),
    "a label where none was read": (
        ([["a"]] * 3, [1, None, None]),
        ([["a"]] * 3, [1, 2, 3]),
        "sequence 1 was given with one label and read with none",
    ),
    "none where a label was read": (
        ([["a"]] * 3, [1, 2, 3]),
        ([["a"]] * 3, [1, None, None]),
        "sequence 1 was given with none label and read with one",
    ),
    "half of a vector missing": (
        ([["a"], ["b"]], [[0.5, 1.0], None]),
        ([["a"], ["b"]], np.array([[0.5, 1.0], [np.nan, 1.0]])),
        "sequence 1 was given with one label and read with none",
    ),
    "reals for classes": (
        ([["a"], ["b"]], [1, 2]),
        ([["a"], ["b"]], [1.0, 2.0]),
        "the label of sequence 0 was given as 1.0",
    ),
    "a shorter sequence": (
        ([["a", "b"], ["c", "d"]], None),
        ([["a", "b"], ["c"]], None),
        "sequence 1 has 1 tokens and 2 were read",
    ),
}
"""By name: data as they were read, as they were given, and what is said."""


@pytest.mark.parametrize("kind", DIFFER)
def test_the_first_difference_is_found_and_named(kind: str) -> None:
    as_read, given, words = DIFFER[kind]
    if kind != "half of a vector missing":  # which the reader refuses
        confirm_given(Sequences.of(*given), *given)
    with pytest.raises(DataError, match=words):
        confirm_given(Sequences.of(*as_read), *given)


def test_tables_of_labels_series_and_lists_of_dicts() -> None:
    """Columns of labels without the index; a Series whose index is its keys; dicts that lack what the first one has."""
    X, Y = [["a", "b"], ["b", "c"]], [["x", "y"], ["y", "z"]]
    data = Sequences.of(X, Y)
    confirm_given(data, X, pd.DataFrame(Y, index=[7, 9]))
    with pytest.raises(DataError, match="the label of token 1 of sequence 1 was given as 'v'"):
        confirm_given(data, X, pd.DataFrame([["x", "y"], ["y", "v"]]))
    for index in (["a", "b"], pd.Index([3, 4], name="key")):
        series = pd.Series([1, 2], index=index)
        (plan,) = asked_data(series, None, None, Manner(), labelled=True).plans
        assert list(rows_of_memory(series, plan)) == [
            (one if isinstance(one, str) else [one], label) for one, label in series.items()
        ]
    dicts = [
        {"x": 0, "tokens": ["a"], "labels": ["p"]},
        {"tokens": ["b"], "labels": None},
        {"labels": ["q"], "tokens": ["c"], "y": 1},
    ]
    (plan,) = asked_data(dicts, None, None, Manner()).plans
    assert list(rows_of_memory(dicts, plan)) == [(["a"], ["p"]), (["b"], None), (["c"], ["q"])]


def test_rows_count_up_to_their_lengths_and_text_has_a_label_per_word_or_character() -> None:
    rows = np.array([[1, 2, 3], [4, 5, 6]])
    assert _flat(rows, [2, 3]).tolist() == [1, 2, 4, 5, 6]
    assert _flat(rows, [3, 3]).tolist() == [1, 2, 3, 4, 5, 6]
    assert _flat(rows[0], [1, 1, 1]).tolist() == [1, 2, 3]
    assert [_per_token(label, 2) for label in ("A B", "AB", None)] == [["A", "B"], ["A", "B"], [None, None]]


def test_labels_beside_sequences_that_were_read_before() -> None:
    data = Sequences.of([["a"], ["b"]], [1, 2])
    with pytest.raises(DataError, match="the label of sequence 1 was given as 3"):
        confirm_given(data, data, [1, 3])
    table = {"tokens": [["a"], ["b"]]}
    confirm_given(Sequences.of(table, [1, 2]), table, [1, 2])
    with pytest.raises(DataError, match="the label of sequence 1 was given as 3"):
        confirm_given(Sequences.of(table, [1, 2]), table, [1, 3])


def test_parts_of_another_length_than_was_read_are_not_compared() -> None:
    with pytest.raises(DataError, match="7 values were given where 6 were read"):
        DataComparison(Sequences.of([[3, 1, 4], [1, 5, 9]])).tokens([3, 1, 4, 1, 5, 9, 2])


def test_a_file_whose_labels_are_all_gaps_is_read_without_labels(tmp_path: Path) -> None:
    gaps, one = '{"tokens": ["a", "b"], "labels": [null, null]}\n', '{"tokens": ["a", "b"], "labels": [null, "x"]}\n'
    file = str(put(tmp_path / "a.jsonl", gaps + gaps))
    data = read(file)
    assert data.labels is None
    given_files.confirm_files(data, [file])
    put(tmp_path / "a.jsonl", gaps + one)
    with pytest.raises(DataError, match="was given with a label and no labels were read"):
        given_files.confirm_files(data, [file])


def test_minus_100_is_a_gap_among_classes_of_tokens_in_lists_and_in_arrays() -> None:
    X, Y = [["a", "b"], ["b", "c"]], [[1, -100], [-100, 2]]
    data = Sequences.of(X, Y)
    for given in (Y, np.array(Y), np.array(Y, np.int8), [[1, None], [-100, 2]]):
        confirm_given(data, X, given)
        other = [list(row) for row in given]
        other[1][0] = 3
        with pytest.raises(DataError, match="token 0 of sequence 1 was given with one label and read with none"):
            confirm_given(data, X, np.array(other) if isinstance(given, np.ndarray) else other)
    with pytest.raises(DataError, match="token 1 of sequence 0 was given with one label and read with none"):
        confirm_given(data, X, np.array(Y, float))
    reals = Sequences.of(X, [[1.5, -100.0], [-100.0, 2.0]])
    confirm_given(reals, X, [[1.5, -100.0], [-100.0, 2.0]])


@pytest.mark.parametrize("more", [1, 2, 5])
def test_labels_behind_the_last_place_that_was_read_are_compared_with_none(more: int) -> None:
    comparison = DataComparison(Sequences.of([["a"], ["b"]], [1, 2]))
    comparison.lengths([1, 1])
    comparison.labels([1, 2, None, None])
    comparison.labels([None] * more)
    with pytest.raises(DataError, match=f"sequence {4 + more} was given with one label and read with none"):
        comparison.labels([3])
    with pytest.raises(DataError, match=f"2 sequences with {2 + more} gaps were given, and the plan states 2 with 0"):
        comparison.finish()


def test_prompts_and_answers_are_compared_row_by_row() -> None:
    prompts, answers = ["a b", "c"], ["x", "y"]
    data = Sequences.of(prompts, answers, per="answer")
    confirm_given(data, prompts, answers)
    for given, words in (
        ((prompts, ["x", "z"]), "prompt and answer of sequence 1 were given as"),
        ((prompts[:1], answers[:1]), "1 prompts were given and 2 were read"),
        (([], []), "0 prompts were given and 2 were read"),
        (([*prompts, "d"], [*answers, "z"]), "3 prompts were given and 2 were read"),
        ((prompts, ["x", ""]), "prompt and answer of sequence 1 were given as"),
    ):
        with pytest.raises(DataError, match=words):
            confirm_given(data, *given)
    with pytest.raises(DataError, match="a second look at X fails"):
        confirm_given(data, prompts, answers[:1])


def test_spaces_in_front_of_answers_are_stated_and_counted(tmp_path: Path) -> None:
    """Answers have a space in front where prose has one, continuations have none, in files and in tables."""
    rows = [("a b", "c"), ("a b", ", c"), ("d ", "e"), ("f", None)]
    columns = {"prompt": [prompt for prompt, _ in rows], "answer": [answer for _, answer in rows]}
    file = str(
        put(tmp_path / "a.jsonl", "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    )
    for per, spaced in (("answer", 1), ("continuation", 0)):
        for data in (asked_files(file, per=per), asked_data(columns, None, None, Manner(), per=per)):
            (plan,) = data.plans
            assert (plan.per, plan.spaced, plan.gaps, plan.rows) == (per, spaced, 1, 4)
            words = ["a space put before 1 answer", "answers taken as given"][per == "continuation"]
            assert str(plan).endswith(f"prompt 'prompt', answer 'answer'; {words}; 4 rows, 1 of them without an answer")
            confirm_texts(data, rows, [plan])
            with pytest.raises(
                DataError, match=f"{spaced} answers were read with a space in front, and the plan states 2"
            ):
                confirm_texts(data, rows, [replace(plan, spaced=2)])


def test_strings_are_compared_some_at_a_time_from_the_first_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.array([[f"t{row}", "u"] for row in range(9)])
    data = Sequences.of(X)
    for chunk in (1, 2, 4, 6, 100):
        monkeypatch.setattr("monolayer.checker.given.CHUNK", chunk)
        confirm_given(data, X)
        for row in range(9):
            other = X.copy()
            other[row, 1] = "v"
            with pytest.raises(DataError, match=f"token 1 of sequence {row} was given as 'v'"):
                confirm_given(data, other)
