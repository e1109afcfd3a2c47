"""The pages of the API: an index, `docs/api.md`, and a page per public name in `docs/api/`.

`python docs/figures/api.py` writes them; a test compares. What a page shows comes from the docstrings when the site is
built, and the sentence in the index is their first.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import monolayer as ml

DOCS = Path(__file__).parent.parent
GROUPS: dict[str, dict[str, str]] = {
    # names, and the members that their pages show
    "Build": {
        "memorize": "",
        "memorize_files": "",
        "memorize_text": "",
        "memorize_as": "",
        "export": "",
        "attach": "",
        "detach": "",
        "recognize": "",
        "approximate": "",
        "MonolayerClassifier": "fit, predict",
    },
    "Models": {
        "load": "",
        "Monolayer": "forward, predict, seen, recite, generate, encode, labels, save, summary",
        "monolayer.stock.folder.StockModel": "predict, save, summary",
        "monolayer.attaching.questions.folder.Recognizer": "predict, save, report",
        "Uniform": "forward, predict, save, load",
        "attention": "",
    },
    "Prove": {
        "certify": "",
        "Certificate": "explain, save, to_json",
        "statement": "",
        "confuse": "",
        "locate": "",
        "monolayer.checker.locating.location.Location": "ablate, graph, table, to_json",
        "monolayer.checker.locating.location.Place": "neurons, to_json",
    },
    "Edit and forget": {
        "forget": "",
        "edit": "",
        "insert": "",
        "Facts": "of, model, data",
        "Record": "apply, undo, save, load, explain",
        "compare": "",
    },
    "Theory": {
        "theorem": "",
        "separation": "",
        "contextual_mapping": "",
        "refute_hardmax": "",
        "audit": "",
        "monolayer.auditing.parts.AuditedPart": "",
    },
    "Data": {"read": "", "Sequences": "of, select, split"},
}
ERRORS = ["MonolayerError", "DataError", "ContradictionError", "ModelFileError", "OutOfMemoryError", "PrecisionError"]
TOP = """# Python

`import monolayer as ml`. Names are `ml.NAME`; `StockModel`, `Recognizer`, `Location`, `Place` and `AuditedPart` are
what functions return. Each has a page.
"""


def page(path: str, members: str) -> str:
    """The page of an object."""
    options = f"      members: [{members}]\n" if members else ""
    return f"::: {path}\n    options:\n      heading_level: 1\n{options}"


def _object(name: str) -> tuple[str, str, object]:
    """The last name, the whole path, and the object of an entry."""
    if "." in name:
        module, _, last = name.rpartition(".")
        return last, name, getattr(__import__(module, fromlist=[last]), last)
    found = getattr(ml, name)
    return name, f"{found.__module__}.{found.__name__}", found


def first_sentence(found: object) -> str:
    """The first sentence of a docstring."""
    paragraph = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")
    return paragraph.partition(". ")[0].rstrip(".") + "."


def pages() -> dict[str, str]:
    """All pages, by their names below `docs/`."""
    made, index = dict[str, str](), [TOP]
    for group, names in GROUPS.items():
        index.append(f"## {group}\n\n| name | what it does |\n|---|---|")
        for name, members in names.items():
            last, path, found = _object(name)
            made[f"api/{last}.md"] = page(path, members)
            index.append(f"| [`{last}`](api/{last}.md) | {first_sentence(found)} |".replace("||", "\\|\\|"))
        index[-1] += "\n"
    index.append("## Errors\n\n| name | when it is raised |\n|---|---|")
    index += [f"| [`{name}`](api/errors.md) | {first_sentence(getattr(ml, name))} |" for name in ERRORS]
    made["api/errors.md"] = "# Errors\n\n::: monolayer.errors\n    options:\n      show_root_heading: false\n"
    return made | {"api.md": "\n".join(index) + "\n"}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
