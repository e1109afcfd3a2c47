"""The parts of a model, for code that works on them without being the model: its shortcut, its files.

`Monolayer` has these parts, and imports that code; nothing here or there imports `Monolayer`. What a readout must be
able to do is `Readout`; whoever works with readouts asks through it and never for their classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from torch import Tensor, nn

from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.attention import RankOneAttention, Slots
from monolayer.model.card import Card
from monolayer.model.quantizer import Quantizer
from monolayer.model.staircase import Block, Staircase, Steps


class Readout(Protocol):
    """A residual feed-forward block that turns what attention wrote into the label; an `nn.Module`.

    `readout`: its name in files. `stairs`: the staircases that it consists of, one per stage, none if it has no steps.
    """

    @property
    def readout(self) -> str: ...

    @property
    def stairs(self) -> Sequence[Staircase]: ...

    @property
    def slots(self) -> Slots:
        """For every stage, the coordinate that attention averages and the one that the stage reads."""
        ...

    @property
    def labels(self) -> int:
        """`m`: label coordinates that it writes."""
        ...

    @property
    def step_count(self) -> int:
        """Steps of all stages, or neurons."""
        ...

    @property
    def later_numbers(self) -> int:
        """Numbers of later hidden layers, which a dense pass multiplies by or adds and no file need hold."""
        ...

    @property
    def bias_2(self) -> Tensor:
        """`(m,)`."""
        ...

    def __call__(self, Z: Tensor) -> Tensor:
        """The dense pass: `(…, D)` to `(…, D)`."""
        ...

    def tables(self) -> tuple[Steps, ...] | None:
        """The steps of every stage, from which answers, explanations, pages and comparisons are read; None: none."""
        ...

    def fast(self, model: Parts, data: Sequences) -> Tensor | None:
        """Label coordinates `(P, m)` or class numbers `(P, 1)`, for a readout whose tables do not give them."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What `config.json` says of it besides its name."""
        ...

    @classmethod
    def stored(cls, config: dict[str, Any], block: Block) -> Self:
        """The readout that a file describes."""
        ...

    def parameters(self) -> Any:
        """As every `nn.Module`."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """As every `nn.Module`."""
        ...


class Parts(Protocol):
    """What a `Monolayer` consists of; `monolayer.model.monolayer` says what each part is."""

    lift: nn.Embedding | nn.Linear
    positions: nn.Embedding | None
    bos: nn.Parameter
    quantizer: Quantizer | None
    attention: RankOneAttention
    feed_forward: Readout
    head: nn.Linear
    card: Card

    def state_dict(self) -> dict[str, Any]:
        """All tensors by name."""
        ...


def staircase_of(model: Parts) -> Staircase:
    """The readout of a line, for what works on steps alone."""
    stairs = model.feed_forward.stairs
    if not stairs:
        raise DataError(
            f"this works on the steps of a line, and the readout {model.feed_forward.readout!r} of this model has "
            "none: a robust model has half-spaces instead"
        )
    if len(stairs) > 1:
        raise DataError(
            f"this works on the one staircase of a line of rank 1, and this model has rank {len(stairs)}: a staircase "
            "per stage. Memorize with rank=1 (--rank 1) if the data allow it"
        )
    return stairs[0]
