"""What the parts of a network are called in its file, which coordinates of the stream they read and write, and the
circuit that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.labelled import Labelled
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import Places
from monolayer.checker.stored import CODE, LABEL, Stored


@dataclass(frozen=True, order=True)
class Slice:
    """Slice `index` along `axis` of `tensor`; without an index, all of it.

    A hidden neuron is the slice of the matrix that it writes with. Setting that slice to 0, and setting to 0 what the
    neuron returns in a forward pass, is the same ablation.
    """

    tensor: str
    index: int | None = None
    axis: int = 0

    def __str__(self) -> str:
        return self.tensor if self.index is None else f"{self.tensor}[{':, ' * self.axis}{self.index}]"


@dataclass(frozen=True, eq=False)
class Anatomy:
    """The neurons, slices along `axis` of `tensor`, with what each reads and writes `(H, D)`; coordinates `(D,)` that
    tables, attention and head use.

    `rows` of a fact; `scores`: which of query, key and value depend on the stream; `constant`: whether the bias behind
    the neurons writes anything.
    """

    tensor: str
    axis: int
    reads: Floats
    writes: Floats
    rows: Callable[[int], tuple[Slice, ...]]
    embeds: Bools
    attends: Bools
    head: Bools
    scores: dict[str, bool]
    constant: bool

    def neuron(self, number: int) -> Slice:
        return Slice(self.tensor, int(number), self.axis)

    def circuit(self, neurons: Ints) -> dict[str, Any]:
        """What is left in, so that facts at which just these hidden neurons write are answered as before.

        JSON as EAP-IG's `Graph.from_json` and MIB's `load_graph_from_json` read it. One layer with one head has four
        nodes: `input`, `a0.h0`, `m0`, `logits`. What these tools call the neurons of a node are the coordinates of the
        stream that it writes; hidden neurons stand beside them, as `hidden`, which they pass over.
        """
        used = len(neurons) > 0 or self.constant
        reads, writes = (part[neurons].any(axis=0) for part in (self.reads, self.writes))
        attends = bool((reads & self.attends).any())
        edges = {
            **{f"input->a0.h0<{letter}>": attends and there for letter, there in self.scores.items()},
            "input->m0": bool((reads & self.embeds).any()),
            "a0.h0->m0": attends,
            "input->logits": bool((self.embeds & self.head).any()),
            "a0.h0->logits": bool((self.attends & self.head).any()),
            "m0->logits": used,
        }
        masks = {"input": self.embeds, "a0.h0": self.attends, "m0": writes | (self.head & self.constant)}
        there = {"input": True, "a0.h0": attends, "m0": used}
        nodes: dict[str, Any] = {
            name: {"in_graph": there[name], "neurons": (mask & there[name]).tolist()} for name, mask in masks.items()
        }
        nodes["m0"]["hidden"] = [asdict(self.neuron(number)) for number in neurons.tolist()]
        return {
            "cfg": {"n_layers": 1, "n_heads": 1, "parallel_attn_mlp": False, "d_model": len(self.embeds)},
            "nodes": {**nodes, "logits": {"in_graph": True}},
            "edges": {name: {"score": float(there), "in_graph": there} for name, there in edges.items()},
        }


def own_anatomy(stored: Stored, points: Labelled) -> Anatomy:
    """Of a model of monolayer."""
    D, gated, vectors = int(stored.config["width"]), stored.config["readout"] == "gates", points.rows is None
    weight_1, weight_2 = stored["feed_forward.weight_1"], stored["feed_forward.weight_2"].T
    reads, written = np.zeros((2, len(weight_2), D))
    written[:, D - weight_2.shape[1] if gated else LABEL :][:, : weight_2.shape[1]] = weight_2
    if gated:
        reads[:, : weight_1.shape[1]] = weight_1
    else:
        reads[:, CODE] = weight_1 if stored.config["readout"] == "exact" else 1.0
    tables = [stored["bos"][None], stored["lift.weight"].T if vectors else stored["lift.weight"]]
    tables += [stored["lift.bias"][None]] if vectors else []
    tables += [stored["positions.weight"]] if stored.config["positions"] else []
    constant = bool(stored["feed_forward.bias_2"].any())

    def rows(fact: int) -> tuple[Slice, ...]:
        place = int(fact if points.places is None else points.places[fact])
        found = [Slice("bos")]
        if points.per_token:
            found = [Slice("lift.weight", None if points.rows is None else int(points.rows[place]))]
            found += [Slice("positions.weight", int(points.data.position[place]))] * stored.config["positions"]
        return (*found, *[Slice("feed_forward.bias_2")] * constant)

    return Anatomy(
        tensor="feed_forward.weight_2",
        axis=1,
        reads=reads,
        writes=written,
        rows=rows,
        embeds=(np.nan_to_num(np.concatenate(tables)) != 0).any(axis=0),
        attends=(stored["attention.W_O"] != 0).any(axis=1),
        head=(stored["head.weight"] != 0).any(axis=0),
        scores={letter: bool(stored[f"attention.W_{letter.upper()}"].any()) for letter in "qkv"},
        constant=constant,
    )


def stock_anatomy(net: Network, places: Places) -> Anatomy:
    """Of a Hugging Face folder."""
    kind, names = net.architecture, net.architecture.names(net.task)

    def rows(fact: int) -> tuple[Slice, ...]:
        found = [Slice(names["tokens"], int(places.token[fact]))]
        if "places" in net:
            found.append(Slice(names["places"], net.architecture.offset + int(places.place[fact])))
        return tuple(found)

    tables = [net["tokens"], *(() if "places" not in net else (net["places"],))]
    read = net["W_H"] if "W_P" not in net else net["W_H"] @ net["W_P"]
    return Anatomy(
        tensor=names["W_2"],
        axis=int(not kind.transposed),
        reads=net["W_1"],
        writes=net["W_2"],
        rows=rows,
        embeds=(np.concatenate(tables) != 0).any(axis=0),
        attends=(net["W_O"] != 0).any(axis=1),
        head=(read != 0).any(axis=0),
        scores={letter: bool(net[f"W_{letter.upper()}"].any()) for letter in "qkv"},
        constant=bool(net["b_2"].any()),
    )
