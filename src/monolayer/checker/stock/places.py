"""The labelled places of a dataset in the ids of a stock folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
"""Characters that are white space for Python and not for `tokenizers`."""


@dataclass(frozen=True, eq=False)
class StockPlaces:
    """`M` labelled points in the ids of a folder.

    `ids` `(T,)`: ids of all tokens of the data. `token`, `place`, `terms` `(M,)`: id and place that answer, and how
    many terms the softmax has there. `wanted` `(M,)`: class numbers, −1 for classes that the folder lacks. `given`
    `(M,)`: the labels as numbers in `names`. `begins`: whether the last point is the begin token, which a language
    model must follow with the first token. `most`: places in use. `answering` `(M,)`: the token or sequence that the
    label belongs to.
    """

    ids: Ints
    token: Ints
    place: Ints
    terms: Ints
    wanted: Ints
    names: tuple[object, ...]
    given: Ints
    begins: bool
    most: int
    answering: Ints

    def cells(self, structure: Structure) -> Ints:
        """Number of the cell of each point `(M,)`: its token, or the pair of token and place."""
        return self.token * self.most + (self.place if structure.cells_have_places else 0)

    def expected(self, point: int) -> Any:
        """The label of point number `point`, by its name in the data."""
        return self.names[int(self.given[point])]

    def where(self, data: Sequences, point: int) -> str:
        """Where point number `point` lies in the data, in words; the same for data from whatever file."""
        if self.begins and point == len(self.token) - 1:
            return "the begin token"
        return replace(data, origin=None).labelled(int(self.answering[point]))


def places_of(net: Network, data: Sequences) -> StockPlaces:
    """The labelled points of `data`, in the ids of the folder; an error if the folder cannot be asked about them."""
    if data.vocabulary is None:
        raise DataError("the model takes ids or strings as tokens, and the data hold vectors")
    data.check_labelled()
    longest = int(data.lengths.max())
    if longest + 1 > net.room:
        row = int(data.lengths.argmax())
        raise DataError(
            f"{data.named(row)} has {longest:,} tokens and a begin token; this {net.kind} has {net.room:,} positions"
        )
    ids = _folder_ids(data.vocabulary, net.names, UNKNOWN)[data.tokens]
    _check_enters(net, data, data.vocabulary, ids)
    labels = _next_tokens(net, data, data.vocabulary) if net.labelling.generates else _classes(net, data)
    wanted, given, begins = labels.wanted, labels.given, labels.begins
    answering = data.labelled_places
    if data.prompts is not None:
        wanted, given = wanted[answering], given[answering]
    if net.labelling.at_tokens:
        token, place = ids, data.position + 1
        terms = data.position + 2 if net.causal else np.repeat(data.lengths + 1, data.lengths)
    elif net.causal:  # read at the last token that is not padding
        last = data.offsets[1:] - 1
        token, place, terms = ids[last], data.lengths, data.lengths + 1
    else:
        token, place = np.full(len(data), BEGIN), np.zeros(len(data), np.int64)
        terms = data.lengths + 1
    token, place, terms = token[answering], place[answering], terms[answering]
    if begins:
        answering = np.append(answering, len(ids))
        token, place, terms = np.append(token, BEGIN), np.append(place, 0), np.append(terms, 1)
        wanted, given = np.append(wanted, ids[0]), np.append(given, data.tokens[0])
    return StockPlaces(ids, token, place, terms, wanted, labels.names, given, begins, longest + 1, answering)


def _check_enters(net: Network, data: Sequences, vocabulary: Names, ids: Ints) -> None:
    """Refuse data that the tokenizer of the folder would not turn into these `ids` `(T,)`."""
    special = net.architecture.special.values()
    strange = (ids < len(special)) & (ids != UNKNOWN)
    if strange.any():
        where = data.where(int(np.flatnonzero(strange)[0]))
        raise DataError(f"{where} is a special token of this folder, which no text may contain: rename it in the data")
    fault = tokenizer_fault(net.cut, special, data)
    if fault is not None:
        raise UnhandledError(fault)
    if net.cut in ("words", "pieces") and any(_SEPARATORS.search(str(name)) for name in vocabulary.names):
        raise UnhandledError("names of tokens hold separators, which may or may not count as white space")
    if data.prompts is not None and not net.labelling.generates:
        raise DataError(f"the model answers with classes, one per {net.task}; the data are prompts and answers")


class WantedLabels(NamedTuple):
    """Labels as numbers of the folder (`wanted`, −1 for none), and as numbers of `names` in the data (`given`).

    `begins`: whether the begin token must be followed by the first token too.
    """

    wanted: Ints
    given: Ints
    names: tuple[object, ...]
    begins: bool


def _next_tokens(net: Network, data: Sequences, vocabulary: Names) -> WantedLabels:
    """For a language model: the token that follows each token, or the end, `(T,)`."""
    if data.labels is not None:
        raise DataError(
            "the model predicts next tokens, and the data have labels: give the sequences alone, or prompts and "
            "answers as text"
        )
    names = (*vocabulary.names, net.names[END])
    given = np.append(data.tokens[1:], 0)
    given[data.offsets[1:] - 1] = len(names) - 1
    wanted = _folder_ids(vocabulary, net.classes, -1)[np.minimum(given, len(vocabulary) - 1)]
    wanted[data.offsets[1:] - 1] = END
    first = data.tokens[data.offsets[:-1]]
    return WantedLabels(wanted, given, names, data.prompts is None and bool((first == first[0]).all()))


def _classes(net: Network, data: Sequences) -> WantedLabels:
    """For a classifier: the classes of the data."""
    labels = data.labels
    if labels is None or labels.classes is None or labels.labelling is not net.labelling:
        raise DataError(f"the model answers with classes, one per {net.task}; the data have other labels, or none")
    wanted = _folder_ids(labels.classes, net.classes, -1)[labels.values]
    return WantedLabels(wanted, labels.values, tuple(labels.classes.names), False)


def _folder_ids(theirs: Names, ours: tuple[str, ...], missing: int) -> Ints:
    """For each name of the data (`theirs`) its number in the folder (`ours`, strings), `missing` if it lacks it."""
    table = {name: number for number, name in enumerate(ours)}
    return np.array([table.get(str(name), missing) for name in theirs.names], dtype=np.int64)
