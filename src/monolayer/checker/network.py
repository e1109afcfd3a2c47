"""A saved model in memory, as the checker looks at it: its tensors by name, and what its config says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from monolayer.checker.rounding import Format
from monolayer.data import Names

ONE, KEY, CODE, LABEL = 0, 1, 2, 3
"""Coordinates of the stream of a line: the constant 1, the key, the code, the first label slot."""
Arrays = dict[str, NDArray[Any]]
StepWeights = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Stored:
    """The tensors of a saved model by their names, and what its `config.json` says of them.

    `format`: the arithmetic that a claim is about; short formats are formats of weights only.
    """

    tensors: Arrays
    config: dict[str, Any]
    vocabulary: Names | None
    classes: Names | None
    format: Format
    memory: NDArray[Any] | None = None
    """Fingerprints `(M,)`, where the model keeps any."""
    certificate: bytes | OSError = field(default_factory=FileNotFoundError)
    """The certificate that lay beside the model, or why it could not be read."""

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

    @property
    def block(self) -> str:
        """The block with the first neurons of the readout: that of its first stage, or the whole of one without."""
        return "feed_forward.stages.0" if "feed_forward.stages.0.bias_1" in self.tensors else "feed_forward"

    def steps(self, block: str) -> StepWeights:
        """`weight_1`, `bias_1` and `weight_2` of a block of the readout."""
        return self[f"{block}.weight_1"], self[f"{block}.bias_1"], self[f"{block}.weight_2"]

    @property
    def stages(self) -> int:
        """Stages of the readout, which for a line is its value rank."""
        return len(self.config["steps"])

    def value(self, stage: int) -> int:
        """The coordinate of the stream that stage `stage`, from 2, averages; its code stands behind it."""
        return LABEL + int(self.config["labels"]) + 2 * (stage - 2)

    @property
    def raw(self) -> int:
        """Coordinates of the stream behind the label slots, where an approximator keeps the token itself."""
        return int(self.config["grid"]["dim"]) if self.config["kind"] == "approximator" else 0
