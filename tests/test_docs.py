"""The pages tell the truth: those with examples run and print what they say, the site builds without a warning."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import ROOT, script

ELSEWHERE = {"benchmarks", "tools"}
"""Pages whose examples are run by tests of their own."""
PAGES = sorted(
    page.stem
    for page in (ROOT / "docs").glob("*.md")
    if "```python" in page.read_text(encoding="utf-8") and page.stem not in ELSEWHERE
)


@pytest.mark.parametrize("page", PAGES)
def test_pages_run_and_print_what_they_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "stock":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), flags=re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, f"docs/{page}.md", "exec"), names)
        promised = re.findall(r"^ *print\(.*\)  # (.*)$", block, flags=re.M)
        assert capsys.readouterr().out.splitlines() == promised


def test_every_page_is_on_the_site() -> None:
    listed = set(re.findall(r": ([a-z-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.M))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")}


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's notice about another version of mkdocs
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    page = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    for name in ("memorize", "approximate", "certify", "refute_hardmax", "PrecisionError"):
        assert name in page
    fetched = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", page)
    assert fetched == []
    assert 'href="builder.html"' in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'id="source"' in (tmp_path / "site" / "builder.html").read_text(encoding="utf-8")


NOTEBOOKS = [
    ("known_memory", 5, "monolayer"),
    pytest.param("stock_nnsight", 4, "nnsight", marks=pytest.mark.filterwarnings("ignore")),
]


@pytest.mark.parametrize(("name", "cells", "needs"), NOTEBOOKS)
def test_the_notebooks_print_what_they_store(name: str, cells: int, needs: str) -> None:
    notebooks = script("docs/figures/notebook.py")
    notebook = json.loads((notebooks.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    printed = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(printed) == cells
    assert name != "stock_nnsight" or "86 other facts are as they were" in json.dumps(printed)
    if importlib.util.find_spec(needs) is not None:
        assert notebooks.run(notebook) == notebook
