"""Child processes that never outlive the process that started them, and that end if a step takes too long.

A *fork* does one action in a process group of its own and sends back what that returns. Before each step of the action
it may say the name of the step and how much processor time that may take: the kernel then ends a fork that takes more,
also one that loops in C. A *guard*, one more process, is told of every fork. It notices that its parent is gone, at the
end of the script as after Ctrl-C, SIGTERM or SIGKILL, then ends every fork that still runs with what it started, and
removes the folder in which they worked. This works on Linux and macOS.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

WAITING = 10.0
"""A step that only waits uses no processor time. By the clock it may take this many times its limit, because on a busy
machine a fork has a processor for part of the time only."""
AT_LIMIT = (signal.SIGXCPU, signal.SIGALRM)
"""The signals by which the kernel ends a fork that has used its processor time, or its time by the clock."""
MEMORY, ROOM = Path("/dev/shm"), 1 << 31
"""Where folders are in memory, and the bytes that must be free there. Containers often have only 64 MiB."""
POLL = 1.0
"""Seconds after which forks are looked at that have not closed their pipes."""


class Ended(NamedTuple):
    """How a fork ended.

    `answer`: what its action returned, None if it did not come to that. `step`: the name of the last step that began.
    `stopped`: whether that took too long.
    """

    answer: Any
    step: str
    stopped: bool


class Step:
    """What an action calls before each of its steps: with its name, and the seconds of processor time it may take."""

    def __init__(self, pipe: io.BufferedWriter) -> None:
        self._pipe = pipe
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGXCPU would leave a core file
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def __call__(self, name: str, seconds: float | None = None) -> None:
        pickle.dump(name, self._pipe)
        self._pipe.flush()
        if seconds is None:
            return
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        limit = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
        signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)


@dataclass(eq=False)
class Fork:
    """A child process, the end of the pipe that its steps and its answer come through, and what has come so far."""

    number: int
    reads: int
    content: bytearray = field(default_factory=bytearray)


class Forks:
    """The forks of a script. They work in `scratch`, each in a folder of its own; `loud` shows what they print."""

    def __init__(self, loud: bool = False) -> None:
        self.scratch = Path(tempfile.mkdtemp(dir=MEMORY if _is_roomy(MEMORY) else None))
        self._loud, self._running = loud, set[Fork]()
        reads, self._tells = os.pipe()
        self._guard = os.fork()
        if self._guard == 0:
            try:
                os.close(self._tells)
                _guard(reads, self.scratch)
            finally:
                os._exit(0)
        os.close(reads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs. The guard does it, once nobody holds the other end of its pipe."""
        os.close(self._tells)
        for child in (self._guard, *(fork.number for fork in self._running)):
            os.waitpid(child, 0)

    def start(self, action: Callable[[Step], Any]) -> Fork:
        """Do this in a new process."""
        reads, writes = os.pipe()
        number = os.fork()
        if number == 0:
            os.close(reads)
            self._child(action, writes)
        os.close(writes)
        fork = Fork(number, reads)
        self._running.add(fork)
        return fork

    def _child(self, action: Callable[[Step], Any], writes: int) -> NoReturn:
        try:
            os.setsid()
            # It tells the guard itself: if its parent told, it could be gone between the fork and the telling.
            os.write(self._tells, b"%d\n" % os.getpid())
            os.close(self._tells)
            place = self._place(os.getpid())
            place.mkdir()
            tempfile.tempdir = str(place)
            os.chdir(place)
            if not self._loud:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nowhere, stream)
            with os.fdopen(writes, "wb") as pipe:
                answer = action(Step(pipe))
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                pickle.dump([answer], pipe)
        except BaseException:
            if self._loud:
                traceback.print_exc()
        finally:
            os._exit(0)

    def _place(self, number: int) -> Path:
        return self.scratch / f"fork-{number}"

    def ended(self, forks: Iterable[Fork]) -> list[tuple[Fork, Ended]]:
        """Those of some forks that have ended; where none has, wait for a moment."""
        by_pipe = {fork.reads: fork for fork in forks}
        ready, _, _ = select.select(list(by_pipe), [], [], POLL)
        for reads in ready:
            by_pipe[reads].content += os.read(reads, 1 << 16)
        found = []
        for fork in by_pipe.values():
            number, status = os.waitpid(fork.number, os.WNOHANG)
            if number:
                found.append((fork, self._close(fork, status)))
        return found

    def result(self, fork: Fork) -> Ended:
        """Wait for one."""
        while True:
            for _, ended in self.ended([fork]):
                return ended

    def _close(self, fork: Fork, status: int) -> Ended:
        _end(fork.number)  # what it started may still run
        self._running.remove(fork)
        os.write(self._tells, b"%d\n" % -fork.number)
        with os.fdopen(fork.reads, "rb") as pipe:
            steps = _loaded(fork.content + pipe.read())
        shutil.rmtree(self._place(fork.number), ignore_errors=True)
        answer = steps.pop()[0] if steps and isinstance(steps[-1], list) else None
        stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) in AT_LIMIT
        return Ended(answer, steps[-1] if steps else "", stopped)


def _is_roomy(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free >= ROOM


def _loaded(content: bytes | bytearray) -> list[Any]:
    """What a fork sent: names of steps and, in a list, its answer, unless that was cut off."""
    stream, found = io.BytesIO(content), []
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            found.append(pickle.load(stream))
    return found


def _guard(reads: int, scratch: Path) -> None:
    """Keep the numbers of all forks that run, `-number` for one that has ended, until the parent is gone."""
    os.setsid()
    running: set[int] = set()
    with os.fdopen(reads) as told:
        for line in told:
            number = int(line)
            if number > 0:
                running.add(number)
            else:
                running.discard(-number)
    for number in running:
        _end(number)
    shutil.rmtree(scratch, ignore_errors=True)


def _end(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nothing is left of it; macOS says so by the second
        os.killpg(group, signal.SIGKILL)
