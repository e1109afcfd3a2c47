"""What `bench/no_planted_fault_proves_more.py` takes for another answer, with faults that must count and some that must
not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.data import read
from tests.scripts import ROOT, script


@pytest.fixture(scope="module")
def answers() -> Any:
    return script("bench/planted_answers.py")


@pytest.fixture(scope="module")
def packages() -> Any:
    return script("bench/planted_packages.py")


def _failing() -> object:
    raise ValueError


def test_another_answer_is_one_that_differs_and_an_error_is_none(answers: Any) -> None:
    right, other, refused = (answers.told(ask)() for ask in (lambda: [1.0], lambda: [2.0], _failing))
    assert other.exceeds(right)
    assert other.exceeds(refused)  # the true code refuses
    assert not refused.exceeds(right)
    assert right.exceeds(refused)  # so a fault that refuses does less
    assert not answers.told(lambda: [1.0])().exceeds(right)


DIFFERENT: list[tuple[Callable[[], object], Callable[[], object]]] = [
    (lambda: np.zeros(2), lambda: -np.zeros(2)),
    (lambda: np.zeros(2), lambda: np.zeros(2, np.float32)),
    (lambda: np.zeros((2, 3)), lambda: np.zeros((3, 2))),
    (lambda: torch.zeros(2), lambda: torch.zeros(2, dtype=torch.int32)),
    (lambda: [[1], [2]], lambda: [[1, 2]]),
    (lambda: ["1"], lambda: [1]),
    (lambda: {"a": 1}, lambda: {"b": 1}),
    (lambda: ml.Sequences.of([[1, 2]], [["x", "y"]]), lambda: ml.Sequences.of([[1, 2]], [["x", "z"]])),
    (lambda: ml.Sequences.of(["a b"], ["x"]), lambda: ml.Sequences.of([["a", "b"]], ["x"])),  # split by another rule
]


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_an_answer_is_everything_that_came_back(
    answers: Any, one: Callable[[], object], two: Callable[[], object]
) -> None:
    assert answers.told(one)() == answers.told(one)()
    assert answers.told(one)().exceeds(answers.told(two)())


def test_a_fault_of_a_reader_gives_another_answer(
    answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the reader of tables leaves out the last row."""
    questions = {name: ask for name, ask in answers.QUESTIONS["data"](tmp_path / "corpus") if name.endswith(".csv")}
    true = {name: ask() for name, ask in questions.items()}

    def without_the_last(file: Path, **options: Any) -> ml.Sequences:
        whole = read(file, **options)
        return whole.select(np.arange(len(whole) - 1))

    monkeypatch.setattr(answers.planted_data, "read", without_the_last)
    more = [name for name, ask in questions.items() if ask().exceeds(true[name])]
    assert more == [name for name, answer in true.items() if not answer.refused]
    assert len(more) >= 2


def test_each_package_believes_the_sentences_about_it(packages: Any) -> None:
    sentences = {"noise.py f: a": "1", "^attached/caps\\.py": "2", "cluster/spill.py f: a": "3", "^model/": "4"}
    found = {name: list(package.reviewed(sentences).values()) for name, package in packages.PACKAGES.items()}
    assert found == {"checker": ["1", "2"], "cluster": ["3"], "model": ["4"], "attaching": [], "data": []}
    every = json.loads((ROOT / "bench" / "planted_faults_reviewed.json").read_text())
    assert sum(len(package.reviewed(every)) for package in packages.PACKAGES.values()) == len(every)


def test_packages_name_tests_that_exist(packages: Any) -> None:
    for package in packages.PACKAGES.values():
        assert package.folder.is_dir()
        assert not [name for name in package.tests if not (ROOT / "tests" / f"test_{name}.py").exists()]
