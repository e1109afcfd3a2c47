"""The architectures that facts can be attached to: the names of their tensors, and what their blocks compute.

A host is somebody's decoder. A block of it computes

    x ← x + attention(norm_1 x),   x ← x + W_2 act(W_1 norm_2 x + b_1)

one after the other or both at once. In a gated block, act(…) is multiplied by W_3 norm_2 x + b_3. After all blocks come
the last norm and the head, which has no bias. The letters are those of `architecture.py`. The table is taken from the
source of transformers 5.23, and the tests compare it with transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from monolayer.errors import DataError, similar_words

Role = Literal["zeros", "ones", "W_1", "b_1", "W_2", "b_3"]
"""What a tensor of an appended block holds: the array of a letter, or zeros or ones throughout."""
ATTACHED_MARK = {"attached_by": "monolayer"}
"""Marks in `config.json` that facts were attached. transformers keeps the key and ignores it."""
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
"""Masks and angles of a layer, which older files store and transformers computes anew."""


@dataclass(frozen=True)
class HostKind:
    """One architecture that facts can be attached to: a row of the table `HOSTS`."""

    name: str
    model: str
    """The name of its transformers class for causal language models."""
    root: str
    """The prefix of the names of tensors. Some files, such as those of GPT-2, leave out its first part."""
    layers: str
    """The name of the list of layers, after `root`."""
    tokens: str
    """The name of the embedding table, after `root`."""
    last_norm: str
    """The name of the norm before the head, after `root`."""
    attention: tuple[str, ...]
    """The linear layers of attention. The last one writes. `attention_bias` says whether they have biases."""
    norms: tuple[str, str]
    """The two norms of a block, in the order of evaluation."""
    reads: str
    """The linear layer `W_1`, `b_1`."""
    writes: str
    """The linear layer `W_2`."""
    multiplies: str | None = None
    """The linear layer `W_3`, `b_3` of gated neurons."""
    transposed: bool = False
    """Whether matrices are stored as `(in, out)`."""
    rms: bool = False
    """Whether norms subtract no mean and have no bias."""
    tied: bool = True
    """Whether the head shares the embedding table if `config.json` does not say."""
    depth: str = "num_hidden_layers"
    """The key of `config.json` that counts the layers."""
    activation: tuple[str, str] = ("hidden_act", "gelu")
    """The key of `config.json` that names the activation, and its default."""
    epsilon: tuple[str | None, float] = ("layer_norm_eps", 1e-5)
    """The key of `config.json` that holds ε of the norms, None if there is none, and its default."""
    demands: Mapping[str, object] = field(default_factory=dict)
    """Values that `config.json` must have for blocks to compute as above. A missing key has the demanded value."""
    bias_key: str | None = None
    """The key of `config.json` that gives feed-forward layers biases; None if they always have them.

    If a host lacks them, the key is set and its own biases are written as 0."""
    attention_bias: tuple[str | None, bool] = (None, True)
    """The key of `config.json` that gives attention its biases, None if there is none, and its default."""
    sizes: tuple[str, str] = ("hidden_size", "intermediate_size")
    """The keys of `config.json` that hold `D` and `H`."""
    places: str | None = None
    """The name of the table of places, after `root`; None if there is none."""
    head: str = "lm_head.weight"
    """The name of the tensor of the head, if it does not share the embedding table."""

    def block_names(self, config: Mapping[str, object]) -> frozenset[str]:
        """The names, within a layer, of the tensors that each layer of a host with this `config.json` has."""
        found = {f"{layer}.weight" for layer in (*self.attention, *self.linear, *self.norms)}
        if not self.rms:
            found |= {f"{norm}.bias" for norm in self.norms}
        if self.bias_key is None or config.get(self.bias_key, False):
            found |= set(self.biases)
        key, usual = self.attention_bias
        attention_has_biases = usual if key is None else config.get(key, usual)
        if attention_has_biases:
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

    def is_turned(self, role: Role) -> bool:
        """Whether the tensor of this role is stored as (width, neurons): the neurons of W_1 and W_2 are rows to us."""
        return role in ("W_1", "W_2") and self.transposed != (role == "W_2")

    @property
    def biases(self) -> tuple[str, ...]:
        """The names, within a block, of the biases of the feed-forward layers."""
        return tuple(f"{layer}.bias" for layer in self.linear)

    @property
    def linear(self) -> tuple[str, ...]:
        """The names, within a block, of the feed-forward layers."""
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
"""Architectures whose gated neurons cannot have a bias, so that facts cannot be attached to them."""


def choose_host(config: Mapping[str, object]) -> HostKind:
    """The row of `HOSTS` for a host with this `config.json`; a `DataError` says why there is none."""
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
    """The name of the activation of the feed-forward layers, as `config.json` gives it, or the default."""
    return config.get(*kind.activation)


def epsilon_of(kind: HostKind, config: Mapping[str, object]) -> Any:
    """ε of the norms, as `config.json` gives it, or the default."""
    key, usual = kind.epsilon
    return usual if key is None else config.get(key, usual)
