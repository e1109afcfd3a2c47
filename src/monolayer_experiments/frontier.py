"""What a network of one layer holds, against the noise that it bears: bits a parameter and tolerated noise, measured.

Random sequences without repeats, a random class a token: nothing to learn, everything to hold. For each network: label
bits (points times the entropy of their labels, and what is left when the token is known) over the numbers in the file,
embeddings included, and over those of the readout alone; the largest σ at which multiplying every weight by
`1 + σ · normal` leaves 99 of 100 labels right; for robust models also the noise that is proved, weight by weight in the
worst case; and the share of labels that come back with weights in each format (integers: one scale a row).

Beside them: gates of rank one (`gated.py`); labels of 53 random bits, read as one real number each; the packed readout
(`packed.py`) on the same data, and on sequences with labels of 8,192 classes, ten times as long; and Transformers of
three widths, trained. Last, how many facts robust models of rank k hold (`capacity.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import nn

import monolayer as ml
from monolayer_experiments import capacity
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.gated import GatedSteps
from monolayer_experiments.look import BLUE, GOLD, GREEN, GREY, ORANGE, RED, VIOLET, amount, chart, line, scatter
from monolayer_experiments.packed import memorize_packed, pack
from monolayer_experiments.perturbed import in_format, recall, tolerance
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import train

QUESTION = "What does it cost to survive noise and short formats?"

CLASSES = 16
RANKS = (8, 16, 32, 64, 128)
FORMATS = ("float64", "float32", "bfloat16", "float16", "int8", "int6", "int4")
ANCHORS = ((3.6, "3.6 trained GPTs · 3.0 by hand · 2.0 trained on facts"), (3.0, ""), (2.0, ""))
"""Bits a parameter of others; one line of words, for three would cover one another."""
WIDTHS = (32, 64, 128)
MANY_BITS = 13
"""Of a label of many classes: 8,192 of them, four to a packed number of 52 bits."""
READOUTS = ("feed_forward", "head", "unpack", "place")
"""Words in the names of parameters that belong to a readout."""
NONE = 1e-16
"""Where the figure draws what bears no noise that was tried."""


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    count, length, words, asked = (2000, 16, 1000, 64) if setting.full else (80, 8, 60, 40)
    X, Y = without_repeats(count, length, words, CLASSES, seed=setting.seed)
    rows = []
    wishes: list[tuple[str, dict[str, Any]]] = [("paper's readout", {"readout": "paper"}), ("line", {})]
    wishes += [(f"robust, rank {k}", {"robust": True, "rank": k}) for k in RANKS]
    for done, (name, wish) in enumerate(wishes):
        progress(name, 0.4 * done / len(wishes))
        try:
            model = ml.memorize(X, Y, seed=setting.seed, **wish)
        except ml.PrecisionError as error:
            rows.append({"name": name, "refused": str(error)})
            continue
        proof = ml.certify(model, X, Y)
        row = _measure(name, model, X, Y, asked, setting.seed)
        rows.append(row | {"verdict": proof.verdict, "proved": proof.noise, "neurons": model.summary.runs})  # type: ignore[union-attr]
    progress("gates, and 53 random bits a label", 0.4)
    rows.append(_measure("gates, rank 1", GatedSteps(X, Y, setting.seed), X, Y, asked, setting.seed))
    rows.append(_wide_labels(X, asked, setting.seed))
    progress("packed labels", 0.45)
    rows.append(_packed("packed", X, Y, CLASSES.bit_length() - 1, asked, setting.seed))
    many = without_repeats(2 * count, 10 * length, 20 * length, 2**MANY_BITS, seed=setting.seed)
    rows.append(_packed("packed, 8,192 classes", *many, MANY_BITS, asked, setting.seed))
    for done, width in enumerate(WIDTHS):
        progress(f"training, width {width}", 0.5 + 0.1 * done)
        seconds = (50.0 if setting.device == "cuda" else 60.0) if setting.full else 1.0
        trained = train(X, Y, width=width, seconds=seconds, seed=setting.seed, device=setting.device)
        row = _measure(f"trained, width {width}", trained.model.cpu(), X, Y, asked, setting.seed)
        rows.append(row | {"seconds": trained.seconds, "accuracy": trained.accuracy})
    held = capacity.run(setting, lambda stage, share: progress(stage, 0.8 + 0.2 * share))
    data = {"sequences": count, "length": length, "vocabulary": words, "points": int(X.size)}
    return data | {"rows": rows, "capacity": held}


def _packed(name: str, X: Any, Y: Any, bits: int, asked: int, seed: int) -> dict[str, Any]:
    """A row of the packed readout: the certificate is that of its packed numbers, which are real labels."""
    model = memorize_packed(X, Y, bits, seed)
    proof = ml.certify(model.body, X, pack(Y, bits))
    return _measure(name, model, X, Y, asked, seed, 1 << bits) | {"verdict": proof.verdict, "proved": None}


def _measure(
    name: str, model: nn.Module, X: Any, Y: Any, asked: int, seed: int, classes: int = CLASSES
) -> dict[str, Any]:
    few, labels = X[:asked], Y[:asked]
    whole = int(X.size)
    counts = {part: p.numel() for part, p in model.named_parameters()}
    readout = sum(count for part, count in counts.items() if any(word in part for word in READOUTS))
    return {
        "name": name,
        "parameters": sum(counts.values()),
        "readout": readout,
        "bits": whole * math.log2(classes),
        "beyond": _beyond(X, Y),
        "recall": recall(model, X, Y),
        "noise": tolerance(model, few, labels, seed),
        "formats": {name: recall(in_format(model, name), few, labels) for name in FORMATS},
    }


def _wide_labels(X: Any, asked: int, seed: int) -> dict[str, Any]:
    """Labels of 53 random bits in the line's readout for real numbers; right means equal to the last bit."""
    Y = np.random.default_rng(seed).random(X.shape)
    model = ml.memorize(X, Y, seed=seed)
    right = float((model.predict(X) == Y).mean())
    readout = sum(p.numel() for part, p in model.named_parameters() if part.startswith(("feed_forward", "head")))
    return {
        "name": "line, 53 bits a label",
        "parameters": sum(p.numel() for p in model.parameters()),
        "readout": readout,
        "bits": float(53 * X.size),
        "beyond": float(53 * X.size),
        "recall": right,
        "noise": tolerance(model, X[:asked], Y[:asked], seed),
        "verdict": ml.certify(model, X, Y).verdict,
    }


def _beyond(X: Any, Y: Any) -> float:
    """Bits that the labels carry beyond their tokens."""

    def total(values: Any) -> float:
        count = np.unique(values, return_counts=True)[1]
        return float((count * np.log2(count)).sum())

    return total(X) - total(X * (int(Y.max()) + 1) + Y)


# -- reading ------------------------------------------------------------------------------------------------


def _rows(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in results["rows"] if "refused" not in row]


def answer(results: dict[str, Any]) -> str:
    rows = {row["name"]: row for row in _rows(results)}
    robust, trained = ([row for name, row in rows.items() if name.startswith(kind)] for kind in ("robust", "trained"))
    best = max(robust, key=lambda row: row["noise"] or 0.0)
    learnt = max(trained, key=lambda row: row["recall"])
    exact, many = rows["line"], rows["packed, 8,192 classes"]
    eight = sum(row["formats"]["int8"] == 1.0 for row in robust)
    return (
        f"Bits are paid for with margin. On {results['points']:,} random labels the packed readout holds "
        f"{amount(_density(rows['packed']))} bits a parameter, all right, and {amount(_density(many))} where labels "
        f"have 8,192 classes, but bears no noise that was tried. The line holds {amount(_density(exact))} and bears "
        f"noise of {_noise(exact)}; gates of rank 1 hold {amount(_density(rows['gates, rank 1']))} and bear "
        f"{_noise(rows['gates, rank 1'])}; robust models hold {amount(min(map(_density, robust)))} to "
        f"{amount(max(map(_density, robust)))} and bear up to {_noise(best)} at random ({amount(best['proved'])} "
        f"proved, in the worst case); {eight} of {len(robust)} return every label asked for in int8. The best trained "
        f"Transformer, of {amount(learnt['parameters'])} parameters, holds {amount(_density(learnt))} at "
        f"{learnt['recall']:.2%} of the labels after {learnt['seconds']:.0f} s, and bears {_noise(learnt)}."
    )


def _density(row: dict[str, Any]) -> float:
    """Bits a parameter, of the labels that are right."""
    return float(row["bits"] * row["recall"] / row["parameters"])


def _noise(row: dict[str, Any]) -> str:
    return "less than 10^−15, or too few labels" if row["noise"] is None else amount(row["noise"], 2)


def figures(results: dict[str, Any]) -> list[Figure]:
    rows = _rows(results)
    kinds = (("packed", RED), ("line", BLUE), ("paper", GREY), ("gates", GOLD), ("robust", GREEN), ("trained", ORANGE))
    traces = []
    for kind, colour in kinds:
        # A network that is not right without noise has no place on this axis.
        some = [row for row in rows if row["name"].startswith(kind) and (row["noise"] or row["recall"] == 1.0)]
        if some:
            traces.append(
                scatter(kind, [row["noise"] or NONE for row in some], [_density(row) for row in some], colour)
            )
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
            "All parameters count, embeddings included. Noise: normal, 99 of 100 labels right; what bears none of the "
            "noises tried stands at the left edge. Proved: every change of every weight by at most that share, all "
            "labels right. Dotted, for other data: trained GPTs (Morris 2025), an entry of the hand-coding challenge "
            "with 90 % of its facts right (2026), models trained on facts (Allen-Zhu 2024).",
        ),
        capacity.figure(results["capacity"]),
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
            amount(_density(row)),
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
        capacity.table(results["capacity"]),
    ]


def limits(results: dict[str, Any]) -> str:
    refused = [row["name"] for row in results["rows"] if "refused" in row]
    words = f" Refused: {', '.join(refused)}." if refused else ""
    return (
        "One kind of data, one draw of the noise for each size, and formats are asked of some sequences only. Trained "
        "models have a clock of a minute each and no care for noise: longer training, and training for noise, would "
        "move their points. Half-spaces are found greedily: fewer may do. The packed readout is a fixed network of "
        "more than a hundred narrow layers behind the line, read at the begin token. Anchors are others' figures, for "
        "other data; fact-storing MLPs (Dugan and others 2025) are not drawn, for no figure of theirs in bits a "
        f"parameter was at hand to check.{words}"
    )
