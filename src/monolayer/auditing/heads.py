"""The attention heads of a module, and the effective ranks of their matrices `W_Qᵀ W_K` and `W_O W_V`.

The effective rank is the exponential of the entropy of the singular values. Known are the modules of this project,
`nn.MultiheadAttention`, and the attention blocks of Hugging Face models whose projections are called `query, key,
value` (BERT), `q_proj, k_proj, v_proj` (OPT, Llama), `q_lin, k_lin, v_lin` (DistilBERT) or `c_attn` (GPT-2). Others
have no heads here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

_NAMES = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"))
_OUT = ("out_proj", "o_proj", "c_proj", "out_lin", "dense")
Heads = tuple[Tensor, Tensor | None]
"""Stacks `(H, D, D)` of `W_Qᵀ W_K`, and of `W_O W_V` where `W_O` is known; `H` heads, streams of width `D`."""


def effective_ranks(matrices: Tensor | None) -> tuple[float, ...] | None:
    """Effective ranks of matrices `(H, D, D)`: `exp` of the entropy of singular values scaled to sum 1; 0 for zero."""
    if matrices is None:
        return None
    values = torch.linalg.svdvals(matrices)
    share = values / values.sum(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    ranks = torch.special.entr(share).sum(-1).exp()
    return tuple(float(rank) if float(total) > 0 else 0.0 for rank, total in zip(ranks, values.sum(-1), strict=True))


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
