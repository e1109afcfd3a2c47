"""Certificates as in-toto statements, read back by the framework's own package."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

import monolayer as ml
from monolayer.cli import run
from monolayer.errors import DataError, ModelFileError
from monolayer.saved import statement as module
from tests.encoders import FAQ, write_encoder
from tests.hosts import FACTS, write_host

Result = test_result_pb2.TestResult
CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Oman": "Muscat"}


def read_back(said: dict[str, Any]) -> Any:
    """The predicate, after the framework's package has parsed and validated the whole statement."""
    parsed = Statement.copy_from_pb(ParseDict(said, statement_pb2.Statement()))
    parsed.validate()
    assert parsed.pb.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    return ParseDict(said["predicate"], Result())


def digests(folder: Path, names: list[str]) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def subjects(said: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["digest"]["sha256"] for one in said["subject"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ml.memorize(CAPITALS).save(tmp_path / "own")


def attached(tmp_path: Path) -> Path:
    return Path(ml.attach(write_host(tmp_path / "host"), FACTS).save(tmp_path / "attached"))


def recognized(tmp_path: Path) -> Path:
    return Path(ml.recognize(write_encoder(tmp_path / "encoder"), FAQ, floor=0.9).save(tmp_path / "questions"))


@pytest.mark.parametrize("kind", ["own", "stock", "attached", "questions"])
def test_a_proof_of_every_kind_of_folder_is_read_back_with_the_digests_of_its_files(kind: str, tmp_path: Path) -> None:
    makers: dict[str, tuple[Any, Any, str]] = {
        "own": (lambda: ml.memorize(CAPITALS).save(tmp_path / "own"), CAPITALS, "names.json"),
        "stock": (lambda: ml.memorize_as("bert", CAPITALS).save(tmp_path / "stock"), CAPITALS, "tokenizer.json"),
        "attached": (lambda: attached(tmp_path), FACTS, "attached.json"),
        "questions": (lambda: recognized(tmp_path), FAQ, "questions.json"),
    }
    make, data, beside = makers[kind]
    folder = make()
    proof = ml.certify(folder, data)
    assert proof.verdict == "proved"
    said = ml.statement(proof, folder)
    result = read_back(said)
    assert result.result == "PASSED"
    assert list(result.passed_tests) == [proof.claim]
    assert not result.failed_tests
    assert subjects(said) == digests(folder, sorted(subjects(said)))
    assert {"config.json", beside} <= set(subjects(said))
    assert {path.name for path in folder.glob("*.safetensors*")} <= set(subjects(said))
    held, checker, claim = said["predicate"]["configuration"]
    assert held["digest"] == {"monolayerData": proof.data_digest}
    assert held["annotations"]["readAs"] == [plan.to_json() for plan in proof.read_as]
    assert checker["annotations"]["versions"]["numpy"]
    assert claim["annotations"]["assumptions"] == list(proof.assumptions)


@pytest.mark.parametrize("verdict", ["refuted", "undecided"])
def test_what_is_not_proved_has_failed(verdict: Any, folder: Path) -> None:
    """WARNED would mean passed with warnings: a policy may take that for a proof."""
    proof = replace(ml.certify(folder, CAPITALS), verdict=verdict)
    said = ml.statement(proof, folder)
    result = read_back(said)
    assert result.result == "FAILED"
    assert list(result.failed_tests) == [proof.claim]
    assert not [*result.passed_tests, *result.warned_tests]
    assert said["predicate"]["configuration"][2]["annotations"]["verdict"] == verdict


def test_the_files_must_be_those_of_the_certificate(folder: Path, tmp_path: Path) -> None:
    proof = ml.certify(folder, CAPITALS)
    other = ml.memorize(CAPITALS, seed=1).save(tmp_path / "other")
    with pytest.raises(DataError, match="are not those that the certificate is about"):
        ml.statement(proof, other)
    with pytest.raises(DataError, match="names no weights"):
        ml.statement(replace(proof, weights_digest=""), folder)
    names = folder / "names.json"
    names.write_bytes(names.read_bytes().replace(b"Paris", b"Lyons"))
    with pytest.raises(ModelFileError, match=r"names\.json was changed"):
        ml.statement(proof, folder)


def test_a_changed_line_of_source_changes_the_digest_of_the_checker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text("x = 1\n")
    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    found = []
    for name, text in (("a/b.py", "x = 1\n"), ("a/b.py", "x = 2\n"), ("c.py", "")):
        (tmp_path / name).write_text(text)
        module.source_digest.cache_clear()
        found.append(module.source_digest())
    module.source_digest.cache_clear()
    assert len(set(found)) == 3


def test_verify_writes_the_statement_and_replaces_none_unasked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "capitals.csv"
    data.write_text("country,capital\n" + "".join(f"{key},{value}\n" for key, value in CAPITALS.items()))
    path = tmp_path / "statement.json"
    assert run(["verify", str(folder), str(data), "--statement", str(path)]) == 0
    said = json.loads(path.read_text(encoding="utf-8"))
    assert read_back(said).result == "PASSED"
    assert said["predicate"]["configuration"][0]["annotations"]["readAs"][0]["source"] == str(data)
    assert run(["verify", str(folder), str(data), "--statement", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    data.write_text(data.read_text().replace("Tokyo", "Paris"))
    assert run(["verify", str(folder), str(data), "--statement", str(path), "--overwrite"]) == 1
    assert read_back(json.loads(path.read_text(encoding="utf-8"))).result == "FAILED"
