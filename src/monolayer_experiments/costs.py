"""What construction does not give: tolerance of noise in the weights, and answers for new sequences.

Data with a rule: token `x` has a hidden bit `a(x)`; a sequence has the bit `b`, whether the marker token occurs in it;
the label is `2b + a(x)`. The same sequences are memorized by construction and learned by training. Then (1) every
weight is multiplied by `1 + σ g`, `g` Gaussian, and (2) both models answer for sequences that neither has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

import monolayer as ml
from monolayer.arrays import Ints
from monolayer_experiments.experiment import Figure, Progress, Results, Setting, Table
from monolayer_experiments.look import amount, figure, line, share, table
from monolayer_experiments.perturbed import noisy
from monolayer_experiments.runs import apart
from monolayer_experiments.trainer import predict, train

QUESTION = "What does a trained model have that a constructed one has not?"

LENGTH, VOCABULARY, MARKER = 8, 50, 0
NOISE = tuple(10.0**e for e in range(-16, 1))
PLAN = {"sequences": (300, 5_000), "clock": (5.0, 30.0), "draws": (3, 3), "tried": (500, 500)}
"""Quick and full. `draws` of the noise, and sequences that noisy copies are `tried` on."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    count, draws = plan["sequences"], plan["draws"]
    X, Y = sequences(2 * count, setting.seed)
    new, labels, X, Y = X[count:], Y[count:], X[:count], Y[:count]
    progress("constructing", 0.0)
    built = ml.memorize(X, Y, device=setting.device, seed=setting.seed)
    assert built.summary is not None  # a model that was just built has one
    progress("training", 0.05)
    trained = train(X, Y, seconds=plan["clock"], seed=setting.seed, device=setting.device)
    # The label that each token has most often in the training data: what can be had without looking at the context.
    by_token = np.array([np.bincount(Y[x == X], minlength=4).argmax() for x in range(VOCABULARY)])
    few, theirs = X[: plan["tried"]], Y[: plan["tried"]]

    def noise(model: nn.Module, answers: Callable[[Any], Any], done: float) -> list[float]:
        """Mean share of labels right of noisy copies, for no noise and for every σ."""
        results = [_right(answers(model), theirs)]
        for number, sigma in enumerate(NOISE):
            progress("noise on the weights", done + 0.25 * number / len(NOISE))
            copies = (noisy(model, sigma, setting.seed + draw) for draw in range(draws))
            results.append(float(np.mean([_right(answers(copy), theirs) for copy in copies])))
        return results

    return {
        "sequences": count,
        "length": LENGTH,
        "vocabulary": VOCABULARY,
        "constructed": {
            "seen": _right(built.predict(X), Y),
            "new": _right(built.predict(new), labels),
            "parameters": built.summary.parameters,
            "margin": built.summary.margin,
            "noise": noise(built, lambda model: model.predict(few, path="dense"), 0.5),
        },
        "trained": {
            "seen": trained.accuracy,
            "new": _right(predict(trained.model, new), labels),
            "parameters": trained.parameters,
            "seconds": trained.seconds,
            "rate": trained.rate,
            "noise": noise(trained.model, lambda model: predict(model, few), 0.75),
        },
        "by_token": _right(by_token[new], labels),
        "noise": [0.0, *NOISE],
        "draws": draws,
        "tried": len(few),
    }


def sequences(count: int, seed: int) -> tuple[Ints, Ints]:
    """Sequences without repeats, all different, half of them with the marker, and their labels by the rule."""
    random = np.random.default_rng(seed)
    hidden = random.integers(0, 2, VOCABULARY)
    tokens = 1 + np.argsort(random.random((2 * count, VOCABULARY - 1)), axis=1)[:, :LENGTH]
    marked = random.random(2 * count) < 0.5
    tokens[marked, random.integers(0, LENGTH, 2 * count)[marked]] = MARKER
    _, first = np.unique(np.sort(tokens, axis=1), axis=0, return_index=True)
    X = tokens[np.sort(first)][:count].astype(np.int64)
    return X, 2 * (X == MARKER).any(axis=1, keepdims=True) + hidden[X]


def _right(answers: Any, labels: Ints) -> float:
    return float((np.asarray(answers) == labels).mean())


def _tolerance(results: Results, kind: str) -> float | None:
    """The largest σ up to which at most one label in a hundred of those right without noise is lost."""
    shares = results[kind]["noise"]
    borne = None
    for sigma, right in zip(results["noise"], shares, strict=True):
        if right < 0.99 * shares[0]:
            break
        borne = sigma
    return borne


def answer(results: Results) -> str:
    built, trained = results["constructed"], results["trained"]
    firm, fragile = _tolerance(results, "trained"), _tolerance(results, "constructed")
    labels = results["sequences"] * results["length"]
    found = ["tolerance"] if (firm or 0.0) > (fragile or 0.0) else []
    if trained["new"] > built["new"] and apart(trained["new"], built["new"], labels):
        found.append("generalization")
    head = " and ".join(found).capitalize() or "Nothing that these data show"
    return (
        f"{head}: the constructed model keeps 99 % of its labels or more under relative noise of the weights up to "
        f"{amount(fragile, 2)}, the trained one up to {amount(firm, 2)}. On new sequences that follow a simple rule "
        f"the constructed model is right for {share(built['new'])}, the trained one for {share(trained['new'])}; the "
        f"token alone gives {share(results['by_token'])}."
    )


def figures(results: Results) -> list[Figure]:
    noise = results["noise"][1:]
    return [
        figure(
            "Labels right against relative noise on every weight",
            [
                line("constructed, float64", noise, results["constructed"]["noise"][1:], "blue"),
                line("trained, float32", noise, results["trained"]["noise"][1:], "red"),
            ],
            ("σ", "share of labels right"),
            f"Mean of {results['draws']} draws of the noise, on {results['tried']:,} of the sequences that the models "
            "were made from.",
            log="x",
            range_y=(0.0, 1.05),
        )
    ]


def tables(results: Results) -> list[Table]:
    rows = [
        {"model": kind, **results[kind], "tolerance": _tolerance(results, kind)} for kind in ("constructed", "trained")
    ]
    rows.append({"model": "commonest label of the token", "new": results["by_token"]})
    head = "model; seen %; new %; noise with 1 % lost or less: tolerance; parameters"
    return [table("Beside each other", rows, head)]


def limits(results: Results) -> str:
    trained = results["trained"]
    return (
        f"One rule that attention learns easily, {results['sequences']:,} sequences, {amount(trained['seconds'])} s of "
        f"training, which reached {share(trained['seen'])} on them. Noise is relative and independent for each weight. "
        "The larger the data, the less noise the constructed model bears."
    )
