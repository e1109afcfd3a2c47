"""No hardmax layer survives: one pair of sequences defeats them all, and softmax separates it.

The pair is `{1, 2, 5, 6}·v` and `{1, 3, 4, 6}·v`: same minimum, maximum and sum. At a shared token a hardmax head can
pick only the maximum, the minimum or the mean, so its outputs agree, for every weight (Theorem 1). Random layers of
several shapes and ranks are checked in rational arithmetic; the same weights under softmax are enclosed in balls.
A false pair, `{1, 2, 5, 6}·v` and `{1, 2, 5, 7}·v`, whose maxima differ, shows that the check can fail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import monolayer as ml
from monolayer.theory.hardmax import check_witness
from monolayer.theory.universal import universal_pair
from monolayer.theory.weights import AttentionWeights
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.look import PALETTE, figure, line, table

QUESTION = "Is there a one-layer hardmax attention that tells all contexts apart?"

SHAPES = ((1, 1, None), (1, 4, None), (1, 4, 1), (2, 4, None), (4, 8, None), (8, 8, None))
"""Heads, dimension, and the rank of every matrix (None: full)."""
PLAN = {"layers": (60, 1_000)}


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    count = plan["layers"]
    rows = []
    for done, (heads, dim, rank) in enumerate(SHAPES):
        refutations, told = [], 0
        for number in range(count):
            progress(f"{heads} heads, dimension {dim}", (done + number / count) / len(SHAPES))
            seed = setting.seed * 1_000_003 + number
            layer = AttentionWeights.random(heads, dim, seed=seed, rank=rank)
            X, Y = universal_pair(4, dim, seed=seed)
            found = _refutation(layer, X, Y)
            refutations += [] if found is None else [found]
            false = np.stack([X[0], X[1], X[2], 7 * X[0]])
            told += _refutation(layer, X, false) is None
        verdicts = [found.softmax_verdict for found in refutations]
        least = (max(min(c.lower for c in found.softmax), 1e-300) for found in refutations)
        rows.append(
            {
                "heads": heads,
                "dim": dim,
                "rank": rank,
                "layers": count,
                "refuted": len(refutations),
                "softmax_separated": verdicts.count("separated"),
                "softmax_undecided": verdicts.count("undecided"),
                "told_false_pair": told,
                "log10_distance": sorted(map(math.log10, least)),
            }
        )
    return {"rows": rows}


def _refutation(layer: AttentionWeights, X: Any, Y: Any) -> Any:
    """What the pair proves about the layer; None where the layer tells it apart."""
    try:
        return check_witness(layer, X, Y)
    except ml.DataError as survived:
        if "not a witness" not in str(survived):
            raise
        return None


def _name(row: Results) -> str:
    rank = "" if row["rank"] is None else f", rank {row['rank']}"
    return f"{row['heads']} head{'s' if row['heads'] > 1 else ''}, d = {row['dim']}{rank}"


def answer(results: Results) -> str:
    rows = results["rows"]
    layers, refuted, separated = (sum(row[key] for row in rows) for key in ("layers", "refuted", "softmax_separated"))
    told = sum(row["told_false_pair"] for row in rows)
    if refuted < layers:
        return f"Yes: {layers - refuted:,} of {layers:,} layers told the pair apart. That contradicts Theorem 1."
    if not told:
        return "Not decided: no layer told even the false pair apart, so the check proved nothing."
    return (
        "No: one pair of sequences defeats every hardmax layer, by proof. Each of "
        f"{layers:,} random ones was refuted by it, in rational arithmetic. Softmax with the same "
        f"weights separates the pair in {separated:,} of them. {told:,} of them tell a false pair apart, so the check "
        "can fail."
    )


def figures(results: Results) -> list[Figure]:
    curves = []
    for row, colour in zip(results["rows"], PALETTE, strict=False):
        values = row["log10_distance"]
        shares = [(k + 1) / len(values) for k in range(len(values))]
        step = max(1, len(values) // 200)
        curves.append(line(_name(row), values[::step], shares[::step], colour, markers=False))
    return [
        figure(
            "How far apart softmax puts the same pair",
            curves,
            ("log10 of the smallest distance", "share of layers up to it"),
            "Lower ends of the enclosures, at the shared token where the distance is smallest; hardmax gives 0 "
            "everywhere.",
        )
    ]


def tables(results: Results) -> list[Table]:
    head = (
        "layer; tried: layers; hardmax refuted: refuted; softmax separates: softmax_separated; softmax undecided: "
        "softmax_undecided; hardmax tells the false pair: told_false_pair"
    )
    return [table("Random layers", results["rows"], head, layer=_name)]


def limits(results: Results) -> str:
    return (
        "The layers only show the theorem at work. It is about one attention layer on certain vectors, without "
        "positions: on other data some hardmax layer tells all contexts apart (docs/hardmax.md), and two layers, or a "
        "feed-forward block before attention, are not refuted."
    )
