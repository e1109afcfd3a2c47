"""What a built model is, in numbers: for the table and for `--json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monolayer.cli.console import number

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

    @property
    def summary(self) -> Summary:
        assert self.model.summary is not None  # a model that was just built has one
        return self.model.summary

    def rows(self) -> list[tuple[str, str]]:
        """The table after a construction."""
        summary, beyond = self.summary, self.bits_beyond_tokens()
        bits = number(summary.bits_per_parameter)
        if beyond is not None:
            bits += f"; {number(beyond / summary.parameters)} beyond what the token alone says"
        rows = [
            ("sequences", number(summary.sequences)),
            ("labels", f"{summary.labelled:,} on {summary.points:,} different points"),
            ("vocabulary", number(summary.vocabulary)),
            ("ε (closest tokens)", number(self.epsilon())),
            *self._readout(),
            ("numbers in the file", _beside(summary.parameters, summary.corollary_1)),
            ("numbers in a dense pass", _beside(summary.dense_numbers, summary.corollary_1_dense)),
            ("label bits per parameter", bits),
        ]
        if summary.conflicts:
            rows.append(("labels overruled", number(summary.conflicts)))
        if summary.readout_error is not None:
            rows.append(("readout error, measured", number(summary.readout_error)))
        share = "" if self.right == self.total else f" ({self.right / self.total:.4%})"
        rows += [
            ("accuracy", f"{self.right:,} of {self.total:,}{self._within()}{share}"),
            ("seconds", f"{self.seconds:.2f} to build, {self.seconds_check:.2f} to check"),
        ]
        return rows

    def _readout(self) -> list[tuple[str, str]]:
        """What holds the labels: steps on the line, or half-spaces."""
        summary = self.summary
        if summary.layout != "gates":
            return [
                ("gap of points", f"{number(summary.gap)} of the range; 1/M² = {number(summary.expected_gap)}"),
                ("margin at label changes", _times(summary.margin, "the rounding error")),
                ("label runs", number(summary.runs)),
                *self._stages(),
            ]
        rows = [("neurons", f"{number(summary.runs)} half-spaces, values of rank {summary.rank}")]
        if summary.half_width is not None:
            rows.append(
                ("narrowest slab", f"{number(summary.half_width)} at contexts of length {summary.rank**0.5:.3g}")
            )
        if summary.bears is not None:
            rows.append(("noise on every weight", f"about {number(summary.bears)} of itself; verify --noise proves it"))
        return [*rows, ("weights", str(self.model.bos.dtype).removeprefix("torch."))]

    def _stages(self) -> list[tuple[str, str]]:
        """Value rank and format, where they are not 1 and float64."""
        summary, rows = self.summary, []
        if summary.rank > 1:
            left = ", then ".join(map(number, summary.contested or []))
            rows.append(("value rank", f"{summary.rank}; stretches left to the next stage: {left}"))
        if (dtype := str(self.model.bos.dtype).removeprefix("torch.")) != "float64":
            rows.append(("weights", dtype))
        return rows

    def _within(self) -> str:
        """What counts as right, where labels are real: equality, or the measured error of the `paper` readout."""
        if self.model.card.classes is not None:
            return ""
        error = self.summary.readout_error
        return " to within the readout error" if error else ", bit for bit"

    def json(self) -> dict[str, Any]:
        """The same numbers for machines."""
        return {
            **(self.model.card.summary_json() or {}),
            "bits_per_parameter": self.summary.bits_per_parameter,
            "bits_beyond_tokens": self.bits_beyond_tokens(),
            "epsilon": self.epsilon(),
            "right": self.right,
            "total": self.total,
            "accuracy": self.right / self.total,
            "seconds": self.seconds,
            "seconds_check": self.seconds_check,
        }

    def epsilon(self) -> float | None:
        """ε of the data's vectors, or of the token vectors that the construction chose; None for a single token."""
        from torch import nn

        from monolayer.theory.separation import separation

        if not isinstance(self.model.lift, nn.Embedding):
            return separation(self.data).epsilon
        rows = self.model.lift.weight.detach()
        rows = rows[~rows[:, 0].isnan()].cpu()
        return separation(rows[None].double().numpy()).epsilon if len(rows) > 1 else None

    def bits_beyond_tokens(self) -> float | None:
        """Bits of the labels that the token alone does not settle; None where labels are not per id."""
        from monolayer.construct.target import Target

        target = Target.of(self.data, self.model.card.causal)
        if target.per == "sequence" or self.data.vocabulary is None:
            return None
        return target.bits_beyond(self.data.tokens)


def _beside(ours: int | None, paper: int | None) -> str:
    return f"{number(ours)}; Corollary 1 of the paper: {number(paper)}"


def _times(value: float | None, unit: str) -> str:
    return "no label changes" if value is None else f"{number(value)} × {unit}"
