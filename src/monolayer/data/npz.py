"""npz files, as `numpy.savez` writes them: arrays `X`, and maybe `Y` and `lengths`."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from monolayer.data.layout import Columns
from monolayer.data.lines import Progress
from monolayer.data.names import Names
from monolayer.data.sequences import Sequences
from monolayer.errors import DataError


def read_npz(file: Path, columns: Columns, vocabulary: Names | None, progress: Progress | None) -> Sequences:
    """Arrays `X`, and maybe `Y` and `lengths`, as `Sequences.of` takes them. Never unpickles."""
    size = file.stat().st_size
    if size == 0:
        raise DataError(f"{file} is empty: there is no sequence in it")
    with file.open("rb") as raw:
        if not zipfile.is_zipfile(raw):
            raw.seek(0)
            if raw.read(2) == b"PK":
                raise DataError(f"{file} ends in the middle: it was cut short; copy or write it again")
            raise DataError(f"{file} is no npz file: write it with numpy.savez(file, X=..., Y=...)")
    wanted = (columns.tokens or "X", columns.labels or "Y", "lengths")
    try:
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            names = list(stored.files)
            arrays = [stored[name] if name in names else None for name in wanted]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, SyntaxError) as error:
        raise DataError(f"{file} is damaged ({error}): copy or write it again") from None
    except ValueError as error:
        raise DataError(
            f"{file} holds an array that cannot be read ({error}): store numbers or strings, padded, with `lengths`"
        ) from None
    for name, array, must in zip(wanted, arrays, (True, columns.labels is not None, False), strict=True):
        if array is None and must:
            raise DataError(
                f"{file} has no array {name!r}; it has: {', '.join(names) or 'none'}. Choose with tokens= "
                "and labels= (--tokens, --labels)"
            )
    X, Y, lengths = arrays
    try:
        data = Sequences.of(X, Y, lengths=lengths, per=columns.per, vocabulary=vocabulary, ours=True)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    if progress is not None:
        progress(size, size)
    return data
