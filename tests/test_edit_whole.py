"""Cascades, and lines in float32: an edit is, bit for bit, the model of the edited data."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.construct.line.reuse import Reused
from monolayer.construct.target import Target
from monolayer.editing.answered import standing
from monolayer.editing.splice import array_of
from monolayer.model.cascade import Cascade
from monolayer.model.staircase import Staircase
from tests.datasets import Dataset, datasets, view
from tests.stored_models import Saved
from tests.test_edit import same_bits, sequences
from tests.test_edit_cli import same_folders, write

EXAMPLES = 8
RULES: dict[str, dict[str, Any]] = {
    "tokens": {"positions": True},
    "sequences": {"positions": True},
    "next": {"causal": True},
    "vectors": {},
    "ragged": {},
    "reals": {"positions": True},
    "order": {"positions": True},
    "sets": {},
    "causal": {"causal": True},
}


def _data(kind: str) -> tuple[Any, Any]:
    random = np.random.default_rng(sum(map(ord, kind)))
    X, Y = random.integers(0, 40, (400, 8)), random.integers(0, 9, (400, 8))
    if kind == "cascade sequences":
        return random.integers(0, 40, (2000, 8)), random.integers(0, 9, 2000)
    if kind == "cascade next":
        first = 40 + np.arange(100)[:, None]  # no two prefixes are equal
        return np.concatenate([first, random.integers(0, 40, (100, 60))], axis=1), None
    if kind == "cascade vectors":
        return random.standard_normal((300, 6, 4)), random.integers(0, 9, 300)
    if kind == "cascade ragged":
        rows = [random.integers(0, 40, size).tolist() for size in random.integers(1, 9, 900)]
        names: dict[Any, str] = {}
        return rows, [names.setdefault(tuple(sorted(row)), f"{len(names) % 7}") for row in rows]
    if kind == "cascade reals":
        return X, random.standard_normal((400, 8, 2)).astype(np.float32).astype(np.float64)
    if kind == "line reals":
        return random.standard_normal((12, 4, 3)), Y[:12, :4] / 8.0
    return (X[:12, :4], Y[:12, :4]) if kind == "line order" else (X, Y)


@cache
def built(kind: str) -> tuple[ml.Monolayer, ml.Sequences]:
    """A model of some kind and its data, with labels that do not contradict each other."""
    layout, _, rules = kind.partition(" ")
    X, Y = _data(kind)
    rank: Any = "auto" if layout == "cascade" else 1
    model = ml.memorize(X, Y, dtype="float32", rank=rank, on_conflict="first", **RULES[rules])
    assert type(model.feed_forward) is {"cascade": Cascade, "line": Staircase}[layout]
    model.card = replace(model.card, summary=None)
    return model, ml.Sequences.of(X, Y)


CASCADES = [f"cascade {kind}" for kind in ("tokens", "sequences", "next", "vectors", "ragged", "reals")]
KINDS = [*CASCADES, "line order", "line reals"]


def check(model: ml.Monolayer, new: ml.Monolayer, record: ml.Record, data: ml.Sequences, folder: Path) -> None:
    """The edited model is that of the edited data, proved; its record goes both ways, through a file too."""
    never = ml.memorize(data, draw=model)
    assert type(new.feed_forward) is type(never.feed_forward)
    assert type(new.attention) is type(never.attention)
    assert same_bits(new, never)
    bits = [{name: array_of(part).tobytes() for name, part in each.state_dict().items()} for each in (new, never)]
    assert bits[0] == bits[1]  # NaN and the signs of zeros included
    assert ml.certify(new, data, only=True).verdict == "proved"
    record.save(folder / "record.json")
    loaded = ml.Record.load(folder / "record.json")
    assert same_bits(loaded.apply(model), new)
    assert same_bits(loaded.undo(new), model)
    assert loaded.explain() == record.explain()
    assert json.loads((folder / "record.json").read_text())["version"] == (2 if record.swaps else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_draw_of_a_model_and_its_data_give_the_model(kind: str, tmp_path: Path) -> None:
    """Every tensor, whatever the order of the rows, and through a file."""
    model, data = built(kind)
    assert same_bits(ml.memorize(data, draw=model), model)
    model.save(tmp_path / "model")
    shuffled = data.select(np.random.default_rng(0).permutation(len(data)))
    assert same_bits(ml.memorize(shuffled, draw=ml.load(tmp_path / "model")), model)


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_is_memorizing_the_rest(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    new, record = model.forget([1, 3], data)
    rest = data.select(np.setdiff1d(np.arange(len(data)), [1, 3]))
    check(model, new, record, rest, tmp_path)
    assert record.informed
    assert same_bits(model.forget(data.select(np.array([1, 3])), data)[0], new)
    again, _ = ml.forget(ml.WholeFacts.of(new, rest), [0])
    assert same_bits(again.model, ml.memorize(rest.select(np.arange(1, len(rest))), draw=new))
    found = ml.compare(model, new, data)
    if model.card.classes is not None:  # of reals, a label is a neuron of its own
        assert (found.only_one, found.only_two) == record.neurons
    else:
        assert all(np.less_equal((found.only_one, found.only_two), record.neurons))
    answered = [change for change in record.changes if change.after is not None]
    asked = new.encode(ml.Sequences.of([change.tokens for change in answered])) if answered else None
    if asked is not None:  # the record says what the network answers
        names = new.card.decode(new.labels(asked, path="dense")).tolist()
        if model.card.per == "token":
            names = [row[change.position] for row, change in zip(asked.split(np.array(names)), answered, strict=True)]
        assert [np.array(name).tolist() for name in names] == [change.after for change in answered]


@pytest.mark.parametrize("kind", KINDS)
def test_inserting_is_memorizing_all(kind: str, tmp_path: Path) -> None:
    """New tokens too: a causal model, and one whose cells are few, have never seen those of the last rows."""
    model, data = built(kind)
    first, later = data.select(np.arange(len(data) - 2)), data.select(np.array([len(data) - 2, len(data) - 1]))
    part = ml.memorize(first, draw=model)
    new, record = part.insert(later, None, first)
    check(part, new, record, data, tmp_path)
    assert {change.before for change in record.changes} == {None}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith("next")])
def test_editing_is_memorizing_the_edited_data(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    assert data.labels is not None
    values = data.labels.values.copy()
    place = 2 if data.labels.per == "sequence" else int(data.offsets[2])
    values[place] = (values[place] + 1) % 7 if data.labels.classes is not None else 3.0
    edited = replace(data, labels=replace(data.labels, values=values))
    new, record = model.edit(edited.select(np.array([2])), None, data)
    check(model, new, record, ml.WholeFacts.of(new, _with_twins(data, place, values[place], model)).data, tmp_path)
    changed = [change for change in record.changes if not change.stays]
    assert [change.after for change in changed] == model.card.decode(values[place : place + 1]).tolist()
    nothing, record = new.edit(edited.select(np.array([2])), None, _with_twins(data, place, values[place], model))
    assert same_bits(nothing, new)
    assert record.splices == record.swaps == ()


def _with_twins(data: ml.Sequences, place: int, value: Any, model: ml.Monolayer) -> ml.Sequences:
    """`data` with another label at a place, and at every place that is the same fact."""
    from monolayer.construct.consistency import equal_points
    from monolayer.construct.task import Task

    task = Task.of(data, positions=model.positions is not None, causal=model.card.causal, on_conflict="first")
    group = equal_points(task.context, task.target)
    assert data.labels is not None
    values = data.labels.values.copy()
    values[group == group[place]] = value
    return replace(data, labels=replace(data.labels, values=values))


def _check_both_ways(model: ml.Monolayer, whole: ml.Sequences, gone: set[int]) -> None:
    """Some rows out and in again: each time the model of what is then held."""
    rows = np.array(sorted(gone))
    rest, lost = whole.select(np.setdiff1d(np.arange(len(whole)), rows)), whole.select(rows)
    new, record = ml.forget(ml.WholeFacts.of(model, whole), rows)
    never = ml.memorize(rest, draw=model)
    assert same_bits(new.model, never)
    assert type(new.model.feed_forward) is type(never.feed_forward)
    assert same_bits(record.apply(model), new.model)
    assert same_bits(record.undo(new.model), model)
    assert ml.certify(new.model, rest, only=True).verdict == "proved"
    try:
        back, record = ml.insert(new, lost)
    except ml.PrecisionError:
        with pytest.raises(ml.PrecisionError):
            ml.memorize(_joined(rest, lost), draw=new.model)
        return
    assert same_bits(back.model, ml.memorize(_joined(rest, lost), draw=new.model))
    assert same_bits(record.undo(back.model), new.model)
    assert ml.certify(back.model, whole, only=True).verdict == "proved"


@settings(max_examples=EXAMPLES, deadline=None)
@given(datasets(), st.data())
def test_edits_of_any_line_in_float32_are_the_models_of_what_remains(data: Dataset, choice: st.DataObject) -> None:
    whole = sequences(replace(data, Y=[_short(y) for y in data.Y]))
    gone = choice.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1))
    assume(len(gone) < len(whole))
    model = ml.memorize(whole, positions=data.positions, causal=data.causal, dtype="float32")
    model.card = replace(model.card, summary=None)
    _check_both_ways(model, whole, gone)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["float64", "float32"]),
    st.sampled_from([{"positions": True}, {}, {"causal": True}]),
    st.sampled_from([4.0, 16.0]),
)
def test_edits_of_crowded_lines_are_the_models_of_what_remains(
    seed: int, dtype: Any, rules: dict[str, Any], crowd: float
) -> None:
    """Steps ask for `crowd` times the room that the line has."""
    random = np.random.default_rng(seed)
    X = [random.integers(0, 10, random.integers(2, 6)).tolist() for _ in range(int(random.integers(8, 25)))]
    labels: dict[Any, int] = {}
    seen = [[view(row, k, "positions" in rules, "causal" in rules) for k in range(len(row))] for row in X]
    Y = [[labels.setdefault(key, int(random.integers(0, 5))) for key in row] for row in seen]
    whole = ml.Sequences.of(X, Y)
    line = ml.memorize(whole, dtype=dtype, **rules)
    assert line.summary is not None
    assert line.summary.margin is not None
    with pytest.MonkeyPatch.context() as patch:
        for module in ("points", "separate"):
            patch.setattr(f"monolayer.construct.line.{module}.SLACK", crowd * line.summary.margin)
        try:
            model = ml.memorize(whole, dtype=dtype, **rules)
        except ml.PrecisionError:
            assume(False)
        _check_both_ways(model, whole, set(random.permutation(len(X))[: len(X) // 4 + 1].tolist()))


def _short(label: Any) -> Any:
    """Real labels in numbers of float32."""
    if isinstance(label, list):
        return [_short(each) for each in label]
    return float(np.float32(label)) if isinstance(label, float) else label


def _joined(one: ml.Sequences, two: ml.Sequences) -> ml.Sequences:
    tokens, lengths = (np.concatenate([getattr(part, name) for part in (one, two)]) for name in ("tokens", "lengths"))
    assert one.labels is not None
    assert two.labels is not None
    labels = replace(one.labels, values=np.concatenate([one.labels.values, two.labels.values]))
    return ml.Sequences(tokens, lengths, one.vocabulary, labels)


# -- stages and tokens that come and go --------------------------------------------------------------------


def test_an_edit_may_need_a_stage_that_the_draw_lacks(tmp_path: Path) -> None:
    """It averages values drawn anew; taking it back takes the stage out again."""
    model, data = built("cascade next")
    first, later = data.select(np.arange(10)), data.select(np.arange(10, len(data)))
    part = ml.memorize(first, draw=model)
    new, record = part.insert(later, None, first)
    assert (part.feed_forward.rank, new.feed_forward.rank) == (2, 3)
    check(part, new, record, data, tmp_path)
    assert {swap.tensor for swap in record.swaps if swap.before is None} == {
        f"feed_forward.stages.2.{name}" for name in ("weight_1", "bias_1", "weight_2", "bias_2")
    }
    assert "stage 3: 0 out or changed" in record.explain()
    assert "another shape: attention.W_K" in record.explain()
    found = ml.compare(part, new, first)
    assert {answer.position for answer in found.differing} == {60}  # the last token, which has no label
    assert {step.stage for step in found.steps[1]} == {1}  # the first hundred of them
    with pytest.raises(ml.DataError, match=r"feed_forward\.stages\.\d\.\w+|is not as this record found it"):
        record.apply(new)


@pytest.mark.parametrize("kind", ["cascade tokens", "cascade vectors", "cascade reals"])
def test_few_facts_that_are_left_make_a_line_of_a_cascade(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    new, record = model.forget(np.arange(5, len(data)), data)
    assert isinstance(new.feed_forward, Staircase)
    check(model, new, record, data.select(np.arange(5)), tmp_path)
    assert record.undo(new).feed_forward.rank == 2
    found = ml.compare(model, new)
    assert found.only_one == model.feed_forward.step_count
    assert found.only_two == new.feed_forward.step_count


@pytest.mark.parametrize("kind", ["cascade tokens", "line order"])
def test_new_tokens_and_classes_come_and_go(kind: str, tmp_path: Path) -> None:
    model, data = built(kind)
    X, Y = [[700, 1, 2], [2, 701, 1]], [[9, 10, 0], [1, 2, 3]]
    assert data.labels is not None
    whole = ml.Sequences.of([*np.split(data.tokens, data.offsets[1:-1]), *map(np.array, X)],
                            [*np.split(data.labels.values, data.offsets[1:-1]), *map(np.array, Y)])  # fmt: skip
    new, record = model.insert(X, Y, data)
    check(model, new, record, whole, tmp_path)
    assert [change.after for change in record.changes] == Y[0] + Y[1]
    gone, record = new.forget(700, whole)
    assert all(change.refused for change in record.changes)
    left = whole.select(np.setdiff1d(np.arange(len(whole)), len(data)))
    assert same_bits(gone, ml.memorize(left, draw=new))


def test_fingerprints_and_shared_facts_follow() -> None:
    X, Y = [[1, 2, 3], [1, 2, 3], [2, 3, 1], [3, 3, 2]], [[0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]]
    model = ml.memorize(X, Y, dtype="float32", positions=True, fingerprint=True)
    new, record = model.forget([0, 3], (X, Y))
    assert record.shared == 3
    assert np.array(new.seen([X[1], X[3]])).tolist() == [[True] * 3, [False] * 3]
    assert np.array_equal(record.undo(new).card.fingerprint.words, model.card.fingerprint.words)


# -- what is answered --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cascade tokens", "cascade next", "line order"])
def test_where_facts_stand_is_what_the_network_answers(kind: str) -> None:
    """Off ramps the label of a plateau; on one of a line something between two."""
    model, data = built(kind)
    random = np.random.default_rng(3)
    width = int(data.lengths.max())
    known = np.unique(data.tokens)
    asked = model.encode(random.choice(known, (300, width)))
    found = standing(model, asked)
    dense = model.labels(asked, path="dense")
    free = ~found.ramp
    assert np.array_equal(dense[free], found.left[free])
    assert np.array_equal(found.left[free], found.right[free])
    assert found.ramp.any()
    if not isinstance(model.feed_forward, Cascade):
        low, high = np.minimum(found.left, found.right), np.maximum(found.left, found.right)
        assert ((low <= dense) & (dense <= high)).all()


# -- without the data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["line order", "line reals"])
@pytest.mark.parametrize("what", ["forget", "edit"])
def test_without_the_data_only_the_claimed_intervals_change(kind: str, what: str) -> None:
    """Outside of them, and in all other cells, old and new readout are one function; inside stands the new label."""
    model, data = built(kind)
    asked = data.select(np.array([5, 9]))
    assert asked.labels is not None
    values = np.roll(asked.labels.values, 1, axis=0)
    asked = replace(asked, labels=replace(asked.labels, values=values))
    new, record = model.forget(asked) if what == "forget" else model.edit(asked, None)
    assert not record.informed
    assert same_bits(record.undo(new), model)
    assert same_bits(record.apply(model), new)
    ends = np.array(record.intervals)
    assert (ends[:, 1] - ends[:, 0] < 1e-3).all()
    draw, own = Reused.of(new), new.encode(asked)
    target = Target(np.zeros(len(own.tokens), np.int64), np.zeros((1, 1)), "token", None, False)
    z, _ = draw.place(own, target)
    near = [np.nextafter(ends[:, side].astype(np.float32), np.float32(way)) for side, way in ((0, -9e9), (1, 9e9))]
    tries = np.concatenate([*near, z, np.linspace(z.min() - 1.0, z.max() + 1.0, 400)]).astype(np.float32)
    out = tries[~((ends[:, 0] <= tries[:, None]) & (tries[:, None] <= ends[:, 1])).any(axis=1)]
    assert len(out) > 400
    labels = [_read(each, out) for each in (model, new)]
    flat = np.isclose(labels[0], np.round(labels[0] * 8.0) / 8.0, atol=0.0).all(axis=1)  # off ramps
    assert np.array_equal(labels[0][flat], labels[1][flat])
    assert np.allclose(*labels, atol=1e-4)
    rest = data.select(np.setdiff1d(np.arange(len(data)), [0, 5, 9]))
    if what == "edit":
        assert ml.certify(new, asked).verdict == "proved"
    assert ml.certify(new, rest).verdict == "proved"  # with the data the claim becomes a proof: nobody lives so near
    old = (c.before for c in record.changes)
    assert list(old) == model.card.decode(model.labels(own))[: len(record.changes)].tolist()


def _read(model: ml.Monolayer, z: Any) -> Any:
    """Label coordinates by the dense readout, at numbers of the line."""
    with torch.no_grad():
        return model.feed_forward.dense(torch.from_numpy(z)).double().numpy()


def test_what_a_short_format_cannot_hold_is_refused_without_the_data_too() -> None:
    model, data = built("line reals")
    with pytest.raises(ml.PrecisionError, match=r"0\.1 is no number of float32"):
        model.edit(data.tokens[:4][None], [[0.1] * 4])
    model = ml.memorize([[1, 2]], [[0, 0]], dtype="float32")
    with pytest.raises(ml.PrecisionError, match="more than a head in float32 tells apart"):
        model.edit([[1, 2]] * 1, [[0, 1000]])
    new, _ = model.edit([[1, 2]], [[0, 1]])  # one label everywhere: no step to lean on
    assert new.predict([[1, 2]])[0].tolist() == [0, 1]


# -- gone from the readout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_forgotten_is_gone_and_what_was_not_is_seen(kind: str) -> None:
    model, data = built(kind)
    assert ml.certify(model, data, only=True).verdict == "proved"
    rest = data.select(np.arange(1, len(data)))
    proof = ml.certify(model, rest, only=True)
    assert proof.verdict == "refuted"
    assert "the model holds more than the data" in proof.reason
    assert ml.certify(model, rest).verdict == "proved"


def test_a_cascade_holds_nothing_else_iff_it_is_the_model_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of small cascades, one after the other: every way in which something may be left is met."""
    random = np.random.default_rng(6)
    X: Any = [random.integers(0, 10, random.integers(2, 6)).tolist() for _ in range(14)]
    labels: dict[Any, int] = {}
    seen = [[view(row, k, False, False) for k in range(len(row))] for row in X]
    Y: Any = [[labels.setdefault(key, int(random.integers(0, 5))) for key in row] for row in seen]
    random = np.random.default_rng(9)
    reals = random.integers(0, 9, (30, 4)), random.integers(0, 3, 30) / 4.0
    reasons = []
    for whole, positions in ((ml.Sequences.of(X, Y), False), (ml.Sequences.of(*reals), True)):
        room = 16.0 * ml.memorize(whole, positions=positions).summary.margin
        with monkeypatch.context() as patch:
            for module in ("points", "separate"):
                patch.setattr(f"monolayer.construct.line.{module}.SLACK", room)
            model = ml.memorize(whole, positions=positions)
            model.card = replace(model.card, summary=None)
            assert isinstance(model.feed_forward, Cascade)
            facts = ml.WholeFacts.of(model, whole)
            for row in range(len(whole)):
                new, _ = ml.forget(facts, [row])
                proof = ml.certify(model, new.data, only=True)
                assert (proof.verdict == "proved") == same_bits(new.model, model)
                reasons.append(proof.reason)
    for words in (
        "holds no labelled point",
        "from the middle of its gap",
        "the least that its points miss",
        "cut into",
    ):
        assert any(words in reason for reason in reasons), words


def test_a_label_hidden_where_no_point_falls_is_found(tmp_path: Path) -> None:
    """Two steps, up and down again, in a later stage, or in a cell: no answer changes."""
    model, data = built("cascade tokens")
    model.save(tmp_path / "model")
    case = Saved.read(tmp_path / "model")
    name = "feed_forward.stages.1"
    slope, level = np.float32(2.0**10), float(case.tensors["feed_forward.stages.0.bias_2"][1]) + 40.0
    start = np.array([level, level + 0.25], dtype=np.float32)  # far right of every stretch
    tensors = dict(case.tensors)
    tensors[f"{name}.weight_1"] = np.append(tensors[f"{name}.weight_1"], [slope, slope]).astype(np.float32)
    tensors[f"{name}.bias_1"] = np.append(tensors[f"{name}.bias_1"], -slope * start).astype(np.float32)
    jumps = np.array([[-1.0, 1.0]], dtype=np.float32)
    tensors[f"{name}.weight_2"] = np.append(tensors[f"{name}.weight_2"], jumps, axis=1)
    steps = [case.config["cascade"]["steps"][0], tensors[f"{name}.weight_1"].size]
    config = case.config | {"cascade": {"steps": steps}, "steps": sum(steps)}
    folder = Saved(config, tensors, case.names).write(tmp_path / "planted")
    assert ml.certify(folder, data).verdict == "proved"
    proof = ml.certify(folder, data, only=True)
    assert proof.verdict == "refuted"
    assert "stage 2: the plateau from" in proof.reason


def _planted(model: ml.Monolayer, folder: Path, change: Any) -> Path:
    """The saved model with tensors that `change` has changed in place."""
    model.save(folder / "plain")
    case = Saved.read(folder / "plain")
    tensors = {name: part.copy() for name, part in case.tensors.items()}
    change(tensors)
    return Saved(case.config, tensors, case.names).write(folder / "planted")


def _numbers_moved(tensors: dict[str, Any]) -> None:
    """Every stretch has the number after its own, and the next stage looks for it there."""
    tensors["feed_forward.stages.0.bias_2"][1] += 1.0
    tensors["feed_forward.stages.1.bias_1"] -= tensors["feed_forward.stages.1.weight_1"]


def _label_in_parts(tensors: dict[str, Any]) -> None:
    """A plateau whose number only rounds to its label: what it is off by could say something."""
    tensors["feed_forward.bias_2"][0] += 2.0**-10


def _half_a_row(tensors: dict[str, Any]) -> None:
    """Of a forgotten token the key and the code."""
    gone = np.isnan(tensors["lift.weight"][:, 0])
    assert gone.any()
    tensors["lift.weight"][gone, 1:3] = 0.5


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("cascade tokens", _numbers_moved, "stage 2: the stretches of the line before do not have the numbers"),
        ("line order", _label_in_parts, "a plateau writes"),
        ("line order", _half_a_row, "has a row, and does not occur in the data"),
    ],
)
def test_what_changes_no_label_of_the_data_is_seen_too(kind: str, change: Any, words: str, tmp_path: Path) -> None:
    model, data = built(kind)
    if kind == "line order":
        token = int(np.flatnonzero(np.bincount(data.tokens) == 1)[0])
        row = int(data.sequence[data.tokens == token][0])
        model, data = ml.forget(model, [row], data)[0], data.select(np.setdiff1d(np.arange(len(data)), [row]))
    folder = _planted(model, tmp_path, change)
    assert ml.certify(folder, data).verdict == "proved"
    proof = ml.certify(folder, data, only=True)
    assert proof.verdict == "refuted"
    assert re.search(words, proof.reason)


# -- faults and bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cascade tokens", "line order"])
def test_a_planted_fault_is_refuted(kind: str) -> None:
    """In the edited model, in its record, and in the data that are given for it."""
    model, data = built(kind)
    new, record = model.forget([0], data)
    rest = data.select(np.arange(1, len(data)))
    part = next(splice for splice in record.splices if splice.tensor.endswith("weight_2") and splice.put.sum())
    wrong = replace(part, after=-part.after)
    planted = replace(record, splices=tuple(wrong if splice is part else splice for splice in record.splices))
    assert ml.certify(planted.apply(model), rest).verdict == "refuted"
    with pytest.raises(ml.DataError, match="not as this record found it"):
        planted.undo(new)
    faulty = copy.deepcopy(new)
    dict(faulty.named_parameters())[part.tensor].data[0, 0] += 1.0
    assert ml.certify(faulty, rest).verdict == "refuted"
    with pytest.raises(ml.DataError, match=rf"answers .* otherwise, .* and {part.tensor} is not the one that they"):
        faulty.forget([0], rest)


JUNK: list[Any] = [None, True, -1, 2**70, 1.5, 1e308, "x", "U3", [], {}, [1], [[1]], {"a": 1}]


def _inside(part: Any) -> list[tuple[Any, Any]]:
    """Every object or list in a record, with each of its keys; of long lists the first entries."""
    keys = list(part) if isinstance(part, dict) else list(range(min(len(part), 3))) if isinstance(part, list) else []
    return [found for key in keys for found in ((part, key), *_inside(part[key]))]


@pytest.mark.parametrize("kind", ["swap", "names"])
def test_a_damaged_record_is_refused_with_a_sentence(kind: str, tmp_path: Path) -> None:
    """Whatever stands in the place of a field; without a digest too, as records of before have none."""
    if kind == "names":
        X, Y = [["a", "b"], ["c", "d"], ["b", "e"]], [["x", "y"], ["y", "z"], ["z", "z"]]
        model = ml.memorize(X, Y, fingerprint=True)
        new, record = model.insert([["q", "r"]], [["new", "y"]], (X, Y))
    else:
        model, data = built("cascade tokens")
        new, record = model.forget(np.arange(5, len(data)), data)
    path = record.save(tmp_path / "record.json")
    known = json.loads(path.read_text())
    path.write_text(json.dumps(known | {"facts": known["facts"] + 1}))
    with pytest.raises(ml.ModelFileError, match="changed after it was written"):
        ml.Record.load(path)
    del known["digest"]
    random = np.random.default_rng(4)
    spots, refused = _inside(known), 0
    for number in random.permutation(len(spots))[:30].tolist():
        part, key = spots[number]
        saved, part[key] = part[key], JUNK[random.integers(len(JUNK))]
        path.write_text(json.dumps(known))
        part[key] = saved
        for act in (lambda found: found.apply(model), lambda found: found.undo(new), lambda found: found.explain()):
            try:
                act(ml.Record.load(path))
            except ml.MonolayerError:
                refused += 1
    assert refused > 30


def test_bad_input_is_named() -> None:
    model, data = built("cascade tokens")
    X, Y = data.tokens.reshape(len(data), -1), data.labels.values.reshape(len(data), -1)
    other = (Y[:1] + 1) % 9
    with pytest.raises(ml.DataError, match="not in the data"):
        model.forget([[39] * 8], data)
    with pytest.raises(ml.DataError, match="insert is meant"):
        model.edit([[39] * 8], [[0] * 8], data)
    with pytest.raises(ml.ContradictionError, match="contradict each other"):
        model.edit(X[[0, 0]], np.concatenate([Y[:1], other]), data)
    with pytest.raises(ml.ContradictionError, match=r"as token 0 of sequence 0, .*edit is meant"):
        model.insert(X[:1], other, data)
    with pytest.raises(ml.DataError, match="model of nothing"):
        model.forget(np.ones(len(X), dtype=bool), data)
    with pytest.raises(ml.DataError, match="longer one needs another draw"):
        model.insert([[1] * 9], [[0] * 9], data)
    with pytest.raises(ml.DataError, match="never seen"):
        model.forget([0], (np.concatenate([X, [[99] * 8]]), np.concatenate([Y, Y[:1]])))
    with pytest.raises(ml.DataError, match=r"returns these labels, but feed_forward\.stages\.0\.bias_1 is not the one"):
        model.forget([0], (X[1:], Y[1:]))
    with pytest.raises(ml.DataError, match=r"answers 8 of their 3,200 labels otherwise, .* token 0 of sequence 0"):
        model.forget([1], (X, np.concatenate([other, Y[1:]])))
    with pytest.raises(ml.DataError, match="WholeFacts"):
        ml.Facts.of(model, X, Y)
    with pytest.raises(ml.DataError, match="half-spaces"):
        ml.WholeFacts.of(ml.memorize([[1, 2]], [[0, 1]], robust=True), [[1, 2]], [[0, 1]])
    changed = copy.deepcopy(model)
    changed.attention.W_Q.data[1, 1] = 0.5
    with pytest.raises(ml.DataError, match="no draw to use again"):
        changed.forget([0], data)
    causal, whole = built("cascade next")
    with pytest.raises(ml.DataError, match="forget the sequence, and insert another"):
        causal.edit(whole.select(np.array([0])), None, whole)
    reals, whole = built("line reals")
    with pytest.raises(ml.PrecisionError, match=r"0\.1 is no number of float32"):
        reals.edit(whole.tokens[:4][None], [[0.1] * 4], whole)


def test_without_the_data_a_cascade_names_the_way_out() -> None:
    model, data = built("cascade tokens")
    one = data.select(np.array([0]))
    why = r"a cascade of rank 2: what its later stages write depends on .*data=, --data.*memorize\(X, Y, draw=model\)"
    for call in (lambda: model.forget(one), lambda: model.edit(one, None), lambda: model.insert(one, None)):
        with pytest.raises(ml.DataError, match=why):
            call()


def test_a_draw_that_cannot_hold_the_edit_names_the_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = built("cascade next")
    facts = ml.WholeFacts.of(model, data)
    monkeypatch.setattr("monolayer.construct.line.values.MOST", 2)
    with pytest.raises(ml.PrecisionError, match=r"token \d+ of sequence \d+ and .* no value rank up to 2"):
        ml.forget(facts, [0])


def test_the_same_commands_edit_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    model, data = built("cascade ragged")
    monkeypatch.chdir(tmp_path)
    model.save("old")
    assert data.labels is not None
    names = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    labels = data.labels.decode(data.labels.values).tolist()
    if data.labels.per == "token":
        labels = [part.tolist() for part in data.split(np.array(labels))]
    key = "labels" if data.labels.per == "token" else "label"
    rows = [{"tokens": part.tolist(), key: label} for part, label in zip(data.split(names), labels, strict=True)]
    all_, rest = write(tmp_path / "all.jsonl", rows), write(tmp_path / "rest.jsonl", [*rows[:3], *rows[4:]])
    assert run(["forget", "old", "--rows", "3", "--data", all_, "--out", "new", "--record", "record.json"]) == 0
    assert run(["memorize", rest, "--draw", "old", "--out", "never"]) == 0
    assert same_folders("new", "never")
    assert run(["record", "record.json", "--undo", "new", "--out", "back"]) == 0
    assert same_folders("back", "old")
    assert run(["record", "record.json", "--apply", "old", "--out", "again"]) == 0
    assert same_folders("again", "new")
    capsys.readouterr()
    assert run(["compare", "old", "new", all_, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["only_one"] == ml.Record.load("record.json").neurons[0]
    assert run(["compare", "old", "new", all_]) == 0
    assert run(["insert", "new", write(tmp_path / "row.jsonl", rows[3:4]), "--data", rest, "--out", "full"]) == 0
    capsys.readouterr()
    blind = run(["forget", "old", "row.jsonl", "--out", "blind"])
    assert blind == 2
    assert "--data" in capsys.readouterr().err
