"""Certificates of robust stock folders: bounds against evaluations in binary32, planted faults (Lemmas S8 to S10)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.halves import _live, _seen, _value
from monolayer.checker.stock.mirror import read_mirror
from monolayer.checker.stock.places import places_of
from tests import plain_stock

RANDOM = np.random.default_rng(3)
IDS = np.stack([RANDOM.permutation(20)[:6] for _ in range(40)])
LABELS = RANDOM.integers(0, 5, IDS.shape)
CAUSAL = np.cumsum(IDS * IDS, axis=1) % 5
"""Labels that the tokens so far determine."""


@pytest.fixture(scope="module", params=["bert", "gpt2", "bert relu plain", "gpt2 bfloat16"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    name, *how = request.param.split()
    labels = LABELS if name == "bert" else CAUSAL
    options: dict[str, Any] = {"positions": "plain" not in how, "activation": "relu" if "relu" in how else "relu6"}
    options |= {"dtype": "bfloat16" if "bfloat16" in how else "float32", "rank": 32, "robust": True}
    folder = tmp_path_factory.mktemp("robust") / "model"
    return ml.memorize_as(name, IDS, labels, **options).save(folder), labels


def read(folder: Path) -> dict[str, Any]:
    """The folder with its weights in float32, as the claim has it."""
    net = read_stock(folder)
    from safetensors.torch import load_file

    tensors = {name: value.float().numpy() for name, value in load_file(folder / "model.safetensors").items()}
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    files = {name: (folder / f"{name}.json").read_text(encoding="utf-8") for name in ("tokenizer", "tokenizer_config")}
    assert net.dtype == config["dtype"]
    return {"config": {**config, "dtype": "float32", "torch_dtype": "float32"}, "tensors": tensors, **files}


def wrong(model: dict[str, Any], labels: Any) -> int:
    """How many labels the plain evaluator gets wrong, in float32."""
    ids = np.append(np.full((len(IDS), 1), 2), IDS + len(json.loads(model["tokenizer"])["added_tokens"]), axis=1)
    with np.errstate(all="ignore"):
        found = plain_stock.logits(model, ids, np.ones_like(ids))[:, 1:]
    names = np.array([int(name) for name in model["config"]["id2label"].values()])
    lost = np.isnan(found).any(axis=-1)
    return int(((names[np.where(lost, 0, found.argmax(axis=-1))] != labels) | lost).sum())


def test_an_untouched_folder_is_proved(built: tuple[Path, Any]) -> None:
    folder, labels = built
    proof = ml.certify(folder, IDS, labels)
    assert proof.verdict == "proved", proof.reason
    assert "arithmetic in float32" in proof.claim
    assert wrong(read(folder), labels) == 0
    changed = labels.copy()
    changed[3, 4] = (changed[3, 4] + 1) % 5
    proof = ml.certify(folder, IDS, changed)
    assert (proof.verdict, proof.wrong, proof.unsure) == ("refuted", 1, 0)
    assert "token 4 (" in str(proof.findings[0])


def test_float32_stays_within_the_bounds(built: tuple[Path, Any]) -> None:
    """What neurons read, in float32 with columns in random order, against the checker's own value and its bound."""
    folder, labels = built
    net, data = read_stock(folder), ml.Sequences.of(IDS, labels)
    places = places_of(net, data)
    found = read_mirror(net, places.most)
    live = _live(net, found, np.zeros((1, len(net.W_1))), np.unique(places.token))
    points = np.arange(IDS.size)
    seen = _seen(net, found, data, places, points)
    table = np.zeros((1, net.width)) if net.places is None else net.places[net.offset : net.offset + places.most]
    i, j = (part.reshape(-1) for part in np.indices((len(points), len(net.W_1))))
    x = net.tokens[places.token] + table[places.place if len(table) > 1 else 0]
    token = found.scale * x @ net.W_1.T
    size = found.scale * np.abs(x) @ np.abs(net.W_1).T
    height = (found.read @ found.value.T)[j[:, None], seen.ids[i]]
    value, error = _value(net, found, seen, i, j, height, token[i, j], size[i, j])

    model = read(folder)
    ids = np.append(np.full((len(IDS), 1), net.begin), IDS + net.begin + 3 - (net.kind == "gpt2"), axis=1)
    assert (ids[:, 1:].reshape(-1) == places.ids).all()
    arrived = plain_stock.arriving(model, ids)[:, 1:].reshape(len(points), -1)
    assert arrived.dtype == np.float32
    order = np.random.default_rng(1).permutation(net.width)
    W_1, b_1 = net.W_1.astype(np.float32), net.b_1.astype(np.float32)
    theirs = arrived[:, order] @ W_1[:, order].T + b_1
    off = np.abs(theirs[i, j].astype(np.float64) - value)
    assert np.isfinite(error).all()
    assert (off <= error).all()
    assert error.max() < 1.0  # margins are at least 1
    # Neurons that are said to be asleep are.
    count = live.start[places.token + 1] - live.start[places.token]
    awake = np.zeros((len(points), len(net.W_1)), dtype=bool)
    for point in points:
        awake[point, live.neuron[live.start[places.token[point]] :][: count[point]]] = True
    if net.places is None or not table.any():
        assert theirs[~awake].max() <= 0.0


def test_planted_faults_are_never_proved_wrongly(built: tuple[Path, Any], tmp_path: Path) -> None:
    folder, labels = built
    model, random = read(folder), np.random.default_rng(8)
    verdicts = {"proved": 0, "refuted": 0, "undecided": 0}
    names = [name for name in sorted(model["tensors"]) if model["tensors"][name].any() or "bias" in name]
    for turn in range(36):
        broken = copy.deepcopy(model)
        first = [name for name in names if "intermediate.dense" in name or "c_fc" in name]
        name = first[turn % 2] if turn < 12 else names[random.integers(len(names))]
        flat = broken["tensors"][name].reshape(-1)
        used = np.flatnonzero(flat) if flat.any() and random.random() < 0.7 else np.arange(len(flat))
        place, kind = random.choice(used), random.integers(5)
        if kind == 0:
            flat[place : place + 1].view(np.uint32)[0] ^= np.uint32(1) << np.uint32(random.integers(32))
        else:
            flat[place] = (0.0, -flat[place], flat[place] * 1.5, flat[place] + 3.0)[kind - 1]
        plain_stock.write(broken, tmp_path / "broken")
        verdict = ml.certify(tmp_path / "broken", IDS, labels).verdict
        verdicts[verdict] += 1
        if verdict != "undecided":
            assert (wrong(broken, labels) == 0) == (verdict == "proved"), (verdict, name, kind, place)
    assert verdicts["proved"] > 0
    assert verdicts["undecided"] > 0


FAULTS: list[tuple[str, Any, str]] = [
    ("halves unlike in a table", ("word_embeddings.weight", (3, 0)), "halves of tokens"),
    ("halves unlike in the head", ("classifier.weight", (0, -1)), "halves of the head"),
    ("halves unlike in what attention writes", ("attention.output.dense.weight", (-1, 0)), "halves of W_O"),
    ("a token type", ("token_type_embeddings.weight", (0, 0)), "token types"),
    ("a key with a bias", ("self.key.bias", (0,)), "a bias"),
    ("scores of tokens", ("self.key.weight", (0, 0)), "scores must depend on places only"),
    ("a norm with a weight", ("output.LayerNorm.weight", (0,)), "a norm has a weight"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0])
def test_each_condition_has_a_fault_that_it_sees(fault: tuple[str, Any, str], tmp_path: Path) -> None:
    ml.memorize_as("bert", IDS, LABELS, positions=True, robust=True, rank=16).save(tmp_path / "whole")
    model = read(tmp_path / "whole")
    name = next(name for name in model["tensors"] if name.endswith(fault[1][0]))
    model["tensors"][name][fault[1][1]] += 0.5
    plain_stock.write(model, tmp_path / "broken")
    proof = ml.certify(tmp_path / "broken", IDS, LABELS)
    assert (proof.verdict, fault[2] in proof.reason) == ("undecided", True), proof.reason


def test_what_the_bounds_do_not_cover_is_undecided(tmp_path: Path) -> None:
    cases: list[tuple[str, Any, dict[str, Any], str]] = [
        ("bert", LABELS, {"activation": "own"}, "not exactly 0 at rest"),
        ("bert", LABELS[:, 0], {}, "pooler"),
        ("starcoder2", CAUSAL, {}, "starcoder2"),
        ("llama", CAUSAL, {}, "llama"),
    ]
    for number, (name, labels, options, words) in enumerate(cases):
        model = ml.memorize_as(name, IDS, labels, robust=True, rank=16, on_conflict="first", **options)
        proof = ml.certify(model.save(tmp_path / str(number)), IDS, labels)
        assert (proof.verdict, words in proof.reason) == ("undecided", True), proof.reason
