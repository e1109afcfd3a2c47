"""Data in many files get the certificate that they get as one, word for word, a file at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.files import verify_files
from monolayer.cli import run
from monolayer.cluster.memorize import memorize_files
from monolayer.data import read
from monolayer.model.attention import LABEL
from tests.test_files import crowd, example, small_pieces, write

PARTS = ["s0.jsonl", "s1.jsonl", "s2.jsonl"]


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slack: float = 8.0) -> tuple[Path, str, Any, Any]:
    """A model in several files, the pattern of its data, and the data themselves."""
    X, Y, options = example(kind)
    pattern = write(tmp_path / "data", X, Y, [100, 250])
    with monkeypatch.context() as patch:
        small_pieces(patch, 500, 300)
        crowd(patch, slack)
        return memorize_files(pattern, tmp_path / "model", workers=1, **options), pattern, X, Y


def both(model: Path, pattern: str) -> ml.Certificate:
    """The certificate, after both ways gave the same one."""
    folder = Path(pattern).parent
    one = ml.verify(model, read(pattern))
    two = verify_files(model, [str(folder / name) for name in PARTS])
    assert two is not None
    assert two.to_json() == one.to_json()
    return two


@pytest.mark.parametrize(
    ("kind", "slack"), [("positions", 8.0), ("sequences", 8.0), ("causal", 8.0), ("next tokens", 8.0), ("ids", 1e10)]
)
def test_the_same_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slack: float) -> None:
    model, pattern, X, Y = built(tmp_path, monkeypatch, kind, slack)
    assert both(model, pattern).verdict == "proved"
    ml.load(model).save(tmp_path / "one")  # in one file
    assert both(tmp_path / "one", pattern).verdict == "proved"
    if Y is None:
        return
    classes = sorted({label for row in Y for label in row}) if isinstance(Y[0], list) else sorted(set(Y))
    for row in (3, 120, 121, 299):
        one = Y[row][0] if isinstance(Y[row], list) else Y[row]
        other = classes[(classes.index(one) + 1) % len(classes)]
        Y[row] = [other, *Y[row][1:]] if isinstance(Y[row], list) else "?"
    X[260] = ["never seen" if isinstance(X[0][0], str) else 999, *X[260][1:]]
    write(tmp_path / "data", X, Y, [100, 250])
    found = both(model, pattern)
    assert found.verdict == "refuted"
    assert found.wrong >= 4
    assert [finding.sequence for finding in found.findings][:3] == [3, 120, 121]


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, pattern, X, Y = built(tmp_path, monkeypatch, "ids")
    monkeypatch.setattr("monolayer.cli.reading.Reading.read", lambda *_, **__: pytest.fail("all files at once"))
    assert run(["verify", str(model), pattern, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 2400
    Y[0][0] = (Y[0][0] + 1) % 5
    write(tmp_path / "data", X, Y, [100, 250])
    assert run(["verify", str(model), pattern]) == 1
    (tmp_path / "data" / "s1.jsonl").write_text('{"tokens": ["a"], "labels": [1]}\n')
    assert run(["verify", str(model), pattern]) == 2
    assert "do not go together" in capsys.readouterr().err


def test_copies_of_a_sequence_in_several_files(tmp_path: Path) -> None:
    """The point with the least margin stands in each of them: the first in the data is named."""
    random = np.random.default_rng(0)
    X, Y = np.tile(random.integers(0, 30, (80, 6)), (4, 1)), np.tile(random.integers(0, 4, 80), 4)
    ml.memorize(X, Y, positions=True).save(tmp_path / "model")
    order = random.permutation(len(X))
    pattern = write(tmp_path / "data", X[order].tolist(), Y[order].tolist(), [50, 200])
    assert both(tmp_path / "model", pattern).verdict == "proved"


def test_the_largest_value_of_a_later_stage_in_another_file(tmp_path: Path, demanding: Callable[[float], None]) -> None:
    demanding(1e11)
    random = np.random.default_rng(0)
    X, Y = random.integers(0, 30, (200, 6)), random.integers(0, 5, (200, 6))
    model = ml.memorize(X, Y, positions=True)
    order = np.argsort((X == 7).any(axis=1), kind="stable")
    pattern = write(tmp_path / "data", X[order].tolist(), Y[order].tolist(), [20, 100])
    with torch.no_grad():
        model.lift.weight[7, LABEL + 1] = 2.0**100  # every other point errs by its share at most
    model.save(tmp_path / "model")
    found = both(tmp_path / "model", pattern)
    assert found.unsure > 0
    assert found.verdict != "proved"


def test_short_formats_and_vectors_are_held_at_once(tmp_path: Path) -> None:
    X, Y = [[1, 2], [3, 4]], [[0, 1], [1, 0]]
    ml.memorize(X, Y).half().save(tmp_path / "half")
    assert run(["verify", str(tmp_path / "half"), write(tmp_path / "ids", X, Y, [1])]) == 3
    pattern = write(tmp_path / "vectors", [[[1.0, 2.0]], [[3.0, 4.0]]], [[1], [2]], [1])
    ml.memorize(read(pattern)).save(tmp_path / "model")
    assert verify_files(tmp_path / "model", [str(tmp_path / "vectors" / f"s{i}.jsonl") for i in range(2)]) is None


@pytest.mark.parametrize("per", ["token", "sequence"])
def test_real_labels(tmp_path: Path, per: str) -> None:
    random = np.random.default_rng(0)
    X, Y = random.permutation(900).reshape(150, 6), random.normal(size=(150, 6) if per == "token" else 150).round(1)
    Y.flat[0] = -0.0
    pattern = write(tmp_path / "data", X.tolist(), Y.tolist(), [50, 100])
    ml.memorize(read(pattern)).save(tmp_path / "model")
    assert both(tmp_path / "model", pattern).verdict == "proved"
    Y.flat[-1] += 1e-6
    write(tmp_path / "data", X.tolist(), Y.tolist(), [50, 100])
    found = both(tmp_path / "model", pattern)
    assert found.verdict == "refuted"
    assert "to within 1.01e-06 it would be proved" in found.reason
