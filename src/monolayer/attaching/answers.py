"""Answer prompts with a host that has facts attached: by `generate`, or from the rows that its neurons write.

With transformers, `generate` continues a prompt with the likeliest token each time, up to the end token. Without
transformers, the answers of stored facts are read from the weights: each neuron stands for the token that has the
largest logit at the row which the neuron writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from monolayer.arrays import Ints
from monolayer.attaching.directions import Directions
from monolayer.attaching.neurons import Neurons
from monolayer.attaching.running import Running
from monolayer.data import Sequences
from monolayer.errors import DataError, needs_extra
from monolayer.huggingface.bare import LanguageModel
from monolayer.huggingface.cutting import continuation, cut_prompts, tokenizer_of
from monolayer.huggingface.endings import Endings
from monolayer.huggingface.host import TOKENIZER, Host, host_of
from monolayer.huggingface.manifest import Manifest, prompt_digest
from monolayer.huggingface.settings import stopping_tokens
from monolayer.huggingface.templates import PLAIN, Template

LONGEST = 16
"""How many tokens `generate` may return, unless a stored answer is longer."""


def can_generate() -> bool:
    """Whether transformers are installed."""
    return find_spec("transformers") is not None


class Prompts:
    """Prompts as ids, and for each the number of the stored fact with that prompt, or None.

    A prompt is asked in the first of the folder's templates. A text that is a stored prompt in its template already is
    asked as it is.
    """

    def __init__(self, host: Host, manifest: Manifest, content: Mapping[str, bytes], data: Sequences) -> None:
        self.host, self.manifest, self.tokenizer = host, manifest, tokenizer_of(content[TOKENIZER])
        self.endings = Endings(content[TOKENIZER], manifest)
        self.stops = () if manifest.end is None else stopping_tokens(host.config, content)
        self.texts = [data.texts(row)[0] for row in range(len(data))]
        self.templates = [manifest.templates[0]] * len(data)
        self.ids = cut_prompts(content[TOKENIZER], data, manifest.templates[0])
        self.stored = manifest.longest_by_prompt()
        self.facts = [self.stored.get(prompt_digest(ids)) for ids in self.ids]
        whole = {Template(PLAIN.text, each.special_tokens) for each in manifest.templates} - {manifest.templates[0]}
        for template in sorted(whole, key=str):
            for row, ids in enumerate(cut_prompts(content[TOKENIZER], data, template)):
                number = self.stored.get(prompt_digest(ids))
                if self.facts[row] is None and number is not None:
                    self.ids[row], self.facts[row], self.templates[row] = ids, number, template

    def unanswerable(self) -> dict[int, str]:
        """Rows that cannot be answered, each with the reason."""
        reasons = {}
        for row, ids in enumerate(self.ids):
            misfit = self.host.misfit(ids)
            if not ids:
                reasons[row] = f"the tokenizer produces no token for the prompt {self.texts[row]!r}"
            elif misfit is not None:
                reasons[row] = misfit
            elif self.facts[row] is None and not can_generate():
                prompt = f"no fact is stored for the prompt {self.texts[row]!r}"
                reasons[row] = str(needs_extra(f"{prompt}, and running the host on it needs transformers", "stock"))
        return reasons

    def notes(self) -> dict[int, str]:
        """Rows without a stored fact whose texts end with a stored prompt, each told in words."""
        remarks = {}
        for row, text in enumerate(self.texts):
            note = self.endings.note(text) if self.facts[row] is None else None
            if note is not None:
                remarks[row] = note
        return remarks

    def generated(self, running: Running, rows: Sequence[int]) -> list[str]:
        """The texts with which `generate` continues the prompts of these rows."""
        most = max([LONGEST, *(fact.places for fact in self.manifest.facts)])
        texts = []
        for row in rows:
            ids = running.continued(self.ids[row], most, self.stops)
            texts.append(self._stated(row, ids))
        return texts

    def written(self, neurons: Neurons, rows: Sequence[int]) -> list[str]:
        """The answers to these rows, read from what the neurons of their facts write, without the end token."""
        starts = self.manifest.starts()
        head, texts = Directions(self.host), []
        for row in rows:
            number = self.facts[row]
            assert number is not None  # `unanswerable` has refused rows without a fact
            neurons_of_fact = slice(starts[number], starts[number] + self.manifest.facts[number].places)
            tokens: Ints = head.said(neurons.W_2[neurons_of_fact])
            ids = [token for token in tokens.tolist() if token != self.manifest.end]
            texts.append(self._stated(row, ids))
        return texts

    def _stated(self, row: int, said: Sequence[int]) -> str:
        """The text of the ids `said` behind a prompt, as data state answers: with the space that separates the two."""
        text = continuation(self.tokenizer, self.ids[row], said)
        return self.templates[row].stated(self.texts[row], text, self.manifest.per)


def continuations(model: LanguageModel, data: Sequences, longest: int, template: Template = PLAIN) -> list[str]:
    """How the language model in a folder continues each prompt, in the text of `template`, up to its end token.

    `longest`: the number of tokens of the longest answer to expect.
    """
    content = model.opened.content
    if TOKENIZER not in content:
        raise DataError(f"{model.opened.path} has no {TOKENIZER}, which splits prompts: save its tokenizer into it")
    host = host_of(json.loads(content["config.json"]), model.opened.tensors)
    prompts = cut_prompts(content[TOKENIZER], data, template)
    for row, ids in enumerate(prompts):
        misfit = host.misfit(ids)
        if misfit is not None:
            raise DataError(f"{data.named(row)}: {misfit}")
    running, tokenizer = Running(host, model.opened, whole=True), tokenizer_of(content[TOKENIZER])
    most, stops = max(LONGEST, longest), stopping_tokens(host.config, content)
    return [continuation(tokenizer, ids, running.continued(ids, most, stops)) for ids in prompts]


__all__ = ["LONGEST", "Prompts", "can_generate", "continuations"]
