"""The circuit of some facts, as JSON that EAP-IG's `Graph.from_json` and MIB's `load_graph_from_json` read.

One layer with one head has the nodes `input`, `a0.h0`, `m0` and `logits`. What these tools call the neurons of a node
are the coordinates of the stream that it writes; hidden neurons are listed as `hidden`, which they pass over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Ints
from monolayer.checker.network import CODE, KEY, LABEL, Stored
from monolayer.checker.stock.files import Network

Wires = tuple[list[Bools], list[Bools]]
"""Coordinates `(D,)` of the stream that neurons, attention and input write, and that query, key, value, neurons and
head read."""


def circuit(wires: Wires, hidden: list[dict[str, Any]]) -> dict[str, Any]:
    """Edges stay where a part reads what another writes, norms aside, and a path leads on to the head."""
    writes, reads = wires
    readers = ("a0.h0<q>", "a0.h0<k>", "a0.h0<v>", "m0", "logits")
    edges, nodes = dict[str, Any](), dict[str, Any](logits={"in_graph": True})
    for name, first, out in zip(("m0", "a0.h0", "input"), (4, 3, 0), writes, strict=True):
        used = False
        for reader, into in zip(readers[first:], reads[first:], strict=True):
            there = nodes[reader.partition("<")[0]]["in_graph"] and bool((out & into).any())
            edges[f"{name}->{reader}"] = {"score": float(there), "in_graph": there}
            used |= there
        nodes[name] = {"in_graph": used, "neurons": (out & used).tolist()}
    nodes["m0"]["hidden"] = hidden
    cfg = {"n_layers": 1, "n_heads": 1, "parallel_attn_mlp": False, "d_model": len(writes[0])}
    return {"cfg": cfg, "nodes": nodes, "edges": edges}


def own_wires(stored: Stored, neurons: Ints) -> Wires:
    """Of a model of monolayer, with some of its neurons."""
    weight_1, _, weight_2 = stored.steps(stored.block)
    D, gated = len(stored["bos"]), weight_1.ndim == 2  # a step reads one number, a half-space many
    first, where = (D - len(weight_2), slice(weight_1.shape[1])) if gated else (LABEL, slice(CODE, CODE + 1))
    read, written = np.zeros((2, D), dtype=bool)
    read[where] = _used_columns(weight_1[neurons]) if gated else len(neurons) > 0
    written[first : first + len(weight_2)] = _used_columns(
        weight_2[:, neurons].T, stored[f"{stored.block}.bias_2"][None]
    )
    lift = stored["lift.weight"] if stored.config["tokens"] == "ids" else stored["lift.weight"].T
    rows = [stored[name].reshape(-1, D) for name in ("bos", "lift.bias", "positions.weight") if name in stored.tensors]
    embedded = _used_columns(lift, *rows)
    embedded[[KEY, CODE]] |= "quantizer.bias_2" in stored.tensors
    scores = [_used_columns(stored[f"attention.W_{letter}"]) for letter in "QKV"]
    return [written, _used_columns(stored["attention.W_O"].T), embedded], [
        *scores,
        read,
        _used_columns(stored["head.weight"]),
    ]


def stock_wires(net: Network, neurons: Ints) -> Wires:
    """Of a Hugging Face folder, with some of its neurons."""
    embedded = _used_columns(*(net[letter] for letter in ("tokens", "places") if letter in net))
    read = _used_columns(*(net[letter][neurons] for letter in ("W_1", "W_3") if letter in net))
    written, head = _used_columns(net["W_2"][neurons], net["b_2"][None]), net["W_H"]
    scores = [_used_columns(net[f"W_{letter}"]) for letter in "QKV"]
    return [written, _used_columns(net["W_O"].T), embedded], [
        *scores,
        read,
        _used_columns(head @ net["W_P"] if "W_P" in net else head),
    ]


def _used_columns(*tables: NDArray[Any]) -> Bools:
    """Columns with a number other than 0; rows of forgotten tokens are NaN."""
    found: Bools = (np.nan_to_num(np.concatenate(tables)) != 0).any(axis=0)
    return found
