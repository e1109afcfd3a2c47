"""Questions to the readers of data: files and objects of every kind, and options, and what they are read as."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from pyarrow import parquet

import monolayer as ml
from monolayer.data import growing, read, readers
from monolayer.data.text import windows
from tests.asked import Question, attempt, in_a_line, meaning, shown, unlike

TABLE = 'tokens,label,where\na b,x,here\nc,z,there\n"d,d",y,"""no""where"\n'
LINES = '{"tokens": ["a", "b"], "labels": ["x", null]}\n\n{"tokens": ["c"], "labels": ["y"]}\n'
TWO_KINDS = 3 * '{"tokens": [1], "label": 9007199254740993}\n' + '{"tokens": [2], "label": 0.5}\n'
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "table.csv": (TABLE, {}),
    "column.csv": (TABLE, {"labels": "where"}),
    "table.tsv": ("tokens\tlabels\na b\tx y\nc\tz\n", {}),
    "pairs.json": ('{"a b": 1, "c": -3, "d": 2.5}', {}),
    "list.json": ('[["a b", "x"], ["c", "y z"]]', {}),
    "lines.jsonl": (LINES, {}),
    "reals.jsonl": ('{"tokens": [1, 2], "label": 0.5}\n{"tokens": [3], "label": 9007199254740993}\n', {}),
    "numbers.jsonl": ('{"tokens": [1, 200], "label": -100}\n{"tokens": [3], "label": 9223372036854775807}\n', {}),
    "vectors.jsonl": ('{"tokens": [[0.5, 1], [2, 3]], "labels": [1, 0]}\n{"tokens": [[1, 1]], "labels": [2]}\n', {}),
    "prompts.jsonl": ('{"prompt": "a b", "completion": " c"}\n{"prompt": "d", "completion": "e"}\n', {}),
    "tags.conll": ("EU NN B\nsaid VB O\n\nUN NN B\n", {}),
    "first.conll": ("EU NN B\nsaid VB O\n\nUN NN B\n", {"labels": "2"}),
    "tree.conllu": ("# id = 1\n1-2\tVamonos\t_\t_\n1\tVamos\tir\tVERB\n2\tnos\ttú\tPRON\n", {}),
    "lines.txt": ("a b\n c\n", {"format": "text", "unit": "words"}),
    "longer.csv": ("tokens,label\na b,x\nc,y,z\n", {}),
    "no column.csv": ("one,two,three\na b,x,1\n", {"labels": "four"}),
    "two kinds.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "ab", "label": "x"}\n', {}),
    "cut.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "ab", "la', {}),
    "empty.csv": ("tokens,label\n", {}),
    "sentiment.csv": ("text,label\na good film,1\nbad,0\n", {}),
    "label first.csv": ("label,text\npos,a good film\nneg,bad one\n", {}),
    "semicolons.csv": ("country;capital\nFrance;Paris, Lyon\nPeru;Lima\n", {}),
    "bars.csv": ("country|capital\nFrance|Paris\nPeru|Lima\n", {}),
    "tabs.csv": ("country\tcapital\nFrance\tParis\nPeru\tLima\n", {}),
    "separator.csv": ("key;value\na,b;c\nd,e;f\n", {"separator": ";"}),
    "no header.csv": ("France,Paris\nPeru,Lima\n", {"header": False}),
    "a header.csv": ("1,2\nFrance,Paris\nPeru,Lima\n", {"header": True}),
    "a row of data.csv": ("France,Paris\nPeru,Lima\nChad,N'Djamena\n", {}),
    "numbers above.csv": ("30,young\n70,old\n", {}),
    "twice.csv": ("a,a\nb,c\n", {}),
    "German.csv": ("Land,Hauptstadt\nPeru,Lima\nChad,N'Djamena\n", {"header": True, "unit": "whole"}),
    "a mark.csv": ("\ufefftokens,label\na,x\n\ufeffb,y\n", {}),
    "blank.csv": ("tokens,label\n\na b,x\n\n\nc,z\n", {}),
    "a cell of lines.csv": ('tokens,label\n"a\nb",x\nc,"y\n\nz"\n', {}),
    "tokens of labels.csv": ("tokens,other\na b,x y\nc,z\n", {"labels": "other", "per": "token"}),
    "no label.csv": ("tokens,label\na b,x\nc,\n", {}),
    "keys alone.csv": ("country\nFrance\nPeru\n", {"header": True}),
    "answers.csv": ("prompt,completion\nthe capital of Peru is,Lima\n\"a b\",\"c, d\"\n", {"per": "answer"}),
    "continued.jsonl": ('{"prompt": "a b", "completion": "c"}\n{"prompt": "d ", "completion": " e"}\n',
                        {"per": "continuation"}),
    "gaps.jsonl": ('{"tokens": [1, 2, 3], "labels": [4, -100, 5]}\n{"tokens": [3], "labels": [-100]}\n', {}),
    "nulls.jsonl": ('{"tokens": ["a"], "label": null}\n{"tokens": ["b"], "label": "x"}\n', {}),
    "minus.jsonl": ('{"key": "Qattara", "value": -100}\n{"key": "Turpan", "value": -1}\n', {}),
    "flags.jsonl": ('{"tokens": "ab", "label": true}\n{"tokens": "cd", "label": false}\n', {"unit": "whole"}),
    "words.jsonl": ('{"tokens": "ab cd", "label": 1}\n{"tokens": "e", "label": 0}\n', {"unit": "words"}),
    "mixed.jsonl": ('{"tokens": [1], "label": 1}\n{"tokens": [2], "label": 0.5}\n', {}),
    "empty row.jsonl": ('{"tokens": [1], "label": 1}\n{"tokens": [], "label": 1}\n', {}),
    "wrong count.jsonl": ('{"tokens": [1, 2], "labels": [1]}\n', {}),
    "a row.json": ('{"tokens": ["a", "b"], "labels": [1, 0]}', {}),
    "array.json": ('[{"tokens": ["a"], "label": 1}, {"tokens": ["b", "c"], "label": 2}]', {}),
    "columns.json": ('{"a": {"0": "x", "1": "y"}, "b": {"0": "u", "1": "v"}}', {}),
    "vectors.json": ('{"a": [1.5, 2], "b c": [3, -4]}', {}),
    "documents.conll": ("-DOCSTART- X\n\nEU B\nsaid O\n\n\n# O\nUN B\n", {}),
    "last.conll": ("EU NN B\nsaid VB O\n", {"labels": "-2", "tokens": "1"}),
    "comments.conll": ("# text\nEU\tB\n# x\tO\n", {}),
    "uneven.conll": ("EU NN B\nsaid VB\n", {}),
    "characters.txt": ("ab\nc d\n", {"format": "text", "unit": "characters"}),
    "windows line ends.csv": ("tokens,label\r\na b,x\r\nc,z\r\n", {}),
    "no end.jsonl": ('{"tokens": "ab", "label": 1}\n{"tokens": "cd", "label": 2}', {}),
    "negative.jsonl": ('{"tokens": [-1, 2], "label": 1}\n', {}),
    "huge.jsonl": ('{"tokens": [1], "label": 9223372036854775808}\n', {}),
    "nothing.csv": ("", {}),
    "many blank lines.csv": ("tokens,label\na b,x\n" + 300 * "\n" + "c,y\n", {}),
    "an open quote.csv": ('tokens,label\n"a b,x\nc,y\n', {}),
    "two of a key.jsonl": ('{"tokens": "a", "tokens": "b", "label": 1}\n', {}),
    "infinite.jsonl": ('{"tokens": [[1e999, 1]], "label": 1}\n', {}),
    "json with a header.jsonl": ('{"tokens": "a", "label": 1}\n', {"header": True}),
    "per sequence.conll": ("EU NN B\n", {"per": "sequence"}),
    "answers.conll": ("EU NN B\n", {"per": "answer"}),
    "an empty label.conll": ("EU\t\nsaid\tO\n", {}),
    "a column by its name.conll": ("EU NN B\n", {"tokens": "word"}),
    "a column too far.conll": ("EU NN B\n", {"labels": "4"}),
    "columns of lines.txt": ("a b\n", {"format": "text", "tokens": "a"}),
    "an unknown format.csv": ("a,b\nc,d\n", {"format": "excel"}),
    "a wide separator.csv": ("a,b\nc,d\n", {"separator": ";;"}),
    "separated by a word.csv": ("text,label\na,b\n", {"separator": "comma"}),
    "an unknown unit.csv": ("text,label\na,b\n", {"unit": "letters"}),
    "quoted marks.csv": ('"key;value"\nc\n', {}),
    "text behind a quote.csv": ('text,label\n"x"y,z\n', {}),
    "two labels.csv": ("tokens,label,label\na,b,c\n", {}),
    "both labels.csv": ("tokens,label,labels\na,b,c\n", {}),
    "both prompts.jsonl": ('{"prompt": "a", "question": "b", "answer": "c"}\n', {"per": "answer"}),
    "no prompt.jsonl": ('{"prompt": "a", "answer": "b"}\n{"prompt": null, "answer": "c"}\n', {"per": "answer"}),
    "an empty prompt.jsonl": ('{"prompt": "a", "answer": "b"}\n{"prompt": "", "answer": "c"}\n', {"per": "answer"}),
    "a prompt that is a number.jsonl": ('{"prompt": 1, "answer": "b"}\n', {"per": "answer"}),
    "no answer.jsonl": ('{"prompt": "a", "answer": "b"}\n{"prompt": "c", "answer": null}\n', {"per": "answer"}),
    "a list.jsonl": ('{"tokens": "a", "label": 1}\n[1]\n', {}),
    "a null.jsonl": ('{"tokens": "a", "label": 1}\nnull\n{"tokens": "b", "label": 2}\n', {}),
    "a row without tokens.jsonl": ('{"tokens": "a", "label": 1}\n{"x": "a", "label": 1}\n', {}),
    "a label too many.jsonl": ('{"tokens": "a"}\n{"tokens": "b", "label": 1}\n', {}),
    "a label too few.jsonl": ('{"tokens": "a", "label": 1}\n{"tokens": "b"}\n', {}),
    "tokens that are a number.jsonl": ('{"tokens": 5, "label": 1}\n', {}),
    "one label for tokens.jsonl": ('{"tokens": ["a"], "label": 1}\n', {"per": "token"}),
    "tokens that are reals.jsonl": ('{"tokens": [0.5], "label": 1}\n', {}),
    "a large integer and a real.jsonl": (TWO_KINDS, {}),
    "two kinds of labels.jsonl": ('{"tokens": ["a"], "labels": ["x"]}\n{"tokens": ["b"], "labels": "y"}\n', {}),
    "lists and text.jsonl": ('{"tokens": ["a"], "tag": ["x"]}\n{"tokens": ["b"], "tag": "y"}\n', {"labels": "tag"}),
    "no prompt.csv": ("prompt,answer\na,b\n,c\n", {"per": "answer"}),
    "no keys.jsonl": ("{}\n", {}),
    "two of a key.json": ('{"a": 1, "b": 2, "a": 3}', {}),
    "pairs and a triple.json": ('[["a", 1], ["b", 2, 3]]', {}),
    "a number.json": ("5", {}),
    "both labels late.jsonl": (
        3 * '{"tokens": [1, 2], "label": 2}\n' + '{"tokens": [3], "label": 1, "labels": 4}\n',
        {},
    ),
    "half a pair.jsonl": ('{"tokens": ["\\ud800"], "label": 1}\n', {}),
}  # fmt: skip
"""Files, whole and not, and options of `read`."""
GAPS = np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, False]])
FRAME = {"country": ["France", "Peru", "Chad"], "capital": ["Paris", "Lima", "N'Djamena"]}
TOLD = "the raven said nevermore , and the raven sat ; nevermore said the raven .\n"
SHAPES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "a dict": (({"France": "Paris", "Chad": "N'Djamena", "Peru": "Lima"},), {}),
    "a dict with a gap": (({"France": "Paris", "Chad": None},), {}),
    "a dict of numbers": (({"Qattara": -100, "Turpan": -154, "Assal": -1},), {}),
    "a dict of vectors": (({"a": [0.5, 1.0], "b": [2.0, -3.0]},), {}),
    "a dict of keys that are numbers": (({30: "young", 70: "old"},), {}),
    "a dict, whole": (({"New York": "I-87", "York": "A64"},), {"unit": "whole"}),
    "columns": ((FRAME,), {}),
    "columns of lists": (({"tokens": [["a", "b"], ["c"]], "labels": [[1, -100], [2]]},), {}),
    "rows": (([{"country": "France", "capital": "Paris"}, {"country": "Peru", "capital": "Lima"}],), {}),
    "pairs": (([("France", "Paris"), ("Peru", "Lima")],), {"labelled": True}),
    "pairs as sequences": (([("France", "Paris"), ("Peru", "Lima")],), {}),
    "a frame": ((pandas.DataFrame(FRAME),), {}),
    "a frame of three columns": ((pandas.DataFrame({"id": [7, 8, 9], **FRAME}),), {}),
    "two of three columns": (
        (pandas.DataFrame({"id": [7, 8, 9], **FRAME}),),
        {"tokens": "country", "labels": "id"},
    ),
    "a series": ((pandas.Series(dict(zip(*FRAME.values(), strict=True))),), {"labelled": True}),
    "a series without names": ((pandas.Series(["a b", "c"]),), {}),
    "a frame with a gap": (
        (pandas.DataFrame({"tokens": ["a", "b"], "label": pandas.array([1, None], "Int64")}),),
        {},
    ),
    "categories": ((pandas.DataFrame({"tokens": ["a", "b"], "label": pandas.Categorical(["y", "x"])}),), {}),
    "a table": ((pyarrow.table({"tokens": [[1, 2], [3]], "labels": [[5, None], [-100]]}),), {}),
    "a dictionary column": (
        (pyarrow.table({"k": ["a", "b"], "v": pyarrow.array(["y", "x"]).dictionary_encode()}),),
        {},
    ),
    "lists": (([[1, 2], [3]], [[0, None], [2]]), {}),
    "lists with −100": (([[1, 2], [3]], [[0, -100], [2]]), {}),
    "one label per sequence, −100": (([[1, 2], [3]], [0, -100]), {}),
    "an array": ((np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4) % 5 - 2), {}),
    "a masked array": ((np.array([[1, 2], [3, 4]]), GAPS), {}),
    "padded": ((np.array([[3, 1, 0], [1, 2, 4]]), np.array([[1, 2, 0], [3, 4, 5]])), {"lengths": [2, 3]}),
    "padded, one label": ((np.array([[3, 1, 0], [1, 2, 4]]), [5, 6]), {"lengths": [2, 3]}),
    "vectors": ((np.arange(24.0).reshape(3, 4, 2) / 8, np.arange(12.0).reshape(3, 4) / 4 - 1), {}),
    "tensors": ((torch.arange(6).reshape(2, 3), torch.tensor([0.5, float("nan")])), {}),
    "texts": ((["a b", "c"], ["x", "y"]), {}),
    "texts of words": ((["a b", "c"], ["x", "y"]), {"unit": "words"}),
    "flags": (([[1, 2], [3, 4]], [[True, False], [False, True]]), {}),
    "−0": (([[1], [2]], [-0.0, 0.5]), {}),
    "square": (([[1, 2], [3, 4]], [[1, 2], [3, 4]]), {"per": "sequence"}),
    "square reals": (([[1, 2], [3, 4]], [[1.0, 2.5], [3.0, 4.0]]), {"per": "sequence"}),
    "real vectors": (([[1, 2], [3, 4]], [[1.0, 2.5, 3.0], [3.0, 4.0, 1.0]]), {}),
    "integers among reals": (([[1], [2]], [1, 0.5]), {}),
    "prompts": ((["a b", "c is"], ["d", " e"]), {"per": "answer"}),
    "continuations": ((["a b", "c is"], ["d", " e"]), {"per": "continuation"}),
    "too few labels": (([[1, 2], [3]], [[0, 1]]), {}),
    "an empty row": (([[1, 2], []], [[0, 1], []]), {}),
    "no rows": (([], []), {}),
    "NaN in tokens": ((np.array([[[0.5, np.nan]]]), [1]), {}),
}
"""Data in memory, and options of `Sequences.of`."""


PARQUET: dict[str, dict[str, Any]] = {
    "words and no label": {"tokens": ["a b", "c"], "labels": ["x y", None]},
    "words and an empty label": {"tokens": ["a b", "c"], "labels": ["x y", " "]},
    "words and an empty text": {"tokens": ["a b", " "], "label": ["x", "y"]},
    "large strings": {"text": ["a b", "c"], "label": ["x", "y"]},
    "a column of null": {"tokens": [["a"], ["b"]], "label": [None, None]},
    "an index": {"key": ["a", "b"], "value": ["x", "y"], "__index_level_0__": [0, 1]},
}
"""Columns of Parquet files."""


def questions() -> Iterator[tuple[str, Question]]:
    for name, (text, options) in TEXTS.items():
        yield f"file {name}", lambda n=name, t=text, o=options: _file(n, t, o)  # type: ignore[misc]
    for name, columns in PARQUET.items():
        yield f"Parquet of {name}", lambda columns=columns: _parquet(columns)  # type: ignore[misc]
    for name, (given, _) in SHAPES.items():
        X, Y = (*given, None)[:2]
        if isinstance(X, list) and isinstance(Y, list) and len(X) == len(Y):
            yield f"Parquet of {name}", lambda X=X, Y=Y: _parquet({"tokens": X, "labels": Y})  # type: ignore[misc]
        elif isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
            yield f"npz of {name}", lambda X=X, Y=Y: _npz(X, Y)  # type: ignore[misc]
    for names in (("tags.conll", "first.conll"), ("table.csv", "lines.jsonl"), ("numbers.jsonl", "reals.jsonl")):
        yield f"files {' and '.join(names)}", lambda names=names: _together(names, list(names))  # type: ignore[misc]
    yield "files t*s.conll", lambda: _together(("tags.conll", "first.conll", "documents.conll"), "t*s.conll")
    for name, (given, options) in SHAPES.items():
        yield f"given {name}", lambda given=given, options=options: _taken(given, options)  # type: ignore[misc]
    for unit in ("words", "characters"):
        yield f"text of {unit}", lambda unit=unit: _windows(3 * TOLD, unit)  # type: ignore[misc]
    yield "text in windows of 3", lambda: _windows(TOLD, "words", 3)
    yield "text in windows of 1", lambda: _windows(TOLD, "words", 1)


def _file(name: str, text: str, options: dict[str, Any]) -> dict[str, object]:
    """A file read as a whole, packed, and a few tokens at a time by pyarrow and without it; and its keys."""
    file, packed, keys = Path(name), Path(f"{name}.gz"), list[Any]()
    file.write_text(text, encoding="utf-8", newline="")
    packed.write_bytes(gzip.compress(text.encode()))
    whole = attempt(lambda: meaning(read(file, **options)))
    unpacked = attempt(lambda: meaning(read(packed, **options)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "TOKENS_AT_ONCE", 3)
        in_pieces = attempt(lambda: meaning(read(file, **options)))
        patch.setattr(readers, "ARROW", False)
        without_arrow = attempt(lambda: meaning(read(file, **options)))
        with_keys = attempt(lambda: meaning(read(file, keys=keys, **options)))
    others = {"packed": unpacked, "in pieces": in_pieces, "without pyarrow": without_arrow, "for its keys": with_keys}
    same = in_a_line(whole)
    told = {way: other for way, other in others.items() if in_a_line(other).replace(packed.name, name) != same}
    given = {"file": text, **({"options": options} if options else {})}
    return {**given, "read": whole, **told, **({"keys": keys} if keys else {})}


def _parquet(columns: dict[str, Any]) -> dict[str, object]:
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    return {**columns, "read": attempt(lambda: meaning(read("a.parquet")))}


def _npz(X: Any, Y: Any) -> dict[str, object]:
    np.savez("a.npz", X=X, Y=Y)
    return {"X": X, "Y": Y, "read": meaning(read("a.npz"))}


def _together(names: tuple[str, ...], given: Any) -> dict[str, object]:
    """Several files, which are one dataset."""
    for name in names:
        Path(name).write_text(TEXTS[name][0], encoding="utf-8", newline="")
    return {"given": given, "there": list(names), "read": meaning(read(given))}


def _taken(given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, object]:
    """Objects read as sequences, and in their own words."""
    found = dict(zip("XY", map(shown, given), strict=False)) | ({"options": options} if options else {})
    data = attempt(lambda: ml.Sequences.of(*given, **options))
    if not isinstance(data, ml.Sequences):
        return {**found, "read": data}
    whole = meaning(data)
    again = attempt(lambda: meaning(ml.Sequences.of(*given, **options, vocabulary=data.vocabulary)))
    return {**found, "read": whole, **unlike(whole, {"with these names": again})}


def _windows(text: str, unit: Any, size: int | None = None) -> dict[str, object]:
    data, script = windows(text, unit, size)
    return {"text": text, "window": script.window, "unit": script.unit, **meaning(data)}
