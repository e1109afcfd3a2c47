"""A Hugging Face folder as one network in one set of letters, whatever its architecture calls them.

Its JSON files must be those that `expected.py` writes for these tensors, value by value: any other key, value or file
could mean anything to transformers, and leaves the claim undecided.
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

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.expected import BEGIN, DECODER, ENCODER, END, UNKNOWN, Cut, Facts, written
from monolayer.checker.stock.facts import activation_of, classes_of, cut_of, epsilon_of, names_of, room_of, rotary_of
from monolayer.checker.stock.names import CLASSES, LAYERS, Task
from monolayer.checker.stock.strict import demand_equal, file_bytes, read_json
from monolayer.data.regular import read_regular
from monolayer.errors import ModelFileError

TYPES = 2
"""Rows of BERT's table of token types, which are 0."""
BESIDE = frozenset({"README.md", "certificate.json", "draw.json"})
"""Files that transformers does not read."""
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
    room: int
    """Tokens that a sequence may have, the begin token among them."""
    attention: Mapping[str, Floats]
    """`W_Q`, `b_Q`, … `W_O`, `b_O`."""
    rotary: tuple[float, int] | None
    """Base of the angles by which places turn queries and keys, and how many coordinates are turned."""
    norms: tuple[Floats, ...]
    """Weights and biases of every norm, in turn."""
    rms: bool
    """Whether norms subtract no mean."""
    zeros: tuple[Floats, ...]
    """What must be 0: token types."""
    W_1: Floats
    b_1: Floats
    W_2: Floats
    b_2: Floats
    gate: tuple[Floats, Floats] | None
    """`W_3`, `b_3` of a gated block: what its neurons are multiplied by."""
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
    """The network in `folder`; files that say anything but what the proofs assume are `UnhandledError`."""
    config_bytes = file_bytes(folder / "config.json")
    config = read_json(folder / "config.json", config_bytes)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in LAYERS:
        raise UnhandledError(f"the architecture {kind!r} is not one of {', '.join(LAYERS)}")
    if config.get("built_by") != "monolayer":
        raise UnhandledError(
            "monolayer did not write it (config.json lacks built_by), and proofs are about folders of memorize_as; "
            "`monolayer audit` measures what any model answers"
        )
    task = next((task for task, name in CLASSES[kind].items() if config.get("architectures") == [name]), None)
    if task is None:
        raise UnhandledError(f"config.json says architectures = {config.get('architectures')!r}")
    content = {"config.json": config_bytes, "model.safetensors": file_bytes(folder / "model.safetensors")}
    names = ("tokenizer.json", "tokenizer_config.json", *(("generation_config.json",) if task == "lm" else ()))
    content |= {name: file_bytes(folder / name) for name in names}
    _check_names(folder, {*content, *BESIDE})
    files = {"config.json": config, **{name: read_json(folder / name, content[name]) for name in names}}
    try:
        tensors = _tensors(content["model.safetensors"], config.get("dtype"))
        net = _network(files, tensors, kind, task, _digest(content))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, SafetensorError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{folder} lacks or garbles a tensor that {kind} has: {error!r}") from None
    for name, wanted in written(_facts(net)).items():
        demand_equal(name, files[name], wanted)
    return net


def _check_names(folder: Path, known: set[str]) -> None:
    """Nothing else lies in the folder: adapters, templates, code and other weights are read where they are found."""
    more = sorted(path.name for path in folder.iterdir() if path.name not in known and not path.name.startswith("."))
    if more:
        raise UnhandledError(f"{more[0]} lies beside its files, and transformers may read it: move it elsewhere")


def _digest(content: Mapping[str, bytes]) -> str:
    """Of the files that determine the others."""
    parts = (content[name] for name in ("config.json", "model.safetensors", "tokenizer.json"))
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in parts)).hexdigest()


def _facts(net: Network) -> Facts:
    theta, turned = net.rotary or (0.0, 0)
    return Facts(
        kind=net.kind,
        task=net.task,
        dtype=net.dtype,
        activation=net.activation,
        epsilon=net.epsilon,
        rotary=net.rotary and (theta, turned / net.width),
        vocabulary=len(net.tokens),
        width=net.width,
        neurons=len(net.W_1),
        places=net.room,
        counted=net.places is not None and bool(net.places.any()),
        causal=net.causal,
        names=net.names,
        classes=net.classes,
        cut=net.cut,
    )


def _network(files: Mapping[str, Any], tensors: dict[str, Any], kind: str, task: Task, digest: str) -> Network:
    config, layers = files["config.json"], LAYERS[kind]
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise UnhandledError(f"{name} holds a number that is not finite")
    rest = dict(tensors)

    def linear(name: str) -> tuple[Any, Any]:
        weight, bias = rest.pop(f"{name}.weight"), rest.pop(f"{name}.bias")
        return (weight.T if layers.transposed else weight), bias

    tokens = rest.pop(layers.tokens)
    places = None if layers.places is None else rest.pop(layers.places)
    D = tokens.shape[1]
    attention: dict[str, Any] = {}
    if layers.fused is not None:
        weight, bias = linear(layers.fused)
        for letter, part, part_bias in zip("QKV", np.split(weight, 3), np.split(bias, 3), strict=True):
            attention |= {f"W_{letter}": part, f"b_{letter}": part_bias}
    else:
        for letter, name in zip("QKV", layers.separate, strict=True):
            attention[f"W_{letter}"], attention[f"b_{letter}"] = linear(name)
    attention["W_O"], attention["b_O"] = linear(layers.out)
    norms: list[Any] = []
    for name in layers.norms:
        norms += [rest.pop(f"{name}.weight"), np.zeros(D) if layers.rms else rest.pop(f"{name}.bias")]
    (W_1, b_1), (W_2, b_2) = linear(layers.first), linear(layers.second)
    gate = None if layers.gate is None else linear(layers.gate)
    zeros = tuple(rest.pop(name) for name in layers.zeros)
    pooler, head = layers.pooler.get(task), layers.heads[task]
    W_P, b_P = (rest.pop(f"{pooler}.weight"), rest.pop(f"{pooler}.bias")) if pooler else (None, None)
    weight, biased = rest.pop(f"{head}.weight"), head.startswith("classifier") or task == "token"
    bias = rest.pop(f"{head}.bias") if biased else None
    if rest:
        raise ModelFileError(f"tensors unknown to {kind}: {', '.join(sorted(rest)[:3])}")
    names = names_of(files["tokenizer.json"])
    classes = names if task == "lm" else classes_of(config)
    C, H = len(classes), len(W_1)
    shapes = [(tokens, (len(names), D)), (W_1, (H, D)), (b_1, (H,)), (W_2, (D, H)), (b_2, (D,)), (weight, (C, D))]
    shapes += [(attention[f"W_{letter}"], (D, D)) for letter in "QKVO"]
    shapes += [(attention[f"b_{letter}"], (D,)) for letter in "QKVO"] + [(norm, (D,)) for norm in norms]
    shapes += [(zero, (TYPES, D)) for zero in zeros]
    shapes += [] if places is None else [(places, (max(len(places), layers.offset + 1), D))]
    shapes += [] if W_P is None else [(W_P, (D, D)), (b_P, (D,))]
    shapes += [] if bias is None else [(bias, (C,))]
    shapes += [] if gate is None else [(gate[0], (H, D)), (gate[1], (H,))]
    for tensor, shape in shapes:
        if tensor.shape != shape:
            raise ModelFileError(f"a tensor has shape {tensor.shape} where the others and the tokenizer say {shape}")
    special = DECODER if layers.causal else ENCODER
    return Network(
        kind=kind,
        dtype=config["dtype"],
        task=task,
        post_norm=layers.post_norm,
        causal=layers.causal,
        epsilon=layers.epsilon or epsilon_of(config, layers.epsilon_key),
        activation=activation_of(config, layers.activation_key),
        tokens=tokens,
        places=places,
        offset=layers.offset,
        room=room_of(config) if places is None else len(places) - layers.offset,
        attention=attention,
        rotary=rotary_of(config, kind, D),
        norms=tuple(norms),
        rms=layers.rms,
        zeros=zeros,
        W_1=W_1,
        b_1=b_1,
        W_2=W_2.T,
        b_2=b_2,
        gate=gate,
        pool="none" if W_P is None else layers.pool,
        W_P=W_P,
        pool_bias=b_P,
        head=weight,
        head_bias=bias,
        names=names,
        classes=classes,
        special=frozenset(range(len(special))),
        unknown=UNKNOWN,
        begin=BEGIN,
        end=END if task == "lm" else None,
        digest=digest,
        cut=cut_of(names[len(special) :], files["tokenizer.json"]),
        added=tuple(special.values()),
    )


def _tensors(content: bytes, dtype: Any) -> dict[str, Floats]:
    """All tensors, widened to float64; each must have the type that `config.json` names."""
    if type(dtype) is not str or dtype not in STORED:
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
