"""What every construction is: a task in, a model out that returns every label, or an error that says why not.

`memorize` chooses one by what its caller wishes for; what is built on models (files, proofs, editing) knows the
model's own parts and its card, and no construction by name. `tests/test_contract.py` runs each through one suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from monolayer.construct.task import Task
from monolayer.model.monolayer import Monolayer

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of the work that lies behind."""


class Construction(Protocol):
    """A way from data to weights. Its wishes (a seed, a readout, a rank) are its fields, checked when it is made."""

    def build(self, task: Task, report: Progress) -> Monolayer:
        """A model whose card has a summary; `ContradictionError` or `PrecisionError` where the data do not fit."""
