"""The tensors of the appended layers and of the head, from keys, thresholds and answers (notation: `__init__.py`)."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Floats, Ints
from monolayer.errors import PrecisionError
from monolayer.huggingface.encoders import Encoder, Pooling

POOL = 2.0**10
"""c: the mean counts this many times as much as the state of the first token, which attention cannot leave out."""
POOL_FLOAT16 = 2.0**6
"""c in float16, whose numbers end at 65,504."""
STEEP, STEEP_FLOAT16 = 2.0**14, 2.0**12
"""α: a neuron is silent S/α below its threshold."""
GAIN = 4.0
"""g: what a neuron writes per unit of its input, in words."""
CERTAIN = 0.5
"""The entries of the head: a logit is at most `CERTAIN` times the room."""
LARGEST_WRITTEN = 50_000.0
"""The most that neurons may add to a coordinate in float16, by the bound of Lemma Q2."""
TOKENS_COUNT = 0.1
"""How much the states of tokens count beside their means when the directions R are chosen: there may be few means."""
SEEDS = 64
"""How many seeds of words are tried."""


class Neurons(NamedTuple):
    """The neurons of `N` questions.

    `rows` `(N, D)`: α k/√D, in the format of the encoder. `thresholds` `(N,)`: τ. `answers` `(N,)`: numbers of classes.
    """

    rows: Floats
    thresholds: Floats
    answers: Ints


def room_of(encoder: Encoder) -> int:
    """In how many directions words are written: 64, or a quarter of a narrow encoder."""
    return min(64, encoder.width // 4)


def constant_of(encoder: Encoder) -> float:
    """κ: how many times as long as û the word of `unknown` is, a power of two.

    û may have its whole length along one direction of R, where a word has 1/√room of its own: κ > √room (Lemma Q5).
    """
    return float(2.0 ** np.ceil(np.log2(1.5 * np.sqrt(room_of(encoder)))))


def level_of(encoder: Encoder) -> float:
    """ℓ: the bias of the neuron that levels, a power of two.

    It is so large that no û takes the neuron to where the activation changes what it is given.
    """
    return float(2.0 ** np.ceil(np.log2(1.1 * np.sqrt(encoder.width) + encoder.identity + 1.0)))


def read_scale(basis: Floats) -> float:
    """β: what the dense layer of the head multiplies coordinates along R with, a power of two.

    A coordinate of a word is √(D/room), and tanh sees about 2 there.
    """
    D, room = basis.shape
    return float(2.0 ** np.round(np.log2(2.0 * np.sqrt(room / D))))


def steepness(encoder: Encoder) -> float:
    """α for the format of the encoder."""
    return STEEP_FLOAT16 if encoder.format.limited else STEEP


def rounded(numbers: Floats, encoder: Encoder) -> Floats:
    """The nearest numbers in the format of the encoder."""
    as_stored: Floats = (
        torch.from_numpy(np.ascontiguousarray(numbers)).to(getattr(torch, encoder.dtype)).double().numpy()
    )
    return as_stored


def least_used(pooled: Floats, spread: Floats, room: int, encoder: Encoder) -> Floats:
    """Directions R `(D, room)` without a mean in which states differ least, in the format of the encoder.

    `pooled` `(N, D)`: means of texts. `spread` `(D, D)`: the second moments of their tokens, less their mean.
    """
    D = encoder.width
    centred = pooled - pooled.mean(axis=1, keepdims=True)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    ones = np.full((D, 1), D**-0.5)
    moments = centred.T @ centred / len(centred) + TOKENS_COUNT * spread / np.trace(spread)
    _, directions = np.linalg.eigh(moments + 4.0 * ones @ ones.T)  # so that none of the first has a mean
    return rounded(directions[:, :room], encoder)


def outside(basis: Floats) -> Floats:
    """The projection `(D, D)` that leaves out the directions R."""
    Q, _ = np.linalg.qr(basis)
    projection: Floats = np.eye(len(basis)) - Q @ Q.T
    return projection


def key_rows(states: Floats, basis: Floats, encoder: Encoder) -> Floats:
    """α k/√D for states u `(N, D)`, in the format of the encoder."""
    k = states @ outside(basis)
    k -= k.mean(axis=1, keepdims=True)
    length = np.linalg.norm(k, axis=1, keepdims=True)
    return rounded(steepness(encoder) / np.sqrt(encoder.width) * k / length, encoder)


def codes(seed: int, classes: list[str], room: int) -> Floats:
    """A code of ±1 `(K, room)` per class, from a hash of its name: so an answer keeps its word from edit to edit."""
    words = np.empty((len(classes), room))
    for number, name in enumerate(classes):
        kind = "answer" if number else "unknown"
        digest = hashlib.shake_256(f"{seed} {kind} {name}".encode("utf-8", "surrogatepass")).digest(-(-room // 8))
        words[number] = 2.0 * np.unpackbits(np.frombuffer(digest, np.uint8))[:room] - 1.0
    return words


def nearest_codes(words: Floats) -> int:
    """In how many places the two nearest codes differ."""
    room = int(words.shape[1])
    least = room
    short = words.astype(np.float32)
    for start in range(0, len(words), 1024):
        products = short[start : start + 1024] @ short.T
        products[np.arange(len(products)), start + np.arange(len(products))] = -room
        least = min(least, int(room - float(products.max())) // 2)
    return least


def seed_for(classes: list[str], room: int, first: int = 0) -> int:
    """The first seed from `first` on whose codes differ from each other in enough places."""
    wanted = max(1, room // 8)
    for seed in range(first, first + SEEDS):
        if nearest_codes(codes(seed, classes, room)) >= wanted:
            return seed
    raise PrecisionError(
        f"{len(classes) - 1:,} different answers are too many for words in {room} directions of this encoder: two of "
        f"their codes always differ in less than {wanted} places. Take an encoder of larger width, or fewer answers"
    )


def words(basis: Floats, signs: Floats) -> Floats:
    """The word `(K, D)` of each class, of length √D."""
    D, room = basis.shape
    scaled: Floats = np.sqrt(D / room) * signs @ basis.T
    return scaled


def gain_of(rows: Floats, least: float, written: Floats, encoder: Encoder) -> float:
    """g: in float16 as large as Lemma Q2 allows, so that no sum of neurons leaves the format.

    `rows` `(N, D)`: of the neurons. `least`: the least threshold. `written` `(K, D)`: the words.
    """
    if not encoder.format.limited or not len(rows):
        return GAIN
    alpha = steepness(encoder)
    keys = rows * np.sqrt(encoder.width) / alpha
    spectral = float(np.linalg.norm(keys, 2) ** 2)
    together = alpha * spectral / (4.0 * max(0.05, least))
    return float(min(GAIN, 2.0 ** np.floor(np.log2(LARGEST_WRITTEN / (2.0 * together * np.abs(written).max())))))


def attention_output(basis: Floats, encoder: Encoder, pooling: Pooling) -> Floats:
    """The output matrix of the first appended attention."""
    if pooling == "first":
        return np.zeros((encoder.width, encoder.width))
    pool = POOL_FLOAT16 if encoder.format.limited else POOL
    return rounded(pool * outside(basis), encoder)


def tensors(encoder: Encoder, neurons: Neurons, basis: Floats, signs: Floats, pooling: Pooling) -> dict[str, Tensor]:
    """All tensors that are added to those of the encoder, by their names, in its format.

    `basis` `(D, room)`: R. `signs` `(K, room)`: the codes of the classes.
    """
    kind, D, H, room = encoder.kind, encoder.width, encoder.neurons, basis.shape[1]
    dtype, shapes = getattr(torch, encoder.dtype), encoder.block_shapes
    constant, alpha, written, per = constant_of(encoder), steepness(encoder), words(basis, signs), encoder.per_layer
    unknown, level = rounded(written[0] / np.sqrt(D), encoder), level_of(encoder)
    gain = gain_of(neurons.rows, float(neurons.thresholds.min(initial=1.0)), written, encoder)
    named: dict[str, Tensor] = {}

    def put(name: str, numbers: Floats) -> None:
        named[name] = torch.from_numpy(np.ascontiguousarray(numbers)).to(dtype)

    for block in range(encoder.blocks(len(neurons.rows))):
        start, some = encoder.layer(encoder.layers + block), slice(block * per, (block + 1) * per)
        named |= {start + name: torch.zeros(shape, dtype=dtype) for name, shape in shapes.items()}
        for norm in kind.norms:
            put(f"{start}{norm}.weight", np.ones(D))
        rows, tau, count = neurons.rows[some], neurons.thresholds[some], len(neurons.rows[some])
        if block == 0 and pooling == "mean":
            put(f"{start}{kind.linear['V']}.weight", np.eye(D))
            put(f"{start}{kind.linear['O']}.weight", attention_output(basis, encoder, pooling))
        # A later layer sees û divided by √(1 + κ²). κ is a power of two, so its rows keep their digits.
        scale, bias = (1.0, alpha) if block == 0 else (constant, alpha * constant / np.sqrt(1.0 + constant**2))
        W_1, b_1, W_2 = np.zeros((H, D)), np.zeros(H), np.zeros((D, H))
        W_1[:count], b_1[:count] = scale * rows, -bias * tau
        W_2[:, :count] = gain * written[neurons.answers[some]].T
        if block == 0:  # the last neuron returns ℓ + ⟨w, u⟩, so that u is left without its part along w
            W_1[-1], b_1[-1], W_2[:, -1] = unknown, level, -unknown
        put(f"{start}{kind.linear['W_1']}.weight", W_1)
        put(f"{start}{kind.linear['W_1']}.bias", b_1)
        put(f"{start}{kind.linear['W_2']}.weight", W_2)
        if block == 0:
            put(f"{start}{kind.linear['W_2']}.bias", (constant * np.sqrt(D) + level) * unknown)
    dense, head = np.zeros((D, D)), np.zeros((len(signs), D))
    dense[:room] = read_scale(basis) * basis.T
    head[:, :room] = CERTAIN * signs
    if not kind.saturates:  # relu(z) − relu(−z) = z
        dense[room : 2 * room], head[:, room : 2 * room] = -dense[:room], -head[:, :room]
    put(f"{kind.pooler}.weight", dense)
    put(f"{kind.pooler}.bias", np.zeros(D))
    put(f"{kind.head}.weight", head)
    put(f"{kind.head}.bias", np.zeros(len(signs)))
    return named


def stored_basis(dense: Floats, room: int) -> Floats:
    """R `(D, room)`, from the dense layer of the head, which holds a power of two times it."""
    rows = dense[:room]
    basis: Floats = rows.T / read_scale(rows.T)
    return basis
