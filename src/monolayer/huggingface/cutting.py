"""Prompts and answers as the ids that a folder's own tokenizer gives them."""

from __future__ import annotations

from typing import Any, NamedTuple

from monolayer.data import Sequences
from monolayer.errors import DataError, ModelFileError


class FactIds(NamedTuple):
    """A fact as the network sees it; the answer ends with the end token, where the host has one."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def sequence(self) -> tuple[int, ...]:
        """What the network reads: all but the last token of the answer."""
        return self.prompt + self.answer[:-1]

    @property
    def places(self) -> range:
        """The places of `sequence` that answer, one per token of the answer."""
        return range(len(self.prompt) - 1, len(self.sequence))


def tokenizer_of(content: bytes) -> Any:
    """The tokenizer in the bytes of `tokenizer.json`, without padding and cutting off."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise DataError("texts are split by the package tokenizers: pip install tokenizers") from None
    try:
        found = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # tokenizers raises a bare Exception
        raise ModelFileError(f"tokenizer.json cannot be read: {error}") from None
    found.no_padding()
    found.no_truncation()
    return found


def cut_prompts(content: bytes, data: Sequences) -> list[tuple[int, ...]]:
    """The ids of prompts, with special tokens as `tokenizer(prompt)` gives them; none where the prompt has no token."""
    tokenizer = tokenizer_of(content)
    return [tuple(tokenizer.encode(data.texts(row)[0]).ids) for row in range(len(data))]


def cut_facts(content: bytes, data: Sequences, end: int | None) -> list[FactIds]:
    """The ids of prompts and answers, special tokens around prompts only, as `tokenizer(prompt)` gives them."""
    tokenizer = tokenizer_of(content)
    found = []
    for row in range(len(data)):
        prompt, answer = data.texts(row)
        ids = tuple(tokenizer.encode(prompt).ids)
        if not ids:
            raise DataError(f"row {row}: the tokenizer produces no token for the prompt {prompt!r}")
        said = tuple(tokenizer.encode(answer, add_special_tokens=False).ids)
        if not said:
            raise DataError(f"row {row}: the tokenizer produces no token for the answer {answer!r}")
        found.append(FactIds(ids, said if end is None else (*said, end)))
    return found
