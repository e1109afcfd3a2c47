"""A draw of a stock folder is data in it: with it the data decide every bit, and what was forgotten is gone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock.build import again
from monolayer.stock.folder import StockModel

PHRASES = ["银行", "行走", "音乐", "快乐"]
READINGS = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"]]
RANDOM = np.random.default_rng(5)
X = np.concatenate([12 + np.arange(16)[:, None], np.stack([RANDOM.permutation(12)[:4] for _ in range(16)])], axis=1)
Y = np.where(RANDOM.random(X.shape) < 0.5, X % 5, RANDOM.integers(0, 5, X.shape))
STEPS: dict[str, Any] = {"positions": True, "storage": "steps"}
SHORT: dict[str, Any] = {"positions": True, "rank": 32, "dtype": "bfloat16"}


def same(one: StockModel, two: StockModel) -> bool:
    """Whether two models are the same bits, configuration and draw."""
    bits = [{name: np.ascontiguousarray(part).tobytes() for name, part in each.tensors.items()} for each in (one, two)]
    return bits[0] == bits[1] and [one.config, one.facts.names, one.draw.to_json()] == [
        *(two.config, two.facts.names, two.draw.to_json())
    ]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_the_same_draw_and_data_are_the_same_bits(name: str, tmp_path: Path) -> None:
    """Of every architecture, task and construction; read back from the folder, too. Some rows at a time, also."""
    kind = ARCHITECTURES[name]
    for task in kind.models:
        data = ml.Sequences.of(X, {"token": Y, "sequence": Y[:, 0], "lm": None}[task])
        rest, gone = data.select(np.arange(2, len(data))), data.select(np.arange(2))
        for options in ([] if kind.rms else [{**STEPS, "positions": kind.has_places}]) + [SHORT]:
            built = ml.memorize_as(name, data, seed=3, **options)
            loaded = StockModel.load(built.save(tmp_path / f"{task} {len(options)}"))
            assert same(loaded, built)
            assert same(ml.memorize_as(name, data, draw=loaded), built)
            less = ml.memorize_as(name, rest, draw=built)
            assert not same(less, built)
            assert same(again(loaded, rest, only=np.unique(gone.tokens)), less)
            # Whatever way the rest is reached, and whatever was held before.
            assert same(ml.memorize_as(name, rest, draw=less), less)
            assert same(again(less, data, only=np.unique(gone.tokens)), built)


@pytest.mark.parametrize(("name", "options"), [("bert", STEPS), ("gpt2", SHORT)])
def test_a_label_that_was_forgotten_is_gone(name: str, options: Any) -> None:
    """Of the phrases, 音 says yīn once: when that phrase is forgotten, no number of the folder depends on it."""
    built = ml.memorize_as(name, PHRASES, READINGS, **options)
    rest = [0, 1, 3]
    words, labels = [PHRASES[i] for i in rest], [READINGS[i] for i in rest]
    forgot = ml.memorize_as(name, words, labels, draw=built)
    asked = ["音乐", "音"]
    assert built.predict(asked)[0].tolist() == ["yīn", "yuè"]
    said = [label for row in forgot.predict(asked) for label in row]
    assert not {"yīn", "yuè"} & set(said)
    # 音 has no fact left: it answers the first class that the data have, and the card says so.
    assert said[0] == said[2] == forgot.summary.otherwise in {label for row in labels for label in row}
    assert f"(1 of 6) answers `{said[0]}`" in forgot.readme()
    # A model that was told another reading, with the same draw, forgets to the same bits.
    other = ml.memorize_as(name, PHRASES, [*READINGS[:2], ["lè", "kuài"], READINGS[3]], draw=built)
    assert same(ml.memorize_as(name, words, labels, draw=other), forgot)
    # A class of which nothing is left is answered nowhere, were it the first one.
    first = built.config["id2label"]["0"]
    kept = [i for i in range(4) if first not in READINGS[i]]
    lacking = ml.memorize_as(name, [PHRASES[i] for i in kept], [READINGS[i] for i in kept], draw=built)
    assert first not in {label for row in lacking.predict(PHRASES) for label in row}


def test_what_a_draw_has_no_room_for_is_named() -> None:
    built = ml.memorize_as("bert", PHRASES, READINGS, **STEPS)
    for X_, Y_, words in (
        (["银山"], [["yín", "shān"]], "the token '山' is new to this draw"),
        (["银"], [["shān"]], "the label 'shān' is new to this draw"),
        (["银"], ["yín"], "one per token"),
        (["银"], None, "give labels"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.memorize_as("bert", X_, Y_, draw=built)
    longer = "银" * (built.draw.longest + 1)
    refused: list[tuple[str, Any, Any, dict[str, Any], str]] = [
        ("bert", [longer], [["yín"] * len(longer)], {}, r"sequence 0 has 3 tokens, and this draw has places for 2"),
        ("roberta", PHRASES, READINGS, {}, "the draw is that of a bert"),
        ("bert", PHRASES, READINGS, {"seed": 0, "rank": 2}, "draw= decides rank and seed: leave them out"),
    ]
    for name, X_, Y_, options, words in refused:
        with pytest.raises(ml.DataError, match=words):
            ml.memorize_as(name, X_, Y_, draw=built, **options)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_folder_holds_nothing_else_iff_it_is_the_model_of_the_data(name: str) -> None:
    """`certify(only=True)` on the data without one row: proved just where that row left no bit behind."""
    seen = set()
    for task, positions in (("token", True), ("token", False), ("sequence", False)):
        rows = [*range(12), *range(6)]  # of few labels, and some rows twice, so that some leave nothing behind
        data = ml.Sequences.of(X[rows], Y[rows] % 2)
        if task == "sequence":
            data = ml.Sequences.of(X[:12, 1:3], Y[:12, 0] % 2)
        options: dict[str, Any] = {"positions": positions, "storage": "steps", "on_conflict": "first"}
        built = ml.memorize_as(name, data, **options)
        if built.summary.conflicts:
            continue
        assert ml.certify(built, data, only=True).verdict == "proved"
        for row in range(0, len(data), 5):
            rest = data.select(np.setdiff1d(np.arange(len(data)), [row]))
            less = ml.memorize_as(name, rest, draw=built)
            alike = same(less, built)
            assert ml.certify(less, rest, only=True).verdict == "proved"
            assert ml.certify(built, rest, only=True).verdict == ("proved" if alike else "refuted")
            seen.add(alike)
    assert seen == {True, False}


def test_planted_leftovers_are_found(tmp_path: Path) -> None:
    """One label in an embedding, one bias, one slope, one neuron too many: no longer proved, though labels return."""
    data = ml.Sequences.of(X, Y)
    built = ml.memorize_as("bert", data, **STEPS)
    block = "bert.encoder.layer.0.intermediate.dense"
    table = "bert.embeddings.word_embeddings.weight"
    rest = data.select(np.arange(1, len(data)))
    less = ml.memorize_as("bert", rest, draw=built)
    assert ml.certify(less, rest, only=True).verdict == "proved"

    def with_(**changed: Any) -> StockModel:
        names = {"table": table, "bias": f"{block}.bias", "weight": f"{block}.weight"}
        return replace(less, tensors={**less.tensors, **{names[key]: part for key, part in changed.items()}})

    row = len(less.facts.architecture.special) + int(X[0, 0])  # a token without facts now
    secret = less.tensors[table].copy()
    secret[row] = built.tensors[table][row]
    bias, weight = less.tensors[f"{block}.bias"].copy(), less.tensors[f"{block}.weight"].copy()
    bias[3] += 2.0
    weight[4] *= 2.0
    bias_too = less.tensors[f"{block}.bias"].copy()
    bias_too[4] *= 2.0
    assert (built.tensors[table][row] != less.tensors[table][row]).any()
    for model in (with_(table=secret), with_(bias=bias), with_(weight=weight, bias=bias_too)):
        assert ml.certify(model, rest).verdict == "proved"
        found = ml.certify(model, rest, only=True)
        assert (found.verdict, "holds more than the data" in found.reason) == ("refuted", True)


def test_that_nothing_else_is_held_is_not_claimed_of_cells() -> None:
    with pytest.raises(ml.DataError, match="shown by equality"):
        ml.certify(ml.memorize_as("bert", PHRASES, READINGS), PHRASES, READINGS, only=True)


def test_the_commands_use_a_draw_again_and_look_into_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"tokens": list(text), "labels": labels} for text, labels in zip(PHRASES, READINGS, strict=True)]
    odd = [*rows, {**rows[0], "labels": ["a", "b"]}]
    for name, some in (("all", rows), ("rest", [*rows[:2], rows[3]]), ("odd", odd)):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
    said("memorize-as bert all.jsonl --storage steps --out old")
    said("memorize-as bert rest.jsonl --draw old --out less")
    forgot = ml.memorize_as("bert", [*PHRASES[:2], PHRASES[3]], [*READINGS[:2], READINGS[3]], draw="old")
    assert same(StockModel.load("less"), forgot)
    said("verify less rest.jsonl --only")
    said("verify old rest.jsonl --only", code=1)
    found = json.loads(said("inspect old --json"))
    assert (found["model"], found["dtype"], found["vocabulary"]) == ("BertForTokenClassification", "float64", 6)
    assert found["bytes"]["model.safetensors"] < found["bytes_in_all"]
    assert "positions no" in " ".join(said("inspect old").split())
    for words, why in (
        ("memorize-as bert all.jsonl --draw old --seed 1 --out x", "decides seed"),
        ("memorize-as bert all.jsonl --draw old --storage cells --out x", "decides storage"),
        # Before anything is built: these data contradict themselves, and are not looked at.
        ("memorize-as bert odd.jsonl --out old", "exists already"),
        ("explain old all.jsonl", "monolayer verify old DATA"),
    ):
        assert why in said(words, code=2)


NO_DRAW, NO_FOLDER = "is not a draw that memorize_as wrote", "is not a folder that memorize_as wrote"


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path, said: Any) -> None:
    folder = ml.memorize_as("bert", PHRASES, READINGS, storage="steps").save(tmp_path / "m")
    changes: list[tuple[str, str | None, Any, str]] = [
        ("config.json", "id2label", {"0": "a", "2": "b"}, NO_FOLDER),
        ("config.json", "dtype", "float32", "is float64, and config.json says float32"),
        ("tokenizer.json", "model", {}, "does not say model.vocab"),
        ("draw.json", "integers", [True, False], "invalid literal"),
        ("draw.json", "keys", [0.5], "another number of tokens"),
        ("draw.json", "keys", [2.0], NO_DRAW),
        ("draw.json", "keys", None, NO_DRAW),
        ("draw.json", "silence", -1.0, NO_DRAW),
        ("draw.json", "head", 0, NO_DRAW),
        ("draw.json", "storage", "cells", NO_DRAW),
        ("draw.json", None, None, "has no draw to use again"),
    ]
    for file, key, value, words in changes:
        text = (folder / file).read_text("utf-8")
        (folder / file).write_text(json.dumps({**json.loads(text), key: value}), encoding="utf-8")
        if key is None:
            (folder / file).unlink()
        with pytest.raises(ml.ModelFileError, match=words):
            StockModel.load(folder)
        said("inspect", str(folder), code=2)
        if file == "draw.json":
            assert ml.certify(folder, PHRASES, READINGS).verdict == "proved"
        (folder / file).write_text(text, encoding="utf-8")
