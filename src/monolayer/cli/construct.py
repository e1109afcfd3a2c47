"""`monolayer memorize`, and what other commands share with it: reading data, comparing answers, writing files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from monolayer.cli.console import (
    Json,
    app,
    print_json,
    progress,
    table,
)
from monolayer.cli.large import memorize_out_of_core
from monolayer.cli.options import check_use, given
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.cli.recite import TextOptions, memorize_book
from monolayer.cli.stock import check_stock, write_stock
from monolayer.cli.summary import Built
from monolayer.data.aside import new_file
from monolayer.errors import DataError

if TYPE_CHECKING:
    from monolayer.cli.uniform import Answering
    from monolayer.data import Sequences
    from monolayer.model.monolayer import Monolayer


class ReadoutChoice(StrEnum):
    exact = "exact"
    paper = "paper"


class ConflictChoice(StrEnum):
    error = "error"
    majority = "majority"
    first = "first"


class EngineChoice(StrEnum):
    processes = "processes"
    threads = "threads"
    dask = "dask"


class DtypeChoice(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    float64 = "float64"


@app.command()
@reads
def memorize(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")],
    positions: Annotated[bool, typer.Option("--positions", help="Let the order of tokens matter.")] = False,
    causal: Annotated[
        bool,
        typer.Option(
            "--causal", help="Let a token see only what came before; without labels, memorize each next token."
        ),
    ] = False,
    readout: Annotated[
        ReadoutChoice, typer.Option(help="Two hidden layers, exact; or one, as in the paper.")
    ] = ReadoutChoice.exact,
    temperature: Annotated[
        float | None, typer.Option(help="λ of the head, 0 for the mean of the keys; by default chosen by measurement.")
    ] = None,
    robust: Annotated[
        bool, typer.Option("--robust", help="Survive noise and short formats: value rank 64, half-spaces with margins.")
    ] = False,
    noise: Annotated[
        float | None, typer.Option(help="With --robust: the share of itself by which every weight may change.")
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option(
            help="Largest value rank, or auto, any: the least that holds the data is taken; 1 is the paper's. "
            "With --robust: the rank itself, a number or auto, the least that does."
        ),
    ] = None,
    neurons: Annotated[int | None, typer.Option(help="With --robust: how many neurons there may be.")] = None,
    dtype: Annotated[
        DtypeChoice | None,
        typer.Option(help="Format of the weights: float64 or float32; with --robust also bfloat16 and float16."),
    ] = None,
    on_conflict: Annotated[
        ConflictChoice, typer.Option(help="What to do where equal token and context have different labels.")
    ] = ConflictChoice.error,
    recite: Annotated[
        bool, typer.Option("--recite", help="DATA is a text: memorize it so that `monolayer recite` says it.")
    ] = False,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json that says where to cut a text to recite.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Tokens that tell what comes next; by default the fewest that do.", min=1)
    ] = None,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Keep 8 bytes a point, so that predict --strict knows what was seen.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Same seed and platform, same bits; 0 if not given.", min=0)] = None,
    draw: Annotated[
        Path | None, typer.Option(help="A saved model whose keys, codes and names are used again (docs/editing.md).")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to check the answers, for example cuda.")] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            help="Write an unmodified Hugging Face model instead: bert, roberta, distilbert, gpt2, opt, gpt_neox, "
            "starcoder2, llama (docs/stock.md)."
        ),
    ] = None,
    activation: Annotated[
        str | None, typer.Option(help="With --architecture: relu6 (the default but for llama), relu, gelu, or own.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Build out of core, within so much memory, for example 2GB (docs/large.md).")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="With --memory: how many work at once.", min=1)] = None,
    engine: Annotated[
        EngineChoice | None, typer.Option(help="With --memory: processes of this machine, its threads, or dask.")
    ] = None,
    scheduler: Annotated[str | None, typer.Option(help="With --engine dask: address of the scheduler, tcp://…")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a build out of core that was stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is already there.")] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build a model that returns every label of DATA, check it on every one, and save it."""
    from monolayer.construct.memorize import memorize as build
    from monolayer.data.folder import check_output
    from monolayer.model.load import load_monolayer

    said = given(memorize, locals())
    if said & {"memory", "engine", "resume"}:
        check_use(said, "out of core")
        if scheduler is not None and engine is not EngineChoice.dask:
            raise DataError("--scheduler goes with --engine dask")
        choice: dict[str, Any] = {
            "positions": positions,
            "causal": causal,
            "temperature": temperature,
            "seed": seed or 0,
        }
        choice |= {"on_conflict": on_conflict.value, "fingerprint": fingerprint, **reading.keywords}
        choice |= {} if rank is None else {"rank": _rank(rank)}
        choice |= {"overwrite": overwrite, "resume": resume, "workers": workers, "scheduler": scheduler}
        choice |= {"engine": (engine or EngineChoice.processes).value}
        memorize_out_of_core(data, out, memory or "2GB", choice, as_json)
        return
    check_use(said, "in memory")
    if architecture is not None:
        check_use(said, "stock")
        if not robust and draw is None:
            check_use(said, "stock on the line")
        options: dict[str, Any] = {"positions": positions, "on_conflict": on_conflict.value, "draw": draw}
        options |= {"seed": seed} if "seed" in said else {}
        options |= {"robust": robust, "rank": _rank(rank), "dtype": None if dtype is None else dtype.value}
        options |= {} if activation is None else {"activation": activation}
        with progress(as_json) as step:
            check_stock(architecture, out, overwrite)
            sequences = reading.read(data, step)
            write_stock(architecture, sequences, options, out, overwrite, step, as_json)
        return
    check_use(said, "our own")
    if noise is not None and not robust:
        raise DataError("--noise goes with --robust: the line bears no noise worth the name")
    check_device(device)
    check_output(out, overwrite=overwrite)  # better known before the work than after it
    if recite:
        check_use(said, "recite")
        cut = TextOptions("characters" if reading.characters else "words", window, tokenizer)
        memorize_book(data, out, cut, overwrite, as_json, readout=readout.value, seed=seed or 0, device=device)
        return
    if tokenizer is not None or window is not None:
        raise DataError("--tokenizer and --window say how to cut a text: they go with --recite")
    with progress(as_json) as step:
        sequences = reading.read(data, step)
        began = time.perf_counter()
        model = build(
            sequences,
            positions=positions,
            causal=causal,
            readout=readout.value,
            temperature=temperature,
            robust=noise if noise is not None else robust,
            rank=_rank(rank),
            neurons=neurons,
            dtype=None if dtype is None else dtype.value,
            device=device,
            seed=seed,
            on_conflict=on_conflict.value,
            fingerprint=fingerprint,
            draw=None if draw is None else load_monolayer(draw),
            progress=step,
        )
        seconds = time.perf_counter() - began
        step("checking every label", 0.9)
        right, total, seconds_check = check(model, sequences)
        step("writing", 1.0)
        model.save(out, overwrite=overwrite)
    if model.summary is None:  # two ways to one model must give one file, so one with a given draw carries no figures
        facts = {"sequences": len(sequences), "labels": total, "right": right}
        if as_json:
            print_json({"folder": str(out), **facts})
        else:
            table(str(out), [(name, f"{value:,}") for name, value in facts.items()])
        return
    built = Built(model, sequences, right, total, seconds, seconds_check)
    if as_json:
        print_json({"folder": str(out), **built.json()})
    else:
        table(str(out), built.rows())


def _rank(text: str | None) -> Any:
    """A rank as `memorize` takes it; what is no number is left for it to refuse."""
    return int(text) if text is not None and text.isdecimal() else text


def check(model: Monolayer, sequences: Sequences) -> tuple[int, int, float]:
    """How many labels come back, of how many, and the seconds it took."""
    began = time.perf_counter()
    right, total = agreement(model, sequences, model.labels(model.encode(sequences)))
    return right, total, time.perf_counter() - began


def agreement(model: Answering, sequences: Sequences, values: Any) -> tuple[int, int]:
    """Labels of the data that the answers `values` agree with: classes by name, reals to within `room`."""
    import numpy as np

    from monolayer.construct.target import Target

    target = Target.of(sequences, model.card.causal)
    if target.place is not None:
        values = values[target.place]
    if target.classes is None:
        good = np.abs(values - target.table[target.number]).max(axis=1) <= room(model)
    elif target.classes == model.card.classes:
        good = values == target.number
    else:
        good = model.card.decode(values) == target.classes.decode(target.number)
    return int(good.sum()), len(good)


def room(model: Answering) -> float:
    """How far a real answer may be from its label to count as right: 0 but for `paper` and approximators."""
    summary, grid, everywhere = model.summary, model.card.grid, getattr(model, "error", None)
    return (
        (everywhere or 0.0)
        + (0.0 if summary is None else summary.readout_error or 0.0)
        + (0.0 if grid is None else grid.error)
    )


@contextmanager
def output(path: Path | None, overwrite: bool) -> Iterator[TextIO]:
    """Standard output, or a file that appears only when it is complete."""
    if path is None:
        yield sys.stdout
        return
    check_file(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        yield file


def check_file(path: Path, overwrite: bool) -> None:
    """Refuse a file that may not or cannot be written: better known before the work than after it."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give the name of a file")
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already: choose another file, or pass --overwrite")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be made: {above} is no folder that can be written into")


def check_device(device: str | None) -> None:
    """A device that is not there is a mistake to name, not a traceback."""
    if device is not None:
        from monolayer.model.device import check_device as check

        check(device)
