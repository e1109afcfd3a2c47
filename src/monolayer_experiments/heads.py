"""Without a first block n − 1 heads do what one head does not: what every number of heads leaves, in the mean.

Scalar tokens in [0, 1], on the targets of `quantizer` (docs/first-block.md). For three and for four tokens:

- one head, no first block: the floor by conditional variance of `quantizer`, which no readout removes;
- two heads of four tokens, no first block: one averages, the other has any temperature. The other three tokens are
  drawn with their sum given, so that the mean is known exactly; then the floor is estimated as for one head. The
  temperature may even depend on the mean: the true floor of such heads is not lower;
- n − 1 heads, no first block: the network of `approximate(norm="sup", first_block=False)`, measured, and `certify`;
- one head and a first block: the network of `approximate`, measured.

And the wave of Theorem D, `cos 2πK(y − z)` for three tokens, beside its bound.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.table import Progress, part_of
from monolayer.theory.boltzmann import boltzmann
from monolayer.theory.mean_heads import least_left_by_one
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import PALETTE, Dash, amount, column, figure, line, low_to_high, table, where
from monolayer_experiments.quantizer import (
    NOTHING,
    QUANTIZED_TARGETS,
    ScalarTarget,
    inverse_temperatures,
    left_in_order,
    one_head_floors,
)

QUESTION = "How many heads do without the first block, and what do fewer leave?"

PLAN = {
    "cells": ({"3": (2, 4), "4": (2,)}, {"3": (2, 4, 8, 16, 32), "4": (2, 4, 8, 16)}),
    "tested": (500, 2_000),
    "samples": (1 << 12, 1 << 14),
    "places": (6, 16),
    "temperatures": (6, 20),
    "slices": (20, 100),
    "in_slice": (1 << 10, 1 << 12),
    "waves": ((1, 5), (1, 2, 5, 20, 100)),
    "wave_samples": (1 << 12, 1 << 18),
}
"""Quick and full. `cells` by the number of tokens; `slices`: own tokens and means for two heads, and points in each.

Waves have more samples than targets: the least of noisy estimates is too low, by about 0.01 with `1 << 14` samples, and
what one head takes of a fast wave is less than that."""
EXACT = 1e-12
"""Errors below this share of the variance are not drawn: interpolation gives piecewise linear targets back."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure how small the error gets with one head and with several, for sequences of three and four tokens.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    rows: list[Results] = []
    for number, length in enumerate((3, 4)):
        share = part_of(progress, 0.25 * number, 0.25 * (number + 1))
        rows += _of_length(length, plan, setting, share)
    waves: dict[str, ScalarTarget] = {str(K): partial(_wave, K) for K in plan["waves"]}
    sampled = {**plan, "samples": plan["wave_samples"]}
    left = one_head_floors(waves, 3, sampled, setting.seed, part_of(progress, 0.5, 1.0))
    return {
        "tested": plan["tested"],
        "rows": rows,
        "waves": [{"K": K, "left": left[str(K)]} for K in plan["waves"]],
    }


def _wave(K: int, x: Floats) -> Floats:
    """`cos 2πK(y − z)`, `y` and `z` the tokens other than token 0; also at the other tokens, where nothing asks."""
    return np.repeat(np.cos(2 * np.pi * K * (x[:, 1] - x[:, 2]))[:, None], 3, axis=1)


def _of_length(length: int, plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """A row per target and number of cells, for this number of tokens."""
    one = one_head_floors(QUANTIZED_TARGETS, length, plan, setting.seed, part_of(progress, 0.0, 0.4))
    two = _two_head_floors(plan, setting.seed, part_of(progress, 0.4, 0.5)) if length == 4 else {}
    random = np.random.default_rng([setting.seed, length])
    tests, many, rows = random.random((plan["tested"], length)), random.random((1 << 16, length)), []
    for done, (name, f) in enumerate(QUANTIZED_TARGETS.items()):
        known = {"target": name, "length": length, "variance": float(f(many).var())}
        known |= {"one_head": one[name], "two_heads": two.get(name)}
        for cells in plan["cells"][str(length)]:
            progress(f"{length} tokens: {name}, {cells} cells", 0.5 + 0.5 * done / len(QUANTIZED_TARGETS))
            rows.append(known | {"cells": cells} | _networks(f, tests, cells, setting.seed))
    return rows


def _networks(f: ScalarTarget, tests: Floats, cells: int, seed: int) -> Results:
    """Mean square and largest errors of the network without a first block, and of that with one head and a block."""
    length = tests.shape[1]

    def asked(X: Floats) -> Floats:
        return f(X[:, :, 0])

    without = ml.approximate(asked, 1, length, cells=cells, norm="sup", first_block=False)
    facts: Results = {"verdict": ml.certify(without, asked).verdict}
    with_block = ml.approximate(asked, 1, length, cells=cells, seed=seed)
    X = tests[..., None]
    for name, answers in (("without", without.predict(X)), ("with_block", with_block.predict(X))):
        error = np.asarray(answers).reshape(tests.shape) - f(tests)
        facts |= {name: float(np.square(error).mean()), f"{name}_sup": float(np.abs(error).max())}
    return facts


def _two_head_floors(plan: Results, seed: int, progress: Progress) -> dict[str, float]:
    """What the mean and one more head leave of every target of four tokens: the best λ of every slice, on average."""
    random, count = np.random.default_rng([seed, 7]), plan["in_slice"]
    lams = [-0.01, 0.01, *inverse_temperatures(plan["temperatures"] // 2)]
    totals = dict.fromkeys(QUANTIZED_TARGETS, 0.0)
    for number in range(plan["slices"]):
        progress("what two heads leave without a first block", number / plan["slices"])
        x = _slice(random, random.random(), random.random(3).sum(), count)
        orders = [np.argsort(boltzmann(np.full(count, lam), x)) for lam in lams]
        for name, f in QUANTIZED_TARGETS.items():
            value = f(x)[:, 0]
            totals[name] += min(left_in_order(order, value) for order in orders) / plan["slices"]
    return totals


def _slice(random: np.random.Generator, own: float, total: float, count: int) -> Floats:
    """Four tokens `(count, 4)`: the own one, and three uniform in [0, 1] with this sum, by rejection."""
    kept = np.empty((0, 3))
    while len(kept) < count:
        pair = random.random((4 * count, 2))
        three = np.column_stack([pair, total - pair.sum(axis=1)])
        kept = np.concatenate([kept, three[(three[:, 2] >= 0.0) & (three[:, 2] <= 1.0)]])
    return np.column_stack([np.full(count, own), kept[:count]])


def _finest(results: Results, length: int) -> list[Results]:
    """The row of every target with the most cells."""
    rows = where(results["rows"], length=length)
    most = max(column(rows, "cells"))
    return where(rows, cells=most)


def _hidden(rows: list[Results]) -> list[Results]:
    """The rows of targets that one head does not see."""
    return [row for row in rows if row["one_head"] >= NOTHING * row["variance"]]


def _shares(rows: list[Results], key: str) -> list[float]:
    """What is left under this key as shares of the variance, of the targets that one head does not see."""
    return [row[key] / row["variance"] for row in _hidden(rows)]


def _percent(row: Results, key: str) -> str:
    return "—" if row[key] is None else f"{amount(100 * row[key] / row['variance'], 2)} %"


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    three, four = (_finest(results, length) for length in (3, 4))
    proved = sum(row["verdict"] == "proved" for row in results["rows"])
    seen = [row["target"] for row in three if row not in _hidden(three)]
    spared = [row["target"] for row in _hidden(four) if row["two_heads"] < row["without"]]
    one = low_to_high([100 * each for each in _shares(three, "one_head")], lambda each: amount(each, 2))
    against = f" Against us: of {', '.join(spared)} the best readout of two heads would leave less than three, built."
    return (
        "For scalar tokens n − 1 heads are enough in the maximum norm, and for n − 1 outputs or more fewer are not, by "
        "proof (docs/first-block.md); in the mean one is too few for n ≥ 3, by proof, and what 2 to n − 2 can do is "
        f"open. One head sees {', '.join(seen) or 'no target'} by itself; of the other targets of three tokens it "
        f"leaves {one} % of the variance, whatever the readout, by estimate, and two heads, built with "
        f"{three[0]['cells']} cells, leave at most {amount(100 * max(_shares(three, 'without')), 2)} %. Networks "
        f"without a first block, for all points of the domain: {proved} of {len(results['rows'])} proved."
        f"{against if spared else ''}"
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    made = []
    for length in (3, 4):
        traces = []
        rows = where(results["rows"], length=length)
        for name, colour in zip(QUANTIZED_TARGETS, PALETTE, strict=False):
            of_target = where(rows, target=name)
            cells = column(of_target, "cells")
            shares = [row["without"] / row["variance"] for row in of_target]
            exact = max(shares) <= EXACT
            if not exact:
                traces.append(line(name, cells, [each if each > EXACT else None for each in shares], colour))
            dashes: tuple[tuple[str, Dash], ...] = (("one_head", "dash"), ("two_heads", "dot"))
            for key, dash in dashes:
                floor = of_target[0][key]
                if floor is not None and floor >= NOTHING * of_target[0]["variance"]:
                    share = [floor / of_target[0]["variance"]] * len(cells)
                    called = f"{name} (solid: 0)" if exact else f"{name}, {key}"
                    traces.append(
                        line(called, cells, share, colour, dash=dash, markers=False, legend=exact and key == "one_head")
                    )
        title = f"Mean square error without a first block, {length} tokens"
        caption = (
            f"Solid: {length - 1} heads. In the same colour what one head leaves (dashed)"
            + (", and two (dotted)" if length == 4 else "")
            + ", whatever the readout. Errors of 0 are not drawn."
        )
        titles = ("cells per coordinate", "error / variance of the target")
        made.append(
            figure(title, traces, titles, caption, log="xy", ticks_x=column(where(rows, target="mean"), "cells"))
        )
    K = column(results["waves"], "K")
    traces = [
        line("what one head leaves", K, column(results["waves"], "left"), "orange"),
        line("proved", K, [least_left_by_one(each) for each in K], "grey", dash="dash", markers=False),
    ]
    caption = "The wave of Theorem D, of variance ½, with the best temperature for every own token."
    made.append(
        figure("What one head leaves of a wave", traces, ("K", "mean square error"), caption, log="x", ticks_x=K)
    )
    return made


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = (
        "target; n: length; variance; one head leaves: one_head; two leave: two_heads; cells; n − 1 heads, no block: "
        "without; largest: without_sup; certificate: verdict; one head and block: with_block; largest there: "
        "with_block_sup"
    )
    finest = [row for length in (3, 4) for row in _finest(results, length)]
    keys = {"one": "one_head", "two": "two_heads", "without": "without", "block": "with_block"}
    brief = "target; n: length; one head: one; two: two; cells; n − 1 heads, built: without; one head and block: block"
    return [
        table(
            "What is left of the variance on the finest grid",
            finest,
            brief,
            **{name: partial(_percent, key=key) for name, key in keys.items()},
        ),
        table("What heads leave, mean square", results["rows"], head),
        table(
            "The wave of Theorem D",
            results["waves"],
            "K; left; proved: bound",
            bound=lambda row: least_left_by_one(row["K"]),
        ),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        "What one and two heads leave are estimates from random samples on a grid of temperatures; of two heads one "
        f"averages. Networks are measured on {results['tested']:,} random sequences. Scalar tokens; the readout "
        "without a first block solves for the other tokens by iteration and is no ReLU network."
    )
