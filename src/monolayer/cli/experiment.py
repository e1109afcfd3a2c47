"""`monolayer experiment` and `monolayer report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from monolayer.cli.console import Json, app, err, flag, out, output, print_json, progress, wrote
from monolayer.errors import DataError
from monolayer.table import escape


@app.command()
def experiment(
    name: Annotated[
        str, typer.Argument(help="Name of an experiment, or all; `monolayer experiment list` prints the names.")
    ],
    folder: Annotated[Path | None, output("Folder for the results and the report.")] = None,
    full: Annotated[
        bool, flag("--full", "Use larger sizes: each experiment takes minutes rather than seconds.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device for training and answering, for example cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Same seed, same data and constructions.", min=0)] = 0,
    resume: Annotated[bool, flag("--resume", "Keep finished experiments in the folder and run the rest.")] = False,
    as_json: Json = False,
) -> None:
    """Measure a claim: write the raw numbers to NAME.json, and a page that explains them, report.html."""
    from monolayer_experiments import NAMES, find
    from monolayer_experiments.experiment import Setting
    from monolayer_experiments.report import build, plotly_script
    from monolayer_experiments.results import measure, prepare, write

    if name == "list":
        questions = {each: find(each).question for each in NAMES}
        if as_json:
            print_json(questions)
            return
        for each, question in questions.items():
            out.print(f"[cyan]{each:<14}[/] {escape(question)}", soft_wrap=True)
        return
    names = list(NAMES) if name == "all" else [name]
    experiments = {each: find(each) for each in names}  # refuse an unknown name before any work is done
    if folder is None:
        raise DataError(f"say where to write the results: monolayer experiment {name} --out results")
    from monolayer.model.device import check_device

    check_device(device)
    plotly_script()  # refuse a missing package, too
    setting = Setting(full, device, seed)
    todo = prepare(folder, names, setting, resume)
    for kept in (each for each in names if each not in todo):
        err.print(f"{kept}: finished before, kept")
    answers: dict[str, dict[str, Any]] = {}
    for each in todo:
        try:
            with progress(as_json) as step:
                record = measure(experiments[each], setting, folder, step)
        except KeyboardInterrupt:
            err.print(
                f"{escape(each)} was not finished. What is finished is in {escape(str(folder))}; --resume continues."
            )
            raise
        write(record, folder)
        answers[each] = {"seconds": record.seconds, "answer": experiments[each].answer(record.results)}
        if not as_json:
            out.print(f"[bold]{each}[/] ({record.seconds:.1f} s): {escape(answers[each]['answer'])}", soft_wrap=True)
    page = build(folder)
    wrote(as_json, {"folder": str(folder), "report": str(page), "experiments": answers}, page)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that `monolayer experiment` wrote to.")],
    as_json: Json = False,
) -> None:
    """Rebuild report.html from the stored results alone."""
    from monolayer_experiments.report import build

    page = build(folder)
    wrote(as_json, {"folder": str(folder), "report": str(page)}, page)
