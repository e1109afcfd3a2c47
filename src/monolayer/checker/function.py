"""The function that an approximator is judged by, asked for its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from monolayer.arrays import Floats
from monolayer.errors import DataError


def asked(f: Callable[[Any], Any], X: Floats, outputs: int) -> Floats:
    """`f` at sequences `(B, n, d)`, as `(B, n, m)`; `m` `outputs`. What it may not return is named."""
    try:
        values = np.asarray(f(X.copy()), dtype=np.float64)
    except Exception as error:
        raise DataError(
            f"the function failed on a batch of shape {X.shape}: {type(error).__name__}: {error}"
        ) from error
    wanted = (*X.shape[:2], outputs)
    if values.shape not in (wanted, X.shape[:2] if outputs == 1 else ()):
        raise DataError(
            f"the function returned an array of shape {values.shape} for a batch of shape {X.shape}: it must be "
            f"{wanted}"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).reshape(len(X), -1).all(axis=1))[0])
        raise DataError(f"the function is not finite at {X[row].tolist()}: it returned {values[row].tolist()}")
    return values.reshape(wanted)
