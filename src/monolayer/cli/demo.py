"""`monolayer demo`: the tour on a real dataset, a dictionary of Chinese phrases and their readings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from monolayer.cli.console import Json, app, escape, out, print_json, progress, table
from monolayer.cli.construct import check
from monolayer.cli.summary import Built
from monolayer.errors import DataError

SHOWN = ("你好", "银行", "行走", "音乐", "快乐", "长城", "校长", "重要", "重复")
"""Phrases that a person can check; 行, 乐, 长 and 重 are read in two ways among them."""


@app.command()
def demo(
    save: Annotated[Path | None, typer.Option("--out", help="Also save the model to this folder.")] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Use the small built-in phrases, also where the dictionary is installed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Memorize how every character of 411,957 Chinese phrases is read, check all of them, and prove it."""
    from monolayer.checker import certify
    from monolayer.construct.memorize import memorize
    from monolayer.data.phrases import phrases, tiny_phrases

    note = ""
    with progress(as_json) as step:
        step("reading the dictionary", 0.0)
        try:
            data = tiny_phrases() if tiny else phrases()
        except DataError as error:
            data, note = tiny_phrases(), f"{error}\nUsing the {len(tiny_phrases())} built-in phrases instead."
        model = memorize(data, positions=True, progress=step)
        step("checking every character", 0.9)
        right, total, seconds = check(model, data)
        step("proving it from the saved weights", 0.95)
        began = time.perf_counter()
        proof = certify(model, data)
        seconds_proof = time.perf_counter() - began
        if save is not None:
            proof.save(model.save(save))
    facts = Built(model, data, right, total, seconds)
    assert data.vocabulary is not None  # characters have names
    known = {"".join(map(str, row)) for row in data.split(data.vocabulary.decode(data.tokens))}
    asked = [phrase for phrase in SHOWN if phrase in known]
    answers = dict(zip(asked, (list(row) for row in model.predict(asked)), strict=True))
    if as_json:
        print_json({**facts.json(), "answers": answers, "verdict": proof.verdict, "seconds_proof": seconds_proof})
        return
    if note:
        out.print(f"[yellow]{escape(note)}[/]\n")
    out.print("One layer, one head, rank-1 weights, no training. What it answers:\n")
    for phrase, reading in answers.items():
        out.print(f"  {phrase}  {' '.join(reading)}")
    out.print(f"\n{_two_readings(answers)}\n")
    words = f"{proof.verdict} in {seconds_proof:.2f} s: {proof.claim}"
    table("the model", [*facts.rows(), ("certificate", words)])


def _two_readings(answers: dict[str, list[str]]) -> str:
    """A character that is read differently in two of the phrases: what a table of characters could not do."""
    seen: dict[str, tuple[str, str]] = {}
    lines = []
    for phrase, reading in answers.items():
        for character, sound in zip(phrase, reading, strict=True):
            before = seen.setdefault(character, (sound, phrase))
            if before[0] != sound:
                lines.append(f"{character} is {before[0]} in {before[1]} and {sound} in {phrase}.")
    return "The same character, read by its context: " + " ".join(lines)
