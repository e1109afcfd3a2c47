"""Bound what the head says about the words that neurons write, and about that of `unknown` (Lemmas Q4 to Q6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monolayer.arrays import Floats
from monolayer.checker.questions.files import QuestionFolder
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

UNIT = BINARY32.unit
WANTED = 0.5
"""What the argument of tanh must be at least, in size, at words that neurons write (Q5)."""
FLATTEST = 4.0
"""How many times as long as it is less its mean a state with a word may be at most (Q4)."""
ENTRY = 8.0
"""By how many u a norm may be off in each coordinate, besides its mean and its scale (Q3)."""
TANH = 2.0**-10
"""The share by which tanh may be off, before it is rounded to the format."""
CODES_AT_ONCE = 1 << 10


def lengths(rows: Floats) -> Floats:
    """The lengths `(n,)` of rows `(n, D)`."""
    norms: Floats = np.sqrt((rows * rows).sum(axis=-1))
    return norms


def centred(rows: Floats) -> Floats:
    """Rows less their mean: what norms see of them."""
    centred_rows: Floats = rows - rows.mean(axis=-1, keepdims=True)
    return centred_rows


@dataclass(frozen=True, eq=False)
class Sizes:
    """What bounds need to know of the format: λ, the largest |û|; v, its unit roundoff; and numbers lost next to 0."""

    folder: QuestionFolder

    @cached_property
    def anywhere(self) -> float:
        """λ: |û| is at most this at any state."""
        fmt, D = self.folder.encoder.format, self.folder.encoder.width
        return 1.0 + max((D + 16) * UNIT + (fmt.unit if fmt.short else 0.0), fmt.beyond)

    @property
    def round(self) -> float:
        """v: the unit roundoff of the format."""
        return float(self.folder.encoder.format.unit)

    @property
    def root(self) -> float:
        """√D."""
        return float(np.sqrt(self.folder.encoder.width))

    def norm_error(self, flat: float) -> float:
        """ν: how far what a norm returns is from the true vector, over √D; `flat`: κ of its argument."""
        D, fmt = self.folder.encoder.width, self.folder.encoder.format
        rounded = 1.01 * fmt.unit if fmt.short else 0.0
        return float(PADDING * (2.0 * (D + 16) * UNIT * flat**2 + rounded + 2.0 * fmt.lost))

    def norm_turn(self, flat: float) -> float:
        """υ: how far what a norm returns is, over √D, from a multiple of the true vector plus one of (1, …, 1)."""
        fmt = self.folder.encoder.format
        rounded = 1.01 * fmt.unit if fmt.short else 0.0
        return float(PADDING * (ENTRY * UNIT * flat + rounded + 2.0 * fmt.lost))

    def after(self, norms: int, flat: float) -> float:
        """ω: how far a direction has moved, over √D, after this many norms, the first of a state with κ = `flat` (Q3).

        Each norm turns it by its υ. Only the last one's error of length counts, because further norms take it out.
        """
        turned, error = 0.0, self.norm_error(flat)
        for _ in range(norms - 1):
            if not turned + error <= 0.25:
                break
            turn = self.norm_turn(flat) / (1.0 - error)
            turned += turn * (1.0 + turn**2)
            flat = (1.0 + error) / (1.0 - error)
            error = self.norm_error(flat)
        moved = turned + error + (self.folder.encoder.epsilon / (1.0 - error) ** 2 if norms > 1 else 0.0)
        if not moved <= 0.25:
            raise UnhandledError("roundings of norms add up to more than the proof covers")
        return float(PADDING * moved)


class Levelled:
    """What the neuron that levels makes of x = √D û: Mx + ℓ v + δ v, with M = I + v wᵀ and |δ| ≤ `loose` (Q3).

    `size`: |v|. `longest`: at least |M|. `most`: the longest vector that the neuron writes.
    """

    def __init__(self, folder: QuestionFolder, x: float) -> None:
        encoder, (reads, bias, writes) = folder.encoder, folder.level
        self.reads, self.writes = reads, writes
        v, gamma = encoder.format.unit, BINARY32.gamma(encoder.width + 2.0)
        size = float(lengths(reads))
        err = PADDING * gamma * (size * x + abs(bias)) + 2.0**-90
        least, most = bias - size * x - err, bias + size * x + err
        if not size > 0.0 or not least * (1.0 - 2.0 * v) >= encoder.identity + 1.0:
            raise UnhandledError("the neuron that levels is not awake at every û")
        if not most * (1.0 + 4.0 * v) <= encoder.format.largest:
            raise UnhandledError("the neuron that levels may return a number that is not finite")
        self.size = float(lengths(writes))
        self.loose = PADDING * ((0.001 + 5.0 * v) * most + err)
        self.most = PADDING * (1.0 + 4.0 * v) * most * self.size
        along = float(writes @ reads) / size
        across = float(lengths(writes - along / size * reads))
        self.longest = PADDING * (max(1.0, abs(1.0 + size * along)) + size * across)

    def carried(self, rows: Floats) -> Floats:
        """Mᵀ w for rows w `(…, D)`: ⟨w, Mx⟩ = ⟨Mᵀw, x⟩."""
        states: Floats = rows + (rows @ self.writes)[..., None] * self.reads
        return states


class Words:
    """The words that are written, as norms and the head see them.

    `written` `(K, D)`: the row that all neurons of a class write; 0 for a class without neurons, and for `unknown`.
    """

    def __init__(self, folder: QuestionFolder) -> None:
        self.folder, self.sizes = folder, Sizes(folder)
        encoder, answers = folder.encoder, folder.answers
        self.written = np.zeros((len(folder.classes), encoder.width))
        self.written[answers] = folder.writes
        if not np.array_equal(self.written[answers], folder.writes):
            raise UnhandledError("two neurons with the same answer write different rows")
        self.there = np.zeros(len(folder.classes), dtype=bool)
        self.there[answers] = True
        self.dense = centred(folder.dense)
        self.reads, self.whole = lengths(self.dense), lengths(folder.dense)
        self.x = x = self.sizes.anywhere * self.sizes.root
        self.level = Levelled(folder, x)
        constant = folder.constant + folder.level.bias * folder.level.writes
        self.seen = centred(constant)
        # What neurons of the first layer outweigh: û and the word of `unknown`. Later layers add no such word.
        self.ground = np.array([1.0, 0.0])[:, None] * np.abs(self.dense @ self.seen)
        self.base = np.array([float(lengths(constant)), 0.0])
        self.left = np.array([self.level.longest * x, x])
        # How errors of sums grow with what is written, and what they are without it (Q4).
        H, v, fmt = encoder.neurons, self.sizes.round, encoder.format
        added = np.array([float(lengths(folder.constant)) + self.level.most + x, x])
        spacing, loose = 4.0 * self.sizes.root * fmt.lost, np.array([self.level.loose * self.level.size, 0.0])
        self.share = 3.0 * PADDING * (BINARY32.gamma(H + 4.0) + 3.1 * v)
        self.lost = PADDING * ((BINARY32.gamma(H + 4.0) + 3.1 * v) * added + spacing + loose)
        # Where no neuron of a question fires, sums have no more than four terms that are not 0 (Q3).
        self.quiet = float(PADDING * ((BINARY32.gamma(8.0) + 3.1 * v) * added[0] + spacing))

    @cached_property
    def apart(self) -> int:
        """In how many places the codes of two classes differ, at least; 0 if two are equal."""
        signs = self.folder.signs.astype(np.float32)
        places = int(signs.shape[1])
        least = places
        for start in range(0, len(signs), CODES_AT_ONCE):
            products = signs[start : start + CODES_AT_ONCE] @ signs.T
            products[np.arange(len(products)), start + np.arange(len(products))] = -places
            least = min(least, int(places - float(products.max())) // 2)
        return least

    def decides(self, seen: float) -> bool:
        """Whether the class whose signs all coordinates have has the largest logit, in every evaluation (Q6).

        `seen`: the argument of tanh, or of relu, is at least this in size, everywhere.
        """
        D, room, v = self.folder.encoder.width, self.folder.signs.shape[1], self.sizes.round
        if self.folder.encoder.kind.saturates:
            least, most = (1.0 - TANH - 4.0 * v) * float(np.tanh(seen)), float(room)
        else:  # of relu(z) and relu(−z) one is |z| and the other 0
            least, most = seen, PADDING * 1.1 * float(np.sqrt(room) * np.linalg.norm(self.folder.dense, 2)) * self.x
        doubt = PADDING * 2.0 * most * 1.01 * (BINARY32.gamma(D + 4.0) + 1.1 * v) + 2.0**-20
        fits = 2.0 * self.folder.scale * most <= self.folder.encoder.format.largest
        return bool(fits and 2.0 * self.apart * least > doubt)

    def _head_error(self, moved: float) -> Floats:
        """How far the arguments of tanh `(R,)` may be off when a direction has moved by `moved` (ω)."""
        D, v, fmt = self.folder.encoder.width, self.sizes.round, self.folder.encoder.format
        whole = self.whole * self.sizes.root
        size = whole * (1.0 + moved)
        error: Floats = PADDING * (whole * moved + (BINARY32.gamma(D + 4.0) + 2.0 * v) * size + 4.0 * D * fmt.lost)
        return error

    @cached_property
    def least(self) -> Floats:
        """How much neurons of a class must return together for their answer (Q5), `(2, K)`; ∞ if nothing suffices.

        The first row is about neurons of the first appended layer, the second about later ones.
        """
        layers, root = self.folder.layers, self.sizes.root
        moved = self.sizes.after(1 + 2 * (layers - 1), FLATTEST)
        wanted = (WANTED + self._head_error(moved)) / root  # (R,)
        along = self.folder.signs * (self.written @ self.dense.T)  # (K, R)
        whole, seen = lengths(self.written)[:, None], lengths(centred(self.written))[:, None]
        bounds = np.full((2, len(self.written)), np.inf)
        for later in range(2):
            other = self.base[later] + self.left[later] + root * np.sqrt(self.folder.encoder.epsilon) + self.lost[later]
            gain = along - PADDING * (self.reads * self.share * whole + wanted * (seen + self.share * whole))
            need = self.ground[later] + self.reads * (self.left[later] + self.lost[later]) + wanted * other
            flat = FLATTEST * seen - (1.0 + (FLATTEST + 1.0) * self.share) * whole  # so that κ ≤ FLATTEST
            with np.errstate(divide="ignore", invalid="ignore"):
                signs = np.where(gain > 0.0, need / gain, np.inf).max(axis=1)
                length = np.where(flat > 0.0, (FLATTEST + 1.0) * other / flat, np.inf)[:, 0]
            bounds[later] = np.where(self.there, PADDING * np.maximum(signs, length), np.inf)
        if not self.decides(WANTED):
            raise UnhandledError("the codes of two answers are so near that roundings of logits may confuse them")
        return self._quiet(bounds)

    def _quiet(self, least: Floats) -> Floats:
        """Raise `least` until what is written wakes no neuron of a later layer (Q5)."""
        folder = self.folder
        if folder.layers == 1:
            return least
        moved = self.sizes.after(2 * (folder.layers - 1), FLATTEST)
        root, D = self.sizes.root, folder.encoder.width
        later = np.flatnonzero(folder.layer > 0)
        rows, bias = centred(folder.reads[later]), folder.bias[later]
        size, plain = lengths(rows), lengths(folder.reads[later])
        error = PADDING * BINARY32.gamma(D + 2.0) * (plain * self.x + np.abs(bias)) + 2.0**-90
        # Where the direction of what is written is d, the input is at most √D(⟨w, d⟩ + |w|ω) + b, and must be below −S.
        room = (-folder.encoder.silence - bias - error) / root - plain * moved
        if not (room > 0.0).all():
            raise UnhandledError("a neuron of a later layer may not be silent behind another one's answer")
        whole, seen = lengths(self.written), lengths(centred(self.written))
        for turn in range(2):
            other = self.base[turn] + self.left[turn] + self.lost[turn]
            for start in range(0, len(self.written), CODES_AT_ONCE):
                some = slice(start, start + CODES_AT_ONCE)
                product = np.abs(self.written[some] @ rows.T) + PADDING * size * self.share * whole[some, None]
                held = np.abs(rows @ self.seen) * (turn == 0)
                gain = room * (seen[some, None] - self.share * whole[some, None]) - product
                need = held + size * (self.left[turn] + self.lost[turn]) + room * other
                with np.errstate(divide="ignore", invalid="ignore"):
                    wanted = np.where(gain > 0.0, need / gain, np.inf).max(axis=1)
                least[turn, some] = np.maximum(least[turn, some], PADDING * wanted)
        return least

    @cached_property
    def seen_length(self) -> tuple[float, float, float]:
        """Behind the first layer, where no neuron fires: least and largest length of a state less its mean, and κ."""
        level, error = self.level, self.quiet
        seen, rest = float(lengths(self.seen)), float(self.left[0]) + level.loose * level.size
        # |B̄ + z|² = |B̄|² + 2⟨B̄, z⟩ + |z|², and z = Mx + δ v is almost at right angles to B̄ (Q3).
        product = 2.0 * float(lengths(level.carried(self.seen)) * self.x + level.loose * abs(self.seen @ level.writes))
        least = np.sqrt(max(0.0, seen**2 - PADDING * product)) - error
        most = np.sqrt(seen**2 + PADDING * (product + rest**2)) + error
        most += self.sizes.root * np.sqrt(self.folder.encoder.epsilon)
        if not least > 0.0:
            raise UnhandledError("the word of `unknown` does not outweigh the longest û")
        flat = PADDING * (float(self.base[0]) + rest + error) / least
        return float(least / PADDING), float(most * PADDING), float(flat)

    def unknown_decides(self) -> bool:
        """Whether `unknown` has the largest logit wherever all neurons are silent, whatever û is (Q5, Q6)."""
        least, most, flat = self.seen_length
        rest = self.left[0] + self.level.loose * self.level.size + self.quiet
        along = self.folder.signs[0] * (self.dense @ self.seen) - self.reads * rest
        moved = self.sizes.after(1 + 2 * (self.folder.layers - 1), flat)
        seen = self.sizes.root * along / most / PADDING - self._head_error(moved)
        return bool(least > 0.0 and self.decides(float(seen.min())))
