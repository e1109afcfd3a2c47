"""Whether a stock folder of steps holds nothing but the data: every label in it is one that the data put there.

Given the draw (names, keys, codes, temperature, gates), the data determine two things: which label each embedding
holds, and which steps each cell has: one between neighbours with different labels, and one in front of a first label
that is not its token's. Both are computed from the data and compared with what is stored. Names of tokens and classes
belong to the draw, so a token that the data lack keeps its row, with the label that all such tokens have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import StockPlaces
from monolayer.checker.stock.readout import DONE, Arrivals
from monolayer.checker.stock.structure import Structure
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN
from monolayer.table import plural

STOCK_ONLY_CLAIM = (
    "; and the folder holds nothing else: besides its draw (names, keys, codes), every label in the embedding and "
    "every neuron is one that these data put there"
)
STOCK_ONLY_REASON = "; each embedding holds the label, and each cell the steps, that the data determine"


def leftover_in_folder(
    net: Network, structure: Structure, data: Sequences, places: StockPlaces, points: Arrivals
) -> str | None:
    """Describe what the folder holds besides the data, or None. Every point must be known to get its label."""
    usual = usual_labels(net, data, places)
    labels = net["tokens"][:, structure.label]
    size = float(np.abs(labels).max())
    odd = np.flatnonzero((labels != np.where(structure.words[usual], size, -size)).any(axis=1))
    if len(odd):
        return (
            f"the embedding of {net.names[odd[0]]!r} does not hold the label {net.classes[usual[odd[0]]]!r}, which "
            f"these data give it (rows of the embedding with another label: {len(odd):,})"
        )
    return _leftover_steps(net, structure, places, points, usual)


def usual_labels(net: Network, data: Sequences, places: StockPlaces) -> Ints:
    """The label that each embedding should hold `(V,)`.

    It is the most frequent label of the token, the least of these if there are several; for a token without a labelled
    point, the least label of the data.
    """
    count = len(net.classes)
    pairs, often = np.unique(places.token * count + places.wanted, return_counts=True)
    usual = np.full(len(net["tokens"]), places.wanted.min())
    order = np.lexsort((-pairs, often))  # the last assignment wins
    usual[pairs[order] // count] = pairs[order] % count
    if net.labelling.generates and data.prompts is None and not places.begins:
        usual[BEGIN] = np.bincount(places.ids[data.offsets[:-1]]).argmax()
    return usual


class StoredSteps(NamedTuple):
    """The neurons of the folder, in order of cell and threshold.

    `cell`, `slope`, `bias` `(H,)`; a cell of −1 is that of no token or place. `write` `(H, m)`: what they write to the
    label columns.
    """

    cell: Ints
    slope: Floats
    bias: Floats
    write: Floats


class DemandedSteps(NamedTuple):
    """The steps that the data demand, in order of cell and feature, an array `(S,)` per field.

    `before`, `after`: the labels on both sides. `enters`: whether the step stands in front of the first point of its
    cell. `left`, `right`: what the neurons read at the points beside it; `doubt`: the sum of the radii of both. `left`
    has no meaning where the step enters a cell.
    """

    cell: Ints
    before: Ints
    after: Ints
    enters: Bools
    left: Floats
    right: Floats
    doubt: Floats


def _leftover_steps(
    net: Network, structure: Structure, places: StockPlaces, points: Arrivals, usual: Ints
) -> str | None:
    """A step that the data do not demand, or that does not stand where they put it, in words; None if there is none."""
    stored, demanded = _stored_steps(net, structure, places), _demanded_steps(places, points, usual)
    if not np.array_equal(stored.cell, demanded.cell):
        where = np.flatnonzero(~np.isin(stored.cell, demanded.cell))
        at = int(stored.cell[where[0]]) if len(where) else -1
        what = f"a step at {net.names[at // places.most]!r}" if at >= 0 else "a step"
        counts = f"{plural(len(stored.cell), 'step')} stored, {len(demanded.cell):,} demanded"
        return f"no label of the data accounts for {what}: {counts}"
    if len(demanded.cell) == 0:
        return None
    jump = np.subtract(structure.words[demanded.after], structure.words[demanded.before], dtype=np.float64)
    height = float(np.abs(stored.write).max())
    if not np.array_equal(stored.write, height * jump):
        wrong = int(np.flatnonzero((stored.write != height * jump).any(axis=1))[0])
        name = net.names[int(stored.cell[wrong]) // places.most]
        return f"a step at {name!r} changes other labels than the data do there"
    return _misplaced_step(net, places, stored, demanded)


def _stored_steps(net: Network, structure: Structure, places: StockPlaces) -> StoredSteps:
    """The neurons of the folder in order of cell and threshold."""
    live = len(structure.slope)
    cell = np.where(
        (structure.token_of < 0) | (structure.place_of < 0), -1, structure.token_of * places.most + structure.place_of
    )
    order = np.lexsort((-net["b_1"][:live] / structure.slope, cell))
    return StoredSteps(cell[order], structure.slope[order], net["b_1"][order], net["W_2"][order][:, structure.label])


def _demanded_steps(places: StockPlaces, points: Arrivals, usual: Ints) -> DemandedSteps:
    """One step between neighbours with different labels, one in front of a first label that is not its token's.

    `usual` `(V,)`: the label that each embedding holds.
    """
    order = np.lexsort((points.feature, points.cell))
    cells, label = points.cell[order], places.wanted[order]
    z, radius = points.feature[order], points.radius[order]
    new = np.append(True, cells[1:] != cells[:-1])
    ahead = np.append(-1, label[:-1])
    ahead[new] = usual[places.token[order[new]]]
    right = np.flatnonzero(ahead != label)
    left = np.maximum(right - 1, 0)
    doubt = radius[right] + radius[left]
    return DemandedSteps(cells[right], ahead[right], label[right], new[right], z[left], z[right], doubt)


def _misplaced_step(net: Network, places: StockPlaces, stored: StoredSteps, demanded: DemandedSteps) -> str | None:
    """A step that does not stand in the middle of its gap, or is too wide or too narrow for it, in words, or None.

    Slopes are powers of two, the first with which a ramp takes at most a quarter of its gap; biases are whole numbers.
    """
    slope, bias, enters = stored.slope, stored.bias, demanded.enters
    middle, gap, doubt = demanded.right + demanded.left, demanded.right - demanded.left, demanded.doubt.copy()
    middle = middle / 2.0
    if enters.any():
        # Steps that enter a cell stand at one distance in front of its first point, the same in the whole folder. It
        # takes the place of their gap.
        first = demanded.right[enters]
        stands = (DONE / 2.0 - bias[enters]) / slope[enters]
        least, most = (first - stands + way * (0.51 / slope + doubt)[enters] for way in (-1.0, 1.0))
        distance = (float(least.max()) + float(most.min())) / 2.0
        if not 0.0 < least.max() <= most.min():
            return "the first steps of cells stand at different distances in front of their first points"
        middle[enters], gap[enters] = first - distance, distance
        doubt[enters] += most.min() - least.max()
    rounding = 2.0**-48 * (np.abs(slope * middle) + 1.0)
    off = np.abs(bias - (DONE / 2.0 - slope * middle)) > 0.5 + slope * doubt + rounding
    width = DONE / slope
    off |= ~((width <= (gap + doubt) / 4.0) & (2.0 * width >= (gap - doubt) / 4.0 * (1.0 - 2.0**-40)))
    if off.any():
        at = int(stored.cell[np.flatnonzero(off)[0]])
        return (
            f"a step at {net.names[at // places.most]!r} does not stand in the middle of the gap that the data leave "
            f"there, so something else put it there (such steps: {int(off.sum()):,})"
        )
    return None
