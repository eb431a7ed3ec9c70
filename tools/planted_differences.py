"""Differences to plant in ONNX models, one function each.

A function changes a model in place and returns a description, or `None` if the model has no suitable node. Some changes
have no effect in some models: a limit of 500 if all elements are constants below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping

    from onnx import GraphProto, ModelProto, NodeProto

    Plant = Callable[[ModelProto, random.Random], str | None]

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
INTEGERS = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
STRUCTURAL = frozenset({
    "to", "axis", "group", "hidden_size", "num_heads", "kv_num_heads", "blocksize", "dtype", "keepdims", "block_size",
    "opset", "storage_order", "training_mode", "noop_with_empty_axes", "output_dtype", "num_outputs", "precision",
})  # fmt: skip
"""Integer attributes whose change usually gives a model that does not run."""
EXCHANGED = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Relu": "Elu", "Sigmoid": "HardSigmoid", "Tanh": "Softsign",
    "Greater": "GreaterOrEqual", "GreaterOrEqual": "Greater", "Less": "LessOrEqual", "LessOrEqual": "Less",
    "Max": "Min", "Min": "Max", "ReduceMax": "ReduceMin", "ReduceSum": "ReduceMean", "Floor": "Round", "Ceil": "Round",
    "Round": "Floor", "Sin": "Cos", "Cos": "Sin", "And": "Or", "Or": "And", "ArgMax": "ArgMin", "Sqrt": "Abs",
    "Exp": "Softplus", "Erf": "Tanh", "HardSwish": "Mish", "Softplus": "Relu", "GlobalAveragePool": "GlobalMaxPool",
    "Abs": "Identity", "Neg": "Identity", "Not": "Identity", "ReduceMean": "ReduceMax", "Softmax": "LogSoftmax",
}  # fmt: skip
"""Op types that are exchanged for an op type with the same signature."""
MODES: Mapping[tuple[str, str], tuple[bytes, ...]] = {
    ("Resize", "coordinate_transformation_mode"): (b"half_pixel", b"asymmetric", b"align_corners"),
    ("Resize", "nearest_mode"): (b"floor", b"ceil", b"round_prefer_ceil", b"round_prefer_floor"),
    ("Resize", "mode"): (b"nearest", b"linear"),
    ("Pad", "mode"): (b"constant", b"reflect", b"edge"),
    ("GridSample", "padding_mode"): (b"zeros", b"border", b"reflection"),
    ("Gelu", "approximate"): (b"none", b"tanh"),
    ("DepthToSpace", "mode"): (b"DCR", b"CRD"),
    ("ScatterElements", "reduction"): (b"none", b"add"),
    ("ScatterND", "reduction"): (b"none", b"add"),
}


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and, recursively, its bodies."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def _nodes(model: ModelProto, *ops: str) -> list[NodeProto]:
    return [node for graph in graphs_of(model.graph) for node in graph.node if not ops or node.op_type in ops]


def _constants(model: ModelProto, types: tuple[int, ...]) -> list[TensorProto]:
    held = [tensor for graph in graphs_of(model.graph) for tensor in graph.initializer]
    held += [each.t for node in _nodes(model, "Constant") for each in node.attribute if each.name == "value"]
    return [tensor for tensor in held if tensor.data_type in types and not tensor.external_data]


def _set(tensor: TensorProto, elements: Any) -> None:
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(elements), name))


def _find_owner(model: ModelProto, node: NodeProto) -> GraphProto:
    return next(graph for graph in graphs_of(model.graph) if any(each is node or each == node for each in graph.node))


def _insert_after(model: ModelProto, node: NodeProto, index: int, make: Callable[[str, str], list[NodeProto]]) -> None:
    """Insert nodes between a node's result and its consumers."""
    graph = _find_owner(model, node)
    old = node.output[index]
    position = list(graph.node).index(node)
    node.output[index] = f"{old}__planted"
    nodes = list(graph.node)
    nodes[position + 1 : position + 1] = make(f"{old}__planted", old)
    kept = [type(each).FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _constant(name: str, value: float) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, np.float32)))


def float_attribute(model: ModelProto, random: random.Random) -> str | None:
    """Multiply a float attribute (an epsilon, alpha, bias) by 10."""
    found = [(node, each) for node in _nodes(model) for each in node.attribute if each.type == AttributeProto.FLOAT]
    if not found:
        return None
    node, attribute = random.choice(found)
    old, attribute.f = attribute.f, attribute.f * 10 if attribute.f else 0.1
    return f"{node.op_type}.{attribute.name} {old:g} -> {attribute.f:g}"


def dropped_attribute(model: ModelProto, random: random.Random) -> str | None:
    """Remove an attribute, so that the operator's default applies."""
    found = [(node, each) for node in _nodes(model) for each in node.attribute if each.type != AttributeProto.GRAPH]
    found = [
        (node, each) for node, each in found if node.op_type != "Constant" and each.name not in STRUCTURAL - {"axis"}
    ]
    if not found:
        return None
    node, attribute = random.choice(found)
    kept = [each for each in node.attribute if each.name != attribute.name]
    text = f"{node.op_type}.{attribute.name} dropped ({helper.get_attribute_value(attribute)!r})"
    copies = [AttributeProto.FromString(each.SerializeToString()) for each in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
    return text


def integer_attribute(model: ModelProto, random: random.Random) -> str | None:
    """Change an integer attribute or one element of a list by one."""
    kinds = (AttributeProto.INT, AttributeProto.INTS)
    found = [(node, each) for node in _nodes(model) for each in node.attribute if each.type in kinds]
    found = [(node, each) for node, each in found if each.name not in STRUCTURAL]
    if not found:
        return None
    node, attribute = random.choice(found)
    if attribute.type == AttributeProto.INT:
        old, attribute.i = attribute.i, 1 - attribute.i if attribute.i in {0, 1} else attribute.i + 1
        return f"{node.op_type}.{attribute.name} {old} -> {attribute.i}"
    if not attribute.ints:
        return None
    old_items = list(attribute.ints)
    if attribute.name == "perm":
        one, two = random.sample(range(len(old_items)), 2) if len(old_items) > 1 else (0, 0)
        attribute.ints[one], attribute.ints[two] = old_items[two], old_items[one]
    else:
        attribute.ints[random.randrange(len(old_items))] += 1
    return f"{node.op_type}.{attribute.name} {old_items} -> {list(attribute.ints)}"


def axis(model: ModelProto, random: random.Random) -> str | None:
    """Move the axis of an operator by one."""
    found = [(node, each) for node in _nodes(model) for each in node.attribute if each.name == "axis"]
    if not found:
        return None
    node, attribute = random.choice(found)
    old, attribute.i = attribute.i, attribute.i - 1 if attribute.i else 1
    return f"{node.op_type}.axis {old} -> {attribute.i}"


def mode(model: ModelProto, random: random.Random) -> str | None:
    """Change the rounding, border or interpolation mode of an operator."""
    found = [
        (node, name, values) for node in _nodes(model) for (op, name), values in MODES.items() if node.op_type == op
    ]
    if not found:
        return None
    node, name, values = random.choice(found)
    stated = next((each for each in node.attribute if each.name == name), None)
    if stated is None:
        new = values[1] if node.op_type != "Resize" else random.choice(values[1:])
        node.attribute.append(helper.make_attribute(name, new))
        return f"{node.op_type}.{name} (default) -> {new!r}"
    old = stated.s
    stated.s = random.choice([each for each in values if each != old])
    return f"{node.op_type}.{name} {old!r} -> {stated.s!r}"


def operator(model: ModelProto, random: random.Random) -> str | None:
    """Exchange an op type for another one."""
    found = [node for node in _nodes(model, *EXCHANGED) if node.domain in {"", "ai.onnx"}]
    if not found:
        return None
    node = random.choice(found)
    old = node.op_type
    node.op_type = EXCHANGED[old]
    if node.op_type in {"Relu", "Identity", "Abs", "Tanh", "Softplus"}:
        del node.attribute[:]
    return f"{old} -> {node.op_type} at {node.name or node.output[0]}"


def weight(model: ModelProto, random: random.Random) -> str | None:
    """Change a weight, a row or an element of a floating-point constant."""
    found = [each for each in _constants(model, FLOATS) if 0 not in each.dims]
    if not found:
        return None
    tensor = random.choice(found)
    elements = numpy_helper.to_array(tensor).copy()
    flat = elements.reshape(-1)
    largest = np.abs(flat).max()
    if not np.isfinite(flat).all() or largest == 0:
        return None
    kind = random.choice(["all * 1.02", "one * 1.1", "one row * 1.05", "largest = 0", "all + 1 %"])
    index = random.randrange(flat.size)
    if kind == "all * 1.02":
        flat *= flat.dtype.type(1.02)
    elif kind == "one * 1.1":
        flat[index] = flat[index] * flat.dtype.type(1.1) if abs(flat[index]) > largest / 100 else largest / 4
    elif kind == "one row * 1.05" and elements.ndim:
        elements[random.randrange(elements.shape[0])] *= flat.dtype.type(1.05)
    elif kind == "largest = 0":
        flat[int(np.abs(flat).argmax())] = 0
    else:
        flat += flat.dtype.type(largest / 100)
    if np.array_equal(elements, numpy_helper.to_array(tensor)):
        return None
    _set(tensor, elements)
    return f"weight {tensor.name} {list(elements.shape)}: {kind}"


def table_row(model: ModelProto, random: random.Random) -> str | None:
    """Change one row of a table that Gather looks up: embeddings, positions."""
    names = {node.input[0] for node in _nodes(model, "Gather", "Embedding", "GatherBlockQuantized")}
    found = [each for each in _constants(model, FLOATS) if each.name in names and len(each.dims) > 1]
    if not found:
        return None
    tensor = random.choice(found)
    elements = numpy_helper.to_array(tensor).copy()
    row = random.choice([0, elements.shape[0] - 1, random.randrange(elements.shape[0])])
    elements[row] = elements[row] * elements.dtype.type(1.25) + elements.dtype.type(0.01)
    _set(tensor, elements)
    return f"row {row} of {tensor.name} {list(elements.shape)}"


def integer_constant(model: ModelProto, random: random.Random) -> str | None:
    """Change one element of an integer constant by one."""
    found = [each for each in _constants(model, INTEGERS) if 0 not in each.dims]
    if not found:
        return None
    tensor = random.choice(found)
    elements = numpy_helper.to_array(tensor).copy()
    flat = elements.reshape(-1)
    index = random.randrange(flat.size)
    old = int(flat[index])
    flat[index] = old + 1 if old < 120 else old - 1
    _set(tensor, elements)
    return f"integer {tensor.name} {list(elements.shape)}[{index}] {old} -> {int(flat[index])}"


def insertion(model: ModelProto, random: random.Random) -> str | None:
    """Insert a limit, a replacement of NaN or small values, an offset or a factor after a node."""
    found = [node for node in model.graph.node if len(node.output) == 1 and node.op_type != "Constant"]
    if not found:
        return None
    node = random.choice(found)
    kind = random.choice(["limit 500", "limit 30", "limit 6", "NaN to 0", "+ 3e-3", "* 1.003", "below 1e-6 to 1e-3"])

    def make(x: str, y: str) -> list[NodeProto]:
        c, d, e = f"{y}__c", f"{y}__d", f"{y}__e"
        if kind.startswith("limit"):
            bound = float(kind.split()[1])
            nodes = [_constant(c, -bound), _constant(d, bound), helper.make_node("Max", [x, c], [e])]
            return [*nodes, helper.make_node("Min", [e, d], [y])]
        if kind == "NaN to 0":
            nodes = [_constant(c, 0.0), helper.make_node("IsNaN", [x], [d])]
            return [*nodes, helper.make_node("Where", [d, c, x], [y])]
        if kind.startswith("below"):
            nodes = [_constant(c, 1e-6), _constant(e, 1e-3), helper.make_node("Abs", [x], [f"{y}__a"])]
            return [*nodes, helper.make_node("Less", [f"{y}__a", c], [d]), helper.make_node("Where", [d, e, x], [y])]
        op = {"+": "Add", "*": "Mul"}[kind[0]]
        return [_constant(c, float(kind.split()[1])), helper.make_node(op, [x, c], [y])]

    text = f"{kind} after {node.op_type} {node.output[0]}"
    _insert_after(model, node, 0, make)
    return text


def operands(model: ModelProto, random: random.Random) -> str | None:
    """Exchange the last two operands of an operator."""
    found = _nodes(model, "Sub", "Div", "Where", "MatMul", "Pow", "Concat", "Less", "Greater", "Mod")
    found = [node for node in found if len(node.input) > 1 and node.input[-1] != node.input[-2]]
    if not found:
        return None
    node = random.choice(found)
    node.input[-1], node.input[-2] = node.input[-2], node.input[-1]
    return f"operands of {node.op_type} exchanged"


def body(model: ModelProto, random: random.Random) -> str | None:
    """Multiply a result in a branch of If or a body of Loop or Scan by 1.01."""
    owners = _nodes(model, "If", "Loop", "Scan")
    if not owners:
        return None
    owner = random.choice(owners)
    inner = random.choice([each for each in owner.attribute if each.type == AttributeProto.GRAPH])
    found = [node for node in inner.g.node if len(node.output) == 1 and node.op_type != "Constant"]
    if not found:
        return None
    node = random.choice(found)
    text = f"{owner.op_type}.{inner.name}: * 1.01 after {node.op_type}"
    _insert_after(
        model, node, 0, lambda x, y: [_constant(f"{y}__c", 1.01), helper.make_node("Mul", [x, f"{y}__c"], [y])]
    )
    return text


def quantization(model: ModelProto, random: random.Random) -> str | None:
    """Multiply the scale of a quantization by 1.05."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    found = [node for node in _nodes(model, "QuantizeLinear", "DequantizeLinear") if node.input[1] in held]
    if not found:
        return None
    node = random.choice(found)
    old = numpy_helper.to_array(held[node.input[1]])
    name = f"{node.input[1]}__planted"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(old * old.dtype.type(1.05)), name))
    node.input[1] = name
    return f"{node.op_type} scale * 1.05"


def interface(model: ModelProto, random: random.Random) -> str | None:
    """Exchange the names of two outputs, rename an input, fix an open dim, or change an element type."""
    graph = model.graph
    kind = random.choice(["outputs", "order", "input", "dim", "type"])
    if kind in {"outputs", "order"}:
        if len(graph.output) < 2:
            return None
        one, two = random.sample(range(len(graph.output)), 2)
        if kind == "order":
            values = [type(each).FromString(each.SerializeToString()) for each in graph.output]
            values[one], values[two] = values[two], values[one]
            del graph.output[:]
            graph.output.extend(values)
            return f"outputs {one} and {two} in another order"
        names = graph.output[one].name, graph.output[two].name
        renamed = {names[0]: names[1], names[1]: names[0]}
        for node in graph.node:
            node.output[:] = [renamed.get(each, each) for each in node.output]
            node.input[:] = [renamed.get(each, each) for each in node.input]
        return f"names of outputs {names[0]} and {names[1]} exchanged"
    if kind == "input" and graph.input:
        value = random.choice(graph.input)
        old, value.name = value.name, f"{value.name}_renamed"
        for inner in graphs_of(graph):
            for node in inner.node:
                node.input[:] = [value.name if each == old else each for each in node.input]
        return f"input {old} renamed"
    dims = [(value, dim) for value in graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param]
    if kind == "dim" and dims:
        value, dim = random.choice(dims)
        name, dim.dim_value = dim.dim_param, 4
        return f"dim {name} of input {value.name} fixed to 4"
    floats = [value for value in graph.output if value.type.tensor_type.elem_type == TensorProto.FLOAT]
    if kind == "type" and floats:
        value = random.choice(floats)
        node = next((each for each in graph.node if value.name in each.output), None)
        if node is None:
            return None
        index = list(node.output).index(value.name)
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
        _insert_after(model, node, index, lambda x, y: [helper.make_node("Cast", [x], [y], to=TensorProto.DOUBLE)])
        return f"output {value.name} in float64"
    return None


def accumulation(model: ModelProto, random: random.Random) -> str | None:
    """Compute a product of matrices, a convolution or a sum in float16."""
    found = [node for node in model.graph.node if node.op_type in {"MatMul", "Gemm", "Conv", "ReduceSum", "ReduceMean"}]
    if not found:
        return None
    node = random.choice(found)
    inputs = [each for each in node.input[: 1 if node.op_type.startswith("Reduce") else None] if each]
    text = f"{node.op_type} {node.name} computed in float16"
    graph = model.graph
    position = list(graph.node).index(node)
    casts = [
        helper.make_node("Cast", [x], [f"{x}__half{position}"], to=TensorProto.FLOAT16) for x in dict.fromkeys(inputs)
    ]
    node.input[:] = [f"{x}__half{position}" if x in inputs else x for x in node.input]
    nodes = [*list(graph.node)[:position], *casts, *list(graph.node)[position:]]
    kept = [type(each).FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    node = graph.node[position + len(casts)]
    _insert_after(model, node, 0, lambda x, y: [helper.make_node("Cast", [x], [y], to=TensorProto.FLOAT)])
    return text


def trips(model: ModelProto, random: random.Random) -> str | None:
    """Let a loop run one iteration less or more."""
    found = [node for node in _nodes(model, "Loop") if node.input[0]]
    if not found:
        return None
    node = random.choice(found)
    graph = _find_owner(model, node)
    position = list(graph.node).index(node)
    step = random.choice([-1, 1])
    one = helper.make_node("Constant", [], ["planted__one"], value=numpy_helper.from_array(np.array(step, np.int64)))
    add = helper.make_node("Add", [node.input[0], "planted__one"], ["planted__trips"])
    node.input[0] = "planted__trips"
    nodes = [*list(graph.node)[:position], one, add, *list(graph.node)[position:]]
    kept = [type(each).FromString(each.SerializeToString()) for each in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    return f"trip count of Loop {node.name} {step:+}"


PLANTS: Mapping[str, Plant] = {
    each.__name__: each
    for each in (
        float_attribute, dropped_attribute, integer_attribute, axis, mode, operator, weight, table_row,
        integer_constant, insertion, operands, body, quantization, interface, accumulation, trips,
    )
}  # fmt: skip
