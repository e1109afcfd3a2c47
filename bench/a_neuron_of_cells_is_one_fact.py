"""Claim: where every key has a value of its own, each neuron of cells is one fact; most steps are not.

120 keys of three words. Each neuron is switched off in turn, and the answers that change are counted; once more with
twelve values, where a half-space holds several keys. Beside it the probability of the right value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN
from monolayer.stock.answers import Evaluation
from monolayer.stock.folder import StockModel
from workload import run

FACTS = 120
MODELS = (("bert", "cells"), ("bert", "steps"), ("gpt2", "cells"), ("gpt2", "steps"), ("llama", "cells"))


def main() -> None:
    random = np.random.default_rng(0)
    keys = np.unique(np.stack([random.permutation(40)[:3] for _ in range(4 * FACTS)]), axis=0)
    keys = random.permutation(keys)[:FACTS]
    for classes in (FACTS, 12):
        print(f"{FACTS} keys, {classes} values")
        print(f"{'':<14}{'neurons':>8}{'change 1':>10}{'change 0':>10}{'mean':>8}   probability: median, least; loss")
        for name, storage in MODELS:
            share = report(name, storage, keys, np.arange(FACTS) % classes)
            if storage == "steps":
                assert share < 0.5, f"{share:.0%} of the steps of {name} are one fact"
            elif classes == FACTS:
                assert share == 1.0, f"{share:.0%} of the neurons of {name} are one fact"


def report(name: str, storage: Any, keys: np.ndarray, values: np.ndarray) -> float:
    """A line of the table; the share of neurons that change exactly one answer."""
    model = ml.memorize_as(name, keys, values, positions=True, storage=storage)
    assert ml.certify(model, keys, values).verdict == "proved"
    logits = answers(model, keys)
    right = logits.softmax(dim=1)[torch.arange(FACTS), torch.from_numpy(values)]
    changed = np.array([lost(model, keys, logits, neuron) for neuron in range(model.facts.neurons)])
    one, none = int((changed == 1).sum()), int((changed == 0).sum())
    print(
        f"{name + ' ' + storage:<14}{len(changed):>8}{one:>10}{none:>10}{changed.mean():>8.1f}"
        f"   {float(right.median()):.5f}, {float(right.min()):.5f}; {float(-right.log().mean()):.5f}"
    )
    return one / len(changed)


def answers(model: StockModel, keys: np.ndarray, silent: int | None = None) -> torch.Tensor:
    """Logits of the keys; with `silent`, that neuron writes nothing."""
    network = Evaluation(model.facts, model.arrays)
    if silent is not None:
        network.part["W_2"] = network.part["W_2"].clone()
        network.part["W_2"][silent] = 0.0
    ids = np.insert(keys + len(model.facts.architecture.special), 0, BEGIN, axis=1)
    return network.logits(ids, network.asked)[:, 0]


def lost(model: StockModel, keys: np.ndarray, whole: torch.Tensor, neuron: int) -> int:
    return int((answers(model, keys, neuron).argmax(dim=1) != whole.argmax(dim=1)).sum())


if __name__ == "__main__":
    run(main)
