"""`monolayer predict`: ask a saved model, and compare its answers with the labels in the data."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from monolayer.cli.answers import AnswerFile, check_answer_file
from monolayer.cli.building import agreement, tolerance
from monolayer.cli.console import Json, Overwrite, app, check_file, err, flag, output, print_json, progress
from monolayer.cli.reading import PLAIN, MaybeData, ModelFolder, Reading, reads, sequences_of_texts
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError
from monolayer.table import Progress, plural, quoted

if TYPE_CHECKING:
    from monolayer.arrays import Bools, Ints
    from monolayer.cli.reading import Answering
    from monolayer.data import Sequences
    from monolayer.data.plain import Given
    from monolayer.saved.asking import Answers, Asking, Wanted


@app.command()
@reads
def predict(
    folder: ModelFolder,
    data: MaybeData = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A sequence, key or prompt to answer; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None, output("File to write to instead of standard output: .csv, .tsv, .json or .jsonl.")
    ] = None,
    dense: Annotated[bool, flag("--dense", "Run the whole network, without the shortcut.")] = False,
    strict: Annotated[
        bool | None,
        flag(
            "--strict/--no-strict",
            "Give no answer for inputs that were not memorized, and mark every answer with whether it was seen. A "
            "model of keys and values gives none by default; --no-strict makes it answer, which is meaningless.",
        ),
    ] = None,
    unknown: Annotated[
        str | None, typer.Option(help="What to write, in place of null, for inputs that were not memorized.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Device to run on, for example cuda.")] = None,
    overwrite: Overwrite = False,
    reading: Reading = PLAIN,
    as_json: Json = False,
) -> None:
    """Answer the sequences of DATA: prints one JSON object per line and, if DATA has labels, how many are right.

    Instead of DATA, pass --text, or use `monolayer predict MODEL - --format text` to answer each line of standard
    input. A CSV or TSV file has one row per sequence: its key as it was given, and the answer or the error.
    A sequence with a token that the model does not know, or has forgotten, gets null and the reason; so does a key that
    is not in the table of a model of keys and values. If no sequence can be answered, that is an error, unless --strict
    or --unknown is given. With --strict, every answer says whether it was seen.
    A language model with facts attached continues each prompt up to its end token, using generate if transformers is
    installed; --strict then marks the prompts that have no stored fact.
    With --json, prints one object: the answers (unless --out takes them), and how many are right.
    """
    from monolayer.data.aside import new_file
    from monolayer.data.shards import files
    from monolayer.saved.asking import Wanted
    from monolayer.saved.kinds import open_model

    _check_asked(data, text)
    if out is not None:
        check_answer_file(out)
        check_file(out, overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
    saved = open_model(folder)
    wanted = Wanted(strict, unknown, dense, device)
    few = bool(text) and device is None and not dense
    model: Answering = saved.light(wanted) if few else saved.load(device)
    asking = saved.asking(model, wanted)
    with nullcontext(None if as_json else sys.stdout) if out is None else new_file(out) as file:
        answers = _AllAnswers(model, wanted, None if file is None else AnswerFile(out, file, wanted.marks))
        for shard in files(data) if data else [""]:  # one at a time: of many, no more than one need fit into memory
            keys: list[Given] | None = [] if answers.keyed else None
            with progress(as_json) as step:
                if text:
                    sequences, keys = sequences_of_texts(model, text, reading), [*text]
                else:
                    sequences = reading.read(shard, step, model, known=False, keys=keys)
                answered = _ask(model, asking, sequences, step, wanted)
            answers.add(sequences, answered, keys)
        answers.end()
    counts = _sum(answers.comparisons)
    _tell(model, answers.totals, counts, wanted, as_json=as_json)
    if as_json:
        print_json({"folder": str(folder), **answers.json(out, counts, unseen=asking.seen is not None)})


def _check_asked(data: list[str] | None, text: list[str] | None) -> None:
    """Refuse both ways of asking at once, neither of them, and a text in place of a file."""
    from monolayer.data.shards import names_files

    if bool(data) == bool(text):
        raise DataError("say what to answer in exactly one way: DATA, or --text")
    for name in data or ():
        if not names_files(name):
            raise DataError(
                f"there is no file {quoted(name)}: check the path. To ask for this text: --text {shlex.quote(name)}"
            )


# -- asking --------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """The answer to one sequence: a label, a list of labels, or a text; and whether it was seen (None: unknown)."""

    said: object
    seen: object

    @property
    def unseen(self) -> bool:
        """Whether the answer, or one of a list of them, was not seen."""
        return False in self.seen if isinstance(self.seen, list) else self.seen is False


class _Answered(NamedTuple):
    """The answers to one file.

    `refused`: the sequences that are not answered, by number, each with the reason. `answers`: one for every sequence
    that the network can answer, in order, those that were not seen among them; `answerable`: their numbers. `notes`:
    what to tell about some sequences, by number.
    """

    refused: dict[int, str]
    answers: list[_Answer]
    answerable: Ints
    compared: _Comparison | None
    notes: dict[int, str]


NOT_STORED = "not in the data that the model was built from"
MOST_HINTS = 5
"""How many errors about keys that are not stored suggest one that is: finding it takes as long as many answers."""


def _ask(model: Answering, asking: Asking, sequences: Sequences, step: Progress, wanted: Wanted) -> _Answered:
    """Ask the model for every sequence that it can answer; an error if none is answered, unless that is `wanted`."""
    import numpy as np

    refused = asking.refused(sequences)
    rows = np.delete(np.arange(len(sequences)), list(refused))
    answers, compared = list[_Answer](), None
    if len(rows):
        asked = sequences.select(rows)
        encoded = model.encode(asked)
        step("answering", 0.9)
        values = asking.values(encoded)
        seen = None if asking.seen is None else asking.seen(encoded, values)
        answers = list(_answer_per_sequence(model, encoded, values, seen, wanted.unknown))
        compared = _compare_labels(model, asked, values, seen)
        unseen = [row for row, answer in zip(rows.tolist(), answers, strict=True) if answer.unseen]
        for number, row in enumerate(unseen):
            near = asking.nearest(sequences, row) if number < MOST_HINTS else None
            refused[row] = NOT_STORED + ("" if near is None else f"; did you mean {quoted(near)}?")
    if len(refused) == len(sequences) and not wanted.told and not any(_partly_seen(answer) for answer in answers):
        raise DataError(f"none of the sequences can be answered. The first, {sequences.named(0)}: {refused[0]}")
    return _Answered(refused, answers, rows, compared, asking.notes(sequences))


def _partly_seen(answer: _Answer) -> bool:
    """Whether some of the labels of a sequence are answered although others are not."""
    return isinstance(answer.seen, list) and any(answer.seen)


def _answer_per_sequence(
    model: Answering, encoded: Sequences, values: Answers, seen: Bools | None, unknown: str | None
) -> Iterator[_Answer]:
    """The answer to every sequence: `unknown` where it was not `seen`."""
    if isinstance(values, list):
        known = [None] * len(values) if seen is None else seen.tolist()
        return (_Answer(unknown if flag is False else text, flag) for text, flag in zip(values, known, strict=True))
    names = model.card.decode(values).tolist()
    flags = [None] * len(names) if seen is None else seen.tolist()
    names = [unknown if flag is False else name for name, flag in zip(names, flags, strict=True)]
    if not model.card.labelling.at_tokens:
        return map(_Answer, names, flags)
    cuts = list(pairwise(encoded.offsets.tolist()))
    return (_Answer(names[start:end], flags[start:end]) for start, end in cuts)


def _json_answers(model: Answering, sequences: Sequences, answered: _Answered, wanted: Wanted) -> Iterator[JsonObject]:
    """One JSON object per sequence: its tokens and the answer; where it is refused, null and the reason."""
    key, shown = _shown(model, sequences)
    answers = dict(zip(answered.answerable.tolist(), answered.answers, strict=True))
    for number, words in enumerate(shown):
        answer = answers.get(number, _Answer(wanted.unknown, False))
        shown_answer: JsonObject = {**words, key: answer.said}
        if wanted.marks:
            shown_answer["seen"] = answer.seen
        if number in answered.refused:
            shown_answer["error"] = answered.refused[number]
        if number in answered.notes:
            shown_answer["note"] = answered.notes[number]
        yield shown_answer


def _shown(model: Answering, sequences: Sequences) -> tuple[str, Iterator[JsonObject]]:
    """The JSON key of an answer, and for every sequence an object with its tokens or its prompt."""
    if model.card.prompts:
        return "answer", ({"prompt": sequences.texts(number)[0]} for number in range(len(sequences)))
    shown = sequences.tokens if sequences.vocabulary is None else sequences.vocabulary.decode(sequences.tokens)
    key = "labels" if model.card.labelling.at_tokens else "label"
    return key, ({"tokens": words.tolist()} for words in sequences.split(shown))


# -- comparing with labels in the data -----------------------------------------------------------------


@dataclass
class _Totals:
    """Counts over all files."""

    sequences: int = 0
    refused: int = 0
    unseen: int = 0
    noted: int = 0

    def add(self, sequences: int, answered: _Answered) -> None:
        """Count what a file with so many sequences gave."""
        self.sequences += sequences
        self.refused += sequences - len(answered.answerable)
        self.unseen += len(answered.refused)
        self.noted += len(answered.notes)


class _Comparison(NamedTuple):
    """How many of the labels in the data the model gives, or why they were not compared."""

    right: int
    total: int
    why_not: str = ""


@dataclass
class _AllAnswers:
    """The answers about all files: each is written where a file takes it, kept where none does, and counted."""

    model: Answering
    wanted: Wanted
    file: AnswerFile | None
    totals: _Totals = field(default_factory=_Totals)
    comparisons: list[_Comparison] = field(default_factory=list)
    kept: list[JsonObject] = field(default_factory=list)

    @property
    def keyed(self) -> bool:
        """Whether a table is written, which holds the keys as they were given."""
        return self.file is not None and self.file.keyed

    def add(self, sequences: Sequences, answered: _Answered, keys: list[Given] | None) -> None:
        """Take the answers about one file."""
        given = iter(keys or ())
        self.totals.add(len(sequences), answered)
        if answered.compared is not None:
            self.comparisons.append(answered.compared)
        for answer in _json_answers(self.model, sequences, answered, self.wanted):
            if self.file is None:
                self.kept.append(answer)
            else:
                self.file.write(answer, next(given, None))

    def end(self) -> None:
        """Write what belongs behind the last answer."""
        if self.file is not None:
            self.file.end()

    def json(self, out: Path | None, counts: _Comparison | None, *, unseen: bool) -> JsonObject:
        """What --json prints: the answers, or the file `out` that took them, and the counts."""
        return {
            "sequences": self.totals.sequences,
            "refused": self.totals.refused,
            **({"unseen": self.totals.unseen} if unseen else {}),
            **({"answers": self.kept} if out is None else {"out": str(out)}),
            **({"right": counts.right, "total": counts.total} if counts and not counts.why_not else {}),
        }


def _compare_labels(model: Answering, sequences: Sequences, values: Answers, seen: Bools | None) -> _Comparison | None:
    """Compare answers with the labels in the data; None if the data have none."""
    if isinstance(values, list):
        wanted = [sequences.texts(row)[1] for row in range(len(sequences))]
        known = [True] * len(values) if seen is None else seen.tolist()
        rows = zip(wanted, values, known, strict=True)
        right = [answer == reply for answer, reply, among in rows if answer and among]
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


def _tell(model: Answering, totals: _Totals, counts: _Comparison | None, wanted: Wanted, *, as_json: bool) -> None:
    """Print on standard error how many labels are right, and how many sequences were unseen or refused."""
    if counts is not None and counts.why_not:
        err.print(counts.why_not)
    elif counts is not None and not as_json:
        real = model.card.classes is None
        within = f" to within {tolerance(model):.3g}" if real and tolerance(model) else ""
        what = plural(counts.total, "answer" if model.card.prompts else "label")
        err.print(f"{counts.right:,} of {what} {'is' if counts.total == 1 else 'are'} right{within}")
    if totals.noted:
        few = "prompt ends" if totals.noted == 1 else "prompts end"
        err.print(
            f"{totals.noted:,} {few} with a stored prompt, but {'is' if totals.noted == 1 else 'are'} another text"
        )
    if wanted.marks or totals.unseen > totals.refused:
        err.print(f"not seen: {totals.unseen:,} of {plural(totals.sequences, 'sequence')}")
    elif totals.refused:
        err.print(f"unknown tokens in {totals.refused:,} of {plural(totals.sequences, 'sequence')}")
