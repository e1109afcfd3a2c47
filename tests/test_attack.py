"""The attack on the certificate, shortly: nothing proved that an unkind evaluation contradicts, and nothing refuted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import adversary
from tests.adversary import EVALUATIONS, FAMILIES, Evil, attack, errs
from tests.stored_models import random_case

SEEDS = [50 * kind + number for kind in range(40) for number in range(7)]
"""Seven faults in each of forty models."""


@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_verdict_is_contradicted(family: str, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    cases: dict[int, Any] = {}
    for seed in SEEDS:
        verdict, contradicted = attack(family, seed, tmp_path, cases)
        assert not contradicted, (family, seed, verdict)
        found[verdict] += 1
    assert found["proved"] > 20, found
    assert found["undecided"] + found["refuted"] > 40, found


def test_the_attack_finds_a_checker_that_forgets_a_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds a hundred times too small, some proof is contradicted."""
    from monolayer.checker import codes

    honest = codes.context_error
    monkeypatch.setattr(codes, "context_error", lambda *given: honest(*given) / 100.0)
    monkeypatch.setattr("monolayer.checker.stages.CLOSE_CALLS", 0)
    cases: dict[int, Any] = {}
    assert any(attack("thresholds at a point", seed, tmp_path, cases) == ("proved", True) for seed in range(3000))


def test_evaluations_are_unkind_in_every_way_that_is_assumed() -> None:
    rng = np.random.default_rng(0)
    drawn = [Evil.draw(rng) for _ in range(200)]
    assert len({how.order for how in drawn}) == 5
    assert len({how.push for how in drawn}) == 6
    case: Any = random_case(3, target="classes", readout="exact")
    assert not any(errs(case, how) for how in drawn[:EVALUATIONS]), "a sound model answers them all"
    pushed = Evil(rng, "random", "up", True, 0).exp(np.array([0.0, -3.0]))
    assert (pushed > np.exp([0.0, -3.0])).all()
    assert (pushed <= np.exp([0.0, -3.0]) + 4 * np.spacing(np.exp([0.0, -3.0]))).all()
    assert adversary.ULPS == 4
