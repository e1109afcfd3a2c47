"""Claim: points that do not fit into memory become a model within 2 GB, in a few sorts by as many processes.

Sequences of 16 different tokens, 1,008 words, 16 random classes, in npz files of about 3 million labels. The
yardstick, in the same run: a range-bucket external sort of as many float64 keys written with NumPy, by one process:
keys from files, cut by sampled splitters into ranges, spilled; each range read, sorted and written. Beside it the same
sort by as many processes as the build has. Memory is the sum of the peaks of all processes of the build, what they
share counted in each of them. Neither frees its temporary files within its time: the keys of the sort are deleted
afterwards, and the names of the build's pieces are gone when it returns, while the system frees what they held.
Processor time of all processes stands beside the clock: what others do on the machine counts for less. A build of 200 M
labels takes at most 3.2 sorts by as many processes, of a thousand million 3.6. Sizes by argument: 2, 20, 200 M; a
thousand million on 16 processors with `--labels 1e9 --workers 16 --memory 8GB` and 40 GB of disk; several sizes each
have workers and memory of their own, such as `--labels 2e8 1e9 --workers 2 16 --memory 2GB 8GB`. `--ask N`: then all
labels of N files are asked for, by all processors.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import monolayer as ml
from monolayer.cluster.room import size
from workload import SAME_RUN, claim, record, recordable, run

SHARD = 200_000
"""Sequences of a file."""
CLAIMED = ((1e9, 3.6), (2e8, 3.2))
"""From how many labels on a build takes at most so many sorts by as many processes; smaller ones begin with imports."""
TOGETHER = 20
"""Files that are asked together: every weight is read once for all of their labels."""


def write(folder: str, number: int, rows: int) -> None:
    """A file of sequences of 16 tokens, as small integers."""
    random = np.random.default_rng(number)
    # One token of each sixteenth of the vocabulary, in any order of these: no token twice.
    X = random.integers(0, 63, (rows, 16), dtype=np.int16) + 63 * random.permutation(16).astype(np.int16)
    Y = random.integers(0, 16, (rows, 16), dtype=np.int8)
    np.savez(Path(folder) / f"shard-{number:05}.npz", X=X, Y=Y)


def draw(folder: str, number: int, count: int) -> None:
    """A file of keys to be sorted."""
    np.random.default_rng(number).random(count).tofile(Path(folder) / f"keys-{number:05}")


def each(workers: int, function: Callable[..., None], *columns: Iterable[Any]) -> None:
    """Call a function for every row, by so many processes."""
    if workers == 1:
        list(map(function, *columns))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        list(pool.map(function, *columns))


class Peak:
    """Resident memory of this process and those that it starts while the block runs: the sum of the peaks of each.

    They need not have been at one time, so all together never held more.
    """

    def __enter__(self) -> Peak:
        Path("/proc/self/clear_refs").write_text("5")  # the peak of this process starts anew
        self.most: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for process in processes():
                with suppress(OSError, StopIteration):
                    lines = Path(f"/proc/{process}/status").read_text().splitlines()
                    line = next(line for line in lines if line.startswith("VmHWM:"))
                    self.most[process] = int(line.split()[1]) * 1024

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        return sum(self.most.values())


class Stages:
    """Told of progress: the clock, and the time of processors in programs and in the system, that each stage took."""

    def __init__(self) -> None:
        self.took: dict[str, NDArray[np.float64]] = {}
        self._stage, self._then = "before", self._now()

    @staticmethod
    def _now() -> NDArray[np.float64]:
        used = np.array([time.perf_counter(), 0.0, 0.0])
        for process in processes():
            with suppress(OSError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                used[1:] += np.array(fields[11:13], dtype=np.float64) / os.sysconf("SC_CLK_TCK")
        return used

    def __call__(self, stage: str, share: float) -> None:
        stage, before = stage.partition(":")[0], self._stage
        if stage == before:  # looking at all processes after every piece would take longer than some pieces
            return
        now, self._stage = self._now(), stage
        self.took[before] = self.took.get(before, np.zeros(3)) + np.maximum(now - self._then, 0.0)
        self._then = now

    def per_label(self, labels: int) -> dict[str, list[float]]:
        """Nanoseconds per label of every stage: by the clock, and of all processors in programs and in the system."""
        return {name: [round(1e9 * float(x) / labels, 1) for x in took] for name, took in self.took.items()}

    def table(self, labels: int) -> str:
        """A line per stage, in nanoseconds per label."""
        rows = [f"{name:>32}" + "".join(f"{x:>9.1f}" for x in took) for name, took in self.per_label(labels).items()]
        return "\n".join([f"{'ns per label':>32}" + "".join(f"{x:>9}" for x in ("clock", "program", "system")), *rows])


def processes() -> list[str]:
    """This process and those that it started."""
    started = [path.read_text().split() for path in Path(f"/proc/{os.getpid()}/task").glob("*/children")]
    return [f"{os.getpid()}", *(child for children in started for child in children)]


def spent() -> float:
    """Processor time of this process and all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def cut(folder: str, number: int, splitters: np.ndarray) -> None:
    """The keys of a file, by range."""
    keys = np.sort(np.fromfile(Path(folder) / f"keys-{number:05}", np.float64))
    bounds = np.concatenate([[0], np.searchsorted(keys, splitters), [len(keys)]])
    keys.tofile(Path(folder) / f"run-{number:05}")
    np.save(Path(folder) / f"bounds-{number:05}.npy", bounds)


def join(folder: str, part: int, files: int) -> None:
    """A range, sorted."""
    found = []
    for number in range(files):
        begin, end = np.load(Path(folder) / f"bounds-{number:05}.npy")[part : part + 2].tolist()
        found.append(np.fromfile(Path(folder) / f"run-{number:05}", np.float64, end - begin, offset=8 * begin))
    np.sort(np.concatenate(found)).tofile(Path(folder) / f"sorted-{part:05}")


def external_sort(folder: Path, labels: int, workers: int) -> tuple[float, float]:
    """Seconds of an external sort of as many keys, by the clock and of processors."""
    files = -(-labels // (16 * SHARD))
    began, work = time.perf_counter(), spent()
    sample = np.concatenate([np.memmap(folder / f"keys-{number:05}", np.float64)[::256] for number in range(files)])
    splitters = np.quantile(sample, np.arange(1, files) / files)
    each(workers, cut, [str(folder)] * files, range(files), [splitters] * files)
    each(workers, join, [str(folder)] * files, range(files), [files] * files)
    return time.perf_counter() - began, spent() - work


def ask(model: Path, files: list[Path]) -> tuple[float, float, int, int]:
    """Seconds to load a model, and to ask it; how many labels, and how many wrong."""
    began = time.perf_counter()
    opened = ml.load(model)
    found = time.perf_counter()
    asked = wrong = 0
    for first in range(0, len(files), TOGETHER):
        X, Y = (np.concatenate([np.load(file)[name] for file in files[first : first + TOGETHER]]) for name in "XY")
        answers = opened.labels(opened.encode(X))
        asked, wrong = asked + Y.size, wrong + int(np.count_nonzero(answers != Y.reshape(-1)))
    return found - began, time.perf_counter() - found, asked, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=float, nargs="+", default=[2e6], help="for example 2e6 20e6 200e6")
    parser.add_argument("--workers", type=int, nargs="+", default=[2], help="one number, or one for each size")
    parser.add_argument("--memory", nargs="+", default=["2GB"], help="likewise")
    parser.add_argument("--ask", type=int, default=0, help="of how many files all labels are asked for in the end")
    parser.add_argument("--stages", action="store_true", help="print what each stage took")
    parser.add_argument("--folder", help="where to put files; they are removed in the end")
    recordable(parser)
    options = parser.parse_args()
    build = ml.memorize_files  # its import is not what is measured
    sizes = len(options.labels)
    settings = [given * sizes if len(given) == 1 else given for given in (options.workers, options.memory)]
    if any(len(given) != sizes for given in settings):
        parser.error("--workers and --memory take one value, or one for each size")
    columns = (
        "labels",
        "sort",
        "by all",
        "build",
        "sorts",
        "of work",
        "ns per label",
        "peak",
        "margin, rank",
    )
    print("{:>12} {:>8} {:>8} {:>8} {:>6} {:>8} {:>11} {:>8}  {}".format(*columns))
    for labels, workers, memory in zip(options.labels, *settings, strict=True):
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            rows = np.diff([*range(0, int(labels) // 16, SHARD), int(labels) // 16])
            total, where, numbers = 16 * int(rows.sum()), [str(folder)] * len(rows), range(len(rows))
            each(workers, write, where, numbers, rows)
            each(workers, draw, where, numbers, 16 * rows)
            (sort, sorting), (shared, _) = (external_sort(folder, total, count) for count in (1, workers))
            for path in folder.iterdir():
                if path.suffix != ".npz":
                    path.unlink()
            began, work = time.perf_counter(), spent()
            with Peak() as peak:
                stages = Stages()
                out = build(str(folder / "*.npz"), folder / "model", memory=memory, workers=workers, progress=stages)
                stages("after", 1.0)
            took, work = time.perf_counter() - began, spent() - work
            summary = json.loads((out / "config.json").read_text())["summary"]
            print(
                f"{total:>12,} {sort:>7.1f}s {shared:>7.1f}s {took:>7.1f}s {took / sort:>6.2f} {work / sorting:>8.2f} "
                f"{1e9 * work / total:>11.0f} {peak.bytes / 1e9:>6.2f}GB  {summary['margin']:.1f}, {summary['rank']}",
                flush=True,
            )
            most = size(memory) / 1e9
            claim(f"memory of all processes, {total:,} labels", peak.bytes / 1e9, at_most=most, unit=" GB")
            limit = next((sorts for least, sorts in CLAIMED if total >= least), None)
            if limit is not None:
                by_all = f"build of {total:,} labels, in sorts by as many processes"
                claim(by_all, took / shared, at_most=limit, busy=SAME_RUN)
            row = {"labels": total, "workers": workers, "sort": sort, "sort_by_all": shared, "build": took}
            row |= {"processor": work, "sort_processor": sorting, "memory": peak.bytes, "rank": summary["rank"]}
            row["stages"] = stages.per_label(total)
            if options.stages:
                print(stages.table(total))
            if options.ask:
                some = sorted(folder.glob("*.npz"))[:: max(1, len(rows) // options.ask)][: options.ask]
                opening, asking, asked, wrong = ask(out, some)
                print(f"opened in {opening:.1f}s; {asked:,} labels asked in {asking:.1f}s, {wrong:,} wrong", flush=True)
                assert wrong == 0
                row |= {"opened": opening, "asked": asked, "asking": asking, "wrong": wrong}
            record([row], part=f"-{total // 10**6}M")
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    run(main)
