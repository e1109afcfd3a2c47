"""Shared by the commands that build models: options, the check of every label, the table, and the next steps."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from monolayer.cli.console import FactsByName, flag, output
from monolayer.cli.console import out as console
from monolayer.table import Progress, escape, number, plural

if TYPE_CHECKING:
    from monolayer.arrays import Array, Bools, Ints
    from monolayer.cli.reading import Answering, Reading
    from monolayer.data import Sequences
    from monolayer.model.card import Summary
    from monolayer.model.monolayer import Monolayer

SHARE_READ, SHARE_BUILT, SHARE_CHECKED = 0.15, 0.68, 0.98
"""Shares of `memorize` done after reading, building and checking, for the bar.

Measured once with `memorize --robust`, where people wait: 20,000 labels in 2,500 sequences took 0.19 of the time to
read, 0.51 to build, 0.30 to check and 0.01 to write.
"""

OutFolder = Annotated[Path, output("Folder to write the model to.")]
Positions = Annotated[bool, flag("--positions", "Let the order of tokens matter.")]
Causal = Annotated[
    bool,
    flag("--causal", "Let each token see only itself and earlier ones; without labels, memorize every next token."),
]
Rank = Annotated[
    str | None, typer.Option(help="Largest value rank allowed, or auto. The smallest rank that holds the data is used.")
]
DtypeChoice = Literal["float32", "bfloat16", "float16", "float64"]
ConflictRule = Annotated[
    Literal["error", "majority", "first"],
    typer.Option(help="What to do if the same token in the same context has different labels."),
]
KeepFingerprints = Annotated[
    bool | None,
    flag(
        "--unknown/--no-unknown",
        "Whether to keep 8 bytes per point, so that predict recognizes what was not memorized; by default for tables "
        "of keys and values.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Same seed and platform, same bits; 0 by default.", min=0)]


def given(**options: object) -> dict[str, Any]:
    """The options that were given, as keyword arguments; the library chooses the others."""
    return {name: value for name, value in options.items() if value is not None}


def rank_of(text: str | None) -> Any:
    """A rank as an integer. Other text is passed on: the library accepts auto and refuses the rest."""
    return int(text) if text is not None and text.isdecimal() else text


def next_steps(folder: Path, data: Sequence[str], *verbs: str, reading: Reading | None = None) -> None:
    """Print where the model was saved, and commands to try next; `reading`: the options that the data were read with.

    A shell may have expanded a pattern into many files: then only the first is named. The folder knows what its labels
    belong to and the form of its files, so only `--format` and `--unit` are repeated, and all options for standard
    input, which cannot be read twice (`data/matching.py`), and for files of several formats, which have no one form.
    """
    names = [*data] if len(data) <= 3 else [data[0], "..."]
    if reading is not None:
        known = "-" not in data and len({Path(name).suffix for name in data}) == 1
        left_out = dict.fromkeys(("tokens", "labels", "per", "header", "separator") if known else ())
        options = replace(reading, **left_out).keywords
        header = options.pop("header", None)
        names += [word for key, value in options.items() if value for word in (f"--{key}", str(value))]
        names += [] if header is None else ["--header" if header else "--no-header"]
    console.print(f"\nsaved to {escape(str(folder))}; next:", soft_wrap=True)
    for verb in verbs:
        words = ["monolayer", verb, str(folder), *(names if verb in ("predict", "verify") else [])]
        console.print(f"  {escape(shlex.join(words))}", soft_wrap=True)


def checked(
    model: Monolayer, data: Sequences, began: float, step: Progress, on_conflict: str | None = None
) -> FactsByName:
    """Ask the model for every label, and return what `--json` prints.

    `began`: when construction started. `step` is told the share of this check. `on_conflict`: what the construction did
    where labels contradict each other; without it, a label that does not come back is a fault, and reported as one.
    """
    import numpy as np

    built = time.perf_counter()
    step("checking every label", 0.0)
    agreement = compared(model, data, model.labels(model.encode(data)))
    right, total = int(agreement.right.sum()), len(agreement.right)
    most = total if on_conflict in ("majority", "first") else 0  # of labels that are overruled
    if model.summary is not None:
        most = min(most, model.summary.conflicts)
    if total - right > most:
        from monolayer.cli.wrong import report_of_wrong_answers

        wrong = np.flatnonzero(~agreement.right)
        raise AssertionError(report_of_wrong_answers(model, data, wrong, agreement.answers[wrong]))
    counts = {"right": right, "total": total, "accuracy": right / total}
    kept = model.card.fingerprint
    counts["fingerprint_bytes"] = 0 if kept is None else kept.words.nbytes
    seconds = {"seconds": built - began, "seconds_check": time.perf_counter() - built}
    return {**(model.card.summary_json() or {"sequences": len(data)}), **counts, **seconds}


def checked_rows(model: Monolayer, facts: FactsByName) -> list[tuple[str, str]]:
    """The rows of the table that is printed without --json. `monolayer inspect` prints more."""
    right, total = facts["right"], facts["total"]
    share = "" if right == total else f" ({facts['accuracy']:.4%})"
    exact = "" if model.card.classes is not None else ", bit for bit"
    # A model with a given draw carries no summary, so that two ways of building it give one file.
    rows = [("sequences", number(facts["sequences"]))]
    if model.summary is not None:
        rows = summary_rows(model.summary, str(model.bos.dtype).removeprefix("torch."))
    if model.card.fingerprint is not None:
        rows.append(("unknown input", str(model.card.fingerprint)))
    return [
        *rows,
        ("accuracy", f"{right:,} of {plural(total, 'label')}{exact}{share}"),
        ("seconds", f"{facts['seconds']:.2f} to build, {facts['seconds_check']:.2f} to check"),
    ]


def summary_rows(summary: Summary, dtype: str = "float64") -> list[tuple[str, str]]:
    """What the builder measured: labels, steps or neurons, and margin; also format and rank if they are unusual."""
    from monolayer.data.number_formats import FORMATS

    rows = [
        ("sequences", number(summary.sequences)),
        ("labels", f"{summary.labelled:,} on {plural(summary.points, 'different point')}"),
        ("vocabulary", number(summary.vocabulary)),
    ]
    if summary.layout == "gates":
        rows.append(("neurons", f"{number(summary.runs)} half-spaces, values of rank {summary.rank}"))
    else:
        margin = "no label changes" if summary.margin is None else f"{number(summary.margin)} × the rounding error"
        rows += [("label runs", number(summary.runs)), ("margin at label changes", margin)]
        if summary.rank > 1:
            left = ", then ".join(map(number, summary.contested or []))
            rows.append(("value rank", f"{summary.rank}; stretches left to the next stage: {left}"))
    if not FORMATS[dtype].long or summary.layout == "gates":
        rows.append(("weights", dtype))
    rows.append(("numbers in the file", number(summary.parameters)))
    if summary.conflicts:
        rows.append(("labels overruled", number(summary.conflicts)))
    return rows


def agreement(model: Answering, sequences: Sequences, values: Array, among: Bools | None = None) -> tuple[int, int]:
    """Count the labels of the data that the answers `values` match: (right, total).

    `among` `(P,)` says which answers count; None: all.
    """
    counts = compared(model, sequences, values)
    if among is None:
        return int(counts.right.sum()), len(counts.right)
    among = among if counts.place is None else among[counts.place]
    return int((counts.right & among).sum()), int(among.sum())


class Compared(NamedTuple):
    """For each label of the data `(P,)`, whether it came back, the answer, and its token or sequence; None: all."""

    right: Bools
    answers: Array
    place: Ints | None


def compared(model: Answering, sequences: Sequences, values: Array) -> Compared:
    """Compare the answers `values` at all places with the labels of the data, which may have gaps.

    Classes are compared by name, real labels to within `tolerance`.
    """
    import numpy as np

    from monolayer.construct.target import Target

    target = Target.of(sequences, model.card.causal)
    values = values if target.place is None else values[target.place]
    if target.classes is None:
        good = np.abs(values - target.table[target.number]).max(axis=1) <= tolerance(model)
    elif target.classes == model.card.classes:
        good = values == target.number
    else:
        good = model.card.decode(values) == target.classes.decode(target.number)
    return Compared(good, values, target.place)


def tolerance(model: Answering) -> float:
    """How far a real answer may be from its label to count as right: 0, except for approximators."""
    grid = model.card.grid
    return (getattr(model, "error", None) or 0.0) + (0.0 if grid is None else grid.error)
