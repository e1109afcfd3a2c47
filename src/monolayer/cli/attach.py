"""`monolayer attach` and `monolayer detach`: facts in a model that somebody has, and the model without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.building import next_steps
from monolayer.cli.console import Json, Overwrite, app, flag, output, print_json, progress, show, table
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import PLAIN, Data, Reading, reads


@app.command()
@reads
def attach(
    host: Annotated[
        Path, typer.Argument(help="Folder of a causal language model with its tokenizer (docs/attach.md).")
    ],
    data: Data,
    out: Annotated[Path, output("Folder to write the model with the facts to.")],
    radius: Annotated[
        float | None,
        typer.Option(help="How close a state must be to a stored one, as 1 − cos; by default 2^-14 or more."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Text file, one text per line; no fact may answer in any of them.", exists=True),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="Text with {prompt} in it, in which every fact is to answer; may be given several times. By default "
            "the prompt by itself."
        ),
    ] = None,
    chat: Annotated[
        bool, flag("--chat", "Facts answer in the folder's chat template, with and without its own system message.")
    ] = False,
    system: Annotated[
        list[str] | None,
        typer.Option(help="System message with which facts answer in the chat template; may be given several times."),
    ] = None,
    no_end: Annotated[bool, flag("--no-end", "Do not put the host's end token after answers.")] = False,
    no_special_tokens: Annotated[
        bool,
        flag("--no-special-tokens", "Prompts hold their own special tokens, as those of a chat template do: add none."),
    ] = False,
    stored: Annotated[
        Path | None,
        typer.Option(
            help="Folder that these facts were attached to and that lost its attached.json, such as one that "
            "transformers saved again: take its neurons."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where the host runs, for example cuda.")] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Append layers that hold the prompts and answers of DATA to the model in HOST, and change nothing else.

    Every answer is tested before the folder is written; then the claims about the layers are proved from the files.
    Exit code 0: proved; 1 refuted; 2 bad input; 3 undecided.
    """
    from monolayer.attaching.attach import attach as build
    from monolayer.attaching.facts import PER_ANSWER
    from monolayer.attaching.folder import ATTACHED
    from monolayer.checker.certificate import Claims
    from monolayer.data.folder import check_output
    from monolayer.saved.kinds import open_model

    check_output(out, overwrite=overwrite, kind=ATTACHED)  # better known before the work
    with progress(as_json) as step:
        facts = reading.read(data, step, PER_ANSWER)
        made = build(
            host,
            facts,
            radius=radius,
            keep=keep,
            templates=template or None,
            chat=system or chat,
            end=not no_end,
            special_tokens=not no_special_tokens,
            stored=stored,
            device=device,
            progress=lambda stage, share: step(stage, 0.8 * share),
        )
        step("writing", 0.85)
        made.save(out, overwrite=overwrite)
        step("proving", 0.9)
        proof = open_model(out).prove(facts, Claims(), step)  # every answer was tested above
        proof.save(out)
    if as_json:
        print_json({"folder": str(out), **made.json(), "certificate": json.loads(proof.to_json())})
    else:
        table(str(out), [*made.rows(), ("certificate", f"{proof.verdict}: {proof.claim}")])
        next_steps(out, data, "inspect", "verify", reading=reading)
    raise typer.Exit(EXIT[proof.verdict])


@app.command()
def detach(
    folder: Annotated[Path, typer.Argument(help="A folder that facts were attached to.")],
    out: Annotated[Path, output("Folder to write the host to.")],
    overwrite: Annotated[
        bool, flag("--overwrite", "Replace a folder that has facts attached, as FOLDER has, or that holds this host.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore the host of FOLDER: its files as they were before facts were attached, byte for byte."""
    from monolayer.attaching.detach import detach as find
    from monolayer.attaching.folder import ATTACHED
    from monolayer.data.folder import check_output

    if not overwrite:
        check_output(out, kind=ATTACHED)  # better known before the work
    with progress(as_json) as step:
        step("comparing every tensor with its digest", 0.1)
        found = find(folder)
        step("writing", 0.5)
        found.save(out, overwrite=overwrite)
    said = {"folder": str(folder), "host": str(out), "tensors": len(found.attached.manifest.tensors)}
    show(as_json, said, str(out), found.rows())
