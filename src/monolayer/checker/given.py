"""Compares the data that were read with the data that the caller gave.

Builder and checker use one reader (`monolayer.data`). A fault in it would give both the same wrong data, and a model of
wrong data would be proved. So the checker reads what the caller gave a second time, from the plan that the reader
states (`data/plan.py`), in code that shares nothing with the reader, and compares token by token and label by label.
Nothing is guessed here: a plan that says what nobody meant is stated in the certificate, where people can see it.
Arrays and lists are compared here, dicts and tables in `rows.py`, files in `files.py`. Data that come as `Sequences`
were read before, and there is nothing to compare them with.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Sequence
from itertools import chain
from operator import ne
from typing import Any

import numpy as np

from monolayer.arrays import Bools
from monolayer.data import Sequences
from monolayer.data.plan import ReadPlan
from monolayer.errors import DataError

CHUNK = 1 << 16
"""How many tokens are compared at a time, so that few of them are Python objects at any moment."""

IGNORED = -100
"""The value that means "no label" among the labels of tokens."""
_PLAIN = {str, int, float, bool, list, type(None)}


def repeatable(X: Any) -> Any:
    """`X` itself, or a list of its items if it is an iterator, which can be read only once, or the items of a dict."""
    return list(X) if hasattr(X, "__next__") or isinstance(X, ItemsView) else X


class DataComparison:
    """Compares `data` with what the caller gave, part by part, and raises an error at the first difference.

    Each call compares the next part, so the data never need to be Python objects all at once.
    """

    def __init__(self, data: Sequences) -> None:
        self.data = data
        self._sequences = self._tokens = self._places = self._labels = 0  # compared so far
        self._labelled = _labelled_places(data)
        self._reals = False
        self._gaps = 0
        self._names: dict[int, Any] = {}

    def lengths(self, given: object) -> None:
        """Compare the lengths of the next sequences."""
        wanted = np.asarray(given, dtype=np.int64)
        read = self.data.lengths[self._sequences : self._sequences + len(wanted)]
        if len(read) < len(wanted):
            count = self._sequences + len(wanted)
            raise fault(f"{count} or more sequences were given and {len(self.data)} were read")
        if (wrong := read != wanted).any():
            row = int(wrong.argmax())
            raise fault(f"sequence {self._sequences + row} has {wanted[row]} tokens and {read[row]} were read")
        self._sequences += len(wanted)

    def tokens(self, given: Any) -> None:
        """Compare the next tokens with a list or an array."""
        start, self._tokens = self._tokens, self._tokens + len(given)
        wrong = self._differs(self.data.tokens[start : self._tokens], self.data.vocabulary, given)
        if wrong is not None:
            raise fault(f"{self.data.where(start + wrong)} was given as {plain(given[wrong])!r} and read as another")

    def labels(self, given: Any) -> None:
        """Compare the labels of the next tokens or sequences with a list or an array, which may have gaps."""
        data, labels = self.data, self.data.labels
        start, self._places = self._places, self._places + len(given)
        # Among real numbers −100 is a number like any other, and so it is where a label belongs to a sequence.
        by_class = labels is None or (labels.labelling.at_tokens and labels.classes is not None)
        there = _labelled(given, by_class)
        self._gaps += len(given) - int(np.count_nonzero(there))
        if labels is None:
            if there.any():
                place = data.labelled(start + int(there.argmax()))
                raise fault(f"{place} was given with a label and no labels were read")
            return
        there_too = self._labelled[start : self._places]  # fewer, or none, if more were given than read
        read = np.zeros(len(given), dtype=bool)
        read[: len(there_too)] = there_too
        if not np.array_equal(there, read):
            odd = int((there != read).argmax())
            was, not_so = ("one", "none") if there[odd] else ("none", "one")
            raise fault(f"{data.labelled(start + odd)} was given with {was} label and read with {not_so}")
        first, self._labels = self._labels, self._labels + int(np.count_nonzero(there))
        if self._labels < first + len(given):
            given = given[there] if isinstance(given, np.ndarray) else [given[i] for i in np.flatnonzero(there)]
        real = _has_reals(given)
        self._reals |= real
        wrong = self._differs(labels.values[first : self._labels], labels.classes, given)
        if wrong is None and real and labels.classes is not None:
            wrong = 0
        if wrong is not None:
            place = data.labelled(start + int(np.flatnonzero(there)[wrong]))
            raise fault(f"the label of {place} was given as {plain(given[wrong])!r} and read as another")

    def finish(self) -> None:
        """Raise an error if more was read than was given, or if integers were read as real numbers."""
        if self._sequences < len(self.data):
            raise fault(f"{self._sequences} sequences were given and {len(self.data)} were read")
        labels = self.data.labels
        if labels is not None and self._places < self.data.labellable:
            raise fault(f"{self._places} labels and gaps were given and {self.data.labellable} were read")
        if labels is not None and labels.scalar and not self._reals:
            raise fault("labels were given as integers and read as real numbers")
        rows, gaps = (sum(getattr(plan, count) for plan in self.data.plans) for count in ("rows", "gaps"))
        if rows != self._sequences or (labels is not None and gaps != self._gaps):
            raise fault(
                f"{self._sequences} sequences with {self._gaps} gaps were given, and the plan states {rows} with {gaps}"
            )

    def _differs(self, read: Any, names: Any, given: Any) -> int | None:
        """Number of the first value in `read` that differs from `given`, None if all agree.

        `read`: row numbers of `names`, or real numbers if `names` is None.
        """
        if len(read) != len(given):
            raise fault(f"{len(given)} values were given where {len(read)} were read")
        if names is None and isinstance(given, np.ndarray) and not _large(given):
            wrong = (given.reshape(len(read), -1) != read.reshape(len(read), -1)).any(axis=1)
        elif names is None:
            # Python compares an integer and a real number exactly.
            wrong = np.array([*map(ne, read.tolist(), map(_vector, given))])
        else:
            read_again = read if isinstance(names.names, range) else self._array(names)[read]
            read_again = read_again if isinstance(given, np.ndarray) else read_again.tolist()
            if isinstance(read_again, list) and read_again == given:
                return None
            wrong = np.array(read_again != given if isinstance(given, np.ndarray) else [*map(ne, read_again, given)])
        return int(wrong.argmax()) if wrong.any() else None

    def _array(self, names: Any) -> Any:
        """The names as an array, which is made only once per table."""
        return self._names.setdefault(id(names), np.array(names.names, dtype=object))


def confirm_arrays(comparison: DataComparison, X: Any, Y: Any, lengths: Any, plan: ReadPlan) -> None:
    """Compare the next sequences with arrays, tensors or lists, which were read as `plan` says."""
    block = max(1, CHUNK // X.shape[1]) if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "U" else 0
    if 0 < block < len(X) and isinstance(Y, np.ndarray | list | None):  # few strings are Python objects at any moment
        for start in range(0, len(X), block):
            some = slice(start, start + block)
            labels, sizes = (None if each is None else each[some] for each in (Y, lengths))
            confirm_arrays(comparison, X[some], labels, sizes, plan)
        return
    if plan.unit == "whole" and _is_machine_numbers(X) and X.ndim == 1:
        X = X[:, None]
    rows = X if _is_machine_numbers(X) else [_sequence(row, plan) for row in plain(X)]
    sizes = plain(lengths)
    if lengths is None:
        sizes = np.full(len(rows), rows.shape[1]) if isinstance(rows, np.ndarray) else [len(row) for row in rows]
    comparison.lengths(sizes)
    comparison.tokens(_flat(rows, sizes))
    if Y is not None:
        confirm_labels(comparison, Y, sizes)


def confirm_labels(comparison: DataComparison, Y: Any, sizes: Any) -> None:
    """Compare the labels of the next sequences, of lengths `sizes`, with an array or a list."""
    labels = comparison.data.labels
    rows = Y if _is_machine_numbers(Y) else [plain(row) for row in plain(Y)]
    if labels is not None and labels.labelling.at_tokens:
        if not isinstance(rows, np.ndarray):  # a row may be None, or NaN, as a whole
            rows = [[None] * size if _none(row) else row for row, size in zip(rows, sizes, strict=True)]
        rows = _flat(rows, sizes)
    comparison.labels(rows)


def confirm_rows(comparison: DataComparison, rows: Iterable[tuple[object, object]], plan: ReadPlan) -> None:
    """Compare the next sequences with rows: tokens or text, and their label or labels, which were read as `plan` says.

    Labels that came apart from the rows are not compared here.
    """
    sizes, tokens, labels = list[int](), list[object](), list[object]()

    def compare() -> None:
        comparison.lengths(sizes)
        comparison.tokens(tokens)
        if not plan.apart:
            comparison.labels(labels)
        for compared in (sizes, tokens, labels):
            compared.clear()

    for text, label in rows:
        row = _sequence(text, plan)
        sizes.append(len(row))
        tokens += row
        labels += _per_token(plain(label), len(row)) if plan.labels_tokens else [plain(label)]
        if len(tokens) >= CHUNK:
            compare()
    compare()


def confirm_texts(data: Sequences, rows: Iterable[tuple[Any, Any]], plans: Sequence[ReadPlan]) -> None:
    """Compare prompts and answers with rows of both. Text is cut without loss, so what was read must give it back.

    An answer may have got a space in front; the plans state how many did.
    """
    count = spaced = 0
    for row, (prompt, answer) in enumerate(rows):
        given, count = (prompt, "" if _none(answer) else answer), row + 1
        if row >= len(data):
            continue
        read = data.texts(row)
        with_space = bool(given[1]) and read == (prompt, f" {answer}")
        spaced += with_space
        if read != given and not with_space:
            raise fault(f"prompt and answer of sequence {row} were given as {given!r} and read as {read!r}")
    if count != len(data):
        raise fault(f"{count} prompts were given and {len(data)} were read")
    stated = sum(plan.spaced for plan in plans)
    if spaced != stated:
        raise fault(f"{spaced} answers were read with a space in front, and the plan states {stated}")


def _per_token(label: Any, count: int) -> list[Any]:
    """The labels of `count` tokens, given as a list, or as text with one word or one character per token."""
    if _none(label):
        return [None] * count
    labels = list(label)
    if isinstance(label, str):
        words = label.split()
        labels = words if len(words) == count else list(label.strip())
    if len(labels) != count:
        raise fault(f"{count} tokens were given with {len(labels)} labels and read with one each")
    return labels


def _sequence(row: object, plan: ReadPlan) -> Any:
    """The tokens of one sequence: a string is cut as the plan says, and a lone integer is one token."""
    if isinstance(row, str):
        if plan.unit is None:
            raise fault(f"the text {row!r:.80} was read, and the plan does not state how text is split")
        return row.split() if plan.unit == "words" else [row] if plan.unit == "whole" else list(row)
    tokens = plain(row)
    return [tokens] if isinstance(tokens, int) else tokens


def _labelled_places(data: Sequences) -> Bools:
    """Whether each place that may have a label was read with one."""
    if data.prompts is None and (data.labels is None or data.labels.place is None):
        return np.ones(data.labellable, dtype=bool)
    there = np.zeros(data.labellable, dtype=bool)
    there[data.labelled_places] = True
    return there


def _labelled(rows: Any, ignored: bool) -> Bools:
    """Whether each of the given labels is one, not a gap: None and NaN are gaps; so is −100 if it is `ignored`."""
    if not isinstance(rows, np.ndarray):
        kinds = set(map(type, rows))
        if kinds <= {str, int, bool}:
            skips = ignored and int in kinds
            return np.array([one != IGNORED for one in rows]) if skips else np.ones(len(rows), dtype=bool)
        labels = [not _none(plain(one)) and not (ignored and plain(one) == IGNORED) for one in rows]
        return np.array(labels, dtype=bool)
    if rows.dtype.kind == "f":
        return np.logical_not(np.isnan(rows).reshape(len(rows), -1).all(axis=1))
    return np.asarray(rows != IGNORED) if ignored else np.ones(len(rows), dtype=bool)


def _none(one: object) -> bool:
    """Whether a label is a gap: None, NaN, NA of pandas, or a list of None and NaN only."""
    if isinstance(one, list):
        return len(one) > 0 and all(each is None or (isinstance(each, float) and each != each) for each in one)
    return one is None or type(one).__name__ in ("NAType", "NaTType") or bool(one != one)


def _has_reals(given: Any) -> bool:
    """Whether an array or list has real numbers among its values."""
    return given.dtype.kind == "f" if isinstance(given, np.ndarray) else float in set(map(type, given))


def _large(numbers: Any) -> bool:
    """Whether an array holds integers that NumPy would round when it compares them with real numbers."""
    return numbers.dtype.kind in "iu" and numbers.size > 0 and max(int(numbers.max()), -int(numbers.min())) > 2**53


def _vector(value: object) -> list[object]:
    """A real vector as a list; a number as a list of one."""
    vector = plain(value)
    return [plain(one) for one in vector] if isinstance(vector, list | tuple) else [vector]


def plain(value: Any) -> Any:
    """Arrays, tensors, columns and tables as lists, with None for what is masked or missing; all else unchanged."""
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "iter_rows") or hasattr(value, "itertuples"):  # a table of labels: Polars, pandas
        rows = value.iter_rows() if hasattr(value, "iter_rows") else value.itertuples(index=False, name=None)
        return [list(row) for row in rows]
    if hasattr(value, "num_columns"):  # an Arrow table
        return [list(row) for row in zip(*(column.to_pylist() for column in value.columns), strict=True)]
    for method in ("to_pylist", "to_list", "tolist"):  # Arrow; Polars and pandas; NumPy and PyTorch
        if hasattr(value, method):
            return getattr(value, method)()
    return np.asarray(value).tolist() if hasattr(value, "__array__") else value


def _is_machine_numbers(value: object) -> bool:
    """Whether `value` is an array of machine numbers without a mask, which is compared as a whole."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and not isinstance(value, np.ma.MaskedArray)


def _flat(rows: Any, sizes: Any) -> Any:
    """The values of all rows one after the other; row `i` counts up to `sizes[i]`."""
    if not isinstance(rows, np.ndarray):
        return list(chain.from_iterable(row[:size] for row, size in zip(rows, sizes, strict=True)))
    if rows.ndim == 1:
        return rows
    sizes = np.asarray(sizes)
    if len(sizes) == len(rows) and (sizes >= rows.shape[1]).all():
        return rows.reshape(len(rows) * rows.shape[1], *rows.shape[2:])
    return rows[np.arange(rows.shape[1]) < sizes[:, None]]


def fault(words: str) -> DataError:
    """The error to raise if data were not read as they were given."""
    return DataError(f"{words}: this is a bug in the reader, so nothing is proved. Please report it with the data")
