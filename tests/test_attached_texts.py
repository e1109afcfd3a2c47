"""How prompts and answers of attached facts become tokens: as `generate` will see them, and as users wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

import monolayer as ml
from monolayer.attaching.measuring import measure_answers
from monolayer.huggingface.cutting import TokenNames, continuation, cut_facts
from tests.hosts import FACTS, loaded, spacing_tokenizer, tokenizer, write_host
from tests.verdicts import from_files

ROWS = list(FACTS.items())[:4]


@pytest.fixture(scope="module")
def spacing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host") / "llama", "llama", texts=spacing_tokenizer())


def goes_on(folder: Path, asked: Any) -> str:
    """The whole text that `generate` makes of ids, special tokens included."""
    texts = transformers.AutoTokenizer.from_pretrained(folder)
    said = loaded(folder).generate(**asked, max_new_tokens=8, do_sample=False, pad_token_id=0)
    return str(texts.decode(said[0]))


def test_answers_get_one_space_where_tokenizers_put_one_in_front_of_every_text(spacing: Path, tmp_path: Path) -> None:
    facts = dict(ROWS)
    made = ml.attach(spacing, facts)
    folder = made.save(tmp_path / "new")
    texts = transformers.AutoTokenizer.from_pretrained(spacing)
    for prompt, answer in ROWS:
        assert goes_on(folder, texts(prompt, return_tensors="pt")) == f"<s> {prompt}{answer}</s>"
    # The answer has the tokens that it has behind its prompt, so a text that quotes the fact is split alike.
    (first, *_) = cut_facts((spacing / "tokenizer.json").read_bytes(), ml.Sequences.of(facts, per="answer"), None)
    assert [*first.prompt, *first.answer] == texts("".join(ROWS[0]))["input_ids"]
    assert made.predict(list(facts)).tolist() == list(facts.values())
    proof = ml.certify(folder, facts, host=spacing, only=True)
    assert (proof.verdict, "special" in " ".join(proof.assumptions)) == ("proved", False)
    new, record = ml.forget(folder, [ROWS[1][0]], facts)
    assert record.changes[0].before == ROWS[1][1]
    assert new.predict([ROWS[2][0]]).tolist() == [ROWS[2][1]]


@pytest.mark.parametrize("answer", [" city7", "city7", " ", "  city7", "7, and"])
@pytest.mark.parametrize("make", [tokenizer, spacing_tokenizer])
def test_an_answer_is_the_text_that_comes_behind_the_prompt(make: Callable[[], Any], answer: str) -> None:
    """Also one without a space, which is glued to its prompt."""
    own = make()
    content = own.backend_tokenizer.to_str().encode()
    data = ml.Sequences.of(["The capital of country1 is"], [answer], per="continuation")
    (fact,) = cut_facts(content, data, None)
    assert continuation(own.backend_tokenizer, fact.prompt, fact.answer) == answer


def test_prompts_of_a_chat_template_are_split_as_the_template_splits_them(
    spacing: Path, tmp_path: Path, said: Callable[..., str]
) -> None:
    """The template writes `<s>` itself. With one more, as `tokenizer(text)` adds, the state is another one."""
    texts = transformers.AutoTokenizer.from_pretrained(spacing)
    chats = [[{"role": "user", "content": f"country{i}?"}] for i in range(3)]
    prompts = [texts.apply_chat_template(chat, tokenize=False) for chat in chats]
    facts = {prompt: f" city{i}" for i, prompt in enumerate(prompts)}
    asked = [texts.apply_chat_template(chat, return_tensors="pt", return_dict=True) for chat in chats]
    twice = ml.attach(spacing, facts).save(tmp_path / "twice")
    assert not goes_on(twice, asked[1]).endswith("country: city1</s>")
    made = ml.attach(spacing, facts, special_tokens=False)
    assert "add_special_tokens=False" in repr(made)
    folder = made.save(tmp_path / "new")
    for i, each in enumerate(asked):
        assert goes_on(folder, each).endswith(f"country: city{i}</s>")
    # Whatever reads the folder later splits prompts alike.
    proof = ml.certify(folder, facts, host=spacing, only=True)
    assert proof.verdict == "proved"
    assert any("add_special_tokens=False" in each for each in proof.assumptions)
    assert measure_answers(folder, facts).wrong == 0
    assert ml.load(folder).predict(prompts).tolist() == list(facts.values())
    assert ml.locate(folder, prompts[:1])[0].verdict == "proved"
    assert ml.compare(spacing, folder, prompts).answers == 3
    new, _ = ml.insert(folder, {"<s>city: river? country:": " country7"}, data=facts)
    assert [each.special_tokens for each in new.manifest.templates] == [False]
    assert ml.certify(twice, facts).verdict == "proved"
    command = ("attach", str(spacing), str(tmp_path / "facts.csv"), "--out", str(tmp_path / "told"))
    (tmp_path / "facts.csv").write_text("prompt,answer\n" + "".join(f'"{x}","{y}"\n' for x, y in facts.items()))
    assert "proved" in said(*command, "--no-special-tokens")
    stored = ml.load(tmp_path / "told").manifest
    assert (stored.form is None, replace(stored, form=None)) == (False, ml.load(folder).manifest)


def test_a_folder_knows_how_its_answers_are_read(gpt2: Path, tmp_path: Path, said: Callable[..., str]) -> None:
    """Answers without a space in front were attached as they are, so whatever asks for them later takes them so."""
    names = ("facts", "some", "new", "more")
    files = {name: str(tmp_path / f"{name}.csv") for name in names}
    prompts = list(FACTS)[:4]

    def write(name: str, rows: list[tuple[str, str]]) -> None:
        text = "prompt,answer\n" + "".join(f"{prompt},{answer}\n" for prompt, answer in rows)
        Path(files[name]).write_text(text, encoding="utf-8")

    facts = [(prompt, f"city{number}") for number, prompt in enumerate(prompts)]
    write("facts", facts)
    folder, made = str(tmp_path / "attached"), str(tmp_path / "edited")
    said("attach", str(gpt2), files["facts"], "--out", folder, "--per", "continuation")
    assert json.loads(said("verify", folder, files["facts"], "--only", "--json"))["verdict"] == "proved"
    assert "4 of 4 answers are right" in said("predict", folder, files["facts"], errors=True)
    assert "proved" in said("locate", folder, files["facts"])
    assert ml.certify(folder, dict(facts)).verdict == ml.certify(folder, *zip(*facts, strict=True)).verdict == "proved"
    assert ml.certify(folder, files["facts"]).verdict == "proved"
    assert measure_answers(folder, dict(facts)).wrong == 0
    assert ml.locate(folder, facts)[0].label == "c"
    with pytest.raises(ml.DataError, match="a prompt without an answer"):
        ml.certify(folder, prompts)
    write("some", facts[:1])
    write("new", [(prompts[1], "river5")])
    write("more", [("It is near", "river6")])
    changes = (("forget", "some", facts[1:]), ("edit", "new", [facts[0], (prompts[1], "river5"), *facts[2:]]))
    for verb, name, rest in (*changes, ("insert", "more", [*facts, ("It is near", "river6")])):
        shown = said(verb, folder, files[name], "--data", files["facts"], "--out", made, "--overwrite")
        assert "proved" in shown
        assert ml.load(made).predict([rest[0][0], rest[-1][0]]).tolist() == [rest[0][1], rest[-1][1]]
        assert ml.certify(made, dict(rest), only=True).verdict == "proved"
    # An option that is given counts, and is wrong here.
    assert "in place of ' city'" in said("verify", folder, files["facts"], "--per", "answer", code=1)
    assert "give both, as text" in said("verify", folder, files["facts"], "--per", "token", code=2)
    # Where every answer has its space, both ways of reading are the same, and the folder says the usual one.
    spaced = ml.attach(gpt2, ml.Sequences.of({prompts[0]: " city1"}, per="continuation"))
    assert spaced.manifest.per == "answer"
    new, _ = ml.forget(folder, [0, 1, 2], dict(facts))
    usual, record = ml.edit(new, {prompts[3]: " city3"}, data=dict(facts[3:]))
    assert (usual.manifest.per, record.undo(usual).manifest.per) == ("answer", "continuation")
    # Planted: a folder that says otherwise, or what is none of the two.
    manifest = Path(folder) / "attached.json"
    content = manifest.read_text(encoding="utf-8")
    manifest.write_text(content.replace('"per": "continuation"', '"per": "answer"'), encoding="utf-8")
    assert from_files(folder, dict(facts)).verdict == "undecided"
    assert ml.certify(folder, dict(facts)).verdict == "refuted"  # asked here, no answer has that space
    manifest.write_text(content.replace('"per": "continuation"', '"per": "token"'), encoding="utf-8")
    with pytest.raises(ml.ModelFileError, match=r"is not one that attach wrote.*per"):
        ml.certify(folder, dict(facts))


def test_text_that_no_tokenizer_can_split_is_named(spacing: Path) -> None:
    for facts in ({"a\ud800b": " x"}, {"ab": " \ud800"}):
        with pytest.raises(ml.DataError, match=r"row 0: character 1 of .* half of a surrogate pair"):
            ml.attach(spacing, facts)
    with pytest.raises(ml.DataError, match="keep, text 1: character 0"):
        ml.attach(spacing, dict(ROWS), keep=["a", "\ud800"])


def spelled_bytes() -> dict[str, int]:
    """The byte that each character stands for in byte-level spellings: itself if it can be printed."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(256 + number): byte for number, byte in enumerate(others)}


def test_tokens_are_named_as_people_read_them() -> None:
    """With the space in front of them; half of a character, or a special token, is named as tokenizer.json spells it.

    The reference reads the bytes from the spelling of every token.
    """
    own, byte_of = tokenizer().backend_tokenizer, spelled_bytes()
    name, halves = TokenNames(own.to_str().encode()), 0
    for spelling, token in own.get_vocab().items():
        wanted = spelling
        if spelling != "<end>":
            try:
                wanted = bytes(byte_of[letter] for letter in spelling).decode()
            except UnicodeDecodeError:
                halves += 1
        assert name(token) == wanted
    assert halves == 128  # every byte that no character of one byte has
    spaced = spacing_tokenizer().backend_tokenizer
    name = TokenNames(spaced.to_str().encode())
    names = {spelling: name(token) for spelling, token in spaced.get_vocab().items()}
    assert all(text == spelling.replace("▁", " ") for spelling, text in names.items())
    assert (names["▁city"], names["</s>"], name(10**6)) == (" city", "</s>", "id 1000000")


def test_errors_and_certificates_name_tokens_as_people_read_them(gpt2: Path, with_facts: Path) -> None:
    twice = ["The capital of country1 is"] * 2
    with pytest.raises(
        ml.ContradictionError, match=r"country1 is', one continues with ' city', the other with ' river'"
    ):
        ml.attach(gpt2, twice, [" city1", " river1"])
    with pytest.raises(ml.ContradictionError, match=r"tokens, '….{79}', one continues"):
        ml.attach(gpt2, [f"{'near ' * 20}is"] * 2, [" city1", " river1"])
    with pytest.raises(ml.ContradictionError, match=r"one continues with ' city', the other with 'Ã'"):
        ml.attach(gpt2, ml.Sequences.of(twice, [" city", "é"], per="continuation"))
    found = measure_answers(with_facts, {"The capital of country1 is": " river1"})
    assert "' city' in place of ' river'" in found.examples[0]
    assert ml.locate(with_facts, FACTS)[0].label == " city"
