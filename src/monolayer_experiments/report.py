"""The report: one page, made from stored results alone, that needs nothing but itself.

The first screen is the network and one small figure for each experiment. Then, for each: the question, the answer, its
figure; folded, the other figures, the tables and the command; and what it does not show.
Plotly's script is written into the page, and a policy in its head forbids every request, so it works offline and tells
nobody that it was opened.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from monolayer.errors import DataError
from monolayer_experiments import SECTIONS, find
from monolayer_experiments.experiment import Experiment, Figure, Table
from monolayer_experiments.look import amount, raised
from monolayer_experiments.results import REPORT, Record, read_all, write_text

KEY = {"depth": 2, "uniform": 1}
"""Which figure of an experiment stands for it, where it is not the first."""
PAPER = "https://arxiv.org/abs/2307.14023"
DOCS = {
    "memorization": "construction.md",
    "precision": "theorems.md",
    "frontier": "robust.md",
    "hardmax": "hardmax.md",
    "editing": "editing.md",
    "unlearning": "benchmarks.md",
    "equivariant": "approximation.md",
    "quantizer": "approximation.md",
    "uniform": "uniform.md",
    "functions": "approximation.md",
}
"""The page of docs/ that explains what an experiment measures."""
QUICK = (
    "Quick setting: small data, mostly one seed, short clocks. Differences that chance alone could make are not put "
    "into words; run with --full for the sizes of docs/findings.md."
)


def build(folder: Path) -> Path:
    """Write `report.html` from the results in `folder`, and return its path."""
    script = plotly_script()
    return write_text(folder / REPORT, page(read_all(folder), script, _docs(folder)))


def _docs(folder: Path) -> str | None:
    """The way from `folder` to the docs, if it lies in a checkout of the source: no other way outlives a move."""
    for up, above in enumerate([folder.resolve(), *folder.resolve().parents]):
        if all((above / "docs" / name).exists() for name in DOCS.values()):
            return "../" * up + "docs/"
    return None


def plotly_script() -> str:
    """Plotly's own script, from the Python package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise DataError("the report page needs plotly: pip install plotly") from None
    script: str = get_plotlyjs()
    return script


def page(records: list[Record], script: str, docs: str | None = None) -> str:
    """The whole page as text; `docs` is the way to the docs from where it will lie."""
    figures: list[Figure] = []
    parts = {record.name: _parts(find(record.name), record, figures, docs) for record in records}
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
        "links": _links(docs),
        "notice": f'<p class="notice">{escape(QUICK)}</p>' if quick else "",
        "cards": "\n".join(cards),
        "body": "\n".join(body),
        "made": escape(_made(records)),
        "figures": drawn.replace("<", "\\u003c"),
        "plotly": script.replace("</script", "<\\/script"),
    }
    text = files("monolayer_experiments").joinpath("report.html").read_text(encoding="utf-8")
    # In one pass: what is put in is not searched for marks again.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: marks[mark[1]], text)


def _parts(experiment: Experiment, record: Record, figures: list[Figure], docs: str | None) -> tuple[str, str]:
    """An experiment's card and its article; results of another version are an error that says so."""
    try:
        shown = list(enumerate(experiment.figures(record.results), len(figures)))
        figures += [figure for _, figure in shown]
        key = min(KEY.get(record.name, 0), len(shown) - 1)
        main, others = shown[key : key + 1], shown[:key] + shown[key + 1 :]
        return _card(experiment, main), _article(experiment, record, main, others, docs)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{record.name}.json does not hold what this version of the experiment measures ({type(error).__name__}: "
            f"{error}). It was written by monolayer {record.versions.get('monolayer', 'unknown')}; delete it and run "
            f"`{record.command}` again"
        ) from error


def words(text: str) -> str:
    """Text for the page: escaped, with raised exponents."""
    return raised(escape(text))


def _links(docs: str | None) -> str:
    """To the paper, and to the docs where there is a way to them."""
    paper = f'<a href="{PAPER}">The paper: Kajitsuka and Sato, ICLR 2024</a>'
    pages = ("construction", "theorems", "certificate", "findings")
    if docs is None:
        return f"{paper} · the theory, the proofs and the findings are in docs/ of the source"
    return " · ".join([paper, *(f'<a href="{docs}{name}.md">{name}</a>' for name in pages)])


Numbered = list[tuple[int, Figure]]
"""Figures with their numbers on the page."""


def _card(experiment: Experiment, main: Numbered) -> str:
    """A small figure that leads to its article; what it shows is said there."""
    name, inside = escape(experiment.name), escape(experiment.question)
    for number, figure in main:
        inside = f'<div class="mini" data-figure="{number}" aria-hidden="true"></div>{words(figure.title)}'
    return f'<li><a href="#{name}">{inside}</a></li>'


def _article(experiment: Experiment, record: Record, main: Numbered, others: Numbered, docs: str | None) -> str:
    """`main` is the figure that stands for the experiment, if there is one."""
    results = record.results
    lead, _, rest = experiment.answer(results).partition(". ")
    answer = f"<b>{words(lead)}.</b> {words(rest)}" if rest else f"<b>{words(lead)}</b>"
    tables = experiment.tables(results)
    folded = [_count(len(others), "more figure"), _count(len(tables), "table"), "the command"]
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    where = f"{record.machine}; {amount(record.seconds)} s; seed {record.setting.seed}; {versions}"
    explained = ""
    if docs is not None and record.name in DOCS:
        explained = f'<p class="where">Explained in <a href="{docs}{DOCS[record.name]}">{DOCS[record.name]}</a>.</p>'
    return "\n".join(
        [
            f'<article id="{escape(record.name)}">',
            f"<h3>{escape(experiment.question)}</h3>",
            f'<p class="answer">{answer}</p>',
            *(_figure(figure, number) for number, figure in main),
            f"<details><summary>{', '.join(part for part in folded if part)}</summary>",
            *(_figure(figure, number) for number, figure in others),
            *(_table(table) for table in tables),
            f'<pre class="command"><code>{escape(record.command)}</code></pre>',
            f'<p class="where">{escape(where)}</p>',
            explained,
            "</details>",
            "<details><summary>What this does not show</summary>",
            f'<p class="limits">{words(experiment.limits(results))}</p>',
            "</details>",
            "</article>",
        ]
    )


def _count(number: int, what: str) -> str:
    return "" if number == 0 else f"{number} {what}{'s' if number > 1 else ''}"


def _figure(figure: Figure, number: int) -> str:
    caption = f"<b>{words(figure.title)}.</b> {words(figure.caption)}".strip()
    label = escape(figure.title, quote=True)
    return (
        f'<figure><div class="plot" data-figure="{number}" role="img" aria-label="{label}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    title = escape(table.title, quote=True)
    head = "".join(f"<th>{words(column)}</th>" for column in table.columns)
    rows = "\n".join("<tr>" + "".join(f"<td>{words(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    # Reached by the tabulator key, so that the arrow keys can scroll it.
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{title}"><p aria-hidden="true">{title}</p>'
        f"<table><caption>{title}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _made(records: list[Record]) -> str:
    machines = sorted({record.machine for record in records})
    full = {record.setting.full for record in records}
    setting = "full setting" if full == {True} else "quick setting" if full == {False} else "mixed settings"
    seconds = amount(round(sum(record.seconds for record in records)))
    return f"{len(records)} experiments, {setting}, {seconds} s in all, on {'; '.join(machines)}."
