"""Robust models: an edit is what the same draw makes of the edited data, and only the tokens that it touches change."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.checker import stored
from monolayer.editing.splice import array_of
from tests.datasets import Dataset, datasets
from tests.stored_models import Saved
from tests.test_edit import same_bits, sequences

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.integers(0, 30, (60, 5)), RANDOM.integers(0, 4, (60, 5))
PREFIXES = (X.cumsum(axis=1) * (1 + np.arange(5))) % 4
NEXT = np.concatenate([np.arange(8)[:, None], RANDOM.integers(8, 20, (8, 7))], axis=1)
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "positions": (X, Y, {"positions": True}),
    "bfloat16": (X, Y, {"positions": True, "dtype": "bfloat16"}),
    "float16, wide": (X, Y, {"positions": True, "dtype": "float16", "robust": 0.002}),
    "linear cells": (X, Y, {"positions": True, "neurons": 60}),
    "causal": (X, PREFIXES, {"positions": True, "causal": True}),
    "words": (["银行", "行走", "音乐", "快乐"], [["b", "h"], ["x", "z"], ["y", "yue"], ["k", "le"]], {}),
    "sequences": (X, Y[:, 0], {}),
    "next token": (NEXT, None, {"positions": True, "causal": True}),
    "vectors": (RANDOM.standard_normal((20, 5, 3)), RANDOM.integers(0, 4, (20, 5)), {}),
}


def build(name: str) -> tuple[ml.Monolayer, ml.Sequences]:
    tokens, labels, wishes = KINDS[name]
    model = ml.memorize(tokens, labels, **({"robust": True, "rank": 32} | wishes))
    model.card = replace(model.card, summary=None)
    return model, ml.Sequences.of(tokens, labels)


@pytest.fixture(scope="module", params=KINDS)
def built(request: pytest.FixtureRequest) -> tuple[ml.Monolayer, ml.Sequences]:
    return build(request.param)


def test_the_draw_of_a_model_and_its_data_give_the_model(built: Any, tmp_path: Path) -> None:
    model, data = built
    assert same_bits(ml.memorize(data, draw=model), model)
    model.save(tmp_path / "model")
    assert same_bits(ml.memorize(data, draw=ml.load(tmp_path / "model")), model)
    if data.vocabulary is not None:  # vectors are numbered by their first appearance
        shuffled = data.select(np.random.default_rng(0).permutation(len(data)))
        assert same_bits(ml.memorize(shuffled, draw=model), model)


@pytest.mark.parametrize("wish", [{"rank": 16}, {"dtype": "float64"}, {"neurons": 9}, {"robust": 0.01}])
def test_wishes_that_the_draw_decides_are_refused(wish: dict[str, Any]) -> None:
    model, data = build("words")
    with pytest.raises(ml.DataError, match=r"leave \w+ out, or the draw"):
        ml.memorize(data, draw=model, **({"robust": True} | wish))
    assert same_bits(ml.memorize(data, draw=model, robust=True, rank=32, dtype="float32"), model)


def test_a_model_without_its_draw_is_refused() -> None:
    model, data = build("words")
    model.card = replace(model.card, cover=None)
    with pytest.raises(ml.DataError, match="before format version 5"):
        ml.memorize(data, draw=model)
    model, data = build("words")
    model.lift.weight.data[0, 0] *= -1.0
    with pytest.raises(ml.DataError, match="codes are not such"):
        ml.memorize(data, draw=model)


@pytest.mark.parametrize(
    "cover", [None, {}, 0.3, {"margin": 0}, {"margin": "x"}, {"margin": True}, {"base": 1}, {"margin": 0.3, "base": 2}]
)
def test_loader_and_checker_refuse_a_cover_that_is_none(cover: Any, tmp_path: Path) -> None:
    model, _ = build("words")
    model.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["cover"] == {"margin": 0.3}
    config = {key: value for key, value in config.items() if key not in ("files", "digest")}
    tensors = {name: value.numpy() for name, value in model.state_dict().items()}
    names = json.loads((tmp_path / "model" / "names.json").read_text())
    folder = Saved(config | {"cover": cover}, tensors, names).write(tmp_path / "odd")
    for read in (ml.load, stored.read):
        with pytest.raises(ml.ModelFileError, match="cover"):
            read(folder)


# -- with the data -----------------------------------------------------------------------------------------


def check(model: ml.Monolayer, new: ml.Monolayer, record: ml.Record, data: ml.Sequences, folder: Path) -> None:
    """The edited model is that of the edited data, proved; its record goes both ways, through a file too."""
    never = ml.memorize(data, draw=model)
    assert same_bits(new, never)
    bits = [{name: array_of(part).tobytes() for name, part in each.state_dict().items()} for each in (new, never)]
    assert bits[0] == bits[1]  # NaN included
    assert ml.certify(new, data).verdict == "proved"
    record.save(folder / "record.json")
    loaded = ml.Record.load(folder / "record.json")
    assert same_bits(loaded.apply(model), new)
    assert same_bits(loaded.undo(new), model)
    assert loaded.explain() == record.explain()


def test_forgetting_is_memorizing_the_rest(built: Any, tmp_path: Path) -> None:
    model, data = built
    new, record = model.forget([1, 3], data)
    rest = data.select(np.array([row for row in range(len(data)) if row not in (1, 3)]))
    check(model, new, record, rest, tmp_path)
    by_sequence, _ = model.forget(data.select(np.array([1, 3])), data)
    assert same_bits(by_sequence, new)
    again, _ = ml.forget(ml.RobustFacts.of(new, rest), [0])
    assert same_bits(again.model, ml.memorize(rest.select(np.arange(1, len(rest))), draw=new))


def test_inserting_is_memorizing_all(built: Any, tmp_path: Path) -> None:
    model, data = built
    first, later = data.select(np.arange(len(data) - 2)), data.select(np.array([len(data) - 2, len(data) - 1]))
    part = ml.memorize(first, draw=model)
    new, record = part.insert(later, None, first)
    check(part, new, record, data, tmp_path)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "next token"])
def test_editing_is_memorizing_the_edited_data(name: str, tmp_path: Path) -> None:
    model, data = build(name)
    assert data.labels is not None
    classes = len(model.card.classes or ())
    values = data.labels.values.copy()
    place = np.array([2]) if data.labels.per == "sequence" else data.flat(np.array([2]))
    values[place] = (values[place] + 1) % classes
    edited = replace(data, labels=replace(data.labels, values=values))
    if name == "causal":  # what other rows teach changes with it
        with pytest.raises(ml.DataError, match="insert is meant"):
            model.edit([[29, 29, 29, 29, 29]], [[0, 0, 0, 0, 0]], data)
    new, record = model.edit(edited.select(np.array([2])), None, data)
    check(model, new, record, edited, tmp_path)
    assert [change.after for change in record.changes] == model.card.decode(values[place]).tolist()
    nothing, record = new.edit(edited.select(np.array([2])), None, edited)
    assert same_bits(nothing, new)
    assert record.splices == ()


@pytest.mark.parametrize("name", ["positions", "bfloat16", "linear cells", "causal"])
def test_only_the_tokens_that_are_touched_are_covered_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from monolayer.construct.robust import build as robust
    from monolayer.editing.gated import cells_of

    model, data = build(name)
    seen: list[int] = []
    for stage in ("cover", "solve"):
        own = getattr(robust, stage)
        monkeypatch.setattr(robust, stage, lambda cells, *a, own=own: [seen.append(len(cells.base)), own(cells, *a)][1])
    assert data.labels is not None
    values = data.labels.values.copy()
    values[0] = (values[0] + 1) % 4
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = model.edit(edited.select(np.array([0])), None, data)
    assert seen == [1, 1]  # one token, once as it was and once as it shall be
    token = int(data.tokens[0])
    cells = cells_of(model)
    for splice in record.splices:
        if splice.tensor.startswith("feed_forward"):
            assert all(
                (cells[at : at + taken] == token).all() for at, taken in zip(splice.at, splice.taken, strict=True)
            )
        else:
            assert splice.at.tolist() == [token]
    found = ml.compare(model, new, data)
    assert 0 < found.only_one <= record.neurons[0]
    assert {neuron.token for side in found.neurons for neuron in side} == {token}
    assert {int(data.tokens[data.offsets[a.sequence] + a.position]) for a in found.differing} == {token}


def test_new_tokens_and_classes_get_the_next_words_of_their_codes(tmp_path: Path) -> None:
    model, data = build("words")
    new, record = model.insert(["快跑"], [["k", "pao"]], data)
    whole = ml.Sequences.of([*KINDS["words"][0], "快跑"], [*KINDS["words"][1], ["k", "pao"]])
    check(model, new, record, whole, tmp_path)
    assert [change.after for change in record.changes] == ["k", "pao"]
    gone, record = new.forget("跑", whole)
    assert record.changes[0].refused
    assert same_bits(gone, ml.memorize(data, draw=new))
    tokens = [[f"t{i}", "快"] for i in range(31)]
    with pytest.raises(ml.DataError, match="no word left for more tokens"):
        model.insert(tokens, [["k", "k"]] * 31, data)
    with pytest.raises(ml.DataError, match="no word left for more classes"):
        model.insert([["快", "快"] * (i + 1) for i in range(31)], [[f"c{i}"] * (2 * i + 2) for i in range(31)], data)


def test_fingerprints_and_shared_facts_follow() -> None:
    tokens, labels = [[1, 2, 3], [1, 2, 3], [2, 3, 1], [3, 3, 2]], [[0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]]
    model = ml.memorize(tokens, labels, robust=True, rank=16, positions=True, fingerprint=True)
    new, record = model.forget([0, 3], (tokens, labels))
    assert record.shared == 3
    assert np.array(new.seen([tokens[1], tokens[3]])).tolist() == [[True] * 3, [False] * 3]


def test_bad_edits_are_refused_with_the_reason() -> None:
    model, data = build("positions")
    other = np.array(Y[:1])
    other[0, 0] = (other[0, 0] + 1) % 4
    with pytest.raises(ml.DataError, match="not in the data"):
        model.forget([[29, 29, 29, 29, 29]], data)
    with pytest.raises(ml.DataError, match="insert is meant"):
        model.edit([[29, 29, 29, 29, 29]], [[0, 0, 0, 0, 0]], data)
    with pytest.raises(ml.ContradictionError, match="contradict each other"):
        model.edit(X[[0, 0]], np.concatenate([Y[:1], other]), data)
    with pytest.raises(ml.ContradictionError, match=r"as token 0 of sequence 0, .*edit is meant"):
        model.insert(X[:1], other, data)
    with pytest.raises(ml.DataError, match="model of nothing"):
        model.forget(np.ones(len(X), dtype=bool), data)
    with pytest.raises(ml.DataError, match="longer one needs another draw"):
        model.insert([[1, 2, 3, 4, 5, 6]], [[0] * 6], data)
    with pytest.raises(ml.DataError, match="which the data lack"):
        model.forget([0], (X[:3], Y[:3]))
    with pytest.raises(ml.DataError, match=r"answers 1 of \d+ labels otherwise, the first of them token 0 of"):
        model.edit(X[:1], (other + 1) % 4, (X, np.concatenate([other, Y[1:]])))
    rest = np.delete(np.arange(len(X)), 5)  # a row whose classes others have too
    with pytest.raises(ml.DataError, match="other data besides"):
        model.forget(int(X[5, 0]), (X[rest], Y[rest]))
    with pytest.raises(ml.DataError, match="RobustFacts"):
        ml.Facts.of(model, X, Y)
    with pytest.raises(ml.DataError, match="no robust model"):
        ml.RobustFacts.of(ml.memorize(X, Y, positions=True), X, Y)
    record = model.edit(X[:1], other, data)[1]
    with pytest.raises(ml.DataError, match="not as this record found it"):
        record.apply(build("linear cells")[0])


def test_data_that_lack_a_row_are_refused_wherever_they_lack_it() -> None:
    """By counts, where the model knows them; else by classes that a token's neurons speak for, and usual classes."""
    bare, data = build("positions")
    counted = ml.memorize(data, positions=True, robust=True, rank=32)
    found = []
    for row in range(len(data)):
        rest = data.select(np.delete(np.arange(len(data)), row))
        with pytest.raises(ml.DataError, match="built from 60 sequences with 300 labels, and these are 59 with 295"):
            ml.RobustFacts.of(counted, rest)
        try:
            ml.RobustFacts.of(bare, rest)
        except ml.DataError as error:
            found.append(str(error))
    assert any("which no row of the data does" in one for one in found)
    assert any("the usual class of" in one for one in found)
    other = [(row, column) for row in range(60) for column in range(5) if not (Y[X[row, column] == X] == 3).any()]
    values = Y.copy()
    values[other[0]] = 3  # a class that this token never has
    with pytest.raises(ml.DataError, match="for which there is no neuron"):
        ml.RobustFacts.of(bare, X, values)
    assert ml.RobustFacts.of(counted, data).data is not None


def test_an_edit_that_leaves_no_room_names_two_facts() -> None:
    """Long runs of one token: contexts that differ in one of two thousand are too close for a half-space."""
    model = ml.memorize([[0] * 9 + [1], [1] * 2], [[0] * 9 + [1], [1] * 2], robust=True, rank=16)
    data = [[0] * 9 + [1], [1] * 2], [[0] * 9 + [1], [1] * 2]
    long = [[0] * 4000, [0] * 4001]
    with pytest.raises(ml.PrecisionError, match=r"of sequence 3 and .* of sequence 2 have different labels"):
        model.insert(long, [[0] * 4000, [1] * 4001], data)


def test_a_planted_fault_in_an_edited_model_is_refuted() -> None:
    model, data = build("positions")
    new, record = model.forget([0], data)
    rest = data.select(np.arange(1, len(data)))
    assert record.neurons[1] > 0
    at = int(record.splices[0].at[0])
    new.feed_forward.weight_2.data[:, at] *= -1.0
    assert ml.certify(new, rest).verdict == "refuted"
    with pytest.raises(ml.DataError, match="not the data that the model holds"):
        new.forget(int(data.tokens[0]), rest)


# -- without the data --------------------------------------------------------------------------------------


def angles(model: ml.Monolayer, data: ml.Sequences) -> Any:
    """The context of every answering place, as the network computes it, at length 1."""
    layout = model.feed_forward.layout
    double = copy.deepcopy(model).double()
    tokens = torch.from_numpy(data.tokens.reshape(len(data), -1, *data.tokens.shape[1:]))
    Z, seen = double.stream(tokens)
    Z = double._answering(double.attention(Z, seen, model.card.causal))
    context = double.feed_forward.read(Z)[..., layout.context].reshape(-1, layout.rank)
    return (context / context.norm(dim=1, keepdim=True)).detach().numpy()


@pytest.mark.parametrize("name", ["positions", "bfloat16", "causal", "sequences", "vectors", "linear cells"])
def test_without_the_data_only_a_cap_of_contexts_changes(name: str, tmp_path: Path) -> None:
    model, data = build(name)
    assert data.labels is not None
    values = data.labels.values.copy()
    place = 2 if data.labels.per == "sequence" else int(data.offsets[2])
    values[place] = (values[place] + 1) % 4
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = model.edit(edited.select(np.array([2])), None)
    assert not record.informed
    assert record.neurons == (0, 1)
    assert np.array_equal(new.labels(new.encode(edited.select(np.array([2])))), np.atleast_1d(values[edited_at(data)]))
    assert same_bits(record.undo(new), model)
    angle = float(record.claim.split("within ")[1].split(" ")[0])
    # Also on other data: where the answer differs, the token is the same, and its context within the angle.
    other = data if data.vocabulary is None else ml.Sequences.of(RANDOM.integers(0, 30, (150, 5)))
    other = new.encode(other)
    old, now = (m.labels(other) for m in (model, new))
    contexts, own = angles(new, other), angles(new, new.encode(data.select(np.array([2]))))[0]
    far = np.degrees(np.arccos(np.clip(contexts @ own, -1.0, 1.0))) > angle
    assert (old == now)[far].all()
    assert ml.certify(new, edited).verdict in ("proved", "refuted")
    if data.labels.per == "token" and data.vocabulary is not None:
        assert (old == now)[other.tokens != data.tokens[place]].all()
    with pytest.raises(ml.DataError, match="edited without its data"):
        new.forget([2], edited)
    assert ml.certify(ml.memorize(edited, draw=new), edited).verdict == "proved"


def edited_at(data: ml.Sequences) -> Any:
    return np.array([2]) if data.labels is not None and data.labels.per == "sequence" else data.flat(np.array([2]))


def test_forgetting_without_the_data_falls_back_to_the_usual_class() -> None:
    model, _ = build("positions")
    answers, usual = model.predict(X), model.head(model.lift.weight).argmax(1).numpy()
    row = next(row for row in range(len(X)) if (usual[X[row]] != answers[row]).any())
    new, record = model.forget(X[row : row + 1])
    assert new.predict(X[row : row + 1])[0].tolist() == usual[X[row]].tolist()
    assert record.neurons == (0, int((usual[X[row]] != answers[row]).sum()))
    again, record = new.forget(X[row : row + 1])
    assert same_bits(again, new)
    assert "answers all of this already" in record.claim
    with pytest.raises(ml.DataError, match="no usual class to fall back to"):
        build("linear cells")[0].forget(X[:1])
    with pytest.raises(ml.DataError, match="choose from the data"):
        model.forget([0])


def test_inserting_without_the_data_takes_new_tokens_and_classes() -> None:
    model, data = build("words")
    new, record = model.insert(["快跑", "跑走"], [["k", "pao"], ["pao", "z"]])
    assert [list(row) for row in new.predict(["快跑", "跑走"])] == [["k", "pao"], ["pao", "z"]]
    assert ml.certify(new, data).verdict == "proved"
    assert same_bits(record.undo(new), model)
    with pytest.raises(ml.ContradictionError, match="contradict each other"):
        model.insert(["快跑", "快跑"], [["k", "pao"], ["pao", "pao"]])


def test_facts_that_no_cap_tells_apart_are_refused_without_the_data() -> None:
    model = ml.memorize([[0] * 9 + [1], [1] * 2], [[0] * 9 + [1], [1] * 2], robust=True, rank=16)
    with pytest.raises(ml.PrecisionError, match=r"of sequence \d is too close to another fact"):
        model.edit([[0] * 4000, [0] * 4001], [[1] * 4000, [0] * 4001])


# -- any data ----------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(datasets(), st.data())
def test_forgetting_and_inserting_give_the_bits_of_the_data_that_remain(data: Dataset, choice: st.DataObject) -> None:
    """Whatever the data: ids or vectors, ragged, causal, labels of tokens or of sequences."""
    whole = sequences(data)
    assume(whole.labels is not None and whole.labels.classes is not None)
    gone = choice.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1))
    assume(len(gone) < len(whole))
    try:
        model = ml.memorize(whole, positions=data.positions, causal=data.causal, robust=True, rank=16)
        model.card = replace(model.card, summary=None)
        rest = whole.select(np.array([row for row in range(len(whole)) if row not in gone]))
        never = ml.memorize(rest, draw=model)
    except ml.PrecisionError:
        return
    new, record = ml.forget(model, sorted(gone), whole)
    assert same_bits(new, never)
    assert same_bits(record.undo(new), model)
    back = whole.select(np.array(sorted(gone)))
    if not data.positions or back.lengths.max() <= rest.lengths.max():
        again, record = ml.insert(never, back, data=rest)
        assert same_bits(again, ml.memorize(joined(rest, back), draw=never))


def joined(one: ml.Sequences, two: ml.Sequences) -> ml.Sequences:
    assert one.labels is not None
    assert two.labels is not None
    tokens, lengths = (np.concatenate([getattr(part, name) for part in (one, two)]) for name in ("tokens", "lengths"))
    values = np.concatenate([one.labels.values, two.labels.values])
    return ml.Sequences(tokens, lengths, one.vocabulary, replace(one.labels, values=values))


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
        lambda: model.insert(near, other, (X, Y)),
    ):
        with pytest.raises(ml.PrecisionError, match=r"labels would come back wrong, the first .* evenly spread"):
            call()
