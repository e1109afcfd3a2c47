"""What a model that was just built is, in numbers: for the table and for `--json`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monolayer.cli.answers import agreement
from monolayer.cli.console import number
from monolayer.table import plural

if TYPE_CHECKING:
    from monolayer.data import Sequences
    from monolayer.model.card import Summary
    from monolayer.model.monolayer import Monolayer


@dataclass(frozen=True)
class Built:
    """A model fresh from its construction, its data, how many of how many labels came back, and how long both took."""

    model: Monolayer
    data: Sequences
    right: int
    total: int
    seconds: float
    seconds_check: float

    @classmethod
    def checked(cls, model: Monolayer, data: Sequences, seconds: float, step: Callable[[str, float], None]) -> Built:
        """The same, once every label is asked for."""
        step("checking every label", 0.9)
        began = time.perf_counter()
        right, total = agreement(model, data, model.labels(model.encode(data)))
        return cls(model, data, right, total, seconds, time.perf_counter() - began)

    def rows(self) -> list[tuple[str, str]]:
        """The table after a construction; `monolayer inspect` has the rest."""
        share = "" if self.right == self.total else f" ({self.right / self.total:.4%})"
        return [
            ("sequences", number(len(self.data))),
            *([] if self.model.summary is None else self._built(self.model.summary)),
            ("accuracy", f"{self.right:,} of {plural(self.total, 'label')}{self._within()}{share}"),
            ("seconds", f"{self.seconds:.2f} to build, {self.seconds_check:.2f} to check"),
        ]

    def _built(self, summary: Summary) -> list[tuple[str, str]]:
        """What the builder measured; a model with a given draw carries none of it, so that two ways give one file."""
        rows = [
            ("labels", f"{summary.labelled:,} on {plural(summary.points, 'different point')}"),
            ("vocabulary", number(summary.vocabulary)),
            *self._readout(summary),
            ("numbers in the file", number(summary.parameters)),
        ]
        if summary.conflicts:
            rows.append(("labels overruled", number(summary.conflicts)))
        if summary.readout_error is not None:
            rows.append(("readout error, measured", number(summary.readout_error)))
        return rows

    def _readout(self, summary: Summary) -> list[tuple[str, str]]:
        """What holds the labels: steps on the line, or half-spaces; value rank and format where they are unusual."""
        dtype = str(self.model.bos.dtype).removeprefix("torch.")
        if summary.layout == "gates":
            rows = [("neurons", f"{number(summary.runs)} half-spaces, values of rank {summary.rank}")]
            if summary.bears is not None:
                bears = f"about {number(summary.bears)} of itself; verify --noise proves it"
                rows.append(("noise on every weight", bears))
            return [*rows, ("weights", dtype)]
        margin = "no label changes" if summary.margin is None else f"{number(summary.margin)} × the rounding error"
        rows = [("label runs", number(summary.runs)), ("margin at label changes", margin)]
        if summary.rank > 1:
            left = ", then ".join(map(number, summary.contested or []))
            rows.append(("value rank", f"{summary.rank}; stretches left to the next stage: {left}"))
        return [*rows, *([] if dtype == "float64" else [("weights", dtype)])]

    def _within(self) -> str:
        """What counts as right, where labels are real: equality, or the measured error of the `paper` readout."""
        if self.model.card.classes is not None:
            return ""
        error = None if self.model.summary is None else self.model.summary.readout_error
        return " to within the readout error" if error else ", bit for bit"

    def json(self) -> dict[str, Any]:
        """The same numbers for machines."""
        summary = self.model.summary
        known = {} if summary is None else {"bits_per_parameter": summary.bits_per_parameter}
        return {
            **(self.model.card.summary_json() or {"sequences": len(self.data)}),
            **known,
            "bits_beyond_tokens": self.bits_beyond_tokens(),
            "right": self.right,
            "total": self.total,
            "accuracy": self.right / self.total,
            "seconds": self.seconds,
            "seconds_check": self.seconds_check,
        }

    def bits_beyond_tokens(self) -> float | None:
        """Bits of the labels that the token alone does not settle; None where labels are not per id."""
        from monolayer.construct.target import Target

        target = Target.of(self.data, self.model.card.causal)
        if target.per == "sequence" or self.data.vocabulary is None:
            return None
        return target.bits_beyond(self.data.tokens)
