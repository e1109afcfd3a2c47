"""GPT-2: norms in front of attention, of the feed-forward block and of the head; matrices as `(in, out)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.stock.architecture import Architecture, Frame, Tensors


def _config(frame: Frame) -> dict[str, Any]:
    return {
        "vocab_size": len(frame.tokens),
        "n_positions": frame.positions,
        "n_embd": frame.width,
        "n_layer": 1,
        "n_head": 1,
        "n_inner": len(frame.neurons.W_1),
        "activation_function": frame.activation,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "classifier_dropout": 0.0,
        "layer_norm_epsilon": frame.epsilon,
        "bos_token_id": frame.special["bos"],
        "eos_token_id": frame.special["eos"],
        "pad_token_id": frame.special["pad"],
        **frame.labels(),
    }


def _tensors(frame: Frame) -> Tensors:
    neurons, heads, zero = frame.neurons, frame.attention, np.zeros(frame.width)
    attention = {
        "attn.c_attn.weight": np.concatenate([heads.W_Q.T, heads.W_K.T, heads.W_V.T], axis=1),
        "attn.c_attn.bias": np.concatenate([heads.b_Q, heads.b_K, zero]),
        "attn.c_proj.weight": heads.W_O.T,
        "attn.c_proj.bias": zero,
    }
    feed_forward = {
        "mlp.c_fc.weight": neurons.W_1.T,
        "mlp.c_fc.bias": neurons.b_1,
        "mlp.c_proj.weight": neurons.W_2,
        "mlp.c_proj.bias": zero,
    }
    block = {**frame.norm("ln_1"), **attention, **frame.norm("ln_2"), **feed_forward}
    return {
        "transformer.wte.weight": frame.tokens,
        "transformer.wpe.weight": frame.place_table(),
        **{f"transformer.h.0.{name}": value for name, value in block.items()},
        **frame.norm("transformer.ln_f"),
        **frame.head_as("classifier"),
    }


GPT2 = Architecture(
    name="gpt2",
    models={
        "token": "GPT2ForTokenClassification",
        "sequence": "GPT2ForSequenceClassification",
        "lm": "GPT2LMHeadModel",
    },
    causal=True,
    post_norm=False,
    own_activation="gelu_new",
    config=_config,
    tensors=_tensors,
    block=("transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"),
    turned=True,
)
