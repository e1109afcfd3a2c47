"""Bound where each neuron is silent and where it is awake, in terms of û (Lemmas Q1 to Q3), and around its own key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.checker.questions.files import QuestionFolder
from monolayer.checker.questions.words import Words, centred, lengths
from monolayer.checker.rounding import BINARY32, PADDING, UnhandledError

DIP = 0.3
"""Below 0, gelu and silu return at least −0.17 and −0.28, so never less than −`DIP`."""
FINITE = 2.0**60
WIDTHS = (2.0**-4, 2.0**-8, 2.0**-12, 2.0**-16)
"""Claims about the surroundings of a key are made for 1 − cos(k, û) up to one of these. The fewer neighbours can be
between silent and awake there, the less its own neuron must return."""
LEAST_REACH = 2.0**-18
"""A question counts as proved if its surroundings are at least this wide."""
COSINES_AT_ONCE = 1 << 22
SLACK = 2.0**-30
"""Exceeds the rounding errors, in binary64, of the bounds on cosines."""


@dataclass(frozen=True, eq=False)
class Caps:
    """Where neurons `(N,)` are silent and awake.

    `keys` `(N, D)`: their keys. `silent`: the neuron returns 0 where ⟨k, û⟩ is at most this, provided that no neuron of
    an earlier layer fires. `awake`: where ⟨k, û⟩ is at least this, it returns enough for its answer, likewise.
    `reach`: the answer is proved where 1 − cos(k, û) is at most this and |û| is between 1 − `length` and 1 + `length`,
    whatever the other neurons do; 0 if nothing is.
    """

    keys: Floats
    silent: Floats
    awake: Floats
    reach: Floats
    length: float

    @property
    def strip(self) -> float:
        """The width of the widest strip between silent and awake."""
        return float(np.max(self.awake - self.silent, initial=0.0))


class Inputs:
    """The inputs of neurons as functions of ⟨k, û⟩ (Q1, Q3)."""

    def __init__(self, folder: QuestionFolder, words: Words) -> None:
        self.folder, self.words = folder, words
        encoder, sizes = folder.encoder, words.sizes
        D, root, x = encoder.width, sizes.root, words.x
        self.size = lengths(folder.reads)
        if not (self.size > 0.0).all():
            raise UnhandledError("a neuron of a question reads nothing")
        self.keys, self.alpha = folder.reads / self.size[:, None], self.size * root
        self.err = PADDING * (BINARY32.gamma(D + 2.0) * (self.size * x + np.abs(folder.bias)) + 2.0**-90)
        self.most = (1.01 + 4.0 * sizes.round) * np.maximum(1.0, self.size * x + folder.bias + self.err)
        largest = float(np.max(self.size * x + np.abs(folder.bias) + self.err, initial=0.0))
        if not largest <= min(FINITE, encoder.format.largest):
            raise UnhandledError("a neuron reads with weights so large that its input may not be finite")
        self._check_finite()

    def _check_finite(self) -> None:
        """Refuse neurons that could write a number that is not finite (Q2)."""
        folder, fmt, words = self.folder, self.folder.encoder.format, self.words
        rest = float(np.abs(folder.constant).max()) + words.x + words.level.most
        for layer in range(folder.layers):
            mine = np.flatnonzero(folder.layer == layer)
            if not len(mine):
                continue
            peak = float(np.abs(folder.writes[mine]).max())
            total = float(self.most[mine].sum()) * peak + rest
            room = min(FINITE / words.sizes.root, fmt.largest / (1.0 + 4.0 * words.sizes.round))
            if total <= room:
                continue
            rows, most = self.folder.reads[mine], 1.01 + 4.0 * words.sizes.round
            gram = rows @ rows.T
            spectral = PADDING * min(float(np.abs(gram).sum(axis=1).max()), float(np.sqrt((gram * gram).sum())))
            start = float((-folder.bias[mine] - self.err[mine] - folder.encoder.silence - 1.0).min())
            if not start > 0.0:
                raise UnhandledError("neurons may add up to numbers that are not finite")
            together = PADDING * most * spectral * words.x**2 / (4.0 * start)
            if not together * peak + rest <= room:
                raise UnhandledError(
                    f"neurons of one layer may add up to {together * peak:.3g} in a coordinate, and numbers end at "
                    f"{room:.3g}"
                )

    def thresholds(self, level: Floats) -> tuple[Floats, Floats]:
        """Up to which ⟨k, û⟩ each neuron is silent, and from which on its input is at least `level` `(N,)`."""
        folder, words = self.folder, self.words
        root, bias = words.sizes.root, folder.bias
        silent = (-folder.encoder.silence - bias - self.err) / self.alpha
        awake = (level - bias + self.err) / self.alpha
        if folder.layers > 1:
            near, far, flat = words.seen_length
            later = folder.layer > 0
            seen = centred(folder.reads)
            slack = np.abs(seen @ words.seen) + lengths(seen) * words.quiet
            slack += np.abs(seen @ words.level.writes) * words.level.loose
            slack += lengths(words.level.carried(seen) - folder.reads) * words.x
            moved = np.array([words.sizes.after(max(1, 2 * layer), flat) for layer in range(folder.layers)])[
                folder.layer
            ]
            drift = PADDING * (self.size * root * moved + self.err)
            low, high = -folder.encoder.silence - bias - drift, level - bias + drift
            s = (low * np.where(low > 0.0, near, far) / root - PADDING * slack) / self.alpha
            c = (high * np.where(high > 0.0, far, near) / root + PADDING * slack) / self.alpha
            silent, awake = np.where(later, s, silent), np.where(later, c, awake)
        return silent - SLACK * (1.0 + np.abs(silent)), awake + SLACK * (1.0 + np.abs(awake))


def caps_of(folder: QuestionFolder, words: Words) -> Caps:
    """Where neurons are silent and awake, and what is proved around their keys."""
    inputs, fmt = Inputs(folder, words), folder.encoder.format
    least = words.least[np.minimum(folder.layer, 1), folder.answers]
    kept = 0.999 - 4.0 * words.sizes.round
    level = np.maximum(folder.encoder.identity, least / kept)
    silent, awake = inputs.thresholds(level)
    length = (folder.encoder.width + 16) * 2.0**-24 + (words.sizes.round if fmt.short else 0.0)
    around = _neighbours(folder, inputs.keys, silent / (1.0 + length), awake / (1.0 - length))
    reach = np.zeros(len(level))
    for width, loose in zip(WIDTHS, around.loose, strict=True):
        dips = DIP * loose
        wanted = np.maximum(level, (np.maximum(least, dips) + dips) / kept)
        near = 1.0 - inputs.thresholds(wanted)[1] / (1.0 - length)
        here = np.minimum(near, np.minimum(1.0 - np.cos(around.free), width)) - SLACK
        reach = np.fmax(reach, here)  # a NaN claims nothing
    return Caps(inputs.keys, silent, awake, np.where(np.isfinite(level), reach, 0.0), length)


class Neighbours(NamedTuple):
    """What neurons do around the keys of others.

    `free` `(N,)`: up to this angle from the key no neuron of its layer or an earlier one is in the way. `loose`
    `(W, N)`: for each of `WIDTHS`, how many neurons of the same answer and layer may be neither silent nor awake there:
    each may take `DIP` off.
    """

    free: Floats
    loose: Ints


def _neighbours(folder: QuestionFolder, keys: Floats, silent: Floats, awake: Floats) -> Neighbours:
    """What is around each key `(N, D)`; neurons are silent and awake up to and from these cosines `(N,)` on."""
    count, answers = len(keys), folder.answers
    silent_angle, awake_angle = (np.arccos(np.clip(cosine, -1.0, 1.0)) for cosine in (silent, awake))
    free, loose = np.zeros(count), np.zeros((len(WIDTHS), count), dtype=np.int64)
    step = max(1, COSINES_AT_ONCE // max(1, count))
    for start in range(0, count, step):
        some = slice(start, min(count, start + step))
        rows = np.arange(count)[some]
        angle = np.arccos(np.clip(keys[some] @ keys.T + SLACK, -1.0, 1.0))
        apart = angle - silent_angle  # within this of the key the other neuron is silent
        sure = np.maximum(apart, awake_angle - angle)  # within this it is silent, or it is awake
        same, together = answers[some][:, None] == answers, folder.layer[some][:, None] == folder.layer
        earlier = folder.layer < folder.layer[some][:, None]
        here = np.where(earlier & same, sure, apart)
        free[some] = np.where((earlier | together) & ~(same & together), here, np.inf).min(axis=1)
        # In the same layer a neuron of the same answer adds to it, or takes off DIP at most.
        others = same & together
        others[np.arange(len(rows)), rows] = False
        loose[:, some] = [(others & ~(sure >= np.arccos(1.0 - width))).sum(axis=1) for width in WIDTHS]
    return Neighbours(np.clip(free, 0.0, np.pi), loose)
