"""Data that the tokenizer of a stock folder gives back from their text: each token of theirs is one of its tokens."""

from __future__ import annotations

import re

import numpy as np

from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.expected import PIECE, Cut
from monolayer.data import Sequences

_SEPARATORS = re.compile("[\x1c-\x1f]")
"""White space for Python and not for `tokenizers`."""


def check_cut(cut: Cut, added: tuple[str, ...], data: Sequences) -> None:
    """Whether the tokens of the data are those that their text is cut into."""
    assert data.vocabulary is not None  # the caller saw to it
    words = np.array([str(name) for name in data.vocabulary.names], dtype=object)
    used = words[np.unique(data.tokens)].tolist()
    if "" in used:
        raise UnhandledError("the data have an empty token, which no tokenizer produces")
    if cut == "given":
        # Lists are not glued together, but special tokens are looked for inside each of their tokens.
        held = [(name, word) for word in used for name in added if name in word and name != word]
        if held:
            raise UnhandledError(f"the token {held[0][1]!r} holds {held[0][0]!r}, which the tokenizer would find in it")
        return
    if cut == "characters" and any(len(word) != 1 for word in used):
        raise UnhandledError("the tokenizer cuts text into characters, and the data have longer tokens")
    if cut == "words" and any(re.search(r"\s", word) or not word for word in used):
        raise UnhandledError("the tokenizer cuts text at white space, and tokens of the data hold some")
    if cut != "characters" and any(_SEPARATORS.search(word) for word in used):
        raise UnhandledError(
            "tokens of the data hold separators, of which it is not settled whether they are white space"
        )
    letters = set("".join(used)) | ({" "} if cut == "words" else set())
    names = [name for name in added if name and set(name) <= letters]
    if cut != "pieces" and not names:
        return
    glue = " " if cut == "words" else ""
    for number, row in enumerate(data.split(data.tokens)):
        text = glue.join(words[row])
        if any(name in text for name in names):
            raise UnhandledError(f"sequence {number} spells a special token, which the tokenizer would find in it")
        if cut == "pieces" and re.findall(PIECE, text) != words[row].tolist():
            raise UnhandledError(f"the text of sequence {number} is cut into other tokens than the data have")
