"""`onnx/model.onnx` of a stock folder answers as the folder does: in onnxruntime, and in Node by transformers.js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN, END
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.stock import graph
from monolayer.stock.answers import Evaluation
from monolayer.stock.graph import onnx_model
from tests.each_stock import LABELS, OTHERS, ROWS, TEXTS, built


def logits(session: Any, ids: list[Any], *, left: bool = False) -> Any:
    """What the session says of sequences of ids in one padded batch, at their tokens or one row for each."""
    n = max(map(len, ids))
    tokens, mask = np.zeros((2, len(ids), n), dtype=np.int64)
    for number, row in enumerate(ids):
        at = slice(n - len(row), n) if left else slice(len(row))
        tokens[number, at], mask[number, at] = row, 1
    said = session.run(["logits"], {"input_ids": tokens, "attention_mask": mask, **cache(session, len(ids))})[0]
    return [one[None] if said.ndim == 2 else one[seen == 1] for one, seen in zip(said, mask, strict=True)]


def cache(session: Any, batch: int) -> dict[str, Any]:
    """An empty one, if the session asks for one."""
    kinds = {"tensor(double)": np.float64, "tensor(float)": np.float32}
    asked = [part for part in session.get_inputs() if part.name.startswith("past_key_values.0.")]
    return {part.name: np.zeros((batch, 1, 0, part.shape[-1]), dtype=kinds[part.type]) for part in asked}


def open_session(content: bytes) -> Any:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def ids_of(model: Any, rows: list[list[str]]) -> list[Any]:
    return [[BEGIN, *(model.facts.names.index(word) for word in row)] for row in rows]


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_onnxruntime_answers_as_the_folder_does(name: str, tmp_path: Path) -> None:
    """Every architecture and task, both storages; padding on each side that the certificate covers; the cache."""
    kind = ARCHITECTURES[name]
    for task in kind.models:
        model, folder, _ = built(name, task, tmp_path / task)
        assert [path.name for path in (folder / "onnx").iterdir()] == ["model.onnx"], "no external data"
        session = open_session((folder / "onnx" / "model.onnx").read_bytes())
        rows, others = (TEXTS, [text[::-1] for text in TEXTS]) if task == "lm" else (ROWS, OTHERS)
        held, asked = ids_of(model, rows), ids_of(model, rows + others)
        plain, wanted = Evaluation(model.facts, model.arrays), model.labels(model.data)
        wanted = wanted[:, None] if task == "sequence" else model.data.split(wanted)
        rounding = 1e-7 if model.dtype == "float64" else 1e-4
        at = slice(None) if task == "sequence" else slice(1, None)
        for left in (False, True) if kind.causal else (False,):
            said = [part[at] for part in logits(session, asked, left=left)]
            for answer, label in zip(said, wanted, strict=False):
                assert answer.argmax(-1).tolist() == list(label), (task, left)
            for answer, row in zip(said, asked, strict=True):
                exact = plain.logits(np.array([row]), plain.asked)[0].numpy()
                assert np.abs(answer - exact).max() <= rounding * np.abs(exact).max(), (task, left)
        if task == "lm":
            assert recited(session, held[0][:2], len(rows[0])) == [*held[0], END]


def recited(session: Any, start: list[int], count: int) -> list[int]:
    """`start` and `count` further ids, one token at a time through the cache."""
    said, feed, past = list(start), list(start), cache(session, 1)
    for _ in range(count):
        inputs = {"input_ids": np.array([feed]), "attention_mask": np.ones((1, len(said)), dtype=np.int64)}
        found = dict(zip([part.name for part in session.get_outputs()], session.run(None, inputs | past), strict=True))
        past = {part.replace("present", "past_key_values"): found[part] for part in found if part != "logits"}
        feed = [int(found["logits"][0, -1].argmax())]
        said += feed
    return said


def test_steps_need_their_float64_and_their_epsilon() -> None:
    """Faults that the test above would see: weights cast to float32, and the ε that a fused norm would take."""
    random = np.random.default_rng(2)
    X, Y = random.integers(0, 4, (300, 24)), random.integers(0, 5, (300, 24))  # so many that some are very close
    model = ml.memorize_as("gpt2", X, Y, storage="steps", on_conflict="first")
    ids = [[BEGIN, *(token + 4 for token in row)] for row in X.tolist()]
    assert model.facts.names[4] == "0"
    wanted = model.labels(model.data).reshape(X.shape)  # type: ignore[arg-type]

    def wrong(**changes: Any) -> int:
        said = logits(open_session(onnx_model(replace(model.facts, **changes), model.arrays)), ids)
        return sum(np.count_nonzero(row[1:].argmax(-1) != label) for row, label in zip(said, wanted, strict=True))

    assert wrong() == 0
    assert wrong(dtype="float32") > 0
    assert wrong(architecture=replace(model.facts.architecture, epsilon=1e-5)) > 0


def test_the_file_is_one_that_old_and_new_readers_know(tmp_path: Path) -> None:
    model = ml.memorize_as("gpt2", TEXTS)
    built = onnx.load(model.save(tmp_path / "lm", onnx=True) / "onnx" / "model.onnx")
    assert [(one.domain, one.version) for one in built.opset_import] == [("", 17)]
    assert built.ir_version == 8
    cached = ["past_key_values.0.key", "past_key_values.0.value"]
    assert [part.name for part in built.graph.input] == ["input_ids", "attention_mask", *cached]
    assert [part.name for part in built.graph.output] == ["logits", "present.0.key", "present.0.value"]
    # The name that transformers.js fills in; any other is 0, as that of an empty cache must be.
    shape = [axis.dim_param or axis.dim_value for axis in built.graph.input[2].type.tensor_type.shape.dim]
    assert shape == ["batch_size", 1, "past_sequence_length", model.facts.width]


def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ml.memorize_as("bert", ROWS, LABELS)
    with monkeypatch.context() as changed:
        changed.setattr(graph, "LARGEST", 1000)
        with pytest.raises(ml.DataError, match=r"bytes, and an ONNX file ends at 1,000"):
            model.save(tmp_path / "no", onnx=True)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ml.DataError, match=r"monolayer\[onnx\]"):
        model.save(tmp_path / "no", onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_with_its_onnx_and_nobody_elses(tmp_path: Path) -> None:
    """An old network never stays beside new weights, and what someone else put there is not deleted."""
    model = ml.memorize_as("bert", ROWS, LABELS)
    folder = model.save(tmp_path / "model", onnx=True)
    assert (folder / "onnx" / "model.onnx").stat().st_mode == (folder / "config.json").stat().st_mode
    model.save(folder, overwrite=True)
    assert not (folder / "onnx").exists()
    model.save(folder, overwrite=True, onnx=True)
    (folder / "onnx" / "model_quantized.onnx").write_bytes(b"mine")
    with pytest.raises(ml.DataError, match="holds 'onnx', which is not part"):
        model.save(folder, overwrite=True)
    assert (folder / "onnx" / "model_quantized.onnx").exists()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"tokens": row, "label": labels[-1]} for row, labels in zip(ROWS, LABELS, strict=True)]
    Path("data.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    said("memorize-as distilbert data.jsonl --out folder --onnx")
    said("memorize data.jsonl --out own")
    found = json.loads(said("export own data.jsonl --to bert --out other --onnx --json"))
    assert (found["model"], found["certificate"]["verdict"]) == ("BertForSequenceClassification", "proved")
    assert "exists already" in said("export own data.jsonl --to bert --out other", code=2)
    assert "give the sequences" in said("export own --to bert --out none", code=2)
    for made in map(Path, ("folder", "other")):
        assert (made / "onnx" / "model.onnx").exists()
        assert "nothing is said about onnx/" in (made / "certificate.json").read_text(encoding="utf-8")
        assert "transformers.js" in (made / "README.md").read_text(encoding="utf-8")
        said(f"verify {made} data.jsonl")


SCRIPT = """
const { pipeline, env } = require("@huggingface/transformers");
env.allowRemoteModels = false;
env.localModelPath = process.cwd();
(async () => {
  const said = {};
  for (const [name, task, texts] of JSON.parse(process.argv[2])) {
    const ask = await pipeline(task, name, { dtype: "fp32" });
    const more = task === "text-generation" ? { max_new_tokens: 20, add_special_tokens: true } : {};
    said[name] = [];
    for (const text of texts) said[name].push(await ask(text, more));
  }
  console.log(JSON.stringify(said));
})();
"""


def test_transformers_js_answers_in_node(tmp_path: Path) -> None:
    """Every class that transformers.js has for one of our folders, by its pipelines."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    resolve = subprocess.run([node, "-p", "require.resolve('@huggingface/transformers')"], capture_output=True)
    if resolve.returncode != 0:
        pytest.skip("needs npm install @huggingface/transformers, and NODE_PATH set to its node_modules")
    texts = [["to", "be", "or", "not", "to", "be", "that", "is"], ["once", "upon", "a", "time"]]
    jobs = []
    for number, (name, kind) in enumerate(ARCHITECTURES.items()):
        storage: Any = "cells" if kind.rms or number % 2 == 1 else "steps"
        data: Any = (texts, None) if kind.causal else (ROWS, LABELS)
        ml.memorize_as(name, *data, storage=storage).save(tmp_path / name, onnx=True)
        asked = ["to", "once"] if kind.causal else [" ".join(row) for row in ROWS]
        jobs.append((name, "text-generation" if kind.causal else "token-classification", asked))
    (tmp_path / "ask.cjs").write_text(SCRIPT, encoding="utf-8")
    command = [node, "ask.cjs", json.dumps(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, said in json.loads(done.stdout.splitlines()[-1]).items():
        if ARCHITECTURES[name].causal:
            assert [one[0]["generated_text"].strip().split() for one in said] == texts, name
        else:
            assert [[part["entity"] for part in one] for one in said] == LABELS, name
