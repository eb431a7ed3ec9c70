"""Models that are difficult or impossible to quantize, and the expected diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.models import model, node, typed

PICTURE = [1, 4, 6, 6]
NUMBERS = np.random.default_rng(0)


def _weight(*shape: int, seed: int = 3) -> Any:
    fan = int(np.prod(shape[1:])) or 1
    return (np.random.default_rng(seed).normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32)


W, V, B = _weight(4, 4, 3, 3), _weight(4, 4, 1, 1, seed=4), np.asarray([0.3, -0.2, 0.1, 0], np.float32)
KNOWN = {"w": W, "v": V, "b": B}


def _three(source: str, result: str, weight: str = "w", *more: str) -> Any:
    """A convolution of three by three."""
    return node("Conv", [source, weight, *more], [result], pads=[1] * 4)


def _one(source: str, result: str, weight: str = "v", *more: str) -> Any:
    """A convolution of one by one."""
    return node("Conv", [source, weight, *more], [result])


@dataclass(frozen=True)
class Awkward:
    """A model, its inputs by shape, and the code of the diagnostic for every target, if there is one.

    `unsaid` are targets whose format cannot represent the model: saving is refused.
    """

    proto: ModelProto
    inputs: dict[str, Any] = field(default_factory=lambda: {"x": PICTURE})
    code: str | None = None
    unsaid: tuple[str, ...] = ()

    def samples(self, count: int = 8, seed: int = 1) -> list[dict[str, Any]]:
        """Return random inputs; kinds that are no shape are constants or functions of the sample's index."""
        random = np.random.default_rng(seed)
        return [{name: _given(random, kind, i) for name, kind in self.inputs.items()} for i in range(count)]


def _given(random: np.random.Generator, kind: Any, number: int) -> Any:
    if isinstance(kind, Callable):
        kind = kind(number)
    return random.normal(size=kind).astype(np.float32) if isinstance(kind, list) else kind


def _made(*nodes: Any, inputs: Any = None, outputs: Any = None, opset: int = 17, **constants: Any) -> ModelProto:
    known = KNOWN | constants
    read = {name for item in nodes for name in _reads(item)} | {item[0] for item in outputs or () if item[0] in known}
    kept = {name: x for name, x in known.items() if name in read}
    return model(nodes, inputs or [("x", PICTURE)], outputs or [("y", None)], kept, opset=opset)


def _reads(item: Any) -> set[str]:
    bodies = [attribute.g for attribute in item.attribute if attribute.HasField("g")]
    return {*item.input, *(name for body in bodies for inner in body.node for name in _reads(inner))}


def _body(nodes: Any, inputs: Any, outputs: Any) -> Any:
    return helper.make_graph(nodes, "body", inputs, outputs)


def _choice(source: str, result: str) -> Any:
    then = _body([_three(source, "t")], [], [typed("t", None)])
    other = _body([_one(source, "e")], [], [typed("e", None)])
    return node("If", ["c"], [result], then_branch=then, else_branch=other)


def _loop(source: str, result: str) -> Any:
    body = _body(
        [_three("s", "s1"), node("Relu", ["s1"], ["s2"]), node("Identity", ["more"], ["again"])],
        [typed("i", [], TensorProto.INT64), typed("more", [], TensorProto.BOOL), typed("s", None)],
        [typed("again", [], TensorProto.BOOL), typed("s2", None)],
    )
    return node("Loop", ["n", "always", source], [result], body=body)


def _scan() -> ModelProto:
    state = typed("s", [2, 4]), typed("e", [2, 4])
    body = _body(
        [node("MatMul", ["s", "k"], ["a"]), node("Add", ["a", "e"], ["f"]), node("Identity", ["f"], ["o"])],
        list(state), [typed("f", [2, 4]), typed("o", [2, 4])],
    )  # fmt: skip
    nodes = [
        node("MatMul", ["x", "p"], ["a0"]),
        node("Scan", ["z", "a0"], ["last", "all"], num_scan_inputs=1, body=body),
        node("MatMul", ["all", "p"], ["y"]),
    ]
    zeros = np.zeros((2, 4), np.float32)
    return _made(*nodes, inputs=[("x", [5, 2, 4])], k=_weight(4, 4), p=_weight(4, 4, seed=8), z=zeros)


def _typed(dtype: Any, kind: int) -> ModelProto:
    nodes = [_three("x", "a"), node("Relu", ["a"], ["r"]), _one("r", "y")]
    constants = {"w": W.astype(dtype), "v": V.astype(dtype)}
    return model(nodes, [typed("x", PICTURE, kind)], [typed("y", None, kind)], constants)


def _matrices(*nodes: Any, **constants: Any) -> ModelProto:
    return _made(*nodes, inputs=[("x", [1, 5, 4])], p=_weight(4, 4), q=_weight(4, 4, seed=8), **constants)


def _masked(low: float) -> ModelProto:
    mask = np.where(np.tril(np.ones((5, 4))) > 0, 0, low).astype(np.float32)
    nodes = [node("MatMul", ["x", "p"], ["a"]), node("Add", ["a", "mask"], ["s"]),
             node("Softmax", ["s"], ["t"], axis=-1), node("MatMul", ["t", "q"], ["y"])]  # fmt: skip
    return _matrices(*nodes, mask=mask)


def _with(array: Any, value: float) -> Any:
    found = array.copy()
    found.reshape(-1)[1] = value
    return found


def _rounded(*nodes: Any, **more: Any) -> ModelProto:
    codes = np.clip(np.rint(W / 0.02), -127, 127).astype(np.int8)
    return _made(*nodes, s=np.float32(0.02), z=np.uint8(128), zi=np.int8(0), codes=codes, **more)


def _older(opset: int) -> ModelProto:
    nodes = [_three("x", "a", "w", "b"), node("Relu", ["a"], ["r"]), node("GlobalAveragePool", ["r"], ["g"]),
             node("Flatten", ["g"], ["f"]), node("Gemm", ["f", "k", "c"], ["t"]), node("Softmax", ["t"], ["y"])]  # fmt: skip
    return _made(*nodes, opset=opset, k=_weight(4, 5), c=np.ones(5, np.float32))


def _initializer_input() -> ModelProto:
    proto = _made(_three("x", "y"), inputs=[("x", PICTURE), ("w", [4, 4, 3, 3])])
    proto.ir_version = 3
    return proto


CHOICE = {"x": PICTURE, "c": lambda number: np.asarray(bool(number % 2))}
TWICE = {"x": PICTURE, "n": np.asarray(2, np.int64)}
FLAG, COUNT = typed("c", [], TensorProto.BOOL), typed("n", [], TensorProto.INT64)
NO_BODIES, NO_FREE_AXES = ("ncnn", "nnef"), ("nnef",)
RELU = node("Relu", ["a"], ["r"])

CASES = {
    "weights in the branches of an If": Awkward(
        _made(_three("x", "a"), _choice("a", "h"), _one("h", "y"), inputs=[("x", PICTURE), FLAG]), CHOICE,
        unsaid=NO_BODIES,
    ),
    "weights in the branches of an If alone": Awkward(
        _made(_choice("x", "y"), inputs=[("x", PICTURE), FLAG]), CHOICE, "QUANT0007"
    ),
    "weights in a Loop": Awkward(
        _made(_three("x", "a"), _loop("a", "l"), _one("l", "y"), inputs=[("x", PICTURE), COUNT], always=np.asarray(True)),
        TWICE, unsaid=NO_BODIES,
    ),
    "weights in a Scan": Awkward(_scan(), {"x": [5, 2, 4]}, unsaid=NO_BODIES),
    "free height and width": Awkward(
        _made(_three("x", "a"), RELU, _one("r", "y"), inputs=[("x", [1, 4, "H", "W"])]),
        {"x": lambda number: [1, 4, 5 + number, 9 - number % 3]}, unsaid=NO_FREE_AXES,
    ),
    "a free sequence": Awkward(
        _made(node("MatMul", ["x", "p"], ["a"]), RELU, node("MatMul", ["r", "q"], ["y"]), inputs=[("x", [1, "S", 4])],
              p=_weight(4, 4), q=_weight(4, 4, seed=8)),
        {"x": lambda number: [1, 3 + number, 4]}, unsaid=NO_FREE_AXES,
    ),
    "an unknown number of axes": Awkward(
        _made(node("MatMul", ["x", "p"], ["y"]), inputs=[("x", None)], p=_weight(4, 4)), {"x": [1, 5, 4]}, "QUANT0007"
    ),
    "a tied embedding": Awkward(
        _made(node("Gather", ["e", "x"], ["a"]), node("Transpose", ["e"], ["t"], perm=[1, 0]),
              node("MatMul", ["a", "p"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "t"], ["y"]),
              inputs=[typed("x", [1, 5], TensorProto.INT64)], e=_weight(11, 8), p=_weight(8, 8)),
        {"x": lambda number: np.random.default_rng(number).integers(0, 11, (1, 5))},
    ),
    "one weight for two layers": Awkward(_made(_three("x", "a"), RELU, _three("r", "y"))),
    "a weight shared over Identity": Awkward(
        _made(node("Identity", ["w"], ["w2"]), _three("x", "a"), _three("a", "y", "w2"))
    ),
    "one value for readers of two sizes": Awkward(
        _made(_three("x", "a"), RELU, _one("r", "y1"), node("Mul", ["r", "k"], ["big"]), _one("big", "y2"),
              node("Add", ["y1", "y2"], ["y"]), k=np.float32(100))
    ),
    "no layer": Awkward(_made(node("Relu", ["x"], ["y"])), code="QUANT0007"),
    "no node": Awkward(model([], [("x", [1, 4])], [("x", [1, 4])]), {"x": [1, 4]}, "QUANT0007"),
    "an input that is an output": Awkward(_made(_three("x", "y"), outputs=[("y", None), ("x", PICTURE)])),
    "a constant that is an output": Awkward(_made(_three("x", "y", "w", "b"), outputs=[("y", None), ("b", [4])])),
    "a weight that is an output": Awkward(_made(_three("x", "y"), outputs=[("y", None), ("w", [4, 4, 3, 3])])),
    "half precision": Awkward(
        _typed(np.float16, TensorProto.FLOAT16),
        {"x": lambda number: np.random.default_rng(number).normal(size=PICTURE).astype(np.float16)}, unsaid=("nnef",),
    ),
    "double precision": Awkward(
        _typed(np.float64, TensorProto.DOUBLE), {"x": lambda number: np.full(PICTURE, float(number))}, "QUANT0007"
    ),
    "a weight kept in half precision": Awkward(
        _made(node("Cast", ["h"], ["h1"], to=1), _three("x", "a", "h1"), RELU, _one("r", "y"), h=W.astype(np.float16))
    ),
    "an initializer that is an input": Awkward(_initializer_input()),
    "a weight that is an input": Awkward(
        _made(_three("x", "y", "k"), inputs=[("x", PICTURE), ("k", [4, 4, 3, 3])]), {"x": PICTURE, "k": W}, "QUANT0007"
    ),
    "many channels": Awkward(
        _made(_one("x", "a", "up"), RELU, _one("r", "y", "down"), inputs=[("x", [1, 4, 2, 2])],
              up=_weight(2048, 4, 1, 1), down=_weight(4, 2048, 1, 1)), {"x": [1, 4, 2, 2]},
    ),
    "a layer without results": Awkward(
        _made(_one("x", "a", "none"), node("Concat", ["a", "x"], ["m"], axis=1), _three("m", "y"),
              none=np.zeros((0, 4, 1, 1), np.float32)), unsaid=("onnxruntime",),
    ),
    "a scalar input": Awkward(
        _made(_three("x", "a"), node("Mul", ["a", "t"], ["m"]), _one("m", "y"), inputs=[("x", PICTURE), ("t", [])]),
        {"x": PICTURE, "t": lambda number: np.asarray(number + 1, np.float32)}, unsaid=("ncnn",),
    ),
    "a scalar between": Awkward(
        _made(_three("x", "a"), node("ReduceMean", ["a"], ["s"], keepdims=0), node("Mul", ["a", "s"], ["m"]),
              _one("m", "y")),
    ),
    "NaN in a weight": Awkward(_made(_three("x", "y"), w=_with(W, np.nan)), code="QUANT0015"),
    "infinity in a weight": Awkward(_made(_three("x", "y"), w=_with(W, np.inf)), code="QUANT0015"),
    "NaN in a bias": Awkward(_made(_three("x", "y", "w", "b"), b=_with(B, np.nan)), code="QUANT0015"),
    "weights of zero": Awkward(_made(_three("x", "a"), RELU, _one("r", "y", "v", "b"), w=W * 0)),
    "activations of zero": Awkward(
        _made(node("Mul", ["x", "zero"], ["x0"]), _three("x0", "a"), _one("a", "y", "v", "b"), zero=np.float32(0))
    ),
    "activations of one number": Awkward(
        _made(node("Mul", ["x", "zero"], ["x0"]), node("Add", ["x0", "k"], ["x1"]), _three("x1", "a"), _one("a", "y"),
              zero=np.float32(0), k=np.float32(3.7))
    ),
    "dead channels": Awkward(
        _made(_three("x", "a", "w", "b"), RELU, _one("r", "y"), b=np.asarray([0, -9, 0, 1], np.float32),
              w=W * np.asarray([1, 0, 0, 1], np.float32).reshape(4, 1, 1, 1))
    ),
    "a huge bias": Awkward(_made(_three("x", "a", "w", "b"), _one("a", "y"), b=_with(B, 1e9))),
    "weights near the least number": Awkward(_made(_three("x", "a"), _one("a", "y", "v", "b"), w=W * np.float32(1e-38))),
    "a mask of minus infinity": Awkward(_masked(-np.inf), {"x": [1, 5, 4]}),
    "a mask of the lowest number": Awkward(_masked(float(np.finfo(np.float32).min)), {"x": [1, 5, 4]}),
    "an input that nobody reads": Awkward(
        _made(_three("x", "y"), inputs=[("x", PICTURE), ("u", [1, 3])]), {"x": PICTURE, "u": [1, 3]}
    ),
    "a square of a matrix": Awkward(
        _made(node("MatMul", ["x", "x"], ["a"]), node("MatMul", ["a", "p"], ["y"]), inputs=[("x", [1, 4, 4])],
              p=_weight(4, 4)), {"x": [1, 4, 4]},
    ),
    "rounded in part": Awkward(
        _rounded(node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                 node("DequantizeLinear", ["codes", "s", "zi"], ["wd"]), _three("d", "a", "wd"), RELU, _one("r", "y")),
        code="QUANT0006",
    ),
    "integer operators": Awkward(
        _rounded(node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                 node("QLinearConv", ["q", "s", "z", "codes", "s", "zi", "s", "z"], ["a"]),
                 node("DequantizeLinear", ["a", "s", "z"], ["y"])), code="QUANT0006",
    ),
    "rounded while it runs": Awkward(
        _made(node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]), node("ConvInteger", ["q", "codes", "qz"], ["i"]),
              node("Cast", ["i"], ["f"], to=1), node("Mul", ["f", "qs"], ["y"]), codes=np.ones((4, 4, 1, 1), np.uint8)),
        code="QUANT0006",
    ),
    "rounded weights": Awkward(
        _rounded(node("DequantizeLinear", ["codes", "s", "zi"], ["wd"]), _three("x", "a", "wd"), RELU, _one("r", "y")),
        code="QUANT0006",
    ),
    "an operator that nobody knows": Awkward(
        model([_three("x", "a"), node("Odd", ["a"], ["o"], domain="com.example"), _one("o", "y")], [("x", PICTURE)],
              [("y", None)], {"w": W, "v": V}, domains={"com.example": 1}), code="RUN0003",
    ),
    "a Constant that is an output": Awkward(
        _made(_three("x", "y"), node("Constant", [], ["k"], value=numpy_helper.from_array(B)),
              outputs=[("y", None), ("k", [4])])
    ),
    "two nodes of one name": Awkward(
        _made(node("Conv", ["x", "w"], ["a"], pads=[1] * 4, name="a b/c"), node("Conv", ["a", "v"], ["y"], name="a b/c"))
    ),
} | {f"opset {number}": Awkward(_older(number)) for number in (7, 10, 13, 21, 26)}  # fmt: skip
