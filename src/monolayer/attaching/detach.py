"""`detach`: restores the host of a folder that facts were attached to, byte for byte."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from monolayer.attaching.folder import ATTACHED, Attached
from monolayer.attaching.questions.detach import DetachedEncoder, detached
from monolayer.attaching.questions.folder import Recognizer
from monolayer.data.aside import read_regular
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, FolderKind, new_folder
from monolayer.errors import ModelFileError
from monolayer.huggingface.headers import write_file
from monolayer.huggingface.host import Host
from monolayer.huggingface.manifest import FILE
from monolayer.huggingface.questions import QUESTIONS, says_questions
from monolayer.huggingface.tensors import file_digest
from monolayer.model.torch_settings import own_settings
from monolayer.table import as_html, as_table, plural


@dataclass(frozen=True)
class HostFolder(FolderKind):
    """Folders that a host may replace: those with facts attached, and those of a host with the same `config.json`."""

    config: str = ""

    def objection(self, folder: Path) -> str | None:
        """Why `folder` may not be replaced, as a clause for an error; None if it may."""
        with suppress(OSError):
            if read_regular(folder / "config.json") == self.config.encode():
                foreign = self.foreign(folder)
                return None if foreign is None else f"it holds {foreign!r}, which is not a file of the host"
        return super().objection(folder)


@dataclass(frozen=True, eq=False)
class Detached:
    """The host of a folder with facts attached; its files are as they were before."""

    attached: Attached

    @property
    def host(self) -> Host:
        """The host without its facts."""
        return self.attached.host

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all: configuration, weights and tokenizer, byte for byte the host's.

        `overwrite`: replace a folder that facts were attached to, such as the one that was detached, or one that
        holds this host already. Any other folder stays.
        """
        source, manifest = self.attached.source, self.attached.manifest
        kind = HostFolder(ATTACHED.name, ATTACHED.key, ATTACHED.files, ATTACHED.numbered, manifest.config)
        listed = [each.name for tensors in self.attached.host_listing.values() for each in tensors]
        lacking = next((name for name in listed if name not in source.tensors), None)
        if lacking is not None:
            raise ModelFileError(f"{FILE} lists the tensor {lacking} in a file of the host, and no file holds it")
        with new_folder(folder, overwrite=overwrite, kind=kind) as scratch:
            for held, header in manifest.headers.items():
                # Without an index there was one file, and it had another name.
                name = WEIGHTS_FILE if manifest.index is None else held
                write_file(
                    scratch / name,
                    header,
                    (source.tensors[each.name].data for each in self.attached.host_listing[held]),
                )
            for name, content in self.attached.beside.items():
                (scratch / name).write_bytes(content)
            (scratch / "config.json").write_bytes(manifest.config.encode())
            if manifest.index is not None:
                (scratch / INDEX_FILE).write_bytes(manifest.index.encode())
        return Path(folder)

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        host = self.host
        name = host.kind.model if host.kin is None else host.kin.model
        return [
            ("host", f"{name}, {plural(host.layers, 'layer')}, width {host.width:,}, {host.dtype}"),
            ("tensors", f"{len(self.attached.manifest.tensors):,}, each with the digest that it had before"),
            *self._not_restored(),
        ]

    def _not_restored(self) -> list[tuple[str, str]]:
        """A row that names the files whose bytes are not the host's, if transformers wrote the folder anew."""
        digests = {name: file_digest(content) for name, content in self.attached.beside.items()}
        other = [name for name, digest in self.attached.manifest.files.items() if digests.get(name) != digest]
        if not other:
            return []
        return [("written anew", f"{', '.join(other)}: as transformers saved it, not byte for byte the host's")]


@own_settings()
def detach(folder: str | os.PathLike[str] | Attached | Recognizer) -> Detached | DetachedEncoder:
    """Take attached facts or stored questions off their host again; `save` writes its files, byte for byte.

    - `folder`: the folder that facts were attached to, or that questions were stored in. If a tensor or a file of the
      host was changed since, a `ModelFileError` names it.

    Example:

        >>> folder = ml.detach("with-facts").save("host-again")  # doctest: +SKIP
    """
    questions = _with_questions(folder)
    if questions is not None:
        kind = HostFolder(QUESTIONS.name, QUESTIONS.key, QUESTIONS.files, config=questions.manifest.config)
        return detached(questions, kind)
    assert not isinstance(folder, Recognizer)
    attached = folder if isinstance(folder, Attached) else Attached.load(folder)
    manifest, source = attached.manifest, attached.source
    for name, digest in manifest.tensors.items():
        if attached.host.tensors[name].digest() != digest:
            raise ModelFileError(
                f"the tensor {name} was changed after facts were attached: the host cannot be restored"
            )
    for name, digest in manifest.files.items():
        content = source.content.get(name)
        same = content is not None and file_digest(content) == digest
        if not same and name not in attached.rewritten:
            raise ModelFileError(f"{name} was changed after facts were attached, or is gone")
    return Detached(attached)


def _with_questions(folder: str | os.PathLike[str] | Attached | Recognizer) -> Recognizer | None:
    """The encoder with questions that is meant; None if `folder` is of another kind."""
    if isinstance(folder, Attached | Recognizer):
        return folder if isinstance(folder, Recognizer) else None
    with suppress(OSError, ValueError, RecursionError):
        if says_questions(json.loads(read_regular(Path(folder) / "config.json"))):
            return Recognizer.load(folder)
    return None
