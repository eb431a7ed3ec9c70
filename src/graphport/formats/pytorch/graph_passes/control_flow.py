"""Graphs among the arguments of nodes: regions that always run, branches, and loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.pytorch.rules.binding import ITEM, KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPACE = "higher_order."
_REGIONS = frozenset(
    f"{_SPACE}{name}"
    for name in (
        *("wrap", "wrap_with_set_grad_enabled", "wrap_with_autocast", "hints_wrapper", "wrap_activation_checkpoint"),
        *("tag_activation_checkpoint", "invoke_subgraph", "invoke_quant", "invoke_quant_packed"),
    )
)
_AUTOCAST = f"{_SPACE}wrap_with_autocast"
_ALIAS = "aten.alias.default"
_CAST = "aten.to.dtype"
_LOW = frozenset({DType.BFLOAT16, DType.FLOAT16})


def inline_regions(graph: Graph) -> None:
    """Inline regions (no_grad, autocast) at their call."""
    for node in graph:
        if node.dialect == DIALECT and node.op_type in _REGIONS:
            bodies = list(node.bodies())
            if len(bodies) == 1 and len(bodies[0].inputs) == len(node.operands):
                if node.op_type == _AUTOCAST and node.attributes.get("2") is True:
                    _cast_operands(bodies[0])
                _replace(node, inlined(bodies[0], node, node.operands))


def _replace(node: Node, outputs: Sequence[Value]) -> None:
    for old, new in zip(node.outputs, outputs, strict=False):
        if old is not None:
            rewrite.replace(old, new)
    if node.graph is not None:
        node.graph.remove(node)


def inlined(body: Graph, place: Node, given: Sequence[Value]) -> list[Value]:
    """Inline `body` before the node `place` with the arguments `given`; return its results."""
    graph = _graph_of(place)
    values: dict[Value, Value] = dict(zip(body.inputs, given, strict=True))
    for constant in body.constants:
        values[constant] = graph.add_constant(constant.name, constant.fact, constant.storage)
    for inner in body:
        results = [None if v is None else Value(graph.fresh(v.name), v.fact) for v in inner.outputs]
        for old, new in zip(inner.outputs, results, strict=True):
            if old is not None and new is not None:
                values[old] = new
                if old.has_notes:
                    new.notes.update(old.notes)
        graph.insert_before(place, rewrite.copy_node(inner, values, results))
    return [values.get(value, value) for value in body.outputs]


def _graph_of(node: Node) -> Graph:
    if node.graph is None:
        message = f"{node!r} is in no graph"
        raise ValueError(message)
    return node.graph


def _cast_operands(body: Graph) -> None:
    """Insert the casts of an autocast region, which only the types of its results reveal."""
    for node in list(body):
        wanted = _floating(node.outputs[0]) if node.outputs else None
        if node.dialect != DIALECT or wanted is None or ".to." in node.op_type or "_to_copy" in node.op_type:
            continue
        for place, value in enumerate(node.inputs):
            own = None if value is None else _floating(value)
            if value is not None and own not in (None, wanted) and (wanted in _LOW or own in _LOW):
                cast = Value(body.fresh(value.name), TensorFact(wanted, value.shape))
                attributes: dict[str, Any] = {"dtype": f"torch.{wanted.text}", KEYS: ("self",)}
                body.insert_before(node, Node(_CAST, [value], [cast], attributes, dialect=DIALECT))
                node.set_input(place, cast)


def _floating(value: Value | None) -> DType | None:
    dtype = value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None
    return dtype if dtype is not None and dtype.is_floating else None


# ── branches and loops ────────────────────────────────────────────────────────────────────────────────────────────────


def convert_control_flow(graph: Graph) -> None:
    """Convert branches and loops to ONNX operators, whose bodies capture outer values."""
    converters = {"cond": _if, "while_loop": _loop, "scan": _scan, "map_impl": _map, "map": _map}
    for node in graph:
        if node.dialect == DIALECT and node.op_type.startswith(_SPACE):
            convert = converters.get(node.op_type.removeprefix(_SPACE))
            if convert is not None:
                convert(node)


def _arguments(node: Node, place: int) -> list[Value]:
    """Return the tensors of the list argument with index `place`."""
    keys = node.attributes.get(KEYS, ())
    names = keys if isinstance(keys, tuple) else ()
    found = [v for v, key in zip(node.inputs, names, strict=False) if key in (f"{place}{ITEM}", str(place))]
    return [value for value in found if value is not None]


def _body(node: Node, place: int) -> Graph | None:
    found = node.attributes.get(str(place))
    return found if isinstance(found, Graph) else None


def _become(node: Node, op_type: str, operands: Sequence[Value], attributes: Mapping[str, Any]) -> None:
    """Replace `node` by an ONNX node with the same results."""
    graph = _graph_of(node)
    made = Node(op_type, operands, [], attributes, dialect="onnx", name=node.name, origin=node.unasked_origin)
    graph.insert_before(node, made)
    made.take_outputs(node)
    graph.remove(node)
    graph.root.opsets["onnx"] = OPSET


def _own_outputs(body: Graph) -> None:
    """Insert Identity nodes for captured values and values that a body returns twice."""
    returned: list[Value] = []
    for value in body.outputs:
        if value.graph is body and value.producer is not None and value not in returned:
            returned.append(value)
            continue
        copy = Value(body.fresh(value.name), value.fact)
        body.append(Node(_ALIAS, [value], [copy], {KEYS: ("self",)}, dialect=DIALECT))
        returned.append(copy)
    body.set_outputs(returned)


def _capture(body: Graph, given: Mapping[Value, Value]) -> None:
    """Replace inputs of a body by captured values."""
    for inner, outer in given.items():
        inner.replace_uses(outer)
        body.remove_input(inner)


def _if(node: Node) -> None:
    then, other, given = _body(node, 1), _body(node, 2), _arguments(node, 3)
    condition = _arguments(node, 0)
    if then is None or other is None or any(len(body.inputs) != len(given) for body in (then, other)):
        return
    graph = _graph_of(node)
    chosen = condition[0] if condition else _add_scalar_constant(graph, bool(node.attributes.get("0")))
    for body in (then, other):
        _own_outputs(body)
        _capture(body, dict(zip(body.inputs, given, strict=True)))
    _become(node, "If", [chosen], {"then_branch": then, "else_branch": other})


def _add_scalar_constant(graph: Graph, number: Any) -> Value:
    storage = storage_of(number)
    return graph.add_constant("number", TensorFact.of(storage), storage)


def _loop(node: Node) -> None:
    """Convert `while_loop` to Loop: the condition is computed before the loop and at the end of the body."""
    condition, body = _body(node, 0), _body(node, 1)
    carried, fixed = _arguments(node, 2), _arguments(node, 3)
    if condition is None or body is None or len(body.inputs) != len(carried) + len(fixed) or not carried:
        return
    first = inlined(condition, node, [*carried, *fixed])[0]
    count = len(carried)
    inner, outer = body.inputs[:count], dict(zip(body.inputs[count:], fixed, strict=True))
    _capture(body, outer)
    end = body.append(Node(_ALIAS, [body.outputs[0]], [Value(body.fresh("end"))], {KEYS: ("self",)}, dialect=DIALECT))
    again = inlined(condition, end, [*body.outputs, *fixed])[0]
    body.remove(end)
    body.set_outputs([again, *body.outputs])
    _own_outputs(body)
    _with_inputs(body, [TensorFact(DType.INT64, ()), TensorFact(DType.BOOL, ())], inner)
    unlimited = _add_scalar_constant(_graph_of(node), 2**63 - 1)
    _become(node, "Loop", [unlimited, first, *carried], {"body": body})


def _with_inputs(body: Graph, facts: Sequence[TensorFact], inner: Sequence[Value]) -> None:
    """Insert unused inputs before the inputs of a body."""
    for fact in facts:
        body.add_input("round", fact)
    for value in inner:
        value.replace_uses(body.add_input(value.name, value.fact))
        body.remove_input(value)


def _scan(node: Node) -> None:
    body, initial, scanned, fixed = _body(node, 0), _arguments(node, 1), _arguments(node, 2), _arguments(node, 3)
    _scanned(node, body, initial, scanned, fixed)


def _map(node: Node) -> None:
    body, scanned, fixed = _body(node, 0), _arguments(node, 1), _arguments(node, 2)
    _scanned(node, body, [], scanned, fixed)


def _scanned(
    node: Node, body: Graph | None, initial: Sequence[Value], scanned: Sequence[Value], fixed: Sequence[Value]
) -> None:
    count = len(initial) + len(scanned)
    if body is None or not scanned or len(body.inputs) != count + len(fixed):
        return
    _own_outputs(body)
    _capture(body, dict(zip(body.inputs[count:], fixed, strict=True)))
    _become(node, "Scan", [*initial, *scanned], {"body": body, "num_scan_inputs": len(scanned)})
