"""What a built model is, in numbers: for the table and for `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from monolayer.cli.console import number

if TYPE_CHECKING:
    from monolayer.model.monolayer import Monolayer


def summary_rows(model: Monolayer, right: int, total: int, seconds: float) -> list[tuple[str, str]]:
    """The table after a construction."""
    summary = model.summary
    assert summary is not None  # a model that was just built has one
    rows = [
        ("sequences", number(summary.sequences)),
        ("labels", f"{summary.labelled:,} on {summary.points:,} different points"),
        ("vocabulary", number(summary.vocabulary)),
        ("ε (closest tokens)", number(token_distance(model))),
        ("gap of points", f"{number(summary.gap)} of the range; 1/M² = {number(summary.expected_gap)}"),
        ("margin at label changes", _times(summary.margin, "the rounding error")),
        ("label runs", number(summary.runs)),
        ("parameters", f"{summary.parameters:,}; Corollary 1 of the paper: {summary.corollary_1:,}"),
        ("bits per parameter", number(summary.bits_per_parameter)),
    ]
    if summary.conflicts:
        rows.append(("labels overruled", number(summary.conflicts)))
    if summary.label_error:
        rows.append(("real labels stored within", number(summary.label_error)))
    if summary.readout_error is not None:
        rows.append(("readout error, measured", number(summary.readout_error)))
    share = "" if right == total else f" ({right / total:.4%})"
    rows += [
        ("accuracy", f"{right:,} of {total:,}{share}"),
        ("seconds", f"{summary.seconds:.2f} to build, {seconds:.2f} to check"),
    ]
    return rows


def summary_json(model: Monolayer, right: int, total: int, seconds: float) -> dict[str, Any]:
    """The same numbers for machines."""
    summary = model.summary
    assert summary is not None
    card = model.card.summary_json() or {}
    return {
        **card,
        "bits_per_parameter": summary.bits_per_parameter,
        "epsilon": token_distance(model),
        "right": right,
        "total": total,
        "accuracy": right / total,
        "seconds_check": seconds,
    }


def token_distance(model: Monolayer) -> float | None:
    """ε of the token vectors as the attention layer gets them; None for fewer than two, and for vector data."""
    from torch import nn

    from monolayer.theory.separation import separation

    if not isinstance(model.lift, nn.Embedding):
        return None
    rows = model.lift.weight.detach()
    rows = rows[~rows[:, 0].isnan()].cpu()
    return separation(rows[None].numpy()).epsilon if len(rows) > 1 else None


def _times(value: float | None, unit: str) -> str:
    return "no label changes" if value is None else f"{number(value)} × {unit}"
