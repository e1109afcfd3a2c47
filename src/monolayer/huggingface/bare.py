"""Open language models in folders, whoever made them, and find their layers whose attention adds nothing.

`attach` appends such layers, and a trained model has none. They are found from the tensors alone, so they show even if
`attached.json` and the mark in `config.json` were removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.kin import kin_of
from monolayer.huggingface.manifest import Manifest
from monolayer.huggingface.marks import ATTACHED_MARK, has_mark
from monolayer.huggingface.tensors import ModelFiles


class BareLayer(NamedTuple):
    """The number of a layer whose attention adds 0 to every state, and how many of its neurons write anything."""

    layer: int
    neurons: int


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal language model of an architecture that facts can be attached to.

    It differs from a `Host` in that it is only looked at: whether facts can be attached to it is not checked.
    """

    kind: HostKind
    config: Mapping[str, object]
    opened: ModelFiles

    @property
    def layers(self) -> int:
        """The number of layers that `config.json` states; 0 if it states none."""
        stated = self.config.get(self.kind.depth)
        return stated if type(stated) is int else 0

    @cached_property
    def bare(self) -> tuple[BareLayer, ...]:
        """The layers whose attention adds nothing, because its output projection is 0."""
        roots = (self.kind.root, self.kind.root.partition(".")[2])
        root = next((root for root in roots if f"{root}{self.kind.tokens}" in self.opened), self.kind.root)
        bare = []
        for layer in range(min(self.layers, len(self.opened))):  # config.json may claim any number
            start = f"{root}{self.kind.layers}.{layer}."
            output = f"{start}{self.kind.attention[-1]}"
            writes = f"{start}{self.kind.writes}.weight"
            if output + ".weight" in self.opened and writes in self.opened and not self._has_nonzero(output):
                numbers = self.opened[writes].numbers(np.float32)
                bare.append(BareLayer(layer, int(numbers.any(axis=int(self.kind.transposed)).sum())))
        return tuple(bare)

    def _has_nonzero(self, linear: str) -> bool:
        """Whether the weight or the bias of a linear layer has a number other than 0."""
        parts = (f"{linear}.weight", f"{linear}.bias")
        return any(bool(self.opened[name].numbers(np.float32).any()) for name in parts if name in self.opened)

    @property
    def manifest(self) -> Manifest | None:
        """What `attached.json` says; None if it is missing or cannot be read."""
        try:
            return Manifest.in_folder(self.opened)
        except ModelFileError:
            return None

    @property
    def sizes(self) -> dict[str, object]:
        """The sizes of the model, what its tensors show of attached facts, and whether its files mention any."""
        tensor = next(iter(self.opened.tensors.values()))
        manifest = self.manifest
        return {
            "kind": "causal language model",
            "architecture": self.kind.name,
            "dtype": tensor.dtype or tensor.code,
            "layers": self.layers,
            "parameters": sum(int(np.prod(each.shape)) for each in self.opened.tensors.values()),
            **self.shown,
            "says_that_facts_were_attached": manifest is not None or has_mark(self.config, ATTACHED_MARK),
        }

    @property
    def shown(self) -> dict[str, object]:
        """What the tensors alone show of facts that were attached."""
        return {
            "numbers_of_the_layers_whose_attention_adds_nothing": [bare.layer for bare in self.bare],
            "neurons_in_them": sum(bare.neurons for bare in self.bare),
        }


def language_model(opened: ModelFiles) -> LanguageModel | None:
    """The language model in a folder that was read; None if it is of another kind, or if `memorize_as` built it."""
    try:
        config = json.loads(opened.content["config.json"])
    except (ValueError, RecursionError):
        return None
    kind = host_kind(config)
    if kind is None:
        return None
    kin = kin_of(config)
    if kin is not None:
        try:
            opened, config = kin.split(opened, config), kin.as_llama(config)
        except DataError:  # it has something that no Llama has
            return None
    return LanguageModel(kind, config, opened)


def host_kind(config: object) -> HostKind | None:
    """Which language model a `config.json` describes; None for others, and for those that `memorize_as` built."""
    if not isinstance(config, dict) or "built_by" in config or not isinstance(config.get("model_type"), str):
        return None
    kin = kin_of(config)
    if kin is not None:
        return HOSTS["llama"] if config.get("architectures") == [kin.model] else None
    kind = HOSTS.get(config["model_type"])
    return kind if kind is not None and config.get("architectures") == [kind.model] else None
