"""The report: one page, made from stored results alone, that needs nothing but itself.

The first screen is the network and one small figure for each experiment. Then, for each: the question, the answer, its
figure, maybe a table; folded, the other figures, the tables and the command; and what it does not show.
Plotly's script is written into the page, and a policy in its head forbids every request, so it works offline and tells
nobody that it was opened.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from monolayer.data.aside import new_file
from monolayer.errors import DataError, needs_extra
from monolayer.table import plural, raised
from monolayer_experiments import SECTIONS, find
from monolayer_experiments.experiment import Experiment, Figure, Table
from monolayer_experiments.look import amount
from monolayer_experiments.results import REPORT, ExperimentRecord, read_all

MAIN_FIGURE = {"depth": 2, "frontier": 1, "uniform": 1}
"""Number of the figure that stands for an experiment, if it is not the first."""
MAIN_TABLE = dict.fromkeys(
    (
        *("rank", "ranks", "frontier", "keys", "depth", "shortfall", "tagging", "editing", "unlearning", "attach"),
        *("temperature", "heads", "uniform"),
    ),
    0,
)
"""Number of the table that stands beside the answer of an experiment; the other answers need none."""
QUICK_NOTICE = (
    "Quick setting: small data, mostly one seed, few steps of training. Differences that chance alone could make are "
    "not put into words; run with --full for the sizes of docs/findings.md."
)


def build(folder: Path) -> Path:
    """Write `report.html` from the results in `folder`, and return its path."""
    script = plotly_script()  # a missing plotly is said before the results are read
    with new_file(folder / REPORT) as file:
        file.write(page(read_all(folder), script))
    return folder / REPORT


def plotly_script() -> str:
    """Plotly's own script, from the Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise needs_extra("the report page needs plotly", "report") from None
    script: str = get_plotlyjs()
    return script


def page(records: list[ExperimentRecord], script: str) -> str:
    """The whole page as text."""
    figures: list[Figure] = []
    parts = {record.name: _parts(find(record.name), record, figures) for record in records}
    cards, body = [], []
    for title, names in SECTIONS.items():
        inside = [parts[name] for name in names if name in parts]
        if not inside:
            continue
        cards += [card for card, _ in inside]
        body.append(f"<section>\n<h2>{escape(title)}</h2>")
        body += [article for _, article in inside]
        body.append("</section>")
    drawn = json.dumps([figure.figure for figure in figures], ensure_ascii=False, allow_nan=False)
    quick = not all(record.setting.full for record in records)
    # Inside a script element only "</" and "<!--" could end or confuse it; JSON reads \u003c as "<".
    marks = {
        "notice": f'<p class="notice">{escape(QUICK_NOTICE)}</p>' if quick else "",
        "cards": "\n".join(cards),
        "body": "\n".join(body),
        "made": escape(_made(records)),
        "figures": drawn.replace("<", "\\u003c"),
        "plotly": script.replace("</script", "<\\/script"),
    }
    text = files("monolayer_experiments").joinpath("report.html").read_text(encoding="utf-8")
    # In one pass: what is put in is not searched for marks again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: marks[mark[1]], text)


def _parts(experiment: Experiment, record: ExperimentRecord, figures: list[Figure]) -> tuple[str, str]:
    """An experiment's card and its article; results of another version are an error that says so."""
    try:
        shown = list(enumerate(experiment.figures(record.results), len(figures)))
        figures += [figure for _, figure in shown]
        key = min(MAIN_FIGURE.get(record.name, 0), len(shown) - 1)
        main, others = shown[key : key + 1], shown[:key] + shown[key + 1 :]
        return _card(experiment, main), _article(experiment, record, main, others)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{record.name}.json does not hold what this version of the experiment measures ({type(error).__name__}: "
            f"{error}). It was written by monolayer {record.versions.get('monolayer', 'unknown')}; delete it and run "
            f"`{record.command}` again"
        ) from error


def words(text: str) -> str:
    """Text for the page: escaped, with raised exponents."""
    return raised(escape(text))


Numbered = list[tuple[int, Figure]]
"""Figures with their numbers on the page."""


def _card(experiment: Experiment, main: Numbered) -> str:
    """A small figure that links to the article of its experiment."""
    name, inside = escape(experiment.name), escape(experiment.question)
    for number, figure in main:
        inside = f'<div class="mini" data-figure="{number}" aria-hidden="true"></div><span>{words(figure.title)}</span>'
    return f'<li><a href="#{name}">{inside}</a></li>'


def _article(experiment: Experiment, record: ExperimentRecord, main: Numbered, others: Numbered) -> str:
    """The article of an experiment as HTML; `main`: the figure that stands for it, if there is one."""
    results = record.results
    lead, _, rest = experiment.answer(results).partition(". ")
    answer = f"<b>{words(lead)}.</b> {words(rest)}" if rest else f"<b>{words(lead)}</b>"
    beside, tables = parted(record.name, experiment.tables(results))
    folded = [
        *(plural(n, word) for n, word in ((len(others), "more figure"), (len(tables), "table")) if n),
        "the command",
    ]
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    where = f"{record.machine}; {amount(record.seconds)} s; seed {record.setting.seed}; {versions}"
    return "\n".join(
        [
            f'<article id="{escape(record.name)}">',
            f"<h3>{escape(experiment.question)}</h3>",
            f'<p class="answer">{answer}</p>',
            *(_figure(figure, number) for number, figure in main),
            *(_html_table(table) for table in beside),
            f"<details><summary>{', '.join(folded)}</summary>",
            *(_figure(figure, number) for number, figure in others),
            *(_html_table(table) for table in tables),
            f'<pre class="command"><code>{escape(record.command)}</code></pre>',
            f'<p class="where">{escape(where)}</p>',
            "</details>",
            "<details><summary>What this does not show</summary>",
            f'<p class="limits">{words(experiment.limits(results))}</p>',
            "</details>",
            "</article>",
        ]
    )


def parted(name: str, tables: list[Table]) -> tuple[list[Table], list[Table]]:
    """The table that stands beside the answer of an experiment, if it has one, and its other tables."""
    if name not in MAIN_TABLE:
        return [], tables
    key = MAIN_TABLE[name]
    return tables[key : key + 1], tables[:key] + tables[key + 1 :]


def _figure(figure: Figure, number: int) -> str:
    caption = f"<b>{words(figure.title)}.</b> {words(figure.caption)}".strip()
    label = escape(figure.title, quote=True)
    return (
        f'<figure><div class="plot" data-figure="{number}" role="img" aria-label="{label}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _html_table(table: Table) -> str:
    title = escape(table.title, quote=True)
    head = "".join(f"<th>{words(column)}</th>" for column in table.columns)
    rows = "\n".join("<tr>" + "".join(f"<td>{words(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    # Reached by the tabulator key, so that the arrow keys can scroll it.
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{title}"><p aria-hidden="true">{title}</p>'
        f"<table><caption>{title}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _made(records: list[ExperimentRecord]) -> str:
    machines = sorted({record.machine for record in records})
    full = {record.setting.full for record in records}
    setting = "full setting" if full == {True} else "quick setting" if full == {False} else "mixed settings"
    seconds = amount(round(sum(record.seconds for record in records)))
    return f"{len(records)} experiments, {setting}, {seconds} s in all, on {'; '.join(machines)}."
