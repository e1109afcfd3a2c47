"""OPT, GPT-NeoX and Starcoder2: the arrangement of GPT-2 under other names.

The last two turn queries and keys by their place (rotary positions). A coordinate of the head that is not turned, or
is turned so slowly that its cosine is 1 in every format, carries the key; they have no position table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.stock.architecture import Architecture, Frame, Tensors

SLOWEST = 1e30
"""Base of the rotary angles: the slowest turns by less than 1e-28 a place, which leaves its cosine at 1."""


def _common(frame: Frame) -> dict[str, Any]:
    return {
        "vocab_size": len(frame.tokens),
        "hidden_size": frame.width,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "max_position_embeddings": frame.positions,
        "attention_dropout": 0.0,
        "bos_token_id": frame.special["bos"],
        "eos_token_id": frame.special["eos"],
        "pad_token_id": frame.special["pad"],
        **frame.labels(),
    }


def _opt_config(frame: Frame) -> dict[str, Any]:
    return {
        **_common(frame),
        "word_embed_proj_dim": frame.width,
        "ffn_dim": len(frame.neurons.W_1),
        "activation_function": frame.activation,
        "dropout": 0.0,
        "layerdrop": 0.0,
    }


def _opt_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "model.decoder.layers.0", frame.neurons, frame.attention
    return {
        "model.decoder.embed_tokens.weight": frame.tokens,
        "model.decoder.embed_positions.weight": frame.place_table(),
        **frame.linear(f"{block}.self_attn.q_proj", heads.W_Q, heads.b_Q),
        **frame.linear(f"{block}.self_attn.k_proj", heads.W_K, heads.b_K),
        **frame.linear(f"{block}.self_attn.v_proj", heads.W_V),
        **frame.linear(f"{block}.self_attn.out_proj", heads.W_O),
        **frame.norm(f"{block}.self_attn_layer_norm"),
        **frame.linear(f"{block}.fc1", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.fc2", neurons.W_2.T),
        **frame.norm(f"{block}.final_layer_norm"),
        **frame.norm("model.decoder.final_layer_norm"),
        "lm_head.weight": frame.head,
    }


def _neox_config(frame: Frame) -> dict[str, Any]:
    share = 2.0 / frame.width  # two coordinates are turned, the last is not
    return {
        **_common(frame),
        "intermediate_size": len(frame.neurons.W_1),
        "hidden_act": frame.activation,
        "hidden_dropout": 0.0,
        "classifier_dropout": 0.0,
        "layer_norm_eps": frame.epsilon,
        "use_parallel_residual": False,
        "rotary_pct": share,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share},
    }


def _neox_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "gpt_neox.layers.0", frame.neurons, frame.attention
    weight = np.concatenate([heads.W_Q, heads.W_K, heads.W_V])
    bias = np.concatenate([heads.b_Q, heads.b_K, np.zeros(frame.width)])
    head = {"lm_head.weight": frame.head} if frame.task == "lm" else frame.linear("classifier", frame.head)
    return {
        "gpt_neox.embed_in.weight": frame.tokens,
        **frame.norm(f"{block}.input_layernorm"),
        **frame.linear(f"{block}.attention.query_key_value", weight, bias),
        **frame.linear(f"{block}.attention.dense", heads.W_O),
        **frame.norm(f"{block}.post_attention_layernorm"),
        **frame.linear(f"{block}.mlp.dense_h_to_4h", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.mlp.dense_4h_to_h", neurons.W_2.T),
        **frame.norm("gpt_neox.final_layer_norm"),
        **head,
    }


def _starcoder2_config(frame: Frame) -> dict[str, Any]:
    return {
        **_common(frame),
        "num_key_value_heads": 1,
        "intermediate_size": len(frame.neurons.W_1),
        "hidden_act": frame.activation,
        "residual_dropout": 0.0,
        "embedding_dropout": 0.0,
        "classifier_dropout": 0.0,
        "norm_epsilon": frame.epsilon,
        "sliding_window": None,
        "use_bias": True,
        "rope_theta": SLOWEST,
        "rope_parameters": {"rope_type": "default", "rope_theta": SLOWEST},
    }


def _starcoder2_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "model.layers.0", frame.neurons, frame.attention
    head = {"lm_head.weight": frame.head} if frame.task == "lm" else frame.linear("score", frame.head)
    return {
        "model.embed_tokens.weight": frame.tokens,
        **frame.norm(f"{block}.input_layernorm"),
        **frame.linear(f"{block}.self_attn.q_proj", heads.W_Q, heads.b_Q),
        **frame.linear(f"{block}.self_attn.k_proj", heads.W_K, heads.b_K),
        **frame.linear(f"{block}.self_attn.v_proj", heads.W_V),
        **frame.linear(f"{block}.self_attn.o_proj", heads.W_O),
        **frame.norm(f"{block}.post_attention_layernorm"),
        **frame.linear(f"{block}.mlp.c_fc", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.mlp.c_proj", neurons.W_2.T),
        **frame.norm("model.norm"),
        **head,
    }


OPT = Architecture(
    name="opt",
    models={"lm": "OPTForCausalLM"},
    causal=True,
    post_norm=False,
    own_activation="relu",
    config=_opt_config,
    tensors=_opt_tensors,
    epsilon=1e-5,
    offset=2,
    hidden_rows=2,
    attention=("sdpa",),
)
NEOX = Architecture(
    name="gpt_neox",
    models={"token": "GPTNeoXForTokenClassification", "lm": "GPTNeoXForCausalLM"},
    causal=True,
    post_norm=False,
    own_activation="gelu",
    config=_neox_config,
    tensors=_neox_tensors,
    slot=lambda width: width - 1,
    places=False,
    attention=("sdpa",),
)
STARCODER2 = Architecture(
    name="starcoder2",
    models={"token": "Starcoder2ForTokenClassification", "lm": "Starcoder2ForCausalLM"},
    causal=True,
    post_norm=False,
    own_activation="gelu_pytorch_tanh",
    config=_starcoder2_config,
    tensors=_starcoder2_tensors,
    slot=lambda width: width // 2 - 1,
    places=False,
    attention=("sdpa",),
)
