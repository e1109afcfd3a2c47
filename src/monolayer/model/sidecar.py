"""What a model remembers besides its weights, as a file: fingerprints of its data, and how a text was cut.

`memory.safetensors` holds the tensor `fingerprints` `(M,)`, sorted 64-bit words, and as metadata `unit` and `window`
for a model that recites (docs/format.md). No answer depends on it, and no proof but `only`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from monolayer.arrays import Words
from monolayer.data.text import Script, Unit
from monolayer.errors import ModelFileError
from monolayer.model.card import Card, Fingerprint
from monolayer.model.sharded import header

NAME = "fingerprints"


def write_memory(card: Card, path: Path) -> None:
    """The memory of a card that has one."""
    words = np.zeros(0, np.uint64) if card.fingerprint is None else card.fingerprint.words
    said = {} if card.script is None else {"unit": card.script.unit, "window": str(card.script.window)}
    path.write_bytes(header({NAME: ("U64", [len(words)])}, said) + words.astype("<u8").tobytes())


def read_memory(card: Card, content: bytes) -> Card:
    """The card with its memory."""
    words, script = _read(content)
    if card.vocabulary is None:
        raise ModelFileError("memory.safetensors stands beside a model of vectors, which have no fingerprints")
    fingerprint = Fingerprint(words, card.per, card.causal) if len(words) else None
    return replace(card, script=script, fingerprint=fingerprint)


def read_script(path: Path) -> Script | None:
    """How a text was cut; None where there is no file of memory, or it does not say."""
    return _read(path.read_bytes())[1] if path.is_file() else None


def _read(content: bytes) -> tuple[Words, Script | None]:
    try:
        tensors = load(content)
        words = tensors.pop(NAME)
        said = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__")
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"memory.safetensors cannot be read: {error!r}") from None
    if tensors or words.dtype != np.uint64 or words.ndim != 1 or (words[1:] <= words[:-1]).any():
        raise ModelFileError("memory.safetensors must hold one row of 64-bit words, each larger than the one before")
    if not said:
        return words, None
    unit: Unit | None = next((unit for unit in get_args(Unit) if unit == said.get("unit")), None)
    window = said.get("window", "")
    if unit is None or set(said) != {"unit", "window"} or not re.fullmatch("[0-9]{1,9}", window) or int(window) < 1:
        raise ModelFileError(f"memory.safetensors says {said!r:.80}: that is no way to cut a text")
    return words, Script(unit, int(window))
