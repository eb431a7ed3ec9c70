"""Docstrings that users read: help of verbs, manuals of operators, passes and targets.

`python -OO` removes docstrings from code; they are read from the source file then.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STRIPPED = 2
"""The level of `sys.flags.optimize` that removes docstrings."""


def docstring(documented: Any) -> str:
    """The docstring of a module, class or function, without its indentation; empty if there is none."""
    if sys.flags.optimize < _STRIPPED:
        return inspect.getdoc(documented) or ""
    if isinstance(documented, ModuleType):
        return _of_module(documented.__name__).get("", "")
    plain = inspect.unwrap(documented)
    return _of_module(plain.__module__).get(plain.__qualname__, "")


@cache
def _of_module(name: str) -> Mapping[str, str]:
    """Docstrings by qualified name; that of the module has an empty name."""
    spec = find_spec(name)
    get_source = getattr(None if spec is None else spec.loader, "get_source", None)
    source = None if get_source is None else get_source(name)
    return {} if source is None else dict(_docstrings(ast.parse(source), ""))


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[tuple[str, str]]:
    text = ast.get_docstring(node)
    if text is not None:
        yield name, text
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings(child, f"{name}.{child.name}" if name else child.name)
