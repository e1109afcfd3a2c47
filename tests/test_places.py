"""Errors name places as the user counts them: lines of files from 1, sequences and rows of data from 0."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monolayer as ml
from monolayer.data.origin import Origin, SourceFile
from tests.read_files import put, ways
from tests.read_table import FILES


@pytest.mark.parametrize("kind", FILES)
def test_sequences_of_several_files_know_their_places(kind: str, tmp_path: Path) -> None:
    """So do chosen sequences. Those of a single file: `test_readers.py`."""
    each = FILES[kind]
    paths = [put(tmp_path / f"{prefix}{each.name}", each.content) for prefix in ("", "other-")]
    wanted = [f"{place} of {path}" for path in paths for place in each.places.split(", ")]
    for _ in ways():
        both = ml.read(paths, **each.options)
        rows = range(len(both))
        assert [both.named(row).partition(" ")[2] for row in rows] == [f"{row} ({wanted[row]})" for row in rows]
        assert both.where(len(both.tokens) - 1).endswith(f" of {both.named(len(both) - 1)}")
        back = both.select(np.arange(len(both))[::-1])
        assert [back.named(row).partition(" (")[2] for row in rows] == [f"{place})" for place in reversed(wanted)]
        assert both.select(np.arange(len(both)) > 0).named(0).endswith(f" 0 ({wanted[1]})")


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
