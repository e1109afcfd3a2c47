"""`memorize_files`: from files to the folder of a model, with the same bits as `memorize`.

This file checks the options and turns failures into errors that say how to go on; `build.py` does the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal, get_args

from monolayer.bar import reporting, shows_progress
from monolayer.cluster.build import Build
from monolayer.cluster.executor import Engine, Options, executor
from monolayer.cluster.finish import finish
from monolayer.cluster.room import WITHOUT_TORCH, Room
from monolayer.cluster.spill import FULL, PausedError, code, identity, open_spill
from monolayer.construct.line.draw import check_seed, check_temperature
from monolayer.construct.request import check_unknown
from monolayer.data.choices import Per, Unit
from monolayer.data.folder import check_output
from monolayer.data.labelling import LABELLINGS
from monolayer.data.labels import check_per
from monolayer.data.objects import JsonFields
from monolayer.data.plan import ReadPlan
from monolayer.data.shards import files as matching
from monolayer.data.shards import tokens_at_most
from monolayer.errors import DataError
from monolayer.model.torch_settings import own_settings
from monolayer.table import Progress


@shows_progress
@own_settings()
def memorize_files(
    files: str | os.PathLike[str] | list[str],
    out: str | os.PathLike[str],
    *,
    memory: str | int | float = "2GB",
    workers: int | None = None,
    engine: Engine = "processes",
    scheduler: object = None,
    resume: bool = False,
    overwrite: bool = False,
    positions: bool = False,
    causal: bool = False,
    temperature: float | None = None,
    rank: int | Literal["auto"] = "auto",
    seed: int = 0,
    unknown: bool | None = None,
    format: str | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    unit: Unit | None = None,
    per: Per | None = None,
    header: bool | None = None,
    separator: str | None = None,
    plans: list[ReadPlan] | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    r"""Build the model that `memorize` would build from all these files together, bit for bit; returns its folder.

    Labels that contradict each other are an error that names two of them.

    - `files`: a pattern such as `shards/*.parquet`, or a list of files, of ids or strings. They have labels, unless
      `causal=True`.
    - `out`: the folder to write.
    - `memory`: how much memory all processes of this machine may hold together, such as `2GB`. What does not fit lies
      in a folder beside `out` during the build.
    - `workers`: how many processes to use; None: one per processor, as far as they fit into `memory`. A single worker
      is this process.
    - `engine`: `processes` of this machine, or `dask`, the workers of a Dask cluster. They must see the files and the
      folder under the same paths.
    - `scheduler`: the address of the Dask scheduler, or a Dask client.
    - `resume`: True continues a build that was stopped.
    - `overwrite`: True replaces `out` if it exists.
    - `positions`, `causal`, `temperature`, `rank`, `seed`, `unknown`: the kind of model, as in `memorize`.
    - `format`, `tokens`, `labels`, `unit`, `per`, `header`, `separator`: how to read the files, as in
      `monolayer.data.read`.
    - `plans`: a list that gets how each file was read.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Example:

        >>> lines = '{"tokens": ["a", "b"], "label": 1}\n{"tokens": ["b"], "label": 0}\n'
        >>> _ = Path("data.jsonl").write_text(lines)
        >>> folder = ml.memorize_files("data.jsonl", "model", workers=1)
        >>> print(ml.load(folder).predict([["a", "b"]]))
        [1]
    """
    names = _names(files)
    check_per(per)
    if per is not None and LABELLINGS[per].generates:
        raise DataError("prompts and answers are for memorize_as: per='token' or 'sequence' here")
    options = _checked(Options(positions, causal, temperature, rank, seed, unknown))
    columns = {"tokens": tokens, "labels": labels, "header": header, "separator": separator}
    reading: JsonFields = {"format": format, "unit": unit, "per": per, **columns}
    final = check_output(out, overwrite=overwrite)
    shards = [identity(name) for name in names]
    room = _room(memory, workers, engine, max(tokens_at_most(name, format) for name in names))
    asked = {**reading, **asdict(options), "memory": str(memory), "workers": room.workers, "engine": engine}
    journal = {"code": code(), "sizes": [room.block, room.range, room.spare], "shards": shards, **asked}
    report = reporting(progress)
    with (
        _resumable(final) as started,
        executor(engine, room.workers, scheduler) as run,
        open_spill(final, journal, resume) as (spill, begun),
    ):
        started.append(final)
        block, points, spare = begun["sizes"]
        build = Build(spill, run, replace(room, block=block, range=points, spare=spare), shards, report)
        line = build.line(reading, options)
        for shard in shards:
            if identity(shard["name"]) != shard:
                raise DataError(f"{shard['name']} changed while the model was built: start over")
        if plans is not None:
            plans += line.plans
        report("writing", 1.0)
        return finish(spill, line, final, overwrite)


def _names(files: str | os.PathLike[str] | list[str]) -> list[str]:
    """The files that a pattern or a list names. Standard input is refused, because the build reads files twice."""
    names = matching(files)
    if "-" in names:
        raise DataError("standard input can be read only once: give files")
    return names


def _checked(options: Options) -> Options:
    """These options, unless one of them has no meaning. Workers, which trust them, need not import PyTorch for this."""
    check_seed(options.seed)
    check_temperature(options.temperature)
    check_unknown(options.unknown)
    rank = options.rank
    if rank != "auto" and not (type(rank) is int and rank >= 1):
        raise DataError(f"rank must be a whole number from 1, or 'auto', not {rank!r}")
    return options


def _room(memory: str | int | float, workers: int | None, engine: Engine, largest: int) -> Room:
    """How many workers there are, and how much each of them holds at a time. `largest`: tokens of the largest file."""
    if engine not in get_args(Engine):
        raise DataError(f"engine must be one of {', '.join(map(repr, get_args(Engine)))}, not {engine!r}")
    if workers is not None and (type(workers) is not int or workers < 1):
        raise DataError(f"workers must be a whole number from 1 on, not {workers!r}")
    return Room.fitting(memory, workers, WITHOUT_TORCH if engine == "processes" else 0, largest)


@contextmanager
def _resumable(final: Path) -> Iterator[list[Path]]:
    """Say how to go on with a build that stops, because the disk is full, a worker is lost, or somebody pressed Ctrl-C.

    What has begun is put into the list: before that, there is nothing to go on with.
    """
    again = f"continue with resume=True (--resume), or delete {final.with_name(f'.{final.name}.building')}"
    begun: list[Path] = []
    try:
        yield begun
    except OSError as error:
        if error.errno not in FULL:
            raise
        disk = final.absolute().parent
        raise OSError(error.errno, f"the disk of {disk} is full. Free some space, then {again}") from None
    except PausedError as error:
        raise DataError(f"{error}. When that is fixed, {again}") from None
    except KeyboardInterrupt as stop:
        if begun:
            stop.add_note(f"interrupted; {again}")
        raise
