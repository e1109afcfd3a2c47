"""DistilBERT."""

from __future__ import annotations

from monolayer.huggingface.architecture import Architecture, ModelSetting
from monolayer.huggingface.stock_kind import StockKind

DISTILBERT = Architecture(
    "distilbert",
    "DistilBert",
    root="distilbert.",
    blocks="transformer.layer",
    tables={"tokens": "embeddings.word_embeddings", "places": "embeddings.position_embeddings"},
    layers={
        "Q": "attention.q_lin",
        "K": "attention.k_lin",
        "V": "attention.v_lin",
        "O": "attention.out_lin",
        "1": "ffn.lin1",
        "2": "ffn.lin2",
    },
    norms=("sa_layer_norm", "output_layer_norm"),
    outer_norm="embeddings.LayerNorm",
    settings={
        "dim": ModelSetting.WIDTH,
        "n_layers": ModelSetting.DEPTH,
        "n_heads": 1,
        "hidden_dim": ModelSetting.NEURONS,
        "activation": ModelSetting.ACTIVATION,
        "max_position_embeddings": ModelSetting.PLACES,
        "sinusoidal_pos_embds": False,
        **{"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
    },
    causal=False,
)
STOCK = StockKind(
    DISTILBERT,
    heads={"token": "classifier", "sequence": "classifier"},
    pooler="pre_classifier",
    pool="relu",
    epsilon=1e-12,
    eager=True,
)
