"""Faults are planted and asked, in forks of one process: what the code answers then, and which test sees it."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from forks import Ended, Fork, Forks, Step
from planted_faults import Fault, assigned, spans
from planted_packages import Package
from planted_suite import Line, Suite, tracing
from planted_told import Answer, Claim

DIFFERS = "differs"
"""A fault that answers otherwise, before tests are asked."""
SHORTEST = 1.0
"""Seconds of processor time that every step may take."""


# -- planting ------------------------------------------------------------------------------------------------


def plant(fault: Fault, tree: ast.Module, package: Package) -> None:
    """Put a fault into this process."""
    fault.plant()
    path = str(package.folder / fault.file)
    name = f"{package.module}." + fault.file.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name)
    if fault.function:
        alone = ast.fix_missing_locations(ast.Module(_needed(tree, fault.function), []))
        code = compile(alone, path, "exec", dont_inherit=True)
        _function(module, fault.function).__code__ = _code(code, fault.function)
    else:
        _assign_anew(module, ast.fix_missing_locations(tree), package.module, names_in(fault.name))


def _needed(tree: ast.Module, function: str) -> list[ast.stmt]:
    """What must be compiled for a function: the statement that defines it, and how annotations are read."""
    name = function.partition(".")[0]
    own = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == name]
    return [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"] + list(own)


def _code(code: CodeType, name: str) -> CodeType:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_qualname == name:
                return const
            if name.startswith(const.co_qualname + "."):
                return _code(const, name)
    raise LookupError(name)


def _function(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = found.__dict__[part]
    while not isinstance(found, FunctionType):
        found = next(getattr(found, part) for part in ("__wrapped__", "__func__", "fget") if hasattr(found, part))
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found


def names_in(text: str) -> set[str]:
    """The names that a module's statement assigns to, from its fault: `A` or `(A, B)`."""
    return {name.strip() for name in text.strip("()").split(",")} - {""}


def _assign_anew(changed: ModuleType, tree: ast.Module, package: str, names: set[str]) -> None:
    """The constants `names` of a module, and in it and in others of the package those that are made of them; then
    wherever else these are. Nothing else is made anew: an `object()` that marks a missing value would be another."""
    names, renamed = set(names), list[tuple[str, Any, Any]]()
    beside = [module for name, module in list(sys.modules.items()) if name.startswith(f"{package}.")]
    for module in beside[beside.index(changed) :]:
        source = tree if module is changed else ast.parse(Path(str(module.__file__)).read_text())
        for statement in source.body:
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(package):
                some = [alias.asname or alias.name for alias in statement.names if alias.name in names]
            elif assigned(statement) is not None and words_of(statement) & names:
                some = [node.id for node in ast.walk(assigned(statement)) if isinstance(node, ast.Name)]
            else:
                continue
            old = {name: module.__dict__.get(name) for name in some}
            alone = ast.fix_missing_locations(ast.Module([statement] if some else [], []))
            exec(compile(alone, str(module.__file__), "exec", dont_inherit=True), module.__dict__)
            renamed += [(name, old[name], module.__dict__[name]) for name in some]
            names.update(some)
    others = [module for name, module in list(sys.modules.items()) if name.startswith(("tests.", "monolayer."))]
    for module in others:
        for name, old, new in renamed:
            if module.__dict__.get(name) is old and old is not new:
                module.__dict__[name] = new


def words_of(statement: ast.AST) -> set[str]:
    """The names in a statement, and those behind a dot."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}


# -- the second question -------------------------------------------------------------------------------------


CORPUS: list[tuple[str, Callable[[], Claim | Answer]]] = []
"""Filled before the first fork."""


class Answered(NamedTuple):
    """What the true code claims or answers, the seconds of processor time that it takes, and the lines it executes."""

    claim: Any
    seconds: float
    lines: frozenset[Line]


def answered(package: Package, names: list[str], step: Step) -> dict[str, Answered]:
    """Ask the code as it is. A question that has two answers tells nothing."""
    found, wanted = {}, set(names)
    for name, ask in CORPUS:
        if name in wanted:
            step(name)
            began = time.process_time()
            with tracing(package) as seen:
                claim = ask()
            found[name] = Answered(claim, time.process_time() - began, frozenset(seen))
            if isinstance(claim, Answer) and ask() != claim:
                raise ValueError(f"{name} is answered in two ways")
    return found


def compared(true: dict[str, Answered], found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Where faulty code claims more than the true code or answers otherwise, and where it claims less or refuses."""
    more = [name for name, claim in found.items() if claim.exceeds(true[name].claim)]
    less = [name for name, claim in found.items() if true[name].claim.exceeds(claim)]
    return more, less


def covers(pattern: str, key: str) -> bool:
    """Whether a key of the reviewed faults covers a fault: it is its key, or begins it and ends in `*`, or it is a
    regular expression, which begins with `^`."""
    if pattern.startswith("^"):
        return re.search(pattern, key) is not None
    return pattern == key or (pattern.endswith("*") and key.startswith(pattern.removesuffix("*")))


@dataclass
class Verdict:
    """What became of a fault: the test that fails, or where it claims more and less than the true code."""

    fault: Fault
    key: str
    outcome: str = ""
    by: str = ""
    seconds: float = 0.0

    @property
    def row(self) -> str:
        """A line of the file that `--list` writes and `--again` reads."""
        return f"{self.outcome}\t{self.key}\t{self.fault.line}\t{self.by}\t{self.seconds:.2f}"


class Found(NamedTuple):
    """What a fork found: the test that fails, where the code claims more and less, how many tests were not asked."""

    failed: str | None
    more: list[str]
    less: list[str]
    left: int


@dataclass
class Run:
    """All faults of a run, some at a time.

    `sentences`: why reviewed faults do no harm; `true`: what the true code claims or answers.
    """

    package: Package
    trees: dict[str, ast.Module]
    options: argparse.Namespace
    sentences: dict[str, str]
    true: dict[str, Answered]
    suite: Suite | None = None
    """The tests, once they are collected and traced. Without them, only questions are asked."""

    def __post_init__(self) -> None:
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        self.spans = {file: spans(tree) for file, tree in self.trees.items()}
        self.asked: dict[Line, set[str]] = defaultdict(set)
        """By line, the questions that execute it."""
        for name, answer in self.true.items():
            for line in answer.lines:
                self.asked[line].add(name)

    def limit(self, name: str) -> float:
        """Seconds of processor time after which a test or a question is taken to hang.

        The longest step is added because what several tests share, such as a host, is made by the first that needs it:
        when tests were timed that may have been another one, which took at least as long as making it does.
        """
        found: float = self.options.times * self.seconds[name] + max(self.seconds.values())
        return max(found, SHORTEST)

    @property
    def seconds(self) -> dict[str, float]:
        """Processor time of each test and question on the true code."""
        tests = self.suite.seconds if self.suite else {}
        return tests | {name: answer.seconds for name, answer in self.true.items()}

    def places(self, fault: Fault) -> list[Line]:
        """The lines of the statement that a fault is in."""
        return [(fault.file, line) for line in self.spans[fault.file].get(fault.line, (fault.line,))]

    # -- tests ---------------------------------------------------------------------------------------------------

    def tests_of(self, fault: Fault, differing: Collection[str] = ()) -> list[str]:
        """Those that ask a question that is answered otherwise (`differing`), then those that execute it: three that
        saw other faults of the function, then the quickest and most special."""
        if self.suite is None:
            return []
        suite, names = self.suite, self._users(fault)
        if fault.function:
            lines = suite.lines.get(fault.file, {})
            names = sorted({name for _, line in self.places(fault) for name in lines.get(line, [])})
        best = [name for name in suite.items if suite.asks(name, differing)]
        saw = self.killers[f"{fault.file} {fault.function}"].most_common(3)
        best += [name for name, _ in saw if name in names and name not in best]
        return best + sorted(set(names) - set(best), key=lambda name: (suite.cost[name], name))

    def _users(self, fault: Fault) -> list[str]:
        """Tests that execute a line that has the name of a constant in it, or of one made of it."""
        found: set[str] = set()
        wanted = names_in(fault.name)
        for tree in [*self.trees.values()] * 2:  # tables of tables
            for statement in tree.body:
                if (target := assigned(statement)) is not None and words_of(statement) & wanted:
                    wanted |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
        if wanted & {"BINARY64", "BINARY32"}:
            wanted |= {"format", "fmt", "gamma", "UNIT", "TINY", "U"}
        assert self.suite is not None
        for file, lines in self.suite.lines.items():
            source = (self.package.folder / file).read_text().splitlines()
            for line, names in lines.items():
                if any(word in source[line - 1] for word in wanted):
                    found.update(names)
        for name, item in self.suite.items.items():
            names = {*item.function.__code__.co_names, *item.function.__globals__}  # type: ignore[attr-defined]
            if wanted & names or "NUMBERS" in names:
                found.add(name)
        return sorted(found)

    # -- questions -----------------------------------------------------------------------------------------------

    def questions(self, fault: Fault) -> list[tuple[str, Callable[[], Claim | Answer]]]:
        """Those that execute the fault, the quickest first. A constant of a module is asked by all."""
        few = [one for one in CORPUS if self.package.concerns(one[0], fault.file)]
        if fault.function:
            names = {name for place in self.places(fault) for name in self.asked.get(place, ())}
            few = [one for one in few if one[0] in names]
        return sorted(few, key=lambda one: self.true[one[0]].seconds)

    def differs(self, fault: Fault, begin: Callable[[str], None]) -> tuple[list[str], list[str]]:
        """Where the code claims more or answers otherwise now, and where it claims less or refuses.

        The first of the one kind is enough.
        """
        found: dict[str, Any] = {}
        for name, ask in self.questions(fault):
            begin(name)
            found[name] = ask()
            if found[name].exceeds(self.true[name].claim):
                break
        return compared(self.true, found)

    # -- both ----------------------------------------------------------------------------------------------------

    def ask(self, fault: Fault, differing: list[str]) -> Callable[[Step], Found]:
        """What a fork does; `differing`: where the fault was found to do harm, if it was asked before."""
        names = self.tests_of(fault, differing)

        def action(step: Step) -> Found:
            def begin(name: str) -> None:
                step(name, self.limit(name))

            plant(fault, self.trees[fault.file], self.package)
            failed, left, (more, less) = None, names, (differing, list[str]())
            if self.suite and not differing:
                failed, left = self.suite.run(names, begin, time.process_time() + self.options.seconds)
            if failed is None and not (self.options.quick or differing):
                more, less = self.differs(fault, begin)
            if self.suite and more and failed is None:
                left = [name for name in self.tests_of(fault, more) if name in left or name not in names]
                failed, left = self.suite.run(left, begin, time.process_time() + self.options.harmful)
            return Found(failed, more, less, len(left))

        return action

    def reason(self, fault: Fault, claims_more: bool) -> str:
        """Why a fault that nothing sees does no harm, if someone has said so.

        Where it claims more, that must have been said of this very fault: a sentence about many was not written for it.
        """
        key = self.package.prefix + fault.key
        exact = self.sentences.get(key, "")
        broad = (why for pattern, why in self.sentences.items() if covers(pattern, key))
        return exact if claims_more else exact or next(broad, "")

    def judge(self, fault: Fault, ended: Ended) -> Verdict:
        verdict, saw = Verdict(fault, self.package.prefix + fault.key), self.killers[f"{fault.file} {fault.function}"]
        if ended.answer is None:
            saw[ended.step] += 1
            verdict.outcome, verdict.by = "killed", f"broke off in {ended.step}"
            if ended.stopped:
                usual, limit = self.seconds[ended.step], self.limit(ended.step)
                verdict.outcome = "stopped"
                verdict.by = f"{ended.step} takes {usual:.2f} s on the true code, and had not ended after {limit:.0f} s"
            return verdict
        failed, more, less, left = ended.answer
        if failed is not None:
            verdict.outcome, verdict.by = "killed", failed
            saw[failed] += 1
        elif why := self.reason(fault, bool(more)):
            verdict.outcome, verdict.by = "reviewed", why
        elif more:
            verdict.outcome = self.package.criterion.harm if self.suite else DIFFERS
            verdict.by = f"{len(more)}: {', '.join(more[:3])}"
        elif less:
            verdict.outcome, verdict.by = self.package.criterion.less, f"{len(less)}: {', '.join(less[:3])}"
        elif self.suite is None or self.options.at_once:
            verdict.outcome = "no difference" if self.questions(fault) else "never asked"
        else:
            verdict.outcome = "no difference" if self.tests_of(fault) else "never run"
            verdict.by = f"{left} tests not asked" if left else ""
        return verdict

    def all(
        self, planted: list[Fault], forks: Forks, end: float, differing: dict[str, list[str]] | None = None
    ) -> Iterator[Verdict]:
        """Verdicts as they come; no fault is planted after `end`, a time of `perf_counter`.

        `differing`: by the key of a fault, the questions that it was found to answer otherwise.
        """
        waiting, running = list(reversed(planted)), dict[Fork, tuple[Fault, float]]()
        while waiting or running:
            if time.perf_counter() > end:
                waiting.clear()
            while waiting and len(running) < self.options.jobs:
                fault = waiting.pop()
                if not (self.suite or self.questions(fault)):
                    yield self.judge(fault, Ended(Found(None, [], [], 0), "", False))
                    continue
                asked = (differing or {}).get(fault.key, [])
                running[forks.start(self.ask(fault, asked))] = (fault, time.perf_counter())
            for fork, ended in forks.ended(running) if running else ():
                fault, began = running.pop(fork)
                verdict = self.judge(fault, ended)
                verdict.seconds = time.perf_counter() - began
                yield verdict
