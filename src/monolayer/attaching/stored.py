"""The neurons of a folder with facts attached that lost its `attached.json`: those of given facts of a given host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from monolayer.attaching.folder import Attached, neurons_of_blocks
from monolayer.attaching.neurons import Neurons
from monolayer.errors import DataError
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.host import Host
from monolayer.huggingface.manifest import open_attached
from monolayer.huggingface.rewritten import is_computed, renamed
from monolayer.huggingface.strict import read_json
from monolayer.table import plural


def neurons_in(folder: str | os.PathLike[str], host: Host, count: int) -> Neurons:
    """The `count` neurons in the blocks that were appended to `host` in a folder. A `DataError` if it has others."""
    opened = open_attached(folder)
    blocks = -(-count // host.neurons)
    appended = {host.layer(host.layers + number) + name for number in range(blocks) for name in host.block}
    opened = replace(opened, tensors=renamed(opened.tensors, {*host.tensors, *appended}))
    for name, tensor in host.tensors.items():
        if name not in opened and is_computed(name):
            continue
        if name not in opened or opened[name].digest() != tensor.digest():
            raise DataError(f"{folder} was not made from this host: its tensor {name} is another one")
    layers = read_json(opened.path / "config.json", opened.content["config.json"]).get(host.kind.depth)
    if layers != host.layers + blocks:
        raise DataError(
            f"{folder} has {layers!r} layers, and the host {host.layers} and these facts {plural(blocks, 'block')}: "
            "give all facts that were attached, and only these"
        )
    whole = neurons_of_blocks(host, opened, blocks * host.neurons)
    if whole.W_2[count:].any() or not whole.W_2[:count].any(axis=1).all():
        used = int(whole.W_2.any(axis=1).sum())
        raise DataError(
            f"{folder} holds {plural(used, 'token')} of answers, and these facts have {count:,}: give all facts that "
            "were attached, and only these"
        )
    return Neurons(*(part[:count] for part in whole))


def check_own(made: Attached, facts: Sequence[FactIds]) -> None:
    """Raise a `DataError` that names a fact whose states are not at its keys: its neurons are those of another."""
    for fact, measured in zip(facts, made.manifest.facts, strict=True):
        if measured.fell is None or measured.fell >= 1.0:
            raise DataError(
                f"{fact.where}: the neurons in its place are those of another fact. Give the facts in the order in "
                "which they were attached, with the same templates and options"
            )
