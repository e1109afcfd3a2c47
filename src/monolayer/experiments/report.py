"""The report: one page, made from stored results alone, that needs nothing but itself.

For each experiment: the answer in a sentence, the figures, the tables, the command, and what it does not show.
Plotly's script is written into the page, and a policy in its head forbids every request, so it works offline and
tells nobody that it was opened.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from monolayer.errors import DataError
from monolayer.experiments import find
from monolayer.experiments.experiment import Experiment, Figure, Table
from monolayer.experiments.look import amount, raised
from monolayer.experiments.results import REPORT, Record, read_all, write_text

SECTIONS = {
    "What one layer holds": ("memorization", "duplicates", "precision", "rank"),
    "Construction beside training": ("depth", "projection", "tagging"),
    "From the mean to hardmax": ("temperature", "hardmax"),
    "Functions": ("equivariant", "quantizer"),
    "What construction does not give": ("costs",),
}


@dataclass(frozen=True)
class _Entry:
    experiment: Experiment
    record: Record

    @property
    def answer(self) -> str:
        return self.experiment.answer(self.record.results)


def build(folder: Path) -> Path:
    """Write `report.html` from the results in `folder`, and return its path."""
    script = plotly_script()
    return write_text(folder / REPORT, page(read_all(folder), script))


def plotly_script() -> str:
    """Plotly's own script, from the Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise DataError("the report page needs plotly: pip install 'monolayer[report]'") from None
    script: str = get_plotlyjs()
    return script


def page(records: list[Record], script: str) -> str:
    """The whole page as text."""
    figures: list[Figure] = []
    parts = {record.name: _parts(_Entry(find(record.name), record), figures) for record in records}
    contents, body = [], []
    for title, names in SECTIONS.items():
        inside = [parts[name] for name in names if name in parts]
        if not inside:
            continue
        contents.append(f"<h2>{escape(title)}</h2>\n<dl>")
        contents += [content for content, _ in inside]
        contents.append("</dl>")
        body.append(f"<section>\n<h2>{escape(title)}</h2>")
        body += [article for _, article in inside]
        body.append("</section>")
    drawn = json.dumps([figure.figure for figure in figures], ensure_ascii=False, allow_nan=False)
    # Inside a script element only "</" and "<!--" could end or confuse it; JSON reads \u003c as "<".
    marks = {
        "contents": "\n".join(contents),
        "body": "\n".join(body),
        "made": escape(_made(records)),
        "figures": drawn.replace("<", "\\u003c"),
        "plotly": script.replace("</script", "<\\/script"),
    }
    text = files("monolayer.experiments").joinpath("report.html").read_text(encoding="utf-8")
    # In one pass: what is put in is not searched for marks again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: marks[mark[1]], text)


def _parts(entry: _Entry, figures: list[Figure]) -> tuple[str, str]:
    """An experiment's line in the contents, and its article; results of another version are an error that says so."""
    try:
        return _content(entry), _article(entry, figures)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        record = entry.record
        raise DataError(
            f"{record.name}.json does not hold what this version of the experiment measures ({type(error).__name__}: "
            f"{error}). It was written by monolayer {record.versions.get('monolayer', 'unknown')}; delete it and run "
            f"`{record.command}` again"
        ) from error


def words(text: str) -> str:
    """Text for the page: escaped, with raised exponents."""
    return raised(escape(text))


def _content(entry: _Entry) -> str:
    name, question = escape(entry.record.name), escape(entry.experiment.question)
    return f'<dt><a href="#{name}">{question}</a></dt>\n<dd>{words(entry.answer)}</dd>'


def _article(entry: _Entry, figures: list[Figure]) -> str:
    record, results = entry.record, entry.record.results
    parts = [
        f'<article id="{escape(record.name)}">',
        f"<h3>{escape(entry.experiment.question)}</h3>",
        f'<p class="answer">{words(entry.answer)}</p>',
    ]
    for figure in entry.experiment.figures(results):
        parts.append(_figure(figure, len(figures)))
        figures.append(figure)
    parts += [_table(table) for table in entry.experiment.tables(results)]
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    where = f"{record.machine}; {amount(record.seconds)} s; seed {record.setting.seed}; {versions}"
    parts += [
        f'<pre class="command"><code>{escape(record.command)}</code></pre>',
        f'<p class="where">{escape(where)}</p>',
        f'<p class="limits"><b>What this does not show.</b> {words(entry.experiment.limits(results))}</p>',
        "</article>",
    ]
    return "\n".join(parts)


def _figure(figure: Figure, number: int) -> str:
    caption = f"<b>{words(figure.title)}.</b> {words(figure.caption)}".strip()
    label = escape(figure.title, quote=True)
    return (
        f'<figure><div class="plot" id="figure-{number}" role="img" aria-label="{label}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{words(column)}</th>" for column in table.columns)
    rows = "\n".join("<tr>" + "".join(f"<td>{words(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return (
        f'<div class="table"><table><caption>{escape(table.title)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _made(records: list[Record]) -> str:
    machines = sorted({record.machine for record in records})
    full = {record.setting.full for record in records}
    setting = "full setting" if full == {True} else "quick setting" if full == {False} else "mixed settings"
    seconds = amount(round(sum(record.seconds for record in records)))
    return f"{len(records)} experiments, {setting}, {seconds} s in all, on {'; '.join(machines)}."
