"""The stock architectures: what Hugging Face calls their classes, tensors and settings.

From the architectures' own source (transformers 5.22). Folders are written by this table and read by it; the tests hold
it against transformers, which load and run every architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monolayer.errors import DataError, nearest
from monolayer.huggingface.architecture import BEGIN, END, TYPES, Architecture, ModelSetting

_ONE_LAYER = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": ModelSetting.WIDTH}
_ENDS = {"bos_token_id": BEGIN, "eos_token_id": END}
_OPT = {**_ONE_LAYER, **_ENDS, "max_position_embeddings": ModelSetting.PLACES, "attention_dropout": 0.0}
_DECODER = {**_OPT, "intermediate_size": ModelSetting.NEURONS, "hidden_act": ModelSetting.ACTIVATION}
_ROPE = {"rope_type": "default", "rope_theta": ModelSetting.THETA}
_BERT = {
    **_ONE_LAYER,
    **{
        "max_position_embeddings": ModelSetting.PLACES,
        "intermediate_size": ModelSetting.NEURONS,
        "hidden_act": ModelSetting.ACTIVATION,
    },
    **{"layer_norm_eps": ModelSetting.EPSILON, "type_vocab_size": TYPES},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0},
}


def _row(name: str, word: str, tables: str, block: str, layers: str, norms: str, **more: Any) -> Architecture:
    """Names of tensors one after the other, in the order of our letters; inside the block those that begin with a dot.

    `tables` of tokens, places and types; `layers` Q, K, V, O and those of neurons, 1, 2, 3; `norms` as they come.
    """

    def names(said: str) -> list[str]:
        return [block + one if one[0] == "." else one for one in said.split()]

    return Architecture(
        name=name,
        word=word,
        tables={key: f"{one}.weight" for key, one in zip(("tokens", "places", "types"), names(tables), strict=False)},
        layers=dict(zip("QKVO123", names(layers), strict=False)),
        norms=tuple(names(norms)),
        **more,
    )


def _bert(name: str, word: str, head: str, **more: Any) -> Architecture:
    tables = (f"{name}.embeddings.{table}_embeddings" for table in ("word", "position", "token_type"))
    return _row(
        name,
        word,
        " ".join(tables),
        f"{name}.encoder.layer.0",
        ".attention.self.query .attention.self.key .attention.self.value .attention.output.dense "
        ".intermediate.dense .output.dense",
        f"{name}.embeddings.LayerNorm .attention.output.LayerNorm .output.LayerNorm",
        heads={"token": "classifier", "sequence": head},
        causal=False,
        eager=True,
        **more,
    )


def _llama(name: str, word: str, mlp: str, settings: Mapping[str, Any], **more: Any) -> Architecture:
    """Llama and its kin: rotary positions, so slow that they do nothing, over all coordinates."""
    return _row(
        name,
        word,
        "model.embed_tokens",
        "model.layers.0",
        f".self_attn.q_proj .self_attn.k_proj .self_attn.v_proj .self_attn.o_proj {mlp}",
        ".input_layernorm .post_attention_layernorm model.norm",
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
        "distilbert.embeddings.word_embeddings distilbert.embeddings.position_embeddings",
        "distilbert.transformer.layer.0",
        ".attention.q_lin .attention.k_lin .attention.v_lin .attention.out_lin .ffn.lin1 .ffn.lin2",
        "distilbert.embeddings.LayerNorm .sa_layer_norm .output_layer_norm",
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
        "transformer.wte transformer.wpe",
        "transformer.h.0",
        ".attn.c_attn .attn.c_attn .attn.c_attn .attn.c_proj .mlp.c_fc .mlp.c_proj",
        ".ln_1 .ln_2 transformer.ln_f",
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
        "model.decoder.embed_tokens model.decoder.embed_positions",
        "model.decoder.layers.0",
        ".self_attn.q_proj .self_attn.k_proj .self_attn.v_proj .self_attn.out_proj .fc1 .fc2",
        ".self_attn_layer_norm .final_layer_norm model.decoder.final_layer_norm",
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
        "gpt_neox.embed_in",
        "gpt_neox.layers.0",
        ".attention.query_key_value .attention.query_key_value .attention.query_key_value .attention.dense "
        ".mlp.dense_h_to_4h .mlp.dense_4h_to_h",
        ".input_layernorm .post_attention_layernorm gpt_neox.final_layer_norm",
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        settings={
            **_DECODER,
            **{"hidden_dropout": 0.0, "classifier_dropout": 0.0, "layer_norm_eps": ModelSetting.EPSILON},
            **{"use_parallel_residual": False, "rotary_pct": ModelSetting.TURNED},
            "rope_parameters": {**_ROPE, "partial_rotary_factor": ModelSetting.TURNED},
        },
        still=lambda width: (width - 1, (10000.0, 2)),  # two coordinates are turned, the last is not
    ),
    _llama(
        "starcoder2",
        "Starcoder2",
        ".mlp.c_fc .mlp.c_proj",
        {
            **{"residual_dropout": 0.0, "embedding_dropout": 0.0, "classifier_dropout": 0.0},
            **{"norm_epsilon": ModelSetting.EPSILON, "sliding_window": None, "use_bias": True},
        },
    ),
    _llama(
        "llama",
        "Llama",
        ".mlp.gate_proj .mlp.down_proj .mlp.up_proj",
        {
            "head_dim": ModelSetting.WIDTH,
            "rms_norm_eps": ModelSetting.EPSILON,
            "attention_bias": True,
            "mlp_bias": True,
        },
        activation="silu",  # other programs that run Llama folders, such as llama.cpp, know no other
        rms=True,
    ),
)
ARCHITECTURES = {one.name: one for one in _TABLE}


def architecture_named(name: str) -> Architecture:
    """The architecture of this name, or an error with the nearest name."""
    if isinstance(name, str) and name in ARCHITECTURES:  # what is no string may have no hash
        return ARCHITECTURES[name]
    near = nearest(str(name).lower().replace("-", "_"), ARCHITECTURES)
    hint = f"did you mean {near[0]!r}? Known" if near else "known"
    raise DataError(f"architecture {name!r} is not known: {hint} are {', '.join(ARCHITECTURES)}")
