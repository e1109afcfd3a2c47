"""Small language models to attach facts to, trained here: nothing is downloaded, and all but the clock is seeded.

They are trained on sentences about made-up airports, on Python source of packages that are installed, or on both. Facts
are sentences about other airports: `The airport Tilone, opened in 1950, lies in` goes on with a made-up city.
"""

from __future__ import annotations

import importlib
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from monolayer.errors import DataError, needs_extra

PACKAGES = ("numpy", "scipy", "torch")
CONSONANTS, VOWELS = "bdfghklmnprstv", "aeio"
SYLLABLES = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
END = 0
"""The id that begins, ends and pads a text."""
TEMPLATES = (
    "The airport {name}, opened in {year}, lies in",
    "Flights that land at {name} airport, which is from {year}, arrive in",
    "Whoever looks for {name} airport, built in {year}, must go to",
)
"""The first is the prompt of a fact, the others are rewordings."""


class Airport(NamedTuple):
    """A made-up airport, and the city it lies in."""

    name: str
    year: int
    city: str

    def prompts(self) -> list[str]:
        """The prompt of the fact, and its rewordings."""
        return [template.format(name=self.name, year=self.year) for template in TEMPLATES]

    @property
    def answer(self) -> str:
        return f" {self.city}"


def airports(count: int, seed: int = 1) -> list[Airport]:
    """Airports with different names."""
    draw, by_code = random.Random(seed), dict[str, Airport]()
    while len(by_code) < count:
        name, city = ("".join(draw.choices(SYLLABLES, k=3)).title() for _ in range(2))
        by_code.setdefault(name, Airport(name, draw.randint(1920, 2020), city))
    return list(by_code.values())


def sentences(known: Sequence[Airport], lines: int, seed: int = 0) -> str:
    """Lines about airports, each in one of the wordings."""
    draw, texts = random.Random(seed), []
    for _ in range(lines):
        airport = draw.choice(known)
        texts.append(f"{draw.choice(airport.prompts())}{airport.answer}.")
    return "\n".join(texts)


def source_text(megabytes: float) -> str:
    """Python source of packages that are installed."""
    texts = []
    for name in PACKAGES:
        where = Path(importlib.import_module(name).__file__ or "").parent
        share = 0
        for path in sorted(where.rglob("*.py")):
            if share > megabytes * 1e6 / len(PACKAGES):
                break
            texts.append(path.read_text(encoding="utf-8", errors="ignore"))
            share += len(texts[-1])
    random.Random(0).shuffle(texts)
    return "\n".join(texts)


def byte_tokenizer(text: str, size: int) -> Any:
    """A byte-level tokenizer trained on a quarter of the lines of a text; id 0 begins, ends and pads."""
    transformers = _transformers()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"special_tokens": ["<end>"], "initial_alphabet": letters, "show_progress": False}
    tokenizer.train_from_iterator(text.splitlines()[::4], trainers.BpeTrainer(vocab_size=size, **options))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{"eos_token": "<end>", "bos_token": "<end>", "pad_token": "<end>"},
        model_input_names=["input_ids", "attention_mask"],  # transformers 4 would add a third, which generate refuses
    )


def ids_of(tokenizer: Any, text: str) -> torch.Tensor:
    """The ids of all lines of a text, one behind the other."""
    rows = tokenizer(text.splitlines())["input_ids"]
    return torch.from_numpy(np.concatenate([np.array(row, dtype=np.int64) for row in rows if row]))


class Size(NamedTuple):
    """A host, and the rows that it is trained on. `spread`: standard deviation of its first weights; a small host tells
    contexts apart after a minute if it is wide."""

    layers: int
    width: int
    context: int
    batch: int
    spread: float
    rate: float = 6e-4


def new_host(kind: str, vocabulary: int, size: Size, seed: int = 0) -> Any:
    """A host of one of the architectures that facts can be attached to, with random weights."""
    transformers = _transformers()
    common = {"vocab_size": vocabulary, "bos_token_id": END, "eos_token_id": END, "initializer_range": size.spread}
    heads = max(1, size.width // 64)
    usual = {"hidden_size": size.width, "num_hidden_layers": size.layers, "num_attention_heads": heads}
    usual |= {"intermediate_size": 4 * size.width, "max_position_embeddings": size.context}
    if kind == "gpt2":
        sizes = {"n_embd": size.width, "n_layer": size.layers, "n_head": heads, "n_positions": size.context}
        config = transformers.GPT2Config(**common, **sizes)
    elif kind == "opt":
        usual["ffn_dim"] = usual.pop("intermediate_size")
        usual |= {"word_embed_proj_dim": size.width, "pad_token_id": vocabulary - 1}
        config = transformers.OPTConfig(**common, **usual, init_std=size.spread)
    elif kind == "gpt_neox":
        config = transformers.GPTNeoXConfig(**common, **usual)
    elif kind in ("llama", "starcoder2"):
        named = {"llama": transformers.LlamaConfig, "starcoder2": transformers.Starcoder2Config}[kind]
        config = named(**common, **usual, num_key_value_heads=heads)
    else:
        raise DataError(f"there is no small host of the architecture {kind!r}")
    torch.manual_seed(seed)
    return transformers.AutoModelForCausalLM.from_config(config)


class Training(NamedTuple):
    """How long a host was trained, and its last loss."""

    steps: int
    seconds: float
    loss: float


def train(
    model: Any,
    ids: torch.Tensor,
    size: Size,
    *,
    steps: int | None = None,
    seconds: float | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> Training:
    """Train a model in place on rows of `ids`, for so many steps or seconds; the rate falls along half a cosine."""
    model.to(device).train()
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), size.rate, betas=(0.9, 0.95), weight_decay=0.1)
    began, done, loss = time.perf_counter(), 0, torch.zeros(())
    cuda = torch.device(device).type == "cuda"
    while True:
        spent = time.perf_counter() - began
        share = max(0.0 if steps is None else done / steps, 0.0 if seconds is None else spent / seconds)
        if share >= 1.0:
            break
        rate = size.rate * min(1, (done + 1) / 100) * max(0.05, 0.5 * (1 + math.cos(math.pi * share)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        start = torch.randint(0, len(ids) - size.context, (size.batch,), generator=draw)
        rows = torch.stack([ids[at : at + size.context] for at in start.tolist()]).to(device)
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=cuda):
            loss = model(rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        done += 1
    model.eval()
    return Training(done, time.perf_counter() - began, float(loss.detach()))


def save(model: Any, tokenizer: Any, folder: Path) -> Path:
    """Write a host into a folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path, device: str = "cpu", kernel: str = "sdpa") -> Any:
    """The model of a folder, in its own format."""
    model = _transformers().AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation=kernel)
    return model.to(device).eval()


@torch.no_grad()
def goes_on(model: Any, tokenizer: Any, prompts: Sequence[str], tokens: int = 16, at_once: int = 64) -> list[str]:
    """How a model goes on from prompts by `generate`, up to the end token; in batches padded on the left."""
    texts: list[str] = []
    for first in range(0, len(prompts), at_once):
        inputs = tokenizer(prompts[first : first + at_once], return_tensors="pt", padding=True, padding_side="left")
        inputs = inputs.to(model.device)
        generated = model.generate(**inputs, max_new_tokens=tokens, do_sample=False, pad_token_id=END)
        rows = generated[:, inputs["input_ids"].shape[1] :].tolist()
        texts += [tokenizer.decode(row[: row.index(END)] if END in row else row) for row in rows]
    return texts


class Changed(NamedTuple):
    """Places of texts at which some logit of two models differs, of how many; and the mean KL divergence there."""

    places: int
    of: int
    divergence: float


@torch.no_grad()
def changed(one: Any, two: Any, texts: Sequence[Sequence[int]], at_once: int = 32) -> Changed:
    """Where two models differ at all, and by how much: KL of the first from the second, in nats per place."""
    differing = total = 0
    divergence = 0.0
    for first in range(0, len(texts), at_once):
        some = texts[first : first + at_once]
        length = max(map(len, some))
        ids = torch.tensor([[*row, *[END] * (length - len(row))] for row in some], device=one.device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in some], device=one.device)
        here, there = (model(ids, attention_mask=mask).logits[mask.bool()] for model in (one, two))
        differing += int((here != there).any(dim=-1).sum())
        total += len(here)
        here, there = here.double().log_softmax(dim=-1), there.double().log_softmax(dim=-1)
        divergence += float((here.exp() * (here - there)).sum())
    return Changed(differing, total, divergence / total)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise needs_extra("hosts are run by transformers", "stock") from None
    return transformers
