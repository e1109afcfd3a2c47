"""Build the JSON files of a stock folder from the few facts that they depend on.

`memorize_as` writes these files, and the checker demands them value by value, because any other key or value could mean
anything to transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monolayer.data.labelling import Labelling
from monolayer.data.number_formats import FORMATS, NumberFormat
from monolayer.data.objects import JsonObject
from monolayer.huggingface.architecture import (
    BEGIN,
    END,
    PAD,
    TASK_LABELLINGS,
    UNKNOWN,
    ModelSetting,
    ModelTask,
    Setting,
)
from monolayer.huggingface.stock_kind import StockKind
from monolayer.huggingface.texts import CUTS, TextCut

BUILT_BY = {"built_by": "monolayer"}
"""Marks in `config.json` that monolayer built a folder. transformers keeps the key and ignores it."""
DRAW_KEY = "monolayer_draw"
"""The key of `config.json` that holds the draw (`stock/draw.py`) as a text, so that copies of the model keep it."""
SPECIAL_TOKEN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
"""How `tokenizer.json` describes a special token, besides its id and content."""


@dataclass(frozen=True, eq=False)
class FolderFacts:
    """What the files of a folder depend on besides the numbers in its tensors."""

    architecture: StockKind
    task: ModelTask
    dtype: str
    """The type that the weights are stored in."""
    rotary: tuple[float, int] | None
    """The base of the rotary angles, and how many coordinates are rotated; None without rotary positions."""
    width: int
    neurons: int
    room: int
    """The most tokens that a sequence may have, including the begin token."""
    positions: bool
    """Whether the order of tokens counts."""
    names: tuple[str, ...]
    """The names of the ids, with special tokens first."""
    classes: tuple[str, ...]
    """The names of the classes; the classes of a language model are its tokens."""
    cut: TextCut
    """How the tokenizer splits text."""

    @property
    def kind(self) -> str:
        """The name of the architecture."""
        return self.architecture.name

    @property
    def format(self) -> NumberFormat:
        """The format that the weights are stored in."""
        return FORMATS[self.dtype]

    @property
    def labelling(self) -> Labelling:
        """What the answers belong to."""
        return TASK_LABELLINGS[self.task]

    @property
    def depth(self) -> int:
        """The number of layers."""
        return 1

    @property
    def causal(self) -> bool:
        """Whether a token sees only itself and the tokens before it."""
        return self.architecture.causal

    @property
    def activation(self) -> str:
        """The name of the activation function."""
        return self.architecture.activation

    @property
    def epsilon(self) -> float:
        """ε of the norms."""
        return self.architecture.epsilon

    @property
    def max_positions(self) -> int:
        """The most tokens in a sequence, as `config.json` counts them."""
        return self.room + self.architecture.offset - self.architecture.hidden_rows

    @property
    def theta(self) -> float:
        """The base of the rotary angles; 0 without rotary positions."""
        return 0.0 if self.rotary is None else self.rotary[0]

    @property
    def turned(self) -> float:
        """The share of the coordinates that is rotated; 0 without rotary positions."""
        return 0.0 if self.rotary is None else self.rotary[1] / self.width


def written_files(facts: FolderFacts) -> dict[str, JsonObject]:
    """The content of each JSON file of a folder with these facts, by the name of the file."""
    files = {
        "config.json": config(facts),
        "tokenizer.json": _tokenizer(facts),
        "tokenizer_config.json": _tokenizer_config(facts),
    }
    if facts.labelling.generates:
        ids = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD}
        files["generation_config.json"] = {"do_sample": False, "max_length": facts.room + 1, **ids}
    return files


def config(facts: FolderFacts) -> JsonObject:
    """The content of `config.json` for a folder with these facts."""
    labels: JsonObject = {}
    if not facts.labelling.generates:
        names = {str(number): name for number, name in enumerate(facts.classes)}
        labels = {"id2label": names, "label2id": {name: int(number) for number, name in names.items()}}
    return {
        "architectures": [facts.architecture.models[facts.task]],
        "model_type": facts.kind,
        "dtype": facts.dtype,
        "torch_dtype": facts.dtype,
        "tie_word_embeddings": False,
        **BUILT_BY,
        "vocab_size": len(facts.names),
        "pad_token_id": PAD,
        **labels,
        **{key: _with_model_settings(value, facts) for key, value in facts.architecture.settings.items()},
    }


def _with_model_settings(setting: Setting, facts: FolderFacts) -> object:
    """A setting of `config.json` in which every `ModelSetting` is replaced by its value in this model."""
    if isinstance(setting, ModelSetting):
        return getattr(facts, setting.value)
    if isinstance(setting, Mapping):
        return {key: _with_model_settings(value, facts) for key, value in setting.items()}
    return setting


def _tokenizer(facts: FolderFacts) -> JsonObject:
    """The content of `tokenizer.json`: the ids of words, how text is split, and the begin token in front."""
    special = list(facts.architecture.special.values())
    first = special[BEGIN]
    begins, one, two = (
        {"SpecialToken": {"id": first, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": name, **SPECIAL_TOKEN} for number, name in enumerate(special)],
        "normalizer": None,
        "pre_tokenizer": CUTS[facts.cut],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begins, one],
            "pair": [begins, one, two],
            "special_tokens": {first: {"id": first, "ids": [BEGIN], "tokens": [first]}},
        },
        "decoder": _decoder(facts),
        "model": {
            "type": "WordLevel",
            "vocab": {name: number for number, name in enumerate((*special, *facts.names[len(special) :]))},
            "unk_token": special[UNKNOWN],
        },
    }


def _decoder(facts: FolderFacts) -> JsonObject | None:
    """The decoder of `tokenizer.json`, which joins tokens into text with or without spaces; None for the default.

    A pipeline decodes the text after a prompt separately, so in a language model each word gets a space in front.
    """
    if facts.cut in ("characters", "pieces"):
        return {"type": "Fuse"}
    # This matches the start of a token in every regex engine: in some, ^ is the start of a line, and others lack \A.
    start = {"Regex": r"(?<![\s\S])"}
    return {"type": "Replace", "pattern": start, "content": " "} if facts.labelling.generates else None


def _tokenizer_config(facts: FolderFacts) -> JsonObject:
    """The content of `tokenizer_config.json`. Older and newer versions of transformers know this tokenizer class."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts.room,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": padding_side(facts),
        **{f"{name}_token": text for name, text in facts.architecture.special.items()},
    }


def padding_side(facts: FolderFacts) -> str:
    """The side on which padding leaves every answer of a forward pass correct.

    `generate` needs padding on the left. With that, GPT-2 counts padding as places unless it is given `position_ids`.
    OPT counts places by the mask, and rotary positions depend only on differences.
    """
    places_move = facts.architecture.counts_padding and facts.positions
    return "left" if facts.labelling.generates and not places_move else "right"
