"""`monolayer theorem`, `refute-hardmax` and `audit`: check the paper's claims on data and on weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.console import Json, app, out, print_json, progress, table
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.errors import DataError
from monolayer.table import escape, plural, visible

if TYPE_CHECKING:
    from torch import nn


@app.command()
@reads
def theorem(
    data: Data,
    max_bits: Annotated[int | None, typer.Option(help="Highest precision to try, in bits.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the direction.", min=0)] = 0,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Carry out the paper's theorems on DATA: its constants, its construction in ball arithmetic, and Theorem A.

    Exit code 0: the separation is proved to exceed the paper's δ, 1: refuted, 3: undecided.
    """
    from monolayer.theory.faithful import MAX_BITS
    from monolayer.theory.theorem import theorem as carry_out

    with progress(as_json) as step:
        sequences = reading.read(data, step)
        step("enclosing every context", 0.2)
        found = carry_out(sequences, max_bits=max_bits or MAX_BITS, seed=seed)
    if as_json:
        print_json(found.to_json())
    else:
        table(data[0] if len(data) == 1 else plural(len(data), "file"), found.rows())
        out.print()
        out.print(visible(found.explain()), markup=False)
    raise typer.Exit(EXIT[found.verdict])


@app.command("refute-hardmax")
def refute_hardmax(
    weights: Annotated[Path | None, typer.Option(help="A .npz file with W_Q, W_K, W_V, W_O.")] = None,
    heads: Annotated[int, typer.Option(help="Heads of a random layer.")] = 1,
    dim: Annotated[int, typer.Option(help="Dimension of the tokens of a random layer.")] = 4,
    length: Annotated[int, typer.Option(help="Tokens per sequence, at least 4.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of random weights and directions.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Find two sequences that a hardmax layer cannot tell apart, check it exactly, and show what softmax does."""
    from monolayer.theory.hardmax import refute_hardmax as refute

    found = refute(weights, heads=heads, dim=dim, n=length, seed=seed)
    if as_json:
        print_json(found.to_json())
        return
    table("hardmax refuted", found.rows())
    out.print()
    out.print(visible(found.explain()), markup=False)


@app.command()
@reads
def audit(
    folder: Annotated[Path, typer.Argument(help="A saved model, or a Hugging Face folder.")],
    data: Data,
    part: Annotated[
        list[str] | None, typer.Option(help="Audit only this submodule; may be given several times.")
    ] = None,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Measure which parts of a model tell the contexts of DATA apart: (r, δ), bits, collisions by format, ranks.

    All sequences must have the same length, with at most 16,384 tokens in all; a Hugging Face folder needs token ids.
    """
    from monolayer.auditing import audit as measure
    from monolayer.model.monolayer import Monolayer

    with progress(as_json) as step:
        model = _model(folder)
        X = reading.read(data, step, model if isinstance(model, Monolayer) else None)
        step("measuring every part", 0.3)
        found = measure(model, X, parts=part)
    if as_json:
        print_json(found.to_json())
        return
    out.print(escape(repr(found)), soft_wrap=True)


def _model(folder: Path) -> nn.Module:
    """Load a monolayer model, or the Hugging Face model that config.json names. Never downloads, never runs the
    folder's code.
    """
    from monolayer.data.folder import read_together

    try:
        said: Any = json.loads(read_together(folder, lambda opened: opened.read("config.json")))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{folder} is not a saved model: its config.json cannot be read ({error})") from None
    if not isinstance(said, dict) or "architectures" not in said:
        from monolayer.model.load import load_monolayer

        return load_monolayer(folder)
    try:
        import transformers
    except ImportError:
        raise DataError("a Hugging Face folder needs the package transformers: pip install transformers") from None
    bars: Any = transformers.utils.logging
    bars.disable_progress_bar()  # this command shows its own progress bar
    names = said["architectures"]
    kind = getattr(transformers, str(names[0]), None) if isinstance(names, list) and names else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        kind = transformers.AutoModel
    try:
        loaded: nn.Module = kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers and safetensors raise whatever a damaged file makes them raise
        raise DataError(f"{folder} cannot be loaded by transformers: {type(error).__name__}: {error}") from None
    return loaded
