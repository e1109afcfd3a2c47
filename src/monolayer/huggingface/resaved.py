"""Which changes that `save_pretrained` of transformers makes to the JSON files of a stock folder are harmless.

People who train, prune or quantize a model save it in this way. transformers then writes defaults that we leave out,
and leaves out keys that it has under another name. The file `resaved.json` lists such keys and values per architecture.
`python tests/write_resaved.py` makes it from the installed transformers. Each row was then compared with the source of
transformers 5: with that value, the configuration or the tokenizer is the same object as without it, alone and together
with all the other rows (tests/test_resaved.py). A value that is in neither table leaves the verdict undecided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from monolayer.data.objects import JsonObject
from monolayer.huggingface.architecture import PAD
from monolayer.huggingface.files import SPECIAL_TOKEN, FolderFacts, padding_side
from monolayer.huggingface.strict import equal

_VERSION = re.compile(r"[1-9][0-9]{0,3}\.[0-9]{1,4}\.[0-9]{1,4}(\.dev0)?")
"""A version of transformers. transformers reads it only to recognize old Mistral tokenizers, which we never write."""
SPECIAL_TOKENS_FILE = "special_tokens_map.json"


@dataclass(frozen=True)
class Harmless:
    """How a JSON file may differ from the one that `memorize_as` writes and still mean the same.

    - `more`: keys that our file lacks, with the values that they may have.
    - `instead`: other values that keys of our file may have.
    - `lacks`: keys of our file that may be missing.
    - `versioned`: whether the file may name a version of transformers.
    """

    more: Mapping[str, Sequence[object]] = field(default_factory=dict)
    instead: Mapping[str, Sequence[object]] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    versioned: bool = False

    def as_written(self, found: JsonObject, ours: JsonObject) -> JsonObject:
        """The file `found`, with all harmless differences from our own file `ours` undone."""
        missing = {key: ours[key] for key in self.lacks if key in ours and key not in found}
        kept = {key: value for key, value in found.items() if key in ours or not self._may_be_added(key, value)}
        for key, values in self.instead.items():
            if key in kept and key in ours and any(equal(kept[key], value) for value in values):
                kept[key] = ours[key]
        return {**kept, **missing}

    def _may_be_added(self, key: str, value: object) -> bool:
        """Whether a key that our file lacks is harmless with this value."""
        if key == "transformers_version":
            return self.versioned and type(value) is str and _VERSION.fullmatch(value) is not None
        return any(equal(value, known) for known in self.more.get(key, ()))


@cache
def resaved_values() -> dict[str, Any]:
    """The content of `resaved.json`."""
    values: dict[str, Any] = json.loads(files("monolayer.huggingface").joinpath("resaved.json").read_text("utf-8"))
    return values


def harmless(facts: FolderFacts) -> dict[str, Harmless]:
    """The harmless differences in each JSON file of a folder with these facts, besides order and white space."""
    config = resaved_values()["config.json"][facts.kind]
    more = dict(config["more"])
    if not facts.labelling.at_tokens and len(facts.classes) > 1:
        # transformers sets this when it computes a loss, which is cross entropy with and without it.
        more["problem_type"] = ["single_label_classification"]
    if facts.architecture.rotates_a_share:
        more["partial_rotary_factor"] = [facts.turned]  # rope_parameters hold the same value and take precedence
    tokenizer = resaved_values()["tokenizer_config.json"]
    added = {str(token["id"]): _flags(token) for token in special_tokens(facts)}
    from_facts: dict[str, list[object]] = {"added_tokens_decoder": [added], "max_length": [facts.room, None]}
    return {
        "config.json": Harmless(more, lacks=frozenset(config["lacks"]), versioned=True),
        "tokenizer_config.json": Harmless({**tokenizer["more"], **from_facts}, tokenizer["instead"]),
        "tokenizer.json": Harmless(instead=_after_a_call(facts)),
        "generation_config.json": Harmless(versioned=True),
    }


def special_tokens(facts: FolderFacts) -> list[JsonObject]:
    """The special tokens as `tokenizer.json` lists them."""
    names = facts.architecture.special.values()
    return [{"id": number, "content": name, **SPECIAL_TOKEN} for number, name in enumerate(names)]


def special_tokens_map(facts: FolderFacts) -> JsonObject:
    """The content that transformers 4 gives `special_tokens_map.json`: the special tokens once more, by their roles."""
    tokens = dict(zip(facts.architecture.special, special_tokens(facts), strict=True))
    return {
        f"{role}_token": {key: value for key, value in _flags(token).items() if key != "special"}
        for role, token in tokens.items()
    }


def _flags(token: JsonObject) -> JsonObject:
    """The entry of a special token without its id."""
    return {key: value for key, value in token.items() if key != "id"}


def _after_a_call(facts: FolderFacts) -> dict[str, list[object]]:
    """The values that a call with `padding=True` or `truncation=True` leaves in a saved `tokenizer.json`.

    They are harmless, because every call in transformers sets both anew. Used as they stand, they pad on the side that
    the folder names, with its mask, and cut texts that are longer than the model has places for.
    """
    padding = {
        "strategy": "BatchLongest",
        "direction": padding_side(facts).title(),
        "pad_to_multiple_of": None,
        "pad_id": PAD,
        "pad_type_id": 0,
        "pad_token": facts.architecture.special["pad"],
    }
    truncation = {"direction": "Right", "max_length": facts.room, "strategy": "LongestFirst", "stride": 0}
    return {"padding": [padding], "truncation": [truncation]}
