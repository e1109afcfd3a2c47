"""The public names are a promise, a result shows the table of its command, and scikit-learn takes the classifier."""

from __future__ import annotations

import doctest
import html
import inspect
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import monolayer as ml
from tests.scripts import ROOT

PUBLIC = """
Certificate ContradictionError DataError Facts ModelFileError Monolayer MonolayerClassifier MonolayerError
OutOfMemoryError PrecisionError Record Sequences Uniform __version__ approximate attach attention audit certify
compare confuse contextual_mapping detach edit export forget insert load locate memorize memorize_as memorize_files
memorize_text read recognize refute_hardmax separation statement theorem
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


FUNCTIONS = sorted(name for name in NAMES if inspect.isfunction(getattr(ml, name)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_lists_every_parameter_and_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the API is made of these docstrings."""
    function = getattr(ml, name)
    said = inspect.getdoc(function) or ""
    entries = re.findall(r"^- (.*?): ", said, flags=re.M)
    listed = {word for entry in entries for word in re.findall(r"`(\w+)`", entry)}
    assert set(inspect.signature(function).parameters) <= listed
    assert f"::: {function.__module__}.{name}\n" in (ROOT / "docs" / "api" / f"{name}.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        function, name, globs={"ml": ml, "np": np, "torch": torch, "Path": Path}
    )
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("words", ["--help", "predict --help", "theorem --help"])
def test_help_waits_for_no_arrays(words: str) -> None:
    """Half of the time that help took went into NumPy, of which it shows nothing."""
    code = (
        "import sys\nfrom monolayer.cli import run\n"
        f"assert run({words.split()!r}) == 0\n"
        "assert not {'numpy', 'torch', 'rich.progress'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
        "Separation": ml.separation(X),
        "ContextualMapping": ml.contextual_mapping(model, X),
    }
    for name, result in results.items():
        first, *rest = repr(result).splitlines()
        assert first.strip() == name
        words = " ".join(" ".join(rest).split())
        for row, value in result.rows():
            assert " ".join(row.split()) in words, name
            assert value.split()[0] in words, name
        assert "array(" not in words


def test_notebooks_show_models_and_results_as_escaped_tables() -> None:
    facts = {"<b>a": "x&y", "c": "z"}
    model = ml.memorize(facts)
    for result in (model, ml.certify(model, facts), ml.locate(model, facts), ml.audit(model, list(facts))):
        shown = result._repr_html_()
        assert shown.startswith("<table><caption>")
        cells = re.findall(r"<td>(.*?)</td>", shown)
        rows = result.lines() if hasattr(result, "lines") else result.rows()
        assert [html.unescape(cell).replace("<br>", "\n") for cell in cells] == [cell for row in rows for cell in row]
        assert "<b>" not in shown
    assert "&lt;b&gt;a" in ml.locate(model, facts)._repr_html_()
    assert "maximum norm" in ml.approximate(lambda X: X, 1, 2, cells=2, norm="sup")._repr_html_()


def test_the_package_runs_as_the_command_and_says_the_version_of_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["monolayer", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("monolayer", run_name="__main__")
    assert left.value.code == 0
    assert ml.__version__ in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    failed, count = {}, 0
    for estimator, check in estimator_checks_generator(ml.MonolayerClassifier()):
        count += 1
        try:
            check(estimator)
        except Exception as error:
            if type(error).__name__ not in ("SkipTest", "Skipped", "SkipTestWarning"):
                failed[str(check)] = repr(error)
    assert count > 40
    assert failed == {}


def test_every_training_label_comes_back_through_a_pipeline() -> None:
    random = np.random.default_rng(3)
    X, y = random.standard_normal((300, 4)), random.integers(0, 5, 300)
    pipeline = make_pipeline(StandardScaler(), ml.MonolayerClassifier(seed=1)).fit(X, y)
    assert np.array_equal(pipeline.predict(X[::-1]), y[::-1])


@pytest.mark.parametrize("X", [["ab", "ba", "abc"], [[3, 4], [4, 3], [7]], np.array([[1, 2], [2, 1], [5, 5]])])
def test_sequences_are_taken_as_they_are(X: object) -> None:
    y = ["x", "y", "x"]
    model = ml.MonolayerClassifier(positions=True).fit(X, y)
    assert model.predict(X).tolist() == y
    assert model.classes_.tolist() == ["x", "y"]
    assert ml.certify(model.model_, X, [0, 1, 0]).verdict == "proved"


def test_contradictions_are_settled_or_raised() -> None:
    X, y = [[1.0], [1.0], [1.0]], [0, 1, 1]
    assert ml.MonolayerClassifier().fit(X, y).predict(X).tolist() == [1, 1, 1]
    with pytest.raises(ml.ContradictionError, match="sequence 0 has label 0, but sequence 1 has label 1"):
        ml.MonolayerClassifier(on_conflict="error").fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "new", "unknown"),
    [
        (["ab", "ba"], ["x", "y"], ["aab", "zz"], "never seen"),
        ([[3, 4], [4, 3]], [7, 8], [[3, 3], [99, 3]], -1),
        (["ab", "ba"], np.array(["x", None], dtype=object)[[0, 0]], ["b"], "z"),
    ],
)
def test_rows_that_were_not_in_the_training_data_get_the_answer_for_them(
    X: list, y: list, new: list, unknown: object
) -> None:  # type: ignore[type-arg]
    model = ml.MonolayerClassifier(unknown=unknown, positions=True).fit(X, y)
    assert model.predict([*X, *new]).tolist() == [*y, *[unknown] * len(new)]
    assert model.predict(new).tolist() == [unknown] * len(new)


def test_an_answer_for_unknown_rows_is_refused_where_it_cannot_be_given() -> None:
    with pytest.raises(ml.DataError, match="another type than the labels, such as"):
        ml.MonolayerClassifier(unknown="?").fit(["ab", "ba"], [1, 2])
    with pytest.raises(ml.DataError, match="vectors, which have no fingerprints"):
        ml.MonolayerClassifier(unknown=-1).fit(np.eye(2), [1, 2])
