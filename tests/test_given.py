"""A fault planted in the reader that builder and checker share is caught: no model of wrong data is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.given import confirm
from monolayer.data import Names, Sequences
from monolayer.data.columns import Column
from monolayer.errors import DataError

IDS = [[3, 1, 4], [1, 5, 9]]
LABELS = [[0, 1, 2], [2, 0, 1]]
VECTORS = [[[0.5, 1.0], [2.0, 0.25]], [[1.5, 1.0], [0.125, 3.0]]]
KINDS: dict[str, tuple[Any, Any]] = {
    "array": (np.array(IDS), np.array(LABELS)),
    "lists": (IDS, LABELS),
    "ragged lists": ([[3, 1, 4], [1, 5]], [[0, 1, 2], [2, 0]]),
    "strings": (["abc", "bad"], [["x", "y", "z"], ["z", "x", "y"]]),
    "words": ([["to", "be"], ["be", "or"]], [["A", "B"], ["C", "B"]]),
    "string array": (np.array([["to", "be"], ["be", "or"]]), np.array([["A", "B"], ["C", "B"]])),
    "tensor": (torch.tensor(IDS), torch.tensor(LABELS)),
    "vectors": (np.array(VECTORS), np.array([[0, 1], [2, 0]])),
    "rows of arrays": ([np.array([3, 1, 4]), np.array([1, 5])], [np.array([0, 1, 2]), np.array([2, 0])]),
    "real labels": (IDS, [[0.5, 1.0, 2.0], [3.0, 4.0, 5.5]]),
    "real vectors": (np.array(IDS), np.random.default_rng(0).random((2, 3, 2))),
    "one per sequence": (IDS, ["yes", "no"]),
    "one real a sequence": (IDS, np.array([0.25, 0.75])),
    "truth": (IDS, [[True, False, True], [False, True, False]]),
}


def swap_tokens(data: Sequences) -> Sequences:
    tokens = data.tokens.copy()
    tokens[[0, 1]] = tokens[[1, 0]]
    return replace(data, tokens=tokens)


def roll_labels(data: Sequences) -> Sequences:
    assert data.labels is not None
    return replace(data, labels=replace(data.labels, values=np.roll(data.labels.values, 1, axis=0)))


FAULTS: list[Callable[[Sequences], Sequences]] = [
    swap_tokens,
    roll_labels,
    lambda data: data.select(range(len(data) - 1)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_the_shared_reader_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong data are memorized without a flaw; what is read rightly passes."""
    X, Y = KINDS[kind]
    assert ml.certify(ml.memorize(X, Y), X, Y).verdict == "proved"
    of = Sequences.of
    for fault in FAULTS:
        monkeypatch.setattr(Sequences, "of", lambda X, Y=None, fault=fault, **options: fault(of(X, Y, **options)))
        with pytest.raises(DataError, match="the reader is at fault"):
            ml.certify(ml.memorize(X, Y), X, Y)
        if kind == "words":
            with pytest.raises(DataError, match="the reader is at fault"):
                ml.certify(ml.memorize_as("bert", X, Y, positions=True), X, Y)


def test_a_fault_in_the_table_of_names_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = KINDS["words"]
    finish = Column.finish

    def faulty(column: Column) -> Any:
        values, names, scalar = finish(column)
        return values, names and Names(tuple(reversed(names.names))), scalar

    monkeypatch.setattr(Column, "finish", faulty)
    with pytest.raises(DataError, match="the reader is at fault"):
        ml.certify(ml.memorize(X, Y), X, Y)
    with pytest.raises(DataError, match="the reader is at fault"):
        ml.certify(ml.memorize_as("bert", X, Y), X, Y)


def test_the_words_name_the_place() -> None:
    """Padding is cut by the checker itself, and data that can be walked through once are judged too."""
    X, Y, lengths = np.array([[1, 2, 0], [2, 1, 3]]), np.array([[0, 1, 9], [1, 0, 2]]), [2, 3]
    assert ml.certify(ml.memorize(X, Y, lengths=lengths), X, Y, lengths=lengths).verdict == "proved"
    assert ml.certify(ml.memorize(IDS, LABELS), iter(IDS), iter(LABELS)).verdict == "proved"
    data = Sequences.of(IDS, LABELS)
    for given, words in (
        (([[3, 1, 4], [1, 5, 8]], LABELS), "token 2 of sequence 1 was given as 8"),
        ((IDS, [[0, 1, 2], [7, 0, 1]]), "the label of token 0 of sequence 1 was given as 7"),
        (([*IDS, [1]], None), "3 sequences were given and 2 were read"),
        ((IDS, LABELS, [3, 2]), "sequence 1 has 2 tokens and 3 were read"),
    ):
        with pytest.raises(DataError, match=words):
            confirm(data, *given)
