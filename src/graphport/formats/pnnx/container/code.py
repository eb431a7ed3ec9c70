"""Write a PNNX graph as a PyTorch module: Python source that reads its weights from the archive next to it.

The source is a fixed template around statements that `core.python_code` builds: strings of a model are never executed.
"""

from __future__ import annotations

import ast
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.python_code import (
    CodeError,
    Names,
    assign,
    attribute,
    call,
    checked,
    literal,
    merged,
    path,
    source,
)
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import List, Literal, postorder
from graphport.formats.pnnx.container.code_expressions import ResultKind, expression_code
from graphport.formats.pytorch.rules.binding import COMPLEX, DIALECT, DTYPES, ITEM, KEYS, named_dtype
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

_TITLE = re.compile(r"\W+", re.ASCII)
_END = 2**31 - 1
_MAX_RANK = 64
_MODULE_ATTRIBUTES = (
    *("T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu"),
    *("cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer", "get_extra_state"),
    *("get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers"),
    *("named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook"),
    *("register_buffer", "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"),
    *("register_full_backward_pre_hook", "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook"),
    *("register_module", "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook"),
    *("requires_grad_", "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train"),
    *("training", "type", "xpu", "zero_grad"),
)
"""Public attributes of `torch.nn.Module` in PyTorch 2.13."""
_RESERVED = frozenset(
    {"self", "torch", "nn", "F", "weight", "archive", "Path", "zipfile", "WEIGHTS", "Model", *_MODULE_ATTRIBUTES}
)
_TUPLE = "prim::TupleConstruct"
_ATTENTION = "nn.MultiheadAttention"
_MASKS = ("attn_mask", "key_padding_mask")
_ADAPTIVE = ("nn.Adaptive", "F.adaptive_")
_POSITIONAL = {"torch.where": ("condition", "input", "other")}
"""Functions with positional-only parameters, and their order."""
_LIST_FUNCTIONS = frozenset({"torch.cat", "torch.stack"})
"""Functions whose first argument is a list of tensors."""
_SPLITS = frozenset({"torch.split", "torch.unbind", "torch.chunk", "torch.tensor_split"})
"""Functions that return a tuple even if it has one item."""
_STATES = {"nn.LSTM": 2, "nn.GRU": 1, "nn.RNN": 1}
"""Recurrent layers and the count of their states."""
_CELL = "nn.LSTMCell"
_FUNCTIONS = {"aten::one_hot": ("F.one_hot", "input")}
"""ATen operators that pnnx does not rename: the Python function and its first parameter."""
_CONSTANTS = frozenset(
    {
        *DTYPES,
        *("torch.strided", "torch.preserve_format", "torch.contiguous_format"),
        *("torch.channels_last", "torch.channels_last_3d"),
    }
)
"""Dtypes, layouts and memory formats, which PNNX represents as strings."""
_TYPES: Mapping[DType, str] = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})

_HEAD = '''"""{title}, written by graphport: a module of PyTorch, with its weights in the archive beside it."""

import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

WEIGHTS = Path(__file__).with_name({archive})


def weight(archive, name, dtype, *shape):
    """A tensor that is stored in the archive as its bytes."""
    data = bytearray(archive.read(name))
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.zeros(shape, dtype=dtype)


class Model(nn.Module):
    """{results} of {inputs}."""

    def __init__(self):
        super().__init__()
'''
_TAIL = """

if __name__ == "__main__":
    torch.manual_seed(0)
    model = Model().eval()
    with torch.no_grad():
        results = model({samples})
    for result in results if isinstance(results, tuple) else (results,):
        print(tuple(result.shape), result.dtype)
"""


def code_of(graph: Graph, archive: str, names: Mapping[Value, str]) -> str:
    """Return the Python source; `names` maps first results to operator names in the archive `archive`.

    Raises:
        CodeError: an operator has no form in Python.
    """
    return _Coder(graph, archive, names).text()


class _Operands(NamedTuple):
    """Operands of a node as Python arguments: keyword and positional."""

    values: list[ast.expr]
    named: dict[str, ast.expr]
    unnamed: list[ast.expr]


class _Coder:
    def __init__(self, graph: Graph, archive: str, names: Mapping[Value, str]) -> None:
        self.graph = graph
        self.archive = archive
        self.archive_names = names
        self.variables: dict[Value, ast.expr] = {}
        self.numbers: set[Value] = set()
        self.modules: dict[Node, ast.expr] = {}
        self.names = Names(_RESERVED)
        self.statements: list[ast.stmt] = []

    def text(self) -> str:
        inputs = [self._variable(value) for value in self.graph.inputs]
        layers = [self._constant(value) for value in self.graph.constants if value.uses]
        for node in self.graph:
            if node.op_type.startswith("nn.") and node.op_type != "nn.Identity":
                layers += self._module(node)
            self._node(node)
        outputs = self._outputs()
        head = _HEAD.format(
            title=_TITLE.sub("_", self.graph.name)[:100] or "A model",
            archive=ast.unparse(literal(self.archive)),
            results=_counted(len(outputs), "result"),
            inputs=_counted(len(inputs), "input"),
        )
        returned = ast.Return(outputs[0] if len(outputs) == 1 else ast.Tuple(outputs))
        parameters = ", ".join(["self", *map(ast.unparse, inputs)])
        samples = ", ".join(ast.unparse(_sample(value)) for value in self.graph.inputs)
        forward = ["", f"    def forward({parameters}):", *_indented(source([*self.statements, returned]))]
        return head + "\n".join([*_initialization(source(layers)), *forward]) + "\n" + _TAIL.format(samples=samples)

    def _outputs(self) -> list[ast.expr]:
        found: list[ast.expr] = []
        pending = list(reversed(self.graph.outputs))
        while pending:
            value = pending.pop()
            node = value.producer
            if node is not None and node.op_type == _TUPLE:
                pending += reversed(node.operands)
            else:
                found.append(self._variable(value))
        return found

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _variable(self, value: Value) -> ast.expr:
        if value not in self.variables:
            self.variables[value] = ast.Name(self.names.make(value.name, "v"))
        return self.variables[value]

    def _temporary(self, tree: ast.expr) -> ast.expr:
        name = ast.Name(self.names.make("part", "v"))
        self.statements.append(assign([name], tree))
        return name

    # ── weights and layers ───────────────────────────────────────────────────────────────────────────────────────────

    def _constant(self, value: Value) -> ast.stmt:
        name = self.names.make(value.name, "c")
        self.variables[value] = attribute(ast.Name("self"), name)
        if value.storage is None:
            message = f"the elements of {value.name} are missing"
            raise CodeError(message)
        stored = _stored(f"{self.archive_names[value]}.data", value.storage)
        return ast.Expr(call("self.register_buffer", literal(name), stored))

    def _module(self, node: Node) -> list[ast.stmt]:
        layer = self.modules[node] = attribute(ast.Name("self"), self.names.make(node.name or node.op_type, "m"))
        owner = self.archive_names[node.results[0]]
        made: list[ast.stmt] = [assign([layer], call(_function(node), **_values(_parameters(node))))]
        for key, storage in node.attributes.items():
            if key.startswith("@") and isinstance(storage, Storage):
                target = attribute(attribute(layer, key[1:]), "data")
                made.append(assign([target], _stored(f"{owner}.{key[1:]}", storage)))
        return made

    # ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _node(self, node: Node) -> None:
        op_type = node.op_type
        if op_type == _TUPLE or not node.results:
            return
        if op_type == "prim::Constant":
            self._prim_constant(node)
        elif op_type == "Expression":
            self._expression(node)
        elif op_type in _STATES:
            self._recurrent(node)
        elif op_type == _ATTENTION:
            self._attention(node)
        else:
            self._assign(node, self._value(node))

    def _value(self, node: Node) -> ast.expr:
        """Return the expression of an operator that needs no special case."""
        op_type = node.op_type
        operands = self._operands(node)
        if op_type == "nn.Identity":
            return _first_operand(operands.values)
        if op_type.startswith("nn."):
            x, states = operands.values[:1], operands.values[1:]
            given = [ast.Tuple(states)] if op_type == _CELL and states else states
            return call(self.modules[node], *x, *given)
        if op_type.startswith("Tensor."):
            return self._method(node, operands)
        if op_type == "torch.einsum":
            return call("torch.einsum", literal(_needed(node.attributes, "equation")), *operands.values)
        if op_type in _LIST_FUNCTIONS:
            tensors = operands.named.pop("tensors", None) or ast.List(operands.unnamed)
            return call(_function(node), tensors, **merged(operands.named, _values(_parameters(node))))
        if op_type in _FUNCTIONS:
            name, first = _FUNCTIONS[op_type]
            return call(name, **merged({first: _first_operand(operands.values)}, _values(_parameters(node))))
        if op_type == "torch.arange":
            return _arange(node, operands)
        if not op_type.startswith(("torch.", "F.")):
            message = f"unsupported: {node.name or op_type} has the op type {op_type}"
            raise CodeError(message)
        if operands.named and operands.unnamed:
            message = f"unsupported: {node.name or op_type} has operands with and without a name"
            raise CodeError(message)
        arguments = merged(operands.named, _values(_parameters(node)))
        first = [arguments.pop(name) for name in _POSITIONAL.get(op_type, ()) if name in arguments]
        return call(_function(node), *operands.unnamed, *first, **arguments)

    def _operands(self, node: Node) -> _Operands:
        keys = node.attributes.get(KEYS)
        names = [str(key) for key in keys] if isinstance(keys, tuple) else []
        found = _Operands([self._variable(value) for value in node.operands], {}, [])
        for index, value in enumerate(found.values):
            name = names[index] if index < len(names) else ""
            if not name:
                found.unnamed.append(value)
            elif name.endswith(ITEM):
                items = found.named.setdefault(name.removesuffix(ITEM), ast.List([]))
                if not isinstance(items, ast.List):
                    message = f"the argument {name!r} is set twice"
                    raise CodeError(message)
                items.elts.append(value)
            else:
                found.named.update(merged({name: value}, {name: value} if name in found.named else {}))
        return found

    def _assign(self, node: Node, tree: ast.expr) -> None:
        targets = [self._variable(value) for value in node.results]
        self.statements.append(assign(targets, tree, is_tuple=node.op_type in _SPLITS))

    def _prim_constant(self, node: Node) -> None:
        value = node.attributes.get("value")
        if isinstance(value, bool | int | float):
            self.numbers.update(node.results)
        self._assign(node, _value_of(value))

    def _recurrent(self, node: Node) -> None:
        count = _STATES[node.op_type]
        operands = self._operands(node).values
        x, states = _first_operand(operands), operands[1:]
        if states and len(states) != count:
            message = f"unsupported: {node.op} with {len(states)} initial states"
            raise CodeError(message)
        given = [ast.Tuple(states)] if len(states) > 1 else states
        names = [self._variable(value) for value in node.results]
        names += [ast.Name(self.names.make("unused", "v")) for _ in range(len(names), count + 1)]
        last = ast.Tuple(names[1:]) if count > 1 else names[1]
        self.statements.append(assign([names[0], last], call(self.modules[node], x, *given)))

    def _attention(self, node: Node) -> None:
        """Call multi-head attention: query, key, value positional, masks by name; the second result is the weights."""
        names = node.attributes.get(KEYS)
        keys = [str(name) for name in names] if isinstance(names, tuple) else []
        mask = next((x for x, key in zip(node.operands, keys, strict=False) if key in _MASKS), None)
        inputs = [x for x in node.operands if x is not mask]
        logical = next((x for x in inputs if x.dtype is DType.BOOL), None)
        if logical is not None and (mask is None or mask.dtype is not DType.BOOL):
            # pnnx swaps the names of a logical mask and of the query, or gives the mask no name.
            inputs = [*([] if mask is None else [mask]), *(x for x in inputs if x is not logical)]
            mask = logical
        if not 1 <= len(inputs) <= 3:
            message = f"unsupported: {_ATTENTION} with {len(inputs)} tensors, expected 1 to 3"
            raise CodeError(message)
        inputs += [inputs[-1]] * (3 - len(inputs))
        named = {} if mask is None else {_mask_name(node, inputs, mask): self._variable(mask)}
        more = literal(value=len(node.results) > 1)
        made = call(self.modules[node], *map(self._variable, inputs), need_weights=more, **named)
        targets = [self._variable(value) for value in node.results]
        if len(targets) == 1:
            targets.append(ast.Name(self.names.make("unused", "v")))
        self.statements.append(assign(targets, made))

    def _expression(self, node: Node) -> None:
        text = str(node.attributes.get("expr", ""))
        try:
            tree = parse(text, ARITIES, lenient=True).tree
        except DiagnosticError as error:
            message = f"unsupported expression {text}"
            raise CodeError(message) from error
        numbers = [value in self.numbers for value in node.operands]
        operands = [self._variable(value) for value in node.operands]
        found = expression_code(tree, operands, numbers, self._temporary)
        if found.kind is ResultKind.NUMBER:
            self.numbers.update(node.results)
        self._assign(node, found.tree)

    def _method(self, node: Node, operands: _Operands) -> ast.expr:
        x = _first_operand(operands.values)
        if node.operands[0] in self.numbers:
            x = call("torch.as_tensor", x)
        name = node.op_type.removeprefix("Tensor.")
        _function(node)
        if name not in _METHODS:
            message = f"unsupported method {name}"
            raise CodeError(message)
        named = {key: value for key, value in operands.named.items() if value is not operands.values[0]}
        return _METHODS[name](x, _Arguments(node.attributes, named))


class _Arguments(NamedTuple):
    """Arguments of a method: literals of the file, and operands as Python expressions."""

    attributes: Mapping[str, Any]
    operands: Mapping[str, ast.expr]

    def __contains__(self, name: object) -> bool:
        return name in self.operands or name in self.attributes

    def code(self, name: str) -> ast.expr:
        """Return an argument as a Python expression.

        Raises:
            CodeError: it is missing.
        """
        if name in self.operands:
            return self.operands[name]
        return _value_of(_needed(self.attributes, name))


def _reshape(name: str, parameter: str) -> Callable[[ast.expr, _Arguments], ast.expr]:
    return lambda x, arguments: call(attribute(x, name), arguments.code(parameter))


def _to(x: ast.expr, arguments: _Arguments) -> ast.expr:
    return call(attribute(x, "to"), dtype=_dtype(_needed(arguments.attributes, "dtype")))


def _index(x: ast.expr, arguments: _Arguments) -> ast.expr:
    expr = arguments.attributes.get("expr")
    if "expr" in arguments.operands:
        return ast.Subscript(x, call("tuple", arguments.operands["expr"]))
    return ast.Subscript(x, ast.Tuple(_indices(expr)))


def _indices(expr: Any) -> list[ast.expr]:
    """Return one index for each axis; `None` selects the whole axis."""
    whole: ast.expr = ast.Slice()
    if is_sequence(expr):
        return [whole if item is None else _value_of(item) for item in expr]
    try:
        tree = parse(str(expr), ARITIES).tree
    except DiagnosticError as error:
        message = f"unsupported index {expr}"
        raise CodeError(message) from error
    if not isinstance(tree, List):
        message = f"unsupported index {expr}"
        raise CodeError(message)
    done: dict[int, ast.expr] = {}
    for node in postorder(tree):
        if isinstance(node, List):
            done[id(node)] = ast.List([done[id(part)] for part in node.arguments])
        elif isinstance(node, Literal) and not isinstance(node.value, str):
            done[id(node)] = literal(node.value)
        else:
            message = f"unsupported index {expr}"
            raise CodeError(message)
    items = [done[id(part)] for part in tree.arguments]
    return [whole if isinstance(item, ast.Constant) and item.value is None else item for item in items]


def _index_put(x: ast.expr, arguments: _Arguments) -> ast.expr:
    accumulate = arguments.code("accumulate") if "accumulate" in arguments else literal(value=False)
    indices = call("tuple", arguments.code("indices"))
    return call(attribute(x, "index_put"), indices, arguments.code("values"), accumulate)


def _slice(x: ast.expr, arguments: _Arguments) -> ast.expr:
    """Index one axis with a Python slice."""
    dim = arguments.attributes.get("dim")
    if not isinstance(dim, int) or not -_MAX_RANK <= dim < _MAX_RANK:
        message = "unsupported: a slice of several axes, or of an axis that is not constant"
        raise CodeError(message)
    cut = ast.Slice(*(_bound(arguments, name, default) for name, default in _BOUNDS.items()))
    before: list[ast.expr] = [ast.Slice()] * dim if dim >= 0 else [ast.Constant(...)]
    after: list[ast.expr] = [ast.Slice()] * (-dim - 1 if dim < 0 else 0)
    items = [*before, cut, *after]
    return ast.Subscript(x, ast.Tuple(items) if len(items) > 1 else cut)


_BOUNDS: Mapping[str, tuple[int | None, ...]] = MappingProxyType(
    {"start": (None, 0), "end": (None, _END), "step": (None, 1)}
)
"""Parameters of a slice, and the values that are equivalent to the default."""


def _bound(arguments: _Arguments, name: str, defaults: tuple[int | None, ...]) -> ast.expr | None:
    if name not in arguments.operands and arguments.attributes.get(name) in defaults:
        return None
    return arguments.code(name)


def _call_without_arguments(name: str) -> Callable[[ast.expr, _Arguments], ast.expr]:
    return lambda x, _: call(attribute(x, name))


_PLAIN_METHODS = (
    *("bool", "byte", "short", "int", "long", "half", "bfloat16", "float", "double"),
    *("clone", "contiguous", "detach", "t"),
)
"""Methods called without arguments; memory formats have no effect on the elements."""
_METHODS: Mapping[str, Callable[[ast.expr, _Arguments], ast.expr]] = MappingProxyType(
    {
        **{name: _call_without_arguments(name) for name in _PLAIN_METHODS},
        "unflatten": lambda x, arguments: call(
            attribute(x, "unflatten"), arguments.code("dim"), arguments.code("sizes")
        ),
        "reshape": _reshape("reshape", "shape"),
        "view": _reshape("view", "shape"),
        "permute": _reshape("permute", "dims"),
        "expand": _reshape("expand", "sizes"),
        "repeat": _reshape("repeat", "sizes"),
        "select": lambda x, arguments: call(attribute(x, "select"), arguments.code("dim"), arguments.code("index")),
        "to": _to,
        "slice": _slice,
        "index": _index,
        "index_put": _index_put,
    }
)


def _function(node: Node) -> ast.expr:
    """Return the Python function or class of a node.

    Raises:
        CodeError: no import rule exists for this operator.
    """
    op_type = node.op_type
    if registry.lowering(DIALECT, op_type) is None and registry.lowering(DIALECT, f"{COMPLEX}{op_type}") is None:
        message = (
            f"unsupported: {node.name or op_type} has the op type {op_type}, which is not a known operator of PyTorch"
        )
        raise CodeError(message)
    return path(op_type)


def _parameters(node: Node) -> dict[str, Any]:
    """Return the non-tensor arguments of a node."""
    found = {key: value for key, value in node.attributes.items() if not key.startswith(("@", KEYS))}
    sizes = found.get("output_size")
    if node.op_type.startswith(_ADAPTIVE) and is_sequence(sizes):
        # pnnx writes 0 for an unchanged size.
        found["output_size"] = tuple(size or None for size in sizes)
    return found


def _mask_name(node: Node, inputs: Sequence[Value], mask: Value) -> str:
    """Return the mask parameter, which PNNX always calls `attn_mask`.

    Its rank distinguishes position and batch masks.
    """
    shapes = [value.fact.shape for value in (mask, *inputs[:2]) if isinstance(value.fact, TensorFact)]
    if len(shapes) < 3 or any(shape is None for shape in shapes):
        return "attn_mask"
    rows, query, key = (shape or () for shape in shapes)
    if len(rows) != 2 or len(query) != 3 or len(key) != 3:
        return "attn_mask"
    items, positions = (0, 1) if node.attributes.get("batch_first") else (1, 0)
    return "key_padding_mask" if rows[0] == key[items] and rows[0] != query[positions] else "attn_mask"


def _values(parameters: Mapping[str, Any]) -> dict[str, ast.expr]:
    return {checked(key): _value_of(value) for key, value in parameters.items()}


def _value_of(value: Any) -> ast.expr:
    """Return a parameter value as a literal or a PyTorch constant."""
    if isinstance(value, str) and value.startswith("torch."):
        if value not in _CONSTANTS:
            message = f"unsupported value {value!r}"
            raise CodeError(message)
        return path(value)
    return literal(value)


def _dtype(value: Any) -> ast.expr:
    try:
        dtype = named_dtype(value)
    except UnsupportedError as error:
        raise CodeError(str(error)) from error
    return literal(None) if dtype is None else path(_TYPES[dtype])


def _arange(node: Node, operands: _Operands) -> ast.expr:
    """Call `torch.arange`, whose bounds are positional-only."""
    unnamed = {"end": operands.unnamed[0]} if len(operands.unnamed) == 1 else {}
    given = merged(operands.named, unnamed, _values(_parameters(node)))
    bounds = [given.get(name, literal(default)) for name, default in (("start", 0), ("end", 0), ("step", 1))]
    dtype = _parameters(node).get("dtype")
    return call(_function(node), *bounds, **({} if dtype is None else {"dtype": _dtype(dtype)}))


def _needed(attributes: Mapping[str, Any], name: str) -> Any:
    if name not in attributes:
        raise _missing(f"the argument {name}")
    return attributes[name]


def _first_operand(values: Sequence[ast.expr]) -> ast.expr:
    if not values:
        raise _missing("an operand")
    return values[0]


def _missing(name: str) -> CodeError:
    return CodeError(f"{name} is missing")


def _stored(name: str, storage: Storage) -> ast.expr:
    if storage.dtype not in _TYPES:
        message = f"unsupported: {name} has the element type {storage.dtype}"
        raise CodeError(message)
    lengths = [literal(length) for length in storage.shape]
    return call("weight", ast.Name("archive"), literal(name), path(_TYPES[storage.dtype]), *lengths)


def _initialization(lines: Sequence[str]) -> list[str]:
    if not any("weight(archive, " in line for line in lines):
        return _indented(lines) or ["        pass"]
    return ["        with zipfile.ZipFile(WEIGHTS) as archive:", *(f"            {line}" for line in lines)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"        {line}" for line in lines]


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _sample(value: Value) -> ast.expr:
    """Create random elements for an input; open dims have size 4."""
    fact = value.fact
    dims = fact.shape or () if isinstance(fact, TensorFact) else ()
    dtype = (fact.dtype if isinstance(fact, TensorFact) else None) or DType.FLOAT32
    shape = literal(tuple(dim if isinstance(dim, int) else 4 for dim in dims))
    if dtype.is_floating:
        made = call("torch.rand", shape)
        name = _TYPES.get(dtype, "torch.float32")
        return made if dtype is DType.FLOAT32 else call(attribute(made, "to"), path(name))
    return call("torch.zeros", shape, dtype=path(_TYPES.get(dtype, "torch.int64")))
