"""A host: the causal language model in a folder, as far as appending blocks to it goes.

Letters: `V` tokens, `D` width, `H` neurons of a block, `L` layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from monolayer.arrays import Floats
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.formats import FORMATS, HostFormat
from monolayer.huggingface.hosts import (
    ATTACHED_MARK,
    BUFFERS,
    FLOAT16_SILENCE,
    SILENCE,
    HostKind,
    Role,
    activation_of,
    choose_host,
    epsilon_of,
)
from monolayer.huggingface.settings import check_settings
from monolayer.huggingface.strict import ForeignError, read_json
from monolayer.huggingface.tensors import Tensor, TensorFolder, open_folder

STEEPEST = 31_000.0
"""α in float16, at most: inputs of neurons, down to −2α (1 + 2^−10), stay above −65,504."""
LEAST_HOST_EPSILON = 2.0**-100
"""ε of norms: their squares are off by 2^−126 at most where numbers are flushed to zero, so ε is 0 in no evaluation."""
TOKENIZER = "tokenizer.json"
COPIED = (
    *(TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"),
    *("vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja"),
    *("chat_template.json", "generation_config.json", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"),
)
"""Files beside the weights that stay what they are, if they are there."""


@dataclass(frozen=True, eq=False)
class Host:
    """What an architecture, a `config.json` and the tensors beside it come to."""

    kind: HostKind
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    root: str
    """What the names of its tensors begin with."""

    @property
    def layers(self) -> int:
        """`L`"""
        return int(self.config[self.kind.depth])

    @property
    def width(self) -> int:
        """`D`"""
        return self.tensors[f"{self.root}{self.kind.last_norm}.weight"].shape[0]

    @cached_property
    def neurons(self) -> int:
        """`H`"""
        return self.block_shapes[f"{self.kind.reads}.weight"][int(self.kind.transposed)]

    @property
    def vocabulary(self) -> int:
        """`V`"""
        return self.tensors[self.head].shape[0]

    @property
    def dtype(self) -> str:
        """The format of the weights, as `config.json` calls it."""
        found = self.tensors[self.head].dtype
        assert found is not None  # host_of asked
        return found

    @property
    def places(self) -> int | None:
        """How many tokens a text may have; None where `config.json` does not say."""
        found = self.config.get("n_positions", self.config.get("max_position_embeddings"))
        return found if isinstance(found, int) else None

    @property
    def format(self) -> HostFormat:
        """What attaching facts needs to know about the format of the weights."""
        return FORMATS[self.dtype]

    @property
    def activation(self) -> str:
        """The name of the activation function."""
        return str(activation_of(self.kind, self.config))

    @property
    def silence(self) -> float:
        """`S`: neurons are silent at inputs up to −S."""
        return (FLOAT16_SILENCE if self.dtype == "float16" else SILENCE)[self.activation]

    def response(self, radius: float) -> float:
        """`T`, the input of a neuron at its own state, for a radius ρ.

        `T ≥ 8 S`, so a neuron is silent from `ρ(1 + 1/8)` on, rounding aside. In float16, T/ρ is at most `STEEPEST`.
        """
        wanted = max(64.0, 8.0 * self.silence)
        return min(wanted, STEEPEST * radius) if self.dtype == "float16" else wanted

    @property
    def epsilon(self) -> float:
        """ε of the norms."""
        return float(epsilon_of(self.kind, self.config))

    @property
    def tied(self) -> bool:
        """Whether the head has the weights of the embedding."""
        return bool(self.config.get("tie_word_embeddings", self.kind.tied))

    @property
    def head(self) -> str:
        """The name of the tensor that the head multiplies with."""
        return f"{self.root}{self.kind.tokens}" if self.tied else self.kind.head

    def layer(self, number: int) -> str:
        """What the names of the tensors of a layer begin with."""
        return f"{self.root}{self.kind.layers}.{number}."

    @cached_property
    def block(self) -> dict[str, Role]:
        """The role of each tensor of an appended block, by its name in the block."""
        return self.kind.block(self.config)

    @cached_property
    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of these tensors: those of the host's last layer; biases that it lacks are as long as outputs."""
        found = {}
        for name in self.block:
            full = self.layer(self.layers - 1) + name
            if full in self.tensors:
                found[name] = self.tensors[full].shape
            else:
                weight = self.tensors[f"{full.removesuffix('.bias')}.weight"].shape
                found[name] = (weight[1 if self.kind.transposed else 0],)
        return found

    @property
    def added_biases(self) -> dict[str, int]:
        """Biases of the host's own layers that must be written, as zeros, and their lengths."""
        found = {}
        for number in range(self.layers):
            for name in self.kind.biases if self.kind.bias_key else ():
                full = self.layer(number) + name
                if full not in self.tensors:
                    found[full] = self.tensors[f"{full.removesuffix('.bias')}.weight"].shape[0]
        return found

    def longer_config(self, blocks: int) -> dict[str, object]:
        """`config.json` with this many blocks appended."""
        config = {**self.config, self.kind.depth: self.layers + blocks, **ATTACHED_MARK}
        kinds = config.get("layer_types")
        if isinstance(kinds, list) and len(kinds) == self.layers:
            config["layer_types"] = kinds + kinds[-1:] * blocks
        if self.kind.bias_key is not None:
            config[self.kind.bias_key] = True
        return config

    def norm(self) -> tuple[Floats, Floats | None]:
        """Weight and bias `(D,)` of the last norm; no bias where norms have none."""
        start = f"{self.root}{self.kind.last_norm}"
        return self.tensors[f"{start}.weight"].numbers(), (
            None if self.kind.rms else self.tensors[f"{start}.bias"].numbers()
        )


def host_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Host:
    """The host with this configuration and these tensors; a `DataError` says why facts cannot be attached to it."""
    kind = choose_host(config)
    check_settings(kind, config)
    roots = (kind.root, kind.root.partition(".")[2])
    root = next((root for root in roots if f"{root}{kind.tokens}" in tensors), None)
    if root is None:
        raise DataError(f"it has no tensor {kind.root}{kind.tokens}, which {kind.name} stores its tokens in")
    layers = config.get(kind.depth)
    if type(layers) is not int or layers < 1:
        raise DataError(f"config.json says {kind.depth} = {layers!r}, which is not a number of layers")
    host = Host(kind, config, tensors, root)
    _check_names(host)
    _check_shapes(host)
    epsilon = epsilon_of(kind, config)
    if type(epsilon) not in (float, int) or not LEAST_HOST_EPSILON <= epsilon <= 1.0:
        raise DataError(
            f"config.json says that the ε of the norms is {epsilon!r:.40}; facts can be attached where it is at least "
            "2^-100, so that no norm divides by 0, and at most 1"
        )
    return host


def _check_names(host: Host) -> None:
    """That the tensors are all that the architecture has, by names under which transformers find each of them once."""
    kind, inside = host.kind, host.kind.block_names(host.config)
    wanted = {f"{host.root}{kind.tokens}", host.head, f"{host.root}{kind.last_norm}.weight"}
    wanted |= set() if kind.rms else {f"{host.root}{kind.last_norm}.bias"}
    wanted |= set() if kind.places is None else {f"{host.root}{kind.places}"}
    known = {*wanted, kind.head}
    for number in range(host.layers):
        own = {host.layer(number) + name for name in inside}
        missing = sorted((wanted | own) - set(host.tensors))
        if missing:  # asked layer by layer: config.json may count many that are not there
            hint = f" (config.json says {kind.depth} = {host.layers})"
            raise DataError(f"it lacks the tensor {missing[0]!r}, which {kind.name} has{hint}")
        known |= own | {host.layer(number) + name for name in BUFFERS}
    strange = sorted(set(host.tensors) - known)
    if strange:
        raise DataError(
            f"it has the tensor {strange[0]!r}, which {kind.name} with {kind.depth} = {host.layers} does not have: "
            "save the model again (save_pretrained)"
        )


def _check_shapes(host: Host) -> None:
    """That tensors and sizes in `config.json` fit together, and that tensors are of one type."""
    kind, start = host.kind, host.layer(host.layers - 1)
    norm, tokens = f"{host.root}{kind.last_norm}", host.tensors[f"{host.root}{kind.tokens}"]
    for name, axes in (
        (f"{norm}.weight", 1),
        (tokens.name, 2),
        *((f"{start}{part}.weight", 2) for part in kind.linear),
    ):
        if len(host.tensors[name].shape) != axes:
            raise DataError(f"{name} has shape {host.tensors[name].shape}, where {axes} axes are needed")
    D, H, V, head = host.width, host.neurons, tokens.shape[0], host.tensors[host.head]
    wanted: dict[str, tuple[int, ...]] = {name: (V, D) for name in (tokens.name, kind.head) if name in host.tensors}
    wanted |= {f"{norm}.{part}": (D,) for part in ("weight", *(() if kind.rms else ("bias",)))}
    for layer, shape in ((kind.reads, (H, D)), (kind.writes, (D, H)), (kind.multiplies, (H, D))):
        if layer is not None:
            wanted[f"{start}{layer}.weight"] = shape[::-1] if kind.transposed else shape
    for name in kind.block_names(host.config):
        own = wanted.get(start + name, host.tensors[start + name].shape)
        wanted |= {host.layer(number) + name: own for number in range(host.layers)}
    for name, sizes in wanted.items():
        if host.tensors[name].shape != sizes:
            raise DataError(f"{name} has shape {host.tensors[name].shape}, where {sizes} is needed")
    if host.tied and kind.head in host.tensors and host.tensors[kind.head].data != tokens.data:
        raise DataError(f"its config.json ties the head to the tokens, and {kind.head} holds other numbers")
    counts = {"vocab_size": V, kind.sizes[0]: D, kind.sizes[1]: H}
    counts |= {"word_embed_proj_dim": D} if "word_embed_proj_dim" in host.config else {}
    for key, count in counts.items():
        found = host.config.get(key)
        found = 4 * D if found is None and key == "n_inner" else found
        if type(found) is not int or found != count:
            raise DataError(f"config.json says {key} = {found!r}, and its tensors have {count}")
    for name, tensor in host.tensors.items():
        if tensor.dtype != head.dtype and not name.endswith(tuple(f".{each}" for each in BUFFERS)):
            raise DataError(f"{name} is {tensor.dtype} and {head.name} {head.dtype}: store all weights in one format")
    if head.dtype not in FORMATS:
        raise DataError(f"its weights are {head.dtype or head.code}; facts are attached in {', '.join(FORMATS)}")
    for said in (host.config.get(key) for key in ("dtype", "torch_dtype")):
        if said is None or said == head.dtype:
            continue
        raise DataError(f"its config.json says {said!r}, and its weights are {head.dtype}: save it in one format")


def read_host(folder: Path) -> tuple[Host, TensorFolder]:
    """The host in a folder that anyone may have written; a `DataError` of one sentence says why it cannot be one."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder: facts are attached to a model that lies in one")
    try:
        return _read_host(folder)
    except DataError as error:
        raise DataError(f"{folder} cannot be a host: {error}") from None


def _read_host(folder: Path) -> tuple[Host, TensorFolder]:
    if (folder / "adapter_config.json").exists():
        raise DataError("it holds an adapter; merge it into its model first (merge_and_unload), and save that")
    if not (folder / "config.json").is_file():
        raise DataError("it has no config.json, so it is not a model of transformers")
    if not (folder / WEIGHTS_FILE).is_file() and not (folder / INDEX_FILE).is_file():
        raise DataError(f"it has no {WEIGHTS_FILE}; save_pretrained writes one")
    if not (folder / TOKENIZER).is_file():
        raise DataError(f"it has no {TOKENIZER}; save the model's fast tokenizer into it (save_pretrained)")
    try:
        beside = [name for name in COPIED if (folder / name).is_file()]
        opened = open_folder(folder, beside)
        config = read_json(folder / "config.json", opened.content["config.json"])
    except (ForeignError, ModelFileError) as error:
        raise DataError(str(error)) from None
    if ATTACHED_MARK.items() <= config.items():
        raise DataError("facts are attached to it already: insert adds more, and detach restores its host")
    return host_of(config, opened.tensors), opened
