"""OPT, GPT-NeoX, Starcoder2 and Llama: the arrangement of GPT-2 under other names.

The last three turn queries and keys by their place (rotary positions). A coordinate of the head that is not turned, or
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
        **frame.head_as("score"),
    }


def _rotary(theta: float) -> dict[str, Any]:
    return {"rope_theta": theta, "rope_parameters": {"rope_type": "default", "rope_theta": theta}}


def _neox_config(frame: Frame) -> dict[str, Any]:
    theta = frame.attention.theta
    share = 1.0 if theta else 2.0 / frame.width  # two coordinates are turned, the last is not
    return {
        **_common(frame),
        "intermediate_size": len(frame.neurons.W_1),
        "hidden_act": frame.activation,
        "hidden_dropout": 0.0,
        "classifier_dropout": 0.0,
        "layer_norm_eps": frame.epsilon,
        "use_parallel_residual": False,
        "rotary_pct": share,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": theta or 10000.0,
            "partial_rotary_factor": share,
        },
    }


def _neox_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "gpt_neox.layers.0", frame.neurons, frame.attention
    weight = np.concatenate([heads.W_Q, heads.W_K, heads.W_V])
    bias = np.concatenate([heads.b_Q, heads.b_K, np.zeros(frame.width)])
    return {
        "gpt_neox.embed_in.weight": frame.tokens,
        **frame.norm(f"{block}.input_layernorm"),
        **frame.linear(f"{block}.attention.query_key_value", weight, bias),
        **frame.linear(f"{block}.attention.dense", heads.W_O),
        **frame.norm(f"{block}.post_attention_layernorm"),
        **frame.linear(f"{block}.mlp.dense_h_to_4h", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.mlp.dense_4h_to_h", neurons.W_2.T),
        **frame.norm("gpt_neox.final_layer_norm"),
        **frame.head_as("classifier"),
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
        **_rotary(frame.attention.theta or SLOWEST),
    }


def _starcoder2_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "model.layers.0", frame.neurons, frame.attention
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
        **frame.head_as("score"),
    }


def _llama_config(frame: Frame) -> dict[str, Any]:
    return {
        **_common(frame),
        "num_key_value_heads": 1,
        "head_dim": frame.width,
        "intermediate_size": len(frame.neurons.W_1),
        "hidden_act": frame.activation,
        "rms_norm_eps": frame.epsilon,
        "attention_bias": True,
        "mlp_bias": True,
        **_rotary(frame.attention.theta or SLOWEST),
    }


def _llama_tensors(frame: Frame) -> Tensors:
    """Its feed-forward block returns `W_2 (act(W_1 x + b_1) ∘ (W_3 x + b_3))`: with W_3 = 0 and b_3 = 1 one of ours."""
    block, neurons, heads = "model.layers.0", frame.neurons, frame.attention
    ones = np.ones(len(neurons.W_1))
    return {
        "model.embed_tokens.weight": frame.tokens,
        f"{block}.input_layernorm.weight": np.ones(frame.width),
        **frame.linear(f"{block}.self_attn.q_proj", heads.W_Q, heads.b_Q),
        **frame.linear(f"{block}.self_attn.k_proj", heads.W_K, heads.b_K),
        **frame.linear(f"{block}.self_attn.v_proj", heads.W_V),
        **frame.linear(f"{block}.self_attn.o_proj", heads.W_O),
        f"{block}.post_attention_layernorm.weight": np.ones(frame.width),
        **frame.linear(f"{block}.mlp.gate_proj", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.mlp.up_proj", np.zeros_like(neurons.W_1), ones),
        **frame.linear(f"{block}.mlp.down_proj", neurons.W_2.T),
        "model.norm.weight": np.ones(frame.width),
        **frame.head_as("score"),
    }


OPT = Architecture(
    name="opt",
    models={"sequence": "OPTForSequenceClassification", "lm": "OPTForCausalLM"},
    causal=True,
    post_norm=False,
    own_activation="relu",
    config=_opt_config,
    tensors=_opt_tensors,
    block=("model.decoder.layers.0.fc1", "model.decoder.layers.0.fc2"),
    epsilon=1e-5,
    offset=2,
    hidden_rows=2,
    attention=("sdpa",),
)
NEOX = Architecture(
    name="gpt_neox",
    models={
        "token": "GPTNeoXForTokenClassification",
        "sequence": "GPTNeoXForSequenceClassification",
        "lm": "GPTNeoXForCausalLM",
    },
    causal=True,
    post_norm=False,
    own_activation="gelu",
    config=_neox_config,
    tensors=_neox_tensors,
    block=("gpt_neox.layers.0.mlp.dense_h_to_4h", "gpt_neox.layers.0.mlp.dense_4h_to_h"),
    slot=lambda width: width - 1,
    places=False,
    attention=("sdpa",),
)
STARCODER2 = Architecture(
    name="starcoder2",
    models={
        "token": "Starcoder2ForTokenClassification",
        "sequence": "Starcoder2ForSequenceClassification",
        "lm": "Starcoder2ForCausalLM",
    },
    causal=True,
    post_norm=False,
    own_activation="gelu_pytorch_tanh",
    config=_starcoder2_config,
    tensors=_starcoder2_tensors,
    block=("model.layers.0.mlp.c_fc", "model.layers.0.mlp.c_proj"),
    slot=lambda width: width // 2 - 1,
    places=False,
    attention=("sdpa",),
)
LLAMA = Architecture(
    name="llama",
    models={
        "token": "LlamaForTokenClassification",
        "sequence": "LlamaForSequenceClassification",
        "lm": "LlamaForCausalLM",
    },
    causal=True,
    post_norm=False,
    own_activation="silu",
    activation="silu",  # other programs that run Llama folders, such as llama.cpp, know no other
    config=_llama_config,
    tensors=_llama_tensors,
    block=("model.layers.0.mlp.gate_proj", "model.layers.0.mlp.down_proj"),
    places=False,
    short=True,
)
