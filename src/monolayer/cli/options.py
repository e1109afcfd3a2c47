"""Options that belong together: a frozen dataclass whose fields are typer options, checked once and passed on whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, get_type_hints


class WithOptions:
    """A command in which each parameter that is annotated with a dataclass is replaced by the fields of that dataclass.

    Typer then shows the fields as options, in the place of the parameter, and the command gets one object of them. They
    are listed when typer asks, since most commands are never called.
    """

    def __init__(self, command: Callable[..., None]) -> None:
        self.command = self.__wrapped__ = command
        self.__name__, self.__doc__ = command.__name__, command.__doc__
        self.__annotations__ = {}  # the types are in the signature

    def __call__(self, **given: Any) -> None:
        """Run the command, with an object of each group of options."""
        groups = [name for name, kind in self._types.items() if is_dataclass(kind)]
        whole = {
            name: self._types[name](**{each.name: given.pop(each.name) for each in fields(self._types[name])})
            for name in groups
        }
        self.command(**given, **whole)

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The annotation of each parameter of the command."""
        types = get_type_hints(self.command, include_extras=True)
        return {name: types[name] for name in inspect.signature(self.command).parameters}

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """The parameters of the command, with the options in place of their groups."""
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(self.command).parameters.items():
            kind, annotation = inspect.Parameter.KEYWORD_ONLY, self._types[name]
            if is_dataclass(annotation):
                hints = get_type_hints(annotation, include_extras=True)
                parameters += [
                    inspect.Parameter(each.name, kind, default=each.default, annotation=hints[each.name])
                    for each in fields(annotation)
                ]
            else:
                parameters.append(parameter.replace(annotation=annotation, kind=kind))
        return inspect.Signature(parameters)
