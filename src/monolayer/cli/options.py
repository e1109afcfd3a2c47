"""Which options of `memorize` have no use in which of its ways: one that would change nothing is a mistake to name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from monolayer.errors import DataError

NO_USE: dict[str, tuple[tuple[str, ...], str]] = {
    "out of core": (
        (
            *("readout", "device", "robust", "recite", "draw", "noise", "neurons", "dtype", "tokenizer", "window"),
            *("architecture", "activation"),
        ),
        "a model that is built out of core is the plain line",
    ),
    "in memory": (("workers", "scheduler"), "they go with --memory"),
    "stock": (
        (
            *("causal", "readout", "device", "recite", "fingerprint", "temperature", "noise", "neurons"),
            *("tokenizer", "window"),
        ),
        "the architecture settles that",
    ),
    "stock on the line": (("rank", "dtype"), "they go with --robust"),
    "our own": (("activation",), "it goes with --architecture"),
    "recite": (
        (
            *("positions", "causal", "draw", "robust", "tokens", "labels", "format", "sequence", "per", "temperature"),
            *("rank", "neurons", "dtype", "on_conflict"),
        ),
        "with --recite, DATA is plain text and the line holds it",
    ),
}
"""For each way the options that it has no use for, and why."""


def given(command: Callable[..., Any], values: Mapping[str, Any]) -> set[str]:
    """The options of `command` whose `values` are not their defaults; those of its `reading` by their own names."""
    parameters = inspect.signature(inspect.unwrap(command)).parameters
    said = {name for name, parameter in parameters.items() if values[name] != parameter.default}
    return said | {name for name, value in vars(values["reading"]).items() if value is not None}


def check_use(said: set[str], way: str) -> None:
    """`said` are options that were given."""
    options, why = NO_USE[way]
    no_use = [f"--{option.replace('_', '-')}" for option in options if option in said]
    if no_use:
        raise DataError(f"{', '.join(no_use)} {'has' if len(no_use) == 1 else 'have'} no use here: {why}")
