"""The templates that facts are attached in: given ones, and those of the folder's chat template.

A chat template is a program. It is run once with a word in place of the user's message, and the text around that word
is the template. Every prompt is then compared with what the program makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from monolayer.data import Sequences
from monolayer.errors import DataError, needs_extra
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.templates import PLAIN, PROMPT, Template, each_template_once, given_templates
from monolayer.table import quoted

MARK = "monolayer-prompt"
"""The user's message in a chat whose text is made into a template."""
TODAY = "strftime_now"
"""What chat templates call to write the date of today."""


class Forms(NamedTuple):
    """All templates of facts and, for those that the chat template made, the system message; None for no message."""

    all: tuple[Template, ...]
    systems: Mapping[Template, str | None]


def their_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder as transformers load it."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise needs_extra("attaching facts runs the host in transformers", "stock") from None
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # of files with unusual values it raises whatever it comes across
        first = str(error).strip().partition("\n")[0]
        raise DataError(f"the tokenizer of {folder} cannot be loaded by transformers: {first}") from None


def wanted_forms(tokenizer: Any, templates: object, chat: object, special_tokens: bool) -> Forms:
    """The templates that a caller asks for: `templates` as text, and those of `chat` (`attach`)."""
    given = () if templates is None else given_templates(templates, special_tokens)
    systems = _chats(tokenizer, chat)
    forms = each_template_once([*given, *systems])
    return Forms(forms or (Template(PLAIN.text, special_tokens),), systems)


def _chats(tokenizer: Any, chat: object) -> dict[Template, str | None]:
    """The templates that `chat` asks for, each with its system message."""
    if chat is False or chat is None:
        return {}
    if chat is True:
        usual = _chat_template(tokenizer, None)
        empty = _chat_template(tokenizer, "", refused_is_none=True)
        # With an empty message the text is shorter only where the template writes a message of its own.
        own_message = empty is not None and usual is not None and len(empty.text) < len(usual.text)
        return {each: system for each, system in ((usual, None), (empty if own_message else None, "")) if each}
    if isinstance(chat, str) or not isinstance(chat, Iterable):
        raise DataError(f"chat is True, or a list of system messages, not {chat!r}")
    chats: dict[Template, str | None] = {}
    for number, system in enumerate(chat):
        if not isinstance(system, str):
            raise DataError(f"chat is a list of system messages, and number {number} of it is {system!r}")
        template = _chat_template(tokenizer, system)
        if template is not None:
            chats.setdefault(template, system)
    if not chats:
        raise DataError("chat is an empty list of system messages: give True, or at least one")
    return chats


def _chat_template(tokenizer: Any, system: str | None, *, refused_is_none: bool = False) -> Template | None:
    """The text of a chat of one message with this system message, as a template.

    `refused_is_none`: None if the chat template takes no system message, instead of an error.
    """
    source = tokenizer.chat_template
    if source is None:
        raise DataError(
            "the folder has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): leave "
            f"chat out, or give the text of a chat as templates=, with {PROMPT} in it"
        )
    if TODAY in str(source):
        raise DataError(
            f"the chat template of this folder writes the date of today ({TODAY}), so facts would answer today only: "
            f"give the text of a chat as templates=, with {PROMPT} in it, and special_tokens=False"
        )
    try:
        text = rendered(tokenizer, system, MARK)
    except Exception as error:  # a template is a program, and may raise anything
        if refused_is_none:
            return None
        raise DataError(f"the chat template of this folder cannot be used: {error}") from None
    if text.count(MARK) != 1 or PROMPT in text:
        raise DataError(
            f"the chat template of this folder writes the user's message {text.count(MARK)} times, and must write it "
            f"once and no {PROMPT}: {quoted(text)}"
        )
    return Template(text.replace(MARK, PROMPT), special_tokens=False)


def rendered(tokenizer: Any, system: str | None, prompt: str) -> str:
    """The text of a chat that a user begins with `prompt`, up to where the assistant answers."""
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": prompt})
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def check_split(tokenizer: Any, data: Sequences, facts: Sequence[FactIds], forms: Forms) -> None:
    """Raise a `DataError` if transformers make other ids of a prompt than tokenizer.json and the templates do.

    They also read tokenizer_config.json, which may change how prompts are split.
    """
    for number, template in enumerate(forms.all):
        of_template = [fact for fact in facts if fact.template == number]
        prompts = [data.texts(fact.row)[0] for fact in of_template]
        texts = [template.around(prompt) for prompt in prompts]
        if template in forms.systems:
            for fact, prompt, text in zip(of_template, prompts, texts, strict=True):
                chat = rendered(tokenizer, forms.systems[template], prompt)
                if chat != text:
                    raise DataError(
                        f"{fact.where}: the chat template makes {quoted(chat)} of the prompt {prompt!r}, and changes "
                        "the prompt by that: give it as the template leaves it, without white space around it"
                    )
        split = tokenizer(texts, add_special_tokens=template.special_tokens)["input_ids"]
        for prompt, ids, fact in zip(prompts, split, of_template, strict=True):
            if tuple(ids) != fact.prompt:
                raise DataError(
                    f"{fact.where}: transformers split the prompt {prompt!r} into {len(ids):,} tokens, and "
                    f"tokenizer.json into {len(fact.prompt):,}: save the tokenizer again (save_pretrained), so that "
                    "both say the same"
                )
