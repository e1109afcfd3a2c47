"""A build under way: where its pieces lie, who does them, and how large they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from monolayer.cluster.executor import Run
from monolayer.cluster.room import Room
from monolayer.cluster.spill import Spill

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.construct.task import Progress


@dataclass(frozen=True)
class Options:
    """What kind of model: keywords of `memorize`."""

    positions: bool
    causal: bool
    temperature: float | None
    rank: int | Literal["auto"]
    seed: int


@dataclass(frozen=True, eq=False)
class Work:
    """`shards`: the files, as `identity` knows them."""

    spill: Spill
    run: Run
    room: Room
    shards: list[dict[str, Any]]
    report: Progress

    def do(self, stage: str, share: tuple[float, float], function: Callable[..., None], tasks: dict[str, Any]) -> None:
        """Do the pieces `tasks`, by name, that are not finished yet."""
        left = [(self.spill, name, *task) for name, task in tasks.items() if not self.spill.finished(name)]
        begin, end = share
        done = len(tasks) - len(left)
        self.report(stage, begin)
        for count, _ in enumerate(self.run(function, left), done + 1):
            self.report(f"{stage}: {count:,} of {len(tasks):,}", begin + (end - begin) * count / len(tasks))
