"""Every readout by its name in files: one row says what the loader, the saver and the fast path must know of it.

A new readout is a file of its own and a row here (docs/extending.md). Letters of shapes: `D` the width of the stream,
`m` label coordinates; docs/format.md has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monolayer.data.model_kinds import kind_of
from monolayer.data.objects import Config
from monolayer.model.attention import RankOneAttention
from monolayer.model.cascade import Cascade, stream_width
from monolayer.model.fields import Check, Rule, Shape, whole_number
from monolayer.model.gates import Gates, RankAttention
from monolayer.model.staircase import Readout

ATTENTION: dict[str, Shape] = {f"attention.W_{letter}": ("D", "D") for letter in "QKVO"}


@dataclass(frozen=True)
class ReadoutKind:
    """One readout.

    `readout`, `attention`: its class, and that of the attention before it; only these have a fast path. `shapes`: all
    tensors of both. `fields`: what its own field holds, an object in `config.json` under its own name; it has such a
    field if there are any. `rules`: conditions on the fields together. `split`: whether its steps may lie in several
    files.
    """

    readout: type[Readout]
    attention: type[RankOneAttention]
    shapes: Callable[[Config], dict[str, Shape]]
    fields: Mapping[str, Check] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    split: bool = False


def _line_readout(more: int) -> ReadoutKind:
    """The row of a line, whose `weight_2` has `more` columns than steps."""

    def shapes(config: Config) -> dict[str, Shape]:
        shapes_of = dict(ATTENTION)
        for number, steps in enumerate(config["steps"], 1):
            writes = "m" if number == len(config["steps"]) else "m + 1"  # the label, and the number of a stretch
            stage = f"feed_forward.stages.{number - 1}"
            shapes_of |= {f"{stage}.weight_1": (steps,), f"{stage}.bias_1": (steps,)}
            shapes_of |= {f"{stage}.weight_2": (writes, steps + more), f"{stage}.bias_2": (writes,)}
        return shapes_of

    def width(config: Config) -> int:
        dim = 0 if config["grid"] is None else int(config["grid"]["dim"])
        return stream_width(len(config["steps"]), config["labels"]) + dim

    rules: tuple[Rule, ...] = (
        ("classes have one label slot", lambda c: c["target"] == "reals" or c["labels"] == 1),
        ("several stages belong to a memorizer", lambda c: len(c["steps"]) == 1 or kind_of(c).holds_facts),
        ("width is 3 + labels + dim + 2 (stages − 1)", lambda c: c["width"] == width(c)),
    )
    return ReadoutKind(Cascade, RankOneAttention, shapes, rules=rules, split=True)


def _gates(config: Config) -> dict[str, Shape]:
    (H,), rank, reads = config["steps"], config["gates"]["rank"], sum(config["gates"].values())
    shapes: dict[str, Shape] = {"attention.W_Q": (2, "D"), "attention.W_K": (2, "D")}
    shapes |= {"attention.W_V": (rank, "D"), "attention.W_O": ("D", rank)}
    shapes |= {"feed_forward.weight_1": (H, reads), "feed_forward.bias_1": (H,)}
    return shapes | {"feed_forward.weight_2": ("m", H), "feed_forward.bias_2": ("m",)}


# `checker/format.py` has a table by this name too: one row per readout on each side, and the checker imports no model.
READOUTS: dict[str, ReadoutKind] = {
    "exact": _line_readout(0),
    "runs": _line_readout(1),
    "gates": ReadoutKind(
        Gates,
        RankAttention,
        _gates,
        fields={"token": whole_number(1), "place": whole_number(0), "rank": whole_number(1)},
        rules=(
            ("gates answer with classes", lambda c: c["target"] == "classes"),
            ("gates belong to a memorizer of ids", lambda c: kind_of(c).holds_facts and c["tokens"] == "ids"),
            ("gates are one block of neurons", lambda c: len(c["steps"]) == 1),
            (
                "width is token + place + rank + 2 + labels",
                lambda c: c["width"] == sum(c["gates"].values()) + 2 + c["labels"],
            ),
        ),
    ),
}
