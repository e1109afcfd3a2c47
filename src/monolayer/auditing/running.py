"""`audit`: run a model on data, record the output of every part, and measure how well it tells contexts apart.

Sequences of one length are run together and nothing is padded, so no part sees a token that the data do not have.
Whether a model is causal is found by a test that works for any module. It is causal if replacing the last token leaves
every output before it bit-identical, while replacing the first token changes some output after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from monolayer.auditing.audited import audited
from monolayer.auditing.folders import load_any
from monolayer.auditing.parts import Audit, AuditedTokens, measure_part
from monolayer.data import Names, Sequences
from monolayer.errors import DataError, similar_words
from monolayer.model.device import no_notice_of_kernels
from monolayer.theory.contextual import context_classes
from monolayer.theory.separation import token_rows

MOST_POINTS = 1 << 14
"""More points than this are refused, because finding the closest pair above 8 dimensions compares all pairs."""
MOST_TRIED = 64
"""How many sequences test whether a model is causal. A model that looks back shows it at nearly every one of them."""
Call = Callable[[nn.Module, Tensor], object]


def audit(
    model: nn.Module | str | Path,
    X: object,
    *,
    tokenizer: object = None,
    causal: bool | None = None,
    parts: list[str] | None = None,
    call: Call | None = None,
) -> Audit:
    """Measure every part of a model on data: which parts tell contexts apart, and by how much.

    - `model`: any module, or a folder: a saved model of monolayer or of Hugging Face, loaded without the network and
      without running code of the folder.
    - `X`: ids `(N, n)`, vectors `(N, n, d)`, a list of sequences of any lengths, or texts.
    - `tokenizer`: turns texts into ids, as Hugging Face's do. A folder's own tokenizer is the default.
    - `causal`: whether the context of a token is the prefix that ends there rather than its sequence. By default this
      is tried on the data.
    - `parts`: names of the submodules to measure; by default all whose output is one vector per token.
    - `call`: runs the model on a tensor of sequences of one length; by default `model(X)`.

    The model is not changed, and is left in the mode, training or evaluation, that it was in. `audit(…).explain()` says
    the result in one sentence.

    Example:

        >>> model = ml.memorize(["ab", "ba", "bb"], [1, 1, 2])
        >>> audit = ml.audit(model, ["ab", "bb"], parts=["attention"])
        >>> print(audit.explain().split(";")[0])
        Every part tells all 3 contexts apart
    """
    if isinstance(model, str | Path):
        folder, model = Path(model), load_any(Path(model))
        tokenizer = audited(model).tokenizer(folder) if tokenizer is None else tokenizer
    asked = audited(model)
    data = asked.sequences(X, tokenizer)
    if (many := len(data.tokens)) > MOST_POINTS:
        raise DataError(f"{many:,} points are too many to compare all of them: give {MOST_POINTS:,} or fewer")
    modules = {name: module for name, module in model.named_modules() if name}
    for part in parts or ():
        if part not in modules:
            raise DataError(f"the model has no part {part!r}{_meant(part, list(modules))}")
    runner = _Runner(model, call or (lambda network, inputs: network(inputs)), asked.ids(data))
    causal = asked.causal if causal is None else causal
    if causal is None:
        causal = _looks_only_back(runner, modules, data)
    chosen = modules if parts is None else {part: modules[part] for part in parts}
    outputs = _outputs(runner, chosen, data)
    if not outputs:
        raise DataError("no part answered with one vector per token, (N, n, width) for N sequences of n tokens")
    points = AuditedTokens(data, context_classes(data, causal), causal)
    measured = tuple(measure_part(name, modules, points, output) for name, output in outputs.items())
    return Audit(len(data.tokens), int(points.classes.max()) + 1, measured, causal)


def _meant(part: str, names: list[str]) -> str:
    """Which parts somebody may have meant by a name that no part has, in words.

    A model for a task holds its layers in a submodule: `h.0` of a GPT-2 is `transformer.h.0` there.
    """
    within = [name for name in names if name.endswith(f".{part}")]
    same_end = [name for name in names if name.rpartition(".")[2] == part.rpartition(".")[2]]
    near = within[:3] or similar_words(part, names, 3) or similar_words(part, same_end, 3) or same_end[:3]
    if near:
        return f": did you mean {' or '.join(near)}?"
    top = [name for name in names if "." not in name]
    return f"; its parts are {', '.join(top[:8])}{', …' if len(top) > 8 else ''} and those inside them"


class _Runner(NamedTuple):
    """A model, and how to call it.

    `names` says which id each row number of the data stands for; None if the model takes row numbers or vectors.
    """

    model: nn.Module
    call: Call
    names: Names | None

    def run(self, tokens: Any) -> None:
        """Evaluate the model on tokens `(N, n)` or `(N, n, d)`, without dropout."""
        inputs = torch.tensor(tokens if self.names is None else self.names.decode(tokens))
        first = next(self.model.parameters())
        inputs = inputs.to(first.device, first.dtype if inputs.is_floating_point() else None)
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad(), no_notice_of_kernels(first.dtype):
                self.call(self.model, inputs)
        except Exception as error:  # a model that somebody else wrote may raise any exception
            raise DataError(
                f"the model does not take a tensor of shape {tuple(inputs.shape)}: {type(error).__name__}: {error}"
            ) from error
        finally:
            self.model.train(training)


def _outputs(runner: _Runner, modules: dict[str, nn.Module], data: Sequences) -> dict[str, Tensor]:
    """Outputs `(T, width)` of the modules that return one vector per token, in the order of evaluation.

    A module must do so for sequences of every length in the data.
    """
    outputs: dict[str, Tensor] = {}
    answered: set[str] | None = None
    for length in np.unique(data.lengths).tolist():
        rows = np.flatnonzero(data.lengths == length)
        places = data.flat(rows)
        tokens = data.tokens[places].reshape(len(rows), length, *data.tokens.shape[1:])
        seen = _recorded_outputs(runner, modules, tokens)
        for name, output in seen.items():
            if name not in outputs:
                outputs[name] = output.new_empty(len(data.tokens), output.shape[-1])
            outputs[name][torch.from_numpy(places)] = output.flatten(0, 1)
        answered = set(seen) if answered is None else answered & set(seen)
    return {name: output for name, output in outputs.items() if name in (answered or ())}


def _recorded_outputs(runner: _Runner, modules: dict[str, nn.Module], tokens: Any) -> dict[str, Tensor]:
    """Run the model on tokens `(N, n)` or `(N, n, d)`, and return the outputs `(N, n, width)` of modules on the CPU."""
    seen: dict[str, Tensor] = {}
    with _recording(modules, (tokens.shape[0], tokens.shape[1]), seen):
        runner.run(tokens)
    return seen


@contextmanager
def _recording(modules: dict[str, nn.Module], shape: tuple[int, int], seen: dict[str, Tensor]) -> Iterator[None]:
    """Inside this context, outputs `(N, n, width)` of modules are put into `seen` under the names of the modules.

    `shape`: the number of sequences `N` and their length `n`. Outputs of other shapes are ignored.
    """
    count, length = shape

    def recorder(name: str) -> Callable[..., None]:
        def record(module: nn.Module, given: object, answer: object) -> None:
            value = answer[0] if isinstance(answer, tuple) and answer else answer
            if not isinstance(value, Tensor) or not value.is_floating_point() or value.ndim != 3:
                return
            # A model may put a begin token in front, which has no counterpart in the data.
            if len(value) == count and value.shape[1] in (length, length + 1):
                begin_tokens = value.shape[1] - length
                # Copied, since a later part may write into this output.
                seen[name] = value[:, begin_tokens:].detach().cpu().clone()

        return record

    handles = [module.register_forward_hook(recorder(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _looks_only_back(runner: _Runner, modules: dict[str, nn.Module], data: Sequences) -> bool:
    """Whether replacing the last token changes no output before it, and replacing the first changes some after it.

    The longest sequences are used for this. A model whose parts never look at other tokens is not called causal.
    """
    length = int(data.lengths.max())
    table, rows = token_rows(data)
    if length < 2 or len(table) < 2:
        return False
    chosen = np.flatnonzero(data.lengths == length)[:MOST_TRIED]
    rows = rows[data.flat(chosen)].reshape(len(chosen), length)
    original = _recorded_outputs(runner, modules, table[rows])

    def changed(place: int, others: slice) -> bool:
        """Whether another token at `place` changes an output at the places `others`."""
        replaced_rows = rows.copy()
        replaced_rows[:, place] = (replaced_rows[:, place] + 1) % len(table)
        replaced = _recorded_outputs(runner, modules, table[replaced_rows])
        return any(not torch.equal(original[name][:, others], replaced[name][:, others]) for name in original)

    return not changed(-1, slice(None, -1)) and changed(0, slice(1, None))
