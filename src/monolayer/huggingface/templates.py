"""Templates: the texts in which the prompts of attached facts stand, such as the turns of a chat.

A fact answers behind one text, token by token. So that it also answers in a chat, or behind `Question: `, it is stored
once per template: `"Q: {prompt}\\nA:"` makes the text `"Q: Where is Oz?\\nA:"` of the prompt `"Where is Oz?"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from monolayer.data.choices import PerAnswer
from monolayer.data.labelling import LABELLINGS
from monolayer.data.prompts import as_generated
from monolayer.errors import DataError
from monolayer.table import quoted

PROMPT = "{prompt}"
"""What stands in a template for the prompt. Other braces are braces."""


@dataclass(frozen=True)
class Template:
    """A text with `{prompt}` in it.

    `special_tokens`: whether its text gets the special tokens that `tokenizer(text)` adds. Chats hold their own.
    """

    text: str = PROMPT
    special_tokens: bool = True

    @property
    def behind(self) -> str:
        """The text between the prompt and the answer."""
        return self.text.partition(PROMPT)[2]

    def around(self, prompt: str) -> str:
        """The text in front of the answer: this template with `prompt` in it."""
        return self.text.replace(PROMPT, prompt, 1)

    def answer(self, prompt: str, answer: str, per: PerAnswer) -> str:
        """The answer as it stands in this template, where `answer` stands right behind the prompt.

        Data hold `" Paris"`, with the space that separates it from a prompt. Behind `"A:"` it is the same, behind a
        line break it is `"Paris"`. `per`: with `continuation`, answers are taken as they are.
        """
        bare = answer.removeprefix(" ")
        if LABELLINGS[per].verbatim or not self.behind or not bare:
            return answer
        return as_generated(self.around(prompt), bare)

    def stated(self, prompt: str, said: str, per: PerAnswer) -> str:
        """An answer that was given in this template, as it would stand right behind the prompt."""
        return said if LABELLINGS[per].verbatim or not self.behind or not said else as_generated(prompt, said)

    def __str__(self) -> str:
        return repr(self.text) + ("" if self.special_tokens else " without special tokens")


PLAIN = Template()
"""The prompt by itself."""


def given_templates(texts: object, special_tokens: bool) -> tuple[Template, ...]:
    """The templates that a caller gave as text, one or a list, each of them once."""
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Iterable):
        raise DataError(f"templates is a list of texts with {PROMPT} in them, not {texts!r}")
    templates = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"template {number} is a text with {PROMPT} in it, not {text!r}")
        if text.count(PROMPT) != 1:
            raise DataError(
                f"template {number}, {quoted(text)}, has {PROMPT} {text.count(PROMPT)} times: it must stand there once"
            )
        templates.append(Template(text, special_tokens))
    if not templates:
        raise DataError(f'templates is empty: leave it out, or give at least one, such as "{PROMPT}"')
    return each_template_once(templates)


def each_template_once(templates: Sequence[Template]) -> tuple[Template, ...]:
    """The different templates, in the order in which they were given."""
    return tuple(dict.fromkeys(templates))


def stand_alone(templates: Sequence[Template]) -> bool:
    """Whether prompts stand by themselves, so that there is nothing to say about templates."""
    return [template.text for template in templates] == [PLAIN.text]


def template_words(templates: Sequence[Template]) -> str:
    """The templates in words, by their numbers from 0, in full: what a certificate claims depends on every letter."""
    return "; ".join(f"{number}: {template}" for number, template in enumerate(templates))


def read_templates(said: Any) -> tuple[Template, ...]:
    """The templates in `attached.json`; a `ValueError` if they are not such."""
    templates = tuple(Template(**each) for each in said)
    texts = all(type(each.text) is str and each.text.count(PROMPT) == 1 for each in templates)
    if not templates or not texts or any(type(each.special_tokens) is not bool for each in templates):
        raise ValueError("templates")
    return templates
