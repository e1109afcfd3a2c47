"""The model that facts or questions were stored in, as it was before, byte for byte."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from monolayer.attaching.extended import ExtendedModel
from monolayer.data.aside import read_regular
from monolayer.data.folder import INDEX_FILE, FolderKind, new_folder
from monolayer.errors import ModelFileError
from monolayer.huggingface.given import GivenModel
from monolayer.huggingface.headers import write_file
from monolayer.huggingface.tensors import file_digest
from monolayer.model.torch_settings import own_settings
from monolayer.table import as_html, as_table, plural


@dataclass(frozen=True)
class OriginalFolder(FolderKind):
    """Folders that the original may replace: those with something stored, and those with the same `config.json`."""

    config: str = ""
    called: str = ""

    def objection(self, folder: Path) -> str | None:
        """Why `folder` may not be replaced, as a clause for an error; None if it may."""
        with suppress(OSError):
            if read_regular(folder / "config.json") == self.config.encode():
                foreign = self.foreign(folder)
                return None if foreign is None else f"it holds {foreign!r}, which is not a file of the {self.called}"
        return super().objection(folder)


@dataclass(frozen=True, eq=False)
class Detached:
    """The original of a folder with facts or questions; `save` writes its files as they were before."""

    attached: ExtendedModel

    @property
    def host(self) -> GivenModel:
        """The model without what was stored in it."""
        return self.attached.original

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all: configuration, weights and tokenizer, byte for byte as they were.

        `overwrite`: replace a folder in which something was stored, such as the one that was detached, or one that
        holds the original already. Any other folder stays. Of an encoder, other files that lay beside these, such as
        those of sentence-transformers, are not kept, and not written.
        """
        manifest, weights = self.attached.manifest, self.attached.weights
        files = list(self.attached.original_weights())
        for each in (listed for file in files for listed in file.listed):
            if each.name not in weights or len(weights[each.name].data) != each.size:
                raise ModelFileError(
                    f"{manifest.stored_as.name} lists the tensor {each.name} in a file of the {self.host.called}, and "
                    "no file holds it"
                )
        with new_folder(folder, overwrite=overwrite, kind=self._kind) as scratch:
            for file in files:
                write_file(scratch / file.name, file.header, (weights[each.name].data for each in file.listed))
            for name, content in self.attached.beside.items():
                (scratch / name).write_bytes(content)
            (scratch / "config.json").write_bytes(manifest.config.encode())
            if manifest.index is not None:
                (scratch / INDEX_FILE).write_bytes(manifest.index.encode())
        return Path(folder)

    @property
    def _kind(self) -> OriginalFolder:
        """The folders that `save` may replace with `overwrite=True`."""
        kind = self.attached.folders
        return OriginalFolder(
            kind.name, kind.key, kind.files, kind.numbered, self.attached.manifest.config, self.host.called
        )

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        host, count = self.host, sum(1 for _ in self.attached.original_tensors())
        return [
            (host.called, f"{host.model}, {plural(host.layers, 'layer')}, width {host.width:,}, {host.dtype}"),
            ("tensors", f"{count:,}, each with the digest that it had before"),
            *self._not_restored(),
        ]

    def _not_restored(self) -> list[tuple[str, str]]:
        """A row that names the files whose bytes are not the original ones, if transformers wrote the folder anew."""
        digests = {name: file_digest(content) for name, content in self.attached.beside.items()}
        other = [name for name, digest in self.attached.manifest.files.items() if digests.get(name) != digest]
        if not other:
            return []
        words = f"{', '.join(other)}: as transformers saved it, not byte for byte the {self.host.called}'s"
        return [("written anew", words)]


def detached(model: ExtendedModel) -> Detached:
    """The original of `model`; a `ModelFileError` names the tensor or the file that was changed since."""
    for name, digest, tensor in model.original_tensors():
        if tensor.digest() != digest:
            raise ModelFileError(
                f"the tensor {name} was changed after {model.was_stored}: the {model.original.called} cannot be "
                "restored"
            )
    for name, digest in model.manifest.files.items():
        content = model.source.content.get(name)
        same = content is not None and file_digest(content) == digest
        if not same and name not in model.rewritten:
            raise ModelFileError(f"{name} was changed after {model.was_stored}, or is gone")
    return Detached(model)


__all__ = ["Detached", "detached"]
