"""`monolayer memorize-as` and `monolayer export`: folders for transformers, with their certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from monolayer.cli.building import ConflictRule, DtypeChoice, OutFolder, Positions, Seed, given, next_steps
from monolayer.cli.console import Json, Overwrite, app, err, flag, output, print_json, progress, table, wrote
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.errors import DataError
from monolayer.table import Progress, part_of

if TYPE_CHECKING:
    from monolayer.huggingface.stock_kind import StockKind
    from monolayer.stock.folder import StockModel

SHARE_STOCK_BUILT, SHARE_STOCK_WRITTEN, SHARE_STOCK_PROVED = 0.32, 0.34, 0.99
"""Shares of `memorize-as` done after building, after writing and after proving, for the bar.

Measured once with `memorize-as bert`: 20,000 labels in 2,500 sequences took 0.32 of the time to read and build, 0.02 to
write and 0.66 to prove.
"""
ARCHITECTURE_NAMES = "bert, roberta, distilbert, gpt2, opt, gpt_neox, starcoder2 or llama (docs/stock.md)."
Onnx = Annotated[bool, flag("--onnx", "Add onnx/model.onnx, for onnxruntime and transformers.js; no proof covers it.")]
CellsRank = Annotated[int | None, typer.Option(help="Rank of the values; cells only.")]
CellsDtype = Annotated[
    DtypeChoice | None, typer.Option(help="Format of the weights: float32 (default), bfloat16 or float16; cells only.")
]


@app.command("memorize-as")
@reads
def memorize_as(
    architecture: Annotated[str, typer.Argument(help=ARCHITECTURE_NAMES)],
    data: Data,
    out: OutFolder,
    positions: Positions = False,
    storage: Annotated[
        Literal["cells", "steps"] | None,
        typer.Option(help="cells (default) work in float32 and lower precision; steps need float64 and hold more."),
    ] = None,
    rank: CellsRank = None,
    dtype: CellsDtype = None,
    confidence: Annotated[
        float | None, typer.Option(help="Minimum median probability of the right label; 0.99 by default.")
    ] = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            help="Name of a class for every input that is not in DATA; cells only. Tables of keys and values have one, "
            "called unknown, by default."
        ),
    ] = None,
    no_unknown: Annotated[bool, flag("--no-unknown", "Leave that class out.")] = False,
    on_conflict: ConflictRule = "error",
    seed: Seed = None,
    draw: Annotated[Path | None, typer.Option(help="A stock folder whose names, keys and codes are reused.")] = None,
    onnx: Onnx = False,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Build an unmodified Hugging Face model that returns every label of DATA, prove it, and save its folder.

    Without labels a decoder memorizes every next token, up to the end of each sequence. From columns called prompt
    (or question) and completion (or answer), or from any two text columns, it memorizes the answer to each prompt.
    """
    from monolayer.stock.build import manner_of
    from monolayer.stock.build import memorize_as as build
    from monolayer.stock.folder import StockModel

    options = given(positions=positions, storage=storage, rank=rank, dtype=dtype, seed=seed)
    if no_unknown and unknown is not None:
        raise DataError("--unknown and --no-unknown contradict each other: give one of them")
    options |= given(confidence=confidence, unknown=False if no_unknown else unknown)
    with progress(as_json) as step:
        kind = _check_before_work(architecture, out, overwrite)
        drawn = None if draw is None else StockModel.load(draw)
        sequences = reading.read(data, step, manner_of(kind) if drawn is None else drawn.card.manner, proved=True)
        model = build(
            architecture,
            sequences,
            on_conflict=on_conflict,
            draw=drawn,
            progress=_saying_what_is_expected(part_of(step, 0.0, SHARE_STOCK_BUILT), as_json),
            **options,
        )
        step("writing", SHARE_STOCK_BUILT)
        model.save(out, overwrite=overwrite, onnx=onnx)
        _certify_and_show(model, out, data, reading, step, as_json)


def _saying_what_is_expected(step: Progress, as_json: bool) -> Progress:
    """`step`, which also prints on standard error how large the weights become, and how long about it takes."""
    from monolayer.stock.expected import Expected

    def told(stage: str, share: float) -> None:
        if isinstance(stage, Expected) and not as_json:
            err.print(stage, soft_wrap=True, markup=False)
        step(stage, share)

    return told


@app.command()
@reads
def export(
    folder: Annotated[Path, typer.Argument(help="A saved model of ids or strings.")],
    to: Annotated[str, typer.Option(help=f"{ARCHITECTURE_NAMES} With --part readout: onnx.")],
    out: Annotated[Path, output("Folder to write the stock model to; with --part, the file.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(help="The sequences to answer, labelled or not; not needed for a model that recites a text."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="readout: write only the feed-forward block, as a file for neural-network verifiers."),
    ] = None,
    storage: Annotated[
        Literal["cells", "steps"] | None,
        typer.Option(help="As for memorize-as; by default, the text of a model that recites is stored in steps."),
    ] = None,
    rank: CellsRank = None,
    dtype: CellsDtype = None,
    seed: Seed = None,
    onnx: Onnx = False,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Write a saved model as an unmodified Hugging Face model that gives the same answers on DATA, and prove it.

    Labels come from the model, not from DATA.
    """
    from monolayer.model.load import load_monolayer
    from monolayer.stock.export import export as write

    options = given(storage=storage, rank=rank, dtype=dtype, seed=seed)
    if to == "onnx" or part is not None:
        beside = options | given(X=data) | ({"onnx": True} if onnx else {})
        file = write(folder, out, to, part=part, overwrite=overwrite, **beside)
        assert isinstance(file, Path)  # exporting a part writes one file
        wrote(as_json, {"folder": str(folder), "part": part, "file": str(file)}, file)
        return
    with progress(as_json) as step:
        _check_before_work(to, out, overwrite)
        model = load_monolayer(folder)
        sequences = reading.read(data, step, model, proved=True) if data else None
        built = write(
            model,
            out,
            to,
            sequences,
            overwrite=overwrite,
            onnx=onnx,
            progress=part_of(step, 0.0, SHARE_STOCK_WRITTEN),
            **options,
        )
        assert not isinstance(built, Path)  # no part was asked for
        _certify_and_show(built, out, data, reading, step, as_json)


def _check_before_work(architecture: str, out: Path, overwrite: bool) -> StockKind:
    """The architecture of this name. An unknown one, or an `out` that may not be replaced, is refused right away."""
    from monolayer.data.folder import check_output
    from monolayer.huggingface.architectures import architecture_named
    from monolayer.stock.folder import STOCK

    kind = architecture_named(architecture)
    check_output(out, overwrite=overwrite, kind=STOCK)
    return kind


def _certify_and_show(
    model: StockModel, out: Path, data: list[str] | None, reading: Reading, step: Progress, as_json: bool
) -> None:
    """Certify the folder `out`, save the certificate in it, and print model and certificate."""
    from monolayer.saved.certify import certify

    certificate = certify(out, model.data, progress=part_of(step, SHARE_STOCK_WRITTEN, SHARE_STOCK_PROVED))
    certificate.save(out)
    if as_json:
        print_json({"folder": str(out), **model.json(), "certificate": json.loads(certificate.to_json())})
        return
    verdict = f"{certificate.verdict}: {certificate.reason}"
    table(str(out), [*model.rows(), ("certificate", verdict), ("load with", model.loads_with())])
    next_steps(out, data or [], "inspect", *(["verify"] if data else []), reading=reading)
