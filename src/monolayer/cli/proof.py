"""`monolayer verify`, `monolayer theorem` and `monolayer refute-hardmax`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.approximate import is_function, load_function
from monolayer.cli.console import Json, app, as_flags, out, print_json, progress, table
from monolayer.cli.reading import PLAIN, Data, Reading, book, manner, reads
from monolayer.table import plural, visible

if TYPE_CHECKING:
    from monolayer.checker.certificate import Certificate

EXIT = {"proved": 0, "refuted": 1, "undecided": 3}


@app.command()
@reads
def verify(
    folder: Annotated[Path, typer.Argument(help="A saved model.")],
    data: Data,
    noise: Annotated[
        float | None,
        typer.Option(help="Robust models: claim it for every change of each weight by this share of itself at most."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Robust models: claim it for weights in bfloat16, float16 or int8.")
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Write the verdict as certificate.json beside the model.")
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="How far a real answer may be from its label; without it they must be equal.")
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Also whether the readout holds nothing but DATA (docs/editing.md).")
    ] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Prove or refute, from the saved weights, that the model returns every label of DATA in every evaluation.

    What counts as an evaluation (IEEE arithmetic, sums in any order, accuracy of exp) is printed with the verdict.

    For an approximator DATA may be its function, by name or as module:function: then the claim is that it equals the
    function at the centres of its cells everywhere off the ramps; of one built with --norm sup, that it is near it
    everywhere. Exit code 0: proved, 1: refuted, 3: undecided; others are no verdicts.
    """
    from monolayer.checker import verify as check

    with progress(as_json) as step:
        wanted: Any = load_function(data[0]) if len(data) == 1 and is_function(data[0]) else None
        certificate = None
        if wanted is None:
            wanted = book(folder, data)
        if wanted is None:
            if tolerance is None and not only and noise is None and dtype is None:
                certificate = _file_by_file(folder, data, step, reading)
            if certificate is None:
                wanted = reading.read(data, step, folder)
        if certificate is None:
            step("checking", 0.5)
            certificate = check(folder, wanted, tolerance=tolerance, only=only, noise=noise, dtype=dtype)
    if save:
        certificate.save(folder)
    if as_json:
        print_json(json.loads(certificate.to_json()))
    else:
        table(str(folder), [(name, as_flags(value)) for name, value in certificate.rows()])
        if certificate.assumptions:
            out.print()
            table("assumed", [("", assumption) for assumption in certificate.assumptions])
    raise typer.Exit(EXIT[certificate.verdict])


def _file_by_file(
    folder: Path, data: list[str], step: Callable[[str, float], None], reading: Reading
) -> Certificate | None:
    """The certificate of data in several files, none of which need fit into memory with another; else None."""
    from monolayer.data.shards import files

    names = files(data)
    if len(names) < 2:
        return None
    from monolayer.checker.files import verify_files

    return verify_files(folder, names, progress=step, like=manner(folder), **reading.keywords)


@app.command()
@reads
def theorem(
    data: Data,
    max_bits: Annotated[int | None, typer.Option(help="Highest precision to try, in bits.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="For the direction.", min=0)] = 0,
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
    weights: Annotated[Path | None, typer.Option(help="A .npz or .safetensors file with W_Q, W_K, W_V, W_O.")] = None,
    heads: Annotated[int, typer.Option(help="Heads of a random layer.")] = 1,
    dim: Annotated[int, typer.Option(help="Dimension of the tokens of a random layer.")] = 4,
    length: Annotated[int, typer.Option(help="Tokens in each of the two sequences, at least 4.")] = 4,
    r_min: Annotated[float | None, typer.Option(help="Every token shall be longer than this.")] = None,
    r_max: Annotated[float | None, typer.Option(help="Every token shall be shorter than this.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Different tokens shall be further apart than this.")] = None,
    seed: Annotated[int, typer.Option(help="For random weights and directions.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Show two sequences that a hardmax layer cannot tell apart, checked exactly, and what softmax makes of them."""
    from monolayer.theory.hardmax import refute_hardmax as refute
    from monolayer.theory.weights import AttentionWeights

    given = None if weights is None else AttentionWeights.read(weights)
    found = refute(given, heads=heads, dim=dim, n=length, r_min=r_min, r_max=r_max, epsilon=epsilon, seed=seed)
    if as_json:
        print_json(found.to_json())
        return
    table("hardmax refuted", found.rows())
    out.print()
    out.print(visible(found.explain()), markup=False)
