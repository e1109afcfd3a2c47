"""Measure how well each part of a Transformer tells contexts apart on given data.

A part is a submodule whose output is one vector per token. It is an (r, δ)-contextual mapping for the data, as
`theory/contextual.py` measures it: outputs reach norm `r`, and two points that a contextual mapping must tell apart
(they differ in their token, or in the set of tokens around it) are at least `δ` from each other. It takes `log2(r/δ)`
bits to hold that difference. A point is *confused* if its output, rounded to a format, equals that of a point which
must differ: no readout in that format can give both points their labels.

The context of a token is its sequence. In a causal model, which cannot see what follows, it is the prefix that ends at
the token.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Ints
from monolayer.auditing.heads import effective_ranks, heads_of
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.table import as_html, columns, plural
from monolayer.theory.contextual import contextual_mapping

AUDIT_FORMATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
AUDIT_COLUMNS = ("part", "width", "r", "δ", "bits", "confused", "QK", "OV")
LEGEND = "confused: points in float32, float16, bfloat16; QK, OV: effective ranks"
MOST_NAMED = 4
"""A sentence names up to this many parts one by one. If there are more, it names only the first and the last."""


@dataclass(frozen=True)
class AuditedPart:
    """The measurements of one submodule.

    - `name`, `kind`, `width`: its name in the model, the name of its class, and the length of its output vectors.
    - `r`, `delta`: r and δ of the contextual mapping.
    - `bits`: how many bits it takes to hold δ; infinite if δ is 0.
    - `confused`: how many points are confused in each format.
    - `resolution`: a distance that rounding alone can cause, `width · u · r`, where `u` is the unit roundoff of the
      module's output. This is about the error of a sum of products with one term per coordinate of the output.
    - `qk_rank`, `ov_rank`: effective ranks, one per head; None if the heads are not known.
    """

    name: str
    kind: str
    width: int
    r: float
    delta: float
    bits: float
    confused: dict[str, int]
    resolution: float
    qk_rank: tuple[float, ...] | None = None
    ov_rank: tuple[float, ...] | None = None

    @property
    def tells_apart(self) -> bool | None:
        """Whether this part tells all contexts apart; None if δ is positive, but so small that rounding explains it."""
        if self.delta == 0:
            return False
        return True if self.delta > self.resolution else None


@dataclass(frozen=True)
class Audit:
    """The result of `audit`.

    - `points`: how many tokens in their contexts were compared.
    - `classes`: how many different classes they fall into. Points of one class need not be told apart.
    - `parts`: the measured parts of the model, in the order in which they were evaluated.
    - `causal`: whether the context of a token is its prefix rather than its whole sequence.
    """

    points: int
    classes: int
    parts: tuple[AuditedPart, ...]
    causal: bool = False
    columns: ClassVar[tuple[str, ...]] = AUDIT_COLUMNS

    def rows(self) -> list[list[str]]:
        """The table that users see: one row per part, with the columns `AUDIT_COLUMNS`."""
        return [
            [
                part.name,
                str(part.width),
                f"{part.r:.3g}",
                f"{part.delta:.3g}",
                f"{part.bits:.1f}",
                " ".join(f"{count}" for count in part.confused.values()),
                _range_text(part.qk_rank),
                _range_text(part.ov_rank),
            ]
            for part in self.parts
        ]

    @property
    def heading(self) -> str:
        """How many points of how many classes were compared, and what a class is."""
        context = "prefix: the model is causal" if self.causal else "sequence"
        return (
            f"{plural(self.points, 'point')} in {plural(self.classes, 'class')} (token, set of tokens of its {context})"
        )

    @property
    def note(self) -> str:
        """The text below the table in a notebook."""
        return f"{LEGEND}. {self.explain()}"

    def explain(self) -> str:
        """One sentence: which parts tell the contexts apart, and which do not."""
        if self.classes == 1:
            return "All points are the same token in the same context, so there is nothing to tell apart."
        apart = [part for part in self.parts if part.tells_apart]
        others = [part for part in self.parts if not part.tells_apart]
        if not apart:
            best = min(self.parts, key=lambda part: part.confused["float32"])
            return (
                f"No part tells all {self.classes:,} contexts apart beyond rounding; {best.name} comes closest and "
                f"confuses {best.confused['float32']:,} of {plural(self.points, 'point')} in float32."
            )
        hardest = max(apart, key=lambda part: part.bits)
        smallest = f"the smallest difference is in {hardest.name}, which takes {hardest.bits:.1f} bits"
        if not others:
            return f"Every part tells all {self.classes:,} contexts apart; {smallest}."
        tell, do = ("tells" if len(apart) == 1 else "tell"), ("does" if len(others) == 1 else "do")
        success = f"{_part_names(apart)} {tell} all {self.classes:,} contexts apart ({smallest})"
        return f"{success}; {_part_names(others)} {do} not."

    _repr_html_ = as_html

    def __repr__(self) -> str:
        return f"{self.heading}\n{columns(AUDIT_COLUMNS, self.rows())}\n{LEGEND}\n{self.explain()}"

    def to_json(self) -> dict[str, object]:
        """The audit as an object for JSON, in which infinite `delta` and `bits` are null."""
        parts = [
            asdict(part)
            | {name: x if math.isfinite(x := getattr(part, name)) else None for name in ("delta", "bits")}
            | {"tells_apart": part.tells_apart}
            for part in self.parts
        ]
        counted = {"points": self.points, "classes": self.classes, "causal": self.causal}
        return counted | {"parts": parts, "explanation": self.explain()}

    def __getitem__(self, name: str) -> AuditedPart:
        return next(part for part in self.parts if part.name == name)


def _part_names(parts: list[AuditedPart]) -> str:
    """The names of parts in words: all of them if they are few, else how many, with the first and the last."""
    names = [part.name for part in parts]
    if len(names) > MOST_NAMED:
        return f"{len(names):,} parts from {names[0]} to {names[-1]}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True, eq=False)
class AuditedTokens:
    """The data that parts are measured on.

    Two tokens must be told apart if their `classes` `(T,)` differ. `causal`: whether the context of a token is its
    prefix rather than its whole sequence.
    """

    data: Sequences
    classes: Ints
    causal: bool


def measure_part(name: str, modules: dict[str, nn.Module], points: AuditedTokens, output: Tensor) -> AuditedPart:
    """Measure the module `name`, one of `modules`, from its output `(T, p)` at these points."""
    outputs = output.double()
    by_sequence = np.split(outputs.numpy(), points.data.offsets[1:-1])
    mapping = contextual_mapping(lambda _: by_sequence, points.data, causal=points.causal)
    bits = 0.0  # also where δ is infinite: all points are one, so nothing has to be told apart
    if mapping.delta == 0:
        bits = math.inf
    elif mapping.r > 0 and math.isfinite(mapping.delta):
        bits = max(0.0, math.log2(mapping.r / mapping.delta))
    qk, ov = heads_of(modules[name], name, modules) or (None, None)
    width, roundoff = outputs.shape[-1], torch.finfo(output.dtype).eps / 2
    return AuditedPart(
        name=name,
        kind=type(modules[name]).__name__,
        width=width,
        r=mapping.r,
        delta=mapping.delta,
        bits=bits,
        confused={key: confused(outputs.to(dtype), points.classes) for key, dtype in AUDIT_FORMATS.items()},
        resolution=width * roundoff * mapping.r,
        qk_rank=effective_ranks(qk),
        ov_rank=effective_ranks(ov),
    )


def confused(outputs: Tensor, classes: Ints) -> int:
    """Count the points whose output equals the output of a point of another class.

    `outputs` is `(T, p)`, one row per point, and `classes` `(T,)` says which points may have equal outputs.
    """
    _, rows = distinct_rows(outputs.double().numpy())
    class_count = int(classes.max()) + 1
    row_and_class = np.unique(rows * class_count + classes)
    row_of_pair = row_and_class // class_count
    has_several_classes = np.bincount(row_of_pair, minlength=int(rows.max()) + 1) > 1
    return int(has_several_classes[rows].sum())


def _range_text(values: tuple[float, ...] | None) -> str:
    """The range of values in words, such as '1.00 … 2.50'; empty if there are none."""
    if values is None:
        return ""
    low, high = min(values), max(values)
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} … {high:.2f}"
