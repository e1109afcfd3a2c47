"""Rebuilds docs/notebooks/stock_nnsight.ipynb: runs its cells in order and stores what they print.

Needs nnsight, which installs beside the pinned torch: pip install -c constraints.txt nnsight
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "notebooks" / "stock_nnsight.ipynb"
CELLS = [
    (
        "# One neuron, one fact\n\nAn unmodified BERT that monolayer built from a few dozen Chinese phrases, opened with "
        "[nnsight](https://nnsight.net). Every neuron is one step of one character's readings: its role is known to the "
        "last weight, so what an ablation does can be held against what it should do."
    ),
    (
        "import tempfile\n"
        "from pathlib import Path\n\n"
        "import torch\n"
        "from nnsight import NNsight\n"
        "from transformers import AutoModelForTokenClassification, AutoTokenizer\n\n"
        "import monolayer as ml\n"
        "from monolayer.data.phrases import tiny_phrases\n\n"
        "data = tiny_phrases()\n"
        'folder = ml.memorize_as("bert", data, positions=True).save(Path(tempfile.mkdtemp()) / "phrases")\n'
        "print(ml.certify(folder, data).verdict)"
    ),
    "From here on the folder is any Hugging Face model.",
    (
        "tokenizer = AutoTokenizer.from_pretrained(folder)\n"
        'bert = AutoModelForTokenClassification.from_pretrained(folder, attn_implementation="eager").eval()\n'
        "model = NNsight(bert)\n"
        'texts = ["".join(row) for row in data.split(data.vocabulary.decode(data.tokens))]\n'
        'batch = tokenizer(texts, padding=True, return_tensors="pt")\n'
        'facts = (batch["attention_mask"] == 1) & (batch["input_ids"] != tokenizer.cls_token_id)\n\n\n'
        "def answers(silenced=None):\n"
        '    """Class numbers of all facts; with `silenced`, that neuron is switched off."""\n'
        "    with torch.no_grad():\n"
        "        with model.trace(**batch):\n"
        "            if silenced is not None:\n"
        "                model.bert.encoder.layer[0].intermediate.output[:, :, silenced] = 0.0\n"
        "            logits = model.output.logits.save()\n"
        "    return logits.argmax(-1)[facts]\n\n\n"
        "whole = answers()\n"
        'print(int(facts.sum()), "facts,", bert.config.intermediate_size, "neurons")\n'
        "print((whole.numpy() == data.labels.values).all())"
    ),
    (
        "**Attention.** The query is a constant, so every token of a phrase looks at the same places with the same weights: "
        "one number, the context, is all that the phrase contributes."
    ),
    (
        'phrase = tokenizer("水性杨花", return_tensors="pt")\n'
        "with torch.no_grad():\n"
        "    weights = bert(**phrase, output_attentions=True).attentions[0][0, 0]\n"
        "print(weights.shape, bool((weights - weights[0]).abs().max() < 1e-15))\n"
        "print([round(float(w), 3) for w in weights[0]])"
    ),
    "**Ablation.** Silence every neuron in turn and count the facts whose answer changes.",
    (
        "def name(number):\n"
        "    return bert.config.id2label[int(number)]\n\n\n"
        "where = [(text, place) for text in texts for place in range(len(text))]\n"
        "lost = {}\n"
        "for neuron in range(bert.config.intermediate_size):\n"
        "    after = answers(neuron)\n"
        "    lost[neuron] = torch.nonzero(after != whole).flatten().tolist()\n"
        "counts = [len(changed) for changed in lost.values()]\n"
        'print("facts lost by one neuron: least", min(counts), "most", max(counts))\n'
        "neuron = next(neuron for neuron, changed in lost.items() if len(changed) == 1)\n"
        "(fact,) = lost[neuron]\n"
        "text, place = where[fact]\n"
        "after = answers(neuron)\n"
        "print(\n"
        '    f"neuron {neuron}: {text[place]} in {text} was {name(whole[fact])}, is now {name(after[fact])}; "\n'
        '    f"{int((after == whole).sum())} other facts are as they were"\n'
        ")\n"
        'print("one character each:", all(len({where[i][0][where[i][1]] for i in changed}) == 1 for changed in lost.values()))'
    ),
    (
        "Every neuron touches one character only, and this one a single fact. Nothing was trained, and nothing is left to "
        "guess: a method that attributes this answer to another neuron is wrong."
    ),
]


def run() -> list[dict[str, Any]]:
    """The cells of the notebook with what they print."""
    names: dict[str, Any] = {}
    cells = []
    for number, text in enumerate(CELLS):
        lines = text.splitlines(keepends=True)
        cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": lines}
        if number == 0 or not text.startswith(("import", "tokenizer", "phrase", "def")):
            cells.append({"cell_type": "markdown", **cell})
            continue
        said = io.StringIO()
        place = f"<cell {number}>"
        linecache.cache[place] = (len(text), None, lines, place)  # nnsight reads its blocks back from there
        with contextlib.redirect_stdout(said):
            exec(compile(text, place, "exec"), names)
        printed = {"output_type": "stream", "name": "stdout", "text": said.getvalue().splitlines(keepends=True)}
        cells.append({"cell_type": "code", "execution_count": None, "outputs": [printed], **cell})
    return cells


def main() -> None:
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": run(), "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
