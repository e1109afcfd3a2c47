"""A host is the causal language model in a folder. This file reads what is needed to append blocks to it.

Letters: `V` tokens, width `D`, `H` neurons per block, `L` layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from monolayer.arrays import Floats
from monolayer.data.folder import INDEX_FILE, MODEL, WEIGHTS_FILE, OpenFolder, read_together
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.files import BUILT_BY
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.given import GivenModel
from monolayer.huggingface.host_kind import HostKind, Role
from monolayer.huggingface.hosts import (
    BUFFERS,
    choose_host,
)
from monolayer.huggingface.kin import Kin, kin_of
from monolayer.huggingface.marks import ATTACHED_MARK
from monolayer.huggingface.settings import check_settings
from monolayer.huggingface.strict import ForeignError, read_json
from monolayer.huggingface.tensors import ModelFiles, Tensor, read_tensors

STEEPEST = 31_000.0
"""The largest α in float16: inputs of neurons reach down to −2α (1 + 2^−10), which stays above −65,504."""
LEAST_HOST_EPSILON = 2.0**-100
"""The smallest ε of a norm. Flushing numbers to zero changes squares by at most 2^−126, so no evaluation makes ε 0."""
TOKENIZER = "tokenizer.json"
COPIED = (
    *(TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"),
    *("vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "chat_template.jinja"),
    *("chat_template.json", "generation_config.json", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE"),
)
"""Files beside the weights that are copied unchanged, if they exist."""
LARGE = frozenset({TOKENIZER, "vocab.json", "merges.txt", "vocab.txt"})
"""Files of `COPIED` with all tokens. `attached.json` keeps the text of the others that are text."""


@dataclass(frozen=True, eq=False)
class Host(GivenModel):
    """A causal language model that facts can be attached to."""

    kind: HostKind
    root: str
    """The prefix of the names of its tensors."""
    kin: Kin | None = None
    """The architecture that it was before it was taken for a Llama; None if `config.json` names that of `kind`."""
    called: ClassVar = "host"

    @property
    def words(self) -> Tensor:
        """The table that the head multiplies states with, a row per token."""
        return self.tensors[self.head]

    @property
    def width(self) -> int:
        """`D`, the width of a state."""
        return self.tensors[f"{self.root}{self.kind.last_norm}.weight"].shape[0]

    @cached_property
    def neurons(self) -> int:
        """`H`, the number of neurons in a block."""
        return self.block_shapes[f"{self.kind.reads}.weight"][int(self.kind.transposed)]

    @property
    def places(self) -> int | None:
        """How many tokens a text may have; None if `config.json` does not say."""
        positions = self.config.get("n_positions", self.config.get("max_position_embeddings"))
        return positions if isinstance(positions, int) else None

    @property
    def activation(self) -> str:
        """The name of the activation function."""
        return str(self.kind.activation_in(self.config))

    def response(self, radius: float) -> float:
        """`T`, the input of a neuron at its own state, for a radius ρ.

        `T ≥ 8 S`, so a neuron is silent from `ρ(1 + 1/8)` on, apart from rounding. In float16, T/ρ is at most
        `STEEPEST`.
        """
        wanted = max(64.0, 8.0 * self.silence)
        return min(wanted, STEEPEST * radius) if self.format.limited else wanted

    @property
    def epsilon(self) -> float:
        """ε of the norms."""
        return float(self.kind.epsilon_in(self.config))

    @property
    def tied(self) -> bool:
        """Whether the head shares the weights of the embedding."""
        return bool(self.config.get("tie_word_embeddings", self.kind.tied))

    @property
    def head(self) -> str:
        """The name of the tensor that the head multiplies states with."""
        return f"{self.root}{self.kind.tokens}" if self.tied else self.kind.head

    def layer(self, number: int) -> str:
        """The prefix of the names of the tensors of layer `number`."""
        return f"{self.root}{self.kind.layers}.{number}."

    @cached_property
    def block(self) -> dict[str, Role]:
        """The role of each tensor of an appended block, by its name in the block."""
        return self.kind.block(self.config)

    @cached_property
    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors of an appended block, by their names in the block.

        They are the shapes in the host's last layer. A bias that it lacks is as long as the output of its layer.
        """
        shapes = {}
        for name in self.block:
            full = self.layer(self.layers - 1) + name
            if full in self.tensors:
                shapes[name] = self.tensors[full].shape
            else:
                weight = self.tensors[f"{full.removesuffix('.bias')}.weight"].shape
                shapes[name] = (weight[1 if self.kind.transposed else 0],)
        return shapes

    @property
    def may_lack(self) -> tuple[str, ...]:
        """The names, within a layer, of biases that the host's own layers may lack, and those of the folder have."""
        biases = self.kind.biases if self.kind.bias_key else ()
        if self.kin is None or not self.config.get("attention_bias"):
            return biases
        return (*biases, f"{self.kind.attention[-1]}.bias")  # only queries, keys and values have biases there

    @property
    def added_biases(self) -> dict[str, int]:
        """The lengths, by name, of biases that the host's own layers lack and that must be written as zeros."""
        lengths = {}
        for number in range(self.layers):
            for name in self.may_lack:
                full = self.layer(number) + name
                if full not in self.tensors:
                    lengths[full] = self.tensors[f"{full.removesuffix('.bias')}.weight"].shape[0]
        return lengths

    @property
    def layout(self) -> str | None:
        """What the host is in a folder with facts, in words; None if it stays as it is, without more biases."""
        if not self.added_biases:
            return None
        name = f"a {self.kind.name}" if self.kin is None else f"a {self.kind.name}, which it was not ({self.kin.name}),"
        return f"{name} with {self.kind.bias_key} = true and biases 0 in its own layers"

    @property
    def model(self) -> str:
        """The transformers class that its files are of."""
        return self.kind.model if self.kin is None else self.kin.model

    @property
    def named(self) -> str:
        """The name of its transformers class, and the one that it is written as if that is another."""
        return self.model if self.kin is None else f"{self.model}, written as {self.kind.model}"

    @property
    def is_cut(self) -> bool:
        """Whether matrices that were one are several now."""
        return self.kin is not None and bool(self.kin.fused)

    def longer_config(self, blocks: int) -> dict[str, object]:
        """The content of `config.json` after this many blocks are appended."""
        config = {**self.config, self.kind.depth: self.layers + blocks, **ATTACHED_MARK}
        kinds = config.get("layer_types")
        if isinstance(kinds, list) and len(kinds) == self.layers:
            config["layer_types"] = kinds + kinds[-1:] * blocks
        if self.kind.bias_key is not None:
            config[self.kind.bias_key] = True
        return config

    def norm(self) -> tuple[Floats, Floats | None]:
        """The weight and the bias `(D,)` of the last norm; the bias is None if norms have none."""
        start = f"{self.root}{self.kind.last_norm}"
        bias = None if self.kind.rms else self.tensors[f"{start}.bias"].numbers()
        return self.tensors[f"{start}.weight"].numbers(), bias


def host_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Host:
    """The host with this `config.json` and these tensors; a `DataError` says why facts cannot be attached to it.

    If it is a Llama under another name, these are the tensors of a Llama (`Kin.split`).
    """
    kin = kin_of(config)
    config = config if kin is None else kin.as_llama(config)
    kind = choose_host(config)
    check_settings(kind, config)
    roots = (kind.root, kind.root.partition(".")[2])
    root = next((root for root in roots if f"{root}{kind.tokens}" in tensors), None)
    if root is None:
        raise DataError(f"it has no tensor {kind.root}{kind.tokens}, which {kind.name} stores its tokens in")
    layers = config.get(kind.depth)
    if type(layers) is not int or layers < 1:
        raise DataError(f"config.json says {kind.depth} = {layers!r}, which is not a number of layers")
    host = Host(kind, config, tensors, root, kin)
    _check_names(host)
    _check_shapes(host)
    epsilon = kind.epsilon_in(config)
    if type(epsilon) not in (float, int) or not LEAST_HOST_EPSILON <= epsilon <= 1.0:
        raise DataError(
            f"config.json says that the ε of the norms is {epsilon!r:.40}; facts can be attached where it is at least "
            "2^-100, so that no norm divides by 0, and at most 1"
        )
    return host


def _check_names(host: Host) -> None:
    """Refuse tensors that are not exactly those of the architecture, under names that transformers finds."""
    kind, inside = host.kind, host.kind.block_names(host.config) - set(host.may_lack if host.kin else ())
    wanted = {f"{host.root}{kind.tokens}", host.head, f"{host.root}{kind.last_norm}.weight"}
    wanted |= set() if kind.rms else {f"{host.root}{kind.last_norm}.bias"}
    wanted |= set() if kind.places is None else {f"{host.root}{kind.places}"}
    known = {*wanted, kind.head}
    for number in range(host.layers):
        of_layer = {host.layer(number) + name for name in inside}
        missing = sorted((wanted | of_layer) - set(host.tensors))
        if missing:  # checked layer by layer, since config.json may claim a huge number of layers
            hint = f" (config.json says {kind.depth} = {host.layers})"
            raise DataError(f"it lacks the tensor {missing[0]!r}, which {kind.name} has{hint}")
        known |= of_layer | {host.layer(number) + name for name in BUFFERS}
    unknown = sorted(set(host.tensors) - known)
    if unknown:
        raise DataError(
            f"it has the tensor {unknown[0]!r}, which {kind.name} with {kind.depth} = {host.layers} does not have: "
            "save the model again (save_pretrained)"
        )


def _check_shapes(host: Host) -> None:
    """Refuse tensors whose shapes do not fit each other or `config.json`, or whose types differ."""
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
    for name in kind.block_names(host.config) - set(host.may_lack if host.kin else ()):
        size = wanted.get(start + name, host.tensors[start + name].shape)
        wanted |= {host.layer(number) + name: size for number in range(host.layers)}
    for name, sizes in wanted.items():
        if host.tensors[name].shape != sizes:
            raise DataError(f"{name} has shape {host.tensors[name].shape}, where {sizes} is needed")
    if host.tied and kind.head in host.tensors and host.tensors[kind.head].data != tokens.data:
        raise DataError(f"its config.json ties the head to the tokens, and {kind.head} holds other numbers")
    counts = {"vocab_size": V, kind.sizes[0]: D, kind.sizes[1]: H}
    counts |= {"word_embed_proj_dim": D} if "word_embed_proj_dim" in host.config else {}
    for key, count in counts.items():
        stated = host.config.get(key)
        stated = 4 * D if stated is None and key == "n_inner" else stated
        if type(stated) is not int or stated != count:
            raise DataError(f"config.json says {key} = {stated!r}, and its tensors have {count}")
    for name, tensor in host.tensors.items():
        if tensor.dtype != head.dtype and not name.endswith(tuple(f".{each}" for each in BUFFERS)):
            raise DataError(f"{name} is {tensor.dtype} and {head.name} {head.dtype}: store all weights in one format")
    if head.dtype not in HOST_FORMATS:
        raise DataError(f"its weights are {head.dtype or head.code}; facts are attached in {', '.join(HOST_FORMATS)}")
    for said in (host.config.get(key) for key in ("dtype", "torch_dtype")):
        if said is None or said == head.dtype:
            continue
        raise DataError(f"its config.json says {said!r}, and its weights are {head.dtype}: save it in one format")


def read_host(folder: Path) -> tuple[Host, ModelFiles]:
    """Read the host in `folder`, which anyone may have written, and open its files.

    A `DataError` of one sentence says why the folder cannot be a host.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder: facts are attached to a model that lies in one. Load a model of the Hub with "
            "from_pretrained, and save it and its tokenizer into a folder with save_pretrained"
        )
    try:
        return _read_host(folder)
    except DataError as error:
        raise DataError(f"{folder} cannot be a host: {error}") from None


def _read_host(folder: Path) -> tuple[Host, ModelFiles]:
    """Read the host in `folder`; the `DataError` does not name the folder, which `read_host` adds."""
    if MODEL.objection(folder) is None:
        raise built_by_us("memorize", "and it is no language model")
    try:
        opened = read_together(folder, model_files)
        config = read_json(folder / "config.json", opened.content["config.json"])
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}") from None
    except (ForeignError, ModelFileError) as error:
        raise DataError(str(error)) from None
    if ATTACHED_MARK.items() <= config.items():
        raise DataError("facts are attached to it already: insert adds more, and detach restores its host")
    if BUILT_BY.items() <= config.items():
        raise built_by_us(
            "memorize_as", "so it holds its data and has no states of a language model to attach facts to"
        )
    kin = kin_of(config)
    opened = opened if kin is None else kin.split(opened, config)
    return host_of(config, opened.tensors), opened


def built_by_us(verb: str, why: str) -> DataError:
    """The error for a folder that `verb` of this library built, where a model of others is needed; `why` it is none."""
    return DataError(f"{verb} built it, {why}. Add facts with insert, which needs the data that it holds")


def model_files(opened: OpenFolder, model: str = "model") -> ModelFiles:
    """The files of a host in a folder that is open; a `DataError` says which of them is missing.

    `model`: what the host is, in one word.
    """
    sizes = opened.sizes()
    there = {name for name, size in sizes.items() if size is not None}
    if "adapter_config.json" in sizes:
        raise DataError("it holds an adapter; merge it into its model first (merge_and_unload), and save that")
    if "config.json" not in there:
        raise DataError("it has no config.json, so it is not a model of transformers")
    if not {WEIGHTS_FILE, INDEX_FILE} & there:
        raise DataError(f"it has no {WEIGHTS_FILE}; save_pretrained writes one")
    if TOKENIZER not in there:
        raise DataError(f"it has no {TOKENIZER}; save the {model}'s fast tokenizer into it (save_pretrained)")
    return read_tensors(opened, if_there=COPIED)
