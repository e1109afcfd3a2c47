"""The bar that shows how far a long call has come, on the command line and for `progress=True`.

A call tells the name of the stage and the share of its whole work that is done (`table.Progress`). The share of a stage
in the whole is a guess that holds for some data and not for others, so no time is computed from it. A stage that counts
facts, say, tells a `Counted`: its pace over the last seconds is measured, and the bar shows how long its rest takes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from monolayer.errors import DataError
from monolayer.table import Counted, Progress

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
R = TypeVar("R")
PACE_SECONDS = 10.0
"""Over how many of its last seconds the pace of a stage is measured."""
BAR_WIDTH = 10
"""Width of the bar in characters; the counts beside it need the rest of a narrow terminal."""


class Pace:
    """How fast a stage counts, over its last `PACE_SECONDS`; over its last two reports, if these are further apart."""

    def __init__(self) -> None:
        self.seen: deque[tuple[float, int]] = deque()

    def saw(self, now: float, done: int) -> None:
        """At the second `now` so many were done."""
        self.seen.append((now, done))
        while len(self.seen) > 2 and self.seen[1][0] <= now - PACE_SECONDS:
            self.seen.popleft()

    def seconds_left(self, now: float, total: int) -> float | None:
        """Seconds until `total` are done at this pace; None if nobody knows, or if it takes longer than that."""
        if len(self.seen) < 2:
            return None
        (begin, before), (last, done) = self.seen[0], self.seen[-1]
        if last - begin < 1.0 or done == before:
            return None
        left = (total - done) * (last - begin) / (done - before) - (now - last)
        return left if left > 0.0 else None


def time_left(seconds: float | None) -> str:
    """`seconds` as h:mm:ss, at least one second; dashes for None."""
    return "-:--:--" if seconds is None else str(timedelta(seconds=max(1, math.ceil(seconds))))


@contextmanager
def bar(console: Console, *, shown: bool = True) -> Iterator[Progress]:
    """Show a bar while the block runs, if `console` is a terminal or a notebook; `step(stage, share)` moves it."""
    if not shown or not (console.is_terminal or console.is_jupyter):
        yield lambda stage, share: None
        return
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    pace, counted = Pace(), Counted("", 0, 0, "")

    class Done(ProgressColumn):
        """What a stage that counts has done, and how long the rest of it takes; else the share of the whole call."""

        def render(self, task: Task) -> Text:
            if not counted.total:
                return Text(f"{task.percentage:.0f}%", style="progress.percentage")
            left = time_left(pace.seconds_left(task.elapsed or 0.0, counted.total))
            return Text(f"{counted.counts}, {left} left", style="progress.remaining")

    display = Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=BAR_WIDTH),
        TimeElapsedColumn(),
        Done(),
        console=console,
        transient=True,
    )
    with display:
        task = display.add_task("", total=1.0)

        def step(stage: str, share: float) -> None:
            nonlocal pace, counted
            now = stage if isinstance(stage, Counted) else Counted(stage, 0, 0, "")
            if now.stage != counted.stage:
                pace = Pace()
            pace.saw(display.tasks[0].elapsed or 0.0, now.done)
            counted = now
            display.update(task, description=now.stage, completed=share)

        yield step


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """Let `progress=True` of a function show a bar on standard error while it runs."""

    @wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        if options.get("progress") is not True:
            return function(*args, **options)
        from rich.console import Console

        with bar(Console(stderr=True)) as step:
            options["progress"] = step
            return function(*args, **options)

    return called


def reporting(progress: Progress | bool | None) -> Progress:
    """The function that a call reports its progress to. `shows_progress` has replaced True by a bar."""
    if progress is None or isinstance(progress, bool):
        return lambda stage, share: None
    if not callable(progress):
        raise DataError(f"progress must be True or a function of (stage, share), not {progress!r}")
    return progress
