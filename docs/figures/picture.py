"""Draws docs/figures/monolayer.svg from a real model: the README's picture. Run it after changing the construction."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from colours import LIGHT, SVG_STYLE
from outlines import OUTLINES

import monolayer as ml

X = ["银行", "行走", "音乐", "快乐", "行长", "长城"]
Y = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"], ["háng", "zhǎng"], ["cháng", "chéng"]]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 620, 680, 82, 16, 270, 70
INK, SOFT, LINE, MARK = "#1f2933", "#7b8794", "#2f6fde", "#d9480f"


def text(x: float, y: float, words: str, size: int = 18, colour: str = INK, anchor: str = "middle") -> str:
    if OUTLINES.keys() & set(words):
        return drawn(x, y, words, size, colour)
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(words)}</text>"


def drawn(x: float, y: float, words: str, size: int, colour: str) -> str:
    """Characters around `x` as outlines: a reader's font may not have them. A space is half as wide."""
    widths = [0.5 if word == " " else 1.0 for word in words]
    at, parts = x - size * sum(widths) / 2, []
    for word, width in zip(words, widths, strict=True):
        if word != " ":
            scale = size / 1000
            place = f'transform="translate({at:.1f} {y:.1f}) scale({scale:g} {-scale:g})"'
            parts.append(f'<path class="letter" {place} fill="{colour}" d="{OUTLINES[word]}"/>')
        at += size * width
    return f'<g role="img" aria-label="{escape(words)}">{"".join(parts)}</g>'


def pipeline() -> list[str]:
    """The network in six boxes, three per row, so that they can be read on a phone."""
    boxes = [
        ("tokens", "行 走"),
        ("lift", "(1, s, t, 0)"),
        ("attention", "one head, rank 1"),
        ("number", "z = t + κ·B(λ; s)"),
        ("staircase", "ReLU layers"),
        ("labels", "xíng zǒu"),
    ]
    step, gap, parts = (WIDTH - 20) / 3, 28, []
    for place, (name, what) in enumerate(boxes):
        x, y = 24 + place % 3 * step, 18 + place // 3 * 100
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{step - gap:.1f}" height="78" rx="9" class="box" fill="#f5f7fa" '
            'stroke="#cbd2d9"/>'
        )
        parts.append(text(x + (step - gap) / 2, y + 32, name, 19))
        parts.append(text(x + (step - gap) / 2, y + 60, what, 17, SOFT))
        if place != 2 and place + 1 < len(boxes):
            start, end = x + step - gap + 3, x + step - 3
            parts.append(f'<path d="M{start:.1f} {y + 39}H{end - 5:.1f}" stroke="{SOFT}" stroke-width="1.5"/>')
            parts.append(f'<path d="M{end - 8:.1f} {y + 34}l8 5l-8 5z" fill="{SOFT}"/>')
    return parts


def picture() -> str:
    model = ml.memorize(X, Y, positions=True)
    data = model.encode(X)
    z, number = model.explain(X).z, model.labels(data)
    steps = model.feed_forward.stages[0].steps()
    assert steps is not None
    order = np.argsort(z)
    points = z[order]
    # The gaps between cells are shortened so that every point can be seen; inside a cell nothing is moved.
    place = np.concatenate([[0.0], np.cumsum(np.minimum(np.diff(points), 0.6) + 0.25)])

    def across(value: float) -> float:
        return float(LEFT + np.interp(value, points, place) / place[-1] * (WIDTH - LEFT - RIGHT - 30) + 10)

    def up(label: float) -> float:
        top = len(model.card.classes.names) - 1  # type: ignore[union-attr]
        return HEIGHT - BOTTOM - label / top * (HEIGHT - TOP - BOTTOM)

    starts = (-steps.bias / steps.slope).tolist()
    ends = [start + 1.0 / slope for start, slope in zip(starts, steps.slope.tolist(), strict=True)]
    path = f"M{LEFT} {up(steps.level[0, 0].item()):.1f}"
    for start, end, before, after in zip(
        starts, ends, steps.level[:-1, 0].tolist(), steps.level[1:, 0].tolist(), strict=True
    ):
        path += f"L{across(start):.1f} {up(before):.1f}L{across(end):.1f} {up(after):.1f}"
    path += f"L{WIDTH - RIGHT} {up(steps.level[-1, 0].item()):.1f}"
    parts = [*pipeline()]
    parts.append(text(24, 240, "The readout of a real model: six phrases, at their z", 18, INK, "start"))
    for label, name in enumerate(model.card.classes.names):  # type: ignore[union-attr]
        parts.append(f'<path d="M{LEFT} {up(label):.1f}H{WIDTH - RIGHT}" class="rule" stroke="#e4e7eb"/>')
        parts.append(text(LEFT - 10, up(label) + 6, str(name), 18, INK, "end"))
    parts.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="2"/>')
    characters = [character for phrase in X for character in phrase]
    for which in order:
        x, y = across(float(z[which])), up(float(number[which]))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{MARK}"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 30, characters[which], 20))
        parts.append(f'<path d="M{x:.1f} {y + 6:.1f}V{HEIGHT - BOTTOM + 8}" stroke="{MARK}" stroke-opacity="0.25"/>')
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "z (gaps between characters shortened)", 16, SOFT))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Noto Sans, sans-serif">\n'
        f'{SVG_STYLE}<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{LIGHT}"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    Path(__file__).with_name("monolayer.svg").write_text(picture(), encoding="utf-8")
