"""BERT and RoBERTa, which differ in the head of sequences and in where places begin."""

from __future__ import annotations

from collections.abc import Mapping

from monolayer.huggingface.architecture import ENDS, ONE_LAYER, TYPES, Architecture, ModelSetting, Setting
from monolayer.huggingface.stock_kind import StockKind

_SETTINGS: dict[str, Setting] = {
    **ONE_LAYER,
    "max_position_embeddings": ModelSetting.PLACES,
    "intermediate_size": ModelSetting.NEURONS,
    "hidden_act": ModelSetting.ACTIVATION,
    "layer_norm_eps": ModelSetting.EPSILON,
    "type_vocab_size": TYPES,
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0},
}


def _bert(name: str, word: str, settings: Mapping[str, Setting]) -> Architecture:
    """The names that BERT and RoBERTa share."""
    return Architecture(
        name,
        word,
        root=f"{name}.",
        blocks="encoder.layer",
        tables={
            "tokens": "embeddings.word_embeddings",
            "places": "embeddings.position_embeddings",
            "types": "embeddings.token_type_embeddings",
        },
        layers={
            "Q": "attention.self.query",
            "K": "attention.self.key",
            "V": "attention.self.value",
            "O": "attention.output.dense",
            "1": "intermediate.dense",
            "2": "output.dense",
        },
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        outer_norm="embeddings.LayerNorm",
        settings=settings,
        causal=False,
    )


STOCK = StockKind(
    _bert("bert", "Bert", _SETTINGS),
    heads={"token": "classifier", "sequence": "classifier"},
    pooler="bert.pooler.dense",
    eager=True,
)
ROBERTA_STOCK = StockKind(
    _bert("roberta", "Roberta", {**_SETTINGS, **ENDS}),
    heads={"token": "classifier", "sequence": "classifier.out_proj"},
    pooler="classifier.dense",
    offset=1,  # RoBERTa counts places from pad_token_id + 1
    eager=True,
)
