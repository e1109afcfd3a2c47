"""Read keys and values that are not in a table: dicts, pairs, lists of dicts, and a Series with an index.

    {"France": "Paris"}                                a label for each key
    {"prompts": ["a", "b"], "answers": ["c", "d"]}     columns, read like a table
    [{"country": "France", "capital": "Paris"}]        rows, read like JSON
    [("France", "Paris")], dict.items(), zip(X, Y)     pairs, where labels are needed
    pandas.Series(["Paris"], index=["France"])         keys are the index, where labels are needed

Pairs could also be sequences of two tokens, and a Series could be a column of sequences. They are keys and values only
if the caller needs labels and gives no others; to ask a model, they are sequences.
"""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from dataclasses import dataclass

from monolayer.data.growing import Growing, SequenceFields
from monolayer.data.labelling import LABELLINGS, TOKEN
from monolayer.data.layout import Columns
from monolayer.data.names import cut_text
from monolayer.data.plain import Given, array_like, check_not_open, is_frame, is_list, plain_array
from monolayer.data.prompts import ANSWER_COLUMNS, PROMPT_COLUMNS
from monolayer.data.tabular import from_frame, from_items, read_objects
from monolayer.errors import DataError


def as_list(X: Given) -> Given:
    """Turn an iterator, such as a `zip`, or the items of a dict into a list; anything else is returned unchanged."""
    check_not_open(X)
    return list(X) if hasattr(X, "__next__") or isinstance(X, ItemsView) else X


def fields_of(X: Given, Y: Given, columns: Columns, labelled: bool) -> SequenceFields | None:
    """Read `X` if it is a dict, a table, rows, or keys with values; None for arrays and lists of sequences.

    `Y`: labels that the caller gives besides. `columns`: which columns to read. `labelled`: whether labels are needed,
    so that pairs and a Series are keys and values if there is no `Y`.
    """
    if isinstance(X, Mapping):
        table = _columns_of(X, columns)
        if table is not None:
            return from_frame(table, columns, f"the {type(X).__name__}", "columns")
        if Y is not None:
            raise DataError(
                "a dict holds the label of each key: leave Y out, or give a list of keys with it. In edit and insert, "
                "the data of the model are data="
            )
        return from_items(X.items(), columns, f"the {type(X).__name__}", "dict")
    if _is_series_of_structs(X):
        return from_frame(X.struct.unnest(), columns, "the Series", "structs")
    if is_frame(X):
        return from_frame(X, columns)
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], Mapping):
        growing = Growing("X", "objects", unit="item")
        read_objects(((number, _plain_row(row)) for number, row in enumerate(X)), growing, columns)
        return growing.finish()
    if columns.tokens is not None or columns.labels is not None:
        raise DataError(f"tokens= and labels= choose columns of a table, and X is a {type(X).__name__}: leave them out")
    return _keys_and_values(X, columns) if labelled and Y is None else None


def _plain_row(row: Given) -> Given:
    """A row of a list of dicts in which arrays and tensors have become lists. Other rows are returned unchanged."""
    if not isinstance(row, Mapping):
        return row
    return {str(name): _plain_cell(value) for name, value in row.items()}


def _plain_cell(value: Given) -> Given:
    """A value of a row, in which arrays, tensors and tuples have become lists."""
    plain = array_like(value)
    if plain_array(plain):
        return plain.tolist()
    return list(plain) if isinstance(plain, tuple) else plain


# -- pairs and Series ------------------------------------------------------------------------------------------


def _keys_and_values(X: Given, columns: Columns) -> SequenceFields | None:
    """Read pairs, or a Series with its index, as keys and values; None if `X` is neither."""
    if _is_series(X):
        if _index_is_numbers(X):
            return None
        return from_items(zip(X.index.tolist(), X.tolist(), strict=True), columns, "the Series", "series")
    if not isinstance(X, list | tuple) or not len(X):
        return None
    if not all(isinstance(row, tuple) and len(row) == 2 for row in X):
        return None
    return from_items(X, columns, "X", "pairs")


def without_labels(X: Given) -> str:
    """A clause for the error that labels are missing: what to pass if `X` was meant as keys and values; else empty."""
    if _is_series(X):
        return ". The index of this Series numbers its rows; if it holds the keys, pass X.to_dict()"
    if hasattr(X, "get_chunks"):
        return ". A Series of Polars has no index: pass a DataFrame of two columns, or a Series of structs"
    if isinstance(X, list) and X and all(isinstance(row, list) and len(row) == 2 for row in X):
        return ". If each of these is a key and its value, pass [tuple(row) for row in X]"
    return ""


def pairs_or_sequences(X: Given) -> bool:
    """Whether `X` is a list of pairs of text, which could be prompts with answers or sequences of two tokens."""
    pairs = isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(row, tuple) and len(row) == 2 for row in X)
    return pairs and all(isinstance(text, str) for row in X for text in row)


def _is_series(X: Given) -> bool:
    """Whether `X` is a Series of pandas, which has an index."""
    return hasattr(X, "iloc") and hasattr(X, "index") and hasattr(X, "items") and not is_frame(X)


def _index_is_numbers(series: Given) -> bool:
    """Whether the index of a Series only numbers its rows: it holds integers and has no name.

    An index with a name is a column of the data.
    """
    names = [name for name in series.index.names if name is not None]
    return not names and getattr(series.index.dtype, "kind", "O") in "iu"


def _is_series_of_structs(X: Given) -> bool:
    """Whether `X` is a Series of Polars whose values have fields."""
    return hasattr(X, "struct") and hasattr(X, "get_chunks") and str(X.dtype).startswith("Struct")


# -- a dict of columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """Columns by name, in the form that `plain.py` takes for a table."""

    columns: dict[str, Given]

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self.columns)

    def __getitem__(self, name: str) -> Given:
        return self.columns[name]


def _columns_of(mapping: Mapping[Given, Given], columns: Columns) -> _Table | None:
    """The columns of a dict; None if it holds a label for each key. A dict that could be either is an error.

    Columns are lists of one length under names. If all lists hold only numbers, they are the real vectors of their
    keys. If every list has one value per word of its key, it may hold the labels of these words, and `per` must say so.
    """
    chosen = columns.tokens is not None or columns.labels is not None
    first = next(iter(mapping.values()), None)
    if not chosen and isinstance(first, str | int | float):
        return None  # a large table of keys and values is not looked through
    lists: dict[Given, Given] = {
        name: None if is_frame(value) else array_like(value) for name, value in mapping.items()
    }
    if not lists or not all(isinstance(name, str) and is_list(value) for name, value in lists.items()):
        if chosen:
            raise DataError(
                "tokens= and labels= choose columns, and this dict holds a label for each key: leave them out, or give "
                "lists of one length"
            )
        return None
    sizes = {len(value) for value in lists.values()}
    answers = (
        len(lists) == 2
        and any(name in lists for name in PROMPT_COLUMNS)
        and any(name in lists for name in ANSWER_COLUMNS)
    )
    if chosen or "tokens" in lists or answers:
        if len(sizes) > 1:
            lengths = ", ".join(f"{name!r} has {len(value):,}" for name, value in lists.items())
            raise DataError(f"the columns of the dict are of several lengths: {lengths}. Give one row each")
        return _Table(lists)
    if all(map(_only_numbers, lists.values())):
        return None
    unit = columns.unit or columns.like.unit or "words"
    word_by_word = all(len(cut_text(name, unit)) == len(value) for name, value in lists.items())
    if word_by_word and LABELLINGS.get(columns.belongs or "") is TOKEN:
        return None
    if len(sizes) == 1 and not word_by_word:
        return _Table(lists)
    one, two = [*lists, "labels"][:2]
    raise DataError(
        f"this dict holds lists, such as {one!r}: if they are columns of one length, name the two to read, such as "
        f"tokens={one!r}, labels={two!r}; if each holds the labels of the words of its key, say per='token'"
    )


def _only_numbers(values: Given) -> bool:
    """Whether a list or an array holds nothing but numbers."""
    if plain_array(values):
        return values.ndim == 1 and values.dtype.kind in "iuf"
    return all(isinstance(array_like(value), int | float) for value in values)
