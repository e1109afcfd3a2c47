"""The page itself: the model's numbers and the scripts in one HTML file that asks nobody for anything."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from monolayer.data import Sequences
from monolayer.data.aside import new_file
from monolayer.model.load import load_monolayer
from monolayer.model.monolayer import Monolayer
from monolayer.page.payload import Examples, draw, payload

EXAMPLES = 40
"""Sequences to pick from."""


def page(
    model: Monolayer,
    data: Sequences | None = None,
    *,
    title: str = "model",
    verdict: str | None = None,
    examples: int = EXAMPLES,
) -> str:
    """The page as text. `data`: sequences to pick from, maybe labelled; `verdict`: what a certificate says of them."""
    model = load_monolayer(model)
    data = model.card.examples if data is None else data
    if data is None:
        some = draw(model, examples)
    else:
        rows = np.unique(np.linspace(0, len(data) - 1, min(examples, len(data))).round().astype(np.int64))
        encoded = model.encode(data)
        # Labels can be shown beside the model's own only if they are of the same kind.
        fits = model.card.next_token if encoded.labels is None else encoded.labels.per == model.card.per
        some = Examples(encoded.select(rows), fits)
    told = json.dumps(payload(model, some, verdict), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Inside a script element only "</" and "<!--" could end or confuse it; JSON reads \u003c as "<".
    stored = '<script type="application/json" id="model">' + told.replace("<", "\\u003c") + "</script>"
    start = 'view.load(JSON.parse(document.getElementById("model").textContent));'
    return _filled(escape(title), model=stored, start=start)


def builder() -> str:
    """The page without a model: it builds one of the facts, or of the text, that are typed into it."""
    return _filled(
        "monolayer",
        doing="built and running",
        builder=_file("builder.html"),
        start=_file("build.js") + _file("builder.js"),
    )


def _filled(title: str, **parts: str) -> str:
    marks = {"title": title, "doing": "running", "model": "", "builder": "", **parts}
    marks |= {"style": _file("page.css"), "network": _file("network.js"), "words": _file("words.js")}
    marks |= {"view": _file("view.js")}
    # In one pass: what is put in is not searched for marks again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: marks[mark[1]], _file("page.html"))


def write(
    model: Monolayer | None,
    path: Path,
    data: Sequences | None = None,
    *,
    title: str = "model",
    verdict: str | None = None,
) -> Path:
    """Write the page to `path`, all at once or not at all; without a model, the page that builds one."""
    text = builder() if model is None else page(model, data, title=title, verdict=verdict)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        file.write(text)
    return path


def _file(name: str) -> str:
    return files("monolayer.page").joinpath(name).read_text(encoding="utf-8")
