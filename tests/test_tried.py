"""What bounds leave open is tried: a wrong answer of one evaluation refutes a claim, with its row and both labels."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.checker import tried
from monolayer.checker.evaluation import Evaluation
from monolayer.checker.labelled import labelled
from monolayer.checker.stock.evaluation import StockEvaluation
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stored import read_model
from monolayer.huggingface.architectures import ARCHITECTURES, architecture_named
from monolayer.huggingface.opened import stock_files
from monolayer.model.attention import LABEL
from monolayer.model.cascade import Cascade, stream_width
from monolayer.saved.certify import certify_files
from monolayer.stock.answers import Evaluation as PlainStock
from tests.evil import Evil, errs
from tests.kinds import CASCADES, LINES, ROBUST, STOCK, built
from tests.stored_models import Case, Saved, random_case

OWN = [*LINES, *CASCADES, *ROBUST]
X, Y = [[1, 2], [2, 3], [3, 1]], [[0, 1], [1, 2], [2, 0]]


def uncovered(model: ml.Monolayer) -> ml.Monolayer:
    """A copy with a number in the head that no lemma covers, too small to change an answer."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.head.weight[0, 0] = 1e-30
    return other


def lost(model: ml.Monolayer) -> ml.Monolayer:
    """A copy that no lemma covers, and that returns class 0 everywhere."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.head.bias[0] = 1e6
    return other


@pytest.mark.parametrize("kind", OWN)
def test_the_evaluation_is_that_of_the_network(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    stored = read_model(model.save(tmp_path / "model"))
    network, points = Evaluation(stored), labelled(stored, data)
    tokens = data.tokens if points.rows is None else points.rows
    length = int(data.lengths[0])
    flat = data.offsets[np.flatnonzero(data.lengths == length)][:4, None] + np.arange(length)
    at = np.arange(1, length + 1) if points.labelling.at_tokens else np.zeros(1, dtype=np.int64)
    found = network.outputs(tokens[flat], at)
    with torch.no_grad():
        given = torch.from_numpy(tokens[flat])
        wanted = model(given if points.rows is not None else given.to(model.bos.dtype)).double().numpy()
    wanted = wanted if points.labelling.at_tokens else wanted[:, None]
    assert network.dtype == (np.float64 if model.bos.dtype == torch.float64 else np.float32)
    room = 1e-9 if network.dtype == np.float64 else 2e-2 if model.bos.dtype == torch.bfloat16 else 1e-3
    assert np.abs(found - wanted).max() <= room * np.abs(wanted).max()


@pytest.mark.parametrize("kind", ["cascade tokens", "cascade reals"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_evaluation_of_three_stages_is_that_of_the_network_everywhere(
    kind: str, turned: bool, tmp_path: Path
) -> None:
    """Left of all steps, between any two, on ramps and right of all; `turned`: with neurons out of order."""
    model, _ = built(kind)
    stored = read_model(model.save(tmp_path / "model"))
    first, last = model.feed_forward.stairs
    stages = [copy.deepcopy(stage) for stage in (first, first, last)]
    with torch.no_grad():
        for stage in stages if turned else []:
            stage.weight_1.copy_(stage.weight_1.flip(0))
            stage.bias_1.copy_(stage.bias_1.flip(0))
    readout = Cascade(stages).double()
    tensors = {f"feed_forward.{name}": part.detach().numpy() for name, part in readout.state_dict().items()}
    config = {**stored.config, "steps": [len(stage.bias_1) for stage in stages]}
    network = Evaluation(replace(stored, config=config, tensors=tensors))
    draw, m = np.random.default_rng(0), stored.config["labels"]
    Z = np.zeros((600, stream_width(3, m)))
    for (_, code), stage in zip(readout.slots, stages, strict=True):
        starts = np.sort((-stage.bias_1 / stage.weight_1).detach().numpy())
        ends = starts + draw.choice([0.3, 1.0, 5.0]) / stage.weight_1.detach().numpy()
        between = np.concatenate([[starts[0] - 1.0], (starts[1:] + starts[:-1]) / 2.0, [starts[-1] + 1.0], ends])
        Z[:, code] = draw.choice(between, len(Z)) + draw.choice([0.0, 0.1], len(Z))
        Z[:2, code] = between[[0, len(starts)]]
    with torch.no_grad():
        wanted = readout(torch.from_numpy(Z)).numpy()
    found = network._read_out(Z.copy())
    assert np.abs(found - wanted).max() <= 1e-9 * np.abs(wanted).max()
    assert len(np.unique(wanted[:, LABEL])) > (2 if turned else 5)


def test_the_evaluation_of_an_approximator_is_that_of_the_network(tmp_path: Path) -> None:
    model = ml.approximate(lambda X: X - X.mean(axis=1, keepdims=True), dim=1, length=2, cells=4)
    network = Evaluation(read_model(model.save(tmp_path / "model")))
    given = np.array([[[0.125], [0.875]], [[0.4], [0.6]]])
    with torch.no_grad():
        wanted = model(torch.from_numpy(given)).numpy()
    assert np.abs(network.outputs(given, np.arange(1, 3)) - wanted).max() < 1e-12


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"positions": True}])
def test_a_wrong_answer_refutes_and_is_named(options: dict[str, Any]) -> None:
    model = ml.memorize(X, Y, **options)
    proof = ml.certify(lost(model), X, Y)
    assert (proof.verdict, proof.points, proof.wrong, proof.unsure) == ("refuted", 6, 4, 2)
    assert "the answer is another one at 4 of 6 points. The bounds alone do not decide: the proof" in proof.reason
    first = proof.findings[0]
    assert (first.kind, first.sequence, first.position, first.token) == ("wrong", 0, 1, 2)
    assert (first.expected, first.got) == (1, 0)
    assert first.why.startswith("in one evaluation in binary")


@pytest.mark.parametrize(("number", "verdict"), [(1e4, "refuted"), (1e-6, "undecided")])
def test_robust_models_are_tried(number: float, verdict: str) -> None:
    """The head reads a part of the stream that it must not read; whether that matters depends on the weight."""
    model = ml.memorize(X, Y, robust=True)
    with torch.no_grad():
        model.head.weight[0, model.feed_forward.layout.token - 1] = number  # a coordinate that is 1 in every token
    proof = ml.certify(model, X, Y)
    assert proof.verdict == verdict, proof.explain()
    assert "read a part" in proof.reason
    assert {(one.expected, one.got) for one in proof.findings} == ({(1, 0), (2, 0)} if verdict == "refuted" else set())


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"positions": True}])
def test_what_is_right_and_not_proved_stays_undecided(options: dict[str, Any]) -> None:
    proof = ml.certify(uncovered(ml.memorize(X, Y, **options)), X, Y)
    assert (proof.verdict, proof.wrong, proof.unsure) == ("undecided", 0, 6)
    assert "carried out by the checker, each of 6 points that were tried gets its label" in proof.measured[0]


def test_nothing_is_tried_where_bounds_decide() -> None:
    model = ml.memorize(X, Y)
    for labels, verdict in ((Y, "proved"), ([[1, 1], [1, 2], [2, 0]], "refuted")):
        proof = ml.certify(model, X, labels)
        assert (proof.verdict, proof.measured) == (verdict, ())
        assert "carried out by the checker" not in proof.explain()


def test_labels_of_sequences_and_real_labels_are_compared() -> None:
    by_sequence = ml.memorize(X, ["a", "b", "c"])
    proof = ml.certify(lost(by_sequence), X, ["a", "b", "c"])
    assert (proof.verdict, proof.wrong) == ("refuted", 2)
    assert (proof.findings[0].sequence, proof.findings[0].position) == (1, None)
    assert (proof.findings[0].expected, proof.findings[0].got) == ("b", "a")
    reals = ml.memorize(X, [0.5, 1.5, 2.5])
    other = copy.deepcopy(reals)
    with torch.no_grad():
        other.head.weight[0, 3] = 1.0 + 2.0**-40
    proof = ml.certify(other, X, [0.5, 1.5, 2.5])
    assert (proof.verdict, proof.wrong) == ("refuted", 3)
    assert (proof.findings[0].expected, proof.findings[0].got) == (0.5, 0.5 * (1.0 + 2.0**-40))
    assert ml.certify(other, X, [0.5, 1.5, 2.5], tolerance=1e-6).verdict == "undecided"
    both = [[0.5, 1.0], [1.5, 2.0], [2.5, 0.25]]
    vectors = ml.memorize(X, both, per="sequence")
    with torch.no_grad():
        vectors.head.bias[1] = 1.0
    assert ml.certify(vectors, X, both, per="sequence").findings[0].got == [0.5, 2.0]


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("labels", [[0.5, 1.5, 2.5], [[0.5, 1.0], [1.5, 2.0], [2.5, 0.25]]])
def test_a_real_answer_that_is_no_number_is_none_in_a_certificate(labels: Any, number: float) -> None:
    """JSON has neither NaN nor infinity."""
    model = ml.memorize(X, labels, per="sequence")
    with torch.no_grad():
        model.head.bias[0] = number
    proof = ml.certify(model, X, labels, per="sequence")
    assert (proof.verdict, proof.wrong) == ("refuted", 3)
    assert proof.findings[0].got is None
    assert proof.from_json(proof.to_json()) == proof


def test_only_labelled_points_count() -> None:
    gaps: Any = [[0, None], [None, None], [2, 0]]
    proof = ml.certify(lost(ml.memorize(X, Y)), X, gaps)
    assert (proof.verdict, proof.points, proof.wrong) == ("refuted", 3, 1)
    assert (proof.findings[0].sequence, proof.findings[0].position) == (2, 0)


def test_rows_of_several_files_are_counted_through(tmp_path: Path) -> None:
    folder = lost(ml.memorize(X, Y)).save(tmp_path / "model")
    for number, (row, labels) in enumerate(zip(X, Y, strict=True)):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"tokens": {row}, "labels": {labels}}}\n')
    proof = certify_files(folder, [str(tmp_path / f"{number}.jsonl") for number in range(3)])
    assert proof is not None
    assert [(one.sequence, one.position) for one in proof.findings] == [(0, 1), (1, 0), (1, 1), (2, 0)]
    assert proof.findings[-1].origin is not None
    assert proof.findings[-1].origin.endswith("2.jsonl")


def test_masked_tokens_without_a_vector_refute_nothing() -> None:
    """In a product 0 times NaN is NaN, and an evaluation may leave masked places out."""
    model = uncovered(ml.memorize([[1, 2], [2, 1]], [[0, 1], [1, 0]], causal=True))
    proof = ml.certify(model, [[1, 7], [2, 1]], [[0, 0], [1, 0]])
    assert proof.verdict != "proved"
    assert all(one.sequence != 0 or one.position != 0 for one in proof.findings if one.kind == "wrong")


def test_work_is_limited_and_doubtful_points_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lost(ml.memorize(X, Y))
    monkeypatch.setattr(tried, "MOST_WORK", 0)
    assert ml.certify(model, X, Y).verdict == "undecided"
    lengths = np.array([2, 5, 2, 5, 3])
    chosen = list(tried.batches(lengths, np.array([0, 1, 3, 4]), [4, 3], lambda length: 10 * length, 4, 140))
    assert [(batch.rows.tolist(), batch.work, batch.length) for batch in chosen] == [
        ([0], 20, 2),
        ([4], 30, 3),
        ([3], 50, 5),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_trials_agree_with_an_independent_evaluation(seed: int, tmp_path: Path) -> None:
    """Planted: some number of a saved model, moved. What is tried wrong errs elsewhere, and what is right does not."""
    case = random_case(seed)
    random = np.random.default_rng(seed)
    changed = case.saved.changed()
    name = random.choice([name for name in changed.tensors if name.startswith(("feed_forward", "head"))])
    tensor = changed.tensors[name]
    tensor[tuple(random.integers(0, size) for size in tensor.shape)] += random.choice([0.3, 1.07, -2.13])  # no ties
    other = Case(case.X, case.Y, Saved(changed.config, changed.tensors, changed.names))
    proof = ml.certify(changed.write(tmp_path / "model"), case.X, case.Y, tolerance=1e-5)
    evaluated = errs(other, Evil.plain(random))
    assert (proof.verdict == "refuted") == evaluated, proof.explain()


@pytest.mark.parametrize("kind", STOCK)
def test_the_evaluation_of_a_stock_folder_is_that_of_transformers(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    model.save(tmp_path / "model")
    _same_logits(tmp_path / "model", data)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("storage", ["cells", "steps"])
def test_every_architecture_is_evaluated(name: str, storage: str, tmp_path: Path) -> None:
    words, tags = ["ab", "bc", "ca"], [["x", "y"], ["y", "x"], ["x", "x"]]
    kind = architecture_named(name)
    causal = kind.causal
    if storage == "steps" and kind.rms:
        pytest.skip("its norms compute in float32, so it is not built as steps")
    positions = storage == "cells" or kind.has_places
    model = ml.memorize_as(name, words, None if causal else tags, positions=positions, storage=storage)
    folder = model.save(tmp_path / "model")
    _same_logits(folder, ml.Sequences.of(words))
    given = (words,) if causal else (words, tags)
    assert ml.certify(folder, *given).verdict == "proved"
    tensors = load_file(folder / "model.safetensors")
    arrays = {key: value.copy() for key, value in tensors.items()}
    bias = next((key for key in arrays if key.endswith(("classifier.bias", "score.bias"))), None)
    if bias is None:  # the rows of the head are exchanged
        key = next(key for key in ("lm_head.weight", "embed_out.weight", "score.weight") if key in arrays)
        arrays[key] = np.ascontiguousarray(arrays[key][::-1])
    else:
        arrays[bias][0] += 1e4
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    proof = ml.certify(folder, *given)
    assert (proof.verdict, proof.wrong > 0) == ("refuted", True), proof.explain()


def _same_logits(folder: Path, data: ml.Sequences) -> None:
    """The checker's evaluation of a folder has the logits of the library's own, up to rounding."""
    files = stock_files(folder)
    assert files is not None
    net = read_stock(files)
    plain = PlainStock(net, net.arrays)
    ids = np.random.default_rng(0).integers(5, len(net.names), (3, min(5, net.room - 1)))
    ids[:, 0] = 2
    at = np.arange(ids.shape[1])
    found, wanted = StockEvaluation(net).logits(ids, at), plain.logits(ids, at).numpy()
    assert np.abs(found - wanted).max() <= 1e-3 * np.abs(wanted).max()
    assert len(data)


def _changed(folder: Path, name: str, place: Any, value: float) -> Path:
    """The folder with another number at a place of the tensor whose name ends with `name`."""
    tensors = {key: array.copy() for key, array in load_file(folder / "model.safetensors").items()}
    (key,) = (key for key in tensors if key.endswith(name))
    tensors[key][place] = value
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    "labels", [[["x", "y"], ["y", None], ["x", "x"]], ["x", "y", "x"]], ids=["tokens", "sequences"]
)
def test_stock_folders_that_are_right_stay_undecided(labels: Any, tmp_path: Path) -> None:
    words, types = ["ab", "bc", "ca"], "token_type_embeddings.weight"
    folder = ml.memorize_as("bert", words, labels, positions=True).save(tmp_path / "model")
    proof = ml.certify(_changed(folder, types, (0, 0), 1e-12), words, labels)
    points = 5 if isinstance(labels[0], list) else 3
    assert (proof.verdict, proof.wrong, proof.unsure) == ("undecided", 0, points), proof.explain()
    assert f"each of {points} points that were tried gets its label" in proof.measured[-1]
    proof = ml.certify(_changed(folder, "classifier.bias", 0, 1e4), words, labels)
    assert (proof.verdict, proof.wrong) == ("refuted", 1 if points == 3 else 2)
    assert {(one.expected, one.got) for one in proof.findings if one.kind == "wrong"} == {("y", "x")}


def test_the_begin_token_of_a_language_model_is_tried(tmp_path: Path) -> None:
    folder = ml.memorize_as("gpt2", ["abcd"], positions=True).save(tmp_path / "model")
    proof = ml.certify(_changed(folder, "wpe.weight", (-1, 0), 2.0**21), ["abcd"])  # a place that nothing uses
    assert (proof.verdict, proof.points) == ("undecided", 5), proof.explain()
    assert "each of 5 points that were tried gets its label" in proof.measured[-1]
    proof = ml.certify(_changed(folder, "ln_f.weight", slice(None), 0.0), ["abcd"])
    assert proof.verdict == "undecided"  # all logits are equal: ties count as right here
    proof = ml.certify(_changed(folder, "ln_f.weight", slice(None), -1.0), ["abcd"])
    assert (proof.verdict, proof.wrong) == ("refuted", 5)


def test_gaps_at_the_end_and_points_of_several_lengths_are_counted() -> None:
    rows, labels = [[1, 2], [2, 3, 1], [3, 1]], [[0, 1], [1, 2, 0], [2, 0]]
    gaps: Any = [[0, 1], [1, 2, 0], [2, None]]
    proof = ml.certify(uncovered(ml.memorize(rows, labels)), rows, gaps)
    assert (proof.verdict, proof.points) == ("undecided", 6)
    assert "each of 6 points that were tried gets its label" in proof.measured[0]
