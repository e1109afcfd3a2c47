"""A short run of the attack on the certificate: no evaluation, however unkind, contradicts a proof or a refutation."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from monolayer.checker import codes
from monolayer.checker.noise import Shares
from tests.adversary import EACH, FAMILIES, attack

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


@pytest.mark.parametrize("readout", ["exact", "gates"])
def test_the_attack_finds_a_checker_that_forgets_a_rounding_or_promises_too_much_noise(
    readout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bounds a hundred times too small, or shares of noise twenty times, some proof is contradicted."""
    honest, shares = codes.context_error, Shares.of
    monkeypatch.setattr(codes, "context_error", lambda *given: honest(*given) / 100.0)
    weak = staticmethod(lambda *given: Shares(*(share / 20.0 for share in astuple(shares(*given)))))
    monkeypatch.setattr(Shares, "of", weak)
    cases = dict[int, Any]()
    for seed in range(10 * EACH):
        verdict, contradicted = attack("thresholds at a point", seed, tmp_path, cases)
        if verdict == "proved" and contradicted and cases[seed // EACH].saved.config["readout"] == readout:
            return
    raise AssertionError("no proof was contradicted")
