"""The names of a stock model's ids: special tokens, then the vocabulary of the data, as a tokenizer can have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from monolayer.data import Names, Sequences
from monolayer.data.prompts import PIECE
from monolayer.errors import DataError
from monolayer.huggingface.texts import CUT_OF, Cut, cut_of, misread


def token_names(vocabulary: Names, special: Mapping[str, str]) -> tuple[str, ...]:
    """Names of all ids: special tokens, then the vocabulary; a clash is an error that names it."""
    words = tuple(str(name) for name in vocabulary.names)
    clash = sorted(set(words) & set(special.values()))
    if clash:
        raise DataError(
            f"the token {clash[0]!r} of the data is also the name of a special token of this architecture "
            f"({', '.join(special.values())}): rename it in the data"
        )
    if len(set(words)) < len(words):
        twice = next(word for number, word in enumerate(words) if word in words[:number])
        raise DataError(f"the tokens {int(twice)} and {twice!r} have one name in a tokenizer: rename one of them")
    check_utf8("token", words)
    return (*special.values(), *words)


def check_utf8(what: str, names: Iterable[str]) -> None:
    """Half of a surrogate pair is no character, and no file in UTF-8 can hold it: an error that names it."""
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"the {what} {name!r} holds half of a surrogate pair, no character: rename it") from None


def check_texts(cut: Cut, special: Mapping[str, str], data: Sequences) -> None:
    """Data whose text a tokenizer would cut into other tokens are an error that names the sequence."""
    fault = misread(cut, special.values(), data)
    if fault is not None:
        raise DataError(f"{fault}: change that in the data")


def best_cut(special: Mapping[str, str], data: Sequences) -> Cut:
    """How text must be cut to give the tokens of `data` again."""
    assert data.vocabulary is not None  # the caller saw to it
    if data.prompts is not None:
        return "pieces"  # even where no token has white space in it: an answer comes back as it was given
    said = data.vocabulary.unit
    if said is not None and misread(CUT_OF[said], special.values(), data) is None:
        return CUT_OF[said]  # unless there are lists among the strings, whose tokens do not fit
    words = [str(name) for name in data.vocabulary.names]
    pieces = all(re.fullmatch(PIECE, word) for word in words)
    cut = cut_of(words, pieces=pieces)
    # Spaces that are tokens of their own go to the word behind them when the text is cut again.
    return "given" if cut == "pieces" and misread(cut, special.values(), data) is not None else cut
