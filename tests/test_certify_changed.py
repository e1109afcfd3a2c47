"""Folders with facts attached that were changed afterwards, and hosts and facts that are others: all are found."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.checker.attached.caps import Caps
from monolayer.checker.attached.files import read_attached
from monolayer.data.folder import INDEX_FILE
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE
from tests.attached_attack import retell, untrue
from tests.attached_changes import (
    ROW,
    both,
    changed,
    config,
    lost,
    one_more,
    raised,
    replaced,
    retold_host,
    scaled,
    set_to,
    swapped,
    told,
)
from tests.hosts import FACTS, NEURONS, write_host
from tests.verdicts import from_files


@pytest.fixture
def folder(with_facts: Path, tmp_path: Path) -> Path:
    """A GPT-2 with facts attached, to be changed."""
    return Path(shutil.copytree(with_facts, tmp_path / "folder"))


def moved(tensors: dict[str, Any]) -> None:
    """The key of neuron 4 becomes nearly that of neuron 1, which answers otherwise."""
    tensors[ROW[0]][:, 4] = tensors[ROW[0]][:, 1] * np.float32(1.0 + 2.0**-20)
    tensors[ROW[1]][4] = tensors[ROW[1]][1]


CHANGES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a weight of the host": (
        changed("host.safetensors", scaled("transformer.h.0.mlp.c_fc.weight", (3, 4), 1.5), retell=False),
        "refuted",
        "h.0.mlp.c_fc.weight is not the one that facts were attached to",
    ),
    "the tokenizer": (replaced("tokenizer.json", '"<end>"', '"<END>"'), "refuted", "tokenizer.json is not the file"),
    "answers swapped": (
        changed(ATTACHED_WEIGHTS, swapped(ROW[2], 1, 4)),
        "refuted",
        "another token, in every evaluation",
    ),
    "an answer without weight": (
        changed(ATTACHED_WEIGHTS, scaled(ROW[2], 1, 2.0**-20)),
        "undecided",
        "room for another",
    ),
    "an answer with a mean, which the norm takes off": (
        changed(ATTACHED_WEIGHTS, raised(ROW[2], 1, 2.0**40)),
        "undecided",
        "room for another",
    ),
    "an answer turned round": (changed(ATTACHED_WEIGHTS, scaled(ROW[2], 1, -1.0)), "refuted", "another token"),
    "a neuron that never fires": (
        changed(ATTACHED_WEIGHTS, scaled(ROW[1], 1, 1.01)),
        "undecided",
        "neuron 1 hardly reaches T/2",
    ),
    "keys of two answers at one place": (changed(ATTACHED_WEIGHTS, moved), "undecided", "room for another"),
    "a neuron that reads nothing": (
        changed(ATTACHED_WEIGHTS, scaled(ROW[0], (slice(None), 1), 0.0)),
        "undecided",
        "reads nothing",
    ),
    "weights that overflow": (
        changed(ATTACHED_WEIGHTS, scaled(ROW[0], (slice(None), 1), 2.0**70)),
        "undecided",
        "so large",
    ),
    "not a number": (changed(ATTACHED_WEIGHTS, set_to(ROW[2], (2, 2), np.nan)), "undecided", "not finite"),
    "attention that speaks": (
        changed(ATTACHED_WEIGHTS, set_to("transformer.h.3.attn.c_proj.bias", 3, 1e-30)),
        "undecided",
        "h.3.attn.c_proj.bias holds other numbers than zeros",
    ),
    "a norm that scales": (
        changed(ATTACHED_WEIGHTS, set_to("transformer.h.2.ln_2.weight", 3, 1.0 + 2.0**-20)),
        "undecided",
        "ln_2.weight holds other numbers than ones",
    ),
    "a neuron of no fact": (
        changed(ATTACHED_WEIGHTS, set_to("transformer.h.3.mlp.c_fc.bias", NEURONS - 1, 1.0)),
        "undecided",
        "gives to no fact is not 0",
    ),
    "a key moved a little, untold": (
        changed(ATTACHED_WEIGHTS, scaled(ROW[0], (0, 1), 1.0 + 2.0**-22), retell=False),
        "undecided",
        "was changed after every fact was tested",
    ),
    "the activation": (lambda at: config(at, activation_function="relu"), "undecided", "activation_function = 'relu'"),
    "fewer layers": (lambda at: config(at, n_layer=3), "undecided", "n_layer = 3"),
    "another key": (lambda at: config(at, quantization_config={}), "undecided", "it is quantized"),
    "a file beside": (lambda at: (at / "adapter_config.json").write_text("{}"), "undecided", "is in the folder, and"),
    "a template": (lambda at: (at / "chat_template.jinja").write_text("x"), "undecided", "was not there when"),
}


def shifted(tensors: dict[str, Any]) -> None:
    """What neurons write is nearly the same number in all coordinates, which LayerNorm takes off."""
    for name in (ROW[2], ROW[2].replace("h.2", "h.3")):
        used = tensors[name].any(axis=1)
        tensors[name][used] = tensors[name][used] * np.float32(2.0**-20) + np.float32(2.0**17)


def renamed_fact(folder: Path) -> None:
    """The first fact goes by the digests of the second."""
    said = json.loads((folder / FILE).read_text())
    said["facts"][0] |= {key: said["facts"][1][key] for key in ("prompt", "fact")}
    (folder / FILE).write_text(json.dumps(said))


def chained(tensors: dict[str, Any]) -> None:
    """A neuron of the first block copies the first one of the last fact, in the second block; another one there, which
    nobody asks for, answers to what it writes, with another token."""
    second = [name.replace("h.2", "h.3") for name in ROW]
    last, woken, other = 33 - NEURONS, 24 - NEURONS, 35 - NEURONS
    for one, two in zip(ROW, second, strict=True):
        turned = one == ROW[0]
        (tensors[one].T if turned else tensors[one])[0] = (tensors[two].T if turned else tensors[two])[last]
    written = tensors[second[2]][last].astype(np.float64)
    written -= written.mean()
    length = np.sqrt((tensors[second[0]][:, last].astype(np.float64) ** 2).sum())
    tensors[second[0]][:, woken] = written * length / np.sqrt(written @ written)
    tensors[second[1]][woken] = 96.0 - length * np.sqrt(len(written))
    tensors[second[2]][woken] = tensors[second[2]][other] * np.float32(2.0**8)


def other_last_norm(factor: float) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        changed("host.safetensors", scaled("transformer.ln_f.weight", slice(None), factor), retell=False)(folder)
        changed("host.safetensors", scaled("transformer.ln_f.bias", slice(None), factor), retell=False)(folder)
        retold_host(folder)

    return apply


CHANGES |= {
    "the depth by another name": (both(num_hidden_layers=2), "undecided", "has the key 'num_hidden_layers'"),
    "other weights": (both(transformers_weights="host.safetensors"), "undecided", "'transformers_weights'"),
    "code": (both(auto_map={"AutoModelForCausalLM": "x--y.Z"}), "undecided", "code of its own"),
    "quantized": (both(quantization_config={"load_in_8bit": True}), "undecided", "it is quantized"),
    "a head that is not stored": (both(tie_word_embeddings=False), "undecided", "lacks the tensor 'lm_head.weight'"),
    "no epsilon": (both(layer_norm_epsilon=0.0), "undecided", "no norm divides by 0"),
    "a tensor in place of an appended one": (
        one_more("h.2.mlp.c_proj.weight", ROW[2]),
        "undecided",
        "has the tensor 'h.2.mlp.c_proj.weight'",
    ),
    "an appended tensor given to the host": (
        told(tensors=lambda known: {**known, ROW[2]: ""}),
        "undecided",
        f"has the tensor '{ROW[2]}'",
    ),
    "a file that is gone, and that transformers does not need beside tokenizer.json": (
        told(files=lambda known: {**known, "merges.txt": hashlib.sha256(b"").hexdigest()}),
        "proved",
        "",
    ),
    "an end token beyond all": (told(end=lambda old: 10**6), "undecided", "the end token is 1000000"),
    "logits that overflow": (other_last_norm(2.0**124), "undecided", "logits may not be finite"),
    "logits that are flushed to zero": (other_last_norm(2.0**-140), "undecided", "room for another"),
    "rows that are nearly constant": (changed(ATTACHED_WEIGHTS, shifted), "undecided", "room for another"),
}
REST, LAST = dict(list(FACTS.items())[1:]), dict(list(FACTS.items())[11:])
UNASKED: dict[str, tuple[Callable[[Path], Any], dict[str, str], str]] = {
    "an infinite write spreads to other places": (
        changed(ATTACHED_WEIGHTS, set_to(ROW[2], 0, 3e38)),
        REST,
        "is not finite",
    ),
    "a fact under the name of another": (renamed_fact, REST, "lists one fact twice"),
    "a written row wakes a neuron behind a copy": (changed(ATTACHED_WEIGHTS, chained), LAST, "room for another"),
}
"""Changes to neurons of facts that are not asked for: what is changed, which facts are asked, and the reason."""


@pytest.mark.parametrize("name", UNASKED)
def test_facts_that_are_not_asked_for_hide_nothing(name: str, folder: Path) -> None:
    change, facts, said = UNASKED[name]
    assert ml.certify(folder, facts).verdict == "proved"
    change(folder)
    proof = from_files(folder, facts, only=len(facts) == len(REST))
    assert (proof.verdict, said in proof.reason) == ("undecided", True), proof.explain()


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_found(name: str, folder: Path) -> None:
    change, verdict, said = CHANGES[name]
    change(folder)
    proof = from_files(folder, FACTS)
    assert (proof.verdict, said in proof.reason) == (verdict, True), proof.explain()


UNREADABLE = {
    "a number without end": told(__moved=10**400),
    "not a number": told(__moved=float("nan")),
    "a length without end": told(__length=10**400),
    "a length below 0": told(__length=-1.0),
    "a length that is no number": told(__length=float("nan")),
    "a length in words": told(__length="long"),
    "half a letter in the configuration": told(config=lambda old: old.replace("gpt2", "\ud800")),
    "half a letter in the index": told(index=lambda old: "\ud800"),
    "an end token below 0": told(end=lambda old: -1),
    "an end token too large": told(end=lambda old: 10**30),
    "special tokens, neither yes nor no": told(templates=lambda old: [{"text": "{prompt}", "special_tokens": 1}]),
    "a template without a prompt": told(templates=lambda old: [{"text": "prompt", "special_tokens": True}]),
    "no template": told(templates=lambda old: []),
    "a fact without a number": told(__number="0"),
    "a file elsewhere": told(files=lambda known: {**known, "../x": ""}),
    "no tokenizer": lost("tokenizer.json"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_manifest_that_attach_did_not_write_is_refused_by_all(name: str, folder: Path) -> None:
    UNREADABLE[name](folder)
    for call in (lambda: ml.certify(folder, FACTS), lambda: ml.detach(folder), lambda: ml.load(folder)):
        with pytest.raises(ml.ModelFileError, match=r"attached.json (is not one that attach wrote|has half)"):
            call()


def test_a_neuron_that_stands_elsewhere_is_noticed_with_only(
    gpt2: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    """Planted: two facts share places, and the neurons that one of them does not need answer to a third prompt."""
    hidden = "river3 is near"
    facts = {"It": " is city5", "It is": " city5", hidden: " city5"}
    both = Path(ml.attach(gpt2, facts).save(tmp_path / "both"))
    folder = Path(ml.attach(gpt2, dict(list(facts.items())[:2])).save(tmp_path / "folder"))
    rows = tmp_path / "facts.jsonl"
    shown = [{"prompt": prompt, "completion": answer} for prompt, answer in list(facts.items())[:2]]
    rows.write_text("\n".join(map(json.dumps, shown)))
    assert json.loads(said("verify", str(folder), str(rows), "--only", "--json"))["verdict"] == "proved"
    starts = read_attached(both).manifest.starts()
    theirs = load_file(both / ATTACHED_WEIGHTS)

    def displaced(tensors: dict[str, Any]) -> None:
        count = read_attached(both).manifest.facts[2].places
        own, other = slice(starts[1], starts[1] + count), slice(starts[2], starts[2] + count)
        tensors[ROW[0]][:, own] = theirs[ROW[0]][:, other]
        tensors[ROW[1]][own] = theirs[ROW[1]][other]

    changed(ATTACHED_WEIGHTS, displaced)(folder)
    found = json.loads(said("verify", str(folder), str(rows), "--only", "--json", code=3))
    assert (found["verdict"], "not by their own neurons" in found["reason"]) == ("undecided", True)
    assert "1 fact out of their reach" in found["measured"][-1]


def test_a_file_that_only_the_host_has_is_noticed(gpt2: Path, folder: Path) -> None:
    lost("generation_config.json")(folder)
    assert ml.certify(folder, FACTS).verdict == "proved"
    proof = ml.certify(folder, FACTS, host=gpt2)
    assert (proof.verdict, "generation_config.json" in proof.reason) == ("refuted", True)


def test_another_host_and_other_facts_are_no_proof(gpt2: Path, folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(gpt2, tmp_path / "other"))
    tensors = load_file(other / "model.safetensors")
    tensors["transformer.wpe.weight"][5, 5] += 1.0
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    proof = ml.certify(folder, FACTS, host=other)
    assert proof.verdict == "refuted"
    assert "transformer.wpe.weight" in proof.reason
    asked = {"The capital of country0 is": " city1", "The capital of country39 is": " city1"}
    assert "asked here, it answers differently: row 0" in ml.certify(folder, asked).reason
    proof = from_files(folder, asked)
    assert proof.verdict == "undecided"
    assert [finding.why[:40] for finding in proof.findings] == [
        "the folder holds another answer to this ",
        "the folder has no neuron for this fact, ",
    ]
    with pytest.raises(ml.DataError, match="noise does not apply to a folder with attached facts"):
        ml.certify(folder, FACTS, noise=0.1)
    with pytest.raises(ml.DataError, match="host= is for folders that facts were attached to"):
        ml.certify(ml.memorize({"a": 1}), {"a": 1}, host=other)
    (folder / FILE).write_text("{}")
    with pytest.raises(ml.ModelFileError, match=r"attached.json is not one that attach wrote"):
        ml.certify(folder, FACTS)
    (folder / INDEX_FILE).unlink()
    with pytest.raises(ml.ModelFileError, match=r"model\.safetensors is missing"):
        ml.certify(folder, FACTS)


@pytest.mark.parametrize(
    ("change", "tensor"),
    [
        (lambda entry: entry | {"dtype": "BF16"}, ""),
        (lambda entry: entry | {"shape": entry["shape"][::-1]}, "attn.c_attn.weight"),
    ],
    ids=["format", "shape"],
)
def test_a_host_of_the_same_bytes_in_another_format_or_shape_is_another_host(
    change: Callable[[dict[str, Any]], dict[str, Any]], tensor: str, tmp_path: Path
) -> None:
    """Planted: another header of the file of weights, where config.json does not say the format."""
    host = write_host(tmp_path / "host", dtype=torch.float16)
    said = json.loads((host / "config.json").read_text())
    del said["dtype"]
    (host / "config.json").write_text(json.dumps(said))
    facts = dict(list(FACTS.items())[:2])
    folder = ml.attach(host, facts).save(tmp_path / "new")
    assert ml.certify(folder, facts, host=host).verdict != "refuted"
    path = Path(shutil.copytree(host, tmp_path / "other")) / "model.safetensors"
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = {
        name: change(entry) if name.endswith(tensor) and name != "__metadata__" else entry
        for name, entry in json.loads(content[8:end]).items()
    }
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + content[end:])
    proof = ml.certify(folder, facts, host=path.parent)
    assert (proof.verdict, f"{tensor} of {path.parent} is not that" in proof.reason) == ("refuted", True), proof.reason


def far_away(tensors: dict[str, Any]) -> None:
    tensors["transformer.h.1.mlp.c_proj.bias"][::2] = 2.0**60


def test_the_attack_sees_what_is_untrue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: answers that are swapped, and a claim of locality that leaves out no place.

    What happens at states that the certificate assumes not to be is not counted as untrue.
    """
    assert untrue(Path(shutil.copytree(folder, folder.with_name("same")))) is None
    other = Path(shutil.copytree(folder, folder.with_name("swapped")))
    changed(ATTACHED_WEIGHTS, swapped(ROW[2], 0, 1))(other)
    assert "is not the largest" in str(untrue(other))
    monkeypatch.setattr(Caps, "radius", -1.0)
    assert "logits away from all keys are not the host's" in str(untrue(folder))
    changed("host.safetensors", far_away)(folder)
    retell(folder)
    shutil.rmtree(folder.with_name("folder-host"))
    assert untrue(folder) is None


def test_detach_names_a_tensor_that_the_list_of_the_hosts_files_has_alone(folder: Path, tmp_path: Path) -> None:
    misspelt = lambda known: {file: text.replace("h.0.ln_1.bias", "h.0.l0_1.bias") for file, text in known.items()}  # noqa: E731
    told(headers=misspelt)(folder)
    with pytest.raises(ml.ModelFileError, match=r"h\.0\.l0_1\.bias in a file of the host, and no file holds it"):
        ml.detach(folder).save(tmp_path / "host")
    assert not (tmp_path / "host").exists()
