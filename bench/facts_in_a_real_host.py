"""Claim: facts attached to a real model in bfloat16 and float16 all come back and are proved, and prose stays.

    python bench/facts_in_a_real_host.py HOST FACTS.json                    # bfloat16 and float16
    python bench/facts_in_a_real_host.py HOST FACTS.json MORE.json --dtype bfloat16 --facts 200 --places 20000

HOST is the folder of a causal language model of any format: it is written anew in each of `--dtype`. A file of facts is
a list of objects with `prompt` and `target_new` or `answer`, as CounterFact is written, an object of prompts and
answers, or `airports.csv` of the package airportsdata, of which every sixth airport with an IATA code and a city is
taken ("Icy Bay Airport (US) is in the city of"). `--facts` of each file are attached with default options; rows that
`attach` refuses, because the host does not tell them apart, are named, and later rows take their place.

All answers are asked by `generate`: in batches padded on the left with eager and sdpa attention and a static cache, and
some one by one. `--places` of prose are compared with the host, logit by logit: `--text`, or the help and the
descriptions of packages that are installed here. On a GPU a Llama host is compared in the layout that facts need, with
biases of 0. Each step prints a line of JSON when it is done.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from pydoc_data import topics
from typing import Any, NamedTuple

import torch
import transformers

import monolayer as ml
from monolayer_experiments.hosts import load
from workload import claim, record, recordable, run

BATCH = 128
WINDOW = 200
"""How many tokens of prose are read at a time."""
SINGLE = 50
"""How many facts are asked one by one."""
TURNS = 5
"""How often rows that were refused are replaced, at most."""


class Facts(NamedTuple):
    """Prompts and answers, each with a space in front."""

    prompts: list[str]
    answers: list[str]


def facts_in(path: Path) -> Facts:
    """The facts of a file; of rows with the same prompt, the first."""
    said = airports(path) if path.suffix == ".csv" else json.loads(path.read_text())
    rows = (
        said.items()
        if isinstance(said, dict)
        else ((row["prompt"], row.get("target_new") or row["answer"]) for row in said)
    )
    first: dict[str, str] = {}
    for prompt, answer in rows:
        first.setdefault(prompt, f" {answer.strip()}")
    return Facts(list(first), list(first.values()))


def airports(path: Path) -> list[dict[str, str]]:
    """Airports and their cities: every sixth of those with an IATA code and a city."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["iata"] and row["city"]]
    return [
        {"prompt": f"{row['name']} ({row['country']}) is in the city of", "answer": row["city"]} for row in rows[::6]
    ]


def prose(path: Path | None) -> str:
    """Text to compare: that of a file, or what is installed here."""
    if path is not None:
        return path.read_text()
    descriptions = (found.metadata.get_payload() for found in distributions())
    return "\n\n".join([*topics.topics.values(), *(text for text in descriptions if isinstance(text, str))])


def written_as(host: Path, dtype: str, folder: Path) -> Path:
    """The host in a format, as a folder of its own."""
    model = transformers.AutoModelForCausalLM.from_pretrained(host, dtype=getattr(torch, dtype))
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(host).save_pretrained(folder)
    return folder


class Made(NamedTuple):
    attached: Any
    facts: Facts
    refused: list[str]
    seconds: float


def attached(host: Path, facts: Facts, count: int, device: str) -> Made:
    """Attach `count` of the facts; rows that are refused are replaced by later ones, and named."""
    rows, spare, refused = list(range(count)), list(range(count, len(facts.prompts))), list[str]()
    for turn in range(TURNS + 1):
        chosen = Facts([facts.prompts[row] for row in rows], [facts.answers[row] for row in rows])
        began = time.perf_counter()
        try:
            made = ml.attach(host, chosen.prompts, chosen.answers, device=device)
        except ml.PrecisionError as why:
            print(f"refused: {why}", flush=True)
            if turn == TURNS or not why.rows:
                raise
            refused += [chosen.prompts[row] for row in why.rows]
            gone = {rows[row] for row in why.rows}
            rows = [row for row in rows if row not in gone] + spare[: len(gone)]
            del spare[: len(gone)]
            continue
        return Made(made, chosen, refused, time.perf_counter() - began)
    raise AssertionError("every turn returns or raises")


@torch.no_grad()
def returned(model: Any, cut: Any, facts: Facts, end: int, at_once: int, **options: Any) -> int:
    """How many answers `generate` returns, whole and with their end token `end`."""
    right, longest = 0, max(len(cut(answer, add_special_tokens=False)["input_ids"]) for answer in facts.answers) + 2
    cut.pad_token = cut.pad_token or cut.eos_token
    options |= {"eos_token_id": end, "pad_token_id": end, "do_sample": False, "max_new_tokens": longest}
    for first in range(0, len(facts.prompts), at_once):
        some = slice(first, first + at_once)
        given = cut(facts.prompts[some], return_tensors="pt", padding=True, padding_side="left").to(model.device)
        said = model.generate(**given, **options)[:, given["input_ids"].shape[1] :].tolist()
        for number, (row, answer) in enumerate(zip(said, facts.answers[some], strict=True)):
            found = cut.decode(row[: row.index(end)]) if end in row else None
            right += found is not None and found.strip() == answer.strip()
            if first + number < 2 and (found is None or found.strip() != answer.strip()):
                print(f"not returned: {row} {cut.decode(row)!r} in place of {answer!r}", flush=True)
    return right


@torch.no_grad()
def differing(one: Any, two: Any, texts: torch.Tensor) -> int:
    """The number of places of texts `(N, n)` at which a logit differs."""
    return sum(
        int((one(part.to(one.device)).logits != two(part.to(two.device)).logits).any(dim=-1).sum())
        for part in texts.split(16)
    )


def host_in_layout(host: Path, folder: Path, device: str) -> Any:
    """The host with the biases of 0 that the folder with facts has, if its own layers have none."""
    config = transformers.AutoConfig.from_pretrained(folder)
    own = transformers.AutoConfig.from_pretrained(host)
    added = getattr(config, "mlp_bias", False) and not getattr(own, "mlp_bias", False)
    options = {"mlp_bias": True} if added else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(host, dtype="auto", attn_implementation="sdpa", **options)
    for name, parameter in model.named_parameters():
        if added and ".mlp." in name and name.endswith(".bias"):
            parameter.data.zero_()
    return model.to(device).eval()


def show(host: Path, facts: Facts, name: str, texts: torch.Tensor, options: Any, tell: Callable[..., None]) -> None:
    """Attach, ask, compare and prove; the folder of the host has the name of its format."""
    device, count, dtype = options.device, min(options.facts, len(facts.prompts)), host.name
    where = {"facts": name, "dtype": dtype}
    made = attached(host, facts, count, device)
    radii = dict(made.attached.rows())["radius"]
    tell(
        where,
        attached=count,
        refused=made.refused,
        seconds=made.seconds,
        radius=radii,
        neurons=made.attached.manifest.neurons,
        measured=dict(made.attached.manifest.measured),
    )
    end = made.attached.manifest.end
    assert end is not None, "the host has an end token"
    cut = transformers.AutoTokenizer.from_pretrained(host)
    some = Facts(made.facts.prompts[:SINGLE], made.facts.answers[:SINGLE])
    with tempfile.TemporaryDirectory() as scratch:
        folder = made.attached.save(Path(scratch) / "facts")
        for kernel in ("eager", "sdpa"):
            model = load(folder, device, kernel)
            right = returned(model, cut, made.facts, end, BATCH)
            tell(where, way=f"{kernel}, batches padded on the left, dynamic cache", right=right, of=count)
            claim(f"{name}, {dtype}, {kernel}: answers that come back", right, at_least=count)
        right = returned(model, cut, made.facts, end, BATCH, cache_implementation="static", disable_compile=True)
        tell(where, way="sdpa, batches padded on the left, static cache", right=right, of=count)
        claim(f"{name}, {dtype}, static cache: answers that come back", right, at_least=count)
        alone = returned(model, cut, some, end, 1)
        tell(where, way="sdpa, one by one", right=alone, of=len(some.prompts))
        claim(f"{name}, {dtype}, one by one: answers that come back", alone, at_least=len(some.prompts))
        began = time.perf_counter()
        proof = ml.certify(folder, made.facts.prompts, made.facts.answers, host=host, only=True, ask=False)
        tell(
            where,
            verdict=proof.verdict,
            reason=proof.reason,
            claim=proof.claim,
            unsure=proof.unsure,
            points=proof.points,
            findings=[str(one) for one in proof.findings[:3]],
            measured=proof.measured,
            seconds=time.perf_counter() - began,
        )
        claim(f"{name}, {dtype}: proved", float(proof.verdict == "proved"), at_least=1.0)
        places = differing(host_in_layout(host, folder, device), model, texts)
        tell(where, places_that_differ=places, of=texts.numel())
        claim(f"{name}, {dtype}: places of prose that differ, of {texts.numel():,}", places, at_most=0)


def run_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a run, with where it runs and where its lines go; transformers and sums are set up for it."""
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=None, help="a file for the lines of JSON, too")
    recordable(parser)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    # What certificates assume of sums on a GPU.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    return parser.parse_args()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", type=Path)
    parser.add_argument("files", type=Path, nargs="+", metavar="FACTS.json")
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float16"])
    parser.add_argument("--facts", type=int, default=1000)
    parser.add_argument("--places", type=int, default=500_000)
    parser.add_argument("--text", type=Path, default=None)
    options = run_options(parser)
    cut = transformers.AutoTokenizer.from_pretrained(options.host)
    ids = torch.tensor(cut(prose(options.text), add_special_tokens=False)["input_ids"])
    windows = min(options.places, len(ids)) // WINDOW
    texts, lines = ids[: windows * WINDOW].view(windows, WINDOW), list[dict[str, Any]]()
    began = time.perf_counter()

    def tell(where: dict[str, str], **said: Any) -> None:
        lines.append({**where, **said, "at": round(time.perf_counter() - began, 1)})
        print(json.dumps(lines[-1]), flush=True)
        if options.out is not None:
            options.out.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with tempfile.TemporaryDirectory() as scratch:
        for path in options.files:
            for dtype in options.dtype:
                host = Path(scratch) / dtype
                if not host.exists():
                    written_as(options.host, dtype, host)
                show(host, facts_in(path), path.stem, texts, options, tell)
    record(lines, options.device)


if __name__ == "__main__":
    run(main)
