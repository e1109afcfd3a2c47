"""Hosts that are a Llama under another name: what is written is that Llama, and the host can be had back to the byte.

The outside reference is transformers' own class of the architecture. In float64, where rounding cannot hide anything,
it computes what the Llama computes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save, save_file

import monolayer as ml
from monolayer.data.folder import WEIGHTS_FILE
from monolayer.errors import ModelFileError
from monolayer.huggingface.headers import Listed, header_listing, header_of, read_header
from monolayer.huggingface.host import read_host
from monolayer.huggingface.hosts import NO_LLAMA
from monolayer.huggingface.kin import KIN
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, HOST_WEIGHTS
from tests import hosts
from tests.attached_attack import retell
from tests.hosts import FACTS, OTHERS, PLACES, SENTENCES, answers, write_host

FEW = dict(list(FACTS.items())[:6])


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """A host of each architecture, and the folder with facts attached to it."""
    where, made = tmp_path_factory.mktemp("kin"), dict[str, tuple[Path, Path]]()

    def find(name: str) -> tuple[Path, Path]:
        if name not in made:
            saving = {"max_shard_size": "40KB"} if name == "phi3" else None
            host = write_host(where / name, name, saving=saving)
            made[name] = host, ml.attach(host, FEW).save(where / f"{name}-new")
        return made[name]

    return find


def same_bytes(one: Path, two: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in two.iterdir()) and all(
        (one / name).read_bytes() == (two / name).read_bytes() for name in names
    )


@torch.no_grad()
def wide_logits(folder: Path, without: int = 0, texts: Sequence[str] = OTHERS[:6]) -> list[Any]:
    """The logits at all places of some texts in float64, by a model without its last `without` layers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    layers = model.model.layers
    del layers[len(layers) - without :]
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    return [model(**cut(text, return_tensors="pt"), use_cache=False).logits[0] for text in texts]


@pytest.mark.parametrize("name", hosts.KIN)
def test_facts_come_back_and_the_host_is_what_it_was(name: str, pairs: Any, tmp_path: Path) -> None:
    host, folder = pairs(name)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"
    proof = ml.certify(folder, FEW, host=host, only=True)  # asks it, too
    assert proof.verdict == "proved", proof
    assert f"which it was not ({name})" in proof.claim
    assert f"as {KIN[name].model}" in "".join(proof.notes)
    assert f"The host is a {KIN[name].model}; this folder is a LlamaForCausalLM" in (folder / "README.md").read_text()
    assert answers(folder, list(FEW)) == list(FEW.values())
    for ours, theirs in zip(wide_logits(folder, without=1), wide_logits(host), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert same_bytes(ml.detach(folder).save(tmp_path / "back"), host)
    again = ml.load(folder).save(tmp_path / "again")
    assert same_bytes(again, folder)
    less, record = ml.forget(folder, [1], FEW)
    assert ml.compare(record.undo(less), folder).same


@pytest.mark.parametrize("name", ["phi3", "llama"])
def test_facts_in_a_host_with_two_sets_of_rotary_angles_answer_among_short_texts(name: str, tmp_path: Path) -> None:
    """longrope turns all texts of a batch in another way if one of them is longer than the original length."""
    length, long = 12, " ".join(SENTENCES[:2])
    turned = {"rope_type": "longrope", "rope_theta": 10_000.0, "original_max_position_embeddings": length}
    turned |= {"short_factor": [1.0 + 0.1 * n for n in range(6)], "long_factor": [2.0 + 0.3 * n for n in range(6)]}
    top = {"original_max_position_embeddings": length} if name == "phi3" else {}
    host = write_host(tmp_path / "host", name, rope_parameters=turned, **top)
    folder = ml.attach(host, FEW).save(tmp_path / "new")
    assert ml.certify(folder, FEW, host=host, only=True).verdict == "proved"
    texts = [*OTHERS[:3], long]
    assert len(transformers.AutoTokenizer.from_pretrained(host)(long)["input_ids"]) > 2 * length
    for ours, theirs in zip(wide_logits(folder, 1, texts), wide_logits(host, 0, texts), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert answers(folder, list(FEW)) == list(FEW.values())
    beside = answers(folder, [*FEW, long])[: len(FEW)]
    assert not set(beside) & set(FEW.values())
    assert beside == answers(host, [*FEW, long])[: len(FEW)]  # what the host says there
    assert same_bytes(ml.detach(folder).save(tmp_path / "back"), host)


@pytest.mark.parametrize("name", hosts.KIN)
def test_missing_keys_have_the_values_of_the_architecture(name: str) -> None:
    """Each key that may be missing, one at a time, against transformers."""
    kin, few = KIN[name], {"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 320}
    few |= {"architectures": [kin.model], "model_type": name}
    few |= {"sliding_window": None} if name in ("mistral", "phi3") else {}
    theirs = transformers.AutoConfig.for_model(**few).to_dict()
    ours = transformers.LlamaConfig(**kin.as_llama(few)).to_dict()
    for key in ("num_key_value_heads", "rms_norm_eps", "max_position_embeddings", "head_dim", "tie_word_embeddings"):
        if name == "phi3" and key == "num_key_value_heads":
            assert ours[key] == theirs[key] == 4
        assert ours[key] == theirs.get(key, 12), key
    assert ours["rope_parameters"]["rope_theta"] == theirs["rope_parameters"]["rope_theta"]
    given = {**few, "num_key_value_heads": 2, "rms_norm_eps": 1e-3, "max_position_embeddings": 7, "rope_theta": 5.0}
    kept = kin.as_llama(given)
    assert all(kept[key] == given[key] for key in given.keys() - {"architectures", "model_type", "sliding_window"})


PLANTED: list[tuple[str, dict[str, Any], str]] = [
    ("mistral", {"sliding_window": PLACES}, "sliding window"),
    ("mistral", {"sliding_window": 4}, "sliding window"),
    ("phi3", {"sliding_window": 8}, "sliding window"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 8}, "sliding window"),
    ("qwen2", {"layer_types": ["sliding_attention", "full_attention"]}, "sliding window"),
    ("phi3", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
    ("phi3", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "turns all coordinates"),
    ("phi3", {"rope_scaling": {"type": "su"}, "rope_parameters": None}, "turns all coordinates"),
    ("phi3", {"num_attention_heads": 5}, "num_attention_heads = 5"),
    ("phi3", {"num_key_value_heads": 3}, "num_attention_heads = 4"),
    ("seed_oss", {"attention_out_bias": True}, "attention_out_bias = True"),
    ("qwen2", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ("qwen2", {"architectures": ["Qwen2ForSequenceClassification"]}, "Qwen2ForCausalLM"),
    ("qwen2", {"num_experts": 4}, "num_experts"),
]


@pytest.mark.parametrize(("name", "change", "words"), PLANTED)
def test_what_is_no_llama_is_refused(name: str, change: dict[str, Any], words: str, pairs: Any, tmp_path: Path) -> None:
    host = Path(shutil.copytree(pairs(name)[0], tmp_path / "host"))
    said = json.loads((host / "config.json").read_text())
    (host / "config.json").write_text(json.dumps({**said, **change}))
    with pytest.raises(ml.DataError) as caught:
        read_host(host)
    assert words in str(caught.value)


@pytest.mark.parametrize("tensor", ["model.layers.1.self_attn.q_proj.bias", "model.layers.0.mlp.up_proj.weight"])
def test_a_missing_tensor_is_refused(tensor: str, pairs: Any, tmp_path: Path) -> None:
    host = Path(shutil.copytree(pairs("qwen2")[0], tmp_path / "host"))
    tensors = load_file(host / WEIGHTS_FILE)
    del tensors[tensor]
    save_file(tensors, host / WEIGHTS_FILE, metadata={"format": "pt"})
    with pytest.raises(ml.DataError, match=tensor):
        read_host(host)


@pytest.mark.parametrize("name", sorted(NO_LLAMA))
def test_the_others_are_refused_with_what_a_llama_lacks(name: str) -> None:
    from monolayer.huggingface.hosts import choose_host

    with pytest.raises(ml.DataError, match=NO_LLAMA[name].split()[0]):
        choose_host({"model_type": name})


def _turned(tensors: dict[str, Any]) -> str:
    """Two heads of the queries of a layer change places."""
    name = "model.layers.0.self_attn.q_proj.weight"
    tensors[name] = np.roll(tensors[name], 12, axis=0)
    return HOST_WEIGHTS


def _biased(tensors: dict[str, Any]) -> str:
    tensors["model.layers.0.self_attn.o_proj.bias"][3] = 1e-3
    return ATTACHED_WEIGHTS


def _louder(tensors: dict[str, Any]) -> str:
    tensors["model.layers.1.mlp.gate_proj.bias"][:] = 1e-3
    return ATTACHED_WEIGHTS


@pytest.mark.parametrize(("plant", "verdict"), [(_turned, "refuted"), (_biased, "undecided"), (_louder, "undecided")])
def test_a_changed_host_is_seen(plant: Any, verdict: str, pairs: Any, tmp_path: Path) -> None:
    """Its digests in attached.json are those of the change where they can be; `host=` is the host as it was."""
    host, first = pairs("qwen2")
    folder = Path(shutil.copytree(first, tmp_path / "folder"))
    for file in (HOST_WEIGHTS, ATTACHED_WEIGHTS):
        tensors = dict(load_file(folder / file))
        try:
            where = plant(tensors)
        except KeyError:
            continue
        assert where == file
        save_file(tensors, folder / file, metadata={"format": "pt"})
    retell(folder)
    proof = ml.certify(folder, FEW, host=host)
    assert proof.verdict == verdict, proof


def test_a_folder_whose_head_is_tied_afterwards_is_not_proved(pairs: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pairs("mistral")[1], tmp_path / "folder"))
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**said, "tie_word_embeddings": True}))
    proof = ml.certify(folder, FEW)
    assert proof.verdict == "undecided"
    assert "tie_word_embeddings" in proof.reason


# -- headers ---------------------------------------------------------------------------------------------------------

SHAPES = st.lists(st.integers(0, 3), min_size=0, max_size=3).map(tuple)


@given(st.dictionaries(st.text(min_size=1, max_size=5), SHAPES, max_size=5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_header_and_its_tensors_are_the_file(shapes: dict[str, Any], metadata: bool) -> None:
    shapes.pop("__metadata__", None)
    arrays = {name: np.full(shape, number, np.float32) for number, (name, shape) in enumerate(shapes.items())}
    content = save(arrays, metadata={"format": "pt"} if metadata else None)
    header = header_of(content)
    listed = read_header(header)
    assert {each.name: each.shape for each in listed} == shapes
    again = len(header.encode()).to_bytes(8, "little") + header.encode()
    assert again + b"".join(arrays[each.name].tobytes() for each in listed) == content
    assert read_header(header_listing(listed, header)) == listed
    assert json.loads(header_listing(listed, header)) == json.loads(header)


def test_a_header_that_lies_is_refused() -> None:
    good = header_listing([Listed("a", "F32", (2,)), Listed("b", "F32", (1,))], "{}")
    assert read_header(good)
    for planted in ("", "[]", '{"a": 1}', good.replace("12", "16"), good.replace("F32", "F99"), good[:-20]):
        with pytest.raises(ModelFileError):
            read_header(planted)
