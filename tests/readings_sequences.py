"""Questions to sequences once they are read, and to what is read in rarer ways: places, plans, texts, patterns, classes
of datasets, and tables in place of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import monolayer as ml
from monolayer.data import distinct, read, subnormal
from monolayer.data.columns import Column
from monolayer.data.layout import Manner
from monolayer.data.names import Names
from monolayer.data.npz import array_sizes, load_arrays
from monolayer.data.origin import Origin, SourceFile
from monolayer.data.plan import ReadPlan, left_out, plan_lines
from monolayer.data.prompts import are_texts
from monolayer.data.readers import prompts_of, sequences_of
from monolayer.data.sequences import Labels, Sequences
from monolayer.data.shapes import pairs_or_sequences, without_labels
from monolayer.data.shards import files, join_datasets, names_files, numbered, tokens_at_most, used
from monolayer.data.text import split, text_of, windows
from tests.asked import Bare, Question, attempt, in_a_line, meaning, shown, unlike
from tests.read_files import needed

polars = needed("polars")

NAMED = Names(("a", "b", "c"))
SEQUENCES: dict[str, Callable[[], Sequences]] = {
    "labels of tokens": lambda: Sequences.of([[1, 2, 1], [3], [2, 1]], [[0, None, 2], [1], [None, 4]]),
    "labels of sequences": lambda: Sequences.of(["a b", "c", "a"], ["x", None, "y"], unit="words"),
    "rows of one length": lambda: Sequences.of([[1, 2], [3, 4]], [0.5, -2.0]),
    "no labels": lambda: Sequences.of([[[0.5, 1.0]], [[2.0, 3.0], [1.0, 1.0]]]),
    "prompts": lambda: Sequences.of(["a b", "c", "the end of"], ["d e", " f", "it all"], per="answer"),
    "prompts as they are": lambda: Sequences.of(["a b", "c "], ["d", None], per="continuation"),
    "spaced prompts": lambda: Sequences.of(["a b", "c"], [" d", " e f"], per="continuation"),
    "a dict": lambda: Sequences.of({"a b": "x", "c": "y"}),
}
ODD: dict[str, Callable[[], Sequences]] = {
    "too few tokens": lambda: Sequences(np.arange(3), np.array([2, 2]), NAMED),
    "too many tokens": lambda: Sequences(np.zeros(5, int), np.array([2, 2]), NAMED),
    "no tokens": lambda: Sequences(np.arange(2), np.array([2, 0]), NAMED),
    "no number": lambda: Sequences(np.array([[1.0], [np.inf]]), np.array([1, 1]), None),
    "a long prompt": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, prompts=np.array([2, 2])),
    "no prompt": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, prompts=np.array([0, 1])),
    "one prompt": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, prompts=np.array([1])),
    "prompts of whole rows": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, prompts=np.array([2, 1])),
    "a prompt and a label": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.array([0, 1]), "sequence", NAMED), np.array([1, 1])
    ),
    "labels": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, Labels(np.arange(3), "token", NAMED)),
    "too few labels": lambda: Sequences(np.arange(3), np.array([2, 1]), NAMED, Labels(np.arange(2), "token", NAMED)),
    "labels elsewhere": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.arange(2), "token", NAMED, place=np.array([0, 3]))
    ),
    "fewer places": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.arange(2), "token", NAMED, place=np.array([0]))
    ),
    "labels at the end": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.arange(2), "token", NAMED, place=np.array([0, 2]))
    ),
    "no labels anywhere": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.zeros(0, int), "token", NAMED, place=np.zeros(0, int))
    ),
    "an infinite label": lambda: Sequences(
        np.arange(3), np.array([2, 1]), NAMED, Labels(np.array([[1.0], [np.inf]]), "sequence", None, True)
    ),
}
"""Sequences that nobody could read, and some that one could."""
LABELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one each": ([1, 2, 3], {}),
    "lists": ([[1, 2, 3], [4], [5, 6]], {}),
    "gaps for rows": ([[1, 2, 3], None, [5, 6]], {}),
    "gaps alone": ([[-100] * 3, [-100], [-100, -100]], {}),
    "nothing at all": ([None, None, None], {}),
    "mixed": ([[1, 2, 3], 4, [5, 6]], {}),
    "wrong counts": ([[1, 2, 3], [4, 4], [5, 6]], {}),
    "vectors": ([[0.5, 1.0], [2.0, 3.0], [-0.0, 4.0]], {}),
    "vectors of integers too": ([[0.5, 1], [2, 3.0], [0.25, 4]], {}),
    "vectors with one of integers": ([[0.5, 1], [2, 3], [0.25, 4]], {}),
    "vectors of several lengths": ([[0.5, 1.0], [2.0], [0.0, 4.0]], {"per": "sequence"}),
    "vectors of words": ([[0.5, "a"], [2.0, "b"], [0.0, "c"]], {"per": "sequence"}),
    "arrays": ([np.array([0.5, 1.0]), np.array([2.0, 3.0]), np.array([4.0, 1.0])], {"per": "sequence"}),
    "arrays of integers": ([np.array([5, 1]), np.array([2, 3]), np.array([4, 1])], {"per": "sequence"}),
    "an array of vectors": (np.arange(6.0).reshape(3, 2) / 4, {}),
    "an array of vectors each": (np.arange(6.0).reshape(3, 2) / 4, {"per": "sequence"}),
    "an array of integers each": (np.arange(6).reshape(3, 2), {"per": "sequence"}),
    "an array of integers": (np.arange(6).reshape(3, 2), {}),
    "a cube": (np.zeros((3, 1, 1)), {"per": "sequence"}),
    "more dimensions": (np.zeros((3, 1, 1, 1)), {}),
    "text for tokens": (["xyz", "x", "yx"], {"per": "token"}),
    "text": (["xyz", "x", "yx"], {}),
    "numbers for tokens": ([1, 2, 3], {"per": "token"}),
    "a number": (5, {}),
    "a set": ({1, 2, 3}, {}),
    "large integers": (np.array([1, 2**63 - 1, 5], np.uint64), {}),
    "larger integers": (np.array([1, 2**63, 5], np.uint64), {}),
    "large reals": ([0.5, 2**53 + 1, 1.0], {}),
    "beyond": ([[0.5, 2**63], [1.0, 2.0], [3.0, 4.0]], {"per": "sequence"}),
    "beyond below": ([[0.5, -(2**63) - 1], [1.0, 2.0], [3.0, 4.0]], {"per": "sequence"}),
    "short floats": (np.array([1.5, -0.0, 2.0**-126], np.float32), {}),
    "complex": (np.array([1.5, 2.0j, 3.0]), {}),
    "who": ([1, 2, 3], {"per": "place"}),
    "two": ([1, 2], {}),
}
"""Labels for sequences of 3, 1 and 2 tokens, and options."""
TEXTS: list[tuple[Any, Any]] = [
    ("a text", None), (None, "a text"), (None, None), ("a", "b"), ("there.txt", None), ("gone.txt", None),
    ("a/b", None), ("a file.txt\n", None), (None, "there.txt"), (None, "gone.txt"), (5, None), (None, 5), ("", None),
    ("x" * 5000, None), ("gone.txt " * 600, None), ("a sentence. Then", None), (".", None),
]  # fmt: skip
"""What may be a text or the name of a file."""
ASKED = [
    "there.txt",
    "*.txt",
    "gone.txt",
    "is it?",
    "is it there.txt?",
    "ther?.txt",
    "[tx]*.txt",
    "*.csv",
    "-",
    "*",
    "",
]
"""What may name files."""


@dataclass(frozen=True)
class Dataset:
    """A dataset of Hugging Face: columns, and what their numbers mean."""

    columns: dict[str, list[Any]]
    features: dict[str, Any]

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


def questions() -> Iterator[tuple[str, Question]]:
    for name, make in SEQUENCES.items():
        yield f"sequences of {name}", lambda make=make: looked_at(make())  # type: ignore[misc]
        yield f"sequences of {name}, others", lambda make=make: _others(make())  # type: ignore[misc]
    for name, make in ODD.items():
        yield f"sequences with {name}", lambda make=make: _odd(make())  # type: ignore[misc]
    X = [[1, 2, 3], [4], [5, 6]]
    for name, (Y, options) in LABELS.items():
        yield (
            f"labels {name}",
            lambda Y=Y, o=options: {"Y": Y, **o, "read": attempt(lambda: _labels(Sequences.of(X, Y, **o)))},
        )  # type: ignore[misc]
    yield "labels padded", _padded
    yield "tokens padded", _padded_tokens
    yield "tables as labels", _tables_as_labels
    for name, (given, more) in TABLES.items():
        yield (
            f"table {name}",
            lambda X=given, o=more: {
                "X": shown(X),
                **_in_words(o),
                "read": attempt(lambda: _with_labels(Sequences.of(X, **o))),
            },
        )  # type: ignore[misc]
    for name, (columns, features) in CLASSES.items():
        yield (
            f"dataset {name}",
            lambda c=columns, f=features: {**c, "read": attempt(lambda: _with_labels(Sequences.of(Dataset(c, f))))},
        )  # type: ignore[misc]
    yield "texts", _texts
    for text, unit, size in WINDOWS:
        yield f"windows of {text[:12]!r}, {unit}, {size}", lambda t=text, u=unit, s=size: _windows(t, u, s)  # type: ignore[misc]
    yield "names of files", _names
    yield "names of data files", _data_files
    yield "several files", _several
    yield "arrays of files", _arrays
    yield "plans", _plans
    yield "origins", _origins
    for name, given in LISTS.items():
        yield f"list {name}", lambda X=given: _list(X)  # type: ignore[misc]
    yield "lists for a model of prompts", _for_prompts
    yield "floats by bits", _floats
    yield "columns", _columns


def looked_at(data: Sequences) -> dict[str, object]:
    """Everything that sequences say of themselves, place by place."""
    tokens = range(len(data.tokens))
    flat = np.arange(len(tokens))
    where = [Bare(data.where(place)) for place in tokens]
    labelled = [Bare(data.labelled(place)) for place in range(data.labellable)]
    found: dict[str, object] = {
        **meaning(data),
        "offsets": data.offsets,
        "sequence": data.sequence,
        "position": data.position,
        "rectangular": data.rectangular,
        "sequences of": data.sequences_of(flat),
        "keyed": data.keyed,
        "place": [data.place(place) for place in tokens],
        "where": where,
        "labellable": data.labellable,
        "labelled places": data.labelled_places,
        "labelled": Bare("as above") if labelled == where else labelled,
        "check labelled": attempt(data.check_labelled),
        "check no prompts": attempt(data.check_no_prompts),
        "named labels": data.named_labels(),
        "split": data.split(flat),
        "starts": data.starts_of(np.array([0, len(data) - 1])),
        "named": [data.named(0), data.named(0, 7)],
    }
    if data.prompts is not None:
        found["texts"] = [data.texts(row) for row in range(len(data))]
        found["per answer"] = data.per_answer
        found["only prompts"] = meaning(data.only_prompts())
    else:
        found["only prompts"] = data.only_prompts() is data
    return found


def _odd(data: Sequences) -> dict[str, object]:
    """Sequences that were made by hand, where labels may be, and whether there are enough."""
    said = {"labelled places": data.labelled_places, "check labelled": attempt(data.check_labelled)}
    return {**meaning(data), **said, "named labels": data.named_labels()}


def _others(data: Sequences) -> dict[str, object]:
    """Some of the sequences, all of them twice, with other labels, and in the words of others."""
    rows = {
        "1 and 0": np.array([1, 0]),
        "the last": np.array([-1]),
        "1, by a mask": np.arange(len(data)) == 1,
        "1, 1 and 0": np.array([1, 1, 0]),
    }
    others: dict[str, object] = {
        name: attempt(lambda rows=some: meaning(data.select(rows)))  # type: ignore[misc]
        for name, some in rows.items()
    }
    others["all and 1"] = meaning(join_datasets([data, data.select(np.array([1]))]))
    before = meaning(data)
    found = {"all": before["sequences"], **unlike(before, others)}
    found["with labels"] = attempt(lambda: _labels(Sequences.of(data, [*range(len(data))])))
    found["lines of plans"] = list(map(Bare, plan_lines(data.plans)))
    found["with answers"] = attempt(lambda: _labels(Sequences.of(data, [1, 2], per="answer")))
    found["with lengths"] = attempt(lambda: _labels(Sequences.of(data, lengths=[1, 2])))
    for names in (Names(("a", "b", "c", " ", "z")), Names(range(3)), Names(range(9)), data.vocabulary, None):
        said = in_a_line(names)
        found[f"in the words {said}"] = attempt(lambda names=names: data.recoded(names).tokens)  # type: ignore[misc]
    return found


def _labels(data: Sequences) -> dict[str, object]:
    """Labels as they are held, some of them, and how they were read."""
    labels, plan = data.labels, data.plans[0]
    if labels is None:
        return {"labels": None, "read as": Bare(str(plan))}
    some = attempt(lambda: labels.take(np.arange(data.labellable)[::2], data.labellable).values)
    said = {"values": labels.values, "classes": labels.classes, "places": labels.place, "every second": some}
    rest = {"per": labels.per, "scalar": labels.scalar, "gaps": plan.gaps, "read as": Bare(str(plan))}
    return {name: held for name, held in (said | rest).items() if held is not None and held is not False}


def _in_words(options: dict[str, Any]) -> dict[str, object]:
    """Options, without those that are not given."""
    like = options.get("like")
    return options | ({} if like is None else {"like": Bare(f"unit {like.unit}, per {like.per}")})


def _padded() -> dict[str, object]:
    """Padded tokens, with labels that are padded or not."""
    X = np.arange(6).reshape(2, 3)
    labels: list[Any] = [
        [[1, 2, 9], [3, 4, 5]], [[1, 2], [3, 4, 5]], np.array([[1, 2, 9], [3, 4, 5]]), [1, 2], [[1, 2], [3, 4]],
        np.arange(12.0).reshape(2, 3, 2) / 8, np.arange(4.0).reshape(2, 2) / 2, None,
        [[1, 2, 9], [3, 4, 5, 6]], [[1, 2, 9], [3]],
    ]  # fmt: skip
    found = [{"Y": Y, "read": attempt(lambda Y=Y: _labels(Sequences.of(X, Y, lengths=[2, 3])))} for Y in labels]  # type: ignore[misc]
    return {"X": X, "lengths": [2, 3], "labels": found}


def _padded_tokens() -> dict[str, object]:
    """Lengths that cut padding off, or that are wrong, and other things than arrays of tokens."""
    X = np.arange(6).reshape(2, 3)
    odd: list[Any] = [[2, 4], [0, 3], [2], [1.5, 2], [[2, 3]], ["a", "b"], [3, 3], [1, 1]]
    found: dict[str, object] = {"X": X}
    found |= {f"lengths {odd}": attempt(lambda odd=odd: Sequences.of(X, lengths=odd).tokens) for odd in odd}  # type: ignore[misc]
    others: list[Any] = [
        [[1, 2], [3]], np.array(["ab", "c"]), np.array([["ab", "c"], ["c", "ab"]]), np.zeros(2),
        np.zeros((2, 1, 1, 1)),
        np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, False]]), "ab", {1, 2}, 5,
        [1, 2], np.array([1, 2]),
    ]  # fmt: skip
    for options in ({}, {"lengths": [1, 2]}, {"unit": "whole"}, {"unit": "words"}, {"labelled": True}):
        for given in others:
            said = f"{in_a_line(shown(given))} {options or ''}"
            found[said] = attempt(lambda X=given, o=options: meaning(Sequences.of(X, **o)))  # type: ignore[misc]
    return found


def _tables_as_labels() -> dict[str, object]:
    """Tables where arrays could be."""
    numbers = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    mixed = pandas.DataFrame({"a": [1, 2], "b": [0.5, 4.0]})
    X = [[1, 2], [3, 4]]
    tables = {"numbers": numbers, "mixed": mixed, "words": WORDS, "a Series": WORDS["a"]}
    return {name: attempt(lambda Y=Y: _labels(Sequences.of(X, Y))) for name, Y in tables.items()}  # type: ignore[misc]


WORDS = pandas.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
TABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "of single values": ({"a": 1, "b": 2}, {"tokens": "a"}),
    "of several lengths": ({"a": [1, 2], "b": [3]}, {"tokens": "a"}),
    "of tokens alone": ({"tokens": ["a b", "c"]}, {}),
    "of chosen columns": ({"a": ["x", "y"], "b": ["u", "v"]}, {"tokens": "a", "labels": "b"}),
    "of a prompt and an answer": ({"prompt": ["a"], "answer": ["b"]}, {}),
    "of a prompt and another column": ({"prompt": ["a"], "other": ["b"]}, {}),
    "of an answer and another column": ({"x": ["a"], "answer": ["b"]}, {}),
    "of a prompt, an answer and more": ({"prompt": ["a"], "answer": ["b"], "more": ["c"]}, {}),
    "as wide as its keys": ({"a b": ["x", "y"], "c d": ["u", "v"]}, {}),
    "as wide as its keys, per token": ({"a b": ["x", "y"], "c d": ["u", "v"]}, {"per": "token"}),
    "of lists per token": ({"a b": ["x", "y"], "c": ["u"]}, {"per": "token"}),
    "of lists": ({"a b": ["x", "y"], "c": ["u", "v"]}, {}),
    "of lists per character": ({"ab": ["x", "y"], "cd": ["u", "v"]}, {"unit": "characters"}),
    "of lists of several lengths": ({"a b": ["x"], "c": ["u", "v"]}, {}),
    "of lists, for a model of characters": (
        {"ab": ["x", "y"], "cd": ["u", "v"]},
        {"like": Manner(unit="characters", per="token")},
    ),
    "of lists of integers": ({"a": [1, 2], "b": [3, 4]}, {}),
    "of arrays of numbers": ({"a": np.array([1, 2]), "b": np.array([0.5, 4])}, {}),
    "of arrays of strings": ({"a": np.array(["x", "y"]), "b": np.array(["u", "v"])}, {}),
    "of arrays of rows": ({"a": np.array([[1, 2], [3, 4]]), "b": np.array([0, 1])}, {}),
    "of empty lists": ({"a": [], "b": []}, {}),
    "of nothing": ({}, {}),
    "of a key that is a number": ({3: [1, 2]}, {}),
    "of None": ({"a": None}, {}),
    "of rows that hold arrays": ([{"a": (1, 2), "b": np.array([3, 4])}], {"tokens": "a", "labels": "b"}),
    "of a row and a number": ([{"a": 1}, 5], {}),
    "of pairs": ([("a b", 1), ("c", 2)], {"labelled": True}),
    "of triples": ([("a", 1, 2)], {"labelled": True}),
    "of a pair and a list": ([("a", 1), ["b", 2]], {"labelled": True}),
    "of no pairs": ([], {"labelled": True}),
    "that is a list": ([1, 2], {"tokens": "a"}),
    "that is a list of rows": ([[1], [2]], {"tokens": "a"}),
    "that is a list of rows, and labels": ([[1], [2]], {"labels": "a"}),
    "of words": (WORDS, {"tokens": "b"}),
    "that is a Series": (WORDS.set_index("a")["b"], {"labelled": True}),
    "that is a Series with numbered rows": (WORDS["a"], {"labelled": True}),
    "that is a Series of numbers": (pandas.Series([1, 2], pandas.Index(["a b", "c"])), {}),
    "with Y": (WORDS, {"Y": [1, 2]}),
    "of a key with Y": ({"a": 1}, {"Y": [1]}),
    "of pairs with Y": ([("a", "b"), ("c", "d")], {"Y": [1, 2], "labelled": True}),
    "of lists, one under a number": ({"a": ["u", "v"], 3: ["x", "y"]}, {}),
    "of chosen columns of several lengths": ({"a": ["x", "y"], "b": ["u"]}, {"tokens": "a", "labels": "b"}),
    "of tokens and too many labels": ({"tokens": [["a", "b"], ["c"]], "labels": [1, 2, 3]}, {}),
}
"""Tables, and columns where keys with labels could be."""


def _with_labels(data: Sequences) -> dict[str, object]:
    places = None if data.labels is None else data.labels.place
    return meaning(data) if places is None else {**meaning(data), "places of labels": places}


GOOD, NESTED = SimpleNamespace(names=["good", "bad"]), SimpleNamespace(feature=SimpleNamespace(names=["good", "bad"]))
CLASSES: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "of classes": ({"text": ["a b", "c"], "label": [1, 0]}, {"label": GOOD}),
    "of a class that is not there": ({"text": ["a"], "label": [2]}, {"label": GOOD}),
    "without labels": ({"text": ["a b", "c"], "label": [-1, -1]}, {"label": GOOD}),
    "of class −2": ({"text": ["a"], "label": [-2]}, {"label": GOOD}),
    "of which one row has no label": ({"text": ["a b", "c"], "label": [1, -1]}, {"label": GOOD}),
    "of None": ({"text": ["a"], "label": [None]}, {"label": GOOD}),
    "of classes of tokens, with gaps": (
        {"tokens": [["a", "b"], ["c"]], "labels": [[1, -100], [-1]]},
        {"labels": NESTED},
    ),
    "of classes of tokens": ({"tokens": [["a", "b"], ["c"]], "labels": [[1, 0], [0]]}, {"labels": NESTED}),
    "of numbers": ({"text": ["a b", "c"], "label": [1, 0]}, {"label": SimpleNamespace()}),
    "of −1 without classes": ({"text": ["a"], "label": [-1]}, {}),
}
"""Datasets of Hugging Face by their columns, and features of which `names` say what the numbers of classes mean."""


def _texts() -> dict[str, object]:
    """Texts and names of files, as they are found in a folder."""
    _write_texts()
    found: dict[str, object] = {
        f"{_short(source)} {'' if text is None else f'text={_short(text)}'}": attempt(
            lambda s=source, t=text: _short(text_of(s, t))  # type: ignore[misc]
        )
        for source, text in TEXTS
    }
    found["Path('there.txt')"] = attempt(lambda: text_of(Path("there.txt")))
    found["Path('gone.txt')"] = attempt(lambda: text_of(Path("gone.txt")))
    return found


def _write_texts() -> None:
    for name in ("there.txt", "is it x", "x.txt"):
        Path(name).write_text(f"{name} holds this text")
    Path("table.csv").write_text("key,value\na b,x\nc,y\n")
    Path("facts.csv").write_text("prompt,completion\na b,x\nc d,y\n")


def _short(text: object) -> object:
    return Bare(f"{text[:9]!r}… ({len(text)})") if isinstance(text, str) and len(text) > 99 else Bare(repr(text))


REPEATED = " ".join("ab"[(number * number // 7) % 2] for number in range(300))
WINDOWS: list[tuple[str, Any, Any]] = [
    ("to be or not to be that is", "words", None), ("abcabdabe", "characters", None), (REPEATED, "words", None),
    (REPEATED, "words", 12), ("a b c d", "words", None), ("ab" * 200, "characters", None), ("", "words", None),
    ("a b c", "sentences", None), ("a b c", "words", 0), ("a b c", "words", 1.5), ("a", "characters", None),
]  # fmt: skip
"""Texts, what their tokens are, and how wide a window may be."""


def _windows(text: str, unit: Any, size: Any) -> dict[str, object]:
    """Windows of a text, how long the longest is, and which one a prompt of any length fills."""

    def ask() -> dict[str, object]:
        data, script = windows(text, unit, size)
        return {"window": script.window, "short": [script.short(length) for length in range(1, 40)], **meaning(data)}

    return {"text": _short(text), "windows": attempt(ask), "split": attempt(lambda: split(text, unit))}


def _names() -> dict[str, object]:
    """Which strings name files, and which files these are."""
    _write_texts()
    found: dict[str, object] = {
        repr(name): [attempt(lambda n=name: names_files(n)), attempt(lambda n=name: files(n))]  # type: ignore[misc]
        for name in ASKED
    }
    lists: list[Any] = [[], ["there.txt"], ["there.txt", "x.txt"], ["there.txt", "*.txt"], ["-", "x.txt"], [5], 5,
                        (Path("x.txt"), "there.txt")]  # fmt: skip
    return found | {str(given): attempt(lambda given=given: files(given)) for given in lists}  # type: ignore[misc]


def _data_files() -> dict[str, object]:
    """What is read of strings that may name files, and how many tokens a file has at most."""
    _write_texts()
    found: dict[str, object] = {}
    given: list[Any] = [
        "table.csv",
        "gone.csv",
        "facts.csv",
        Path("table.csv"),
        ["a b", "c d"],
        {"a b": "x"},
        [("a", "b")],
    ]
    for X in given:
        found[f"sequences of {X}"] = attempt(lambda X=X: meaning(sequences_of(X)))  # type: ignore[misc]
        found[f"prompts of {X}"] = attempt(lambda X=X: meaning(prompts_of(X)))  # type: ignore[misc]
    found["with Y"] = attempt(lambda: meaning(sequences_of("table.csv", [1, 2])))
    found["with lengths"] = attempt(lambda: meaning(sequences_of("table.csv", lengths=[1, 2])))
    for name in ("table.csv", "gone.csv"):
        for kind in (None, "npz", "parquet"):
            found[f"tokens in {name} as {kind}"] = tokens_at_most(name, kind)
    for name in ("x.xlsx", "table.csv.gz", "x.unknown"):
        found[name] = attempt(lambda name=name: meaning(read(name)))  # type: ignore[misc]
    return found


def _several() -> dict[str, object]:
    """Files of one dataset: some of its rows, what is said of them, and how much there may be in a file."""
    Path("a.csv").write_text("tokens,label\na b,x\nc,y\nd,x\n")
    Path("b.csv").write_text("tokens,label\ne,x\na,z\n")
    Path("c.csv").write_text("tokens,label\nf,y\n")
    Path("d.csv.gz").write_bytes(b"x" * 100)
    parquet.write_table(pyarrow.table({"tokens": [[1, 2], [3]], "label": [1, 2]}), "a.parquet", row_group_size=1)
    np.savez_compressed("a.npz", X=np.zeros((40, 3), int), Y=np.zeros(40, int))
    data = read(["a.csv", "b.csv", "c.csv"])
    found: dict[str, object] = {"read": meaning(data)}
    for rows in ([4, 0, 1, 5], [3], [0, 1, 2, 3], [2, 3, 4], [5, 4]):
        some = data.select(np.array(rows))
        found[f"rows {rows}"] = {**meaning(some), "lines of plans": list(map(Bare, plan_lines(some.plans)))}
    names = ("a.csv", "b.csv", "c.csv", "d.csv.gz")  # how long files of binary formats are, libraries decide
    found["tokens at most"] = {name: tokens_at_most(name) for name in names}
    found["tokens in Parquet"], found["in npz"] = tokens_at_most("a.parquet"), tokens_at_most("a.npz") >= 120
    found["used"] = [used(data.vocabulary, data.tokens[2:4]), used(Names(range(9)), np.array([7, 3, 7]))]
    found["numbered"] = [numbered([["b", "a"], ["c", "a"]]), numbered([np.array([5, 9]), np.array([1, 5])])]
    return found


X, Y = np.array([[1, 2, 0], [3, 4, 5]]), np.array([[1, 2, 0], [0, 1, 2]])
ARRAYS: dict[str, dict[str, Any]] = {
    "usual": {"X": X, "Y": Y}, "lengths": {"X": X, "Y": Y, "lengths": np.array([2, 3])}, "tokens": {"X": X},
    "others": {"ids": X, "tags": Y}, "more": {"ids": X, "tags": Y[::-1], "X": X[::-1], "Y": Y}, "keys": {"ids": X},
    "objects": {"X": np.array([None, 1], object)},
}  # fmt: skip
"""Arrays under usual and other names."""


def _arrays() -> dict[str, object]:
    """Files of arrays, read with and without the names of arrays, and as a model of one of these files reads them."""
    for name, arrays in ARRAYS.items():
        np.savez(f"{name}.npz", **arrays)
    model = ml.memorize(read("others.npz", tokens="ids", labels="tags"), positions=True)
    options: list[dict[str, Any]] = [{}, {"tokens": "ids"}, {"tokens": "ids", "labels": "tags"}, {"labels": "tags"}]
    found: dict[str, object] = {}
    for name in ARRAYS:
        file = Path(f"{name}.npz")
        said = attempt(lambda f=file: load_arrays(f))  # type: ignore[misc]
        found[str(file)] = said if not isinstance(said, tuple) else dict(zip(("names", "arrays"), said, strict=True))
        found[f"{name}, X alone"] = attempt(lambda f=file: sorted(load_arrays(f, {"X"})[1]))  # type: ignore[misc]
        found[f"{name}, sizes"] = attempt(lambda f=file: {n: size[:2] for n, size in array_sizes(f).items()})  # type: ignore[misc]
        for some in options:
            whole = attempt(lambda f=file, o=some: meaning(read(f, **o)))  # type: ignore[misc]
            again = attempt(lambda f=file, o=some: meaning(read(f, like=model.card.manner, **o)))  # type: ignore[misc]
            said = f"{name} {some or ''}".strip()
            found |= {said: whole, **unlike(whole, {f"{said}, for the model": again})}
    return found


def _plans() -> dict[str, object]:
    """Plans of several files in words and as JSON, and what a claim leaves out."""
    plan = ReadPlan("a.csv", "csv", unit="words", per="sequence", rows=4, places=4, gaps=1, keyed=True)
    second, chosen = (
        replace(plan, source="b.csv", rows=7, places=7, gaps=2),
        replace(plan, source="c.csv", chosen_from=9),
    )
    tokens = replace(plan, source="d.jsonl", format="jsonl", per="token", places=11, gaps=3)
    groups = {
        "one": [plan], "two": [plan, second], "three, one chosen": [plan, second, chosen],
        "two chosen": [chosen, replace(chosen, rows=2)], "tokens and rows": [tokens, plan], "tokens": [tokens],
        "no gaps": [replace(plan, gaps=0)], "one keyed": [replace(plan, keyed=False), second], "none": [],
        "remembered": [replace(plan, remembered=("format", "columns", "header")),
                       replace(plan, remembered=("header",))],
    }  # fmt: skip
    found: dict[str, object] = {}
    for name, group in groups.items():
        left = attempt(lambda group=group: left_out(group))  # type: ignore[misc]
        again = [ReadPlan.from_json(one.to_json()) for one in group]
        found[name] = {
            "lines": list(map(Bare, plan_lines(group))),
            "left out": left,
            "of tokens": [one.labels_tokens for one in again],
            "as JSON and back": again == group,
        }
    return {**found, "JSON": tokens.to_json()}


def _origins() -> dict[str, object]:
    """Where sequences stand, chosen and chosen again."""
    sources = (SourceFile("a.csv", "line"), SourceFile("b.csv", "row"))
    origin = Origin.of(np.array([2, 3, 5, 6, 0, 1, 2]), np.array([0, 0, 0, 0, 1, 1, 1]), sources)

    def said(one: Origin | None, count: int) -> object:
        if one is None:
            return None
        places = [Bare(one.place(row)) for row in range(count)]
        return {"first": one.first, "number": one.number, "file": one.file, "places": places}

    found = {"all": said(origin, 7)}
    for rows in ([0, 1, 2], [2, 3, 4, 5], [6, 5, 4], [1, 2, 4], [3]):
        some = origin.select(np.array(rows))
        found[f"rows {rows}"] = said(some, len(rows))
        found[f"rows {rows}, back to front"] = said(some.select(np.arange(len(rows))[::-1]), len(rows))
    joined, lacking = Origin.joined([(origin, 7), (some, 1)]), Origin.joined([(origin, 7), (None, 1)])
    return {**found, "joined": said(joined, 8), "joined with none": said(lacking, 8)}


LISTS: dict[str, Any] = {
    "of a pair": [("a", "b")], "of a triple": [("a", "b", "c")], "of a pair with a number": [("a", 1)],
    "of a list": [["a", "b"]], "of nothing": [], "that is a tuple": (("a", "b"), ("c", "d")), "of a string": ["ab"],
    "of a pair and a string": [("a", "b"), "c"], "that is a string": "ab",
    "that is a Series": pandas.Series(["a", "b"]), "that is a Series of polars": polars.Series(["a", "b"]),
    "that is a Series of structs": polars.Series([{"k": "a b", "v": "x"}]), "of numbers": [[1, 2, 3]],
    "of mixed lists": [["a", 1], ["b", 2, 3]],
    "that is a frame": polars.DataFrame({"a": ["x y", "z"], "b": ["u", "v"]}),
}  # fmt: skip


def _list(X: Any) -> dict[str, object]:
    """What a list looks like, and how it is read where labels are needed."""
    labels: list[Any] = [["c"], [None], ["c", None], [1], "c", None]
    return {
        "X": shown(X),
        "pairs": attempt(lambda: pairs_or_sequences(X)),
        "without labels": attempt(lambda: without_labels(X)),
        "texts": {f"beside {Y!r}": attempt(lambda Y=Y: are_texts(X, Y)) for Y in labels},  # type: ignore[misc]
        "read": attempt(lambda: _with_labels(Sequences.of(X, labelled=True))),
    }


def _for_prompts() -> dict[str, object]:
    """Lists with labels, for a model of prompts and answers."""
    like, found = Manner(per="answer"), dict[str, object]()
    lists: list[tuple[Any, Any]] = [
        (["a b", "c"], ["x", "y"]), (["a b", "c"], ["x", None]), (["a b", "c"], [1, 2]), ([[1], [2]], ["x", "y"]),
    ]  # fmt: skip
    for X, Y in lists:
        found[f"{X} {Y}"] = attempt(lambda X=X, Y=Y: meaning(Sequences.of(X, Y, like=like)))  # type: ignore[misc]
        found[f"{X} {Y}, words"] = attempt(lambda X=X, Y=Y: meaning(Sequences.of(X, Y, like=like, unit="words")))  # type: ignore[misc]
    return found


def _floats() -> dict[str, object]:
    """Subnormal numbers in every format, and rows of which two have one hash."""
    found: dict[str, object] = {}
    for kind in (np.float16, np.float32, np.float64):
        info = np.finfo(kind)
        numbers = {
            "0": 0.0, "−0": -0.0, "1": 1.0, "the least normal": info.tiny, "its negative": -info.tiny,
            "the least": info.smallest_subnormal, "the least below 0": -info.smallest_subnormal, "∞": np.inf,
            "NaN": np.nan, "the largest": info.max,
        }  # fmt: skip
        held = {name: subnormal.holds_subnormals(np.array([1.0, one], kind)) for name, one in numbers.items()}
        column = np.array([[info.tiny / 2, 1.0]], kind).T[:, :1]
        found[kind.__name__] = {**held, "half the least normal": subnormal.holds_subnormals(column)}
    table = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [0.0, 4.0]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "_hash_rows", lambda words: np.zeros(len(words), np.uint64))
        found["rows of one hash"] = attempt(lambda: distinct.equal_rows(table))
    return found


def _columns() -> dict[str, object]:
    """Columns of labels and of tokens."""
    found: dict[str, object] = {}
    given: list[Any] = [
        np.array([1, 2], np.uint64), [[1, 2.5], np.array([3.0, 4.0])], [[1, "a"]], [[1.0], [2.0, 3.0]], [[]],
    ]  # fmt: skip
    for values in given:
        for what in ("label", "token"):

            def ask(values: Any = values, what: Any = what) -> list[object]:
                column = Column(what)
                column.add(values, str)
                finished = column.finish()
                return [finished.values, finished.names, finished.scalar, column.place]

            found[f"{what} {in_a_line(values)}"] = attempt(ask)
    return found
