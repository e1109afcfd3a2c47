"""A folder of a stock architecture: what `memorize_as` or `export` wrote, or any other model of Hugging Face."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from monolayer.data.layout import Manner
from monolayer.errors import DataError
from monolayer.huggingface.marks import says_stock
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.saved import Inspected, Saved, Sealed

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.checker.locating.location import Location
    from monolayer.data import Sequences
    from monolayer.data.folder import FolderKind, OpenFolder
    from monolayer.huggingface.bare import LanguageModel
    from monolayer.huggingface.reading import AskedAs
    from monolayer.huggingface.tensors import ModelFiles
    from monolayer.model.monolayer import Monolayer
    from monolayer.stock.folder import StockModel
    from monolayer.table import Progress


@dataclass(frozen=True, eq=False)
class Stock(Saved):
    """A model in the format of an unmodified architecture (docs/stock.md)."""

    path: Path
    files: ModelFiles

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """A `config.json` of Hugging Face without the mark of attached facts."""
        return says_stock(config)

    @classmethod
    def read(cls, opened: OpenFolder) -> Stock:
        """The contents of the files of an open folder."""
        from monolayer.huggingface.opened import read_stock_files

        return cls(opened.path, read_stock_files(opened))

    @cached_property
    def _asked_as(self) -> AskedAs:
        from monolayer.huggingface.reading import asked_as

        return asked_as(self.files)

    @property
    def manner(self) -> Manner:
        """How this folder reads data, by its tokenizer and its draw."""
        asked = self._asked_as
        return Manner(None if asked.names is None else asked.names.cuts, asked.per, form=asked.form)

    @property
    def sealed(self) -> Sealed:
        """Every file of the folder that transformers reads."""
        from monolayer.huggingface.reading import read_folder

        read = read_folder(self.files)
        return Sealed.of(read.digest(), read.content)

    @property
    def next_token(self) -> bool:
        """Whether this is a language model that holds sequences, not prompts and answers."""
        return self._asked_as.next_token

    def check(self, claims: Claims) -> None:
        """Noise and short formats are claimed about robust models of monolayer only."""
        from monolayer.checker.check import check_claims

        check_claims(claims, None)

    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """The certificate, with a note on the one that lies in the folder."""
        from monolayer.checker.certificate import CERTIFICATE_FILE
        from monolayer.checker.check import compared_with_old
        from monolayer.checker.stock.check import judge_stock

        report("checking every label", 0.0)
        proof = judge_stock(self.files, data, only=claims.only, report=report)
        return compared_with_old(self.files.content[CERTIFICATE_FILE], proof)

    def locate(self, data: Sequences) -> Location:
        """The neurons and rows that hold the facts, in a folder of cells."""
        from monolayer.checker.locating.locate import locate_stock
        from monolayer.checker.stock.files import read_stock

        return locate_stock(read_stock(self.files), self._asked_as.names, data)

    def load(self, device: torch.device | str | None = None) -> StockModel:
        """Weights and names, without transformers."""
        from monolayer.stock.folder import StockModel

        if device is not None:
            raise DataError(
                f"{self.path} is a stock folder, which monolayer runs on the CPU only: for other devices, use "
                "transformers"
            )
        return StockModel.of(self.files)

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Evaluated in float64; one class says that the folder does not hold an input."""
        if wanted.told:
            model.check_tells_unknown()
        known = (lambda _, labels: model.known(labels)) if wanted.told else None
        return Asking(
            partial(model.unanswerable, suggest=True), model.answers if model.draw.prompts else model.labels, known
        )

    def inspected(self) -> Inspected:
        """The sizes of the folder; of a language model, also what its tensors show of attached facts."""
        stored = {name: size for name, size in self.files.sizes.items() if size is not None}
        sizes = self.load().sizes if self.language is None else self.language.sizes
        return Inspected({**sizes, "bytes": stored, "bytes_in_all": sum(stored.values())})

    @property
    def replaces(self) -> FolderKind:
        """Other stock folders of monolayer."""
        from monolayer.stock.folder import STOCK

        return STOCK

    @cached_property
    def language(self) -> LanguageModel | None:
        """A host that facts may be attached to, or were, though its files do not say so."""
        from monolayer.huggingface.bare import host_kind, language_model

        try:
            config = json.loads(self.files.demand("config.json"))
        except (ValueError, RecursionError):
            return None
        if host_kind(config) is None:
            return None
        return language_model(self.files.readable().with_tensors())

    def monolayer(self, verb: str) -> Monolayer:
        """Refused: a stock architecture has another stream, and programs of its own."""
        if verb == "page":
            from monolayer.stock.card import in_a_browser

            raise DataError(f"a page runs models of monolayer's own; {in_a_browser(self.load().facts, self.path)}")
        raise DataError(explained(verb, self.path))


def explained(verb: str, folder: Path) -> str:
    """What to use in place of `verb` for a folder of transformers, in words."""
    return (
        f"{verb} does not support stock architectures such as {folder}: `monolayer locate {folder} DATA` shows where "
        f"it holds facts, `monolayer verify {folder} DATA` proves its answers, `monolayer compare` shows where two "
        "folders differ, and `monolayer inspect` its sizes"
    )
