"""A clock that counts steps, so that training takes as long on every machine, however busy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import pytest


@contextmanager
def training_by_steps(tick: float = 1 / 400) -> Iterator[None]:
    """Training reads a clock that moves on by `tick` seconds whenever it is read, so about once per step."""
    readings = count()
    clock = SimpleNamespace(perf_counter=lambda: next(readings) * tick)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("trainer", "fleet", "runs"):
            patch.setattr(f"monolayer_experiments.{module}.time", clock)
        yield
