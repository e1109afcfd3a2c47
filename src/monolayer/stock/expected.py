"""What a stock folder of cells will take, said before it is built: size from its layout, time from a measurement.

`N` facts are labelled places, `H ≤ N` neurons, since no fact needs two. Every tensor has a shape of `V` tokens, `L`
places, width `D`, `H` neurons and `C` classes (`huggingface/stock_kind.py`). All but `H` are known from the data, the
rank and the format, so the size with `H = N` bounds the weights from above. Where the data have a class for unknown
input, every distinct fact has a neuron, and this is the size.
"""

from __future__ import annotations

import numpy as np

from monolayer.data.number_formats import FORMATS
from monolayer.huggingface.architecture import TYPES
from monolayer.huggingface.stock_kind import ARRAY_SHAPES
from monolayer.stock.answers import SPARE
from monolayer.stock.labelled import StockTask
from monolayer.stock.stream import CellStream
from monolayer.table import plural

FACT_SECONDS, PAIR_SECONDS = 2e-4, 1.1e-7
"""Seconds of one core per fact, and per pair of facts of one token, to build and to prove.

From runs on one core of a server, with what these numbers say in brackets: a BERT of 4,000 keys took 2.4 s (2.6), one
of 8,000 keys 8.4 s (8.6), a GPT-2 of 1,000 prompts with 2,000 facts 2.2 s (1.0).
"""


class Expected(str):
    """A stage of a build whose name says what is to come: `8,000 facts: 9.07 MB of weights at most, about 9 s (…)`.

    `most_bytes` bounds the weights from above.
    """

    most_bytes: int

    @classmethod
    def of(cls, facts: int, most_bytes: int, seconds: float) -> Expected:
        """What so many facts take; `seconds` are an estimate."""
        said = cls(
            f"{plural(facts, 'fact')}: {most_bytes / 1e6:.3g} MB of weights at most, about {max(seconds, 1.0):.0f} s "
            "(an estimate, for one core)"
        )
        said.most_bytes = most_bytes
        return said


def expected(job: StockTask, stream: CellStream, dtype: str) -> Expected:
    """What the folder of `job` with this stream takes."""
    kind, token = job.architecture, job.points.token
    room = int(job.data.lengths.max()) + 1 + SPARE
    sizes = {"V": len(job.names), "L": kind.offset + room, "T": TYPES, "D": stream.columns.width}
    sizes |= {"H": max(len(token), 1), "C": len(job.classes)}
    numbers = sum(int(np.prod([sizes[letter] for letter in ARRAY_SHAPES[array]])) for array in kind.names(job.kind))
    cells = np.unique(token, return_counts=True)[1].astype(np.float64)
    seconds = float((FACT_SECONDS * cells + PAIR_SECONDS * cells**2).sum())
    return Expected.of(len(token), numbers * FORMATS[dtype].bytes, seconds)
