"""Results on disk: one JSON file for each experiment, written when it is finished and not before.

A file holds the raw numbers and what is needed to get them again: the setting, the versions, a digest of the source,
the machine's kind, the command and the seconds. Nothing in it names the machine or a path on it.
"""

from __future__ import annotations

import json
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import monolayer
from monolayer import __version__
from monolayer.data.aside import new_file
from monolayer.errors import DataError
from monolayer.table import Progress
from monolayer_experiments import NAMES
from monolayer_experiments.experiment import Experiment, Results, Setting

SOURCE = (Path(monolayer.__file__).parent, Path(__file__).parent)
"""The library and its experiments."""
RECORD_FORMAT, RECORD_VERSION = "monolayer-experiment", 1
REPORT = "report.html"


@dataclass(frozen=True)
class ExperimentRecord:
    """A finished experiment."""

    name: str
    setting: Setting
    versions: dict[str, str]
    machine: str
    command: str
    seconds: float
    results: Results


def measure(experiment: Experiment, setting: Setting, folder: Path, progress: Progress) -> ExperimentRecord:
    """Run an experiment and note how; its record will go to `folder`."""
    began = time.perf_counter()
    results = experiment.run(setting, lambda stage, share: progress(f"{experiment.name}: {stage}", share))
    seconds = time.perf_counter() - began
    return ExperimentRecord(
        experiment.name,
        setting,
        versions(),
        machine(setting.device),
        command(experiment.name, setting, folder),
        round(seconds, 3),
        results,
    )


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on, and a digest of our own source."""
    # Ours is said by the source, which may run without having been installed.
    by_name = {"python": ".".join(map(str, sys.version_info[:3])), "monolayer": __version__, "source": digest(SOURCE)}
    for package in ("numpy", "torch", "python-flint"):
        try:
            by_name[package] = version(package)
        except PackageNotFoundError:
            by_name[package] = "unknown"
    return by_name


def digest(folders: Sequence[Path]) -> str:
    """16 digits of SHA-256 over names and bytes of every Python file: the same wherever, and however, it is kept."""
    hashed = sha256()
    for folder in folders:
        for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.py")):
            read = path.read_bytes()
            hashed.update(f"{folder.name}/{name} {len(read)}\n".encode() + read)
    return hashed.hexdigest()[:16]


def machine(device: str) -> str:
    """The kind of machine: the GPU's name, or the processor's family and the number of threads."""
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU ({platform.machine()}), {threads} thread{'s' if threads > 1 else ''}"


def command(name: str, setting: Setting, folder: Path) -> str:
    """The command that gives the same numbers; of a folder that only this machine has, only the last name is kept."""
    words = ["monolayer experiment", name]
    if setting.full:
        words.append("--full")
    if setting.device != "cpu":
        words.append(f"--device {setting.device}")
    if setting.seed:
        words.append(f"--seed {setting.seed}")
    elsewhere = folder.is_absolute() or ".." in folder.parts
    return " ".join([*words, "--out", shlex.quote(folder.resolve().name if elsewhere else str(folder))])


def write(record: ExperimentRecord, folder: Path) -> None:
    """Write `NAME.json`, all at once or not at all."""
    fields = {"format": RECORD_FORMAT, "version": RECORD_VERSION, **asdict(record)}
    text = json.dumps(fields, ensure_ascii=False, indent=1, allow_nan=False)
    with new_file(folder / f"{record.name}.json") as file:
        file.write(text + "\n")


def read(path: Path) -> ExperimentRecord:
    """The record in a file; a DataError says why if the file is not one."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path} is not readable JSON ({error}); delete it and run the experiment again") from None
    if not isinstance(stored, dict) or (stored.get("format"), stored.get("version")) != (RECORD_FORMAT, RECORD_VERSION):
        raise DataError(
            f"{path} is not a result of `monolayer experiment`, version {RECORD_VERSION}; run the experiment again"
        )
    try:
        fields = {key: value for key, value in stored.items() if key not in ("format", "version")}
        record = ExperimentRecord(**{**fields, "setting": Setting(**fields["setting"])})
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} lacks a field or has one too many ({error}); run the experiment again") from None
    if record.name != path.stem or record.name not in NAMES:
        raise DataError(f"{path} holds the experiment {record.name!r}, which its name or this monolayer does not know")
    return record


def read_all(folder: Path) -> list[ExperimentRecord]:
    """Every record of a folder, in the order of the report."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of results; `monolayer experiment all --out {folder}` makes one")
    files = [folder / f"{name}.json" for name in NAMES if (folder / f"{name}.json").exists()]
    if not files:
        raise DataError(f"{folder} holds no results; `monolayer experiment all --out {folder}` makes them")
    return [read(path) for path in files]


def prepare(folder: Path, names: list[str], setting: Setting, resume: bool) -> list[str]:
    """Make or check the output folder; which of `names` are still to do.

    A folder with anything in it is refused unless `resume`; then finished experiments are kept, and one that was
    run in another setting is an error: numbers of two settings do not belong on one page.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; choose a folder for the results")
    if folder.is_dir() and any(folder.iterdir()) and not resume:
        raise DataError(
            f"{folder} is not empty: choose another folder, or pass --resume to keep what is finished there and add "
            "to it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    done = [read(folder / f"{name}.json") for name in NAMES if (folder / f"{name}.json").exists()]
    for record in done:
        if record.setting != setting:
            raise DataError(
                f"{folder / f'{record.name}.json'} was made by `{record.command}`, in another setting: run with the "
                "same options, or choose another folder"
            )
    return [name for name in names if name not in {record.name for record in done}]
