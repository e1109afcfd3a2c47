"""Facts in templates: each fact answers in each of the texts that its prompt may stand in, and is one fact."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

import monolayer as ml
from monolayer.attaching.chats import their_tokenizer
from monolayer.data.shards import names_files
from monolayer.huggingface.templates import PLAIN, Template
from tests.hosts import FACTS, answers, loaded, tokenizer, write_host
from tests.verdicts import from_files

CHAT = (
    "{% for turn in messages %}{% if loop.first and turn['role'] != 'system' %}[be near]{% endif %}"
    "{% if turn['role'] == 'system' %}[{{ turn['content'] }}]{% else %}city {{ turn['content'] }}\nriver\n{% endif %}"
    "{% endfor %}"
)
"""Like that of SmolLM2: it writes a system message of its own, unless there is one."""
ROWS = dict(list(FACTS.items())[:3])
TEMPLATES = ["{prompt}", "Q: {prompt}\nA:"]
EACH = 16
"""Neurons of a fact: answers with their end token are three tokens in the first two templates, and five in chats."""


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = tokenizer()
    texts.chat_template = CHAT
    return write_host(tmp_path_factory.mktemp("host") / "gpt2", texts=texts)


@pytest.fixture(scope="module")
def in_templates(chatting: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ml.attach(chatting, ROWS, templates=TEMPLATES, chat=True).save(tmp_path_factory.mktemp("made") / "new")


def chat_answers(folder: Path, prompt: str, *system: str) -> str:
    """What the model says in a chat, as transformers make it of messages, up to the end token."""
    texts = transformers.AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "system", "content": text} for text in system] + [{"role": "user", "content": prompt}]
    asked = texts.apply_chat_template(messages, return_tensors="pt", return_dict=True, add_generation_prompt=True)
    said = loaded(folder).generate(**asked, max_new_tokens=8, do_sample=False, pad_token_id=0)
    return str(texts.decode(said[0, asked["input_ids"].shape[1] :]))


def test_every_fact_answers_in_every_template(in_templates: Path, chatting: Path) -> None:
    for prompt, answer in ROWS.items():
        assert answers(in_templates, [prompt, f"Q: {prompt}\nA:"]) == [answer, answer]
        # Behind a line break the answer has no space in front.
        assert chat_answers(in_templates, prompt) == f"{answer[1:]}<end>"
        assert chat_answers(in_templates, prompt, "") == f"{answer[1:]}<end>"
        other = chat_answers(in_templates, prompt, "be far")
        assert other == chat_answers(chatting, prompt, "be far") != f"{answer[1:]}<end>"
    told = ml.attach(chatting, ROWS, chat=["be far", "be far"]).save(in_templates.parent / "told")
    assert len(ml.load(told).manifest.templates) == 1
    assert chat_answers(told, next(iter(ROWS)), "be far") == "city0<end>"


def test_a_fact_in_several_templates_is_one_fact(in_templates: Path, chatting: Path, tmp_path: Path) -> None:
    """It is counted, asked, proved, located and edited as one."""
    made = ml.load(in_templates)
    assert (made.sizes["facts"], len(made.manifest.facts), made.manifest.neurons) == (3, 12, 3 * EACH)
    assert [each.text for each in made.manifest.templates][:2] == TEMPLATES
    assert "3, each in 4 templates, in 48 neurons" in repr(made)
    assert "3 attached facts" in made.readme()
    proof = ml.certify(in_templates, ROWS, host=chatting, only=True)
    assert (proof.verdict, proof.points) == ("proved", 3 * EACH)
    assert "in the 4 templates of this folder" in proof.claim
    assert any("2: '[be near]city {prompt}\\nriver\\n' without special tokens" in note for note in proof.notes)
    assert ml.certify(in_templates, dict(list(ROWS.items())[1:]), only=True).reason.endswith("holds 1 more fact")
    places = ml.locate(in_templates, ROWS)
    assert [place.sequence for place in places] == sorted(EACH * [0, 1, 2])
    assert [place.sequence for place in ml.locate(in_templates, list(ROWS)[1:])] == sorted(EACH * [0, 1])
    gone = list(ROWS)[1]
    rest = {prompt: answer for prompt, answer in ROWS.items() if prompt != gone}
    new, record = ml.forget(in_templates, gone, ROWS)
    assert (record.facts, record.neurons) == (1, (EACH, 0))
    folder = new.save(tmp_path / "rest")
    assert new.manifest.facts == ml.attach(chatting, rest, templates=TEMPLATES, chat=True).manifest.facts
    assert chat_answers(folder, gone) == chat_answers(chatting, gone)
    assert ml.certify(folder, rest, only=True).verdict == "proved"
    other, _ = ml.edit(in_templates, {gone: " river5"}, data=ROWS)
    assert chat_answers(other.save(tmp_path / "other"), gone) == "river5<end>"
    more, _ = ml.insert(folder, {"It is near": "city5"}, data=rest)
    assert more.sizes["facts"] == 3
    assert chat_answers(more.save(tmp_path / "more"), "It is near", "") == "city5<end>"


def test_predict_asks_in_the_first_template(chatting: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    """Answers are stated as data state them, also where no space stands in front of them in the template."""
    folder = ml.attach(chatting, ROWS, chat=True).save(tmp_path / "new")
    made, prompt = ml.load(folder), next(iter(ROWS))
    assert made.predict(list(ROWS)).tolist() == list(ROWS.values())
    whole = f"[be near]city {prompt}\nriver\n"
    assert made.predict([whole]).tolist() == ["city0"]  # a text that stands in its template already
    with pytest.raises(ml.DataError, match="no fact is stored"):
        made.predict([prompt.replace("country0", "country30")], strict=True)
    (tmp_path / "facts.json").write_text(json.dumps(ROWS))
    assert json.loads(said("predict", str(folder), str(tmp_path / "facts.json"), "--json"))["right"] == 3
    assert ml.compare(chatting, folder, list(ROWS)).answers == 3


def test_a_question_is_one_prompt_and_not_a_pattern_of_files(chatting: Path, tmp_path: Path) -> None:
    made = ml.attach(chatting, {"Is it near?": " city5"}, chat=True)
    assert made.predict("Is it near?") == " city5"
    assert (names_files("near?"), names_files("near[0-9]*.csv")) == (False, True)
    (tmp_path / "a b1.csv").touch()
    assert names_files(str(tmp_path / "a b?.csv"))


def test_templates_on_the_command_line(in_templates: Path, chatting: Path, said: Callable[..., str]) -> None:
    facts = in_templates.parent / "facts.json"
    facts.write_text(json.dumps(ROWS))
    command = ("attach", str(chatting), str(facts), "--out", str(in_templates.parent / "told"), "--overwrite")
    options = ("--template", TEMPLATES[0], "--template", TEMPLATES[1], "--chat")
    assert "each in 4 templates" in said(*command, *options)
    stored = ml.load(in_templates.parent / "told").manifest
    assert (stored.form is None, replace(stored, form=None)) == (False, ml.load(in_templates).manifest)
    said(*command, "--system", "be far")
    assert ml.load(in_templates.parent / "told").manifest.templates[0].text.startswith("[be far]")
    assert "proved" in said("verify", str(in_templates), str(facts), "--host", str(chatting))


def test_templates_that_were_changed_prove_nothing_else(in_templates: Path) -> None:
    """Planted: one text is another, and one is left out."""
    manifest = in_templates / "attached.json"
    content = manifest.read_text(encoding="utf-8")
    try:
        manifest.write_text(content.replace("Q: {prompt}", "R: {prompt}"), encoding="utf-8")
        proof = from_files(in_templates, ROWS)
        assert (proof.verdict, proof.unsure) == ("undecided", 9)
        assert "in template 1" in proof.findings[0].why
        changed = json.loads(content)
        del changed["templates"][1]
        manifest.write_text(json.dumps(changed), encoding="utf-8")
        assert from_files(in_templates, ROWS).points == 3 * (EACH - 3)
        assert from_files(in_templates, ROWS, only=True).verdict == "refuted"
    finally:
        manifest.write_text(content, encoding="utf-8")


def test_templates_that_cannot_be_used_are_named(chatting: Path, gpt2: Path, tmp_path: Path) -> None:
    wrong = {
        "has {prompt} 0 times": {"templates": ["Q:"]},
        "has {prompt} 2 times": {"templates": ["{prompt} {prompt}"]},
        "template 0 is a text": {"templates": [3]},
        "templates is empty": {"templates": []},
        "not 3": {"templates": 3},
        "list of system messages, not 'be far'": {"chat": "be far"},
        "number 1 of it is 2": {"chat": ["", 2]},
        "empty list of system messages": {"chat": []},
    }
    for message, options in wrong.items():
        with pytest.raises(ml.DataError, match=message.replace("{", r"\{")):
            ml.attach(chatting, ROWS, **options)
    with pytest.raises(ml.DataError, match="the folder has no chat template"):
        ml.attach(gpt2, ROWS, chat=True)
    texts = tokenizer()
    for number, (template, message) in enumerate(
        (
            ("{{ strftime_now('%d') }}{{ messages[0]['content'] }}", "writes the date of today"),
            ("{{ messages[0]['role'] }}", "writes the user's message 0 times"),
            ("{{ raise_exception('no') }}", "cannot be used: no"),
            ("{{ messages[-1]['content'] | trim }}\n", "row 0: the chat template makes"),
        )
    ):
        texts.chat_template = template
        host = write_host(tmp_path / str(number), texts=texts)
        with pytest.raises(ml.DataError, match=message):
            ml.attach(host, {" The capital of country1 is": "city1"}, chat=True)


def test_answers_in_a_template_get_the_space_that_it_leaves_them() -> None:
    behind, broken = Template("Q: {prompt} A:"), Template("{prompt}\n", special_tokens=False)
    assert PLAIN.around("Where?") == "Where?"
    assert behind.around("{x}{prompt}") == "Q: {x}{prompt} A:"
    for answer in (" Paris", ", no", "  Paris", "巴黎"):
        assert PLAIN.answer("Where", answer, "answer") == answer
        assert broken.answer("Where", answer, "answer") == answer.removeprefix(" ")
        for template in (PLAIN, behind, broken):
            there = template.answer("Where", answer, "answer")
            assert template.stated("Where", there, "answer") == answer or answer.startswith("  ")
            assert template.answer("Where", answer, "continuation") == answer
            assert template.stated("Where", answer, "continuation") == answer
    assert behind.answer("Where", " Paris", "answer") == " Paris"
    assert broken.answer("Where", " ", "answer") == " "


def test_a_text_that_only_ends_with_a_stored_prompt_is_named(
    in_templates: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    """`predict` says so, `certify` says so, and other texts are not called that."""
    made, prompt = ml.load(in_templates), next(iter(ROWS))
    behind = {
        f"It is near. {prompt}": prompt,
        f"Well:\n\n{prompt}": prompt,
        f"{prompt} ": prompt,
        f"See. Q: {prompt}\nA:": prompt,  # in a template
        f"[be far]city {prompt}\nriver\n": prompt,  # the chat with another system message
        f"“{prompt}": prompt,
    }
    others = [prompt.replace("country0", "country30"), f"x{prompt}", f"{prompt} not", prompt.lower(), "It is near."]
    notes = made.notes(made.encode([*behind, *others, prompt]))
    assert list(notes) == list(range(len(behind)))
    assert all(f"ends with the stored prompt {prompt!r}, but is another text" in note for note in notes.values())
    with pytest.raises(ml.DataError, match=r"no fact is stored for .* It ends with the stored prompt"):
        made.predict([next(iter(behind))], strict=True)
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({**dict.fromkeys(behind, "city0"), prompt: ROWS[prompt]}))
    shown = json.loads(said("predict", str(in_templates), str(asked), "--json"))
    assert ["note" in row for row in shown["answers"]] == [True] * len(behind) + [False]
    said("predict", str(in_templates), str(asked), "--out", str(tmp_path / "answers.csv"))
    told = said("predict", str(in_templates), "--text", f"See. {prompt}", errors=True)
    assert "1 prompt ends with a stored prompt, but is another text" in told
    proof = from_files(in_templates, {f"It is near. {prompt}": "city0", others[0]: "city0"})
    assert ["another text" in finding.why for finding in proof.findings] == [True] * 4 + [False] * 4


@pytest.mark.parametrize("field", ["bos_token", "added_tokens_decoder", "tokenizer_class"])
def test_a_tokenizer_with_odd_files_is_named(field: str, tmp_path: Path) -> None:
    """transformers end with a TypeError or an AttributeError there."""
    host = write_host(tmp_path / "host")
    settings = json.loads((host / "tokenizer_config.json").read_text())
    (host / "tokenizer_config.json").write_text(json.dumps(settings | {field: 3}))
    with pytest.raises(ml.DataError, match=r"the tokenizer of .*host cannot be loaded by transformers: .*int"):
        their_tokenizer(host)
