"""Read facts as token ids, and refuse two that continue the same ids with different tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monolayer.data import Sequences
from monolayer.data.layout import Manner
from monolayer.data.readers import sequences_of
from monolayer.errors import ContradictionError, DataError
from monolayer.huggingface.cutting import FactIds, cut_facts, tokenizer_of
from monolayer.huggingface.host import TOKENIZER, Host
from monolayer.huggingface.settings import GENERATION_FILE, read_generation

PER_ANSWER = Manner(per="answer")
"""Reads two columns of text as prompts and their answers."""


def read_facts(X: object, Y: object = None) -> Sequences:
    """Prompts and answers from a dict, a table, a file or two lists."""
    data = sequences_of(X, Y, like=PER_ANSWER, labelled=True)
    if data.prompts is None:
        raise DataError("facts are prompts and answers, both text: a dict, a table of two columns, or two lists")
    data.check_labelled()
    return data


def stopping_tokens(host: Host, content: Mapping[str, bytes]) -> tuple[Any, ...]:
    """The ids at which `generate` stops, from generation_config.json or else config.json; they are not checked."""
    said: object = read_generation(content).get("eos_token_id") if GENERATION_FILE in content else None
    said = host.config.get("eos_token_id") if said is None else said
    if said is None:
        return ()
    return tuple(said) if isinstance(said, list) else (said,)


def end_token(host: Host, content: Mapping[str, bytes]) -> int | None:
    """The id that ends answers: the first one at which `generate` stops, or None if there is none."""
    first: Any = next(iter(stopping_tokens(host, content)), None)
    if first is not None and (type(first) is not int or not 0 <= first < host.vocabulary):
        raise DataError(
            f"the host's end token is {first!r}, and it has {host.vocabulary:,} tokens: set eos_token_id in its "
            "config.json, or attach with end=False"
        )
    found: int | None = first
    return found


def ids_of(host: Host, content: Mapping[str, bytes], data: Sequences, end: int | None) -> list[FactIds]:
    """The ids of the facts in `data`. Raises an error if a fact does not fit into the host or two contradict."""
    facts = cut_facts(content[TOKENIZER], data, end)
    room, stops = host.places, stopping_tokens(host, content)
    for row, fact in enumerate(facts):
        if room is not None and len(fact.sequence) > room:
            raise DataError(
                f"row {row} has {len(fact.sequence):,} tokens, prompt and answer, and the host has {room:,} places"
            )
        odd = next((token for token in (*fact.prompt, *fact.answer) if token >= host.vocabulary), None)
        if odd is not None:
            raise DataError(f"row {row}: the tokenizer gives id {odd}, and the host has {host.vocabulary:,} tokens")
        stop = next((token for token in fact.answer[:-1] if token in stops), None)
        if stop is not None:
            name = tokenizer_of(content[TOKENIZER]).id_to_token(stop)
            raise DataError(
                f"row {row}: its answer holds the token {name!r} (id {stop}), at which generate stops (eos_token_id): "
                "what follows would not come. Take it out of the answer"
            )
    check_consistent(facts, content)
    return facts


def check_consistent(facts: Sequence[FactIds], content: Mapping[str, bytes]) -> None:
    """Raise a `ContradictionError` if two facts continue the same ids with different tokens."""
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    for row, fact in enumerate(facts):
        whole = fact.prompt + fact.answer
        for place in fact.places:
            before, wanted = whole[: place + 1], whole[place + 1]
            other, token = known.setdefault(before, (row, wanted))
            if token == wanted:
                continue
            name = tokenizer_of(content[TOKENIZER]).id_to_token
            raise ContradictionError(
                f"rows {other} and {row} contradict each other: after the same {place + 1} tokens one continues with "
                f"{name(token)!r}, the other with {name(wanted)!r}. Keep one of them"
            )
