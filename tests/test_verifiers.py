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
        wanted = readout.stairs[0](seen[:, 0])
    else:
        seen = torch.randn(50, weight.shape[1], generator=torch.manual_seed(0)).to(dtype)
        wanted = torch.relu(seen @ readout.weight_1.T + readout.bias_1) @ readout.weight_2.T + readout.bias_2
    runs = session(file)
    said = np.concatenate([runs.run(["Y"], {"X": row[None].numpy()})[0] for row in seen])
    assert said.dtype == {torch.float64: np.float64, torch.float32: np.float32}[dtype]
    # What a neuron reads is a sum that may be rounded in another order.
    largest = float((seen.abs() @ weight.detach().abs().T + bias.detach().abs()).max())
    rounding = torch.finfo(dtype).eps * largest
    np.testing.assert_allclose(said, wanted.detach().numpy(), rtol=0.0, atol=64 * rounding)


def test_the_command_and_what_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ml.memorize(X, CLASSES).save("model")
    written, other = "export model --to onnx --part readout --out readout.onnx", "other.onnx"
    assert json.loads(said(f"{written} --json"))["file"] == "readout.onnx"
    file = ml.export("model", "same.onnx", "onnx", part="readout")
    assert file.read_bytes() == Path("readout.onnx").read_bytes()
    assert "exists already" in said(written, code=2)
    for wrong in ("onnx", "onnx --part attention", "bert --part readout"):
        refusal = said(f"export model --to {wrong} --out {other}", code=2)
        assert "one part of a model, for verifiers: --to onnx, --part readout" in refusal
    more = "export model --to onnx --part readout --out other.onnx"
    assert "leave onnx, rank out" in said(f"{more} --rank 4 --onnx", code=2)
    with monkeypatch.context() as changed:
        changed.setattr(chain, "LARGEST", 100)
        assert "steps would make a dense layer" in said(more, code=2)
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "onnx", None)
        assert "pip install onnx" in said(more, code=2)
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


def test_every_verdict_is_true(folder: Path) -> None:
    queries = soundness.read(folder)
    with (folder / "instances.csv").open(newline="") as rows:
        assert [Path(row[1]).stem for row in csv.reader(rows)] == [query.name for query in queries]
    narrow = 0
    for query in queries:
        layers, runs = soundness.layers_of(folder / "onnx" / query.network), session(folder / "onnx" / query.network)

        def met(z: float, query: Any = query, layers: Any = layers, runs: Any = runs) -> set[bool]:
            """In rational arithmetic, and by onnxruntime."""
            said = Fraction(runs.run(["Y"], {"X": np.array([[z]])})[0].item())
            return {query.met(soundness.value(layers, Fraction(z))), query.met(said)}

        assert query.verdict == {"narrow": "sat", "wide": "sat", "above": "unsat", "holds": "unsat"}[query.family]
        narrow += query.family == "narrow" and query.high - query.low < Fraction(1, 10**5)
        if query.verdict == "sat":
            assert query.low <= query.witness <= query.high
            assert Fraction(float(query.witness)) == query.witness
            assert met(float(query.witness)) == {True}
        else:
            assert all(met(z) == {False} for z in np.linspace(float(query.low), float(query.high), 9))
    assert narrow == 1


def test_a_wrong_verdict_a_wrong_witness_and_a_changed_query_are_caught(folder: Path) -> None:
    verdicts = folder / "verdicts.csv"
    text = verdicts.read_text()
    first = next(query for query in soundness.read(folder) if query.verdict == "sat")
    witness = soundness.decimal(first.witness)
    for old, new, words in (
        (witness, soundness.decimal(first.high + 1), "no witness"),
        (witness, soundness.decimal(first.low), "no witness"),
        ("_above_0,unsat,,", "_above_0,sat,0,2", "it is unsat"),
        (f"{first.name},sat,{witness}", f"{first.name},sat,", "without a"),
    ):
        assert old in text
        verdicts.write_text(text.replace(old, new))
        assert words in soundness.check(folder)[0]
    verdicts.write_text(text)
    query = folder / "vnnlib" / f"{first.name}.vnnlib"
    query.write_text(query.read_text().replace("Y_0 0.75", "Y_0 1.0625"))
    assert soundness.check(folder) == [f"{first.name}: the set says sat, and it is unsat"]
