"""Turn what other libraries hold into NumPy arrays, lists and Python values.

Tensors, columns of pandas, Polars and Arrow, and masked arrays become an array of machine numbers or strings. If a
value is missing they become a list with None in its place, or NaN among real numbers, because a gap must not turn
integers into real numbers. Objects without values to read (sparse, nested and meta tensors, queries that have not been
run, open files) are an error that names the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from monolayer.arrays import Array
from monolayer.errors import DataError

Given: TypeAlias = Any
"""What a user or another library gives, before it is checked: a cell, a list, an array, a tensor, a table."""
_PLAIN_TYPES = {str, int, float, bool, list, tuple, type(None)}


def array_like(value: Given) -> Given:
    """Convert tensors, columns and tables to NumPy arrays, arrays of objects to lists, and scalars to Python values.

    Plain Python values are returned unchanged.
    """
    if type(value) in _PLAIN_TYPES:
        return value
    _check_readable(value)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()  # NumPy has no bfloat16
    elif isinstance(value, np.ma.MaskedArray):
        value = _unmasked(value)
    elif is_frame(value):
        value = _frame_rows(value)
    elif hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
        value = _column_values(value)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.tolist()
    return value


def is_list(value: object) -> bool:
    """Whether `value` holds values in a row (a string is one value)."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def plain_array(value: object) -> TypeGuard[Array]:
    """Whether `value` is an array of machine numbers or strings, so that all its values have one type."""
    return isinstance(value, np.ndarray) and value.dtype != object


def is_gap(value: Given) -> bool:
    """Whether a value means "no label": None, NaN, pandas' NA, or a vector of NaN."""
    if is_list(value):
        return len(value) > 0 and all(isinstance(one, float | np.floating) and one != one for one in value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def check_not_open(value: object) -> None:
    """Refuse an open file, because some of it may already have been read."""
    if hasattr(value, "readline"):
        name = getattr(value, "name", None)
        called = f" ({name})" if isinstance(name, str) else ""
        raise DataError(f"this is an open file{called}: pass the path of the file, or a list of what it holds")


def _check_readable(value: object) -> None:
    """Refuse objects whose values cannot be read without a conversion that the caller must choose."""
    check_not_open(value)
    if _unrun(value):
        raise DataError(f"this {type(value).__name__} is a query that has not been run: pass its result, .collect()")
    if hasattr(value, "tocoo"):
        raise DataError(f"this {type(value).__name__} is sparse: pass it as a full array, .toarray()")
    if not hasattr(value, "detach"):
        return
    if getattr(value, "is_nested", False):
        raise DataError("this is a nested tensor: pass its tensors as a list, .unbind()")
    if getattr(value, "is_meta", False):
        raise DataError("this is a tensor on the device meta, which has a shape and no values: build it on another one")
    if getattr(value, "is_quantized", False):
        raise DataError("this is a quantized tensor: pass its numbers, .dequantize(), or .int_repr() for its integers")
    layout = str(getattr(value, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise DataError(f"this is a sparse tensor ({layout}): pass it as a full one, .to_dense()")


def _unrun(value: object) -> bool:
    """Whether a table is a query (a LazyFrame of Polars and its like), which has neither rows nor a length yet."""
    return hasattr(value, "collect") and not hasattr(value, "__len__")


def _unmasked(array: np.ma.MaskedArray[Any, Any]) -> Given:
    """A masked array with NaN for masked real numbers, or a list with None for other masked values.

    If nothing is masked, the array itself.
    """
    if not np.ma.getmaskarray(array).any():
        return array.data
    return array.filled(np.nan) if array.dtype.kind == "f" and array.ndim > 0 else array.tolist()


def _column_values(values: Given) -> Given:
    """The values of a column of pandas, Polars or Arrow, or of another library's array: an array, or a list."""
    array = np.asarray(values)
    has_numpy_type = isinstance(getattr(values, "dtype", None), np.dtype)  # then nothing was converted
    if has_numpy_type or array.dtype.kind not in "fO" or (array.dtype.kind == "f" and not np.isnan(array).any()):
        return array
    # NaN may stand for a missing value among integers, which must stay integers.
    return _as_list(values)


def _as_list(values: Given) -> list[Given]:
    """The values of a column as Python values."""
    method = next((each for each in ("to_pylist", "to_list", "tolist") if hasattr(values, each)), None)
    return list(values) if method is None else list(getattr(values, method)())  # Arrow; Polars and pandas; NumPy


# -- tables --------------------------------------------------------------------------------------------


def is_frame(value: object) -> bool:
    """Whether a value is a table of a library, with columns by name. A dict of columns is not one (see `shapes.py`)."""
    return not _unrun(value) and frame_names(value) is not None and hasattr(value, "__getitem__")


def frame_names(frame: object) -> list[str] | None:
    """The names of the columns of a table as text, in order; None if `frame` is not a table."""
    names = _frame_own_names(frame)
    return None if names is None else [str(name) for name in names]


def frame_cells(frame: Given, at: int) -> list[Given]:
    """The cells of column number `at` as Python values."""
    column = _frame_column(frame, at)
    plain = [array_like(cell) for cell in _as_list(column)]
    return [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in plain]


def _frame_column(frame: Given, at: int) -> Given:
    """Column number `at` as its library holds it. It is found by number, since its name may be a number or a tuple."""
    if hasattr(frame, "iloc"):  # pandas
        return frame.iloc[:, at]
    if hasattr(frame, "get_columns"):  # Polars
        return frame.get_columns()[at]
    if hasattr(frame, "to_pylist"):  # Arrow
        return frame.column(at)
    return frame[(_frame_own_names(frame) or [])[at]]  # Hugging Face


def _frame_own_names(frame: object) -> list[Given] | None:
    """The names of the columns of a table as its library holds them; None if `frame` is not a table."""
    names = getattr(frame, "column_names", None)  # Arrow, Hugging Face
    names = getattr(frame, "columns", None) if names is None else names  # pandas, Polars
    return list(names) if isinstance(names, Iterable) else None


def _frame_rows(frame: Given) -> Given:
    """The rows of a table that was given in place of an array: an array if all columns have one type, else lists."""
    columns = [array_like(_frame_column(frame, at)) for at in range(len(_frame_own_names(frame) or []))]
    if columns and all(map(plain_array, columns)) and len({column.dtype for column in columns}) == 1:
        return np.stack(columns, axis=1)
    return [list(row) for row in zip(*map(_as_list, columns), strict=True)]
