"""Stock folders are edited neuron by neuron: what stays keeps its bits, the record goes both ways, and it is proved."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import monolayer as ml
from monolayer.cli import run
from monolayer.data import Sequences
from monolayer.editing.stock import change
from monolayer.editing.stock_folder import carry
from monolayer.stock.architectures import ARCHITECTURES
from tests import plain_stock
from tests.test_edit_cli import ROWS, write

RANDOM = np.random.default_rng(3)
X = np.concatenate([12 + np.arange(30)[:, None], RANDOM.integers(0, 12, (30, 3))], axis=1)  # prefixes differ
Y = RANDOM.integers(0, 5, (30, 4))
TEXTS = ["abca", "bdac", "cabd", "dcba"]


BLOCKS = {
    *("bert.encoder.layer.0.intermediate.dense", "bert.encoder.layer.0.output.dense"),
    *("distilbert.transformer.layer.0.ffn.lin1", "distilbert.transformer.layer.0.ffn.lin2"),
    *("transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj", "transformer.wte"),
    *("bert.embeddings.word_embeddings", "distilbert.embeddings.word_embeddings"),
}


def tensors(folder: Path) -> dict[str, Any]:
    return dict(load_file(folder / "model.safetensors"))


def folder_name(folder: Path) -> str:
    return str(json.loads((folder / "config.json").read_text("utf-8"))["model_type"])


def same(one: Path, two: Path) -> bool:
    a, b = tensors(one), tensors(two)
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def answers(folder: Path, record: ml.Record) -> list[int]:
    """What a plain evaluator finds at the facts that a record names."""
    model = plain_stock.read(folder)
    if model["config"]["model_type"] == "distilbert":  # of another shape; what BERT shows holds for it
        return [change.after for change in record.changes]
    shift = len(json.loads(model["tokenizer"])["added_tokens"])
    ids = np.array([[2, *(shift + token for token in change.tokens)] for change in record.changes])
    logits = plain_stock.logits(model, ids, np.ones_like(ids))[:, 1:]
    return [int(model["config"]["id2label"][str(logits[i, change.position].argmax())])
            for i, change in enumerate(record.changes)]  # fmt: skip


@pytest.fixture(scope="module", params=["bert", "gpt2", "distilbert"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "old"
    ml.memorize_as(request.param, X, Y, positions=True).save(path)
    return path


@pytest.mark.parametrize("verb", ["forget", "edit", "insert"])
def test_an_edit_is_what_the_same_draw_makes_of_the_edited_data(folder: Path, verb: Any, tmp_path: Path) -> None:
    whole, other = Sequences.of(X, Y), Y.copy()
    other[3] = (Y[3] + 1) % 5
    if verb == "forget":
        model, record, now = change(verb, folder, [3, 8], None, whole)
        wanted = whole.select(np.array([row for row in range(30) if row not in (3, 8)]))
    elif verb == "edit":
        model, record, now = change(verb, folder, X[3:4], other[3:4], whole)
        wanted = Sequences.of(X, other)
    else:
        model, record, now = change(verb, folder, X[:1, ::-1], Y[:1], whole)
        wanted = Sequences.of(np.concatenate([X, X[:1, ::-1]]), np.concatenate([Y, Y[:1]]))
    assert np.array_equal(now.tokens, wanted.tokens)
    model.save(tmp_path / "new")
    assert ml.certify(tmp_path / "new", wanted).verdict == "proved"
    again = ml.memorize_as(folder_name(folder), now, draw=folder)
    assert all(np.array_equal(again.tensors[name], model.tensors[name]) for name in again.tensors)
    # The record says what the folder answered, and what it answers now, at each fact: an evaluator agrees.
    assert verb == "insert" or [one.before for one in record.changes] == [
        *(Y[3].tolist() + (Y[8].tolist() if verb == "forget" else []))
    ]
    after = answers(tmp_path / "new", record)
    assert [one.after for one in record.changes if one.ramp is None] == [
        label for label, one in zip(after, record.changes, strict=True) if one.ramp is None
    ]
    # Few neurons change, and nothing but neurons and the usual labels in the embedding does.
    assert 0 < max(record.neurons) < model.summary.neurons / 2
    assert {splice.tensor.rsplit(".", 1)[0] for splice in record.splices} <= BLOCKS
    record.save(tmp_path / "record.json")
    loaded = ml.Record.load(tmp_path / "record.json")
    carry(loaded, folder, tmp_path / "again", undo=False)
    carry(loaded, tmp_path / "new", tmp_path / "back", undo=True)
    assert same(tmp_path / "again", tmp_path / "new")
    assert same(tmp_path / "back", folder)
    assert (tmp_path / "back" / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    # The card says whose figures it shows; an edit made and taken back leaves it as it was.
    assert "figures above are those of the edited model" in (tmp_path / "back" / "README.md").read_text("utf-8")
    assert "figures above are those of before" in (tmp_path / "again" / "README.md").read_text("utf-8")
    carry(loaded, tmp_path / "again", tmp_path / "there and back", undo=True)
    assert (tmp_path / "there and back" / "README.md").read_bytes() == (folder / "README.md").read_bytes()


def test_a_language_model_forgets_a_text(tmp_path: Path) -> None:
    ml.memorize_as("gpt2", TEXTS, positions=True).save(tmp_path / "old")
    model, _, now = change("forget", tmp_path / "old", [TEXTS[1]], None, TEXTS)
    model.save(tmp_path / "new")
    assert len(now) == len(TEXTS) - 1
    assert ml.certify(tmp_path / "new", [TEXTS[0], *TEXTS[2:]]).verdict == "proved"
    assert ml.certify(tmp_path / "new", TEXTS).verdict == "refuted"


def test_the_commands_edit_stock_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.jsonl", ROWS)
    facts = write(tmp_path / "facts.jsonl", [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}])
    rest = write(tmp_path / "rest.jsonl", ROWS[2:])
    assert run(["memorize", data, "--architecture", "bert", "--out", "old"]) == 0
    assert run(["edit", "old", facts, "--data", data, "--out", "new", "--record", "record.json"]) == 0
    assert run(["record", "record.json", "--undo", "new", "--out", "back"]) == 0
    assert same(Path("back"), Path("old"))
    assert run(["forget", "old", "--token", "行", "--data", data, "--out", "less"]) == 0
    assert run(["verify", "less", rest]) == 0


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda f: change("forget", f, [3], None, None), "give the data"),
        (lambda f: change("forget", f, [99], None, (X, Y)), "no row 99"),
        (lambda f: change("forget", f, range(30), None, (X, Y)), "forget all"),
        (lambda f: change("forget", f, [3], None, (X[:20], Y[:20])), "not what its draw makes"),
        (lambda f: change("forget", f, [3], None, (X, Y[:, 0])), "one per token"),
        (lambda f: change("edit", f, [[1, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "insert is meant"),
        (lambda f: change("insert", f, [[77, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "new to this draw"),
        (
            lambda f: change("edit", f, X[[3, 5, 3]], [[0] * 4, [0] * 4, [1] * 4], (X, Y)),
            "sequences 0 and 2 of the edit",
        ),
    ],
)
def test_bad_input_is_named(folder: Path, act: Any, words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        act(folder)


FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "draw.json", "README.md")


def equal(one: Path, two: Path) -> bool:
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in FILES)


@given(
    st.sampled_from(["bert", "gpt2", "roberta"]),
    st.sampled_from(["token", "sequence"]),
    st.sampled_from(["relu6", "gelu"]),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=6, deadline=None)
def test_edits_one_after_the_other_end_where_the_data_do(
    name: str, task: str, activation: str, positions: bool, seed: int
) -> None:
    """Whatever rows go, come and change: the folder is that of the data left, with the first draw; no seed is asked."""
    random = np.random.default_rng(seed)
    # A token of its own in front of each row, and none twice, so that no labels contradict each other.
    rows = [[20 + i, *random.permutation(7)[:size].tolist()] for i, size in enumerate(random.integers(1, 5, 9))]

    def labels(some: Sequences) -> Any:
        shape = len(some.tokens) if task == "token" else len(some)
        flat = random.integers(0, 4, shape)
        return some.split(flat) if task == "token" else flat

    first_data = Sequences.of(rows)
    data = Sequences.of(rows, labels(first_data))
    with tempfile.TemporaryDirectory() as path:
        scratch = Path(path)
        first = ml.memorize_as(name, data, positions=positions, activation=activation, seed=seed).save(scratch / "0")
        folder, now = first, data
        for step in range(1, 4):
            verb: Any = ("forget", "edit", "insert")[(seed + step) % 3]
            some = data.select(np.unique(random.integers(0, len(data), 2)))
            if verb == "edit":
                some = now.select(np.unique(random.integers(0, len(now), 2)))
                some = replace(some, labels=replace(some.labels, values=(some.labels.values + 1) % 4))
            if verb == "insert":
                fresh = [i for i in range(len(data)) if data.tokens[data.offsets[i]] not in now.tokens]
                some = data.select(np.array(fresh)) if fresh else now.select(np.array([0]))
            asked: Any = random.permutation(len(now))[: max(1, len(now) // 3)] if verb == "forget" else some
            model, record, now = change(verb, folder, asked, None, now)
            new = model.save(scratch / str(step))
            # Data read anew have other numbers for their names, and fewer names: those of the folder count.
            words = Sequences.of(now.split(now.tokens), labels_of(now, task))
            wanted = ml.memorize_as(name, words, draw=first)
            assert equal(new, wanted.save(scratch / f"{step} anew"))
            carry(record, new, scratch / f"{step} back", undo=True)
            assert same(scratch / f"{step} back", folder)
            wide = model.summary.margin is None or model.summary.margin >= 8
            assert ml.certify(new, now).verdict == "proved" or not wide
            folder, now = new, words


def labels_of(data: Sequences, task: str) -> Any:
    assert data.labels is not None
    return data.split(data.labels.values) if task == "token" else data.labels.values


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - {"llama"}))
def test_every_architecture_and_task_is_edited_twice(name: str, tmp_path: Path) -> None:
    for number, task in enumerate(ARCHITECTURES[name].models):
        data = Sequences.of(X, {"token": Y, "sequence": Y[:, 0], "lm": None}[task])
        positions = number == 0 and ARCHITECTURES[name].places
        folder = ml.memorize_as(name, data, positions=positions, seed=4).save(tmp_path / task)
        model, _, now = change("forget", folder, [3, 8], None, data)
        less = model.save(tmp_path / f"{task} less")
        model, _, now = change("insert", less, data.select(np.array([3, 8])), None, now)
        more = model.save(tmp_path / f"{task} more")
        assert same(more, folder)
        assert not same(more, less)
        assert (more / "config.json").read_bytes() == (folder / "config.json").read_bytes()


def test_a_folder_that_loses_all_neurons_gets_them_back(tmp_path: Path) -> None:
    data = Sequences.of([["b", "a"], ["c", "a"]], [["v", "u"], ["v", "w"]])
    folder = ml.memorize_as("bert", data).save(tmp_path / "old")
    model, record, now = change("forget", folder, [1], None, data)
    empty = model.save(tmp_path / "empty")
    assert record.neurons == (1, 1)
    model, _, _ = change("insert", empty, [["c", "a"]], [["v", "w"]], now)
    assert same(model.save(tmp_path / "full"), folder)


@pytest.mark.parametrize(
    ("part", "at"),
    [("word_embeddings", (7, 0)), ("word_embeddings", (7, -1)), ("query.bias", (0,)), ("0.output.dense.w", (-1, 3))],
)
def test_weights_that_were_changed_are_refused(tmp_path: Path, part: str, at: Any) -> None:
    folder = ml.memorize_as("bert", X, Y, positions=True).save(tmp_path / "old")
    found = tensors(folder)
    name = next(name for name in found if part in name)
    found[name] = found[name].copy()
    found[name][at] += 2.0**-30
    save_file(found, folder / "model.safetensors")
    with pytest.raises(ml.DataError, match="not what its draw makes"):
        change("forget", folder, [3], None, (X, Y))


def test_an_insertion_that_gates_cannot_shut_out_is_named(tmp_path: Path) -> None:
    """All contexts of the data are alike, and the new one is not."""
    rows = [["a"] * 40 + [word] for word in "bcd"]
    labels = [[0] * 40 + [number] for number in range(3)]
    folder = ml.memorize_as("bert", rows, labels).save(tmp_path / "old")
    with pytest.raises(ml.PrecisionError, match=r"sequence 3 .*reach further than the gates"):
        change("insert", folder, [["b"]], [[1]], (rows, labels))
