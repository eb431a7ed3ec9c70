"""Whether a value fits where a type is declared, and what to do where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.container.syntax import (
    Array,
    Edition,
    Expression,
    Number,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.types import (
    ANY,
    INTEGER,
    LOGICAL,
    SCALAR,
    UNKNOWN,
    ArrayOf,
    Primitive,
    TensorOf,
    TupleOf,
    Type,
    castable,
    type_name,
)

if TYPE_CHECKING:
    from graphport.formats.nnef.container.findings import Findings


class TypeChecker:
    """Checker of value types against declared types; mismatches go to `findings`."""

    def __init__(self, edition: Edition, findings: Findings, *, tolerant: bool = False) -> None:
        self.has_misfits = False
        """Whether a tolerant reader let an argument pass whose value must yet be brought into its parameter's form."""
        self._tolerant = tolerant
        self._edition = edition
        self._is_final = edition is Edition.FINAL
        self._findings = findings

    def fit(self, node: Expression, given: Type, wanted: Type, what: str, code: str) -> bool:
        """Whether a value of type `given` matches `wanted`, the type of `what`; report a mismatch."""
        if castable(given, wanted):
            return True
        if _is_integers_for_scalars(node, given, wanted):
            message = f"{what} is {self._type_name(wanted)}, and {_shown(node)} is {self._type_name(given)}"
            remedy = f"write '{_as_scalar(node)}'" if isinstance(node, Number | Unary) else "write 2.0 instead of 2"
            if self._is_final:
                self._findings.error("NNEF0402", message, node, remedy)
            else:
                self._findings.warn("NNEF0402", message, node, remedy)
            return not self._is_final
        message = f"{what} is {self._type_name(wanted)}, not {self._type_name(given)}"
        self._findings.error(code, message, node, _remedy(node, given, wanted))
        return False

    def argument(self, node: Expression, given: Type, wanted: Type, what: str) -> None:
        """Check an argument; forms that other tools are known to write are accepted if tolerant."""
        if not (self._tolerant and _is_misfit(node, given, wanted)):
            self.fit(node, given, wanted, what, "NNEF0401")
            return
        self.has_misfits = True
        message = f"{what} is {self._type_name(wanted)}, not {self._type_name(given)}"
        self._findings.warn("NNEF0401", message, node, _remedy(node, given, wanted))

    def _type_name(self, of: Type) -> str:
        return type_name(of, self._edition)


def _is_integers_for_scalars(node: Expression, given: Type, wanted: Type) -> bool:
    """Whether `node` consists of integer literals where scalars are required."""
    match given, wanted:
        case Primitive(), Primitive() if wanted is SCALAR and given is INTEGER:
            return isinstance(node, Number) or (isinstance(node, Unary) and isinstance(node.operand, Number))
        case ArrayOf(Primitive() | ArrayOf() | TupleOf() as item), ArrayOf(Primitive() | ArrayOf() | TupleOf() as into):
            return isinstance(node, Array) and all(
                castable(item, into) or _is_integers_for_scalars(each, item, into) for each in node.items
            )
        case TupleOf(), TupleOf() if len(given.items) == len(wanted.items):
            return isinstance(node, Tuple) and all(
                castable(one, other) or _is_integers_for_scalars(each, one, other)
                for each, one, other in zip(node.items, given.items, wanted.items, strict=True)
            )
        case _:
            return False


def _is_misfit(node: Expression, given: Type, wanted: Type) -> bool:
    """Whether an integer is passed for an array of integers, or a tensor or array of one number for a scalar."""
    match given, wanted:
        case Primitive(), ArrayOf(Primitive() as item):
            return given is INTEGER and item is INTEGER
        case TensorOf(), Primitive():
            return wanted is SCALAR and given.item in (SCALAR, ANY)
        case ArrayOf(Primitive() as item), Primitive():
            return wanted is SCALAR and item is SCALAR and isinstance(node, Array) and len(node.items) == 1
        case _:
            return False


def _shown(node: Expression) -> str:
    match node:
        case Number():
            return f"'{node.text}'"
        case Unary(operand=Number() as number):
            return f"'{node.operator}{number.text}'"
        case _:
            return "this"


def _as_scalar(node: Number | Unary) -> str:
    if isinstance(node, Unary):
        return f"{node.operator}{node.operand.text}.0" if isinstance(node.operand, Number) else ""
    return f"{node.text}.0"


def _remedy(node: Expression, given: Type, wanted: Type) -> str | None:
    """Return the remedy for a value of type `given` where `wanted` is required."""
    match given, wanted:
        case Primitive(), TensorOf() if given is INTEGER and wanted.item in (SCALAR, ANY):
            return f"write '{_as_scalar(node)}'" if isinstance(node, Number) else "write scalar(…)"
        case Primitive(), ArrayOf(TupleOf() as item) if isinstance(node, Number):
            return f"write a pair for every axis: [({', '.join([node.text] * len(item.items))}), …]"
        case TupleOf(), ArrayOf() if all(castable(each, wanted.item or UNKNOWN) for each in given.items):
            return "write an array in brackets: […]; parentheses are for tuples"
        case ArrayOf(), TupleOf():
            return "write a tuple in parentheses: (…); brackets are for arrays"
        case Primitive(), ArrayOf() if castable(given, wanted.item or UNKNOWN):
            return "write it as an array: […]"
        case TensorOf(), Primitive():
            return "use a compile-time value: attributes cannot be tensors"
        case TensorOf(), TensorOf() if given.item is LOGICAL and wanted.item is SCALAR:
            return "convert logical values to numbers: select(condition, 1.0, 0.0)"
        case ArrayOf(), Primitive() | TensorOf():
            return "select one item"
        case _:
            return None
