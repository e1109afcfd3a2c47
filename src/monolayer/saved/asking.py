"""How `predict` asks a model of any kind, and what it wants of inputs that were not memorized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from monolayer.arrays import Bools
    from monolayer.data import Sequences

    Answers: TypeAlias = "NDArray[np.generic] | list[str | None]"  # label values, or texts after prompts


@dataclass(frozen=True)
class Wanted:
    """What the caller wants: the dense pass or not, where to run, and what to do with inputs that were not memorized.

    `strict`: whether they are recognized; None leaves it to the model. `unknown`: what is written in place of an answer
    to them.
    """

    strict: bool | None = None
    unknown: str | None = None
    dense: bool = False
    device: str | None = None

    @property
    def marks(self) -> bool:
        """Whether every answer says that it was seen, or was not."""
        return bool(self.strict)

    @property
    def told(self) -> bool:
        """Whether the caller asks for inputs that were not memorized to be recognized."""
        return self.marks or (self.unknown is not None and self.strict is None)


@dataclass(frozen=True)
class Asking:
    """How a model in memory is asked."""

    refused: Callable[[Sequences], dict[int, str]]
    """Sequences that the model cannot answer, by number, each with the reason."""
    values: Callable[[Sequences], Answers]
    """The answers to encoded sequences, flat: label values, or the text after each prompt."""
    seen: Callable[[Sequences, Answers], Bools] | None = None
    """Which of these answers to encoded sequences were memorized; None if nobody asked."""
    nearest: Callable[[Sequences, int], str | None] = lambda data, row: None
    """The stored key nearest to one of the sequences, as text; None if none is near."""
    notes: Callable[[Sequences], dict[int, str]] = lambda data: {}
    """What to tell people about sequences that were not memorized, by number, also where they are answered."""
