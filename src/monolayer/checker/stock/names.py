"""What each architecture calls its tensors and its sizes, and which of its settings the proofs assume.

From the architectures' own source (transformers 5.22): a mistake here would be found by the tests, which run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Task = Literal["token", "sequence", "lm"]


@dataclass(frozen=True)
class Layers:
    """Names of the tensors. `fused`: query, key and value in one matrix; `transposed`: matrices as `(in, out)`."""

    tokens: str
    places: str | None
    zeros: tuple[str, ...]
    fused: str | None
    separate: tuple[str, ...]
    out: str
    norms: tuple[str, ...]
    first: str
    second: str
    heads: Mapping[Task, str]
    post_norm: bool
    causal: bool
    transposed: bool = False
    pooler: Mapping[Task, str] = field(default_factory=dict)
    pool: Literal["tanh", "relu"] = "tanh"
    offset: int = 0
    hidden_rows: int = 0
    epsilon: float | None = None


def _bert(prefix: str, heads: Mapping[Task, str], pooler: str, offset: int) -> Layers:
    block = f"{prefix}.encoder.layer.0"
    return Layers(
        tokens=f"{prefix}.embeddings.word_embeddings.weight",
        places=f"{prefix}.embeddings.position_embeddings.weight",
        zeros=(f"{prefix}.embeddings.token_type_embeddings.weight",),
        fused=None,
        separate=tuple(f"{block}.attention.self.{name}" for name in ("query", "key", "value")),
        out=f"{block}.attention.output.dense",
        norms=(f"{prefix}.embeddings.LayerNorm", f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"),
        first=f"{block}.intermediate.dense",
        second=f"{block}.output.dense",
        heads=heads,
        post_norm=True,
        causal=False,
        pooler={"sequence": pooler},
        offset=offset,
    )


_NEOX, _STAR, _OPT, _DISTIL = "gpt_neox.layers.0", "model.layers.0", "model.decoder.layers.0", "transformer.layer.0"
LAYERS = {
    "bert": _bert("bert", {"token": "classifier", "sequence": "classifier"}, "bert.pooler.dense", 0),
    "roberta": _bert("roberta", {"token": "classifier", "sequence": "classifier.out_proj"}, "classifier.dense", 1),
    "distilbert": Layers(
        tokens="distilbert.embeddings.word_embeddings.weight",
        places="distilbert.embeddings.position_embeddings.weight",
        zeros=(),
        fused=None,
        separate=tuple(f"distilbert.{_DISTIL}.attention.{name}_lin" for name in "qkv"),
        out=f"distilbert.{_DISTIL}.attention.out_lin",
        norms=(
            "distilbert.embeddings.LayerNorm",
            f"distilbert.{_DISTIL}.sa_layer_norm",
            f"distilbert.{_DISTIL}.output_layer_norm",
        ),
        first=f"distilbert.{_DISTIL}.ffn.lin1",
        second=f"distilbert.{_DISTIL}.ffn.lin2",
        heads={"token": "classifier", "sequence": "classifier"},
        post_norm=True,
        causal=False,
        pooler={"sequence": "pre_classifier"},
        pool="relu",
        epsilon=1e-12,
    ),
    "gpt2": Layers(
        tokens="transformer.wte.weight",
        places="transformer.wpe.weight",
        zeros=(),
        fused="transformer.h.0.attn.c_attn",
        separate=(),
        out="transformer.h.0.attn.c_proj",
        norms=("transformer.h.0.ln_1", "transformer.h.0.ln_2", "transformer.ln_f"),
        first="transformer.h.0.mlp.c_fc",
        second="transformer.h.0.mlp.c_proj",
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        post_norm=False,
        causal=True,
        transposed=True,
    ),
    "opt": Layers(
        tokens="model.decoder.embed_tokens.weight",
        places="model.decoder.embed_positions.weight",
        zeros=(),
        fused=None,
        separate=tuple(f"{_OPT}.self_attn.{name}_proj" for name in "qkv"),
        out=f"{_OPT}.self_attn.out_proj",
        norms=(f"{_OPT}.self_attn_layer_norm", f"{_OPT}.final_layer_norm", "model.decoder.final_layer_norm"),
        first=f"{_OPT}.fc1",
        second=f"{_OPT}.fc2",
        heads={"sequence": "score", "lm": "lm_head"},
        post_norm=False,
        causal=True,
        offset=2,
        hidden_rows=2,
        epsilon=1e-5,
    ),
    "gpt_neox": Layers(
        tokens="gpt_neox.embed_in.weight",
        places=None,
        zeros=(),
        fused=f"{_NEOX}.attention.query_key_value",
        separate=(),
        out=f"{_NEOX}.attention.dense",
        norms=(f"{_NEOX}.input_layernorm", f"{_NEOX}.post_attention_layernorm", "gpt_neox.final_layer_norm"),
        first=f"{_NEOX}.mlp.dense_h_to_4h",
        second=f"{_NEOX}.mlp.dense_4h_to_h",
        heads={"token": "classifier", "sequence": "score", "lm": "lm_head"},
        post_norm=False,
        causal=True,
    ),
    "starcoder2": Layers(
        tokens="model.embed_tokens.weight",
        places=None,
        zeros=(),
        fused=None,
        separate=tuple(f"{_STAR}.self_attn.{name}_proj" for name in "qkv"),
        out=f"{_STAR}.self_attn.o_proj",
        norms=(f"{_STAR}.input_layernorm", f"{_STAR}.post_attention_layernorm", "model.norm"),
        first=f"{_STAR}.mlp.c_fc",
        second=f"{_STAR}.mlp.c_proj",
        heads={"token": "score", "sequence": "score", "lm": "lm_head"},
        post_norm=False,
        causal=True,
    ),
}
TASKS: dict[str, Task] = {
    "BertForTokenClassification": "token",
    "BertForSequenceClassification": "sequence",
    "RobertaForTokenClassification": "token",
    "RobertaForSequenceClassification": "sequence",
    "DistilBertForTokenClassification": "token",
    "DistilBertForSequenceClassification": "sequence",
    "GPT2ForTokenClassification": "token",
    "GPT2ForSequenceClassification": "sequence",
    "GPT2LMHeadModel": "lm",
    "OPTForSequenceClassification": "sequence",
    "OPTForCausalLM": "lm",
    "GPTNeoXForTokenClassification": "token",
    "GPTNeoXForSequenceClassification": "sequence",
    "GPTNeoXForCausalLM": "lm",
    "Starcoder2ForTokenClassification": "token",
    "Starcoder2ForSequenceClassification": "sequence",
    "Starcoder2ForCausalLM": "lm",
}

_COMMON = {"width": "hidden_size", "vocabulary": "vocab_size", "positions": "max_position_embeddings"}
_BERT = {**_COMMON, "neurons": "intermediate_size", "epsilon": "layer_norm_eps", "activation": "hidden_act"}
SIZES: dict[str, dict[str, str]] = {
    "bert": _BERT,
    "roberta": _BERT,
    "distilbert": {**_COMMON, "width": "dim", "neurons": "hidden_dim", "activation": "activation"},
    "gpt2": {
        "width": "n_embd",
        "vocabulary": "vocab_size",
        "positions": "n_positions",
        "neurons": "n_inner",
        "epsilon": "layer_norm_epsilon",
        "activation": "activation_function",
    },
    "opt": {
        **_COMMON,
        "neurons": "ffn_dim",
        "activation": "activation_function",
        "projected": "word_embed_proj_dim",
    },
    "gpt_neox": _BERT,
    "starcoder2": {**_BERT, "epsilon": "norm_epsilon"},
}
"""Keys of `config.json` that hold sizes, and are compared with the tensors."""

FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "all": {
        "dtype": ("float64", "float32", "bfloat16", "float16"),
        "tie_word_embeddings": (False,),
        "pad_token_id": (0,),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
    },
    "bert": {"num_hidden_layers": (1,), "num_attention_heads": (1,)},
    "roberta": {"num_hidden_layers": (1,), "num_attention_heads": (1,)},
    "distilbert": {"n_layers": (1,), "n_heads": (1,), "sinusoidal_pos_embds": (False, None)},
    "gpt2": {
        "n_layer": (1,),
        "n_head": (1,),
        "scale_attn_weights": (True, None),
        "scale_attn_by_inverse_layer_idx": (False, None),
        "reorder_and_upcast_attn": (False, None),
    },
    "opt": {
        "num_hidden_layers": (1,),
        "num_attention_heads": (1,),
        "do_layer_norm_before": (True, None),
        "enable_bias": (True, None),
        "layer_norm_elementwise_affine": (True, None),
        "_remove_final_layer_norm": (False, None),
    },
    "gpt_neox": {
        "num_hidden_layers": (1,),
        "num_attention_heads": (1,),
        "use_parallel_residual": (False,),
        "attention_bias": (True, None),
        "rope_parameters": tuple(
            {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 2.0 / width}
            for width in (16, 64, 256, 1024, 4096)
        ),
    },
    "starcoder2": {
        "num_hidden_layers": (1,),
        "num_attention_heads": (1,),
        "num_key_value_heads": (1,),
        "use_bias": (True, None),
        "sliding_window": (None,),
        "rope_parameters": ({"rope_type": "default", "rope_theta": 1e30},),
    },
}
"""Keys that must have one of these values; None behind them: the key may be missing, as the first is its default."""
