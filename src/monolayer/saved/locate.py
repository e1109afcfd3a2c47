"""`locate`: which neurons and rows of a saved model of any kind hold which facts."""

from __future__ import annotations

import numpy as np

from monolayer.checker.asked import asked_data
from monolayer.checker.locating.location import Location
from monolayer.checker.rounding import UnhandledError
from monolayer.data.choices import Belongs, Unit
from monolayer.data.labelling import LABELLINGS
from monolayer.data.readers import ReadKeywords
from monolayer.data.shapes import pairs_or_sequences
from monolayer.data.subnormal import check_subnormals_count
from monolayer.errors import DataError
from monolayer.huggingface.strict import ForeignError
from monolayer.saved.kinds import open_model


def locate(
    model: object,
    X: object,
    Y: object = None,
    *,
    lengths: object = None,
    per: Belongs | None = None,
    unit: Unit | None = None,
    tokens: str | None = None,
    labels: str | None = None,
) -> Location:
    """Find where each fact lives: the neurons and rows that hold it, and what the model answers without each neuron.

    - `model`: a model of one line or a robust one, a stock model of cells, a host with attached facts, or the folder of
      one.
    - `X`: the data, as for `certify`.
    - `Y`: their labels; without labels, every place where the model answers is a fact.
    - `lengths`, `per`, `unit`, `tokens`, `labels`: as for `certify`.

    Answers are read from the stored weights, and proved for every evaluation that a certificate covers, where margins
    allow it; otherwise they are measured, or unknown (docs/locate.md).

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima"}
        >>> place = ml.locate(ml.memorize(table, robust=True), table)[1]
        >>> print(place.label, place.verdict)
        Tokyo proved

    Of a table with other columns, name the two that hold the facts:

        >>> rows = [{"id": 7, "country": "France", "capital": "Paris"}, {"id": 9, "country": "Peru", "capital": "Lima"}]
        >>> columns = {"tokens": "country", "labels": "capital"}
        >>> print(ml.locate(ml.memorize(rows, robust=True, **columns), rows, **columns)[1].label)
        Lima
    """
    check_subnormals_count("weights that differ could then count as equal")
    with np.errstate(all="ignore"):
        try:
            saved = open_model(model)
            saved.check_locates()
            like = saved.manner
            prompts = like.per is not None and LABELLINGS[like.per].generates
            pairs = prompts and Y is None and pairs_or_sequences(X)
            options: ReadKeywords = {"per": per, "unit": unit, "tokens": tokens, "labels": labels}
            return saved.locate(asked_data(X, Y, lengths, like, labelled=pairs, **options))
        except (UnhandledError, ForeignError) as why:
            raise DataError(
                f"the weights are not as a certificate covers them, so where they hold a fact is not known: {why}"
            ) from None
