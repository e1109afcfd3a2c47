"""Between the mean and hardmax lies a wide range of temperatures at which one head tells all contexts apart.

The head returns `B(λ; s) = Σ s_l e^{λ s_l} / Σ e^{λ s_l}`: the mean of the keys at λ = 0, their maximum at λ = ∞.
Three kinds of keys: random in [−1, 1]; evenly spaced, where many sums are equal; and the sum of a random key of the
token and one of its place, for sequences of which every other one is the one before it with two tokens exchanged: there
the sums of keys, and the means, are equal in pairs. Floats are measured against their rounding bound `e = 2 max|s| u (n
+ 4R + 2g + 2)`, `R = λ max|s|`, `g = 1`: two contexts collide if they lie within 2e.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.table import Progress
from monolayer.theory.bounds import contextual_constants, theorem2
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, low_to_high, table
from monolayer_experiments.synthetic import without_repeats

QUESTION = "How wide is the range of temperatures between the mean and hardmax that tells contexts apart?"

LENGTH, VOCABULARY = 8, 100
PLAN = {"sequences": (2_000, 20_000)}
NUMBER_FORMATS = {"float64": (np.float64, 2.0**-53), "float32": (np.float32, 2.0**-24)}
ADDED = "token and place"
KEY_KINDS = ("random", "evenly spaced", ADDED)
MEAN_END, HARDMAX_END = 0, -1
"""Where the two ends stand in a row of measurements, the grid between them."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Count the contexts that coincide at each temperature, for several kinds of keys and formats of numbers.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    count = plan["sequences"]
    grid = [10.0 ** (k / 3) for k in range(-24, 13)]
    curves: Results = {}
    for number, (kind, (numbers, unit)) in enumerate(_keys(count, setting.seed).items()):
        progress(f"floats, {kind} keys", number / 3)
        s = np.asarray(numbers * unit, dtype=np.float64)
        spread = float(np.ptp(numbers) * unit)
        curves[kind] = {
            name: [_collisions(s, lam / spread, dtype, unit_roundoff) for lam in (0.0, *grid, math.inf)]
            for name, (dtype, unit_roundoff) in NUMBER_FORMATS.items()
        }
    data = {"sequences": count, "length": LENGTH, "vocabulary": VOCABULARY}
    return {**data, "grid": grid, "curves": curves, "paper": _paper()}


def _keys(count: int, seed: int) -> dict[str, tuple[Ints, float]]:
    """Whole keys of every token and their unit, 2^-6 or 2^-50: exact in float64."""
    X, _ = without_repeats(count, LENGTH, VOCABULARY, seed=seed)
    random = np.random.default_rng(seed)
    drawn, even = random.integers(-(1 << 50), 1 << 50, VOCABULARY), 2 * np.arange(VOCABULARY) - (VOCABULARY - 1)
    swapped = np.repeat(X[: count // 2], 2, axis=0)
    swapped[1::2, :2] = swapped[1::2, 1::-1]
    half, place = random.integers(-(1 << 49), 1 << 49, VOCABULARY), random.integers(-(1 << 49), 1 << 49, LENGTH)
    keys = (drawn[X], 2.0**-50), (even[X], 2.0**-6), (half[swapped] + place, 2.0**-50)
    return dict(zip(KEY_KINDS, keys, strict=True))


def _collisions(s: Floats, lam: float, dtype: Any, unit_roundoff: float) -> Results:
    """Smallest gap of ids as a share of their range, and how many neighbours lie within twice the rounding bound."""
    B = _in_format(s, lam, dtype)
    ordered = np.sort(B.astype(np.float64))
    gaps = np.diff(ordered)
    reach = float(np.abs(s).max())
    scores = 0.0 if math.isinf(lam) else lam * reach  # hardmax and the mean take no exponentials
    error = 2 * reach * unit_roundoff * (s.shape[1] + 4 * scores + 4)
    return {"gap": float(gaps.min()) / float(np.ptp(ordered)), "collisions": int((gaps <= 2 * error).sum())}


def _in_format(s: Floats, lam: float, dtype: Any) -> NDArray[Any]:
    """`B(λ; s)` with every operation in the format."""
    if math.isinf(lam):
        return np.asarray(s.max(axis=1), dtype=dtype)
    rounded = s.astype(dtype)
    scores = dtype(lam) * rounded
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray((weights * rounded).sum(axis=1) / weights.sum(axis=1))


def _paper() -> dict[str, float]:
    """The paper's λ·spread for tokens `V + i` on a line: worst case over directions, and with the best one.

    Scores are `β x_k x_l`, so `λ_k = β x_k`; the smallest is at the smallest token.
    """
    low, high = float(VOCABULARY), 2.0 * VOCABULARY - 1
    worst, _ = theorem2(VOCABULARY, 1, LENGTH, low, high, 1.0)
    best, _ = contextual_constants(LENGTH, arb(low), arb(high), high, 1.0)
    return {"worst": float(worst) * low * (high - low), "measured": float(best) * low * (high - low)}


def _clean(results: Results, kind: str, name: str) -> list[float]:
    """The longest stretch of the grid without a collision."""
    best: list[float] = []
    here: list[float] = []
    for lam, row in zip(results["grid"], results["curves"][kind][name][1:-1], strict=True):
        here = [] if row["collisions"] else [*here, lam]
        best = max(best, here, key=len)
    return best


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    ranges = {kind: _clean(results, kind, "float64") for kind in KEY_KINDS}
    if not all(ranges.values()):
        nowhere = " and ".join(kind for kind, clean in ranges.items() if not clean)
        return f"There is none in float64 for {nowhere} keys: at every temperature some contexts coincide."
    widths = low_to_high((math.log10(clean[-1] / clean[0]) for clean in ranges.values()), lambda x: f"{x:.1f}")
    coinciding = {kind: results["curves"][kind]["float64"][MEAN_END]["collisions"] for kind in KEY_KINDS}
    free = " and ".join(kind for kind, count in coinciding.items() if count == 0)
    text = (
        f"{widths} powers of ten in λ·spread: there float64 tells all {results['sequences']:,} contexts apart, for "
        "each of three kinds of keys."
    )
    if free:
        text += f" With {free} keys the mean, λ = 0, tells them apart too, so only the other kinds need softmax."
    narrow = [kind for kind in KEY_KINDS if not _clean(results, kind, "float32")]
    if narrow:
        which = "any kind of" if len(narrow) == len(KEY_KINDS) else " or ".join(narrow)
        text += f" Against us: in float32 no temperature does so for {which} keys."
    return text


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    grid, curves, paper = results["grid"], results["curves"], results["paper"]
    marks = [(paper["measured"], "paper, best direction")]
    colours = {"random": ("blue", None), "evenly spaced": ("green", "red"), ADDED: ("violet", None)}
    gaps = []
    for kind, pair in colours.items():
        for name, colour in zip(NUMBER_FORMATS, pair, strict=True):
            if colour is not None:
                values = [gap or None for gap in column(curves[kind][name][1:-1], "gap")]
                gaps.append(line(f"{name}, {kind} keys", grid, values, colour))
    titles, caption = ("λ · spread", "gap, share of the range"), "Equal floats, a gap of 0, are not drawn."
    return [figure("Smallest gap of contexts in floats", gaps, titles, caption, log="xy", marks=marks)]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    rows = []
    for kind in KEY_KINDS:
        for name in NUMBER_FORMATS:
            curve, clean = results["curves"][kind][name], _clean(results, kind, name)
            between = f"{amount(clean[0], 2)} to {amount(clean[-1], 2)}" if clean else "never"
            ends = {"mean": curve[MEAN_END]["collisions"], "hardmax": curve[HARDMAX_END]["collisions"]}
            rows.append({"name": f"{name}, {kind} keys", **ends, "between": between})
    head = "format: name; at the mean: mean; none for λ·spread in: between; at hardmax: hardmax"
    rows.append({"name": "the paper's λ·spread", "mean": None, "hardmax": None, "between": _papers(results["paper"])})
    return [table("Contexts that coincide in floats", rows, head)]


def _papers(paper: dict[str, float]) -> str:
    return f"{amount(paper['measured'], 2)} at best, {amount(paper['worst'], 2)} in its worst case"


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    return (
        f"One size of data: {results['sequences']:,} sequences of {results['length']} out of {results['vocabulary']} "
        "tokens; more sequences narrow the range. Collisions are counted against a bound of the rounding error."
    )
