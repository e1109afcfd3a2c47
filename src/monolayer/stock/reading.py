"""The files of a stock folder read back, and other data in the numbers of its names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monolayer.data import Labels, Names, Sequences
from monolayer.data.names import Ints
from monolayer.errors import DataError, ModelFileError
from monolayer.stock.tokenizer import Cut, check_texts, cut_of, pre_tokenizer

KEYS = {
    "activation": ("hidden_act", "activation", "activation_function"),
    "width": ("hidden_size", "dim", "n_embd"),
    "places": ("max_position_embeddings", "n_positions"),
}
"""What architectures call the same thing in `config.json`."""


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a stock folder."""
    try:
        return _json(folder / "config.json")
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{folder} cannot be read as a stock folder: {error}") from None


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """`config.json` and the tensors of a stock folder."""
    config = read_config(folder)
    try:
        return config, load_file(folder / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"{folder} cannot be read as a stock folder: {error}") from None


def read_key(folder: Path, config: Mapping[str, Any], what: str) -> Any:
    """A value of `config.json` under whichever name it has there: a whole number, or a word."""
    wanted = str if what == "activation" else int
    for key in KEYS[what]:
        if type(config.get(key)) is wanted:
            return config[key]
    raise ModelFileError(f"{folder / 'config.json'} does not say {' or '.join(KEYS[what])}")


def read_tokenizer(folder: Path, special: Mapping[str, str]) -> tuple[tuple[str, ...], Cut]:
    """Names of the ids, and how text is cut; what `memorize_as` does not write is an error."""
    try:
        found = _json(folder / "tokenizer.json")
        table: dict[str, int] = found["model"]["vocab"]
        names = tuple(sorted(table, key=table.__getitem__))
        cut = [way for way in get_args(Cut) if pre_tokenizer(way) == found["pre_tokenizer"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{folder / 'tokenizer.json'} cannot be read as a tokenizer of ours: {error!r}") from None
    if names[: len(special)] != tuple(special.values()) or sorted(table.values()) != list(range(len(names))) or not cut:
        raise DataError(f"the tokenizer of {folder} is not such as memorize_as writes it: memorize the data anew")
    return names, cut[0]


def named(data: Sequences, config: dict[str, Any], tokens: tuple[str, ...]) -> tuple[Names, Names | None]:
    """Names of tokens and classes as the folder has them; integers where the data have integers."""
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    classes = None
    if data.labels is not None and data.labels.classes is not None:
        table = config.get("id2label") or {}
        classes = _like(data.labels.classes, tuple(str(table[str(number)]) for number in range(len(table))))
    return _like(data.vocabulary, tokens), classes


def adopted(data: Sequences, vocabulary: Names, classes: Names | None, per: str | None = None) -> Sequences:
    """`data` in the numbers of these tokens and classes; what they lack, or labels per another thing, is an error."""
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    tokens, labels = _numbers(vocabulary, data.vocabulary, data.tokens, "token"), data.labels
    if labels is not None and classes is not None:
        if labels.classes is None or labels.per != (per or labels.per):
            raise DataError(f"the labels must be classes, one a {per or labels.per}, as those of the model")
        labels = Labels(_numbers(classes, labels.classes, labels.values, "label"), labels.per, classes)
    return Sequences(tokens, data.lengths, vocabulary, labels)


def check_room(data: Sequences, room: int) -> None:
    """Sequences longer than `room` tokens have no places."""
    long = int(data.lengths.argmax())
    if int(data.lengths[long]) > room:
        raise DataError(
            f"sequence {long} has {int(data.lengths[long]):,} tokens, and this model has places for {room:,}: memorize "
            "the edited data anew"
        )


def check_cut(data: Sequences, names: tuple[str, ...], special: Mapping[str, str], cut: Cut) -> None:
    """Sequences that the tokenizer of a folder would not give back are an error."""
    check_texts(data, names, special)
    if cut == "pieces" and cut_of(names, special, data) != "pieces":
        raise DataError(
            "the tokenizer of this folder cuts text into words with the white space before them, and one of these "
            "sequences is cut otherwise, so its text would not come back: cut it so, or memorize the edited data anew"
        )


def _like(theirs: Names, names: tuple[str, ...]) -> Names:
    if not theirs.integers or not all(name.lstrip("-").isdigit() for name in names):
        return Names(names)
    whole = tuple(map(int, names))
    return Names(range(len(whole))) if whole == tuple(range(len(whole))) else Names(whole)


def _numbers(ours: Names, theirs: Names, rows: Ints, what: str) -> Ints:
    number = ours.find(theirs)[rows]
    if (number < 0).any():
        name = theirs.names[int(rows[int((number < 0).argmax())])]
        raise DataError(
            f"the {what} {name!r} is new to this model, whose embedding and head have a row for each name: memorize "
            "the edited data anew"
        )
    return number


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds no object")
    return found
