"""Changes to encoders with questions, and whether what is still proved of them is true at embeddings that are drawn.

The layers behind the first appended attention are run by transformers, from embeddings û that no text may have: the
theorem is about every û.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from monolayer.checker.questions.caps import LEAST_REACH, Caps
from monolayer.checker.questions.check import proved_caps
from monolayer.checker.questions.files import QuestionFolder, read_questions
from monolayer.checker.rounding import UnhandledError
from monolayer.huggingface.questions import FILE
from monolayer.huggingface.strict import ForeignError
from monolayer.saved.kinds import open_model
from monolayer.saved.questions import WithQuestions

LONGEST = {"float32": 1.0 + 2.0**-4, "bfloat16": 1.0 + 2.0**-4, "float16": 1.0}


def opened(folder: Path) -> QuestionFolder | None:
    """The folder as the checker reads it; None if it does not cover it."""
    saved = open_model(folder)
    assert isinstance(saved, WithQuestions)
    try:
        return read_questions(saved.opened)
    except (UnhandledError, ForeignError):
        return None


def said(model: Any, states: Any, found: QuestionFolder) -> Any:
    """The class that transformers gives at embeddings x = √D û `(n, D)`, in the format of the folder."""
    encoder = found.encoder
    with torch.no_grad():
        h = states[:, None]
        for number in range(found.layers):
            layer = model.get_submodule(encoder.layer(encoder.layers + number).removesuffix("."))
            h = behind(layer, h if number == 0 else attended(layer, h))
        pooler = getattr(model.base_model, "pooler", None)
        if hasattr(model, "pre_classifier"):
            logits = model.classifier(torch.relu(model.pre_classifier(h)))
        else:
            logits = model.classifier(h) if pooler is None else model.classifier(pooler(h))
    return logits.reshape(len(states), -1).argmax(dim=-1).numpy()


def attended(layer: Any, h: Any) -> Any:
    """What the first half of a layer returns."""
    if hasattr(layer, "sa_layer_norm"):
        return layer.sa_layer_norm(first(layer.attention(h)) + h)
    return first(layer.attention(h))


def behind(layer: Any, x: Any) -> Any:
    """What the second half of a layer returns."""
    if hasattr(layer, "ffn"):
        return layer.output_layer_norm(layer.ffn(x) + x)
    return layer.output(layer.intermediate(x), x)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def embeddings(found: QuestionFolder, caps: Caps, draw: np.random.Generator, count: int) -> Any:
    """Embeddings û `(n, D)` near the bounds of the claim, among them such as lie along the directions of words."""
    D = found.encoder.width
    words = np.sign(draw.standard_normal((count, found.signs.shape[1]))) @ found.dense
    some = found.signs[draw.integers(0, len(found.signs), count)] @ found.dense
    loose = np.where(draw.random((count, 1)) < 0.5, words, -some)
    loose = np.where(draw.random((count, 1)) < 0.4, draw.standard_normal((count, D)), loose)
    which = draw.integers(0, len(caps.keys), count)
    key = caps.keys[which]
    loose -= (loose * key).sum(axis=1, keepdims=True) * key
    loose /= np.linalg.norm(loose, axis=1, keepdims=True)
    bounds = np.stack([caps.silent[which], caps.awake[which], 1.0 - caps.reach[which]])
    cosine = bounds[draw.integers(0, 3, count), np.arange(count)] + draw.choice([-1e-4, 0.0, 1e-4, 0.02], count)
    cosine = np.clip(cosine, -1.0, 1.0)[:, None]
    found_states = cosine * key + np.sqrt(1.0 - cosine**2) * loose
    length = draw.choice([1.0, 1.0, 1.0, LONGEST[found.encoder.dtype], 0.5, 0.0], count)[:, None]
    return np.where(draw.random((count, 1)) < 0.15, loose, found_states) * length


def claimed(found: QuestionFolder, caps: Caps, states: Any) -> Any:
    """The class that is claimed at each û `(n, D)`; −1 where nothing is."""
    products = states @ caps.keys.T
    answers = found.answers
    silent, awake = products <= caps.silent, products >= caps.awake
    wanted = np.full(len(states), -1)
    wanted[silent.all(axis=1)] = 0
    for row in np.flatnonzero((silent | awake).all(axis=1) & awake.any(axis=1)).tolist():
        classes = set(answers[awake[row]].tolist())
        if len(classes) == 1:
            wanted[row] = classes.pop()
    length = np.linalg.norm(states, axis=1)
    near = products >= (1.0 - caps.reach + 1e-9) * length[:, None]
    near &= (caps.reach >= LEAST_REACH) & (np.abs(length - 1.0) <= caps.length)[:, None]
    for row, neuron in zip(*np.nonzero(near), strict=True):
        assert wanted[row] in (-1, answers[neuron])
        wanted[row] = answers[neuron]
    return wanted


def violations(folder: Path, seed: int, count: int = 400) -> tuple[int, int]:
    """At how many drawn embeddings something is claimed, and at how many of them transformers says otherwise."""
    found = opened(folder)
    if found is None:
        return 0, 0
    try:
        with np.errstate(all="ignore"):
            caps = proved_caps(found)
    except UnhandledError:
        return 0, 0
    dtype = getattr(torch, found.encoder.dtype)
    states = torch.from_numpy(embeddings(found, caps, np.random.default_rng(seed), count) * found.encoder.width**0.5)
    states = states.to(dtype)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=dtype).eval()
    got = said(model, states, found)
    wanted = claimed(found, caps, states.double().numpy() / found.encoder.width**0.5)
    return int((wanted >= 0).sum()), int(((wanted >= 0) & (wanted != got)).sum())


def attack(folder: Path, changed: Path, number: int) -> None:
    """A copy of a folder in which one of the added tensors is changed, and whose list of digests is made to fit."""
    shutil.copytree(folder, changed)
    draw = random.Random(number)
    said = json.loads((changed / FILE).read_text())
    tensors = load_file(changed / "model.safetensors")
    name = draw.choice(sorted(name for name in said["appended"] if tensors[name].any()))
    part = tensors[name] = tensors[name].clone()
    rows = part.reshape(len(part), -1)
    used = [row for row in range(len(rows)) if rows[row].any()]
    row = draw.choice(used)
    how = draw.choice(["scale", "all", "one", "sign", "swap", "from others"])
    if how == "scale":
        rows[row] *= draw.choice([0.0, 0.5, 0.9, 1.1, 2.0, 30.0, -1.0])
    elif how == "all":
        part *= draw.choice([0.01, 0.2, 0.5, 0.8, 1.5, 4.0])
    elif how == "one":
        column = draw.randrange(rows.shape[1])
        rows[row, column] += draw.choice([-1.0, 1.0]) * float(part.float().abs().max()) * draw.choice([0.01, 0.3, 1.0])
    elif how == "sign":
        rows[row, draw.randrange(rows.shape[1])] *= -1.0
    elif how == "swap":
        other = draw.choice(used)
        rows[[row, other]] = rows[[other, row]]
    else:
        rows[row] = rows[draw.choice(used)]
    save_file(tensors, changed / "model.safetensors", metadata={"format": "pt"})
