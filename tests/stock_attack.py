"""Changes to the files of stock folders, and what transformers makes of a folder that is proved all the same.

Used by `bench/no_false_proof_of_a_stock_folder.py` and `bench/no_false_proof_of_changed_robust_weights.py`, and in a
short run by the tests of both kinds of folders.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import monolayer as ml
from monolayer.huggingface.architectures import ARCHITECTURES
from monolayer.huggingface.resaved import harmless, resaved_values, special_tokens_map

Cut = Literal["characters", "words", "pieces", "given"]
Files = dict[str, bytes]
ROWS = ("abcab", "dbe", "fgdea", "cb")
TEXTS = ("abcab", "dbe", "fgdea")
"""Letters stand for tokens. Texts that a language model continues begin each with a letter of its own."""
LONG = "kabcdefgabch lhgfedcbaab mbdfhaceg ngecahfdbbgd ohhaabbcc pcafebhdgac qddeeffgg rbadcfehg"
"""What folders of cells hold: where contexts are long, half-spaces are narrower."""
AUTO = {"token": "TokenClassification", "sequence": "SequenceClassification", "lm": "CausalLM"}
PIPELINES = {"token": "token-classification", "sequence": "text-classification", "lm": "text-generation"}


@dataclass(frozen=True)
class Case:
    """What is memorized, in which architecture."""

    name: str
    task: str
    cut: Cut
    positions: bool
    robust: bool

    @property
    def causal(self) -> bool:
        return ARCHITECTURES[self.name].causal

    @property
    def rows(self) -> list[list[str]]:
        """The tokens."""
        spell = {
            "characters": lambda letter, first: letter,
            "words": lambda letter, first: letter * 3,
            "pieces": lambda letter, first: letter * 3 if first else f" {letter * 3}",
            "given": lambda letter, first: f"{letter} {letter}",
        }[self.cut]
        return [[spell(letter, place == 0) for place, letter in enumerate(row)] for row in self._letters]

    @property
    def _letters(self) -> tuple[str, ...]:
        return tuple(LONG.split()) if self.robust else TEXTS if self.task == "lm" else ROWS

    @property
    def texts(self) -> list[Any]:
        """What a tokenizer takes."""
        return self.rows if self.cut == "given" else [self.glue.join(row) for row in self.rows]

    @property
    def glue(self) -> str:
        return " " if self.cut == "words" else ""

    @property
    def labels(self) -> Any:
        """Labels that the multiset of the tokens determines, in a causal model of those so far."""
        if self.task == "lm":
            return None
        number = [np.array([ord(letter) - 96 for letter in row]) for row in self._letters]
        if self.task == "sequence":
            return [f"c{int((row * row).sum()) % 4}" for row in number]
        sums = [np.cumsum(row * row) if self.causal else row * (row * row).sum() for row in number]
        return [[f"c{int(one) % 4}" for one in row] for row in sums]

    def build(self, folder: Path) -> Path:
        options: dict[str, Any] = {"storage": "cells", "rank": 32} if self.robust else {"storage": "steps"}
        return ml.memorize_as(self.name, self.rows, self.labels, positions=self.positions, **options).save(folder)

    def resave(self, folder: Path, out: Path, *, shards: bool, all_rows: bool) -> Path:
        """The folder as transformers saves it again after use; `all_rows`: with everything that the tables allow."""
        import transformers

        transformers.utils.logging.disable_progress_bar()
        network = getattr(transformers, f"AutoModelFor{AUTO[self.task]}").from_pretrained(folder, dtype="auto")
        network.save_pretrained(out, max_shard_size="20KB" if shards else "5GB")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        split = {"is_split_into_words": True} if self.cut == "given" else {}
        tokenizer(self.texts, padding=True, truncation=True, **split)
        tokenizer.save_pretrained(out)
        if all_rows:
            facts = ml.load(folder).facts  # type: ignore[union-attr]
            rules = harmless(facts)
            for name in ("config.json", "tokenizer_config.json"):
                rows = {key: values[-1] for key, values in rules[name].more.items()}
                (out / name).write_bytes(_dumped({**rows, **json.loads((out / name).read_bytes())}))
            (out / "special_tokens_map.json").write_bytes(_dumped(special_tokens_map(facts)))
        return out


def cases() -> Iterator[Case]:
    """Every architecture, task and cut; with positions, and robust, in one cut each."""
    cuts: tuple[Cut, ...] = ("characters", "words", "pieces", "given")
    for name, kind in ARCHITECTURES.items():
        for number, task in enumerate(kind.models):
            for cut in cuts if not kind.rms else ():
                yield Case(name, task, cut, positions=False, robust=False)
            if kind.has_places:
                yield Case(name, task, cuts[number], positions=True, robust=False)
            yield Case(name, task, cuts[number], positions=True, robust=True)


# -- changes -------------------------------------------------------------------------------------------------

POOL: list[Any] = [
    *(None, True, False, "", "x", "left", "right", "float32", "gelu", "relu", "silu", "\ufeff", "[CLS]", "<s>"),
    *(0, 1, 2, 3, -1, 512, 2**31, 2**70, 0.0, -0.0, 0.5, 1.0, 1e-5, 1e30, 1e308),
    *("5.23.0", "absolute", "single_label_classification", "TokenizersBackend", 10000, 0.02, 0.1),
    *([], [0], ["x"], {}, {"0": "a"}, {"type": "Lowercase"}, {"type": "ByteLevel"}, {"type": "Fuse"}),
]
KEYS = {
    "config.json": """is_decoder use_cache problem_type num_labels rope_scaling sliding_window auto_map dtype
        chunk_size_feed_forward attn_implementation _attn_implementation quantization_config head_dim bos_token_id
        add_cross_attention position_embedding_type reorder_and_upcast_attn scale_attn_weights draw return_dict
        do_layer_norm_before layer_types hidden_act pruned_heads""",
    "tokenizer.json": "normalizer padding truncation pre_tokenizer decoder version model",
    "tokenizer_config.json": """padding_side truncation_side add_prefix_space do_lower_case added_tokens_decoder
        use_fast extra_special_tokens model_input_names tokenizer_class add_bos_token split_special_tokens
        chat_template auto_map pad_token max_length stride""",
    "generation_config.json": """num_beams max_length min_length do_sample temperature eos_token_id use_cache
        forced_bos_token_id suppress_tokens repetition_penalty bad_words_ids max_new_tokens transformers_version""",
    "special_tokens_map.json": "pad_token bos_token additional_special_tokens extra_special_tokens padding_side",
    "model.safetensors.index.json": "metadata weight_map",
}
_KNOWN_ROWS = {key for row in resaved_values()["config.json"].values() for key in row["more"]}
KEYS["config.json"] += " ".join(["", "monolayer_draw", "transformers_version", *sorted(_KNOWN_ROWS)])
KEYS["tokenizer_config.json"] += " ".join(["", *sorted(resaved_values()["tokenizer_config.json"]["more"])])
MORE = {
    "special_tokens_map.json": b'{"pad_token": "a", "padding_side": "left"}',
    "added_tokens.json": b'{"aaa": 50}',
    "generation_config.json": b'{"num_beams": 3}',
    "adapter_config.json": b'{"peft_type": "LORA"}',
    "chat_template.jinja": b"{{ messages }}",
    "vocab.txt": b"[PAD]\n[UNK]\n",
    "pytorch_model.bin": b"",
    "model.safetensors.index.json": b'{"weight_map": {}}',
    "processor_config.json": b"{}",
    ".gitattributes": b"*.safetensors filter=lfs",
}


def json_files(files: Files, random: np.random.Generator) -> Files:
    """One to three changes, most of them in one JSON file."""
    for _ in range(int(random.choice([1, 1, 1, 2, 3]))):
        how = random.choice([_value, _value, _value, _key, _text, _file, _together], p=[0.2] * 3 + [0.1] * 4)
        files = how(dict(files), random)
    return files


def weights(files: Files, random: np.random.Generator) -> Files:
    """One tensor changed: a bit, a number, two rows, or all of it, from harmless to fatal."""
    import torch
    from safetensors.torch import load, save

    tensors = load(files["model.safetensors"])
    live = [name for name in sorted(tensors) if tensors[name].any()]
    name = str(random.choice(live if random.random() < 0.8 else sorted(tensors)))
    flat = tensors[name].view(-1)
    used = torch.nonzero(flat).reshape(-1).numpy()
    at = int(random.choice(used) if len(used) and random.random() < 0.8 else random.integers(len(flat)))
    kind = str(random.choice(["bit", "zero", "negate", "scale", "shift", "slight", "rows", *(3 * ["jolt"])]))
    old, whole = float(flat[at]), {4: torch.int32, 2: torch.int16}[flat.itemsize]
    if kind == "bit":
        flat[at : at + 1].view(whole).bitwise_xor_(1 << int(random.integers(8 * flat.itemsize - 1)))
    elif kind == "jolt":  # about where labels are lost, proofs must become undecided in time
        flat *= 1.0 + float(np.exp(random.uniform(-5.0, 0.5))) * torch.from_numpy(random.normal(size=len(flat)))
    elif kind == "rows" and tensors[name].ndim == 2:
        rows = random.integers(len(tensors[name]), size=2)
        tensors[name][rows] = tensors[name][rows[::-1].copy()]
    else:
        new = {"zero": 0.0, "negate": -old, "scale": 1.5 * old, "shift": old + 3.0}
        flat[at] = new.get(kind, old * (1.0 + float(random.normal()) * 1e-3))
    return {**files, "model.safetensors": save(tensors, metadata={"format": "pt"})}


def _json_of(files: Files, random: np.random.Generator) -> tuple[str, Any]:
    """One of the JSON files, and what it says; an empty name if there is none."""
    names = [name for name in files if name in KEYS]
    name = str(random.choice(names)) if names else ""
    return name, _loaded(files.get(name, b""))


def _loaded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Each place in nested lists and objects: the container, and the key in it."""
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [spot for key in list(keys) for spot in ((value, key), *_spots(value[key]))]


def _value(files: Files, random: np.random.Generator) -> Files:
    """Another value somewhere: of another type, a little more, nothing, or anything."""
    name, value = _json_of(files, random)
    spots = _spots(value)
    if not spots:
        return files
    holder, key = spots[random.integers(len(spots))]
    old, how = holder[key], random.integers(6)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(old, int | float):
        holder[key] = [float(old), int(old), bool(old), str(old), old + 1][random.integers(5)]
    elif how == 2 and isinstance(old, str):
        holder[key] = [old.upper(), old + " ", "", [old], old.encode("utf-8").decode("latin-1")][random.integers(5)]
    elif how == 3:
        other, there = spots[random.integers(len(spots))]
        holder[key] = copy.deepcopy(other[there])
    else:
        holder[key] = copy.deepcopy(POOL[random.integers(len(POOL))])
    files[name] = _dumped(value)
    return files


def _key(files: Files, random: np.random.Generator) -> Files:
    """One more key, such as transformers knows."""
    name, value = _json_of(files, random)
    if isinstance(value, dict):
        value[str(random.choice(KEYS[name].split()))] = POOL[random.integers(len(POOL))]
        files[name] = _dumped(value)
    return files


def _text(files: Files, random: np.random.Generator) -> Files:
    """The same or nearly the same JSON in other bytes."""
    name, value = _json_of(files, random)
    if not files.get(name):
        return files
    content, at = files[name], int(random.integers(len(files[name])))
    ways = [
        b"\xef\xbb\xbf" + content,
        content.decode("utf-8", "replace").encode("utf-16"),
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=True, sort_keys=True, indent=3).encode(),
        _dumped(dict(reversed(value.items())) if isinstance(value, dict) else value),
        content.replace(b": 0", b": -0", 1),
        content.replace(b": 0.0", b": NaN", 1),
        content.replace(b'": "', b'": "\\ud800', 1),
        content.replace(b"{", b'{"version": "1.0", "built_by": "monolayer", ', 1),
        content[:at],
        content[:at] + bytes([int(random.integers(256))]) + content[at + 1 :],
        content[:at] + b"\\u0061" + content[at + 1 :],
        content + b"\n\n",
        content + b"x",
    ]
    files[name] = ways[random.integers(len(ways))]
    return files


def _file(files: Files, random: np.random.Generator) -> Files:
    """A file more or less."""
    if random.random() < 0.3:
        files.pop(str(random.choice(sorted(files))))
    else:
        name = str(random.choice(list(MORE)))
        files[name] = MORE[name]
    return files


def _together(files: Files, random: np.random.Generator) -> Files:
    """Changes that belong together: what is left may be another model, or the same under other names."""
    said = {name: _loaded(files.get(name, b"")) for name in ("config.json", "tokenizer.json")}
    try:
        config, vocab = said["config.json"], said["tokenizer.json"]["model"]["vocab"]
        if random.random() < 0.4:
            part, values = [("eps", [1e-5, 2.0**-17, 1e-3]), ("act", ["relu", "relu6", "gelu"])][random.integers(2)]
            config[next(key for key in config if part in key)] = values[random.integers(3)]
        else:
            names = [config["id2label"], vocab][random.integers(2)]
            one, two = random.choice(list(names), 2)
            names[one], names[two] = names[two], names[one]
            config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    except (KeyError, TypeError, ValueError, StopIteration, AttributeError):
        return files
    return files | {name: _dumped(value) for name, value in said.items()}


# -- questions -----------------------------------------------------------------------------------------------


def wrong_answers(case: Case, folder: Path) -> list[str]:
    """Ways in which a folder that is proved does not load, or answers wrong, in transformers alone."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    kind = ARCHITECTURES[case.name]
    dtype = torch.float32 if case.robust else "auto"
    found = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for attention in ("eager", "sdpa") if case.robust or kind.eager else ("sdpa",):
            try:
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
                loads = getattr(transformers, f"AutoModelFor{AUTO[case.task]}").from_pretrained
                model = loads(folder, dtype=dtype, attn_implementation=attention).eval()
                found += [f"{attention}: {what}" for what in _asked(case, tokenizer, model)]
                if attention == "sdpa" and case.cut != "given":
                    found += [f"pipeline: {what}" for what in _piped(case, tokenizer, model)]
            except Exception as error:
                found.append(f"{attention}: {type(error).__name__}: {error!s:.200}")
    return found


def _asked(case: Case, tokenizer: Any, model: Any) -> Iterator[str]:
    """Batches padded as the tokenizer does it, on the right and, where that is claimed, on the left; and one by one."""
    sides: list[tuple[str, dict[str, Any], bool]] = [("own padding", {}, False)]
    sides.append(("right", {"padding_side": "right"}, False))
    if case.causal:
        sides.append(("left", {"padding_side": "left"}, True))
    split = {"is_split_into_words": True} if case.cut == "given" else {}
    for side, options, counted in sides:
        batch = tokenizer(case.texts, padding=True, return_tensors="pt", **options, **split)
        if counted:
            batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        yield from _compared(case, tokenizer, model, batch, range(len(case.rows)), side)
    for row, text in enumerate(case.texts):
        batch = tokenizer([text], return_tensors="pt", **split)
        yield from _compared(case, tokenizer, model, batch, [row], "alone")


def _compared(case: Case, tokenizer: Any, model: Any, batch: Any, rows: Any, how: str) -> Iterator[str]:
    logits, mask = model(**batch).logits, batch["attention_mask"].bool()
    if logits.isnan().any():
        yield f"{how}: what is no number"
        return
    best = logits.argmax(-1)
    for number, row in enumerate(rows):
        name = model.config.id2label
        if case.task == "sequence":
            got, wanted = name[int(best[number])], case.labels[row]
        elif case.task == "token":
            got, wanted = [name[int(one)] for one in best[number][mask[number]][1:]], case.labels[row]
        else:
            got = tokenizer.convert_ids_to_tokens(best[number][mask[number]][1:])
            wanted = [*case.rows[row][1:], tokenizer.eos_token]
        if got != wanted:
            yield f"{how}: row {row} got {got}, wanted {wanted}"


def _piped(case: Case, tokenizer: Any, model: Any) -> Iterator[str]:
    import transformers

    ask = transformers.pipeline(PIPELINES[case.task], model=model, tokenizer=tokenizer)
    if case.task == "lm":
        prompts = [case.glue.join(row[: 1 + number]) for number, row in enumerate(case.rows)]
        got = [one[0]["generated_text"] for one in ask(prompts, batch_size=3)]
        wanted: Any = case.texts
    elif case.task == "token":
        got, wanted = [[part["entity"] for part in row] for row in ask(case.texts, batch_size=4)], case.labels
    else:
        got, wanted = [row["label"] for row in ask(case.texts, batch_size=4)], case.labels
    if got != wanted:
        yield f"got {got}, wanted {wanted}"


def attack(
    case: Case, whole: Files, folder: Path, seed: int, change: Callable[..., Files] = json_files
) -> tuple[str, list[str]]:
    """The verdict on a folder with changed files, and what is wrong with it: a crash, or what transformers say."""
    files = change(dict(whole), np.random.default_rng(seed))
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        verdict: str = ml.certify(folder, case.rows, case.labels).verdict
    except ml.MonolayerError:
        return "refused", []
    except Exception as error:
        return "crash", [f"{type(error).__name__}: {error}"]
    wrong = wrong_answers(case, folder) if verdict == "proved" or (verdict == "refuted" and change is weights) else []
    if verdict == "refuted" and change is weights:
        return verdict, [] if wrong else ["refuted, and every answer is right"]
    return verdict, wrong
