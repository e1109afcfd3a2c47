"""What was read against what was given: the checker's own look at arrays, lists and names.

Builder and checker read data with one reader (`monolayer.data`). A fault in it would give both the same wrong data, and
a model of the wrong data would be proved. So the checker takes the caller's own arrays and lists once more, in a few
lines that share nothing with the reader, and compares token by token and label by label. Data that come as `Sequences`,
as those read from files do, were read before; nothing is left to compare them with.
"""

from __future__ import annotations

from itertools import chain
from operator import ne
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
    if not isinstance(X, Sequences):
        rows = X if _numbers(X) else [_cut(row, unit) if isinstance(row, str) else _plain(row) for row in _plain(X)]
        given = [len(row) for row in rows] if lengths is None else list(_plain(lengths))
        if len(read) != len(given):
            raise _fault(f"{len(given)} sequences were given and {len(read)} were read")
        for row, (one, two) in enumerate(zip(read, given, strict=True)):
            if one != two:
                raise _fault(f"sequence {row} has {two} tokens and {one} were read")
        _compare("token", data, data.tokens, data.vocabulary, _flat(rows, given))
    if Y is not None and data.labels is not None:
        rows, names = Y if _numbers(Y) else [_plain(row) for row in _plain(Y)], data.labels.classes
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
    if not isinstance(rows, np.ndarray):
        return np.flatnonzero([not _none(_plain(one)) and not (classes and _plain(one) == -100) for one in rows])
    if rows.dtype.kind == "f":
        return np.flatnonzero(~np.isnan(rows).reshape(len(rows), -1).all(axis=1))
    return np.flatnonzero(rows != -100) if classes else np.arange(len(rows))


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


def _flat(rows: Any, sizes: list[int]) -> Any:
    """Values of all rows one after the other, each row cut to its size."""
    if not isinstance(rows, np.ndarray):
        return list(chain.from_iterable(row[:size] for row, size in zip(rows, sizes, strict=True)))
    inside = np.arange(rows.shape[1]) < np.array(sizes)[:, None]
    return rows[inside] if rows.ndim > 1 else rows


def _compare(what: str, data: Sequences, rows: Any, names: Any, given: Any) -> None:
    """`rows` as read, by their `names` or, without names, as real numbers, against the `given` values."""
    if len(rows) != len(given):
        raise _fault(f"{len(given)} {what}s were given and {len(rows)} were read")
    if names is None:
        wanted = np.array([_plain(value) for value in given] if isinstance(given, list) else given, dtype=np.float64)
        wrong = (wanted.reshape(len(rows), -1) != rows.reshape(len(rows), -1)).any(axis=1)
    else:
        own = rows if isinstance(names.names, range) else np.array(names.names, dtype=object)[rows]
        wrong = np.array(own != given if isinstance(given, np.ndarray) else [*map(ne, own.tolist(), given)])
    if wrong.any():
        place = int(wrong.argmax())
        at = place if what == "token" else int(data.labelled_places[place])
        of = data.where(at) if what == "token" else f"the label of {data.labelled(at)}"
        raise _fault(f"{of} was given as {_plain(given[place])!r} and read as something else")


def _compare_texts(data: Sequences, prompts: Any, answers: Any) -> None:
    """Text is cut without loss, so what was read must give it back."""
    given = list(zip(prompts, [""] * len(prompts) if answers is None else answers, strict=True))
    if len(data) != len(given):
        raise _fault(f"{len(given)} prompts were given and {len(data)} were read")
    for row, two in enumerate(given):
        if data.texts(row) != two:
            raise _fault(f"prompt and answer of sequence {row} were given as {two!r} and read as {data.texts(row)!r}")


def _fault(words: str) -> DataError:
    return DataError(f"{words}: the reader is at fault, so nothing is proved. Please report it with the data")
