"""Verdicts on the command line: what is printed, what is saved, and the exit codes 0, 1, 2, 3."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from monolayer.cli import run

ROWS = '{"tokens": ["a", "b"], "labels": ["x", "y"]}\n{"tokens": ["b", "c"], "labels": ["y", "z"]}\n'


@pytest.fixture
def model(tmp_path: Path) -> tuple[str, Path]:
    data = tmp_path / "data.jsonl"
    data.write_text(ROWS)
    assert run(["memorize", str(data), "--out", str(tmp_path / "m"), "--json"]) == 0
    return str(tmp_path / "m"), data


def test_proved_is_0_and_saved_on_request(model: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = model
    capsys.readouterr()
    assert run(["verify", folder, str(data)]) == 0
    assert "proved" in capsys.readouterr().out
    assert not (Path(folder) / "certificate.json").exists()
    assert run(["verify", folder, str(data), "--save", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "proved"
    assert json.loads((Path(folder) / "certificate.json").read_text())["points"] == 4


def test_refuted_is_1_and_names_the_point(model: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = model
    assert run(["verify", folder, str(data), "--save"]) == 0
    data.write_text(ROWS.replace('"z"', '"x"'))
    capsys.readouterr()
    assert run(["verify", folder, str(data)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "refuted" in shown
    assert "token 1 ('c') of sequence 1" in shown
    assert "the data are not those of certificate.json" in shown


def test_undecided_is_3(model: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    import monolayer as ml

    folder, data = model
    changed = ml.load(folder)
    changed.attention.W_Q.data[1, 2] = 1e-3  # a query that depends on the token: outside the proof
    changed.save(folder, overwrite=True)
    capsys.readouterr()
    assert run(["verify", folder, str(data)]) == 3
    assert "undecided" in capsys.readouterr().out


def test_a_damaged_model_is_2(model: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = model
    weights = Path(folder) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert run(["verify", folder, str(data)]) == 2
    assert "model.safetensors" in capsys.readouterr().err


def test_theorem_prints_constants_and_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, X=np.random.default_rng(0).normal(size=(6, 3, 2)))
    assert run(["theorem", str(path)]) == 0
    shown = capsys.readouterr().out
    for part in ("worst case: δ", "measured direction: δ", "Theorem A"):
        assert part in shown
    assert run(["theorem", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "proved"


def test_hardmax_is_refuted_for_random_and_for_given_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["refute-hardmax", "--heads", "2", "--dim", "3", "--length", "6"]) == 0
    assert "refuted" in capsys.readouterr().out
    path = tmp_path / "w.npz"
    random = np.random.default_rng(0)
    np.savez(path, **{f"W_{name}": random.normal(size=(1, 3, 3)) for name in "QKVO"})
    assert run(["refute-hardmax", "--weights", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "refuted"
    assert run(["refute-hardmax", "--length", "3"]) == 2
    assert "4" in capsys.readouterr().err
