"""The packages of monolayer that faults are planted in: what must not survive there, and which tests are asked.

In `checker`, a fault that *proves more* must not survive: one with which the checker claims a proof, a wider margin or
more noise where the true one does not (`planted_corpus.py`). In `data`, `attaching`, `cluster` and `model`, one that
*gives another answer*: a prediction, a model or read data that differ from what the true code gives, without an error
(`planted_answers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import planted_answers
import planted_corpus

ROOT = Path(__file__).parent.parent


class Criterion(NamedTuple):
    """How a fault is called that does harm on the corpus, and one that only makes the code do less."""

    harm: str
    less: str


PROOFS = Criterion("proves more", "proves less")
ANSWERS = Criterion("another answer", "refuses")


class Package(NamedTuple):
    """A package, the files of tests that execute it, and what must not survive in it."""

    name: str
    tests: tuple[str, ...]
    criterion: Criterion = ANSWERS

    @property
    def folder(self) -> Path:
        return ROOT / "src" / "monolayer" / self.name

    @property
    def module(self) -> str:
        return f"monolayer.{self.name}"

    @property
    def prefix(self) -> str:
        """What keys of the reviewed faults of this package begin with; those of the checker with its own files."""
        return "" if self is CHECKER else f"{self.name}/"

    def corpus(self, scratch: Path, files: Collection[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """The questions that tell whether a fault in one of these files does harm."""
        if self is CHECKER:
            return planted_corpus.corpus(scratch, files)
        return planted_answers.QUESTIONS[self.name](scratch / "corpus")

    def concerns(self, question: str, file: str) -> bool:
        """Whether a question can tell anything of a fault in a file."""
        return self is not CHECKER or planted_corpus.concerns(question, file)

    def reviewed(self, sentences: dict[str, str]) -> dict[str, str]:
        """Those of the reviewed faults that are about this package."""
        others = tuple(package.prefix for package in PACKAGES.values() if package is not CHECKER)
        own = {pattern: pattern.removeprefix("^").startswith(others) for pattern in sentences}
        if self is CHECKER:
            return {pattern: why for pattern, why in sentences.items() if not own[pattern]}
        return {pattern: why for pattern, why in sentences.items() if pattern.removeprefix("^").startswith(self.prefix)}


CHECKER = Package(
    "checker",
    (
        "attach", "attached_bounds", "attached_lemmas", "attached_texts", "attack", "cascade", "certify",
        "certify_attached", "certify_cells", "certify_changed", "certify_data", "certify_stock",
        "edit_attached", "edit_stock", "enclosed", "files", "folder", "format", "friendly", "gaps", "given",
        "heads", "locate", "lookup", "meant", "prompts", "questions_bounds", "questions_forms",
        "questions_lemmas", "readers", "real_labels", "recite", "recognize", "resaved", "robust",
        "robust_attacks", "rounding", "several", "shapes", "stock", "stock_bounds", "stock_files",
        "stock_folder", "stock_points", "stock_structure", "sup", "tried", "uniform", "unknown",
    ),
    PROOFS,
)  # fmt: skip
PACKAGES = {
    "checker": CHECKER,
    "cluster": Package("cluster", ("files", "several", "gaps", "unknown", "recite", "meant")),
    "model": Package(
        "model",
        (
            "approximate", "cascade", "contract", "device_builds", "explain", "folder", "format", "gated", "gaps",
            "heads", "lookup", "memorize", "memory", "model", "model_answers", "onnx", "quantizer", "rank_one",
            "real_labels", "recite", "record", "robust", "several", "sup", "tensors", "torch_settings", "uniform",
            "unknown",
        ),
    ),
    "attaching": Package(
        "attaching",
        ("apart", "attach", "attached_answers", "attached_texts", "certify_attached", "directions", "edit_attached",
         "prompts", "radii", "recognize", "templates"),
    ),
    "data": Package(
        "data",
        (
            "readings", "certify_data", "files", "folder", "form", "friendly", "gaps", "given", "labelling", "limits",
            "lookup", "meant", "memorize", "names_and_numbers", "places", "prompts", "readers", "real_labels",
            "recite", "sequences", "shapes", "subnormal", "unknown",
        ),
    ),
}  # fmt: skip
