"""Loading: from an opened folder (`opened.py`) to a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.data import Names
from monolayer.errors import DataError, ModelFileError
from monolayer.model.card import Card, Grid, Summary
from monolayer.model.device import check_device
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.opened import open_folder, read_tensors, shards
from monolayer.model.quantizer import Quantizer
from monolayer.model.readouts import READOUTS
from monolayer.model.schema import MEMORY, Config, check_names, check_tensors, parse
from monolayer.model.sharded import INDEX, join, split_block
from monolayer.model.sharded import Tensors as Arrays
from monolayer.model.sidecar import read_memory
from monolayer.model.uniform import Uniform


def load(folder: str | os.PathLike[str], *, device: torch.device | str | None = None) -> Monolayer | Uniform:
    """The model in `folder`; a truncated, foreign, changed or newer one is a `ModelFileError` that says so."""
    check_device(device)
    model: Monolayer | Uniform
    try:
        config, names, files = open_folder(Path(folder))
        tensors = read_tensors(config, names, files)
        if config["kind"] == "interpolator":
            model = Uniform.stored(config, tensors)
        else:
            model = _finish(config, names, tensors, files)
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None
    return model if device is None else model.to(device)


def load_monolayer(model: Any) -> Monolayer:
    """A model, or the one in a folder, for what asks about facts or steps, which a network for a function lacks."""
    found = model if isinstance(model, Monolayer | Uniform) else load(model)
    if isinstance(found, Uniform):
        raise DataError(
            "this is a network for the maximum norm: it holds a function, not facts or steps. predict, inspect and "
            "verify take it (docs/uniform.md)"
        )
    return found


def parts_of(folder: Path) -> tuple[Monolayer, list[Arrays], Tensor] | None:
    """Of a model whose first staircase lies in several files: the model with the first part of it alone, all
    parts, and the `bias_2` behind them; None for other models."""
    try:
        config, names, files = open_folder(folder)
        if INDEX not in files:
            return None
        block = split_block(config["readout"])
        first, parts = join(parse(INDEX, files[INDEX]), shards(files), block)
        found = {name: (tuple(value.shape), str(value.dtype)) for name, value in (first | parts[0]).items()}
        for key, value in parts[0].items():
            found[key] = (*value.shape[:-1], sum(part[key].shape[-1] for part in parts)), str(value.dtype)
        check_tensors(config, names, found)
        held = {name: torch.from_numpy(value.copy()) for name, value in (first | parts[0]).items()}
        if config["target"] == "reals":  # behind the last step of a part stands the first label of the next
            right = [part[f"{block}.weight_2"][:, :1] for part in parts[1:]]
            label = torch.from_numpy(np.concatenate([held[f"{block}.weight_2"], *right], axis=1))
            held[f"{block}.weight_2"] = label[:, : len(held[f"{block}.weight_1"]) + 1].contiguous()
        return _finish(config, names, held, files), parts, held[f"{block}.bias_2"]
    except ModelFileError as error:
        raise ModelFileError(f"{folder}: {error}") from None


def _finish(
    config: Config, names: dict[str, list[Any]], tensors: dict[str, Tensor], files: dict[str, Any]
) -> Monolayer:
    model = _build(config, names, tensors)
    if MEMORY in files:
        model.card = read_memory(model.card, files[MEMORY])
    return model


def model_from(config: Config, names: dict[str, list[Any]], tensors: dict[str, Tensor]) -> Monolayer:
    """The model of a config, its lists of names and its tensors, if these fit together."""
    found = {name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for name, tensor in tensors.items()}
    check_names(config, names)
    check_tensors(config, names, found)
    return _build(config, names, tensors)


def _build(config: dict[str, Any], names: dict[str, list[Any]], tensors: dict[str, Tensor]) -> Monolayer:
    def layer(prefix: str) -> nn.Linear:
        return linear(tensors[f"{prefix}.weight"], tensors[f"{prefix}.bias"])

    def table(prefix: str) -> nn.Embedding:
        return embedding(tensors[f"{prefix}.weight"])

    def block(prefix: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        one, two, three, four = (tensors[f"{prefix}.{name}"] for name in ("weight_1", "bias_1", "weight_2", "bias_2"))
        return one, two, three, four

    grid = config["grid"]
    card = Card(
        vocabulary=_names(config["vocabulary"], names),
        classes=_names(config["classes"], names),
        per=config["per"],
        scalar=config["scalar"],
        causal=config["causal"],
        next_token=config["next_token"],
        kind=config["kind"],
        grid=None if grid is None else Grid(**grid),
        summary=None if config["summary"] is None else Summary.from_json(config["summary"]),
        draw=config["draw"],
    )
    four = (tensors[f"attention.{name}"] for name in ("W_Q", "W_K", "W_V", "W_O"))
    readout, attention = READOUTS[config["readout"]]
    return Monolayer(
        table("lift") if config["tokens"] == "ids" else layer("lift"),
        table("positions") if config["positions"] else None,
        tensors["bos"],
        attention(*four),
        readout.stored(config, block),
        layer("head"),
        card,
        None if grid is None else Quantizer(*block("quantizer")),
    )


def _names(entry: dict[str, Any] | None, lists: dict[str, list[Any]]) -> Names | None:
    if entry is None:
        return None
    return Names(range(entry["range"])) if "range" in entry else Names(tuple(lists[entry["names"]]))
