"""Kill a save of a folder at every step that it takes, one process per step, and look at what is left.

A child replaces the folder under a profiler that counts calls into the system, and kills itself with SIGKILL after the
chosen one; what is on the disk changes nowhere else. The parent then finds the old or the new folder, whole, and the
next save leaves nothing else behind. A fork costs a millisecond because nothing here imports PyTorch.

    python -m tests.killed_saves FOLDER
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
BOTH = ("config.json", "model.safetensors")


def fill(scratch: Path, text: bytes) -> None:
    (scratch / "model.safetensors").write_bytes(text)
    (scratch / "config.json").write_bytes(b'{"format": "monolayer", "is": "%s"}' % text)


def save(folder: Path, text: bytes) -> None:
    with folders.new_folder(folder, overwrite=True) as scratch:
        fill(scratch, text)


def content(folder: Path) -> bytes:
    """What was saved, once both files agree."""
    config, weights = read_together(folder, lambda opened: [opened.read(name) for name in BOTH])
    assert config == b'{"format": "monolayer", "is": "%s"}' % weights
    return weights


def killed_at(step: int, folder: Path) -> bool:
    """Whether a save in a child was killed at this step; False if it ended before."""
    child = os.fork()
    if child == 0:
        left = step

        def count(frame: Any, event: str, function: Any) -> None:
            nonlocal left
            left -= event == "c_return" and (function.__module__ or type(function.__self__).__module__) in SYSTEM
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        save(folder, b"new")
        sys.setprofile(None)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, status
    return os.WIFSIGNALED(status)


if __name__ == "__main__":
    assert "torch" not in sys.modules
    folder = Path(sys.argv[1])
    folders._sync = lambda path: None  # a loss of power is not played here, and disks are slow
    found = {b"old": 0, b"new": 0}
    left_aside = step = 0
    while True:
        save(folder, b"old")
        assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing is left behind"
        step += 1
        if not killed_at(step, folder):
            break
        left_aside += not folder.exists()
        found[content(folder)] += 1
    assert content(folder) == b"new"
    assert min(found.values()) > 10, "kills before and after the new folder was in place"
    assert left_aside > 0, "between the renames there is no folder, and then it comes back"
