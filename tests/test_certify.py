"""The checker: what it proves, what it leaves open, and how it names what is wrong; independent of the builder.

That nothing is proved which some evaluation contradicts is test_attack.py's question.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker import Certificate, data_digest
from monolayer.checker.labelled import Labelled, _model_rows
from monolayer.checker.line import Part, _joined_parts
from monolayer.data import Names, Sequences
from monolayer.data.labelling import TOKEN
from monolayer.errors import DataError, ModelFileError
from monolayer.saved.certify import certify, certify_files
from tests.adversary import relabelled
from tests.evil import TOLERANCE, Evil, errs, evaluate
from tests.stored_models import CODE, KEY, LABEL, ONE, Case, Saved, random_case
from tests.verdicts import UNSURE, expect

pytestmark = pytest.mark.usefixtures("bounds_alone")

PLAIN = {"tokens": "ids", "positions": False, "causal": False, "per": "token", "readout": "exact", "target": "classes"}


def judge(verdict: str, words: str, case: Case, changed: Any = None) -> Certificate:
    """The certificate of a case, or of its data with a changed model, after a look at verdict and reason."""
    return expect(verdict, words, changed or case.saved, case.X, case.Y, tolerance=TOLERANCE)


# -- proofs --------------------------------------------------------------------------------------------


def test_models_without_fault_are_proved_and_every_evaluation_agrees(tmp_path: Path) -> None:
    kinds: Counter[str] = Counter()
    short = {"dtype": "float32", "target": "classes", "readout": "exact", "count": 2, "longest": 3, "vocabulary": 4}
    for seed in range(34):
        case = random_case(seed) if seed < 28 else random_case(seed, **short)
        folder = case.saved.write(tmp_path / str(seed))
        proof = judge("proved", "", case, folder)
        assert proof.wrong == proof.unsure == 0
        assert proof.margin is None or proof.margin > 1
        assert ("binary32" in proof.assumptions[0]) == (seed >= 28)
        rng = np.random.default_rng(seed)
        assert not any(errs(case, Evil.draw(rng)) for _ in range(3))
        config = case.saved.config
        kinds.update(f"{key} {config[key]}" for key in ("tokens", "positions", "causal", "per", "readout", "target"))
        exact = config["readout"] == "runs" or (config["readout"] == "exact" and config["target"] == "classes")
        assert proof.label_error is not None
        assert (proof.label_error == 0) == exact
        if config["target"] == "classes" and config["tokens"] == "ids":
            said = ml.load(folder).predict(case.X, path="dense")  # PyTorch
            assert [np.asarray(row).tolist() for row in said] == case.Y
    assert len(kinds) == 12
    assert min(kinds.values()) > 2


def test_next_token_models() -> None:
    case = random_case(1, **PLAIN | {"positions": True, "causal": True}, next_token=True, vocabulary=5,
                       classes=5, count=1, longest=8)  # fmt: skip
    assert judge("proved", "", case).points == len(case.X[0]) - 1
    last = [*case.X[0][:-1], (case.X[0][-1] + 1) % 5]
    proof = expect("refuted", "", case.saved, [last])
    assert (proof.wrong, proof.findings[0].position) == (1, len(last) - 2)


# -- weights that the proof does not cover ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("attention.W_Q", (KEY, KEY), 0.5, "W_Q must have one nonzero entry"),
        ("attention.W_Q", (KEY, ONE), np.nan, "W_Q must have one nonzero entry"),
        ("attention.W_Q", (KEY, ONE), 1e4, "scores reach"),
        ("attention.W_K", (KEY, KEY), 0.0, "W_K must have one nonzero entry"),
        ("attention.W_K", slice(None), np.eye(4)[[KEY, ONE, ONE, ONE]] * [0, 1, 0, 0], "attention must read"),
        ("attention.W_V", (ONE, ONE), 1.0, "W_V must have one nonzero entry"),
        ("attention.W_O", (slice(None), slice(None)), np.eye(4)[[LABEL, ONE, CODE, KEY]] * 0.1, "W_O must have one"),
        ("attention.W_O", (slice(None), slice(None)), np.diag([0, 0, 0, 1.0]), "write onto `code`"),
        ("bos", ONE, 2.0, "bos must be finite"),
        ("bos", KEY, np.inf, "bos must be finite"),
        ("bos", LABEL, 1.0, "bos must be finite"),
        ("lift.weight", (0, LABEL), 1.0, "lift.weight must be finite"),
        ("lift.weight", (0, ONE), 0.5, "lift.weight must be finite"),
        ("lift.weight", (0, CODE), 1e60, "codes go beyond"),
        ("feed_forward.stages.0.weight_1", 0, 0.0, "weight_1 goes outside"),
        ("feed_forward.stages.0.weight_1", 0, np.nan, "weight_1 goes outside"),
        ("feed_forward.stages.0.bias_1", 0, np.inf, "bias_1 goes outside"),
        ("feed_forward.stages.0.weight_1", 0, -1.0, "must rise, and stand in order"),
        (
            "feed_forward.stages.0.bias_1",
            slice(None),
            lambda bias: np.arange(float(len(bias))),
            "must rise, and stand in order",
        ),
        ("feed_forward.stages.0.weight_2", (0, 0), 5e-324, "weight_2 or bias_2 goes outside"),
        ("feed_forward.stages.0.weight_2", (0, 0), 0.1, "sums of what feed_forward.stages.0 writes may round"),
        ("feed_forward.stages.0.bias_2", 0, np.nan, "weight_2 or bias_2 goes outside"),
        ("head.weight", (0, CODE), 1.0, "label slot alone"),
        ("head.weight", slice(None), lambda head: head[::-1].copy(), "2 j y − j²"),
        ("head.bias", 0, np.nan, "label slot alone"),
    ],
)
def test_weights_that_the_proof_does_not_cover_are_left_undecided(
    name: str, place: Any, value: Any, words: str
) -> None:
    case = random_case(4, **PLAIN)
    value = value(case.saved.tensors[name]) if callable(value) else value
    assert not judge("undecided", words, case, case.saved.edited(name, place, value))


def test_a_query_of_zeros_averages() -> None:
    """Keys 1 and 0, whose softmax at `q = 1` is not their mean, and a step between what the two would write."""
    case = two_classes(codes=(0.0, 0.0))
    case.saved.tensors["bos"][KEY], case.saved.tensors["lift.weight"][:2, KEY] = 0.0, [1.0, 0.0]
    saved = case.saved.changed(
        feed_forward__stages__0__weight_1=np.array([64.0]), feed_forward__stages__0__bias_1=np.array([-32.0])
    )
    saved.tensors["attention.W_Q"][:] = 0.0
    X = [[0, 0, 0], [0, 1, 1]]  # means 3/4 and 1/4; with weights e and 1 they would be 0.89 and 0.47
    expect("proved", "", saved, X, [[1, 1, 1], [0, 0, 0]])
    near = saved.changed(feed_forward__stages__0__bias_1=np.array([-64 * 0.8]))
    expect("proved", "", near, X, [[0, 0, 0], [0, 0, 0]])
    expect("refuted", "", near, X, [[1, 1, 1], [0, 0, 0]])


def test_slopes_that_are_no_powers_of_two_are_judged_by_what_they_do_and_heads_of_reals_must_copy() -> None:
    case = random_case(4, **PLAIN)
    w, b = (case.saved.tensors[f"feed_forward.stages.0.{name}"] for name in ("weight_1", "bias_1"))
    odd = replace(
        case,
        saved=case.saved.changed(feed_forward__stages__0__weight_1=w * 1.1, feed_forward__stages__0__bias_1=b * 1.1),
    )
    judge("proved", "", odd)
    assert not errs(odd, Evil.draw(np.random.default_rng(0)))
    reals = random_case(4, **PLAIN | {"target": "reals"})
    judge("undecided", "copy", reals, reals.saved.changed(head__weight=2 * reals.saved.tensors["head.weight"]))


def test_points_between_two_classes_are_unsure() -> None:
    case = random_case(4, **PLAIN)
    last = case.saved.tensors["feed_forward.stages.0.bias_2"]
    proof = judge("undecided", UNSURE, case, case.saved.changed(feed_forward__stages__0__bias_2=last + 0.5))
    assert (proof.findings[0].kind, proof.findings[0].got, proof.unsure > 0) == ("unsure", None, True)


# -- models that some allowed evaluation, or PyTorch, answers wrongly -----------------------------------


def two_classes(dtype: str = "float64", codes: tuple[float, float] = (0.0, 1.0)) -> Case:
    """Two ids, one step between their codes; a third row of the vocabulary does not occur."""
    tensors = {f"attention.W_{letter}": np.zeros((4, 4)) for letter in "QKVO"}
    for letter, place in (("Q", (KEY, ONE)), ("K", (KEY, KEY)), ("V", (KEY, KEY)), ("O", (CODE, KEY))):
        tensors[f"attention.W_{letter}"][place] = 1
    tensors |= {"bos": np.array([1, 2.0**-70, 0, 0])}
    tensors |= {"lift.weight": np.array([[1, 2.0**-70, codes[0], 0], [1, -(2.0**-71), codes[1], 0], [1, 0, 9, 0]])}
    tensors |= {"head.weight": np.array([[0, 0, 0, 0], [0, 0, 0, 2.0]]), "head.bias": np.array([0, -1.0])}
    tensors |= {"feed_forward.stages.0.weight_1": np.array([4.0]), "feed_forward.stages.0.bias_1": np.array([-1.0])}
    tensors |= {"feed_forward.stages.0.weight_2": np.array([[-1.0]]), "feed_forward.stages.0.bias_2": np.array([1.0])}
    config = random_case(4, **PLAIN).saved.config | {"dtype": dtype, "steps": [1], "grid": None}
    config |= {"vocabulary": {"range": 3}, "classes": {"range": 2}}
    return Case([[0, 1], [1, 1]], [[0, 1], [1, 1]], Saved(config, {k: v.astype(dtype) for k, v in tensors.items()}))


def test_the_class_that_a_point_gets_is_named() -> None:
    case = two_classes()
    proof = expect("refuted", "", case.saved, case.X, [[1, 0], [0, 0]])
    assert [(finding.expected, finding.got) for finding in proof.findings] == [(1, 0), (0, 1), (0, 1), (0, 1)]


def test_a_key_that_the_data_lack_may_still_shift_the_softmax(tmp_path: Path) -> None:
    """An evaluation may take the largest score of the whole table off: with one of 2,000 all others underflow."""
    case = two_classes()
    judge("proved", "", case)
    for key in (2000.0, -2000.0, np.inf):
        folder = case.saved.edited("lift.weight", (2, KEY), key).write(tmp_path / str(key))
        judge("undecided", "scores reach", case, folder)
        assert ml.load(folder).predict(case.X)[0].tolist() == [0, 1]  # ours looks at rows in use


def test_the_key_of_the_begin_token_shifts_scores_too() -> None:
    """Without a shift, `exp` of a score of 1,000 overflows; of ids and vectors alike."""
    case, lift = two_classes(), np.array([[0.0], [0.0], [1.0], [0.0]])
    vectors = case.saved.changed(lift__weight=lift, lift__bias=np.array([1.0, 0, 0, 0]))
    vectors.config |= {"tokens": "vectors", "vocabulary": None}
    for saved, X in ((case.saved, case.X), (vectors, [[[0.0], [1.0]], [[1.0], [1.0]]])):
        expect("proved", "", saved, X, case.Y)
        for key in (1000.0, -1000.0):  # the least score of a head with `q < 0` is its largest
            expect("undecided", "scores reach", saved.edited("bos", KEY, key), X, case.Y)


@pytest.mark.parametrize("slot", [ONE, LABEL])
@pytest.mark.parametrize("name", ["positions.weight", "lift.weight", "lift.bias"])
def test_neither_places_nor_vectors_write_to_labels_or_to_the_query(name: str, slot: int) -> None:
    """A label slot that is not 0 is added to every answer; a query that is not 1 is another temperature."""
    case, lift = two_classes(), np.array([[0.0], [0.0], [1.0], [0.0]])
    vectors = case.saved.changed(lift__weight=lift, lift__bias=np.array([1.0, 0, 0, 0]))
    vectors.config |= {"tokens": "vectors", "vocabulary": None, "positions": True}
    vectors.tensors["positions.weight"] = np.zeros((2, 4))
    X: Any = [[[0.0], [1.0]], [[1.0], [1.0]]]
    expect("proved", "", vectors, X, case.Y)
    place = {"positions.weight": (1, slot), "lift.weight": (slot, 0), "lift.bias": (slot,)}[name]
    for value in (0.25, -0.25, np.nan):
        expect("undecided", f"{name} must be finite", vectors.edited(name, place, value), X, case.Y)


def test_places_shift_scores_too() -> None:
    """Keys are sums of a token's and a place's; with a score of 2,000 and no shift `exp` overflows."""
    case = two_classes()
    case.saved.config["positions"] = True
    for key, verdict in ((0.5, "proved"), (-0.5, "proved"), (2000.0, "undecided"), (-2000.0, "undecided")):
        words = "scores reach" if verdict == "undecided" else ""
        judge(verdict, words, case, case.saved.changed(positions__weight=np.array([[0] * 4, [0, key, 0, 0]])))


def test_a_line_in_float16_is_not_covered() -> None:
    judge("undecided", "covered in float64 and float32", two_classes("float16"))


def test_a_ramp_below_the_rounding_of_its_place_is_left_to_nobody(tmp_path: Path) -> None:
    """At `z = 1` the neuron `2^60 z − 2^60` rests, but a search for `1 + 2^-60` would find `1` and pass it."""
    case = two_classes(codes=(1.0, 1.5))
    case.saved = case.saved.edited("feed_forward.stages.0.weight_1", 0, 2.0**60).edited(
        "feed_forward.stages.0.bias_1", 0, -(2.0**60)
    )
    model = ml.load(case.saved.write(tmp_path / "at"))
    judge("undecided", UNSURE, case)
    assert model.feed_forward.stages[0].steps() is None, "the shortcut refuses what it cannot tell from a point"
    assert [model.predict(case.X, path=path)[0].tolist() for path in ("dense", "auto")] == [[0, 1], [0, 1]]
    below = case.saved.edited("lift.weight", (0, CODE), 1 - 2.0**-40)
    judge("proved", "", case, below)
    assert ml.load(below.write(tmp_path / "below")).predict(case.X)[0].tolist() == [0, 1]


def test_logits_of_many_classes_round_to_a_tie() -> None:
    """Of 4,096 classes in float32, 2,048 is nearest to 2,048.375 by more than rounding says."""
    case, number = two_classes("float32"), np.arange(4096, dtype=np.float32)
    case.saved.tensors |= {"head.weight": 2 * number[:, None] * np.eye(4, dtype=np.float32)[[LABEL]]}
    case.saved.tensors |= {
        "head.bias": -number * number,
        "feed_forward.stages.0.bias_2": np.array([2048.375], np.float32),
    }
    case.saved.tensors["feed_forward.stages.0.weight_2"] *= 0
    case.saved.config["classes"] = {"range": 4096}
    case.Y = [[2048, 2048], [2048, 2048]]
    logits = np.sort(evaluate(case.saved, case.X[0], Evil.plain(np.random.default_rng(0)))[1][1])
    assert logits[-1] == logits[-2]
    judge("undecided", UNSURE, case)
    near = case.saved.edited("feed_forward.stages.0.bias_2", 0, 2048 + 2.0**-12)
    assert "would be proved" not in judge("undecided", UNSURE, case, near).reason, "no tolerance would help a class"


def test_a_wide_ramp_may_end_behind_a_narrow_one_that_begins_later() -> None:
    """The steps stand in order; at `z = 1` the second is passed, and the first returns 0.625."""
    case = two_classes()
    steps = {"weight_1": np.array([0.5, 4.0]), "bias_1": np.array([-0.125, -1.0])}
    steps |= {"weight_2": np.array([[-1.0, -1.0]]), "bias_2": np.array([2.0])}
    case.saved.tensors |= {f"feed_forward.stages.0.{name}": value for name, value in steps.items()}
    case.saved.tensors |= {"head.weight": np.diag([0, 2.0, 4.0]) @ np.eye(4)[[LABEL] * 3]}
    case.saved.tensors["head.bias"] = np.array([0, -1.0, -4.0])
    case.saved.config |= {"steps": [2], "classes": {"range": 3}}
    case.Y = [[0, 2], [2, 2]]
    assert errs(case, Evil.plain(np.random.default_rng(0)))
    judge("undecided", UNSURE, case)


def test_a_masked_token_without_a_vector_spoils_a_dense_product(tmp_path: Path) -> None:
    case = two_classes()
    saved = case.saved.edited("lift.weight", 2, np.nan)
    saved.config |= {"causal": True, "next_token": True, "classes": {"range": 3}}
    saved.tensors |= {"head.weight": np.eye(4)[[LABEL] * 3] * [[0], [2], [4]], "head.bias": np.array([0, -1.0, -4.0])}
    saved.tensors["feed_forward.stages.0.weight_2"], saved.tensors["feed_forward.stages.0.bias_2"] = (
        np.array([[-2.0]]),
        np.array([2.0]),
    )
    saved.tensors["bos"][CODE] = 1.0
    folder = saved.write(tmp_path / "model")
    assert "0 times NaN" in expect("undecided", UNSURE, folder, [[1, 2]]).findings[0].why
    assert ml.locate(folder, [[1, 2]])[0].verdict == "unknown"
    model = ml.load(folder)
    with torch.no_grad():
        Z = model.attention(*model.stream(torch.tensor([[1, 2]])))  # what the parts themselves make of it
    assert Z[:, 1].isnan().any()


@pytest.mark.parametrize(("weight", "x"), [(1e-310, 1e308), (1e308, 1e-309)])
def test_subnormal_operands_may_be_flushed(weight: float, x: float) -> None:
    case = two_classes()
    lift = np.zeros((4, 2))
    lift[CODE] = weight, 1.0
    saved = case.saved.changed(lift__weight=lift, lift__bias=np.array([1.0, 0, 0, 0]))
    saved.config |= {"tokens": "vectors", "vocabulary": None}
    step = 2.0 ** np.ceil(np.log2(4 / (weight * x)))
    saved.tensors["feed_forward.stages.0.weight_1"] = np.array([step])
    words = "lift.weight holds a subnormal number" if weight < 1.0 else UNSURE
    expect("undecided", words, saved, [[[x, 0.0], [0.0, 0.0]]], [[1, 0]])
    fair, data = saved.changed(lift__weight=np.sign(lift)), ([[[weight * x, 0.0], [0.0, 0.0]]], [[1, 0]])
    expect("proved", "", fair, *data)
    expect("undecided", "subnormal", fair.changed(attention__W_O=fair.tensors["attention.W_O"] * 1e-310), *data)


def test_keys_whose_terms_cancel_depend_on_the_order_of_their_sum() -> None:
    """`2^48 + 2^-6 − 2^48` is `2^-6` or 0, and a step stands between what these make of the context."""
    lift = np.zeros((4, 3))
    lift[KEY] = 1.0
    saved = two_classes().saved.changed(lift__weight=lift, lift__bias=np.array([1.0, 0, 0, 0]))
    saved.config |= {"tokens": "vectors", "vocabulary": None}
    saved.tensors |= {"bos": np.array([1.0, 0, 0, 0]), "feed_forward.stages.0.weight_1": np.array([2.0**9])}
    X, rng = [[[2.0**48, 2.0**-6, -(2.0**48)]]], np.random.default_rng(0)
    assert {int(evaluate(saved, X[0], Evil.draw(rng))[1][1].argmax()) for _ in range(20)} == {0, 1}
    for label in (0, 1):
        expect("undecided", UNSURE, saved, X, [[label]])
    expect("proved", "", saved, [[[2.0**-6, 0.0, 0.0]]], [[1]])


@pytest.mark.parametrize(("slot", "huge"), [(KEY, 2.0**130), (CODE, 2.0**130), (CODE, -(2.0**130))])
def test_sums_of_vectors_must_not_overflow_on_the_way(slot: int, huge: float) -> None:
    """Terms that cancel, in one order at least, are as large as they are."""
    lift = np.zeros((4, 3))
    lift[slot, :2], lift[CODE, 2] = huge, 1.0
    saved = two_classes().saved.changed(lift__weight=lift, lift__bias=np.array([1.0, 0, 0, 0]))
    saved.config |= {"tokens": "vectors", "vocabulary": None}
    expect("proved", "", saved, [[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]], [[1, 0]])
    expect("undecided", "keys or codes go beyond", saved, [[[1.0, -1.0, 1.0], [0.0, 0.0, 0.0]]], [[1, 0]])


# -- data that do not fit ------------------------------------------------------------------------------


def named_case() -> tuple[Saved, list[list[str]], list[list[str]]]:
    """Tokens and classes with names, in tables that the data alone would number otherwise."""
    case = random_case(4, **PLAIN)
    V, C = case.saved.config["vocabulary"]["range"], case.saved.config["classes"]["range"]
    saved = case.saved.changed()
    saved.names = {"vocabulary": [f"w{V - i}" for i in range(V)], "classes": [f"c{C - i}" for i in range(C)]}
    saved.config |= {"vocabulary": {"names": "vocabulary"}, "classes": {"names": "classes"}}
    assert case.Y is not None
    X = [[saved.names["vocabulary"][t] for t in x] for x in case.X]
    return saved, X, [[saved.names["classes"][c] for c in y] for y in case.Y]


def test_names_are_translated_and_strangers_are_named() -> None:
    saved, X, Y = named_case()
    expect("proved", "", saved, X, Y)
    expect("proved", "", saved, Sequences.of(X, Y))
    proof = expect("refuted", "", saved, [["stranger", *X[0][1:]], *X[1:]], Y)
    assert (proof.findings[0].token, proof.findings[0].got) == ("stranger", None)
    assert proof.wrong >= len(X[0])
    assert "token 0 ('stranger') of sequence 0: got None" in proof.explain()
    wrong = next(name for name in saved.names["classes"] if name != Y[1][0])
    for name, got, why in (
        ("no such class", Y[1][0], "the model has no such class"),
        (wrong, Y[1][0], "according to the stored"),
    ):
        proof = expect("refuted", "", saved, X, [Y[0], [name, *Y[1][1:]], *Y[2:]])
        assert (proof.wrong, proof.unsure) == (1, 0)
        found = proof.findings[0]
        assert (found.sequence, found.position, found.token, found.expected, found.got) == (1, 0, X[1][0], name, got)
        assert found.why.startswith(why)
    proof = expect("refuted", "", saved, X, [["no such class"] * len(y) for y in Y])
    assert proof.wrong == sum(map(len, Y))
    assert len(proof.findings) == min(10, proof.wrong)
    places = [(i, k) for i, y in enumerate(Y) for k in range(len(y))]
    assert [(f.sequence, f.position) for f in proof.findings] == places[:10]


def test_a_sequence_beyond_the_positions_is_refuted() -> None:
    case = random_case(4, **PLAIN | {"positions": True})
    assert case.Y is not None
    longest = max(map(len, case.X))
    for length in (longest + 1, longest + 3):
        X, Y = [*case.X, [case.X[0][0]] * length], [*case.Y, [0] * length]
        assert {found.sequence for found in expect("refuted", "", case.saved, X, Y).findings} == {len(case.X)}


def test_data_of_another_kind_are_an_error(tmp_path: Path) -> None:
    case, vectors = random_case(4, **PLAIN), random_case(4, **PLAIN | {"tokens": "vectors"})
    folder = case.saved.write(tmp_path / "m")
    for model, X, Y, words in (
        (folder, case.X, None, "give Y"),
        (folder, case.X, [0] * len(case.X), "one per sequence"),
        (folder, case.X, [[0.5] * len(x) for x in case.X], "labels are reals"),
        (folder, [[[0.5, 0.1]] * len(x) for x in case.X], case.Y, "hold vectors"),
        (vectors.saved.write(tmp_path / "v"), case.X, case.Y, "vectors of 3 numbers"),
    ):
        with pytest.raises(DataError, match=words):
            certify(model, X, Y)


def test_real_labels_have_a_stated_error() -> None:
    case = random_case(6, **PLAIN | {"target": "reals"})
    expect("refuted", "", case.saved, case.X, case.Y)  # labels were rounded to 2^-20: far more than 2^-50
    proof = expect("proved", "", case.saved, case.X, case.Y, tolerance=2.0**-20)
    assert proof.label_error is not None
    assert 2.0**-26 < proof.label_error <= 2.0**-21
    assert "to within 9.54e-07" in proof.claim


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.25, -0.25])
def test_a_class_may_be_off_its_number_and_the_certificate_says_how_far(shift: float) -> None:
    case = two_classes()
    moved = case.saved.changed(
        feed_forward__stages__0__bias_2=case.saved.tensors["feed_forward.stages.0.bias_2"] + shift
    )
    assert judge("proved", "", case, moved).label_error == 0.25


def test_every_number_of_a_label_must_be_near_enough() -> None:
    """About the tolerance, roundings may be too far or near enough; the other number is right."""
    model = ml.memorize([[0, 1], [1, 1]], [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [5.0, 6.0]]])
    Y = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [5.0, 6.0]]])
    expect("proved", "", model, [[0, 1], [1, 1]], Y)
    for place, value in ((("head.bias", 1), 1.0), (("head.weight", (0, LABEL + 1)), 1.0)):
        expect("undecided", "does not copy", Saved.of(model).edited(*place, value), [[0, 1], [1, 1]], Y)
    rest = [(0.5 * (1 + 2.0**-22), "undecided"), (0.5 * (1 + 2.0**-19), "refuted")]
    for far, verdict in ((0.49, "proved"), (0.5, "undecided"), (0.51, "refuted"), *rest):
        words = UNSURE if verdict == "undecided" else ""
        for number in (0, 1):
            proof = expect(verdict, words, model, [[0, 1], [1, 1]], Y + far * np.eye(2)[number], tolerance=0.5)
            assert proof.label_error == (pytest.approx(0.49) if verdict == "proved" else None)


def test_a_tolerance_that_would_do_is_named_only_where_it_would() -> None:
    model = ml.memorize([[0, 1], [1, 1]], [[-1.0, -2.0], [-3.0, -3.0]])
    Y = np.array([[-1.0, -2.0], [-3.0, -3.0]])
    near = expect("refuted", "it would be proved: tolerance=", model, [[0, 1], [1, 1]], Y * (1 + 2.0**-20))
    tolerance = float(near.reason.split("tolerance=")[1].split()[0])
    expect("proved", "", model, [[0, 1], [1, 1]], Y * (1 + 2.0**-20), tolerance=tolerance)
    assert (
        "would be proved" not in ml.certify(model, [[0, 1], [1, 1], [0, 7]], [*Y * (1 + 2.0**-20), [-1.0, -1.0]]).reason
    )
    assert "would be proved" not in ml.certify(model, [[0, 1], [1, 1]], Y + 0.5).reason


def test_certificates_travel_as_json_and_say_what_changed(tmp_path: Path) -> None:
    case = random_case(4, **PLAIN)
    assert case.Y is not None
    folder = case.saved.write(tmp_path / "m")
    proof = certify(folder, case.X, case.Y)
    assert proof.notes == ()
    assert proof.save(folder) == folder / "certificate.json"
    assert sorted(path.name for path in folder.iterdir()) == ["certificate.json", "config.json", "model.safetensors"]
    assert certify(folder, case.X, case.Y).notes[0].endswith("proved then")
    other = certify(folder, case.X[1:], case.Y[1:])
    assert (other.verdict, other.notes) == ("proved", ("the data are not those of certificate.json in this folder",))
    refuted = certify(folder, case.X, relabelled(case, np.random.default_rng(0)).Y)
    case.saved.edited("feed_forward.stages.0.bias_2", 0, 77.0).write(folder)
    other = certify(folder, case.X, case.Y)
    note = "the weights are not those of certificate.json in this folder"
    assert (other.verdict, other.notes) == ("refuted", (note,))
    assert note in other.explain()
    for each in (proof, refuted):
        assert Certificate.from_json(each.to_json()) == each
    assert refuted.findings
    assert dict(refuted.rows())["verdict"] == "refuted"
    for text in ("", "[]", "{}", '{"version": 99}', proof.to_json().replace('"points"', '"pints"')):
        with pytest.raises(ModelFileError, match="certificate"):
            Certificate.from_json(text)


def test_a_certificate_says_the_same_in_words_and_in_json() -> None:
    toy = Certificate("proved", "each é is right", "it is", ("IEEE",), 1234, 0, label_error=0.0, weights_digest="w")
    assert toy.explain().splitlines() == ["PROVED: it is", "Claim: each é is right", "Assumed:", "  - IEEE",
                                          "points: 1,234", "label error: 0: bit-exact", "weights: w"]  # fmt: skip
    for error, words in ((2.0**-10, "at most 0.000977"), (1.0, "at most 1"), (0.0, "0: bit-exact")):
        assert dict(replace(toy, label_error=error).rows())["label error"] == words
    lines = toy.to_json().splitlines()
    assert lines[0] == "{"
    assert lines[1].startswith(' "')
    assert list(json.loads(toy.to_json())) == sorted(json.loads(toy.to_json()))
    assert "each é is right" in toy.to_json()
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(toy, margin=math.nan).to_json()


def test_every_file_counts_and_advice_needs_all_of_them(tmp_path: Path) -> None:
    """Two files, one wrong; and what a tolerance would do is said only where every point of every part is settled."""
    rows, labels = [[0, 1], [1, 1], [2, 0]], [[0, 1], [1, 1], [0, 0]]
    folder = ml.memorize(rows, labels, positions=True).save(tmp_path / "m")
    files = []
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text(json.dumps({"tokens": row, "labels": label}))
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"tokens": rows[2], "labels": [1, 0]}))
    for names, verdict, points in (
        (files[:1], "proved", 2), (files[:2], "proved", 4), (files, "proved", 6), ([other], "refuted", 2),
        ([files[0], other], "refuted", 4), ([other, files[0]], "refuted", 4), ([*files[:2], other], "refuted", 6),
    ):  # fmt: skip
        proof = certify_files(folder, [str(name) for name in names])
        assert proof is not None
        assert (proof.verdict, proof.points, proof.wrong) == (verdict, points, int(verdict == "refuted"))
    none: dict[Any, list[Any]] = {"wrong": [], "unsure": []}
    close = Part(1, 0, none, (5.0, "here"), 2.0**-20, 1.0, True)
    question = Certificate("undecided", "", "", (), 0, 0)
    assert "it would be proved" in _joined_parts(question, [close, close]).reason
    for odd in (close._replace(settled=False), close._replace(distance=0.5), close._replace(distance=math.inf)):
        for parts in ([close, odd], [odd, close], [odd]):
            assert "would be proved" not in _joined_parts(question, parts).reason


def test_points_that_are_not_there_are_not_asked() -> None:
    """Tokens that the model lacks have no row, and a model of next tokens says nothing of sequences of one token."""
    assert _model_rows(Names(range(5)), Names(range(3))).tolist() == [0, 1, 2, -1, -1]
    assert _model_rows(Names(("c", "a")), Names(("a", "b"))).tolist() == [-1, 0]
    model = ml.memorize([[0, 1, 2, 1]], causal=True, positions=True)
    for rows in ([[1]], [[0], [2]]):
        with pytest.raises(DataError, match="no sequence has a next token"):
            certify(model, rows)
    assert certify(model, [[0, 1], [2]]).points == 1
    data = Sequences.of([[0, 1]], [[3, 4]])
    points = Labelled(data, TOKEN, data.tokens, None, np.array([-1, 1]), np.array([0, 1]), Names((3, 4)))
    asked: list[tuple[Any, int, Any]]
    asked = [("unsure", 0, None), ("unsure", 1, None), ("wrong", 0, None), ("wrong", 1, None), ("wrong", 1, "x")]
    said = [points.finding(kind, label, 0, got, "doubt").why for kind, label, got in asked]
    no_vector = "the model has no finite vector for a token here"
    assert said == ["doubt", "doubt", "the model has no such class", no_vector, "according to the stored weights"]


def test_the_data_digest_depends_on_what_is_said_alone() -> None:
    X, Y = [["b", "a"], ["c"]], [["x", "y"], ["x"]]
    digest = data_digest(Sequences.of(X, Y))
    assert data_digest(Sequences.of(X, Y, vocabulary=Names(("z", "c", "b", "a")))) == digest
    others: list[tuple[Any, Any]] = [(X, None), ([["b", "a"], ["d"]], Y), ([["a", "b"], ["c"]], Y)]
    others += [([["b"], ["a", "c"]], [["x"], ["y", "x"]]), (X, [["x", "y"], ["y"]]), (X, ["x", "y"])]
    others += [([[1, 0], [2]], Y), ([["1", "0"], ["2"]], Y), (X, [[0.0, 1.0], [0.0]]), (X, [[0, 1], [0]])]
    others += [(X, [["x", None], ["x"]]), (X, [[None, "x"], ["x"]])]
    assert len({digest, *(data_digest(Sequences.of(*other)) for other in others)}) == 1 + len(others)
    assert data_digest(Sequences.of([[[0.0]]], [[1.0]])) == data_digest(Sequences.of([[[-0.0]]], [[1.0]]))


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_a_certificate_does_not_depend_on_how_many_numbers_are_looked_at_together(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(12):
        case = random_case(seed)
        folder = case.saved.write(tmp_path / str(seed))
        asked = [case, relabelled(case, np.random.default_rng(seed))]
        found = [certify(folder, each.X, each.Y, tolerance=TOLERANCE) for each in asked]
        monkeypatch.setattr("monolayer.arrays.NUMBERS_IN_CACHE", at_once)
        assert [certify(folder, each.X, each.Y, tolerance=TOLERANCE) for each in asked] == found
        assert found[0].verdict == "proved"
        assert asked[0] is asked[1] or found[1].verdict == "refuted"
        monkeypatch.undo()


# -- no answers from NaN -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("coordinate", [KEY, CODE, LABEL])
def test_a_damaged_row_in_use_is_refuted_and_predict_refuses_it(coordinate: int, value: float, tmp_path: Path) -> None:
    """NaN anywhere in a used row spoils every product with it, also where the weight beside it is 0."""
    case = two_classes()
    damaged = case.saved.edited("lift.weight", (1, coordinate), value).write(tmp_path / "m")
    words = {KEY: "scores reach inf", CODE: "keys or codes go beyond"}.get(coordinate) if value == np.inf else None
    judge("undecided" if words else "refuted", words or "", case, damaged)
    model = ml.load(damaged)
    for path in ("auto", "dense"):
        with pytest.raises(DataError, match=r"row 1 of lift\.weight, which holds NaN or infinity"):
            model.predict(case.X, path=path)  # type: ignore[arg-type]
    assert model.predict([[0, 0]])[0].tolist() == [0, 0], "rows that are sound still answer"


def test_predict_never_answers_from_nan(tmp_path: Path) -> None:
    case = two_classes()
    for name in ("bos", "attention.W_O", "feed_forward.stages.0.weight_2", "feed_forward.stages.0.bias_1", "head.bias"):
        for place in range(0, case.saved.tensors[name].size, 3):
            saved = case.saved.changed()
            saved.tensors[name].flat[place] = np.nan
            folder = saved.write(tmp_path / f"{name}{place}")
            assert not certify(folder, case.X, case.Y)
            for path in ("auto", "dense"):
                with pytest.raises(DataError, match="the network gives no number at"):
                    ml.load(folder).predict(case.X, path=path)  # type: ignore[arg-type]
