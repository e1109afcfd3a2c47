"""Options that the commands which build models share, and what they do with a model that is built."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from monolayer.cli.console import out as console
from monolayer.table import escape


class ConflictChoice(StrEnum):
    error = "error"
    majority = "majority"
    first = "first"


class DtypeChoice(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float64 = "float64"


Out = Annotated[Path, typer.Option(help="Folder to write the model to.")]
Positions = Annotated[bool, typer.Option("--positions", help="Let the order of tokens matter.")]
Causal = Annotated[
    bool,
    typer.Option("--causal", help="Let a token see only what came before; without labels, memorize each next token."),
]
Rank = Annotated[str | None, typer.Option(help="Largest value rank, or auto: the least that holds the data is taken.")]
OnConflict = Annotated[
    ConflictChoice, typer.Option(help="What to do where equal token and context have different labels.")
]
Fingerprint = Annotated[
    bool, typer.Option("--fingerprint", help="Keep 8 bytes per point, so that predict --strict knows what was seen.")
]
Seed = Annotated[int | None, typer.Option(help="Same seed and platform, same bits; by default 0.", min=0)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a model that is already there.")]


def given(**options: Any) -> dict[str, Any]:
    """Keywords for the library: choices by their names, and what was not given left to the library."""
    plain = {name: value.value if isinstance(value, StrEnum) else value for name, value in options.items()}
    return {name: value for name, value in plain.items() if value is not None}


def rank_of(text: str | None) -> Any:
    """A rank as the library takes it; what is no number is left for it to refuse."""
    return int(text) if text is not None and text.isdecimal() else text


def some(data: Sequence[str]) -> list[str]:
    """Data files as a next step names them; of many, that a shell found, the first."""
    return [*data] if len(data) <= 3 else [data[0], "..."]


def next_steps(folder: Path, *commands: Sequence[object]) -> None:
    """The last lines of a command that built a model: where it is, and what to do with it."""
    console.print(f"\nsaved to {escape(str(folder))}; next:", soft_wrap=True)
    for command in commands:
        console.print(f"  {escape(shlex.join(['monolayer', *map(str, command)]))}", soft_wrap=True)
