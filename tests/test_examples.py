"""The example that each command's help opens with runs as it is printed, one after the other, in one folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from monolayer.cli import app, run
from monolayer.cli.examples import EXAMPLES, GREETING
from monolayer_experiments import precision
from tests.encoders import FAQ, write_encoder
from tests.hosts import FACTS, write_host
from tests.scripts import ROOT

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Oman": "Muscat", "Peru": "Lima"}
ELSEWHERE = {"demo"}
"""Examples that something else runs: `make demo`."""


def table(path: Path, rows: dict[str, str]) -> None:
    path.write_text("country,capital\n" + "".join(f"{key},{value}\n" for key, value in rows.items()), encoding="utf-8")


def test_every_command_has_an_example_and_its_help_opens_with_it(said: Callable[..., str]) -> None:
    group: Any = typer.main.get_command(app)
    assert set(group.commands) == set(EXAMPLES)
    for name, example in EXAMPLES.items():
        assert shlex.split(example)[0] == name
        first, line = said(name, "--help").split("\n\n")[1:3]
        assert "Example" not in first
        assert line.split("\n") == ["  Example:", f"    monolayer {example}"]
    assert all(f"\n\t$(BIN)/monolayer {name}\n" in (ROOT / "Makefile").read_text() for name in ELSEWHERE)


def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each takes files of a user, which are written here, or what an earlier one wrote."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(precision.PLAN, "vocabularies", ((4, 8), ()))
    table(Path("capitals.csv"), CAPITALS)
    table(Path("gone.csv"), {"Oman": "Muscat"})
    table(Path("changed.csv"), {"France": "Lyon"})
    table(Path("new.csv"), {"Chad": "N'Djamena"})
    table(Path("facts.csv"), FACTS)
    Path("shards").mkdir()
    table(Path("shards/one.csv"), dict([*CAPITALS.items()][:2]))
    table(Path("shards/two.csv"), dict([*CAPITALS.items()][2:]))
    Path("book.txt").write_text("Once upon a time there was a model that knew one text. That was this one.\n")
    write_host(Path("gpt2-folder"))
    table(Path("faq.csv"), FAQ)
    write_encoder(Path("minilm-folder"))
    for name, example in EXAMPLES.items():
        if name not in ELSEWHERE:
            assert run(shlex.split(example)) == 0, (example, capsys.readouterr())


def test_monolayer_alone_greets_with_commands_that_have_these_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert capsys.readouterr().out == GREETING + "\n"
    for name in ("memorize", "predict", "verify"):
        assert f"  monolayer {EXAMPLES[name]}  " in GREETING
