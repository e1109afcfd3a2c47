"""Folders with attached facts, loaded differently from how they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from tests.hosts import FACTS, OTHERS, loaded, tokenizer, write_host


def in_int8(folder: Path) -> Any:
    """The model of a folder with the weights of all linear layers in 8 bits, a scale per row, as such loaders do."""
    model = loaded(folder)
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.Linear) and name != "lm_head":
            weight = part.weight.data
            scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / 127.0
            part.weight.data = (weight / scale).round() * scale
    return model


@torch.no_grad()
def first_words(model: Any, prompts: list[str]) -> list[torch.Tensor]:
    texts = tokenizer()
    return [model(torch.tensor([texts(prompt)["input_ids"]])).logits[0] for prompt in prompts]


def test_in_eight_bits_facts_are_silent_and_the_host_stays(tmp_path: Path) -> None:
    """As docs/attach.md says, and `verify` notes it."""
    host = write_host(tmp_path / "host", "llama")
    folder = ml.attach(host, FACTS).save(tmp_path / "new")
    with_facts, without = (first_words(in_int8(each), OTHERS) for each in (folder, host))
    assert all(torch.equal(one, two) for one, two in zip(with_facts, without, strict=True))
    stored, host_says = (first_words(in_int8(each), list(FACTS)) for each in (folder, host))
    fires = [not torch.equal(one[-1], two[-1]) for one, two in zip(stored, host_says, strict=True)]
    assert sum(fires) < len(FACTS)  # a rounded row may still lie near its state
    stored, host_says = (first_words(loaded(each), list(FACTS)) for each in (folder, host))
    assert not any(torch.equal(one[-1], two[-1]) for one, two in zip(stored, host_says, strict=True))
    assert "in 8 bits or fewer, none did" in ml.certify(folder, FACTS).notes[0]


class Logits(torch.nn.Module):
    """The logits of a folder's model at all places, without a cache."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = loaded(folder, "eager")

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(input_ids, attention_mask=torch.ones_like(input_ids), use_cache=False).logits
        return found


@pytest.mark.filterwarnings("ignore")
def test_onnxruntime_returns_facts_and_leaves_other_places(gpt2: Path, with_facts: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    texts, sessions = tokenizer(), []
    for folder in (gpt2, with_facts):
        file, example = str(tmp_path / f"{len(sessions)}.onnx"), torch.tensor([texts(OTHERS[0])["input_ids"]])
        axes = {"input_ids": {1: "places"}, "logits": {1: "places"}}
        names = {"input_names": ["input_ids"], "output_names": ["logits"], "dynamic_axes": axes}
        torch.onnx.export(Logits(folder), (example,), file, opset_version=17, dynamo=False, **names)
        sessions.append(onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]))

    def logits(session: Any, ids: list[int]) -> Any:
        return session.run(["logits"], {"input_ids": np.array([ids])})[0][0]

    for prompt, answer in FACTS.items():
        asked = texts(prompt)["input_ids"]
        said: list[int] = []
        while 0 not in said and len(said) < 12:
            said.append(int(logits(sessions[1], asked + said)[-1].argmax()))
        assert texts.decode(said[:-1]) == answer
    for other in OTHERS:
        one, two = (logits(session, texts(other)["input_ids"]) for session in sessions)
        assert np.array_equal(one, two)


@pytest.mark.parametrize("learner", ["discriminant", "hinge"])
def test_half_spaces_in_contexts_tell_what_can_be_told(learner: str) -> None:
    """Where contexts move states along some directions only, the rule is kept; by chance it is not."""
    from monolayer_experiments import contexts

    draw = torch.Generator().manual_seed(0)
    keys = torch.linalg.qr(torch.randn(64, 12, generator=draw)).Q.T * 8.0
    noise = torch.linalg.qr(torch.cat([keys.T, torch.randn(64, 20, generator=draw)], dim=1)).Q[:, 12:].T

    def moved(count: int) -> torch.Tensor:
        return keys + (0.5 * torch.randn(count, 12, 20, generator=draw)) @ noise

    text = torch.randn(4_000, 64, generator=draw)
    whiten = contexts.Whitened(text[:2_000], 3.0)
    assert whiten(text).norm(dim=1).allclose(torch.ones(4_000))
    learn = {"discriminant": contexts.discriminants, "hinge": contexts.hinged}[learner]
    w, b = learn(whiten(moved(8)), whiten(text[:2_000]))
    fact, token = torch.arange(6).repeat_interleave(2), torch.arange(12)
    right = contexts.whole_answers(whiten(moved(4)), w, b, fact, token)
    assert right.shape == (4, 6)
    quiet = contexts.largest(whiten(text[2_000:]), w, b)
    kept, best = contexts.verdict(contexts.curve(right, quiet, quiet[:200]))
    assert (kept, best) == (True, 1.0)
    by_chance = contexts.whole_answers(whiten(text[:12].repeat(4, 1, 1)), w, b, fact, token)
    assert not contexts.verdict(contexts.curve(by_chance, quiet, quiet[:200]))[0]
