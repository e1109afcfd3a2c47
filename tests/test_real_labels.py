"""Real labels come back bit for bit, whatever floats they are, and the certificate says equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.model.staircase import Staircase
from tests.evil import Evil, evaluate
from tests.stored_models import Saved, random_case

pytestmark = pytest.mark.usefixtures("bounds_alone")

SUBNORMAL = 2.0**-1022
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [5e-324, -5e-324, 1e308, -1.7e308, -0.0, 0.0, 0.1, 1e20, 0.001, 2.0**-1022]
)


def same(got: Any, wanted: Any) -> bool:
    """Equal bits, but for −0.0, which is stored as 0.0."""
    return np.array_equal(np.asarray(got, float).view(np.int64), (np.asarray(wanted, float) + 0.0).view(np.int64))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.integers(1, 3), st.booleans(), st.booleans())
def test_every_float_comes_back_bit_for_bit(data: st.DataObject, size: int, per_token: bool, positions: bool) -> None:
    N, n = 6, 4
    X = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(N * n).reshape(N, n)
    shape = ((N, n) if per_token else (N,)) + ((size,) if size > 1 else ())
    few = data.draw(st.lists(FLOATS, min_size=1, max_size=8))  # few different ones: runs of equal labels
    picks = np.random.default_rng(len(few)).integers(0, len(few), shape)
    Y = np.array(few)[picks]
    model = ml.memorize(X, Y, positions=positions)
    assert model.feed_forward.readout == "runs"
    for path in ("fast", "dense"):
        assert same(model.predict(X, path=path), Y), path
    proof = ml.certify(model, X, Y)
    tiny = bool(((np.abs(Y) < SUBNORMAL) & (Y != 0)).any())
    assert proof.verdict == ("undecided" if tiny else "proved"), proof.explain()
    if tiny:
        assert "subnormal" in proof.reason
    else:
        assert proof.claim.endswith("the answer equals it")
        assert proof.label_error == 0.0
        moved = Y.copy()
        moved.flat[-1] = np.nextafter(moved.flat[-1], 0.0) if moved.flat[-1] else 1e-300
        assert ml.certify(model, X, moved).verdict == "refuted"


def test_labels_of_wide_range_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "data.jsonl", tmp_path / "model"
    labels = [0.001, 1e20, 1.0]
    data.write_text("".join(json.dumps({"tokens": word, "label": y}) + "\n" for word, y in zip("abc", labels)))  # noqa: B905
    assert run(["memorize", str(data), "--out", str(model)]) == 0
    assert "3 of 3 labels, bit for bit" in capsys.readouterr().out
    data.write_text(data.read_text().replace("0.001", "0.0010001"))
    assert run(["verify", str(model), str(data)]) == 1
    assert run(["verify", str(model), str(data), "--tolerance", "1e-6"]) == 0
    assert "to within 1e-06" in " ".join(capsys.readouterr().out.split())


def test_what_rounds_is_not_called_equal_and_the_way_out_is_named() -> None:
    X, Y = np.arange(40).reshape(10, 4), np.random.default_rng(3).normal(size=(10, 4))
    model = ml.memorize(X, Y).float()
    proof = ml.certify(model, X, Y)
    assert proof.verdict == "refuted"
    room = float(proof.reason.split("tolerance=")[1].split()[0])
    assert 0 < ml.certify(model, X, Y, tolerance=room).label_error <= room < 1e-3


def test_the_label_error_of_vectors_is_that_of_their_worst_coordinate() -> None:
    X, Y = ["abc", "d"], np.array([[1.0, 2.0], [3.0, 4.0]])
    model, other = ml.memorize(X, Y), Y + np.array([[0.0, 0.0], [0.0, 0.25]])
    proof = ml.certify(model, X, other, tolerance=0.5)
    assert proof.verdict == "proved"
    assert 0.25 <= proof.label_error < 0.26


def test_a_tolerance_is_a_number_from_0() -> None:
    model = ml.memorize(["ab"], [1.5])
    for tolerance in (-1, float("nan"), float("inf"), "1e-3", True):
        with pytest.raises(ml.DataError, match="tolerance must be a finite number from 0 on"):
            ml.certify(model, ["ab"], [1.5], tolerance=tolerance)  # type: ignore[arg-type]


def test_on_ramps_fast_and_dense_agree_between_two_labels() -> None:
    random = np.random.default_rng(0)
    start = torch.from_numpy(np.sort(random.permutation(400)[:39] / 8.0))
    slope = torch.from_numpy(2.0 ** random.integers(4, 8, 39))
    readout = Staircase.from_runs(slope, start, torch.from_numpy(random.normal(size=(2, 40))))
    z = (start[:, None] + torch.linspace(0, 1, 9, dtype=torch.float64) / slope[:, None]).flatten()
    with torch.no_grad():
        assert (readout(z) - readout.steps()(z)).abs().max() < 1e-12
    one, ends = torch.ones(1, dtype=torch.float64), torch.tensor([[-1.7e308, 1.7e308]], dtype=torch.float64)
    assert Staircase.from_runs(one, 0.0 * one, ends).steps()(one / 2.0).item() == 0.0


def test_literal_evaluations_equal_the_labels_that_are_proved_equal(tmp_path: Path) -> None:
    """By the format's own words, sums in random order."""
    for seed in range(6):
        case = random_case(seed, dtype="float64", target="reals", readout="runs", classes=4)
        rng, labels = np.random.default_rng(seed), case.Y or []
        proof = ml.certify(case.saved.write(tmp_path / str(seed)), case.X, labels)
        assert proof.verdict == "proved", (seed, proof.explain())
        for x, y in zip(case.X, labels, strict=True):
            with np.errstate(all="ignore"):
                out = evaluate(case.saved, x, Evil.plain(rng))[1][:, 0]
            assert np.array_equal(out[1:] if case.saved.config["per"] == "token" else out[0], y)
        assert all(same(a, b) for a, b in zip(ml.load(tmp_path / str(seed)).predict(case.X), labels, strict=True))


def test_planted_faults_are_never_proved(tmp_path: Path) -> None:
    """The attack plants faults at random; these are the checks of this readout, one after the other."""
    X, Y = np.arange(12).reshape(3, 4), np.random.default_rng(1).normal(size=(3, 4))
    saved = Saved.read(ml.memorize(X, Y).save(tmp_path / "m"))
    labels, w, b = (saved.tensors[f"feed_forward.stages.0.{name}"] for name in ("weight_2", "weight_1", "bias_1"))
    for name, place, value, verdict in (
        ("weight_2", (0, 3), np.nextafter(labels[0, 3], np.inf), "refuted"),
        ("bias_1", 3, b[3] - 8.0 * w[3], "undecided"),  # out of order
        ("weight_1", 3, -w[3], "undecided"),
        ("bias_2", 0, 2.0**-30, "undecided"),
        ("weight_2", (0, 3), np.inf, "undecided"),
        ("weight_2", (0, 3), 1e-310, "undecided"),  # may be flushed
    ):
        fault = saved.edited(f"feed_forward.stages.0.{name}", place, value).write(tmp_path / "fault")
        assert ml.certify(fault, X, Y).verdict == verdict, (name, value)
