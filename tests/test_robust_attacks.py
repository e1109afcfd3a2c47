"""Attacks on the certificate of robust models: folders made by hand, whose digests fit, that once were proved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.gates import EPSILON
from monolayer.checker.labelled import labelled
from monolayer.checker.noise import Shares, errors
from monolayer.checker.robust import question_of
from monolayer.checker.rounding import BINARY64
from monolayer.checker.stored import read
from tests.stored_models import Saved
from tests.verdicts import expect, refused

Tensors = dict[str, Any]
X = np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [2, 0]])
Y = np.array([[0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [1, 0]])


def edited(model: ml.Monolayer, change: Callable[[Tensors], None], **fields: Any) -> Saved:
    """The model's folder with other tensors and fields."""
    saved = Saved.of(model)
    change(saved.tensors)
    saved.config |= fields
    return saved


def wider(tensors: Tensors, at: int, places: float = 0.0) -> None:
    """One coordinate more in everything that writes to the stream and in what attention and head read of it."""
    ones = ("lift.weight", "positions.weight", "head.weight", "attention.W_Q", "attention.W_K", "attention.W_V")
    for name, axis in ({"bos": 0, "attention.W_O": 0} | dict.fromkeys(ones, 1)).items():
        filling = places if name == "positions.weight" else 0.0
        tensors[name] = np.insert(tensors[name], at, filling, axis=axis)


@pytest.fixture(scope="module")
def built() -> ml.Monolayer:
    return ml.memorize(X, Y, positions=True, robust=True, rank=16)


@pytest.mark.parametrize(
    ("part", "value"), [("token", np.nan), ("place", np.inf), ("context", np.nan), ("key", np.inf), ("label", np.nan)]
)
def test_a_row_with_one_coordinate_that_is_no_number_is_no_vector(built: ml.Monolayer, part: str, value: float) -> None:
    """In a dense product it makes NaN of every logit, wherever in the row it stands."""
    layout = built.feed_forward.layout
    first = {"token": 0, "place": layout.token, "context": layout.context.start, "key": layout.reads}
    plain = ml.memorize([[1, 2], [3, 4]], [[0, 1], [1, 0]], positions=True, robust=True, rank=16)  # no neuron awake
    for model, data in ((built, (X, Y)), (plain, ([[1, 2], [3, 4]], [[0, 1], [1, 0]]))):

        def spoil(tensors: Tensors) -> None:
            tensors["lift.weight"][1, first.get(part, tensors["lift.weight"].shape[1] - 1)] = value

        expect("refuted", "", edited(model, spoil), *data)


def test_an_answer_at_the_begin_token_has_no_place(tmp_path: Path) -> None:
    """A place part that a label per sequence does not need: `bos` has no code of a place, whatever the neurons read."""
    x = np.random.default_rng(0).integers(0, 20, (30, 5))
    y = np.random.default_rng(1).integers(0, 3, 30)
    model = ml.memorize(x, y, positions=True, robust=True, rank=32)
    layout = model.feed_forward.layout
    fields = {"gates": {"token": layout.token, "place": 1, "rank": layout.rank}, "width": layout.width + 1}
    for number, (weight, bias) in enumerate([(3.0, 0.0), (3.0, -3.0), (-3.0, 3.0)]):

        def widen(tensors: Tensors, weight: float = weight, bias: float = bias) -> None:
            wider(tensors, layout.token, places=1.0)
            reads = tensors["feed_forward.weight_1"]
            tensors["feed_forward.weight_1"] = np.insert(reads, layout.token, weight, axis=1)
            tensors["feed_forward.bias_1"] += np.float32(bias)

        folder = edited(model, widen, **fields).write(tmp_path / str(number))
        dense = ml.load(folder).predict(x, path="dense")
        assert np.array_equal(ml.load(folder).predict(x, path="fast"), dense)
        proved = ml.certify(folder, x, y).verdict == "proved"
        assert proved == bool((dense == y).all()) == (number == 0)


def own_key(tensors: Tensors, layout: Any) -> None:
    """Without positions all scores are 0, but where `bos` has a key: a label per sequence is read at its query."""
    tensors["bos"][layout.reads] = 4.0
    tensors["attention.W_Q"][0, layout.reads] = tensors["attention.W_K"][0, layout.reads] = 1.0


def overflow(tensors: Tensors, layout: Any) -> None:
    """Contexts whose squares are no finite numbers."""
    tensors["lift.weight"][:, layout.context] *= 2.0**20
    tensors["bos"][layout.context] *= 2.0**20
    tensors["attention.W_V"] *= 2.0**20
    tensors["attention.W_O"] *= 2.0**17


def unseen_future(tensors: Tensors, layout: Any) -> None:
    """Two sequences whose first tokens differ in nothing but the future, which a causal model masks."""


@pytest.mark.parametrize(
    ("change", "rows", "labels", "options", "fields", "verdict", "words"),
    [
        (own_key, [[0, 1], [1, 2], [2, 0]], [0, 1, 2], {"rank": 16}, {}, "undecided", ""),
        (overflow, X, Y, {"rank": 1024, "positions": True}, {}, "undecided", "overflow"),
        (unseen_future, [[0, 1], [0, 2]], [[0, 0], [1, 0]], {"rank": 16}, {"causal": True}, "refuted", ""),
    ],
)
def test_a_model_that_answers_wrongly_after_a_change_is_not_proved(
    change: Any, rows: Any, labels: Any, options: Any, fields: Any, verdict: str, words: str, tmp_path: Path
) -> None:
    model = ml.memorize(rows, labels, robust=True, **options)
    expect("proved", "", model, rows, labels)
    folder = edited(model, lambda tensors: change(tensors, model.feed_forward.layout), **fields).write(tmp_path / "m")
    assert (np.asarray(ml.load(folder).predict(rows, path="dense")) != np.asarray(labels)).any()
    expect(verdict, words, folder, rows, labels)


def test_no_printed_share_is_above_the_one_that_was_proved(built: ml.Monolayer) -> None:
    proof = ml.certify(built, X, Y, noise=1e-3 - 1e-12)
    assert "by at most 0.000999999999 of itself" in proof.claim
    assert proof.noise is not None
    for share in (proof.noise, 0.0029996, 1 / 3, 0.0, 2.0**-20):
        said = dict(replace(proof, noise=share).rows())["noise on every weight"]
        assert 0.99 * share <= float(said.split()[2]) <= share


def test_noise_that_pushes_a_neuron_as_far_as_it_can_uses_up_its_bound(built: ml.Monolayer, tmp_path: Path) -> None:
    """Lemma R3: every weight that a neuron depends on moved by all of the noise, with the sign that hurts."""
    stored, eta = read(built.save(tmp_path / "m")), 2.0**-10
    points = labelled(stored, ml.Sequences.of(X, Y))
    asked = question_of(stored, points)
    gated, found = asked.gated, asked.found
    error = errors(found, gated, Shares.of(eta, gated, asked.longest, asked.format))
    logits, used = gated.query[1:3] @ gated.key[:3].T, []

    def read_by(own: Any, v: Any, logit: Any) -> Any:
        weight = np.exp(logit)
        z = own + weight @ v / weight.sum()
        return z / np.sqrt((z**2).sum() + len(z) * EPSILON)

    for q, (flat, j) in enumerate(zip(found.point.tolist(), found.neuron.tolist(), strict=True)):
        row, place = points.rows[flat], flat % 2
        own, w = gated.own[row], gated.weight_context[j]
        v = np.concatenate([gated.begin[None], gated.own[points.rows[flat - place : flat - place + 2]]]) * gated.gain
        unit = read_by(own, v, logits[place])
        across = w - (w @ unit) * unit
        height = v @ across - np.average(v @ across, weights=np.exp(logits[place]))
        terms = np.append(gated.token[row] * gated.weight_token[j], gated.place[place] * gated.weight_place[j])
        for sign in (eta, -eta):
            turned = logits[place] * (1 + sign * np.sign(height * logits[place])) ** 4
            unit = read_by(own * (1 + sign * np.sign(across * own)), v * (1 + sign * np.sign(across * v)) ** 3, turned)
            value = (w * (1 + sign * np.sign(w * unit))) @ unit * np.sqrt(len(w))
            value += (terms * (1 + sign * np.sign(terms)) ** 2).sum() + gated.bias[j] * (
                1 + sign * np.sign(gated.bias[j])
            )
            used.append(abs(value - found.value[q]) / error[q])
    assert 0.8 < max(used) <= 1.0


def test_roundings_of_the_checker_itself_are_counted(built: ml.Monolayer, tmp_path: Path) -> None:
    """In binary64 they are as large as those of the evaluation: an answer may be two bounds from ours."""
    stored = read(built.save(tmp_path / "m"))
    gated = question_of(stored, labelled(stored, ml.Sequences.of(X, Y))).gated
    shares = Shares.of(0.0, gated, 2, BINARY64)
    m, width = gated.weight_2.shape[1], built.feed_forward.layout.reads
    assert shares.out >= 2 * BINARY64.gamma(m + len(gated.weight_2))
    assert shares.token >= 2 * BINARY64.gamma(width)


def test_short_weights_are_widened_before_anything_is_computed() -> None:
    """The fast path of a bfloat16 model is that of the same weights in float32."""
    random = np.random.default_rng(2)
    rows, other = random.integers(0, 6, (40, 4)), random.integers(0, 6, (3_000, 4))
    options: Any = {"robust": True, "positions": True, "rank": 16, "dtype": "bfloat16", "on_conflict": "first"}
    model = ml.memorize(rows, random.integers(0, 3, (40, 4)), **options)
    with torch.no_grad():
        model.attention.W_V.mul_(1.0078125)  # a product that bfloat16 cannot hold
    assert np.array_equal(model.predict(other, path="fast"), copy.deepcopy(model).float().predict(other, path="fast"))


def test_a_token_without_a_vector_that_others_do_not_see_is_left_open() -> None:
    """In a dense product 0 times NaN is NaN; where all see it, every answer is lost."""
    rows, labels = [[0, 1], [1, 2]], [[0, 1], [1, 0]]
    model = ml.memorize(rows, labels, robust=True, causal=True, rank=16)
    expect("undecided", "0 times NaN is NaN", model, [*rows, [0, 9]], [*labels, [0, 0]])
    expect("refuted", "", model, [*rows, [9, 0]], [*labels, [0, 0]])


def lift_of_vectors(tensors: Tensors, width: int) -> None:
    """Rows are those of a table: this must not be read as one."""
    tensors |= {"lift.weight": np.zeros((width, 3), np.float32), "lift.bias": np.zeros(width, np.float32)}


def test_a_robust_model_takes_ids_and_a_stream_as_wide_as_its_parts(built: ml.Monolayer) -> None:
    width = built.feed_forward.layout.width
    fields: dict[str, Any] = {"tokens": "vectors", "vocabulary": None}
    refused("memorizer of ids", edited(built, lambda tensors: lift_of_vectors(tensors, width), **fields))
    # All tensors agree on one coordinate more, which belongs to no part.
    refused("width", edited(built, lambda tensors: wider(tensors, width), width=width + 1))
