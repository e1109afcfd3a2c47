"""Facts attached to a language model beside methods that change its weights: the same host, the same facts.

The host is a GPT-2 that is trained here, on Python source of installed packages and on sentences about made-up
airports, each in three wordings. Facts are about airports that it has not heard of, in the first wording; the other two
are the rewordings that nobody teaches. The airports lie in cities that the host knows, as in the benchmarks of editors:
a small host cannot be edited to say a word that it never said. `attach`, fine-tuning of all weights, LoRA, ROME and
MEMIT put the facts in.

Measured by free generation: how many facts come back (efficacy), how many in the other wordings (paraphrase), and how
many of the airports that the host knew are still right. Measured by logits, on held-out text: at how many places any of
them changes, and the mean KL divergence (locality).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import monolayer as ml
from monolayer.table import Progress
from monolayer_experiments.chance import above
from monolayer_experiments.editors import (
    PROMPT,
    SUBJECT,
    Descent,
    Lesson,
    Part,
    changes_at,
    covariance,
    finetuned,
    lora,
    lora_by,
    memit,
    right,
    rome,
)
from monolayer_experiments.experiment import Figure, Results, Setting, Table
from monolayer_experiments.hosts import (
    Airport,
    Size,
    airports,
    byte_tokenizer,
    changed,
    goes_on,
    ids_of,
    load,
    new_host,
    save,
    sentences,
    source_text,
    train,
)
from monolayer_experiments.look import amount, column, distinct, figure, line, share, table, where
from monolayer_experiments.runs import timed

QUESTION = "What do facts cost that are attached to a language model, beside methods that change its weights?"

PLAN = {
    "host": (Size(2, 128, 40, 16, 0.05, 2e-3), Size(8, 512, 256, 96, 0.02)),
    "steps": (350, 2_000),
    "megabytes": (0.005, 12.0),
    "vocabulary": (448, 8_192),
    "known": (40, 2_000),
    "lines": (4_000, 100_000),
    "facts": ((5, 15), (10, 100, 1_000)),
    "rome": (5, 100),
    "epochs": (40, 40),
    "delta_rates": ((0.3,), (0.1, 0.3)),
    "delta_steps": (20, 25),
    "places": (2_000, 100_000),
    "sampled": (4_000, 200_000),
}
"""Quick and full: the host, steps and megabytes of source that it is trained on, tokens of its tokenizer, airports that
it knows and lines about them, numbers of facts, the largest number for ROME, epochs of training methods, rates and
steps of the gradient descent in ROME and MEMIT, places of held-out text, and places for covariances."""
METHODS = {"attach": "blue", "fine-tuning": "red", "LoRA": "orange", "ROME": "violet", "MEMIT": "green"}
FINETUNING_RATES, LORA_RATES = (1e-5, 3e-5, 1e-4, 1e-3), (3e-4, 1e-3, 3e-3, 1e-2)
WEIGHTS = (1_500.0, 150.0, 15.0)
"""λ of MEMIT. Its authors take 15,000 with eight times as many neurons: one fact is written in full where λ is small
beside kᵀC⁻¹k, which is about the number of neurons."""
KEPT = {"ROME": 3, "MEMIT": 4}
"""How many settings, the best with the number of facts before, are tried with the next number of facts."""


class Site(NamedTuple):
    """Where ROME and MEMIT write: at the last token of the subject or of the prompt, and behind which layers.

    ROME writes to the last of the layers.
    """

    place: str
    layers: range

    def __str__(self) -> str:
        return f"{self.place}, layers {self.layers[0]} to {self.layers[-1]}"


CONTEXTS = 2
"""How many ends of sentences ROME and MEMIT put before a prompt, each by itself, to take means over."""
REDRAWN = 5
"""How often other facts are drawn, at most, where the host does not tell some apart."""
Made = tuple[Any, int]


def sites(layers: int) -> list[Site]:
    """Where ROME and MEMIT are tried in a host of so many layers.

    A small host reads a name early, so writing at the subject is tried behind the first layers; writing at the end of
    the prompt, in the middle and behind it.
    """
    early = [Site(SUBJECT, range(max(0, last - 2), last + 1)) for last in sorted({0, 1, 2} & {*range(layers)})]
    late = sorted({layers // 4, layers // 2, 3 * layers // 4})
    return early + [Site(PROMPT, range(max(0, last - 2), last + 1)) for last in late]


def run(plan: Results, setting: Setting, progress: Progress) -> Results:
    """Attach facts to a trained host and put them in by other methods, and measure recall, rewordings and harm.

    `plan`: the sizes of `PLAN`, quick or full. `setting`: device and seed. `progress` is told how far it is. The result
    holds raw numbers that JSON can hold.
    """
    with tempfile.TemporaryDirectory() as scratch:
        progress("training the host", 0.0)
        world = _World(plan, setting, Path(scratch))
        before = world.known_right(world.host)
        rows: list[Results] = []
        trials = [(count, method) for count in plan["facts"] for method in METHODS]
        for number, (count, method) in enumerate(trials):
            progress(f"{method}, {count:,} facts", 0.2 + 0.8 * number / len(trials))
            if method == "attach":
                world.draw_facts(count)
            if method != "ROME" or count <= plan["rome"]:
                rows.append({"facts": count, "method": method, **world.measured(method)})
    return {
        "host": {"layers": world.size.layers, "width": world.size.width, "steps": world.trained.steps},
        "loss": world.trained.loss,
        "trained_seconds": world.trained.seconds,
        "known": len(world.known),
        "known_right": before,
        "lora_by": lora_by(),
        "rome_most": plan["rome"],
        "kept": KEPT,
        "redrawn": world.redrawn,
        "rows": rows,
    }


class _World:
    """The host, what it knows, the texts that it is compared on, and the facts of the moment."""

    def __init__(self, plan: Results, setting: Setting, scratch: Path) -> None:
        self.plan, self.setting, self.scratch = plan, setting, scratch
        self.size = Size(*plan["host"])
        self.device = setting.device
        # The last ones are never mentioned while the host is trained: facts are about them.
        everyone = airports(plan["known"] + (REDRAWN + 1) * max(plan["facts"]), setting.seed + 1)
        self.known = everyone[: plan["known"]]
        cities = itertools.cycle(airport.city for airport in self.known)
        self.unheard = [airport._replace(city=next(cities)) for airport in everyone[plan["known"] :]]
        lines, source = sentences(self.known, plan["lines"], setting.seed), source_text(plan["megabytes"])
        self.tokenizer = byte_tokenizer(f"{lines}\n{source}", plan["vocabulary"])
        code = ids_of(self.tokenizer, source)
        room = min(len(code) // 4, plan["places"] // 2)
        ids = torch.cat([ids_of(self.tokenizer, lines), code[:-room]])
        model = new_host("gpt2", len(self.tokenizer), self.size, setting.seed)
        self.trained = train(model, ids, self.size, steps=plan["steps"], device=self.device, seed=setting.seed)
        self.folder = save(model, self.tokenizer, scratch / "host")
        self.host = load(self.folder, self.device).requires_grad_(False)
        other = ids_of(self.tokenizer, sentences(self.known, plan["places"] // 20, setting.seed + 1))
        self.texts = [*_windows(code[-room:], self.size.context), *_windows(other[:room], self.size.context)]
        draw = torch.Generator().manual_seed(setting.seed)
        starts = torch.randint(0, len(ids) - self.size.context, (plan["sampled"] // self.size.context,), generator=draw)
        self.sampled = [ids[at : at + self.size.context].tolist() for at in starts.tolist()]
        # Beginnings that ROME and MEMIT take means over: none, and ends of sentences that the host was trained on.
        self.contexts = ("", *(f"{airport.city}." for airport in self.known[:CONTEXTS]))
        self.covariances: dict[int, torch.Tensor] = {}
        self.redrawn = 0
        self.ranked: dict[str, list[str]] = {}

    def draw_facts(self, count: int) -> None:
        """Facts that the host tells apart; where it does not, others are drawn, and counted."""
        for turn in range(REDRAWN + 1):
            self.facts = self.unheard[turn * count : (turn + 1) * count]
            try:
                pairs = {fact.prompts()[0]: fact.answer for fact in self.facts}
                self.made, self.seconds = timed(ml.attach, self.folder, pairs, device=self.device)
                break
            except ml.PrecisionError:
                self.redrawn += 1
                if turn == REDRAWN:
                    raise
        self.lesson = Lesson(self.tokenizer, self.facts, self.device)
        self.changes: dict[tuple[Site, float], tuple[torch.Tensor, float]] = {}

    def measured(self, method: str) -> Results:
        """What a method does with these facts, at the setting that has most of them right.

        Of several such settings, it is the one that has most rewordings right, and then the first.
        """
        if method == "attach":
            folder = self.made.save(self.scratch / f"attached-{len(self.facts)}")
            model, numbers = load(folder, self.device), sum(part.numel() for part in self.made.tensors.values())
            about = {"seconds": self.seconds, "search": self.seconds, "numbers": numbers, "setting": "—", "grid": {}}
            about["grid_reworded"] = {}
            return {**about, **self.scores(model)}
        wanted, reworded = self.lesson.batch(), self.lesson.batch(Part(wording=1), Part(wording=2))
        score, name, made, spent = (-1.0, -1.0), "", None, 0.0
        scores, search = dict[str, tuple[float, float]](), 0.0
        for tried, make in self.settings(method).items():
            self.reused = 0.0  # seconds of what this setting takes over from an earlier one
            built, seconds = timed(self._finished, make)
            scores[tried] = (right(built[0], wanted), right(built[0], reworded))
            search += seconds
            if scores[tried] > score:
                score, name, made, spent = scores[tried], tried, built, seconds + self.reused
        assert made is not None  # every method has settings
        self.ranked[method] = sorted(scores, key=lambda tried: scores[tried], reverse=True)
        about = {"seconds": spent, "search": search, "numbers": made[1], "setting": name}
        grid = {tried: facts for tried, (facts, _) in scores.items()}
        grid_reworded = {tried: others for tried, (_, others) in scores.items()}
        return {**about, "grid": grid, "grid_reworded": grid_reworded, **self.scores(made[0])}

    def _finished(self, make: Callable[[], Made]) -> Made:
        """What a method makes, once the device has finished: a GPU works behind the clock."""
        made = make()
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize(self.device)
        return made

    def settings(self, method: str) -> Mapping[str, Callable[[], Made]]:
        """The settings of a method that are tried, by name, the gentlest first."""
        lesson, host, epochs, seed = self.lesson, self.host, self.plan["epochs"], self.setting.seed
        if method == "fine-tuning":
            return {f"rate {rate:g}": partial(finetuned, host, lesson, rate, epochs, seed) for rate in FINETUNING_RATES}
        if method == "LoRA":
            return {f"rate {rate:g}": partial(lora, host, lesson, rate, epochs, seed) for rate in LORA_RATES}
        makers = dict[str, Callable[[], Made]]()
        for site, rate in itertools.product(sites(self.size.layers), self.plan["delta_rates"]):
            if method == "ROME":
                makers[f"{site.place}, layer {site.layers[-1]}, rate {rate:g}"] = partial(self._rome, site, rate)
            else:
                for weight in WEIGHTS:
                    makers[f"{site}, rate {rate:g}, λ {weight:g}"] = partial(self._memit, site, rate, weight)
        # All of them would take long with many facts.
        kept = self.ranked[method][: KEPT[method]] if method in self.ranked else list(makers)
        return {name: make for name, make in makers.items() if name in kept}

    def _at(self, site: Site) -> Lesson:
        return replace(self.lesson, place=site.place)

    def _descent(self, rate: float) -> Descent:
        return Descent(rate, self.plan["delta_steps"])

    def _rome(self, site: Site, rate: float) -> Made:
        layer = site.layers[-1]
        return rome(self.host, self._at(site), layer, self._descent(rate), self.covariance(layer), self.contexts)

    def _memit(self, site: Site, rate: float, weight: float) -> Made:
        Cs, lesson = [self.covariance(layer) for layer in site.layers], self._at(site)
        if (site, rate) in self.changes:  # found for another λ, on which they do not depend
            delta, self.reused = self.changes[site, rate]
        else:
            last, by = site.layers[-1], self._descent(rate)
            delta, seconds = timed(changes_at, self.host, lesson, last, self.contexts, by)
            self.changes[site, rate] = delta, seconds
        return memit(self.host, lesson, site.layers, delta, weight, Cs, self.contexts)

    def covariance(self, layer: int) -> torch.Tensor:
        """`C` of a layer of the host, computed once."""
        if layer not in self.covariances:
            self.covariances[layer] = covariance(self.host, layer, self.sampled, self.device)
        return self.covariances[layer]

    def scores(self, model: Any) -> Results:
        difference = changed(self.host, model, self.texts)
        return {
            "efficacy": self.answered(model, [(fact.prompts()[0], fact.answer) for fact in self.facts]),
            "paraphrase": self.answered(
                model, [(prompt, fact.answer) for fact in self.facts for prompt in fact.prompts()[1:]]
            ),
            "known_right": self.known_right(model),
            "chance": 1.0 / len({fact.answer for fact in self.facts}),
            "places": difference.places,
            "of": difference.of,
            "divergence": difference.divergence,
        }

    def known_right(self, model: Any) -> float:
        """The share of airports that the host was trained on whose city comes out."""
        some: Sequence[Airport] = self.known[:300]
        return self.answered(model, [(airport.prompts()[0], airport.answer) for airport in some])

    def answered(self, model: Any, pairs: list[tuple[str, str]]) -> float:
        """The share of prompts from which the model goes on with the answer, up to a full stop or its end token."""
        replies = goes_on(model, self.tokenizer, [prompt for prompt, _ in pairs], tokens=12)
        right = sum(reply.partition(".")[0] == answer for reply, (_, answer) in zip(replies, pairs, strict=True))
        return right / len(pairs)


def _windows(ids: torch.Tensor, length: int) -> list[list[int]]:
    return [ids[at : at + length].tolist() for at in range(0, len(ids) - length + 1, length)]


def _against(rows: list[Results]) -> str:
    """The method that does best on rewordings of the fewest facts, which attaching does not recognize at all."""
    fewest = min(column(rows, "facts"))
    best = max(where(rows, facts=fewest), key=lambda row: float(row["paraphrase"]))
    if best["method"] == "attach" or best["paraphrase"] == 0.0:
        return ""
    return (
        f" Against us: with {fewest:,} facts {best['method']} has {share(best['efficacy'])} of them right and "
        f"{share(best['paraphrase'])} of their rewordings."
    )


def answer(results: Results) -> str:
    """Answer `QUESTION` in a sentence or two, from the raw `results` of `run`."""
    host = results["host"]
    attached = where(results["rows"], method="attach")
    counts = ", ".join(f"{row['facts']:,}" for row in attached)
    came = "every fact came back" if min(column(attached, "efficacy")) == 1.0 else "NOT every fact came back"
    untouched = max(column(attached, "places")) == 0
    bits = "no bit of any logit changed on other text" if untouched else "SOME logits changed on other text"
    guessed = " (where one is right, the host guessed it)" if max(column(attached, "paraphrase")) > 0.0 else ""
    return (
        f"Of {counts} facts attached to a GPT-2 ({host['layers']} layers, width {host['width']}), {came} by free "
        f"generation, and {bits}; rewordings are not recognized, by design{guessed}."
        f"{_against(results['rows'])}"
    )


def figures(results: Results) -> list[Figure]:
    """The figures of the report page, drawn from the raw `results` of `run`."""
    shown = {
        "paraphrase": "Facts that come back in other words",
        "efficacy": "Facts that come back",
        "known_right": "Airports that the host knew, still right",
    }
    pictures = []
    for key, title in shown.items():
        traces = []
        for method in distinct(results["rows"], "method"):
            rows = where(results["rows"], method=method)
            traces.append(line(method, column(rows, "facts"), column(rows, key), METHODS[method]))
        pictures.append(
            figure(title, traces, ("facts", "share"), "By free generation.", log="x", range_y=(-0.05, 1.05))
        )
    traces = []
    for method in distinct(results["rows"], "method"):
        rows = where(results["rows"], method=method)
        shares = [row["places"] / row["of"] for row in rows]
        traces.append(line(method, column(rows, "facts"), shares, METHODS[method]))
    caption = "Held-out source and sentences about airports that the host knew."
    pictures.append(figure("Places of other text where a logit changes", traces, ("facts", "share"), caption, log="x"))
    return pictures


def tables(results: Results) -> list[Table]:
    """The tables of the report page, filled from the raw `results` of `run`."""
    head = (
        "facts; method; setting; efficacy: efficacy %; rewordings: paraphrase %; places that change: changes; mean KL: "
        "divergence; known airports right: known_right %; seconds; with the search: search; numbers changed: numbers"
    )
    tried = [
        {"facts": row["facts"], "method": row["method"], "setting": name, "right": found}
        | {"reworded": row["grid_reworded"][name]}
        for row in results["rows"]
        for name, found in row["grid"].items()
    ]
    most = max(column(results["rows"], "facts"))
    brief = (
        "method; facts right: efficacy %; rewordings: paraphrase %; places of other text that change: changed %; "
        "airports that the host knew: known_right %; seconds"
    )
    return [
        table(
            f"With {most:,} facts",
            where(results["rows"], facts=most),
            brief,
            efficacy=lambda row: _efficacy(row),
            changed=lambda row: row["places"] / row["of"],
        ),
        table(
            "Methods",
            results["rows"],
            head,
            changes=lambda row: f"{row['places']:,} of {row['of']:,}",
            efficacy=lambda row: _efficacy(row),
        ),
        table(
            "Settings that were tried",
            tried,
            "facts; method; setting; facts right, token by token: right %; rewordings right likewise: reworded %",
        ),
    ]


def _efficacy(row: Results) -> str:
    guess = "" if above(row["efficacy"], row["chance"], row["facts"]) else " (no more than guessing)"
    return share(row["efficacy"]) + guess


def limits(results: Results) -> str:
    """Say in one paragraph what the experiment does not show, with the sizes in the raw `results` of `run`."""
    count = results["redrawn"]
    drawn = f" attach refused {count} draws of facts, and others were drawn." if count else ""
    kept = results["kept"]
    tuned = (
        "Each method is shown at the setting that has most facts right, token by token, and among such settings most "
        "rewordings, which favours the methods that attach is compared with: fine-tuning and LoRA over four learning "
        "rates, ROME and MEMIT over places to write at, layers, rates and λ, with the fewest facts; with more, over "
        f"the settings that were best with fewer: {kept['ROME']} of ROME and {kept['MEMIT']} of MEMIT. "
    )
    missing = [
        f"{method} with {count:,} facts"
        for count in distinct(results["rows"], "facts")
        for method in METHODS
        if not where(results["rows"], facts=count, method=method)
        and (method != "ROME" or count <= results["rome_most"])
    ]
    left_out = f" Not measured, since the time on the machine ended: {', '.join(missing)}." if missing else ""
    return (
        f"One small host, trained for {results['host']['steps']:,} steps (loss {amount(results['loss'])}; it says "
        f"{share(results['known_right'])} of the {results['known']:,} airports that it was taught), and facts of one "
        f"form. {tuned}LoRA by {results['lora_by']}; ROME and MEMIT after their papers, since no package of them "
        "installs beside this PyTorch. ROME writes one fact after the other and was run up to "
        f"{results['rome_most']:,} facts; MEMIT is its form for many.{drawn}{left_out} attach answers at its own "
        "prompts alone: whoever wants rewordings adds them as rows."
    )
