"""Split prompts and answers into words with the white space before them, so that no character is lost.

A prompt and its answer are one sequence, and the model memorizes how the prompt goes on. The two are split separately:
a prompt that ends in "is" and an answer "'s" give two tokens, although no space stands between them.

In a table people write "The capital of France is" and "Paris", and mean "The capital of France is Paris". So an answer
gets a space in front, except in the cases that `as_generated` lists.
"""

from __future__ import annotations

import re
import unicodedata
from reprlib import repr as short
from typing import NamedTuple

from monolayer.data.plain import Given, array_like, is_gap, is_list
from monolayer.errors import DataError

PIECE = r"\s*\S+|\s+"
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Chinese characters."""
PROMPT_COLUMNS = ("prompt", "question", "prompts", "questions")
ANSWER_COLUMNS = ("completion", "answer", "completions", "answers")
"""Columns of prompts and answers in public datasets, and the plurals that people write in a dict of columns."""


class FactTokens(NamedTuple):
    """The tokens of a prompt and of its answer; `spaced`: whether the answer got a space in front."""

    prompt: list[str]
    answer: list[str]
    spaced: bool


def pieces(text: str) -> list[str]:
    """Split text into words with the white space before them: `"The capital"` → `["The", " capital"]`."""
    return re.findall(PIECE, text)


def as_generated(prompt: str, answer: str) -> str:
    """The answer as it follows its prompt: `"Paris"` → `" Paris"`.

    No space is added if the prompt ends in white space, if the answer begins with white space or punctuation, or if a
    letter where they meet belongs to a script without spaces.
    """
    last, first = prompt[-1], answer[0]
    already_separate = last.isspace() or first.isspace() or unicodedata.category(first).startswith("P")
    unspaced_script = UNSPACED.match(last) or UNSPACED.match(first)
    return answer if already_separate or unspaced_script else f" {answer}"


def tokens_of(prompt: Given, answer: Given, at: str, verbatim: bool) -> FactTokens:
    """The tokens of a prompt and of its answer; an answer of None has no tokens.

    `at`: where the two stand in the data, in words, for errors. `verbatim`: whether the answer is taken as it is,
    without a space in front.
    """
    if prompt is None:
        raise DataError(f"{at} has no prompt: give one, or remove the row")
    for what, text in (("prompt", prompt), ("answer", answer)):
        if text is not None and not isinstance(text, str):
            raise DataError(
                f"{at}: the {what} is {short(text)} ({type(text).__name__}), and prompts and answers are text; "
                "per='sequence' (--per) makes a label of each answer"
            )
        if text == "":
            raise DataError(f"{at} has an empty {what}: give some text, or remove the row")
    if answer is None:
        return FactTokens(pieces(prompt), [], False)
    following = answer if verbatim else as_generated(prompt, answer)
    return FactTokens(pieces(prompt), pieces(following), following != answer)


def are_texts(X: Given, Y: Given) -> bool:
    """Whether `X` is a list of strings, and `Y` a list of strings and gaps with at least one string."""
    X, Y = array_like(X), array_like(Y)
    if not (is_list(X) and is_list(Y)) or len(X) == 0:
        return False
    labelled = [row for row in Y if not is_gap(row)]
    return len(labelled) > 0 and all(isinstance(row, str) for row in (*X, *labelled))
