"""Which rows of the data a caller means: by numbers, a mask, a token, a predicate, or the sequences themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monolayer.arrays import Ints
from monolayer.data import Sequences
from monolayer.data.columns import array_like, plain_array
from monolayer.data.distinct import distinct_rows, distinct_runs
from monolayer.editing.subject import Subject
from monolayer.errors import DataError


def chosen_rows(subject: Subject, data: Sequences, X: Any, lengths: Any = None) -> Ints:
    """Rows `(K,)` of the data in rising order, at least one."""
    if isinstance(X, Sequences) or not names_rows(X):
        if data.prompts is not None:  # an answer that comes along does not count
            X, lengths = Sequences.of(X, lengths=lengths, per="answer").only_prompts(), None
        card, names = subject.model.card, data.vocabulary
        if names is not None and card.vocabulary is not None:
            names = names.cut_into(card.vocabulary.unit)
        asked = Sequences.of(X, lengths=lengths, vocabulary=names, like=card.manner)
        return _equal(subject, data.only_prompts(), asked)
    X = array_like(X)
    if callable(X):
        return _where(data, X)
    return _containing(data, X) if isinstance(X, str | int) else _numbered(len(data), np.asarray(X))


def names_rows(X: Any) -> bool:
    """Whether `X` chooses rows of the data rather than being sequences."""
    X = array_like(X)
    if callable(X) or isinstance(X, str | int):
        return True
    return (plain_array(X) and X.ndim == 1 and X.dtype.kind in "iub") or (
        isinstance(X, list | tuple | range) and len(X) > 0 and all(isinstance(array_like(x), int) for x in X)
    )


def _numbered(size: int, X: Any) -> Ints:
    if X.dtype == bool:
        if X.shape != (size,):
            raise DataError(f"a mask of rows needs one entry per row: {size:,}, not {len(X):,}")
        X = np.flatnonzero(X)
    if len(X) == 0:
        raise DataError("no row is chosen")
    bad = X[(X < 0) | (size <= X)]
    if len(bad):
        raise DataError(f"there is no row {bad[0]}: the data have {size:,}, from 0 on")
    return np.unique(X)


def _where(data: Sequences, predicate: Callable[[Any, Any], Any]) -> Ints:
    """Rows for which `predicate(tokens, labels)` is true, by the names that users know; or of prompt and answer."""
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    labels: list[Any] = [None] * len(data)
    decoded = data.named_labels()
    if data.labels is not None and decoded is not None:
        labels = list(decoded) if data.labels.per == "sequence" else data.split(decoded)
    pairs: list[Any] = list(zip(data.split(names), labels, strict=True))
    if data.prompts is not None:
        pairs = [data.texts(row) for row in range(len(data))]
    rows = np.flatnonzero([bool(predicate(tokens, label)) for tokens, label in pairs])
    if len(rows) == 0:
        raise DataError("no row of the data fulfils the predicate")
    return rows


def _containing(data: Sequences, token: str | int) -> Ints:
    """Rows that contain a token."""
    names = data.vocabulary
    if names is None:
        raise DataError("tokens of this model are vectors: give sequences, row numbers or a predicate")
    if isinstance(token, str) and names.integers and token.lstrip("-").isdecimal():
        token = int(token)  # from the command line
    if token not in names:
        more = "" if data.prompts is None else "; prompts are given as a list"
        raise DataError(f"{token!r} is no token of this model{more}")
    rows = np.unique(data.sequence[data.tokens == (token if names.identity else names.rows[token])])
    if len(rows) == 0:
        raise DataError(f"no row of the data contains {token!r}")
    return rows


def _equal(subject: Subject, data: Sequences, asked: Sequences) -> Ints:
    """Rows that are one of these sequences; where order does not count, in any order."""
    if (asked.vocabulary is None) != (data.vocabulary is None) or asked.tokens.shape[1:] != data.tokens.shape[1:]:
        raise DataError("the sequences to forget are not of the same kind of tokens as the data")
    tokens = subject.seen(np.concatenate([asked.tokens, data.tokens]))
    tokens = tokens if tokens.ndim == 1 else distinct_rows(tokens)[1]
    lengths = np.concatenate([asked.lengths, data.lengths])
    if not subject.ordered:
        tokens = tokens[np.lexsort((tokens, np.repeat(np.arange(len(lengths)), lengths)))]
    runs = distinct_runs(tokens, lengths)  # equal iff the sequences are; without order, as multisets
    mine, theirs = runs[: len(asked)], runs[len(asked) :]
    missing = np.flatnonzero(~np.isin(mine, theirs))
    if len(missing):
        raise DataError(
            f"sequence {missing[0]} of what is to be forgotten is not in the data ({len(missing):,} such in all)"
        )
    return np.flatnonzero(np.isin(theirs, mine))
