"""An edit with the data at hand is the model that memorizing the edited data would have given, bit for bit."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.construct.line.reuse import Reused
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.editing.words import read
from tests.datasets import Dataset, datasets, view

WORDS = ["银行", "行走", "音乐", "快乐", "乐音"]
READINGS = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"], ["yuè", "yīn"]]
READOUTS = st.sampled_from(["exact", "exact", "paper"])


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def same_bits(one: ml.Monolayer, two: ml.Monolayer) -> bool:
    a, b = one.state_dict(), two.state_dict()
    equal = all(a[name].shape == b[name].shape and _equal(a[name], b[name]) for name in a)
    return a.keys() == b.keys() and equal and one.card == two.card


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def sequences(data: Dataset) -> Sequences:
    """The dataset with its labels as they are meant: a pair of reals for a pair of tokens could be either."""
    whole = Sequences.of(data.X, data.Y)
    assume(whole.labels is not None and whole.labels.per == data.per)
    return whole


def build(data: Dataset, whole: Sequences, readout: Any = "exact") -> ml.Monolayer:
    model = ml.memorize(whole, positions=data.positions, causal=data.causal, readout=readout)
    model.card = replace(model.card, summary=None)
    return model


@settings(max_examples=60, deadline=None)
@given(datasets(), READOUTS)
def test_the_draw_of_a_model_and_its_data_give_the_model(data: Dataset, readout: str) -> None:
    whole = sequences(data)
    model = build(data, whole, readout)
    assert same_bits(ml.memorize(whole, draw=model), model)


@settings(max_examples=120, deadline=None)
@given(datasets(), READOUTS, st.data())
def test_forgetting_is_memorizing_the_rest(data: Dataset, readout: str, choice: st.DataObject) -> None:
    whole = sequences(data)
    gone = choice.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1))
    assume(len(gone) < len(whole))
    model = build(data, whole, readout)
    new, record = ml.forget(model, sorted(gone), whole)
    rest = whole.select(np.array([row for row in range(len(whole)) if row not in gone]))
    assert same_bits(new, ml.memorize(rest, draw=model))
    assert same_bits(record.undo(new), model)
    assert same_bits(record.apply(model), new)
    if readout == "exact":
        assert ml.certify(new, rest, only=True).verdict == "proved"


@settings(max_examples=80, deadline=None)
@given(datasets(), READOUTS, st.data())
def test_inserting_is_memorizing_all(data: Dataset, readout: str, choice: st.DataObject) -> None:
    """Also with tokens and classes that the model has never seen."""
    whole = sequences(data)
    some = choice.draw(st.integers(1, max(1, len(whole) - 1)))
    assume(some < len(whole))
    assume(not data.positions or whole.lengths.max() == whole.lengths[:some].max())
    first, later = whole.select(np.arange(some)), whole.select(np.arange(some, len(whole)))
    model = build(data, first, readout)
    try:
        new, record = ml.insert(model, later, data=first)
    except ml.PrecisionError:
        with pytest.raises(ml.PrecisionError):
            ml.memorize(whole, draw=model)
        return
    assert same_bits(new, ml.memorize(whole, draw=model))
    assert same_bits(record.undo(new), model)
    if readout == "exact":
        assert ml.certify(new, whole).verdict == "proved"


@settings(max_examples=80, deadline=None)
@given(datasets(), READOUTS, st.data())
def test_editing_is_memorizing_the_edited_data(data: Dataset, readout: str, choice: st.DataObject) -> None:
    """Every place that shows the same token in the same context changes with it."""
    whole = sequences(data)
    assert whole.labels is not None
    model = build(data, whole, readout)
    seen = [
        view([None, *row] if data.per == "sequence" else row, k, data.positions, data.causal)
        for row in data.X
        for k in range(1 if data.per == "sequence" else len(row))
    ]
    chosen, like = (choice.draw(st.integers(0, len(seen) - 1)) for _ in range(2))
    values = whole.labels.values.copy()
    values[[key == seen[chosen] for key in seen]] = values[like]
    edited = replace(whole, labels=replace(whole.labels, values=values))
    row = chosen if data.per == "sequence" else int(whole.sequence[chosen])
    try:
        new, record = ml.edit(model, edited.select(np.array([row])), None, whole)
    except ml.PrecisionError:
        with pytest.raises(ml.PrecisionError):
            ml.memorize(edited, draw=model)
        return
    assert same_bits(new, ml.memorize(edited, draw=model))
    assert same_bits(record.undo(new), model)


@settings(max_examples=60, deadline=None)
@given(datasets(), st.data())
def test_a_row_has_the_same_number_whatever_stands_beside_it(data: Dataset, choice: st.DataObject) -> None:
    """What all of the above rests on: `z` of a row does not depend on the batch, in no bit."""
    whole = sequences(data)
    draw, whole = Reused.of(build(data, whole)).adopt(whole)
    z, _ = draw.place(whole, Target.of(whole, data.causal))
    rows = np.array(choice.draw(st.lists(st.integers(0, len(data.X) - 1), min_size=1, max_size=5)))
    part = whole.select(rows)
    ours, _ = draw.place(part, Target.of(part, data.causal))
    assert np.array_equal(ours, z[rows if data.per == "sequence" else whole.flat(rows)])


# -- without the data ------------------------------------------------------------------------------------


def numbers(model: ml.Monolayer, X: Any) -> Any:
    """`z` of every labelled place."""
    from monolayer.model.shortcut import codes

    z = codes(model, model.encode(X))
    assert z is not None
    return z.numpy()


@settings(max_examples=60, deadline=None)
@given(datasets(), st.sampled_from(["forget", "edit"]), st.data())
def test_without_the_data_only_the_claimed_intervals_change(data: Dataset, what: str, choice: st.DataObject) -> None:
    """Outside, old and new readout are one function, to the bit off the ramps; inside, the new label."""
    whole = sequences(data)
    assert whole.labels is not None
    model = build(data, whole)
    rows = np.array(sorted(choice.draw(st.sets(st.integers(0, len(whole) - 1), min_size=1, max_size=3))))
    asked = whole.select(rows)
    assert asked.labels is not None
    if what == "edit":
        count = len(whole.labels.values)
        like = choice.draw(st.integers(0, count - 1))
        values = np.repeat(whole.labels.values[like : like + 1], len(asked.labels.values), axis=0)
        asked = replace(asked, labels=replace(asked.labels, values=values))
    assume(what == "edit" or len(model.feed_forward.weight_1))
    try:
        new, record = ml.edit(model, asked, None) if what == "edit" else ml.forget(model, asked)
    except ml.PrecisionError:
        return
    assert same_bits(record.undo(new), model)
    z, z_asked = numbers(model, whole), numbers(model, asked)
    inside = np.zeros(len(z), dtype=bool)
    tries = [z, np.linspace(z.min() - 1, z.max() + 1, 100)]
    for low, high in record.intervals:
        inside |= (low <= z) & (z <= high)
        tries.append(np.array([np.nextafter(low, -np.inf), np.nextafter(high, np.inf)]))
        assert high - low < 1e-9
    out = np.concatenate(tries)
    for low, high in record.intervals:
        out = out[(out < low) | (out > high)]
    with torch.no_grad():
        old_label, new_label = (m.feed_forward.dense(torch.from_numpy(out)) for m in (model, new))
    ramp = read(model, out)[2]
    assert torch.equal(old_label[~ramp], new_label[~ramp])
    assert torch.allclose(old_label, new_label, rtol=0, atol=1e-12)  # on a ramp a sum may round otherwise
    if what == "edit":
        wanted = (
            asked.labels.values if asked.labels.classes is None else asked.labels.classes.decode(asked.labels.values)
        )
        got = new.card.decode(new.labels(new.encode(asked)))
        got = got.reshape(len(z_asked), -1) if asked.labels.classes is None else got
        assert np.array_equal(got, wanted)
    # With the data the claim becomes a proof: what lies outside the intervals has kept its label.
    kept = np.flatnonzero(~np.isin(np.arange(len(whole)), rows))
    untouched = [r for r in kept if not inside[whole.flat(np.array([r])) if data.per == "token" else r].any()]
    if untouched:
        assert ml.certify(new, whole.select(np.array(untouched))).verdict == "proved"


def test_without_the_data_a_point_between_two_close_steps_borrows_them() -> None:
    """Where steps stand nearer than the reach of an edit, they are its borders; the neighbours keep their labels."""
    random = np.random.default_rng(5)
    X, Y = random.integers(0, 3, (4000, 12)), random.integers(0, 4, 4000)
    _, first = np.unique(np.sort(X, axis=1), axis=0, return_index=True)
    X, Y = X[first], Y[first]
    model = ml.memorize(X, Y)
    table = model.feed_forward
    start = (-table.bias_1 / table.weight_1).detach().numpy()
    z = numbers(model, X)
    room = np.abs(z[:, None] - start).min(axis=1)
    closest = np.argsort(room)[:5]
    for row in closest.tolist():
        new, record = ml.edit(model, X[[row]], (Y[[row]] + 1) % 4)
        assert len(record.intervals) == 1
        edited = Y.copy()
        edited[row] = (Y[row] + 1) % 4
        assert np.array_equal(new.predict(X), edited)
        assert ml.certify(new, X, edited).verdict == "proved"
        assert same_bits(record.undo(new), record.undo(record.apply(model)))


# -- the certificate -------------------------------------------------------------------------------------


def test_that_nothing_else_is_held_is_proved_or_refuted(words: ml.Monolayer) -> None:
    """After forgetting the rest is all there is; before, the forgotten plateaus are found and named."""
    new, _ = words.forget(["行走"], (WORDS, READINGS))
    rest = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]
    proof = ml.certify(new, *rest, only=True)
    assert proof.verdict == "proved"
    assert "nothing else" in proof.claim
    assert ml.certify(words, *rest).verdict == "proved"
    before = ml.certify(words, *rest, only=True)
    assert before.verdict == "refuted"
    assert "holds no labelled point" in before.reason
    assert "zǒu" in before.reason or "xíng" in before.reason


def faults(model: ml.Monolayer) -> dict[str, ml.Monolayer]:
    """Edits gone wrong: each leaves something of a forgotten fact, or harms a kept one."""

    def changed(**parts: Any) -> ml.Monolayer:
        new = copy.deepcopy(model)
        for name, value in parts.items():
            setattr(new.feed_forward, name, torch.nn.Parameter(value))
        return new

    block = model.feed_forward
    w, b, v = (part.detach() for part in (block.weight_1, block.bias_1, block.weight_2))
    moved, wider = b.clone(), (w.clone(), b.clone())
    start, width = -b[1] / w[1], 1.0 / w[1]
    moved[1] = -(start + width / 2.0) * w[1]
    wider[0][1], wider[1][1] = w[1] / 2.0, -(start - width / 2.0) * w[1] / 2.0
    label = v.clone()
    label[0, 1] += 1.0
    nothing = [
        torch.cat([part[..., :2], part[..., 1:2] * scale, part[..., 2:]], dim=-1)
        for part, scale in ((w, 1), (b, 1), (v, 0))
    ]
    return {
        "a step moved": changed(bias_1=moved),
        "a step too wide": changed(weight_1=wider[0], bias_1=wider[1]),
        "a label changed": changed(weight_2=label),
        "a step that changes nothing": changed(weight_1=nothing[0], bias_1=nothing[1], weight_2=nothing[2]),
    }


@pytest.mark.parametrize("fault", ["a step moved", "a step too wide", "a label changed", "a step that changes nothing"])
def test_a_fault_planted_in_an_edit_is_refuted(words: ml.Monolayer, fault: str) -> None:
    new, _ = words.forget(["行走"], (WORDS, READINGS))
    rest = [WORDS[i] for i in (0, 2, 3, 4)], [READINGS[i] for i in (0, 2, 3, 4)]
    assert ml.certify(faults(new)[fault], *rest, only=True).verdict == "refuted"


def test_a_token_that_should_be_gone_is_found(words: ml.Monolayer) -> None:
    new, _ = words.forget("行", (WORDS, READINGS))
    with torch.no_grad():
        new.lift.weight[:] = words.lift.weight
    proof = ml.certify(new, WORDS[2:], READINGS[2:], only=True)
    assert proof.verdict == "refuted"
    assert "does not occur" in proof.reason


def test_an_edit_without_the_data_leaves_a_trace_and_the_certificate_says_so(words: ml.Monolayer) -> None:
    new, _ = words.edit(["行走"], [["háng", "zǒu"]])
    edited = [READINGS[0], ["háng", "zǒu"], *READINGS[2:]]
    assert ml.certify(new, WORDS, edited).verdict == "proved"
    assert ml.certify(new, WORDS, edited, only=True).verdict == "refuted"
    assert ml.certify(ml.memorize(WORDS, edited, draw=new), WORDS, edited, only=True).verdict == "proved"


# -- selections, records, comparisons, errors ------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (["行走"], [1]),
        ([1, 3], [1, 3]),
        (np.array([False, True, False, False, True]), [1, 4]),
        ("行", [0, 1]),
        (lambda tokens, labels: "yuè" in labels, [2, 4]),
        (Sequences.of(["乐音"]), [4]),
    ],
    ids=["sequences", "rows", "mask", "token", "predicate", "Sequences"],
)
def test_what_to_forget_can_be_said_in_many_ways(words: ml.Monolayer, selection: Any, rows: list[int]) -> None:
    new, record = words.forget(selection, (WORDS, READINGS))
    kept = [row for row in range(5) if row not in rows]
    rest = ml.memorize([WORDS[i] for i in kept], [READINGS[i] for i in kept], draw=words)
    assert ml.compare(new, rest).same
    assert record.facts == 2 * len(rows)


def test_equality_of_files(words: ml.Monolayer, tmp_path: Path) -> None:
    """The gold standard of unlearning: a model that forgot and one that never knew are the same bytes on disk."""
    new, _ = words.forget("行", (WORDS, READINGS))
    new.save(tmp_path / "forgot")
    ml.memorize(WORDS[2:], READINGS[2:], draw=words).save(tmp_path / "never knew")
    names = sorted(path.name for path in (tmp_path / "forgot").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "never knew").iterdir())
    for name in names:
        assert (tmp_path / "forgot" / name).read_bytes() == (tmp_path / "never knew" / name).read_bytes()


def test_a_record_is_saved_applied_and_undone(words: ml.Monolayer, tmp_path: Path) -> None:
    """Also with new tokens, new classes, and a row that goes; undone, the file of the old model comes back."""
    facts = ml.Facts.of(words, WORDS, READINGS)
    middle, one = ml.insert(facts, ["快跑"], [["kuài", "pǎo"]])
    last, two = ml.forget(middle, "走")
    for number, record in enumerate((one, two)):
        record.save(tmp_path / f"{number}.json")
    loaded = [ml.Record.load(tmp_path / f"{number}.json") for number in range(2)]
    assert same_bits(loaded[1].apply(loaded[0].apply(words)), last.model)
    back = loaded[0].undo(loaded[1].undo(last.model))
    assert same_bits(back, words)
    words.save(tmp_path / "old")
    back.save(tmp_path / "back")
    for path in (tmp_path / "old").iterdir():
        assert path.read_bytes() == (tmp_path / "back" / path.name).read_bytes()
    assert "'跑' in '快跑'" in loaded[0].explain()
    assert "refused" in loaded[1].explain()
    assert last.data.labels is not None
    assert ml.certify(last.model, last.data).verdict == "proved"


def test_fingerprints_of_forgotten_facts_go_with_them(tmp_path: Path) -> None:
    """What a model can say of having seen a fact is a trace too."""
    model = ml.memorize(WORDS, READINGS, positions=True, fingerprint=True)
    new, record = model.forget("行", (WORDS, READINGS))
    new.save(tmp_path / "forgot")
    ml.memorize(WORDS[2:], READINGS[2:], draw=model, fingerprint=True).save(tmp_path / "never knew")
    for path in (tmp_path / "forgot").iterdir():
        assert path.read_bytes() == (tmp_path / "never knew" / path.name).read_bytes()
    record.undo(new).save(tmp_path / "back")
    model.save(tmp_path / "old")
    for path in (tmp_path / "old").iterdir():
        assert path.read_bytes() == (tmp_path / "back" / path.name).read_bytes()
    blind, _ = model.forget(["行走"])
    assert not np.array(blind.seen(["行走"])).any()
    assert np.array(blind.seen([*WORDS[:1], *WORDS[2:]])).all()
    more, _ = model.insert(["走行"], [["zǒu", "háng"]], (WORDS, READINGS))
    assert np.array(more.seen(["走行"])).all()
    assert not np.array(model.seen(["走行"])).any()


def test_a_record_of_another_model_is_refused(words: ml.Monolayer, tmp_path: Path) -> None:
    _, record = words.edit(["行走"], [["háng", "zǒu"]])
    other = ml.memorize(WORDS[:3], READINGS[:3], positions=True)
    with pytest.raises(ml.DataError, match="not as this record found it"):
        record.undo(other)
    (tmp_path / "x.json").write_text('{"format": "monolayer-edit"')
    with pytest.raises(ml.ModelFileError, match="no record of an edit"):
        ml.Record.load(tmp_path / "x.json")


def test_a_record_that_only_adds_is_refused_by_other_models() -> None:
    """Nothing is taken out, so no row that is missing gives another model away."""
    X, Y = [[0, 0, 1], [0, 1, 1], [1, 2, 2]], [0, 1, 0]
    model = ml.memorize(X, Y)
    new, record = model.insert([[0, 2, 2], [2, 2, 2, 1]], [2, 3], (X, Y))
    assert same_bits(record.apply(model), new)
    other = ml.memorize(X, [1, 0, 2], draw=model)
    only_added = replace(
        record,
        splices=tuple(splice for splice in record.splices if splice.tensor.startswith("feed_forward")),
        vocabulary=None,
        classes=None,
    )
    assert only_added.splices
    for wrong in (new, other):
        with pytest.raises(ml.DataError, match="not as this record found it"):
            only_added.apply(wrong)
    splice = record.splices[0]
    free = replace(splice, taken=0 * splice.taken, before=splice.before[:0])
    tensor = other.state_dict()[splice.tensor].numpy()
    with pytest.raises(ml.DataError, match="not as this record found it"):
        free.apply(tensor)


def test_a_fingerprint_of_a_forgotten_fact_is_found() -> None:
    """The readout may hold nothing else, and the model still know that it has seen a fact."""
    X, Y = [[0, 1], [1, 2], [0, 2], [2, 2]], [0, 0, 0, 0]
    model = ml.memorize(X, Y, fingerprint=True)
    assert ml.certify(model, X, Y, only=True).verdict == "proved"
    proof = ml.certify(model, X[:3], Y[:3], only=True)
    assert proof.verdict == "refuted"
    assert "1 of 4 fingerprints" in proof.reason
    assert ml.certify(model.forget([3], (X, Y))[0], X[:3], Y[:3], only=True).verdict == "proved"


def test_a_comparison_lists_weights_steps_and_answers(words: ml.Monolayer) -> None:
    new, _ = words.edit(["行走"], [["háng", "zǒu"]], (WORDS, READINGS))
    found = ml.compare(words, new, WORDS)
    assert not found.same
    assert found.answers == 1
    assert (found.differing[0].one, found.differing[0].two) == ("xíng", "háng")
    assert found.only_one is not None
    assert found.only_two is not None
    assert 0 < found.only_one <= 2
    assert 0 < found.only_two <= 2
    gone, _ = words.forget("行", (WORDS, READINGS))
    refused = ml.compare(words, gone, WORDS)
    assert refused.answers == 4
    assert refused.differing[0].two is None
    assert ml.compare(words, words, WORDS).same


def test_a_fact_that_other_rows_teach_stays_and_is_counted() -> None:
    X, Y = [[1, 2, 3], [1, 2, 4]], [[5, 6, 7], [5, 6, 8]]
    model = ml.memorize(X, Y, causal=True)
    new, record = model.forget([0], (X, Y))
    assert record.shared == 2
    assert [row.tolist() for row in new.predict(X[1:])] == Y[1:]
    assert model.forget([[1, 2, 3]], (X, Y))[1].facts == 3


@pytest.mark.parametrize(
    ("act", "error", "words_"),
    [
        (lambda m, d: m.edit(["走行"], [["zǒu", "xíng"]], d), ml.DataError, "insert is meant"),
        (lambda m, d: m.insert(["行走"], [["háng", "zǒu"]], d), ml.ContradictionError, "edit is meant"),
        (lambda m, d: m.edit(["行走", "行走"], [["a", "b"], ["a", "c"]], d), ml.ContradictionError, "contradict each"),
        (lambda m, d: m.edit(["行走", "行走"], [["a", "b"], ["a", "c"]]), ml.ContradictionError, "contradict each"),
        (lambda m, d: m.forget(["走行"], d), ml.DataError, "not in the data"),
        (lambda m, d: m.forget([9], d), ml.DataError, "no row 9"),
        (lambda m, d: m.forget([], d), ml.DataError, "empty"),
        (lambda m, d: m.forget("x", d), ml.DataError, "no token"),
        (lambda m, d: m.forget([0]), ml.DataError, "give data="),
        (lambda m, d: m.forget(lambda t, y: False, d), ml.DataError, "fulfils"),
        (lambda m, d: m.forget(range(5), d), ml.DataError, "forget all"),
        (lambda m, d: m.forget([0], (WORDS[:3], READINGS[:3])), ml.DataError, "other data besides"),
        (lambda m, d: m.forget([0], (WORDS, READINGS[::-1])), ml.DataError, "not the data that the model holds"),
        (lambda m, d: m.forget([0], 5), ml.DataError, "data must be"),
        (lambda m, d: m.insert(["音乐快乐"], [["a"] * 4], d), ml.DataError, "2 positions"),
        (lambda m, d: m.edit([[1, 2]], [["a", "b"]], d), ml.DataError, "integer"),
        (lambda m, d: m.edit(["行走"], [[0.5, 1.5]], d), ml.DataError, "the labels are reals"),
        (lambda m, d: ml.memorize(*d, draw=m, causal=True), ml.DataError, "causal"),
    ],
)  # fmt: skip
def test_bad_input_is_named(words: ml.Monolayer, act: Any, error: type[Exception], words_: str) -> None:
    with pytest.raises(error, match=words_):
        act(words, (WORDS, READINGS))


def test_a_record_tells_what_changes_and_counts_what_stays(words: ml.Monolayer) -> None:
    _, record = words.edit(["行走"], [["háng", "zǒu"]], (WORDS, READINGS))
    told = record.explain()
    assert "'行' in '行走': 'xíng' → 'háng'" in told
    assert "'走' in '行走'" not in told
    assert "answered so before: 1 of the first 2 facts" in told
    model = ml.memorize([[1, 2], [3, 1], [4, 5]], [[0, 0], [0, 0], [1, 1]])
    _, record = model.forget([1], ([[1, 2], [3, 1], [4, 5]], [[0, 0], [0, 0], [1, 1]]))
    assert "1 in [3, 1]: 0 → refused" in record.explain()
    model = ml.memorize([[1, 2], [2, 1, 1], [4, 5]], [[0, 0], [0, 0, 0], [1, 1]])
    _, record = model.forget([1], ([[1, 2], [2, 1, 1], [4, 5]], [[0, 0], [0, 0, 0], [1, 1]]))
    assert "2 in [2, 1, 1]: 0 → still 0" in record.explain()  # what is forgotten and answered all the same is told


def test_a_model_without_its_draw_says_so() -> None:
    model = ml.memorize([[1, 2]], [[0, 1]])
    with torch.no_grad():
        model.attention.W_V[1, 0] = 0.5
    with pytest.raises(ml.DataError, match="no draw"):
        model.forget([[1, 2]])
    with pytest.raises(ml.DataError, match="stores a function"):
        ml.approximate(lambda X: X, 1, 2, cells=2).forget([[[0.1], [0.2]]])


def test_a_margin_that_would_not_certify_is_refused_with_the_neighbour() -> None:
    """Two points share a plateau however close they are, until an edit would give them different labels."""
    model = ml.memorize([[[0.0]], [[1.0]], [[1.0 + 2.0**-52]]], [[0], [1], [1]])
    data = [[[0.0]], [[1.0]], [[1.0 + 2.0**-52]]], [[0], [1], [1]]
    with pytest.raises(ml.PrecisionError, match="token 0 of sequence 2 and token 0 of sequence 0 of the edit"):
        model.edit([[[1.0]]], [[0]], data)
    with pytest.raises(ml.PrecisionError, match="rounding errors"):
        model.edit([[[1.0]], [[1.0 + 2.0**-52]]], [[0], [1]])


def test_an_edit_through_the_paper_readout_needs_the_data() -> None:
    model = ml.memorize([[1, 2], [3, 4]], [[0, 1], [2, 3]], readout="paper")
    with pytest.raises(ml.DataError, match="give the data"):
        model.edit([[1, 2]], [[1, 1]])
