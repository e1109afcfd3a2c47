"""`statement`: a certificate as an in-toto attestation, which other tools sign, store and compare with a policy.

The form is Statement v1 with the predicate Test Result v0.1 of the in-toto Attestation Framework. It knows PASSED,
WARNED and FAILED. WARNED means passed, with warnings, so a claim that is undecided has FAILED: a policy that accepts
warnings must not take it for proved. The verdict itself stands beside the claim.
"""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from monolayer.checker.certificate import Certificate
from monolayer.checker.rounding import UnhandledError
from monolayer.data.objects import JsonObject
from monolayer.errors import DataError, ModelFileError
from monolayer.huggingface.strict import ForeignError
from monolayer.saved.kinds import open_model

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
_PACKAGE = Path(__file__).parent.parent
_LIBRARIES = ("numpy", "scipy", "python-flint", "torch", "transformers")
"""Libraries whose versions a statement names, if they are installed: a verdict rests on what they compute."""


def statement(proof: Certificate, folder: str | os.PathLike[str]) -> JsonObject:
    """A certificate as an in-toto statement about the files of the model, ready to be signed.

    - `proof`: what `certify` returned for this model.
    - `folder`: the saved model. Its files are hashed now; if they are not those that the certificate is about, that is
      an error.

    The subjects are the files that the verdict depends on, with their SHA-256. The predicate is Test Result v0.1:
    `PASSED` if the claim is proved, else `FAILED`. `configuration` names the data (by the digest of the certificate,
    and how they were read), the checker (by the digest of its source, with versions of libraries) and the claim with
    its verdict and assumptions.

    Example:

        >>> table = {"France": "Paris", "Japan": "Tokyo"}
        >>> folder = ml.memorize(table).save("capitals")
        >>> ml.statement(ml.certify("capitals", table), "capitals")["predicate"]["result"]
        'PASSED'
    """
    if not proof.weights_digest:
        raise DataError(f"no statement can be made: the certificate names no weights ({proof.reason})")
    try:
        sealed = open_model(folder).sealed
    except (ForeignError, UnhandledError) as why:
        raise ModelFileError(f"{folder}: {why}") from None
    if sealed.digest != proof.weights_digest:
        raise DataError(
            f"the files in {folder} are not those that the certificate is about (weights {sealed.digest[:12]}… and "
            f"{proof.weights_digest[:12]}…): run certify on this folder"
        )
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(sealed.files.items())]
    done = "passedTests" if proof else "failedTests"
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": "PASSED" if proof else "FAILED",
            "configuration": [_data(proof), _checker(), _claim(proof)],
            **{"passedTests": [], "warnedTests": [], "failedTests": [], done: [proof.claim]},
        },
    }


def _data(proof: Certificate) -> JsonObject:
    """The data that the verdict is about; their digest is that of `monolayer.checker.data_digest`."""
    digest = {"digest": {"monolayerData": proof.data_digest}} if proof.data_digest else {}
    read = [plan.to_json() for plan in proof.read_as]
    return {"name": "data", **digest, "annotations": {"points": proof.points, "readAs": read}}


def _checker() -> JsonObject:
    """The program that gave the verdict, and what it ran on."""
    versions = {"python": platform.python_version()}
    for name in ("monolayer", *_LIBRARIES):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "name": "monolayer",
        "digest": {"sha256": source_digest()},
        "annotations": {"versions": versions, "machine": f"{platform.system()} {platform.machine()}"},
    }


def _claim(proof: Certificate) -> JsonObject:
    """The claim and everything that the verdict says of it."""
    claim = {
        "verdict": proof.verdict,
        "claim": proof.claim,
        "reason": proof.reason,
        "assumptions": list(proof.assumptions),
        "measured": list(proof.measured),
        "notes": list(proof.notes),
        "wrong": proof.wrong,
        "undecided": proof.unsure,
        "findings": [str(finding) for finding in proof.findings],
        "weightsDigest": proof.weights_digest,
    }
    return {"name": "claim", "annotations": claim}


@cache
def source_digest() -> str:
    """SHA-256 of the source of this package: of every Python file, in order of their names, its name and digest."""
    files = sorted(path.relative_to(_PACKAGE).as_posix() for path in _PACKAGE.rglob("*.py"))
    lines = (f"{hashlib.sha256((_PACKAGE / name).read_bytes()).hexdigest()}  {name}\n" for name in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
