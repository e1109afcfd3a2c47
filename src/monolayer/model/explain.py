"""Why a model answers as it does, in numbers: what every token contributes, and where on its step every answer lies.

Notation: `T` tokens, `P` answering places (tokens, or sequences); key `s`, code `t`, context `c = Σ p_l s_l` with the
attention weights `p`, `z = t + κ c`; run `r` lies between the ramps `r − 1` and `r` of the staircase.

    left label ──┐                    ┌── right label
                 └──────────●─────────┘
              below         z       above        margin = min(z − below, above − z)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from monolayer.arrays import Bools, Floats, Ints
from monolayer.data import Sequences
from monolayer.data.objects import JsonFields
from monolayer.errors import DataError
from monolayer.model.card import Card
from monolayer.model.contexts import contexts, spread
from monolayer.model.parts import Parts, staircase_of
from monolayer.model.shortcut import AskedTensors, everywhere, lines, plan, traced, values
from monolayer.table import TABLE_WIDTH, grid_lines, shortened, visible

if TYPE_CHECKING:
    from rich.table import Table

BEGIN_TOKEN, LINE_END, EMPTY = "⟨begin⟩", "⟨end⟩", "⟨empty⟩"
"""The begin token, the end of the line where a step has no neighbour, and a name without letters."""


TEXT_COLUMNS = ("token", "label", "beside")
"""The columns of the table that hold text; the others hold numbers."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The numbers behind answers. Arrays are flat over tokens `(T,)` or answering places `(P,)`.

    `weight` `(T,)` is the share of a token's key in the context of its sequence (of a causal model: in the context at
    the token itself), `begin` `(P,)` that of the begin token. `step` counts runs from 0; `left` and `right` are the
    labels of the neighbouring runs, None at the ends of the line; `on_ramp` marks places between two runs.
    """

    data: Sequences
    card: Card
    temperature: float
    kappa: float
    key: Floats
    weight: Floats
    begin: Floats
    code: Floats
    context: Floats
    z: Floats
    step: Ints
    below: Floats
    above: Floats
    on_ramp: Bools
    left: list[object]
    right: list[object]
    label: list[object]

    @cached_property
    def margin(self) -> Floats:
        """How far `z` may move before the answer changes `(P,)`; 0 on a ramp."""
        return np.where(self.on_ramp, 0.0, np.minimum(self.z - self.below, self.above - self.z))

    def __repr__(self) -> str:
        """The table, as the command shows it."""
        return "\n".join(line.plain for line in grid_lines(self.table(), 2 * TABLE_WIDTH))

    def json(self) -> list[JsonFields]:
        """One object per sequence, with its tokens; what JSON cannot hold, an end of the line, is None."""
        names = self.data.tokens if self.data.vocabulary is None else self.data.vocabulary.decode(self.data.tokens)
        cuts, rows = self.data.offsets.tolist(), []
        for row in range(len(self.data)):
            tokens: list[JsonFields] = []
            for at in range(cuts[row], cuts[row + 1]):
                token = names[at].tolist() if hasattr(names[at], "tolist") else names[at]
                tokens.append({"token": token, "key": float(self.key[at]), "weight": float(self.weight[at])})
                if self.card.labelling.at_tokens:
                    tokens[-1] |= self._answer(at)
            rows.append({"sequence": row, "tokens": tokens})
            if not self.card.labelling.at_tokens:
                rows[-1] |= self._answer(row)
        return rows

    def _answer(self, at: int) -> JsonFields:
        return {
            **{name: float(getattr(self, name)[at]) for name in ("begin", "code", "context", "z")},
            "step": int(self.step[at]),
            "on_ramp": bool(self.on_ramp[at]),
            "neighbours": [self.left[at], self.right[at]],
            "edges": [_finite(self.below[at]), _finite(self.above[at])],
            "label": self.label[at],
            "margin": _finite(self.margin[at]),
        }

    def table(self) -> Table:
        """A table for the terminal: a line per token, and one per sequence where a sequence has one answer."""
        from rich.table import Table

        title = f"λ = {self.temperature:.6g}, κ = {self.kappa:.6g}"
        grid = Table(title=title, title_justify="left", box=None, padding=(0, 1), pad_edge=False)
        for name in ("row", "token", "key", "weight", "context", "z", "step", "label", "beside", "margin"):
            side: Any = "left" if name in TEXT_COLUMNS else "right"
            grid.add_column(name, justify=side, overflow="fold", no_wrap=side == "right")
        for one in self.json():
            first = [{"shown": BEGIN_TOKEN, "weight": one["begin"], **one}] if "begin" in one else []
            for line in [*first, *one["tokens"]]:
                grid.add_row(*_table_line(one["sequence"], line))
        return grid


def _table_line(sequence: int, line: JsonFields) -> list[str]:
    """A line of the table; a token without an answer of its own has only key and weight."""
    from rich.markup import escape

    def number(name: str, form: str = ".6g") -> str:
        return format(line[name], form) if line.get(name) is not None else ""

    around = " │ ".join(map(_short_name, line["neighbours"])) if "neighbours" in line else ""
    step = "ramp" if line.get("on_ramp") else number("step", "d")
    margin = number("margin", ".3g") or ("∞" if "margin" in line else "")
    words = [
        line.get("shown") or _short_name(line["token"]),
        _short_name(line["label"]) if "label" in line else "",
        around,
    ]
    token, label, around = map(escape, words)
    key, weight, context = number("key", ".4f"), number("weight", ".4f"), number("context", ".4f")
    return [str(sequence), token, key, weight, context, number("z", ".7g"), step, label, around, margin]


def _short_name(value: object) -> str:
    """A token or a label in few characters; None is the neighbour that an outermost step does not have.

    A space is ␣, other blanks and what a terminal would obey are their codes.
    """
    if value is None:
        return LINE_END
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "(" + ", ".join(map(_short_name, value)) + ")"
    signs = (
        "␣" if sign == " " else ascii(sign)[1:-1] if sign.isspace() else sign for sign in visible(shortened(str(value)))
    )
    return "".join(signs) or EMPTY


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- from a model and data to an explanation -------------------------------------------------------------------


@torch.no_grad()
def explain(model: Parts, data: Sequences) -> Explanation:
    """The numbers behind the answers to encoded `data`: the shortcut's own, and the staircase around every `z`."""
    staircase_of(model)  # raises unless there is exactly one
    way = plan(model)
    if way is None:
        raise DataError(
            "an explanation needs weights as they were built, and nothing hooked into the forward pass: this model was "
            "changed"
        )
    asked, steps = AskedTensors.of(model, data), way.stages[0].steps
    met = traced(model, asked, way)
    if met is None:
        raise DataError(
            "the scores of these tokens are too far apart for an explanation: only the dense network answers"
        )
    z, level = next(lines(model, asked, way, met))
    edge = torch.full_like(z[:1], torch.inf)
    below, above = torch.cat([-edge, steps.end]), torch.cat([steps.start, edge])
    run = torch.searchsorted(steps.end, z, right=True)
    ramp = z > above[run]
    # What the weights add up to, the begin token's included: the quotient of sums that makes contexts, with 1 below.
    total = contexts(torch.zeros_like(met.weight), met.weight, asked.lengths, (1.0, met.begin), model.card.causal)
    each = total if model.card.causal else spread(total, asked.lengths)

    def labels(level: Tensor) -> list[object]:
        decoded: list[object] = model.card.decode(values(model.card, level).cpu().numpy()).tolist()
        return decoded

    def beside(run: Tensor) -> list[object]:
        """The labels of runs `(P,)`; None beyond the ends of the line."""
        inside = (run >= 0) & (run < len(steps.level))
        names = labels(steps.level[run.clamp(0, len(steps.level) - 1)])
        return [name if there else None for name, there in zip(names, inside.tolist(), strict=True)]

    return Explanation(
        data,
        model.card,
        way.temperature,
        way.stages[0].kappa,
        key=_float64(met.key),
        weight=_float64(met.weight / each),
        begin=_float64(met.begin / (each if model.card.labelling.at_tokens else total)),
        code=_float64(met.code),
        context=_float64(everywhere(model, asked, met.context)),
        z=_float64(z),
        step=run.cpu().numpy(),
        # On a ramp both edges are those of the ramp: the answer lies between the labels of two runs.
        below=_float64(torch.where(ramp, above[run], below[run])),
        above=_float64(torch.where(ramp, below[(run + 1).clamp(max=len(below) - 1)], above[run])),
        on_ramp=ramp.cpu().numpy(),
        left=beside(torch.where(ramp, run, run - 1)),
        right=beside(run + 1),
        label=labels(level),
    )


def _float64(values: Tensor) -> Floats:
    array: Floats = values.detach().double().cpu().numpy()
    return array
