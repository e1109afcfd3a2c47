"""What a result shows of itself in Python is the table that its command prints."""

from __future__ import annotations

import runpy

import numpy as np
import pytest

import monolayer as ml
from monolayer.table import plural

X, Y = [["a", "b"], ["b", "c"]], [[0, 1], [1, 0]]


def test_a_result_shows_the_table_of_its_command() -> None:
    model = ml.memorize(X, Y)
    edited, record = ml.edit(model, [["a", "b"]], [[1, 1]], (X, Y))
    results = {
        "Certificate": ml.certify(model, X, Y),
        "Record": record,
        "Comparison": ml.compare(model, edited),
        "StockModel": ml.memorize_as("bert", X, Y),
        "Refutation": ml.refute_hardmax(),
        "Theorem": ml.theorem(X),
    }
    for name, result in results.items():
        first, *rest = repr(result).splitlines()
        assert first.strip() == name
        words = " ".join(" ".join(rest).split())
        for row, value in result.rows():
            assert " ".join(row.split()) in words, name
            assert value.split()[0] in words, name
        assert "array(" not in words


def test_an_audit_and_an_explanation_show_their_columns() -> None:
    shown = repr(ml.audit(ml.memorize(np.array([[0, 1], [1, 2]]), np.array([[0, 1], [1, 0]])), [[0, 1], [1, 2]]))
    assert shown.splitlines()[1].split() == ["part", "width", "r", "δ", "bits", "confused", "QK", "OV"]
    assert "attention" in shown
    first, columns, *rows = repr(ml.memorize(X, Y).explain(X)).splitlines()
    assert first.startswith("λ = ")
    assert columns.split() == ["row", "token", "key", "weight", "context", "z", "step", "label", "beside", "margin"]
    assert [row.split()[:2] for row in rows] == [["0", "a"], ["0", "b"], ["1", "b"], ["1", "c"]]


def test_the_package_runs_as_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["monolayer", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("monolayer", run_name="__main__")
    assert left.value.code == 0
    assert ml.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(("word", "near"), [("t5", ""), ("brt", "bert")])
def test_only_what_is_near_is_suggested(word: str, near: str) -> None:
    with pytest.raises(ml.DataError) as caught:
        ml.memorize_as(word, X, Y)
    assert ("did you mean" in str(caught.value)) == bool(near)
    assert near in str(caught.value)


def test_one_is_no_plural() -> None:
    assert [plural(1, "class"), plural(2, "class"), plural(1_000, "label")] == ["1 class", "2 classes", "1,000 labels"]
