"""Questions in other words, measured on any file: `python -m monolayer_experiments.questions ENCODER FILE`.

FILE is a list of JSON objects, or one object per line, with a question, its answer, a rewording that is not stored, and
another question that is not to be answered. `--columns` names the four. FILE may also hold texts with intents in the
form of CLINC150 (`data_full.json`), of which `--examples` of each intent are stored. What `ml.recognize` stores is
asked for all of them, with the default floor, and at the same states with others. Beside it, on the same states: the
nearest stored question, and logistic regression, each at the best threshold that leaves a given share of the other
questions unknown. These two thresholds are chosen on the other questions themselves, which favours them.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.attaching.questions.radii import strips, thresholds
from monolayer.attaching.questions.recognize import unit
from monolayer.attaching.questions.running import Running

EXAMPLES = 20
"""Texts of each intent that are stored."""
COLUMNS = ("question", "answer", "reworded", "other_question")
SHARES = (1.0, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5)
"""Shares of the other questions that are to stay unknown."""
FLOORS = tuple(floor / 100 for floor in range(40, 96, 5))
"""Floors of the curve."""


class Rows(NamedTuple):
    """The columns of a file, without rows whose question was there before."""

    questions: list[str]
    answers: list[str]
    rewordings: list[str]
    others: list[str]


def read(file: Path, columns: tuple[str, ...], most: int | None, examples: int = EXAMPLES) -> Rows:
    """The rows of a file; `examples`: how many texts of each intent, if it holds those."""
    text = file.read_text(encoding="utf-8")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.splitlines()]
    if isinstance(rows, dict):
        if "train" in rows:
            return intents(rows, examples)
        rows = [rows]
    first: dict[str, Any] = {}
    for row in rows[:most]:
        first.setdefault(row[columns[0]], row)
    return Rows(*([str(row[name]) for row in first.values()] for name in columns))


def intents(parts: dict[str, list[list[str]]], examples: int) -> Rows:
    """The first texts of each intent in `train`, as many in `test` in the place of rewordings, and those of `oos_test`.

    All are pairs of a text and its intent. Texts without an intent are repeated until there are as many as others.
    """
    stored, asked = (by_intent(parts[part], examples) for part in ("train", "test"))
    names = [name for name in stored for _ in range(examples)]
    others = [text for text, _ in parts["oos_test"]]
    return Rows(
        [text for name in stored for text in stored[name]],
        names,
        [text for name in stored for text in asked[name]],
        [others[row % len(others)] for row in range(len(names))],
    )


def by_intent(pairs: list[list[str]], examples: int) -> dict[str, list[str]]:
    """The first texts of each intent."""
    found: dict[str, list[str]] = {}
    for text, name in pairs:
        found.setdefault(name, []).append(text)
    few = sorted(name for name, texts in found.items() if len(texts) < examples)
    if few:
        raise ml.DataError(f"the intent {few[0]!r} has {len(found[few[0]])} texts, and --examples asks for {examples}")
    return {name: texts[:examples] for name, texts in found.items()}


def told_apart(scores: Floats, right: np.ndarray, others: Floats) -> dict[str, float]:
    """The share of rewordings that are right at thresholds which leave given shares of the others unknown.

    `scores` `(N,)`: of the answers to rewordings, of which `right` are right. `others` `(M,)`: scores of the others.
    """
    at_shares = {}
    for share in SHARES:
        least = float(np.quantile(others, share, method="higher"))
        at_shares[f"{share:.0%} of the others unknown"] = float(np.mean(right & (scores > least)))
    return at_shares


def measure(encoder: Path, rows: Rows, floors: tuple[float, ...] = FLOORS, **options: Any) -> dict[str, Any]:
    """Store the questions and ask for all texts; the same for each of some `floors`."""
    started = time.perf_counter()
    model = ml.recognize(encoder, rows.questions, rows.answers, **options)
    built = time.perf_counter() - started
    results: dict[str, Any] = {
        "questions": len(rows.questions),
        "answers": len(set(rows.answers)),
        "floor": model.manifest.draw.floor,
        "layers appended": model.blocks,
        "seconds to build": built,
        **answered(model, rows),
    }
    given = Given.of(model, rows)
    return {**results, "curve": curve(model, rows, given, floors), "beside": beside(rows, given)}


class Given(NamedTuple):
    """The states û of stored questions, of rewordings and of other questions."""

    stored: Floats
    reworded: Floats
    other: Floats

    @classmethod
    def of(cls, model: Any, rows: Rows) -> Given:
        """What the encoder leaves of all texts."""
        return cls(*(states(model, texts) for texts in (rows.questions, rows.rewordings, rows.others)))


def curve(model: Any, rows: Rows, given: Given, floors: tuple[float, ...]) -> list[dict[str, float]]:
    """What the model answers with other floors: the appended layers with these thresholds, at the same states."""
    encoder, draw, neurons = model.encoder, model.manifest.draw, model.neurons
    keys, wanted = unit(neurons.rows), np.array(rows.answers, dtype=object)
    room, points = strips(encoder, len(keys)), list[dict[str, float]]()
    for floor in floors:
        chosen = thresholds(encoder, keys, neurons.answers, replace(draw, floor=floor), model.kept, room)
        other = replace(model, neurons=neurons._replace(thresholds=chosen.tau), given=None)
        running = Running(encoder, other.config, other.tensors)
        stored, reworded, rest = (np.array(model.classes, dtype=object)[running.at(each)] for each in given)
        points.append({"floor": floor, **shares(stored, reworded, rest, wanted, model.manifest.unknown)})
    return points


def answered(model: Any, rows: Rows) -> dict[str, float]:
    """Shares of texts that a model answers rightly, wrongly and not."""
    wanted = np.array(rows.answers, dtype=object)
    stored, reworded, other = (model.predict(texts) for texts in (rows.questions, rows.rewordings, rows.others))
    return shares(stored, reworded, other, wanted, model.manifest.unknown)


def shares(stored: Any, reworded: Any, other: Any, wanted: Any, unknown: str) -> dict[str, float]:
    """The shares of what is said about stored questions, rewordings and other questions."""
    return {
        "stored": float(np.mean(stored == wanted)),
        "rewordings": float(np.mean(reworded == wanted)),
        "rewordings answered wrongly": float(np.mean((reworded != wanted) & (reworded != unknown))),
        "others unknown": float(np.mean(other == unknown)),
    }


def beside(rows: Rows, given: Given) -> dict[str, dict[str, float]]:
    """The nearest stored question and logistic regression, on the same states."""
    from sklearn.linear_model import LogisticRegression

    stored, reworded, other = given
    wanted = np.array(rows.answers, dtype=object)
    near, far = reworded @ stored.T, other @ stored.T
    right = wanted[near.argmax(axis=1)] == wanted
    compared = {"nearest stored question": told_apart(near.max(axis=1), right, far.max(axis=1))}
    head = LogisticRegression(C=100.0, max_iter=1000).fit(stored, rows.answers)
    certain, sure = head.predict_proba(reworded), head.predict_proba(other)
    right = np.asarray(head.classes_[certain.argmax(axis=1)] == wanted, dtype=bool)
    compared["logistic regression"] = told_apart(certain.max(axis=1), right, sure.max(axis=1))
    return compared


def states(model: Any, texts: list[str]) -> Floats:
    """The embeddings û of texts."""
    data = ml.Sequences.of(texts, per="answer")
    embeddings: Floats = model.running().say(model.ids(data)).states
    return embeddings


def main() -> None:
    """Measure a file, and print the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--columns", default=",".join(COLUMNS), help="the four names, with commas between them")
    parser.add_argument("--rows", type=int, default=None, help="how many rows to take")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="texts of each intent that are stored")
    options = parser.parse_args()
    rows = read(options.file, tuple(options.columns.split(",")), options.rows, options.examples)
    print(json.dumps(measure(options.encoder, rows), indent=1))


if __name__ == "__main__":
    main()
