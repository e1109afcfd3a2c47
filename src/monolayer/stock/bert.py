"""BERT and its kin: a norm behind the embedding, one behind attention, one behind the feed-forward block."""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.stock.architecture import Architecture, Frame, Tensors

POOLER = 64.0
"""Slope of the pooler: `tanh(64 y)` is ±1 to the last bit for every label coordinate `y` there is."""


def _config(frame: Frame) -> dict[str, Any]:
    return {
        "vocab_size": len(frame.tokens),
        "hidden_size": frame.width,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": len(frame.neurons.W_1),
        "hidden_act": frame.activation,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.0,
        "max_position_embeddings": frame.positions,
        "type_vocab_size": 2,
        "layer_norm_eps": frame.epsilon,
        "pad_token_id": frame.special["pad"],
        **frame.labels(),
    }


def _roberta_config(frame: Frame) -> dict[str, Any]:
    special = {"bos_token_id": frame.special["cls"], "eos_token_id": frame.special["sep"]}
    return {**_config(frame), **special}


def _distilbert_config(frame: Frame) -> dict[str, Any]:
    return {
        "vocab_size": len(frame.tokens),
        "dim": frame.width,
        "n_layers": 1,
        "n_heads": 1,
        "hidden_dim": len(frame.neurons.W_1),
        "activation": frame.activation,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0,
        "max_position_embeddings": frame.positions,
        "sinusoidal_pos_embds": False,
        "pad_token_id": frame.special["pad"],
        **frame.labels(),
    }


def _encoder(frame: Frame, prefix: str) -> Tensors:
    block, neurons, heads = f"{prefix}.encoder.layer.0", frame.neurons, frame.attention
    return {
        f"{prefix}.embeddings.word_embeddings.weight": frame.tokens,
        f"{prefix}.embeddings.position_embeddings.weight": frame.place_table(),
        f"{prefix}.embeddings.token_type_embeddings.weight": np.zeros((2, frame.width)),
        **frame.norm(f"{prefix}.embeddings.LayerNorm"),
        **frame.linear(f"{block}.attention.self.query", heads.W_Q, heads.b_Q),
        **frame.linear(f"{block}.attention.self.key", heads.W_K, heads.b_K),
        **frame.linear(f"{block}.attention.self.value", heads.W_V),
        **frame.linear(f"{block}.attention.output.dense", heads.W_O),
        **frame.norm(f"{block}.attention.output.LayerNorm"),
        **frame.linear(f"{block}.intermediate.dense", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.output.dense", neurons.W_2.T),
        **frame.norm(f"{block}.output.LayerNorm"),
    }


def _pooler(frame: Frame) -> Tensors:
    """A diagonal matrix whose tanh gives back the signs of the label word."""
    weight = np.zeros((frame.width, frame.width))
    weight[frame.label, frame.label] = POOLER
    return frame.linear("dense", weight)


def _named(tensors: Tensors, name: str) -> Tensors:
    return {key.replace("dense", name, 1): value for key, value in tensors.items()}


def _bert_tensors(frame: Frame) -> Tensors:
    pooler = _named(_pooler(frame), "bert.pooler.dense") if frame.task == "sequence" else {}
    return {**_encoder(frame, "bert"), **pooler, **frame.linear("classifier", frame.head)}


def _roberta_tensors(frame: Frame) -> Tensors:
    if frame.task == "token":
        return {**_encoder(frame, "roberta"), **frame.linear("classifier", frame.head)}
    head = {**_named(_pooler(frame), "classifier.dense"), **frame.linear("classifier.out_proj", frame.head)}
    return {**_encoder(frame, "roberta"), **head}


def _distilbert_tensors(frame: Frame) -> Tensors:
    block, neurons, heads = "distilbert.transformer.layer.0", frame.neurons, frame.attention
    tensors = {
        "distilbert.embeddings.word_embeddings.weight": frame.tokens,
        "distilbert.embeddings.position_embeddings.weight": frame.place_table(),
        **frame.norm("distilbert.embeddings.LayerNorm"),
        **frame.linear(f"{block}.attention.q_lin", heads.W_Q, heads.b_Q),
        **frame.linear(f"{block}.attention.k_lin", heads.W_K, heads.b_K),
        **frame.linear(f"{block}.attention.v_lin", heads.W_V),
        **frame.linear(f"{block}.attention.out_lin", heads.W_O),
        **frame.norm(f"{block}.sa_layer_norm"),
        **frame.linear(f"{block}.ffn.lin1", neurons.W_1, neurons.b_1),
        **frame.linear(f"{block}.ffn.lin2", neurons.W_2.T),
        **frame.norm(f"{block}.output_layer_norm"),
        **frame.linear("classifier", frame.head),
    }
    # Its pooler is a relu: of a label word it keeps the plus signs, in which two words differ as well.
    return tensors | (_named(_pooler(frame), "pre_classifier") if frame.task == "sequence" else {})


BERT = Architecture(
    name="bert",
    models={"token": "BertForTokenClassification", "sequence": "BertForSequenceClassification"},
    causal=False,
    post_norm=True,
    own_activation="gelu",
    config=_config,
    tensors=_bert_tensors,
    block=("bert.encoder.layer.0.intermediate.dense", "bert.encoder.layer.0.output.dense"),
)
ROBERTA = Architecture(
    name="roberta",
    models={"token": "RobertaForTokenClassification", "sequence": "RobertaForSequenceClassification"},
    causal=False,
    post_norm=True,
    own_activation="gelu",
    config=_roberta_config,
    tensors=_roberta_tensors,
    block=("roberta.encoder.layer.0.intermediate.dense", "roberta.encoder.layer.0.output.dense"),
    offset=1,  # places start behind that of padding: pad_token_id + 1
)
DISTILBERT = Architecture(
    name="distilbert",
    models={"token": "DistilBertForTokenClassification", "sequence": "DistilBertForSequenceClassification"},
    causal=False,
    post_norm=True,
    own_activation="gelu",
    config=_distilbert_config,
    tensors=_distilbert_tensors,
    block=("distilbert.transformer.layer.0.ffn.lin1", "distilbert.transformer.layer.0.ffn.lin2"),
    epsilon=1e-12,
)
