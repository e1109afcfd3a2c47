"""Files for verifiers: a readout as ONNX computes what the model's does, and the soundness set has true verdicts."""

from __future__ import annotations

import copy
import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
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
        assert "monolayer[onnx]" in said(more, code=2)
    deep, _ = kinds.built("cascade tokens")
    with pytest.raises(ml.DataError, match=r"the readout has \d+ stages"):
        ml.export(deep, other, "onnx", part="readout")
    assert not Path(other).exists()


# -- the soundness set -------------------------------------------------------------------------------------


properties = script("bench/vnncomp/generate_properties.py")
soundness = script("bench/soundness_set.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("verifiers") / "set"
    soundness.PER_LENGTH = 1  # of each kind
    soundness.build(made, lengths=(2500,))
    assert properties.check(made) == []
    return made


def test_every_verdict_is_true(folder: Path) -> None:
    queries = properties.read(folder)
    with (folder / "instances.csv").open(newline="") as rows:
        assert [Path(row[1]).stem for row in csv.reader(rows)] == [query.name for query in queries]
    narrow = 0
    for query in queries:
        layers, runs = properties.layers_of(folder / "onnx" / query.network), session(folder / "onnx" / query.network)

        def met(z: float, query: Any = query, layers: Any = layers, runs: Any = runs) -> set[bool]:
            """In rational arithmetic, and by onnxruntime."""
            said = Fraction(runs.run(["Y"], {"X": np.array([[z]])})[0].item())
            return {query.met(properties.value(layers, Fraction(z))), query.met(said)}

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
    first = next(query for query in properties.read(folder) if query.verdict == "sat")
    witness = properties.decimal(first.witness)
    for old, new, words in (
        (witness, properties.decimal(first.high + 1), "no witness"),
        (witness, properties.decimal(first.low), "no witness"),
        ("_above_0,unsat,,", "_above_0,sat,0,2", "it is unsat"),
        (f"{first.name},sat,{witness}", f"{first.name},sat,", "without a"),
    ):
        assert old in text
        verdicts.write_text(text.replace(old, new))
        assert words in properties.check(folder)[0]
    verdicts.write_text(text)
    query = folder / "vnnlib" / f"{first.name}.vnnlib"
    query.write_text(query.read_text().replace("Y_0 0.75", "Y_0 1.0625"))
    assert properties.check(folder) == [f"{first.name}: the set says sat, and it is unsat"]


@pytest.fixture(scope="module")
def competition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("competition") / "set"
    soundness.competition(made, seed=5, lengths=(300,))
    return made


def test_the_set_for_the_competition_has_wide_boxes_short_numbers_and_verdicts_that_tolerances_leave(
    competition: Path,
) -> None:
    told = competition.with_name("set.verdicts.csv")
    assert properties.check(competition, told) == []
    queries = properties.read(competition, told)
    assert {(query.family, query.verdict) for query in queries} == {
        *((family, "sat") for family in ("narrow", "wide", "needle")),
        *((family, "unsat") for family in ("above", "holds", "missing")),
    }
    file = competition / "onnx" / "runs_300.onnx"
    layers, runs = properties.layers_of(file), session(file)
    assert {one.data_type for one in onnx.load(file).graph.initializer} == {onnx.TensorProto.FLOAT}
    assert max(abs(weight) for rows, _ in layers for row in rows for weight in row.values()) < 100
    assert max(abs(number) for _, bias in layers for number in bias) < 500
    for query in queries:
        assert query.high - query.low >= Fraction(1, 16)
        assert all(Fraction(float(np.float32(float(end)))) == end for end in (query.low, query.high, query.bound))
        outside = np.linspace(float(query.low) - 1e-4, float(query.high) + 1e-4, 33, dtype=np.float32)
        said = [Fraction(runs.run(["Y"], {"X": z[None, None]})[0].item()) for z in outside]
        if query.verdict == "unsat":
            assert not any(map(query.met, said))
        else:
            witness = np.array([[float(query.witness)]], dtype=np.float32)
            assert query.met(Fraction(runs.run(["Y"], {"X": witness})[0].item()))
    text = "".join(path.read_text() + path.name for path in (competition / "vnnlib").iterdir())
    text += (competition / "instances.csv").read_text()
    assert "sat" not in text, "the files do not tell"
    assert not any(family in text for family in properties.FAMILIES)


def test_a_seed_draws_the_same_instances_again_and_another_draws_others(competition: Path, tmp_path: Path) -> None:
    before = (competition / "instances.csv").read_text(), sorted((competition / "vnnlib").iterdir())
    texts = [path.read_text() for path in before[1]]
    command = [sys.executable, "generate_properties.py", "5", "--verdicts", str(tmp_path / "told.csv")]
    said = subprocess.run(command, cwd=competition, capture_output=True, text=True, check=True).stdout
    assert said == "12 instances, 6 of them sat\n"
    assert [path.read_text() for path in sorted((competition / "vnnlib").iterdir())] == texts
    assert (tmp_path / "told.csv").read_text() == competition.with_name("set.verdicts.csv").read_text()
    other = properties.generate(shutil.copytree(competition, tmp_path / "other"), 6)
    assert {query.vnnlib() for query in other}.isdisjoint(texts)


def test_a_query_that_tolerances_decide_is_not_drawn(competition: Path) -> None:
    layers = properties.layers_of(competition / "onnx" / "runs_300.onnx")
    drawn = {query.family: query for query in properties.read(competition, competition.with_name("set.verdicts.csv"))}
    query, peak = drawn["holds"], drawn["needle"]
    assert properties.sturdy(layers, query)
    sign = 1 if query.relation == ">=" else -1
    inside = properties.value(layers, query.low)
    assert properties.sturdy(layers, peak)
    for change in ({"high": query.low}, {"high": query.high + 1}, {"bound": inside + sign * Fraction(1, 128)}):
        assert not properties.sturdy(layers, replace(query, **change))
    for change in ({"witness": peak.low}, {"witness": peak.high + 1}, {"bound": Fraction(2)}):
        assert not properties.sturdy(layers, replace(peak, **change))
