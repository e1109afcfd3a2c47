"""Saving and loading: safetensors for weights, JSON for the rest (docs/format.md). Nothing is ever unpickled.

A folder is written under another name and moved into place at the end, so an interrupted save leaves what
was there before. `config.json` carries the digest of every other file and of itself, so damage is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from monolayer.data import Names
from monolayer.data.aside import share
from monolayer.errors import DataError, ModelFileError
from monolayer.model.attention import RankOneAttention
from monolayer.model.card import Card, Grid, Summary
from monolayer.model.layers import embedding, linear
from monolayer.model.monolayer import Monolayer
from monolayer.model.quantizer import Quantizer
from monolayer.model.staircase import Staircase

VERSION = 1
CONFIG, WEIGHTS, NAMES = "config.json", "model.safetensors", "names.json"


@contextmanager
def new_folder(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A scratch folder that becomes `folder` when the block ends well, and vanishes when it does not."""
    final = check_output(folder, overwrite=overwrite).resolve()  # '.' has no name to make another from
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        yield scratch
        for made in (scratch, *scratch.iterdir()):
            share(made)
        if final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{final.name}.old.", dir=final.parent))
            final.rename(old / final.name)
            scratch.rename(final)
            shutil.rmtree(old)
        else:
            scratch.rename(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_output(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Refuse a folder that exists, unless it is a model that may be replaced."""
    final = Path(folder)
    if final.exists() and not overwrite:
        raise DataError(
            f"{final} exists already: choose another folder, or ask to overwrite it (overwrite=True, --overwrite)"
        )
    if final.exists() and not (final / CONFIG).is_file():
        raise DataError(f"{final} exists and holds no model: overwriting it could lose something, so it stays")
    above = next(parent for parent in final.absolute().parents if parent.exists())
    if not above.is_dir():
        raise DataError(f"{final} cannot be made: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{final} cannot be made: there is no permission to write into {above}")
    return final


def save(model: Monolayer, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write `model` as `folder`, all at once or not at all."""
    names: dict[str, list[Any]] = {}
    card = model.card
    with new_folder(folder, overwrite=overwrite) as scratch:
        tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
        save_file(tensors, scratch / WEIGHTS)
        config = {
            "format": "monolayer",
            "version": VERSION,
            "kind": card.kind,
            "tokens": "ids" if isinstance(model.lift, nn.Embedding) else "vectors",
            "width": model.bos.numel(),
            "labels": len(model.feed_forward.bias_2),
            "steps": len(model.feed_forward.weight_1) // (1 if model.feed_forward.readout == "exact" else 2),
            "per": card.per,
            "target": "reals" if card.classes is None else "classes",
            "scalar": card.scalar,
            "readout": model.feed_forward.readout,
            "causal": card.causal,
            "next_token": card.next_token,
            "positions": model.positions is not None,
            "dtype": str(model.bos.dtype).removeprefix("torch."),
            "vocabulary": _names_to_json("vocabulary", card.vocabulary, names),
            "classes": _names_to_json("classes", card.classes, names),
            "grid": card.grid_json(),
            "summary": card.summary_json(),
        }
        if names:
            (scratch / NAMES).write_bytes(_utf8(names))
        config["files"] = {path.name: _sha256(path) for path in sorted(scratch.iterdir())}
        config["digest"] = _config_digest(config)
        (scratch / CONFIG).write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return Path(folder)


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
    if config.get("digest") != _config_digest(config):
        raise ModelFileError(f"{folder / CONFIG} was changed after it was written: its digest does not match")
    for name, digest in config["files"].items():
        path = folder / name
        if not path.is_file():
            raise ModelFileError(f"{path} is missing")
        if _sha256(path) != digest:
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
        summary=None if summary is None else Summary(**summary),
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


def _names_to_json(key: str, names: Names | None, lists: dict[str, list[Any]]) -> dict[str, Any] | None:
    if names is None:
        return None
    if names.identity:
        return {"range": len(names)}
    lists[key] = list(names.names)
    return {"names": key}


def _names_from_json(entry: dict[str, Any] | None, lists: dict[str, Any]) -> Names | None:
    if entry is None:
        return None
    return Names(range(entry["range"])) if "range" in entry else Names(tuple(lists[entry["names"]]))


def _utf8(value: Any) -> bytes:
    """JSON with characters as they are; half of a surrogate pair is no character, and then all are escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON: {error}") from None


def _config_digest(config: dict[str, Any]) -> str:
    rest = {key: value for key, value in config.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
