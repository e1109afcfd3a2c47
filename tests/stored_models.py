"""Small saved models, built and evaluated slowly and literally from docs/format.md: the reference for the checker.

Nothing here imports monolayer. A `Saved` is the content of a model folder; `random_case` makes one for random
sequences, and `true_codes` runs it in Arb balls, on the whole matrices, whatever weights it has. In floats: evil.py.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx
from safetensors.numpy import load_file, save, save_file

ONE, KEY, CODE, LABEL = 0, 1, 2, 3


def sealed(config: dict[str, Any]) -> bytes:
    """config.json with a digest that fits."""
    config = {key: value for key, value in config.items() if key != "digest"}
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return json.dumps(config | {"digest": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


def resealed(folder: Path, tensors: dict[str, np.ndarray] | None = None, **fields: Any) -> Path:
    """The saved model of one file with other tensors and other fields, every digest put right."""
    config = json.loads((folder / "config.json").read_text())
    if tensors:
        save_file(load_file(folder / "model.safetensors") | tensors, folder / "model.safetensors")
        config["files"] = {"model.safetensors": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()}
    (folder / "config.json").write_bytes(sealed(config | fields))
    return folder


@dataclass
class Saved:
    """`config` without digests, `tensors`, and the lists of `names.json`."""

    config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    names: dict[str, list[Any]] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        files = {"model.safetensors": save({name: np.ascontiguousarray(t) for name, t in self.tensors.items()})}
        if self.names:
            files["names.json"] = json.dumps(self.names).encode()
        config = self.config | {"files": {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}}
        for name, text in (files | {"config.json": sealed(config)}).items():
            (folder / name).write_bytes(text)
        return folder

    @classmethod
    def read(cls, folder: Path) -> Saved:
        """What lies in a folder with one file of weights."""
        config = json.loads((folder / "config.json").read_text())
        rest = {key: value for key, value in config.items() if key not in ("files", "digest")}
        names = json.loads((folder / "names.json").read_text()) if (folder / "names.json").exists() else {}
        return cls(rest, load_file(folder / "model.safetensors"), names)

    @classmethod
    def of(cls, model: Any) -> Saved:
        with TemporaryDirectory() as place:
            return cls.read(model.save(Path(place) / "model"))

    def changed(self, **tensors: np.ndarray) -> Saved:
        """A copy with other tensors, `a__b` standing for `a.b`."""
        new = {name.replace("__", "."): value for name, value in tensors.items()}
        return Saved(dict(self.config), {name: t.copy() for name, t in self.tensors.items()} | new, dict(self.names))

    def edited(self, name: str, place: Any, value: Any) -> Saved:
        """A copy with other numbers at a place of one tensor."""
        new = self.changed()
        new.tensors[name][place] = value
        return new


@dataclass
class Case:
    """Data and the saved model that was built from them."""

    X: list[Any]
    Y: list[Any] | None
    saved: Saved


# -- building ------------------------------------------------------------------------------------------


def random_case(seed: int, *, dtype: str = "float64", **options: Any) -> Case:
    """A small random dataset of a random kind with a model for it. `options` fix parts of the kind."""
    rng = np.random.default_rng(seed)
    kind = {
        "tokens": rng.choice(["ids", "ids", "vectors"]),
        "positions": bool(rng.integers(2)),
        "causal": bool(rng.integers(2)),
        "per": str(rng.choice(["token", "token", "sequence"])),
        "readout": "exact",
        "target": str(rng.choice(["classes", "classes", "reals"])),
        "count": int(rng.integers(2, 7)),
        "longest": int(rng.integers(2, 7)),
        "vocabulary": int(rng.integers(3, 9)),
        "classes": int(rng.integers(2, 6)),
        "next_token": False,
    } | options
    if kind["per"] == "sequence":
        kind["causal"] = False
    if kind["target"] == "reals" and kind["readout"] == "exact" and "readout" not in options and seed % 4:
        kind["readout"] = "runs"
    V, vectors = kind["vocabulary"], rng.normal(size=(kind["vocabulary"], 3)).astype(dtype).astype(float)
    sequences = [rng.integers(V, size=rng.integers(2, kind["longest"] + 1)) for _ in range(kind["count"])]
    labels = _labels(kind, sequences, rng)
    tensors = _front(kind, sequences, vectors, rng, dtype)
    config = {
        "format": "monolayer", "version": 3,
        "kind": "memorizer", "tokens": str(kind["tokens"]),
        "width": len(tensors["bos"]), "labels": len(tensors["bos"]) - LABEL, "per": kind["per"],
        "target": kind["target"], "scalar": kind["target"] == "reals", "readout": kind["readout"],
        "causal": kind["causal"], "next_token": kind["next_token"], "positions": kind["positions"], "dtype": dtype,
        "summary": None, "draw": None, "grid": None, "unit": None, "script": None, "form": None,
        "vocabulary": {"range": kind["vocabulary"]} if kind["tokens"] == "ids" else None,
        "classes": {"range": kind["classes"]} if kind["target"] == "classes" else None,
    }  # fmt: skip
    X = [s.tolist() if kind["tokens"] == "ids" else vectors[s].tolist() for s in sequences]
    saved = Saved(config, tensors)
    codes = [[float(z.mid()) for z in row] for row in true_codes(saved, X)]
    flat = [y for row in labels for y in row] if kind["per"] == "token" else labels
    z = [z for row in codes for z in row[1:]] if kind["per"] == "token" else [row[0] for row in codes]
    if kind["next_token"]:
        z = [z for row in codes for z in row[1:-1]]
        flat = [int(t) for s in sequences for t in s[1:]]
    steps = _steps(z, flat, kind, dtype)
    tensors |= {f"feed_forward.stages.0.{name}": value for name, value in steps.items()}
    saved.config["steps"] = [len(steps["weight_1"])]
    return Case(X, None if kind["next_token"] else labels, saved)


def _labels(kind: dict[str, Any], sequences: list[Any], rng: np.random.Generator) -> list[Any]:
    """Labels that depend on token and context alone."""
    book: dict[Any, Any] = {}

    def label(*key: Any) -> Any:
        fresh = int(rng.integers(kind["classes"])) if kind["target"] == "classes" else float(rng.normal())
        return book.setdefault(key, fresh)

    def context(s: Any, k: int) -> Any:
        seen = s[: k + 1] if kind["causal"] else s
        return tuple(enumerate(seen.tolist())) if kind["positions"] else tuple(sorted(seen.tolist()))

    if kind["per"] == "sequence":
        return [label(context(s, len(s) - 1)) for s in sequences]
    return [[label(int(s[k]), k * kind["positions"], context(s, k)) for k in range(len(s))] for s in sequences]


def _front(
    kind: dict[str, Any], sequences: list[Any], vectors: np.ndarray, rng: np.random.Generator, dtype: str
) -> dict[str, np.ndarray]:
    """Everything but the readout's steps."""
    V, D, m = kind["vocabulary"], LABEL + 1, 1
    longest = max(map(len, sequences))
    C = kind["classes"] if kind["target"] == "classes" else m
    matrices = {f"attention.W_{letter}": np.zeros((D, D)) for letter in "QKVO"}
    matrices["attention.W_Q"][KEY, ONE] = rng.choice([1.0, 0.5, 1.7, -1.3])
    matrices["attention.W_K"][KEY, KEY] = rng.choice([1.0, 0.9])
    matrices["attention.W_V"][CODE, KEY] = rng.choice([1.0, 1.1])
    matrices["attention.W_O"][CODE, CODE] = rng.choice([0.25, 0.3])
    bos = np.array([1.0, rng.uniform(-1, 1), 0.0, 0.0])
    out = matrices | {"bos": bos}
    if kind["tokens"] == "ids":
        lift = np.zeros((V, D))
        lift[:, ONE], lift[:, KEY] = 1.0, rng.uniform(-1, 1, V)
        lift[:, CODE] = (rng.permutation(V) - V // 2) * (longest if kind["positions"] else 1)
        unused = sorted(set(range(V)) - {int(t) for s in sequences for t in s})
        lift[unused] = np.nan
        out["lift.weight"] = lift
    else:
        direction = rng.normal(size=(2, 3))
        scale = 2.0 / np.ptp(vectors @ direction.T, axis=0)
        out["lift.weight"] = np.zeros((D, 3))
        out["lift.weight"][KEY : CODE + 1] = direction * scale[:, None] * np.array([[1.0], [V]])
        out["lift.bias"] = np.array([1.0, 0.1, -0.2, 0.0])
    if kind["positions"]:
        place = np.zeros((longest, D))
        place[:, KEY] = rng.uniform(-1, 1, longest)
        place[:, CODE] = np.arange(longest)
        out["positions.weight"] = place
    j = np.arange(C, dtype=float)
    head = np.zeros((C, D))
    head[:, LABEL] = 2.0 * j if kind["target"] == "classes" else 1.0
    out |= {"head.weight": head, "head.bias": -j * j if kind["target"] == "classes" else np.zeros(C)}
    return {name: value.astype(dtype) for name, value in out.items()}


def _steps(z: list[float], labels: list[Any], kind: dict[str, Any], dtype: str) -> dict[str, np.ndarray]:
    """One step in the middle of every gap between neighbours with different labels."""
    points = sorted(zip(z, labels, strict=True))
    if kind["target"] == "reals" and kind["readout"] != "runs":  # on a grid, where no sum rounds
        points = [(z, round(y * 2**20) / 2**20) for z, y in points]
    slope, start, jump, level = [], [], [], [points[0][1]]
    for (left, before), (right, after) in pairwise(points):
        if before != after:
            width = 2.0 ** math.floor(math.log2((right - left) / 4))
            slope.append(1 / width)
            start.append(left + (right - left - width) / 2)
            jump.append(after - before)
            level.append(after)
    w, a, y = np.array(slope, dtype), np.array(start, dtype), np.array(jump, dtype)
    last = np.array([points[-1][1]], dtype)
    if kind["readout"] == "runs":
        return {"weight_1": w, "bias_1": -w * a, "weight_2": np.array([level], dtype), "bias_2": np.zeros(1, dtype)}
    return {"weight_1": w, "bias_1": -w * a, "weight_2": -y[None], "bias_2": last}


# -- evaluating in balls -------------------------------------------------------------------------------


def _ball(array: Any) -> Any:
    return arb_mat([[arb(float(x)) for x in row] for row in array])


def _attended(saved: Saved, x: Any) -> list[list[Any]]:
    """The stream after attention, every matrix in full, as balls."""
    t, count = saved.tensors, len(x)
    W = {letter: _ball(t[f"attention.W_{letter}"]).transpose() for letter in "QKVO"}
    place = t["positions.weight"][:count] if saved.config["positions"] else np.zeros((count, len(t["bos"])))
    if saved.config["tokens"] == "ids":
        Z = _ball((t["lift.weight"][np.array(x)] + place).astype(t["bos"].dtype))
    else:
        Z = _ball(np.array(x, t["bos"].dtype)) * _ball(t["lift.weight"]).transpose() + _ball([t["lift.bias"]] * count)
        Z = Z + _ball(place)
    Z = arb_mat([*_ball([t["bos"]]).tolist(), *Z.tolist()])
    scores = ((Z * W["Q"]) * (Z * W["K"]).transpose()).tolist()
    causal, weights = saved.config["causal"], []
    for k, row in enumerate(scores):
        weight = [score.exp() if key <= k or not causal else arb(0) for key, score in enumerate(row)]
        weights.append([w / sum(weight, arb(0)) for w in weight])
    found: list[list[Any]] = (Z + arb_mat(weights) * (Z * W["V"]) * W["O"]).tolist()
    return found


def true_codes(saved: Saved, X: list[Any], bits: int = 160) -> list[list[Any]]:
    """`z` of every token as a ball, the begin-of-sequence token first."""
    with ctx.workprec(bits):
        return [[z[CODE] for z in _attended(saved, x)] for x in X]
