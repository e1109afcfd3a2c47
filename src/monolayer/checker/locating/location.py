"""What `locate` returns: for each fact, the neurons and rows that hold it, and the answers without each neuron."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from monolayer.arrays import Array, Bools, Ints
from monolayer.checker.locating.circuit import Wires, circuit
from monolayer.checker.locating.writers import CERTAINTIES, NOT_KNOWN, PROVED, Certainty, Writers
from monolayer.errors import DataError
from monolayer.table import TABLE_WIDTH, escape, grid_lines, html_table, plural, shortened

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 20
"""How many facts the table in the `repr` shows."""
TOKENS_SHOWN_BEFORE = 16
"""For a token of an answer, how many of the tokens in front of it are shown as its text."""


@dataclass(frozen=True, order=True)
class Slice:
    """Slice `index` along `axis` of the tensor named `tensor`; without an index, the whole tensor.

    A hidden neuron is a slice of the matrix that it writes with. Setting that slice to 0 is the same ablation as
    setting the output of the neuron to 0 in a forward pass.
    """

    tensor: str
    index: int | None = None
    axis: int = 0

    def __str__(self) -> str:
        return self.tensor if self.index is None else f"{self.tensor}[{':, ' * self.axis}{self.index}]"


class KeyBall(NamedTuple):
    """Where a token of an attached fact lives, and for which states of the host it answers.

    `layer`: the number of the layer in the model. `block`: its number among the appended blocks. `neuron`: the number
    of the neuron in the block. `radius`: ρ. The token is the answer where 1 − ⟨key, state⟩ is at most `within`. The
    neuron returns 0 where 1 − cos(key, state) is at least `silent`.
    """

    layer: int
    block: int
    neuron: int
    radius: float
    within: float
    silent: float


class Others(NamedTuple):
    """How the answers to all other facts change when a neuron is removed.

    `changed`: how many change their answer. `verdict`: how the least certain of their answers is known.
    """

    changed: int
    verdict: Certainty


class Ablation(NamedTuple):
    """How the answer to a fact changes when one of its neurons is removed.

    `answer`: the answer without the neuron, or None if unknown. `changes`: whether it differs from the answer with the
    neuron, or None if unknown. `verdict`: how the answer is known. `others`: what happens to all other facts.
    """

    neuron: Slice
    answer: object
    changes: bool | None
    verdict: Certainty
    others: Others


class Ablated(NamedTuple):
    """What happens to all facts without one neuron: the answers, which of them change `(M,)`, and how each is known."""

    answers: list[object]
    changed: Bools
    verdicts: list[Certainty]


class Fact(NamedTuple):
    """A labelled point: a token, or a whole sequence, for which `position` is None.

    `text`: the token or the tokens as text; for a token of an answer, the text in front of it; None for vectors.
    `label`: None if the data have no labels.
    """

    sequence: int
    position: int | None
    text: str | None
    label: object


@dataclass(frozen=True, eq=False)
class Place:
    """Where one fact lives.

    `label`: the label in the data, or the answer if the data have no labels. `answer`: the answer of the model.
    `verdict`: how the answer is known. `rows`: the embeddings of the answering token and of its position, and biases;
    for an attached fact, the row and biases that its neuron reads with. `ablations`: for each of the `neurons` that
    hold the fact, what the model answers without it. `ball`: for an attached fact, the states at which it answers.
    """

    sequence: int
    position: int | None
    text: str | None
    label: object
    answer: object
    verdict: Certainty
    rows: tuple[Slice, ...]
    ablations: tuple[Ablation, ...]
    ball: KeyBall | None = None

    @property
    def neurons(self) -> tuple[Slice, ...]:
        """The neurons that hold the fact."""
        return tuple(each.neuron for each in self.ablations)

    def to_json(self) -> dict[str, object]:
        """The fact as a JSON object; slices are given by tensor, index and axis."""
        place = {name: _as_json(getattr(self, name)) for name in ("sequence", "position", "text", "label", "answer")}
        neurons = [
            {
                **asdict(each.neuron),
                "without": {"answer": _as_json(each.answer), "changes": each.changes, "verdict": each.verdict},
                "others": each.others._asdict(),
            }
            for each in self.ablations
        ]
        place |= {"verdict": self.verdict, "rows": [asdict(row) for row in self.rows], "neurons": neurons}
        return place if self.ball is None else {**place, "ball": self.ball._asdict()}


@dataclass(frozen=True, eq=False)
class Location:
    """Where every fact lives, in the order of the data: `location[i]` is a `Place`.

    `arithmetic` and `assumptions`: what *proved* refers to. What is *measured* comes from one evaluation in float64.
    """

    facts: list[Fact]
    writers: Writers
    matrices: tuple[Slice, ...]
    """The matrices that the neurons write with: each neuron is a slice of one of them along its axis, in this order."""
    rows: Callable[[int], tuple[Slice, ...]]
    """Returns the rows that hold the fact with a given number."""
    wires: Callable[[Ints], Wires] | None
    """Returns which parts read and write which coordinates of the stream, counting only neurons with the given numbers.

    It is None if facts have no circuit of their own.
    """
    names: Callable[[Array], list[object]]
    """Turns class numbers `(K,)`, or rows of real numbers `(K, m)`, into a list of `K` labels as users write them."""
    arithmetic: str
    assumptions: tuple[str, ...]
    balls: Callable[[int], KeyBall] | None = None
    """Returns the `KeyBall` of the attached fact with a given number; None if facts were not attached."""

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Place]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Place:
        i = self._fact(i)
        numbers = self.writers.neuron[slice(*np.searchsorted(self.writers.fact, [i, i + 1]))]
        answer, (sequence, position, text, label) = self._answers[i], self.facts[i]
        verdict, label = CERTAINTIES[self.writers.state[i]], answer if label is None else label
        ablations = tuple(self._ablation(int(number), i) for number in numbers)
        ball = None if self.balls is None else self.balls(i)
        return Place(sequence, position, text, label, answer, verdict, self.rows(i), ablations, ball)

    def _fact(self, i: int) -> int:
        """The number of a fact, 0 or more; a negative `i` counts from the end."""
        if not isinstance(i, int | np.integer):
            raise TypeError(f"a fact is asked for by its number, from 0 to {len(self) - 1}, not by {i!r}")
        if not -len(self) <= i < len(self):
            raise IndexError(f"there is no fact {i}: they are numbered from 0 to {len(self) - 1}")
        return int(i) % len(self)

    def _ablation(self, number: int, i: int) -> Ablation:
        """Fact `i` without neuron `number`, which holds it."""
        answer, state, changed = self.writers.ablated(number)
        least = np.delete(state, i).min(initial=PROVED)
        others = Others(int(changed.sum() - changed[i]), CERTAINTIES[least])
        changes = bool(changed[i]) if state[i] > NOT_KNOWN else None
        (named,) = self._named(answer[i : i + 1], state[i : i + 1])
        return Ablation(self._neuron(number), named, changes, CERTAINTIES[state[i]], others)

    @property
    def _each(self) -> int:
        """How many neurons each matrix has."""
        return len(self.writers.start) // len(self.matrices) if self.matrices else 0

    def _neuron(self, number: int) -> Slice:
        """The slice of neuron `number`, which counts through all matrices."""
        return replace(self.matrices[number // self._each], index=number % self._each)

    def ablate(self, neuron: Slice) -> Ablated:
        """What happens to all facts without `neuron`, which is one of those that some fact lists."""
        if not isinstance(neuron, Slice):
            raise DataError(f"a neuron is one of those that a fact lists (location[i].neurons), not {neuron!r}")
        index = neuron.index
        names = [matrix.tensor for matrix in self.matrices]
        if neuron.tensor not in names or index is None or not 0 <= index < self._each:
            raise DataError(f"this model has no neuron {index} in {neuron.tensor}")
        answer, state, changed = self.writers.ablated(names.index(neuron.tensor) * self._each + index)
        return Ablated(self._named(answer, state), changed, [CERTAINTIES[one] for one in state.tolist()])

    def graph(self, i: int | None = None) -> dict[str, object]:
        """The circuit of fact `i`, or of all facts, with all neurons that write there (docs/locate.md)."""
        if self.wires is None:
            raise DataError(
                "attached facts have no circuit of their own: whatever the host computes leads to their neurons"
            )
        writers, which = self.writers, np.arange(len(self)) if i is None else np.array([self._fact(i)])
        there = np.append(0, np.cumsum(np.isin(writers.order, which)))
        numbers = np.flatnonzero(there[writers.stop] > there[writers.start])
        return circuit(self.wires(numbers), [asdict(self._neuron(one)) for one in numbers.tolist()])

    def to_json(self) -> dict[str, object]:
        """All facts, the circuit of all of them, and what *proved* refers to, as a JSON object."""
        about = {"arithmetic": self.arithmetic, "assumptions": list(self.assumptions)}
        graph = None if self.wires is None else self.graph()
        return {**about, "facts": [place.to_json() for place in self], "graph": graph}

    def table(self, first: int = SHOWN) -> Table:
        """A table for the terminal with a line per fact and neuron, of the first `first` facts."""
        from rich.table import Table

        grid = Table(title=self.heading, title_justify="left", box=None, padding=(0, 1), pad_edge=False)
        for name in self.columns:
            grid.add_column(name, overflow="fold")
        for row in self.lines(first):
            grid.add_row(*map(escape, row))
        return grid

    columns = ("fact", "text", "label", "answer", "held by", "without it", "others changed")

    @property
    def heading(self) -> str:
        """The heading of the table."""
        return f"where each of {plural(len(self), 'fact')} lives; proved is about {self.arithmetic}"

    @property
    def note(self) -> str:
        """A note that says how many of the facts the table shows, if it does not show all."""
        return f"{SHOWN} of {len(self):,} facts" if len(self) > SHOWN else ""

    def lines(self, first: int = SHOWN) -> list[list[str]]:
        """A line of the table per fact and neuron, of the first `first` facts."""
        lines = []
        for place in (self[i] for i in range(min(first, len(self)))):
            where = str(place.sequence) if place.position is None else f"{place.sequence}:{place.position}"
            head = [where, shortened(place.text or ""), _word(place.label), f"{_word(place.answer)} ({place.verdict})"]
            for line in _table_lines(place, len(self) - 1):
                lines.append([*head, *line])
                head = [""] * 4
        return lines

    def _repr_html_(self) -> str:
        """The table of the first facts as HTML, for notebooks."""
        return html_table(self.heading, self.columns, self.lines(), self.note)

    def __repr__(self) -> str:
        """The table of the first facts, as the command shows it."""
        lines = [line.plain for line in grid_lines(self.table(), 2 * TABLE_WIDTH)]
        return "\n".join([*lines, *filter(None, [self.note])])

    def _named(self, answer: Array, state: Ints) -> list[object]:
        """Answers as users write them, with None for answers that are not known."""
        pairs = zip(self.names(answer), state.tolist(), strict=True)
        return [None if known == NOT_KNOWN else name for name, known in pairs]

    @cached_property
    def _answers(self) -> list[object]:
        """The answers at all facts, as users write them."""
        return self._named(self.writers.answer, self.writers.state)


class TableLine(NamedTuple):
    """Three cells of the table: what holds a fact, the answer without it, and how many other facts change."""

    holds: str
    without: str
    others: str


def _table_lines(place: Place, others: int) -> list[TableLine]:
    """A line per neuron that holds the fact, or one line for its rows if none does; `others`: number of other facts."""
    if not place.ablations:
        return [TableLine(" + ".join(map(str, place.rows)), "", "")]
    return [
        TableLine(
            str(each.neuron),
            f"{_word(each.answer) if each.changes is not False else 'the same'} ({each.verdict})",
            f"{each.others.changed:,} of {others:,} ({each.others.verdict})",
        )
        for each in place.ablations
    ]


def _word(value: object) -> str:
    """A name as text; quoted if it is empty or begins or ends with white space."""
    text = "?" if value is None else str(value)
    return text if text.strip() == text != "" else repr(value)


def _as_json(value: object) -> Any:
    """Convert a NumPy value to a Python value; return other values unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value
