"""Texts that end with a stored prompt and are another text, such as a prompt behind a sentence or in a longer chat.

No fact answers there, because a prompt is the whole text in front of its answer. A folder stores digests of its prompts
and not their texts, so the ends of a text are tried, each from the beginning of a word on.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from monolayer.huggingface.cutting import split_text, tokenizer_of
from monolayer.huggingface.manifest import Manifest, prompt_digest
from monolayer.huggingface.templates import Template
from monolayer.table import quoted

MOST_WORDS = 256
"""From how many of its last words on the ends of a text are tried."""
CONTEXT = "(a prompt is the whole text in front of its answer)"
_BEGINNING = re.compile(r"(?<!\w)\S|(?<=\W)\w")
"""Where a word, or a sign that is not white space, begins."""


class Endings:
    """Finds the stored prompts of a folder at the ends of other texts."""

    def __init__(self, tokenizer: bytes, manifest: Manifest) -> None:
        self.tokenizer, self.templates = tokenizer_of(tokenizer), manifest.templates
        self.stored: Collection[str] = {fact.prompt for fact in manifest.facts}

    def prompt(self, text: str) -> str | None:
        """The longest stored prompt that `text` ends with, but for white space behind it; None if there is none."""
        for whole in dict.fromkeys((text, text.rstrip())):
            # Of a text that stands in a template, the prompt in it is named, and not the text with what is behind it.
            for template in sorted(self.templates, key=lambda each: -len(each.behind)):
                if whole.endswith(template.behind):
                    ending = self._ending(whole.removesuffix(template.behind), template)
                    if ending is not None:
                        return ending
        return None

    def note(self, text: str) -> str | None:
        """What to tell somebody who asked for `text`, for which no fact is stored; None if it ends with no prompt."""
        prompt = self.prompt(text)
        return (
            None if prompt is None else f"ends with the stored prompt {quoted(prompt)}, but is another text {CONTEXT}"
        )

    def _ending(self, text: str, template: Template) -> str | None:
        starts = [match.start() for match in _BEGINNING.finditer(text)]
        for start in starts[-MOST_WORDS:]:
            prompt = text[start:]
            ids = split_text(
                self.tokenizer, template.around(prompt), special_tokens=template.special_tokens, where="the text"
            )
            if prompt_digest(ids) in self.stored:
                return prompt
        return None


__all__ = ["Endings"]
