"""An edit is, bit for bit, the model that memorizing the edited data with the same draw gives: every construction."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.consistency import equal_points
from monolayer.data import Sequences
from monolayer.editing.subject import subject_of
from tests import kinds
from tests.datasets import DATA, READINGS, WORDS, Dataset, datasets
from tests.kinds import KINDS, anew, built, joined, same_bits

CHOICES = st.sampled_from([{}, {}, {"dtype": "float32"}, {"robust": True, "rank": 16}])


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def check(model: Any, new: Any, record: ml.Record, data: ml.Sequences, folder: Path) -> None:
    """The edited model is that of the edited data, proved; its record goes both ways, through a file too."""
    assert same_bits(new, anew(model, data))
    assert ml.certify(new, data, only=subject_of(new).only).verdict == "proved"
    loaded = ml.Record.load(record.save(folder / "record.json"))
    assert same_bits(loaded.apply(model), new)
    assert same_bits(loaded.undo(new), model)
    assert loaded.explain() == record.explain()
    found = ml.compare(model, new)
    assert (found.only_one, found.only_two) == record.neurons


# -- one suite for every construction ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_is_memorizing_the_rest(kind: str, tmp_path: Path) -> None:
    """And the draw gives the model itself, every tensor, whatever the order of the rows, through a file too."""
    model, data = built(kind)
    mixed = data.select(np.random.default_rng(0).permutation(len(data)))
    assert same_bits(anew(model, mixed, model.save(tmp_path / "model")), model)
    new, record = ml.forget(model, [1, 3], data)
    rest = data.select(np.setdiff1d(np.arange(len(data)), [1, 3]))
    check(model, new, record, rest, tmp_path)
    answered = [change for change in record.changes if not change.refused]
    if answered and not model.card.prompts:  # the record says what the model answers
        asked = new.encode(ml.Sequences.of([change.tokens for change in answered]))
        names: Any = new.card.decode(new.labels(asked)).tolist()
        if model.card.per == "token":
            names = [names[start + change.position] for start, change in zip(asked.offsets, answered, strict=False)]
        after = [change.after for change in answered]
        assert names == after if model.card.classes is not None else np.allclose(names, after, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_inserting_is_memorizing_all(kind: str, tmp_path: Path) -> None:
    """New tokens too: a causal model has never seen those of the last rows."""
    model, data = built(kind)
    first, later = data.select(np.arange(len(data) - 2)), data.select(np.array([len(data) - 2, len(data) - 1]))
    part = anew(model, first)
    new, record = ml.insert(part, later, None, first)
    check(part, new, record, data, tmp_path)
    assert {change.before for change in record.changes} == {None}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith(("next", "prompts"))])
def test_editing_is_memorizing_the_edited_data(kind: str, tmp_path: Path) -> None:
    """Every place that shows the same fact changes with it."""
    model, data = built(kind)
    values = data.labels.values.copy()
    place = 2 if data.labels.per == "sequence" else int(data.offsets[2])
    value = (values[place] + 1) % len(data.labels.classes) if data.labels.classes is not None else 3.0
    values[place] = value
    asked = replace(data, labels=replace(data.labels, values=values)).select(np.array([2]))
    task = subject_of(model).task(data)
    group = equal_points(task.context, task.target)
    values = data.labels.values.copy()
    values[group == group[place]] = value
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = ml.edit(model, asked, None, data)
    check(model, new, record, edited, tmp_path)
    changed = [change for change in record.changes if not change.stays]
    assert [change.after for change in changed] == data.labels.decode(values[place : place + 1]).tolist()


@pytest.mark.parametrize("kind", ["line", "cascade tokens"])
def test_new_tokens_and_classes_come_and_go(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    X, Y = [[700, 1, 2], [2, 701, 1]], [[9, 10, 0], [1, 2, 3]]
    known = data.split(data.tokens), data.split(data.labels.values)
    whole = ml.Sequences.of([*known[0], *map(np.array, X)], [*known[1], *map(np.array, Y)])
    new, record = ml.insert(model, X, Y, data)
    check(model, new, record, whole, tmp_path)
    assert [change.after for change in record.changes] == Y[0] + Y[1]
    gone, record = ml.forget(new, [len(data)], whole)
    assert all(change.refused for change in record.changes)
    left = whole.select(np.setdiff1d(np.arange(len(whole)), len(data)))
    assert same_bits(gone, ml.memorize(left, draw=new))


@pytest.mark.parametrize("options", [{}, {"robust": True, "rank": 16}])
def test_fingerprints_and_shared_facts_follow(options: dict[str, Any], tmp_path: Path) -> None:
    """What a model can say of having seen a fact is a trace too; what other rows teach stays, and is counted."""
    X, Y = [[1, 2, 3], [1, 2, 3], [2, 3, 1], [3, 3, 2]], [[0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]]
    model = ml.memorize(X, Y, positions=True, unknown=True, **options)
    new, record = ml.forget(model, [0, 3], (X, Y))
    assert record.shared == 3
    assert np.array(new.seen([X[1], X[3]])).tolist() == [[True] * 3, [False] * 3]
    new.save(tmp_path / "forgot")
    folder = model.save(tmp_path / "old")
    ml.memorize(X[1:3], Y[1:3], draw=folder, unknown=True).save(tmp_path / "never knew")
    record.undo(new).save(tmp_path / "back")
    for one, two in (("forgot", "never knew"), ("back", "old")):
        for path in (tmp_path / one).iterdir():
            assert path.read_bytes() == (tmp_path / two / path.name).read_bytes()


# -- any data ------------------------------------------------------------------------------------------------


def _short(label: Any) -> Any:
    """Real labels in numbers of float32."""
    if isinstance(label, list):
        return [_short(each) for each in label]
    return float(np.float32(label)) if isinstance(label, float) else label


@settings(max_examples=6, deadline=None)
@given(datasets(), CHOICES, st.data())
def test_edits_of_any_data_are_the_models_of_what_remains(data: Dataset, options: Any, choice: st.DataObject) -> None:
    """Ids or vectors, ragged, causal, labels of tokens or of sequences: some rows out, and in again."""
    whole = Sequences.of(data.X, [_short(y) for y in data.Y] if "dtype" in options else data.Y)
    # A pair of reals for a pair of tokens could be labels of either.
    assume(whole.labels is not None and whole.labels.per == data.per)
    assume(not options or whole.vocabulary is not None)
    assume("robust" not in options or whole.labels.classes is not None)
    rows = np.array(sorted(choice.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1))))
    assume(len(rows) < len(whole))
    rest, lost = whole.select(np.setdiff1d(np.arange(len(whole)), rows)), whole.select(rows)
    try:
        model = ml.memorize(whole, positions=data.positions, causal=data.causal, **options)
        never = ml.memorize(rest, draw=model)
    except ml.PrecisionError:
        assume(False)
    model.card = replace(model.card, summary=None)
    assert same_bits(ml.memorize(whole, draw=model), model)
    new, record = ml.forget(ml.Facts.of(model, whole), rows)
    assert same_bits(new.model, never)
    assert same_bits(record.apply(model), never)
    assert same_bits(record.undo(never), model)
    if len(never.feed_forward.stairs) == 1:
        assert ml.certify(never, rest, only=True).verdict == "proved"
    try:
        all_ = ml.memorize(joined(rest, lost), draw=never)
    except (ml.PrecisionError, ml.DataError) as error:
        with pytest.raises(type(error)):
            ml.insert(new, lost)
        return
    back, record = ml.insert(new, lost)
    assert same_bits(back.model, all_)
    assert same_bits(all_, ml.memorize(joined(rest, lost), draw=model))  # what comes back gets what it had
    assert same_bits(record.undo(all_), never)


# -- stages that come and go -----------------------------------------------------------------------------------


def test_stages_come_and_go(tmp_path: Path) -> None:
    """An edit may need one that the model lacks; few facts that are left need none."""
    model, data = built("cascade sequences")
    first, later = data.select(np.arange(5)), data.select(np.arange(5, len(data)))
    part = ml.memorize(first, dtype="float32")
    part.card = replace(part.card, summary=None)
    new, record = ml.insert(part, later, None, first)
    assert (len(part.feed_forward.stairs), len(new.feed_forward.stairs)) == (1, 2)
    check(part, new, record, data, tmp_path)
    assert "attention.W_K (whole)" in record.explain()
    back, record = ml.forget(model, np.arange(5, len(data)), data)
    assert len(back.feed_forward.stairs) == 1
    check(model, back, record, first, tmp_path)


def test_a_draw_that_cannot_hold_the_edit_names_the_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = built("cascade next")
    facts = ml.Facts.of(model, data)
    monkeypatch.setattr("monolayer.construct.line.values.LARGEST_RANK", 1)
    with pytest.raises(ml.PrecisionError, match=r"token \d+ of sequence \d+ and .* no value rank up to"):
        ml.forget(facts, [0])


# -- robust models: only the tokens that an edit touches are found anew ---------------------------------------


@pytest.mark.parametrize("name", ["robust bfloat16", "robust causal"])
def test_only_the_tokens_that_are_touched_are_covered_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from monolayer.construct.again import draw_of
    from monolayer.construct.robust import build as robust
    from monolayer.construct.robust.again import neuron_tokens

    model, data = built(name)
    tokens_covered: list[int] = []
    cover = robust.cover

    def counted_cover(cells: Any, *given: Any) -> Any:
        tokens_covered.append(len(cells.base))
        return cover(cells, *given)

    monkeypatch.setattr(robust, "cover", counted_cover)
    values = data.labels.values.copy()
    values[0] = (values[0] + 1) % 4
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = ml.edit(model, edited.select(np.array([0])), None, data)
    assert tokens_covered == [1, 1]  # one token, once with its old label and once with its new one
    token = int(data.tokens[0])
    cells = neuron_tokens(model, draw_of(model))
    for splice in record.splices:
        if splice.tensor.startswith("feed_forward"):
            assert (cells[splice.out] == token).all()
        else:
            assert splice.out.tolist() == [token]
    found = ml.compare(model, new, data)
    assert not found.same
    assert found.only_one <= record.neurons[0]
    assert {int(data.tokens[data.offsets[a.sequence] + a.position]) for a in found.differing} == {token}


def test_new_tokens_and_classes_get_the_next_words_of_their_codes(tmp_path: Path) -> None:
    model, data = built("robust words")
    new, record = ml.insert(model, ["快跑"], [["k", "pao"]], data)
    whole = ml.Sequences.of([*kinds.WORDS[0], "快跑"], [*kinds.WORDS[1], ["k", "pao"]])
    check(model, new, record, whole, tmp_path)
    assert [change.after for change in record.changes] == ["k", "pao"]
    gone, record = ml.forget(new, ["快跑"], whole)
    assert record.changes[0].refused
    assert same_bits(gone, ml.memorize(data, draw=new))
    tokens = [[f"t{i}", "快"] for i in range(31)]
    with pytest.raises(ml.DataError, match="no word left for more tokens"):
        ml.insert(model, tokens, [["k", "k"]] * 31, data)
    with pytest.raises(ml.DataError, match="no word left for more classes"):
        ml.insert(model, [["快"] * (i + 9) for i in range(31)], [[f"c{i}"] * (i + 9) for i in range(31)], data)


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
    at = int(record.splices[0].put[0])
    new.feed_forward.weight_2.data[:, at] *= -1.0
    assert ml.certify(new, rest).verdict == "refuted"
    with pytest.raises(ml.DataError, match="not the data that the model holds"):
        ml.forget(new, np.unique(rest.sequence[new.labels(rest) != rest.labels.values]), rest)


# -- selections, comparisons, errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("selection", [["行走"], [1], Sequences.of(["行走"]), np.array([1])])
def test_what_to_forget_can_be_said_in_many_ways(words: ml.Monolayer, selection: Any) -> None:
    new, record = ml.forget(words, selection, DATA)
    rest = ml.memorize([WORDS[0], *WORDS[2:]], [READINGS[0], *READINGS[2:]], draw=words)
    assert ml.compare(new, rest).same
    assert record.facts == 2


def test_a_comparison_lists_weights_neurons_and_answers(words: ml.Monolayer) -> None:
    new, _ = ml.edit(words, ["行走"], [["háng", "zǒu"]], DATA)
    found = ml.compare(words, new, WORDS)
    assert not found.same
    assert [(answer.one, answer.two) for answer in found.differing] == [("xíng", "háng")]
    assert 0 < found.only_one <= 2
    assert 0 < found.only_two <= 2
    refused = ml.compare(words, ml.forget(words, [0, 1], DATA)[0], WORDS)
    assert refused.answers == 4
    assert refused.differing[0].two is None
    assert ml.compare(words, words, WORDS).same


class Refusal(NamedTuple):
    act: Callable[[ml.Monolayer, Any], Any]
    error: type[Exception]
    says: str


REFUSALS = {
    "edit of an unknown fact": Refusal(
        lambda m, d: ml.edit(m, ["走行"], [["zǒu", "xíng"]], d), ml.DataError, "use insert"
    ),
    "insert of a fact with another label": Refusal(
        lambda m, d: ml.insert(m, ["行走"], [["háng", "zǒu"]], d), ml.ContradictionError, "sequence 1, .* use edit"
    ),
    "two edits that contradict each other": Refusal(
        lambda m, d: ml.edit(m, ["行走"] * 2, [["a", "b"], ["a", "c"]], d), ml.ContradictionError, "contradict each"
    ),
    "forget an unknown fact": Refusal(lambda m, d: ml.forget(m, ["走行"], d), ml.DataError, "not in the data"),
    "forget a row beyond the end": Refusal(lambda m, d: ml.forget(m, [9], d), ml.DataError, "no row 9"),
    "forget nothing": Refusal(lambda m, d: ml.forget(m, [], d), ml.DataError, "empty"),
    "forget an unknown string": Refusal(lambda m, d: ml.forget(m, "走行", d), ml.DataError, "not in the data"),
    "no data": Refusal(lambda m, d: ml.forget(m, [0]), ml.DataError, "needs the data .* read out with predict"),
    "data given twice": Refusal(lambda m, d: ml.forget(ml.Facts.of(m, *d), [0], d), ml.DataError, "leave data out"),
    "a mask in place of rows": Refusal(
        lambda m, d: ml.forget(m, np.arange(5) < 2, d), ml.DataError, r"np\.flatnonzero\(mask\)"
    ),
    "forget everything": Refusal(lambda m, d: ml.forget(m, range(5), d), ml.DataError, "forget all rows"),
    "too few rows of data": Refusal(
        lambda m, d: ml.forget(m, [0], (WORDS[:3], READINGS[:3])), ml.DataError, "5 sequences .* these are 3 with 6"
    ),
    "labels of other data": Refusal(
        lambda m, d: ml.forget(m, [0], (WORDS, READINGS[::-1])), ml.DataError, "not the data that the model holds"
    ),
    "tokens of other data": Refusal(
        lambda m, d: ml.forget(m, [0], ([*WORDS[:4], "走快"], READINGS)), ml.DataError, "not the data that the model"
    ),
    "a token that the model lacks": Refusal(
        lambda m, d: ml.forget(m, [0], ([*WORDS[:4], "天地"], READINGS)), ml.DataError, "never seen"
    ),
    "a sequence longer than the model": Refusal(
        lambda m, d: ml.insert(m, ["音乐快乐"], [["a"] * 4], d), ml.DataError, "2 positions"
    ),
    "tokens of another kind": Refusal(lambda m, d: ml.edit(m, [[1, 2]], [["a", "b"]], d), ml.DataError, "integer"),
    "labels of another kind": Refusal(
        lambda m, d: ml.edit(m, ["行走"], [[0.5, 1.5]], d), ml.DataError, "the labels are reals"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bad_input_is_named(words: ml.Monolayer, name: str) -> None:
    refusal = REFUSALS[name]
    with pytest.raises(refusal.error, match=refusal.says):
        refusal.act(words, DATA)


def test_data_that_lack_a_row_are_refused() -> None:
    """Without a summary, which counts them, by the bits that they would give."""
    for kind in ("line", "cascade sequences", "robust positions"):
        model, data = built(kind)
        rest = data.select(np.arange(1, len(data)))
        row = int(rest.sequence[rest.tokens == data.tokens[0]][0]) if kind.startswith("robust") else 0
        with pytest.raises(ml.DataError, match=r"its \S+ is not the one that they determine, so it holds other data"):
            ml.forget(model, [row], rest)


@pytest.mark.parametrize(("robust", "vectors"), [(False, False), (False, True), (True, False)])
def test_a_stored_draw_that_says_anything_is_refused_in_words(robust: bool, vectors: bool) -> None:
    """A file whose digests fit may still say anything: never a traceback, nor more memory than there is."""
    X = [[[0.1, 0.2], [0.7, 0.4]], [[0.5, 0.9], [0.3, 0.8]]] if vectors else [[1, 2], [3, 1]]
    Y = [[0, 1], [1, 0]]
    model = ml.memorize(X, Y, robust=robust, positions=True)
    draw = model.card.draw
    assert draw is not None
    for name, kept in draw.items():
        for value in (None, -1, 0, "x", "", 1.5, True, [], {}, [[1]], 10**15, 10**30, 10**400, 1e308, float("inf")):
            model.card = replace(model.card, draw=draw | {name: value})
            if value != kept:
                with contextlib.suppress(ml.DataError, ml.PrecisionError):  # another seed is a draw too
                    ml.memorize(X, Y, draw=model)


def test_what_has_no_draw_or_no_facts_says_so(tmp_path: Path) -> None:
    model = ml.memorize([[1, 2]], [[0, 1]])
    changed = copy.deepcopy(model)
    changed.attention.W_V.data[1, 0] = 0.0625  # moves points along their plateaus: the answers stay
    assert changed.predict(np.array([[1, 2]])).tolist() == [[0, 1]]
    with pytest.raises(ml.DataError, match=r"attention\.W_V is not the one .* was changed"):
        ml.forget(changed, [[1, 2]], ([[1, 2]], [[0, 1]]))
    for draw, why in ((None, "no draw"), ({}, "not one that memorize stored"), ({"construction": "line"}, "'seed'")):
        changed.card = replace(model.card, draw=draw)
        with pytest.raises(ml.DataError, match=why):
            ml.memorize([[1, 2]], [[0, 1]], draw=changed)
    function = ml.approximate(lambda X: X, 1, 2, cells=2)
    with pytest.raises(ml.DataError, match="stores a function"):
        ml.forget(function, [0], ([[[0.1], [0.2]]], [[0.1, 0.2]]))
    sup = ml.approximate(lambda X: X, 1, 2, cells=2, norm="sup")
    for act in (lambda m: ml.edit(m, [[1]], [[0]]), lambda m: ml.compare(m, model), lambda m: ml.compare(model, m)):
        with pytest.raises(ml.DataError, match="holds a function, not facts"):
            act(sup)
    with pytest.raises(ml.ModelFileError, match="does not exist"):
        ml.forget(tmp_path / "none", [0], ([[1, 2]], [[0, 1]]))


@pytest.mark.parametrize("kind", ["line", "robust positions"])
@pytest.mark.parametrize("option", ["seed", "dtype", "rank", "robust", "temperature", "positions", "causal"])
def test_an_option_that_the_draw_decides_is_refused_by_name(kind: str, option: str) -> None:
    """Whatever it says."""
    model, data = built(kind)
    with pytest.raises(ml.DataError, match=f"a draw decides {option}: leave {option} out, or the draw"):
        ml.memorize(data, draw=model, **{option: True})


# -- names that nothing uses any more --------------------------------------------------------------------------

TABLE = {"France": "Paris", "Bolivia": "Sucre", "Peru": "Lima", "New Zealand": "Wellington"}
PROMPTS = (["The capital of Bolivia is", "The capital of Peru is"], [" Sucre", " Lima"])
NAMED: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "line": (lambda: ml.memorize(TABLE), TABLE, ["Bolivia"]),
    "robust": (lambda: ml.memorize(TABLE, robust=True, rank=16), TABLE, ["Bolivia"]),
    "next tokens": (lambda: ml.memorize(["ab", "cd"], causal=True), ["ab", "cd"], ["ab"]),
    "cells": (lambda: ml.memorize_as("bert", TABLE, rank=16, unknown="?"), TABLE, ["Bolivia"]),
    "steps": (lambda: ml.memorize_as("gpt2", TABLE, per="sequence", storage="steps"), TABLE, ["Bolivia"]),
    "prompts": (lambda: ml.memorize_as("llama", *PROMPTS, rank=16), PROMPTS, [0]),
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_of_forgotten_facts_stay_or_are_dropped(kind: str, tmp_path: Path) -> None:
    build, data, gone = NAMED[kind]
    model = build()
    rest = data[1:] if isinstance(data, list) else tuple(part[1:] for part in data) if kind == "prompts" else None
    rest = rest or {key: value for key, value in TABLE.items() if key != "Bolivia"}
    secret = ["a", "b"] if kind == "next tokens" else ["Bolivia", "Sucre"]
    plain, stays = ml.forget(model, gone, data)
    assert (stays.names.count, stays.names.dropped) == (2, False)
    assert [name.strip() for name in stays.names.first] == secret
    assert "stay in the files" in stays.explain()
    new, record = ml.forget(model, gone, data, names=True)
    assert "dropped 2 that no fact uses any more" in record.explain()

    found = ml.compare(plain, new)
    assert (found.weights, found.config, found.names, found.only_one) == ({}, {}, False, 0)
    folder, card = new.save(tmp_path / "new"), plain.save(tmp_path / "plain") / "README.md"
    said = "".join(path.read_text("utf-8") for path in folder.glob("*.json"))
    assert not [name for name in secret if f'"{name}"' in said or f'" {name}"' in said]
    if card.exists():
        assert "2 names that no fact uses" in card.read_text("utf-8")
        assert "that no fact uses" not in (folder / "README.md").read_text("utf-8")
    pair = rest if isinstance(rest, tuple) else (rest,)
    assert ml.certify(folder, *pair).verdict == "proved"

    # An edited model is still a function of its draw and its data; and what was done is undone from a file.
    saved = ml.Record.load(record.save(tmp_path / "record.json"))
    assert ml.compare(saved.apply(model), new).same
    assert ml.compare(saved.undo(folder), model).same
    assert ml.Facts.of(folder, *pair).model is not None
    again, record = ml.forget(ml.Facts.of(model, *(data if isinstance(data, tuple) else (data,))), gone, names=True)
    assert ml.compare(again.model, new).same
    if kind in ("line", "cells"):
        _, more = ml.forget(again, ["Peru"], names=True)
        assert more.names.first == ("Peru", "Lima")  # those that are gone already are not named again


def test_integers_are_not_names(tmp_path: Path) -> None:
    X, Y = [[1, 2], [3, 4]], ["u", "v"]
    _, record = ml.forget(ml.memorize_as("bert", X, Y, rank=16), [0], (X, Y), names=True)
    assert (record.names.count, record.names.first) == (1, ("u",))
