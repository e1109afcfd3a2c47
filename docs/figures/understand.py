"""The picture of docs/understand.md: rewordings answered against other texts that stay unknown, from results/bench.

`python docs/figures/understand.py` draws it.
"""

from __future__ import annotations

import json
from pathlib import Path

from findings import draw

from monolayer_experiments.look import figure, line

RECORDS = Path(__file__).parent.parent.parent / "results" / "bench"
BENCH = "rewordings_are_answered_and_others_are_unknown"
FILES = {
    "CounterFact, 400 prompts": ("counterfact-2000", "solid"),
    "zsRE, 300 questions": ("zsre-300", "dot"),
    "CLINC150, 150 intents": ("clinc150", "dash"),
}
"""The record of each file, and how its lines are drawn."""
BESIDE = {"nearest stored question": "orange", "logistic regression": "green"}
"""What stands beside, on the same states, and its colour."""


def picture() -> dict[str, object]:
    """The curve of every file: the more texts stay unknown, the fewer rewordings are answered."""
    traces = []
    for name, (file, dash) in FILES.items():
        found = json.loads((RECORDS / f"{BENCH}_{file}.json").read_text(encoding="utf-8"))["rows"][0]
        kept = [row["others unknown"] for row in found["curve"]]
        answered = [row["rewordings"] for row in found["curve"]]
        traces.append(line(f"{name}: recognize, by its floor", kept, answered, "blue", dash=dash))
        for method, colour in BESIDE.items():
            points = {float(words.split("%")[0]) / 100: share for words, share in found["beside"][method].items()}
            traces.append(line(f"{name}: {method}", list(points), list(points.values()), colour, dash=dash))
    drawn = figure("", traces, ("share of other texts that stay unknown", "share of rewordings answered"))
    layout = {"legend": {**drawn.figure["layout"]["legend"], "orientation": "v"}, "height": 660}
    return {
        **drawn.figure,
        "layout": drawn.figure["layout"] | layout | {"margin": {"l": 80, "r": 16, "t": 20, "b": 56}},
    }


if __name__ == "__main__":
    draw({"understand": picture()})
