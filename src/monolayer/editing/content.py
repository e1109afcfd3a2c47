"""All that the files of a model hold, as arrays and JSON: what an edit compares, and what a record is bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from monolayer.editing.difference import Block, Tensors, same

REFUSED = object()
"""Stands for an answer where a token of the sequence is unknown to the model."""
UNHASHED = ("summary",)
"""What the builder measured: an edited model has no summary, and is the same model with one."""


@dataclass(frozen=True, eq=False)
class Content:
    """`tensors`, `config` as JSON, lists of `names`; `blocks`: which tensors hold neurons."""

    tensors: Tensors
    config: Mapping[str, Any]
    names: Mapping[str, list[Any]]
    blocks: Mapping[str, Block]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything but the summary."""
        found = hashlib.sha256()
        said = {key: value for key, value in self.config.items() if key not in UNHASHED}
        found.update(json.dumps([said, dict(self.names)], sort_keys=True, ensure_ascii=True).encode())
        for name in sorted(self.tensors):
            array = np.ascontiguousarray(self.tensors[name])
            found.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
            found.update(array.view(np.uint8).data if array.size else b"")
        return found.hexdigest()

    def differing(self, other: Content) -> list[str]:
        """Tensors that are not the same bits, and keys of the configuration that differ; the summary aside."""
        tensors = sorted({*self.tensors, *other.tensors})
        found = [name for name in tensors if not same(self.tensors.get(name), other.tensors.get(name))]
        keys = sorted({*self.config, *other.config} - set(UNHASHED))
        found += [key for key in keys if self.config.get(key) != other.config.get(key)]
        return found + ([] if self.names == other.names else ["names"])


def config_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Keys whose values differ, with their values `before` and `after`, as far as they have any."""
    sides = (("before", old), ("after", new))
    found = {key: {side: config[key] for side, config in sides if key in config} for key in sorted({*old, *new})}
    return {key: values for key, values in found.items() if len(values) == 1 or values["before"] != values["after"]}
