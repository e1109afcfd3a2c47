"""The attack on the certificate, shortly: nothing proved that an unkind evaluation contradicts, and nothing refuted."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import evil
from tests.adversary import EACH, EVALUATIONS, FAMILIES, attack
from tests.evil import Evil, errs
from tests.stored_models import random_case

SEEDS = [EACH * kind + number for kind in range(10) for number in range(4)]
"""Four faults in each of ten models."""


@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_verdict_is_contradicted(family: str, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    cases: dict[int, Any] = {}
    for seed in SEEDS:
        verdict, contradicted = attack(family, seed, tmp_path, cases)
        assert not contradicted, (family, seed, verdict)
        found[verdict] += 1
    assert found["proved"] > 4, found
    assert found["undecided"] + found["refuted"] > 10, found


def test_the_attack_finds_a_checker_that_forgets_a_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds a hundred times too small, some proof is contradicted."""
    from monolayer.checker import codes

    honest = codes.context_error
    monkeypatch.setattr(codes, "context_error", lambda *given: honest(*given) / 100.0)
    cases, seeds = dict[int, Any](), range(EACH, 2 * EACH)
    assert any(attack("thresholds at a point", seed, tmp_path, cases) == ("proved", True) for seed in seeds)


def test_the_attack_finds_a_checker_that_promises_too_much_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With shares twenty times too small, some robust model that is proved errs within the noise it is said to bear."""
    from monolayer.checker.noise import Shares

    honest = Shares.of
    weak = staticmethod(lambda *given: Shares(*(share / 20.0 for share in astuple(honest(*given)))))
    monkeypatch.setattr(Shares, "of", weak)
    cases: dict[int, Any] = {}
    seeds = range(2 * EACH, 3 * EACH)
    assert any(attack("thresholds at a point", seed, tmp_path, cases) == ("proved", True) for seed in seeds)
    assert cases[2].saved.config["readout"] == "gates"


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
    assert evil.ULPS == 4
