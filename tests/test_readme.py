"""The README tells the truth: its example runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from monolayer.cli import run
from monolayer_experiments import NAMES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


def test_the_example_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", README, flags=re.S))
    exec(compile(code, "README.md", "exec"), {})
    promised = re.findall(r"^print\(.*?\)  # (.*)$", code, flags=re.M)
    assert capsys.readouterr().out.splitlines() == promised
    assert all((tmp_path / name / "config.json").exists() for name in ("model", "bert"))


def test_the_findings_are_those_of_the_stored_results() -> None:
    """docs/findings.md is made from results/, and nothing in it is written by hand."""
    spec = importlib.util.spec_from_file_location("findings", ROOT / "docs" / "figures" / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    findings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(findings)
    found = findings.records()
    assert set(found) == set(NAMES), "every experiment has its full results"
    assert all(record.setting.full for record in found.values())
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == findings.markdown(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


def test_every_command_of_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^monolayer ([a-z-]+)", README, flags=re.M))
    assert commands
    for command in commands:
        assert run([command, "--help"]) == 0
    capsys.readouterr()
