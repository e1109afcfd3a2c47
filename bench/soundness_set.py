"""A soundness set for verifiers of networks: queries with known verdicts. `--out FOLDER` writes it.

A model of sequences of one token that differ in length by 1, with labels 0 and 1 in turn, has a staircase of narrow
steps; the longer the sequences, the narrower. Its readout (`monolayer export --to onnx --part readout`), one number to
one number in float64, is asked for

    narrow   sat     a peak (Y ≥ 3/4) in a box from the middle of one neighbouring run to that of the other
    wide     sat     the same peak in a box that is larger than 0.01
    above    unsat   more than the peak (Y ≥ 5/4) in the box of `narrow`
    holds    unsat   another label than that of a data point, in a box around it

Every verdict is computed from the ONNX file in rational arithmetic. A readout of one input is linear between places
where a neuron starts or stops, so its least and largest value lie at such places or at the ends of the box. A query
that is sat comes with a witness, a float64. `check` computes all that again from the files of a set.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import monolayer as ml

LENGTHS = (100, 2_500, 5_000, 10_000)
"""Of the shortest sequence; the first has no narrow step."""
SEQUENCES, PER_LENGTH, SECONDS = 25, 4, 60
Layers = list[tuple[list[dict[int, Fraction]], list[Fraction]]]
"""Rows of a matrix, zeros left out, and the bias."""


@dataclass(frozen=True)
class Query:
    """Is there an `X_0` in `[low, high]` with `Y_0` at least (or at most) `bound`?"""

    name: str
    network: str
    low: Fraction
    high: Fraction
    relation: str
    bound: Fraction
    verdict: str
    witness: Fraction | None = None

    @property
    def family(self) -> str:
        return self.name.split("_")[-2]

    def met(self, value: Fraction) -> bool:
        return value >= self.bound if self.relation == ">=" else value <= self.bound

    def vnnlib(self) -> str:
        """The query as VNN-LIB; every number is exact, since the decimals of a float64 end."""
        return f"""(declare-const X_0 Real)
(declare-const Y_0 Real)
(assert (>= X_0 {decimal(self.low)}))
(assert (<= X_0 {decimal(self.high)}))
(assert ({self.relation} Y_0 {decimal(self.bound)}))
"""


# -- rational arithmetic -----------------------------------------------------------------------------------


def decimal(number: Fraction) -> str:
    """All decimals of a float64."""
    with localcontext(prec=1100):
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    assert Fraction(text) == number, "its decimals do not end"
    return text


def layers_of(file: Path) -> Layers:
    """Matrices and biases of a chain of Gemm and Relu, as they are stored."""
    import onnx

    graph = onnx.load(file).graph
    stored = {one.name: onnx.numpy_helper.to_array(one).tolist() for one in graph.initializer}
    products = [node for node in graph.node if node.op_type == "Gemm"]
    assert [node.op_type for node in graph.node] == (["Gemm", "Relu"] * len(products))[:-1], "not such a chain"
    names = [(node.input[1], node.input[2]) for node in products]
    return [
        (
            [{column: Fraction(number) for column, number in enumerate(row) if number} for row in stored[weight]],
            [Fraction(number) for number in stored[bias]],
        )
        for weight, bias in names
    ]


def sums(layers: Layers, z: Fraction) -> list[list[Fraction]]:
    """What every layer adds up at the input `z`, before relu."""
    seen, found = [z], []
    for rows, bias in layers:
        found.append(
            [b + sum(w * seen[column] for column, w in row.items()) for row, b in zip(rows, bias, strict=True)]
        )
        seen = [max(total, Fraction(0)) for total in found[-1]]
    return found


def value(layers: Layers, z: Fraction) -> Fraction:
    """`Y_0` at `z`."""
    return sums(layers, z)[-1][0]


def corners(layers: Layers, low: Fraction, high: Fraction) -> list[Fraction]:
    """Ends of a box and all places in it between which the network is linear."""
    found = [low, high]
    for depth in range(len(layers) - 1):  # up to here every sum of this depth is linear between places found
        at, crossings = [(z, sums(layers, z)[depth]) for z in found], set(found)
        for (one, before), (two, after) in pairwise(at):
            for p, q in zip(before, after, strict=True):
                if p * q < 0:
                    crossings.add(one + (two - one) * p / (p - q))
        found = sorted(crossings)
    return found


def decide(layers: Layers, query: Query) -> str:
    """`sat` or `unsat`, exactly."""
    return "sat" if any(query.met(value(layers, z)) for z in corners(layers, query.low, query.high)) else "unsat"


# -- the set -----------------------------------------------------------------------------------------------


def build(folder: Path, lengths: tuple[int, ...] = LENGTHS) -> list[Query]:
    """Write networks, queries, `instances.csv` as VNN-COMP has it, and `verdicts.csv`."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "vnnlib").mkdir()
    found: list[Query] = []
    for length in lengths:
        X = [["a"] * (length + more) + ["b"] for more in range(SEQUENCES)]
        model = ml.memorize(X, [more % 2 for more in range(SEQUENCES)], per="sequence", rank=1)
        file = folder / "onnx" / f"runs_{length}.onnx"
        ml.export(model, file, "onnx", part="readout")
        found += queries(file, model.explain(X).z.tolist())
    with (
        (folder / "instances.csv").open("w", newline="") as rows,
        (folder / "verdicts.csv").open("w", newline="") as told,
    ):
        instances, verdicts = csv.writer(rows), csv.writer(told)
        verdicts.writerow(["network", "query", "verdict", "X_0", "Y_0"])
        for query in found:
            (folder / "vnnlib" / f"{query.name}.vnnlib").write_text(query.vnnlib())
            instances.writerow([f"onnx/{query.network}", f"vnnlib/{query.name}.vnnlib", SECONDS])
            at = query.witness
            exact = ["", ""] if at is None else [decimal(at), value(layers_of(folder / "onnx" / query.network), at)]
            verdicts.writerow([query.network, query.name, query.verdict, *exact])
    return found


def queries(file: Path, points: list[float]) -> list[Query]:
    """All families about one network, at a few of its peaks; `points`: where the data lie."""
    layers = layers_of(file)
    (slope, start), found = layers[0], list[Query]()
    steps = sorted((-b / row[0], -b / row[0] + 1 / row[0]) for row, b in zip(slope, start, strict=True))
    middle = [Fraction(float((left[1] + right[0]) / 2)) for left, right in pairwise(steps)]
    peaks = [run for run in range(1, len(middle) - 1) if value(layers, middle[run]) > value(layers, middle[run - 1])]
    ask = {"narrow": (">=", Fraction(3, 4)), "wide": (">=", Fraction(3, 4)), "above": (">=", Fraction(5, 4))}
    for number, run in enumerate(peaks[:: len(peaks) // PER_LENGTH][:PER_LENGTH]):
        here, around = middle[run], Fraction(1, 64)
        boxes = dict.fromkeys(("narrow", "above"), (middle[run - 1], middle[run + 1]))
        boxes["wide"] = (Fraction(float(here - around)), Fraction(float(here + around)))
        at = min(map(Fraction, points), key=lambda z: abs(z - here))
        room = Fraction(float(min(at - steps[run][1], steps[run + 1][0] - at))) * Fraction(7, 8)
        assert room > 0, "the data point lies on its run"
        boxes["holds"] = (Fraction(float(at - room)), Fraction(float(at + room)))
        for family, (low, high) in boxes.items():
            relation, bound = ask.get(family, ("<=", Fraction(1, 4)))
            asked = Query(f"{file.stem}_{family}_{number}", file.name, low, high, relation, bound, "")
            verdict = decide(layers, asked)
            witness = here if verdict == "sat" else None
            found.append(Query(asked.name, file.name, low, high, relation, bound, verdict, witness))
    return found


def read(folder: Path) -> list[Query]:
    """The queries of a set, as its files say them."""
    found = []
    with (folder / "verdicts.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            text = (folder / "vnnlib" / f"{row['query']}.vnnlib").read_text()
            parts = re.findall(r"\(assert \((>=|<=) (X_0|Y_0) (\S+)\)\)", text)
            (_, _, low), (_, _, high), (relation, _, bound) = parts
            box = Fraction(low), Fraction(high)
            witness = Fraction(row["X_0"]) if row["X_0"] else None
            found.append(Query(row["query"], row["network"], *box, relation, Fraction(bound), row["verdict"], witness))
    return found


def check(folder: Path) -> list[str]:
    """What is wrong with a set, in rational arithmetic: nothing, if it is as `build` wrote it."""
    wrong, known = [], dict[str, Any]()
    for query in read(folder):
        layers = known.setdefault(query.network, layers_of(folder / "onnx" / query.network))
        verdict, at = decide(layers, query), query.witness
        if verdict != query.verdict:
            wrong.append(f"{query.name}: the set says {query.verdict}, and it is {verdict}")
        elif (verdict == "sat") != (at is not None):
            wrong.append(f"{query.name}: {verdict}, {'without' if at is None else 'with'} a witness")
        elif at is not None and not (query.low <= at <= query.high and query.met(value(layers, at))):
            wrong.append(f"{query.name}: {float(at)!r} is no witness")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a new folder; by default one that is deleted in the end")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch) / "set"
        found = build(folder)
        wrong = check(folder)
        assert not wrong, wrong
    for (family, verdict), count in Counter((query.family, query.verdict) for query in found).items():
        widths = [float(query.high - query.low) for query in found if query.family == family]
        print(f"{family:7} {verdict:6} {count:3} queries, boxes {min(widths):.1e} to {max(widths):.1e} wide")


if __name__ == "__main__":
    main()
