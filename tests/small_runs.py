"""Experiments that train, on less data and with short clocks, and what must hold of whatever they store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from monolayer_experiments import find
from monolayer_experiments.experiment import Setting


def quick_runs(plans: Mapping[str, Any]) -> dict[str, Any]:
    """The quick run of every experiment with the plan that is given; the plans are put back."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, plan in plans.items():
            patch.setattr(f"monolayer_experiments.{name}.QUICK", plan)
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
