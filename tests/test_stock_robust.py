"""Robust stock models: the lemmas on the numbers they write, what a plain evaluator finds, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock.answers import Evaluation
from monolayer.stock.halves import rounded
from monolayer.stock.labelled import token_names, work
from monolayer.stock.mirror import lay_out

RANDOM = np.random.default_rng(7)
IDS = RANDOM.integers(0, 12, (40, 6))
LABELS = RANDOM.integers(0, 5, IDS.shape)


@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.sampled_from(["float32", "bfloat16"]),
    st.booleans(),
    st.integers(2, 70),
    st.integers(1, 30),
)
@settings(max_examples=25, deadline=None)
def test_means_are_0_and_norms_are_one_number(name: str, dtype: str, positions: bool, rank: int, longest: int) -> None:
    """Tokens exactly; places but for the rounding of cosines, which moves a squared norm by 2⁻⁵ at most."""
    kind = ARCHITECTURES[name]
    data = ml.Sequences.of([list(range(longest))], None if "lm" in kind.models else [[0] * longest])
    assert data.vocabulary is not None
    names = token_names(data.vocabulary, kind.special)
    job = work(kind, data, names, positions=positions, on_conflict="error", storage="cells")
    usual = np.arange(len(names)) % len(job.classes)
    mirror = lay_out(job, usual, rank, 0, lambda array: rounded(array, dtype))
    norms = [(table * table).sum(axis=1) for table in (mirror.tokens, mirror.places) if table is not None]
    assert len(np.unique(norms[0])) == 1
    for table in (mirror.tokens, mirror.places):
        if table is not None:
            assert np.array_equal(table, -np.roll(table, mirror.half, axis=1))
            assert np.array_equal(table, rounded(table, dtype))
    whole = norms[0][0] + (norms[1] if len(norms) > 1 else 0.0)
    assert np.ptp(whole) <= 2.0**-5
    assert np.allclose(whole * mirror.scale**2, mirror.rest, rtol=0.0, atol=2.0**-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_margin_is_what_arrives(name: str, dtype: str, tmp_path: Path) -> None:
    """Exact arithmetic on the stored weights, by a plain evaluator: every fact lies as far from 0 as was said."""
    model = ml.memorize_as(name, IDS, LABELS, positions=True, dtype=dtype, rank=32, on_conflict="first")
    part = {letter: rounded(array, dtype) for letter, array in model.arrays.items()}
    ids = np.insert(IDS + len(model.facts.architecture.special), 0, BEGIN, axis=1)
    network = Evaluation(model.facts, part)
    value = network.arriving(ids, network.asked)[1].numpy() @ part["W_1"].T + part["b_1"]
    logits = network.logits(ids, network.asked).numpy()
    assert model.summary.neurons == value.shape[-1] > 20
    kind = (part["W_H"] @ part["W_2"].T).argmax(axis=0)
    own = np.array([int(label) for label in model.config["id2label"].values()])[kind] == LABELS[..., None]
    held = logits.argmax(-1) == LABELS
    assert value[~own & held[..., None]].max() < -0.97
    best = np.where(own, value, -np.inf).max(axis=-1)[held]
    assert ((best > 0.97) | (best <= 0.0)).all()
    assert (logits.argmax(-1) != LABELS).sum() == model.summary.conflicts


def test_facts_that_are_too_close_are_named() -> None:
    """Four hundred tokens of which one differs: the average hardly moves."""
    long = [[0] * 1500 + [1], [0] * 1500 + [2]]
    labels = [[0] * 1500 + [1], [1] * 1500 + [1]]
    with pytest.raises(ml.PrecisionError, match=r"of sequence . have different labels, and what arrives"):
        ml.memorize_as("bert", long, labels, rank=2)


def test_the_command_line_writes_short_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.jsonl"
    rows: list[dict[str, Any]] = [{"tokens": ["a", "b"], "labels": ["u", "v"]}, {"tokens": ["b"], "labels": ["w"]}]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = str(tmp_path / "out")
    words = ["memorize-as", "llama", str(data), "--dtype", "bfloat16", "--out", out]
    assert run([*words, "--rank", "16", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["model"], said["dtype"], said["rank"]) == ("LlamaForTokenClassification", "bfloat16", 16)
    assert said["certificate"]["verdict"] == "proved"
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "Compute in float32" in card
    assert "eager attention rounds more" in card
    lines = card.splitlines()
    proved = lines.index("model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32)")
    assert "dtype=torch.bfloat16" in lines[proved + 1]
    assert lines[proved + 1].startswith("# or, as stored, without a proof")
    assert run(["verify", out, str(data)]) == 0
    capsys.readouterr()
    assert run([*words, "--overwrite"]) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert "value rank 128" in table
    assert "dtype=torch.float32" in table


def close_keys(count: int) -> list[str]:
    """Keys of 6 to 8 of six signs, each with a label of its own: names of family emoji are as close to one another."""
    random, keys = np.random.default_rng(1), dict[str, None]()
    while len(keys) < count:
        keys["".join(random.choice(list("👨👩👧👦👶👴"), random.integers(6, 9)))] = None
    return list(keys)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_bfloat16_folder_answers_as_it_loads(name: str, tmp_path: Path) -> None:
    """Asked through transformers as it loads by itself: arithmetic of the file, at the pooled or last place."""
    transformers = pytest.importorskip("transformers")
    keys, labels = close_keys(150), [f"name {number}" for number in range(150)]
    model = ml.memorize_as(name, keys, labels, per="sequence", positions=True, dtype="bfloat16")
    folder = model.save(tmp_path / "folder")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    assert loaded.dtype == torch.bfloat16
    with torch.no_grad():
        logits = [loaded(**tokenizer([key], return_tensors="pt")).logits[0] for key in keys]
    assert [loaded.config.id2label[int(row.argmax())] for row in logits] == labels


def test_facts_that_bfloat16_loses_are_named_and_float32_holds_them() -> None:
    """600 such keys: two of them were answered wrongly by a BERT that nobody had asked."""
    data = close_keys(600), list(range(600))
    with pytest.raises(
        ml.PrecisionError, match=r"of 600 labels are answered wrongly.* sequence \d+, .*dtype='float32'"
    ):
        ml.memorize_as("bert", *data, positions=True, dtype="bfloat16", rank=128)
    assert ml.memorize_as("bert", *data, positions=True).dtype == "float32"


def test_margins_below_what_kernels_may_round_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neuron reads numbers thousands of margins large; another kernel rounds them otherwise."""
    data, options = (close_keys(40), list(range(40))), {"positions": True, "rank": 64}
    ml.memorize_as("gpt2", *data, dtype="bfloat16", **options)
    monkeypatch.setattr("monolayer.stock.arithmetic.ROUNDINGS", 1e6)
    with pytest.raises(ml.PrecisionError, match=r"of 40 labels are answered wrongly, or nearly so"):
        ml.memorize_as("gpt2", *data, dtype="bfloat16", **options)


def test_the_activation_of_llama_is_its_own_and_the_others_have_relu6() -> None:
    found = {
        name: ml.memorize_as(name, ["ab", "ba"], ["u", "v"], positions=True, rank=16).facts.activation
        for name in ARCHITECTURES
    }
    assert found == {name: "silu" if name == "llama" else "relu6" for name in ARCHITECTURES}


def test_no_fact_is_hidden_between_others() -> None:
    """The last of 40 contexts is their middle before the norm: only the length of what arrives tells it apart."""
    keys = ["a" * many + "b" * (40 - many) + "c" for many in range(1, 40)]
    model = ml.memorize_as("llama", keys, list(map(str, range(39))), per="sequence", rank=32)
    assert model.summary.gap is not None
    assert model.summary.gap > 1e-3


def test_progress_moves_fact_by_fact() -> None:
    shares: list[float] = []
    keys = ["".join(np.random.default_rng(i).choice(list("abcdef"), 7)) for i in range(60)]
    ml.memorize_as(
        "gpt2",
        keys,
        [f"name {number}" for number in range(60)],
        per="sequence",
        positions=True,
        progress=lambda stage, share: shares.append(share),
    )
    assert shares == sorted(shares)
    assert len({share for share in shares if 0.2 < share < 0.8}) > 20
