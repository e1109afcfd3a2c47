"""Writes docs/findings.md and its figures from the stored results in results/. Run it after they change.

The figures are drawn by Plotly in Chromium; the words come from the experiments themselves.
"""

from __future__ import annotations

import base64
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from approximated import approximated
from colours import INK, LIGHT, RULE, SVG_STYLE, WIDE

from monolayer_experiments import SECTIONS, find
from monolayer_experiments.experiment import Figure, Table
from monolayer_experiments.report import MAIN_FIGURE, parted, plotly_script
from monolayer_experiments.results import ExperimentRecord, read

ROOT = Path(__file__).parent.parent.parent
HEAD = """# Findings

What the paper claims and what it leaves open, measured. Each paragraph is computed from a record in
[`results/`](../results), which names its command, machine, seconds and source. `monolayer report results` makes the
interactive page, with every figure and table.
"""


def records() -> dict[str, ExperimentRecord]:
    return {path.stem: read(path) for path in sorted((ROOT / "results").glob("*.json"))}


def figure_of(record: ExperimentRecord) -> Figure:
    return find(record.name).figures(record.results)[MAIN_FIGURE.get(record.name, 0)]


def markdown(found: dict[str, ExperimentRecord]) -> str:
    """The page: question, answer, maybe a table, figure with its caption, limits with the name of the record."""
    parts = [HEAD]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            experiment, record = find(name), found[name]
            picture = figure_of(record)
            parts += [
                f"### {experiment.question}\n",
                _wrapped(experiment.answer(record.results)),
                *map(_rows, parted(name, experiment.tables(record.results))[0]),
                f"![{picture.title}](figures/{name}.svg)\n",
                _wrapped(f"*{picture.title}.* {picture.caption}".rstrip()),
                _wrapped(f"**Limits** ([`{name}`](../results/{name}.json)). {experiment.limits(record.results)}"),
            ]
    return "\n".join(parts)


def _rows(table: Table) -> str:
    """A table in Markdown, under its title."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return f"*{table.title}.*\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def draw(figures: dict[str, dict[str, Any]]) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.set_content("<html><body></body></html>")
        page.add_script_tag(content=plotly_script())
        for name, figure in figures.items():
            axes = {
                axis: {**figure["layout"].get(axis, {}), "gridcolor": RULE, "linecolor": RULE}
                for axis in ("xaxis", "yaxis", *(each for each in figure["layout"] if re.match("[xy]axis", each)))
            }
            clear = {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"}
            layout = {**figure["layout"], **axes, **clear, "font": {"color": INK, "size": 16, "family": WIDE}}
            address = page.evaluate(
                "one => Plotly.toImage(one, {format: 'svg', width: 600, height: one.layout.height || 460})",
                {"data": figure["data"], "layout": layout},
            )
            head, body = address.split(",", 1)
            text = base64.b64decode(body).decode() if head.endswith("base64") else unquote(body)
            (Path(__file__).parent / f"{name}.svg").write_text(on_any_page(text, name) + "\n", encoding="utf-8")
        browser.close()


def on_any_page(svg: str, name: str) -> str:
    """The picture on a page of its own, light or dark as the reader's, with a legend that no other font can cut."""
    drawn = re.findall(r"defs-(\w+)", svg)[0]  # names that Plotly drew at random: the same picture gets the same file
    svg = re.sub(r" trace[0-9a-f]{6}\b", "", svg.replace(drawn, name))
    svg = re.sub(r"(<g class=\"scrollbox\"[^>]*?) clip-path=\"[^\"]*\"", r"\1", svg)
    start = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:start]}{SVG_STYLE}<rect class="page" width="100%" height="100%" rx="6" fill="{LIGHT}"/>{svg[start:]}'


def main() -> None:
    found = records()
    draw({name: figure_of(record).figure for name, record in found.items()} | {"approximation": approximated()})
    (ROOT / "docs" / "findings.md").write_text(markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()
