"""What an experiment is: a question, a way to measure, and how the numbers are read.

`run` measures and returns raw results that JSON can hold; `PLAN` has its sizes. `answer`, `figures`, `tables` and
`limits` read those results and nothing else, so that the report page is rebuilt from the stored numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from monolayer.table import Progress

Results = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How an experiment is run: quick or full, on which device, from which seed."""

    full: bool = False
    device: str = "cpu"
    seed: int = 0


@dataclass(frozen=True)
class Table:
    """Rows of words under named columns."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A plotly figure as JSON: `{"data": [...], "layout": {...}}`."""

    title: str
    figure: Results
    caption: str = ""


@dataclass(frozen=True)
class Experiment:
    """One claim, measured. `limits` is one honest paragraph: what the experiment does not show.

    `plan` has a quick and a full value for each of its sizes.
    """

    name: str
    question: str
    plan: Mapping[str, tuple[Any, Any]]
    measure: Callable[[Results, Setting, Progress], Results]
    answer: Callable[[Results], str]
    figures: Callable[[Results], list[Figure]]
    tables: Callable[[Results], list[Table]]
    limits: Callable[[Results], str]

    def run(self, setting: Setting, progress: Progress, **changes: Any) -> Results:
        """Raw results at the sizes of the setting, with the changes to the plan that are given."""
        chosen = {key: pair[setting.full] for key, pair in self.plan.items()}
        return self.measure({**chosen, **changes}, setting, progress)
