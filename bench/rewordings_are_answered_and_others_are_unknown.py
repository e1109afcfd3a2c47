"""Claim: stored questions are answered, 97 % of their rewordings too, and all other questions are unknown.

    python bench/rewordings_are_answered_and_others_are_unknown.py ENCODER FILE
    python bench/rewordings_are_answered_and_others_are_unknown.py ENCODER FILE --columns prompt,target_new,…

ENCODER is the folder of a sentence encoder; FILE and its columns are those of `monolayer_experiments.questions`, which
measures: with the default floor and others, and beside the nearest stored question and logistic regression. The claim
is about questions that differ in more than one name, such as those of zsRE with all-MiniLM-L6-v2. CounterFact's prompts
and the intents of CLINC150 speak against it (docs/understand.md). --record keeps shares, and no text.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from monolayer_experiments.questions import COLUMNS, EXAMPLES, measure, read
from workload import NotRunError, claim, record, recordable, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path, nargs="?")
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="texts of each intent that are stored")
    recordable(parser)
    options = parser.parse_args()
    if options.file is None:
        raise NotRunError("it needs the folder of a sentence encoder, and a file of questions")
    rows = read(options.file, tuple(options.columns.split(",")), options.rows, options.examples)
    found = measure(options.encoder, rows)
    print(json.dumps(found, indent=1))
    record([found], part=f"_{options.file.stem}")
    claim("stored questions that are answered", found["stored"], at_least=1.0)
    claim("rewordings never seen that are answered rightly", found["rewordings"], at_least=0.97)
    claim("other questions that are unknown", found["others unknown"], at_least=1.0)


if __name__ == "__main__":
    run(main)
