"""The stock architectures: what Hugging Face calls their classes, tensors and settings.

The table is taken from the source of transformers 5.23. Folders are written and read by it. The tests compare it with
transformers, which loads and runs every architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monolayer.errors import DataError, similar_words
from monolayer.huggingface.architecture import BEGIN, END, TYPES, Architecture, ModelSetting, Setting

TRANSFORMERS = "5.23"
"""The version of transformers whose source the tables of architectures were read from."""
_ONE_LAYER: dict[str, Setting] = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": ModelSetting.WIDTH}
_ENDS: dict[str, Setting] = {"bos_token_id": BEGIN, "eos_token_id": END}
_OPT: dict[str, Setting] = {
    **_ONE_LAYER,
    **_ENDS,
    "max_position_embeddings": ModelSetting.PLACES,
    "attention_dropout": 0.0,
}
_DECODER: dict[str, Setting] = {
    **_OPT,
    "intermediate_size": ModelSetting.NEURONS,
    "hidden_act": ModelSetting.ACTIVATION,
}
_ROPE: dict[str, Setting] = {"rope_type": "default", "rope_theta": ModelSetting.THETA}
_BERT: dict[str, Setting] = {
    **_ONE_LAYER,
    **{
        "max_position_embeddings": ModelSetting.PLACES,
        "intermediate_size": ModelSetting.NEURONS,
        "hidden_act": ModelSetting.ACTIVATION,
    },
    **{"layer_norm_eps": ModelSetting.EPSILON, "type_vocab_size": TYPES},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0},
}


def _row(
    name: str,
    word: str,
    *,
    tables: Mapping[str, str],
    block: str,
    layers: Mapping[str, str],
    norms: tuple[str, str, str],
    **more: Any,
) -> Architecture:
    """Make a row of the table. Names of layers and norms that begin with a dot are inside the `block`.

    `tables` are those of tokens, places and types. `layers` are given by their letters, and `norms` in the order of
    evaluation. `more` holds other fields of `Architecture`.
    """

    def whole(tensor: str) -> str:
        """The full name of a layer or norm."""
        return block + tensor if tensor.startswith(".") else tensor

    return Architecture(
        name=name,
        word=word,
        tables={key: f"{table}.weight" for key, table in tables.items()},
        layers={letter: whole(layer) for letter, layer in layers.items()},
        norms=tuple(whole(norm) for norm in norms),
        **more,
    )


def _bert(name: str, word: str, head: str, **more: object) -> Architecture:
    """Make the row of BERT or RoBERTa, which differ in the `head` of sequences and in `more` fields."""
    return _row(
        name,
        word,
        tables={
            "tokens": f"{name}.embeddings.word_embeddings",
            "places": f"{name}.embeddings.position_embeddings",
            "types": f"{name}.embeddings.token_type_embeddings",
        },
        block=f"{name}.encoder.layer.0",
        layers={
            "Q": ".attention.self.query",
            "K": ".attention.self.key",
            "V": ".attention.self.value",
            "O": ".attention.output.dense",
            "1": ".intermediate.dense",
            "2": ".output.dense",
        },
        norms=(f"{name}.embeddings.LayerNorm", ".attention.output.LayerNorm", ".output.LayerNorm"),
        heads={"token": "classifier", "sequence": head},
        causal=False,
        eager=True,
        **more,
    )


def _llama(
    name: str, word: str, neurons: Mapping[str, str], settings: Mapping[str, Setting], **more: object
) -> Architecture:
    """Make the row of Llama or Starcoder2, which rotate all coordinates, here so slowly that it has no effect.

    `neurons`: the layers of the feed-forward block by their letters. `settings`: the keys that the other one lacks.
    `more`: other fields of `Architecture`.
    """
    return _row(
        name,
        word,
        tables={"tokens": "model.embed_tokens"},
        block="model.layers.0",
        layers={
            "Q": ".self_attn.q_proj",
            "K": ".self_attn.k_proj",
            "V": ".self_attn.v_proj",
            "O": ".self_attn.o_proj",
            **neurons,
        },
        norms=(".input_layernorm", ".post_attention_layernorm", "model.norm"),
        heads={"token": "score", "sequence": "score", "lm": "lm_head"},
        settings={
            **_DECODER,
            "num_key_value_heads": 1,
            "rope_theta": ModelSetting.THETA,
            "rope_parameters": _ROPE,
            **settings,
        },
        still=lambda width: (width // 2 - 1, (1e30, width)),
        **more,
    )


_TABLE = (
    _bert("bert", "Bert", "classifier", pooler="bert.pooler.dense", settings=_BERT),
    # RoBERTa counts places from pad_token_id + 1.
    _bert(
        "roberta", "Roberta", "classifier.out_proj", pooler="classifier.dense", settings={**_BERT, **_ENDS}, offset=1
    ),
    _row(
        "distilbert",
        "DistilBert",
        tables={
            "tokens": "distilbert.embeddings.word_embeddings",
            "places": "distilbert.embeddings.position_embeddings",
        },
        block="distilbert.transformer.layer.0",
        layers={
            "Q": ".attention.q_lin",
            "K": ".attention.k_lin",
            "V": ".attention.v_lin",
            "O": ".attention.out_lin",
            "1": ".ffn.lin1",
            "2": ".ffn.lin2",
        },
        norms=("distilbert.embeddings.LayerNorm", ".sa_layer_norm", ".output_layer_norm"),
        heads={"token": "classifier", "sequence": "classifier"},
        settings={
            **{"dim": ModelSetting.WIDTH, "n_layers": 1, "n_heads": 1, "hidden_dim": ModelSetting.NEURONS},
            **{
                "activation": ModelSetting.ACTIVATION,
                "max_position_embeddings": ModelSetting.PLACES,
                "sinusoidal_pos_embds": False,
            },
            **{"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
        },
        causal=False,
        pooler="pre_classifier",
        pool="relu",
        epsilon=1e-12,
        eager=True,
    ),
    _row(
        "gpt2",
        "GPT2",
        tables={"tokens": "transformer.wte", "places": "transformer.wpe"},
        block="transformer.h.0",
        layers={
            **dict.fromkeys("QKV", ".attn.c_attn"),
            "O": ".attn.c_proj",
            "1": ".mlp.c_fc",
            "2": ".mlp.c_proj",
        },
        norms=(".ln_1", ".ln_2", "transformer.ln_f"),
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        settings={
            **_ENDS,
            **{
                "n_embd": ModelSetting.WIDTH,
                "n_layer": 1,
                "n_head": 1,
                "n_inner": ModelSetting.NEURONS,
                "n_positions": ModelSetting.PLACES,
            },
            **{"activation_function": ModelSetting.ACTIVATION, "layer_norm_epsilon": ModelSetting.EPSILON},
            **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "classifier_dropout": 0.0},
        },
        transposed=True,
        eager=True,
    ),
    _row(
        "opt",
        "OPT",
        tables={"tokens": "model.decoder.embed_tokens", "places": "model.decoder.embed_positions"},
        block="model.decoder.layers.0",
        layers={
            "Q": ".self_attn.q_proj",
            "K": ".self_attn.k_proj",
            "V": ".self_attn.v_proj",
            "O": ".self_attn.out_proj",
            "1": ".fc1",
            "2": ".fc2",
        },
        norms=(".self_attn_layer_norm", ".final_layer_norm", "model.decoder.final_layer_norm"),
        heads={"sequence": "score", "lm": "lm_head"},
        settings={
            **_OPT,
            **{
                "word_embed_proj_dim": ModelSetting.WIDTH,
                "ffn_dim": ModelSetting.NEURONS,
                "activation_function": ModelSetting.ACTIVATION,
            },
            **{"dropout": 0.0, "layerdrop": 0.0},
        },
        epsilon=1e-5,
        offset=2,
        hidden_rows=2,
    ),
    _row(
        "gpt_neox",
        "GPTNeoX",
        tables={"tokens": "gpt_neox.embed_in"},
        block="gpt_neox.layers.0",
        layers={
            **dict.fromkeys("QKV", ".attention.query_key_value"),
            "O": ".attention.dense",
            "1": ".mlp.dense_h_to_4h",
            "2": ".mlp.dense_4h_to_h",
        },
        norms=(".input_layernorm", ".post_attention_layernorm", "gpt_neox.final_layer_norm"),
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        settings={
            **_DECODER,
            **{"hidden_dropout": 0.0, "classifier_dropout": 0.0, "layer_norm_eps": ModelSetting.EPSILON},
            **{"use_parallel_residual": False, "rotary_pct": ModelSetting.TURNED},
            "rope_parameters": {**_ROPE, "partial_rotary_factor": ModelSetting.TURNED},
        },
        still=lambda width: (width - 1, (10000.0, 2)),  # two coordinates are rotated, and the last one is not
    ),
    _llama(
        "starcoder2",
        "Starcoder2",
        {"1": ".mlp.c_fc", "2": ".mlp.c_proj"},
        {
            **{"residual_dropout": 0.0, "embedding_dropout": 0.0, "classifier_dropout": 0.0},
            **{"norm_epsilon": ModelSetting.EPSILON, "sliding_window": None, "use_bias": True},
        },
    ),
    _llama(
        "llama",
        "Llama",
        {"1": ".mlp.gate_proj", "2": ".mlp.down_proj", "3": ".mlp.up_proj"},
        {
            "head_dim": ModelSetting.WIDTH,
            "rms_norm_eps": ModelSetting.EPSILON,
            "attention_bias": True,
            "mlp_bias": True,
        },
        activation="silu",  # the only one that other programs for Llama folders, such as llama.cpp, support
        rms=True,
    ),
)
ARCHITECTURES = {one.name: one for one in _TABLE}


def architecture_named(name: str) -> Architecture:
    """The architecture called `name`; for an unknown name, an error that suggests the nearest known one."""
    if isinstance(name, str) and name in ARCHITECTURES:  # anything but a string may not be hashable
        return ARCHITECTURES[name]
    near = similar_words(str(name).lower().replace("-", "_"), ARCHITECTURES)
    hint = f"did you mean {near[0]!r}? Known" if near else "known"
    raise DataError(f"architecture {name!r} is not known: {hint} are {', '.join(ARCHITECTURES)}")
