"""Describe one architecture of transformers: the names of its tensors, and the keys of its `config.json`.

Names of tensors begin with a root, and those of a block with the root, the name of the list of blocks and a number.
Linear layers have letters that are the same in every architecture: `Q`, `K`, `V`, `O` are those of attention, and a
block computes W_2 act(W_1 x + b_1), multiplied by W_3 x + b_3 if it is gated.

What an architecture is with one layer says `StockKind` (`stock_kind.py`), and what it is as a host `HostKind`
(`host_kind.py`). Each file of `architectures` has all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from monolayer.data.labelling import NEXT, SEQUENCE, TOKEN, Labelling

ModelTask = Literal["token", "sequence", "lm"]
CLASS_SUFFIXES: dict[ModelTask, str] = {
    "token": "ForTokenClassification",
    "sequence": "ForSequenceClassification",
    "lm": "ForCausalLM",
}
TASK_LABELLINGS: dict[ModelTask, Labelling] = {"token": TOKEN, "sequence": SEQUENCE, "lm": NEXT}
"""What the answers of a model for each task belong to."""
TYPES = 2
PAD, UNKNOWN, BEGIN, END = range(4)
ENCODER = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
DECODER = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
"""The special tokens of encoders, which see both ways, and of decoders, which see only what came before.

They are in the order of their ids."""


class ModelSetting(Enum):
    """A setting of `config.json` that depends on the model. Its value names the attribute of `FolderFacts` with it."""

    DEPTH = "depth"
    WIDTH = "width"
    NEURONS = "neurons"
    PLACES = "max_positions"
    ACTIVATION = "activation"
    EPSILON = "epsilon"
    THETA = "theta"
    TURNED = "turned"


Setting: TypeAlias = "ModelSetting | str | float | Mapping[str, Setting] | None"
"""A value in `config.json` that is fixed for an architecture, or a `ModelSetting` that depends on the model."""
ENDS: dict[str, Setting] = {"bos_token_id": BEGIN, "eos_token_id": END}
ONE_LAYER: dict[str, Setting] = {
    "num_hidden_layers": ModelSetting.DEPTH,
    "num_attention_heads": 1,
    "hidden_size": ModelSetting.WIDTH,
}


@dataclass(frozen=True)
class Architecture:
    """The names of the tensors of one architecture, and its settings."""

    name: str
    word: str
    """The word that the names of its classes begin with."""
    root: str
    """The prefix of the names of all tensors but the head. Some files, such as those of GPT-2, leave out its first
    part."""
    blocks: str
    """The name of the list of blocks, after `root`."""
    tables: Mapping[str, str]
    """The names of the embedding tables, after `root`, by `tokens`, `places` and `types`."""
    layers: Mapping[str, str]
    """The names of linear layers within a block, by their letters. If query, key and value are one tensor, they share
    its name."""
    norms: tuple[str, str]
    """The names of the two norms within a block, in the order of evaluation."""
    outer_norm: str
    """The name, after `root`, of the norm before all blocks (encoders) or after them (decoders)."""
    settings: Mapping[str, Setting]
    """The keys of `config.json` that not all architectures have, with the values for one layer."""
    causal: bool = True
    """Whether a token sees only itself and the tokens before it (decoders)."""
    transposed: bool = False
    """Whether matrices are stored as `(in, out)`."""
    rms: bool = False
    """Whether norms subtract no mean, have no bias, and compute in float32 whatever type the weights have."""
    classes: Mapping[ModelTask, str] = field(default_factory=dict)
    """The names of transformers classes that do not end as others do (`CLASS_SUFFIXES`)."""

    def __post_init__(self) -> None:
        letters = "".join(self.layers)
        if letters not in ("QKVO12", "QKVO123") or "tokens" not in self.tables or len(self.norms) != 2:
            raise ValueError(f"{self.name}: the table lacks a layer, a norm or the embedding of tokens")

    def class_for(self, task: ModelTask) -> str:
        """The name of the transformers class for this task."""
        return self.classes.get(task, self.word + CLASS_SUFFIXES[task])

    def key_of(self, setting: ModelSetting) -> str | None:
        """The key of `config.json` that holds this setting, the first if several do; None if there is none."""
        return next((key for key, value in self.settings.items() if value is setting), None)
