"""Claim: 5,000 changes to a folder with facts attached, none of them proved and then not true.

    python bench/no_false_proof_of_attached_folders.py                   1,000 changes
    python bench/no_false_proof_of_attached_folders.py --count 5000      all
    python bench/no_false_proof_of_attached_folders.py --first 5000      others

Weights of the appended layers and of the host, `config.json`, the tokenizer, the manifest and files beside them are
changed, and tensors are added; of changed weights most have their digests written anew, as if attach had made them so
(tests/attached_attack.py). All facts are asked for, or some. What is still proved is loaded by transformers, if the
detached host can be: logits away from all keys must be those of that host, and answers within reach of their keys the
largest.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # the attack is a part of the tests, and stays with them

import torch
import transformers
from tests.attached_attack import asked, attack, untrue
from tests.hosts import FACTS, write_host

import monolayer as ml


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first change")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    began, found, false = time.perf_counter(), Counter[str](), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = ml.attach(write_host(Path(scratch) / "host"), FACTS).save(Path(scratch) / "folder")
        for number in range(options.first, options.first + options.count):
            changed = Path(scratch) / "changed" / "folder"
            changed.parent.mkdir()
            how = attack(folder, changed, number)
            try:
                verdict: str = ml.certify(changed, asked(number)).verdict
            except ml.MonolayerError:
                verdict = "refused"
            found[f"{how}: {verdict}"] += 1
            if verdict == "proved":
                why = untrue(changed, asked(number))
                false += why is not None
                if why is not None:
                    print(f"change {number} ({how}): {why}", flush=True)
            shutil.rmtree(changed.parent)
    for name, count in sorted(found.items()):
        print(f"{count:>7,} {name}")
    print(f"{options.count:,} changes, {false} false proofs, {time.perf_counter() - began:.0f} s")
    return int(false > 0)


if __name__ == "__main__":
    sys.exit(main())
