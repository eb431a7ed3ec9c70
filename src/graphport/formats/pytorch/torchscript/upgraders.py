"""Operator upgraders: convert calls in older files to the current operators with the old semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.pytorch.torchscript.values import RuntimeScalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.formats.pytorch.torchscript.context import Calls

Call = tuple[str, list[Any], dict[str, Any]]


def _is_integer(ops: Calls, value: Any) -> bool:
    if isinstance(value, Tensor):
        return not ops.emitter.dtype(value).is_floating
    return isinstance(value, int) or (isinstance(value, RuntimeScalar) and value.kind != "float")


def _div(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Call | None:
    """Upgrade `div` of a file before version 4: the quotient of integers is truncated."""
    if len(given) == 2 and not named and all(_is_integer(ops, x) for x in given):
        return name, given, {"rounding_mode": "trunc"}
    return None


def _full(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Call | None:
    """Upgrade `full` of a file before version 5: an integer fill value without dtype creates floats."""
    del ops
    if named.get("dtype") is None and len(given) == 2 and isinstance(given[1], int):
        return name, given, named | {"dtype": 6}
    return None


def _spaced(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Call | None:
    """Upgrade `linspace` and `logspace`: the default of `steps` is 100."""
    del ops
    if len(given) == 2:
        return name, [*given, 100], named
    if len(given) >= 3 and given[2] is None:
        return name, [*given[:2], 100, *given[3:]], named
    return None


_UPGRADERS: Mapping[str, tuple[int, Callable[..., Call | None]]] = {
    "div": (4, _div),
    "div_": (4, _div),
    "true_divide": (0, _div),
    "full": (5, _full),
    "linspace": (8, _spaced),
    "logspace": (9, _spaced),
}


def upgraded(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Call | None:
    """Return an old call as a call of the current operator with equal semantics; `None` if no upgrade applies."""
    until, upgrade = _UPGRADERS.get(name, (0, None))
    return None if upgrade is None or ops.version >= until else upgrade(ops, name, given, named)
