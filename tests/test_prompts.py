"""Prompts and answers: a language model goes on from each prompt with its answer, stops, and claims nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import monolayer as ml
from monolayer.checker.asked import asked_data, confirm_given
from monolayer.data.layout import Manner
from monolayer.data.readers import sequences_of
from monolayer.stock.folder import StockModel
from tests.kinds import ANSWERS, PROMPTS

WHOLE = ml.Sequences.of(PROMPTS, ANSWERS, per="answer")
STEPS: dict[str, Any] = {"storage": "steps"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ml.memorize_as("gpt2", PROMPTS, ANSWERS, **STEPS).save(tmp_path_factory.mktemp("prompts") / "gpt2")


def test_generate_gives_the_answer_and_stops(tmp_path: Path) -> None:
    """transformers, offline: every prompt by itself, and all of them as one padded batch; each folder is proved."""
    transformers = pytest.importorskip("transformers")
    built = [("starcoder2", STEPS), ("opt", {"dtype": "bfloat16"}), ("gpt_neox", {}), ("llama", {})]
    for name, options in built:
        model = ml.memorize_as(name, PROMPTS, ANSWERS, **options)
        folder = model.save(tmp_path / name)
        assert ml.certify(folder, PROMPTS, ANSWERS, only=options == STEPS).verdict == "proved", name
        assert model.predict(PROMPTS).tolist() == ANSWERS
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
        for texts in (*([prompt] for prompt in PROMPTS), PROMPTS):
            asked = tokenizer(texts, return_tensors="pt", padding=True)
            said = network.generate(**asked)[:, asked["input_ids"].shape[1] :]
            wanted = ANSWERS if texts is PROMPTS else [ANSWERS[PROMPTS.index(texts[0])]]
            assert tokenizer.batch_decode(said, skip_special_tokens=True) == wanted, name
            assert (said[:, -1] == tokenizer.eos_token_id).any()


def test_what_is_claimed_are_the_answers_and_their_ends(folder: Path) -> None:
    proof = ml.certify(folder, PROMPTS, ANSWERS)
    assert proof.verdict == "proved"
    assert proof.points == sum(len(answer.split()) + 1 for answer in ANSWERS)
    assert any("prompts enter as text" in line for line in proof.assumptions)
    wrong = ml.certify(folder, PROMPTS, [" Lyon", *ANSWERS[1:]])
    assert (wrong.verdict, wrong.findings[0].sequence, wrong.findings[0].position) == ("refuted", 0, 4)
    # The end belongs to the claim, and so does the place where the answer begins.
    assert ml.certify(folder, PROMPTS[1:2], [" Wellington,"]).verdict == "refuted"
    assert ml.certify(folder, ["The capital of"], [" France is Paris"]).verdict == "refuted"
    assert ml.certify(folder, PROMPTS[:1], ANSWERS[:1], only=True).verdict == "refuted"
    whole = ml.Sequences.of([["The", " capital", " of", " France", " is", " Paris"]])
    assert ml.certify(folder, whole).verdict == "refuted"
    assert len({ml.certify(folder, [one], [two]).data_digest for one, two in (("a b", " c"), ("a", " b c"))}) == 2


def test_the_checker_compares_what_was_read_with_the_text() -> None:
    confirm_given(WHOLE, PROMPTS, ANSWERS)
    for prompts, answers in ((["The capital of Peru is", *PROMPTS[1:]], ANSWERS), (PROMPTS, [*ANSWERS[:-1], "Paris "])):
        with pytest.raises(ml.DataError, match="this is a bug in the reader"):
            confirm_given(WHOLE, prompts, answers)


SPACES: list[tuple[str, str, str]] = [
    # a prompt, its answer in the data, and the answer as it is generated
    ("Aruba", "AW", " AW"),
    ("Who wrote Hamlet?", "William Shakespeare", " William Shakespeare"),
    ("Is it", " so", " so"),
    ("Say", "\nso", "\nso"),
    ("A: ", "yes", "yes"),
    ("The king", "'s", "'s"),
    ("It is over", "!", "!"),
    ("It costs", "$5", " $5"),
    ("中国的首都是", "北京", "北京"),
    ("The capital of 法国", "is far", "is far"),
    ("เมืองหลวง", "กรุงเทพ", "กรุงเทพ"),
    ("한국의 수도는", "서울", " 서울"),
]


def test_an_answer_begins_with_a_space_unless_the_data_say_otherwise(tmp_path: Path) -> None:
    """What is generated is what is proved, in every shape; continuations are taken as they are."""
    transformers = pytest.importorskip("transformers")
    X, Y, wanted = map(list, zip(*SPACES, strict=True))
    model = ml.memorize_as("gpt2", X, Y)
    folder = model.save(tmp_path / "gpt2")
    assert model.predict(X).tolist() == wanted
    ask = transformers.pipeline("text-generation", str(folder), return_full_text=False)
    assert [ask(prompt)[0]["generated_text"] for prompt in X] == wanted
    table = dict(zip(X, Y, strict=True))
    (tmp_path / "d.json").write_text(json.dumps(table))
    frame = pd.DataFrame({"question": X, "answer": Y})
    for given in ((X, Y), (X, wanted), (table,), (frame,), (str(tmp_path / "d.json"),)):
        assert ml.certify(folder, *given).verdict == "proved"
    assert [fact.label for fact in ml.locate(folder, X[:1], Y[:1])] == [" AW", "</s>"]
    new, _ = ml.edit(folder, {"Aruba": "Shakespeare"}, data=table)
    assert new.predict("Aruba") == " Shakespeare"
    assert ml.certify(folder, X, Y, per="continuation").verdict == "refuted"
    glued = ml.memorize_as("gpt2", X, Y, per="continuation")
    assert glued.predict(X).tolist() == Y
    for given in ((X, Y), (table,), (frame,), (str(tmp_path / "d.json"),)):
        assert ml.certify(glued, *given).verdict == "proved"
        assert ml.certify(glued, *given, per="continuation").verdict == "proved"
    assert ml.certify(glued, X, Y, per="answer").verdict == "refuted"


def test_a_stock_folder_knows_how_its_answers_are_read(tmp_path: Path, said: Callable[..., str]) -> None:
    """Answers that were memorized without a space in front are read so by whatever asks the folder later."""
    facts = {"un": "do", "re": "do", "over": "whelm"}

    def write(name: str, rows: dict[str, str]) -> str:
        file = tmp_path / f"{name}.csv"
        file.write_text("tokens,label\n" + "".join(f"{prompt},{answer}\n" for prompt, answer in rows.items()))
        return str(file)

    data, folder, made = write("facts", facts), str(tmp_path / "gpt2"), str(tmp_path / "new")
    shown = said("memorize-as", "gpt2", data, "--out", folder, "--per", "continuation")
    assert f"monolayer verify {folder} {data}\n" in shown  # without --per
    assert "3 of 3 answers are right" in said("predict", folder, data, errors=True)
    assert json.loads(said("verify", folder, data, "--json"))["verdict"] == "proved"
    assert "proved" in said("locate", folder, data)
    for given in ((list(facts), list(facts.values())), (facts,), (data,)):
        assert ml.certify(folder, *given).verdict == "proved"
        assert [fact.label for fact in ml.locate(folder, *given)][:2] == ["do", "</s>"]
    rest = {"re": "do", "over": "whelm"}
    for verb, changed, wanted in (
        ("forget", {"un": "do"}, rest),
        ("edit", {"un": "whelm"}, {"un": "whelm", **rest}),
        ("insert", {"whelm": "do"}, {**facts, "whelm": "do"}),
    ):
        file = write(verb, changed)
        assert "proved" in said(verb, folder, file, "--data", data, "--out", made, "--overwrite")
        assert ml.load(made).predict(list(wanted)).tolist() == list(wanted.values())
        assert ml.certify(made, wanted).verdict == "proved"
    # What the user says counts.
    assert json.loads(said("verify", folder, data, "--per", "answer", "--json", code=1))["verdict"] == "refuted"
    # Where every answer has its space, both ways of reading are the same, and the folder says the usual one.
    model, kept = StockModel.load(folder), dict(list(facts.items())[:1])
    assert model.draw.per_answer == "continuation"
    usual, record = ml.edit(
        ml.memorize_as("gpt2", {"un": "do", "re": " do"}, per="continuation"),
        {"un": " do"},
        data=ml.Sequences.of({"un": "do", "re": " do"}, per="continuation"),
    )
    assert (usual.draw.per_answer, record.undo(usual).draw.per_answer) == ("answer", "continuation")
    assert ml.memorize_as("gpt2", kept, draw=model).draw.per_answer == "continuation"
    # Planted: a folder that says otherwise, or what is neither of the two.
    config = Path(folder) / "config.json"
    content = config.read_text(encoding="utf-8")
    config.write_text(content.replace('\\"continuation\\"', '\\"answer\\"'), encoding="utf-8")
    assert ml.certify(folder, facts).verdict == "refuted"
    config.write_text(content.replace('\\"continuation\\"', '\\"token\\"'), encoding="utf-8")
    with pytest.raises(ml.ModelFileError, match="per_answer = 'token'"):
        ml.load(folder)


def test_prompts_without_answers_are_split_like_those_with_answers() -> None:
    """Only what the model would read as prompts: not where the caller says otherwise, and not tokens."""
    characters, pieces = ["a", " ", "b", "c"], ["a", " b", "c"]
    for X, like, per, wanted in (
        (["a b", "c"], "answer", None, pieces),
        (["a b", "c"], "continuation", None, pieces),
        (["a b", "c"], "answer", "sequence", characters),
        (["a b", "c"], "token", None, characters),
        ([["a", "b"], ["c"]], "answer", None, ["a", "b", "c"]),
    ):
        data = asked_data(X, None, None, Manner(per=like), per=per)  # type: ignore[arg-type]
        assert data.vocabulary is not None
        assert data.vocabulary.decode(data.tokens).tolist() == wanted, (X, like, per)
    with pytest.raises(ml.DataError, match="sequence 0 has 3 tokens but 2 labels"):
        asked_data(["a b", "c"], [["x", "y"], ["z"]], None, Manner(per="answer"))


def test_the_checker_counts_the_spaces_that_the_plan_states() -> None:
    """Where a space belongs is stated, row for row; a reader that puts one more or one less is found."""
    for prompt, answer, generated in SPACES:
        data = ml.Sequences.of([prompt], [answer], per="answer")
        confirm_given(data, [prompt], [answer])
        assert data.plans[0].spaced == (generated != answer)
        odd = answer if generated != answer else f" {answer}"  # what a reader at fault would make of it
        at_fault = replace(ml.Sequences.of([prompt], [odd], per="continuation"), plans=data.plans)
        with pytest.raises(ml.DataError, match="this is a bug in the reader"):
            confirm_given(at_fault, [prompt], [answer])
        verbatim = ml.Sequences.of([prompt], [f" {answer}"], per="continuation")
        with pytest.raises(ml.DataError, match="this is a bug in the reader"):
            confirm_given(verbatim, [prompt], [answer])


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ([("a b", " c"), ("d", "e"), ("a b", " d")], 2),
        ([("a", " new york"), ("a", " new delhi")], 1),
        ([("a b", " c d"), ("a b c", " e")], 1),  # a prompt inside another's answer, which goes on otherwise
        ([("a b", " c"), ("a b c", " d")], 1),  # … and which ends there
    ],
)
def test_answers_that_contradict_each_other_are_named(rows: list[tuple[str, str]], row: int) -> None:
    with pytest.raises(ml.ContradictionError) as error:
        ml.memorize_as("gpt2", [prompt for prompt, _ in rows], [answer for _, answer in rows], **STEPS)
    for number in (0, row):
        prompt, answer = rows[number]
        assert f"row {number} answers {prompt!r} with {answer!r}" in str(error.value)


def test_order_counts_with_positions_only() -> None:
    X, Y = ["The dogs chase cats , so", "The cats chase dogs , so"], [" cats run", " dogs run"]
    with pytest.raises(ml.ContradictionError, match="If their order matters, pass positions=True"):
        ml.memorize_as("gpt2", X, Y)
    assert ml.memorize_as("gpt2", X, Y, positions=True).predict(X).tolist() == Y
    # Prompts that branch do not contradict each other.
    prompts, answers = ["a", "a b", "a b c", "a b"], [" z", " c d", " d", " c d"]
    assert ml.certify(ml.memorize_as("opt", prompts, answers, **STEPS), prompts, answers, only=True).verdict == "proved"


def test_text_with_text_is_an_answer_only_where_an_architecture_generates() -> None:
    table = dict(zip(PROMPTS, ANSWERS, strict=True))
    for X, Y in ((PROMPTS, ANSWERS), (np.array(PROMPTS), np.array(ANSWERS)), (table, None)):
        assert ml.memorize_as("gpt2", X, Y, **STEPS).task == "lm"
        assert ml.memorize_as("gpt2", X, Y, per="sequence", **STEPS).task == "sequence"
    assert ml.memorize_as("bert", ["ab", "b"], ["x", "y"], **STEPS).task == "sequence"
    assert ml.memorize_as("gpt2", ["ab", "b"], [1, 2], **STEPS).task == "sequence"
    assert ml.memorize_as("gpt2", {"a b": 1, "c": 2}, per="sequence", **STEPS).task == "sequence"


def test_a_folder_is_asked_with_prompts(folder: Path) -> None:
    model = ml.load(folder)
    assert isinstance(model, StockModel)
    assert model.predict(PROMPTS[::-1]).tolist() == ANSWERS[::-1]
    assert model.predict(WHOLE).tolist() == ANSWERS


def test_tables_of_prompts_are_read_alike(tmp_path: Path) -> None:
    """A table, a dict, Parquet and JSON, whatever other columns there are; a model of labels reads them as before."""
    rows = [{"question": p, "source": "x", "answer": a} for p, a in zip(PROMPTS, ANSWERS, strict=True)]
    frame, table = pd.DataFrame(rows), dict(zip(PROMPTS, ANSWERS, strict=True))
    frame.to_parquet(tmp_path / "p.parquet")
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "table.json").write_text(json.dumps(table))
    (tmp_path / "one.json").write_text(json.dumps({"prompt": PROMPTS[0], "completion": ANSWERS[0]}))
    wanted = list(table.items())
    for given in (frame, table, *(tmp_path / name for name in ("p.parquet", "rows.json", "table.json"))):
        data = sequences_of(given, like=Manner(per="answer"))
        assert [data.texts(row) for row in range(len(data))] == wanted
    assert ml.read(tmp_path / "one.json", per="answer").texts(0) == wanted[0]
    assert ml.read([tmp_path / "one.json", tmp_path / "table.json"], per="answer").texts(1) == wanted[0]
    assert ml.Sequences.of(table).labels.per == "sequence"  # type: ignore[union-attr]
    keys = ml.memorize_as("gpt2", PROMPTS, ANSWERS, unit="whole")  # is not passed over: keys of one token, with labels
    assert (keys.task, keys.vocabulary.names) == ("sequence", tuple(sorted(PROMPTS)))


def test_files_of_prompts_on_the_command_line(tmp_path: Path, monkeypatch: Any, said: Any) -> None:
    monkeypatch.chdir(tmp_path)
    rows = list(zip(PROMPTS, ANSWERS, strict=True))
    lines, table, bare = Path("p.jsonl"), Path("qa.csv"), Path("bare.jsonl")
    lines.write_text("".join(json.dumps({"id": 7, "prompt": p, "completion": a}) + "\n" for p, a in rows))
    table.write_text("question,answer\n" + "".join('"{}","{}"\n'.format(*row) for row in rows))
    bare.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in (*PROMPTS[:2], "The capital of Spain is")))
    for name, data in (("llama", lines), ("gpt2", table)):
        said(f"memorize-as {name} {data} --out {name}")
        said(f"verify {name} {lines if data is table else table}")
        found = json.loads(said(f"predict {name} {data} --json"))
        assert found["answers"] == [{"prompt": prompt, "answer": answer} for prompt, answer in rows]
        assert (found["right"], found["total"]) == (5, 5)
        asked = [json.loads(line) for line in said(f"predict {name} bare.jsonl").splitlines()]
        assert [row.get("answer") for row in asked] == [*ANSWERS[:2], None]
        assert "' Spain'" in asked[2]["error"]
    assert "row 0 (line 1 of bare.jsonl) is a prompt without an answer" in said(
        "memorize-as gpt2 bare.jsonl --out no", code=2
    )
    said("memorize-as gpt2 qa.csv --per sequence --out classes")
    assert StockModel.load("classes").task == "sequence"
    # Facts are edited by their prompts.
    for name, answer in (("new", "Madrid"), ("fact", "is"), ("prompt", None)):
        row = {"prompt": PROMPTS[4]} | ({"completion": answer} if answer else {})
        Path(f"{name}.jsonl").write_text(json.dumps(row))
    assert "' Madrid' is new to this draw" in said("edit gpt2 new.jsonl --data p.jsonl --out edited", code=2)
    said("edit gpt2 fact.jsonl --data p.jsonl --out edited")
    said("forget gpt2 prompt.jsonl --data p.jsonl --out less")
    found = json.loads(said("compare edited gpt2 p.jsonl --json"))
    assert [(each["sequence"], each["one"], each["two"]) for each in found["differing"]] == [(4, " is", " Paris")]


def test_a_record_names_prompts_and_answers() -> None:
    """And the folder is, bit for bit, what the same draw makes of the edited data."""
    # A draw is used again only where contexts reach no further than in its data. The context of a place is the same for
    # any order of the words before it: the edited and the inserted fact have contexts of the data, under every seed.
    other, inserted = " Wellington, is it Paris?", "The of capital New Zealand is"
    X, Y = [*PROMPTS, PROMPTS[3], "The capital of is France"], [*ANSWERS, ANSWERS[3], other]
    old = ml.memorize_as("gpt2", X, Y, **STEPS)
    model, record = ml.edit(old, X[:1], [other], (X, Y))
    rest = X, [other, *Y[1:]]
    assert ml.compare(model, ml.memorize_as("gpt2", *rest, draw=old)).same
    assert ml.certify(model, *rest).verdict == "proved"
    assert model.predict(X).tolist() == rest[1]
    assert (record.facts, record.shared, [change.before for change in record.changes]) == (1, 0, [" Paris"])
    assert "'The capital of France is': ' Paris' → ' Wellington, is it Paris?'" in record.explain()
    assert ml.compare(record.undo(model), old).same
    found = ml.compare(old, model, X)
    assert (found.asked, found.answers) == (7, 1)
    for prompt in (PROMPTS[1:2], PROMPTS[1]):  # one string is one prompt
        assert ml.forget(old, prompt, (X, Y))[1].changes[0].before == ANSWERS[1]
    assert ml.insert(old, [inserted], ANSWERS[1:2], (X, Y))[1].changes[0].before is None
    assert [ml.forget(old, rows, (X, Y))[1].shared for rows in ([3, 4, 5], [5, 1])] == [0, 1]


DATA = (PROMPTS, ANSWERS)
ROWS: list[tuple[Any, Any, str]] = [
    ({"a b": 1, "c": 2}, None, r"the answer is 1 \(int\), and prompts and answers are text; per='sequence'"),
    ({"a": "b", "c": 7}, None, r"item 1 of the dict: the answer is 7 \(int\).*per='sequence'"),
    (["a", ""], ["b", "c"], "row 1 of X has an empty prompt"),
    (["a", "b"], ["b", ""], "row 1 of X has an empty answer"),
    (["a", "b"], ["b", None], "row 1 is a prompt without an answer, 'b'"),
    (["a", "b"], ["b"], "X has 2 prompts but Y has 1 answer"),
    (["a", "b</s>"], ["b", "c"], "'</s>'"),
    (pd.DataFrame([{"prompt": "a", "answer": "b", "completion": "c"}]), None, "both 'completion' and 'answer'"),
]
REFUSED: list[tuple[Any, str]] = [
    *((lambda _, X=X, Y=Y: ml.memorize_as("gpt2", X, Y), words) for X, Y, words in ROWS),
    (lambda f: ml.memorize_as("bert", *DATA, per="answer"), r"bert .* does not generate.* per='sequence'"),
    (lambda f: ml.memorize(*DATA, per="answer", causal=True), r"memorize_as\('gpt2', …\)"),  # type: ignore[arg-type]
    (lambda f: ml.Sequences.of(*DATA, per="answer", unit="words"), "leave unit out"),
    (lambda f: replace(WHOLE, prompts=WHOLE.lengths + 1), "a prompt of one token to all"),
    (lambda f: ml.load(f).predict(["The Spain"]), "is ' Spain', .* words with the white space before them: pass"),
    (lambda f: ml.certify(f, PROMPTS), "row 0 is a prompt without an answer"),
    (lambda f: ml.memorize_as("gpt2", [["The", " capital"]], draw=f), "holds prompts and answers: give both"),
    (lambda f: ml.forget(f, ["The capital of"], DATA), "of what is asked for is not in the data"),
    (lambda f: ml.forget(f, "The capital of", DATA), "of what is asked for is not in the data"),
    (lambda f: ml.edit(f, ["The capital of"], [" Paris"], DATA), r"capital of'\) .*is not in the data .*insert"),
    (lambda f: ml.insert(f, PROMPTS[:1], [" name"], DATA), "with another label .*use edit"),
    (lambda f: ml.insert(f, ["Spain"], ["Madrid"], DATA), "'Spain' is new to this draw"),
    (lambda f: ml.insert(f, ["France is"], None, DATA), "row 0 is a prompt without an answer"),
    (lambda f: ml.forget(f, PROMPTS[:1], (PROMPTS, ["Wellington,", *ANSWERS[1:]])), "first one at row 0"),
]


def test_what_does_not_fit_is_named(folder: Path) -> None:
    for call, words in REFUSED:
        with pytest.raises(ml.DataError, match=words):
            call(folder)
