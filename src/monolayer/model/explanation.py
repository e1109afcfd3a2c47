"""Why a model answers as it does, in numbers: what every token contributes, and where on its step every answer lies.

Notation: `T` tokens, `P` answering places (tokens, or sequences); key `s`, code `t`, context `c = Σ p_l s_l` with the
attention weights `p`, `z = t + κ c`; run `r` lies between the ramps `r − 1` and `r` of the staircase. A cascade has a
staircase a stage, and what one cannot tell apart is a *crowd*: `z` of the next is its number plus `κ'` times the mean
of another value.

    left label ──┐                    ┌── right label
                 └──────────●─────────┘
              below         z       above        margin = min(z − below, above − z)
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from monolayer.arrays import Floats, Ints
from monolayer.data import Sequences
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.table import visible

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class Stage:
    """Where every answering place `(P,)` lies on one staircase.

    `code` is what `z = code + κ context` begins with: `t`, or the number of a crowd. `step` counts runs from 0; `left`
    and `right` are the labels of the neighbouring runs (of a cascade, `{"crowd": number}` where a crowd is), None at
    the ends of the line; `on_ramp` marks places between two runs. `crowd` marks places that this stage decides.
    """

    kappa: float
    code: Floats
    context: Floats
    z: Floats
    step: Ints
    below: Floats
    above: Floats
    on_ramp: NDArray[np.bool_]
    left: list[Any]
    right: list[Any]
    crowd: NDArray[np.bool_]

    @property
    def room(self) -> Floats:
        """How far `z` is from the nearer edge of its step `(P,)`; 0 on a ramp."""
        return np.where(self.on_ramp, 0.0, np.minimum(self.z - self.below, self.above - self.z))

    def place(self, at: int) -> dict[str, Any]:
        """Where point `at` lies."""
        return {
            "context": float(self.context[at]),
            "z": float(self.z[at]),
            "step": int(self.step[at]),
            "on_ramp": bool(self.on_ramp[at]),
            "neighbours": [self.left[at], self.right[at]],
            "edges": [_finite(self.below[at]), _finite(self.above[at])],
        }


@dataclass(frozen=True, eq=False)
class Explanation(Stage):
    """The numbers behind answers, and the first stage. Arrays are flat over tokens `(T,)` or answering places `(P,)`.

    `weight` `(T,)` is the share of a token's key in the context of its sequence (of a causal model: in the context at
    the token itself), `begin` `(P,)` that of the begin token. `further`: the other stages of a cascade.
    """

    data: Sequences
    card: Card
    temperature: float
    key: Floats
    weight: Floats
    begin: Floats
    label: list[Any]
    further: tuple[Stage, ...]

    @cached_property
    def margin(self) -> Floats:
        """How far `z` may move before the answer changes, the least of all stages that matter `(P,)`; 0 on a ramp."""
        least = self.room
        for stage in self.further:
            least = np.where(stage.crowd, np.minimum(least, stage.room), least)
        return least

    def __repr__(self) -> str:
        """The table, as the command shows it."""
        from rich.console import Console

        with (console := Console(width=200)).capture() as shown:
            console.print(self.table())
        return "\n".join(line.rstrip() for line in shown.get().splitlines())

    def json(self) -> list[dict[str, Any]]:
        """One object per sequence, with its tokens; what JSON cannot hold, an end of the line, is None."""
        names = self.data.tokens if self.data.vocabulary is None else self.data.vocabulary.decode(self.data.tokens)
        cuts, found = self.data.offsets.tolist(), []
        for row in range(len(self.data)):
            tokens = [
                {"token": names[at].tolist() if hasattr(names[at], "tolist") else names[at], **self._token(at)}
                for at in range(cuts[row], cuts[row + 1])
            ]
            if self.card.per == "sequence":
                found.append({"sequence": row, "tokens": tokens, **self._answer(row)})
            else:
                answers = (self._answer(at) for at in range(cuts[row], cuts[row + 1]))
                found.append({"sequence": row, "tokens": [{**a, **b} for a, b in zip(tokens, answers, strict=True)]})
        return found

    def _token(self, at: int) -> dict[str, Any]:
        return {"key": float(self.key[at]), "weight": float(self.weight[at])}

    def _answer(self, at: int) -> dict[str, Any]:
        said = {"begin": float(self.begin[at]), "code": float(self.code[at]), **self.place(at)}
        said |= {"label": self.label[at], "margin": _finite(self.margin[at])}
        if self.further:
            said["stages"] = [
                {"crowd": round(float(stage.code[at])), **stage.place(at), "margin": _finite(stage.room[at])}
                for stage in self.further
                if stage.crowd[at]
            ]
        return said

    def table(self) -> Table:
        """A table for the terminal: a line per token, and one per sequence where a sequence has one answer."""
        from rich.table import Table

        per_sequence = self.card.per == "sequence"
        kappas = [self.kappa, *(stage.kappa for stage in self.further)]
        title = f"λ = {self.temperature:.6g}, κ = {', '.join(f'{kappa:.6g}' for kappa in kappas)}"
        title += f"; a cascade of {len(kappas)} stages" if self.further else ""
        grid = Table(title=title, title_justify="left", box=None, padding=(0, 1), pad_edge=False)
        for name in ("row", "token", "key", "weight", "context", "z", "step", "label", "beside", "margin"):
            side: Any = "left" if name in ("token", "label", "beside") else "right"
            grid.add_column(name, justify=side, overflow="fold", no_wrap=side == "right")
        for one in self.json():
            lines = one["tokens"] if not per_sequence else [{"shown": BEGIN, "weight": one["begin"], **one}]
            for line in [*lines, *(one["tokens"] if per_sequence else [])]:
                for part in _lines(line):
                    grid.add_row(*_cells(one["sequence"], part))
        return grid

    def figure(self, sequence: int = 0) -> Any:
        """A Plotly figure of one sequence: attention weights, and where in its step every `z` lies."""
        try:
            from plotly.graph_objects import Figure
        except ImportError:
            raise DataError("the picture needs plotly: pip install plotly") from None
        if not 0 <= sequence < len(self.data):
            raise DataError(f"there is no sequence {sequence}: they are numbered from 0 to {len(self.data) - 1}")
        return Figure(_drawn(self.json()[sequence], self.card.per == "sequence"))


def _lines(line: dict[str, Any]) -> list[dict[str, Any]]:
    """A line per stage: all but the last end in a crowd, which the next begins with."""
    stages = line.get("stages", [])
    if not stages:
        return [line]
    ends = [*({"crowd": stage["crowd"]} for stage in stages), line["label"]]
    parts = [line, *({"shown": f"└ crowd {stage['crowd']}", **stage} for stage in stages)]
    return [{**part, "label": end} for part, end in zip(parts, ends, strict=True)]


def _cells(sequence: int, line: dict[str, Any]) -> list[str]:
    """A line of the table; a token without an answer of its own has only key and weight."""
    from rich.markup import escape

    def number(name: str, form: str = ".6g") -> str:
        return format(line[name], form) if line.get(name) is not None else ""

    left, right = line.get("neighbours", (None, None))
    around = f"{_word(left)} │ {_word(right)}" if "neighbours" in line else ""
    step = "ramp" if line.get("on_ramp") else number("step", "d")
    margin = number("margin", ".3g") or ("∞" if "margin" in line else "")
    words = [line.get("shown") or _word(line["token"]), _word(line["label"]) if "label" in line else "", around]
    token, label, around = map(escape, words)
    key, weight, context = number("key", ".4f"), number("weight", ".4f"), number("context", ".4f")
    return [str(sequence), token, key, weight, context, number("z", ".7g"), step, label, around, margin]


BEGIN, END, EMPTY = "⟨begin⟩", "⟨end⟩", "⟨empty⟩"
"""The begin token, the end of the line where a step has no neighbour, and a name without letters."""


def _word(value: Any) -> str:
    """A token or a label in few characters; None is the neighbour that an outermost step does not have."""
    if value is None:
        return END
    if isinstance(value, dict):
        return f"crowd {value['crowd']}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "(" + ", ".join(map(_word, value)) + ")" if isinstance(value, list) else _letters(str(value))


def _letters(text: str) -> str:
    """A name that can be seen: a space is ␣, other blanks and what a terminal would obey are their codes."""
    if text in (BEGIN, END):
        return repr(text)  # a name, and not the thing itself
    signs = ("␣" if sign == " " else ascii(sign)[1:-1] if sign.isspace() else sign for sign in visible(text))
    return "".join(signs) or EMPTY


def _marked(value: Any) -> str:
    """The same where Plotly would read < and & as markup."""
    return html.escape(_word(value), quote=False)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _drawn(one: dict[str, Any], per_sequence: bool) -> dict[str, Any]:
    """The figure as Plotly's JSON: a row per token; its weight on the left; on the right its step, and `z` on it.

    Steps are stretched to one length, from 0 to 1: their real ones may differ by many powers of ten.
    """
    tokens = one["tokens"]
    rows = [BEGIN, *(f"{_marked(token['token'])} {place}" for place, token in enumerate(tokens, 1))]
    # Of a cascade the stage that decides is drawn.
    answers = [(row, _lines(each)[-1]) for row, each in ([(0, one)] if per_sequence else enumerate(tokens, 1))]
    begin = one["begin"] if per_sequence else tokens[-1]["begin"]
    ends: list[tuple[Any, ...]] = []
    for row, answer in answers:
        (low, high), (left, right) = answer["edges"], answer["neighbours"]
        # An outermost step has no end on one side: its point is drawn in the middle.
        at = 0.5 if low is None or high is None else (answer["z"] - low) / (high - low)
        ends += [(0.0, row, left, "middle left"), (1.0, row, right, "middle right")]
        ends.append((at, row - 0.14, answer["label"], "top center"))
    margins = ["∞" if answer["margin"] is None else f"{answer['margin']:.6g}" for _, answer in answers]
    hover = [f"z = {answer['z']!r}<br>margin = {m}" for (_, answer), m in zip(answers, margins, strict=True)]
    across = {"xaxis": "x2", "yaxis": "y"}
    steps: dict[str, Any] = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", **across}
    steps |= {"x": [0.0, 1.0, None] * len(answers), "y": [row for row, _ in answers for _ in range(3)]}
    words: dict[str, Any] = {"type": "scatter", "mode": "text", "hoverinfo": "skip", **across}
    words |= {"x": [end[0] for end in ends], "y": [end[1] for end in ends], "text": [_marked(end[2]) for end in ends]}
    dots: dict[str, Any] = {"type": "scatter", "mode": "markers", "hovertext": hover, "hoverinfo": "text", **across}
    dots |= {"x": [end[0] for end in ends[2::3]], "y": [row for row, _ in answers]}
    weights: dict[str, Any] = {"type": "bar", "orientation": "h", "x": [begin, *(token["weight"] for token in tokens)]}
    plain = {"zeroline": False, "gridcolor": "#dde1e6"}
    return {
        "data": [
            {**weights, "y": list(range(len(rows))), "marker": {"color": "#3b7dd8"}, "width": 0.5},
            {**steps, "line": {"color": "#aab2bc", "width": 7}},
            {**words, "textposition": [end[3] for end in ends]},
            {**dots, "marker": {"color": "#d9732b", "size": 13}},
        ],
        "layout": {
            "showlegend": False,
            "height": 160 + 56 * len(rows),
            "plot_bgcolor": "rgba(0,0,0,0)",
            "paper_bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 14, "color": "#1d2126"},
            "margin": {"t": 30, "l": 110},
            "xaxis": {**plain, "domain": [0.0, 0.3], "title": {"text": "attention weight"}, "rangemode": "tozero"},
            "xaxis2": {
                **plain,
                "domain": [0.36, 1.0],
                "range": [-0.25, 1.25],
                "tickvals": [0, 1],
                "ticktext": ["left edge", "right edge"],
                "title": {"text": "where z lies on its step, and the labels of the steps beside it"},
            },
            "yaxis": {
                "tickvals": list(range(len(rows))),
                "ticktext": rows,
                "range": [len(rows) - 0.4, -0.7],
                "showgrid": False,
                "zeroline": False,
            },
        },
    }
