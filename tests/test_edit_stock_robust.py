"""Robust stock folders are edited token by token: the bits of a folder built from the start, proved, and undone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import monolayer as ml
from monolayer.cli import run
from monolayer.data import Sequences
from monolayer.editing.stock import change
from monolayer.editing.stock_folder import carry
from monolayer.stock.architectures import ARCHITECTURES
from tests.test_edit_cli import ROWS, write

RANDOM = np.random.default_rng(3)
X = np.concatenate([12 + np.arange(30)[:, None], np.stack([RANDOM.permutation(12)[:3] for _ in range(30)])], axis=1)
Y = RANDOM.integers(0, 5, X.shape)
OTHER = np.where(np.arange(30)[:, None] == 3, (Y + 1) % 5, Y)
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "draw.json")
VERBS: dict[Any, tuple[Any, Any]] = {
    "forget": ([3, 8], None),
    "edit": (X[3:4], OTHER[3:4]),
    "insert": (X[4:5, [0, 2, 1, 3]], Y[4:5]),
}


def same(one: Path, two: Path) -> bool:
    """Whether two folders are the same files, their cards aside."""
    return all((one / name).read_bytes() == (two / name).read_bytes() for name in FILES)


def build(folder: Path, name: str, data: Sequences, dtype: Any, **options: Any) -> Path:
    return ml.memorize_as(name, data, robust=True, rank=32, dtype=dtype, **options).save(folder)


def anew(old: Path, now: Sequences, out: Path) -> Path:
    """The folder of `now` with the draw of `old`, built from the start."""
    kind = json.loads((old / "config.json").read_text("utf-8"))["model_type"]
    return ml.memorize_as(kind, now, draw=old).save(out)


@pytest.fixture(scope="module", params=["bert float32", "bert bfloat16", "gpt2 bfloat16", "roberta float16"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, dtype = request.param.split()
    return build(tmp_path_factory.mktemp(name) / "old", name, Sequences.of(X, Y), dtype, positions=True)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_an_edit_is_what_the_same_draw_makes_of_the_edited_data(folder: Path, verb: Any, tmp_path: Path) -> None:
    whole = Sequences.of(X, Y)
    model, record, now = change(verb, folder, *VERBS[verb], whole)
    model.save(tmp_path / "new")
    assert same(tmp_path / "new", anew(folder, now, tmp_path / "anew"))
    assert ml.certify(tmp_path / "new", now).verdict == "proved"
    if verb != "insert":  # another label is asked for, or none: the old one is gone
        assert ml.certify(tmp_path / "new", whole).verdict == "refuted"
    # Nothing changes but neurons of the tokens that were asked for, and their usual labels.
    old, new = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "new"))
    touched = np.unique(X[[3, 8] if verb == "forget" else [3] if verb == "edit" else [4]])
    table = next(name for name in old if "word_embeddings" in name or "wte" in name)
    rows = (old[table] != new[table]).any(dim=1).nonzero()[:, 0].numpy() - (len(old[table]) - 42)
    assert set(rows) <= set(touched)
    first = next(name for name in old if name.endswith(("intermediate.dense.weight", "c_fc.weight")))
    stay = [part if "dense" in first else part.T for part in (old[first], new[first])]
    stays = (stay[0][:, None] == stay[1][None]).all(dim=2).any(dim=1)
    assert int((~stays).sum()) <= record.neurons[0] < len(stays)
    block = ("intermediate.", "layer.0.output.dense", "mlp.")
    assert all(splice.tensor == table or any(part in splice.tensor for part in block) for splice in record.splices)
    # The record says what the folder answers now, is saved, made again, and taken back.
    assert record.changes[0].before == (None if verb == "insert" else Y[3, 0])
    if verb != "forget":
        assert record.changes[0].after == (OTHER[3, 0] if verb == "edit" else Y[4, 0])
    record.save(tmp_path / "record.json")
    loaded = ml.Record.load(tmp_path / "record.json")
    carry(loaded, folder, tmp_path / "again", undo=False)
    carry(loaded, tmp_path / "new", tmp_path / "back", undo=True)
    assert same(tmp_path / "again", tmp_path / "new")
    assert same(tmp_path / "back", folder)
    assert "not measured again after an edit" in (tmp_path / "new" / "README.md").read_text("utf-8")
    with pytest.raises(ml.DataError, match="not as this record found it"):
        carry(loaded, tmp_path / "new", tmp_path / "twice", undo=False)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_and_task_can_be_edited(name: str, tmp_path: Path) -> None:
    for number, task in enumerate(ARCHITECTURES[name].models):
        data = Sequences.of(X, {"token": Y, "sequence": Y[:, 0], "lm": None}[task])
        folder = build(tmp_path / f"{task}", name, data, "bfloat16", positions=number == 0, activation="own")
        model, record, now = change("forget", folder, [3, 8], None, data)
        assert record.facts == (2 if task == "sequence" else 8)
        assert same(model.save(tmp_path / f"{task} new"), anew(folder, now, tmp_path / f"{task} anew"))


@given(st.sampled_from(["bert", "gpt2"]), st.sampled_from(["float32", "bfloat16"]), st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_edits_one_after_the_other_end_where_the_data_do(name: str, dtype: str, seed: int) -> None:
    """Whatever rows go and come back: the folder is the one of what is left, with the first draw."""
    random = np.random.default_rng(seed)
    rows = [random.integers(0, 7, size).tolist() for size in random.integers(1, 6, random.integers(4, 12))]
    # Labels that a row's tokens so far determine, so that no rows contradict each other.
    labels = [[int(hash(tuple(row[: place + 1])) % 4) for place in range(len(row))] for row in rows]
    with tempfile.TemporaryDirectory() as path:
        scratch = Path(path)
        if name == "bert":
            labels = [[row[-1]] * len(row) for row in labels]
        data = Sequences.of(rows, labels)
        first = build(scratch / "0", name, data, dtype, positions=True)
        folder, now = first, data
        for step in range(1, 3):
            gone = random.permutation(len(now))[: random.integers(1, len(now))]
            back = data.select(np.unique(random.integers(0, len(data), 2)))
            model, _, now = change("forget", folder, gone, None, now)
            folder = model.save(scratch / f"{step} less")
            assert same(folder, anew(first, now, scratch / f"{step} less anew"))
            model, _, now = change("insert", folder, back, None, now)
            folder = model.save(scratch / f"{step}")
            assert same(folder, anew(first, now, scratch / f"{step} anew"))


def test_a_folder_that_loses_all_neurons_gets_them_back(tmp_path: Path) -> None:
    """A token with one label has none, and a layer without neurons holds one that never fires."""
    data = Sequences.of([["b", "a"], ["c", "a"]], [["v", "u"], ["v", "w"]])
    folder = build(tmp_path / "old", "llama", data, "bfloat16")
    model, record, now = change("forget", folder, [1], None, data)
    assert record.neurons == (1, 1)
    empty = model.save(tmp_path / "empty")
    assert same(empty, anew(folder, now, tmp_path / "anew"))
    model, _, both = change("insert", empty, [["c", "a"]], [["v", "w"]], now)
    assert same(model.save(tmp_path / "full"), anew(folder, both, tmp_path / "both"))
    assert same(tmp_path / "full", folder)


def test_planted_faults_are_refuted(folder: Path, tmp_path: Path) -> None:
    """In what an edit put in, one label's neuron, or one bit of an embedding, is enough."""
    model, record, now = change("edit", folder, X[3:4], OTHER[3:4], (X, Y))
    new = model.save(tmp_path / "new")
    tensors = load_file(new / "model.safetensors")
    second = next(name for name in tensors if name.endswith(("output.dense.weight", "mlp.c_proj.weight"))
                  and "attention" not in name)  # fmt: skip
    splice = next(splice for splice in record.splices if splice.tensor == second)
    place = int(splice.at[splice.put > 0][0])
    fault = {name: tensor.clone() for name, tensor in tensors.items()}
    row = fault[second].movedim(splice.axis, 0)[place]
    row.neg_()
    wrong = tmp_path / "wrong"
    model.save(wrong)
    save_file(fault, wrong / "model.safetensors", metadata={"format": "pt"})
    assert ml.certify(wrong, now).verdict == "refuted"
    assert now.labels is not None
    values = now.labels.values.copy()
    values[3 * 4 + 1] = (values[3 * 4 + 1] + 1) % 5
    lied = Sequences(now.tokens, now.lengths, now.vocabulary, ml.Sequences.of(X, values.reshape(X.shape)).labels)
    assert ml.certify(new, lied).verdict == "refuted"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_transformers_answer_as_the_edit_says(dtype: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = build(tmp_path / "old", "bert", Sequences.of(X, Y), dtype, positions=True)
    for verb, asked in VERBS.items():
        edited, record, now = change(verb, folder, *asked, (X, Y))
        loaded = transformers.AutoModelForTokenClassification.from_pretrained(
            edited.save(tmp_path / verb), dtype=getattr(torch, dtype)
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / verb)
        assert now.labels is not None
        for rows, labels in (
            (now.tokens.reshape(-1, 4), now.labels.decode(now.labels.values)),
            ([one.tokens for one in record.changes[::4]], [one.after for one in record.changes]),
        ):
            words = [[str(token) for token in row] for row in np.asarray(rows).tolist()]
            batch = tokenizer(words, is_split_into_words=True, return_tensors="pt")
            with torch.no_grad():
                said = loaded(**batch).logits[:, 1:].argmax(-1).reshape(-1).tolist()
            assert [loaded.config.id2label[number] for number in said] == [str(label) for label in labels]


def test_the_commands_edit_robust_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = write(tmp_path / "data.jsonl", ROWS)
    facts = write(tmp_path / "facts.jsonl", [{"tokens": ["行", "走"], "labels": ["háng", "zǒu"]}])
    rest = write(tmp_path / "rest.jsonl", ROWS[2:])
    wish = ["--robust", "--dtype", "bfloat16"]
    assert run(["memorize", data, "--architecture", "bert", *wish, "--out", "old"]) == 0
    assert run(["edit", "old", facts, "--data", data, "--out", "new", "--record", "record.json"]) == 0
    assert run(["record", "record.json", "--undo", "new", "--out", "back"]) == 0
    assert same(Path("back"), Path("old"))
    assert run(["forget", "old", "--token", "行", "--data", data, "--out", "less"]) == 0
    assert run(["verify", "less", rest]) == 0


def test_a_fact_that_other_rows_teach_is_counted(tmp_path: Path) -> None:
    for robust in (True, False):
        twice = Sequences.of(np.concatenate([X, X[3:4]]), np.concatenate([Y, Y[3:4]]))
        folder = ml.memorize_as("bert", twice, robust=robust).save(tmp_path / str(robust))
        _, record, _ = change("forget", folder, [3, 8], None, twice)
        assert record.shared == 4


def spoiled(folder: Path, out: Path, part: str) -> Path:
    """The folder with one number, or one key, changed."""
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    out.mkdir()
    for name in FILES:
        (out / name).write_bytes((folder / name).read_bytes())
    if part in config:
        config[part] = "gelu" if part == "hidden_act" else config[part] + 1
        (out / "config.json").write_text(json.dumps(config), encoding="utf-8")
    else:
        name = next(name for name in tensors if part in name)
        tensors[name].view(-1)[-1] += 1.0
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.mark.parametrize(
    "part", ["value.weight", "query.bias", "classifier.weight", "position_embeddings", "LayerNorm"]
)
def test_a_folder_that_was_changed_has_no_draw(part: str, tmp_path: Path) -> None:
    folder = build(tmp_path / "old", "bert", Sequences.of(X, Y), "bfloat16", positions=True)
    with pytest.raises(ml.DataError, match="not what its draw makes"):
        change("forget", spoiled(folder, tmp_path / "spoiled", part), [3], None, (X, Y))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda f: change("forget", f, [3], None, None), "give the data"),
        (lambda f: change("forget", f, [99], None, (X, Y)), "no row 99"),
        (lambda f: change("forget", f, range(30), None, (X, Y)), "forget all"),
        (lambda f: change("edit", f, [[1, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "insert is meant"),
        (lambda f: change("insert", f, [[77, 1, 1, 1]], [[0, 0, 0, 0]], (X, Y)), "new to this draw"),
        (
            lambda f: change("edit", f, X[[3, 5, 3]], [[0] * 4, [0] * 4, [1] * 4], (X, Y)),
            "sequences 0 and 2 of the edit",
        ),
        (lambda f: change("insert", f, [[1, 2, 3, 4, 5]], [[0] * 5], (X, Y)), "has places for 4"),
        (lambda f: change("insert", f, X[3:4], OTHER[3:4], (X, Y)), "edit is meant"),
        (lambda f: change("insert", f, [[1, 2]], [0], (X, Y)), "one per token"),
        (lambda f: change("forget", f, [3], None, (X, Y[:, 0])), "one per token"),
    ],
)
def test_bad_input_is_named(folder: Path, act: Any, words: str) -> None:
    with pytest.raises(ml.DataError, match=words):
        act(folder)


def test_data_that_lack_a_row_are_refused(folder: Path) -> None:
    """A row of a touched token, by the bits of its neurons; others where they decide a usual label."""
    caught = 0
    for row in range(10, 30):
        rest = np.setdiff1d(np.arange(30), [row])
        if np.isin(X[row, 1:], X[3]).any():
            with pytest.raises(ml.DataError, match="not what its draw makes"):
                change("forget", folder, [3], None, (X[rest], Y[rest]))
            caught += 1
    assert caught > 5
