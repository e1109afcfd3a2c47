"""Records: bound to the model they were made from, applied and undone bit for bit, refused when changed."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.editing import difference as module
from monolayer.editing.difference import difference, same
from monolayer.model.save import config_digest
from tests.datasets import DATA, READINGS, WORDS
from tests.kinds import built, same_bits


@pytest.fixture(scope="module")
def words() -> ml.Monolayer:
    return ml.memorize(WORDS, READINGS, positions=True)


def test_records_in_a_row_lead_there_and_back(words: ml.Monolayer, tmp_path: Path) -> None:
    """Also with new tokens, new classes, and a row that goes; from a folder, too."""
    middle, one = ml.insert(ml.Facts.of(words, WORDS, READINGS), ["快跑"], [["kuài", "pǎo"]])
    last, two = ml.forget(middle, ["行走"])
    loaded = [ml.Record.load(record.save(tmp_path / f"{i}.json")) for i, record in enumerate((one, two))]
    assert same_bits(loaded[1].apply(loaded[0].apply(words.save(tmp_path / "old"))), last.model)
    assert same_bits(loaded[0].undo(loaded[1].undo(last.model)), words)
    assert "'跑' in '快跑'" in loaded[0].explain()
    assert "refused" in loaded[1].explain()


@pytest.mark.parametrize("kind", ["line", "robust bfloat16"])
def test_a_record_belongs_to_one_model(kind: str) -> None:
    """Not to what it led to, nor to a model with one number changed."""
    model, data = built(kind)
    new, record = ml.forget(model, [1], data)
    changed = copy.deepcopy(model)
    changed.bos.data[-1] += 1.0
    for act, wrong, words in (
        (record.apply, new, "it was made from"),
        (record.apply, changed, "it was made from"),
        (record.undo, model, "it led to"),
    ):
        with pytest.raises(ml.DataError, match=f"belongs to another model: {words}"):
            act(wrong)


def test_a_record_that_changes_no_neuron_is_bound_too() -> None:
    """Rows that teach nothing new go: no tensor changes, and another draw is refused all the same."""
    X, Y = [[1, 2], [2, 1], [3, 3]], [[0, 0], [0, 0], [1, 1]]
    record = ml.forget(ml.memorize(X, Y), [1], (X, Y))[1]
    assert record.splices == ()
    with pytest.raises(ml.DataError, match="belongs to another model"):
        record.apply(ml.memorize(X, Y, seed=1))


def test_a_record_that_was_changed_leads_nowhere(words: ml.Monolayer) -> None:
    """In memory, where no digest of a file protects it."""
    _, record = ml.forget(words, ["行走"], DATA)
    part = next(splice for splice in record.splices if splice.tensor.endswith("weight_2"))
    wrong = replace(part, after=-part.after)
    planted = replace(record, splices=tuple(wrong if splice is part else splice for splice in record.splices))
    with pytest.raises(ml.DataError, match="does not lead to the model that it names"):
        planted.apply(words)
    with pytest.raises(ml.DataError, match="'causal' in the configuration; an edit changes sizes and nothing else"):
        replace(record, config={"causal": {"before": False, "after": True}}).apply(words)
    with pytest.raises(ml.DataError, match="do not fit together"):
        replace(record, splices=(replace(part, out=part.out + 10**9),)).apply(words)


JUNK: list[Any] = [None, True, -1, 2**70, 1.5, 1e308, "x", "U3", [], {}, [1], [[1]], {"a": 1}]


def _inside(part: Any) -> list[tuple[Any, Any]]:
    """Every object or list in a record, with each of its keys; of long lists the first entries."""
    keys = list(part) if isinstance(part, dict) else list(range(min(len(part), 3))) if isinstance(part, list) else []
    return [found for key in keys for found in ((part, key), *_inside(part[key]))]


def test_a_damaged_record_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """Whatever stands in the place of a field, also with a digest that fits."""
    X, Y = [["a", "b"], ["c", "d"], ["b", "e"]], [["x", "y"], ["y", "z"], ["z", "z"]]
    model = ml.memorize(X, Y, unknown=True)
    new, record = ml.insert(model, [["q", "r"]], [["new", "y"]], (X, Y))
    path = record.save(tmp_path / "record.json")
    known = json.loads(path.read_text())
    for text, words in (
        (json.dumps(known | {"facts": known["facts"] + 1}), "changed after it was written"),
        (json.dumps(known | {"version": 2}), "has version 2; this monolayer reads 1"),
        ('{"format": "monolayer-edit"', "not a record of an edit"),
    ):
        path.write_text(text)
        with pytest.raises(ml.ModelFileError, match=words):
            ml.Record.load(path)
    del known["digest"]
    random = np.random.default_rng(4)
    spots, refused = _inside(known), 0
    for number in random.permutation(len(spots))[:25].tolist():
        part, key = spots[number]
        saved, part[key] = part[key], JUNK[random.integers(len(JUNK))]
        path.write_text(json.dumps(known | {"digest": config_digest(known)}))
        part[key] = saved
        for act in (lambda found: found.apply(model), lambda found: found.undo(new), repr):
            try:
                act(ml.Record.load(path))
            except ml.MonolayerError:
                refused += 1
    assert refused > 10
    path.write_text(json.dumps(known | {"claim": 5, "digest": config_digest(known | {"claim": 5})}))
    with pytest.raises(ml.ModelFileError, match="not a record of an edit: claim of this record is damaged"):
        ml.Record.load(path)
    repr(record)
    change, splice = record.changes[0], record.splices[0]
    for field, junk in {
        "kind": ["forgive"],
        "claim": [None],
        "facts": ["x", 1.5],
        "changes": [5, (5,), [change]],
        "splices": [(1,), (replace(splice, tensor=None),), (replace(splice, put=None),)],
        "blocks": [None, {"a": 1}, {"a": (1, "x")}, {1: (1, 1)}],
        "config": [None, {"a": 1}, {"a": {"later": 1}}],
        "source": [None],
    }.items():
        for one in junk:
            with pytest.raises(ml.DataError, match=f"^{field} of this record is damaged"):
                replace(record, **{field: one})
    for field, one in (("position", 99), ("position", -1), ("tokens", None)):
        with pytest.raises(ml.DataError, match=r"^changes: "):
            replace(change, **{field: one})


def test_a_record_tells_what_changes_and_counts_what_stays(words: ml.Monolayer) -> None:
    _, record = ml.edit(words, ["行走"], [["háng", "zǒu"]], DATA)
    told = record.explain()
    assert "'行' in '行走': 'xíng' → 'háng'" in told
    assert "'走' in '行走'" not in told
    data = [[1, 2], [3, 1], [4, 5]], [[0, 0], [0, 0], [1, 1]]
    assert "1 in [3, 1]: 0 → refused" in ml.forget(ml.memorize(*data), [1], data)[1].explain()
    data = [[1, 2], [2, 1, 1], [4, 5]], [[0, 0], [0, 0, 0], [1, 1]]
    assert "2 in [2, 1, 1]: 0 → still 0" in ml.forget(ml.memorize(*data), [1], data)[1].explain()


@pytest.mark.parametrize("seed", range(15))
def test_splices_lead_from_any_tensors_to_any_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that repeat, move, come and go, or share a key; tensors that change their shape; and back again."""
    if seed % 2:
        keys = module._keys
        monkeypatch.setattr(module, "_keys", lambda parts: keys(parts) % np.uint64(3))
    random = np.random.default_rng(seed)
    blocks = {"b": {"b.weight_1": 0, "b.bias_1": 0, "b.weight_2": 1}}

    def tensors() -> dict[str, Any]:
        rows, wide = int(random.integers(0, 9)), 1 + int(seed % 5 == 0 and random.integers(2))
        lead = int(seed % 3 == 0) if seed % 4 else int(random.integers(2))  # labels of classes, or of reals, or both
        first, second = random.integers(0, 2, (rows, 2)) / 1.0, random.integers(0, 3, rows) / 1.0
        free = random.choice([0.0, -0.0, np.nan, 1.0], (int(random.integers(1, 6)), wide))
        found = {
            "b.weight_1": first,
            "b.bias_1": second,
            "b.weight_2": random.integers(0, 2, (wide, rows + lead)) / 1.0,
        }
        return found | ({"free": free} if random.random() < 0.8 else {})

    old, new = tensors(), tensors()
    found, _ = difference(old, new, blocks)
    for splices, one, two in ((found, old, new), ([s.inverse() for s in found], new, old)):
        made: dict[str, Any] = dict(one)
        for splice in splices:
            after = splice.apply(made.pop(splice.tensor, None))
            made |= {} if after is None else {splice.tensor: after}
        assert made.keys() == two.keys()
        assert all(same(made[name], two[name]) for name in two)
