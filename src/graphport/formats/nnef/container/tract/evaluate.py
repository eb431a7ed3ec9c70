"""Evaluate documents in tract's flavour to graphs of the dialect `tract`, statement by statement, like tract.

Compile-time numbers become tensors on demand. An attribute known only at run time becomes an additional operand of its
node, after the tensors: a vector, or a scalar. The node's attribute `wires` names these attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, Severity, Source, Span
from graphport.core.dims import Symbol, Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.argument_binding import suggestion
from graphport.formats.nnef.container.declarations import Library, standard
from graphport.formats.nnef.container.operators import OPERATIONS
from graphport.formats.nnef.container.syntax import (
    Array,
    Assignment,
    Binary,
    Call,
    Edition,
    Expression,
    Logical,
    Name,
    Number,
    String,
    Subscript,
    Tuple,
    Unary,
)
from graphport.formats.nnef.container.tract.argument_values import apply_operator, check_int64, extents, fill
from graphport.formats.nnef.container.tract.attributes import Attributes
from graphport.formats.nnef.container.tract.cache import Cache, append_to_cache, return_states
from graphport.formats.nnef.container.tract.coded import Codes
from graphport.formats.nnef.container.tract.node_builder import (
    DIALECT,
    as_list,
    is_list,
    names_in,
    overlooked,
    small_constant_elements,
)
from graphport.formats.nnef.container.tract.scan import scanned
from graphport.formats.nnef.container.types import TensorOf, Type
from graphport.formats.nnef.rules.tract.types import datum
from graphport.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.quantized import Quantization
    from graphport.formats.nnef.container.tract.parser import Document, Fragment
    from graphport.ir.graph import Attribute

WIRES = "wires"
"""Attribute with the names of the attributes that are operands."""
_DEEPEST = 60
_COST = 5
"""Operations that the call of a fragment counts as, which may make none."""
_DATA = {"scalar": DType.FLOAT32, "integer": DType.INT64, "logical": DType.BOOL, "string": DType.STRING}


@dataclass(frozen=True, slots=True)
class Variable:
    """Declaration of a variable."""

    name: str
    label: str
    shape: tuple[int, ...]
    span: Span


@dataclass(slots=True)
class Frame:
    """The names of the graph or of a fragment, and from where it is called."""

    names: dict[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0
    is_graph: bool = False


@cache
def registry() -> Library:
    """Return the declared operations of tract's registries."""
    path = Path(__file__).with_name("registries.nnef")
    return Library(Source(path.name, path.read_text(encoding="utf-8")))


class Evaluator(Attributes):
    """Build the graph of one document; `variable` returns the value of a variable."""

    def __init__(
        self,
        document: Document,
        variable: Callable[[Evaluator, Variable], Value],
        shapes: Mapping[str, Sequence[Dim]],
        *,
        dialect: str = DIALECT,
        quantized: Mapping[str, Quantization] | None = None,
        bounds: Mapping[str, tuple[int, int | None]] | None = None,
        submodel: Callable[[str], Graph | None] | None = None,
    ) -> None:
        super().__init__(document, dialect)
        self.findings: list[Diagnostic] = []
        self._variable = variable
        self._submodel = submodel
        self._shapes = shapes
        self._quantized = quantized or {}
        self.kept: list[Cache] = []
        self.codes = Codes(self, self._quantized)
        self.symbols = {
            rest: Symbol(rest, *(bounds or {}).get(rest, (0, None)))
            for op_type, rest in document.extensions
            if op_type == "tract_symbol" and rest
        }
        if any(op_type == "tract_pulse_streaming_symbol" for op_type, _ in document.extensions):
            self.symbols.setdefault("S", Symbol("S", 0))

    def evaluate(self) -> Graph:
        """The graph of the document.

        Raises:
            DiagnosticError: the first statement that has no meaning.
        """
        frame = Frame(is_graph=True)
        for statement in self.document.body:
            try:
                self._assign(statement, frame)
            except RecursionError:  # each alone is within its limit
                raise self.fault("NNEF0510", "fragments and expressions are nested too deep", statement.value) from None
        outputs: list[Value] = []
        for name in self.document.outputs:
            if name not in frame.names:
                message = f"output '{name}' is not assigned"
                raise self.fault("NNEF0305", message, None, f"add '{name} = …' to the body")
            outputs.append(self.tensor(frame.names[name], name))
        self.graph.set_outputs(outputs)
        return_states(self.graph, self.kept)
        for name in self.document.inputs:
            if name not in frame.names:
                message = f"the graph parameter '{name}' is not assigned by 'external'"
                self.findings.append(Diagnostic("NNEF0307", message, None, "remove it", Severity.WARNING))
        return self.graph

    # ── statements ──

    def _assign(self, statement: Assignment, frame: Frame) -> None:
        self._statement = statement if frame.is_graph or self._statement is None else self._statement
        target = statement.target
        wanted = [target] if isinstance(target, Name) else list(cast("Tuple", target).items)
        names = [each.text for each in cast("list[Name]", wanted)]
        value = self._of(statement.value, frame, names)
        values = [value] if isinstance(target, Name) else as_list(value)
        if len(values) < len(names):
            message = f"{len(values)} values are assigned to {len(names)} names"
            raise self.fault("NNEF0515", message, target, "write one name for each value")
        for name, each in zip(names, values, strict=False):
            only = as_list(each)
            found = only[0] if is_list(each) and len(only) == 1 and isinstance(only[0], Value) else each
            frame.names[name] = self._named(found, name) if frame.is_graph else found

    def _named(self, value: Any, name: str) -> Any:
        """Name `value` like the statement's result; outputs and quantized tensors are separate values."""
        is_public = name in self.document.outputs or name in self._quantized
        if not isinstance(value, Value):
            return self.tensor(value, name) if is_public else value
        is_new = value.producer is not None and value.notes.get("tract") is None and not value.is_output
        if is_new and value.graph is self.graph and (value.name == name or not self.graph.is_reserved(name)):
            if value.name != name:
                self.graph.rename(value, name)
            value.notes["tract"] = name
            return value
        if not is_public:
            return value
        if value.name == name and value.producer is None:
            return value
        (copy,) = self.node("copy", [value], 1, dialect=self._dialect, names=[name])
        copy.notes["tract"] = name
        return copy

    # ── expressions ──

    def _of(self, node: Expression, frame: Frame, names: Sequence[str] = ()) -> Any:
        match node:
            case Number() | String() | Logical():
                return node.value
            case Name():
                return self._name(node, frame)
            case Array() | Tuple():
                items = [self._of(item, frame) for item in node.items]
                return self.array(items if isinstance(node, Array) else tuple(items), node)
            case Call():
                return self._call(node, frame, names)
            case Binary():
                return self._binary(node, frame)
            case Unary():
                return self._unary(node, frame)
            case Subscript():
                return self._subscript(node, frame)
            case _:
                raise self.fault("NNEF0210", "tract does not support this expression", node)

    def _name(self, node: Name, frame: Frame) -> Any:
        if node.text in frame.names:
            return frame.names[node.text]
        if node.text in self.symbols:
            return self.symbols[node.text]
        if node.text == "inf":
            return float("inf")
        message = f"undefined name '{node.text}'"
        raise self.fault("NNEF0303", message, node, suggestion(node.text, frame.names))

    def _unary(self, node: Unary, frame: Frame) -> Any:
        value = self._of(node.operand, frame)
        if isinstance(value, bool | int | float | Symbolic):
            signed = -value if node.operator == "-" else value
            return (not value) if node.operator == "!" else self.checked(lambda: check_int64(signed), node)
        op_type = {"-": "neg", "!": "not"}.get(node.operator, "copy")
        return self.node(op_type, [self.tensor(value)], 1)[0]

    def _binary(self, node: Binary, frame: Frame) -> Any:
        # A long sum leans to the left: it is a loop and no recursion.
        pending = [node]
        while isinstance(pending[-1].left, Binary):
            pending.append(pending[-1].left)
        found = self._of(pending[-1].left, frame)
        for each in reversed(pending):
            found = self._joined(each, found, self._of(each.right, frame))
        return found

    def _joined(self, node: Binary, left: Any, right: Any) -> Any:
        if isinstance(left, int | float | Symbolic) and isinstance(right, int | float | Symbolic):
            found = self.checked(lambda: apply_operator(node.operator, left, right), node)
            if found is not None:
                return found
        if node.operator not in OPERATIONS:
            raise self.fault("NNEF0210", f"tract does not support the operator '{node.operator}'", node)
        operands = [self.tensor(left), self.tensor(right)]
        return self.node(OPERATIONS[node.operator], operands, 1, dialect=DIALECT)[0]

    def _subscript(self, node: Subscript, frame: Frame) -> Any:
        target, index = self._of(node.target, frame), self._of(node.index, frame)
        if isinstance(target, Value):
            known = small_constant_elements(target)
            if known is None:
                return self.node("Gather", [target, self.tensor(index)], 1, dialect="", axis=0)[0]
            target = known
        try:
            return target[index]
        except (IndexError, TypeError) as error:
            raise self.fault("NNEF0504", f"no item {index}: {error}", node) from None

    # ── calls ──

    def _call(self, node: Call, frame: Frame, names: Sequence[str]) -> Any:
        own = self.document.fragments.get(node.name)
        if own is not None and own.body is not None:
            return self._expanded(own, node, frame)
        match node.name:
            case "external" | "tract_core_external":
                return self._external(node, frame, names)
            case "variable":
                return self._a_variable(node, frame, names)
            case "constant":
                return self._constant(node, frame)
            case "tract_core_scan":
                given = {each.name or "": self._of(each.value, frame) for each in node.arguments}
                return scanned(self, given, node, frame.depth)
            case "tract_core_submodel":
                return self._inline_submodel(node, frame)
            case "tract_transformers_dyn_kv_cache":
                given = self._bound(node.name, _parameters(registry()[node.name]), node, frame)
                return append_to_cache(self, given, node, names[0] if names else str(given["name"]), self.kept)
            case "tract_transformers_quantized_dyn_kv_cache":
                # Its past has extents that no input has, and is not there in the first pulse.
                x = self._bound(node.name, _parameters(registry()[node.name]), node, frame)["input"]
                return self.node(node.name, [self.tensor(x)], 1, names=names, dialect=DIALECT)[0]
            case _:
                pass
        declaration = self._declaration(node.name)
        if declaration is None:
            known = [*self.document.fragments, *registry(), *standard(Edition.FINAL)]
            message = f"undeclared operation '{node.name}'"
            raise self.fault("NNEF0322", message, node, suggestion(node.name, known))
        if node.name == "tract_core_cast" and node.arguments and names and names[0] in self._quantized:
            real = self.codes.quantize(self.tensor(self._of(node.arguments[0].value, frame)), names[0])
            if real is not None:
                return real
            declaration = standard(Edition.FINAL)["copy"]
            node = Call("copy", node.arguments[:1], None, node.start, node.stop)
        return self._operation(declaration, node, frame, names)

    def _inline_submodel(self, node: Call, frame: Frame) -> Any:
        """Inline another model and return its outputs."""
        order = ("input", "label")
        given = {each.name or order[min(at, 1)]: self._of(each.value, frame) for at, each in enumerate(node.arguments)}
        label, operands = (
            str(given.get("label", "")),
            [self.tensor(item) for item in as_list(given.get("input", []))],
        )
        inner = None if self._submodel is None else self._submodel(label)
        if inner is None or len(inner.inputs) != len(operands):
            what = f"takes {len(inner.inputs)} inputs, got {len(operands)}" if inner else "is missing"
            raise self.fault(
                "NNEF0907", f"the model '{label}' {what}", node, f"add the folder '{label}' with its graph.nnef"
            )
        found = self.inlined(inner, operands)
        return found[0] if len(found) == 1 else found

    def _declaration(self, name: str) -> Declaration | None:
        tract = registry().get(name) if self._dialect == DIALECT else None
        return tract or standard(Edition.FINAL).get(name) or registry().get(name)

    def _expanded(self, fragment: Fragment, node: Call, frame: Frame) -> Any:
        formals = [(formal.name, formal.default) for formal in fragment.formals]
        bound = self._bound(fragment.name, formals, node, frame)
        return self.expanded(fragment, bound, frame.depth, node)

    def expanded(self, fragment: Fragment, names: dict[str, Any], depth: int, node: Expression) -> Any:
        """Evaluate a fragment's body with the parameter values `names`; return its result or a tuple of results."""
        if depth > _DEEPEST:
            raise self.fault("NNEF0510", f"fragments are nested deeper than {_DEEPEST} levels", node)
        self.count(_COST)
        inner = Frame(names, depth + 1)
        for statement in fragment.body or ():
            self._assign(statement, inner)
        missing = [name for name in fragment.results if name not in inner.names]
        if missing:
            raise self.fault("NNEF0305", f"result '{missing[0]}' of '{fragment.name}' is not assigned", node)
        results = tuple(inner.names[name] for name in fragment.results)
        return results[0] if len(results) == 1 else self.array(results, node)

    def _bound(
        self, name: str, formals: Sequence[tuple[str, Expression | None]], node: Call, frame: Frame
    ) -> dict[str, Any]:
        """Return the value of every parameter: the argument, else the default."""
        known = [formal for formal, _ in formals]
        bound: dict[str, Any] = {}
        for position, argument in enumerate(node.arguments):
            formal = argument.name or (known[position] if position < len(known) else None)
            if formal not in known:
                self.findings.append(overlooked(name, formal, self.span(argument.value)))
                continue
            bound[formal] = self._of(argument.value, frame)
        for formal, default in formals:
            if formal not in bound:
                if default is None:
                    raise self.fault("NNEF0324", f"missing argument '{formal}' of '{name}'", node)
                bound[formal] = self._of(default, Frame())
        return bound

    def _operation(self, declaration: Declaration, node: Call, frame: Frame, names: Sequence[str]) -> Any:
        bound = self._bound(declaration.name, _parameters(declaration), node, frame)
        operands: list[Value | None] = []
        attributes: dict[str, Attribute] = {}
        wires: dict[str, Value] = {}
        for formal in declaration.formals:
            value = bound[formal.name]
            if formal.takes_tensors:
                operands += self.codes.operands(node.name, formal.name, self._operands(value, formal.type))
                continue
            static = self.attribute(value, formal.type, node)
            if isinstance(static, Value):
                wires[formal.name] = static
            else:
                attributes[formal.name] = static
        operands = self.codes.real_bias(operands, [formal.name for formal in declaration.formals])
        if wires and self._dialect != DIALECT:
            message = f"'{next(iter(wires))}' of '{node.name}' requires a numeric literal, but it is a tensor"
            raise self.fault("NNEF0401", message, node, "use a compile-time value: attributes cannot be tensors")
        if wires:
            attributes[WIRES] = tuple(wires)
        while operands and operands[-1] is None and not wires:
            operands.pop()
        count = self._results(declaration, names)
        # Operators with tensor parameters only accept operands of several types in both dialects.
        target = self._dialect if any(not formal.takes_tensors for formal in declaration.formals) else DIALECT
        results = self.node(
            declaration.name, [*operands, *wires.values()], count, names=names, dialect=target, **attributes
        )
        is_list = any(not isinstance(kind, TensorOf) for _, kind in declaration.results)
        return list(results) if is_list or count > 1 else results[0]

    def _results(self, declaration: Declaration, names: Sequence[str]) -> int:
        if any(not isinstance(kind, TensorOf) for _, kind in declaration.results):
            return max(len(names), 1)
        return len(declaration.results)

    def _operands(self, value: Any, kind: Type) -> list[Value | None]:
        if isinstance(kind, TensorOf):
            return [None if isinstance(value, str) and not value else self.tensor(value)]
        return [self.tensor(item) for item in as_list(value)]

    # ── sources ──

    def _arguments(self, node: Call, frame: Frame) -> dict[str, Any]:
        order = ("shape", "label") if node.name == "variable" else ("shape", "datum_type")
        return {
            argument.name or order[min(place, 1)]: self._extents(argument.value, frame)
            for place, argument in enumerate(node.arguments)
        }

    def _extents(self, node: Expression, frame: Frame) -> Any:
        """Evaluate an argument of a source; undeclared names become symbols."""
        for name in names_in(node):
            if name not in frame.names and name not in self.symbols:
                self.symbols[name] = Symbol(name, 0)
                message = f"undeclared symbol '{name}'"
                span = Span(self.document.source, node.start, node.stop)
                self.findings.append(
                    Diagnostic("NNEF0901", message, span, f"add 'extension tract_symbol {name};'", Severity.WARNING)
                )
        return self._of(node, frame)

    def _external(self, node: Call, frame: Frame, names: Sequence[str]) -> Value:
        given = self._arguments(node, frame)
        dtype = datum(str(given["datum_type"])) if "datum_type" in given else _DATA.get(node.generic or "scalar")
        if dtype is None:
            raise self.fault(
                "NNEF0902", f"tract does not support the type '{given.get('datum_type', node.generic)}'", node
            )
        name = names[0] if names else "input"
        shape = given.get("shape", [])
        known = self.checked(lambda: extents([self.fold_constant(each) for each in as_list(shape)]), node)
        bound = self._shapes.get(name)
        fact = TensorFact(dtype, tuple(bound if bound is not None else known))
        value = Value(self.graph.fresh(name), fact, origin=self.span(node))
        return self.graph.adopt_input(value)

    def _a_variable(self, node: Call, frame: Frame, names: Sequence[str]) -> Value:
        given = self._arguments(node, frame)
        shape = given.get("shape", [])
        stated = [self.fold_constant(each) for each in as_list(shape)]
        name = names[0] if names else str(given.get("label", "variable"))
        known = tuple(each for each in stated if isinstance(each, int))
        if len(known) < len(stated) or self.checked(lambda: extents(stated), node) != stated:
            raise self.fault("NNEF0513", f"the shape of variable '{name}' is unknown", node)
        return self._variable(self, Variable(name, str(given.get("label", "")).lstrip("/"), known, self.span(node)))

    def _constant(self, node: Call, frame: Frame) -> Value:
        given = self._arguments(node, frame)
        dtype = _DATA.get(node.generic or "scalar", DType.FLOAT32)
        numbers = given.get("value", given.get("datum_type", [0.0]))
        shape = [self.fold_constant(each) for each in as_list(given.get("shape", []))]
        return self.constant(self.checked(lambda: fill(numbers, shape, dtype), node), dtype)


def _parameters(declaration: Declaration) -> list[tuple[str, Expression | None]]:
    return [(formal.name, formal.default) for formal in declaration.formals]
