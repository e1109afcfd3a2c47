"""`monolayer attach` and `monolayer detach`: facts in a model that somebody has, and the model without them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from monolayer.cli.console import Json, app, flag, output, progress, show
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.cli.storing import Storing


@dataclass(frozen=True)
class FactOptions:
    """How facts are attached: the options of `attach` that `recognize` does not have."""

    radius: Annotated[
        float | None,
        typer.Option(help="How close a state must be to a stored one, as 1 − cos; by default 2^-14 or more."),
    ] = None
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="Text with {prompt} in it, in which every fact is to answer; may be given several times. By default "
            "the prompt by itself."
        ),
    ] = None
    chat: Annotated[
        bool, flag("--chat", "Facts answer in the folder's chat template, with and without its own system message.")
    ] = False
    system: Annotated[
        list[str] | None,
        typer.Option(help="System message with which facts answer in the chat template; may be given several times."),
    ] = None
    no_end: Annotated[bool, flag("--no-end", "Do not put the host's end token after answers.")] = False
    no_special_tokens: Annotated[
        bool,
        flag("--no-special-tokens", "Prompts hold their own special tokens, as those of a chat template do: add none."),
    ] = False
    stored: Annotated[
        Path | None,
        typer.Option(
            help="Folder that these facts were attached to and that lost its attached.json, such as one that "
            "transformers saved again: take its neurons."
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The options as keyword arguments of `monolayer.attach`."""
        return {
            "radius": self.radius,
            "templates": self.template or None,
            "chat": self.system or self.chat,
            "end": not self.no_end,
            "special_tokens": not self.no_special_tokens,
            "stored": self.stored,
        }


@app.command()
@reads
def attach(
    host: Annotated[
        Path, typer.Argument(help="Folder of a causal language model with its tokenizer (docs/attach.md).")
    ],
    data: Data,
    out: Annotated[Path, output("Folder to write the model with the facts to.")],
    how: FactOptions,
    storing: Storing,
    reading: Reading = PLAIN,
) -> None:
    """Append layers that hold the prompts and answers of DATA to the model in HOST, and change nothing else.

    Every answer is tested before the folder is written; then the claims about the layers are proved from the files.
    Exit code 0: proved; 1 refuted; 2 bad input; 3 undecided.
    """
    from monolayer.attaching.attach import attach as build
    from monolayer.attaching.folder import ATTACHED
    from monolayer.huggingface.manifest import PER_ANSWER

    storing.run(
        build,
        host,
        how.keywords,
        data,
        out,
        reading,
        like=PER_ANSWER,
        kind=ATTACHED,
        next_verbs=("inspect", "verify"),
    )


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
    from monolayer.attaching.folder import ATTACHED
    from monolayer.data.folder import check_output
    from monolayer.saved.detach import detach as find

    if not overwrite:
        check_output(out, kind=ATTACHED)  # better known before the work
    with progress(as_json) as step:
        step("comparing every tensor with its digest", 0.1)
        host = find(folder)
        step("writing", 0.5)
        host.save(out, overwrite=overwrite)
    summary = {"folder": str(folder), "host": str(out), "tensors": len(host.attached.manifest.tensors)}
    show(as_json, summary, str(out), host.rows())
