"""Claim: attaching facts takes as much processor time as four forward passes per fact, one by one, at most.

    python bench/attaching_takes_four_passes_per_fact.py
    python bench/attaching_takes_four_passes_per_fact.py --facts 300 --layers 24 --width 768

`attach` passes each text once by itself, for the states from which neurons are made, and asks for every answer in four
ways, in batches: with two kernels of attention, all places at once and token by token. The host is a Llama of random
weights in float32; prompts have about 15 to 45 tokens, answers about 5. The yardstick is one forward pass of the host
per text, each by itself, with logits at its last place only. It runs before and after, in the same process.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # hosts are a part of the tests

import torch
import transformers
from tests.hosts import loaded, write_host

import monolayer as ml
from workload import claim, cpu_seconds, record, recordable, run

WORDS = ("river", "city", "country", "capital", "near", "the", "of", "and", "is")


def facts_of(count: int) -> dict[str, str]:
    """Prompts of several lengths, and their answers."""
    random_words = random.Random(0)
    starts = [" ".join(random_words.choices(WORDS, k=random_words.randrange(10, 40))) for _ in range(count)]
    return {f"{start} country{number} is": f" city{number}" for number, start in enumerate(starts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=60)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--vocabulary", type=int, default=16_000)
    recordable(parser)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    facts = facts_of(options.facts)
    with tempfile.TemporaryDirectory() as scratch:
        sizes = {"hidden_size": options.width, "intermediate_size": 4 * options.width, "head_dim": 64}
        sizes |= {"num_hidden_layers": options.layers, "num_attention_heads": options.width // 64}
        sizes |= {"max_position_embeddings": 256, "vocab_size": options.vocabulary, "num_key_value_heads": 2}
        host = write_host(Path(scratch) / "host", "llama", initializer_range=0.05, **sizes)
        tokens = transformers.AutoTokenizer.from_pretrained(host)
        texts = [tokens(prompt + answer, return_tensors="pt").input_ids for prompt, answer in facts.items()]
        model = loaded(host)

        def pass_all() -> None:
            with torch.inference_mode():
                for text in texts:
                    model(input_ids=text, use_cache=False, logits_to_keep=1)

        ml.attach(host, dict(list(facts.items())[:2]))  # imports are done
        before, _ = cpu_seconds(pass_all)
        spent, _ = cpu_seconds(lambda: ml.attach(host, facts), repeats=1)
        passes = (before + cpu_seconds(pass_all)[0]) / 2
    lengths = sorted(text.shape[1] for text in texts)
    print(f"{len(facts):,} facts, texts of {lengths[0]} to {lengths[-1]} tokens; one pass each: {passes:.2f} s")
    claim("attach over one pass per fact", spent / passes, at_most=4.0)
    record([{"facts": len(facts), "attach_seconds": spent, "passes_seconds": passes, "longest_text": lengths[-1]}])


if __name__ == "__main__":
    run(main)
