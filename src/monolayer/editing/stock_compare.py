"""Where two stock folders differ: in `config.json`, tensors, neurons and, asked through transformers, in answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolayer.data import Sequences
from monolayer.data.distinct import distinct_rows
from monolayer.editing.differing import Answer, answer_rows, differing
from monolayer.errors import DataError
from monolayer.stock.architecture import Architecture, Task, choose
from monolayer.stock.architectures import ARCHITECTURES
from monolayer.stock.codes import Floats
from monolayer.stock.reading import read_folder, read_names
from monolayer.stock.tokenizer import DECODER, ENCODER
from monolayer.table import as_table

AT_ONCE = 1 << 24
"""Numbers that a batch may have in its widest layer."""


@dataclass(frozen=True)
class Neurons:
    """How many neurons each folder has, the one that never fires aside; how many only one of them has, and how many
    read the same in both and write something else."""

    one: int
    two: int
    only_one: int
    only_two: int
    changed: int


@dataclass(frozen=True)
class StockComparison:
    """`weights`: tensors that differ, with how many of their numbers do (None: another shape, or one lacks it).

    `config`: keys of `config.json` that differ, with both values. `names`: whether both have the same tokenizer and
    classes. `neurons`: None where architecture, task or width are not the same. `answers`: how many of `asked` differ;
    None without data.
    """

    weights: dict[str, int | None]
    config: dict[str, list[Any]]
    names: bool
    neurons: Neurons | None
    asked: int | None
    answers: int | None
    differing: list[Answer]

    @property
    def same(self) -> bool:
        """Whether the two are one model, bit for bit."""
        return not self.weights and not self.config and self.names

    __repr__ = as_table

    def rows(self) -> list[tuple[str, str]]:
        """What a table shows."""
        counts = [f"{name}: {'another shape' if n is None else f'{n:,} numbers'}" for name, n in self.weights.items()]
        rows = [("weights", "the same bits" if not counts else "; ".join(counts))]
        rows += [("config.json", f"{key}: {_short(one)} → {_short(two)}") for key, (one, two) in self.config.items()]
        if not self.names:
            rows.append(("names", "tokenizers or classes are not the same"))
        if (found := self.neurons) is not None:
            rows.append(("neurons", f"{found.one:,} in the first, {found.two:,} in the second"))
            only = f"{found.only_one:,} only in the first, {found.only_two:,} only in the second"
            rows.append(("", f"{only}, {found.changed:,} read the same and write something else"))
        return rows + answer_rows(self.asked, self.answers, self.differing)

    def to_json(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare_stock(one: Path, two: Path, X: Any = None, *, lengths: Any = None) -> StockComparison:
    """Where two stock folders differ. Answers to `X` are those of transformers: in float64, if robust in float32."""
    (first, ours), (second, theirs) = read_folder(one), read_folder(two)
    config = {
        key: [first.get(key), second.get(key)]
        for key in sorted(first.keys() | second.keys())
        if (key in first, first.get(key)) != (key in second, second.get(key))
    }
    names = "id2label" not in config and _tokenizer(one) == _tokenizer(two)
    neurons = _neurons(first, ours, theirs) if not config.keys() & _OTHER else None
    asked = answers = None
    listed: list[Answer] = []
    if X is not None:
        data = Sequences.of(X, lengths=lengths)
        tasks = [_task(each)[1] for each in (first, second)]
        if tasks[0] != tasks[1]:
            raise DataError(f"one folder answers per {tasks[0]}, the other per {tasks[1]}: not comparable")
        said = [_answers(folder, each, data) for folder, each in ((one, first), (two, second))]
        asked, answers, listed = differing(data, *said, per_token=tasks[0] != "sequence")
    return StockComparison(_weights(ours, theirs), config, names, neurons, asked, answers, listed)


_OTHER = {"model_type", "architectures", "hidden_size", "dim", "n_embd"}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _tokenizer(folder: Path) -> Any:
    path = folder / "tokenizer.json"
    return path.read_bytes() if path.is_file() else None


def _task(config: Mapping[str, Any]) -> tuple[Architecture, Task]:
    kind = choose(str(config.get("model_type")), ARCHITECTURES)
    for task, name in kind.models.items():
        if config.get("architectures") == [name]:
            return kind, task
    raise DataError(f"{config.get('architectures')} is not one of {', '.join(kind.models.values())}")


def _weights(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(ours.keys() ^ theirs.keys())
    for name in ours.keys() & theirs.keys():
        a, b = ours[name], theirs[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            found[name] = None
        elif count := int((~((a == b) | (a.isnan() & b.isnan()))).sum()):
            found[name] = count
    return dict(sorted(found.items()))


def _neurons(config: Mapping[str, Any], ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> Neurons | None:
    """Neurons found by their contents: what they read, with their bias, and what they write."""
    kind, _ = _task(config)
    reads, writes = list[Floats](), list[Floats]()
    for tensors in (ours, theirs):
        try:
            block = kind.neurons({name: part.double().numpy() for name, part in tensors.items()})
        except KeyError:
            return None
        if not len(block.W_1) == len(block.b_1) == len(block.W_2):
            return None
        read = np.concatenate([block.W_1, block.b_1[:, None]], axis=1)
        fires = read.any(axis=1) | block.W_2.any(axis=1)
        reads.append(read[fires])
        writes.append(block.W_2[fires])
    if reads[0].shape[1] != reads[1].shape[1] or writes[0].shape[1] != writes[1].shape[1]:
        return None
    sizes = len(reads[0]), len(reads[1])
    alike = _only([np.concatenate(pair, axis=1) for pair in zip(reads, writes, strict=True)])
    left = _only([read[rest] for read, rest in zip(reads, alike, strict=True)])
    changed = len(alike[0]) - len(left[0])
    return Neurons(*sizes, len(left[0]), len(left[1]), changed)


def _only(tables: list[Floats]) -> list[Any]:
    """Rows that only one of two tables has, each row as often as it has it more often than the other."""
    split = len(tables[0])
    if split == 0 or len(tables[1]) == 0:
        return [np.arange(len(table)) for table in tables]
    _, group = distinct_rows(np.concatenate(tables))
    groups = group[:split], group[split:]
    counts = [np.bincount(part, minlength=int(group.max()) + 1) for part in groups]
    both = np.minimum(*counts)
    found = []
    for part in groups:
        order = np.argsort(part, kind="stable")
        rank = np.empty(len(part), np.int64)  # of a row among those equal to it
        rank[order] = np.arange(len(part)) - np.searchsorted(part[order], part[order])
        found.append(np.flatnonzero(rank >= both[part]))
    return found


def _answers(folder: Path, config: Mapping[str, Any], data: Sequences) -> Any:
    """What transformers answer `(T,)` or `(N,)`; None where a sequence has tokens or places that the folder lacks."""
    if data.vocabulary is None:
        raise DataError("the tokens are vectors: a stock architecture takes ids or strings")
    kind, task = _task(config)
    special = DECODER if kind.causal else ENCODER
    names = read_names(folder)
    number = {name: row for row, name in enumerate(names) if row >= len(special)}
    ids = np.array([number.get(str(name), -1) for name in data.vocabulary.names])[data.tokens]
    places = config["n_positions"] if "n_positions" in config else config["max_position_embeddings"]
    room = places - 1 - kind.offset + kind.hidden_rows
    known = data.lengths <= room
    known[data.sequence[ids < 0]] = False
    table = config.get("id2label") or {}
    classes = np.array(names if task == "lm" else [table[str(row)] for row in range(len(table))], dtype=object)
    found = np.full(len(data) if task == "sequence" else len(data.tokens), None, dtype=object)
    rows = np.flatnonzero(known)
    if len(rows) == 0:
        return found
    model = _load(folder, config)
    rows = rows[np.argsort(-data.lengths[rows], kind="stable")]  # the first of a batch is its longest
    widest = max(len(classes), max(tensor.shape[0] for tensor in model.state_dict().values() if tensor.ndim == 1))
    begin = list(special).index("bos" if kind.causal else "cls")
    while len(rows):
        most = max(1, AT_ONCE // (widest * (int(data.lengths[rows[0]]) + 1)))
        batch, rows = rows[:most], rows[most:]
        longest = int(data.lengths[batch[0]])
        there = np.arange(longest) < data.lengths[batch][:, None]
        padded = np.zeros((len(batch), longest + 1), np.int64)
        padded[:, 0] = begin
        flat = data.flat(batch)
        padded[:, 1:][there] = ids[flat]
        mask = torch.from_numpy(np.append(np.ones((len(batch), 1), bool), there, axis=1).astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=torch.from_numpy(padded), attention_mask=mask).logits
        answer = classes[logits.argmax(dim=-1).numpy()]
        if task == "sequence":
            found[batch] = answer
        else:
            found[flat] = answer[:, 1:][there]
    return found


def _load(folder: Path, config: Mapping[str, Any]) -> Any:
    try:
        import transformers
    except ImportError:
        raise DataError(
            "answers of stock folders are those of the package transformers: pip install transformers, or "
            "compare without data"
        ) from None
    bars: Any = transformers.utils.logging
    bars.disable_progress_bar()  # the command has a bar of its own
    kind = getattr(transformers, str(config["architectures"][0]))
    dtype = torch.float64 if config.get("dtype") == "float64" else torch.float32
    loaded = kind.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True)
    return loaded.eval()
