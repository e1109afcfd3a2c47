"""Questions to the readers about what is rarer: columns that are named by the caller of a model with other columns,
files of several kinds together, patterns that may be texts, and batches of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import scipy.sparse
from pyarrow import parquet

from monolayer.data import Names, Sequences, read
from monolayer.data.arrow import read_parquet
from monolayer.data.form import SourceForm
from monolayer.data.layout import Columns, Manner
from monolayer.data.names import Unit
from monolayer.data.plain import array_like, is_gap
from monolayer.data.plan import ReadColumn, ReadPlan, joined
from monolayer.data.shards import files, names_files
from tests.asked import Bare, Question, attempt, in_a_line
from tests.readings_rules import rows_in_a_line

COLUMNS = "a x B\nb y O\n"
READ: list[tuple[str, str, dict[str, Any]]] = [
    ("a.csv", "France,Paris\nPeru,Lima\n", {"header": True, "form": SourceForm("csv", ",", False, "1", "2", True)}),
    ("a.csv", "a,b\nPeru,Lima\n", {"header": False, "form": SourceForm("csv", ",", True, "a", "b", True)}),
    ("a.csv", "Peru,Lima\nchad,rom\n", {"tokens": "Peru", "form": SourceForm("csv", ",", False, "1", "2", True)}),
    ("a.csv", "a,b,c\nPeru,Lima,x\n", {"tokens": "c", "form": SourceForm("csv", ",", True, "a", "b", True)}),
    ("a.csv", "a,b,c\nPeru,Lima,x\n", {"labels": "c", "form": SourceForm("csv", ",", True, "a", "b", True)}),
    ("a.csv", "Peru,Lima\nChad,Rom\n", {"tokens": "2", "form": SourceForm("csv", ",", False, "1", "2", True)}),
    ("a.csv", "tokens,labels\na b,x y\nc,z\n", {"per": "sequence"}),
    ("a.csv", 'tokens,labels\n"a b c",xyz\nd,uvw\n', {"per": "token"}),
    ("a.tsv", "a;b\nPeru;Lima\n", {"separator": ";"}),
    ("a.tsv", '"land\tstadt\nperu\tlima"\n', {}),
    ("a.txt", "a b\nc\n", {"format": "text"}),
    ("a.txt", "a b\nc\n", {"format": "text", "per": "sequence"}),
    ("a.jsonl", '{"tokens": ["a", "b", "c"], "labels": "xyz"}\n{"tokens": ["d"], "labels": "u"}\n', {"per": "token"}),
    ("a.jsonl", '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n', {"per": "sequence"}),
    ("a.jsonl", '{"key": ["a", "b"], "value": 1.5}\n{"key": ["c"], "value": 2}\n', {}),
    ("a.json", "[]", {}),
    ("a.json", "[[]]", {}),
    ("a.json", '{"prompt": "a b", "c": "x"}', {}),
    ("a.json", '{"prompt": "a b", "c": "x", "d": "y"}', {}),
    ("a.json", '{"prompt": "a"}', {}),
    ("a.json", '{"prompt": ["a"], "x": ["b"]}', {}),
    ("a.conllu", "# id\n1\tA\tb\tV\nabc\n2\tB\tc\tN\n", {}),
    ("a.conllu", "1\tA\tb\tV\n#\tB\tc\tN\n", {}),
    ("a.conll", "# a\nA V\n# N\n", {}),
    ("a.conll", "a\nb\n\nc\n", {}),
    ("a.conll", "a\nb\n\nc\n", {"labels": "2"}),
    ("a.conll", "a\nb\n\nc\n", {"labels": "1"}),
    *(("a.conll", COLUMNS, {"labels": column}) for column in ("0", "-1", "-9", "+1", "01", "a")),
    *(("a.conll", COLUMNS, {"tokens": column}) for column in ("0", "3", "-3")),
    *(
        ("a.conll", COLUMNS, {**chosen, "form": SourceForm("conll", key=key, label=label)})
        for key, label in (("2", "1"), ("1", None), ("3", "1"), ("9", "1"), ("1", "4"))
        for chosen in ({}, {"labels": "2"}, {"tokens": "2"})
    ),
    ("a.conll", COLUMNS, {"form": SourceForm("csv", ",", None, "2", "1")}),
]
"""Files, and options of `read`; `form`: the form of a model's data."""
TOGETHER: list[tuple[tuple[str, str], tuple[str, str]]] = [
    (("a.jsonl", '{"tokens": [1], "label": 1}\n'), ("b.jsonl", '{"tokens": ["a"], "label": 1}\n')),
    (("a.jsonl", '{"tokens": [1], "label": 1}\n'), ("b.jsonl", '{"tokens": [2], "label": "x"}\n')),
    (("a.jsonl", '{"tokens": [1], "label": 1}\n'), ("b.jsonl", '{"tokens": [2], "label": 0.5}\n')),
    (("a.jsonl", '{"tokens": [1], "label": 1}\n'), ("b.jsonl", '{"tokens": [2]}\n')),
    (("a.jsonl", '{"tokens": [1], "label": 1}\n'), ("b.jsonl", '{"tokens": [2], "labels": [1]}\n')),
    (("a.jsonl", '{"tokens": [1], "label": [0.5, 1]}\n'), ("b.jsonl", '{"tokens": [2], "label": 0.5}\n')),
    (("a.jsonl", '{"prompt": "a", "answer": "b"}\n'), ("b.jsonl", '{"tokens": ["a"], "label": "b"}\n')),
    (("a.csv", "tokens,label\na b,x\n"), ("b.jsonl", '{"tokens": "ab", "label": "x"}\n')),
]
"""Two files that are read as one dataset, if they are of one kind."""
ARRAYS = [("ids", "tags", "X", "Y"), ("ids", "Y"), ("ids", "lengths"), ("X", "tags")]
"""Names of the arrays of files."""
OF_MODELS = [
    SourceForm("csv", ",", True, "ids", "tags"), SourceForm("npz", key="ids", label="tags"),
    SourceForm("npz", key="ids"), SourceForm("npz", key="X", label="Y"), SourceForm("npz", key="gone"),
]  # fmt: skip
"""Forms of models that these files are read for."""
PATTERNS = ["what?", "wha?", "gone?", "a *b", "a ?", "x?.csv", "go *ne", "**/x1.csv a", "g?ne.csv", "a[1].csv"]
"""What may be a pattern or a text."""
NAN = float("nan")
GAPS: dict[str, Any] = {
    "no time": [np.datetime64("NaT", "s")], "a complex number": [complex(NAN, 0.0)], "NaN and None": [NAN, None],
    "NaN in float32": [np.float32(NAN)],
}  # fmt: skip
"""What may be no label."""


def questions() -> Iterator[tuple[str, Question]]:
    yield "rarer files", _files
    yield "files of two kinds", _together
    yield "arrays for models", _arrays
    yield "patterns and texts", _patterns
    yield "batches of Parquet", _batches
    yield "plans of columns", _plans
    yield "labels of sequences that are there", _labelled
    yield "names of two kinds", _names
    yield "whole rows and sparse arrays", _whole
    yield "lists without a label", lambda: {name: is_gap(value) for name, value in GAPS.items()}


def _read(file: str, form: SourceForm | None = None, **options: Any) -> object:
    data = read(file, like=None if form is None else Manner(form=form), **options)
    plan = data.plans[0]
    marks = [f"per {plan.per}", *(f"{name} remembered" for name in plan.remembered)] + ["unlike"] * plan.unlike
    return Bare(f"{', '.join(marks)}: {rows_in_a_line(data)}")


def _form(form: SourceForm) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in form.to_json().items() if value is not None)


def _files() -> dict[str, object]:
    found: dict[str, object] = {}
    for name, text, options in READ:
        Path(name).write_text(text, encoding="utf-8")
        chosen = [_form(value) if key == "form" else f"{key}={value}" for key, value in options.items()]
        said = " for ".join([f"{name} {text!r}", *chosen])
        found[said] = attempt(lambda name=name, options=options: _read(name, **options))  # type: ignore[misc]
    return found


def _together() -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in TOGETHER:
        for name, text in pair:
            Path(name).write_text(text)
        found[" and ".join(repr(text) for _, text in pair)] = attempt(
            lambda pair=pair: Bare(rows_in_a_line(read([name for name, _ in pair])))  # type: ignore[misc]
        )
    return found


def _arrays() -> dict[str, object]:
    found: dict[str, object] = {}
    for names in ARRAYS:
        values = {name: np.arange(4).reshape(2, 2) + number for number, name in enumerate(names)}
        np.savez("a.npz", **(values | ({"lengths": np.array([1, 2])} if "lengths" in names else {})))
        for form in OF_MODELS:
            found[f"{', '.join(names)} for {_form(form)}"] = attempt(lambda form=form: _read("a.npz", form))  # type: ignore[misc]
    return found


def _patterns() -> dict[str, object]:
    for name in ("a[1].csv", "what", "a b", "x1.csv"):
        Path(name).write_text("key,value\na,b\n")
    return {name: [names_files(name), attempt(lambda name=name: files(name))] for name in PATTERNS}  # type: ignore[misc]


def _batches() -> dict[str, object]:
    """A file that is read two rows at a time: the rows stand where they stood."""
    columns = {"tokens": [["a", "b"], ["c"], ["d"], ["e", "f"], ["g"]], "label": ["x", "y", None, "x", "z"]}
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    chosen = Columns.of(tokens=None, labels=None, unit=None, per=None, like=None)
    found: dict[str, object] = {}
    for batch in (1, 2, 5):
        data = read_parquet(Path("a.parquet"), chosen, batch)
        found[f"{batch} at a time"] = [Bare(rows_in_a_line(data)), [data.named(row) for row in range(len(data))]]
    return found


def _plans() -> dict[str, object]:
    """Plans of columns and of several files, in JSON and back, and joined."""
    columns = {"key": ReadColumn("k", 0), "label": ReadColumn("v", 1), "remembered": ("format", "columns")}
    plan = ReadPlan("a.csv", "csv", unit="words", per="sequence", rows=4, places=4, gaps=1, keyed=True, **columns)
    groups = {"one keyed": [plan, replace(plan, keyed=False)], "one chosen": [replace(plan, chosen_from=9), plan]}
    found: dict[str, object] = {name: joined(group).to_json() for name, group in groups.items()}
    return {**found, "as JSON and back": ReadPlan.from_json(plan.to_json()) == plan}


def _labelled() -> dict[str, object]:
    labels: list[tuple[Any, Any]] = [([1, 2], "token"), ([[1], [2]], "sequence"), ([[1], [2]], "token")]
    found: dict[str, object] = {}
    for Y, per in labels:
        data = Sequences.of([[1], [2]])
        found[f"{Y} per {per}"] = attempt(
            lambda data=data, Y=Y, per=per: rows_in_a_line(Sequences.of(data, Y, per=per))
        )  # type: ignore[misc]
    return found


def _names() -> dict[str, object]:
    groups: list[tuple[Names, list[Any]]] = [
        (Names(range(3)), [5, "x"]), (Names(("a",)), ["x", 5]), (Names(range(3)), [5, 2000]), (Names(("a",)), ["x"]),
    ]  # fmt: skip
    units: tuple[Unit | None, ...] = (None, "characters", "words")
    built = [Names((" a", "b"), unit).built_from for unit in units]
    return {"built from": built} | {
        f"{in_a_line(names)} and {new}": attempt(lambda names=names, new=new: names.extended(new))  # type: ignore[misc]
        for names, new in groups
    }


def _whole() -> dict[str, object]:
    given: list[Any] = [np.array([[1, 2], [3, 4]]), np.array([True, False]), np.array([0.5, 1.0]), [1, "a"], ["a", 1]]
    found: dict[str, object] = {
        in_a_line(X): attempt(lambda X=X: Bare(rows_in_a_line(Sequences.of(X, [1, 2], unit="whole"))))  # type: ignore[misc]
        for X in given
    }
    return {**found, "a sparse array": attempt(lambda: str(array_like(scipy.sparse.eye(2))))}
