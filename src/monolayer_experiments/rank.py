"""Each further rank of the value matrix multiplies the exponent of what a float format can hold: M ≈ (2^p/c)^{k/2}.

One head, one temperature, `k` value directions: sequence `X` gets the id `c ∈ R^k`, `c_j = Σ_l p_l u_j(x_l)` with
`p = softmax(λ s)`. The first direction is the key itself, so that `c_1 = B(λ; s)`; the others are random. `M` random
ids lie as close as `a M^{−2/k}`, a constant; a format with `p` bits tells them apart while that is above twice its
rounding error `e`, so up to `M = (a/2e)^{k/2} = (2^p/c)^{k/2}` with `c = 2^{p+1} e/a`, which is measured.

Measured, for formats and ranks: the largest coordinate difference of the closest two sequences (their gap), and the
largest error of an id, against balls of 256 bits. `M*` is where the gap falls below twice the error: seen directly
where the sample is large enough, else by the law from the largest sample. Trained models of the same ranks stand
beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from flint import arb
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from monolayer.arrays import Floats
from monolayer.theory.balls import precision
from monolayer_experiments.evidence import kept_rate
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, ORANGE, PALETTE, RED, VIOLET, amount, chart, line, scatter, share
from monolayer_experiments.synthetic import without_repeats
from monolayer_experiments.trainer import RATES, train

QUESTION = "What does a higher rank of the attention matrices buy?"

LENGTH, VOCABULARY, LAM = 16, 1000, 1.0
BITS = {"float64": 53, "float32": 24, "bfloat16": 8, "balls of 113 bits": 113}
COLOURS = {"float64": BLUE, "float32": GREEN, "bfloat16": ORANGE, "balls of 113 bits": VIOLET}
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    ranks = tuple(range(1, 9)) if setting.full else (1, 2, 3, 4, 6, 8)
    repeats = 5 if setting.full else 3
    largest = {k: 1 << ((18 if k <= 4 else 16) if setting.full else (14 if k <= 4 else 12)) for k in ranks}
    gaps: dict[int, list[list[float]]] = {k: [] for k in ranks}
    for repeat in range(repeats):
        X, _ = without_repeats(max(largest.values()), LENGTH, VOCABULARY, seed=setting.seed + repeat)
        table = _table(max(ranks), setting.seed + repeat)
        ids = _ids(X, table, torch.float64).numpy()
        for done, k in enumerate(ranks):
            progress(f"gaps at rank {k}", 0.7 * (repeat + done / len(ranks)) / repeats)
            gaps[k].append([_gap(ids[:count, :k]) for count in _sizes(largest[k])])
    progress("errors of the formats", 0.7)
    errors = _errors(X[:1000] if setting.full else X[:200], table)
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
        "trained": _trained(setting, progress),
    }


def _sizes(largest: int) -> list[int]:
    return [1 << e for e in range(2, largest.bit_length())]


def _table(rank: int, seed: int) -> Floats:
    """Keys and values of the vocabulary `(k, V)`, random in [−1, 1]; the first row is key and value."""
    return np.random.default_rng([seed, 2]).uniform(-1, 1, (rank, VOCABULARY))


def _ids(X: NDArray[np.int64], table: Floats, dtype: torch.dtype) -> torch.Tensor:
    """`c` `(N, k)` with every operation in the format."""
    values = torch.from_numpy(table).to(dtype)
    places = torch.from_numpy(X)
    p = torch.softmax(LAM * values[0][places], dim=1)
    return torch.stack([(p * row[places]).sum(dim=1) for row in values], dim=1)


def _gap(ids: Floats) -> float:
    """Largest coordinate difference of the closest two ids."""
    if ids.shape[1] == 1:
        return float(np.diff(np.sort(ids[:, 0])).min())
    distances, _ = cKDTree(ids).query(ids, k=2, p=np.inf)
    return float(np.asarray(distances)[:, 1].min())


def _errors(X: NDArray[np.int64], table: Floats) -> dict[str, float]:
    """The largest error of a coordinate in every format, against balls of 256 bits; for balls, the largest radius."""
    exact, _ = _ball_ids(X, table, 256)
    errors = {}
    for name, dtype in DTYPES.items():
        found = _ids(X, table, dtype).double().tolist()
        with precision(256):
            errors[name] = max(
                abs(float(c - arb(ours)))
                for row, theirs in zip(exact, found, strict=True)
                for c, ours in zip(row, theirs, strict=True)
            )
    errors["balls of 113 bits"] = _ball_ids(X, table, 113)[1]
    return errors


def _ball_ids(X: NDArray[np.int64], table: Floats, bits: int) -> tuple[list[list[Any]], float]:
    """Enclosures of `c`, and the largest radius."""
    with precision(bits):
        weights = [(arb(LAM) * arb(s)).exp() for s in table[0].tolist()]
        moments = [[w * arb(u) for w, u in zip(weights, row, strict=True)] for row in table.tolist()]
        ids = []
        for tokens in X.tolist():
            total = sum((weights[x] for x in tokens), arb(0))
            ids.append([sum((row[x] for x in tokens), arb(0)) / total for row in moments])
        return ids, max(float(c.rad()) for row in ids for c in row)


def _end(curve: dict[str, Any], k: int, error: float) -> dict[str, Any]:
    """`M*`: the first size whose gap is within twice the error, or what the law says beyond the sample."""
    for count, gap in zip(curve["points"], curve["gap"], strict=True):
        if gap <= 2 * error:
            return {"log10_points": math.log10(count), "seen": True}
    beyond = math.log10(curve["gap"][-1] / (2 * error)) * k / 2
    return {"log10_points": math.log10(curve["points"][-1]) + beyond, "seen": False}


def _trained(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Accuracy of one trained head of rank `k`, the feed-forward part being the same, on random labels."""
    # As many sequences as the device can learn in the time, or the curve would show nothing but the clock.
    most = 2_000 if setting.device.startswith("cuda") else 200
    count, seconds, rates = (most, 20.0, RATES) if setting.full else (50, 1.5, (1e-3,))
    ranks = (1, 2, 4, 8, 32) if setting.full else (1, 2, 4, 8)
    X, Y = without_repeats(count, LENGTH, 200, seed=setting.seed)
    rows = []
    for done, rank in enumerate(ranks):
        progress(f"training at rank {rank}", 0.75 + 0.25 * done / len(ranks))
        found = train(X, Y, rank=rank, seconds=seconds, seed=setting.seed, device=setting.device, rates=rates)
        rows.append({"rank": rank, "accuracy": found.accuracy, "parameters": found.parameters, "rate": found.rate})
    return {"sequences": count, "seconds": seconds, "rates": list(rates), "rows": rows}


def answer(results: dict[str, Any]) -> str:
    ranks, ends = results["ranks"], results["ends"]

    def held(name: str, k: int) -> str:
        end = ends[name][ranks.index(k)]
        return f"{'' if end['seen'] else 'by the law '}10^{end['log10_points']:.1f}"

    top = ranks[-1]
    return (
        f"Room, exponentially: the gap of M contexts falls like M^(−2/k) at rank k (slope {_slope(results, 1)}, "
        f"{_slope(results, top)}; medians of {results['repeats']} draws), so a format of p bits tells about "
        f"(2^p/c)^(k/2) apart, with c between {_between(results)} for these formats and ranks: float32 tells "
        f"{held('float32', 1)} contexts apart at rank 1 and {held('float32', 4)} at rank 4; bfloat16 "
        f"{held('bfloat16', 1)} at rank 1 and {held('bfloat16', top)} at rank {top}; float64 {held('float64', 1)} at "
        "rank 1."
    )


def constant(results: dict[str, Any], name: str, k: int) -> float:
    """`c` of the law `M = (2^p/c)^{k/2}`: `2^p` over what two errors leave of the gap at one context, by the law."""
    curve = results["curves"][str(k)]
    gap = curve["gap"][-1] * curve["points"][-1] ** (2 / k)
    return float(2.0 ** BITS[name] * 2 * results["errors"][name] / gap)


def _between(results: dict[str, Any]) -> str:
    found = [constant(results, name, k) for name in ("float64", "float32", "bfloat16") for k in results["ranks"]]
    return f"{amount(min(found), 2)} and {amount(max(found), 2)}"


def _slope(results: dict[str, Any], k: int) -> str:
    """Of the gap against the contexts on logarithmic axes, by least squares, and what the law says."""
    curve = results["curves"][str(k)]
    found = float(np.polyfit(np.log(curve["points"]), np.log(curve["gap"]), 1)[0])
    return f"{found:.2f} measured at rank {k} where it says {-2 / k:.2f}".replace("-", "−")


def figures(results: dict[str, Any]) -> list[Figure]:
    ranks = results["ranks"]
    ends = []
    for name, colour in COLOURS.items():
        found = results["ends"][name]
        law = [(BITS[name] * math.log10(2) - math.log10(constant(results, name, k))) * k / 2 for k in ranks]
        ends.append(line(f"(2^p/c)^(k/2), {name}", ranks, law, colour, dash="dot", markers=False, legend=False))
        values, beyond = [end["log10_points"] for end in found], [not end["seen"] for end in found]
        ends.append(scatter(name, ranks, values, colour, hollow=beyond))
    gaps = []
    for k, colour in zip((1, 2, 4, 8), PALETTE, strict=False):
        curve = results["curves"][str(k)]
        points = curve["points"]
        gaps.append(line(f"rank {k}", points, curve["gap"], colour))
        scale = curve["gap"][len(points) // 2] * points[len(points) // 2] ** (2 / k)
        law = [scale * count ** (-2 / k) for count in points]
        gaps.append(line(f"M^(−2/{k})", points, law, colour, dash="dot", markers=False, legend=False))
    trained = results["trained"]
    return [
        Figure(
            "Contexts that a format tells apart, against the rank of the values",
            chart(ends, "value rank k", "log10 of M*"),
            "Filled: seen in the sample. Hollow: the law, from the largest sample. Dotted: (2^p/c)^(k/2) with p the "
            "bits of the format and c as measured at the largest sample of each rank.",
        ),
        Figure(
            "Smallest gap against the number of contexts",
            chart(
                gaps,
                "contexts M",
                "gap",
                log_x=True,
                log_y=True,
                levels=[
                    (2 * error, f"2 × error, {name}") for name, error in results["errors"].items() if error > 1e-18
                ],
            ),
            f"Median of {results['repeats']} draws. Dotted: M^(−2/k). Where a curve crosses a format's level, that "
            "format ends.",
        ),
        Figure(
            "Trained accuracy against rank",
            chart(
                [line("trained", [r["rank"] for r in trained["rows"]], [r["accuracy"] for r in trained["rows"]], RED)],
                "rank of W_Q, W_K and W_V",
                "share of labels right",
                range_y=(0.0, 1.05),
            ),
            f"One head, {trained['sequences']:,} sequences with random labels, {amount(trained['seconds'])} s of "
            f"training each. Learning rates tried: {', '.join(amount(rate) for rate in trained['rates'])}. A class "
            "drawn blindly is right in 1 of 16.",
        ),
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    ranks = results["ranks"]
    rows = []
    for name, error in results["errors"].items():
        cells = [f"10^{end['log10_points']:.1f}{'' if end['seen'] else ' (law)'}" for end in results["ends"][name]]
        rows.append([name, amount(error), *cells])
    trained = [
        [
            amount(row["rank"]),
            share(row["accuracy"]),
            amount(row["parameters"]),
            kept_rate(row, results["trained"]["rates"]),
        ]
        for row in results["trained"]["rows"]
    ]
    constants = [[name, *(amount(constant(results, name, k), 2) for k in ranks)] for name in results["errors"]]
    return [
        Table("M*, where the format ends", ["format", "error of an id", *(f"k = {k}" for k in ranks)], rows),
        Table("The constant c of (2^p/c)^(k/2)", ["format", *(f"k = {k}" for k in ranks)], constants),
        Table("Trained", ["rank", "accuracy", "parameters", "rate"], trained),
    ]


def limits(results: dict[str, Any]) -> str:
    least, largest = (pick(max(curve["points"]) for curve in results["curves"].values()) for pick in (min, max))
    trained = results["trained"]
    right = [row["accuracy"] for row in trained["rows"]]
    return (
        f"Sizes beyond {largest:,} contexts ({least:,} at the higher ranks) come from the law, not from a count. Ids "
        "in R^k tell contexts apart, but a readout on one line cannot use them: a rank above 1 needs a readout that "
        "branches on several coordinates. Errors are the largest that were seen, not bounds. In exact arithmetic "
        f"rank 1 is enough at every size. The trained models had {trained['seconds']:g} s each and stopped at "
        f"{share(min(right))} to {share(max(right))}: their curve shows how far gradient descent came in that time, "
        "not what the rank can hold."
    )
