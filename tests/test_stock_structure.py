"""The form of a folder of steps: every condition on it is looked at, up to its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import monolayer as ml
from monolayer.checker.rounding import UnhandledError
from monolayer.checker.stock.evaluate import _check_stock_sizes
from monolayer.checker.stock.files import read_stock
from monolayer.checker.stock.readout import (
    read_steps,
)
from monolayer.checker.stock.structure import Structure, _check_plain, _owners, read_structure, without_silent_neurons
from monolayer.huggingface.opened import stock_files
from tests.any_order import Net
from tests.whole_stock import (
    IDS,
    WHOLE,
)

# -- the form of a folder of steps, condition by condition --------------------------------------------------------


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Columns of the first: 0 and 1 hold keys, 4 to 11 words, 12 and 13 the constant pair, 14 and 15 are the slot."""
    built, folder = {}, tmp_path_factory.mktemp("networks")
    for which in ("bert", "bert places", "sequences"):
        name, rows, labels, options = WHOLE[which]
        built[which] = read_stock(
            stock_files(ml.memorize_as(name, rows, labels, storage="steps", **options).save(folder / which))
        )
    return built


def at(letter: str, place: Any, value: Any) -> Callable[[Any], None]:
    return lambda net: net.arrays[letter].__setitem__(place, value)


def times(letter: str, rows: Any, value: Any) -> Callable[[Any], None]:
    return lambda net: net.arrays[letter].__setitem__(rows, net.arrays[letter][rows] * value)


def _slot(net: Any) -> int:
    return int(np.flatnonzero(net["b_Q"])[0])


def _labels(net: Any) -> Any:
    return np.flatnonzero(net["W_H"].any(axis=0))


def _another_row(name: str) -> Callable[[Any], None]:
    """Keys, or values, of a second coordinate."""
    return lambda net: net.arrays[name].__setitem__((_slot(net) - 1, 0), 0.5)


def _both(change: Callable[[Any, int], None]) -> Callable[[Any], None]:
    """The same change of keys and values, at the slot's row."""

    def apply(net: Any) -> None:
        for letter in ("W_K", "W_V"):
            change(net.arrays[letter], _slot(net))

    return apply


def _word(net: Any) -> Any:
    """Columns of the words that neurons read, of one sign in the first neuron."""
    return 4 + np.flatnonzero(net["W_1"][0, 4:12] > 0)


def _unequal(net: Any) -> None:
    """A word with one + more, and the constant pair the same."""
    column = 4 + int(np.flatnonzero(net["W_1"][0, 4:12] < 0)[0])
    net.arrays["W_1"][0, column] *= -1.0


def _of_pair(array: Any, row: int, number: int, value: float) -> None:
    """One of the four columns that keys of tokens and places are read from."""
    array[row, np.flatnonzero(array[row])[number]] = value


def _stretched(net: Any) -> None:
    """A word of two sizes with sum 0."""
    word = net.arrays["W_H"][1]
    word[[np.argmax(word), np.argmin(word)]] *= 2.0


def _third_pair(array: Any, row: int) -> None:
    array[row, [20, 21, 22, 23]] = 0.5, -0.5, 0.5, -0.5


def _one_column(net: Any) -> None:
    """Columns that one token and one place use."""
    net.arrays["tokens"][2, [30, 31]] = net.arrays["places"][0, [30, 31]] = 1.0, -1.0


def _labels_of_places(net: Any) -> None:
    net.arrays["tokens"][:, _labels(net)] = 0.0
    net.arrays["places"][0, _labels(net)[:2]] = 1.0, -1.0


def _label_in_the_slot(column: int) -> Callable[[Any], None]:
    """One of the two columns."""
    return lambda net: at("W_H", (slice(None), [column, 40]), np.array([1.0, -1.0]) * np.abs(net["W_H"]).max())(net)


def _unequal_row(net: Any) -> None:
    """One token whose word has one + less; two free columns keep its mean at 0."""
    column = 4 + int(np.flatnonzero(net["tokens"][2, 4:12] > 0)[0])
    size = net["tokens"][2, column]
    net.arrays["tokens"][2, [column, 40, 41]] = -size, size, size


def _unequal_parts(net: Any) -> None:
    """One neuron whose word has one + less for its token, and one more for its place."""
    offset = net.architecture.offset
    used = net["places"][offset : offset + IDS.shape[1] + 1]
    word = np.flatnonzero(np.abs(net["W_1"][0]) == np.median(np.abs(net["W_1"][0][net["W_1"][0] != 0])))
    of_places = used[:, word].any(axis=0)
    for columns, sign in ((word[~of_places], 1.0), (word[of_places], -1.0)):
        column = columns[np.flatnonzero(np.sign(net["W_1"][0, columns]) == sign)[0]]
        net.arrays["W_1"][0, column] *= -1.0


def _steepest(slope: float) -> Callable[[Any], None]:
    """All neurons steeper, the steepest so steep."""
    return lambda net: times("W_1", slice(None), slope / (2.0 * net["W_1"][:, 14].max()))(net)


def _slowest(slope: float) -> Callable[[Any], None]:
    """All neurons less steep, the least steep one so steep."""
    return lambda net: times("W_1", slice(None), slope / (2.0 * net["W_1"][:, 14].min()))(net)


def _head_of(size: float) -> Callable[[Any], None]:
    """A head of words of this number."""
    return lambda net: times("W_H", slice(None), size / np.abs(net["W_H"]).max())(net)


ALLOWED: list[tuple[str, Callable[[Any], None], Callable[[Structure], float], float | None]] = [
    ("bert places", at("places", (-1, [30, 31]), [2.0**20, -(2.0**20)]), lambda found: found.largest, None),
    ("bert", _steepest(2.0**200), lambda found: found.slope.max(), 2.0**200),
    ("bert", _slowest(2.0**-100), lambda found: found.slope.min(), 2.0**-100),
    ("bert", _slowest(2.0**-10), lambda found: found.slope.min(), 2.0**-10),
    ("bert", _head_of(2.0**30), lambda found: found.slope.max(), None),
    ("bert", _head_of(2.0**-30), lambda found: found.slope.max(), None),
]
"""The ends of what is read, with a number that is read: the changed one, or one that must not change (None)."""

FORMS: list[tuple[str, Callable[[Any], None], str]] = [
    *(("bert", at(f"scale_{n}", 3, 1.0 - 2.0**-53), "weight other than 1") for n in (1, 2, 3)),
    *(("bert", at(f"shift_{n}", 3, -1e-300), "bias other than 0") for n in (1, 2, 3)),
    *(("bert", at(letter, -1, -1e-9), "is not 0") for letter in ("types", "b_K", "b_V", "b_O", "b_2", "b_H")),
    ("sequences", at("b_P", -1, -1e-9), "is not 0"),
    ("bert", at("W_Q", (0, 0), -1e-9), "must be a constant"),
    ("bert", at("b_Q", slice(0, 2), 1.0), "must be a constant"),
    ("bert", at("b_Q", slice(None), 0.0), "must be a constant"),
    ("bert", _another_row("W_K"), "same one coordinate"),
    ("bert", _another_row("W_V"), "same one coordinate"),
    ("bert", _both(lambda array, row: array.__setitem__((row - 1, [0, 1]), [0.5, -0.5])), "same one coordinate"),
    ("bert places", _both(lambda array, row: _of_pair(array, row, 2, 0.25)), "half a difference"),
    ("bert places", _both(lambda array, row: _of_pair(array, row, 3, -0.25)), "half a difference"),
    ("bert", at("W_H", (1, 40), 1.0), "words of one number"),
    ("bert", _stretched, "words of one number"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 0), 0.25)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), -0.25)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), 0.5)), "half a difference"),
    ("bert", _both(lambda array, row: array.__setitem__((row, 1), 0.0)), "half a difference"),
    ("bert", _both(_third_pair), "one or two pairs"),
    ("bert", _both(lambda array, row: array.__setitem__((row, [1, 2]), [0.0, -0.5])), "neighbouring"),
    ("bert", lambda net: at("W_O", (20, _slot(net)), 1.0)(net), "to one pair"),
    ("bert", lambda net: at("W_O", (15, _slot(net)), 0.0)(net), "to one pair"),
    ("bert", lambda net: at("W_O", (14, [_slot(net), _slot(net) + 1]), [0.0, 1.0])(net), "to one pair"),
    ("bert", lambda net: at("W_O", ([15, 16], _slot(net)), [0.0, 1.0])(net), "to one pair"),
    ("bert", lambda net: times("W_O", 15, 1.0 + 2.0**-50)(net), "and its negative"),
    ("bert", lambda net: times("W_O", 15, -1.0)(net), "and its negative"),
    ("bert", at("W_H", slice(None), 0.0), "words of one number"),
    ("bert", lambda net: times("W_H", (1, _labels(net)[:2]), 2.0)(net), "words of one number"),
    ("bert", lambda net: times("W_H", (1, _labels(net)[0]), -1.0)(net), "as many \\+ as"),
    ("bert", lambda net: at("W_H", 1, net["W_H"][0])(net), "the same word in the head"),
    ("bert", times("W_H", slice(None), 2.0**40), "range of float32"),
    ("bert", times("W_H", slice(None), -(2.0**-40)), "range of float32"),
    ("sequences", lambda net: times("W_P", slice(None), -1.0)(net), "one positive number"),
    ("sequences", lambda net: at("W_P", (0, 0), 1.0)(net), "one positive number"),
    ("sequences", lambda net: times("W_P", _labels(net)[1], 2.0)(net), "one positive number"),
    ("sequences", times("W_P", slice(None), 2.0**40), "range of float32"),
    ("sequences", times("W_P", slice(None), 2.0**-60), "range of float32"),
    ("bert", at("W_2", (0, 20), -1e-9), "not label columns"),
    ("bert", lambda net: [at(letter, 0, 0.0)(net) for letter in ("W_1", "b_1", "W_2")] and None, "read nothing"),
    ("bert", times("W_1", 0, -1.0), "does not rise"),
    ("bert", times("W_1", slice(None), 2.0**220), "too steeply"),
    ("bert", times("W_1", slice(None), 2.0**-220), "too steeply"),
    ("bert", times("W_1", 1, 2.0**220), "too steeply"),
    ("bert", times("W_1", 1, 2.0**-220), "too steeply"),
    ("bert", _steepest(2.0**201), "too steeply"),
    ("bert", _slowest(2.0**-101), "too steeply"),
    ("bert", _head_of(2.0**31), "range of float32"),
    ("bert", _head_of(2.0**-31), "range of float32"),
    ("bert", times("W_1", (slice(None), 13), 2.0), "a constant pair"),
    ("bert", at("W_1", (slice(None), slice(4, 12)), 0.0), "words of tokens"),
    ("bert", at("W_1", (0, 20), -(2.0**-30)), "something else"),
    ("bert", at("W_1", (1, 0), 2.0**-30), "something else"),
    ("bert", times("W_1", 0, 1.5), "something else"),
    ("bert", times("W_1", (slice(None), slice(4, 14)), 1.5), "something else"),
    ("bert", times("W_1", (1, 15), 2.0), "something else"),
    ("bert", times("W_1", (1, slice(12, 14)), 2.0), "something else"),
    ("bert", _unequal, "reads a word with unequal numbers"),
    ("bert places", _unequal_parts, "a word for tokens with unequal numbers"),
    ("bert", _unequal_row, "does not hold words"),
    ("bert", times("tokens", (2, [12, 13]), -1.0), "not constant"),
    ("bert", times("tokens", (slice(None), [12, 13]), -1.0), "not constant"),
    ("bert", times("tokens", (2, slice(4, 12)), 2.0), "does not hold words"),
    ("bert", lambda net: at("tokens", (2, slice(4, 12)), net["tokens"][3, 4:12])(net), "the same word"),
    ("bert", at("tokens", (2, 20), 2.0**-20), "its mean is not 0"),
    *(("bert", at("tokens", (2, [20, n]), [2.0**-20, -(2.0**-20)]), "in the slot") for n in (14, 15)),
    ("bert", lambda net: at("tokens", (2, [0, 1, 20, 21]), [0.1, -0.2, 0.2, -0.1])(net), "keys in pairs"),
    ("bert places", at("places", (-1, [30, 31]), [2.0**21, -(2.0**21)]), "padding on it may not be finite"),
    ("bert places", at("places", (-1, 30), -(2.0**21)), "padding on it may not be finite"),
    ("bert places", at("places", (0, [0, 1]), [1.0, -1.0]), "used by tokens and by places"),
    ("bert places", _one_column, "used by tokens and by places"),
    ("bert places", _labels_of_places, "columns that places or attention write to"),
    *(("bert", _label_in_the_slot(n), "columns that places or attention write to") for n in (14, 15)),
    ("bert places", lambda net: at("places", (0, _labels(net)[:2]), [1.0, -1.0])(net), "by tokens and by places"),
]


@pytest.mark.parametrize(("which", "change", "words"), FORMS)
def test_every_condition_on_the_form_of_a_folder_is_looked_at(
    networks: dict[str, Any], which: str, change: Callable[[Any], None], words: str
) -> None:
    net = networks[which]
    places = IDS.shape[1] + 1
    read_structure(net, places)
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    change(net)
    with pytest.raises(UnhandledError, match=words):
        read_structure(net, places)


@pytest.mark.parametrize(("which", "change", "number", "wanted"), ALLOWED)
def test_the_ends_of_the_form_of_a_folder_are_read(
    networks: dict[str, Any],
    which: str,
    change: Callable[[Any], None],
    number: Callable[[Structure], float],
    wanted: float | None,
) -> None:
    net, places = networks[which], IDS.shape[1] + 1
    before = read_structure(net, places)
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    change(net)
    found = read_structure(net, places)
    assert number(found) == (number(before) if wanted is None else wanted)
    for same in ("words", "label", "token_of", "place_of", "key"):
        np.testing.assert_array_equal(getattr(found, same), getattr(before, same))


def test_only_neurons_that_add_nothing_are_silent(networks: dict[str, Any]) -> None:
    """Of five: one reads and writes, one writes nothing, three read nothing and have a bias above, at and below 0."""
    arrays = {"W_1": np.array([[1.0], [1.0], [0.0], [0.0], [0.0]]), "b_1": np.array([1.0, 1.0, 2.0**-30, 0.0, -1.0]),
              "W_2": np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])}  # fmt: skip
    net: Any = replace(networks["bert"], arrays=arrays)
    left = without_silent_neurons(net)
    assert {letter: left[letter].tolist() for letter in arrays} == {
        letter: array[[0, 2]].tolist() for letter, array in arrays.items()
    }


def test_a_word_that_no_row_holds_has_no_owner() -> None:
    table = np.array([[2.0, -2.0, 2.0, -2.0], [2.0, 2.0, -2.0, -2.0], [-2.0, 2.0, 2.0, -2.0]])
    word = np.array([[True, True, False, False], [False, False, True, True], [True, False, True, False]])
    assert _owners(table, np.arange(4), 2.0, word, "tokens").tolist() == [1, -1, 0]


def test_steps_know_how_far_their_thresholds_are() -> None:
    """`|b_j / w_j|` of a positive and of a negative bias, and the width of a ramp."""
    net = Net(False, {"b_1": np.array([-3.0, 40.0, 2.0]), "W_2": np.ones((3, 2))}, activation="relu6")
    found: Any = SimpleNamespace(slope=np.array([1.0, 4.0, 2.0]), label=np.array([0, 1]))
    # The last neuron reads the word of no token, or of no place.
    owners = ([1, 0, -1], [0, 0, 0]), ([1, 0, 1], [0, 0, -1])
    for bias, (tokens, places) in product(([-3.0, 40.0, 2.0], [-33.0, 40.0, 2.0], [33.0, 4.0, 2.0]), owners):
        net.arrays["b_1"], found.token_of, found.place_of = np.array(bias), np.array(tokens), np.array(places)
        steps = read_steps(net, found, 5)
        reach = max(abs(b / w) + 16.0 / w for b, w in zip(bias, (1.0, 4.0, 2.0), strict=True))
        assert reach * (1 + 2.0**-21) < steps.reach < reach * (1 + 2.0**-18)
        assert steps.cell.tolist() == [-2, 0, 5]
        assert steps.low.tolist() == [-bias[2] / 2, -bias[1] / 4, -bias[0]]
        assert steps.high.tolist() == [(6 - bias[2]) / 2, (6 - bias[1]) / 4, 6 - bias[0]]
        assert steps.level[:, 0].tolist() == [0.0, 6.0, 12.0, 18.0]
    found.token_of, found.place_of = np.array([1, 1, 1]), np.array([0, 0, 0])
    # The first wakes at 2 and settles at 14, the second at 2.5 and 5.5.
    net.arrays["b_1"], found.slope = np.array([-1.0, -5.0, -40.0]), np.array([0.5, 2.0, 2.0])
    with pytest.raises(UnhandledError, match="do not settle in the order"):
        read_steps(net, found, 5)
    net.activation = "silu"
    with pytest.raises(UnhandledError, match="not relu6"):
        read_steps(net, found, 5)


def shaped(net: Any, width: int, epsilon: float) -> Any:
    """The same network, said to have another width or ε."""
    return replace(net, width=width, architecture=replace(net.architecture, epsilon=epsilon))


@pytest.mark.parametrize(("width", "epsilon", "words"), [
    (32, 1e-5, "power of 4"), (48, 1e-5, "power of 4"), (4, 1e-5, "power of 4"), (64, 0.0, "ε"), (64, 1.5, "ε"),
    (64, -1e-5, "ε"), (64, float("nan"), "ε"), (128, 1e-5, "power of 4"), (512, 1e-5, "power of 4"),
    (16, 1e-5, ""), (256, 1e-5, ""), (1024, 1.0, ""),
])  # fmt: skip
def test_widths_and_epsilons_of_folders_of_steps(
    networks: dict[str, Any], width: int, epsilon: float, words: str
) -> None:
    net = shaped(networks["bert"], width, epsilon)
    if not words:
        _check_plain(net)
        return
    with pytest.raises(UnhandledError, match=words):
        read_structure(net, 1)


@pytest.mark.parametrize("which", ["bert", "bert places"])
def test_the_numbers_that_a_folder_comes_down_to(networks: dict[str, Any], which: str) -> None:
    net = networks[which]
    net = replace(net, arrays={letter: array.copy() for letter, array in net.arrays.items()})
    offset, read = net.architecture.offset, (net["W_O"].T, *(net[name] for name in ("tokens", "places", "W_1", "W_H")))
    free = np.flatnonzero(~np.any([part.any(axis=0) for part in read], axis=0))
    # Rows of several norms, by columns that nothing reads.
    net.arrays["tokens"][np.ix_([2, 3], free[:2])] = [[0.25, -0.25], [0.5, -0.5]]
    net.arrays["places"][offset + 1, free[2:4]] = 0.5, -0.5
    found = read_structure(net, 6)
    tokens, places = net["tokens"], net["places"][offset:][:6]
    norms = [(row**2).sum() + (place**2).sum() for row in tokens for place in places]
    out, slot = int(np.flatnonzero(net["W_O"].any(axis=1))[0]), _slot(net)
    assert found.norm == (pytest.approx(min(norms), rel=1e-15), pytest.approx(max(norms), rel=1e-15))
    assert found.largest == max(np.abs(tokens).max(), np.abs(places).max())
    assert (found.query, found.write) == (net["b_Q"][slot] / 8.0, net["W_O"][out, slot])
    assert (found.slope == 2.0 * net["W_1"][:, out]).all()


def test_numbers_that_a_folder_of_cells_may_hold(networks: dict[str, Any]) -> None:
    """Sizes within which nothing overflows, padding included: there every query and key must have a finite product."""

    def copied(net: Any) -> Any:
        return replace(net, arrays={letter: array.clip(-9.0, 9.0) for letter, array in net.arrays.items()})

    small = copied(networks["bert"])
    _check_stock_sizes(small)
    for width, epsilon, words in (
        (2**15, 1e-5, "width is too large"),
        (64, 2.0**-41, "epsilon out of bounds"),
        (64, 1.5, "epsilon out of bounds"),
    ):
        with pytest.raises(UnhandledError, match=words):
            _check_stock_sizes(shaped(small, width, epsilon))
    for letter, value, words in (("types", -1e-9, "token types"), ("W_2", -(2.0**21), "stored numbers are larger")):
        net = copied(small)
        net.arrays[letter][0, 0] = value
        with pytest.raises(UnhandledError, match=words):
            _check_stock_sizes(net)
    # Of width 64: a matrix of 2^20 throughout has norm 2^26, what a norm returns at most 2^24, by weight and bias
    # alike; so queries and keys are 2^50 long, and the product just what is allowed, if they have no biases.
    for letters, scale, shift, covered in (
        ("W_Q W_K", -(2.0**20), -(2.0**20), True),
        ("W_Q W_K b_K", -(2.0**20), -(2.0**20), False),
        ("W_Q W_K b_Q", 2.0**20, 2.0**20, False),
        ("W_Q W_K b_Q b_K", 2.0**20, 0.0, True),
        ("W_Q b_K", 2.0**20, 2.0**20, True),
    ):
        net = copied(small)
        for letter in ("W_Q", "W_K", "b_Q", "b_K"):
            net.arrays[letter][:] = -(2.0**20) if letter in letters.split() else 0.0
        net.arrays["scale_1"][:], net.arrays["shift_1"][:] = scale, shift
        if covered:
            _check_stock_sizes(net)
            continue
        with pytest.raises(UnhandledError, match="scores of padding"):
            _check_stock_sizes(net)
