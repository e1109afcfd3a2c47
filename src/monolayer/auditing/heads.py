"""The heads of an attention module, whoever wrote it: `W_Q`, `W_K`, `W_V`, `W_O` of each, as matrices.

Known are the modules of this project, `nn.MultiheadAttention`, and the attention blocks of Hugging Face models whose
projections are called `query, key, value` (BERT), `q_proj, k_proj, v_proj` (OPT, Llama), `q_lin, k_lin, v_lin`
(DistilBERT) or `c_attn` (GPT-2). Others have no heads here, which is not an error.

Notation: `H` heads of size `s` on streams of width `D`; `W_Q`, `W_K`, `W_V` are `(s, D)`, `W_O` is `(D, s)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

_NAMES = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"))
_OUT = ("out_proj", "o_proj", "c_proj", "out_lin", "dense")


@dataclass(frozen=True, eq=False)
class Heads:
    """Stacks over the heads: `W_Q`, `W_K` `(H, s, D)`, their biases `(H, s)`, and `W_O W_V` `(H, D, D)` or None.

    `scale` is what scores are multiplied by; `causal`: no query sees what comes later; `places`: positions turn queries
    and keys before they meet, so that the matrices alone do not give the scores.
    """

    W_Q: Tensor
    W_K: Tensor
    q_bias: Tensor
    k_bias: Tensor
    W_OV: Tensor | None
    scale: float
    causal: bool = False
    places: bool = False

    def weights(self, Z: Tensor) -> Tensor:
        """Attention weights `(N, H, n, n)` from the stream `(N, n, D)` that the module reads."""
        Q = torch.einsum("nld,hsd->nhls", Z, self.W_Q) + self.q_bias[:, None]
        K = torch.einsum("nld,hsd->nhls", Z, self.W_K) + self.k_bias[:, None]
        scores = self.scale * (Q @ K.transpose(2, 3))
        if self.causal:
            later = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        return scores.softmax(-1)


def heads_of(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Heads | None:
    """The heads of a module; `modules` are all of the model by name, since some keep `W_O` in a neighbour."""
    found = _known(module, name, modules)
    return found if found is None else replace(found, causal=bool(getattr(module, "is_causal", False)))


def _known(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Heads | None:
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        biases = module.in_proj_bias
        return _heads(
            list(module.in_proj_weight.chunk(3)),
            [None] * 3 if biases is None else list(biases.chunk(3)),
            module.out_proj.weight,
            module.num_heads,
        )
    if all(isinstance(getattr(module, f"W_{letter}", None), Tensor) for letter in "QKVO"):
        W_Q, W_K, W_V, W_O = (getattr(module, f"W_{letter}").detach() for letter in "QKVO")
        return _heads([W_Q, W_K, W_V], [None] * 3, W_O, 1, scale=1.0)
    fused = getattr(module, "c_attn", None)
    if fused is not None:  # GPT-2 stores the transpose; a module's attributes have no types
        parts = list(fused.weight.T.chunk(3))
        return _heads(parts, list(fused.bias.chunk(3)), module.c_proj.weight.T, module.num_heads)  # type: ignore[union-attr, arg-type]
    for names in _NAMES:
        layers = [layer for each in names if isinstance(layer := getattr(module, each, None), nn.Linear)]
        if len(layers) == len(names):
            weights: list[Tensor] = [layer.weight for layer in layers]
            shifts: list[Tensor | None] = [layer.bias for layer in layers]
            if len({weight.shape for weight in weights}) > 1:  # grouped queries: keys are shared between heads
                return None
            return _heads(weights, shifts, _out(module, name, modules), _count(module), places="proj" in names[0])
    return None


def _heads(
    weights: list[Tensor],
    biases: list[Tensor | None],
    out: Tensor | None,
    count: int,
    scale: float | None = None,
    places: bool = False,
) -> Heads:
    parts = [weight.detach().double().reshape(count, -1, weight.shape[1]) for weight in weights]
    size = parts[0].shape[1]
    zero = torch.zeros(count, size, dtype=torch.float64, device=parts[0].device)
    q_bias, k_bias = (zero if bias is None else bias.detach().double().reshape(count, -1) for bias in biases[:2])
    W_OV = None
    if out is not None and out.shape[1] == count * size:
        W_OV = torch.einsum("dhs,hse->hde", out.detach().double().reshape(len(out), count, size), parts[2])
    return Heads(
        parts[0], parts[1], q_bias, k_bias, W_OV, 1.0 / math.sqrt(size) if scale is None else scale, places=places
    )


def _count(module: nn.Module) -> int:
    for name in ("num_attention_heads", "num_heads", "n_heads"):
        found = getattr(module, name, None) or getattr(getattr(module, "config", None), name, None)
        if isinstance(found, int):
            return found
    return 1


def _out(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Tensor | None:
    """`W_O`: in the module itself, or beside it (BERT: `attention.self` and `attention.output.dense`)."""
    beside = modules.get(f"{name.rpartition('.')[0]}.output")
    for owner in (module, beside):
        for each in _OUT:
            layer = getattr(owner, each, None)
            if isinstance(layer, nn.Linear):
                return layer.weight
    return None
