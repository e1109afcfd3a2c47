"""Questions about rules that guess: which row is a header, what separates columns, which columns are read, what labels
belong to, and what counts as no label. Each answer is a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import torch

from monolayer.data import Names, Sequences, read
from monolayer.data.form import SourceForm
from monolayer.data.layout import Columns, Manner, TableLayout
from monolayer.data.plain import array_like, frame_cells, is_frame, is_gap, is_list
from tests.asked import Bare, Question, attempt, in_a_line, shown
from tests.read_files import needed

polars = needed("polars")

HEADERS = [
    "France,Paris\nPeru,Lima\n",
    "country,Paris\nPeru,Lima\n",
    "Official name,Hauptstadt\nPeru,Lima\n",
    "of the,Hauptstadt\nPeru,Lima\n",
    "officialName,Hauptstadt\nPeru,Lima\n",
    "ISO_3166,Hauptstadt\nPeru,Lima\n",
    "Land,Hauptstadt\nperu,lima\n",
    "land,hauptstadt\nPeru,Lima\n",
    "land,Hauptstadt\nPeru,Lima\n",
    "LAND,HAUPTSTADT\nPeru,Lima\n",
    "Land,HAUPTSTADT\nPeru,Lima\nChad,NDJAMENA\n",
    "Land,7\nPeru,Lima\n",
    "7,Hauptstadt\nPeru,Lima\n",
    "1e3,Hauptstadt\nPeru,Lima\n",
    "nan,Hauptstadt\nperu,lima\n",
    "country,7\nPeru,Lima\n",
    "Land,Land\nperu,lima\n",
    "country,country\nperu,lima\n",
    "land,stadt\nPeru,stadt\n",
    "land,stadt\nPeru,Lima\nland,Rom\n",
    "word,stadt\nPeru,stadt\n",
    "Land,Stadt\nPeru,Lima\nchad,rom\n",
    "Land,Stadt\nPeru,Lima\nchad,rom\nmali,oslo\n",
    "Land,Stadt\nPeru,lima\n",
    "Land,Stadt\n銀行,Lima\n",
    "Länder,Stadt\nPeru,Lima\n",
    "a1,b2\n+1,-2\n",
    "?,!\n1,2\n",
    "Land,Stadt,Fluss\nPeru,Lima,Rimac\n",
    "Land,Stadt\n",
    "country,capital\n",
    "Land, Stadt \nPERU,LIMA\n",
    '"Land","Stadt"\nPERU,LIMA\n',
    "country;capital\nPeru;Lima\n",
    "country,capital\nPeru;x,Lima\n",
    "country;capital\nPeru,x;Lima\n",
    "country;capital,x\nPeru;Lima,y\n",
    "country;capital,x\nPeru;Lima\n",
    "country|capital;x\nPeru|Lima\nChad|Rom;y\n",
    "country\tcapital\nPeru\tLima\n",
    'country;capital\n"Pe;ru";Lima\n',
    'country,capital\n"Pe\nru",Lima\nChad,"a;b"\n',
    "country\nPeru\n",
    "country;capital\n\nPeru;Lima\n",
    "country;capital\nPeru;Lima;x\n",
    "country;capital\nPeru\n",
    ";\n;\n",
    "\n\n",
    "tokens;labels\na b;x y\n",
    "text,label\na,\n",
    "text,label\n,b\n",
    "text,label\n , \n",
    "text,tags\na b,x y\n",
    "words,tags\na b,x\nc,y z\n",
    "key,value\na b,x y\nc,z\n",
    "key,value\na b,x y\n",
    "key,value\na,x y\n",
    "label,tags\na,b\n",
    "tags,text\nx y,a b\n",
    "prompt,reply\na,b\n",
    "question,prompt\na,b\n",
    "answer,prompt\na,b\n",
    ",key\n0,a\n",
    "index,key,value\n0,a,b\n",
    ",prompt,answer\n0,a,b\n",
]
"""Files of CSV."""
TABLES = [
    ["tokens"],
    ["tokens", "label"],
    ["tokens", "labels"],
    ["tokens", "label", "labels"],
    ["tokens", "tags", "x"],
    ["tokens", "ner_tags", "tags"],
    ["tokens", "x"],
    ["key"],
    ["key", "value"],
    ["label", "x"],
    ["x", "label"],
    ["tags", "x"],
    ["label", "labels"],
    ["a", "b", "c"],
    ["prompt", "x"],
    ["x", "question"],
    ["prompt", "x", "y"],
    ["prompt", "answer", "x"],
    ["prompt", "answer", "completion"],
    ["prompt", "question"],
    ["index", "prompt"],
    ["1", "2"],
    ["1", "2", "3"],
    ["key", "key"],
    [],
]
"""Names of columns."""
FORM = SourceForm("csv", ",", True, "key", "x", True)
OPTIONS: dict[str, dict[str, Any]] = {
    "by their names": {},
    "tokens=x": {"tokens": "x"},
    "labels=x": {"labels": "x"},
    "tokens=x, labels=label": {"tokens": "x", "labels": "label"},
    "per token": {"per": "token"},
    "per sequence": {"per": "sequence"},
    "per answer": {"per": "answer"},
    "per continuation": {"per": "continuation"},
    "labels=x, per token": {"labels": "x", "per": "token"},
    "unit whole": {"unit": "whole"},
    "unit whole, for a model of prompts": {"unit": "whole", "like": Manner(per="answer")},
    "for a model of characters": {"like": Manner(unit="characters", per="token")},
    "for a model of prompts": {"like": Manner(per="answer")},
    "for a model of continuations": {"like": Manner(per="continuation")},
    "per sequence, for a model of prompts": {"per": "sequence", "like": Manner(per="answer")},
    "for a model of key and x": {"like": Manner(form=FORM)},
    "labels=value, for a model of key and x": {"labels": "value", "like": Manner(form=FORM)},
    "for a model of 1 and 2": {"like": Manner(form=SourceForm("csv", ",", False, "1", "2", True))},
}
"""What callers say, and what models are like."""
FORMS = [
    ("France,Paris,Seine\nPeru,Lima,Rimac\n", SourceForm("csv", ",", False, "1", "2", True)),
    ("France,Paris,Seine\nPeru,Lima,Rimac\n", SourceForm("csv", ",", False, "1", "2", False)),
    ("France\nPeru\n", SourceForm("csv", ",", False, "1", "2", True)),
    ("country,Paris\nPeru,Lima\n", SourceForm("csv", ",", False, "1", "2", True)),
    ("key\nPeru\n", FORM),
    ("key,capital\nPeru,Lima\n", FORM),
    ("country,capital\nPeru,Lima\n", SourceForm("csv", ",", True, None, "capital")),
    ("country,capital\nPeru,Lima\n", SourceForm("csv")),
    ('a;b,c\n"x;y",z\n', SourceForm("csv", ",", True, "a;b", "c", True)),
    ("b,c;d\n1,2;3\n", SourceForm("csv", ",", True, "a", "x", True)),
    ('a;b|c,d\n"x;y"|"z,w"\n', SourceForm("csv", "|", True, "a;b", "c,d", True)),
]
"""Files of CSV, and the forms of models that they are read for."""
NAN = float("nan")
GAPS: list[Any] = [
    None,
    NAN,
    np.float32(NAN),
    np.float64(NAN),
    pandas.NA,
    pandas.NaT,
    0,
    "",
    "nan",
    -100,
    [NAN],
    [NAN, NAN],
    [NAN, 1.0],
    [],
    [None],
    np.array([NAN, NAN]),
    np.array([NAN, 1.0]),
    [np.float32(NAN)],
    "None",
    False,
    1 + 1j,
    b"",
]
VALUES: dict[str, Any] = {
    "a list": [1, 2],
    "a tuple": (1, 2),
    "text": "ab",
    "bytes": b"ab",
    "an array": np.array([1, 2]),
    "an array of objects": np.array([1, "a"], object),
    "an array of strings": np.array(["a", "b"]),
    "no dimension": np.array(5),
    "a scalar": np.int16(5),
    "a NumPy string": np.str_("a"),
    "a bool": np.bool_(True),
    "a tensor": torch.tensor([1, 2]),
    "a tensor of bfloat16": torch.tensor([1.5], dtype=torch.bfloat16),
    "a tensor of float16": torch.tensor([1.5], dtype=torch.float16),
    "one number as tensor": torch.tensor(3),
    "a tensor with a gradient": torch.tensor([1.5], requires_grad=True),
    "a range": range(3),
    "a set": {1},
    "masked integers": np.ma.masked_array([1, 2], [True, False]),
    "masked reals": np.ma.masked_array([1.0, 2.0], [True, False]),
    "masked, but nothing is": np.ma.masked_array([1, 2], [False, False]),
    "one masked number": np.ma.masked_array(1.0, True),
    "one masked integer": np.ma.masked_array(1, True),
    "integers of pandas": pandas.Series([1, 2]),
    "integers of pandas with a gap": pandas.Series([1, None], dtype="Int64"),
    "reals of pandas": pandas.Series([1.0, None]),
    "reals of pandas without a gap": pandas.Series([1.5, 2.0], dtype="Float64"),
    "strings of pandas": pandas.Series(["a", "b"]),
    "bools of pandas": pandas.Series([True, None], dtype="boolean"),
    "categories": pandas.Series(pandas.Categorical(["y", "x"])),
    "lists of pandas": pandas.Series([[1], [2, 3]]),
    "integers of polars": polars.Series([1, None]),
    "reals of polars": polars.Series([1.0, 2.0]),
    "lists of polars": polars.Series([[1], [2, 3]]),
    "integers of Arrow": pyarrow.array([1, None]),
    "reals of Arrow with NaN": pyarrow.array([1.0, NAN]),
    "strings of Arrow": pyarrow.array(["a", None]),
    "chunks of Arrow": pyarrow.chunked_array([[1], [2, 3]]),
    "dictionaries of Arrow": pyarrow.array(["a", "b"]).dictionary_encode(),
    "a frame of one type": pandas.DataFrame({"a": [1, 2], "b": [3, 4]}),
    "a frame of two types": pandas.DataFrame({"a": [1, 2], "b": [0.5, 4.0]}),
    "a frame of words": pandas.DataFrame({"a": ["x", "y"], "b": ["u", "v"]}),
    "a frame of no columns": pandas.DataFrame({}),
    "a frame of polars": polars.DataFrame({"a": [1, 2], "b": [3, 4]}),
    "a table of Arrow": pyarrow.table({"a": [1, None], "b": [3, 4]}),
}
"""Values as other libraries hold them."""
LABELS: list[tuple[Any, Any]] = [
    ([[1, 2], [3]], [1, 2]),
    ([[1, 2], [3]], [[1, 2], [3]]),
    ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
    ([[1, 2], [3]], np.array([[0.5, 1.0], [2.0, 3.0]])),
    ([[1, 2], [3, 4]], np.array([[0.5, 1.0], [2.0, 3.0]])),
    ([[1, 2], [3, 4]], np.arange(8.0).reshape(2, 2, 2)),
    ([[1, 2], [3]], np.arange(8.0).reshape(2, 2, 2)),
    ([[1, 2], [3]], np.arange(6).reshape(2, 3)),
    ([[1], [2]], np.arange(2.0).reshape(2, 1, 1, 1)),
    ([[1], [2]], [[1], 2]),
    ([[1], [2]], [1, [2]]),
    ([[1], [2]], [None, [2]]),
    ([[1, 2], [3]], [None, 5]),
    ([[1, 2], [3]], [NAN, [5]]),
    ([[1, 2], [3]], [[NAN, 0.5], [1.5]]),
    ([[1, 2], [3]], [[NAN, NAN, NAN], [1.5, 0.5, 2.5]]),
    ([[1], [2]], ["a", None]),
    ([[1], [2]], [1, "a"]),
    ([[1], [2]], [1.5, "a"]),
    ([[1], [2]], [1, 2, 3]),
    ([[1], [2]], [[[0.5, 1.0]], [[2.0, 3.0]]]),
    ([[1], [2]], [[0.5, 1.0], [2.0]]),
    ([[1, 2], [3]], [[0.5, 1.0, 2.0], [1, 2, 3]]),
    ([[1], [2]], [True, False]),
    ([[1], [2]], [True, 2]),
    ([[1], [2]], [[-100], [3]]),
    ([[1], [2]], [-100, 3]),
    ([[1], [2]], [[-100.0], [3.0]]),
    ([[1], [2]], ["x", "yz"]),
    ([["a"], ["b"]], "xy"),
    ([[1], [2]], {"a": 1}),
    ([[1], [2]], {1, 2}),
    ([[1], [2]], b"xy"),
    ([[1], [2]], (1, 2)),
    ([[1], [2]], torch.tensor([[1], [2]])),
    ([[1], [2]], np.array([1, 2])),
    ([[1], [2]], [np.array([1]), np.array([2])]),
    ([[1], [2]], [np.array([0.5, 1.5]), [2.5, 3.5]]),
    ([[1], [2]], [float("inf"), 1.0]),
    ([[1], [2]], [2**53, 0.5]),
    ([[1], [2]], [2**53 + 1, 0.5]),
    ([[1], [2]], [2**63, 1]),
    ([[1], [2]], [-(2**63), 1]),
    ([[1], [2]], {0: 5, 1: 6}),
    ([[1, 2], [3], [4]], np.array([[0.5, NAN], [1.0, 2.0], [NAN, NAN]])),
    ([[1, 2], [3, 4]], np.array([[[0.5, NAN], [1.0, 2.0]], [[NAN, NAN], [1.0, 1.0]]])),
    ([[1], [2]], [[0.5, True], [1.0, 2.0]]),
    ([[1], [2]], [[0.5, -(2**53 + 1)], [1.0, 2.0]]),
]
"""Sequences and labels."""
INTEGERS: dict[str, Any] = {
    "0": [0],
    "1023": [1023],
    "0 and 1024": [0, 1024],
    "1024": [1024],
    "−1 and 0": [-1, 0],
    "every second up to 2046": range(0, 2048, 2),
    "every fourth up to 4092": range(0, 4096, 4),
    "every fifth up to 5115": range(0, 5120, 5),
    "every fifth up to 5120": range(0, 5125, 5),
    "every sixth up to 6138": range(0, 6144, 6),
    "0 and 2^40": [0, 2**40],
    "2 of 2^40": [2**40, 2**40],
    "ten times 5000": [5000] * 10,
    "0 to 1500": range(1501),
    "1 to 1500": range(1, 1501),
}
"""Integers as names."""


def questions() -> Iterator[tuple[str, Question]]:
    yield "rule of headers and separators", _headers
    for said, options in OPTIONS.items():
        yield f"rule of columns, {said}", lambda o=options: _layouts(o)  # type: ignore[misc]
    yield "rule of forms", _forms
    yield "rule of gaps", lambda: {f"{number}: {_name(value)}": is_gap(value) for number, value in enumerate(GAPS)}
    yield "rule of values", _values
    for per in (None, "token", "sequence"):
        yield f"rule of labels, per {per}", lambda per=per: _labels(per)  # type: ignore[misc]
    yield "rule of integers as names", _integers


def rows_in_a_line(data: Sequences) -> str:
    """Sequences with their labels, in a line."""
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    tokens, labels = [row.tolist() for row in data.split(names)], data.named_labels()
    if labels is None or data.labels is None:
        return in_a_line(tokens)
    by_token = data.labels.labelling.at_tokens
    each = [row.tolist() for row in data.split(labels)] if by_token else labels.tolist()
    return ", ".join(f"{in_a_line(row)} → {in_a_line(label)}" for row, label in zip(tokens, each, strict=True))


def _file(text: str, like: Manner | None = None) -> object:
    """Which columns are read, as the first row names them, what separates them, and what labels belong to."""
    Path("a.csv").write_text(text, encoding="utf-8")
    data = read("a.csv", like=like)
    plan = data.plans[0]
    columns = ", ".join(repr(column.name) for column in (plan.key, plan.label) if column is not None)
    unlike = ", unlike the model's" if plan.unlike else ""
    known = "".join(f", {part} remembered" for part in plan.remembered)
    return Bare(f"{columns} by {plan.separator!r}, per {plan.per}{unlike}{known}: {rows_in_a_line(data)}")


def _headers() -> dict[str, object]:
    return {repr(text): attempt(lambda text=text: _file(text)) for text in HEADERS}  # type: ignore[misc]


def _forms() -> dict[str, object]:
    found: dict[str, object] = {}
    for text, form in FORMS:
        said = ", ".join(f"{name} {value!r}" for name, value in form.to_json().items() if value is not None)
        found[f"{text!r} for {said}"] = attempt(lambda t=text, f=form: _file(t, Manner(form=f)))  # type: ignore[misc]
    return found


def _layouts(options: dict[str, Any]) -> dict[str, object]:
    """Which columns of tables are read, by what callers say; in formats with lists, text is split into characters."""
    given = {"tokens": None, "labels": None, "unit": None, "per": None, "like": None} | options

    def ask(names: list[str], lists: bool) -> object:
        layout = TableLayout.of(Columns.of(**given), names, "t", lists=lists)
        said = [f"{layout.token} → {layout.label}", f"columns {list(layout.numbers)}", layout.unit, f"per {layout.per}"]
        kinds = ("pairs", "asks", "verbatim", "remembered", "words_per_token")
        said += [name for name in kinds if getattr(layout, name)]
        return Bare(", ".join(said + ["unlike"] * (layout.unlike is not None)))

    found, refused = dict[str, object](), list[Bare]()
    for names, lists in product(TABLES, (False, True) if not options else (False,)):
        said, name = attempt(lambda names=names, lists=lists: ask(names, lists)), ", ".join(names) or "none"  # type: ignore[misc]
        if in_a_line(said) == "DataError":
            refused.append(Bare(name))
        else:
            found[name + " in a format with lists" * lists] = said
    return {**found, "refused": Bare("; ".join(dict.fromkeys(refused)))}


def _name(value: Any) -> str:
    return type(value).__name__ if value is pandas.NA or value is pandas.NaT else in_a_line(value)


def _values() -> dict[str, object]:
    """What values of other libraries become, whether they are lists or tables, and cells of tables."""

    def ask(value: Any) -> object:
        plain = array_like(value)
        found: dict[str, object] = {"as": shown(plain), "kind": Bare(type(plain).__name__), "a list": is_list(plain)}
        if is_frame(value):
            found["first column"] = frame_cells(value, 0)
        return found

    return {name: attempt(lambda value=value: ask(value)) for name, value in VALUES.items()}  # type: ignore[misc]


def _labels(per: Any) -> dict[str, object]:
    def ask(X: Any, Y: Any) -> object:
        data = Sequences.of(X, Y, per=per)
        return Bare(f"per {data.plans[0].per}: {rows_in_a_line(data)}")

    return {
        f"{number}: {in_a_line(X)} → {in_a_line(shown(Y))}": attempt(lambda X=X, Y=Y: ask(X, Y))  # type: ignore[misc]
        for number, (X, Y) in enumerate(LABELS)
    }


def _integers() -> dict[str, object]:
    def ask(values: Any) -> object:
        names, rows = Names.of_integers(np.array(values))
        return Bare(f"{'their own rows' if names.identity else 'a table'} of {len(names)}, rows {in_a_line(rows)}")

    return {name: attempt(lambda values=values: ask(values)) for name, values in INTEGERS.items()}  # type: ignore[misc]
