"""Claim: a chat without its question mark, continued by the stored answer, wakes only neurons that say what comes next.

    python bench/later_tokens_answer_only_as_their_own_fact.py HOST FACTS.json [--facts 40] [--dtype float32 bfloat16]

The state at a later token of an answer depends less on the prompt than that at the prompt's end. So facts whose prompts
end with a question mark are attached in the chat template of HOST, and each chat is asked once more without that mark,
followed by the stored answer. FACTS.json is a list of objects with `question` (or `prompt`) and `answer` (or
`target_new`).

Claimed is that no neuron is awake inside the changed prompt, and that at its end and in the answer none is but that of
the same place, which says what the text goes on with. Not claimed, but counted: texts in which one is awake at the
prompt's end, texts in which one is at a later place, and how far states are from the key there.

    fall    (T − input)/α: by how much ⟨k, û⟩ is less than what the neuron was built for
    own     the largest fall of the stored text itself, in eager and sdpa attention, batches and token by token
    other   the fall at the same place of the changed text, the least of eager and sdpa

No cap that holds the own states is silent at the other one unless `other` is several times `own`: a neuron answers from
`low` T on and is silent below −S, so (1 + S/T)/(1 − low) times. `--out` gets a line of JSON per format.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import monolayer as ml
from facts_in_a_real_host import run_options, written_as
from monolayer.attaching.facts import read_facts
from monolayer.attaching.running import KERNELS, LOOKED_AT, PlacesAsked, Running
from monolayer.huggingface.cutting import FactIds, cut_facts
from monolayer.huggingface.host import TOKENIZER
from workload import claim, record, run

MARK = "?"


def questions_in(path: Path, count: int) -> dict[str, str]:
    """The first questions of a file that end with a question mark, and their answers."""
    found: dict[str, str] = {}
    for row in json.loads(path.read_text()):
        question = (row.get("question") or row.get("prompt")).strip()
        if question.endswith(MARK) and len(found) < count:
            found.setdefault(question, (row.get("answer") or row["target_new"]).strip())
    return found


def attached(host: Path, facts: dict[str, str], device: str) -> tuple[Any, dict[str, str]]:
    """The facts attached in chats, and those of them that the host tells apart."""
    while True:
        try:
            return ml.attach(host, facts, chat=True, device=device), facts
        except ml.PrecisionError as why:
            print(f"refused: {why}", flush=True)
            if not why.rows:
                raise
            facts = {prompt: answer for row, (prompt, answer) in enumerate(facts.items()) if row not in why.rows}


class Falls:
    """By how much ⟨k, û⟩ falls at states, and which neurons are awake there."""

    def __init__(self, made: Any, running: Running) -> None:
        self.neurons, self.running = made.neurons, running
        self.T, self.S = made.steep.response, made.host.silence
        self.alpha = np.sqrt((self.neurons.W_1**2).sum(axis=1) * made.host.width)

    def inputs(self, states: torch.Tensor) -> Any:
        """The inputs of all neurons `(n, N)` at states `(n, D)`."""
        return self.running.normed(states) @ self.neurons.W_1.T + self.neurons.b_1

    def of(self, states: torch.Tensor, neuron: Any) -> Any:
        """The fall at each state, for its own neuron."""
        inputs = (self.running.normed(states) * self.neurons.W_1[neuron]).sum(axis=1) + self.neurons.b_1[neuron]
        return (self.T - inputs) / self.alpha[neuron]

    def own(self, facts: list[FactIds], starts: Any) -> Any:
        """The largest fall of each neuron at its own state, in all ways in which facts are asked."""
        most = np.full(len(self.alpha), -np.inf)

        def look_at(asked: PlacesAsked, states: torch.Tensor) -> Any:
            neuron = starts[asked.rows] + asked.places
            np.maximum.at(most, neuron, self.of(states, neuron))
            return np.zeros((len(LOOKED_AT), len(states)))

        self.running.ask(facts, look_at, lambda stage, share: None)
        for kernel in KERNELS:
            texts = self.running.states([fact.sequence for fact in facts], kernel)
            for start, fact, states in zip(starts, facts, texts, strict=True):
                neuron = start + np.arange(len(fact.answer))
                np.maximum.at(most, neuron, self.of(states[fact.places.start :], neuron))
        return most


def measured(host: Path, given: dict[str, str], device: str) -> dict[str, Any]:
    """What is counted in one format."""
    made, facts = attached(host, given, device)
    content, manifest = made.source.content[TOKENIZER], made.manifest
    running = Running(made.host, made.source, device)
    falls, starts = Falls(made, running), np.array(manifest.starts())

    def cut(rows: dict[str, str]) -> list[FactIds]:
        return cut_facts(content, read_facts(rows), manifest.end, manifest.templates, manifest.per)

    stored, changed = cut(facts), cut({prompt[: -len(MARK)]: answer for prompt, answer in facts.items()})
    own, other = falls.own(stored, starts), np.full(len(falls.alpha), np.inf)
    asked, fired, elsewhere, texts = set[int](), set[int](), 0, 0
    copies = [[n for n, each in enumerate(stored) if each.answer == fact.answer] for fact in stored]
    for kernel in KERNELS:
        seen = running.states([fact.sequence for fact in changed], kernel)
        for number, (before, fact, states) in enumerate(zip(stored, changed, seen, strict=True)):
            if before.answer != fact.answer:  # the tokenizer splits the answer in another way behind this text
                continue
            texts += 1
            all_places, first = np.arange(len(fact.answer)), fact.places.start
            awake = falls.inputs(states) > -falls.S
            # A fact in several templates stores its answer several times, and each copy says the same.
            own_places = np.stack([awake[first + all_places, starts[n] + all_places] for n in copies[number]])
            asked |= {number} if own_places[:, 0].any() else set()
            fired |= {number} if own_places[:, 1:].any() else set()
            elsewhere += int(awake.sum() - own_places.sum())
            place, neuron = first + all_places[1:], starts[number] + all_places[1:]
            other[neuron] = np.minimum(other[neuron], falls.of(states[place], neuron))
    later = np.isfinite(other)
    fmt, T = made.host.format, falls.T
    apart = (1.0 + falls.S / T) / (1.0 - fmt.low)
    near = other[later] < apart * np.maximum(own[later], 0.0)
    fires = other[later] < (1.0 + falls.S / T) * T / falls.alpha[later]
    radii = T / falls.alpha
    return {
        "dtype": made.host.dtype,
        "facts": len(facts),
        "templates": len(manifest.templates),
        "texts": texts // len(KERNELS),
        "texts_awake_at_their_prompts_end": len(asked),
        "texts_awake_at_a_later_place": len(fired),
        "awake_elsewhere": elsewhere,
        "later_tokens": int(later.sum()),
        "later_tokens_that_fire": int(fires.sum()),
        "that_no_cap_of_what_was_seen_silences": int((fires & near).sum()),
        "radius_of_later_tokens": quantiles(radii[later]),
        "own": quantiles(own[later]),
        "other": quantiles(other[later]),
        "other_over_own": quantiles(other[later] / np.maximum(own[later], 1e-12)),
        "needed_over_own": apart,
    }


def quantiles(values: Any) -> list[float]:
    """The least value, the 5 % quantile, the median, the 95 % quantile and the largest."""
    return [float(value) for value in np.quantile(values, [0.0, 0.05, 0.5, 0.95, 1.0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", type=Path)
    parser.add_argument("facts_file", type=Path, metavar="FACTS.json")
    parser.add_argument("--facts", type=int, default=40)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    options = run_options(parser)
    facts, lines = questions_in(options.facts_file, options.facts), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as scratch:
        for dtype in options.dtype:
            lines.append(measured(written_as(options.host, dtype, Path(scratch) / dtype), facts, options.device))
            print(json.dumps(lines[-1]), flush=True)
            if options.out is not None:
                options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
            claim(f"{dtype}: neurons awake where they have another place", lines[-1]["awake_elsewhere"], at_most=0)
    record(lines, options.device)


if __name__ == "__main__":
    run(main)
