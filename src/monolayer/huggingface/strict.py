"""Read JSON strictly, so that every parser reads it in the same way, and compare values together with their types.

`1`, `1.0` and `true` are three different values here. Python reads NaN, a key given twice, half of a surrogate pair and
a byte-order mark; the parser of `tokenizers` refuses them or reads them differently.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from monolayer.data.objects import JsonObject
from monolayer.errors import ModelFileError


class ForeignError(Exception):
    """A file of a folder says something else than what `memorize_as` writes; the message says what."""


DEEPEST = 32
"""The most levels of nested lists and objects. Parsers have limits, and transformers copies by recursion."""


def read_json(path: Path, content: bytes) -> JsonObject:
    """The object in a JSON file with these bytes; text that parsers read in different ways is a `ForeignError`.

    `path` names the file in errors.
    """
    name = path.name

    def refuse(what: str) -> NoReturn:
        raise ForeignError(f"{name} {what}")

    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        """A JSON object as a dict; a key that occurs twice is refused."""
        values = dict(pairs)
        if len(values) < len(pairs):
            often = Counter(key for key, _ in pairs)
            refuse(f"has the key {often.most_common(1)[0][0]!r} twice")
        return values

    def whole(digits: str) -> int:
        if digits == "-0":
            refuse("has the number -0, which is whole for some parsers only")
        return int(digits)

    def constant(word: str) -> NoReturn:
        refuse(f"has the number {word}, which is not JSON")

    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=table, parse_int=whole, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        refuse("has half of a surrogate pair in a string")
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} does not hold a JSON object")
    if _depth(value, DEEPEST) > DEEPEST:
        refuse(f"is nested more than {DEEPEST} levels deep")
    return value


def demand_equal(name: str, found: object, wanted: object) -> None:
    """Raise a `ForeignError` if `found` differs from `wanted` in a value or a type.

    It names the file `name` and the path of the first key that differs.
    """
    if repr(found) != repr(wanted) and (difference := _difference(found, wanted, "")):
        raise ForeignError(f"{name} says {difference}")


def equal(one: object, two: object) -> bool:
    """Whether two values are the same, types and all; the order of keys does not count."""
    return repr(one) == repr(two) or _difference(one, two, "") is None


def value_under(name: str, value: object, *keys: str) -> Any:
    """The value under these nested keys in the file `name`; a `ForeignError` if one of them is missing."""
    for number, key in enumerate(keys):
        if not isinstance(value, dict) or key not in value:
            raise ForeignError(f"{name} does not say {'.'.join(keys[: number + 1])}")
        value = value[key]
    return value


def _difference(read: Any, wanted: Any, at: str) -> str | None:
    """The first difference below the path `at`, in words; None if there is none."""
    if type(read) is not type(wanted) or type(read) not in (dict, list):
        alike = type(read) is type(wanted) and repr(read) == repr(wanted)  # -0.0 is not 0.0
        return None if alike else f"{at} = {reprlib.repr(read)}; the proofs need {reprlib.repr(wanted)}"
    if type(read) is list:
        read, wanted = dict(enumerate(read)), dict(enumerate(wanted))
    for key in {**read, **wanted}:
        here = _path(at, key)
        if key not in wanted:
            return f"{here} = {reprlib.repr(read[key])}, which the proofs do not allow for"
        if key not in read:
            return f"nothing of {here}; the proofs need {reprlib.repr(wanted[key])}"
        if inner := _difference(read[key], wanted[key], here):
            return inner
    return None


def _path(at: str, key: str | int) -> str:
    """The path of a key below the path `at`, such as 'model.vocab' or 'layers[0]'."""
    if isinstance(key, int) or not key.replace("_", "a").isalnum():
        return f"{at}[{reprlib.repr(key)}]"
    return f"{at}.{key}" if at else key


def _depth(value: object, most: int) -> int:
    """The number of levels of nesting, counted no further than one beyond `most`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None or most < 0:
        return 0
    return 1 + max((_depth(one, most - 1) for one in inner), default=0)
