"""Which rows of the data are meant: sequences, row numbers, a predicate, or a token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from monolayer.data import Sequences
from monolayer.data.columns import array_like, plain_array
from monolayer.data.names import Ints
from monolayer.editing.cells import RobustFacts
from monolayer.editing.facts import Facts
from monolayer.editing.whole import WholeFacts
from monolayer.errors import DataError


def names_rows(X: Any) -> bool:
    """Whether `X` says which rows of the data are meant, rather than giving sequences."""
    X = array_like(X)
    if callable(X) or isinstance(X, str | int):
        return True
    return (plain_array(X) and X.ndim == 1 and X.dtype.kind in "iub") or (
        isinstance(X, list | tuple | range) and len(X) > 0 and all(isinstance(array_like(x), int) for x in X)
    )


def chosen_rows(facts: Facts | RobustFacts | WholeFacts, X: Any, lengths: Any = None) -> Ints:
    """Rows `(K,)` in rising order, at least one, none of them forgotten before."""
    if isinstance(X, Sequences) or not names_rows(X):
        asked = replace(facts.model.encode(X, lengths=lengths), labels=None)  # a sequence goes whatever its labels
        return _equal_rows(facts, asked) if isinstance(facts, Facts) else facts.equal_rows(asked)
    X = array_like(X)
    if callable(X):
        rows = _where(facts, X)
    elif isinstance(X, str | int):
        rows = _containing(facts, X)
    else:
        rows = _numbered(facts, np.asarray(X))
    return rows


def _numbered(facts: Facts | RobustFacts | WholeFacts, X: Any) -> Ints:
    size = len(facts.gone)
    if X.dtype == bool:
        if X.shape != (size,):
            raise DataError(f"a mask of rows needs one entry a row: {size:,}, not {len(X):,}")
        X = np.flatnonzero(X)
    if len(X) == 0:
        raise DataError("no row is chosen")
    bad = X[(X < 0) | (size <= X)]
    if len(bad):
        raise DataError(f"there is no row {bad[0]}: the data have {size:,}, from 0 on")
    rows = np.unique(X)
    if facts.gone[rows].any():
        raise DataError(f"row {rows[facts.gone[rows]][0]} was forgotten before")
    return rows


def _where(facts: Facts | RobustFacts | WholeFacts, predicate: Callable[[Any, Any], Any]) -> Ints:
    """Rows for which `predicate(tokens, labels)` is true; both by the names that users know."""
    data, kept = facts.data, np.flatnonzero(~facts.gone)
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    labels: list[Any] = [None] * len(data)
    if data.labels is not None:
        decoded = data.labels.decode(data.labels.values)
        labels = list(decoded) if data.labels.per == "sequence" else data.split(decoded)
    chosen = [bool(predicate(tokens, label)) for tokens, label in zip(data.split(names), labels, strict=True)]
    rows: Ints = kept[np.array(chosen)]
    if len(rows) == 0:
        raise DataError("no row of the data fulfils the predicate")
    return rows


def _containing(facts: Facts | RobustFacts | WholeFacts, token: str | int) -> Ints:
    """Rows that contain a token."""
    names = facts.draw.card.vocabulary
    if names is None:
        raise DataError("tokens of this model are vectors: give sequences, row numbers or a predicate")
    if token not in names:
        raise DataError(f"{token!r} is no token of this model")
    number, found, start = names.rows[token] if not names.identity else int(token), [], 0
    for part in facts.parts:
        found.append(start + np.unique(part.sequence[part.tokens == number]))
        start += len(part)
    rows: Ints = np.concatenate(found)
    rows = rows[~facts.gone[rows]]
    if len(rows) == 0:
        raise DataError(f"no row of the data contains {token!r}")
    return rows


def _equal_rows(facts: Facts, data: Sequences) -> Ints:
    """Rows that are one of these sequences; where order does not count, in any order."""
    card = facts.draw.card
    if card.next_token and (data.lengths < 2).any():
        row = int(np.flatnonzero(data.lengths < 2)[0])
        raise DataError(
            f"sequence {row} of what is to be forgotten has no next token, so the model learnt nothing of it"
        )
    last = data.offsets[1:] - (2 if card.next_token else 1)
    target = facts.target(data)
    z, _ = facts.draw.place(data, target)
    if card.per == "token":
        z = z[last if target.place is None else np.searchsorted(target.place, last)]
    question, point = facts.matches(data, last if card.per == "token" else np.arange(len(data)), z)
    rows = facts.row(facts.place[point])
    if card.causal:
        same = [_same(facts, data, int(q), int(row)) for q, row in zip(question, rows, strict=True)]
        question, rows = question[np.array(same, dtype=bool)], rows[np.array(same, dtype=bool)]
    missing = np.setdiff1d(np.arange(len(data)), question)
    if len(missing):
        raise DataError(
            f"sequence {missing[0]} of what is to be forgotten is not in the data ({len(missing):,} such in all)"
        )
    return np.unique(rows)


def _same(facts: Facts, data: Sequences, question: int, row: int) -> bool:
    """A prefix is not the sequence: in a causal model equal contexts of the last token are not enough."""
    own = data.tokens[int(data.offsets[question]) : int(data.offsets[question + 1])]
    return np.array_equal(own, facts.rows(np.array([row])).tokens)
