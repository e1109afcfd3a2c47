"""Claim: hosts written as a Llama with biases of 0 return the same logits on a processor, but Phi-3 in float32.

    python bench/written_as_a_llama_keeps_every_bit.py

What `attach` writes of a Llama, Qwen2, Mistral, Phi-3 or Seed-OSS computes the same numbers (docs/attach.md, hosts
under another name); whether it also rounds the same is up to the kernels, so it is measured: in float32 and bfloat16,
with eager and sdpa attention, all places at once and the last one from a cache, at five widths. Phi-3 stores three
and two matrices as one. Where these are cut, kernels may sum in another order: in float32 they do at width 48, and on
some processors at 576, so for Phi-3 in float32 it is shown and not claimed. So is what a GPU makes of it, if there is
one: layers with biases run in other kernels there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))  # the hosts are a part of the tests, and stay with them

import torch
import transformers
from tests import hosts

from monolayer.attaching.running import KERNELS, Running
from monolayer.huggingface.host import read_host
from workload import claim, run

KINDS = ("llama", *hosts.KIN)
WIDTHS = (64, 128, 256, 576)
FORMATS = (torch.float32, torch.bfloat16)
TEXTS, PLACES = 4, 40


@torch.no_grad()
def differing(folder: Path, device: str) -> int:
    """At how many places logits of the host as it was and as a Llama with biases of 0 differ in a bit."""
    host, source = read_host(folder)
    written = Running(host, source, device).model
    plain = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").to(device).eval()
    ids = torch.randint(1, host.vocabulary, (TEXTS, PLACES), generator=torch.Generator().manual_seed(1)).to(device)
    found = 0
    for kernel in KERNELS:
        logits = []
        for model in (plain, written):
            model.set_attn_implementation(kernel)
            step = model(ids[:, :-1], use_cache=True)
            last = model(ids[:, -1:], past_key_values=step.past_key_values).logits
            logits.append(torch.cat([step.logits, last], dim=1))
        found += int((logits[0] != logits[1]).any(dim=-1).sum())
    return found


def main() -> None:
    transformers.utils.logging.disable_progress_bar()
    of = len(KERNELS) * TEXTS * PLACES
    with TemporaryDirectory() as place:
        for width in (48, *WIDTHS):
            for dtype in FORMATS:
                for kind in KINDS:
                    folder = Path(place) / f"{kind}-{width}-{dtype}"
                    sizes = {"hidden_size": width, "intermediate_size": 24 if width == 48 else 2 * width}
                    sizes |= {"head_dim": width // 4} if kind in ("qwen2", "seed_oss") else {}
                    hosts.write_host(folder, kind, dtype=dtype, **sizes)
                    name = f"{kind}, width {width}, {str(dtype).removeprefix('torch.')}, places that differ of {of}"
                    count = differing(folder, "cpu")
                    if kind == "phi3" and dtype == torch.float32:
                        print(f"not claimed: {name}: {count}")
                    else:
                        claim(name, count, at_most=0)
                    if torch.cuda.is_available():
                        print(f"not claimed: on a GPU, {name}: {differing(folder, 'cuda')}")


if __name__ == "__main__":
    run(main)
