"""Turn prompts and answers into ids with a folder's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from monolayer.data import Sequences
from monolayer.data.choices import PerAnswer
from monolayer.errors import DataError, ModelFileError, needs_extra
from monolayer.huggingface.templates import PLAIN, Template

UNREADABLE = "\ufffd"
"""What tokenizers return for bytes that are not UTF-8, such as the first half of a character."""


class FactIds(NamedTuple):
    """The ids of a fact: its prompt and its answer, which ends with the end token if the host has one.

    `row`: the row of the data that states it. `where`: that row in words (`Sequences.named`), with the template if
    there are several. `template`: the number of the template that its prompt stands in.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    row: int
    where: str
    template: int = 0

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
        raise needs_extra("texts are split by the package tokenizers", "stock") from None
    try:
        tokenizer = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # tokenizers raises a bare Exception
        raise ModelFileError(f"tokenizer.json cannot be read: {error}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def split_text(tokenizer: Any, text: str, *, special_tokens: bool, where: str) -> tuple[int, ...]:
    """The ids of a text, with or without the special tokens that `tokenizer(text)` adds. Errors say `where` it is."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: character {error.start} of {text!r} is half of a surrogate pair, which no tokenizer can split"
        ) from None
    return tuple(tokenizer.encode(text, add_special_tokens=special_tokens).ids)


def cut_prompts(content: bytes, data: Sequences, template: Template = PLAIN) -> list[tuple[int, ...]]:
    """The ids of the prompts in `data`, each in the text of `template`.

    `content` holds the bytes of `tokenizer.json`. A prompt without a token has no ids.
    """
    tokenizer = tokenizer_of(content)
    texts = (template.around(data.texts(row)[0]) for row in range(len(data)))
    return [
        split_text(tokenizer, text, special_tokens=template.special_tokens, where=data.named(row))
        for row, text in enumerate(texts)
    ]


def cut_facts(
    content: bytes,
    data: Sequences,
    end: int | None,
    templates: Sequence[Template] = (PLAIN,),
    per: PerAnswer = "answer",
) -> list[FactIds]:
    """The ids of the prompts and answers in `data`: of each row, the fact in each of the templates.

    `content` holds the bytes of `tokenizer.json`, and `end` is the id that is put after each answer, if any. `per`: how
    the answers were read, which says whether they change with what is in front of them.
    """
    tokenizer = tokenizer_of(content)
    prompts = [cut_prompts(content, data, template) for template in templates]
    facts = []
    for row in range(len(data)):
        prompt, stated = data.texts(row)
        for number, template in enumerate(templates):
            where = data.named(row) + (f", template {number}" if len(templates) > 1 else "")
            prompt_ids, answer = prompts[number][row], template.answer(prompt, stated, per)
            if not prompt_ids:
                raise DataError(f"{where}: the tokenizer produces no token for the prompt {prompt!r}")
            answer_ids = _answer_ids(tokenizer, prompt_ids, answer, where)
            if not answer_ids:
                raise DataError(f"{where}: the tokenizer produces no token for the answer {answer!r}")
            facts.append(FactIds(prompt_ids, answer_ids if end is None else (*answer_ids, end), row, where, number))
    return facts


def _answer_ids(tokenizer: Any, prompt: tuple[int, ...], answer: str, where: str) -> tuple[int, ...]:
    """The ids that make the text of the ids `prompt` go on with the text `answer`; errors say `where` it is.

    Some tokenizers, such as that of Llama 2, put a space in front of every text, so also of an answer by itself. If the
    ids of the answer alone do not make the text go on with it, it is split behind a line break, which takes the space.
    """

    def split(text: str) -> tuple[int, ...]:
        return split_text(tokenizer, text, special_tokens=False, where=where)

    alone = split(answer)
    if continuation(tokenizer, prompt, alone, special_tokens=True) == answer:
        return alone
    line_break, both = split("\n"), split(f"\n{answer}")
    behind = both[len(line_break) :]
    if both[: len(line_break)] == line_break and continuation(tokenizer, prompt, behind, special_tokens=True) == answer:
        return behind
    return alone


def continuation(tokenizer: Any, prompt: Sequence[int], answer: Sequence[int], *, special_tokens: bool = False) -> str:
    """The text that the ids `answer` add to the text of the ids `prompt`.

    The text of these ids alone may be another one: many tokenizers leave out a space at its beginning.
    `special_tokens`: whether special tokens are part of the text.
    """

    def text(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=not special_tokens))

    before, whole = text(prompt), text([*prompt, *answer])
    return whole.removeprefix(before) if whole.startswith(before) else text(answer)


class TokenNames:
    """What errors and tables call tokens: the text that a token adds behind others, `" city"` for `"Ġcity"`.

    Special tokens, and tokens whose bytes are no text of their own, keep their spelling in `tokenizer.json`.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer. It is loaded when a name is asked for, because most calls end without an error."""
        return tokenizer_of(self._content)

    @cached_property
    def _special(self) -> frozenset[int]:
        """The ids of special tokens."""
        return frozenset(token for token, about in self._tokenizer.get_added_tokens_decoder().items() if about.special)

    def __call__(self, token: int) -> str:
        """The name of the token with this id, not quoted."""
        spelling = self._tokenizer.id_to_token(token)
        if spelling is None:
            return f"id {token}"  # some hosts have more rows than their tokenizer has tokens
        # Behind itself, because many tokenizers leave out a space at the beginning of a text.
        text = "" if token in self._special else continuation(self._tokenizer, [token], [token])
        is_text = text != "" and UNREADABLE not in text
        return text if is_text else str(spelling)
