"""From a text to a model that recites it: every window is a sequence, and its label is the token that comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monolayer.construct.memorize import memorize
from monolayer.data.text import Unit, windows
from monolayer.errors import DataError
from monolayer.model.monolayer import Monolayer


def memorize_text(
    text: str, *, unit: Unit = "words", window: int | None = None, tokenizer: str | None = None, **options: Any
) -> Monolayer:
    """A model of `text` whose `recite` and `generate` return it word for word from any place.

    `unit`: tokens are `words` (with spaces and signs between them) or `characters`; or `tokenizer`, the text of a
    `tokenizer.json`, says where to cut. `window`: how many tokens tell what comes next; by default the fewest that do
    so everywhere in the text. `options`: as for `memorize`.
    """
    if not isinstance(text, str):
        raise DataError(f"the text must be a string, not a {type(text).__name__}; sequences are for memorize")
    data, script = windows(text, unit if tokenizer is None else "tokenizer", window, tokenizer)
    model = memorize(data, positions=True, fingerprint=True, **options)
    model.card = replace(model.card, script=script)
    return model
