"""What is attached to models, and what is said of it, is what was recorded (`attached_answers.txt`).

The questions are also those of `bench/no_planted_fault_proves_more.py --package attaching`.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.attached_answers import RECORD, questions
from tests.record import answer, differences, read_record

FOLDER = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
QUESTIONS, RECORDED = questions(FOLDER), read_record(RECORD)
WITHIN = 1e-6
"""In float64 machines differ by far less here; of what models compute, few digits are recorded."""
OTHERWISE = "if that is meant: python -m tests.attached_answers > tests/attached_answers.txt, and look at what changed"


def test_every_question_has_a_recorded_answer() -> None:
    assert list(QUESTIONS) == list(RECORDED)


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_answered_as_recorded(name: str) -> None:
    assert not differences(answer(QUESTIONS[name]), RECORDED[name], WITHIN), OTHERWISE
