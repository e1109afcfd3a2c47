"""The picture of an explanation as a page of its own: in the reader's colours, and legible on a phone."""

from __future__ import annotations

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
  const small = narrow.matches;
  Plotly.relayout(plot, {
    "font.color": text, "font.size": small ? 12 : 14, "xaxis.gridcolor": rule, "xaxis2.gridcolor": rule,
    "margin.l": small ? 64 : 110, "margin.r": small ? 8 : 80, "dragmode": small ? false : "zoom",
    "xaxis.domain": small ? [0, 0.2] : [0, 0.3], "xaxis2.domain": small ? [0.26, 1] : [0.36, 1],
    "xaxis.nticks": small ? 2 : 0,
    "xaxis.title.text": small ? "weight" : "attention weight",
    "xaxis2.title.text": small ? "z on its step, labels beside it" :
      "where z lies on its step, and the labels of the steps beside it",
  });
};
for (const query of [dark, narrow]) query.addEventListener("change", fit);
fit();
"""


def picture_page(figure: Any, title: str) -> str:
    """The page of a figure that `Explanation.figure` drew; it holds its own script and loads nothing."""
    fit = _FIT
    for name, colour in (("INK_DARK", INK_DARK), ("RULE_DARK", RULE_DARK), ("INK", INK), ("RULE", RULE)):
        fit = fit.replace(f'"{name}"', f'"{colour}"')
    drawn = figure.to_html(
        include_plotlyjs=True, full_html=False, post_script=fit, config={"responsive": True, "displayModeBar": False}
    )
    return _PAGE.format(title=escape(title), light=LIGHT, dark=DARK, figure=drawn)
