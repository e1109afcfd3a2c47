"""Claim: 1,000 facts attached to a trained GPT-2 all come back by free generation, and nothing else changes in a bit.

    python bench/a_thousand_facts_attached.py        # float32: 1,000 facts on a GPU, 200 on a processor
    python bench/a_thousand_facts_attached.py --dtype float32 bfloat16 float16 --facts 1000 10000     # all; on a GPU
    python bench/a_thousand_facts_attached.py --host FOLDER        # a host that exists, in place of training one

The host is trained here, on Python source that ships with the packages monolayer depends on: 8 layers of width 512 for
two minutes on a GPU, or 2 of width 128 for one on two cores. Facts are sentences about made-up airports; answers have
two tokens or more. Asked by `generate`, with eager attention and sdpa, in batches padded on the left. Compared with the
host, logit by logit: held-out text (`held.npy` in FOLDER, token ids, if it is there), the same sentence about other
airports, the prompts with one token changed. The yardstick for time is one forward pass per prompt, and `generate` of
the host. 10,000 facts are claimed in float32; in shorter formats some of them may be refused, and this says so.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import monolayer as ml
from workload import SAME_RUN, claim, run, seconds

PACKAGES = ("numpy", "scipy", "torch")
CONSONANTS, VOWELS = "bdfghklmnprstv", "aeio"
SYLLABLES = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]


class Size(NamedTuple):
    """The host, what it is trained on, and the tokens of a held-out text."""

    layers: int
    width: int
    vocabulary: int
    context: int
    batch: int
    megabytes: float
    window: int
    spread: float
    """Standard deviation of the first weights; a small host tells contexts apart after a minute if it is wide."""


LARGE, SMALL = Size(8, 512, 8192, 256, 96, 24.0, 200, 0.02), Size(2, 128, 2048, 64, 8, 3.0, 60, 0.08)


def text(megabytes: float) -> str:
    """Python source of packages that are installed."""
    found, size = [], 0
    for name in PACKAGES:
        where = Path(importlib.import_module(name).__file__ or "").parent
        share = 0
        for path in sorted(where.rglob("*.py")):
            if share > megabytes * 1e6 / len(PACKAGES):
                break
            found.append(path.read_text(encoding="utf-8", errors="ignore"))
            share += len(found[-1])
        size += share
    random.Random(0).shuffle(found)
    return "\n".join(found)


def tokenizer(words: str, size: int) -> Any:
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    options = {"special_tokens": ["<end>"], "initial_alphabet": letters, "show_progress": False}
    found.train_from_iterator(words.splitlines()[::4], trainers.BpeTrainer(vocab_size=size, **options))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=found, eos_token="<end>", bos_token="<end>", pad_token="<end>"
    )


def facts(count: int) -> list[tuple[str, str]]:
    """Prompts and answers, all prompts different."""
    draw, found = random.Random(1), dict[str, str]()
    while len(found) < count:
        airport, city = ("".join(draw.choices(SYLLABLES, k=3)).title() for _ in range(2))
        found[f"The airport {airport}, opened in {draw.randint(1920, 2020)}, lies in"] = f" {city}"
    return list(found.items())


def train(folder: Path, ids: torch.Tensor, cut: Any, size: Size, seconds: float, device: str) -> None:
    """A GPT-2 trained on these ids for so long."""
    layers, width = size.layers, size.width
    config = transformers.GPT2Config(
        **{
            "vocab_size": len(cut),
            "n_embd": width,
            "n_layer": layers,
            "n_head": width // 64,
            "n_positions": size.context,
        },
        **{"bos_token_id": 0, "eos_token_id": 0, "initializer_range": size.spread},
    )
    torch.manual_seed(0)
    model: Any = transformers.GPT2LMHeadModel(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    began, steps = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        rate = 6e-4 * min(1, (steps + 1) / 100) * max(0.05, 0.5 * (1 + math.cos(math.pi * spent / seconds)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        start = torch.randint(0, len(ids) - size.context, (size.batch,))
        rows = torch.stack([ids[at : at + size.context] for at in start.tolist()]).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
    print(
        f"host: {layers} layers, width {width}, {len(cut):,} tokens; {steps:,} steps, loss {loss.item():.2f}",
        flush=True,
    )
    model.eval().save_pretrained(folder)
    cut.save_pretrained(folder)


def load(folder: Path, kernel: str, device: str) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation=kernel)
    return model.to(device).eval()


def recall(model: Any, cut: Any, pairs: list[tuple[str, str]], device: str) -> int:
    """How many answers come back by free generation, whole and with their end."""
    right = 0
    for first in range(0, len(pairs), 64):
        some = pairs[first : first + 64]
        given = cut([prompt for prompt, _ in some], return_tensors="pt", padding=True, padding_side="left").to(device)
        said = model.generate(**given, max_new_tokens=16, do_sample=False, pad_token_id=0)
        for row, (_, answer) in zip(said[:, given["input_ids"].shape[1] :].tolist(), some, strict=True):
            right += 0 in row and cut.decode(row[: row.index(0)]) == answer
    return right


def generating(model: Any, cut: Any, prompts: list[str], device: str) -> float:
    """Seconds for 16 tokens behind each prompt, whatever they are: the best of three runs."""
    given = cut(prompts, return_tensors="pt", padding=True, padding_side="left").to(device)
    options = {"max_new_tokens": 16, "min_new_tokens": 16, "do_sample": False, "pad_token_id": 0}

    def once() -> None:
        model.generate(**given, **options)
        if device == "cuda":
            torch.cuda.synchronize()

    once()  # kernels are chosen
    return seconds(once)[0]


@torch.no_grad()
def passing(model: Any, cut: Any, prompts: list[str], device: str) -> float:
    """Seconds for one forward pass per prompt."""
    ids = [torch.tensor([cut(prompt)["input_ids"]], device=device) for prompt in prompts]
    model(ids[0])
    began = time.perf_counter()
    for row in ids:
        model(row)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@torch.no_grad()
def differing(one: Any, two: Any, texts: list[list[int]], device: str) -> tuple[int, int]:
    """Places at which some logit differs, of how many."""
    found = total = 0
    for first in range(0, len(texts), 32):
        some = texts[first : first + 32]
        length = max(map(len, some))
        ids = torch.tensor([row + [0] * (length - len(row)) for row in some], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in some], device=device)
        apart = (one(ids, attention_mask=mask).logits != two(ids, attention_mask=mask).logits).any(dim=-1)
        found += int((apart & mask.bool()).sum())
        total += int(mask.sum())
    return found, total


class Setting(NamedTuple):
    """What all runs have in common: the tokenizer, held-out texts, a folder to write in, and options."""

    cut: Any
    texts: list[list[int]]
    scratch: Path
    device: str
    radius: float | None


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, nargs="+", default=[1000] if gpu else [200])
    parser.add_argument("--seconds", type=float, default=120.0 if gpu else 60.0, help="of training")
    parser.add_argument("--places", type=int, default=500_000 if gpu else 20_000, help="of held-out text")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="float32, bfloat16, float16")
    parser.add_argument("--radius", type=float, default=None)
    parser.add_argument("--host", type=Path, default=None, help="the folder of a host, in place of training one")
    options = parser.parse_args()
    device = "cuda" if gpu else "cpu"
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as scratch:
        size, host = LARGE if gpu else SMALL, options.host
        held = options.places + size.window
        if host is None:
            host = Path(scratch) / "host"
            words = text(size.megabytes)
            cut = tokenizer(words, size.vocabulary)
            ids = all_ids(words, cut)
            train(host, ids[:-held], cut, size, options.seconds, device)
        else:
            cut = transformers.AutoTokenizer.from_pretrained(host)
            there = host / "held.npy"
            ids = torch.from_numpy(np.load(there).astype(np.int64)) if there.exists() else all_ids(text(3.0), cut)
        rows = ids[-held:].tolist()
        texts = [rows[start : start + size.window] for start in range(0, options.places, size.window)]
        setting = Setting(cut, [row for row in texts if row], Path(scratch), device, options.radius)
        for dtype in options.dtype:
            base = Path(scratch) / f"host-{dtype}"
            short = transformers.AutoModelForCausalLM.from_pretrained(host, dtype=getattr(torch, dtype))
            short.save_pretrained(base)
            cut.save_pretrained(base)
            for count in options.facts:
                show(base, dtype, count, setting)


def all_ids(words: str, cut: Any) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.array(row) for row in cut(words.splitlines())["input_ids"] if row]))


def is_claimed(dtype: str, count: int, device: str) -> bool:
    """Short formats need states further apart than those of the host that is trained on a processor."""
    return dtype == "float32" or (count <= 1000 and device == "cuda")


def show(host: Path, dtype: str, count: int, setting: Setting) -> None:
    """Attach, ask, compare, prove and detach."""
    cut, device = setting.cut, setting.device
    pairs = facts(count + 4000)
    stored = dict(pairs[:count])
    claimed = is_claimed(dtype, count, device)
    passes = passing(load(host, "sdpa", device), cut, list(stored), device)
    began = time.perf_counter()
    try:
        made = ml.attach(host, stored, device=device, radius=setting.radius)
    except ml.PrecisionError as refused:
        print(f"{dtype}, {count:,} facts: refused: {refused}", flush=True)
        if claimed:
            claim(f"{dtype}, {count:,} facts: attached", 0, at_least=count)
        return
    spent = time.perf_counter() - began
    began = time.perf_counter()
    folder = made.save(setting.scratch / f"{dtype}-{count}")
    saved = time.perf_counter() - began
    print(made)
    size = f"{made.manifest.neurons:,} neurons, {made.blocks} blocks"
    print(
        f"{dtype}, {count:,} facts: attached in {spent:.1f} s, {size}; one forward pass per prompt: {passes:.1f} s; "
        f"saved in {saved:.1f} s",
        flush=True,
    )
    if device == "cuda" or dtype == "float32":
        beyond = (spent - passes) * 1000 / count
        claim(f"{dtype}: seconds per 1,000 facts beyond one forward pass per prompt", beyond, at_most=10.0, idle=True)
    for kernel in ("eager", "sdpa"):
        compare(host, folder, kernel, pairs, count, dtype, setting)
    began = time.perf_counter()
    proof = ml.certify(folder, stored, host=host, only=True)
    print(f"  certificate: {proof.verdict} in {time.perf_counter() - began:.1f} s; {proof.claim}")
    print(f"    {'; '.join(proof.measured)}")
    if not proof:
        print(f"    {proof.reason}; {proof.unsure:,} of {proof.points:,} unsure; {proof.findings[:3]}")
    if dtype == "float32":
        assert proof.verdict == "proved", proof.reason
    back = ml.detach(folder).save(setting.scratch / f"{dtype}-{count}-back")
    same = all((back / path.name).read_bytes() == path.read_bytes() for path in host.iterdir())
    print(f"  detached: {'every file of the host, byte for byte' if same else 'other files'}", flush=True)
    assert same


def compare(
    host: Path, folder: Path, kernel: str, pairs: list[tuple[str, str]], count: int, dtype: str, setting: Setting
) -> None:
    """Answers by `generate`, its time, and logits beside the host's, in one kernel of attention."""
    cut, device = setting.cut, setting.device
    one, two = load(host, kernel, device), load(folder, kernel, device)
    prompts = [prompt for prompt, _ in pairs[:count]]
    right = recall(two, cut, pairs[:count], device)
    times = [generating(model, cut, prompts[:64], device) for model in (one, two)]
    deeper = two.config.num_hidden_layers / one.config.num_hidden_layers
    print(
        f"  {kernel}: {right:,} of {count:,} answers by generate; {times[1] / times[0]:.2f} of the host's time "
        f"(layers: {deeper:.2f})"
    )
    name = f"{dtype}, {count:,} facts, {kernel}"
    if is_claimed(dtype, count, device):
        claim(f"{name}: answers that come back", right, at_least=count)
    if device == "cuda" or dtype == "float32":
        claim(
            f"{name}: time of generate, over the host's times layers",
            times[1] / times[0] / deeper,
            at_most=1.0,
            busy=SAME_RUN,
        )
    draw, changed = random.Random(2), []
    for prompt in prompts:
        row = cut(prompt)["input_ids"]
        row[draw.randrange(1, len(row) - 1)] = draw.randrange(1, len(cut))
        changed.append(row)
    others = cut([prompt for prompt, _ in pairs[count:]])["input_ids"]
    for what, some, limit in (
        ("held-out text", setting.texts, True),
        ("the same sentence about other airports", others, dtype == "float32" and count <= 1000),
        ("one token changed", changed, False),
    ):
        found, total = differing(one, two, some, device)
        print(f"    {what}: {found:,} of {total:,} places differ", flush=True)
        if limit:
            claim(f"{name}: places of {what} that differ, of {total:,}", found, at_most=0)


if __name__ == "__main__":
    run(main)
