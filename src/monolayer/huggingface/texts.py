"""Choose how the tokenizer of a stock folder splits text, and check that it splits the text of data into their tokens.

characters   every name is one character
words        no name has white space in it, and text is split at white space
pieces       names are words with the white space before them, so that no character is lost
given        anything else: a text is one token, and lists of tokens can be passed (is_split_into_words=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np

from monolayer.data import Sequences
from monolayer.data.choices import Unit
from monolayer.data.prompts import PIECE

TextCut = Literal["characters", "words", "pieces", "given"]
_ISOLATED: dict[str, object] = {"type": "Split", "behavior": "Isolated", "invert": False}
CUTS: dict[TextCut, dict[str, object] | None] = {
    "characters": {**_ISOLATED, "pattern": {"Regex": r"[\s\S]"}},
    "words": {"type": "WhitespaceSplit"},
    "pieces": {**_ISOLATED, "pattern": {"Regex": PIECE}},
    "given": None,
}
"""The `pre_tokenizer` of `tokenizer.json` for each way to split text."""
CUT_OF: dict[Unit, TextCut] = {"characters": "characters", "words": "words", "whole": "given"}
"""How a tokenizer must split text so that a string is split as the data were, by the unit of the data."""
UNIT_OF: dict[TextCut, Unit] = {cut: unit for unit, cut in CUT_OF.items()}


def best_cut(special: Iterable[str], data: Sequences) -> TextCut:
    """How a tokenizer must split the text of `data` to give their tokens; `special`: its special tokens."""
    assert data.vocabulary is not None  # the caller checked
    if data.prompts is not None:
        return "pieces"  # even if no token has white space in it, so that an answer comes back as it was given
    unit = data.vocabulary.unit
    # If there are lists among the strings, their tokens may not fit the unit of the strings.
    if unit is not None and tokenizer_fault(CUT_OF[unit], special, data) is None:
        return CUT_OF[unit]
    words = [str(name) for name in data.vocabulary.names]
    if all(len(word) == 1 for word in words):
        return "characters"
    if not any(re.search(r"\s", word) for word in words):
        return "words"
    # A space that is a token of its own would be joined to the word after it when the text is split again.
    return "given" if tokenizer_fault("pieces", special, data) else "pieces"


def tokenizer_fault(cut: TextCut, special: Iterable[str], data: Sequences) -> str | None:
    """Why a tokenizer with this cut would split the text of `data` into other tokens; None if it would not.

    `special`: tokens that the tokenizer finds in any text that spells them.
    """
    assert data.vocabulary is not None  # the caller checked
    words = np.array([str(name) for name in data.vocabulary.names], dtype=object)
    used = words[np.unique(data.tokens)].tolist()
    if "" in used:
        return "the data have an empty token, which no tokenizer produces"
    if cut == "given":
        # The tokens of a list are not joined, but the tokenizer looks for special tokens inside each of them.
        inside = ((name, word) for word in used for name in special if name in word and name != word)
        name, word = next(inside, (None, None))
        return None if name is None else f"the token {word!r} holds {name!r}, which the tokenizer would find in it"
    if cut == "characters" and any(len(word) != 1 for word in used):
        return "the tokenizer splits text into characters, and the data have longer tokens"
    if cut == "words" and any(re.search(r"\s", word) for word in used):
        return "the tokenizer splits text at white space, and tokens of the data hold some"
    letters = set("".join(used)) | ({" "} if cut == "words" else set())
    spelled = [name for name in special if set(name) <= letters]
    if cut != "pieces" and not spelled:
        return None
    glue = " " if cut == "words" else ""
    for number, row in enumerate(data.split(data.tokens)):
        # A prompt is tokenized alone, and the ids after it come from the model.
        cuts = [] if data.prompts is None else [int(data.prompts[number])]
        for part in np.split(words[row], cuts):
            text = glue.join(part)
            name = next((name for name in spelled if name in text), None)
            if name is not None:
                return f"{data.named(number)} spells {name!r}, which the tokenizer takes for its special token"
            if cut == "pieces" and re.findall(PIECE, text) != part.tolist():
                return f"the text of {data.named(number)} is split into other tokens than the data have"
    return None
