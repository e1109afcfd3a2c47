"""Where training with rank 1 falls short, is it the contexts or the readout?

A rank-1 head gives the readout of a token that token and one number `c`, its context. Three questions to a trained
one, on random labels:

- *contexts*: are they apart? (r, δ) of the stream after attention by `ml.audit`, and what share of all labels the best
  of all readouts could return from that stream rounded to a format: one label for each different vector, the commonest;
- *trained attention, constructed readout*: a staircase on that stream, as in the proof (`readout.py`);
- *other contexts, trained readout*: attention is left out, and the same readout, its token embedding included, is
  trained on contexts that are given: those of the trained head, of an untrained one, those of the proof, and `k`
  numbers of the kind of the proof (one key, `k` value directions).

Two models beside it: two layers of rank 1, and one layer of full rank. Notation: `N` sequences of `n` tokens, `D` the
width; `transformer.py` has the trained model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import monolayer as ml
from monolayer.arrays import Ints
from monolayer_experiments.contexts import (
    FORMATS,
    after_attention,
    any_readout,
    constructed,
    of_first_head,
    readout_alone,
    untrained,
)
from monolayer_experiments.depth import described, edge, grids
from monolayer_experiments.evidence import apart
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GOLD, GREEN, GREY, ORANGE, RED, VIOLET, amount, bars, chart, line, share
from monolayer_experiments.readout import construct_readout
from monolayer_experiments.synthetic import without_repeats

if TYPE_CHECKING:
    from monolayer_experiments.transformer import Tagger

QUESTION = "Where training with rank 1 falls short, is it the contexts or the readout?"

Results = dict[str, Any]

MODELS = {"1 layer, rank 1": (1, 1), "2 layers, rank 1": (2, 1), "1 layer, full rank": (1, None)}
GIVEN = {"trained": 1, "untrained": 1, "constructed": 1, "constructed, 4 numbers": 4, "constructed, 16 numbers": 16}
"""Contexts that a readout alone is trained on, and how many numbers they are."""
AUDITED = 1 << 13
"""Points of the audit at most: it compares all of them."""
COLOURS = dict(zip(GIVEN, (ORANGE, GREY, BLUE, GREEN, VIOLET), strict=True))


@dataclass(frozen=True)
class Plan:
    """`sizes`: for every number of sequences the seconds that a model has."""

    sizes: dict[int, float]
    length: int
    vocabulary: int
    classes: int
    width: int


QUICK = Plan({40: 0.3}, 6, 30, 8, 32)
FULL = Plan({250: 5.0, 1_000: 7.0, 4_000: 10.0}, 16, 1000, 16, 128)


def run(setting: Setting, progress: Progress) -> Results:
    from monolayer_experiments.trainer import fit, train

    plan = FULL if setting.full else QUICK
    whole, done, rows = sum(plan.sizes.values()), 0.0, []

    def fresh(layers: int, rank: int | None) -> Tagger:
        return untrained(plan.vocabulary, plan.classes, layers, rank, plan.width, setting.seed)

    for count, seconds in plan.sizes.items():
        X, Y = without_repeats(count, plan.length, plan.vocabulary, plan.classes, setting.seed)
        options: dict[str, Any] = {"seconds": seconds, "seed": setting.seed, "device": setting.device}
        labels = {"sequences": count, "labels": Y.size, "chance": 1.0 / plan.classes, "clock": seconds}
        contexts = {
            name: constructed(X, plan.vocabulary, k, setting.seed) for name, k in GIVEN.items() if "const" in name
        }
        contexts["untrained"] = of_first_head(fresh(1, 1), X)
        for number, (name, (layers, rank)) in enumerate(MODELS.items()):
            progress(f"{count:,} sequences, {name}", (done + seconds * number / 8) / whole)
            found = train(X, Y, layers=layers, rank=rank, width=plan.width, **options)
            model: Tagger = found.model.cpu()  # type: ignore[assignment]
            if number == 0:
                contexts["trained"] = of_first_head(model, X)
            for weights, each in (("trained", model), ("untrained", fresh(layers, rank))):
                row = {**labels, "model": name, "weights": weights, **_stream(each, X, Y, setting.seed)}
                rows.append(row | (described(found, curve=False) if weights == "trained" else {}))
        for number, name in enumerate(GIVEN):
            progress(f"{count:,} sequences, contexts {name}", (done + seconds * (3 + number) / 8) / whole)
            c = contexts[name]
            given = np.concatenate([X[..., None], (c - c.mean((0, 1))) / c.std((0, 1))], axis=-1)
            found = fit(
                lambda k=c.shape[-1]: readout_alone(plan.vocabulary, plan.classes, plan.width, k),  # type: ignore[misc]
                given.astype(np.float32),
                Y,
                **options,
            )
            row = {**labels, "model": "readout alone", "weights": name, "any_readout": any_readout(given, Y)}
            rows.append({**row, **described(found, curve=False)})
        built = ml.memorize(X, Y, seed=setting.seed)
        right = float((built.predict(X) == Y).mean())
        rows.append({**labels, "model": "construction", "weights": "constructed", "accuracy": right})
        done += seconds
    sizes = {"length": plan.length, "vocabulary": plan.vocabulary, "classes": plan.classes, "width": plan.width}
    return {**sizes, "rows": rows}


def _stream(model: Tagger, X: Ints, Y: Ints, seed: int) -> Results:
    """What the last readout sees: (r, δ) in bits, the share that any readout could return, and a staircase on it."""
    features = after_attention(model.double(), X)
    backwards = after_attention(model, np.ascontiguousarray(X[:, ::-1]))[:, ::-1]
    built = construct_readout(features, backwards, Y, seed)
    seen = after_attention(model.float(), X)
    part = f"layers.{len(model.layers) - 1}.norm_2"
    audited = ml.audit(model, X[: AUDITED // X.shape[1]], parts=[part])[part]
    return {
        "staircase": built["accuracy"],
        "any_readout": any_readout(seen, Y),
        "bits": audited.bits if np.isfinite(audited.bits) else None,
        "confused": audited.confused,
    }


# -- what the numbers say ------------------------------------------------------------------------------


def _row(results: Results, count: int, model: str, weights: str) -> Results:
    wanted = (count, model, weights)
    return next(row for row in results["rows"] if (row["sequences"], row["model"], row["weights"]) == wanted)


def _sizes(results: Results) -> list[int]:
    return list(dict.fromkeys(row["sequences"] for row in results["rows"]))


def answer(results: Results) -> str:
    last = _sizes(results)[-1]
    rank_1, full = (
        _row(results, last, "1 layer, rank 1", "trained"),
        _row(results, last, "1 layer, full rank", "trained"),
    )
    given = {name: _row(results, last, "readout alone", name)["accuracy"] for name in GIVEN}
    worst = min(rank_1["any_readout"].values())
    text = (
        f"On {last:,} sequences training with rank 1 returns {share(rank_1['accuracy'])} of the labels, with full rank "
        f"{share(full['accuracy'])}. From the very stream of the rank-1 model the best of all readouts could return "
        f"{share(rank_1['any_readout']['float32'])} in float32 and {share(rank_1['any_readout']['bfloat16'])} in "
        f"bfloat16, and a constructed staircase returns {share(rank_1['staircase'])} in float64. A readout trained "
        f"alone reaches {share(given['trained'])} on the contexts of that model, {share(given['untrained'])} on those "
        f"of an untrained head, {share(given['constructed'])} on those of the proof; if the proof gives it 4 numbers "
        f"in place of one, {share(given['constructed, 4 numbers'])}, 16, {share(given['constructed, 16 numbers'])}."
    )
    many, one = given["constructed, 16 numbers"], max(given["trained"], given["constructed"], rank_1["accuracy"])
    if worst > rank_1["accuracy"] and many > one and apart(many, one, rank_1["labels"]):
        text += (
            " So it is the readout: the contexts are apart, but within its clock training does not read them from a "
            "single number, whoever made it."
        )
    elif worst <= rank_1["accuracy"]:
        text += " So in the shortest format it is the contexts: no readout could return more."
    return text


def figures(results: Results) -> list[Figure]:
    sizes = _sizes(results)

    def column(model: str, weights: str, key: str = "accuracy") -> list[float]:
        return [_row(results, count, model, weights)[key] for count in sizes]

    last = sizes[-1]
    rows = {
        f"1 layer,<br>{rank}": _row(results, last, f"1 layer, {rank}", "trained") for rank in ("rank 1", "full rank")
    }
    for name in GIVEN:
        rows["given:<br>" + name.replace(", ", ",<br>")] = _row(results, last, "readout alone", name)
    some = [
        bars("trained readout", list(rows), [row["accuracy"] for row in rows.values()], ORANGE),
        bars("any readout, bfloat16", list(rows), [row["any_readout"]["bfloat16"] for row in rows.values()], GREY),
        bars("any readout, float32", list(rows), [row["any_readout"]["float32"] for row in rows.values()], BLUE),
    ]
    alone = [line(f"contexts {name}", sizes, column("readout alone", name), COLOURS[name]) for name in GIVEN]
    joint = line("trained together, rank 1", sizes, column("1 layer, rank 1", "trained"), RED, dash="dash")
    full = line("trained together, full rank", sizes, column("1 layer, full rank", "trained"), GOLD, dash="dash")
    lines = [*alone, joint, full]
    return [
        Figure(
            f"Labels right on {last:,} sequences, by contexts and readout",
            chart(some, "contexts", "labels right", range_y=(0.0, 1.05)),
            "Left: attention and readout trained together. Given: a readout trained alone on fixed contexts.",
        ),
        Figure(
            "Labels right by a trained readout, for contexts of every kind",
            chart(lines, "sequences", "labels right", log_x=True, range_y=(0.0, 1.05), ticks_x=sizes),
            "A staircase on the same contexts is in the table. Sizes have different clocks.",
        ),
    ]


def tables(results: Results) -> list[Table]:
    square, streams = [], []
    for count in _sizes(results):
        rank_1 = _row(results, count, "1 layer, rank 1", "trained")
        for name, built in (
            ("trained", rank_1["staircase"]),
            ("untrained", _row(results, count, "1 layer, rank 1", "untrained")["staircase"]),
            ("constructed", _row(results, count, "construction", "constructed")["accuracy"]),
        ):
            together = share(rank_1["accuracy"]) if name == "trained" else "—"
            alone = share(_row(results, count, "readout alone", name)["accuracy"])
            square.append([amount(count), name, together, alone, *_bounds(results, count, name), share(built)])
        for name in [name for name in GIVEN if GIVEN[name] > 1]:
            alone = share(_row(results, count, "readout alone", name)["accuracy"])
            square.append([amount(count), name, "—", alone, *_bounds(results, count, name), "—"])
        for model in MODELS:
            for weights in ("untrained", "trained"):
                row = _row(results, count, model, weights)
                streams.append(
                    [
                        amount(count),
                        model,
                        weights,
                        share(row.get("accuracy")),
                        *(share(row["any_readout"][name]) for name in FORMATS),
                        share(row["staircase"]),
                        "∞" if row["bits"] is None else f"{row['bits']:.1f}",
                    ]
                )
    searched = [row for row in results["rows"] if "grid" in row]
    return [
        Table(
            "Contexts by readout: labels right",
            [
                "sequences",
                "contexts",
                "readout trained with them",
                "trained alone",
                *(f"any, {name}" for name in FORMATS),
                "constructed",
            ],
            square,
        ),
        Table(
            "The stream after attention: what it holds, and what is read from it",
            ["sequences", "model", "weights", "right", *(f"any, {name}" for name in FORMATS), "staircase", "bits of δ"],
            streams,
        ),
        grids(searched, "sequences", "model", "weights"),
    ]


def _bounds(results: Results, count: int, name: str) -> list[str]:
    found = _row(results, count, "readout alone", name)["any_readout"]
    return [share(found[each]) for each in FORMATS]


def limits(results: Results) -> str:
    searched = [row for row in results["rows"] if "grid" in row]
    clocks = sorted({row["clock"] for row in results["rows"]})
    return (
        f"Random labels, one seed, one width ({results['width']}), clocks of {clocks[0]:g} to {clocks[-1]:g} s; with a "
        f"longer clock the trained numbers may rise. {edge(searched)} What any readout could return counts vectors "
        "that are equal in a format; a readout in that format would also have to compute in it. The stream after "
        "attention "
        f"holds a context in all of its {results['width']} coordinates, each rounded by itself. Bits of δ are those of "
        f"the first {AUDITED:,} points at most. A readout alone trains its own token embedding with the contexts "
        "fixed, in float32 with TF32 products on a GPU; models of full rank train in bfloat16 there."
    )
