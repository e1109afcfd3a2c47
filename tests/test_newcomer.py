"""What a new user tries, and what the library then does or says: small things, each by its own test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import monolayer as ml

CAPITALS = {"France": "Paris", "Japan": "Tokyo", "Saudi Arabia": "Riyadh", "Brazil": "Brasília"}
PHRASES = (["银行", "行走"], [["yín", "háng"], ["xíng", "zǒu"]])
Said = Callable[..., str]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with `capitals.csv` and a model of it in `model`."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{key},{value}\n" for key, value in CAPITALS.items())
    Path("capitals.csv").write_text(f"country,capital\n{rows}", encoding="utf-8")
    ml.memorize("capitals.csv").save("model")
    return tmp_path


def test_a_string_that_names_no_file_is_called_that(said: Said, table: Path) -> None:
    with pytest.raises(ml.DataError, match=r"X is the string 'abc', and there is no file of that name.*\['abc'\]"):
        ml.memorize("abc", ["x"])
    with pytest.raises(ml.DataError, match=r"capitals\.csv is a data file, which has its own labels"):
        ml.memorize("capitals.csv", ["x"])
    complaint = "there is no file 'Saudi Arabia': check the path. To ask for this text: --text 'Saudi Arabia'"
    assert complaint in said("predict", "model", "Saudi Arabia", code=2)
    assert "Riyadh" in said("predict", "model", "--text", "Saudi Arabia")


def test_forget_takes_one_string_as_predict_does() -> None:
    model = ml.memorize(*PHRASES)
    assert model.predict("行走").tolist() == ["xíng", "zǒu"]
    one, _ = ml.forget(model, "行走", PHRASES)
    same, _ = ml.forget(model, ["行走"], PHRASES)
    assert ml.compare(one, same).same
    stock, _ = ml.forget(ml.memorize_as("bert", CAPITALS), "Saudi Arabia", CAPITALS)
    assert stock.predict("Japan") == "Tokyo"
    with pytest.raises(ml.DataError, match="路"):
        ml.forget(model, "走路", PHRASES)
