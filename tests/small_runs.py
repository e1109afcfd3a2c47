"""Experiments that train, on less data and by steps instead of seconds, and what must hold of whatever they store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from monolayer_experiments import find
from monolayer_experiments.experiment import Setting


@contextmanager
def training_by_steps(tick: float = 1 / 400) -> Iterator[None]:
    """Training reads a clock that moves on by `tick` seconds whenever it is read, so about once per step.

    A second is then `1 / tick` steps on every machine, however busy.
    """
    readings = count()
    clock = SimpleNamespace(perf_counter=lambda: next(readings) * tick)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("trainer", "fleet", "finetune", "runs"):
            patch.setattr(f"monolayer_experiments.{module}.time", clock)
        yield


def quick_runs(plans: Mapping[str, Any]) -> dict[str, Any]:
    """The quick run of every experiment with the changes to its plan that are given; the plans are put back."""
    found = {}
    with training_by_steps(), pytest.MonkeyPatch.context() as patch:
        for name, plan in plans.items():
            usual = import_module(f"monolayer_experiments.{name}").PLAN
            patch.setattr(
                f"monolayer_experiments.{name}.PLAN", {**usual, **{key: (value, value) for key, value in plan.items()}}
            )
            shares: list[float] = []
            raw = find(name).run(Setting(seed=1), lambda stage, share, shares=shares: shares.append(share))
            assert shares == sorted(shares)
            assert 0.0 <= shares[0] <= shares[-1] <= 1.0
            found[name] = json.loads(json.dumps(raw, allow_nan=False))
    return found


def check_words(name: str, stored: Any) -> None:
    """Answer, limits, tables and figures of an experiment can be made from its stored numbers alone."""
    experiment = find(name)
    assert experiment.name == name
    assert len(json.dumps(stored)) < 12_000
    assert experiment.answer(stored).endswith(".")
    assert experiment.limits(stored).endswith(".")
    for table in experiment.tables(stored):
        assert table.rows
        assert all(len(row) == len(table.columns) and all(map(str.strip, row)) for row in table.rows)
    for figure in experiment.figures(stored):
        json.dumps(figure.figure, allow_nan=False)
        assert figure.figure["data"]
        for trace in figure.figure["data"]:
            assert len(trace["x"]) == len(trace["y"]) > 0
