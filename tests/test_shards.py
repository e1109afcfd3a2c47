"""A dataset in several files is the dataset that it is in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monolayer.cli import run
from monolayer.data import Names, Sequences, read
from monolayer.errors import DataError
from tests.test_readers import same

CALM = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
TOKENS = [
    st.text("abc", min_size=1, max_size=2),
    st.integers(0, 9),
    st.integers(0, 2**62),
    st.lists(st.floats(-9, 9), min_size=2, max_size=2),
]
LABELS = [st.text("xy", max_size=1), st.integers(-3, 3), st.integers(0, 2**40), st.floats(-9, 9)]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@settings(CALM)
@given(st.sampled_from(TOKENS), st.sampled_from(LABELS), st.sampled_from(["label", "labels", None]), st.data())
def test_however_it_is_cut(tmp_path: Path, token: Any, label: Any, per: str | None, draw: st.DataObject) -> None:
    rows: list[dict[str, Any]] = []
    for tokens in draw.draw(st.lists(st.lists(token, min_size=1, max_size=3), min_size=2, max_size=8)):
        rows.append({"tokens": tokens})
        if per == "labels":
            rows[-1]["labels"] = [draw.draw(label) for _ in tokens]
        elif per is not None:
            rows[-1]["label"] = draw.draw(label)
    cut = draw.draw(st.integers(1, len(rows) - 1))
    _write(tmp_path / "whole.jsonl", rows)
    _write(tmp_path / "part-0.jsonl", rows[:cut])
    _write(tmp_path / "part-1.jsonl", rows[cut:])
    same(read(tmp_path / "part-*.jsonl"), read(tmp_path / "whole.jsonl"))


def test_formats_may_differ_and_the_order_is_that_of_the_names(tmp_path: Path) -> None:
    _write(tmp_path / "b.jsonl", [{"tokens": ["u"], "labels": ["x"]}])
    pq.write_table(pa.table({"tokens": [["v", "u"]], "labels": [["y", "x"]]}), tmp_path / "a.parquet")
    data = read(str(tmp_path / "[ab].*"))
    same(data, Sequences.of([["v", "u"], ["u"]], [["y", "x"], ["x"]]))


def test_a_vocabulary_serves_every_file(tmp_path: Path) -> None:
    _write(tmp_path / "a.jsonl", [{"tokens": ["u"]}])
    _write(tmp_path / "b.jsonl", [{"tokens": ["v"]}])
    own = Names(("w", "v", "u"))
    assert read(tmp_path / "*.jsonl", vocabulary=own).tokens.tolist() == [2, 1]


def test_patterns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="matches no file"):
        read(tmp_path / "*.jsonl")
    _write(tmp_path / "a[1].jsonl", [{"tokens": [1]}])
    assert len(read(tmp_path / "a[1].jsonl")) == 1, "a file of that very name is no pattern"


def test_progress_runs_over_all_files(tmp_path: Path) -> None:
    for name in "abc":
        _write(tmp_path / f"{name}.jsonl", [{"tokens": [1, 2]}])
    calls: list[Any] = []
    read(tmp_path / "*.jsonl", progress=lambda *call: calls.append(call))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert calls == sorted(calls)
    assert calls[-1] == (total, total)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"tokens": [1], "labels": ["x"]}, "integers as tokens and strings as labels, one per token"),
        ({"tokens": ["u"], "labels": [1]}, "strings as tokens and integers as labels, one per token"),
        ({"tokens": ["u"], "label": "x"}, "strings as labels, one per sequence"),
        ({"tokens": ["u"]}, "strings as tokens and no labels"),
        ({"tokens": [[0.5, 1.5]], "labels": [0.5]}, "vectors of 2 numbers as tokens and real numbers as labels"),
    ],
)
def test_files_that_do_not_go_together_are_both_named(tmp_path: Path, second: dict[str, Any], words: str) -> None:
    _write(tmp_path / "a.jsonl", [{"tokens": ["u"], "labels": ["x"]}])
    _write(tmp_path / "b.jsonl", [second])
    with pytest.raises(DataError, match=r"a\.jsonl and .*b\.jsonl do not go together") as caught:
        read(tmp_path / "*.jsonl")
    assert words in str(caught.value)


def test_memorize_predict_and_verify_take_shards(tmp_path: Path, capsys: Any) -> None:
    random = np.random.default_rng(0)
    rows = [
        {"tokens": random.permutation(30)[:5].tolist(), "labels": random.integers(0, 3, 5).tolist()} for _ in range(40)
    ]
    for number in range(4):
        _write(tmp_path / f"part-{number}.jsonl", rows[10 * number : 10 * number + 10])
    _write(tmp_path / "whole.jsonl", rows)
    pattern = str(tmp_path / "part-*.jsonl")
    for data, out in ((pattern, "one"), (str(tmp_path / "whole.jsonl"), "two")):
        assert run(["memorize", data, "--out", str(tmp_path / out)]) == 0
    one, two = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("one", "two"))
    assert one == two
    assert run(["verify", str(tmp_path / "one"), pattern]) == 0
    assert run(["predict", str(tmp_path / "one"), pattern, "--out", str(tmp_path / "answers.jsonl")]) == 0
    assert [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()] == rows
    assert "200 of 200 labels are right" in capsys.readouterr().err
