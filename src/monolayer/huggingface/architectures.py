"""The stock architectures: what Hugging Face calls their classes, tensors and settings.

From the architectures' own source (transformers 5.22). Folders are written by this table and read by it; the tests hold
it against transformers, which load and run every architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monolayer.errors import DataError, nearest
from monolayer.huggingface.architecture import BEGIN, END, TYPES, Architecture, Fact


def _within(block: str, **names: str) -> dict[str, str]:
    """Names of layers in a block: `in_`, `out` and `gate` of its neurons, the others by their letters."""
    letters = {"read": "1", "write": "2", "gate": "3"}
    return {letters.get(key, key): f"{block}.{name}" for key, name in names.items()}


def _bert(name: str, word: str, head: str, pooler: str, **more: Any) -> Architecture:
    block = f"{name}.encoder.layer.0"
    tables = {"tokens": "word", "places": "position", "types": "token_type"}
    return Architecture(
        name=name,
        word=word,
        tables={key: f"{name}.embeddings.{table}_embeddings.weight" for key, table in tables.items()},
        layers=_within(
            block,
            Q="attention.self.query",
            K="attention.self.key",
            V="attention.self.value",
            O="attention.output.dense",
            read="intermediate.dense",
            write="output.dense",
        ),
        norms=(f"{name}.embeddings.LayerNorm", f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"),
        heads={"token": "classifier", "sequence": head},
        pooler=pooler,
        own_activation="gelu",
        causal=False,
        post_norm=True,
        attention=("eager", "sdpa"),
        **more,
    )


def _llama(name: str, word: str, settings: Mapping[str, Any], **more: Any) -> Architecture:
    """Llama and its kin: rotary positions, so slow that they do nothing, over all coordinates."""
    block, projections = "model.layers.0", {letter: f"self_attn.{letter.lower()}_proj" for letter in "QKVO"}
    return Architecture(
        name=name,
        word=word,
        tables={"tokens": "model.embed_tokens.weight"},
        layers=_within(block, **projections, **more.pop("mlp")),
        norms=(f"{block}.input_layernorm", f"{block}.post_attention_layernorm", "model.norm"),
        heads={"token": "score", "sequence": "score", "lm": "lm_head"},
        settings={**_DECODER, "num_key_value_heads": 1, "rope_theta": Fact.THETA, "rope_parameters": _ROPE, **settings},
        still=lambda width: (width // 2 - 1, (1e30, width)),
        **more,
    )


_ONE_LAYER = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": Fact.WIDTH}
_ENDS = {"bos_token_id": BEGIN, "eos_token_id": END}
_OPT = {**_ONE_LAYER, **_ENDS, "max_position_embeddings": Fact.PLACES, "attention_dropout": 0.0}
_DECODER = {**_OPT, "intermediate_size": Fact.NEURONS, "hidden_act": Fact.ACTIVATION}
_ROPE = {"rope_type": "default", "rope_theta": Fact.THETA}
_BERT = {
    **_ONE_LAYER,
    "max_position_embeddings": Fact.PLACES,
    "intermediate_size": Fact.NEURONS,
    "hidden_act": Fact.ACTIVATION,
    "layer_norm_eps": Fact.EPSILON,
    "type_vocab_size": TYPES,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
}
_TABLE = (
    _bert("bert", "Bert", "classifier", "bert.pooler.dense", settings=_BERT),
    # RoBERTa counts places from pad_token_id + 1.
    _bert("roberta", "Roberta", "classifier.out_proj", "classifier.dense", settings={**_BERT, **_ENDS}, offset=1),
    Architecture(
        name="distilbert",
        word="DistilBert",
        tables={
            "tokens": "distilbert.embeddings.word_embeddings.weight",
            "places": "distilbert.embeddings.position_embeddings.weight",
        },
        layers=_within(
            "distilbert.transformer.layer.0",
            **{letter: f"attention.{letter.lower()}_lin" for letter in "QKV"},
            O="attention.out_lin",
            read="ffn.lin1",
            write="ffn.lin2",
        ),
        norms=(
            "distilbert.embeddings.LayerNorm",
            "distilbert.transformer.layer.0.sa_layer_norm",
            "distilbert.transformer.layer.0.output_layer_norm",
        ),
        heads={"token": "classifier", "sequence": "classifier"},
        settings={
            **{"dim": Fact.WIDTH, "n_layers": 1, "n_heads": 1, "hidden_dim": Fact.NEURONS},
            **{"activation": Fact.ACTIVATION, "max_position_embeddings": Fact.PLACES, "sinusoidal_pos_embds": False},
            **{"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0},
        },
        own_activation="gelu",
        causal=False,
        post_norm=True,
        pooler="pre_classifier",
        pool="relu",
        epsilon=1e-12,
        attention=("eager", "sdpa"),
    ),
    Architecture(
        name="gpt2",
        word="GPT2",
        tables={"tokens": "transformer.wte.weight", "places": "transformer.wpe.weight"},
        layers=_within(
            "transformer.h.0",
            **dict.fromkeys("QKV", "attn.c_attn"),
            O="attn.c_proj",
            read="mlp.c_fc",
            write="mlp.c_proj",
        ),
        norms=("transformer.h.0.ln_1", "transformer.h.0.ln_2", "transformer.ln_f"),
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        settings={
            **_ENDS,
            **{"n_embd": Fact.WIDTH, "n_layer": 1, "n_head": 1, "n_inner": Fact.NEURONS, "n_positions": Fact.PLACES},
            **{"activation_function": Fact.ACTIVATION, "layer_norm_epsilon": Fact.EPSILON},
            **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "classifier_dropout": 0.0},
        },
        own_activation="gelu_new",
        transposed=True,
        attention=("eager", "sdpa"),
    ),
    Architecture(
        name="opt",
        word="OPT",
        tables={"tokens": "model.decoder.embed_tokens.weight", "places": "model.decoder.embed_positions.weight"},
        layers=_within(
            "model.decoder.layers.0",
            **{letter: f"self_attn.{letter.lower()}_proj" for letter in "QKV"},
            O="self_attn.out_proj",
            read="fc1",
            write="fc2",
        ),
        norms=(
            "model.decoder.layers.0.self_attn_layer_norm",
            "model.decoder.layers.0.final_layer_norm",
            "model.decoder.final_layer_norm",
        ),
        heads={"sequence": "score", "lm": "lm_head"},
        settings={
            **_OPT,
            **{"word_embed_proj_dim": Fact.WIDTH, "ffn_dim": Fact.NEURONS, "activation_function": Fact.ACTIVATION},
            **{"dropout": 0.0, "layerdrop": 0.0},
        },
        own_activation="relu",
        epsilon=1e-5,
        offset=2,
        hidden_rows=2,
    ),
    Architecture(
        name="gpt_neox",
        word="GPTNeoX",
        tables={"tokens": "gpt_neox.embed_in.weight"},
        layers=_within(
            "gpt_neox.layers.0",
            **dict.fromkeys("QKV", "attention.query_key_value"),
            O="attention.dense",
            read="mlp.dense_h_to_4h",
            write="mlp.dense_4h_to_h",
        ),
        norms=(
            "gpt_neox.layers.0.input_layernorm",
            "gpt_neox.layers.0.post_attention_layernorm",
            "gpt_neox.final_layer_norm",
        ),
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        settings={
            **_DECODER,
            **{"hidden_dropout": 0.0, "classifier_dropout": 0.0, "layer_norm_eps": Fact.EPSILON},
            **{"use_parallel_residual": False, "rotary_pct": Fact.TURNED},
            "rope_parameters": {**_ROPE, "partial_rotary_factor": Fact.TURNED},
        },
        own_activation="gelu",
        still=lambda width: (width - 1, (10000.0, 2)),  # two coordinates are turned, the last is not
    ),
    _llama(
        "starcoder2",
        "Starcoder2",
        {
            **{"residual_dropout": 0.0, "embedding_dropout": 0.0, "classifier_dropout": 0.0},
            **{"norm_epsilon": Fact.EPSILON, "sliding_window": None, "use_bias": True},
        },
        mlp={"read": "mlp.c_fc", "write": "mlp.c_proj"},
        own_activation="gelu_pytorch_tanh",
    ),
    _llama(
        "llama",
        "Llama",
        {"head_dim": Fact.WIDTH, "rms_norm_eps": Fact.EPSILON, "attention_bias": True, "mlp_bias": True},
        mlp={"read": "mlp.gate_proj", "write": "mlp.down_proj", "gate": "mlp.up_proj"},
        own_activation="silu",
        activation="silu",  # other programs that run Llama folders, such as llama.cpp, know no other
        rms=True,
    ),
)
ARCHITECTURES = {one.name: one for one in _TABLE}


def choose(name: str) -> Architecture:
    """The architecture of this name, or an error with the nearest name."""
    if isinstance(name, str) and name in ARCHITECTURES:  # what is no string may have no hash
        return ARCHITECTURES[name]
    near = nearest(str(name).lower().replace("-", "_"), ARCHITECTURES)
    hint = f"did you mean {near[0]!r}? Known" if near else "known"
    raise DataError(f"architecture {name!r} is not known: {hint} are {', '.join(ARCHITECTURES)}")
