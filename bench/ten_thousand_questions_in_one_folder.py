"""Claim: 10,000 questions are built with 1.3 passes of the encoder per question, and answered at the encoder's speed.

    python bench/ten_thousand_questions_in_one_folder.py ENCODER                        # needs pycountry
    python bench/ten_thousand_questions_in_one_folder.py ENCODER --count 2000

ENCODER is the folder of a sentence encoder. The questions ask in two forms to which country each district, province or
state of ISO 3166-2 belongs (package pycountry). Names that occur in two countries are left out, and so is a question
whose state has a cosine above `TWINS` with an earlier one of another answer: it says how many. All others must come
back and be proved. The speed of answering is that of the encoder alone on the same batches, times (layers + appended
layers)/layers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import monolayer as ml
from workload import SAME_RUN, NotRunError, claim, record, recordable, run

TWINS = 0.98
"""Texts that an encoder puts nearer than this cannot have two answers."""
BATCH = 64
LOOKED_UP = 512
"""How many questions are looked up to compare speeds."""


def questions(count: int) -> dict[str, str]:
    """Questions about subdivisions of countries, and the countries."""
    try:
        import pycountry
    except ImportError:
        raise NotRunError("pycountry is not installed") from None
    names: dict[str, str] = {}
    twice: set[str] = set()
    for each in pycountry.subdivisions:
        if names.setdefault(each.name.lower(), each.country_code) != each.country_code:
            twice.add(each.name.lower())
    found: dict[str, str] = {}
    for each in pycountry.subdivisions:
        if each.name.lower() not in twice:
            country = pycountry.countries.get(alpha_2=each.country_code).name
            found[f"Which country is {each.name} in?"] = country
            found[f"To which country does the {each.type.lower()} of {each.name} belong?"] = country
    return dict([*found.items()][:count])


class Plain:
    """Models of transformers on padded batches of similar lengths."""

    def __init__(self, folder: Path, texts: list[str]) -> None:
        self.folder = folder
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        self.batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        self.given = [
            tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt") for rows in self.batches
        ]

    def run(self, model: Any) -> Iterator[tuple[list[int], Any]]:
        """The outputs of a model, batch by batch."""
        with torch.no_grad():
            for rows, given in zip(self.batches, self.given, strict=True):
                yield rows, model(**given)

    def states(self, width: int) -> np.ndarray:
        """The mean of the tokens of each text, of length 1."""
        found = np.zeros((sum(map(len, self.batches)), width))
        model = transformers.AutoModel.from_pretrained(self.folder).eval()
        for (rows, said), given in zip(self.run(model), self.given, strict=True):
            mask = given["attention_mask"][..., None]
            found[rows] = ((said.last_hidden_state * mask).sum(1) / mask.sum(1)).double().numpy()
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def told_apart(encoder: Path, table: dict[str, str]) -> dict[str, str]:
    """The questions without those that the encoder does not tell apart from earlier ones."""
    texts, answers = list(table), np.array(list(table.values()), dtype=object)
    width = json.loads((encoder / "config.json").read_text())["hidden_size"]
    states = Plain(encoder, texts).states(width)
    kept = np.ones(len(texts), dtype=bool)
    for row in range(1, len(texts)):
        near = states[:row] @ states[row] > TWINS
        kept[row] = not (near & kept[:row] & (answers[:row] != answers[row])).any()
    return {texts[row]: str(answers[row]) for row in np.flatnonzero(kept).tolist()}


class Passes:
    """How many texts went through an encoder while this is open."""

    def __init__(self, kind: type) -> None:
        self.kind, self.count, self.forward = kind, 0, kind.forward  # type: ignore[attr-defined]

    def __enter__(self) -> Passes:
        def counted(model: Any, input_ids: Any = None, *args: Any, **options: Any) -> Any:
            self.count += len(input_ids)
            return self.forward(model, input_ids, *args, **options)

        self.kind.forward = counted  # type: ignore[attr-defined]
        return self

    def __exit__(self, *error: object) -> None:
        self.kind.forward = self.forward  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=10_000)
    recordable(parser)
    options = parser.parse_args()
    if options.encoder is None:
        raise NotRunError("it needs the folder of a sentence encoder")
    transformers.utils.logging.disable_progress_bar()
    asked = questions(options.count)
    table = told_apart(options.encoder, asked)
    print(f"{len(asked):,} questions, {len(asked) - len(table):,} of them too near an earlier one of another answer")
    kind = type(transformers.AutoModel.from_pretrained(options.encoder))
    began = time.perf_counter()
    with Passes(kind) as passes:
        model = ml.recognize(options.encoder, table)
    spent = time.perf_counter() - began
    print(f"{spent:,.0f} s to build\n{model}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = model.save(Path(scratch) / "folder")
        proof = ml.certify(folder, table)
        print(proof)
        texts = list(table)[:: max(1, len(table) // LOOKED_UP)][:LOOKED_UP]
        plain = Plain(folder, texts)
        encoder = transformers.AutoModel.from_pretrained(options.encoder).eval()
        whole = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        times = [[busy(plain, each) for each in (encoder, whole)] for _ in range(5)]
    one, all_of_it = np.min(times, axis=0)
    expected = (model.encoder.layers + model.blocks) / model.encoder.layers
    found = {"questions": len(table), "passes": passes.count / len(table), "seconds": spent, "layers": model.blocks}
    found |= {"left_out": len(asked) - len(table), "verdict": proof.verdict, "ratio": all_of_it / one / expected}
    record([found])
    claim("passes of the encoder per question", passes.count / len(table), at_most=1.3)
    claim(
        f"questions of {len(table):,} that are not proved or not answered", float(proof.verdict != "proved"), at_most=0
    )
    claim(
        "time of an answer by that of the encoder and its share of layers", found["ratio"], at_most=1.05, busy=SAME_RUN
    )


def busy(plain: Plain, model: Any) -> float:
    """Seconds of processor time in which a model reads all batches."""
    began = time.process_time()
    for _ in plain.run(model):
        pass
    return time.process_time() - began


if __name__ == "__main__":
    run(main)
