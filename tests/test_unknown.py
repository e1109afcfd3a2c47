"""Folders with a class for what their data do not hold: proved for given keys, as any label is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.cli import run
from monolayer.stock.folder import StockModel

RANDOM = np.random.default_rng(4)
KEYS = [[f"w{word}" for word in RANDOM.permutation(30)[:3]] for _ in range(60)]
VALUES = [f"v{row % 20}" for row in range(60)]
TAGS = [[f"t{row % 7}", f"u{row}", f"v{row}"] for row in range(60)]
NEAR = [
    [*key[:place], other, *key[place + 1 :]] for key in KEYS for place, other in ((0, "w29"), (1, "w3"), (2, "w11"))
]
NEAR = [key for key in NEAR if key not in KEYS and sorted(key) not in [sorted(one) for one in KEYS]]
"""One word is another."""
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "bert": ("bert", VALUES, {}),
    "distilbert, tags": ("distilbert", TAGS, {"positions": True}),
    "gpt2 float16, tags": ("gpt2", TAGS, {"positions": True, "dtype": "float16"}),
    "llama bfloat16": ("llama", VALUES, {"positions": True, "dtype": "bfloat16"}),
}


def asked(count: int, labels: Any) -> Any:
    """The label of keys that are to be unknown: that of their last word, where words have labels."""
    return [[None, None, "unknown"]] * count if labels is TAGS else ["unknown"] * count


@pytest.fixture(scope="module", params=CASES)
def built(request: pytest.FixtureRequest) -> tuple[StockModel, Any]:
    name, labels, options = CASES[request.param]
    options = {"on_conflict": "first", **options}
    return ml.memorize_as(name, KEYS, labels, unknown="unknown", **options), labels


def test_what_is_in_the_data_is_answered_and_what_is_not_is_unknown(built: tuple[StockModel, Any]) -> None:
    model, labels = built
    data = model.data
    assert data is not None
    if model.summary is not None and model.summary.conflicts == 0:
        assert ml.certify(model, data).verdict == "proved"
        assert ml.certify(model, KEYS, asked(len(KEYS), labels)).verdict == "refuted"
    strange = [["never", *KEYS[0][1:]], [*KEYS[1][:2], "seen"], ["never", "seen", "words"]]
    for keys in (NEAR, strange):
        proof = ml.certify(model, keys, asked(len(keys), labels))
        assert proof.verdict == "proved", proof
        assert {str(np.ravel(one)[-1]) for one in model.predict(keys)} == {"unknown"}
    # Whatever the key: where no neuron wakes, the head sees one and the same label word.
    columns = np.flatnonzero(model.arrays["W_H"].any(axis=0))
    assert (model.arrays["tokens"][:, columns] == model.arrays["tokens"][0, columns]).all()


def test_transformers_answers_unknown_for_unknown_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    capitals = {"France": "Paris", "Saudi Arabia": "Riyadh", "Japan": "Tokyo", "New Zealand": "Wellington"}
    folder = ml.memorize_as("bert", capitals, unknown="not in the table").save(tmp_path / "bert")
    ask = transformers.pipeline("text-classification", model=str(folder))
    said = [one["label"] for one in ask([*capitals, "Narnia", "New Narnia", "New Arabia", "Saudi", "France Japan"])]
    assert said == [*capitals.values(), *["not in the table"] * 5]
    # A sequence that is too long: the tokenizer cuts it off when asked to, and says so when not.
    assert len(ask.tokenizer("France " * 900, truncation=True)["input_ids"]) == ask.tokenizer.model_max_length
    with pytest.raises((IndexError, RuntimeError)):
        ask("France " * 900)
    assert ask("France " * 900, truncation=True)[0]["label"] in {*capitals.values(), "not in the table"}


def test_a_key_that_was_forgotten_is_unknown() -> None:
    model = ml.memorize_as("gpt2", KEYS, VALUES, unknown="unknown", positions=True)
    less, _ = ml.forget(model, [3, 8], (KEYS, VALUES))
    assert less.predict([KEYS[3], KEYS[4]]).tolist() == ["unknown", VALUES[4]]
    rest = [row for row in range(60) if row not in (3, 8)]
    anew = ml.memorize_as("gpt2", [KEYS[row] for row in rest], [VALUES[row] for row in rest], draw=model)
    assert ml.compare(less, anew).same
    with pytest.raises(ml.DataError, match="draw= decides unknown"):
        ml.memorize_as("gpt2", KEYS, VALUES, draw=model, unknown="unknown")


def test_rows_may_say_that_they_are_unknown_and_labels_may_be_integers() -> None:
    X = np.array([[1, 2], [1, 3], [4, 2]])
    model = ml.memorize_as("bert", X, [7, 5, -1], unknown=-1)
    assert model.facts.neurons == 2
    assert model.predict(np.array([[1, 2], [1, 3], [4, 2], [9, 9]])).tolist() == [7, 5, -1, -1]


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        (VALUES, {"unknown": "unknown", "storage": "steps"}, "unknown= needs storage='cells'"),
        (VALUES, {"unknown": ""}, "must be the name of a class"),
        (list(range(60)), {"unknown": "unknown"}, "such as unknown=-1"),
        (None, {"unknown": "unknown"}, "give a label per sequence or per token"),
    ],
)
def test_what_cannot_be_is_refused(labels: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        ml.memorize_as("gpt2", KEYS, labels, **options)


def test_the_command_line_takes_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "data.csv", str(tmp_path / "out")
    data.write_text("country,capital\nFrance,Paris\nSaudi Arabia,Riyadh\nJapan,Tokyo\n", encoding="utf-8")
    assert run(["memorize-as", "bert", str(data), "--unknown", "no such country", "--out", out]) == 0
    assert "`no such country`" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"tokens": ["Japan"]}\n{"tokens": ["Saudi", "Narnia"]}\n', encoding="utf-8")
    capsys.readouterr()
    assert run(["predict", out, str(asked)]) == 0
    assert [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()] == ["Tokyo", "no such country"]
