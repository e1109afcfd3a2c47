"""Pictures as SVG, written by hand: maps as embedded PNG images, curves on logarithmic axes. No dependencies."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monolayer.page.colours import LIGHT, SVG_STYLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

INK, GREY, FAINT = "#22272e", "#6a737d", "#e3e6ea"
BLUE, ORANGE, GREEN = "#1f6feb", "#d9730d", "#2a9d5c"
VALUES = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
"""Anchors of the colour map viridis: even steps look even, also in grey and to most colour-blind eyes."""
ERRORS = ("#ffffff", "#fde3cf", "#fbb795", "#f2785c", "#d43d4f", "#93224e", "#4a1144")
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


@dataclass
class Picture:
    """An SVG under construction: elements and the size that holds them all."""

    width: float = 0.0
    height: float = 0.0
    parts: list[str] = field(default_factory=list)

    def add(self, element: str, right: float, bottom: float) -> None:
        self.parts.append(element)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 12,
        anchor: str = "start",
        color: str = INK,
        bold: bool = False,
    ) -> None:
        weight = " font-weight='600'" if bold else ""
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{color}' text-anchor='{anchor}'{weight}>"
            f"{html.escape(words)}</text>"
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, color: str = GREY, style: str = "") -> None:
        rule = _shade(color)
        self.parts.append(
            f"<line x1='{x:.1f}' y1='{y:.1f}' x2='{to_x:.1f}' y2='{to_y:.1f}' stroke='{color}' {rule}{style}/>"
        )

    def svg(self, margin: float = 20.0) -> str:
        """The whole document."""
        width, height = self.width + 2 * margin, self.height + 2 * margin
        body = "\n".join(self.parts)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' "
            f"height='{height:.0f}' {FONT}>\n{SVG_STYLE}\n<rect class='page' width='100%' height='100%' "
            f"fill='{LIGHT}'/>\n"
            f"<g transform='translate({margin:.0f} {margin:.0f})'>\n{body}\n</g>\n</svg>\n"
        )


@dataclass(frozen=True)
class Map:
    """Values `(H, W)`, the first row at the bottom, on `[low, high]²`, coloured from `least` to `most`."""

    title: str
    values: Floats
    low: float
    high: float
    least: float
    most: float
    colors: Sequence[str] = VALUES
    axes: tuple[str, str] = ("x₁", "x₂")


@dataclass(frozen=True)
class Curve:
    """Points on logarithmic axes: a line, and marks unless it is a prediction."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    dashed: bool = False
    marks: bool = True


def draw_map(picture: Picture, chart: Map, left: float, top: float, side: float = 240.0) -> None:
    """A square map with its axes and a colour bar on the right."""
    picture.text(left, top - 8, chart.title, size=13, bold=True)
    _image(picture, _shares(chart), chart.colors, left, top, side, side)
    picture.add(_frame(left, top, side, side), left + side, top + side)
    for share in (0.0, 0.5, 1.0):
        words = _number(chart.low + share * (chart.high - chart.low))
        picture.text(left + share * side, top + side + 15, words, size=10, anchor="middle", color=GREY)
        picture.text(left - 5, top + (1 - share) * side + 4, words, size=10, anchor="end", color=GREY)
    picture.text(left + side / 2, top + side + 30, chart.axes[0], size=11, anchor="middle", color=GREY)
    x, y = left - 26, top + side / 2
    picture.parts.append(
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='11' fill='{GREY}' text-anchor='middle' "
        f"transform='rotate(-90 {x:.1f} {y:.1f})'>{html.escape(chart.axes[1])}</text>"
    )
    bar = left + side + 10
    import numpy as np

    _image(picture, np.linspace(0.0, 1.0, 128)[:, None], chart.colors, bar, top, 10, side)
    picture.parts.append(_frame(bar, top, 10, side))
    for share in (0.0, 0.5, 1.0):
        words = _number(chart.least + share * (chart.most - chart.least))
        picture.text(bar + 15, top + (1 - share) * side + 4, words, size=10, color=GREY)
    picture.add("", bar + 52, top + side + 34)


def draw_curves(
    picture: Picture,
    title: str,
    curves: Sequence[Curve],
    axis: str,
    left: float,
    top: float,
    width: float = 760.0,
    height: float = 280.0,
) -> None:
    """Curves on logarithmic axes, with a legend on the right."""
    picture.text(left, top - 10, title, size=13, bold=True)
    xs = [x for curve in curves for x in curve.x]
    ys = [y for curve in curves for y in curve.y if y > 0]
    x_low, x_high = math.log10(min(xs)) - 0.05, math.log10(max(xs)) + 0.05
    y_low, y_high = math.log10(min(ys)) - 0.12, math.log10(max(ys)) + 0.12

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(y) - y_low) / (y_high - y_low)
        return left + across * width, top + (1.0 - up) * height

    for tick in _ticks(y_low, y_high):
        _, y = place(10**x_low, tick)
        picture.line(left, y, left + width, y, FAINT)
        picture.text(left - 6, y + 4, _number(tick), size=10, anchor="end", color=GREY)
    for tick in sorted(set(xs)):
        x, _ = place(tick, 10**y_low)
        picture.line(x, top + height, x, top + height + 4, GREY)
        picture.text(x, top + height + 16, _number(tick), size=10, anchor="middle", color=GREY)
    picture.parts.append(_frame(left, top, width, height))
    for number, curve in enumerate(curves):
        points = [place(x, y) for x, y in zip(curve.x, curve.y, strict=True) if y > 0]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = "stroke-dasharray='5 4' " if curve.dashed else ""
        picture.parts.append(
            f"<polyline points='{way}' fill='none' stroke='{curve.color}' stroke-width='1.8' "
            f"{_shade(curve.color)}{style}/>"
        )
        if curve.marks:
            picture.parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.2' fill='{curve.color}'/>" for x, y in points]
        y = top + 14 + 22 * number
        picture.line(left + width + 18, y, left + width + 44, y, curve.color, f"stroke-width='1.8' {style}")
        if curve.marks:
            picture.parts.append(f"<circle cx='{left + width + 31:.1f}' cy='{y:.1f}' r='3.2' fill='{curve.color}'/>")
        picture.text(left + width + 52, y + 4, curve.name, size=12)
    picture.text(left + width / 2, top + height + 34, axis, size=11, anchor="middle", color=GREY)
    picture.add("", left + width + 250, top + height + 40)


# -- pieces ----------------------------------------------------------------------------------------------


def _shade(color: str) -> str:
    """The class of a stroke that is drawn in another colour on a dark page."""
    return {FAINT: "class='rule' ", INK: "class='ink' "}.get(color, "")


def _shares(chart: Map) -> Floats:
    extent = chart.most - chart.least
    return (chart.values - chart.least) / (extent if extent > 0 else 1.0)


def _image(
    picture: Picture, shares: Floats, colors: Sequence[str], left: float, top: float, width: float, height: float
) -> None:
    data = base64.b64encode(png(shares, colors)).decode()
    picture.parts.append(
        f"<image x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' preserveAspectRatio='none' "
        f"style='image-rendering:pixelated' href='data:image/png;base64,{data}'/>"
    )


def png(shares: Floats, colors: Sequence[str]) -> bytes:
    """Shares `(H, W)` of a colour map as an 8-bit PNG, the first row at the bottom."""
    import numpy as np

    anchors = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in colors], dtype=float)
    where = np.clip(shares, 0.0, 1.0) * (len(anchors) - 1)
    lower = np.minimum(where.astype(int), len(anchors) - 2)
    part = (where - lower)[..., None]
    pixels = np.rint(anchors[lower] * (1 - part) + anchors[lower + 1] * part).astype(np.uint8)[::-1]
    rows = np.concatenate([np.zeros((len(pixels), 1), np.uint8), pixels.reshape(len(pixels), -1)], axis=1)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _frame(left: float, top: float, width: float, height: float) -> str:
    return f"<rect x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' fill='none' stroke='{GREY}'/>"


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two logarithms; only powers where these are many."""
    digits = (1, 2, 5) if high - low < 3 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    return [
        digit * 10.0**power for power in powers for digit in digits if low <= math.log10(digit * 10.0**power) <= high
    ]


def _number(value: float) -> str:
    text = f"{value:.3g}"
    return text.replace("e-0", "e-").replace("e+0", "e")
