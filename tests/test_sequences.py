"""Sequences against slow references made of Python lists, and every message for bad input."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from monolayer.data import Labels, NameBuilder, Names, Sequences
from monolayer.data.plan import ReadPlan, plan_lines
from monolayer.data.shards import join_datasets
from monolayer.errors import DataError

CALM = settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])  # machines may be slow
IDS = st.one_of(st.integers(0, 5), st.integers(0, 5000), st.integers(0, 2**63 - 1))
WORDS = st.text(max_size=3)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def tokens(draw: st.DrawFn) -> list[list[Any]]:
    """Lists of sequences of one kind of token."""
    dim = draw(st.integers(1, 3))
    vector = st.lists(NUMBERS, min_size=dim, max_size=dim)
    kind = draw(st.sampled_from([IDS, WORDS, vector]))
    return draw(st.lists(st.lists(kind, min_size=1, max_size=5), min_size=1, max_size=6))


@st.composite
def labelled(draw: st.DrawFn) -> tuple[list[list[Any]], list[Any], str]:
    """Sequences, labels, and whether those go by token."""
    X = draw(tokens())
    # No vectors: a list of reals as long as the sequence would go by token.
    kind = draw(st.sampled_from([st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.booleans(), WORDS, NUMBERS]))
    if draw(st.booleans()):
        return X, [draw(st.lists(kind, min_size=len(row), max_size=len(row))) for row in X], "token"
    return X, draw(st.lists(kind, min_size=len(X), max_size=len(X))), "sequence"


def names_of(data: Sequences) -> list[Any]:
    """The tokens as the user wrote them."""
    flat = data.tokens if data.vocabulary is None else data.vocabulary.decode(data.tokens)
    return [part.tolist() for part in data.split(flat)]


def labels_of(data: Sequences) -> list[Any]:
    assert data.labels is not None
    flat = data.labels.decode(data.labels.values)
    return flat.tolist() if data.labels.per == "sequence" else [part.tolist() for part in data.split(flat)]


# -- what goes in comes out ----------------------------------------------------------------------------


@CALM
@given(labelled(), st.data())
def test_what_goes_in_comes_out_whole_or_chosen(
    case: tuple[list[list[Any]], list[Any], str], draw: st.DataObject
) -> None:
    X, Y, per = case
    data = Sequences.of(X, Y)
    assert names_of(data) == X
    assert labels_of(data) == Y
    assert data.labels is not None
    assert data.labels.per == per
    places = [(i, k) for i, row in enumerate(X) for k in range(len(row))]
    assert list(zip(data.sequence.tolist(), data.position.tolist(), strict=True)) == places
    assert [data.where(flat) for flat in range(len(places))] == [f"token {k} of sequence {i}" for i, k in places]
    assert data.offsets.tolist() == [sum(map(len, X[:i])) for i in range(len(X) + 1)]
    assert data.rectangular == (len({len(row) for row in X}) == 1)
    rows = draw.draw(st.lists(st.integers(-len(X), len(X) - 1), min_size=1, max_size=8))
    chosen = data.select(np.array(rows))
    assert names_of(chosen) == [X[row] for row in rows]
    assert labels_of(chosen) == [Y[row] for row in rows]
    mask = np.arange(len(X)) % 2 == 0
    assert names_of(data.select(mask)) == X[::2]
    if data.vocabulary is not None:
        assert len(data.vocabulary) <= 4 * len({token for row in X for token in row}) + 1024
        own = Names(tuple(sorted({token for row in X for token in row}, reverse=True)))
        for again in (Sequences.of(X, vocabulary=own), Sequences.of(data, vocabulary=own)):
            assert again.vocabulary == own
            assert [own.names[row] for row in again.tokens] == [token for row in X for token in row]


@CALM
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_a_padded_array_is_the_lists_it_was_padded_from(sizes: list[int], draw: st.DataObject) -> None:
    ids = draw.draw(arrays(np.int64, (len(sizes), 4), elements=st.integers(0, 9)))
    X = [row[:size].tolist() for row, size in zip(ids, sizes, strict=True)]
    Y = [[-token for token in row] for row in X]
    padded = np.where(np.arange(4) < np.array(sizes)[:, None], ids, -7)
    for labels in (-ids, (-ids).tolist(), Y, np.array(Y, dtype=object) if len(set(sizes)) > 1 else Y):
        data = Sequences.of(padded, labels, lengths=sizes)
        assert names_of(data) == X
        assert labels_of(data) == Y
    per_sequence = Sequences.of(padded, np.array(sizes), lengths=torch.tensor(sizes))
    assert labels_of(per_sequence) == sizes


@CALM
@given(arrays(np.float64, array_shapes(min_dims=3, max_dims=3, max_side=4), elements=NUMBERS))
def test_arrays_tensors_and_lists_agree(X: np.ndarray[Any, Any]) -> None:
    expected = X.reshape(-1, X.shape[2])
    for form in (X, torch.from_numpy(X), X.tolist(), list(X), [list(row) for row in X], X.astype(object)):
        data = Sequences.of(form)
        assert data.vocabulary is None
        np.testing.assert_array_equal(data.tokens, expected)


STRINGS, NUMBERS_TOO = [["a", "b"], ["b"]], [[1, 0], [1]]


@pytest.mark.parametrize(
    ("X", "names"),
    [
        ([("a", "b"), np.array(["b"], dtype=object)], STRINGS),
        ([[np.str_("a"), "b"], ["b"]], STRINGS),
        ((row for row in [["a", "b"], ["b"]]), STRINGS),
        ([np.array(["a", "b"], dtype=np.dtypes.StringDType()), ["b"]], STRINGS),
        (["ab", "b"], STRINGS),  # a string in the place of a sequence is that of its characters
        ([np.array([1, 0], dtype=np.uint8), np.array([1])], NUMBERS_TOO),
        ([torch.tensor([1, 0]), torch.tensor([1])], NUMBERS_TOO),
        ([[np.int32(1), 0], [torch.tensor(1)]], NUMBERS_TOO),
    ],
)
def test_tokens_in_any_dress(X: Any, names: list[Any]) -> None:
    data = Sequences.of(X)
    assert names_of(data) == names
    assert names is STRINGS or data.vocabulary == Names(range(2))


@pytest.mark.parametrize(
    ("Y", "per", "decoded"),
    [
        ([np.array(["a", "b"]), ["a"]], "token", [["a", "b"], ["a"]]),
        (["ab", "ba"], "sequence", ["ab", "ba"]),
        (np.array([True, False]), "sequence", [1, 0]),
        ([torch.tensor(7), torch.tensor(-7)], "sequence", [7, -7]),
        ([[1, 0.5], [2]], "token", [[1.0, 0.5], [2.0]]),
        (np.array([[0.5, 1, 2], [3, 4, 5]]), "sequence", [[0.5, 1, 2], [3, 4, 5]]),
        ([[1, 0.5, 0.5], [3.5, 4, 5]], "sequence", [[1, 0.5, 0.5], [3.5, 4, 5]]),
        ([[[0, 1.5], [1, 0]], [[0, 0]]], "token", [[[0, 1.5], [1, 0]], [[0, 0]]]),
        ([np.eye(2), np.ones((1, 2), dtype=int)], "token", [[[1, 0], [0, 1]], [[1, 1]]]),
        (torch.tensor([0.5, 0.25], dtype=torch.bfloat16, requires_grad=True), "sequence", [0.5, 0.25]),
    ],
    ids=str,
)
def test_labels_in_any_dress(Y: Any, per: str, decoded: list[Any]) -> None:
    data = Sequences.of([["x", "y"], ["z"]], Y)
    assert data.labels is not None
    assert data.labels.per == per
    assert labels_of(data) == decoded


def test_where_lengths_agree_labels_go_by_token() -> None:
    for Y, scalar, shape in ((np.ones((2, 3)), True, (6, 1)), (np.ones((2, 3, 4), int), False, (6, 4))):
        labels = Sequences.of(np.zeros((2, 3), int), Y).labels
        assert labels is not None
        assert (labels.per, labels.scalar, labels.values.shape) == ("token", scalar, shape)


def test_minus_zero_is_zero_to_the_bit() -> None:
    data = Sequences.of([[[-0.0, 1.0]], [[0.0, 1.0]]], [-0.0, 0.0])
    assert data.labels is not None
    assert not np.signbit([*data.tokens.flat, *data.labels.values.flat]).any()


def test_later_changes_to_the_arrays_do_not_reach_the_data() -> None:
    X, Y, Z = np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3), np.ones((2, 1, 2))
    data, vectors, given = Sequences.of(X, Y), Sequences.of(Z), Sequences.of(X, Y, ours=True)
    assert np.shares_memory(given.tokens, X), "unless they are given away"
    X[:], Y[:], Z[:] = 0, 0, 0
    assert data.labels is not None
    assert data.tokens.tolist() == data.labels.values.tolist() == list(range(6))
    assert vectors.tokens.all()


# -- names ---------------------------------------------------------------------------------------------


@CALM
@given(st.lists(WORDS, min_size=1), st.integers(1, 4))
def test_name_builder_numbers_by_first_appearance(flat: list[str], cut: int) -> None:
    builder = NameBuilder()
    rows = [row for start in range(0, len(flat), cut) for row in builder.encode(flat[start : start + cut])]
    assert rows == [list(dict.fromkeys(flat)).index(name) for name in flat]
    names, renumbered = builder.freeze(np.array(rows))
    assert names.decode(renumbered).tolist() == flat
    assert list(names.names) == sorted(set(flat))


@pytest.mark.parametrize("names", [("a", "b", "a"), (1, 2, 1), range(1, 3), range(0, 4, 2)], ids=str)
def test_names_are_distinct_and_ranges_start_at_zero(names: Any) -> None:
    with pytest.raises(DataError, match=r"stands twice|are not their own row numbers"):
        Names(names)


# -- every message -------------------------------------------------------------------------------------

NAN = math.nan
BAD_X: list[tuple[Any, str]] = [
    ([], "the data are empty"),
    ([["a"], []], "sequence 1 is empty"),
    ("abc", "X is a str: it must be a list or an array of sequences"),
    (np.array([[b"a"]]), "type |S1"),
    ([[0.5, 1.5]], "token 0 of sequence 0 is 0.5 (a real number): a token is an integer, a string or a vector"),
    ([["a", 1]], "mixed token kinds: the first token is a string ('a'), token 1 of sequence 0 is an integer (1)"),
    ([[1, 2], [3, -4]], "token 1 of sequence 1 has id -4: ids below zero are not allowed"),
    ([[1], [2**63]], "token 0 of sequence 1 is 9223372036854775808, beyond 63 bits: make it a string"),
    (np.array([[1, 2**63]], np.uint64), "token 1 of sequence 0 is 9223372036854775808, beyond 63 bits"),
    ([[[1.0, 2.0]], [[1.0]]], "token 0 of sequence 1 is [1.0], not a vector of 2 numbers: give all one"),
    ([np.ones((2, 2)), np.ones((1, 3))], "token 0 of sequence 1 is array([1., 1., 1.]), not a vector of 2 numbers"),
    ([[[1.0], ["2"]]], "token 1 of sequence 0 is ['2'], not a vector of 1 number"),
    ([[[[1.0], [1, 2]]]], "token 0 of sequence 0 is [[1.0], [1, 2]], not a vector of 2 numbers"),
    ([[[1.0], "a"]], "mixed token kinds: the first token is a real vector ([1.0]), token 1 of sequence 0"),
    (np.ones((1, 1, 1), np.longdouble), "of at most 64 bits"),
    ([[[1.0, 2.0], [1.0, NAN]]], "token 1 of sequence 0 is [1.0, nan]: NaN and infinity are not allowed"),
]
BAD_Y: list[tuple[Any, str]] = [  # for X = [["a", "b"], ["c"]]
    (["x"], "X has 2 sequences but Y has 1 row: give one row each"),
    ("xy", "Y is a str: it must be a list or an array, one row per sequence"),
    ([["x", "y"], ["x", "y"]], "sequence 1 has 1 token but 2 labels: give one per token, or one per sequence"),
    (np.zeros((2, 2, 2, 2)), "Y has shape (2, 2, 2, 2): give (N,), (N, n), (N, m) or (N, n, m)"),
    ([[0.5, 1.0, 1.0], [0.5]], "sequence 0 has 2 tokens but 3 labels"),
    (["x", ["y"]], "mixed label kinds: sequence 0 has one label, sequence 1 has a list of labels; label every"),
    ([["x", 1], ["y"]], "the first label is a string ('x'), the label of token 1 of sequence 0 is an integer (1)"),
    ([[[1.0], [1.0, 2.0]], [[1.0]]], "the label of token 1 of sequence 0 is [1.0, 2.0], not a vector of 1 number"),
    ([{"x"}, {"y"}], "the label of sequence 0 is {'x'} (set): a label is an integer, a string, a real number"),
    (np.array([1j, 2j]), "the label of sequence 0 is of type complex128"),
    ([[0.5, NAN, 1.0]] * 2, "the label of sequence 0 is [0.5, nan, 1.0]: NaN and infinity are not allowed"),
    ([[None, NAN], [None]], "labels are missing: every one is None, NaN or −100"),
    ([2**70, 1], "the label of sequence 0 is 1180591620717411303424, beyond 63 bits"),
]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [*((X, None, message) for X, message in BAD_X), *(([["a", "b"], ["c"]], Y, message) for Y, message in BAD_Y)],
    ids=[message for _, message in BAD_X + BAD_Y],
)
def test_bad_data_are_named(X: Any, Y: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        Sequences.of(X, Y)
    if Y is not None:
        with pytest.raises(DataError, match=re.escape(message)):
            Sequences.of(Sequences.of(X), Y)


@pytest.mark.parametrize("lengths", [[1], [1, 4], [0, 1], [1.5, 2.0], ["1", "2"]], ids=str)
def test_bad_lengths(lengths: Any) -> None:
    with pytest.raises(DataError, match="lengths must be 2 whole numbers between 1 and 3"):
        Sequences.of(np.zeros((2, 3), int), lengths=lengths)
    for X in ([["a"]], Sequences.of([["a"]])):
        with pytest.raises(DataError, match="lengths= is for padded arrays"):
            Sequences.of(X, lengths=lengths)


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        ([["a", "z"]], ("a",), "token 1 of sequence 0 is 'z', which the model has never seen"),
        ([[1], [7]], (1, 10**6), "token 0 of sequence 1 is 7, which the model has never seen"),
        (np.array([[1, 9]]), range(9), "token 1 of sequence 0 is 9, which the model has never seen"),
        ([["1"]], range(9), "token 0 of sequence 0 is '1', but the tokens of the model are integers"),
        ([[[1.0]]], ("1",), "is [1.0], but the tokens of the model are strings"),
    ],
)
def test_a_token_outside_the_vocabulary_is_named(X: Any, names: Any, message: str) -> None:
    for data in (X, Sequences.of(X)):
        with pytest.raises(DataError, match=re.escape(message)):
            Sequences.of(data, vocabulary=Names(names))


IDS_, LENGTHS, TWO = np.array([0, 1, 1]), np.array([2, 1]), Names(range(2))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((IDS_[:2], LENGTHS, TWO), "there are 2 tokens, but the lengths add up to 3"),
        ((IDS_, LENGTHS, TWO, Labels(IDS_[:2], "token", TWO)), "there are 2 labels for 3 tokens"),
        ((np.array([[0.0], [1.0], [NAN]]), LENGTHS, None), "token 0 of sequence 1 is not finite"),
        ((IDS_, LENGTHS, TWO, Labels(np.array([[1.0], [NAN]]), "sequence", None)), "the label of sequence 1 is not"),
    ],
)
def test_frozen_parts_must_fit_together(parts: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Sequences(*parts)


def test_a_plan_says_of_how_many_rows_some_were_chosen() -> None:
    """Also of rows that were chosen from those of several sources, of which some had been chosen before."""
    data = Sequences.of([[1, 2], [3], [4, 5]], [[1, 2], [3], [4, -100]])
    some = data.select(np.array([0, 2]))
    joined = join_datasets([some, data])
    for chosen, rows, before, tokens in (
        (some, "2 sequences", 3, 4),
        (some.select(np.array([1])), "1 sequence", 3, 2),
        (joined.select(np.array([0, 2, 3, 4])), "4 sequences", 6, 7),
    ):
        (plan,) = chosen.plans
        assert plan.counts.startswith(f"{rows} chosen from {before} with {tokens} tokens")
        assert ReadPlan.from_json(plan.to_json()) == plan
    (line,) = plan_lines(joined.plans[:1] * 2)
    assert "4 sequences chosen from 6 with 8 tokens" in line
    assert not some.plans[0].keyed
    assert Sequences.of({"key": ["a", "b"], "value": [1, 2]}).plans[0].source == "the dict"
    texts = Sequences.of(["a b", "c is", "e"], ["d", " e", "f"], per="answer")
    assert "a space put before 2 answers; 3 rows" in str(texts.plans[0])
    assert not texts.plans[0].keyed  # other prompts get other answers: no table of keys
    assert str(texts.select(np.array([1])).plans[0]).endswith("a space put before answers; 1 row chosen from 3")


def test_all_labels_that_are_left_have_no_places() -> None:
    labels = Sequences.of([[1], [2]], [0.5, math.nan]).select(np.array([0])).labels
    assert labels is not None
    assert labels.place is None


def test_integers_keep_their_numbers_unless_that_wastes_rows() -> None:
    for values, names in (([5, 5], range(6)), ([0, 1023], range(1024)), ([0, 5000], (0, 5000)), ([-1, 2], (-1, 2))):
        found, rows = Names.of_integers(np.array(values))
        assert found.names == names
        assert found.decode(rows).tolist() == values


JOINED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "words": (["b a", "c", "a"], ["x", "y", "x"], {"unit": "words"}),
    "characters": (["ba", "c", "a"], ["x", "y", "x"], {"unit": "characters"}),
    "whole": (["b a", "c", "a b"], ["x", "y", "x"], {"unit": "whole"}),
    "lists": ([["b", "a"], ["c"], ["a"]], ["x", "y", "x"], {}),
    "ids": ([[2, 1], [7], [1]], [[0, 1], [3], [None]], {}),
    "prompts": (["b a", "c", "is"], [" x", " y", " x"], {"per": "answer"}),
    "continuations": (["b a", "c", "is"], [" x", "y", " x"], {"per": "continuation"}),
}


@pytest.mark.parametrize("kind", JOINED)
def test_parts_that_are_joined_are_the_whole(kind: str) -> None:
    X, Y, options = JOINED[kind]
    whole = Sequences.of(X, Y, **options)
    found = join_datasets([whole.select([0, 1]), whole.select([2])])
    for data in (found, whole.select([0, 1, 2])):
        assert data.lengths.tolist() == whole.lengths.tolist()
        assert named(data) == named(whole)
        assert (data.prompts is None) == (whole.prompts is None)
        assert data.prompts is None or data.prompts.tolist() == whole.prompts.tolist()  # type: ignore[union-attr]
        assert (data.vocabulary is None) == (whole.vocabulary is None)
        assert data.vocabulary is None or data.vocabulary.unit == whole.vocabulary.unit  # type: ignore[union-attr]


def named(data: Sequences) -> tuple[Any, Any]:
    """Tokens and labels by their names; −1 where there is no label."""
    tokens = data.tokens.tolist() if data.vocabulary is None else data.vocabulary.decode(data.tokens).tolist()
    labels = data.labels
    if labels is None:
        return tokens, None
    values = labels.values if labels.classes is None else labels.classes.decode(labels.values)
    return tokens, (values.tolist(), None if labels.place is None else labels.place.tolist())


def test_prompts_that_are_chosen_are_counted_as_prompts() -> None:
    data = Sequences.of(["b a", "c", "is"], [" x", " y", " x"], per="answer")
    assert str(data.plans[0]) == "X: texts; answers from Y; answers taken as given; 3 rows"
    chosen = data.select([0, 2])
    assert str(chosen.plans[0]) == "X: texts; answers from Y; answers taken as given; 2 rows chosen from 3"
    assert (chosen.plans[0].places, chosen.plans[0].gaps, chosen.plans[0].keyed) == (2, 0, False)
