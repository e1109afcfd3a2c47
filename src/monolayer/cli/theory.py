"""`monolayer theorem`, `refute-hardmax` and `audit`: check the paper's claims on data and on weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.console import Json, app, out, print_json, progress, table
from monolayer.cli.proof import EXIT
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.table import escape, plural, visible


@app.command()
@reads
def theorem(
    data: Data,
    causal: Annotated[
        bool, typer.Option("--causal", help="A head with a causal mask: each token sees itself and earlier ones.")
    ] = False,
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
        result = carry_out(sequences, causal=causal, max_bits=max_bits or MAX_BITS, seed=seed)
    if as_json:
        print_json(result.to_json())
    else:
        table(data[0] if len(data) == 1 else plural(len(data), "file"), result.rows())
        out.print()
        out.print(visible(result.explain()), markup=False)
    raise typer.Exit(EXIT[result.verdict])


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

    refutation = refute(weights, heads=heads, dim=dim, n=length, seed=seed)
    if as_json:
        print_json(refutation.to_json())
        return
    table("hardmax refuted", refutation.rows())
    out.print()
    out.print(visible(refutation.explain()), markup=False)


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

    A Hugging Face folder takes token ids or, with its own tokenizer, texts; a .txt file holds one text per line, and
    blank lines are skipped. At most 16,384 tokens in all. In a causal model the context of a token is its prefix.
    """
    from monolayer.auditing import audit as measure
    from monolayer.auditing.audited import audited
    from monolayer.auditing.folders import load_any
    from monolayer.data.text import read_text

    with progress(as_json) as step:
        model = load_any(folder)
        asked = audited(model)
        tokenizer = asked.tokenizer(folder)
        X: object
        if tokenizer is not None and reading.format is None and [Path(name).suffix for name in data] == [".txt"]:
            X = [line for line in read_text(data[0]).splitlines() if line.strip()]
        else:
            # A tokenizer takes whole texts.
            unit = reading.unit or (None if tokenizer is None else "whole")
            X = replace(reading, unit=unit).read(data, step, asked.reads_as)
        step("measuring every part", 0.3)
        measured = measure(model, X, tokenizer=tokenizer, parts=part)
    if as_json:
        print_json(measured.to_json())
        return
    out.print(escape(repr(measured)), soft_wrap=True)
