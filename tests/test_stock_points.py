"""Folders of steps: the bounds on what arrives at a point, against evaluations that try to break them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker.certificate import Certificate
from monolayer.checker.rounding import EXP_ULPS, PADDING, UnhandledError
from monolayer.checker.stock.bounds import MEAN, SOFTMAX_BLOCK, UNIT_64, VARIANCE, bounds
from monolayer.checker.stock.check import _check_steps, _stock_findings, _written
from monolayer.checker.stock.evaluate import batches
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.places import places_of
from monolayer.checker.stock.readout import (
    read_steps,
)
from monolayer.checker.stock.structure import read_structure
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN
from monolayer.huggingface.opened import stock_files
from monolayer.theory.balls import precision
from tests import plain_stock
from tests.any_order import MOMENTS, blocks, moments
from tests.verdicts import UNSURE, expect, written
from tests.whole_stock import (
    BUILT,
    IDS,
    RANDOM,
    WHOLE,
    threshold,
    whole,
    with_begin,
)

pytestmark = pytest.mark.usefixtures("bounds_alone")

# -- the bounds against evaluations -------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([16, 64, 256]))
@settings(max_examples=15, deadline=None)
def test_moments_of_a_norm_are_as_good_as_assumed(seed: int, width: int) -> None:
    """Two-pass, textbook and Welford's sums, in random order, on vectors of mean 0 like ours (Lemma S1)."""
    random = np.random.default_rng(seed)
    half = random.uniform(-1, 1, width // 2) * 10.0 ** random.uniform(-2, 1)
    x = random.permutation(np.append(half, -half))
    with precision(200):
        true = float(sum(arb(float(v)) * arb(float(v)) for v in x) / width)
    for kind in MOMENTS:
        mean, variance = moments(random, x, kind)
        assert abs(mean) <= MEAN * width * UNIT_64 * np.abs(x).max()
        assert abs(variance - true) <= VARIANCE * width * UNIT_64 * np.abs(x).max() ** 2


def test_a_point_on_a_ramp_or_at_its_ends_is_unsure(tmp_path: Path) -> None:
    """The one neuron of a folder moved so that it reads these numbers at one of its two points, up to rounding."""
    rows, labels = [["a", "b"], ["a", "c"]], [["x", "x"], ["y", "x"]]
    for seed in range(30):
        built = ml.memorize_as("bert", rows, labels, storage="steps", seed=seed)
        if built.facts.neurons == 1:  # the label of the embedding comes first
            break
    folder = built.save(tmp_path / "whole")
    net, model = read_stock(stock_files(folder)), plain_stock.read(folder)
    ids = np.array([[BEGIN, *(net.names.index(token) for token in row)] for row in rows])
    arrived = model.evaluation().arriving(ids, slice(None))[1].numpy()[0, 1]
    near = [(reads + by, "undecided") for reads in (0.0, 6.0) for by in (-1e-13, 0.0, 1e-13)]
    for reads, verdict in [(-1.0, "proved"), *near, (3.0, "undecided"), (7.0, "refuted")]:
        model["tensors"]["bert.encoder.layer.0.intermediate.dense.bias"][:] = reads - net["W_1"] @ arrived
        proof = expect(verdict, UNSURE if verdict == "undecided" else "", model, rows, labels)
        assert proof.wrong + proof.unsure == int(verdict != "proved"), reads


def true_context(net: Any, found: Any, exact: Any) -> tuple[arb, arb]:
    """What attention writes for keys before their norm, and the factor of that norm, as balls."""
    first = 1 / (arb(0.5 * float(sum(found.norm))) / net.width + arb(net.epsilon)).sqrt()
    keys = [first * arb(float(key)) for key in exact]
    weights = [(arb(found.query) * key).exp() for key in keys]
    return arb(found.write) * sum(w * k for w, k in zip(weights, keys, strict=True)) / sum(weights), first


def bounded(which: str, longest: int = 0) -> tuple[Any, Any, Any]:
    with written(whole(which)) as folder:
        net = read_stock(stock_files(folder))
    places = places_of(net, Sequences.of(IDS, WHOLE[which][2]))
    found = read_structure(net, places.most)
    return net, found, bounds(net, found, longest or int(places.terms.max()), read_steps(net, found, places.most).reach)


@pytest.mark.parametrize("which", BUILT)
@pytest.mark.parametrize("length", [5, 200])
def test_fused_softmax_stays_within_its_bound(which: str, length: int) -> None:
    """Lemma S3 against Arb: rescaled sums in random blocks and orders, keys as a rounded norm hands them over."""
    net, found, bound = bounded(which, length)
    random, worst = np.random.default_rng(length), 0.0

    def exp(x: Any) -> Any:
        return np.exp(x) * (1.0 + random.uniform(-EXP_ULPS, EXP_ULPS, np.shape(x)) * UNIT_64)

    for _ in range(6):
        exact = found.key[random.integers(0, len(found.key), length)]
        exact = exact + found.place_key[random.integers(0, len(found.place_key), length)]
        keys = bound.first * exact * (1.0 + random.uniform(-4, 4, length) * UNIT_64)
        got = found.write * float(blocks(random, found.query * keys, keys[:, None], exp)[0])
        with precision(160):
            off = abs(arb(got) - true_context(net, found, exact)[0])
            worst = max(worst, float(off.upper()) / float(bound.context[length]))
    assert 0.0 < worst < 1.0


@pytest.mark.parametrize("which", BUILT)
def test_the_bound_of_attention_counts_every_rounding_of_a_score(which: str) -> None:
    """Lemma S3: from one R to another the bound grows by `2 ds` and by `32 u S'` per unit, over `|ω|`.

    No evaluation shows it, since `ds`, the error of norms, is far larger. It is read off at R near 0.
    """
    net, found, bound = bounded(which)
    S = bound.first * float(np.abs(found.key).max() + np.abs(found.place_key).max())  # up to a rounding

    def seen(R: float) -> float:
        cold = replace(found, query=R / S)
        return float(bounds(net, cold, 1, 0.0).context[1]) / (PADDING * abs(found.write) * S)

    terms = 2.0 * EXP_ULPS + (2.0 + 1.0 / SOFTMAX_BLOCK) * (2.0 * EXP_ULPS + 2.0)
    key_error = (
        seen(2.0**-40) - (2.0 * terms + 8.0) * UNIT_64
    )  # at R = 0: n = 1 term, six operations more above than below
    slope = (seen(32.0) - seen(16.0)) / 16.0
    assert 31.9 * UNIT_64 < slope - 2.0 * PADDING * key_error < 34.0 * UNIT_64


@pytest.mark.parametrize("which", BUILT)
def test_what_arrives_stays_within_its_bound(which: str) -> None:
    """Lemmas S2 to S4: what neurons of a cell read, evaluated plainly in float64, against ball arithmetic."""
    net, found, bound = bounded(which)
    reads, ids, worst = net["W_1"] / found.slope[:, None], with_begin(net), 0.0
    arrived = whole(which).evaluation().arriving(ids, slice(None))[1].numpy()
    for row, column in zip(*np.unravel_index(RANDOM.permutation(IDS.size)[:12], IDS.shape), strict=True):
        token, place = int(ids[row, column + 1]), int(column + 1) if found.cells_have_places else 0
        seen = ids[row, : column + 2] if net.causal else ids[row]
        at = np.arange(len(seen)) if len(found.place_key) > 1 else np.zeros(len(seen), int)
        with precision(160):
            g, first = true_context(net, found, found.key[seen] + found.place_key[at])
            stream = arb(0.5 * float(sum(found.norm))) * (first * first if net.architecture.post_norm else 1)
            true = g / ((stream + 2 * g * g) / net.width + arb(net.epsilon)).sqrt()
            for neuron in np.flatnonzero((found.token_of == token) & (found.place_of == place))[:3]:
                got = float(reads[neuron] @ arrived[row, column + 1])
                worst = max(worst, float(abs(arb(got) - true).upper()) / float(bound.feature[len(seen)]))
    assert 0.0 < worst < 0.5


def true_features(which: str) -> tuple[Any, Any, Any, Any, list[tuple[float, float]]]:
    """A folder, what it comes down to, its bounds, its points, and in ball arithmetic `F` and `φ` of every point."""
    net, found, bound = bounded(which)
    places, ids, exact = places_of(net, Sequences.of(IDS, WHOLE[which][2])), with_begin(net), []
    for point in places.answering.tolist():
        row, column = divmod(point, IDS.shape[1])
        seen = ids[row, : column + 2] if net.causal else ids[row]
        at = np.arange(len(seen)) if len(found.place_key) > 1 else np.zeros(len(seen), int)
        with precision(160):
            g, first = true_context(net, found, found.key[seen] + found.place_key[at])
            stream = arb(0.5 * float(sum(found.norm))) * (first * first if net.architecture.post_norm else 1)
            factor = 1 / ((stream + 2 * g * g) / net.width + arb(net.epsilon)).sqrt()
            exact.append((float(factor), float(g * factor)))
    return net, found, bound, places, exact


@pytest.mark.parametrize("which", BUILT)
def test_the_margin_is_the_distance_to_a_step_over_twice_the_bound_of_lemma_s4(which: str) -> None:
    """Every evaluation is within the bound of the reals. The checker's own is one of them, so that of a user may be
    twice the bound away from it."""
    net, found, bound, places, exact = true_features(which)
    steps, cells, ratios = read_steps(net, found, places.most), places.cells(found), []
    for point, (_, phi) in enumerate(exact):
        mine = np.flatnonzero(steps.cell == cells[point])
        passed = steps.high[mine] <= phi
        away = [*(phi - steps.high[mine][passed]), *(steps.low[mine][~passed] - phi), np.inf]
        ratios.append(min(away) / (2.0 * bound.feature[places.terms[point]]))
    with written(whole(which)) as folder:
        proof = expect("proved", "", folder, IDS, WHOLE[which][2])
    assert proof.margin is not None
    assert abs(proof.margin - min(ratios)) <= 1.0 + 1e-6 * min(ratios)
    assert min(ratios) > 100.0  # so that a factor of 2 is seen


@pytest.mark.parametrize("which", BUILT)
def test_neurons_of_other_cells_stay_at_rest_from_where_lemma_s4_says(which: str) -> None:
    """The lowest threshold is moved down until a neuron might wake in a cell that is not its own."""
    net, found, bound, places, exact = true_features(which)
    data, question = Sequences.of(IDS, WHOLE[which][2]), Certificate("undecided", "", "", (), 0, 0)

    def too_weak(threshold: float) -> bool:
        bias = net["b_1"].copy()
        bias[0] = -threshold * found.slope[0]
        try:
            _check_steps(replace(net, arrays={**net.arrays, "b_1": bias}), data, places, question, False)
        except UnhandledError as why:
            return "the gate is too weak" in str(why)
        return False

    edge = -threshold(lambda below: too_weak(-below), 0.0, 2.0**20, 60)  # to within 2^-40
    lemma = max(
        factor * (phi / factor - 4.0 * found.gate * bound.one * (1.0 - 2.0**-20)) for factor, phi in exact
    )  # what the radius adds is far smaller
    assert edge == pytest.approx(lemma, rel=1e-6)


# -- the points of the data ---------------------------------------------------------------------------------------

ROWS = [["a", "b", "c"], ["b", "a"], ["c"]]
POINTS: dict[str, tuple[str, Any, Any]] = {
    "tokens": ("bert", ROWS, [["x", "y", "x"], ["y", "y"], ["x"]]),
    "some tokens": ("bert", ROWS, [["x", None, "x"], [None, "y"], ["x"]]),
    "causal tokens": ("gpt2", ROWS, [["x", "y", "x"], ["y", "y"], ["x"]]),
    "sequences": ("bert", ROWS, ["x", "y", "x"]),
    "causal sequences": ("gpt2", ROWS, ["x", "y", "x"]),
    "next tokens": ("gpt2", ROWS, None),
    "next tokens of one text": ("gpt2", ["abca"], None),
    "next tokens of two texts": ("gpt2", ["ab", "ab"], None),
}


@pytest.mark.parametrize("storage", ["steps", "cells"])
@pytest.mark.parametrize("kind", POINTS)
def test_points_are_counted_as_by_hand(kind: str, storage: Any, tmp_path: Path) -> None:
    """Which id answers at which place, over how many terms, and with what; and where a wrong one is said to lie."""
    name, rows, labels = POINTS[kind]
    model = ml.memorize_as(name, rows, labels, storage=storage, positions=True)
    net, data = read_stock(stock_files(model.save(tmp_path / "m"))), Sequences.of(rows, labels)
    found, causal, expected = places_of(net, data), name == "gpt2", []
    number, flat = {token: i for i, token in enumerate(net.names)}, 0
    for row, sequence in enumerate(map(list, rows)):
        if kind.endswith("sequences"):
            answers = (number[sequence[-1]], len(sequence)) if causal else (BEGIN, 0)
            expected.append((*answers, len(sequence) + 1, labels[row], row, f"sequence {row}"))
        else:
            follow = [*sequence[1:], "</s>"] if labels is None else labels[row]
            for place, (token, answer) in enumerate(zip(sequence, follow, strict=True), 1):
                terms = place + 1 if causal else len(sequence) + 1
                where = f"token {place - 1} of sequence {row}"
                if answer is not None:
                    expected.append((number[token], place, terms, answer, flat, where))
                flat += 1
    if kind.startswith("next tokens of"):
        expected.append((BEGIN, 0, 1, "a", flat, "the begin token"))
    assert found.begins == kind.startswith("next tokens of")
    points = zip(found.token, found.place, found.terms, found.answering, strict=True)
    assert [tuple(map(int, point)) for point in points] == [(*one[:3], one[4]) for one in expected]
    assert [found.where(data, point) for point in range(len(expected))] == [one[5] for one in expected]
    assert [found.expected(point) for point in range(len(expected))] == [one[3] for one in expected]
    assert [net.classes[label] for label in found.wanted] == [one[3] for one in expected]
    assert found.most == max(map(len, rows)) + 1
    assert found.ids.tolist() == [number[token] for sequence in rows for token in sequence]
    # Every place that answers is evaluated once, in a batch that holds it: at its place, behind its own tokens.
    asked = [
        (int(batch.ids[i, at]), int(at), int(batch.points[i, j]))
        for batch in batches(net, data, found)
        for i in range(len(batch.ids))
        for j, at in enumerate(batch.at)
    ]
    whole = [(one[0], one[1], one[4]) for one in expected]
    assert set(whole) <= set(asked)
    assert len(asked) == len(set(asked)) == (len(whole) if kind != "some tokens" else flat)
    # Another model: what it gets wrong lies where it says.
    wrong = np.full(len(expected), True)
    findings = list(_stock_findings(net, data, found, wrong, ~wrong, found.wanted))
    places = [(None, None)] if kind.endswith("sequences") else None
    for point, finding in enumerate(findings):
        token, place, _, answer, at, _ = expected[point]
        last = found.begins and point == len(expected) - 1
        row = at if places else 0 if last else int(data.sequence[at])
        assert (finding.sequence, finding.position) == (row, None if places else place - 1)
        assert finding.token == (None if places else net.names[token])
        assert (finding.expected, finding.got) == (answer, answer)


@pytest.mark.parametrize("kind", [*POINTS, "single tokens"])
def test_what_attention_writes_is_the_same_in_ball_arithmetic(kind: str, tmp_path: Path) -> None:
    """Sums over sequences and prefixes, in float64, at every point; keys of places count if places have any."""
    name, rows, labels = POINTS.get(kind, ("bert", [["a"], ["b"], ["c"]], [["x"], ["y"], ["x"]]))
    model = ml.memorize_as(name, rows, labels, storage="steps", positions=True)
    net, data = read_stock(stock_files(model.save(tmp_path / "m"))), Sequences.of(rows, labels)
    places = places_of(net, data)
    found = read_structure(net, places.most)
    bound = bounds(net, found, int(places.terms.max()), 0.0)
    assert found.place_key[1:].any()
    got = _written(net, found, bound, data, places)
    for point, answering in enumerate(places.answering.tolist()):
        row = (
            0
            if answering == len(data.tokens)
            else answering
            if net.task == "sequence"
            else int(data.sequence[answering])
        )
        ids = [BEGIN, *places.ids[data.offsets[row] : data.offsets[row + 1]].tolist()][: int(places.terms[point])]
        with precision(160):
            exact, _ = true_context(net, found, found.key[ids] + found.place_key[: len(ids)])
        assert got[point] == pytest.approx(float(exact), rel=1e-12)


def test_labels_that_the_folder_lacks_and_places_that_it_lacks_are_named(tmp_path: Path) -> None:
    net = read_stock(stock_files(ml.memorize_as("gpt2", ["abc"]).save(tmp_path / "m")))
    found = places_of(net, Sequences.of(["abd"]))
    assert found.wanted.tolist() == [net.names.index("b"), -1, net.classes.index("</s>"), net.names.index("a")]
    room = net.room
    for rows, words in (
        (["a", "ab" * room, "b"], f"sequence 1 has {2 * room:,} tokens and a begin token"),
        ([["a", "<s>"], ["</s>", "a"]], "token 1 of sequence 0 is a special token"),
    ):
        with pytest.raises(ml.DataError, match=words):
            places_of(net, Sequences.of(rows))
