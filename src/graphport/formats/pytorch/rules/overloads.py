"""Op types of exported programs with overloads (`aten.add.Tensor`): registration, views and fallbacks.

Most of them equal PNNX's `aten::add` with equal arguments; an op type without a rule uses the rule of PNNX. If
overloads differ in semantics or argument names, a rule for the overload, or for all overloads of the name, is
registered here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from graphport.formats.pytorch.rules.binding import BY_POSITION, COMPLEX, EXPORTED, LEFT, Function, bound
from graphport.formats.pytorch.rules.binding import DIALECT as PNNX
from graphport.formats.pytorch.rules.rule_table import FUNCTIONS
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import FALLBACKS, IMPORT_RULES, UnsupportedError, lower
from graphport.ops.lowering.table import RuleTable

DIALECT = EXPORTED
_SPACE = "aten."
_WITHOUT_MEANING = ("device", "layout", "pin_memory", "non_blocking", "memory_format", "generator")
"""Arguments for device and memory layout, which a graph does not represent."""
_DENSE = "strided"

Kind = Literal["same", "slice", "reshape", "undo", "cat", "stack", "never"]
Doubt = Literal["layout", "contiguous", "cast", "training"]

Inverse = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class View:
    """An op type whose results are views of the first operand.

    `kind` is how a write into a result is applied to the operand: replace it (`same`), write with the op type `op_type`
    (`slice`), reshape (`reshape`), apply the inverse op type `op_type` with the arguments from `inverse` (`undo`),
    concatenate or stack all results (`cat`, `stack`), or unsupported (`never`).
    """

    kind: Kind
    op_type: str | None = None
    inverse: Inverse | None = None
    doubt: Doubt | None = None
    """The condition for a view instead of a copy: layout, contiguity, unchanged element type, or inference mode."""


VIEWS: dict[str, View] = {}
"""Views by op type without overload."""
FUNCTIONAL: dict[str, str] = {}
"""Functional op types of in-place op types whose name is not the functional name with an underscore."""


def aten(*words: str, ignores: Sequence[str] = (), by_position: bool = True) -> Callable[[Function], Function]:
    """Register an import rule for op types: `aten.max.dim`, or `aten.max` for all overloads without a rule.

    The function receives the arguments by PyTorch's parameter names: tensors as `Value`, scalars as Python numbers.
    With `by_position`, its parameters are PyTorch's first ones in order, and the rule also applies to PNNX's
    `aten::max`, whose operands are unnamed.

    Args:
        words: the op types.
        ignores: arguments without effect, which the function does not receive.
        by_position: see above.
    """

    def register(function: Function) -> Function:
        for op_type in words:
            rule = _WithoutLayout(bound(op_type, function, ignores))
            lower(DIALECT, op_type)(rule)
            if by_position and op_type.startswith(_SPACE) and base_of(op_type) == op_type:
                BY_POSITION[op_type.removeprefix(_SPACE)] = rule
        return function

    return register


def _aliased(*words: str) -> Callable[[Function], Function]:
    """Register op types that PNNX has under other names with equal arguments."""

    def register(rule: Function) -> Function:
        for op_type in words:
            lower(DIALECT, op_type)(_WithoutLayout(rule))
            if base_of(op_type) == op_type:
                BY_POSITION[op_type.removeprefix(_SPACE)] = rule
        return rule

    return register


RULES = RuleTable(DIALECT, FUNCTIONS, other=PNNX, register=aten, register_alias=_aliased)


def view(
    *words: str, kind: Kind, op_type: str | None = None, inverse: Inverse | None = None, doubt: Doubt | None = None
) -> None:
    """Declare op types whose results are views of the first operand; the arguments are the fields of `View`."""
    for name in words:
        VIEWS[name] = View(kind, op_type, inverse, doubt)


@dataclass(frozen=True, slots=True)
class _WithoutLayout:
    """A rule without the arguments for device and memory layout."""

    rule: Callable[..., Any]

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.rule

    def __call__(self, b: Builder, /, *operands: Value | None, **attributes: Any) -> Any:
        if attributes.get("layout", _DENSE) not in (_DENSE, None):
            message = f"unsupported tensor layout {attributes['layout']}, expected strided"
            raise UnsupportedError(message)
        kept = {name: value for name, value in attributes.items() if name not in _WITHOUT_MEANING}
        return self.rule(b, *operands, **kept)


def without_layout(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return `rule` without the arguments for device and memory layout."""
    return _WithoutLayout(rule)


def base_of(op_type: str) -> str:
    """Return an op type without its overload: `aten.add` for `aten.add.Tensor`, `aten.add_` for `aten.add_.Tensor`."""
    parts = op_type.split(".")
    return ".".join(parts[:2])


def writes_first_operand(op_type: str) -> bool:
    """Whether an op type writes into its first operand."""
    base = base_of(op_type)
    return (base.startswith(_SPACE) and base.endswith("_") and not base.endswith("__")) or base in FUNCTIONAL


def functional(op_type: str) -> str:
    """Return the functional op type of an in-place op type."""
    base = base_of(op_type)
    own = FUNCTIONAL.get(base, base.removesuffix("_"))
    return own + op_type[len(base) :]


_COPY = "_copy"


@cache
def _fallback(op_type: str) -> Callable[..., Any] | None:
    """Return the fallback rule of an op type: of the name without overload, of its functional form, or of PNNX."""
    prefix = COMPLEX if op_type.startswith(COMPLEX) else ""
    bare = op_type.removeprefix(COMPLEX)
    base = base_of(bare)
    name = base.removeprefix(_SPACE)
    own = (DIALECT, f"{prefix}{base}") in IMPORT_RULES or registry.lowering(PNNX, f"{prefix}{LEFT}{name}") is not None
    if base.endswith(_COPY) and not own:
        # `view_copy` computes the elements of the view.
        return registry.lowering(DIALECT, f"{prefix}{base.removesuffix(_COPY)}{bare[len(base) :]}")
    if base != bare and (rule := registry.lowering(DIALECT, f"{prefix}{base}")) is not None:
        return rule
    if writes_first_operand(bare):
        return registry.lowering(DIALECT, f"{prefix}{functional(bare)}")
    if base != bare or not base.startswith(_SPACE):
        return None
    rule = registry.lowering(PNNX, f"{prefix}{LEFT}{name}")
    return None if rule is None else _WithoutLayout(rule)


FALLBACKS[DIALECT] = _fallback
