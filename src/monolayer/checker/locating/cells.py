"""Stock folders of half-spaces: the neurons that may wake at a fact, and the answers without one of them.

What enters the last norm is a sum over neurons, in enclosed numbers; without one of them its share is taken away, and
what the others may be off by stays.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.locating.writers import MEASURED, PROVED, Writers, listed
from monolayer.checker.stock.enclosed import Enclosed, add
from monolayer.checker.stock.evaluate import Program, batches
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.neurons import AT_ONCE, Returned
from monolayer.checker.stock.places import Places
from monolayer.data import Sequences


def cells_writers(net: Network, data: Sequences, places: Places) -> Writers:
    """The neurons that may wake at each fact; those that read more than 0 there hold it."""
    program, M = Program(net), len(places.answering)
    fact_of = np.full((len(data) if net.task == "sequence" else len(data.tokens)) + places.begins, -1)
    fact_of[places.answering] = np.arange(M)
    answer, state = np.zeros((2, M), dtype=np.int64)
    found: list[tuple[Ints, ...]] = []
    for asked in batches(net, data, places):
        fact, heard = fact_of[asked.points.reshape(-1)], list[Returned]()
        base, out = program.parts(asked.ids, asked.at, True, heard.append)
        there = np.flatnonzero(fact >= 0)
        answer[fact[there]], state[fact[there]] = _judged(program, add(base[there], out[there]))
        out = out.spread()
        for some in heard:
            there = np.flatnonzero(fact[some.point] >= 0)
            for cut in np.array_split(there, 1 + len(there) * net.width // AT_ONCE):
                point, neuron = some.point[cut], some.neuron[cut]
                written, rest = some.value[cut][:, None] * net["W_2"][neuron], out[point]
                off = rest.radius + 2.0**-40 * (np.abs(written) + np.abs(rest.middle))
                judged = _judged(program, add(base[point], Enclosed.of(rest.middle - written, off)))
                found.append((fact[point], neuron, some.above[cut].astype(np.int64), *judged))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)] if found else [np.zeros(0, np.int64)] * 5
    fact, neuron, above, *without = columns
    return listed((answer, state), fact, neuron, above > 0, (without[0], without[1]), len(net["W_1"]))


def _judged(program: Program, stream: Enclosed) -> tuple[Ints, Ints]:
    answer, sure = program.head.answers(stream)
    return answer, np.where(sure, PROVED, MEASURED)
