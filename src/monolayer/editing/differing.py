"""Answers that differ, as comparisons list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.data import Sequences

SHOWN = 100
"""Steps and answers that a comparison names; the rest it counts."""


@dataclass(frozen=True)
class Answer:
    """A labelled place where answers differ; `position` is None for a label of a whole sequence."""

    sequence: int
    position: int | None
    one: Any
    two: Any


def differing(asked: Sequences, one: Any, two: Any, *, per_token: bool) -> tuple[int, int, list[Answer]]:
    """How many answers there are, how many differ, and the first of these; `one`, `two`: all of them, or None each."""
    differ = np.flatnonzero(one != two)
    listed = []
    for place in differ[:SHOWN].tolist():
        row, position = asked.place(place) if per_token else (place, None)
        listed.append(Answer(row, position, one[place], two[place]))
    return len(one), len(differ), listed


def answer_rows(asked: int | None, answers: int | None, listed: list[Answer]) -> list[tuple[str, str]]:
    """What a table shows of them."""
    rows = [] if asked is None else [("answers", f"{answers:,} of {asked:,} differ")]
    for answer in listed[:10]:
        place = f"sequence {answer.sequence}"
        place = place if answer.position is None else f"token {answer.position} of {place}"
        rows.append(("differs", f"{place}: {answer.one!r} → {answer.two!r}"))
    return rows
