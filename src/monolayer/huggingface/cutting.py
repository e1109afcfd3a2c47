"""Turn prompts and answers into ids with a folder's own tokenizer."""

from __future__ import annotations

from typing import Any, NamedTuple

from monolayer.data import Sequences
from monolayer.errors import DataError, ModelFileError


class FactIds(NamedTuple):
    """The ids of a fact: its prompt and its answer, which ends with the end token if the host has one."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def sequence(self) -> tuple[int, ...]:
        """The ids that the network reads: the prompt, and all but the last token of the answer."""
        return self.prompt + self.answer[:-1]

    @property
    def places(self) -> range:
        """The places of `sequence` at which the network must return the answer, one per token of the answer."""
        return range(len(self.prompt) - 1, len(self.sequence))


def tokenizer_of(content: bytes) -> Any:
    """Load the tokenizer from the bytes of `tokenizer.json`, with padding and truncation switched off."""
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
    """The ids of the prompts in `data`, with the special tokens that `tokenizer(prompt)` adds.

    `content` holds the bytes of `tokenizer.json`. A prompt without a token has no ids.
    """
    tokenizer = tokenizer_of(content)
    return [tuple(tokenizer.encode(data.texts(row)[0]).ids) for row in range(len(data))]


def cut_facts(content: bytes, data: Sequences, end: int | None) -> list[FactIds]:
    """The ids of the prompts and answers in `data`. Only prompts get the special tokens of `tokenizer(prompt)`.

    `content` holds the bytes of `tokenizer.json`, and `end` is the id that is put after each answer, if any.
    """
    tokenizer = tokenizer_of(content)
    found = []
    for row in range(len(data)):
        prompt, answer = data.texts(row)
        prompt_ids = tuple(tokenizer.encode(prompt).ids)
        if not prompt_ids:
            raise DataError(f"row {row}: the tokenizer produces no token for the prompt {prompt!r}")
        answer_ids = tuple(tokenizer.encode(answer, add_special_tokens=False).ids)
        if not answer_ids:
            raise DataError(f"row {row}: the tokenizer produces no token for the answer {answer!r}")
        found.append(FactIds(prompt_ids, answer_ids if end is None else (*answer_ids, end)))
    return found
