"""Stock folders used with transformers alone: every architecture, task and format, offline."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.huggingface.architecture import CLASS_SUFFIXES
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock.folder import StockModel
from tests.datasets import close_keys
from tests.each_stock import LABELS, OTHERS, ROWS, TEXTS, built

tf = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Offline, and no warning is ignored."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tf.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def loaded(model: StockModel, folder: Path, attention: str) -> tuple[Any, Any]:
    """Tokenizer and network, as everyone loads them."""
    tokenizer = tf.AutoTokenizer.from_pretrained(folder)
    loads = getattr(tf, f"AutoModel{CLASS_SUFFIXES[model.facts.task]}").from_pretrained
    network = loads(folder, attn_implementation=attention)
    assert type(network).__name__ == model.facts.architecture.models[model.facts.task]
    assert str(network.dtype) == f"torch.{model.dtype}"
    longest = int(model.data.lengths.max())  # type: ignore[union-attr]
    assert tokenizer.model_max_length == model.facts.room == longest + 1 + 512
    long = torch.full((1, tokenizer.model_max_length), 5)
    with torch.no_grad():  # the inputs of exporters, as long as the model has places, are answered with numbers
        assert torch.isfinite(network(input_ids=long).logits).all()
    return tokenizer, network


def check_training(model: StockModel, network: Any, encoded: Any, wanted: Any) -> float:
    """The loss; a step of training would move the weights that hold facts. Cells in float32."""
    network = network if network.dtype == torch.float64 else network.float()
    loss = network(**encoded, labels=wanted).loss
    loss.backward()
    moved = {name for name, part in network.named_parameters() if part.grad is not None and part.grad.any()}
    letters, names = {"tokens", "W_H"}, model.facts.architecture.names(model.facts.task)
    if model.summary.steps:  # type: ignore[union-attr]  # a step is flat where facts are, so what it reads does not move
        letters |= {"W_2"} if model.draw.storage == "steps" else {"W_1", "W_2"}
    assert {names[letter] for letter in letters} <= moved
    return float(loss.item())


@pytest.mark.parametrize(
    ("name", "task"), [(name, task) for name, kind in ARCHITECTURES.items() for task in kind.models if task != "lm"]
)
def test_every_label_comes_back(name: str, task: str, tmp_path: Path) -> None:
    model, folder, attentions = built(name, task, tmp_path)
    texts = [" ".join(row) for row in ROWS]
    for attention in attentions:
        tokenizer, network = loaded(model, folder, attention)
        number, encoded = network.config.label2id, tokenizer(texts, padding=True, return_tensors="pt")
        wanted = torch.tensor([number[row[-1]] for row in LABELS])
        if task == "token":
            wanted = torch.full(encoded["input_ids"].shape, -100)
            for row, labels in enumerate(LABELS):
                wanted[row, 1 : 1 + len(labels)] = torch.tensor([number[label] for label in labels])
        with torch.no_grad():
            best = network(**encoded).logits.argmax(-1)
            alone = network(**tokenizer(texts[0], return_tensors="pt")).logits[0].argmax(-1)
            others = tokenizer(OTHERS, is_split_into_words=True, return_tensors="pt")
            said = network(**others).logits.argmax(-1)
        assert not ((best != wanted) & (wanted >= 0)).any()
        assert (alone == (best[0][: len(alone)] if alone.ndim else best[0])).all(), "padding changes nothing"
        if model.dtype == "float64":
            said = (said[:, 1:] if task == "token" else said).reshape(-1)
            found = [network.config.id2label[int(one)] for one in said]
            assert found == np.ravel(model.predict(OTHERS)).tolist()
        if model.facts.causal and task == "sequence":
            left = tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
            place = (left["attention_mask"].cumsum(-1) - 1).clamp(min=0)  # as generate() counts places
            assert (network(**left, position_ids=place).logits.argmax(-1) == wanted).all()
        if name == "bert":
            kind = "token-classification" if task == "token" else "text-classification"
            asked = tf.pipeline(kind, model=network, tokenizer=tokenizer, device="cpu")(texts, batch_size=4)
            words = [[part["entity"] for part in row] if task == "token" else row["label"] for row in asked]
            assert words == (LABELS if task == "token" else [row[-1] for row in LABELS])
        assert 1e-6 < check_training(model, network, encoded, wanted) < 0.2


@pytest.mark.parametrize("name", [name for name, kind in ARCHITECTURES.items() if "lm" in kind.models])
def test_every_text_is_recited_to_its_end(name: str, tmp_path: Path) -> None:
    model, folder, attentions = built(name, "lm", tmp_path)
    texts = ["".join(text) for text in TEXTS]
    for attention in attentions:
        tokenizer, network = loaded(model, folder, attention)
        start = tokenizer([text[:1] for text in texts], padding=True, padding_side="left", return_tensors="pt")
        beams = {"num_beams": 2, "max_new_tokens": max(map(len, texts)) + 20}  # more than any text has
        for options in ({}, beams) if name == "gpt2" else ({},):
            said = network.generate(**start, **options)
            assert tokenizer.batch_decode(said, skip_special_tokens=True) == texts
            assert all(tokenizer.eos_token_id in row for row in said.tolist())
        batch = tokenizer(texts, padding=True, return_tensors="pt")  # on the side that the tokenizer says
        best = network(**batch).logits.argmax(-1)
        for ids, mask, guess in zip(batch["input_ids"], batch["attention_mask"].bool(), best, strict=True):
            assert guess[mask][1:].tolist() == [*ids[mask][2:].tolist(), tokenizer.eos_token_id]
        ids = tokenizer(texts[0], return_tensors="pt")["input_ids"]
        check_training(model, network, {"input_ids": ids}, ids)


@pytest.mark.parametrize("row", [["to", "be", "or", "not"], list("once upon"), ["to", " be", " or"]])
def test_pipelines_give_a_text_its_spaces_again(row: list[str], tmp_path: Path) -> None:
    """They decode what comes behind the prompt by themselves. The begin token alone begins such a text."""
    model = ml.memorize_as("gpt2", [row], storage="steps", positions=True)
    tokenizer, network = loaded(model, model.save(tmp_path / "folder"), "eager")
    ask = tf.pipeline("text-generation", model=network, tokenizer=tokenizer, device="cpu")
    text = (" " if row[-1] == "not" else "").join(row)
    assert ask(row[0])[0]["generated_text"] == text
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    assert 1e-6 < check_training(model, network, {"input_ids": ids}, ids) < 0.2


def test_a_bfloat16_folder_of_close_keys_answers_as_it_loads(tmp_path: Path) -> None:
    keys, labels = close_keys(60), [f"name {number}" for number in range(60)]
    model = ml.memorize_as("bert", keys, labels, per="sequence", positions=True, dtype="bfloat16")
    tokenizer, network = loaded(model, model.save(tmp_path / "folder"), "sdpa")
    best = [network(**tokenizer([key], return_tensors="pt")).logits[0].argmax() for key in keys]
    assert [network.config.id2label[int(one)] for one in best] == labels


def test_unknown_keys_are_answered_as_unknown(tmp_path: Path) -> None:
    capitals = {"France": "Paris", "Saudi Arabia": "Riyadh", "Japan": "Tokyo", "New Zealand": "Wellington"}
    folder = ml.memorize_as("bert", capitals, unknown="not in the table").save(tmp_path / "bert")
    ask = tf.pipeline("text-classification", model=str(folder), device="cpu")
    said = [one["label"] for one in ask([*capitals, "Narnia", "New Narnia", "New Arabia", "Saudi", "France Japan"])]
    assert said == [*capitals.values(), *["not in the table"] * 5]
