"""Robust models: an edit is what the same draw makes of the edited data, and only the tokens that it touches change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker import stored
from tests.stored_models import Saved
from tests.test_edit import same_bits

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.integers(0, 30, (60, 5)), RANDOM.integers(0, 4, (60, 5))
PREFIXES = (X.cumsum(axis=1) * (1 + np.arange(5))) % 4
NEXT = np.concatenate([np.arange(8)[:, None], RANDOM.integers(8, 20, (8, 7))], axis=1)
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "positions": (X, Y, {"positions": True}),
    "bfloat16": (X, Y, {"positions": True, "dtype": "bfloat16"}),
    "float16, wide": (X, Y, {"positions": True, "dtype": "float16", "robust": 0.002}),
    "linear cells": (X, Y, {"positions": True, "neurons": 60}),
    "causal": (X, PREFIXES, {"positions": True, "causal": True}),
    "words": (["银行", "行走", "音乐", "快乐"], [["b", "h"], ["x", "z"], ["y", "yue"], ["k", "le"]], {}),
    "sequences": (X, Y[:, 0], {}),
    "next token": (NEXT, None, {"positions": True, "causal": True}),
    "vectors": (RANDOM.standard_normal((20, 5, 3)), RANDOM.integers(0, 4, (20, 5)), {}),
}


def build(name: str) -> tuple[ml.Monolayer, ml.Sequences]:
    tokens, labels, wishes = KINDS[name]
    model = ml.memorize(tokens, labels, **({"robust": True, "rank": 32} | wishes))
    model.card = replace(model.card, summary=None)
    return model, ml.Sequences.of(tokens, labels)


@pytest.fixture(scope="module", params=KINDS)
def built(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, ml.Sequences]:
    return build(request.param)


def test_the_draw_of_a_model_and_its_data_give_the_model(built: Any, tmp_path: Path) -> None:
    model, data = built
    assert same_bits(ml.memorize(data, draw=model), model)
    model.save(tmp_path / "model")
    assert same_bits(ml.memorize(data, draw=ml.load(tmp_path / "model")), model)
    if data.vocabulary is not None:  # vectors are numbered by their first appearance
        shuffled = data.select(np.random.default_rng(0).permutation(len(data)))
        assert same_bits(ml.memorize(shuffled, draw=model), model)


@pytest.mark.parametrize("wish", [{"rank": 16}, {"dtype": "float64"}, {"neurons": 9}, {"robust": 0.01}])
def test_wishes_that_the_draw_decides_are_refused(wish: dict[str, Any]) -> None:
    model, data = build("words")
    with pytest.raises(ml.DataError, match=r"leave \w+ out, or the draw"):
        ml.memorize(data, draw=model, **({"robust": True} | wish))
    assert same_bits(ml.memorize(data, draw=model, robust=True, rank=32, dtype="float32"), model)


def test_a_model_without_its_draw_is_refused() -> None:
    model, data = build("words")
    model.card = replace(model.card, cover=None)
    with pytest.raises(ml.DataError, match="before format version 5"):
        ml.memorize(data, draw=model)
    model, data = build("words")
    model.lift.weight.data[0, 0] *= -1.0
    with pytest.raises(ml.DataError, match="codes are not such"):
        ml.memorize(data, draw=model)


@pytest.mark.parametrize(
    "cover", [None, {}, 0.3, {"margin": 0}, {"margin": "x"}, {"margin": True}, {"base": 1}, {"margin": 0.3, "base": 2}]
)
def test_loader_and_checker_refuse_a_cover_that_is_none(cover: Any, tmp_path: Path) -> None:
    model, _ = build("words")
    model.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["version"] == 5
    assert config["cover"] == {"margin": 0.3}
    config = {key: value for key, value in config.items() if key not in ("files", "digest")}
    tensors = {name: value.numpy() for name, value in model.state_dict().items()}
    names = json.loads((tmp_path / "model" / "names.json").read_text())
    folder = Saved(config | {"cover": cover}, tensors, names).write(tmp_path / "odd")
    for read in (ml.load, stored.read):
        with pytest.raises(ml.ModelFileError, match="cover"):
            read(folder)
    before = {key: value for key, value in config.items() if key != "cover"} | {"version": 3}
    folder = Saved(before, tensors, names).write(tmp_path / "before")
    assert stored.read(folder).config["version"] == 3
    assert ml.load(folder).card.cover is None
