"""Claim: on an H200, 10⁸ labels become weights and are answered in under 30 ms each, for ids that lie there.

6.25 million sequences of 16 ids, 1,000 words, 16 random classes, drawn on the device. Every label is then asked for and
compared, first of a model whose weights nobody has looked at yet, then again; the yardstick is `torch.sort` of as many
float64 keys, in the same run. A model of the first 2,000 sequences
is built there too, saved and proved from its file, and its weights are those that the processor gives, to the bit.
Needs CUDA; elsewhere it says so. `--profile` prints where the time goes: by functions of the library, each of which
then waits for the device, and by kernels.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import monolayer as ml
from workload import NotRunError, claim, run, seconds

DEVICE = "cuda"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=6_250_000)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    count = options.sequences
    if not torch.cuda.is_available():
        raise NotRunError("there is no CUDA device here")
    X, Y = data(count)
    sort = sort_seconds(X.numel())
    few = X[:2000].clone(), Y[:2000].clone()
    small, usual = (
        ml.memorize(*few),
        ml.memorize(few[0].cpu(), few[1].cpu()),
    )  # also: first calls are not what is measured
    same = all(
        one.cpu().nan_to_num().equal(two.nan_to_num())
        for one, two in zip(small.parameters(), usual.parameters(), strict=True)
    )
    with tempfile.TemporaryDirectory() as folder:
        small.save(Path(folder) / "model")
        verdict = ml.certify(Path(folder) / "model", few[0].cpu().numpy(), few[1].cpu().numpy()).verdict
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    build, model = seconds(lambda: done(lambda: ml.memorize(X, Y)), 5)
    peak = torch.cuda.max_memory_allocated() - before
    summary = model.summary
    print(f"labels            {X.numel():,}, {summary.runs:,} runs, rank {summary.rank}, margin {summary.margin:.1f}")
    print(f"torch.sort        {1e3 * sort:,.1f} ms")
    print(f"memorize          {1e3 * build:,.1f} ms = {build / sort:.1f} sorts")
    print(f"  peak memory     {peak / X.numel():.0f} bytes per label")
    print(f"2,000 sequences   {verdict}, weights {'as' if same else 'NOT as'} the processor's to the bit")
    assert model.bos.device.type == DEVICE
    assert verdict == "proved"
    assert same, "the weights of a device and of the processor differ"
    model.predict(X)
    del model
    model = ml.memorize(X, Y)
    first, labels = seconds(lambda: done(lambda: model.predict(X)), 1)
    wrong = int((labels != Y).sum())
    answer, labels = seconds(lambda: done(lambda: model.predict(X)), 5)
    wrong += int((labels != Y).sum())
    print(f"predict at first  {1e3 * first:,.1f} ms: weights are looked at, and an index of the steps is made")
    print(f"predict           {1e3 * answer:,.1f} ms = {answer / sort:.1f} sorts, {wrong} wrong")
    assert wrong == 0
    if options.profile:
        for what, action in (("memorize", lambda: ml.memorize(X, Y)), ("predict", lambda: model.predict(X))):
            print(f"\n{what}, ms by function\n{Spent(what, action)}\n\n{what}, by kernel\n{kernels(action)}")
    if "H200" in torch.cuda.get_device_name():  # what is claimed of
        for what, took in (("become weights", build), ("are answered", answer)):
            claim(f"{X.numel():,} labels {what} on an H200", 1e3 * took, at_most=30.0, idle=True, unit=" ms")


def done(action: Callable[[], Any]) -> Any:
    """What `action` returns, once the device has done it."""
    result = action()
    torch.cuda.synchronize()
    return result


class Spent:
    """Milliseconds in each function of the library, and in those that it calls, where that is half of one or more."""

    def __init__(self, name: str, action: Callable[[], Any]) -> None:
        self.took, self.times = dict[tuple[str, ...], float](), dict[tuple[str, ...], int]()
        self._path, self._since = [name], list[float]()
        action()  # first calls are not what is measured
        sys.setprofile(self._met)
        try:
            action()
        finally:
            sys.setprofile(None)

    def _met(self, frame: FrameType, event: str, _: object) -> None:
        """Called at the beginning and the end of every function."""
        if event not in ("call", "return") or "/monolayer/" not in frame.f_code.co_filename:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if event == "call":
            self._path.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
            self._since.append(time.perf_counter())
        elif self._since:
            path = tuple(self._path)
            self.took[path] = self.took.get(path, 0.0) + 1e3 * (time.perf_counter() - self._since.pop())
            self.times[path] = self.times.get(path, 0) + 1
            self._path.pop()

    def __str__(self) -> str:
        """The calls as a tree, each function below the one that calls it."""
        long = sorted(path for path, took in self.took.items() if took >= 0.5)
        lines = [f"{self.took[path]:>9.2f} ×{self.times[path]:<4}{'  ' * len(path)}{path[-1]}" for path in long]
        return "\n".join(lines)


def kernels(action: Callable[[], Any]) -> str:
    """The kernels that take longest."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        done(action)
    return str(found.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70))


def sort_seconds(count: int) -> float:
    keys = torch.rand(count, dtype=torch.float64, device=DEVICE)
    return seconds(lambda: done(lambda: keys.sort()), 5)[0]


def data(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of 16 different ids `(N, 16)`, and a class for every token, on the device."""
    random = torch.Generator(DEVICE).manual_seed(0)
    X = torch.randint(0, 1000, (count, 16), generator=random, device=DEVICE)
    while True:
        ordered = X.sort(dim=1).values
        bad = torch.nonzero((ordered[:, 1:] == ordered[:, :-1]).any(dim=1)).flatten()
        if len(bad) == 0:
            return X, torch.randint(0, 16, (count, 16), generator=random, device=DEVICE)
        X[bad] = torch.randint(0, 1000, (len(bad), 16), generator=random, device=DEVICE)


if __name__ == "__main__":
    run(main)
