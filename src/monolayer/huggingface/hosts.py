"""Which architecture a host has, and where the activations of hosts are 0 and where they are the identity."""

from __future__ import annotations

from collections.abc import Mapping

from monolayer.errors import DataError, similar_words
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.host_kind import HostKind
from monolayer.huggingface.kin import KIN, check_causal

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
NO_LLAMA = {
    **dict.fromkeys(("qwen3", "hunyuan_v1_dense", "exaone4"), "norms of queries and keys"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3_text"), "norms that multiply with 1 + weight, and scaled embeddings"),
    **dict.fromkeys(("olmo2", "olmo3"), "norms behind attention and neurons, not in front of them"),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe"), "experts"),
    **dict.fromkeys(("cohere", "cohere2", "olmo"), "norms of another kind"),
    **dict.fromkeys(("glm", "glm4", "ernie4_5", "helium"), "rotary positions of neighbouring coordinates"),
    **{"granite": "scaled embeddings, residuals and logits", "smollm3": "layers without positions"},
}
"""Architectures whose neurons cannot have a bias, each with what a Llama does not have, so it cannot be written as one.

docs/attach.md has the table."""


def choose_host(config: Mapping[str, object]) -> HostKind:
    """The row of `HOSTS` for a host with this `config.json`; a `DataError` says why there is none."""
    name, known = config.get("model_type"), ", ".join((*HOSTS, *KIN))
    if isinstance(name, str) and name in NO_LLAMA:
        raise DataError(
            f"neurons of {name} have no bias, and a neuron without one answers to half of all states: it cannot be "
            f"silent elsewhere. Nor can it be written as a Llama, which has a setting for biases: it has "
            f"{NO_LLAMA[name]}. Facts can be attached to {known}"
        )
    if not isinstance(name, str) or name not in HOSTS:
        near = similar_words(str(name), (*HOSTS, *KIN))
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DataError(f"its architecture is {name!r}{hint}; facts can be attached to {known}")
    kind = HOSTS[name]
    check_causal(config, kind.model)
    for key, wanted in kind.demands.items():
        if config.get(key, wanted) != wanted:
            raise DataError(f"config.json says {key} = {config[key]!r}; facts can be attached where it is {wanted!r}")
    activation = kind.activation_in(config)
    if not isinstance(activation, str) or activation not in SILENCE:
        raise DataError(
            f"its activation is {activation!r}, whose value far below 0 is not known to be 0: {', '.join(SILENCE)} are"
        )
    return kind
