"""The result of `compare`, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from monolayer.editing.subject import Answered
from monolayer.table import as_html, as_table, plural


@dataclass(frozen=True)
class Answer:
    """A labelled place where answers differ; `position` is None for a label of a whole sequence.

    An answer is None where the model does not know a token of the sequence.
    """

    sequence: int
    position: int | None
    one: Answered
    two: Answered

    def __str__(self) -> str:
        place = f"sequence {self.sequence}"
        place = place if self.position is None else f"token {self.position} of {place}"
        return f"{place}: {self.one!r} → {self.two!r}"


@dataclass(frozen=True)
class Comparison:
    """Where two models differ.

    `weights`: tensors that differ, with how many of their numbers do; None where the shapes differ or one model lacks
    the tensor. `config`: keys of the configuration that differ, with both values. `names`: whether both have the same
    tokens and classes. `only_one`, `only_two`: how many neurons only one of the models has. `asked`: how many answers
    were compared, and `answers`: how many of them differ; both None without data. `differing`: the first that differ.
    """

    weights: dict[str, int | None]
    config: dict[str, list[object]]
    names: bool
    only_one: int
    only_two: int
    asked: int | None
    answers: int | None
    differing: list[Answer]

    @property
    def same(self) -> bool:
        """Whether the two are one model, bit for bit."""
        return not self.weights and not self.config and self.names

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """Rows for the table that commands print."""
        counts = [
            f"{name}: {'another shape' if n is None else plural(n, 'number')}" for name, n in self.weights.items()
        ]
        rows = [("weights", "the same bits" if not counts else "; ".join(counts))]
        rows += [("configuration", f"{key}: {_short(one)} → {_short(two)}") for key, (one, two) in self.config.items()]
        if not self.names:
            rows.append(("names", "tokens or classes are not the same"))
        rows.append(("neurons", f"{self.only_one:,} only in the first, {self.only_two:,} only in the second"))
        return rows + self.answer_rows()

    def answer_rows(self) -> list[tuple[str, str]]:
        """Of these rows, those about answers."""
        if self.asked is None:
            return []
        rows = [("answers", f"{self.answers:,} of {self.asked:,} differ")]
        return rows + [("differs", str(answer)) for answer in self.differing[:10]]

    def to_json(self) -> dict[str, object]:
        """Everything that differs, for JSON."""
        return {"same": self.same, **asdict(self)}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
