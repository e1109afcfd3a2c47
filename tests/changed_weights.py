"""Robust stock folders with changed weights: verdicts against what transformers answer in float32, eager and sdpa."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

import monolayer as ml

CASES = [
    ("bert", "token", "relu6", "float32", "positions"),
    ("roberta", "sequence", "relu6", "bfloat16", "positions"),
    ("distilbert", "sequence", "own", "float32", "positions"),
    ("gpt2", "lm", "own", "float32", "positions"),
    ("opt", "sequence", "own", "bfloat16", "positions"),
    ("gpt_neox", "token", "own", "float32", "positions"),
    ("starcoder2", "lm", "relu6", "float32", "positions"),
    ("llama", "token", "own", "bfloat16", "positions"),
]
MODELS = {
    "token": transformers.AutoModelForTokenClassification,
    "sequence": transformers.AutoModelForSequenceClassification,
    "lm": transformers.AutoModelForCausalLM,
}


def attack(name: str, task: str, activation: str, dtype: str, places: str, *, count: int, seed: int) -> dict[str, int]:
    """How many changed folders got which verdict; one that is contradicted is an error."""
    random = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(20)]
    X = [[f"s{row}", *random.choice(words, random.integers(7, 12)).tolist()] for row in range(8)]
    Y: Any = None
    if task == "token":
        Y = [["NVA"[random.integers(3)] for _ in sentence] for sentence in X]
    elif task == "sequence":
        Y = ["xyz"[row % 3] for row in range(len(X))]
    options: dict[str, Any] = {"activation": activation, "dtype": dtype, "positions": places == "positions"}
    verdicts = {"proved": 0, "refuted": 0, "undecided": 0}
    with tempfile.TemporaryDirectory() as scratch:
        folder = ml.memorize_as(name, X, Y, rank=32, **options).save(Path(scratch) / "model")
        tensors = load_file(folder / "model.safetensors")
        known: list[Any] = [
            MODELS[task].from_pretrained(folder, dtype=torch.float32, attn_implementation=kind).eval()
            for kind in ("eager", "sdpa")
        ]
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for turn in range(count):
            changed = {key: value.clone() for key, value in tensors.items()}
            what = _change(changed, random)
            save_file(changed, folder / "model.safetensors")
            verdict = ml.certify(folder, X, Y).verdict
            verdicts[verdict] += 1
            for model in known:
                model.load_state_dict({key: value.float() for key, value in changed.items()}, strict=False)
                wrong = _wrong(model, tokenizer, task, X, Y)
                if verdict == ("proved" if wrong else "refuted"):
                    raise AssertionError(f"{name} {task}, change {turn} ({what}): {verdict}, and {wrong} are wrong")
    return verdicts


def _change(tensors: dict[str, torch.Tensor], random: np.random.Generator) -> str:
    """Change one tensor in place, and say how."""
    live = [name for name in sorted(tensors) if tensors[name].any()]
    name = random.choice(live if random.random() < 0.8 else sorted(tensors))
    flat = tensors[name].view(-1)
    used = torch.nonzero(flat).reshape(-1).numpy()
    at = int(random.choice(used) if len(used) and random.random() < 0.8 else random.integers(len(flat)))
    kind = random.choice(["bit", "zero", "negate", "scale", "shift", "slight", "rows", *(3 * ["jolt"])])
    if kind == "bit":
        one = flat[at : at + 1].view(torch.int32 if flat.dtype == torch.float32 else torch.int16)
        one ^= int(1 << random.integers(31 if flat.dtype == torch.float32 else 15))
    elif kind == "jolt":
        # From harmless to fatal: about where labels are lost, proofs must become undecided in time.
        flat *= 1.0 + float(np.exp(random.uniform(-5.0, 0.5))) * torch.from_numpy(random.normal(size=len(flat)))
    elif kind == "rows" and tensors[name].ndim == 2:
        rows = random.integers(len(tensors[name]), size=2)
        tensors[name][rows] = tensors[name][rows[::-1].copy()]
    else:
        old = float(flat[at])
        new = {"zero": 0.0, "negate": -old, "scale": 1.5 * old, "shift": old + 3.0}
        flat[at] = new.get(kind, old * (1.0 + float(random.normal()) * 1e-3))
    return f"{kind} {name}[{at}]"


def _wrong(model: Any, tokenizer: Any, task: str, X: Any, Y: Any) -> int:
    """Labels that it gets wrong; what is not a number is wrong."""
    batch = tokenizer(X, is_split_into_words=True, padding=True, padding_side="right", return_tensors="pt")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        logits = model(**batch).logits
    lost, best = logits.isnan().any(-1), logits.argmax(-1)
    names = model.config.id2label
    if task == "sequence":
        return sum(bool(lost[row]) or names[int(best[row])] != Y[row] for row in range(len(X)))
    count = 0
    for row, sentence in enumerate(X):
        ids = batch["input_ids"][row, 1:].tolist()
        wanted = Y[row] if task == "token" else [*ids[1 : len(sentence)], model.config.eos_token_id]
        for place, label in enumerate(wanted):
            said = int(best[row, place + 1])
            count += bool(lost[row, place + 1]) or (names[said] if task == "token" else said) != label
    return count
