"""What `config.json` says of the kind of a folder, read without knowing any architecture."""

from __future__ import annotations

import json
from collections.abc import Mapping

from monolayer.data.folder import OpenFolder

ATTACHED_MARK = {"attached_by": "monolayer"}
QUESTIONS_MARK = {"questions_by": "monolayer"}


def said_by_config(opened: OpenFolder) -> object:
    """The content of `config.json` in a folder that is open; None if it is not JSON."""
    try:
        return json.loads(opened.read("config.json"))
    except (ValueError, RecursionError):
        return None


def has_mark(config: object, mark: Mapping[str, object]) -> bool:
    """Whether the content of a `config.json` has this mark."""
    return isinstance(config, dict) and mark.items() <= config.items()


def says_stock(config: object) -> bool:
    """Whether a `config.json` is one of Hugging Face rather than of monolayer, and mentions no attached facts."""
    is_hugging_face = isinstance(config, dict) and "model_type" in config and "format" not in config
    return is_hugging_face and not has_mark(config, ATTACHED_MARK)


__all__ = ["ATTACHED_MARK", "QUESTIONS_MARK", "has_mark", "said_by_config", "says_stock"]
