"""Tests for fields of a saved model, and how shapes are written: the vocabulary of the format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from monolayer.data.objects import Config

NameLists = dict[str, list[object]]
"""The contents of `names.json`: strings or whole numbers, by the field of the config that refers to them."""
Test = Callable[[Any], bool]
"""Whether a value from a file will do."""
Check = tuple[Test, str]
"""Whether a value will do, and in words what it must be."""
Rule = tuple[str, Callable[[Config], bool]]
"""A condition on several fields, in words, and whether a config keeps it."""
Shape = tuple[str | int, ...]
"""Sizes: numbers, or letters that must mean the same number in every tensor."""


def one_of(*values: str) -> Check:
    """The check that a value is one of these strings."""
    return (lambda value: type(value) is str and value in values), " or ".join(map(json.dumps, values))


def whole_number(least: int, end: int = 2**48) -> Check:
    """The check that a value is a whole number from `least`, below `end`."""
    return (lambda value: type(value) is int and least <= value < end), f"a whole number from {least}, below {end:,}"


def whole_number_list(value: object) -> bool:
    """Whether it is a list of one or more whole numbers from 0."""
    return type(value) is list and len(value) > 0 and all(whole_number(0)[0](each) for each in value)


BOOLEAN: Check = (lambda value: type(value) is bool), "true or false"
NUMBER: Check = (lambda value: type(value) in (int, float) and abs(value) <= 2.0**1023), "a number of ordinary size"
DOMAIN_END: Check = (lambda value: type(value) in (int, float) and abs(value) <= 2.0**1000), "a number up to 2^1000"
OBJECT: Check = (lambda value: type(value) is dict), "an object"
OBJECT_OR_NULL: Check = (lambda value: value is None or type(value) is dict), "an object or null"
