"""A Hugging Face folder as one network in one set of letters, whatever its architecture calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monolayer.arrays import Floats
from monolayer.checker.rounding import UnhandledError
from monolayer.huggingface.architecture import BEGIN, END
from monolayer.huggingface.files import Facts
from monolayer.huggingface.reading import read_folder

BESIDE = frozenset({"README.md", "certificate.json", "draw.json", "onnx"})
"""What transformers does not read."""


@dataclass(frozen=True, eq=False)
class Network(Facts):
    """Tables `(V, D)` and `(L, D)`, matrices `(out, in)` but for `W_2` `(H, D)`, all in float64."""

    tokens: Floats
    places: Floats | None
    attention: Mapping[str, Floats]
    """`W_Q`, `b_Q`, … `W_O`, `b_O`."""
    norms: tuple[Floats, ...]
    """Weights and biases of every norm, in turn."""
    zeros: tuple[Floats, ...]
    """What must be 0: token types."""
    W_1: Floats
    b_1: Floats
    W_2: Floats
    b_2: Floats
    gate: tuple[Floats, Floats] | None
    """`W_3`, `b_3` of a gated block: what its neurons are multiplied by."""
    W_P: Floats | None
    pool_bias: Floats | None
    head: Floats
    head_bias: Floats | None
    digest: str
    has_onnx: bool
    """Whether `onnx/` lies in the folder, which other programs read; no verdict is about it."""
    begin: int = BEGIN
    end: int = END

    @property
    def post_norm(self) -> bool:
        return self.architecture.post_norm

    @property
    def rms(self) -> bool:
        """Whether norms subtract no mean."""
        return self.architecture.rms

    @property
    def offset(self) -> int:
        return self.architecture.offset

    @property
    def pool(self) -> str:
        return self.architecture.pool


def read_stock(folder: Path) -> Network:
    """The network in `folder`, in which nothing else may lie: adapters, templates, code and other weights are read
    where they are found."""
    read = read_folder(folder)
    known, part = {*read.content, *BESIDE}, read.arrays
    more = sorted(path.name for path in folder.iterdir() if path.name not in known and not path.name.startswith("."))
    if more:
        raise UnhandledError(f"{more[0]} lies beside its files, and transformers may read it: move it elsewhere")
    norms = [(part[f"scale_{n}"], part.get(f"shift_{n}", 0.0 * part[f"scale_{n}"])) for n in (1, 2, 3)]
    return Network(
        **vars(read.facts),
        tokens=part["tokens"],
        places=part.get("places"),
        attention={f"{kind}_{letter}": part[f"{kind}_{letter}"] for letter in "QKVO" for kind in "Wb"},
        norms=tuple(one for both in norms for one in both),
        zeros=(part["types"],) if "types" in part else (),
        W_1=part["W_1"],
        b_1=part["b_1"],
        W_2=part["W_2"],
        b_2=part["b_2"],
        gate=(part["W_3"], part["b_3"]) if "W_3" in part else None,
        W_P=part.get("W_P"),
        pool_bias=part.get("b_P"),
        head=part["W_H"],
        head_bias=part.get("b_H"),
        digest=read.digest(),
        has_onnx=(folder / "onnx").exists(),
    )
