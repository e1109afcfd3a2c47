"""Facts attached to a host come back, nothing else changes, and the host can be had back to the byte."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.attaching import attach as attaching
from monolayer.attaching import measuring, running
from monolayer.attaching.apart import (
    Around,
    Duties,
    FiringCaps,
    WrittenRows,
    check_written,
    fact_of_neurons,
    firing_caps,
)
from monolayer.attaching.attach import check_kept
from monolayer.attaching.facts import KeptText, read_facts
from monolayer.attaching.folder import Attached
from monolayer.attaching.measuring import Spoilers, measure_answers
from monolayer.attaching.neurons import Steepness, reading, round_keys, rounded
from monolayer.attaching.running import (
    EVALUATIONS,
    KERNELS,
    LOOKED_AT,
    AskedFacts,
    Evaluation,
    KeptStates,
    Running,
)
from monolayer.checker.locating.location import Slice
from monolayer.data import folder as folders
from monolayer.errors import KeptTextError
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.cutting import FactIds, cut_facts
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.host import TOKENIZER, read_host
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE
from monolayer.huggingface.settings import COMMON, FIXED, FREE_GENERATION, NEUTRAL
from tests.hosts import (
    ARCHITECTURES,
    FACTS,
    NEURONS,
    OTHERS,
    PLACES,
    WIDTH,
    answers,
    config,
    logits,
    same_model,
    write_host,
)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host") / request.param, request.param)


@pytest.fixture(scope="module")
def made(gpt2: Path) -> Attached:
    """What `with_facts` is the folder of; no test changes it."""
    return ml.attach(gpt2, FACTS)


def same_files(one: Path, two: Path) -> bool:
    names = {path.name for path in one.iterdir()}
    return names == {path.name for path in two.iterdir()} and not any(
        filecmp.cmpfiles(one, two, sorted(names), shallow=False)[1:]
    )


def test_facts_come_back_nothing_else_changes_and_the_host_can_be_had_back(host: Path, tmp_path: Path) -> None:
    made = ml.attach(host, FACTS)
    assert made.blocks == 2
    folder = made.save(tmp_path / "new")
    for kernel in ("eager", "sdpa"):
        assert answers(folder, list(FACTS), kernel) == list(FACTS.values())
    more = {"mlp_bias": True} if host.name == "llama" else {}
    here, there = logits(folder, OTHERS), logits(host, OTHERS, **more)
    assert all(torch.equal(one, two) for one, two in zip(here, there, strict=True))
    assert same_files(ml.detach(folder).save(tmp_path / "back"), host)
    again = Attached.load(folder)
    assert all(np.array_equal(one, two) for one, two in zip(again.neurons, made.neurons, strict=True))
    assert same_files(again.save(tmp_path / "again"), folder)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("gpt_neox", torch.bfloat16),
        ("llama", torch.bfloat16),
        ("gpt2", torch.float16),
        ("opt", torch.float16),
        ("llama", torch.float16),
    ],
)
def test_facts_come_back_in_short_formats(
    kind: str, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Biases round by hundreds there; keys are rounded so that their own states are answered all the same."""
    host = write_host(tmp_path / kind, kind, dtype=dtype)
    plain = torch.nn.Linear.forward

    def with_a_notice(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mkldnn bf16 path needs the cpu support", stacklevel=1)
        return plain(layer, x)

    with monkeypatch.context() as patch:
        # What PyTorch says where a processor lacks the instructions is no concern of a user.
        patch.setattr(torch.nn.Linear, "forward", with_a_notice)
        made = ml.attach(host, FACTS)
        assert len(made.predict(OTHERS[:1])) == 1
    folder = made.save(tmp_path / "new")
    for kernel in ("eager", "sdpa"):
        assert answers(folder, list(FACTS), kernel) == list(FACTS.values())
    more = {"mlp_bias": True} if kind == "llama" else {}
    here, there = logits(folder, OTHERS), logits(host, OTHERS, **more)
    assert all(torch.equal(one, two) for one, two in zip(here, there, strict=True))
    assert same_files(ml.detach(folder).save(tmp_path / "back"), host)
    again = Attached.load(folder)
    assert all(np.array_equal(one, two) for one, two in zip(again.neurons, made.neurons, strict=True))
    proof = ml.certify(folder, FACTS, host=host)
    name = str(dtype).removeprefix("torch.")
    assert proof.verdict == "proved", proof.explain()
    assert f"in {name}, at every place" in proof.claim
    assert any(f"arithmetic in {name}" in line for line in proof.assumptions)
    assert "they turned by up to" in proof.measured[1]


def test_what_is_measured_in_a_short_format_is_the_largest_over_all_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ml.attach(write_host(tmp_path / "host", "llama", dtype=torch.bfloat16), FACTS)
    states = np.random.default_rng(0).random((len(LOOKED_AT), len(made.manifest.facts)))
    states[LOOKED_AT.index("woken")] = 1.0
    monkeypatch.setattr(measuring, "ask", lambda *_: AskedFacts([], states))
    manifest = measuring.asked(made, SimpleNamespace(device=torch.device("cpu")), [], lambda *_: None).manifest  # type: ignore[arg-type]
    here = {name: states[LOOKED_AT.index(name)] for name in LOOKED_AT}
    for name in ("rose", "turned"):
        assert manifest.measured[name] == here[name].max() > here[name].min()
    assert manifest.measured["woken"] == len(manifest.facts)
    stored = [(fact.moved, fact.length, fact.fell) for fact in manifest.facts]
    assert stored == list(zip(here["lost"], here["length"], here["fell"], strict=True))


@given(st.integers(0, 2**32 - 1), st.integers(8, 200), st.floats(20.0, 3e4), st.sampled_from(["bfloat16", "float16"]))
@settings(max_examples=40, deadline=None)
def test_a_key_in_a_short_format_answers_its_own_state(seed: int, width: int, size: float, dtype: str) -> None:
    """Every number is one of the format, next to the exact one, and the sum is no further off than with the nearest."""
    random, fmt = np.random.default_rng(seed), HOST_FORMATS[dtype]
    states = random.standard_normal((3, width)) * np.exp(random.standard_normal(width))
    exact = states * (size / (states * states).sum(axis=1))[:, None]
    found = round_keys(exact, states, np.full(3, size), fmt)
    assert np.array_equal(found, rounded(found, dtype))
    assert (np.abs(found - exact) <= 2.0 * fmt.unit * np.abs(exact) + fmt.spacing_at_0).all()
    off, plain = (np.abs((part * states).sum(axis=1) - size) for part in (found, rounded(exact, dtype)))
    assert (off <= plain + 1e-9 * size).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_least_input_of_several_evaluations_is_T(dtype: str) -> None:
    """Samples are what norms return in the format, some of them shorter by rounding."""
    random, steep = np.random.default_rng(3), Steepness(2.0**-10, 28.0, 512.0)
    states = random.standard_normal((1, 20, 512)) + 0.01 * random.standard_normal((4, 20, 512))
    samples = rounded(states / np.sqrt((states * states).mean(axis=2, keepdims=True)), dtype)
    W_1, b_1 = reading(samples, np.full(20, steep.response / steep.radius), steep.response, dtype)
    inputs = (samples * W_1).sum(axis=2) + b_1
    assert np.abs(inputs.min(axis=0) - steep.response).max() < 1.0
    assert inputs.max() > steep.response + 1.0


def unprefixed(folder: Path) -> None:
    """As the files of OpenAI's GPT-2 have it: names without their first part, and masks beside the weights."""
    tensors = load_file(folder / "model.safetensors")
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    masks = {f"h.{layer}.attn.bias": np.ones((1, 1, 4, 4), np.float32) for layer in range(2)}
    save_file(plain | masks, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("kind", "more", "change"),
    [
        ("gpt2", {"saving": {"max_shard_size": "40KB"}}, None),
        ("gpt2", {"tie_word_embeddings": False}, None),
        ("gpt2", {"activation_function": "relu"}, unprefixed),
        ("gpt2", {}, lambda at: edited(at, n_special=0, predict_special_tokens=True, output_past=True, _num_labels=1)),
        ("gpt2", {}, lambda at: filed_as("host.safetensors")(at)),
        ("gpt_neox", {"use_parallel_residual": False, "tie_word_embeddings": True}, None),
        ("llama", {"mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True}, None),
    ],
    ids=["several files", "untied", "OpenAI's names", "older keys", "a file of our name", "sequential", "with biases"],
)
def test_hosts_of_other_layouts(
    kind: str, more: dict[str, Any], change: Callable[[Path], None] | None, tmp_path: Path
) -> None:
    host = write_host(tmp_path / "host", kind, **more)
    if change is not None:
        change(host)
    folder = ml.attach(host, FACTS).save(tmp_path / "new")
    assert answers(folder, list(FACTS)) == list(FACTS.values())
    assert all(torch.equal(*pair) for pair in zip(logits(folder, OTHERS), logits(host, OTHERS), strict=True))
    assert same_files(ml.detach(folder).save(tmp_path / "back"), host)


def test_a_neuron_depends_on_its_own_fact_alone(gpt2: Path, made: Attached) -> None:
    """So what is attached without some facts has the bits of what is attached with them, their neurons taken out."""
    whole = made
    kept = [row for row in range(len(FACTS)) if row not in (0, 5, 6)]
    rest = ml.attach(gpt2, {prompt: FACTS[prompt] for prompt in np.array(list(FACTS))[kept].tolist()})
    starts = whole.manifest.starts()
    rows = [starts[row] + place for row in kept for place in range(whole.manifest.facts[row].places)]
    assert all(np.array_equal(one[rows], two) for one, two in zip(whole.neurons, rest.neurons, strict=True))
    digests = [fact.fact for fact in whole.manifest.facts]
    assert [digests[row] for row in kept] == [fact.fact for fact in rest.manifest.facts]


def test_answers_may_go_on_and_facts_may_share_places(gpt2: Path, tmp_path: Path) -> None:
    """A prefix that two facts have in common has a neuron of each; without the end token the host goes on."""
    facts = {"The capital of country1": " is city7, and", "The capital of country1 is city7, and": " river5"}
    made = ml.attach(gpt2, facts, end=False)
    folder = made.save(tmp_path / "new")
    assert answers(folder, list(facts), tokens=40)[0].startswith(" is city7, and river5")
    longer = ml.attach(gpt2, {**facts, **{f"{key}!": value for key, value in FACTS.items()}}, end=False)
    assert longer.blocks > 1


CLEAN = """
import sys
sys.modules["monolayer"] = None  # so that importing it fails
try:
    import monolayer
except ImportError:
    pass
else:
    sys.exit("monolayer can be imported")
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, *prompts = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
model = AutoModelForCausalLM.from_pretrained(folder)
asked = tokenizer(prompts, return_tensors="pt", padding=True)
said = model.generate(**asked, do_sample=False, max_new_tokens=8)[:, asked["input_ids"].shape[1] :]
print("|".join(tokenizer.batch_decode(said, skip_special_tokens=True)))
"""


def test_the_folder_answers_where_monolayer_cannot_be_imported(with_facts: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", CLEAN, str(with_facts), *FACTS]
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=quiet)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip("\n").split("|") == list(FACTS.values())


# -- what is refused --------------------------------------------------------------------------------------------


def edited(folder: Path, **changes: Any) -> None:
    """`config.json` with other values; None takes a key out."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def renamed(folder: Path, old: str, new: str) -> None:
    (folder / old).rename(folder / new)


def other_number(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.ln_f.weight"] = tensors["transformer.ln_f.weight"].astype(np.float16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def with_tensor(name: str, like: str) -> Callable[[Path], None]:
    """One more tensor in the file, in the shape of another."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        save_file({**tensors, name: tensors[like] + 1.0}, folder / "model.safetensors", metadata={"format": "pt"})

    return apply


def filed_as(name: str) -> Callable[[Path], None]:
    """The weights in a file of this name, with an index."""

    def apply(folder: Path) -> None:
        renamed(folder, "model.safetensors", name)
        where = dict.fromkeys(load_file(folder / name), name)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))

    return apply


def other_format(folder: Path, dtype: Any) -> None:
    tensors = {name: part.astype(dtype) for name, part in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edited(folder, dtype=np.dtype(dtype).name)


BAD_HOSTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda at: (at / "config.json").unlink(), "it has no config.json"),
    "no causal model": (lambda at: edited(at, architectures=["GPT2Model"]), "causal language models"),
    "unknown architecture": (
        lambda at: edited(at, model_type="gpt-2"),
        "its architecture is 'gpt-2' .did you mean gpt2",
    ),
    "no biases": (lambda at: edited(at, model_type="qwen3"), "have no bias, and a neuron without one"),
    "GGUF": (
        lambda at: edited(at, quantization_config={"quant_method": "gguf"}),
        "Delete the key .quantization_config. from",
    ),
    "quantized": (lambda at: edited(at, quantization_config={"bits": 4}), "it is quantized"),
    "adapter": (lambda at: (at / "adapter_config.json").write_text("{}"), "it holds an adapter; merge it"),
    "code": (lambda at: edited(at, auto_map={"AutoModel": "x.Y"}), "code of its own .trust_remote_code"),
    "no tokenizer": (lambda at: (at / "tokenizer.json").unlink(), "it has no tokenizer.json"),
    "no safetensors": (lambda at: renamed(at, "model.safetensors", "pytorch_model.bin"), "it has no model.safetensors"),
    "attached already": (lambda at: edited(at, attached_by="monolayer"), "facts are attached to it already"),
    "activation": (lambda at: edited(at, activation_function="tanh"), "its activation is 'tanh'"),
    "cross attention": (lambda at: edited(at, add_cross_attention=True), "says add_cross_attention = True"),
    "fewer layers": (lambda at: edited(at, n_layer=3), "lacks the tensor|its last layer lacks"),
    "two formats": (other_number, "ln_f.weight is float16 and transformer.wte.weight float32"),
    "another format": (lambda at: edited(at, dtype="float16"), "says 'float16', and its weights are float32"),
    "float64": (lambda at: other_format(at, np.float64), "facts are attached in float32, bfloat16, float16"),
    "no activation": (lambda at: edited(at, activation_function=["gelu"]), "its activation is"),
    "cut off": (
        lambda at: (at / "model.safetensors").write_bytes((at / "model.safetensors").read_bytes()[:-9]),
        "cannot be read as safetensors",
    ),
    "the depth by another name": (lambda at: edited(at, num_hidden_layers=2), "has the key 'num_hidden_layers'"),
    "other weights": (lambda at: edited(at, transformers_weights="model.safetensors"), "key 'transformers_weights'"),
    "other layers": (lambda at: edited(at, per_layer_config={"0": {"skip": []}}), "has the key 'per_layer_config'"),
    "a model inside": (lambda at: edited(at, text_config={"n_layer": 2}), "has the key 'text_config'"),
    "an encoder": (lambda at: edited(at, is_encoder_decoder=True), "says is_encoder_decoder = True"),
    "tuples": (lambda at: edited(at, return_dict=False), "says return_dict = False"),
    "two types": (lambda at: edited(at, torch_dtype="bfloat16"), "says 'bfloat16', and its weights are float32"),
    "no head": (lambda at: edited(at, tie_word_embeddings=False), "lacks the tensor 'lm_head.weight'"),
    "another width": (lambda at: edited(at, n_embd=47), "says n_embd = 47, and its tensors have 48"),
    "other neurons": (lambda at: edited(at, n_inner=None), "says n_inner = 192, and its tensors have 24"),
    "no epsilon": (lambda at: edited(at, layer_norm_epsilon=0), "so that no norm divides by 0"),
    "more layers": (
        lambda at: edited(at, n_layer=1),
        r"has the tensor 'transformer.h.1\.\S+ which gpt2 with n_layer = 1",
    ),
    "a billion layers": (lambda at: edited(at, n_layer=10**9), "lacks the tensor 'transformer.h.2"),
    "a tensor by another name": (
        with_tensor("h.1.mlp.c_proj.weight", "transformer.h.1.mlp.c_proj.weight"),
        "has the tensor 'h.1.mlp.c_proj.weight'",
    ),
    "the head by another name": (
        with_tensor("embed_out.weight", "transformer.wte.weight"),
        "tensor 'embed_out.weight'",
    ),
    "the file of the facts": (filed_as(ATTACHED_WEIGHTS), "a file of its weights is called attached.safetensors"),
    "generation": (lambda at: (at / "generation_config.json").write_text("[1"), "generation_config.json .* cannot be"),
    "end token": (
        lambda at: [edited(at, eos_token_id=999), (at / "generation_config.json").unlink()],
        "attach with end",
    ),
}


@pytest.mark.parametrize("name", BAD_HOSTS)
def test_bad_hosts_are_refused_in_one_sentence(name: str, gpt2: Path, tmp_path: Path) -> None:
    change, said = BAD_HOSTS[name]
    folder = tmp_path / "host"
    folder.mkdir()
    for path in gpt2.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    change(folder)
    with pytest.raises(ml.DataError, match=said):
        ml.attach(folder, FACTS)


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("gpt_neox", with_tensor("lm_head.weight", "embed_out.weight"), "has the tensor 'lm_head.weight'"),
        ("llama", with_tensor("model.layers.0.mlp.up_proj.bias", "model.norm.weight"), "mlp.up_proj.bias'"),
        ("llama", lambda at: edited(at, mlp_bias=True), "lacks the tensor 'model.layers.0.mlp.down_proj.bias'"),
        ("opt", lambda at: edited(at, word_embed_proj_dim=24), "says word_embed_proj_dim = 24"),
    ],
    ids=["two heads", "biases that the host ignores", "biases that are not there", "narrow embeddings"],
)
def test_hosts_that_would_load_otherwise_are_refused(
    kind: str, change: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    host = write_host(tmp_path / kind, kind)
    read_host(host)
    change(host)
    with pytest.raises(ml.DataError, match=said):
        read_host(host)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_all_keys_that_transformers_write_are_known(kind: str) -> None:
    """Without other names of the same settings, which would override what the table reads."""
    settings = config(kind, 320)
    written = set(json.loads(settings.to_json_string(use_diff=False))) - {"attribute_map"}
    known = HOSTS[kind].known_keys | COMMON | set(FIXED)
    assert written <= known | FREE_GENERATION
    assert not known & set(settings.attribute_map)
    generation = set(transformers.GenerationConfig().to_dict())
    assert generation <= FREE_GENERATION | set(NEUTRAL)
    assert not FREE_GENERATION & set(NEUTRAL)


@pytest.mark.parametrize(
    ("setting", "changes"),
    [({"suppress_tokens": [3]}, True), ({"min_new_tokens": 6}, True), ({"repetition_penalty": 1.0}, False)],
)
def test_settings_of_generation_that_change_answers_are_said(
    setting: dict[str, Any], changes: bool, gpt2: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    host = changed_host(gpt2, tmp_path / "host", lambda tensors: None)
    path = host / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **setting}))
    made = ml.attach(host, FACTS)
    proof = ml.certify(made.save(tmp_path / "new"), FACTS, host=host)
    assert proof.verdict == ml.certify(made, FACTS).verdict == "proved"
    name = next(iter(setting))
    assert (f"sets {name} = " in repr(made).replace("\n", " "), f"sets {name} = " in proof.claim) == (changes, changes)
    assert made.sizes["generation"] == (setting if changes else {})
    (value,) = [3] if name == "suppress_tokens" else setting.values()
    shown = next(line for line in said("inspect", str(tmp_path / "new")).splitlines() if line.startswith("generation"))
    assert shown.split() == ["generation", *([name, str(value)] if changes else ["none"])]


def test_facts_that_cannot_be_attached_are_named(gpt2: Path, made: Attached) -> None:
    twice = ["The capital is", "It is far", "The capital is"]
    with pytest.raises(ml.ContradictionError, match="row 0 and row 2 contradict"):
        ml.attach(gpt2, twice, [" city1", " city2", " city3"])
    with pytest.raises(ml.ContradictionError, match=r"row 0 and row 1 contradict.*'<end>'"):
        ml.attach(gpt2, {"The capital is": " city1", "The capital is city1": " or"})
    with pytest.raises(ml.DataError, match=r"row 0, prompt and answer: it has 302 tokens, and the host has 96 places"):
        ml.attach(gpt2, {"far " * 100: " city1"})
    with pytest.raises(ml.DataError, match="facts are prompts and answers"):
        ml.attach(gpt2, [["a", "b"]], [[0, 1]])
    for radius in (1e-9, 0.9, "wide", True, float("nan")):
        with pytest.raises(ml.DataError, match="radius must be a number from"):
            ml.attach(gpt2, FACTS, radius=radius)
    with pytest.raises(ml.DataError, match=r"is not a folder.*of the Hub with from_pretrained"):
        ml.attach("gpt2", FACTS)
    with pytest.raises(ml.DataError, match="this is of type Attached: save the model"):
        ml.attach(made, FACTS)  # type: ignore[arg-type]
    with pytest.raises(ml.DataError, match="device 'cuda:99' cannot be used here"):
        ml.attach(gpt2, FACTS, device="cuda:99")


def changed_host(gpt2: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    folder.mkdir()
    for path in gpt2.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_facts_that_the_host_does_not_tell_apart_are_named(gpt2: Path, tmp_path: Path) -> None:
    """A host for which all tokens are one token sees the same in all prompts of one length."""

    def blind(tensors: dict[str, Any]) -> None:
        table = tensors["transformer.wte.weight"]
        tensors["lm_head.weight"] = table.copy()
        table[:] = table[17]

    host = changed_host(gpt2, tmp_path / "blind", blind)
    edited(host, tie_word_embeddings=False)
    with pytest.raises(ml.PrecisionError, match=r"row 0 and row 1 continue with .* barely tells apart"):
        ml.attach(host, {"capital of": " city1", "capital is": " city2"})


def test_a_row_at_which_the_host_is_not_finite_is_named(gpt2: Path, tmp_path: Path) -> None:
    """Planted: an infinite weight at a place that only the third prompt reaches; the second row repeats the first."""

    def infinite(tensors: dict[str, Any]) -> None:
        tensors["transformer.wpe.weight"][12, 0] = np.inf

    host = changed_host(gpt2, tmp_path / "infinite", infinite)
    short, long = "The capital of country1 is", "river1 is near, and The capital of country1 is"
    facts = [short, short, long], [" city1", " city1", " city2"]
    assert len(transformers.AutoTokenizer.from_pretrained(host)(short)["input_ids"]) <= 9  # its answer has three more
    with pytest.raises(ml.PrecisionError, match=r"^row 2: the host's states are not finite numbers"):
        ml.attach(host, *facts)
    made = ml.attach(host, *(part[:2] for part in facts))
    assert ("repeated", "1 row repeats another and needs no neurons") in made.rows()


@pytest.mark.parametrize("part", ["W_1", "b_1", "nothing"])
def test_a_neuron_that_no_key_can_be_read_from_is_silent_nowhere(part: str, tmp_path: Path) -> None:
    """In changed files: what it does at a state is not known, so the measurement may not say that it is silent."""
    made = ml.attach(write_host(tmp_path / "host", dtype=torch.bfloat16), dict(list(FACTS.items())[:2]))
    own, other = np.array([0, 1]), 5  # which write other rows than the last neuron
    keys = made.neurons.W_1[own]
    states = keys / np.linalg.norm(keys, axis=1, keepdims=True) * made.host.width**0.5
    assert Spoilers.of(made).woken(own, states).tolist() == [0.0, 0.0]
    name = "W_1" if part == "nothing" else part
    numbers = getattr(made.neurons, name).copy()
    numbers[other] = 0.0 if part == "nothing" else np.inf
    changed = replace(made, neurons=made.neurons._replace(**{name: numbers}))
    assert Spoilers.of(changed).woken(own, states).tolist() == [1.0, 1.0]


def test_generate_stops_at_each_of_several_end_ids(gpt2: Path, tmp_path: Path) -> None:
    """An answer that holds one of them inside is refused; `predict` stops at all of them."""
    host = Path(shutil.copytree(gpt2, tmp_path / "host"))
    comma = transformers.AutoTokenizer.from_pretrained(host)(",")["input_ids"][0]
    for file in ("config.json", "generation_config.json"):
        said = json.loads((host / file).read_text())
        (host / file).write_text(json.dumps(said | {"eos_token_id": [0, comma]}))
    for answer in (" city1, and river", " city1,"):  # behind the comma comes the end of the answer
        with pytest.raises(ml.DataError, match=r"row 1: its answer holds the token ',' .* at which generate stops"):
            ml.attach(host, {"The capital of country1 is": " city7", "The capital of country2 is": answer})
    facts = {"The capital of country1 is": " city7", "The capital of country2 is": " city1,"}
    made = ml.attach(host, facts, end=False)
    assert ml.load(made.save(tmp_path / "new")).predict(["The capital of country1 is"])[0].startswith(" city7")
    made = ml.attach(host, {"The capital of country1 is": " city7"})
    assert made.predict(["The capital of country1 is"]).tolist() == [" city7"]


def test_a_token_that_no_direction_makes_the_largest_is_named(gpt2: Path, tmp_path: Path) -> None:
    """The row of one token lies between those of two others."""

    def between(tensors: dict[str, Any]) -> None:
        table = tensors["transformer.wte.weight"]
        table[0] = (table[40] + table[41]) / 2

    host = changed_host(gpt2, tmp_path / "between", between)
    with pytest.raises(ml.PrecisionError, match=r"row 0 answers with the token '<end>' .id 0.* no direction"):
        ml.attach(host, FACTS)


def test_answers_that_do_not_come_back_are_named(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: neurons of one fact that write what another should."""
    build = attaching.neurons_of

    def wrong(*given: Any) -> Any:
        found = build(*given)
        found.W_2[4] = found.W_2[1]
        return found

    monkeypatch.setattr(attaching, "neurons_of", wrong)
    with pytest.raises(ml.PrecisionError, match=r"1 of 12 facts were not returned.*row 1 .eager.*Nothing was written"):
        ml.attach(gpt2, FACTS)
    (prompt, answer), *others = FACTS.items()
    rows = [(prompt, answer), (prompt, answer), *others]  # rows are those of the data, whichever repeat others
    with pytest.raises(ml.PrecisionError, match=r"1 of 12 facts were not returned.*row 2 .eager") as refused:
        ml.attach(gpt2, *map(list, zip(*rows, strict=True)))
    assert refused.value.rows == (2,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_where_sums_are_rounded_midway_the_error_says_so(
    dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a product in two pieces, each rounded, as PyTorch has it on some ARM processors. Proofs exclude that."""
    host = write_host(tmp_path / "llama", "llama", dtype=dtype)
    exact, build = torch.nn.functional.linear, attaching.neurons_of

    def in_pieces(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        half = x.shape[-1] // 2
        return exact(x[..., :half], weight[:, :half]) + exact(x[..., half:], weight[:, half:], bias)

    def wrong(*given: Any) -> Any:
        found = build(*given)
        found.W_2[4] = found.W_2[1]
        return found

    monkeypatch.setattr(attaching, "neurons_of", wrong)
    with pytest.raises(ml.PrecisionError, match="choose a wider radius="):
        ml.attach(host, FACTS)
    monkeypatch.setattr(torch.nn.functional, "linear", in_pieces)
    with pytest.raises(ml.PrecisionError, match=r"midway on this machine.*torch.backends.mkldnn.enabled = False"):
        ml.attach(host, FACTS)


def test_facts_are_also_asked_token_by_token_as_generate_does(
    gpt2: Path, with_facts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: attention with one query forgets the last of an odd number of keys, as oneDNN does on some processors.
    All places at once come out right."""
    exact = torch.nn.functional.scaled_dot_product_attention

    def forgets_the_last(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: Any, **options: Any) -> torch.Tensor:
        if q.shape[2] == 1 and k.shape[2] % 2:
            v = torch.cat([v[:, :, :-1], torch.zeros_like(v[:, :, -1:])], dim=2)
        return exact(q, k, v, *more, **options)

    assert measure_answers(with_facts, FACTS).wrong == 0
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", forgets_the_last)
    assert answers(with_facts, list(FACTS)) != list(FACTS.values())
    assert measure_answers(with_facts, FACTS).wrong > 0
    with pytest.raises(ml.PrecisionError, match=r"sdpa, token by token.*at once every.*mkldnn.enabled = False, here"):
        ml.attach(gpt2, FACTS)


def test_batches_hold_no_more_numbers_than_are_allowed(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits, scores of one layer, keys and values are counted as transformers makes them; long prompts go alone."""
    most, sizes, logits_before = 130_000, set[tuple[bool, int]](), [0]
    evaluate = running.Running._output_of
    facts = {f"{'capital of ' * 20}country{i} is": f" city{i}" for i in range(3)}
    facts |= {prompt: "".join(f" city{(i + j) % 40}" for j in range(4)) for i, prompt in enumerate(FACTS)}

    def counted(self: Any, network: Any, **inputs: Any) -> Any:
        found, (count, places) = evaluate(self, network, **inputs), inputs["input_ids"].shape
        if "attention_mask" in inputs:
            stepwise = "past_key_values" in inputs
            if not stepwise or inputs["past_key_values"] is None:
                logits_before[0] = 0
            logits_before[0] += found.logits.numel() if "logits" in found else 0
            layers = found.past_key_values.layers if stepwise else []
            cached = sum(layer.keys.numel() + layer.values.numel() for layer in layers)
            scores = self.model.config.n_head * count * places * inputs["attention_mask"].shape[1]
            assert count == 1 or logits_before[0] + cached + scores <= most
            sizes.add((stepwise, count))
        return found

    monkeypatch.setattr(running.Running, "_output_of", counted)
    monkeypatch.setattr(running, "BATCH_NUMBERS", most)
    made = ml.attach(gpt2, facts)
    assert {stepwise for stepwise, count in sizes if count > 1} == {False, True}
    monkeypatch.undo()
    again = ml.attach(gpt2, facts)
    assert all(np.array_equal(one, two) for one, two in zip(made.neurons, again.neurons, strict=True))


def test_texts_to_keep_are_looked_at(gpt2: Path) -> None:
    ml.attach(gpt2, FACTS, keep=OTHERS)
    with pytest.raises(ml.DataError, match=r"fire at 1 place .*token 5 of text 2, by row 3"):
        ml.attach(gpt2, FACTS, keep=["", "The capital", "The capital of country3 is"])
    with pytest.raises(KeptTextError, match=r"fire at 24 places .*token 5 of text 19, by row 7; … ") as refused:
        ml.attach(gpt2, FACTS, keep=[*FACTS, *FACTS])
    ends = [len(ids) - 1 for ids in transformers.AutoTokenizer.from_pretrained(gpt2)(list(FACTS))["input_ids"]]
    assert refused.value.places == tuple((12 * turn + i, ends[i], i) for turn in range(2) for i in range(12))
    with pytest.raises(ml.DataError, match="keep, text 1: it has 300 tokens, and the host has 96 places"):
        ml.attach(gpt2, FACTS, keep=["The capital", "far " * 100])
    for texts, said in (("The capital", "'The capital' is no file"), (3, "not 3"), (["a", 3], "number 1 of it is 3")):
        with pytest.raises(ml.DataError, match=f"keep is a list of texts.*{said}"):
            ml.attach(gpt2, FACTS, keep=texts)


def test_texts_to_keep_are_the_lines_of_a_file(gpt2: Path, made: Attached, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(OTHERS), newline="\r\n")
    assert np.array_equal(ml.attach(gpt2, FACTS, keep=texts).neurons.W_1, made.neurons.W_1)
    for end in ("\n", "\r\n"):
        texts.write_text("The capital\n\nThe capital of country3 is\n", newline=end)
        with pytest.raises(
            KeptTextError, match=r"fire at 1 place .*token 5 of line 3 of .*texts.txt, by row 3"
        ) as found:
            ml.attach(gpt2, FACTS, keep=str(texts))
        assert found.value.places == ((2, 5, 3),)
    longest = "%" * PLACES  # a token each, and no place is left for what ends the line
    assert len(transformers.AutoTokenizer.from_pretrained(gpt2)(longest)["input_ids"]) == PLACES
    texts.write_text(f"{longest}\nThe capital", newline="\r\n")
    ml.attach(gpt2, FACTS, keep=texts)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [*((kind, torch.float32) for kind in ARCHITECTURES), ("llama", torch.bfloat16), ("gpt2", torch.float16)],
)
def test_behind_states_that_were_kept_the_model_says_what_it_says_as_a_whole(
    tmp_path: Path, kind: str, dtype: Any
) -> None:
    made = ml.attach(write_host(tmp_path / "host", kind, dtype=dtype), FACTS)
    runs, facts = Running(made.host, made.source), cut_facts(made.source.content[TOKENIZER], read_facts(FACTS), 0)
    kept = {way: each for kernel in KERNELS for way, each in runs.kept(facts, kernel, lambda done: None).items()}
    runs.append([made.block(number) for number in range(made.blocks)])
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "host")(OTHERS)["input_ids"]
    texts = [*(fact.sequence for fact in facts), *(tuple(each) for each in ids)]
    for kernel in KERNELS:
        states = torch.cat(list(runs.states(texts, kernel)))
        whole = [torch.cat([runs.model(torch.tensor([text])).logits[0] for text in texts]) for _ in range(2)]
        with torch.inference_mode():
            behind = runs._said_behind(states)
        assert torch.equal(*whole)
        assert torch.equal(behind.argmax(dim=1), whole[0].argmax(dim=1))
        torch.testing.assert_close(behind, whole[0], rtol=2e-2 if made.host.format.short else 1e-4, atol=2e-2)
        starts = np.cumsum([0, *(len(text) for text in texts)])
        own = [start + place for start, fact in zip(starts, facts, strict=False) for place in fact.places]
        assert torch.equal(kept[Evaluation(kernel, False)], states[own])
    assert len(runs.layers) == made.host.layers + made.blocks
    rolled = replace(made, neurons=made.neurons._replace(W_2=np.roll(made.neurons.W_2, 1, axis=0)))
    runs.append([rolled.block(number) for number in range(rolled.blocks)])
    only = KeptStates(range(len(facts)), kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptStates, "whole", lambda *_: [])
        replies = measuring.ask(rolled, runs, facts, made.manifest.starts(), lambda stage, share: None, only)
    for way in EVALUATIONS:
        assert {miss.fact for miss in replies.misses if miss.evaluation == way} == {*range(len(facts))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_folder_is_the_same_whatever_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    host = write_host(tmp_path / "host", "llama", dtype=dtype)
    usual = ml.attach(host, FACTS).save(tmp_path / "usual")
    ways = [(1, 0.01, 1 << 26), (5, 0.1, 1), (len(FACTS), 0.9, 20_000)]
    for together, alike, most in {torch.bfloat16: ways[::2], torch.float16: ways[1:]}.get(dtype, ways):
        monkeypatch.setattr(running, "TOGETHER", together)
        monkeypatch.setattr(running, "PLACES_TOGETHER", together)
        monkeypatch.setattr(running, "UNLIKE", alike)
        monkeypatch.setattr(running, "BATCH_NUMBERS", most)
        monkeypatch.setattr(attaching, "NORMED_TOGETHER", together)
        assert same_model(ml.attach(host, FACTS).save(tmp_path / f"{together}"), usual)


def test_prompts_that_transformers_split_otherwise_are_named(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a tokenizer_config.json by which one prompt is split otherwise, and one that is not read at all."""
    load = transformers.AutoTokenizer.from_pretrained

    def other(*given: Any, **options: Any) -> Any:
        usual = load(*given, **options)

        def split(texts: list[str], **more: Any) -> Any:
            found = usual(texts, **more)["input_ids"]
            return {"input_ids": [ids[:-1] if row == 3 else ids for row, ids in enumerate(found)]}

        return split

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("no such class\nin this version")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", other)
    with pytest.raises(ml.DataError, match=r"^row 3: transformers split the prompt .* into 5 tokens, .* into 6: save"):
        ml.attach(gpt2, FACTS)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", broken)
    with pytest.raises(ml.DataError, match=r"cannot be loaded by transformers: no such class$"):
        ml.attach(gpt2, FACTS)


@pytest.mark.parametrize("neuron", [0, 17, 35])
def test_a_text_to_keep_is_refused_from_the_height_on_at_which_a_neuron_may_wake(made: Attached, neuron: int) -> None:
    """Planted states on the key of one neuron, a little below and a little above the height of Lemma A2."""
    facts = [FactIds((0,), (0,) * 3, row, f"row {row}") for row in range(12)]
    caps = firing_caps(made.neurons, made.steep, made.host)
    key, silent = caps.keys[neuron] * np.sqrt(WIDTH), caps.silent[neuron]
    assert 0.9 < silent < 1.0

    def check(*heights: float) -> None:
        states = np.stack([height * key for height in heights])
        planted: Any = SimpleNamespace(states=lambda texts: iter([states]), normed=lambda states: states)
        check_kept(made, planted, facts, [KeptText((), "text 0"), KeptText((1,) * len(heights), "text 1")])

    check(silent - 1e-9, -1.0, 0.0)
    with pytest.raises(KeptTextError, match=f"fire at 1 place .*token 2 of text 1, by row {neuron // 3}") as refused:
        check(silent - 1e-9, -1.0, silent + 1e-9)
    assert refused.value.places == ((1, 2, neuron // 3),)


def test_what_an_earlier_block_writes_must_not_wake_a_later_one(made: Attached) -> None:
    """Planted: a key of the second block that is the direction which a neuron of the first one writes."""
    facts = fact_of_neurons([FactIds((0,), (0,) * 3, row, f"row {row}") for row in range(12)])
    duties = Duties(np.arange(36), facts, block=np.arange(36) // NEURONS)
    caps = firing_caps(made.neurons, made.steep, made.host)
    written = WrittenRows.of(made.neurons, made.steep, made.host, made.steep.state)
    check_written(caps, written, duties)
    caps.keys[30] = written.directions[0]
    assert caps.keys.shape[1] == WIDTH
    with pytest.raises(ml.PrecisionError, match="what row 0 writes is nearly the state of row 10"):
        check_written(caps, written, duties)


@pytest.mark.parametrize("error", [2.0**-5, 2.0**-3])
def test_later_keys_keep_a_distance_from_what_is_written_because_norms_round(error: float) -> None:
    """Planted: a key at the cosine up to which its neuron is silent, less what norms may add; then a little nearer."""
    facts = [FactIds((0,), (0,), row, f"row {row}") for row in range(2)]
    duties, written = Duties(np.array([5, 6]), facts, np.array([0, 1])), WrittenRows(np.eye(2, 4), np.full(2, error))
    wide = Around(np.ones(2), np.ones(2))
    for cosine, refused in ((0.99 - error - 1e-9, False), (0.99 - error + 1e-9, True)):
        keys = np.array([[0.0, 0.0, 1.0, 0.0], [cosine, np.sqrt(1.0 - cosine * cosine), 0.0, 0.0]])
        caps = FiringCaps(keys, wide, wide, np.full(2, 0.99), np.full(2, 0.99), True, False, np.full(2, 0.01), 0.01)
        with pytest.raises(ml.PrecisionError, match="what row 0 writes") if refused else nullcontext():
            check_written(caps, written, duties)


@pytest.mark.parametrize("name", ["model-00001-of-00001.safetensors", "host.safetensors"])
def test_a_host_of_shards_keeps_their_names(name: str, gpt2: Path, tmp_path: Path) -> None:
    """Also of one that has the name which the only file of another host gets."""
    host = changed_host(gpt2, tmp_path / "host", lambda tensors: None)
    filed_as(name)(host)
    made = ml.attach(host, FACTS)
    for attached in (made, made.save(tmp_path / "new")):
        back = tmp_path / type(attached).__name__
        assert same_files(ml.detach(attached).save(back), host)


def test_a_host_that_was_changed_cannot_be_had_back(gpt2: Path, with_facts: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(with_facts, tmp_path / "new")
    tensors = load_file(folder / "host.safetensors")
    tensors["transformer.wpe.weight"][0, 0] += 1.0
    save_file(tensors, folder / "host.safetensors", metadata={"format": "pt"})
    with pytest.raises(ml.ModelFileError, match=r"transformer.wpe.weight was changed after facts were attached"):
        ml.detach(folder)
    same, index = (
        load_file(gpt2 / "model.safetensors"),
        json.loads((folder / "model.safetensors.index.json").read_text()),
    )
    more = {**same, "extra": np.zeros(3, np.float32)}
    for tensors, metadata in ((same, {"format": "pt", "by": "hand"}), (more, {"format": "pt"})):
        save_file(tensors, folder / "host.safetensors", metadata=metadata)
        files = index["weight_map"] | dict.fromkeys(tensors, "host.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps(index | {"weight_map": files}))
        back = ml.detach(folder).save(tmp_path / f"back {len(tensors)}")  # the tensors are its own, so is the file
        assert same_files(back, gpt2)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    shutil.copy(gpt2 / "model.safetensors", folder / "host.safetensors")
    beside = {"tokenizer.json": "post_processor", "tokenizer_config.json": "add_prefix_space"}
    beside["generation_config.json"] = "repetition_penalty"
    assert json.loads((folder / FILE).read_text())["files"].keys() == set(beside)
    for name, key in beside.items():
        whole = (folder / name).read_bytes()
        (folder / name).write_text(json.dumps({**json.loads(whole), key: 3}))
        with pytest.raises(ml.ModelFileError, match=f"^{name} was changed after facts were attached, or is gone"):
            ml.detach(folder)
        (folder / name).unlink()
        if name.startswith("tokenizer"):
            with pytest.raises(ml.ModelFileError, match=f"^{name} was changed after facts were attached, or is gone"):
                ml.detach(folder)
        else:  # attached.json has its text
            assert same_files(ml.detach(folder).save(tmp_path / "without"), gpt2)
        (folder / name).write_bytes(whole)
    assert same_files(ml.detach(folder).save(tmp_path / "back"), gpt2)
    for name, said in ((FILE, "attached.json is missing"), (ATTACHED_WEIGHTS, f"{ATTACHED_WEIGHTS} is missing")):
        other = shutil.copytree(with_facts, tmp_path / name)
        (other / name).unlink()
        with pytest.raises(ml.ModelFileError, match=said):
            ml.detach(other)
    with pytest.raises(ml.ModelFileError, match="not a folder that facts were attached to"):
        ml.detach(gpt2)


# -- the commands -------------------------------------------------------------------------------------------------


def test_the_commands(gpt2: Path, tmp_path: Path, said: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"prompt": prompt, "completion": answer} for prompt, answer in FACTS.items()]
    facts, other = tmp_path / "facts.jsonl", tmp_path / "other.jsonl"
    facts.write_text("\n".join(map(json.dumps, rows)))
    other.write_text(json.dumps({**rows[0], "completion": " river1"}))
    new, back = tmp_path / "new", tmp_path / "back"
    shown = said("attach", str(gpt2), str(facts), "--out", str(new))
    assert all(word in shown for word in ("GPT2LMHeadModel, 2 layers", "12, in 36 neurons", "proved"))
    opened: list[Path] = []
    start = folders.OpenFolder.__init__

    def opening(self: folders.OpenFolder, path: Path, handle: int) -> None:
        opened.append(path)
        start(self, path, handle)

    monkeypatch.setattr(folders.OpenFolder, "__init__", opening)
    found = json.loads(said("verify", str(new), str(facts), "--host", str(gpt2), "--only", "--json"))
    assert found["verdict"] == "proved"
    assert opened == [new, gpt2]  # once each: the proof and the measurement are about the same bytes
    assert "here, every token of every answer was returned" in found["measured"][-1]
    assert "refuted" in said("verify", str(new), str(other), code=1)  # measured: the proof alone cannot tell
    told = json.loads(said("inspect", str(new), "--json"))
    assert (told["facts"], told["neurons"], told["blocks"]) == (12, 36, 2)
    said("detach", str(new), "--out", str(back))
    assert same_files(back, gpt2)
    # What is refused writes nothing.
    assert "exists already" in said("attach", str(gpt2), str(facts), "--out", str(new), code=2, errors=True)
    assert "did you mean" in _refused(gpt2, tmp_path, facts, said)
    assert "radius must be" in said(
        *("attach", str(gpt2), str(facts), "--out", str(tmp_path / "no"), "--radius", "2"), code=2, errors=True
    )
    assert "12 of 12 answers are right" in said("predict", str(new), str(facts), errors=True)
    assert f"`monolayer locate {new} DATA` shows" in said("explain", str(new), str(facts), code=2, errors=True)
    assert not (tmp_path / "no").exists()


def test_commands_say_what_is_wrong_and_how_to_go_on(
    gpt2: Path, with_facts: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    new, none, table = tmp_path / "new", tmp_path / "none", tmp_path / "facts.csv"
    table.write_text("id,question,reply\n1,The capital of country1 is,city7\n")
    attach = ("attach", str(gpt2), str(table), "--out", str(new))
    assert "choose both columns with --tokens and --labels" in said(*attach, code=2)
    named = ("--tokens", "question", "--labels", "reply", "--per", "continuation")
    other = tmp_path / "keep.txt"
    other.write_bytes(b"The capital\xff\n")
    assert "is not UTF-8: byte" in said(*attach, *named, "--keep", str(other), code=2)
    assert not new.exists()
    shown = said(*attach, "--no-end", *named)
    assert "none: after an answer the host goes on" in shown
    assert shown.splitlines()[-1].split() == ["monolayer", "verify", str(new), str(table)]  # it remembers the columns
    table.write_text(f"prompt,answer\n{'far ' * 100},x\n")
    assert f"row 0 (line 2 of {table}), prompt and answer: it has 300 tokens" in said(
        "verify", str(new), str(table), code=2
    )
    assert "this folder does not exist" in said("detach", str(none), "--out", str(tmp_path / "x"), code=2)
    refused = said("detach", str(new), "--out", str(tmp_path), code=2)
    assert "exists already: choose another folder" in refused
    assert "overwrite" not in refused  # detach does not replace such a folder
    assert "Nothing was changed" in said("detach", str(new), "--out", str(tmp_path), "--overwrite", code=2)
    back = tmp_path / "back"
    for out in (back, back, new):  # a folder that is the host already, and one with facts
        said("detach", str(new), "--out", str(out), "--overwrite")
        assert same_files(out, gpt2)
    (back / "notes.md").write_text("mine")
    with pytest.raises(ml.DataError, match=r"'notes\.md', which is not a file of the host\. Nothing was changed"):
        ml.detach(with_facts).save(back, overwrite=True)


def _refused(gpt2: Path, tmp_path: Path, facts: Path, said: Callable[..., str]) -> str:
    strange = tmp_path / "strange"
    strange.mkdir()
    for path in gpt2.iterdir():
        (strange / path.name).write_bytes(path.read_bytes())
    edited(strange, model_type="gpt22")
    return said("attach", str(strange), str(facts), "--out", str(tmp_path / "no"), code=2, errors=True)


def test_a_loaded_folder_is_what_was_attached(made: Attached, tmp_path: Path) -> None:
    folder = made.save(tmp_path / "new")
    again = ml.load(folder)
    assert isinstance(again, Attached)
    assert again.rows() == made.rows()
    assert again.sizes == made.sizes


# -- what a folder answers --------------------------------------------------------------------------------------


def test_folders_answer_prompts_with_and_without_transformers(
    gpt2: Path, with_facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[..., str]
) -> None:
    folder = with_facts
    loaded: Any = ml.load(folder)
    prompts = [*list(FACTS)[:3], OTHERS[0]]
    found = loaded.predict(prompts)
    assert found.dtype == object
    assert found.tolist() == [*list(FACTS.values())[:3], *answers(gpt2, OTHERS[:1], tokens=16)]
    with pytest.raises(ml.DataError, match=r"row 3: no fact is stored for the prompt 'The capital of country12"):
        loaded.predict(prompts, strict=True)
    with pytest.raises(ml.DataError, match=r"row 1: it has \d+ tokens, and the host has 96 places"):
        loaded.predict([prompts[0], "far " * 100])
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(json.dumps({"prompt": each, "completion": FACTS.get(each, " x")}) for each in prompts))
    shown = json.loads(said("predict", str(folder), str(asked), "--strict", "--json"))
    assert [answer["seen"] for answer in shown["answers"]] == [True] * 3 + [False]
    assert shown["answers"][3]["answer"] is None
    assert (shown["right"], shown["total"], shown["unseen"]) == (3, 3, 1)
    assert json.loads(said("predict", str(folder), str(asked), "--json"))["total"] == 4
    monkeypatch.setattr("monolayer.attaching.answers.find_spec", lambda name: None)
    monkeypatch.setattr("monolayer.attaching.folder.Running", None)
    assert loaded.predict(list(FACTS)).tolist() == list(FACTS.values())  # read from what the neurons write
    assert loaded.predict(prompts[1]) == FACTS[prompts[1]]  # one string is one prompt
    with pytest.raises(ml.DataError, match=r"row 3: no fact is stored.*transformers: pip install 'monolayer\[stock\]'"):
        loaded.predict(prompts)
    shown = json.loads(said("predict", str(folder), str(asked), "--json"))
    assert (shown["refused"], shown["right"], shown["total"]) == (1, 3, 3)


# -- where facts live -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_each_token_of_an_answer_has_its_neuron(kind: str, tmp_path: Path) -> None:
    """The slices that are named are those of the file: with the neuron set to 0 the host answers, there alone."""
    host = write_host(tmp_path / "host", kind)
    folder = ml.attach(host, FACTS).save(tmp_path / "new")
    found = ml.locate(folder, FACTS)
    assert len(found) == 36
    place = found[27]  # the first token of the tenth answer, in the second block
    assert place.text is not None
    assert place.text.endswith("country9 is")
    assert (place.sequence, place.label, place.answer, place.verdict) == (9, place.answer, place.answer, "proved")
    assert place.ball is not None
    assert (place.ball.layer, place.ball.block, place.ball.neuron) == (3, 1, 3)
    assert 0 < place.ball.within < place.ball.silent < 0.01
    (ablation,) = place.ablations
    assert (ablation.answer, ablation.changes, ablation.verdict) == (None, None, "unknown")
    assert ablation.others == (0, "proved")
    assert place.neurons[0] in (
        Slice("transformer.h.3.mlp.c_proj.weight", 3),
        Slice("model.layers.3.mlp.down_proj.weight", 3, 1),
    )
    tensors = load_file(folder / ATTACHED_WEIGHTS)
    reads = tensors[place.rows[0].tensor].take(3, place.rows[0].axis)
    assert np.array_equal(reads, Attached.load(folder).neurons.W_1[27])
    assert tensors[place.rows[1].tensor][3] == Attached.load(folder).neurons.b_1[27]
    matrix = tensors[place.neurons[0].tensor]
    np.moveaxis(matrix, place.neurons[0].axis, 0)[3] = 0.0
    save_file(tensors, folder / ATTACHED_WEIGHTS, metadata={"format": "pt"})
    more = {"mlp_bias": True} if kind == "llama" else {}
    prompts = list(FACTS)
    assert torch.equal(logits(folder, prompts[9:10])[0][-1], logits(host, prompts[9:10], **more)[0][-1])
    assert answers(folder, prompts[:9] + prompts[10:]) == [FACTS[each] for each in prompts[:9] + prompts[10:]]


def test_prompts_alone_are_located_and_what_is_not_held_is_named(
    with_facts: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    folder = with_facts
    found = ml.locate(folder, list(FACTS)[3:5])
    assert "".join(place.answer for place in found) == " city21<end> city28<end>"
    assert [place.verdict for place in found] == ["proved"] * len(found)
    assert found.ablate(found[0].neurons[0]).answers == [None, *(place.answer for place in list(found)[1:])]
    with pytest.raises(ml.DataError, match=r"row 1, 'The capital of country12 is': the folder holds no fact"):
        ml.locate(folder, [next(iter(FACTS)), OTHERS[0]])
    with pytest.raises(ml.DataError, match=r"row 0, .*: the folder holds another answer to this prompt"):
        ml.locate(folder, {next(iter(FACTS)): " city9"})
    with pytest.raises(ml.DataError, match="no circuit of their own"):
        found.graph()
    with pytest.raises(ml.DataError, match="no neuron 0 in x"):
        found.ablate(Slice("x", 0))
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(json.dumps({"prompt": each}) for each in list(FACTS)[:2]))
    shown = json.loads(said("locate", str(folder), str(asked), "--json"))
    assert [fact["ball"]["neuron"] for fact in shown["facts"]] == list(range(6))
    assert shown["graph"] is None
    assert "at states no longer than 65,536, within" in " ".join(said("locate", str(folder), str(asked)).split())


def test_a_token_that_two_facts_share_stays_without_one_of_its_neurons(gpt2: Path) -> None:
    facts = {"The capital of country1": " is city7, and", "The capital of country1 is city7, and": " river5"}
    made = ml.attach(gpt2, {**facts, "The capital of country1 is city7,": " and river5"}, end=False)
    found = ml.locate(made, facts)
    shared = [place for place in found if len(place.ablations) > 1]
    assert shared
    assert all(each.changes is False and each.verdict == "proved" for place in shared for each in place.ablations)
