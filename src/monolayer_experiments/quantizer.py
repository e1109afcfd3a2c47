"""Without the quantizer one rank-1 head has an error, estimated here, that no readout removes.

The paper leaves open whether one-layer Transformers without the block that rounds tokens to a grid are universal.
Without it the readout at token `k` of a lifted stream, as all models here have it, sees the pair `(x_k, B(λ_k; x))`,
for scalar tokens in [0, 1]; `λ_k` may depend on `x_k`. With n = 2 tokens and λ = 0 that is `x_k` and the mean, hence
both tokens: nothing is lost, and no floor is measured. With n = 3 two numbers are squeezed into one.

Whatever the readout does, its mean square error is at least `inf E Var(f_k | what it sees)` over the parameters. The
expectation is estimated by sorting: neighbours in what is seen have the same conditional mean, so half the mean
square of their difference in `f` is the conditional variance. The limits λ → 0 and ±∞ are included.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats, Ints
from monolayer.table import Progress, part_of
from monolayer.theory.boltzmann import boltzmann
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import PALETTE, amount, figure, line, table

QUESTION = "Is the first feed-forward block, which rounds the tokens, needed?"

LENGTH = 3


ScalarTarget = Callable[[Floats], Floats]
"""A permutation equivariant function of scalar tokens, `(B, n)` to `(B, n)`."""


def _same(value: Callable[[Floats], Floats]) -> ScalarTarget:
    """A target that has the same value at all tokens: `(B, n)`, from a function that returns `(B,)`."""
    return lambda x: np.repeat(value(x)[:, None], x.shape[1], axis=1)


QUANTIZED_TARGETS: dict[str, ScalarTarget] = {
    "mean": _same(lambda x: x.mean(axis=1)),
    "maximum": _same(lambda x: x.max(axis=1)),
    "range": _same(lambda x: np.ptp(x, axis=1)),
    "product": _same(lambda x: x.prod(axis=1)),
    "sum of squares": _same(lambda x: (x**2).sum(axis=1)),
    "product of waves": _same(lambda x: np.sin(2 * np.pi * x).prod(axis=1)),
}
"""The functions that are asked about. Mean and maximum are controls: one head sees them."""
PLAN = {
    "cells": ((2, 4, 8, 16), (2, 4, 8, 16, 32)),
    "tested": (4_000, 20_000),
    "samples": (1 << 13, 1 << 15),
    "places": (16, 48),
    "temperatures": (12, 40),
}
"""Quick and full. Of the floors: `samples` for each of the `places` of a token, and `temperatures` of either sign."""
NOTHING = 1e-5
"""A floor below this share of the variance counts as none: the controls come out a hundred times lower."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the error that one head leaves without the first block, and the error with it.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    floors = one_head_floors(QUANTIZED_TARGETS, LENGTH, plan, setting.seed, part_of(progress, 0.0, 0.5))
    cells = plan["cells"]
    random = np.random.default_rng([setting.seed, 4])
    tests = random.random((plan["tested"], LENGTH))
    results = []
    for done, (name, f) in enumerate(QUANTIZED_TARGETS.items()):
        errors = []
        for D in cells:
            progress(f"with the quantizer: {name}, {D} cells", 0.5 + 0.5 * done / len(QUANTIZED_TARGETS))
            model = ml.approximate(lambda X, f=f: f(X[:, :, 0]), 1, LENGTH, cells=D, seed=setting.seed)
            answers = np.asarray(model.predict(tests[:, :, None])).reshape(tests.shape)
            errors.append(float(((answers - f(tests)) ** 2).mean()))
        value = f(random.random((1 << 16, LENGTH)))
        row = {"target": name, "variance": float(value.var()), "floor": floors[name]}
        results.append({**row, "cells": list(cells), "quantized": errors})
    return {"length": LENGTH, "rows": results}


def inverse_temperatures(count: int) -> list[float]:
    """Inverse temperatures of both signs, with the limits."""
    size = np.geomspace(0.1, 300.0, count).tolist()
    return [-math.inf, *(-lam for lam in reversed(size)), 0.0, *size, math.inf]


def left_in_order(order: Ints, f: Floats) -> float:
    """`E Var(f | seen)`, from samples in the order of what is seen: half the mean square step of neighbours."""
    return float((np.diff(f[order]) ** 2).mean() / 2)


def one_head_floors(
    targets: dict[str, ScalarTarget], length: int, plan: Results, seed: int, progress: Progress
) -> dict[str, float]:
    """What one head of rank 1 without a first block leaves of every target: the best λ for each `x_k`, on average.

    `plan` has the `samples` for each of the `places` of a token, and the number of `temperatures` of either sign.
    """
    count, places, lams = plan["samples"], plan["places"], inverse_temperatures(plan["temperatures"])
    random = np.random.default_rng([seed, 3])
    totals = dict.fromkeys(targets, 0.0)
    for place in range(places):
        progress("what one head leaves without a first block", place / places)
        x = np.column_stack([np.full(count, (place + 0.5) / places), random.random((count, length - 1))])

        def seen(lam: float, x: Floats = x) -> Ints:
            return np.argsort(boltzmann(np.full(count, lam), x))

        orders = [(lam, seen(lam)) for lam in lams]
        for name, f in targets.items():
            value = f(x)[:, 0]
            floor, lam = min((left_in_order(order, value), lam) for lam, order in orders)
            for factor in np.geomspace(0.7, 1 / 0.7, 8).tolist() if lam and math.isfinite(lam) else ():
                floor = min(floor, left_in_order(seen(lam * factor), value))
            totals[name] += floor / places
    return totals


def _share(row: Results) -> float:
    """The floor as a share of the variance of the target."""
    return float(row["floor"] / row["variance"])


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    rows = results["rows"]
    free = [row["target"] for row in rows if _share(row) < NOTHING]
    hard = [row for row in rows if _share(row) >= NOTHING]
    if not hard:
        return "Not for these targets: one head sees enough of each of them."
    beaten = sum(row["quantized"][-1] < row["floor"] for row in hard)
    least, most = (100 * pick(_share(row) for row in hard) for pick in (min, max))
    return (
        f"For one rank-1 head and {results['length']} tokens yes: for one function by proof (docs/uniform.md), for "
        f"these targets by estimate. Without it {len(hard)} of {len(rows)} of them keep from {amount(least, 2)} to "
        f"{amount(most, 2)} % of their variance as error, whatever the readout. With it the error falls below that "
        f"floor for {beaten} of the {len(hard)} on the finest grid tried. For {', '.join(free) or 'none'} the "
        "estimated floor is 0. For two tokens, or two heads, by proof, no: a token then knows the others."
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    traces = []
    for row, colour in zip(results["rows"], PALETTE, strict=False):
        relative = [error / row["variance"] for error in row["quantized"]]
        traces.append(line(row["target"], row["cells"], relative, colour))
        if _share(row) >= NOTHING:
            ends, floor = [row["cells"][0], row["cells"][-1]], [_share(row)] * 2
            name = f"floor, {row['target']}"
            traces.append(line(name, ends, floor, colour, dash="dash", markers=False, legend=False))
    return [
        figure(
            f"Mean square error against cells, {results['length']} tokens",
            traces,
            ("cells per coordinate", "error / variance of the target"),
            "Solid: with the quantizer. Dashed, in the same colour: the floor without it; none is drawn where it is 0.",
            log="xy",
            ticks_x=results["rows"][0]["cells"],
        )
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = "target; variance; floor without: floor; share; error with: error; cells"
    computed = {
        "share": lambda row: f"{amount(100 * _share(row), 2)} %",
        "error": lambda row: row["quantized"][-1],
        "cells": lambda row: row["cells"][-1],
    }
    return [table("Without and with the quantizer, mean square", results["rows"], head, **computed)]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        f"Floors are estimates from random samples on a grid of parameters; below {amount(NOTHING)} of the variance "
        f"they count as 0. One head of rank 1, {results['length']} scalar tokens, mean square error."
    )
