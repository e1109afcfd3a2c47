"""Claim: Marabou 2.0 says unsat of satisfiable queries with boxes narrower than 1e-5; z3 in rationals is right on all.

The queries are those of `soundness_set.py`, whose verdicts are computed in rational arithmetic. The second table asks
for one peak in boxes with the same lower end and growing width: the answer changes at 1e-5, the threshold below which
Marabou's preprocessor takes a variable for a constant, its lower bound (PREPROCESSOR_ALMOST_FIXED_THRESHOLD in its
GlobalConfiguration.cpp). At that end of the box the label is that of the neighbouring run.

`--competition SEED` asks both about the draw of a seed of the set for VNN-COMP instead, whose boxes are wide.

Needs pip install "monolayer[verifiers]", which the developers' packages do not include.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from soundness_set import Query, build, competition, properties
from workload import NotRunError, record, recordable, run

THRESHOLD = 1e-5
WIDTHS = (1e-6, 5e-6, 9.9e-6, 1.01e-5, 2e-5, 1e-3)


def ask_marabou(folder: Path, query: Query) -> str:
    """`sat`, `unsat` or what else it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from maraboupy import Marabou

        network = Marabou.read_onnx(str(folder / "onnx" / query.network))
    (x,), (y,) = network.inputVars[0].flatten(), network.outputVars[0].flatten()
    network.setLowerBound(x, float(query.low))
    network.setUpperBound(x, float(query.high))
    (network.setLowerBound if query.relation == ">=" else network.setUpperBound)(y, float(query.bound))
    options = Marabou.createOptions(verbosity=0, timeoutInSeconds=properties.SECONDS)
    return str(network.solve(verbose=False, options=options)[0])


def ask_z3(layers: properties.Layers, query: Query) -> str:
    """The same in rational arithmetic: every neuron is `if sum > 0 then sum else 0`."""
    import z3

    def exact(number: Fraction) -> z3.RatNumRef:
        return z3.RealVal(f"{number.numerator}/{number.denominator}")

    solver, x = z3.Solver(), z3.Real("X_0")
    solver.set("timeout", 1000 * properties.SECONDS)
    solver.add(x >= exact(query.low), x <= exact(query.high))
    seen = [x]
    for depth, (rows, bias) in enumerate(layers):
        sums = [
            z3.Sum([exact(w) * seen[column] for column, w in row.items()]) + exact(b)
            for row, b in zip(rows, bias, strict=True)
        ]
        seen = [z3.Real(f"h_{depth}_{number}") for number in range(len(sums))]
        last = depth == len(layers) - 1
        solver.add(*(one == (part if last else z3.If(part > 0, part, 0)) for one, part in zip(seen, sums, strict=True)))
    solver.add(seen[0] >= exact(query.bound) if query.relation == ">=" else seen[0] <= exact(query.bound))
    return str(solver.check())


def table(folder: Path, queries: list[Query]) -> dict[tuple[str, str, str], list[int]]:
    """Ask both about every query and print how many are right; that, by family, verdict and size of the box."""
    layers = {query.network: properties.layers_of(folder / "onnx" / query.network) for query in queries}
    groups = defaultdict[tuple[str, str, str], list[tuple[Query, str, str]]](list)
    for query in queries:
        answers = ask_marabou(folder, query), ask_z3(layers[query.network], query)
        size = "below 1e-5" if query.high - query.low < THRESHOLD else "above 1e-5"
        groups[query.family, query.verdict, size].append((query, *answers))
    print(f"{'query':8}{'verdict':9}{'width of box':25}{'queries':>8}{'Marabou right':>15}{'z3 right':>10}")
    found = {}
    for (family, verdict, size), answers in groups.items():
        widths = [float(query.high - query.low) for query, _, _ in answers]
        right = [sum(answer[solver] == verdict for answer in answers) for solver in (1, 2)]
        span = f"{min(widths):.1e} to {max(widths):.1e}"
        print(f"{family:8}{verdict:9}{span:25}{len(answers):8}{right[0]:15}{right[1]:10}")
        for query, *said in answers:
            if any(one != verdict for one in said):
                print(f"    {query.name}: {verdict}; Marabou says {said[0]}, z3 {said[1]}")
        found[family, verdict, size] = [len(answers), *right]
    return found


def rows_of(found: dict[tuple[str, str, str], list[int]], versions: dict[str, str]) -> list[dict[str, object]]:
    """What `table` found, as a record keeps it."""
    return [
        {"family": family, "verdict": verdict, "box": size, "queries": count, "Marabou": marabou, "z3": z3, **versions}
        for (family, verdict, size), (count, marabou, z3) in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--competition", type=int, metavar="SEED")
    recordable(parser)
    seed = parser.parse_args().competition
    try:
        versions = {name: version(name) for name in ("maraboupy", "z3-solver")}
        print(f"Marabou {versions['maraboupy']}, z3 {versions['z3-solver']}\n")
    except ModuleNotFoundError as error:
        raise NotRunError(f'{error}: pip install "monolayer[verifiers]"') from None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "set"
        if seed is not None:
            record(rows_of(table(folder, competition(folder, seed)), versions), "cpu", f"-{seed}")
            return
        queries = build(folder)
        wrong = properties.check(folder)
        assert not wrong, wrong
        found = table(folder, queries)
        record(rows_of(found, versions), "cpu")
        for (_, verdict, size), (count, marabou, z3) in found.items():
            assert z3 == count, "z3 computes in rational arithmetic"
            missed = verdict == "sat" and size == "below 1e-5"
            assert marabou == (0 if missed else count), "this Marabou does not do what the claim says"

        layers = {query.network: properties.layers_of(folder / "onnx" / query.network) for query in queries}
        peak = next(query for query in reversed(queries) if query.family == "narrow")
        print(f"\none peak of {peak.network}, {float(peak.high - peak.low):.1e} from one neighbour to the other:")
        for width in WIDTHS:
            query = replace(peak, high=Fraction(float(peak.low + Fraction(width))))
            assert properties.decide(layers[peak.network], query) == "sat"
            said = ask_marabou(folder, query)
            print(f"  box {width:.2e} wide: sat; Marabou says {said}")
            assert said == ("unsat" if width < THRESHOLD else "sat")


if __name__ == "__main__":
    run(main)
