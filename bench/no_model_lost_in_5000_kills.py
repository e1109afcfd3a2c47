"""Claim: killed at 5,000 random moments, a save leaves the old or the new model, whole, and nothing else behind.

    python bench/no_model_lost_in_5000_kills.py --kills 5000

A child replaces a folder by two models in turn, without end, until it is killed with SIGKILL. Then the folder is loaded
and compared with both, bit for bit. Between two renames the folder is missing, and comes back when it is loaded. In the
end one save must leave nothing but the folder. `tests/test_folder.py` kills at every step instead of at random.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import torch

import monolayer as ml
from workload import claim, run

Child = int


def replacing(folder: Path, models: list[ml.Monolayer]) -> Child:
    """A process that saves one model after the other onto `folder`."""
    child = os.fork()
    if child:
        return child
    try:
        while True:
            for model in models:
                model.save(folder, overwrite=True)
    finally:
        os._exit(1)  # at Ctrl-C or an error a child must not go on as if it were this script


def which(folder: Path, models: list[ml.Monolayer]) -> int | None:
    """The number of the model in `folder`; None if it is none of them, or cannot be loaded."""
    try:
        loaded = ml.load(folder).state_dict()
    except ml.MonolayerError as why:
        print(f"lost: {why}", flush=True)
        return None
    for number, model in enumerate(models):
        weights = model.state_dict()
        if all(torch.equal(weights[name], loaded[name]) for name in weights):  # different shapes are not equal
            return number
    print("lost: what was loaded is neither model", flush=True)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a forked process has no other threads
    generator = random.Random(options.seed)
    models = [ml.memorize(["ab"], [["x", "y"]]), ml.memorize(["abc", "b"], [["y", "z", "z"], ["x"]])]
    memory = Path("/dev/shm")  # the moments of a slow disk are long and always the same
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        folder = models[0].save(Path(scratch) / "model")
        began = time.perf_counter()
        for _ in range(20):
            models[1].save(folder, overwrite=True)
        span = (time.perf_counter() - began) / 20
        print(f"{'kills':>6} {'old or new':>11} {'came back':>10} {'lost':>5} {'left':>5}")
        found, missing, kills = [0, 0], 0, options.kills
        for _ in range(kills):
            child = replacing(folder, models)
            try:
                time.sleep(generator.uniform(0, 3 * span))
            finally:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "a child ended before it was killed: its save failed"
            missing += not folder.exists()
            now = which(folder, models)
            if now is not None:
                found[now] += 1
        models[0].save(folder, overwrite=True)
        left = len(list(folder.parent.iterdir())) - 1
        print(f"{kills:6,} {sum(found):11,} {missing:10,} {kills - sum(found):5} {left:5}")
    claim(f"models lost in {kills:,} kills", kills - sum(found), at_most=0)
    claim("files or folders left behind", left, at_most=0)


if __name__ == "__main__":
    run(main)
