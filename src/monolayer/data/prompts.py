"""Prompts and answers: the text of both, cut into words with the white space before them, so that nothing is lost.

A prompt and its answer are one sequence, and what is to be memorized is how the prompt goes on. Both are cut by
themselves: "is" and "Paris" stay two tokens where no space stands between them.
"""

from __future__ import annotations

import re
from reprlib import repr as short

from monolayer.data.plain import Given, array_like, is_gap, is_list
from monolayer.errors import DataError

PIECE = r"\s*\S+|\s+"
PROMPTS = ("prompt", "question", "prompts", "questions")
ANSWERS = ("completion", "answer", "completions", "answers")
"""Columns that hold them in public datasets, and the plurals that people write in a dict of columns."""


def pieces(text: str) -> list[str]:
    """`"The capital"` → `["The", " capital"]`."""
    return re.findall(PIECE, text)


def tokens_of(prompt: Given, answer: Given, at: str) -> tuple[list[str], list[str]]:
    """The tokens of a prompt and of its answer, none where the answer is missing; `at`: where they stand, in words."""
    if prompt is None:
        raise DataError(f"{at} has no prompt: give one, or take the row out")
    found = []
    for what, text in (("prompt", prompt), ("answer", answer)):
        if text is not None and not isinstance(text, str):
            raise DataError(
                f"{at}: the {what} is {short(text)} ({type(text).__name__}), and prompts and answers are text; "
                "per='sequence' (--per) makes a label of each answer"
            )
        if text == "":
            raise DataError(f"{at} has an empty {what}: give some text, or take the row out")
        found.append([] if text is None else pieces(text))
    return found[0], found[1]


def are_texts(X: Given, Y: Given) -> bool:
    """Whether `X` is a list of strings, and `Y` one too, but for gaps."""
    X, Y = array_like(X), array_like(Y)
    if not (is_list(X) and is_list(Y)) or len(X) == 0:
        return False
    given = [row for row in Y if not is_gap(row)]
    return len(given) > 0 and all(isinstance(row, str) for row in (*X, *given))
