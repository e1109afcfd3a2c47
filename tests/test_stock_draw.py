"""A draw of a stock folder is data in it: with it the data decide every bit, and what was forgotten is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.stock.again import again
from monolayer.stock.answers import answers
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.folder import StockModel

PHRASES = ["银行", "行走", "音乐", "快乐"]
READINGS = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"]]
RANDOM = np.random.default_rng(5)
X = np.concatenate([12 + np.arange(40)[:, None], np.stack([RANDOM.permutation(12)[:4] for _ in range(40)])], axis=1)
Y = np.where(RANDOM.random(X.shape) < 0.5, X % 5, RANDOM.integers(0, 5, X.shape))
STEPS: dict[str, Any] = {"positions": True}
SHORT: dict[str, Any] = {"positions": True, "robust": True, "rank": 32, "dtype": "bfloat16"}


def same(one: StockModel, two: StockModel) -> bool:
    """Whether two models are the same bits, configuration and draw."""
    bits = [{name: np.ascontiguousarray(part).tobytes() for name, part in each.tensors.items()} for each in (one, two)]
    return bits[0] == bits[1] and [one.config, one.names, one.draw.to_json()] == [
        *(two.config, two.names, two.draw.to_json())
    ]


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_the_same_draw_and_data_are_the_same_bits(name: str, tmp_path: Path) -> None:
    """Of every architecture, task and construction; read back from the folder, too. Some rows at a time, also."""
    kind = ARCHITECTURES[name]
    for task in kind.models:
        data = ml.Sequences.of(X, {"token": Y, "sequence": Y[:, 0], "lm": None}[task])
        rest, gone = data.select(np.arange(2, len(data))), data.select(np.arange(2))
        for options in ([] if kind.short else [{**STEPS, "positions": kind.places}]) + [SHORT]:
            built = ml.memorize_as(name, data, seed=3, **options)
            loaded = StockModel.load(built.save(tmp_path / f"{task} {len(options)}"))
            assert same(loaded, built)
            assert same(ml.memorize_as(name, data, draw=loaded), built)
            less = ml.memorize_as(name, rest, draw=built)
            assert not same(less, built)
            assert same(again(loaded, rest, only=gone), less)
            # Whatever way the rest is reached, and whatever was held before.
            assert same(ml.memorize_as(name, rest, draw=less), less)
            assert same(again(less, data, only=gone), built)


@pytest.mark.parametrize("options", [STEPS, SHORT], ids=["steps", "robust"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_label_that_was_forgotten_is_gone(name: str, options: Any, tmp_path: Path) -> None:
    """Of the phrases, 音 says yīn once: when that phrase is forgotten, no number of the folder depends on it."""
    built = ml.memorize_as(name, PHRASES, READINGS, **options)
    rest = [0, 1, 3]
    words, labels = [PHRASES[i] for i in rest], [READINGS[i] for i in rest]
    forgot = ml.memorize_as(name, words, labels, draw=built)
    asked = ml.Sequences.of(["音乐", "音"], [["yīn", "yuè"], ["yīn"]])
    assert answers(built, asked)[:2] == ["yīn", "yuè"]
    said = answers(forgot, asked)
    assert not {"yīn", "yuè"} & set(said)
    # 音 has no fact left: it answers the first class that the data have, and the card says so.
    assert said[0] == said[2] == forgot.summary.otherwise in {label for row in labels for label in row}
    assert f"(1 of 6) answers `{said[0]}`" in forgot.card()
    # A model that was told another reading, with the same draw, forgets to the same bits.
    other = ml.memorize_as(name, PHRASES, [*READINGS[:2], ["lè", "kuài"], READINGS[3]], draw=built)
    assert same(ml.memorize_as(name, words, labels, draw=other), forgot)
    # A class of which nothing is left is answered nowhere, were it the first one.
    first = built.config["id2label"]["0"]
    kept = [i for i in range(4) if first not in READINGS[i]]
    lacking = ml.memorize_as(name, [PHRASES[i] for i in kept], [READINGS[i] for i in kept], draw=built)
    assert first not in answers(lacking, ml.Sequences.of(PHRASES, READINGS))


@pytest.mark.parametrize("options", [STEPS, SHORT], ids=["steps", "robust"])
def test_forgotten_rows_change_answers_as_a_fresh_build_does(options: Any) -> None:
    """Ten rows: at tokens with at most one label left both must say that label; most answers there change."""
    rest, gone = np.arange(10, 40), np.arange(10)
    built = ml.memorize_as("bert", X, Y, **options)
    forgot = ml.memorize_as("bert", X[rest], Y[rest], draw=built)
    fresh = ml.memorize_as("bert", X[rest], Y[rest], seed=11, **options)
    asked = ml.Sequences.of(X[gone], Y[gone])
    now = np.array(answers(forgot, asked)).reshape(Y[gone].shape)
    left = {token: set(Y[rest][X[rest] == token].tolist()) for token in np.unique(X[gone]).tolist()}
    assert [len(left[token]) for token in X[gone, 0].tolist()] == [0] * 10
    assert set(now[:, 0].tolist()) == {int(forgot.summary.otherwise)} == {int(fresh.summary.otherwise)}
    assert (now != Y[gone]).sum() >= 20


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_what_is_said_to_be_answered_is_what_transformers_answer(name: str, tmp_path: Path) -> None:
    """Of models with facts forgotten, on all the rows: our own evaluation against theirs."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    kind = ARCHITECTURES[name]
    task = "token" if "token" in kind.models else "sequence"
    data = ml.Sequences.of(X, Y if task == "token" else Y[:, 0])
    for options in ([] if kind.short else [{**STEPS, "positions": kind.places}]) + [SHORT]:
        built = ml.memorize_as(name, data, **options)
        less = ml.memorize_as(name, data.select(np.arange(10, 40)), draw=built)
        folder = less.save(tmp_path / str(len(options)))
        auto = {"token": "AutoModelForTokenClassification", "sequence": "AutoModelForSequenceClassification"}[task]
        dtype = torch.float32 if less.draw.robust else torch.float64
        loaded = getattr(transformers, auto).from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
        ids = torch.from_numpy(np.append(np.full((40, 1), 2), X + len(less.special), axis=1))
        with torch.no_grad():
            logits = loaded(input_ids=ids).logits
        read = logits[:, 1:] if task == "token" else logits
        theirs = [loaded.config.id2label[number] for number in read.argmax(-1).reshape(-1).tolist()]
        assert theirs == [str(label) for label in answers(less, data)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 0}, "draw= decides seed: leave it out"),
        ({"positions": True}, "draw= decides positions"),
        ({"activation": "relu6"}, "draw= decides activation"),
        ({"width": 64}, "draw= decides width"),
        ({"robust": True, "rank": 128, "dtype": "bfloat16"}, "draw= decides robust and rank and dtype: leave them out"),
    ],
)
def test_options_that_a_draw_decides_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    built = ml.memorize_as("bert", PHRASES, READINGS)
    with pytest.raises(ml.DataError, match=words):
        ml.memorize_as("bert", PHRASES, READINGS, draw=built, **options)


def test_what_a_draw_has_no_room_for_is_named() -> None:
    built = ml.memorize_as("bert", PHRASES, READINGS, positions=True)
    for X_, Y_, words in (
        (["银山"], [["yín", "shān"]], "the token '山' is new to this draw"),
        (["银"], [["shān"]], "the label 'shān' is new to this draw"),
        (["银"], ["yín"], "one per token"),
        (["银"], None, "give labels"),
    ):
        with pytest.raises(ml.DataError, match=words):
            ml.memorize_as("bert", X_, Y_, draw=built)
    longer = built.draw.longest
    assert longer is not None
    with pytest.raises(
        ml.DataError, match=rf"sequence 0 has {longer + 1} tokens, and this draw has places for {longer}"
    ):
        ml.memorize_as("bert", ["银" * (longer + 1)], [["yín"] * (longer + 1)], draw=built)
    with pytest.raises(ml.DataError, match="the draw is that of a bert"):
        ml.memorize_as("roberta", PHRASES, READINGS, draw=built)


@pytest.mark.parametrize(
    ("part", "value"),
    [("steps", {"keys": []}), ("cut", "anyhow"), ("gate", -1.0), ("keys", [2.0]), ("places", "many"), (None, "[]")],
)
def test_a_file_that_is_no_draw_is_refused(part: str | None, value: Any, tmp_path: Path) -> None:
    folder = ml.memorize_as("bert", PHRASES, READINGS).save(tmp_path / "m")
    path = folder / "draw.json"
    said = json.loads(path.read_text("utf-8"))
    if part in ("gate", "keys"):
        said["steps"][part] = value
    elif part is not None:
        said[part] = value
    path.write_text(value if part is None else json.dumps(said), encoding="utf-8")
    with pytest.raises(ml.ModelFileError, match="is not a draw that memorize_as wrote"):
        StockModel.load(folder)
    path.unlink()
    with pytest.raises(ml.ModelFileError, match="has no draw to use again"):
        StockModel.load(folder)
    assert ml.certify(folder, PHRASES, READINGS).verdict == "proved"
