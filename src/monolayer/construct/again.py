"""The draw of a model, used again for other data: behind `memorize(..., draw=model)` and every edit.

With a draw fixed, a model is a function of its data, bit for bit (docs/editing.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.construction import Progress
from monolayer.construct.line.again import Again
from monolayer.construct.robust.again import RobustAgain
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.model.card import Card, Fingerprint
from monolayer.model.monolayer import Monolayer


class Draw(Protocol):
    """All of a model that does not depend on its labels, and how to build a model with it."""

    @classmethod
    def of(cls, model: Monolayer) -> Self:
        """The draw of `model`; a `DataError` where its weights are not such as a construction gives them."""

    @property
    def model(self) -> Monolayer: ...

    @property
    def card(self) -> Card: ...

    @property
    def by_token(self) -> bool:
        """Whether every neuron depends on the facts of one token alone, so that `only` saves work."""

    def adopt(self, data: Sequences) -> tuple[Self, Sequences]:
        """`data` in the numbers of this draw, and the draw with the names that they have and it lacks."""

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """Ids, or vectors, as the model sees them."""

    def build(self, task: Task, report: Progress, only: Ints | None = None) -> Monolayer:
        """The model of adopted data. `only`: tokens whose facts changed; what others decide is as it was.

        It has no summary: two ways to one model must give one file.
        """


def draw_of(model: Monolayer) -> Draw:
    """The draw of any model that `memorize` built."""
    return RobustAgain.of(model) if model.feed_forward.readout == "gates" else Again.of(model)


def build_again(draw: Draw, data: Sequences, only: Ints | None = None) -> Monolayer:
    """What a draw makes of other data, with fingerprints where the model that it is from has them."""
    model = draw.model
    draw, data = draw.adopt(data)
    positions, card = model.positions is not None, draw.card
    task = Task.of(data, positions=positions, causal=card.causal, on_conflict="error")
    new = draw.build(task, lambda stage, share: None, only)
    if model.card.fingerprint is not None:
        words = Fingerprint.of(data, card.per, positions=positions, causal=card.causal)
        new.card = replace(new.card, fingerprint=words)
    return new
