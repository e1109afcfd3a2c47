"""Stock models are edited and compared as all others are: the bits of the edited data's model, proved, and undone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.data import Sequences
from monolayer.huggingface.architectures import ARCHITECTURES
from tests.test_edit_cli import ROWS

RANDOM = np.random.default_rng(3)
X = np.concatenate([12 + np.arange(30)[:, None], np.stack([RANDOM.permutation(12)[:3] for _ in range(30)])], axis=1)
Y = RANDOM.integers(0, 5, X.shape)
OTHER = np.where(np.arange(30)[:, None] == 3, (Y + 1) % 5, Y)
WHOLE = Sequences.of(X, Y)
STEPS: dict[str, Any] = {"positions": True, "storage": "steps"}
SHORT: dict[str, Any] = {"positions": True, "rank": 32, "dtype": "bfloat16"}
KINDS = {
    "bert": ("bert", STEPS),
    "llama bfloat16": ("llama", SHORT),
}
VERBS: dict[str, Any] = {
    "forget": lambda m: (ml.forget(m, [3, 8], WHOLE), WHOLE.select(np.setdiff1d(np.arange(30), [3, 8]))),
    "edit": lambda m: (ml.edit(m, X[3:4], OTHER[3:4], WHOLE), Sequences.of(X, OTHER)),
    "insert": lambda m: (
        ml.insert(m, X[4:5, [0, 2, 1, 3]], Y[4:5], WHOLE),
        Sequences.of(np.concatenate([X, X[4:5, [0, 2, 1, 3]]]), np.concatenate([Y, Y[4:5]])),
    ),
}
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "draw.json")


def same(one: Path, two: Path) -> bool:
    """Whether two folders are the same files, their cards aside."""
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in FILES)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, options = KINDS[request.param]
    return ml.memorize_as(name, X, Y, **options).save(tmp_path_factory.mktemp(name) / "old")


@pytest.mark.parametrize("verb", VERBS)
def test_an_edit_is_what_the_same_draw_makes_of_the_edited_data(folder: Path, verb: str, tmp_path: Path) -> None:
    (model, record), wanted = VERBS[verb](folder)
    new = model.save(tmp_path / "new")
    assert same(new, ml.memorize_as(model.architecture, wanted, draw=folder).save(tmp_path / "anew"))
    assert ml.certify(new, wanted).verdict == "proved"
    if verb != "insert":  # another label is asked for, or none: the old one is gone
        assert ml.certify(new, WHOLE).verdict == "refuted"
    # Nothing changes but neurons and the usual labels of the tokens that were asked for.
    touched = set(np.unique(X[{"forget": [3, 8], "edit": [3], "insert": [4]}[verb]]).tolist())
    layers = ARCHITECTURES[model.architecture].layers
    for splice in record.splices:
        if not splice.tensor.startswith((layers["1"], layers["2"], layers.get("3", layers["1"]))):
            assert splice.tensor == ARCHITECTURES[model.architecture].tables["tokens"]
            assert {int(model.facts.names[row]) for row in splice.put} <= touched
    # The record says what was answered, and what is answered now; it goes both ways, through a file too.
    assert record.changes[0].before == (None if verb == "insert" else Y[3, 0])
    assert record.facts == len(record.changes) == (8 if verb == "forget" else 4)
    if verb != "forget":
        assert record.changes[0].after == (OTHER[3, 0] if verb == "edit" else Y[4, 0])
    loaded = ml.Record.load(record.save(tmp_path / "record.json"))
    assert same(loaded.apply(folder).save(tmp_path / "again"), new)
    assert same(loaded.undo(model).save(tmp_path / "back"), folder)
    with pytest.raises(ml.DataError, match="belongs to another model"):
        loaded.apply(new)
    # A comparison lists the facts that were edited, and no others, with their old answers and their new ones.
    found = ml.compare(folder, new, X)
    assert (found.only_one, found.only_two, found.asked, found.same) == (*record.neurons, X.size, False)
    assert found.config.keys() <= {"intermediate_size", "n_inner"}
    if verb == "edit":
        assert [(one.sequence, one.position, one.one, one.two) for one in found.differing] == [
            (3, place, Y[3, place], OTHER[3, place]) for place in range(4)
        ]
        assert any("4 of 120 differ" in text for _, text in found.rows())


@given(st.sampled_from(["bert", "gpt2"]), st.sampled_from([STEPS, SHORT]), st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_edits_one_after_the_other_end_where_the_data_do(name: str, options: Any, seed: int) -> None:
    """Whatever rows go, come and change: the model is that of the data left, with the first draw."""
    random = np.random.default_rng(seed)
    rows = [[20 + i, *random.permutation(7)[:size].tolist()] for i, size in enumerate(random.integers(1, 5, 9))]
    data = Sequences.of(rows, [random.integers(0, 4, len(row)).tolist() for row in rows])
    built = ml.memorize_as(name, data, seed=seed, **options)
    facts = ml.Facts.of(built, data)
    for step in range(3):
        verb = ("forget", "edit", "insert")[(seed + step) % 3]
        now, before = facts.data, facts.model
        if verb == "forget":
            facts, record = ml.forget(facts, random.permutation(len(now))[: max(1, len(now) // 3)])
        elif verb == "edit":
            some = now.select(np.unique(random.integers(0, len(now), 2)))
            assert some.labels is not None
            facts, record = ml.edit(
                facts, replace(some, labels=replace(some.labels, values=(some.labels.values + 1) % 4)), None
            )
        else:
            gone = [i for i in range(len(data)) if data.tokens[data.offsets[i]] not in now.tokens]
            facts, record = ml.insert(facts, data.select(np.array(gone)) if gone else now.select(np.array([0])))
        assert ml.compare(facts.model, ml.memorize_as(name, facts.data, draw=built)).same
        assert ml.compare(record.undo(facts.model), before).same


def test_a_folder_that_loses_all_neurons_gets_them_back() -> None:
    """A token with one label has none, and a layer without neurons holds one that never fires."""
    data = Sequences.of([["b", "a"], ["c", "a"]], [["v", "u"], ["v", "w"]])
    for name, options in (("bert", {"storage": "steps"}), ("llama", {**SHORT, "positions": False})):
        old = ml.memorize_as(name, data, **options)
        facts, record = ml.forget(ml.Facts.of(old, data), [1])
        assert record.neurons == (1, 1)
        full, _ = ml.insert(facts, [["c", "a"]], [["v", "w"]])
        assert ml.compare(full.model, old).same


def test_a_fact_that_other_rows_teach_is_counted() -> None:
    twice = Sequences.of(np.concatenate([X, X[3:4]]), np.concatenate([Y, Y[3:4]]))
    for options in (STEPS, SHORT):
        assert ml.forget(ml.memorize_as("bert", twice, **options), [3, 8], twice)[1].shared == 4


@pytest.mark.parametrize("options", [STEPS, SHORT], ids=["steps", "cells"])
def test_a_record_changes_tensors_and_widths_and_nothing_else(options: Any, tmp_path: Path) -> None:
    """Above all no key that makes transformers run code."""
    built = ml.memorize_as("bert", X, Y, **options)
    new, record = ml.forget(built, [3, 8], WHOLE)
    for key in ("auto_map", "architectures", "draw.json", "id2label"):
        bad = replace(record, config={**record.config, key: {"before": built.config.get(key), "after": {"x": "y"}}})
        path = bad.save(tmp_path / "bad.json")  # its digest fits
        for act in (lambda found: found.apply(built), lambda found: found.undo(new)):
            with pytest.raises(ml.DataError, match=f"would change {key!r} in the configuration"):
                act(ml.Record.load(path))
    assert set(record.config) <= {"intermediate_size"}
    # A row that other rows teach goes: nothing changes, and another model is refused all the same.
    twice = Sequences.of([["a", "b"], ["a", "b"], ["c", "d"]], [[1, 2], [1, 2], [0, 0]])
    built = ml.memorize_as("bert", twice, **options)
    unchanged, record = ml.forget(built, [1], twice)
    assert record.splices == ()
    assert ml.compare(record.apply(built), unchanged).same
    with pytest.raises(ml.DataError, match="belongs to another model"):
        record.apply(ml.memorize_as("bert", twice, seed=1, **options))


def test_the_commands_edit_stock_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    monkeypatch.chdir(tmp_path)
    changed = [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}]
    for name, rows in (("data", ROWS), ("fact", changed), ("rest", ROWS[2:])):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for name, options in (("steps", "--storage steps"), ("cells", "--dtype bfloat16")):
        said(f"memorize-as bert data.jsonl {options} --out {name}")
        said(f"edit {name} fact.jsonl --data data.jsonl --out {name}.new --record {name}.json")
        ml.Record.load(f"{name}.json").undo(f"{name}.new").save(f"{name}.back")
        assert same(Path(f"{name}.back"), Path(name))
        said(f"forget {name} --rows 0 --rows 1 --data data.jsonl --out {name}.less")
        said(f"verify {name}.less rest.jsonl")
        found = json.loads(said(f"compare {name} {name}.less data.jsonl --json"))
        assert (found["asked"], found["same"]) == (8, False)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A BERT of steps, and one of cells."""
    home = tmp_path_factory.mktemp("both")
    return [ml.memorize_as("bert", X, Y, **options).save(home / str(len(options))) for options in (STEPS, SHORT)]


def test_weights_that_were_changed_are_refused(both: list[Path], tmp_path: Path) -> None:
    for number, part in enumerate(["word_embeddings", "query.bias", "classifier.weight", "LayerNorm", "intermediate"]):
        folder = shutil.copytree(both[number % 2], tmp_path / str(number))
        tensors = load_file(folder / "model.safetensors")
        tensors[next(name for name in tensors if part in name)].view(-1)[-1] += 1.0
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ml.DataError, match=r"not the data that the model holds|not those that its draw gives"):
            ml.forget(folder, np.arange(1, 30), WHOLE)


REFUSED: list[tuple[Any, str]] = [
    (lambda f: ml.forget(f, [3], (X, OTHER)), "not the data that the model holds"),
    (lambda f: ml.forget(f, [3], (X, Y[:, 0])), "one per token"),
    (lambda f: ml.insert(f, [[77, 1, 1, 1]], [[0, 0, 0, 0]], WHOLE), "new to this draw"),
    (lambda f: ml.insert(f, X[3:4], OTHER[3:4], WHOLE), "use edit"),
    (lambda f: ml.insert(f, [[1, 2]], [0], WHOLE), "one per token"),
    (lambda f: ml.compare(f, ml.memorize([[1]], [[0]])), "stock model, the other is not"),
    (lambda f: ml.compare(f, ml.memorize_as("bert", X, Y[:, 0]), X), "per token, the other per sequence"),
]


def test_bad_input_is_named(both: list[Path]) -> None:
    for folder in both:
        for act, words in REFUSED:
            with pytest.raises(ml.DataError, match=words):
                act(folder)


def test_a_sequence_that_a_folder_cannot_take_has_no_answer() -> None:
    one = ml.memorize_as("gpt2", [list("ab")], [[1, 2]])
    two = ml.memorize_as("gpt2", [list("abc")], [[1, 2, 3]])
    found: Any = ml.compare(one, two, [list("ab"), ["c"], ["a"] * 600])
    assert [answer.one for answer in found.differing] == [None]
    assert not found.names
    assert "architectures" in ml.compare(one, ml.memorize_as("gpt2", [list("ab")])).config


def test_neurons_that_differ_are_counted(both: list[Path], tmp_path: Path) -> None:
    new = shutil.copytree(both[1], tmp_path / "new")
    tensors = load_file(new / "model.safetensors")
    bias, second = (
        next(name for name in tensors if part in name) for part in ("intermediate.dense.bias", "0.output.dense.weight")
    )
    tensors[bias][2] += 1.0  # one reads something else
    tensors[second][:, 5] *= 2.0  # one writes something else
    save_file({name: part.contiguous() for name, part in tensors.items()}, new / "model.safetensors")
    found = ml.compare(both[1], str(new))
    assert (found.only_one, found.only_two) == (2, 2)
    assert found.weights[bias] == 1
    assert set(found.weights) == {bias, second}
    assert not found.config
    assert found.names
