"""Every format read back as it was written, every kind of bad file with its own message, and the phrases."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from monolayer.data import Names, Sequences, arrow, columns, growing, phrases, read, readers, tiny_phrases
from monolayer.data.layout import Columns
from monolayer.data.size import tokens_at_most
from monolayer.errors import DataError

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines may be slow
FEW = settings(CALM, max_examples=40)

# -- writing -------------------------------------------------------------------------------------------

Rows = list[list[Any]]
PLAIN = st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=3).filter(
    lambda text: not text.startswith(("#", "-DOCSTART-"))
)
"""Words that a file of words separated by spaces can hold."""


def dataset(word: st.SearchStrategy[Any], label: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Rows, Rows]]:
    pairs = st.lists(st.lists(st.tuples(word, label), min_size=1, max_size=4), min_size=1, max_size=6)
    return pairs.map(lambda rows: ([[x for x, _ in row] for row in rows], [[y for _, y in row] for row in rows]))


def columns_text(X: Rows, Y: Rows | None, separator: str) -> str:
    lines = []
    for i, row in enumerate(X):
        lines += [token if Y is None else f"{token}{separator}x{separator}{Y[i][k]}" for k, token in enumerate(row)]
        lines.append("")
    return "\n".join(lines)


def long_text(X: Rows, Y: Rows) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["sequence", "token", "label"])
    for number, (row, labels) in enumerate(zip(X, Y, strict=True)):
        writer.writerows([number, token, label] for token, label in zip(row, labels, strict=True))
    return out.getvalue()


def same(left: Sequences, right: Sequences) -> None:
    """Equal in everything, to the bit."""
    assert left.vocabulary == right.vocabulary
    assert left.lengths.tolist() == right.lengths.tolist()
    assert left.tokens.dtype == right.tokens.dtype
    assert left.tokens.tobytes() == right.tokens.tobytes()
    assert (left.labels is None) == (right.labels is None)
    if left.labels is not None and right.labels is not None:
        assert (left.labels.per, left.labels.classes) == (right.labels.per, right.labels.classes)
        assert left.labels.scalar == right.labels.scalar
        assert left.labels.values.tolist() == right.labels.values.tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for property tests, which write the same few files again and again."""
    return tmp_path_factory.mktemp("data")


def ways() -> Iterator[str]:
    """Arrow or none; chunks that end everywhere, or one for all."""
    for by_arrow, chunk in ((False, 3), (True, 3), (True, growing.CHUNK)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(growing, "CHUNK", chunk)
            patch.setattr(readers, "ARROW", by_arrow)
            yield f"Arrow {by_arrow}, chunks of {chunk}"


def reads(file: Path, expected: Sequences, **options: Any) -> None:
    """The file is `expected`, whatever way it is read."""
    for _ in ways():
        same(read(file, **options), expected)


# -- what was written is read --------------------------------------------------------------------------

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "strings": st.text(max_size=3),
    "ids": st.integers(0, 2**63 - 1),
    "small ids": st.integers(0, 9),
    "vectors": st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
}
LABELS: dict[str, st.SearchStrategy[Any]] = {
    "strings": st.text(max_size=3),
    "integers": st.integers(-(2**63), 2**63 - 1),
    "reals": st.floats(allow_nan=False, allow_infinity=False),
    "mixed numbers": st.one_of(st.integers(-9, 9), st.floats(-9, 9)),
    "booleans": st.booleans(),
    "vectors": st.lists(st.floats(-9, 9), min_size=3, max_size=3),
}


@FEW
@given(st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(LABELS)), st.booleans(), st.data())
def test_jsonl(folder: Path, kind: str, labels: str, ascii: bool, draw: st.DataObject) -> None:
    X, Y = draw.draw(dataset(VALUES[kind], LABELS[labels]))
    file = folder / "a.jsonl"
    rows = [{"tokens": row, "labels": Y[i]} for i, row in enumerate(X)]
    file.write_text("".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows), "utf-8", newline="")
    reads(file, Sequences.of(X, Y))
    if labels == "vectors":
        return  # of() cannot tell a vector per sequence from a number per token; "label" can, see below
    one = [row[0] for row in Y]
    file.write_text("".join(json.dumps({"words": row, "label": one[i]}) + "\n\n" for i, row in enumerate(X)))
    reads(file, Sequences.of(X, one), tokens="words")


def test_jsonl_labels_by_key(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    rows = [("ab", "x", ["p", "q"], [1, 2.5]), ("c", "y", ["p"], [0, 0])]
    keys = ("tokens", "tag", "tags", "label")
    file.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    reads(file, Sequences.of(["ab", "c"], ["x", "y"]), labels="tag")
    reads(file, Sequences.of(["ab", "c"], [["p", "q"], ["p"]]), labels="tags")
    reads(file, Sequences.of(["ab", "c"], [[1, 2.5], [0.0, 0]], per="sequence"))
    file.write_text('{"tokens": "ab", "label": null}\n{"tokens": "c"}')
    reads(file, Sequences.of(["ab", "c"]))
    file.write_text(
        "".join(f'{{"sequence": {i}, "token": "{t}", "label": {i}}}\n' for i, t in ((1, "a"), (1, "b"), (2, "a")))
    )
    reads(file, Sequences.of(["ab", "a"], [[1, 1], [2]]))


@FEW
@given(dataset(PLAIN, PLAIN), st.sampled_from(["\t", " ", "   "]), st.sampled_from(["\n", "\r\n"]))
def test_conll(folder: Path, data: tuple[Rows, Rows], separator: str, newline: str) -> None:
    X, Y = data
    file = folder / "a.conll"
    file.write_text(columns_text(X, Y, separator), "utf-8", newline=newline)
    reads(file, Sequences.of(X, Y))
    same(read(file, tokens="3", labels="1"), Sequences.of(Y, X))
    file.write_text(columns_text(X, None, separator), "utf-8", newline=newline)
    same(read(file, format="conll"), Sequences.of(X))


@pytest.mark.parametrize(
    ("text", "X", "Y"),
    [
        ("\ufeffEU B\n", [["EU"]], [["B"]]),
        ("# id = 1\n#\nEU\tB\n# x\n#\tO\n", [["EU", "#"]], [["B", "O"]]),
        ("# O\n#x O\n\nEU B", [["#", "#x"], ["EU"]], [["O", "O"], ["B"]]),
        ("-DOCSTART- -X- O\n\nEU NN B\n\n-DOCSTART- -X- O\n\nUN NN B\n", [["EU"], ["UN"]], [["B"], ["B"]]),
        ("-DOCSTART-\n# c\nEU\tB\n", [["EU"]], [["B"]]),
        ("\n\n \nEU B\n\t\n\nUN B \n\n\n", [["EU"], ["UN"]], [["B"], ["B"]]),
        ("a\u00a0b O\nc\u2028d O\n", [["a\u00a0b", "c\u2028d"]], [["O", "O"]]),
        ("a b\tO\n", [["a b"]], [["O"]]),
    ],
)
def test_conll_comments_document_starts_and_blanks(tmp_path: Path, text: str, X: Rows, Y: Rows) -> None:
    (tmp_path / "a.iob").write_text(text, "utf-8")
    same(read(tmp_path / "a.iob"), Sequences.of(X, Y))


def test_conllu_reads_words_and_parts_of_speech(tmp_path: Path) -> None:
    def line(number: str, form: str, upos: str) -> str:
        return "\t".join([number, form, form.lower(), upos, "_", "_", "0", "root", "_", "_"])

    words = [line("1-2", "Vamonos", "_"), line("1", "Vamos", "VERB"), line("2", "nos", "PRON"), line("2.1", "y", "X")]
    (tmp_path / "a.conllu").write_text(
        "\n".join(["# text = Vamonos", *words, "", line("1", "Sí", "INTJ"), ""]), "utf-8"
    )
    same(read(tmp_path / "a.conllu"), Sequences.of([["Vamos", "nos"], ["Sí"]], [["VERB", "PRON"], ["INTJ"]]))
    assert read(tmp_path / "a.conllu", labels="3").labels is not None


@FEW
@given(
    dataset(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4),
        st.text("a\"',\n ", min_size=1),
    )
)
def test_long_csv_holds_any_text(folder: Path, data: tuple[Rows, Rows]) -> None:
    (folder / "a.csv").write_text(long_text(*data), "utf-8", newline="")
    reads(folder / "a.csv", Sequences.of(*data))


@FEW
@given(dataset(PLAIN, PLAIN))
def test_wide_csv_and_tsv(folder: Path, data: tuple[Rows, Rows]) -> None:
    X, Y = data
    out = io.StringIO()
    csv.writer(out).writerows([["tokens", "labels"], *zip(map(" ".join, X), map(" ".join, Y), strict=True)])
    (folder / "b.csv").write_text(out.getvalue(), "utf-8", newline="")
    reads(folder / "b.csv", Sequences.of(X, Y))
    reads(folder / "b.csv", Sequences.of(Y, X), tokens="labels", labels="tokens")
    lines = [f"{i}\t{x}\t{y}" for i, row in enumerate(X) for x, y in zip(row, Y[i], strict=True)]
    (folder / "b.tsv").write_text("\n".join(["sequence\ttoken\tlabel", *lines]), "utf-8")
    reads(folder / "b.tsv", Sequences.of(X, Y))  # quotes are characters like any other


@pytest.mark.parametrize(
    ("text", "X", "Y"),
    [
        ("tokens,tag\na,x\nb c,y z\n", [["a"], ["b", "c"]], [["x"], ["y", "z"]]),
        ("tokens,tag\na,x\nb c,y\na,x\n", [["a"], ["b", "c"], ["a"]], ["x", "y", "x"]),
        ("tokens,tag\nb c,y\na b,z\n", [["b", "c"], ["a", "b"]], ["y", "z"]),
        ("tokens,tag\nb,y\nc,z\n", [["b"], ["c"]], [["y"], ["z"]]),
        ("sequence,tokens,tag\n1,b c,y z\n", [["b", "c"]], [["y", "z"]]),
        ("sequence,token,tag\n1,b,y\n1,c d,z\n\n2,e,z\n", [["b", "c d"], ["e"]], [["y", "z"], ["z"]]),
        ("tokens,tag,tag2,tag2\nb c,y z,1,2\n", [["b", "c"]], [["y", "z"]]),
    ],
)
def test_a_chosen_label_column_goes_by_token_where_its_words_do(tmp_path: Path, text: str, X: Rows, Y: Any) -> None:
    (tmp_path / "a.csv").write_text(text)
    reads(tmp_path / "a.csv", Sequences.of(X, Y), labels="tag")


def test_long_csv_with_other_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sid,word,tag,sequence\na,x,A,1\na,y,B,2\nb,x,A,3\n")
    X, Y = [["x", "y"], ["x"]], [["A", "B"], ["A"]]
    same(read(tmp_path / "a.csv", sequence="sid", tokens="word", labels="tag"), Sequences.of(X, Y))
    (tmp_path / "b.csv").write_text("sequence,label\nx y,A\nz,B\n")
    reads(tmp_path / "b.csv", Sequences.of([["x", "y"], ["z"]], ["A", "B"]), tokens="sequence")


@FEW
@given(st.sampled_from(sorted(VALUES)), st.sampled_from(sorted(LABELS)), st.integers(1, 5), st.data())
def test_parquet(folder: Path, kind: str, labels: str, batch: int, draw: st.DataObject) -> None:
    X, Y = draw.draw(dataset(VALUES[kind], LABELS[labels]))
    file = folder / "a.parquet"
    flat = [token for row in X for token in row], [label for row in Y for label in row]
    if labels == "mixed numbers":
        Y = [[float(label) for label in row] for row in Y]
        flat = flat[0], [float(label) for label in flat[1]]
    pq.write_table(pa.table({"tokens": X, "labels": Y}), file)
    same(arrow.read_parquet(file, Columns(), None, None, batch), Sequences.of(X, Y))
    number = [i for i, row in enumerate(X) for _ in row]
    pq.write_table(pa.table({"sequence": number, "token": flat[0], "label": flat[1]}), file)
    same(arrow.read_parquet(file, Columns(), None, None, batch), Sequences.of(X, Y))
    if labels != "vectors":
        one = [row[0] for row in Y]
        pq.write_table(pa.table({"tokens": X, "label": one}), file)
        same(arrow.read_parquet(file, Columns(), None, None, batch), Sequences.of(X, one))


LISTS, ENCODED = pa.large_list(pa.large_string()), pa.list_(pa.dictionary(pa.int8(), pa.string()))


@pytest.mark.parametrize(
    "columns",
    [
        {"tokens": ["a b", "c"], "labels": ["x y", "x"]},
        {"tokens": ["a b", "c"], "labels": [["x", "y"], ["x"]]},
        {"tokens": pa.array([["a", "b"], ["c"]], LISTS), "labels": ["x y", "x"]},
        {"tokens": pa.array([["a", "b"], ["c"]], ENCODED), "labels": [["x", "y"], ["x"]]},
        {"sequence": pa.array(["p", "p", "q"]).dictionary_encode(), "token": ["a", "b", "c"], "label": ["x", "y", "x"]},
    ],
    ids=range(5),
)
def test_parquet_text_and_encodings(tmp_path: Path, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.pq")
    same(read(tmp_path / "a.pq"), Sequences.of([["a", "b"], ["c"]], [["x", "y"], ["x"]]))
    vectors = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]
    fixed = pa.array(vectors, pa.list_(pa.list_(pa.float32(), 2)))
    pq.write_table(pa.table({"tokens": fixed, "tag": [1, 2]}), tmp_path / "a.pq")
    same(read(tmp_path / "a.pq", labels="tag"), Sequences.of(vectors, [1, 2]))


@FEW
@given(arrays(np.int32, (3, 4), elements=st.integers(0, 9)), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_npz(folder: Path, X: np.ndarray[Any, Any], lengths: list[int]) -> None:
    file = folder / "a.npz"
    np.savez(file, X=X, Y=-X)
    same(read(file), Sequences.of(X, -X))
    same(read(file, tokens="X", labels="X"), Sequences.of(X, X))
    np.savez_compressed(file, X=X.astype(str), lengths=np.array(lengths), more=X)
    same(read(file), Sequences.of(X.astype(str), lengths=lengths))


# -- streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "text"),
    [
        (None, '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n'),
        ("conll", "a x\nb y\n"),
        ("csv", "tokens,labels\na b,x y\n"),
        ("tsv", "sequence\ttoken\tlabel\n1\ta\tx\n1\tb\ty"),
    ],
)
def test_standard_input_and_gzip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str | None, text: str
) -> None:
    expected = Sequences.of([["a", "b"]], [["x", "y"]])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    calls: list[tuple[int, int | None]] = []
    same(read("-", format=format, progress=lambda *call: calls.append(call)), expected)
    assert calls[-1] == (len(text), None)
    packed = tmp_path / f"a.{format or 'jsonl'}.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    same(read(str(packed), progress=lambda *call: calls.append(call)), expected)
    assert calls[-1] == (packed.stat().st_size, packed.stat().st_size)


def test_progress_grows_to_the_size_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "CHUNK", 3)
    files = {"a.conll": "a O\n\n" * 50, "a.jsonl": '{"tokens": "a"}\n' * 50, "a.csv": "tokens\n" + "a\n" * 500}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    pq.write_table(pa.table({"tokens": [["a"]] * 50}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 3), int))
    for file in tmp_path.iterdir():
        calls: list[tuple[int, int | None]] = []
        read(file, progress=lambda *call, calls=calls: calls.append(call))  # type: ignore[misc]
        size = file.stat().st_size
        assert calls[-1] == (size, size)
        assert calls == sorted(calls)
        if file.name in files:
            assert len(calls) > 10


def test_no_more_than_a_chunk_of_tokens_waits_to_be_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, chunk, row = 30_000, 1 << 10, 100
    labels = json.dumps(list(range(row)))
    (tmp_path / "a.jsonl").write_text(f'{{"tokens": "{"abcdefghij" * 10}", "labels": {labels}}}\n' * (count // row))
    (tmp_path / "a.conll").write_text("".join(f"word{i % 50} {i % 7}\n" for i in range(count)))  # one long sequence
    monkeypatch.setattr(growing, "CHUNK", chunk)
    waiting: list[int] = []
    add = columns.Column.add

    def watched(self: columns.Column, values: Any, place: Any) -> None:
        waiting.append(len(values))
        add(self, values, place)

    monkeypatch.setattr(columns.Column, "add", watched)
    monkeypatch.setattr("monolayer.data.readers.ARROW", False)
    for name in ("a.jsonl", "a.conll"):
        assert len(read(tmp_path / name).tokens) == count
    assert sum(waiting) == 4 * count  # tokens and labels of both
    assert max(waiting) < chunk + row


# -- bad files -----------------------------------------------------------------------------------------

GOOD = '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n'
TEXT: list[tuple[str, str | bytes, str]] = [  # @ stands for the path of the file
    ("a.jsonl", "\n \n", "@ is empty: there is no sequence in it"),
    ("a.conll", "\n-DOCSTART- O\n", "@ is empty"),
    ("a.csv", "", "@ is empty"),
    ("a.csv", "tokens,labels\n", "@ is empty"),
    ("a.npz", "", "@ is empty"),
    ("a.parquet", "", "@ is empty"),
    ("a.txt.gz", GOOD, "@: the suffix '.txt' says nothing of the format. Say it with format= (--format on the command"),
    # cut short
    ("a.jsonl", GOOD + GOOD[:30], "@ ends in the middle, at line 2: its last JSON object is not closed"),
    ("a.jsonl", GOOD.encode() + '{"tokens": ["é'.encode()[:-1], "@ ends in the middle, at line 2: its last character"),
    ("a.jsonl.gz", gzip.compress(GOOD.encode() * 9)[:-9], "@ ends in the middle, at line"),
    ("a.csv", 'tokens,label\na,x\n"b\nc,d\n', "@ ends in the middle, at line 4: a quote opened in the row of line 3"),
    ("a.tsv", "tokens\tlabel\na\tx\nb", "@ ends in the middle, at line 3: line 3 of @ has 1 columns, the header has 2"),
    ("a.conll", "a NN O\nb N\n\n", "@ has 2 columns, line 1 has 3. It was cut short; copy or write it again"),
    # not what it says it is
    ("a.jsonl", GOOD + '{"tokens": [,]}\n' + GOOD, "line 2 of @ is not JSON (Expecting value: line 1 column 13"),
    ("a.json", '{\n  "tokens": ["a"]\n}\n', "line 1 of @ is not JSON"),
    ("a.jsonl", "[" * 10**5, "is not JSON"),
    ("a.jsonl", "1" * 5000, "every line must be one whole object such as"),
    ("a.jsonl", GOOD + '[["a"]]\n', "line 2 of @ is [['a']], not an object: write"),
    ("a.jsonl", GOOD + "null\n" + GOOD, "line 2 of @ is None, not an object: write"),
    ("a.jsonl", GOOD.encode() + b'{"tokens": "\xe9a"}\n', "line 2 of @ is not UTF-8: byte 0xe9 at byte 12. Convert"),
    ("a.jsonl.gz", GOOD, "@ is no gzip file, or a damaged one"),
    ("a.npz", "hello there", "@ is no npz file: write it with numpy.savez"),
    ("a.parquet", "hello there", "@ is no Parquet file, or a damaged one"),
    ("a.csv", 'tokens,label\n"a"b,x\n', "line 2 of @ is not CSV (',' expected after '\"')"),
    # rows
    ("a.jsonl", GOOD + '{"text": "a", "label": 1}\n', "line 2 of @ has no column 'tokens'; it has: text, label"),
    ("a.jsonl", '{"tokens": 7}\n', "line 1 of @, column 'tokens', holds 7: it must be a list, or text"),
    ("a.jsonl", GOOD + '{"tokens": [], "labels": []}', "line 2 of @ is an empty sequence: every sequence"),
    ("a.jsonl", '{"tokens": ""}', "is an empty sequence"),
    ("a.jsonl", GOOD + '{"tokens": "abc", "labels": ["x"]}', "has 3 tokens but 1 label: give one per token"),
    ("a.jsonl", '{"tokens": "abc", "labels": "xyz"}', "'labels' is 'xyz'; it must be a list, one label per token"),
    ("a.jsonl", '{"tokens": "abc", "labels": [1, 2, 3], "label": 1}', "has both 'labels' and 'label'"),
    ("a.jsonl", GOOD + '{"tokens": "a"}', "line 2 of @ has no label, but line 1 has: label every sequence, or none"),
    ("a.jsonl", '{"tokens": "a"}\n' + GOOD, "line 2 of @ has 'labels', but line 1 has no label"),
    ("a.jsonl", GOOD + '{"tokens": "a", "label": "x"}', "line 2 of @ has 'label', but line 1 has 'labels'"),
    ("a.jsonl", '{"tokens": "ab", "label": 1}\n{"tokens": "ab", "label": "x"}', "the label of line 2 of @ is a string"),
    ("a.jsonl", '{"tokens": [1, 2]}\n\n{"tokens": [3, -1]}', "token 1 of line 3 of @ has id -1"),
    ("a.jsonl", '{"tokens": [1.5]}', "token 0 of line 1 of @ is 1.5 (a real number)"),
    ("a.jsonl", '{"tokens": [[1, 2]]}\n{"tokens": [[1, 2], [3]]}', "token 1 of line 2 of @ is a vector of 1 number"),
    ("a.jsonl", '{"tokens": [[1, 2]]}\n{"tokens": [[1, NaN]]}', "is [1.0, nan]: NaN and infinity are not allowed"),
    ("a.conll", "a NN O\nb\nc NN O\n", "line 2 of @ has 1 columns, line 1 has 3: give every line the same columns"),
    ("a.conll", "a\tO\n\tO\n", "line 2 of @ has an empty token"),
    ("a.conll", "a\tO\nb\t\n", "line 2 of @ has an empty label"),
    ("a.csv", "tokens,label\na,x\nb,y,z\n", "line 3 of @ has 3 columns, the header has 2: give every row the same"),
    ("a.csv", "tokens,label\na,x\n,y\n", "line 3 of @ is an empty sequence"),
    ("a.csv", "tokens,label\na,x\nb,\n", "line 3 of @ has no label, but line 2 has"),
    ("a.csv", "tokens,labels\na b,x\n", "has 2 tokens but 1 label"),
    ("a.csv", "tokens,labels,label\na b,x,y\n", "has both 'labels' and 'label'"),
    ("a.csv", "tokens,tokens,label\na b,c d,x\n", "2 columns called 'tokens'"),
    ("a.csv", "text,label\na,x\n", "@ has no column 'tokens'; it has: text, label. Choose with tokens="),
    ("a.csv", "sequence,label\na,x\n", "has no column 'token'; it has: sequence, label"),
    ("a.csv", "sequence,token\n1,a\n2,b\n1,c\n", "line 4 of @: sequence '1' comes back after another one"),
    ("a.csv", "sequence,token\n1,a\n,b\n", "line 3 of @ does not say which sequence it belongs to"),
    ("a.csv", "sequence,token,label\n1,a,x\n1,b,\n", "line 3 of @ has no 'label': every row is a token"),
    ("a.csv", "sequence,token,label\n1,a,x\n1,,x\n", "line 3 of @ has no 'token'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), TEXT, ids=[f"{row[0]}: {row[2]}"[:80] for row in TEXT])
def test_bad_files_are_named(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    for _ in ways():
        with pytest.raises(DataError, match=re.escape(message.replace("@", str(file)))):
            read(file)


@FEW
@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.sampled_from(["tokens", "labels", "label"]), st.data())
def test_the_faulty_line_is_named_wherever_it_is(
    folder: Path, sizes: list[int], fault: str, draw: st.DataObject
) -> None:
    """One value of another kind in JSONL, one unknown token in CoNLL and Parquet: the message names its place."""
    by_token = [{"tokens": ["a"] * size, "labels": [1] * size} for size in sizes]
    rows: list[Any] = [{"tokens": ["a"] * size, "label": 1} for size in sizes] if fault == "label" else by_token
    row = draw.draw(st.integers(0, len(sizes) - 1))
    token = draw.draw(st.integers(0, sizes[row] - 1))
    if row == 0 and (token == 0 or fault == "label"):
        return
    if fault == "label":
        rows[row][fault], place = [], f"the label of line {row + 1} of "
    else:
        rows[row][fault][token], place = [], f"token {token} of line {row + 1} of "
    unseen = [["a"] * size for size in sizes]
    unseen[row][token] = "?"
    (folder / "fault.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "unseen.jsonl").write_text("".join(json.dumps({"tokens": row}) + "\n" for row in unseen))
    (folder / "fault.conll").write_text(columns_text(unseen, None, " "))
    pq.write_table(pa.table({"tokens": unseen}), folder / "fault.parquet")
    line, names = sum(sizes[:row]) + row + token + 1, Names(("a",))
    for _ in ways():
        with pytest.raises(DataError, match=rf", (the label of )?{place}.* is a real vector"):
            read(folder / "fault.jsonl")
        with pytest.raises(DataError, match=rf"^line {line} of .* is '\?', which the model has never seen"):
            read(folder / "fault.conll", vocabulary=names)
        with pytest.raises(DataError, match=rf"^token {token} of line {row + 1} of .* is '\?', which"):
            read(folder / "unseen.jsonl", vocabulary=names)
    with pytest.raises(DataError, match=rf"^token {token} of row {row} of .* is '\?', which"):
        arrow.read_parquet(folder / "fault.parquet", Columns(), names, None, 3)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a x\nb y\n", {"labels": "3"}, "has 2 columns: there is no column 3. Choose from 1 to 2"),
        ("a x\n", {"tokens": "-3"}, "there is no column -3"),
        ("a x\n", {"tokens": "word"}, "'word' is no CoNLL column: columns have numbers"),
        ("a x\n", {"tokens": "0"}, "'0' is no CoNLL column"),
        ("a x\n", {"sequence": "1"}, "`sequence` chooses a column of a table"),
        ("1 x\n", {"vocabulary": Names(range(3))}, "is a string ('1'), but the tokens of the model are integers"),
        ("a x\n", {"format": "xml"}, "there is no format 'xml'; the formats are jsonl, conll, conllu, csv, tsv"),
        ("tokens,tag\nb c,y\na b,z z\n", {"format": "csv", "labels": "tag"}, "has 2 words in column 'tag', which so"),
        ("tokens,tag\nb c,y\na b,\n", {"format": "csv", "labels": "tag"}, "has no label, but line 2 has"),
        ("tokens,tag\na b c,y z\n", {"format": "csv", "labels": "tag"}, "has 3 tokens but 2 labels"),
        ("tokens,tag\na,y\n", {"format": "csv", "sequence": "id"}, "has no column 'id'; it has: tokens, tag"),
        (GOOD, {"format": "jsonl", "labels": "tags"}, "has no column 'tags'; it has: tokens, labels. Choose with"),
        (GOOD, {"format": "jsonl", "tokens": "words"}, "has no column 'words'; it has: tokens, labels"),
    ],
)  # fmt: skip
def test_bad_choices_are_named(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    (tmp_path / "a.conll").write_text(text)
    for _ in ways():
        with pytest.raises(DataError, match=re.escape(message)):
            read(tmp_path / "a.conll", **options)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.jsonl does not exist"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a directory: give one data file"):
        read(tmp_path)
    with pytest.raises(DataError, match="npz is read from a plain file, not from standard input"):
        read("-", format="npz")


PARQUET: list[tuple[dict[str, Any], str]] = [
    ({"text": ["a"]}, "@ has no column 'tokens'; it has: text"),
    ({"tokens": [1, 2]}, "row 0 of @, column 'tokens', holds 1: it must be a list, or text"),
    ({"tokens": [["a"], []]}, "row 1 of @ is an empty sequence"),
    ({"tokens": [["a"], None]}, "row 1 of @ is an empty sequence"),
    ({"tokens": ["a", None]}, "row 1 of @ is an empty sequence"),
    ({"tokens": [["a", None]]}, "token 1 of row 0 of @ is None"),
    ({"tokens": [["a"], ["a", "b"]], "labels": [["x"], ["x"]]}, "row 1 of @ has 2 tokens but 1 label"),
    ({"tokens": [[1], [2, -2]]}, "token 1 of row 1 of @ has id -2"),
    ({"tokens": [[[1.0]], [[2.0, 3.0]]]}, "is a vector of 2 numbers, the first has 1"),
    ({"tokens": [[[1.0]], [[float("nan")]]]}, "is [nan]: NaN and infinity are not allowed"),
    ({"sequence": [1, 2, 1], "token": ["a", "b", "c"]}, "row 2 of @: sequence 1 comes back after another one"),
    ({"sequence": [1, None], "token": ["a", "b"]}, "row 1 of @ does not say which sequence it belongs to"),
    ({"sequence": [[1], [2]], "token": ["a", "b"]}, "row 0 of @ does not say which sequence it belongs to"),
    ({"sequence": [1, 1], "token": ["a", None]}, "row 1 of @ has no 'token'"),
    ({"tokens": pa.array([], pa.list_(pa.string()))}, "@ is empty: there is no sequence in it"),
]


@pytest.mark.parametrize(("columns", "message"), PARQUET, ids=[row[1] for row in PARQUET])
def test_bad_parquet_files_are_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file)
    with pytest.raises(DataError, match=re.escape(message.replace("@", str(file)))):
        read(file)


PLAINLY: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, bytes]:
    """A sound file of each binary format: ids 0 … 59 in rows of ten, Parquet with its numbers as they are."""
    ids = np.arange(60).reshape(6, 10)
    np.savez_compressed(folder / "whole.npz", X=ids)
    pq.write_table(pa.table({"tokens": ids.tolist()}), folder / "whole.parquet", **PLAINLY)
    return {name: (folder / f"whole.{name}").read_bytes() for name in ("npz", "parquet")}


@CALM
@given(st.data())
def test_a_cut_binary_file_is_an_error_wherever_it_is_cut(
    folder: Path, whole: dict[str, bytes], draw: st.DataObject
) -> None:
    for name, content in whole.items():
        cut = folder / f"cut.{name}"
        cut.write_bytes(content[: draw.draw(st.integers(4, len(content) - 1))])
        with pytest.raises(DataError, match="ends in the middle: it was cut short"):
            read(cut)


@CALM
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_binary_file_is_refused_or_harmless(
    folder: Path, whole: dict[str, bytes], place: int, flip: int
) -> None:
    """One byte changed. npz has a checksum over its data. Parquet has none over its headers: only no crash is asked."""
    for name, content in whole.items():
        bad = bytearray(content)
        bad[place % len(content)] ^= flip
        (folder / f"bad.{name}").write_bytes(bad)
        try:
            data = read(folder / f"bad.{name}")
        except DataError:
            continue
        if name == "npz":
            same(data, Sequences.of(np.arange(60).reshape(6, 10)))


def test_parquet_checksums_are_used(tmp_path: Path, whole: dict[str, bytes]) -> None:
    stored = np.arange(60).tobytes()
    place = whole["parquet"].index(stored[:80]) + 8
    (tmp_path / "a.parquet").write_bytes(whole["parquet"][:place] + b"\7" + whole["parquet"][place + 1 :])
    with pytest.raises(DataError, match="is no Parquet file, or a damaged one"):
        read(tmp_path / "a.parquet")


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
    monkeypatch.setattr("monolayer.data.lines.LONGEST", 1 << 10)
    good = {"a.jsonl.gz": GOOD, "a.csv.gz": "tokens,labels\na b,x y\n", "a.conll.gz": "a x\n"}[name]
    with gzip.open(tmp_path / name, "wt") as file:
        file.write(good * 2 + "a" * (1 << 22))
    for _ in ways():
        with pytest.raises(DataError, match=r"line [35] of .* is longer than .*: give every sequence its own line"):
            read(tmp_path / name)


@pytest.mark.parametrize(
    ("stored", "options", "message"),
    [
        ({"Z": [3]}, {}, "@ has no array 'X'; it has: Z"),
        ({"X": [[3]]}, {"labels": "Q"}, "@ has no array 'Q'; it has: X"),
        ({"X": np.array([["a"], None], dtype=object)}, {}, "@ holds an array that cannot be read"),
        ({"X": [[1, -1]]}, {}, "@: token 1 of sequence 0 has id -1"),
        ({"X": [[1, 2]], "Y": [[1, 2, 3]]}, {}, "@: sequence 0 has 2 tokens but 3 labels"),
    ],
)
def test_bad_npz_files_are_named(tmp_path: Path, stored: dict[str, Any], options: dict[str, Any], message: str) -> None:
    file = tmp_path / "a.npz"
    np.savez(file, **stored)
    with pytest.raises(DataError, match=re.escape(message.replace("@", str(file)))):
        read(file, **options)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"tokens": ["a"]}), tmp_path / "a.parquet")
    monkeypatch.delitem(sys.modules, "monolayer.data.arrow")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=re.escape("Parquet needs pyarrow: pip install pyarrow")):
        read(tmp_path / "a.parquet")


# -- the page --------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "data.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("format", "text"),
    re.findall(r"```(jsonl|conll|conllu|csv|tsv)\n(.*?)```", PAGE, re.DOTALL),
    ids=lambda text: text[:8],
)
def test_every_example_of_the_page_is_read_as_the_page_says(tmp_path: Path, format: str, text: str) -> None:
    (tmp_path / "a").write_text(text, "utf-8")
    data = read(tmp_path / "a", format=format)
    assert data.vocabulary is not None
    assert {"EU", "rejects"} <= set(data.vocabulary.names)
    assert data.labels is not None


# -- phrases ---------------------------------------------------------------------------------------------


def test_phrases_are_the_dictionary() -> None:
    pytest.importorskip("pypinyin_dict")
    data, tiny = phrases(), tiny_phrases()
    source = importlib.import_module("pypinyin_dict.phrase_pinyin_data.large_pinyin").phrases_dict
    words, readings = ([part.tolist() for part in tiny.split(each)] for each in flat_names(tiny))
    common = {"".join(word): row for word, row in zip(words, readings, strict=True) if "".join(word) in source}
    assert len(common) >= 40
    assert common == {word: [reading[0] for reading in source[word]] for word in common}
    assert (len(data), len(data.tokens)) == (411_957, 1_029_973)
    characters, labels = flat_names(data)
    assert "".join(characters.tolist()) == "".join(source)
    assert data.lengths.tolist() == [len(phrase) for phrase in source]
    # Two characters have two readings in their phrase; the first is the label.
    assert labels.tolist() == [reading[0] for row in source.values() for reading in row]


def flat_names(data: Sequences) -> tuple[Any, Any]:
    assert data.vocabulary is not None
    assert data.labels is not None
    return data.vocabulary.decode(data.tokens), data.labels.decode(data.labels.values)


def test_phrases_without_the_package_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypinyin_dict", None)
    monkeypatch.delitem(sys.modules, "pypinyin_dict.phrase_pinyin_data", raising=False)
    with pytest.raises(DataError, match=re.escape("pip install pypinyin-dict")):
        phrases()
