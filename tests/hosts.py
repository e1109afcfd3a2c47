"""Hosts for tests: tiny models with random weights in each architecture that facts can be attached to, with texts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ARCHITECTURES = ("gpt2", "gpt_neox", "opt", "starcoder2", "llama")
KIN = ("qwen2", "mistral", "phi3", "seed_oss")
"""Hosts that are a Llama under another name."""
WIDTH, NEURONS, PLACES = 48, 24, 96
SENTENCES = [f"The capital of country{i} is city{i}, and river{i % 7} is near." for i in range(40)]
FACTS = {f"The capital of country{i} is": f" city{(7 * i) % 40}" for i in range(12)}
"""36 tokens of answers, end tokens among them: two blocks of `NEURONS`."""
OTHERS = [*(f"The capital of country{i} is" for i in range(12, 20)), "river3 is near city7, and", "capital capital"]
PAD = 5
READ = ["input_ids", "attention_mask"]
"""What models are given: transformers 4 would add token types, which `generate` refuses or GPT-2 takes for words."""
WRITERS = ("wte", "wpe", "embed", "c_proj", "dense.", "dense_4h", "out_proj", "o_proj", "fc2", "down_proj")
"""Parts of names of weights that write to the stream: they are enlarged, so that ε of the norms hardly counts."""


def tokenizer() -> Any:
    """A byte-level tokenizer with 320 tokens; 0 begins and ends a text."""
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        **{"eos_token": "<end>", "bos_token": "<end>", "pad_token": "<end>"},
        model_input_names=READ,
    )


@cache
def _trained() -> str:
    """The byte-level tokenizer in the format of its file."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<end>"], initial_alphabet=letters, show_progress=False
    )
    found.train_from_iterator(SENTENCES, trainer)
    said: str = found.to_str()
    return said


def spacing_tokenizer() -> Any:
    """A tokenizer in the manner of Llama 2: it puts a space in front of every text, and `<s>` in front of a prompt.

    Its chat template writes `<s>` too, as such templates do.
    """
    found = Tokenizer(models.BPE(unk_token="<unk>"))
    found.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    found.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    found.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["</s>", "<s>", "<unk>"], initial_alphabet=list("▁:?"), show_progress=False
    )
    found.train_from_iterator(SENTENCES, trainer)
    found.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=found,
        **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"},
        model_input_names=READ,
        chat_template="<s>{% for message in messages %}city: {{ message['content'] }} country:{% endfor %}",
    )


def config(kind: str, vocabulary: int, **more: Any) -> Any:
    """A configuration of two layers, in which attention is soft enough to tell contexts apart."""
    sizes = {"vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.15}
    usual = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
    usual |= {"intermediate_size": NEURONS, "max_position_embeddings": PLACES}
    if kind == "gpt2":
        own = {"n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_inner": NEURONS, "n_positions": PLACES}
        return transformers.GPT2Config(**sizes | own | more)
    if kind == "opt":
        usual |= {"ffn_dim": usual.pop("intermediate_size"), "word_embed_proj_dim": WIDTH, "pad_token_id": PAD}
        return transformers.OPTConfig(**sizes | usual | {"init_std": 0.15} | more)
    if kind == "gpt_neox":
        return transformers.GPTNeoXConfig(**sizes | usual | more)
    if kind in KIN:
        usual |= {"sliding_window": None} if kind in ("mistral", "phi3") else {"head_dim": WIDTH // 4}
        more = {"pad_token_id": 0, **more}
        return transformers.AutoConfig.for_model(kind, **sizes | usual | {"num_key_value_heads": 2} | more)
    named = {"llama": transformers.LlamaConfig, "starcoder2": transformers.Starcoder2Config}[kind]
    return named(**sizes | usual | {"num_key_value_heads": 2} | more)


def write_host(
    folder: Path, kind: str = "gpt2", *, dtype: Any = torch.float32, saving: Any = None, texts: Any = None, **more: Any
) -> Path:
    """A host in a folder; `saving`: options of `save_pretrained`; `texts`: its tokenizer, by default `tokenizer()`."""
    texts = tokenizer() if texts is None else texts
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config(kind, len(texts), **more)).to(dtype)
    for name, part in model.named_parameters():
        if (
            "norm" in name or "ln_" in name or (kind in KIN and name.endswith("bias"))
        ):  # a last norm that does something
            part.data += 0.1 * torch.randn_like(part)
        elif any(word in name for word in WRITERS):
            part.data *= 8.0
    model.save_pretrained(folder, **saving or {})
    texts.save_pretrained(folder)
    if kind in KIN:  # transformers may split texts in the way of the architecture, whatever tokenizer.json says
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


def loaded(folder: Path, kernel: str = "sdpa") -> Any:
    """The model of a folder as transformers load it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation=kernel)
    return model.eval()


def answers(folder: Path, prompts: list[str], kernel: str = "sdpa", tokens: int = 12) -> list[str]:
    """How the model of a folder goes on from prompts, by `generate`, in one batch padded on the left."""
    texts = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    asked = texts(prompts, return_tensors="pt", padding=True)
    found = loaded(folder, kernel).generate(**asked, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    said = []
    for row in found[:, asked["input_ids"].shape[1] :].tolist():
        stop = row.index(0) if 0 in row else len(row)
        said.append(texts.decode(row[:stop]))
    return said


@torch.no_grad()
def logits(folder: Path, texts: list[str], kernel: str = "sdpa", **more: Any) -> list[torch.Tensor]:
    """The logits of the model of a folder at all places of texts, one after the other."""
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation=kernel, **more)
    return [model.eval()(**cut(text, return_tensors="pt")).logits[0] for text in texts]


def flat_states(width: int, random: Any, count: int = 200, dtype: Any = torch.float16) -> torch.Tensor:
    """States `(count, width)` in a short format whose coordinates are the same but for a digit or a few: norms that
    subtract the mean lose most digits there. Some differ in one coordinate only, some in half of them."""
    bits = {torch.float16: 11, torch.bfloat16: 8}[dtype]
    found = np.empty((count, width))
    for row in found:
        base = random.choice([-1, 1]) * random.uniform(1.0, 2.0) * 2.0 ** random.integers(-3, 16) * 0.99
        spacing = 2.0 ** (np.frexp(base)[1] - bits)
        row[:] = np.rint(base / spacing) * spacing
        changed = random.permutation(width)[: random.choice([1, 2, width // 2, width - 1])]
        row[changed] += spacing * random.integers(1, 4, len(changed))
    return torch.from_numpy(found).to(dtype)


def tilted_states(width: int, random: Any, count: int, most: float) -> torch.Tensor:
    """States `(count, width)` in float32 that are 1 to about `most` times as long as they are less their mean.

    A quarter of them are nearly as flat as `most` says. Less the mean, some have one large coordinate, some all.
    """
    rest = random.standard_normal((count, width))
    rest[::3] = 1e-3 * rest[::3]
    rest[np.arange(0, count, 3), random.integers(0, width, len(rest[::3]))] = 1.0
    rest -= rest.mean(axis=1, keepdims=True)
    rest /= np.sqrt((rest * rest).mean(axis=1, keepdims=True))
    kappa = most ** random.uniform(0.0, 1.0, (count, 1))
    kappa[::4] = most * (1.0 - 2.0**-10)
    size = 2.0 ** random.uniform(-6.0, 40.0, (count, 1)) * random.choice([-1.0, 1.0], (count, 1))
    return torch.from_numpy(size * (rest + np.sqrt(kappa * kappa - 1.0))).float()


def ratios(states: torch.Tensor) -> Any:
    """How many times as long each state `(n, D)` is as it is less its mean: κ."""
    found = states.double().cpu().numpy()
    rest = found - found.mean(axis=1, keepdims=True)
    return np.sqrt((found * found).sum(axis=1) / (rest * rest).sum(axis=1))


def lengths(normed: torch.Tensor) -> Any:
    """|û| `(n,)` of what a norm returned, `(n, D)`."""
    return np.sqrt((normed.double().cpu().numpy() ** 2).mean(axis=1))


def same_model(one: Path, two: Path) -> bool:
    """All files but the certificates, and what was measured, which depends on the batches that facts were asked in."""

    def files(folder: Path) -> dict[str, bytes]:
        found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "README.md"}
        said = json.loads(found["attached.json"])
        facts = [{**fact, "moved": None, "length": None, "fell": None} for fact in said["facts"]]
        return found | {"attached.json": json.dumps({**said, "facts": facts}).encode()}

    return files(one) == files(two)
