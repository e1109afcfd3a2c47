"""Random datasets for property tests, with labels that are a function of what the model may see."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

WORDS = ["银行", "行走", "音乐", "快乐", "乐音"]
READINGS = [["yín", "háng"], ["xíng", "zǒu"], ["yīn", "yuè"], ["kuài", "lè"], ["yuè", "yīn"]]
DATA = (WORDS, READINGS)


@dataclass(frozen=True)
class Dataset:
    """Sequences `X`, labels `Y`, and the options under which they are consistent."""

    X: list[Any]
    Y: list[Any]
    positions: bool
    causal: bool
    per: str

    def flat(self) -> list[Any]:
        return [label for row in self.Y for label in row] if self.per == "token" else self.Y


def view(row: list[Any], place: int, positions: bool, causal: bool) -> Hashable:
    """What the model may know at a token: the token, the multiset of what it sees, positions if they count."""
    seen = row[: place + 1] if causal else row
    tokens = [tuple(token) if isinstance(token, list) else token for token in seen]
    if positions:
        return (place, tuple(tokens))
    own = tuple(row[place]) if isinstance(row[place], list) else row[place]
    return (own, tuple(sorted(tokens, key=repr)))


def sets(random: np.random.Generator, rows: int, names: int, size: int) -> NDArray[np.int64]:
    """Sequences `(rows, size)` of different tokens, no two of the same ones: no labels of theirs contradict."""
    found = dict[frozenset[int], list[int]]()
    while len(found) < rows:
        row = random.permutation(names)[:size].tolist()
        found.setdefault(frozenset(row), row)
    return np.array(list(found.values()))


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Ids, strings or vectors; ragged; repeats; permutations of one another; positions; causal; three label kinds."""
    kind = draw(st.sampled_from(["ids", "strings", "vectors"]))
    positions, causal = draw(st.booleans()), draw(st.booleans())
    per = "token" if causal else draw(st.sampled_from(["token", "sequence"]))
    labels = draw(st.sampled_from(["integers", "strings", "reals"]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == "ids":
        alphabet: list[Any] = [int(i) for i in random.integers(0, 40, 6)]
    elif kind == "strings":
        alphabet = ["a", "b", "ä", "水", "", "longer token"]
    else:
        alphabet = random.normal(size=(6, int(random.integers(1, 4)))).round(2).tolist()
    count, longest = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    X: list[list[Any]] = []
    for _ in range(count):
        if X and random.random() < 0.3:
            X.append([X[-1][i] for i in random.permutation(len(X[-1]))])
        else:
            X.append([alphabet[i] for i in random.integers(0, len(alphabet), random.integers(1, longest + 1))])
    known: dict[Hashable, Any] = {}

    def label(key: Hashable) -> Any:
        value = int(random.integers(0, 5))
        choices = {"integers": value, "strings": "abcde"[value], "reals": [value / 7.0, float(random.normal())]}
        return known.setdefault(key, choices[labels])

    if per == "sequence":
        Y: list[Any] = [label(view([None, *row], 0, positions, False)) for row in X]
    else:
        Y = [[label(view(row, k, positions, causal)) for k in range(len(row))] for row in X]
    return Dataset(X, Y, positions, causal, per)


def close_keys(count: int) -> list[str]:
    """Keys of 6 to 8 of six signs, each with a label of its own: names of family emoji are as close to one another."""
    random, keys = np.random.default_rng(1), dict[str, None]()
    while len(keys) < count:
        keys["".join(random.choice(list("👨👩👧👦👶👴"), random.integers(6, 9)))] = None
    return list(keys)


def smooth(random: np.random.Generator, dim: int, positions: bool) -> Callable[[Any], Any]:
    """A random equivariant function with two outputs; with positions, one that is not."""
    own, other = random.standard_normal((dim, 2)), random.standard_normal((dim, 2))

    def f(X: Any) -> Any:
        place = np.arange(X.shape[1])[:, None] if positions else 0.0
        return np.sin(X @ own + place) + np.cos(X @ other).sum(axis=1, keepdims=True)

    return f
