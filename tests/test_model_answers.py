"""What parts of models answer, and what is shown of models, is what was recorded (`model_answers.txt`).

The questions are also those of `bench/no_planted_fault_proves_more.py --package model`.
"""

from __future__ import annotations

import pytest

from tests.model_answers import RECORD, questions
from tests.record import answer, differences, read_record

QUESTIONS, RECORDED = questions(), read_record(RECORD)
WITHIN = 1e-6
"""In float64 machines differ by far less here; in single precision sums are asked for that are exact."""
OTHERWISE = "if that is meant: python -m tests.model_answers > tests/model_answers.txt, and look at what changed"


def test_every_question_has_a_recorded_answer() -> None:
    assert list(QUESTIONS) == list(RECORDED)


@pytest.mark.one_seed
@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_answered_as_recorded(name: str) -> None:
    assert not differences(answer(QUESTIONS[name]), RECORDED[name], WITHIN), OTHERWISE
