"""Llama, and what its kin share with it: the names of tensors and rotary positions."""

from __future__ import annotations

from collections.abc import Mapping

from monolayer.huggingface.architecture import Architecture, ModelSetting, Setting
from monolayer.huggingface.architectures.rotary import DECODER, ROPE, ROTARY_KEYS
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.stock_kind import StockKind


def llama_like(
    name: str, word: str, neurons: Mapping[str, str], settings: Mapping[str, Setting], *, rms: bool
) -> Architecture:
    """An architecture with the names of Llama.

    `neurons`: the layers of the feed-forward block by their letters. `settings`: its own keys of `config.json`.
    """
    return Architecture(
        name,
        word,
        root="model.",
        blocks="layers",
        tables={"tokens": "embed_tokens"},
        layers={
            "Q": "self_attn.q_proj",
            "K": "self_attn.k_proj",
            "V": "self_attn.v_proj",
            "O": "self_attn.o_proj",
            **neurons,
        },
        norms=("input_layernorm", "post_attention_layernorm"),
        outer_norm="norm",
        settings={
            **DECODER,
            "num_key_value_heads": 1,
            "rope_theta": ModelSetting.THETA,
            "rope_parameters": ROPE,
            **settings,
        },
        rms=rms,
    )


def llama_stock(architecture: Architecture, activation: str = "relu6") -> StockKind:
    """An architecture like Llama with one layer. It rotates all coordinates, so slowly that it has no effect."""
    return StockKind(
        architecture,
        heads={"token": "score", "sequence": "score", "lm": "lm_head"},
        activation=activation,
        still=lambda width: (width // 2 - 1, (1e30, width)),
    )


LLAMA = llama_like(
    "llama",
    "Llama",
    {"1": "mlp.gate_proj", "2": "mlp.down_proj", "3": "mlp.up_proj"},
    {
        "head_dim": ModelSetting.WIDTH,
        "rms_norm_eps": ModelSetting.EPSILON,
        "attention_bias": True,
        "mlp_bias": True,
    },
    rms=True,
)
STOCK = llama_stock(LLAMA, activation="silu")  # the only one that llama.cpp and others support for Llama folders
HOST = HostKind(
    LLAMA,
    activation="silu",
    epsilon=1e-6,
    tied=False,
    bias_key="mlp_bias",
    attention_bias=("attention_bias", False),
    more_keys=ROTARY_KEYS + "max_sequence_length rope_interleaved is_llama_config original_max_position_embeddings",
)
