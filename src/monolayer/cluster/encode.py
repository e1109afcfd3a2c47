"""Every file becomes numbers, once, so that later passes neither parse it nor can see it change; what files share.

A piece `encoded-K` holds, one after the other, lengths `(N,)`, token codes `(T,)`, and label codes `(P,)` or real
labels `(P, m)`; a code is a place in the table of names that occur in this file. `Table` joins these tables, and
`table-K` says which row of it each code is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Ints
from monolayer.cluster.blocks import Rules
from monolayer.cluster.spill import PausedError, Spill, identity
from monolayer.cluster.work import Options, Work
from monolayer.data import Names, Sequences, read
from monolayer.data.labels import Per
from monolayer.data.shards import kinds, one_unit, strangers
from monolayer.errors import DataError

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import Found


@dataclass(frozen=True)
class Reading:
    """How files are read (`monolayer.data.read`), and whether labels may be the next tokens."""

    options: dict[str, Any]
    causal: bool


def encode(spill: Spill, name: str, shard: dict[str, Any], reading: Reading) -> None:
    """A file as the piece `name`."""
    changed = PausedError(f"{shard['name']} changed while it was read: wait until it is written")
    if identity(shard["name"]) != shard:
        raise changed
    try:
        data = read(shard["name"], **reading.options)
        check(data, reading.causal, shard["name"])
    except DataError as error:
        raise PausedError(str(error)) from None
    if identity(shard["name"]) != shard:
        raise changed
    token_names, tokens, token_count = used(data.vocabulary, data.tokens)
    columns, facts = [tokens], {"token_count": token_count, **_names("token", token_names)}
    facts["unit"] = np.array([data.vocabulary.unit or ""] if data.vocabulary else [""])
    labels, last = data.labels, None
    if labels is None:
        inner = data.position > 0
        # The label of a token is the next one: what comes last after each, and how often each is a label.
        before, after = tokens[np.flatnonzero(inner) - 1], tokens[inner]
        last = before, after
        facts["label_count"] = np.bincount(after, minlength=len(token_names))
    elif labels.classes is None:
        columns.append(labels.values + 0.0)  # −0.0 is 0.0
        last = tokens, columns[1]
    else:
        label_names, values, label_count = used(labels.classes, labels.values)
        columns.append(values)
        last = tokens, values
        facts |= {"label_count": label_count, **_names("label", label_names)}
    if labels is None or labels.per == "token":
        value = last[1] if last[1].ndim == 2 else last[1].astype(np.int64)
        facts["last"] = np.full((len(token_names), *value.shape[1:]), -1, dtype=value.dtype)
        facts["last"][last[0]] = value  # of several, the last stays
    spill.write(
        name,
        [data.lengths, *columns],
        sequences=len(data),
        tokens=len(data.tokens),
        longest=int(data.lengths.max()),
        kinds=np.array([kinds(data)]),
        types=np.array([str(column.dtype) for column in columns]),
        reals=labels.values.shape[1] if labels is not None and labels.classes is None else 0,
        scalar=labels is not None and labels.scalar,
        **facts,
    )


def check(data: Sequences, causal: bool, name: str) -> None:
    """What is built out of core: ids and strings, with labels, or with the next token as the label."""
    if data.vocabulary is None:
        raise DataError(
            f"the tokens of {name} are vectors: memorize_files takes ids and strings, memorize takes vectors"
        )
    if data.labels is None and not causal:
        raise DataError(f"{name} has no labels: add them, or pass causal=True to memorize each next token")
    if data.labels is not None and data.labels.place is not None:
        gap = data.labelled(int(np.setdiff1d(np.arange(data.labellable), data.labelled_places)[0]))
        raise DataError(f"{gap} of {name} has no label: memorize_files takes a label for each, memorize takes gaps")
    if data.labels is not None and data.labels.per == "sequence" and causal:
        raise DataError(
            f"{name} has a label per sequence, which is read at the begin-of-sequence token, and that sees nothing "
            "else in a causal model: drop causal=True, or give one label per token"
        )


def used(names: Names | None, rows: Ints) -> tuple[list[Any] | Ints, NDArray[Any], Ints]:
    """The names that occur, the places among them in the smallest type that holds these, and how often each occurs."""
    assert names is not None  # checked
    count = np.bincount(rows, minlength=len(names))
    there = np.flatnonzero(count)
    place = np.zeros(len(names), dtype=np.min_scalar_type(max(len(there) - 1, 0)))
    place[there] = np.arange(len(there))
    places = place.take(rows)
    if names.integers:
        return np.asarray(names.decode(there), dtype=np.int64), places, count[there]
    return [str(names.names[row]) for row in there.tolist()], places, count[there]


def _names(what: str, names: list[Any] | Ints) -> dict[str, Any]:
    """Names as an array that needs no pickle: integers, or JSON as bytes."""
    if isinstance(names, np.ndarray):
        return {f"{what}_names": names}
    return {f"{what}_names": np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)}


@dataclass(frozen=True, eq=False)
class Table:
    """The names of all files, and for each file the row of each of its codes."""

    names: Names
    rows: list[Ints]

    @classmethod
    def of(cls, parts: list[NDArray[Any]]) -> Table:
        """As one file with all rows would have named and numbered them."""
        if parts[0].dtype == np.int64:
            values = np.unique(np.concatenate(parts))
            names, rows = Names.of_integers(values)
            return cls(names, [rows[np.searchsorted(values, part)] for part in parts])
        lists = [json.loads(part.tobytes()) for part in parts]
        every = sorted({name for part in lists for name in part})
        place = {name: i for i, name in enumerate(every)}
        return cls(Names(tuple(every)), [np.array([place[name] for name in part], dtype=np.int64) for part in lists])

    def total(self, counts: list[Ints]) -> Ints:
        """How often each name occurs in all files `(V,)`."""
        total = np.zeros(len(self.names), dtype=np.int64)
        for rows, count in zip(self.rows, counts, strict=True):
            total[rows] += count
        return total


def survey(work: Work, reading: Reading, options: Options) -> Found:
    """Every file to numbers; names and counts of all of them together, and the order of the tokens."""
    from monolayer.cluster.finish import Found
    from monolayer.construct.line.build import by_label

    spill, count = work.spill, len(work.shards)
    tasks = {f"encoded-{i:05}": (work.shards[i], reading) for i in range(count)}
    work.do("reading files", (0.0, 0.2), encode, tasks)
    facts = [spill.facts(name) for name in tasks]
    for shard, fact in zip(work.shards, facts, strict=True):
        one, two = str(facts[0]["kinds"][0]), str(fact["kinds"][0])
        if one != two:
            raise strangers(work.shards[0]["name"], one, shard["name"], two)
    width = int(facts[0]["reals"])
    next_token = not width and "label_names" not in facts[0]
    token = Table.of([fact["token_names"] for fact in facts])
    units: list[Any] = [str(fact["unit"][0]) or None for fact in facts]
    unit = one_unit(units, [shard["name"] for shard in work.shards])
    label = token if next_token or width else Table.of([fact["label_names"] for fact in facts])
    per: Per = "token" if "last" in facts[0] else "sequence"
    if width:
        label_count = np.array([sum(int(fact["tokens" if per == "token" else "sequences"]) for fact in facts)])
    else:
        label_count = label.total([fact["label_count"] for fact in facts])
    if not label_count.any():
        raise DataError("no sequence has a next token: every one has length 1")
    longest, sizes = max(int(fact["longest"]) for fact in facts), (len(token.names), 0 if width else len(label.names))
    rules = Rules(per, options.positions, options.causal, next_token, longest, *sizes, width, options.temperature)
    last = np.zeros((len(token.names), max(1, width)))
    for i, fact in enumerate(facts):  # in the order of the files: the label that comes last stays
        spill.write(f"table-{i:05}", [], token=token.rows[i], label=label.rows[i])
        if per == "token" and width:
            last[token.rows[i]] = fact["last"]
        elif per == "token":
            known = fact["last"] >= 0
            last[token.rows[i][known], 0] = label.rows[i][fact["last"][known]]
    return Found(
        work.shards,
        replace(rules, order=by_label(last)) if per == "token" else rules,
        token.names.cut_into(unit),
        None if width else label.names,
        sum(int(fact["sequences"]) for fact in facts),
        token.total([fact["token_count"] for fact in facts]),
        label_count,
        scalar=bool(facts[0]["scalar"]),
    )
