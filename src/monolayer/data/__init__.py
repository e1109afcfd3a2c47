"""Frozen sequences, and the readers that make them from files. Names load on first use, and NumPy with them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monolayer.data.names import NameBuilder, Names
    from monolayer.data.readers import read
    from monolayer.data.sequences import Labels, Sequences

__all__ = ["Labels", "NameBuilder", "Names", "Sequences", "read"]
_HOMES = {"NameBuilder": "names", "Names": "names", "read": "readers", "Labels": "sequences", "Sequences": "sequences"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'monolayer.data' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"monolayer.data.{_HOMES[name]}"), name)
    return value
