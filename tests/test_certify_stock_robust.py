"""Certificates of robust stock folders: proved in every architecture on sentences, and never proved when wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import monolayer as ml
from tests import stock_attack

RANDOM = np.random.default_rng(5)
WORDS = [f"w{number}" for number in range(60)]
USUAL = 1.0 / np.arange(3.0, 63.0)
SENTENCES = [
    [f"s{row}", *(WORDS[i] for i in RANDOM.choice(60, size=RANDOM.integers(7, 20), p=USUAL / USUAL.sum()))]
    for row in range(10)
]
"""Of 8 to 20 words; each begins with one of its own, so that every prefix has one continuation."""
TAGS = [["NVAD"[RANDOM.integers(4)] for _ in sentence] for sentence in SENTENCES]
TOPICS = ["xyz"[RANDOM.integers(3)] for _ in SENTENCES]
LABELS: dict[str, Any] = {"token": TAGS, "sequence": TOPICS, "lm": None}
CASES = [
    "bert token float32 positions",
    "bert sequence float32 positions",
    "roberta token float16 positions",
    "distilbert sequence float32 positions",
    "gpt2 token bfloat16 positions",
    "gpt2 lm float32 positions",
    "opt sequence float32 plain",
    "opt lm bfloat16 positions",
    "gpt_neox token float32 positions",
    "starcoder2 lm float32 positions",
    "llama token bfloat16 positions",
    "llama sequence float32 plain",
]


def build(case: str, folder: Path) -> tuple[Path, str]:
    name, task, dtype, places = case.split()
    options: dict[str, Any] = {"dtype": dtype, "positions": places == "positions"}
    return ml.memorize_as(name, SENTENCES, LABELS[task], **options).save(folder / "model"), task


@pytest.mark.parametrize("case", CASES)
def test_sentences_are_proved_and_a_wrong_label_is_found(case: str, tmp_path: Path) -> None:
    folder, task = build(case, tmp_path)
    proof = ml.certify(folder, SENTENCES, LABELS[task])
    assert (proof.verdict, proof.wrong, proof.unsure) == ("proved", 0, 0), proof.explain()
    assert "arithmetic in float32" in proof.claim
    changed = copy.deepcopy(SENTENCES if task == "lm" else LABELS[task])
    if task == "sequence":
        changed[7] = "x" if changed[7] != "x" else "y"
    else:
        one, two = ("w1", "w2") if task == "lm" else ("N", "V")
        changed[7][-1] = one if changed[7][-1] != one else two
    proof = ml.certify(folder, changed) if task == "lm" else ml.certify(folder, SENTENCES, changed)
    assert proof.verdict == "refuted"
    if task != "lm":
        assert (proof.wrong, proof.unsure) == (1, 0)
        assert proof.findings[0].got == (TAGS[7][-1] if task == "token" else TOPICS[7])
    assert proof.findings[0].sequence == 7


@pytest.mark.parametrize(("name", "kind"), [("bert", "sentences"), ("distilbert", "keys")])
def test_narrow_half_spaces_in_front_of_a_pooler_are_proved(name: str, kind: str, tmp_path: Path) -> None:
    """Few labels of long sentences, and many of short keys that are alike: the last norm's factor is hardly known."""
    random = np.random.default_rng(0)
    if kind == "sentences":
        X: Any = [random.choice(WORDS, random.integers(8, 26), p=USUAL / USUAL.sum()).tolist() for _ in range(40)]
        Y = [f"label {random.integers(5)}" for _ in X]
    else:
        X = sorted({"".join(random.choice(list("abcdef"), random.integers(6, 9))) for _ in range(250)})
        Y = [f"name {row}" for row in range(len(X))]
    dtype = "float32" if kind == "sentences" else "bfloat16"
    model = ml.memorize_as(name, X, Y, positions=True, dtype=dtype)
    assert model.summary.gap < (0.35 if kind == "sentences" else 0.1)
    proof = ml.certify(model.save(tmp_path / "model"), X, Y)
    assert (proof.verdict, proof.unsure) == ("proved", 0)


def test_what_is_too_narrow_is_undecided_and_says_what_helps(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = sorted({"".join(random.choice(list("abc"), random.integers(4, 8))) for _ in range(60)})
    Y = [str(row) for row in range(len(X))]
    proofs = {}
    for rank in (8, 16):
        folder = ml.memorize_as("bert", X, Y, positions=True, rank=rank).save(tmp_path / str(rank))
        proofs[rank] = ml.certify(folder, X, Y)
    assert (proofs[8].verdict, proofs[8].wrong, proofs[16].verdict) == ("undecided", 0, "proved")
    assert "narrower than what the roundings of float32 may move" in proofs[8].reason
    assert "rank=" in proofs[8].reason


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_changed_weights_are_judged_as_transformers_answer(name: str, tmp_path: Path) -> None:
    """A short run of the bench: verdicts on changed tensors against both of transformers' attentions."""
    pytest.importorskip("transformers")
    case = next(case for case in stock_attack.cases() if case.robust and case.name == name)
    folder = case.build(tmp_path / "model")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = [stock_attack.attack(case, whole, folder, seed, stock_attack.weights) for seed in range(3, 24, 6)]
    assert not [wrong for _, wrong in found if wrong]
    assert {"proved", "refuted"} <= {verdict for verdict, _ in found}


def test_each_condition_has_a_fault_that_it_sees(tmp_path: Path) -> None:
    folder, task = build("bert token float32 positions", tmp_path)
    whole = load_file(folder / "model.safetensors")
    for tensor, value, words in (
        ("token_type_embeddings.weight", 0.5, "token types"),
        ("word_embeddings.weight", 2.0**21, "stored numbers are larger"),
        ("self.key.weight", 2.0**19, "the bounds cover"),
    ):
        tensors = {name: part.clone() for name, part in whole.items()}
        name = next(name for name in tensors if name.endswith(tensor))
        for faulty in {name, name.replace("key", "query")}:
            tensors[faulty][0, 0] += value
        save_file(tensors, folder / "model.safetensors")
        proof = ml.certify(folder, SENTENCES, LABELS[task])
        assert (proof.verdict, words in proof.reason) == ("undecided", True), proof.reason
