"""What `bench/no_planted_fault_proves_more.py` takes for another answer, with faults that must count and some that must
not."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import monolayer as ml
from monolayer.data import read
from tests.readings import recorded
from tests.scripts import ROOT, script


@pytest.fixture(scope="module")
def answers() -> Any:
    return script("bench/planted_answers.py")


@pytest.fixture(scope="module")
def packages() -> Any:
    return script("bench/planted_packages.py")


@pytest.fixture(scope="module")
def faults() -> Any:
    return script("bench/planted_faults.py")


@pytest.fixture(scope="module")
def suite() -> Any:
    return script("bench/planted_suite.py")


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
    every = answers.QUESTIONS["data"](tmp_path / "corpus")
    questions = {name: ask for name, ask in every if re.fullmatch(r"file .*\.csv", name)}
    true = {name: ask() for name, ask in questions.items()}

    def without_the_last(file: Path, **options: Any) -> ml.Sequences:
        whole = read(file, **options)
        return whole.select(np.arange(len(whole) - 1))

    monkeypatch.setattr("tests.readings_files.read", without_the_last)
    more = [name for name, ask in questions.items() if ask().exceeds(true[name])]
    refused = [name for name in questions if "read: DataError" in recorded()[name]]
    assert more == [name for name in questions if name not in refused]
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


SPANS = """
def f(x):
    if (x and
            y):
        return [x,
                1]
    for one in x: pass
    return 0
"""


def test_a_fault_belongs_to_the_whole_statement_but_not_to_those_inside(faults: Any) -> None:
    """Of a statement on several lines a tracer may name any; of one with others inside, its head is executed first."""
    found = {line: list(span) for line, span in faults.spans(ast.parse(SPANS)).items()}
    assert found == {2: [2], 3: [3, 4], 4: [3, 4], 5: [5, 6], 6: [5, 6], 7: [7], 8: [8]}


def test_tracing_that_stops_early_sees_every_line(suite: Any, packages: Any, tmp_path: Path) -> None:
    """Against a tracer that never stops."""
    package, seen = packages.PACKAGES["data"], set[tuple[str, int]]()

    def ask() -> None:
        for name, text in {"a.csv": "key,value\na,b\n\nc,d\n", "b.json": '{"a b": 1, "c": -3}'}.items():
            (tmp_path / name).write_text(text)
            read(tmp_path / name)
        read(tmp_path / "a.csv", labels="key", tokens="value")

    def every_line(frame: Any, event: str, _: Any) -> Any:
        file = Path(frame.f_code.co_filename)
        if event == "line" and package.folder in file.parents:
            seen.add((file.relative_to(package.folder).as_posix(), frame.f_lineno))
        return every_line

    ask()  # what is read once is then known
    sys.settrace(every_line)
    try:
        ask()
    finally:
        sys.settrace(None)
    with suite.tracing(package) as found:
        ask()
    heads = found - seen
    assert seen <= found
    assert len(seen) > 100
    # Beyond those lines it names heads of functions only.
    for file, line in heads:
        assert re.match(r"\s*(def |@)", (package.folder / file).read_text().splitlines()[line - 1])


def test_the_test_that_records_a_question_is_known_by_its_name(suite: Any) -> None:
    """A word before the name may say which package is asked. Tests without a name ask no question."""
    items = {str(name): SimpleNamespace(callspec=SimpleNamespace(params={"name": name})) for name in ("a b", "b", 1)}
    tests = suite.Suite(None, items | {"none": SimpleNamespace()})
    for question, asking in {"a b": ["a b", "b"], "model b": ["b"], "ab": [], "1": []}.items():
        assert [name for name in tests.items if tests.asks(name, [question])] == asking


def test_a_share_of_the_faults_is_a_share_of_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = script("bench/no_planted_fault_proves_more.py")
    every = [
        SimpleNamespace(file=file, key=f"{file} {i}") for file, count in (("a", 100), ("b", 9)) for i in range(count)
    ]
    some = bench.shared(every, 0.2, 0)
    assert Counter(fault.file for fault in some) == {"a": 20, "b": 2}
    assert some == bench.shared(every, 0.2, 0) != bench.shared(every, 0.2, 1)
    assert [fault for fault in every if fault in some] == some


def test_only_what_is_made_of_a_constant_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "A = 1\nMARK = object()\nB = A + 1\n"
    (tmp_path / "planted_toy").mkdir()
    for name, source in {
        "__init__": "",
        "one": first,
        "two": "from planted_toy.one import B, MARK\nC = {'b': B}\n",
    }.items():
        (tmp_path / "planted_toy" / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    two = importlib.import_module("planted_toy.two")
    one = sys.modules["planted_toy.one"]
    mark = one.MARK
    script("bench/planted_run.py")._assign_anew(one, ast.parse(first.replace("A = 1", "A = 2")), "planted_toy", {"A"})
    assert (one.A, one.B, two.B, two.C) == (2, 3, 3, {"b": 3})
    assert one.MARK is two.MARK is mark
