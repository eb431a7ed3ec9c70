"""Operators over their attributes, each behind a convolution and before one; convolutions and products themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

import graphport as gp
from tests.models import model, node
from tests.quantization.targets.pieces import weight

Made = Callable[[], Any]
GAMMA = {"s": np.ones(8, np.float32), "b": np.full(8, 0.2, np.float32)}


def integers(*numbers: int) -> Any:
    """Lengths, axes, positions."""
    return np.asarray(numbers, np.int64)


def reals(*shape: int, seed: int = 5) -> Any:
    """Normal numbers, not large."""
    return (np.random.default_rng(seed).normal(size=shape) * 0.3).astype(np.float32)


def chain(shape: list[int], *nodes: Any, opset: int = 21, **constants: Any) -> Any:
    """A model from `x`, of any batch, to `y`."""
    read = {name for item in nodes for name in item.input}
    kept = {name: np.asarray(x) for name, x in constants.items() if name in read}
    return gp.from_onnx(model(nodes, [("x", ["N", *shape])], [("y", None)], kept, opset=opset))


def between(*nodes: Any, rank: int = 2, results: int = 8, size: int = 9, opset: int = 21, **constants: Any) -> Any:
    """Nodes that make `m` of `h`, and may read `h2`: results of convolutions over `rank` axes, as is what reads `m`."""
    pads = [1] * (2 * rank)
    known = {
        "w1": weight(8, 4, *[3] * rank, seed=1), "b1": reals(8, seed=0), "w2": weight(8, 4, *[3] * rank, seed=2),
        "w9": weight(6, results, *[1] * rank, seed=9),
    } | constants  # fmt: skip
    made = [node("Conv", ["x", "w1", "b1"], ["h"], pads=pads), *nodes, node("Conv", ["m", "w9"], ["y"])]
    if any("h2" in item.input for item in nodes):
        made.insert(0, node("Conv", ["x", "w2"], ["h2"], pads=pads))
    return chain([4, *(size + axis for axis in range(rank))], *made, opset=opset, **known)


def cases() -> Iterator[tuple[str, Made]]:
    """All of them by name; each is made when it is asked for."""
    for family in (
        _convolutions,
        _transposed,
        _gemms,
        _products,
        _activations,
        _pairs,
        _shapes,
        _resizes,
        _pools,
        _rest,
    ):
        yield from family()


def _convolutions() -> Iterator[tuple[str, Made]]:
    random = np.random.default_rng(42)
    for rank, count in ((1, 6), (2, 12), (3, 4)):
        for _ in range(count):
            group, results = int(random.choice([1, 1, 2, 4, 8])), int(random.choice([8, 16, 24]))
            kernel, gaps, steps = (random.integers(1, top, rank).tolist() for top in (4, 3, 3))
            said: dict[str, Any] = {"group": group, "kernel_shape": kernel, "dilations": gaps, "strides": steps}
            mode = str(random.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
            said |= {"pads": random.integers(0, 3, 2 * rank).tolist()} if mode == "NOTSET" else {"auto_pad": mode}
            kind = str(random.choice(["", "Relu", "Clip"]))
            name = f"Conv g{group} to {results} k{kernel} d{gaps} s{steps} {mode} {said.get('pads', '')} {kind}"
            yield name.replace(" ", "_"), _convolution(rank, said, results, kind)


def _convolution(rank: int, said: dict[str, Any], results: int, kind: str) -> Made:
    def make() -> Any:
        nodes = [node("Conv", ["h", "a", "b"], ["t" if kind else "m"], **said)]
        if kind:
            nodes.append(node(kind, ["t", *(["low", "high"] if kind == "Clip" else [])], ["m"]))
        a = weight(results, 8 // said["group"], *said["kernel_shape"])
        constants: dict[str, Any] = {"low": np.float32(0), "high": np.float32(1), "b": reals(results)}
        return between(*nodes, rank=rank, results=results, a=a, **constants)

    return make


def _transposed() -> Iterator[tuple[str, Made]]:
    random = np.random.default_rng(7)
    for rank in (1, 2, 2, 2, 2, 3):
        group = int(random.choice([1, 1, 2, 8]))
        kernel, steps = random.integers(2, 5, rank).tolist(), random.integers(1, 3, rank).tolist()
        more = [int(random.integers(0, step)) for step in steps]
        said: dict[str, Any] = {
            "group": group, "kernel_shape": kernel, "strides": steps, "output_padding": more,
            "pads": random.integers(0, 2, 2 * rank).tolist(), "dilations": random.integers(1, 3, rank).tolist(),
        }  # fmt: skip
        name = f"ConvTranspose g{group} k{kernel} s{steps} o{more} p{said['pads']} d{said['dilations']}"
        yield name.replace(" ", "_"), _turned(rank, said)


def _turned(rank: int, said: dict[str, Any]) -> Made:
    a = weight(8, 8 // said["group"], *said["kernel_shape"])
    nodes = [node("ConvTranspose", ["h", "a", "b"], ["t"], **said), node("Relu", ["t"], ["m"])]
    return lambda: between(*nodes, rank=rank, size=5, a=a, b=reals(8))


def _gemms() -> Iterator[tuple[str, Made]]:
    for left, right, (alpha, beta), addend in product(
        (0, 1), (0, 1), ((1.0, 1.0), (0.5, 2.0)), ("row", "scalar", "none")
    ):
        name = f"Gemm_{left}{right}_{alpha}_{beta}_{addend}"
        yield name, _gemm({"transA": left, "transB": right, "alpha": alpha, "beta": beta}, addend)


def _gemm(said: dict[str, Any], addend: str) -> Made:
    matrix = weight(12, 8)
    constants = {"a": matrix if said["transB"] else matrix.T.copy(), "c": weight(12, 5)}
    constants |= {"b": {"row": reals(12), "scalar": np.float32(0.3), "none": None}[addend]}
    source = "t" if said["transA"] else "f"
    nodes = [
        node("Conv", ["x", "w"], ["h"]), node("GlobalAveragePool", ["h"], ["p"]), node("Flatten", ["p"], ["f"]),
        *([node("Transpose", ["f"], ["t"], perm=[1, 0])] if said["transA"] else []),
        node("Gemm", [source, "a", *(["b"] if addend != "none" else [])], ["g"], **said), node("Relu", ["g"], ["r"]),
        node("Gemm", ["r", "c"], ["y"]),
    ]  # fmt: skip
    return lambda: chain([4, 9, 10], *nodes, w=weight(8, 4, 3, 3), **constants)


def _products() -> Iterator[tuple[str, Made]]:
    for shape in ([16], [5, 16], [2, 3, 16], [2, 3, 4, 16]):
        nodes = [node("MatMul", ["x", "a"], ["t"]), node("Add", ["b", "t"], ["u"]), node("Relu", ["u"], ["v"]),
                 node("MatMul", ["v", "c"], ["y"])]  # fmt: skip
        yield f"MatMul_of_{len(shape) + 1}_axes", _chained(shape, nodes, a=weight(16, 12), b=reals(12), c=weight(12, 5))
    ends = [node("Relu", ["t"], ["v"]), node("MatMul", ["v", "c"], ["y"])]
    stack = [node("MatMul", ["x", "a"], ["t"]), *ends]
    yield "MatMul_with_a_stack", _chained([3, 5, 16], stack, a=weight(3, 16, 12), c=weight(12, 5))
    left = [node("MatMul", ["a", "x"], ["t"]), *ends]
    yield "MatMul_from_the_left", _chained([16, 5], left, a=weight(12, 16), c=weight(5, 7))
    vector = [node("MatMul", ["x", "c"], ["t"]), node("MatMul", ["t", "a"], ["y"])]
    yield "MatMul_with_a_vector", _chained([5, 16], vector, c=weight(16, 16), a=weight(16))
    heads = [node("MatMul", ["x", name], [f"{name}x"]) for name in "qkv"]
    matrices = {name: weight(16, 16, seed=i) for i, name in enumerate("qkvo")}
    scores = [
        node("Transpose", ["kx"], ["t"], perm=[0, 2, 1]), node("MatMul", ["qx", "t"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "vx"], ["z"]), node("MatMul", ["z", "o"], ["y"]),
    ]  # fmt: skip
    yield "attention_in_parts", _chained([6, 16], [*heads, *scores], **matrices)
    whole = node("Attention", ["qx", "kx", "vx"], ["z"], q_num_heads=2, kv_num_heads=2)
    yield "Attention", lambda: chain([6, 16], *heads, whole, node("MatMul", ["z", "o"], ["y"]), opset=23, **matrices)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        cells = [
            node("MatMul", ["x", "p"], ["t0"]), node("Transpose", ["t0"], ["t"], perm=[1, 0, 2]),
            node(op, ["t", "w", "r", "b"], ["h4"], hidden_size=8), node("Squeeze", ["h4", "axis"], ["h3"]),
            node("MatMul", ["h3", "c"], ["y"]),
        ]  # fmt: skip
        constants = {"w": weight(1, 8 * gates, 16), "r": weight(1, 8 * gates, 8), "b": reals(1, 16 * gates)}
        yield op, _chained([5, 16], cells, p=weight(16, 16), axis=integers(1), c=weight(8, 5), **constants)


def _chained(shape: list[int], nodes: list[Any], **constants: Any) -> Made:
    return lambda: chain(shape, *nodes, **constants)


ACTIVATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("LeakyRelu", {"alpha": alpha}) for alpha in (0.3, 0.0, 1.5, -0.2)),
    *((op, {}) for op in ("Elu", "Selu", "Celu", "HardSwish", "Mish", "Gelu", "Softplus", "Softsign", "Tanh", "Sigmoid")),
    *((op, {}) for op in ("Abs", "Neg", "Exp", "Erf", "Sin", "Cos", "Atan", "Sign", "Floor", "Ceil", "Round", "Shrink")),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Gelu", {"approximate": "tanh"}), ("ThresholdedRelu", {"alpha": 0.3}),
    ("Softmax", {"axis": -1}), ("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": 1}), ("LpNormalization", {"axis": 1}),
    ("LRN", {"size": 3}), ("MeanVarianceNormalization", {}), ("Trilu", {}), ("Dropout", {}),
)  # fmt: skip


def _activations() -> Iterator[tuple[str, Made]]:
    for op, said in ACTIVATIONS:
        yield f"{op}_{said}".replace(" ", ""), _single(op, said)
    for op in ("Sqrt", "Log", "Reciprocal"):
        nodes = [node("Abs", ["h"], ["a"]), node("Add", ["a", "one"], ["p"]), node(op, ["p"], ["m"])]
        yield op, _between(nodes, one=np.float32(1))
    for name, shape in (("channels", (8, 1, 1)), ("one", (1,)), ("all", (8, 9, 10))):
        yield f"PRelu_{name}", _between([node("PRelu", ["h", "s"], ["m"])], s=np.abs(reals(*shape)))
    for low, high in ((-0.2, None), (None, 0.4), (0.3, 0.9), (-0.7, 0.9)):
        names = ["h", "" if low is None else "low", "" if high is None else "high"]
        constants = {name: np.float32(x) for name, x in (("low", low), ("high", high)) if x is not None}
        yield f"Clip_{low}_{high}", _between([node("Clip", names, ["m"])], **constants)


def _single(op: str, said: dict[str, Any]) -> Made:
    return lambda: between(node(op, ["h"], ["m"], **said))


def _between(nodes: list[Any], **more: Any) -> Made:
    return lambda: between(*nodes, **more)


def _pairs() -> Iterator[tuple[str, Made]]:
    shapes = {"number": (), "one": (1,), "channels": (8, 1, 1), "batch": (1, 8, 1, 1), "row": (10,), "all": (8, 9, 10)}
    for op, (name, shape) in product(("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum"), shapes.items()):
        constant = (np.abs(reals(*shape)) + np.float32(0.5)).astype(np.float32)
        yield f"{op}_of_{name}", _between([node(op, ["h", "k"], ["m"])], k=constant)
        if op in ("Add", "Sub", "Mul"):
            yield f"{op}_from_{name}", _between([node(op, ["k", "h"], ["m"])], k=constant)
    mean = node("GlobalAveragePool", ["h2"], ["g"])
    for op in ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum"):
        yield f"{op}_of_two", _between([node(op, ["h", "h2"], ["m"])])
        if op != "Sub":
            yield f"{op}_of_itself", _between([node(op, ["h", "h"], ["m"])])
        yield f"{op}_of_means", _between([mean, node(op, ["h", "g"], ["m"])])
        yield f"{op}_and_Relu", _between([node(op, ["h", "h2"], ["t"]), node("Relu", ["t"], ["m"])])
    yield "Div_of_two", _between([node("Exp", ["h2"], ["e"]), node("Div", ["h", "e"], ["m"])])


def _shapes() -> Iterator[tuple[str, Made]]:
    for axis in (0, 1, 2, 3, -1):
        yield (
            f"Concat_{axis}",
            _between([node("Concat", ["h", "h2"], ["m"], axis=axis)], results=16 if axis == 1 else 8),
        )
    yield "Concat_of_itself", _between([node("Concat", ["h", "h"], ["m"], axis=1)], results=16)
    four = [node("Relu", ["h"], ["r"]), node("Sigmoid", ["h2"], ["s"]),
            node("Concat", ["h", "h2", "r", "s"], ["m"], axis=1)]  # fmt: skip
    yield "Concat_of_four", _between(four, results=32)
    for mode, value in (*product(["constant"], [0.0, 1.5, -2.0]), ("reflect", 0.0), ("edge", 0.0), ("wrap", 0.0)):
        pad = node("Pad", ["h", "p", *(["v"] if mode == "constant" else [])], ["m"], mode=mode)
        yield f"Pad_{mode}_{value}", _between([pad], p=integers(0, 0, 1, 2, 0, 0, 3, 1), v=np.float32(value))
    yield "Pad_less", _between([node("Pad", ["h", "p"], ["m"])], p=integers(0, 0, 1, -2, 0, 0, -1, 1))
    yield "Pad_axes", _between([node("Pad", ["h", "p", "", "a"], ["m"])], p=integers(1, 2, 3, 1), a=integers(2, 3))
    halves = node("Split", ["h"], ["a1", "a2"], axis=1, num_outputs=2)
    yield "Split_and_Mul", _between([halves, node("Mul", ["a1", "a2"], ["m"])], results=4)
    gate = [halves, node("Sigmoid", ["a2"], ["a3"]), node("Mul", ["a1", "a3"], ["m"])]
    yield "Split_and_gate", _between(gate, results=4)
    shuffle = [node("Reshape", ["h", "s1"], ["a1"]), node("Transpose", ["a1"], ["a2"], perm=[0, 2, 1, 3, 4]),
               node("Reshape", ["a2", "s2"], ["m"])]  # fmt: skip
    yield "shuffle", _between(shuffle, s1=integers(0, 2, 4, 9, 10), s2=integers(0, 8, 9, 10))
    squeezed = [node("GlobalAveragePool", ["h"], ["g"]), node("Squeeze", ["g", "a"], ["s"]),
                node("Unsqueeze", ["s", "a"], ["m"])]  # fmt: skip
    yield "Squeeze", _between(squeezed, a=integers(2, 3))
    back = node("Slice", ["h", "s", "e", "a", "t"], ["m"])
    yield "Slice_backwards", _between([back], s=integers(-1), e=integers(-100), a=integers(3), t=integers(-1))
    yield "Gather", _between([node("Gather", ["h", "i"], ["m"], axis=1)], i=integers(-1, 0, 3, 3), results=4)
    yield "DepthToSpace", _between([node("DepthToSpace", ["h"], ["m"], blocksize=2, mode="CRD")], results=2)
    chosen = np.random.default_rng(0).random((9, 10)) > 0.5
    yield "Where", _between([node("Where", ["c", "h", "h2"], ["m"])], c=chosen)


def _resizes() -> Iterator[tuple[str, Made]]:
    ways = (
        ("nearest", "asymmetric", "floor"), ("nearest", "half_pixel", "round_prefer_floor"),
        ("nearest", "half_pixel", "ceil"), ("linear", "half_pixel", ""), ("linear", "asymmetric", ""),
        ("linear", "pytorch_half_pixel", ""), ("cubic", "half_pixel", ""),
    )  # fmt: skip
    for (mode, way, rounding), factors in product(ways, ((2, 2), (1.5, 2.5), (0.5, 0.5))):
        said = {"mode": mode, "coordinate_transformation_mode": way} | ({"nearest_mode": rounding} if rounding else {})
        scales = np.asarray([1, 1, *factors], np.float32)
        yield (
            f"Resize_{mode}_{way}_{rounding}_{factors[0]}",
            _between([node("Resize", ["h", "", "s"], ["m"], **said)], s=scales),
        )
    sizes = node("Resize", ["h", "", "", "s"], ["m"], mode="linear", axes=[2, 3])
    yield "Resize_axes", _between([sizes], s=integers(13, 17))


def _pools() -> Iterator[tuple[str, Made]]:
    windows: tuple[dict[str, Any], ...] = (
        {"kernel_shape": [2, 3], "strides": [2, 1]}, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2]}, {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER"},
        {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"kernel_shape": [2, 2], "dilations": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1},
        {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
    )  # fmt: skip
    for op, said in product(("MaxPool", "AveragePool", "LpPool"), windows):
        if op == "AveragePool" or "count_include_pad" not in said:
            yield f"{op}_{said}".replace(" ", ""), _single(op, said)
    for op, rank in product(("AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"), (1, 3)):
        said = {} if op.startswith("Global") else {"kernel_shape": [2] * rank, "strides": [2] * rank}
        yield f"{op}_over_{rank}", _between([node(op, ["h"], ["m"], **said)], rank=rank)
    reductions = ("Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp")
    for op, axes in product(reductions, ((2, 3), (1,), (-1,))):
        nodes = [node(f"Reduce{op}", ["h", "a"], ["m"], keepdims=1)]
        yield (
            f"Reduce{op}_{axes}".replace(" ", ""),
            _between(nodes, a=integers(*axes), results=1 if axes == (1,) else 8),
        )


def _rest() -> Iterator[tuple[str, Made]]:
    for op, said in (("InstanceNormalization", {}), ("GroupNormalization", {"num_groups": 2})):
        yield op, _between([node(op, ["h", "s", "b"], ["m"], **said)], **GAMMA)
    row = {"s": np.ones(10, np.float32), "b": reals(10)}
    yield "LayerNormalization", _between([node("LayerNormalization", ["h", "s", "b"], ["m"], axis=-1)], **row)
    yield "RMSNormalization", _between([node("RMSNormalization", ["h", "s"], ["m"], axis=-1)], opset=23, **row)
    behind = [node("Relu", ["h"], ["t"]), node("BatchNormalization", ["t", "s", "b", "b", "s"], ["m"])]
    yield "BatchNormalization", _between(behind, **GAMMA)
    yield "Einsum", _between([node("Einsum", ["h", "e"], ["m"], equation="nchw,cd->ndhw")], e=weight(8, 8))
    yield "CumSum", _between([node("CumSum", ["h", "a"], ["m"])], a=np.asarray(2, np.int64))
    yield "TopK", _between([node("TopK", ["h", "k"], ["m", "i"], axis=-1)], k=integers(4))
    squeeze = [
        node("ReduceMean", ["h", "axes"], ["g"]), node("Conv", ["g", "a"], ["g1"]), node("HardSwish", ["g1"], ["g2"]),
        node("Conv", ["g2", "c"], ["g3"]), node("HardSigmoid", ["g3"], ["g4"]), node("Mul", ["h", "g4"], ["m"]),
    ]  # fmt: skip
    yield "squeeze_and_excite", _between(squeeze, axes=integers(2, 3), a=weight(4, 8, 1, 1), c=weight(8, 4, 1, 1))
    shortcut = [
        node("Relu", ["h"], ["r"]), node("Conv", ["r", "a"], ["q"], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["r", "c"], ["s"], strides=[2, 2]), node("Add", ["q", "s"], ["t"]), node("Relu", ["t"], ["m"]),
    ]  # fmt: skip
    yield "shortcut_with_strides", _between(shortcut, a=weight(8, 8, 3, 3), c=weight(8, 8, 1, 1))
