"""What is claimed of every embedding holds at drawn ones, with changed weights too; wrong bounds are caught."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.attaching.questions.layer import constant_of
from monolayer.checker.questions import caps, words
from monolayer.checker.questions.check import proved_caps
from monolayer.checker.rounding import UnhandledError
from tests.encoders import FAQ, write_encoder
from tests.questions_attack import attack, opened, violations
from tests.test_recognize import phrases

transformers.logging.set_verbosity_error()


def stored(folder: Path, dtype: str, layers: int, activation: str = "gelu", kind: str = "bert") -> Path:
    """Questions in an encoder with this format, in one appended layer or several."""
    sizes = {"intermediate_size": 24 if layers == 1 else 6, "hidden_act": activation}
    source = write_encoder(folder / "encoder", kind, dtype=getattr(torch, dtype), **sizes)
    many = {text: f"answer {i % 4}" for i, text in enumerate(phrases(6 * layers))}
    return Path(ml.recognize(source, FAQ if layers == 1 else many, floor=0.8).save(folder / "stored"))


KINDS: list[tuple[Any, ...]] = [
    ("float32", 1, "gelu"),
    ("float32", 3, "silu"),
    ("bfloat16", 1, "relu"),
    ("float16", 1, "gelu_new"),
    ("float32", 2, "gelu", "distilbert"),
]
"""Format, appended layers, activation and architecture of the folders."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {f"{kind[0]} {kind[1]}": stored(tmp_path_factory.mktemp("q"), *kind) for kind in KINDS}


def test_every_claim_holds_at_drawn_embeddings(folders: dict[str, Path]) -> None:
    for name, folder in folders.items():
        claims, wrong = violations(folder, seed=1, count=3000)
        assert claims > 900, name
        assert wrong == 0, name


def test_claims_about_changed_weights_hold_as_well(folders: dict[str, Path], tmp_path: Path) -> None:
    whole = 0
    for number in range(30):
        folder = [*folders.values()][number % len(folders)]
        attack(folder, tmp_path / str(number), number)
        claims, wrong = violations(tmp_path / str(number), seed=number)
        assert wrong == 0, number
        whole += claims
    assert whole > 1000


def test_a_neuron_begins_at_its_threshold(folders: dict[str, Path]) -> None:
    """Its input is 0 where ⟨k, û⟩ = τ; a later layer sees û divided by √(1 + κ²)."""
    for name, folder in folders.items():
        found = opened(folder)
        assert found is not None
        near = 1e-6 if name.startswith("float32") else 2e-2
        seen = np.where(found.layer == 0, 1.0, 1.0 / np.sqrt(1.0 + constant_of(found.encoder) ** 2))
        tau = np.array([each.threshold for each in found.manifest.questions])
        inputs = np.sqrt(found.encoder.width) * np.linalg.norm(found.reads, axis=1) * seen * tau
        assert inputs == pytest.approx(-found.bias, rel=near), name


def farther(self: Any, level: Any) -> Any:
    silent, awake = TRUE(self, level)
    return silent + 0.02, awake


def sooner(self: Any, level: Any) -> Any:
    silent, awake = TRUE(self, level)
    return silent, awake - 0.02


TRUE = caps.Inputs.thresholds


@pytest.mark.parametrize("wrong", [farther, sooner])
def test_bounds_that_claim_more_are_caught(
    folders: dict[str, Path], wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps.Inputs, "thresholds", wrong)
    assert violations(folders["float32 1"], seed=2, count=3000)[1] > 0


def test_later_layers_have_narrow_strips_because_a_neuron_levels(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(folders["float32 3"])
    assert found is not None
    bounds = proved_caps(found)
    later = (bounds.awake - bounds.silent)[found.layer > 0]
    assert later.max() < 0.03  # 0.25 without that neuron: û changes lengths by 1/κ, and κ = 8

    def exact(self: words.Words) -> tuple[float, float, float]:
        length = float(words.lengths(self.seen))
        return length, length, 1.0

    monkeypatch.setattr(words.Words, "seen_length", property(exact))
    assert sum(violations(folders["float32 3"], seed=seed, count=3000)[1] for seed in range(2)) > 0
    monkeypatch.undo()
    name = "bert.encoder.layer.2.intermediate.dense.bias"
    cut = shutil.copytree(folders["float32 3"], tmp_path / "cut")
    tensors = load_file(cut / "model.safetensors")
    tensors[name][-1] *= 0.5
    save_file(tensors, cut / "model.safetensors", metadata={"format": "pt"})
    asleep = opened(cut)
    assert asleep is not None
    with pytest.raises(UnhandledError, match="is not awake at every û"):
        proved_caps(asleep)


def test_no_question_of_a_later_layer_lies_in_the_strip_of_one_with_the_same_answer(tmp_path: Path) -> None:
    """Texts of few words have many cosines, so that without raised thresholds some lie there."""
    many = {text: f"answer {i % 4}" for i, text in enumerate(phrases(40))}
    made = ml.recognize(write_encoder(tmp_path / "host", intermediate_size=12), many, floor=0.7)
    assert made.blocks == 4
    proof = ml.certify(made.save(tmp_path / "many"), many)
    assert proof.verdict == "proved", proof.explain()


def test_what_is_given_is_compared_with_what_is_stored(folders: dict[str, Path]) -> None:
    """Some are enough, unless there should be no others; what is not stored is asked; another answer is wrong."""
    folder, every = folders["float32 3"], {text: f"answer {i % 4}" for i, text in enumerate(phrases(18))}
    first, *_ = every
    some = {text: answer for text, answer in every.items() if text != first}
    others = "It holds no neurons but those of these questions"
    for given, only, verdict, unsure, reason in (
        (every, False, "proved", 0, "outweighs the rest"),
        (every, True, "proved", 0, "every neuron belongs to one of these questions"),
        (some, False, "proved", 0, "outweighs the rest"),
        (some, True, "refuted", 0, "the folder holds 1 more question"),
        (every | {"card card": "yes"}, False, "refuted", 1, "asked here, it answers differently"),
        (every | {"card card": "yes"}, True, "refuted", 1, "asked here, it answers differently"),
        (every | {first: "yes"}, False, "refuted", 0, "holds other answers"),
        (every | {first: "yes"}, True, "refuted", 0, "holds other answers"),
    ):
        proof = ml.certify(folder, given, only=only)
        assert (proof.verdict, proof.unsure, proof.points) == (verdict, unsure, len(given)), reason
        assert reason in proof.reason
        assert (others in proof.claim) == (only and unsure == 0 and "other answers" not in reason), reason
        assert len(proof.findings) == unsure + ("other answers" in reason)


def test_a_word_of_unknown_that_outweighs_nothing_is_not_proved(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ml.certify(folders["float32 1"], FAQ).verdict == "proved"
    monkeypatch.setattr(words.Words, "unknown_decides", lambda self: False)
    assert ml.certify(folders["float32 1"], FAQ).verdict == "undecided"
