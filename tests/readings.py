"""How data are read: questions to the readers and what stands beside them, and the record of their answers.

`readings.txt` has a paragraph for each question: what is given, and what it is read as, or the kind of error. So every
rule of reading is fixed by an example, and is changed on purpose:

    python -m tests.readings > tests/readings.txt

Then look at the difference: each line of it is read otherwise from now on, by everyone who has such data. A question
whose answer hangs on the machine, or on the version of a library, does not belong here.
"""

from __future__ import annotations

from pathlib import Path

from tests import (
    readings_beside,
    readings_files,
    readings_further,
    readings_refused,
    readings_rules,
    readings_sequences,
)
from tests.asked import Question, alone, attempt, written

RECORD = Path(__file__).with_name("readings.txt")
TITLE = "# "


def questions() -> dict[str, Question]:
    """All questions by their names."""
    found: dict[str, Question] = {}
    for group in (
        readings_rules,
        readings_files,
        readings_sequences,
        readings_refused,
        readings_beside,
        readings_further,
    ):
        for name, ask in group.questions():
            if name in found:
                raise ValueError(f"two questions are called {name!r}")
            found[name] = alone(ask)
    return found


def answer(ask: Question) -> str:
    """The answer to a question, as it is recorded."""
    return written(attempt(ask))


def recorded() -> dict[str, str]:
    """The answers that are recorded, by the names of their questions."""
    paragraphs = ("\n" + RECORD.read_text(encoding="utf-8")).split(f"\n{TITLE}")
    return {name: f"{said.strip()}\n" for name, _, said in (each.partition("\n") for each in paragraphs[1:])}


if __name__ == "__main__":
    for number, (name, ask) in enumerate(questions().items()):
        print(f"{chr(10) if number else ''}{TITLE}{name}\n{answer(ask)}", end="")
