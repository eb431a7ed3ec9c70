"""Single operators cut out of quantized models, and what runtimes make of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import graphport as gp
from graphport.backends import reference
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node
from tests.quantization import nets

MOST = 1e-3
"""The part of the elements that may differ by a step."""


@dataclass
class Piece:
    """An operator between values that are rounded: `codes` has scale, zero point and type of each input that is.

    `step` is that of the result, `None` where it is real.
    """

    graph: Graph
    codes: dict
    step: float | None
    words: str

    def inputs(self, seed=0, batch=2):
        """Numbers that are on the grid of each input, from all of its codes."""
        random = np.random.default_rng(seed)
        found = {}
        for value in self.graph.inputs:
            shape = [dim if isinstance(dim, int) else batch for dim in value.fact.shape]
            if value.name not in self.codes:
                found[value.name] = random.normal(size=shape).astype(np.float32)
                continue
            scale, zero_point, dtype, axis = self.codes[value.name]
            limits = np.iinfo(dtype)
            codes = random.integers(limits.min + (dtype == np.int8), limits.max + 1, shape)
            if np.ndim(scale):
                scale, zero_point = (x.reshape(-1, *[1] * (len(shape) - axis - 1)) for x in (scale, zero_point))
            found[value.name] = ((codes - zero_point) * scale).astype(np.float32)
        return found

    def differences(self, run, seed=0, batch=2):
        """How many steps what `run` computes is from the pages, for each element."""
        inputs = self.inputs(seed, batch)
        (expected,) = reference.prepare(self.graph).run(inputs).values()
        found = run(gp.Model(self.graph), inputs)[self.graph.outputs[0].name]
        step = self.step or max(float(np.ptp(expected)), 1e-6) / 255
        return np.abs(np.asarray(expected, np.float64) - np.asarray(found).reshape(expected.shape)) / step


def pieces(quantized, *, rounds_results=True):
    """Every operator of a quantized model that reads rounded values, with what its kernel swallows behind it.

    Without `rounds_results` it ends before its result is rounded for the next one.
    """
    found = [n for n in quantized.graph if n.op not in ("QuantizeLinear", "DequantizeLinear") and _reads_rounded(n)]
    return [_cut(n, rounds_results=rounds_results) for n in found]


def check(quantized, run, *, seed=0, batch=2, most=MOST, rounds_results=True):
    """Hold every operator of a quantized model against the pages: one step at most, in few elements."""
    cut = pieces(quantized, rounds_results=rounds_results)
    assert cut
    for piece in cut:
        steps = piece.differences(run, seed, batch)
        assert steps.max() < 1.5, f"{piece.words}: {steps.max()} steps"
        assert np.mean(steps > 0.5) <= most, f"{piece.words}: {np.mean(steps > 0.5):.2%} of the elements"
    return cut


def _reads_rounded(n):
    return any(_is_rounded(v.producer) for v in n.operands)


def _is_rounded(maker):
    """Whether it gives the numbers of computed codes; sums of products are no codes."""
    return _is(maker, "DequantizeLinear") and not maker.operands[0].is_constant and len(maker.operands) == 3


def _is(n, op):
    return n is not None and n.op == op


def _cut(first, *, rounds_results):
    graph, twins, codes = Graph("piece"), {}, {}
    current, words, step = first, [], None
    while True:
        for value in current.operands:
            _give(graph, twins, codes, value)
        twin = graph.append(rewrite.copy_node(current, twins))
        twins.update(zip(current.results, twin.results, strict=True))
        words.append(current.op)
        result = current.results[0]
        if current.op == "DequantizeLinear":
            step = float(np.max(current.operands[1].storage.numpy()))
            break
        if len(result.uses) != 1 or result.is_output:
            break
        reader = result.users[0]
        if not rounds_results and reader.op in ("QuantizeLinear", "Max"):
            break
        others = [v for v in reader.operands if v is not result and not v.is_constant]
        if others or (current.op == "QuantizeLinear" and reader.op != "DequantizeLinear"):
            break
        current = reader
    graph.add_output(twins[current.results[0]])
    return Piece(graph, codes, step, "+".join(words))


def _give(graph, twins, codes, value):
    if value in twins:
        return
    if value.is_constant:
        twins[value] = graph.add_constant(value.name, value.fact, value.storage)
        return
    maker = value.producer
    if not _is(maker, "DequantizeLinear") or len(maker.operands) < 3:
        twins[value] = graph.add_input(value.name, value.fact)
        return
    for operand in maker.operands[1:]:
        _give(graph, twins, codes, operand)
    if maker.operands[0].is_constant:
        _give(graph, twins, codes, maker.operands[0])
        twins[value] = graph.append(rewrite.copy_node(maker, twins)).output
        return
    real = TensorFact(DType.FLOAT32, value.fact.shape)
    given = graph.add_input(value.name, real)
    parameters = [twins[operand] for operand in maker.operands[1:]]
    kind = maker.operands[0].fact.dtype
    rounded, result = Value(graph.fresh("codes"), TensorFact(kind, value.fact.shape)), Value(graph.fresh("real"), real)
    graph.append(Node("QuantizeLinear", [given, *parameters], [rounded], dict(maker.attributes)))
    graph.append(Node("DequantizeLinear", [rounded, *parameters], [result], dict(maker.attributes)))
    twins[value] = result
    scale, zero_point = (operand.storage.numpy().astype(np.float64) for operand in maker.operands[1:])
    codes[given.name] = (scale, zero_point, kind.numpy, maker.attributes.get("axis", 1))


# Models with one operator between convolutions


def weight(*shape, seed=3):
    """Normal numbers of the size that keeps sums small."""
    fan = int(np.prod(shape[1:])) or 1
    return (np.random.default_rng(seed).normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32)


def between(*nodes, channels=8, inputs=3, last=True, opset=17, **constants):
    """`h` and `h2` are results of convolutions, `m` is read by one."""
    random = np.random.default_rng(0)
    known = {
        "w1": weight(channels, inputs, 3, 3, seed=1),
        "b1": (random.normal(size=channels) * 0.3).astype(np.float32),
        "w2": weight(channels, inputs, 3, 3, seed=2),
        "w9": weight(6, channels, 1, 1, seed=9),
    } | constants
    made = [node("Conv", ["x", "w1", "b1"], ["h"], pads=[1] * 4), *nodes]
    if any("h2" in n.input for n in nodes):
        made.insert(0, node("Conv", ["x", "w2"], ["h2"], pads=[1] * 4))
    if last:
        made.append(node("Conv", ["m", "w9"], ["y"]))
    read = {name for n in made for name in n.input}
    constants = {name: array for name, array in known.items() if name in read}
    return gp.from_onnx(model(made, [("x", ["N", inputs, 10, 10])], [("y", None)], constants, opset=opset))


def quantized(found, target, **settings):
    """`found` for a target, quickly, with integers wherever there are kernels, and without changes of the graph."""
    settings = {"cheap_layers": False, **settings}
    return gp.quantize(found, nets.samples(found, 24), target, preset="fast", equalize=False, **settings)


def _longs(*numbers):
    return np.asarray(numbers, np.int64)


OPERATORS = {
    "Conv": lambda: between(node("Conv", ["h", "a"], ["m"], pads=[1] * 4), a=weight(8, 8, 3, 3)),
    "Conv of 1 channel": lambda: between(
        node("Conv", ["h", "a"], ["m"], pads=[1] * 4), channels=8, inputs=1, a=weight(8, 8, 3, 3)
    ),
    "Conv of 5 channels": lambda: between(
        node("Conv", ["h", "a"], ["t"], pads=[1] * 4), node("Relu", ["t"], ["m"]), channels=5, inputs=5,
        a=weight(5, 5, 3, 3), w9=weight(6, 5, 1, 1),
    ),
    "Conv, strided and dilated": lambda: between(
        node("Conv", ["h", "a"], ["m"], strides=[2, 1], dilations=[1, 2], pads=[0, 1, 2, 3]), a=weight(8, 8, 3, 2)
    ),
    "Conv, depthwise": lambda: between(node("Conv", ["h", "a"], ["m"], group=8), a=weight(8, 1, 3, 3)),
    "Conv, grouped": lambda: between(node("Conv", ["h", "a"], ["m"], group=2), a=weight(8, 4, 3, 3)),
    "ConvTranspose": lambda: between(node("ConvTranspose", ["h", "a"], ["m"], strides=[2, 2]), a=weight(8, 8, 2, 2)),
    "ConvTranspose, grouped": lambda: between(
        node("ConvTranspose", ["h", "a", "b"], ["m"], strides=[2, 2], group=4), a=weight(8, 2, 2, 2), b=weight(8)
    ),
    "ConvTranspose, depthwise": lambda: between(
        node("ConvTranspose", ["h", "a", "b"], ["m"], strides=[2, 2], group=8), a=weight(8, 1, 2, 2), b=weight(8)
    ),
    "Relu": lambda: between(node("Relu", ["h"], ["m"])),
    "ReLU6": lambda: between(
        node("Clip", ["h", "low", "high"], ["m"]), low=np.float32(0), high=np.float32(1.5)
    ),
    "Clip, two-sided": lambda: between(
        node("Clip", ["h", "low", "high"], ["m"]), low=np.float32(-0.7), high=np.float32(0.9)
    ),
    "LeakyRelu": lambda: between(node("LeakyRelu", ["h"], ["m"], alpha=0.1)),
    "Sigmoid": lambda: between(node("Sigmoid", ["h"], ["m"])),
    "HardSwish": lambda: between(node("HardSwish", ["h"], ["m"])),
    "SiLU": lambda: between(node("Sigmoid", ["h"], ["s"]), node("Mul", ["h", "s"], ["m"])),
    "Gelu": lambda: between(
        node("Div", ["h", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["f"]),
        node("Mul", ["h", "f"], ["g"]), node("Mul", ["g", "half"], ["m"]),
        root=np.float32(2**0.5), one=np.float32(1), half=np.float32(0.5),
    ),
    "Softmax": lambda: between(node("Softmax", ["h"], ["m"], axis=1)),
    "Add": lambda: between(node("Add", ["h", "h2"], ["m"])),
    "Add of a number": lambda: between(node("Add", ["h", "k"], ["m"]), k=np.float32(-1.37)),
    "Mul": lambda: between(node("Mul", ["h", "h2"], ["m"])),
    "Concat": lambda: between(
        node("Concat", ["h", "h2"], ["m"], axis=1), w9=weight(6, 16, 1, 1)
    ),
    "MaxPool": lambda: between(node("MaxPool", ["h"], ["m"], kernel_shape=[2, 2], strides=[2, 2])),
    "AveragePool": lambda: between(node("AveragePool", ["h"], ["m"], kernel_shape=[3, 3], pads=[1] * 4)),
    "GlobalAveragePool": lambda: between(node("GlobalAveragePool", ["h"], ["m"])),
    "Resize": lambda: between(
        node("Resize", ["h", "", "s"], ["m"], mode="nearest"), s=np.asarray([1, 1, 2, 2], np.float32)
    ),
    "Resize, linear": lambda: between(
        node("Resize", ["h", "", "s"], ["m"], mode="linear"), s=np.asarray([1, 1, 2, 2], np.float32)
    ),
    "Reshape": lambda: between(node("Reshape", ["h", "s"], ["m"]), s=_longs(0, 8, 5, 20)),
    "Transpose": lambda: between(node("Transpose", ["h"], ["m"], perm=[0, 1, 3, 2])),
    "Slice": lambda: between(
        node("Slice", ["h", "s", "e", "a"], ["m"]), s=_longs(1), e=_longs(7), a=_longs(2)
    ),
    "Pad": lambda: between(node("Pad", ["h", "p"], ["m"]), p=_longs(0, 0, 1, 1, 0, 0, 2, 1)),
    "Gemm": lambda: between(
        node("GlobalAveragePool", ["h"], ["p"]), node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "a", "b"], ["g"], transB=1), node("Relu", ["g"], ["r"]), node("Gemm", ["r", "c"], ["y"]),
        last=False, a=weight(12, 8), b=weight(12), c=weight(12, 5),
    ),
    "MatMul": lambda: between(
        node("MatMul", ["h", "a"], ["t"]), node("Relu", ["t"], ["u"]), node("MatMul", ["u", "c"], ["y"]),
        last=False, a=weight(10, 12), c=weight(12, 7),
    ),
    "LayerNormalization": lambda: between(
        node("LayerNormalization", ["h", "g", "b"], ["t"], axis=-1), node("MatMul", ["t", "a"], ["m"]),
        g=np.ones(10, np.float32), b=np.zeros(10, np.float32), a=weight(10, 12),
    ),
    "MatMul of attention": lambda: between(
        node("Transpose", ["h2"], ["k"], perm=[0, 1, 3, 2]), node("MatMul", ["h", "k"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "h2"], ["m"]),
    ),
}  # fmt: skip


@cache
def operator(name, target):
    """One of `OPERATORS` for a target; tests leave it as it is."""
    return quantized(OPERATORS[name](), target)
