"""The second look at the caller's data: what it finds in files, tables and dicts, and which differences it sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monolayer.checker import files as given_files
from monolayer.checker import rows as given_rows
from monolayer.checker.given import UNSPACED_RANGES, DataComparison, _flat, _needs_space, _per_token, confirm
from monolayer.checker.rows import ReadOptions
from monolayer.data import Sequences
from monolayer.data.prompts import as_generated
from monolayer.errors import DataError
from tests.test_certify_data import needed, parquet, written

SECOND: dict[str, tuple[str, str, ReadOptions, list[Any], str]] = {
    "conll": (
        "a.conll",
        "-DOCSTART- -X- O\n\nto A\nbe B\n\n#or C D\n",
        ReadOptions(),
        [(["to", "be"], ["A", "B"]), (["#or"], ["D"])],
        "whole",
    ),
    "conll, one column": (
        "a.conll",
        "to\nbe\n\n\nor\n",
        ReadOptions(),
        [(["to", "be"], None), (["or"], None)],
        "whole",
    ),
    "conll, one column for both": (
        "a.iob",
        "to\nbe\n",
        ReadOptions(labels="-1"),
        [(["to", "be"], ["to", "be"])],
        "whole",
    ),
    "conll, chosen columns": (
        "a.iob2",
        "1 to X A\n2 be Y B\n",
        ReadOptions(tokens="2", labels="1"),
        [(["to", "be"], ["1", "2"])],
        "whole",
    ),
    "conll, columns from the end": (
        "a.bio",
        "1 to X A\n2 be Y B\n",
        ReadOptions(tokens="-3", labels="-2"),
        [(["to", "be"], ["X", "Y"])],
        "whole",
    ),
    "conll, tabs": (
        "a.conll",
        "# a comment\n\nto me\tA B\n# no\n#\tC\n",
        ReadOptions(),
        [(["to me", "#"], ["A B", "C"])],
        "whole",
    ),
    "conll, comments only": ("a.conll", "-DOCSTART-\n\n", ReadOptions(), [], "whole"),
    "conllu": (
        "a.conllu",
        "# text\n1-2\tthe\t_\t_\n1\tto\tx\tA\ty\n1.1\tno\t_\tZ\t_\n2\tbe or\tx\tB\ty\n\n1\tor\tx\tC\ty\n",
        ReadOptions(),
        [(["to", "be or"], ["A", "B"]), (["or"], ["C"])],
        "whole",
    ),
    "conllu, chosen columns": (
        "a.conllu",
        "1\tto\tx\tA\ty\n",
        ReadOptions(tokens="3", labels="5"),
        [(["x"], ["y"])],
        "whole",
    ),
    "json, a list": ("a.json", '[["a b", "x"], ["c", "y"]]', ReadOptions(), [("a b", "x"), ("c", "y")], "words"),
    "json, keys and values": (
        "a.json",
        '{"prompt": 1, "b": 2, "c": 3}',
        ReadOptions(),
        [("prompt", 1), ("b", 2), ("c", 3)],
        "words",
    ),
    "json, one prompt": ("a.json", '{"answer": "b", "prompt": "a"}', ReadOptions(), [("b", "a")], "words"),
    "json, one row": (
        "a.json",
        '{"tokens": "ab", "labels": [1, 2], "x": 0}',
        ReadOptions(),
        [("ab", [1, 2])],
        "characters",
    ),
    "json, lines": (
        "a.json",
        '{"tokens": "ab"}\n\n{"tokens": "c"}\n',
        ReadOptions(),
        [("ab", None), ("c", None)],
        "characters",
    ),
    "jsonl, one line": ("a.jsonl", '{"k": "a", "v": "b"}\n', ReadOptions(), [("a", "b")], "words"),
    "csv": (
        "a.csv",
        'tokens,other,tags\n"to\nbe",1,A B\n\nor,2,\n',
        ReadOptions(),
        [("to\nbe", "A B"), ("or", None)],
        "words",
    ),
    "csv, two usual names": ("a.csv", "tags,label,tokens\nA,B,to\n", ReadOptions(), [("to", "B")], "words"),
    "csv, three columns": ("a.csv", "a,b,c\n1,2,3\n", ReadOptions(), [("1", "2")], "words"),
    "csv, one column": ("a.csv", "a\n1\n", ReadOptions(), [("1", None)], "words"),
    "text": ("a.txt", "to be\n\tor\r\n", ReadOptions(format="text"), [("to be", None), ("\tor", None)], "words"),
}
"""By name: a file, its content, the options, and the rows and the unit that the second reading finds in it."""


@pytest.mark.parametrize("kind", SECOND)
def test_the_second_reading_finds_these_rows(kind: str, tmp_path: Path) -> None:
    name, text, options, rows, unit = SECOND[kind]
    found, way = given_files._rows_of_file(str(written(tmp_path / name, text)), options, False)
    assert (list(found), way) == (rows, unit)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "datasets"])
def test_the_second_reading_of_tables_and_parquet(library: str, tmp_path: Path) -> None:
    module = needed(library)
    columns = {"x": [1, 2], "labels": [["A"], ["B"]], "y": [3, 4], "tokens": [["to"], ["be"]], "z": [5, 6]}
    rows = [(["to"], ["A"]), (["be"], ["B"])]
    alone = [(tokens, None) for tokens, _ in rows]
    for table, wanted in ((columns, rows), ({"x": [1, 2], "tokens": columns["tokens"]}, alone)):
        if library == "pyarrow":
            file = parquet(tmp_path / "a.parquet", table)
            assert list(given_files._rows_of_file(str(file), ReadOptions(), False)[0]) == wanted
        made = {"polars": "DataFrame", "pyarrow": "table"}.get(library)
        shape = getattr(module, made)(table) if made else module.Dataset.from_dict(table)
        read_rows: Any = given_rows._rows_of_shape(shape, ReadOptions(), False)
        assert [(list(tokens), label and list(label)) for tokens, label in read_rows[0]] == wanted


def test_the_second_reading_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables with columns before, between and behind those that are read; and with none for labels."""
    columns = {"x": [1, 2], "labels": [["A"], ["B"]], "y": [3, 4], "tokens": [["to"], ["be"]], "z": [5, 6]}
    rows = [(["to"], ["A"]), (["be"], ["B"])]
    alone = [(tokens, None) for tokens, _ in rows]
    for table, wanted in ((columns, rows), ({"x": [1, 2], "tokens": columns["tokens"]}, alone)):
        for shape in (pd.DataFrame(table), table):
            read_rows: Any = given_rows._rows_of_shape(shape, ReadOptions(), False)
            assert [(list(tokens), label and list(label)) for tokens, label in read_rows[0]] == wanted
    asked = {"answer": ["b"], "other": ["c"], "question": ["a"]}
    for answers, row in ((True, ("a", "b")), (False, ("b", "c"))):
        chosen = given_rows.choose(list(asked), ReadOptions(), answers)
        assert chosen.of(["b", "c", "a"]) == row
    assert given_rows.choose(["question"], ReadOptions(), True) == given_rows.Chosen(0, None, "words")
    # What has another length, or was pickled, is not read at all; nor is more of a document than fits.
    with pytest.raises(ValueError, match=r"shorter|longer"):
        list(given_rows._rows_of_shape({"tokens": [["a"], ["b"]], "labels": [["A"]]}, ReadOptions(), False)[0])  # type: ignore[index]
    np.savez(tmp_path / "a.npz", X=np.array([["a"]], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        given_files._confirm_npz(DataComparison(Sequences.of([["a"]])), str(tmp_path / "a.npz"), ReadOptions())
    document = written(tmp_path / "a.json", '[["a", "x"],\n ["b", "y"]]')
    longest = len(document.read_text())
    monkeypatch.setattr(given_files, "LONGEST_JSON", longest)
    assert list(given_files._objects(str(document), document=True)) == [["a", "x"], ["b", "y"]]
    monkeypatch.setattr(given_files, "LONGEST_JSON", longest - 1)
    with pytest.raises(ValueError, match="Expecting value"):  # line by line
        list(given_files._objects(str(document), document=True))


DICTS: dict[str, tuple[dict[Any, Any], ReadOptions, bool]] = {
    "chosen": ({"a": ["x"], "b": ["y"]}, ReadOptions(tokens="a"), True),
    "tokens": ({"tokens": [["x"]], "more": [["y"]]}, ReadOptions(), True),
    "a prompt and an answer": ({"prompt": ["x"], "answer": ["y"]}, ReadOptions(per="token"), True),
    "prompts and answers beside a third": (
        {"prompt": ["x"], "answer": ["y"], "c": ["z"]},
        ReadOptions(per="token"),
        False,
    ),
    "prompts alone": ({"prompt": ["x"]}, ReadOptions(per="token"), False),
    "labels of keys": ({"to be": "x", "or": "y"}, ReadOptions(), False),
    "numbers of keys": ({"to be": 1, "or": 2}, ReadOptions(), False),
    "a vector per key": ({"to be": [0.5, 1], "or": [0.25, 2]}, ReadOptions(), False),
    "words and numbers": ({"to be": [0.5, "x"], "or": [0.25, 2]}, ReadOptions(), True),
    "a label per word": ({"to be": ["x", "y"], "or": ["z"]}, ReadOptions(per="token"), False),
    "a label per word of all but one": ({"to be": ["x", "y"], "or": ["z", "x"]}, ReadOptions(per="token"), True),
    "a label per word, not asked": ({"to be": ["x", "y"], "or": ["z"]}, ReadOptions(), True),
    "a key that is not a name": ({"to be": ["x", "y"], 3: ["z", "x"]}, ReadOptions(), False),
}


@pytest.mark.parametrize("kind", DICTS)
def test_which_dicts_hold_columns(kind: str) -> None:
    mapping, options, columns = DICTS[kind]
    assert given_rows._is_columns(mapping, options) is columns


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
        confirm(Sequences.of(*given), *given)
    with pytest.raises(DataError, match=words):
        confirm(Sequences.of(*as_read), *given)


def test_tables_of_labels_series_and_lists_of_dicts() -> None:
    """Columns of labels without the index; a Series whose index is its keys; dicts that lack what the first one has."""
    X, Y = [["a", "b"], ["b", "c"]], [["x", "y"], ["y", "z"]]
    data = Sequences.of(X, Y)
    confirm(data, X, pd.DataFrame(Y, index=[7, 9]))
    with pytest.raises(DataError, match="the label of token 1 of sequence 1 was given as 'v'"):
        confirm(data, X, pd.DataFrame([["x", "y"], ["y", "v"]]))
    asked = ReadOptions(pairs=True)
    for index in (["a", "b"], pd.Index([3, 4], name="key")):
        found: Any = given_rows._rows_of_shape(pd.Series([1, 2], index=index), asked, False)
        assert list(found[0]) == [*zip(index, [1, 2], strict=True)]
    assert given_rows._rows_of_shape(pd.Series([1, 2]), asked, False) is None
    assert given_rows._rows_of_shape(pd.Series([1, 2], index=["a", "b"]), ReadOptions(), False) is None
    dicts = [
        {"x": 0, "tokens": ["a"], "labels": ["p"]},
        {"tokens": ["b"]},
        {"labels": ["q"], "tokens": ["c"], "y": 1},
        {"tokens": ["d"]},
    ]
    listed: Any = given_rows._rows_of_shape(dicts, ReadOptions(), False)
    assert list(listed[0]) == [(["a"], ["p"]), (["b"], None), (["c"], ["q"]), (["d"], None)]


def test_rows_count_up_to_their_lengths_and_text_has_a_label_per_word_or_character() -> None:
    rows = np.array([[1, 2, 3], [4, 5, 6]])
    assert _flat(rows, [2, 3]).tolist() == [1, 2, 4, 5, 6]
    assert _flat(rows, [3, 3]).tolist() == [1, 2, 3, 4, 5, 6]
    assert _flat(rows[0], [1, 1, 1]).tolist() == [1, 2, 3]
    assert [_per_token(label, 2) for label in ("A B", "AB", None)] == [["A", "B"], ["A", "B"], [None, None]]
    data = Sequences.of([["to", "be"], ["or"]], ["x", "y"])
    assert given_rows.confirm_table(data, {"to be": "x", "or": "y"}, None, ReadOptions())


def test_what_is_no_table_is_compared_elsewhere() -> None:
    """False says so, and the labels of sequences that were read before are compared there."""
    data = Sequences.of([["a"], ["b"]], [1, 2])
    for X in (data, [["a"], ["b"]], np.array([["a"], ["b"]])):
        assert given_rows.confirm_table(data, X, None, ReadOptions()) is False
    assert given_rows.confirm_table(data, {"tokens": [["a"], ["b"]], "labels": [1, 2]}, None, ReadOptions()) is True
    with pytest.raises(DataError, match="the label of sequence 1 was given as 3"):
        confirm(data, data, [1, 3])


def test_parts_of_another_length_than_was_read_are_not_compared() -> None:
    with pytest.raises(DataError, match="7 values were given where 6 were read"):
        DataComparison(Sequences.of([[3, 1, 4], [1, 5, 9]])).tokens([3, 1, 4, 1, 5, 9, 2])


def test_answers_have_a_space_in_front_where_the_reader_puts_one() -> None:
    """At both ends of every script without spaces, on either side; and before and after punctuation and space."""
    letters = [chr(code) for low, high in UNSPACED_RANGES for code in (low - 1, low, high, high + 1)]
    letters += ["a", "Z", "7", " ", "\t", "\u3000", ".", ",", "!", "(", ")", "-", "'", "€", "é", "-", "\u2014"]
    for one in letters:
        for two in letters:
            for prompt, answer in ((f"x{one}", f"{two}y"), (one, two)):
                said = f" {answer}" if _needs_space(prompt, answer) else answer
                assert said == as_generated(prompt, answer), (one, two)


def test_prompts_and_answers_are_compared_row_by_row() -> None:
    prompts, answers = ["a b", "c"], ["x", "y"]
    data = Sequences.of(prompts, answers, per="answer")
    confirm(data, prompts, answers)
    for given, words in (
        ((prompts, ["x", "z"]), "prompt and answer of sequence 1 were given as"),
        ((prompts[:1], answers[:1]), "1 prompts were given and 2 were read"),
        (([], []), "0 prompts were given and 2 were read"),
        (([*prompts, "d"], [*answers, "z"]), "3 prompts were given and 2 were read"),
        ((prompts, ["x", ""]), "prompt and answer of sequence 1 were given as"),
    ):
        with pytest.raises(DataError, match=words):
            confirm(data, *given)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        confirm(data, prompts, answers[:1])


def test_continuations_follow_their_prompts_as_they_are(tmp_path: Path) -> None:
    """Answers have a space in front, continuations have none, in files and in tables."""
    row, columns = '{"prompt": "a b", "answer": "c"}\n', {"prompt": ["a b"], "answer": ["c"]}
    file, data = str(written(tmp_path / "a.jsonl", row)), Sequences.of(["a b"], ["c"], per="answer")
    given_files.confirm_files(data, [file], ReadOptions(per="answer"))
    assert given_rows.confirm_table(data, columns, None, ReadOptions(per="answer"))
    for compare in (
        lambda options: given_files.confirm_files(data, [file], options),
        lambda options: given_rows.confirm_table(data, columns, None, options),
    ):
        with pytest.raises(DataError, match=r"were given as .'a b', 'c'. and read as .'a b', ' c'."):
            compare(ReadOptions(per="continuation"))


def test_strings_are_compared_some_at_a_time_from_the_first_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.array([[f"t{row}", "u"] for row in range(9)])
    data = Sequences.of(X)
    for chunk in (1, 2, 4, 6, 100):
        monkeypatch.setattr("monolayer.checker.given.CHUNK", chunk)
        confirm(data, X)
        for row in range(9):
            other = X.copy()
            other[row, 1] = "v"
            with pytest.raises(DataError, match=f"token 1 of sequence {row} was given as 'v'"):
                confirm(data, other)
