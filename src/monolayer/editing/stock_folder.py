"""An edit of a stock folder, carried to a folder: rows of its tensors out and in, everything else copied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from monolayer.checker.stock.files import is_stock
from monolayer.data.folder import new_folder
from monolayer.editing.record import Record
from monolayer.editing.splice import array_of, tensor_of
from monolayer.errors import DataError
from monolayer.stock.folder import STOCK
from monolayer.stock.reading import read_folder

NOTE = "\nThis folder was edited after it was built; the figures above are those of before.\n"
UNDONE = "\nAn edit of this folder was taken back; the figures above are those of the edited model.\n"


def carry(record: Record, folder: Path, out: Path, *, undo: bool, overwrite: bool = False) -> None:
    """The folder with the edit made again, or taken back, written as `out`."""
    if record.config is None:
        raise DataError("this record is one of a model of ours, not of a stock folder")
    if not is_stock(folder):
        raise DataError(f"{folder} is no stock folder, and this record is one of those")
    config, tensors = read_folder(folder)
    before, after = (1, 0) if undo else (0, 1)
    if any(config.get(key) != pair[before] for key, pair in record.config.items()):
        raise DataError(f"{folder} is not as this record found it: a record belongs to the folder that was edited")
    for splice in record.splices:
        step = splice.inverse() if undo else splice
        if step.tensor not in tensors:
            raise DataError(f"{folder} has no {step.tensor}: the record belongs to another folder")
        old = tensors[step.tensor]
        new = np.ascontiguousarray(step.apply(array_of(old)))
        tensors[step.tensor] = tensor_of(new, old.dtype)
    config |= {key: pair[after] for key, pair in record.config.items()}
    config = {key: value for key, value in config.items() if value is not None or key not in record.config}
    with new_folder(out, overwrite=overwrite, kind=STOCK) as scratch:
        for name in sorted(STOCK.files - {"certificate.json"}):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, scratch / name)
        save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
        (scratch / "config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        card = scratch / "README.md"
        said = card.read_text(encoding="utf-8") if card.exists() else ""
        back, note = (NOTE, UNDONE) if undo else (UNDONE, NOTE)
        # What the last note says is taken back with the edit; else the figures are those of the other side of it.
        card.write_text(said.removesuffix(back) if said.endswith(back) else said + note, encoding="utf-8")
