"""Pictures of a model as Plotly figures: an approximator beside its function, a staircase, the half-spaces of a token.

Plotly is an optional package. `picture_page` makes one HTML file of a figure, which loads nothing from elsewhere.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from monolayer.arrays import Array, Floats
from monolayer.errors import DataError, needs_extra
from monolayer.model.gates import Gates, place_codes
from monolayer.model.keys import KeyPlaces, evenly, key_places
from monolayer.model.parts import Parts
from monolayer.model.staircase import Steps
from monolayer.model.unknown import tokens_of
from monolayer.table import plural, shortened, visible

BLUE, ORANGE, RED = "#3b7dd8", "#d9732b", "#c8443a"
MAP_SIDE = 128
"""Pixels along a side of a map, about: each cell has a whole number of them, so that no pixel lies on a ramp."""
LINE_POINTS = 2048
"""Points of a curve, about; likewise a whole number per cell."""
MOST_DRAWN_STEPS = 5000
"""Steps of a staircase that are drawn: browsers draw more only slowly, and they are too close together to be seen."""
MOST_SEEN_STEPS = 400
"""Steps of a staircase that the picture shows at first; more would be one blue area."""
WINDOW_STEPS = 60
"""Steps that the picture of a longer staircase shows at first, so that each of them can be seen."""
MOST_TICKS = 16
"""Labels that are named beside a staircase, at most, so that they do not lie on top of each other."""
MOST_DRAWN_KEYS = 10_000
"""Keys of a table that are drawn as dots on its staircase, evenly chosen from those on the steps that are drawn."""
MOST_NAMED_KEYS = 8
"""Names beside these dots, at most, so that they do not lie on top of each other."""
LONGEST_NAME = 14
"""Characters of such a name; the whole key shows where the pointer is."""
LONGEST_LINE, LINE_HEIGHT = 52, 24
"""Characters of a line of words below a title, which a telephone shows whole, and its height in pixels."""
MOST_NEURONS = 60
"""Half-spaces that are drawn, one per line of the picture."""
Figure = Any
"""A `plotly.graph_objects.Figure`: Plotly may be missing where types are checked."""


def plot_approximator(
    predict: Callable[[Floats], Any], box: Domain, f: Callable[[Any], Any] | None, name: str
) -> Figure:
    """The function beside the network, and the error, over the first two coordinates, or the only one.

    Further coordinates stay in the middle of the domain. `predict` and `f` take batches `(B, n, d)`; without `f` the
    network is drawn alone.
    """
    side = LINE_POINTS if box.dim * box.length == 1 else MAP_SIDE
    side = box.cells * max(1, round(side / box.cells))
    line = box.low + (np.arange(side) + 0.5) / side * (box.high - box.low)
    flat = box.dim * box.length > 1
    middle = box.low + (box.cells // 2 + 0.5) / box.cells * (box.high - box.low)
    X = np.full((side * side if flat else side, box.length, box.dim), middle)
    X[:, 0, 0] = np.tile(line, side) if flat else line
    if flat:
        X[:, *((1, 0) if box.length > 1 else (0, 1))] = np.repeat(line, side)
    answer = _first_outputs(predict(X), X)
    wanted = None if f is None else _first_outputs(_called(f, X), X)
    more = box.dim * box.length > 2
    rest = ", other coordinates in the middle of the domain" if more else ""
    title = f"{_text(name)}, d = {box.dim}, n = {box.length}, {plural(box.cells, 'cell')} per coordinate"
    title += f"<br><sup>answer at token 1, first output{rest}</sup>"
    values = _Values(line, answer, wanted)
    return _maps(values, side, box.length, title) if flat else _curves(values, title)


class _Values(NamedTuple):
    """Coordinates `line`, and at all points the `answer` of the network and the value that was `wanted`, if known."""

    line: Floats
    answer: Floats
    wanted: Floats | None


class Domain(NamedTuple):
    """Where an approximator is defined: `[low, high]^(n × d)`, in so many cells per coordinate."""

    dim: int
    length: int
    low: float
    high: float
    cells: int


def _first_outputs(values: object, X: Floats) -> Floats:
    """The first output at the first token of every sequence, `(B,)`."""
    return np.asarray(values, np.float64).reshape(*X.shape[:2], -1)[:, 0, 0]


def _called(f: Callable[[Any], Any], X: Floats) -> Array:
    """The answers of `f`, which takes arrays or tensors."""
    try:
        answer = f(X.copy())
    except Exception as error:  # whatever a function of tensors raises when it is given an array
        try:
            answer = f(torch.from_numpy(X.copy()))
        except Exception:  # neither arrays nor tensors: the first failure is the one to tell
            raise DataError(f"f failed on a batch of shape {X.shape}: {type(error).__name__}: {error}") from error
    values = np.asarray(answer.detach().cpu() if isinstance(answer, torch.Tensor) else answer)
    if values.shape[:2] != X.shape[:2]:
        raise DataError(
            f"f returned shape {values.shape} for a batch of shape {X.shape}: one answer per token is needed"
        )
    return values


def _curves(values: _Values, title: str) -> Figure:
    """One coordinate: function and network in one picture, the error below."""
    rows = 1 if values.wanted is None else 2
    figure = _subplots(rows, 1, ["Network"] if rows == 1 else ["Function and network", "Error"])
    if values.wanted is not None:
        figure.add_scatter(x=values.line, y=values.wanted, name="function", line={"color": ORANGE}, row=1, col=1)
        error = np.abs(values.answer - values.wanted)
        figure.add_scatter(x=values.line, y=error, name="error", line={"color": RED}, row=2, col=1)
    figure.add_scatter(
        x=values.line, y=values.answer, name="network", line={"color": BLUE, "shape": "hvh"}, row=1, col=1
    )
    figure.update_xaxes(title_text="coordinate", row=rows, col=1)
    return _finished(figure, title, 320 * rows)


def _maps(values: _Values, side: int, length: int, title: str) -> Figure:
    """Two coordinates: maps of function, network and error, side by side; the first two share their colours."""
    named = [("Network", values.answer, "Viridis")]
    if values.wanted is not None:
        named.insert(0, ("Function", values.wanted, "Viridis"))
        named.append(("Error", np.abs(values.answer - values.wanted), "OrRd"))
    shared = np.concatenate([each for label, each, _ in named if label != "Error"])
    figure = _subplots(1, len(named), [label for label, _, _ in named])
    for column, (label, each, colours) in enumerate(named, 1):
        ends = {} if label == "Error" else {"zmin": float(shared.min()), "zmax": float(shared.max())}
        across = figure.get_subplot(1, column).xaxis.domain
        bar = {"x": across[1] + 0.005, "thickness": 10, "outlinewidth": 0}
        grid = each.reshape(side, side)
        figure.add_heatmap(
            x=values.line,
            y=values.line,
            z=grid,
            colorscale=colours,
            colorbar=bar,
            name=label,
            **ends,
            row=1,
            col=column,
        )
    names = ("token 1", "token 2") if length > 1 else ("coordinate 1", "coordinate 2")
    figure.update_xaxes(title_text=names[0])
    figure.update_yaxes(title_text=names[1], col=1)
    return _finished(figure, title, 480)


def plot_memory(model: Parts, token: object = None) -> Figure:
    """How the readout of a memorizer answers: its staircase or, of a robust model, the half-spaces of `token`."""
    if isinstance(model.feed_forward, Gates):
        return _half_spaces(model, model.feed_forward, token)
    tables = model.feed_forward.tables()
    if tables is None:
        raise DataError("this model has neither steps nor half-spaces to draw: its weights were changed")
    if token is not None:
        raise DataError(
            "a staircase is shared by all tokens: leave token= out; `explain` shows where a token lies on it"
        )
    figure = _subplots(len(tables), 1, [f"Stage {number}" for number in range(1, len(tables) + 1)] * (len(tables) > 1))
    places, words = key_places(model), []
    for row, steps in enumerate(tables, 1):
        z = None if places is None else places.stages[row - 1][0]
        drawn = _draw_steps(figure, row, steps, z)
        if drawn.window is not None:
            words.append(_window_words(row if len(tables) > 1 else None, *drawn.window))
        if places is not None:
            words += _draw_keys(figure, row, places, drawn)
        classes = model.card.classes
        if classes is not None and row == 1:
            ticks = evenly(len(classes), MOST_TICKS).tolist()
            names = [_text(str(classes.names[tick])) for tick in ticks]
            figure.update_yaxes(title_text="label", row=row, col=1, tickvals=ticks, ticktext=names)
    count = model.feed_forward.step_count
    lines = [line for each in words for line in textwrap.wrap(each, LONGEST_LINE)]
    title = "<br>".join([f"The staircase: {plural(count, 'step')}", *(f"<sub>{each}</sub>" for each in lines)])
    figure = _finished(figure, title, 420 * len(tables) + LINE_HEIGHT * len(lines))
    top = {"y": 1.0, "yanchor": "top", "pad": {"t": 36}}
    return figure.update_layout(title=top, margin={"t": 90 + LINE_HEIGHT * len(lines)})


class _DrawnSteps(NamedTuple):
    """The ends of the line that is drawn, and of what is seen of it at first.

    `window`: numbers of the first step drawn, of the steps drawn, and of the first step seen; None if all are seen.
    """

    ends: tuple[float, float]
    seen: tuple[float, float]
    window: tuple[int, int, int] | None


def _draw_steps(figure: Figure, row: int, steps: Steps, keys: Floats | None) -> _DrawnSteps:
    """Draw the label over z, as far as the `keys` lie; beyond the limit of steps, the ones in the middle."""
    count = len(steps.start)
    first, few = max(0, count - MOST_DRAWN_STEPS) // 2, min(count, MOST_DRAWN_STEPS)
    part = slice(first, first + few)
    start, end = (each[part].detach().double().cpu().numpy() for each in (steps.start, steps.end))
    level = steps.level[first : first + few + 1, 0].detach().double().cpu().numpy()
    if few < count:  # beyond these steps lie others
        ends = float(start[0]), float(end[-1])
    else:
        all_z = np.concatenate([start, end, np.zeros(0) if keys is None else keys])
        low, high = (float(all_z.min()), float(all_z.max())) if len(all_z) else (0.0, 0.0)
        room = 0.05 * (high - low) or 1.0
        ends = low - room, high + room
    z = np.concatenate([[ends[0]], np.stack([start, end], axis=1).reshape(-1), [ends[1]]])
    figure.add_scatter(x=z, y=np.repeat(level, 2), mode="lines", line={"color": BLUE}, name="label", row=row, col=1)
    figure.update_xaxes(title_text="z", row=row, col=1)
    if count <= min(MOST_SEEN_STEPS, MOST_DRAWN_STEPS):
        return _DrawnSteps(ends, ends, None)
    seen = few // 2 - WINDOW_STEPS // 2
    window = float(start[seen]), float(end[seen + WINDOW_STEPS - 1])
    figure.update_xaxes(range=window, row=row, col=1)
    return _DrawnSteps(ends, window, (first, few, seen))


def _draw_keys(figure: Figure, row: int, places: KeyPlaces, drawn: _DrawnSteps) -> list[str]:
    """Draw a dot at every key on the line that is drawn, and some of their names; returns words about them."""
    z, level = places.stages[row - 1]
    inside = np.flatnonzero((drawn.ends[0] <= z) & (z <= drawn.ends[1]))
    inside = inside[np.argsort(z[inside], kind="stable")]
    some = inside[evenly(len(inside), MOST_DRAWN_KEYS)]
    names = [_text(str(tokens_of(places.keys, key))) for key in some.tolist()]
    answers = [_text(str(places.answers[key])) for key in some.tolist()]
    named = _with_room(z[some], drawn.seen)
    figure.add_scatter(
        x=z[some],
        y=level[some],
        mode="markers+text",
        marker={"color": ORANGE, "size": 6},
        text=[
            _text(shortened(html.unescape(name), LONGEST_NAME)) if at in named else "" for at, name in enumerate(names)
        ],
        textposition="top center",
        textfont={"size": 11},
        cliponaxis=False,
        hovertext=[f"{name}: {answer}" for name, answer in zip(names, answers, strict=True)],
        hovertemplate="%{hovertext}<br>z = %{x}<extra></extra>",
        name="key",
        row=row,
        col=1,
    )
    return [] if row > 1 else [_key_words(len(some), places)]


def _with_room(z: Floats, seen: tuple[float, float]) -> set[int]:
    """Places of the rising `z` whose names are written beside the dots: those far enough from the last one."""
    named, last = set[int](), -math.inf
    width = seen[1] - seen[0]
    edge = 0.04 * width  # a name at the very edge would lie on the numbers of the axis
    for at in np.flatnonzero((seen[0] + edge <= z) & (z <= seen[1] - edge)).tolist():
        if z[at] - last >= width / MOST_NAMED_KEYS:
            named.add(at)
            last = z[at]
    return named


def _key_words(drawn: int, places: KeyPlaces) -> str:
    """How many of the keys that the model holds are drawn, and why not all."""
    found, held = len(places.keys), places.held
    which = f"the {plural(held, 'key')} of the model" if drawn == held else f"{drawn:,} of the {plural(held, 'key')}"
    order = "" if places.ordered or places.keys.lengths.max() == 1 else ", words in any order"
    lost = "" if found == held else f"; only {found:,} were found by their fingerprints"
    return f"dots: {which}{order}; point at one for its value{lost}"


def _window_words(stage: int | None, first: int, few: int, seen: int) -> str:
    """Which steps of a long staircase are in the picture, and which the window shows at first; all counted from 0."""
    of = "" if stage is None else f"Stage {stage}: "
    begin, end = first + seen + 1, first + seen + WINDOW_STEPS
    return (
        f"{of}a window on steps {begin:,} to {end:,}; drag the axis to move it, double-click to see all that are "
        f"drawn, {first + 1:,} to {first + few:,}"
    )


@torch.no_grad()
def _half_spaces(model: Parts, gates: Gates, token: object) -> Figure:
    """The half-spaces that are awake at a token for some context, each on a line of its own.

    A context has length `√k`, so a neuron fires where the cosine between the context and its normal `w` is above
    `−offset / (|w| √k)`. A bar spans these cosines, up to 1. Dots show how the normals of the other neurons lie: one
    inside the bar of another neuron marks contexts at which both may fire.
    """
    layout, card = gates.layout, model.card
    if not card.labelling.at_tokens:
        if token is not None:
            raise DataError("the neurons of this model answer for sequences, not for tokens: leave token= out")
        at, name = model.bos.double(), "every sequence"
    else:
        names = card.vocabulary
        first = None if names is None else names.names[0]
        chosen: Any = first if token is None else token
        if names is not None and names.integers and isinstance(chosen, str) and chosen.lstrip("-").isdecimal():
            chosen = int(chosen)  # from a command line
        if names is None or chosen not in names:
            raise DataError(f"the model has no token {chosen!r}; one of its tokens is {first!r}")
        at, name = model.lift.weight[names.rows[chosen]].double(), f"token {_text(str(chosen))}"
    weight, bias = gates.weight_1.double(), gates.bias_1.double()
    places = place_codes(model, layout, torch.float64)
    offset = weight[:, : layout.token] @ at[: layout.token] + bias
    offset += (weight[:, layout.token : layout.token + layout.place] @ places.T).amax(dim=1)
    normal = weight[:, layout.context]
    reach = normal.norm(dim=1) * math.sqrt(layout.rank)
    awake = torch.nonzero((offset + reach > 0) & (reach > 0)).flatten()
    chosen_ones = awake[:MOST_NEURONS]
    threshold = (-offset[chosen_ones] / reach[chosen_ones]).clamp(min=-1.0).tolist()
    direction = torch.nn.functional.normalize(normal[chosen_ones], dim=1)
    cosines = (direction @ direction.T).tolist()
    pushed = model.head.weight[:, -layout.label :].double() @ gates.weight_2[:, chosen_ones].double()
    labels = [str(card.classes.names[number]) if card.classes else "" for number in pushed.argmax(dim=0).tolist()]
    lines = [f"{neuron}: {_text(label)}" for neuron, label in zip(chosen_ones.tolist(), labels, strict=True)]
    figure = _subplots(1, 1, [])
    widths = [1.0 - low for low in threshold]
    figure.add_bar(
        y=lines, x=widths, base=threshold, orientation="h", name="contexts at which it fires", marker={"color": BLUE}
    )
    others = [(cosines[i][j], lines[i]) for i in range(len(lines)) for j in range(len(lines)) if i != j]
    dots = {"mode": "markers", "marker": {"color": ORANGE, "size": 6}, "name": "normals of the other neurons"}
    figure.add_scatter(x=[x for x, _ in others], y=[y for _, y in others], **dots)
    figure.update_xaxes(title_text="cosine between the context and the neuron's normal", range=[-1, 1])
    figure.update_yaxes(title_text="neuron: label that it writes", type="category", autorange="reversed")
    drawn = "" if len(awake) == len(lines) else f"; the first {len(lines)} are drawn"
    return _finished(figure, f"{plural(len(awake), 'half-space')} of {name}{drawn}", max(340, 260 + 22 * len(lines)))


_FOLLOWS_THE_READER = """
const plot = document.getElementById("{plot_id}"), dark = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print"), axes = Object.keys(plot._fullLayout).filter((key) => /^[xy]axis\\d*$/.test(key));
const looks = {
  dark: ["#16191d", "#e4e7eb", "#2b3138", "#4a525c"], light: ["#ffffff", "#2a3f5f", "#ebf0f8", "#c8d4e3"],
};
const follow = async () => {
  const chosen = dark.matches && !paper.matches ? "dark" : "light", [back, ink, grid, zero] = looks[chosen];
  const colours = { "font.color": ink, "title.font.color": ink, paper_bgcolor: back, plot_bgcolor: back };
  for (const axis of axes) Object.assign(colours, { [`${axis}.gridcolor`]: grid, [`${axis}.zerolinecolor`]: zero });
  document.documentElement.style.background = back;
  await Plotly.relayout(plot, colours);
  document.documentElement.dataset.colours = chosen;
};
for (const each of [dark, paper]) each.addEventListener("change", follow);
follow();
"""
"""The script of a picture's page: light or dark, as the reader's system is; on paper light."""


def picture_page(figure: Figure) -> str:
    """One HTML page with the figure and Plotly's script inside: it makes no request to anywhere."""
    page: str = figure.to_html(
        include_plotlyjs=True,
        full_html=True,
        config={"displaylogo": False, "responsive": True},
        post_script=_FOLLOWS_THE_READER,
    )
    return page.replace("<head>", '<head><meta name="viewport" content="width=device-width, initial-scale=1">', 1)


def _subplots(rows: int, columns: int, titles: Sequence[str]) -> Figure:
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise needs_extra("pictures need plotly", "report") from None
    spacing = {"horizontal_spacing": 0.12, "vertical_spacing": 0.3 / max(rows, 2)}
    return make_subplots(rows, columns, subplot_titles=list(titles) or None, **spacing)


def _finished(figure: Figure, title: str, height: int) -> Figure:
    """The figure with its title, and room for it."""
    legend = {"orientation": "h", "y": -100 / height, "x": 0}
    return figure.update_layout(
        title_text=title, height=height, legend=legend, template="plotly_white", margin={"t": 90, "r": 32}
    )


def _text(name: str) -> str:
    """A name as Plotly shows it, which reads some HTML; long ones are cut."""
    return html.escape(visible(shortened(name)))
