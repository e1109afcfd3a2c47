"""Types of arrays, by the names that the whole package uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]


def dtype_name(dtype: Any) -> Any:
    """`'float32'` for `torch.float32`; whatever else is given stays, for those to judge who know what they take."""
    text = str(dtype)
    return text.removeprefix("torch.") if text.startswith("torch.") and type(dtype).__name__ == "dtype" else dtype
