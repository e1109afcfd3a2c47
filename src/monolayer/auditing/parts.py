"""What every part of a Transformer makes of contexts, on given data.

A part is a submodule whose output is one vector per token. It is an (r, δ)-contextual mapping for the data, as
`theory/contextual.py` measures it: outputs reach norm `r`, and two points that a contextual mapping must tell apart
(other token, or other set of tokens) are at least `δ` from each other. `log2(r/δ)` bits hold that difference.
*Confused* points are those whose output, rounded to a format, equals that of a point which must differ: no readout in
that format can give both their labels.

Attention modules whose matrices are known also show the effective rank of `W_Qᵀ W_K` and of `W_O W_V`, the exponential
of the entropy of their singular values. Known are the modules of this project, `nn.MultiheadAttention`, and the
attention blocks of Hugging Face models whose projections are called `query, key, value` (BERT), `q_proj, k_proj,
v_proj` (OPT, Llama), `q_lin, k_lin, v_lin` (DistilBERT) or `c_attn` (GPT-2). Others have no heads here.

The definition compares whole sequences. A causal model sees prefixes: it confuses the first tokens of sequences that
begin alike, as it must.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.arrays import Ints
from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.errors import DataError, nearest
from monolayer.model.monolayer import Monolayer
from monolayer.table import columns
from monolayer.theory.contextual import context_classes, contextual_mapping

AUDIT_FORMATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
AUDIT_COLUMNS = ("part", "width", "r", "δ", "bits", "confused", "QK", "OV")
LEGEND = "confused: points in float32, float16, bfloat16; QK, OV: effective ranks"
MOST_POINTS = 1 << 14
"""Points up to which a closest pair is searched: above 8 dimensions that takes all pairs."""
_NAMES = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"))
_OUT = ("out_proj", "o_proj", "c_proj", "out_lin", "dense")
Heads = tuple[Tensor, Tensor | None]
"""Stacks `(H, D, D)` of `W_Qᵀ W_K`, and of `W_O W_V` where `W_O` is known; `H` heads, streams of width `D`."""


@dataclass(frozen=True)
class AuditedPart:
    """One submodule, measured.

    `r`, `delta`: of the contextual mapping. `bits`: how many bits δ needs, infinite where δ is 0. `confused`: how many
    points are confused in each format. `qk_rank`, `ov_rank`: effective ranks, one per head; None where the heads are
    not known.
    """

    name: str
    kind: str
    width: int
    r: float
    delta: float
    bits: float
    confused: dict[str, int]
    qk_rank: tuple[float, ...] | None = None
    ov_rank: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Audit:
    """The parts of a model in the order in which they were evaluated; how many points, of how many classes."""

    points: int
    classes: int
    parts: tuple[AuditedPart, ...]

    def rows(self) -> list[list[str]]:
        """A line per part, for a table under `AUDIT_COLUMNS`."""
        return [
            [
                part.name,
                str(part.width),
                f"{part.r:.3g}",
                f"{part.delta:.3g}",
                f"{part.bits:.1f}",
                " ".join(f"{count}" for count in part.confused.values()),
                _range_text(part.qk_rank),
                _range_text(part.ov_rank),
            ]
            for part in self.parts
        ]

    def __repr__(self) -> str:
        heading = f"{self.points:,} points in {self.classes:,} classes (token, set of tokens)"
        return f"{heading}\n{columns(AUDIT_COLUMNS, self.rows())}\n{LEGEND}"

    def to_json(self) -> dict[str, object]:
        """The audit for JSON; an infinite number of bits is null."""
        parts = [
            asdict(part) | {name: x if math.isfinite(x := getattr(part, name)) else None for name in ("delta", "bits")}
            for part in self.parts
        ]
        return {"points": self.points, "classes": self.classes, "parts": parts}

    def __getitem__(self, name: str) -> AuditedPart:
        return next(part for part in self.parts if part.name == name)


def audit(
    model: nn.Module,
    X: Any,
    *,
    parts: list[str] | None = None,
    call: Callable[[nn.Module, Tensor], object] | None = None,
) -> Audit:
    """Measure every part of a model on data.

    `model`: any module. `X`: ids `(N, n)` or vectors `(N, n, d)`. `parts`: names of the submodules to measure; by
    default all whose output is one vector per token. `call`: runs the model on a tensor; by default `model(X)`. The
    model is not changed, and is left in the mode, training or evaluation, that it was in.
    """
    # Models of monolayer take names of tokens.
    data = Sequences.of(model.encode(X) if isinstance(model, Monolayer) and not isinstance(X, Tensor) else X)
    names = data.vocabulary
    if not isinstance(model, Monolayer) and names is not None and not names.integers:
        raise DataError(f"the data hold strings, such as {names.names[0]!r}, and this model takes ids: tokenize them")
    if not data.rectangular:
        raise DataError("audit takes sequences of one length: choose those of a length, or cut them")
    if (many := len(data.tokens)) > MOST_POINTS:
        raise DataError(f"{many:,} points are too many to compare all of them: give {MOST_POINTS:,} or fewer")
    modules = {name: module for name, module in model.named_modules() if name}
    for part in parts or ():
        if part not in modules:
            near = nearest(part, modules, 3)
            raise DataError(f"the model has no part {part!r}; near it: {', '.join(near) or 'nothing'}")
    chosen = modules if parts is None else {part: modules[part] for part in parts}
    shape = (len(data), int(data.lengths[0]))
    inputs = torch.from_numpy(data.tokens.reshape(*shape, *data.tokens.shape[1:]))
    first = next(model.parameters())
    inputs = inputs.to(first.device, first.dtype if inputs.is_floating_point() else None)
    seen: dict[str, Tensor] = {}
    training = model.training
    with _listening(chosen, shape, seen), torch.no_grad():
        model.eval()  # without dropout
        try:
            model(inputs) if call is None else call(model, inputs)
        except Exception as error:
            raise DataError(
                f"the model does not take a tensor of shape {tuple(inputs.shape)}: {type(error).__name__}: {error}"
            ) from error
        finally:
            model.train(training)
    if not seen:
        raise DataError(f"no part answered with one vector per token, (N, n, width) = ({shape[0]}, {shape[1]}, …)")
    classes = context_classes(data)
    found = tuple(_measure(name, modules, data, classes, output) for name, output in seen.items())
    return Audit(len(data.tokens), int(classes.max()) + 1, found)


@contextmanager
def _listening(modules: dict[str, nn.Module], shape: tuple[int, int], seen: dict[str, Tensor]) -> Iterator[None]:
    """Inside this context, outputs `(N, n, width)` of modules are put into `seen` under the names of the modules."""

    def listen(name: str) -> Callable[..., None]:
        def hear(module: nn.Module, given: object, answer: object) -> None:
            value = answer[0] if isinstance(answer, tuple) and answer else answer
            if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim != 3:
                return
            # A begin token in front has no counterpart in the data.
            if len(value) == shape[0] and value.shape[1] in (shape[1], shape[1] + 1):
                seen[name] = value[:, value.shape[1] - shape[1] :].detach()

        return hear

    handles = [module.register_forward_hook(listen(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _measure(name: str, modules: dict[str, nn.Module], data: Sequences, classes: Ints, output: Tensor) -> AuditedPart:
    """What the output of the module `name` makes of the points of these classes."""
    outputs = output.double().cpu()
    mapping = contextual_mapping(lambda _: outputs.numpy(), data)
    bits = math.inf if mapping.delta == 0 else max(0.0, math.log2(mapping.r / mapping.delta)) if mapping.r > 0 else 0.0
    qk, ov = heads_of(modules[name], name, modules) or (None, None)
    return AuditedPart(
        name=name,
        kind=type(modules[name]).__name__,
        width=outputs.shape[-1],
        r=mapping.r,
        delta=mapping.delta,
        bits=bits,
        confused={key: confused(outputs.flatten(0, 1).to(dtype), classes) for key, dtype in AUDIT_FORMATS.items()},
        qk_rank=_effective(qk),
        ov_rank=_effective(ov),
    )


def confused(outputs: Tensor, classes: Ints) -> int:
    """How many of the points have an output `(T, p)` that equals the output of a point of another class."""
    _, rows = distinct_rows(outputs.double().numpy())
    pairs = np.unique(rows * (int(classes.max()) + 1) + classes) // (int(classes.max()) + 1)
    several = np.bincount(pairs, minlength=int(rows.max()) + 1) > 1
    return int(several[rows].sum())


def _effective(matrices: Tensor | None) -> tuple[float, ...] | None:
    """Effective ranks of matrices `(H, D, D)`: `exp` of the entropy of singular values scaled to sum 1; 0 for zero."""
    if matrices is None:
        return None
    values = torch.linalg.svdvals(matrices)
    share = values / values.sum(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    ranks = torch.special.entr(share).sum(-1).exp()
    return tuple(float(rank) if float(total) > 0 else 0.0 for rank, total in zip(ranks, values.sum(-1), strict=True))


def _range_text(values: tuple[float, ...] | None) -> str:
    if values is None:
        return ""
    low, high = min(values), max(values)
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} … {high:.2f}"


def heads_of(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Heads | None:
    """The heads of a module; `modules` are all of the model by name, since some keep `W_O` in a neighbour."""
    any_: Any = module  # a module's attributes have no types
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        return _split_heads(module.in_proj_weight.chunk(3), module.out_proj.weight, module.num_heads)
    if all(isinstance(getattr(module, f"W_{letter}", None), Tensor) for letter in "QKVO"):
        return _split_heads([any_.W_Q, any_.W_K, any_.W_V], any_.W_O, 1)
    if hasattr(module, "c_attn"):  # GPT-2 stores the transpose
        return _split_heads(any_.c_attn.weight.T.chunk(3), any_.c_proj.weight.T, any_.num_heads)
    for names in _NAMES:
        layers = [layer for each in names if isinstance(layer := getattr(module, each, None), nn.Linear)]
        weights = [layer.weight for layer in layers]
        if len(layers) == len(names) and len({weight.shape for weight in weights}) == 1:  # no keys shared between heads
            return _split_heads(weights, _out(module, name, modules), _head_count(module))
    return None


def _split_heads(weights: Sequence[Tensor], out: Tensor | None, count: int) -> Heads:
    W_Q, W_K, W_V = (weight.detach().double().reshape(count, -1, weight.shape[1]) for weight in weights)
    size = W_Q.shape[1]
    W_OV = None
    if out is not None and out.shape[1] == count * size:
        W_OV = torch.einsum("dhs,hse->hde", out.detach().double().reshape(len(out), count, size), W_V)
    return W_Q.mT @ W_K, W_OV


def _head_count(module: nn.Module) -> int:
    for name in ("num_attention_heads", "num_heads", "n_heads"):
        found = getattr(module, name, None) or getattr(getattr(module, "config", None), name, None)
        if isinstance(found, int):
            return found
    return 1


def _out(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Tensor | None:
    """`W_O`: in the module itself, or beside it (BERT: `attention.self` and `attention.output.dense`)."""
    owners = (module, modules.get(f"{name.rpartition('.')[0]}.output"))
    layers = (getattr(owner, each, None) for owner in owners for each in _OUT)
    return next((layer.weight for layer in layers if isinstance(layer, nn.Linear)), None)
