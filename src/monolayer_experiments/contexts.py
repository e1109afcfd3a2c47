"""Can a half-space of states tell a prompt in any context from everything else? An experiment with a rule for its end.

    python -m monolayer_experiments.contexts HOST EDITS.json --out RESULTS.json [--facts 200]

An attached fact answers at one text, because no ball around a state catches a prompt behind other sentences without
catching its neighbours. A half-space could be wider along directions that contexts move a state in, and narrow along
others. Here half-spaces are learned for the places of answers from states in several contexts, against states of other
text, in a host and with edits in the form of CounterFact.

    x     a state behind one layer, its coordinates cut off at a multiple of their spread, whitened, of length 1
    w, b  of one place of an answer: it fires at x where ⟨w, x⟩ > b + shift, for one shift of all places

Learned either as linear discriminants, w = Σ⁻¹(μ − μ₀), or with a hinge loss. Asked with contexts and a kind of text
that were not learned from, and with prompts about other subjects. The rule, fixed before: at least 90 % of whole
answers in unseen contexts, while at most 10⁻⁴ of the places of unseen text and 1 % of neighbouring prompts fire. If no
layer and learner keeps it with any shift, half-spaces are not enough, and `attach` gets no option for contexts.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from monolayer_experiments.edits import Edit, read_edits
from monolayer_experiments.experiment import Results
from monolayer_experiments.hosts import load
from monolayer_experiments.prose import KINDS, drawn, installed_text, windows

RULE = {"answers": 0.9, "text": 1e-4, "neighbours": 0.01}
UNSEEN = 12
"""How many contexts are asked with besides those that are learned from, the first of which is no text at all."""
CUTS = (None, 3.0)
"""At how many times their spread coordinates are cut off; None: nowhere."""
LEARNERS = ("discriminant", "hinge")
STEPS, RATE, MARGIN = 300, 0.05, 0.1
SHIFTS = 200
"""How many shifts the curve of a setting has."""
RIDGE = 1e-2
"""Of the mean eigenvalue, added to the covariance."""
WINDOW, AT_ONCE = 128, 64


def contexts(count: int, kinds: Sequence[str], seed: int) -> list[str]:
    """Texts to put in front of a prompt: lines of 5 to 40 words from installed packages."""
    draw, texts = random.Random(seed), list[str]()
    for kind in kinds:
        lines = [line.strip() for line in installed_text(kind, 400_000, seed).splitlines()]
        good = sorted({line for line in lines if 5 <= len(line.split()) <= 40 and line.isprintable()})
        texts += draw.sample(good, min(len(good), count // len(kinds) + 1))
    return [f"{line}{draw.choice([' ', chr(10), chr(10) * 2])}" for line in draw.sample(texts, count)]


@dataclass
class World:
    """A host and the layers whose states are looked at."""

    folder: Path
    device: str
    layers: tuple[int, ...]

    def __post_init__(self) -> None:
        import transformers

        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.model = load(self.folder, self.device).requires_grad_(False)

    @torch.no_grad()
    def states(self, rows: Sequence[Sequence[int]], last: Sequence[int]) -> Tensor:
        """The states `(layers, sum(last), D)` at the last places of each row, as many as `last` says."""
        by_layer: list[list[Tensor]] = [[] for _ in self.layers]
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first : first + AT_ONCE]
            length = max(map(len, some))
            ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in some], device=self.device)
            mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in some], device=self.device)
            seen = self.model.base_model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
            for kept, layer in zip(by_layer, self.layers, strict=True):
                for number, row in enumerate(some):
                    kept.append(seen[layer][number, len(row) - last[first + number] : len(row)].float())
        return torch.stack([torch.cat(kept) for kept in by_layer])

    def answered(self, edits: Sequence[Edit], before: str) -> tuple[list[list[int]], list[int]]:
        """The ids of each prompt behind a text and all but the last token of its answer; how many places these have."""
        rows, last = [], []
        for edit in edits:
            answer = self.tokenizer(edit.answer, add_special_tokens=False)["input_ids"]
            rows.append(self.tokenizer(before + edit.prompt)["input_ids"] + answer[:-1])
            last.append(len(answer))
        return rows, last

    def at_ends(self, prompts: Sequence[str]) -> Tensor:
        """The states at the last place of each prompt."""
        rows = [self.tokenizer(prompt)["input_ids"] for prompt in prompts]
        return self.states(rows, [1] * len(rows))

    def of_text(self, kind: str, places: int, seed: int) -> Tensor:
        """The states at all places of text of one kind."""
        rows = drawn(windows(self.tokenizer, installed_text(kind, 8 * places, seed), WINDOW), places // WINDOW, seed)
        return self.states(rows.tolist(), [WINDOW] * len(rows))


class Whitened:
    """Cuts states off, and maps them so that those it was made from have mean 0 and covariance about 1."""

    def __init__(self, states: Tensor, cut: float | None) -> None:
        self.mean, self.spread, self.cut = states.mean(dim=0), states.std(dim=0), cut
        rows = self._cut(states)
        self.middle = rows.mean(dim=0)
        values, vectors = torch.linalg.eigh(((rows - self.middle).T @ (rows - self.middle)).double() / len(rows))
        self.map = (vectors / (values.clamp(min=0.0) + RIDGE * values.mean()).sqrt() @ vectors.T).to(states.dtype)

    def _cut(self, states: Tensor) -> Tensor:
        if self.cut is None:
            return states
        most = self.cut * self.spread
        return torch.maximum(torch.minimum(states - self.mean, most), -most)

    def __call__(self, states: Tensor) -> Tensor:
        mapped: Tensor = (self._cut(states) - self.middle) @ self.map
        mapped /= mapped.norm(dim=-1, keepdim=True)
        return mapped


def discriminants(own: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """w `(N, D)` and b `(N,)` from states in contexts `(C, N, D)` and other, whitened states."""
    center = own.mean(dim=0)
    within = (own - center).flatten(0, 1)
    covariance = within.T @ within / len(within)
    ridge = RIDGE * covariance.diagonal().mean() * torch.eye(len(covariance), device=own.device)
    w = torch.linalg.solve(covariance + ridge, (center - others.mean(dim=0)).T).T
    w = w / w.norm(dim=1, keepdim=True)
    return w, (own * w).sum(dim=-1).amin(dim=0)


def hinged(own: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """w and b by gradient descent on a squared hinge; every place of an answer is also a negative of the others."""
    w, b = (part.clone().requires_grad_(True) for part in discriminants(own, others))
    optimizer = torch.optim.Adam([w, b], RATE)
    contexts_, places = own.shape[:2]
    foreign = ~torch.eye(places, dtype=torch.bool, device=own.device).repeat(contexts_, 1)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU: only learning uses it
    for _ in range(STEPS):
        far = (MARGIN + others @ w.T - b).clamp(min=0.0).square().sum(dim=0)
        among = ((MARGIN + own.flatten(0, 1) @ w.T - b).clamp(min=0.0).square() * foreign).sum(dim=0)
        near = (MARGIN - (own * w).sum(dim=-1) + b).clamp(min=0.0).square().sum(dim=0)
        loss = (near + far + among + 1e-4 * w.square().sum(dim=1)).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    torch.set_float32_matmul_precision(precision)
    size = w.detach().norm(dim=1)
    return w.detach() / size[:, None], b.detach() / size


def largest(states: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """By how much the most excited place of an answer exceeds its threshold, at each state."""
    return torch.cat([(part @ w.T - b).amax(dim=1) for part in torch.split(states, 1 << 14)])


def whole_answers(own: Tensor, w: Tensor, b: Tensor, fact: Tensor, token: Tensor) -> Tensor:
    """For each context and fact `(C, F)`: the largest shift at which the whole answer is right; −∞ where none is.

    A place is right if its own half-space exceeds its threshold by more than any that writes another token.
    """
    answers = []
    for states in own:
        over = states @ w.T - b
        mine = over.diagonal()
        wrong = over.masked_fill(token[:, None] == token[None, :], -torch.inf).amax(dim=1)
        right = torch.where(mine > wrong, mine, -torch.inf)
        worst = torch.full((int(fact.max()) + 1,), torch.inf, device=own.device)
        answers.append(worst.scatter_reduce(0, fact, right, "amin"))
    return torch.stack(answers)


def curve(right: Tensor, text: Tensor, neighbours: Tensor) -> list[list[float]]:
    """Points [whole answers, places of text that fire, neighbouring prompts that fire], one per shift."""
    ends = torch.quantile(text.float().cpu()[:: max(1, len(text) // 100_000)], torch.tensor([0.5, 1.0])).tolist()
    most = max(float(text.max()), float(neighbours.max()))
    points = []
    for number in range(SHIFTS + 1):
        shift = ends[0] + (most - ends[0]) * number / SHIFTS
        points.append([float((each > shift).float().mean()) for each in (right, text, neighbours)])
    return points


def verdict(points: Sequence[Sequence[float]]) -> tuple[bool, float]:
    """Whether some point keeps the rule, and the most answers at which text and neighbours keep it."""
    quiet = [point[0] for point in points if point[1] <= RULE["text"] and point[2] <= RULE["neighbours"]]
    best = max(quiet, default=0.0)
    return best >= RULE["answers"], best


class Amount(NamedTuple):
    """How many facts are stored, how many contexts are learned from, and how many places of text of each kind count."""

    facts: int
    contexts: int
    places: int


def run(world: World, edits: Sequence[Edit], amount: Amount, seed: int, write: Any) -> Results:
    """All settings, the curve of each; `write` takes the results so far."""
    facts, _, places = amount
    stored, others = edits[:facts], edits[facts : 3 * facts]
    learned = ["", *contexts(amount.contexts - 1, ("descriptions", "source"), seed)]
    unseen = contexts(UNSEEN, ("licences", "documentation"), seed + 1)
    answers = [world.tokenizer(edit.answer, add_special_tokens=False)["input_ids"] for edit in stored]
    token = torch.tensor([each for answer in answers for each in answer], device=world.device)
    fact = torch.tensor([n for n, answer in enumerate(answers) for _ in answer], device=world.device)
    own = torch.stack([world.states(*world.answered(stored, before)) for before in learned], dim=1)
    asked = torch.stack([world.states(*world.answered(stored, before)) for before in unseen], dim=1)
    text = {kind: world.of_text(kind, places, seed) for kind in KINDS}
    # Prompts about other subjects, of which half are learned from: those of other edits, bare and in contexts.
    near = world.at_ends([before + edit.prompt for edit in others for before in learned[:2]])
    asked_near = world.at_ends([before + edit.neighbour for edit in stored for before in ("", unseen[0])])
    results: Results = {"facts": facts, "places": len(token), "rule": RULE, "contexts": [len(learned), len(unseen)]}
    results |= {
        "host": {"model": type(world.model).__name__, "parameters": world.model.num_parameters()},
        "device": torch.cuda.get_device_name() if torch.device(world.device).type == "cuda" else "cpu",
        "torch": torch.__version__,
        "balls": balls(own, asked),
        "text": {kind: int(each.shape[1]) for kind, each in text.items()},
        "rows": [],
    }
    results["neighbours"] = [int(near.shape[1]), int(asked_near.shape[1])]
    for number, layer in enumerate(world.layers):
        for left_out in KINDS:
            seen = torch.cat([each[number] for kind, each in text.items() if kind != left_out] + [near[number]])
            for cut in CUTS:
                whiten = Whitened(seen, cut)
                mine, negatives = whiten(own[number]), whiten(seen)
                for learner in LEARNERS:
                    w, b = {"discriminant": discriminants, "hinge": hinged}[learner](mine, negatives)
                    right = whole_answers(whiten(asked[number]), w, b, fact, token)
                    over = largest(whiten(text[left_out][number]), w, b)
                    points = curve(right, over, largest(whiten(asked_near[number]), w, b))
                    kept, best = verdict(points)
                    setting = {"layer": layer, "unseen": left_out, "cut": cut, "learner": learner}
                    results["rows"].append({**setting, "kept": kept, "best": best, "curve": points})
        write(results)
    return results


def balls(own: Tensor, asked: Tensor) -> Results:
    """At the last of the layers: how far contexts move a state from its key, and how near the next key is (1 − cos)."""
    key, moved = (part / part.norm(dim=-1, keepdim=True) for part in (own[-1, 0], asked[-1]))
    products = key @ key.T
    nearest = 1.0 - products.fill_diagonal_(-1.0).amax(dim=1)
    distance = 1.0 - (moved * key).sum(dim=-1)
    return {
        "moved": [float(each) for each in distance.flatten().quantile(torch.tensor([0.05, 0.5, 0.95]).to(key.device))],
        "least": float(distance.min()),
        "nearest": [float(each) for each in nearest.quantile(torch.tensor([0.05, 0.5]).to(key.device))],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m monolayer_experiments.contexts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("host", type=Path)
    parser.add_argument("edits", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--facts", type=int, default=200)
    parser.add_argument("--contexts", type=int, default=24, help="contexts to learn from")
    parser.add_argument("--places", type=int, default=40_000, help="places of text of each kind")
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 12, 18, 24, 30])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)

    def write(results: Results) -> None:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    world = World(options.host, options.device, tuple(options.layers))
    amount = Amount(options.facts, options.contexts, options.places)
    results = run(world, read_edits(options.edits), amount, 0, write)
    for row in sorted(results["rows"], key=lambda row: -row["best"])[:12]:
        print(row["layer"], row["unseen"], row["cut"], row["learner"], row["kept"], f"{row['best']:.3f}")


if __name__ == "__main__":
    main()
