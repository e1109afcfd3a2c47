"""Folders that transformers loads and saves again: proved, asked, located and edited as they were before.

The table in `monolayer.huggingface` says which keys and values mean nothing; here each is held against transformers.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.resaved import harmless, resaved_values
from monolayer.stock.folder import StockModel
from tests.write_resaved import resaved

tf = pytest.importorskip("transformers")
ROWS = [["a", "b", "c"], ["c", "a"], ["b", "b", "a", "c"]]
LABELS: dict[str, Any] = {
    "token": [["u", "v", "w"], ["v", "u"], ["w", "w", "u", "v"]],
    "sequence": ["u", "v", "w"],
    "lm": None,
}
EVERY = [(name, task) for name, kind in ARCHITECTURES.items() for task in kind.models]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tf.utils.logging.disable_progress_bar()


def built(name: str, task: str, folder: Path, **options: Any) -> Path:
    """Cells in float32, or steps where nothing else is asked for and the number of the case is odd."""
    if not options:
        steps = EVERY.index((name, task)) % 2 == 1 and not ARCHITECTURES[name].rms
        options = {"storage": "steps"} if steps else {"rank": 16, "positions": True}
    return ml.memorize_as(name, ROWS, LABELS[task], **options).save(folder)


def changed(task: str, folder: Path, out: Path, change: Callable[[Any], Any], **saving: Any) -> Path:
    """The folder as somebody saves it again who has done something to its network."""
    from monolayer.huggingface.architecture import CLASS_SUFFIXES

    network = getattr(tf, f"AutoModel{CLASS_SUFFIXES[task]}").from_pretrained(folder)  # type: ignore[index]
    change(network).save_pretrained(out, **saving)
    tf.AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    return out


@pytest.mark.parametrize(("name", "task"), EVERY)
def test_a_folder_saved_by_transformers_is_the_folder_it_was(name: str, task: str, tmp_path: Path) -> None:
    Y, first = LABELS[task], built(name, task, tmp_path / "first")
    again = resaved(task, first, tmp_path / "again True")  # "True": its tokenizer was used
    assert not (again / "README.md").exists()
    proof = ml.certify(again, ROWS, Y)
    assert proof.verdict == "proved", proof
    assert ml.compare(again, first).same
    old, new = ml.load(first), ml.load(again)
    assert [list(row) for row in new.predict(ROWS)] == [list(row) for row in old.predict(ROWS)]
    if isinstance(old, StockModel) and old.draw.storage == "cells":
        assert ml.locate(again, ROWS, Y).to_json() == ml.locate(first, ROWS, Y).to_json()
    less, record = ml.forget(again, [1], (ROWS, Y))
    assert record.result == ml.forget(first, [1], (ROWS, Y))[1].result
    assert ml.compare(record.undo(less), first).same
    less.save(again, overwrite=True)


@pytest.mark.parametrize(
    ("storage", "name"),
    [
        (way, name)
        for way in ("cells", "steps")
        for name, kind in ARCHITECTURES.items()
        if way == "cells" or not kind.rms
    ],
)
def test_an_ablated_neuron_is_refuted_and_its_fact_is_named(name: str, storage: str, tmp_path: Path) -> None:
    kind = ARCHITECTURES[name]
    task = next(iter(kind.models))
    first = built(name, task, tmp_path / "first", storage=storage, rank=16 if storage == "cells" else None)
    model = ml.load(first)
    assert isinstance(model, StockModel)
    names = kind.names(task)  # type: ignore[arg-type]
    for letters in (["W_2"], ["W_1", "b_1"]):

        def ablate(network: Any, letters: list[str] = letters) -> Any:
            parts = network.state_dict()
            for letter in letters:
                tensor = parts[names[letter]]
                (tensor.T if letter != "b_1" and kind._turned(letter) else tensor)[0] = 0.0
            return network

        out = changed(task, first, tmp_path / letters[0], ablate)
        proof = ml.certify(out, ROWS, LABELS[task])
        assert proof.verdict == "refuted", (letters, proof)
        wrong = proof.findings[0]
        assert (wrong.kind, wrong.got != wrong.expected) == ("wrong", True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_shards_and_casts_are_proved_for_the_weights_as_stored(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    first = built(name, "token", tmp_path / "first", rank=16, positions=True)
    out = changed("token", first, tmp_path / "cast", lambda network: network.to(dtype), max_shard_size="5KB")
    shards = sorted(path.name for path in out.glob("model-*.safetensors"))
    assert len(shards) > 1
    proof = ml.certify(out, ROWS, LABELS["token"])
    assert proof.verdict == "proved", proof
    assert f"weights in {str(dtype).removeprefix('torch.')}" in proof.claim
    assert [list(row) for row in ml.load(out).predict(ROWS)] == LABELS["token"]
    with pytest.raises(ml.DataError, match=r"was changed|other data besides") if dtype != torch.float32 else _nothing():
        ml.forget(out, [0], (ROWS, LABELS["token"]))  # a cast model is not what its draw makes of the data
    index = out / "model.safetensors.index.json"
    whole = json.loads(index.read_text())
    tensor, place = next(iter(whole["weight_map"].items()))
    other = next(name for name in shards if name != place)
    for planted, words in (
        ({**whole, "weight_map": {**whole["weight_map"], tensor: other}}, "do not agree about"),
        ({**whole, "weight_map": {**whole["weight_map"], tensor: "../model.safetensors"}}, "lies in"),
        ({**whole, "metadata": {"total_size": 1.0}}, "their sizes"),
        ({**whole, "auto_map": {}}, "something else"),
    ):
        index.write_text(json.dumps(planted))
        assert words in ml.certify(out, ROWS, LABELS["token"]).reason
    index.write_text(json.dumps(whole))
    shutil.copy(first / "model.safetensors", out)  # transformers reads this one then
    assert re.search("is in the folder, and|is float32, and", ml.certify(out, ROWS, LABELS["token"]).reason)
    (out / "model.safetensors").unlink()
    (out / place).unlink()
    with pytest.raises(ml.ModelFileError, match=place):
        ml.certify(out, ROWS, LABELS["token"])


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_what_a_loss_and_a_trainer_leave_behind_changes_nothing(tmp_path: Path) -> None:
    first = built("bert", "sequence", tmp_path / "first", rank=16)

    def with_loss(network: Any) -> Any:
        network(input_ids=torch.full((1, 3), 5), labels=torch.tensor([1]))
        return network

    out = changed("sequence", first, tmp_path / "trained", with_loss)
    assert json.loads((out / "config.json").read_text())["problem_type"] == "single_label_classification"
    (out / "training_args.bin").write_bytes(b"")
    assert ml.certify(out, ROWS, LABELS["sequence"]).verdict == "proved"


def test_classes_with_the_names_that_transformers_gives_them(tmp_path: Path) -> None:
    """transformers leaves these out when it saves a configuration."""
    Y = ["LABEL_0", "LABEL_1", "LABEL_0"]
    first = ml.memorize_as("bert", ROWS, Y, rank=16).save(tmp_path / "first")
    out = resaved("sequence", first, tmp_path / "again")
    assert "id2label" not in json.loads((out / "config.json").read_text())
    assert ml.certify(out, ROWS, Y).verdict == "proved"


# -- the table -------------------------------------------------------------------------------------------------------

UNREAD = {"position_embedding_type", "rope_theta", "partial_rotary_factor"}
"""Keys that transformers 5 keeps, and no network reads. The last two count only where `rope_parameters` lack them."""


@pytest.mark.parametrize(("name", "task"), EVERY)
def test_every_row_of_the_table_leaves_the_configuration_as_it_is(name: str, task: str, tmp_path: Path) -> None:
    """Each alone and all together: then transformers cannot do anything else with it."""
    folder = built(name, task, tmp_path / "folder")
    model = ml.load(folder)
    assert isinstance(model, StockModel)
    ours, rules = model.config, harmless(model.facts)["config.json"]
    network = getsource(import_module(f"transformers.models.{name}.modeling_{name}"))

    def read(said: dict[str, Any]) -> dict[str, Any]:
        found = tf.AutoConfig.for_model(**json.loads(json.dumps(said))).to_dict()
        return {key: value for key, value in found.items() if key not in UNREAD | {"transformers_version"}}

    plain = read(ours)
    changes: list[dict[str, Any]] = [{key: value} for key, values in rules.more.items() for value in values]
    changes = [change for change in changes if "problem_type" not in change]  # it names the loss that is taken anyway
    changes.append({"transformers_version": "5.23.0"})
    together = {key: value for change in changes for key, value in change.items()}
    for change in (*changes, together):
        assert read({**ours, **change}) == plain, change
    for key in rules.lacks:
        assert read({other: value for other, value in ours.items() if other != key}) == plain, key
    kept = {key: value for key, value in {**ours, **together}.items() if key not in rules.lacks}
    assert read(kept) == plain
    for key in UNREAD & together.keys():
        assert not re.search(rf"config\.{key}\b|getattr\([^)]*{key}", network), key


def test_another_value_in_the_place_of_a_row_is_undecided(tmp_path: Path) -> None:
    """Value and type must be those of the table, in every file."""
    folder = built("gpt2", "lm", tmp_path / "first", rank=16, positions=True)
    again = resaved("lm", folder, tmp_path / "again")
    rows = resaved_values()["config.json"]["gpt2"]["more"]
    planted: list[tuple[str, str, Any]] = [
        *(("config.json", key, _other(values[0])) for key, values in rows.items()),
        ("config.json", "transformers_version", "five"),
        ("config.json", "transformers_version", "5.23.0\n"),
        ("config.json", "problem_type", "single_label_classification"),  # this one is for labels of sequences
        ("config.json", "monolayer_draw", {}),
        ("config.json", "is_decoder", False),  # a row of other architectures
        ("tokenizer_config.json", "tokenizer_class", "GPT2Tokenizer"),
        ("tokenizer_config.json", "is_local", 1),
        ("tokenizer_config.json", "extra_special_tokens", {"a": "a"}),
        ("tokenizer_config.json", "added_tokens_decoder", {}),
        ("tokenizer_config.json", "max_length", 3),
        (
            "tokenizer.json",
            "truncation",
            {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        ),
        ("tokenizer.json", "padding", {"strategy": {"Fixed": 9}}),
        ("generation_config.json", "transformers_version", 5),
        ("generation_config.json", "do_sample", True),
        ("generation_config.json", "do_sample", None),
    ]
    for file, key, value in planted:
        path = again / file
        before = path.read_text(encoding="utf-8")
        path.write_text(json.dumps({**json.loads(before), key: value}), encoding="utf-8")
        proof = ml.certify(again, ROWS)
        assert proof.verdict == "undecided", (file, key, value)
        assert key in proof.reason, proof.reason
        path.write_text(before, encoding="utf-8")
    whole = json.loads((again / "generation_config.json").read_text())
    del whole["do_sample"]  # as transformers 4 saves it: pipelines of transformers 5 then sample
    (again / "generation_config.json").write_text(json.dumps(whole))
    assert "nothing of do_sample" in ml.certify(again, ROWS).reason


def _other(value: Any) -> Any:
    """A value of another type that Python takes for the same where there is one, else another value."""
    return {True: 1, False: 0, None: "None"}.get(value, f"{value}x")


def test_special_tokens_of_transformers_4_are_known_by_their_parts(tmp_path: Path) -> None:
    folder = built("bert", "token", tmp_path / "first", rank=16)
    parts = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    said = {f"{part}_token": {"content": text, **parts} for part, text in ARCHITECTURES["bert"].special.items()}
    path = folder / "special_tokens_map.json"
    path.write_text(json.dumps(said))
    assert ml.certify(folder, ROWS, LABELS["token"]).verdict == "proved"
    assert tf.AutoTokenizer.from_pretrained(folder)(["ab"])["input_ids"] == [[2, 5, 6]]
    for planted in ({**said, "pad_token": {**said["pad_token"], "lstrip": True}}, {**said, "pad_token": "[PAD]"}):
        path.write_text(json.dumps(planted))
        assert "special_tokens_map.json" in ml.certify(folder, ROWS, LABELS["token"]).reason


@pytest.mark.parametrize("name", ["bert", "gpt2", "opt"])
def test_only_neurons_that_add_nothing_are_left_out(name: str, tmp_path: Path) -> None:
    """One more neuron in a folder of steps: pruned, or with a bias that is always written."""
    task = next(iter(ARCHITECTURES[name].models))
    first = built(name, task, tmp_path / "first", storage="steps")
    model = ml.load(first)
    assert isinstance(model, StockModel)
    arrays, facts = model.arrays, replace(model.facts, neurons=model.facts.neurons + 1)
    reads, writes = arrays["W_1"][0], arrays["W_2"][0]
    assert writes.any()
    none = np.zeros_like(reads)
    for number, (row, bias, put, verdict, only) in enumerate(
        [
            (none, 0.0, none, "proved", None),
            (none, -1.0, writes, "proved", None),
            (reads, 1.0, none, "proved", "proved"),  # with only= it may hold the threshold of a fact
            (none, 6.0, 64.0 * writes, None, "proved"),  # which is written everywhere
            (reads, 1e6, 64.0 * writes, None, "proved"),
        ]
    ):
        more = {"W_1": row, "b_1": np.array(bias), "W_2": put}
        grown = {**arrays, **{letter: np.append(arrays[letter], part[None], axis=0) for letter, part in more.items()}}
        tensors = facts.architecture.tensors(facts.task, grown)
        out = replace(model, facts=facts, tensors=tensors).save(tmp_path / str(number))
        found = ml.certify(out, ROWS, LABELS[task]).verdict
        assert found == verdict or (verdict is None and found != "proved"), (number, found)
        if only is not None:
            assert ml.certify(out, ROWS, LABELS[task], only=True).verdict != only
