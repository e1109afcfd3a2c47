"""How data are read, example by example: what is given, and what it is read as (`readings.txt`).

The questions are also those of `bench/no_planted_fault_proves_more.py --package data`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import monolayer as ml
from monolayer.data import Names, read
from tests.asked import attempt, written
from tests.readings import answer, questions, recorded

QUESTIONS, RECORDED = questions(), recorded()
OTHERWISE = (
    "these data are read otherwise than recorded. If that is meant: python -m tests.readings > tests/readings.txt, "
    "look at every line that changed, and say so in docs/data.md and the changelog"
)


def test_every_question_has_a_recorded_answer() -> None:
    assert list(QUESTIONS) == list(RECORDED)


@pytest.mark.parametrize("name", QUESTIONS)
def test_data_are_read_as_recorded(name: str) -> None:
    assert answer(QUESTIONS[name]) == RECORDED.get(name), OTHERWISE


# -- what the record sees ----------------------------------------------------------------------------------------


def test_a_reader_that_leaves_out_the_last_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(file: Path) -> ml.Sequences:
        whole = read(file)
        return whole.select(np.arange(len(whole) - 1))

    monkeypatch.setattr("tests.readings_files.read", without_the_last)
    assert answer(QUESTIONS["file table.csv"]) != RECORDED["file table.csv"]


DIFFERENT = [
    (1, "1"),
    (1, 1.0),
    (0.0, -0.0),
    (1.0, 1.0 + 2.0**-52),
    (True, 1),
    ([1], (1,)),
    ([1, 2], [[1, 2]]),
    (["a", "b"], ["a, b"]),
    (np.zeros(2), np.zeros(2, np.float32)),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.array(["a"]), np.array(["a"], object)),
    (list(range(100)), [*range(50), 0, *range(51, 100)]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Names(("a",), "words"), Names(("a",), "whole")),
    (Names(range(2)), Names(range(3))),
]


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different_values_are_written_differently(one: object, two: object) -> None:
    assert written(one) == written(one)
    assert written(one) != written(two)


def test_an_error_is_written_by_its_kind() -> None:
    assert written(attempt(lambda: ml.read("gone.csv"))) == "DataError\n"
    assert written(attempt(lambda: [][0])) == "an error of Python or a library\n"


def test_what_only_an_address_tells_apart_is_refused() -> None:
    with pytest.raises(TypeError, match="address"):
        written([object()])
