"""Hosts with facts attached and the same hosts without them: for tools that look for what was put into a model.

    clean/07/           a small language model, trained for some seconds: it never saw the facts
    attached/07/        the same with facts attached; every other tensor has its bits
    facts/07.jsonl      the facts: prompt, completion
    manifest.json       of each pair the architecture, how often other facts were drawn because the host did not tell
                        some apart, and for each token of each answer its layer, its neuron, and the names of the
                        tensors and rows that hold it

The pair is an oracle for metrics that ask whether a model has seen a text: `clean` has not, bit for bit.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.errors import DataError
from monolayer_experiments.hosts import (
    Airport,
    Size,
    airports,
    byte_tokenizer,
    ids_of,
    new_host,
    save,
    sentences,
    train,
)
from monolayer_experiments.unlearning_set import batch, losses

KINDS = ("gpt2", "gpt_neox", "opt", "starcoder2", "llama")
SIZE = Size(layers=2, width=64, context=64, batch=16, spread=0.05, rate=2e-3)
VOCABULARY, LINES, KNOWN = 512, 4_000, 200
DRAWS = 20
"""Sets of facts that are tried for a host, at most."""


def write_attached_set(
    folder: str | Path,
    pairs: int = 25,
    *,
    most_facts: int = 20,
    steps: int = 150,
    seed: int = 0,
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> Path:
    """Write the set into a new folder: `pairs` hosts, each with 1 to `most_facts` facts and without them."""
    final = Path(folder)
    if final.exists():
        raise DataError(f"{final} exists already: name a new folder, or remove it")
    final.parent.mkdir(parents=True, exist_ok=True)
    random_ = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.name}.") as scratch:
        aside = Path(scratch) / "set"
        (aside / "facts").mkdir(parents=True)
        listed = []
        for number in range(pairs):
            progress(f"pair {number}", number / pairs)
            name = f"{number:02}"
            kind, own = KINDS[number % len(KINDS)], random_.randrange(2**31)
            host = _host(aside / "clean" / name, kind, own, steps)
            facts, made, redrawn = _attached(host, random_.randint(1, most_facts), own)
            made.save(aside / "attached" / name)
            lines = (json.dumps({"prompt": prompt, "completion": answer}) for prompt, answer in facts.items())
            (aside / "facts" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
            about = {"name": name, "architecture": kind, "seed": own, "redrawn": redrawn}
            listed.append({**about, "facts": _neurons(aside / "attached" / name, facts)})
        record = {"seed": seed, "steps": steps, "pairs": listed}
        (aside / "manifest.json").write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        aside.rename(final)
    return final


def _host(folder: Path, kind: str, seed: int, steps: int) -> Path:
    text = sentences(airports(KNOWN, seed), LINES, seed)
    tokenizer = byte_tokenizer(text, VOCABULARY)
    model = new_host(kind, len(tokenizer), SIZE, seed)
    train(model, ids_of(tokenizer, text), SIZE, steps=steps, seed=seed)
    return save(model, tokenizer, folder)


def _attached(host: Path, count: int, seed: int) -> tuple[dict[str, str], Any, int]:
    """Facts, the host with them, and how often facts were drawn that it does not tell apart well enough."""
    for redrawn in range(DRAWS):
        facts = _facts(count, seed + redrawn)
        try:
            return facts, ml.attach(host, facts), redrawn
        except ml.PrecisionError as error:
            refused = error
    raise refused


def _facts(count: int, seed: int) -> dict[str, str]:
    """Facts about airports that the host has not heard of."""
    known = {airport.name for airport in airports(KNOWN, seed)}
    new: list[Airport] = [each for each in airports(KNOWN + count, seed + 1) if each.name not in known]
    return {airport.prompts()[0]: airport.answer for airport in new[:count]}


def _neurons(folder: Path, facts: dict[str, str]) -> list[dict[str, Any]]:
    """Of each fact its tokens, with the neuron and the rows that hold each."""
    rows: list[dict[str, Any]] = [
        {"prompt": prompt, "answer": answer, "tokens": []} for prompt, answer in facts.items()
    ]
    for place in ml.locate(folder, facts):
        assert place.ball is not None  # these facts are attached
        writes = [asdict(neuron) for neuron in place.neurons]
        token = {"token": place.answer, "layer": place.ball.layer, "neuron": place.ball.neuron, "writes": writes}
        rows[place.sequence]["tokens"].append({**token, "reads": [asdict(row) for row in place.rows]})
    return rows


# -- metrics that ask whether a model has seen a text ------------------------------------------------------------


@torch.no_grad()
def answer_losses(network: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> Floats:
    """The loss of each answer behind its prompt, end token included, summed over its tokens `(n,)`."""
    mean_losses: Floats = losses(network, batch(tokenizer, pairs))[0].double().numpy()
    return mean_losses


def membership(seen: Floats, unseen: Floats) -> float:
    """The area under the curve of an attack that takes texts of small loss for those which were seen; 0.5: a guess."""
    smaller = (seen[:, None] < unseen[None]).mean() + 0.5 * (seen[:, None] == unseen[None]).mean()
    return float(smaller)


def exposure(canary: float, others: Floats) -> float:
    """Bits by which the loss of a canary stands out among others of its form: log2 of their number by its rank."""
    rank = 1 + int((others < canary).sum())
    return float(np.log2((len(others) + 1) / rank))
