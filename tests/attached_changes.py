"""Changes to folders with facts attached, for tests of what the checker finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from monolayer.data.folder import INDEX_FILE
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE
from monolayer.huggingface.tensors import open_folder

ROW = "transformer.h.2.mlp.c_fc.weight", "transformer.h.2.mlp.c_fc.bias", "transformer.h.2.mlp.c_proj.weight"
"""W_1, b_1 and W_2 of the first appended block of the GPT-2 of `tests/hosts.py`; W_1 is stored as (in, out)."""


def retold(folder: Path) -> None:
    """Write the digests that the tensors have now into the manifest: as if attach had written them so."""
    path = folder / FILE
    said, opened = json.loads(path.read_text()), open_folder(folder)
    said["appended"] = {name: opened[name].digest() for name in said["appended"]}
    path.write_text(json.dumps(said))


def changed(file: str, change: Callable[[dict[str, Any]], Any], *, retell: bool = True) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / file)
        change(tensors)
        save_file(tensors, folder / file, metadata={"format": "pt"})
        if retell:
            retold(folder)

    return apply


def set_to(name: str, at: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][at] = value

    return change


def scaled(name: str, at: Any, factor: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][at] *= factor

    return change


def raised(name: str, at: Any, by: float) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][at] += np.float32(by)

    return change


def swapped(name: str, one: int, two: int) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][[one, two]] = tensors[name][[two, one]]

    return change


def config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def replaced(file: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return apply


def retold_host(folder: Path) -> None:
    """As `retold`, with the host's tensors: as if attach had found them so."""
    retold(folder)
    path = folder / FILE
    said, opened = json.loads(path.read_text()), open_folder(folder)
    said["tensors"] = {name: opened[name].digest() for name in said["tensors"]}
    path.write_text(json.dumps(said))


def told(**changes: Any) -> Callable[[Path], None]:
    """Other values in the manifest; a key with two underscores is one of the first fact."""

    def apply(folder: Path) -> None:
        said = json.loads((folder / FILE).read_text())
        said |= {key: value(said[key]) for key, value in changes.items() if not key.startswith("__")}
        said["facts"][0] |= {key[2:]: value for key, value in changes.items() if key.startswith("__")}
        (folder / FILE).write_text(json.dumps(said))

    return apply


def lost(name: str) -> Callable[[Path], None]:
    """A file taken out of the folder and of the manifest."""

    def apply(folder: Path) -> None:
        (folder / name).unlink()
        without: Callable[[Any], Any] = lambda known: {key: said for key, said in known.items() if key != name}  # noqa: E731
        told(files=without, texts=without)(folder)

    return apply


def both(**changes: Any) -> Callable[[Path], None]:
    """The same change to `config.json` and to what the manifest says of the host's: another host altogether."""

    def apply(folder: Path) -> None:
        said = json.loads((folder / FILE).read_text())
        said["config"] = json.dumps({**json.loads(said["config"]), **changes})
        (folder / FILE).write_text(json.dumps(said))
        config(folder, **changes)

    return apply


def one_more(name: str, like: str) -> Callable[[Path], None]:
    """A tensor that the manifest gives to the host."""

    def apply(folder: Path) -> None:
        tensors = load_file(folder / "host.safetensors")
        tensors[name] = np.ones_like(load_file(folder / ATTACHED_WEIGHTS)[like])
        save_file(tensors, folder / "host.safetensors", metadata={"format": "pt"})
        index = json.loads((folder / INDEX_FILE).read_text())
        index["weight_map"][name] = "host.safetensors"
        (folder / INDEX_FILE).write_text(json.dumps(index))
        told(tensors=lambda known: {**known, name: ""})(folder)
        retold_host(folder)

    return apply
