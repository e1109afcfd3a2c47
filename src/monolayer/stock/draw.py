"""A draw: everything a stock model is made of except its data. It is stored beside the weights, as `draw.json`.

With a draw and data, every number of a folder is determined: the same construction with the same draw gives the same
bits. Labels are not part of it, and neither is the label that an embedding holds: both are read from the data.
transformers ignore the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.construct.robust.codes import code_for
from monolayer.data import Labels, Names, Sequences
from monolayer.data.regular import read_regular
from monolayer.errors import DataError, ModelFileError
from monolayer.stock.mirror import Kept
from monolayer.stock.tokenizer import Cut, check_texts, cut_of

FILE = "draw.json"


@dataclass(frozen=True, eq=False)
class Line:
    """The draw of steps in float64: random keys, and how far contexts may reach before gates let them through."""

    width: int
    temperature: float
    reach: float
    gate: float
    keys: Floats
    """Of the tokens `(V,)`."""
    place_keys: Floats | None
    """Of the places `(L,)`; None without positions."""


@dataclass(frozen=True, eq=False)
class Draw:
    """`numbers`: those of the construction, a `Line` of steps, or what is kept of a robust stream."""

    activation: str
    positions: bool
    places: int
    """How many places the model takes, as `config.json` counts them."""
    cut: Cut
    integers: tuple[bool, bool]
    """Whether the names of tokens, and those of labels, are integers in the data."""
    numbers: Line | Kept

    @property
    def robust(self) -> bool:
        return isinstance(self.numbers, Kept)

    @property
    def longest(self) -> int | None:
        """Tokens of the longest sequence that the numbers are for; None: as many as the model has places for."""
        if isinstance(self.numbers, Kept):
            return self.numbers.longest
        return None if self.numbers.place_keys is None else len(self.numbers.place_keys) - 1

    def names(self, texts: tuple[str, ...], labels: bool = False) -> Names:
        """Names of tokens, or of labels, as the data have them."""
        if not self.integers[labels]:
            return Names(texts)
        whole = tuple(map(int, texts))
        return Names(range(len(whole))) if whole == tuple(range(len(whole))) else Names(whole)

    def check(self, names: tuple[str, ...], special: int, classes: tuple[str, ...], dtype: str) -> None:
        """That this is a draw for a folder with these names and this format, or a `ValueError` that says why not."""
        self.names(names[special:])
        self.names(classes, labels=True)
        if isinstance(self.numbers, Kept):
            fits = self.numbers.mixture.shape[1] == code_for(len(names)).generator.shape[1]
        else:
            fits = len(self.numbers.keys) == len(names)
        if not fits:
            raise ValueError(f"{FILE} is for another number of tokens than the tokenizer has")
        if dtype not in (("float32", "bfloat16", "float16") if self.robust else ("float64",)):
            raise ValueError(f"{FILE} is for another format than {dtype!r}, which config.json names")

    # -- the file ----------------------------------------------------------------------------------------

    def to_json(self) -> str:
        known: dict[str, Any] = {
            "activation": self.activation,
            "positions": self.positions,
            "places": self.places,
            "cut": self.cut,
            "integers": list(self.integers),
        }
        if isinstance(self.numbers, Kept):
            signs = ["".join("-+"[int(one > 0)] for one in row) for row in self.numbers.mixture]
            size = float(np.abs(self.numbers.mixture).max())
            robust = {"longest": self.numbers.longest, "gain": self.numbers.gain, "size": size, "mixture": signs}
            return _dumped({**known, "robust": robust})
        keys = {name: None if part is None else part.tolist() for name, part in _tables(self.numbers).items()}
        steps = {name: getattr(self.numbers, name) for name in ("width", "temperature", "reach", "gate")}
        return _dumped({**known, "steps": {**steps, **keys}})

    @classmethod
    def read(cls, folder: Path) -> Draw:
        """The draw of a folder; what is no draw of ours is an error that says so."""
        path = folder / FILE
        try:
            said = json.loads(read_regular(path))
            return cls._of(said)
        except OSError as error:
            raise ModelFileError(
                f"{folder} has no draw to use again: {FILE} cannot be read ({error.strerror}). memorize_as writes it "
                "beside the weights; without it, memorize the data anew"
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ModelFileError(f"{path} is not a draw that memorize_as wrote: {error}") from None

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> Draw:
        if said["cut"] not in get_args(Cut):
            raise ValueError(f"cut is {said['cut']!r}")
        numbers = _robust(said["robust"]) if "robust" in said else _line(said["steps"])
        tokens, labels = map(bool, said["integers"])
        places = int(said["places"])
        return cls(str(said["activation"]), bool(said["positions"]), places, said["cut"], (tokens, labels), numbers)


def _tables(line: Line) -> dict[str, Floats | None]:
    return {"keys": line.keys, "place_keys": line.place_keys}


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False) + "\n"


def _line(said: Mapping[str, Any]) -> Line:
    temperature, reach, gate = (float(said[name]) for name in ("temperature", "reach", "gate"))
    keys = [None if said[name] is None else np.array(said[name], dtype=np.float64) for name in ("keys", "place_keys")]
    if not all(0.0 < number < np.inf for number in (temperature, reach, gate)):
        raise ValueError("temperature, reach and gate must be numbers above 0")
    if keys[0] is None or not all(key is None or (key.ndim == 1 and (np.abs(key) <= 1.0).all()) for key in keys):
        raise ValueError("keys must be numbers from −1 to 1")
    return Line(int(said["width"]), temperature, reach, gate, keys[0], keys[1])


def _robust(said: Mapping[str, Any]) -> Kept:
    signs = np.array([[{"+": 1.0, "-": -1.0}[sign] for sign in row] for row in said["mixture"]])
    size, gain = float(said["size"]), float(said["gain"])
    if signs.ndim != 2 or not (0.0 < size < np.inf and 0.0 < gain < np.inf):
        raise ValueError("the mixture must be rows of signs, size and gain numbers above 0")
    return Kept(int(said["longest"]), size * signs, gain)


# -- other data in the numbers of a draw ---------------------------------------------------------------------


def adopted(data: Sequences, vocabulary: Names, classes: Names | None, per: str) -> Sequences:
    """`data` in the numbers of these tokens and classes; what they lack, or labels per another thing, is an error."""
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    tokens, labels = _numbered(vocabulary, data.vocabulary, data.tokens, "token"), data.labels
    if (labels is None) != (classes is None):
        raise DataError("this model memorizes each next token: give no labels" if classes is None else "give labels")
    if labels is not None and classes is not None:
        if labels.classes is None or labels.per != per:
            raise DataError(f"the labels must be classes, one per {per}, as those of the model")
        labels = Labels(_numbered(classes, labels.classes, labels.values, "label"), labels.per, classes)
    return Sequences(tokens, data.lengths, vocabulary, labels)


def check_room(data: Sequences, room: int) -> None:
    """Sequences longer than `room` tokens have no places."""
    long = int(data.lengths.argmax())
    if int(data.lengths[long]) > room:
        raise DataError(
            f"sequence {long} has {int(data.lengths[long]):,} tokens, and this draw has places for {room:,}: memorize "
            "the data anew, without the draw"
        )


def check_cut(data: Sequences, names: tuple[str, ...], special: Mapping[str, str], cut: Cut) -> None:
    """Sequences that the tokenizer of a draw would not give back are an error."""
    check_texts(data, names, special)
    if cut == "pieces" and cut_of(names, special, data) != "pieces":
        raise DataError(
            "the tokenizer of this draw cuts text into words with the white space before them, and one of these "
            "sequences is cut otherwise, so its text would not come back: cut it so, or memorize the data anew"
        )


def _numbered(ours: Names, theirs: Names, rows: Ints, what: str) -> Ints:
    if ours == theirs:
        return rows
    table = {str(name): row for row, name in enumerate(ours.names)}
    number = np.array([table.get(str(name), -1) for name in theirs.names], dtype=np.int64)[rows]
    if (number < 0).any():
        name = theirs.names[int(rows[int((number < 0).argmax())])]
        raise DataError(
            f"the {what} {name!r} is new to this draw, whose embedding and head have a row for each name: memorize "
            "the data anew, without the draw"
        )
    return number
