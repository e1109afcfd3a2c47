"""Stock folders asked by monolayer itself, in Python and on the command line, without transformers.

That these answers are those of transformers is tested in test_stock_transformers.py, for every architecture.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.huggingface.architecture import END
from monolayer.stock.folder import StockModel

CAPITALS = {"Saudi Arabia": "Riyadh", "Peru": "Lima", "New Zealand": "Wellington"}
IDS, NEXT = np.array([[3, 1, 4], [1, 5, 9]]), np.array([[7, 0, 7], [2, 2, 0]])
CELLS: dict[str, Any] = {"rank": 16, "dtype": "bfloat16"}


@pytest.fixture(scope="module")
def capitals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ml.memorize_as("bert", CAPITALS, **CELLS).save(tmp_path_factory.mktemp("stock") / "capitals")


def test_a_folder_is_loaded_and_asked_without_transformers(capitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    model = ml.load(capitals)
    assert isinstance(model, StockModel)
    assert model.predict(list(CAPITALS)).tolist() == list(CAPITALS.values())
    assert model.predict([["New", "Zealand"]]).tolist() == ["Wellington"]
    with pytest.raises(ml.DataError, match="for a device use transformers"):
        ml.load(capitals, device="cpu")


def test_text_is_cut_by_certify_as_by_predict(capitals: Path) -> None:
    assert ml.certify(capitals, ["Saudi Arabia", "Peru"], ["Riyadh", "Lima"]).verdict == "proved"
    assert ml.certify(capitals, ["Saudi Arabia", "Peru"], ["Riyadh", "Riyadh"]).verdict == "refuted"
    letters = ml.memorize_as("gpt2", ["ab", "ba"], [1, 2], positions=True)
    assert ml.certify(letters, ["ab", "ba"], [1, 2]).verdict == "proved"


@pytest.mark.parametrize("options", [{"storage": "steps"}, CELLS], ids=["steps", "cells"])
@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_answers_have_the_shapes_and_names_of_our_own_models(name: str, options: Any) -> None:
    """Ids and labels that are numbers stay numbers; with `per="token"` a string is a label for each token."""
    model = ml.memorize_as(name, IDS, NEXT, positions=True, **options)
    assert np.array_equal(model.predict(IDS), NEXT)
    assert [row.tolist() for row in model.predict(IDS.tolist())] == NEXT.tolist()
    padded = model.predict(IDS, lengths=np.array([3, 3]))
    assert [row.tolist() for row in padded] == NEXT.tolist()
    letters = ml.memorize_as(name, ["ab", "ca"], ["xy", "zx"], per="token", **options)
    assert [row.tolist() for row in letters.predict(["ca", "ab"])] == [["z", "x"], ["x", "y"]]


def test_a_language_model_answers_with_the_next_tokens() -> None:
    model = ml.memorize_as("gpt2", [[10, 30, 20]])
    assert model.predict([[10, 30, 20], [10]])[0].tolist() == [30, 20, model.facts.names[END]]


def test_what_a_folder_cannot_answer_is_named(capitals: Path) -> None:
    model = ml.load(capitals)
    with pytest.raises(ml.DataError, match="token 0 of sequence 1 is 'France'"):
        model.predict(["Peru", "France"])
    with pytest.raises(ml.DataError, match=r"sequence 1: it has 600 tokens, and this bert has places for 514"):
        model.predict([["Peru"], ["Peru"] * 600])
    assert len(model.predict([["Peru"] * 514])) == 1
    with pytest.raises(ml.DataError, match="real vector"):
        model.predict(np.zeros((1, 2, 3)))


def test_the_command_answers_as_for_our_own_models(capitals: Path, tmp_path: Path, capsys: Any) -> None:
    own, data = tmp_path / "own", tmp_path / "data.jsonl"
    ml.memorize(CAPITALS).save(own)
    rows = [{"tokens": key, "label": label} for key, label in {**CAPITALS, "New France": "Québec"}.items()]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said = []
    for folder in (own, capitals):
        assert run(["predict", str(folder), str(data)]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert "3 of 3 labels are right" in said[1].err
    assert json.loads(said[1].out.splitlines()[3])["error"].startswith(
        "token 1 is 'France', which the model has never seen; the model was built from words: "
    )
    assert run(["predict", str(capitals), str(data), "--strict"]) != 0
    assert "a stock folder keeps none: leave --strict out; memorize-as with --unknown" in capsys.readouterr().err
    with pytest.raises(
        ml.DataError, match="'Narnia', which the model has never seen; the model was built from words: "
    ):
        ml.forget(capitals, ["Narnia"], CAPITALS)


def test_the_command_says_which_row_is_too_long(capitals: Path, tmp_path: Path, capsys: Any) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"tokens": ["Peru"] * 600}) + "\n" + json.dumps({"tokens": ["Peru"]}), encoding="utf-8")
    assert run(["predict", str(capitals), str(data)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "has places for 514" in found[0]["error"]
    assert found[1] == {"tokens": ["Peru"], "label": "Lima"}


def test_a_folder_that_is_not_ours_is_named_before_the_data(capitals: Path, tmp_path: Path, capsys: Any) -> None:
    shutil.copytree(capitals, folder := tmp_path / "other")
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (data := tmp_path / "data.csv").write_text("country,capital\nSaudi Arabia,Riyadh\n", encoding="utf-8")
    for command in (["verify"], ["locate"], ["forget", "--data", str(data), "--out", str(tmp_path / "less")]):
        assert run([command[0], str(folder), str(data), *command[1:]]) == (3 if command == ["verify"] else 2)
        assert "monolayer did not write it" in " ".join("".join(capsys.readouterr()).split()), command
