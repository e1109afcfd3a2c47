"""Between the mean and hardmax lies a wide range of temperatures at which one head tells all contexts apart.

The head returns `B(λ; s) = Σ s_l e^{λ s_l} / Σ e^{λ s_l}`: the mean of the keys at λ = 0, their maximum at λ = ∞.
Three kinds of keys: random in [−1, 1]; evenly spaced, where many sums are equal; and the sum of a random key of the
token and one of its place, for sequences of which every other one is the one before it with two tokens exchanged: there
the sums of keys, and the means, are equal in pairs. Floats are measured against their rounding bound `e = 2 max|s| u (n
+ 4R + 2g + 2)`, `R = λ max|s|`, `g = 1`: two contexts collide if they lie within 2e. Balls enclose the smallest gap
itself, at any λ, through the Wronskian.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from monolayer.arrays import Floats
from monolayer.theory.boltzmann import boltz, boltzmann, boltzmann_slope, free_energy, log_partition
from monolayer.theory.bounds import contextual_bounds, theorem2
from monolayer.theory.enclosure import smallest_gap
from monolayer_experiments.experiment import Figure, Progress, Setting, Table
from monolayer_experiments.look import BLUE, GREEN, GREY, ORANGE, RED, VIOLET, amount, chart, line, power
from monolayer_experiments.synthetic import without_repeats

QUESTION = "How wide is the range of temperatures between the mean and hardmax that tells contexts apart?"

LENGTH, VOCABULARY, BALLS = 8, 100, 40
FORMATS = {"float64": (np.float64, 2.0**-53), "float32": (np.float32, 2.0**-24)}
ADDED = "token and place"
KEYS = ("random", "evenly spaced", ADDED)


def run(setting: Setting, progress: Progress) -> dict[str, Any]:
    count = 20_000 if setting.full else 2_000
    X, _ = without_repeats(count, LENGTH, VOCABULARY, seed=setting.seed)
    random = np.random.default_rng(setting.seed)
    # Whole multiples of 2^-6 and of 2^-50: exact in float64, and integers for the balls.
    drawn, even = random.integers(-(1 << 50), 1 << 50, VOCABULARY), 2 * np.arange(VOCABULARY) - (VOCABULARY - 1)
    swapped = np.repeat(X[: count // 2], 2, axis=0)
    swapped[1::2, :2] = swapped[1::2, 1::-1]
    half, place = random.integers(-(1 << 49), 1 << 49, VOCABULARY), random.integers(-(1 << 49), 1 << 49, LENGTH)
    tables: dict[str, tuple[NDArray[np.int64], float]] = {
        "random": (drawn[X], 2.0**-50),
        "evenly spaced": (even[X], 2.0**-6),
        ADDED: (half[swapped] + place, 2.0**-50),
    }
    grid = [10.0 ** (k / 3) for k in range(-24, 13)]
    far = [10.0**k for k in range(5, 12)]
    curves: dict[str, Any] = {}
    for number, (kind, (numbers, unit)) in enumerate(tables.items()):
        progress(f"floats, {kind} keys", number / 6)
        s = np.asarray(numbers * unit, dtype=np.float64)
        spread = float(np.ptp(numbers) * unit)
        curves[kind] = {
            name: [_collisions(s, lam / spread, dtype, unit_roundoff) for lam in (0.0, *grid, math.inf)]
            for name, (dtype, unit_roundoff) in FORMATS.items()
        }
        contexts = [dict.fromkeys(row, 1) for row in numbers[:BALLS].tolist()]
        curves[kind]["balls"] = []
        for step, lam in enumerate((*grid, *far)):
            progress(f"balls, {kind} keys", number / 6 + 0.5 + step / (len(grid) + len(far)) / 6)
            curves[kind]["balls"].append(_enclosed(contexts, lam / spread * unit))
    numbers, unit = tables["random"]
    s = np.asarray(numbers * unit, dtype=np.float64)[:200]
    return {
        "sequences": count,
        "in_balls": BALLS,
        "length": LENGTH,
        "vocabulary": VOCABULARY,
        "grid": grid,
        "far": far,
        "curves": curves,
        "operator": _operator(s[:4], grid),
        "identities": _identities(s, grid),
        "paper": _paper(),
    }


def _collisions(s: Floats, lam: float, dtype: Any, unit_roundoff: float) -> dict[str, Any]:
    """Smallest gap of ids as a share of their range, and how many neighbours lie within twice the rounding bound."""
    B = _in_format(s, lam, dtype)
    ordered = np.sort(B.astype(np.float64))
    gaps = np.diff(ordered)
    reach = float(np.abs(s).max())
    scores = 0.0 if math.isinf(lam) else lam * reach  # hardmax and the mean take no exponentials
    error = 2 * reach * unit_roundoff * (s.shape[1] + 4 * scores + 4)
    return {
        "gap": float(gaps.min()) / float(np.ptp(ordered)),
        "collisions": int((gaps <= 2 * error).sum()),
    }


def _in_format(s: Floats, lam: float, dtype: Any) -> NDArray[Any]:
    """`B(λ; s)` with every operation in the format."""
    if math.isinf(lam):
        return np.asarray(s.max(axis=1), dtype=dtype)
    rounded = s.astype(dtype)
    scores = dtype(lam) * rounded
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray((weights * rounded).sum(axis=1) / weights.sum(axis=1))


def _enclosed(contexts: list[dict[int, int]], z: float) -> float:
    """log10 of the smallest gap among the contexts with integer keys, at inverse temperature `z` an integer unit."""
    found = smallest_gap(contexts, range(len(contexts)), lambda: arb(z), bits=256, max_bits=1 << 14)
    assert found is not None  # the contexts differ
    return float(found.log / arb(10).log()) - math.log10(_width(contexts))


def _width(contexts: list[dict[int, int]]) -> float:
    keys = [key for context in contexts for key in context]
    return float(max(keys) - min(keys))


def _operator(s: Floats, grid: list[float]) -> list[dict[str, Any]]:
    """`B(λ; s)` of a few sequences along the grid, with its two ends."""
    spread = float(np.ptp(s))
    return [
        {
            "values": [float(boltzmann(lam / spread, row)) for lam in grid],
            "mean": float(row.mean()),
            "max": float(row.max()),
        }
        for row in s
    ]


def _identities(s: Floats, grid: list[float]) -> list[dict[str, Any]]:
    """How far the identities of the Boltzmann operator are from true on the data, in float64."""
    spread = float(np.ptp(s))
    lams = np.array(grid)[:, None] / spread
    scores = lams[..., None] * s
    size = np.maximum(1.0, np.abs(log_partition(scores)))
    step = 1e-4 * np.maximum(lams, 1.0)
    moved = (boltzmann(lams + step, s[None]) - boltzmann(lams - step, s[None])) / (2 * step)
    top = scores.max(axis=-1)
    return [
        {
            "identity": "boltz(a) = ln Z − S",
            "error": float((np.abs(boltz(scores) - free_energy(scores)) / size).max()),
        },
        {
            "identity": "dB/dλ = Var_p(s), by differences",
            "error": float(np.abs(moved - boltzmann_slope(lams, s)).max()),
        },
        {
            "identity": "max a − ln n ≤ boltz(a) ≤ max a, by how much it fails",
            "error": float(np.maximum(top - math.log(s.shape[1]) - boltz(scores), boltz(scores) - top).clip(0).max()),
        },
        {"identity": "B(0) = mean", "error": float(np.abs(boltzmann(0.0, s) - s.mean(axis=-1)).max())},
        {"identity": "B(∞) = max", "error": float(np.abs(boltzmann(math.inf, s) - s.max(axis=-1)).max())},
    ]


def _paper() -> dict[str, float]:
    """The paper's λ·spread for tokens `V + i` on a line: worst case over directions, and with the best one.

    Scores are `β x_k x_l`, so `λ_k = β x_k`; the smallest is at the smallest token.
    """
    low, high = float(VOCABULARY), 2.0 * VOCABULARY - 1
    worst = theorem2(VOCABULARY, 1, LENGTH, low, high, 1.0)
    best = contextual_bounds(LENGTH, low, high, high, 1.0)
    return {
        "worst": math.exp(worst.log_beta) * low * (high - low),
        "measured": math.exp(best.log_beta) * low * (high - low),
    }


# -- what the numbers say ------------------------------------------------------------------------------


def _clean(results: dict[str, Any], kind: str, name: str) -> list[float]:
    """The longest stretch of the grid without a collision."""
    best: list[float] = []
    here: list[float] = []
    for lam, row in zip(results["grid"], results["curves"][kind][name][1:-1], strict=True):
        here = [] if row["collisions"] else [*here, lam]
        best = max(best, here, key=len)
    return best


def answer(results: dict[str, Any]) -> str:
    paper = results["paper"]

    def between(kind: str) -> str:
        clean = _clean(results, kind, "float64")
        return f"from λ·spread {amount(clean[0], 2)} to {amount(clean[-1], 2)}" if clean else "nowhere"

    def at_the_mean(kind: str) -> str:
        return f"{results['curves'][kind]['float64'][0]['collisions']:,}"

    ends = results["curves"]["evenly spaced"]["float64"][-1]["collisions"]
    return (
        f"Wide: float64 tells all {results['sequences']:,} contexts apart {between('random')} with random keys, "
        f"{between('evenly spaced')} with evenly spaced ones, and {between(ADDED)} where the keys of token and place "
        f"add up. The mean, λ = 0, has {at_the_mean('random')}, {at_the_mean('evenly spaced')} and "
        f"{at_the_mean(ADDED)} collisions there, hardmax {ends:,} with evenly spaced keys: random keys do not need "
        f"softmax, the other two do. The paper's λ·spread, {amount(paper['measured'], 2)} at best and "
        f"{amount(paper['worst'], 2)} in its worst case, lies on the hardmax side."
    )


def figures(results: dict[str, Any]) -> list[Figure]:
    grid, curves, paper = results["grid"], results["curves"], results["paper"]
    marks = [(paper["measured"], "paper, best direction")]
    colours = {
        ("random", "float64"): BLUE,
        ("evenly spaced", "float64"): GREEN,
        (ADDED, "float64"): VIOLET,
        ("random", "float32"): ORANGE,
        ("evenly spaced", "float32"): RED,
    }

    def traces(field: str) -> list[dict[str, Any]]:
        made = []
        for (kind, name), colour in colours.items():
            values = [row[field] or None for row in curves[kind][name][1:-1]]
            made.append(line(f"{name}, {kind} keys", grid, values, colour))
        return made

    reach = [*grid, *results["far"]]
    digits = [
        line(f"{kind} keys", reach, [-log10 for log10 in curves[kind]["balls"]], colour)
        for kind, colour in (("random", BLUE), ("evenly spaced", GREEN), (ADDED, VIOLET))
    ]
    shown = [BLUE, GREEN, ORANGE, VIOLET]
    return [
        Figure(
            "Smallest gap of contexts in floats",
            chart(traces("gap"), "λ · spread", "gap, share of the range", log_x=True, log_y=True, marks=marks),
            "A gap of 0 is not drawn: two contexts then have the same float.",
        ),
        Figure(
            "Collisions in floats",
            chart(
                traces("collisions"), "λ · spread", "neighbours within rounding", log_x=True, log_y=True, marks=marks
            ),
            f"Of {results['sequences'] - 1:,} neighbours. No point where there is none.",
        ),
        Figure(
            "Digits of the smallest gap, enclosed in balls",
            chart(
                digits,
                "λ · spread",
                "−log10 of the gap",
                log_x=True,
                log_y=True,
                marks=[*marks, (paper["worst"], "worst case")],
                levels=[(53 * math.log10(2), "float64")],
            ),
            f"{results['in_balls']} sequences, gaps as shares of the spread. None is 0: every temperature but 0 and ∞ "
            "separates in exact arithmetic, and the digits that it takes grow in proportion to λ.",
        ),
        Figure(
            "B(λ; s) of four sequences, from mean to maximum",
            chart(
                [
                    line(f"sequence {k + 1}", grid, one["values"], shown[k], markers=False)
                    for k, one in enumerate(results["operator"])
                ]
                + [
                    line("maximum", [grid[0], grid[-1]], [one["max"]] * 2, GREY, dash="dot", markers=False)
                    for one in results["operator"][:1]
                ],
                "λ · spread",
                "B(λ; s)",
                log_x=True,
            ),
            "The curves rise with slope Var_p(s) ≥ 0. The dotted line is the maximum of sequence 1.",
        ),
    ]


def tables(results: dict[str, Any]) -> list[Table]:
    rows = []
    for kind in KEYS:
        for name in FORMATS:
            found = results["curves"][kind][name]
            clean = _clean(results, kind, name)
            rows.append(
                [
                    f"{name}, {kind} keys",
                    amount(found[0]["collisions"]),
                    f"{amount(clean[0], 2)} to {amount(clean[-1], 2)}" if clean else "never",
                    amount(found[-1]["collisions"]),
                ]
            )
    balls = []
    for place in range(0, len(results["grid"]) + len(results["far"]), 3):
        lam = [*results["grid"], *results["far"]][place]
        balls.append(
            [amount(lam, 2), *(power(results["curves"][kind]["balls"][place]) for kind in KEYS)],
        )
    return [
        Table("Collisions in floats", ["format", "at the mean", "none for λ·spread in", "at hardmax"], rows),
        Table("Smallest gap in balls", ["λ·spread", *(f"{kind} keys" for kind in KEYS)], balls),
        Table(
            "The identities of the Boltzmann operator, on these data in float64",
            ["identity", "largest error"],
            [[row["identity"], amount(row["error"])] for row in results["identities"]],
        ),
    ]


def limits(results: dict[str, Any]) -> str:
    return (
        f"One size of data: {results['sequences']:,} sequences of {results['length']} out of {results['vocabulary']} "
        "tokens; more sequences narrow the range. Collisions are counted against a bound of the rounding error, so "
        "some of them may be told apart by a particular machine. That the mean separates under independent random "
        "keys, and cannot where keys add up, is a theorem (docs/theorems.md, What softmax is for); how wide the range "
        f"is, is measured. Balls were run on {results['in_balls']} sequences."
    )
