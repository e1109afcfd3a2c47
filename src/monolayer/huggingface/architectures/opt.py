"""OPT."""

from __future__ import annotations

from monolayer.huggingface.architecture import ENDS, ONE_LAYER, Architecture, ModelSetting
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.stock_kind import StockKind

OPT = Architecture(
    "opt",
    "OPT",
    root="model.decoder.",
    blocks="layers",
    tables={"tokens": "embed_tokens", "places": "embed_positions"},
    layers={
        "Q": "self_attn.q_proj",
        "K": "self_attn.k_proj",
        "V": "self_attn.v_proj",
        "O": "self_attn.out_proj",
        "1": "fc1",
        "2": "fc2",
    },
    norms=("self_attn_layer_norm", "final_layer_norm"),
    outer_norm="final_layer_norm",
    settings={
        **ONE_LAYER,
        **ENDS,
        "max_position_embeddings": ModelSetting.PLACES,
        "attention_dropout": 0.0,
        "word_embed_proj_dim": ModelSetting.WIDTH,
        "ffn_dim": ModelSetting.NEURONS,
        "activation_function": ModelSetting.ACTIVATION,
        **{"dropout": 0.0, "layerdrop": 0.0},
    },
)
STOCK = StockKind(OPT, heads={"sequence": "score", "lm": "lm_head"}, epsilon=1e-5, offset=2, hidden_rows=2)
HOST = HostKind(
    OPT,
    activation="relu",
    demands={
        **{"do_layer_norm_before": True, "_remove_final_layer_norm": False},
        **{"enable_bias": True, "layer_norm_elementwise_affine": True},
    },
    more_keys="activation_dropout init_std",
)
