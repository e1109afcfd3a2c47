"""`monolayer approximate` as people use it: tables, JSON, files, pictures, and mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.theory.targets import TARGETS


def test_the_table_says_what_was_built_predicted_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["approximate", "sort", "--dim", "1", "--length", "2", "--cells", "4", "--norm", "sup"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("value rank 1 = (n − 1)d", "4 per coordinate", "25", "bound on the error", "with equal tokens"):
        assert words in shown
    assert run(["approximate", "sort", "--dim", "1", "--length", "3", "--cells", "10"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("10 per coordinate", "550 on 220 multisets", "parameters", "predicted error", "measured error",
                  "guaranteed by the modulus", "ramps", "to build"):  # fmt: skip
        assert words in shown


def test_json_a_saved_model_and_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "m")
    assert run(["approximate", "max", "--length", "2", "--error", "0.06", "--out", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cells"], found["knots"], found["guaranteed"]) == (9, 81, True)
    assert 0 < found["measured"]["l1"] <= found["measured"]["l2"] <= found["measured"]["sup"]
    assert found["measured"]["sup"] <= found["predicted"]["sup"] <= 0.06
    assert found["ramp_share"] < 2e-6
    data = tmp_path / "d.jsonl"
    data.write_text(
        '{"tokens": [[0.2], [0.7]], "labels": [0.7, 0.7]}\n{"tokens": [[0.2], [0.7]], "labels": [0.1, 0.7]}\n'
    )
    assert run(["predict", folder, str(data)]) == 0
    captured = capsys.readouterr()
    assert abs(json.loads(captured.out.splitlines()[0])["labels"][0][0] - 0.7) <= 0.06
    assert "3 of 4 labels are right" in captured.err
    assert run(["inspect", folder]) == 0
    shown = capsys.readouterr().out
    assert "approximator" in shown
    assert "cells              9\n" in "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"


def test_a_function_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_functions.py").write_text("class Inside:\n    f = staticmethod(lambda X: X**2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    for more, guaranteed in ((["--domain", "-1", "1"], False), (["--lipschitz", "2"], True)):
        assert run(["approximate", "my_functions:Inside.f", "--error", "0.1", *more, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["guaranteed"] == guaranteed
        assert found["measured"]["sup"] <= 0.1


def test_the_library_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["approximate", "list"]) == 0
    shown = capsys.readouterr().out
    assert run(["approximate", "list", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(TARGETS)
    assert all(name in shown for name in TARGETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--cells", "4"], "no function of the library"),
        (["no_such_module:f", "--cells", "4"], "cannot be loaded"),
        (["math:no_such_name", "--cells", "4"], "cannot be loaded"),
        (["math:pi", "--cells", "4"], "must be a function"),
        (["sort"], "either cells"),
        (["sort", "--cells", "4", "--error", "0.1"], "not both"),
        (["sort", "--dim", "2", "--cells", "4"], "dimension 1 only"),
        (["sort", "--length", "9", "--cells", "400"], "cells fit"),
        (["sort", "--cells", "4", "--domain", "1", "0"], "low < high"),
        (["sort-in-place", "--cells", "4"], "positions"),
        (["ranks", "--length", "3", "--error", "0.1"], "a function that jumps is close in the mean only"),
    ],
)
def test_mistakes_get_a_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["approximate", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.split())
    assert captured.out == ""


def test_the_command_is_the_function(tmp_path: Path) -> None:
    assert run(["approximate", "max", "--cells", "5", "--out", str(tmp_path / "m"), "--seed", "3"]) == 0
    one, two = ml.load(tmp_path / "m"), ml.approximate(TARGETS["max"], 1, 2, cells=5, lipschitz=1.0, seed=3)
    assert all(np.array_equal(one.state_dict()[name], value) for name, value in two.state_dict().items())
