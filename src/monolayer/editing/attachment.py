"""What an edit needs of a host with facts attached: its neurons as one list, and what the manifest says of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
import torch

from monolayer.arrays import Ints
from monolayer.attaching.again import again
from monolayer.attaching.folder import Attached
from monolayer.attaching.neurons import Neurons
from monolayer.data import Sequences
from monolayer.editing.difference import Content, array_of, tensor_of
from monolayer.editing.texts import TextSubject
from monolayer.errors import DataError
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.manifest import FILE, StoredFact

PARTS = {name: f"appended.{name}" for name in Neurons._fields}
"""Neurons are compared as one list, whatever blocks they stand in."""


@final
@dataclass(frozen=True, eq=False)
class Attachment(TextSubject):
    """A model that `attach` built."""

    model: Attached
    may_change: ClassVar = frozenset({FILE, "layer_types", *(kind.depth for kind in HOSTS.values())})
    way: ClassVar = "attaching {} to this host"
    way_out: ClassVar = (
        "Give all of its facts in the order in which they were attached, with later edits applied; or, if it should "
        "hold only these, attach them to its host again (detach restores it)"
    )

    @cached_property
    def content(self) -> Content:
        """The tensors and settings of the model that edits may change."""
        model = self.model
        dtype = getattr(torch, model.host.dtype)
        parts = zip(PARTS.values(), model.neurons, strict=True)
        tensors = {name: array_of(torch.from_numpy(np.ascontiguousarray(part)).to(dtype)) for name, part in parts}
        attached = model.manifest
        manifest: dict[str, Any] = {
            "radius": attached.radius,
            "own_radii": attached.own_radii,
            "state": attached.state,
            "end": attached.end,
            "templates": [asdict(template) for template in attached.templates],
            "per": attached.per,
            "tensors": dict(attached.tensors),
            "files": dict(attached.files),
        }
        manifest["facts"] = [[fact.prompt, fact.fact, fact.places, fact.number] for fact in attached.facts]
        return Content(tensors, {**model.config, FILE: manifest}, {"appended": dict.fromkeys(PARTS.values(), 0)})

    def with_content(self, content: Content) -> Attachment:
        """The model with these tensors and settings in place of its own."""
        old = self.model
        dtype = getattr(torch, old.host.dtype)
        try:
            parts = [tensor_of(content.tensors[name], dtype).double().numpy() for name in PARTS.values()]
            known = {fact.fact: fact for fact in old.manifest.facts}
            unmeasured = StoredFact("", "", 0, 0)
            facts = tuple(
                replace(known.get(fact, unmeasured), prompt=prompt, fact=fact, places=places, number=number)
                for prompt, fact, places, number in content.config[FILE]["facts"]
            )
            manifest = replace(old.manifest, facts=facts, per=content.config[FILE]["per"], appended={})
            model = replace(old, neurons=Neurons(*parts), manifest=manifest, repeated=0)
            made = Attachment(model, self.names)
            fits = made.content.config == content.config and model.manifest.neurons == len(model.neurons.b_1)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"the record does not lead to a host with facts attached: {error!r}") from None
        if not fits:
            raise DataError("the record does not lead to a host with facts attached")
        return made

    def again(self, data: Sequences, only: Ints | None = None) -> Attachment:
        """The same host with the facts of `data`; neurons of facts that it has already are taken over."""
        return Attachment(again(self.model, data), self.names)
