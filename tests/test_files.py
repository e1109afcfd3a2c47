"""A model built from files, piece by piece, is the model that is built in memory, bit for bit."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer import arrays
from monolayer.arrays import home
from monolayer.cli import run
from monolayer.cluster import build, encode, memorize, parts, room
from monolayer.cluster import executor as executors
from monolayer.cluster import points as cluster_points
from monolayer.cluster import spill as spills
from monolayer.cluster.executor import Processes
from monolayer.cluster.memorize import memorize_files
from monolayer.cluster.points import Range, distinct_in_order, splitters
from monolayer.cluster.room import WITH_TORCH, Room
from monolayer.cluster.spill import PACKAGE, Spill, code
from monolayer.construct.line import draw, separate, tokens
from monolayer.construct.line.alphabet import Ids, Proposal
from monolayer.construct.line.cascade import cut_line
from monolayer.construct.line.encoded import Encoded
from monolayer.construct.line.points import Points, too_narrow
from monolayer.construct.line.separate import apart, gaps, hopeless, margins
from monolayer.construct.line.tokens import Tokens
from monolayer.data import read
from monolayer.kernels import Digits, order_of, short, token_major
from tests.cut_files import crowd, data_of, small_pieces, write


def same(files: Path, memory: Path) -> None:
    """Two folders hold equal tensors, and equal configs but for the names of their files."""
    one, two = ml.load(files), ml.load(memory)
    ours, theirs = one.state_dict(), two.state_dict()
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].shape == theirs[name].shape
        assert ours[name].numpy().tobytes() == theirs[name].numpy().tobytes(), name
    configs = [json.loads((folder / "config.json").read_text()) for folder in (files, memory)]
    for config in configs:
        config["files"] = {
            name: digest for name, digest in config["files"].items() if name in ("names.json", "memory.safetensors")
        }
        config.pop("digest")
    assert configs[0] == configs[1]


def both(tmp_path: Path, pattern: str, **options: Any) -> Path:
    """The model of some files, which is the one of memory."""
    ml.memorize(read(pattern), **options).save(tmp_path / "memory", overwrite=True)
    out = memorize_files(pattern, tmp_path / "files", workers=1, overwrite=True, **options)
    same(out, tmp_path / "memory")
    return out


def real(kind: str, size: int) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with seven real labels, or vectors of `size` numbers, instead of classes; 0: the classes."""
    X, Y, options = data_of(kind)
    if size == 0:
        return X, Y, options
    values = np.random.default_rng(2).normal(size=(7, size))
    values[0], values[1, 0] = -0.0, 1e300

    def one(label: Any) -> Any:
        found = values[sum(str(label).encode()) % 7].tolist()
        return found if size > 1 else found[0]

    return X, [[one(label) for label in row] if isinstance(row, list) else one(row) for row in Y], options


WHOLE = 1 << 20


@pytest.mark.parametrize(
    ("kind", "size", "block", "points", "slack"),
    [
        *[("ids", 0, 200, 150, 8), ("ids", 2, WHOLE, WHOLE, 8), ("sparse ids", 2, 700, 800, 8)],
        *[("positions", 0, 200, 150, 8), ("positions", 1, 700, 800, 8), ("sequences", 3, 700, 90, 8)],
        ("next tokens", 0, 200, 150, 8),
        # Steps that need so much room that many points lie too close for one line, in crowds of any size.
        *[("ids", 0, 1000, 100, 1e11), ("ids", 1, 1000, 700, 1e11), ("positions", 0, 1000, 300, 1e10)],
        *[("sequences", 0, 1000, 60, 1e11), ("sequences", 2, 1000, 700, 1e11), ("next tokens", 0, 1000, 200, 1e11)],
    ],
)
def test_bits_of_files_are_bits_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, block: int, points: int, slack: float
) -> None:
    X, Y, options = real(kind, size)
    pattern = write(tmp_path, X, Y, [100, 101, 250], key="label" if kind == "sequences" else None)
    small_pieces(monkeypatch, block, points)
    crowd(monkeypatch, slack)
    if kind == "positions":  # draws are compared by the same sample
        monkeypatch.setattr(tokens, "SAMPLE", 200)
    if kind == "ids" and slack > 8:  # the end of a range is looked for several times; it looks like contradictions
        monkeypatch.setattr(cluster_points, "LOOKED_AT_FIRST", 2)
        monkeypatch.setattr(cluster_points, "LOOKED_AT_EACH", 1)
        monkeypatch.setattr(parts, "MANY", 20)
    out, data = both(tmp_path, pattern, **options), read(pattern)
    assert ml.certify(out, data).verdict == "proved"
    assert data.labels is None or (data.labels.classes is None) == (size > 0)
    assert not list(tmp_path.glob(".*"))
    rank = ml.load(out).summary.rank
    assert (rank > 1) == (slack > 8)
    if kind == "sequences" and slack > 8:
        with pytest.raises(ml.PrecisionError, match=f"Rank={rank} would hold them"):
            memorize_files(pattern, tmp_path / "one", workers=1, rank=1, **options)


@pytest.mark.parametrize("slack", [8, 1e11])
def test_crowds_that_are_foreseen_wrongly_change_no_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: float
) -> None:
    X, Y, options = data_of("ids")
    small_pieces(monkeypatch, 200, 150)
    crowd(monkeypatch, slack)
    monkeypatch.setattr(build, "crowded_by_chance", lambda *_: slack == 8)
    out = both(tmp_path, write(tmp_path, X, Y, [100, 101, 250]), **options)
    assert (ml.load(out).summary.rank > 1) == (slack > 8)


@pytest.mark.parametrize("held", [False, True])
def test_parts_are_written_of_draws_that_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    """Of other draws than the first, crowds are counted until there are as many as before; `held`: a later one fits."""
    X, Y, _ = data_of("ids")
    small_pieces(monkeypatch, 200, 150)
    for module in (build, separate):
        monkeypatch.setattr(module, "crowded_by_chance", lambda *_: False)
    slacks = np.logspace(6, 11, 41)[:: 1 if held else -1].tolist()
    for seed, slack in product(range(10), slacks):  # where the first draw is the best, no later one fits
        crowd(monkeypatch, slack)
        memory = ml.memorize(X, Y, seed=seed).summary
        if memory.draws > 1 and (memory.rank == 1) == held:
            break
    tasks, here = list[str](), executors.here
    watched: Any = lambda function, given: tasks.extend(task[1] for task in given) or here(function, given)  # noqa: E731
    monkeypatch.setattr(executors, "here", watched)
    summary = ml.load(both(tmp_path, write(tmp_path, X, Y, [100, 101, 250]), seed=seed)).summary
    assert (summary.draws > 1, summary.rank == 1) == (True, held)
    built, looked = ([name.split("-") for name in tasks if name.startswith(kind)] for kind in ("part-", "looked-"))
    assert {int(name[2]) for name in looked} == set(range(2, summary.draws + 1))
    assert len({name[2] for name in built}) <= 2
    ranges = len({name[-1] for name in built})
    assert held or len(looked) < ranges * (summary.draws - 1)


def test_a_sample_of_data_with_a_rhythm_is_not_all_on_one_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "SAMPLE", 200)
    rows = tokens.sample_rows(1000, 8000)
    assert (rows // 40).tolist() == list(range(25))
    assert set(rows % 2) == {0, 1}


def test_equal_contexts_and_few_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts that differ by rounding alone are not scaled up; few have a next token."""
    X = np.random.default_rng(0).permuted(np.tile(np.arange(16), (40, 1)), axis=1)
    small_pieces(monkeypatch, 100, 90)
    out = both(tmp_path, write(tmp_path / "bag", X.tolist(), (X % 4).tolist(), [10]))
    assert ml.certify(out, X, X % 4).verdict == "proved"
    small_pieces(monkeypatch, 2, 1)
    monkeypatch.setattr(tokens, "SAMPLE", 1)
    rows = [[i] for i in range(60)] + [[60, 61, 62, 61]]
    both(tmp_path, write(tmp_path / "next", rows, None, [30]), causal=True)


def test_memory_is_for_processes_names_and_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces have what processes and tables of names leave; too little is an error that says what is enough."""
    assert [room.size(text) for text in ("2GB", "1.5 GiB", "500m", 7)] == [2 * 10**9, 3 << 29, 5 * 10**8, 7]
    monkeypatch.setattr(room, "resident", lambda: 0)  # whatever other tests have left in this process
    some = Room.of("1.1GB", 2, WITH_TORCH, 10)
    small = some.beside(100_000, 0)
    assert some.beside(0, 0) == some
    assert some.beside(0, 9).block < some.block
    assert small.block < some.block
    assert 2 * small.block * room.BLOCK_BYTES_PER_TOKEN + 100_000 * some.name <= some.spare
    with pytest.raises(ml.DataError, match=r"1,000,000 different tokens .*--memory.*fewer workers") as error:
        some.beside(1_000_000, 0)
    Room.of(str(error.value).split("'")[1], 2, WITH_TORCH, 10).beside(1_000_000, 0)
    for processors, memory, workers in ((64, "2GB", range(4, 64)), (64, "400MB", (1,)), (1, "2GB", (1,))):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        assert Room.fitting(memory, None, WITH_TORCH, 1000).workers in workers
    with pytest.raises(ml.DataError, match=r"64 workers .* fewer workers or smaller files"):
        Room.fitting("2GB", 64, WITH_TORCH, 1000)
    monkeypatch.setattr(room, "NAME", 10**9)
    with pytest.raises(ml.DataError, match="4 different tokens and classes"):
        memorize_files(write(tmp_path, [["a", "b"]], [[0, 1]], []), tmp_path / "files", workers=1)


# -- contradictions --------------------------------------------------------------------------------------


def refused(tmp_path: Path, pattern: str, **options: Any) -> None:
    """Files and memory show the same two places, and say how many there are."""
    with pytest.raises(ml.ContradictionError) as memory:
        ml.memorize(read(pattern), **options)
    with pytest.raises(ml.ContradictionError) as files:
        memorize_files(pattern, tmp_path / "files", workers=1, overwrite=True, **options)
    assert not list(tmp_path.glob(".files*"))
    assert str(files.value) == str(memory.value).replace(
        ", or say which label wins: on_conflict='majority' or 'first'", ""
    )


ROWS = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(0, 2)), min_size=2)
SEEN: list[dict[str, bool]] = [{}, {"positions": True}, {"causal": True}, {"causal": True, "positions": True}]


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=ROWS,
    size=st.sampled_from([2, 100]),
    label=st.sampled_from(["label", "labels", "reals", "next"]),
    options=st.sampled_from(SEEN),
    few=st.booleans(),
)
@example([([0, 1, 2], 0), ([2, 1, 0], 1), ([0, 1, 2], 2)] * 9, 3, "labels", {}, True)
@example([([0, 1, 2], 0), ([0, 1], 0), ([0, 2], 0)] * 9, 3, "next", SEEN[3], True)
@example([([0, 2], 1), ([0], 0)], 2, "reals", SEEN[0], False)  # an id that never occurs, and labels other than 0
def test_few_tokens_with_labels_of_any_kind(
    tmp_path: Path, data: list[tuple[list[int], int]], size: int, label: str, options: dict[str, bool], few: bool
) -> None:
    """They are built as in memory, or contradict each other as in memory; `few`: however few places are looked at."""
    X, value = [row for row, _ in data], [-0.0, 5e-324, -1e300] if label == "reals" else [0, 1, 2]
    Y: Any = [[value[each]] * (len(row) - 1) + [value[0]] for row, each in data]
    if label == "next":
        X, Y, options = [*X, [0, 1]], None, {**options, "causal": True}
    elif label == "label" and "causal" not in options:
        Y = [value[each] for _, each in data]
    pattern = write(tmp_path, X, Y, [len(X) // 2])
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, size, size)
        for module, name, most in ((parts, "NEAR", 2), (parts, "MANY", 2), (cluster_points, "LOOKED_AT_MOST", 10)):
            patch.setattr(module, name, most if few else 1 << 12)
        try:
            ml.memorize(read(pattern), **options)
        except ml.ContradictionError:
            refused(tmp_path, pattern, **options)
        else:
            both(tmp_path, pattern, **options)


# -- what may go wrong -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """Three files of which a model is built, in pieces so small that there are several of each kind."""

    folder: Path
    pattern: str

    def build(self, **options: Any) -> Path:
        return memorize_files(self.pattern, self.folder / "files", **{"workers": 1, **options})

    def check(self) -> None:
        """The model is that of memory, and nothing is left."""
        ml.memorize(read(self.pattern)).save(self.folder / "memory")
        same(self.folder / "files", self.folder / "memory")
        assert not list(self.folder.glob(".*"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    X, Y, _ = data_of("ids")
    small_pieces(monkeypatch, 300, 500)
    return Site(tmp_path, write(tmp_path / "shards", X, Y, [150, 300]))


def test_a_killed_worker_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, started = Processes(1), list[Any]()
    start = pool._start

    def starts_and_dies_once() -> Any:
        started.append(start())
        if len(started) == 1:
            started[0].kill()
        return started[-1]

    monkeypatch.setattr(pool, "_start", starts_and_dies_once)
    monkeypatch.setattr(executors, "Processes", lambda _: pool)
    site.build(workers=2)
    assert len(started) == 2
    site.check()


def test_a_worker_that_always_dies_is_no_endless_loop() -> None:
    pool = Processes(1)
    with pytest.raises(ml.OutOfMemoryError, match="was killed 3 times"):
        list(pool.run(os._exit, [(9,)]))
    assert not pool.alive


def test_workers_import_nothing_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zipfile", "secrets", "numpy", "monolayer"):
        (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    pool = Processes(1)
    list(pool.run(importlib.import_module, [("zipfile",), ("secrets",), ("monolayer.data",)]))
    pool.close()
    assert not list(tmp_path.glob("ran-*"))


def test_a_cluster(site: Site) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        site.build(engine="dask", scheduler=cluster.scheduler_address, workers=None)
    site.check()


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "spilled")


@contextmanager
def stopped(kind: str, error: BaseException = FULL) -> Iterator[None]:
    """Work is stopped at the third piece of one kind."""

    def work(function: Any, tasks: list[Any]) -> Iterator[None]:
        for number, task in enumerate(tasks):
            if function.__name__ == kind and number == 2:
                raise error
            function(*task)
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "here", work)
        yield


@pytest.mark.parametrize("kind", ["encode", "write_points", "part", "staged"])
def test_a_full_disk_leaves_no_model_and_the_build_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    crowd(monkeypatch, 1e11)
    monkeypatch.setattr(build, "crowded_by_chance", lambda *_: False)  # so that parts are written again
    with stopped(kind), pytest.raises(OSError, match=r"disk of .* is full.*resume=True"):
        site.build()
    assert not (site.folder / "files").exists()
    spill = site.folder / ".files.building"
    if kind == "encode":  # what a worker leaves that is killed between two writes, or in one
        (spill / "encoded-00002.bin").write_text("whole numbers and no facts")
        (spill / ".encoded-00002.facts.0123abcd").write_text("half of them")
    finished = {path.stem for path in spill.glob("*.facts")} - {f"table-{i:05}" for i in range(3)}
    done, here = list[str](), executors.here
    watched: Any = lambda function, tasks: done.extend(task[1] for task in tasks) or here(function, tasks)  # noqa: E731
    monkeypatch.setattr(executors, "here", watched)
    site.build(resume=True)
    assert len(finished) >= 2
    assert done
    assert not finished & set(done)
    site.check()


@pytest.mark.parametrize("kind", ["encode", "write_points", "part"])
def test_a_build_that_starts_over_uses_no_piece_of_the_one_before(site: Site, kind: str) -> None:
    """Planted: between the two the labels change. Pieces have the names that those of the first build had."""
    with stopped(kind), pytest.raises(OSError, match="is full"):
        site.build()
    assert list((site.folder / ".files.building").glob("*.facts"))
    X, Y, _ = data_of("ids")
    write(site.folder / "shards", X, [[4 - label for label in row] for row in Y], [150, 300])
    site.build()
    site.check()


def test_pieces_keep_the_sizes_that_they_had(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may hold more, or less, when a build goes on: pieces of two sizes would not fit together."""
    monkeypatch.setattr(memorize, "Room", Room)
    for name, value in (
        ("WITH_TORCH", 0),
        ("BLOCK_BYTES_PER_TOKEN", 1),
        ("RANGE_BYTES_PER_POINT", 1),
        ("READ_TOKEN", 0),
        ("LEAST_PIECE", 1),
        ("NAME", 0),
    ):
        monkeypatch.setattr(room, name, value)
    monkeypatch.setattr(memorize, "WITHOUT_TORCH", 0)
    monkeypatch.setattr(room, "resident", lambda: 10_000)
    with stopped("part"), pytest.raises(OSError, match="is full"):
        site.build(memory=10_700)
    monkeypatch.setattr(room, "resident", lambda: 10_400)
    site.build(memory=10_700, resume=True)
    site.check()


@pytest.mark.parametrize("kind", ["thesis.tex", "encoded-00001.bin", "journal.json", ""])
def test_a_spill_folder_that_holds_something_foreign_is_left_alone(site: Site, kind: str) -> None:
    """A file, a folder, a link; or it is itself a link."""
    spill, thesis = site.folder / ".files.building", site.folder / "thesis"
    thesis.mkdir()
    (thesis / "encoded-00000.bin").write_text("ten years")
    if kind:
        spill.mkdir()
        (spill / "lock").touch()
    if kind == "thesis.tex":
        (spill / kind).touch()
    elif kind == "encoded-00001.bin":
        (spill / kind).mkdir()
    else:
        (spill / kind).symlink_to(thesis / "encoded-00000.bin" if kind else thesis)
    before = sorted(site.folder.rglob("*"))
    for resume in (False, True):
        with pytest.raises(ml.DataError, match=r"\.files\.building is where the build keeps its pieces, but .*: move"):
            site.build(resume=resume)
    assert sorted(site.folder.rglob("*")) == before
    assert (thesis / "encoded-00000.bin").read_text() == "ten years"


def test_names_of_deleted_files_are_gone_before_what_they_held_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No more than so many stay open; what has another name keeps its content; what is missing is no error."""
    freeing, may_free = ThreadPoolExecutor(1), threading.Event()
    request.addfinalizer(may_free.set)
    freeing.submit(may_free.wait)  # as slow as a disk may be
    closed: list[int] = []
    free = spills._free

    def noted(handle: int) -> None:
        closed.append(handle)
        free(handle)

    class TwoAtATime(threading.BoundedSemaphore):
        """Whoever must wait sees what is left, and that nothing was freed; then the disk may begin."""

        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            if blocking and not may_free.is_set():
                left.append(sorted(file.name for file in tmp_path.iterdir()))
                assert not closed
                may_free.set()
            return super().acquire(blocking, timeout)

    left: list[list[str]] = []
    monkeypatch.setattr(spills, "_FREEING", freeing)
    monkeypatch.setattr(spills, "_OPEN", TwoAtATime(2))
    monkeypatch.setattr(spills, "_free", noted)
    files = [tmp_path / f"points-{i}.bin" for i in range(4)]
    for file in (files[0], files[2], files[3]):
        file.write_bytes(b"points")
    part = tmp_path / "part.bin"
    part.write_bytes(b"part")
    (tmp_path / "model.safetensors").hardlink_to(part)
    spills._unlink([*files, part])
    assert left == [["model.safetensors", "part.bin", "points-3.bin"]]
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    freeing.shutdown()
    assert len(closed) == 4  # the part too, which still has a name
    assert (tmp_path / "model.safetensors").read_bytes() == b"part"


def test_a_spill_folder_of_somebody_else_is_left_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.folder / ".files.building").mkdir()
    owner = (site.folder / ".files.building").stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(ml.DataError, match="it belongs to another user: move it away"):
        site.build()


def test_a_build_that_is_stopped_twice_goes_on_and_leaves_what_others_put_beside_its_pieces(tmp_path: Path) -> None:
    """Into a folder that does not exist yet."""
    X, Y, _ = data_of("ids")
    pattern, out = write(tmp_path / "shards", X, Y, [150, 300]), tmp_path / "new" / "files"
    spill = out.with_name(".files.building")
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, 300, 500)
        for kind in ("write_points", "part"):
            with stopped(kind), pytest.raises(OSError, match="is full"):
                memorize_files(pattern, out, workers=1, resume=spill.exists())
        here = executors.here

        def meanwhile(function: Any, tasks: Any) -> Any:
            (spill / "thesis.tex").write_text("ten years")
            return here(function, tasks)

        patch.setattr(executors, "here", meanwhile)
        memorize_files(pattern, out, workers=1, resume=True)
    ml.memorize(read(pattern)).save(tmp_path / "memory")
    same(out, tmp_path / "memory")
    assert [path.name for path in spill.iterdir()] == ["thesis.tex"]


def test_interrupted(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(site.folder / "files")
    words = ["memorize-files", site.pattern, "--out", out, "--memory", "2GB", "--workers", "1"]
    with stopped("write_points", KeyboardInterrupt()):
        assert run(words) == 130
    assert "--resume" in capsys.readouterr().err
    assert not Path(out).exists()
    assert run([*words, "--resume", "--seed", "1"]) == 2
    assert "began with --seed 0" in capsys.readouterr().err
    assert run([*words, "--resume"]) == 0
    assert run([*words, "--resume"]) == 2
    site.check()


OTHER_OPTIONS: list[dict[str, Any]] = [
    *({"positions": True}, {"causal": True}, {"temperature": 2.0}, {"rank": 1}, {"seed": 1}, {"workers": 2}),
    *({"format": "jsonl"}, {"tokens": "tokens"}, {"labels": "labels"}, {"unit": "whole"}, {"per": "token"}),
    {"memory": "3GB"},
]


def test_a_build_is_not_resumed_with_any_other_option(site: Site) -> None:
    """Pieces depend on them, so the model would be of no set of options."""
    with stopped("part"), pytest.raises(OSError, match="is full"):
        site.build()
    for options in OTHER_OPTIONS:
        (name,) = options
        with pytest.raises(ml.DataError, match=f"began with {name}=.*cannot continue with {name}="):
            site.build(resume=True, **options)
    site.build(resume=True)
    site.check()


def test_two_builds_of_one_folder_do_not_run_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a second build begins in the middle of the first. It would delete the pieces of the first."""
    here, begun = executors.here, list[str]()

    def meanwhile(function: Any, tasks: Any) -> Any:
        if function.__name__ == "part" and not begun:
            for resume in (False, True):
                begun.append(function.__name__)
                with pytest.raises(ml.DataError, match="another process is building"):
                    site.build(resume=resume)
        return here(function, tasks)

    monkeypatch.setattr(executors, "here", meanwhile)
    site.build()
    assert begun == ["part", "part"]
    site.check()


@pytest.mark.parametrize("how", ["mended", "touched", "replaced", "more", "fewer", "another", "another later"])
def test_resume_takes_a_mended_file_and_no_other(site: Site, how: str) -> None:
    first, damaged = (site.folder / "shards" / name for name in ("s0.jsonl", "s1.jsonl"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    with pytest.raises(ml.DataError, match=r"s1.jsonl .*When that is fixed, continue with resume=True"):
        site.build()
    damaged.write_bytes(whole)
    if how == "mended":
        site.build(resume=True)
        site.check()
        return
    if how == "touched":
        os.utime(first, ns=(1, 1))
    elif how == "replaced":  # by one of the same size and time, as `cp -p` and `rsync` make it
        other, then = first.with_suffix(".new"), first.stat()
        other.write_bytes(first.read_bytes()[::-1])
        os.utime(other, ns=(then.st_atime_ns, then.st_mtime_ns))
        other.replace(first)
    elif how == "more":
        (site.folder / "shards" / "s9.jsonl").write_bytes(first.read_bytes())
    elif how == "fewer":
        (site.folder / "shards" / "s2.jsonl").unlink()
    elif how == "another later":
        (site.folder / "shards" / "s2.jsonl").rename(site.folder / "shards" / "s3.jsonl")
    else:
        first.rename(site.folder / "shards" / "s1a.jsonl")
    with pytest.raises(ml.DataError, match="start over without resume"):
        site.build(resume=True)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [(encode, "read", "s0.jsonl changed while it was read"), (parts, "part", "changed while the model was built")],
)
def test_a_file_that_changes(site: Site, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, words: str) -> None:
    function = getattr(module, name)

    def meanwhile(*task: Any, **options: Any) -> Any:
        os.utime(site.folder / "shards" / "s0.jsonl", ns=(1, 1))
        return function(*task, **options)

    monkeypatch.setattr(module, name, meanwhile)
    with pytest.raises(ml.DataError, match=words):
        site.build()
    assert not (site.folder / "files").exists()


def test_a_build_is_not_resumed_by_any_other_code(tmp_path: Path) -> None:
    """A change of any layer, or of a name, is another version: pieces depend on how data are read as well."""
    package = tmp_path / "monolayer"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert code(package) == code()
    layers = sorted({file.parent for file in package.rglob("*.py")})
    assert {"cluster", "data", "line", "construct", "model"} <= {layer.name for layer in layers}
    for layer in layers:
        file = max(layer.glob("*.py"))
        before = file.read_bytes()
        file.write_bytes(before + b"#")
        assert code(package) != code(), file
        file.write_bytes(before)
    (package / "table.py").rename(package / "tables.py")
    assert code(package) != code()


NO_MEMORY = ("much", "0GB", "1ib", "9" * 400, 0, True, float("inf"), float("nan"), 1e300)
JOURNALS = {
    "[]": "its journal cannot be read",
    "[" * 100_000: "its journal cannot be read",
    '{"sizes": [1e999, 1, 1], "shards": []}': "sizes are not three whole numbers",
    '{"sizes": [1, 1], "shards": []}': "sizes are not three whole numbers",
    '{"sizes": [-1, 1, 1], "shards": []}': "sizes are not three whole numbers",
    '{"sizes": [1, 1, 1], "shards": [3]}': "shards are not a list of files",
    '{"sizes": [1, 1, 1], "shards": [{}]}': "shards are not a list of files",
    '{"sizes": [1, 1, 1], "shards": {}}': "shards are not a list of files",
    '{"code": "other", "sizes": [1, 1, 1], "shards": []}': "another version of monolayer.*start over without resume",
}


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.2)
    pattern, out = write(tmp_path / "good", [[1, 2]], [[0, 1]], []), tmp_path / "files"
    real = write(tmp_path / "real", [[1, 2]], [[0.5, 1.0]], [])
    bare = write(tmp_path / "bare", [[1, 2]], None, [])
    vectors = write(tmp_path / "vectors", [[[1.0, 2.0]], [[3.0, 4.0]]], [[1], [2]], [])
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (pattern, {"resume": True}, "nothing to resume"),
        ("-", {}, "standard input"),
        (str(tmp_path / "gone.jsonl"), {}, "gone.jsonl cannot be read: No such file"),
        ([pattern, real], {}, "s0.jsonl do not go together.*integers as labels.*real numbers as labels"),
        (bare, {}, "no labels: add them, or pass causal=True"),
        (vectors, {}, "are vectors: memorize_files takes ids and strings"),
        (pattern, {"memory": "100MB"}, r"too little: 1 workers .* need at least [\d,]+MB"),
        *((pattern, {"memory": memory}, "memory must be a number of bytes") for memory in NO_MEMORY),
        (pattern, {"workers": 0}, "workers must be"),
        (pattern, {"engine": "ray"}, "engine must be one of"),
        (pattern, {"engine": "dask"}, "needs the address of a scheduler"),
        (pattern, {"engine": "dask", "scheduler": "tcp://127.0.0.1:1"}, "no Dask scheduler at 'tcp://127.0.0.1:1'"),
    ]
    for files, options, words in wrong:
        with pytest.raises(ml.DataError, match=words):
            memorize_files(files, out, **{"workers": 1, **options})
    for journal, words in JOURNALS.items():
        (tmp_path / ".files.building").mkdir(exist_ok=True)
        (tmp_path / ".files.building" / "journal.json").write_text(journal)
        with pytest.raises(ml.DataError, match=words):
            memorize_files(pattern, out, workers=1, resume=True)
    assert not out.exists()
    long = tmp_path / ("n" * 250)  # with .building it is too long
    with pytest.raises(OSError, match="too long") as caught:
        memorize_files(pattern, long, workers=1)
    assert caught.value.filename == str(long)


# -- points -------------------------------------------------------------------------------------------------

near_zero = st.sampled_from([-3.5, -(2.0**-40), 0.0, 2.0**-40, 0.1, 3.5])
one_sign = st.sampled_from([-510.5, -510.25, -500.0, -3.5])


@settings(max_examples=30)
@given(
    st.one_of(*(st.lists(st.tuples(z, st.integers(0, 999)), max_size=40) for z in (near_zero, one_sign))),
    st.sampled_from([-1.0, 1.0]),
)
def test_points_come_in_order_of_z_then_of_label_equal_ones_once(points: list[tuple[float, int]], sign: float) -> None:
    points = [(sign * z, label) for z, label in points]
    z, label = np.array([z for z, _ in points]), np.array([label for _, label in points], dtype=np.uint16)
    reals = distinct_in_order(z, np.stack([label, label], axis=1).astype(np.float64))
    found = distinct_in_order(z, label)  # which may write to them
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(set(points))
    assert reals[1][:, 1].tolist() == [label for _, label in sorted(set(points))]


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("strict", [False, True])
@given(data=st.data())
def test_ranges_are_cut_where_no_crowd_is(
    tmp_path_factory: pytest.TempPathFactory, strict: bool, data: st.DataObject
) -> None:
    """Ranges one after the other are all points, whatever the splitters; each has the crowds that all points have."""
    steps = data.draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 20.0]), min_size=1, max_size=60))
    z = 1.0 + 2.0**-52 * np.cumsum(steps)
    label = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(z), max_size=len(z))), dtype=np.uint8)
    order = np.lexsort((label, z))
    z, label = z[order], label[order]
    spill, pieces = Spill(tmp_path_factory.mktemp("spill")), np.arange(len(z)) % 3
    at = sorted(data.draw(st.lists(st.sampled_from(z.tolist()), max_size=4)))
    ends, whole = [-np.inf, *at, np.inf], np.unique(np.stack([z, label]), axis=1)
    for i in range(3):
        spill.write(f"points-{i}", [z[pieces == i], label[pieces == i]])
    found, count, crowds = [np.zeros((2, 0))], 0, list[tuple[float, float]]()
    for r, (since, until) in enumerate(pairwise(ends)):
        own = [z[pieces == i] for i in range(3)]
        places = [np.searchsorted(some, [since, until]).tolist() for some in own]
        names, bounds = [f"points-{i}" for i in range(3)], np.array([[*places[i], len(own[i])] for i in range(3)])
        range_ = Range(r, since, until, names, bounds, np.dtype(np.uint8), 0, 1.0, 0.0, 10)
        some, labels, clean = range_.gather(spill, strict)
        assert clean or not strict
        begin = int(bool(count) and len(some) > 0)  # the point before
        if begin:
            assert (some[0], labels[0]) == tuple(whole[:, count - 1])
        if len(some):
            part = cut_line(range_.points(some), np.flatnonzero(labels[1:] != labels[:-1]))
            crowds += zip(some[part.begin].tolist(), some[part.end - 1].tolist(), strict=True)
        found.append(np.stack([some[begin:], labels[begin:]]))
        count += len(some) - begin
    assert np.concatenate(found, axis=1).tolist() == whole.tolist()
    every = cut_line(Points(whole[0], whole[0], 1.0, 0.0), np.flatnonzero(whole[1, 1:] != whole[1, :-1]))
    if strict:
        assert crowds == list(zip(whole[0][every.begin].tolist(), whole[0][every.end - 1].tolist(), strict=True))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([1.0, 20.0]), st.booleans()), min_size=1, max_size=40), st.integers(1, 12))
def test_a_range_ends_at_the_first_wide_gap_between_two_stretches_of_one_label(
    steps: list[tuple[float, bool]], first: int
) -> None:
    """Stretches lie between wide gaps. What lies before the first of these and behind the last one may go on."""
    z = 1.0 + 2.0**-52 * np.cumsum([0.0, *(step for step, _ in steps)])
    label = np.cumsum([0, *(change for _, change in steps)]) % 3
    range_ = Range(0, 0.0, 1.0, [], np.zeros((0, 3), int), np.dtype(np.uint8), 0, 1.0, 0.0, 10)
    wide = np.flatnonzero(~too_narrow(range_.points(z).room)).tolist()
    ends = [
        at + 1
        for before, at, behind in zip(wide, wide[1:], wide[2:], strict=False)
        if len({*label[before + 1 : at + 1]}) == len({*label[at + 1 : behind + 1]}) == 1
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_points, "LOOKED_AT_FIRST", first)
        assert range_._clean(z, label) == next(iter(ends), None)


@given(st.sets(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(1, 12))
def test_splitters_cut_a_sample_into_equal_ranges(values: set[float], ranges: int) -> None:
    z = np.array(list(values))
    at = splitters(z, ranges)
    assert len(at) == ranges - 1
    sizes = np.diff([0, *np.searchsorted(np.sort(z), at), len(z)])
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=10)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 1e-12))
def test_many_points_are_hopeless_wherever_they_lie(low: float, reach: float, error: float) -> None:
    points = Points(np.zeros(0), np.zeros(0), 1.0, error)
    assert hopeless(10**9, 10**8, points, (low, low + reach))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 2.0**-52, 2.0**-50, 2.0**-44, 0.5, 3.0]), st.booleans()), max_size=40),
    st.sampled_from([-1000.0, -3.0, 0.0, 700.0]),
    st.sampled_from([0.0, 2.0**-53, 2.0**-46]),
    st.integers(1, 7),
)
def test_one_look_at_gaps_says_all(steps: list[tuple[float, bool]], low: float, error: float, at_once: int) -> None:
    """`gaps` says what `apart` and `margins` say, however many points are looked at together."""
    z = low + np.cumsum([0.0, *(step for step, _ in steps)])
    points, changes = Points(z, z, 1.0, error), np.array([change for _, change in steps], dtype=bool)
    with pytest.MonkeyPatch.context() as patch, np.errstate(invalid="ignore", divide="ignore"):
        patch.setattr(arrays, "POINTS_IN_CACHE", at_once)
        found = gaps(points, changes)
        wanted = margins(points, np.flatnonzero(changes))
        assert (found.wide, found.least) == apart(points)
    assert str(found.margin) == str(wanted.least)
    assert found.narrow == (len(wanted.close) > 0)


def numbers_to_order(kind: str, count: int) -> np.ndarray:
    """Numbers that are spread, or that are not, for `order_of`."""
    random = np.random.default_rng(0)
    spread = random.uniform(-3.0, 5.0, count)
    few = random.choice(count, 5, replace=False)
    if kind == "equal and nearly equal":
        spread = np.nextafter(np.round(spread, 2), random.choice([-9.0, 9.0], count))
    elif kind == "one far away":
        spread[few[0]] = 1e300
    elif kind == "one number":
        spread[:] = -2.5
    elif kind == "subnormal":
        spread *= 5e-320
    elif kind in ("nan", "inf", "-inf"):
        spread[few] = float(kind)
    return spread


@pytest.mark.parametrize("count", [0, 1, 100, 4096, 20_000])
@pytest.mark.parametrize(
    "kind", ["spread", "equal and nearly equal", "one far away", "one number", "subnormal", "nan", "inf", "-inf"]
)
def test_numbers_are_put_in_order(kind: str, count: int) -> None:
    z = numbers_to_order(kind, max(5, count))[:count]
    order = order_of(z)
    assert np.array_equal(np.sort(order), np.arange(count))
    assert np.array_equal(z[order], np.sort(z), equal_nan=True)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.sampled_from([3, 1000, 70_000, 10**7]), st.booleans())
def test_contexts_then_codes_is_the_order_of_z(sequences: int, length: int, codes: int, partly: bool) -> None:
    random = np.random.default_rng(sequences)
    code = random.integers(-codes // 2, codes // 2, sequences * length).astype(np.float64)
    context = random.random(sequences)
    z = code + 0.5 * np.repeat(context, length)
    place = np.flatnonzero(random.random(len(z)) < 0.6) if partly else None
    digits, chosen = short(code - code.min(), codes), z if place is None else z[place]
    for tensors in (False, True):
        given = [torch.from_numpy(part) if tensors and part is not None else part for part in (context * 0.5, place)]
        numbers = short(torch.from_numpy(code - code.min()), codes) if tensors else digits
        found, order = (home(part) for part in token_major(Digits(numbers, float(code.min())), *given))
        assert sorted(order.tolist()) == list(range(len(chosen)))
        assert np.array_equal(found, np.sort(chosen))
        assert np.array_equal(found, chosen[order])


def test_codes_that_are_too_far_apart_have_no_digits() -> None:
    two = Tokens(np.array([0, 1]), np.array([2]), Ids(2), None, False)
    for most, there in ((2.0**32 - 1.0, True), (2.0**32, False)):
        proposal = Proposal(np.zeros(2), np.array([-5.0, most - 5.0]))
        found = Encoded(draw.Draw(proposal, None, None, 0.0, 1.0, "cells", True), two).digits()
        assert (found is not None) == there
        assert found is None or (found.numbers.tolist(), found.low) == ([0, int(most)], -5.0)


# -- fingerprints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_keys_and_values_have_the_fingerprints_of_memory(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same key in two files has one fingerprint, in whatever pieces and ranges the build is cut."""
    for number in range(3):
        rows = "".join(
            f"key {row % 70} of {row % 9},value {row % 5}\n" for row in range(90 * number, 90 * number + 150)
        )
        (tmp_path / f"{number}.csv").write_text("key,value\n" + rows)
    pattern = str(tmp_path / "*.csv")
    small_pieces(monkeypatch, 64, 16)
    options: dict[str, Any] = {"positions": True, "unit": "words"}
    ml.memorize(read(pattern), positions=True).save(tmp_path / "memory")
    out = memorize_files(pattern, tmp_path / "files", workers=workers, **options)
    same(out, tmp_path / "memory")
    model = ml.load(out)
    assert model.predict(["key 1 of 1", "key 1 of 5", "key 1"], unknown=None).tolist() == ["value 1", None, None]
    assert ml.certify(out, read(pattern)).verdict == "proved"
    memorize_files(pattern, out, workers=1, unknown=False, overwrite=True, **options)
    assert not (out / "memory.safetensors").exists()


def test_other_files_have_fingerprints_if_asked(tmp_path: Path) -> None:
    X, Y, options = data_of("positions")
    pattern = write(tmp_path, X, Y, [100, 200])
    assert ml.load(both(tmp_path, pattern, **options)).card.fingerprint is None
    assert ml.load(both(tmp_path, pattern, unknown=True, **options)).seen(X[:3])[0].all()
    X, _, options = data_of("next tokens")
    assert ml.load(both(tmp_path, write(tmp_path / "text", X, None, [100]), unknown=True, **options)).card.next_token
    with pytest.raises(ml.DataError, match="unknown must be True, False or None"):
        memorize_files(pattern, tmp_path / "x", unknown="?")  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "wanted"), [(np.uint8, "BF16"), (np.uint16, "F32"), (np.uint32, "F64")])
def test_a_part_is_stored_in_the_shortest_formats_that_hold_its_numbers(kind: Any, wanted: str) -> None:
    """Classes of one byte differ by up to 255, of two by up to 65,535; slopes are powers of two."""
    least, widest = 2.0**-120, 2.0**120
    for error, z, slopes in (
        (1e-10, [0.0, 1.0], "BF16"),
        (1e-10, [], "BF16"),
        (least, [0.0, widest], "BF16"),
        (least / 2.0, [0.0, 1.0], "F64"),
        (least, [0.0, 2.0 * widest], "F64"),
    ):
        range_ = Range(0, -np.inf, np.inf, [], np.zeros((0, 3), np.int64), np.dtype(kind), 0, 1.0, error, 10)
        assert parts._formats(range_, np.array(z)) == (slopes, wanted)
        assert parts._formats(replace(range_, reals=2), np.array(z)) == (slopes, "F64")


@given(st.integers(1, 10**6), st.integers(1, 10**9))
def test_ranges_aim_at_four_fifths_of_what_fits(range_: int, points: int) -> None:
    count = Room(1, range_).ranges(points)
    assert 4 * range_ * (count - 1) < 5 * points <= 4 * range_ * count
