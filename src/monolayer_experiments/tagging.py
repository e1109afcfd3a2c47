"""Real labels: reading Chinese phrases and English words, construction against training, seen and held out.

Phrases: each character has its reading in the phrase (`monolayer.data.phrases`). Words: each letter has the phones that
it stands for (`words.py`).

A tenth of the sequences is held out. Of those only the ones whose tokens and positions all occur in the others are
asked: the construction has no answer to the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import monolayer as ml
from monolayer.arrays import Bools, Ints
from monolayer.data import Labels, Sequences
from monolayer.data.phrases import phrases
from monolayer.table import Progress
from monolayer_experiments.chance import apart
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import bars, figure, share, table, where
from monolayer_experiments.runs import DEVICES, budget, described, edge, searches, timed
from monolayer_experiments.trainer import predict, train
from monolayer_experiments.transformer import width_for
from monolayer_experiments.words import drawn, words

QUESTION = "On real labels, how does the construction compare with training, on the data and on held-out sequences?"

COLOUR_OF_MODEL = {
    "construction": "blue",
    "most frequent label": "grey",
    "1 layer, rank 1": "orange",
    "1 layer": "green",
}
RANKS = {"1 layer, rank 1": 1, "1 layer": None}
"""Ranks of the trained models; None is full rank."""
HELD_OUT = 0.1
PLAN = {
    "phrases": (2_000, None),
    "characters": (300, None),
    "words": (500, None),
    "least_width": (64, 256),
    "budget": (300, 6_000),
}
"""Quick and full: sequences of each corpus (None: all), common characters, and steps of each training."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Build and train models of phrases and words with real labels, and measure both on seen and unseen sequences.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    progress("reading", 0.0)
    corpora = {
        "Chinese phrases": some_phrases(plan["phrases"], plan["characters"], setting.seed),
        "English words": words(plan["words"], setting.seed),
    }
    rows = []
    for number, (name, data) in enumerate(corpora.items()):

        def within(stage: str, share: float, name: str = name, done: int = number) -> None:
            progress(f"{name}, {stage}", (done + share) / len(corpora))

        rows.append({"corpus": name, **_measure(plan, data, setting, within)})
    return {"budget": plan["budget"], "corpora": rows}


def _measure(plan: Results, data: Sequences, setting: Setting, progress: Progress) -> Results:
    seen, held_out = split(data, setting.seed)
    (X, Y, _), (X_held, _, inside) = padded(seen), padded(held_out)
    rows: list[Results] = []

    def add(model: str, of_held: Ints, **more: Any) -> None:
        row = {"model": model, "seconds": None, "parameters": None}
        rows.append({**row, **more, "held_out": _right(held_out, of_held)})

    progress("construction", 0.0)
    model, spent = timed(ml.memorize, seen, positions=True, seed=setting.seed)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    of_seen, of_held = (model.labels(model.encode(part)) for part in (seen, held_out))
    add("construction", of_held, accuracy=_right(seen, of_seen), seconds=spent, parameters=parameters)
    options: Results = {"steps": plan["budget"], "seed": setting.seed, "device": setting.device}
    for place, (kind, rank) in enumerate(RANKS.items()):
        progress(kind, (place + 0.2) / 2.4)
        width = width_for(parameters, int(X.max()) + 1, int(Y.max()) + 1, 1, rank, plan["least_width"])
        trained = train(X, Y, seen.lengths, rank=rank, width=width, positions=True, **options)
        answers = predict(trained.model, X_held, held_out.lengths)[inside]
        add(kind, answers, **described(trained))
    usual = _most_frequent(seen)
    add("most frequent label", usual[held_out.tokens], accuracy=_right(seen, usual[seen.tokens]))
    return {
        "sequences": len(seen),
        "labels": len(seen.tokens),
        "held_out": len(held_out),
        "held_out_labels": len(held_out.tokens),
        "vocabulary": len(np.unique(seen.tokens)),
        "classes": len(labels_of(data).classes or ()),
        "chance": float(np.bincount(labels_of(seen).values).max() / len(seen.tokens)),
        "longest": int(seen.lengths.max()),
        "rows": rows,
    }


def some_phrases(count: int | None, characters: int | None, seed: int) -> Sequences:
    """`count` phrases of the `characters` commonest characters, with names only for what occurs; None: all."""
    data = phrases()
    if characters is not None:
        rank = np.argsort(np.argsort(-np.bincount(data.tokens), kind="stable"))
        rare = np.maximum.reduceat(rank[data.tokens], data.offsets[:-1]) >= characters
        data = data.select(np.flatnonzero(~rare))
    if count is None:
        return data
    data = data.select(drawn(len(data), count, seed))
    labels = labels_of(data)
    assert data.vocabulary is not None  # tokens and labels have names
    assert labels.classes is not None
    named = data.vocabulary.decode(data.tokens), labels.classes.decode(labels.values)
    return Sequences.of(*([part.tolist() for part in data.split(names)] for names in named))


def labels_of(data: Sequences) -> Labels:
    assert data.labels is not None  # both corpora are labelled
    return data.labels


def split(data: Sequences, seed: int) -> tuple[Sequences, Sequences]:
    """Nine tenths, and those of the last tenth whose tokens and positions all occur in the nine."""
    order = np.random.default_rng(seed).permutation(len(data))
    cut = round(len(data) * HELD_OUT)
    seen = data.select(np.sort(order[cut:]))
    known = np.zeros(int(data.tokens.max()) + 1, dtype=bool)
    known[seen.tokens] = True
    good = np.logical_and.reduceat(known[data.tokens], data.offsets[:-1]) & (data.lengths <= seen.lengths.max())
    held = np.sort(order[:cut])
    return seen, data.select(held[good[held]])


class Padded(NamedTuple):
    """Tokens and labels `(N, n)` with zeros behind each sequence; `inside` `(N, n)` is False there."""

    X: Ints
    Y: Ints
    inside: Bools


def padded(data: Sequences) -> Padded:
    """The sequences as arrays, padded to the longest one."""
    inside = np.arange(int(data.lengths.max())) < data.lengths[:, None]
    X, Y = np.zeros((2, *inside.shape), dtype=np.int64)
    X[inside], Y[inside] = data.tokens, labels_of(data).values
    return Padded(X, Y, inside)


def _right(data: Sequences, answers: Ints) -> float:
    return float((answers == labels_of(data).values).mean())


def _most_frequent(data: Sequences) -> Ints:
    """For every token the label that it has most often `(V,)`."""
    values = labels_of(data).values
    classes = int(values.max()) + 1
    pairs, count = np.unique(data.tokens * classes + values, return_counts=True)
    pairs = pairs[np.argsort(count, kind="stable")]
    table = np.zeros(int(data.tokens.max()) + 1, dtype=np.int64)
    table[pairs // classes] = pairs % classes  # of several labels the last, most frequent one stays
    return table


def find_model(corpus: Results, model: str) -> Results:
    return where(corpus["rows"], model=model)[0]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    sentences, rule = [], True
    for corpus in results["corpora"]:
        built, usual = find_model(corpus, "construction"), find_model(corpus, "most frequent label")
        trained = [find_model(corpus, name) for name in RANKS]
        best = max(trained, key=lambda row: row["held_out"])
        least = min(usual["held_out"], best["held_out"])
        rule &= built["held_out"] < least and apart(built["held_out"], least, corpus["held_out_labels"])
        sentences.append(
            f"{corpus['corpus']}: the construction returned {share(built['accuracy'])} of {corpus['labels']:,} labels; "
            f"on held-out sequences construction {share(built['held_out'])}, best trained model "
            f"{share(best['held_out'])}, most frequent label of each token {share(usual['held_out'])}."
        )
    if rule:
        sentences.append("The construction memorizes; on new sequences it is no match for a rule, learnt or counted.")
    return " ".join(sentences)


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    corpora = results["corpora"]
    names = [corpus["corpus"] for corpus in corpora]
    held = [
        bars(model, names, [find_model(corpus, model)["held_out"] for corpus in corpora], colour)
        for model, colour in COLOUR_OF_MODEL.items()
    ]
    caption = "What a memorizer does where it has memorized nothing: the label of some neighbouring context."
    return [figure("Held-out sequences", held, ("", "labels right"), caption, range_y=(0.0, 1.1))]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    rows = [{**row, "corpus": corpus["corpus"]} for corpus in results["corpora"] for row in corpus["rows"]]
    head = "corpus; model; data: accuracy %; held out: held_out %; parameters; seconds"
    sizes = (
        "corpus; sequences; labels; held out: held_out; held-out labels: held_out_labels; vocabulary; classes; longest"
    )
    return [
        table("Labels right", rows, head),
        table("The corpora", results["corpora"], sizes),
        searches(_searched(results), "corpus", "model"),
    ]


def _searched(results: Results) -> list[Results]:
    return [
        {**row, "corpus": corpus["corpus"], "labels": corpus["labels"], "chance": corpus.get("chance", 0.0)}
        for corpus in results["corpora"]
        for row in corpus["rows"]
        if "grid" in row
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        f"One seed, one width, {budget(results)} for each training, no early stop on held-out data. "
        f"{edge(_searched(results))} The alignment of letters and phones is not checked by people. Held-out sequences "
        f"with unknown tokens are left out. {DEVICES}"
    )
