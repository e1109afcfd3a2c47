"""The pictures of docs/first-block.md: what two heads make of the other two tokens, and the waves that one head misses.

`python docs/figures/first_block.py` draws both.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from findings import draw
from plotly.subplots import make_subplots

from monolayer.theory.boltzmann import boltzmann

BLUE, ORANGE, GREY = "#3b7dd8", "#d9732b", "#7d8590"
LINES = 9
"""Lines of the triangle that are drawn in either direction."""
WAVES = 3
"""K, of the picture only: the theorems are about large K."""


def heads(lam: float, own: float, y: Any, z: Any) -> Any:
    """What the head at `λ = lam` shows the token `own` beside `y` and `z`."""
    return boltzmann(np.full(y.shape, lam), np.stack([np.full_like(y, own), y, z], axis=-1))


def sheets() -> dict[str, Any]:
    """The triangle `y ≤ z` as the heads at 0 and λ show it to a token at 1: flat for λ = ½, folded for λ = 4.

    Of the second head a function of the first is taken away, what it would show if both others were at their mean. That
    moves no two points together, and the fold can be seen.
    """
    figure = make_subplots(1, 2, subplot_titles=["heads at 0 and ½", "heads at 0 and 4"], horizontal_spacing=0.16)
    along = np.linspace(0.0, 1.0, 101)
    for column, lam in enumerate((0.5, 4.0), 1):
        for at in np.linspace(0.0, 1.0, LINES):
            for colour, y, z in (
                (BLUE, np.full_like(along, at), at + (1.0 - at) * along),
                (ORANGE, at * along, np.full_like(along, at)),
            ):
                middle = (y + z) / 2
                figure.add_scatter(
                    x=heads(0.0, 1.0, y, z).round(5).tolist(),
                    y=(heads(lam, 1.0, y, z) - heads(lam, 1.0, middle, middle)).round(6).tolist(),
                    mode="lines",
                    line={"color": colour, "width": 1.5},
                    row=1,
                    col=column,
                )
        figure.update_xaxes(title="B(0)", row=1, col=column)
        figure.update_yaxes(title=f"B({'½' if column == 1 else '4'}) less that at y = z", row=1, col=column)
    return _finished(figure, 420)


def levels() -> dict[str, Any]:
    """The wave of Theorem D over both other tokens, and that of proof (iii), with levels of one head across it."""
    titles = ["d = 1: own token ½, λ = 3", "d = 2: along the direction ê"]
    figure = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.16)
    axis = np.linspace(0.0, 1.0, 121)
    y, z = np.meshgrid(axis, axis)
    wave = np.cos(2 * np.pi * WAVES * (y - z))
    seen = (heads(3.0, 0.5, y, z), 0.7 * y + 0.3 * z)
    for column, (level, names) in enumerate(zip(seen, (("y", "z"), ("η", "ζ")), strict=True), 1):
        shades = [[0.0, "#ffffff"], [1.0, "#a9c7f0"]]
        figure.add_heatmap(x=axis, y=axis, z=wave, colorscale=shades, showscale=False, row=1, col=column)
        figure.add_contour(
            x=axis,
            y=axis,
            z=level,
            contours={"coloring": "none", "start": 0.1, "end": 0.9, "size": 0.1},
            line={"color": ORANGE, "width": 2},
            showscale=False,
            row=1,
            col=column,
        )
        figure.update_xaxes(title=names[0], constrain="domain", row=1, col=column)
        figure.update_yaxes(title=names[1], scaleanchor=f"x{column}", row=1, col=column)
    return _finished(figure, 380)


def _finished(figure: Any, height: int) -> dict[str, Any]:
    """The figure as JSON, without a legend."""
    figure.update_layout(showlegend=False, height=height, margin={"l": 70, "r": 20, "t": 50, "b": 60})
    made: dict[str, Any] = json.loads(figure.to_json())
    made["layout"].pop("template", None)
    return made


if __name__ == "__main__":
    draw({"first-block-heads": sheets(), "first-block-levels": levels()})
