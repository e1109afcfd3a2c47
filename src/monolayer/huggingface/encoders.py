"""Sentence encoders that questions can be stored in: one row of names per architecture, and the reading of a folder.

An encoder is a stack of layers with a norm behind each half (post-norm), read by a stock class for sequence
classification whose head is a dense layer with tanh or relu at the first token, and a linear layer behind it. Taken
from the source of transformers 5.23.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from monolayer.data.folder import MODEL, read_together
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.files import BUILT_BY
from monolayer.huggingface.formats import HOST_FORMATS
from monolayer.huggingface.given import GivenModel
from monolayer.huggingface.host import LEAST_HOST_EPSILON, built_by_us, model_files
from monolayer.huggingface.hosts import IDENTITY, SILENCE
from monolayer.huggingface.marks import ATTACHED_MARK, QUESTIONS_MARK
from monolayer.huggingface.settings import COMMON, FIXED, FREE_GENERATION, NEUTRAL
from monolayer.huggingface.strict import ForeignError, read_json
from monolayer.huggingface.tensors import ModelFiles, Tensor

"""Marks in `config.json` that questions were stored. transformers keeps the key and ignores it."""
POOLING_FILE = "1_Pooling/config.json"
"""Where sentence-transformers says how states are pooled."""
Pooling = Literal["mean", "first"]
"""Of which states û is the direction: of the mean of all tokens, or of the first token."""
Role = Literal["Q", "K", "V", "O", "W_1", "W_2"]


BERT_LINEAR = {
    "Q": "attention.self.query",
    "K": "attention.self.key",
    "V": "attention.self.value",
    "O": "attention.output.dense",
    "W_1": "intermediate.dense",
    "W_2": "output.dense",
}


@dataclass(frozen=True)
class EncoderKind:
    """An architecture of encoders.

    `name`: its `model_type`. `model`: the beginning of the names of its classes. `root`: the prefix of the encoder's
    tensors. `pooler`: the dense layer of the head. `head`: the linear layer behind it. `places_from`: how many rows of
    the table of positions come before that of the first token; None: those up to that of the padding token. `tables`,
    `shared`: tables of embeddings, and of numbers per head that all layers share. `saturates`: the head has tanh, else
    relu. `linear`, `norms`: the linear parts of a layer, and its norms behind attention and behind its neurons.
    `depth`, `width`, `neurons`, `activation`: keys of `config.json`. `epsilon`: that of the norms, where no key says
    it. `no_mean`: why no appended layer can take the plain mean of all tokens; None where one can. `kernels`: the
    implementations of attention that transformers has.
    """

    name: str
    model: str
    root: str
    pooler: str
    head: str
    places_from: int | None = 0
    layers: str = "encoder.layer"
    depth: str = "num_hidden_layers"
    tables: tuple[str, ...] = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    shared: tuple[str, ...] = ()
    saturates: bool = True
    linear: Mapping[str, str] = field(default_factory=lambda: BERT_LINEAR)
    norms: tuple[str, str] = ("attention.output.LayerNorm", "output.LayerNorm")
    width: str = "hidden_size"
    neurons: str = "intermediate_size"
    activation: str = "hidden_act"
    epsilon: float | None = None
    no_mean: str | None = None
    kernels: tuple[str, ...] = ("eager", "sdpa")

    def tensor_names(self, layers: int) -> list[str]:
        """The names of all tensors of an encoder with this many layers, without the prefix."""
        names = [f"embeddings.{table}.weight" for table in self.tables]
        names += [f"embeddings.LayerNorm.{part}" for part in ("weight", "bias")]
        names += [f"{table}.weight" for table in self.shared]
        parts = (*self.linear.values(), *self.norms)
        names += [
            f"{self.layers}.{number}.{part}.{kind}"
            for number in range(layers)
            for part in parts
            for kind in ("weight", "bias")
        ]
        return names


ENCODERS: dict[str, EncoderKind] = {
    kind.name: kind
    for kind in (
        EncoderKind("bert", "Bert", "bert.", "bert.pooler.dense", "classifier"),
        EncoderKind("roberta", "Roberta", "roberta.", "classifier.dense", "classifier.out_proj", None),
        EncoderKind("xlm-roberta", "XLMRoberta", "roberta.", "classifier.dense", "classifier.out_proj", None),
        EncoderKind(
            name="distilbert",
            model="DistilBert",
            root="distilbert.",
            pooler="pre_classifier",
            head="classifier",
            layers="transformer.layer",
            tables=("word_embeddings", "position_embeddings"),
            saturates=False,
            linear={
                **{role: f"attention.{role.lower()}_lin" for role in "QKV"},
                **{"O": "attention.out_lin", "W_1": "ffn.lin1", "W_2": "ffn.lin2"},
            },
            norms=("sa_layer_norm", "output_layer_norm"),
            depth="n_layers",
            width="dim",
            neurons="hidden_dim",
            activation="activation",
            epsilon=1e-12,
        ),
        EncoderKind(
            name="mpnet",
            model="MPNet",
            root="mpnet.",
            pooler="classifier.dense",
            head="classifier.out_proj",
            places_from=2,
            tables=("word_embeddings", "position_embeddings"),
            shared=("encoder.relative_attention_bias",),
            linear={**BERT_LINEAR, **{role: f"attention.attn.{role.lower()}" for role in "QKVO"}},
            norms=("attention.LayerNorm", "output.LayerNorm"),
            no_mean=(
                "the attention of MPNet adds a bias per distance of two tokens, the same in all layers, so that no "
                "layer can take the plain mean of all tokens"
            ),
            kernels=("eager",),
        ),
    )
}
"""The architectures of encoders that questions can be stored in."""
WHY_NOT = {
    "albert": "the layers of ALBERT share their weights, so none can be appended",
    "modernbert": "ModernBERT has its norms before the halves of a layer, not behind them",
}
"""Known encoders that questions cannot be stored in, each with the reason."""
_OWN_KEYS = frozenset(
    """
    hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act layer_norm_eps output_past
    hidden_dropout_prob attention_probs_dropout_prob classifier_dropout
    max_position_embeddings type_vocab_size position_embedding_type
    dim n_layers n_heads hidden_dim activation dropout attention_dropout qa_dropout seq_classif_dropout
    sinusoidal_pos_embds tie_weights_ relative_attention_num_buckets
    """.split()  # noqa: SIM905 - words are easier to read
)
"""Keys of `config.json` that these architectures have of their own."""


@dataclass(frozen=True, eq=False)
class Encoder(GivenModel):
    """A sentence encoder that questions can be stored in; its tensors have the names that they get in a classifier.

    `spare`: tensors of the folder that the classifier does not have, such as a pooler, by their own names.
    """

    kind: EncoderKind
    spare: Mapping[str, Tensor]
    called: ClassVar = "encoder"

    @property
    def words(self) -> Tensor:
        """The table of word embeddings, a row per token."""
        return self.tensors[f"{self.kind.root}embeddings.word_embeddings.weight"]

    @property
    def activation(self) -> str:
        """The name of the activation function."""
        return str(self.config[self.kind.activation])

    @property
    def width(self) -> int:
        """`D`, the width of a state."""
        return int(self.config[self.kind.width])

    @property
    def neurons(self) -> int:
        """`H`, the number of neurons of a layer."""
        return int(self.config[self.kind.neurons])

    @property
    def per_layer(self) -> int:
        """How many questions stand in an appended layer: in the first, the last neuron levels (`layer.py`)."""
        return self.neurons - 1

    def blocks(self, questions: int) -> int:
        """How many layers are appended for this many questions: one at least."""
        return max(1, -(-questions // self.per_layer))

    @property
    def places(self) -> int:
        """How many tokens a text may have."""
        first = self.kind.places_from
        if first is None:
            first = int(self.config.get("pad_token_id") or 0) + 1
        return int(self.config["max_position_embeddings"]) - first

    def check_pooling(self, pooling: Pooling) -> None:
        """Refuse the mean of all tokens where an appended layer cannot take it."""
        if pooling == "mean" and self.kind.no_mean is not None:
            raise DataError(f"{self.kind.no_mean}. Take the state of the first token (pooling='first')")

    @property
    def identity(self) -> float:
        """From here on a neuron returns at least 0.999 of its input."""
        return IDENTITY[self.activation]

    @property
    def epsilon(self) -> float:
        """ε of the norms."""
        fixed = self.kind.epsilon
        return float(self.config["layer_norm_eps"]) if fixed is None else fixed

    def layer(self, number: int) -> str:
        """The prefix of the names of the tensors of layer `number`."""
        return f"{self.kind.root}{self.kind.layers}.{number}."

    @cached_property
    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of a layer, by its name in the layer."""
        start = self.layer(self.layers - 1)
        return {
            name.removeprefix(start): tensor.shape for name, tensor in self.tensors.items() if name.startswith(start)
        }

    def longer_config(self, blocks: int, classes: list[str]) -> dict[str, Any]:
        """The content of `config.json` of the classifier with this many appended layers."""
        kept = {key: value for key, value in self.config.items() if key not in ("num_labels", "finetuning_task")}
        return {
            **kept,
            "architectures": [f"{self.kind.model}ForSequenceClassification"],
            self.kind.depth: self.layers + blocks,
            "id2label": {str(number): name for number, name in enumerate(classes)},
            "label2id": {name: number for number, name in enumerate(classes)},
            "problem_type": "single_label_classification",
            **QUESTIONS_MARK,
        }


def encoder_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Encoder:
    """The encoder with this `config.json` and these tensors; a `DataError` says why questions cannot be stored in it.

    The tensors may be those of any class of transformers for this architecture, with or without the prefix.
    """
    kind = _choose(config)
    _check_config(kind, config)
    layers = config.get(kind.depth)
    if type(layers) is not int or layers < 1:
        raise DataError(f"config.json says {kind.depth} = {layers!r}, which is not a number of layers")
    bare = kind.tensor_names(layers)
    prefix = kind.root if f"{kind.root}{bare[0]}" in tensors else ""
    final_names = {f"{prefix}{name}": f"{kind.root}{name}" for name in bare}
    missing = sorted(final_names.keys() - tensors.keys())
    if missing:
        raise DataError(f"it lacks the tensor {missing[0]!r}, which {kind.model} with {layers} layers has")
    deeper = f"{prefix}{kind.layers}.{layers}."
    odd = next((name for name in tensors if name.startswith(deeper)), None)
    if odd is not None:
        raise DataError(f"it has the tensor {odd!r}, and config.json says {kind.depth} = {layers}")
    spare = {name: tensor for name, tensor in tensors.items() if name not in final_names}
    encoder = Encoder(kind, config, {final: tensors[name] for name, final in final_names.items()}, spare)
    _check_tensors(encoder)
    return encoder


def _choose(config: Mapping[str, Any]) -> EncoderKind:
    name = config.get("model_type")
    if name in WHY_NOT:
        raise DataError(f"{WHY_NOT[name]}. Questions can be stored in {', '.join(ENCODERS)}")
    if not isinstance(name, str) or name not in ENCODERS:
        raise DataError(
            f"it is {name!r}, and questions are stored in sentence encoders of {', '.join(ENCODERS)}; attach stores "
            "prompts in language models"
        )
    return ENCODERS[name]


def _check_config(kind: EncoderKind, config: Mapping[str, Any]) -> None:
    """Refuse settings that are not known, or that the proofs do not cover."""
    if "quantization_config" in config:
        raise DataError("it is quantized; store questions in the encoder that it was made from")
    if "auto_map" in config:
        raise DataError("its config.json names code of its own (trust_remote_code), which is never run here")
    known = {*_OWN_KEYS, *COMMON, *FIXED, *FREE_GENERATION, *NEUTRAL}
    for key, value in config.items():
        if key not in known:
            raise DataError(
                f"config.json has the key {key!r}, which is not a known setting of {kind.model}: it may change how "
                "transformers load the model. Remove the key if the model works the same without it"
            )
        if key in FIXED and value != FIXED[key]:
            raise DataError(f"config.json says {key} = {value!r}, and questions are stored where it is {FIXED[key]!r}")
    if config.get("is_decoder"):
        raise DataError("it is a decoder, whose first token sees no other")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise DataError("its places are relative, so that attention of an appended layer is no plain mean")
    activation = config.get(kind.activation)
    if activation not in SILENCE:
        raise DataError(f"its activation is {activation!r}; questions are stored with {', '.join(SILENCE)}")
    epsilon = config.get("layer_norm_eps") if kind.epsilon is None else kind.epsilon
    if type(epsilon) not in (float, int) or not LEAST_HOST_EPSILON <= float(str(epsilon)) <= 1e-3:
        raise DataError(f"config.json says layer_norm_eps = {epsilon!r:.40}; it must be from 2^-100 to 0.001")


def _check_tensors(found: Encoder) -> None:
    """Refuse tensors whose shapes do not fit `config.json`, or that are not all in one format."""
    config, root = found.config, found.kind.root
    words = found.tensors[f"{root}embeddings.word_embeddings.weight"]
    D, H, heads = (config.get(key) for key in (found.kind.width, found.kind.neurons, "num_attention_heads"))
    if type(D) is not int or type(H) is not int or D < 32 or H < 2:
        raise DataError(f"its width is {D!r} and it has {H!r} neurons per layer: 32 or more and 2 or more are needed")
    shapes = {"W_1": (H, D), "W_2": (D, H)}
    for name, tensor in found.tensors.items():
        part = name.rpartition(".")[0]
        role = next((role for role, own in found.kind.linear.items() if f".{part}".endswith(f".{own}")), None)
        wanted: tuple[int, ...] = tensor.shape
        if role is not None:
            matrix = shapes.get(role, (D, D))
            wanted = matrix if name.endswith("weight") else matrix[:1]
        elif part.endswith(("LayerNorm", *found.kind.norms)):
            wanted = (D,)
        elif part.removeprefix(root) in found.kind.shared:
            wanted = (tensor.shape[0], heads if type(heads) is int else 0)
        elif len(tensor.shape) != 2 or tensor.shape[1] != D:
            wanted = (tensor.shape[0], D)
        if tensor.shape != wanted:
            raise DataError(f"{name} has shape {tensor.shape}, where {wanted} is needed")
        if tensor.code != words.code:
            raise DataError(f"{name} is {tensor.dtype} and {words.name} {words.dtype}: store all weights in one format")
    if words.dtype not in HOST_FORMATS:
        raise DataError(
            f"its weights are {words.dtype or words.code}; questions are stored in {', '.join(HOST_FORMATS)}"
        )
    for said in (config.get(key) for key in ("dtype", "torch_dtype")):
        if said is not None and said != words.dtype:
            raise DataError(f"its config.json says {said!r}, and its weights are {words.dtype}: save it in one format")
    sizes = {"vocab_size": 0, "max_position_embeddings": 1, "type_vocab_size": 2}
    for (key, number), table in zip(sizes.items(), found.kind.tables, strict=False):
        rows = found.tensors[f"{root}embeddings.{table}.weight"].shape[0]
        if config.get(key) != rows:
            raise DataError(f"config.json says {key} = {config.get(key)!r}, and {table} has {rows:,} rows ({number})")


def pooling_of(folder: Path) -> Pooling | None:
    """How sentence-transformers pools the states of the encoder in `folder`; None if the folder does not say."""
    try:
        pooling = json.loads((folder / POOLING_FILE).read_text("utf-8"))
        modes = {key.removeprefix("pooling_mode_") for key, value in pooling.items() if value is True and "mode" in key}
    except (OSError, ValueError, AttributeError):
        return None
    if modes == {"mean_tokens"}:
        return "mean"
    if modes == {"cls_token"}:
        return "first"
    raise DataError(
        f"{folder} pools its states by {', '.join(sorted(modes)) or 'no known way'} ({POOLING_FILE}); an appended "
        "layer can take their mean or the first one: say which with pooling='mean' or pooling='first'"
    )


_NO_ENCODER = "so it holds its data and is no pretrained encoder"


def read_encoder(folder: Path) -> tuple[Encoder, ModelFiles]:
    """Read the encoder in `folder`, which anyone may have written; a `DataError` says why it cannot hold questions."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder: questions are stored in an encoder that lies in one. Load an encoder of the "
            "Hub with from_pretrained, and save it and its tokenizer into a folder with save_pretrained"
        )
    try:
        if MODEL.objection(folder) is None:
            raise built_by_us("memorize", _NO_ENCODER)
        opened = read_together(folder, lambda opened: model_files(opened, "encoder"))
        config = read_json(folder / "config.json", opened.content["config.json"])
        if QUESTIONS_MARK.items() <= config.items():
            raise DataError("questions are stored in it already: insert adds more, and detach restores its encoder")
        if ATTACHED_MARK.items() <= config.items():
            raise DataError("it is a language model with attached facts, not an encoder")
        if BUILT_BY.items() <= config.items():
            raise built_by_us("memorize_as", _NO_ENCODER)
        return encoder_of(config, opened.tensors), opened
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be read: {error.strerror}") from None
    except (ForeignError, ModelFileError, DataError) as error:
        raise DataError(f"{folder} cannot hold questions: {error}") from None
