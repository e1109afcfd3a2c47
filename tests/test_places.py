"""Errors name places as the user counts them: lines of files from 1, sequences and rows of data from 0."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer.data.origin import Origin, SourceFile
from tests.test_readers import ways

QUOTED = 'tokens,label\na1,x\n"b1\nb2",y\n\nc1,x\n'
"""A CSV file with a row on two lines, and a blank line."""
PLACES: dict[str, tuple[str, Any, list[str]]] = {
    # the file, its content, and where its sequences stand in it
    "JSON Lines": ("d.jsonl", '{"tokens": "a"}\n\n{"tokens": "b"}\n{"tokens": "c"}\n', ["line 1", "line 3", "line 4"]),
    "CSV": ("d.csv", "tokens,label\na,x\nb,y\nc,x\n", ["line 2", "line 3", "line 4"]),
    "CSV of Windows": ("d.csv", b"\xef\xbb\xbftokens,label\r\na,x\r\nb,y\r\n", ["line 2", "line 3"]),
    "CSV with a row on two lines": ("d.csv", QUOTED, ["line 2", "line 3", "line 6"]),
    "TSV, packed": ("d.tsv.gz", gzip.compress(b"tokens\tlabel\na\tx\nb\ty\n"), ["line 2", "line 3"]),
    "CoNLL": ("d.conll", "# one\n\na\tX\nb\tY\n\n\n# two\nc\tX\n", ["line 3", "line 8"]),
    "lines of text": ("d.txt", "a b\nc\n", ["line 1", "line 2"]),
    "a JSON array": ("d.json", '[{"tokens": "a"},\n\n {"tokens": "b"}]', ["item 0", "item 1"]),
    "a JSON object": ("d.json", '{"a": "x",\n "b": "y"}', ["item 0", "item 1"]),
    "Parquet": ("d.parquet", {"tokens": [["a"], ["b"], ["c"]]}, ["row 0", "row 1", "row 2"]),
    "npz": ("d.npz", {"X": np.array([[1], [2]])}, ["row 0", "row 1"]),
}


def put(file: Path, content: Any) -> Path:
    """Write text, bytes, columns of a Parquet file, or arrays."""
    if isinstance(content, dict):
        np.savez(file, **content) if file.suffix == ".npz" else pq.write_table(pa.table(content), file)
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("name", PLACES)
def test_a_sequence_knows_its_place_in_its_file(name: str, tmp_path: Path) -> None:
    """So do chosen sequences, and those of several files."""
    file, content, places = PLACES[name]
    path = put(tmp_path / file, content)
    other = put(tmp_path / f"other-{file}", content)
    options: dict[str, Any] = {"format": "text"} if path.suffix == ".txt" else {}
    wanted = [f"sequence {row} ({place} of {path})" for row, place in enumerate(places)]
    for _ in ways():
        data = ml.read(path, **options)
        assert [data.named(row) for row in range(len(data))] == wanted
        assert data.where(len(data.tokens) - 1).endswith(f" of {wanted[-1]}")
        both = ml.read([path, other], **options)
        assert both.named(len(data)) == f"sequence {len(data)} ({places[0]} of {other})"
        back = both.select(np.arange(len(both))[::-1])
        assert [back.named(row).partition(" (")[2] for row in range(len(data))] == [
            f"{place} of {other})" for place in reversed(places)
        ]
    assert data.select(np.arange(len(data)) > 0).named(0) == wanted[1].replace("sequence 1", "sequence 0")


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_runs_hold_every_place(files: list[list[int]], more: st.DataObject) -> None:
    """An origin of any places, joined and chosen from, gives what a list of all places gives."""
    parts = []
    for number, steps in enumerate(files):
        lines = np.cumsum(steps)
        parts.append(Origin.of(lines, np.zeros(len(lines), np.int64), (SourceFile(f"f{number}", "line"),)))
    plain = [f"line {line} of f{i}" for i, steps in enumerate(files) for line in np.cumsum(steps).tolist()]
    whole = Origin.joined(zip(parts, map(len, files), strict=True))
    assert whole is not None
    assert [whole.place(row) for row in range(len(plain))] == plain
    rows = np.array(more.draw(st.lists(st.integers(0, len(plain) - 1), min_size=1, max_size=9)))
    some = whole.select(rows)
    assert [some.place(row) for row in range(len(rows))] == [plain[row] for row in rows]
    assert Origin.joined([(whole, len(plain)), (None, 1)]) is None


TABLE = {"France": "Paris", "Peru": "Lima"}
KNOWN = ml.memorize(TABLE)


def sequences(X: Any) -> ml.Sequences:
    """Keys and values in a file or a table."""
    return ml.read(X, per="sequence") if isinstance(X, str) else ml.Sequences.of(X, per="sequence")


def gpt2(X: Any) -> None:
    ml.memorize_as("gpt2", X)


def refuted(X: Any) -> None:
    raise ml.DataError(ml.certify(KNOWN, X).explain())


CALLS: dict[str, tuple[Callable[[Any], object], str, str]] = {
    # a call with a table of keys and values, its rows below the header, and the place in the error
    "a contradiction": (ml.memorize, "France,Paris\nPeru,Lima\nFrance,Lyon", "sequence 2@line 4@, 'France', has"),
    "an unknown token": (
        lambda X: KNOWN.predict(sequences(X)),
        "France,Paris\nChad,Lima",
        "sequence 1@line 3@, 'Chad', is not in the data that the model was built from (token 0 is 'Chad'",
    ),
    "a wrong label": (refuted, "France,Paris\nPeru,Paris", "sequence 1@line 3@: got"),
    "a fact to forget": (
        lambda X: ml.forget(KNOWN, sequences(X), TABLE),
        "Peru,Lima\nChad,Lima",
        "token 0 of sequence 1@line 3@",
    ),
    "a prompt without an answer": (gpt2, "France,Paris\nPeru,", "row 1@line 3@ is a prompt without"),
    "answers that contradict": (gpt2, "A B,C\nA B,D", "row 1@line 3@ answers 'A B'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_about_data_name_the_sequence_and_the_line(name: str, tmp_path: Path) -> None:
    """The same call with data from Python names the same sequence, and no line."""
    call, rows, message = CALLS[name]
    file = put(tmp_path / "d.csv", f"prompt,answer\n{rows}\n")
    in_file = re.sub("@(.*?)@", lambda found: f" ({found[1]} of {file})", message)
    pairs = [tuple(row.split(",")) for row in rows.split("\n")]
    table = {"prompt": [key for key, _ in pairs], "answer": [value or None for _, value in pairs]}
    for given_data, words in ((str(file), in_file), (table, re.sub("@.*?@", "", message))):
        with pytest.raises(ml.MonolayerError, match=re.escape(words)):
            call(given_data)


def test_lines_reach_the_command_line(tmp_path: Path, said: Callable[..., str]) -> None:
    good, bad = put(tmp_path / "d.csv", "a,b\nFrance,Paris\nPeru,Lima\n"), tmp_path / "bad.csv"
    folder = str(tmp_path / "m")
    said("memorize", str(good), "--out", folder)
    put(bad, "a,b\n\nFrance,Paris\nPeru,Paris\n")
    assert f"sequence 1 (line 4 of {bad}): got 'Lima', expected 'Paris'" in said("verify", folder, str(bad), code=1)
    found = json.loads(said("verify", folder, str(good), str(bad), "--json", code=1))["findings"][0]
    assert (found["sequence"], found["origin"]) == (3, f"line 4 of {bad}")
