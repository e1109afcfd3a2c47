"""Read the files of a folder that facts were attached to, and refuse anything in them that `attach` does not write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.data.folder import INDEX_FILE
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.host import COPIED, Host, host_of, read_host
from monolayer.huggingface.manifest import FILE, Manifest, open_attached
from monolayer.huggingface.rewritten import is_computed, reconciled
from monolayer.huggingface.settings import check_settings
from monolayer.huggingface.spelling import different_key
from monolayer.huggingface.strict import equal, read_json
from monolayer.huggingface.tensors import ModelFiles
from monolayer.table import plural

BESIDE = frozenset({"README.md", "certificate.json", "training_args.bin", FILE})
"""Files in the folder that transformers do not read."""


@dataclass(frozen=True, eq=False)
class AttachedFolder:
    """A folder that facts were attached to: the host, the manifest, and the neurons of the appended blocks.

    `anew`: files beside the weights that were written anew, and mean the same, or are gone and not needed.
    `digests`: the digest of every tensor in the files. `reads` `(N, D)`, `bias` `(N,)`, `writes` `(N, D)`: as in
    `NeuronRows`.
    """

    host: Host
    opened: ModelFiles
    manifest: Manifest
    anew: Mapping[str, str]
    digests: Mapping[str, str]
    reads: Floats
    bias: Floats
    writes: Floats

    def digest(self) -> str:
        """The digest of configuration, tokenizer and tensors."""
        files = {
            name: hashlib.sha256(self.opened.content[name]).hexdigest() for name in self.opened.content if _small(name)
        }
        digests = json.dumps([files, dict(sorted(self.digests.items()))], sort_keys=True)
        return hashlib.sha256(digests.encode()).hexdigest()

    def changed(self) -> str | None:
        """What was changed in the host after facts were attached, in words; None if nothing was."""
        for name, digest in self.manifest.tensors.items():
            if self.digests[name] != digest:
                return f"the tensor {name} is not the one that facts were attached to"
        for name, digest in self.manifest.files.items():
            if name not in self.anew and hashlib.sha256(self.opened.content[name]).hexdigest() != digest:
                return f"{name} is not the file that lay beside the host"
        return None

    def rewritten(self) -> str | None:
        """The first appended tensor that was changed after every fact was tested, or None."""
        odd = (name for name, digest in self.manifest.appended.items() if self.digests.get(name) != digest)
        return next(odd, None)


def _small(name: str) -> bool:
    """Whether a file counts as configuration or tokenizer in `AttachedFolder.digest`."""
    return not name.endswith(".safetensors") and name not in (FILE, INDEX_FILE)


def read_attached(folder: Path | ModelFiles) -> AttachedFolder:
    """Read `folder`. Raises a `ForeignError` or an `UnhandledError` for anything that `attach` does not write."""
    opened = open_attached(folder)
    beside = set(COPIED) & set(opened.content)
    opened, manifest, rewritten = reconciled(opened, Manifest.in_folder(opened))
    strange = sorted(
        name for name in opened.sizes if name not in {*opened.content, *BESIDE} and not name.startswith(".")
    )
    if strange:
        raise UnhandledError(f"{strange[0]} is in the folder, and transformers may read it: move it elsewhere")
    if INDEX_FILE in opened.content and not _only_sizes(json.loads(opened.content[INDEX_FILE])["metadata"]):
        raise UnhandledError(f"{INDEX_FILE} says more in metadata than sizes, and transformers may use it")
    missing = sorted(set(manifest.tensors) - set(opened))
    if missing:
        raise UnhandledError(f"the host's tensor {missing[0]} is missing")
    gone = sorted(set(manifest.files) - beside - set(rewritten))
    if gone:
        raise UnhandledError(f"{gone[0]}, which lay beside the host, is missing")
    unlisted = sorted(beside - set(manifest.files) - set(rewritten))
    if unlisted:
        raise UnhandledError(f"{unlisted[0]} was not there when facts were attached")
    try:
        config = read_json(Path("config.json"), manifest.config.encode())
        host = host_of(config, {name: opened[name] for name in manifest.tensors})
    except DataError as error:
        raise UnhandledError(f"the host in {FILE}: {error}") from None
    if manifest.end is not None and manifest.end >= host.vocabulary:
        raise UnhandledError(f"the end token is {manifest.end}, and the host has {host.vocabulary:,} tokens")
    blocks = -(-manifest.neurons // host.neurons)
    _check_config(host, read_json(opened.path / "config.json", opened.content["config.json"]), blocks)
    rows = _neuron_rows(host, opened, manifest, blocks)
    digests = {name: opened[name].digest() for name in opened}
    return AttachedFolder(host, opened, manifest, rewritten, digests, *rows)


def _check_config(host: Host, config: JsonObject, blocks: int) -> None:
    """Refuse a `config.json` that describes another model than the host with these blocks."""
    wanted = host.longer_config(blocks)
    if equal(config, wanted):
        return
    try:
        check_settings(host.kind, config)
        formats = [config.get(key, host.dtype) for key in ("dtype", "torch_dtype")]
        odd = next((f"the format {each!r}" for each in formats if each not in (None, host.dtype)), None)
        odd = odd or different_key(host.kind, config, wanted)
    except (DataError, TypeError, AttributeError) as error:
        raise UnhandledError(f"config.json: {error}") from None
    if odd is not None:
        raise UnhandledError(f"config.json says {odd}, as that of the host with {plural(blocks, 'block')} would")


def _only_sizes(metadata: dict[str, object]) -> bool:
    """Whether the metadata of an index hold nothing but sizes. From a `dtype`, transformers would take the format."""
    return metadata.keys() <= {"total_size", "total_parameters"} and all(
        type(size) is int for size in metadata.values()
    )


class NeuronRows(NamedTuple):
    """What the `N` neurons of the appended blocks read `(N, D)`, their biases `(N,)`, and what they write `(N, D)`."""

    reads: Floats
    bias: Floats
    writes: Floats


def _neuron_rows(host: Host, opened: ModelFiles, manifest: Manifest, blocks: int) -> NeuronRows:
    """The rows of all neurons, after checking that every other number of the appended blocks is what it must be."""
    rows: dict[str, list[Floats]] = {"W_1": [], "b_1": [], "W_2": []}
    rest = set(opened) - set(manifest.tensors)
    for number in range(blocks):
        start = host.layer(host.layers + number)
        for name, role in host.block.items():
            numbers = _tensor(opened, start + name, host, host.block_shapes[name])
            rest.discard(start + name)
            if role in ("zeros", "ones"):
                if not (numbers == float(role == "ones")).all():
                    raise UnhandledError(f"{start}{name} holds other numbers than {role}")
            elif role == "b_3":
                used = min(host.neurons, manifest.neurons - number * host.neurons)
                if not ((numbers[:used] == 1.0).all() and not numbers[used:].any()):
                    raise UnhandledError(f"{start}{name} is not 1 for the neurons in use and 0 for others")
            else:
                rows[role].append(numbers.T if host.kind.is_turned(role) else numbers)
    for name, size in host.added_biases.items():
        rest.discard(name)
        if _tensor(opened, name, host, (size,)).any():
            raise UnhandledError(f"{name} is not 0, and the host has no such bias")
    if rest:
        raise UnhandledError(f"the tensor {sorted(rest)[0]} belongs neither to the host nor to an appended block")
    D, count = host.width, manifest.neurons
    none = {"W_1": np.zeros((0, D)), "b_1": np.zeros(0), "W_2": np.zeros((0, D))}
    whole = {role: np.concatenate([none[role], *parts]) for role, parts in rows.items()}
    if any(part[count:].any() for part in whole.values()):
        raise UnhandledError(f"a neuron that {FILE} gives to no fact is not 0")
    return NeuronRows(whole["W_1"][:count], whole["b_1"][:count], whole["W_2"][:count])


def _tensor(opened: ModelFiles, name: str, host: Host, shape: tuple[int, ...]) -> Floats:
    """The numbers of a tensor, which must have this shape and the host's format, and be finite."""
    if name not in opened:
        raise UnhandledError(f"the tensor {name} is missing")
    tensor = opened[name]
    if tensor.shape != shape or tensor.dtype != host.dtype:
        raise UnhandledError(f"{name} is {tensor.dtype} {tensor.shape}, not {host.dtype} {shape}")
    numbers = tensor.numbers()
    if not np.isfinite(numbers).all():
        raise UnhandledError(f"{name} holds a number that is not finite")
    return numbers


def differs_from(attached: AttachedFolder, folder: Path) -> str | None:
    """How the host in `folder` differs from the one that facts were attached to, in words; None if it does not."""
    host, opened = read_host(folder)
    if opened.content["config.json"] != attached.manifest.config.encode():
        return f"config.json of {folder} is not that of the host"
    odd = sorted(set(host.tensors) ^ set(attached.manifest.tensors))
    odd = [name for name in odd if not (name in host.tensors and is_computed(name))]
    if odd:
        return f"only one of the two has the tensor {odd[0]}"
    for name in attached.manifest.tensors:
        tensor, mine = host.tensors[name], attached.opened[name]
        if (tensor.code, tensor.shape) != (mine.code, mine.shape) or tensor.data != mine.data:
            return f"the tensor {name} of {folder} is not that of the host"
    for name in COPIED:
        if name in attached.anew:
            digest = hashlib.sha256(opened.content[name]).hexdigest() if name in opened.content else None
            if digest != attached.manifest.files.get(name):
                return f"{name} of {folder} is not the file that lay beside the weights when facts were attached"
            continue
        if opened.content.get(name) != attached.opened.content.get(name):
            if name not in attached.opened.content:
                return f"{name} of {folder} is missing beside the weights"
            return f"{name} of {folder} is not the file that lies beside the weights"
    return None


__all__ = ["AttachedFolder", "ModelFileError", "differs_from", "read_attached"]
