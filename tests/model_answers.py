"""What parts of models answer, and what is shown of models: questions, and the record of their answers.

A number of `model_answers.txt` is changed on purpose only:

    python -m tests.model_answers > tests/model_answers.txt
"""

from __future__ import annotations

from pathlib import Path

from tests import model_parts, model_readouts, model_shown
from tests.record import Ask, recorded

RECORD = Path(__file__).with_name("model_answers.txt")


def questions() -> dict[str, Ask]:
    """All questions by their names; models that are asked are built here."""
    return {name: ask for group in (model_parts, model_readouts, model_shown) for name, ask in group.questions()}


if __name__ == "__main__":
    print(recorded(questions()), end="")
