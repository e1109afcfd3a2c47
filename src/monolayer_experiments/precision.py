"""The paper's δ asks for billions of bits where 53 are enough.

Data: `2|V|` sequences of 3 different tokens out of `|V|`, the i-th token at `|V| + i` on a line. Compared, in bits of
a significand whose spacing at the largest value is the number in question, `⌈log2(2r/δ)⌉`:

- paper: δ of Theorem 2, the worst case over directions; and the smallest separation that its head leaves;
- faithful: δ with the direction that was measured; and the smallest separation that this head leaves;
- practical: the smallest gap of the points of `ml.memorize`, at temperature · spread near 1.

Separations are enclosed in balls. Formats: float32 has 24 bits, float64 53, binary128 113.

Corollary 1's whole network, the head and its one-hidden-layer readout, is built on the same data with both scales: in
balls, where every label can be proved on the smaller sets, and in float64, where ids coincide. The share of labels
that the best of all readouts could return from those ids is what precision leaves of the corollary.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import monolayer as ml
from monolayer.table import Progress
from monolayer.theory.corollary import COROLLARY_MAX_BITS, Scale, corollary1
from monolayer.theory.faithful import PaperConstruction
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.look import amount, column, figure, line, power, share, table
from monolayer_experiments.synthetic import without_repeats

QUESTION = "Is the separation δ that Theorem 2 promises one that a computer can hold?"

LENGTH = 3
SCALES: tuple[Scale, ...] = ("paper", "measured")
PAPER_BITS = 1 << 14
"""Bits up to which balls are tried at the paper's scale; it asks for 65,536 at |V| = 6, for more than 131,072 at 8."""
QUICK_VOCABULARIES = (4, 8, 16, 32, 64, 128, 256)
PLAN = {"vocabularies": (QUICK_VOCABULARIES, (*QUICK_VOCABULARIES, 512, 1024, 2048))}


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Enclose the separation of the paper's head and of the practical one, for vocabularies of growing size.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    sizes = plan["vocabularies"]
    rows = []
    for done, vocabulary in enumerate(sizes):
        progress(f"|V| = {vocabulary:,}", done / len(sizes))
        # Four tokens have four sets of three.
        X, Y = without_repeats(
            min(2 * vocabulary, math.comb(vocabulary, LENGTH)), LENGTH, vocabulary, seed=setting.seed
        )
        theorem = ml.theorem(X, seed=setting.seed, max_terms=1 << 24)
        model = ml.memorize(X, Y, seed=setting.seed)
        assert theorem.worst is not None
        assert theorem.measured is not None
        assert model.summary is not None
        assert model.summary.gap is not None
        rows.append(
            {
                "vocabulary": vocabulary,
                "sequences": len(X),
                "paper": _construction(theorem.worst),
                "faithful": _construction(theorem.measured),
                "gap": model.summary.gap,
                "bits": math.ceil(math.log2(2 / model.summary.gap)),
                "right": int((model.predict(X) == Y).sum()),
                "labels": int(X.size),
                "corollary": {
                    scale: asdict(
                        corollary1(X, Y, scale=scale, max_bits=PAPER_BITS if scale == "paper" else COROLLARY_MAX_BITS)
                    )
                    for scale in SCALES
                },
            }
        )
    return {"length": LENGTH, "rows": rows}


def _construction(built: PaperConstruction) -> Results:
    """δ and the smallest separation, in powers of ten and in bits."""
    separation = None if built.log10_separation is None else built.log10_separation[0]
    bits = None if separation is None else math.ceil(math.log2(2 * built.bounds.r) - separation * math.log2(10))
    return {
        "log10_delta": built.bounds.log10_delta,
        "delta_bits": built.bounds.bits,
        "log10_separation": separation,
        "separation_bits": bits,
        "verdict": built.verdict,
        "working_bits": built.bits,
    }


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    last = results["rows"][-1]
    proved = all(row[kind]["verdict"] == "proved" for row in results["rows"] for kind in ("paper", "faithful"))
    wrong = sum(row["labels"] - row["right"] for row in results["rows"])
    words = "and every label comes back" if not wrong else f"but {wrong:,} labels come back wrong"
    least = {scale: min(row["corollary"][scale]["possible"] for row in results["rows"]) for scale in SCALES}
    return (
        f"Only in arbitrary precision: at |V| = {last['vocabulary']:,} the paper's δ needs "
        f"{amount(last['paper']['delta_bits'])} bits, the same head with a measured direction "
        f"{amount(last['faithful']['delta_bits'])}, and the practical construction {last['bits']}, {words}. That the "
        f"separation exceeds δ is {'proved at every size' if proved else 'not proved at every size'}. On the "
        "ids of the paper's head in float64, the best of all readouts could return as little as "
        f"{share(least['paper'])} of the labels, with the measured direction {share(least['measured'])}."
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    rows = results["rows"]
    sizes, paper, faithful = column(rows, "vocabulary"), column(rows, "paper"), column(rows, "faithful")
    return [
        figure(
            "Bits of a significand against the vocabulary",
            [
                line("paper: δ", sizes, column(paper, "delta_bits"), "red", dash="dash"),
                line("paper: separation left", sizes, column(paper, "separation_bits"), "orange"),
                line("faithful: δ", sizes, column(faithful, "delta_bits"), "gold", dash="dash"),
                line("faithful: separation left", sizes, column(faithful, "separation_bits"), "green"),
                line("practical", sizes, column(rows, "bits"), "blue"),
            ],
            ("vocabulary |V|", "bits"),
            "Dashed: what the theorem promises. Solid: what the construction leaves, enclosed in balls.",
            log="xy",
            levels=[(53, "float64")],
        )
    ]


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    rows = results["rows"]
    promised = [
        {
            **row,
            "δ, paper": power(row["paper"]["log10_delta"]),
            "bits of δ, paper": row["paper"]["delta_bits"],
            "δ, faithful": power(row["faithful"]["log10_delta"]),
            "bits of δ, faithful": row["faithful"]["delta_bits"],
            "δ exceeded": f"{row['paper']['verdict']}, {row['faithful']['verdict']}",
        }
        for row in rows
    ]
    head = (
        "|V|: vocabulary; sequences; δ, paper; bits of δ, paper; δ, faithful; bits of δ, faithful; gap, practical: "
        "gap; bits, practical: bits; δ exceeded"
    )
    built = [
        {"vocabulary": row["vocabulary"], "scale": scale, **row["corollary"][scale]} for row in rows for scale in SCALES
    ]
    carried_out = (
        "|V|: vocabulary; points; scale; every label in balls: verdict; bits: tried; different ids in float64: "
        "distinct; possible %"
    )
    title = "Corollary 1 carried out: in balls, and in float64"
    return [
        table("Promised and needed", promised, head),
        table(title, built, carried_out, tried=lambda row: row["bits"] or "not tried"),
    ]


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    working = max(row["paper"]["working_bits"] or 0 for row in results["rows"])
    return (
        "Bits are counted for numbers subtracted as they stand; a program that works with the Wronskian of two "
        f"contexts needs far fewer ({working} here). Tokens are evenly spaced on a line; random vectors need more."
    )
