"""Read npz files, as `numpy.savez` writes them, with an array `X` and maybe `Y` and `lengths`."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib import format as layout

from monolayer.arrays import Array
from monolayer.data.layout import Columns
from monolayer.data.origin import Origin, SourceFile
from monolayer.data.plan import ReadColumn
from monolayer.data.sequences import Sequences
from monolayer.errors import DataError

_PACKED_AT_MOST = 1032
"""One byte of a deflate stream unpacks to at most this many bytes."""


def read_npz(file: Path, columns: Columns) -> Sequences:
    """The sequences in an npz file, whose arrays are given to `Sequences.of`. Nothing is ever unpickled.

    `columns` may name other arrays than `X` and `Y`.
    """
    wanted = (columns.tokens or "X", columns.labels or "Y", "lengths")
    form = columns.like.form if (columns.tokens, columns.labels) == (None, None) else None
    of_model = {name for name in (form.key, form.label) if name is not None} if form is not None else set()
    names, arrays = load_arrays(file, {*wanted, *of_model})
    known = None if form is None or form.format != "npz" else form.columns_in(names)
    remembered = known is not None and known != [*wanted[: len(known)]]
    if known is not None:
        wanted = (known[0], known[1] if len(known) > 1 else wanted[1], "lengths")
    for name, must in zip(wanted, (True, columns.labels is not None, False), strict=True):
        if name not in arrays and must:
            raise DataError(
                f"{file} has no array {name!r}; it has: {', '.join(names) or 'none'}. Choose with tokens= "
                "and labels= (--tokens, --labels)"
            )
    X, Y, lengths = (arrays.get(name) for name in wanted)
    try:
        data = Sequences.of(X, Y, lengths=lengths, per=columns.per, unit=columns.unit, like=columns.like, ours=True)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    start = np.zeros(1, np.int64)
    key, label = ReadColumn(wanted[0], 0), None if Y is None else ReadColumn(wanted[1], 0)
    plan = replace(data.plans[0], source=str(file), format="npz", key=key, label=label, apart=False)
    plan = replace(plan, remembered=("columns",)) if remembered else plan
    return replace(data, origin=Origin(start, start, start, (SourceFile(str(file), "row"),)), plans=(plan,))


def load_arrays(file: Path, wanted: Collection[str] | None = None) -> tuple[list[str], dict[str, Array]]:
    """The names of all arrays in an npz file, and the arrays whose names are `wanted`; all of them by default."""
    try:
        sizes = array_sizes(file)
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            names = list(stored.files)
            for name, size in sizes.items():
                claimed = size.values * size.item_bytes
                if claimed > size.most_bytes:
                    raise DataError(
                        f"{file} is damaged: the array {name!r} claims {claimed:,} bytes, and the file has room "
                        f"for {size.most_bytes:,} at most; write it again"
                    )
            return names, {name: stored[name] for name in names if wanted is None or name in wanted}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, SyntaxError) as error:
        raise DataError(f"{file} is not an npz file, or is damaged ({error}): copy or write it again") from None
    except DataError:
        raise
    except ValueError as error:
        raise DataError(
            f"{file} holds an array that cannot be read ({error}): store numbers or strings, padded, with `lengths`"
        ) from None


class ArraySize(NamedTuple):
    """The size of an array: its number of values and bytes per value, as its header claims them.

    `most_bytes` is the most that the file can hold of it, so a header that claims more is wrong.
    """

    values: int
    item_bytes: int
    most_bytes: int


def array_sizes(file: Path) -> dict[str, ArraySize]:
    """The size of every array in an npz file, from its header."""
    sizes = {}
    with zipfile.ZipFile(file) as stored:
        twice = next((name for name, count in Counter(stored.namelist()).items() if count > 1), None)
        if twice is not None:
            raise DataError(f"{file} holds {twice!r} more than once: write it again, with one array of each name")
        for part in stored.infolist():
            with stored.open(part) as member:
                try:
                    version = layout.read_magic(member)
                except ValueError:  # not an array
                    continue
                header = layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
                shape, _, kind = header(member)
                most_bytes = min(part.file_size, _PACKED_AT_MOST * file.stat().st_size)
                item_bytes = 0 if kind.hasobject else kind.itemsize  # objects are refused later
                name = part.filename.removesuffix(".npy")
                sizes[name] = ArraySize(math.prod(shape), item_bytes, most_bytes)
    return sizes
