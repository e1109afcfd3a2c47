"""What a network of one layer holds, against the noise that it bears: bits a parameter and tolerated noise, measured.

Random sequences without repeats, a random class a token: nothing to learn, everything to hold. For each network: label
bits (points times the entropy of their labels, and what is left when the token is known) over the numbers in the file,
embeddings included, and over those of the readout alone; the largest σ at which multiplying every weight by
`1 + σ · normal` leaves 99 of 100 labels right; for robust models also the noise that is proved, weight by weight in the
worst case; and the share of labels that come back with weights in each format (integers: one scale a row).

The last line has labels of 53 random bits, read as one real number each.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import monolayer as ml
from monolayer.experiments.experiment import Experiment, Figure, Progress, Setting, Table
from monolayer.experiments.look import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, amount, chart, line, scatter
from monolayer.experiments.synthetic import without_repeats
from monolayer.experiments.trainer import train

CLASSES, ENOUGH = 16, 0.99
RANKS = (8, 16, 32, 64, 128)
FORMATS = ("float64", "float32", "bfloat16", "float16", "int8", "int6", "int4")
ANCHORS = ((3.6, "trained GPTs, 3.6 bits (Morris 2025)"), (2.0, "trained on facts, 2 bits (Allen-Zhu 2024)"))
READOUTS = ("feed_forward", "head")


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    count, length, words, asked = (2000, 16, 1000, 64) if setting.full else (80, 8, 60, 40)
    X, Y = without_repeats(count, length, words, CLASSES, seed=setting.seed)
    rows = []
    wishes: list[tuple[str, dict[str, Any]]] = [("paper's readout", {"readout": "paper"}), ("line", {})]
    wishes += [(f"robust, rank {k}", {"robust": True, "rank": k}) for k in RANKS]
    for done, (name, wish) in enumerate(wishes):
        progress(name, 0.7 * done / len(wishes))
        try:
            model = ml.memorize(X, Y, seed=setting.seed, **wish)
        except ml.PrecisionError as error:
            rows.append({"name": name, "refused": str(error)})
            continue
        proof = ml.certify(model, X, Y)
        row = _measure(name, model, X, Y, asked, setting.seed)
        rows.append(row | {"verdict": proof.verdict, "proved": proof.noise, "neurons": model.summary.runs})  # type: ignore[union-attr]
    progress("53 random bits a label", 0.7)
    rows.append(_wide_labels(X, setting.seed))
    progress("training", 0.75)
    trained = train(X, Y, width=64, seconds=240.0 if setting.full else 2.0, seed=setting.seed, device=setting.device)
    row = _measure("trained", trained.model.cpu(), X, Y, asked, setting.seed)
    rows.append(row | {"seconds": trained.seconds, "accuracy": trained.accuracy})
    return {"sequences": count, "length": length, "vocabulary": words, "points": int(X.size), "rows": rows}


def _measure(name: str, model: nn.Module, X: Any, Y: Any, asked: int, seed: int) -> dict[str, Any]:
    few, labels = X[:asked], Y[:asked]
    whole = int(X.size)
    readout = sum(p.numel() for part, p in model.named_parameters() if part.startswith(READOUTS))
    if readout == sum(p.numel() for part, p in model.named_parameters() if part.startswith("head")):
        readout += sum(p.numel() for part, p in model.named_parameters() if "feed_forward" in part)
    return {
        "name": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "readout": readout,
        "bits": whole * math.log2(CLASSES),
        "beyond": _beyond(X, Y),
        "recall": _recall(model, X, Y),
        "noise": _tolerance(model, few, labels, seed),
        "formats": {name: _recall(_in_format(model, name), few, labels) for name in FORMATS},
    }


def _wide_labels(X: Any, seed: int) -> dict[str, Any]:
    """Labels of 53 random bits in the line's readout for real numbers; right means equal to the last bit."""
    Y = np.random.default_rng(seed).random(X.shape)
    model = ml.memorize(X, Y, seed=seed)
    right = float((model.predict(X) == Y).mean())
    readout = sum(p.numel() for part, p in model.named_parameters() if part.startswith(READOUTS))
    return {
        "name": "line, 53 bits a label",
        "parameters": sum(p.numel() for p in model.parameters()),
        "readout": readout,
        "bits": float(53 * X.size),
        "beyond": float(53 * X.size),
        "recall": right,
        "noise": None,
        "verdict": ml.certify(model, X, Y).verdict,
    }


def _beyond(X: Any, Y: Any) -> float:
    """Bits that the labels carry beyond their tokens."""

    def total(values: Any) -> float:
        count = np.unique(values, return_counts=True)[1]
        return float((count * np.log2(count)).sum())

    return total(X) - total(X * CLASSES + Y)


@torch.no_grad()
def _recall(model: nn.Module, X: Any, Y: Any) -> float:
    if isinstance(model, ml.Monolayer):
        try:
            return float((model.predict(X) == Y).mean())
        except ml.DataError:  # weights that overflow a short format give no number
            return 0.0
    answers = [model(part).argmax(-1) for part in torch.split(torch.from_numpy(X), 512)]
    return float((torch.cat(answers).numpy() == Y).mean())


def _changed(model: nn.Module, change: Any) -> nn.Module:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.copy_(change(weight))
    return other


def _tolerance(model: nn.Module, X: Any, Y: Any, seed: int) -> float | None:
    """The largest σ with enough labels right, to a tenth of a decade, by bisection; None: below 10^−15."""

    def holds(sigma: float) -> bool:
        generator = torch.Generator().manual_seed(seed)
        noisy = _changed(model, lambda w: w * (1.0 + sigma * torch.randn(w.shape, generator=generator, dtype=w.dtype)))
        return _recall(noisy, X, Y) >= ENOUGH

    low, high = -15.0, 0.0
    if not holds(10.0**low):
        return None
    while high - low > 0.1:
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(10.0**middle) else (low, middle)
    return float(10.0**low)


def _in_format(model: nn.Module, name: str) -> nn.Module:
    if not name.startswith("int"):
        return _changed(model, lambda w: w.to(getattr(torch, name)).to(w.dtype))
    top = 2 ** (int(name[3:]) - 1) - 1

    def whole(weight: Tensor) -> Tensor:
        largest = weight.nan_to_num().abs().amax(-1, keepdim=True) if weight.ndim > 1 else weight.abs().max()
        scale = (largest / top).clamp_min(torch.finfo(weight.dtype).tiny)
        rounded: Tensor = (weight / scale).round().clamp(-top, top) * scale
        return rounded

    return _changed(model, whole)


# -- reading ------------------------------------------------------------------------------------------------


def _rows(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if "refused" not in row]


def answer(results: dict[str, Any]) -> str:
    rows = {row["name"]: row for row in _rows(results)}
    robust = [row for row in rows.values() if row["name"].startswith("robust")]
    best = max(robust, key=lambda row: row["noise"] or 0.0)
    exact, wide, trained = rows["line"], rows["line, 53 bits a label"], rows["trained"]
    eight = sum(row["formats"]["int8"] == 1.0 for row in robust)
    return (
        f"Bits are paid for with margin. On {results['points']:,} random labels the line holds "
        f"{amount(exact['bits'] / exact['parameters'])} bits a parameter and bears noise of {_noise(exact)}; robust "
        f"models hold {amount(min(r['bits'] / r['parameters'] for r in robust))} to "
        f"{amount(max(r['bits'] / r['parameters'] for r in robust))} and bear up to {_noise(best)} at random "
        f"({amount(best['proved'])} proved, in the worst case); {eight} of {len(robust)} return every label asked for "
        f"in int8. With 53 bits a label the line holds {amount(wide['bits'] / wide['parameters'])}, bit for bit. A "
        f"trained Transformer holds {amount(trained['bits'] * trained['recall'] / trained['parameters'])} at "
        f"{trained['recall']:.2%} of the labels after {trained['seconds']:.0f} s, and bears {_noise(trained)}."
    )


def _noise(row: dict[str, Any]) -> str:
    return "less than 10^−15, or too few labels" if row["noise"] is None else amount(row["noise"], 2)


def figures(results: dict[str, Any]) -> list[Figure]:
    rows = _rows(results)
    kinds = (("line", BLUE), ("paper", GREY), ("robust", GREEN), ("trained", ORANGE))
    traces = []
    for kind, colour in kinds:
        some = [row for row in rows if row["name"].startswith(kind) and row["noise"] is not None]
        if some:
            bits = [row["bits"] * row["recall"] / row["parameters"] for row in some]
            traces.append(scatter(kind, [row["noise"] for row in some], bits, colour))
    robust = [row for row in rows if row["name"].startswith("robust")]
    traces.append(
        scatter("robust, proved", [r["proved"] for r in robust], [r["bits"] / r["parameters"] for r in robust], VIOLET)
    )
    ranks = [int(row["name"].split()[-1]) for row in robust]
    return [
        Figure(
            "Bits a parameter against tolerated noise",
            chart(
                traces,
                "relative noise on every weight",
                "label bits a parameter",
                log_x=True,
                log_y=True,
                levels=ANCHORS,
            ),
            "All parameters count, embeddings included. Noise: normal, 99 of 100 labels right; proved: every change of "
            "every weight by at most that share, all labels right.",
        ),
        Figure(
            "Neurons against rank",
            chart(
                [
                    line("robust", ranks, [row["neurons"] for row in robust], GREEN),
                    line("one a label", ranks, [results["points"]] * len(ranks), RED, dash="dash", markers=False),
                ],
                "rank of the values k",
                "neurons",
                log_x=True,
                log_y=True,
                ticks_x=ranks,
            ),
            "In k dimensions a half-space holds more facts of a class: capacity against rank, with whole models.",
        ),
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    rows = _rows(results)
    sizes = [
        [
            row["name"],
            amount(row["parameters"]),
            amount(row["bits"] * row["recall"] / row["parameters"]),
            amount(row["bits"] * row["recall"] / row["readout"]),
            amount(row["beyond"] * row["recall"] / row["parameters"]),
            f"{row['recall']:.4%}",
            "—" if row["noise"] is None else amount(row["noise"], 2),
            amount(row.get("proved"), 2),
        ]
        for row in rows
    ]
    columns = [
        "network",
        "parameters",
        "bits a parameter",
        "of the readout",
        "beyond the token",
        "right",
        "noise",
        "proved",
    ]
    formats = [[row["name"], *(f"{row['formats'][name]:.2%}" for name in FORMATS)] for row in rows if "formats" in row]
    return [
        Table("What they hold", columns, sizes),
        Table("Labels right with weights in a format", ["network", *FORMATS], formats),
    ]


def limits(results: dict[str, Any]) -> str:
    refused = [row["name"] for row in results["rows"] if "refused" in row]
    words = f" Refused: {', '.join(refused)}." if refused else ""
    return (
        "One kind of data, one draw of the noise for each size, and formats are asked of some sequences only. The "
        "trained model has a clock of minutes on a CPU, one width and no care for noise: longer training, and training "
        f"for noise, would move its point. Half-spaces are found greedily: fewer may do.{words}"
    )


EXPERIMENT = Experiment(
    "frontier", "What does it cost to survive noise and short formats?", run, answer, figures, tables, limits
)
