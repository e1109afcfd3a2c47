"""The labelled places of a dataset in the ids of a stock folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.structure import Structure
from monolayer.data import Names, Sequences
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN, END, UNKNOWN
from monolayer.huggingface.texts import tokenizer_fault

_SEPARATORS = re.compile("[\x1c-\x1f]")
"""White space for Python and not for `tokenizers`."""


@dataclass(frozen=True, eq=False)
class StockPlaces:
    """`ids` `(T,)` of all tokens; for each of `M` labelled points its token, its place, the terms of its softmax.

    `wanted` `(M,)`: class numbers, −1 for classes that the model lacks. `begins`: the last point is the begin token,
    which a language model must follow with the first token. `most`: places in use. `answering` `(M,)`: the token, or
    the sequence, that the label belongs to.
    """

    ids: Ints
    token: Ints
    place: Ints
    terms: Ints
    wanted: Ints
    names: tuple[Any, ...]
    given: Ints
    begins: bool
    most: int
    answering: Ints

    def cells(self, found: Structure) -> Ints:
        """One number per cell `(M,)`."""
        return self.token * self.most + (self.place if found.cells_have_places else 0)

    def expected(self, point: int) -> Any:
        """The label as the data call it."""
        return self.names[int(self.given[point])]

    def where(self, data: Sequences, point: int) -> str:
        """The place in words."""
        if self.begins and point == len(self.token) - 1:
            return "the begin token"
        return data.labelled(int(self.answering[point]))


def places_of(net: Network, data: Sequences) -> StockPlaces:
    """What the folder must answer, and where; data that it cannot be asked about are an error."""
    if data.vocabulary is None:
        raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
    data.check_labelled()
    longest = int(data.lengths.max())
    if longest + 1 > net.room:
        row = int(data.lengths.argmax())
        raise DataError(
            f"sequence {row} has {longest:,} tokens and a begin token; this {net.kind} has {net.room:,} positions"
        )
    ids = _folder_ids(data.vocabulary, net.names, UNKNOWN)[data.tokens]
    special = net.architecture.special.values()
    strange = (ids < len(special)) & (ids != UNKNOWN)
    if strange.any():
        where = data.where(int(np.flatnonzero(strange)[0]))
        raise DataError(f"{where} is a special token of this folder, which no text may contain: rename it in the data")
    fault = tokenizer_fault(net.cut, special, data)
    if fault is not None:
        raise UnhandledError(fault)
    if net.cut in ("words", "pieces") and any(_SEPARATORS.search(str(name)) for name in data.vocabulary.names):
        raise UnhandledError("names of tokens hold separators, of which it is not settled whether they are white space")
    begins = False
    if data.prompts is not None and net.task != "lm":
        raise DataError(f"the model answers with classes, one per {net.task}; the data are prompts and answers")
    if net.task == "lm":
        if data.labels is not None:
            raise DataError(
                "the model predicts next tokens, and the data have labels: give the sequences alone, or prompts and "
                "answers as text"
            )
        names = (*data.vocabulary.names, net.names[END])
        given = np.append(data.tokens[1:], 0)
        given[data.offsets[1:] - 1] = len(names) - 1
        wanted = _folder_ids(data.vocabulary, net.classes, -1)[np.minimum(given, len(data.vocabulary) - 1)]
        wanted[data.offsets[1:] - 1] = END
        first = data.tokens[data.offsets[:-1]]
        begins = data.prompts is None and bool((first == first[0]).all())
    else:
        labels = data.labels
        if labels is None or labels.classes is None or labels.per != net.task:
            raise DataError(f"the model answers with classes, one per {net.task}; the data have other labels, or none")
        names, given = tuple(labels.classes.names), labels.values
        wanted = _folder_ids(labels.classes, net.classes, -1)[given]
    answering = data.labelled_places
    if data.prompts is not None:
        wanted, given = wanted[answering], given[answering]
    if net.task == "sequence" and net.causal:  # read at the last token that is not padding
        last = data.offsets[1:] - 1
        token, place, terms = ids[last], data.lengths, data.lengths + 1
    elif net.task == "sequence":
        token, place = np.full(len(data), BEGIN), np.zeros(len(data), np.int64)
        terms = data.lengths + 1
    else:
        token, place = ids, data.position + 1
        terms = data.position + 2 if net.causal else np.repeat(data.lengths + 1, data.lengths)
    token, place, terms = token[answering], place[answering], terms[answering]
    if begins:
        answering = np.append(answering, len(ids))
        token, place, terms = np.append(token, BEGIN), np.append(place, 0), np.append(terms, 1)
        wanted, given = np.append(wanted, ids[0]), np.append(given, data.tokens[0])
    return StockPlaces(ids, token, place, terms, wanted, names, given, begins, longest + 1, answering)


def _folder_ids(theirs: Names, ours: tuple[str, ...], missing: int) -> Ints:
    """Our number for each of their names, which a folder holds as strings."""
    table = {name: number for number, name in enumerate(ours)}
    return np.array([table.get(str(name), missing) for name in theirs.names], dtype=np.int64)
