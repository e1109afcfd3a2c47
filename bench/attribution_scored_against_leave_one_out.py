"""Data attribution scored against the truth: what leaving out one fact does to every other, by building without it.

Random facts in a stock BERT, a label per sequence. dattri's `retrain_loo` builds the folder once per fact left out,
each time with the draw of the whole, so that nothing else changes. The loss of every fact under every one of these
models is the truth, and dattri's `loo_corr` correlates the scores of its methods with it. Needs
dattri: pip install "monolayer[tools]".

    python bench/attribution_scored_against_leave_one_out.py [--facts 40] [--seeds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import monolayer as ml
from workload import NotRunError, run

WORDS, LENGTH, CLASSES, RANK = 30, 3, 6, 16
NEURONS = ["bert.encoder.layer.0.output.dense.weight"]
"""What the neurons write: where `locate` finds the facts."""


def facts(count: int, seed: int) -> tuple[list[list[str]], list[str]]:
    """Different sets of words, and a random class for each."""
    random = np.random.default_rng(seed)
    sets: dict[tuple[int, ...], None] = {}
    while len(sets) < count:
        sets[tuple(sorted(random.choice(WORDS, LENGTH, replace=False).tolist()))] = None
    return [[f"w{word}" for word in each] for each in sets], [f"c{y}" for y in random.integers(0, CLASSES, count)]


def measure(count: int, seed: int, work: Path) -> dict[str, Any]:
    """Truth `(left out, asked)` less the loss of the whole model, and the scores of each method `(left out, asked)`."""
    import transformers
    from dattri.algorithm.tracin import TracInAttributor
    from dattri.algorithm.trak import TRAKAttributor
    from dattri.metric.ground_truth import calculate_loo_ground_truth
    from dattri.metric.metrics import loo_corr
    from dattri.model_util.retrain import retrain_loo
    from dattri.task import AttributionTask

    transformers.utils.logging.disable_progress_bar()
    X, Y = facts(count, seed)
    folder = ml.memorize_as("bert", X, Y, per="sequence", rank=RANK, seed=seed, confidence=0.9).save(work / "whole")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer([" ".join(x) for x in X], return_tensors="pt", padding=True)["input_ids"]
    wanted = torch.tensor([network.config.label2id[y] for y in Y])
    data = DataLoader(TensorDataset(torch.arange(count), tokens, wanted), batch_size=count)

    def build(rest: DataLoader[Any], seed: int | None = None) -> dict[str, Any]:
        """Without one fact. A dict, since torch.load no longer opens whole models, which dattri saves."""
        kept = torch.cat([rows for rows, _, _ in rest]).tolist()
        path = work / "rest"
        ml.memorize_as("bert", [X[i] for i in kept], [Y[i] for i in kept], per="sequence", draw=folder).save(
            path, overwrite=True
        )
        other = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
        right = torch.tensor([other.config.label2id[y] for y in Y])
        with torch.no_grad():
            return {"loss": cross_entropy(other(tokens).logits, right, reduction="none")}

    def loss(params: Any, batch: Any) -> torch.Tensor:
        _, x, y = (part.unsqueeze(0) if batch[1].ndim == 1 else part for part in batch)
        return cross_entropy(torch.func.functional_call(network, params, (x,)).logits, y)

    retrain_loo(build, data, str(work / "runs"))
    truth = calculate_loo_ground_truth(lambda run, _: run["loss"], str(work / "runs"), data)
    with torch.no_grad():
        whole = cross_entropy(network(tokens).logits, wanted, reduction="none")
    task = AttributionTask(loss_func=loss, model=network, checkpoints=network.state_dict())
    found: dict[str, Any] = {"truth": truth[0] - whole, "scores": {}}
    for where, layer in (("what the neurons write", NEURONS), ("all weights", None)):
        for normal in (False, True):
            options = {"weight_list": torch.ones(1), "normalized_grad": normal, "layer_name": layer}
            name = f"TracIn{', normalized' if normal else ''}, {where}"
            found["scores"][name] = TracInAttributor(task, **options).attribute(data, data)
        for ridge in (0.0, 1e-2):
            trak = TRAKAttributor(
                task,
                correct_probability_func=lambda params, batch: torch.exp(-loss(params, batch)),
                layer_name=layer,
                projector_kwargs={"device": "cpu", "proj_dim": 2048},
                regularization=ridge,
            )
            trak.cache(data)
            with torch.no_grad():
                found["scores"][f"TRAK, ridge {ridge:g}, {where}"] = trak.attribute(data)
    found["rows"] = {}
    for name, score in found["scores"].items():
        first = score.argmax(0) == torch.arange(count)
        found["rows"][name] = float(loo_corr(score, truth)[0].nanmean()), float(first.float().mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if importlib.util.find_spec("dattri") is None:
        raise NotRunError('dattri is not installed: pip install "monolayer[tools]"')
    runs = []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as work, contextlib.redirect_stderr(io.StringIO()):
            runs.append(measure(options.facts, seed, Path(work)))
    own = torch.stack([run["truth"].diagonal() for run in runs])
    others = torch.stack([run["truth"] - torch.diag(run["truth"].diagonal()) for run in runs])
    print(f"{options.facts} facts, {options.seeds} seeds, torch {torch.__version__}")
    print(f"without a fact its own loss rises by {own.mean():.3f} on average; that of another moves by")
    print(
        f"{others.abs().sum() / (own.numel() * (options.facts - 1)):.4f} on average, {others.abs().max():.3f} at most"
    )
    print(f"{'method':<44}{'correlation with the truth':>30}{'own fact first':>26}")
    for name in runs[0]["rows"]:
        right, first = (sorted(run["rows"][name][i] for run in runs) for i in (0, 1))
        print(f"{name:<44}{f'{right[0]:.2f} to {right[-1]:.2f}':>30}{f'{first[0]:.0%} to {first[-1]:.0%}':>26}")


if __name__ == "__main__":
    run(main)
