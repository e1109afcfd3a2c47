"""A kind is a row of a table: nothing outside the tables compares its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import deserialize
from safetensors.torch import save_file

from monolayer.data.labelling import LABELLINGS
from monolayer.data.model_kinds import MODEL_KINDS
from monolayer.data.number_formats import BY_CODE, FORMATS, NumberFormat
from monolayer.huggingface.architectures import ARCHITECTURES, HOSTS
from monolayer.huggingface.architectures.llama import llama_like
from monolayer.huggingface.host_kind import HostKind

SOURCES = Path(__file__).parent.parent / "src"


@cache
def comparisons_and_calls(source: str) -> tuple[list[ast.Compare], list[ast.Call]]:
    """What the tests below look at in a file, found once for all of them."""
    nodes = list(ast.walk(ast.parse(source)))
    return [node for node in nodes if isinstance(node, ast.Compare)], [
        node for node in nodes if isinstance(node, ast.Call)
    ]


@cache
def sources() -> dict[str, str]:
    """The files of the library."""
    files = (SOURCES / "monolayer").rglob("*.py")
    return {str(path.relative_to(SOURCES)): path.read_text(encoding="utf-8") for path in files}


def strings(node: ast.expr) -> Iterator[str]:
    """The strings that are compared by an operand: one, or those of a tuple, list or set."""
    for part in node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def compared(source: str, names: Set[str]) -> list[str]:
    """The comparisons of a file, as text, with one of the `names` on either side."""
    return [
        ast.unparse(node)
        for node in comparisons_and_calls(source)[0]
        if names & {name for side in (node.left, *node.comparators) for name in strings(side)}
    ]


def comparisons(names: Set[str]) -> dict[str, list[str]]:
    """The comparisons with one of the `names` in the sources of the library, by file."""
    found = {path: compared(text, names) for path, text in sources().items()}
    return {path: each for path, each in found.items() if each}


def test_architectures_are_not_compared_by_name() -> None:
    assert comparisons(ARCHITECTURES.keys()) == {}
    assert compared("if kind != 'gpt2' or name in ('x', 'opt'): pass", {"gpt2", "opt"}) == [
        "kind != 'gpt2'",
        "name in ('x', 'opt')",
    ]


def test_what_labels_belong_to_is_not_compared_by_name() -> None:
    found = comparisons({*LABELLINGS, "lm"})
    assert found.keys() <= {"monolayer/data/labelling.py"}


def test_kinds_of_models_are_not_compared_by_name() -> None:
    assert comparisons(MODEL_KINDS.keys()) == {}


KINDS_OF_FOLDERS = {
    *("Attached", "Recognizer", "ExtendedModel", "StockModel", "Monolayer", "Uniform"),
    *("Own", "Stock", "WithFacts", "WithQuestions", "ModelFiles", "Host", "Encoder", "LanguageModel"),
}
ASKED_ONCE = {
    "monolayer/auditing/audited.py",  # a module of ours, or any other: the table has this one row
    "monolayer/huggingface/tensors.py",  # a folder, or its files that are open already
    "monolayer/model/load.py",  # for the error if a network for the maximum norm is given
    "monolayer/saved/described.py",  # inside a kind of folder: which of two modules it holds
    "monolayer/saved/detach.py",  # for the error if anything else is given
    "monolayer/saved/own.py",
    "monolayer/stock/build.py",  # a model whose draw is used again, or its folder
}
"""Files that may ask which class an object is of, each once or within a row of a table."""


def asked_classes(source: str) -> list[str]:
    """The calls of isinstance in a file, as text, with one of the classes that models and folders have."""
    calls = [node for node in comparisons_and_calls(source)[1] if len(node.args) == 2]
    asked = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "isinstance"]
    named = [(node, {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}) for node in asked]
    return [ast.unparse(node) for node, names in named if names & KINDS_OF_FOLDERS]


def test_models_and_folders_are_not_asked_for_their_class() -> None:
    asking = {path for path, text in sources().items() if asked_classes(text)}
    assert asking == ASKED_ONCE
    assert asked_classes("if isinstance(x, Attached | str): pass") == ["isinstance(x, Attached | str)"]


def test_formats_are_not_compared_by_name() -> None:
    assert comparisons({*FORMATS, *BY_CODE, "int8"}) == {}


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_a_row_of_formats_says_what_torch_and_safetensors_say(fmt: NumberFormat, tmp_path: Path) -> None:
    dtype = getattr(torch, fmt.name)
    known = torch.finfo(dtype)
    assert (2.0 * fmt.unit, fmt.largest, fmt.least_normal) == (known.eps, known.max, known.smallest_normal)
    assert (8 * fmt.bytes, fmt.long, fmt.short) == (known.bits, known.eps < 2.0**-23, known.eps > 2.0**-23)
    least = torch.tensor(fmt.spacing_at_0, dtype=torch.float64).to(dtype)
    assert least.item() == fmt.spacing_at_0
    assert (torch.tensor(0.5 * fmt.spacing_at_0, dtype=torch.float64).to(dtype)).item() == 0.0
    numbers = torch.tensor(
        [1.0, -0.0, 3.0 * fmt.spacing_at_0, fmt.largest, -(1.0 + 2.0 * fmt.unit)], dtype=torch.float64
    )
    save_file({"x": numbers.to(dtype)}, tmp_path / "x.safetensors")
    ((_, stored),) = deserialize((tmp_path / "x.safetensors").read_bytes())  # type: ignore[no-untyped-call]
    assert stored["dtype"] == fmt.code
    raw = fmt.raw(stored["data"])
    assert np.array_equal(fmt.numbers(raw).astype(np.float64), numbers.numpy())
    assert np.array_equal(fmt.shortened(fmt.numbers(raw)), raw)


def test_an_architecture_has_one_row_for_one_layer_and_for_hosts() -> None:
    assert HOSTS.keys() <= ARCHITECTURES.keys()
    assert all(kind.architecture is ARCHITECTURES[name].architecture for name, kind in HOSTS.items())


def test_an_architecture_may_be_a_host_only() -> None:
    """A row with the names of Llama is a few words."""
    neurons = {"1": "mlp.gate_proj", "2": "mlp.down_proj", "3": "mlp.up_proj"}
    host = HostKind(llama_like("toy", "Toy", neurons, {}, rms=True), activation="silu", bias_key="mlp_bias")
    assert host.block_names({"attention_bias": True}) | set(host.biases) == HOSTS["llama"].block_names(
        {"attention_bias": True, "mlp_bias": True}
    )
    assert (host.model, host.depth, host.sizes) == ("ToyForCausalLM", HOSTS["llama"].depth, HOSTS["llama"].sizes)
