"""From a dataset to a folder that transformers load: the construction in a stock architecture, a line per lemma."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch

from monolayer.arrays import Ints, dtype_name
from monolayer.bar import reporting, shows_progress
from monolayer.construct.consistency import OnConflict, check_conflict
from monolayer.construct.line.draw import check_seed
from monolayer.data import Labels, Names, Sequences
from monolayer.data.choices import Belongs, Unit
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.number_formats import FLOAT64
from monolayer.data.readers import sequences_of
from monolayer.data.shapes import pairs_or_sequences
from monolayer.errors import DataError
from monolayer.huggingface.architectures import architecture_named
from monolayer.huggingface.stock_kind import StockKind
from monolayer.model.torch_settings import own_settings
from monolayer.stock.assemble import check_confidence
from monolayer.stock.draw import Storage
from monolayer.stock.folder import StockModel
from monolayer.stock.labelled import StockOptions, StockTask, stock_task, token_names, unknown_class, with_unknown
from monolayer.stock.robust import CellDtype, check_options, robust_model, robust_model_again
from monolayer.stock.steps import steps_model
from monolayer.table import Progress


@shows_progress
@own_settings()
def memorize_as(
    architecture: str,
    X: Any,
    Y: Any = None,
    *,
    lengths: Any = None,
    per: Belongs | None = None,
    unit: Unit | None = None,
    tokens: str | None = None,
    labels: str | None = None,
    positions: bool = False,
    storage: Storage | None = None,
    rank: int | None = None,
    dtype: CellDtype | torch.dtype | None = None,
    confidence: float | None = None,
    unknown: str | int | bool | None = None,
    seed: int | None = None,
    on_conflict: OnConflict = "error",
    draw: StockModel | str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
) -> StockModel:
    """The data memorized by an unmodified Hugging Face architecture: `save` writes a folder for `from_pretrained`.

    The data:

    - `architecture`: bert, roberta or distilbert, for labels of tokens or of sequences; gpt2, gpt_neox, starcoder2 or
      llama, for these labels or, without `Y`, for the next token up to the end of each sequence; opt, for labels of
      sequences or the next token.
    - `X`: sequences of ids or strings, as for `memorize`. In architectures that generate, a list of strings with a list
      of strings, or a table of both, is read as prompts and answers: `generate` continues a prompt with its answer, and
      stops.
    - `Y`: classes, or answers to prompts.
    - `per`: as for `memorize`; `sequence` makes each answer a label.
    - `lengths`, `unit`, `tokens`, `labels`, `positions`, `on_conflict`: as for `memorize`.

    The model:

    - `storage`: `cells`, the default, are half-spaces with margins (docs/robust.md), for float32 and shorter formats.
      `steps` are the steps of a line, of rank 1, for weights and arithmetic in float64 only; they hold more sequences,
      and longer ones. llama takes cells only.
    - `rank`: of the values of cells, by default what the data need: 32, 64 or 128.
    - `dtype`: of cells, `float32` (the default), `bfloat16` or `float16`. In a short format every fact is evaluated in
      its arithmetic, and facts that it loses are an error.
    - `confidence`: the head is the least power of two for which the median probability of the right label is at least
      this; by default 0.99, which is what trained models show. It changes no answer.
    - `unknown`: the name of a class that answers whatever the data do not hold; with cells only. Every fact then has a
      neuron that fires close to it, and where no neuron fires, this class is the answer. The data may have rows with
      this label. By default, keys and values (dicts, pairs, tables of two columns) have such a class, called `unknown`
      or, among integers, −1, or what comes next if the data use that; False leaves it out, and True adds it to other
      data.
    - `seed`: of the random draw, by default 0.
    - `draw`: a stock model, or its folder, whose names, keys, codes and options are reused; the same data then give the
      same bits.
    - `progress`: True shows a bar on standard error; a function is called with the name of each stage and the share of
      the work that is done.

    Example:

        >>> stock = ml.memorize_as("bert", {"France": "Paris", "Japan": "Tokyo"})
        >>> print(stock.predict(["Japan"]))
        ['Tokyo']
        >>> folder = stock.save("capitals-bert")
    """
    report = reporting(progress)
    kind = architecture_named(architecture)
    check_conflict(on_conflict)
    reading: dict[str, Any] = {"lengths": lengths, "per": per, "unit": unit, "tokens": tokens, "labels": labels}
    if draw is not None:
        options = {"positions": positions, "storage": storage, "rank": rank, "dtype": dtype}
        check_settled({**options, "confidence": confidence, "unknown": unknown is not None, "seed": seed})
        known = _drawn(draw, kind)
        report("reading the data", 0.0)
        labelled = known.card.prompts or not known.card.next_token
        data = sequences_of(X, Y, **reading, like=known.card.manner, labelled=labelled)
        model = memorize_again(known, data, on_conflict=on_conflict, report=report)
    else:
        storing = Storing.of(storage, rank, dtype, confidence, seed)
        report("reading the data", 0.0)
        data, names = _data(kind, X, Y, reading)
        named = unknown_class(data, unknown, storing.storage)
        data, number = (data, None) if named is None else with_unknown(data, named)
        job = stock_task(kind, data, names, StockOptions(positions, storing.storage, on_conflict, unknown=number))
        model = storing.build(job, report)
    form = SourceForm.of(data.plans) or model.draw.form
    report("done", 1.0)
    return replace(model, draw=replace(model.draw, form=form))


@dataclass(frozen=True)
class Storing:
    """How labels are stored in a stock architecture, checked once: in cells of a rank and a format, or in steps."""

    storage: Storage
    rank: int | None
    dtype: str | None
    confidence: float
    seed: int

    @classmethod
    def of(cls, storage: Storage | None, rank: int | None, dtype: Any, confidence: float | None, seed: Any) -> Storing:
        """The options of a caller; None stands for the default."""
        storage = storage or "cells"
        if storage not in get_args(Storage):
            raise DataError(f"storage must be 'cells' or 'steps', not {storage!r}")
        form = dtype_name(dtype)
        if storage == "cells":
            check_options(rank, form)
        elif rank is not None or form not in (None, FLOAT64.name):
            raise DataError("storage='steps' is rank 1 in float64: leave rank and dtype out, or take storage='cells'")
        seed = 0 if seed is None else seed
        check_seed(seed)
        return cls(storage, rank, form, check_confidence(confidence), seed)

    def build(self, job: StockTask, report: Progress) -> StockModel:
        """The model of a task."""
        if self.storage == "steps":
            return steps_model(job, report, seed=self.seed, confidence=self.confidence)
        dtype = self.dtype or "float32"
        return robust_model(job, dtype, report, rank=self.rank, seed=self.seed, confidence=self.confidence)


def _drawn(draw: StockModel | str | os.PathLike[str], kind: StockKind) -> StockModel:
    """The model whose draw is used again; one of another architecture is an error."""
    known = draw if isinstance(draw, StockModel) else StockModel.load(draw)
    if known.architecture != kind.name:
        raise DataError(f"the draw is that of a {known.architecture}: memorize_as({known.architecture!r}, …, draw=)")
    return known


def _data(kind: StockKind, X: Any, Y: Any, reading: dict[str, Any]) -> tuple[Sequences, tuple[str, ...]]:
    """The data as this architecture reads them, and the names of its tokens."""
    labelled = reading["per"] is not None or not kind.generates
    if Y is None and not labelled and pairs_or_sequences(X):
        raise DataError(
            f"X holds pairs of text, and {kind.name} could take them in two ways: for prompts and answers, say "
            "per='answer', or pass dict(X); for sequences of two tokens, pass [list(row) for row in X]"
        )
    data = sequences_of(X, Y, **reading, like=manner_of(kind), labelled=labelled)
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    names = token_names(data.vocabulary, kind.special)
    data.check_labelled()
    return data, names


def manner_of(kind: StockKind) -> Manner:
    """How data for an architecture are read: where it generates, text beside text is a prompt and its answer."""
    return Manner(per="answer", leans=True) if kind.generates else Manner()


def check_settled(options: Mapping[str, object]) -> None:
    """Refuse options that were given although a draw has settled them, whatever their value."""
    chosen = [name for name, value in options.items() if value is not None and value is not False]
    if chosen:
        raise DataError(f"draw= decides {' and '.join(chosen)}: leave {'it' if len(chosen) == 1 else 'them'} out")


def adopt(model: StockModel, data: Sequences) -> Sequences:
    """`data` in the numbers of the model's tokens and classes; data that do not fit its draw are an error."""
    facts, draw, labels = model.facts, model.draw, data.labels
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    if draw.prompts != (data.prompts is not None):
        raise DataError(
            "this folder holds prompts and answers: give both"
            if draw.prompts
            else "the data are prompts and answers, which this folder does not hold: memorize them again, without it"
        )
    if data.prompts is not None:
        data.check_labelled()
    vocabulary = model.vocabulary
    tokens = _in_our_names(vocabulary, data.vocabulary, data.tokens, "token")
    if (labels is None) != facts.labelling.generates:
        raise DataError("give labels" if labels is None else "this model memorizes each next token: give no labels")
    if labels is not None:
        if labels.classes is None or labels.labelling is not facts.labelling:
            raise DataError(f"the labels must be classes, one per {facts.task}, as those of the model")
        classes = draw.names(facts.classes, labels=True)
        values = _in_our_names(classes, labels.classes, labels.values, "label")
        labels = Labels(values, labels.per, classes, place=labels.place)
    adopted = Sequences(tokens, data.lengths, vocabulary, labels, data.prompts, data.origin)
    room, long = min(facts.room - 1, draw.longest or facts.room), int(data.lengths.argmax())
    if int(data.lengths[long]) > room:
        raise DataError(
            f"{data.named(long)} has {int(data.lengths[long]):,} tokens, and this draw has places for {room:,}: "
            "memorize the data anew, without the draw"
        )
    return adopted


def _in_our_names(ours: Names, theirs: Names, rows: Ints, what: str) -> Ints:
    """`rows` of the names `theirs` as rows of `ours`; a name that ours lack is an error. `what`: token or label."""
    number = ours.find(theirs)[rows]
    if (number < 0).any():
        name = theirs.names[int(rows[int((number < 0).argmax())])]
        raise DataError(
            f"the {what} {name!r} is new to this draw, whose embedding and head have a row for each name: memorize "
            "the data anew, without the draw"
        )
    return number


def job_of(model: StockModel, data: Sequences, on_conflict: OnConflict = "error") -> StockTask:
    """What a model of adopted `data` with this draw must answer, and where."""
    facts, draw = model.facts, model.draw
    number = None if draw.unknown is None else facts.classes.index(draw.unknown)
    options = StockOptions(facts.positions, draw.storage, on_conflict, number, facts.cut)
    return stock_task(facts.architecture, data, facts.names, options)


def memorize_again(
    model: StockModel,
    data: Sequences,
    *,
    only: Ints | None = None,
    on_conflict: OnConflict = "error",
    report: Progress = lambda stage, share: None,
) -> StockModel:
    """The model of `data` with the draw of `model`: the same bits, whatever data `model` held before.

    `only`: if only the facts of some tokens have changed since `model` was built, these tokens, by their row in the
    vocabulary. A model of cells then finds their neurons anew, and keeps all others, whose bits would be the same.
    Where the begin token answers for whole sequences, all facts belong to it, and all neurons are found anew.
    `on_conflict`: which label wins where the data contradict themselves. `report`: told how far the work is.
    """
    data = adopt(model, data)
    job = job_of(model, data, on_conflict)
    if model.draw.storage == "steps":
        return steps_model(job, report, known=model)
    only = None if job.at_begin else only
    return robust_model_again(job, report, known=model, only=only)
