"""What the stored numbers must be for the lemmas to hold: read from the file and checked there, number by number.

    key pairs   columns (a, a+1) that `W_K` and `W_V` read as ½(x_a − x_{a+1})
    slot pair   the two columns that attention writes ω c and −ω c to; 0 in every table
    code, one   the columns that neurons read: words of ±A, and a constant pair (A, −A)
    label       the columns that the head reads and the neurons write

Any other form raises `UnhandledError`, which leaves the claim undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

import numpy as np

from monolayer.arrays import Bools, Floats, Ints
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.files import Network

LARGE = 2.0**30
"""Numbers of head and pooler lie between `1/LARGE` and `LARGE`, so that logits are normal numbers of float32 too."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The numbers that determine what the network computes."""

    query: float
    """`λ = q/√D`: the temperature."""
    write: float
    """`ω`: what attention multiplies the context by."""
    key: Floats
    """Key of each id `(V,)`."""
    place_key: Floats
    """What each place adds to a key `(L,)`."""
    norm: tuple[float, float]
    """Least and largest squared norm of a stream vector."""
    largest: float
    """Largest absolute value in the tables."""
    label: Ints
    """Label columns `(m,)`."""
    words: Bools
    """Signs of each class in the label columns `(C, m)`."""
    size: float = 1.0
    """`A`: size of `one` and of code coordinates in the tables."""
    gate: float = 0.0
    """`G`: what a neuron multiplies words by."""
    signs: int = 0
    """`M`: how many signs the word of a cell has."""
    slope: Floats = field(default_factory=lambda: np.zeros(0))
    """`w_j` `(H,)`: what neuron `j` multiplies its feature by."""
    token_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Id whose word neuron `j` reads `(H,)`; −1 if that word belongs to no id."""
    place_of: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Place whose word neuron `j` reads `(H,)`; −1 if that word belongs to no place; 0 where places have no words."""
    cells_have_places: bool = False
    """Whether places have words, so that a cell is a pair of a token and a place."""


def without_silent_neurons(net: Network) -> Network:
    """The network without neurons that add exactly 0 to the stream in every evaluation, such as pruned ones.

    These write 0, or read nothing and have a bias of at most 0, of which relu6 makes 0.
    """
    silent = ~net["W_2"].any(axis=1) | (~net["W_1"].any(axis=1) & (net["b_1"] <= 0.0))
    if net.activation != "relu6" or not silent.any():
        return net
    left = {letter: net[letter][~silent] for letter in ("W_1", "b_1", "W_2")}
    return replace(net, arrays={**net.arrays, **left})


def read_structure(net: Network, used: int) -> Structure:
    """Read the structure and check all conditions of the lemmas but those on thresholds.

    `used`: how many places of the position table occur in the data.
    """
    _check_plain(net)
    head = _read_attention(net)
    out, pairs = head.slot, head.pairs
    first = net.architecture.offset
    places = net["places"][first : first + used] if "places" in net else np.zeros((1, net.width))
    both = (places != 0).any(axis=0) & (net["tokens"] != 0).any(axis=0)
    if both.any():
        raise UnhandledError(
            "a column is used by tokens and by places: norms and sums are exact only where they are not"
        )
    for name, table in (("tokens", net["tokens"]), ("places", places)):
        ordered = np.sort(table, axis=1)
        if not np.array_equal(ordered, -ordered[:, ::-1]):
            raise UnhandledError(f"a row of the table of {name} has not as much above 0 as below: its mean is not 0")
        if not (table[:, pairs] == -table[:, pairs + 1]).all() or table[:, out : out + 2].any():
            raise UnhandledError(f"the table of {name} does not hold keys in pairs, or holds numbers in the slot")
    if "places" in net and not np.abs(net["places"]).max() <= 2.0**20:
        raise UnhandledError("the table of places has a row so large that padding on it may not be finite")
    norms = [(table * table).sum(axis=1) for table in (net["tokens"], places)]
    label, words = _head(net)
    if places[:, label].any() or np.isin(label, (out, out + 1)).any():
        raise UnhandledError("the head reads columns that places or attention write to")
    return Structure(
        query=head.query,
        write=head.write,
        key=net["tokens"][:, pairs].sum(axis=1),
        place_key=places[:, pairs].sum(axis=1),
        norm=(float(norms[0].min() + norms[1].min()), float(norms[0].max() + norms[1].max())),
        largest=float(max(np.abs(net["tokens"]).max(), np.abs(places).max())),
        label=label,
        words=words,
        **_fields_read(net, places, out, label),
    )


def _check_plain(net: Network) -> None:
    """Check that norms have weight 1 and bias 0, that all other biases are 0, and that the width is a power of 4."""
    D = net.width
    if net.architecture.rms:
        raise UnhandledError(f"the norms of {net.kind} compute in float32 whatever the weights are")
    if D & (D - 1) or D.bit_length() % 2 == 0 or D < 16:
        raise UnhandledError(f"the width {D} is not a power of 4: 1/√{D} is not exact")
    shifts = [f"shift_{number}" for number in (1, 2, 3)]
    if any((net[f"scale_{number}"] != 1.0).any() for number in (1, 2, 3)) or any(net[name].any() for name in shifts):
        raise UnhandledError("a norm has a weight other than 1 or a bias other than 0")
    empty = [net[letter] for letter in ("types", "b_K", "b_V", "b_O", "b_2", "b_P", "b_H") if letter in net]
    if any(part.any() for part in empty):
        raise UnhandledError("a bias, or a table of token types, is not 0")
    if not (0.0 < net.epsilon <= 1.0):
        raise UnhandledError(f"the ε of the norms is {net.epsilon!r}")


class ReadAttention(NamedTuple):
    """What the matrices of attention say: `query` is λ, `write` is ω.

    `slot`: the first of the two columns that attention writes to. `pairs`: the first column of each key pair.
    """

    query: float
    write: float
    slot: int
    pairs: Ints


def _read_attention(net: Network) -> ReadAttention:
    """Read attention, once its matrices are as the lemmas need them."""
    W_Q, W_K, W_V, W_O = (net[f"W_{letter}"] for letter in "QKVO")
    b_Q = net["b_Q"]
    biased = np.flatnonzero(b_Q)
    if W_Q.any() or len(biased) != 1:
        raise UnhandledError("the query must be a constant: W_Q = 0 and one nonzero number in its bias")
    slot = int(biased[0])
    if net.architecture.still is not None and (slot, net.rotary) != net.architecture.still(net.width):
        raise UnhandledError(f"coordinate {slot} of the head is turned by rotary positions")
    rows = np.delete(W_K, slot, axis=0)
    if rows.any() or not np.array_equal(W_K, W_V):
        raise UnhandledError("keys and values must be the same one coordinate")
    columns = np.flatnonzero(W_K[slot])
    pairs = columns[::2]
    if len(columns) % 2 or not (W_K[slot, pairs] == 0.5).all() or not (W_K[slot, columns[1::2]] == -0.5).all():
        raise UnhandledError("keys must be read as half a difference of two columns")
    if len(pairs) not in (1, 2) or not np.array_equal(columns[1::2], pairs + 1):
        raise UnhandledError("keys must be read from one or two pairs of neighbouring columns")
    written = np.argwhere(W_O)
    if len(written) != 2 or (written[:, 1] != slot).any() or written[1, 0] != written[0, 0] + 1:
        raise UnhandledError("attention must write to one pair of columns")
    out = int(written[0, 0])
    write = float(W_O[out, slot])
    if W_O[out + 1, slot] != -write:
        raise UnhandledError("attention must write a number and its negative")
    return ReadAttention(float(b_Q[slot]) / net.width**0.5, write, out, pairs)


def _head(net: Network) -> tuple[Ints, Bools]:
    """The label columns `(m,)`, and the sign of every class in them `(C, m)`."""
    label = np.flatnonzero(net["W_H"].any(axis=0))
    part = net["W_H"][:, label]
    if len(label) == 0 or not (np.abs(part) == abs(part[0, 0])).all() or part.sum(axis=1).any():
        raise UnhandledError("the head must hold words of one number with as many + as −")
    words = part > 0
    if len(np.unique(np.packbits(words, axis=1), axis=0)) < len(words):
        raise UnhandledError("two classes have the same word in the head")
    if "W_P" in net:
        diagonal = np.zeros_like(net["W_P"])
        diagonal[label, label] = net["W_P"][label[0], label[0]]
        if not np.array_equal(net["W_P"], diagonal) or not net["W_P"][label[0], label[0]] > 0.0:
            raise UnhandledError("the pooler must be one positive number times the label columns")
    for size in (abs(part[0, 0]), *(() if "W_P" not in net else (net["W_P"][label[0], label[0]],))):
        if not 1.0 / LARGE <= size <= LARGE:
            raise UnhandledError(f"the head or the pooler holds {size:.3g}: logits may leave the range of float32")
    return label, words


class NeuronFields(TypedDict, total=False):
    """The fields of `Structure` that neurons determine; none for a folder without live neurons."""

    size: float
    gate: float
    signs: int
    slope: Floats
    token_of: Ints
    place_of: Ints
    cells_have_places: bool


def _fields_read(net: Network, places: Floats, out: int, label: Ints) -> NeuronFields:
    """What the neurons read, `w_j (½ slot difference + G (word − M one))`, and whose word each one reads.

    `places` `(L, D)`: rows of places in use. `out`: the first column of the slot. `label` `(m,)`: the label columns.
    """
    W_1 = net["W_1"]
    if np.delete(net["W_2"], label, axis=1).any():
        raise UnhandledError("neurons write to columns that are not label columns")
    live = np.flatnonzero(W_1.any(axis=1) | (net["b_1"] != 0) | net["W_2"].any(axis=1))
    if len(live) == 0:
        return {}
    if len(live) < len(W_1):
        raise UnhandledError("some neurons read nothing and others do")
    slope = 2.0 * W_1[:, out]
    if not (slope > 0.0).all() or not (slope.min() >= 2.0**-100 and slope.max() <= 2.0**200):
        raise UnhandledError("a neuron does not rise with the context, or rises too steeply")
    first = np.abs(W_1[0] / slope[0])
    first[out : out + 2] = 0.0
    one = np.flatnonzero(first == first.max())
    if len(one) != 2 or one[1] != one[0] + 1:
        raise UnhandledError("neurons must read a constant pair of columns")
    code = np.setdiff1d(np.flatnonzero(first), one)
    if len(code) == 0:
        raise UnhandledError("neurons must read the words of tokens")
    gate, signs = float(first[code[0]]), len(code)
    size = float(net["tokens"][0, one[0]])
    # All factors are powers of two times small whole numbers, so the products below are exact and may be compared.
    word = W_1[:, code] > 0
    full = np.zeros_like(W_1)
    full[:, [out, out + 1]] = 0.5, -0.5
    full[:, one] = -0.5 * gate * signs, 0.5 * gate * signs
    full[:, code] = np.where(word, gate, -gate)
    if np.frexp(gate)[0] != 0.5 or (np.frexp(slope)[0] != 0.5).any() or not np.array_equal(full * slope[:, None], W_1):
        raise UnhandledError("a neuron reads something else than slot, words and the constant pair")
    if (word.sum(axis=1) * 2 != signs).any():
        raise UnhandledError("a neuron reads a word with unequal numbers of + and −")
    if not (net["tokens"][:, one] == [size, -size]).all() or not size > 0.0:
        raise UnhandledError("the constant pair is not constant over the tokens")
    of_places = (places[:, code] != 0).any(axis=0)
    token_of = _owners(net["tokens"], code[~of_places], size, word[:, ~of_places], "tokens")
    place_of = np.zeros(len(W_1), dtype=np.int64)
    if of_places.any():
        place_of = _owners(places, code[of_places], size, word[:, of_places], "places")
    return {
        "size": size,
        "gate": gate,
        "signs": signs,
        "slope": slope,
        "token_of": token_of,
        "place_of": place_of,
        "cells_have_places": bool(of_places.any()),
    }


def _owners(table: Floats, columns: Ints, size: float, word: Bools, name: str) -> Ints:
    """The row of `table` that holds each word `(H,)`, −1 if none does.

    Rows must hold different words of ±`size` in these columns, with as many + as −. `name`: what the table is of.
    """
    part = table[:, columns]
    rows = part > 0
    if not (np.abs(part) == size).all() or (rows.sum(axis=1) * 2 != len(columns)).any():
        raise UnhandledError(f"the table of {name} does not hold words of ±{size:g} with as many + as −")
    if (word.sum(axis=1) * 2 != len(columns)).any():
        raise UnhandledError(f"a neuron reads a word for {name} with unequal numbers of + and −")
    known = {bits.tobytes(): row for row, bits in enumerate(np.packbits(rows, axis=1))}
    if len(known) < len(table):
        raise UnhandledError(f"two rows of the table of {name} have the same word")
    return np.array([known.get(bits.tobytes(), -1) for bits in np.packbits(word, axis=1)], dtype=np.int64)
