"""A saved model as the checker holds it: its tensors by name, and its config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from monolayer.arrays import Array, NamedArrays
from monolayer.checker.rounding import BinaryFormat
from monolayer.checker.short import SHORT_FORMATS
from monolayer.data import Names
from monolayer.data.labelling import LABELLINGS, Labelling
from monolayer.data.model_kinds import kind_of
from monolayer.data.objects import Config

ONE, KEY, CODE, LABEL = 0, 1, 2, 3
"""Coordinates of the stream of a line: the constant 1, the key, the code, the first label slot.

`model/attention.py` has the same four by the same names; the checker imports nothing of the model."""


class StepWeights(NamedTuple):
    """What a block of the readout stores about its `H` neurons, beside its last bias.

    `weight_1` `(H,)`, or `(H, …)` for half-spaces; `bias_1` `(H,)`; `weight_2` `(m, H)`, with one column more in a
    readout of runs.
    """

    weight_1: Array
    bias_1: Array
    weight_2: Array


@dataclass(frozen=True, eq=False)
class Stored:
    """The tensors of a saved model by their names, its `config.json`, and its names of tokens and classes.

    It differs from a model in that it answers nothing: it is what the checker, which knows no model, judges.

    `format`: the arithmetic that a claim is about. Weights may be stored in a shorter format.
    """

    tensors: NamedArrays
    config: Config
    vocabulary: Names | None
    classes: Names | None
    format: BinaryFormat
    memory: Array | None = None
    """Fingerprints of known points `(M,)`, if the model keeps any."""
    certificate: bytes | OSError = field(default_factory=FileNotFoundError)
    """The bytes of the certificate next to the model, or the error of reading them."""

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.config["per"]]

    @property
    def short(self) -> bool:
        """Whether weights are stored in, or were rounded to, a format with fewer digits than float32."""
        return self.config["dtype"] in SHORT_FORMATS

    @property
    def block(self) -> str:
        """Name of the block with the first neurons of the readout: its first stage, or the only block."""
        return "feed_forward.stages.0" if "feed_forward.stages.0.bias_1" in self.tensors else "feed_forward"

    def steps(self, block: str) -> StepWeights:
        """The weights of a block of the readout, without its last bias."""
        return StepWeights(self[f"{block}.weight_1"], self[f"{block}.bias_1"], self[f"{block}.weight_2"])

    @property
    def stages(self) -> int:
        """Number of stages of the readout; for a line this is its value rank."""
        return len(self.config["steps"])

    def value(self, stage: int) -> int:
        """The coordinate of the stream that stage number `stage`, 2 or more, averages; the next one is its code."""
        return LABEL + int(self.config["labels"]) + 2 * (stage - 2)

    @property
    def raw(self) -> int:
        """How many coordinates behind the label slots hold the token itself: those of an approximator, otherwise 0."""
        return int(self.config["grid"]["dim"]) if kind_of(self.config).has_grid else 0
