"""Claim: 1,000 facts attached to a trained GPT-2 all come back by free generation, and nothing else changes in a bit.

    python bench/a_thousand_facts_attached.py        # float32: 1,000 facts on a GPU, 200 on a processor
    python bench/a_thousand_facts_attached.py --dtype float32 bfloat16 float16 --facts 1000 10000     # all; on a GPU
    python bench/a_thousand_facts_attached.py --write FOLDER       # trains a host and writes it, for
    python bench/a_thousand_facts_attached.py --host FOLDER        # a host that exists, in place of training one

The host is trained here, on Python source that ships with the packages monolayer depends on and on sentences about
2,000 made-up airports: 8 layers of width 512 for two minutes on a GPU, or 2 of width 128 for one on two cores. Facts
are about other airports; answers have two tokens or more. Rows that the host does not tell apart are refused by
`attach`, which names them: others take their place, and are counted.

Facts are asked by `generate`, with eager attention and sdpa, in batches padded on the left. Compared with the host,
logit by logit: held-out text (`held.npy` in FOLDER, token ids, if it is there), the same sentence about 4,000 other
airports, the prompts with one token changed. The yardstick for time is one forward pass per prompt, and `generate` of
the host; the device is in use before either is timed, and how long that took is recorded. 10,000 facts are claimed in
float32; in shorter formats some of them may be refused, and this says so.
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
    sentences,
    source_text,
    train,
)
from workload import SAME_RUN, claim, record, recordable, run


class Scale(NamedTuple):
    """The host, tokens, megabytes of source and lines about airports that it is trained on, and the tokens of a
    held-out text."""

    size: Size
    vocabulary: int
    megabytes: float
    lines: int
    window: int


LARGE = Scale(Size(8, 512, 256, 96, 0.02), 8192, 12.0, 100_000, 200)
SMALL = Scale(Size(2, 128, 64, 8, 0.08), 2048, 3.0, 20_000, 60)
HELD = "held.npy"
"""Ids of text that a host has not seen, in its folder."""
PASSED = 1000
"""Prompts that are timed, at most, to know how long one forward pass per prompt takes."""
KNOWN, SPARE, OTHERS = 2000, 1000, 4000
"""Airports that the host is trained on, that take the place of others, and that stay out as neighbours."""
TURNS = 4
"""How often rows that were refused are replaced, at most."""
GENERATED = 7
"""How often `generate` is timed."""
BATCH = 250
"""Prompts that `generate` goes on from at a time."""
Pair = tuple[str, str]


def facts(count: int) -> list[Pair]:
    """Prompts and answers about airports with different names; the first are the same for every count."""
    return [(airport.prompts()[0], airport.answer) for airport in airports(KNOWN + count)[KNOWN:]]


def recall(model: Any, cut: Any, pairs: list[Pair]) -> int:
    """How many answers come back by free generation, whole and with their end."""
    said = goes_on(model, cut, [prompt for prompt, _ in pairs], at_once=BATCH)
    return sum(answer == found for (_, answer), found in zip(pairs, said, strict=True))


def generating(models: list[Any], cut: Any, prompts: list[str], device: str) -> list[float]:
    """Seconds of each model for 16 tokens behind each prompt, whatever they are: the best of `GENERATED` runs.

    The models take turns, so that a while in which the machine is busy slows all of them.
    """
    given = cut(prompts, return_tensors="pt", padding=True, padding_side="left").to(device)
    options = {"max_new_tokens": 16, "min_new_tokens": 16, "do_sample": False, "pad_token_id": 0}
    times: list[list[float]] = [[] for _ in models]
    for _ in range(GENERATED + 1):
        for model, spent in zip(models, times, strict=True):
            began = time.perf_counter()
            model.generate(**given, **options)
            if device == "cuda":
                torch.cuda.synchronize()
            spent.append(time.perf_counter() - began)
    return [min(spent[1:]) for spent in times]  # in the first run kernels are chosen


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


def train_host(folder: Path, places: int, seconds_of_training: float, device: str) -> None:
    """Train a host into a folder, with the ids of text that it has not seen in held.npy."""
    scale = LARGE if device == "cuda" else SMALL
    source, lines = source_text(scale.megabytes), sentences(airports(KNOWN), scale.lines)
    cut = byte_tokenizer(f"{lines}\n{source}", scale.vocabulary)
    code, held = ids_of(cut, source), places + scale.window
    assert len(code) > 2 * held, f"{len(code):,} tokens of source are too few to hold {held:,} of them out"
    model = new_host("gpt2", len(cut), scale.size)
    ids = torch.cat([ids_of(cut, lines), code[:-held]])
    trained = train(model, ids, scale.size, seconds=seconds_of_training, device=device)
    save(model, cut, folder)
    np.save(folder / HELD, code[-held:].numpy())
    print(
        f"host: {scale.size.layers} layers, width {scale.size.width}, {len(cut):,} tokens; {trained.steps:,} steps in "
        f"{trained.seconds:.0f} s, loss {trained.loss:.2f}",
        flush=True,
    )


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, nargs="+", default=[1000] if gpu else [200])
    parser.add_argument("--seconds", type=float, default=120.0 if gpu else 60.0, help="of training")
    parser.add_argument("--places", type=int, default=500_000 if gpu else 20_000, help="of held-out text")
    parser.add_argument("--dtype", nargs="+", default=["float32"], help="float32, bfloat16, float16")
    parser.add_argument("--radius", type=float, default=None)
    parser.add_argument("--host", type=Path, default=None, help="the folder of a host, in place of training one")
    parser.add_argument("--write", type=Path, default=None, help="train a host into this folder, and do nothing else")
    recordable(parser)
    options = parser.parse_args()
    device = "cuda" if gpu else "cpu"
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    # What certificates assume of sums on a GPU.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    if options.write is not None:
        train_host(options.write, options.places, options.seconds, device)
        return
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        host = options.host or Path(scratch) / "host"
        if options.host is None:
            train_host(host, options.places, options.seconds, device)
        cut = transformers.AutoTokenizer.from_pretrained(host)
        ids = np.load(host / HELD) if (host / HELD).exists() else ids_of(cut, source_text(3.0)).numpy()
        window = LARGE.window if gpu else SMALL.window
        held = ids[-(options.places + window) :].tolist()
        texts = [held[start : start + window] for start in range(0, min(options.places, len(held)), window)]
        setting = Setting(cut, texts, Path(scratch), device, options.radius)
        for dtype in options.dtype:
            base = Path(scratch) / f"host-{dtype}"
            short = transformers.AutoModelForCausalLM.from_pretrained(host, dtype=getattr(torch, dtype))
            short.save_pretrained(base)
            cut.save_pretrained(base)
            rows += [show(base, dtype, count, setting) for count in options.facts]
    record(rows, device, "-" + "-".join([*options.dtype, *map(str, options.facts)]))


def is_claimed(dtype: str, count: int, device: str) -> bool:
    """Short formats need states further apart than those of the host that is trained on a processor."""
    return dtype == "float32" or (count <= 1000 and device == "cuda")


class Stages:
    """Seconds of each stage of a call that reports its progress."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.current, self.began = "", time.perf_counter()

    def __call__(self, stage: str, share: float) -> None:
        now = time.perf_counter()
        if stage != self.current:
            if self.current:
                self.seconds[self.current] = self.seconds.get(self.current, 0.0) + now - self.began
            self.current, self.began = stage, now


class Made(NamedTuple):
    """Facts that were attached, the facts themselves, airports that are left, how many rows were refused and replaced,
    and the seconds of the call that succeeded, in all and by stage."""

    attached: Any
    stored: dict[str, str]
    others: list[Pair]
    refused: int
    seconds: float
    stages: dict[str, float]


def attached(host: Path, count: int, setting: Setting) -> Made:
    """Attach `count` facts; rows that `attach` refuses are replaced by others."""
    everyone = facts(count + SPARE + OTHERS)
    pairs, spare, refused = everyone[:count], everyone[count : count + SPARE], 0
    for turn in range(TURNS + 1):
        stages, began = Stages(), time.perf_counter()
        try:
            made = ml.attach(host, dict(pairs), device=setting.device, radius=setting.radius, progress=stages)
        except ml.PrecisionError as why:
            print(f"  refused: {why}", flush=True)
            if turn == TURNS or not 0 < len(why.rows) <= len(spare):
                raise
            for row in why.rows:
                pairs[row] = spare.pop()
            refused += len(why.rows)
            continue
        spent = time.perf_counter() - began
        stages("after", 1.0)  # ends the last stage, so that all of them add up to `spent`
        return Made(made, dict(pairs), everyone[count + SPARE :], refused, spent, stages.seconds)
    raise AssertionError("every turn returns or raises")


@torch.no_grad()
def start(host: Path, setting: Setting) -> float:
    """Seconds until a device is in use and has chosen its kernels: the host is loaded and run once in each."""
    began = time.perf_counter()
    ids = torch.tensor([setting.texts[0][:16]], device=setting.device)
    for kernel in ("eager", "sdpa"):
        load(host, setting.device, kernel)(ids).logits.sum().item()
    return time.perf_counter() - began


def show(host: Path, dtype: str, count: int, setting: Setting) -> dict[str, Any]:
    """Attach, ask, compare, prove and detach; what was found."""
    cut, device = setting.cut, setting.device
    claimed = is_claimed(dtype, count, device)
    row: dict[str, Any] = {"dtype": dtype, "facts": count, "start_seconds": start(host, setting)}
    try:
        made = attached(host, count, setting)
    except ml.PrecisionError as refused:
        if claimed:
            claim(f"{dtype}, {count:,} facts: attached", 0, at_least=count)
        return {**row, "refused": str(refused)}
    some = list(made.stored)[:PASSED]
    passes = passing(load(host, device, "sdpa"), cut, some, device) * count / len(some)
    began = time.perf_counter()
    folder = made.attached.save(setting.scratch / f"{dtype}-{count}")
    saved = time.perf_counter() - began
    print(made.attached)
    row |= {"refused_rows": made.refused, "neurons": made.attached.manifest.neurons, "blocks": made.attached.blocks}
    row |= {"attach_seconds": made.seconds, "pass_seconds": passes, "save_seconds": saved, "stages": made.stages}
    print(
        f"{dtype}, {count:,} facts: attached in {made.seconds:.1f} s, {row['neurons']:,} neurons, {row['blocks']} "
        f"blocks, {made.refused} rows replaced; one forward pass per prompt: {passes:.1f} s; saved in {saved:.1f} s; "
        f"the device was in use after {row['start_seconds']:.1f} s",
        flush=True,
    )
    print("  stages: " + ", ".join(f"{stage} {spent:.2f} s" for stage, spent in made.stages.items()), flush=True)
    if device == "cuda" or dtype == "float32":
        beyond = (made.seconds - passes) * 1000 / count
        claim(f"{dtype}: seconds per 1,000 facts beyond one forward pass per prompt", beyond, at_most=10.0, idle=True)
    for kernel in ("eager", "sdpa"):
        row[kernel] = compare(host, folder, kernel, made, dtype, setting)
    began = time.perf_counter()
    proof = ml.certify(folder, made.stored, host=host, only=True)
    spent = time.perf_counter() - began
    row |= {"verdict": proof.verdict, "tokens": proof.points, "unsure": proof.unsure, "certify_seconds": spent}
    row |= {"claim": proof.claim, "measured": list(proof.measured)}
    print(f"  certificate: {proof.verdict} in {spent:.1f} s; {proof.claim}")
    print(f"    {'; '.join(proof.measured)}")
    if not proof:
        print(f"    {proof.reason}; {proof.unsure:,} of {proof.points:,} unsure; {proof.findings[:3]}")
    if dtype == "float32":
        claim(f"{dtype}, {count:,} facts: proved", float(proof.verdict == "proved"), at_least=1.0)
    back = ml.detach(folder).save(setting.scratch / f"{dtype}-{count}-back")
    same = all((back / path.name).read_bytes() == path.read_bytes() for path in host.iterdir())
    print(f"  detached: {'every file of the host, byte for byte' if same else 'other files'}", flush=True)
    claim(f"{dtype}, {count:,} facts: detach gives every file of the host back", float(same), at_least=1.0)
    return row


def compare(host: Path, folder: Path, kernel: str, made: Made, dtype: str, setting: Setting) -> dict[str, Any]:
    """Answers by `generate`, its time, and logits beside the host's, in one kernel of attention."""
    cut, device = setting.cut, setting.device
    one, two = load(host, device, kernel), load(folder, device, kernel)
    prompts, count = list(made.stored), len(made.stored)
    right = recall(two, cut, list(made.stored.items()))
    times = generating([one, two], cut, prompts[:64], device)
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
    others = cut([prompt for prompt, _ in made.others])["input_ids"]
    row: dict[str, Any] = {"right": right, "generate_seconds": times[1], "generate_seconds_host": times[0]}
    row |= {"layers": two.config.num_hidden_layers, "layers_host": one.config.num_hidden_layers}
    for what, some, limit in (
        ("held-out text", setting.texts, True),
        ("the same sentence about other airports", others, dtype == "float32" and count <= 1000),
        ("one token changed", altered, False),
    ):
        found = changed(one, two, some)
        row[what] = {"differ": found.places, "of": found.of}
        print(f"    {what}: {found.places:,} of {found.of:,} places differ", flush=True)
        if limit:
            claim(f"{name}: places of {what} that differ, of {found.of:,}", found.places, at_most=0)
    return row


if __name__ == "__main__":
    run(main)
