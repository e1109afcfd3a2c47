"""Claim: 10,000 questions are built with 1.3 passes of the encoder per question, and answered at the encoder's speed.

    python bench/ten_thousand_questions_in_one_folder.py ENCODER                        # needs pycountry
    python bench/ten_thousand_questions_in_one_folder.py ENCODER --count 2000
    python bench/ten_thousand_questions_in_one_folder.py ENCODER --device cuda --threads 8

ENCODER is the folder of a sentence encoder. The questions ask in two forms to which country each district, province or
state of ISO 3166-2 belongs (package pycountry). Names that occur in two countries are left out, and so is a question
whose state has a cosine above `TWINS` with an earlier one of another answer: it says how many. All others must come
back and be proved. The speed of answering is that of the encoder alone on the same batches, times (layers + appended
layers)/layers, on the processor. It says how far it is every few seconds, and what each step took.
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
TIMES = 5
"""How often; the fastest counts."""
EVERY = 10.0
"""Seconds between two lines about progress."""


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

    def __init__(self, folder: Path, texts: list[str], device: str | None = None) -> None:
        self.folder, self.device = folder, device or "cpu"
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        self.batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        self.given = [
            tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt").to(self.device)
            for rows in self.batches
        ]

    def run(self, model: Any) -> Iterator[tuple[list[int], Any]]:
        """The outputs of a model, batch by batch."""
        with torch.no_grad():
            for rows, given in zip(self.batches, self.given, strict=True):
                yield rows, model(**given)

    def states(self, width: int) -> np.ndarray:
        """The mean of the tokens of each text, of length 1."""
        found = np.zeros((sum(map(len, self.batches)), width))
        model = transformers.AutoModel.from_pretrained(self.folder).eval().to(self.device)
        for (rows, said), given in zip(self.run(model), self.given, strict=True):
            mask = given["attention_mask"][..., None]
            found[rows] = ((said.last_hidden_state * mask).sum(1) / mask.sum(1)).double().cpu().numpy()
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def told_apart(encoder: Path, table: dict[str, str], device: str | None) -> dict[str, str]:
    """The questions without those that the encoder does not tell apart from earlier ones."""
    texts, answers = list(table), np.array(list(table.values()), dtype=object)
    width = json.loads((encoder / "config.json").read_text())["hidden_size"]
    states = Plain(encoder, texts, device).states(width)
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


class Steps:
    """Prints how far a long call is, every few seconds, and what each step took."""

    def __init__(self) -> None:
        self.began = self.step = time.perf_counter()
        self.next = self.began + EVERY

    def __call__(self, stage: str, share: float) -> None:
        now = time.perf_counter()
        if now >= self.next:
            print(f"   {stage}, {share:.0%}, after {now - self.began:,.0f} s", flush=True)
            self.next = now + EVERY

    def done(self, words: str) -> float:
        """End a step: the seconds that it took."""
        now = time.perf_counter()
        spent, self.step = now - self.step, now
        print(f"{words}: {spent:,.1f} s", flush=True)
        return spent


def ratio(encoder: Path, folder: Path, texts: list[str], appended: float, steps: Steps) -> float:
    """The time of an answer by that of the encoder and its share of layers, `appended`, on the processor."""
    plain = Plain(folder, texts)
    alone = transformers.AutoModel.from_pretrained(encoder).eval()
    whole = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    times = []
    for turn in range(TIMES):
        times.append([busy(plain, each) for each in (alone, whole)])
        steps("answering", turn / TIMES)
    one, all_of_it = np.min(times, axis=0)
    return float(all_of_it / one / appended)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--device", help="where questions are built, by default the processor")
    parser.add_argument("--threads", type=int, help="of PyTorch")
    recordable(parser)
    options = parser.parse_args()
    if options.encoder is None:
        raise NotRunError("it needs the folder of a sentence encoder")
    if options.threads:
        torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    steps, asked = Steps(), questions(options.count)
    table = told_apart(options.encoder, asked, options.device)
    print(f"{len(asked):,} questions, {len(asked) - len(table):,} of them too near an earlier one of another answer")
    steps.done("choosing them")
    kind = type(transformers.AutoModel.from_pretrained(options.encoder))
    with Passes(kind) as passes:
        model = ml.recognize(options.encoder, table, device=options.device, progress=steps)
    print(model)
    found: dict[str, Any] = {"questions": len(table), "left_out": len(asked) - len(table), "layers": model.blocks}
    found |= {"passes": passes.count / len(table), "seconds": steps.done("building")}
    with tempfile.TemporaryDirectory() as scratch:
        folder = model.save(Path(scratch) / "folder")
        steps.done("writing")
        proof = ml.certify(folder, table, progress=steps)
        print(proof)
        found |= {"verdict": proof.verdict, "certify": steps.done("certifying")}
        texts = list(table)[:: max(1, len(table) // LOOKED_UP)][:LOOKED_UP]
        appended = (model.encoder.layers + model.blocks) / model.encoder.layers
        found |= {"ratio": ratio(options.encoder, folder, texts, appended, steps)}
        steps.done("comparing speeds")
    record([found], options.device or "cpu")
    claim("passes of the encoder per question", found["passes"], at_most=1.3)
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
