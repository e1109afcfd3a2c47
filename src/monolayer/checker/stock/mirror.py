"""Robust stock folders: what their numbers must look like, and how far binary32 can move what arrives. Lemma S8.

    mirrored   the second half of every table row, of what attention and neurons write, and of the head is the negative
               of the first: every mean is 0
    places     what queries and keys read, and nothing of tokens: scores depend on places only
    slot       what attention writes: 0 in every table

Weights in a short format are widened; arithmetic is binary32. Anything else is `UnhandledError`.
Letters: `D` width, `E` its half, `S` columns of the slot in the first half, `V` tokens, `L` places, `H` neurons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monolayer.checker.rounding import BINARY32, PADDING, Floats, UnhandledError
from monolayer.checker.stock.bounds import BLOCK
from monolayer.checker.stock.files import Network
from monolayer.data.names import Ints

UNIT, gamma = BINARY32.unit, BINARY32.gamma
EXP_ULPS = 32
"""Assumed of exp in binary32: fused kernels take quicker ones than libraries of functions do."""
MOMENTS = "(D + 16) u X and a variance within (2 D + 64) u X²"
"""Assumed of LayerNorm in binary32, in words; `mean_error` and `variance_error` in numbers."""
LARGEST = 2.0**20
"""Stored numbers are at most this, and those of the head 0 or at least its inverse: nothing overflows."""
UNDERFLOW = 2.0**-40
"""More than all numbers flushed to zero can do: fewer than 2^40 of them, each below 2^-126, times at most 2^44."""
SMALL = 2.0**-6
"""Relative errors must stay below this; `MORE` then covers their products."""
MORE = 1.06
LARGEST_SCORE = 32.0
PLACES = 1 << 12
"""Most places: scores of all pairs are held at once."""
KINDS = ("bert", "roberta", "distilbert", "gpt2", "opt")


@dataclass(frozen=True, eq=False)
class Mirrored:
    """The network in the letters of Lemma S8. Sizes are sums of absolute values."""

    factor: float
    """`f`, of the first norm."""
    scale: float
    """`s`: what tables are multiplied by behind attention, `f` or 1."""
    norm: tuple[float, float]
    """Least and largest `|x|²`."""
    largest: float
    value: Floats
    """What attention writes for a token alone, first half `(V, S)`."""
    value_size: Floats
    drift: Floats
    """What computed means may add to it `(S,)`."""
    scores: Floats | None
    """Of all pairs of places `(L, L)`; None where all are 0."""
    sway: float
    common: float
    """`θ`: relative error of the first norm's factor, one for all coordinates of a vector."""
    own: float
    """`ρ`: relative error of what attention writes beyond `sway` and `common`, of its size."""
    mean: float
    """What a computed mean may be off, in units of the tables."""
    read: Floats
    """`W_1` on the slot, the second half subtracted `(H, S)`."""
    read_size: Floats
    shift: Floats
    """What neurons make of 1 in every coordinate `(H,)`."""
    round: float
    """Relative error of a neuron's sum, of its size."""
    label: Ints
    """Columns of the first half that the head reads."""


def read_mirror(net: Network, used: int) -> Mirrored:
    """All conditions, and the bounds that hold for every point; `used` places occur in the data."""
    D, E = net.width, net.width // 2
    _plain(net)
    places = np.zeros((1, D)) if net.places is None else net.places[net.offset : net.offset + used]
    W_Q, W_K, W_V, W_O = (net.attention[f"W_{letter}"] for letter in "QKVO")
    both = (("tokens", net.tokens), ("places", places), ("W_O", W_O.T), ("W_2", net.W_2), ("the head", net.head))
    for name, rows in both:
        if not np.array_equal(rows[:, :E], -rows[:, E:]):
            raise UnhandledError(f"the halves of {name} are not each other's negative: means are not 0")
    of_token, of_place = (np.abs(table).max(axis=0) > 0.0 for table in (net.tokens, places))
    slot = np.abs(W_O).max(axis=1) > 0.0
    scored = (W_Q != 0).any(axis=0) | (W_K != 0).any(axis=0)
    if (of_token & of_place).any() or (slot & (of_token | of_place)).any():
        raise UnhandledError("tokens, places and attention must write to columns of their own")
    if (scored & (of_token | slot)).any() or (W_V.any(axis=0) & (of_place | slot)).any():
        raise UnhandledError("scores must depend on places only, and values on tokens only")
    shown = np.abs(net.head).max(axis=0) > 0.0
    if ((shown | net.W_2.any(axis=0)) & (of_place | slot)).any():
        raise UnhandledError("label columns must be apart from those of places and of attention")

    K = [(table * table).sum(axis=1) for table in (net.tokens, places)]
    norm = (float(K[0].min() + K[1].min()), float(K[0].max() + K[1].max()))
    X = float(max(np.abs(net.tokens).max(), np.abs(places).max()))
    variance = 0.5 * (norm[0] + norm[1]) / D + net.epsilon
    f = 1.0 / np.sqrt(variance)
    common = factor_error(D, X, variance, 0.5 * (norm[1] - norm[0]) / D)
    mean = MORE * mean_error(D, X)
    scores, sway = _scores(net, places, f, common, mean)

    taken, columns = np.flatnonzero(W_V.any(axis=1)), np.flatnonzero(slot[:E])
    write = W_O[columns][:, taken]
    value, size = (f * net.tokens @ W_V[taken].T) @ write.T, (f * np.abs(net.tokens) @ np.abs(W_V[taken]).T)
    # A computed mean adds one number to all coordinates: what is read of it is the sum of the weights, and roundings.
    drift = MORE * f * mean * (np.abs(write) @ common_mode(W_V[taken]))
    own = MORE * gamma(terms(W_V) + terms(W_O) + 2.0 * used + 64.0)
    W_1 = net.W_1
    return Mirrored(
        factor=float(f),
        scale=float(f) if net.post_norm else 1.0,
        norm=norm,
        largest=X,
        value=value,
        value_size=size @ np.abs(write).T,
        drift=drift + (MORE * f * mean if net.post_norm else 0.0),
        scores=scores,
        sway=sway,
        common=common,
        own=float(own),
        mean=float(mean),
        read=W_1[:, columns] - W_1[:, columns + E],
        read_size=np.abs(W_1[:, columns]) + np.abs(W_1[:, columns + E]),
        shift=common_mode(W_1),
        round=float(gamma(terms(W_1) + 32.0)),
        label=np.flatnonzero(shown[:E]),
    )


def factor_error(D: int, X: float, variance: float, moved: float) -> float:
    """Lemma S1 in binary32: relative error of a norm's factor, the variance being off by at most `moved`."""
    share = (variance_error(D, X) + moved) / variance
    if not share <= SMALL:
        raise UnhandledError(f"a norm errs by {share:.3g}, more than the proof allows")
    return float(MORE * (share + gamma(8.0)))


def terms(weight: Floats) -> float:
    """The most products in a row that are not 0: sums of these round, and zeros add nothing."""
    return float(np.count_nonzero(weight, axis=1).max(initial=0))


def common_mode(weight: Floats) -> Floats:
    """What rows of a matrix make of 1 in every coordinate, rounded in any order."""
    found: Floats = np.abs(weight.sum(axis=1)) + gamma(terms(weight) + 32.0) * np.abs(weight).sum(axis=1)
    return PADDING * found


def mean_error(D: int, X: float) -> float:
    """Assumed of LayerNorm in binary32: its mean within `(D + 16) u X` of the true one."""
    return (D + 16.0) * UNIT * X


def variance_error(D: int, X: float) -> float:
    """Assumed of LayerNorm in binary32: its variance within `(2 D + 64) u X²` of the true one."""
    return (2.0 * D + 64.0) * UNIT * X**2


def _plain(net: Network) -> None:
    """Norms and biases that add nothing, known sizes, activations that are exactly 0 at rest."""
    if net.kind not in KINDS:
        raise UnhandledError(f"robust folders of {net.kind} have rotary positions, which the bounds do not cover")
    if net.activation not in ("relu", "relu6"):
        raise UnhandledError(f"{net.activation} is not exactly 0 at rest in float32; relu and relu6 are")
    if net.W_P is not None:
        raise UnhandledError("the bounds for robust folders do not cover a pooler")
    if net.width % 2 or net.width > 2**14 or len(net.W_1) > 2**20 or not 2.0**-40 <= net.epsilon <= 1.0:
        raise UnhandledError("the width is odd or too large, or the norms' epsilon out of bounds")
    if not all((part == kind).all() for part, kind in zip(net.norms, (1.0, 0.0) * 3, strict=True)):
        raise UnhandledError("a norm has a weight other than 1 or a bias other than 0")
    empty = [net.b_2, *net.zeros, *(net.attention[f"b_{letter}"] for letter in "QKVO")]
    if any(part.any() for part in empty) or (net.head_bias is not None and net.head_bias.any()):
        raise UnhandledError("a bias, or a table of token types, is not 0")
    stored = [net.tokens, net.W_1, net.b_1, net.W_2, net.head, *net.attention.values()]
    for tensor in (*stored, *(() if net.places is None else (net.places,))):
        if np.abs(tensor).max(initial=0.0) > LARGEST:
            raise UnhandledError("numbers are too large for the bounds")
    if np.abs(net.head[net.head != 0]).min(initial=1.0) < 1.0 / LARGEST:
        raise UnhandledError("the head holds numbers too small for the bounds")


def _scores(net: Network, places: Floats, f: float, common: float, mean: float) -> tuple[Floats | None, float]:
    """Scores of all pairs of places, and by how much relatively attention may be wrong (Lemma R1)."""
    D, n = net.width, len(places)
    W_Q, W_K = net.attention["W_Q"], net.attention["W_K"]
    heads = np.flatnonzero(W_Q.any(axis=1) & W_K.any(axis=1))
    noise = (4.0 * EXP_ULPS + (2.0 + n / BLOCK) * (2.0 * EXP_ULPS + 2.0)) * UNIT
    scores = None
    if len(heads):
        if n > PLACES:
            raise UnhandledError(f"{n:,} places are more than the bound holds at once")
        q, k = (f * places @ W[heads].T for W in (W_Q, W_K))
        scores = q @ k.T / D**0.5
        sizes = [(f * np.abs(places) @ np.abs(W[heads]).T).max(axis=0) for W in (W_Q, W_K)]
        wrong = [
            MORE * (gamma(terms(W) + 16.0) * size + f * mean * common_mode(W[heads]))
            for size, W in zip(sizes, (W_Q, W_K), strict=True)
        ]
        R = float((sizes[0] * sizes[1]).sum()) / D**0.5
        if not R <= LARGEST_SCORE:
            raise UnhandledError(f"scores reach {R:.3g}; the bounds cover {LARGEST_SCORE:g}")
        moved = float((wrong[0] * sizes[1] + sizes[0] * wrong[1] + wrong[0] * wrong[1]).sum()) / D**0.5
        # The factors of two places are wrong in common for all of their coordinates.
        noise += MORE * (2.0 * common * np.abs(scores).max() + moved + gamma(D + 16.0) * R + 8.0 * UNIT * (1.0 + R))
    if not noise <= SMALL:
        raise UnhandledError(f"scores are uncertain by {noise:.3g}, more than the proof allows")
    return scores, float(PADDING * np.exp(noise) * np.expm1(noise))
