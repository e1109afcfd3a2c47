"""Where training with rank 1 falls short, is it the contexts or the readout?

A rank-1 head gives the readout of a token that token and one number `c`, its context. Three questions to a trained
one, on random labels:

- *contexts*: are they apart? What share of all labels the best of all readouts could return from the stream after
  attention rounded to a format: one label for each different vector, the commonest;
- *trained attention, constructed readout*: a staircase on that stream, as in the proof (`contexts.py`);
- *other contexts, trained readout*: attention is left out, and the same readout, its token embedding included, is
  trained on contexts that are given: those of the trained head, of an untrained one, those of the proof, and `k`
  numbers of the kind of the proof (one key, `k` value directions).

Two models beside it: two layers of rank 1, and one layer of full rank. Notation: `N` sequences of `n` tokens, `D` the
width; `transformer.py` has the trained model.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer_experiments import contexts
from monolayer_experiments.contexts import FORMATS, after_attention, any_readout, construct_readout
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.look import bars, column, distinct, figure, share, table, where
from monolayer_experiments.runs import apart, described, edge, searches
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import fit, train
from monolayer_experiments.transformer import Tagger

QUESTION = "Where training with rank 1 falls short, is it the contexts or the readout?"

MODELS: dict[str, tuple[int, int | None]] = {
    "1 layer, rank 1": (1, 1),
    "2 layers, rank 1": (2, 1),
    "1 layer, full rank": (1, None),
}
"""Layers and rank."""
GIVEN = {"trained": 1, "untrained": 1, "constructed": 1, "constructed, 4 numbers": 4, "constructed, 16 numbers": 16}
"""Contexts that a readout alone is trained on, and how many numbers they are."""
PLAN = {
    "sizes": ({40: 0.3}, {250: 5.0, 1_000: 7.0, 4_000: 10.0}),
    "length": (6, 16),
    "vocabulary": (30, 1000),
    "classes": (8, 16),
    "width": (32, 128),
}
"""Quick and full. `sizes`: for every number of sequences the seconds that a model has."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    data = {key: plan[key] for key in ("length", "vocabulary", "classes")}
    vocabulary, classes, width = plan["vocabulary"], plan["classes"], plan["width"]
    whole, done, rows = sum(plan["sizes"].values()), 0.0, []
    for count, seconds in plan["sizes"].items():
        X, Y = without_repeats(count, **data, seed=setting.seed)
        options: Results = {"seconds": seconds, "seed": setting.seed, "device": setting.device}
        labels = {"sequences": count, "labels": Y.size, "chance": 1.0 / classes, "clock": seconds}
        # In this order; those of the trained and the untrained head are filled in below.
        given = {name: contexts.constructed(X, vocabulary, k, setting.seed) for name, k in GIVEN.items()}
        for number, (name, (layers, rank)) in enumerate(MODELS.items()):
            progress(f"{count:,} sequences, {name}", (done + seconds * number / 8) / whole)
            found = train(X, Y, layers=layers, rank=rank, width=width, **options)
            fresh = contexts.untrained(vocabulary, classes, layers, rank, width, setting.seed)
            model: Tagger = found.model.cpu()  # type: ignore[assignment]
            if number == 0:
                given["trained"] = contexts.of_first_head(model, X)
                given["untrained"] = contexts.of_first_head(fresh, X)
            for weights, each, kept in (("trained", model, described(found, curve=False)), ("untrained", fresh, {})):
                row = {**labels, "model": name, "weights": weights, **_stream(each, X, Y, setting.seed)}
                rows.append({**row, **kept})
        for number, (name, c) in enumerate(given.items()):
            progress(f"{count:,} sequences, contexts {name}", (done + seconds * (3 + number) / 8) / whole)
            seen = np.concatenate([X[..., None], (c - c.mean((0, 1))) / c.std((0, 1))], axis=-1)
            make = partial(contexts.ReadoutAlone, vocabulary, classes, width, c.shape[-1])
            found = fit(make, seen.astype(np.float32), Y, **options)
            row = {**labels, "model": "readout alone", "weights": name, "any_readout": any_readout(seen, Y)}
            rows.append({**row, **described(found, curve=False)})
        right = float((ml.memorize(X, Y, seed=setting.seed).predict(X) == Y).mean())
        rows.append({**labels, "model": "construction", "weights": "constructed", "accuracy": right})
        done += seconds
    return {**data, "width": width, "rows": rows}


def _stream(model: Tagger, X: Ints, Y: Ints, seed: int) -> Results:
    """What the last readout sees: the share that any readout could return, and a staircase on it."""
    features = after_attention(model.double(), X)
    built = construct_readout(features, after_attention(model, X[:, ::-1])[:, ::-1], Y, seed)
    seen = after_attention(model.float(), X)
    return {"staircase": built["accuracy"], "any_readout": any_readout(seen, Y)}


def _largest(results: Results, model: str, weights: str) -> Results:
    """The row of a model on the most sequences."""
    return where(results["rows"], model=model, weights=weights)[-1]


def answer(results: Results) -> str:
    rank_1, full = (_largest(results, f"1 layer, {rank}", "trained") for rank in ("rank 1", "full rank"))
    given = {name: _largest(results, "readout alone", name)["accuracy"] for name in GIVEN}
    worst = min(rank_1["any_readout"].values())
    text = (
        f"On {rank_1['sequences']:,} sequences training with rank 1 returns {share(rank_1['accuracy'])} of the labels, "
        f"with full rank {share(full['accuracy'])}. From the stream of the rank-1 model the best of all readouts could "
        f"return {share(rank_1['any_readout']['float32'])} in float32 and {share(rank_1['any_readout']['bfloat16'])} "
        f"in bfloat16. A readout trained alone reaches {share(given['trained'])} on the contexts of that model, "
        f"{share(given['constructed'])} on those of the proof, and {share(given['constructed, 16 numbers'])} if the "
        "proof gives it 16 numbers in place of one."
    )
    many, one = given["constructed, 16 numbers"], max(given["trained"], given["constructed"], rank_1["accuracy"])
    if worst > rank_1["accuracy"] and many > one and apart(many, one, rank_1["labels"]):
        text += (
            " So within this clock, and for this one seed, the readout falls short: the contexts are apart, but "
            "training does not read them from a single number."
        )
    elif worst <= rank_1["accuracy"]:
        text += " So in the shortest format it is the contexts: no readout could return more."
    return text


def figures(results: Results) -> list[Figure]:
    rows = {f"1 layer,<br>{rank}": _largest(results, f"1 layer, {rank}", "trained") for rank in ("rank 1", "full rank")}
    for name in GIVEN:
        rows["given:<br>" + name.replace(", ", ",<br>")] = _largest(results, "readout alone", name)
    bounds = column(rows.values(), "any_readout")
    traces = [
        bars("trained readout", list(rows), column(rows.values(), "accuracy"), "orange"),
        bars("any readout, bfloat16", list(rows), column(bounds, "bfloat16"), "grey"),
        bars("any readout, float32", list(rows), column(bounds, "float32"), "blue"),
    ]
    title = f"Labels right on {distinct(results['rows'], 'sequences')[-1]:,} sequences, by contexts and readout"
    caption = "Left: attention and readout trained together. Given: a readout trained alone on fixed contexts."
    return [figure(title, traces, ("contexts", "labels right"), caption, range_y=(0.0, 1.05))]


def tables(results: Results) -> list[Table]:
    rows = [{**row, **row.get("any_readout", {})} for row in results["rows"]]
    bounds = "; ".join(f"any readout, {name}: {name} %" for name in FORMATS)
    head = f"sequences; model; weights or contexts: weights; right: accuracy %; {bounds}; staircase %"
    return [
        table("Labels right, and what could be read from the same contexts", rows, head),
        searches([row for row in rows if "grid" in row], "sequences", "model", "weights"),
    ]


def limits(results: Results) -> str:
    searched = [row for row in results["rows"] if "grid" in row]
    clocks = sorted({row["clock"] for row in results["rows"]})
    return (
        f"Random labels, one seed, one width ({results['width']}), clocks of {clocks[0]:g} to {clocks[-1]:g} s. "
        f"{edge(searched)} What any readout could return counts vectors that are equal in a format."
    )
