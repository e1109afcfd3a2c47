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
from monolayer.huggingface.architecture import END
from monolayer.huggingface.architectures import ARCHITECTURES

pytest.importorskip("transformers")
RANDOM = np.random.default_rng(5)
WORDS = RANDOM.integers(0, 12, (6, 6))
ROWS = [[f"w{word}" for word in row[: 3 + number % 4]] for number, row in enumerate(WORDS)]
"""Of 3 to 6 words, so that padding counts."""
LABELS = [[f"c{total % 5}" for total in np.cumsum(row * row)[: 3 + number % 4]] for number, row in enumerate(WORDS)]
"""Labels that the words so far determine, whatever their order."""
OTHERS = [[f"w{word}" for word in row] for row in RANDOM.integers(0, 12, (4, 5))]
"""Sequences that no model holds: what it answers there is compared with our own evaluation."""
TEXTS = ["ab ä\U0001f600b", "ca\tcb"]
SHORT: dict[str, Any] = {"positions": True, "dtype": "bfloat16", "rank": 32}


def jobs() -> list[dict[str, Any]]:
    """Every architecture with every task; each architecture and each task both in float64 and in bfloat16."""
    found: list[dict[str, Any]] = []
    for number, (name, kind) in enumerate(ARCHITECTURES.items()):
        for count, task in enumerate(kind.models):
            short = kind.rms or (number + count) % 2 == 1
            exact = {"storage": "steps", "positions": kind.has_places and count == 0}
            job: dict[str, Any] = {"task": task, "build": (name, SHORT if short else exact)}
            job["attention"] = ["eager", "sdpa"] if kind.eager and not short else ["sdpa"]
            if task == "lm":
                job |= {"rows": [list(text) for text in TEXTS], "labels": None, "prompts": [text[:1] for text in TEXTS]}
            else:
                labels = LABELS if task == "token" else [row[-1] for row in LABELS]
                job |= {"rows": ROWS, "labels": labels, "left": kind.causal and task == "sequence", "others": OTHERS}
            found.append(job)
    # Pipelines, which decode what comes behind the prompt by themselves: each text has its spaces again.
    for rows in ([["to", "be", "or", "not"]], [list("once upon")], [["to", " be", " or"]]):
        lm = {"task": "lm", "rows": rows, "labels": None, "prompts": [rows[0][0]], "pipeline": True}
        found.append({**lm, "build": ("gpt2", {"storage": "steps", "positions": True}), "attention": ["eager"]})
    found[0]["pipeline"] = found[1]["pipeline"] = True
    for job in found:
        glue = " " if all(word.isalnum() and len(word) > 1 for word in job["rows"][0]) else ""
        job["texts"] = [glue.join(row) for row in job["rows"]]
    return found


def test_a_stranger_gets_every_label_back(tmp_path: Path) -> None:
    """One process for all folders: importing transformers is most of the work."""
    work, models = jobs(), []
    for number, job in enumerate(work):
        name, options = job["build"]
        models.append(ml.memorize_as(name, job["rows"], job["labels"], **options))
        job["folder"] = str(models[-1].save(tmp_path / str(number)))
    (tmp_path / "jobs.json").write_text(json.dumps(work), encoding="utf-8")
    command = [sys.executable, "-I", str(Path(__file__).parent / "stranger.py"), "jobs.json", "told.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    for job, model, results in zip(work, models, told, strict=True):
        about = (job["build"], job["task"])
        proof = ml.certify(job["folder"], job["rows"], job["labels"])
        assert proof.verdict == "proved", (about, proof.reason)
        said = [np.asarray(row).tolist() for row in ml.load(job["folder"]).predict(job["rows"])]
        end = model.facts.names[END]
        assert said == (job["labels"] or [[*row[1:], end] for row in job["rows"]]), "our own evaluation says the same"
        for found in results.values():
            assert found["dtype"] == job["build"][1].get("dtype", "float64"), about
            assert found["class"] == model.facts.architecture.models[job["task"]]
            assert found["room"] == model.facts.room == max(map(len, job["rows"])) + 1 + 512
            assert found["finite"], (
                "the inputs of exporters, as long as the model has places, are answered with numbers"
            )
            moved, names = {"tokens", "W_H"}, model.facts.architecture.names(model.facts.task)
            if model.summary.steps:  # a step is flat where facts are, so what it reads does not move
                moved |= {"W_2"} if model.draw.storage == "steps" else {"W_1", "W_2"}
            assert {names[letter] for letter in moved} <= set(found["moved"]), (about, "gradients are seen")
            if job.get("pipeline"):
                assert found["pipeline"] == (job["labels"] or job["texts"][0]), about
            if job["task"] == "lm":
                assert found["next"] == 0, "a batch padded as the tokenizer does it, at every place"
                for way in ("cache", "beams"):
                    assert [text.strip() for text in found[f"said, {way}"]] == job["texts"], (about, way)
                    assert all(found[f"ended, {way}"])
                assert len(job["rows"]) > 1 or 1e-6 < found["loss"] < 0.2, "a text that the begin token begins"
                continue
            assert found["wrong"] == 0, about
            assert found["same_alone"], "padding with its mask changes nothing"
            assert 1e-6 < found["loss"] < 0.2
            assert found.get("left", 0) == 0, "padding on the left, places counted from the begin token"
            if found["dtype"] == "float64":
                assert found["others"] == np.ravel(model.predict(OTHERS)).tolist(), about
