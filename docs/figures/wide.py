"""The picture and the tables of docs/rate.md about wide numbers: weights fall, bits do not.

`python docs/figures/wide.py` builds networks for up to 10,000 labels, runs each of them exactly, prints the rows and
draws the picture. It takes some minutes; `python docs/figures/wide.py 96 992` asks for these numbers of labels only,
and draws nothing.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
from findings import draw

import monolayer as ml
from monolayer.theory.wide import significant, wide
from monolayer_experiments.look import figure, line
from monolayer_experiments.synthetic import without_repeats

LABELS = (96, 304, 992, 3_200, 10_000)
LENGTH, VOCABULARY, CLASSES = 8, 200, 16
GROUPS = (1, 2, 3, 4, 8)
"""Points per wide number at which float64 is asked."""


def data(labels: int) -> tuple[Any, Any]:
    return without_repeats(labels // LENGTH, LENGTH, VOCABULARY, CLASSES)


def measured(labels: int) -> dict[str, Any]:
    """Weights and bits of both networks for so many labels; weights that are 0 do not count in either."""
    X, Y = data(labels)
    network = wide(X, Y)
    assert (network.predict(X) == Y).all()
    line_model = ml.memorize(X, Y)
    assert bool((line_model.predict(X) == Y).all())
    stored = np.concatenate([each.detach().double().numpy().ravel() for each in line_model.parameters()])
    stored = stored[np.isfinite(stored) & (stored != 0.0)]  # ids without data have no number
    return {
        "labels": labels,
        "weights": len(network.weights()),
        "bits": network.bits(),
        "widest": max(map(significant, network.weights())),
        "line_weights": len(stored),
        "line_bits": sum(significant(Fraction(each)) + 1 for each in stored.tolist()),
        "label_bits": labels * (CLASSES - 1).bit_length(),
    }


def in_floats(labels: int = 992) -> list[tuple[int, int, float]]:
    """By points per group: digits of a wide number, and the share of labels that come back in float64."""
    X, Y = data(labels)
    networks = [wide(X, Y, group=group) for group in GROUPS]
    return [
        (group, network.digits, float((network.predict_in_floats(X) == Y).mean()))
        for group, network in zip(GROUPS, networks, strict=True)
    ]


def row(found: dict[str, Any]) -> str:
    """The row of the table in docs/rate.md."""
    names = ("labels", "weights", "line_weights", "bits", "line_bits", "label_bits", "widest")
    return f"| {' | '.join(f'{found[name]:,}' for name in names)} |"


def picture(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = {
        "line_bits": ("bits, line", "blue", "dash"),
        "bits": ("bits, wide numbers", "orange", "dash"),
        "label_bits": ("bits of the labels", "grey", "dot"),
        "line_weights": ("weights, line", "blue", "solid"),
        "weights": ("weights, wide numbers", "orange", "solid"),
    }
    labels = [found["labels"] for found in rows]
    traces = [
        line(name, labels, [found[key] for found in rows], colour, dash=dash)  # type: ignore[arg-type]
        for key, (name, colour, dash) in names.items()
    ]
    drawn = figure("", traces, ("labels M", "weights, and their bits"), log="xy").figure
    layout = drawn["layout"] | {"height": 500, "margin": {"l": 80, "r": 16, "t": 20, "b": 56}}
    return {**drawn, "layout": layout}


def main() -> None:
    asked = [int(each) for each in sys.argv[1:]]
    rows = []
    for labels in asked or LABELS:
        rows.append(measured(labels))
        print(row(rows[-1]), flush=True)
    for group, digits, right in in_floats():
        print(f"| {group} | {digits} | {100 * right:.1f} % |")
    if not asked:
        draw({"wide": picture(rows)})


if __name__ == "__main__":
    main()
