"""Types of arguments of public functions: an object of another type is a diagnostic that names the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral, Real
from os import PathLike
from reprlib import Repr
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from graphport.core.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from collections.abc import Iterator

P = ParamSpec("P")
R = TypeVar("R")

_TYPES: dict[str, type | tuple[type, ...]] = {
    "None": type(None),
    "str": str,
    "int": Integral,
    "float": Real,
    "Path": PathLike,
    "Mapping": Mapping,
    "Shapes": Mapping,
    "Sequence": Iterable,
    "Collection": Iterable,
}
_CLASSES = ("Limits", "Edit")
"""Classes of graphport, which are recognized by name."""
_SHAPES = "Mapping[str, Sequence[int | str]]"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Check the types of the arguments of `function` before each call, as far as `mismatch` knows the annotations.

    Raises:
        DiagnosticError: IO0021 for each argument of another type.
    """
    annotations = {name: str(each) for name, each in function.__annotations__.items() if name != "return"}
    names = tuple(annotations)

    @wraps(function)
    def checked(*args: P.args, **keywords: P.kwargs) -> R:
        positional = zip(names, args, strict=False)
        raise_mismatches(function.__name__, annotations, {**dict(positional), **keywords})
        return function(*args, **keywords)

    return checked


def raise_mismatches(subject: str, annotations: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Report the values that are not of the type of their annotation.

    Raises:
        DiagnosticError: IO0021 for each.
    """
    findings = list(_mismatches(subject, annotations, values))
    if findings:
        raise DiagnosticError(*findings)


def _mismatches(subject: str, annotations: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Diagnostic]:
    for name, value in values.items():
        annotation = annotations.get(name, "Any")
        if not accepts(annotation, value):
            message = f"{subject}: {name} is {_SHORT.repr(value)}, expected {annotation.replace('Shapes', _SHAPES)}"
            yield Diagnostic("IO0021", message, None, "pass a value of that type; help() of the function describes it")


def accepts(annotation: str, value: object) -> bool:
    """Whether `value` is of one of the types of `annotation`; unknown types accept everything.

    A string is no sequence of strings, and an item of a sequence or mapping is not checked.
    """
    return any(_accepts(each.strip(), value) for each in _alternatives(annotation))


def _accepts(alternative: str, value: object) -> bool:
    name = alternative.partition("[")[0]
    if name in _CLASSES:
        return any(each.__name__ == name for each in type(value).__mro__)
    if name in {"Sequence", "Collection"} and isinstance(value, str | bytes):
        return False
    return name not in _TYPES or isinstance(value, _TYPES[name])


def _alternatives(annotation: str) -> Iterator[str]:
    """Split an annotation at `|` outside of brackets."""
    depth = start = 0
    for index, character in enumerate(annotation):
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            yield annotation[start:index]
            start = index + 1
    yield annotation[start:]
