"""The readout of a line: one softmax returns k numbers, and a readout in k stages uses one after the other.

Most models have one stage (k = 1). The stream, `(one, key, code, label …)`, goes on with a value and a code for each
further one:

    one  key  code  label …  value_2  code_2  value_3  code_3 …

Attention has scores of rank 1, one query and one key, and values of rank k: it writes `κ_j c_j` onto `code_j`, where
`c_j` is the mean of value `j` (the first is the key) under the one softmax. Stage `j` reads `code_j`. Onto the label it
writes what it knows, and onto `code_{j+1}` the number of a *stretch* of its line. Points that it could not tell apart
share a stretch of their own, and stage `j + 1` tells them apart; all other stretches are flat there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from torch import Tensor, nn

from monolayer.data.objects import Config
from monolayer.model.attention import CODE, KEY, LABEL, Slots, onto
from monolayer.model.staircase import BLOCK, Readout, Staircase


def value_slot(stage: int, labels: int) -> int:
    """The coordinate that holds what stage `stage`, from 1, averages; `labels` is `m`."""
    return KEY if stage == 1 else LABEL + labels + 2 * (stage - 2)


def stream_width(rank: int, labels: int) -> int:
    """`D`, the width of the stream of a line with `rank` stages and `labels` label coordinates."""
    return LABEL + labels + 2 * (rank - 1)


def slots(rank: int, labels: int) -> Slots:
    """For every stage: the coordinate that attention averages for it, and the one that the stage reads."""
    return (KEY, CODE), *((value_slot(stage, labels), value_slot(stage, labels) + 1) for stage in range(2, rank + 1))


class Cascade(Readout):
    """Residual feed-forward blocks, one per stage. Each writes the label, and all but the last the number of a stretch.

    Its name in files is the form of its stages, `exact` for classes and `runs` for real labels. A label is the sum of
    what the stages write: whole numbers for classes; for real labels all but one are 0.
    """

    def __init__(self, stages: Sequence[Staircase]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.readout, self.rank, self.labels = stages[0].form, len(stages), len(stages[-1].bias_2)
        self.slots = slots(self.rank, self.labels)

    @property
    def stairs(self) -> list[Staircase]:
        """The stages, in order."""
        return [cast("Staircase", stage) for stage in self.stages]

    def forward(self, Z: Tensor) -> Tensor:
        """`(…, D)` to `(…, D)`, stage by stage."""
        for stage, (_, code), after in zip(self.stairs, self.slots, [*self.slots[1:], None], strict=True):
            labels: Tensor = stage(Z[..., code].flatten())
            labels = labels.view(*Z.shape[:-1], labels.shape[-1])
            if after is None:
                return onto(Z, labels, LABEL)
            Z = onto(onto(Z, labels[..., : self.labels], LABEL), labels[..., self.labels :], after[1])
        return Z

    def layers(self) -> list[tuple[Tensor, Tensor]] | None:
        """The layers of the only stage; None with several stages, which are no chain of layers."""
        return self.stairs[0].layers() if self.rank == 1 else None

    @classmethod
    def stored(cls, config: Config, tensors: Mapping[str, Tensor]) -> Cascade:
        """The readout that a file describes; `tensors` by their names without `feed_forward.`."""
        blocks = [[tensors[f"stages.{number}.{name}"] for name in BLOCK] for number in range(len(config["steps"]))]
        return cls([Staircase(one, two, three, four, config["readout"]) for one, two, three, four in blocks])

    def extra_repr(self) -> str:
        """What PyTorch prints between the brackets of the module."""
        return f"rank={self.rank}, labels={self.labels}"
