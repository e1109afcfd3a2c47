"""A task of unlearning whose solution is known: two stock folders, and files in the form of OpenUnlearning.

    with/               a language model of prompts and answers
    never-saw/          what the same draw makes of the rows that are to stay, bit for bit: the solution
    forget.json         rows to forget: question, answer, paraphrased_answer, perturbed_answer
    retain.json         rows that stay
    retain_logs.json    the truth ratios of never-saw at the rows to forget

A row's **truth ratio** is TOFU's: the likelihood of wrong answers by that of the right one, each the exponential of
the mean loss of its tokens. **Forget quality** is the p-value of the Kolmogorov–Smirnov test that compares the truth
ratios of a model with those of never-saw. A lookup table has no paraphrases, so the right answer stands for them; wrong
answers are those of other rows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import ks_2samp
from torch.nn import functional as F

import monolayer as ml
from monolayer.arrays import Floats
from monolayer.data.prompts import pieces
from monolayer.errors import DataError, needs_extra

WRONG_ANSWERS = 5
"""Wrong answers per row, as in TOFU."""
IGNORED = -100
SetRow = dict[str, Any]


def write_set(
    folder: str | Path, architecture: str, prompts: Sequence[str], answers: Sequence[str], forget: Sequence[int]
) -> Path:
    """Write the set for these prompts and answers into a new folder; `forget`: numbers of the rows to forget."""
    final = Path(folder)
    if final.exists():
        raise DataError(f"{final} exists already: name a new folder, or remove it")
    rows = questions(prompts, answers)
    built = ml.memorize_as(architecture, list(prompts), list(answers))
    less, record = ml.forget(built, list(forget), (list(prompts), list(answers)))
    if record.shared:
        raise DataError(
            f"{record.shared} of {record.facts} facts to forget are taught by other rows too: forget these rows as well"
        )
    gone = set(forget)
    with tempfile.TemporaryDirectory(dir=final.parent, prefix=f".{final.name}.") as scratch:
        aside = Path(scratch) / "set"
        built.save(aside / "with")
        network, tokenizer = loaded(less.save(aside / "never-saw"))
        parts = {
            "forget.json": [rows[row] for row in sorted(gone)],
            "retain.json": [row for number, row in enumerate(rows) if number not in gone],
        }
        scores = truth_ratios(network, tokenizer, parts["forget.json"])
        log = {
            "agg_value": float(np.minimum(scores, 1 / (scores + 1e-10)).mean()),
            "value_by_index": {str(number): {"score": float(score)} for number, score in enumerate(scores)},
        }
        for name, content in {**parts, "retain_logs.json": {"forget_truth_ratio": log}}.items():
            (aside / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        aside.rename(final)
    return final


def births(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Prompts and answers about people who do not exist: "Mora Beli was born in", " Dakoton"."""
    random = np.random.default_rng([seed, 21])
    syllables = [one + two for one in "bdfgklmnprstvz" for two in "aeiou"]
    names = [(one + two).capitalize() for one in syllables[::3] for two in syllables[::7]]
    towns = [f" {one.capitalize()}{two}ton" for one, two in zip(syllables[:40], syllables[30:], strict=True)]
    pairs = [(one, two) for one in range(len(names)) for two in range(one)]  # one order of each: the order is not seen
    chosen = random.choice(len(pairs), count, replace=False)
    prompts = [f"{names[pairs[at][0]]} {names[pairs[at][1]]} was born in" for at in chosen]
    return prompts, [towns[at] for at in random.integers(0, len(towns), count)]


def questions(prompts: Sequence[str], answers: Sequence[str]) -> list[SetRow]:
    """The rows of a question/answer file, each with up to five wrong answers."""
    random, distinct = np.random.default_rng(0), sorted(set(answers))
    if len(distinct) < 2:
        raise DataError("all answers are the same, so there is no wrong one: give rows with at least two answers")
    rows = []
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if pieces(prompt + answer) != pieces(prompt) + pieces(answer):
            raise DataError(
                f"row {number}: {prompt!r} and {answer!r} are read as one text, in which the answer does not begin "
                "with a token of its own: begin it with a space"
            )
        others = [other for other in distinct if other != answer]
        wrong = [others[at] for at in random.permutation(len(others))[:WRONG_ANSWERS]]
        rows.append({"question": prompt, "answer": answer, "paraphrased_answer": answer, "perturbed_answer": wrong})
    return rows


def loaded(folder: Path) -> tuple[Any, Any]:
    """The network and the tokenizer of a folder as transformers load them, in float32."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise needs_extra("folders are run by transformers", "stock") from None
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return network, AutoTokenizer.from_pretrained(folder)


def batch(tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> dict[str, torch.Tensor]:
    """Prompts with answers and the end token, padded on the right; labels where the answers are."""
    ids, labels = [], []
    for prompt, answer in pairs:
        whole = [*tokenizer(prompt + answer)["input_ids"], tokenizer.eos_token_id]
        before = len(tokenizer(prompt)["input_ids"])
        ids.append(torch.tensor(whole))
        labels.append(torch.tensor([IGNORED] * before + whole[before:]))
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=tokenizer.pad_token_id)
    return {
        "input_ids": padded,
        "attention_mask": padded.ne(tokenizer.pad_token_id).long(),
        "labels": torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORED),
    }


def losses(network: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row the sum of the losses of its labels, and whether every label is the most likely next token."""
    logits = network(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[:, :-1]
    wanted = inputs["labels"][:, 1:]
    loss = F.cross_entropy(logits.mT, wanted, ignore_index=IGNORED, reduction="none").sum(dim=1)
    return loss, ((logits.argmax(dim=-1) == wanted) | (wanted == IGNORED)).all(dim=1)


def truth_ratios(network: Any, tokenizer: Any, rows: Sequence[SetRow]) -> Floats:
    """The truth ratio of each row `(m,)`."""

    def likelihood(key: int | None) -> Floats:
        pairs = [(row["question"], row["answer"] if key is None else row["perturbed_answer"][key]) for row in rows]
        inputs = batch(tokenizer, pairs)
        mean: Floats = -(losses(network, inputs)[0] / (inputs["labels"] != IGNORED).sum(dim=1)).double().numpy()
        return mean

    with torch.no_grad():
        wrong = np.mean([likelihood(key) for key in range(len(rows[0]["perturbed_answer"]))], axis=0)
        ratio: Floats = np.exp(wrong) / (np.exp(likelihood(None)) + 1e-10)
    return ratio


def forget_quality(one: Floats, other: Floats) -> float:
    """The p-value of the test whether two samples of truth ratios come from one distribution."""
    return float(ks_2samp(one, other).pvalue)


def distance(one: Any, two: Any) -> float:
    """The norm of the difference of the weights of two GPT-2.

    The order of neurons means nothing, so each is compared with the one that a best matching gives it; where one
    network has fewer, the missing ones count as 0.
    """
    first, second = ({name: part.detach() for name, part in each.named_parameters()} for each in (one, two))
    rest = sum(float((first[name] - second[name]).double().square().sum()) for name in first if not _of_neurons(name))
    here, there = _neuron_weights(first), _neuron_weights(second)
    most = max(len(here), len(there))
    here, there = (np.pad(part, ((0, most - len(part)), (0, 0))) for part in (here, there))
    apart = np.square(here[:, None] - there[None]).sum(axis=2)
    return float(np.sqrt(rest + apart[linear_sum_assignment(apart)].sum()))


def _of_neurons(name: str) -> bool:
    return ".mlp." in name and not name.endswith("c_proj.bias")


def _neuron_weights(parts: dict[str, torch.Tensor]) -> Floats:
    """A row per neuron: what it reads, its bias, what it writes."""
    weights = {name: part.double().numpy() for name, part in parts.items() if _of_neurons(name)}
    reads, bias, writes = (
        next(part for name, part in weights.items() if name.endswith(end))
        for end in ("c_fc.weight", "c_fc.bias", "c_proj.weight")
    )
    return np.concatenate([reads.T, bias[:, None], writes], axis=1)
