"""Generate a Python module from the document of a program: a class for each module, built as a syntax tree.

The source is a fixed template around statements that `core.python_code` builds: strings of a model are never executed.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from graphport.core.python_code import CodeError, Names, assign, attribute, call, checked, literal, path, source
from graphport.formats.pytorch.pt2.schema import DTYPES, MEMORY_FORMATS
from graphport.formats.pytorch.pt2.spans import modules_of
from graphport.formats.pytorch.rules.emitting import dtype_name
from graphport.formats.pytorch.schemas import schema_of, schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Json = dict[str, Any]
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_TITLE = re.compile(r"\W+", re.ASCII)
_RESERVED = ("self", "torch", "nn", "aten", "Path", "load", "load_file", "Model")
_OPERATORS: Mapping[str, type[ast.operator]] = MappingProxyType(
    {"add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "floordiv": ast.FloorDiv}
)
_FUNCTIONS = {"torch.sym_max": "max", "torch.sym_min": "min"}
_HEAD = '''"""{title}, written by graphport: a PyTorch module. `load()` reads its weights from the file beside it."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

aten = torch.ops.aten
{imports}
'''
_TAIL = '''

def load(weights=Path(__file__).with_name({weights})):
    """The module with its weights."""
    with torch.device("meta"):
        model = Model()
    model.load_state_dict(load_file(weights), assign=True)
    return model
'''
_QUANTIZED = "import torch.ao.quantization.fx._decomposed  # registers the operators of quantized_decomposed\n"
_END = math.inf


def code_of(document: Json, title: str, weights: str) -> str:
    """Return the Python source of a program whose weights are in the file `weights`.

    Raises:
        CodeError: an operator or an argument has no form in Python.
    """
    return _Coder(document["graph_module"]).text(title, weights)


@dataclass(slots=True, eq=False)
class _Module:
    """A module: its qualified name, and its nodes `start` to `stop` in order, some of them in modules inside."""

    name: str
    start: int
    stop: int = 0
    items: list[Json | _Module] = field(default_factory=list["Json | _Module"])

    def relative(self, name: str) -> str | None:
        """Return the qualified name `name` relative to this module; `None` outside of it."""
        if not self.name:
            return name
        return name.removeprefix(f"{self.name}.") if name.startswith(f"{self.name}.") else None


class _Scope:
    """The Python names of the values of one function."""

    def __init__(self) -> None:
        self.names = Names(_RESERVED)
        self.values: dict[str, ast.expr] = {}

    def add(self, value: str, wanted: str) -> ast.Name:
        """Create a variable for `value`."""
        name = self.values[value] = ast.Name(self.names.make(wanted, "v"))
        return name

    def unused(self) -> ast.Name:
        return ast.Name(self.names.make("unused", "v"))

    def __getitem__(self, value: str) -> ast.expr:
        return self.values[value]


class _Coder:
    def __init__(self, module: Json) -> None:
        graph = self._graph = module["graph"]
        specs = map(_weight_of, module["signature"]["input_specs"])
        self._weights = [spec for spec in specs if spec is not None]
        self._owned: dict[str, list[_Weight]] = {}
        """The weights of each module, except for those of modules inside of it."""
        self._metas: Mapping[str, Json] = graph["tensor_values"]
        self._qualified = {spec.argument: spec.name for spec in self._weights}
        names = (_name_of(value) for value in graph["inputs"])
        self._inputs = [name for name in names if name not in self._qualified]
        self._defined: dict[str, int] = {}
        self._last_read: dict[str, float] = {}
        self._classes: dict[str, str] = {}
        self._class_names = Names(_RESERVED)

    def text(self, title: str, weights: str) -> str:
        nodes: list[Json] = self._graph["nodes"]
        for index, node in enumerate(nodes):
            self._defined.update(dict.fromkeys(_names_in(node["outputs"]), index))
            self._last_read.update(dict.fromkeys(_names_in(node["inputs"]), index))
        self._last_read.update(dict.fromkeys(_names_in(self._graph["outputs"]), _END))
        modules = _tree(nodes)
        known = {module.name for module in modules}
        for spec in self._weights:
            owner = spec.name
            while owner not in known:
                owner = owner.rpartition(".")[0]
            self._owned.setdefault(owner, []).append(spec)
        names: dict[_Module, str] = {}
        # Modules inside of a module follow it in this list, and their classes precede its class.
        for module in reversed(modules):
            names[module] = self._class(module, names)
        imports = _QUANTIZED if any("quantized_decomposed" in node["target"] for node in nodes) else ""
        head = _HEAD.format(title=_TITLE.sub("_", title)[:100] or "A model", imports=imports)
        classes = "".join(f"\n\nclass {name}(nn.Module):\n{body}\n" for body, name in self._classes.items())
        return head.rstrip() + "\n" + classes + _TAIL.format(weights=ast.unparse(literal(weights)))

    # Classes

    def _class(self, module: _Module, names: Mapping[_Module, str]) -> str:
        """Return the class of a module; modules with equal code share one."""
        made = [*self._initialization(module, names), self._forward(module)]
        body = "\n".join(f"    {line}" for statement in source(made) for line in [*statement.split("\n"), ""]).rstrip()
        body = "\n".join(line.rstrip() for line in body.split("\n"))
        if not module.name:
            self._classes[body] = "Model"
        elif body not in self._classes:
            self._classes[body] = self._class_names.make(_class_name(module), "Module")
        return self._classes[body]

    def _initialization(self, module: _Module, names: Mapping[_Module, str]) -> list[ast.stmt]:
        inside = {each.name: each for each in module.items if isinstance(each, _Module)}
        body = list(ast.parse("super().__init__()").body)
        known: set[str] = set()
        for name in sorted(inside):
            body += self._containers(module, name, known)
            body.append(_set_member(_relative(module, name), call(names[inside[name]]), "add_module"))
            known.add(name)
        for spec in self._owned.get(module.name, ()):
            body += self._containers(module, spec.name, known)
            meta = self._metas[spec.argument]
            shape = literal(tuple(size["as_int"] for size in meta["sizes"]))
            empty = call("torch.empty", shape, dtype=_dtype(meta["dtype"]))
            name = _relative(module, spec.name)
            if spec.is_parameter:
                body.append(_set_member(name, call("nn.Parameter", empty), "register_parameter"))
            else:
                owner, _, last = name.rpartition(".")
                body.append(ast.Expr(call(_method(_member(owner), "register_buffer"), literal(last), empty)))
        parameters = ast.arguments([], [ast.arg("self")], None, [], [], None, [])
        return [ast.FunctionDef("__init__", parameters, body, [])]

    def _containers(self, module: _Module, name: str, known: set[str]) -> Iterator[ast.stmt]:
        """Create the modules around the member `name` that are not called."""
        parts = _relative(module, name).split(".")[:-1]
        for count in range(1, len(parts) + 1):
            around = ".".join(parts[:count])
            full = f"{module.name}.{around}" if module.name else around
            if full not in known:
                known.add(full)
                yield _set_member(around, call("nn.Module"), "add_module")

    def _forward(self, module: _Module) -> ast.stmt:
        scope = _Scope()
        read = self._values_read(module)
        given = self._inputs if not module.name else [name for name in read if self._member_of(module, name) is None]
        arguments = [scope.add(name, name if not module.name else "x").id for name in given]
        for name in read:
            if name not in scope.values:
                scope.values[name] = cast("ast.expr", self._member_of(module, name))
        body: list[ast.stmt] = []
        for item in module.items:
            body += self._call(module, item, scope) if isinstance(item, _Module) else _statements(item, scope)
        results = self._results(module)
        if not module.name:
            for name in results:
                if name not in scope.values:
                    scope.values[name] = cast("ast.expr", self._member_of(module, name))
        body.append(_return([scope[name] for name in results]))
        parameters = ast.arguments([], [ast.arg("self"), *map(ast.arg, arguments)], None, [], [], None, [])
        return ast.FunctionDef("forward", parameters, body, [])

    def _call(self, module: _Module, inner: _Module, scope: _Scope) -> list[ast.stmt]:
        operands = [name for name in self._values_read(inner) if self._member_of(inner, name) is None]
        function = _member(_relative(module, inner.name))
        found = ast.Call(function, [scope[name] for name in operands], [])
        results = self._results(inner)
        if not results:
            return [ast.Expr(found)]
        wanted = _OTHER.sub("_", inner.name.split(".")[-1])
        return [assign([scope.add(name, wanted) for name in results], found)]

    def _values_read(self, module: _Module) -> list[str]:
        """Return the values that a module reads and does not compute, in order."""
        nodes = self._graph["nodes"][module.start : module.stop]
        names = dict.fromkeys(name for node in nodes for name in _names_in(node["inputs"]))
        return [name for name in names if not module.start <= self._defined.get(name, -1) < module.stop]

    def _results(self, module: _Module) -> list[str]:
        """Return the values of a module that later nodes read; of the root the outputs."""
        if not module.name:
            return [_name_of(value) for value in self._graph["outputs"]]
        nodes = self._graph["nodes"][module.start : module.stop]
        names = [name for node in nodes for name in _names_in(node["outputs"])]
        return [name for name in names if self._last_read.get(name, -1) >= module.stop]

    def _member_of(self, module: _Module, name: str) -> ast.expr | None:
        """Return the weight `name` as a member of the module; `None` if the module does not contain it."""
        full = self._qualified.get(name)
        relative = None if full is None else module.relative(full)
        return None if relative is None else _member(relative, is_tensor=True)


@dataclass(frozen=True, slots=True)
class _Weight:
    argument: str
    name: str
    is_parameter: bool


def _weight_of(spec: Json) -> _Weight | None:
    if "parameter" in spec:
        return _Weight(spec["parameter"]["arg"]["name"], spec["parameter"]["parameter_name"], is_parameter=True)
    if "buffer" in spec:
        return _Weight(spec["buffer"]["arg"]["name"], spec["buffer"]["buffer_name"], is_parameter=False)
    return None


def _tree(nodes: Sequence[Json]) -> list[_Module]:
    """Return the root and all modules inside, a module before the modules inside of it."""
    modules = [_Module("", 0, len(nodes))]
    opened = [modules[0]]
    for index, node in enumerate(nodes):
        names = [name for name in modules_of(node["metadata"].get("nn_module_stack")) if name]
        common = 0
        while common < min(len(names), len(opened) - 1) and opened[common + 1].name == names[common]:
            common += 1
        del opened[common + 1 :]
        for name in names[common:]:
            inner = _Module(name, index)
            opened[-1].items.append(inner)
            opened.append(inner)
            modules.append(inner)
        for module in opened[1:]:
            module.stop = index + 1
        opened[-1].items.append(node)
    return modules


# Members


def _relative(module: _Module, name: str) -> str:
    found = module.relative(name)
    if found is None:
        message = f"{name} is not in the module {module.name}"
        raise CodeError(message)
    return found


def _is_attribute(name: str) -> bool:
    try:
        return all(checked(part) for part in name.split("."))
    except CodeError:
        return False


def _member(name: str, *, is_tensor: bool = False) -> ast.expr:
    """Return the expression `self.a.b`, or `self.get_submodule("0")` if a part of the name is not an identifier."""
    if not name:
        return ast.Name("self")
    if _is_attribute(name):
        return attribute(ast.Name("self"), name)
    owner, _, last = name.rpartition(".")
    if is_tensor:
        return call("getattr", _member(owner), literal(last))
    return call("self.get_submodule", literal(name))


def _method(value: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(value, name)


def _set_member(name: str, value: ast.expr, method: str) -> ast.stmt:
    if _is_attribute(name):
        return assign([attribute(ast.Name("self"), name)], value)
    owner, _, last = name.rpartition(".")
    return ast.Expr(call(_method(_member(owner), method), literal(last), value))


# Statements


def _statements(node: Json, scope: _Scope) -> list[ast.stmt]:
    target: str = node["target"]
    if target == "torch.ops.higher_order.cond":
        return _branch(node, scope)
    if target == "torch.ops.higher_order.while_loop":
        return _loop(node, scope)
    found = _expression(target, node["inputs"], scope)
    return [_assigned(node, _operator_name(node), found, scope)]


def _assigned(node: Json, wanted: str, found: ast.expr, scope: _Scope) -> ast.stmt:
    outputs: list[Json] = node["outputs"]
    is_list = len(outputs) == 1 and "as_tensors" in outputs[0]
    names = _names_in(outputs) if is_list else [_name_of(output) for output in outputs]
    targets = [scope.add(name, wanted) if name else scope.unused() for name in names]
    if not targets:
        return ast.Expr(found)
    is_tuple = is_list or node["is_hop_single_tensor_return"] is False
    return assign(targets, found, is_tuple=is_tuple)


def _branch(node: Json, scope: _Scope) -> list[ast.stmt]:
    condition, then, other, *rest = [argument["arg"] for argument in node["inputs"]]
    operands = [item for argument in rest for item in _list_arguments(argument, scope)]
    functions = [_function(name, each, scope) for name, each in (("then_branch", then), ("else_branch", other))]
    one, two = (ast.Call(ast.Name(each.name), list(operands), []) for each in functions)
    chosen = ast.IfExp(_value(condition, scope), one, two)
    return [*functions, _assigned(node, "cond", chosen, scope)]


def _loop(node: Json, scope: _Scope) -> list[ast.stmt]:
    condition, body, *rest = [argument["arg"] for argument in node["inputs"]]
    carried, *others = [_list_arguments(argument, scope) for argument in rest]
    constant = [item for items in others for item in items]
    functions = [_function("goes_on", condition, scope), _function("body", body, scope)]
    state = ast.Name(scope.names.make("state", "v"))
    calls = [ast.Call(ast.Name(each.name), [ast.Starred(state), *constant], []) for each in functions]
    again: ast.stmt = ast.While(calls[0], [assign([state], calls[1])], [])
    return [*functions, assign([state], ast.Tuple(carried)), again, _assigned(node, "loop", state, scope)]


def _function(wanted: str, argument: Json, scope: _Scope) -> ast.FunctionDef:
    """Define a function of a graph; its names differ from those around it."""
    graph: Json = argument["as_graph"]["graph"]
    inner = _Scope()
    inner.names = scope.names
    name = scope.names.make(wanted, "f")
    arguments = [ast.arg(inner.add(_name_of(value), "x").id) for value in graph["inputs"]]
    body = [statement for node in graph["nodes"] for statement in _statements(node, inner)]
    results = [_value(value, inner) for value in graph["outputs"]]
    is_single = graph["is_single_tensor_return"]
    body.append(ast.Return(results[0] if is_single else ast.Tuple(results)))
    return ast.FunctionDef(name, ast.arguments([], arguments, None, [], [], None, []), body, [])


def _class_name(module: _Module) -> str:
    """Return the name of a module's class in camel case, from the last part of the module's qualified name.

    A number is replaced by the name of the module's only operator, or of the enclosing module.
    """
    *around, last = module.name.split(".")
    if last.isdigit():
        operators = [item for item in module.items if not isinstance(item, _Module)]
        is_operator = len(operators) == len(module.items) == 1
        last = _operator_name(operators[0]) if is_operator else around[-1] if around else "block"
    return "".join(part[:1].upper() + part[1:] for part in _OTHER.split(last))


def _operator_name(node: Json) -> str:
    return node["target"].removeprefix("torch.ops.").split(".")[1]


def _return(results: list[ast.expr]) -> ast.stmt:
    return ast.Return(results[0] if len(results) == 1 else ast.Tuple(results))


def _expression(target: str, inputs: Sequence[Json], scope: _Scope) -> ast.expr:
    """Return the call of an operator.

    Raises:
        CodeError: it is not an operator of ATen or `quantized_decomposed`.
    """
    arguments = [_value(each["arg"], scope) for each in inputs if each["kind"] == 1]
    keywords = {each["name"]: _value(each["arg"], scope) for each in inputs if each["kind"] != 1}
    operator = _OPERATORS.get(target.removeprefix("_operator."))
    if operator is not None and target.startswith("_operator.") and len(arguments) == 2:
        return ast.BinOp(arguments[0], operator(), arguments[1])
    if target in _FUNCTIONS:
        return call(_FUNCTIONS[target], *arguments)
    op_type = target.removeprefix("torch.ops.")
    if schema_of(op_type) is None:
        message = f"{op_type} is not an operator of PyTorch"
        raise CodeError(message)
    if op_type == "aten.sym_size.int" and len(arguments) == 2:
        return ast.Subscript(attribute(arguments[0], "shape"), arguments[1])
    if op_type == "aten.item.default":
        return call(attribute(arguments[0], "item"))
    space, name, overload = op_type.split(".")
    function: ast.expr = ast.Name("aten") if space == "aten" else path(f"torch.ops.{space}")
    # Names of known operators, which may be private.
    for part in (name,) if space == "aten" and len(schemas(name)) == 1 else (name, overload):
        function = ast.Attribute(function, part)
    return call(function, *arguments, **keywords)


# Arguments


def _value(argument: Json, scope: _Scope) -> ast.expr:
    """Return an argument as an expression."""
    (kind, value), *_ = argument.items()
    match kind:
        case "as_none":
            return literal(None)
        case "as_tensor" | "as_sym_int" | "as_sym_float" | "as_sym_bool":
            return scope[_name_of(argument)] if _name_of(argument) else literal(value["as_int"])
        case "as_tensors" | "as_optional_tensors" | "as_sym_ints":
            return ast.List(_list_arguments(argument, scope))
        case "as_float":
            return literal(float(value))
        case "as_floats":
            return literal([float(each) for each in value])
        case "as_int" | "as_ints" | "as_bool" | "as_bools" | "as_string" | "as_strings":
            return literal(value)
        case "as_complex":
            return literal(complex(float(value["real"]), float(value["imag"])))
        case "as_scalar_type":
            return _dtype(value)
        case "as_layout":
            return path("torch.strided")
        case "as_device":
            return call("torch.device", literal(value["type"]))
        case "as_memory_format":
            name = MEMORY_FORMATS[value]
            return path(f"torch.{name}" if name.startswith("channels") else f"torch.{name}_format")
        case _:
            message = f"an argument of kind {kind}"
            raise CodeError(message)


def _list_arguments(argument: Json, scope: _Scope) -> list[ast.expr]:
    """Return the items of a list of tensors or sizes."""
    (kind, value), *_ = argument.items()
    if kind == "as_tensors":
        return [scope[each["name"]] for each in value]
    if kind == "as_optional_tensors":
        return [_value(each, scope) for each in value]
    if kind == "as_sym_ints":
        return [scope[each["as_name"]] if "as_name" in each else literal(each["as_int"]) for each in value]
    return [literal(each) for each in value]


def _dtype(number: int) -> ast.expr:
    return path(dtype_name(DTYPES[number]))


def _name_of(argument: Json) -> str:
    """Return the name of a value; empty for an argument that is no value."""
    (_, value), *_ = argument.items()
    found = cast("Json", value) if isinstance(value, dict) else {}
    return found.get("name", found.get("as_name", ""))


def _names_in(arguments: Iterable[Any]) -> list[str]:
    """Return the names of all values in arguments, not those inside of graphs."""
    found: list[str] = []
    for argument in arguments:
        (kind, value), *_ = argument.get("arg", argument).items()
        if kind in ("as_tensors", "as_sym_ints"):
            found += [name for each in value if (name := each.get("name", each.get("as_name")))]
        elif kind == "as_optional_tensors":
            found += [name for each in value if (name := _name_of(each))]
        elif kind != "as_graph" and (name := _name_of({kind: value})):
            found.append(name)
    return found
