"""Contradictions and collisions, told apart.

Two neighbouring points with different labels that rounding cannot separate are one of two things:
a *contradiction* (equal token and equal context, so every permutation-equivariant model gives both the
same answer), or a *collision* (different contexts that this draw put too close together). The first is a
fact about the data; the second goes away with another draw.

Contexts are compared by fingerprints: every token (with its position, if positions count) has two random
64-bit numbers, a context has their sums modulo 2^64. Sums do not depend on order, so equal multisets have
equal fingerprints, always; different ones agree with probability 2^−128, and a contradiction is reported
only after its two contexts have been compared token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from reprlib import repr as short
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Bools, Ints, Numbers, beside, copied, home, pick
from monolayer.construct.target import Target
from monolayer.data import Sequences
from monolayer.data.distinct import scramble
from monolayer.data.fingerprint import context_sums
from monolayer.errors import ContradictionError, DataError
from monolayer.kernels import counts_of

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.construct.rectangle import IdsOnDevice

OnConflict = Literal["error", "majority", "first"]


def check_conflict(on_conflict: object) -> None:
    """Refuse an `on_conflict` other than the three choices."""
    if on_conflict not in get_args(OnConflict):
        raise DataError(f"on_conflict must be one of {', '.join(map(repr, get_args(OnConflict)))}, not {on_conflict!r}")


@dataclass(frozen=True, eq=False)
class Context:
    """The data as the model sees them: `rows` `(T,)`, and whether positions and the causal mask count."""

    data: Sequences | IdsOnDevice
    rows: Numbers
    positions: bool
    causal: bool

    @cached_property
    def counts(self) -> Ints:
        """How often each row of the alphabet occurs."""
        return counts_of(self.rows, 0)


def equal_points(context: Context, target: Target, first: int | None = None) -> Ints:
    """`(P,)`: a group number for every labelled place; equal numbers mean equal token and equal context.

    `first`: only groups with a place among the first `first` matter. All other places may share one number, as long as
    none of these groups has it.
    """
    columns = signatures(context, target, int(context.rows.max()) + 1, int(context.data.lengths.max()))
    # What differs in one column is not equal: few places are left to sort.
    some = np.arange(len(columns[0])) if first is None else np.flatnonzero(np.isin(columns[0], columns[0][:first]))
    group = np.full(len(columns[0]), len(some))
    columns = [column[some] for column in columns]
    key = columns[0].copy()
    for number, column in enumerate(columns[2:], 1):  # sums are random already
        key ^= scramble(column.astype(np.uint64) + np.uint64(number << 48))
    order = np.argsort(key)
    new = _changes(columns, order)
    if (new[1:] & (key[order[1:]] == key[order[:-1]])).any():  # two groups have one key, and may be mixed
        order = np.lexsort(columns)
        new = _changes(columns, order)
    group[some[order]] = np.cumsum(new)
    return group


def _changes(columns: list[NDArray[np.uint64] | Ints], order: Ints) -> Bools:
    """`(P,)`: whether places in this order differ from the one before in any column; the first does not."""
    new = np.zeros(len(order), dtype=bool)
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return new


def signatures(context: Context, target: Target, vocabulary: int, longest: int) -> list[NDArray[np.uint64] | Ints]:
    """Two to four columns `(P,)` that agree where token and context do: two sums, the token, its position.

    `vocabulary`, `longest`: at least the rows and the tokens per sequence that there are; where columns of several
    parts of the data are compared, those of all parts.
    """
    data = context.data
    assert isinstance(data, Sequences)  # whatever lay on a device was brought home
    random = np.random.default_rng(20230726)
    columns: list[NDArray[np.uint64] | Ints] = []
    for _ in range(2):
        word = random.integers(0, 2**64, vocabulary, dtype=np.uint64)[context.rows]
        if context.positions:
            salt = random.integers(0, 2**64, longest, dtype=np.uint64)
            word = scramble(word ^ salt[data.position])
        columns.append(context_sums(word, data, target.per, context.causal))
    if target.labelling.at_tokens:
        columns.append(context.rows)
        if context.positions:
            columns.append(data.position)
    return columns if target.place is None else [column[target.place] for column in columns]


class LabelledPart(NamedTuple):
    """Some labelled places and their sequences, as arrays; `sequences`: the numbers of these in all the data."""

    context: Context
    target: Target
    sequences: Ints


def labelled_part(context: Context, target: Target, places: Ints) -> LabelledPart:
    """The labelled places `places` `(Q,)` with their sequences, copied to the processor from wherever they lie."""
    data = context.data
    flat = places if target.place is None else home(pick(target.place, beside(places, target.place)))
    row = data.sequences_of(flat) if target.labelling.at_tokens else flat
    chosen, which = np.unique(row, return_inverse=True)
    some = data.select(chosen)
    place = some.offsets[which] + flat - data.starts_of(row) if target.labelling.at_tokens else which
    rows = context.rows[data.flat(chosen)] if isinstance(data, Sequences) else some.tokens
    number = home(pick(target.number, beside(places, target.number)))
    return LabelledPart(replace(context, data=some, rows=rows), replace(target, number=number, place=place), chosen)


def resolve(
    context: Context,
    target: Target,
    on_conflict: OnConflict,
    sequences: Ints | None = None,
    group: Ints | None = None,
) -> tuple[Target, int]:
    """The target without contradictions, and how many labels were overruled; or an error that shows one.

    `sequences`: the numbers by which users know the sequences, where these are some of them. `group`: the
    `equal_points`, if they are known.
    """
    group = equal_points(context, target) if group is None else group
    first = np.full(int(group.max(initial=-1)) + 1, len(group) - 1)
    np.minimum.at(first, group, np.arange(len(group)))
    odd = target.number != target.number[first[group]]
    if not odd.any():
        return target, 0
    if on_conflict == "error":
        place = int(np.flatnonzero(odd)[0])
        data, named = context.data, None
        if sequences is not None:
            assert isinstance(data, Sequences)  # a part is always at home
            named = [data.named(row, number) for row, number in enumerate(sequences.tolist())]
        raise contradiction(context, target, Clash(int(first[group[place]]), place, int(odd.sum())), named)
    chosen = target.number[first]
    if on_conflict == "majority":
        chosen = _majority(group, target.number, first)
    number = chosen[group]
    return replace(target, number=number), int((number != target.number).sum())


def resolve_among(context: Context, target: Target, places: Ints, on_conflict: OnConflict) -> tuple[Target, int]:
    """The target without contradictions, and how many labels were overruled; only `places` `(Q,)` may contradict."""
    places = np.sort(places)  # of equal points the first is the first here too
    part = labelled_part(context, target, places)
    settled, overruled = resolve(part.context, part.target, on_conflict, part.sequences)
    if not overruled:
        return target, 0
    number = copied(target.number)
    number[beside(places, number)] = beside(settled.number, number)
    return replace(target, number=number), overruled


def _majority(group: Ints, number: Ints, first: Ints) -> Ints:
    """The most frequent label of every group; of equally frequent ones, the one that came first."""
    order = np.lexsort((number, group))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (group[order][1:] != group[order][:-1]) | (number[order][1:] != number[order][:-1])
    start = np.flatnonzero(new)
    size = np.diff(np.append(start, len(order)))
    # lexsort is stable, so the first entry of each (group, label) pair is its earliest place.
    best = np.lexsort((order[start], -size, group[order][start]))
    groups = group[order][start][best]
    winner = np.ones(len(best), dtype=bool)
    winner[1:] = groups[1:] != groups[:-1]
    chosen = number[first].copy()
    chosen[groups[winner]] = number[order][start][best][winner]
    return chosen


class Clash(NamedTuple):
    """Two labelled places with equal token and context, but different labels; `total`: how many places disagree."""

    one: int
    two: int
    total: int


def contradiction(
    context: Context, target: Target, clash: Clash, named: list[str] | None = None, *, in_files: bool = False
) -> ContradictionError:
    """The error that shows the two labelled places of `clash`.

    `named`: what to call each sequence; by default its number. `in_files`: the data are files, where no label can be
    overruled, so that is not offered as a way out.
    """
    one, two, count = clash.one, clash.two, clash.total
    data = context.data
    assert isinstance(data, Sequences)  # whatever lay on a device was brought home
    flat = [one, two] if target.place is None else [int(target.place[one]), int(target.place[two])]
    words, windows = [], []
    for place, label in zip(flat, (one, two), strict=True):
        row, position = target.labelling.place(data, place)
        end = place + 1 if context.causal else int(data.offsets[row + 1])
        window = slice(int(data.offsets[row]), end)
        windows.append(context.rows[window])
        what = sequence = data.named(row) if named is None else named[row]
        if position is not None:
            what = f"token {position} ({_token(data, place)}) of {what}"
        elif data.vocabulary is not None and not data.vocabulary.integers:
            cut = data.vocabulary.unit
            names = [str(name) for name in data.vocabulary.decode(data.tokens[window])]
            what += f", {short(('' if cut == 'characters' else ' ').join(names) if cut else names)},"
        if data.prompts is None:
            words.append(f"{what} has label {target.name(int(target.number[label]))}")
        else:
            prompt, answer = map(repr, data.texts(row))
            after = f"so {_token(data, place)} continues with {target.name(int(target.number[label]))}"
            words.append(f"{sequence} answers {prompt} with {answer}, {after}")
    if not np.array_equal(np.sort(windows[0]), np.sort(windows[1])):
        raise AssertionError("two different contexts have one 128-bit fingerprint; please report these data")
    choice = "" if in_files else ", or say which label wins: on_conflict='majority' or 'first'"
    advice = f"Fix the data{choice}."
    at_tokens = target.labelling.at_tokens
    other_place = at_tokens and data.position[flat[0]] != data.position[flat[1]]
    helps = not np.array_equal(windows[0], windows[1]) or other_place
    if not context.positions and helps:
        whole = not at_tokens and data.vocabulary is not None and data.vocabulary.unit == "words"
        one_token = ", or unit='whole' to make each string one token" if whole else ""
        advice = f"If their order matters, pass positions=True{one_token}. Otherwise: {advice[0].lower()}{advice[1:]}"
    return ContradictionError(
        f"the data contradict themselves: {words[0]}, but {words[1]}, and both see the same tokens"
        f"{' in the same places' if context.positions else ''}, so no such model can answer both. "
        f"{count:,} label{'s' if count > 1 else ''} in all disagree{'' if count > 1 else 's'} with an earlier one. "
        f"{advice}"
    )


def _token(data: Sequences, flat: int) -> str:
    if data.vocabulary is None:
        return "vector " + np.array2string(data.tokens[flat], precision=6, threshold=6)
    return repr(data.vocabulary.names[int(data.tokens[flat])])
