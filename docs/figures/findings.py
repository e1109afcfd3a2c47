"""Writes docs/findings.md and its figures from the stored results in results/. Run it after they change.

The figures are drawn by Plotly in Chromium; the words come from the experiments themselves.
"""

from __future__ import annotations

import base64
import shutil
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from monolayer.experiments import find
from monolayer.experiments.experiment import Figure
from monolayer.experiments.report import SECTIONS, plotly_script
from monolayer.experiments.results import Record, read

ROOT = Path(__file__).parent.parent.parent
SHOWN = {"depth": 2, "duplicates": 2, "tagging": 2}
"""Which figure of an experiment stands for it, where it is not the first."""
HEAD = """# Findings

What the paper claims and what it leaves open, measured. Each paragraph is computed from the stored results in
[`results/`](../results), so it says what the command below it printed; `monolayer report results` makes the whole
interactive page from the same files, with every figure and table. How the results were made is in
[`results/README.md`](../results/README.md).
"""


def records() -> dict[str, Record]:
    return {path.stem: read(path) for path in sorted((ROOT / "results").glob("*.json"))}


def figure_of(record: Record) -> Figure:
    return find(record.name).figures(record.results)[SHOWN.get(record.name, 0)]


def markdown(found: dict[str, Record]) -> str:
    """The page: question, answer, figure, limits, command."""
    parts = [HEAD]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            experiment, record = find(name), found[name]
            picture = figure_of(record)
            parts += [
                f"### {experiment.question}\n",
                _wrapped(experiment.answer(record.results)),
                f"![{picture.title}](figures/{name}.svg)\n",
                _wrapped(f"*{picture.title}.* {picture.caption}"),
                _wrapped(f"**What this does not show.** {experiment.limits(record.results)}"),
                f"`{record.command}` · {record.machine}, {record.seconds:.0f} s\n",
            ]
    return "\n".join(parts)


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
            look = {"paper_bgcolor": "#fff", "plot_bgcolor": "#fff", "font": {"color": "#1d2126", "size": 13}}
            axes = {
                axis: {**figure["layout"].get(axis, {}), "gridcolor": "#dde1e6", "linecolor": "#dde1e6"}
                for axis in ("xaxis", "yaxis")
            }
            layout = {**figure["layout"], **look, **axes}
            address = page.evaluate(
                "one => Plotly.toImage(one, {format: 'svg', width: 760, height: 400})",
                {"data": figure["data"], "layout": layout},
            )
            head, body = address.split(",", 1)
            text = base64.b64decode(body).decode() if head.endswith("base64") else unquote(body)
            (Path(__file__).parent / f"{name}.svg").write_text(text + "\n", encoding="utf-8")
        browser.close()


def main() -> None:
    found = records()
    draw({name: figure_of(record).figure for name, record in found.items()})
    (ROOT / "docs" / "findings.md").write_text(markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()
