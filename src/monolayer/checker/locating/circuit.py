"""Write the circuit of facts as JSON that EAP-IG's `Graph.from_json` and MIB's `load_graph_from_json` read.

A model of one layer with one head has the nodes `input`, `a0.h0`, `m0` and `logits`. By the neurons of a node these
tools mean the coordinates of the stream that the node writes. Hidden neurons are listed under `hidden`, which these
tools ignore.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Ints
from monolayer.checker.network import CODE, KEY, LABEL, Stored
from monolayer.checker.stock.files import Network


class Wires(NamedTuple):
    """Which coordinates of the stream each part writes, and which it reads: an array `(D,)` per part.

    `writes`: those that neurons, attention and input write, in this order. `reads`: those that query, key, value,
    neurons and head read.
    """

    writes: list[Bools]
    reads: list[Bools]


def circuit(wires: Wires, hidden: list[dict[str, Any]]) -> dict[str, Any]:
    """The circuit as JSON.

    It has an edge where a part reads a coordinate that another writes, ignoring norms, if a path leads from there to
    the head. `hidden`: the hidden neurons to list.
    """
    writes, reads = wires.writes, wires.reads
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
    """What reads and writes which coordinates in a model of monolayer, counting only the neurons `neurons`."""
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
    writes = [written, _used_columns(stored["attention.W_O"].T), embedded]
    return Wires(writes, [*scores, read, _used_columns(stored["head.weight"])])


def stock_wires(net: Network, neurons: Ints) -> Wires:
    """What reads and writes which coordinates in a Hugging Face folder, counting only the neurons `neurons`."""
    embedded = _used_columns(*(net[letter] for letter in ("tokens", "places") if letter in net))
    read = _used_columns(*(net[letter][neurons] for letter in ("W_1", "W_3") if letter in net))
    written, head = _used_columns(net["W_2"][neurons], net["b_2"][None]), net["W_H"]
    scores = [_used_columns(net[f"W_{letter}"]) for letter in "QKV"]
    writes = [written, _used_columns(net["W_O"].T), embedded]
    return Wires(writes, [*scores, read, _used_columns(head @ net["W_P"] if "W_P" in net else head)])


def _used_columns(*tables: Array) -> Bools:
    """Which columns hold a number other than 0 in some table; NaN, in rows of forgotten tokens, does not count."""
    used: Bools = (np.nan_to_num(np.concatenate(tables)) != 0).any(axis=0)
    return used
