"""Loading: the folder that `save` wrote, after its digests have been checked. Nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from monolayer.data import Names
from monolayer.errors import ModelFileError
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card, Grid, Summary
from monolayer.model.folder import CONFIG
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.quantizer import Quantizer
from monolayer.model.save import NAMES, VERSION, WEIGHTS, config_digest, file_digest
from monolayer.model.staircase import Staircase


def load(folder: str | os.PathLike[str], *, device: torch.device | str | None = None) -> Monolayer:
    """The model in `folder`; a truncated, foreign, changed or newer one is a `ModelFileError` that says so."""
    folder = Path(folder)
    config = read_config(folder)
    names = _read_json(folder / NAMES) if NAMES in config["files"] else {}
    try:
        tensors = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{folder / WEIGHTS} cannot be read as safetensors: {error}") from None
    try:
        model = _build(config, names, tensors)
    except (KeyError, TypeError, RuntimeError, IndexError) as error:
        raise ModelFileError(f"{folder} lacks a part that its config.json promises: {error}") from None
    return model if device is None else model.to(device)


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json`, after its version, its own digest and those of the files beside it have been checked."""
    if not folder.exists():
        raise ModelFileError(f"{folder} does not exist")
    if not (folder / CONFIG).is_file():
        raise ModelFileError(f"{folder} is no saved model: it has no {CONFIG}")
    config = _read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("format") != "monolayer":
        raise ModelFileError(f"{folder / CONFIG} was not written by monolayer")
    version = config.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(
            f"{folder} has format version {version}, and this monolayer reads up to {VERSION}: update monolayer"
        )
    if version < 2 and config.get("readout") == "runs":
        raise ModelFileError(f"{folder / CONFIG} has format version {version}, which knows no readout 'runs'")
    if config.get("digest") != config_digest(config):
        raise ModelFileError(f"{folder / CONFIG} was changed after it was written: its digest does not match")
    for name, digest in config["files"].items():
        path = folder / name
        if not path.is_file():
            raise ModelFileError(f"{path} is missing")
        if file_digest(path) != digest:
            raise ModelFileError(f"{path} is truncated or was changed after it was written: its digest does not match")
    return config


def _build(config: dict[str, Any], names: dict[str, Any], tensors: dict[str, Tensor]) -> Monolayer:
    def layer(prefix: str) -> nn.Linear:
        return linear(tensors[f"{prefix}.weight"], tensors[f"{prefix}.bias"])

    def table(prefix: str) -> nn.Embedding:
        return embedding(tensors[f"{prefix}.weight"])

    def block(prefix: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        one, two, three, four = (tensors[f"{prefix}.{name}"] for name in ("weight_1", "bias_1", "weight_2", "bias_2"))
        return one, two, three, four

    summary, grid = config["summary"], config.get("grid")
    card = Card(
        vocabulary=_names_from_json(config["vocabulary"], names),
        classes=_names_from_json(config["classes"], names),
        per=config["per"],
        scalar=config["scalar"],
        causal=config["causal"],
        next_token=config["next_token"],
        kind=config["kind"],
        grid=None if grid is None else Grid(**grid),
        summary=None if summary is None else Summary.from_json(summary),
    )
    attention = RankOneAttention(*(tensors[f"attention.{name}"] for name in ("W_Q", "W_K", "W_V", "W_O")))
    feed_forward = Staircase(*block("feed_forward"), config["readout"])
    return Monolayer(
        table("lift") if config["tokens"] == "ids" else layer("lift"),
        table("positions") if config["positions"] else None,
        tensors["bos"],
        attention,
        feed_forward,
        layer("head"),
        card,
        None if grid is None else Quantizer(*block("quantizer")),
    )


def _names_from_json(entry: dict[str, Any] | None, lists: dict[str, Any]) -> Names | None:
    if entry is None:
        return None
    return Names(range(entry["range"])) if "range" in entry else Names(tuple(lists[entry["names"]]))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON: {error}") from None
