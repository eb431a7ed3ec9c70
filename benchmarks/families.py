"""Families of ONNX models of any size, each with one kind of repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

OPSET = 18
WIDTH = 8
Shape = Sequence[int | str]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one kind; `size` is the smaller of the two compared sizes, as an argument of `build`."""

    build: Callable[[int], ModelProto]
    size: int


def _values(shapes: Mapping[str, Shape], dtype: int = TensorProto.FLOAT) -> list[ValueInfoProto]:
    return [helper.make_tensor_value_info(name, dtype, shape) for name, shape in shapes.items()]


def _body(
    nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto], constants: Arrays
) -> GraphProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return helper.make_graph(nodes, "g", inputs, outputs, tensors)


def _model(
    nodes: list[NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    constants: Arrays | None = None,
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    graph = _body(nodes, _values(inputs), _values(outputs), constants or {})
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid("local", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def _weight(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 8


def chain(n: int, name: str = "v{}") -> ModelProto:
    """Return a chain of MatMul, Relu and Add with an earlier value."""
    nodes, last, earlier = [], "x", "x"
    for i in range(n):
        result = name.format(i) if i < n - 1 else "y"
        match i % 3:
            case 0:
                nodes.append(helper.make_node("MatMul", [last, "w"], [result]))
            case 1:
                nodes.append(helper.make_node("Relu", [last], [result]))
            case _:
                nodes.append(helper.make_node("Add", [last, earlier], [result]))
                earlier = result
        last = result
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"w": _weight(WIDTH, WIDTH)})


def long_names(n: int) -> ModelProto:
    """Return a chain whose values have names of 1,000 characters."""
    return chain(n, "n" * 990 + "{}")


def decoder(n: int) -> ModelProto:
    """Return transformer layers with key/value caches of symbolic length as inputs and outputs."""
    heads, size = 2, WIDTH // 2
    nodes: list[NodeProto] = []
    inputs: dict[str, Shape] = {"x": ["batch", "seq", WIDTH]}
    outputs: dict[str, Shape] = {}
    constants = {
        "split": np.array([0, 0, heads, size], np.int64),
        "join": np.array([0, 0, WIDTH], np.int64),
        "root": np.array(size**0.5, np.float32),
    }

    def add(op: str, *operands: str, to: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, list(operands), [to], name=f"/{to}", **attributes))
        return to

    hidden = "x"
    for i in range(n):
        p = f"layer.{i}"
        constants |= {f"{p}.{name}": _weight(WIDTH, WIDTH) + i for name in ("q", "k", "v", "o", "up", "down")}
        constants |= {f"{p}.norm": np.ones(WIDTH, np.float32), f"{p}.bias": np.zeros(WIDTH, np.float32)}
        normed = add("LayerNormalization", hidden, f"{p}.norm", f"{p}.bias", to=f"{p}.normed")
        for name in ("q", "k", "v"):
            flat = add("MatMul", normed, f"{p}.{name}", to=f"{p}.{name}.flat")
            split = add("Reshape", flat, "split", to=f"{p}.{name}.split")
            add("Transpose", split, to=f"{p}.{name}.heads", perm=[0, 2, 1, 3])
        for name in ("k", "v"):
            inputs[f"past.{i}.{name}"] = ["batch", heads, "past", size]
            outputs[f"present.{i}.{name}"] = ["batch", heads, "total", size]
            add("Concat", f"past.{i}.{name}", f"{p}.{name}.heads", to=f"present.{i}.{name}", axis=2)
        keys = add("Transpose", f"present.{i}.k", to=f"{p}.keys", perm=[0, 1, 3, 2])
        scaled = add("Div", add("MatMul", f"{p}.q.heads", keys, to=f"{p}.scores"), "root", to=f"{p}.scaled")
        weights = add("Softmax", scaled, to=f"{p}.weights", axis=-1)
        mixed = add("MatMul", weights, f"present.{i}.v", to=f"{p}.mixed")
        merged = add("Reshape", add("Transpose", mixed, to=f"{p}.back", perm=[0, 2, 1, 3]), "join", to=f"{p}.merged")
        hidden = add("Add", hidden, add("MatMul", merged, f"{p}.o", to=f"{p}.out"), to=f"{p}.attended")
        up = add("MatMul", hidden, f"{p}.up", to=f"{p}.wide")
        act = add("Mul", up, add("Sigmoid", up, to=f"{p}.gate"), to=f"{p}.act")
        hidden = add("Add", hidden, add("MatMul", act, f"{p}.down", to=f"{p}.narrow"), to=f"{p}.hidden")
    outputs[hidden] = ["batch", "seq", WIDTH]
    return _model(nodes, inputs, outputs, constants)


def experts(n: int) -> ModelProto:
    """Return a mixture of experts: each expert reads all tokens, and the weighted results are summed."""
    nodes = [helper.make_node("MatMul", ["x", "router"], ["logits"]), helper.make_node("Softmax", ["logits"], ["p"])]
    nodes.append(helper.make_node("Split", ["p"], [f"p{i}" for i in range(n)], axis=-1, num_outputs=n))
    constants = {"router": _weight(WIDTH, n)}
    for i in range(n):
        constants[f"w{i}"] = _weight(WIDTH, WIDTH) + i
        nodes += [
            helper.make_node("MatMul", ["x", f"w{i}"], [f"h{i}"]),
            helper.make_node("Relu", [f"h{i}"], [f"r{i}"]),
            helper.make_node("Mul", [f"r{i}", f"p{i}"], [f"m{i}"]),
        ]
    nodes.append(helper.make_node("Sum", [f"m{i}" for i in range(n)], ["y"]))
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, constants)


def wide_concat(n: int) -> ModelProto:
    """Return one Concat with `n` operands."""
    nodes = [helper.make_node("Mul", ["x", f"c{i}"], [f"r{i}"]) for i in range(n)]
    nodes.append(helper.make_node("Concat", [f"r{i}" for i in range(n)], ["y"], axis=1))
    constants = {f"c{i}": np.array(i + 2, np.float32) for i in range(n)}
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH * n]}, constants)


def wide_split(n: int) -> ModelProto:
    """Return one Split with `n` results, each with one consumer."""
    nodes = [helper.make_node("Split", ["x"], [f"s{i}" for i in range(n)], axis=1, num_outputs=n)]
    nodes += [helper.make_node("Tanh", [f"s{i}"], [f"t{i}"]) for i in range(n)]
    nodes.append(helper.make_node("Sum", [f"t{i}" for i in range(n)], ["y"]))
    return _model(nodes, {"x": ["N", WIDTH * n]}, {"y": ["N", WIDTH]})


def concat_chain(n: int) -> ModelProto:
    """Return an unrolled loop that collects: acc = Concat(acc, x)."""
    nodes = [
        helper.make_node("Concat", [f"a{i}" if i else "x", "x"], [f"a{i + 1}" if i < n - 1 else "y"], axis=0)
        for i in range(n)
    ]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["M", WIDTH]})


def slice_chain(n: int) -> ModelProto:
    """Return an unrolled loop that gathers the rows of one tensor in order and adds them."""
    nodes, last, constants = [], "x0", {"axes": np.array([0], np.int64)}
    for i in range(n):
        constants |= {f"i{i}": np.array(i, np.int64)}
        nodes.append(helper.make_node("Gather", ["x", f"i{i}"], [f"g{i}"], axis=0))
        nodes.append(helper.make_node("Add", [last, f"g{i}"], [f"a{i}" if i < n - 1 else "y"]))
        last = f"a{i}"
    return _model(nodes, {"x": [n, WIDTH], "x0": [WIDTH]}, {"y": [WIDTH]}, constants)


def foldable(n: int) -> ModelProto:
    """Return `n` foldable nodes that all read one weight."""
    nodes, last = [], "x"
    constants: dict[str, np.ndarray] = {"w": _weight(WIDTH)}
    for i in range(n):
        constants[f"c{i}"] = np.array(i + 1, np.float32)
        nodes.append(helper.make_node("Mul", ["w", f"c{i}"], [f"f{i}"]))
        nodes.append(helper.make_node("Max", [last, f"f{i}"], [f"a{i}" if i < n - 1 else "y"]))
        last = f"a{i}"
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, constants)


def open_inputs(n: int) -> ModelProto:
    """Return a model with as many inputs with a symbolic dim as nodes."""
    nodes = [
        helper.make_node("Add", [f"a{i}" if i else "x0", f"x{i + 1}"], [f"a{i + 1}" if i < n - 1 else "y"])
        for i in range(n)
    ]
    return _model(nodes, {f"x{i}": ["N", WIDTH] for i in range(n + 1)}, {"y": ["N", WIDTH]})


def symbols(n: int) -> ModelProto:
    """Return a model with as many symbolic dims as inputs."""
    nodes = [helper.make_node("Tanh", [f"x{i}"], [f"y{i}"]) for i in range(n)]
    shapes: list[Shape] = [[f"N{i}", WIDTH] for i in range(n)]
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    return _model(nodes, inputs, {f"y{i}": shape for i, shape in enumerate(shapes)})


def outputs(n: int) -> ModelProto:
    """Return a chain of which each value is an output."""
    nodes = [helper.make_node("Tanh", [f"y{i - 1}" if i else "x"], [f"y{i}"]) for i in range(n)]
    return _model(nodes, {"x": ["N", WIDTH]}, {f"y{i}": ["N", WIDTH] for i in range(n)})


def initializers(n: int) -> ModelProto:
    """Return a chain in which each node has a separate constant."""
    nodes = [
        helper.make_node(
            "Add" if i % 2 else "Max", [f"a{i}" if i else "x", f"w{i}"], [f"a{i + 1}" if i < n - 1 else "y"]
        )
        for i in range(n)
    ]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {f"w{i}": _weight(WIDTH) + i for i in range(n)})


def functions(n: int) -> ModelProto:
    """Return a model with a model-local function for each node."""
    opsets = [helper.make_opsetid("", OPSET)]
    made = [
        helper.make_function(
            "local",
            f"F{i}",
            ["a"],
            ["c"],
            [helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"])],
            opsets,
        )
        for i in range(n)
    ]
    nodes = [
        helper.make_node(f"F{i}", [f"a{i}" if i else "x"], [f"a{i + 1}" if i < n - 1 else "y"], domain="local")
        for i in range(n)
    ]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, functions=made)


def _branch(name: str, source: str, op: str) -> GraphProto:
    return _body([helper.make_node(op, [source], [name])], [], _values({name: ["N", WIDTH]}), {})


def if_chain(n: int) -> ModelProto:
    """Return consecutive If nodes, each with a separate condition."""
    nodes, last = [], "x"
    for i in range(n):
        result = f"a{i}" if i < n - 1 else "y"
        nodes += [
            helper.make_node("ReduceSum", [last], [f"s{i}"], keepdims=0),
            helper.make_node("Less", [f"s{i}", "zero"], [f"c{i}"]),
            helper.make_node(
                "If",
                [f"c{i}"],
                [result],
                then_branch=_branch(f"t{i}", last, "Tanh"),
                else_branch=_branch(f"e{i}", last, "Neg"),
            ),
        ]
        last = result
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"zero": np.array(0, np.float32)})


def if_nest(n: int) -> ModelProto:
    """Return If nodes nested in each other's branches."""
    inner = _branch(f"t{n}", "x", "Tanh")
    for i in reversed(range(n)):
        nodes = [
            helper.make_node("ReduceSum", ["x"], [f"s{i}"], keepdims=0),
            helper.make_node("Less", [f"s{i}", "zero"], [f"c{i}"]),
            helper.make_node("If", [f"c{i}"], [f"t{i}"], then_branch=inner, else_branch=_branch(f"e{i}", "x", "Neg")),
        ]
        inner = _body(nodes, [], _values({f"t{i}": ["N", WIDTH]}), {})
    nodes = [*inner.node, helper.make_node("Identity", ["t0"], ["y"])]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"zero": np.array(0, np.float32)})


def _loop_body(i: int, nodes: list[NodeProto], last: str) -> GraphProto:
    inputs = [
        helper.make_tensor_value_info(f"i{i}", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"k{i}", TensorProto.BOOL, []),
        *_values({f"b{i}": ["N", WIDTH]}),
    ]
    outputs_ = [helper.make_tensor_value_info(f"m{i}", TensorProto.BOOL, []), *_values({last: ["N", WIDTH]})]
    return _body([helper.make_node("Identity", [f"k{i}"], [f"m{i}"]), *nodes], inputs, outputs_, {})


def loop_chain(n: int) -> ModelProto:
    """Return consecutive Loop nodes with an iteration count computed from the shape of the input."""
    nodes, last = (
        [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "zero"], ["n"])],
        "x",
    )
    for i in range(n):
        result = f"a{i}" if i < n - 1 else "y"
        body = _loop_body(i, [helper.make_node("Tanh", [f"b{i}"], [f"r{i}"])], f"r{i}")
        nodes.append(helper.make_node("Loop", ["n", "", last], [result], body=body))
        last = result
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"zero": np.array(0, np.int64)})


def loop_nest(n: int) -> ModelProto:
    """Return Loop nodes nested in each other's bodies."""
    body = _loop_body(n, [helper.make_node("Tanh", [f"b{n}"], [f"r{n}"])], f"r{n}")
    for i in reversed(range(n)):
        body = _loop_body(i, [helper.make_node("Loop", ["n", "", f"b{i}"], [f"r{i}"], body=body)], f"r{i}")
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Loop", ["n", "", "x"], ["y"], body=body),
    ]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"zero": np.array(0, np.int64)})


def large_body(n: int) -> ModelProto:
    """Return one If whose branches are long chains that read values of the outer graph."""
    outer = [helper.make_node("Tanh", [f"o{i - 1}" if i else "x"], [f"o{i}"]) for i in range(n)]
    outer += [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "zero"], ["c"]),
    ]

    def branch(prefix: str) -> GraphProto:
        nodes = [
            helper.make_node("Add", [f"{prefix}{i - 1}" if i else "x", f"o{i}"], [f"{prefix}{i}"]) for i in range(n)
        ]
        return _body(nodes, [], _values({f"{prefix}{n - 1}": ["N", WIDTH]}), {})

    nodes = [*outer, helper.make_node("If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e"))]
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, {"zero": np.array(0, np.float32)})


def qdq(n: int) -> ModelProto:
    """Return MatMul layers with QuantizeLinear and DequantizeLinear on each tensor."""
    nodes, last = [], "x"
    constants: dict[str, np.ndarray] = {"zero": np.array(0, np.int8)}

    def quantize(value: str, name: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [value, f"{name}.s", "zero"], [f"{name}.q"]))
        return dequantize(f"{name}.q", name)

    def dequantize(value: str, name: str) -> str:
        nodes.append(helper.make_node("DequantizeLinear", [value, f"{name}.s", "zero"], [f"{name}.d"]))
        return f"{name}.d"

    for i in range(n):
        for name in (f"x{i}", f"w{i}", f"h{i}"):
            constants[f"{name}.s"] = np.array(0.01 + i / 1000, np.float32)
        constants[f"w{i}"] = np.arange(WIDTH * WIDTH, dtype=np.int8).reshape(WIDTH, WIDTH) - 32
        nodes.append(helper.make_node("MatMul", [quantize(last, f"x{i}"), dequantize(f"w{i}", f"w{i}")], [f"p{i}"]))
        nodes.append(helper.make_node("Relu", [quantize(f"p{i}", f"h{i}")], [f"a{i}" if i < n - 1 else "y"]))
        last = f"a{i}"
    return _model(nodes, {"x": [4, WIDTH]}, {"y": [4, WIDTH]}, constants)


def convolutions(n: int) -> ModelProto:
    """Return Conv, BatchNormalization and Relu with a residual connection at each second layer."""
    nodes, last, earlier = [], "x", "x"
    constants: dict[str, np.ndarray] = {name: np.ones(4, np.float32) for name in ("g", "v")} | {
        name: np.zeros(4, np.float32) for name in ("b", "m")
    }
    for i in range(n):
        constants[f"w{i}"] = _weight(4, 4, 3, 3) + i
        nodes += [
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{i}", "g", "b", "m", "v"], [f"n{i}"]),
        ]
        last = f"n{i}"
        if i % 2:
            nodes.append(helper.make_node("Add", [last, earlier], [f"s{i}"]))
            last = earlier = f"s{i}"
        nodes.append(helper.make_node("Relu", [last], [f"a{i}" if i < n - 1 else "y"]))
        last = f"a{i}"
    return _model(nodes, {"x": [1, 4, 8, 8]}, {"y": [1, 4, 8, 8]}, constants)


def shape_arithmetic(n: int) -> ModelProto:
    """Return Reshape nodes whose shapes are computed from the shape of their input, as exporters write them."""
    nodes, last = [], "x"
    constants = {"i0": np.array(0, np.int64), "a0": np.array([0], np.int64), "minus": np.array([-1], np.int64)}
    for i in range(n):
        nodes += [
            helper.make_node("Shape", [last], [f"s{i}"]),
            helper.make_node("Gather", [f"s{i}", "i0"], [f"g{i}"], axis=0),
            helper.make_node("Unsqueeze", [f"g{i}", "a0"], [f"u{i}"]),
            helper.make_node("Concat", [f"u{i}", "minus"], [f"t{i}"], axis=0),
            helper.make_node("Reshape", [last, f"t{i}"], [f"r{i}"]),
            helper.make_node("Tanh", [f"r{i}"], [f"a{i}" if i < n - 1 else "y"]),
        ]
        last = f"a{i}"
    return _model(nodes, {"x": ["N", WIDTH]}, {"y": ["N", WIDTH]}, constants)


FAMILIES: dict[str, Family] = {
    "chain": Family(chain, 5000),
    "long names": Family(long_names, 3000),
    "decoder with caches": Family(decoder, 25),
    "mixture of experts": Family(experts, 500),
    "convolutions": Family(convolutions, 600),
    "wide Concat": Family(wide_concat, 1500),
    "wide Split": Family(wide_split, 1500),
    "chain of Concat": Family(concat_chain, 1000),
    "chain of Gather": Family(slice_chain, 1000),
    "foldable nodes": Family(foldable, 1500),
    "shape arithmetic": Family(shape_arithmetic, 500),
    "open inputs": Family(open_inputs, 1000),
    "symbolic dims": Family(symbols, 1000),
    "outputs": Family(outputs, 2000),
    "initializers": Family(initializers, 3000),
    "functions": Family(functions, 500),
    "chain of If": Family(if_chain, 300),
    "nest of If": Family(if_nest, 12),
    "chain of Loop": Family(loop_chain, 200),
    "nest of Loop": Family(loop_nest, 8),
    "large branches": Family(large_body, 1000),
    "QDQ": Family(qdq, 400),
}
