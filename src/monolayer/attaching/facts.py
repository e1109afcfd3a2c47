"""Read facts as token ids, and refuse two that continue the same ids with different tokens."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from monolayer.data import Sequences
from monolayer.data.layout import Manner
from monolayer.data.lines import Lines
from monolayer.data.readers import sequences_of
from monolayer.errors import ContradictionError, DataError
from monolayer.huggingface.cutting import FactIds, TokenNames, cut_facts, split_text, tokenizer_of
from monolayer.huggingface.host import TOKENIZER, Host
from monolayer.huggingface.manifest import PER_ANSWER
from monolayer.huggingface.settings import stopping_tokens
from monolayer.huggingface.templates import Template
from monolayer.table import plural

LONGEST_TEXT = 80
"""How many characters of a text an error shows at most: the last ones."""


def read_facts(X: object, Y: object = None, like: Manner = PER_ANSWER) -> Sequences:
    """Prompts and answers from a dict, a table, a file or two lists. `like`: how the folder reads that is asked."""
    data = sequences_of(X, Y, like=like, labelled=True)
    if data.prompts is None:
        raise DataError(
            "facts are prompts and answers, both text: a dict, a table of two columns, two lists, or what "
            f"monolayer.read(FILE, per={like.per!r}) returns"
        )
    data.check_labelled()
    return data


def each_once(facts: Sequence[FactIds]) -> list[FactIds]:
    """The different facts, in the order of the first rows that state them. Rows that repeat others need no neurons."""
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], FactIds] = {}
    for fact in facts:
        first.setdefault((fact.prompt, fact.answer), fact)
    return list(first.values())


def repeated_rows(data: Sequences, facts: Sequence[FactIds]) -> int:
    """How many rows of `data` only repeat others; `facts`: the different facts of these data."""
    return len(data) - len({fact.row for fact in facts})


def end_token(host: Host, content: Mapping[str, bytes]) -> int | None:
    """The id that ends answers: the first one at which `generate` stops, or None if there is none."""
    first: Any = next(iter(stopping_tokens(host.config, content)), None)
    if first is not None and (type(first) is not int or not 0 <= first < host.vocabulary):
        raise DataError(
            f"the host's end token is {first!r}, and it has {host.vocabulary:,} tokens: set eos_token_id in its "
            "config.json, or attach with end=False"
        )
    token: int | None = first
    return token


def ids_of(
    host: Host, content: Mapping[str, bytes], data: Sequences, end: int | None, templates: Sequence[Template]
) -> list[FactIds]:
    """The ids of the facts in `data`. Raises an error if a fact does not fit into the host or two contradict."""
    facts = cut_facts(content[TOKENIZER], data, end, templates, data.per_answer)
    check_fit(host, facts)
    stops = stopping_tokens(host.config, content)
    for fact in facts:
        stop = next((token for token in fact.answer[:-1] if token in stops), None)
        if stop is not None:
            name = TokenNames(content[TOKENIZER])(stop)
            raise DataError(
                f"{fact.where}: its answer holds the token {name!r} (id {stop}), at which generate stops "
                "(eos_token_id): what follows would not come. Take it out of the answer"
            )
    check_consistent(facts, content)
    return facts


class KeptText(NamedTuple):
    """The ids of a text at which no fact may answer, and where the text stands, in words."""

    ids: tuple[int, ...]
    where: str


def texts_to_keep(host: Host, content: Mapping[str, bytes], texts: object, special_tokens: bool) -> list[KeptText]:
    """Texts at which no fact may answer. A `DataError` names a text that the host cannot read.

    `texts`: a list of texts, or the path of a file with one text per line.
    """
    tokenizer, kept = tokenizer_of(content[TOKENIZER]), []
    for text, where in listed_texts(texts):
        ids = split_text(tokenizer, text, special_tokens=special_tokens, where=f"keep, {where}")
        misfit = host.misfit(ids)
        if misfit is not None:
            raise DataError(f"keep, {where}: {misfit}")
        kept.append(KeptText(ids, where))
    return kept


def listed_texts(texts: object) -> Iterator[tuple[str, str]]:
    """The texts in a list, or in a file with one per line, each with its place in words."""
    return _texts_in_file(texts) if isinstance(texts, str | os.PathLike) else _listed_texts(texts)


def _texts_in_file(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """The lines of a text file, each with its place in words."""
    if not os.path.isfile(path):  # noqa: PTH113 - a text in place of the path may be too long for a name
        raise DataError(f"keep is a list of texts, or a file with one per line, and {reprlib.repr(path)} is no file")
    with Lines(Path(path)) as lines:
        for line in lines:
            yield line.rstrip("\r\n"), f"line {lines.number} of {lines.name}"


def _listed_texts(texts: object) -> Iterator[tuple[str, str]]:
    """The texts in a list, each with its place in words."""
    if not isinstance(texts, Iterable):
        raise DataError(f"keep is a list of texts, not {reprlib.repr(texts)}")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"keep is a list of texts, and number {number} of it is {reprlib.repr(text)}")
        yield text, f"text {number}"


def check_fit(host: Host, facts: Sequence[FactIds]) -> None:
    """Raise a `DataError` that names a fact with more tokens than the host has places, or with an unknown token."""
    for fact in facts:
        misfit = host.misfit(fact.sequence) or host.misfit(fact.answer[-1:])
        if misfit is not None:
            raise DataError(f"{fact.where}, prompt and answer: {misfit}")


def check_consistent(facts: Sequence[FactIds], content: Mapping[str, bytes]) -> None:
    """Raise a `ContradictionError` if two facts continue the same ids with different tokens."""
    known: dict[tuple[int, ...], tuple[FactIds, int]] = {}
    for fact in facts:
        whole = fact.prompt + fact.answer
        for place in fact.places:
            before, wanted = whole[: place + 1], whole[place + 1]
            other, token = known.setdefault(before, (fact, wanted))
            if token == wanted:
                continue
            name = TokenNames(content[TOKENIZER])
            text = tokenizer_of(content[TOKENIZER]).decode(list(before), skip_special_tokens=False)
            shown = text if len(text) <= LONGEST_TEXT else f"…{text[1 - LONGEST_TEXT :]}"
            raise ContradictionError(
                f"{other.where} and {fact.where} contradict each other: behind the same {plural(place + 1, 'token')}, "
                f"{shown!r}, one continues with {name(token)!r}, the other with {name(wanted)!r}. Keep one of them"
            )
