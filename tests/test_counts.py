"""Sentences that count say `1 label`, not `1 labels`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import monolayer as ml
from monolayer.attaching.measuring import Measurement
from monolayer.checker.tried import Trial, with_trial
from monolayer.construct.cells.grid import Box, afford

THINGS = "label|point|token|knot|cell|step|neuron|row|fact|fingerprint|place|id|block|layer|sequence|half-space"
ONE_THINGS = re.compile(rf"(?<![\d.,])1 (labelled )?(({THINGS})s|classes)\b")
ONE = {"France": "Paris"}


def _model(**options: object) -> Iterator[str]:
    model = ml.memorize(ONE, **options)
    yield from (repr(model), str(model.rows()), str(ml.certify(model, ONE)), ml.certify(model, ONE).explain())


def _grid() -> Iterator[str]:
    model = ml.approximate(np.sin, dim=1, length=1, cells=1)
    yield from (repr(model), str(model.rows()), model.plot().layout.title.text)
    box = Box.of(2, 2, (0.0, 1.0), False)
    with pytest.raises(ml.DataError) as caught:
        afford(box, 4, box.knots(1))
    yield str(caught.value)


def _tried() -> Iterator[str]:
    proof = ml.certify(ml.memorize(ONE), ONE)
    for wrong in (0, 1):
        said = with_trial(replace(proof, verdict="undecided"), "here", lambda wrong=wrong: Trial(1, wrong, []))
        yield f"{said.reason} {said.measured}"


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "own": _model,
    "robust": lambda: _model(robust=True),
    "grid": _grid,
    "tried": _tried,
    "only": lambda: iter([str(ml.certify(ml.memorize({**ONE, "Peru": "Lima"}), ONE, only=True).explain())]),
    "measured": lambda: iter([str(Measurement(1, 1, 3, 1, (), 0.5, 0, 2.0, "here"))]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_thing_is_counted_in_the_singular(kind: str) -> None:
    for sentence in KINDS[kind]():
        assert ONE_THINGS.search(sentence) is None, sentence
