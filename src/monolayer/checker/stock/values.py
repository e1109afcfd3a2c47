"""Values of keys that change no answer, as far as transformers take them: a folder that does not load answers nothing.

Each key of a `config.json` or `tokenizer_config.json` that the proofs let pass has here what it may say, and that in
words. From transformers 5.22, whose configurations check the types of what they declare; a test asks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from monolayer.checker.rounding import UnhandledError


@dataclass(frozen=True)
class Kind:
    """What a value may be, and how that is said."""

    words: str
    holds: Callable[[Any], bool]

    def __or__(self, other: Kind) -> Kind:
        return Kind(f"{self.words} or {other.words}", lambda value: self.holds(value) or other.holds(value))


def _number(value: Any) -> bool:
    return (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))


NOTHING = Kind("null", lambda value: value is None)
FLAG = Kind("true or false", lambda value: type(value) is bool)
TEXT = Kind("a string", lambda value: type(value) is str)
WHOLE = Kind("a whole number from 0 on", lambda value: type(value) is int and 0 <= value < 2**63)
SHARE = Kind("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1)
SIZE = Kind("a number above 0", lambda value: _number(value) and value > 0)
SPREAD = Kind("a number from 0 on, with a point", lambda value: type(value) is float and 0.0 <= value < math.inf)
NAMES = Kind("a list of strings", lambda value: type(value) is list and all(type(one) is str for one in value))
WHOLES = Kind("a list of whole numbers", lambda value: type(value) is list and all(map(WHOLE.holds, value)))
LABELS = Kind(
    "a table of strings", lambda value: type(value) is dict and all(type(one) is str for one in value.values())
)
NUMBERS = Kind("a table of whole numbers", lambda value: type(value) is dict and all(map(WHOLE.holds, value.values())))
MEASURES = Kind("a table of numbers", lambda value: type(value) is dict and all(map(_number, value.values())))
LOSSES = ("regression", "single_label_classification", "multi_label_classification")
LOSS = Kind(f"one of {', '.join(LOSSES)}", lambda value: type(value) is str and value in LOSSES)
SIDE = Kind("left or right", lambda value: type(value) is str and value in ("left", "right"))
ANYTHING = Kind("anything", lambda value: True)

CONFIG: Mapping[str, Kind] = {
    "architectures": NAMES,
    "model_type": TEXT,
    "built_by": ANYTHING,
    "draw": MEASURES,
    **dict.fromkeys(("transformers_version", "_name_or_path", "summary_activation"), TEXT | NOTHING),
    **dict.fromkeys(("torch_dtype", "summary_type"), TEXT),
    **dict.fromkeys(("use_cache", "summary_proj_to_labels", "summary_use_proj"), FLAG),
    "id2label": LABELS,
    "label2id": NUMBERS,
    "bos_token_id": WHOLE | NOTHING,
    "eos_token_id": WHOLE | WHOLES | NOTHING,
    **dict.fromkeys(("initializer_range", "init_std"), SPREAD),
    "problem_type": LOSS | NOTHING,
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"), SHARE),
    **dict.fromkeys(("seq_classif_dropout", "qa_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"), SHARE),
    **dict.fromkeys(("layerdrop", "hidden_dropout", "residual_dropout", "embedding_dropout"), SHARE),
    **dict.fromkeys(("summary_first_dropout", "rotary_pct"), SHARE),
    "classifier_dropout": SHARE | NOTHING,
    "type_vocab_size": WHOLE,
    "rope_theta": SIZE,
}
"""Keys of `config.json` that do not change what a model in evaluation mode returns, or that another key repeats."""
STRICTER: Mapping[tuple[str, str], Kind] = {("gpt_neox", "classifier_dropout"): SHARE}
"""Where one architecture takes less."""
TOKENIZER: Mapping[str, Kind] = {
    "model_max_length": WHOLE,
    "model_input_names": NAMES,
    "clean_up_tokenization_spaces": FLAG,
    **dict.fromkeys(("padding_side", "truncation_side"), SIDE),
    **dict.fromkeys(("backend", "name_or_path"), TEXT),
    **dict.fromkeys(("is_local", "local_files_only"), FLAG),
    "chat_template": TEXT | NOTHING,
}
"""Keys that change no id: which side is padded, what is returned, and how long a text may be before it is warned of."""


def check_value(file: str, key: str, value: Any, kind: Kind) -> None:
    """A value that transformers may refuse leaves the claim undecided."""
    if not kind.holds(value):
        raise UnhandledError(f"{file} says {key} = {value!r}, and transformers take {kind.words} there")
