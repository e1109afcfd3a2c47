"""The baseline of the experiments: an ordinary Transformer that is trained on the same labels.

AdamW with warm-up and cosine decay, gradients clipped, large batches kept on the device. The learning rate is searched
first: every rate of a grid gets an equal share of the first 30 % of the steps, and the best one (the likeliest, where
none got beyond chance) goes on from where it was until the steps or the last wrong label runs out. Steps and not
seconds are the budget, so that a busy machine takes longer and changes nothing else. Seconds are noted all the same:
search, steps and the measuring of accuracy; a few steps before they are counted warm the device up.

Notation: `N` sequences of at most `n` tokens; `transformer.py` has the model.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from monolayer.arrays import Array, Ints
from monolayer.data.columns import NO_LABEL
from monolayer_experiments.chance import above
from monolayer_experiments.transformer import Tagger

TRAINING_RATES = (3e-3, 1e-2, 1e-3, 3e-2, 3e-4)
"""Learning rates, in the order of trial, likely ones first: the search ends where a trial leaves no label wrong."""
SEARCH = 0.3
"""Share of the steps that the search for a learning rate may take."""
MEASURES = 100
"""How often, at most, a training stops to measure its accuracy."""
BATCH_TOKENS = {"cuda": 1 << 16, "cpu": 1 << 10}
"""Tokens per step: 4,096 sequences of 16 on a GPU, where fewer would leave it waiting for the next launch."""
FEW = 64
"""Sequences per step of fine-tuning, at most."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model: share of labels right, steps and seconds used, and the way there.

    `steps`, `alone`: steps and seconds of the run that was kept, without the trials of other rates; `curve`: (seconds,
    accuracy) of that run; `grid`: accuracy of every rate at the end of its trial.
    """

    accuracy: float
    steps: int
    seconds: float
    alone: float
    curve: list[tuple[float, float]]
    parameters: int
    rate: float
    grid: dict[str, float]
    model: nn.Module


def train(
    X: Array,
    Y: Array,
    lengths: Ints | None = None,
    *,
    layers: int = 1,
    rank: int | None = None,
    width: int = 128,
    positions: bool = False,
    **options: Any,
) -> Trained:
    """Train on ids `X` `(N, n)` and classes `Y` `(N, n)`; `lengths` `(N,)` tells padding from tokens.

    `rank=None`: ordinary multi-head attention. `rank=r`: one head whose `W_Q`, `W_K`, `W_V` are products of
    `(D, r)` and `(r, D)` factors. The options are those of `fit`.
    """
    sizes = int(np.max(X)) + 1, int(np.max(Y)) + 1, layers, rank, width, int(np.shape(X)[1]) if positions else 0
    return fit(lambda: Tagger(*sizes), np.asarray(X), np.asarray(Y), lengths, **options)


def predict(model: nn.Module, X: Array, lengths: Ints | None = None) -> Ints:
    """The most probable class of every token `(N, n)`; what stands at padding means nothing."""
    device = next(model.parameters()).device
    inputs = np.asarray(X)
    batches = Batches(inputs, np.zeros(inputs.shape[:2], np.int64), lengths, str(device), 0)
    answer = torch.zeros(inputs.shape[:2], dtype=torch.int64, device=device)
    with torch.no_grad():
        for rows, x, _, inside in batches.epoch(shuffle=False):
            answer[rows, : x.shape[1]] = model(x, inside).argmax(-1)
    return answer.cpu().numpy()


def fit(
    make: Callable[[], nn.Module],
    X: Array,
    Y: Ints,
    lengths: Ints | None = None,
    *,
    steps: int,
    seed: int = 0,
    device: str = "cpu",
    rates: tuple[float, ...] = TRAINING_RATES,
    noise: float = 0.0,
) -> Trained:
    """Train what `make` makes, a module `(X, inside) → logits`, on `X` `(N, n, …)` and classes `Y` `(N, n)`.

    `noise`: every step sees the weights times `1 + noise · normal`, drawn anew; all steps are then taken.
    """
    batches = Batches(X, Y, lengths, device, seed)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32 for what is not in bfloat16; nothing on a CPU
    try:
        with torch.random.fork_rng(devices=[]):  # weights are drawn on the processor
            return _search(make, batches, steps, seed, rates, noise)
    finally:
        torch.set_float32_matmul_precision(precision)


def _search(
    make: Callable[[], nn.Module], batches: Batches, steps: int, seed: int, rates: tuple[float, ...], noise: float
) -> Trained:
    device = batches.device
    _warm_up(make().to(device), batches)
    batches.wait()
    began = time.perf_counter()
    each, pause = max(1, round(steps * SEARCH / len(rates))), max(1, steps // MEASURES)
    tried: list[TrainingRun] = []
    for rate in rates:
        torch.manual_seed(seed)  # every rate starts from the same weights
        run = TrainingRun(make().to(device), batches, rate, began, noise=noise)
        run.go(each, pause, decay=False)
        tried.append(run)
        if run.accuracy == 1.0 and not noise:
            break
    grid = {f"{run.rate:g}": run.accuracy for run in tried}
    best = max(tried, key=lambda run: run.accuracy)
    if not above(best.accuracy, batches.chance, batches.labelled):
        best = tried[0]  # all trials ended at chance: the largest of such numbers chooses nothing
    best.go(max(1, steps - sum(run.steps for run in tried)), pause, decay=True)
    parameters = sum(parameter.numel() for parameter in best.model.parameters())
    spent = time.perf_counter() - began
    return Trained(best.accuracy, best.steps, spent, best.spent, best.curve, parameters, best.rate, grid, best.model)


def _warm_up(model: nn.Module, batches: Batches) -> None:
    """Make a step for every shape of batch, and a measurement, since first calls load libraries and fill caches."""
    run, shapes = TrainingRun(model, batches, 0.0), set()
    for batch in batches.epoch(shuffle=False):
        if batch.x.shape not in shapes:
            run.step(batch, 0.0)
        shapes.add(batch.x.shape)
    run.measure()


class TrainingRun:
    """The training of one model at one learning rate; `go` continues it."""

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        rate: float,
        began: float = 0.0,
        weight_decay: float = 0.01,
        noise: float = 0.0,
    ) -> None:
        self.model, self.batches, self.rate, self.began, self.noise = model, batches, rate, began, noise
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=weight_decay, fused=True)
        self.steps = 0
        self.accuracy = self.spent = 0.0
        self.curve: list[tuple[float, float]] = []

    def go(self, steps: int, pause: int, *, decay: bool) -> None:
        """Train for so many steps or, without noise, until no label is wrong.

        The accuracy is measured at the end of an epoch, if `pause` steps have passed, and after the last step. The rate
        warms up over 100 steps, or a third of a short trial; with `decay` it falls along a cosine to 2 %.
        """
        began, first, measured = time.perf_counter(), self.steps, self.steps
        last = first + steps
        while self.accuracy < 1.0 or self.noise:
            self.model.train()
            for batch in self.batches.epoch(shuffle=True):
                part = (self.steps - first) / steps
                if decay:
                    factor = 0.02 + 0.49 * (1.0 + math.cos(math.pi * part))
                else:
                    factor = min(1.0, max((self.steps + 1) / 100, 3.0 * part))
                self.step(batch, self.rate * factor)
                if self.steps == last:
                    break
            if self.steps - measured >= pause or self.steps == last:
                self.measure()
                measured = self.steps
            if self.steps == last:
                break
        self.batches.wait()
        self.spent += time.perf_counter() - began

    def step(self, batch: TrainingBatch, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        exact = [(weight, weight.data) for weight in self.model.parameters() if self.noise]
        for weight, kept in exact:
            weight.data = kept * (1.0 + self.noise * torch.randn_like(kept))
        logits = self.model(batch.x, batch.inside).flatten(0, 1)
        loss = functional.cross_entropy(logits, batch.y.flatten(), ignore_index=NO_LABEL)
        loss.backward()  # type: ignore[no-untyped-call]
        for weight, kept in exact:
            weight.data = kept
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1

    @torch.no_grad()
    def measure(self) -> None:
        self.model.eval()
        right = torch.zeros((), dtype=torch.int64, device=self.batches.device)
        for _, x, y, inside in self.batches.epoch(shuffle=False):
            right += (self.model(x, inside).argmax(-1) == y).sum()
        self.accuracy = int(right) / self.batches.labelled
        self.curve.append((time.perf_counter() - self.began, self.accuracy))


class Tuned(NamedTuple):
    """A model in the middle of fine-tuning: seconds and steps so far."""

    seconds: float
    steps: int
    model: nn.Module


def finetune(
    model: nn.Module, data: Batches, rows: Ints, kept: Ints | None, rate: float, stops: Sequence[int], seed: int
) -> Iterator[Tuned]:
    """A copy of `model` trained on `rows` of `data`, with as many of `kept` in every batch unless that is None.

    Yields the state after each number of steps in `stops`, which rise. Seconds are those of the steps, not of what the
    caller measures in between.
    """
    random = np.random.default_rng(seed)
    run = TrainingRun(copy.deepcopy(model), data, rate, weight_decay=0.0)
    spent = 0.0
    for stop in stops:
        run.model.train()
        began = time.perf_counter()
        while run.steps < stop:
            some = random.choice(rows, min(len(rows), FEW if kept is None else FEW // 2), replace=False)
            if kept is not None:
                some = np.concatenate([some, random.choice(kept, len(some), replace=False)])
            chosen = torch.from_numpy(some).to(data.device)
            run.step(data.batch(chosen, int(data.sizes[chosen].max())), rate)
        data.wait()
        spent += time.perf_counter() - began
        yield Tuned(spent, run.steps, run.model)


class TrainingBatch(NamedTuple):
    """Some sequences: their `rows` `(B,)`, tokens `x` and labels `y` `(B, n)`; `inside` is False at padding."""

    rows: Tensor
    x: Tensor
    y: Tensor
    inside: Tensor | None


class BatchCut(NamedTuple):
    """Sequences `start` to `stop`, in order of length; the longest has `width` tokens."""

    start: int
    stop: int
    width: int


class Batches:
    """The data on the device, cut into batches of like length, the same cuts in every epoch."""

    def __init__(self, X: Array, Y: Ints, lengths: Ints | None, device: str, seed: int) -> None:
        self.device = torch.device(device)
        sizes = np.full(len(X), X.shape[1]) if lengths is None else np.asarray(lengths, dtype=np.int64)
        self.labelled = int(sizes.sum())
        inside = np.arange(X.shape[1]) < sizes[:, None]
        self.chance = float(np.bincount(Y[inside]).max() / self.labelled)
        """Share of the commonest class: what a blind answer gets."""
        self.ragged = not bool(inside.all())
        self.X = torch.from_numpy(np.ascontiguousarray(X)).to(self.device)
        self.Y = torch.from_numpy(np.where(inside, Y, NO_LABEL)).to(self.device)
        self.sizes = torch.from_numpy(sizes).to(self.device)
        self.random = torch.Generator(self.device).manual_seed(seed)
        self.mixer = np.random.default_rng(seed)
        self.cuts = _cuts(np.sort(sizes), BATCH_TOKENS.get(self.device.type, BATCH_TOKENS["cpu"]))

    def wait(self) -> None:
        wait(self.device)

    def epoch(self, *, shuffle: bool) -> Iterator[TrainingBatch]:
        """Every batch once, in random order if `shuffle`."""
        if shuffle:
            order = torch.randperm(len(self.X), generator=self.random, device=self.device)
        else:
            order = torch.arange(len(self.X), device=self.device)
        if self.ragged:
            order = order[self.sizes[order].argsort(stable=True)]
        for number in self.mixer.permutation(len(self.cuts)) if shuffle else range(len(self.cuts)):
            cut = self.cuts[number]
            yield self.batch(order[cut.start : cut.stop], cut.width)

    def batch(self, rows: Tensor, width: int) -> TrainingBatch:
        """The sequences `rows` as a batch; the longest has `width` tokens."""
        inside = torch.arange(width, device=self.device) < self.sizes[rows, None] if self.ragged else None
        return TrainingBatch(rows, self.X[rows, :width], self.Y[rows, :width], inside)


def wait(device: torch.device) -> None:
    """Wait until the device has finished its work: a GPU runs while the program goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cuts(sizes: Ints, tokens: int) -> list[BatchCut]:
    """Cut sequences of these lengths, in rising order, into batches of at most `tokens` tokens, padding included."""
    cuts, start = [], 0
    while start < len(sizes):
        stop = min(len(sizes), start + max(1, tokens // int(sizes[start])))
        stop = min(stop, start + max(1, tokens // int(sizes[stop - 1])))
        cuts.append(BatchCut(start, stop, int(sizes[stop - 1])))
        start = stop
    return cuts
