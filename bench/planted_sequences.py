"""Questions to sequences once they are read, and to what is read in rarer ways: places, plans, texts, patterns, classes
of datasets, and tables in place of arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

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
from planted_told import Named, attempt, told

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
    "an array of vectors": (np.linspace(0.0, 1.0, 6).reshape(3, 2), {}),
    "an array of vectors each": (np.linspace(0.0, 1.0, 6).reshape(3, 2), {"per": "sequence"}),
    "an array of integers each": (np.arange(6).reshape(3, 2), {"per": "sequence"}),
    "an array of integers": (np.arange(6).reshape(3, 2), {}),
    "a cube": (np.zeros((3, 2, 2)), {"per": "sequence"}),
    "more dimensions": (np.zeros((3, 2, 2, 2)), {}),
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
    "long floats": (np.array([1.5, 2.0, 3.0], np.longdouble), {}),
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


def questions(scratch: Path) -> Named:
    scratch.mkdir(parents=True)
    for name in ("there.txt", "is it x", "x.txt"):
        (scratch / name).write_text(f"{name} holds this text")
    (scratch / "table.csv").write_text("key,value\na b,x\nc,y\n")
    (scratch / "facts.csv").write_text("prompt,completion\na b,x\nc d,y\n")
    _several_files(scratch / "several")
    like = _files_of_arrays(scratch / "arrays")
    for name, make in SEQUENCES.items():
        yield f"sequences of {name}", told(lambda make=make: _looked_at(make()))  # type: ignore[misc]
        yield f"sequences of {name}, others", told(lambda make=make: _others(make()))  # type: ignore[misc]
    for name, make in ODD.items():
        yield f"sequences with {name}", told(lambda make=make: _looked_at(make()))  # type: ignore[misc]
    X = [[1, 2, 3], [4], [5, 6]]
    for name, (Y, options) in LABELS.items():
        yield f"labels {name}", told(lambda Y=Y, o=options: _labels(Sequences.of(X, Y, **o)))  # type: ignore[misc]
    yield "labels padded", told(_padded)
    yield "labels of tables", told(_tables)
    yield "labels of classes", told(lambda: [attempt(ask) for ask in _classes()])
    yield "texts", told(lambda: _texts(scratch))
    yield "texts by words", told(_windows)
    yield "names of files", told(lambda: _names(scratch))
    yield "several files", told(lambda: _several(scratch / "several"))
    yield "arrays of a file", told(lambda: _arrays(scratch / "arrays", like))
    yield "plans", told(_plans)
    yield "origins", told(_origins)
    yield "shapes", told(_shapes)
    yield "floats by bits", told(_floats)


def _looked_at(data: Sequences) -> list[object]:
    """Everything that sequences say of themselves, place by place."""
    tokens = range(len(data.tokens))
    flat = np.array([*tokens])
    found = [data.offsets, data.sequence, data.position, data.rectangular, data.sequences_of(flat), data.keyed]
    found += [data.place(place) for place in tokens] + [data.where(place) for place in tokens]
    found += [data.labellable, data.labelled_places, [data.labelled(place) for place in range(data.labellable)]]
    found += [attempt(data.check_labelled), attempt(data.check_no_prompts), data.named_labels(), data.split(flat)]
    found.append([data.starts_of(np.array([0, len(data) - 1])), data.named(0), data.named(0, 7)])
    if data.prompts is not None:
        found += [[data.texts(row) for row in range(len(data))], data.per_answer]
    only = data.only_prompts()
    return [*found, only.tokens, only.lengths, only.prompts, only.labels is None]


def _others(data: Sequences) -> list[object]:
    """Some of the sequences, all of them twice, with other labels, and in the words of others."""
    rows = (np.array([1, 0]), np.array([-1]), np.arange(len(data)) == 1, np.array([1, 1, 0]))
    found = [attempt(lambda rows=rows: _looked_at(data.select(rows))) for rows in rows]  # type: ignore[misc]
    found += [attempt(lambda: _looked_at(join_datasets([data, data.select(np.array([1]))])))]
    found += [attempt(lambda: _labels(Sequences.of(data, [*range(len(data))]))), plan_lines(data.plans)]
    found += [attempt(lambda: _labels(Sequences.of(data, [1, 2], per="answer")))]
    found += [attempt(lambda: _labels(Sequences.of(data, lengths=[1, 2])))]
    for names in (Names(("a", "b", "c", " ", "z")), Names(range(3)), Names(range(9)), data.vocabulary, None):
        found.append(attempt(lambda names=names: data.recoded(names).tokens))  # type: ignore[misc]
    return found


def _labels(data: Sequences) -> list[object]:
    labels = data.labels
    if labels is None:
        return [None]
    some = attempt(lambda: labels.take(np.arange(data.labellable)[::2], data.labellable).values)
    return [labels.values, labels.per, labels.classes, labels.scalar, labels.place, some, data.plans[0].to_json()]


def _padded() -> list[object]:
    """Padded tokens, with labels that are padded or not."""
    X, sizes = np.arange(6).reshape(2, 3), [2, 3]
    labels: list[Any] = [
        [[1, 2, 9], [3, 4, 5]], [[1, 2], [3, 4, 5]], np.array([[1, 2, 9], [3, 4, 5]]), [1, 2], [[1, 2], [3, 4]],
        np.linspace(0, 1, 12).reshape(2, 3, 2), np.linspace(0, 1, 4).reshape(2, 2), None,
    ]  # fmt: skip
    found = [attempt(lambda Y=Y: _labels(Sequences.of(X, Y, lengths=sizes))) for Y in labels]  # type: ignore[misc]
    odd: list[Any] = [[2, 4], [0, 3], [2], [1.5, 2], [[2, 3]], ["a", "b"], [3, 3], [1, 1]]
    found += [attempt(lambda odd=odd: Sequences.of(X, lengths=odd).tokens) for odd in odd]  # type: ignore[misc]
    others: list[Any] = [
        [[1, 2], [3]], np.array(["ab", "c"]), np.array([["ab", "c"], ["c", "ab"]]), np.zeros(2),
        np.zeros((2, 2, 2, 2)),
        np.ma.masked_array([[1, 2], [3, 4]], [[False, True], [False, False]]), "ab", {1, 2}, 5,
        [1, 2], np.array([1, 2]),
    ]  # fmt: skip
    for options in ({}, {"lengths": [1, 2]}, {"unit": "whole"}, {"unit": "words"}, {"labelled": True}):
        for given in others:
            found.append(attempt(lambda X=given, o=options: _looked_at(Sequences.of(X, **o))))  # type: ignore[misc]
    return found


def _tables() -> list[object]:
    """Tables where arrays could be, and columns where keys with labels could be."""
    import pandas

    numbers = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    mixed = pandas.DataFrame({"a": [1, 2], "b": [0.5, 4.0]})
    words = pandas.DataFrame({"a": ["x", "y"], "b": ["u", "v"]})
    X = [[1, 2], [3, 4]]
    found = [attempt(lambda Y=Y: _labels(Sequences.of(X, Y))) for Y in (numbers, mixed, words, words["a"])]  # type: ignore[misc]
    dicts: list[tuple[Any, dict[str, Any]]] = [
        ({"a": 1, "b": 2}, {"tokens": "a"}), ({"a": [1, 2], "b": [3]}, {"tokens": "a"}), ({"tokens": ["a b", "c"]}, {}),
        ({"a": ["x", "y"], "b": ["u", "v"]}, {"tokens": "a", "labels": "b"}), ({"prompt": ["a"], "answer": ["b"]}, {}),
        ({"prompt": ["a"], "other": ["b"]}, {}), ({"prompt": ["a"], "answer": ["b"], "more": ["c"]}, {}),
        ({"a b": ["x", "y"], "c d": ["u", "v"]}, {}), ({"a b": ["x", "y"], "c d": ["u", "v"]}, {"per": "token"}),
        ({"a b": ["x", "y"], "c": ["u"]}, {"per": "token"}), ({"a b": ["x", "y"], "c": ["u", "v"]}, {}),
        ({"ab": ["x", "y"], "cd": ["u", "v"]}, {"unit": "characters"}), ({"a b": ["x"], "c": ["u", "v"]}, {}),
        ({"ab": ["x", "y"], "cd": ["u", "v"]}, {"like": Manner(unit="characters", per="token")}),
        ({"a": [1, 2], "b": [3, 4]}, {}), ({"a": np.array([1, 2]), "b": np.array([0.5, 4])}, {}),
        ({"a": np.array(["x", "y"]), "b": np.array(["u", "v"])}, {}), ({"a": [], "b": []}, {}), ({}, {}),
        ({3: [1, 2]}, {}), ({"a": None}, {}), ([{"a": (1, 2), "b": np.array([3, 4])}], {"tokens": "a", "labels": "b"}),
        ([{"a": 1}, 5], {}), ([("a b", 1), ("c", 2)], {"labelled": True}), ([("a", 1, 2)], {"labelled": True}),
        ([("a", 1), ["b", 2]], {"labelled": True}), ([], {"labelled": True}), ([1, 2], {"tokens": "a"}),
        (words, {"tokens": "b"}), (words.set_index("a")["b"], {"labelled": True}), (words["a"], {"labelled": True}),
        (pandas.Series([1, 2], pandas.Index(["a b", "c"])), {}), (words, {"Y": [1, 2]}), ({"a": 1}, {"Y": [1]}),
    ]  # fmt: skip
    for given, options in dicts:
        found.append(attempt(lambda X=given, o=options: _with_labels(Sequences.of(X, **o))))  # type: ignore[misc]
    return found


def _with_labels(data: Sequences) -> list[object]:
    return [*_looked_at(data), _labels(data), plan_lines(data.plans)]


def _classes() -> list[Callable[[], object]]:
    """Datasets with classes by number: of sequences, of tokens, without labels, and out of range."""
    names = SimpleNamespace(names=["good", "bad"])
    nested = SimpleNamespace(feature=names)
    given = [
        ({"text": ["a b", "c"], "label": [1, 0]}, {"label": names}),
        ({"text": ["a"], "label": [2]}, {"label": names}),
        ({"text": ["a b", "c"], "label": [-1, -1]}, {"label": names}),
        ({"text": ["a"], "label": [-2]}, {"label": names}),
        ({"text": ["a b", "c"], "label": [1, -1]}, {"label": names}),
        ({"text": ["a"], "label": [None]}, {"label": names}),
        ({"tokens": [["a", "b"], ["c"]], "labels": [[1, -100], [-1]]}, {"labels": nested}),
        ({"tokens": [["a", "b"], ["c"]], "labels": [[1, 0], [0]]}, {"labels": nested}),
        ({"text": ["a b", "c"], "label": [1, 0]}, {"label": SimpleNamespace()}), ({"text": ["a"], "label": [-1]}, {}),
    ]  # fmt: skip
    return [lambda c=columns, f=features: _with_labels(Sequences.of(Dataset(c, f))) for columns, features in given]  # type: ignore[misc]


def _texts(scratch: Path) -> list[object]:
    """Texts and names of files, as they are found in a folder."""
    with contextlib.chdir(scratch):
        found = [attempt(lambda s=source, t=text: text_of(s, t)) for source, text in TEXTS]  # type: ignore[misc]
        return [*found, attempt(lambda: text_of(Path("there.txt"))), attempt(lambda: text_of(Path("gone.txt")))]


def _windows() -> list[object]:
    """Windows of texts, how long the longest is, and which one a prompt of any length fills."""
    found = list[object]()
    repeated = " ".join("ab"[(number * number // 7) % 2] for number in range(300))
    for text, unit, size in (
        ("to be or not to be that is", "words", None), ("abcabdabe", "characters", None), (repeated, "words", None),
        (repeated, "words", 12), ("a b c d", "words", None), ("ab" * 200, "characters", None), ("", "words", None),
        ("a b c", "sentences", None), ("a b c", "words", 0), ("a b c", "words", 1.5), ("a", "characters", None),
    ):  # fmt: skip

        def ask(text: str = text, unit: Any = unit, size: Any = size) -> list[object]:
            data, script = windows(text, unit, size)
            return [data.tokens, data.lengths, script.window, [script.short(length) for length in range(1, 40)]]

        found += [attempt(ask), attempt(lambda text=text, unit=unit: split(text, unit))]  # type: ignore[misc]
    return found


def _names(scratch: Path) -> list[object]:
    """Which strings name files, which files these are, and what is read of them."""
    with contextlib.chdir(scratch):
        found: list[object] = [
            [attempt(lambda n=name: names_files(n)), attempt(lambda n=name: files(n))] for name in ASKED
        ]
        lists: list[Any] = [[], ["there.txt"], ["there.txt", "x.txt"], ["there.txt", "*.txt"], ["-", "x.txt"], [5], 5,
                            (Path("x.txt"), "there.txt")]  # fmt: skip
        found += [attempt(lambda given=given: files(given)) for given in lists]  # type: ignore[misc]
        for name in (
            "table.csv",
            "gone.csv",
            "facts.csv",
            Path("table.csv"),
            ["a b", "c d"],
            {"a b": "x"},
            [("a", "b")],
        ):
            for ask in (sequences_of, prompts_of):
                found.append(attempt(lambda ask=ask, name=name: _looked_at(ask(name))))  # type: ignore[misc, operator]
        found += [attempt(lambda: _looked_at(sequences_of("table.csv", [1, 2]))),
                  attempt(lambda: _looked_at(sequences_of("table.csv", lengths=[1, 2])))]  # fmt: skip
        found += [tokens_at_most(name, kind) for name in ("table.csv", "gone.csv") for kind in (None, "npz", "parquet")]
        found += [attempt(lambda name=name: _looked_at(read(name))) for name in ("x.xlsx", "table.csv.gz", "x.unknown")]  # type: ignore[misc]
        return found


def _several_files(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    folder.mkdir()
    (folder / "a.csv").write_text("tokens,label\na b,x\nc,y\nd,x\n")
    (folder / "b.csv").write_text("tokens,label\ne,x\na,z\n")
    (folder / "c.csv").write_text("tokens,label\nf,y\n")
    (folder / "d.csv.gz").write_bytes(b"x" * 100)
    parquet.write_table(
        pyarrow.table({"tokens": [[1, 2], [3]], "label": [1, 2]}), folder / "a.parquet", row_group_size=1
    )
    np.savez_compressed(folder / "a.npz", X=np.zeros((40, 3), int), Y=np.zeros(40, int))


def _several(folder: Path) -> list[object]:
    """Files of one dataset: some of its rows, what is said of them, and how much there may be in a file."""
    data = read([folder / "a.csv", folder / "b.csv", folder / "c.csv"])
    found: list[object] = []
    for rows in ([4, 0, 1, 5], [3], [0, 1, 2, 3], [2, 3, 4], [5, 4]):
        some = data.select(np.array(rows))
        found += [[some.named(row).rpartition("/")[2] for row in range(len(some))], some.tokens]
        found.append([line.rpartition("/")[2] for line in plan_lines(some.plans)])
    found.append([tokens_at_most(str(path)) for path in sorted(folder.iterdir())])
    found += [used(data.vocabulary, data.tokens[2:4]), used(Names(range(9)), np.array([7, 3, 7]))]
    parts = (["b", "a"], ["c", "a"]), (np.array([5, 9]), np.array([1, 5]))
    return [*found, *(numbered(list(each)) for each in parts)]


def _files_of_arrays(folder: Path) -> Manner:
    """Arrays under usual and other names, and how a model of one of these files reads the others."""
    folder.mkdir()
    X, Y = np.array([[1, 2, 0], [3, 4, 5]]), np.array([[1, 2, 0], [0, 1, 2]])
    contents: dict[str, dict[str, Any]] = {
        "usual": {"X": X, "Y": Y}, "lengths": {"X": X, "Y": Y, "lengths": np.array([2, 3])}, "tokens": {"X": X},
        "others": {"ids": X, "tags": Y}, "more": {"ids": X, "tags": Y[::-1], "X": X[::-1], "Y": Y}, "keys": {"ids": X},
        "objects": {"X": np.array([None, 1], object)},
    }  # fmt: skip
    for name, arrays in contents.items():
        np.savez(folder / f"{name}.npz", **arrays)
    model = ml.memorize(read(folder / "others.npz", tokens="ids", labels="tags"), positions=True)
    return model.card.manner  # type: ignore[no-any-return]


def _arrays(folder: Path, like: Manner) -> list[object]:
    """Files of arrays, read with and without the names of arrays, and as the files of a model."""
    options: tuple[dict[str, Any], ...] = (
        {},
        {"tokens": "ids"},
        {"tokens": "ids", "labels": "tags"},
        {"labels": "tags"},
    )
    found = list[object]()
    for file in sorted(folder.iterdir()):
        found += [attempt(lambda f=file: load_arrays(f)), attempt(lambda f=file: load_arrays(f, {"X"}))]  # type: ignore[misc]
        found.append(attempt(lambda f=file: array_sizes(f)))  # type: ignore[misc]
        for some in options:
            found.append(attempt(lambda f=file, o=some: _in_file(read(f, **o))))  # type: ignore[misc]
            found.append(attempt(lambda f=file, o=some: _in_file(read(f, like=like, **o))))  # type: ignore[misc]
    return found


def _in_file(data: Sequences) -> list[object]:
    plans = [(plan.key, plan.label, plan.remembered, plan.rows, plan.gaps) for plan in data.plans]
    return [data.tokens, data.lengths, data.labels and data.labels.values, plans]


def _plans() -> list[object]:
    """Plans of several files in words and as JSON, and what a claim leaves out."""
    plan = ReadPlan("a.csv", "csv", unit="words", per="sequence", rows=4, places=4, gaps=1, keyed=True)
    second, chosen = (
        replace(plan, source="b.csv", rows=7, places=7, gaps=2),
        replace(plan, source="c.csv", chosen_from=9),
    )
    tokens = replace(plan, source="d.jsonl", format="jsonl", per="token", places=11, gaps=3)
    groups = [[plan], [plan, second], [plan, second, chosen], [chosen, replace(chosen, rows=2)], [tokens, plan],
              [tokens],
              [replace(plan, gaps=0)], [replace(plan, keyed=False), second], [],
              [replace(plan, remembered=("format", "columns", "header")),
               replace(plan, remembered=("header",))]]  # fmt: skip
    found = [[plan_lines(group), attempt(lambda group=group: left_out(group))] for group in groups]  # type: ignore[misc]
    read_back = [ReadPlan.from_json(one.to_json()) for group in groups for one in group]
    return [*found, read_back, [str(one) for one in read_back], [one.labels_tokens for one in read_back]]


def _origins() -> list[object]:
    """Where sequences stand, chosen and chosen again."""
    sources = (SourceFile("a.csv", "line"), SourceFile("b.csv", "row"))
    origin = Origin.of(np.array([2, 3, 5, 6, 0, 1, 2]), np.array([0, 0, 0, 0, 1, 1, 1]), sources)
    found = [[origin.first, origin.number, origin.file, [origin.place(row) for row in range(7)]]]
    for rows in ([0, 1, 2], [2, 3, 4, 5], [6, 5, 4], [1, 2, 4], [3]):
        some = origin.select(np.array(rows))
        again = some.select(np.arange(len(rows))[::-1])
        found += [[one.place(row) for row in range(len(rows))] for one in (some, again)]
        found.append([some.first, some.number, some.file])
    return [*found, Origin.joined([(origin, 7), (some, 1)]), Origin.joined([(origin, 7), (None, 1)])]


def _shapes() -> list[object]:
    """What lists look like, and what is said where labels are missing."""
    import pandas
    import polars

    lists: list[Any] = [
        [("a", "b")], [("a", "b", "c")], [("a", 1)], [["a", "b"]], [], (("a", "b"), ("c", "d")), ["ab"],
        [("a", "b"), "c"],
        "ab", pandas.Series(["a", "b"]), polars.Series(["a", "b"]), polars.Series([{"k": "a b", "v": "x"}]),
        [[1, 2, 3]],
        [["a", 1], ["b", 2, 3]], polars.DataFrame({"a": ["x y", "z"], "b": ["u", "v"]}),
    ]  # fmt: skip
    found = [[attempt(lambda X=X: pairs_or_sequences(X)), attempt(lambda X=X: without_labels(X))] for X in lists]  # type: ignore[misc]
    found += [
        [attempt(lambda X=X, Y=Y: are_texts(X, Y)) for Y in (["c"], [None], ["c", None], [1], "c", None)] for X in lists
    ]
    found += [attempt(lambda X=X: _with_labels(Sequences.of(X, labelled=True))) for X in lists]  # type: ignore[misc]
    like = Manner(per="answer")
    for X, Y in (
        (["a b", "c"], ["x", "y"]),
        (["a b", "c"], ["x", None]),
        (["a b", "c"], [1, 2]),
        ([[1], [2]], ["x", "y"]),
    ):
        found.append(attempt(lambda X=X, Y=Y: _with_labels(Sequences.of(X, Y, like=like))))  # type: ignore[misc]
        found.append(attempt(lambda X=X, Y=Y: _with_labels(Sequences.of(X, Y, like=like, unit="words"))))  # type: ignore[misc]
    return found


def _floats() -> list[object]:
    """Subnormal numbers in every format, columns of such numbers, and rows of which two have one hash."""
    found = list[object]()
    for kind in (np.float16, np.float32, np.float64):
        info = np.finfo(kind)
        for number in (0.0, -0.0, 1.0, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, np.inf,
                       np.nan, info.max):  # fmt: skip
            found.append(subnormal.holds_subnormals(np.array([1.0, number], kind)))
        found.append(subnormal.holds_subnormals(np.array([[info.tiny / 2, 1.0]], kind).astype(kind).T[:, :1]))
    for values in (
        np.array([1, 2], np.uint64),
        [[1, 2.5], np.array([3.0, 4.0])],
        [[1, "a"]],
        [[1.0], [2.0, 3.0]],
        [[]],
    ):
        for what in ("label", "token"):

            def ask(values: Any = values, what: Any = what) -> list[object]:
                column = Column(what)
                column.add(values, str)
                finished = column.finish()
                return [finished.values, finished.names, finished.scalar, column.place]

            found.append(attempt(ask))
    table = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [0.0, 4.0]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "_hash_rows", lambda words: np.zeros(len(words), np.uint64))
        return [*found, attempt(lambda: distinct.equal_rows(table))]
