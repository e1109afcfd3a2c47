"""One setting for all property tests: the same examples in every run, and no clock; and what several files share.

`HYPOTHESIS_PROFILE=explore make test` draws new examples instead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from hypothesis import settings

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


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command, a string or its words, that leaves with `code`: what it printed, or its `errors` in one line."""
    from monolayer.cli import run

    def call(*words: str, code: int = 0, errors: bool = False) -> str:
        capsys.readouterr()
        assert run(list(words) if len(words) > 1 else words[0].split()) == code, capsys.readouterr()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return " ".join(printed.err.split()) if errors or code == 2 else printed.out

    return call
