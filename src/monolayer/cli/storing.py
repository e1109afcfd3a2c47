"""What `attach` and `recognize` share: options, and the way from DATA to a folder with its certificate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from monolayer.cli.building import next_steps
from monolayer.cli.console import Json, Overwrite, print_json, progress, table
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import Reading

if TYPE_CHECKING:
    from monolayer.attaching.extended import ExtendedModel
    from monolayer.data.folder import FolderKind
    from monolayer.data.layout import Manner


@dataclass(frozen=True)
class Storing:
    """The options of a command that stores DATA in a model that somebody has."""

    keep: Annotated[
        Path | None,
        typer.Option(help="Text file, one text per line; nothing that is stored may answer in them.", exists=True),
    ] = None
    device: Annotated[str | None, typer.Option(help="Where the model that is there runs, for example cuda.")] = None
    overwrite: Overwrite = False
    as_json: Json = False

    def run(
        self,
        store: Callable[..., ExtendedModel],
        model: Path,
        options: dict[str, Any],
        data: list[str],
        out: Path,
        reading: Reading,
        *,
        like: Manner,
        kind: FolderKind,
        next_verbs: tuple[str, ...],
    ) -> NoReturn:
        """`store` DATA in `model` with these options, save the new model in `out`, prove it from its files, print that.

        `store` asks the model for every answer, so the proof does not ask again. Exits with the code of the verdict.
        `like`: how DATA are read; `kind`: the folders that may be replaced.
        """
        from monolayer.checker.certificate import Claims
        from monolayer.data.folder import check_output
        from monolayer.saved.kinds import open_model

        check_output(out, overwrite=self.overwrite, kind=kind)  # better known before the work
        with progress(self.as_json) as step:
            facts = reading.read(data, step, like)
            options = {**options, "keep": self.keep, "device": self.device}
            made = store(model, facts, **options, progress=lambda stage, share: step(stage, 0.8 * share))
            step("writing", 0.85)
            made.save(out, overwrite=self.overwrite)
            step("proving", 0.9)
            proof = open_model(out).prove(facts, Claims(), step)
            proof.save(out)
        if self.as_json:
            print_json({"folder": str(out), **made.json(), "certificate": json.loads(proof.to_json())})
        else:
            table(str(out), [*made.rows(), ("certificate", f"{proof.verdict}: {proof.claim}")])
            next_steps(out, data, *next_verbs, reading=reading)
        raise typer.Exit(EXIT[proof.verdict])
