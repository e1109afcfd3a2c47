"""Turn texts into ids with a tokenizer from Hugging Face's libraries."""

from __future__ import annotations

from typing import Any

from monolayer.data import Sequences
from monolayer.errors import DataError


def tokenized(X: Any, tokenizer: Any) -> Any:
    """The ids that `tokenizer` gives the texts in `X`, one list per text.

    `X` holds strings, lists of words, or is a `Sequences` of either. If it holds no strings, it is returned unchanged.
    """
    texts = _texts(X)
    if texts is None:
        return X
    ids = []
    for number, text in enumerate(texts):
        where = X.named(number) if isinstance(X, Sequences) else f"text {number}"
        try:
            pieces = tokenizer(text, is_split_into_words=True) if isinstance(text, list) else tokenizer(text)
            ids.append([int(each) for each in pieces["input_ids"]])
        except Exception as error:  # a tokenizer that somebody else wrote may raise any exception
            raise DataError(f"the tokenizer does not take {where}: {type(error).__name__}: {error}") from error
        if not ids[-1]:
            raise DataError(f"{where}, {text!r}, has no token: leave it out")
    return ids


def _texts(X: object) -> list[object] | None:
    """The texts in `X`, each a string or a list of words; None if `X` holds no strings."""
    if isinstance(X, Sequences):
        if X.vocabulary is None or X.vocabulary.integers:
            return None
        rows = [row.tolist() for row in X.split(X.vocabulary.decode(X.tokens))]
        return [row[0] for row in rows] if X.vocabulary.cuts == "whole" else rows
    if isinstance(X, str):
        raise DataError("X is one string: give a list of texts")
    if not isinstance(X, list | tuple) or not X:
        return None
    first = X[0]
    if isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, str):
        return None
    return [text if isinstance(text, str) else list(text) for text in X]
