"""Options that belong together: a frozen dataclass whose fields are typer options, checked once and passed on whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is annotated with a dataclass by the fields of that dataclass.

    Typer then shows the fields as options, in the place of the parameter, and the command gets one object of them.
    """
    types = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {
        name: types[name] for name in inspect.signature(command).parameters if is_dataclass(types[name])
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        if name in groups:
            hints = get_type_hints(groups[name], include_extras=True)
            parameters += [
                inspect.Parameter(each.name, kind, default=each.default, annotation=hints[each.name])
                for each in fields(groups[name])
            ]
        else:
            parameters.append(parameter.replace(annotation=types[name], kind=kind))

    @wraps(command)
    def call(**given: Any) -> None:
        whole = {
            name: group(**{each.name: given.pop(each.name) for each in fields(group)}) for name, group in groups.items()
        }
        command(**given, **whole)

    made: Any = call
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
