"""Attached facts beside methods that change weights, on a host that somebody has and a file of edits.

    python -m monolayer_experiments.counterfact HOST EDITS.json --out R.json [--edits 10 100] [--methods attach MEMIT]

`HOST` is the folder of a Llama or GPT-2. `EDITS.json` is a list of objects in the form of CounterFact (Meng and others,
arXiv 2202.05262) as editors' benchmarks pass it on: `prompt`, `subject`, `target_new`, `rephrase_prompt`,
`locality_prompt`, `locality_ground_truth`. Rows are written as they are measured, so that a run may be stopped; several
files of results are shown as one table by `--table RESULTS.json …`.

Measured for each number of edits and each method:

    efficacy      the model goes on from the prompt with the new answer, by `generate`
    rewordings    the same from `rephrase_prompt`, which is another sentence and has other text in front
    preferred     behind `locality_prompt`, a prompt about another subject, its own answer is likelier than the new one
                  of the edit, by mean log-probability: the locality of CounterFact; `host` says it of the host
    next          there, the next token is the host's
    kept          there, the next 8 tokens are the host's, which is stricter
    places        of `locality_prompt` and of text of installed packages: where any logit differs from the host's
    divergence    the mean KL divergence there
    fluency       entropy of bigrams and trigrams of what it says behind `locality_prompt`s, in bits (Meng and others)
    undone        attach only: whether `detach` gave every file of the host back, byte for byte. The others are undone
                  with a copy of the numbers that they changed

The settings of a method are searched with the first of `--edits`; with the others the best `KEPT` of them are tried.
The best one has the largest harmonic mean of edits that are right, rewordings that are, and `next`. On a GPU they are
trained in TF32; everything is measured in the host's own format. Some rewordings and some locality prompts are prompts
of other edits: `asked_besides` counts both.
Every model loads in transformers by itself: attach adds layers of the host's own kind, the others change numbers.

On a GPU a Llama with attached facts runs in other kernels than the host (docs/attach.md), so the host to compare logits
with is the one with biases of 0, and `places_as_was` counts places that differ from the host as it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import torch

import monolayer as ml
from monolayer.errors import DataError
from monolayer_experiments import editors
from monolayer_experiments.editors import PROMPT, SUBJECT, Descent, Lesson, Part
from monolayer_experiments.edits import Edit, continuations, entropy, likelihoods, read_edits, says
from monolayer_experiments.experiment import Results, Table
from monolayer_experiments.hosts import changed, load
from monolayer_experiments.look import share, table
from monolayer_experiments.prose import installed_text, windows
from monolayer_experiments.runs import timed

METHODS = ("attach", "fine-tuning", "LoRA", "ROME", "MEMIT")
TOKENS = 8
"""How many tokens of a continuation are looked at."""
LONG = 64
"""How many tokens are generated for fluency."""
CONTEXT = 128
"""Tokens in a window of other text."""
BEGINNINGS = ("", "The following is known. ", "As we wrote before: ")
"""Texts in front of a prompt over which ROME and MEMIT take means."""
RATES = {"fine-tuning": (1e-5, 3e-5, 1e-4), "LoRA": (3e-4, 1e-3, 3e-3)}
EPOCHS = 30
WEIGHTS = (15_000.0, 1_500.0, 150.0)
"""λ of MEMIT."""
DELTA = Descent(0.3, 25)
KEPT = {"fine-tuning": 2, "LoRA": 2, "ROME": 1, "MEMIT": 2}
"""How many settings, the best with the first number of edits, are tried with the other numbers."""
SPREAD = 3
"""MEMIT writes to so many layers, as ROME writes to the last of them."""
Made = tuple[Any, int]


@dataclass
class Bench:
    """A host, edits, and the text that edited models are compared on."""

    folder: Path
    edits: Sequence[Edit]
    device: str
    places: int = 20_000
    sampled: int = 100_000
    """Places of text for covariances."""
    seed: int = 0
    covariances: dict[int, torch.Tensor] = field(default_factory=dict)
    ranked: dict[str, list[str]] = field(default_factory=dict)
    shared_seconds: float = 0.0
    """How long the δ took that the last setting took over from the one before it."""

    def __post_init__(self) -> None:
        import transformers

        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.host = load(self.folder, self.device).requires_grad_(False)
        text = [installed_text(kind, 4 * self.places, self.seed) for kind in ("descriptions", "licences", "source")]
        self.texts = [
            row for part in text for row in windows(self.tokenizer, part, CONTEXT)[: self.places // 3 // CONTEXT]
        ]
        other = "\n".join(installed_text(kind, 4 * self.sampled, self.seed + 1) for kind in ("descriptions", "source"))
        self.sample = windows(self.tokenizer, other, CONTEXT)[: self.sampled // CONTEXT]

    # -- what is measured ----------------------------------------------------------------------------------------

    def scores(self, model: Any, edits: Sequence[Edit]) -> Results:
        """Answers of a model to prompts of the edits."""
        tokenizer = self.tokenizer

        def said(prompts: Sequence[str]) -> list[str]:
            return [tokenizer.decode(ids) for ids in continuations(model, tokenizer, prompts, TOKENS)]

        def right(texts: Sequence[str], answers: Sequence[str]) -> int:
            return sum(says(text, answer) for text, answer in zip(texts, answers, strict=True))

        new = [edit.new for edit in edits]
        others = [edit.neighbour for edit in edits]
        neighbours = continuations(model, tokenizer, others, TOKENS)
        own, wanted = (
            likelihoods(model, tokenizer, others, answers)
            for answers in ([f" {edit.truth}" for edit in edits], [edit.answer for edit in edits])
        )
        long = continuations(model, tokenizer, [edit.neighbour for edit in edits[:100]], LONG)
        return {
            "efficacy": right(said([edit.prompt for edit in edits]), new),
            "rewordings": right(said([edit.reworded for edit in edits]), new),
            "preferred": sum(one > two for one, two in zip(own, wanted, strict=True)),
            "truths": right([tokenizer.decode(ids) for ids in neighbours], [edit.truth for edit in edits]),
            "neighbours": neighbours,
            "fluency": entropy(long),
        }

    def compared(self, model: Any, edits: Sequence[Edit], host: Any) -> Results:
        """Where logits of a model differ from those of a host, on prompts about other subjects and on other text."""
        prompts = [self.tokenizer(edit.neighbour)["input_ids"] for edit in edits]
        near, far = changed(host, model, prompts), changed(host, model, self.texts)
        of = near.of + far.of
        divergence = (near.divergence * near.of + far.divergence * far.of) / of
        return {"places": near.places + far.places, "near": near.places, "of": of, "divergence": divergence}

    def row(self, method: str, count: int) -> Results:
        """What a method does with the first `count` edits, at the setting that has most of them right."""
        edits = self.edits[:count]
        before = self.scores(self.host, edits)
        model, about = self.attached(edits) if method == "attach" else self.searched(method, edits)
        scores = self.scores(model, edits)
        layout = self.host
        if method == "attach" and getattr(self.host.config, "mlp_bias", None) is False:
            about["places_as_was"] = self.compared(model, edits, self.host)["places"]
            layout = with_biases(self.folder, self.device)
        said, says_now = before.pop("neighbours"), scores.pop("neighbours")
        scores |= {"next": same(said, says_now, 1), "kept": same(said, says_now, TOKENS)}
        prompts = {edit.prompt for edit in edits}
        besides = [edit.reworded for edit in edits], [edit.neighbour for edit in edits]
        about["asked_besides"] = [sum(text in prompts for text in texts) for texts in besides]
        compared = self.compared(model, edits, layout)
        return {"method": method, "edits": count, "host": before, **about, **scores, **compared}

    # -- methods -------------------------------------------------------------------------------------------------

    def attached(self, edits: Sequence[Edit]) -> tuple[Any, Results]:
        """The folder with the edits attached, as transformers load it. Refused rows are left out, and counted."""
        left, refused, began = list(edits), 0, time.perf_counter()
        while True:
            try:
                made = ml.attach(self.folder, {edit.prompt: edit.answer for edit in left}, device=self.device)
                break
            except ml.PrecisionError as error:
                if not error.rows:
                    raise
                refused += len(error.rows)
                left = [edit for number, edit in enumerate(left) if number not in set(error.rows)]
        with tempfile.TemporaryDirectory() as scratch:
            folder = made.save(Path(scratch) / "new")
            seconds = time.perf_counter() - began
            model = load(folder, self.device).requires_grad_(False)
            undone = same_files(ml.detach(folder).save(Path(scratch) / "host"), self.folder)
        numbers = sum(part.numel() for part in made.tensors.values())
        about = {"seconds": seconds, "search": seconds, "numbers": numbers, "setting": "default", "refused": refused}
        return model, {**about, "undone": undone, "grid": {}}

    def searched(self, method: str, edits: Sequence[Edit]) -> tuple[Any, Results]:
        """The model of the best setting of a method; the first of several."""
        lesson = Lesson(self.tokenizer, edits, self.device, stop="")
        wanted, reworded = lesson.batch(), lesson.batch(Part(wording=1))
        others = [edit.neighbour for edit in edits]
        before = continuations(self.host, self.tokenizer, others, 1)
        grid: dict[str, list[float]] = {}
        best: tuple[float, ...] = (-1.0,)
        made, name, spent, search = None, "", 0.0, 0.0
        for tried, make in self.settings(method, lesson).items():
            self.shared_seconds = 0.0
            built, seconds = timed(self._finished, make)
            search += seconds
            seconds += self.shared_seconds
            found = [editors.right(built[0], part) for part in (wanted, reworded)]
            found.append(same(before, continuations(built[0], self.tokenizer, others, 1), 1) / len(edits))
            grid[tried], score = [*found, seconds], ranking(found)
            if score > best:
                best, made, name, spent = score, built, tried, seconds
        assert made is not None  # every method has settings
        self.ranked.setdefault(method, sorted(grid, key=lambda tried: ranking(grid[tried][:3]), reverse=True))
        about = {"seconds": spent, "search": search, "numbers": made[1], "setting": name, "grid": grid}
        return made[0], about

    def _finished(self, make: Callable[[], Made]) -> Made:
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            made = make()
        finally:
            torch.set_float32_matmul_precision(precision)
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize(self.device)
        return made

    def settings(self, method: str, lesson: Lesson) -> Mapping[str, Callable[[], Made]]:
        """The settings of a method by name; for all numbers of edits but the first, the best ones of that."""
        makers = dict(self._all_settings(method, lesson))
        kept = self.ranked[method][: KEPT[method]] if method in self.ranked else list(makers)
        return {name: make for name, make in makers.items() if name in kept}

    def _all_settings(self, method: str, lesson: Lesson) -> Iterator[tuple[str, Callable[[], Made]]]:
        if method in RATES:
            make = {"fine-tuning": editors.finetuned, "LoRA": editors.lora}[method]
            for rate in RATES[method]:
                yield f"rate {rate:g}", partial(make, self.host, lesson, rate, EPOCHS, self.seed)
            return
        for place, last in sites(len(editors.layers_of(self.host))):
            at = replace(lesson, place=place)
            if method == "ROME":
                yield f"{place}, layer {last}", partial(self._rome, at, last)
            else:
                changes: list[tuple[torch.Tensor, float]] = []  # δ depends on the place and not on λ
                for weight in WEIGHTS:
                    layers = range(max(0, last - SPREAD + 1), last + 1)
                    name = f"{place}, layers {layers[0]} to {last}, λ {weight:g}"
                    yield name, partial(self._memit, at, layers, weight, changes)

    def _rome(self, lesson: Lesson, layer: int) -> Made:
        return editors.rome(self.host, lesson, layer, DELTA, self.covariance(layer), BEGINNINGS)

    def _memit(self, lesson: Lesson, layers: range, weight: float, changes: list[tuple[torch.Tensor, float]]) -> Made:
        if changes:
            self.shared_seconds = changes[0][1]
        else:
            changes.append(timed(editors.changes_at, self.host, lesson, layers[-1], BEGINNINGS, DELTA))
        Cs = [self.covariance(layer) for layer in layers]
        return editors.memit(self.host, lesson, layers, changes[0][0], weight, Cs, BEGINNINGS)

    def covariance(self, layer: int) -> torch.Tensor:
        """`C` of a layer of the host, computed once."""
        if layer not in self.covariances:
            self.covariances[layer] = editors.covariance(self.host, layer, self.sample, self.device)
        return self.covariances[layer]


def sites(layers: int) -> list[tuple[str, int]]:
    """Where ROME and MEMIT are tried in a host of so many layers: whose last token, and the last layer written to."""
    early = sorted({max(1, layers // 8), max(1, layers // 4)})
    return [*((SUBJECT, layer) for layer in early), (PROMPT, layers // 2)]


def same(one: Sequence[Sequence[int]], two: Sequence[Sequence[int]], tokens: int) -> int:
    """How many continuations begin with the same tokens, that many."""
    return sum(list(a[:tokens]) == list(b[:tokens]) for a, b in zip(one, two, strict=True))


def ranking(shares: Sequence[float]) -> tuple[float, ...]:
    """The harmonic mean of some shares, then their arithmetic mean, to tell settings apart where one share is 0."""
    return harmonic_mean(shares), sum(shares)


def same_files(folder: Path, host: Path) -> bool:
    """Whether every file in a folder has the bytes of the host's file of that name."""
    return all(path.read_bytes() == (host / path.name).read_bytes() for path in folder.iterdir())


def with_biases(folder: Path, device: str) -> Any:
    """The host in the layout of a folder with facts: biases of 0 in its feed-forward layers."""
    import transformers

    options = {"dtype": "auto", "mlp_bias": True, "attn_implementation": "sdpa"}
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    for name, part in model.named_parameters():
        if ".mlp." in name and name.endswith(".bias"):
            part.data.zero_()
    return model.to(device).eval().requires_grad_(False)


# -- the table ---------------------------------------------------------------------------------------------------


def tables(results: Results) -> list[Table]:
    """The table of all rows, and that of the settings that were tried."""
    rows = sorted(results["rows"], key=lambda row: (row["edits"], METHODS.index(row["method"])))
    counted = ("efficacy", "rewordings", "preferred", "next", "kept")
    shares = {key: lambda row, key=key: share(row[key] / row["edits"]) for key in counted}
    grid = [
        {"edits": row["edits"], "method": row["method"], "setting": name}
        | dict(zip(("right", "reworded", "next"), found, strict=False))
        for row in rows
        for name, found in row["grid"].items()
    ]
    return [
        table(
            "Edits of a real model",
            rows,
            "edits; method; efficacy; rewordings; own answer likelier elsewhere: preferred; in the host: of_host; "
            "next token as before: next; next 8 as before: kept; places that change: changes; "
            "mean KL: divergence; fluency; seconds; with the search: search; numbers; setting",
            changes=lambda row: f"{row['places']:,} of {row['of']:,}",
            of_host=lambda row: share(row["host"]["preferred"] / row["edits"]),
            **shares,
        ),
        table(
            "Settings that were tried",
            grid,
            "edits; method; setting; right, token by token: right %; rewordings likewise: reworded %; "
            "next token of others as before: next %",
        ),
    ]


def merged(files: Sequence[Path]) -> Results:
    """The results of several runs on one host and one file, as one; of rows that two of them have, the last."""
    whole: Results = {}
    rows: dict[tuple[str, int], Results] = {}
    for path in files:
        one = json.loads(path.read_text(encoding="utf-8"))
        if whole and any(whole[key] != one[key] for key in ("host", "file")):
            raise DataError(f"{path}: another host or another file of edits than in {files[0]}")
        rows |= {(row["method"], row["edits"]): row for row in one["rows"]}
        whole = whole or one
    return {**whole, "rows": list(rows.values())}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m monolayer_experiments.counterfact", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paths", nargs="+", type=Path, help="HOST and EDITS.json; with --table, files of results")
    parser.add_argument("--out", type=Path, help="file for the results")
    parser.add_argument("--table", action="store_true", help="print results as tables")
    parser.add_argument("--edits", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--places", type=int, default=20_000, help="places of other text")
    parser.add_argument("--sampled", type=int, default=100_000, help="places of text for covariances")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    if options.table:
        results = merged(options.paths)
        for each in tables(results):
            print(f"\n{each.title}\n\n| {' | '.join(each.columns)} |\n|{'---|' * len(each.columns)}")
            print("\n".join(f"| {' | '.join(row)} |" for row in each.rows))
        if options.out is not None:
            options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        return
    if len(options.paths) != 2 or options.out is None:
        parser.error("give HOST, EDITS.json and --out")
    folder, file = options.paths
    measure(folder, file, options)


def measure(folder: Path, file: Path, given: argparse.Namespace) -> None:
    """Measure all rows that are asked for, and write the results after each of them."""
    import transformers

    edits = read_edits(file)
    bench = Bench(folder, edits, given.device, given.places, given.sampled)
    name = torch.cuda.get_device_name() if torch.device(given.device).type == "cuda" else "cpu"
    results: Results = {
        "host": {"model": type(bench.host).__name__, "parameters": bench.host.num_parameters()}
        | {"layers": len(editors.layers_of(bench.host)), "width": bench.host.config.hidden_size}
        | {"dtype": str(bench.host.dtype).removeprefix("torch.")},
        "file": {"rows": len(edits), "digest": hashlib.sha256(file.read_bytes()).hexdigest()},
        "device": name,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "lora_by": editors.lora_by(),
        "rows": [],
    }
    for count, method in product(given.edits, given.methods):
        began = time.perf_counter()
        row = bench.row(method, min(count, len(edits)))
        results["rows"].append({**row, "whole_seconds": time.perf_counter() - began})
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        shown = {key: row[key] for key in ("efficacy", "rewordings", "kept", "places", "of", "seconds", "setting")}
        print(method, count, shown, flush=True)


if __name__ == "__main__":
    main()
