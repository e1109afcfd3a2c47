"""Subnormal numbers keep their values while a process flushes them to 0, or monolayer refuses to go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.checker.labelled import data_digest
from monolayer.data.distinct import distinct_rows
from monolayer.data.subnormal import holds_subnormals, subnormals_are_flushed, without_negative_zeros
from monolayer.saved.certify import certify_files
from tests.flushed import flushing

SUBNORMAL = 2.0**-1026


@pytest.fixture
def flushed() -> Iterator[None]:
    """Subnormal numbers flushed to 0 while a test runs."""
    with flushing():
        yield


def bits(values: object) -> list[int]:
    found: list[int] = np.asarray(values, dtype=np.float64).view(np.int64).tolist()
    return found


def test_the_mode_is_seen(flushed: None) -> None:
    assert subnormals_are_flushed()
    assert np.array([SUBNORMAL]) == 0.0  # what this is all about
    torch.set_flush_denormal(False)
    assert not subnormals_are_flushed()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_subnormal_numbers_are_seen_by_their_bits(dtype: type, flushed: None) -> None:
    plain = np.array([0.0, -0.0, 1.0, -2.0, np.inf, np.nan, np.finfo(dtype).tiny], dtype=dtype)
    assert not holds_subnormals(plain)
    one = np.ones(1, dtype=f"i{plain.itemsize}").view(dtype)  # the smallest number above 0
    assert holds_subnormals(np.concatenate([plain, one]))


def test_zeros_lose_their_sign_and_nothing_else_changes(flushed: None) -> None:
    values = np.array([-0.0, 0.0, SUBNORMAL, -SUBNORMAL, 1.5])
    assert bits(without_negative_zeros(values.copy())) == [0, 0, *bits(values[2:])]


def test_labels_that_only_flushing_makes_equal_contradict_each_other(flushed: None) -> None:
    with pytest.raises(ml.ContradictionError, match=r"sequence 0 has label 0\.0, but sequence 1 has label"):
        ml.memorize([[1], [1]], [0.0, SUBNORMAL])


def test_a_subnormal_label_is_stored_and_returned(flushed: None) -> None:
    model = ml.memorize([[1], [2]], [0.0, SUBNORMAL])
    assert bits(model.predict([[1], [2]])) == bits([0.0, SUBNORMAL])


def test_a_vector_that_only_flushing_makes_equal_is_another(flushed: None) -> None:
    table, rows = distinct_rows(np.array([[0.0], [SUBNORMAL], [-0.0]]))
    assert bits(table[:, 0]) == bits([0.0, SUBNORMAL])
    assert rows.tolist() == [0, 1, 0]


def test_short_formats_would_lose_numbers_when_read(flushed: None) -> None:
    labels = np.ones(2, dtype=np.int32).view(np.float32)
    with pytest.raises(ml.PrecisionError, match="a label of type float32 is one of them: turn that off"):
        ml.Sequences.of([[1], [2]], labels)
    assert ml.Sequences.of([[1], [2]], np.float32([0.5, 1.0])).labels is not None
    torch.set_flush_denormal(False)
    read = ml.Sequences.of([[1], [2]], labels).labels
    assert read is not None
    assert bits(read.values[:, 0]) == bits([2.0**-149] * 2)


def test_digests_do_not_depend_on_the_mode(flushed: None) -> None:
    data = [ml.Sequences.of([[1], [2]], [0.0, label]) for label in (0.0, SUBNORMAL)]
    within = [data_digest(part) for part in data]
    torch.set_flush_denormal(False)
    assert within == [data_digest(part) for part in data]
    assert within[0] != within[1]


def test_nothing_is_proved_while_numbers_are_flushed(flushed: None, tmp_path: Path) -> None:
    """A model that returns 0, asked for 2^−1026, was proved: a comparison of both says equal."""
    X, Y = [[1], [2]], [SUBNORMAL, 1.0]
    zero = ml.memorize(X, [0.0, 1.0])
    zero.save(tmp_path / "model")
    for model in (zero, tmp_path / "model"):
        with pytest.raises(
            ml.PrecisionError, match=r"takes numbers below 2\^-1022 for 0 .*set_flush_denormal\(False\)"
        ):
            ml.certify(model, X, Y)
    (tmp_path / "data.jsonl").write_text('{"tokens": [1], "label": 0.0}\n')
    with pytest.raises(ml.PrecisionError, match="different labels and weights for equal"):
        certify_files(tmp_path / "model", [str(tmp_path / "data.jsonl")])
    with pytest.raises(ml.PrecisionError, match="weights that differ could then count as equal"):
        ml.locate(tmp_path / "model", X)
    torch.set_flush_denormal(False)
    assert ml.certify(zero, X, Y).verdict == "refuted"
    assert ml.certify(zero, X, [0.0, 1.0]).verdict == "proved"


def test_models_that_differ_by_a_subnormal_number_are_not_the_same(flushed: None) -> None:
    one, two = (ml.memorize([[1], [2]], [label, 1.0]) for label in (0.0, SUBNORMAL))
    assert not ml.compare(one, two).same
