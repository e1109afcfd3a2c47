"""Radii of attached facts: each token its own, from how far rounding may move its state; and what is proved of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.attaching import request
from monolayer.attaching.apart import WrittenRows, firing_caps
from monolayer.attaching.attach import check_outweighed
from monolayer.attaching.facts import read_facts
from monolayer.attaching.neurons import FLIPS, LATER, TURNS, Steepness, least_radius, rounded, steepness
from monolayer.checker.attached.caps import FARTHEST, caps_of, near_pairs
from monolayer.checker.attached.files import read_attached
from monolayer.errors import ModelFileError
from monolayer.huggingface.cutting import cut_facts
from monolayer.huggingface.host import TOKENIZER, read_host
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS
from monolayer.huggingface.outweighing import lengths_to_prove
from monolayer.huggingface.tensors import tensors_of
from tests.attached_changes import ROW, retold, retold_host
from tests.hosts import FACTS, WRITERS, answers, config, tokenizer, write_host

DEEP, WIDE, SHARE, LONGER = 12, 96, 0.8, 8.0


def deep_host(folder: Path, dtype: torch.dtype, longer: float = 1.0) -> Path:
    """Random weights in `DEEP` layers, whose last one makes one coordinate as large as 0.8 of all others together.

    That is what trained models do. The norm rounds this coordinate up in one kernel of attention and down in another.
    `longer`: by which factor all states are longer.
    """
    cut = tokenizer()
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config("gpt2", len(cut), n_layer=DEEP, n_embd=WIDE))
    with torch.no_grad():
        for name, part in model.named_parameters():
            if any(word in name for word in WRITERS):
                part *= 8.0
        ids = torch.tensor([cut(prompt)["input_ids"][:8] for prompt in FACTS])
        size = model(ids, output_hidden_states=True).hidden_states[-2][:, -1].norm(dim=1).mean()
        model.transformer.h[-1].mlp.c_proj.bias[5] = SHARE * size
        for name, part in model.named_parameters():
            if any(word in name for word in WRITERS):
                part *= longer
    model.to(dtype).save_pretrained(folder)
    cut.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def long_states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, dict[str, str]]:
    """A deep host in float16 with states as long as those of trained models, and facts attached to it."""
    host = deep_host(tmp_path_factory.mktemp("long") / "host", torch.float16, longer=LONGER)
    return host, *_attached(host)


def _attached(host: Path) -> tuple[Any, dict[str, str]]:
    """The facts attached to a host, without rows that it does not tell apart, which are named."""
    facts = dict(list(FACTS.items())[:9])  # of three tokens each: two blocks
    while True:
        try:
            return ml.attach(host, facts), facts
        except ml.PrecisionError as why:
            if not why.rows:
                raise
            facts = {prompt: answer for row, (prompt, answer) in enumerate(facts.items()) if row not in why.rows}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_facts_come_back_from_a_deep_host_with_one_large_coordinate(dtype: torch.dtype, tmp_path: Path) -> None:
    """With default options: returned in every kernel, batched and padded, and proved, and states stay in their caps."""
    host = deep_host(tmp_path / "host", dtype)
    made, facts = _attached(host)
    assert len(facts) >= 6
    folder = made.save(tmp_path / "new")
    for kernel in ("eager", "sdpa"):
        assert answers(folder, list(facts), kernel) == list(facts.values())
    proof = ml.certify(folder, facts, host=host, only=True)
    assert (proof.verdict, proof.recall) == ("proved", f"asked: {len(facts)} of {len(facts)}"), proof.explain()
    found = read_attached(folder)
    radii, least = caps_of(found).radii, found.manifest.radius
    assert (radii > 0.99 * least).all()
    # One coordinate that is most of a state moves ⟨k, û⟩ by more than all others: a radius for all would not know.
    if dtype == torch.bfloat16:
        assert radii.min() > 1.1 * least
    assert proof.radius == caps_of(found).radius
    assert all(fact.fell is not None and fact.fell < 1.0 - found.host.format.low for fact in found.manifest.facts)
    assert made.manifest.state == found.host.format.state  # its states are shorter than that


def test_float16_outweighs_states_as_long_as_those_of_the_host(
    long_states: tuple[Path, Any, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained models have states that are about 1,000 long. Planted: written vectors that outweigh 512 only."""
    host, made, facts = long_states
    assert made.manifest.longest is not None
    assert 520.0 < made.manifest.longest < made.manifest.state
    folder = made.save(tmp_path / "new")
    proof = ml.certify(folder, facts, host=host, only=True)
    assert proof.verdict == "proved", proof.explain()
    assert proof.longest is not None
    assert made.manifest.longest <= proof.longest <= made.manifest.state
    new = {"The capital of country37 is": " city1"}
    more = ml.insert(folder, new, data=facts)[0]
    assert ml.certify(more.save(tmp_path / "more"), facts | new).verdict == "proved"
    # What is written follows from the host and its own fact, whichever facts there are, and in which order.
    row = {prompt: made.neurons.W_2[3 * number] for number, prompt in enumerate(facts)}
    few = dict(reversed(list(facts.items())[2:5])) | new
    alone = ml.attach(host, few)
    assert alone.manifest.state == made.manifest.state
    for number, prompt in enumerate(few):
        wanted = row.get(prompt, more.neurons.W_2[-3])
        assert np.array_equal(alone.neurons.W_2[3 * number], wanted)
    assert ml.attach(host, few, stored=alone.save(tmp_path / "few")).manifest == alone.manifest
    monkeypatch.setattr(request, "to_outweigh", lambda running, tokenizer: 512.0)
    short = ml.attach(host, facts)
    assert short.manifest.longest == made.manifest.longest
    assert ml.certify(short.save(tmp_path / "short"), facts, ask=False).verdict == "undecided"


@pytest.mark.parametrize("large", [0.0, 3.0, 30.0])
def test_a_radius_bears_every_rounding_of_the_largest_coordinate(large: float, tmp_path: Path) -> None:
    """The state of one token, whose largest coordinate is rounded up, or down to the number before."""
    host = read_host(write_host(tmp_path / "host", dtype=torch.bfloat16))[0]
    state = np.random.default_rng(0).normal(size=host.width)
    state[7] = large
    state *= np.sqrt(host.width) / np.sqrt(state @ state)
    up = torch.from_numpy(state).to(torch.bfloat16).double().numpy()
    down = up.copy()
    down[7] -= float(host.format.spacing(up[7:8])[0])
    steep = steepness(host)
    assert steep.own
    (radius,) = steep.radii(up[None, None], np.array([False]), host)
    key = up / np.sqrt(up @ up)
    fell = float(key @ (up - down)) / np.sqrt(host.width)
    assert (1.0 - host.format.low) * radius >= fell
    assert radius >= steep.radius
    if large > 10.0:  # planted: the radius that is the same for all would lose this fact
        assert (1.0 - host.format.low) * steep.radius < fell
    (given,) = Steepness(0.01, steep.response, steep.state).radii(up[None, None], np.array([False]), host)
    assert given == 0.01


def test_a_radius_is_as_wide_as_roundings_and_turns_want_fact_by_fact(tmp_path: Path) -> None:
    """Two facts, each in the states of three evaluations: by hand from the docstring of `Steepness.radii`."""
    host = read_host(write_host(tmp_path / "host", dtype=torch.bfloat16))[0]
    draw, steep = np.random.default_rng(1), steepness(host)
    samples = draw.normal(size=(1, 2, host.width)) + np.array([0.3, 0.03])[:, None] * draw.normal(
        size=(3, 2, host.width)
    )
    found = steep.radii(samples, np.array([False, True]), host)
    for fact in range(2):
        state = samples[:, fact].mean(axis=0)
        flips = sorted(np.abs(state) / np.linalg.norm(state) * host.format.spacing(state) / np.sqrt(host.width))
        unit = samples[:, fact] / np.linalg.norm(samples[:, fact], axis=1, keepdims=True)
        turned = 1.0 - (unit @ unit.T).min()
        moves = flips[-1] + FLIPS * np.linalg.norm(flips[:-1]) + TURNS * turned
        assert found[fact] == pytest.approx(max(steep.radius, moves / (1.0 - host.format.low)), rel=1e-9)
    assert (found > steep.radius).all()
    assert found[0] > 10.0 * found[1]


def test_later_tokens_have_narrower_caps_in_float32_unless_a_radius_is_given(tmp_path: Path) -> None:
    host = write_host(tmp_path / "host")
    for radius, share in ((None, LATER), (2.0**-12, 1.0)):
        made = ml.attach(host, FACTS, radius=radius)
        found = read_attached(made.save(tmp_path / f"new{share}"))
        radii = caps_of(found).radii
        first = np.arange(len(radii)) % 3 == 0  # every answer has three tokens
        assert radii[first] == pytest.approx(made.manifest.radius, rel=1e-3)
        assert radii[~first] == pytest.approx(share * made.manifest.radius, rel=1e-3)
        assert radii.min() > 0.999 * least_radius(found.host)
        assert made.manifest.own_radii == (radius is None)


def test_a_split_cap_is_claimed_where_the_neighbour_is_silent_and_lost_if_it_reaches_the_core(tmp_path: Path) -> None:
    """Planted: neuron 4 turned towards neuron 1, which writes another row, at three distances."""
    host = write_host(tmp_path / "host", dtype=torch.bfloat16)
    found = read_attached(ml.attach(host, dict(list(FACTS.items())[:4])).save(tmp_path / "new"))
    caps, seen = caps_of(found), []
    core = caps.inner.half[1] + np.arccos(caps.silent[4] / caps.inner.longest[1])
    cap = caps.turned[1] + np.arccos(caps.silent[4] / caps.longest[1])
    assert core < 0.9 * cap
    for angle in (0.98 * core, 0.5 * (core + cap), 1.02 * cap):
        key, other = (found.reads[i] / np.sqrt(found.reads[i] @ found.reads[i]) for i in (1, 4))
        across = other - (other @ key) * key
        across /= np.sqrt(across @ across)
        reads = found.reads.copy()
        reads[4] = np.sqrt(reads[4] @ reads[4]) * (np.cos(angle) * key + np.sin(angle) * across)
        near = near_pairs(replace(found, reads=reads), replace(caps, keys=_with(caps.keys, 4, reads[4])))
        seen.append((bool(near.spoilt[1]), bool(near.guarded[1])))
    assert seen == [(True, False), (False, True), (False, False)]


def _with(keys: Any, row: int, reads: Any) -> Any:
    found = keys.copy()
    found[row] = reads / np.sqrt(reads @ reads)
    return found


# -- what certify refuses, and what it says ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("radii") / "host")


@pytest.fixture(scope="module")
def with_facts(gpt2: Path) -> Path:
    return ml.attach(gpt2, FACTS).save(gpt2.with_name("facts"))


def _changed(folder: Path, to: Path, file: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A copy with other tensors, whose digests are written as if attach had made them so."""
    shutil.copytree(folder, to)
    tensors = load_file(to / file)
    change(tensors)
    save_file(tensors, to / file, metadata={"format": "pt"})
    (retold if file == ATTACHED_WEIGHTS else retold_host)(to)
    return to


def test_a_read_row_that_fires_far_from_its_key_is_not_proved(gpt2: Path, with_facts: Path, tmp_path: Path) -> None:
    """Planted: a row doubled, with its bias as it was, which fires at places of any prose."""

    def doubled(tensors: dict[str, Any]) -> None:
        tensors[ROW[0]][:, 0] *= 2.0

    folder = _changed(with_facts, tmp_path / "new", ATTACHED_WEIGHTS, doubled)
    proof = ml.certify(folder, FACTS, host=gpt2, only=True, ask=False)
    assert (proof.verdict, proof.recall) == ("undecided", "not asked")
    assert f"the proof covers {FARTHEST:g}" in proof.reason
    healthy = ml.certify(with_facts, FACTS, host=gpt2, only=True, ask=False)
    assert healthy.verdict == "proved"
    assert healthy.radius is not None
    assert 0.0 < healthy.radius < FARTHEST


def test_recall_is_a_verdict_of_its_own(with_facts: Path, tmp_path: Path) -> None:
    """Planted: read rows of two facts swapped. What is proved holds near the keys; asking refutes it."""
    assert ml.certify(with_facts, FACTS).recall == "asked: 12 of 12"
    assert ml.certify(with_facts, FACTS, ask=True).recall == "asked: 12 of 12"

    def swapped(tensors: dict[str, Any]) -> None:
        tensors[ROW[0]][:, [1, 4]] = tensors[ROW[0]][:, [4, 1]]
        tensors[ROW[1]][[1, 4]] = tensors[ROW[1]][[4, 1]]

    folder = _changed(with_facts, tmp_path / "new", ATTACHED_WEIGHTS, swapped)
    said = ml.certify(folder, FACTS, ask=False)
    assert (said.verdict, said.recall) == ("proved", "not asked")
    assert ("recall", "not asked") in said.rows()
    assert said.measured[0].startswith("attached.json says that")
    asked = ml.certify(folder, FACTS)
    assert asked.verdict == "refuted"
    assert asked.recall == "asked: 10 of 12"
    assert ml.Certificate.from_json(asked.to_json()) == asked
    with pytest.raises(ml.DataError, match="ask= is for folders"):
        ml.certify(ml.memorize({"a": "b", "c": "d"}), {"a": "b"}, ask=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_host_with_a_number_that_is_not_finite_is_not_proved(value: float, with_facts: Path, tmp_path: Path) -> None:
    def spoilt(tensors: dict[str, Any]) -> None:
        tensors["transformer.wpe.weight"][90, 3] = value

    folder = _changed(with_facts, tmp_path / "new", "host.safetensors", spoilt)
    proof = ml.certify(folder, FACTS, ask=False)
    assert proof.verdict == "undecided"
    assert "wpe.weight holds a number that is not finite" in proof.reason


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_tensor_is_finite_if_every_number_is(dtype: torch.dtype, tmp_path: Path) -> None:
    for value in (0.0, -3e4, float("inf"), float("-inf"), float("nan")):
        tensor = torch.zeros(3, 5, dtype=dtype)
        tensor[1, 2] = value
        save_file({"x": tensor, "whole": torch.ones(2, dtype=torch.int64)}, tmp_path / "t.safetensors")
        found = tensors_of((tmp_path / "t.safetensors").read_bytes(), "t")
        assert found["x"].is_finite() == bool(np.isfinite(value))
        assert found["whole"].is_finite()


def test_a_stop_inside_an_answer_is_named(with_facts: Path, tmp_path: Path) -> None:
    """Planted: a generation_config.json that stops at a token of an answer, as if it had lain beside the host."""
    folder = tmp_path / "new"
    shutil.copytree(with_facts, folder)
    path, said = folder / "attached.json", json.loads((folder / "attached.json").read_text())
    inside = tokenizer()(" city0")["input_ids"][0]
    content = json.dumps({"eos_token_id": [0, inside]}).encode()
    (folder / "generation_config.json").write_bytes(content)
    said["files"]["generation_config.json"] = hashlib.sha256(content).hexdigest()
    if "texts" in said:
        said["texts"]["generation_config.json"] = content.decode()
    path.write_text(json.dumps(said))
    assert "generate stops at" in ml.certify(folder, FACTS, ask=False).claim
    assert "generate stops at" not in ml.certify(with_facts, FACTS, ask=False).claim


def test_a_header_with_a_key_twice_is_refused() -> None:
    one = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'

    def file_of(header: str) -> bytes:
        return len(header).to_bytes(8, "little") + header.encode() + bytes(4)

    assert set(tensors_of(file_of(f"{{{one}}}"), "x")) == {"a"}
    with pytest.raises(ModelFileError, match="has the key 'a' twice"):
        tensors_of(file_of(f"{{{one},{one}}}"), "x")


@pytest.mark.parametrize("away", [-0.02, 0.02])
def test_attach_and_certify_agree_on_keys_near_what_earlier_blocks_write(
    away: float, long_states: tuple[Path, Any, dict[str, str]], tmp_path: Path
) -> None:
    """States are so long that norms see what is written to within more than 1/8. Planted: a key that near, or farther.

    `attach` refuses the one that it cannot prove, and accepts the other one, which `certify` proves.
    """
    _, made, facts = long_states
    ids = cut_facts(made.source.content[TOKENIZER], read_facts(facts), made.manifest.end)
    first, later = 0, len(made.neurons.b_1) - 1
    assert made.blocks > 1
    *_, state = lengths_to_prove(made.host.format, made.manifest.longest)
    written = WrittenRows.of(made.neurons, made.steep, made.host, state)
    assert written.margin[first] > 0.2
    caps = firing_caps(made.neurons, made.steep, made.host)
    cosine = caps.silent[later] - written.margin[first] + away
    direction, key = written.directions[first], caps.keys[later]
    beside = key - (key @ direction) * direction
    planted = cosine * direction + np.sqrt(1.0 - cosine**2) * beside / np.sqrt(beside @ beside)
    W_1 = made.neurons.W_1.copy()
    W_1[later] = rounded(planted * np.sqrt(W_1[later] @ W_1[later]), "float16")
    changed = replace(made, neurons=made.neurons._replace(W_1=W_1))
    with pytest.raises(ml.PrecisionError, match="is nearly the state of") if away > 0.0 else nullcontext():
        check_outweighed(changed, ids)
    proof = ml.certify(changed.save(tmp_path / "new"), facts, ask=False)
    assert proof.verdict == ("undecided" if away > 0.0 else "proved"), proof.explain()
