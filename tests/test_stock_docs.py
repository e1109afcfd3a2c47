"""docs/stock.md tells the truth: its blocks run, and the ONNX model of its recipe answers as transformers do."""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import monolayer as ml
from monolayer.data.phrases import tiny_phrases

PAGE = Path(__file__).parent.parent / "docs" / "stock.md"


def test_the_page_runs_and_onnxruntime_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    transformers = pytest.importorskip("transformers")
    import torch

    monkeypatch.chdir(tmp_path)
    transformers.utils.logging.disable_progress_bar()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    names: dict[str, object] = {}
    for block in blocks[:4]:
        exec(compile(block, "docs/stock.md", "exec"), names)
        promised = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.M)
        assert capsys.readouterr().out.splitlines() == promised

    # The recipe for ONNX, on a larger dictionary of the same name.
    data = tiny_phrases()
    ml.memorize_as("bert", data, positions=True).save("dictionary", overwrite=True)
    names["tokenizer"] = tokenizer = transformers.AutoTokenizer.from_pretrained("dictionary")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(blocks[4], "docs/stock.md", "exec"), names)
    session = onnxruntime.InferenceSession("dictionary.onnx", providers=["CPUExecutionProvider"])
    assert [part.type for part in session.get_outputs()] == ["tensor(float)"]
    model = transformers.AutoModelForTokenClassification.from_pretrained("dictionary")
    assert data.vocabulary is not None
    assert data.labels is not None
    texts = ["".join(row) for row in data.split(data.vocabulary.decode(data.tokens))]
    wanted = data.split(data.labels.values)
    for part in (slice(0, 1), slice(1, 9), slice(9, None)):  # other batches and lengths than in the export
        batch = tokenizer(texts[part], padding=True, return_tensors="pt")
        feeds = {name: batch[name].numpy() for name in ("input_ids", "attention_mask")}
        (logits,) = session.run(None, feeds)
        with torch.no_grad():
            theirs = model(**batch).logits.numpy()
        mask = feeds["attention_mask"].astype(bool)
        assert np.abs(logits - theirs)[mask].max() < 1e-5 * np.abs(theirs).max()
        for row, labels in zip(logits, wanted[part], strict=True):
            assert (row[1 : 1 + len(labels)].argmax(-1) == labels).all()


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
