"""Build the JSON document of a program: graph, signature, and facts of all values."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, Span
from graphport.core.dims import TooLong
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.core.python_code import CodeError
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.parameters import PARAMETER, parameter_kind
from graphport.formats.pytorch.pt2.custom_operators import NAMESPACE
from graphport.formats.pytorch.pt2.modules import ModuleStacks, readable_name, scope_paths, weight_paths
from graphport.formats.pytorch.pt2.names import Identifiers, QualifiedNames
from graphport.formats.pytorch.pt2.schema import DTYPES, MEMORY_FORMATS, STRIDED
from graphport.formats.pytorch.pt2.sizes import Sizes
from graphport.formats.pytorch.rules.binding import DTYPES as DTYPE_NAMES
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.rules.emitting import ITEM, is_python_scalar
from graphport.formats.pytorch.schemas import schema_of
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.storage import Storage
    from graphport.formats.pytorch.pt2.custom_operators import CustomOperators
    from graphport.formats.pytorch.pt2.modules import Path
    from graphport.formats.pytorch.schemas import Argument, Schema

DIALECT = "pytorch"
SCHEMA_VERSION = {"major": 8, "minor": 20}
_OPSET = {"aten": 10}
_OVERLOADS = ("aten.", "higher_order.", "quantized_decomposed.", "torchao.")
_HIGHER_ORDER = "higher_order."
_WHILE = "higher_order.while_loop"
_POSITIONAL, _KEYWORD = 1, 2
_NUMBERS = {
    DType.BOOL: "as_sym_bool",
    DType.FLOAT64: "as_sym_float",
    DType.FLOAT32: "as_sym_float",
}
_NUMBER_OF = {dtype: number for number, dtype in DTYPES.items()}
_LAYOUTS = {name: number for number, name in MEMORY_FORMATS.items()}
_NAME, _PATH = 1, 2


class ProgramWriter:
    """Encoder of one graph of the dialect `pytorch`; errors are collected in `findings`."""

    def __init__(self, graph: Graph, source: Source, custom: CustomOperators | None = None) -> None:
        """Create a writer; `custom` collects operators that torch lacks, which are refused without it."""
        self.graph = graph
        self._custom = custom
        self.findings: list[Diagnostic] = []
        self.weights: dict[str, tuple[Storage, bool]] = {}
        """Elements by qualified name, and whether they are a parameter."""
        self._source = source
        self._sizes = Sizes(graph.extents)
        self._names: dict[Value, str] = {}
        self._identifiers = Identifiers()
        self._qualified: dict[Value, str] = {}
        self._modules: dict[Node, Path] = {}
        self._stacks = ModuleStacks()

    def document(self) -> dict[str, Any]:
        """Return the program; nodes and values that cannot be written are reported in `findings`."""
        self._name_values()
        self._sizes.declare(value.shape or () for value in self.graph.inputs)
        weights = [value for value in self.graph.constants if _is_weight(value)]
        weights.sort(key=lambda value: parameter_kind(value) != PARAMETER)
        graph = self._graph(self.graph, [*weights, *self.graph.inputs])
        module = {
            "graph": graph,
            "signature": {
                "input_specs": [*map(self._weight, weights), *map(self._user_input, self.graph.inputs)],
                "output_specs": [{"user_output": {"arg": self._argument_of(value)}} for value in self.graph.outputs],
            },
            "module_call_graph": [{"fqn": "", "signature": self._call_signature()}],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        }
        return {
            "graph_module": module,
            "opset_version": _OPSET,
            "range_constraints": self._sizes.range_constraints,
            "schema_version": SCHEMA_VERSION,
            "verifiers": ["TRAINING"],
            "torch_version": "",
            "guards_code": [],
        }

    # Names

    def _name_values(self) -> None:
        names = QualifiedNames()
        scopes = scope_paths(self.graph)
        for path in set(scopes.values()):
            names.reserve_module(".".join(path))
        # Public names first, so that they stay unchanged if torch permits them.
        for value in [*self.graph.inputs, *self.graph.outputs]:
            if value not in self._names and not value.is_constant:
                self._names[value] = self._identifiers.make(value.name)
        for value in self.graph.constants:
            if _is_weight(value):
                full = self._qualified[value] = names.make(readable_name(value, scopes))
                prefix = "p" if parameter_kind(value) == PARAMETER else "b"
                self._names[value] = self._identifiers.make(f"{prefix}_{full}")
        self._modules = scopes or weight_paths(self.graph, self._qualified)

    def _name(self, value: Value) -> str:
        found = self._names.get(value)
        if found is None:
            found = self._names[value] = self._identifiers.make(value.name)
        return found

    # Signature

    def _weight(self, value: Value) -> dict[str, Any]:
        full, argument = self._qualified[value], {"name": self._name(value)}
        is_parameter = parameter_kind(value) == PARAMETER
        if value.storage is None:
            self._error("PT0102", f"the elements of {value.name} are missing", value.origin, None)
        else:
            self.weights[full] = value.storage, is_parameter
        if is_parameter:
            return {"parameter": {"arg": argument, "parameter_name": full}}
        return {"buffer": {"arg": argument, "buffer_name": full, "persistent": True}}

    def _user_input(self, value: Value) -> dict[str, Any]:
        return {"user_input": {"arg": self._argument_of(value)}}

    def _call_signature(self) -> dict[str, Any]:
        inputs = [_leaf() for _ in self.graph.inputs]
        outputs = [_leaf() for _ in self.graph.outputs]
        returned = outputs[0] if len(outputs) == 1 else _tree("builtins.tuple", outputs)
        given = _tree("builtins.tuple", [_tree("builtins.tuple", inputs), _tree("builtins.dict", [], "[]")])
        return {
            "inputs": [],
            "outputs": [],
            "in_spec": json.dumps([1, given]),
            "out_spec": json.dumps([1, returned]),
            "forward_arg_names": [self._name(value) for value in self.graph.inputs],
        }

    # Graphs

    def _graph(self, graph: Graph, inputs: Sequence[Value]) -> dict[str, Any]:
        values: dict[str, dict[str, Any]] = {
            kind: {} for kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool")
        }
        for value in inputs:
            self._describe(value, values)
        nodes = [self._node(node, values) for node in graph]
        return {
            "inputs": [self._argument_of(value) for value in inputs],
            "outputs": [self._argument_of(value) for value in graph.outputs],
            "nodes": nodes,
            "tensor_values": values["as_tensor"],
            "sym_int_values": values["as_sym_int"],
            "sym_bool_values": values["as_sym_bool"],
            "is_single_tensor_return": False,
            "custom_obj_values": {},
            "sym_float_values": values["as_sym_float"],
        }

    def _describe(self, value: Value, values: dict[str, dict[str, Any]]) -> None:
        kind, name = _argument_kind(value), self._name(value)
        if kind == "as_tensor":
            values[kind][name] = self.meta(value)
        elif kind == "as_sym_int":
            elements = value.fact.elements if isinstance(value.fact, TensorFact) else None
            values[kind][name] = self._size(elements[0]) if elements else self._sizes.fresh()
        else:
            values[kind][name] = self._sizes.unknown_number(is_bool=kind == "as_sym_bool")

    def _size(self, dim: Any) -> dict[str, Any]:
        try:
            return self._sizes.fresh() if dim is None or dim == OPEN else self._sizes.size(dim)
        except TooLong:
            return self._sizes.fresh()

    def meta(self, value: Value) -> dict[str, Any]:
        """Return element type, sizes and strides of a tensor."""
        fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
        number = None if fact.dtype is None else _NUMBER_OF.get(fact.dtype)
        if fact.shape is None or number is None:
            lacks = "rank" if fact.shape is None else f"element type {fact.dtype}" if fact.dtype else "element type"
            known = (
                "PyTorch does not support this type"
                if fact.dtype and number is None
                else "an exported program requires it"
            )
            remedy = (
                "cast it in the source model" if fact.dtype and number is None else "set the input shapes with --input"
            )
            self._error("PT0101", f"{value.name}: {lacks}: {known}", value.origin, remedy)
            fact, number = TensorFact(DType.FLOAT32, ()), _NUMBER_OF[DType.FLOAT32]
        sizes, strides = self._sizes.strided([self._size(dim) for dim in fact.dims])
        return {
            "dtype": number,
            "sizes": sizes,
            "requires_grad": value.is_constant and parameter_kind(value) == PARAMETER,
            "device": {"type": "cpu", "index": None},
            "strides": strides,
            "storage_offset": {"as_int": 0},
            "layout": STRIDED,
        }

    # Nodes

    def _node(self, node: Node, values: dict[str, dict[str, Any]]) -> dict[str, Any]:
        if node.dialect != DIALECT and self._custom is not None:
            return self._custom_node(node, self._custom, values)
        if node.dialect != DIALECT:
            self._error(
                "PT0103", f"{node.op} is not a PyTorch operator", node.origin, "convert the model with graphport"
            )
            return {}
        for value in node.results:
            self._describe(value, values)
        is_higher_order = node.op_type.startswith(_HIGHER_ORDER)
        schema = schema_of(node.op_type)
        arguments = _arguments(node)
        if is_higher_order or schema is None:
            inputs = self._by_position(node, arguments, is_named=not is_higher_order)
        else:
            inputs = self._by_schema(node, arguments, schema)
        return {
            "target": f"torch.ops.{node.op_type}" if node.op_type.startswith(_OVERLOADS) else node.op_type,
            "inputs": inputs,
            "outputs": self._results(node, schema),
            "metadata": self._metadata(node),
            "is_hop_single_tensor_return": False if is_higher_order else None,
            "name": self._node_name(node),
        }

    def _custom_node(self, node: Node, custom: CustomOperators, values: dict[str, dict[str, Any]]) -> dict[str, Any]:
        for value in node.results:
            self._describe(value, values)
        try:
            name, schema, arguments = custom.declare(node)
        except CodeError as error:
            self._error("PT0104", f"{node.op}: {error}", node.origin, None)
            return {}
        return {
            "target": f"torch.ops.{NAMESPACE}.{name}.default",
            "inputs": [
                {"name": each.name, "arg": self._argument(node, arguments[each.name], each), "kind": kind}
                for kind, formals in ((_POSITIONAL, schema.positional), (_KEYWORD, schema.keyword))
                for each in formals
            ],
            "outputs": self._results(node, schema),
            "metadata": self._metadata(node),
            "is_hop_single_tensor_return": None,
            "name": self._node_name(node),
        }

    def _metadata(self, node: Node) -> dict[str, str]:
        """Return the modules around a node; `torch.export.unflatten` requires them for every node of the program."""
        path = self._modules.get(node)
        return {"nn_module_stack": self._stacks.encode(path)} if node.graph is self.graph else {}

    def _node_name(self, node: Node) -> str:
        if len(node.results) == 1 and not node.op_type.startswith(_HIGHER_ORDER):
            return self._name(node.results[0])
        return self._identifiers.make(node.op_type.split(".")[1] if "." in node.op_type else node.op_type)

    def _results(self, node: Node, schema: Schema | None) -> list[dict[str, Any]]:
        returns = () if schema is None else schema.returns
        if len(returns) == 1 and returns[0].endswith("[]"):
            return [{"as_tensors": [{"name": self._name(value)} for value in node.results]}]
        found = [self._unused() if value is None else self._argument_of(value) for value in node.outputs]
        return [*found, *(self._unused() for _ in range(len(returns) - len(found)))]

    def _unused(self) -> dict[str, Any]:
        return {"as_none": True}

    def _by_schema(self, node: Node, arguments: Mapping[str, Any], schema: Schema) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        names = {each.name for each in schema.arguments}
        for name in arguments:
            if name not in names:
                self._error("PT0104", f"unknown argument {name} of {node.op_type}", node.origin, None)
        is_complete = True
        for argument in schema.arguments:
            if argument.name not in arguments:
                is_complete = False
                continue
            is_positional = is_complete and argument in schema.positional
            encoded = self._argument(node, arguments[argument.name], argument)
            kind = _POSITIONAL if is_positional else _KEYWORD
            found.append({"name": argument.name, "arg": encoded, "kind": kind})
        return found

    def _by_position(self, node: Node, arguments: Mapping[str, Any], *, is_named: bool) -> list[dict[str, Any]]:
        order = sorted(arguments) if is_named else sorted(arguments, key=int)
        return [
            {"name": name if is_named else "", "arg": self._argument(node, arguments[name], None), "kind": _POSITIONAL}
            for name in order
        ]

    def _argument(self, node: Node, value: Any, argument: Argument | None) -> dict[str, Any]:
        wanted = "" if argument is None else argument.type.rstrip("?")
        if value is None:
            return {"as_none": True}
        if isinstance(value, Value):
            return self._operand(value, wanted)
        if isinstance(value, Graph):
            return self._body(node, value)
        if is_sequence(value):
            return self._list(node, [*value], wanted)
        if isinstance(value, str):
            return self._text(value, wanted)
        return self._literal_argument(node, value, wanted)

    def _body(self, node: Node, body: Graph) -> dict[str, Any]:
        graph = self._graph(body, body.inputs)
        graph["is_single_tensor_return"] = node.op_type == _WHILE and node.attributes.get("0") is body
        return {"as_graph": {"name": self._identifiers.make(body.name), "graph": graph}}

    def _operand(self, value: Value, wanted: str) -> dict[str, Any]:
        if value.is_constant and wanted in ("int", "SymInt", "Scalar", "float", "number") and value.storage is not None:
            return _literal(value.storage.numpy().reshape(()).item(), wanted)
        return self._argument_of(value)

    def _argument_of(self, value: Value) -> dict[str, Any]:
        """Encode a value as an argument, input or output."""
        kind = _argument_kind(value)
        return {kind: {"name": self._name(value)} if kind == "as_tensor" else {"as_name": self._name(value)}}

    def _list(self, node: Node, items: list[Any], wanted: str) -> dict[str, Any]:
        item = wanted.partition("[")[0]
        if any(isinstance(each, Value) for each in items):
            if item == "Tensor?":
                return {"as_optional_tensors": [self._optional(each) for each in items]}
            if item.startswith("Tensor") or not any(
                isinstance(each, Value) and is_python_scalar(each) for each in items
            ):
                return {"as_tensors": [{"name": self._name(each)} for each in items]}
            return {"as_sym_ints": [self._size_argument(each) for each in items]}
        if not items:
            kinds = {"Tensor": "as_tensors", "Tensor?": "as_optional_tensors", "float": "as_floats", "": "as_tensors"}
            return {kinds.get(item, "as_ints"): []}
        if item == "Tensor?":
            return {"as_optional_tensors": [{"as_none": True} for _ in items]}
        if all(isinstance(each, bool) for each in items):
            return {"as_bools": items}
        if all(isinstance(each, str) for each in items):
            return {"as_strings": items}
        if item in ("float", "number", "Scalar") and any(isinstance(each, float) for each in items):
            return {"as_floats": [_float(each) for each in items]}
        if all(isinstance(each, int) for each in items):
            return {"as_floats": [float(x) for x in items]} if item == "float" else {"as_ints": items}
        self._error("PT0104", f"{node.op_type}: {items!r:.60} cannot be stored as an argument", node.origin, None)
        return {"as_none": True}

    def _optional(self, value: Value | None) -> dict[str, Any]:
        return {"as_none": True} if value is None else {"as_tensor": {"name": self._name(value)}}

    def _size_argument(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Value):
            return {"as_int": value}
        if value.is_constant and value.storage is not None:
            return {"as_int": int(value.storage.numpy().reshape(()).item())}
        return {"as_name": self._name(value)}

    def _text(self, value: str, wanted: str) -> dict[str, Any]:
        if value in DTYPE_NAMES:
            return {"as_scalar_type": _NUMBER_OF[DTYPE_NAMES[value]]}
        if wanted == "Layout":
            return {"as_layout": STRIDED}
        if wanted == "Device":
            return {"as_device": {"type": value, "index": None}}
        if wanted == "MemoryFormat":
            return {"as_memory_format": _LAYOUTS.get(value, _NAME)}
        return {"as_string": value}

    def _literal_argument(self, node: Node, value: Any, wanted: str) -> dict[str, Any]:
        if isinstance(value, bool | int | float):
            return _literal(value, wanted)
        if isinstance(value, complex):
            return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
        self._error("PT0104", f"{node.op_type}: {value!r:.60} cannot be stored as an argument", node.origin, None)
        return {"as_none": True}

    def _error(self, code: str, message: str, span: Span | None, help: str | None) -> None:
        self.findings.append(Diagnostic(code, message, span or Span(self._source), help))


def _is_weight(value: Value) -> bool:
    """Whether a constant is a weight of the program; constants that only size arguments use are literals."""
    return any(not isinstance(use.user, Node) or _is_tensor_argument(use.user, use.index) for use in value.uses)


def _is_tensor_argument(node: Node, index: int) -> bool:
    schema, keys = schema_of(node.op_type), node.attributes.get(KEYS)
    if schema is None or not isinstance(keys, tuple):
        return not node.op_type.startswith("_operator.")
    name = str(keys[index]).removesuffix(ITEM)
    return any(each.name == name and each.type.startswith("Tensor") for each in schema.arguments)


def _argument_kind(value: Value) -> str:
    """Return the argument kind of a value: tensor or scalar."""
    if not is_python_scalar(value):
        return "as_tensor"
    return "as_sym_int" if value.dtype is None else _NUMBERS.get(value.dtype, "as_sym_int")


def _arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of a node by name; operands whose keys end in `*` are items of a list."""
    keys = node.attributes.get(KEYS)
    names = [str(key) for key in keys] if isinstance(keys, tuple) else []
    found: dict[str, Any] = {name: value for name, value in node.attributes.items() if name != KEYS}
    for name, value in zip(names, node.inputs, strict=False):
        if name.endswith(ITEM):
            found.setdefault(name.removesuffix(ITEM), []).append(value)
        else:
            found[name] = value
    return found


def _literal(value: float, wanted: str) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"as_bool": value} if wanted in ("bool", "Scalar", "number", "") else {"as_int": int(value)}
    if isinstance(value, int) and wanted != "float":
        return {"as_bool": bool(value)} if wanted == "bool" else {"as_int": value}
    return {"as_float": _float(value)}


def _float(value: float) -> float | str:
    """Encode a float; infinities and NaN are strings in JSON."""
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _leaf() -> dict[str, Any]:
    return {"type": None, "context": None, "children_spec": []}


def _tree(kind: str, children: list[dict[str, Any]], context: str = "null") -> dict[str, Any]:
    return {"type": kind, "context": context, "children_spec": children}
