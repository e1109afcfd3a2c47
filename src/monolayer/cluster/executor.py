"""Run the pieces of a build: in this process, in several of this machine, or on the workers of a Dask cluster.

An executor calls a function once for each task and says when one is done. A piece is a pure function of the spill
folder and its arguments, and what it writes appears whole or not at all: so a piece whose worker died is done again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import Any, Literal

from monolayer.cluster.room import Room
from monolayer.cluster.spill import FileIdentity, Spill
from monolayer.errors import DataError, OutOfMemoryError, needs_extra
from monolayer.table import Progress, counting

Engine = Literal["processes", "dask"]
PieceArguments = tuple[Any, ...]
TRIES = 3
"""How many workers may die on one piece before the piece itself is considered to be the cause."""
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": f"{1 << 28}", "MALLOC_MMAP_THRESHOLD_": f"{1 << 25}"}
"""Makes glibc keep freed memory for the next arrays: returning it to the system and getting it back takes as long as
sorting it."""
PATIENCE = 30.0
"""Seconds to wait for a scheduler to answer."""
Run = Callable[[Callable[..., None], list[PieceArguments]], Iterator[None]]
"""`run(f, tasks)` calls `f(*task)` for every task, in any order, and yields after each; the first error ends it."""


@dataclass(frozen=True)
class Options:
    """The options of `memorize` that decide which model is built."""

    positions: bool
    causal: bool
    temperature: float | None
    rank: int | Literal["auto"]
    seed: int
    unknown: bool | None = None


@dataclass(frozen=True, eq=False)
class Work:
    """What every stage of a build needs: the spill folder, how to run pieces, their sizes, the files, the progress."""

    spill: Spill
    run: Run
    room: Room
    shards: list[FileIdentity]
    report: Progress

    def do(
        self, stage: str, share: tuple[float, float], function: Callable[..., None], tasks: dict[str, PieceArguments]
    ) -> None:
        """Call `function` for every piece in `tasks`, by name, that is not finished yet.

        `share`: the shares of the whole build that are done before and after this stage, for `report`.
        """
        left = [(self.spill, name, *task) for name, task in tasks.items() if not self.spill.finished(name)]
        begin, end = share
        done = len(tasks) - len(left)
        counted = counting(self.report, stage, "piece", begin, end)
        self.report(stage, begin)
        for count, _ in enumerate(self.run(function, left), done + 1):
            counted(count, len(tasks))


@contextmanager
def executor(engine: Engine, workers: int, scheduler: object = None) -> Iterator[Run]:
    """How to run pieces while the block lasts: in this process, in `workers` processes, or on a Dask cluster."""
    if engine == "dask":
        with _dask(scheduler) as client:
            yield partial(_by_dask, client)
    elif workers == 1:
        yield here
    else:
        pool = Processes(workers)
        try:
            yield pool.run
        finally:
            pool.close()


def here(function: Callable[..., None], tasks: list[PieceArguments]) -> Iterator[None]:
    """Run the pieces in this process, one after the other."""
    for task in tasks:
        function(*task)
        yield


class Processes:
    """Processes of this machine (`serve_pieces`), each started when it is first needed."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.alive: list[subprocess.Popen[bytes]] = []
        self._idle: LifoQueue[subprocess.Popen[bytes] | None] = LifoQueue()  # one that is started is taken first
        for _ in range(workers):
            self._idle.put(None)
        self._closed = False

    def run(self, function: Callable[..., None], tasks: list[PieceArguments]) -> Iterator[None]:
        """Call `function` with each of `tasks` in an idle process, and yield after each that is done."""
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for future in as_completed([pool.submit(self._one, function, task) for task in tasks]):
                    future.result()
                    yield
            except BaseException:
                self.close()  # or the pool waits for pieces that nobody wants any more
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, function: Callable[..., None], task: PieceArguments) -> None:
        """Run one piece in an idle process; in another one if that process dies."""
        for _ in range(TRIES):
            if self._closed:
                return
            process = self._idle.get()
            if process is None or process.poll() is not None:
                process = self._start()
            try:
                pickle.dump((function, task), process.stdin)  # type: ignore[arg-type]
                process.stdin.flush()  # type: ignore[union-attr]
                error = pickle.load(process.stdout)  # type: ignore[arg-type]
            except (OSError, EOFError, pickle.UnpicklingError, ValueError):
                self._end(process)
                self._idle.put(None)
                continue
            self._idle.put(process)
            if error is not None:
                raise error
            return
        if not self._closed:
            raise OutOfMemoryError(
                f"the process that worked on {function.__name__} {task[1:2]} was killed {TRIES} times, most often a "
                "sign that the machine ran out of memory: use fewer workers, or a smaller memory="
            )

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from monolayer.cluster.executor import serve_pieces; serve_pieces()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _import_path(), "OMP_NUM_THREADS": "1", **KEEP_MEMORY},
            start_new_session=True,  # Ctrl-C reaches only this process, which then ends the workers
        )
        self.alive.append(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ValueError):  # two may end it at once
            self.alive.remove(process)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """Kill all processes. Pieces that they have not finished leave nothing behind."""
        self._closed = True
        for process in list(self.alive):
            self._end(process)


def _import_path() -> str:
    """The import path of workers: that of this process without the working folder, where anybody's files may lie.

    The working folder stays in it if the user's PYTHONPATH names it, or if this package lies there.
    """
    wanted = {*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(Path(__file__).parents[2])} - {""}
    here = {"", str(Path.cwd())}
    return os.pathsep.join(entry for entry in sys.path if entry in wanted or entry not in here)


def serve_pieces() -> None:
    """The main loop of a worker: run the pieces that come on standard input, and answer on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    tasks = sys.stdin.buffer
    while True:
        try:
            function, task = pickle.load(tasks)
        except EOFError:
            return
        error: BaseException | None = None
        try:
            function(*task)
        except BaseException as raised:
            error = raised
        try:
            answer = pickle.dumps(error)
            pickle.loads(answer)
        except Exception:  # an error that cannot travel
            answer = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        answers.write(answer)
        answers.flush()


def _by_dask(client: Any, function: Callable[..., None], tasks: list[PieceArguments]) -> Iterator[None]:
    """Run the pieces on the workers of a Dask cluster, which must see files and spill folder under the same paths."""
    from distributed import as_completed as completed

    futures = [client.submit(function, *task, pure=False, retries=TRIES) for task in tasks]
    try:
        for future in completed(futures):  # type: ignore[no-untyped-call]
            future.result()
            yield
    finally:
        client.cancel(futures)


@contextmanager
def _dask(scheduler: object) -> Iterator[Any]:
    """A Dask client: `scheduler` itself, or one connected to the scheduler at that address."""
    try:
        from distributed import Client
    except ImportError:
        raise needs_extra("engine='dask' needs dask", "cluster") from None
    if isinstance(scheduler, Client):
        yield scheduler
        return
    if scheduler is None:
        raise DataError(
            "engine='dask' needs the address of a scheduler, such as tcp://head:8786: scheduler= (--scheduler)"
        )
    try:
        client = Client(scheduler, timeout=PATIENCE)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise DataError(
            f"there is no Dask scheduler at {scheduler!r}: {error}. Start one with `dask scheduler`"
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise DataError(f"the Dask scheduler at {scheduler!r} has no workers: start some with `dask worker`")
        yield client
