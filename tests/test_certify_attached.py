"""Folders with facts attached: what is proved holds for states that nobody tried."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.attaching.folder import Attached
from monolayer.attaching.running import Running
from monolayer.checker.attached import check
from monolayer.checker.attached.answers import Head, judge_answers, judge_written
from monolayer.checker.attached.caps import caps_and_neighbours, caps_of, least_returned, near_pairs
from monolayer.checker.attached.files import read_attached
from monolayer.checker.rounding import UnhandledError
from monolayer.huggingface.cutting import FactIds, cut_facts
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.host import read_host
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE
from tests.attached_changes import ROW, changed, retold, scaled
from tests.hosts import ARCHITECTURES, FACTS, NEURONS, flat_states, lengths, loaded, ratios, tilted_states, write_host
from tests.verdicts import from_files

FEW = dict(list(FACTS.items())[:3])


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    where, made = tmp_path_factory.mktemp("hosts"), dict[str, Path]()

    def find(kind: str) -> Path:
        if kind not in made:
            made[kind] = write_host(where / kind, kind)
            ml.attach(made[kind], FACTS).save(where / f"{kind}-attached")
        return made[kind]

    return find


def attached(host: Path) -> Path:
    return host.with_name(f"{host.name}-attached")


@pytest.fixture
def folder(hosts: Callable[[str], Path], tmp_path: Path) -> Path:
    """A GPT-2 with facts attached, to be changed."""
    return Path(shutil.copytree(attached(hosts("gpt2")), tmp_path / "folder"))


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_is_proved(kind: str, hosts: Callable[[str], Path]) -> None:
    host = hosts(kind)
    proof = ml.certify(attached(host), FACTS, host=host, only=True)
    assert (proof.verdict, proof.points, proof.unsure) == ("proved", 36, 0)
    assert "eager and sdpa attention" in proof.measured[0]
    again = ml.Certificate.from_json(proof.to_json())
    assert again == proof
    some = dict(list(FACTS.items())[:5])
    assert ml.certify(attached(host), some).verdict == "proved"
    assert ml.certify(attached(host), some, only=True).verdict == "refuted"


def test_an_id_that_the_host_has_no_row_for_is_named(
    hosts: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One id of one answer is moved up to the last row of the head, then beyond it."""
    folder = attached(hosts("gpt2"))
    vocabulary = read_attached(folder).host.vocabulary

    def reason(last: int) -> str:
        def moved(*given: Any) -> list[FactIds]:
            first, *others = cut_facts(*given)
            return [first._replace(answer=(*first.answer[:-1], last)), *others]

        monkeypatch.setattr(check, "cut_facts", moved)
        proof = ml.certify(folder, FACTS)
        assert proof.verdict == "undecided"
        return proof.reason

    assert "the tokenizer gives id" not in reason(vocabulary - 1)
    assert f"the tokenizer gives id {vocabulary}, and the host has {vocabulary:,} tokens" in reason(vocabulary)


def states_at(caps: Any, neuron: int, height: float, scale: float, random: Any) -> Any:
    """A state whose û has this product with a key, of this length, and a mean, which LayerNorm takes off."""
    key = caps.keys[neuron]
    other = random.standard_normal(len(key))
    other -= other.mean()
    other -= (other @ key) * key
    other /= np.sqrt(other @ other)
    return scale * (height * key + np.sqrt(1.0 - height * height) * other) + 0.01 * scale / len(key)


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama"])
def test_the_theorems_hold_at_states_that_no_text_gave(kind: str, hosts: Callable[[str], Path]) -> None:
    """At the rim of a cap the answer is the largest; just beyond the radius of locality nothing changes in a bit."""
    found = read_attached(attached(hosts(kind)))
    caps, host = caps_of(found), found.host
    tokens = Attached.load(attached(hosts(kind)))
    data = ml.Sequences.of(list(FACTS), list(FACTS.values()), per="answer")
    wanted = [token for fact in cut_facts(found.opened.content["tokenizer.json"], data, 0) for token in fact.answer]
    model = loaded(attached(hosts(kind)))
    modules = dict(model.named_modules())
    start = host.kind.root.removesuffix(".")
    blocks, last = modules[f"{start}.{host.kind.layers}"][host.layers :], modules[f"{start}.{host.kind.last_norm}"]
    random = np.random.default_rng(0)

    @torch.no_grad()
    def through(states: Any) -> tuple[Any, Any]:
        x = torch.tensor(states, dtype=torch.float32)[:, None]
        y = x
        for block in blocks:  # attention adds 0 whatever it sees
            norm = block.get_submodule(host.kind.norms[1])
            y = y + (block.mlp(norm(y)) if kind != "opt" else block.fc2(block.activation_fn(block.fc1(norm(y)))))
        return (y == x).all(dim=-1)[:, 0], model.get_output_embeddings()(last(y)).argmax(dim=-1)[:, 0].tolist()

    assert len(tokens.neurons.b_1) == len(wanted) == 36
    for scale in (10.0, 1e3, 6e4):
        rim = [states_at(caps, j, float(caps.wanted[j]) + 1e-7, scale, random) for j in range(36)]
        assert through(np.stack(rim))[1] == wanted
        out = [states_at(caps, j, float(caps.silent[j]), scale, random) for j in range(36)]
        assert through(np.stack(out))[0].all()


@torch.no_grad()
def test_what_is_proved_of_rows_with_a_mean_is_true(hosts: Callable[[str], Path]) -> None:
    """Lemma A4: LayerNorm takes off the mean of what is written, and rounding is relative to all of it."""
    found = read_attached(attached(hosts("gpt2")))
    caps, random = caps_of(found), np.random.default_rng(0)
    model, head = loaded(attached(hosts("gpt2"))), Head(found)
    near, all_of_them = near_pairs(found, caps), np.arange(36)
    tokens = model.lm_head(model.transformer.ln_f(torch.tensor(found.writes, dtype=torch.float32))).argmax(dim=-1)
    states = np.stack([states_at(caps, j, float(caps.wanted[j]) + 1e-7, 6e4, random) for j in range(36)])
    x = torch.tensor(states, dtype=torch.float32)
    verdicts = set()
    for factor, mean in itertools.product(2.0 ** -np.arange(0, 24, 3), (0.0, 2.0**17, 2.0**23, 2.0**28)):
        writes = (found.writes * factor + mean).astype(np.float32)
        changed = dataclasses.replace(found, writes=writes.astype(np.float64))
        right = judge_answers(changed, caps, near, all_of_them, tokens.numpy()).right
        # At the rim of its cap a neuron returns T/2 or a little less.
        y = x + torch.tensor(writes) * (0.99 * caps.response / 2.0)
        got = model.lm_head(model.transformer.ln_f(y)).argmax(dim=-1)
        assert (got == tokens)[torch.from_numpy(right)].all(), (factor, mean)
        verdicts |= set(right.tolist())
    assert verdicts == {True, False}
    assert head.centred


def test_an_answer_bears_the_worst_direction_within_the_share(hosts: Callable[[str], Path]) -> None:
    """Lemma A5: turned by the share towards the row of each other token, and the answer is still the largest."""
    found = read_attached(attached(hosts("gpt2")))
    head, rows, verdicts = Head(found), found.writes, set()
    table, root = head.head.numbers(), np.sqrt(48.0)
    centre = root * head.direction(rows) * head.weight + head.bias
    tokens = (centre @ table.T).argmax(axis=1)
    for share in (0.01, 0.05, 0.1, 0.2, 0.4):
        right = head.judge(rows, tokens, np.full(36, share), 48).right
        for row in np.flatnonzero(right):
            apart = table[tokens[row]] - table
            gaps = apart @ centre[row] - root * share * np.sqrt(((apart * head.weight) ** 2).sum(axis=1))
            assert (np.delete(gaps, tokens[row]) > 0.0).all()
        verdicts |= set(right.tolist())
    assert verdicts == {True, False}


def test_neighbours_that_dip_may_not_drown_what_is_written(hosts: Callable[[str], Path], tmp_path: Path) -> None:
    """Lemma A4: each of n others may take off 0.3. What is left must be 0.3n at least, or f/2 where only the input f is
    sure, because one of them stands in an earlier block."""
    found = read_attached(ml.attach(hosts("gpt2"), FACTS, radius=2.0**-14).save(tmp_path / "new"))  # one for all
    caps = caps_of(found)
    near, head, later = near_pairs(found, caps), Head(found), np.arange(36) >= NEURONS
    assert not near.count.any()
    alone, sure = judge_written(found, caps, near, head).share, 0.999 * (caps.level - caps.err)
    for first, most, rest in (
        (near.first, int(0.999 * sure.min() / 0.6), lambda count: sure - 0.3 * count),
        (near.first - later, int(0.499 * caps.floor / 0.3), lambda count: np.full(36, caps.floor / 2.0)),
    ):
        for count, firm in ((1, True), (most, True), (most + 1, False)):
            crowded = dataclasses.replace(near, count=np.full(36, count), first=first)
            found_there = judge_written(found, caps, crowded, head)
            assert (found_there.firm[later] == firm).all(), (count, firm)
            if firm:  # shares are nearly in proportion to the state over what is returned
                assert (found_there.share / alone)[later] == pytest.approx((sure / rest(count))[later], rel=0.06)
    some = dataclasses.replace(near, count=np.where(later, int(sure.min() / 0.6) + 1, 0))
    assert (least_returned(found, caps, some).heard == ~later).all()
    # Narrow caps bear more of them.
    assert least_returned(found, caps.narrowed(later), some).heard.all()


@pytest.mark.parametrize(("kind", "dtype"), [("gpt_neox", torch.bfloat16), ("gpt2", torch.float16)])
def test_the_theorems_hold_in_short_formats(kind: str, dtype: Any, tmp_path: Path) -> None:
    """At states around keys, of which some are within reach, some away, and some neither, as the norm returns them."""
    host = write_host(tmp_path / "host", kind, dtype=dtype)
    folder = ml.attach(host, FACTS).save(tmp_path / "new")
    found = read_attached(folder)
    caps, data = caps_of(found), ml.Sequences.of(list(FACTS), list(FACTS.values()), per="answer")
    tokens = [token for fact in cut_facts(found.opened.content["tokenizer.json"], data, 0) for token in fact.answer]
    modules = dict((model := loaded(folder)).named_modules())
    start = found.host.kind.root.removesuffix(".")
    blocks = modules[f"{start}.{found.host.kind.layers}"][found.host.layers :]
    last, random = modules[f"{start}.{found.host.kind.last_norm}"], np.random.default_rng(1)
    T = found.host.response(found.manifest.radius)
    if dtype == torch.bfloat16:  # numbers of three digits are printed as they are
        assert (
            f"lies between {T / 4:g} and {2 * T:g}, for states of the host no longer than 65,536, the logit"
            in ml.certify(folder, FACTS).claim
        )
    near, away = 0, 0
    for neuron in range(36):
        heights = 1.0 - 10.0 ** random.uniform(-7, -1.5, 200)
        drawn = [states_at(caps, neuron, float(height), 100.0, random) for height in heights]
        x = torch.tensor(np.stack(drawn)).to(dtype)[:, None]
        with torch.no_grad():
            states = blocks[0].get_submodule(found.host.kind.norms[1])(x)[:, 0].double().numpy() / np.sqrt(48)
            y = x
            for block in blocks:
                y = y + block.mlp(block.get_submodule(found.host.kind.norms[1])(y))
            said = model.get_output_embeddings()(last(y)).argmax(dim=-1)[:, 0].numpy()
        products = states @ caps.keys.T
        out = (1.0 - products >= caps.radius).all(axis=1)
        assert (y == x).all(dim=-1)[:, 0].numpy()[out].all()
        own = products[:, neuron]
        inside = (own >= caps.wanted[neuron]) & (own / np.sqrt((states**2).sum(axis=1)) >= 1.0 - caps.fmt.turn)
        inside &= caps.alpha[neuron] * own + found.bias[neuron] <= caps.fmt.high * caps.response
        assert (said[inside] == tokens[neuron]).all()
        near, away = near + int(inside.sum()), away + int(out.sum())
    assert min(near, away) > 300


@torch.no_grad()
@pytest.mark.parametrize(("kind", "dtype"), [("gpt_neox", torch.bfloat16), ("gpt2", torch.float16)])
def test_what_is_proved_of_heads_in_short_formats_is_true(kind: str, dtype: Any, tmp_path: Path) -> None:
    """Lemma A5: rows of the head get a vector in common, whose rounding is larger than differences, or a factor."""
    # One block: in float16, what neurons near each other write in front of another block may be too much for Lemma A2.
    some = dict(list(FACTS.items())[: NEURONS // 3])
    folder = ml.attach(write_host(tmp_path / "host", kind, dtype=dtype), some).save(tmp_path / "new")
    found = read_attached(folder)
    caps, host = caps_of(found), found.host
    near, all_of_them = near_pairs(found, caps), np.arange(NEURONS)
    last = dict(loaded(folder).named_modules())[f"{host.kind.root}{host.kind.last_norm}"]
    normed = last(torch.tensor(found.writes * caps.response / 2.0).to(dtype))
    rows, common = (
        torch.tensor(host.tensors[host.head].numbers()),
        torch.tensor(np.random.default_rng(0).normal(size=48)),
    )
    tokens, verdicts = (normed.double() @ rows.T).argmax(dim=-1), set()
    for size, factor in itertools.product((0.0, *2.0 ** np.arange(-4, 10)), (1.0, 2.0**10, 2.0**12, 2.0**14)):
        changed_rows = (rows + size * common).mul(factor).to(dtype)
        if not changed_rows.isfinite().all():
            continue
        data = memoryview(changed_rows.contiguous().view(torch.int16).numpy().tobytes())
        head = dataclasses.replace(host.tensors[host.head], data=data)
        other = dataclasses.replace(found, host=dataclasses.replace(host, tensors={**host.tensors, host.head: head}))
        right = judge_answers(other, caps, near, all_of_them, tokens.numpy()).right
        logits = normed @ changed_rows.T
        beaten = (logits >= logits.gather(1, tokens[:, None])).sum(dim=1) > 1
        assert not (beaten | ~logits.isfinite().all(dim=1))[torch.from_numpy(right)].any(), (size, factor)
        verdicts |= set(right.tolist())
    assert verdicts == {True, False}


def test_what_float16_cannot_hold_is_not_proved(tmp_path: Path) -> None:
    """Planted: a neuron that writes more than 65,504, though its fact is not asked for; inputs that are not finite."""
    host = write_host(tmp_path / "host", dtype=torch.float16)
    some = dict(list(FACTS.items())[5:])
    for name, row, factor, said in (
        (ROW[2], 1, 8.0, "to a coordinate of a state in front of the last block"),
        (ROW[0], (..., 1), 16.0, "may not be finite"),
    ):
        folder = ml.attach(host, FACTS).save(tmp_path / name)
        changed(ATTACHED_WEIGHTS, scaled(name, row, factor))(folder)
        proof = from_files(folder, some)
        assert (proof.verdict, said in proof.reason) == ("undecided", True), proof.explain()


def test_eight_blocks_fit_float16(tmp_path: Path) -> None:
    """Planted: if neurons wrote three times as much, what seven blocks leave may not be finite."""
    host = write_host(tmp_path / "host", dtype=torch.float16, n_embd=128, n_inner=3)
    facts = list(FACTS.items())
    while True:
        try:
            made = ml.attach(host, dict(facts[:8]))
            break
        except ml.PrecisionError as why:  # a wide host of random weights does not tell all prompts apart
            facts = [fact for row, fact in enumerate(facts) if row not in why.rows]
    folder = made.save(tmp_path / "new")
    assert (made.blocks, ml.certify(folder, dict(facts[:8]), host=host).verdict) == (8, "proved")

    def tripled(tensors: dict[str, Any]) -> None:
        for name in (name for name in tensors if name.endswith("mlp.c_proj.weight")):
            tensors[name] *= np.float16(3.0)

    changed(ATTACHED_WEIGHTS, tripled)(folder)
    proof = ml.certify(folder, dict(facts[:8]))
    assert (proof.verdict, "neurons of 8 blocks may add up to" in proof.reason) == ("undecided", True)


def test_a_token_with_little_room_in_the_head_is_written_longer_in_float16(tmp_path: Path) -> None:
    """Planted: if all tokens were written with the same length, the proof would not cover those with little room."""
    host = write_host(tmp_path / "host", dtype=torch.float16, n_embd=256, initializer_range=0.1)
    model = loaded(host)
    model.get_input_embeddings().weight.data[0] *= 0.2  # the end token, which is tied to the head
    model.save_pretrained(host)
    folder = ml.attach(host, FEW).save(tmp_path / "new")
    tell_length(folder, 500.0)  # so that the proof is about states up to 512, for which rows are made
    assert ml.certify(folder, FEW, host=host).verdict == "proved"
    changed(ATTACHED_WEIGHTS, same_lengths)(folder)
    proof = ml.certify(folder, FEW)
    assert (proof.verdict, proof.unsure) == ("undecided", len(FEW))
    assert {finding.expected for finding in proof.findings} == {"<end>"}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in float16 with three facts, whose rows are a quarter as long as `attach` writes them at this width.

    They do not outweigh states of length 512, as rows of tokens with little room in narrow hosts do not.
    """
    where = tmp_path_factory.mktemp("narrow")
    folder = Path(ml.attach(write_host(where / "host", dtype=torch.float16), FEW).save(where / "folder"))
    changed(ATTACHED_WEIGHTS, scaled(ROW[2], ..., 0.25))(folder)
    return folder


def tell_length(folder: Path, length: float | None) -> None:
    """Write this length of the longest state of each fact into the manifest."""
    said = json.loads((folder / FILE).read_text())
    for fact in said["facts"]:
        fact["length"] = length
    (folder / FILE).write_text(json.dumps(said))


def test_answers_are_proved_at_states_as_long_as_the_measured_ones(narrow: Path, tmp_path: Path) -> None:
    """Lemma A4: the proof takes the largest L that decides all tokens, and none that measured states exceed."""
    proof = from_files(narrow, FEW)
    assert proof.verdict == "proved", proof.explain()
    L, found = proof.longest, read_attached(narrow)
    assert L is not None
    assert found.manifest.longest is not None
    assert (1.0 + 2.0**-4) * found.manifest.longest <= L < 512.0
    tokens = np.array([token for fact in cut(found, FEW) for token in fact.answer])
    caps, near = caps_and_neighbours(found)
    for length, proved in ((L, True), (2.0 * L, False)):
        said = judge_answers(found, dataclasses.replace(caps, state=length), near, np.arange(len(tokens)), tokens)
        assert said.right.all() == proved
    folder, least = Path(shutil.copytree(narrow, tmp_path / "folder")), L / (1.0 + 2.0**-4)
    for told, verdict, longest in (
        (1.0, "proved", L),  # a smaller one does not make the claim weaker
        (0.999 * least, "proved", L),
        (1.001 * least, "undecided", None),  # a larger L may decide some tokens
        (512.0, "undecided", 512.0),
        (513.0, "undecided", 1024.0),
        (None, "undecided", 512.0),
    ):
        tell_length(folder, told)
        proof = from_files(folder, FEW)
        assert proof.verdict == verdict, (told, proof.explain())
        assert proof.longest is not None
        assert proof.longest == longest or (longest is None and L < proof.longest <= 512.0), told
        assert f"for states of the host no longer than {proof.longest:,.0f}, the logit" in proof.claim
        assert caps_of(read_attached(folder)).radius == caps.radius  # locality does not depend on it
    silent = scaled(ROW[2], ..., 0.0)  # nothing is decided at any length
    tell_length(folder, 0.0)
    changed(ATTACHED_WEIGHTS, silent)(folder)
    assert from_files(folder, FEW).verdict == "undecided"


def test_states_that_are_longer_than_a_folder_says_are_noticed(
    narrow: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    """Planted: rows that are too short for the host's states, and a manifest which says that states are shorter."""
    rows, folder = tmp_path / "facts.jsonl", Path(shutil.copytree(narrow, tmp_path / "folder"))
    rows.write_text("\n".join(json.dumps({"prompt": prompt, "completion": answer}) for prompt, answer in FEW.items()))
    assert json.loads(said("verify", str(folder), str(rows), "--json"))["verdict"] == "proved"
    measured, L = read_attached(folder).manifest.longest, ml.certify(folder, FEW).longest
    assert measured is not None
    assert L is not None
    changed(ATTACHED_WEIGHTS, scaled(ROW[2], ..., 2.0 ** np.floor(np.log2(measured / L))))(folder)
    assert from_files(folder, FEW).verdict == "undecided"
    tell_length(folder, 1.0)
    proof = from_files(folder, FEW)
    assert proof.verdict == "proved"  # of states that are shorter than those of the host
    assert proof.longest is not None
    assert proof.longest < measured
    assert proof.measured[-1] == f"the states were up to 1.01 long, and the proof covers {proof.longest:.0f}"
    found = json.loads(said("verify", str(folder), str(rows), "--json", code=3))
    why = f"states of the host were up to {measured:.4g} long here, and the proof covers {proof.longest:.0f}"
    assert (found["verdict"], found["reason"]) == ("undecided", why)
    asked = ml.certify(folder, FEW)  # decides as the command does
    assert (asked.verdict, asked.reason) == ("undecided", why)


def cut(found: Any, facts: dict[str, str]) -> list[FactIds]:
    """Facts as ids."""
    data = ml.Sequences.of(list(facts), list(facts.values()), per="answer")
    return cut_facts(found.opened.content["tokenizer.json"], data, found.manifest.end)


def same_lengths(tensors: dict[str, Any]) -> None:
    """Make all neurons write rows as short as the shortest of them."""
    rows = tensors[ROW[2]]
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    shortest = lengths[lengths > 0.0].min()
    rows[:] *= shortest / np.maximum(lengths, shortest)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "proved"), (4.0, "undecided")])
def test_neurons_that_fire_together_fit_float16_together(factor: float, verdict: str, tmp_path: Path) -> None:
    """Planted: a copy of a neuron beside it, and no block behind; what each writes is finite, the sum may not be."""
    few = dict(list(FACTS.items())[:5])
    folder = ml.attach(write_host(tmp_path / "host", dtype=torch.float16), few).save(tmp_path / "new")

    def doubled(tensors: dict[str, Any]) -> None:
        tensors[ROW[0]][:, 3], tensors[ROW[1]][3] = tensors[ROW[0]][:, 0], tensors[ROW[1]][0]
        tensors[ROW[2]][[0, 3]] = tensors[ROW[2]][0] * np.float16(factor)

    changed(ATTACHED_WEIGHTS, doubled)(folder)
    assert ml.certify(folder, dict(list(FACTS.items())[:1])).verdict == verdict


@pytest.mark.parametrize("width", [48, 768])
def test_norms_in_float16_return_no_more_than_the_proof_assumes(width: int) -> None:
    """λ = 1 + η at states that are all mean but for a digit. Planted: a norm that takes the mean of squares less the
    square of the mean, in float32, is longer there."""
    states = flat_states(width, np.random.default_rng(5))
    eta = (width + 16) * 2.0**-24 + 2.0**-11
    assert lengths(torch.nn.functional.layer_norm(states, (width,))).max() <= 1.0 + eta
    wide = states.float()
    mean = wide.mean(dim=1, keepdim=True)
    careless = (wide.square().mean(dim=1, keepdim=True) - mean.square()).clamp(min=0.0) + 1e-5
    assert lengths(((wide - mean) * careless.rsqrt()).half()).max() > 1.0 + 10.0 * eta


@pytest.mark.parametrize("width", [48, 768])
def test_norms_in_float32_return_no_more_than_the_proof_assumes(width: int) -> None:
    """λ = 1 + 2^−4 at states with κ ≤ R, and not at all states: at flat ones a careless norm is far longer."""
    fmt, unit = HOST_FORMATS["float32"], 2.0**-24
    flattest = fmt.flattest(width)
    assert 2.0 * (width + 16) * unit * flattest**2 == pytest.approx(fmt.beyond)
    states = tilted_states(width, np.random.default_rng(5), 400, flattest)
    kappa, longer = ratios(states), lengths(torch.nn.functional.layer_norm(states, (width,))) - 1.0
    covered = kappa <= flattest
    assert covered.sum() > 300
    assert kappa[covered].max() > 0.99 * flattest
    assert (longer <= 2.0 * (width + 16) * unit * kappa**2)[covered].all()
    assert longer[covered].max() <= fmt.beyond
    flat = np.full(width, 2.0**40, np.float32)
    flat[0] += 2.0**17  # the next float: from sums of 2^40, and of squares of 2^80, one after the other, it is lost
    mean, square = (np.cumsum(each)[-1] / np.float32(width) for each in (flat, flat * flat))
    careless = torch.from_numpy((flat - mean) / np.sqrt(square - mean * mean + np.float32(1e-5)))[None]
    assert ratios(torch.from_numpy(flat)[None])[0] > flattest
    assert lengths(careless).max() > 1e5


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_certificate_names_how_flat_states_may_be(kind: str, tmp_path: Path) -> None:
    """It had said that norms keep lengths at any state, which is false in float32 where they subtract a mean."""
    few = dict(list(FACTS.items())[:2])
    folder = ml.attach(write_host(tmp_path / "host", kind), few).save(tmp_path / "new")
    proof = ml.certify(folder, few)
    (said,) = (words for words in proof.assumptions if words.startswith("a norm returns"))
    assert proof.verdict == "proved"
    assert "at most √D (1 + 2^-4) at any state" in said
    if kind == "llama":  # RMSNorm subtracts no mean
        assert "times as long" not in said
    else:
        assert "no state, of the host or one that neurons have written to, is more than 90.5 times as long" in said


CLOSE = {"capital of": " near", "capital is": " and"}


def close_host(folder: Path, wanted: float) -> Path:
    """A host at whose states behind the two prompts of `CLOSE` 1 − cos is about `wanted`."""
    cut = transformers.AutoTokenizer.from_pretrained(write_host(folder))
    (one,), (two,) = (cut(prompt.removeprefix("capital"))["input_ids"] for prompt in CLOSE)
    path, table, apart = folder / "model.safetensors", "transformer.wte.weight", 1e-2
    tensors = load_file(path)
    away = np.random.default_rng(3).standard_normal(tensors[table].shape[1]).astype(np.float32)
    for _ in range(4):
        tensors[table][two] = tensors[table][one] + np.float32(apart) * away
        save_file(tensors, path, metadata={"format": "pt"})
        host, source = read_host(folder)
        texts = [cut(prompt)["input_ids"] for prompt in CLOSE]
        running = Running(host, source)
        keys = [running.normed(states[-1:])[0] for states in running.states(texts)]
        gap = np.subtract(*(key / np.sqrt(key @ key) for key in keys))
        apart *= np.sqrt(wanted / (0.5 * gap @ gap))
    return folder


@pytest.mark.parametrize(
    ("wanted", "narrow"), [(1.2e-4, None), (1.8e-4, 2), (2.6e-4, 0)], ids=["refused", "narrow caps", "wide caps"]
)
def test_caps_are_narrow_where_keys_are_near_each_other(wanted: float, narrow: int | None, tmp_path: Path) -> None:
    """Lemma A3, width 48: caps up to ρ/8 are apart from 1 − cos = 1.5e-4 on, those up to ρ/2 from 2.2e-4 on."""
    host = close_host(tmp_path / "host", wanted)
    if narrow is None:
        with pytest.raises(
            ml.PrecisionError, match=r"row 0 and row 1 .* must be 0.00015.* a smaller radius="
        ) as refused:
            ml.attach(host, CLOSE)
        assert refused.value.rows == (1,)
        return
    folder = ml.attach(host, CLOSE).save(tmp_path / "new")
    proof = ml.certify(folder, CLOSE)
    assert (proof.verdict, "others are near to" in proof.claim) == ("proved", narrow > 0), proof.explain()
    found = read_attached(folder)
    caps, near = caps_and_neighbours(found)
    assert (int(caps.narrow.sum()), near.spoilt.any()) == (narrow, False)
    wide = near_pairs(found, caps_of(found))
    assert int(wide.spoilt.sum()) == narrow
    assert 1.0 - caps.wanted[caps.narrow] == pytest.approx(np.full(narrow, 2.0**-17), rel=0.1)


# -- caps ---------------------------------------------------------------------------------------------------------


def test_a_wider_neuron_widens_what_is_claimed(folder: Path) -> None:
    """The radius in the claim is that of the stored numbers, whatever the manifest says."""
    before = caps_of(read_attached(folder)).radius
    changed(ATTACHED_WEIGHTS, scaled(ROW[1], 1, 0.9))(folder)
    assert caps_of(read_attached(folder)).radius > before + 0.09
    caps, _ = caps_and_neighbours(read_attached(folder))
    claim = ml.certify(folder, FACTS).claim
    radius, wide, narrow = (float(re.search(rf"{sign}([\d.e-]+) ", claim)[1]) for sign in ("< ", "≤ ", r"\("))
    assert caps.radius <= radius <= 1.01 * caps.radius  # rounded up, and what is proved of answers down
    assert 0.99 * caps.reach(~caps.narrow) <= wide <= caps.reach(~caps.narrow)
    assert 0.99 * caps.reach(caps.narrow) <= narrow <= caps.reach(caps.narrow)


def test_a_half_awake_neuron_of_an_earlier_block_is_not_overlooked(folder: Path) -> None:
    """Planted: a neuron of the first block with the same answer, whose key is so near that it half fires."""
    path = folder / ATTACHED_WEIGHTS
    tensors = load_file(path)
    second = [name.replace("h.2", "h.3") for name in ROW]
    key, across = tensors[second[0]][:, 6].astype(np.float64), np.zeros(48)
    across[:2] = 1.0, -1.0
    across -= (across @ key) * key / (key @ key)
    turned = key + 0.02 * across * np.sqrt((key @ key) / (across @ across))
    tensors[ROW[0]][:, 0] = turned * np.sqrt((key @ key) / (turned @ turned))
    tensors[ROW[1]][0], tensors[ROW[2]][0] = tensors[second[1]][6], tensors[second[2]][6]
    save_file(tensors, path, metadata={"format": "pt"})
    retold(folder)
    found = read_attached(folder)
    near = near_pairs(found, caps_of(found))
    assert near.spoilt[NEURONS + 6]
    assert near.by[NEURONS + 6] == 0
    assert not near.spoilt[0]  # the later one sees what the earlier one has written


def test_caps_are_those_of_lemma_a3(folder: Path) -> None:
    """In float32: where a neuron is wanted, up to where it is silent, and what the claim says of both."""
    found = read_attached(folder)
    caps, D, u = caps_of(found), found.host.width, 2.0**-24
    alpha = np.sqrt((found.reads**2).sum(axis=1) * D)
    err = (D + 2) * u / (1 - (D + 2) * u) * (alpha * caps.anywhere + np.abs(found.bias))
    T, silence = caps.response, found.host.silence
    level = np.maximum(T / 2.0, err + max(T / 8.0, 8.0))
    assert caps.alpha == pytest.approx(alpha, rel=1e-12)
    assert (caps.err >= err).all()
    assert caps.err == pytest.approx(err, rel=1e-6)
    assert not caps.narrow.any()
    assert caps.reach(~caps.narrow) == pytest.approx(float((1.0 - (level - found.bias) / alpha).min()), rel=1e-9)
    assert caps.radius == pytest.approx(float((1.0 + (silence + found.bias + err) / alpha).max()), rel=1e-6)
    assert caps.half == pytest.approx(float(((T - level) / alpha).min()), rel=1e-9)
    some = np.arange(36) % 2 == 0
    narrow = caps.narrowed(some)
    assert (narrow.narrow == some).all()
    assert narrow.level == pytest.approx(np.where(some, 0.875 * T, level), rel=1e-9)
    assert narrow.wanted == pytest.approx((narrow.level - found.bias) / alpha, rel=1e-12)
    # A level that is higher already stays, and so does a cap on which hardly any input would be possible.
    high = dataclasses.replace(caps, level=np.full(36, 0.9 * T)).narrowed(some)
    assert (high.level == 0.9 * T).all()
    for share in (1.06, 1.065):
        bias = share * 0.875 * T - caps.alpha * (1.0 + caps.length)
        assert (dataclasses.replace(caps, bias=bias).narrowed(some).narrow == (some & (share > 1.0625))).all()


@pytest.mark.parametrize(("share", "words"), [(1.2, "hardly reaches"), (1.3, "")])
def test_a_cap_that_is_next_to_empty_is_not_proved(share: float, words: str, folder: Path) -> None:
    """At û = k the input is α + b; it must be a quarter more than what is wanted on the cap."""
    found = read_attached(folder)
    caps = caps_of(found)
    found.bias[0] = share * caps.level[0] - caps.alpha[0] * (1.0 + caps.length)
    if words:
        with pytest.raises(UnhandledError, match=words):
            caps_of(found)
    else:
        caps_of(found)


def test_the_last_norm_is_as_long_as_the_root_of_the_width(folder: Path) -> None:
    """A bias of the last norm that outweighs what a neuron writes, and would not if that were longer."""
    found = read_attached(folder)
    head, D = Head(found), found.host.width
    words = np.concatenate([part for _, part in head.head.blocks()])
    row = head.direction(words[:1] - words[1:2])
    said = [int((scale * row[0] * head.weight @ words.T).argmax()) for scale in (np.sqrt(D), D)]
    assert said[0] == said[1]
    other = next(token for token in range(len(words)) if token != said[0])
    gap = float((np.sqrt(D) * row[0] * head.weight) @ (words[said[0]] - words[other]))
    push = words[other] - words[said[0]]
    head.bias = 1.5 * gap / float(push @ push) * push  # more than the gap, less than √D times it
    judged = head.judge(row, np.array([said[0]]), np.zeros(1), D)
    assert not judged.right[0]
