"""The stock architectures: what Hugging Face calls their classes, tensors and settings.

From the architectures' own source (transformers 5.22). Folders are written by this table and read by it; the tests hold
it against transformers, which load and run every architecture.

Arrays have the same letters in all of them; `V` tokens, `L` places, `D` width, `H` neurons, `C` classes:

    tokens, places, types                       tables of embeddings
    W_Q b_Q  W_K b_K  W_V b_V  W_O b_O          attention
    W_1 b_1  W_2 b_2  W_3 b_3                   neurons: what they read, what they write, what multiplies them (Llama)
    scale_1 shift_1  …  scale_3 shift_3         norms, in the order of evaluation
    W_P b_P  W_H b_H                            pooler and head
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import numpy as np

from monolayer.errors import DataError, nearest

Task = Literal["token", "sequence", "lm"]
SUFFIXES: dict[Task, str] = {
    "token": "ForTokenClassification",
    "sequence": "ForSequenceClassification",
    "lm": "ForCausalLM",
}
SHAPES = {"tokens": "VD", "places": "LD", "types": "TD"}
SHAPES |= {**dict.fromkeys(("W_Q", "W_K", "W_V", "W_O", "W_P"), "DD"), "W_H": "CD"}
SHAPES |= dict.fromkeys(("W_1", "W_2", "W_3"), "HD")
SHAPES |= {f"b_{letter}": shape for letter, shape in zip("QKVO123PH", "DDDDHDHDC", strict=True)}
SHAPES |= {f"{part}_{number}": "D" for number in (1, 2, 3) for part in ("scale", "shift")}
"""Sizes of every array; `T` token types."""
TYPES = 2
PAD, UNKNOWN, BEGIN, END = range(4)
ENCODER = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
DECODER = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""Special tokens of models that see both ways, and of those that see what came before, in the order of their ids."""


class Fact(Enum):
    """A value in `config.json` that depends on the model: the field of `Facts` that says it."""

    WIDTH = "width"
    NEURONS = "neurons"
    PLACES = "max_positions"
    ACTIVATION = "activation"
    EPSILON = "epsilon"
    THETA = "theta"
    TURNED = "turned"


@dataclass(frozen=True)
class Architecture:
    """One row of the table."""

    name: str
    word: str
    """What the names of its classes begin with."""
    tables: Mapping[str, str]
    layers: Mapping[str, str]
    """Linear layers by their letter; query, key and value in one tensor share its name."""
    norms: tuple[str, str, str]
    heads: Mapping[Task, str]
    settings: Mapping[str, Any]
    """What it says in `config.json` that the others do not."""
    own_activation: str
    activation: str = "relu6"
    """The activation that a folder has where none is asked for."""
    causal: bool = True
    post_norm: bool = False
    """Whether the stream is what norms return, rather than what they are given."""
    transposed: bool = False
    """Whether matrices are stored as `(in, out)`."""
    pooler: str | None = None
    """A layer in front of the head for labels of sequences."""
    pool: Literal["tanh", "relu"] = "tanh"
    rms: bool = False
    """Norms that subtract no mean, have no bias, and compute in float32 whatever the weights are."""
    epsilon: float | None = None
    """ε of the norms, where `config.json` cannot set it."""
    offset: int = 0
    """Rows of the table of places in front of the first place."""
    hidden_rows: int = 0
    """Rows that it has beyond what `config.json` says."""
    still: Callable[[int], tuple[int, tuple[float, int]]] | None = None
    """For rotary positions that shall do nothing in a head of this width: the coordinate that carries the key, the base
    of the angles, and how many coordinates are turned. That one is not turned, or so slowly that its cosine is 1."""
    attention: tuple[str, ...] = ("sdpa",)
    """Attention that computes in float64 throughout."""
    models: Mapping[Task, str] = field(init=False)
    """Its class for each task."""

    def __post_init__(self) -> None:
        models = {task: self.word + SUFFIXES[task] for task in self.heads}
        if self.name == "gpt2":
            models["lm"] = "GPT2LMHeadModel"
        object.__setattr__(self, "models", models)

    @property
    def special(self) -> Mapping[str, str]:
        """Its special tokens, in the order of their ids."""
        return DECODER if self.causal else ENCODER

    @property
    def has_places(self) -> bool:
        """Whether it has a table of positions."""
        return "places" in self.tables

    def key(self, fact: Fact) -> str:
        """What `config.json` calls this fact."""
        return next(key for key, value in self.settings.items() if value is fact)

    def names(self, task: Task) -> dict[str, str]:
        """The name of the tensor that holds each array."""
        found = dict(self.tables)
        layers = {**self.layers, **({"P": self.pooler} if self.pooler and task == "sequence" else {})}
        for letter, name in {**layers, "H": self.heads[task]}.items():
            found |= {f"W_{letter}": f"{name}.weight", f"b_{letter}": f"{name}.bias"}
        if self.causal and task != "token":  # such heads have no bias
            del found["b_H"]
        for number, name in enumerate(self.norms, start=1):
            found |= {f"scale_{number}": f"{name}.weight"} | ({} if self.rms else {f"shift_{number}": f"{name}.bias"})
        return found

    def tensors(self, task: Task, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays under the names of their tensors. What is left out is 0; scales and what multiplies neurons are 1."""
        sizes = {"T": TYPES, "D": arrays["tokens"].shape[1], "H": len(arrays["W_1"]), "C": len(arrays["W_H"])}

        def part(letter: str) -> Any:
            if letter in arrays:
                return arrays[letter]
            one = letter.startswith("scale") or letter == "b_3"
            return np.full([sizes[size] for size in SHAPES[letter]], float(one))

        found = {}
        for name, letters in self._stored(task).items():
            whole = np.concatenate([part(letter) for letter in letters])
            found[name] = whole.T if self._turned(letters[0]) else whole
        return found

    def arrays(self, task: Task, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The way back: a `KeyError` names a missing tensor, a `ValueError` one too many or of a wrong shape."""
        rest, found = dict(tensors), dict[str, Any]()
        for name, letters in self._stored(task).items():
            whole = rest.pop(name)
            parts = np.split(whole.T if self._turned(letters[0]) else whole, len(letters))
            found |= dict(zip(letters, parts, strict=True))
        if rest:
            raise ValueError(f"tensors unknown to {self.name}: {', '.join(sorted(rest)[:3])}")
        sizes = {size: len(found[name]) for size, name in (("V", "tokens"), ("H", "W_1"), ("C", "W_H"))}
        sizes |= {"T": TYPES, "D": found["tokens"].shape[1], "L": max(len(found.get("places", ())), self.offset + 1)}
        for letter, array in found.items():
            shape = tuple(sizes[size] for size in SHAPES[letter])
            if array.shape != shape:
                raise ValueError(f"{letter} has shape {array.shape} where the others say {shape}")
        return found

    def _stored(self, task: Task) -> dict[str, list[str]]:
        """The arrays in each tensor."""
        found: dict[str, list[str]] = {}
        for letter, name in self.names(task).items():
            found.setdefault(name, []).append(letter)
        return found

    def _turned(self, letter: str) -> bool:
        """Whether the tensor holds the transpose of the array; ours has a row per neuron in `W_2`, too."""
        if letter[:2] != "W_" or letter[2] in "PH":
            return False
        return self.transposed != (letter == "W_2")


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
        tables={
            "tokens": "model.decoder.embed_tokens.weight",
            "places": "model.decoder.embed_positions.weight",
        },
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
