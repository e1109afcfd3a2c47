"""Restore the encoder of a folder with questions, byte for byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monolayer.attaching.questions.folder import Recognizer
from monolayer.data.folder import INDEX_FILE, FolderKind, new_folder
from monolayer.errors import ModelFileError
from monolayer.huggingface.tensors import Tensor, file_digest
from monolayer.model.torch_settings import own_settings
from monolayer.table import as_html, as_table, plural


@dataclass(frozen=True, eq=False)
class DetachedEncoder:
    """The encoder of a folder with questions; `save` writes its files as they were before."""

    attached: Recognizer
    kind: FolderKind
    """The folders that `save` may replace with `overwrite=True`."""

    @own_settings()
    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write `folder`, all at once or not at all: configuration, weights and tokenizer, byte for byte the encoder's.

        Other files that lay beside them, such as those of sentence-transformers, are not kept, and not written.
        """
        manifest, source = self.attached.manifest, self.attached.source
        tensors = self._tensors()
        with new_folder(folder, overwrite=overwrite, kind=self.kind) as scratch:
            for name, header in manifest.headers.items():
                (scratch / name).write_bytes(_file(header, tensors))
            for name in manifest.files:
                (scratch / name).write_bytes(source.content[name])
            (scratch / "config.json").write_bytes(manifest.config.encode())
            if manifest.index is not None:
                (scratch / INDEX_FILE).write_bytes(manifest.index.encode())
        return Path(folder)

    def _tensors(self) -> Mapping[str, Tensor]:
        """The tensors of the encoder by the names that they have in its own files."""
        encoder = self.attached.encoder
        root = encoder.kind.root
        bare = {name.removeprefix(root): tensor for name, tensor in encoder.tensors.items()}
        return {**bare, **encoder.tensors, **encoder.spare}

    __repr__ = as_table
    _repr_html_ = as_html

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table that `repr` shows."""
        encoder, manifest = self.attached.encoder, self.attached.manifest
        count = len(manifest.tensors) + len(manifest.spare)
        layers = plural(encoder.layers, "layer")
        return [
            ("encoder", f"{encoder.kind.model}, {layers}, width {encoder.width:,}, {encoder.dtype}"),
            ("tensors", f"{count:,}, each with the digest that it had before"),
        ]


def detached(model: Recognizer, kind: FolderKind) -> DetachedEncoder:
    """The encoder of `model`; a `ModelFileError` names what was changed after questions were stored."""
    manifest, encoder = model.manifest, model.encoder
    for digests, tensors in ((manifest.tensors, encoder.tensors), (manifest.spare, encoder.spare)):
        for name, digest in digests.items():
            if tensors[name].digest() != digest:
                raise ModelFileError(
                    f"the tensor {name} was changed after questions were stored: the encoder cannot be restored"
                )
    for name, digest in manifest.files.items():
        if name not in model.source.content or file_digest(model.source.content[name]) != digest:
            raise ModelFileError(f"{name} was changed after questions were stored, or is gone")
    return DetachedEncoder(model, kind)


def _file(header: str, tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file with this header, from tensors by their names."""
    head = header.encode("utf-8")
    try:
        places = {
            name: tuple(part["data_offsets"]) for name, part in json.loads(head).items() if name != "__metadata__"
        }
        content = bytearray(max((stop for _, stop in places.values()), default=0))
        for name, (start, stop) in places.items():
            if len(tensors[name].data) != stop - start:
                raise ValueError(name)
            content[start:stop] = tensors[name].data
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"the headers of the encoder's files do not fit its tensors: {error!r:.80}") from None
    return len(head).to_bytes(8, "little") + head + bytes(content)
