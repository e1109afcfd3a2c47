"""The draw of a line, used again for other data."""

from __future__ import annotations

from monolayer.arrays import Ints
from monolayer.construct.line.build import Line
from monolayer.construct.line.stored import LineDraw
from monolayer.construct.task import Task
from monolayer.model.monolayer import Monolayer
from monolayer.table import Progress


class LineAgain(LineDraw):
    """A stored draw that builds (`construct/task.py` has the protocol)."""

    def build(self, task: Task, report: Progress, model: Monolayer, only: Ints | None) -> Monolayer:
        """Build all steps again: a step depends on its neighbours, whatever their tokens are, so `only` is not used."""
        return Line.again(self).build(task, report)
