"""Robust models: only the tokens that an edit touches are found anew, and their codes have room for so many more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import monolayer as ml
from tests.kinds import WORDS, built, same_bits
from tests.test_edit import check


@pytest.mark.parametrize("name", [f"robust {kind}" for kind in ("positions", "bfloat16", "linear", "causal")])
def test_only_the_tokens_that_are_touched_are_covered_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from monolayer.construct.again import draw_of
    from monolayer.construct.robust import build as robust
    from monolayer.construct.robust.again import cells_of

    model, data = built(name)
    seen: list[int] = []
    for stage in ("cover", "solve"):
        own = getattr(robust, stage)
        monkeypatch.setattr(robust, stage, lambda cells, *a, own=own: [seen.append(len(cells.base)), own(cells, *a)][1])
    assert data.labels is not None
    values = data.labels.values.copy()
    values[0] = (values[0] + 1) % 4
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = ml.edit(model, edited.select(np.array([0])), None, data)
    assert seen == [1, 1]  # one token, once as it was and once as it shall be
    token = int(data.tokens[0])
    cells = cells_of(model, draw_of(model))
    for splice in record.splices:
        if splice.tensor.startswith("feed_forward"):
            assert all(
                (cells[at : at + taken] == token).all() for at, taken in zip(splice.at, splice.taken, strict=True)
            )
        else:
            assert splice.at.tolist() == [token]
    found = ml.compare(model, new, data)
    assert 0 < found.only_one <= record.neurons[0]
    assert all(neuron.startswith(f"a neuron of {token} for ") for side in found.neurons for neuron in side)
    assert {int(data.tokens[data.offsets[a.sequence] + a.position]) for a in found.differing} == {token}


def test_new_tokens_and_classes_get_the_next_words_of_their_codes(tmp_path: Path) -> None:
    model, data = built("robust words")
    new, record = ml.insert(model, ["快跑"], [["k", "pao"]], data)
    whole = ml.Sequences.of([*WORDS[0], "快跑"], [*WORDS[1], ["k", "pao"]])
    check(model, new, record, whole, tmp_path)
    assert [change.after for change in record.changes] == ["k", "pao"]
    gone, record = ml.forget(new, "跑", whole)
    assert record.changes[0].refused
    assert same_bits(gone, ml.memorize(data, draw=new))
    tokens = [[f"t{i}", "快"] for i in range(31)]
    with pytest.raises(ml.DataError, match="no word left for more tokens"):
        ml.insert(model, tokens, [["k", "k"]] * 31, data)
    with pytest.raises(ml.DataError, match="no word left for more classes"):
        ml.insert(
            model, [["快", "快"] * (i + 1) for i in range(31)], [[f"c{i}"] * (2 * i + 2) for i in range(31)], data
        )


def test_an_edit_that_leaves_no_room_names_two_facts() -> None:
    """Long runs of one token: contexts that differ in one of two thousand are too close for a half-space."""
    model = ml.memorize([[0] * 9 + [1], [1] * 2], [[0] * 9 + [1], [1] * 2], robust=True, rank=16)
    data = [[0] * 9 + [1], [1] * 2], [[0] * 9 + [1], [1] * 2]
    long = [[0] * 4000, [0] * 4001]
    with pytest.raises(ml.PrecisionError, match=r"of sequence 3 and .* of sequence 2 have different labels"):
        ml.insert(model, long, [[0] * 4000, [1] * 4001], data)


def test_a_planted_fault_in_an_edited_model_is_refuted() -> None:
    model, data = built("robust positions")
    new, record = ml.forget(model, [0], data)
    rest = data.select(np.arange(1, len(data)))
    assert record.neurons[1] > 0
    at = int(record.splices[0].at[0])
    new.feed_forward.weight_2.data[:, at] *= -1.0
    assert ml.certify(new, rest).verdict == "refuted"
    with pytest.raises(ml.DataError, match="not the data that the model holds"):
        ml.forget(new, int(data.tokens[0]), rest)


def test_vectors_too_close_for_their_gates_are_refused() -> None:
    """Some far nearer to each other than all are to their centre: no model comes back that answers wrong."""
    random = np.random.default_rng(8)
    X, Y = random.normal(size=(30, 3, 2)), random.integers(0, 4, (30, 3))
    near, other = -100.0 + 1e-3 * random.normal(size=(3, 3, 2)), random.integers(0, 4, (3, 3))
    model = ml.memorize(X, Y, robust=True, positions=True)
    whole = np.concatenate([X, near]), np.concatenate([Y, other])
    for call in (
        lambda: ml.memorize(*whole, robust=True, positions=True),
        lambda: ml.memorize(*whole, draw=model),
        lambda: ml.insert(model, near, other, (X, Y)),
    ):
        with pytest.raises(ml.PrecisionError, match=r"labels would come back wrong, the first .* evenly spread"):
            call()
