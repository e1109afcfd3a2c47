"""What all files have in common: their kinds, the names of tokens and labels, counts, and the order of the tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolayer.cluster import encode, reals
from monolayer.cluster.blocks import Rules
from monolayer.cluster.finish import Found
from monolayer.cluster.work import Wishes, Work
from monolayer.construct.line.build import by_label
from monolayer.construct.line.separate import alike
from monolayer.data.labels import Per
from monolayer.data.shards import strangers
from monolayer.errors import DataError

Facts = dict[str, NDArray[Any]]


def survey(work: Work, reading: encode.Reading, wishes: Wishes) -> Found:
    """Every file to numbers; names and counts of all of them together."""
    spill, count = work.spill, len(work.shards)
    tasks = {f"encoded-{i:05}": (work.shards[i], reading) for i in range(count)}
    work.do("reading files", (0.0, 0.2), encode.encode, tasks)
    facts: list[Facts] = [spill.facts(f"encoded-{i:05}") for i in range(count)]
    for shard, fact in zip(work.shards, facts, strict=True):
        one, two = str(facts[0]["kinds"][0]), str(fact["kinds"][0])
        if one != two:
            raise strangers(work.shards[0]["name"], one, shard["name"], two)
    width = int(facts[0]["reals"])
    next_token = not width and "label_names" not in facts[0]
    token = encode.Table.of([fact["token_names"] for fact in facts])
    label = token if next_token or width else encode.Table.of([fact["label_names"] for fact in facts])
    per: Per = "token" if next_token or "last" in facts[0] else "sequence"
    if width:
        label_count = np.array([sum(int(fact["tokens" if per == "token" else "sequences"]) for fact in facts)])
    else:
        label_count = label.total([fact["label_count"] for fact in facts])
    if not label_count.any():
        raise DataError("no sequence has a next token: every one has length 1")
    rules = Rules(
        per,
        wishes.positions,
        wishes.causal,
        next_token,
        max(int(fact["longest"]) for fact in facts),
        len(token),
        0 if width else len(label),
        wishes.temperature,
        None,
        reals=width,
    )
    for i in range(count):
        spill.write(f"table-{i:05}", [], token=token.rows[i], label=label.rows[i])
    if per == "token":
        rules = replace(rules, order=by_label(_last(work, facts, token, label, rules)))
    labelled = int(label_count.sum())
    return Found(
        work.shards,
        rules,
        token.names,
        None if width else label.names,
        sum(int(fact["sequences"]) for fact in facts),
        token.total([fact["token_count"] for fact in facts]),
        label_count,
        scalar=bool(facts[0]["scalar"]),
        crowded=alike(labelled),
    )


def _last(work: Work, facts: list[Facts], token: encode.Table, label: encode.Table, rules: Rules) -> NDArray[np.int64]:
    """The number of the label that comes last with each token `(V,)`, or one that orders labels as it does."""
    if rules.reals:
        last = np.zeros((len(token), rules.reals))
        there = np.zeros(len(token), dtype=bool)
        for rows, fact in zip(token.rows, facts, strict=True):
            last[rows], there[rows] = fact["last"], True
        some = np.zeros(len(there), dtype=np.int64)
        some[there] = reals.first_places(work, rules, last[there])
        return some
    some = np.zeros(len(token), dtype=np.int64)
    for i, fact in enumerate(facts):  # in the order of the files: the label that comes last stays
        known = fact["last"] >= 0
        some[token.rows[i][known]] = label.rows[i][fact["last"][known]]
    return some
