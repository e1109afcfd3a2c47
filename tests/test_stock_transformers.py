"""Stock folders in the hands of a stranger: transformers alone, offline, in a process without monolayer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.data.phrases import tiny_phrases
from monolayer.huggingface.architectures import ARCHITECTURES
from tests import plain_stock

pytest.importorskip("transformers")
RANDOM = np.random.default_rng(5)
WORDS = RANDOM.integers(0, 30, (40, 7))
CAUSAL_TEXTS = [" ".join(f"w{word}" for word in row) for row in WORDS]
CAUSAL_LABELS = [[f"c{total % 7}" for total in np.cumsum(row * row)] for row in WORDS]
"""Labels that the words so far determine, whatever their order."""
TEXTS = ["It was the best of times, it was the worst of times.", "Ähnlich, doch anders:\tein Satz – \U0001f600!"]
ONE = ["once upon a midnight dreary, while I pondered, weak and weary"]


def phrases() -> tuple[list[str], list[list[str]]]:
    data = tiny_phrases()
    assert data.vocabulary is not None
    assert data.labels is not None
    assert data.labels.classes is not None
    words = ["".join(row) for row in data.split(data.vocabulary.decode(data.tokens))]
    return words, [row.tolist() for row in data.split(data.labels.classes.decode(data.labels.values))]


def jobs() -> list[dict[str, Any]]:
    """What is built: every architecture with every task, and other activations and positions where they matter."""
    words, readings = phrases()
    first = [row[0] for row in readings]
    found = []
    for name, kind in ARCHITECTURES.items():
        for task in kind.models:
            job: dict[str, Any] = {"task": task}
            if task == "lm":
                job |= {"texts": TEXTS, "prompts": [TEXTS[0][:2], TEXTS[1][:9]], "labels": None}
            elif kind.causal and task == "token":
                job |= {"texts": CAUSAL_TEXTS, "labels": CAUSAL_LABELS}
            elif kind.causal:  # of different lengths, so that padding counts
                job |= {"texts": words, "labels": first, "left": True}
            else:
                job |= {"texts": words, "labels": readings if task == "token" else first}
            if not kind.rms:
                build = {"build": (name, {}), "attention": list(kind.attention)}
                found.append({**job, **build, "name": f"{name} {task}"})
            options = {"positions": True, "robust": True, "dtype": "bfloat16", "activation": "own", "rank": 64}
            build = {"build": (name, options), "attention": ["sdpa"]}
            found.append({**job, **build, "name": f"{name} {task} bfloat16"})
    bert = {"task": "token", "attention": ["eager", "sdpa"], "texts": words, "labels": readings}
    found.append({**bert, "name": "places", "build": ("bert", {"positions": True}), "pipeline": True, "logits": True})
    found.append({**bert, "name": "gelu", "build": ("bert", {"positions": True, "activation": "own"})})
    lm = {"task": "lm", "attention": ["eager", "sdpa"], "texts": ONE, "labels": None, "prompts": [""]}
    found.append({**lm, "name": "recital", "build": ("gpt2", {"positions": True}), "pipeline": True})
    found.append({**lm, "name": "gelu recital", "build": ("gpt2", {"activation": "own"})})
    named = {job["name"]: job for job in found}
    named["bert sequence"]["pipeline"] = True
    named["gpt2 token"]["logits"] = True
    return found


def sequences(job: dict[str, Any]) -> Any:
    return [text.split() for text in job["texts"]] if job["texts"] is CAUSAL_TEXTS else job["texts"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything the stranger found, from one run."""
    scratch = tmp_path_factory.mktemp("stock")
    work = jobs()
    for number, job in enumerate(work):
        name, options = job["build"]
        job["folder"] = str(ml.memorize_as(name, sequences(job), job["labels"], **options).save(scratch / str(number)))
    (scratch / "jobs.json").write_text(json.dumps(work), encoding="utf-8")
    command = [sys.executable, "-I", str(Path(__file__).parent / "stranger.py")]
    done = subprocess.run(
        [*command, str(scratch / "jobs.json"), str(scratch / "told.json")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads((scratch / "told.json").read_text(encoding="utf-8"))
    return {"results": results, "jobs": {job["name"]: job for job in work}}


@pytest.mark.parametrize("name", [job["name"] for job in jobs()])
def test_every_label_comes_back(told: dict[str, Any], name: str) -> None:
    job = told["jobs"][name]
    for how, found in told["results"][name].items():
        assert found["dtype"] == job["build"][1].get("dtype", "float64"), how
        assert found["class"] == ARCHITECTURES[job["build"][0]].models[job["task"]]
        if job["task"] != "lm":
            assert found["wrong"] == 0, how
            assert found["same_alone"], "padding with its mask changes nothing"
            assert found["loss"] < (1e-9 if found["dtype"] == "float64" else 1e-3)
            assert found.get("left", 0) == 0, "padding on the left, places counted from the begin token"
            continue
        assert found["next"] == 0, "a batch padded as the tokenizer does it, at every place"
        for way in ("cache", "no cache", "beams"):
            assert found[f"said, {way}"] == job["texts"], (how, way)
            assert all(found[f"ended, {way}"])


@pytest.mark.parametrize("name", ["places", "bert sequence", "recital"])
def test_pipelines_answer(told: dict[str, Any], name: str) -> None:
    job = told["jobs"][name]
    for found in told["results"][name].values():
        assert found["pipeline"] == (job["labels"] or job["texts"][0])


def test_a_recited_text_costs_nothing(told: dict[str, Any]) -> None:
    """`labels=` shifts by itself; where the begin token settles the first one, the loss of the whole text is 0."""
    assert told["results"]["recital"]["sdpa"]["loss"] < 1e-9


@pytest.mark.parametrize("name", ["places", "gpt2 token"])
def test_the_plain_evaluator_of_the_tests_is_transformers(told: dict[str, Any], name: str) -> None:
    """tests/plain_stock.py stands in for transformers where thousands of folders are tried: it computes the same."""
    found = told["results"][name]["eager"]
    folder = Path(told["jobs"][name]["folder"])
    logits = plain_stock.logits(plain_stock.read(folder), np.array(found["ids"]), np.array(found["mask"]))
    mask = np.array(found["mask"], dtype=bool)
    assert np.abs(logits - np.array(found["logits"]))[mask].max() < 1e-9


@pytest.mark.parametrize("name", [job["name"] for job in jobs()])
def test_the_certificate_agrees(told: dict[str, Any], name: str) -> None:
    job = told["jobs"][name]
    proof = ml.certify(job["folder"], sequences(job), job["labels"])
    assert proof.verdict == "proved", proof.reason
