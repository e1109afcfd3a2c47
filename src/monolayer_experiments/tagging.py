"""Real labels: reading Chinese phrases and English words, construction against training, seen and held out.

Phrases: each character has its reading in the phrase (`monolayer.data.phrases`). Words: each letter has the phones that
it stands for (`words.py`).

A tenth of the sequences is held out. Of those only the ones whose tokens and positions all occur in the others are
asked: the construction has no answer to the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer.data import Labels, Names, Sequences, phrases
from monolayer_experiments.depth import DEVICES, curve, described, edge, grids
from monolayer_experiments.evidence import apart
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, amount, bars, chart, scatter, share
from monolayer_experiments.words import drawn, words

QUESTION = "On real labels, how does the construction compare with training, on the data and on held-out sequences?"

Results = dict[str, Any]

MODELS = {"1 layer, rank 1": (1, ORANGE), "1 layer": (None, GREEN)}
"""Rank and colour of the trained models; None is full rank."""
HELD_OUT = 0.1


@dataclass(frozen=True)
class Plan:
    """How many sequences of each corpus (None: all), how many common characters, and seconds for each training."""

    phrases: int | None
    characters: int | None
    words: int | None
    least_width: int
    seconds: float


QUICK = Plan(2_000, 300, 500, 64, 3.0)
FULL = Plan(None, None, None, 256, 60.0)


def run(setting: Setting, progress: Progress) -> Results:
    plan = FULL if setting.full else QUICK
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    corpora = []
    for number, (name, read) in enumerate((("Chinese phrases", _some_phrases), ("English words", _some_words))):
        progress(f"{name}, reading", number / 2)
        data = read(plan, setting.seed)
        corpora.append({"corpus": name, **_measure(plan, name, data, setting, progress, number / 2)})
    return {"clock": plan.seconds, "corpora": corpora}


def _measure(plan: Plan, name: str, data: Sequences, setting: Setting, progress: Progress, done: float) -> Results:
    from monolayer_experiments.trainer import predict, train
    from monolayer_experiments.transformer import width_for

    seen, held = split(data, setting.seed)
    (X, Y, lengths), (X_held, _, held_lengths) = _padded(seen), _padded(held)
    progress(f"{name}, construction", done)
    began = time.perf_counter()
    model = ml.memorize(seen, positions=True, seed=setting.seed)
    spent = time.perf_counter() - began
    parameters = sum(parameter.numel() for parameter in model.parameters())
    right = [_right(part, model.labels(model.encode(part))) for part in (seen, held)]
    rows = [_row("construction", right[1], accuracy=right[0], seconds=spent, parameters=parameters)]
    for place, (kind, (rank, _)) in enumerate(MODELS.items()):
        progress(f"{name}, {kind}", done + (place + 0.2) / 4.8)
        width = width_for(parameters, int(X.max()) + 1, int(Y.max()) + 1, 1, rank, plan.least_width)
        options: dict[str, Any] = {"seconds": plan.seconds, "seed": setting.seed, "device": setting.device}
        found = train(X, Y, lengths=lengths, rank=rank, width=width, positions=True, **options)
        answers = predict(found, X_held, held_lengths)
        inside = np.arange(X_held.shape[1]) < held_lengths[:, None]
        rows.append(_row(kind, _right(held, answers[inside]), **described(found, curve=True)))
    table = _most_frequent(seen)
    rows.append(
        _row("most frequent label", _right(held, table[held.tokens]), accuracy=_right(seen, table[seen.tokens]))
    )
    return {
        "sequences": len(seen),
        "labels": len(seen.tokens),
        "held_out": len(held),
        "held_out_labels": len(held.tokens),
        "vocabulary": len(np.unique(seen.tokens)),
        "classes": len(_labels(data).classes or ()),
        "chance": float(np.bincount(_labels(seen).values).max() / len(seen.tokens)),
        "longest": int(seen.lengths.max()),
        "rows": rows,
    }


def _row(model: str, held: float, **found: Any) -> Results:
    return {"model": model, "seconds": None, "parameters": None, "curve": None, **found, "held_out": held}


# -- data ----------------------------------------------------------------------------------------------


def _some_phrases(plan: Plan, seed: int) -> Sequences:
    return some_phrases(plan.phrases, plan.characters, seed)


def some_phrases(count: int | None, characters: int | None, seed: int) -> Sequences:
    """`count` phrases of the `characters` commonest characters; None: all."""
    data = phrases()
    if characters is not None:
        rank = np.argsort(np.argsort(-np.bincount(data.tokens), kind="stable"))
        rare = np.maximum.reduceat(rank[data.tokens], data.offsets[:-1]) >= characters
        data = data.select(np.flatnonzero(~rare))
    return _sample(data, count, seed)


def _some_words(plan: Plan, seed: int) -> Sequences:
    return words(plan.words, seed)


def _labels(data: Sequences) -> Labels:
    assert data.labels is not None  # both corpora are labelled
    return data.labels


def _sample(data: Sequences, count: int | None, seed: int) -> Sequences:
    """`count` sequences at random, with names only for what occurs in them."""
    if count is None:
        return data
    data = data.select(drawn(len(data), count, seed))
    labels = _labels(data)
    vocabulary, tokens = np.unique(data.tokens, return_inverse=True)
    classes, values = np.unique(labels.values, return_inverse=True)
    assert data.vocabulary is not None  # tokens and labels have names
    assert labels.classes is not None
    names = Names(tuple(data.vocabulary.decode(vocabulary).tolist()))
    labels = replace(labels, values=values, classes=Names(tuple(labels.classes.decode(classes).tolist())))
    return Sequences(tokens, data.lengths, names, labels)


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


def _padded(data: Sequences) -> tuple[Ints, Ints, Ints]:
    inside = np.arange(int(data.lengths.max())) < data.lengths[:, None]
    X, Y = np.zeros((2, *inside.shape), dtype=np.int64)
    X[inside], Y[inside] = data.tokens, _labels(data).values
    return X, Y, data.lengths


def _right(data: Sequences, answers: Ints) -> float:
    return float((answers == _labels(data).values).mean())


def _most_frequent(data: Sequences) -> Ints:
    """For every token the label that it has most often `(V,)`."""
    values = _labels(data).values
    classes = int(values.max()) + 1
    pairs, count = np.unique(data.tokens * classes + values, return_counts=True)
    pairs = pairs[np.argsort(count, kind="stable")]
    table = np.zeros(int(data.tokens.max()) + 1, dtype=np.int64)
    table[pairs // classes] = pairs % classes  # of several labels the last, most frequent one stays
    return table


# -- reading the results -------------------------------------------------------------------------------


def _find(corpus: Results, model: str) -> Results:
    return next(row for row in corpus["rows"] if row["model"] == model)


def answer(results: Results) -> str:
    sentences, rule = [], True
    for corpus in results["corpora"]:
        built, usual = _find(corpus, "construction"), _find(corpus, "most frequent label")
        trained = [_find(corpus, name) for name in MODELS]
        best = max(trained, key=lambda row: row["held_out"])
        least = min(usual["held_out"], best["held_out"])
        rule &= built["held_out"] < least and apart(built["held_out"], least, corpus["held_out_labels"])
        known = ", ".join(f"{share(row['accuracy'])} ({row['model']})" for row in trained)
        sentences.append(
            f"{corpus['corpus']}: the construction returned {share(built['accuracy'])} of {corpus['labels']:,} labels, "
            f"built in {amount(built['seconds'])} s; training for up to {results['clock']:g} s reached {known}. On "
            f"held-out sequences the construction gave {share(built['held_out'])}, the best trained model "
            f"{share(best['held_out'])}, the most frequent label of each token {share(usual['held_out'])}."
        )
    if rule:
        sentences.append("The construction memorizes; on new sequences it is no match for a rule, learnt or counted.")
    return " ".join(sentences)


def figures(results: Results) -> list[Figure]:
    made = []
    for corpus in results["corpora"]:
        built = _find(corpus, "construction")
        traces = [curve(_find(corpus, name), colour) for name, (_, colour) in MODELS.items()]
        traces.append(scatter("construction", [built["seconds"]], [built["accuracy"]], BLUE))
        usual = _find(corpus, "most frequent label")["accuracy"]
        made.append(
            Figure(
                f"{corpus['corpus']}: labels of the data right against time",
                chart(
                    traces,
                    "seconds",
                    "labels right",
                    log_x=True,
                    range_y=(0.0, 1.05),
                    levels=[(usual, "most frequent label of the token")],
                ),
                "A curve is the run that was kept; its clock includes the trials of other learning rates.",
            )
        )
    colours = {"construction": BLUE, "most frequent label": GREY, **{name: each for name, (_, each) in MODELS.items()}}
    names = [corpus["corpus"] for corpus in results["corpora"]]
    traces = []
    for model, colour in colours.items():
        values = [_find(corpus, model)["held_out"] for corpus in results["corpora"]]
        traces.append(bars(model, names, values, colour))
    made.append(
        Figure(
            "Held-out sequences",
            chart(traces, "", "labels right", range_y=(0.0, 1.1)),
            "What a memorizer does where it has memorized nothing: the label of some neighbouring context.",
        )
    )
    return made


def tables(results: Results) -> list[Table]:
    rows = []
    for corpus in results["corpora"]:
        for row in corpus["rows"]:
            cells = [share(row["accuracy"]), share(row["held_out"]), amount(row["parameters"]), amount(row["seconds"])]
            rows.append([corpus["corpus"], row["model"], *cells])
    sizes = ("sequences", "labels", "held_out", "held_out_labels", "vocabulary", "classes", "longest")
    corpora = [[corpus["corpus"], *(amount(corpus[size]) for size in sizes)] for corpus in results["corpora"]]
    return [
        Table("Labels right", ["corpus", "model", "data", "held out", "parameters", "seconds"], rows),
        Table("The corpora", ["corpus", *(size.replace("_", " ") for size in sizes)], corpora),
        grids(_searched(results), "corpus", "model"),
    ]


def _searched(results: Results) -> list[Results]:
    """The training runs, with what says whether their search for a rate decided anything."""
    return [
        {**row, **{key: corpus[key] for key in ("corpus", "labels")}, "chance": corpus.get("chance", 0.0)}
        for corpus in results["corpora"]
        for row in corpus["rows"]
        if "grid" in row
    ]


def limits(results: Results) -> str:
    return (
        f"One seed, one width and a clock of {results['clock']:g} s for each trained model, no dropout and no early "
        f"stop on held-out data: made for memorizing, not for the best held-out number. {edge(_searched(results))} The "
        "alignment of letters and phones is the most likely one under simple counts, not checked by people. "
        "Held-out sequences with a token or a position that the data lack are left out: the construction refuses "
        f"them. {DEVICES}"
    )
