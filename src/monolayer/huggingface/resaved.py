"""What `save_pretrained` of transformers makes of the JSON files of a stock folder, where that changes nothing.

Everybody who trains, prunes or quantizes a model saves it so. transformers then writes defaults that we leave out, and
leaves out keys that it has under another name. The file `resaved.json` holds such keys and values, per architecture.
`python tests/write_resaved.py` makes it from the transformers that is installed; each row was then held against the
source of transformers 5: for that value the configuration or the tokenizer is the same object as without it, alone and
together with all the others (tests/test_resaved.py). What is in neither table is undecided.
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
"""transformers reads a version to tell old Mistral tokenizers, which no architecture of ours has; it must be one."""
SPECIAL_TOKENS_FILE = "special_tokens_map.json"


@dataclass(frozen=True)
class Harmless:
    """How a JSON file may differ from the one that `memorize_as` writes, and mean the same.

    `more`: keys that ours lacks, with the values that they may have. `instead`: other values of keys that ours has.
    `lacks`: keys that may be missing. `versioned`: whether the file may name a version of transformers.
    """

    more: Mapping[str, Sequence[object]] = field(default_factory=dict)
    instead: Mapping[str, Sequence[object]] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    versioned: bool = False

    def as_written(self, found: JsonObject, ours: JsonObject) -> JsonObject:
        """`found` without the differences from `ours` that mean nothing."""
        missing = {key: ours[key] for key in self.lacks if key in ours and key not in found}
        kept = {key: value for key, value in found.items() if key in ours or not self._may_be_added(key, value)}
        for key, values in self.instead.items():
            if key in kept and key in ours and any(equal(kept[key], value) for value in values):
                kept[key] = ours[key]
        return {**kept, **missing}

    def _may_be_added(self, key: str, value: object) -> bool:
        if key == "transformers_version":
            return self.versioned and type(value) is str and _VERSION.fullmatch(value) is not None
        return any(equal(value, known) for known in self.more.get(key, ()))


@cache
def resaved_values() -> dict[str, Any]:
    """What `resaved.json` holds."""
    found: dict[str, Any] = json.loads(files("monolayer.huggingface").joinpath("resaved.json").read_text("utf-8"))
    return found


def harmless(facts: FolderFacts) -> dict[str, Harmless]:
    """What may differ in each JSON file of a folder with these facts, besides order and white space."""
    config = resaved_values()["config.json"][facts.kind]
    more = dict(config["more"])
    if facts.task == "sequence" and len(facts.classes) > 1:
        more["problem_type"] = ["single_label_classification"]  # a loss was computed: it is cross entropy, as without
    if facts.kind == "gpt_neox":
        more["partial_rotary_factor"] = [facts.turned]  # rope_parameters have it, and come first
    tokenizer = resaved_values()["tokenizer_config.json"]
    added = {str(token["id"]): _flags(token) for token in special_tokens(facts)}
    from_facts: dict[str, list[object]] = {"added_tokens_decoder": [added], "max_length": [facts.room, None]}
    return {
        "config.json": Harmless(more, lacks=frozenset(config["lacks"]), versioned=True),
        "tokenizer_config.json": Harmless({**tokenizer["more"], **from_facts}, tokenizer["instead"]),
        "tokenizer.json": Harmless(instead=_used(facts)),
        "generation_config.json": Harmless(versioned=True),
    }


def special_tokens(facts: FolderFacts) -> list[JsonObject]:
    """The special tokens as `tokenizer.json` lists them."""
    names = facts.architecture.special.values()
    return [{"id": number, "content": name, **SPECIAL_TOKEN} for number, name in enumerate(names)]


def special_tokens_map(facts: FolderFacts) -> JsonObject:
    """What transformers 4 writes to `special_tokens_map.json`: the special tokens once more, by their parts."""
    tokens = dict(zip(facts.architecture.special, special_tokens(facts), strict=True))
    return {
        f"{part}_token": {key: value for key, value in _flags(token).items() if key != "special"}
        for part, token in tokens.items()
    }


def _flags(token: JsonObject) -> JsonObject:
    """A special token without its id."""
    return {key: value for key, value in token.items() if key != "id"}


def _used(facts: FolderFacts) -> dict[str, list[object]]:
    """What `tokenizer.json` holds of the last call of a tokenizer with `padding=True` or `truncation=True`.

    Every call of transformers sets both anew. As they stand, they pad on the side that the folder names, with its
    mask, and cut texts that are longer than the model has places for.
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
