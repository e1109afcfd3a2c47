"""Attacks on the certificate of robust models: folders made by hand, whose digests fit, that once were proved."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.gates import AWAKE, EPSILON, Pairs, RowSequences, _contexts, live, read_gates
from monolayer.checker.labelled import labelled
from monolayer.checker.noise import LARGEST_SCORE, ROBUST_UNDERFLOW, Shares, errors, point_verdicts, silent
from monolayer.checker.robust import Question, first_noise, question_of
from monolayer.checker.rounding import BINARY32, BINARY64, EXP_ULPS, UnhandledError
from monolayer.checker.stored import read_model
from tests.stored_models import Saved
from tests.verdicts import expect, refused

pytestmark = pytest.mark.usefixtures("bounds_alone")

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
        (
            own_key,
            [[0, 1], [1, 2], [2, 0]],
            [0, 1, 2],
            {"rank": 16},
            {},
            "undecided",
            "a part of the stream is written",
        ),
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


PART = {"token": 0, "place": 1, "context": 2, "key": 3, "label": 4}
STRANGE = [
    *(("lift.weight", part, "must be 0") for part in ("place", "key")),
    *(("positions.weight", part, "must be 0") for part in ("token", "context", "label")),
    ("bos", "place", "must be 0"),
    *((f"attention.W_{side}", part, "must not read") for side in "QK" for part in ("token", "context", "label")),
    *(("attention.W_V", part, "must not read") for part in ("token", "place", "key", "label")),
    *(("head.weight", part, "must not read") for part in ("token", "place", "context", "key")),
]


@pytest.mark.parametrize(("name", "part", "words"), STRANGE)
@pytest.mark.parametrize("value", [2.0**-20, -(2.0**-20)])
def test_no_part_of_the_stream_is_written_or_read_where_it_must_not_be(
    built: ml.Monolayer, name: str, part: str, words: str, value: float
) -> None:
    layout = built.feed_forward.layout
    starts = [0, layout.token, layout.context.start, layout.reads, layout.reads + 2]
    saved = Saved.of(built)
    place = (*[-1] * (saved.tensors[name].ndim - 1), starts[PART[part]])
    expect("undecided", words, saved.edited(name, place, value), X, Y)


SIZES: list[tuple[str, Any, float, str]] = [
    ("attention.W_O", (0, 0), 2.0**-10, "must not read"),
    ("attention.W_V", "mixed", 2.0**-10, "values are mixed"),
    ("attention.W_O", "mixed", 2.0**-10, "values are mixed"),
    ("head.weight", (0, -1), 2.0**21, "too large or too small"),
    ("head.weight", (0, -1), -(2.0**21), "too large or too small"),
    ("head.weight", (0, -1), 2.0**-41, "too large or too small"),
    ("head.weight", (0, -1), -(2.0**-41), "too large or too small"),
    ("head.bias", 0, np.nan, "not finite"),
    ("attention.W_Q", (0, -1), np.inf, "not finite"),
]


@pytest.mark.parametrize(("name", "place", "value", "words"), SIZES)
def test_sizes_and_mixtures_that_lemmas_r1_to_r4_do_not_cover_are_left_open(
    built: ml.Monolayer, name: str, place: Any, value: float, words: str
) -> None:
    start = built.feed_forward.layout.context.start
    if place == "mixed":
        place = (0, start + 1) if name.endswith("V") else (start, 1)
    expect("undecided", words, Saved.of(built).edited(name, place, value), X, Y)


def test_sizes_are_sums_of_absolute_values(built: ml.Monolayer, tmp_path: Path) -> None:
    """Of numbers of both signs everywhere."""
    random, saved, layout = np.random.default_rng(0), Saved.of(built), built.feed_forward.layout
    context, key, label = layout.context, slice(layout.reads, layout.reads + 2), slice(layout.reads + 2, None)
    t = saved.tensors
    for name in ("lift.weight", "bos", "positions.weight", "attention.W_Q", "attention.W_K", "attention.W_V"):
        t[name] = t[name] * random.choice([-1, 1], t[name].shape).astype(np.float32)
    t["attention.W_O"] = t["attention.W_O"] * random.choice([-1, 1], t["attention.W_O"].shape).astype(np.float32)
    t["lift.weight"][:, label], t["feed_forward.bias_2"][:] = -2.0, -1.5
    t["bos"][label] = -3.0
    for per_token in (True, False):
        gated = read_gates(read_model(saved.write(tmp_path / "m")), per_token)
        rows = t["lift.weight"] if per_token else np.append(t["lift.weight"], t["bos"][None], axis=0)
        assert gated.label_size == pytest.approx(np.abs(rows[:, label]) + 1.5)
        assert gated.label == pytest.approx(rows[:, label] - 1.5)
        assert gated.gain == pytest.approx(
            np.diag(t["attention.W_O"][context]) * np.diag(t["attention.W_V"][:, context])
        )
        keys = np.append(t["bos"][None, key], t["positions.weight"][:, key], axis=0).astype(float)
        query, read_key = (t[f"attention.W_{letter}"][:, key].astype(float) for letter in "QK")
        assert gated.query @ gated.key.T == pytest.approx((keys @ query.T) @ (keys @ read_key.T).T)
        sizes = (np.abs(keys) @ np.abs(query).T) @ (np.abs(keys) @ np.abs(read_key).T).T
        assert gated.scores == pytest.approx(sizes.max())
        assert gated.own.shape == (len(rows), layout.rank)
    large = saved.changed()
    for name, value in (("attention.W_V", 2.0**20), ("attention.W_O", -(2.0**4))):
        large.tensors[name] = np.where(large.tensors[name] != 0, value, 0).astype(np.float32)
    stays = read_model(large.write(tmp_path / "large"))
    read_gates(stays, True)
    for name, place in (("bos", context.start), ("lift.weight", (0, context.start))):
        for value in (2.0**17, -(2.0**17)):
            far = read_model(large.edited(name, place, value).write(tmp_path / "far"))
            with pytest.raises(UnhandledError, match="whose squares might overflow"):
                read_gates(far, True)


def test_a_begin_token_without_positions_has_no_key() -> None:
    plain = ml.memorize([[1, 2], [3, 4]], [[0, 1], [1, 0]], robust=True, rank=16)
    reads = plain.feed_forward.layout.reads
    for slot in (reads, reads + 1):
        saved = Saved.of(plain).edited("bos", slot, -1.0)
        expect("undecided", "must be 0", saved, [[1, 2], [3, 4]], [[0, 1], [1, 0]])


def test_no_printed_share_is_above_the_one_that_was_proved(built: ml.Monolayer) -> None:
    proof = ml.certify(built, X, Y, noise=1e-3 - 1e-12)
    assert "by at most 0.000999999999 of itself" in proof.claim
    assert proof.noise is not None
    for share in (proof.noise, 0.0029996, 1 / 3, 0.0, 2.0**-20):
        said = dict(replace(proof, noise=share).rows())["noise on every weight"]
        assert 0.99 * share <= float(said.split()[2]) <= share


def test_noise_that_pushes_a_neuron_as_far_as_it_can_uses_up_its_bound(built: ml.Monolayer, tmp_path: Path) -> None:
    """Lemma R3: every weight that a neuron depends on moved by all of the noise, with the sign that hurts."""
    stored, eta = read_model(built.save(tmp_path / "m")), 2.0**-10
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


def test_the_largest_noise_is_one_at_which_every_point_is_right(built: ml.Monolayer, tmp_path: Path) -> None:
    def largest(borne: float, more: float, at_least: float = 0.0) -> float:
        """Of two points, one of which bears more noise than the other."""

        def ask(noise: float, known: Any = False) -> SimpleNamespace:
            right = np.array([noise <= borne, noise <= more])
            assert (right >= known).all()
            return SimpleNamespace(right=right)

        asked: Any = SimpleNamespace(ask=ask)
        found = Question.largest(asked, at_least)
        assert Question.largest(asked, at_least, ask(first_noise(at_least)).right) == found
        return found

    for borne in (2.0**-19, 1e-3, 0.01, 0.2):
        assert 0.98 * borne < largest(borne, 0.25) <= borne
        assert 0.98 * borne < largest(0.25, borne) <= borne
    assert 0.24 < largest(1.0, 1.0) <= 0.25
    assert largest(2.0**-21, 1.0) == largest(1.0, 2.0**-21) == 0.0
    assert largest(0.01, 1.0, 0.02) == 0.02
    assert 0.0098 < largest(0.01, 1.0, 0.005) <= 0.01
    stored = read_model(built.save(tmp_path / "m"))
    asked = question_of(stored, labelled(stored, ml.Sequences.of(X, Y)))
    assert asked.ask(0.0).right.all()
    with np.errstate(all="ignore"):  # as in a proof: where noise makes a bound infinite, nothing is right
        for noise in (0.0, 2.0**-12, 2.0**-6, 0.02, 0.05):  # with and without points that are known to be right
            known = asked.ask(noise).right
            borne = known & (np.arange(len(known)) % 3 > 0)
            assert np.array_equal(asked.ask(noise, borne).right, known)
            assert np.array_equal(asked.ask(noise, ~known).right, np.ones_like(known))
    awake = replace(asked, top=np.zeros_like(asked.top)).ask(0.0)
    assert not awake.right.any()
    assert not awake.wrong.any()
    assert (awake.got == -1).all()
    one = np.arange(len(asked.rows)) == 1
    assert np.array_equal(replace(asked, top=np.zeros_like(asked.top)).ask(0.0, one).right, one)
    lost = replace(asked, rows=np.where(np.arange(len(asked.rows)) == 3, -1, asked.rows)).ask(0.0)
    assert lost.right.tolist() == [point != 3 for point in range(len(asked.rows))]


def test_roundings_of_the_checker_itself_are_counted(built: ml.Monolayer, tmp_path: Path) -> None:
    """In binary64 they are as large as those of the evaluation: an answer may be two bounds from ours."""
    stored = read_model(built.save(tmp_path / "m"))
    gated = question_of(stored, labelled(stored, ml.Sequences.of(X, Y))).gated
    shares = Shares.of(0.0, gated, 2, BINARY64)
    m, width = gated.weight_2.shape[1], built.feed_forward.layout.reads
    assert shares.out >= 2 * BINARY64.gamma(m + len(gated.weight_2))
    assert shares.token >= 2 * BINARY64.gamma(width)


# -- the numbers of the lemmas, by loops and by the formulas of docs/proofs.md --------------------------------


@pytest.mark.parametrize("kind", ["places", "causal", "plain", "sequences"])
@pytest.mark.parametrize("at_once", [1, 1 << 21])
def test_neurons_that_may_wake_are_found_with_all_that_their_errors_are_shares_of(
    kind: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lemmas R2 and R3: sums by loops over points, neurons and keys."""
    monkeypatch.setattr("monolayer.checker.gates.GATE_NUMBERS_AT_ONCE", at_once)
    random, causal = np.random.default_rng(4), kind == "causal"
    rows = [random.integers(0, 4, n) for n in (3, 1, 2, 3)]
    labels = random.integers(0, 2, 4) if kind == "sequences" else [random.integers(0, 2, len(row)) for row in rows]
    places = kind in ("places", "causal")
    model = ml.memorize(rows, labels, robust=True, positions=places, causal=causal, rank=8, on_conflict="first")
    saved = Saved.of(model)
    t, shape = saved.tensors, (6, model.feed_forward.layout.reads)  # six neurons of numbers of both signs
    t["feed_forward.weight_1"] = random.normal(size=shape).astype(np.float32) * np.float32(0.5)
    # The first sleeps and the second wakes at every point; the others do both.
    t["feed_forward.bias_1"] = np.array([-40.0, 40.0, -5.0, 0.5, -3.0, -7.0], np.float32)
    t["feed_forward.weight_2"] = random.normal(size=(len(t["feed_forward.bias_2"]), 6)).astype(np.float32)
    saved.config["steps"] = [6]
    if places:  # codes of places of several sizes
        layout = model.feed_forward.layout
        t["positions.weight"][:, layout.token : layout.context.start] *= np.array([[1.0], [0.5], [2.0]], np.float32)
    stored = read_model(saved.write(tmp_path / "m"))
    asked = question_of(stored, labelled(stored, ml.Sequences.of(rows, labels)))
    gated, found = asked.gated, {}
    for number, (point, neuron) in enumerate(zip(asked.found.point.tolist(), asked.found.neuron.tolist(), strict=True)):
        found[point, neuron] = [float(part[number]) for part in asked.found[2:]]
    k, H = gated.own.shape[1], len(gated.bias)
    lengths, most = np.linalg.norm(gated.weight_context, axis=1) * math.sqrt(k), np.zeros((2, H))
    if gated.place.shape[1]:
        most[0] = (gated.weight_place @ gated.place.T).max(axis=1)
        most[1] = (np.abs(gated.weight_place) @ np.abs(gated.place).T).max(axis=1)
    wanted, top, size, point = {}, np.full(H, -np.inf), np.zeros(H), 0
    for row in rows:
        value = np.concatenate([gated.begin[None], gated.own[row]]) * gated.gain
        for at in [0] if kind == "sequences" else range(1, len(row) + 1):
            seen = at + 1 if causal else len(value)
            logits = gated.query[at] @ gated.key[:seen].T if places else np.zeros(seen)
            a = np.exp(logits) / np.exp(logits).sum()
            own = len(gated.own) - 1 if kind == "sequences" else row[at - 1]
            z, sizes = gated.own[own] + a @ value[:seen], np.abs(gated.own[own]) + a @ np.abs(value[:seen])
            length = math.sqrt((z**2).sum() + k * EPSILON)
            spread = a @ (value[:seen] ** 2).sum(axis=1) - ((a @ value[:seen]) ** 2).sum()
            place = gated.place[at - 1] if len(gated.place) else np.zeros(gated.weight_place.shape[1])
            for j in range(H):
                terms = np.append(gated.token[own] * gated.weight_token[j], gated.bias[j])
                if terms.sum() + most[0, j] + lengths[j] <= AWAKE:
                    top[j] = max(top[j], terms.sum() + most[0, j] + lengths[j])
                    size[j] = max(size[j], np.abs(terms).sum() + most[1, j] + lengths[j])
                    continue
                w, unit = gated.weight_context[j], z / length
                across, terms = w - (w @ unit) * unit, np.append(terms, place * gated.weight_place[j])
                height = value[:seen] @ across
                wanted[point, j] = [
                    terms.sum() + w @ unit * math.sqrt(k),
                    np.abs(terms).sum(),
                    np.abs(w * unit).sum() * math.sqrt(k),
                    np.abs(across) @ sizes * math.sqrt(k) / length,
                    a @ np.abs(height - a @ height) * math.sqrt(k) / length,
                    abs(w @ unit) * math.sqrt(k),
                    np.linalg.norm(sizes) / length,
                    math.sqrt(spread) / length,
                ]
            point += 1
    assert found.keys() == wanted.keys()
    assert point <= len(found) <= 5 * point
    pairs = np.array([found[pair] for pair in wanted]), np.array([*wanted.values()])
    assert pairs[0] == pytest.approx(pairs[1], rel=1e-6, abs=1e-9)
    assert (pairs[0][:, -1] >= pairs[1][:, -1]).all(), "with the rounding of two numbers that nearly cancel"
    assert asked.longest == max(map(len, rows))
    assert asked.top == pytest.approx(top)
    assert (asked.size >= size - 1e-9).all()
    assert (asked.size <= np.maximum(size, np.abs(gated.bias) + most[1] + lengths) + 1e-9).all()


def above(bound: Any, lemma: Any) -> bool:
    """What the lemma says, the roundings of the bound itself, and no more."""
    return bool((lemma * (1 + 2.0**-21) <= bound).all() and (bound <= lemma * (1 + 2.0**-15)).all())


@pytest.mark.parametrize("fmt", [BINARY32, BINARY64])
@pytest.mark.parametrize(("noise", "scores"), [(0.0, 0.0), (0.0, 4.0), (2.0**-30, 0.5), (0.125, 0.25)])
def test_shares_are_those_of_lemma_r1(noise: float, scores: float, fmt: Any) -> None:
    t, p, k, m, H, n = 3, 2, 5, 4, 7, 11
    shapes = {"weight_token": (H, t), "weight_place": (H, p), "weight_context": (H, k), "weight_2": (H, m)}
    gated: Any = SimpleNamespace(scores=scores, **{name: np.zeros(shape) for name, shape in shapes.items()})

    def share(weights: int, roundings: int) -> Any:
        exact = (1 + Fraction(noise)) ** weights / (1 - roundings * Fraction(fmt.unit)) - 1
        return np.array(float(exact + Fraction(BINARY64.gamma(2.0 * roundings))))

    u, g = fmt.unit + BINARY64.unit, EXP_ULPS
    D = scores * share(4, 16) + 8 * u * (1 + scores) + 4 * g * u
    found = Shares.of(noise, gated, n, fmt)
    wanted = {
        "token": share(2, t + p + k + 10),
        "value": share(3, 2 * (n + 1) + 18 + 2 * g) * np.exp(2 * D),
        "read": share(1, t + p + k + k + 16 + 2 * g),
        "sway": np.exp(D) * np.expm1(D),
        "out": share(2, m + H + 10),
    }
    for name, lemma in wanted.items():
        assert above(getattr(found, name), lemma), name
    gated.scores = np.nextafter(LARGEST_SCORE, np.inf)
    with pytest.raises(UnhandledError, match="scores reach"):
        Shares.of(noise, gated, n, fmt)


PARTS = [f for f in Pairs._fields if f not in ("point", "neuron")]


@pytest.mark.parametrize("shares", [(0.01, 0.02, 0.03, 0.04, 0.05), (0, 0.1, 0, 0, 0), (0, 0, 0, 0.1, 0), (0,) * 5])
def test_the_error_of_a_neuron_is_that_of_lemma_r3(shares: tuple[float, ...]) -> None:
    random, each = np.random.default_rng(0), Shares(*shares)
    w = np.array([[0.0, 0.0], [3.0, -4.0], [0.5, 0.25]])
    numbers = dict(zip(PARTS, random.uniform(0.5, 2.0, (len(PARTS), 9)), strict=True))
    found = Pairs(np.arange(9), np.arange(9) % 3, **numbers)
    rho = each.value * found.turn + each.sway * found.sway
    across = (each.value * found.across + each.sway * found.mixed) / (1 - rho)
    along = found.along * (1 - np.sqrt(1 - rho**2))
    length = np.linalg.norm(w, axis=1)[found.neuron] * math.sqrt(2)
    read = each.read * (found.context + 2 * rho / (1 - rho) * length)
    lemma = each.token * found.token + across + along + read + 2.0**-50 * (2 + 8) * length
    error = errors(found, SimpleNamespace(weight_context=w), each)  # type: ignore[arg-type]
    assert above(error[length > 0], (lemma + ROBUST_UNDERFLOW)[length > 0])
    assert (error >= ROBUST_UNDERFLOW).all()
    half = found._replace(turn=np.full(9, 5.0), sway=np.zeros(9))
    far = errors(half, SimpleNamespace(weight_context=w), replace(each, value=0.1))  # type: ignore[arg-type]
    assert (far == np.inf).all(), "a context that may turn about"


@pytest.mark.parametrize(("top", "size", "token", "read", "sleeps"), [
    (-0.5, 1.0, 0.4999, 0.0, True), (-0.5, 1.0, 0.0, 0.4999, True), (-0.5, 1.0, 0.5, 0.0, False),
    (-0.5, 1.0, 0.0, 0.5, False), (-0.5, 2.0, 0.25, 0.2, False), (-(2.0**-59), 0.0, 0.0, 0.0, True),
    (-(2.0**-60), 0.0, 0.0, 0.0, False), (-np.inf, 1.0, 0.1, 0.1, True),
])  # fmt: skip
def test_neurons_out_of_sight_sleep_if_lemma_r2_says_so(
    top: float, size: float, token: float, read: float, sleeps: bool
) -> None:
    shares = Shares(token, 0.0, read, 0.0, 0.0)
    assert silent(np.array([-9.0, top]), np.array([1e-3, size]), shares) == sleeps
    assert silent(np.array([top, -9.0]), np.array([size, 1e-3]), shares) == sleeps


@pytest.mark.parametrize(("several", "out"), [(0, 0.01), (1, 0.01), (3, 0.01), (1, 0.0), (3, 0.0)])
@pytest.mark.parametrize("seed", range(3))
def test_an_answer_is_sure_exactly_where_lemma_r4_says_so(seed: int, out: float, several: int) -> None:
    """The least difference of two logits, over all ends of the intervals, is brought to 0 by the bias of a class."""
    random = np.random.default_rng(seed)
    C, m, H, shares = 3, 2, 4, Shares(0.0, 0.0, 0.0, 0.0, out)
    label, label_size = random.normal(size=(1, m)), random.uniform(2, 3, (1, m))
    part = {
        "head": random.normal(size=(C, m)),
        "weight_2": random.normal(size=(H, m)),
        "head_bias": random.normal(size=C),
    }
    part["head_bias"][0] = 0.0
    neuron, value = np.arange(several), random.uniform(-0.2, 2.0, several)
    error = random.uniform(0.1, 0.5, several)
    low, high = np.maximum(value - error, 0), np.maximum(value + error, 0)
    sizes = (label_size[0] + high @ np.abs(part["weight_2"][neuron])) @ np.abs(part["head"]).T + np.abs(
        part["head_bias"]
    )
    ends = [
        (label[0] + np.array(h) @ part["weight_2"][neuron]) @ part["head"].T
        for h in product(*zip(low, high, strict=True))
    ]
    logits = np.array(ends) + part["head_bias"]

    def asked(bias: float) -> tuple[bool, bool, int]:
        """Class 0 with this bias more."""
        new = {**part, "head_bias": part["head_bias"] + [bias, 0, 0]}
        gated: Any = SimpleNamespace(label=label, label_size=label_size, **new)
        found = Pairs(np.zeros(several, int), neuron, value, *np.zeros((len(PARTS) - 1, several)))
        said = point_verdicts(found, error, gated, np.array([0]), np.array([0]), shares)
        assert said.wrong[0] or said.got[0] == -1, "no class is known where none is sure"
        return bool(said.right[0]), bool(said.wrong[0]), int(said.got[0])

    def room(bias: float, c: int) -> float:
        return shares.out * (sizes[0] + abs(bias) + sizes[c])

    def flips(f: Callable[[float], float]) -> float:
        """Where a rising function is 0."""
        left, right = -100.0, 100.0
        for _ in range(200):
            middle = (left + right) / 2
            left, right = (left, middle) if f(middle) > 0 else (middle, right)
        return right

    worst = flips(lambda b: min((logits[:, 0] + b - logits[:, c]).min() - room(b, c) for c in (1, 2)))
    best = flips(lambda b: min((logits[:, 0] + b - logits[:, c]).max() + room(b, c) for c in (1, 2)))
    less, padded = 1e-4, 1e-8 if several else -1e-4
    assert not asked(worst + padded)[0], "with what the bound itself rounds"
    assert not asked(best - padded)[1]
    assert asked(worst + less)[:2] == (True, False)
    assert asked(worst - less)[:2] == asked(best + less)[:2] == (False, False)
    assert asked(best - less)[:2] == (False, True)
    likely = asked(best - 50.0)[2]
    assert likely == 1 + int(np.argmin([(logits[:, 0] - logits[:, c]).max() + room(50.0, c) for c in (1, 2)]))


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


def test_the_length_of_a_context_has_room_for_every_coordinate() -> None:
    """`norm` is at least the length of a context, and of one whose coordinates are all below what is seen."""
    random = np.random.default_rng(0)
    k, rows = 7, np.array([[0, 2], [1, 1], [3, 0]])
    gated: Any = SimpleNamespace(begin=random.normal(size=k), own=random.normal(size=(4, k)), gain=3.0)
    gated.own[3] = -gated.gain * gated.begin  # with all weight on the begin token, this context is exactly 0
    weights = np.array([[1.0, 0.0, 0.0]])
    found = _contexts(gated, RowSequences(rows, rows[:, :1], np.zeros((3, 1), np.int64), weights))
    plain = np.sqrt((found.z**2).sum(axis=-1) + k * EPSILON)
    assert not found.z[2].any()
    assert found.norm == pytest.approx(plain, rel=1e-12, abs=0.0)
    assert found.norm[2, 0] == pytest.approx(np.sqrt(k * EPSILON), rel=1e-12, abs=0.0)


def test_errors_of_a_neuron_are_those_of_lemma_r3_up_to_a_turn_of_a_half() -> None:
    """With one neuron `|w| = 5` of rank 2, and noise that turns the context far."""
    gated: Any = SimpleNamespace(weight_context=np.array([[3.0, -4.0]]))
    shares = Shares(token=0.01, value=0.02, read=0.03, sway=0.04, out=0.05)
    zero = np.zeros(1, np.int64)
    for turn in (0.0, 0.2, 0.3, 0.49, 0.51, 3.0):
        sizes = {"token": 7.0, "context": 11.0, "across": 13.0, "mixed": 17.0, "along": 19.0}
        pair = Pairs(zero, zero, np.zeros(1), **{name: np.array([size]) for name, size in sizes.items()},
                     turn=np.array([turn / 0.04]), sway=np.array([turn / 0.08]))  # fmt: skip
        found = float(errors(pair, gated, shares)[0])
        if turn > 0.5:
            assert found == math.inf
            continue
        length = 5.0 * math.sqrt(2.0)
        across = (0.02 * 13.0 + 0.04 * 17.0) / (1.0 - turn)
        along = 19.0 * (1.0 - math.sqrt(1.0 - turn**2))
        read = 0.03 * (11.0 + 2.0 * turn / (1.0 - turn) * length)
        lemma = 0.01 * 7.0 + across + along + read + 2.0**-50 * 10 * length
        assert lemma <= found <= lemma * (1.0 + 2.0**-16)


def test_a_neuron_at_the_very_limit_is_among_those_that_are_not_looked_at() -> None:
    """Rows at which one neuron has its limit, a little more, a little less; a row of NaN; and one that is not asked."""
    values = [AWAKE, AWAKE + 2.0**-20, AWAKE - 1.0, math.nan, 5.0]
    gated: Any = SimpleNamespace(
        own=np.zeros((5, 1)), weight_context=np.zeros((1, 1)), place=np.zeros((0, 0)), token=np.array(values)[:, None],
        weight_token=np.ones((1, 1)), bias=np.zeros(1),
    )  # fmt: skip
    found = live(gated, np.array([True, True, True, True, False]))
    assert found.top.tolist() == [AWAKE]
    assert found.start.tolist() == [0, 0, 1, 1, 1, 1]
    assert found.size.tolist() == [1.5]
