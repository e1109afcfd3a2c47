"""What stands between a text and the ids of a stock folder: rules that the proofs know, and data that pass them.

`tokenizer.json` may put a normalizer in front, cut elsewhere, or know more tokens; `tokenizer_config.json` may name
another class, which rewrites all that. Each such change means other ids for the same text, so what is not known here
leaves the claim undecided.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.values import TOKENIZER, check_value
from monolayer.data import Sequences
from monolayer.data.regular import read_regular

Cut = Literal["characters", "words", "pieces", "given"]
PIECE = r"\s*\S+|\s+"
_SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
RULES: tuple[tuple[Any, Cut], ...] = (
    ({"type": "WhitespaceSplit"}, "words"),
    ({**_SPLIT, "pattern": {"Regex": r"[\s\S]"}}, "characters"),
    ({**_SPLIT, "pattern": {"Regex": PIECE}}, "pieces"),
    (None, "given"),
)
"""Ways to cut a text, as `tokenizer.json` says them."""
CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Tokenizer classes that take `tokenizer.json` as it is; others put rules of their own in its place."""
NAMED = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
_SEPARATORS = re.compile("[\x1c-\x1f]")
"""White space for Python and not for `tokenizers`."""


def read_cut(folder: Path, tokenizer: dict[str, Any]) -> tuple[Cut, tuple[str, ...]]:
    """How text is cut, and the names that are found in it before it is; anything unknown is `UnhandledError`."""
    for key in ("normalizer", "truncation", "padding"):
        if tokenizer.get(key) is not None:
            raise UnhandledError(f"tokenizer.json has a {key}, so that users get other ids than the proofs assume")
    known = [cut for rule, cut in RULES if tokenizer.get("pre_tokenizer") == rule]
    if not known:
        raise UnhandledError("tokenizer.json cuts text by a rule that the proofs do not know")
    table = tokenizer["model"]["vocab"]
    if set(tokenizer["model"]) - {"type", "vocab", "unk_token"}:
        raise UnhandledError("the model in tokenizer.json has settings of which the proofs know nothing")
    for token in tokenizer["added_tokens"]:
        if table.get(token["content"]) != token["id"] or any(token[key] is not value for key, value in _PLAIN.items()):
            raise UnhandledError(f"tokenizer.json finds {token['content']!r} in texts in a way of its own")
    added = tuple(str(token["content"]) for token in tokenizer["added_tokens"])
    _config(folder, added, table)
    return known[0], added


def _config(folder: Path, added: tuple[str, ...], table: dict[str, int]) -> None:
    """The companion files: a class that keeps to `tokenizer.json`, and special tokens that are among its own."""
    if (folder / "added_tokens.json").exists():
        raise UnhandledError("added_tokens.json lies beside the tokenizer, and transformers would add what it says")
    config = _object(folder / "tokenizer_config.json")
    if config is None:
        raise UnhandledError("tokenizer_config.json is missing: transformers would take the architecture's tokenizer")
    if config.get("tokenizer_class") not in CLASSES:
        raise UnhandledError(f"tokenizer_config.json names the class {config.get('tokenizer_class')!r}")
    if config.get("model_input_names") != ["input_ids", "attention_mask"]:  # GPT-2 adds embeddings of token types
        raise UnhandledError("the tokenizer must return ids and the attention mask: padding is seen without it")
    for key, value in (*config.items(), *(_object(folder / "special_tokens_map.json") or {}).items()):
        if key in TOKENIZER:
            check_value("tokenizer_config.json", key, value, TOKENIZER[key])
        if key in TOKENIZER or key == "tokenizer_class":
            continue
        if key not in NAMED:
            raise UnhandledError(f"tokenizer_config.json says {key} = {value!r}, of which the proofs know nothing")
        name = value.get("content") if isinstance(value, dict) else value
        if name not in added or (key == "pad_token" and table[name] != 0):
            raise UnhandledError(f"{key} of the tokenizer is {value!r}, which is no special token of tokenizer.json")


def check_cut(cut: Cut, added: tuple[str, ...], data: Sequences) -> None:
    """Whether the tokens of the data are those that their text is cut into."""
    assert data.vocabulary is not None  # the caller saw to it
    words = np.array([str(name) for name in data.vocabulary.names], dtype=object)
    used = words[np.unique(data.tokens)].tolist()
    if "" in used:
        raise UnhandledError("the data have an empty token, which no tokenizer produces")
    if cut == "given":
        # Lists are not glued together, but special tokens are looked for inside each of their tokens.
        held = [(name, word) for word in used for name in added if name in word and name != word]
        if held:
            raise UnhandledError(f"the token {held[0][1]!r} holds {held[0][0]!r}, which the tokenizer would find in it")
        return
    if cut == "characters" and any(len(word) != 1 for word in used):
        raise UnhandledError("the tokenizer cuts text into characters, and the data have longer tokens")
    if cut == "words" and any(re.search(r"\s", word) or not word for word in used):
        raise UnhandledError("the tokenizer cuts text at white space, and tokens of the data hold some")
    if cut != "characters" and any(_SEPARATORS.search(word) for word in used):
        raise UnhandledError(
            "tokens of the data hold separators, of which it is not settled whether they are white space"
        )
    letters = set("".join(used)) | ({" "} if cut == "words" else set())
    names = [name for name in added if name and set(name) <= letters]
    if cut != "pieces" and not names:
        return
    glue = " " if cut == "words" else ""
    for number, row in enumerate(data.split(data.tokens)):
        text = glue.join(words[row])
        if any(name in text for name in names):
            raise UnhandledError(f"sequence {number} spells a special token, which the tokenizer would find in it")
        if cut == "pieces" and re.findall(PIECE, text) != words[row].tolist():
            raise UnhandledError(f"the text of sequence {number} is cut into other tokens than the data have")


def _object(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UnhandledError(f"{path.name} cannot be read")
    return value
