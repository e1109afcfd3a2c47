"""`detach`: restores the host of a folder that facts were attached to, byte for byte."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from monolayer.attaching.folder import ATTACHED, Attached, host_headers, host_weights
from monolayer.data.aside import read_regular
from monolayer.data.folder import INDEX_FILE, WEIGHTS_FILE, FolderKind, new_folder
from monolayer.errors import ModelFileError
from monolayer.huggingface.host import Host
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
        with new_folder(folder, overwrite=overwrite, kind=kind) as scratch:
            for name, held in host_weights(source).items():
                # Without an index there was one file, and it had another name.
                (scratch / (WEIGHTS_FILE if manifest.index is None else held)).write_bytes(source.content[name])
            for name in manifest.files:
                (scratch / name).write_bytes(source.content[name])
            (scratch / "config.json").write_bytes(manifest.config.encode())
            if manifest.index is not None:
                (scratch / INDEX_FILE).write_bytes(manifest.index.encode())
        return Path(folder)

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        host = self.host
        return [
            ("host", f"{host.kind.model}, {plural(host.layers, 'layer')}, width {host.width:,}, {host.dtype}"),
            ("tensors", f"{len(self.attached.manifest.tensors):,}, each with the digest that it had before"),
        ]


@own_settings()
def detach(folder: str | os.PathLike[str] | Attached) -> Detached:
    """Take attached facts off their host again; `save` writes the files of the host, byte for byte.

    - `folder`: the folder that facts were attached to. If a tensor or a file of the host was changed since, a
      `ModelFileError` names it.

    Example:

        >>> folder = ml.detach("with-facts").save("host-again")  # doctest: +SKIP
    """
    attached = folder if isinstance(folder, Attached) else Attached.load(folder)
    manifest, source = attached.manifest, attached.source
    for name, digest in manifest.tensors.items():
        if attached.host.tensors[name].digest() != digest:
            raise ModelFileError(
                f"the tensor {name} was changed after facts were attached: the host cannot be restored"
            )
    for name, digest in manifest.files.items():
        if name not in source.content or hashlib.sha256(source.content[name]).hexdigest() != digest:
            raise ModelFileError(f"{name} was changed after facts were attached, or is gone")
    headers = host_headers(source)
    for name in sorted({*headers, *manifest.headers}):
        if headers.get(name) != manifest.headers.get(name):
            raise ModelFileError(
                f"{name} was written again after facts were attached: its tensors may be the host's, but not its bytes"
            )
    return Detached(attached)
