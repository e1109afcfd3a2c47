"""Without the quantizer one rank-1 head has an error, estimated here, that no readout removes.

Open question 1 of the paper asks whether the first feed-forward block, which rounds tokens to a grid, is needed.
Without it the readout at token `k` sees, for scalar tokens in [0, 1],

- n = 2, the paper's stream: the number `x_k + w B(λ x_k; x)`, two parameters `w`, `λ`;
- n = 3, a lifted stream: the pair `(x_k, B(λ_k; x))`, any `λ_k` that depends on `x_k`.

Whatever the readout does, its mean square error is at least `inf E Var(f_k | what it sees)` over the parameters. The
expectation is estimated by sorting: neighbours in what is seen have the same conditional mean, so half the mean
square of their difference in `f` is the conditional variance. The limits λ → 0, ±∞ and w → ∞ are included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import monolayer as ml
from monolayer.experiments.experiment import Experiment, Figure, Progress, Setting, Table
from monolayer.experiments.look import PALETTE, amount, chart, line
from monolayer.theory.boltzmann import boltzmann

Floats = NDArray[np.float64]


def _same(n: int, value: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """One value for all `n` tokens: `(B, n)` from `(B,)`."""
    return lambda x: np.repeat(value(x)[:, None], n, axis=1)


def _targets(n: int) -> dict[str, Callable[[Floats], Floats]]:
    return {
        "mean": _same(n, lambda x: x.mean(axis=1)),
        "maximum": _same(n, lambda x: x.max(axis=1)),
        "range": _same(n, lambda x: np.ptp(x, axis=1)),
        "product": _same(n, lambda x: x.prod(axis=1)),
        "sum of squares": _same(n, lambda x: (x**2).sum(axis=1)),
        "product of waves": _same(n, lambda x: np.sin(2 * np.pi * x).prod(axis=1)),
    }


TARGETS = {n: _targets(n) for n in (2, 3)}
"""Permutation equivariant functions `(B, n)` to `(B, n)`. Mean and maximum are controls: one head sees them."""
NOTHING = 1e-5
"""A floor below this share of the variance counts as none: the controls come out a hundred times lower."""


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    floors = {2: _floor_2(setting, progress), 3: _floor_3(setting, progress)}
    cells = (
        {2: (2, 4, 8, 16, 32, 64), 3: (2, 4, 8, 16, 32)} if setting.full else {2: (2, 4, 8, 16, 32), 3: (2, 4, 8, 16)}
    )
    random = np.random.default_rng([setting.seed, 4])
    tests = {n: random.random((20_000 if setting.full else 4_000, n)) for n in cells}
    total, done = sum(len(TARGETS[n]) * len(cells[n]) for n in cells), 0
    results = []
    for n, targets in TARGETS.items():
        for name, f in targets.items():
            errors = []
            for D in cells[n]:
                progress(f"with the quantizer: {name}, {D} cells", 0.5 + 0.5 * done / total)
                model = ml.approximate(partial(_of_tokens, f), 1, n, cells=D, seed=setting.seed)
                found = np.asarray(model.predict(tests[n][:, :, None])).reshape(tests[n].shape)
                errors.append(float(((found - f(tests[n])) ** 2).mean()))
                done += 1
            value = f(random.random((1 << 16, n)))
            results.append(
                {
                    "length": n,
                    "target": name,
                    "variance": float(value.var()),
                    **floors[n][name],
                    "cells": list(cells[n]),
                    "quantized": errors,
                }
            )
    return {"rows": results}


def _of_tokens(f: Callable[[Floats], Floats], X: Floats) -> Floats:
    """`f` on tokens of one coordinate, `(B, n, 1)`."""
    return f(X[:, :, 0])


def _lambdas(count: int) -> list[float]:
    """Inverse temperatures of both signs, with the limits."""
    size = np.geomspace(0.1, 300.0, count).tolist()
    return [-math.inf, *(-lam for lam in reversed(size)), 0.0, *size, math.inf]


def _conditional(order: NDArray[np.int64], f: Floats) -> float:
    """`E Var(f | seen)`, from samples in the order of what is seen: half the mean square step of neighbours."""
    return float((np.diff(f[order]) ** 2).mean() / 2)


def _floor_2(setting: Setting, progress: Progress) -> dict[str, dict[str, Any]]:
    """The floor of every target for n = 2, over the angle of `(1, w)` and over λ: a grid, then three finer ones."""
    count, angles, lams = (1 << 16, 96, _lambdas(24)) if setting.full else (1 << 13, 32, _lambdas(7))
    x = np.random.default_rng([setting.seed, 2]).random((count, 2))
    values = {name: f(x)[:, 0] for name, f in TARGETS[2].items()}

    def seen(angle: float, lam: float) -> NDArray[np.int64]:
        # All tokens are positive, so λ x_k has the sign of λ; an infinite λ stays infinite.
        context = boltzmann(lam * x[:, 0] if math.isfinite(lam) else np.full(count, lam), x)
        return np.argsort(math.cos(angle) * x[:, 0] + math.sin(angle) * context)

    best = dict.fromkeys(values, (math.inf, 0.0, 0.0))
    for done, lam in enumerate(lams):
        progress("floor for two tokens", 0.2 * done / len(lams))
        for angle in np.pi * (np.arange(angles) / angles - 0.5):
            order = seen(angle, lam)
            for name, f in values.items():
                best[name] = min(best[name], (_conditional(order, f), float(angle), lam))
    floors = {}
    for done, (name, f) in enumerate(values.items()):
        progress(f"floor for two tokens: {name}", 0.2 + 0.05 * done / len(values))
        for zoom in range(3):
            _, angle, lam = best[name]
            turns = angle + np.pi / angles * np.linspace(-1, 1, 5) / 3**zoom
            factors = np.geomspace(0.6, 1 / 0.6, 5) ** (1 / 3**zoom)
            for turn in turns.tolist():
                for near in {0.0, *(lam * factor for factor in factors.tolist())}:
                    best[name] = min(best[name], (_conditional(seen(turn, near), f), turn, near))
        floor, angle, lam = best[name]
        w = math.tan(angle) if abs(math.cos(angle)) > 1e-9 else math.inf
        floors[name] = {"floor": floor, "w": _finite(w), "lam": _finite(lam)}
    return floors


def _floor_3(setting: Setting, progress: Progress) -> dict[str, dict[str, Any]]:
    """The floor of every target for n = 3: for each `x_k` the best λ, then the mean over `x_k`."""
    count, places, lams = (1 << 15, 48, _lambdas(40)) if setting.full else (1 << 13, 16, _lambdas(12))
    random = np.random.default_rng([setting.seed, 3])
    totals = dict.fromkeys(TARGETS[3], 0.0)
    for place in range(places):
        progress("floor for three tokens", 0.25 + 0.25 * place / places)
        x = np.column_stack([np.full(count, (place + 0.5) / places), random.random((count, 2))])

        def seen(lam: float, x: Floats = x) -> NDArray[np.int64]:
            return np.argsort(boltzmann(np.full(count, lam), x))

        orders = [(lam, seen(lam)) for lam in lams]
        for name, f in TARGETS[3].items():
            value = f(x)[:, 0]
            floor, lam = min((_conditional(order, value), lam) for lam, order in orders)
            for factor in np.geomspace(0.7, 1 / 0.7, 8).tolist() if lam and math.isfinite(lam) else ():
                floor = min(floor, _conditional(seen(lam * factor), value))
            totals[name] += floor / places
    return {name: {"floor": total} for name, total in totals.items()}


def _finite(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else "∞" if value > 0 else "−∞"


# -- what the numbers say ------------------------------------------------------------------------------


def _share(row: dict[str, Any]) -> float:
    """The floor as a share of the variance of the target."""
    share: float = row["floor"] / row["variance"]
    return share


def answer(results: dict[str, Any]) -> str:
    rows = results["rows"]
    free = [row for row in rows if _share(row) < NOTHING]
    hard = [row for row in rows if _share(row) >= NOTHING]
    if not hard:
        return "Not for these targets: one head sees enough of each of them."
    beaten = sum(row["quantized"][-1] < row["floor"] for row in hard)
    least, most = (100 * pick(_share(row) for row in hard) for pick in (min, max))
    return (
        f"For one rank-1 head, by estimate and not by proof, yes: without it {len(hard)} of {len(rows)} targets keep "
        f"from {amount(least, 2)} to {amount(most, 2)} % of their variance as error, whatever the readout. With it the "
        f"error falls below that floor for {beaten} of the {len(hard)} on the finest grid tried, and would for all if "
        f"it goes on falling like 1/D². For {_listed(free)} the estimated floor is 0: one head seems to see all that "
        "is needed."
    )


def _listed(rows: list[dict[str, Any]]) -> str:
    return ", ".join(f"{row['target']} (n = {row['length']})" for row in rows) or "none of them"


def figures(results: dict[str, Any]) -> list[Figure]:
    made = []
    for n in TARGETS:
        traces = []
        for row, colour in zip((row for row in results["rows"] if row["length"] == n), PALETTE, strict=False):
            relative = [error / row["variance"] for error in row["quantized"]]
            traces.append(line(row["target"], row["cells"], relative, colour))
            if _share(row) >= NOTHING:
                ends = [row["cells"][0], row["cells"][-1]]
                traces.append(
                    line(
                        f"floor, {row['target']}",
                        ends,
                        [_share(row)] * 2,
                        colour,
                        dash="dash",
                        markers=False,
                        legend=False,
                    )
                )
        stream = "the paper's stream" if n == 2 else "a lifted stream"
        made.append(
            Figure(
                f"Mean square error against cells, {n} tokens",
                chart(
                    traces,
                    "cells a coordinate",
                    "error / variance of the target",
                    log_x=True,
                    log_y=True,
                    ticks_x=next(row["cells"] for row in results["rows"] if row["length"] == n),
                ),
                f"Solid: with the quantizer. Dashed, in the same colour: the floor without it, in {stream}; none is "
                "drawn where it is 0.",
            )
        )
    return made


def tables(results: dict[str, Any]) -> list[Table]:
    rows = [
        [
            f"{row['target']}, n = {row['length']}",
            amount(row["variance"]),
            amount(row["floor"]),
            f"{amount(100 * _share(row), 2)} %",
            amount(row["quantized"][-1]),
            amount(row["cells"][-1]),
            amount(_cells_needed(row)),
            _parameter(row.get("w")),
            _parameter(row.get("lam")),
        ]
        for row in results["rows"]
    ]
    columns = [
        "target",
        "variance",
        "floor without",
        "share",
        "error with",
        "cells",
        "cells to go below",
        "best w",
        "best λ",
    ]
    return [Table("Without and with the quantizer, mean square", columns, rows)]


def _cells_needed(row: dict[str, Any]) -> int | None:
    """Cells at which the error with the quantizer goes below the floor, by 1/D² from the finest grid tried."""
    if _share(row) < NOTHING:
        return None
    needed: float = row["cells"][-1] * math.sqrt(row["quantized"][-1] / row["floor"])
    return math.ceil(needed)


def _parameter(value: float | str | None) -> str:
    return value if isinstance(value, str) else amount(value, 2)


def limits(results: dict[str, Any]) -> str:
    return (
        "The floors are estimates on a grid of parameters from random samples: the true infimum may be a little "
        f"lower, nothing here is proved, and a floor below {amount(NOTHING)} of the variance is taken for 0. One head "
        "of rank 1, scalar tokens, two and three of them. With many heads, or a higher rank, the readout sees more "
        "numbers, and whether the quantizer is needed then remains open. A floor is about the mean square over "
        "uniform tokens; it says nothing about data that lie on a finite set, which one head memorizes."
    )


EXPERIMENT = Experiment(
    "quantizer",
    "Is the first feed-forward block, which rounds the tokens, needed?",
    run,
    answer,
    figures,
    tables,
    limits,
)
