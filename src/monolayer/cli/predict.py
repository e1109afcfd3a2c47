"""`monolayer predict`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.answers import agreement, tolerance
from monolayer.cli.console import (
    Json,
    app,
    err,
    json_text,
    print_json,
    progress,
)
from monolayer.cli.files import check_device, check_file, output
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.table import plural

if TYPE_CHECKING:
    from monolayer.cli.uniform import Answering
    from monolayer.data import Labels, Sequences


@app.command()
@reads
def predict(
    folder: Annotated[Path, typer.Argument(help="A saved model.")],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="File to write to instead of standard output.")] = None,
    dense: Annotated[bool, typer.Option("--dense", help="Use the network as it stands, without the shortcut.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what the model was not built from; needs memorize --fingerprint.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="For example cuda.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")] = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Answer for the sequences of DATA: one JSON object per line, and how many labels are right if there are labels.

    A sequence with a token that the model does not know, or has forgotten, gets an error in place of its labels.
    With --json, one object for all: the answers (unless --out takes them), and how many are right.
    """
    import numpy as np

    from monolayer.data.shards import files
    from monolayer.errors import DataError
    from monolayer.huggingface.reading import is_stock
    from monolayer.model.mapped import load_mapped
    from monolayer.stock.folder import StockModel
    from monolayer.stock.load import load

    check_device(device)
    if out is not None:
        check_file(out, overwrite)
    # A readout in several files stays there: it may be larger than memory.
    model: Answering | None = None if dense or device is not None or is_stock(folder) else load_mapped(folder)
    model = model or load(folder, device=device)
    if strict and isinstance(model, StockModel):
        raise DataError("--strict needs fingerprints, and a stock folder keeps none: leave --strict out")
    facts: dict[str, Any] = {"folder": str(folder), "sequences": 0, "refused": 0}
    answers: list[dict[str, Any]] = []
    compared: list[tuple[int, int] | str | None] = []
    with nullcontext() if as_json and out is None else output(out, overwrite) as file:
        for shard in files(data):  # one at a time: of many, no more than one need fit into memory
            with progress(as_json) as step:
                sequences = reading.read(shard, step, model, known=strict)
                refused = {} if strict else _refused(model, sequences)
                if refused and len(refused) < len(sequences):
                    rest = np.setdiff1d(np.arange(len(sequences)), list(refused))
                    encoded = model.encode(asked := sequences.select(rest))
                else:  # where no sequence can be answered, this is the error
                    encoded = model.encode(asked := sequences)
                if strict and not isinstance(model, StockModel):
                    model.check_seen(encoded)
                step("answering", 0.9)
                values: Any
                if isinstance(model, StockModel):
                    values = model.labels(encoded)
                else:
                    values = model.labels(encoded, path="dense" if dense else "auto")
            facts["sequences"] += len(sequences)
            facts["refused"] += len(refused)
            for answer in _answers(model, sequences, encoded, values, refused):
                if file is None:
                    answers.append(answer)
                else:
                    file.write(json_text(answer, file) + "\n")
            compared.append(_compared(model, asked, values))
    facts |= {"answers": answers} if as_json and out is None else {}
    facts |= {} if out is None else {"out": str(out)}
    apart = next((found for found in compared if isinstance(found, str)), None)
    counts = [found for found in compared if isinstance(found, tuple)]
    if apart is not None:
        err.print(apart)
    elif counts:
        right, total = (sum(column) for column in zip(*counts, strict=True))
        facts |= {"right": right, "total": total}
        within = f" to within {tolerance(model):.3g}" if model.card.classes is None and tolerance(model) else ""
        if not as_json:
            err.print(f"{right:,} of {plural(total, 'label')} {'is' if total == 1 else 'are'} right{within}")
    if facts["refused"]:
        err.print(f"unknown tokens in {facts['refused']:,} of {plural(facts['sequences'], 'sequence')}")
    if as_json:
        print_json(facts)


def _refused(model: Answering, sequences: Sequences) -> dict[int, str]:
    """Sequences that the model cannot answer for, by number, each with the reason."""
    from monolayer.model.inputs import unanswerable
    from monolayer.model.mapped import Mapped
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel

    if isinstance(model, Uniform):
        return {}
    if isinstance(model, StockModel):
        return model.unanswerable(sequences)
    return unanswerable(model.frame if isinstance(model, Mapped) else model, sequences)


def _answers(
    model: Answering, sequences: Sequences, encoded: Sequences, values: Any, refused: dict[int, str]
) -> Iterator[dict[str, Any]]:
    """Tokens and answers of every sequence; of those that are `refused` the reason."""
    names = model.card.decode(values)
    shown = sequences.tokens if sequences.vocabulary is None else sequences.vocabulary.decode(sequences.tokens)
    key = "label" if model.card.per == "sequence" else "labels"
    rows = iter(names if model.card.per == "sequence" else encoded.split(names))
    for number, words in enumerate(sequences.split(shown)):
        if number in refused:
            yield {"tokens": words.tolist(), "error": refused[number]}
            continue
        answer = next(rows)
        yield {"tokens": words.tolist(), key: answer.tolist() if hasattr(answer, "tolist") else answer}


def _compared(model: Answering, sequences: Sequences, values: Any) -> tuple[int, int] | str | None:
    """How many labels of the data are right, of how many; why they are not compared; None if there are none."""
    if sequences.labels is None:
        return None
    if getattr(model, "error", 0.0) is None:
        return "the network has no bound on its error (approximate with --lipschitz): labels are not compared"
    theirs, ours = _kind(sequences.labels), _kind(model.card.labels(values))
    if theirs != ours:
        return f"the labels of the data are {theirs}; the model answers with {ours}: they are not compared"
    return agreement(model, sequences, values)


def _kind(labels: Labels) -> str:
    """What can be compared, in words."""
    if labels.classes is not None:
        return f"classes, one per {labels.per}"
    size = labels.values.shape[1]
    what = "real numbers" if size == 1 else f"vectors of {size} numbers"
    return f"{what}, one per {labels.per}"
