"""Rank 1 with code and context apart: gates, and steps that belong to one cell each."""

from __future__ import annotations

import io
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import monolayer as ml
from monolayer.checker import stored as checker_stored
from monolayer.model.apart import Apart
from monolayer.model.load import load
from monolayer.page import page
from tests.evil import Evil, errs
from tests.stored_models import LABEL, Case, Saved
from tests.test_cascade import _fault, saved

RANDOM = np.random.default_rng(5)
RULES: dict[str, dict[str, Any]] = {
    "order": {"positions": True},
    "sets": {},
    "causal": {"causal": True},
}


@cache
def built(kind: str) -> tuple[ml.Monolayer, Any, Any]:
    X = np.stack([RANDOM.permutation(600)[:12] for _ in range(400 if kind == "causal" else 150)])
    Y = RANDOM.integers(0, 9, X.shape)
    model = ml.memorize(X, Y, dtype="float32", rank=1, on_conflict="first", **RULES[kind])
    return model, X, model.predict(X, path="dense")


@pytest.mark.parametrize("kind", RULES)
def test_what_one_line_cannot_hold_is_held_apart_and_proved(kind: str, tmp_path: Path) -> None:
    model, X, Y = built(kind)
    assert isinstance(model.feed_forward, Apart)
    assert (model.summary.rank, model.summary.layout) == (1, "apart")
    ranks = [int(torch.linalg.matrix_rank(matrix.double())) for matrix in model.attention.parameters()]
    assert ranks == [1, 1, 1, 1]
    assert np.array_equal(model.predict(X, path="fast"), Y)
    assert np.array_equal(model.predict(X, path="dense"), Y)
    assert kind == "causal" or model.summary.conflicts == 0
    assert ml.certify(model, X, Y).verdict == "proved"
    again = ml.load(model.save(tmp_path / "m"))
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)  # NaN: an id that never occurs
    assert np.array_equal(again.predict(X), Y)
    wrong = Y.copy()
    wrong[3, 4] = (wrong[3, 4] + 1) % 9
    assert ml.certify(model, X, wrong).verdict == "refuted"


def test_search_and_network_are_one_function(demanding: Any) -> None:
    """Also on ramps, and at codes that no gate has."""
    demanding(1e3)
    X, Y = RANDOM.integers(0, 40, (40, 5)), RANDOM.integers(0, 4, (40, 5))
    readout = ml.memorize(X, Y, positions=True, dtype="float32", rank=1).feed_forward.double()
    assert isinstance(readout, Apart)
    table = readout.table()
    assert table is not None
    steps = torch.cat([table.start, table.end, (table.start + table.end) / 2])
    cells = torch.cat([readout.cell] * 3)
    code = torch.cat([table.gate[cells], torch.tensor([-1e4, 1e4], dtype=torch.float64), table.gate])
    context = torch.cat([steps, torch.zeros(2 + len(table.gate), dtype=torch.float64)])
    with torch.no_grad():
        assert torch.equal(table(code, context), readout.dense(code, context))


def test_jumps_of_other_cells_cost_a_cell_nothing() -> None:
    """2^24 in one cell and 1 in the next: no float32 holds their sum, and no point has both."""
    parts = [[4.0, 4.0], [-2.0, -2.0], [[2.0**24, 1.0]], [0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 1.0]]
    readout = Apart(*(torch.tensor(part) for part in parts))
    code, context = torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([0.0, 1.0, 0.0, 1.0])
    table = readout.table()
    assert table is not None
    with torch.no_grad():
        assert table(code, context)[:, 0].tolist() == [0.0, 2.0**24, 3.0, 4.0]
        assert torch.equal(table(code, context), readout.dense(code, context))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_the_slow_reference_agrees(seed: int) -> None:
    """Cells one by one, in plain Python, on random labels at random places."""
    rng = np.random.default_rng(seed)
    gate = np.sort(rng.choice(40, 5, replace=False)).astype(float)
    count = rng.integers(0, 4, 5)
    start = [np.sort(rng.choice(64, size, replace=False)) / 64 for size in count]
    base, jump = rng.integers(0, 9, 5).astype(float), rng.integers(-4, 5, int(count.sum())).astype(float)
    flat = np.concatenate([*start, np.zeros(0)])
    slope = np.full(len(flat), 128.0)
    parts = slope, -slope * flat, jump[None], np.zeros(1), gate, base, count.astype(float)
    readout = Apart(*(torch.from_numpy(part) for part in parts))
    code, context = rng.choice(40, 30).astype(float), rng.integers(0, 128, 30) / 128 + 1 / 256
    offset = np.append(0, np.cumsum(count))
    wanted = []
    for t, c in zip(code, context, strict=True):
        total = 0.0
        for a in np.flatnonzero(gate == t):
            own = slice(offset[a], offset[a + 1])
            height = np.clip(slope[own] * c - slope[own] * flat[own], 0.0, 1.0)
            total += base[a] + float((height * jump[own]).sum())
        wanted.append(total)
    with torch.no_grad():
        found = readout.dense(torch.from_numpy(code), torch.from_numpy(context))[:, 0]
    assert found.tolist() == wanted
    table = readout.table()
    assert table is not None
    assert table(torch.from_numpy(code), torch.from_numpy(context))[:, 0].tolist() == pytest.approx(wanted, abs=1e-12)


def test_no_planted_fault_is_proved_against_an_evaluation(demanding: Any, tmp_path: Path) -> None:
    demanding(2e4)
    rng = np.random.default_rng(3)
    X, Y = rng.integers(0, 6, (12, 4)), rng.integers(0, 5, (12, 4))
    model = ml.memorize(X, Y, positions=True, dtype="float32", rank=1)
    assert isinstance(model.feed_forward, Apart)
    whole = Case(X.tolist(), Y.tolist(), saved(model, tmp_path / "m"))
    assert not errs(whole, Evil.draw(rng))
    verdicts = []
    for number in range(120):
        case = _fault(whole, rng)
        folder = case.saved.write(tmp_path / str(number))
        try:
            proof = ml.certify(folder, case.X, case.Y)
        except ml.ModelFileError:  # counts that are none: the loader refuses them as well
            with pytest.raises(ml.ModelFileError):
                load(folder)
            continue
        verdicts.append(proof.verdict)
        wrong = [errs(case, Evil.draw(rng)) for _ in range(3)]
        if proof.verdict == "proved":
            assert not any(wrong)
        if proof.verdict == "refuted":
            assert all(wrong)
    assert {"proved", "refuted", "undecided"} <= set(verdicts)


def test_a_gate_a_base_or_a_step_of_another_cell_is_never_proved(tmp_path: Path) -> None:
    model, X, Y = built("order")
    whole = saved(model, tmp_path / "m")
    faults: list[Any] = [
        lambda t: t["feed_forward.gate"].__setitem__(3, t["feed_forward.gate"][3] + 0.5),
        lambda t: t["feed_forward.base"].__setitem__(3, t["feed_forward.base"][3] + 1),
        lambda t: t["lift.weight"].__setitem__((int(X[0, 0]), 2), t["lift.weight"][int(X[0, 0]), 2] + 0.5),
        lambda t: t["lift.weight"].__setitem__((int(X[0, 0]), LABEL + 1), 1.0),
        lambda t: t["feed_forward.weight_2"].__setitem__((0, 0), t["feed_forward.weight_2"][0, 0] + 1),
    ]
    for number, fault in enumerate(faults):
        case = whole.changed()
        fault(case.tensors)
        assert ml.certify(case.write(tmp_path / str(number)), X, Y).verdict != "proved"


def test_labels_whose_logits_overflow_are_never_proved(tmp_path: Path) -> None:
    """2^127 is nearest to the last class, but two of its logits are infinite: every one after the first."""
    model, X, Y = built("order")
    case = saved(model, tmp_path / "m").changed()
    case.tensors["feed_forward.base"][:] = 2.0**127
    case.tensors["feed_forward.weight_2"][:] = 0.0
    folder = case.write(tmp_path / "changed")
    last = np.full_like(Y, len(case.tensors["head.bias"]) - 1)
    assert (ml.load(folder).predict(X, path="dense") != last).all()
    assert ml.certify(folder, X, last).verdict == "undecided"


def test_loader_and_checker_take_the_same_folders(tmp_path: Path) -> None:
    model, _, _ = built("order")
    whole = saved(model, tmp_path / "m")
    assert whole.config["version"] == 6
    changes: list[dict[str, Any]] = [{"version": 1}, {"readout": "exact"}, {"dtype": "float16"}, {"per": "sequence"}]
    changes += [{"width": 4}, {"tokens": "vectors", "vocabulary": None}, {"steps": whole.config["steps"] + 1}]
    folders = [Saved(whole.config | change, whole.tensors, whole.names) for change in changes]
    count = whole.tensors["feed_forward.count"]
    odd = (count + 1, count - 0.5, -count, np.full_like(count, np.nan), count[:-1], count[None])
    folders += [Saved(whole.config, {**whole.tensors, "feed_forward.count": each}, whole.names) for each in odd]
    for name in ("gate", "base", "count"):
        rest = {key: value for key, value in whole.tensors.items() if key != f"feed_forward.{name}"}
        folders.append(Saved(whole.config, rest, whole.names))
    for number, folder in enumerate([whole, *folders]):
        path = folder.write(tmp_path / str(number))
        if number == 0:
            load(path), checker_stored.read(path)
            continue
        with pytest.raises(ml.ModelFileError):
            load(path)
        with pytest.raises(ml.ModelFileError):
            checker_stored.read(path)


def test_an_export_and_onnxruntime_answer_alike() -> None:
    model, X, Y = built("sets")
    rows = torch.from_numpy(X[:20])
    program = torch.export.export(model, (rows,)).module()
    assert torch.equal(program(rows), model(rows))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(model, (rows,), file, dynamo=False, input_names=["X"], output_names=["out"])
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"X": rows.numpy()})[0].argmax(-1), Y[:20])


def test_what_works_on_one_staircase_says_so() -> None:
    model, X, Y = built("order")
    again, less = ml.memorize(X, Y, draw=model), ml.memorize(X[1:], Y[1:], draw=model)
    assert torch.equal(again.feed_forward.bias_1, model.feed_forward.bias_1)
    with pytest.raises(ml.DataError, match="apart"):
        page(model)
    assert ml.certify(less, X[1:], Y[1:], only=True).verdict == "proved"


def test_an_explanation_counts_steps_inside_the_cell() -> None:
    model, X, Y = built("order")
    found = model.explain(X)
    cells = model.feed_forward.table()
    assert cells is not None
    assert found.label == np.asarray(Y).ravel().tolist()
    assert (found.margin > 0).all()
    assert np.array_equal(found.z, (found.kappa * torch.from_numpy(found.context).to(model.bos.dtype)).numpy())
    assert set(found.step.tolist()) != {0}
    code, z = (torch.from_numpy(each).to(model.bos.dtype) for each in (found.code, found.z))
    for edge, beside, side in ((found.below, found.left, -1), (found.above, found.right, 1)):
        real = np.isfinite(edge)
        assert [each is None for each in beside] == (~real).tolist()
        # Just behind the ramp beside it, the cell has the neighbour's label.
        step = torch.from_numpy(found.step) + cells.offset[cells.find(code)[0]] - int(side < 0)
        beyond = (cells.start if side < 0 else cells.end)[step.clamp(0, len(cells.slope) - 1)]
        got = cells(code, torch.where(torch.from_numpy(real), beyond, z))[:, 0].round().long().tolist()
        assert [got[at] for at in np.flatnonzero(real)] == [beside[at] for at in np.flatnonzero(real)]
    text = io.StringIO()
    Console(width=200, file=text).print(model.explain(X[:2]).table())
    assert "code and context apart" in text.getvalue()


def test_changed_gates_fall_back_to_the_dense_network() -> None:
    _, X, Y = built("order")
    model = ml.memorize(X, Y, dtype="float32", rank=1, positions=True)
    with torch.no_grad():
        model.feed_forward.gate[0] += 0.5
    with pytest.raises(ml.DataError, match="fast path"):
        model.predict(X, path="fast")
