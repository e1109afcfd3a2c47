"""The JSON graph of a circuit, as EAP-IG's `Graph.from_json` and MIB's `load_graph_from_json` read it.

One layer with one head has four nodes: `input`, `a0.h0`, `m0`, `logits`. What these tools call the neurons of a node
are the coordinates of the stream that it writes; hidden neurons stand beside them, as `hidden`, which they pass over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.locating.anatomy import Anatomy


def circuit(anatomy: Anatomy, neurons: Ints) -> dict[str, Any]:
    """What is left in, so that facts at which just these hidden neurons write are answered as before."""
    used = len(neurons) > 0 or anatomy.constant
    reads, writes = (part[neurons].any(axis=0) for part in (anatomy.reads, anatomy.writes))
    attends = bool((reads & anatomy.attends).any())
    edges = {
        **{f"input->a0.h0<{letter}>": attends and there for letter, there in anatomy.scores.items()},
        "input->m0": bool((reads & anatomy.embeds).any()),
        "a0.h0->m0": attends,
        "input->logits": bool((anatomy.embeds & anatomy.head).any()),
        "a0.h0->logits": bool((anatomy.attends & anatomy.head).any()),
        "m0->logits": used,
    }
    masks = {"input": anatomy.embeds, "a0.h0": anatomy.attends, "m0": writes | (anatomy.head & anatomy.constant)}
    there = {"input": True, "a0.h0": attends, "m0": used}
    nodes: dict[str, Any] = {
        name: {"in_graph": there[name], "neurons": (mask & there[name]).tolist()} for name, mask in masks.items()
    }
    nodes["m0"]["hidden"] = [{**vars(anatomy.neuron(number))} for number in np.unique(neurons).tolist()]
    return {
        "cfg": {"n_layers": 1, "n_heads": 1, "parallel_attn_mlp": False, "d_model": anatomy.width},
        "nodes": {**nodes, "logits": {"in_graph": True}},
        "edges": {name: {"score": float(there), "in_graph": there} for name, there in edges.items()},
    }
