"""The attention heads of a module, and the effective ranks of their matrices `W_Qᵀ W_K` and `W_O W_V`.

The effective rank is the exponential of the entropy of the singular values. Heads are found in the modules of this
project, in `nn.MultiheadAttention`, and in the attention blocks of Hugging Face models whose projections are called
`query, key, value` (BERT), `q_proj, k_proj, v_proj` (OPT, Llama), `q_lin, k_lin, v_lin` (DistilBERT) or `c_attn`
(GPT-2). No heads are reported for any other module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

_QKV_NAMES = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"))
_OUTPUT_NAMES = ("out_proj", "o_proj", "c_proj", "out_lin", "dense")
Heads = tuple[Tensor, Tensor | None]
"""The matrices `W_Qᵀ W_K` of all heads, `(H, D, D)`, and `W_O W_V` likewise, or None if `W_O` was not found.

There are `H` heads, and the stream has width `D`.
"""


def effective_ranks(matrices: Tensor | None) -> tuple[float, ...] | None:
    """The effective rank of each of the matrices `(H, D, D)`; None if there are no matrices.

    It is `exp` of the entropy of the singular values, which are first scaled to sum to 1. A zero matrix has rank 0.
    """
    if matrices is None:
        return None
    values = torch.linalg.svdvals(matrices)
    totals = values.sum(-1, keepdim=True)
    shares = values / totals.clamp(min=torch.finfo(values.dtype).tiny)  # no 0 / 0 in a zero matrix
    ranks = torch.special.entr(shares).sum(-1).exp()
    return tuple(float(rank) if float(total) > 0 else 0.0 for rank, total in zip(ranks, totals[..., 0], strict=True))


def heads_of(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Heads | None:
    """The heads of `module`; None if it is not an attention block known to this file.

    `modules` holds all modules of the model by name, because some attention blocks keep `W_O` in a neighbour of the
    module called `name`.
    """
    block: Any = module  # a module's attributes have no types
    if isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
        return _split_heads(module.in_proj_weight.chunk(3), module.out_proj.weight, module.num_heads)
    if all(isinstance(getattr(module, f"W_{letter}", None), Tensor) for letter in "QKVO"):
        return _split_heads([block.W_Q, block.W_K, block.W_V], block.W_O, 1)
    if hasattr(module, "c_attn"):  # GPT-2 stores the transpose
        return _split_heads(block.c_attn.weight.T.chunk(3), block.c_proj.weight.T, block.num_heads)
    for names in _QKV_NAMES:
        layers = [layer for each in names if isinstance(layer := getattr(module, each, None), nn.Linear)]
        weights = [layer.weight for layer in layers]
        # Equal shapes mean that every head has keys and values of its own, which _split_heads relies on.
        if len(layers) == len(names) and len({weight.shape for weight in weights}) == 1:
            return _split_heads(weights, _output_weight(module, name, modules), _head_count(module))
    return None


def _split_heads(weights: Sequence[Tensor], out: Tensor | None, count: int) -> Heads:
    """Cut `W_Q, W_K, W_V` (`weights`) and `W_O` (`out`) into `count` heads, and multiply them per head in float64.

    An `out` whose width does not fit the heads is treated as unknown.
    """
    W_Q, W_K, W_V = (weight.detach().double().reshape(count, -1, weight.shape[1]) for weight in weights)
    size = W_Q.shape[1]
    W_OV = None
    if out is not None and out.shape[1] == count * size:
        W_OV = torch.einsum("dhs,hse->hde", out.detach().double().reshape(len(out), count, size), W_V)
    return W_Q.mT @ W_K, W_OV


def _head_count(module: nn.Module) -> int:
    """The number of heads that the module or its config states; 1 if neither does."""
    for name in ("num_attention_heads", "num_heads", "n_heads"):
        heads = getattr(module, name, None) or getattr(getattr(module, "config", None), name, None)
        if isinstance(heads, int):
            return heads
    return 1


def _output_weight(module: nn.Module, name: str, modules: dict[str, nn.Module]) -> Tensor | None:
    """Find `W_O` in the module itself or beside it (BERT: `attention.self` and `attention.output.dense`)."""
    parent = name.rpartition(".")[0]
    owners = (module, modules.get(f"{parent}.output"))
    layers = (getattr(owner, each, None) for owner in owners for each in _OUTPUT_NAMES)
    return next((layer.weight for layer in layers if isinstance(layer, nn.Linear)), None)
