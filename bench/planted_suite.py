"""Tests as `no_planted_fault_proves_more.py` asks them: collected once, traced once, and then run in forks.

Tracing shows for each test how long it takes and which lines of the package it executes, so that of a fault only tests
that execute its line are asked.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
from _pytest.config import Config, get_config
from _pytest.main import Session
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from forks import Step
from planted_packages import Package

ROOT = Path(__file__).parent.parent
FIRST_FAILURE = "first failure"
"""A profile of hypothesis: an example that fails is enough, and need not become a small one."""
OWN = ("monolayer", "tests", "__main__")
"""Modules that hold what is planted, or names of it."""

Line = tuple[str, int]


@dataclass
class Suite:
    """Collected tests, and what a run of each showed: how long it takes, and which lines of the package it executes."""

    session: Session
    items: dict[str, pytest.Item]
    seconds: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    """Seconds times lines: what is quick and executes little of the package says most about each line of it."""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """By file and line, the tests."""

    def learn(self, known: dict[str, Traced]) -> None:
        """What was traced; tests that fail on the true code, when they are traced, are not asked."""
        for name in list(self.items):
            seconds, failed, lines, _ = known[name]
            if failed:
                print(f"fails on the true code, so it is not asked: {name}")
                del self.items[name]
                continue
            self.seconds[name], self.cost[name] = seconds, seconds * len(lines)
            for file, line in lines:
                self.lines.setdefault(file, {}).setdefault(line, []).append(name)

    def asks(self, name: str, questions: Collection[str]) -> bool:
        """Whether a test asks one of these questions: those that `tests/readings.py` and `tests/model_answers.py`
        record, some of which have a word before their name in `planted_answers.py`."""
        parameters = getattr(self.items[name], "callspec", None)
        asked = None if parameters is None else parameters.params.get("name")
        return isinstance(asked, str) and any(f" {question}".endswith(f" {asked}") for question in questions)

    def run(
        self, names: list[str], begin: Callable[[str], None], deadline: float = float("inf")
    ) -> tuple[str | None, list[str]]:
        """The first test that fails, or None; and those that were not asked, up to a time of this process's own.

        `begin` is called with the name of each test before it runs.
        """
        self.session.config._tmp_path_factory._basetemp = Path(tempfile.mkdtemp(dir=tempfile.gettempdir()))  # type: ignore[attr-defined]
        for number, name in enumerate(names):
            left = names[number + 1 :]
            if time.process_time() > deadline:
                return None, names[number:]
            begin(name)
            following = self.items[left[0]] if left else None
            reports = runtestprotocol(self.items[name], nextitem=following, log=False)
            if any(report.failed for report in reports):
                return name, left
        return None, []


def collected(files: list[str]) -> Suite:
    """All tests of these files, not yet run; without those that cannot be imported, for want of a package it may be."""
    settings.register_profile(
        FIRST_FAILURE, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate, Phase.target)
    )
    os.environ["HYPOTHESIS_PROFILE"] = FIRST_FAILURE  # tests/conftest.py loads it
    # Nobody reads what failed in a test: wording that would take most of the time.
    config = _configured(["-p", "no:cacheprovider", "-p", "no:xdist", "-s", "-q", "--no-header",
                          "--tb=no", "--assert=plain",
                          "-W", "ignore::pytest.PytestAssertRewriteWarning",
                          *(str(ROOT / "tests" / f"test_{name}.py") for name in files)])  # fmt: skip
    session = Session.from_config(config)
    config._do_configure()
    config.hook.pytest_sessionstart(session=session)
    items = session.perform_collect()
    for name in files:
        if not any(item.path.name == f"test_{name}.py" for item in items):
            print(f"not asked, since it cannot be collected (run it by itself to see why): tests/test_{name}.py")
    if not items:
        raise SystemExit("no tests are left to ask")
    return Suite(session, {item.nodeid: item for item in items})


def _configured(words: list[str]) -> Config:
    config = get_config(words, None)
    return config.pluginmanager.hook.pytest_cmdline_parse(pluginmanager=config.pluginmanager, args=words)  # type: ignore[no-any-return]


# -- which tests execute which lines -------------------------------------------------------------------------


class Traced(NamedTuple):
    """What a run of a test on the true code showed: `modules` are those that were imported when it was over."""

    seconds: float
    failed: bool
    lines: frozenset[Line]
    modules: frozenset[str] = frozenset()


@contextmanager
def tracing(package: Package) -> Iterator[set[Line]]:
    """Lines of a package that are executed meanwhile, in this thread and in those that it starts."""
    prefix, seen = str(package.folder) + os.sep, set[Line]()
    left: dict[CodeType, set[Line]] = {}
    """By function, its lines that were not seen yet; where none is left, it is not traced any more."""

    def saw(code: CodeType, line: int) -> None:
        place = (code.co_filename.removeprefix(prefix), line)
        seen.add(place)
        left[code].discard(place)

    def inside(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            saw(frame.f_code, frame.f_lineno)
        return inside if left[frame.f_code] else None

    def entered(frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in left:
            file = code.co_filename.removeprefix(prefix)
            lines = {line for _, _, line in code.co_lines() if line is not None}
            left[code] = {(file, line) for line in lines} if file != code.co_filename else set()
        if left[code]:
            saw(code, code.co_firstlineno)  # also all there is of most lambdas
        return inside if left[code] else None

    sys.settrace(entered)
    threading.settrace(entered)
    try:
        yield seen
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def traced(suite: Suite, package: Package, names: list[str], step: Step) -> dict[str, Traced]:
    """Some tests, each once."""
    found = {}
    for name in names:
        began = time.process_time()
        with tracing(package) as seen:
            failed, _ = suite.run([name], step)
        found[name] = Traced(time.process_time() - began, failed is not None, frozenset(seen), frozenset(sys.modules))
    return found


def imported(known: dict[str, Traced]) -> None:
    """Import here what tests import, so that not every fork does: but nothing that a fault could be planted in."""
    for name in sorted({name for one in known.values() for name in one.modules} - set(sys.modules)):
        if name.partition(".")[0] not in OWN:
            with suppress(Exception):
                importlib.import_module(name)
