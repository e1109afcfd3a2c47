"""A label that was stored and does not come back ends `memorize` and its bench with a report, not with a percentage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker.labelled import data_digest
from monolayer.cli import run
from monolayer.cli.wrong import MOST_PLACES, report_of_wrong_answers, weights_digest
from monolayer.model.monolayer import Monolayer


def wrong_once(monkeypatch: pytest.MonkeyPatch, places: list[int]) -> None:
    """Plant a fault: the first answers of models are another class at some places."""
    labels, calls = Monolayer.labels, []

    def once(self: Monolayer, data: ml.Sequences, **options: Any) -> Any:
        found = labels(self, data, **options)
        if not calls:
            found[places] = (found[places] + 1) % 2
        calls.append(options)
        return found

    monkeypatch.setattr(Monolayer, "labels", once)


def test_memorize_ends_with_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.csv").write_text("country,capital\nFrance,Paris\nJapan,Tokyo\nPeru,Paris\n")
    wrong_once(monkeypatch, [1])
    assert run(["memorize", str(tmp_path / "data.csv"), "--out", str(tmp_path / "model")]) == 70
    said = " ".join(capsys.readouterr().err.split())
    assert "does not return the label that it was built to return at 1 of 3 places" in said
    assert re.search(r"weights: [0-9a-f]{64} data: [0-9a-f]{64}", said)
    assert "'Tokyo' is right, 'Paris' came back; asked again, 'Tokyo'; asked by the dense network, 'Tokyo'" in said
    assert not (tmp_path / "model").exists()


def test_labels_that_were_overruled_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.csv").write_text("country,capital\nFrance,Paris\nFrance,Lyon\nJapan,Tokyo\n")
    words = ["memorize", str(tmp_path / "data.csv"), "--on-conflict", "first"]
    assert run([*words, "--out", str(tmp_path / "model")]) == 0
    assert "2 of 3 labels (66.6667%)" in " ".join(capsys.readouterr().out.split())
    # A model of the same draw has no summary that says how many were overruled.
    assert run([*words, "--out", str(tmp_path / "again"), "--draw", str(tmp_path / "model")]) == 0


def test_more_wrong_labels_than_were_overruled_are_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.csv").write_text("country,capital\nFrance,Paris\nFrance,Lyon\nJapan,Lyon\n")
    wrong_once(monkeypatch, [2])
    words = ["memorize", str(tmp_path / "data.csv"), "--on-conflict", "first", "--out", str(tmp_path / "model")]
    assert run(words) == 70
    assert "at 2 of 3 places" in capsys.readouterr().err


@pytest.mark.parametrize("per", ["token", "sequence"])
def test_the_report_names_the_places(per: str) -> None:
    X = np.arange(90).reshape(30, 3)
    Y: Any = [[i % 2, None, 1 - i % 2] for i in range(30)]
    if per == "sequence":
        Y = [None, *(i % 2 for i in range(29))]
    data = ml.Sequences.of(X, Y, per=per)
    model = ml.memorize(data)
    wrong = np.arange(5, 5 + MOST_PLACES + 3)  # labels, counted without the gaps
    report = report_of_wrong_answers(model, data, wrong, np.zeros(len(wrong), np.int64)).split("\n")
    assert report[2:4] == [f"  weights: {weights_digest(model)}", f"  data: {data_digest(data)}"]
    assert len(report) == 4 + MOST_PLACES
    where, label = ("token 2 of sequence 2", 1) if per == "token" else ("sequence 6", 1)
    ends = f"{label} is right, 0 came back; asked again, {label}; asked by the dense network, {label}"
    assert report[4] == f"  {where}: {ends}"


def test_digests_of_weights_depend_on_every_bit() -> None:
    one, two = (ml.memorize([[1], [2]], [0.5, label]) for label in (1.0, np.nextafter(1.0, 2.0)))
    assert weights_digest(one) != weights_digest(two)
    assert weights_digest(one) == weights_digest(ml.memorize([[1], [2]], [0.5, 1.0]))
    assert weights_digest(ml.memorize([[1]], [0], robust=True, dtype="bfloat16"))
