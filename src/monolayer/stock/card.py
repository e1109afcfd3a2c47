"""The model card: what the folder is, what it holds, and how to use it, for people who have never heard of us."""

from __future__ import annotations

from dataclasses import dataclass

_PIPELINE = {"token": "token-classification", "sequence": "text-classification", "lm": "text-generation"}
AUTO = {
    "token": "AutoModelForTokenClassification",
    "sequence": "AutoModelForSequenceClassification",
    "lm": "AutoModelForCausalLM",
}
_CUT = {
    "characters": "Text is cut into characters.",
    "words": "Text is cut into words at white space.",
    "pieces": "Text is cut into words, each with the white space before it.",
    "given": "Give lists of tokens: `tokenizer(tokens, is_split_into_words=True)`.",
}
_HOLDS = {
    "token": "the label of every token",
    "sequence": "the label of every sequence",
    "lm": "the next token everywhere, up to the end of each sequence",
}


@dataclass(frozen=True)
class StockSummary:
    """What the construction found. `gap`: the least distance of neighbours with different labels, as they arrive at
    the neurons; `margin`: that over the largest rounding error of any evaluation. None where no label changes."""

    sequences: int
    labelled: int
    vocabulary: int
    classes: int
    longest: int
    positions: bool
    width: int
    steps: int
    neurons: int
    gap: float | None
    margin: float | None
    temperature: float
    conflicts: int
    seconds: float
    rank: int | None = None
    """Value rank of a robust model, whose `gap` is the narrowest half-width of a slab; else None."""


def loading(task: str, dtype: str, robust: bool) -> list[str]:
    """Lines of Python that load a folder: first the one whose arithmetic proofs are about."""
    if not robust:
        return [f'model = {AUTO[task]}.from_pretrained(folder, dtype="auto")']
    lines = [f"model = {AUTO[task]}.from_pretrained(folder, dtype=torch.float32)"]
    if dtype != "float32":
        lines.append(f"# or, as stored, without a proof: {AUTO[task]}.from_pretrained(folder, dtype=torch.{dtype})")
    return lines


def model_card(
    kind: str,
    task: str,
    cut: str,
    begin: str,
    attention: tuple[str, ...],
    parameters: int,
    dtype: str,
    found: StockSummary,
) -> str:
    """README.md of a folder with a model of class `kind`."""
    order = "The order of tokens counts." if found.positions else "Of the context only the multiset of tokens counts."
    margin = "no label changes inside a cell, so nothing is close"
    if found.gap is not None and found.margin is not None:
        margin = f"smallest gap {found.gap:.3g}, {found.margin:.3g} times the largest rounding error of any evaluation"
        if found.margin < 6.0:  # on either side of a ramp 3/8 of the gap is left, and a proof needs two errors there
            margin += "; narrow, so a certificate may say undecided"
    if found.rank is not None and found.gap is not None:
        margin = (
            f"value rank {found.rank}, {found.neurons:,} half-spaces, the narrowest slab has half-width {found.gap:.3g}"
        )
    which = "eager or sdpa attention"
    if attention == ("sdpa",):
        which = 'sdpa attention (the eager one of this architecture computes in float32: `attn_implementation="sdpa"`)'
    advice = (
        f"Compute in float64, as stored, with {which}. Rounded to float32 or less, the weights lose what they hold."
    )
    if found.rank is not None:
        advice = "Compute in float32, the arithmetic that proofs are about."
        if dtype != "float32":
            advice += (
                f" In {dtype}, as stored, no proof covers the arithmetic: facts lie away from borders by the margin "
                "above, and asking all of them once shows whether that is enough."
            )
    torch = "import torch\n" if found.rank is not None else ""
    loads = "\n".join(loading(task, dtype, found.rank is not None))
    return f"""---
library_name: transformers
pipeline_tag: {_PIPELINE[task]}
tags: [memorization, monolayer]
---

# {kind} that holds {found.labelled:,} labels

An unmodified one-layer, one-head `{kind}`. Its weights were computed from a dataset by
[monolayer](https://arxiv.org/abs/2307.14023), without training: it returns {_HOLDS[task]} of that dataset. On
anything else its answers mean nothing.

| | |
|---|---|
| data | {found.sequences:,} sequences of up to {found.longest:,} tokens, {found.vocabulary:,} different ones |
| labels | {found.labelled:,}, {found.classes:,} classes; {found.conflicts:,} contradictions overruled |
| network | width {found.width}, {found.neurons:,} neurons, {parameters:,} parameters, {dtype} |
| margin | {margin} |

{_CUT[cut]} {order} Every sequence begins with `{begin}`, which the tokenizer adds; padding needs the
attention mask, which it returns.

```python
{torch}from transformers import AutoTokenizer, {AUTO[task]}, pipeline

tokenizer = AutoTokenizer.from_pretrained(folder)
{loads}
ask = pipeline("{_PIPELINE[task]}", model=model, tokenizer=tokenizer)
```

{advice}

To prove from these files that every label comes back, in any order of summation: `monolayer verify FOLDER DATA`. If
`certificate.json` lies beside them, it says what was proved, for which bytes and which data.
"""
