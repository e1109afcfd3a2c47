"""What breaks when the paper's hypotheses do: repeats break a proof, close tokens break a format.

Three sweeps away from the hypotheses of Theorem 2, each in the paper's regime (small data, in balls) and in the
practical one (`ml.memorize`, float64):

- repeats: a share of the tokens of each sequence repeats an earlier one, from none to all;
- similarity: all sequences differ from one in 1, 2, … tokens;
- closeness: tokens are vectors that come in pairs at distance ε → 0.
"""

from __future__ import annotations

import numpy as np

import monolayer as ml
from monolayer.arrays import Array, Floats
from monolayer.table import Progress
from monolayer.theory.faithful import PaperConstruction
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, power, share, table
from monolayer_experiments.synthetic import near_copies, with_repeats, without_repeats

QUESTION = "What breaks where the paper's hypotheses are violated: repeats, near copies, close tokens?"

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
DISTANCES = (1, 2, 4, 8, 16)
EPSILONS = tuple(10.0**-k for k in range(17))
PLAN = {"sequences": (2_000, 20_000)}
DATA_FOR_BALLS = {"count": 40, "length": 5, "vocabulary": 12}
"""Sizes of the data that are built in ball arithmetic."""


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Measure the construction and the paper's head where tokens repeat, and sequences or tokens are close.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    count, seed = plan["sequences"], setting.seed
    results: Results = {"small": DATA_FOR_BALLS, "repeats": [], "similarity": [], "closeness": []}
    for done, part in enumerate(SHARES):
        progress("repeated tokens", 0.4 * done / len(SHARES))
        few, _ = with_repeats(part, **DATA_FOR_BALLS, seed=seed)
        practical = _practical(*with_repeats(part, count, seed=seed), seed)
        results["repeats"].append({"share": part, "practical": practical, "paper": _paper(few)})
    for done, distance in enumerate(DISTANCES):
        progress("similar sequences", 0.4 + 0.3 * done / len(DISTANCES))
        practical = _practical(*near_copies(distance, count, seed=seed), seed)
        small = distance <= DATA_FOR_BALLS["length"]
        paper = _paper(near_copies(distance, **DATA_FOR_BALLS, seed=seed)[0]) if small else None
        results["similarity"].append({"distance": distance, "practical": practical, "paper": paper})
    X, Y = without_repeats(count // 4, 8, 200, seed=seed)
    few, _ = without_repeats(12, 3, 8, seed=seed)
    for done, epsilon in enumerate(EPSILONS):
        progress("close tokens", 0.7 + 0.3 * done / len(EPSILONS))
        practical = _practical(_pairs(epsilon, 200, 4, seed)[X], Y, seed)
        paper = _paper(_pairs(epsilon, 8, 2, seed)[few])
        results["closeness"].append({"epsilon": epsilon, "practical": practical, "paper": paper})
    return results


def _practical(X: Array, Y: Array, seed: int) -> Results:
    """`ml.memorize` in float64: labels right, gap and margin; or the words with which it refuses."""
    try:
        model = ml.memorize(X, Y, seed=seed)
    except ml.PrecisionError as refused:
        return {"sequences": len(X), "accuracy": None, "gap": None, "margin": None, "refused": str(refused)}
    assert model.summary is not None  # a model that was just built has one
    right = float((model.predict(X) == Y).mean())
    margins = {"gap": model.summary.gap, "margin": model.summary.margin}
    return {"sequences": len(X), "accuracy": right, **margins, "refused": ""}


def _paper(X: Array) -> Results:
    """Theorem 2 carried out in balls: what is broken, and whether the separation exceeds δ all the same."""
    theorem = ml.theorem(X)
    heads = {"worst": _head(theorem.worst), "measured": _head(theorem.measured)}
    return {"sequences": len(X), "broken": list(theorem.separation.broken), **heads, "refused": theorem.refused}


def _head(built: PaperConstruction | None) -> Results | None:
    if built is None:
        return None
    separation = None if built.log10_separation is None else built.log10_separation[0]
    return {"verdict": built.verdict, "log10_delta": built.bounds.log10_delta, "log10_separation": separation}


def _pairs(epsilon: float, vocabulary: int, dim: int, seed: int) -> Floats:
    """Unit vectors, each with a partner at distance ε: `(V, d)`."""
    random = np.random.default_rng([seed, 3])
    first, step = random.standard_normal((2, vocabulary // 2, dim))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    step /= np.linalg.norm(step, axis=1, keepdims=True)
    return np.concatenate([first, first + epsilon * step])


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    rows = [*results["repeats"], *results["similarity"]]
    kept = all(row["practical"]["accuracy"] == 1.0 for row in rows)
    ends = [row["epsilon"] for row in results["closeness"] if row["practical"]["refused"]]
    heads = [row["paper"][kind] for row in rows if row["paper"] for kind in ("worst", "measured")]
    exceeded = all(head is not None and head["verdict"] == "proved" for head in heads)
    one = "Repeats and near copies cost no label" if kept else "Repeats or near copies cost labels"
    two = (
        "on the small data in balls the paper's margin δ holds with repeats too, which its proof does not cover"
        if exceeded
        else "in balls the paper's margin δ is not kept everywhere"
    )
    three = "no token distance was refused"
    if ends:
        three = f"tokens at distance {amount(max(ends))} or less are refused in float64"
    return f"{one}, and {two}. What breaks: {three}."


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    close = results["closeness"]
    return [
        figure(
            "Margin in float64 as tokens come closer",
            [line("margin", column(close, "epsilon"), column(column(close, "practical"), "margin"), "blue")],
            ("distance ε of the closest tokens", "narrowest gap / rounding error"),
            "No point: the constructor refuses, and names two tokens. At the jumps another draw or layout took over.",
            log="xy",
            levels=[(8, "refused below")],
        )
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""

    def cells(row: Results) -> Results:
        practical, paper = row["practical"], row["paper"]
        head = (paper or {}).get("measured") or {}
        return {
            **row,
            "share": f"{row.get('share', 0):.0%}".replace("%", " %"),
            "right": "refused" if practical["refused"] else share(practical["accuracy"]),
            "margin": practical["margin"],
            "hypotheses": "—" if paper is None else "broken" if paper["broken"] else "hold",
            "δ": power(head.get("log10_delta")),
            "separation in balls": power(head.get("log10_separation")),
            "exceeds δ": head.get("verdict"),
        }

    head = "labels right, float64: right; margin; hypotheses; δ; separation in balls; exceeds δ"
    sweeps = {
        "Repeated tokens": ("repeats", "share repeated: share"),
        "Similar sequences": ("similarity", "edit distance: distance"),
        "Close tokens": ("closeness", "ε: epsilon"),
    }
    return [table(title, map(cells, results[name]), f"{first}; {head}") for title, (name, first) in sweeps.items()]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    small = results["small"]
    return (
        f"Balls were run on {small['count']} sequences of {small['length']} tokens out of {small['vocabulary']}; that "
        "δ is exceeded with repeats is measured there, not proved."
    )
