"""Facts attached to a host come back, nothing else changes, and the host can be had back to the byte."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.attaching import attach as attaching
from monolayer.attaching.apart import caps_of, check_written
from monolayer.attaching.folder import Attached
from monolayer.attaching.neurons import Steepness, reading, round_keys, rounded
from monolayer.huggingface.formats import FORMATS
from monolayer.huggingface.manifest import FILE, WEIGHTS
from tests.hosts import ARCHITECTURES, FACTS, NEURONS, OTHERS, WIDTH, answers, logits, write_host


@pytest.fixture(scope="module", params=ARCHITECTURES)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host") / request.param, request.param)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host") / "gpt2")


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
def test_facts_come_back_in_short_formats(kind: str, dtype: Any, tmp_path: Path) -> None:
    """Biases round by hundreds there; keys are rounded so that their own states are answered all the same."""
    host = write_host(tmp_path / kind, kind, dtype=dtype)
    made = ml.attach(host, FACTS)
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


@given(st.integers(0, 2**32 - 1), st.integers(8, 200), st.floats(20.0, 3e4), st.sampled_from(["bfloat16", "float16"]))
@settings(max_examples=40, deadline=None)
def test_a_key_in_a_short_format_answers_its_own_state(seed: int, width: int, size: float, dtype: str) -> None:
    """Every number is one of the format, next to the exact one, and the sum is no further off than with the nearest."""
    random, fmt = np.random.default_rng(seed), FORMATS[dtype]
    states = random.standard_normal((3, width)) * np.exp(random.standard_normal(width))
    exact = states * (size / (states * states).sum(axis=1))[:, None]
    found = round_keys(exact, states, np.full(3, size), fmt)
    assert np.array_equal(found, rounded(found, dtype))
    assert (np.abs(found - exact) <= 2.0 * fmt.unit * np.abs(exact) + fmt.tiny).all()
    off, plain = (np.abs((part * states).sum(axis=1) - size) for part in (found, rounded(exact, dtype)))
    assert (off <= plain + 1e-9 * size).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_least_input_of_several_evaluations_is_T(dtype: str) -> None:
    """Samples are what norms return in the format, some of them shorter by rounding."""
    random, steep = np.random.default_rng(3), Steepness(2.0**-10, 28.0)
    states = random.standard_normal((1, 20, 512)) + 0.01 * random.standard_normal((4, 20, 512))
    samples = rounded(states / np.sqrt((states * states).mean(axis=2, keepdims=True)), dtype)
    W_1, b_1 = reading(samples, steep, dtype)
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
        ("gpt_neox", {"use_parallel_residual": False, "tie_word_embeddings": True}, None),
        ("llama", {"mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True}, None),
    ],
    ids=["several files", "untied", "OpenAI's names", "sequential", "with biases"],
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


def test_a_neuron_depends_on_its_own_fact_alone(gpt2: Path) -> None:
    """So what is attached without some facts has the bits of what is attached with them, their neurons taken out."""
    whole = ml.attach(gpt2, FACTS)
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
    "no biases": (lambda at: edited(at, model_type="mistral"), "have no bias, and a neuron without one"),
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


def test_facts_that_cannot_be_attached_are_named(gpt2: Path) -> None:
    twice = ["The capital is", "It is far", "The capital is"]
    with pytest.raises(ml.ContradictionError, match="rows 0 and 2 contradict"):
        ml.attach(gpt2, twice, [" city1", " city2", " city3"])
    with pytest.raises(ml.ContradictionError, match=r"rows 0 and 1 contradict.*'<end>'"):
        ml.attach(gpt2, {"The capital is": " city1", "The capital is city1": " or"})
    with pytest.raises(ml.DataError, match=r"row 0 has .* and the host has 96 places"):
        ml.attach(gpt2, {"far " * 100: " city1"})
    with pytest.raises(ml.DataError, match="facts are prompts and answers"):
        ml.attach(gpt2, [["a", "b"]], [[0, 1]])
    for radius in (1e-9, 0.9, "wide"):
        with pytest.raises(ml.DataError, match="radius must be a number from"):
            ml.attach(gpt2, FACTS, radius=radius)
    with pytest.raises(ml.DataError, match="is not a folder"):
        ml.attach(gpt2 / "nothing", FACTS)


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
    with pytest.raises(ml.PrecisionError, match=r"rows 0 and 1 go on with .* hardly tells apart"):
        ml.attach(host, {"capital of": " city1", "capital is": " city2"})


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
    with pytest.raises(ml.PrecisionError, match=r"1 of 12 facts did not come back.*row 1 .eager.*Nothing was written"):
        ml.attach(gpt2, FACTS)


def test_texts_to_keep_are_looked_at(gpt2: Path) -> None:
    ml.attach(gpt2, FACTS, keep=OTHERS)
    with pytest.raises(ml.DataError, match=r"fire at 1 place .*token \d of text 1 .fact 3"):
        ml.attach(gpt2, FACTS, keep=["The capital", "The capital of country3 is"])


def test_what_an_earlier_block_writes_must_not_wake_a_later_one(gpt2: Path) -> None:
    """Planted: a key of the second block that is the direction which a neuron of the first one writes."""
    made = ml.attach(gpt2, FACTS)
    rows = np.repeat(np.arange(12), 3)
    block = np.arange(36) // NEURONS
    caps = caps_of(made.neurons, made.steep, made.host)
    check_written(caps, made.neurons.W_2, block, rows)
    written = made.neurons.W_2[0]
    caps.keys[30] = written / np.sqrt(written @ written)
    assert caps.keys.shape[1] == WIDTH
    with pytest.raises(ml.PrecisionError, match="what row 0 writes is nearly the state of row 10"):
        check_written(caps, made.neurons.W_2, block, rows)


def test_a_host_that_was_changed_cannot_be_had_back(gpt2: Path, tmp_path: Path) -> None:
    folder = ml.attach(gpt2, FACTS).save(tmp_path / "new")
    tensors = load_file(folder / "host.safetensors")
    tensors["transformer.wpe.weight"][0, 0] += 1.0
    save_file(tensors, folder / "host.safetensors", metadata={"format": "pt"})
    with pytest.raises(ml.ModelFileError, match=r"transformer.wpe.weight was changed after facts were attached"):
        ml.detach(folder)
    for name, said in ((FILE, "cannot be read: No such file"), (WEIGHTS, "cannot be read: No such file")):
        other = ml.attach(gpt2, FACTS).save(tmp_path / name)
        (other / name).unlink()
        with pytest.raises(ml.ModelFileError, match=said):
            ml.detach(other)
    with pytest.raises(ml.ModelFileError, match="not a folder that facts were attached to"):
        ml.detach(gpt2)


# -- the commands -------------------------------------------------------------------------------------------------


def test_the_commands(gpt2: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    rows = [{"prompt": prompt, "completion": answer} for prompt, answer in FACTS.items()]
    facts, other = tmp_path / "facts.jsonl", tmp_path / "other.jsonl"
    facts.write_text("\n".join(map(json.dumps, rows)))
    other.write_text(json.dumps({**rows[0], "completion": " river1"}))
    new, back = tmp_path / "new", tmp_path / "back"
    shown = said("attach", str(gpt2), str(facts), "--out", str(new))
    assert all(word in shown for word in ("GPT2LMHeadModel, 2 layers", "12, in 36 neurons", "proved"))
    found = json.loads(said("verify", str(new), str(facts), "--host", str(gpt2), "--only", "--json"))
    assert found["verdict"] == "proved"
    assert "here, every token of every answer came back" in found["measured"][1]
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
    assert "with transformers" in said("predict", str(new), str(facts), code=2, errors=True)
    assert not (tmp_path / "no").exists()


def _refused(gpt2: Path, tmp_path: Path, facts: Path, said: Callable[..., str]) -> str:
    strange = tmp_path / "strange"
    strange.mkdir()
    for path in gpt2.iterdir():
        (strange / path.name).write_bytes(path.read_bytes())
    edited(strange, model_type="gpt22")
    return said("attach", str(strange), str(facts), "--out", str(tmp_path / "no"), code=2, errors=True)


def test_a_loaded_folder_is_what_was_attached(gpt2: Path, tmp_path: Path) -> None:
    made = ml.attach(gpt2, FACTS)
    folder = made.save(tmp_path / "new")
    again = ml.load(folder)
    assert isinstance(again, Attached)
    assert again.rows() == made.rows()
    assert again.sizes == made.sizes
