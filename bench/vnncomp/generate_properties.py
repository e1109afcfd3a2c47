"""Draw the instances of a seed: `python generate_properties.py SEED` writes `vnnlib/` and `instances.csv`.

Needs Python and the package onnx. A network in `onnx/` is a chain of Gemm and Relu from one number to one number: a
staircase over the classes 0, 1 and, rarely, 2. Families of queries:

    narrow    sat     a class (Y at least so much) in a box from one neighbouring run to the other
    wide      sat     the same in a box that holds many runs
    above     unsat   more than the class in the box of `narrow`
    holds     unsat   another class than that of a run, in a box within the run
    needle    sat     class 2, which one run of a box of many has
    missing   unsat   class 2 in a box of many runs, none of which has it

Verdicts are computed from the ONNX files in rational arithmetic: a network of one input is linear between places where
a neuron starts or stops, so its least and largest value lie at such places or at the ends of the box. They do not hang
on tolerances: an unsat query stays unsat in a box that is wider by 1/1024 on both sides and for a bound that is easier
by 1/64, and the witness of a sat query lies 1/1024 within its box and is better than its bound by 1/64.

`--verdicts FILE` writes verdicts and witnesses, for the organizers.
"""

from __future__ import annotations

import argparse
import csv
import re
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random

import onnx

PER_FAMILY, SECONDS = 2, 300
"""Queries of each family per network, and the seconds that each may take.

Organizers have asked for at most six hours in all, and for times near that; 48 queries make four hours."""
GRID = Fraction(1, 1024)
"""Box ends are multiples of this, so that float32 holds them exactly; ten times the tolerance of 1e-4 for inputs."""
EASIER = Fraction(1, 64)
"""By how much bounds are missed or met."""
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
        """The query as VNN-LIB; every number is exact, since the decimals of a binary fraction end."""
        return f"""(declare-const X_0 Real)
(declare-const Y_0 Real)
(assert (>= X_0 {decimal(self.low)}))
(assert (<= X_0 {decimal(self.high)}))
(assert ({self.relation} Y_0 {decimal(self.bound)}))
"""


# -- rational arithmetic -----------------------------------------------------------------------------------


def decimal(number: Fraction) -> str:
    """All decimals of a binary fraction."""
    with localcontext() as context:
        context.prec = 1100
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    assert Fraction(text) == number, "its decimals do not end"
    return text


def layers_of(file: Path) -> Layers:
    """Matrices and biases of a chain of Gemm and Relu, as they are stored."""
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


# -- what is drawn -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A stretch `[start, end]` on which a staircase has one value."""

    start: Fraction
    end: Fraction
    value: Fraction

    def inner(self, random: Random) -> Fraction:
        """A multiple of GRID in the middle half of the run."""
        quarter = (self.end - self.start) / 4
        first, last = -((-self.start - quarter) // GRID), (self.end - quarter) // GRID
        return random.randint(int(first), int(last)) * GRID


def runs_of(layers: Layers) -> list[Run]:
    """The flat stretches of a staircase, those at the ends left out."""
    (weights, bias), *_ = layers
    places = [-b / row[0] for row, b in zip(weights, bias, strict=True)]
    at = [(z, value(layers, z)) for z in corners(layers, min(places) - 1, max(places) + 2)]
    flat: list[Run] = []
    for (start, before), (end, after) in pairwise(at):
        if before != after:
            continue
        if flat and flat[-1].end == start:
            flat[-1] = replace(flat[-1], end=end)
        else:
            flat.append(Run(start, end, before))
    return flat[1:-1]


def draw(name: str, network: str, layers: Layers, runs: list[Run], random: Random) -> Query:
    """A query of the family that `name` ends with; drawn again until it is sturdy. `runs` are those of `layers`."""
    family = name.split("_")[-2]
    while True:
        query = _drawn(name, network, runs, family, random)
        if query is not None and sturdy(layers, query):
            return query


def _drawn(name: str, network: str, runs: list[Run], family: str, random: Random) -> Query | None:
    at = random.randrange(1, len(runs) - 1)
    here, left, right = runs[at], runs[at - 1], runs[at + 1]
    many = random.randint(8, len(runs) // 2)
    first = random.randint(max(0, at - many + 1), min(at, len(runs) - many))
    several = runs[first : first + many]
    ends = several[0].inner(random), several[-1].inner(random)
    share = Fraction(random.randint(38, 56), 64)  # of the way from the lower class to the higher
    needles = [run for run in several if run.value > Fraction(3, 2)]
    if family in ("narrow", "wide", "above"):
        below = max(left.value, right.value) if family != "wide" else Fraction(0)
        if here.value <= below or (family == "wide" and any(run.value >= here.value for run in several if run != here)):
            return None
        box = ends if family == "wide" else (left.inner(random), right.inner(random))
        bound = here.value + 1 - share if family == "above" else below + share * (here.value - below)
        found = Query(name, network, *box, ">=", bound, "unsat" if family == "above" else "sat")
        return found if family == "above" else replace(found, witness=here.inner(random))
    if family == "holds":
        lower = here.value > 0
        bound = here.value - share if lower else here.value + share
        inside = here.start + 2 * GRID, here.end - 2 * GRID
        box = -(-inside[0] // GRID) * GRID, inside[1] // GRID * GRID
        return Query(name, network, *box, "<=" if lower else ">=", bound, "unsat")
    if (family == "needle") != (len(needles) == 1) or (family == "missing" and needles):
        return None
    query = Query(name, network, *ends, ">=", 1 + share, "sat" if needles else "unsat")
    return replace(query, witness=needles[0].inner(random)) if needles else query


def sturdy(layers: Layers, query: Query) -> bool:
    """Whether the verdict of a query survives the tolerances that the module says."""
    if query.high - query.low < 64 * GRID:
        return False
    sign = 1 if query.relation == ">=" else -1
    if query.witness is None:
        easier = replace(query, low=query.low - GRID, high=query.high + GRID, bound=query.bound - sign * EASIER)
        return decide(layers, easier) == "unsat"
    harder = replace(query, bound=query.bound + sign * EASIER)
    inside = query.low + GRID <= query.witness <= query.high - GRID
    return inside and harder.met(value(layers, query.witness))


FAMILIES = ("narrow", "wide", "above", "holds", "needle", "missing")


def generate(folder: Path, seed: int, verdicts: Path | None = None) -> list[Query]:
    """Write the instances of a seed into a folder that has its networks."""
    random, found, layers = Random(seed), list[Query](), dict[str, Layers]()
    for file in sorted((folder / "onnx").glob("*.onnx")):
        layers[file.name] = layers_of(file)
        runs = runs_of(layers[file.name])
        for family in FAMILIES:
            for number in range(PER_FAMILY):
                found.append(draw(f"{file.stem}_{family}_{number}", file.name, layers[file.name], runs, random))
    random.shuffle(found)
    write(folder, found, layers, verdicts, hidden=True)
    return found


# -- files -------------------------------------------------------------------------------------------------


def write(
    folder: Path, found: list[Query], layers: dict[str, Layers], verdicts: Path | None, *, hidden: bool = False
) -> None:
    """The queries, `instances.csv` and, where asked for, the verdicts; `hidden`: names of files say no family."""
    (folder / "vnnlib").mkdir(exist_ok=True)
    for old in (folder / "vnnlib").glob("*.vnnlib"):
        old.unlink()
    with (folder / "instances.csv").open("w", newline="") as rows:
        instances = csv.writer(rows)
        for number, query in enumerate(found):
            text = file_of(query, number, hidden)
            (folder / text).write_text(query.vnnlib())
            instances.writerow([f"onnx/{query.network}", text, SECONDS])
    if verdicts is None:
        return
    with verdicts.open("w", newline="") as told:
        rows_told = csv.writer(told)
        rows_told.writerow(["network", "query", "verdict", "X_0", "Y_0", "file"])
        for number, query in enumerate(found):
            at = query.witness
            exact = ["", ""] if at is None else [decimal(at), value(layers[query.network], at)]
            rows_told.writerow([query.network, query.name, query.verdict, *exact, file_of(query, number, hidden)])


def file_of(query: Query, number: int, hidden: bool) -> str:
    return f"vnnlib/{Path(query.network).stem}_{number}.vnnlib" if hidden else f"vnnlib/{query.name}.vnnlib"


def read(folder: Path, verdicts: Path | None = None) -> list[Query]:
    """The queries of a folder, as its files say them."""
    found = []
    with (verdicts or folder / "verdicts.csv").open(newline="") as rows:
        for row in csv.DictReader(rows):
            text = (folder / row["file"]).read_text()
            parts = re.findall(r"\(assert \((>=|<=) (X_0|Y_0) (\S+)\)\)", text)
            (_, _, low), (_, _, high), (relation, _, bound) = parts
            box = Fraction(low), Fraction(high)
            witness = Fraction(row["X_0"]) if row["X_0"] else None
            found.append(Query(row["query"], row["network"], *box, relation, Fraction(bound), row["verdict"], witness))
    return found


def check(folder: Path, verdicts: Path | None = None) -> list[str]:
    """What is wrong with a set, in rational arithmetic: nothing, if it is as it was written."""
    wrong, known = [], dict[str, Layers]()
    for query in read(folder, verdicts):
        if query.network not in known:
            known[query.network] = layers_of(folder / "onnx" / query.network)
        layers, at = known[query.network], query.witness
        verdict = decide(layers, query)
        if verdict != query.verdict:
            wrong.append(f"{query.name}: the set says {query.verdict}, and it is {verdict}")
        elif (verdict == "sat") != (at is not None):
            wrong.append(f"{query.name}: {verdict}, {'without' if at is None else 'with'} a witness")
        elif at is not None and not (query.low <= at <= query.high and query.met(value(layers, at))):
            wrong.append(f"{query.name}: {float(at)!r} is no witness")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--verdicts", type=Path, help="also write verdicts and witnesses to this file")
    options = parser.parse_args()
    made = generate(Path(__file__).parent, options.seed, options.verdicts)
    print(f"{len(made)} instances, {sum(query.verdict == 'sat' for query in made)} of them sat")
