"""`monolayer predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolayer.cli.building import agreement, tolerance
from monolayer.cli.console import Json, Overwrite, app, check_file, err, flag, json_text, print_json, progress
from monolayer.cli.reading import PLAIN, Data, Reading, reads
from monolayer.errors import DataError
from monolayer.table import plural

if TYPE_CHECKING:
    from monolayer.cli.reading import Answering
    from monolayer.data import Sequences


@app.command()
@reads
def predict(
    folder: Annotated[Path, typer.Argument(help="A saved model.")],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="File to write to instead of standard output.")] = None,
    dense: Annotated[bool, flag("--dense", "Use the network as it stands, without the shortcut.")] = False,
    strict: Annotated[
        bool, flag("--strict", "No answer to what the model was not built from; needs memorize --fingerprint.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="For example cuda.")] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Answer for the sequences of DATA: one JSON object per line, and how many labels are right if there are labels.

    A sequence with a token that the model does not know, or has forgotten, gets an error in place of its labels.
    With --strict, every answer says whether it was seen, and is null where it was not.
    With --json, one object for all: the answers (unless --out takes them), and how many are right.
    """
    import numpy as np

    from monolayer.attaching.folder import Attached
    from monolayer.data.aside import new_file
    from monolayer.data.shards import files
    from monolayer.huggingface.manifest import is_attached
    from monolayer.model.monolayer import Monolayer
    from monolayer.stock.folder import StockModel, load

    if out is not None:
        check_file(out, overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
    if is_attached(folder):
        raise DataError(
            f"{folder} is a language model with facts attached: ask it with transformers, for example "
            f"pipeline('text-generation', {str(folder)!r})"
        )
    loaded = load(folder, device=device)
    assert not isinstance(loaded, Attached)  # as was just seen
    model: Answering = loaded
    if strict:
        if isinstance(model, StockModel):
            raise DataError(
                "--strict needs fingerprints, and a stock folder keeps none: leave --strict out; memorize-as with "
                "--unknown NAME has a class for what the data do not hold"
            )
        model.check_strict()
    facts: dict[str, Any] = {"folder": str(folder), "sequences": 0, "refused": 0}
    facts |= {"unseen": 0} if strict else {}
    answers: list[dict[str, Any]] = []
    compared: list[tuple[int, int] | str | None] = []
    with nullcontext(None if as_json else sys.stdout) if out is None else new_file(out) as file:
        for shard in files(data):  # one at a time: of many, no more than one need fit into memory
            with progress(as_json) as step:
                sequences = reading.read(shard, step, model, known=False)
                refused = _refused(model, sequences)
                if len(refused) == len(sequences) and not strict:
                    raise DataError(f"none of the sequences can be answered; of the first, {refused[0]}")
                rows: Iterator[tuple[Any, Any]] = iter(())
                if len(refused) < len(sequences):
                    asked = sequences.select(np.setdiff1d(np.arange(len(sequences)), list(refused)))
                    encoded = model.encode(asked)
                    step("answering", 0.9)
                    values: Any
                    if isinstance(model, StockModel):
                        values = model.answers(encoded) if model.draw.prompts else model.labels(encoded)
                    else:
                        values = model.labels(encoded, path="dense" if dense else "auto")
                    seen = model.known(encoded) if strict and isinstance(model, Monolayer) else None
                    rows = _rows(model, encoded, values, seen)
                    compared.append(_compared(model, asked, values, seen))
            facts["sequences"] += len(sequences)
            facts["refused"] += len(refused)
            for answer in _answers(model, sequences, rows, refused, strict):
                if strict:
                    facts["unseen"] += not np.all(answer["seen"])
                if file is None:
                    answers.append(answer)
                else:
                    file.write(json_text(answer, file) + "\n")
    facts |= {"out": str(out)} if out is not None else {"answers": answers} if as_json else {}
    counts = [found for found in compared if isinstance(found, tuple)]
    if apart := [found for found in compared if isinstance(found, str)]:
        err.print(apart[0])
    elif counts:
        right, total = (sum(column) for column in zip(*counts, strict=True))
        facts |= {"right": right, "total": total}
        within = f" to within {tolerance(model):.3g}" if model.card.classes is None and tolerance(model) else ""
        if not as_json:
            what = "answer" if model.card.prompts else "label"
            err.print(f"{right:,} of {plural(total, what)} {'is' if total == 1 else 'are'} right{within}")
    if strict:
        err.print(f"not seen: {facts['unseen']:,} of {plural(facts['sequences'], 'sequence')}")
    elif facts["refused"]:
        err.print(f"unknown tokens in {facts['refused']:,} of {plural(facts['sequences'], 'sequence')}")
    if as_json:
        print_json(facts)


def _refused(model: Answering, sequences: Sequences) -> dict[int, str]:
    """Sequences that the model cannot answer for, by number, each with the reason."""
    from monolayer.model.inputs import unanswerable
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel

    if isinstance(model, Uniform):
        return {}
    if isinstance(model, StockModel):
        return model.unanswerable(sequences)
    return unanswerable(model, sequences)


def _rows(model: Answering, encoded: Sequences, values: Any, seen: Any) -> Iterator[tuple[Any, Any]]:
    """The answer to every sequence, null where it was not `seen`, and whether it was; None: nobody asks."""
    if model.card.prompts:
        return ((text, None) for text in values)
    names = model.card.decode(values).tolist()
    flags = [None] * len(names) if seen is None else seen.tolist()
    names = [None if flag is False else name for name, flag in zip(names, flags, strict=True)]
    if model.card.per == "sequence":
        return zip(names, flags, strict=True)
    cuts = list(pairwise(encoded.offsets.tolist()))
    return ((names[start:end], flags[start:end]) for start, end in cuts)


def _answers(
    model: Answering, sequences: Sequences, rows: Iterator[tuple[Any, Any]], refused: dict[int, str], strict: bool
) -> Iterator[dict[str, Any]]:
    """Tokens and answers of every sequence; of those that are `refused` the reason."""
    if model.card.prompts:
        for number in range(len(sequences)):
            answered = {"error": refused[number]} if number in refused else {"answer": next(rows)[0]}
            yield {"prompt": sequences.texts(number)[0], **answered}
        return
    shown = sequences.tokens if sequences.vocabulary is None else sequences.vocabulary.decode(sequences.tokens)
    key = "label" if model.card.per == "sequence" else "labels"
    for number, words in enumerate(sequences.split(shown)):
        answer: dict[str, Any] = {"tokens": words.tolist()}
        if number in refused:
            yield {**answer, **({key: None, "seen": False} if strict else {}), "error": refused[number]}
            continue
        said, seen = next(rows)
        yield {**answer, key: said, **({"seen": seen} if strict else {})}


def _compared(model: Answering, sequences: Sequences, values: Any, seen: Any) -> tuple[int, int] | str | None:
    """How many labels of the data are right, of how many; why they are not compared; None if there are none."""
    if model.card.prompts:
        pairs = [(sequences.texts(row)[1], said) for row, said in enumerate(values)]
        asked = [wanted == said for wanted, said in pairs if wanted]
        return (sum(asked), len(asked)) if asked else None
    if sequences.labels is None:
        return None
    if getattr(model, "error", 0.0) is None:
        return "the network has no bound on its error (approximate with --lipschitz): labels are not compared"
    theirs, ours = sequences.labels, model.card.labels(values)
    if (theirs.per, theirs.values.shape[1:]) != (ours.per, ours.values.shape[1:]):  # classes have no second axis
        return "the labels of the data are of another kind than the model's answers: they are not compared"
    return agreement(model, sequences, values, seen)
