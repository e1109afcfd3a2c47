"""Models of monolayer's own as edits see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.construct.again import Draw, adopted, draw_of, rebuilt
from monolayer.construct.task import Task
from monolayer.data import Sequences
from monolayer.data.sequences import Per
from monolayer.editing.content import REFUSED, Content
from monolayer.editing.difference import array_of
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import Fingerprint
from monolayer.model.load import model_from
from monolayer.model.monolayer import Monolayer
from monolayer.model.save import described

FEW = 1000
"""Tokens that are asked by a dense pass."""
FULL = (torch.float64, torch.float32)
"""Formats in which a dense pass rounds too little to change an answer of a robust model."""
FINGERPRINTS = "fingerprints"
"""Stands for the tensor of what a model was built from, which is no weight."""


@final
@dataclass(frozen=True, eq=False)
class Own:
    """A model that `memorize` built."""

    model: Monolayer

    @property
    def per(self) -> Per:
        return self.model.card.per

    @property
    def ordered(self) -> bool:
        return self.model.positions is not None or self.model.card.causal

    @cached_property
    def _draw(self) -> Draw:
        return draw_of(self.model)

    @property
    def by_token(self) -> bool:
        return self._draw.by_token

    @property
    def only(self) -> bool:
        return self.model.feed_forward.readout not in ("paper", "gates")

    @property
    def may_change(self) -> frozenset[str]:
        return frozenset({"steps", "width", "cascade", "readout", "vocabulary", "classes", "draw", "summary"})

    @cached_property
    def content(self) -> Content:
        config, names = described(self.model)
        del config["format"], config["version"]
        tensors = {name: array_of(part) for name, part in self.model.state_dict().items()}
        if self.model.card.fingerprint is not None:
            tensors[FINGERPRINTS] = self.model.card.fingerprint.words
        prefixes = [name.removesuffix(".weight_1") for name in tensors if name.endswith(".weight_1")]
        axes = {"weight_1": 0, "bias_1": 0, "weight_2": 1}
        blocks = {prefix: {f"{prefix}.{part}": axis for part, axis in axes.items()} for prefix in prefixes}
        return Content(tensors, config, names, blocks)

    def with_content(self, content: Content) -> Own:
        own = self.model.card
        parts = {name: part for name, part in content.tensors.items() if name != FINGERPRINTS}
        short = self.model.bos.dtype == torch.bfloat16
        tensors = {name: torch.from_numpy(np.array(part)) for name, part in parts.items()}
        if short:
            tensors = {name: part.view(torch.bfloat16) for name, part in tensors.items()}
        try:
            model = model_from(dict(content.config), dict(content.names), tensors)
        except (ModelFileError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"the record does not lead to a model: {error}") from None
        words = content.tensors.get(FINGERPRINTS)
        kept = None if own.fingerprint is None or words is None else replace(own.fingerprint, words=words)
        model.card = replace(model.card, script=own.script, fingerprint=kept)
        return Own(model.to(self.model.bos.device))

    def adopt(self, data: Sequences) -> Sequences:
        draw_of(self.model)  # an error where there is none
        return adopted(self.model, data)

    def seen(self, tokens: NDArray[Any]) -> NDArray[Any]:
        return self._draw.seen(tokens)

    def task(self, data: Sequences) -> Task:
        positions = self.model.positions is not None
        return Task.of(data, positions=positions, causal=self.model.card.causal, on_conflict="error")

    def again(self, data: Sequences, only: Ints | None = None) -> Own:
        own, task = self.model.card, self.task(self.adopt(data))
        new = rebuilt(self.model, task, lambda stage, share: None, only)
        if own.fingerprint is not None:
            words = Fingerprint.of(task.data, own.per, positions=task.context.positions, causal=own.causal)
            new.card = replace(new.card, fingerprint=words)
        return Own(new.to(self.model.bos.device))

    def answers(self, data: Sequences) -> list[Any]:
        card = self.model.card
        known = np.ones(len(data), dtype=bool)
        tokens = data.tokens
        if card.vocabulary is not None and data.vocabulary is not None:
            tokens = card.vocabulary.find(data.vocabulary)[tokens]
            table = self.model.lift.weight.detach()[:, 0].isnan().cpu().numpy()
            known[data.sequence[(tokens < 0) | table[np.maximum(tokens, 0)]]] = False
        found: list[Any] = [REFUSED] * (len(data) if card.per == "sequence" else len(tokens))
        rows = np.flatnonzero(known)
        if len(rows):
            part = replace(data, tokens=tokens, vocabulary=card.vocabulary, labels=None).select(rows)
            # For few tokens of a robust model, finding out which neurons matter at which token would take longer.
            few = self.model.feed_forward.readout == "gates" and len(part.tokens) < FEW and self.model.bos.dtype in FULL
            values = card.decode(self.model.labels(self.model.encode(part), path="dense" if few else "auto")).tolist()
            places = rows if card.per == "sequence" else data.flat(rows)
            for place, value in zip(places.tolist(), values, strict=True):
                found[place] = value
        return found
