"""What a readout must be able to do. Whoever works with readouts asks through this class, never for their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.model.attention import Slots

if TYPE_CHECKING:
    from monolayer.model.staircase import Staircase, Steps

Block = Callable[[str], tuple[Tensor, Tensor, Tensor, Tensor]]
"""By the name of a block in a file, its `weight_1`, `bias_1`, `weight_2` and `bias_2`."""


class Readout(nn.Module):
    """A residual feed-forward block that turns what attention wrote into the label; `(…, D)` to `(…, D)`.

    `readout` is its name in files. What is not overridden is what a readout without steps has.
    """

    readout: str

    @property
    def stairs(self) -> Sequence[Staircase]:
        """The staircases that it consists of, one per stage."""
        return ()

    @property
    def slots(self) -> Slots:
        """For every stage, the coordinate that attention averages and the one that the stage reads."""
        return ()

    @property
    def labels(self) -> int:
        """`m`: label coordinates that it writes."""
        raise NotImplementedError

    @property
    def step_count(self) -> int:
        """Steps of all stages, or neurons."""
        return sum(stage.step_count for stage in self.stairs)

    @property
    def later_numbers(self) -> int:
        """Numbers of later hidden layers, which a dense pass multiplies by or adds and no file need hold."""
        return sum(stage.later_numbers for stage in self.stairs)

    def tables(self) -> tuple[Steps, ...] | None:
        """The steps of every stage, from which answers, explanations, pages and comparisons are read; None: none."""
        found = [stage.steps() for stage in self.stairs]
        return tuple(steps for steps in found if steps is not None) if found and None not in found else None

    def fast(self, model: Any, data: Sequences) -> Tensor | None:
        """Class numbers `(P, 1)`, for a readout whose tables do not give them (`shortcut.py`)."""
        return None

    def to_json(self) -> dict[str, Any]:
        """What `config.json` says of it besides its name."""
        return {}

    @classmethod
    def stored(cls, config: dict[str, Any], block: Block) -> Self:
        """The readout that a file describes."""
        raise NotImplementedError
