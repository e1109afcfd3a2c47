"""The architectures that facts can be attached to: names of their tensors, and what a block of theirs computes.

A host is a decoder that somebody has. A block of it, as far as the appended ones go, is

    x ← x + attention(norm_1 x),   x ← x + W_2 act(W_1 norm_2 x + b_1)

in this order or both at once (in a gated one, act(…) is multiplied with W_3 norm_2 x + b_3); behind all of them the
last norm, and the head, which has no bias. The letters are those of `architecture.py`. From the architectures' own
source (transformers 5.23); the tests hold it against transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from monolayer.errors import DataError, similar_words

Role = Literal["zeros", "ones", "W_1", "b_1", "W_2", "b_3"]
"""What a tensor of an appended block holds: a letter, or one number throughout."""
ATTACHED_MARK = {"attached_by": "monolayer"}
"""Says in `config.json` that facts were attached. transformers keep the key and make nothing of it."""
SILENCE = {
    "relu": 0.0,
    **dict.fromkeys(("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"), 12.0),
    **dict.fromkeys(("silu", "swish"), 128.0),
}
"""`S` by activation: its computed value is 0 for every input up to −S.

relu: by definition. gelu: at −12 the argument of tanh is below −70, that of erf below −8.4; both return −1 from −10 and
−6 on in float64 and shorter formats, and 1 − 1 is 0. silu: e^128 > 2^128 is no float32, and x/∞ is 0; as x times
e^x/(1 + e^x), e^−128 is below half the least float32."""
FLOAT16_SILENCE = {name: 0.0 if least == 0.0 else 9.0 if least == 12.0 else 24.0 for name, least in SILENCE.items()}
"""`S` in float16, where inputs are limited and T cannot be many times S. gelu: erf at −9/√2 and tanh at −33 are −1.
silu: 24 e^−24 < 10⁻⁹, and numbers below 2^−25 ≈ 3·10⁻⁸ round to 0."""
IDENTITY = {"relu": 0.0, **dict.fromkeys(set(SILENCE) - {"relu", "silu", "swish"}, 3.5), "silu": 7.0, "swish": 7.0}
"""From here on the activation returns at least 0.999 of its input: 1 − Φ(3.5) < 0.0003, 1/(1 + e^−7) > 0.999."""
BUFFERS = tuple(
    f"{place}.{name}"
    for place in ("attn", "self_attn", "attention")
    for name in ("bias", "masked_bias", "rotary_emb.inv_freq")
)
"""Tensors of a layer that older files store and transformers compute anew: masks and angles."""


@dataclass(frozen=True)
class HostKind:
    """One row of the table."""

    name: str
    model: str
    """Its class of causal language models."""
    root: str
    """What names of tensors begin with; some files leave out its first part, as those of GPT-2 do."""
    layers: str
    tokens: str
    last_norm: str
    attention: tuple[str, ...]
    """Linear layers of attention; whether they have a bias is for the file to say."""
    norms: tuple[str, str]
    reads: str
    """The linear layer `W_1`, `b_1`."""
    writes: str
    """The linear layer `W_2`."""
    multiplies: str | None = None
    """The linear layer `W_3`, `b_3` of gated neurons."""
    transposed: bool = False
    """Whether matrices are stored as `(in, out)`."""
    rms: bool = False
    """Norms that subtract no mean and have no bias."""
    tied: bool = True
    """Whether the head is the table of tokens where `config.json` does not say."""
    depth: str = "num_hidden_layers"
    """The key of `config.json` that counts the layers."""
    activation: tuple[str, str] = ("hidden_act", "gelu")
    """Key and default."""
    epsilon: tuple[str | None, float] = ("layer_norm_eps", 1e-5)
    """Key, None where there is none, and default."""
    demands: Mapping[str, object] = field(default_factory=dict)
    """Values of `config.json` without which its blocks are others; a missing key has the value that is asked for."""
    bias_key: str | None = None
    """The key that gives feed-forward layers their biases, where they may have none: it is set, and they are 0."""
    attention_bias: tuple[str | None, bool] = (None, True)
    """The key that gives attention its biases, None where there is none, and its default."""
    sizes: tuple[str, str] = ("hidden_size", "intermediate_size")
    """The keys of `D` and `H`."""
    places: str | None = None
    """The table of places, where there is one."""
    head: str = "lm_head.weight"
    """The tensor of the head, where it is not the table of tokens."""

    def block_names(self, config: Mapping[str, object]) -> frozenset[str]:
        """The tensors of a layer of a host with this `config.json`, by their names in it."""
        found = {f"{layer}.weight" for layer in (*self.attention, *self.linear, *self.norms)}
        found |= set() if self.rms else {f"{norm}.bias" for norm in self.norms}
        found |= set(self.biases) if self.bias_key is None or config.get(self.bias_key, False) else set()
        key, usual = self.attention_bias
        if usual if key is None else config.get(key, usual):
            found |= {f"{layer}.bias" for layer in self.attention}
        return frozenset(found)

    def block(self, config: Mapping[str, object]) -> dict[str, Role]:
        """The role of each tensor in an appended block, by its name in the block."""
        roles: dict[str, Role] = dict.fromkeys(self.block_names(config), "zeros")
        roles |= {f"{norm}.weight": "ones" for norm in self.norms}
        roles |= {f"{self.reads}.weight": "W_1", f"{self.reads}.bias": "b_1"}
        roles |= {f"{self.writes}.weight": "W_2", f"{self.writes}.bias": "zeros"}
        if self.multiplies is not None:
            roles |= {f"{self.multiplies}.weight": "zeros", f"{self.multiplies}.bias": "b_3"}
        return dict(sorted(roles.items()))

    @property
    def biases(self) -> tuple[str, ...]:
        """Biases of the feed-forward layers, by their names in a block."""
        return tuple(f"{layer}.bias" for layer in self.linear)

    @property
    def linear(self) -> tuple[str, ...]:
        """The feed-forward layers."""
        return (self.reads, self.writes, *(() if self.multiplies is None else (self.multiplies,)))


_LLAMA_ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
_NORMS = ("input_layernorm", "post_attention_layernorm")
HOSTS = {
    kind.name: kind
    for kind in (
        HostKind(
            *("gpt2", "GPT2LMHeadModel", "transformer.", "h", "wte.weight", "ln_f"),
            attention=("attn.c_attn", "attn.c_proj"),
            norms=("ln_1", "ln_2"),
            reads="mlp.c_fc",
            writes="mlp.c_proj",
            transposed=True,
            depth="n_layer",
            sizes=("n_embd", "n_inner"),
            places="wpe.weight",
            activation=("activation_function", "gelu_new"),
            epsilon=("layer_norm_epsilon", 1e-5),
            demands={"add_cross_attention": False},
        ),
        HostKind(
            *("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.", "layers", "embed_in.weight", "final_layer_norm"),
            attention=("attention.query_key_value", "attention.dense"),
            norms=_NORMS,
            reads="mlp.dense_h_to_4h",
            writes="mlp.dense_4h_to_h",
            tied=False,
            attention_bias=("attention_bias", True),
            head="embed_out.weight",
        ),
        HostKind(
            *("opt", "OPTForCausalLM", "model.decoder.", "layers", "embed_tokens.weight", "final_layer_norm"),
            attention=tuple(f"self_attn.{letter}_proj" for letter in ("q", "k", "v", "out")),
            norms=("self_attn_layer_norm", "final_layer_norm"),
            reads="fc1",
            writes="fc2",
            activation=("activation_function", "relu"),
            epsilon=(None, 1e-5),
            sizes=("hidden_size", "ffn_dim"),
            places="embed_positions.weight",
            demands={
                **{"do_layer_norm_before": True, "_remove_final_layer_norm": False},
                **{"enable_bias": True, "layer_norm_elementwise_affine": True},
            },
        ),
        HostKind(
            *("starcoder2", "Starcoder2ForCausalLM", "model.", "layers", "embed_tokens.weight", "norm"),
            attention=_LLAMA_ATTENTION,
            norms=_NORMS,
            reads="mlp.c_fc",
            writes="mlp.c_proj",
            activation=("hidden_act", "gelu_pytorch_tanh"),
            epsilon=("norm_epsilon", 1e-5),
            demands={"use_bias": True},
        ),
        HostKind(
            *("llama", "LlamaForCausalLM", "model.", "layers", "embed_tokens.weight", "norm"),
            attention=_LLAMA_ATTENTION,
            norms=_NORMS,
            reads="mlp.gate_proj",
            writes="mlp.down_proj",
            multiplies="mlp.up_proj",
            rms=True,
            tied=False,
            activation=("hidden_act", "silu"),
            epsilon=("rms_norm_eps", 1e-6),
            bias_key="mlp_bias",
            attention_bias=("attention_bias", False),
        ),
    )
}
NO_BIAS = ("mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "olmo2")
"""Architectures whose gated neurons can have no bias."""


def choose_host(config: Mapping[str, object]) -> HostKind:
    """The row of an architecture, by the host's `config.json`; a `DataError` says why there is none."""
    name, known = config.get("model_type"), ", ".join(HOSTS)
    if name in NO_BIAS:
        raise DataError(
            f"neurons of {name} have no bias, and a neuron without one answers to half of all states: it cannot be "
            f"silent elsewhere. Facts can be attached to {known}"
        )
    if not isinstance(name, str) or name not in HOSTS:
        near = similar_words(str(name), HOSTS)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DataError(f"its architecture is {name!r}{hint}; facts can be attached to {known}")
    kind = HOSTS[name]
    if config.get("architectures") != [kind.model]:
        raise DataError(
            f"config.json says architectures = {config.get('architectures')!r}, and facts are attached to causal "
            f"language models: [{kind.model!r}]"
        )
    for key, wanted in kind.demands.items():
        if config.get(key, wanted) != wanted:
            raise DataError(f"config.json says {key} = {config[key]!r}; facts can be attached where it is {wanted!r}")
    activation = activation_of(kind, config)
    if not isinstance(activation, str) or activation not in SILENCE:
        raise DataError(
            f"its activation is {activation!r}, whose value far below 0 is not known to be 0: {', '.join(SILENCE)} are"
        )
    return kind


def activation_of(kind: HostKind, config: Mapping[str, object]) -> Any:
    """The activation of the feed-forward layers, by its name."""
    return config.get(*kind.activation)


def epsilon_of(kind: HostKind, config: Mapping[str, object]) -> Any:
    """ε of the norms."""
    key, usual = kind.epsilon
    return usual if key is None else config.get(key, usual)
