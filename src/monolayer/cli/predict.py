"""`monolayer predict`: ask a saved model, and compare its answers with the labels in the data."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import typer

from monolayer.cli.building import agreement, tolerance
from monolayer.cli.console import Json, Overwrite, app, check_file, err, flag, json_text, output, print_json, progress
from monolayer.cli.reading import PLAIN, MaybeData, ModelFolder, Reading, reads, sequences_of_texts
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError
from monolayer.table import Progress, plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from monolayer.arrays import Bools
    from monolayer.cli.reading import Answering
    from monolayer.data import Sequences
    from monolayer.data.plain import Given

    Answers: TypeAlias = "NDArray[np.generic] | list[str | None]"  # label values, or texts after prompts


@app.command()
@reads
def predict(
    folder: ModelFolder,
    data: MaybeData = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A sequence, key or prompt to answer; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None, output("File to write to instead of standard output: CSV if it ends in .csv, else JSON Lines.")
    ] = None,
    dense: Annotated[bool, flag("--dense", "Run the whole network, without the shortcut.")] = False,
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "Give no answer for inputs that were not memorized; needs memorize --fingerprint, or an attached folder.",
        ),
    ] = False,
    device: Annotated[str | None, typer.Option(help="Device to run on, for example cuda.")] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Answer the sequences of DATA: prints one JSON object per line and, if DATA has labels, how many are right.

    Instead of DATA, pass --text, or use `monolayer predict MODEL - --format text` to answer each line of standard
    input. A CSV file has one row per sequence: its key as it was given, and the answer or the error.
    A sequence with a token that the model does not know, or has forgotten, gets an error in place of its labels.
    With --strict, every answer says whether it was seen, and is null where it was not.
    A language model with facts attached continues each prompt up to its end token, using generate if transformers is
    installed; --strict then marks the prompts that have no stored fact.
    With --json, prints one object: the answers (unless --out takes them), and how many are right.
    """
    from monolayer.data.aside import new_file
    from monolayer.data.shards import files
    from monolayer.stock.folder import load

    if bool(data) == bool(text):
        raise DataError("say what to answer in exactly one way: DATA, or --text")
    if out is not None:
        check_file(out, overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
    model = load(folder, device=device)
    asking = _asking(model, dense=dense, strict=strict, device=device)
    totals, comparisons, kept = _Totals(), list[_Comparison](), list[JsonObject]()
    table = out is not None and out.suffix.lower() == ".csv"
    with nullcontext(None if as_json else sys.stdout) if out is None else new_file(out) as file:
        rows = csv.writer(file, lineterminator="\n") if table and file is not None else None
        if rows is not None:
            rows.writerow(["key", "answer", *(["seen"] if strict else []), "error"])
        for shard in files(data) if data else [""]:  # one at a time: of many, no more than one need fit into memory
            keys: list[Given] | None = [] if table else None
            with progress(as_json) as step:
                if text:
                    sequences, keys = sequences_of_texts(model, text, reading), [*text]
                else:
                    sequences = reading.read(shard, step, model, known=False, keys=keys)
                answered = _ask(model, asking, sequences, step, strict)
            given = iter(keys or ())
            totals.sequences += len(sequences)
            totals.refused += len(answered.refused)
            if answered.compared is not None:
                comparisons.append(answered.compared)
            for answer in _json_answers(model, sequences, answered, strict):
                if strict:
                    seen = answer["seen"]
                    totals.unseen += not (all(seen) if isinstance(seen, list) else seen)
                if rows is not None:
                    rows.writerow(_csv_row(answer, next(given, None), strict))
                elif file is None:
                    kept.append(answer)
                else:
                    file.write(json_text(answer, file) + "\n")
    counts = _sum(comparisons)
    _tell(model, totals, counts, strict=strict, as_json=as_json)
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "sequences": totals.sequences,
                "refused": totals.refused,
                **({"unseen": totals.unseen} if strict else {}),
                **({"answers": kept} if out is None else {"out": str(out)}),
                **({"right": counts.right, "total": counts.total} if counts and not counts.why_not else {}),
            }
        )


# -- asking --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asking:
    """How a kind of model is asked, so that its kind is looked at once."""

    refused: Callable[[Sequences], dict[int, str]]
    """Sequences that the model cannot answer, by number, each with the reason."""
    values: Callable[[Sequences], Answers]
    """The answers to encoded sequences, flat: label values, or the text after each prompt."""
    seen: Callable[[Sequences], Bools] | None
    """Which answers of encoded sequences were memorized; None: nobody asks."""


def _asking(model: Answering, *, dense: bool, strict: bool, device: str | None) -> _Asking:
    """How to ask this model; an error if --strict asks for fingerprints that it does not have."""
    from monolayer.attaching.folder import Attached
    from monolayer.model.inputs import unanswerable
    from monolayer.model.uniform import Uniform
    from monolayer.stock.folder import StockModel

    path: Literal["dense", "auto"] = "dense" if dense else "auto"
    if isinstance(model, Attached):
        return _Asking(model.unanswerable, partial(model.answers, device=device), model.known if strict else None)
    if isinstance(model, StockModel):
        if strict:
            raise DataError(
                "--strict needs fingerprints, and a stock folder keeps none: leave --strict out; memorize-as with "
                "--unknown NAME has a class for what the data do not hold"
            )
        return _Asking(model.unanswerable, model.answers if model.draw.prompts else model.labels, None)
    if strict:
        model.check_strict()
    if isinstance(model, Uniform):
        return _Asking(lambda _: {}, partial(model.labels, path=path), None)
    return _Asking(partial(unanswerable, model), partial(model.labels, path=path), model.known if strict else None)


class _Answer(NamedTuple):
    """The answer to one sequence: a label, a list of labels, or a text; and whether it was seen (None: unknown)."""

    said: object
    seen: object


class _Answered(NamedTuple):
    """What the model made of one file: an answer per sequence that is not `refused`, in order."""

    refused: dict[int, str]
    answers: Iterator[_Answer]
    compared: _Comparison | None


def _ask(model: Answering, asking: _Asking, sequences: Sequences, step: Progress, strict: bool) -> _Answered:
    """Ask the model for every sequence that it can answer; an error if there is none, unless `strict`."""
    import numpy as np

    refused = asking.refused(sequences)
    if len(refused) == len(sequences):
        if strict:
            return _Answered(refused, iter(()), None)
        raise DataError(f"none of the sequences can be answered. The first, {sequences.named(0)}: {refused[0]}")
    asked = sequences.select(np.setdiff1d(np.arange(len(sequences)), list(refused)))
    encoded = model.encode(asked)
    step("answering", 0.9)
    values = asking.values(encoded)
    seen = None if asking.seen is None else asking.seen(encoded)
    return _Answered(
        refused, _answer_per_sequence(model, encoded, values, seen), _compare_labels(model, asked, values, seen)
    )


def _answer_per_sequence(
    model: Answering, encoded: Sequences, values: Answers, seen: Bools | None
) -> Iterator[_Answer]:
    """The answer to every sequence: null where it was not `seen`."""
    if isinstance(values, list):
        known = [None] * len(values) if seen is None else seen.tolist()
        return (_Answer(None if flag is False else text, flag) for text, flag in zip(values, known, strict=True))
    names = model.card.decode(values).tolist()
    flags = [None] * len(names) if seen is None else seen.tolist()
    names = [None if flag is False else name for name, flag in zip(names, flags, strict=True)]
    if model.card.per == "sequence":
        return map(_Answer, names, flags)
    cuts = list(pairwise(encoded.offsets.tolist()))
    return (_Answer(names[start:end], flags[start:end]) for start, end in cuts)


def _csv_row(answer: JsonObject, given: Given, strict: bool) -> list[object]:
    """A row of the CSV file; `given`: the key as it was given, None if the tokens are all there is. Lists are JSON."""
    given = answer.get("tokens", answer.get("prompt")) if given is None else given
    said = answer.get("answer", answer.get("label", answer.get("labels")))
    seen = [json.dumps(answer["seen"])] if strict else []
    cells = [given, said, *seen, answer.get("error")]
    return [json.dumps(cell, ensure_ascii=False) if isinstance(cell, list | dict) else cell for cell in cells]


def _json_answers(model: Answering, sequences: Sequences, answered: _Answered, strict: bool) -> Iterator[JsonObject]:
    """One JSON object per sequence: its tokens and the answer, or the reason why it is refused."""
    refused, answers = answered.refused, answered.answers
    if model.card.prompts:
        for number in range(len(sequences)):
            prompt: JsonObject = {"prompt": sequences.texts(number)[0]}
            if number in refused:
                yield {**prompt, **({"answer": None, "seen": False} if strict else {}), "error": refused[number]}
                continue
            said = next(answers)
            yield {**prompt, "answer": said.said, **({"seen": said.seen} if strict else {})}
        return
    shown = sequences.tokens if sequences.vocabulary is None else sequences.vocabulary.decode(sequences.tokens)
    key = "label" if model.card.per == "sequence" else "labels"
    for number, words in enumerate(sequences.split(shown)):
        tokens: JsonObject = {"tokens": words.tolist()}
        if number in refused:
            yield {**tokens, **({key: None, "seen": False} if strict else {}), "error": refused[number]}
            continue
        answer = next(answers)
        yield {**tokens, key: answer.said, **({"seen": answer.seen} if strict else {})}


# -- comparing with labels in the data -----------------------------------------------------------------


@dataclass
class _Totals:
    """Counts over all files."""

    sequences: int = 0
    refused: int = 0
    unseen: int = 0


class _Comparison(NamedTuple):
    """How many of the labels in the data the model gives, or why they were not compared."""

    right: int
    total: int
    why_not: str = ""


def _compare_labels(model: Answering, sequences: Sequences, values: Answers, seen: Bools | None) -> _Comparison | None:
    """Compare answers with the labels in the data; None if the data have none."""
    if isinstance(values, list):
        wanted = [sequences.texts(row)[1] for row in range(len(sequences))]
        known = [True] * len(values) if seen is None else seen.tolist()
        rows = zip(wanted, values, known, strict=True)
        right = [answer == said for answer, said, among in rows if answer and among]
        return _Comparison(sum(right), len(right)) if right else None
    if sequences.labels is None:
        return None
    if getattr(model, "error", 0.0) is None:
        why_not = "the network has no bound on its error (approximate with --lipschitz): labels are not compared"
        return _Comparison(0, 0, why_not)
    theirs, ours = sequences.labels, model.card.labels(values)
    if (theirs.per, theirs.values.shape[1:]) != (ours.per, ours.values.shape[1:]):  # classes have no second axis
        why_not = "the labels of the data are of another kind than the model's answers: they are not compared"
        return _Comparison(0, 0, why_not)
    return _Comparison(*agreement(model, sequences, values, seen))


def _sum(comparisons: list[_Comparison]) -> _Comparison | None:
    """The counts of all files together, or the first reason not to compare; None if no file has labels."""
    if not comparisons:
        return None
    why_not = next((each.why_not for each in comparisons if each.why_not), "")
    return _Comparison(sum(each.right for each in comparisons), sum(each.total for each in comparisons), why_not)


def _tell(model: Answering, totals: _Totals, counts: _Comparison | None, *, strict: bool, as_json: bool) -> None:
    """Print on standard error how many labels are right, and how many sequences were unseen or refused."""
    if counts is not None and counts.why_not:
        err.print(counts.why_not)
    elif counts is not None and not as_json:
        real = model.card.classes is None
        within = f" to within {tolerance(model):.3g}" if real and tolerance(model) else ""
        what = plural(counts.total, "answer" if model.card.prompts else "label")
        err.print(f"{counts.right:,} of {what} {'is' if counts.total == 1 else 'are'} right{within}")
    if strict:
        err.print(f"not seen: {totals.unseen:,} of {plural(totals.sequences, 'sequence')}")
    elif totals.refused:
        err.print(f"unknown tokens in {totals.refused:,} of {plural(totals.sequences, 'sequence')}")
