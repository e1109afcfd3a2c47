"""The README tells the truth: its example runs, its links lead somewhere, its commands exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from monolayer.cli import run
from monolayer_experiments import NAMES
from tests.scripts import ROOT, script

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
    findings = script("docs/figures/findings.py")
    found = findings.records()
    assert set(found) == set(NAMES), "every experiment has its full results"
    assert all(record.setting.full for record in found.values())
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == findings.markdown(found)


def test_what_the_pages_say_of_bench_is_recorded() -> None:
    def stored(name: str) -> list[dict[str, Any]]:
        found = json.loads((ROOT / "results" / "bench" / f"{name}.json").read_text(encoding="utf-8"))
        assert found["command"].startswith(f"python bench/{name}.py")
        assert {"monolayer", "source"} <= set(found["versions"])
        rows: list[dict[str, Any]] = found["rows"]
        return rows

    *families, clock = stored("no_false_proof_in_100000_faults")
    proved, refuted, undecided, false = (
        sum(row[verdict] for row in families) for verdict in ("proved", "refuted", "undecided", "false")
    )
    said = " ".join((ROOT / "docs" / "certificate.md").read_text(encoding="utf-8").split())
    assert f"{proved + refuted + undecided:,} faults ({clock['seconds']} s" in said
    assert f"{proved:,} were proved, {refuted:,} refuted, {undecided:,} left undecided" in said
    assert false == 0
    (row,) = stored("rank_two_holds_64_million_points")
    assert (row["labels"], row["wrong"], row["verdict"]) == (64_000_000, 0, "proved")
    text = (ROOT / "docs" / "construction.md").read_text(encoding="utf-8")
    assert f"value rank {row['rank']}, built in {row['build']:.0f} s, proved in {row['certify']:.0f} s" in text
    (row,) = stored("out_of_core_within_two_gigabytes")
    times = (row["sort"], row["sort_by_all"], row["build"])
    large = (ROOT / "docs" / "large.md").read_text(encoding="utf-8")
    assert f"| {row['labels'] // 10**6:,} M | {row['workers']} | " + " | ".join(f"{t:.1f} s" for t in times) in large


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
