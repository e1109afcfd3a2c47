"""Files for verifiers: a readout as ONNX computes what the model's does, and the soundness set has true verdicts."""

from __future__ import annotations

import copy
import csv
import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import monolayer as ml
from monolayer.cli import run
from monolayer.model import chain
from tests import kinds
from tests.scripts import script

X = [[1, 2, 3], [2, 2, 4], [4, 1, 1], [3, 4]]
CLASSES = [["a", "b", "c"], ["b", "b", "a"], ["c", "a", "a"], ["a", "b"]]
REALS = [[0.1, 2.0, -3.5], [1e-9, 1e-9, 7.0], [0.3, 4.0, 4.0], [5.0, 6.0]]


def session(file: Path) -> Any:
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("Y", "options", "layers"),
    [
        (CLASSES, {}, 3),
        (CLASSES, {"dtype": "float32"}, 3),
        (REALS, {}, 4),
        (CLASSES, {"robust": True, "dtype": "bfloat16"}, 2),
    ],
    ids=["exact", "float32", "runs", "robust"],
)
def test_the_file_computes_what_the_readout_does(Y: Any, options: Any, layers: int, tmp_path: Path) -> None:
    model = ml.memorize(X, Y, **options)
    file = ml.export(model, tmp_path / "new" / "readout.onnx", "onnx", part="readout")
    graph = onnx.load(file).graph
    assert [node.op_type for node in graph.node] == (["Gemm", "Relu"] * layers)[:-1]
    dtype = torch.float32 if "dtype" in options else torch.float64
    readout = copy.deepcopy(model.feed_forward).to(dtype)
    weight, bias = readout.layers()[0]
    if readout.stairs:  # inside every run and on every ramp
        steps = readout.stairs[0].steps()
        edges = torch.cat([steps.start, steps.end]).sort().values
        seen = torch.cat([edges, (edges[1:] + edges[:-1]) / 2, edges[:1] - 1, edges[-1:] + 1])[:, None]
        wanted = readout.dense(seen[:, 0])
    else:
        seen = torch.randn(50, weight.shape[1], generator=torch.manual_seed(0)).to(dtype)
        wanted = torch.relu(seen @ readout.weight_1.T + readout.bias_1) @ readout.weight_2.T + readout.bias_2
    runs = session(file)
    said = np.concatenate([runs.run(["Y"], {"X": row[None].numpy()})[0] for row in seen])
    assert said.dtype == {torch.float64: np.float64, torch.float32: np.float32}[dtype]
    rounding = torch.finfo(dtype).eps * float(bias.detach().abs().max())  # of what a neuron on its ramp reads
    np.testing.assert_allclose(said, wanted.detach().numpy(), rtol=0.0, atol=64 * rounding)


def test_the_command_and_what_it_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = str(ml.memorize(X, CLASSES).save(tmp_path / "model")), str(tmp_path / "readout.onnx")
    command = ["export", folder, "--to", "onnx", "--part", "readout", "--out", file]
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == file
    assert ml.export(folder, tmp_path / "same.onnx", "onnx", part="readout").read_bytes() == Path(file).read_bytes()

    def refused(words: str, *command: str) -> None:
        assert run(["export", folder, *command]) == 2
        assert words in " ".join(capsys.readouterr().err.split())

    other = str(tmp_path / "other.onnx")
    refused("exists already", *command[2:])
    for wrong in (["onnx"], ["onnx", "--part", "attention"], ["bert", "--part", "readout"]):
        refused("one part of a model, for verifiers: --to onnx, --part readout", "--to", *wrong, "--out", other)
    refused("leave onnx, rank out", "--to", "onnx", "--part", "readout", "--rank", "4", "--onnx", "--out", other)
    with monkeypatch.context() as changed:
        changed.setattr(chain, "LARGEST", 100)
        refused("steps would make a dense layer", *command[2:-1], other)
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "onnx", None)
        refused("pip install onnx", *command[2:-1], other)
    deep, _ = kinds.built("cascade tokens")
    with pytest.raises(ml.DataError, match=r"the readout has \d+ stages"):
        ml.export(deep, other, "onnx", part="readout")
    assert not Path(other).exists()


# -- the soundness set -------------------------------------------------------------------------------------


soundness = script("bench/soundness_set.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("verifiers") / "set"
    soundness.PER_LENGTH = 1  # of each kind
    soundness.build(made, lengths=(2500,))
    assert soundness.check(made) == []
    return made


def at(layers: Any, z: Fraction) -> Fraction:
    """The network in rational arithmetic, once more."""
    seen = [z]
    for number, (weight, bias) in enumerate(layers):
        sums = [
            sum((w * x for w, x in zip(row, seen, strict=True) if w), b) for row, b in zip(weight, bias, strict=True)
        ]
        seen = sums if number == len(layers) - 1 else [max(total, Fraction(0)) for total in sums]
    return seen[0]


def test_every_verdict_is_true(folder: Path) -> None:
    queries = soundness.read(folder)
    with (folder / "instances.csv").open(newline="") as rows:
        assert [Path(row[1]).stem for row in csv.reader(rows)] == [query.name for query in queries]
    narrow, networks = 0, {}
    for query in queries:
        if query.network not in networks:
            file = folder / "onnx" / query.network
            arrays = [onnx.numpy_helper.to_array(one) for one in onnx.load(file).graph.initializer]
            exact = [np.vectorize(Fraction)(array).tolist() for array in arrays]
            networks[query.network] = list(zip(exact[::2], exact[1::2], strict=True)), session(file)
        layers, runs = networks[query.network]
        assert query.verdict == {"narrow": "sat", "wide": "sat", "above": "unsat", "holds": "unsat"}[query.family]
        narrow += query.family == "narrow" and query.high - query.low < Fraction(1, 10**5)
        if query.verdict == "sat":
            assert query.low <= query.witness <= query.high
            assert query.met(at(layers, query.witness))
            z = float(query.witness)
            assert Fraction(z) == query.witness
            assert query.met(Fraction(runs.run(["Y"], {"X": np.array([[z]])})[0].item()))
            continue
        for z in np.linspace(float(query.low), float(query.high), 9):
            assert not query.met(at(layers, Fraction(z)))
    assert narrow == 1


def test_a_wrong_verdict_a_wrong_witness_and_a_changed_query_are_caught(folder: Path) -> None:
    verdicts = folder / "verdicts.csv"
    text = verdicts.read_text()
    first = next(query for query in soundness.read(folder) if query.verdict == "sat")
    outside = text.replace(soundness.decimal(first.witness), soundness.decimal(first.high + 1))
    low = text.replace(soundness.decimal(first.witness), soundness.decimal(first.low))
    flipped = text.replace("_above_0,unsat,,", "_above_0,sat,0,2")
    bare = text.replace(f"{first.name},sat,{soundness.decimal(first.witness)}", f"{first.name},sat,")
    for changed, words in ((outside, "no witness"), (low, "no witness"), (flipped, "it is unsat"), (bare, "without a")):
        assert changed != text
        try:
            verdicts.write_text(changed)
            assert words in soundness.check(folder)[0]
        finally:
            verdicts.write_text(text)
    query = folder / "vnnlib" / f"{first.name}.vnnlib"
    asked = query.read_text()
    try:
        query.write_text(asked.replace("Y_0 0.75", "Y_0 1.0625"))
        assert soundness.check(folder) == [f"{first.name}: the set says sat, and it is unsat"]
    finally:
        query.write_text(asked)
