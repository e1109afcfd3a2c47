"""`bench/forks.py`: nothing that it starts runs for ever, and nothing outlives the script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import ROOT

HEAD = "import itertools, json, os, signal, subprocess, sys\nfrom forks import Forks\n"
WAYS = """
def answers(step): step("quick", 1.0); return {"a": 1}
def fails(step): step("begun", 1.0); raise ValueError
def loops(step):
    step("quick", 1.0)
    step("in C", 0.01)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # the limit by the clock
    sum(itertools.repeat(0))
def waits(step): step("for nothing", 0.01); signal.pause()
def leaves(step): subprocess.Popen(["sleep", "600"], stdout=sys.stderr); return "a child that runs"
def at_length(step): return "x" * 1_000_000
with Forks() as forks:
    ways = {way.__name__: forks.start(way) for way in (answers, fails, loops, waits, leaves, at_length)}
    ended = {name: forks.result(fork) for name, fork in ways.items()}
    assert ended.pop("at_length").answer == "x" * 1_000_000
    assert not list(forks.scratch.iterdir())
assert not forks.scratch.exists()
print(json.dumps(ended))
"""
ENDLESS = """
def works(step):
    subprocess.Popen(["sleep", "600"], stdout=1, pass_fds=[PIPE])
    print(forks.scratch, flush=True)
    while True: pass
with Forks(loud=True) as forks:
    forks.result(forks.start(works))
"""


def started(text: str, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bench")}
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", HEAD + text], env=environment, stdout=subprocess.PIPE, text=True, **options
    )


def test_forks_end_by_themselves_or_at_their_limits() -> None:
    """The output ends only when nobody holds it any longer, so this also waits for what forks have started."""
    with started(WAYS) as process:
        found = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert found == {
        "answers": [{"a": 1}, "quick", False],
        "fails": [None, "begun", False],
        "loops": [None, "in C", True],
        "waits": [None, "for nothing", True],
        "leaves": ["a child that runs", "", False],
    }


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_forks_end_with_the_script(ending: signal.Signals) -> None:
    """Every process of the script holds a pipe, which ends when the last of them has."""
    reads, writes = os.pipe()
    with started(ENDLESS.replace("PIPE", str(writes)), pass_fds=[writes], stderr=subprocess.DEVNULL) as process:
        os.close(writes)
        assert process.stdout is not None
        scratch = Path(process.stdout.readline().strip())
        assert scratch.is_dir()
        process.send_signal(ending)
        assert os.read(reads, 1) == b""
        os.close(reads)
    assert process.returncode == -ending
    assert not scratch.exists()
