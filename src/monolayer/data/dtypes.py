"""Formats of numbers by their names: `float32`, `bfloat16` …"""

from __future__ import annotations

from typing import Any


def dtype_name(dtype: Any) -> Any:
    """`'float32'` for `torch.float32`; whatever else is given stays, for those to judge who know what they take."""
    text = str(dtype)
    return text.removeprefix("torch.") if text.startswith("torch.") and type(dtype).__name__ == "dtype" else dtype
