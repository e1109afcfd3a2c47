"""One example per command, which its help opens with, and the greeting of `monolayer` alone.

Together the examples tell a story: each takes files that an earlier one wrote, or one of the user's.
"""

from __future__ import annotations

import inspect

import typer

EXAMPLES = {
    "memorize": "memorize capitals.csv --out model",
    "memorize-files": "memorize-files 'shards/*.csv' --out large",
    "predict": "predict model --text France",
    "verify": "verify model capitals.csv",
    "inspect": "inspect model",
    "explain": "explain model --text France",
    "locate": "locate model capitals.csv",
    "page": "page model --out model.html",
    "memorize-as": "memorize-as bert capitals.csv --out bert",
    "export": "export model capitals.csv --to roberta --out exported",
    "attach": "attach gpt2-folder facts.csv --out with-facts",
    "detach": "detach with-facts --out gpt2-again",
    "recognize": "recognize minilm-folder faq.csv --out faq",
    "memorize-text": "memorize-text book.txt --out book",
    "recite": 'recite book "Once upon"',
    "forget": "forget model gone.csv --data capitals.csv --out without --record gone.json",
    "edit": "edit model changed.csv --data capitals.csv --out edited",
    "insert": "insert model new.csv --data capitals.csv --out larger",
    "undo": "undo without gone.json --out again",
    "compare": "compare model edited",
    "approximate": "approximate sort --dim 1 --length 2 --error 0.2 --out sorter",
    "theorem": "theorem capitals.csv",
    "refute-hardmax": "refute-hardmax --heads 2",
    "audit": "audit exported capitals.csv",
    "demo": "demo",
    "experiment": "experiment precision --out measured",
    "report": "report measured",
}
GREETING = """monolayer builds, without training, a one-layer Transformer that returns every label of your data, and
proves that it does. Three commands to begin with:

  monolayer memorize capitals.csv --out model   build a model of a table, or of JSON, CoNLL, Parquet, npz
  monolayer predict model --text France         ask it
  monolayer verify model capitals.csv           prove all its answers

monolayer demo shows it on a real dictionary; monolayer --help lists all commands."""


def show_examples(app: typer.Typer) -> None:
    """Give every command its name, and put its example behind the first sentence of its help."""
    for command in app.registered_commands:
        name = command.name = command.name or (command.callback.__name__ if command.callback else "")
        text = inspect.cleandoc(command.help or (command.callback.__doc__ if command.callback else "") or "")
        first, *rest = text.split("\n\n")
        command.help = "\n\n".join([first, f"\b\nExample:\n  monolayer {EXAMPLES[name]}", *rest])
