"""What is attached to models, and what is said of it: questions, and the record of their answers.

A number of `attached_answers.txt` is changed on purpose only:

    python -m tests.attached_answers > tests/attached_answers.txt
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests import attached_parts, attached_questions, attached_runs
from tests.record import Ask, recorded

RECORD = Path(__file__).with_name("attached_answers.txt")
GROUPS = (attached_parts, attached_runs, attached_questions)


def questions(folder: Path) -> dict[str, Ask]:
    """All questions by their names; models that are asked are written to `folder`."""
    return {name: ask for group in GROUPS for name, ask in group.questions(folder / group.__name__)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:
        print(recorded(questions(Path(own))), end="")
