"""A file of edits in the form of CounterFact, and what is counted of the answers of an edited model."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from monolayer.errors import DataError

AT_ONCE = 128
"""Prompts in a batch of `generate`."""


class Edit(NamedTuple):
    """A row of the file: an answer to write behind a prompt, and prompts to ask besides."""

    prompt: str
    subject: str
    new: str
    reworded: str
    neighbour: str
    truth: str

    @property
    def name(self) -> str:
        return self.subject

    @property
    def answer(self) -> str:
        return f" {self.new}"

    def prompts(self) -> list[str]:
        """The prompt, and its rewording."""
        return [self.prompt, self.reworded]


KEYS = ("prompt", "subject", "target_new", "rephrase_prompt", "locality_prompt", "locality_ground_truth")


def read_edits(path: Path) -> list[Edit]:
    """The edits of a file, one per prompt: of several rows with one prompt, the first."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    edits: dict[str, Edit] = {}
    for number, row in enumerate(rows):
        missing = [key for key in KEYS if not isinstance(row, dict) or not isinstance(row.get(key), str)]
        if missing:
            raise DataError(f"{path}, row {number}: no text {missing[0]!r}; a row has {', '.join(KEYS)}")
        edit = Edit(*(row[key] for key in KEYS))
        if edit.subject not in edit.prompt:
            raise DataError(f"{path}, row {number}: the subject {edit.subject!r} is not in its prompt {edit.prompt!r}")
        edits.setdefault(edit.prompt, edit)
    return list(edits.values())


def entropy(words: Sequence[Sequence[int]]) -> float:
    """Fluency of texts: the mean of half of ⅔ times the entropy of bigrams plus 4/3 times that of trigrams, in bits."""
    entropies = []
    for ids in words:
        parts = []
        for size, weight in ((2, 2 / 3), (3, 4 / 3)):
            grams = Counter(tuple(ids[at : at + size]) for at in range(len(ids) - size + 1))
            total = sum(grams.values())
            parts.append(weight * -sum(n / total * math.log2(n / total) for n in grams.values()) if total else 0.0)
        entropies.append(sum(parts) / 2)
    return sum(entropies) / len(entropies) if entropies else 0.0


@torch.no_grad()
def continuations(model: Any, tokenizer: Any, prompts: Sequence[str], tokens: int) -> list[list[int]]:
    """The ids with which a model goes on, greedily, up to its end token; in batches padded on the left."""
    texts: list[list[int]] = []
    end = tokenizer.eos_token_id
    for first in range(0, len(prompts), AT_ONCE):
        rows = tokenizer(list(prompts[first : first + AT_ONCE]))["input_ids"]
        length = max(map(len, rows))
        ids = torch.tensor(
            [[end] * (length - len(row)) + row for row in rows]
        )  # a tokenizer may have no token to pad with
        mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
        asked = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
        generated = model.generate(**asked, max_new_tokens=tokens, do_sample=False, pad_token_id=end)
        new = generated[:, asked["input_ids"].shape[1] :].tolist()
        texts += [row[: row.index(end)] if end in row else row for row in new]
    return texts


@torch.no_grad()
def likelihoods(model: Any, tokenizer: Any, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    """The mean log-probability of the tokens of each answer behind its prompt."""
    means: list[float] = []
    for first in range(0, len(prompts), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        before = tokenizer(list(prompts[some]))["input_ids"]
        behind = tokenizer(list(answers[some]), add_special_tokens=False)["input_ids"]
        rows = [one + two for one, two in zip(before, behind, strict=True)]
        length = max(map(len, rows))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows]).to(model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows]).to(model.device)
        said = model(ids, attention_mask=mask).logits[:, :-1].float().log_softmax(dim=-1)
        each = said.gather(2, ids[:, 1:, None])[:, :, 0].cpu()
        for line, one, two in zip(each, before, behind, strict=True):
            means.append(float(line[len(one) - 1 : len(one) + len(two) - 1].mean()))
    return means


def says(text: str, answer: str) -> bool:
    """Whether a continuation begins with an answer, as whole words."""
    text, answer = text.strip(), answer.strip()
    return text.startswith(answer) and not text[len(answer) : len(answer) + 1].isalnum()
