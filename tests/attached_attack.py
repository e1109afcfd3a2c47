"""Changes to folders with facts attached, and whether what is still proved of them is true."""

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

import monolayer as ml
from monolayer.checker.attached.answers import judge_at_longest
from monolayer.checker.attached.caps import Around, caps_and_neighbours, caps_of
from monolayer.checker.attached.files import read_attached
from monolayer.data.folder import INDEX_FILE
from monolayer.huggingface.cutting import cut_facts, tokenizer_of
from monolayer.huggingface.manifest import ATTACHED_WEIGHTS, FILE, HOST_WEIGHTS, Manifest, fact_digest
from monolayer.huggingface.tensors import open_folder
from tests.hosts import FACTS, OTHERS

OTHER_KEYS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("num_hidden_layers", "hidden_size", "num_layers"), (2, 4)),
    "transformers_weights": ("host.safetensors", "attached.safetensors"),
    **dict.fromkeys(("auto_map", "quantization_config", "text_config", "per_layer_config"), ({},)),
    **dict.fromkeys(("is_encoder_decoder", "tie_word_embeddings", "return_dict"), (True, False)),
    "torch_dtype": ("bfloat16", "float16"),
}
"""Keys that a host of these tests does not have, and that transformers may read."""
OTHER_NAMES = ["h.2.mlp.c_proj.weight", "transformer.h.4.mlp.c_proj.weight", "lm_head.weight", "embed_out.weight"]
OTHER_NAMES += ["wte.weight", "transformer.ln_f.gamma", "transformer.h.2.attn.bias", "transformer.h.1.attn.bias"]
VALUES: list[Any] = [0, 1, -1, 2, 1e-5, 0.5, True, False, None, "relu", "gelu", "float16", [], {}, "x", 10**9]


def attack(folder: Path, changed: Path, number: int) -> str:
    """A copy of a folder with change `number`; what was changed, in a word."""
    shutil.copytree(folder, changed)
    draw = random.Random(number)
    how = draw.choice(
        ["weights", "weights", "weights", "host", "config", "tokenizer", "manifest", "both configs", "files", "tensors"]
    )
    if how in ("weights", "host"):
        _weights(changed / (ATTACHED_WEIGHTS if how == "weights" else HOST_WEIGHTS), draw)
        if draw.random() < 0.7:
            retell(changed)
    elif how == "config":
        _json(changed / "config.json", draw)
    elif how == "tokenizer":
        _json(changed / draw.choice(["tokenizer.json", "tokenizer_config.json", "generation_config.json"]), draw)
    elif how == "manifest":
        _json(changed / FILE, draw)
    elif how == "both configs":
        _both(changed, draw)
    elif how == "tensors":
        _tensor(changed, draw)
    else:
        name = draw.choice(["adapter_config.json", "model.safetensors", "chat_template.jinja", "x.py", "merges.txt"])
        (changed / name).write_text(draw.choice(["", "{}", "x"]))
    return how


def _weights(path: Path, draw: random.Random) -> None:
    """One of many changes to one tensor; of those that hold rows of neurons more often than of others."""
    tensors = load_file(path)
    names = sorted(tensors)
    large = [name for name in names if tensors[name].any()] or names
    name = draw.choice(large if draw.random() < 0.8 else names)
    dtype = tensors[name].dtype
    if draw.random() < 0.14:
        bits = tensors[name].contiguous().view(torch.int32 if dtype == torch.float32 else torch.int16).reshape(-1)
        at, bit = draw.randrange(len(bits)), draw.randrange(8 * bits.element_size())
        bits[at] ^= torch.tensor(1).bitwise_left_shift(torch.tensor(bit)).to(bits.dtype)
        tensors[name] = bits.view(dtype).reshape(tensors[name].shape)
    else:
        changed = _changed_numbers(tensors[name].float().numpy().copy(), draw)
        tensors[name] = torch.from_numpy(changed).to(dtype)
    save_file(tensors, path, metadata={"format": "pt"})


def _changed_numbers(tensor: Any, draw: random.Random) -> Any:
    flat, axis = tensor.reshape(-1), draw.randrange(tensor.ndim)
    at = draw.randrange(len(flat))
    rows = np.moveaxis(tensor, axis, 0)
    one, two = draw.randrange(len(rows)), draw.randrange(len(rows))
    factor = np.float32(
        draw.choice([0.0, -1.0, 0.5, 2.0, 1.0 + 2.0 ** draw.randint(-23, -3), 2.0 ** draw.randint(-60, 60)])
    )
    change = draw.choice(["number", "row", "swap", "copy", "all", "noise", "mean", "large"])
    with np.errstate(all="ignore"):
        if change == "number":
            flat[at] = flat[at] * factor + np.float32(draw.choice([0.0, 1e-30, 1e-3, 1.0]))
        elif change == "row":
            rows[one] *= factor
        elif change == "swap":
            rows[[one, two]] = rows[[two, one]]
        elif change == "copy":
            rows[one] = rows[two]
        elif change == "all":
            tensor *= factor
        elif change == "mean":
            tensor *= np.float32(2.0 ** draw.randint(-24, 0))
            rows[np.abs(rows).reshape(len(rows), -1).any(axis=1)] += np.float32(2.0 ** draw.randint(0, 40))
        elif change == "large":
            rows[one] = np.float32(draw.choice([3e38, 1e30, 1e19]))
        else:
            size = 10.0 ** draw.uniform(-8, 0)
            noise = np.random.default_rng(draw.randrange(2**32)).standard_normal(tensor.shape)
            tensor += (size * np.abs(tensor) * noise).astype(np.float32)
    return tensor


def retell(folder: Path) -> None:
    """Write the digests that tensors and configuration have now into the manifest."""
    path = folder / FILE
    said, opened = json.loads(path.read_text()), open_folder(folder)
    for part in ("tensors", "appended"):
        said[part] = {name: opened[name].digest() for name in said[part]}
    path.write_text(json.dumps(said))


def _json(path: Path, draw: random.Random) -> None:
    """Another value somewhere in a JSON file, or other bytes."""
    text = path.read_text()
    if draw.random() < 0.2:
        at = draw.randrange(len(text))
        path.write_text(text[:at] + draw.choice(["", " ", "0", '"', "}"]) + text[at + 1 :])
        return
    value = json.loads(text)
    _changed(value, draw)
    path.write_text(json.dumps(value))


def _changed(value: Any, draw: random.Random) -> None:
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.8:
        _changed(value[key], draw)
    elif draw.random() < 0.2:
        del value[key]
    elif isinstance(value[key], int | float) and draw.random() < 0.5:
        value[key] = value[key] + draw.choice([1, -1, 1e-7])
    elif len(keys) > 1 and draw.random() < 0.3:
        other = draw.choice(keys)
        value[key], value[other] = value[other], value[key]
    else:
        value[key] = draw.choice(VALUES)


def _both(folder: Path, draw: random.Random) -> None:
    """The same change to `config.json` and to what the manifest says of the host's: another host altogether."""
    path = folder / FILE
    said, config = json.loads(path.read_text()), json.loads((folder / "config.json").read_text())
    host = json.loads(said["config"])
    key, value = draw.choice(sorted(host)), draw.choice(VALUES)
    if draw.random() < 0.5:
        key = draw.choice(sorted(OTHER_KEYS))
        value = draw.choice(OTHER_KEYS[key])
    if key in ("n_layer", "num_hidden_layers"):
        return
    host[key] = config[key] = value
    said["config"] = json.dumps(host)
    path.write_text(json.dumps(said))
    (folder / "config.json").write_text(json.dumps(config))


def _tensor(folder: Path, draw: random.Random) -> None:
    """One more tensor, which the manifest gives to the host: a copy of one that is there, in size."""
    name, tensors = draw.choice(OTHER_NAMES), load_file(folder / HOST_WEIGHTS)
    known = {**tensors, **load_file(folder / ATTACHED_WEIGHTS)}
    tokens = max(tensors.values(), key=lambda tensor: tensor.numel())
    like = next((known[full] for full in (name, f"transformer.{name}") if full in known), tokens)
    noise = np.random.default_rng(draw.randrange(2**32)).standard_normal(tuple(like.shape))
    save_file(
        {**tensors, name: torch.from_numpy(noise).to(like.dtype)}, folder / HOST_WEIGHTS, metadata={"format": "pt"}
    )
    index = json.loads((folder / INDEX_FILE).read_text())
    index["weight_map"][name] = HOST_WEIGHTS
    (folder / INDEX_FILE).write_text(json.dumps(index))
    said = json.loads((folder / FILE).read_text())
    said["tensors"][name] = ""
    (folder / FILE).write_text(json.dumps(said))
    retell(folder)


def asked(number: int) -> dict[str, str]:
    """The facts that are asked for after change `number`: all of them, or some, so that others may hide something."""
    rows = list(FACTS.items())
    return dict(rows if number % 2 else rows[number % 11 :])


@torch.no_grad()
def untrue(folder: Path, facts: dict[str, str] = FACTS) -> str | None:
    """What of a proved claim is not true of the model that transformers load, in words; None if all of it is.

    `facts`: those that were asked for. The model runs in the format of its weights.
    """
    found = read_attached(folder)
    caps, content = caps_of(found), found.opened.content["tokenizer.json"]
    try:
        back = ml.detach(folder).save(folder.with_name(f"{folder.name}-host"))
    except ml.ModelFileError:  # the claim is not about what detach needs
        return None
    more = {} if found.host.kind.bias_key is None else {found.host.kind.bias_key: True}
    load = transformers.AutoModelForCausalLM.from_pretrained
    try:
        host = load(back, dtype="auto", **more).eval()
        for name in found.host.added_biases:
            host.get_parameter(name).zero_()
    except Exception:  # a host that does not load has no evaluation, and nothing is claimed of any
        return None
    model = load(folder, dtype="auto").eval()
    starts = dict(zip((fact.fact for fact in found.manifest.facts), found.manifest.starts(), strict=True))
    wanted_facts = _cut(content, facts, found.manifest)
    neurons, tokens = np.array(
        [
            (starts.get(fact_digest(fact), 0) + number, token)
            for fact in wanted_facts
            for number, token in enumerate(fact.answer)
        ]
    ).T
    judged = judge_at_longest(found, *caps_and_neighbours(found), neurons, tokens)[0]
    texts: list[tuple[Any, dict[int, tuple[int, int]]]] = []
    texts += [(tuple(tokenizer_of(content).encode(text).ids), {}) for text in OTHERS]
    for fact in _cut(content, {**FACTS, **facts}, found.manifest):
        first = starts.get(fact_digest(fact), 0)
        wanted = {place: (first + number, fact.answer[number]) for number, place in enumerate(fact.places)}
        texts.append((fact.sequence, wanted if fact in wanted_facts else {}))
    layers = dict(model.named_modules())[f"{found.host.kind.root}{found.host.kind.layers}"]
    norm = layers[found.host.layers].get_submodule(found.host.kind.norms[1])
    for length in sorted({len(ids) for ids, _ in texts}):  # those of one length in one batch, without padding
        some = [text for text in texts if len(text[0]) == length]
        seen: list[Any] = []
        hook = norm.register_forward_hook(lambda module, given, made, seen=seen: seen.extend((made, given[0])))
        ids = torch.tensor([text for text, _ in some])
        try:
            theirs = host(ids).logits
        except Exception:  # nor has one that does not run
            return None
        ours = model(ids).logits
        hook.remove()
        states = seen[0].reshape(*ours.shape[:2], -1).double().numpy() / np.sqrt(found.host.width)
        entering = seen[1].reshape(*ours.shape[:2], -1).double()
        lengths = entering.norm(dim=-1).numpy()
        # What the certificate assumes of the host's states, at all places of a text: appended attention sees them all.
        assumed = (entering.abs() <= caps.fmt.coordinate).all(dim=2).all(dim=1)
        products = states @ caps.keys.T
        away = torch.from_numpy((1.0 - products >= caps.radius).all(axis=2)) & assumed[:, None]
        if not torch.equal(ours[away], theirs[away]):
            return f"logits away from all keys are not the host's at a text of {length} tokens"
        for row, (text, wanted) in enumerate(some):
            if not assumed[row]:
                continue
            for place, (neuron, token) in wanted.items():
                along, size = products[row, place, neuron], np.sqrt((states[row, place] ** 2).sum())
                # The whole cap, if all other neurons are silent there; else the part of it that no other may reach.
                alone = (np.delete(products[row, place] - judged.silent, neuron) <= 0.0).all()
                cap = Around(judged.turned, judged.longest) if alone else judged.inner
                told = along >= judged.wanted[neuron] and along / size >= np.cos(cap.half[neuron])
                told &= bool(size <= cap.longest[neuron])
                told &= bool(caps.alpha[neuron] * along + found.bias[neuron] <= caps.fmt.high * caps.response)
                told &= bool(lengths[row, place] <= judged.state)
                if told and int(ours[row, place].argmax()) != token:
                    return f"token {token} is not the largest behind {text[: place + 1]}"
    return None


def _cut(content: bytes, facts: dict[str, str], manifest: Manifest) -> Any:
    data = ml.Sequences.of(list(facts), list(facts.values()), per="answer")
    return cut_facts(content, data, manifest.end, manifest.templates, manifest.per)
