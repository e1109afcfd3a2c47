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
more* holds for *another answer*; lines that no test executes are listed, and do not decide.

`--seconds 0` asks this question first, of all faults, and only then collects and traces the tests, for those that
differ. It does not try whether tests see the others. A fault that no question
reaches is *never asked*. `--harmful 0` leaves the tests to another run (`--resume`), which finds what *differs* in
`--list`. `--at-once` collects the tests before, and shows them each fault that differs as soon as it does: with
`--tests readings` or `--tests model_answers`, which record the answers to these questions, that is one quick test for
nearly all of them. `--share 0.2` plants a fifth of the faults of each file, drawn by `--seed`.

A fault with which a test does not end is *stopped*: when the test has used ten times (`--times`) the processor time
that it takes on the true code in the same run, and that of the longest test on top. Nothing outlives this script
(`forks.py`).

Tests run in forks of one process that has imported and collected everything, also what tests import while they run: a
fault that is seen costs a second, one that is not 15, one that hangs 10. Only questions that execute the statement are
asked, up to the first that does harm. All of them take a processor half a day; `--minutes` plants as many as fit, in
random order. `--list` is written as the faults come back, and `--resume` goes on where such a run was stopped;
`--again` plants what such a file lists, in its order.

    python bench/no_planted_fault_proves_more.py                       a sample of 200
    python bench/no_planted_fault_proves_more.py --all --jobs 16       everything
    python bench/no_planted_fault_proves_more.py --file noise.py       one file
    python bench/no_planted_fault_proves_more.py --file noise.py --tests robust_attacks    one file, one file of tests
    python bench/no_planted_fault_proves_more.py --kind abs --minutes 5    all of a kind, as far as five minutes go
    python bench/no_planted_fault_proves_more.py --package cluster --file spill.py    one file of another package
    python bench/no_planted_fault_proves_more.py --package data --all --seconds 0     what gives another answer, quickly
    python bench/no_planted_fault_proves_more.py --package data --share 0.2 --seconds 0 --list found.tsv --resume
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import pickle
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"  # forks and threads do not mix

from forks import Ended, Forks  # noqa: E402
from planted_faults import Fault, faults, modules  # noqa: E402
from planted_packages import CHECKER, PACKAGES, Package  # noqa: E402
from planted_run import CORPUS, DIFFERS, Answered, Run, Verdict, answered, covers  # noqa: E402
from planted_suite import Suite, collected, imported, traced  # noqa: E402
from workload import claim, record, recordable, run  # noqa: E402

REVIEWED = Path(__file__).with_name("planted_faults_reviewed.json")


# -- what is printed -----------------------------------------------------------------------------------------


def outcomes(package: Package) -> tuple[str, ...]:
    """Everything that can become of a fault in a package."""
    harm, less = package.criterion
    return ("killed", "stopped", "never run", "never asked", less, "reviewed", harm, DIFFERS, "no difference")


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


def shared(every: list[Fault], share: float, seed: int) -> list[Fault]:
    """As large a share of the faults of each file, drawn by the seed and the name of the file."""
    files: dict[str, list[Fault]] = defaultdict(list)
    for fault in every:
        files[fault.file].append(fault)
    few = [random.Random(f"{seed} {file}").sample(some, math.ceil(share * len(some))) for file, some in files.items()]
    wanted = {fault.key for some in few for fault in some}
    return [fault for fault in every if fault.key in wanted]


def chosen(every: list[Fault], options: argparse.Namespace) -> list[Fault]:
    """The faults of a run."""
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
    if options.share:
        every = shared(every, options.share, options.seed)
    if options.minutes:
        random.Random(options.seed).shuffle(every)
        return every
    narrowed = options.all or options.file or options.kind or options.share
    few = options.sample and len(every) > options.sample and not narrowed
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
    parser.add_argument("--resume", action="store_true", help="go on where the run ended that wrote --list")
    parser.add_argument("--all", action="store_true", help="every fault")
    parser.add_argument(
        "--sample", type=int, default=200, help="that many at random, unless a file or all are asked for"
    )
    parser.add_argument("--share", type=float, help="this share of the faults of each file, such as 0.25")
    parser.add_argument("--seed", type=int, default=0, help="of the sample or share")
    parser.add_argument("--minutes", type=float, help="plant in random order, and no more so long after the start")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of tests for each fault; 0 asks first what the faulty code answers"
    )
    parser.add_argument(
        "--at-once", action="store_true", help="with --seconds 0: tests are asked as soon as an answer differs"
    )
    parser.add_argument(
        "--harmful", type=float, default=300.0, help="seconds of further tests for one that does harm; 0: none"
    )
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


def with_tests(options: argparse.Namespace, forks: Forks) -> Suite:
    """The tests of the package, imported here, and which lines each executes."""
    suite = collected(options.tests or list(options.package.tests))
    known = pickle.loads(options.lines.read_bytes()) if options.lines and options.lines.exists() else {}
    new = [name for name in suite.items if name not in known]
    shares = [new[number :: options.jobs] for number in range(options.jobs)]
    tests = [forks.start(partial(traced, suite, options.package, share)) for share in shares if share]
    for fork in tests:
        known |= unbroken(forks.result(fork))
    if options.lines and tests:
        options.lines.write_bytes(pickle.dumps(known))
    suite.learn(known)
    imported(known)
    return suite


def with_questions(planted: list[Fault], options: argparse.Namespace, forks: Forks) -> dict[str, Answered]:
    """What the true code answers to the questions."""
    true: dict[str, Answered] = {}
    if not options.quick:
        CORPUS.extend(options.package.corpus(forks.scratch, {fault.file for fault in planted}))
        questions = [name for name, _ in CORPUS]
        shares = [questions[number :: options.jobs] for number in range(options.jobs)]
        asking = [forks.start(partial(answered, options.package, share)) for share in shares if share]
        for fork in asking:
            true |= unbroken(forks.result(fork))
    return true


def resumed(options: argparse.Namespace, planted: list[Fault]) -> dict[str, Verdict]:
    """By its key, what an earlier run wrote of each fault; what it wrote last counts."""
    found = {}
    if options.resume and options.list and options.list.exists():
        by_key = {options.package.prefix + fault.key: fault for fault in planted}
        for line in options.list.read_text().splitlines():
            outcome, key, _, by, seconds = line.split("\t")
            if key in by_key:
                found[by_key[key].key] = Verdict(by_key[key], key, outcome, by, float(seconds))
    elif options.list:
        options.list.write_text("")
    return found


def main() -> None:
    options, began = parsed(), time.perf_counter()
    trees = modules(options.package.folder)
    every = {file: faults(tree, file) for file, tree in trees.items()}
    planted = chosen([fault for some in every.values() for fault in some], options)
    found, end = resumed(options, planted), began + 60.0 * (options.minutes or float("inf"))
    sentences = options.package.reviewed(json.loads(REVIEWED.read_text()))
    with Forks(options.loud) as forks:
        tempfile.tempdir = str(forks.scratch)
        first = options.seconds == 0.0 and not (options.quick or options.at_once)
        suite = None if first else with_tests(options, forks)
        asked = Run(options.package, trees, options, sentences, with_questions(planted, options, forks), suite)

        def planting(some: list[Fault], differing: dict[str, list[str]] | None = None) -> None:
            gc.collect()
            gc.freeze()
            tests = len(asked.suite.items) if asked.suite else 0
            print(f"{len(some):,} faults, {tests} tests, {len(asked.true)} questions, "
                  f"{time.perf_counter() - began:.0f} s so far", flush=True)  # fmt: skip
            for number, verdict in enumerate(asked.all(some, forks, end, differing), 1):
                found[verdict.fault.key] = verdict
                tell(verdict, options)
                if number % 100 == 0:
                    print(f"   {number:,} after {time.perf_counter() - began:.0f} s", flush=True)

        planting([fault for fault in planted if fault.key not in found])
        differing = {key: verdict.by.partition(": ")[2].split(", ") for key, verdict in found.items()
                     if verdict.outcome == DIFFERS}  # fmt: skip
        if differing and options.harmful and time.perf_counter() < end:
            asked.suite = with_tests(options, forks)
            planting([fault for fault in planted if fault.key in differing], differing)
    show(list(found.values()), outcomes(options.package))
    print(f"{len(found):,} of {len(planted):,} faults planted in {time.perf_counter() - began:.0f} s")
    counts = Counter(verdict.outcome for verdict in found.values())
    record([{outcome: counts[outcome] for outcome in outcomes(options.package)}])
    keys = [options.package.prefix + fault.key for some in every.values() for fault in some]
    settle(options.package, sentences, keys, counts)


def tell(verdict: Verdict, options: argparse.Namespace) -> None:
    """Write what became of a fault, and print it if somebody should look."""
    if options.list:
        with options.list.open("a") as file:
            file.write(verdict.row + "\n")
    if verdict.outcome in ("stopped", "never run", options.package.criterion.harm, "no difference"):
        where = f"{verdict.fault.file}:{verdict.fault.line}"
        print(f"{verdict.outcome}: {where} {verdict.key}  [{verdict.by}]", flush=True)


def settle(package: Package, reviewed: dict[str, str], every: list[str], counts: Counter[str]) -> None:
    """The claims of a run; `every`: the keys of all faults of the package."""
    stale = {pattern for pattern in set(reviewed) - set(every) if not any(covers(pattern, key) for key in every)}
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
