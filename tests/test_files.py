"""A model built from files, piece by piece, is the model that is built in memory, bit for bit."""

from __future__ import annotations

import errno
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monolayer as ml
from monolayer.cli import run
from monolayer.cluster import encode, memorize, parts, room
from monolayer.cluster import executor as executors
from monolayer.cluster import points as cluster_points
from monolayer.cluster.executor import Processes
from monolayer.cluster.memorize import memorize_files
from monolayer.cluster.room import HOUSE, Room
from monolayer.construct.line import draw, separate
from monolayer.data import read


def write(folder: Path, X: Any, Y: Any, cuts: list[int], name: str = "s", key: str | None = None) -> str:
    """Rows in several JSONL files; their pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    key = key or ("labels" if Y is not None and isinstance(Y[0], list) else "label")
    for i, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(X)], strict=True)):
        rows = [{"tokens": X[j]} | ({} if Y is None else {key: Y[j]}) for j in range(first, last)]
        (folder / f"{name}{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / f"{name}*.jsonl")


def small_pieces(monkeypatch: pytest.MonkeyPatch, block: int, points: int) -> None:
    """Pieces so small that there are several, whatever the memory."""

    def fitting(memory: object, workers: int | None, *_: object) -> Room:
        return Room(block, points, workers=workers or 1)

    monkeypatch.setattr(memorize, "Room", type("Small", (), {"fitting": staticmethod(fitting)}))


def crowd(monkeypatch: pytest.MonkeyPatch, slack: float) -> None:
    """Steps that need more, or as much, room."""
    for module in (separate, cluster_points):
        monkeypatch.setattr(module, "SLACK", slack)


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
        config["files"] = {name: digest for name, digest in config["files"].items() if name == "names.json"}
        config.pop("digest")
    assert configs[0] == configs[1]


def both(tmp_path: Path, pattern: str, **options: Any) -> Path:
    """The model of some files, which is the one of memory."""
    ml.memorize(read(pattern), **options).save(tmp_path / "memory", overwrite=True)
    out = memorize_files(pattern, tmp_path / "files", workers=1, overwrite=True, **options)
    same(out, tmp_path / "memory")
    return out


def example(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    random = np.random.default_rng(7)
    if kind == "ids":
        X = np.array([random.permutation(80)[:6] for _ in range(400)])
        return X.tolist(), random.integers(0, 5, X.shape).tolist(), {}
    if kind == "sparse ids":  # names are no row numbers, labels are negative
        X = np.array([random.permutation(90)[:5] * 10**7 for _ in range(300)])
        return X.tolist(), random.integers(-3, 3, X.shape).tolist(), {}
    words = [[f"w{i}" for i in random.integers(0, 60, n)] for n in random.integers(1, 9, 300)]
    words = [[f"v{i}", *row] for i, row in enumerate(words)]
    if kind == "positions":
        return words, [[random.choice(["x", "y"]) for _ in row] for row in words], {"positions": True}
    if kind == "sequences":
        return words, [str(label) for label in random.integers(0, 9, 300)], {"temperature": 2.0}
    if kind == "causal":
        labels = [[int(label) for label in random.integers(0, 4, len(row))] for row in words]
        return words, labels, {"causal": True, "seed": 3}
    return words, None, {"causal": True, "positions": True}


def real(kind: str, size: int) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with seven real labels, or vectors of `size` numbers, instead of classes; 0: the classes."""
    X, Y, options = example(kind)
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
        *[("causal", 0, 200, 150, 8), ("next tokens", 0, 200, 150, 8)],
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
    if kind == "ids" and slack > 8:  # the end of a range is looked for several times; it looks like contradictions
        monkeypatch.setattr(cluster_points, "BESIDE", 2)
        monkeypatch.setattr(parts, "MANY", 20)
    out, data = both(tmp_path, pattern, **options), read(pattern)
    assert ml.certify(out, data).verdict == "proved"
    assert data.labels is None or (data.labels.classes is None) == (size > 0)
    assert not list(tmp_path.glob(".*"))
    rank = json.loads((out / "config.json").read_text())["summary"]["rank"]
    assert (rank > 1) == (slack > 8)
    if kind == "sequences" and slack > 8:
        with pytest.raises(ml.PrecisionError, match=f"Rank={rank} would hold them"):
            memorize_files(pattern, tmp_path / "one", workers=1, rank=1, **options)


def test_draws_are_compared_by_the_same_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, options = example("positions")
    small_pieces(monkeypatch, 300, 500)
    monkeypatch.setattr(draw, "SAMPLE", 200)
    both(tmp_path, write(tmp_path, X, Y, [100, 250]), **options)
    rows = draw.sample_rows(1000, 8000)
    assert (rows // 40).tolist() == list(range(25))
    assert set(rows % 2) == {0, 1}  # data with a rhythm are not seen on one beat


def test_equal_contexts_equal_points_and_few_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts that differ by rounding alone are not scaled up; equal points are held once; few have a next token."""
    X = np.random.default_rng(0).permuted(np.tile(np.arange(16), (40, 1)), axis=1)
    small_pieces(monkeypatch, 100, 90)
    out = both(tmp_path, write(tmp_path / "bag", X.tolist(), (X % 4).tolist(), [10]))
    assert ml.certify(out, X, X % 4).verdict == "proved"
    both(tmp_path, write(tmp_path, [["a", "b"], ["c", "a"]] * 90, [["x", "y"], ["y", "y"]] * 90, [60, 120]))
    small_pieces(monkeypatch, 2, 1)
    monkeypatch.setattr(draw, "SAMPLE", 1)
    rows = [[i] for i in range(60)] + [[60, 61, 62, 61]]
    both(tmp_path, write(tmp_path / "next", rows, None, [30]), causal=True)


def test_memory_is_for_processes_names_and_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces have what processes and tables of names leave; too little is an error that says what is enough."""
    assert [room.size(text) for text in ("2GB", "1.5 GiB", "500m", 7)] == [2 * 10**9, 3 << 29, 5 * 10**8, 7]
    monkeypatch.setattr(room, "resident", lambda: 0)  # whatever other tests have left in this process
    some = Room.of("1.1GB", 2, HOUSE, 10)
    small = some.beside(100_000, 0)
    assert some.beside(0, 0) == some
    assert some.beside(0, 9).block < some.block
    assert small.block < some.block
    assert 2 * small.block * room.TOKEN + 100_000 * some.name <= some.spare
    with pytest.raises(ml.DataError, match=r"1,000,000 different tokens .*--memory.*fewer workers") as error:
        some.beside(1_000_000, 0)
    Room.of(str(error.value).split("'")[1], 2, HOUSE, 10).beside(1_000_000, 0)
    for processors, memory, workers in ((64, "2GB", range(4, 64)), (64, "400MB", (1,)), (1, "2GB", (1,))):
        monkeypatch.setattr("os.cpu_count", lambda processors=processors: processors)
        assert Room.fitting(memory, None, HOUSE, 1000).workers in workers
    with pytest.raises(ml.DataError, match=r"64 workers .* fewer workers or smaller files"):
        Room.fitting("2GB", 64, HOUSE, 1000)
    monkeypatch.setattr(room, "NAME", 10**9)
    with pytest.raises(ml.DataError, match="4 different tokens and classes"):
        memorize_files(write(tmp_path, [["a", "b"]], [[0, 1]], []), tmp_path / "files", workers=1)


# -- contradictions --------------------------------------------------------------------------------------


def contradicting(kind: str, size: int) -> tuple[Any, Any, dict[str, Any]]:
    """Data of a kind with rows that come back with other labels and, where it is seen, in order."""
    X, Y, options = real(kind, size)
    random = np.random.default_rng(1)
    ordered = options.get("positions") or options.get("causal")
    for row in random.choice(len(X), 60).tolist():
        order = np.arange(len(X[row])) if ordered else random.permutation(len(X[row]))
        X.append([X[row][i] for i in order])
        if Y is None:  # the next token is another one
            X[-1][-1] = X[int(random.integers(len(X)))][-1]
        elif isinstance(Y[row], list) and kind != "sequences":
            Y.append([Y[int(random.integers(len(Y)))][0] if random.random() < 0.5 else Y[row][i] for i in order])
        else:
            Y.append(Y[int(random.integers(len(Y)))])
    return X, Y, options


def refused(tmp_path: Path, pattern: str, cuts: list[int], **options: Any) -> None:
    """Files and memory show the same two places, and say how many there are."""
    with pytest.raises(ml.ContradictionError) as memory:
        ml.memorize(read(pattern), **options)
    with pytest.raises(ml.ContradictionError) as files:
        memorize_files(pattern, tmp_path / "files", workers=1, overwrite=True, **options)
    assert not list(tmp_path.glob(".files*"))
    words = str(files.value)
    for i, first in enumerate(cuts):  # numbers in a file as numbers in all
        for row in range(401):
            words = words.replace(f"sequence {row} of {tmp_path}/s{i}.jsonl", f"sequence {row + first}")
    assert words == str(memory.value).replace(", or say which label wins: on_conflict='majority' or 'first'", "")


@pytest.mark.parametrize(
    ("kind", "size", "many"),
    [("ids", 0, 4096), ("ids", 0, 2), ("positions", 0, 4096), ("sequences", 2, 4096), ("next tokens", 0, 4096)],
)
def test_contradictions_are_those_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, many: int
) -> None:
    X, Y, options = contradicting(kind, size)
    pattern = write(tmp_path, X, Y, [100, 250], key="label" if kind == "sequences" else None)
    small_pieces(monkeypatch, 700, 900)
    if many == 2:  # however few are looked at
        for module, name, value in ((parts, "NEAR", 2), (parts, "MANY", 2), (cluster_points, "LOOKED_AT", 10)):
            monkeypatch.setattr(module, name, value)
    refused(tmp_path, pattern, [0, 100, 250], **options)


rows = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.integers(0, 2)), min_size=2)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from([1, 3, 100]), st.booleans(), st.booleans())
def test_few_tokens_with_labels_of_any_kind(
    tmp_path: Path, data: list[tuple[list[int], int]], size: int, by_token: bool, reals: bool
) -> None:
    X, value = [tokens for tokens, _ in data], [-0.0, 5e-324, -1e300] if reals else [0, 1, 2]
    Y: list[Any] = [
        [value[label]] * (len(tokens) - 1) + [value[0]] if by_token else value[label] for tokens, label in data
    ]
    pattern = write(tmp_path, X, Y, [len(X) // 2])
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch, size, size)
        try:
            ml.memorize(read(pattern))
        except ml.ContradictionError:
            refused(tmp_path, pattern, [0, len(X) // 2])
        else:
            both(tmp_path, pattern)


# -- what may go wrong -----------------------------------------------------------------------------------


def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three files, and pieces so small that there are several of each kind."""
    X, Y, _ = example("ids")
    small_pieces(monkeypatch, 300, 500)
    return write(tmp_path / "shards", X, Y, [150, 300])


def expected(tmp_path: Path, pattern: str) -> Path:
    ml.memorize(read(pattern)).save(tmp_path / "memory")
    return tmp_path / "memory"


class Killing(Processes):
    """One process, whatever was asked for, which is killed when it starts, the first time."""

    killed = False

    def _start(self) -> Any:
        process = super()._start()
        if not self.killed:
            self.killed = True
            process.kill()
        return process


def test_a_killed_worker_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, pool = ready(tmp_path, monkeypatch), Killing(1)
    monkeypatch.setattr(executors, "Processes", lambda _: pool)
    out = memorize_files(pattern, tmp_path / "files", workers=2)
    assert pool.killed
    same(out, expected(tmp_path, pattern))


def test_a_worker_that_always_dies_is_no_endless_loop() -> None:
    pool = Processes(1)
    with pytest.raises(ml.OutOfMemoryError, match="was killed 3 times"):
        list(pool.run(os._exit, [(9,)]))
    assert not pool.alive


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "spilled")


def stopped(monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException = FULL) -> None:
    """Work that is stopped at the third piece of one kind."""

    def work(function: Any, tasks: list[Any]) -> Iterator[None]:
        for number, task in enumerate(tasks):
            if function.__name__ == kind and number == 2:
                raise error
            function(*task)
            yield

    monkeypatch.setattr(executors, "here", work)


@pytest.mark.parametrize("kind", ["encode", "extent", "part", "staged"])
def test_a_full_disk_leaves_no_model_and_the_build_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pattern = ready(tmp_path, monkeypatch)
    crowd(monkeypatch, 1e11)
    with monkeypatch.context() as patch:
        stopped(patch, kind)
        with pytest.raises(OSError, match=r"disk of .* is full.*resume=True"):
            memorize_files(pattern, tmp_path / "files", workers=1)
    assert not (tmp_path / "files").exists()
    spill = tmp_path / ".files.building"
    if kind == "encode":  # what a worker leaves that is killed between two writes, or in one
        (spill / "encoded-00002.bin").write_text("whole numbers and no facts")
        (spill / ".encoded-00002.facts.0123abcd").write_text("half of them")
    finished = {path.stem for path in spill.glob("*.facts")} - {f"table-{i:05}" for i in range(3)}
    done: list[str] = []
    here = executors.here

    def watched(function: Any, tasks: list[Any]) -> Iterator[None]:
        done.extend(task[1] for task in tasks)
        return here(function, tasks)

    monkeypatch.setattr(executors, "here", watched)
    out = memorize_files(pattern, tmp_path / "files", workers=1, resume=True)
    assert len(finished) >= 2
    assert done
    assert not finished & set(done)
    same(out, expected(tmp_path, pattern))
    assert not spill.exists()


def test_pieces_keep_the_sizes_that_they_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may hold more, or less, when a build goes on: pieces of two sizes would not fit together."""
    X, Y, _ = example("ids")
    pattern = write(tmp_path / "shards", X, Y, [150, 300])
    for name, value in (("HOUSE", 0), ("TOKEN", 1), ("POINT", 1), ("READ", 0), ("LEAST", 1), ("NAME", 0)):
        monkeypatch.setattr(room, name, value)
    monkeypatch.setattr(memorize, "HOUSE", 0)
    monkeypatch.setattr(room, "resident", lambda: 10_000)
    with monkeypatch.context() as patch:
        stopped(patch, "part")
        with pytest.raises(OSError, match="is full"):
            memorize_files(pattern, tmp_path / "files", workers=1, memory=10_700)
    monkeypatch.setattr(room, "resident", lambda: 10_400)
    words: dict[str, Any] = {"workers": 1, "memory": 10_700, "resume": True}
    out = memorize_files(pattern, tmp_path / "files", **words)
    same(out, expected(tmp_path, pattern))


@pytest.mark.parametrize("kind", ["file", "folder", "link", "linked"])
def test_a_spill_folder_that_holds_something_foreign_is_left_alone(tmp_path: Path, kind: str) -> None:
    pattern = write(tmp_path / "shards", [[1, 2]], [[0, 1]], [])
    spill, thesis = tmp_path / ".files.building", tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "encoded-00000.bin").write_text("ten years")
    if kind == "linked":
        spill.symlink_to(thesis)
    else:
        spill.mkdir()
        (spill / "lock").touch()
        make: dict[str, Any] = {
            "file": lambda: (spill / "thesis.tex").touch(),
            "folder": lambda: (spill / "encoded-00001.bin").mkdir(),
            "link": lambda: (spill / "journal.json").symlink_to(thesis / "encoded-00000.bin"),
        }
        make[kind]()
    before = sorted(tmp_path.rglob("*"))
    for resume in (False, True):
        with pytest.raises(ml.DataError, match=r"\.files\.building is where the build keeps its pieces, but .*: move"):
            memorize_files(pattern, tmp_path / "files", workers=1, resume=resume)
    assert sorted(tmp_path.rglob("*")) == before
    assert (thesis / "encoded-00000.bin").read_text() == "ten years"


def test_workers_import_nothing_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("zipfile", "secrets", "numpy", "monolayer"):
        (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    pool = Processes(1)
    list(pool.run(importlib.import_module, [("zipfile",), ("secrets",), ("monolayer.data",)]))
    pool.close()
    assert not list(tmp_path.glob("ran-*"))


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = ready(tmp_path, monkeypatch)
    words = ["memorize-files", pattern, "--out", str(tmp_path / "files"), "--memory", "2GB", "--workers", "1"]
    with monkeypatch.context() as patch:
        stopped(patch, "points", KeyboardInterrupt())
        assert run(words) == 130
    assert "--resume" in capsys.readouterr().err
    assert not (tmp_path / "files").exists()
    assert run([*words, "--resume", "--seed", "1"]) == 2
    assert "began with --seed 0" in capsys.readouterr().err
    assert run([*words, "--resume"]) == 0
    assert run([*words, "--resume"]) == 2
    same(tmp_path / "files", expected(tmp_path, pattern))


@pytest.mark.parametrize("how", ["mended", "touched", "more", "another"])
def test_resume_takes_a_mended_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    pattern = ready(tmp_path, monkeypatch)
    first, damaged = tmp_path / "shards" / "s0.jsonl", tmp_path / "shards" / "s1.jsonl"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    with pytest.raises(ml.DataError, match=r"s1.jsonl .*When it is mended, go on from what is done with resume=True"):
        memorize_files(pattern, tmp_path / "files", workers=1)
    damaged.write_bytes(whole)
    if how == "mended":
        same(memorize_files(pattern, tmp_path / "files", workers=1, resume=True), expected(tmp_path, pattern))
        return
    if how == "touched":
        os.utime(first, ns=(1, 1))
    elif how == "more":
        (tmp_path / "shards" / "s9.jsonl").write_bytes(first.read_bytes())
    else:
        first.rename(tmp_path / "shards" / "s1a.jsonl")
    with pytest.raises(ml.DataError, match="start anew without resume"):
        memorize_files(pattern, tmp_path / "files", workers=1, resume=True)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = ready(tmp_path, monkeypatch)

    def growing(name: str, **options: Any) -> Any:
        found = read(name, **options)
        with Path(name).open("a") as file:
            file.write("\n")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(encode, "read", growing)
        with pytest.raises(ml.DataError, match=r"s0.jsonl changed while it was read"):
            memorize_files(pattern, tmp_path / "files", workers=1)
    part = parts.part

    def late(*task: Any) -> None:
        os.utime(tmp_path / "shards" / "s1.jsonl", ns=(1, 1))
        part(*task)

    monkeypatch.setattr(parts, "part", late)
    with pytest.raises(ml.DataError, match=r"s1.jsonl changed while the model was built"):
        memorize_files(pattern, tmp_path / "files", workers=1)
    assert not (tmp_path / "files").exists()


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.2)
    pattern, out = write(tmp_path / "good", [[1, 2]], [[0, 1]], []), tmp_path / "files"
    write(tmp_path / "good", [["a", "b"]], [[0, 1]], [], name="t")
    write(tmp_path / "real", [[1, 2]], [[0.5, 1.0]], [])
    bare = write(tmp_path / "bare", [[1, 2]], None, [])
    vectors = write(tmp_path / "vectors", [[[1.0, 2.0]], [[3.0, 4.0]]], [[1], [2]], [])
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (pattern, {"resume": True}, "nothing to resume"),
        (str(tmp_path / "*.parquet"), {}, "matches no file"),
        ([], {}, "list of files is empty"),
        ("-", {}, "standard input"),
        ([pattern, pattern], {}, "given twice"),
        (str(tmp_path / "good" / "*"), {}, r"s0.jsonl and .*t0.jsonl do not go together: .* integers .* strings"),
        ([pattern, str(tmp_path / "real" / "*")], {}, "integers as labels.*real numbers as labels"),
        (bare, {}, "no labels: add them, or pass causal=True"),
        (vectors, {}, "are vectors: memorize_files takes ids and strings"),
        (pattern, {"memory": "100MB"}, r"too little: 1 workers .* need at least [\d,]+MB"),
        (pattern, {"memory": "much"}, "memory must be a number of bytes"),
        (pattern, {"workers": 0}, "workers must be"),
        (pattern, {"engine": "ray"}, "engine must be one of"),
        (pattern, {"engine": "dask"}, "needs the address of a scheduler"),
        (pattern, {"engine": "dask", "scheduler": "tcp://127.0.0.1:1"}, "no Dask scheduler at 'tcp://127.0.0.1:1'"),
        (pattern, {"seed": -1}, "seed must be"),
    ]
    for files, options, words in wrong:
        with pytest.raises(ml.DataError, match=words):
            memorize_files(files, out, **{"workers": 1, **options})
    for journal in ("[]", '{"code": "other"}'):
        (tmp_path / ".files.building").mkdir(exist_ok=True)
        (tmp_path / ".files.building" / "journal.json").write_text(journal)
        with pytest.raises(ml.DataError, match=r"another version of monolayer.*start anew without resume"):
            memorize_files(pattern, out, workers=1, resume=True)
    assert not out.exists()
    long = tmp_path / ("n" * 250)  # with .building it is too long
    with pytest.raises(OSError, match="too long") as caught:
        memorize_files(pattern, long, workers=1)
    assert caught.value.filename == str(long)


def test_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    pattern = ready(tmp_path, monkeypatch)
    with distributed.LocalCluster(1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        out = memorize_files(pattern, tmp_path / "files", engine="dask", scheduler=cluster.scheduler_address)
    same(out, expected(tmp_path, pattern))
