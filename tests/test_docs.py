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

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("page", "least"), [("tutorial", 8), ("uniform", 1), ("approximation", 1)])
def test_pages_run_and_print_what_they_say(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert len(blocks) >= least
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


def test_the_notebook_runs_and_prints_what_it_stores() -> None:
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "docs" / "figures" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    notebook = json.loads((script.NOTEBOOKS / "known_memory.ipynb").read_text(encoding="utf-8"))
    assert sum(cell["cell_type"] == "code" for cell in notebook["cells"]) == 5
    assert script.run(notebook) == notebook
