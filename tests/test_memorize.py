"""Every label comes back, whatever the data: the claim that everything else builds on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.consistency import Context, equal_points, labelled_part
from monolayer.construct.line import draw, separate
from monolayer.construct.line.assemble import staircase
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.target import Target
from tests.datasets import Dataset, datasets, view

RANDOM = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Every test draws the same numbers, whichever ran before it."""
    global RANDOM
    RANDOM = np.random.default_rng(7)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=datasets())
def test_every_label_comes_back_dense_and_fast(data: Dataset) -> None:
    options: Any = {"per": data.per, "positions": data.positions, "causal": data.causal}
    model = ml.memorize(data.X, data.Y, **options)
    for path in ("fast", "dense"):
        answers = model.predict(data.X, path=path)
        answers = [label for row in answers for label in row] if data.per == "token" else list(answers)
        assert np.array_equal(answers, data.flat()), path


def test_logits_are_those_of_a_classifier_and_permutation_equivariant() -> None:
    X = np.stack([RANDOM.permutation(40)[:4] for _ in range(30)])
    Y = RANDOM.integers(0, 6, X.shape)
    model = ml.memorize(X, Y)
    logits = model(torch.from_numpy(X))
    assert logits.shape == (30, 4, 6)
    assert np.array_equal(logits.argmax(-1).numpy(), Y)
    # The score of the stored class beats its neighbours by exactly 1: 2jy − j² at j = y and y ± 1.
    top = logits.topk(2, dim=-1).values
    assert torch.equal(top[..., 0] - top[..., 1], torch.ones(30, 4, dtype=torch.float64))
    shuffle = RANDOM.permutation(4)
    assert torch.equal(model(torch.from_numpy(X[:, shuffle])), logits[:, shuffle])


def test_runs_cost_nothing_inside() -> None:
    """Labels that follow the token alone need one step per label change between tokens, not one per point."""
    X = RANDOM.integers(0, 12, (500, 8))
    assert ml.memorize(X, X % 3).summary.runs == 3
    assert len(ml.memorize(X, X * 0).feed_forward.stages[0].weight_1) == 0


# -- contradictions and collisions ---------------------------------------------------------------------


def test_a_contradiction_shows_rows_positions_and_labels() -> None:
    X = [["x", "y"], ["p", "q"], ["y", "x"]]
    Y = [["A", "B"], ["A", "A"], ["C", "A"]]
    words = r"token 1 \('y'\) of sequence 0 has label 'B', but token 0 \('y'\) of sequence 2 has label 'C'.*positions="
    with pytest.raises(ml.ContradictionError, match=words):
        ml.memorize(X, Y)


def test_on_conflict_is_counted_and_does_what_it_says() -> None:
    X, Y = [["a", "b"]] * 4, [["x", "n"], ["y", "n"], ["y", "n"], ["z", "n"]]
    for rule, label, conflicts in (("majority", "y", 2), ("first", "x", 3)):
        model = ml.memorize(X, Y, on_conflict=rule)  # type: ignore[arg-type]
        assert (model.predict(X)[0].tolist(), model.summary.conflicts) == ([label, "n"], conflicts)
    tie = ["q", "z", "a", "a", "z"]  # of labels that are equally frequent, the one that came first wins
    assert ml.memorize([["a"]] * 5, tie, on_conflict="majority").predict([["a"]]).tolist() == ["z"]
    assert ml.memorize([["a"]] * 2, ["z", "a"], on_conflict="majority").predict([["a"]]).tolist() == ["z"]
    with pytest.raises(ml.DataError, match="on_conflict must be one of"):
        ml.memorize(X, Y, on_conflict="last")  # type: ignore[arg-type]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), positions=st.booleans(), causal=st.booleans())
def test_groups_of_equal_points_match_a_slow_reference(seed: int, positions: bool, causal: bool) -> None:
    random = np.random.default_rng(seed)
    X = [random.integers(0, 3, random.integers(1, 5)).tolist() for _ in range(8)]
    data = ml.Sequences.of(X, [[0] * len(row) for row in X])
    given = Context(data, data.tokens, positions, causal), Target.of(data, causal)
    group = equal_points(*given)
    keys = [view(row, k, positions, causal) for row in X for k in range(len(row))]
    places = np.sort(random.permutation(len(keys))[:6])  # looking at some says of them what looking at all does
    part = labelled_part(*given, places)
    among = dict(zip(places.tolist(), equal_points(part.context, part.target).tolist(), strict=True))
    first = int(random.integers(1, len(keys) + 1))  # of the rest only those in a group of the first are told apart
    asked = equal_points(*given, first)
    for i in range(len(keys)):
        for j in range(i):
            assert (group[i] == group[j]) == (keys[i] == keys[j])
            if j < first:
                assert (asked[i] == asked[j]) == (keys[i] == keys[j])
            if i in among and j in among:
                assert (among[i] == among[j]) == (keys[i] == keys[j])


def test_a_collision_is_told_apart_from_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts squeezed together by a hardmax-like temperature: different points, named by their own numbers."""
    monkeypatch.setattr(draw, "TEMPERATURES", (300.0,))
    X, Y = RANDOM.integers(0, 20, (300, 8)), RANDOM.integers(0, 9, 300).tolist()
    words = r"sequence (\d+) and sequence (\d+)\. .*not a contradiction.* but these 100 crowd together"
    with pytest.raises(ml.PrecisionError, match=words) as caught:
        ml.memorize(X, [None] * 200 + Y[200:])  # named by where they stand, not by the number of the label
    named = re.findall(r"sequence (\d+)", str(caught.value))
    assert all(int(row) >= 200 for row in named)


def test_a_bad_draw_leads_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "TEMPERATURES", (300.0, 1.0))
    monkeypatch.setattr(Encoded, "spacing", lambda encoded: np.array([encoded.draw.temperature, 1.0, 1.0]))
    X, Y = RANDOM.integers(0, 20, (300, 8)), np.arange(300) % 7
    model = ml.memorize(X, Y)
    assert 1 < model.summary.draws <= separate.DRAWS
    assert model.predict(X).tolist() == Y.tolist()


def test_vectors_too_close_to_separate_are_named() -> None:
    X = np.array([[[1.0, 0.0]], [[1.0 + 2**-52, 0.0]], [[5.0, 1.0]]])
    with pytest.raises(
        ml.PrecisionError, match=r"token 0 of sequence (0 and token 0 of sequence 1|1 and token 0 of sequence 0)"
    ):
        ml.memorize(X, [[0], [1], [2]])
    assert ml.memorize(X, [[0], [0], [1]]).predict(X).ravel().tolist() == [0, 0, 1]


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "Y", "options", "message"),
    [
        ([], [], {}, "the data are empty"),
        ([["a"], []], [["x"], []], {}, "sequence 1 is empty"),
        ([["a", "b"]], None, {}, "labels are missing"),
        ([["a", "b"]], [["x"]], {}, "sequence 0 has 2 tokens but 1 label"),
        ([["a"], ["b"]], [["x"], [1]], {}, "mixed label kinds"),
        ([["a"], ["b"]], [["x"], "y"], {}, "mixed label kinds"),
        ([["a"]], [["x"], ["y"]], {}, "X has 1 sequence but Y has 2 rows"),
        ([[3, -1]], [[0, 0]], {}, "token 1 of sequence 0 has id -1: ids below zero"),
        ([[[0.0, np.nan]]], [[0]], {}, "token 0 of sequence 0 .*NaN and infinity"),
        ([[[0.0, np.inf]]], [[0]], {}, "token 0 of sequence 0 .*NaN and infinity"),
        ([["a"]], [[np.inf]], {}, "label of token 0 of sequence 0 .*infinity"),
        ([["a", "b"]], ["x"], {"causal": True}, "drop causal=True"),
        ([["a"]], None, {"causal": True}, "no sequence has a next token"),
        ([["a"]], [["b"]], {"seed": -1}, "seed must be a whole number"),
        ([["a"]], [["b"]], {"seed": 1.5}, "seed must be a whole number"),
        ([["a"]], [["b"]], {"seed": True}, "seed must be a whole number"),
        ([["a"]], [["b"]], {"positions": 1}, "positions must be True or False, not 1"),
        ([["a"]], [["b"]], {"rank": 0}, "rank must be a whole number from 1, or 'auto'"),
        ([["a"]], [["b"]], {"dtype": "float16"}, "robust=True is made for them"),
        ([[[5e-324], [1e-323]]], [[0, 1]], {}, "no float64 weight scales that to keys"),
        ([[[1.0, 1e-310], [2.0, 0.0]]], [[0, 1]], {}, "no float64 weight scales that to keys"),
        ([[[1.7e308], [-1.7e308]]], [[0, 1]], {}, "no float64 weight scales that to keys"),
        ([[[1e300], [0.0]]], [[0, 1]], {"dtype": "float32"}, "vectors are memorized in float64, not in float32"),
    ],
)
def test_bad_input_has_its_own_message(X: Any, Y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ml.DataError, match=message):
        ml.memorize(X, Y, **options)


@pytest.mark.parametrize(
    ("X", "Y", "options", "message"),
    [
        (np.arange(1000)[None], np.arange(1000)[None], {"dtype": "float32"}, "1,000 classes are more than .* 724"),
        ([[0, 1]], [[0.1, 0.5]], {"dtype": "float32"}, "0.1 cannot be represented in float32"),
    ],
)
def test_what_a_format_does_not_hold_is_named(X: Any, Y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ml.PrecisionError, match=message):
        ml.memorize(X, Y, **options)


def test_labels_whose_sums_would_round_are_refused() -> None:
    level = np.array([[0.0, 20.0, 0.0]])
    with pytest.raises(ml.PrecisionError, match=r"3 runs of labels add up to 60, .* exact only below 32"):
        staircase(np.ones(2), np.arange(2.0), level, True, 2.0**-5)


def test_one_long_causal_sequence_is_told_to_take_positions() -> None:
    """What is seen of a long sequence hardly changes with one more token: points crowd, however few they are."""
    X = np.random.default_rng(0).integers(0, 50, (1, 100_000))
    with pytest.raises(ml.PrecisionError, match=r"but these 99,999 crowd together.* pass positions=True.*rank=2"):
        ml.memorize(X, causal=True, rank=1)
    model = ml.memorize(X, causal=True, positions=True)
    assert np.array_equal(model.predict(X)[:, :-1], X[:, 1:])


def test_formats_by_name_or_as_pytorchs() -> None:
    X, Y = [[1, 2, 3], [3, 2, 4]], [[0, 1, 2], [2, 0, 1]]
    for robust, dtype in ((False, torch.float32), (True, torch.bfloat16)):
        one, two = (ml.memorize(X, Y, robust=robust, dtype=each) for each in (dtype, str(dtype).split(".")[1]))
        assert ml.compare(one, two).same
        assert one.bos.dtype == dtype
    with pytest.raises(ml.DataError, match=r"dtype of a line must be one of .*not 'bfloat16'"):
        ml.memorize(X, Y, dtype=torch.bfloat16)
    assert ml.certify(two, X, Y, dtype=torch.float16).claim == ml.certify(two, X, Y, dtype="float16").claim
    assert ml.memorize_as("bert", X, Y, dtype=torch.bfloat16).dtype == "bfloat16"
