"""What a model keeps of how its data were read: more files of that form need no options, and others are not misread."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import monolayer as ml
from monolayer.checker.asked import asked_files
from monolayer.data import delimited, layout, read
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.plan import ReadPlan
from monolayer.errors import DataError
from tests.encoders import FAQ, write_encoder
from tests.read_files import put, same
from tests.read_table import FILES

NO_HEADER = "Narnia;Cair Paravel\nGondor;Minas Tirith\nMordor;Barad-dur\n"
ANIMALS = "id,en,de,legs\n1,dog,Hund,4\n2,cat,Katze,4\n3,hen,Huhn,2\n"


def knows(file: Path, **options: Any) -> Manner:
    """How a model that was built from this file reads data."""
    data = read(file, **options)
    per = data.per_answer if data.prompts is not None else None if data.labels is None else data.labels.per
    cuts = None if data.vocabulary is None else data.vocabulary.cuts
    return Manner(cuts, per, form=SourceForm.of(data.plans))


AGAIN = [name for name in FILES if name != "conll, one column for both"]
"""A file of tokens alone is to be asked, also if the model was built from one whose only column was the label too."""


@pytest.mark.parametrize("name", AGAIN)
def test_a_file_is_read_again_without_the_options_that_it_was_read_with(name: str, tmp_path: Path) -> None:
    each = FILES[name]
    file = put(tmp_path / each.name, each.content)
    options = {key: value for key, value in each.options.items() if key == "format"}
    first = read(file, **each.options)
    like = knows(file, **each.options)
    assert like.form is not None
    assert SourceForm.from_json(json.loads(json.dumps(like.form.to_json()))) == like.form
    again = asked_files(file, like=like, **options)  # the checker reads it a second time by the plan
    same(again, first)
    (one,), (two,) = first.plans, again.plans
    assert replace(two, remembered=()) == one
    assert SourceForm.of(again.plans) == like.form
    same(asked_files(file, **each.options | {"like": like}), first)  # given again, options still say the same


def test_only_what_the_data_leave_open_is_taken_from_the_model(tmp_path: Path) -> None:
    def plan(content: str, like: Manner, name: str = "b.csv", **options: Any) -> ReadPlan:
        return asked_files(put(tmp_path / name, content), like=like, **options).plans[0]

    like = knows(put(tmp_path / "a.csv", NO_HEADER), header=False)
    assert plan(NO_HEADER, like).remembered == ("header",)
    assert plan(NO_HEADER, like, "b.txt").remembered == ("format", "header")
    assert plan(NO_HEADER.replace(";", ","), like).separator == ","  # cut into as many columns by another mark
    headed = plan("country;capital\n" + NO_HEADER, like)  # usual names of columns are a header
    assert (headed.header, headed.rows, headed.unlike) == (True, 3, True)
    assert plan("x;y\n" + NO_HEADER, like, header=True).rows == 3  # options win
    assert plan("Narnia\nGondor\n", like).rows == 2  # keys alone
    assert plan("b\tc\n" + NO_HEADER.replace(";", "\t"), like, "b.tsv").header is False
    with pytest.raises(DataError, match="the first row, '1' and '2' and '3', may be data"):
        plan("1;2;3\n4;5;6\n", like)

    both = knows(put(tmp_path / "a.csv", "a,b;c\nd,e;f\n"), header=False, separator=";")
    assert plan("g,h;i\nj,k;l\n", both).remembered == ("separator", "header")
    assert plan("g,h;i\nj,k;l\n", both, separator=",").separator == ","

    some = knows(put(tmp_path / "a.csv", ANIMALS), tokens="en", labels="de")
    turned = plan("de,en\nHund,dog\n", some)
    assert (turned.key, turned.label, turned.remembered) == (("en", 1), ("de", 0), ("columns",))
    alone = plan("id,en\n1,dog\n", some)
    assert (alone.key, alone.label) == (("en", 1), None)
    others = plan("English,German\ndog,Hund\n", some)
    assert others.unlike
    assert others.key == ("English", 0)
    assert "not the columns that the model" in str(others)
    assert not plan("English,German\ndog,Hund\n", some, tokens="English", labels="German").unlike
    assert plan('{"en": "dog", "de": "Hund", "id": 1}\n', some, "b.jsonl").label == ("de", 1)
    assert plan(ANIMALS, some, labels="legs").label == ("legs", 3)  # the key is still the model's
    with pytest.raises(DataError, match="no column 'legs'"):
        plan("de,en\nHund,dog\n", some, labels="legs")


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (delimited, "_is_column_name", lambda cell: False),  # a header would be read as a row
        (layout.SourceForm, "columns_in", lambda form, there: [form.key, form.label]),
        (layout.SourceForm, "columns_in", lambda form, there: None),
    ],
)
def test_a_fault_in_what_fits_shows(
    module: Any, name: str, fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, fault)
    with pytest.raises((AssertionError, DataError, ValueError)):
        test_only_what_the_data_leave_open_is_taken_from_the_model(tmp_path)


def test_sources_of_several_forms_have_none() -> None:
    one = ReadPlan("a.csv", "csv", separator=",", header=True, rows=3)
    assert SourceForm.of([one, replace(one, source="b.csv", rows=5, gaps=1)]) is not None
    for other in (replace(one, separator=";"), replace(one, format="tsv"), ReadPlan("X", "dict")):
        assert SourceForm.of([one, other]) is None
    assert SourceForm.of([]) is SourceForm.of([ReadPlan("X", "arrays")]) is None
    pair = replace(one, keyed=True, width=2)
    for wider, alone in (([pair, pair], True), ([pair, replace(pair, width=3)], False)):
        form = SourceForm.of(wider)
        assert form is not None
        assert form.pair is alone


KEPT = {
    "own": lambda file, out: ml.memorize(file, tokens="en", labels="de").save(out),
    "robust": lambda file, out: ml.memorize(file, tokens="en", labels="de", robust=True).save(out),
    "files": lambda file, out: ml.memorize_files(file, out, tokens="en", labels="de", workers=1),
    "stock": lambda file, out: ml.memorize_as("bert", file, tokens="en", labels="de").save(out),
    "prompts": lambda file, out: ml.memorize_as("gpt2", file, tokens="en", labels="de", per="answer").save(out),
}


@pytest.mark.parametrize("kind", list(KEPT))
def test_folders_keep_the_form_and_edits_do_not_change_it(kind: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", ANIMALS)
    folder = KEPT[kind](file, tmp_path / "m")
    form = SourceForm("csv", ",", True, "en", "de")
    model = ml.load(folder)
    assert model.card.form == form
    assert ml.certify(folder, file).verdict == "proved"
    assert len(ml.locate(folder, file)) >= 3
    rest = put(tmp_path / "rest.csv", ANIMALS.replace("2,cat,Katze,4\n", ""))
    gone = read(put(tmp_path / "out.csv", "legs,en\n4,cat\n"), like=model.card.manner)
    new, record = ml.forget(folder, gone, file)
    assert new.card.form == form
    if kind in ("own", "robust", "files"):
        same_bytes(new.save(tmp_path / "new"), ml.memorize(rest, draw=model).save(tmp_path / "rest"))
        pairs = {"dog": "Hund", "hen": "Huhn"}  # data in memory have no form, and the draw's is kept
        same_bytes(tmp_path / "new", ml.memorize(pairs, draw=model).save(tmp_path / "pairs"))
    elif kind == "stock":
        again = ml.memorize_as("bert", rest, draw=folder).save(tmp_path / "rest")
        same_bytes(new.save(tmp_path / "new"), again)
    undone = record.undo(new).save(tmp_path / "undone")
    if kind == "files":  # which are written in several parts
        assert ml.load(undone).card.form == form
    else:
        same_bytes(undone, folder)


def same_bytes(one: Path, two: Path) -> None:
    names = {path.name for path in one.iterdir()}
    assert names == {path.name for path in two.iterdir()}
    for name in names - {"README.md"}:  # which has figures of the first build
        left, right = ((folder / name).read_bytes() for folder in (one, two))
        if name == "config.json" and left != right:  # only the first build has a summary
            left, right = (json.loads(part) for part in (left, right))
            for part in (left, right):
                part.pop("summary"), part.pop("digest")
        assert left == right, name


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "bert")


def test_facts_keep_the_form(gpt2: Path, tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", "id;prompt;reply\n1;lake3 of;city7\n2;lake4 of;city8\n".replace(" of", ""))
    made = ml.attach(gpt2, read(file, tokens="prompt", labels="reply", per="answer"))
    folder = made.save(tmp_path / "m")
    assert ml.load(folder).card.form == SourceForm("csv", ";", True, "prompt", "reply")
    assert ml.certify(folder, file, ask=False).verdict == "proved"
    gone = read(put(tmp_path / "out.csv", "id;prompt\n2;lake4\n"), like=ml.load(folder).card.manner)
    new, _ = ml.forget(folder, gone, file)
    manifests = [json.loads((new.save(tmp_path / "new") / "attached.json").read_bytes())]
    rest = read(put(tmp_path / "b.csv", "id;prompt;reply\n1;lake3;city7\n"), like=ml.load(folder).card.manner)
    manifests.append(json.loads((ml.attach(gpt2, rest).save(tmp_path / "rest") / "attached.json").read_bytes()))
    for manifest in manifests:
        manifest.pop("measured")
        for fact in manifest["facts"]:
            del fact["moved"], fact["length"], fact["fell"]
    assert manifests[0] == manifests[1]
    assert manifests[0]["form"]["key"] == "prompt"


def test_questions_keep_the_form(bert: Path, tmp_path: Path) -> None:
    """Without a header, separated by semicolons, and with the answer in front of the question."""
    rows = [f"{answer};{question}\n" for question, answer in FAQ.items()]
    file = put(tmp_path / "a.csv", "".join(rows))
    columns: dict[str, Any] = {"header": False, "tokens": "2", "labels": "1"}
    with pytest.raises(DataError, match=r"both text: .* or what monolayer\.read\(FILE, per='continuation'\) returns"):
        ml.recognize(bert, read(file, **columns))
    made = ml.recognize(bert, read(file, per="continuation", **columns), floor=0.9)
    folder = made.save(tmp_path / "m")
    form = SourceForm("csv", ";", False, "2", "1")
    assert made.card.form == ml.load(folder).card.form == form
    proof = ml.certify(folder, file)
    assert proof.verdict == "proved", proof.explain()
    assert (proof.read_as[0].separator, proof.read_as[0].header, len(proof.read_as)) == (";", False, 1)
    assert ml.load(folder).predict(file).tolist() == list(FAQ.values())
    manner = ml.load(folder).card.manner
    gone = read(put(tmp_path / "out.csv", rows[1]), like=manner)
    new, _ = ml.forget(folder, gone, file)
    rest = read(put(tmp_path / "b.csv", rows[0] + "".join(rows[2:])), like=manner)
    again = ml.recognize(bert, rest, floor=0.9)
    assert new.manifest.form == again.manifest.form == form
    assert [each.question for each in new.manifest.questions] == [each.question for each in again.manifest.questions]


def test_models_of_data_in_another_form_are_the_same(tmp_path: Path) -> None:
    """Comparisons and records are about what a model holds, not about how its files were read."""
    file, pairs = put(tmp_path / "a.csv", ANIMALS), {"dog": "Hund", "cat": "Katze", "hen": "Huhn"}
    for build in (ml.memorize, partial(ml.memorize_as, "bert")):
        one = build(file, tokens="en", labels="de", unknown=False)
        two = build(list(pairs), list(pairs.values()), unit="words", unknown=False)
        assert one.card.form is not None
        assert two.card.form is None
        assert ml.compare(one, two).same
        new, record = ml.forget(one, ["hen"], file)
        other = record.apply(two)
        assert other.card.form is None
        assert ml.compare(new, other).same


def test_read_takes_files_and_says_what_takes_a_dict() -> None:
    with pytest.raises(DataError, match=r"names of files, and this is of type dict: pass it to memorize"):
        read({"France": "Paris"})


def test_the_command_line_needs_the_options_once(
    said: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a.csv", NO_HEADER)
    assert "verify m a.csv\n" in said("memorize a.csv --no-header -o m")
    assert "header as when the model was built" in " ".join(said("verify m a.csv").split())
    assert "3 of 3 labels are right" in said("predict m a.csv", errors=True)


WHOLE = SourceForm("csv", ";", False, "1", "2", True).to_json()
NO_FORMS: tuple[Any, ...] = (
    [],
    "csv",
    {},
    {key: value for key, value in WHOLE.items() if key != "pair"},
    *(WHOLE | {key: value} for key, values in {
        "format": ("excel", "windows", 3, None, ["csv"]), "separator": (";;", "", 3), "key": (1, "\ud800"),
        "label": (b"x", 2, "\udfff"), "pair": (1, None), "header": (1, "yes"), "more": (1,),
    }.items() for value in values),
)  # fmt: skip


@pytest.mark.parametrize("value", NO_FORMS, ids=repr)
def test_json_that_is_no_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="form"):
        SourceForm.from_json(value)


def test_a_form_may_leave_out_what_a_file_does_not_say() -> None:
    assert SourceForm.from_json(None) is None
    for change in ({}, {"separator": None}, {"header": None}, {"header": True}, {"key": None, "label": None}):
        assert SourceForm.from_json(WHOLE | change).to_json() == WHOLE | change  # type: ignore[union-attr]
