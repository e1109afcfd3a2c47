"""A folder that is replaced all at once: written under another name and moved into place at the end.

An interrupted save leaves what was there before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monolayer.data.aside import share
from monolayer.errors import DataError

CONFIG = "config.json"


@contextmanager
def new_folder(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A scratch folder that becomes `folder` when the block ends well, and vanishes when it does not."""
    final = check_output(folder, overwrite=overwrite).resolve()  # '.' has no name to make another from
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        yield scratch
        for made in (scratch, *scratch.iterdir()):
            share(made)
        if final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
            final.rename(old / final.name)
            scratch.rename(final)
            shutil.rmtree(old)
        else:
            scratch.rename(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_output(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Refuse a folder that exists, unless it is a model that may be replaced."""
    final = Path(folder)
    if final.exists() and not overwrite:
        raise DataError(
            f"{final} exists already: choose another folder, or ask to overwrite it (overwrite=True, --overwrite)"
        )
    if final.exists() and not (final / CONFIG).is_file():
        raise DataError(f"{final} exists and holds no model: overwriting it could lose something, so it stays")
    above = next(parent for parent in final.absolute().parents if parent.exists())
    if not above.is_dir():
        raise DataError(f"{final} cannot be made: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{final} cannot be made: there is no permission to write into {above}")
    return final
