"""`tokenizer.json` and its companions: text to the ids of the model, by characters, by words, or by given pieces.

The file is what the library `tokenizers` reads: a table of whole words, a rule that cuts text, and a begin token in
front. How text is cut depends on the names of the tokens:

    characters   every name is one character
    words        no name has white space in it; text is cut at white space
    pieces       names are words with the white space before them; nothing is lost, text comes back as it was
    given        anything else: the tokenizer takes lists of tokens (is_split_into_words=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from monolayer.data import Names, Sequences
from monolayer.errors import DataError

Cut = Literal["characters", "words", "pieces", "given"]
ENCODERS = ("bert", "roberta", "distilbert")
PIECE = r"\s*\S+|\s+"
ENCODER = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
DECODER = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""Special tokens of models that see both ways, and of those that see what came before, in the order of their ids."""


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
    if "" in words:
        raise DataError("the data have an empty token, which a tokenizer cannot produce from text: rename it")
    return (*special.values(), *words)


def check_utf8(what: str, names: Iterable[str]) -> None:
    """Half of a surrogate pair is no character, and no file in UTF-8 can hold it: an error that names it."""
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"the {what} {name!r} holds half of a surrogate pair, no character: rename it") from None


def check_texts(data: Sequences, names: tuple[str, ...], special: Mapping[str, str]) -> None:
    """A special token spelled out in a text would be read as one token: an error that names the sequence."""
    cut = cut_of(names, special, data)
    letters = set("".join(names[len(special) :]))
    for token in special.values():
        if not set(token) <= letters:
            continue
        if cut == "given":  # in lists of tokens, too, special ones are looked for inside each
            holds = [name for name in names[len(special) :] if token in name]
            if holds:
                raise DataError(
                    f"the token {holds[0]!r} holds {token!r}, which a tokenizer of this architecture takes for its "
                    "special token: rename it in the data"
                )
            continue
        glue = " " if cut == "words" else ""
        words = np.array(names[len(special) :], dtype=object)
        for number, row in enumerate(data.split(data.tokens)):
            if token in glue.join(words[row]):
                raise DataError(
                    f"sequence {number} spells {token!r}, which a tokenizer of this architecture takes for its special "
                    "token: change that text"
                )


def cut_of(names: tuple[str, ...], special: Mapping[str, str], data: Sequences | None = None) -> Cut:
    """How text must be cut to give these names, and the sequences of `data` again."""
    words = names[len(special) :]
    if all(len(word) == 1 for word in words):
        return "characters"
    if not any(re.search(r"\s", word) for word in words):
        return "words"
    if not all(re.fullmatch(PIECE, word) for word in words):
        return "given"
    table = np.array(words, dtype=object)
    rows = () if data is None else (table[row].tolist() for row in data.split(data.tokens))
    # Spaces that are tokens of their own go to the word behind them when the text is cut again.
    return "pieces" if all(re.findall(PIECE, "".join(row)) == row for row in rows) else "given"


def tokenizer_json(
    names: tuple[str, ...], special: Mapping[str, str], begin: str, cut: Cut, *, recites: bool
) -> dict[str, Any]:
    """`tokenizer.json`: word-level, with the special token `begin` in front of every sequence.

    `recites`: for a language model, whose words are put behind a prompt.
    """
    ids = {name: number for number, name in enumerate(names)}
    first = special[begin]
    added = [
        {
            "id": ids[name],
            "content": name,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for name in special.values()
    ]
    begins = {"SpecialToken": {"id": first, "type_id": 0}}
    sequences = [{"Sequence": {"id": letter, "type_id": kind}} for kind, letter in enumerate("AB")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer(cut),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begins, sequences[0]],
            "pair": [begins, *sequences],
            "special_tokens": {first: {"id": first, "ids": [ids[first]], "tokens": [first]}},
        },
        "decoder": decoder(cut, recites=recites),
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": special["unk"]},
    }


def decoder(cut: Cut, *, recites: bool) -> dict[str, Any] | None:
    """How tokens become text: as they are, or with spaces between them.

    A pipeline decodes what comes behind a prompt by itself: there each word has its space in front of it.
    """
    if cut in ("characters", "pieces"):
        return {"type": "Fuse"}
    # The start of a token, for all regular expressions alike: ^ is that of a line in some, and \A unknown in others.
    return {"type": "Replace", "pattern": {"Regex": r"(?<![\s\S])"}, "content": " "} if recites else None


def pre_tokenizer(cut: Cut) -> dict[str, Any] | None:
    """The rule that cuts text so."""
    if cut == "words":
        return {"type": "WhitespaceSplit"}
    if cut == "given":
        return None
    pattern = r"[\s\S]" if cut == "characters" else PIECE
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def padding(architecture: str, task: str, *, positions: bool) -> tuple[str, str]:
    """The side where padding leaves every answer of a forward pass right, and why, for the model card.

    `generate` needs the left. There GPT-2 counts places from the padding on, unless it is given `position_ids`, as by
    `generate`; OPT counts them by the mask, and rotary positions are differences.
    """
    if task == "lm" and architecture == "gpt2" and positions:
        return "right", (
            "The tokenizer pads on the right, since this architecture counts places from the left. For `generate` in "
            'batches\npad on the left (`padding_side="left"`): it counts places by the mask. Pipelines do so by '
            "themselves."
        )
    if task == "lm":
        return "left", "The tokenizer pads on the left, where `generate` needs it; a forward pass is right there too."
    why = "the label is read at the first token" if architecture in ENCODERS and task == "sequence" else None
    return "right", f"Pad on the right, as the tokenizer does: {why or 'places are counted from the left'}."


def tokenizer_config(special: Mapping[str, str], room: int, side: str) -> dict[str, Any]:
    """`tokenizer_config.json`. The class has a name that older and newer versions of transformers know."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": room,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": side,
        **{f"{name}_token": text for name, text in special.items()},
    }
