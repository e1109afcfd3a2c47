"""Claim: attaching facts to a bfloat16 host holds its weights once and half as much beside, and saving next to none.

    python bench/attaching_holds_the_host_once.py                            14 layers of width 1,024: 0.6 GB
    python bench/attaching_holds_the_host_once.py --layers 24 --width 4096   a host of 7 billion parameters: 13 GB

What counts is memory that a process holds for itself (RssAnon of Linux). Files that are mapped, as weights are for
copying and for digests, stay in the cache of the system, which takes that memory back when it is short; transformers
may map the weights that they run, too, and then attaching holds only what is beside them. A certificate is made from
the files, without a model (`ask=False`); unless told otherwise, `certify` also asks transformers for the answers. The
host has random weights. The yardstick is the size of its files of weights.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # hosts and facts are a part of the tests

import torch
import transformers
from safetensors.torch import save_file
from tests.hosts import FACTS, tokenizer

import monolayer as ml
from workload import NotRunError, claim, record, recordable, run

STATUS = Path("/proc/self/status")
SHARDS = 4
"""Files of weights."""


def held() -> int:
    """Bytes that this process holds for itself."""
    line = next((line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon:")), None)
    if line is None:
        raise NotRunError("this system does not tell what memory a process holds for itself (RssAnon)")
    return int(line.split()[1]) * 1024


def write_host(folder: Path, layers: int, width: int, vocabulary: int) -> int:
    """A Llama of random weights in bfloat16; the size of its weights in bytes."""
    config = transformers.LlamaConfig(
        **{"vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers, "intermediate_size": 4 * width},
        **{"num_attention_heads": width // 64, "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 0},
        **{"tie_word_embeddings": False, "initializer_range": 0.1, "mlp_bias": True},
    )
    with torch.device("meta"):
        shapes = {name: part.shape for name, part in transformers.LlamaForCausalLM(config).state_dict().items()}
    config.architectures, config.dtype = ["LlamaForCausalLM"], "bfloat16"
    config.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    # One pool of random numbers for all matrices, since drawing billions takes minutes. Its length is odd, so no two
    # rows of a matrix are the same piece of it.
    pool = 0.1 * torch.randn(2**24 + 43, generator=torch.Generator().manual_seed(0)).bfloat16()
    shards: dict[str, dict[str, torch.Tensor]] = {}
    for number, (name, shape) in enumerate(shapes.items()):
        shard = shards.setdefault(f"model-{number * SHARDS // len(shapes) + 1}.safetensors", {})
        shard[name] = _weights(name, shape, pool, 7919 * number)
    for file, tensors in shards.items():
        save_file(tensors, folder / file, metadata={"format": "pt"})
    file_of = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": 2 * sum(shape.numel() for shape in shapes.values())}, "weight_map": file_of}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _weights(name: str, shape: torch.Size, pool: torch.Tensor, start: int) -> torch.Tensor:
    """Norms of ones, biases of zeros, and a matrix from the pool, from number `start` on."""
    if len(shape) == 1:
        return torch.full(shape, float("norm" in name), dtype=torch.bfloat16)
    found, turned = torch.empty(shape.numel(), dtype=torch.bfloat16), pool.roll(-start)
    for first in range(0, len(found), len(pool)):
        part = found[first : first + len(pool)]
        part[:] = turned[: len(part)]
    return found.reshape(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    recordable(parser)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    facts = dict(list(FACTS.items())[:4])
    with tempfile.TemporaryDirectory() as scratch:
        host = Path(scratch) / "host"
        size = write_host(host, options.layers, options.width, options.vocabulary)
        print(f"host: {options.layers} layers, width {options.width:,}, {size / 1e9:.2f} GB in bfloat16", flush=True)
        _run(host, Path(scratch) / "new", facts, size)


def _run(host: Path, folder: Path, facts: dict[str, str], size: int) -> None:
    found: dict[str, int] = {}
    spent: dict[str, float] = {}
    ml.certify(ml.memorize({"a": 1}), {"a": 1})  # imports are done
    watched = Watched(found, spent)
    made = watched("attach", lambda: ml.attach(host, facts))
    watched("save", lambda: made.save(folder))
    proof = watched("prove", lambda: ml.certify(folder, facts, host=host, ask=False))
    asked = watched("prove and ask", lambda: ml.certify(folder, facts, host=host))
    print(f"certificate: {proof.verdict}, asked as well: {asked.verdict}")
    for name, limit in (("attach", 1.5), ("save", 0.1), ("prove", 0.4), ("prove and ask", 1.5)):
        print(f"{name}: {found[name] / (size / 2):.2f} bytes per parameter, {spent[name]:.0f} s")
        claim(f"{name}: memory over the size of the host", found[name] / size, at_most=limit)
    claim("every answer proved", float(proof.verdict == asked.verdict == "proved"), at_least=1.0)
    rows = [{"step": name, "bytes": found[name], "seconds": spent[name]} for name in found]
    record([{"parameters": size // 2, "host_bytes": size, "verdict": proof.verdict, "steps": rows}])


class Watched:
    """Runs an action and notes the peak of memory, and the seconds, under a name."""

    def __init__(self, found: dict[str, int], spent: dict[str, float]) -> None:
        self.found, self.spent = found, spent

    def __call__(self, name: str, action: Callable[[], Any]) -> Any:
        print(name, flush=True)
        before, done = held(), threading.Event()
        self.found[name] = 0

        def watch() -> None:
            while not done.wait(0.003):
                self.found[name] = max(self.found[name], held() - before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        try:
            return action()
        finally:
            self.spent[name] = time.perf_counter() - began
            done.set()
            watcher.join()


if __name__ == "__main__":
    run(main)
