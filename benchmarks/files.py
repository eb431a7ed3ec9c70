"""Generated files that benchmarks read: networks of any length, in each format."""

from __future__ import annotations

import random
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# ── NNEF ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

TINY_NNEF = """version 1.0;

graph tiny( x ) -> ( y )
{
    x = external(shape = [1, 3, 8, 8]);
    y = relu(x);
}
"""


def nnef_text(count: int) -> str:
    """Return a flat NNEF text of `count` operations with consistent shapes: layers with residual connections."""
    lines = list(_nnef_statements(count))
    body = "".join(f"    {line};\n" for line in lines)
    return f"version 1.0;\n\ngraph generated( input ) -> ( output )\n{{\n{body}}}\n"


def _nnef_statements(count: int) -> Iterator[str]:
    draw = random.Random(0)
    yield "input = external<scalar>(shape = [1, 16, 8, 8])"
    values = ["input"]
    for number in range(count - 2):
        name, last = f"v{number}", values[-1]
        match number % 8:
            case 0:
                yield f"w{number} = variable<scalar>(shape = [16, 16, 3, 3], label = 'layer{number}/filter')"
                continue
            case 1:
                window = "padding = [(1, 1), (1, 1)], border = 'constant', stride = [1, 1], dilation = [1, 1]"
                yield f"{name} = conv({last}, w{number - 1}, 0.0, {window}, groups = 1)"
            case 2:
                yield f"m{number} = variable<scalar>(shape = [1, 16], label = 'layer{number}/mean')"
                continue
            case 3:
                four = ", ".join([f"m{number - 1}"] * 4)
                yield f"{name} = batch_normalization({last}, {four}, epsilon = 1e-5)"
            case 4:
                yield f"{name} = relu({last})"
            case 5:
                window = "size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), (1, 1), (1, 1)], stride = [1, 1, 1, 1]"
                yield f"{name} = max_pool({last}, {window}, dilation = [1, 1, 1, 1], border = 'ignore')"
            case 6:
                yield f"{name} = add({last}, {draw.choice(values[-40:])})"
            case _:
                yield f"{name} = mul({last}, 0.5)"
        values.append(name)
    yield f"output = copy({values[-1]})"


# ── OpenVINO's IR ─────────────────────────────────────────────────────────────────────────────────────────────────────

PORT = (
    '\t\t\t\t<port id="{}" precision="FP32">\n'
    + "".join(f"\t\t\t\t\t<dim>{n}</dim>\n" for n in (1, 3, 8, 8))
    + "\t\t\t\t</port>\n"
)


def ir_layer(
    number: int,
    name: str,
    type: str,
    data: str = "",
    *,
    inputs: int = 0,
    outputs: int = 1,
    port: str = PORT,
    tensor: str = "",
) -> str:
    """Return a layer of an IR file; all ports have the shape of `port`."""

    def group(tag: str, numbers: range) -> str:
        named = port.replace('"FP32"', f'"FP32" names="{tensor}"') if tensor and tag == "output" else port
        ports = "".join(named.format(n) for n in numbers)
        return f"\t\t\t<{tag}>\n{ports}\t\t\t</{tag}>\n" if ports else ""

    said = group("input", range(inputs)) + group("output", range(inputs, inputs + outputs))
    return f'\t\t<layer id="{number}" name="{name}" type="{type}" version="opset1">\n{data}{said}\t\t</layer>\n'


def ir_network(layers: list[str], edges: list[tuple[int, int, int, int]]) -> str:
    """Return an IR file of layers and edges."""
    joined = "".join(
        f'\t\t<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}" />\n' for a, b, c, d in edges
    )
    return (
        '<?xml version="1.0"?>\n<net name="large" version="11">\n'
        f"\t<layers>\n{''.join(layers)}\t</layers>\n\t<edges>\n{joined}\t</edges>\n\t<rt_info />\n</net>\n"
    )


def ir_chain(path: Path, count: int, *, names: bool = False) -> Path:
    """Write a chain of `count` layers; with `names` output ports name their tensors, as in files converted from ONNX."""
    parameter = '\t\t\t<data shape="1,3,8,8" element_type="f32" />\n'
    layers = [ir_layer(0, "x", "Parameter", parameter, tensor="x" if names else "")]
    tensors = [f"t{n}" if names else "" for n in range(count + 1)]
    layers += [ir_layer(n, f"r{n}", "ReLU", inputs=1, tensor=tensors[n]) for n in range(1, count + 1)]
    layers.append(ir_layer(count + 1, "result", "Result", inputs=1, outputs=0))
    edges = [(n - 1, 0 if n == 1 else 1, n, 0) for n in range(1, count + 2)]
    path.write_text(ir_network(layers, edges))
    path.with_suffix(".bin").touch()
    return path


def ir_constants(path: Path, count: int) -> Path:
    """Write `count` + 2 layers: a chain of Add with a constant of three elements each."""
    port = '\t\t\t\t<port id="{}" precision="FP32">\n' + "".join(f"\t\t\t\t\t<dim>{n}</dim>\n" for n in (1, 3, 1, 1))
    layers = [ir_layer(0, "x", "Parameter", '\t\t\t<data shape="1,3,8,8" element_type="f32" />\n')]
    edges: list[tuple[int, int, int, int]] = []
    for n in range(count // 2):
        data = f'\t\t\t<data element_type="f32" shape="1, 3, 1, 1" offset="{12 * n}" size="12" />\n'
        layers.append(ir_layer(2 * n + 1, f"w{n}", "Const", data, port=port + "\t\t\t\t</port>\n"))
        add = ir_layer(2 * n + 2, f"a{n}", "Add", '\t\t\t<data auto_broadcast="numpy" />\n', inputs=2)
        layers.append(add.replace(PORT.format(1), port.format(1) + "\t\t\t\t</port>\n"))
        edges += [(2 * n, 2 if n else 0, 2 * n + 2, 0), (2 * n + 1, 0, 2 * n + 2, 1)]
    layers.append(ir_layer(count + 1, "result", "Result", inputs=1, outputs=0))
    edges.append((count, 2, count + 1, 0))
    path.write_text(ir_network(layers, edges))
    path.with_suffix(".bin").write_bytes(np.arange(3 * count // 2, dtype=np.float32).tobytes())
    return path


# ── ncnn and PNNX ─────────────────────────────────────────────────────────────────────────────────────────────────────


def ncnn_chain(path: Path, count: int) -> Path:
    """Write about `count` ncnn layers: activations, poolings, and sums of Split results."""
    lines = ["Input x 0 1 x 0=16 1=16 2=8"]
    blobs, number, last = 1, 0, "x"
    while len(lines) < count:
        number += 1
        name = f"v{number}"
        match number % 4:
            case 0:
                lines += [
                    f"Split s{number} 1 2 {last} {last}_a {last}_b",
                    f"ReLU r{number} 1 1 {last}_a r{number} 0=1.000000e-01",
                    f"BinaryOp add{number} 2 1 r{number} {last}_b {name} 0=0",
                ]
                blobs += 3
            case 1:
                lines.append(f"ReLU relu{number} 1 1 {last} {name}")
            case 2:
                lines.append(f"Pooling pool{number} 1 1 {last} {name} 0=0 1=3 2=1 3=1 5=1")
            case _:
                lines.append(f"Sigmoid sigmoid{number} 1 1 {last} {name}")
        blobs += 1
        last = name
    path.write_text(f"7767517\n{len(lines)} {blobs}\n" + "\n".join(lines) + "\n")
    path.with_suffix(".bin").touch()
    return path


def pnnx_chain(path: Path, count: int) -> Path:
    """Write about `count` PNNX operators: activations, poolings and sums."""
    shape = "(1,8,16,16)f32"
    lines = [f"pnnx.Input x 0 1 x #x={shape}"]
    number, last, before = 0, "x", "x"
    window = "ceil_mode=False dilation=(1,1) kernel_size=(3,3) padding=(1,1) return_indices=False stride=(1,1)"
    while len(lines) < count - 1:
        number += 1
        name = f"v{number}"
        ends = f"#{last}={shape} #{name}={shape}"
        match number % 4:
            case 0:
                sum_ = f"pnnx.Expression add{number} 2 1 {last} {before} {name} expr=add(@0,@1)"
                lines.append(f"{sum_} #{last}={shape} #{before}={shape} #{name}={shape}")
            case 1:
                lines.append(f"nn.ReLU relu{number} 1 1 {last} {name} {ends}")
            case 2:
                lines.append(f"nn.MaxPool2d pool{number} 1 1 {last} {name} {window} {ends}")
            case _:
                lines.append(f"F.sigmoid sigmoid{number} 1 1 {last} {name} $input={last} {ends}")
        before, last = last, name
    lines.append(f"pnnx.Output out 1 0 {last} #{last}={shape}")
    path.write_text(f"7767517\n{len(lines)} {number + 1}\n" + "\n".join(lines) + "\n")
    zipfile.ZipFile(path.with_suffix(".bin"), "w").close()
    return path


# ── ONNX ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

WINDOW: dict[str, Any] = {
    "kernel_shape": [3, 3],
    "pads": [1, 1, 1, 1],
    "strides": [1, 1],
    "dilations": [1, 1],
    "group": 1,
}


def onnx_chain(path: Path, count: int, opset: int) -> Path:
    """Write a chain of `count` named nodes, of six op types in turn."""
    from onnx import helper

    nodes: list[Any] = []
    last = before = "x"
    for n in range(count):
        name, out = f"/layers.{n}/node", f"v{n}"
        match n % 6:
            case 0:
                node = helper.make_node("Conv", [last, "w", "b"], [out], name, **WINDOW)
            case 1:
                node = helper.make_node("Relu", [last], [out], name)
            case 2:
                node = helper.make_node("Add", [last, before], [out], name)
                before = out
            case 3:
                node = helper.make_node("LeakyRelu", [last], [out], name, alpha=0.1)
            case 4:
                node = helper.make_node("Mul", [last, "one"], [out], name)
            case _:
                node = helper.make_node("Sigmoid", [last], [out], name)
        nodes.append(node)
        last = out
    arrays = {"w": np.ones((8, 8, 3, 3), np.float32), "b": np.zeros(8, np.float32), "one": np.float32(1)}
    return _saved(path, nodes, {"x": ["N", 8, 16, 16]}, {last: ["N", 8, 16, 16]}, arrays, opset)


def onnx_products(path: Path, count: int, side: int) -> Path:
    """Write a chain of `count` MatMul with float32 matrices of `side` x `side`."""
    from onnx import helper

    draw = np.random.default_rng(0)
    arrays = {f"w{n}": draw.standard_normal((side, side), dtype=np.float32) / side for n in range(count)}
    nodes = [helper.make_node("MatMul", [f"v{n}", f"w{n}"], [f"v{n + 1}"]) for n in range(count)]
    return _saved(path, nodes, {"v0": [1, side]}, {f"v{count}": [1, side]}, arrays, 18)


def onnx_residual(path: Path) -> Path:
    """Write a network of the size of ResNet-50: 53 convolutions in 16 bottlenecks, random weights."""
    from onnx import helper

    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    nodes: list[Any] = []

    def conv(x: str, given: int, made: int, kernel: int, stride: int, *, relu: bool = True) -> str:
        name = f"c{len(arrays)}"
        numbers = draw.standard_normal((made, given, kernel, kernel), dtype=np.float32)
        arrays[f"{name}.w"] = numbers * np.float32(np.sqrt(2 / (given * kernel * kernel)))
        pads = [kernel // 2] * 4
        more: dict[str, Any] = {"kernel_shape": [kernel, kernel], "pads": pads, "strides": [stride, stride]}
        nodes.append(helper.make_node("Conv", [x, f"{name}.w"], [name], **more))
        if relu:
            nodes.append(helper.make_node("Relu", [name], [f"{name}.relu"]))
        return f"{name}.relu" if relu else name

    last, given = conv("x", 3, 64, 7, 2), 64
    nodes.append(helper.make_node("MaxPool", [last], ["pool"], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]))
    last = "pool"
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = conv(conv(last, given, width, 1, 1), width, width, 3, stride)
            made = conv(inner, width, 4 * width, 1, 1, relu=False)
            skip = last if block else conv(last, given, 4 * width, 1, stride, relu=False)
            nodes.append(helper.make_node("Add", [made, skip], [f"{made}.sum"]))
            nodes.append(helper.make_node("Relu", [f"{made}.sum"], [f"{made}.out"]))
            last, given = f"{made}.out", 4 * width
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    arrays["fc"] = draw.standard_normal((2048, 1000), dtype=np.float32) / np.float32(45)
    nodes.append(helper.make_node("MatMul", ["flat", "fc"], ["y"]))
    return _saved(path, nodes, {"x": [1, 3, 224, 224]}, {"y": [1, 1000]}, arrays, 18)


def onnx_decoder(path: Path, count: int) -> Path:
    """Write `count` decoder layers as exporters do: symbolic batch and sequence, a cache, grouped-query attention."""
    from onnx import helper

    width, heads, shared, size = 32, 4, 2, 8
    nodes: list[Any] = []
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "zero": np.int64(0), "one": np.array([1], np.int64), "two": np.float32(2), "eps": np.float32(1e-5),
        "axes2": np.array([2], np.int64), "last": np.array([-1], np.int64), "half": np.array([size // 2], np.int64),
        "start": np.array([0], np.int64), "end": np.array([1 << 62], np.int64), "axis3": np.array([3], np.int64),
        "heads": np.array([heads], np.int64), "shared": np.array([shared], np.int64), "size": np.array([size], np.int64),
        "times": np.array([heads // shared], np.int64), "width": np.array([width], np.int64),
        "scale": np.float32(size**-0.5), "i0": np.array([0], np.int64), "i2": np.array([2], np.int64),
    }  # fmt: skip

    def op(op_type: str, *operands: str, **attributes: Any) -> str:
        name = f"{op_type.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(op_type, operands, [name], f"/{name}", **attributes))
        return name

    def weight(*shape: int) -> str:
        name = f"w{len(arrays)}"
        arrays[name] = draw.standard_normal(shape, dtype=np.float32)
        return name

    def norm(x: str) -> str:
        mean = op("ReduceMean", op("Pow", x, "two"), "last", keepdims=1)
        return op("Mul", op("Div", x, op("Sqrt", op("Add", mean, "eps"))), weight(width))

    def split(x: str, count: str) -> str:
        shape = op("Shape", x)
        batch, length = (op("Gather", shape, index) for index in ("i0", "one"))
        return op("Transpose", op("Reshape", x, op("Concat", batch, length, count, "size", axis=0)), perm=[0, 2, 1, 3])

    def turned(x: str, cos: str, sin: str) -> str:
        first = op("Slice", x, "start", "half", "axis3", "one")
        second = op("Slice", x, "half", "end", "axis3", "one")
        return op("Add", op("Mul", x, cos), op("Mul", op("Concat", op("Neg", second), first, axis=-1), sin))

    def repeated(x: str) -> str:
        shape = op("Shape", x)
        batch, length = op("Gather", shape, "i0"), op("Gather", shape, "i2")
        wide = op("Concat", batch, "shared", "times", length, "size", axis=0)
        flat = op("Concat", batch, "heads", length, "size", axis=0)
        return op("Reshape", op("Expand", op("Unsqueeze", x, "axes2"), wide), flat)

    inputs = {"x": ["batch", "seq", width], "cos": ["batch", 1, "seq", size], "sin": ["batch", 1, "seq", size]}
    outputs: dict[str, list[Any]] = {}
    x = "x"
    for n in range(count):
        h = norm(x)
        q, k, v = (op("MatMul", h, weight(width, m * size)) for m in (heads, shared, shared))
        q, k = turned(split(q, "heads"), "cos", "sin"), turned(split(k, "shared"), "cos", "sin")
        v = split(v, "shared")
        for kind in "kv":
            inputs[f"past.{n}.{kind}"] = ["batch", shared, "past", size]
        k, v = op("Concat", f"past.{n}.k", k, axis=2), op("Concat", f"past.{n}.v", v, axis=2)
        outputs |= {k: ["batch", shared, "total", size], v: ["batch", shared, "total", size]}
        scores = op("Mul", op("MatMul", q, op("Transpose", repeated(k), perm=[0, 1, 3, 2])), "scale")
        mixed = op("Transpose", op("MatMul", op("Softmax", scores, axis=-1), repeated(v)), perm=[0, 2, 1, 3])
        shape = op("Shape", mixed)
        batch, length = op("Gather", shape, "i0"), op("Gather", shape, "one")
        joined = op("Reshape", mixed, op("Concat", batch, length, "width", axis=0))
        x = op("Add", x, op("MatMul", joined, weight(width, width)))
        h = norm(x)
        gate = op("MatMul", h, weight(width, 2 * width))
        inner = op("Mul", op("Mul", gate, op("Sigmoid", gate)), op("MatMul", h, weight(width, 2 * width)))
        x = op("Add", x, op("MatMul", inner, weight(2 * width, width)))
    return _saved(path, nodes, inputs, {x: ["batch", "seq", width], **outputs}, arrays, 18)


def _saved(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], arrays: dict[str, Any], opset: int
) -> Path:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    path.write_bytes(proto.SerializeToString())
    return path
