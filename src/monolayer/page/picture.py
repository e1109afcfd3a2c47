"""A figure as a page of its own: in the reader's colours, and legible on a phone."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from monolayer.page.colours import DARK, INK, INK_DARK, LIGHT, RULE, RULE_DARK

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ margin: 0; background: {light}; }}
@media (prefers-color-scheme: dark) {{ body {{ background: {dark}; }} }}
</style>
</head>
<body>
{figure}
</body>
</html>
"""
_FIT = """
const plot = document.getElementById("{plot_id}");
const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 40rem)");
const fit = () => {
  const [text, rule] = dark.matches ? ["INK_DARK", "RULE_DARK"] : ["INK", "RULE"];
  const change = {...(narrow.matches ? NARROW : WIDE), "font.color": text, "font.size": narrow.matches ? 12 : 14};
  for (const name of Object.keys(plot.layout)) if (/^[xy]axis/.test(name)) change[name + ".gridcolor"] = rule;
  Plotly.relayout(plot, change);
};
for (const query of [dark, narrow]) query.addEventListener("change", fit);
fit();
"""
Layout = dict[str, Any]


def picture_page(figure: Any, title: str, wide: Layout | None = None, narrow: Layout | None = None) -> str:
    """A page that shows a Plotly figure; it holds its own script and loads nothing.

    `wide` and `narrow` change the layout on a desk and on a phone, by Plotly's dotted names.
    """
    fit = _FIT.replace("NARROW", json.dumps(narrow or {})).replace("WIDE", json.dumps(wide or {}))
    for name, colour in (("INK_DARK", INK_DARK), ("RULE_DARK", RULE_DARK), ("INK", INK), ("RULE", RULE)):
        fit = fit.replace(f'"{name}"', f'"{colour}"')
    drawn = figure.to_html(
        include_plotlyjs=True, full_html=False, post_script=fit, config={"responsive": True, "displayModeBar": False}
    )
    return _PAGE.format(title=escape(title), light=LIGHT, dark=DARK, figure=drawn)
