"""Certificates of stock folders: bounds against evaluations that try to break them, and planted faults.

No folder that errs is proved, none that is right is refuted. The plain evaluation of `stock/answers.py` is asked, which
tests/test_stock_transformers.py holds against transformers.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker.rounding import EXP_ULPS, UnhandledError
from monolayer.checker.stock.bounds import MEAN, UNIT, VARIANCE, bounds
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.places import places_of
from monolayer.checker.stock.readout import read_steps
from monolayer.checker.stock.structure import read_structure
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN
from monolayer.theory.balls import precision
from tests import plain_stock

RANDOM = np.random.default_rng(11)
IDS = np.stack([RANDOM.permutation(25)[:6] for _ in range(40)])
LABELS = RANDOM.integers(0, 5, IDS.shape)
CAUSAL = np.cumsum(IDS * IDS, axis=1) % 5
"""Labels that the tokens so far determine."""


@pytest.fixture(scope="module", params=["bert", "bert places", "gpt2"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    name, _, how = request.param.partition(" ")
    labels = LABELS if name == "bert" else CAUSAL
    folder = tmp_path_factory.mktemp("stock") / "model"
    return ml.memorize_as(name, IDS, labels, storage="steps", positions=how == "places").save(folder), labels


def evaluate(model: dict[str, Any], labels: Any) -> int:
    """How many labels the plain evaluator gets wrong."""
    network = plain_stock.evaluation(model)
    found = network.logits(with_begin(model["facts"]), network.asked).numpy()
    best = np.array([int(name) for name in model["facts"].classes])[found.argmax(axis=-1)]
    return int(((best != labels) | np.isnan(found).any(axis=-1)).sum())


def with_begin(facts: Any) -> Any:
    return np.insert(IDS + len(facts.architecture.special), 0, BEGIN, axis=1)


def test_an_untouched_folder_is_proved(built: tuple[Path, Any]) -> None:
    folder, labels = built
    proof = ml.certify(folder, IDS, labels)
    assert proof.verdict == "proved"
    assert proof.margin is not None
    assert proof.margin > 100
    assert evaluate(plain_stock.read(folder), labels) == 0


def test_planted_faults_are_never_proved_wrongly(built: tuple[Path, Any], tmp_path: Path) -> None:
    """Random changes of random numbers: a verdict, where there is one, is what an evaluation says."""
    folder, labels = built
    model, random = plain_stock.read(folder), np.random.default_rng(3)
    verdicts = {"proved": 0, "refuted": 0, "undecided": 0}
    names = sorted(model["tensors"])
    for _ in range(60):
        broken = copy.deepcopy(model)
        tensor = broken["tensors"][names[random.integers(len(names))]]
        flat = tensor.reshape(-1)
        used = np.flatnonzero(flat) if flat.any() and random.random() < 0.7 else np.arange(len(flat))
        place = random.choice(used)
        kind = random.integers(5)
        if kind == 0:
            flat[place : place + 1].view(np.uint64)[0] ^= np.uint64(1) << np.uint64(random.integers(64))
        else:
            flat[place] = (0.0, -flat[place], flat[place] * (1 + 2.0**-30), flat[place] + 0.25)[kind - 1]
        plain_stock.write(broken, tmp_path / "broken")
        verdict = ml.certify(tmp_path / "broken", IDS, labels).verdict
        verdicts[verdict] += 1
        if verdict != "undecided":
            assert (evaluate(broken, labels) == 0) == (verdict == "proved"), (verdict, kind, place)
    assert verdicts["refuted"] > 0
    assert verdicts["undecided"] > 10


def _faults() -> list[tuple[str, Any, str]]:
    """Changes that a check must see, and the verdict that follows."""

    def tensor(part: str, change: Any) -> Any:
        def apply(model: dict[str, Any]) -> None:
            name = next(name for name in model["tensors"] if name.endswith(part))
            change(model["tensors"][name])

        return apply

    def set_first(value: float) -> Any:
        return lambda array: array.reshape(-1).__setitem__(0, value)

    def swap(array: Any) -> None:
        array[[0, 1]] = array[[1, 0]]

    return [
        ("two classes swapped in the head", tensor("classifier.weight", swap), "refuted"),
        ("neurons silenced", tensor("layer.0.output.dense.weight", lambda array: array.__imul__(0.0)), "refuted"),
        ("all thresholds moved", tensor("intermediate.dense.bias", lambda array: array.__iadd__(1e12)), "undecided"),
        ("a norm with a weight", tensor("embeddings.LayerNorm.weight", set_first(1.0 + 2.0**-52)), "undecided"),
        ("a norm with a bias", tensor("output.LayerNorm.bias", set_first(1e-300)), "undecided"),
        ("a token type", tensor("token_type_embeddings.weight", set_first(1e-3)), "undecided"),
        ("a query that reads", tensor("self.query.weight", set_first(1e-9)), "undecided"),
        ("a key with a bias", tensor("self.key.bias", set_first(1e-9)), "undecided"),
        ("values unlike keys", tensor("self.value.weight", set_first(0.25)), "undecided"),
        ("a head with a bias", tensor("classifier.bias", set_first(1.0)), "undecided"),
    ]


@pytest.mark.parametrize("fault", _faults(), ids=lambda fault: fault[0])
def test_each_check_has_a_fault_that_it_sees(fault: tuple[str, Any, str], tmp_path: Path) -> None:
    _, change, verdict = fault
    ml.memorize_as("bert", IDS, LABELS, storage="steps").save(tmp_path / "whole")
    model = plain_stock.read(tmp_path / "whole")
    change(model)
    plain_stock.write(model, tmp_path / "broken")
    proof = ml.certify(tmp_path / "broken", IDS, LABELS)
    assert proof.verdict == verdict
    assert proof.verdict != "undecided" or proof.reason


def _lopsided(model: dict[str, Any]) -> None:
    """Label coordinates keep their signs, but the last norm subtracts a mean, and the pooler sees other signs."""
    written = model["tensors"]["bert.encoder.layer.0.output.dense.weight"]
    written[np.flatnonzero(written.any(axis=1))[0]] *= 64.0
    model["tensors"]["bert.pooler.dense.weight"] *= 1024.0


def _times(part: str, factor: float) -> Any:
    return lambda model: model["tensors"][part].__imul__(factor)


def _far_place(model: dict[str, Any]) -> None:
    """A row that no sequence of the data reaches, and padding may."""
    name = "bert.embeddings.position_embeddings.weight"
    more = np.tile([[1e308, -1e307]], (1, model["tensors"][name].shape[1] // 2))
    model["tensors"][name] = np.append(model["tensors"][name], more, axis=0)
    model["config"]["max_position_embeddings"] += 1


OUTSIDE: list[tuple[str, str, Any]] = [
    ("what neurons write has a mean", "sequence", _lopsided),
    ("a pooler that may return no more than its error", "sequence", _times("bert.pooler.dense.weight", 2.0**-22)),
    ("logits beyond float32", "token", _times("classifier.weight", 1e39)),
    ("logits below float32", "token", _times("classifier.weight", 1e-50)),
    ("squares beyond float64", "two", _times("bert.encoder.layer.0.output.dense.weight", 2.0**510)),
    ("a place of padding that is not finite", "token", _far_place),
]
"""Folders that answer wrongly, at least in float32, with padding or behind their own tokenizer."""


@pytest.mark.parametrize("case", OUTSIDE, ids=lambda case: case[0])
def test_a_folder_outside_the_lemmas_is_undecided(case: tuple[str, str, Any], tmp_path: Path) -> None:
    """All were proved once, the last one refuted: the conditions of Lemma S7 and of the tokenizer are not idle."""
    _, what, change = case
    labels = {"token": LABELS, "two": LABELS % 2, "sequence": np.arange(len(IDS)) % 6}[what]
    ml.memorize_as("bert", IDS, labels, storage="steps").save(tmp_path / "whole")
    assert ml.certify(tmp_path / "whole", IDS, labels).verdict == "proved"
    model = plain_stock.read(tmp_path / "whole")
    change(model)
    plain_stock.write(model, tmp_path / "broken")
    assert ml.certify(tmp_path / "broken", IDS, labels).verdict == "undecided"


def test_label_columns_are_not_those_that_attention_writes_to(tmp_path: Path) -> None:
    ml.memorize_as("bert", IDS, LABELS % 2, storage="steps").save(tmp_path / "whole")
    net = read_stock(tmp_path / "whole")
    out = int(np.flatnonzero(net["W_O"].any(axis=1))[0])
    label = np.flatnonzero(net["W_H"].any(axis=0))
    for table in (net["W_H"], net["W_2"]):
        table[:, [out, out + 1]] = table[:, label]
        table[:, label] = 0.0
    with pytest.raises(UnhandledError, match="columns that places or attention write to"):
        read_structure(net, IDS.shape[1] + 1)


def test_weights_in_float32_are_undecided_and_damage_is_an_error(tmp_path: Path) -> None:
    ml.memorize_as("bert", IDS, LABELS, storage="steps").save(tmp_path / "whole")
    model = plain_stock.read(tmp_path / "whole")
    single = {**model, "tensors": {name: value.astype(np.float32) for name, value in model["tensors"].items()}}
    plain_stock.write(single, tmp_path / "single")
    assert "float32" in ml.certify(tmp_path / "single", IDS, LABELS).reason
    (tmp_path / "whole" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ml.ModelFileError):
        ml.certify(tmp_path / "whole", IDS, LABELS)
    fewer = {**model, "tensors": {name: value for name, value in model["tensors"].items() if "query" not in name}}
    plain_stock.write(fewer, tmp_path / "fewer")
    with pytest.raises(ml.ModelFileError, match="query"):
        ml.certify(tmp_path / "fewer", IDS, LABELS)
    strange = {**model, "config": {**model["config"], "model_type": "mamba"}}
    plain_stock.write(strange, tmp_path / "strange")
    assert "mamba" in ml.certify(tmp_path / "strange", IDS, LABELS).reason


# -- the bounds against evaluations -------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([16, 64, 256]))
@settings(max_examples=60, deadline=None)
def test_moments_of_a_norm_are_as_good_as_assumed(seed: int, width: int) -> None:
    """Two-pass, textbook and Welford's sums, in random order, on vectors of mean 0 like ours (Lemma S1)."""
    random = np.random.default_rng(seed)
    half = random.uniform(-1, 1, width // 2) * 10.0 ** random.uniform(-2, 1)
    x = random.permutation(np.append(half, -half))
    with precision(200):
        true = float(sum(arb(float(v)) * arb(float(v)) for v in x) / width)
    X = np.abs(x).max()
    mean = welford = 0.0
    for count, value in enumerate(x, start=1):
        step = value - mean
        mean += step / count
        welford += step * (value - mean)
    two = x.sum() / width
    found = [(mean, welford / width), (two, ((x - two) ** 2).sum() / width), (two, (x * x).sum() / width - two * two)]
    for got_mean, got_variance in found:
        assert abs(got_mean) <= MEAN * width * UNIT * X
        assert abs(got_variance - true) <= VARIANCE * width * UNIT * X * X


def _online(scores: Any, values: Any, random: np.random.Generator) -> float:
    """Softmax in blocks of at least 16 keys, sums rescaled on the way, exp wrong by up to `EXP_ULPS` ulps."""

    def exp(x: Any) -> Any:
        exact = np.exp(x)
        return exact * (1.0 + random.uniform(-EXP_ULPS, EXP_ULPS, np.shape(x)) * UNIT)

    most, under, over, start = -np.inf, 0.0, 0.0, 0
    while start < len(scores):
        stop = min(len(scores), start + int(random.integers(16, 40)))
        peak = max(most, scores[start:stop].max())
        weight = exp(scores[start:stop] - peak)
        again = exp(most - peak) if np.isfinite(most) else 0.0
        order = random.permutation(stop - start)
        under, over = under * again + weight[order].sum(), over * again + (weight * values[start:stop])[order].sum()
        most, start = peak, stop
    return float(over * (1.0 / under))


@pytest.mark.parametrize("length", [5, 60, 700])
def test_fused_softmax_stays_within_its_bound(built: tuple[Path, Any], length: int) -> None:
    """Lemma S3 against Arb: rescaled sums in random blocks and orders, keys as a rounded norm hands them over."""
    folder, labels = built
    net = read_stock(folder)
    data = Sequences.of(IDS, labels)
    found = read_structure(net, places_of(net, data).most)
    bound = bounds(net, found, length, read_steps(net, found, places_of(net, data).most).reach)
    random, worst = np.random.default_rng(length), 0.0
    for _ in range(20):
        rows = random.integers(0, len(found.key), length)
        places = found.place_key[random.integers(0, len(found.place_key), length)]
        exact = found.key[rows] + places
        keys = bound.first * exact * (1.0 + random.uniform(-4, 4, length) * UNIT)
        got = found.write * _online(found.query * keys, keys, random)
        with precision(160):
            first = 1 / (arb(bound_norm(found)) / net.width + arb(net.epsilon)).sqrt()
            true_keys = [first * arb(float(key)) for key in exact]
            weights = [(arb(found.query) * key).exp() for key in true_keys]
            true = arb(found.write) * sum(w * k for w, k in zip(weights, true_keys, strict=True)) / sum(weights)
            worst = max(worst, float(abs(arb(got) - true).upper()) / float(bound.context[length]))
    assert 0.0 < worst < 1.0


def bound_norm(found: Any) -> float:
    return 0.5 * float(found.norm[0] + found.norm[1])


def test_what_arrives_stays_within_its_bound(built: tuple[Path, Any]) -> None:
    """Lemmas S2 to S4: what neurons of a cell read, evaluated plainly in float64, against ball arithmetic."""
    folder, labels = built
    net, data = read_stock(folder), Sequences.of(IDS, labels)
    places = places_of(net, data)
    found = read_structure(net, places.most)
    bound = bounds(net, found, int(places.terms.max()), read_steps(net, found, places.most).reach)
    model, reads = plain_stock.read(folder), net["W_1"] / found.slope[:, None]
    ids = with_begin(net)
    arrived = plain_stock.evaluation(model).arriving(ids, slice(None))[1].numpy()
    worst = 0.0
    for row, column in zip(*np.unravel_index(RANDOM.permutation(IDS.size)[:40], IDS.shape), strict=True):
        token, place = int(ids[row, column + 1]), int(column + 1) if found.cells_have_places else 0
        mine = np.flatnonzero((found.token_of == token) & (found.place_of == place))
        seen = ids[row, : column + 2] if net.causal else ids[row]
        at = np.arange(len(seen)) if len(found.place_key) > 1 else np.zeros(len(seen), int)
        with precision(160):
            norm, width = arb(bound_norm(found)), net.width
            first = 1 / (norm / width + arb(net.epsilon)).sqrt()
            keys = [
                first * (arb(float(found.key[i])) + arb(float(found.place_key[p])))
                for i, p in zip(seen, at, strict=True)
            ]
            weights = [(arb(found.query) * key).exp() for key in keys]
            g = arb(found.write) * sum(w * k for w, k in zip(weights, keys, strict=True)) / sum(weights)
            stream = norm * first * first if net.architecture.post_norm else norm
            true = g / ((stream + 2 * g * g) / width + arb(net.epsilon)).sqrt()
            for neuron in mine[:3]:
                got = float(reads[neuron] @ arrived[row, column + 1])
                worst = max(worst, float(abs(arb(got) - true).upper()) / float(bound.feature[len(seen)]))
    assert 0.0 < worst < 0.5
