"""The facts that the JSON files of a stock folder may choose: read one by one, and of the right type.

What else they say follows from these and from the tensors (`expected.py`).
"""

from __future__ import annotations

import re
from typing import Any

from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.expected import Cut
from monolayer.checker.stock.strict import part_of

ROTARY = ("gpt_neox", "starcoder2", "llama")


def names_of(tokenizer: dict[str, Any]) -> tuple[str, ...]:
    table = part_of("tokenizer.json", tokenizer, "model", "vocab")
    numbers: list[Any] = list(table.values()) if isinstance(table, dict) else [None]
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise UnhandledError("model.vocab in tokenizer.json does not number its words from 0 on")
    return tuple(sorted(table, key=table.__getitem__))


def cut_of(words: tuple[str, ...], tokenizer: dict[str, Any]) -> Cut:
    """How texts must be cut to give these words; where both would do, as `tokenizer.json` says."""
    if all(len(word) == 1 for word in words):
        return "characters"
    if not any(re.search(r"\s", word) for word in words):
        return "words"
    return "given" if part_of("tokenizer.json", tokenizer, "pre_tokenizer") is None else "pieces"


def classes_of(config: dict[str, Any]) -> tuple[str, ...]:
    table = part_of("config.json", config, "id2label")
    names: list[Any] = [table.get(str(number)) for number in range(len(table))] if isinstance(table, dict) else []
    if not names or any(type(name) is not str for name in names):
        raise UnhandledError("id2label in config.json does not name classes that are numbered from 0 on")
    if len(set(names)) < len(names):
        raise UnhandledError("config.json gives two classes in id2label the same name")
    return tuple(names)


def epsilon_of(config: dict[str, Any], key: str) -> float:
    value = part_of("config.json", config, key)
    if type(value) is not float or not 0.0 < value <= 1.0:
        raise UnhandledError(f"config.json says {key} = {value!r}; the proofs need a number above 0, up to 1.0")
    return value


def activation_of(config: dict[str, Any], key: str) -> str:
    value = part_of("config.json", config, key)
    if type(value) is not str:
        raise UnhandledError(f"config.json says {key} = {value!r}; the proofs need a name")
    return value


def room_of(config: dict[str, Any]) -> int:
    """Places of an architecture without a table of them: whatever it says, since rotary angles have no end."""
    value = part_of("config.json", config, "max_position_embeddings")
    if type(value) is not int or not 0 < value < 2**31:
        raise UnhandledError(f"config.json says max_position_embeddings = {value!r}")
    return value


def rotary_of(config: dict[str, Any], kind: str, width: int) -> tuple[float, int] | None:
    """Base of the angles, and how many coordinates are turned: all, or two in a GPT-NeoX without positions."""
    if kind not in ROTARY:
        return None
    theta = part_of("config.json", config, "rope_parameters", "rope_theta")
    if type(theta) is not float or not 1e-6 <= theta <= 1e30:
        raise UnhandledError(f"config.json says rope_parameters.rope_theta = {theta!r}")
    if kind != "gpt_neox":
        return theta, width
    share = part_of("config.json", config, "rope_parameters", "partial_rotary_factor")
    if type(share) is not float or share not in (1.0, 2.0 / width):
        raise UnhandledError(f"config.json says rope_parameters.partial_rotary_factor = {share!r}")
    # transformers rounds the product down; 1 is one pair with the angle 1 as well.
    return theta, width if share == 1.0 else 2
