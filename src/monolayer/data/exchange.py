"""Renames that Python lacks: two paths exchanged at once, and one renamed only where nothing stands.

Linux calls them `renameat2`, macOS `renamex_np`. Elsewhere, and on file systems without them, `exchange` says that it
could not, and `rename_new` looks before it renames.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
_AT_FDCWD = -100


def exchange(one: Path, two: Path) -> bool:
    """Swap what two paths name, in one step: nobody ever finds one of them missing. False where that cannot be."""
    return _call(one, two, _EXCHANGE)


def rename_new(source: Path, target: Path) -> None:
    """Rename, but never onto something: `FileExistsError` if `target` exists."""
    if _call(source, target, _NO_REPLACE):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    try:
        source.rename(target)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        raise


def _call(one: Path, two: Path, flag: int) -> bool:
    if _rename is None or _rename(os.fsencode(one), os.fsencode(two), flag) == 0:
        return _rename is not None
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(two))


def _find() -> tuple[Callable[[bytes, bytes, int], int] | None, int, int]:
    """The system's call, and its flags for exchanging and for not replacing."""
    library: Any = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        linux = library.renameat2
        linux.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        return (lambda one, two, flag: int(linux(_AT_FDCWD, one, _AT_FDCWD, two, flag))), 2, 1
    if hasattr(library, "renamex_np"):
        macos = library.renamex_np
        macos.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
        return (lambda one, two, flag: int(macos(one, two, flag))), 2, 4
    return None, 0, 0


_rename, _EXCHANGE, _NO_REPLACE = _find()
