"""Read the files of an encoder with questions, and refuse anything in them that `recognize` does not write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.rounding import UnhandledError
from monolayer.data.folder import INDEX_FILE
from monolayer.errors import DataError
from monolayer.huggingface.encoders import Encoder, read_encoder
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.questions import (
    BESIDE_WEIGHTS,
    FILE,
    QuestionsManifest,
    classes_in,
    restored_encoder,
)
from monolayer.huggingface.strict import demand_equal, read_json
from monolayer.huggingface.tensors import ModelFiles, file_digest

BESIDE = frozenset({"README.md", "certificate.json", FILE, BESIDE_WEIGHTS})
"""Files in the folder that transformers does not read."""


class Level(NamedTuple):
    """The last neuron of the first appended layer: what it reads and writes `(D,)`, and its bias."""

    reads: Floats
    bias: float
    writes: Floats


@dataclass(frozen=True, eq=False)
class QuestionFolder:
    """An encoder with questions: the encoder, the manifest, and the numbers of the appended layers and of the head.

    `reads` `(N, D)`, `bias` `(N,)`, `writes` `(N, D)`: what each neuron reads, its bias, and what it writes. `layer`
    `(N,)`: the appended layer it stands in. `constant` `(D,)`: what the first appended layer adds to every text, and
    `level`: its neuron that all texts wake.
    `dense` `(R, D)`: the rows of the head's dense layer that are not 0. `signs` `(K, R)`: the code of each class, ±1,
    and `scale` the size of the entries of the last layer.
    """

    encoder: Encoder
    opened: ModelFiles
    manifest: QuestionsManifest
    classes: list[str]
    digests: Mapping[str, str]
    reads: Floats
    bias: Floats
    writes: Floats
    layer: Ints
    constant: Floats
    level: Level
    dense: Floats
    signs: Floats
    scale: float

    @property
    def layers(self) -> int:
        """How many layers are appended."""
        return self.encoder.blocks(len(self.bias))

    @property
    def answers(self) -> Ints:
        """The number of the class of each neuron `(N,)`, as the manifest has it."""
        return np.array([each.answer for each in self.manifest.questions], dtype=np.int64)

    def digest(self) -> str:
        """The digest of configuration, tokenizer and tensors."""
        small = {
            name: file_digest(part) for name, part in self.opened.content.items() if name in (*COPIED, "config.json")
        }
        content = json.dumps([small, dict(sorted(self.digests.items()))], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def changed(self) -> str | None:
        """What was changed in the encoder after questions were stored, in words; None if nothing was."""
        for name, digest in self.manifest.tensors.items():
            if self.digests[name] != digest:
                return f"the tensor {name} is not the one that questions were stored with"
        for name, digest in self.manifest.files.items():
            if file_digest(self.opened.content[name]) != digest:
                return f"{name} is not the file that lay beside the encoder"
        return None

    def rewritten(self) -> str | None:
        """The first added tensor that was changed after every question was asked, or None."""
        odd = (name for name, digest in self.manifest.appended.items() if self.digests.get(name) != digest)
        return next(odd, None)


def read_questions(opened: ModelFiles) -> QuestionFolder:
    """Read a folder. Raises a `ForeignError` or an `UnhandledError` for anything that `recognize` does not write."""
    manifest, classes = QuestionsManifest.in_folder(opened), classes_in(opened)
    allowed = {*opened.content, *BESIDE}
    strange = sorted(name for name in opened.sizes if name not in allowed and not name.startswith("."))
    if strange:
        raise UnhandledError(f"{strange[0]} is in the folder, and transformers may read it: move it elsewhere")
    if INDEX_FILE in opened.content:
        raise UnhandledError("its weights lie in several files, where recognize writes one")
    beside = set(COPIED) & set(opened.content)
    if beside != set(manifest.files):
        odd = sorted(beside ^ set(manifest.files))[0]
        raise UnhandledError(f"{odd} was not there when questions were stored, or is gone")
    missing = sorted(set(manifest.tensors) - set(opened))
    if missing:
        raise UnhandledError(f"the encoder's tensor {missing[0]} is missing")
    try:
        encoder = restored_encoder(opened, manifest)
    except KeyError as error:
        raise UnhandledError(f"the tensor {error.args[0]} is missing") from None
    except DataError as error:
        raise UnhandledError(f"the encoder in {FILE}: {error}") from None
    layers = encoder.blocks(len(manifest.questions))
    demand_equal(
        "config.json",
        read_json(opened.path / "config.json", opened.content["config.json"]),
        encoder.longer_config(layers, classes),
    )
    if len(classes) < 2 or classes[0] != manifest.unknown:
        raise UnhandledError(f"the first class is not {manifest.unknown!r}")
    if max((each.answer for each in manifest.questions), default=0) >= len(classes):
        raise UnhandledError(f"{FILE} gives a question a class that config.json does not name")
    return _Reader(opened, encoder, manifest, classes).folder(layers)


class _Reader:
    """Reads the tensors that were added to those of the encoder, each of which must have its form."""

    def __init__(self, opened: ModelFiles, encoder: Encoder, manifest: QuestionsManifest, classes: list[str]) -> None:
        self.opened, self.encoder, self.manifest, self.classes = opened, encoder, manifest, classes
        self.rest = set(opened) - set(manifest.tensors)

    def folder(self, layers: int) -> QuestionFolder:
        """The folder with this many appended layers."""
        encoder, kind, D, count = self.encoder, self.encoder.kind, self.encoder.width, len(self.manifest.questions)
        parts: dict[str, list[Floats]] = {"W_1": [], "b_1": [], "W_2": []}
        last: dict[str, list[Floats]] = {"W_1": [], "b_1": [], "W_2": []}
        constant = np.zeros(D)
        for number in range(layers):
            start = encoder.layer(encoder.layers + number)
            self._attention(start, first=number == 0)
            for norm in kind.norms:
                self._demand(f"{start}{norm}.weight", (D,), 1.0)
                self._demand(f"{start}{norm}.bias", (D,), 0.0)
            H = encoder.neurons
            read = {
                "W_1": self._numbers(f"{start}{kind.linear['W_1']}.weight", (H, D)),
                "b_1": self._numbers(f"{start}{kind.linear['W_1']}.bias", (H,)),
                "W_2": self._numbers(f"{start}{kind.linear['W_2']}.weight", (D, H)).T,
            }
            for name, numbers in read.items():
                parts[name].append(numbers[: encoder.per_layer])
                last[name].append(numbers[encoder.per_layer])
            if number == 0:
                constant = self._numbers(f"{start}{kind.linear['W_2']}.bias", (D,))
            else:
                self._demand(f"{start}{kind.linear['W_2']}.bias", (D,), 0.0)
        whole = {name: np.concatenate(found) for name, found in parts.items()}
        if any(part[count:].any() for part in whole.values()) or any(np.any(part[1:]) for part in last.values()):
            raise UnhandledError(f"a neuron that {FILE} gives to no question is not 0")
        level = Level(last["W_1"][0], float(last["b_1"][0]), last["W_2"][0])
        dense, signs, scale = self._head()
        if self.rest:
            raise UnhandledError(f"the tensor {sorted(self.rest)[0]} belongs neither to the encoder nor to our layers")
        digests = {name: self.opened[name].digest() for name in self.opened}
        reads, bias, writes = (whole[name][:count] for name in ("W_1", "b_1", "W_2"))
        layer = np.arange(count) // encoder.per_layer
        return QuestionFolder(
            encoder,
            self.opened,
            self.manifest,
            self.classes,
            digests,
            reads,
            bias,
            writes,
            layer,
            constant,
            level,
            dense,
            signs,
            scale,
        )

    def _attention(self, start: str, first: bool) -> None:
        """Attention takes the plain mean, or adds 0: then û is the direction that the manifest's pooling says."""
        linear, D = self.encoder.kind.linear, self.encoder.width
        for role in ("Q", "K", "V", "O"):
            self._demand(f"{start}{linear[role]}.bias", (D,), 0.0)
        for role in ("Q", "K"):
            self._demand(f"{start}{linear[role]}.weight", (D, D), 0.0)
        value, output = (f"{start}{linear[role]}.weight" for role in ("V", "O"))
        if first and self.manifest.pooling == "mean":
            if not np.array_equal(self._numbers(value, (D, D)), np.eye(D)):
                raise UnhandledError(f"{value} is not the identity, so attention does not take the mean of all tokens")
            self._numbers(output, (D, D))
        else:
            self._demand(value, (D, D), 0.0)
            self._demand(output, (D, D), 0.0)

    def _head(self) -> tuple[Floats, Floats, float]:
        """The dense layer's rows that are not 0, the codes of the classes, and the size of the head's entries."""
        kind, D, K = self.encoder.kind, self.encoder.width, len(self.classes)
        dense = self._numbers(f"{kind.pooler}.weight", (D, D))
        head = self._numbers(f"{kind.head}.weight", (K, D))
        self._demand(f"{kind.pooler}.bias", (D,), 0.0)
        self._demand(f"{kind.head}.bias", (K,), 0.0)
        used = dense.any(axis=1)
        scale = float(np.abs(head).max())
        if not used.any() or not (np.abs(head[:, used]) == scale).all() or head[:, ~used].any() or not scale > 0.0:
            raise UnhandledError("the head is not a code of signs along the rows of its dense layer")
        dense, signs = dense[used], np.sign(head[:, used])
        if kind.saturates:
            return dense, signs, scale
        half = len(dense) // 2
        if not np.array_equal(dense[:half], -dense[half:]) or not np.array_equal(signs[:, :half], -signs[:, half:]):
            raise UnhandledError("the head does not read each coordinate with both signs, so relu loses one of them")
        return dense[:half], signs[:, :half], scale

    def _numbers(self, name: str, shape: tuple[int, ...]) -> Floats:
        """The numbers of a tensor, which must have this shape and the encoder's format, and be finite."""
        if name not in self.opened:
            raise UnhandledError(f"the tensor {name} is missing")
        self.rest.discard(name)
        tensor = self.opened[name]
        if tensor.shape != shape or tensor.dtype != self.encoder.dtype:
            raise UnhandledError(f"{name} is {tensor.dtype} {tensor.shape}, not {self.encoder.dtype} {shape}")
        numbers = tensor.numbers()
        if not np.isfinite(numbers).all():
            raise UnhandledError(f"{name} holds a number that is not finite")
        return numbers

    def _demand(self, name: str, shape: tuple[int, ...], value: float) -> None:
        """Refuse a tensor that is not `value` everywhere."""
        if not (self._numbers(name, shape) == value).all():
            raise UnhandledError(f"{name} is not {value:g} everywhere")


def differs_from(folder: QuestionFolder, path: Path) -> str | None:
    """How the encoder in `path` differs from the one that questions were stored in, in words; None if it does not."""
    encoder, opened = read_encoder(path)
    if opened.content["config.json"] != folder.manifest.config.encode():
        return f"config.json of {path} is not that of the encoder"
    for name, tensor in encoder.tensors.items():
        mine = folder.encoder.tensors.get(name)
        if mine is None or (tensor.code, tensor.shape) != (mine.code, mine.shape) or tensor.data != mine.data:
            return f"the tensor {name} of {path} is not that of the encoder"
    for name in COPIED:
        if opened.content.get(name) != folder.opened.content.get(name):
            return f"{name} of {path} is not the file that lies beside the weights"
    return None
