"""What was read against what was given: the checker's own look at arrays, lists and names.

Builder and checker read data with one reader (`monolayer.data`). A fault in it would give both the same wrong data, and
a model of the wrong data would be proved. So the checker takes the caller's own arrays and lists once more, in a few
lines that share nothing with the reader, and compares token by token and label by label. Data that come as `Sequences`,
as those read from files do, were read before; nothing is left to compare them with.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from monolayer.data import Sequences
from monolayer.errors import DataError


def again(X: Any) -> Any:
    """`X` itself, or a list of what it yields if it can be walked through only once."""
    return list(X) if hasattr(X, "__next__") else X


def confirm(data: Sequences, X: Any, Y: Any = None, lengths: Any = None, unit: str = "characters") -> None:
    """Raise an error unless `data` hold the tokens of `X` and the labels of `Y`, in their order and no others.

    `unit`: what a string in the place of a sequence is.
    """
    if data.prompts is not None and not isinstance(X, Sequences):
        _compare_texts(data, _plain(X), _plain(Y))
        return
    read = data.lengths.tolist()
    sizes = None if lengths is None else list(_plain(lengths))
    if not isinstance(X, Sequences):
        rows = X if _numbers(X) else [_cut(row, unit) if isinstance(row, str) else _plain(row) for row in _plain(X)]
        _equal_sizes(read, [len(row) for row in rows] if sizes is None else sizes)
        _compare("token", data, data.tokens, data.vocabulary, _flat(rows, sizes))
    if Y is not None and data.labels is not None:
        rows = Y if _numbers(Y) else [_plain(row) for row in _plain(Y)]
        names = data.labels.classes
        if data.labels.per == "token":
            if not isinstance(rows, np.ndarray):  # a row may be None, or NaN, as a whole
                rows = [[None] * n if r is None or r != r else r for r, n in zip(rows, read, strict=True)]
            rows = _flat(rows, read)
        there = _labelled(rows, names is not None)
        if not np.array_equal(there, data.labelled_places):
            odd = int(np.setxor1d(there, data.labelled_places)[0])
            was, not_so = ("one", "none") if odd in there else ("none", "one")
            raise _fault(f"{data.labelled(odd)} was given with {was} label and read with {not_so}")
        if len(there) < len(rows):
            rows = rows[there] if isinstance(rows, np.ndarray) else [rows[i] for i in there.tolist()]
        _compare("label", data, data.labels.values, names, rows)


def _cut(text: str, unit: str) -> list[str]:
    return text.split() if unit == "words" else [text] if unit == "whole" else list(text)


def _labelled(rows: Any, classes: bool) -> Any:
    """Which of the given labels are labels: not None, not NaN, and no −100 among classes."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return np.flatnonzero(rows != -100) if rows.ndim == 1 and classes else np.arange(len(rows))
    if isinstance(rows, np.ndarray):
        return np.flatnonzero(~np.isnan(rows).reshape(len(rows), -1).all(axis=1))
    if set(map(type, rows)) <= {str, int, bool} and not (classes and -100 in rows):
        return np.arange(len(rows))
    return np.flatnonzero([not _none(_plain(one)) and not (classes and _plain(one) == -100) for one in rows])


def _none(one: Any) -> bool:
    """None, NaN, or a vector of NaN alone."""
    return one is None or (all(map(_none, one)) if isinstance(one, list) and one else bool(one != one))


def _plain(value: Any) -> Any:
    """Arrays, tensors and their kin as lists; strings, numbers and lists as they are."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return np.asarray(value).tolist() if hasattr(value, "__array__") else value


def _numbers(value: Any) -> bool:
    """Whether `value` is an array of machine numbers, which is compared as a whole."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iuf"


def _flat(rows: Any, sizes: Iterable[int] | None) -> Any:
    """Values of all rows one after the other, each row cut to its size."""
    if isinstance(rows, np.ndarray):
        if sizes is None or all(size == rows.shape[1] for size in sizes):
            return rows.reshape(-1, *rows.shape[2:])
        return np.concatenate([row[:size] for row, size in zip(rows, sizes, strict=True)])
    return list(chain.from_iterable(rows if sizes is None else (r[:n] for r, n in zip(rows, sizes, strict=True))))


def _equal_sizes(read: list[int], given: list[int]) -> None:
    if len(read) != len(given):
        raise _fault(f"{len(given)} sequences were given and {len(read)} were read")
    if read != given:
        row = next(i for i, (a, b) in enumerate(zip(read, given, strict=True)) if a != b)
        raise _fault(f"sequence {row} has {given[row]} tokens and {read[row]} were read")


def _compare(what: str, data: Sequences, rows: Any, names: Any, given: Any) -> None:
    """`rows` as read, by their `names` or, without names, as real numbers, against the `given` values."""
    if len(rows) != len(given):
        raise _fault(f"{len(given)} {what}s were given and {len(rows)} were read")
    if names is None:
        wanted = np.array([_plain(value) for value in given] if isinstance(given, list) else given, dtype=np.float64)
        wrong = (wanted.reshape(len(rows), -1) != rows.reshape(len(rows), -1)).any(axis=1)
    elif isinstance(given, np.ndarray):
        own = rows if isinstance(names.names, range) else np.array(names.names, dtype=object)[rows]
        wrong = np.asarray(own != given, dtype=bool)
    else:
        own = rows.tolist() if isinstance(names.names, range) else list(map(names.names.__getitem__, rows.tolist()))
        if own == given:
            return
        wrong = np.array([a != b for a, b in zip(own, given, strict=True)])
    if wrong.any():
        place = int(wrong.argmax())
        at = place if what == "token" else int(data.labelled_places[place])
        of = data.where(at) if what == "token" else f"the label of {data.labelled(at)}"
        raise _fault(f"{of} was given as {_plain(given[place])!r} and read as something else")


def _compare_texts(data: Sequences, prompts: Any, answers: Any) -> None:
    """Text is cut without loss, so what was read must give it back."""
    read = [data.texts(row) for row in range(len(data))]
    given = list(zip(prompts, [""] * len(prompts) if answers is None else answers, strict=True))
    if len(read) != len(given):
        raise _fault(f"{len(given)} prompts were given and {len(read)} were read")
    for row, (one, two) in enumerate(zip(read, given, strict=True)):
        if one != two:
            raise _fault(f"prompt and answer of sequence {row} were given as {two!r} and read as {one!r}")


def _fault(words: str) -> DataError:
    return DataError(f"{words}: the reader is at fault, so nothing is proved. Please report it with the data")
