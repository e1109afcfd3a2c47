"""Two stock folders compared: config, tensors, neurons, and their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.cli import run
from monolayer.data import Sequences
from tests.test_edit_cli import ROWS, write
from tests.test_edit_stock import OTHER, X, Y


def build(folder: Path, name: str, task: str, labels: Any = Y, **options: Any) -> Path:
    data = Sequences.of(X, {"token": labels, "sequence": labels[:, 0], "lm": None}[task])
    return ml.memorize_as(name, data, **options).save(folder)


@pytest.mark.parametrize("storage", ["cells", "steps"])
def test_what_an_edit_did_is_what_the_comparison_lists(storage: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"storage": storage} | ({"rank": 32, "dtype": "bfloat16"} if storage == "cells" else {})
    old = build(tmp_path / "old", "bert", "token", positions=True, **options)
    model, record = ml.edit(old, X[3:4], OTHER[3:4], (X, Y))
    new = model.save(tmp_path / "new")
    found = ml.compare(old, new, X)
    assert not found.same
    assert (found.only_one, found.only_two) == record.neurons
    sizes = [json.loads((path / "config.json").read_text("utf-8"))["intermediate_size"] for path in (old, new)]
    assert sizes[1] - sizes[0] == found.only_two - found.only_one
    assert found.config.keys() <= {"intermediate_size"}
    # The four facts that were edited, and no others, have other answers: the old ones and the new ones.
    assert (found.asked, found.answers) == (X.size, 4)
    assert [(one.sequence, one.position, one.one, one.two) for one in found.differing] == [
        (3, place, Y[3, place], OTHER[3, place]) for place in range(4)
    ]
    assert ml.compare(old, old, X).same
    assert any("4 of 120 differ" in text for _, text in found.rows())


def test_a_sequence_that_a_folder_cannot_take_has_no_answer(tmp_path: Path) -> None:
    one = ml.memorize_as("gpt2", [list("ab")], [[1, 2]]).save(tmp_path / "one")
    two = ml.memorize_as("gpt2", [list("abc")], [[1, 2, 3]]).save(tmp_path / "two")
    found: Any = ml.compare(one, two, [list("ab"), ["c"], ["a"] * 600])
    assert [answer.one for answer in found.differing] == [None]
    assert not found.names


def test_neurons_that_differ_are_counted(tmp_path: Path) -> None:
    old = build(tmp_path / "old", "bert", "token", positions=True)
    tensors = load_file(old / "model.safetensors")
    bias, second = (
        next(name for name in tensors if part in name) for part in ("intermediate.dense.bias", "0.output.dense.weight")
    )
    tensors[bias][2] += 1.0  # one reads something else
    tensors[second][:, 5] *= 2.0  # one writes something else
    (tmp_path / "new").mkdir()
    for path in old.iterdir():
        (tmp_path / "new" / path.name).write_bytes(path.read_bytes())
    save_file({name: part.contiguous() for name, part in tensors.items()}, tmp_path / "new" / "model.safetensors")
    found = ml.compare(old, str(tmp_path / "new"))
    assert (found.only_one, found.only_two) == (2, 2)
    assert found.weights[bias] == 1
    assert set(found.weights) == {bias, second}
    assert not found.config
    assert found.names


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    one = build(tmp_path / "one", "bert", "token", positions=True)
    two = build(tmp_path / "two", "bert", "sequence", positions=True)
    ml.memorize(X, Y, positions=True).save(tmp_path / "own")
    with pytest.raises(ml.DataError, match="one of the two is a stock model"):
        ml.compare(one, tmp_path / "own")
    with pytest.raises(ml.DataError, match="per token, the other per sequence"):
        ml.compare(one, two, X)
    assert "architectures" in ml.compare(one, two).config
    assert ml.compare(tmp_path / "own", tmp_path / "own", X).same  # folders of our own are read, too


def test_the_command_compares_stock_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "data.jsonl", ROWS)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    assert run(["memorize-as", "bert", data, "--out", old]) == 0
    assert run(["forget", old, "--rows", "0", "--data", data, "--out", new]) == 0
    capsys.readouterr()
    assert run(["compare", old, new, data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["asked"] == sum(len(row["tokens"]) for row in ROWS)
    assert not found["same"]
    assert run(["compare", old, new, data]) == 0
