"""Each further rank of the value matrix multiplies the exponent of what a float format can hold: M ≈ (2^p/c)^{k/2}.

One head, one temperature, `k` value directions: sequence `X` gets the id `c ∈ R^k`, `c_j = Σ_l p_l u_j(x_l)` with
`p = softmax(λ s)`. The first direction is the key itself, so that `c_1 = B(λ; s)`; the others are random. `M` random
ids lie as close as `a M^{−2/k}`, a constant; a format with `p` bits tells them apart while that is above twice its
rounding error `e`, so up to `M = (a/2e)^{k/2} = (2^p/c)^{k/2}` with `c = 2^{p+1} e/a`, which is measured.

Measured, for formats and ranks: the largest coordinate difference of the closest two sequences (their gap), and the
largest error of an id, against balls of 256 bits. `M*` is where the gap falls below twice the error: seen directly
where the sample is large enough, else by the law from the largest sample.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from flint import arb
from scipy.spatial import cKDTree

from monolayer.arrays import Floats, Ints
from monolayer.table import Progress
from monolayer.theory.balls import precision
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import PALETTE, amount, figure, line, scatter, table
from monolayer_experiments.synthetic import without_repeats

QUESTION = "What does a higher rank of the attention matrices buy?"

LENGTH, VOCABULARY, LAM = 16, 1000, 1.0
BITS_OF_FORMAT = {"float64": 53, "float32": 24, "bfloat16": 8, "balls of 113 bits": 113}
COLOUR_OF_FORMAT = {"float64": "blue", "float32": "green", "bfloat16": "orange", "balls of 113 bits": "violet"}
PLAN = {
    "ranks": ((1, 2, 3, 4, 6, 8), tuple(range(1, 9))),
    "repeats": (3, 5),
    "low": (1 << 14, 1 << 18),
    "high": (1 << 12, 1 << 16),
    "asked": (200, 1_000),
}
"""Quick and full. Most contexts at ranks up to 4 (`low`) and above (`high`); `asked`: contexts with errors measured."""
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the smallest gap between contexts for attention of each rank, in each format of numbers.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    ranks, repeats = plan["ranks"], plan["repeats"]
    largest = {k: plan["low" if k <= 4 else "high"] for k in ranks}
    gaps: dict[int, list[list[float]]] = {k: [] for k in ranks}
    for repeat in range(repeats):
        X, _ = without_repeats(max(largest.values()), LENGTH, VOCABULARY, seed=setting.seed + repeat)
        # Keys and values of the vocabulary `(k, V)`; the first row is key and value.
        values = np.random.default_rng([setting.seed + repeat, 2]).uniform(-1, 1, (max(ranks), VOCABULARY))
        ids = _ids(X, values, torch.float64).numpy()
        for done, k in enumerate(ranks):
            progress(f"gaps at rank {k}", 0.9 * (repeat + done / len(ranks)) / repeats)
            gaps[k].append([_gap(ids[:count, :k]) for count in _sizes(largest[k])])
    progress("errors of the formats", 0.9)
    errors = _errors(X[: plan["asked"]], values)
    curves = {
        str(k): {"points": _sizes(largest[k]), "gap": np.median(np.array(gaps[k]), axis=0).tolist()} for k in ranks
    }
    return {
        "length": LENGTH,
        "vocabulary": VOCABULARY,
        "repeats": repeats,
        "ranks": list(ranks),
        "errors": errors,
        "curves": curves,
        "ends": {name: [_end(curves[str(k)], k, error) for k in ranks] for name, error in errors.items()},
    }


def _sizes(largest: int) -> list[int]:
    return [1 << e for e in range(2, largest.bit_length())]


def _ids(X: Ints, values: Floats, dtype: torch.dtype) -> torch.Tensor:
    """`c` `(N, k)` with every operation in the format."""
    rounded, places = torch.from_numpy(values).to(dtype), torch.from_numpy(X)
    p = torch.softmax(LAM * rounded[0][places], dim=1)
    return torch.stack([(p * row[places]).sum(dim=1) for row in rounded], dim=1)


def _gap(ids: Floats) -> float:
    """Largest coordinate difference of the closest two ids."""
    if ids.shape[1] == 1:
        return float(np.diff(np.sort(ids[:, 0])).min())
    distances, _ = cKDTree(ids).query(ids, k=2, p=np.inf)
    return float(np.asarray(distances)[:, 1].min())


def _errors(X: Ints, values: Floats) -> dict[str, float]:
    """The largest error of a coordinate in every format, against balls of 256 bits; for balls, the largest radius."""
    exact, _ = _ball_ids(X, values, 256)
    errors = {}
    for name, dtype in DTYPES.items():
        measured = _ids(X, values, dtype).double().tolist()
        with precision(256):
            errors[name] = max(
                abs(float(c - arb(ours)))
                for row, theirs in zip(exact, measured, strict=True)
                for c, ours in zip(row, theirs, strict=True)
            )
    errors["balls of 113 bits"] = _ball_ids(X, values, 113)[1]
    return errors


def _ball_ids(X: Ints, values: Floats, bits: int) -> tuple[list[list[Any]], float]:
    """Enclosures of `c`, and the largest radius."""
    with precision(bits):
        weights = [(arb(LAM) * arb(s)).exp() for s in values[0].tolist()]
        moments = [[w * arb(u) for w, u in zip(weights, row, strict=True)] for row in values.tolist()]
        ids = []
        for tokens in X.tolist():
            total = sum((weights[x] for x in tokens), arb(0))
            ids.append([sum((row[x] for x in tokens), arb(0)) / total for row in moments])
        return ids, max(float(c.rad()) for row in ids for c in row)


def _end(curve: Results, k: int, error: float) -> Results:
    """`M*`: the first size whose gap is within twice the error, or what the law says beyond the sample."""
    for count, gap in zip(curve["points"], curve["gap"], strict=True):
        if gap <= 2 * error:
            return {"log10_points": math.log10(count), "seen": True}
    beyond = math.log10(curve["gap"][-1] / (2 * error)) * k / 2
    return {"log10_points": math.log10(curve["points"][-1]) + beyond, "seen": False}


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    ranks, ends = results["ranks"], results["ends"]

    def contexts(name: str, k: int) -> str:
        return f"10^{ends[name][ranks.index(k)]['log10_points']:.1f}"

    every = [end for of_format in ends.values() for end in of_format]
    seen, k = sum(end["seen"] for end in every), min(4, ranks[-1])
    return (
        "Exponentially more contexts: the gap of M contexts falls like M^(−2/k) at rank k (slope "
        f"{_slope(results, 1)}, {_slope(results, ranks[-1])}), so a format of p bits tells about (2^p/c)^(k/2) "
        f"contexts apart, with c between {_between(results)}; in float32 these are {contexts('float32', 1)} at rank 1 "
        f"and {contexts('float32', k)} at rank {k}. Against us: only {seen} of the {len(every)} entries of the table "
        "were seen in a sample, the others follow from the "
        "law."
    )


def constant(results: Results, name: str, k: int) -> float:
    """`c` of the law `M = (2^p/c)^{k/2}`: `2^p` over what two errors leave of the gap at one context, by the law."""
    curve = results["curves"][str(k)]
    gap = curve["gap"][-1] * curve["points"][-1] ** (2 / k)
    return float(2.0 ** BITS_OF_FORMAT[name] * 2 * results["errors"][name] / gap)


def _between(results: Results) -> str:
    constants = [constant(results, name, k) for name in ("float64", "float32", "bfloat16") for k in results["ranks"]]
    return f"{amount(min(constants), 2)} and {amount(max(constants), 2)}"


def _slope(results: Results, k: int) -> str:
    """Slope of log gap against log number of contexts, by least squares, and the slope of the law."""
    curve = results["curves"][str(k)]
    exponent = float(np.polyfit(np.log(curve["points"]), np.log(curve["gap"]), 1)[0])
    return f"{exponent:.2f} measured at rank {k} where it says {-2 / k:.2f}".replace("-", "−")


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    ranks, ends, gaps = results["ranks"], [], []
    for name, colour in COLOUR_OF_FORMAT.items():
        at_ends = results["ends"][name]
        law = [(BITS_OF_FORMAT[name] * math.log10(2) - math.log10(constant(results, name, k))) * k / 2 for k in ranks]
        ends.append(line(f"(2^p/c)^(k/2), {name}", ranks, law, colour, dash="dot", markers=False, legend=False))
        values, beyond = [end["log10_points"] for end in at_ends], [not end["seen"] for end in at_ends]
        ends.append(scatter(name, ranks, values, colour, hollow=beyond))
    for k, colour in zip((1, 2, 4, 8), PALETTE, strict=False):
        points, gap = results["curves"][str(k)]["points"], results["curves"][str(k)]["gap"]
        gaps.append(line(f"rank {k}", points, gap, colour))
        scale = gap[len(points) // 2] * points[len(points) // 2] ** (2 / k)
        law = [scale * count ** (-2 / k) for count in points]
        gaps.append(line(f"M^(−2/{k})", points, law, colour, dash="dot", markers=False, legend=False))
    levels = [(2 * error, f"2 × error, {name}") for name, error in results["errors"].items() if error > 1e-18]
    return [
        figure(
            "Contexts that a format tells apart, against the rank of the values",
            ends,
            ("value rank k", "log10 of M*"),
            "Filled: seen in the sample. Hollow: the law, from the largest sample. Dotted: (2^p/c)^(k/2) with p the "
            "bits of the format and c as measured at the largest sample of each rank.",
        ),
        figure(
            "Smallest gap against the number of contexts",
            gaps,
            ("contexts M", "gap"),
            f"Median of {results['repeats']} draws. Dotted: M^(−2/k). Where a curve crosses a format's level, that "
            "format ends.",
            log="xy",
            levels=levels,
        ),
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    rows = []
    for name, error in results["errors"].items():
        law = (f"10^{end['log10_points']:.1f}{'' if end['seen'] else ' (law)'}" for end in results["ends"][name])
        cells = dict(zip((f"k = {k}" for k in results["ranks"]), law, strict=True))
        rows.append({"format": name, "error of an id": error, **cells})
    return [table("M*, where the format ends", rows, "; ".join(rows[0]))]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    least, largest = (pick(max(curve["points"]) for curve in results["curves"].values()) for pick in (min, max))
    return (
        f"Sizes beyond {largest:,} contexts ({least:,} at the higher ranks) come from the law, not from a count. "
        "Errors are the largest that were seen, not bounds."
    )
