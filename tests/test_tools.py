"""docs/tools.md tells the truth: TransformerLens, nnsight and captum find each fact where `locate` says it is."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "tools.md"
FITS = {"transformer-lens": "4.", "nnsight": "0.8.", "captum": "0.9.", "dattri": "0.3."}


def needs(package: str) -> None:
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} {FITS[package]}x is not installed: pip install -c constraints.txt -e '.[tools]'")
    if not found.startswith(FITS[package]):
        pytest.skip(f"{package} {found} is installed, and the page is about {FITS[package]}x")


@pytest.mark.parametrize("package", ["transformer-lens", "nnsight", "captum"])
def test_the_page_runs(package: str, tmp_path: Path) -> None:
    """As one script, in a process of its own: nnsight reads its blocks back from their file."""
    needs(package)
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    wanted = [sections[0]] + [part for part in sections if part.split("\n")[0].lower() == package.replace("-", "")]
    blocks = [block for part in wanted for block in re.findall(r"```python\n(.*?)```", part, flags=re.S)]
    assert len(blocks) == 2
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", "\n".join(blocks), flags=re.M)


def test_leaving_one_fact_out_changes_that_fact_alone(tmp_path: Path) -> None:
    """dattri's own retraining and loading, at a small size; TRAK then finds each fact by itself."""
    needs("dattri")
    script = PAGE.parent.parent / "bench" / "attribution_scored_against_leave_one_out.py"
    done = subprocess.run(
        [sys.executable, script, "--facts", "12", "--seeds", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own, other = (
        float(re.search(pattern, done.stdout)[1]) for pattern in (r"rises by ([\d.]+)", r"moves by\n([\d.]+)")
    )  # type: ignore[index]
    assert own > 20 * other
    assert re.search(r"TRAK, ridge 0, all weights +[\d.]+ to [\d.]+ +100%", done.stdout)
