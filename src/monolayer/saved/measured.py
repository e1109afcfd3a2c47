"""Ask a model in transformers, beside what its files prove; the certificate says so where that is not possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from monolayer.checker.certificate import Certificate
from monolayer.errors import ModelFileError

Measured = TypeVar("Measured")


def asked_here(proof: Certificate, ask: Callable[[], Measured]) -> tuple[Certificate, Measured | None]:
    """The certificate with what `ask` measured, and what that was; None if the model cannot be asked here.

    What transformers cannot load is not proved. Files that nothing is proved of may be unreadable as well.
    """
    from monolayer.attaching.running import NotLoadedError

    try:
        measured = ask()
    except NotLoadedError as error:
        proof = replace(proof, measured=(*proof.measured, f"not measured here: {error}"))
        why = f"the weights are as they must be, but the model cannot be asked here: {error}"
        return replace(proof, verdict="undecided", reason=why) if proof else proof, None
    except ModelFileError as error:
        if proof:  # the files changed while they were read
            raise
        return replace(proof, measured=(*proof.measured, f"not measured here: {error}")), None
    return replace(proof, measured=(*proof.measured, str(measured))), measured
