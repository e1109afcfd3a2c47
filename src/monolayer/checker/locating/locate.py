"""Find which neurons and rows hold which facts, in a model of monolayer and in a stock folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from monolayer.arrays import Array, Bools
from monolayer.checker.check import model_assumptions
from monolayer.checker.format import READOUTS
from monolayer.checker.labelled import Labelled, labelled, real
from monolayer.checker.locating.circuit import own_wires, stock_wires
from monolayer.checker.locating.location import TOKENS_SHOWN_BEFORE, Fact, Location, Slice
from monolayer.checker.locating.writers import cells_writers
from monolayer.checker.network import Stored
from monolayer.checker.stock.check import stock_assumptions
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import places_of
from monolayer.data import Labels, Names, Sequences
from monolayer.data.labelling import Labelling
from monolayer.errors import DataError
from monolayer.huggingface.architecture import BEGIN, UNKNOWN


def locate_own(stored: Stored, data: Sequences) -> Location:
    """`locate` in a saved model of monolayer."""
    has_labels = data.labels is not None or bool(stored.config.get("next_token"))
    if not has_labels:
        reals = None if stored.classes is not None else int(stored.config["labels"])
        data = _with_any_label(data, stored.labelling, stored.classes, reals)
    points = labelled(stored, data)
    if points.rows is not None:
        _refuse(data, points.rows < 0, stored.vocabulary)
    writers = READOUTS[stored.config["readout"]].writers
    if writers is None:
        raise DataError(
            f"the readout {stored.config['readout']!r} does not say which neurons write at which facts: memorize with "
            "robust=True, or with memorize_as"
        )
    facts = []
    for number, place in enumerate(range(len(points)) if points.places is None else points.places.tolist()):
        label = points.expected(number) if has_labels else None
        facts.append(_fact(data, stored.labelling, place, label))
    return Location(
        facts,
        writers(stored, points),
        (Slice(f"{stored.block}.weight_2", axis=1),),
        lambda fact: _own_rows(stored, points, facts[fact]),
        partial(own_wires, stored),
        _own_names(stored),
        f"{stored.format.name}, weights in {stored.config['dtype']}",
        model_assumptions(stored),
    )


def _own_rows(stored: Stored, points: Labelled, fact: Fact) -> tuple[Slice, ...]:
    """The rows that hold a fact: those of its token and position, or of the begin token, and a bias that is not 0."""
    sequence, position = fact.sequence, fact.position
    rows_read = [Slice("bos")]
    if position is not None:
        row = None if points.rows is None else int(points.rows[points.data.offsets[sequence] + position])
        rows_read = [Slice("lift.weight", row)] + [Slice("positions.weight", position)] * stored.config["positions"]
    bias = f"{stored.block}.bias_2"
    return (*rows_read, *[Slice(bias)] * bool(stored[bias].any()))


def _own_names(stored: Stored) -> Callable[[Array], list[object]]:
    """A function from answers of the model, `(K,)` or `(K, m)`, to a list of labels as users write them."""
    if stored.classes is not None:
        names = stored.classes.names
        return lambda numbers: [names[number] for number in numbers.tolist()]
    scalar = bool(stored.config.get("scalar"))
    return lambda rows: [real(row, scalar) for row in rows]


def locate_stock(net: Network, names: Names | None, data: Sequences) -> Location:
    """`locate` in a stock folder; `names`: the names of its tokens."""
    if net.format.long:
        raise DataError(
            "this folder stores facts in steps, whose labels are sums over many neurons: locate looks into folders of "
            "cells, which memorize_as builds without storage='steps'"
        )
    generates = net.labelling.generates
    has_labels = data.labels is not None or generates
    if not has_labels:
        data = _with_any_label(data, net.labelling, Names(net.classes), None)
    places = places_of(net, data)
    _refuse(data, places.ids == UNKNOWN, names)
    kinds = (data.vocabulary if generates else None, data.labels.classes if data.labels and has_labels else None)
    typed = {str(name): name for kind in kinds if kind is not None for name in kind.names}
    tensors = net.architecture.names(net.task)
    tables = (("tokens", 0, places.token), ("places", net.architecture.offset, places.place))
    facts = []
    for number, place in enumerate(places.answering.tolist()):
        facts.append(
            _fact(data, net.labelling, place, places.expected(number) if has_labels else None, net.names[BEGIN])
        )
    return Location(
        facts,
        cells_writers(net, data, places),
        (Slice(tensors["W_2"], axis=int(not net.architecture.transposed)),),
        lambda fact: tuple(
            Slice(tensors[letter], first + int(rows[fact])) for letter, first, rows in tables if letter in net
        ),
        partial(stock_wires, net),
        lambda numbers: [typed.get(net.classes[number], net.classes[number]) for number in numbers.tolist()],
        f"binary32, weights in {net.dtype}",
        stock_assumptions(net, data),
    )


def _fact(data: Sequences, labelling: Labelling, answering: int, label: object, begin: str = "") -> Fact:
    """The fact that is answered at token or sequence number `answering`.

    `labelling`: what labels belong to. `label`: None if the data have no labels. `begin`: the name of the
    begin token.
    """
    if answering == labelling.count(data):
        return Fact(0, -1, begin, label)
    row, position = labelling.place(data, answering)
    first, last = data.offsets[row : row + 2].tolist()
    if position is not None:
        last = answering + 1
        first = answering if data.prompts is None else max(first, last - TOKENS_SHOWN_BEFORE)
    if data.vocabulary is None:
        return Fact(row, position, None, label)
    names = map(str, data.vocabulary.decode(data.tokens[first:last]).tolist())
    return Fact(row, position, ("" if data.prompts is not None else " ").join(names), label)


def _refuse(data: Sequences, strange: Bools, names: Names | None) -> None:
    """Raise a `DataError` if a token is unknown to the model. `strange` `(T,)`: whether each token is unknown."""
    if strange.any() and data.vocabulary is not None and names is not None:
        flat = int(strange.argmax())
        name = data.vocabulary.names[int(data.tokens[flat])]
        raise DataError(f"{data.where(flat)} {names.never_seen(name)}")


def _with_any_label(data: Sequences, labelling: Labelling, classes: Names | None, reals: int | None) -> Sequences:
    """The data with a placeholder label everywhere, so that every place counts as labelled."""
    count = labelling.count(data)
    values = np.zeros(count, dtype=np.int64) if reals is None else np.zeros((count, reals))
    return replace(data, labels=Labels(values, labelling.belongs_to, classes))
