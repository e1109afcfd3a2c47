"""What each architecture calls its classes and its tensors.

From the architectures' own source (transformers 5.22): a mistake here would be found by the tests, which run it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    """ε of the norms, where `config.json` cannot set it."""
    epsilon_key: str = "layer_norm_eps"
    activation_key: str = "hidden_act"
    gate: str | None = None
    """What multiplies the neurons, in gated blocks."""
    rms: bool = False
    """Norms that subtract no mean and have no bias."""


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
        activation_key="activation",
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
        epsilon_key="layer_norm_epsilon",
        activation_key="activation_function",
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
        activation_key="activation_function",
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
        epsilon_key="norm_epsilon",
    ),
    "llama": Layers(
        tokens="model.embed_tokens.weight",
        places=None,
        zeros=(),
        fused=None,
        separate=tuple(f"{_STAR}.self_attn.{name}_proj" for name in "qkv"),
        out=f"{_STAR}.self_attn.o_proj",
        norms=(f"{_STAR}.input_layernorm", f"{_STAR}.post_attention_layernorm", "model.norm"),
        first=f"{_STAR}.mlp.gate_proj",
        second=f"{_STAR}.mlp.down_proj",
        gate=f"{_STAR}.mlp.up_proj",
        rms=True,
        heads={"token": "score", "sequence": "score", "lm": "lm_head"},
        post_norm=False,
        causal=True,
        epsilon_key="rms_norm_eps",
    ),
}
_WORDS = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
    "gpt2": "GPT2",
    "opt": "OPT",
    "gpt_neox": "GPTNeoX",
    "starcoder2": "Starcoder2",
    "llama": "Llama",
}
_TASKS: dict[Task, str] = {
    "token": "ForTokenClassification",
    "sequence": "ForSequenceClassification",
    "lm": "ForCausalLM",
}
CLASSES: dict[str, dict[Task, str]] = {
    kind: {task: word + _TASKS[task] for task in LAYERS[kind].heads} for kind, word in _WORDS.items()
}
"""The class of each architecture for each task."""
CLASSES["gpt2"]["lm"] = "GPT2LMHeadModel"
