"""A stock folder read back: its facts, its arrays by their letters, and that its files say nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, deserialize

from monolayer.arrays import Floats
from monolayer.data import Names
from monolayer.data.folder import OpenFolder, read_together
from monolayer.data.labels import Belongs
from monolayer.errors import ModelFileError
from monolayer.huggingface.architecture import Architecture, ModelTask
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.files import BUILT_BY, FolderFacts, written
from monolayer.huggingface.hosts import MARK
from monolayer.huggingface.strict import ForeignError, JsonObject, demand_equal, read_json, value_under
from monolayer.huggingface.texts import CUTS, UNIT_OF, TextCut

STORED = {"float64": ("F64", "<f8"), "float32": ("F32", "<f4"), "bfloat16": ("BF16", "<u2"), "float16": ("F16", "<f2")}
"""Types that `config.json` may name, as safetensors and NumPy call them."""
_JSON = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
FILES_READ = (*_JSON, "model.safetensors", "draw.json", "certificate.json")
"""The files of a stock folder that monolayer reads. Some may be missing."""


@dataclass(frozen=True, eq=False)
class Folder:
    """A stock folder: `tensors` by their names and `arrays` by their letters, both in float64; `content`: its files."""

    facts: FolderFacts
    tensors: Mapping[str, Floats]
    arrays: Mapping[str, Floats]
    content: Mapping[str, bytes]

    def digest(self) -> str:
        """SHA-256 of configuration, weights and tokenizer, which determine the other files."""
        parts = (self.content[file] for file in ("config.json", "model.safetensors", "tokenizer.json"))
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@dataclass(frozen=True, eq=False)
class Files:
    """The files of a stock folder that monolayer reads, all out of one save: their bytes, or why there are none.

    `sizes`: everything that lies in the folder, with the sizes of regular files, None for the others.
    """

    folder: Path
    content: Mapping[str, bytes | OSError]
    sizes: Mapping[str, int | None]

    def demand(self, name: str) -> bytes:
        """The bytes of a file that must be there."""
        found = self.content[name]
        if isinstance(found, OSError):
            raise ModelFileError(f"{self.folder / name} cannot be read: {found.strerror}")
        return found

    def object(self, name: str) -> JsonObject:
        """The object in a JSON file that must be there (`read_json`)."""
        return read_json(self.folder / name, self.demand(name))


def is_stock(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has a `config.json` of Hugging Face's kind rather than ours, and no facts attached to it."""
    try:
        return read_together(Path(folder), _says_stock)
    except (OSError, ValueError):
        return False


def stock_files(folder: str | os.PathLike[str]) -> Files | None:
    """The files of a stock folder, read together; None if there is no folder, or it is of another kind."""
    try:
        return read_together(Path(folder), _opened_files)
    except (OSError, ValueError):  # ValueError: NUL or half of a surrogate pair in the path
        return None


def _opened_files(opened: OpenFolder) -> Files | None:
    """The files of an open folder; None if it is not a stock folder."""
    if not _says_stock(opened):
        return None
    return Files(opened.path, {name: opened.attempt(name) for name in FILES_READ}, opened.sizes())


def _says_stock(opened: OpenFolder) -> bool:
    """Whether `config.json` is of Hugging Face's kind."""
    try:
        config = json.loads(opened.read("config.json"))
    except (ValueError, RecursionError):
        return False
    ours = isinstance(config, dict) and "model_type" in config and "format" not in config
    return ours and not MARK.items() <= config.items()


class AskedAs(NamedTuple):
    """How to read data for a folder: names of its tokens, what its labels belong to, and whether it has none.

    `next_token`: its labels are the next tokens of the data.
    """

    names: Names | None
    per: Belongs | None
    next_token: bool = False


def asked_as(files: Files) -> AskedAs:
    """How to read data for a folder; the names are those of its tokens without special ones.

    All are None where `read_folder` would say what is wrong. Whether a language model holds prompts and answers is
    read from draw.json.
    """
    try:
        config, tokenizer = files.object("config.json"), files.object("tokenizer.json")
        kind = ARCHITECTURES[config["model_type"]]
        names = Names(_token_names(tokenizer)[len(kind.special) :], UNIT_OF.get(_text_cut(tokenizer)))
    except (ForeignError, ModelFileError, KeyError, TypeError):
        return AskedAs(None, None)
    task = _task(kind, config)
    if task is None or not BUILT_BY.items() <= config.items():
        return AskedAs(names, None)
    if task != "lm":
        return AskedAs(names, task)
    return AskedAs(names, "answer") if _of_prompts(files) else AskedAs(names, "token", next_token=True)


def _of_prompts(files: Files) -> bool:
    """Whether draw.json says that the folder holds prompts and answers."""
    try:
        return json.loads(files.demand("draw.json")).get("prompts") is True
    except (ModelFileError, ValueError, RecursionError, AttributeError):
        return False


def read_folder(files: Files) -> Folder:
    """The content of a stock folder; files that say anything but what `memorize_as` writes are a `ForeignError`."""
    config = files.object("config.json")
    name = config.get("model_type")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ForeignError(f"the architecture {name!r} is not one of {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[name]
    if not BUILT_BY.items() <= config.items():
        raise ForeignError(
            "monolayer did not write it (config.json lacks built_by), and proofs are about folders of memorize_as; "
            "`monolayer audit` measures what any model answers"
        )
    task = _task(kind, config)
    if task is None:
        raise ForeignError(f"config.json says architectures = {config.get('architectures')!r}")
    beside = ("tokenizer.json", "tokenizer_config.json", *(("generation_config.json",) if task == "lm" else ()))
    content = {file: files.demand(file) for file in ("config.json", "model.safetensors", *beside)}
    said = {"config.json": config, **{file: files.object(file) for file in beside}}
    try:
        tensors = _stored_tensors(content["model.safetensors"], config.get("dtype"))
        arrays = kind.arrays(task, tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SafetensorError) as error:
        raise ModelFileError(f"{files.folder} lacks or garbles a tensor that {name} has: {error!r}") from None
    facts = _folder_facts(said, kind, task, arrays)
    for key, count in (("tokens", len(facts.names)), ("W_H", len(facts.classes))):
        if len(arrays[key]) != count:
            raise ModelFileError(
                f"{files.folder}: {key} has {len(arrays[key]):,} rows, and the files have {count:,} names"
            )
    for file, wanted in written(facts).items():
        demand_equal(file, said[file], wanted)
    return Folder(facts, tensors, arrays, content)


def _task(kind: Architecture, config: JsonObject) -> ModelTask | None:
    """The task of the class that `config.json` names; None if the architecture has no such class."""
    return next((task for task, model in kind.models.items() if config.get("architectures") == [model]), None)


def _stored_tensors(content: bytes, dtype: object) -> dict[str, Floats]:
    """All tensors, widened to float64; each must have the type that `config.json` names, and be finite."""
    if type(dtype) is not str or dtype not in STORED:
        raise ForeignError(f"config.json says dtype = {dtype!r}; the proofs know {', '.join(STORED)}")
    code, plain = STORED[dtype]
    found = {}
    for name, tensor in deserialize(content):  # type: ignore[no-untyped-call]
        if tensor["dtype"] != code:
            other = next((each for each, (stored, _) in STORED.items() if stored == tensor["dtype"]), tensor["dtype"])
            raise ForeignError(f"{name} is {other}, and config.json says {dtype}")
        raw = np.frombuffer(tensor["data"], dtype=plain)
        if dtype == "bfloat16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        found[name] = raw.astype(np.float64).reshape(tensor["shape"])
        if not np.isfinite(found[name]).all():
            raise ForeignError(f"{name} holds a number that is not finite")
    return found


def _folder_facts(
    files: Mapping[str, JsonObject], kind: Architecture, task: ModelTask, arrays: Mapping[str, Floats]
) -> FolderFacts:
    """The facts that files and tensors may choose, each of the right type; the rest of the files follows from them."""
    config, places, width = files["config.json"], arrays.get("places"), arrays["tokens"].shape[1]
    names = _token_names(files["tokenizer.json"])
    rotary = _rotary(config, kind, width)
    return FolderFacts(
        architecture=kind,
        task=task,
        dtype=config["dtype"],
        rotary=rotary,
        width=width,
        neurons=len(arrays["W_1"]),
        room=_said(config, int, range(1, 2**31).__contains__, "max_position_embeddings")
        if places is None  # any number will do, since rotary angles have no end
        else len(places) - kind.offset,
        positions=rotary != kind.still(width)[1] if kind.still else places is not None and bool(places.any()),
        names=names,
        classes=names if task == "lm" else _class_names(config),
        cut=_text_cut(files["tokenizer.json"]),
    )


def _text_cut(tokenizer: JsonObject) -> TextCut:
    """How the tokenizer cuts text; `given` if `memorize_as` did not write this tokenizer."""
    said = value_under("tokenizer.json", tokenizer, "pre_tokenizer")
    return next((cut for cut, how in CUTS.items() if how == said), "given")


def _token_names(tokenizer: JsonObject) -> tuple[str, ...]:
    """The names of all ids, in their order."""
    table = value_under("tokenizer.json", tokenizer, "model", "vocab")
    numbers: list[Any] = list(table.values()) if isinstance(table, dict) else [None]
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ForeignError("model.vocab in tokenizer.json does not number its words from 0 on")
    return tuple(sorted(table, key=table.__getitem__))


def _class_names(config: JsonObject) -> tuple[str, ...]:
    """The names of the classes, in their order."""
    table = value_under("config.json", config, "id2label")
    names: list[Any] = [table.get(str(number)) for number in range(len(table))] if isinstance(table, dict) else []
    if not names or any(type(name) is not str for name in names):
        raise ForeignError("id2label in config.json does not name classes that are numbered from 0 on")
    if len(set(names)) < len(names):
        raise ForeignError("config.json gives two classes in id2label the same name")
    return tuple(names)


def _said(config: JsonObject, kind: type, fits: Callable[[Any], bool], *keys: str) -> Any:
    """The value under these keys, which files may choose: it must have this type and fit what the proofs allow."""
    value = value_under("config.json", config, *keys)
    if type(value) is not kind or not fits(value):
        raise ForeignError(f"config.json says {'.'.join(keys)} = {value!r}, which the proofs do not allow for")
    return value


def _rotary(config: JsonObject, kind: Architecture, width: int) -> tuple[float, int] | None:
    """Base of the angles, and how many coordinates are turned: all, or two in a GPT-NeoX without positions."""
    if kind.still is None:
        return None
    theta = _said(config, float, lambda value: 1e-6 <= value <= 1e30, "rope_parameters", "rope_theta")
    if kind.name != "gpt_neox":
        return theta, width
    shares = (1.0, 2.0 / width)
    share = _said(config, float, lambda value: value in shares, "rope_parameters", "partial_rotary_factor")
    # transformers rounds the product down; 1 is one pair with the angle 1 as well.
    return theta, width if share == 1.0 else 2
