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
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

import monolayer as ml
from monolayer_experiments.hosts import (
    Size,
    airports,
    byte_tokenizer,
    changed,
    goes_on,
    ids_of,
    load,
    new_host,
    save,
    source_text,
    train,
)
from workload import SAME_RUN, claim, run, seconds


class Scale(NamedTuple):
    """The host, tokens and megabytes of text that it is trained on, and the tokens of a held-out text."""

    size: Size
    vocabulary: int
    megabytes: float
    window: int


LARGE, SMALL = Scale(Size(8, 512, 256, 96, 0.02), 8192, 24.0, 200), Scale(Size(2, 128, 64, 8, 0.08), 2048, 3.0, 60)


def facts(count: int) -> list[tuple[str, str]]:
    """Prompts and answers, all prompts different."""
    return [(airport.prompts()[0], airport.answer) for airport in airports(count)]


def recall(model: Any, cut: Any, pairs: list[tuple[str, str]]) -> int:
    """How many answers come back by free generation, whole and with their end."""
    said = goes_on(model, cut, [prompt for prompt, _ in pairs])
    return sum(answer == found for (_, answer), found in zip(pairs, said, strict=True))


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
        scale, host = LARGE if gpu else SMALL, options.host
        held = options.places + scale.window
        if host is None:
            host = Path(scratch) / "host"
            words = source_text(scale.megabytes)
            cut = byte_tokenizer(words, scale.vocabulary)
            ids = ids_of(cut, words)
            model = new_host("gpt2", len(cut), scale.size)
            trained = train(model, ids[:-held], scale.size, seconds=options.seconds, device=device)
            save(model, cut, host)
            print(
                f"host: {scale.size.layers} layers, width {scale.size.width}, {len(cut):,} tokens; {trained.steps:,} "
                f"steps, loss {trained.loss:.2f}",
                flush=True,
            )
        else:
            cut = transformers.AutoTokenizer.from_pretrained(host)
            there = host / "held.npy"
            ids = torch.from_numpy(np.load(there).astype(np.int64)) if there.exists() else ids_of(cut, source_text(3.0))
        rows = ids[-held:].tolist()
        texts = [rows[start : start + scale.window] for start in range(0, options.places, scale.window)]
        setting = Setting(cut, [row for row in texts if row], Path(scratch), device, options.radius)
        for dtype in options.dtype:
            base = Path(scratch) / f"host-{dtype}"
            short = transformers.AutoModelForCausalLM.from_pretrained(host, dtype=getattr(torch, dtype))
            short.save_pretrained(base)
            cut.save_pretrained(base)
            for count in options.facts:
                show(base, dtype, count, setting)


def is_claimed(dtype: str, count: int, device: str) -> bool:
    """Short formats need states further apart than those of the host that is trained on a processor."""
    return dtype == "float32" or (count <= 1000 and device == "cuda")


def show(host: Path, dtype: str, count: int, setting: Setting) -> None:
    """Attach, ask, compare, prove and detach."""
    cut, device = setting.cut, setting.device
    pairs = facts(count + 4000)
    stored = dict(pairs[:count])
    claimed = is_claimed(dtype, count, device)
    passes = passing(load(host, device, "sdpa"), cut, list(stored), device)
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
    one, two = load(host, device, kernel), load(folder, device, kernel)
    prompts = [prompt for prompt, _ in pairs[:count]]
    right = recall(two, cut, pairs[:count])
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
    draw, altered = random.Random(2), []
    for prompt in prompts:
        row = cut(prompt)["input_ids"]
        row[draw.randrange(1, len(row) - 1)] = draw.randrange(1, len(cut))
        altered.append(row)
    others = cut([prompt for prompt, _ in pairs[count:]])["input_ids"]
    for what, some, limit in (
        ("held-out text", setting.texts, True),
        ("the same sentence about other airports", others, dtype == "float32" and count <= 1000),
        ("one token changed", altered, False),
    ):
        found = changed(one, two, some)
        print(f"    {what}: {found.places:,} of {found.of:,} places differ", flush=True)
        if limit:
            claim(f"{name}: places of {what} that differ, of {found.of:,}", found.places, at_most=0)


if __name__ == "__main__":
    run(main)
