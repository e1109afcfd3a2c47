"""Encode every file as numbers, once, and join the names and counts of all files.

Later passes read these numbers: they need not parse a file again, and a file that changes cannot confuse them.

A piece `encoded-K` holds, one after the other, lengths `(N,)`, token codes `(T,)`, and label codes `(P,)` or real
labels `(P, m)`; a code is a place in the table of names that occur in this file. `table-K` says which row each code is
in the table of the names of all files. `lines-K` says where the sequences stand in the file, for errors about them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from monolayer.arrays import NUMBERS_IN_CACHE, Array, Ints
from monolayer.cluster.blocks import Rules
from monolayer.cluster.executor import Options, Work
from monolayer.cluster.spill import FileIdentity, PausedError, Spill, identity
from monolayer.construct.line.alphabet import by_label
from monolayer.data import Names, Sequences, read
from monolayer.data.labelling import SEQUENCE, TOKEN, LabelUnit
from monolayer.data.objects import JsonFields
from monolayer.data.origin import Origin, SourceFile
from monolayer.data.plan import ReadPlan
from monolayer.data.shards import kinds, numbered, strangers, used
from monolayer.errors import DataError

if TYPE_CHECKING:  # workers do without PyTorch
    from monolayer.cluster.finish import BuildState


def encode(spill: Spill, name: str, shard: FileIdentity, reading: JsonFields, causal: bool) -> None:
    """Read the file `shard` with the options `reading`, and write it as the piece `name`."""
    changed = PausedError(f"{shard['name']} changed while it was read: wait until it is written")
    if identity(shard["name"]) != shard:
        raise changed
    try:
        data = read(shard["name"], **reading)
        check(data, causal, shard["name"])
    except DataError as error:
        raise PausedError(str(error)) from None
    if identity(shard["name"]) != shard:
        raise changed
    labels, vocabulary = data.labels, data.vocabulary
    assert vocabulary is not None  # checked
    token_names, tokens, token_count = used(vocabulary, data.tokens)
    columns = [tokens]
    facts: dict[str, Any] = _names_array("token", token_names) | {"token_count": token_count}
    label_at, label = tokens, tokens
    if labels is None:  # the label of a token is the next one
        inner = data.position > 0
        label_at, label = tokens[np.flatnonzero(inner) - 1], tokens[inner]
        facts["label_count"] = np.bincount(label, minlength=len(token_names))
    elif labels.classes is None:
        label = labels.values
        facts["label_count"] = np.array([len(label)])
    else:
        label_names, label, facts["label_count"] = used(labels.classes, labels.values)
        facts |= _names_array("label", label_names)
    if labels is not None:
        columns.append(label)
    if labels is None or labels.labelling.at_tokens:
        facts["last"] = _last_labels(label_at, label, len(token_names))
    origin = data.origin
    assert origin is not None  # it was read from a file
    spill.write(places_piece(name), [], first=origin.first, number=origin.number, unit=np.array(origin.files[0].unit))
    spill.write(
        name,
        [data.lengths, *columns],
        sequences=len(data),
        tokens=len(data.tokens),
        longest=int(data.lengths.max()),
        kinds=np.array([kinds(data)]),
        unit=np.array([vocabulary.unit or ""]),
        types=np.array([str(column.dtype) for column in columns]),
        reals=labels.values.shape[1] if labels is not None and labels.classes is None else 0,
        scalar=labels is not None and labels.scalar,
        plan=np.array([json.dumps(data.plans[0].to_json())]),
        **facts,
    )


def places_piece(piece: str) -> str:
    """The name of the piece that says where the sequences of the encoded file `piece` stand in the file."""
    return piece.replace("encoded", "lines")


def place_in_file(spill: Spill, piece: str, file: str, row: int) -> str:
    """Where sequence `row` of the encoded file `piece` stands in `file`, in words."""
    facts = spill.facts(places_piece(piece))
    same_file = np.zeros_like(facts["first"])
    return Origin(facts["first"], facts["number"], same_file, (SourceFile(file, str(facts["unit"])),)).place(row)


def _last_labels(tokens: Array, labels: Array, count: int) -> Array:
    """The last label of each of `count` tokens, `(count,)` or `(count, m)`; −1 for a token that has none.

    Read from the end, where all tokens are soon found if none is rare.
    """
    last_labels = np.full((count, *labels.shape[1:]), -1, dtype=np.float64 if labels.ndim == 2 else np.int64)
    missing = np.ones(count, bool)
    at_once = max(NUMBERS_IN_CACHE, 4 * count)
    for end in range(len(tokens), 0, -at_once):
        part = slice(max(0, end - at_once), end)
        here = np.zeros(count, bool)
        here[tokens[part]] = True
        last = np.empty_like(last_labels)
        last[tokens[part]] = labels[part]  # of several, the last stays
        new = missing & here
        last_labels[new] = last[new]
        missing &= ~here
        if not missing.any():
            break
    return last_labels


def check(data: Sequences, causal: bool, name: str) -> None:
    """Refuse data that are not built out of core: only ids and strings are, with all labels or as next tokens."""
    if data.vocabulary is None:
        raise DataError(
            f"the tokens of {name} are vectors: memorize_files takes ids and strings, memorize takes vectors"
        )
    if data.labels is None and not causal:
        raise DataError(f"{name} has no labels: add them, or pass causal=True to memorize each next token")
    if data.labels is not None and data.labels.place is not None:
        gap = data.labelled(int(np.setdiff1d(np.arange(data.labellable), data.labelled_places)[0]))
        raise DataError(f"{gap} has no label: memorize_files takes a label for each, memorize takes gaps")
    if causal and data.labels is not None and not data.labels.labelling.at_tokens:
        raise DataError(
            f"{name} has a label per sequence, which is read at the begin-of-sequence token, and that sees nothing "
            "else in a causal model: drop causal=True, or give one label per token"
        )


def _names_array(what: str, names: list[str] | Ints) -> dict[str, Array]:
    """Names as an array without Python objects: integers, or JSON as bytes."""
    array = names if isinstance(names, np.ndarray) else np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)
    return {f"{what}_names": array}


def _joined_names(parts: list[Array]) -> tuple[Names, list[Ints]]:
    """Join the names of all files: the names, and for each file the row of each of its own names among them."""
    return numbered(parts if parts[0].dtype == np.int64 else [json.loads(part.tobytes()) for part in parts])


def _total(size: int, rows: list[Ints], counts: list[Ints]) -> Ints:
    """How often each of `size` names occurs in all files. `rows`, `counts`: the names of each file, how often each."""
    total = np.zeros(size, dtype=np.int64)
    for row, count in zip(rows, counts, strict=True):
        total[row] += count
    return total


def survey(work: Work, reading: JsonFields, options: Options) -> BuildState:
    """Encode every file, and join what they share: names, counts, and the order of the tokens among the codes."""
    from monolayer.cluster.finish import BuildState

    spill, files = work.spill, [shard["name"] for shard in work.shards]
    tasks = {f"encoded-{i:05}": (shard, reading, options.causal) for i, shard in enumerate(work.shards)}
    work.do("reading files", (0.0, 0.2), encode, tasks)
    facts = [spill.facts(name) for name in tasks]
    for file, fact in zip(files, facts, strict=True):
        one, two = str(facts[0]["kinds"][0]), str(fact["kinds"][0])
        if one != two:
            raise strangers(files[0], one, file, two)
    # Strings are split alike in all files (`kinds`); integers are whole only if they are so in every file.
    units: set[Any] = {str(fact["unit"][0]) or None for fact in facts}
    unit = units.pop() if len(units) == 1 else None
    reals, own_names = int(facts[0]["reals"]), "label_names" in facts[0]
    next_token = not reals and not own_names
    labelling: LabelUnit = TOKEN if "last" in facts[0] else SEQUENCE
    names, rows = _joined_names([fact["token_names"] for fact in facts])
    classes, label_rows = _joined_names([fact["label_names"] for fact in facts]) if own_names else (names, rows)
    counts = [fact["label_count"] for fact in facts]
    label_count = np.sum(counts, axis=0) if reals else _total(len(classes), label_rows, counts)
    if not label_count.any():
        raise DataError("no sequence has a next token: every one has length 1")
    longest, sizes = max(int(fact["longest"]) for fact in facts), (len(names), 0 if reals else len(classes))
    rules = Rules(
        labelling.name, options.positions, options.causal, next_token, longest, *sizes, reals, options.temperature
    )
    last = np.zeros((len(names), max(1, reals)))
    for i, fact in enumerate(facts):  # in the order of the files: the label that comes last stays
        spill.write(f"table-{i:05}", [], token=rows[i], label=label_rows[i])
        if labelling.at_tokens and reals:
            last[rows[i]] = fact["last"]
        elif labelling.at_tokens:
            known = fact["last"] >= 0
            last[rows[i][known], 0] = label_rows[i][fact["last"][known]]
    plans = tuple(ReadPlan.from_json(json.loads(str(fact["plan"][0]))) for fact in facts)
    return BuildState(
        work.shards,
        replace(rules, order=by_label(last)) if labelling.at_tokens else rules,
        names.cut_into(unit),
        None if reals else classes,
        sum(int(fact["sequences"]) for fact in facts),
        _total(len(names), rows, [fact["token_count"] for fact in facts]),
        label_count,
        scalar=bool(facts[0]["scalar"]),
        plans=plans,
        recognizes=all(plan.keyed for plan in plans) if options.unknown is None else options.unknown,
    )
