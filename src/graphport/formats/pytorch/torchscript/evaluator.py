"""Partial evaluation of the code: static values are computed, tensors are graph values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from graphport.core import budget
from graphport.core.diagnostics import Span
from graphport.formats.pytorch.torchscript import containers, control_flow
from graphport.formats.pytorch.torchscript.liveness import Liveness
from graphport.formats.pytorch.torchscript.mutations import Mutations
from graphport.formats.pytorch.torchscript.operators import Operators
from graphport.formats.pytorch.torchscript.packed import packed_method
from graphport.formats.pytorch.torchscript.refusal import RaisedError, refuse
from graphport.formats.pytorch.torchscript.scalar_functions import computed, is_scalar, shown
from graphport.formats.pytorch.torchscript.syntax import ClassText, FunctionText, function_of
from graphport.formats.pytorch.torchscript.values import (
    UNINITIALIZED,
    Dict,
    Function,
    Future,
    List,
    NamedTuple,
    Namespace,
    Object,
    Packed,
    Quantized,
    RuntimeScalar,
    Tensor,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Source
    from graphport.formats.pytorch.torchscript.emit import Emitter
    from graphport.formats.pytorch.torchscript.state import State
    from graphport.formats.pytorch.torchscript.syntax import Texts
    from graphport.formats.pytorch.torchscript.values import Kind

MAX_STEPS = 400_000
"""Maximum evaluated statements and expressions of one model."""
MAX_CALL_DEPTH = 48
_ROOT = "__torch__"
_FLOATS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf"))}


class Evaluator:
    """Evaluator of the functions of one archive."""

    def __init__(self, texts: Texts, emitter: Emitter, state: State, source: Source) -> None:
        self.texts = texts
        self.emitter = emitter
        self.state = state
        self.operators = Operators(self, state.version)
        self.mutations = Mutations()
        self._source = source
        self._steps = 0
        self._most_steps = budget.limit("torchscript.steps", MAX_STEPS)
        self._calls: list[str] = []
        self._member = ""
        self.liveness = Liveness(())
        self._known_liveness: dict[FunctionText, Liveness] = {}
        self.last_origin: Span | None = None
        self.assumptions: dict[str, Span | None] = {}
        """Conditions on inputs for which the graph is read, with the statements that have them."""
        """The last statement that was begun."""

    # Calls

    def invoke(
        self, text: FunctionText, given: Sequence[Any], named: Mapping[str, Any], scope: Mapping[str, Any]
    ) -> Any:
        """Evaluate a function call.

        Raises:
            RaisedError: the function raises an exception.
            RefusedError: TS0008 the call depth exceeds the limit, TS0011 the arguments do not match the parameters.
        """
        if len(self._calls) >= MAX_CALL_DEPTH:
            refuse(
                "TS0008",
                f"calls are nested more than {MAX_CALL_DEPTH} levels deep: {self._calls[-1]} calls {text.name}",
            )
        variables = dict(scope) | self._bound(text, given, named)
        before = self.emitter.scope, self._member, self.emitter.origin, self.liveness
        self.liveness = self._known_liveness.get(text) or self._known_liveness.setdefault(text, Liveness(text.body))
        self._member = text.member
        owner = given[0] if given else None
        if isinstance(owner, Object) and owner.type.base == "Module":
            self.emitter.scope = owner.path
        self._calls.append(text.name)
        try:
            returned = self.block(text.body, variables)
        finally:
            self._calls.pop()
            self.emitter.scope, self._member, self.emitter.origin, self.liveness = before
        return returned[0] if returned else None

    def _bound(self, text: FunctionText, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [parameter.name for parameter in text.parameters]
        if len(given) > len(names) or not set(named) <= set(names[len(given) :]):
            refuse(
                "TS0011",
                (
                    f"{text.name} does not accept {len(given)} positional "
                    f"and these keyword arguments: {', '.join(named) or 'none'}"
                ),
            )
        bound = dict(zip(names, given, strict=False)) | dict(named)
        for parameter in text.parameters:
            if parameter.name in bound:
                continue
            if parameter.default is None:
                refuse("TS0011", f"{text.name}: missing argument {parameter.name!r}")
            bound[parameter.name] = self.expression(parameter.default, {})
        return bound

    def call_method(self, owner: Any, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Evaluate a method call."""
        if isinstance(owner, Packed):
            return packed_method(self, owner, name, given)
        if not isinstance(owner, Object):
            refuse("TS0005", f"{type_name(owner)} has no method {name!r}")
        method = owner.type.methods.get(name)
        if method is None:
            refuse("TS0005", f"{owner.type.name} has no method {name!r}")
        return self.invoke(method, [owner, *given], named, {})

    # Statements

    def assume(self, condition: str) -> None:
        """Record a condition on the inputs that the graph assumes."""
        self.assumptions.setdefault(condition, self.last_origin)

    def block(self, statements: Sequence[ast.stmt], variables: dict[str, Any]) -> tuple[Any] | None:
        """Execute statements; return the value of a `return` statement in a tuple, else `None`."""
        for statement in statements:
            self._record_location(statement)
            returned = self._statement(statement, variables)
            if returned is not None:
                return returned
        return None

    def _record_location(self, statement: ast.stmt) -> None:
        self._steps += 1
        if self._steps > self._most_steps:
            help = "check for endless loops or recursion, or set GRAPHPORT_LIMITS=torchscript.steps=N to allow N steps"
            refuse("TS0008", f"the code executes more than {self._most_steps} steps for these inputs", help=help)
        place = f"{self._member}:{statement.lineno}"
        scope = self.emitter.scope
        self.emitter.origin = self.last_origin = Span(self._source, place=place, scope=scope.replace(".", "/") or None)

    def _statement(self, statement: ast.stmt, variables: dict[str, Any]) -> tuple[Any] | None:
        match statement:
            case ast.Assign(targets=[target]):
                self._assign(target, self.expression(statement.value, variables), variables)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(
                    target, _typed(self.expression(value, variables), ast.unparse(statement.annotation)), variables
                )
            case ast.Expr():
                self.expression(statement.value, variables)
            case ast.Return():
                return (None if statement.value is None else self.expression(statement.value, variables),)
            case ast.If():
                return control_flow.run_if(self, statement, variables)
            case ast.For():
                return control_flow.run_for(self, statement, variables)
            case ast.While():
                return control_flow.run_while(self, statement, variables)
            case ast.FunctionDef():
                text = function_of(
                    statement, self._member, f"{self._calls[-1] if self._calls else ''}.{statement.name}"
                )
                variables[statement.name] = Function(text, variables)
            case ast.With():
                return self._with(statement, variables)
            case ast.Delete():
                for target in statement.targets:
                    self._delete(target, variables)
            case _:
                pass  # pass, import
        return None

    def _with(self, statement: ast.With, variables: dict[str, Any]) -> tuple[Any] | None:
        """Execute a `with` statement."""
        entered: list[Any] = []
        for item in statement.items:
            owner = self.expression(item.context_expr, variables)
            entered.append(owner)
            value = self._enter(owner)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, variables)
        returned = self.block(statement.body, variables)
        for owner in reversed(entered):
            if isinstance(owner, Object) and "__exit__" in owner.type.methods:
                self.call_method(owner, "__exit__", [None, None, None], {})
        return returned

    def _enter(self, owner: Any) -> Any:
        if isinstance(owner, Object) and "__enter__" in owner.type.methods:
            return self.call_method(owner, "__enter__", [], {})
        return owner

    def _delete(self, target: ast.expr, variables: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            variables.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            containers.delete(self, self.expression(target.value, variables), self.expression(target.slice, variables))

    def _assign(self, target: ast.expr, value: Any, variables: dict[str, Any]) -> None:
        match target:
            case ast.Name():
                variables[target.id] = value
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, value, variables)
            case ast.Attribute():
                owner = self.expression(target.value, variables)
                if not isinstance(owner, Object):
                    refuse("TS0005", f"{type_name(owner)} has no writable attribute {target.attr!r}")
                self.mutations.touch(owner)
                self.state.note_write(owner, target.attr, value)
                owner.attributes[target.attr] = value
            case ast.Subscript():
                containers.set_item(
                    self, self.expression(target.value, variables), self.expression(target.slice, variables), value
                )
            case _:
                refuse("TS0004", f"unsupported assignment to {type(target).__name__}")

    def _unpack(self, targets: Sequence[ast.expr], value: Any, variables: dict[str, Any]) -> None:
        items = containers.unpacked(self, value, len(targets))
        if len(items) != len(targets):
            refuse("TS0011", f"{len(items)} values are assigned to {len(targets)} variables")
        for target, item in zip(targets, items, strict=True):
            self._assign(target, item, variables)

    # Expressions

    def expression(self, node: ast.expr, variables: Mapping[str, Any]) -> Any:
        """Evaluate an expression."""
        match node:
            case ast.Name():
                return self._name(node.id, variables)
            case ast.Constant():
                return node.value
            case ast.Call():
                return self._call(node, variables)
            case ast.Attribute():
                return self.attribute(self.expression(node.value, variables), node.attr)
            case ast.Tuple():
                return tuple([self.expression(item, variables) for item in node.elts])
            case ast.List():
                return List([self.expression(item, variables) for item in node.elts])
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return Dict({self.key(k, variables): self.expression(v, variables) for k, v in pairs})
            case ast.Subscript():
                return containers.get_item(
                    self, self.expression(node.value, variables), self.expression(node.slice, variables)
                )
            case ast.UnaryOp():
                value = self.expression(node.operand, variables)
                return (
                    -value
                    if is_scalar(value) and not isinstance(value, RuntimeScalar)
                    else computed(self.emitter, "neg", [value])
                )
            case _:
                refuse("TS0004", f"unsupported Python syntax {type(node).__name__}")
        return None

    def key(self, node: ast.expr | None, variables: Mapping[str, Any]) -> Any:
        """Evaluate a dictionary key, which must be static."""
        value = None if node is None else self.expression(node, variables)
        if not isinstance(value, str | int | float | bool):
            refuse("TS0009", f"a dictionary key is {type_name(value)}, expected a constant string or number")
        return value

    def _name(self, name: str, variables: Mapping[str, Any]) -> Any:
        if name in variables:
            return variables[name]
        if name in _FLOATS:
            return _FLOATS[name]
        if name in ("torch", "ops", _ROOT, "CONSTANTS"):
            return Namespace(name)
        if name in _BUILTINS or name in ("annotate", "unchecked_cast", "uninitialized", "isinstance"):
            return Namespace(f"builtins.{name}")
        refuse("TS0005", f"undefined variable {name!r}")
        return None

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of an object, or a name of a namespace."""
        if isinstance(owner, Namespace):
            return self._in_namespace(owner, name)
        if isinstance(owner, ClassText) and name in owner.constants:
            return self.state.enumerated(owner, name, self.expression(owner.constants[name], {}))
        if isinstance(owner, ClassText) and name in owner.methods:
            return Function(owner.methods[name])
        if isinstance(owner, NamedTuple) and name in owner.fields:
            return owner.items[owner.fields.index(name)]
        if isinstance(owner, Tensor | Quantized):
            return self.operators.property(owner, name)
        if not isinstance(owner, Object):
            refuse("TS0005", f"{type_name(owner)} has no attribute {name!r}")
        if name in owner.attributes:
            return self.state.lifted(owner, name)
        constant = owner.type.constants.get(name)
        if constant is None:
            refuse("TS0005", f"{owner.type.name} has no attribute {name!r}")
        return self.expression(constant, {})

    def _in_namespace(self, space: Namespace, name: str) -> Any:
        if space.name == "CONSTANTS":
            return self.state.constant(name)
        full = f"{space.name}.{name}"
        if space.name.startswith(_ROOT):
            found = self.texts.find(full)
            if isinstance(found, FunctionText):
                return Function(found)
            if found is not None:
                return found
        return Namespace(full)

    # Calls in expressions

    def _call(self, node: ast.Call, variables: Mapping[str, Any]) -> Any:
        self._steps += 1
        function = node.func
        if isinstance(function, ast.Name) and function.id not in variables:
            special = self._special(function.id, node, variables)
            if special is not NotImplemented:
                return special
        given = [self.expression(argument, variables) for argument in node.args]
        named = {str(op_type.arg): self.expression(op_type.value, variables) for op_type in node.keywords}
        if isinstance(function, ast.Attribute):
            owner = self.expression(function.value, variables)
            if isinstance(owner, ClassText) and function.attr == "__new__":
                return Object(owner, {})
            if not isinstance(owner, Namespace):
                return self.call_method(owner, function.attr, given, named)
            return self.apply(self._in_namespace(owner, function.attr), given, named)
        return self.apply(self.expression(function, variables), given, named)

    def apply(self, function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Evaluate a call."""
        match function:
            case Function():
                return self.invoke(function.text, given, named, function.scope or {})
            case ClassText():
                return self._created(function, given, named)
            case Namespace():
                return self._named(function.name, given, named)
            case Object() if "__call__" in function.type.methods:
                return self.call_method(function, "__call__", given, named)
            case _:
                refuse("TS0005", f"{type_name(function)} is not a function")
        return None

    def _named(self, name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        space, _, own = name.rpartition(".")
        if space == "builtins" and own in _BUILTINS:
            return _BUILTINS[own](self, given)
        if space.startswith(_ROOT):
            refuse("TS0005", f"undefined function or class {name}")
        if space == "ops.prim" and own == "RaiseException":
            message = shown(given[0]) if given else ""
            raise RaisedError(message)
        return self.operators.call(space, own, list(given), dict(named))

    def _created(self, text: ClassText, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Create an instance of a class of the archive."""
        if text.base == "NamedTuple":
            fields = tuple(text.types)
            items = [*given, *(named[field] for field in fields[len(given) :] if field in named)]
            if len(items) != len(fields):
                refuse("TS0011", f"{text.name} has {len(fields)} fields, got {len(items)}")
            return NamedTuple(fields, tuple(items))
        made = Object(text, {})
        if "__init__" in text.methods:
            self.call_method(made, "__init__", given, named)
        return made

    def _annotated(self, value: Any, type_: str) -> Any:
        """Convert a value to its declared type: a tensor of one element to a scalar, an empty list to a typed one."""
        if type_ in ("int", "float", "bool") and isinstance(value, Tensor):
            return self.operators.to_scalar(value, type_)
        return _typed(value, type_)

    def _special(self, name: str, node: ast.Call, variables: Mapping[str, Any]) -> Any:
        """Evaluate calls with types or names as arguments."""
        match name, node.args:
            case "annotate", [type_, value]:
                return self._annotated(self.expression(value, variables), ast.unparse(type_))
            case "unchecked_cast", [_, value]:
                return self.expression(value, variables)
            case "uninitialized", [_]:
                return UNINITIALIZED
            case "isinstance", [value, type_]:
                return is_instance(self.expression(value, variables), type_)
            case "getattr", [owner, ast.Constant(value=str(attribute))]:
                return self.attribute(self.expression(owner, variables), attribute)
            case "hasattr", [owner, ast.Constant(value=str(attribute))]:
                found = self.expression(owner, variables)
                return isinstance(found, Object) and (attribute in found.attributes or attribute in found.type.methods)
            case (("fork" | "awaitable"), [function, *rest]):
                given = [self.expression(argument, variables) for argument in rest]
                return Future(self.apply(self.expression(function, variables), given, {}))
            case _:
                return NotImplemented


def _typed(value: Any, type_: str) -> Any:
    """Set the declared element type of an empty list."""
    if isinstance(value, List) and not value.element and type_.startswith("List["):
        value.element = type_[5:-1]
    return value


def is_instance(value: Any, type_: ast.expr) -> bool:
    """Evaluate `isinstance` for a type of the code."""
    if isinstance(type_, ast.Tuple | ast.List):
        return any(is_instance(value, each) for each in type_.elts)
    name = ast.unparse(type_)
    base, _, inner = name.partition("[")
    kind = type_name(value)
    match base:
        case "Tensor" | "int" | "float" | "bool" | "str" | "complex" | "Device":
            return kind == base
        case "NoneType":
            return value is None
        case "number":
            return kind in ("int", "float", "complex")
        case "Optional":
            return value is None or is_instance(value, ast.parse(inner[:-1], mode="eval").body)
        case "List" | "Dict" | "Tuple":
            if kind != base or base != "List":
                return kind == base
            return not value.items or is_instance(value.items[0], ast.parse(inner[:-1], mode="eval").body)
        case "Any":
            return True
        case _:
            return isinstance(value, Object) and value.type.name == name


def _string(evaluator: Evaluator, given: Sequence[Any]) -> str:
    del evaluator
    if isinstance(given[0], RuntimeScalar | Tensor):
        refuse("TS0009", "a string conversion of a number that depends on run-time values")
    return shown(given[0])


def _list(evaluator: Evaluator, given: Sequence[Any]) -> Any:
    return containers.as_list(evaluator, given[0])


def _conversion(kind: Kind) -> Any:
    """Return the function that converts a value to a scalar."""

    def convert(evaluator: Evaluator, given: Sequence[Any]) -> Any:
        return evaluator.operators.to_scalar(given[0], kind)

    return convert


def _print(*_: Any) -> Any:
    return None


def _torch_function(name: str) -> Any:
    """Return the `torch` function for a built-in function."""

    def call(evaluator: Evaluator, given: Sequence[Any]) -> Any:
        return evaluator.operators.call("torch", name, list(given), {})

    return call


_BUILTINS: dict[str, Any] = {
    "int": _conversion("int"),
    "float": _conversion("float"),
    "bool": _conversion("bool"),
    "complex": _torch_function("Complex"),
    "str": _string,
    "list": _list,
    "print": _print,
    **{name: _torch_function(name) for name in ("len", "ord", "chr", "abs", "max", "min", "sorted", "round", "divmod")},
}
