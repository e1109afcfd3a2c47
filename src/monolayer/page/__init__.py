"""A model as a web page: its numbers and the scripts in one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files

from monolayer.data import Sequences
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.page.payload import model_json
from monolayer.table import visible


def page(
    model: Monolayer | None = None,
    data: Sequences | None = None,
    *,
    title: str = "monolayer",
    verdict: str | None = None,
) -> str:
    """The HTML of the page.

    `model`: the model that it runs; None: the page builds one from the facts that a reader types in. `data`: sequences
    to pick from, maybe labelled. `title`: of the page. `verdict`: what a certificate says of the data.
    """
    title = escape(visible(title))  # the name of a folder may hold bytes that are not text
    if model is None:
        start = _page_file("build.js") + _page_file("builder.js")
        return _filled_page(title, doing="built and running", builder=_page_file("builder.html"), start=start)
    content = model_json(load_monolayer(model), data, verdict)
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Inside a script element only "</" and "<!--" could end or confuse it; JSON reads \u003c as "<".
    stored = '<script type="application/json" id="model">' + text.replace("<", "\\u003c") + "</script>"
    start = 'view.load(JSON.parse(document.getElementById("model").textContent));'
    return _filled_page(title, model=stored, start=start)


def _filled_page(title: str, **parts: str) -> str:
    """The page with each mark `{{name}}` replaced by the part of that name."""
    marks = {"title": title, "doing": "running", "model": "", "builder": "", **parts}
    marks |= {
        "style": _page_file("page.css"),
        **{name: _page_file(f"{name}.js") for name in ("network", "words", "view")},
    }
    # In one pass, so that marks inside the inserted parts are left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: marks[mark[1]], _page_file("page.html"))


def _page_file(name: str) -> str:
    """The text of a file that lies beside this module."""
    return files("monolayer.page").joinpath(name).read_text(encoding="utf-8")
