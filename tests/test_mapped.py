"""A readout that stays in its files answers as the whole model does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import monolayer as ml
from monolayer.cli import run
from monolayer.data import read
from monolayer.model.mapped import PartedSteps, load_mapped
from monolayer.model.parts import staircase_of
from tests.test_verify_files import built


@pytest.mark.parametrize(("kind", "slack"), [("ids", 1e10), ("positions", 8.0), ("sequences", 8.0), ("causal", 8.0)])
def test_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, slack: float) -> None:
    folder, pattern, _, _ = built(tmp_path, monkeypatch, kind, slack)
    mapped, whole, data = load_mapped(folder), ml.load(folder), read(pattern)
    assert mapped is not None
    assert (mapped.labels(mapped.encode(data)) == whole.labels(whole.encode(data))).all()
    assert mapped.summary == whole.summary
    some = data.select(torch.arange(3).numpy())
    assert (mapped.labels(mapped.encode(some)) == whole.labels(whole.encode(some))).all()


def test_every_number_has_the_same_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on the ramps, on their ends, left and right of all, and where there is none."""
    folder, _, _, _ = built(tmp_path, monkeypatch, "ids")
    mapped, steps = load_mapped(folder), staircase_of(ml.load(folder)).steps()
    assert mapped is not None
    assert steps is not None
    low, high = steps.start, steps.end
    z = torch.cat([low, high, (low + high) / 2, low - 1e-9, high + 1e-9, torch.tensor([-1e9, 1e9])]).double()
    assert torch.equal(mapped.way.stages[0].steps(z), steps(z))


def test_other_models_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _, _, _ = built(tmp_path, monkeypatch, "ids")
    whole = ml.load(folder)
    whole.save(tmp_path / "one")
    assert load_mapped(tmp_path / "one") is None
    stairs = staircase_of(whole)
    parts = [{name: value.detach().numpy() for name, value in stairs.state_dict().items()}]
    assert PartedSteps.of(parts, stairs.bias_2.detach()) is not None
    assert PartedSteps.of([*parts, *parts], stairs.bias_2.detach()) is None  # they do not rise
    next(folder.glob("model-00002-of-*.safetensors")).unlink()
    with pytest.raises(ml.ModelFileError, match=r"model-00002-of-.*is missing"):
        load_mapped(folder)


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pattern, _, Y = built(tmp_path, monkeypatch, "ids")
    monkeypatch.setattr("monolayer.model.load.load", lambda *_, **__: pytest.fail("the whole readout was loaded"))
    assert run(["predict", str(folder), pattern, "--json", "--out", str(tmp_path / "answers")]) == 0
    assert json.loads(capsys.readouterr().out)["right"] == 2400
    lines = (tmp_path / "answers").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in lines] == Y
