"""Two language models that lie in folders, compared tensor by tensor: a host, and what facts were attached to it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from torch import nn

from monolayer.attaching.answers import continuations
from monolayer.data import Sequences
from monolayer.editing.comparison import Answer, Comparison
from monolayer.editing.difference import config_change
from monolayer.editing.record import FACTS_SHOWN
from monolayer.errors import DataError
from monolayer.huggingface.architectures import HOSTS
from monolayer.huggingface.bare import BareLayer, LanguageModel
from monolayer.huggingface.host import COPIED
from monolayer.huggingface.templates import PLAIN
from monolayer.huggingface.tensors import Tensor
from monolayer.saved.kinds import open_model
from monolayer.table import plural

NAMED = 5
"""How many tensors a row names; it counts the others."""


@dataclass(frozen=True)
class HostComparison(Comparison):
    """Where two language models differ. `weights`, `config`, … as in `Comparison`; `names`: whether all files of the
    tokenizer are the same.

    `equal`: how many tensors both have, bit for bit. `one_alone`, `two_alone`: tensors that only one has. `bare_one`,
    `bare_two`: layers of each whose attention adds nothing, with how many neurons write there: what facts are attached
    with. `facts_one`, `facts_two`: how many facts the `attached.json` of each counts; None without that file.
    """

    equal: int
    one_alone: tuple[str, ...]
    two_alone: tuple[str, ...]
    bare_one: tuple[BareLayer, ...]
    bare_two: tuple[BareLayer, ...]
    facts_one: int | None
    facts_two: int | None

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        differ = {name: count for name, count in self.weights.items() if count is not None}
        shapes = [name for name in self.weights if name not in {*differ, *self.one_alone, *self.two_alone}]
        rows = [("tensors", f"{self.equal:,} are the same in both, bit for bit")]
        if differ or shapes:
            counted = [f"{name}: {plural(count, 'number')}" for name, count in differ.items()]
            rows.append(("differ", _first_words([*counted, *(f"{name}: another shape" for name in shapes)])))
        for which, alone in (("first", self.one_alone), ("second", self.two_alone)):
            if alone:
                rows.append((f"only in the {which}", f"{plural(len(alone), 'tensor')}: {_first_words(list(alone))}"))
        for which, bare, facts in (
            ("first", self.bare_one, self.facts_one),
            ("second", self.bare_two, self.facts_two),
        ):
            if bare or facts is not None:
                rows.append((f"planted in the {which}", _planted(bare, facts)))
        rows += [("configuration", f"{key}: {one!r} → {two!r}") for key, (one, two) in self.config.items()]
        if not self.names:
            rows.append(("tokenizer", "its files are not the same"))
        return rows + self.answer_rows()


def _first_words(words: list[str]) -> str:
    more = f" and {len(words) - NAMED:,} more" if len(words) > NAMED else ""
    return ", ".join(words[:NAMED]) + more


def _planted(bare: tuple[BareLayer, ...], facts: int | None) -> str:
    """What tensors show, and what `attached.json` says of it."""
    numbers = ", ".join(str(each.layer) for each in bare)
    neurons = sum(each.neurons for each in bare)
    shown = "no layer whose attention adds nothing"
    if bare:
        shown = f"{'layer' if len(bare) == 1 else 'layers'} {numbers}, whose attention adds nothing: "
        shown += f"{plural(neurons, 'neuron')} may hold tokens of answers"
    counted = "no attached.json says so" if facts is None else f"attached.json counts {plural(facts, 'fact')}"
    return f"{shown}; {counted}"


def language_models(one: object, two: object) -> tuple[LanguageModel, LanguageModel] | None:
    """The language models in two folders, or of `attach`, if at least one of them does not list its facts.

    None where both do, or neither is a language model: then they are compared as models of monolayer. A `DataError`
    where only one of them is a language model.
    """
    given = [open_model(model) if isinstance(model, str | os.PathLike) else model for model in (one, two)]
    if all(getattr(model, "lists_facts", False) for model in given):
        return None
    # A network in memory is not one of transformers; other models are what they write.
    first, second = (None if isinstance(model, nn.Module) else open_model(model).language for model in given)
    for mine, other in ((first, two), (second, one)):
        if mine is not None and (first is None or second is None):
            raise DataError(
                f"one of the two is a language model ({mine.opened.path}); it can be compared with the folder of "
                f"another one of {', '.join(HOSTS)}, and {other} is none"
            )
    return None if first is None or second is None else (first, second)


def compare_hosts(one: LanguageModel, two: LanguageModel, X: object = None) -> HostComparison:
    """Where two language models differ, tensor by tensor; with `X`, also how they go on from these prompts."""
    old, new = one.opened.tensors, two.opened.tensors
    weights = {name: _differing(old.get(name), new.get(name)) for name in sorted({*old, *new})}
    config = config_change(one.config, two.config)
    asked = None if X is None else _differing_answers(one, two, X)
    bare = [{each.layer: each.neurons for each in model.bare} for model in (one, two)]
    only = [
        sum(mine.values()) - sum(n for layer, n in mine.items() if layer in its) for mine, its in (bare, bare[::-1])
    ]
    facts = [None if model.manifest is None else model.manifest.count for model in (one, two)]
    return HostComparison(
        weights={name: count for name, count in weights.items() if count != 0},
        config={key: [values.get("before"), values.get("after")] for key, values in config.items()},
        names=all(one.opened.content.get(name) == two.opened.content.get(name) for name in COPIED),
        only_one=only[0],
        only_two=only[1],
        asked=None if asked is None else asked[0],
        answers=None if asked is None else len(asked[1]),
        differing=[] if asked is None else asked[1][:FACTS_SHOWN],
        equal=sum(count == 0 for count in weights.values()),
        one_alone=tuple(sorted(old.keys() - new.keys())),
        two_alone=tuple(sorted(new.keys() - old.keys())),
        bare_one=one.bare,
        bare_two=two.bare,
        facts_one=facts[0],
        facts_two=facts[1],
    )


def _differing(one: Tensor | None, two: Tensor | None) -> int | None:
    """How many numbers of two tensors differ, by their bits; None where one is missing, or type or shape differ."""
    if one is None or two is None or (one.code, one.shape) != (two.code, two.shape):
        return None
    if one.data == two.data:
        return 0
    bytes_each = len(one.data) // max(1, int(np.prod(one.shape)))
    first, second = (np.frombuffer(each.data, dtype=f"<u{bytes_each}") for each in (one, two))
    return int(np.count_nonzero(first != second))


def _differing_answers(one: LanguageModel, two: LanguageModel, X: object) -> tuple[int, list[Answer]]:
    """How many prompts were asked, and those from which the two go on differently."""
    data = Sequences.of(X, per="answer").only_prompts()
    if data.prompts is None:
        raise DataError("language models are asked prompts: give them as text")
    manifests = [model.manifest for model in (one, two) if model.manifest is not None]
    longest = max((fact.places for manifest in manifests for fact in manifest.facts), default=0)
    template = next((each.templates[0] for each in manifests if each.templates[0] != PLAIN), PLAIN)
    answers = [continuations(model, data, longest, template) for model in (one, two)]
    pairs = enumerate(zip(*answers, strict=True))
    return len(data), [Answer(row, None, *pair) for row, pair in pairs if pair[0] != pair[1]]
