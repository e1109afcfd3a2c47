"""A folder with questions whose tensors or files have another form than `recognize` writes is not proved, and says why.

Each row of `CHANGES` plants one fault: what changes in a folder that was proved, and the words of the reason.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import monolayer as ml
from tests.encoders import FAQ, write_encoder

Tensors = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Questions in one encoder whose head saturates, and in one whose head is linear behind relu."""
    scratch = tmp_path_factory.mktemp("forms")
    return {
        kind: Path(ml.recognize(write_encoder(scratch / kind, kind), FAQ, floor=0.9).save(scratch / f"{kind}-faq"))
        for kind in ("bert", "distilbert")
    }


def refused(folder: Path, why: str) -> None:
    """Whether the model can be asked or not, nothing is proved; what the files say is the reason `why`."""
    assert ml.certify(folder, FAQ).verdict != "proved"
    proof = ml.certify(folder, FAQ, ask=False)
    assert proof.verdict == "undecided"
    assert re.search(why, proof.reason), proof.reason


def appended(tensors: Tensors, ending: str) -> str:
    """The full name of a tensor of the appended layer, the last in the model, by the end of its name."""
    return sorted(name for name in tensors if name.endswith(ending))[-1]


def set_to(ending: str, place: Any, value: float) -> Callable[[Tensors], None]:
    """Set one number of a tensor of the appended layer."""

    def change(tensors: Tensors) -> None:
        tensors[appended(tensors, ending)][place] = value

    return change


def scale_row(tensors: Tensors) -> None:
    tensors["classifier.weight"][1] *= 2


def stray(tensors: Tensors) -> None:
    tensors["bert.extra.weight"] = np.zeros(3, dtype=np.float32)


def gone(tensors: Tensors) -> None:
    del tensors[appended(tensors, "attention.self.query.bias")]


def one_sign_is_lost(tensors: Tensors) -> None:
    dense = tensors["pre_classifier.weight"]
    used = np.flatnonzero(dense.any(axis=1))
    dense[used[0]] *= 2


def wide(tensors: Tensors) -> None:
    name = appended(tensors, "attention.self.key.bias")
    tensors[name] = np.append(tensors[name], np.float32(0.0))


CHANGES: dict[str, tuple[str, Callable[[Tensors], None], str]] = {
    "scores": ("bert", set_to("attention.self.query.weight", (1, 2), 1e-3), r"query\.weight is not 0 everywhere"),
    "a score's bias": ("bert", set_to("attention.self.key.bias", 3, 1e-3), r"key\.bias is not 0 everywhere"),
    "values": ("bert", set_to("attention.self.value.weight", (0, 1), 0.5), "attention does not take the mean"),
    "an output's bias": ("bert", set_to("attention.output.dense.bias", 0, 1.0), r"dense\.bias is not 0 everywhere"),
    "a norm": ("bert", set_to("attention.output.LayerNorm.weight", 0, 2.0), "is not 1 everywhere"),
    "a norm's bias": ("bert", set_to("attention.output.LayerNorm.bias", 0, 0.1), "is not 0 everywhere"),
    "a spare neuron": ("bert", set_to("intermediate.dense.bias", -2, 1.0), "gives to no question is not 0"),
    "not finite": ("bert", set_to("intermediate.dense.weight", (0, 0), np.nan), "not finite"),
    "the pooler's bias": ("bert", set_to("pooler.dense.bias", 0, 0.5), r"pooler\.dense\.bias is not 0"),
    "the head's bias": ("bert", set_to("classifier.bias", 0, 0.5), r"classifier\.bias is not 0 everywhere"),
    "a row of the head": ("bert", scale_row, "the head is not a code of signs"),
    "a stray tensor": ("bert", stray, r"bert\.extra\.weight belongs neither"),
    "a missing tensor": ("bert", gone, r"query\.bias is missing"),
    "a shape": ("bert", wide, r"key\.bias is float32"),
    "one sign": ("distilbert", one_sign_is_lost, "relu loses one of them"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_form_of_tensors_is_not_proved(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    kind, change, why = CHANGES[name]
    folder = shutil.copytree(folders[kind], tmp_path / "changed")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, why)


def strange_file(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_bytes(b"")


def other_unknown(folder: Path) -> None:
    labels = json.loads((folder / "config.json").read_text())
    labels["id2label"]["0"] = "nobody knows"
    labels["label2id"] = {label: int(number) for number, label in labels["id2label"].items()}
    (folder / "config.json").write_text(json.dumps(labels))


def listed_twice(folder: Path) -> None:
    manifest = json.loads((folder / "questions.json").read_text())
    manifest["questions"].append(manifest["questions"][0])
    (folder / "questions.json").write_text(json.dumps(manifest))


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a strange file": (strange_file, r"adapter_model\.safetensors is in the folder"),
    "another word for unknown": (other_unknown, "the first class is not 'unknown'"),
    "a question twice": (listed_twice, "it lists one question twice"),
}


@pytest.mark.parametrize("name", FILES)
def test_another_form_of_files_is_not_proved(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    change, why = FILES[name]
    folder = shutil.copytree(folders["bert"], tmp_path / "changed")
    change(folder)
    refused(folder, why)


def test_an_encoder_that_was_changed_is_no_host(folders: dict[str, Path], tmp_path: Path) -> None:
    encoder = folders["bert"].parent / "bert"
    assert ml.certify(folders["bert"], FAQ, host=encoder).verdict == "proved"
    changed = shutil.copytree(encoder, tmp_path / "changed")
    tensors = load_file(changed / "model.safetensors")
    tensors["embeddings.word_embeddings.weight"][0, 0] += 1
    save_file(tensors, changed / "model.safetensors", metadata={"format": "pt"})
    proof = ml.certify(folders["bert"], FAQ, host=changed)
    assert (proof.verdict, "word_embeddings" in proof.reason) == ("refuted", True), proof.reason
    for name in ("config.json", "tokenizer.json"):
        changed = shutil.copytree(encoder, tmp_path / name)
        (changed / name).write_text((changed / name).read_text() + " ")
        proof = ml.certify(folders["bert"], FAQ, host=changed)
        assert (proof.verdict, name in proof.reason) == ("refuted", True), proof.reason
