"""The report page: made from stored numbers alone, readable everywhere, asking nobody for anything."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monolayer.cli import run
from monolayer.errors import DataError
from monolayer_experiments import NAMES, find, look
from monolayer_experiments.experiment import Experiment, Setting, Table
from monolayer_experiments.look import PALETTE
from monolayer_experiments.report import MAIN_FIGURE, MAIN_TABLE, page, plotly_script, words
from monolayer_experiments.results import ExperimentRecord, read, read_all, write
from tests.browser import drawn, flaws, opened

ROOT = Path(__file__).parent.parent

STORED = read(ROOT / "results" / "memorization.json")
ROWS = STORED.results["rows"]


def record(**changes: Any) -> ExperimentRecord:
    versions, command = {"python": "3", "monolayer": "0"}, "monolayer experiment memorization --out results"
    made = ExperimentRecord("memorization", Setting(), versions, "CPU (x), 2 threads", command, 1.5, STORED.results)
    return replace(made, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(record(), tmp_path)
    return tmp_path


@pytest.fixture
def report(folder: Path) -> Path:
    assert run(["report", str(folder)]) == 0
    return folder / "report.html"


def test_rebuilt_from_the_numbers_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(folder), "--json"]) == 0
    path = Path(json.loads(capsys.readouterr().out)["report"])
    assert "up to 16,000,000 labels of 1,000,000 sequences" in path.read_text()
    changed = [{**row, "right": row["labels"] - 1} for row in ROWS[:4]]
    write(record(results={"rows": changed, "length": 16, "refused": None}), folder)
    assert run(["report", str(folder)]) == 0
    assert "No: 4 labels of 70,400 came back wrong." in path.read_text()
    assert sorted(each.name for each in folder.iterdir()) == ["memorization.json", "report.html"]


def test_an_article_is_in_order_and_a_quick_setting_is_said_first() -> None:
    text = page([record()], "")
    article = text[text.index("<article") : text.index("</article>")]
    marks = ["<h3>", 'class="answer"', "<figure>", "<table>", 'class="command"', "What this does not show"]
    assert sorted(marks, key=article.index) == marks
    assert "monolayer experiment memorization --out results" in article
    assert "CPU (x), 2 threads; 1.5 s; seed 0; python 3, monolayer 0" in article
    assert "Quick setting" in text
    assert "Quick setting" not in page([record(setting=Setting(full=True))], "")
    assert set(MAIN_FIGURE) | set(MAIN_TABLE) <= set(NAMES)


# -- in the browser ------------------------------------------------------------------------------------


def test_drawn_on_a_phone_and_follows_the_page_when_it_changes(report: Path) -> None:
    fill = "getComputedStyle(document.querySelector('.plot .xtitle')).fill"
    behind = "getComputedStyle(document.body).backgroundColor"
    image = "document.body.append(Object.assign(new Image(), {src: 'https://example.org/planted.png'}))"
    with opened(report, width=390, scheme="dark") as view:
        assert drawn(view) == 2
        # Nothing but a table may be wider than the screen, and a table scrolls by itself.
        assert view.call("document.documentElement.scrollWidth") <= 390
        assert view.call("document.querySelector('.table').matches('.wide[tabindex=\"0\"]')")
        assert (view.call(fill), view.call(behind)) == ("rgb(228, 231, 235)", "rgb(22, 25, 29)")
        view.page.emulate_media(color_scheme="light")
        view.page.wait_for_selector("html[data-colours=light]", state="attached")
        assert (view.call(fill), view.call(behind)) == ("rgb(29, 33, 38)", "rgb(255, 255, 255)")
        view.page.emulate_media(color_scheme="dark")
        view.page.wait_for_selector("html[data-colours=dark]", state="attached")
        view.page.emulate_media(media="print")  # paper is white whatever the screen is
        view.page.wait_for_selector("html[data-colours=light]", state="attached")
        assert (view.call(fill), view.call(behind)) == ("rgb(29, 33, 38)", "rgb(255, 255, 255)")
        assert (flaws(view), view.messages, view.requests) == ([], [], [])
        # Planted: words that are cut or lie over one another, and a request, which the page itself forbids.
        view.call("document.querySelector('.legendtext').textContent = 'readout trained and much more'.repeat(9)")
        view.call("document.querySelector('.ytitle').setAttribute('x', 60)")
        view.call("document.querySelector('.ytitle').removeAttribute('transform')")
        found = " ".join(flaws(view))
        assert all(words in found for words in ("cut: readout trained", " over "))
        with view.page.expect_console_message() as said:
            view.call(image)
        assert all(words in said.value.text for words in ("planted.png", "Content Security Policy"))


def test_the_browser_checks_can_fail(report: Path) -> None:
    image = "<img src='https://example.org/planted.png'>"
    planted = f"</footer><script>console.error('one')</script><script>throw new Error('two')</script>{image}"
    text = report.read_text().replace("</footer>", planted).replace("Content-Security-Policy", "X-Nothing")
    report.write_text(text.replace('class="plot"', 'class="plot" hidden', 1))
    with opened(report) as view:
        assert drawn(view) == 1
        assert all(any(word in message for message in view.messages) for word in ("one", "two"))
        assert view.requests == ["https://example.org/planted.png"]


COVERED = """[...document.querySelectorAll('.plot .modebar-group')].flatMap((group) => {
  const bar = group.getBoundingClientRect();
  return [...group.closest('.plot').querySelectorAll('.legend, .annotation-text-g, .gtitle')].filter((word) => {
    const box = word.getBoundingClientRect();
    return box.width && box.left < bar.right && bar.left < box.right && box.top < bar.bottom && bar.top < box.bottom;
  }).map((word) => word.textContent);
})"""
"""Words of figures that Plotly's toolbar covers while the mouse is over a figure."""


def test_the_first_screen_is_the_network_and_a_small_figure_for_each_question(tmp_path: Path) -> None:
    records, file = read_all(ROOT / "results"), tmp_path / "report.html"
    text = page(records, "const Plotly = {react: async () => 0, Plots: {resize() {}}};")  # places, without curves
    file.write_text(text)
    with opened(file) as view:
        view.page.wait_for_selector("html[data-drawn]", state="attached")
        bottoms = view.call("[...document.querySelectorAll('.cards a')].map((a) => a.getBoundingClientRect().bottom)")
        assert len(bottoms) == len(NAMES)
        assert max(bottoms) < 900
        assert view.call("document.querySelectorAll('.network li svg').length") == 5
        assert view.call("document.querySelectorAll('details[open]').length") == 0
        assert view.call("document.documentElement.dataset.drawn") == str(len(NAMES))  # folded figures wait
        for name in NAMES:
            answer = view.call(f"document.querySelector('#{name} .answer').textContent")
            assert view.call("document.body.textContent").count(answer) == 1
        view.page.click("a[href='#rank']")
        assert view.call("document.querySelector('#rank').getBoundingClientRect().top") < 450
    for stored in records:  # no entry of a legend is without its curve
        for figure in find(stored.name).figures(stored.results):
            log = figure.figure["layout"]["yaxis"].get("type") == "log"
            named = [trace["y"] for trace in figure.figure["data"] if trace.get("showlegend", True)]
            assert all(any(y or (y == 0 and not log) for y in values) for values in named)
    # On a phone, where room is scarce: all are drawn, no word is cut or covered, nothing is wider than the screen.
    file.write_text(page(records, plotly_script()))
    with opened(file, width=390) as view:
        assert drawn(view) == view.call("document.querySelectorAll('div.plot').length") >= len(NAMES)
        marks = ".mini .scatterlayer .trace path, .mini .barlayer .point path"
        boxes = f"new Set([...document.querySelectorAll('{marks}')].map((x) => x.closest('.mini'))).size"
        assert view.call(boxes) == len(NAMES)
        assert (flaws(view), view.messages) == ([], [])
        assert view.call("document.documentElement.scrollWidth") <= 390
        assert view.call(COVERED) == []


def test_pictures_of_the_docs_keep_their_words_and_follow_the_page(tmp_path: Path) -> None:
    """In the widest font that a reader may have; a picture on a dark page is no white slab."""
    pictures = sorted((ROOT / "docs" / "figures").glob("*.svg"))
    box = '<div class="plot" aria-label="{}" style="width: max-content">{}</div>'
    inside = "".join(box.format(path.stem, path.read_text()) for path in pictures)
    page = tmp_path / "pictures.html"
    page.write_text(f"<style>svg text {{ font-family: DejaVu Sans, Verdana !important }}</style>{inside}")
    fill = "[...document.querySelectorAll('svg')].map((x) => getComputedStyle(x.querySelector('.page')).fill)"
    with opened(page, scheme="light") as view:
        assert flaws(view) == []
        assert set(view.call(fill)) == {"rgb(255, 255, 255)"}
        view.page.emulate_media(color_scheme="dark")
        assert len(view.call(fill)) == len(pictures)
        assert {sum(map(int, colour[4:-1].split(","))) < 200 for colour in view.call(fill)} == {True}
        inks = view.call("[...document.querySelectorAll('svg text')].map((x) => getComputedStyle(x).fill)")
        assert set(inks) == {"rgb(228, 231, 235)"}


# -- words ---------------------------------------------------------------------------------------------


def test_text_is_escaped_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    nasty = "<script>alert(1)</script></script><!-- & \" '"
    parts: list[Any] = [
        lambda results: nasty,
        lambda results: [look.figure(nasty, [look.line(nasty, [1], [1])], (nasty, nasty), nasty)],
        lambda results: [Table(nasty, [nasty], [[nasty]])],
        lambda results: nasty,
    ]
    experiment = Experiment("memorization", nasty, {}, lambda plan, setting, progress: {}, *parts)
    monkeypatch.setattr("monolayer_experiments.report.find", lambda name: experiment)
    plain = page([record(machine=nasty, command=nasty, versions={nasty: nasty})], "")
    assert "<script>alert" not in plain
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in plain
    assert plain.count("</script>") == page([record()], "").count("</script>")


def test_numbers_and_tables_in_words() -> None:
    for text, shown in {
        "10^-13 or less": "10<sup>−13</sup> or less",
        "2^(pk/2), R^k": "2<sup>pk/2</sup>, R<sup>k</sup>",
        "10^(-8.06·10^8).": "10<sup>−8.06·10<sup>8</sup></sup>.",
        "a < b": "a &lt; b",
    }.items():
        assert words(text) == shown
    values = {None: "—", 0: "0", 160_000: "160,000", 710.4: "710", 0.0855: "0.0855", 1e-13: "10^-13"}
    for value, shown in (values | {2.52e13: "2.52·10^13", -806_000.4: "-806,000"}).items():
        assert look.amount(value) == shown
    assert (look.share(1.0), look.share(1 - 1e-9)) == ("100 %", "99.99 %")  # almost all is not all
    rows = [{"model": "1 layer", "accuracy": 0.5, "size": 1234}, {"model": "built", "share": 1.0}]
    made = look.table(
        "", rows, "model; right: accuracy %; share %; size; twice", twice=lambda row: row.get("size", 0) * 2
    )
    assert made.columns == ["model", "right", "share", "size", "twice"]
    assert made.rows == [["1 layer", "50.00 %", "—", "1,234", "2,468"], ["built", "—", "100 %", "—", "0"]]


def test_colours_serve_in_light_and_dark() -> None:
    def light(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    for colour, behind in itertools.product(map(light, PALETTE.values()), map(light, ("#ffffff", "#16191d"))):
        assert max(colour, behind) / min(colour, behind) >= 3  # WCAG, graphical objects


# -- files that are not results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not readable JSON"),
        ("[]", "not a result"),
        ('{"format": "monolayer-experiment", "version": 2}', "version 1; run the experiment again"),
        ('{"format": "monolayer-experiment", "version": 1, "name": "rank"}', "lacks a field"),
        ((ROOT / "results" / "memorization.json").read_text(), "which its name or this monolayer does not know"),
    ],
)
def test_a_file_that_is_no_result_is_named(folder: Path, text: str, words: str) -> None:
    assert read_all(folder) == [record()]
    (folder / "rank.json").write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read_all(folder)
    assert "rank.json" in str(caught.value)


def test_a_folder_without_results_or_with_those_of_another_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(tmp_path / "missing")]) == 2
    assert run(["report", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    write(record(results={"rows": [{"labels": 1}]}), tmp_path)
    assert run(["report", str(tmp_path)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert re.search("memorization.json does not hold what this version.*monolayer experiment memorization", message)


def test_a_missing_plotly_is_said_before_the_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    for command in (["report", str(folder)], ["experiment", "memorization", "--out", str(folder / "new")]):
        assert run(command) == 2
        assert "monolayer[report]" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in folder.iterdir()] == ["memorization.json"]
