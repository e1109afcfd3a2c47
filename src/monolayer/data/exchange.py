"""A rename that Python lacks: two paths exchanged in one step. Linux calls it `renameat2`, macOS `renamex_np`."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
_EXCHANGE = 2  # the flag, in both systems
_AT_FDCWD = -100


def exchange(one: Path, two: Path) -> bool:
    """Swap what two paths name: nobody ever finds one of them missing. False where the system cannot."""
    if _rename is None or _rename(os.fsencode(one), os.fsencode(two)) == 0:
        return _rename is not None
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(two))


def _find() -> Callable[[bytes, bytes], int] | None:
    """The system's call."""
    library: Any = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        linux = library.renameat2
        linux.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
        return lambda one, two: int(linux(_AT_FDCWD, one, _AT_FDCWD, two, _EXCHANGE))
    if hasattr(library, "renamex_np"):
        macos = library.renamex_np
        macos.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
        return lambda one, two: int(macos(one, two, _EXCHANGE))
    return None


_rename = _find()
