"""One setting for all property tests: the same examples in every run, and no clock; and what several files share.

`HYPOTHESIS_PROFILE=explore make test` draws new examples instead.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

import monolayer as ml
from monolayer.cli import run

settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it runs in the background ignore Ctrl-C, which some tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def demanding(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Small data crowd a line as only large data do in earnest, if steps ask for more room."""

    def demand(slack: float) -> None:
        for module in ("points", "separate"):
            monkeypatch.setattr(f"monolayer.construct.line.{module}.SLACK", slack)

    return demand


DATA = '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n{"tokens": ["b", "a", "c"], "labels": ["y", "y", "z"]}\n'


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data.jsonl` and its model `m`, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "data.jsonl").write_text(DATA)
    ml.memorize(ml.read(folder / "data.jsonl")).save(folder / "m")
    return folder


@pytest.fixture
def here(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the working folder."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command, a string or its words, that leaves with `code`: what it printed, or its `errors` in one line."""

    def call(*words: str, code: int = 0, errors: bool = False) -> str:
        capsys.readouterr()
        assert run(list(words) if len(words) > 1 else words[0].split()) == code, capsys.readouterr()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return " ".join(printed.err.split()) if errors or code == 2 else printed.out

    return call
