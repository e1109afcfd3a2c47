"""Which half does the work? Attention from the proof, random or trained, each with a readout constructed or trained.

A fourth is the mean: attention from the proof with λ = 0. All have one head and rank 1 at most. Notation: a token has a
stream vector `a` in `R^D` after attention; for the proof `D = 3`: key, code and context; for the others `D` is the
width of an ordinary model (`transformer.py`), either as it was initialized or as it was trained end to end.

A readout is constructed on any attention in the way of the proof: a random direction `w` makes one number `z = wᵀa` of
every token, the numbers are sorted, and a staircase returns the label of each. It is read at `z` computed anew with
the tokens in reverse order: the same number but for rounding. The margin is the narrowest gap between neighbours with
different labels over the largest change that this made. A trained readout is a network of two hidden layers; on trained
attention it is the feed-forward block that was trained with it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import monolayer as ml
from monolayer.arrays import Floats, Ints
from monolayer_experiments.contexts import after_attention, construct_readout, untrained
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.look import amount, bars, column, figure, low_to_high, share, table, where
from monolayer_experiments.runs import DEVICES, described, edge, searches, timed
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import fit, train
from monolayer_experiments.transformer import Tagger

QUESTION = "Is it the attention from the proof that memorizes, or would a random or a trained one do as well?"

ATTENTIONS, READOUTS = ("from the proof", "the mean", "random", "trained"), ("constructed", "trained")
PLAN = {
    "sequences": (100, 2_000),
    "length": (8, 16),
    "vocabulary": (100, 1000),
    "classes": (16, 16),
    "width": (64, 128),
    "hidden": (256, 512),
    "seeds": (1, 3),
    "clock": (4.0, 10.0),
}
"""Quick and full. `hidden`: neurons in each layer of a trained readout; `clock`: seconds for each training."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    cells = []
    for number, seed in enumerate(range(setting.seed, setting.seed + plan["seeds"])):
        X, Y = without_repeats(plan["sequences"], plan["length"], plan["vocabulary"], plan["classes"], seed)
        options = {"seconds": plan["clock"], "seed": seed, "device": setting.device}
        measures: tuple[Any, ...] = (_proof, partial(_proof, temperature=0.0), _random, _trained)
        for place, (attention, measure) in enumerate(zip(ATTENTIONS, measures, strict=True)):
            progress(f"seed {seed}, attention {attention}", (number + place / 4) / plan["seeds"])
            for readout, cell in zip(READOUTS, measure(plan, X, Y, options), strict=True):
                cells.append({"attention": attention, "readout": readout, "seed": seed, **cell})
    return {**{key: plan[key] for key in plan if key not in ("vocabulary", "seeds")}, "cells": cells}


def _proof(
    plan: Results, X: Ints, Y: Ints, options: Results, temperature: float | None = None
) -> tuple[Results, Results]:
    model, built = timed(ml.memorize, X, Y, seed=options["seed"], temperature=temperature)
    assert model.summary is not None  # a model that was just built has one
    cell = {"accuracy": float((model.predict(X) == Y).mean()), "seconds": built, "margin": model.summary.margin}
    began = time.perf_counter()
    with torch.no_grad():
        before, seen = model.stream(torch.from_numpy(model.encode(X).tokens.reshape(X.shape)))
        after = model.attention(before, seen)
    # Key, code and context as three inputs: the staircase reads only code plus context.
    features = torch.stack([before[..., 1], before[..., 2], (after - before)[..., 2]], dim=-1)[:, 1:].numpy()
    return cell, _train_readout(plan, features, Y, options, time.perf_counter() - began)


def _random(plan: Results, X: Ints, Y: Ints, options: Results) -> tuple[Results, Results]:
    began = time.perf_counter()
    model = untrained(plan["vocabulary"], plan["classes"], 1, plan["width"], options["seed"])
    features, made, cell = _constructed(model, X, Y, options["seed"], began)
    return cell, _train_readout(plan, features, Y, options, made)


def _trained(plan: Results, X: Ints, Y: Ints, options: Results) -> tuple[Results, Results]:
    began = time.perf_counter()
    found = train(X, Y, rank=1, width=plan["width"], **options)
    model: Tagger = found.model.cpu()  # type: ignore[assignment]
    _, _, cell = _constructed(model, X, Y, options["seed"], began)
    return cell, {**described(found, curve=False), "margin": None}


def _constructed(model: Tagger, X: Ints, Y: Ints, seed: int, began: float) -> tuple[Floats, float, Results]:
    """The stream after attention, the seconds since `began` that it took, and a readout constructed on it."""
    features = after_attention(model.double(), X)
    made = time.perf_counter() - began
    cell = construct_readout(features, after_attention(model, X[:, ::-1])[:, ::-1], Y, seed)
    return features, made, {**cell, "seconds": cell["seconds"] + made}


def _train_readout(plan: Results, features: Floats, Y: Ints, options: Results, made: float) -> Results:
    """Two hidden layers on standardized features, in float32; `made`: seconds that the features took."""
    flat = features.reshape(-1, features.shape[-1])
    scaled = ((features - flat.mean(0)) / flat.std(0)).astype(np.float32)
    found = fit(partial(_Readout, scaled.shape[-1], plan["hidden"], plan["classes"]), scaled, Y, **options)
    kept = described(found, curve=False)
    return {**kept, "seconds": kept["seconds"] + made, "margin": None}


class _Readout(nn.Sequential):
    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        first, second, last = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
        super().__init__(first, nn.GELU(), second, nn.GELU(), last)

    def forward(self, X: Tensor, inside: Tensor | None = None) -> Tensor:
        logits: Tensor = super().forward(X)  # type: ignore[no-untyped-call]
        return logits


def _means(results: Results, readout: str, key: str) -> dict[str, float]:
    """For every attention that was tried with this readout, the mean over the seeds."""
    found = {each: column(where(results["cells"], attention=each, readout=readout), key) for each in ATTENTIONS}
    return {attention: float(sum(values) / len(values)) for attention, values in found.items() if values}


def answer(results: Results) -> str:
    built, trained = (_means(results, readout, "accuracy") for readout in READOUTS)
    wrong = [attention for attention in built if built[attention] < 1.0]
    text = (
        f"A constructed readout loses labels where attention is {' or '.join(wrong)}"
        if wrong
        else f"A constructed readout returns every label on each of the attentions ({', '.join(built)})"
    )
    reached = ", ".join(f"{share(right)} ({attention})" for attention, right in trained.items())
    seconds = _means(results, "constructed", "seconds")["from the proof"]
    text += (
        f"; a readout trained for {results['clock']:g} s reaches {reached}. Attention and readout from the proof take "
        f"{amount(seconds)} s together."
    )
    seeds = len(where(results["cells"], attention=ATTENTIONS[0], readout=READOUTS[0]))
    # One draw of the data and the weights is an example; what decides is said only of several.
    if not wrong and max(trained.values()) < 1.0 and seeds > 1:
        worst = min(trained, key=trained.__getitem__)
        if max(trained.values()) - trained[worst] < 0.1:
            text += " What decides here is how the readout is found, not where the attention comes from."
        else:
            text += (
                " What decides most is how the readout is found. To a constructed one the attention makes no "
                f"difference; a trained one is worst where attention is {worst}."
            )
    return text


def figures(results: Results) -> list[Figure]:
    traces = []
    for readout, colour in zip(READOUTS, ("blue", "orange"), strict=True):
        means = _means(results, readout, "accuracy")
        traces.append(bars(f"readout {readout}", list(means), list(means.values()), colour))
    title, caption = "Labels right, by attention and readout", "Mean over the seeds."
    return [figure(title, traces, ("attention", "labels right"), caption, range_y=(0.0, 1.1))]


def tables(results: Results) -> list[Table]:
    rows = []
    for attention in ATTENTIONS:
        for readout in READOUTS:
            cells = where(results["cells"], attention=attention, readout=readout)
            row: Results = {"attention": attention, "readout": readout, "right": "not run", "seeds": len(cells)}
            if cells:
                row["right"] = low_to_high(column(cells, "accuracy"), share)
                row["seconds"] = sum(column(cells, "seconds")) / len(cells)
                row["margin"] = min((margin for margin in column(cells, "margin") if margin is not None), default=None)
            rows.append(row)
    return [
        table("Attention and readout", rows, "attention; readout; right; seconds; margin; seeds"),
        searches(_searched(results), "attention", "readout", "seed"),
    ]


def _searched(results: Results) -> list[Results]:
    known = {"labels": results["sequences"] * results["length"], "chance": 1.0 / results["classes"]}
    return [{**known, **cell} for cell in results["cells"] if "grid" in cell]


def limits(results: Results) -> str:
    return (
        f"One size of random data, one width ({results['width']}), one shape of trained readout, {results['clock']:g} "
        f"s of training. {edge(_searched(results))} The attention from the proof gives a readout three numbers per "
        f"token, a random one {results['width']}. {DEVICES}"
    )
