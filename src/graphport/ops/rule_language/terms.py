"""The expression after the arrow of a row, compiled to a function: nested operators, bindings, arithmetic and guards.

Mul(d := Sub(x, y), d)          operators by their ONNX names; a name is bound at its first occurrence
Clip(x, 0, max=2 * scale)       a number is a constant of the operand's dtype, or an attribute
cast(floating(x), int64)        lower case: a function of the dialect or one of `FUNCTIONS`; a dtype
Concat(*inputs, axis=-1)        all remaining operands
(Sin(x), Cos(x))                several results
a, b = Split(x, [1, 1], axis=0) names for several results, before the guard

The text is not executed as Python: the syntax tree is walked, and an unsupported node raises `RowError` with its
position.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, Unknown
from graphport.ir.graph import Value
from graphport.ops.declare import OP_DEFS, ShapeError, UnsupportedError
from graphport.ops.pattern import constant_numbers
from graphport.ops.rule_language.text import RuleError
from graphport.ops.types import INDICES

if TYPE_CHECKING:
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Keyword, OpDef
    from graphport.ops.rule_language.text import ParsedRule

Names: TypeAlias = "dict[str, Any]"
Term: TypeAlias = "Callable[[Builder, Names], Any]"
Function: TypeAlias = Callable[..., Any]
"""The type of a row function: `(builder, *arguments)`."""
Words: TypeAlias = Callable[[str], "Callable[[Builder, bool, list[Any], dict[str, Any]], Any] | None"]
"""Emits an op type from operands and attributes, as a final or an intermediate node; `None` for an unknown op type."""


def constant_scalar(value: Any) -> Any:
    """Return the number in a constant tensor; return anything else unchanged.

    Raises:
        UnsupportedError: the value is not constant.
    """
    if not isinstance(value, Value):
        return value
    found = constant_numbers(value)
    if found is None or len(found) != 1:
        message = f"{value.name} is computed, and a number is needed"
        raise UnsupportedError(message)
    return found[0]


def _arithmetic(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Return the result of an arithmetic or comparison operator.

    Raises:
        ShapeError: the result does not exist: division by zero, overflow, or a list instead of a number.
    """
    try:
        return function(x, y)
    except (ArithmeticError, TypeError, ValueError) as error:
        message = f"no number is computed of {x!r:.40} and {y!r:.40}: {error}"
        raise ShapeError(message) from error


def float_scalar(value: Any) -> Any:
    """As `number`, converted to float; `None` is returned unchanged."""
    found = constant_scalar(value)
    if found is not None and not isinstance(found, bool | int | float):
        message = f"{found!r} is no number"
        raise ShapeError(message)
    return found if found is None else float(found)


def dtype(b: Builder, x: Value) -> DType:
    """Return the dtype of a tensor; raises `Unknown` if it is not known."""
    del b
    found = x.dtype
    if found is None:
        raise Unknown
    return found


def cast(b: Builder, x: Value, to: DType) -> Value:
    """Cast a tensor to a dtype; return it unchanged if it has that dtype."""
    return x if x.dtype is to else b(OP_DEFS["Cast"], x, to=to)


def rank(b: Builder, x: Value) -> int:
    """Return the rank; raises `Unknown` if it is not known."""
    return len(b.dims(x))


def axis(b: Builder, place: Any, x: Value) -> int:
    """Return an axis of `x` normalized to [0, rank).

    Raises:
        ShapeError: it is outside of [-rank, rank).
    """
    count, found = max(rank(b, x), 1), int(constant_scalar(place))
    if not -count <= found < count:
        message = f"axis {found} is outside of a tensor of rank {rank(b, x)}"
        raise ShapeError(message)
    return found % count


def like(b: Builder, x: Value, data: Any) -> Value:
    """Return a constant of the dtype of `x`."""
    return b.like(x, constant_scalar(data))


def const(b: Builder, x: Value) -> Any:
    """Return the elements of a constant.

    Raises:
        UnsupportedError: the value is not constant.
    """
    del b
    found = constant_numbers(x)
    if found is None:
        message = f"{x.name} is computed, and must be a constant"
        raise UnsupportedError(message)
    return found if isinstance(x.fact, TensorFact) and x.fact.shape != () else found[0]


def unsupported(b: Builder, message: str) -> Any:
    """Refuse a form of an op type, with the reason."""
    del b
    raise UnsupportedError(message)


def is_floating(b: Builder, x: Value) -> bool:
    """Whether the dtype is a floating-point type."""
    return dtype(b, x).is_floating


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "axis": axis,
        "cast": cast,
        "const": const,
        "dtype": dtype,
        "index": lambda b, place: b.constant(np.array(constant_scalar(place), np.int64)),
        "is_floating": is_floating,
        "like": like,
        "math.log": lambda _b, x: math.log(constant_scalar(x)),
        "math.sqrt": lambda _b, x: math.sqrt(constant_scalar(x)),
        "rank": rank,
        "unsupported": unsupported,
    }
)
"""The functions that rows of every dialect may call."""

_CONSTANTS = MappingProxyType({"math.inf": math.inf, "math.pi": math.pi})
_TYPES = MappingProxyType({each.text: each for each in DType})
_BINARY: Mapping[type[ast.AST], Function] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
    }
)
_COMPARED: Mapping[type[ast.AST], Function] = MappingProxyType(
    {
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Is: operator.is_,
        ast.IsNot: operator.is_not,
        ast.In: lambda x, many: x in many,
        ast.NotIn: lambda x, many: x not in many,
    }
)


_KEYWORDS = re.compile(r"(^|[(,=]\s*)(and|or)(?=\()")


def _in_python(text: str) -> str:
    """Replace `::` in names by characters that Python parses; the length of the text does not change."""
    return _KEYWORDS.sub(lambda found: found[1] + found[2].upper(), text.replace("::", "__"))


@dataclass(slots=True)
class TermCompiler:
    """Compiles the expressions of one row and checks them against the operator definitions.

    `words` emits op types of a dialect in addition to canonical operators; `None` permits canonical operators only.
    """

    row: ParsedRule
    names: set[str]
    functions: Mapping[str, Function]
    words: Words | None = None
    has_operators: bool = True
    """Whether operator names denote canonical operators; false for dialects whose op types have the same names."""
    begin: int = 0
    text: str = ""
    used: set[str] = field(default_factory=set[str])
    operators: list[str] = field(default_factory=list[str])
    """The operators and op types that the row names."""

    def term(self, place: tuple[int, str], *, is_last: bool = False) -> Term:
        """Compile the expression at a position of the row.

        Raises:
            RowError: it is malformed or does not match the operators that it names.
        """
        self.begin, self.text = place
        try:
            tree = ast.parse(_in_python(self.text), mode="eval").body
        except (SyntaxError, ValueError) as error:
            at = self.begin + max((getattr(error, "offset", None) or 1) - 1, 0)
            raise RuleError(self.row.text, "the expression is not valid Python syntax", at) from error
        if is_last and isinstance(tree, ast.Tuple):
            return self._results(tree)
        return self._term(tree, is_last=is_last)

    def binding(self, place: tuple[int, str]) -> Term:
        """Compile an assignment of one or several names: `x, y = promoted(input, other)`.

        Raises:
            RowError: it is malformed or does not match the operators that it names.
        """
        self.begin, self.text = place
        try:
            (tree,) = ast.parse(_in_python(self.text)).body
        except (SyntaxError, ValueError) as error:
            raise RuleError(self.row.text, "the binding is not valid Python syntax", self.begin) from error
        match tree:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._bound(name, self._term(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                names = [each.id for each in targets if isinstance(each, ast.Name)]
                if len(names) == len(targets):
                    return self._all_bound(names, self._call(value, count=len(names)))
            case _:
                pass
        raise RuleError(self.row.text, "expected a binding: `name = expression` or `name, name = call(…)`", self.begin)

    def _all_bound(self, names: Sequence[str], values: Term) -> Term:
        self.names.update(names)

        def bound(b: Builder, stated: Names) -> Any:
            found = values(b, stated)
            stated.update(zip(names, found, strict=True))
            return found

        return bound

    def _fault(self, node: ast.expr, message: str) -> RuleError:
        return RuleError(self.row.text, message, self.begin + node.col_offset)

    def _results(self, tree: ast.Tuple) -> Term:
        parts = [self._term(each) for each in tree.elts]
        return lambda b, names: tuple(part(b, names) for part in parts)

    def _term(self, node: ast.expr, *, is_last: bool = False) -> Term:
        match node:
            case ast.Constant(value=value):
                return lambda _b, _names: value
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                return self._bound(name, self._term(value))
            case ast.Call():
                return self._call(node, is_last=is_last)
            case ast.IfExp():
                test = self._term(node.test)
                then, other = (self._term(each, is_last=is_last) for each in (node.body, node.orelse))
                return lambda b, names: (then if constant_scalar(test(b, names)) else other)(b, names)
            case ast.Tuple() | ast.List():
                items = [self._term(each) for each in node.elts]
                return lambda b, names: tuple(constant_scalar(item(b, names)) for item in items)
            case _:
                return self._arithmetic_term(node)

    def _name(self, node: ast.expr, name: str) -> Term:
        if name in self.names:
            self.used.add(name)
            return lambda _b, names: names[name]
        found = _TYPES.get(name)
        if found is None:
            known = ", ".join(sorted(self.names)) or "none"
            raise self._fault(node, f"{name} is not defined in the row; defined: {known}")
        return lambda _b, _names: found

    def _bound(self, name: str, value: Term) -> Term:
        self.names.add(name)
        self.used.add(name)

        def bound(b: Builder, names: Names) -> Any:
            found = names[name] = value(b, names)
            return found

        return bound

    def _arithmetic_term(self, node: ast.expr) -> Term:
        """Compile arithmetic and comparisons of Python values."""
        match node:
            case ast.Attribute() if (text := ast.unparse(node)) in _CONSTANTS:
                constant = _CONSTANTS[text]
                return lambda _b, _names: constant
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                term = self._term(inner)
                return lambda b, names: -constant_scalar(term(b, names))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                term = self._term(inner)
                return lambda b, names: not constant_scalar(term(b, names))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                function, x, y = _BINARY[type(op)], self._term(left), self._term(right)
                return lambda b, names: _arithmetic(
                    function, constant_scalar(x(b, names)), constant_scalar(y(b, names))
                )
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
                return self._compared(type(op), self._term(left), self._term(right))
            case ast.BoolOp(op=op, values=values):
                parts, decided = [self._term(each) for each in values], isinstance(op, ast.Or)
                holds = any if decided else all
                return lambda b, names: holds(bool(constant_scalar(part(b, names))) for part in parts)
            case _:
                raise self._fault(node, f"{ast.unparse(node)} is not supported in a row")

    def _compared(self, op: type[ast.AST], x: Term, y: Term) -> Term:
        function = _COMPARED[op]
        if op in (ast.Is, ast.IsNot):
            return lambda b, names: function(x(b, names), y(b, names))
        return lambda b, names: _arithmetic(function, constant_scalar(x(b, names)), constant_scalar(y(b, names)))

    def _call(self, node: ast.expr, *, is_last: bool = False, count: int | None = None) -> Term:
        """Compile a call that has `count` results; `None` means the number of results of the node."""
        if not isinstance(node, ast.Call):
            raise self._fault(node, "several names require a call on the right-hand side")
        name = self.text[node.func.col_offset : node.func.end_col_offset]
        operands = [self._operand(each) for each in node.args]
        attributes = {each.arg: self._term(each.value) for each in node.keywords if each.arg is not None}
        if len(attributes) < len(node.keywords):
            raise self._fault(node, "`**` is not supported: pass attributes by name")
        if name in OP_DEFS and self.has_operators:
            self.operators.append(name)
            return self._op_def(node, OP_DEFS[name], operands, attributes, is_last=is_last, wanted=count)
        function = self.functions.get(name) or FUNCTIONS.get(name)
        if function is not None:
            return lambda b, names: function(b, *_flat(operands, b, names), **_named(attributes, b, names))
        op_type = None if self.words is None else self.words(name)
        if op_type is None:
            raise self._fault(node, f"{name} is neither an operator, an op type, nor a function of the table")
        self.operators.append(name)
        return lambda b, names: op_type(b, is_last, _flat(operands, b, names), _named(attributes, b, names))

    def _check_numbers(self, node: ast.Call, op_def: OpDef) -> None:
        """Check that literals can get their dtype from a tensor operand of equal type variable."""
        operands = [(each, op_def.signature.operand(place)) for place, each in enumerate(node.args)]
        variables = {
            own.types.name for each, own in operands if own and own.types and not isinstance(each, ast.Constant)
        }
        for each, own in operands:
            if not isinstance(each, ast.Constant) or each.value is None or own is None or own.types is None:
                continue
            if own.types.name not in variables and len(own.types.dtypes) > 1 and not own.types.dtypes <= INDICES:
                raise self._fault(each, f"the dtype of {each.value} is ambiguous, write like(x, {each.value})")

    def _operand(self, node: ast.expr) -> tuple[bool, Term]:
        if isinstance(node, ast.Starred):
            return True, self._term(node.value)
        return False, self._term(node)

    def _op_def(
        self,
        node: ast.Call,
        op_def: OpDef,
        operands: list[tuple[bool, Term]],
        attributes: dict[str, Term],
        *,
        is_last: bool,
        wanted: int | None,
    ) -> Term:
        signature = op_def.signature
        if any(is_run for is_run, _ in operands[:-1]):
            raise self._fault(node, "a starred operand must be the last one")
        is_run = bool(operands) and operands[-1][0]
        if not is_run and not signature.least <= len(operands):
            raise self._fault(node, f"{op_def.name} has {len(operands)} operands, expected at least {signature.least}")
        if signature.variadic is None and len(operands) > len(signature.operands):
            at = node.args[len(signature.operands)]
            raise self._fault(
                at, f"{op_def.name} has {len(operands)} operands, expected at most {len(signature.operands)}"
            )
        self._check_numbers(node, op_def)
        for each in node.keywords:
            if each.arg not in signature.keywords:
                known = ", ".join(signature.keywords) or "none"
                raise self._fault(each.value, f"{op_def.name} has no attribute {each.arg}; attributes: {known}")
        missing = [key for key, each in signature.keywords.items() if each.is_required and key not in attributes]
        if missing:
            raise self._fault(node, f"{op_def.name} lacks the required attributes {', '.join(missing)}")
        stated = {key: (signature.keywords[key], term) for key, term in attributes.items()}
        gives_all = is_last and (len(op_def.outputs) > 1 or op_def.is_variadic_output)
        if wanted is not None and not op_def.is_variadic_output and wanted > len(op_def.outputs):
            raise self._fault(node, f"{wanted} names for {op_def.name}, expected at most {len(op_def.outputs)}")

        def compute(b: Builder, names: Names) -> Any:
            given = _flat(operands, b, names)
            named = {key: _attribute(b, term(b, names), keyword) for key, (keyword, term) in stated.items()}
            if wanted is not None:
                return b.results(op_def, wanted, *given, **named)
            if not gives_all:
                return b(op_def, *given, **named)
            count = b.count if op_def.is_variadic_output else min(b.count, len(op_def.outputs))
            return b.results(op_def, count, *given, **named)

        return compute


def _named(attributes: Mapping[str, Term], b: Builder, names: Names) -> dict[str, Any]:
    return {key: term(b, names) for key, term in attributes.items()}


def _flat(operands: Sequence[tuple[bool, Term]], b: Builder, names: Names) -> list[Any]:
    found: list[Any] = []
    for is_run, term in operands:
        value = term(b, names)
        if is_run:
            found += value
        else:
            found.append(value)
    return found


def _attribute(b: Builder, value: Any, keyword: Keyword) -> Any:
    """Compile an attribute: the elements of a constant, converted to the declared type."""
    if isinstance(value, Value):
        value = const(b, value)
    if value is None:
        return value
    if keyword.annotation is float:
        return float_scalar(value)
    return int(value) if keyword.annotation is int and isinstance(value, bool) else value
