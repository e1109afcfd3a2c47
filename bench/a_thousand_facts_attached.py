"""Claim: 1,000 facts attached to a trained GPT-2 all come back by free generation, and nothing else changes in a bit.

The host is trained here, on Python source that ships with the packages monolayer depends on: 8 layers of width 512 for
two minutes on a GPU, or 2 of width 128 for one on two cores. Facts are sentences about made-up airports; answers have
two tokens or more. Asked by `generate`, with eager attention and sdpa, in batches padded on the left. Compared with the
host, logit by logit: held-out text, the same sentence about other airports, the prompts with one token changed. The
yardstick for time is one forward pass per prompt, and `generate` of the host.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

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


def recall(model: Any, cut: Any, pairs: list[tuple[str, str]]) -> tuple[int, float]:
    """How many answers come back by free generation, and seconds."""
    began = time.perf_counter()
    said = goes_on(model, cut, [prompt for prompt, _ in pairs])
    right = sum(answer == found for (_, answer), found in zip(pairs, said, strict=True))
    return right, time.perf_counter() - began


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, nargs="+", default=[1000] if gpu else [200])
    parser.add_argument("--seconds", type=float, default=120.0 if gpu else 60.0, help="of training")
    parser.add_argument("--places", type=int, default=500_000 if gpu else 20_000, help="of held-out text")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="float32, bfloat16, float16")
    parser.add_argument("--radius", type=float, default=None)
    options = parser.parse_args()
    device = "cuda" if gpu else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as scratch:
        host = Path(scratch) / "host"
        scale = LARGE if gpu else SMALL
        words = source_text(scale.megabytes)
        cut = byte_tokenizer(words, scale.vocabulary)
        ids = ids_of(cut, words)
        held = options.places + scale.window
        model = new_host("gpt2", len(cut), scale.size)
        trained = train(model, ids[:-held], scale.size, seconds=options.seconds, device=device)
        save(model, cut, host)
        print(
            f"host: {scale.size.layers} layers, width {scale.size.width}, {len(cut):,} tokens; {trained.steps:,} "
            f"steps, loss {trained.loss:.2f}",
            flush=True,
        )
        rows = ids[-held:].tolist()
        texts = [rows[start : start + scale.window] for start in range(0, options.places, scale.window)]
        for dtype in options.dtype:
            base = host
            if dtype != "float32":
                base = Path(scratch) / f"host-{dtype}"
                short = transformers.AutoModelForCausalLM.from_pretrained(host, dtype=getattr(torch, dtype))
                short.save_pretrained(base)
                cut.save_pretrained(base)
            for count in options.facts:
                show(base, Path(scratch), cut, texts, count, device, options.radius)


def show(
    host: Path, scratch: Path, cut: Any, texts: list[list[int]], count: int, device: str, radius: float | None
) -> None:
    pairs = facts(count + 4000)
    stored, others = dict(pairs[:count]), pairs[count:]
    began = time.perf_counter()
    folder = scratch / f"{host.name}-{count}"
    made = ml.attach(host, stored, device=device, radius=radius)
    spent = time.perf_counter() - began
    made.save(folder)
    size = f"{made.manifest.neurons:,} neurons, {made.blocks} blocks"
    print(f"{host.name}, {count:,} facts: attached in {spent:.1f} s, {size}", flush=True)
    draw, altered = random.Random(2), []
    for prompt in stored:
        row = cut(prompt)["input_ids"]
        row[draw.randrange(1, len(row) - 1)] = draw.randrange(1, len(cut))
        altered.append(row)
    for kernel in ("eager", "sdpa"):
        one, two = load(host, device, kernel), load(folder, device, kernel)
        began = time.perf_counter()
        with torch.no_grad():
            for prompt in stored:
                one(torch.tensor([cut(prompt)["input_ids"]], device=device))
        passes = time.perf_counter() - began
        _, plain = recall(one, cut, pairs[:count])
        right, longer = recall(two, cut, pairs[:count])
        layers = one.config.n_layer
        print(
            f"  {kernel}: {right:,} of {count:,} answers by generate; {longer / plain:.2f} of the host's time "
            f"(layers: {two.config.n_layer / layers:.2f}); one forward pass per prompt: {passes:.1f} s"
        )
        for name, some in (
            ("held-out text", texts),
            ("same sentence, other airports", cut([prompt for prompt, _ in others])["input_ids"]),
            ("one token changed", altered),
        ):
            found = changed(one, two, some)
            print(f"    {name}: {found.places:,} of {found.of:,} places differ", flush=True)
    began = time.perf_counter()
    proof = ml.certify(folder, stored, host=host, only=True)
    print(f"  certificate: {proof.verdict} in {time.perf_counter() - began:.1f} s; {proof.claim}")
    if not proof:
        print(f"    {proof.reason}; {proof.findings[:3]}")
    back = ml.detach(folder).save(scratch / f"{host.name}-{count}-back")
    same = all((back / path.name).read_bytes() == path.read_bytes() for path in host.iterdir())
    print(f"  detached: {'every file of the host, byte for byte' if same else 'other files'}", flush=True)


if __name__ == "__main__":
    main()
