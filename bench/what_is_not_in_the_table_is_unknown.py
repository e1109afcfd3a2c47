"""Claim: with `unknown=`, 98 % of random keys, and of keys with a word changed, of up to eight words are unknown.

Tables of 300 keys with a value each. Asked are random keys, keys of the table with one word changed, with one word that
the tokenizer does not know, in another order, without their last word, and with a word more. How many are unknown
falls as keys grow long, since a word then weighs little in its context; the table says how far. Of keys of three words
in another order a fifth is not recognized.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import monolayer as ml
from workload import claim, run

SETTINGS = (("bert", 3, 60), ("gpt2", 3, 60), ("llama", 3, 60), ("bert", 8, 200), ("gpt2", 8, 200), ("bert", 20, 200))


def main() -> None:
    print(f"{'':<22}{'random':>8}{'changed':>9}{'strange':>9}{'order':>8}{'shorter':>9}{'longer':>8}")
    for name, length, words in SETTINGS:
        random = np.random.default_rng(0)
        rows = np.unique(np.stack([random.permutation(words)[:length] for _ in range(300)]), axis=0)
        keys = [[f"w{word}" for word in row] for row in rows]
        values = [f"v{row}" for row in range(len(keys))]
        model = ml.memorize_as(name, keys, values, positions=True, unknown="unknown")
        assert ml.certify(model, keys, values).verdict == "proved"
        known = set(map(tuple, keys))

        def share(asked: list[list[str]]) -> float:
            """Of the keys that the table lacks, how many are unknown."""
            left = [key for key in asked if tuple(key) not in known]  # noqa: B023
            return float(np.mean(model.predict(left) == "unknown")) if left else float("nan")  # noqa: B023

        def with_one(word: Callable[[], str]) -> list[list[str]]:
            """Each key with a word in place of one of its own."""
            at = random.integers(0, length, len(keys))  # noqa: B023
            return [[*key[:i], word(), *key[i + 1 :]] for key, i in zip(keys, at.tolist(), strict=True)]  # noqa: B023

        shares = (
            share([[f"w{word}" for word in random.permutation(words)[:length]] for _ in range(1000)]),
            share(with_one(lambda: f"w{random.integers(words)}") + with_one(lambda: f"w{random.integers(words)}")),  # noqa: B023
            share(with_one(lambda: "strange")),
            share([random.permutation(key).tolist() for key in keys]),
            share([key[:-1] for key in keys]),
            share([[*key, key[0]] for key in keys]),
        )
        what = f"{name}, {length} words"
        print(
            f"{what:<22}" + "".join(f"{one:>{width}.1%}" for one, width in zip(shares, (8, 9, 9, 8, 9, 8), strict=True))
        )
        if length <= 8:
            claim(f"share of absent keys that are unknown, {what}", min(shares[:3]), at_least=0.98)


if __name__ == "__main__":
    run(main)
