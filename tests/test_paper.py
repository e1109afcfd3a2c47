"""The table from the paper to the commands (docs/paper.md) names nothing that does not exist."""

from __future__ import annotations

import importlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer_experiments import NAMES
from tests.scripts import ROOT

DOCS, TESTS = ROOT / "docs", ROOT / "tests"
COLUMNS = ("function", "command", "test", "figure", "what came out")


def rows() -> Iterator[dict[str, str]]:
    """The rows of all tables of the page, by their columns."""
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        head, _, *lines = ([cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in table.splitlines())
        for cells in lines:
            assert len(cells) == len(head), cells
            yield dict(zip(("statement", *head[1:]), cells, strict=True))


ROWS = list(rows())


def anchors(page: Path) -> set[str]:
    """What the site calls the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M):
        plain = unicodedata.normalize("NFKD", re.sub(r"[`*$\\]", "", heading)).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def function_exists(name: str) -> bool:
    place, _, attribute = name.rpartition(".")
    if place == "ml":
        return hasattr(ml, attribute)
    return hasattr(importlib.import_module(f"monolayer.theory.{place}"), attribute)


def there_is_a_test(name: str) -> bool:
    file, _, function = name.partition("::")
    path = TESTS / file
    return path.exists() and (not function or f"\ndef {function}(" in path.read_text(encoding="utf-8"))


def link_exists(link: str) -> bool:
    page, _, anchor = link.partition("#")
    path = DOCS / page
    return path.exists() and (not anchor or anchor in anchors(path))


def command_exists(command: str, capsys: pytest.CaptureFixture[str]) -> bool:
    program, verb, *rest = command.split()
    ended = run([verb, "--help"])
    said = capsys.readouterr().out
    options = [word for word in rest if word.startswith("--")]
    known = verb != "experiment" or rest[0] in NAMES
    return program == "monolayer" and ended == 0 and known and all(option in said for option in options)


def test_every_statement_has_a_function_a_command_a_test_and_a_figure_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(ROWS) > 20
    for row in ROWS:
        assert tuple(row)[1:] == COLUMNS
        named = {column: re.findall(r"`([^`]+)`", row[column]) for column in COLUMNS[:3]}
        assert all(named.values()), row["statement"]
        assert [name for name in named["function"] if not function_exists(name)] == []
        assert [name for name in named["test"] if not there_is_a_test(name)] == []
        assert [name for name in named["command"] if not command_exists(name, capsys)] == []
        links = re.findall(r"\]\(([^)]+)\)", " ".join(row.values()))
        assert links
        assert [link for link in links if not link_exists(link)] == []
        assert row["what came out"]


def test_the_check_sees_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not function_exists("ml.memorise")
    assert not function_exists("boltzmann.boltzman")
    assert not there_is_a_test("test_boltzmann.py::test_lemma_2")
    assert not there_is_a_test("test_lemma.py")
    assert not link_exists("theorems.md#theorem-z")
    assert not link_exists("theory.md")
    assert not command_exists("monolayer theorem --acausal", capsys)
    assert not command_exists("monolayer experiment ranking", capsys)
    assert not command_exists("monolayer theorems", capsys)
