"""Compile-time evaluation: expand fragments and expressions to flat operations.

Python recursion is avoided: `trampoline.run` keeps the stack of nested calls, and every resource has a limit. A
callback infers shapes, because formats do not infer shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from graphport.core.dims import Symbol
from graphport.formats.nnef.container import evaluate
from graphport.formats.nnef.container.argument_binding import Binder, similar
from graphport.formats.nnef.container.budget import Budget
from graphport.formats.nnef.container.call_text import FlatCall
from graphport.formats.nnef.container.emit import Emitter, as_type, literal
from graphport.formats.nnef.container.evaluate import EvaluationFault, OpenExtent
from graphport.formats.nnef.container.evaluation_frame import FAULTY, Abandoned, Exhausted, Frame, Reporter, abandon
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.garbage_collection import paused_collection
from graphport.formats.nnef.container.generic_types import convert_argument, deduced
from graphport.formats.nnef.container.limits import DEFAULT
from graphport.formats.nnef.container.operation import Tensor
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
    Name,
    Number,
    Range,
    Select,
    String,
    Subscript,
    Tuple,
    Unary,
    is_literal,
)
from graphport.formats.nnef.container.trampoline import Steps, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.diagnostics import Diagnostic
    from graphport.formats.nnef.container.check import Checked
    from graphport.formats.nnef.container.declarations import Declaration, Formal
    from graphport.formats.nnef.container.emit import Infer, Shapes
    from graphport.formats.nnef.container.evaluate import Value
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.operation import Operation
    from graphport.formats.nnef.container.syntax import Assignment, Graph, Node

T = TypeVar("T")
_SLOW = object()
"""Marker of an expression whose evaluation takes several steps."""
_LONGEST_PATH = 40


@dataclass(frozen=True, slots=True)
class Expansion:
    """A document as flat operations in the order of execution.

    `tensors` are the names of the graph; the names of all other tensors are derived from them, and are unique.
    """

    operations: list[Operation]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tensors: dict[str, Tensor]
    diagnostics: list[Diagnostic]


def expand(
    checked: Checked, *, infer: Infer | None = None, shapes: Shapes | None = None, limits: Limits = DEFAULT
) -> Expansion:
    """Evaluate the graph of a document without errors.

    `infer` returns the facts of an operation's results, `shapes` sets the dims that inputs leave open (provisional
    edition: zeros). Without `infer`, only declared shapes are known. Statements that fail are omitted after a
    diagnostic.
    """
    with paused_collection():
        return Expander(checked, infer, shapes or {}, limits).expansion()


class Expander:
    """Evaluates the graph of a document, all at once (`expansion`) or statement by statement."""

    def __init__(self, checked: Checked, infer: Infer | None, shapes: Shapes, limits: Limits) -> None:
        document = checked.document
        source = document.source
        if source is None or document.graph is None:
            raise ValueError("only a document with a graph can be expanded")
        self._graph: Graph = document.graph
        self._edition = document.edition
        self._is_final = document.edition is Edition.FINAL
        self._operations = checked.operations
        self._has_misfits = checked.has_misfits
        self._findings = Findings(source, limits.findings)
        self._reporter = Reporter(self._findings)
        self._budget = Budget(limits, len(source.text or ""), self._reporter)
        self.emitter = Emitter(document.edition, self._reporter, self._budget, infer, shapes)
        self._binder = Binder(document.edition, Findings(source, 0))  # its findings have been made
        self._shapes = shapes
        self._arrays: dict[int, list[Value]] = {}
        self._defaults: dict[str, dict[str, Value]] = {}
        self.top = Frame({name: Symbol(name, 1) for name in checked.symbols})
        self._reporter.has_open_extents = bool(checked.symbols)

    @property
    def has_findings(self) -> bool:
        """Whether anything has been reported."""
        return self._findings.count > 0

    def allows(self, operations: int) -> bool:
        """Whether the budget permits `operations` more operations."""
        return operations <= self._budget.operations

    def expansion(self) -> Expansion:
        self._check_bindings()
        try:
            for statement in self._graph.body:
                self.statement(statement)
            self.emitter.propagate()
        except Exhausted:
            pass
        self.emitter.finish_names()
        fixed = self.emitter.fixed
        return Expansion(
            self.emitter.operations,
            tuple(fixed[name.text] for name in self._graph.parameters if name.text in fixed),
            tuple(fixed[name.text] for name in self._graph.results if name.text in fixed),
            fixed,
            self._findings.sorted_by_location(),
        )

    def _check_bindings(self) -> None:
        names = [parameter.text for parameter in self._graph.parameters]
        for name in self._shapes:
            if name not in names:
                found = similar(name, names)
                remedy = (
                    f"choose one of the inputs: {', '.join(names[:8])}" if found is None else f"did you mean '{found}'?"
                )
                message = f"a shape is set for '{name}', which is not an input"
                self._reporter.error("NNEF0517", message, self._graph.name, self.top, remedy)

    # ── statements ──

    def statement(self, statement: Assignment) -> None:
        """Evaluate one statement of the graph and name its tensors."""
        target, frame, node = statement.target, self.top, statement.value
        if isinstance(node, FlatCall) and isinstance(target, Name):
            tensor = self.emitter.repeat(node, target.text, frame)
            if tensor is not None:
                self.emitter.fixed[target.text] = frame.values[target.text] = tensor
                return
        frame.path = target.text[:_LONGEST_PATH] if isinstance(target, Name) else ""
        made = len(self.emitter.made)
        try:
            value = self._flat_call(statement.value, target) if statement.is_flat else _SLOW
            if value is _SLOW:
                value = run(self._of(statement.value, frame, target))
            if isinstance(target, Name):
                self._fix(target, value, made, frame)
                return
            for name, part in self._unpacked(target, value, frame):
                self._fix(name, part, made, frame)
        except Abandoned:
            abandon(target, frame)

    def _flat_call(self, node: Expression, target: Expression) -> Value:
        """Evaluate a flat statement that calls no fragment, the most frequent case in large models."""
        if not isinstance(node, Call) or node.name in self._operations.own:
            return _SLOW
        values: list[Value] = []
        for argument in node.arguments:
            value = self._quick(argument.value, self.top)
            if value is _SLOW:
                return _SLOW
            values.append(value)
        made = self._emit_call(node, self._operations.find(node.name), values, self.top, target)
        if isinstance(node, FlatCall) and self._is_final and not self._has_misfits:
            self.emitter.patterns.learn(node, self.emitter.operations[-1])
        return made

    def _fix(self, name: Name, value: Value, made: int, frame: Frame) -> None:
        """Bind `value` to the tensor `name` of the graph; copy it if it has a name or is older than this statement."""
        tensor = value if isinstance(value, Tensor) else literal(value)
        fixed = self.emitter.fixed
        if tensor.literal is not None:
            tensor = self.emitter.constant(self._operations.library["constant"], tensor, name, frame)
        elif tensor.order < made or fixed.get(tensor.name) is tensor:
            copy = self._operations.library[COPIES[self._edition]]
            tensor = self.emitter.copy(copy, tensor, name, frame)
        tensor.name = name.text
        fixed[name.text] = tensor
        frame.values[name.text] = tensor

    def _unpacked(self, target: Expression, value: Value, frame: Frame) -> list[tuple[Name, Value]]:
        """Return each name in `target` with the part of `value` that is assigned to it."""
        found: list[tuple[Name, Value]] = []
        waiting: list[tuple[Expression, Value]] = [(target, value)]
        while waiting:
            node, part = waiting.pop()
            if isinstance(node, Name):
                found.append((node, part))
            elif isinstance(node, Array | Tuple):
                items = cast("list[Value]", part) if isinstance(part, list | tuple) else [part]
                if len(items) != len(node.items):
                    message = f"{len(items)} values are assigned to {len(node.items)} names"
                    raise self._reporter.error("NNEF0515", message, node, frame, "write one name for each value")
                waiting += reversed([*zip(node.items, items, strict=True)])
        return found

    # ── expressions ──

    def _quick(self, node: Expression, frame: Frame) -> Value:
        """Evaluate a flat expression; `_SLOW` if it takes several steps."""
        match node:
            case Name():
                value = frame.values.get(node.text, FAULTY)
                if value is FAULTY:
                    raise Abandoned
                return value
            case Number() | String() | Logical():
                return node.value
            case Array():
                return self._quick_array(node, frame)
            case Unary(operator="-", operand=Number() as number):
                return -number.value
            case Tuple():
                items = [self._quick(item, frame) for item in node.items if not isinstance(item, Tuple | Array)]
                return tuple(items) if len(items) == len(node.items) and _SLOW not in items else _SLOW
            case _:
                return _SLOW

    def _quick_array(self, node: Array, frame: Frame) -> Value:
        known = self._arrays.get(id(node.shared))
        if known is not None:
            return known
        values: list[Value] = []
        for item in node.shared:
            value = _SLOW if isinstance(item, Array) else self._quick(item, frame)
            if value is _SLOW:
                return _SLOW
            values.append(value)
        if is_literal(node.shared):
            self._arrays[id(node.shared)] = values
            self.emitter.remember(values)
        return values

    def _of(self, node: Expression, frame: Frame, target: Expression | None = None) -> Steps[Value]:
        """Return the steps that evaluate `node`; the results of a call are assigned to `target`."""
        match node:
            case Call():
                return self._call(node, frame, target)
            case Binary():
                return self._binary(node, frame)
            case Unary():
                return self._unary(node, frame)
            case Select():
                return self._select(node, frame, target)
            case Builtin():
                return self._builtin(node, frame)
            case Subscript():
                return self._subscript(node, frame)
            case Range():
                return self._range(node, frame)
            case Comprehension():
                return self._comprehension(node, frame)
            case _:
                return self._listed(node, frame)

    def _listed(self, node: Expression, frame: Frame) -> Steps[Value]:
        quick = self._quick(node, frame)
        if quick is not _SLOW or not isinstance(node, Array | Tuple):
            return quick
        self._budget.step(node, frame)
        self._budget.length(len(node.items), node, frame)
        items: list[Value] = []
        for item in node.items:
            value = self._quick(item, frame)
            items += [value if value is not _SLOW else (yield self._of(item, frame))]
        return items if isinstance(node, Array) else tuple(items)

    def _compute(self, node: Node, frame: Frame, function: Callable[..., T], *values: Value) -> T:
        """Apply `function` to `values`; report its faults at `node`."""
        try:
            return function(*values)
        except EvaluationFault as fault:
            raise self._reporter.error(fault.code, fault.message, node, frame, fault.help) from None
        except OpenExtent as needed:
            raise self._reporter.open_extent(needed.dim, node, frame) from None

    def _unary(self, node: Unary, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        value = self._quick(node.operand, frame)
        if value is _SLOW:
            value = yield self._of(node.operand, frame)
        if not isinstance(value, Tensor):
            return self._compute(node, frame, evaluate.unary, node.operator, value)
        return self._operator(PREFIXES.get(node.operator, COPIES[self._edition]), [value], node, frame)

    def _binary(self, node: Binary, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        left = self._quick(node.left, frame)
        if left is _SLOW:
            left = yield self._of(node.left, frame)
        if left is (node.operator == "||") and node.operator in ("&&", "||"):
            return left
        right = self._quick(node.right, frame)
        if right is _SLOW:
            right = yield self._of(node.right, frame)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self._operator(OPERATIONS[node.operator], [left, right], node, frame)
        if node.operator in ("&&", "||"):
            return right
        value: Value = self._compute(node, frame, evaluate.binary, node.operator, left, right, self._budget.items)
        self._budget.length(len(value) if hasattr(value, "__len__") else 0, node, frame)
        return value

    def _operator(self, name: str, values: list[Value], node: Node, frame: Frame) -> Value:
        declaration = self._operations.find(name)
        if declaration is None:
            raise Abandoned
        bound = {each.name: as_type(value, each.type) for each, value in zip(declaration.formals, values, strict=True)}
        return self.emitter.call(declaration, bound, deduced(declaration, bound), node, frame)

    def _select(self, node: Select, frame: Frame, target: Expression | None) -> Steps[Value]:
        self._budget.step(node, frame)
        condition = yield self._of(node.condition, frame)
        return (yield self._of(node.yes if condition else node.no, frame, target))

    def _subscript(self, node: Subscript, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        array = self._quick(node.target, frame)
        if array is _SLOW:
            array = yield self._of(node.target, frame)
        index = self._quick(node.index, frame)
        if index is _SLOW:
            index = yield self._of(node.index, frame)
        return self._compute(node.index, frame, evaluate.get_item, array, index)

    def _range(self, node: Range, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        array = yield self._of(node.target, frame)
        begin = None if node.begin is None else (yield self._of(node.begin, frame))
        end = None if node.end is None else (yield self._of(node.end, frame))
        value = self._compute(node, frame, evaluate.get_slice, array, begin, end)
        self._budget.length(len(value), node, frame)
        return value

    def _builtin(self, node: Builtin, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        value = self._quick(node.operand, frame)
        if value is _SLOW:
            value = yield self._of(node.operand, frame)
        match node.name:
            case "shape_of":
                return self.emitter.shape_of(value, node, frame)
            case "length_of":
                return len(value)
            case "range_of":
                self._budget.length(len(value), node, frame)
                return list(range(len(value)))
            case _:
                name = "integer" if node.name == "extent" else node.name
                result = self._compute(node, frame, evaluate.cast_to, name, value)
        if name == "integer" and isinstance(value, float) and value < 0 and result != value:
            remedy = (
                f"check the intended value: the specification rounds down, but other readers truncate to {result + 1}"
            )
            self._reporter.warn("NNEF0519", f"{node.name}({value}) is {result}", node, frame, remedy)
        return result

    def _comprehension(self, node: Comprehension, frame: Frame) -> Steps[Value]:
        self._budget.step(node, frame)
        sources: list[list[Value]] = []
        for loop in node.loops:
            sources += [(yield self._of(loop.source, frame))]
        if len(set(map(len, sources))) > 1:
            message = (
                "the arrays of a comprehension differ in length: "
                f"{' and '.join(str(len(each)) for each in sources)} items"
            )
            raise self._reporter.error("NNEF0520", message, node, frame, "iterate over arrays of equal length")
        names = [loop.name.text for loop in node.loops]
        hidden = {name: frame.values[name] for name in names if name in frame.values}
        items: list[Value] = []
        try:
            for values in zip(*sources, strict=True):
                self._budget.step(node, frame)
                frame.values.update(zip(names, values, strict=True))
                if node.condition is None or (yield self._of(node.condition, frame)):
                    self._budget.length(1, node, frame)
                    items += [(yield self._of(node.body, frame))]
        finally:
            for name in names:
                frame.values.pop(name, None)
            frame.values.update(hidden)
        return items

    # ── calls ──

    def _call(self, node: Call, frame: Frame, target: Expression | None) -> Steps[Value]:
        self._budget.step(node, frame)
        values: list[Value] = []
        for argument in node.arguments:
            quick = self._quick(argument.value, frame)
            values += [quick if quick is not _SLOW else (yield self._of(argument.value, frame))]
        declaration = self._operations.find(node.name)
        if declaration is None or not declaration.is_expanded:
            return self._emit_call(node, declaration, values, frame, target)
        bound = self._bound(node, declaration, values, frame)
        return (yield self._fragment(node, declaration, bound, frame))

    def _emit_call(
        self, node: Call, declaration: Declaration | None, values: list[Value], frame: Frame, target: Expression | None
    ) -> Value:
        """The result of an operation that is not expanded."""
        if declaration is None:
            if not self._operations.is_opaque(node.name):
                raise Abandoned
            return self.emitter.vendor(node, values, frame, target)
        bound = self._bound(node, declaration, values, frame)
        return self.emitter.call(
            declaration, bound, self._generic(node, declaration, bound, frame), node, frame, target
        )

    def _bound(self, node: Call, declaration: Declaration, values: list[Value], frame: Frame) -> dict[str, Value]:
        """Return the value of every parameter: the argument, else the default."""
        plan = self._binder.plan(declaration, node)
        if plan is None:
            raise Abandoned
        bound = self._default_values(declaration).copy()
        formals = declaration.formals
        for value, index in zip(values, plan.formals, strict=True):
            formal = formals[index]
            bound[formal.name] = as_type(value, formal.type) if formal.is_cast else value
        if self._has_misfits:
            for formal in declaration.formals:
                if not formal.takes_tensors:
                    bound[formal.name] = self._convert_argument(formal, bound[formal.name], node, frame)
        return bound

    def _convert_argument(self, formal: Formal, value: Value, node: Call, frame: Frame) -> Value:
        found = convert_argument(formal, value)
        if found is not None:
            return found
        message = f"'{formal.name}' of '{node.name}' requires a numeric literal, but it is a tensor"
        raise self._reporter.error(
            "NNEF0401", message, node, frame, f"write a literal, for example {formal.name} = 0.001"
        )

    def _default_values(self, declaration: Declaration) -> dict[str, Value]:
        found = self._defaults.get(declaration.name)
        if found is None:
            found = self._defaults[declaration.name] = {
                formal.name: as_type(run(self._of(formal.default, self.top)), formal.type)
                for formal in declaration.formals
                if formal.default is not None
            }
            for value in found.values():
                self.emitter.remember(value)
        return found

    def _generic(self, node: Call, declaration: Declaration, bound: dict[str, Value], frame: Frame) -> str | None:
        """Return the type of `?` in this call."""
        if not declaration.is_generic:
            return None
        if node.generic is not None:
            return frame.generic if node.generic == "?" else node.generic
        if declaration.generic_default is not None:
            return declaration.generic_default.name
        return deduced(declaration, bound)

    def _fragment(self, node: Call, declaration: Declaration, bound: dict[str, Value], frame: Frame) -> Steps[Value]:
        self._budget.depth(frame.depth + 1, node, frame)
        caller = self._reporter.origin(node, frame)
        path = frame.path if frame.fragment is None and frame.path else frame.named(frame.statement or node.name)
        generic = self._generic(node, declaration, bound, frame)
        inner = Frame(bound, declaration.name, caller, frame.depth + 1, generic, path)
        results = dict(declaration.results)
        for statement in declaration.fragment.body or ():
            target = statement.target
            inner.statement = target.text if isinstance(target, Name) else ""
            made = len(self.emitter.made)
            value = yield self._of(statement.value, inner, target)
            for name, part in self._unpacked(target, value, inner):
                kind = results.get(name.text)
                final = part if kind is None else as_type(part, kind)
                if isinstance(final, Tensor) and final.order >= made:
                    final.name = inner.named(name.text)
                inner.values[name.text] = final
        found = [inner.values[name] for name in results]
        return found[0] if len(found) == 1 else tuple(found)
