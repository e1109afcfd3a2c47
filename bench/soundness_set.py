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

`--competition SEED` writes another set, in the form of a VNN-COMP benchmark: inputs are rescaled, so that boxes are far
wider than the 1e-4 by which its scoring may leave them, networks are float32, and `generate_properties.py` draws the
instances of a seed (`bench/vnncomp`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

import monolayer as ml

GENERATOR = Path(__file__).parent / "vnncomp"
sys.path.insert(0, str(GENERATOR))

import generate_properties as properties  # noqa: E402
from generate_properties import Query  # noqa: E402

LENGTHS = (100, 2_500, 5_000, 10_000)
"""Of the shortest sequence; the first has no narrow step."""
SEQUENCES, PER_LENGTH = 25, 4
COMPETITION_LENGTHS, COMPETITION_SEQUENCES, NEEDLES = (100, 1_000, 2_500, 5_000), 96, 4
"""Lengths of the shortest sequences, how many there are, and how many of them have class 2."""


# -- the set -----------------------------------------------------------------------------------------------


def build(folder: Path, lengths: tuple[int, ...] = LENGTHS) -> list[Query]:
    """Write networks, queries, `instances.csv` as VNN-COMP has it, and `verdicts.csv`."""
    (folder / "onnx").mkdir(parents=True)
    found: list[Query] = []
    for length in lengths:
        X = [["a"] * (length + more) + ["b"] for more in range(SEQUENCES)]
        model = ml.memorize(X, [more % 2 for more in range(SEQUENCES)], per="sequence", rank=1)
        file = folder / "onnx" / f"runs_{length}.onnx"
        ml.export(model, file, "onnx", part="readout")
        found += queries(file, model.explain(X).z.tolist())
    layers = {query.network: properties.layers_of(folder / "onnx" / query.network) for query in found}
    properties.write(folder, found, layers, folder / "verdicts.csv")
    return found


def queries(file: Path, points: list[float]) -> list[Query]:
    """All families about one network, at a few of its peaks; `points`: where the data lie."""
    layers = properties.layers_of(file)
    (slope, start), found = layers[0], list[Query]()
    steps = sorted((-b / row[0], -b / row[0] + 1 / row[0]) for row, b in zip(slope, start, strict=True))
    middle = [Fraction(float((left[1] + right[0]) / 2)) for left, right in pairwise(steps)]
    peaks = [
        run
        for run in range(1, len(middle) - 1)
        if properties.value(layers, middle[run]) > properties.value(layers, middle[run - 1])
    ]
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
            verdict = properties.decide(layers, asked)
            witness = here if verdict == "sat" else None
            found.append(Query(asked.name, file.name, low, high, relation, bound, verdict, witness))
    return found


# -- for the competition -----------------------------------------------------------------------------------


def competition(folder: Path, seed: int, lengths: tuple[int, ...] = COMPETITION_LENGTHS) -> list[Query]:
    """The folder of a VNN-COMP benchmark: networks in float32 over rescaled inputs, the generator, and a seed's draw.

    Verdicts and witnesses go to `FOLDER.verdicts.csv`, beside the folder.
    """
    (folder / "onnx").mkdir(parents=True)
    for length in lengths:
        random = np.random.default_rng(length)
        X = [["a"] * (length + more) + ["b"] for more in range(COMPETITION_SEQUENCES)]
        classes = np.arange(COMPETITION_SEQUENCES) % 2
        classes[random.choice(np.arange(3, COMPETITION_SEQUENCES - 3), NEEDLES, replace=False)] = 2
        model = ml.memorize(X, classes.tolist(), per="sequence", rank=1)
        file = folder / "onnx" / f"runs_{length}.onnx"
        ml.export(model, file, "onnx", part="readout")
        rescale(file, model.explain(X).z.tolist())
    for name in ("generate_properties.py", "README.md"):
        shutil.copy(GENERATOR / name, folder / name)
    return properties.generate(folder, seed, folder.with_name(folder.name + ".verdicts.csv"))


def rescale(file: Path, points: list[float]) -> None:
    """Shift and scale the input of a network so that `points` are about 1 apart around 0, and store it in float32."""
    graph = onnx.load(file)
    stored = {one.name: onnx.numpy_helper.to_array(one) for one in graph.graph.initializer}
    first = next(node for node in graph.graph.node if node.op_type == "Gemm")
    ordered = sorted(map(Fraction, points))
    scale, centre = (len(ordered) - 1) / (ordered[-1] - ordered[0]), ordered[len(ordered) // 2]
    weights = [Fraction(row[0]) for row in stored[first.input[1]].tolist()]
    bias = [Fraction(number) for number in stored[first.input[2]].tolist()]
    # w z + b with z = centre + x/scale
    stored[first.input[1]] = np.array([[float(w / scale)] for w in weights])
    stored[first.input[2]] = np.array([float(b + w * centre) for w, b in zip(weights, bias, strict=True)])
    for one in graph.graph.initializer:
        one.CopyFrom(onnx.numpy_helper.from_array(stored[one.name].astype(np.float32), one.name))
    for side in (*graph.graph.input, *graph.graph.output):
        side.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.checker.check_model(graph)
    onnx.save(graph, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a new folder; by default one that is deleted in the end")
    parser.add_argument("--competition", type=int, metavar="SEED", help="a VNN-COMP benchmark with the draw of a seed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch) / "set"
        if options.competition is None:
            found, told = build(folder), folder / "verdicts.csv"
        else:
            found, told = competition(folder, options.competition), folder.with_name(folder.name + ".verdicts.csv")
        wrong = properties.check(folder, told)
        assert not wrong, wrong
    for (family, verdict), count in Counter((query.family, query.verdict) for query in found).items():
        widths = [float(query.high - query.low) for query in found if query.family == family]
        print(f"{family:7} {verdict:6} {count:3} queries, boxes {min(widths):.1e} to {max(widths):.1e} wide")


if __name__ == "__main__":
    main()
