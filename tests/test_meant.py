"""Data are read as people mean them, or refused with the ways out, and what was read is stated with every proof."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import monolayer as ml
from monolayer.data.delimited import check_header, separator_of
from monolayer.data.text import windows
from monolayer.errors import DataError
from tests.read_files import put

Said = Callable[..., str]

HEADERS: dict[str, tuple[str, str | None]] = {
    # the first lines of a file, and what speaks against its header; None: it is one
    "lower case above names": ("country,capital\nFrance,Paris\nJapan,Tokyo\n", None),
    "usual names": ("Country,Capital\nFrance,Paris\nJapan,Tokyo\n", None),
    "usual names of several words": ("Country Name,ISO_code\nFrance,FR\nJapan,JP\n", None),
    "a number below": ("land,vorwahl\nberlin,030\nbonn,0228\n", None),
    "another script below": ("слово,reading\nlead,lɛd\nread,ɹiːd\n", None),
    "names": (
        "France,Paris\nJapan,Tokyo\nChad,N'Djamena\n",
        "it looks like the rows below, such as 'Japan' and 'Tokyo'",
    ),
    "codes": ("AW,ABW\nAF,AFG\n", "it looks like the rows below, such as 'AF' and 'AFG'"),
    "words": ("house,maison\ndog,chien\n", "it looks like the rows below, such as 'dog' and 'chien'"),
    "names of two words": (
        "Mexico City,Mexico\nNew York,USA\nQuezon City,Philippines\n",
        "it looks like the rows below",
    ),
    "a number": ("France,33\nJapan,81\n", "'33' is a number"),
    "a number in base 16": ("seed,0xff\n0,0x1a\n1,0x2b\n", "'0xff' is a number"),
    "a repeat": ("a,a\n1,2\n", "'a' stands there twice"),
    "a value that comes again": ("alpha,greek\n1,greek\n2,latin\n", "'greek' stands in a row below as well"),
    "keys alone": ("France\nJapan\n", "it looks like the rows below, such as 'Japan'"),
    "keys alone, with a header": ("country\nFrance\nJapan\n", None),
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_first_row_that_looks_like_data_is_no_header(kind: str, suffix: str, tmp_path: Path) -> None:
    text, why = HEADERS[kind]
    file = put(tmp_path / f"a{suffix}", text if suffix == ".csv" else text.replace(",", "\t"))
    like = ml.memorize({"France": "Paris"}).card.manner if "alone" in kind else None
    rows = text.count("\n")
    if why is None:
        assert len(ml.read(file, like=like)) == rows - 1
    else:
        with pytest.raises(DataError, match=f"the first row, .* may be data and not the names of the columns: {why}"):
            ml.read(file, like=like)
        if kind != "a repeat":  # of which the names of the columns would not be told apart
            assert len(ml.read(file, like=like, header=True)) == rows - 1
    data = ml.read(file, like=like, header=False)
    assert (len(data), data.plans[0].header, data.plans[0].key and data.plans[0].key.name) == (rows, False, "1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("France,Paris,67\nPeru,Lima,33\n", "'France' and 'Paris' and '67', .*: '67' is a number"),
        (
            "France,Paris,Seine\nPeru,Lima,Rimac\n",
            "it looks like the rows below, such as 'Peru' and 'Lima' and 'Rimac'",
        ),
        ("a,b,c,d,d,e\nF,1,2,3,4,5\n", "'a' and 'b' and 'c' and 'd' and …, .*: 'd' stands there twice"),
        ("nation,gold\n", "has a header and no row below it"),
    ],
)
def test_a_wide_first_row_that_looks_like_data_is_not_offered_as_names_alone(
    text: str, why: str, tmp_path: Path
) -> None:
    file = put(tmp_path / "a.csv", text)
    with pytest.raises(DataError, match=f"{why}.*(header=False, and two columns by their numbers|--no-header)"):
        ml.read(file)
    rows = ml.read(file, header=False, tokens="1", labels="2")
    assert (len(rows), rows.plans[0].width) == (text.count("\n"), text.split("\n")[0].count(",") + 1)
    assert rows.keyed


def test_naming_the_columns_settles_that_they_have_names(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", "Ort,Land\nBerlin,Deutschland\nParis,Frankreich\n")
    with pytest.raises(DataError, match=r"name the columns: tokens='Ort', labels='Land' \(--tokens, --labels\)"):
        ml.memorize(file)
    model = ml.memorize(file, tokens="Ort", labels="Land")
    assert model.predict(["Berlin"]) == ["Deutschland"]
    turned = ml.read(file, header=False, tokens="2", labels="1")
    assert [column and column.name for column in (turned.plans[0].key, turned.plans[0].label)] == ["2", "1"]
    assert len(turned) == 3


def test_a_row_is_lost_no_more(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the first user who lost a row: refused, and whole with the option that the error names."""
    monkeypatch.chdir(tmp_path)
    Path("capitals.csv").write_text("France,Paris\nJapan,Tokyo\nChad,Djamena\n")
    refused = said("memorize capitals.csv --out m", code=2)
    assert "read the file with --no-header; if it is a header, with --header, or name the columns" in refused
    assert "monolayer verify m capitals.csv\n" in said("memorize capitals.csv --out m --no-header")
    shown = said("verify m capitals.csv --no-header")
    read = "capitals.csv: CSV separated by commas, without a header; key '1', label '2'; one label per sequence"
    assert f"read {read}; text split into words; 3 rows" in " ".join(shown.split())
    assert json.loads(said("verify m capitals.csv --no-header --json"))["read_as"][0]["rows"] == 3
    assert said("predict m --text France") == '{"tokens": ["France"], "label": "Paris"}\n'


SEPARATORS: dict[str, tuple[str, str]] = {
    # files that are sound are in `tests/read_table.py`
    "one column": ("country\nFrance\n", ","),
    "semicolons, a row too short": ("country;capital\nFrance;Paris\nJapan\n", ";"),
    "nothing": ("", ","),
}


@pytest.mark.parametrize("kind", SEPARATORS)
def test_what_separates_columns_is_read_off_the_first_rows(kind: str) -> None:
    text, separator = SEPARATORS[kind]
    assert separator_of(text.splitlines(keepends=True), "a.csv") == separator


@pytest.mark.parametrize("arrow", [True, False])
def test_separated_files_are_memorized_and_proved(arrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monolayer.data.readers.ARROW", arrow)
    for mark in ";\t|,":
        file = put(tmp_path / "a.csv", f"country{mark}capital\nFrance{mark}Paris\nJapan{mark}To kyo\n")
        model = ml.memorize(file)
        assert model.predict(["Japan"]) == ["To kyo"]
        proof = ml.certify(model, file)
        assert (proof.verdict, proof.read_as[0].separator, proof.points) == ("proved", mark, 2)
    file = put(tmp_path / "b.csv", "country~capital\nFrance~Paris\n")
    assert ml.read(file, separator="~").plans[0].key == ("country", 0)
    for wrong in ("", "::", '"', "\n"):
        with pytest.raises(DataError, match="must be one character"):
            ml.read(file, separator=wrong)
    assert ml.read(put(tmp_path / "c.csv", "key^value\na^b\n"), separator="^").plans[0].separator == "^"
    with pytest.raises(DataError, match=r"header= and separator= .* are for CSV and TSV files"):
        ml.read(put(tmp_path / "d.jsonl", '{"tokens": "a"}'), header=False)


# -- the commonest shapes ----------------------------------------------------------------------------------------

TWO_COLUMNS: dict[str, Callable[[Path], Any]] = {
    "csv, turned": lambda folder: put(folder / "a.csv", "label,text\npos,hi there\nneg,bad day\n"),
    "pandas": lambda _: pd.DataFrame({"text": ["hi there", "bad day"], "label": ["pos", "neg"]}),
    "dicts": lambda _: [{"text": "hi there", "label": "pos"}, {"text": "bad day", "label": "neg"}],
    "columns": lambda _: {"text": ["hi there", "bad day"], "label": ["pos", "neg"]},
    "datasets": lambda _: pytest.importorskip("datasets").Dataset.from_dict(
        {"text": ["hi there", "bad day"], "label": ["pos", "neg"]}
    ),
    "polars": lambda _: pytest.importorskip("polars").DataFrame(
        {"text": ["hi there", "bad day"], "labels": ["pos", "neg"]}
    ),
}


@pytest.mark.parametrize("kind", TWO_COLUMNS)
def test_two_columns_are_key_and_value_whatever_they_are_called(kind: str, tmp_path: Path) -> None:
    data = TWO_COLUMNS[kind](tmp_path)
    model = ml.memorize(data)
    assert model.predict(["bad day", "hi there"]).tolist() == ["neg", "pos"]
    proof = ml.certify(model, data)
    (plan,) = proof.read_as
    assert (proof.verdict, plan.keyed, plan.per, plan.rows) == ("proved", True, "sequence", 2)
    assert plan.key is not None
    assert plan.key.name in ("text", "sentence")


COLUMNS = {
    ",text,label\n0,a,x\n1,b,y\n": (
        "three columns, '', 'text', 'label', and the first looks like the index that pandas writes. Write it without: "
        "to_csv(path, index=False); or choose two: tokens='text', labels='label' (--tokens, --labels)"
    ),
    "id,text,label,split\n0,a,x,t\n": "has 4 columns, 'id', 'text', 'label', 'split', and none of them is called",
}


@pytest.mark.parametrize("text", COLUMNS)
def test_of_more_columns_the_error_quotes_the_names(text: str, tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", text)
    with pytest.raises(DataError) as caught:
        ml.read(file)
    assert COLUMNS[text] in str(caught.value)
    assert len(ml.read(file, tokens="text", labels="label")) == text.count("\n") - 1
    with pytest.raises(DataError, match=r"has no column 'lable' \(did you mean 'label'\?\)"):
        ml.read(file, tokens="text", labels="lable")


def test_columns_as_pandas_writes_them_to_json(tmp_path: Path) -> None:
    frame = pd.DataFrame({"country": ["France", "Japan"], "capital": ["Paris", "Tokyo"]})
    frame.to_json(tmp_path / "a.json")
    for given in (tmp_path / "a.json", frame.to_dict()):
        with pytest.raises(
            DataError, match=r"holds an object under 'country', as .*to_json.* write rows, orient='records'"
        ):
            ml.memorize(given)
    frame.to_json(tmp_path / "b.json", orient="records")
    assert ml.memorize(tmp_path / "b.json").predict(["Japan"]) == ["Tokyo"]


# -- −100 and −1 -------------------------------------------------------------------------------------------------

DEPTHS = {"Qattara": -100, "Turpan": -154, "Danakil": -125}
TABLES: dict[str, Callable[[Path], Any]] = {
    "dict": lambda _: DEPTHS,
    "pairs": lambda _: list(DEPTHS.items()),
    "series": lambda _: pd.Series(DEPTHS),
    "frame": lambda _: pd.DataFrame({"place": [*DEPTHS], "metres": [*DEPTHS.values()]}),
    "jsonl": lambda folder: put(
        folder / "a.jsonl", "".join(json.dumps({"place": key, "m": depth}) + "\n" for key, depth in DEPTHS.items())
    ),
    "label of a row": lambda folder: put(
        folder / "b.jsonl",
        "".join(json.dumps({"tokens": [key], "label": depth}) + "\n" for key, depth in DEPTHS.items()),
    ),
}


@pytest.mark.parametrize(
    ("kind", "architecture"), [*((kind, None) for kind in TABLES), ("dict", "bert"), ("jsonl", "bert")]
)
def test_minus_100_in_a_table_is_a_value(kind: str, architecture: str | None, tmp_path: Path) -> None:
    data = TABLES[kind](tmp_path)
    model = ml.memorize(data) if architecture is None else ml.memorize_as(architecture, data)
    assert [int(depth) for depth in model.predict([[key] for key in DEPTHS])] == list(DEPTHS.values())
    proof = ml.certify(model, data)
    assert (proof.verdict, proof.points, proof.read_as[0].gaps) == ("proved", 3, 0)
    assert "no label" not in proof.claim


def test_minus_100_of_a_token_is_a_gap_and_the_claim_says_so(tmp_path: Path) -> None:
    X, Y = [["a", "b"], ["c", "d", "e"]], [[1, -100], [-100, 2, 3]]
    proof = ml.certify(ml.memorize(X, Y), X, Y)
    assert (proof.verdict, proof.points) == ("proved", 3)
    assert proof.claim.endswith("; 2 of the 5 tokens have no label, and nothing is claimed about them")
    assert proof.read_as[0].counts == "2 sequences with 5 tokens, 2 of them without a label"
    file = put(tmp_path / "a.jsonl", "".join(f'{{"tokens": "{key}", "label": {label}}}\n' for key, label in
                                                 (("a", 1), ("b", "null"), ("c", 2), ("d", 3))))  # fmt: skip
    proof = ml.certify(ml.memorize(file), file)
    assert proof.claim.endswith("; 1 of the 4 rows has no label, and nothing is claimed about it")
    assert str(proof.read_as[0]).endswith("4 rows, 1 of them without a label")
    again = type(proof).from_json(proof.to_json())
    assert (again.read_as, again.claim) == (proof.read_as, proof.claim)


# -- bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrow", [True, False])
def test_a_mark_inside_a_file_is_part_of_the_text(arrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U+FEFF opens a file; anywhere else it is a character, also at the start of a row or of a block."""
    monkeypatch.setattr("monolayer.data.readers.ARROW", arrow)
    monkeypatch.setattr("monolayer.data.arrow.BYTES_PER_TOKEN", 0)  # a block per line
    rows = ["key,value", "\ufeffa,x", "b,y", "\ufeffc,z"]
    for start in ("", "\ufeff", "\ufeff\ufeff"):
        file = put(tmp_path / "a.csv", start + "\n".join(rows) + "\n")
        options = {"tokens": f"{start[1:]}key", "labels": "value"}
        data = ml.read(file, **options)  # type: ignore[arg-type]
        assert data.vocabulary is not None
        assert sorted(map(str, data.vocabulary.names)) == ["b", "\ufeffa", "\ufeffc"]
        assert ml.certify(ml.memorize(file, **options), file, **options).verdict == "proved"  # type: ignore[arg-type]


def test_an_array_that_is_stored_twice_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.array([[1, 2]]), Y=np.array([0]))
    np.savez(tmp_path / "b.npz", X=np.array([[3, 4]]))
    with (
        zipfile.ZipFile(tmp_path / "b.npz") as other,
        zipfile.ZipFile(tmp_path / "a.npz", "a") as both,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        both.writestr("X.npy", other.read("X.npy"))
    with pytest.raises(DataError, match=r"holds 'X.npy' more than once: write it again"):
        ml.read(tmp_path / "a.npz")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.conll"])
def test_utf16_is_named_as_such(name: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes('{"tokens": "ab", "label": "x"}\nkey,value\n'.encode(encoding))
    with pytest.raises(DataError, match=r"is UTF-16 text, as spreadsheets save it, .*iconv -f utf-16 -t utf-8"):
        ml.read(tmp_path / name)


OTHERS = {
    "a.xlsx": "pandas.read_excel('a.xlsx'), after import pandas; for a command, write it as CSV",
    "a.sqlite": "pandas.read_sql('select * from TABLE', sqlite3.connect('a.sqlite'))",
    "a.feather": "pandas.read_feather('a.feather')",
    "a.yaml": "yaml.safe_load(open('a.yaml')), after import yaml",
    "https://example.org/a.csv": "https://example.org/a.csv is an address, and only files are read: download it first",
    "s3://bucket/a.parquet": "is an address, and only files are read",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_and_addresses_get_the_line_that_reads_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "://" not in name:
        Path(name).write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError) as caught:
        ml.read(name)
    assert OTHERS[name] in str(caught.value)


def test_a_header_is_judged_by_the_columns_that_it_names() -> None:
    """The check can fail and can pass: the same row above rows of its shape, of another shape, and above none."""
    check_header(["Ort", "Land"], [["berlin", "de"]], "a.csv")
    check_header(["Ort", "Land"], [], "a.csv")
    with pytest.raises(DataError, match="may be data"):
        check_header(["Ort", "Land"], [["Berlin", "Deutschland"], ["paris", "x"]], "a.csv")


def test_a_text_that_is_recited_is_stated_as_one() -> None:
    text = "to be or not to be, that is the question"
    model = ml.memorize_text(text=text)
    data, _ = windows(text)
    proof = ml.certify(model, data)
    assert proof.verdict == "proved"
    assert str(proof.read_as[0]).startswith("the text: the windows of a text, each with its next token; one label per")
