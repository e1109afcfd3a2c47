"""Claim: no fault planted in the checker proves more, and none in what reads, builds and answers gives another answer:
a test sees it, or a sentence says why it does no harm.

Every constant, `abs`, `max`, comparison, refusal and so on of `src/monolayer/checker` is made wrong in turn
(`planted_faults.py`), and the tests of the checker are run on that: those that execute the line, quickest first, up to
the first that fails. A fault that they all pass is asked a second question: shown models with other weights, labels and
claims (`planted_corpus.py`), does this checker claim more than the true one: a proof, a wider margin, more noise? Then
it is *proves more*, and wants a test. Else it *proves less* if some claim is smaller, and makes *no difference* if none
is: that is no proof that it is harmless, only that neither the tests nor the corpus know a model that tells. Those that
somebody has looked at have a sentence in `planted_faults_reviewed.json`, which is then believed; of a fault that proves
more only if the sentence is about it alone. Exit 1 where anything proves more, or lies on a line that no test executes.

`--package` plants in `data`, `attaching`, `cluster` or `model` instead. There the second question is whether anything
that comes back differs (`planted_answers.py`): data as they are read, weights as they are built, predictions. If it
differs without an error, or comes back where the true code refuses, the fault *gives another answer*, and wants a test.
If there is an error where the true code answers, it *refuses*: whoever asks learns of it. What is said above of *proves
more* holds for *another answer*; lines that no test executes are listed, and do not decide. `--seconds 0` asks this
question first, and tests only of a fault that does harm: it finds the same ones sooner, and does not try whether tests
see the others.

A fault with which a test does not end is *stopped*: when the test has used ten times (`--times`) the processor time
that it takes on the true code in the same run, and that of the longest test on top. Nothing outlives this script
(`forks.py`).

Tests run in forks of one process that has imported and collected everything, also what tests import while they run: a
fault that is seen costs a second, one that is not 15, one that hangs 10. Only questions that execute the line are
asked. All of them take a processor half a day; `--minutes` plants as many as fit, in random order. `--list` is written
as the faults come back, so a run that is stopped keeps what it found; `--again` plants what such a file lists, in its
order.

    python bench/no_planted_fault_proves_more.py                       a sample of 200
    python bench/no_planted_fault_proves_more.py --all --jobs 16       everything
    python bench/no_planted_fault_proves_more.py --file noise.py       one file
    python bench/no_planted_fault_proves_more.py --file noise.py --tests robust_attacks    one file, one file of tests
    python bench/no_planted_fault_proves_more.py --kind abs --minutes 5    all of a kind, as far as five minutes go
    python bench/no_planted_fault_proves_more.py --package cluster --file spill.py    one file of another package
    python bench/no_planted_fault_proves_more.py --package data --all --seconds 0     what gives another answer, quickly
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import os
import pickle
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # forks and threads do not mix

from forks import Ended, Fork, Forks, Step  # noqa: E402
from planted_corpus import Claim  # noqa: E402
from planted_faults import Fault, assigned, faults, modules  # noqa: E402
from planted_packages import CHECKER, PACKAGES, Package  # noqa: E402
from planted_suite import Line, Suite, collected, imported, traced, tracing  # noqa: E402
from planted_told import Answer  # noqa: E402
from workload import claim, record, recordable, run  # noqa: E402

REVIEWED = Path(__file__).with_name("planted_faults_reviewed.json")


# -- planting ------------------------------------------------------------------------------------------------


def plant(fault: Fault, tree: ast.Module, package: Package) -> None:
    """Put a fault into this process."""
    fault.plant()
    ast.fix_missing_locations(tree)
    path = str(package.folder / fault.file)
    name = f"{package.module}." + fault.file.removesuffix(".py").replace("/", ".")
    module, code = importlib.import_module(name), compile(tree, path, "exec", dont_inherit=True)
    if fault.function:
        _function(module, fault.function).__code__ = _code(code, fault.function)
    else:
        _assign_anew(module, tree, package.module)


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


def _assign_anew(changed: ModuleType, tree: ast.Module, package: str) -> None:
    """Constants of a module, of those that import them, and what these make of them; then wherever else they are."""
    renamed: list[tuple[str, Any, Any]] = []
    beside = [module for name, module in list(sys.modules.items()) if name.startswith(f"{package}.")]
    for module in beside[beside.index(changed) :]:
        source = tree if module is changed else ast.parse(Path(str(module.__file__)).read_text())
        for statement in source.body:
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(package):
                names = [alias.asname or alias.name for alias in statement.names]
            elif assigned(statement) is not None:
                names = [node.id for node in ast.walk(assigned(statement)) if isinstance(node, ast.Name)]
            else:
                continue
            old = {name: module.__dict__.get(name) for name in names}
            alone = ast.fix_missing_locations(ast.Module([statement], []))
            exec(compile(alone, str(module.__file__), "exec", dont_inherit=True), module.__dict__)
            renamed += [(name, old[name], module.__dict__[name]) for name in names]
    others = [module for name, module in list(sys.modules.items()) if name.startswith(("tests.", "monolayer."))]
    for module in others:
        for name, old, new in renamed:
            if module.__dict__.get(name) is old and old is not new:
                module.__dict__[name] = new


# -- the second question -------------------------------------------------------------------------------------


_CORPUS: list[tuple[str, Callable[[], Claim | Answer]]] = []
"""Filled before the first fork."""


class Answered(NamedTuple):
    """What the true code claims or answers, the seconds of processor time that it takes, and the lines it executes."""

    claim: Any
    seconds: float
    lines: frozenset[Line]


def answered(package: Package, names: list[str], step: Step) -> dict[str, Answered]:
    """Ask the code as it is. A question that has two answers tells nothing."""
    found, wanted = {}, set(names)
    for name, ask in _CORPUS:
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


def _covers(pattern: str, key: str) -> bool:
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


class Run:
    """All faults of a run, some at a time."""

    def __init__(
        self, suite: Suite, trees: dict[str, ast.Module], options: argparse.Namespace, true: dict[str, Answered]
    ) -> None:
        self.suite, self.trees, self.options, self.true = suite, trees, options, true
        self.package: Package = options.package
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        self.reviewed = self.package.reviewed(json.loads(REVIEWED.read_text()))
        self.seconds = suite.seconds | {name: answer.seconds for name, answer in true.items()}
        self.longest = max(self.seconds.values(), default=0.0)
        self.asked = {line for answer in true.values() for line in answer.lines}
        """Lines that questions execute."""

    def limit(self, name: str) -> float:
        """Seconds of processor time after which a test or a question is taken to hang.

        The longest step is added because what several tests share, such as a host, is made by the first that needs it:
        when tests were timed that may have been another one, which took at least as long as making it does.
        """
        found: float = self.options.times * self.seconds[name] + self.longest
        return found

    def tests_of(self, fault: Fault) -> list[str]:
        """Those that execute it: three that saw other faults of the function, then the quickest and most special."""
        lines = self.suite.lines.get(fault.file, {})
        names = lines.get(fault.line, [])
        if not fault.function:
            names = self._users(fault)
        best = [name for name, _ in self.killers[f"{fault.file} {fault.function}"].most_common(3) if name in names]
        return best + sorted(set(names) - set(best), key=lambda name: (self.suite.cost[name], name))

    def _users(self, fault: Fault) -> list[str]:
        """Tests that execute a line that has the name of a constant in it, or one made of it."""
        found: set[str] = set()
        wanted = {name.strip() for name in fault.name.strip("()").split(",")}
        if wanted & {"BINARY64", "BINARY32"}:
            wanted |= {"format", "fmt", "gamma", "UNIT", "TINY", "U"}
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

    def ask(self, fault: Fault) -> Callable[[Step], tuple[str | None, list[str], list[str], int]]:
        """What a fork does."""
        names = self.tests_of(fault)

        def action(step: Step) -> tuple[str | None, list[str], list[str], int]:
            def begin(name: str) -> None:
                step(name, self.limit(name))

            plant(fault, self.trees[fault.file], self.package)
            failed, left = self.suite.run(names, begin, time.process_time() + self.options.seconds)
            if failed is not None or self.options.quick:
                return failed, [], [], len(left)
            more, less = self.differs(fault, begin)
            if more and left:
                failed, left = self.suite.run(left, begin, time.process_time() + self.options.harmful)
            return failed, more, less, len(left)

        return action

    def differs(self, fault: Fault, begin: Callable[[str], None]) -> tuple[list[str], list[str]]:
        """Where the code claims more or answers otherwise now, and where it claims less or refuses.

        Claims are all asked; of answers one that differs is enough.
        """
        found: dict[str, Any] = {}
        for name, ask in self.questions(fault):
            begin(name)
            found[name] = ask()
            if isinstance(found[name], Answer) and found[name].exceeds(self.true[name].claim):
                break
        return compared(self.true, found)

    def questions(self, fault: Fault) -> list[tuple[str, Callable[[], Claim | Answer]]]:
        """Those that execute the fault, the quickest first; all where no line tells."""
        place = (fault.file, fault.line)
        known = fault.function and (place in self.asked or fault.line in self.suite.lines.get(fault.file, {}))
        few = [one for one in _CORPUS if not known or place in self.true[one[0]].lines]
        few = [one for one in few if self.package.concerns(one[0], fault.file)]
        return sorted(few, key=lambda one: self.true[one[0]].seconds)

    def reason(self, fault: Fault, claims_more: bool) -> str:
        """Why a fault that nothing sees does no harm, if someone has said so.

        Where it claims more, that must have been said of this very fault: a sentence about many was not written for it.
        """
        key = self.package.prefix + fault.key
        exact = self.reviewed.get(key, "")
        broad = (why for pattern, why in self.reviewed.items() if _covers(pattern, key))
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
            verdict.outcome, verdict.by = self.package.criterion.harm, f"{len(more)}: {', '.join(more[:3])}"
        elif less:
            verdict.outcome, verdict.by = self.package.criterion.less, f"{len(less)}: {', '.join(less[:3])}"
        else:
            verdict.outcome = "no difference" if self.tests_of(fault) else "never run"
            verdict.by = f"{left} tests not asked" if left else ""
        return verdict

    def all(self, planted: list[Fault], forks: Forks, end: float) -> Iterator[Verdict]:
        """Verdicts as they come; no fault is planted after `end`, a time of `perf_counter`."""
        waiting, running = list(reversed(planted)), dict[Fork, tuple[Fault, float]]()
        while waiting or running:
            if time.perf_counter() > end:
                waiting.clear()
            while waiting and len(running) < self.options.jobs:
                fault = waiting.pop()
                running[forks.start(self.ask(fault))] = (fault, time.perf_counter())
            for fork, ended in forks.ended(running):
                fault, began = running.pop(fork)
                verdict = self.judge(fault, ended)
                verdict.seconds = time.perf_counter() - began
                yield verdict


# -- what is printed -----------------------------------------------------------------------------------------


def outcomes(package: Package) -> tuple[str, ...]:
    """Everything that can become of a fault in a package."""
    harm, less = package.criterion
    return ("killed", "stopped", "never run", less, "reviewed", harm, "no difference")


def show(found: list[Verdict], columns: tuple[str, ...]) -> None:
    print(f"\n{'file':24} {'planted':>8} " + " ".join(f"{outcome:>14}" for outcome in columns))
    files: dict[str, Counter[str]] = defaultdict(Counter)
    for verdict in found:
        for name in (verdict.fault.file, "all"):
            files[name][verdict.outcome] += 1
    for name, row in sorted(files.items(), key=lambda one: (one[0] == "all", one[0])):
        print(f"{name:24} {sum(row.values()):8,} " + " ".join(f"{row[outcome]:14,}" for outcome in columns))


def unbroken(ended: Ended) -> Any:
    """What a fork returned that ran the true code."""
    if ended.answer is None:
        raise SystemExit(f"a process ended early, on the true code, in {ended.step or 'its first step'}: see --loud")
    return ended.answer


def chosen(trees: dict[str, ast.Module], options: argparse.Namespace) -> list[Fault]:
    """The faults of a run."""
    every = [fault for file, tree in trees.items() for fault in faults(tree, file)]
    if options.file:
        every = [fault for fault in every if any(part in fault.file for part in options.file)]
    if options.kind:
        every = [fault for fault in every if any(fault.kind.startswith(kind) for kind in options.kind)]
    if options.only:
        every = [fault for fault in every if options.only in fault.key]
    if options.again:
        rows = [line.split("\t") for line in options.again.read_text().splitlines()]
        prefix = options.package.prefix
        wanted = [row[1].removeprefix(prefix) for row in rows if row[0] not in ("killed", "reviewed")]
        by_key = {fault.key: fault for fault in every}
        return [by_key[key] for key in dict.fromkeys(wanted) if key in by_key]
    if options.minutes:
        random.Random(options.seed).shuffle(every)
        return every
    few = options.sample and len(every) > options.sample and not (options.all or options.file or options.kind)
    return sorted(random.Random(options.seed).sample(every, options.sample), key=every.index) if few else every


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--package",
        type=PACKAGES.__getitem__,
        default=CHECKER,
        help=f"plant in one of {', '.join(PACKAGES)}; by default in the checker",
    )
    parser.add_argument("--file", action="append", help="faults in files whose path has this in it; repeatable")
    parser.add_argument("--kind", action="append", help="faults of this kind, such as 'abs dropped'; repeatable")
    parser.add_argument("--only", help="faults whose description has this in it")
    parser.add_argument("--tests", action="append", help="ask only tests/test_THIS.py, while it is written; repeatable")
    parser.add_argument("--again", type=Path, help="a file that --list wrote: what the tests did not see there")
    parser.add_argument("--list", type=Path, help="write what became of every fault to this file, one by one")
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument(
        "--sample", type=int, default=200, help="that many at random, unless a file or all are asked for"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--minutes", type=float, help="plant in random order, and no more so long after the start")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of tests for each fault; 0 asks first what the faulty code answers"
    )
    parser.add_argument("--harmful", type=float, default=300.0, help="seconds of further tests for one that does harm")
    parser.add_argument(
        "--times",
        type=float,
        default=10.0,
        help="stop a fault when a test takes this many times as long as on the true code, and the longest besides",
    )
    parser.add_argument(
        "--lines", type=Path, help="keep there which test executes which line, and how long it takes; read if it exists"
    )
    parser.add_argument(
        "--quick", action="store_true", help="without the corpus: what tests do not see counts as no difference"
    )
    parser.add_argument("--loud", action="store_true", help="show what tests print")
    recordable(parser)
    return parser.parse_args()


def main() -> None:
    options, began = parsed(), time.perf_counter()
    trees = modules(options.package.folder)
    planted = chosen(trees, options)
    with Forks(options.loud) as forks:
        tempfile.tempdir = str(forks.scratch)
        suite = collected(options.tests or list(options.package.tests))
        known = pickle.loads(options.lines.read_bytes()) if options.lines and options.lines.exists() else {}
        new = [name for name in suite.items if name not in known]
        shares = [new[number :: options.jobs] for number in range(options.jobs)]
        tests = [forks.start(partial(traced, suite, options.package, share)) for share in shares if share]
        true: dict[str, Answered] = {}
        asking: list[Fork] = []
        if not options.quick:
            _CORPUS.extend(options.package.corpus(forks.scratch))
            questions = [name for name, _ in _CORPUS]
            shares = [questions[number :: options.jobs] for number in range(options.jobs)]
            asking = [forks.start(partial(answered, options.package, share)) for share in shares if share]
        for fork in tests:
            known |= unbroken(forks.result(fork))
        for fork in asking:
            true |= unbroken(forks.result(fork))
        if options.lines and tests:
            options.lines.write_bytes(pickle.dumps(known))
        suite.learn(known)
        imported(known)
        gc.collect()
        gc.freeze()
        asked = Run(suite, trees, options, true)
        print(f"{len(planted):,} faults, {len(suite.items)} tests, {len(true)} models in the corpus, "
              f"{time.perf_counter() - began:.0f} s so far", flush=True)  # fmt: skip
        found = []
        if options.list:
            options.list.write_text("")
        for verdict in asked.all(planted, forks, began + 60.0 * (options.minutes or float("inf"))):
            found.append(verdict)
            if options.list:
                with options.list.open("a") as file:
                    file.write(verdict.row + "\n")
            if verdict.outcome in ("stopped", "never run", options.package.criterion.harm, "no difference"):
                where = f"{verdict.fault.file}:{verdict.fault.line}"
                print(f"{verdict.outcome}: {where} {verdict.key}  [{verdict.by}]", flush=True)
            if len(found) % 100 == 0:
                print(f"   {len(found):,} after {time.perf_counter() - began:.0f} s", flush=True)
    show(found, outcomes(options.package))
    print(f"{len(found):,} of {len(planted):,} faults planted in {time.perf_counter() - began:.0f} s")
    counts = Counter(verdict.outcome for verdict in found)
    record([{outcome: counts[outcome] for outcome in outcomes(options.package)}])
    settle(options.package, asked.reviewed, counts)


def settle(package: Package, reviewed: dict[str, str], counts: Counter[str]) -> None:
    """The claims of a run."""
    every = [
        package.prefix + fault.key for file, tree in modules(package.folder).items() for fault in faults(tree, file)
    ]
    stale = {pattern for pattern in set(reviewed) - set(every) if not any(_covers(pattern, key) for key in every)}
    if stale:
        print(f"reviewed, but no longer in the source: {sorted(stale)}")
    of = f"of {counts.total():,} faults planted in {package.name}"
    what = "prove more" if package is CHECKER else "give another answer"
    claim(f"{of}, those that {what} and that no test sees", counts[package.criterion.harm], at_most=0)
    if package is CHECKER:
        claim(f"{of}, those on a line that no test executes", counts["never run"], at_most=0)
    claim("reviewed faults that are no longer in the source", len(stale), at_most=0)


if __name__ == "__main__":
    run(main)
