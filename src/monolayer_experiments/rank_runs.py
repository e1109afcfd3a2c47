"""The networks of the experiment `ranks`, built and trained: for memorizing, and for sorting four numbers.

Notation: the kinds say which ranks are varied while the others are full, the width `D` of the trained networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.errors import PrecisionError
from monolayer.table import Progress
from monolayer.theory.targets import TARGETS
from monolayer_experiments.chance import above
from monolayer_experiments.experiment import Results, Setting
from monolayer_experiments.look import column
from monolayer_experiments.ranked import Members, Ranks, sail
from monolayer_experiments.synthetic import without_repeats

TOKENS = 4
"""Tokens of the function: `n`."""
KINDS = {"values": "green", "scores": "orange", "both": "blue"}
"""Which ranks are varied while the others are full, and their colours."""


def settings_of(plan: Results) -> list[tuple[str, int, Ranks]]:
    """Kind, rank and both ranks of every network; the last has full ranks."""
    full = plan["width"]
    each = [
        (kind, rank, Ranks(full if kind == "values" else rank, full if kind == "scores" else rank))
        for kind in KINDS
        for rank in plan["ranks"]
    ]
    return [*each, ("both", full, Ranks(full, full))]


def build_memories(plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """By value rank, the most labels that come back from a construction in float32, over sizes that double."""
    rows = []
    for number, rank in enumerate(plan["ranks"]):
        progress(f"building at value rank {rank}", number / len(plan["ranks"]))
        largest, count = 0, plan["sizes"][0]
        while count <= plan["most_built"]:
            X, Y = without_repeats(count, plan["length"], plan["vocabulary"], plan["classes"], setting.seed)
            try:
                model = ml.memorize(X, Y, rank=rank, dtype="float32", seed=setting.seed)
            except PrecisionError:
                break
            if not bool((model.predict(X) == Y).all()):
                break
            largest, count = X.size, 2 * count
        rows.append({"rank": rank, "labels": largest, "seen": count <= plan["most_built"]})
    return rows


def train_memories(plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """Every network at every size, at its best rate: the share of labels that come back."""
    kinds, rates, sizes = settings_of(plan), plan["rates"], plan["sizes"]
    X, Y = (
        torch.from_numpy(each)
        for each in without_repeats(max(sizes), plan["length"], plan["vocabulary"], plan["classes"], setting.seed)
    )
    every = [(each, size, rate) for each in kinds for size in sizes for rate in rates]
    members = Members(
        [each[2] for each, _, _ in every], plan["width"], plan["classes"], plan["vocabulary"], 0, setting.seed
    )
    counts = torch.tensor([size for _, size, _ in every])[:, None]
    random = torch.Generator().manual_seed(setting.seed)

    def loss(step: int) -> Tensor:
        rows = (torch.rand((len(every), plan["batch"]), generator=random) * counts).long()
        logits = members(X[rows])
        total = functional.cross_entropy(logits.flatten(0, 2), Y[rows].flatten(), reduction="sum")
        mean: Tensor = total / rows[0].numel() / plan["length"]
        return mean

    sail(members, [rate for _, _, rate in every], plan["budget"], loss, progress)
    shares = _right(members, X, Y, counts[:, 0])
    rows = []
    for number, (kind, rank, _) in enumerate(kinds):
        for place, size in enumerate(sizes):
            start = (number * len(sizes) + place) * len(rates)
            grid = {f"{rate:g}": shares[start + k] for k, rate in enumerate(rates)}
            best = max(grid.values())
            tuned = above(best, 1.0 / plan["classes"], size * plan["length"])
            rows.append(
                {"kind": kind, "rank": rank, "labels": size * plan["length"], "right": best, "grid": grid}
                | {"tuned": tuned}
            )
    return rows


@torch.no_grad()
def _right(members: Members, X: Tensor, Y: Tensor, counts: Tensor) -> list[float]:
    """The share of its labels that each member returns."""
    inside, right = torch.arange(len(X)) < counts[:, None], torch.zeros(len(counts))
    for rows in torch.split(torch.arange(len(X)), 64):
        answers = members(X[rows].expand(len(counts), -1, -1)).argmax(-1)
        right += ((answers == Y[rows]) & inside[:, rows, None]).sum((1, 2))
    shares: list[float] = (right / counts / X.shape[1]).tolist()
    return shares


def _sorted(X: Floats) -> Floats:
    return np.asarray(TARGETS["sort"](X))


def _points(count: int, seed: int) -> tuple[Floats, Floats]:
    """Fresh points, and those of the proof that fewer value ranks than 3 are too few."""
    random = np.random.default_rng([seed, 11])
    special = []
    for k in range(1, TOKENS - 1):
        X = np.ones((count // 2, TOKENS, 1))
        X[:, 0] = 0.0
        X[:, 1 : k + 2, 0] = (np.arange(k + 1) + random.integers(0, 2, (count // 2, k + 1))) / (k + 1)
        special.append(X)
    return random.random((count, TOKENS, 1)), np.concatenate(special)


def build_functions(plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """Two constructions of about as many knots: value rank 1 with a quantizer, and n − 1 heads without one."""
    fresh, special = _points(plan["points"], setting.seed)
    progress("building rank 1", 0.0)
    mean_cells, sup_cells = plan["cells"]
    low: Any = ml.approximate(_sorted, 1, TOKENS, cells=mean_cells, seed=setting.seed)
    pair = ml.confuse(low, _sorted, lipschitz=1.0)
    progress("building three heads", 0.5)
    high: Any = ml.approximate(_sorted, 1, TOKENS, cells=sup_cells, norm="sup", first_block=False, lipschitz=1.0)
    cells = mean_cells
    knots = (cells * (cells + 2) * (cells + 1) * cells // 6, (sup_cells + 1) ** TOKENS)
    rows = []
    for rank, model, count in ((1, low, knots[0]), (TOKENS - 1, high, knots[1])):
        errors = [np.abs(np.asarray(model.predict(X)).reshape(_sorted(X).shape) - _sorted(X)) for X in (fresh, special)]
        largest = pair.error if rank == 1 else max(float(error.max()) for error in errors)
        rows.append(
            {"made": "constructed", "kind": "values", "rank": rank, "knots": count, "largest": [largest]}
            | {"rms": [float(np.sqrt(np.square(errors[0]).mean()))]}
        )
    return rows


def train_functions(plan: Results, setting: Setting, progress: Progress) -> list[Results]:
    """Every network of every seed, at the rate that is best on points of its own."""
    kinds, rates, seeds = settings_of(plan), plan["rates"], plan["seeds"]
    fresh, special = _points(plan["points"], setting.seed)
    chosen = np.random.default_rng([setting.seed, 12]).random((max(200, plan["points"] // 8), TOKENS, 1))
    mean, std = float(_sorted(chosen).mean()), float(_sorted(chosen).std())
    every = [(each, rate) for each in kinds for rate in rates]
    of_kind: list[list[Results]] = [[] for _ in kinds]
    for seed in range(seeds):
        members = Members([each[2] for each, _ in every], plan["width"], TOKENS, 0, 1, setting.seed + seed)
        random = torch.Generator().manual_seed(setting.seed + seed)

        def loss(step: int, members: Members = members, random: torch.Generator = random) -> Tensor:
            X = torch.rand((4 * plan["batch"], TOKENS, 1), generator=random)
            wanted = (X[..., 0].sort(dim=1).values - mean) / std
            error = members(X.expand(len(every), *X.shape)) - wanted[:, None, :]
            return error.square().mean((1, 2, 3)).sum()

        def told(stage: str, done: float, seed: int = seed) -> None:
            progress(f"sorting, seed {seed}, {stage}", (seed + done) / seeds)

        sail(members, [rate for _, rate in every], plan["budget"], loss, told)
        errors = [_answers(members, X) * std + mean - _sorted(X) for X in (chosen, fresh, special)]
        tried = np.square(errors[0]).mean((1, 2, 3)).reshape(len(kinds), -1)
        for number, best in enumerate(tried.argmin(1)):
            member = number * len(rates) + int(best)
            rms = float(np.sqrt(np.square(errors[1][member]).mean()))
            largest = max(float(np.abs(error[member]).max()) for error in errors[1:])
            of_kind[number].append({"rms": rms, "largest": largest, "rate": f"{rates[int(best)]:g}"})
    spread = float(_sorted(fresh).std())
    return [
        {
            "made": "trained",
            "kind": kind,
            "rank": rank,
            **{key: column(runs, key) for key in ("rms", "largest", "rate")},
        }
        | {"tuned": max(column(runs, "rms")) < spread}
        for (kind, rank, _), runs in zip(kinds, of_kind, strict=True)
    ]


@torch.no_grad()
def _answers(members: Members, X: Floats) -> Floats:
    """`(E, P, n, m)`."""
    points = torch.from_numpy(X).float()
    parts = [members(part.expand(len(members.weights[0]), *part.shape)) for part in torch.split(points, 512)]
    answers: Floats = torch.cat(parts, dim=1).double().numpy()
    return answers
