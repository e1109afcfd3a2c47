"""Every format read back as it was written, whatever way it is read; every kind of bad file with its own message."""

from __future__ import annotations

import csv
import gzip
import io
import re
import struct
import sys
import types
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monolayer.checker import files as second_reading
from monolayer.checker.asked import asked_files
from monolayer.data import Names, Sequences, arrow, columns, growing, read, readers
from monolayer.data import lines as limits
from monolayer.data.layout import Columns, Manner
from monolayer.data.lines import Lines
from monolayer.data.phrases import phrases, tiny_phrases
from monolayer.data.plan import ReadPlan
from monolayer.data.shards import tokens_at_most
from monolayer.errors import DataError
from monolayer.table import plural
from tests.read_files import facts, faults_that_show, put, same, ways
from tests.read_table import FILES, ReadFile

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]  # machines may be slow
FEW, SOME = (settings(deadline=None, max_examples=count, suppress_health_check=SLOW) for count in (12, 40))

# -- writing -------------------------------------------------------------------------------------------

Rows = list[list[Any]]
PLAIN = st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=3).filter(
    lambda text: not text.startswith(("#", "-DOCSTART-"))
)
"""Words that a file of words separated by spaces can hold."""


def dataset(word: st.SearchStrategy[Any], label: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Rows, Rows]]:
    pairs = st.lists(st.lists(st.tuples(word, label), min_size=1, max_size=4), min_size=1, max_size=6)
    return pairs.map(lambda rows: ([[x for x, _ in row] for row in rows], [[y for _, y in row] for row in rows]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for property tests, which write the same few files again and again."""
    return tmp_path_factory.mktemp("data")


def reads(file: Path, expected: Sequences, **options: Any) -> None:
    """The file is `expected`, whatever way it is read, and the checker's own look at the file agrees."""
    for _ in ways():
        same(read(file, **options), expected)
    asked_files(file, **options)


# -- what was written is read --------------------------------------------------------------------------

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "strings": st.text(max_size=3),
    "ids": st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)),
    "vectors": st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
}
LABELS: dict[str, st.SearchStrategy[Any]] = {
    "strings": st.text(max_size=3),
    "integers": st.integers(-(2**63), 2**63 - 1),
    "reals": st.floats(allow_nan=False, allow_infinity=False),
    "mixed numbers": st.one_of(st.integers(-9, 9), st.floats(-9, 9)),
    "vectors": st.lists(st.floats(-9, 9), min_size=3, max_size=3),
}


def objects(X: Rows, Y: Any, key: str = "labels") -> list[dict[str, Any]]:
    return [{"tokens": row, key: Y[i]} for i, row in enumerate(X)]


@FEW
@given(st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(LABELS)), st.integers(1, 5), st.data())
def test_json_and_parquet_hold_every_kind(
    folder: Path, kind: str, labels: str, batch: int, draw: st.DataObject
) -> None:
    """However rows are cut into files, too."""
    X, Y = draw.draw(dataset(VALUES[kind], LABELS[labels]))
    put(folder / "a.jsonl", objects(X, Y))
    reads(folder / "a.jsonl", Sequences.of(X, Y))
    if labels == "mixed numbers":
        Y = [[float(label) for label in row] for row in Y]
    tables = [("labels", Y)]
    if labels != "vectors":  # of() cannot tell a vector per sequence from a number per token; "label" can, see below
        tables.append(("label", [row[0] for row in Y]))
        put(folder / "a.jsonl", objects(X, tables[1][1], "label"))
        reads(folder / "a.jsonl", Sequences.of(X, tables[1][1]))
    for key, expected in tables:
        put(folder / "a.parquet", {"tokens": X, key: expected})
        same(arrow.read_parquet(folder / "a.parquet", Columns(), batch), Sequences.of(X, expected))
        cut = 1 + batch % len(X)
        put(folder / "part-0.jsonl", objects(X[:cut], expected, key))
        put(folder / "part-1.jsonl", objects(X[cut:] or X, expected[cut:] or expected, key))
        whole = X + (X if cut == len(X) else []), expected + (expected if cut == len(X) else [])
        same(read(folder / "part-*.jsonl"), Sequences.of(*whole))


@FEW
@given(dataset(PLAIN, PLAIN), st.text("a\"',\n ", min_size=1), st.sampled_from(["\t", " ", "   "]))
def test_tables_of_text(folder: Path, data: tuple[Rows, Rows], quoted: str, separator: str) -> None:
    X, Y = data
    wide = [["tokens", "labels", "label"], *([" ".join(x), " ".join(y), quoted] for x, y in zip(X, Y, strict=True))]
    with (folder / "b.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(wide)
    reads(folder / "b.csv", Sequences.of(X, Y), labels="labels")
    reads(folder / "b.csv", Sequences.of(X, [quoted] * len(X)), labels="label")
    reads(folder / "b.csv", Sequences.of(Y, X), tokens="labels", labels="tokens", per="token")
    (folder / "b.tsv").write_text("\n".join("\t".join(row[:2]) for row in wide), "utf-8")
    reads(folder / "b.tsv", Sequences.of(X, Y))  # quotes are characters like any other
    rows = [[f"{x}{separator}x{separator}{y}" for x, y in zip(row, Y[i], strict=True)] for i, row in enumerate(X)]
    (folder / "a.conll").write_text("\n\n".join("\n".join(row) for row in rows), "utf-8", newline="\r\n")
    reads(folder / "a.conll", Sequences.of(X, Y))
    same(read(folder / "a.conll", tokens="3", labels="1"), Sequences.of(Y, X))


GOOD = '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n'
# -- the table of files --------------------------------------------------------------------------------


def counts(each: ReadFile) -> str:
    """What a plan states of rows, tokens and gaps, counted in `X` and `Y`."""
    tables = not each.format.startswith(("CoNLL", "npz"))
    words = plural(len(each.X), "row" if tables else "sequence")
    if each.Y is None:
        return f"{words}, no labels"
    if "per token" not in each.columns:
        gaps = each.Y.count(None)
    else:
        gaps = sum(row.count(None) for row in each.Y if isinstance(row, list))
        words += f" with {plural(sum(map(len, each.X)), 'token')}"
    return words + (f", {gaps} of them without a label" if gaps else "")


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_read_as_the_table_says_and_the_plan_states_it(kind: str, tmp_path: Path) -> None:
    each = FILES[kind]
    file = str(put(tmp_path / each.name, each.content))
    wanted = Sequences.of(each.X, each.Y, per=each.options.get("per"))
    places = [f"{row} ({place} of {file})" for row, place in enumerate(each.places.split(", "))]
    for _ in ways():
        data = read(file, **each.options)
        same(data, wanted)
        assert [str(plan) for plan in data.plans] == [f"{file}: {each.format}; {each.columns}; {counts(each)}"]
        assert [data.named(row).partition(" ")[2] for row in range(len(data))] == places
    (plan,) = data.plans
    assert type(plan).from_json(plan.to_json()) == plan


@pytest.mark.parametrize("kind", FILES)
def test_the_second_reading_follows_the_plan_and_finds_faults_of_the_first(kind: str, tmp_path: Path) -> None:
    each = FILES[kind]
    file = str(put(tmp_path / each.name, each.content))
    data = asked_files(file, **each.options)
    if data.plans[0].format != "npz":  # whose arrays are compared whole
        rows = zip(each.X, [None] * len(each.X) if each.Y is None else each.Y, strict=True)
        assert list(second_reading._rows_of_file(file, data.plans[0])) == (each.rows or list(rows))
    for fault in faults_that_show(data):
        with pytest.raises(DataError, match="this is a bug in the reader"):
            second_reading.confirm_files(fault, [file])


def test_an_index_of_pandas_is_no_answer(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", ",question\n0,a b\n1,d\n")
    data = read(file, per="answer")
    assert (data.plans[0].key, data.plans[0].label) == (("question", 1), None)


def test_standard_input_and_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"jsonl": GOOD, "conll": "a x\nb y\n", "csv": "tokens,labels\na b,x y\n", "tsv": "tokens\tlabels\na b\tx y"}
    for format, text in texts.items():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        same(read("-", format=None if format == "jsonl" else format), Sequences.of([["a", "b"]], [["x", "y"]]))
        (tmp_path / f"a.{format}.gz").write_bytes(gzip.compress(text.encode()))
        same(read(str(tmp_path / f"a.{format}.gz")), Sequences.of([["a", "b"]], [["x", "y"]]))
    for text in (
        '{"a b": "x"}',
        '[["a b", "x"]]',
        '[\n{"key": "a b", "value": "x"}\n]',
        '{"tokens": "ab", "label": "x"}\n',
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        same(read("-", format="json"), Sequences.of([["a", "b"]], ["x"]))
    monkeypatch.setattr(limits, "LONGEST_LINE", 20)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[" * 30)))
    with pytest.raises(DataError, match=r"standard input is longer than .*pass JSON Lines"):
        read("-", format="json")


def test_no_more_than_a_chunk_of_tokens_waits_to_be_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"tokens": "{"abcdefghij" * 10}", "labels": {list(range(100))}}}\n' * 30)
    monkeypatch.setattr(growing, "TOKENS_AT_ONCE", 1 << 10)
    monkeypatch.setattr(readers, "ARROW", False)
    waiting, add = list[int](), columns.Column.add
    monkeypatch.setattr(columns.Column, "add", lambda self, *rest: waiting.append(len(rest[0])) or add(self, *rest))
    assert len(read(tmp_path / "a.jsonl").tokens) == 3000
    assert sum(waiting) == 6000  # tokens and labels
    assert max(waiting) < (1 << 10) + 100


# -- blocks of text ------------------------------------------------------------------------------------

JSON = [
    '{"tokens": ["a", "b"], "labels": ["x", "y"]}',
    '{"tokens": ["2020-01-01", "b c"], "labels": ["x", "labels"]}',
    '{"labels": ["y"], "tokens": ["é\\u00e9"], "more": [1, {"tokens": 2}]}',
    '{"tokens": ["a"], "labels": ["x"], "label": "z"}',
    '{"tokens": ["a"], "label": "z"}',
    '{"tokens": ["a"]}',
    '{"tokens": ["a"], "labels": null}',
    '{"tokens": ["a", "b"], "labels": ["x"]}',
    '{"tokens": [], "labels": []}',
    '{"tokens": "a𝄞b", "labels": ["x", "y", "x"]}',
    '{"tokens": [7, 3], "labels": [0, 1]}',
    '{"tokens": [7, 3.5], "labels": [0, 1]}',
    '{"tokens": [9223372036854775808], "labels": [1e3]}',
    '{"tokens": [[1, 2], [0.5, -0.0]], "labels": [0.1, -0.0]}',
    '{"tokens": [[1, 2], [3]], "labels": [0.1, 2]}',
    '{"tokens": ["a"], "tokens": ["b"], "labels": ["x"]}',
    '{"tokens": ["a"], "labels": ["x"]}{"tokens": ["b"], "labels": ["y"]}',
    '{"tokens": ["a"],',
    '{"tokens": ["\\ud800"], "labels": ["x"]}',
    '{"tokens": [NaN], "labels": ["x"]}',
    "[1, 2]",
    "",
]
CELLS = st.text(st.sampled_from("ab é\u3000\x1c\x85'\\"), max_size=5)
ODD = st.sampled_from(['"q, r"', 'a"b', "a,b", "\r", "NULL", "2020-01-01", "1", '""'])


def outcome(file: Path, **options: Any) -> Any:
    try:
        return facts(read(file, **options))
    except DataError as error:
        return str(error)


def alike(file: Path, chunk: int, **options: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "TOKENS_AT_ONCE", chunk)
        fast = outcome(file, **options)
        if not isinstance(fast, str):
            asked_files(file, **options)
        patch.setattr(readers, "ARROW", False)
        slow = outcome(file, **options)
    # Kinds are compared a chunk at a time, before values are: a file with both faults may have either named.
    both = isinstance(fast, str) and isinstance(slow, str) and "mixed" in fast + slow
    assert fast == slow or both


@SOME
@given(st.lists(st.sampled_from(JSON), min_size=1, max_size=6), st.sampled_from(["\n", ""]), st.sampled_from([3, 64]))
@example([JSON[0]] * 12, "\n", 3)
@example(JSON[:3], "\n", 64)
@example([JSON[0], JSON[0], JSON[7]], "\n", 64)
@example([JSON[15]] * 2, "\n", 64)
@example([JSON[16]], "\n", 64)
def test_blocks_of_json_lines(tmp_path: Path, rows: list[str], end: str, chunk: int) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(rows) + end, "utf-8", newline="")
    alike(file, chunk)
    for label in ("labels", "label"):
        alike(file, chunk, labels=label)
    for unit in ("words", "whole"):
        alike(file, chunk, unit=unit)


@SOME
@given(
    st.sampled_from(["tokens,labels", "tokens,label", "tokens,other", "key,value", "tokens, labels ,more"]),
    st.lists(st.lists(st.one_of(CELLS, CELLS, CELLS, ODD), min_size=1, max_size=3), max_size=6),
    st.sampled_from([",", "\t"]),
    st.sampled_from([3, 64]),
)
def test_blocks_of_tables(tmp_path: Path, header: str, rows: list[list[str]], comma: str, chunk: int) -> None:
    file = tmp_path / ("a.csv" if comma == "," else "a.tsv")
    lines = [header.replace(",", comma), *(comma.join(row) for row in rows)]
    file.write_text("\n".join(lines) + "\n", "utf-8", newline="")
    for unit in (None, "whole"):
        alike(file, chunk, unit=unit)
    if "other" in header:
        alike(file, chunk, labels="other")


@pytest.mark.parametrize(("name", "first", "slow"), [("a.jsonl", JSON[0], [1]), ("a.csv", "tokens,labels", [])])
def test_plain_files_do_not_go_line_by_line(
    tmp_path: Path, name: str, first: str, slow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of objects only the first one, which says what the keys are."""
    row, rows = growing.Growing.row, list[int]()
    (tmp_path / name).write_text("\n".join([first, *[JSON[0] if slow else "a b,x y"] * 9]))
    monkeypatch.setattr(growing.Growing, "row", lambda self, line, *rest: rows.append(line) or row(self, line, *rest))
    assert read(tmp_path / name).lengths.tolist() == [2] * (9 + len(slow))
    assert rows == slow


# -- bad files -----------------------------------------------------------------------------------------

BAD: list[tuple[str, Any, str]] = [  # @ stands for the path of the file; a dict for columns or arrays
    ("a.jsonl", "\n \n", "@ is empty: there is no sequence in it"),
    ("a.csv", "tokens,labels\n", "@ has a header and no row below it"),
    ("a.txt.gz", GOOD, "@: unsupported file type '.txt'; pass format= (--format on the command line), one of jsonl"),
    # cut short
    ("a.jsonl", GOOD + GOOD[:30], "line 2 of @ is not JSON (Unterminated string"),
    ("a.jsonl", GOOD.encode() + '{"tokens": ["é'.encode()[:-1], "line 2 of @ is not UTF-8: byte 0xc3"),
    ("a.jsonl.gz", gzip.compress(GOOD.encode() * 9)[:-9], "@ ends in the middle, at line"),
    ("a.csv", 'tokens,label\na,x\n"b\nc,d\n', "@ ends in the middle, at line 4: a quote opened in the row of line 3"),
    # not what it says it is
    ("a.jsonl", GOOD + '{"tokens": [,]}\n' + GOOD, "line 2 of @ is not JSON (Expecting value, at column 13)"),
    ("a.json", '{\n  "tokens": ["a"],\n', "line 1 of @ is not JSON"),
    ("a.json", '{\n  "tokens": [],\n "label": "x"}\n', "item 0 of @ is an empty sequence"),
    ("a.jsonl", "null\n", "line 1 of @ is null, not an object"),
    ("a.jsonl.gz", gzip.compress(GOOD.encode() * 99)[:40], "@ ends in the middle, at line 1: its gzip stream stops"),
    ("a.txt", "a b\n", "unsupported file type '.txt'; pass format= (--format on the command line), one of jsonl ("),
    ("a.jsonl", "[" * 10**5, "is not JSON"),
    ("a.jsonl", GOOD + '[["a"]]\n', "line 2 of @ is [['a']], not an object: write"),
    ("a.jsonl", GOOD.encode() + b'{"tokens": "\xe9a"}\n', "line 2 of @ is not UTF-8: byte 0xe9 at byte 12. Convert"),
    ("a.jsonl.gz", GOOD, "@ is not a gzip file, or is damaged"),
    ("a.csv", 'tokens,label\n"a"b,x\n', "line 2 of @ is not CSV (',' expected after '\"')"),
    # rows
    ("a.jsonl", GOOD + '{"text": "a", "label": 1}\n', "line 2 of @ has no column 'tokens'; it has: 'text', 'label'"),
    ("a.jsonl", '{"tokens": 7}\n', "line 1 of @, column 'tokens', holds 7: it must be a list, or text"),
    ("a.jsonl", GOOD + '{"tokens": [], "labels": []}', "line 2 of @ is an empty sequence: every sequence"),
    ("a.jsonl", '{"tokens": "abc", "labels": "xyz"}', "line 1 of @ has 3 tokens but 1 label"),
    ("a.jsonl", '{"tokens": "abc", "labels": [1, 2, 3], "label": 1}', "has both 'labels' and 'label'"),
    ("a.jsonl", GOOD + '{"tokens": "a"}', "line 2 of @ has no label, but line 1 has: label every sequence, or none"),
    ("a.jsonl", '{"tokens": "a"}\n' + GOOD, "line 2 of @ has 'labels', but line 1 has no label"),
    ("a.jsonl", GOOD + '{"tokens": "a", "label": "x"}', "line 2 of @ has 'label', but line 1 has 'labels'"),
    ("a.jsonl", '{"tokens": "ab", "label": 1}\n{"tokens": "ab", "label": "x"}', "the label of line 2 of @ is a string"),
    ("a.jsonl", '{"tokens": [1, 2, 2]}\n\n' * 4 + '{"tokens": [3, -1]}', "token 1 of line 9 of @ has id -1"),
    ("a.jsonl", GOOD * 4 + '{"tokens": "abc", "labels": ["x", "y", 1]}\n' + GOOD, "token 2 of line 5 of @ is an"),
    ("a.jsonl", '{"tokens": [[1, 2]]}\n{"tokens": [[1, 2], [3]]}', "token 1 of line 2 of @ is [3], not a vector of 2"),
    ("a.conll", "a NN O\nb\nc NN O\n", "line 2 of @ has 1 columns, line 1 has 3: give every line the same columns"),
    ("a.jsonl", '{"tokens": ["a"], "label": 1}\n{"tokens": ["b"], "label": 9223372036854775808}\n', "beyond 63 bits"),
    ("a.conll", "a\tO\n\tO\n", "line 2 of @ has an empty token"),
    ("a.csv", "tokens,label\na,x\nb,y,z\n", "line 3 of @ has 3 columns, the header has 2: give every row the same"),
    ("a.csv", "tokens,label\na,x\n,y\n", "line 3 of @ is an empty sequence"),
    ("a.csv", "tokens,tokens,label\na b,c d,x\n", "2 columns called 'tokens'"),
    ("a.csv", "sequence,token,label\n1,a,x\n", "has 3 columns, 'sequence', 'token', 'label', and none of them"),
    ("a.parquet", {"tokens": [["a"], None]}, "row 1 of @ is an empty sequence"),
    ("a.parquet", {"tokens": [["a", None]]}, "token 1 of row 0 of @ is None"),
    ("a.parquet", {"tokens": [["a"], ["a", "b"]], "labels": [["x"], ["x"]]}, "row 1 of @ has 2 tokens but 1 label"),
    ("a.parquet", {"tokens": [[1], [2, -2]]}, "token 1 of row 1 of @ has id -2"),
    ("a.parquet", {"tokens": [[[1.0]], [[2.0, 3.0]]]}, "token 0 of row 1 of @ is [2.0, 3.0], not a vector of 1 number"),
    ("a.npz", {"Z": [3]}, "@ has no array 'X'; it has: Z"),
    ("a.npz", {"X": np.array([["a"], None], dtype=object)}, "@ holds an array that cannot be read"),
    ("a.npz", {"X": [[1, -1]]}, "@: token 1 of sequence 0 has id -1"),
]  # fmt: skip


CHOICES: list[tuple[str, dict[str, Any], str]] = [
    ("a x\nb y\n", {"labels": "3"}, "has 2 columns: there is no column 3. Choose from 1 to 2"),
    ("a x\n", {"tokens": "word"}, "'word' is not a CoNLL column: columns are numbered"),
    ("1 x\n", {"vocabulary": Names(range(3))}, "token 0 of sequence 0 (line 1 of @) is '1', but the"),
    ("a x\n", {"format": "xml"}, "there is no format 'xml'; the formats are jsonl, json, conll, conllu, csv, tsv"),
    ("tokens,tag\na b c,y z\n", {"format": "csv", "labels": "tag", "per": "token"}, "has 3 tokens but 2 labels"),
    (GOOD, {"format": "jsonl", "labels": "tags"}, "has no column 'tags'; it has: 'tokens', 'labels'. Choose with"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [*((name, content, {}, words) for name, content, words in BAD), *(("a.conll", *row) for row in CHOICES)],
    ids=[f"{row[0]}: {row[2]}"[:80] for row in BAD] + [words for _, _, words in CHOICES],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: Any, options: dict[str, Any], message: str) -> None:
    put(tmp_path / name, content)
    for _ in ways():
        with pytest.raises(DataError, match=re.escape(message.replace("@", str(tmp_path / name)))):
            read(tmp_path / name, **options)


IDS = np.arange(60).reshape(6, 10)


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, bytes]:
    """A sound file of each binary format, Parquet with its numbers as they are."""
    plainly: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    np.savez_compressed(folder / "whole.npz", X=IDS)
    pq.write_table(pa.table({"tokens": IDS.tolist()}), folder / "whole.parquet", **plainly)
    return {name: (folder / f"whole.{name}").read_bytes() for name in ("npz", "parquet")}


@SOME
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_binary_file_that_is_cut_or_damaged(folder: Path, whole: dict[str, bytes], place: int, flip: int) -> None:
    """Cut anywhere; one byte changed: npz and pages of Parquet have checksums, headers of Parquet none: no crash."""
    for name, content in whole.items():
        file, bad = folder / f"bad.{name}", bytearray(content)
        file.write_bytes(content[: 4 + place % (len(content) - 4)])
        with pytest.raises(DataError, match=r"bad\..* is (no .* file, or )?a? ?damaged"):
            read(file)
        bad[place % len(content)] ^= flip
        file.write_bytes(bad)
        with suppress(DataError):
            data = read(file)
            assert name != "npz" or facts(data) == facts(Sequences.of(IDS))
    place = whole["parquet"].index(IDS.tobytes()[:80]) + 8
    file.write_bytes(whole["parquet"][:place] + b"\7" + whole["parquet"][place + 1 :])
    with pytest.raises(DataError, match="is not a Parquet file, or is damaged"):
        read(file)


def test_a_parquet_file_whose_rows_are_not_as_many_as_it_says(folder: Path, whole: dict[str, bytes]) -> None:
    """Planted: one more or one fewer in its footer, or in that of its only group, which is then all that is read."""
    content, file = whole["parquet"], folder / "said.parquet"
    begin, said = len(content) - 8 - int.from_bytes(content[-8:-4], "little"), set[tuple[int, int]]()
    for place, rows in product(range(begin, len(content) - 8), (5, 7)):
        if content[place] == 2 * 6:  # a number in the footer is stored as twice itself
            file.write_bytes(content[:place] + bytes([2 * rows]) + content[place + 1 :])
            with suppress(pa.ArrowException, OSError):
                footer = pq.read_metadata(file)
                counts = footer.num_rows, min(6, footer.row_group(0).num_rows)
                said |= {counts}
                if counts != (6, 6):
                    with pytest.raises(DataError, match=f"is damaged: {counts[1]} of {counts[0]} rows can be read"):
                        read(file)
    assert {(5, 6), (7, 6), (6, 5)} <= said


@pytest.mark.parametrize("values", [1000, 1 << 27])
def test_an_npz_file_is_not_believed_about_sizes_that_its_bytes_cannot_hold(tmp_path: Path, values: int) -> None:
    """Planted: a header that claims more than its member holds; and a member that claims as much as its header."""
    header, file = io.BytesIO(), tmp_path / "a.npz"
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (values, 1)})
    held = len(header.getvalue()) + 80
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
    room, content = held, file.read_bytes()
    if values == 1 << 27:
        packed_and_whole = struct.pack("<LL", held, held)
        assert content.count(packed_and_whole) == 2  # in front of the member, and in the list of all members
        file.write_bytes(content.replace(packed_and_whole, struct.pack("<LL", held, 8 * values + held)))
        room = 1032 * len(content)  # deflate packs no better
    with pytest.raises(
        DataError, match=rf"'X' claims {8 * values:,} bytes, and the file has room for {room:,} at most"
    ):
        read(file)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_npz_header_that_claims_more_than_the_file_is_not_believed(tmp_path: Path, compression: int) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<i8", "fortran_order": False, "shape": (1_000_000, 1_000_000)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as file:
        file.writestr("X.npy", header.getvalue() + bytes(80))
    with pytest.raises(DataError, match=r"a\.npz is damaged: the array 'X' claims 8,000,000,000,000 bytes"):
        read(tmp_path / "a.npz")
    assert tokens_at_most(str(tmp_path / "a.npz")) < 1000


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.conll.gz"])
def test_a_line_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A few bytes of gzip unpack to any length."""
    monkeypatch.setattr("monolayer.data.lines.LONGEST_LINE", 1 << 10)
    good = {"a.jsonl.gz": GOOD, "a.csv.gz": "tokens,labels\na b,x y\n", "a.conll.gz": "a x\n"}[name]
    with gzip.open(tmp_path / name, "wt") as file:
        file.write(good * 2 + "a" * (1 << 22))
    for _ in ways():
        with pytest.raises(DataError, match=r"line [35] of .* is longer than .*: put every sequence on its own line"):
            read(tmp_path / name)


@pytest.mark.parametrize(("name", "reader"), [("a.jsonl", "pjson.read_json"), ("a.csv", "pcsv.read_csv")])
def test_a_read_that_arrow_cancels_is_an_interrupt(
    name: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow hears Ctrl-C while it reads; it must not be taken for a block that Arrow cannot read."""

    def cancelled(*_: Any) -> None:
        raise pa.ArrowCancelled("Operation cancelled")

    rows = {"a.jsonl": '{"tokens": ["a"], "labels": ["x"]}\n' * 9, "a.csv": "tokens,labels\na,x\n"}
    (tmp_path / name).write_text(rows[name])
    monkeypatch.setattr(readers, "ARROW", True)
    monkeypatch.setattr(f"monolayer.data.arrow.{reader}", cancelled)
    with pytest.raises(KeyboardInterrupt):
        read(tmp_path / name)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"tokens": ["a"]}), tmp_path / "a.parquet")
    monkeypatch.delitem(sys.modules, "monolayer.data.arrow")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=re.escape("Parquet needs pyarrow: pip install 'monolayer[parquet]'")):
        read(tmp_path / "a.parquet")


# -- the page --------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "data.md").read_text("utf-8")


def test_every_example_of_the_page_is_read_as_the_page_says(tmp_path: Path) -> None:
    examples = re.findall(r"```(jsonl|conll|csv|tsv)\n(.*?)```", PAGE, re.DOTALL)
    assert [format for format, _ in examples] == ["jsonl", "conll", "csv"]
    for format, text in examples:
        (tmp_path / "a").write_text(text, "utf-8")
        data = read(tmp_path / "a", format=format)
        assert data.vocabulary is not None
        assert {"EU", "rejects"} <= set(data.vocabulary.names)
        assert data.labels is not None


# -- phrases ---------------------------------------------------------------------------------------------


def test_phrases_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"银行": [["yín"], ["háng"]], "得": [["dé", "de"]]}  # a character may have two readings; the first counts
    module = types.ModuleType("large_pinyin")
    module.phrases_dict = table  # type: ignore[attr-defined]
    for name in ("pypinyin_dict", "pypinyin_dict.phrase_pinyin_data"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["pypinyin_dict.phrase_pinyin_data"].large_pinyin = module  # type: ignore[attr-defined]
    same(phrases(), Sequences.of(["银行", "得"], [["yín", "háng"], ["dé"]]))
    assert len(tiny_phrases()) > 40
    monkeypatch.setitem(sys.modules, "pypinyin_dict", None)
    monkeypatch.delitem(sys.modules, "pypinyin_dict.phrase_pinyin_data")
    with pytest.raises(DataError, match=re.escape("pip install 'monolayer[demo]'")):
        phrases()


# -- several files ---------------------------------------------------------------------------------------


def test_patterns(tmp_path: Path) -> None:
    """Formats may differ; the order is that of the names; a file of that very name is no pattern."""
    with pytest.raises(DataError, match="matches no file"):
        read(tmp_path / "*.jsonl")
    put(tmp_path / "b.jsonl", [{"tokens": ["u"], "labels": ["x"]}])
    pq.write_table(pa.table({"tokens": [["v", "u"]], "labels": [["y", "x"]]}), tmp_path / "a.parquet")
    same(read(str(tmp_path / "[ab].*")), Sequences.of([["v", "u"], ["u"]], [["y", "x"], ["x"]]))
    assert read(str(tmp_path / "[ab].*"), vocabulary=Names(("w", "v", "u"))).tokens.tolist() == [1, 2, 2]
    put(tmp_path / "a[1].jsonl", [{"tokens": [1]}])
    assert len(read(tmp_path / "a[1].jsonl")) == 1


@pytest.mark.parametrize(
    "labels", [[[1.0, 2.5, 3.0], [3.0, 4.0, 1.0]], [[0.5, 1.0], [2.0]], [[[1, 2], [3, 4]], [[5, 6]]]]
)
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_lists_of_labels_that_are_not_as_many_as_tokens_are_refused(labels: Any, suffix: str, tmp_path: Path) -> None:
    """Not taken for vectors, one per sequence: columnar readers must ask as the plain one does."""
    rows = {"tokens": [[1, 2], [3, 4]], "labels": labels}
    lines = [dict(zip(rows, pair, strict=True)) for pair in zip(*rows.values(), strict=True)]
    file = put(tmp_path / f"a.{suffix}", rows if suffix == "parquet" else lines)
    for way in ways():
        with pytest.raises(DataError, match=r"has 2 tokens but|one label per token|give one per token"):
            pytest.fail(f"{way}: {read(file)}")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"tokens": [1], "labels": ["x"]}, "integers as tokens and strings as labels, one per token"),
        ({"tokens": ["u"], "label": "x"}, "strings as labels, one per sequence"),
        ({"tokens": ["u"]}, "strings as tokens and no labels"),
        ({"tokens": [[0.5, 1.5]], "labels": [0.5]}, "vectors of 2 numbers as tokens and real numbers as labels"),
    ],
)
def test_files_that_do_not_go_together_are_both_named(tmp_path: Path, second: dict[str, Any], words: str) -> None:
    put(tmp_path / "a.jsonl", [{"tokens": ["u"], "labels": ["x"]}])
    put(tmp_path / "b.jsonl", [second])
    with pytest.raises(DataError, match=r"a\.jsonl and .*b\.jsonl do not go together") as caught:
        read(tmp_path / "*.jsonl")
    assert words in str(caught.value)


# -- blank lines -------------------------------------------------------------------------------------------

BLANK = "\n" * (1 << 18) + "\r\n" * 9
"""As many blank lines as nobody would write, in place of the 2^26 that 65 KB of gzip can hold."""


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("a.csv", ["tokens,label\n", "France,Paris\n", '"Costa\n\n\nRica",San José\n', "Japan,Tokyo\n"]),
        ("a.tsv", ["tokens\tlabel\n", "France\tParis\n", "Japan\tTokyo\n"]),
        ("a.jsonl", ['{"tokens": "France", "label": "Paris"}\n', '{"tokens": "Japan", "label": "Tokyo"}\n']),
    ],
)
def test_a_run_of_blank_lines_is_skipped_at_once(
    tmp_path: Path, name: str, rows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, blank = tmp_path / name, tmp_path / f"blank.{name}.gz"
    plain.write_text("".join(rows))
    blank.write_bytes(gzip.compress((BLANK + BLANK.join(rows) + BLANK).encode()))
    pulled, one_line = 0, Lines.__next__

    def counting(lines: Lines) -> str:
        nonlocal pulled
        pulled += 1
        return one_line(lines)

    monkeypatch.setattr(Lines, "__next__", counting)
    found = read(str(blank))
    assert pulled < 100
    same(found, read(str(plain)))
    # Rows keep their numbers, and the blank lines inside quotes are part of the key.
    first = BLANK.count("\n") + (1 if name == "a.jsonl" else BLANK.count("\n") + 2)
    assert found.origin is not None
    assert f"line {first}" in found.named(0)


@pytest.mark.parametrize("tabs", [False, True])
def test_the_second_reading_skips_blank_lines_at_once(
    tmp_path: Path, tabs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, mark = ("a.tsv", "\t") if tabs else ("a.csv", ",")
    rows = [["key", "value"], ["France", "Paris"], ["Peru", "\rLima" if tabs else "Lima"]]
    file = tmp_path / name
    file.write_text(BLANK + BLANK.join(mark.join(row) + "\n" for row in rows) + BLANK, newline="")
    pulled, every_line = 0, second_reading._TextLines.__iter__

    def counting(lines: second_reading._TextLines) -> Iterator[str]:
        nonlocal pulled
        for line in every_line(lines):
            pulled += 1
            yield line

    monkeypatch.setattr(second_reading._TextLines, "__iter__", counting)
    plan = ReadPlan(str(file), "tsv" if tabs else "csv", separator=mark)
    assert list(second_reading._records(str(file), plan)) == rows
    assert pulled < 100


def test_a_plan_numbers_arrays_and_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.eye(2, dtype=np.int64), Y=np.array([1, 2]))
    (tmp_path / "a.csv").write_text("id,value,key\n1,x,a b\n")
    for name, options, wanted in (
        ("a.npz", {}, (("X", 0), ("Y", 0))),
        ("a.csv", {"tokens": "key", "labels": "value"}, (("key", 2), ("value", 1))),
    ):
        (plan,) = read(tmp_path / name, **options).plans
        assert (plan.key, plan.label, plan.apart) == (*wanted, False)


def test_keys_alone_are_enough_to_ask_a_model_only(tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("country\nFrance\n")
    with pytest.raises(DataError, match="has one column, 'country', and a table has two"):
        read(tmp_path / "keys.csv")
    data = read(tmp_path / "keys.csv", like=Manner("words", "sequence"))
    assert (data.vocabulary, data.labels) == (Names(("France",), "words"), None)


def test_keys_of_a_table_are_split_as_the_caller_says(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("country,capital\nSan Marino,X\nPeru,Y\n")
    for unit, first in (("characters", "S"), ("words", "San"), ("whole", "San Marino"), (None, "San")):
        data = read(file, unit=unit)
        assert data.vocabulary is not None
        assert data.vocabulary.decode(data.tokens)[0] == first


@pytest.mark.parametrize("arrows", [False, True])
def test_labels_of_two_kinds_are_refused_however_far_apart(
    arrows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is a block of its own here. An integer that is no float64 is refused among real numbers."""
    monkeypatch.setattr(growing, "TOKENS_AT_ONCE", 1)
    monkeypatch.setattr(readers, "ARROW", arrows)
    file = tmp_path / "a.jsonl"
    for labels, words in (
        (['"x"', "3", "4"], "mixed label kinds"),
        (["3", "4", '"x"'], "mixed label kinds"),
        (["0.5", "1", "9007199254740993"], "9007199254740993"),
        (["9007199254740993", "1", "0.5"], "9007199254740993"),
    ):
        rows = (f'{{"tokens": [{row}], "label": {label}}}\n' for row, label in enumerate(labels))
        file.write_text("".join(rows))
        with pytest.raises(DataError, match=words):
            read(file)
