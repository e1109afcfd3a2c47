"""The model card: what the folder is, what it holds, and how to use it, for readers who do not know monolayer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from monolayer.huggingface.architecture import BEGIN, CLASS_SUFFIXES
from monolayer.huggingface.files import FolderFacts, padding_side
from monolayer.stock.draw import StockDraw
from monolayer.table import plural

_PIPELINE = {"token": "token-classification", "sequence": "text-classification", "lm": "text-generation"}
_CUT = {
    "characters": "Text is split into characters.",
    "words": "Text is split into words at white space.",
    "pieces": "Text is split into words, each with the white space before it.",
    "given": "A text is one token; give several as a list: `tokenizer(tokens, is_split_into_words=True)`.",
}
_HOLDS = {
    "token": "the label of every token of that dataset",
    "sequence": "the label of every sequence of that dataset",
    "lm": "the next token everywhere, up to the end of each sequence of that dataset",
}
_ANSWERS = (
    "the answer to\neach prompt of that dataset, and then the end token. No guarantee is made for positions inside a\n"
    "prompt"
)


@dataclass(frozen=True)
class StockSummary:
    """The measurements of the construction.

    `gap`: the least distance of neighbours with different labels, as they arrive at the neurons. `margin`: the gap
    divided by the largest rounding error of any evaluation. Both are None where no label changes.
    """

    sequences: int
    longest: int
    labelled: int
    steps: int
    gap: float | None
    margin: float | None
    conflicts: int
    seconds: float
    otherwise: str
    """The class that tokens without a labelled place return: the first one that the data have."""
    unlabelled: int | None
    """How many tokens of the vocabulary never carry a label; None where the begin token answers for all."""
    confidence: float | None
    """Median probability of the right label; None with a draw that was used again."""
    rank: int | None
    """Value rank of a model of cells; its `gap` is the narrowest half-width of a slab, None after an edit of some."""

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        sure = [] if self.confidence is None else [("confidence", f"{self.confidence:.4f}, median of the right label")]
        return [
            ("data", f"{plural(self.sequences, 'sequence')} of up to {plural(self.longest, 'token')}"),
            ("labels", f"{self.labelled:,}; {plural(self.conflicts, 'contradiction')} overruled"),
            ("margin", self._margin()),
            *sure,
            ("seconds", f"{self.seconds:.2f} to build"),
        ]

    def _margin(self) -> str:
        """How far apart different labels are, in words."""
        if self.rank is not None and self.steps:
            slab = "not measured again after an edit" if self.gap is None else f"has half-width {self.gap:.3g}"
            return f"value rank {self.rank}, {plural(self.steps, 'half-space')}, the narrowest slab {slab}"
        if self.gap is None or self.margin is None:
            return "not applicable: every cell has a single label"
        margin = f"smallest gap {self.gap:.3g}, {self.margin:.3g} times the largest rounding error of any evaluation"
        # On either side of a ramp 3/8 of the gap is left, and a proof needs two errors there.
        return margin if self.margin >= 6.0 else f"{margin}; narrow, so a certificate may say undecided"


def loading(facts: FolderFacts) -> str:
    """Lines of Python that load a folder; the first one loads it for the arithmetic that proofs are about."""
    model, dtype = f"AutoModel{CLASS_SUFFIXES[facts.task]}.from_pretrained(folder, dtype=", facts.dtype
    if facts.format.long:
        loses = "# In float32, to which exporters for ONNX cast, it loses answers: build with storage='cells' for that."
        return f'model = {model}"auto")\n{loses}'
    line = f"model = {model}torch.float32)"
    return line if not facts.format.short else f"{line}\n# or, as stored, without a proof: {model}torch.{dtype})"


def _elsewhere(summary: StockSummary, vocabulary: int, unknown: str | None) -> str:
    """What the model answers to inputs that are not in its data."""
    if unknown is not None:
        return (
            f"Anything that is not in the dataset, including unknown tokens, is answered with `{unknown}`, unless it\n"
            "is so close to one of its sequences that a neuron of that sequence fires."
        )
    if summary.unlabelled is None:
        return "A sequence that is not in the dataset gets the label of some other sequence."
    return (
        f"Tokens that never carry a label in the dataset ({summary.unlabelled:,} of {vocabulary:,}) return "
        f"`{summary.otherwise}`;\nothers, in unseen contexts, return one of their known labels."
    )


def _unused_names(count: int) -> str:
    """A note that names of forgotten facts are still in the files."""
    return (
        f"\nTokenizer and labels hold {plural(count, 'name')} that no fact uses, as after facts were forgotten;\n"
        "`monolayer forget --names` drops such names.\n"
    )


def _padding(facts: FolderFacts) -> str:
    """On which side padding stands, and why where there is a reason."""
    side = padding_side(facts)
    if not facts.labelling.generates or side == "left":
        return f"Pad on the {side}, as the tokenizer does."
    return (
        "The tokenizer pads on the right, since this architecture counts places from the left. For `generate` in "
        'batches\npad on the left (`padding_side="left"`): it counts places by the mask.'
    )


def _advice(facts: FolderFacts) -> str:
    """In which arithmetic the folder answers, and in which it does not."""
    if facts.format.long:
        which = "eager or sdpa" if facts.architecture.eager else "sdpa (eager computes in float32 here)"
        return f"Compute in float64, as stored, with attention {which}. In float32 or less, the weights lose facts."
    advice = "Compute in float32, the arithmetic that proofs are about."
    if not facts.format.short:
        return advice
    return (
        f"{advice} In {facts.dtype}, as stored, no proof covers the arithmetic: every fact was tested in it when the "
        "folder was built, with sdpa attention; eager attention rounds more, and may lose some."
    )


def _onnx(facts: FolderFacts) -> str:
    """How the ONNX file is used: transformers.js has classes for labels of encoders and texts of decoders only."""
    runs = "`onnx/model.onnx` is the same network for onnxruntime"
    if facts.causal == facts.labelling.generates:
        begins = ";\nask with `{add_special_tokens: true}`, for the begin token" if facts.labelling.generates else ""
        runs += f" and, from version 4 on, transformers.js:\n`{_snippet(facts, 'folder')}`{begins}"
        runs += " (in Node; browsers have no float64)" if facts.format.long else ""
    return f"\n{runs}. Certificates are\nabout `model.safetensors`, not about it.\n"


def _snippet(facts: FolderFacts, folder: str) -> str:
    """A line of JavaScript that loads the folder."""
    return f'const ask = await pipeline("{_PIPELINE[facts.task]}", {folder}, {{dtype: "fp32"}})'


def in_a_browser(facts: FolderFacts, folder: Path) -> str:
    """How a folder is run in a browser, as a sentence."""
    if facts.causal != facts.labelling.generates:
        return (
            f"{folder} is a {facts.kind} for transformers, and transformers.js has no class for its labels: "
            "onnxruntime runs the onnx/model.onnx that --onnx adds"
        )
    where = "in Node (browsers have no float64)" if facts.format.long else "in a browser"
    return (
        f"{folder} is a {facts.kind} for transformers, and transformers.js runs it {where}, if it was saved with "
        f'--onnx: import {{ pipeline }} from "@huggingface/transformers"; {_snippet(facts, json.dumps(str(folder)))}'
    )


def model_card(
    facts: FolderFacts,
    draw: StockDraw,
    rows: list[tuple[str, str]],
    summary: StockSummary | None,
    *,
    onnx: bool,
    unused: int,
) -> str:
    """The text of a folder's README.md.

    `rows`: of the table in it. `summary`: what the construction measured; None for a model that was loaded. `onnx`:
    whether the folder has an ONNX file. `unused`: how many names in its files no fact uses.
    """
    kind, task = facts.architecture.models[facts.task], facts.task
    order = "The order of tokens matters." if facts.positions else "Only the multiset of tokens in the context matters."
    title = "that holds a dataset" if summary is None else f"that holds {plural(summary.labelled, 'label')}"
    # One seed gives one folder, byte for byte, so the card must not hold times.
    table = "\n".join(f"| {name} | {value} |" for name, value in rows if name != "seconds")
    holds = _ANSWERS if draw.prompts else _HOLDS[task]
    vocabulary = len(facts.names) - len(facts.architecture.special)
    return f"""---
library_name: transformers
pipeline_tag: {_PIPELINE[task]}
tags: [memorization, monolayer]
---

# {kind} {title}

An unmodified one-layer, one-head `{kind}`. Its weights were computed from a dataset by
[monolayer](https://arxiv.org/abs/2307.14023), without training: it returns {holds}.
Its answers to anything else are meaningless.

| | |
|---|---|
{table}

{"" if summary is None else _elsewhere(summary, vocabulary, draw.unknown)}
{_unused_names(unused) if unused else ""}
{_CUT[facts.cut]} {order} Every sequence begins with `{facts.names[BEGIN]}`, which the tokenizer adds; padding needs the
attention mask, which it returns. {_padding(facts)}

```python
import torch
from transformers import AutoTokenizer, AutoModel{CLASS_SUFFIXES[task]}, pipeline

tokenizer = AutoTokenizer.from_pretrained(folder)
{loading(facts)}
ask = pipeline("{_PIPELINE[task]}", model=model, tokenizer=tokenizer)
```

{_advice(facts)}
{_onnx(facts) if onnx else ""}
To prove from these files that every label is returned, in any order of summation: `monolayer verify FOLDER DATA`. If
`certificate.json` is in the folder, it says what was proved, for which bytes and which data.
"""
