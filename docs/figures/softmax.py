"""The picture of docs/softmax.md: how far two sequences are apart at each temperature, from the mean to hardmax.

`python docs/figures/softmax.py` draws it.
"""

from __future__ import annotations

from fractions import Fraction

from findings import draw
from flint import arb

from monolayer.theory.balls import precision
from monolayer.theory.enclosure import log_difference
from monolayer_experiments.look import figure, line

PAIRS = {
    "{1, 2, 5, 6}, {1, 3, 4, 6}: equal means": ([1, 2, 5, 6], [1, 3, 4, 6], "blue"),
    "{0, 5, 9, 12, 16, 21}, {0, 6, 7, 14, 15, 21}: three equal cumulants": (
        [0, 5, 9, 12, 16, 21],
        [0, 6, 7, 14, 15, 21],
        "orange",
    ),
}
"""Pairs with the same ends and the same mean; both are scaled to a spread of 1."""
TEMPERATURES = [10 ** (k / 20) for k in range(-60, 47)]


def distances(one: list[int], other: list[int]) -> list[float]:
    """`|B(λ; one) − B(λ; other)|` of the pair at a spread of 1, at every temperature."""
    spread = max(one) - min(one)
    with precision(200):
        # Integers have `B(z; s) = spread · B(z · spread; s / spread)`.
        logs = [log_difference(count(one), count(other), rational(lam) / spread)[1] for lam in TEMPERATURES]
        return [float(log.exp() / spread) for log in logs]


def count(values: list[int]) -> dict[int, int]:
    return {value: values.count(value) for value in values}


def rational(lam: float) -> arb:
    exact = Fraction(lam)
    return arb(exact.numerator) / exact.denominator


def picture() -> dict[str, object]:
    traces = [
        line(name, TEMPERATURES, distances(one, other), colour, markers=False)
        for name, (one, other, colour) in PAIRS.items()
    ]
    levels = [(2.0**-53, "rounding of float64, 2^-53")]
    drawn = figure("", traces, ("inverse temperature λ", "distance"), log="xy", levels=levels)
    layout = {"legend": {**drawn.figure["layout"]["legend"], "orientation": "v"}, "height": 480}
    return {
        **drawn.figure,
        "layout": drawn.figure["layout"] | layout | {"margin": {"l": 80, "r": 16, "t": 20, "b": 56}},
    }


if __name__ == "__main__":
    draw({"softmax": picture()})
