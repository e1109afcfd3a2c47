"""What labels belong to, against loops over small data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.data import Names, Sequences
from monolayer.data.labelling import LABELLINGS, NEXT, SEQUENCE, TOKEN, Labelling
from monolayer.huggingface.architecture import TASK_LABELLINGS


def sequences(lengths: list[int]) -> Sequences:
    """Tokens 0, 1, 2, … in sequences of these lengths."""
    return Sequences(np.arange(sum(lengths)), np.array(lengths), Names(range(sum(lengths))))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_places_are_tokens_or_sequences(lengths: list[int], draw: st.DataObject) -> None:
    data = sequences(lengths)
    rows = draw.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6))
    tokens = [(row, position) for row, length in enumerate(lengths) for position in range(length)]
    expected: dict[Labelling, list[tuple[int, int | None]]] = {
        TOKEN: list(tokens),
        NEXT: list(tokens),
        SEQUENCE: [(row, None) for row in range(len(lengths))],
    }
    for labelling, places in expected.items():
        assert labelling.count(data) == len(places)
        assert [labelling.place(data, place) for place in range(len(places))] == places
        everything = np.arange(len(places))
        assert labelling.rows(data, everything).tolist() == [row for row, _ in places]
        of_rows = labelling.places(data, np.array(rows)).tolist()
        assert of_rows == [place for row in rows for place, (own, _) in enumerate(places) if own == row]
        mask = np.isin(np.arange(len(lengths)), rows)
        assert labelling.places(data, mask).tolist() == [place for place, (row, _) in enumerate(places) if mask[row]]
        for place, (row, position) in enumerate(places):
            word = f"sequence {row}" if position is None else f"token {position} of sequence {row}"
            assert labelling.describe(data, place) == word
        grouped = [np.atleast_1d(part).tolist() for part in labelling.by_sequence(data, everything)]
        assert grouped == [[at for at, (own, _) in enumerate(places) if own == row] for row in range(len(lengths))]


def test_the_table_has_the_names_that_callers_give() -> None:
    assert list(LABELLINGS) == ["token", "sequence", "answer", "continuation"]
    assert all(each.name == name for name, each in LABELLINGS.items())
    assert [each.belongs_to for each in LABELLINGS.values()] == ["token", "sequence", "token", "token"]
    assert [each.at_tokens for each in LABELLINGS.values()] == [True, False, True, True]
    assert [each.generates for each in LABELLINGS.values()] == [False, False, True, True]
    assert [each.verbatim for each in LABELLINGS.values()] == [False, False, False, True]
    assert TASK_LABELLINGS == {"token": TOKEN, "sequence": SEQUENCE, "lm": NEXT}
    assert (NEXT.belongs_to, NEXT.generates) == ("token", True)


@pytest.mark.parametrize("per", LABELLINGS)
def test_a_labelling_says_what_it_is(per: str) -> None:
    assert per in repr(LABELLINGS[per])
    assert LABELLINGS[per].words
