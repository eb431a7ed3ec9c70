"""Which argument of a call is for which parameter: the rules of invocation."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.syntax import Edition, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.findings import Findings
    from graphport.formats.nnef.container.syntax import Argument, Call

_LONGEST_NAME = 64
_MOST_NAMES = 500
_MOST_PLANS = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """Binding of a call: each argument's parameter index; `positional_attribute` is legal in the provisional edition.

    `absent` are the parameters that take their defaults.
    """

    formals: tuple[int, ...]
    absent: tuple[int, ...]
    positional_attribute: int | None = None


class Binder:
    """Binds the arguments of a document's calls to parameters; calls with equal argument names share a plan."""

    def __init__(self, edition: Edition, findings: Findings) -> None:
        self._edition = edition
        self._findings = findings
        self._plans: dict[tuple[Declaration, tuple[str | None, ...]], Plan | None] = {}

    def plan(self, declaration: Declaration, call: Call) -> Plan | None:
        """Return the binding of `call`; report errors and return `None` if it does not match."""
        names = tuple([argument.name for argument in call.arguments])
        key = declaration, names
        if key not in self._plans:
            self._plans[key] = self._plan(declaration, names)
        plan = self._plans[key]
        if plan is None:
            self._report(declaration, call)
        elif plan.positional_attribute is not None:
            self._positional_attribute(declaration, call.arguments[plan.positional_attribute], plan)
        return plan

    def _plan(self, declaration: Declaration, names: tuple[str | None, ...]) -> Plan | None:
        formals = declaration.formals
        positions = tuple([None if name is None else declaration.index(name) for name in names])
        if len(names) > len(formals) or positions.count(None) > names.count(None):
            return None
        # Standard operations are shared by all documents.
        plan = _standard_plan if declaration.is_standard else _plan
        return plan(declaration, positions, is_lenient=self._is_lenient(declaration))

    def _is_lenient(self, declaration: Declaration) -> bool:
        # The provisional text's own example passes an attribute by position to a fragment that has nothing else.
        return self._edition is Edition.PROVISIONAL and not any(each.takes_tensors for each in declaration.formals)

    def _positional_attribute(self, declaration: Declaration, argument: Argument, plan: Plan) -> None:
        name = declaration.formals[plan.formals[plan.positional_attribute or 0]].name
        message = f"attribute '{name}' of '{declaration.name}' is passed by position"
        self._findings.warn("NNEF0347", message, argument, f"write '{name} = …': only tensors may be positional")

    def _report(self, declaration: Declaration, call: Call) -> None:
        formals, operation = declaration.formals, declaration.name
        given: dict[int, bool] = {}
        has_named = False
        for position, argument in enumerate(call.arguments):
            if argument.name is not None:
                has_named = True
                self._report_named(declaration, argument, given)
            elif has_named:
                message = "a positional argument follows a named argument"
                self._findings.error("NNEF0325", message, argument, "place positional arguments first")
                given |= dict.fromkeys(range(len(formals)), True)  # absent arguments are not reported
            elif position >= len(formals):
                message = f"'{operation}' takes {len(formals)} arguments, got {len(call.arguments)}"
                self._findings.error("NNEF0323", message, argument, _signature(declaration))
                break
            else:
                given[position] = True
                if not formals[position].takes_tensors and not self._is_lenient(declaration):
                    name = formals[position].name
                    message = f"attribute '{name}' of '{operation}' is passed by position"
                    remedy = f"write '{name} = …': only tensors may be positional"
                    self._findings.error("NNEF0329", message, argument, remedy)
        for index, formal in enumerate(formals):
            if formal.default is None and index not in given:
                message = f"missing argument '{formal.name}' of '{operation}'"
                self._findings.error("NNEF0324", message, called_name(call), _signature(declaration))

    def _report_named(self, declaration: Declaration, argument: Argument, given: dict[int, bool]) -> None:
        name = argument.name or ""
        index = declaration.index(name)
        if index is None:
            message = f"unknown parameter '{name}' of '{declaration.name}'"
            names = [formal.name for formal in declaration.formals]
            self._findings.error("NNEF0326", message, argument, suggestion(name, names) or _signature(declaration))
            given |= {i: True for i, formal in enumerate(declaration.formals) if similar(name, [formal.name])}
        elif index not in given:
            given[index] = False
        elif given[index]:
            message = f"'{name}' of '{declaration.name}' is passed both by position and by name"
            self._findings.error("NNEF0328", message, argument, "remove one of both")
        else:
            message = f"'{name}' of '{declaration.name}' is passed twice"
            self._findings.error("NNEF0327", message, argument, "remove one of both")


def _plan(declaration: Declaration, parameters: tuple[int | None, ...], *, is_lenient: bool) -> Plan | None:
    """Return how arguments bind to parameters.

    Args:
        declaration: of the called operation; the call has no more arguments than parameters.
        parameters: index of the parameter of each named argument, `None` for positional ones.
        is_lenient: whether attributes may be positional.
    """
    formals = declaration.formals
    bound: dict[int, None] = {}
    lenient: int | None = None
    has_named = False
    for position, index in enumerate(parameters):
        if index is not None:
            has_named = True
            if index in bound:
                return None
            bound[index] = None
            continue
        if has_named:
            return None
        if not formals[position].takes_tensors:
            if not is_lenient:
                return None
            lenient = position if lenient is None else lenient
        bound[position] = None
    absent = tuple(index for index in range(len(formals)) if index not in bound)
    if any(formals[index].default is None for index in absent):
        return None
    return Plan(tuple(bound), absent, lenient)


_standard_plan = lru_cache(maxsize=_MOST_PLANS)(_plan)


def called_name(call: Call) -> Name:
    """Return the name of the called operation as a node with its location."""
    return Name(call.name, call.start, call.start + len(call.name))


def similar(name: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to `name`, or `None`; a bounded number of names is compared."""
    if len(name) > _LONGEST_NAME:
        return None
    close = [each for each in names if abs(len(each) - len(name)) <= 2 and (each[:1] == name[:1] or len(each) < 9)]
    found = get_close_matches(name, close[:_MOST_NAMES], 1, 0.7)
    return found[0] if found else None


def suggestion(name: str, names: Iterable[str]) -> str | None:
    """Return `did you mean …?` for similar names, else `None`."""
    found = similar(name, names)
    return None if found is None else f"did you mean '{found}'?"


def _signature(declaration: Declaration) -> str:
    shown = (each.name if each.default is None else f"[{each.name}]" for each in declaration.formals)
    return f"{declaration.name}( {', '.join(shown)} )"
