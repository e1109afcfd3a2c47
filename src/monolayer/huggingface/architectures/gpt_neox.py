"""GPT-NeoX, which also runs Pythia."""

from __future__ import annotations

from monolayer.huggingface.architecture import Architecture, ModelSetting
from monolayer.huggingface.architectures.rotary import DECODER, ROPE, ROTARY_KEYS
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.stock_kind import StockKind

GPT_NEOX = Architecture(
    "gpt_neox",
    "GPTNeoX",
    root="gpt_neox.",
    blocks="layers",
    tables={"tokens": "embed_in"},
    layers={
        **dict.fromkeys("QKV", "attention.query_key_value"),
        "O": "attention.dense",
        "1": "mlp.dense_h_to_4h",
        "2": "mlp.dense_4h_to_h",
    },
    norms=("input_layernorm", "post_attention_layernorm"),
    outer_norm="final_layer_norm",
    settings={
        **DECODER,
        **{"hidden_dropout": 0.0, "classifier_dropout": 0.0, "layer_norm_eps": ModelSetting.EPSILON},
        **{"use_parallel_residual": False, "rotary_pct": ModelSetting.TURNED},
        "rope_parameters": {**ROPE, "partial_rotary_factor": ModelSetting.TURNED},
    },
)
STOCK = StockKind(
    GPT_NEOX,
    heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
    still=lambda width: (width - 1, (10000.0, 2)),  # two coordinates are rotated, and the last one is not
)
HOST = HostKind(
    GPT_NEOX,
    activation="gelu",
    tied=False,
    head="embed_out.weight",
    attention_bias=("attention_bias", True),
    theta_key="rotary_emb_base",
    turned=0.25,
    more_keys=ROTARY_KEYS + "attention_bias rotary_emb_base attention_probs_dropout_prob hidden_dropout_prob",
)
