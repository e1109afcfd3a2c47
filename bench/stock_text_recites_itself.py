"""Claim: an unmodified GPT-2 of one layer and one head recites a text to its end, from any prefix, by characters.

The text is that of the pages in docs/. Every next character is asked for at once (teacher forcing), and generate()
recites the first --recite characters of it from the begin token alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

import monolayer as ml
from workload import run

DOCS = Path(__file__).parent.parent / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, default=20_000)
    parser.add_argument("--recite", type=int, default=2_000)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))]
    # A page that spells a special token of the tokenizer's is no text for it.
    text = "\n".join(page for page in pages if "<unk>" not in page)[: options.characters]
    with tempfile.TemporaryDirectory() as scratch:
        built = ml.memorize_as("gpt2", [text], storage="steps")
        folder = built.save(Path(scratch) / "text")
        proof = ml.certify(folder, [text])
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        began = time.perf_counter()
        guess, cache = [], None
        with torch.no_grad():
            for part in torch.split(ids, 1000, dim=1):  # so many places at a time: neurons times places must fit
                out = model(input_ids=part, past_key_values=cache, use_cache=True)
                guess.append(out.logits[0].argmax(-1))
                cache = out.past_key_values
        forced = time.perf_counter() - began
        wanted = torch.cat([ids[0, 1:], torch.tensor([tokenizer.eos_token_id])])
        wrong = int((torch.cat(guess) != wanted).sum())

        short = text[: options.recite]
        ml.memorize_as("gpt2", [short], storage="steps").save(Path(scratch) / "short")
        reciter = transformers.AutoModelForCausalLM.from_pretrained(Path(scratch) / "short")
        tokenizer = transformers.AutoTokenizer.from_pretrained(Path(scratch) / "short")
        began = time.perf_counter()
        with torch.no_grad():
            said = reciter.generate(**tokenizer("", return_tensors="pt"))[0]
        recited = time.perf_counter() - began
    whole = tokenizer.decode(said, skip_special_tokens=True) == short and int(said[-1]) == tokenizer.eos_token_id
    print(f"text            {len(text):,} characters, {built.summary.steps:,} steps, width {built.facts.width}")
    print(f"build           {built.summary.seconds:.2f} s")
    print(f"certificate     {proof.verdict}" + ("" if proof.margin is None else f", margin {proof.margin:.3g}"))
    print(f"teacher-forced  {wrong} of {len(wanted):,} wrong, in {forced:.1f} s")
    print(f"generate()      {len(short):,} characters to the end: {'yes' if whole else 'NO'}, in {recited:.1f} s")
    assert wrong == 0
    assert whole


if __name__ == "__main__":
    run(main)
