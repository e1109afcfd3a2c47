"""Architectures that are a Llama under another name: some biases of theirs are 0, and some matrices lie in one tensor.

Qwen2 has biases for queries, keys and values and no others; Mistral has none; Phi-3 has none, and stores three and
two matrices as one. None of them has a setting for biases of neurons, which facts need (`hosts.py`), and Llama has. So
facts are attached to the Llama with the same tensors. Biases of 0 add nothing, and a matrix is cut by its rows.

Rows of a matrix are bytes next to each other in a file, so the file of a Phi-3 becomes one of a Llama by another header
(`headers.py`), and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from monolayer.errors import DataError
from monolayer.huggingface.headers import Listed, read_header
from monolayer.huggingface.tensors import ModelFiles, Tensor


class Part(NamedTuple):
    """A matrix that lies in a tensor with others: its name in a Llama, after the name of the block, and its rows."""

    name: str
    rows: int


Split = Callable[[Mapping[str, Any], int], tuple[Part, ...]]
"""How a tensor is split: from `config.json`, and the number of its rows."""


@dataclass(frozen=True)
class Kin:
    """One architecture that is a Llama under another name."""

    name: str
    """`model_type` in `config.json`."""
    model: str
    """The name of its transformers class for causal language models."""
    defaults: Mapping[str, object]
    """Values of keys that `config.json` lacks, where Llama has others."""
    always: Mapping[str, object] = field(default_factory=dict)
    """Keys of a Llama that this architecture does not have, with the values that it always has."""
    demands: Mapping[str, object] = field(default_factory=dict)
    """Its own keys that change what is computed, with the only values that a Llama has. A missing key has them."""
    unused: frozenset[str] = frozenset()
    """Its own keys that change nothing: what they are about is checked elsewhere, or is for training."""
    turned: tuple[str, ...] | None = None
    """The kinds of rotary positions that it has in common with Llama; None if all of them."""
    window: Callable[[Mapping[str, Any]], object] = lambda config: None
    """How many places a token sees at most; None for all of them."""
    fused: Mapping[str, Split] = field(default_factory=dict)
    """The tensors of a block that hold several matrices of a Llama, by their names in the block."""

    def as_llama(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The `config.json` of the Llama that the model with this `config.json` is; a `DataError` if it is none."""
        check_causal(config, self.model)
        for key, wanted in self.demands.items():
            if config.get(key, wanted) != wanted:
                raise DataError(
                    f"config.json says {key} = {config[key]!r}: a {self.name} is a Llama only where it is {wanted!r}"
                )
        self._check_turned(config)
        self._check_window(config)
        unread = {"architectures", "model_type", "layer_types", *self.demands, *self.unused}
        kept = {key: value for key, value in config.items() if key not in unread}
        named = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
        return {**self.defaults, **kept, **named, **self.always, "mlp_bias": False}

    def _check_turned(self, config: Mapping[str, Any]) -> None:
        """Refuse rotary positions that a Llama does not have."""
        rotary = config.get("rope_parameters") or config.get("rope_scaling") or {}
        kind = rotary.get("rope_type", rotary.get("type", "default")) if isinstance(rotary, dict) else rotary
        share = rotary.get("partial_rotary_factor", 1.0) if isinstance(rotary, dict) else rotary
        if self.turned is not None and (kind not in self.turned or share != 1.0):
            raise DataError(
                f"config.json says rope_type = {kind!r}, partial_rotary_factor = {share!r}: a {self.name} is a Llama "
                f"only where it turns all coordinates, in one of the ways {', '.join(self.turned)}"
            )

    def _check_window(self, config: Mapping[str, Any]) -> None:
        """Refuse a window that some text reaches: in a Llama, every token sees all that came before."""
        window, places = self.window(config), config.get("max_position_embeddings")
        layers = config.get("layer_types") or ()
        wide = window is None or (type(window) is int and type(places) is int and window > places)
        if not wide or not isinstance(layers, list | tuple) or any(each != "full_attention" for each in layers):
            raise DataError(
                f"its attention has a sliding window (sliding_window = {window!r}, layer_types), and a Llama has none. "
                "Texts longer than the window would come out differently"
            )

    def parts(self, config: Mapping[str, Any], listed: Listed) -> tuple[Part, ...]:
        """The matrices of a Llama in a tensor of a file, with their full names, in the order of their rows."""
        start = next((start for start in self.fused if listed.name.endswith(f".{start}")), None)
        if start is None:
            return (Part(listed.name, listed.shape[0] if listed.shape else 1),)
        if len(listed.shape) != 2:
            raise DataError(f"{listed.name} has shape {listed.shape}, where 2 axes are needed")
        split = self.fused[start](config, listed.shape[0])
        if sum(part.rows for part in split) != listed.shape[0] or any(part.rows < 1 for part in split):
            sizes = " + ".join(f"{part.rows:,}" for part in split)
            raise DataError(f"{listed.name} has {listed.shape[0]:,} rows, and config.json says {sizes}")
        return tuple(Part(listed.name.removesuffix(start) + part.name, part.rows) for part in split)

    def split(self, folder: ModelFiles, config: Mapping[str, Any]) -> ModelFiles:
        """The folder of such a model, with the tensors that a Llama has. Its files stay as they are."""
        if not self.fused:
            return folder
        tensors: dict[str, Tensor] = {}
        for name, tensor in folder.tensors.items():
            parts, first = self.parts(config, Listed(name, tensor.code, tensor.shape)), 0
            if len(parts) == 1:
                tensors[name] = tensor
                continue
            each = len(tensor.data) // tensor.shape[0]
            for part in parts:
                rows = tensor.data[each * first : each * (first + part.rows)]
                tensors[part.name] = Tensor(part.name, tensor.code, (part.rows, *tensor.shape[1:]), rows)
                first += part.rows
        return replace(folder, tensors=tensors)

    def llama_listed(self, config: Mapping[str, Any], header: str) -> list[Listed]:
        """What the header of a file lists once its tensors are split, in the order of their bytes."""
        split: list[Listed] = []
        for listed in read_header(header):
            parts = self.parts(config, listed)
            if len(parts) == 1:
                split.append(listed)
            else:
                split += [Listed(part.name, listed.code, (part.rows, *listed.shape[1:])) for part in parts]
        return split


def _attention(config: Mapping[str, Any], rows: int) -> tuple[Part, ...]:
    """Queries, keys and values in one matrix."""
    heads, pairs = config.get("num_attention_heads"), config.get("num_key_value_heads")
    pairs = heads if pairs is None else pairs
    if type(heads) is not int or type(pairs) is not int or heads + 2 * pairs < 1 or rows % (heads + 2 * pairs):
        raise DataError(f"config.json says num_attention_heads = {heads!r}, and its tensors have {rows:,} rows")
    each = rows // (heads + 2 * pairs)
    queries = Part("self_attn.q_proj.weight", heads * each)
    return (queries, *(Part(f"self_attn.{letter}_proj.weight", pairs * each) for letter in "kv"))


def _neurons(config: Mapping[str, Any], rows: int) -> tuple[Part, ...]:
    """The two matrices that gated neurons read with, in one."""
    return Part("mlp.gate_proj.weight", rows // 2), Part("mlp.up_proj.weight", rows - rows // 2)


KIN = {
    kin.name: kin
    for kin in (
        Kin(
            "qwen2",
            "Qwen2ForCausalLM",
            defaults={"num_key_value_heads": 32, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6},
            always={"attention_bias": True},
            unused=frozenset({"use_sliding_window", "sliding_window", "max_window_layers", "use_mrope"}),
            window=lambda said: said.get("sliding_window", 4096) if said.get("use_sliding_window", False) else None,
        ),
        Kin(
            "mistral",
            "MistralForCausalLM",
            defaults={"num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-6},
            always={"attention_bias": False},
            unused=frozenset({"sliding_window"}),
            window=lambda said: said.get("sliding_window", 4096),
        ),
        Kin(
            "phi3",
            "Phi3ForCausalLM",
            defaults={
                "max_position_embeddings": 4096,
                "original_max_position_embeddings": 4096,
                "rms_norm_eps": 1e-5,
            },
            always={"attention_bias": False},
            demands={"partial_rotary_factor": 1.0, "attention_bias": False},
            unused=frozenset({"sliding_window", "resid_pdrop", "embd_pdrop"}),
            turned=("default", "longrope"),
            window=lambda said: said.get("sliding_window"),
            fused={"self_attn.qkv_proj.weight": _attention, "mlp.gate_up_proj.weight": _neurons},
        ),
        Kin(
            "seed_oss",
            "SeedOssForCausalLM",
            defaults={
                "num_key_value_heads": 8,
                "max_position_embeddings": 524288,
                "attention_bias": True,
                "head_dim": 128,
            },
            demands={"attention_out_bias": False, "mlp_bias": False},
            unused=frozenset({"residual_dropout"}),
        ),
    )
}
"""The architectures that are a Llama under another name."""


def kin_of(config: Mapping[str, object]) -> Kin | None:
    """The row of `KIN` for this `config.json`; None for a Llama, and for all others."""
    name = config.get("model_type")
    return KIN.get(name) if isinstance(name, str) else None


def check_causal(config: Mapping[str, Any], model: str) -> None:
    """Raise a `DataError` if a `config.json` names another class of transformers than the causal language model."""
    if config.get("architectures") != [model]:
        raise DataError(
            f"config.json says architectures = {config.get('architectures')!r}, and facts are attached to causal "
            f"language models: [{model!r}]"
        )


__all__ = ["KIN", "Kin", "Part", "check_causal", "kin_of"]
