"""Makes flat operations of calls whose arguments have values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Dim, Symbol, Symbolic, symbols
from graphport.core.names import unique
from graphport.formats.nnef.container.call_patterns import Patterns
from graphport.formats.nnef.container.evaluation_frame import Abandoned, Frame, Reporter, open_dims
from graphport.formats.nnef.container.operation import Attribute, Operand, Operation, Tensor, tensors
from graphport.formats.nnef.container.syntax import Array, Call, Edition, Expression, Name, Tuple
from graphport.formats.nnef.container.types import GENERIC, SCALAR, ArrayOf, Primitive, TensorOf, TupleOf, Type, casts
from graphport.formats.nnef.container.validity.table import faults
from graphport.formats.nnef.container.variables import Variables

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from graphport.core.facts import TensorFact
    from graphport.formats.nnef.container.budget import Budget
    from graphport.formats.nnef.container.call_text import FlatCall
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.evaluate import Value
    from graphport.formats.nnef.container.syntax import Builtin, Node

Infer: TypeAlias = "Callable[[Operation], Sequence[TensorFact | None]]"
"""Return the facts of an operation's outputs from the `fact` of its inputs and its attributes.

Raises `DiagnosticError` if the operation does not accept them.
"""
Shapes: TypeAlias = "Mapping[str, Sequence[Dim]]"

_OPEN = frozenset(
    [
        ("external", "shape"),
        ("reshape", "shape"),
        ("slice", "begin"),
        ("slice", "end"),
        ("pad", "padding"),
        ("tile", "repeats"),
        ("deconv", "output_shape"),
        ("debox", "output_shape"),
        ("desample", "output_shape"),
        ("separable_deconv", "output_shape"),
        ("variable", "shape"),  # reported separately
    ]
)
"""Attributes that may contain symbolic dims; all others need integers."""
_SOURCES = frozenset(("variable", "update"))


class Emitter:
    """Collects the flat operations of one document."""

    def __init__(
        self, edition: Edition, reporter: Reporter, budget: Budget, infer: Infer | None, shapes: Shapes
    ) -> None:
        self.operations: list[Operation] = []
        self.made: list[Tensor] = []
        self.fixed: dict[str, Tensor] = {}
        self._is_final = edition is Edition.FINAL
        self._reporter = reporter
        self._budget = budget
        self._infer = infer
        self._shapes = shapes
        self._variables = Variables(reporter, is_final=self._is_final)
        self._known: dict[int, tuple[Value, Attribute]] = {}
        self._propagated = 0
        self._failed: set[int] = set()
        self._right: dict[Hashable, list[TensorFact | None]] = {}
        self.patterns = Patterns()

    # ── operations ──

    def remember(self, value: Value) -> None:
        """Cache the attribute form of array `value`, which may be used by many calls; the entry keeps it alive."""
        if isinstance(value, list):
            self._known[id(cast("object", value))] = value, _attribute(value)

    def call(
        self,
        declaration: Declaration,
        values: Mapping[str, Value],
        generic: str | None,
        node: Node,
        frame: Frame,
        target: Expression | None = None,
    ) -> Value:
        """Emit a call of `declaration` with a value for each parameter; return its result or results."""
        operands: dict[str, Operand] = {}
        attributes: dict[str, Attribute] = {}
        for formal in declaration.formals:
            value = values[formal.name]
            if formal.takes_tensors:
                operands[formal.name] = _operand(value)
            else:
                known = self._known.get(id(value))
                attributes[formal.name] = _attribute(value) if known is None else known[1]
        origin = self._reporter.origin(node, frame)
        call = node if isinstance(node, Call) else None
        operation = Operation(declaration.name, generic, operands, attributes, (), origin, declaration, call)
        if not self._is_final:
            self._check_data(operation, declaration, node, frame)
        if self._reporter.has_open_extents:
            self._check_open(operation, node, frame)
        if operation.name == "external" and isinstance(target, Name):
            self._bind_shape(operation, target.text, node, frame)
        return self._add(operation, node, frame, target)

    def repeat(self, call: FlatCall, name: str, frame: Frame) -> Tensor | None:
        """Emit the tensor `name` of another operation in a known form; return `None` if the form is not known."""
        found = None if self._reporter.has_open_extents else self.patterns.of(call, frame.values)
        if found is None:
            return None
        self._budget.operation(call, frame)
        pattern, given = found
        operation = pattern.operation(given, self._reporter.origin(call, frame), call)
        tensor = Tensor(pattern.data, name, None, None, operation, len(self.made))
        operation.results = (tensor,)
        self.made.append(tensor)
        self.operations.append(operation)
        return tensor

    def vendor(self, call: Call, values: Sequence[Value], frame: Frame, target: Expression | None) -> Value:
        """Emit an operation without declaration; its results are the names in `target`."""
        operands: dict[str, Operand] = {}
        attributes: dict[str, Attribute] = {}
        for position, (argument, value) in enumerate(zip(call.arguments, values, strict=True)):
            name = argument.name or str(position)
            if _has_tensors(value):
                if _has_texts(value):
                    message = f"an argument of '{call.name}' mixes tensors and strings"
                    remedy = f"pass tensors and strings as separate arguments: '{call.name}' has no declaration"
                    raise self._reporter.error("NNEF0321", message, argument.value, frame, remedy)
                operands[name] = _operand(value)
            else:
                attributes[name] = _attribute(value)
        origin = self._reporter.origin(call, frame)
        operation = Operation(call.name, call.generic, operands, attributes, (), origin, None, call)
        return self._add(operation, call, frame, target)

    def copy(self, declaration: Declaration, value: Tensor, node: Node, frame: Frame) -> Tensor:
        """Emit a new tensor from `value`: a constant for a literal, a copy otherwise."""
        formal = declaration.formals[0].name
        return cast("Tensor", self.call(declaration, {formal: value}, value.data or None, node, frame))

    def constant(self, declaration: Declaration, value: Tensor, node: Node, frame: Frame) -> Tensor:
        """Emit `constant` for a literal."""
        shape: list[int] = [] if self._is_final else [1]
        values = {"shape": shape, "value": [value.literal]}
        return cast("Tensor", self.call(declaration, values, value.data, node, frame))

    def _add(self, operation: Operation, node: Node, frame: Frame, target: Expression | None) -> Value:
        self._budget.operation(node, frame)
        results = self._results(operation, node, frame, target)
        operation.results = tuple(map(_operand, results))
        for tensor in operation.outputs():
            tensor.producer = operation
        self.operations.append(operation)
        if operation.name in _SOURCES:
            self._variables.check(operation, node, frame)
        return results[0] if len(results) == 1 else tuple(results)

    def _results(self, operation: Operation, node: Node, frame: Frame, target: Expression | None) -> list[Value]:
        hint = frame.named(operation.name)
        declaration = operation.declaration
        if declaration is None:
            return [self._like(target, hint, node, frame)]
        many = len(declaration.results) > 1 and isinstance(target, Tuple)
        targets = target.items if many and isinstance(target, Tuple) else (target,) * len(declaration.results)
        return [
            self._result(kind, operation, node, frame, each)
            for (_, kind), each in zip(declaration.results, targets, strict=False)
        ]

    def _result(self, kind: Type, operation: Operation, node: Node, frame: Frame, target: Expression | None) -> Value:
        hint = frame.named(operation.name)
        if isinstance(kind, TensorOf):
            item = kind.item
            data = operation.generic if item is GENERIC else "" if item is None else item.name
            return self._tensor(data or "", hint)
        if isinstance(kind, ArrayOf) and kind.item is not None:
            count = self._count(operation, node, frame, target)
            self._budget.results(count, node, frame)
            each = target.items if isinstance(target, Array) and len(target.items) == count else [None] * count
            return [self._result(kind.item, operation, node, frame, inner) for inner in each]
        if isinstance(kind, TupleOf):
            return tuple(self._result(item, operation, node, frame, None) for item in kind.items)
        raise TypeError(kind)

    def _like(self, target: Expression | None, hint: str, node: Node, frame: Frame) -> Value:
        """Create unnamed tensors in the nested structure of `target`; its depth is limited by that of types."""
        if isinstance(target, Array | Tuple):
            self._budget.results(len(target.items), node, frame)
            items = [self._like(item, hint, node, frame) for item in target.items]
            return items if isinstance(target, Array) else tuple(items)
        return self._tensor("", hint)

    def _tensor(self, data: str, hint: str) -> Tensor:
        tensor = Tensor(data, hint, order=len(self.made))
        self.made.append(tensor)
        return tensor

    def _count(self, operation: Operation, node: Node, frame: Frame, target: Expression | None) -> int:
        """Return the length of the array result of `operation`."""
        attributes = operation.attributes
        known: Attribute | None = None
        if operation.name == "split":
            ratios = attributes["ratios"]
            known = len(ratios) if isinstance(ratios, tuple) else None
        elif operation.name == "copy_n":
            known = attributes["times"]
        elif operation.name == "unstack":
            known = self._extent(operation.operands["value"], attributes["axis"])
        if isinstance(known, int):
            return max(known, 0)
        if isinstance(target, Array):
            return len(target.items)
        message = f"'{operation.name}' returns an array of unknown length"
        raise self._reporter.error("NNEF0514", message, node, frame, "unpack it: [a, b] = …")

    def _extent(self, operand: Operand, axis: Attribute) -> Attribute | None:
        if not isinstance(operand, Tensor) or not isinstance(axis, int):
            return None
        shape = self.shape(operand)
        return shape[axis] if shape is not None and 0 <= axis < len(shape) else None

    # ── checks of an emitted operation ──

    def _check_data(self, operation: Operation, declaration: Declaration, node: Node, frame: Frame) -> None:
        """The data-types of the provisional edition, which its declarations do not write."""
        for formal in declaration.formals:
            if not formal.takes_tensors:
                continue
            wanted = _data_of(formal.type, operation.generic)
            for tensor in tensors(operation.operands[formal.name]):
                if wanted and tensor.data and tensor.data != wanted:
                    names = [("coordinate" if each == "integer" else each) for each in (wanted, tensor.data)]
                    message = f"'{formal.name}' of '{operation.name}' has data-type {names[0]}, expected {names[1]}"
                    place = operation.argument_of(formal.name) or node
                    remedy = "use tensors of one data-type"
                    raise self._reporter.error("NNEF0401", message, place, frame, remedy)

    def _check_open(self, operation: Operation, node: Node, frame: Frame) -> None:
        for name, value in operation.attributes.items():
            if (operation.name, name) in _OPEN or operation.declaration is None:
                continue
            for dim in open_dims({name: value})[:1]:
                raise self._reporter.open_extent(dim, operation.argument_of(name) or node, frame)

    def _bind_shape(self, operation: Operation, name: str, node: Node, frame: Frame) -> None:
        """Set the open dims of input `name` to the given sizes, or to symbols."""
        shape = operation.attributes["shape"]
        if not isinstance(shape, tuple):
            raise TypeError(shape)
        extents = cast("tuple[Dim, ...]", shape)
        bound = self._shapes.get(name)
        if bound is not None and len(bound) != len(extents):
            message = f"input '{name}' has rank {len(extents)}, the shape from --input has rank {len(bound)}"
            raise self._reporter.error("NNEF0517", message, node, frame, "pass one extent per axis")
        final: list[Dim] = []
        for axis, extent in enumerate(extents):
            given = None if bound is None else bound[axis]
            if self._is_final or isinstance(extent, Symbolic) or extent != 0:
                if given is not None and given != extent and not isinstance(extent, Symbolic):
                    message = f"axis {axis} of input '{name}' is {extent} in the document, but {given} in --input"
                    raise self._reporter.error(
                        "NNEF0517", message, node, frame, "change the shape of 'external' in the document"
                    )
                final.append(extent if given is None else given)
            else:
                final.append(Symbol(f"{name}_{axis}", 1) if given is None else given)
            for symbol in symbols(final[-1]):
                self._reporter.axes.setdefault(symbol, (name, axis))
                self._reporter.has_open_extents = True
        operation.attributes["shape"] = tuple(final)

    # ── shapes ──

    def shape(self, tensor: Tensor) -> tuple[Dim, ...] | None:
        """Return the shape of `tensor`, after propagation; `None` if it is unknown.

        Raises:
            Abandoned: an operation before it is invalid, which has been reported.
        """
        if tensor.fact is None:
            self.propagate()
        if tensor.order in self._failed:
            raise Abandoned
        if tensor.fact is None and self._infer is None and tensor.producer is not None:
            declared = tensor.producer.attributes.get("shape") if tensor.producer.name in _DECLARED else None
            return cast("tuple[Dim, ...] | None", declared)
        return None if tensor.fact is None else tensor.fact.shape

    def shape_of(self, value: Value, node: Builtin, frame: Frame) -> list[Value]:
        """Return the extents of a tensor, the value of the built-in `shape_of`.

        Raises:
            Abandoned: the shape is not known, which has been noted.
        """
        if not isinstance(value, Tensor) or value.literal is not None:
            return [] if self._is_final else [1, 1]
        shape = self.shape(value)
        if shape is None:
            message = "the shape of this tensor is unknown"
            raise self._reporter.error("NNEF0516", message, node.operand, frame, "pass the shape as an attribute")
        # A shape of the provisional edition has at least two extents.
        padding = 0 if self._is_final else max(2 - len(shape), 0)
        return [*shape, *([1] * padding)]

    def propagate(self) -> None:
        """Check the arguments of all operations emitted so far, and infer the facts of their results."""
        while self._propagated < len(self.operations):
            operation = self.operations[self._propagated]
            self._propagated += 1
            if self._is_made_of_failed(operation) or not self._is_right(operation):
                self._failed.update(tensor.order for tensor in operation.outputs())

    def _is_made_of_failed(self, operation: Operation) -> bool:
        return bool(self._failed) and any(tensor.order in self._failed for tensor in operation.inputs())

    def _is_right(self, operation: Operation) -> bool:
        """Whether `operation` is valid; if so, set the facts of its results."""
        form = None if self._infer is None else _inference_key(operation)
        known = self._right.get(form)
        if known is not None:
            _set_facts(operation, known)
            return True
        stated = self._reporter.findings.count
        facts = self._facts(operation)
        if facts is None:
            return False
        _set_facts(operation, facts)
        if (
            form is not None
            and stated == self._reporter.findings.count
            and all(fact is not None and fact.is_static for fact in facts)
        ):
            self._right[form] = facts
        return True

    def _facts(self, operation: Operation) -> list[TensorFact | None] | None:
        """Return the facts of the results of `operation`; `None` after reporting an error in it."""
        found = [*faults(operation, is_final=self._is_final)]
        for finding in found:
            self._reporter.findings.add(finding)
        if any(finding.is_error for finding in found):
            return None
        if self._infer is None:
            return [None for _ in operation.outputs()]
        try:
            return [*self._infer(operation)]
        except DiagnosticError as error:
            for finding in error.diagnostics:
                self._reporter.findings.add(finding)
            return None

    # ── names ──

    def finish_names(self) -> None:
        """Give every tensor its final name; inputs and outputs keep theirs."""
        taken = set(self.fixed)
        counters: dict[str, int] = {}
        named = {tensor.order for tensor in self.fixed.values()}
        for tensor in self.made:
            if tensor.order not in named:
                tensor.name = unique(tensor.name, taken, counters)
                taken.add(tensor.name)


_DECLARED = frozenset(("external", "variable", "constant"))


def _inference_key(operation: Operation) -> Hashable:
    """Return everything that facts of an operation's results depend on; equal for equivalent operations."""
    if operation.pattern is not None:
        given_by = operation.operands
        given = [cast("Tensor", given_by[name]) for name in operation.pattern.leading]
        return (operation.pattern, *[tensor.fact for tensor in given])
    operands = tuple(
        [
            (operand.fact, operand.literal, operand.data)
            if isinstance(operand, Tensor)
            else tuple([(tensor.fact, tensor.literal, tensor.data) for tensor in tensors(operand)])
            for operand in operation.operands.values()
        ]
    )
    counts = tuple([1 if isinstance(result, Tensor) else len(result) for result in operation.results])
    attributes = operation.attributes
    if operation.name == "variable":
        # The label of a variable does not affect its shape.
        return operation.name, operation.generic, attributes.get("shape"), operation.declaration
    return operation.name, operation.generic, operands, tuple(attributes.values()), counts


def _set_facts(operation: Operation, facts: Sequence[TensorFact | None]) -> None:
    for tensor, fact in zip(operation.outputs(), facts, strict=True):
        tensor.fact = fact


def literal(value: Value) -> Tensor:
    """Return a number, boolean or string as a tensor literal."""
    data = "logical" if isinstance(value, bool) else "scalar" if isinstance(value, float) else "integer"
    return Tensor(data, literal=value)


def as_type(value: Value, kind: Type) -> Value:
    """Convert `value` to declared type `kind`: numbers become tensor literals, integers scalars."""
    match kind:
        case TensorOf():
            return value if isinstance(value, Tensor) else literal(value)
        case ArrayOf(Primitive() | TensorOf() | ArrayOf() | TupleOf() as item):
            return [as_type(each, item) for each in value] if casts(item) else value
        case TupleOf():
            return tuple(map(as_type, value, kind.items)) if casts(kind) else value
        case Primitive() if kind is SCALAR:
            return float(value) if isinstance(value, int) else value
        case _:
            return value


def _operand(value: Value) -> Operand:
    if isinstance(value, list | tuple):
        return tuple(map(_operand, cast("list[Value]", value)))
    return value if isinstance(value, Tensor) else literal(value)


def _attribute(value: Value) -> Attribute:
    return tuple(map(_attribute, cast("list[Value]", value))) if isinstance(value, list | tuple) else value


def _has_tensors(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tensors, cast("list[Value]", value)))
    return isinstance(value, Tensor)


def _has_texts(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_texts, cast("list[Value]", value)))
    return isinstance(value, str)


def _data_of(kind: Type, generic: str | None) -> str | None:
    """Return the data-type of the tensors of a parameter; `None` if it is not restricted."""
    inner = kind
    while isinstance(inner, ArrayOf) and inner.item is not None:
        inner = inner.item
    if not isinstance(inner, TensorOf) or inner.item is None:
        return None
    return generic if inner.item is GENERIC else inner.item.name
