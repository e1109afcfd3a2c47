"""What a folder says of tensors before they are written: their digests. And its JSON files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor

from monolayer.arrays import dtype_name
from monolayer.data.number_formats import FORMATS


def tensor_digest(tensor: Tensor) -> str:
    """The digest that `huggingface.tensors.Tensor.digest` will give this tensor once it is in a file."""
    code = FORMATS[dtype_name(tensor.dtype)].code
    digest = hashlib.sha256(f"{code} {list(tensor.shape)}\n".encode())
    digest.update(tensor.contiguous().view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()


def write_json(path: Path, value: object) -> None:
    """Write `value` as a JSON file."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
