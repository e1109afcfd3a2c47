"""The checker of attached facts at its edges: each test fails if one of its inequalities is weakened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import monolayer as ml
from monolayer.checker.attached.answers import Head, JudgedTokens, judge_written
from monolayer.checker.attached.caps import caps_of, near_pairs
from monolayer.checker.attached.check import (
    DOUBT,
    AskedTokens,
    _check_copies,
    _claim,
    _findings,
    _notes,
    _round_number,
    above,
    assumed,
    below,
    judge_attached,
    measured,
)
from monolayer.checker.attached.files import read_attached
from monolayer.checker.rounding import UnhandledError
from monolayer.data.folder import INDEX_FILE
from monolayer.huggingface.cutting import FactIds
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, open_attached
from tests.attached_changes import ROW, changed, retold_host, set_to, swapped
from tests.hosts import FACTS, NEURONS, write_host
from tests.verdicts import from_files

ULP = 2.0**-50


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folders with `FACTS` attached, by architecture and format; not to be changed."""
    where, made = tmp_path_factory.mktemp("folders"), dict[tuple[str, Any], Path]()

    def find(kind: str = "gpt2", dtype: Any = torch.float32) -> Path:
        if (kind, dtype) not in made:
            host = write_host(where / f"{len(made)}-host", kind, dtype=dtype)
            made[kind, dtype] = Path(ml.attach(host, FACTS).save(where / str(len(made))))
        return made[kind, dtype]

    return find


# -- files ---------------------------------------------------------------------------------------------------


LLAMA_CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "one gate of a neuron in use is not 1": (
        changed(ATTACHED_WEIGHTS, set_to("model.layers.2.mlp.up_proj.bias", 3, 0.5)),
        "up_proj.bias is not 1 for the neurons in use and 0 for others",
    ),
    "one gate of an unused neuron is not 0": (
        changed(ATTACHED_WEIGHTS, set_to("model.layers.3.mlp.up_proj.bias", NEURONS - 1, 0.5)),
        "up_proj.bias is not 1 for the neurons in use and 0 for others",
    ),
    "one number of a bias that the host does not have": (
        changed(ATTACHED_WEIGHTS, set_to("model.layers.0.mlp.down_proj.bias", 5, 1e-30)),
        "layers.0.mlp.down_proj.bias is not 0, and the host has no such bias",
    ),
}


@pytest.mark.parametrize("name", LLAMA_CHANGES)
def test_one_changed_number_of_a_llama_folder_is_enough(
    name: str, folders: Callable[..., Path], tmp_path: Path
) -> None:
    change, said = LLAMA_CHANGES[name]
    folder = Path(shutil.copytree(folders("llama"), tmp_path / "folder"))
    change(folder)
    proof = ml.certify(folder, FACTS)
    assert proof.verdict == "undecided"
    assert said in proof.reason


def tensors_of(file: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change which tensors a file holds, and the index with it."""

    def apply(folder: Path) -> None:
        changed(file, change, retell=False)(folder)
        index = json.loads((folder / INDEX_FILE).read_text())
        files = ("host.safetensors", ATTACHED_WEIGHTS)
        index["weight_map"] = {name: file for file in files for name in load_file(folder / file)}
        (folder / INDEX_FILE).write_text(json.dumps(index))

    return apply


TENSORS: dict[str, tuple[Callable[[Path], None], str]] = {
    "an appended tensor is missing": (
        tensors_of(ATTACHED_WEIGHTS, lambda tensors: tensors.pop(ROW[1])),
        f"the tensor {ROW[1]} is missing",
    ),
    "an appended tensor is shorter": (
        tensors_of(ATTACHED_WEIGHTS, lambda tensors: tensors.update({ROW[1]: tensors[ROW[1]][:-1].copy()})),
        f"{ROW[1]} is float32 ({NEURONS - 1},), not float32 ({NEURONS},)",
    ),
    "an appended tensor has another format": (
        tensors_of(ATTACHED_WEIGHTS, lambda tensors: tensors.update({ROW[1]: tensors[ROW[1]].astype(np.float64)})),
        f"{ROW[1]} is float64 ({NEURONS},), not float32 ({NEURONS},)",
    ),
    "a tensor too many": (
        tensors_of(ATTACHED_WEIGHTS, lambda tensors: tensors.update({"transformer.h.2.more": tensors[ROW[1]]})),
        "the tensor transformer.h.2.more belongs neither to the host nor to an appended block",
    ),
    "a tensor of the host is missing": (
        tensors_of("host.safetensors", lambda tensors: tensors.pop("transformer.ln_f.weight")),
        "the host's tensor transformer.ln_f.weight is missing",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_are_missing_too_many_or_of_another_kind_are_named(
    name: str, folders: Callable[..., Path], tmp_path: Path
) -> None:
    change, said = TENSORS[name]
    folder = Path(shutil.copytree(folders(), tmp_path / "folder"))
    change(folder)
    proof = ml.certify(folder, FACTS)
    assert proof.verdict == "undecided"
    assert said in proof.reason


def test_a_folder_of_prompts_is_asked_with_prompts_and_answers(folders: Callable[..., Path]) -> None:
    with pytest.raises(ml.DataError, match="this folder holds prompts and answers: give both, as text"):
        judge_attached(open_attached(folders()), ml.Sequences.of([["a"]], [["b"]]))


def test_a_last_norm_with_one_number_that_is_not_finite_is_not_proved(
    folders: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders(), tmp_path / "folder"))
    changed("host.safetensors", set_to("transformer.ln_f.weight", 3, np.inf), retell=False)(folder)
    retold_host(folder)
    proof = from_files(folder, FACTS)
    assert proof.verdict == "undecided"
    assert "the host's tensor transformer.ln_f.weight holds a number that is not finite" in proof.reason


def test_a_finding_names_the_prompt_the_answer_and_what_comes_instead(
    folders: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders(), tmp_path / "folder"))
    changed(ATTACHED_WEIGHTS, swapped(ROW[2], 1, 4))(folder)
    first, second = ml.certify(folder, FACTS).findings[:2]
    assert first.token == list(FACTS)[first.sequence]
    assert second.token == list(FACTS)[second.sequence]
    assert first.expected != second.expected
    assert (first.got, second.got) == (second.expected, first.expected)


def test_findings_tell_wrong_tokens_from_those_that_are_open_and_name_the_neuron_in_the_way(
    folders: Callable[..., Path],
) -> None:
    found = read_attached(folders())
    data = ml.Sequences.of(list(FACTS), list(FACTS.values()), per="answer")
    caps = caps_of(found)
    facts = [FactIds((1,), (2,), row, "") for row in (0, 1, 2)]
    asked = AskedTokens(*(np.array(column) for column in ((4, 5, 6), (7, 8, 9), (0, 0, 0))), facts)
    near = replace(near_pairs(found, caps), by={6: 11})
    said = JudgedTokens(np.array([True, False, False]), np.array([False, True, False]), np.array([7, 3, 9]))
    told = [(one.kind, one.sequence, one.why) for one in _findings(found, data, near, asked, said, [])]
    assert told == [("wrong", 1, "according to the stored weights"), ("unsure", 2, f"{DOUBT} (neuron 11)")]


@pytest.mark.parametrize(
    ("kind", "dtype", "rounding", "arithmetic", "note"),
    [
        ("gpt2", torch.float32, "η = (D + 16)u, D the width", "IEEE-754 binary32 throughout", False),
        ("llama", torch.float32, "η = (D + 16)u, D the width", "IEEE-754 binary32 throughout", True),
        ("gpt2", torch.float16, "η = (D + 16)u + v, D the width", "arithmetic in float16", False),
    ],
)
def test_assumptions_are_those_of_the_format_and_the_host(
    kind: str, dtype: Any, rounding: str, arithmetic: str, note: bool, folders: Callable[..., Path]
) -> None:
    found = read_attached(folders(kind, dtype))
    lines = assumed(found)
    assert any(rounding in line for line in lines)
    assert any(line.startswith(arithmetic) for line in lines)
    assert len(_notes(found)) == 1 + note
    told = _round_number(found.host.format.coordinate)
    assert any(f"no coordinate is above {told}" in line for line in lines)
    assert [_round_number(number) for number in (1234.0, 2.0**20 - 1.0, 2.0**20)] == ["1,234", "1,048,575", "2^20"]


@pytest.mark.parametrize("part", ["reads", "bias", "writes"])
def test_a_fact_that_is_listed_twice_has_the_same_neurons_in_every_part(
    part: str, folders: Callable[..., Path]
) -> None:
    found = read_attached(folders())
    facts, (first, second, *_) = found.manifest.facts, found.manifest.starts()
    assert facts[0].places == facts[1].places
    twice = replace(found.manifest, facts=(facts[0], facts[0], *facts[2:]))
    own, copy = slice(first, first + facts[0].places), slice(second, second + facts[0].places)
    rows = {name: np.array(getattr(found, name)) for name in ("reads", "bias", "writes")}
    for array in rows.values():
        array[copy] = array[own]
    _check_copies(replace(found, manifest=twice, **rows))
    rows[part][second] *= 1.5
    with pytest.raises(UnhandledError, match="lists one fact twice"):
        _check_copies(replace(found, manifest=twice, **rows))


# -- bounds --------------------------------------------------------------------------------------------------


def test_what_a_neuron_is_sure_to_write_hangs_on_its_neighbours(folders: Callable[..., Path]) -> None:
    """Lemma A4: at least 0.999 (level − err) less 0.3 for each neighbour, or floor/2 behind one in an earlier block."""
    found = read_attached(folders())
    caps = caps_of(found)
    near, head, own = near_pairs(found, caps), Head(found), np.arange(len(found.bias)) // NEURONS

    def share(count: int, first: Any) -> Any:
        return judge_written(found, caps, replace(near, count=np.full(len(own), count), first=first), head).share

    alone, beside, behind = share(0, own), share(10, own), share(0, own - 1)
    whole = 0.999 * (caps.level - caps.err)
    # The share is 2δ and less: nearly inverse to what is written.
    assert beside / alone == pytest.approx(whole / (whole - 3.0), rel=0.02)
    assert behind / alone == pytest.approx(whole / (caps.floor / 2.0), rel=0.05)


@pytest.mark.parametrize("copied", [False, True])
def test_neurons_of_one_block_that_fire_together_are_added(copied: bool, folders: Callable[..., Path]) -> None:
    """Lemma A2: each of two neurons leaves a finite state in front of the last block; both together may not."""
    found = read_attached(folders(dtype=torch.float16))
    caps = caps_of(found)
    writes, reads, bias = found.writes.copy(), found.reads.copy(), found.bias.copy()
    coordinate = int(np.abs(writes[0]).argmax())
    share = 0.7 * (caps.fmt.largest - caps.fmt.coordinate) / float(caps.most[0])
    writes[:NEURONS] *= 2.0**-8
    writes[[0, 3], coordinate] = share
    if copied:
        reads[3], bias[3] = reads[0], bias[0]
    changed_rows = replace(found, reads=reads, bias=bias, writes=writes)
    if copied:
        with pytest.raises(UnhandledError, match="in front of the last block"):
            near_pairs(changed_rows, caps_of(changed_rows))
    else:
        near_pairs(changed_rows, caps_of(changed_rows))


@pytest.mark.parametrize(
    ("bound", "written"),
    [
        (5.0 - 3.0 * ULP, "5.01"),
        (5.0 - 7.0 * ULP, "5"),
        (-5.0 - 3.0 * ULP, "-4.99"),
        (-5.0 - 7.0 * ULP, "-5"),
        (0.1 - 0.75 * ULP, "0.101"),
        (0.1 - 1.5 * ULP, "0.1"),
    ],
)
def test_what_a_claim_says_of_a_bound_allows_for_its_rounding(bound: float, written: str) -> None:
    """A bound is off by at most 2^−50 of itself, or of 1; three digits are then rounded outwards."""
    assert above(bound) == written
    assert below(-bound) == (written[1:] if written.startswith("-") else f"-{written}")


def test_a_claim_in_a_short_format_names_the_largest_level(folders: Callable[..., Path]) -> None:
    found = read_attached(folders(dtype=torch.float16))
    caps = caps_of(found)
    uneven = replace(caps, level=np.linspace(11.0, 22.0, len(caps.level)))
    assert "between 22 and" in _claim(found, uneven, near_pairs(found, caps), 36)
    assert "between 11 and" not in _claim(found, uneven, near_pairs(found, caps), 36)


def test_the_farthest_state_decides_what_is_said_of_those_measured(folders: Callable[..., Path]) -> None:
    """By how much ⟨k, û⟩ may fall at the steepest neuron; or by which share of T an input may, at its own."""
    found = read_attached(folders())
    caps, facts = caps_of(found), found.manifest.facts
    covered = 1.0 - float(caps.level.max()) / caps.response
    for share, fell, words in (
        (0.9, 1.1, "is enough for the proof"),
        (1.1, 1.1, "which is more than the"),
        (1.1, 0.9, "each within the cap of its own neuron"),
    ):
        moved = [0.0, share * caps.half, *[0.0] * (len(facts) - 2)]
        told = tuple(replace(fact, moved=move, fell=fell * covered) for fact, move in zip(facts, moved, strict=True))
        assert words in measured(replace(found.manifest, facts=told), caps)[0]


@pytest.mark.parametrize(
    ("turned", "rose", "woken", "words"),
    [
        (0.9, 0.9, 0, "so all of them"),
        (1.1, 0.9, 0, "so not all of them"),
        (0.9, 1.1, 0, "so not all of them"),
        (0.9, 0.9, 1, "so not all of them"),
    ],
)
def test_states_of_short_formats_are_compared_with_what_each_neuron_bears(
    turned: float, rose: float, woken: int, words: str, folders: Callable[..., Path]
) -> None:
    found = read_attached(folders(dtype=torch.float16))
    by = {**found.manifest.measured, "turned": turned, "rose": rose, "woken": woken}
    assert words in measured(replace(found.manifest, measured=by), caps_of(found))[1]
