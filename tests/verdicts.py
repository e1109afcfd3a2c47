"""One question about folders of every kind: is this the verdict, and are these words in its reason?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import monolayer as ml
from monolayer.checker import stored
from monolayer.checker.asked import asked_data
from monolayer.checker.certificate import Claims
from monolayer.saved.kinds import open_model

UNSURE = "the error bound leaves room for more than one answer"
"""Why points are undecided, where the proofs cover the weights."""


@contextmanager
def written(model: Any) -> Iterator[Any]:
    """A folder for changed content, which has a method `write`; models and folders stay what they are."""
    with TemporaryDirectory() as place:
        yield model.write(Path(place) / "model") if hasattr(model, "write") else model


def from_files(folder: Any, X: Any, Y: Any = None, **claims: Any) -> ml.Certificate:
    """What `certify` proves from the files alone: it would also ask a folder with attached facts for every answer."""
    saved, asked = open_model(folder), Claims(**claims)
    saved.check(asked)
    data = asked_data(X, Y, None, saved.manner, labelled=not saved.next_token)
    return saved.prove(data, asked, lambda stage, share: None)


def expect(verdict: str, words: str, model: Any, *data: Any, **options: Any) -> ml.Certificate:
    with written(model) as folder:
        proof = ml.certify(folder, *data, **options)
    assert proof.verdict == verdict, proof.explain()
    assert words in proof.reason, proof.reason
    assert words or verdict != "undecided", "a test says why nothing can be proved: there are many reasons"
    return proof


def refused(words: str, model: Any) -> None:
    """Neither the loader nor the checker takes it."""
    with written(model) as folder:
        for read in (ml.load, stored.read_model):
            with pytest.raises(ml.ModelFileError, match=words):
                read(folder)
