"""GPT-2."""

from __future__ import annotations

from monolayer.huggingface.architecture import ENDS, Architecture, ModelSetting
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.stock_kind import StockKind

GPT2 = Architecture(
    "gpt2",
    "GPT2",
    root="transformer.",
    blocks="h",
    tables={"tokens": "wte", "places": "wpe"},
    layers={**dict.fromkeys("QKV", "attn.c_attn"), "O": "attn.c_proj", "1": "mlp.c_fc", "2": "mlp.c_proj"},
    norms=("ln_1", "ln_2"),
    outer_norm="ln_f",
    settings={
        **ENDS,
        "n_embd": ModelSetting.WIDTH,
        "n_layer": ModelSetting.DEPTH,
        "n_head": 1,
        "n_inner": ModelSetting.NEURONS,
        "n_positions": ModelSetting.PLACES,
        "activation_function": ModelSetting.ACTIVATION,
        "layer_norm_epsilon": ModelSetting.EPSILON,
        **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "classifier_dropout": 0.0},
    },
    transposed=True,
    classes={"lm": "GPT2LMHeadModel"},
)
STOCK = StockKind(
    GPT2,
    heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
    counts_padding=True,
    eager=True,
)
HOST = HostKind(
    GPT2,
    activation="gelu_new",
    demands={"add_cross_attention": False},
    more_keys="""
        n_ctx reorder_and_upcast_attn scale_attn_by_inverse_layer_idx scale_attn_weights
        summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels summary_type
        summary_use_proj n_special predict_special_tokens output_past _num_labels
    """,
)
