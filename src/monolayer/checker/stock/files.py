"""A Hugging Face folder as one network in one set of letters, whatever its architecture calls them.

Whatever `config.json` says is either known to leave the function alone, or must have the value that the proofs
assume, or leaves the claim undecided: a key that nobody here has heard of could mean anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, deserialize

from monolayer.checker.rounding import Floats, UnhandledError
from monolayer.checker.stock.names import FIXED, LAYERS, SIZES, TASKS, Task
from monolayer.checker.stock.tokens import Cut, read_cut
from monolayer.checker.stock.values import CONFIG, STRICTER, check_value
from monolayer.data.regular import read_regular
from monolayer.errors import ModelFileError

PAD = 0
"""The id of padding, whatever the tokenizer calls it: RoBERTa does not count its places."""
STORED = {"float64": "F64", "float32": "F32", "bfloat16": "BF16", "float16": "F16"}
"""Types that `config.json` may name, as safetensors call them."""
Pool = Literal["none", "tanh", "relu"]


@dataclass(frozen=True, eq=False)
class Network:
    """Tables `(V, D)` and `(L, D)`, matrices `(out, in)`, in the order of evaluation."""

    kind: str
    dtype: str
    """The type that the weights are stored in; here they are float64."""
    task: Task
    post_norm: bool
    causal: bool
    epsilon: float
    activation: str
    tokens: Floats
    places: Floats | None
    offset: int
    attention: Mapping[str, Floats]
    """`W_Q`, `b_Q`, … `W_O`, `b_O`."""
    norms: tuple[Floats, ...]
    """Weights and biases of every norm, in turn."""
    zeros: tuple[Floats, ...]
    """What must be 0: token types."""
    W_1: Floats
    b_1: Floats
    W_2: Floats
    b_2: Floats
    pool: Pool
    W_P: Floats | None
    pool_bias: Floats | None
    head: Floats
    head_bias: Floats | None
    names: tuple[str, ...]
    """Names of the ids."""
    classes: tuple[str, ...]
    special: frozenset[int]
    unknown: int
    begin: int
    end: int | None
    digest: str
    cut: Cut
    """How the tokenizer cuts text."""
    added: tuple[str, ...]
    """Names that it finds in a text before it is cut."""

    @property
    def width(self) -> int:
        return int(self.tokens.shape[1])


def is_stock(folder: Any) -> bool:
    """Whether a folder has a `config.json` of Hugging Face's kind rather than ours."""
    try:
        config = json.loads(read_regular(Path(folder) / "config.json"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "model_type" in config and "format" not in config


def read_stock(folder: Path) -> Network:
    """The network in `folder`; an architecture, a key or a type that the proofs do not cover is `UnhandledError`."""
    content = {name: _bytes(folder / name) for name in ("config.json", "model.safetensors", "tokenizer.json")}
    config, tokenizer = (_object(folder / name, content[name]) for name in ("config.json", "tokenizer.json"))
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in content.values())).hexdigest()
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in LAYERS:
        raise UnhandledError(f"the architecture {kind!r} is not one of {', '.join(LAYERS)}")
    if (folder / "adapter_config.json").exists():
        raise UnhandledError("an adapter lies beside the weights, and transformers would load it")
    try:
        tensors = _tensors(content["model.safetensors"], config.get("dtype"))
        task = TASKS[config["architectures"][0]]
        _check_config(config, kind, tensors)
        return _network(config, tokenizer, tensors, kind, task, digest, read_cut(folder, tokenizer))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SafetensorError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{folder} lacks or garbles a part that {kind} has: {error!r}") from None


def _check_config(config: dict[str, Any], kind: str, tensors: Mapping[str, Any]) -> None:
    fixed = {**FIXED["all"], **FIXED[kind]}
    for key, value in config.items():
        if key in CONFIG:
            check_value("config.json", key, value, STRICTER.get((kind, key), CONFIG[key]))
        if key in CONFIG or key in SIZES[kind].values():
            continue
        if key not in fixed:
            raise UnhandledError(f"config.json says {key} = {value!r}, of which the proofs know nothing")
        blank = value is None and fixed[key][0] is not None  # a key may be left out; null is no default
        if blank or not any(value == known and type(value) is type(known) for known in fixed[key]):
            raise UnhandledError(f"config.json says {key} = {value!r}; the proofs assume {fixed[key][0]!r}")
    sizes = {what: config.get(key) for what, key in SIZES[kind].items()}
    if not all(type(sizes[what]) is int for what in ("width", "vocabulary", "positions", "neurons")):
        raise UnhandledError("config.json has a size that is no whole number")
    if not isinstance(sizes["activation"], str) or type(sizes.get("epsilon", 0.5)) is not float:
        raise UnhandledError("config.json has no name for the activation, or no number for the norms' epsilon")
    if config.get("torch_dtype", config["dtype"]) != config["dtype"]:
        raise UnhandledError(
            f"config.json says dtype = {config['dtype']!r} and torch_dtype = {config['torch_dtype']!r}"
        )
    missing = [key for key in fixed if key not in config and None not in fixed[key]]
    if missing:
        raise UnhandledError(f"config.json does not say {missing[0]}, whose default is not what the proofs assume")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise UnhandledError(f"{name} holds a number that is not finite")


def _network(
    config: dict[str, Any],
    tokenizer: dict[str, Any],
    tensors: dict[str, Any],
    kind: str,
    task: Task,
    digest: str,
    cut: tuple[Cut, tuple[str, ...]],
) -> Network:
    layers, sizes = LAYERS[kind], SIZES[kind]
    rest = dict(tensors)

    def take(name: str | None, optional: bool = False) -> Any:
        if name is None or (optional and name not in rest):
            return None
        return rest.pop(name)

    def linear(name: str) -> tuple[Any, Any]:
        weight, bias = take(f"{name}.weight"), take(f"{name}.bias", optional=True)
        return (weight.T if layers.transposed else weight), bias

    D, V = config[sizes["width"]], config[sizes["vocabulary"]]
    H, L = config[sizes["neurons"]], config[sizes["positions"]]
    attention: dict[str, Any] = {}
    if layers.fused is not None:
        weight, bias = linear(layers.fused)
        for letter, part, part_bias in zip("QKV", np.split(weight, 3), np.split(bias, 3), strict=True):
            attention |= {f"W_{letter}": part, f"b_{letter}": part_bias}
    else:
        for letter, name in zip("QKV", layers.separate, strict=True):
            attention[f"W_{letter}"], attention[f"b_{letter}"] = linear(name)
    attention["W_O"], attention["b_O"] = linear(layers.out)
    norms = [take(f"{name}.{part}") for name in layers.norms for part in ("weight", "bias")]
    (W_1, b_1), (W_2, b_2) = linear(layers.first), linear(layers.second)
    tokens, places = take(layers.tokens), take(layers.places)
    zeros = tuple(take(name) for name in layers.zeros)
    pooler = layers.pooler.get(task)
    W_P, b_P = (take(f"{pooler}.weight"), take(f"{pooler}.bias")) if pooler else (None, None)
    head = layers.heads[task]
    weight, bias = take(f"{head}.weight"), take(f"{head}.bias", optional=True)
    if rest:
        raise ModelFileError(f"tensors unknown to {kind}: {', '.join(sorted(rest)[:3])}")
    if config.get("word_embed_proj_dim", D) != D:
        raise UnhandledError("embeddings are projected to another width")
    names = _names(tokenizer)
    classes = names if task == "lm" else _classes(config["id2label"])
    C = len(classes)
    if len(set(classes)) < C:
        raise UnhandledError("two classes have one name")
    shapes = [(tokens, (V, D)), (W_1, (H, D)), (b_1, (H,)), (W_2, (D, H)), (b_2, (D,)), (weight, (C, D))]
    shapes += [(attention[f"W_{letter}"], (D, D)) for letter in "QKVO"]
    shapes += [(attention[f"b_{letter}"], (D,)) for letter in "QKVO"] + [(norm, (D,)) for norm in norms]
    kinds = config.get("type_vocab_size", 2)
    shapes += [(zero, (kinds, D)) for zero in zeros]
    shapes += [] if places is None else [(places, (L + layers.hidden_rows, D))]
    shapes += [] if W_P is None else [(W_P, (D, D)), (b_P, (D,))]
    shapes += [] if bias is None else [(bias, (C,))]
    for tensor, shape in shapes:
        if tensor.shape != shape:
            raise ModelFileError(f"a tensor has shape {tensor.shape} where config.json and the tokenizer say {shape}")
    special = tokenizer["post_processor"]["special_tokens"]
    begins = tokenizer["post_processor"]["single"]
    if len(special) != 1 or [next(iter(part)) for part in begins] != ["SpecialToken", "Sequence"] or len(names) != V:
        raise UnhandledError("the tokenizer must put one begin token in front, and have a name for every row")
    if tokenizer["post_processor"]["type"] != "TemplateProcessing":
        raise UnhandledError("the tokenizer puts its begin token in some other way than the proofs assume")
    begin, end = next(iter(special.values()))["ids"], config.get("eos_token_id")
    if len(begin) != 1 or begin == [PAD]:
        raise UnhandledError("the begin token must be one id, and not that of padding")
    if not all(type(number) is int and 0 <= number < V for number in (*begin, *([end] if task == "lm" else []))):
        raise UnhandledError("the begin token or the end token is no id of the model")
    return Network(
        kind=kind,
        dtype=config["dtype"],
        task=task,
        post_norm=layers.post_norm,
        causal=layers.causal,
        epsilon=layers.epsilon or config[sizes["epsilon"]],
        activation=config[sizes["activation"]],
        tokens=tokens,
        places=places,
        offset=layers.offset,
        attention=attention,
        norms=tuple(norms),
        zeros=zeros,
        W_1=W_1,
        b_1=b_1,
        W_2=W_2.T,
        b_2=b_2,
        pool="none" if W_P is None else layers.pool,
        W_P=W_P,
        pool_bias=b_P,
        head=weight,
        head_bias=bias,
        names=names,
        classes=classes,
        special=frozenset({PAD, *(int(token["id"]) for token in tokenizer["added_tokens"])}),
        unknown=names.index(tokenizer["model"]["unk_token"]),
        begin=begin[0],
        end=end if task == "lm" else None,
        digest=digest,
        cut=cut[0],
        added=cut[1],
    )


def _tensors(content: bytes, dtype: Any) -> dict[str, Floats]:
    """All tensors, widened to float64; each must have the type that `config.json` names."""
    if dtype not in STORED:
        raise UnhandledError(f"config.json says dtype = {dtype!r}; the proofs know {', '.join(STORED)}")
    found = {}
    for name, tensor in deserialize(content):  # type: ignore[no-untyped-call]
        if tensor["dtype"] != STORED[dtype]:
            raise UnhandledError(f"{name} is {_plain_name(tensor['dtype'])}, and config.json says {dtype}")
        raw = np.frombuffer(
            tensor["data"], dtype={"BF16": "<u2", "F16": "<f2", "F32": "<f4"}.get(tensor["dtype"], "<f8")
        )
        if tensor["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        found[name] = raw.astype(np.float64).reshape(tensor["shape"])
    return found


def _plain_name(code: str) -> str:
    return next((name for name, stored in STORED.items() if stored == code), code)


def _names(tokenizer: dict[str, Any]) -> tuple[str, ...]:
    table: dict[str, int] = tokenizer["model"]["vocab"]
    if tokenizer["model"]["type"] != "WordLevel" or sorted(table.values()) != list(range(len(table))):
        raise UnhandledError("the tokenizer must be a table of whole words, numbered from 0 on")
    return tuple(sorted(table, key=table.__getitem__))


def _classes(id2label: dict[str, str]) -> tuple[str, ...]:
    return tuple(id2label[str(number)] for number in range(len(id2label)))


def _object(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} does not hold a JSON object")
    return value


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
