"""How the figures look, in one place. Figures are plain plotly JSON; plotly itself draws them in the browser.

The colours serve in light and in dark; text, grid and background come from the page's own style.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from monolayer.table import raised
from monolayer.theory.shown import power_of_ten
from monolayer_experiments.experiment import Figure, Results, Table

Dash = Literal["solid", "dash", "dot", "dashdot"]
Trace = dict[str, Any]
AxisValues = Sequence[float | int | None]
PALETTE = {
    "blue": "#3b7dd8",
    "orange": "#d9732b",
    "green": "#2a9d7c",
    "red": "#d1495b",
    "violet": "#9567cf",
    "grey": "#7d8590",
    "gold": "#b08a1e",
    "pink": "#c2569c",
}
"""Colours with a contrast of 3 or more against the page, in light and in dark mode."""


def line(
    name: str,
    x: AxisValues,
    y: AxisValues,
    colour: str = "blue",
    *,
    dash: Dash = "solid",
    markers: bool = True,
    legend: bool = True,
) -> Trace:
    """A curve; `None` in `y` leaves a gap. Predictions are dashed and without markers, measurements have them."""
    drawn = {"color": PALETTE[colour], "dash": dash, "width": 2}
    made = {**_points(name, x, y, {"color": PALETTE[colour], "size": 7}), "line": drawn, "showlegend": legend}
    return {**made, "mode": "lines+markers" if markers else "lines"}


def scatter(name: str, x: AxisValues, y: AxisValues, colour: str = "blue", *, hollow: Sequence[bool] = ()) -> Trace:
    """Points without a curve; hollow ones are extrapolated, not measured."""
    symbols = ["circle-open" if empty else "circle" for empty in hollow] or "circle"
    return _points(name, x, y, {"color": PALETTE[colour], "size": 9, "symbol": symbols})


def _points(name: str, x: AxisValues, y: AxisValues, marker: Trace) -> Trace:
    trace = {"name": raised(name), "x": list(x), "y": list(y), "marker": marker}
    return {"type": "scatter", "mode": "markers", **trace}


def bars(name: str, x: Sequence[object], y: AxisValues, colour: str = "blue") -> Trace:
    """A bar for each entry of `x`."""
    return {"type": "bar", "name": raised(name), "x": list(x), "y": list(y), "marker": {"color": PALETTE[colour]}}


def figure(
    title: str,
    traces: Sequence[Trace],
    titles: tuple[str, str],
    caption: str = "",
    *,
    log: str = "",
    marks: Sequence[tuple[float, str]] = (),
    levels: Sequence[tuple[float, str]] = (),
    range_y: tuple[float, float] | None = None,
    ticks_x: Sequence[float] = (),
) -> Figure:
    """A figure of `traces` over two titled axes; `log` names the logarithmic ones: "", "x", "y" or "xy".

    `marks` are vertical lines `(x, words)`, `levels` horizontal ones; `ticks_x` are the places to label on the x axis,
    where the sizes that were tried say more than round numbers.
    """
    axes = {
        f"{name}axis": axis(title, log=name in log, values=[value for trace in traces for value in trace[name]])
        for name, title in zip("xy", titles, strict=True)
    }
    if range_y is not None:
        axes["yaxis"]["range"] = list(range_y)
    if ticks_x:
        axes["xaxis"] |= {"tickmode": "array", "tickvals": list(ticks_x), "ticktext": list(map(amount, ticks_x))}
    shapes, words = [], []
    for across, lines in (("x", marks), ("y", levels)):
        along = "y" if across == "x" else "x"
        for place, text in lines:
            where = {f"{across}0": place, f"{across}1": place, f"{along}ref": "paper", f"{along}0": 0, f"{along}1": 1}
            shapes.append({"type": "line", **where, "line": {"color": PALETTE["grey"], "width": 1.5, "dash": "dot"}})
            at = {across: math.log10(place) if across in log else place, f"{along}ref": "paper", along: 1}
            at |= {"yanchor": "bottom"} | ({"xanchor": "right"} if across == "y" else {})
            words.append({**at, "text": raised(text), "showarrow": False})
    # Below the axis title whatever the height: measured from the edge of the figure, not of the plot.
    legend = {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0}
    layout: Trace = {
        **axes,
        "showlegend": len(traces) > 1,
        "legend": legend,
        "margin": {"l": 64, "r": 16, "t": 30, "b": 56},
        "hovermode": "closest",
        "shapes": shapes,
        "annotations": words,
    }
    return Figure(title, {"data": list(traces), "layout": layout}, caption.strip())


def axis(title: str, *, log: bool = False, values: Sequence[Any] = ()) -> Trace:
    """A titled axis; a logarithmic one is labelled in powers of ten, at most about six of them."""
    made: Trace = {"title": {"text": raised(title), "standoff": 10}, "automargin": True, "zeroline": False}
    if not log:
        return made
    made |= {"type": "log", "exponentformat": "power"}
    logs = [math.log10(value) for value in values if value is not None and value > 0]
    decades = max(logs) - min(logs) if logs else 0.0
    if decades > 1.5:
        return {**made, "dtick": math.ceil(decades / 6)}
    # Powers of ten alone are too few: D2 adds 2 and 5 between them. Without a format plotly would write 0.5 as 5.
    return {**made, "dtick": "D2", "tickformat": ",~g"}


def amount(value: float | int | None, digits: int = 3) -> str:
    """A number for a table: thousands separated, very small and very large ones in powers of ten."""
    if value is None:
        return "—"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        rounded = float(f"{value:.{digits}g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    factor = f"{float(mantissa):g}"
    return f"10^{int(exponent)}" if factor == "1" else f"{factor}·10^{int(exponent)}"


def share(value: float | None) -> str:
    """A share as a percentage; 100 % only where it is exactly all."""
    if value is None:
        return "—"
    return "100 %" if value == 1.0 else f"{min(value, 0.9999):.2%}".replace("%", " %")


def power(log10: float | None) -> str:
    """`10^x` for numbers that no float holds; — for None."""
    return "—" if log10 is None else power_of_ten(log10)


def where(rows: Iterable[Results], **wanted: object) -> list[Results]:
    """The rows that have these values under these keys."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def column(rows: Iterable[Results], key: str) -> list[Any]:
    """The value of every row under a key; None where a row has none."""
    return [row.get(key) for row in rows]


def distinct(rows: Iterable[Results], key: str) -> list[Any]:
    """The different values under a key, in the order of the rows."""
    return list(dict.fromkeys(column(rows, key)))


def low_to_high(values: Iterable[float], words: Callable[[float], str] = amount) -> str:
    """`0.1 to 0.3`, or one number where both ends are written alike."""
    values = list(values)
    low, high = words(min(values)), words(max(values))
    return low if low == high else f"{low} to {high}"


def table(title: str, rows: Iterable[Results], columns: str, **computed: Callable[[Results], Any]) -> Table:
    """A line of words per row.

    `columns` reads like the head of the table: names, each followed by the key of its values where that is another
    word; `%` behind a key writes a share as a percentage. `computed`: values that are functions of the row.
    `table("Runs", [{"model": "1 layer", "accuracy": 0.5}], "model; right: accuracy %")` has the line `1 layer`,
    `50.00 %`.
    """
    names, keys = [], []
    for part in columns.split(";"):
        name, _, key = part.partition(":")
        names.append(name.strip().removesuffix(" %"))
        keys.append((key or name).strip())

    def cell(row: Results, key: str) -> str:
        key, in_percent = key.removesuffix(" %"), key.endswith(" %")
        value = computed[key](row) if key in computed else row.get(key)
        return value if isinstance(value, str) else share(value) if in_percent else amount(value)

    return Table(title, names, [[cell(row, key) for key in keys] for row in rows])
