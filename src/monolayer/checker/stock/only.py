"""Whether a stock folder of steps holds nothing but the data: every label in it is one that the data put there.

With its draw (names, keys, codes, temperature, gates) the data decide two things: which label each embedding holds, and
which steps each cell has, one between neighbours with different labels and one in front of a first label that is not
its token's. Both are computed from the data and compared with what is stored. Names of tokens and classes belong to the
draw, so a token that the data lack keeps its row, with the label that all such tokens have.
"""

from __future__ import annotations

import numpy as np

from monolayer.arrays import Ints
from monolayer.checker.stock.files import Network
from monolayer.checker.stock.places import StockPlaces
from monolayer.checker.stock.readout import DONE, Arrivals
from monolayer.checker.stock.structure import Structure
from monolayer.data import Sequences
from monolayer.huggingface.architecture import BEGIN

STOCK_ONLY_CLAIM = (
    "; and the folder holds nothing else: besides its draw (names, keys, codes), every label in the embedding and "
    "every neuron is one that these data put there"
)
STOCK_ONLY_REASON = "; each embedding holds the label, and each cell the steps, that the data determine"


def leftover_in_folder(
    net: Network, found: Structure, data: Sequences, places: StockPlaces, points: Arrivals
) -> str | None:
    """What the folder holds besides the data, in words, or None. Every point is known to get its label."""
    usual = usual_labels(net, data, places)
    held = net["tokens"][:, found.label]
    size = float(np.abs(held).max())
    odd = np.flatnonzero((held != np.where(found.words[usual], size, -size)).any(axis=1))
    if len(odd):
        return (
            f"the embedding of {net.names[odd[0]]!r} does not hold the label {net.classes[usual[odd[0]]]!r}, which "
            f"these data give it (rows of the embedding with another label: {len(odd):,})"
        )
    return _steps(net, found, places, points, usual)


def usual_labels(net: Network, data: Sequences, places: StockPlaces) -> Ints:
    """The label that each embedding should hold `(V,)`: its most frequent one, of equals the least; without a point
    the first class that the data have."""
    count = len(net.classes)
    pairs, often = np.unique(places.token * count + places.wanted, return_counts=True)
    usual = np.full(len(net["tokens"]), places.wanted.min())
    order = np.lexsort((-pairs, often))  # the last assignment wins
    usual[pairs[order] // count] = pairs[order] % count
    if net.task == "lm" and data.prompts is None and not places.begins:
        usual[BEGIN] = np.bincount(places.ids[data.offsets[:-1]]).argmax()
    return usual


def _steps(net: Network, found: Structure, places: StockPlaces, points: Arrivals, usual: Ints) -> str | None:
    live = len(found.slope)
    cell = np.where((found.token_of < 0) | (found.place_of < 0), -1, found.token_of * places.most + found.place_of)
    stored = np.lexsort((-net["b_1"][:live] / found.slope, cell))
    slope, bias, cell = found.slope[stored], net["b_1"][stored], cell[stored]
    write = net["W_2"][stored][:, found.label]

    # What the data demand, in order of cell and feature: `before` and `after` each step, between points left and right.
    order = np.lexsort((points.feature, points.cell))
    own, z, radius, label = (part[order] for part in (points.cell, points.feature, points.radius, places.wanted))
    new = np.append(True, own[1:] != own[:-1])
    ahead = np.append(-1, label[:-1])
    ahead[new] = usual[places.token[order[new]]]
    right = np.flatnonzero(ahead != label)
    enters, left = new[right], np.maximum(right - 1, 0)
    if not np.array_equal(cell, own[right]):
        where = np.flatnonzero(~np.isin(cell, own[right]))
        at = int(cell[where[0]]) if len(where) else -1
        what = f"a step at {net.names[at // places.most]!r}" if at >= 0 else "a step"
        return f"{what} is put there by no label of the data: {len(cell):,} steps are stored, {len(right):,} demanded"
    if len(right) == 0:
        return None
    jump = np.subtract(found.words[label[right]], found.words[ahead[right]], dtype=np.float64)
    height = float(np.abs(write).max())
    if not np.array_equal(write, height * jump):
        wrong = int(np.flatnonzero((write != height * jump).any(axis=1))[0])
        return f"a step at {net.names[int(cell[wrong]) // places.most]!r} changes other labels than the data do there"

    # Slopes are powers of two, the first that lets a ramp take a quarter of its gap at most; biases whole numbers.
    middle, gap, doubt = z[right] + z[left], z[right] - z[left], radius[right] + radius[left]
    middle = middle / 2.0
    if enters.any():
        # In front of a cell the distance is one number for the whole folder, and the gap of such a step.
        stands = (DONE / 2.0 - bias[enters]) / slope[enters]
        least, most = (z[right[enters]] - stands + way * (0.51 / slope + doubt)[enters] for way in (-1.0, 1.0))
        distance = (float(least.max()) + float(most.min())) / 2.0
        if not 0.0 < least.max() <= most.min():
            return "the first steps of cells stand at different distances in front of their first points"
        middle[enters], gap[enters] = z[right[enters]] - distance, distance
        doubt[enters] += most.min() - least.max()
    rounding = 2.0**-48 * (np.abs(slope * middle) + 1.0)
    off = np.abs(bias - (DONE / 2.0 - slope * middle)) > 0.5 + slope * doubt + rounding
    width = DONE / slope
    off |= ~((width <= (gap + doubt) / 4.0) & (2.0 * width >= (gap - doubt) / 4.0 * (1.0 - 2.0**-40)))
    if off.any():
        at = int(cell[np.flatnonzero(off)[0]])
        return (
            f"a step at {net.names[at // places.most]!r} does not stand in the middle of the gap that the data leave "
            f"there, so something else put it there (such steps: {int(off.sum()):,})"
        )
    return None
