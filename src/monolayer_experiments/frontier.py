"""What a network of one layer holds, against noise on its weights: bits per parameter and tolerated noise.

Random sequences without repeats, a random class per token: nothing to learn, everything to hold. For each network:
label bits (points times the entropy of their labels) over the numbers in the file, embeddings included; the largest σ
at which multiplying every weight by `1 + σ · normal` leaves 99 of 100 labels right; for robust models also the noise
that is proved, weight by weight in the worst case; and what the rate theorem lets such weights hold at the noise that
they tolerate (`docs/rate.md`).

Beside them: facts in the embedding (`embedded.py`), whose densest network is measured again, its settings unchanged, on
fresh data, since these settings were chosen on the first; labels of 53 random bits, read as one real number each; the
packed readout (`packed.py`) on the same data, and on sequences with labels of 8,192 classes, ten times as long; and
Transformers of three widths, trained as usual and with noise on their weights at every step.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

import monolayer as ml
from monolayer.arrays import Array
from monolayer.table import Progress
from monolayer.theory.rate import (
    bits_of_normal_weights,
    bits_of_weights,
    bits_read_linearly,
    bits_under_any_change,
)
from monolayer_experiments.embedded import certain, memorize_embedded
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import Trace, amount, column, figure, line, low_to_high, scatter, share, table, where
from monolayer_experiments.packed import memorize_packed, pack
from monolayer_experiments.perturbed import ENOUGH, NOISE_DRAWS, recall, tolerance
from monolayer_experiments.runs import budget
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import train

QUESTION = "What does it cost to survive noise?"

CLASSES = 16
ANCHORS = ((3.6, "3.6 trained GPTs · 3.0 by hand · 2.0 trained on facts"), (3.0, ""), (2.0, ""))
"""Bits per parameter of others; one line of words, for three would cover one another."""
PLAN = {
    "sequences": (80, 2_000),
    "length": (8, 16),
    "vocabulary": (60, 1_000),
    "asked": (40, 64),
    "ranks": ((8, 16, 32, 64, 128), (8, 16, 32, 64, 128)),
    "embedded": (((16, 32), (16, 64)), ((12, 124), (24, 160), (32, 224), (32, 320), (64, 512))),
    "fresh": (2, 8),
    "widths": ((32, 64, 128), (32, 64, 128)),
    "noise": (0.05, 0.05),
    "budget": (100, 20_000),
}
"""Quick and full. `asked`: sequences that noisy copies are asked about; `embedded`: value ranks and neurons; `fresh`:
further draws of the data for the first of them; `noise`: what half of the trainings see; `budget`: steps of each
training."""
MANY_BITS = 13
"""Bits of a label with 8,192 classes; a packed number of 52 bits holds four of them."""
WEIGHT_SIZES = (2.0**-40, 2.0**20)
"""Sizes of weights that are not 0, for the bound."""
NONE = 1e-16
"""Where the figure draws networks that tolerate none of the noises tried."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the bits per parameter and the noise that models on a line and robust models survive.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    count, length, words, asked, widths = (
        plan[key] for key in ("sequences", "length", "vocabulary", "asked", "widths")
    )
    X, Y = without_repeats(count, length, words, CLASSES, seed=setting.seed)
    rows: list[Results] = []
    models: dict[str, Results] = {"line": {}}
    models |= {f"robust, rank {k}": {"robust": True, "rank": k} for k in plan["ranks"]}
    for done, (name, options) in enumerate(models.items()):
        progress(name, 0.4 * done / len(models))
        try:
            model = ml.memorize(X, Y, seed=setting.seed, **options)
        except ml.MonolayerError as error:
            rows.append({"name": name, "refused": str(error)})
            continue
        proof = ml.certify(model, X, Y)
        row = _measure(name, model, X, Y, asked, setting.seed)
        rows.append(row | {"verdict": proof.verdict, "proved": proof.noise, "neurons": model.summary.runs})  # type: ignore[union-attr]
    progress("53 random bits per label", 0.4)
    wide = np.random.default_rng(setting.seed).random(X.shape)
    model = ml.memorize(X, wide, seed=setting.seed)
    row = _measure("line, 53 bits per label", model, X, wide, asked, setting.seed, 53.0)
    rows.append(row | {"verdict": ml.certify(model, X, wide).verdict})
    progress("packed labels", 0.45)
    rows.append(_packed_row("packed", X, Y, CLASSES.bit_length() - 1, asked, setting.seed))
    many = without_repeats(2 * count, 10 * length, 20 * length, 2**MANY_BITS, seed=setting.seed)
    rows.append(_packed_row("packed, 8,192 classes", *many, MANY_BITS, asked, setting.seed))
    for rank, neurons in plan["embedded"]:
        progress(f"facts in the embedding, {neurons} neurons", 0.45)
        embedded = memorize_embedded(X, Y, rank, neurons, setting.seed)
        row = _measure(f"in the embedding, {neurons} neurons", embedded, X, Y, asked, setting.seed)
        rows.append(row | {"rank": rank, "neurons": neurons, "proved": certain(embedded, X, Y) or None})
    progress("fresh data", 0.48)
    fresh = [_fresh_row(number, plan, setting) for number in range(1, plan["fresh"] + 1)]
    trainings = [(width, noise) for noise in (0.0, plan["noise"]) for width in widths]
    for done, (width, noise) in enumerate(trainings):
        progress(f"training, width {width}", 0.5 + 0.5 * done / len(trainings))
        rows.append(trained_row(width, noise, X, Y, plan, setting))
    return {"sequences": count, "length": length, "vocabulary": words, "points": int(X.size), "rows": rows} | {
        "fresh": fresh,
        "trained for": plan["noise"],
        "budget": plan["budget"],
    }


def _fresh_row(number: int, plan: Results, setting: Setting) -> Results:
    """The first network with facts in the embedding, built and measured on a draw of the data of its own."""
    (rank, neurons), seed = plan["embedded"][0], setting.seed + number
    X, Y = without_repeats(plan["sequences"], plan["length"], plan["vocabulary"], CLASSES, seed=seed)
    model = memorize_embedded(X, Y, rank, neurons, seed)
    return _measure("in the embedding, fresh data", model, X, Y, plan["asked"], seed) | {"seed": seed}


def trained_row(width: int, noise: float, X: Array, Y: Array, plan: Results, setting: Setting) -> Results:
    """A row of a Transformer that was trained, with this noise on its weights at every step."""
    name = f"trained{' for noise' if noise else ''}, width {width}"
    options = {"steps": plan["budget"], "seed": setting.seed, "device": setting.device, "noise": noise}
    trained = train(X, Y, width=width, **options)
    row = _measure(name, trained.model.cpu(), X, Y, plan["asked"], setting.seed)
    return row | {"seconds": trained.seconds, "steps": trained.steps, "accuracy": trained.accuracy}


def _packed_row(name: str, X: Array, Y: Array, bits: int, asked: int, seed: int) -> Results:
    """A row of the packed readout: the certificate is that of its packed numbers, which are real labels."""
    model = memorize_packed(X, Y, bits, seed)
    proof = ml.certify(model.body, X, pack(Y, bits))
    return _measure(name, model, X, Y, asked, seed, float(bits)) | {"verdict": proof.verdict, "proved": None}


def _measure(
    name: str, model: nn.Module, X: Array, Y: Array, asked: int, seed: int, bits: float = math.log2(CLASSES)
) -> Results:
    """Sizes, and what comes back; `bits`: of a label. Right is equal to the last bit, also for real labels."""
    few, labels = X[:asked], Y[:asked]
    row = {"name": name, "parameters": sum(part.numel() for part in model.parameters()), "bits": X.size * bits}
    noise = tolerance(model, few, labels, seed)
    # The row of a token that does not occur is NaN.
    weights = [part.detach()[torch.isfinite(part)].double().numpy() for part in model.parameters()]
    rate = None if noise is None else bits_of_weights(weights, noise, 1.0 - ENOUGH, round(2.0**bits))
    return row | {"recall": recall(model, X, Y), "noise": noise, "rate": rate}


def _rows(results: Results) -> list[Results]:
    return [row for row in results["rows"] if "refused" not in row]


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    rows = _rows(results)
    packed = where(rows, name="packed")[0]
    facts, trained = _borne(rows, "in the embedding"), _borne(rows, "trained", "trained for noise")
    text = (
        f"The more noise a model tolerates, the fewer bits it holds: of {results['points']:,} random labels the packed "
        f"readout holds {amount(_density(packed))} bits per parameter at no noise"
    )
    if facts:
        text += (
            f", and facts in the embedding {_at(facts[-1])} (the noise that leaves 99 of 100 labels right in "
            f"{NOISE_DRAWS} draws)"
        )
    ahead = [(ours, theirs) for ours in facts for theirs in trained if _density(theirs) >= _density(ours)]
    ahead = [(ours, theirs) for ours, theirs in ahead if theirs["noise"] >= ours["noise"]]
    if not ahead:
        return f"{text}."
    ours, theirs = max(ahead, key=lambda pair: _density(pair[0]))
    return f"{text}. Against us: {theirs['name']} holds {_at(theirs)}, where facts in the embedding hold {_at(ours)}."


def _borne(rows: list[Results], *kinds: str) -> list[Results]:
    """The rows of these kinds that tolerate some noise, those that tolerate most at the end."""
    return sorted((row for row in rows if row["name"].split(",")[0] in kinds and row["noise"]), key=_noise_of)


def _noise_of(row: Results) -> float:
    return float(row["noise"])


def _at(row: Results) -> str:
    """Bits per parameter at the noise that a row tolerates; a row with wrong labels says how many are right."""
    right = "" if row["recall"] == 1.0 else f" ({share(row['recall'])} right without noise)"
    return f"{amount(_density(row), 2)} at {amount(row['noise'], 2)}{right}"


def _fresh(results: Results) -> str:
    """What the densest network with facts in the embedding tolerates on data that did not choose its settings."""
    rows = results.get("fresh", [])
    borne = [row["noise"] or 0.0 for row in rows]
    if not rows:
        return ""
    return (
        f" The settings of the densest were chosen on these data; on {len(rows)} fresh draws of the data the same "
        f"settings hold {low_to_high(map(_density, rows), lambda each: amount(each, 3))} at "
        f"{low_to_high(borne, lambda each: amount(each, 2))}, {amount(sum(borne) / len(borne), 2)} in the mean."
    )


def _density(row: Results) -> float:
    """Bits per parameter, of the labels that are right."""
    return float(row["bits"] * row["recall"] / row["parameters"])


KINDS = {
    "packed": ("packed", "red"),
    "line": ("line", "blue"),
    "robust": ("robust", "green"),
    "in the embedding": ("embedding", "violet"),
    "trained": ("trained", "orange"),
    "trained for noise": ("trained for noise", "pink"),
}
"""The kinds of networks by the first words of their names: their word in the figures, and their colour."""


def _traces(rows: list[Results], least: float) -> list[Trace]:
    """A trace per kind of network, and one for what is proved, from the noise `least` on."""
    traces = []
    for kind, (word, colour) in KINDS.items():
        of_kind = [row for row in rows if row["name"].split(",")[0] == kind]
        # A network that is not right without noise has no place on this axis.
        some = [row for row in of_kind if row["noise"] or row["recall"] == 1.0]
        some = [row for row in some if (row["noise"] or NONE) >= least]
        if some:
            traces.append(scatter(word, [row["noise"] or NONE for row in some], list(map(_density, some)), colour))
    sure = [row for row in rows if (row.get("proved") or 0.0) >= least]
    x, y = column(sure, "proved"), list(map(_density, sure))
    return [*traces, scatter("proved", x, y, "grey", hollow=[True] * len(sure))]


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    rows = _rows(results)
    shares = [10.0**power for power in (-16, -12, -8, -6, -4, -3, -2, -1)]
    bound = [bits_under_any_change(*WEIGHT_SIZES, share) for share in shares]
    fine = [10.0 ** (-4.0 + step / 8.0) for step in range(33)]
    rate = [bits_of_normal_weights(sigma, 1.0 - ENOUGH, CLASSES) for sigma in fine]
    linear = [bits_read_linearly(sigma, 1.0 - ENOUGH) for sigma in fine]
    caption = (
        f"All parameters count, embeddings included. Noise: normal, 99 of 100 labels right in each of {NOISE_DRAWS} "
        "draws. Hollow, proved: every change of every weight by at most that share, all labels right. "
    )
    return [
        figure(
            "Bits per parameter against tolerated noise",
            [*_traces(rows, NONE), line("bound", shares, bound, "grey", dash="dash", markers=False)],
            ("relative noise on every weight", "label bits per parameter"),
            caption
            + "Networks that tolerate none of the noises tried stand at the left edge. Dashed: what no network holds "
            "that survives every change by that share, with weights 0 or between 2^-40 and 2^20. Dotted, for other "
            "data: trained GPTs (Morris 2025), an entry of the hand-coding challenge with 90 % of its facts right "
            "(2026), models trained on facts (Allen-Zhu 2024).",
            log="xy",
            levels=ANCHORS,
        ),
        figure(
            "Bits per parameter against tolerated noise, from 10^-4 to 1",
            [
                *_traces(rows, 1e-4),
                line("rate", fine, rate, "grey", dash="dash", markers=False),
                line("Gardner", fine, linear, "gold", dash="dot", markers=False),
            ],
            ("relative noise on every weight", "label bits per parameter"),
            caption
            + "Dashed, rate: what no network of normal weights holds under random noise. Dotted, Gardner: the most "
            "that many weights hold whose labels are signs of weighted sums of fixed random features, one in a hundred "
            "bits wrong; it does not bind features that are trained.",
            log="xy",
        ),
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    shown: Results = {key: lambda row, key=key: amount(row.get(key), 2) for key in ("noise", "proved", "rate")}
    shown |= {"density": _density, "right": lambda row: f"{row['recall']:.4%}"}
    shown["gardner"] = lambda row: amount(bits_read_linearly(row["noise"], 1.0 - ENOUGH), 2) if row["noise"] else "—"
    head = (
        "network: name; parameters; neurons; bits per parameter: density; right; noise; rate there: rate; Gardner "
        "there: gardner; proved"
    )
    fresh = "network: name; seed; parameters; bits per parameter: density; right; noise; rate there: rate"
    return [
        table("What they hold", _rows(results), head, **shown),
        table(
            "The densest network with facts in the embedding, on fresh data", results.get("fresh", []), fresh, **shown
        ),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    refused = [row["name"] for row in results["rows"] if "refused" in row]
    words = f" Refused: {', '.join(refused)}." if refused else ""
    return (
        "One kind of data, one seed of it but for the fresh draws, tokens with about as many facts each; for others "
        "facts in the embedding "
        "have no answer yet. The rate of a network is estimated from its own weights, where the theorem has means over "
        "all labellings; Gardner's curve is for many weights and features ±1. Noise is asked of some sequences only. "
        f"Trained models had {budget(results)} each, search of the learning rate included. "
        f"Figures of others, where they are drawn, are for other data.{words}{_fresh(results)}"
    )
