"""Folders with facts attached that transformers loads and saves again: proved, located, edited and detached as before.

`attached_resaved_by_4.json` holds what transformers 4.57 writes for the hosts of these tests; version 5 is asked here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.manifest import FILE, tokenizer_digest
from monolayer.huggingface.spelling import different_key, host_defaults, settled
from tests.hosts import ARCHITECTURES, FACTS, config, write_host
from tests.verdicts import from_files

FEW = dict(list(FACTS.items())[:5])
BY_4: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("attached_resaved_by_4.json").read_text("utf-8"))


class Saved:
    """A host, the folder with facts attached to it, and that folder as transformers 5 saved it again."""

    def __init__(self, where: Path, kind: str) -> None:
        self.host = write_host(where / kind, kind, saving={"max_shard_size": "40KB"} if kind == "opt" else None)
        (self.host / "LICENSE").write_text("do as you like\n")
        self.first = ml.attach(self.host, FEW).save(where / f"{kind}-first")
        self.again = where / f"{kind}-again"
        sizes = {"max_shard_size": "40KB"} if kind in ("gpt_neox", "llama") else {}
        model = transformers.AutoModelForCausalLM.from_pretrained(self.first, dtype="auto")
        model.save_pretrained(self.again, **sizes)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.first)
        tokenizer(["a", "b b"], padding=True, truncation=True, max_length=8)  # tokenizer.json shows this afterwards
        tokenizer.save_pretrained(self.again)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Saved]:
    where, made = tmp_path_factory.mktemp("saved"), dict[str, Saved]()

    def find(kind: str) -> Saved:
        if kind not in made:
            made[kind] = Saved(where, kind)
        return made[kind]

    return find


def with_manifest(case: Saved, folder: Path) -> Path:
    """A copy of the folder that transformers saved, with the `attached.json` of the first one."""
    shutil.copytree(case.again, folder)
    shutil.copy(case.first / FILE, folder)
    return folder


def spelled_by_4(kind: str, folder: Path) -> Path:
    """The folder with the JSON files of transformers 4.57, which are about a host with two more blocks at most."""
    depth = HOSTS[kind].depth
    for name, said in BY_4[kind].items():
        if name == "config.json":
            now = json.loads((folder / name).read_text())
            said = {**said, depth: now[depth]}
        (folder / name).write_text(json.dumps(said, indent=2))
    return folder


@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_what_was_saved_again_is_what_it_was(kind: str, version: int, saved: Any, tmp_path: Path) -> None:
    case = saved(kind)
    folder = with_manifest(case, tmp_path / "folder")
    if version == 4:
        spelled_by_4(kind, folder)
    assert (folder / WEIGHTS_FILE).exists() != (folder / INDEX_FILE).exists()
    judge = ml.certify if version == 5 and kind == "llama" else from_files  # once it is asked, too
    proof = judge(folder, FEW, host=case.host, only=True)
    assert proof.verdict == "proved", proof
    assert "tokenizer.json (written anew)" in "".join(proof.notes)
    assert "LICENSE (gone)" in "".join(proof.notes)
    assert ml.locate(folder, FEW).to_json() == ml.locate(case.first, FEW).to_json()
    less, record = ml.forget(folder, [1], FEW)
    assert record.result == ml.forget(case.first, [1], FEW)[1].result
    assert ml.compare(record.undo(less), case.first).same
    assert from_files(less.save(folder, overwrite=True), {k: v for k, v in FEW.items() if v != FEW[list(FEW)[1]]})


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_the_host_can_be_had_back(kind: str, saved: Any, tmp_path: Path) -> None:
    """All files byte for byte, but for the tokenizer that transformers wrote anew, which the result says."""
    case = saved(kind)
    folder = with_manifest(case, tmp_path / "folder")
    found = ml.detach(folder)
    back = found.save(tmp_path / "back")
    assert {path.name for path in back.iterdir()} == {path.name for path in case.host.iterdir()}
    other = {path.name for path in back.iterdir() if path.read_bytes() != (case.host / path.name).read_bytes()}
    assert other == {"tokenizer.json"}
    assert tokenizer_digest((back / "tokenizer.json").read_bytes()) == tokenizer_digest(
        (case.host / "tokenizer.json").read_bytes()
    )
    assert "tokenizer.json: as transformers saved it" in str(found.rows())
    shutil.copy(case.host / "tokenizer.json", folder)
    assert "as transformers saved" not in str(ml.detach(folder).rows())


def test_tensors_that_transformers_does_not_save_are_not_missed(tmp_path: Path) -> None:
    """The names of OpenAI's GPT-2, its masks, and a copy of the tied table."""
    host = write_host(tmp_path / "host", "gpt2")
    tensors = load_file(host / WEIGHTS_FILE)
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    more = {f"h.{layer}.attn.bias": torch.ones(1, 1, 4, 4) for layer in range(2)}
    save_file(
        plain | more | {"lm_head.weight": plain["wte.weight"].clone()}, host / WEIGHTS_FILE, metadata={"format": "pt"}
    )
    first = ml.attach(host, FEW).save(tmp_path / "first")
    folder = tmp_path / "again"
    transformers.AutoModelForCausalLM.from_pretrained(first, dtype="auto").save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(first).save_pretrained(folder)
    shutil.copy(first / FILE, folder)
    assert not {"h.0.attn.bias", "lm_head.weight"} & load_file(folder / WEIGHTS_FILE).keys()
    proof = from_files(folder, FEW, host=host)
    assert proof.verdict == "proved", proof
    back = ml.detach(folder).save(tmp_path / "back")
    found = load_file(back / WEIGHTS_FILE)
    assert found.keys() == plain.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in plain.items())


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_lost_manifest_is_made_again_from_the_host_and_the_facts(kind: str, saved: Any, tmp_path: Path) -> None:
    case = saved(kind)
    for refused in (lambda: ml.certify(case.again, FEW), lambda: ml.detach(case.again)):
        try:
            said = refused().reason
        except ml.ModelFileError as error:
            said = str(error)
        assert "attach(host, facts, stored=folder)" in said
    made = ml.attach(case.host, FEW, stored=case.again)
    folder = made.save(tmp_path / "made")
    names = {path.name for path in folder.iterdir()}
    assert names == {path.name for path in case.first.iterdir()}
    for name in names:
        if name not in (FILE, "README.md"):  # what was measured is measured again
            assert (folder / name).read_bytes() == (case.first / name).read_bytes(), name
    assert from_files(folder, FEW, host=case.host, only=True).verdict == "proved"
    rows = list(FEW.items())
    for facts, words in (
        (dict(rows[::-1]), "the neurons in its place are those of another fact|were not returned"),
        (dict(rows[:4]), "give all facts that were attached"),
        (FEW | {"river1 is": " city1"}, "give all facts that were attached"),
    ):
        with pytest.raises((ml.DataError, ml.PrecisionError), match=words):
            ml.attach(case.host, facts, stored=case.again)
    with pytest.raises(ml.DataError, match="was not made from this host"):
        ml.attach(write_host(tmp_path / "other", kind, initializer_range=0.1), FEW, stored=case.again)


# -- what is not the same --------------------------------------------------------------------------------------------


def _tensor(name: str) -> Callable[[Path], None]:
    """A number of a tensor is changed by its last bit."""

    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS_FILE)
        bits = tensors[name].view(torch.int32)
        bits[(0,) * bits.ndim] ^= 1
        save_file(tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})

    return change


def _json(file: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        said = json.loads((folder / file).read_text("utf-8")) if (folder / file).exists() else {}
        change(said)
        (folder / file).write_text(json.dumps(said), encoding="utf-8")

    return write


def _swapped(said: Any) -> None:
    words = said["model"]["vocab"]
    words["Ġcity0"], words["Ġcity7"] = words.get("Ġcity7", 1), words.get("Ġcity0", 2)


PLANTED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "host": (_tensor("transformer.h.0.attn.c_attn.weight"), "refuted", "not the one that facts were attached to"),
    "attention": (_tensor("transformer.h.2.attn.c_proj.weight"), "undecided", "other numbers than zeros"),
    "epsilon": (
        _json("config.json", lambda said: said.update(layer_norm_epsilon=1e-4)),
        "undecided",
        "layer_norm_epsilon",
    ),
    "scores": (
        _json("config.json", lambda said: said.update(scale_attn_weights=False)),
        "undecided",
        "scale_attn_weights",
    ),
    "heads": (_json("config.json", lambda said: said.update(n_head=2)), "undecided", "n_head"),
    "activation": (
        _json("config.json", lambda said: said.update(activation_function="relu")),
        "undecided",
        "activation",
    ),
    "unknown": (_json("config.json", lambda said: said.update(per_layer_config={})), "undecided", "per_layer_config"),
    "format": (_json("config.json", lambda said: said.update(dtype="float16")), "undecided", "float16"),
    "words": (_json("tokenizer.json", _swapped), "refuted", "tokenizer.json is not the file"),
    "spaces": (
        _json("tokenizer_config.json", lambda said: said.update(add_prefix_space=True)),
        "refuted",
        "tokenizer_config",
    ),
    "special": (
        _json("tokenizer_config.json", lambda said: said.update(extra_special_tokens={"x": "city"})),
        "refuted",
        "tokenizer_config",
    ),
    "stops": (
        _json("generation_config.json", lambda said: said.update(eos_token_id=7)),
        "refuted",
        "generation_config",
    ),
    "penalty": (
        _json("generation_config.json", lambda said: said.update(repetition_penalty=1.5)),
        "refuted",
        "generation_config",
    ),
    "chats": (lambda folder: (folder / "chat_template.jinja").write_text("x") and None, "undecided", "chat_template"),
    "roles": (
        _json("special_tokens_map.json", lambda said: said.update(bos_token="city")),
        "undecided",
        "special_tokens_map",
    ),
    "merges": (lambda folder: (folder / "merges.txt").write_text("c i\n") and None, "undecided", "merges.txt"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_change_that_counts_is_seen(what: str, saved: Any, tmp_path: Path) -> None:
    folder = with_manifest(saved("gpt2"), tmp_path / "folder")
    plant, verdict, words = PLANTED[what]
    plant(folder)
    proof = from_files(folder, FEW)
    assert proof.verdict == verdict, proof
    assert words in proof.reason


def test_texts_that_are_not_those_of_the_digests_are_no_manifest(saved: Any, tmp_path: Path) -> None:
    folder = with_manifest(saved("gpt2"), tmp_path / "folder")
    said = json.loads((folder / FILE).read_text("utf-8"))
    said["texts"]["LICENSE"] = "mine\n"
    (folder / FILE).write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(ml.ModelFileError, match=FILE):
        ml.detach(folder)


# -- one spelling of config.json and the other -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_defaults_are_those_of_transformers(kind: str) -> None:
    theirs = transformers.AutoConfig.for_model(kind).to_dict()
    computed = {"num_key_value_heads", "head_dim"}
    ours = host_defaults()[kind]
    for key, value in ours.items():
        if key == "add_cross_attention":  # version 5 has it for GPT-2 alone
            assert value is theirs.get(key, False)
        else:
            assert value is None if kind == "llama" and key in computed else value == theirs[key], key


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_key_that_counts_is_compared(kind: str) -> None:
    """With and without defaults, and as version 4 writes it, it is the same model; with another value it is another."""
    said = json.loads(config(kind, 320).to_json_string(use_diff=False))
    short = json.loads(config(kind, 320).to_json_string(use_diff=True))
    host = HOSTS[kind]
    for one, two in ((said, short), (short, BY_4[kind]["config.json"] | {host.depth: 2})):
        known = {"attached_by", "mlp_bias", "architectures"}
        assert different_key(host, *({k: v for k, v in each.items() if k not in known} for each in (one, two))) is None
    for key, value in settled(host, said).items():
        if key in ("architectures", "model_type", "rope_parameters"):
            continue
        other = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else f"{value}x"
        assert key in (different_key(host, said, {**said, key: other}) or ""), key


ROTARY: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"rope_theta": 5e5}, {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, True),
    ({"rope_theta": 5e5}, {}, False),
    ({}, {"rope_parameters": {"rope_type": "default", "rope_theta": 10000}}, True),
    (
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        True,
    ),
    (
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0}},
        False,
    ),
    ({"rope_parameters": {"rope_theta": 5e5}}, {"rope_parameters": {"rope_theta": 5e5}, "rope_theta": 1e4}, False),
    ({"rope_parameters": {"rope_theta": 5e5}}, {"rope_parameters": {"rope_theta": 5e5}, "rope_theta": 5e5}, True),
]
"""Two spellings of rotary positions, and whether every version of transformers reads the same model from both."""


@pytest.mark.parametrize(("one", "two", "same"), ROTARY)
def test_rotary_positions_are_compared_by_what_they_mean(one: Any, two: Any, same: bool) -> None:
    sizes = {"hidden_size": 48, "num_attention_heads": 4, "max_position_embeddings": 96}
    assert (different_key(HOSTS["llama"], sizes | one, sizes | two) is None) == same
    theirs = [transformers.LlamaConfig(**json.loads(json.dumps(sizes | each))).rope_parameters for each in (one, two)]
    for each in theirs:
        each.pop("type", None)  # the older name of rope_type, which is kept beside it
    if same or "rope_theta" not in two:  # version 5 reads the newer keys where both are there
        assert (theirs[0] == theirs[1]) == same


def test_files_that_are_copied_are_known(saved: Any) -> None:
    """`attached.json` has the text of everything but the tokens."""
    said = json.loads((saved("gpt2").first / FILE).read_text("utf-8"))
    assert set(said["files"]) - set(said["texts"]) == {"tokenizer.json"}
    assert set(said["files"]) <= set(COPIED)
