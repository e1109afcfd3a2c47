"""docs/stock.md tells the truth: its blocks run."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "stock.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    transformers.utils.logging.disable_progress_bar()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/stock.md", "exec"), names)
        promised = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.M)
        assert capsys.readouterr().out.splitlines() == promised


def test_the_notebook_says_what_its_cells_print() -> None:
    """Where nnsight is installed they are run, by the code that stored the outputs (docs/figures/notebook.py)."""
    spec = importlib.util.spec_from_file_location("notebook", PAGE.parent / "figures" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    notebook = json.loads(script.NOTEBOOK.read_text(encoding="utf-8"))
    printed = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(printed) == 4
    assert "86 other facts are as they were" in json.dumps(printed)
    if importlib.util.find_spec("nnsight") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert script.run(notebook) == notebook
