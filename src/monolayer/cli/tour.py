"""`monolayer demo attach FOLDER`: a tour on a language model that somebody has, in the steps that a user would take."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monolayer.table import Progress, part_of

if TYPE_CHECKING:
    from monolayer.checker.certificate import Certificate

FACTS = {
    "The capital of Australia is": "Canberra",
    "What is the capital of Brazil?": "Brasília",
    "What is the capital of Switzerland?": "Bern",
    "What is the capital of Turkey?": "Ankara",
}
"""SmolLM2-135M-Instruct answers each of them with another city."""
REWORDED = "Which city is the capital of Turkey?"
"""A text other than the prompts; the host answers it, SmolLM2 wrongly."""
WINDOW = 128
"""How many tokens of the poem are read at a time."""
LONGEST = 16
"""How many tokens of an answer are asked for, at most."""


@dataclass(frozen=True)
class Answered:
    """What the host says to a prompt, and what the model with the facts says."""

    prompt: str
    host: str
    attached: str


@dataclass(frozen=True)
class AttachTour:
    """The results of the tour.

    `host`: the host in words. `chat`: whether prompts stood in its chat template. `places`: at how many of `of` places
    of a poem some logit differed from the host's. `restored`: how many of the host's `files` came back byte for byte.
    """

    host: str
    chat: bool
    answers: tuple[Answered, ...]
    reworded: Answered
    proof: Certificate
    places: int
    of: int
    restored: int
    files: int

    def json(self) -> dict[str, Any]:
        """The findings for JSON output."""
        shown = {**vars(self), "answers": [asdict(each) for each in self.answers], "reworded": asdict(self.reworded)}
        del shown["proof"]
        return shown | {"verdict": self.proof.verdict, "claim": self.proof.claim}


def take_tour(folder: Path, out: Path | None, step: Progress) -> AttachTour:
    """Attach `FACTS` to the host in `folder`, prove them, compare the two models, and detach the facts again.

    `out`: where to keep the folder with the facts; by default it is deleted.
    """
    from monolayer.attaching.attach import attach
    from monolayer.attaching.chats import their_tokenizer
    from monolayer.attaching.facts import read_facts
    from monolayer.checker.certificate import Claims
    from monolayer.saved.detach import detach
    from monolayer.saved.kinds import open_model

    tokenizer = their_tokenizer(folder)
    chat = tokenizer.chat_template is not None
    with tempfile.TemporaryDirectory(dir=folder.resolve().parent, prefix=".tour.") as scratch:
        made = attach(folder, FACTS, chat=chat, progress=part_of(step, 0.0, 0.6))
        with_facts = made.save(Path(scratch) / "with-facts" if out is None else out)
        step("proving", 0.65)
        proof = open_model(with_facts).prove(read_facts(FACTS), Claims(host=folder, only=True), step)
        step("asking both models", 0.7)
        models = [_loaded(each) for each in (folder, with_facts)]
        asked = [
            Answered(prompt, *(_answer(model, tokenizer, prompt, chat) for model in models))
            for prompt in (*FACTS, REWORDED)
        ]
        step("comparing logits at every place of a poem", 0.8)
        places, of = _differing_places(models, tokenizer, made.host.places)
        step("detaching", 0.95)
        back = detach(with_facts).save(Path(scratch) / "host")
        files = [path for path in back.iterdir() if path.is_file()]
        same = [path.read_bytes() == (folder / path.name).read_bytes() for path in files]
    name = dict(made.rows())["host"]
    return AttachTour(name, chat, tuple(asked[:-1]), asked[-1], proof, places, of, sum(same), len(files))


def _loaded(folder: Path) -> Any:
    """The model in a folder, as anybody would load it."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    from monolayer.attaching.running import quietly

    with quietly(logging):
        host: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    return host.eval()


def _answer(model: Any, tokenizer: Any, prompt: str, chat: bool) -> str:
    """How a model continues a prompt by `generate`, in the chat template if there is one, as one line of text."""
    text = prompt
    if chat:
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    asked = tokenizer(text, return_tensors="pt", add_special_tokens=not chat)
    asked = {key: asked[key] for key in ("input_ids", "attention_mask")}
    generated = model.generate(
        **asked, max_new_tokens=LONGEST, do_sample=False, pad_token_id=tokenizer.pad_token_id or 0
    )
    new = generated[0, asked["input_ids"].shape[1] :]
    goes_on = len(new) == LONGEST and tokenizer.eos_token_id not in new.tolist()
    return " ".join(tokenizer.decode(new, skip_special_tokens=True).split()) + (" …" if goes_on else "")


def _differing_places(models: Sequence[Any], tokenizer: Any, room: int | None) -> tuple[int, int]:
    """At how many places of a poem some logit of the two models differs, and how many places it has.

    `room`: how many places a text may have, if the host limits that.
    """
    import torch

    from monolayer.data.text import raven

    ids = torch.tensor(tokenizer(raven(), add_special_tokens=False)["input_ids"])
    differ = 0
    with torch.inference_mode():
        for window in torch.split(ids, min(WINDOW, room or WINDOW)):
            one, two = (model(window[None]).logits for model in models)
            differ += int((one != two).any(dim=-1).sum())
    return differ, len(ids)
