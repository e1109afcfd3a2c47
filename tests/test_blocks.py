"""Text read a block at a time is what it is line by line: the same data, or the same error in the same words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monolayer.data import Sequences, growing, read, readers
from monolayer.data.columns import Column
from monolayer.errors import DataError

CALM = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])

JSON = [
    '{"tokens": ["a", "b"], "labels": ["x", "y"]}',
    '{"tokens": ["2020-01-01", "b c"], "labels": ["x", "labels"]}',
    '{"labels": ["y"], "tokens": ["é\\u00e9"], "more": [1, {"tokens": 2}]}',
    '{"tokens": ["a"], "labels": ["x"], "label": "z"}',
    '{"tokens": ["a"], "label": "z"}',
    '{"tokens": ["a", "label"], "labels": ["z", "z"]}',
    '{"tokens": ["a"]}',
    '{"tokens": ["a"], "labels": null}',
    '{"tokens": ["a"], "labels": [null]}',
    '{"tokens": ["a", "b"], "labels": ["x"]}',
    '{"tokens": [], "labels": []}',
    '{"tokens": "a𝄞b", "labels": ["x", "y", "x"]}',
    '{"tokens": [7, 3], "labels": [0, 1]}',
    '{"tokens": [7, 3], "labels": [0, 1.5]}',
    '{"tokens": [7, 3.5], "labels": [0, 1]}',
    '{"tokens": [7, -3], "labels": [true, false]}',
    '{"tokens": [9223372036854775808], "labels": [1e3]}',
    '{"tokens": [[1, 2], [0.5, -0.0]], "labels": [0.1, -0.0]}',
    '{"tokens": [[1, 2], [3]], "labels": [0.1, 2]}',
    '{"tokens": [[0.5, 2.5], [3, 4]], "labels": [0.1, 2]}',
    '{"tokens": [[1, 2]], "label": [0.25, 1e999]}',
    '{"tokens": [[1, 2]], "label": [0.25, 3]}',
    '{"tokens": ["a"], "tokens": ["b"], "labels": ["x"]}',
    '{"tokens": ["a"], "labels": ["x"]}{"tokens": ["b"], "labels": ["y"]}',
    '{"tokens": ["a"],',
    '{"tokens": ["\\ud800"], "labels": ["x"]}',
    '{"tokens": [NaN], "labels": ["x"]}',
    "[1, 2]",
    "",
    "   ",
]
CELLS = st.text(st.sampled_from("ab é\u3000\x1c\x85'\\"), max_size=5)
ODD = st.sampled_from(['"q, r"', 'a"b', "a,b", "\r", "NULL", "2020-01-01", "1", '""'])


def _outcome(file: Path, **options: Any) -> Any:
    try:
        data = read(file, **options)
    except DataError as error:
        return re.sub(r"(\d)\.0\b", r"\1", str(error))  # an integer among real numbers may be shown as one of them
    labels = data.labels
    return (
        data.vocabulary,
        data.vocabulary and data.vocabulary.unit,
        data.lengths.tolist(),
        data.tokens.tobytes(),
        labels and (labels.per, labels.classes, labels.scalar, labels.values.tolist()),
    )


def _both(file: Path, chunk: int, **options: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "CHUNK", chunk)
        fast = _outcome(file, **options)
        patch.setattr(readers, "ARROW", False)
        slow = _outcome(file, **options)
    # Kinds are compared a chunk at a time, before values are: a file with both faults may have either named.
    both = isinstance(fast, str) and isinstance(slow, str) and "mixed" in fast + slow
    assert fast == slow or both


@settings(CALM)
@given(st.lists(st.sampled_from(JSON), min_size=1, max_size=6), st.sampled_from(["\n", ""]), st.sampled_from([3, 64]))
@example([JSON[0]] * 12, "\n", 3)
@example([JSON[0], JSON[1], JSON[2], JSON[5]], "\n", 64)
@example([JSON[22]] * 2, "\n", 64)
@example([JSON[23]], "\n", 64)
def test_json_lines(tmp_path: Path, rows: list[str], end: str, chunk: int) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(rows) + end, "utf-8", newline="")
    _both(file, chunk)
    for label in ("labels", "label"):
        _both(file, chunk, labels=label)
    for unit in ("words", "whole"):
        _both(file, chunk, unit=unit)


@settings(CALM)
@given(
    st.sampled_from(["tokens,labels", "tokens,label", "tokens,other", "sequence,token,label", "tokens, labels ,more"]),
    st.lists(st.lists(st.one_of(CELLS, CELLS, CELLS, ODD), min_size=1, max_size=3), max_size=6),
    st.sampled_from([",", "\t"]),
    st.sampled_from([3, 64]),
)
def test_tables(tmp_path: Path, header: str, rows: list[list[str]], comma: str, chunk: int) -> None:
    file = tmp_path / ("a.csv" if comma == "," else "a.tsv")
    lines = [header.replace(",", comma), *(comma.join(row) for row in rows)]
    file.write_text("\n".join(lines) + "\n", "utf-8", newline="")
    for unit in (None, "whole"):
        _both(file, chunk, unit=unit)
    if "other" in header:
        _both(file, chunk, labels="other")


@settings(CALM)
@given(
    st.lists(st.tuples(st.sampled_from(["", "0", "00", "-", "a"]), st.integers(0, 9), st.integers(1, 3)), min_size=1),
    st.booleans(),
    st.sampled_from([1, 3, 1 << 16]),
)
@example([("0", 1, 2), ("", 1, 3), ("0", 1, 2)], False, 1)  # three blocks
def test_sequences_that_are_counted(
    tmp_path: Path, names: list[tuple[str, int, int]], rising: bool, chunk: int
) -> None:
    """Names that rise as numbers, nearly rise, or come back; 1 and 01 are two."""
    if rising:
        names = [(sign, 3 * place + number // 4, size) for place, (sign, number, size) in enumerate(names)]
    rows = [f"{sign}{number},t{at},x" for sign, number, size in names for at in range(size)]
    (tmp_path / "t.csv").write_text("sequence,token,label\n" + "\n".join(rows) + "\n")
    _both(tmp_path / "t.csv", chunk)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_plain_files_do_not_go_line_by_line(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, plain = growing.Growing.row, JSON[0] + "\n" if name == "a.jsonl" else "a b,x y\n"
    (tmp_path / name).write_text(("tokens,labels\n" if name == "a.csv" else plain) + plain * 9)
    rows: list[int] = []
    monkeypatch.setattr(growing.Growing, "row", lambda self, line, *rest: rows.append(line) or row(self, line, *rest))
    assert read(tmp_path / name).lengths.tolist() == [2] * (10 if name == "a.jsonl" else 9)
    assert rows == ([1] if name == "a.jsonl" else []), "only the first object, which says what the keys are"


@settings(CALM)
@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=4), min_size=1, max_size=20))
def test_an_array_of_strings_is_numbered_like_a_list(words: list[str]) -> None:
    array, plain, swapped = Column("token"), Column("token"), Column("token")
    array.add(np.array(words), str)
    swapped.add(np.array(words).astype(np.array(words).dtype.newbyteorder()), str)
    plain.add(words, str)
    (one, names, _), (two, others, _) = array.finish(), plain.finish()
    assert one.tolist() == two.tolist()
    assert names == others == swapped.finish()[1]
    assert Sequences.of(np.array([words])).vocabulary == names
