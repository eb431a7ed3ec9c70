"""Graph passes of tract's NNEF: quantization, caches, and recurrent layers as loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.core.facts import TensorFact
from graphport.formats.nnef.graph_passes import quantization_file
from graphport.formats.nnef.graph_passes.input_multiples import state_multiples
from graphport.formats.nnef.graph_passes.input_shapes import settle_inputs
from graphport.formats.nnef.graph_passes.tract_images import size_open_images
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ir import states
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.rewrite import copy_node
from graphport.ops import registry
from graphport.ops.loops.recurrent import recognize

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute


def before(graph: Graph) -> None:
    """Insert quantization nodes for quantization notes."""
    quantization_file.expand_quantization(graph)


def before_export(graph: Graph) -> None:
    """Set the dims of inputs that operators determine: tract compares declared dims with its own inference."""
    settle_inputs(graph)
    state_multiples(graph)
    _hide_caches(graph)
    for inner in list(walk(graph)):
        size_open_images(inner)
        for node in inner:
            if node.op == "Scan":
                _part_factors(node)


def after(graph: Graph) -> None:
    """Replace loops that are recurrent layers by recurrent operators."""
    recognize(graph)


def _hide_caches(graph: Graph) -> None:
    """Replace a cache input and output by tract's cache operator.

    Before  k is an input, n = Concat(k, x) an output, and the next run's k
    After   n = tract_transformers_dyn_kv_cache(x)
    """
    for state, result, kept in states.state_pairs(graph):
        node = result.producer
        past, dtype = state.fact, state.dtype
        if node is None or node.op != "Concat" or node.operands[0] is not state or len(node.operands) != 2:
            continue
        x, name = node.operands[1], None if dtype is None else datum_name(dtype)
        is_empty = state.storage is None or state.storage.count == 0
        if len(state.uses) != 1 or name is None or not is_empty or not isinstance(past, TensorFact):
            continue
        own = x.shape
        if past.shape is None or own is None:
            continue
        given = {"axis": int(cast("int", node.attributes["axis"])) % len(own), "datum_type": name}
        shapes = {"past_sequence_shape": past.shape, "input_sequence_shape": own}
        attributes = cast("dict[str, Attribute]", {"name": kept.variable, **given, **shapes})
        cache = Node("tract_transformers_dyn_kv_cache", [x], attributes=attributes, dialect="tract", origin=node.origin)
        graph.insert_before(node, cache)
        cache.take_outputs(node)
        graph.remove(node)
        graph.remove_input(state)
        if not kept.is_returned:
            graph.set_outputs([value for value in graph.outputs if value is not result])


def _part_factors(scan: Node) -> None:
    """Duplicate scan inputs that a body multiplies by themselves.

    Before  Scan(…, xs)  {x: MatMul(Relu(x), Transpose(Relu(x)))}
    After   Scan(…, xs, xs)  {x, z: MatMul(Relu(x), Transpose(Relu(z)))}

    tract 0.23 moves such a product out of the loop, assumes that the scan input has no other use, and aborts.
    """
    body = cast("Graph", scan.attributes["body"])
    count = cast("int", scan.attributes["num_scan_inputs"])
    first = len(scan.inputs) - count
    for index in range(count):
        _duplicate_factor(scan, first + index, body.inputs[first + index])


def _duplicate_factor(scan: Node, place: int, entry: Value) -> None:
    made = _values_from(entry)
    products = {user: None for value in made for user in value.users if _is_product(user)}
    for node in products:
        seen: set[Value] = set()
        for index, operand in enumerate(node.inputs):
            if operand is None or operand not in made:
                continue
            before = _before_moves(operand, made)
            if before in seen:
                node.set_input(index, _made_alike(operand, _scanned_again(scan, place), made))
            seen.add(before)


def _is_product(node: Node) -> bool:
    op_def = registry.op_defs().get(node.op)
    return op_def is not None and op_def.macs is not None


def _values_from(entry: Value) -> dict[Value, Node | None]:
    """Return the scan input and everything computed from it and constants, with the producing nodes."""
    found: dict[Value, Node | None] = {entry: None}
    pending = [entry]
    while pending:
        for user in pending.pop().users:
            op_def = registry.op_defs().get(user.op)
            others = [each for each in user.operands if each not in found and not each.is_constant]
            is_repeatable = op_def is not None and not op_def.is_random and not user.has_bodies
            if is_repeatable and not others and len(user.results) == 1 and user.output not in found:
                found[user.output] = user
                pending.append(user.output)
    return found


def _before_moves(value: Value, made: dict[Value, Node | None]) -> Value:
    """Return the value before a chain of operators that only move data."""
    while (node := made[value]) is not None and registry.op_defs()[node.op].moves_data:
        value = next(each for each in node.operands if each in made)
    return value


def _scanned_again(scan: Node, place: int) -> Value:
    """Add another scan input for the same operand."""
    body, count = cast("Graph", scan.attributes["body"]), cast("int", scan.attributes["num_scan_inputs"])
    index, entry = place - (len(scan.inputs) - count), body.inputs[place]
    for name in ("scan_input_axes", "scan_input_directions"):
        numbers = cast("tuple[int, ...]", scan.attributes.get(name) or (0,) * count)
        scan.set_attribute(name, (*numbers, numbers[index]))
    scan.set_attribute("num_scan_inputs", count + 1)
    scan.inputs = [*scan.inputs, scan.operands[place]]
    return body.add_input(body.fresh(entry.name), entry.fact)


def _made_alike(value: Value, twin: Value, made: dict[Value, Node | None]) -> Value:
    """Copy the operators that compute `value` from a scan input, applied to the duplicate `twin`."""
    chain: list[Node] = []
    while (node := made[value]) is not None:
        chain.append(node)
        value = next(each for each in node.operands if each in made)
    for node in reversed(chain):
        source = next(each for each in node.operands if each in made)
        results = [Value(twin.graph.fresh(each.name), each.fact) for each in node.results] if twin.graph else []
        alike = copy_node(node, {source: twin}, results)
        if node.graph is not None:
            node.graph.insert_after(node, alike)
        twin = alike.output
    return twin
