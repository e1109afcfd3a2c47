"""Colours of the page behind figures and pictures, in light and in dark."""

from __future__ import annotations

LIGHT, DARK = "#ffffff", "#16191d"
"""The page behind the figures."""

INK, INK_DARK, RULE, RULE_DARK = "#1d2126", "#e4e7eb", "#dde1e6", "#343a42"
SVG_STYLE = (
    "<style>@media (prefers-color-scheme: dark) { "
    f".page {{ fill: {DARK} }} text {{ fill: {INK_DARK} !important }} "
    f".rule, .crisp {{ stroke: {RULE_DARK} !important }} .ink {{ stroke: {INK_DARK} }} "
    ".box { fill: #20262d; stroke: #454d57 } "
    f".letter {{ fill: {INK_DARK} }} "
    "}</style>"
)
"""For pictures on their own: written in the colours of a light page, shown in those of the reader's."""
WIDE = "Verdana, DejaVu Sans, sans-serif"
"""The font of pictures on their own. Drawn in a font as wide as any, no word is cut where a reader has another."""
