"""The static types of expressions, and every rule that depends on them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.argument_binding import called_name, suggestion
from graphport.formats.nnef.container.call_text import FlatCall
from graphport.formats.nnef.container.calls import NO_INPUT, Calls, Deprecated
from graphport.formats.nnef.container.operators import COPIES, OPERATIONS, PREFIXES
from graphport.formats.nnef.container.syntax import (
    Array,
    Binary,
    Builtin,
    Call,
    Comprehension,
    Edition,
    Expression,
    Logical,
    Missing,
    Name,
    Number,
    Range,
    Select,
    String,
    Subscript,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.trampoline import Steps, run
from graphport.formats.nnef.container.type_checker import TypeChecker
from graphport.formats.nnef.container.types import (
    ANY,
    EMPTY,
    GENERIC,
    INTEGER,
    INTEGERS,
    LOGICAL,
    PRIMITIVES,
    SCALAR,
    STRING,
    UNKNOWN,
    ArrayOf,
    Primitive,
    TensorOf,
    TupleOf,
    Type,
    array_of,
    castable,
    common,
    holds_tensors,
    tuple_of,
    type_name,
    with_generic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.declarations import Operations
    from graphport.formats.nnef.container.findings import Findings
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.scope import Scope

_ARITHMETIC = frozenset("+-*/^")
_ORDER = frozenset(("<", "<=", ">", ">="))
_EQUALITY = frozenset(("==", "!="))
_NUMBERS = frozenset((INTEGER, SCALAR, GENERIC))


class Inference:
    """Infer the types of a document's expressions; errors go to `findings`."""

    def __init__(
        self,
        edition: Edition,
        operations: Operations,
        findings: Findings,
        limits: Limits,
        *,
        tolerant: bool = False,
    ) -> None:
        self.deprecated = Deprecated()
        self.fitting = TypeChecker(edition, findings, tolerant=tolerant)
        self._edition = edition
        self._is_final = edition is Edition.FINAL
        self._operations = operations
        self._findings = findings
        self._limits = limits
        self._calls = Calls(edition, operations, findings, self.fitting, self.deprecated)
        self._arrays: dict[int, Type] = {}

    def type_of(self, node: Expression, scope: Scope) -> Type:
        """The type of `node`, which may be a call with several results."""
        if isinstance(node, Call):
            known = self.known_type(node, scope) if isinstance(node, FlatCall) else None
            if known is not None:
                return known
            types = [self._operand_type(argument.value, scope) for argument in node.arguments]
            return self._calls.called(node, types, scope)
        return self._operand_type(node, scope, is_operand=False)

    def known_type(self, node: FlatCall, scope: Scope) -> Type | None:
        """The type of a call like one that has been accepted; `None` where it has to be looked at."""
        return self._calls.known_type(node, scope)

    # ── names, literals and flat expressions ──

    def _operand_type(self, node: Expression, scope: Scope, *, is_operand: bool = True) -> Type:
        quick = self._quick(node, scope)
        return quick if quick is not None else run(self._steps(node, scope, is_operand=is_operand))

    def _quick(self, node: Expression, scope: Scope) -> Type | None:
        """Return the type of a flat expression; `None` for other expressions and for errors."""
        match node:
            case Name():
                found = scope.types.get(node.text)
                return found if found is not None else self._undefined(node, scope)
            case Number():
                return INTEGER if node.text.isdigit() else SCALAR
            case Array():
                return self._quick_array(node, scope)
            case String():
                return STRING
            case Logical():
                return LOGICAL
            case Unary(operator="-", operand=Number() as number):
                return self._quick(number, scope)
            case Missing():
                return UNKNOWN
            case _:
                return None

    def _quick_array(self, node: Array, scope: Scope) -> Type | None:
        known = self._arrays.get(id(node.shared))
        if known is not None:
            return known
        has_names = any(isinstance(item, Name) for item in node.shared)
        kinds: list[Type] = []
        for item in node.items if has_names else node.shared:
            if isinstance(item, Array):
                return None
            kind = self._quick_tuple(item, scope) if isinstance(item, Tuple) else self._quick(item, scope)
            if kind is None:
                return None
            kinds.append(kind)
        item_type = _common_of(kinds)
        if item_type is None and kinds:
            return None
        found = UNKNOWN if item_type is UNKNOWN else array_of(item_type)
        if not has_names:
            self._arrays[id(node.shared)] = found
        return found

    def _quick_tuple(self, node: Tuple, scope: Scope) -> Type | None:
        kinds: list[Type] = []
        for item in node.items:
            kind = None if isinstance(item, Name | Array | Tuple) else self._quick(item, scope)
            if kind is None:
                return None
            kinds.append(kind)
        return tuple_of(*kinds)

    def _undefined(self, node: Name, scope: Scope) -> Type:
        later = scope.assigned(node.text)
        if later is not None:
            line = self._findings.source.position(later.start)[0]
            message = f"use of '{node.text}' before its assignment"
            remedy = f"move the assignment in line {line} before this use"
            self._findings.error("NNEF0302", message, node, remedy)
        else:
            message = f"undefined name '{node.text}'"
            remedy = None if self._findings.is_full else _suggest_name(node.text, scope)
            self._findings.error("NNEF0303", message, node, remedy)
        scope.types[node.text] = UNKNOWN
        return UNKNOWN

    # ── nested expressions: each step yields the steps it depends on ──

    def _steps(self, node: Expression, scope: Scope, *, is_operand: bool = True) -> Steps[Type]:
        match node:
            case Array() | Tuple():
                return self._listed(node, scope)
            case Call():
                return self._call(node, scope, is_operand=is_operand)
            case Builtin():
                return self._builtin(node, scope)
            case Unary():
                return self._unary(node, scope)
            case Binary():
                return self._binary(node, scope)
            case Select():
                return self._select(node, scope, is_operand=is_operand)
            case Subscript():
                return self._subscript(node, scope)
            case Range():
                return self._range(node, scope)
            case Comprehension():
                return self._comprehension(node, scope)
            case _:
                return self._leaf(node, scope)

    def _leaf(self, node: Expression, scope: Scope) -> Steps[Type]:
        yield from ()
        return self._quick(node, scope) or UNKNOWN

    def _of(self, node: Expression, scope: Scope, *, is_operand: bool = True) -> Steps[Type]:
        """Return the steps for a subexpression, a single one if it is flat."""
        quick = self._quick(node, scope)
        return self._steps(node, scope, is_operand=is_operand) if quick is None else _finished(quick)

    def _listed(self, node: Array | Tuple, scope: Scope) -> Steps[Type]:
        kinds: list[Type] = []
        for item in node.items:
            kinds += [(yield self._of(item, scope))]
        if any(kind is UNKNOWN for kind in kinds):
            return UNKNOWN
        if isinstance(node, Tuple):
            return self._bounded(tuple_of(*kinds), node)
        if not kinds:
            return EMPTY
        item_type = _common_of(kinds)
        if item_type is not None:
            return self._bounded(array_of(item_type), node)
        first = next(i for i in range(1, len(kinds)) if _common_of(kinds[: i + 1]) is None)
        others = self._type_name(_common_of(kinds[:first]) or UNKNOWN)
        message = f"an array mixes types: an item is {self._type_name(kinds[first])}, expected {others}"
        self._findings.error("NNEF0403", message, node.items[first], "use items of one type")
        return UNKNOWN

    def _bounded(self, found: Type, node: Expression) -> Type:
        if _depth(found) <= self._limits.type_nesting:
            return found
        message = f"values are nested deeper than {self._limits.type_nesting} levels"
        self._findings.error(
            "NNEF0415", message, node, "set GRAPHPORT_LIMITS=nnef.type_nesting=N to raise the limit to N"
        )
        return UNKNOWN

    def _call(self, node: Call, scope: Scope, *, is_operand: bool) -> Steps[Type]:
        types: list[Type] = []
        for argument in node.arguments:
            types += [(yield self._of(argument.value, scope))]
        if node.name == "external" and is_operand and scope.is_graph:
            self._findings.error("NNEF0308", "the result of 'external' is not a graph parameter", node, NO_INPUT)
        result = self._calls.called(node, types, scope)
        if is_operand and self._is_final and isinstance(result, TupleOf):
            message = f"'{node.name}' has {len(result.items)} results, expected one"
            self._findings.error("NNEF0413", message, called_name(node), f"assign them first: a, b = {node.name}(…)")
            return UNKNOWN
        return result

    def _builtin(self, node: Builtin, scope: Scope) -> Steps[Type]:
        operand = yield self._of(node.operand, scope)
        name = "integer" if node.name == "extent" else node.name
        if name == "shape_of":
            self.deprecated.shape_of.append(node)
            is_right, wanted, result = isinstance(operand, TensorOf | Primitive), "a tensor", INTEGERS
        elif name == "length_of":
            is_right, wanted, result = (
                isinstance(operand, ArrayOf) or operand is STRING,
                "an array or a string",
                INTEGER,
            )
        elif name == "range_of":
            is_right, wanted, result = (
                isinstance(operand, ArrayOf) or operand is STRING,
                "an array or a string",
                INTEGERS,
            )
        else:
            is_right, wanted, result = isinstance(operand, Primitive), "a value of primitive type", PRIMITIVES[name]
        if operand is not UNKNOWN and not is_right:
            message = f"'{node.name}' requires {wanted}, got {self._type_name(operand)}"
            remedy = f"use cast<{name}>(…) for tensors" if isinstance(operand, TensorOf) and self._is_final else None
            self._findings.error("NNEF0409", message, node.operand, remedy)
        return result

    def _unary(self, node: Unary, scope: Scope) -> Steps[Type]:
        operand = yield self._of(node.operand, scope)
        if operand is UNKNOWN:
            return UNKNOWN
        if isinstance(operand, TensorOf):
            operation = PREFIXES.get(node.operator, COPIES[self._edition])
            return self._tensor_operator(operation, (node.operand,), (operand,))
        is_right = operand in (LOGICAL, GENERIC) if node.operator == "!" else operand in _NUMBERS
        if not is_right:
            wanted = "a logical value" if node.operator == "!" else "a number"
            message = f"'{node.operator}' requires {wanted}, got {self._type_name(operand)}"
            self._findings.error("NNEF0405", message, node.operand)
            return UNKNOWN
        return operand

    def _binary(self, node: Binary, scope: Scope) -> Steps[Type]:
        left = yield self._of(node.left, scope)
        right = yield self._of(node.right, scope)
        if UNKNOWN in (left, right):
            known = node.operator in _ORDER or node.operator in _EQUALITY
            return LOGICAL if known and left is right is UNKNOWN else UNKNOWN
        if node.operator == "in":
            return self._contained(node, left, right)
        pair = (left, right)
        if any(isinstance(each, TensorOf) for each in pair):
            if all(isinstance(each, TensorOf | Primitive) for each in pair):
                return self._tensor_operator(OPERATIONS[node.operator], (node.left, node.right), pair)
            return self._bad_operands(node, left, right)
        return self._attribute_operator(node, left, right)

    def _contained(self, node: Binary, left: Type, right: Type) -> Type:
        if not isinstance(right, ArrayOf):
            message = f"'in' requires an array, got {self._type_name(right)}"
            self._findings.error("NNEF0414", message, node.right)
        elif holds_tensors(left) or holds_tensors(right):
            self._findings.error("NNEF0414", "'in' requires compile-time values, not tensors", node)
        elif right.item is not None and common(left, right.item) is None:
            message = f"an array of {self._type_name(right.item)} cannot contain {self._type_name(left)}"
            self._findings.error("NNEF0414", message, node)
        return LOGICAL

    def _attribute_operator(self, node: Binary, left: Type, right: Type) -> Type:
        operator = node.operator
        if operator == "+" and isinstance(left, ArrayOf) and isinstance(right, ArrayOf):
            joined = common(left, right)
            if joined is not None:
                return joined
        if operator == "*" and right is INTEGER and (isinstance(left, ArrayOf) or left is STRING):
            return left
        if operator == "+" and left is right is STRING:
            return STRING
        if left is not right or not isinstance(left, Primitive):
            return self._bad_operands(node, left, right)
        if operator in _ARITHMETIC and left in _NUMBERS:
            return left
        is_right = operator in _EQUALITY or (operator in _ORDER and left in _NUMBERS)
        if is_right or (operator in ("&&", "||") and left in (LOGICAL, GENERIC)):
            return LOGICAL
        return self._bad_operands(node, left, right)

    def _bad_operands(self, node: Binary, left: Type, right: Type) -> Type:
        message = f"'{node.operator}' does not accept {self._type_name(left)} and {self._type_name(right)}"
        integer = self._type_name(INTEGER)
        remedy = None
        if {left, right} == {INTEGER, SCALAR}:
            remedy = f"convert {integer} to scalar: write 2.0, or scalar(…)"
        elif node.operator == "+" and ArrayOf in (type(left), type(right)):
            remedy = "concatenate arrays: [a] + [b]"
        elif STRING in (left, right) and node.operator == "+":
            remedy = "convert the value to a string: string(…)"
        self._findings.error("NNEF0405", message, node, remedy)
        return LOGICAL if node.operator in _ORDER or node.operator in _EQUALITY else UNKNOWN

    def _tensor_operator(self, operation: str, operands: Sequence[Expression], types: Sequence[Type]) -> Type:
        """Type an operator on tensors as a call of the corresponding operation."""
        declaration = self._operations.find(operation)
        if declaration is None:
            return UNKNOWN
        chosen = next((each.item for each in types if isinstance(each, TensorOf)), None) or ANY
        for formal, operand, given in zip(declaration.formals, operands, types, strict=True):
            wanted = with_generic(formal.type, chosen)
            if not self.fitting.fit(operand, given, wanted, f"'{formal.name}' of '{operation}'", "NNEF0401"):
                return UNKNOWN
        return with_generic(declaration.result_type, chosen)

    def _select(self, node: Select, scope: Scope, *, is_operand: bool) -> Steps[Type]:
        condition = yield self._of(node.condition, scope)
        yes = yield self._of(node.yes, scope, is_operand=is_operand)
        no = yield self._of(node.no, scope, is_operand=is_operand)
        if not castable(condition, LOGICAL):
            message = f"the condition of 'if' must be logical, got {self._type_name(condition)}"
            remedy = "use select(condition, a, b) for a tensor condition" if isinstance(condition, TensorOf) else None
            self._findings.error("NNEF0408", message, node.condition, remedy)
        found = common(yes, no)
        if found is None:
            message = f"the branches differ in type: {self._type_name(yes)} and {self._type_name(no)}"
            self._findings.error("NNEF0404", message, node, "convert one branch to the type of the other")
            return UNKNOWN
        return found

    def _subscript(self, node: Subscript, scope: Scope) -> Steps[Type]:
        target = yield self._of(node.target, scope)
        index = yield self._of(node.index, scope)
        if isinstance(target, TupleOf):
            return self._tuple_item(node, target)
        if not castable(index, INTEGER):
            message = f"a subscript must be {self._type_name(INTEGER)}, got {self._type_name(index)}"
            self._findings.error("NNEF0406", message, node.index)
        if isinstance(target, ArrayOf):
            return target.item or UNKNOWN
        return self._string_part(node, target)

    def _tuple_item(self, node: Subscript, target: TupleOf) -> Type:
        literal = node.index
        if not isinstance(literal, Number) or not literal.is_integer:
            message = "the subscript of a tuple is not an integer literal"
            remedy = "write an integer literal: items of a tuple differ in type"
            self._findings.error("NNEF0407", message, literal, remedy)
            return UNKNOWN
        index = int(literal.text)
        if index >= len(target.items):
            message = f"index {index} is out of range for a tuple of {len(target.items)} items"
            self._findings.error("NNEF0407", message, literal, f"use an index from 0 to {len(target.items) - 1}")
            return UNKNOWN
        return target.items[index]

    def _string_part(self, node: Subscript | Range, target: Type) -> Type:
        if target in (STRING, UNKNOWN):
            return target
        message = f"a subscript requires an array, tuple or string, got {self._type_name(target)}"
        remedy = "use slice(…) for tensors" if isinstance(target, TensorOf) else None
        self._findings.error("NNEF0406", message, node.target, remedy)
        return UNKNOWN

    def _range(self, node: Range, scope: Scope) -> Steps[Type]:
        target = yield self._of(node.target, scope)
        for end in (node.begin, node.end):
            kind = INTEGER if end is None else (yield self._of(end, scope))
            if end is not None and not castable(kind, INTEGER):
                message = f"a range bound must be {self._type_name(INTEGER)}, got {self._type_name(kind)}"
                self._findings.error("NNEF0406", message, end)
        if isinstance(target, TupleOf):
            self._findings.error("NNEF0407", "a tuple does not support ranges", node, "select single items: t[0], t[1]")
            return UNKNOWN
        return target if isinstance(target, ArrayOf) else self._string_part(node, target)

    def _comprehension(self, node: Comprehension, scope: Scope) -> Steps[Type]:
        hidden: list[tuple[str, Type | None]] = []
        kinds: list[Type] = []
        for loop in node.loops:
            source = yield self._of(loop.source, scope)
            if not isinstance(source, ArrayOf) and source is not UNKNOWN:
                message = f"a comprehension must iterate over an array, got {self._type_name(source)}"
                remedy = "use range_of(s) to iterate over the characters of a string" if source is STRING else None
                self._findings.error("NNEF0412", message, loop.source, remedy)
            kinds.append((source.item or UNKNOWN) if isinstance(source, ArrayOf) else UNKNOWN)
        seen: set[str] = set()
        for loop, kind in zip(node.loops, kinds, strict=True):
            if loop.name.text in seen:
                message = f"duplicate iterator '{loop.name.text}'"
                self._findings.error("NNEF0304", message, loop.name, "rename one iterator")
            seen.add(loop.name.text)
            hidden.append((loop.name.text, scope.types.get(loop.name.text)))
            scope.types[loop.name.text] = kind
        if node.condition is not None:
            condition = yield self._of(node.condition, scope)
            if not castable(condition, LOGICAL):
                message = f"the condition of a comprehension must be logical, got {self._type_name(condition)}"
                self._findings.error("NNEF0408", message, node.condition)
        body = yield self._of(node.body, scope)
        for name, kind in reversed(hidden):
            if kind is None:
                scope.types.pop(name, None)
            else:
                scope.types[name] = kind
        return UNKNOWN if body is UNKNOWN else self._bounded(array_of(body), node)

    def _type_name(self, of: Type) -> str:
        return type_name(of, self._edition)


def _finished(kind: Type) -> Steps[Type]:
    yield from ()
    return kind


def _common_of(kinds: Sequence[Type]) -> Type | None:
    """Return the type to which all types of `kinds` can be cast; `None` if there is none."""
    found: Type | None = None
    for kind in kinds:
        found = kind if found is None else common(found, kind)
        if found is None:
            return None
    return found


@cache
def _depth(of: Type) -> int:
    match of:
        case ArrayOf(item) if item is not None:
            return 1 + _depth(item)
        case TupleOf():
            return 1 + max(map(_depth, of.items))
        case _:
            return 0


def _suggest_name(name: str, scope: Scope) -> str | None:
    """Suggest a defined name for the undefined `name`."""
    if name.lower() in ("true", "false"):
        return f"write the literal '{name.lower()}'"
    return suggestion(name, scope.types)
