"""What a model is besides its weights: what its tokens and labels are called, and what its builder measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from monolayer.data import Labels, Names
from monolayer.data.sequences import Per


@dataclass(frozen=True)
class Summary:
    """What the constructor found out about the data and the network. `None` where a number has no meaning."""

    sequences: int
    labelled: int
    """Places that carry a label: tokens, or sequences."""
    points: int
    """`M`: different (token, context) points among them, as far as the format tells them apart."""
    vocabulary: int
    gap: float
    """Smallest distance of two different points in `z`, as a share of the range of `z`."""
    expected_gap: float
    """`1/M²`: that distance for `M` points thrown at random."""
    margin: float | None
    """Smallest distance of neighbours with different labels over the rounding error of `z`; None with one run."""
    temperature: float
    layout: str
    draws: int
    runs: int
    parameters: int
    corollary_1: int
    label_bits: float
    """Bits that the labels carry: points times the entropy of their labels."""
    conflicts: int
    """Labels overruled by `on_conflict`."""
    label_error: float
    """Largest distance of a stored real label from the given one; 0 for classes."""
    readout_error: float | None
    """Largest error of the dense `paper` readout on the points it was tried on; None for `exact`."""
    seconds: float

    @property
    def bits_per_parameter(self) -> float:
        return self.label_bits / self.parameters


@dataclass(frozen=True)
class Card:
    """Names and kinds of tokens and labels, and the summary."""

    vocabulary: Names | None
    """Names of the ids, row by row; None for vector tokens."""
    classes: Names | None
    """Names of the classes; None for real labels."""
    per: Per
    scalar: bool = False
    causal: bool = False
    next_token: bool = False
    kind: Literal["memorizer"] = "memorizer"
    summary: Summary | None = field(default=None, repr=False)

    def decode(self, values: Any) -> Any:
        """What users call these label values."""
        return Labels(values, self.per, self.classes, self.scalar).decode(values)

    def with_summary(self, summary: Summary) -> Card:
        return replace(self, summary=summary)

    def summary_json(self) -> dict[str, Any] | None:
        return None if self.summary is None else asdict(self.summary)
