"""Claim: a dictionary of a million labels is a BERT file under 60 MB that loads and answers in seconds.

A batch of 1,000 phrases takes at most twice as long as with random weights of the same architecture, in the same run:
the weights of the construction cost nothing extra. The folder is proved, and a sample is asked through transformers;
--all asks every phrase.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers

import monolayer as ml
from monolayer.data.phrases import phrases
from workload import SAME_RUN, claim, cpu_seconds, run, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="ask every phrase, not a sample")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    data = phrases()
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        built = ml.memorize_as("bert", data, positions=True, storage="steps")
        folder = built.save(Path(scratch) / "dictionary")
        wrote = time.perf_counter() - began
        size = (folder / "model.safetensors").stat().st_size / 1e6
        prove, proof = seconds(lambda: ml.certify(folder, data), 1)
        began = time.perf_counter()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForTokenClassification.from_pretrained(folder).to(options.device)
        loaded = time.perf_counter() - began
        other = (
            transformers.AutoModelForTokenClassification.from_config(model.config).double().eval().to(options.device)
        )
        assert data.vocabulary is not None
        texts = ["".join(row) for row in data.split(data.vocabulary.decode(data.tokens))]
        rows = np.random.default_rng(0).permutation(len(texts))
        batch = tokenizer([texts[i] for i in rows[:1000]], padding=True, return_tensors="pt").to(options.device)
        ours, _ = cpu_seconds(lambda: ask(model, batch))
        theirs, _ = cpu_seconds(lambda: ask(other, batch))
        asked = rows[:5000]
        if options.all:
            asked = np.argsort(data.lengths, kind="stable")  # like lengths together: little padding
        began = time.perf_counter()
        wrong, total, gap = check(model, tokenizer, data, texts, asked, options.device)
        took = time.perf_counter() - began
    print(f"labels          {built.summary.labelled:,} of {len(data):,} phrases, {built.summary.steps:,} steps")
    print(f"build and save  {wrote:.1f} s, {size:.1f} MB")
    print(f"certificate     {proof.verdict} in {prove:.1f} s, smallest margin {proof.margin:,.0f} error bounds")
    print(f"load            {loaded:.1f} s, {transformers.__name__} {transformers.__version__}")
    print(f"1,000 phrases   {ours:.2f} s; random weights {theirs:.2f} s: {ours / theirs:.2f} times")
    print(f"wrong           {wrong} of {total:,} labels of {len(asked):,} phrases in {took:.0f} s; least gap {gap:.1f}")
    assert proof.verdict == "proved"
    assert wrong == 0
    claim("file of the dictionary as BERT", size, at_most=60.0, unit=" MB")
    claim("processor time of a batch over that with random weights", ours / theirs, at_most=2.0, busy=SAME_RUN)


@torch.no_grad()
def ask(model: Any, batch: Any) -> Any:
    return model(**batch).logits


def check(model: Any, tokenizer: Any, data: Any, texts: list[str], rows: Any, device: str) -> tuple[int, int, float]:
    """Wrong labels, labels, and the smallest distance of the right logit from the next."""
    wrong = total = 0
    gap = float("inf")
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        batch = tokenizer([texts[i] for i in part], padding=True, return_tensors="pt").to(device)
        logits = ask(model, batch)[:, 1:]
        wanted = torch.full(logits.shape[:2], -1, device=device)
        for row, number in enumerate(part):
            label = data.labels.values[data.offsets[number] : data.offsets[number + 1]]
            wanted[row, : len(label)] = torch.from_numpy(label).to(device)
        logits, wanted = logits[wanted >= 0], wanted[wanted >= 0]
        wrong += int((logits.argmax(-1) != wanted).sum())
        right = logits.gather(1, wanted[:, None])
        rest = logits.scatter(1, wanted[:, None], -torch.inf).max(dim=1, keepdim=True).values
        gap, total = min(gap, float((right - rest).min())), total + len(wanted)
    return wrong, total, gap


if __name__ == "__main__":
    run(main)
