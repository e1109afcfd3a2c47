"""Claim: a BERT of bfloat16 weights, computing in bfloat16, returns every reading of the dictionary.

The robust construction behind BERT's own LayerNorms, loaded by transformers alone. A sample is asked; --all asks every
phrase, which takes minutes. --prove certifies the folder, weights as stored and arithmetic in float32; minutes too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
import transformers

import monolayer as ml
from monolayer.data.phrases import phrases
from stock_answers_within_2x_of_random_weights import check
from workload import run, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="ask every phrase, not a sample")
    parser.add_argument("--prove", action="store_true", help="certify the folder as well")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--rank", type=int, default=128)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    data = phrases()
    assert data.vocabulary is not None
    with tempfile.TemporaryDirectory() as scratch:
        built = ml.memorize_as("bert", data, positions=True, dtype=options.dtype, rank=options.rank)
        folder = built.save(Path(scratch) / "dictionary")
        size = (folder / "model.safetensors").stat().st_size / 1e6
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        kind = getattr(torch, options.dtype)
        model = transformers.AutoModelForTokenClassification.from_pretrained(folder, dtype=kind)
        assert all(part.dtype == kind for part in model.parameters())
        texts = ["".join(row) for row in data.split(data.vocabulary.decode(data.tokens))]
        asked = np.random.default_rng(0).permutation(len(texts))[:5000]
        if options.all:
            asked = np.argsort(data.lengths, kind="stable")  # like lengths together: little padding
        proved = seconds(lambda: ml.certify(folder, data), 1) if options.prove else None
        began = time.perf_counter()
        wrong, total, gap = check(model, tokenizer, data, texts, asked, "cpu")
        took = time.perf_counter() - began
    found = built.summary
    print(f"labels          {found.labelled:,} of {len(data):,} phrases")
    print(f"network         {options.dtype}, rank {found.rank}, width {built.facts.width}, {found.steps:,} half-spaces")
    print(f"narrowest slab  half-width {found.gap:.3g}")
    print(f"build           {found.seconds:.1f} s, {size:.1f} MB")
    print(f"wrong           {wrong} of {total:,} labels of {len(asked):,} phrases in {took:.0f} s; least gap {gap:.3g}")
    if proved is not None:
        print(f"certificate     {proved[1].verdict} in {proved[0]:.0f} s: {proved[1].claim}")
        assert proved[1].verdict == "proved"
    assert wrong == 0


if __name__ == "__main__":
    run(main)
