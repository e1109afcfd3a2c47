"""Facts on given keys: gated networks that map a key to the value of its fact, built in five ways.

    keys      F vectors of R^d; the answer to key i is row `answer[i]` of a table of values, often the keys themselves
    network   x ↦ W ((L x) ∘ (R x)), `L`, `R` `(m, d)`, `W` `(d, m)`: 3dm numbers
    answers   the row of the table with the largest product with what the network returns

The setting and the first three constructions are those of hebbian-mlps (2607.10034), written again here: `hebbian`
correlates random features with values; `whitened` is ridge regression of the values on random features; `fitted`
chooses `L` and `R` by two least squares problems and then does the same. `margin` takes gates as they are and solves
one convex problem for `W`: softmax cross-entropy over all values, which separates if anything linear in the features
does. `trained` is gradient descent on all three matrices.

A batch holds B networks side by side, one per draw of the data; narrower ones than the widest have neurons of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from monolayer_experiments.adam import Adam

SPIKE = 1.5
"""How much longer the first direction is made before anisotropic keys are normalized again, as hebbian-mlps has it."""
RIDGE = 1e-6
"""Ridge of `whitened` and `fitted`, as hebbian-mlps has it."""
FITTING_STEPS = (128, 1024)
"""Fewest and most steps of conjugate gradients per matrix of `fitted`; 2m between them."""
FITTED_LOOSELY = 8192
"""Above so many numbers per gate, `fitted` ends at a residual of 1e-5 in place of 1e-10, as hebbian-mlps has it."""
SHARPNESS = 32.0
"""What `margin` begins with: the readout of the start, scaled until own scores are this in the mean."""
WHITENING_RIDGE = 1e-12
"""Added to the covariance of features before it is factored, as a share of its trace: more than what rounding takes
away, which is m 2^-53 of the trace for m neurons. It changes the coordinates of `margin` and not its problem."""
MARGIN_RATE = 3e-3 * SHARPNESS
"""Learning rate of Adam for `margin`, on features of unit covariance."""
LOOK = 25
"""Steps of an iteration between two looks at what is right."""
ROWS = 1024
"""Keys that are certified at once."""


class Facts(NamedTuple):
    """B draws of F facts: `keys` `(B, F, d)`, a `table` of values `(B, C, d)`, the `answer` to each key `(B, F)`."""

    keys: Tensor
    table: Tensor
    answer: Tensor

    def some(self, draws: list[int] | Tensor) -> Facts:
        return Facts(*(part[draws] for part in self))

    def beside(self, other: Facts) -> Facts:
        """The draws of both, as many facts in each, in one batch."""
        return Facts(*(torch.cat(parts) for parts in zip(self, other, strict=True)))

    def short(self) -> Facts:
        """Keys and table in float32."""
        return Facts(self.keys.float(), self.table.float(), self.answer)

    @property
    def values(self) -> Tensor:
        """The value of every fact `(B, F, d)`."""
        return torch.gather(self.table, 1, self.answer[..., None].expand(self.keys.shape))


class Gated(NamedTuple):
    """B networks: `left`, `right` `(B, m, d)`, `readout` `(B, d, m)`."""

    left: Tensor
    right: Tensor
    readout: Tensor

    @staticmethod
    def of(weights: Tensor) -> Gated:
        """Networks whose `L`, `R` and turned `W` are stacked `(B, 3, m, d)`; views."""
        return Gated(weights[:, 0], weights[:, 1], weights[:, 2].mT)

    def scores(self, keys: Tensor, table: Tensor) -> Tensor:
        """Products of what every key gives with every value `(B, F, C)`."""
        return features(keys, self.left, self.right) @ self.readout.mT @ table.mT


def draw(facts: int, dim: int, seeds: list[int], *, spiked: bool, device: str) -> Facts:
    """Random unit keys, a random permutation of them as answers; `spiked`: longer along one direction than across."""
    tables, answers = [], []
    for seed in seeds:
        random = torch.Generator().manual_seed(seed)
        rows = functional.normalize(torch.randn(facts, dim, generator=random, dtype=torch.float64), dim=1)
        answers.append(torch.randperm(facts, generator=random))
        if spiked:
            along = functional.normalize(torch.randn(dim, generator=random, dtype=torch.float64), dim=0)
            rows = functional.normalize(rows + SPIKE * (rows @ along)[:, None] * along, dim=1)
        tables.append(rows)
    table = torch.stack(tables).to(device)
    return Facts(table, table, torch.stack(answers).to(device))


def features(keys: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """`(L x) ∘ (R x)` of every key `(B, F, m)`."""
    return (keys @ left.mT) * (keys @ right.mT)


def random_gates(dim: int, widths: list[int], seeds: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """`L` and `R` `(B, m, d)` of normal numbers; rows beyond the width of a network are 0."""
    left, right = (torch.zeros(len(widths), max(widths), dim, dtype=torch.float64) for _ in range(2))
    for one, (width, seed) in enumerate(zip(widths, seeds, strict=True)):
        random = torch.Generator().manual_seed(10_000 + seed)
        for side in (left, right):
            side[one, :width] = torch.randn(width, dim, generator=random, dtype=torch.float64)
    return left.to(device), right.to(device)


# -- constructions of hebbian-mlps ---------------------------------------------------------------------------


def hebbian(facts: Facts, widths: list[int], seeds: list[int]) -> Gated:
    """Random features; the readout is the correlation of values and features."""
    left, right = _scaled_gates(facts, widths, seeds)
    values, count = facts.values, facts.keys.shape[1]
    # One network at a time: these are so wide that the features of all of them would fill a device.
    readouts = [values[one].T @ features(facts.keys[one], left[one], right[one]) for one in range(len(widths))]
    return Gated(left, right, torch.stack(readouts) / count)


def whitened(facts: Facts, widths: list[int], seeds: list[int]) -> Gated:
    """Random features; the readout is ridge regression of the values on them."""
    left, right = _scaled_gates(facts, widths, seeds)
    return Gated(left, right, ridge(facts.values, features(facts.keys, left, right)))


def fitted(facts: Facts, widths: list[int], seeds: list[int]) -> Gated:
    """`R`, then `L`, chosen so that scores under the Hebbian readout come near the identity; then ridge regression."""
    left, right = random_gates(facts.keys.shape[2], widths, seeds, facts.keys.device)
    readout = facts.values.mT @ features(facts.keys, left, right) / facts.keys.shape[1]
    right = _fit_side(facts, left, readout, widths)
    left = _fit_side(facts, right, readout, widths)
    return Gated(left, right, ridge(facts.values, features(facts.keys, left, right)))


def _scaled_gates(facts: Facts, widths: list[int], seeds: list[int]) -> tuple[Tensor, Tensor]:
    """Random gates whose features have the factor `1/√m` that the ridge is meant for."""
    left, right = random_gates(facts.keys.shape[2], widths, seeds, facts.keys.device)
    scale = torch.tensor(widths, dtype=left.dtype, device=left.device)[:, None, None] ** -0.5
    return left * scale, right


def ridge(values: Tensor, shown: Tensor) -> Tensor:
    """The readout `(B, d, m)` that regresses values `(B, F, d)` on features `(B, F, m)`."""
    count, width = shown.shape[1:]
    if width > count:
        gram = shown @ shown.mT + RIDGE * torch.eye(count, dtype=shown.dtype, device=shown.device)
        return _solved(gram, values).mT @ shown
    covariance = shown.mT @ shown / count + RIDGE * torch.eye(width, dtype=shown.dtype, device=shown.device)
    return _solved(covariance, shown.mT @ values / count).mT


def _solved(matrices: Tensor, sides: Tensor) -> Tensor:
    """`matrices⁻¹ sides` of positive definite matrices, one at a time: batched kernels are made for small matrices."""
    pairs = zip(matrices, sides, strict=True)
    return torch.stack([torch.cholesky_solve(side, torch.linalg.cholesky(one)) for one, side in pairs])


def _fit_side(facts: Facts, other: Tensor, readout: Tensor, widths: list[int]) -> Tensor:
    """One gate `A` `(B, m, d)` given the other: least squares of the scores `V W ((O x) ∘ (A x))` to the identity.

    Conjugate gradients on the normal equations with the ridge, preconditioned by their diagonal.
    """
    keys, values = facts.keys, facts.values
    partner = other @ keys.mT  # (B, m, F)
    inner = values.mT @ values @ readout  # (B, d, m)

    def apply(gate: Tensor) -> Tensor:
        shown = partner * (gate @ keys.mT)
        return (partner * (inner.mT @ (readout @ shown))) @ keys + RIDGE * gate

    diagonal = (readout * inner).sum(1)[..., None] * (partner**2 @ keys**2) + RIDGE
    goal = (partner * (readout.mT @ values.mT)) @ keys
    solution, residual = torch.zeros_like(goal), goal.clone()
    scaled = residual / diagonal
    direction, length = scaled.clone(), (residual * scaled).sum((1, 2), keepdim=True)
    tight = 1e-5 if max(widths) * keys.shape[2] > FITTED_LOOSELY else 1e-10
    enough = tight * torch.linalg.vector_norm(goal, dim=(1, 2))
    few, many = FITTING_STEPS
    for step in range(min(max(2 * max(widths), few), many)):
        moved = apply(direction)
        size = length / (direction * moved).sum((1, 2), keepdim=True).clamp_min(1e-300)
        solution, residual = solution + size * direction, residual - size * moved
        if step % LOOK == 0 and bool((torch.linalg.vector_norm(residual, dim=(1, 2)) <= enough).all()):
            break
        scaled = residual / diagonal
        longer = (residual * scaled).sum((1, 2), keepdim=True)
        direction, length = scaled + longer / length.clamp_min(1e-300) * direction, longer
    return solution


# -- ours ----------------------------------------------------------------------------------------------------


def margin(facts: Facts, start: Gated, steps: int, *, settle: bool = False) -> Gated:
    """The gates of `start` with a readout of largest margin, as far as `steps` of Adam come, in float32.

    One convex problem per network: `Σ_i log Σ_j exp(score_ij − score_i,own)` over all readouts, on features of unit
    covariance, begun at the readout of `start`. `settle`: go on to the last step for a wider margin (`descend`).
    """
    shown = features(facts.keys, start.left, start.right)
    covariance = shown.mT @ shown / shown.shape[1]
    trace = covariance.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    one = torch.eye(shown.shape[2], dtype=shown.dtype, device=shown.device)
    # One matrix at a time, as in `_solved`; features are `factor` times `inputs`.
    factor = torch.stack([torch.linalg.cholesky(each) for each in covariance + WHITENING_RIDGE * trace * one])
    inverse = torch.stack([torch.linalg.solve_triangular(each, one, upper=False) for each in factor])
    inputs = (shown @ inverse.mT).float()
    begun = (factor.mT @ start.readout.mT).float()  # (B, m, d): the readout is turned
    smallest = (inputs @ begun * facts.values.float()).sum(-1).mean(1).abs().clamp_min(1e-6)
    problem = Readouts(Facts(inputs, facts.table.float(), facts.answer))
    weights = descend(problem, SHARPNESS * begun / smallest[:, None, None], MARGIN_RATE, steps, settle=settle)
    return Gated(start.left, start.right, weights.double().mT @ inverse)


class Readouts(NamedTuple):
    """Readouts of given features: the keys of `facts` are features `(B, F, m)`, weights the turned `W` `(B, m, d)`."""

    facts: Facts

    def scores(self, weight: Tensor) -> Tensor:
        return self.facts.keys @ weight @ self.facts.table.mT

    def slope(self, weight: Tensor) -> Tensor:
        """The gradient of the cross-entropy, up to the factor F."""
        return self.facts.keys.mT @ (wrongness(self.scores(weight), self.facts.answer) @ self.facts.table)


# -- gradient descent ----------------------------------------------------------------------------------------


def trained(
    facts: Facts, widths: list[int], seeds: list[int], rate: float, steps: int, *, settle: bool = False
) -> Gated:
    """All three matrices by Adam on cross-entropy, all facts in every step, the rate falling along a cosine to 1 %.

    `settle`: go on to the last step for a wider margin (`descend`).
    """
    dim = facts.keys.shape[2]
    left, right = random_gates(dim, widths, seeds, facts.keys.device)
    width = torch.tensor(widths, dtype=left.dtype, device=left.device)[:, None, None]
    out, _ = random_gates(dim, widths, [seed + 1_000_000 for seed in seeds], facts.keys.device)
    starts = (left / math.sqrt(3.0 * dim), right / math.sqrt(3.0 * dim), out / (3.0 * width).sqrt())
    start = torch.stack(starts, dim=1).float()
    return Gated.of(descend(Networks(facts.short()), start, rate, steps, falling=True, settle=settle).double())


class Networks(NamedTuple):
    """Whole networks on `facts`: weights `(B, 3, m, d)` are `L`, `R` and the turned `W`."""

    facts: Facts

    def scores(self, weight: Tensor) -> Tensor:
        return Gated.of(weight).scores(self.facts.keys, self.facts.table)

    def slope(self, weight: Tensor) -> Tensor:
        """The gradient of the cross-entropy, up to the factor F."""
        keys, table, answer = self.facts
        network = Gated.of(weight)
        one, other = keys @ network.left.mT, keys @ network.right.mT
        shown = one * other
        out = wrongness(shown @ network.readout.mT @ table.mT, answer) @ table
        back = out @ network.readout
        return torch.stack([(back * other).mT @ keys, (back * one).mT @ keys, shown.mT @ out], dim=1)


def descend(
    problem: Readouts | Networks, weight: Tensor, rate: float, steps: int, *, falling: bool = False, settle: bool
) -> Tensor:
    """Weights `(B, …)` after at most so many steps of Adam; `falling`: the rate falls along a cosine to 1 %.

    What is right is looked up every `LOOK` steps. A network leaves the batch at the first look that finds every fact
    right, so that it costs no more. With `settle` all go on to the last step, and the last weights that had every fact
    right are kept. A network that never had keeps its last weights.
    """
    kept, left = weight.clone(), torch.arange(len(weight), device=weight.device)
    adam = Adam([weight.clone()], rate, epsilon=1e-12)
    ever = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
    for step in range(steps):
        with short_products():
            factor = 0.505 + 0.495 * math.cos(math.pi * step / steps) if falling else 1.0
            adam.step([problem.slope(adam.weights[0])], factor)
        if step % LOOK != LOOK - 1 and step != steps - 1:
            continue
        right = (problem.scores(adam.weights[0]).argmax(-1) == problem.facts.answer).all(1)
        kept[left[right]] = adam.weights[0][right]
        ever[left[right]] = True
        if not settle and bool(right.any()):
            left, adam, problem = left[~right], adam.some(~right), problem._replace(facts=problem.facts.some(~right))
            if not len(left):
                break
    never = ~ever[left]
    kept[left[never]] = adam.weights[0][never]
    return kept


def wrongness(scores: Tensor, answer: Tensor) -> Tensor:
    """The gradient of the cross-entropy by the scores `(B, F, C)`: probabilities, less 1 at the answers."""
    probability = torch.softmax(scores, dim=-1)
    place = answer[..., None]
    return probability.scatter_add_(2, place, torch.full_like(place, -1.0, dtype=probability.dtype))


@contextmanager
def short_products() -> Iterator[None]:
    """Products of float32 matrices in TF32 where a device has it: enough for steps, not for asking what is right."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# -- what is asked of a network ------------------------------------------------------------------------------


@torch.no_grad()
def certified(network: Gated, facts: Facts) -> Tensor:
    """For each network, the share of keys whose value certainly has the largest product, in exact arithmetic `(B,)`.

    A score is a sum of products `E_jk W_kl L_lr x_r R_ls x_s`. Each goes through at most `n = 3d + m + 4` roundings in
    binary64, whatever the order of the sums, so a score is off by at most `γ M`, `γ = n u/(1 − n u)`, `u = 2^-53`, and
    `M` the same sum with absolute values. Twice that, for `M` is rounded too and so is the difference, and 1e-200 for
    products that underflow.
    """
    dim, width = network.readout.shape[1:]
    roundings = (3 * dim + width + 4) * 2.0**-53
    share = 2.0 * roundings / (1.0 - roundings)
    sizes = Gated(network.left.abs(), network.right.abs(), network.readout.abs())
    right = torch.zeros(len(facts.keys), dtype=torch.float64, device=facts.keys.device)
    for one in range(len(facts.keys)):
        keys, table, answer = facts.keys[one], facts.table[one], facts.answer[one, :, None]
        alone = [part[one] for part in network]
        sized = [part[one] for part in sizes]
        for at in range(0, len(keys), ROWS):
            rows, mine = keys[at : at + ROWS], answer[at : at + ROWS]
            scores = features(rows, alone[0], alone[1]) @ alone[2].T @ table.T
            bounds = features(rows.abs(), sized[0], sized[1]) @ sized[2].T @ table.abs().T
            ahead = scores.gather(1, mine) - scores > share * (bounds.gather(1, mine) + bounds) + 1e-200
            ahead.scatter_(1, mine, True)
            right[one] += ahead.all(1).sum()
    # By a tensor: by a number a device multiplies with its inverse, and 253 · (1/253) is not 1.
    return right / torch.full_like(right, facts.keys.shape[1])


@torch.no_grad()
def recalled(network: Gated, facts: Facts, sigma: float = 0.0, seed: int = 0) -> Tensor:
    """For each network, the share of facts that come back `(B,)`, every weight times `1 + σ · normal`; in float32."""
    random = torch.Generator(facts.keys.device).manual_seed(seed)
    changed = Gated(
        *(
            (part * (1.0 + sigma * torch.randn(part.shape, generator=random, device=part.device))).float()
            for part in network
        )
    )
    return (changed.scores(facts.keys.float(), facts.table.float()).argmax(-1) == facts.answer).double().mean(1)
