"""Claim: `monolayer --help` takes two imports of NumPy at most, and an answer of `predict --text` five.

Fresh processes, each the best of ten in turn with the others: the list of commands; one answer by a model of 1,000
facts; and three yardsticks, `python -c pass`, `python -c 'import numpy'` and `python -c 'import torch'`. Ratios are of
processor time. The two limits in seconds are the clock's, for an idle machine. Bytecode is kept from the first run of
each, as it is of a package that pip installed, also where the environment asks Python to write none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import monolayer as ml
from workload import SAME_RUN, claim, run

REPEATS = 10
FACTS = {f"word{number}": f"answer{number % 40}" for number in range(1000)}


class Took(NamedTuple):
    """Seconds of one process."""

    clock: float
    processor: float


def took(arguments: list[str], bytecode: Path) -> Took:
    """How long Python takes with these arguments; compiled modules are kept in `bytecode`."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bytecode)}
    began = time.perf_counter()
    started = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, arguments
    return Took(time.perf_counter() - began, used.ru_utime + used.ru_stime)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = ml.memorize(FACTS).save(Path(scratch) / "model")
        asked = {
            "python -c pass": ["-c", "pass"],
            "python -c 'import numpy'": ["-c", "import numpy"],
            "python -c 'import torch'": ["-c", "import torch"],
            "monolayer --help": ["-m", "monolayer", "--help"],
            "monolayer predict --text": ["-m", "monolayer", "predict", str(folder), "--text", "word7"],
        }
        every = [[took(arguments, Path(scratch) / "bytecode") for arguments in asked.values()] for _ in range(REPEATS)]
    nothing, numpy, torch, shown, answer = (
        Took(*(min(each) for each in zip(*process, strict=True))) for process in zip(*every, strict=True)
    )
    for name, best in zip(asked, (nothing, numpy, torch, shown, answer), strict=True):
        print(f"{name:<26} {best.clock:.2f} s, of a processor {best.processor:.2f} s")
    claim("processor time of --help, in imports of NumPy", shown.processor / numpy.processor, at_most=2, busy=SAME_RUN)
    claim(
        "processor time of an answer, in imports of NumPy", answer.processor / numpy.processor, at_most=5, busy=SAME_RUN
    )
    claim(
        "processor time of an answer, in imports of PyTorch",
        answer.processor / torch.processor,
        at_most=0.4,
        busy=SAME_RUN,
    )
    claim("--help", shown.clock, at_most=0.3, unit=" s", idle=True)
    claim("an answer", answer.clock, at_most=0.6, unit=" s", idle=True)


if __name__ == "__main__":
    run(main)
