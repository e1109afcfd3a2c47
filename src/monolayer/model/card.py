"""What a model is besides its weights: what its tokens and labels are called, and what its builder measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Array, Words
from monolayer.data import Labels, Names, Sequences
from monolayer.data.choices import PerAnswer
from monolayer.data.fingerprint import contained, fingerprints, once
from monolayer.data.form import SourceForm
from monolayer.data.labelling import LABELLINGS, Labelling
from monolayer.data.layout import Manner
from monolayer.data.model_kinds import MEMORIZER
from monolayer.data.objects import JsonFields, JsonObject
from monolayer.data.sequences import Per
from monolayer.data.text import Script
from monolayer.table import plural


@dataclass(frozen=True)
class Summary:
    """What the constructor found out about the data and the network. `None` where a number has no meaning."""

    sequences: int
    labelled: int
    """Places that carry a label: tokens, or sequences."""
    points: int
    """`M`: different (token, context) points among them, as far as the format tells them apart."""
    vocabulary: int
    gap: float | None
    """Smallest distance of two different points in `z`, as a share of the range of `z`."""
    expected_gap: float | None
    """`1/M²`: that distance for `M` points thrown at random."""
    margin: float | None
    """Smallest distance of neighbours with different labels over the rounding error of `z`; None with one run."""
    temperature: float
    layout: str
    draws: int
    runs: int
    """Runs of equal labels on the line; neurons of a robust readout."""
    parameters: int
    """Numbers in the file."""
    corollary_1: int
    """What Corollary 1's formula counts on the same points, with ids on a line (d = 1) and the least head size, 1."""
    label_bits: float | None
    """Bits that the labels carry: points times the entropy of their classes; None for real labels."""
    conflicts: int
    """Labels overruled by `on_conflict`."""
    dense_numbers: int | None = None
    """Numbers that a dense pass multiplies by or adds: `parameters`, and the −1 and 1 of the later hidden layers."""
    corollary_1_dense: int | None = None
    """`dense_numbers` of Corollary 1's network: a dense pass counts a direction that rows share in each of them."""
    rank: int = 1
    """Rank of `W_V`."""
    contested: list[int] | None = None
    """Stretches of the line that each stage left to the next; None at rank 1 and for robust models."""
    half_width: float | None = None
    """Half-width of the narrowest slab between facts, contexts having length √rank; None on the line."""

    @classmethod
    def of(
        cls,
        counts: Mapping[str, int],
        *,
        sequences: int,
        labelled: int,
        vocabulary: int,
        dim: int,
        labels: int,
        entropy: float | None,
        **facts: object,
    ) -> Summary:
        """The summary that any builder can give, from a few sizes; `facts`: the other fields that are known.

        `counts`: as `Monolayer.counts` gives them. `dim`: numbers per token, 1 for ids; `labels`: numbers per label;
        `entropy`: bits per label, None for reals.
        """
        from monolayer.theory.bounds import corollary1_counts  # which needs Arb and SciPy

        counted, multiplied = corollary1_counts(labelled, dim, labels)
        unknown: JsonFields = dict.fromkeys(("gap", "expected_gap", "margin"))
        usual = {"points": labelled, "draws": 1, "conflicts": 0}
        return cls(
            sequences=sequences,
            labelled=labelled,
            vocabulary=vocabulary,
            corollary_1=counted,
            corollary_1_dense=multiplied,
            label_bits=None if entropy is None else labelled * entropy,
            **(unknown | usual | facts | dict(counts)),
        )

    @classmethod
    def from_json(cls, value: JsonFields) -> Summary | None:
        """The summary that a file holds; None if it is not one that a builder wrote, since nothing depends on it."""
        kinds = {each.name: str(each.type) for each in fields(cls)}
        if value.keys() != kinds.keys() or not all(_may_be(value[name], kind) for name, kind in kinds.items()):
            return None
        return cls(**value)

    @property
    def bits_per_parameter(self) -> float | None:
        """Bits of the labels per number in the file; None for real labels."""
        return None if self.label_bits is None else self.label_bits / self.parameters


def _may_be(value: object, annotation: str) -> bool:
    """Whether a JSON value has the type that a field of the summary is annotated with."""
    if type(value) is list:
        return "list[int]" in annotation and all(type(each) is int for each in value)
    kinds = {"int": (int,), "float": (int, float), "str": (str,), "None": (type(None),), "list[int]": ()}
    return any(type(value) in kinds[kind] for kind in annotation.split(" | "))


@dataclass(frozen=True)
class Grid:
    """What an approximator rounds its input to, and how far from `f` it may be (docs/approximation.md).

    The domain is `[low, high]^{d×n}`; each coordinate has `cells` cells, with a ramp of width `ramp` between any two
    neighbours.
    """

    dim: int
    length: int
    cells: int
    low: float
    high: float
    ramp: float
    error: float
    """Largest error off the ramps: a bound if `guaranteed`, else the largest found on sample points."""
    guaranteed: bool
    """Whether `error` follows from a modulus of continuity that the caller vouched for."""
    spread: float
    """Largest difference of two stored values of one output coordinate: what an answer on a ramp may be off by."""

    @property
    def ramp_share(self) -> float:
        """Share of the domain in which some coordinate of some token lies on a ramp; at most `d n η`."""
        free = 1.0 - (self.cells - 1) * self.ramp / (self.high - self.low)
        return float(-math.expm1(self.dim * self.length * math.log(free)))

    def mean_error(self, p: float) -> float:
        """`(mean |f − g|^p)^{1/p}` over the domain at most, if `error` is a bound: ramps err by `spread + 2 error`."""
        off, on = self.error**p, self.ramp_share * (self.spread + 2.0 * self.error) ** p
        return float((off + on) ** (1.0 / p))


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Sorted 64-bit fingerprints `(M,)` of the points that a model was built from; `per` and `causal`: as its card."""

    words: Words
    per: Per
    causal: bool

    @classmethod
    def of(cls, data: Sequences, per: Per, *, positions: bool, causal: bool) -> Fingerprint:
        """The fingerprints of all answering places of ids; where some places have no label, of the labelled ones."""
        stored = fingerprints(data, per, positions=positions, causal=causal)
        place = None if data.labels is None else data.labels.place
        return cls(once(stored if place is None else stored[place]), per, causal)

    def seen(self, data: Sequences, positions: bool) -> NDArray[np.bool_]:
        """Which answering places of the data, in the model's row numbers, are points that it was built from."""
        return contained(fingerprints(data, self.per, positions=positions, causal=self.causal), self.words)

    def __str__(self) -> str:
        return f"recognized by {plural(len(self.words), 'fingerprint')}, {self.words.nbytes:,} bytes"

    @property
    def false_positives(self) -> float:
        """The chance that a point which was never seen passes for one that was, taking the hash for random."""
        return len(self.words) / 2.0**64


SAME = ("kind", "per", "scalar", "causal", "next_token", "draw")
"""Fields of `config.json` that a card has under the same name."""


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
    per_answer: PerAnswer | None = None
    """How prompts and answers are read; None if it holds none. Stock folders may hold them."""
    kind: str = MEMORIZER.name
    grid: Grid | None = None
    """The cells of an approximator; None for a memorizer."""
    summary: Summary | None = field(default=None, repr=False)
    draw: JsonObject | None = field(default=None, repr=False)
    """All of the model that does not depend on its labels, as JSON: what `memorize(draw=)` reads. None: it has none."""
    script: Script | None = None
    """How the text was cut that the model recites; None for other models."""
    form: SourceForm | None = None
    """The form of the files or tables that it was built from; None for other data."""
    fingerprint: Fingerprint | None = field(default=None, repr=False, compare=False)
    """Fingerprints of the points that the model was built from; None if they were not asked for."""

    @classmethod
    def described(
        cls, config: JsonFields, vocabulary: Names | None, classes: Names | None, fingerprint: Fingerprint | None
    ) -> Card:
        """The card of the model with this `config.json`, these names and these fingerprints."""
        grid, summary, script = (config[key] for key in ("grid", "summary", "script"))
        return cls(
            vocabulary,
            classes,
            **{key: config[key] for key in SAME},
            grid=None if grid is None else Grid(**grid),
            summary=None if summary is None else Summary.from_json(summary),
            script=None if script is None else Script(**script),
            form=SourceForm.from_json(config["form"]),
            fingerprint=fingerprint,
        )

    @property
    def labelling(self) -> Labelling:
        """Whether a label belongs to a token or to a sequence."""
        return LABELLINGS[self.per]

    @property
    def prompts(self) -> bool:
        """Whether it holds prompts and answers."""
        return self.per_answer is not None

    @property
    def manner(self) -> Manner:
        """How the model cuts strings, what its labels belong to, and which form of data it knows."""
        cuts = None if self.vocabulary is None else self.vocabulary.cuts
        return Manner(cuts, self.per_answer or self.per, form=self.form)

    def decode(self, values: Array) -> Any:
        """Label values `(P,)` or `(P, m)` as their user wrote them."""
        return self.labels(values).decode(values)

    def labels(self, values: Array) -> Labels:
        """Label values `(P,)` or `(P, m)` as `Labels` of this model's kind."""
        return Labels(values, self.per, self.classes, self.scalar)

    def shaped(self, flat: Array, data: Sequences, X: object, lengths: object) -> Any:
        """Flat answers about `data`, which were given as `X`, in the shape in which `predict` returns them."""
        if self.labelling.at_tokens and data.rectangular and lengths is None and not isinstance(X, list):
            return flat.reshape(len(data), -1, *flat.shape[1:])
        return self.labelling.by_sequence(data, flat)

    def with_summary(self, summary: Summary) -> Card:
        """The card with this summary."""
        return replace(self, summary=summary)

    def summary_json(self) -> JsonObject | None:
        """The summary as an object that JSON can hold; None if there is none."""
        return None if self.summary is None else asdict(self.summary)

    def grid_json(self) -> JsonObject | None:
        """The grid of an approximator as an object that JSON can hold; None if there is none."""
        return None if self.grid is None else asdict(self.grid)
