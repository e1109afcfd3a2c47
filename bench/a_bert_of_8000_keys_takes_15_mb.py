"""Claim: a BERT that holds a table is as wide as its keys need: 7,923 codes in 15 MB, 2,000 keys in 5 MB, proved.

The codes are those of ISO 639-3 with the names of the languages (package pycountry), or, where that is not installed,
as many codes of three letters with made-up names of nearly the same length. Sizes are those of whole folders. Beside
them stand the verdict, the narrowest half-space, and the share of right answers with noise on every weight: `w` becomes
`w (1 + σ ξ)`, one draw, arithmetic in float64. The last line of each table is the folder with a class for every key
that is not in the table, as `memorize_as` builds it by default.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import numpy as np

import monolayer as ml
from monolayer.huggingface.architecture import BEGIN
from monolayer.stock.answers import Evaluation
from monolayer.stock.folder import StockModel
from monolayer.stock.robust import CellDtype
from workload import claim, run, seconds

CODES = 7_923
NOISE = (0.03, 0.1, 0.2, 0.3)
ASKED = 1000
"""Keys that are asked with noise, at most."""


def language_codes() -> dict[str, str]:
    """Codes of languages with their names, or made-up ones."""
    if importlib.util.find_spec("pycountry") is None:
        print("pycountry is not installed: the names of languages are made up")
        codes = map("".join, product(ascii_lowercase, repeat=3))
        return {code: f"Language {row:,}" for row, code in enumerate(islice(codes, CODES))}
    import pycountry

    return {language.alpha_3: language.name for language in pycountry.languages}


def random_keys(count: int, words: int, names: int) -> dict[str, str]:
    """Keys of some of so many words, each with a value of its own; no two keys have the same words."""
    random, found = np.random.default_rng(0), dict[str, str]()
    while len(found) < count:
        key = " ".join(f"w{word}" for word in np.sort(random.permutation(names)[:words]))
        found[key] = f"value {len(found)}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave the codes of languages out, which take minutes")
    options = parser.parse_args()
    tables = {
        "2,000 keys": ({f"key{row}": f"value {row}" for row in range(2000)}, 5.0),
        "2,000 keys of three words": (random_keys(2000, 3, 1000), 5.0),
    }
    if not options.quick:
        tables = {f"{CODES:,} codes": (language_codes(), 15.0), **tables}
    print(f"{'':<38}{'width':>6}{'neurons':>8}{'MB':>7}{'build':>8}  verdict   half-width  right at noise {NOISE}")
    for name, (table, most) in tables.items():
        sizes = {dtype: report(f"{name}, {dtype}", table, dtype, False) for dtype in ("float32", "bfloat16")}
        claim(f"a BERT of {name}, float32", sizes["float32"], at_most=most, unit=" MB")
        size = report(f"{name}, float32, class unknown", table, "float32", True)
        claim(f"a BERT of {name}, float32, with a class for other keys", size, at_most=most, unit=" MB")


def report(name: str, table: dict[str, str], dtype: CellDtype, unknown: bool) -> float:
    """A line of the table; the megabytes of the folder. `unknown`: whether it has a class for other keys."""
    took, built = seconds(lambda: ml.memorize_as("bert", table, dtype=dtype, unknown=unknown), 1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = built.save(Path(scratch) / "folder")
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
        verdict = ml.certify(folder, table).verdict
    assert built.summary is not None
    assert built.summary.gap is not None
    shares = ", ".join(f"{right(built, list(table), noise):.1%}" for noise in NOISE)
    print(
        f"{name:<38}{built.facts.width:>6}{built.facts.neurons:>8,}{size:>7.2f}{took:>6.1f} s  {verdict:<10}"
        f"{built.summary.gap:>10.3g}  {shares}",
        flush=True,
    )
    assert verdict == "proved", f"{name}: {verdict}"
    return size


def right(model: StockModel, keys: list[str], noise: float) -> float:
    """The share of keys that keep their answer when every weight is changed by `noise` of itself, at random."""
    random = np.random.default_rng(1)
    changed = {name: array * (1.0 + noise * random.normal(size=array.shape)) for name, array in model.arrays.items()}
    data = model.encode(keys[:: -(-len(keys) // ASKED)])
    ids = data.tokens + len(model.facts.architecture.special)
    kept = 0
    for length in np.unique(data.lengths):
        rows = np.flatnonzero(data.lengths == length)
        given = np.insert(ids[data.offsets[rows][:, None] + np.arange(length)], 0, BEGIN, axis=1)
        before, after = (Evaluation(model.facts, arrays) for arrays in (model.arrays, changed))
        answers = [network.logits(given, network.asked)[:, 0].argmax(dim=1) for network in (before, after)]
        kept += int((answers[0] == answers[1]).sum())
    return kept / len(data)


if __name__ == "__main__":
    run(main)
