"""What readers, models and checker share: hashes of rows, names of tokens, formats of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from monolayer.data.distinct import scramble
from monolayer.data.names import Names
from monolayer.data.number_formats import FORMATS
from monolayer.errors import DataError

ALL = (1 << 64) - 1


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
