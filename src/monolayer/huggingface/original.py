"""What `attached.json` and `questions.json` both say: which model was there before, byte for byte, and what was added.

`Manifest` (`manifest.py`, facts) and `QuestionsManifest` (`questions.py`) add what is known of facts and of questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from monolayer.data import Sequences
from monolayer.data.folder import INDEX_FILE
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.objects import JsonFields
from monolayer.errors import ModelFileError
from monolayer.huggingface.given import GivenModel
from monolayer.huggingface.host import COPIED, TOKENIZER
from monolayer.huggingface.marks import has_mark
from monolayer.huggingface.tensors import ModelFiles, file_digest
from monolayer.huggingface.versioned import Typed, Versioned, check_types, table_of_texts


@dataclass(frozen=True, kw_only=True)
class OriginalManifest(ABC):
    """A JSON file beside the weights that says what the model was before something was stored in it.

    - `config`, `index`: the original `config.json` and the index of shards, if there is one, as text.
    - `headers`: the headers of the original files of weights, as text, by the names of the files. With the tensors,
      which fill the rest of a file, they are the whole file (`headers.py`).
    - `files`: digests of the files that were copied.
    - `tensors`, `appended`: digests of the original tensors, by their names in the new folder, and of those that were
      added.
    - `form`: the form of the files or tables that the data were read from, if they were.
    - `measured`: what was measured when the data were stored.
    """

    config: str
    index: str | None
    headers: Mapping[str, str]
    files: Mapping[str, str]
    tensors: Mapping[str, str]
    appended: Mapping[str, str]
    form: SourceForm | None = None
    measured: Mapping[str, object] = field(default_factory=dict)
    stored_as: ClassVar[Versioned]
    """The name and the version of the file."""
    way_out: ClassVar[str] = ""
    """What to do if the file is missing."""
    plain: ClassVar[Manner]
    """How data are read where the file cannot be."""
    mark: ClassVar[Mapping[str, object]]
    """What `config.json` of the folder says, so that the folder is recognized."""

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """Whether the content of a `config.json` says that the folder has such a file."""
        return has_mark(config, cls.mark)

    @classmethod
    def in_folder(cls, folder: ModelFiles) -> Self:
        """What the file in a folder says; a `ModelFileError` if it is missing, or was written by something else."""
        name = cls.stored_as.name
        if name not in folder.content:
            raise ModelFileError(f"{name} is missing{cls.way_out}")
        return cls.from_json(folder.content[name])

    @classmethod
    def manner_in(cls, folder: ModelFiles) -> Manner:
        """How to read data that a folder is asked about.

        Its usual manner if the file is missing or damaged; whatever reads the rest of the folder says so.
        """
        try:
            return cls.in_folder(folder).manner
        except ModelFileError:
            return cls.plain

    @property
    @abstractmethod
    def manner(self) -> Manner:
        """How to read data that the folder is asked about: in the form of what was stored."""

    def to_json(self) -> str:
        """The text of the file."""
        return self.stored_as.text(asdict(self))

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Read the bytes of the file; a `ModelFileError` if they are not such a manifest."""
        return cls.stored_as.read(content, cls._of)

    @classmethod
    def _of(cls, fields: JsonFields) -> Self:
        """The manifest with these fields, which are checked."""
        manifest = cls(**fields | cls._parts(fields) | {"form": SourceForm.from_json(fields["form"])})
        manifest._check()
        return manifest

    @classmethod
    @abstractmethod
    def _parts(cls, fields: JsonFields) -> dict[str, Any]:
        """Those fields that are objects of their own, made of what JSON has in their place."""

    def _typed(self) -> list[Typed]:
        """The fields with the types that they must have."""
        tables = [table_of_texts(name, getattr(self, name)) for name in ("headers", "files", "tensors", "appended")]
        return [
            ("config", self.config, str),
            ("index", self.index, (str, type(None))),
            ("measured", self.measured, dict),
            *(each for table in tables for each in table),
        ]

    def _check(self) -> None:
        """Check the types and ranges of all values that are used later; a `ValueError` names the field."""
        check_types(self._typed())
        if TOKENIZER not in self.files or not set(self.files) <= set(COPIED):
            raise ValueError("files")


def original_fields(model: GivenModel, source: ModelFiles, data: Sequences) -> dict[str, Any]:
    """The fields of a manifest that follow from the original model, its files, and how `data` were read."""
    content = source.content
    return {
        "config": content["config.json"].decode("utf-8"),
        "index": content[INDEX_FILE].decode("utf-8") if INDEX_FILE in content else None,
        "files": {name: file_digest(content[name]) for name in COPIED if name in content},
        "tensors": {name: tensor.digest() for name, tensor in model.tensors.items()},
        "appended": {},
        "form": SourceForm.of(data.plans),
    }


__all__ = ["OriginalManifest", "original_fields"]
