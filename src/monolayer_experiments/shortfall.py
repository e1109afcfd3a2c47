"""Where training with rank 1 falls short, is it the contexts or the readout?

A rank-1 head gives the readout of a token that token and one number `c`, its context. Two questions to a trained
one, on random labels:

- *contexts*: are they apart? What share of all labels the best of all readouts could return from the stream after
  attention rounded to a format: one label for each different vector, the commonest;
- *other contexts, trained readout*: attention is left out, and the same readout, its token embedding included, is
  trained on contexts that are given: those of the trained head, of an untrained one, those of the proof, and `k`
  numbers of the kind of the proof (one key, `k` value directions).

Beside it one layer of full rank. Every seed draws data and weights anew. Notation: `N` sequences of `n` tokens, `D`
the width; `transformer.py` has the trained model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import monolayer as ml
from monolayer.arrays import Floats, Ints
from monolayer.table import Progress
from monolayer.theory.corollary import possible
from monolayer_experiments.chance import apart
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import Trace, bars, column, figure, low_to_high, share, table, where
from monolayer_experiments.runs import budget, described, edge, searches
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import fit, train
from monolayer_experiments.transformer import Tagger

QUESTION = "Where training with rank 1 falls short, is it the contexts or the readout?"

RANK_OF_MODEL: dict[str, int | None] = {"1 layer, rank 1": 1, "1 layer, full rank": None}
"""Rank of the attention of each trained model; None is full rank."""
SHORT_FORMATS = ("float32", "float16", "bfloat16")
GIVEN = {"trained": 1, "untrained": 1, "constructed": 1, "constructed, 16 numbers": 16}
"""Contexts that a readout alone is trained on, and how many numbers they are."""
PLAN = {
    "sequences": (40, 4_000),
    "budget": (100, 5_000),
    "seeds": (1, 3),
    "length": (6, 16),
    "vocabulary": (30, 1000),
    "classes": (8, 16),
    "width": (32, 128),
}
"""Quick and full; `budget`: the steps that a model has."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Train networks of rank 1 and readouts alone on given contexts, and measure which of them fall short.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    rows: list[Results] = []
    for number in range(plan["seeds"]):

        def told(stage: str, share: float, number: int = number) -> None:
            progress(f"seed {setting.seed + number}, {stage}", (number + share) / plan["seeds"])

        of_seed = _rows(plan, replace(setting, seed=setting.seed + number), told)
        rows += [{"seed": setting.seed + number, **row} for row in of_seed]
    return {**{key: plan[key] for key in PLAN}, "labels": plan["sequences"] * plan["length"], "rows": rows}


def _rows(plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """Rows of results for all models of one seed."""
    data = {key: plan[key] for key in ("length", "vocabulary", "classes")}
    vocabulary, classes, width, seed = plan["vocabulary"], plan["classes"], plan["width"], setting.seed
    X, Y = without_repeats(plan["sequences"], **data, seed=seed)
    options: Results = {"steps": plan["budget"], "seed": seed, "device": setting.device}
    labels, rows, steps = {"labels": Y.size, "chance": 1.0 / classes}, [], len(RANK_OF_MODEL) + len(GIVEN)
    # In this order; those of the trained and the untrained head are filled in below.
    constructions = {name: constructed(X, vocabulary, k, seed) for name, k in GIVEN.items()}
    for number, (name, rank) in enumerate(RANK_OF_MODEL.items()):
        progress(name, number / steps)
        trained = train(X, Y, rank=rank, width=width, **options)
        fresh = untrained(vocabulary, classes, rank, width, seed)
        model: Tagger = trained.model.cpu()  # type: ignore[assignment]
        if rank == 1:
            constructions["trained"] = of_first_head(model, X)
            constructions["untrained"] = of_first_head(fresh, X)
        for weights, each, kept in (("trained", model, described(trained)), ("untrained", fresh, {})):
            bound = any_readout(after_attention(each.float(), X), Y)
            rows.append({**labels, "model": name, "weights": weights, "any_readout": bound, **kept})
    for number, (name, c) in enumerate(constructions.items(), len(RANK_OF_MODEL)):
        progress(f"contexts {name}", number / steps)
        seen = np.concatenate([X[..., None], (c - c.mean((0, 1))) / c.std((0, 1))], axis=-1)
        make = partial(ReadoutAlone, vocabulary, classes, width, c.shape[-1])
        trained = fit(make, seen.astype(np.float32), Y, **options)
        row = {**labels, "model": "readout alone", "weights": name, "any_readout": any_readout(seen, Y)}
        rows.append({**row, **described(trained)})
    right = float((ml.memorize(X, Y, seed=seed).predict(X) == Y).mean())
    return [*rows, {**labels, "model": "construction", "weights": "constructed", "accuracy": right}]


def untrained(vocabulary: int, classes: int, rank: int | None, width: int, seed: int) -> Tagger:
    """The model of one layer before training, with the weights that this seed draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Tagger(vocabulary, classes, 1, rank, width, 0)


def constructed(X: Ints, vocabulary: int, k: int, seed: int) -> Floats:
    """`c` `(N, n, k)` of one head with a constant query: random keys, the key as the first value, random others."""
    table = np.random.default_rng([seed, 3]).uniform(-1.0, 1.0, (k, vocabulary))
    weights = np.exp(table[0][X])
    c = (table[:, X] * weights).sum(-1) / weights.sum(-1)
    return np.repeat(c.T[:, None], X.shape[1], axis=1)


def of_first_head(model: Tagger, X: Ints) -> Floats:
    """What the rank-1 head of the first layer adds to each token, along its one direction, `(N, n, 1)`."""
    with torch.no_grad():
        layer: Any = model.double().layers[0]
        Z = layer.norm_1(model.stream(torch.from_numpy(X)))
        W_Q, W_K, _ = layer.attention.matrices()
        weights = ((Z @ W_Q.T) @ (Z @ W_K.T).mT / W_Q.shape[0] ** 0.5).softmax(-1)
        outputs: Floats = (weights @ (Z @ layer.attention.right[2].T)).numpy()
        model.float()
    return outputs


def any_readout(features: Floats, Y: Ints) -> dict[str, float]:
    """What the best of all readouts could return from features in each format; whole numbers are ids, and kept."""
    seen, whole = torch.from_numpy(features), features == np.round(features)
    rounded = {name: seen.to(getattr(torch, name)).double().numpy() for name in SHORT_FORMATS}
    return {name: possible(np.where(whole, features, values), Y.ravel()) for name, values in rounded.items()}


@torch.no_grad()
def after_attention(model: Tagger, X: Ints) -> Floats:
    """The stream after the attention of a model of one layer `(N, n, D)`."""
    Z = model.stream(torch.from_numpy(X))
    stream: Floats = model.layers[0].attend(Z, None).numpy()  # type: ignore[operator]
    return stream


class ReadoutAlone(nn.Module):
    """The readout of the trained model with its token embedding: `embed(x) + W c`, feed-forward block, head."""

    def __init__(self, vocabulary: int, classes: int, width: int, k: int) -> None:
        super().__init__()
        self.embed, self.context = nn.Embedding(vocabulary, width), nn.Linear(k, width)
        nn.init.normal_(self.context.weight)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, X: Tensor, inside: Tensor | None = None) -> Tensor:
        Z = self.embed(X[..., 0].long()) + self.context(X[..., 1:])
        logits: Tensor = self.head(self.norm_2(Z + self.feed_forward(self.norm_1(Z))))
        return logits


def _shares(results: Results, model: str, weights: str, form: str | None = None) -> list[float]:
    """For every seed, the share of labels that are right, or that any readout could return in the format `form`."""
    rows = where(results["rows"], model=model, weights=weights)
    return column(rows, "accuracy") if form is None else [row["any_readout"][form] for row in rows]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""

    def span(*which: str) -> str:
        return low_to_high(_shares(results, *which), share)

    trained, full = ("1 layer, rank 1", "trained"), ("1 layer, full rank", "trained")
    best = {form: _shares(results, *trained, form) for form in SHORT_FORMATS}
    shares = {name: _shares(results, "readout alone", name) for name in GIVEN}
    one = max(*shares["trained"], *shares["constructed"], *_shares(results, *trained))
    many = min(shares["constructed, 16 numbers"])
    worst = min(map(min, best.values()))
    text = (
        f"On {results['sequences']:,} sequences training with rank 1 returns {span(*trained)} of the labels "
        f"({_seeds(results)}), where from the same contexts the best of all readouts could return "
        f"{low_to_high(best['bfloat16'], share)} even in bfloat16."
    )
    if worst > max(_shares(results, *trained)) and many > one and apart(many, one, results["labels"]):
        text += (
            " So within this budget the readout falls short: the contexts are apart, but training does not read them "
            "from a single number."
        )
    elif worst <= min(_shares(results, *trained)):
        text += " So in the shortest format it is the contexts: no readout could return more."
    against = []
    if min(_shares(results, *full)) > one:
        against.append(f"training with full rank returns {span(*full)}")
    if max(shares["constructed"]) <= max(shares["trained"]):
        against.append("a readout trained alone reads the contexts of the proof no better than those that were trained")
    return f"{text} Against us: {', and '.join(against)}." if against else text


def _by_context(results: Results) -> list[Results]:
    """For each model and its contexts the lowest and highest shares of all seeds."""
    kinds = {(row["model"], row["weights"]): row for row in results["rows"]}
    rows = []
    for (model, weights), row in kinds.items():
        right = _shares(results, model, weights) if "accuracy" in row else []
        spans = {"right": low_to_high(right, share) if right else "—"}
        for form in SHORT_FORMATS:
            of_form = _shares(results, model, weights, form) if "any_readout" in row else []
            spans[form] = low_to_high(of_form, share) if of_form else "—"
        rows.append({"model": model, "weights": weights, **spans})
    return rows


def _seeds(results: Results) -> str:
    return f"each of {results['seeds']} seeds" if results["seeds"] > 1 else "one seed"


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    names = {f"1 layer,<br>{rank}": (f"1 layer, {rank}", "trained") for rank in ("rank 1", "full rank")}
    names |= {"given:<br>" + name.replace(", ", ",<br>"): ("readout alone", name) for name in GIVEN}

    def drawn(title: str, colour: str, form: str | None = None) -> Trace:
        return bars(title, list(names), [median(_shares(results, *which, form)) for which in names.values()], colour)

    traces = [
        drawn("trained readout", "orange"),
        drawn("any readout, bfloat16", "grey", "bfloat16"),
        drawn("any readout, float32", "blue", "float32"),
    ]
    title = f"Labels right on {results['sequences']:,} sequences, by contexts and readout"
    caption = "Left: attention and readout trained together. Given: a readout trained alone on fixed contexts."
    caption += f" Median of {results['seeds']} seeds." if results["seeds"] > 1 else ""
    return [figure(title, traces, ("contexts", "labels right"), caption, range_y=(0.0, 1.05))]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    rows = [{**row, **row.get("any_readout", {})} for row in results["rows"]]
    bounds = "; ".join(f"any readout, {name}: {name} %" for name in SHORT_FORMATS)
    head = f"seed; model; weights or contexts: weights; right: accuracy %; {bounds}"
    brief = "; ".join(f"any readout, {name}: {name}" for name in SHORT_FORMATS)
    return [
        table(
            "Labels right, lowest and highest of all seeds",
            _by_context(results),
            f"model; weights or contexts: weights; right; {brief}",
        ),
        table("Labels right, and what could be read from the same contexts", rows, head),
        searches([row for row in rows if "grid" in row], "seed", "model", "weights"),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    searched = [row for row in results["rows"] if "grid" in row]
    return (
        f"Random labels, one size, one width ({results['width']}), {budget(results)} for a model. {edge(searched)} "
        "What any readout could return counts vectors that are equal in a format."
    )
