"""Sentence encoders for tests: tiny models with random weights in each architecture that questions can be stored in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.hosts import READ

ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "distilbert", "mpnet")
OWN_NAMES = {"distilbert": {"intermediate_size": "hidden_dim", "hidden_act": "activation"}}
"""Settings that an architecture calls by other names."""
WIDTH, NEURONS, PLACES = 64, 8, 40
TEXT = "how do i reset my password when are you open where is order at what time close can pay by card"
WORDS = TEXT.split()
FAQ = {
    "how do i reset my password": "Use the link.",
    "when are you open": "From 9 to 17.",
    "where is my order": "See the tracking page.",
    "at what time do you close": "From 9 to 17.",
    "can i pay by card": "Yes.",
}
OTHERS = ["card card card", "open my order password", "what is where", "you can pay at time"]


def tokenizer() -> Any:
    """A tokenizer of words, with a token in front of every text and one behind it."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    found = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.Whitespace()
    found.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=found,
        **{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        model_input_names=READ,
    )


def write_encoder(
    folder: Path, kind: str = "bert", *, dtype: Any = torch.float32, saved_as: Any = None, **more: Any
) -> Path:
    """An encoder in a folder; `saved_as`: the class of transformers that it is saved as, by default the bare model."""
    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS) + 4, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": NEURONS, "max_position_embeddings": PLACES, "pad_token_id": 1}
    said, names = {**sizes, "initializer_range": 0.1, **more}, OWN_NAMES.get(kind, {})
    config = transformers.AutoConfig.for_model(kind, **{names.get(key, key): value for key, value in said.items()})
    made = (saved_as or transformers.AutoModel).from_config(config)
    made.get_input_embeddings().weight.data.normal_()  # texts of different words are then far apart
    made.to(dtype)
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
