"""One question about folders of every kind: is this the verdict, and are these words in its reason?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import monolayer as ml


def expect(verdict: str, words: str, model: Any, *data: Any, **options: Any) -> ml.Certificate:
    """Certify a model, a folder, or the changed content of one, which has a method `write`."""
    with TemporaryDirectory() as place:
        written = model.write(Path(place) / "model") if hasattr(model, "write") else model
        proof = ml.certify(written, *data, **options)
    assert proof.verdict == verdict, proof.explain()
    assert words in proof.reason, proof.reason
    return proof
