"""What readers, models and checker share: hashes of rows, names of tokens, formats of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.data.distinct import distinct_rows, distinct_runs, row_keys, scramble
from monolayer.data.names import Names
from monolayer.data.number_formats import FORMATS
from monolayer.errors import DataError

ALL = (1 << 64) - 1
few = st.sampled_from([-0.0, 0.0, 1.0, 1.5, 2.0**-140])


@settings(max_examples=40)
@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(few, min_size=width, max_size=width), min_size=1)))
def test_equal_rows_are_one(rows: list[list[float]]) -> None:
    table = np.array(rows, dtype=np.float32)
    keys = row_keys(table)
    bits = [row.tobytes() for row in table]
    assert [keys[0] == key for key in keys] == [bits[0] == other for other in bits]
    assert len(set(keys.tolist())) == len(set(bits))
    found, place = distinct_rows(table)
    assert [tuple(row) for row in found.tolist()] == list(dict.fromkeys(map(tuple, rows)))  # −0.0 is 0.0 here
    assert (found[place] == table).all()
    assert not np.signbit(found).any()


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=1))
def test_equal_runs_have_one_number(runs: list[list[int]]) -> None:
    """Numbers count from 0, by length and then by first appearance."""
    values = np.array([value for run in runs for value in run], dtype=np.int64)
    found = distinct_runs(values, np.array([len(run) for run in runs], dtype=np.int64))
    order = sorted(dict.fromkeys(map(tuple, runs)), key=len)
    assert found.tolist() == [order.index(tuple(run)) for run in runs]


def test_names_that_are_spelt_alike_are_offered_but_no_integers() -> None:
    words, integers = Names(("Paris", "Rome")), Names(range(3))
    assert words.meant("Pariss") == " (did you mean 'Paris'?)"
    assert words.meant("Atlantis") == words.meant(7) == integers.meant("1") == ""
    assert "did you mean 'Rome'" in words.never_seen("Romes")
    assert "did you mean" not in words.never_seen("Romes", suggest=False)


def test_how_strings_are_cut_says_nothing_of_integers_unless_they_are_whole_keys() -> None:
    words, integers = Names(("a b", "c")), Names(range(3))
    assert (words.cut_into("words").unit, words.cut_into(None).unit) == ("words", None)
    assert (integers.cut_into("words").unit, integers.cut_into("whole").unit) == (None, "whole")


def test_names_that_are_forgotten_keep_their_number() -> None:
    left = Names(("a", "b", "c")).without(np.array([1]))
    assert (left.names[0], left.names[2], len(left)) == ("a", "c", 3)
    assert "b" not in left
    integers = Names(range(3))
    assert integers.without(np.array([1])) is integers


def unscrambled(word: int) -> int:
    """The word that `scramble` makes this one of. Every step of it can be undone, so no two words become one."""
    for shift, odd in ((32, 0xD6E8FEB86659FD93), (29, 0x9E3779B97F4A7C15), (31, 1)):
        whole = word
        for _ in range(64 // shift + 1):
            whole = word ^ (whole >> shift)
        word = whole * pow(odd, -1, 1 << 64) & ALL
    return word


def test_no_two_words_are_scrambled_into_one() -> None:
    words = np.random.default_rng(0).integers(0, ALL, 1000, dtype=np.uint64, endpoint=True)
    words[:4] = 0, 1, ALL, 1 << 63
    assert [unscrambled(word) for word in scramble(words).tolist()] == words.tolist()


WORDS, IDS, OTHERS = Names(("a", "b"), "words"), Names(range(3)), Names((3, 70, 900))
EXTENDED: dict[str, tuple[Names, list[Any], Any]] = {
    "words": (WORDS, ["d", "b", "c", "d"], ("a", "b", "c", "d")),
    "nothing new": (WORDS, ["b", "a"], ("a", "b")),
    "none before": (Names(()), ["b", "a"], ("a", "b")),
    "ids": (IDS, [5, 1], range(6)),
    "ids, the largest that leaves a gap": (IDS, [1023], range(1024)),
    "ids that are far": (IDS, [5000], (0, 1, 2, 5000)),
    "ids below 0": (IDS, [-1], (0, 1, 2, -1)),
    "ids, some below 0": (IDS, [5, -1], (0, 1, 2, -1, 5)),
    "integers": (OTHERS, [5, 70], (3, 70, 900, 5)),
}


@pytest.mark.parametrize("kind", EXTENDED)
def test_new_names_get_rows_behind_the_old_ones(kind: str) -> None:
    names, more, wanted = EXTENDED[kind]
    found = names.extended(more)
    assert (found.names, found.unit) == (wanted, names.unit)
    assert found.identity == isinstance(wanted, range)
    assert found.decode(np.arange(len(names))).tolist() == list(names.names)
    assert found.find(names).tolist() == list(range(len(names)))
    assert (names.find(found) >= 0).tolist() == [name in names for name in found.names]


@pytest.mark.parametrize(("names", "name"), [(WORDS, 1), (IDS, "a"), (OTHERS, "a")])
def test_names_are_of_one_kind(names: Names, name: Any) -> None:
    with pytest.raises(DataError, match="names are of one kind"):
        names.extended([name])


def test_errors_say_what_names_were_made_of() -> None:
    assert WORDS.built_from == "; the model was built from words: pass words, or a list of them"
    assert (IDS.built_from, OTHERS.built_from) == ("", "")


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_said_of_a_format_is_what_pytorch_does(name: str) -> None:
    each, dtype = FORMATS[name], getattr(torch, name)
    said = torch.finfo(dtype)
    assert each.unit == said.eps / 2
    assert each.spacing_at_0 == said.smallest_normal * said.eps
    assert (each.bytes, each.largest) == (dtype.itemsize, said.max)
    assert (each.long, each.short) == (dtype.itemsize == 8, dtype.itemsize == 2)
    assert each.limited == (name == "float16")
    held = torch.tensor([0.0, -0.0, 1.0, -1.0 - float(said.eps), 3.140625, 2.0**-14, 240.0], dtype=dtype)
    short = each.shortened(held.double().numpy())
    assert np.asarray(short).tobytes() == held.view(torch.uint8).numpy().tobytes()
    back = each.numbers(each.raw(held.view(torch.uint8).numpy().tobytes()))
    assert back.astype(np.float64).tobytes() == held.double().numpy().tobytes()
