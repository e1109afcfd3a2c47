"""Kill a save at every step it takes, one process a step, and look at what is left. Run by tests/test_folder.py.

A child replaces the folder under a profiler that counts calls into the system, and kills itself with SIGKILL after
the chosen one; what is on the disk changes nowhere else. The parent then finds the old or the new folder, whole, and
the next save leaves nothing else behind. Without PyTorch, so that a fork costs a millisecond;
`python -m tests.killing FOLDER`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from monolayer.data import folder as folders
from monolayer.data.folder import read_together

SYSTEM = {"posix", "fcntl", "_io"}


def fill(scratch: Path, text: bytes) -> None:
    (scratch / "model.safetensors").write_bytes(text)
    (scratch / "config.json").write_bytes(b'{"format": "monolayer", "is": "%s"}' % text)


def save(folder: Path, text: bytes) -> None:
    with folders.new_folder(folder, overwrite=True) as scratch:
        fill(scratch, text)


def content(folder: Path) -> bytes:
    """What was saved, once both files agree."""
    found = read_together(folder, "config.json", lambda _: ["model.safetensors"])
    assert found["config.json"] == b'{"format": "monolayer", "is": "%s"}' % found["model.safetensors"]
    return found["model.safetensors"]


def into_the_system(event: str, function: Any) -> bool:
    """Whether a call into the system has just returned."""
    return event == "c_return" and (function.__module__ or type(function.__self__).__module__) in SYSTEM


def killed_at(step: int, folder: Path) -> bool:
    """Whether a save in a child was killed at this step; False if it ended before."""
    child = os.fork()
    if child == 0:
        left = step

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal left
            left -= into_the_system(event, argument)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        save(folder, b"new")
        sys.setprofile(None)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, status
    return os.WIFSIGNALED(status)


def main(folder: Path) -> None:
    folders._sync = lambda path: None  # a loss of power is not played here, and disks are slow
    steps = {b"old": 0, b"new": 0}
    left_aside = 0
    step = 1
    while True:
        save(folder, b"old")
        assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing is left behind"
        if not killed_at(step, folder):
            break
        if not folder.exists():
            left_aside += 1
        steps[content(folder)] += 1
        step += 1
    print(step - 1, steps[b"old"], steps[b"new"], left_aside)
    assert content(folder) == b"new"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
