"""A safetensors header is believed only if it accounts for every byte of its file; too large files are not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from monolayer.data.limits import LONGEST_HEADER, SMALL, TensorPlace, check_size, tensor_places


def places(content: bytes, size: int | None = None) -> dict[str, TensorPlace]:
    rest = content[8:]
    return tensor_places(content[:8], lambda count: rest[:count], len(content) if size is None else size)


def file_of(header: object, data: int = 12) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def entry(code: object, shape: object, begin: object, end: object) -> dict[str, Any]:
    return {"dtype": code, "shape": shape, "data_offsets": [begin, end]}


WHOLE = {"a": entry("F32", [2], 0, 8), "b": entry("F16", [2, 1], 8, 12)}
ODD: dict[str, tuple[bytes, str]] = {
    "fewer bytes than the shape": (file_of(WHOLE | {"b": entry("F16", [3], 8, 12)}), "b does not have the number"),
    "more bytes than the shape": (file_of(WHOLE | {"b": entry("F16", [1], 8, 12)}), "b does not have the number"),
    "a gap": (file_of({"a": entry("F32", [1], 0, 4), "b": entry("F16", [2], 8, 12)}), "b is not where it should be"),
    "an overlap": (file_of({"a": entry("F32", [2], 0, 8), "b": entry("F16", [2], 4, 8)}), "b is not where"),
    "a type": (file_of(WHOLE | {"b": entry("F2", [2], 8, 12)}), "b is of type F2"),
    "a shape below 0": (file_of({"a": entry("F32", [-1, -3], 0, 12)}), "a is not where it should be"),
    "a shape of no whole number": (file_of({"a": entry("F32", [1.5, 2], 0, 12)}), "a is not where it should be"),
    "bytes behind the last": (file_of(WHOLE, 13), "its length, .* is not what its header says"),
    "cut off": (file_of(WHOLE, 11), "its length, .* is not what its header says"),
    "a key twice": (file_of(b'{"a": 1, "a": 2}'), "key 'a' twice"),
    "no offsets": (file_of({"a": {"dtype": "F32", "shape": [3]}}), "its header cannot be read"),
    "a list": (file_of([1]), "its header cannot be read"),
    "text in UTF-16": (file_of(json.dumps(WHOLE).encode("utf-16")), "utf-8"),
    "a mark before the text": (file_of(b"\xef\xbb\xbf" + json.dumps(WHOLE).encode()), "BOM"),
    "NaN": (file_of(WHOLE | {"b": WHOLE["b"] | {"c": float("nan")}}), "its header holds NaN"),
    "metadata of numbers": (file_of(WHOLE | {"__metadata__": {"a": 1}}), "its metadata are not strings"),
    "metadata of another form": (file_of(WHOLE | {"__metadata__": [1]}), "its metadata are not strings"),
    "a header longer than the file": ((99).to_bytes(8, "little") + b"{}", "longer than the file"),
    "seven bytes": (bytes(7), "longer than the file"),
}


def test_a_header_that_accounts_for_every_byte_is_read() -> None:
    content = save({"a": np.zeros(2, np.float32), "b": np.ones((2, 1), np.float16)}, {"format": "pt"})
    found = places(content)
    assert {name: (each.code, each.shape, each.end - each.begin) for name, each in found.items()} == {
        "a": ("F32", (2,), 8), "b": ("F16", (2, 1), 4)
    }  # fmt: skip
    assert content[found["b"].begin : found["b"].end] == np.ones(2, np.float16).tobytes()
    assert places(file_of(WHOLE)).keys() == WHOLE.keys()


@pytest.mark.parametrize("name", ODD)
def test_a_header_that_does_not_is_refused(name: str) -> None:
    content, words = ODD[name]
    with pytest.raises(ValueError, match=words):
        places(content)


def test_a_header_has_a_greatest_length() -> None:
    start = (LONGEST_HEADER + 1).to_bytes(8, "little")
    with pytest.raises(ValueError, match="than a header may be"):
        tensor_places(start, lambda count: b"{}", 1 << 40)


def test_the_size_of_a_large_file_must_be_what_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    start = file_of({"a": entry("U8", [SMALL], 0, SMALL)}, 0)
    for more, fits in ((0, True), (1, False), (-1, False)):
        path.write_bytes(start)
        with path.open("r+b") as file:
            file.truncate(len(start) + SMALL + more)
        with path.open("rb") as file:
            if fits:
                check_size(file, path)
                assert file.tell() == 0
            else:
                with pytest.raises(OSError, match="not a whole safetensors file"):
                    check_size(file, path)
