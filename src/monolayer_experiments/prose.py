"""Text of several kinds that lies on any machine where packages are installed: it was written for other purposes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distributions
from itertools import islice
from pathlib import Path
from typing import Any

import torch

KINDS = ("source", "descriptions", "licences", "documentation")
"""Python source; what packages say of themselves; licences; other text files, such as changelogs and lists of words."""
LONGEST_PIECE = 20_000
"""How many characters of one file are taken: no file is most of the text."""


def installed_text(kind: str, characters: int, seed: int = 0) -> str:
    """So many characters of one of the `KINDS`, from files of installed packages in an order drawn with the seed."""
    packages = {str(_metadata(each).get("Name") or "").lower(): each for each in distributions()}
    names = sorted(packages)
    random.Random(seed).shuffle(names)
    texts, size = list[str](), 0
    for text in (text for name in names for text in _pieces(packages[name], kind)):
        texts.append(text[:LONGEST_PIECE])
        size += len(texts[-1])
        if size >= characters:
            break
    return "\n".join(texts)[:characters]


def _pieces(package: Distribution, kind: str) -> Iterator[str]:
    """The files of one kind in a package; of `source` only the longest ones that are not tests, a few per package."""
    if kind == "descriptions":
        message = _metadata(package)
        yield str(message.get_payload() or message.get("Description") or "")  # its body is the description
        return
    files = sorted(str(file) for file in package.files or ())
    if kind == "source":
        chosen = [name for name in files if name.endswith(".py") and "test" not in name]
    elif kind == "licences":
        chosen = [name for name in files if "licen" in name.lower() and not name.endswith((".py", ".pyc"))]
    else:
        chosen = [
            name for name in files if name.endswith((".txt", ".rst", ".md", ".dict")) and "licen" not in name.lower()
        ]
    for name in islice(chosen, 0, None, max(1, len(chosen) // 8)):
        path = Path(str(package.locate_file(name)))
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue


def _metadata(package: Distribution) -> Any:
    """What a package says of itself: a message of mail. Reading a field that it lacks by index is deprecated."""
    return package.metadata


def windows(tokenizer: Any, text: str, length: int) -> list[list[int]]:
    """The ids of a text in pieces of one length; what is left over at the end is dropped."""
    ids: Sequence[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return [list(ids[at : at + length]) for at in range(0, len(ids) - length + 1, length)]


def drawn(rows: Sequence[list[int]], count: int, seed: int = 0) -> torch.Tensor:
    """Some of the rows, at most `count`, as one tensor."""
    chosen = random.Random(seed).sample(range(len(rows)), min(count, len(rows)))
    return torch.tensor([rows[number] for number in chosen])
