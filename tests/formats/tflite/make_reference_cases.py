"""Write the files of `reference_cases` and the results of LiteRT's reference kernels.

    python make_reference_cases.py reference_cases        with ai-edge-litert 2.3.0 and NumPy

A file for each element type, with independent operators. Scales are such that rounding once, twice, or ties to even
gives different integers somewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import make_cases as base
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from make_cases import Model

base.TYPES |= {"i8": 4}
IMAGE = (1, 7, 6, 4)
SCALE, OTHER = 0.043, 0.029
VERSIONS = {
    "CONV_2D": (1, 3, 4),
    "DEPTHWISE_CONV_2D": (1, 3, 5),
    "FULLY_CONNECTED": (1, 4, 7),
    "TRANSPOSE_CONV": (3, 3, 3),
    "BATCH_MATMUL": (1, 2, 3),
    "ADD": (1, 2, 4),
    "SUB": (1, 2, 5),
    "MUL": (1, 2, 4),
    "DIV": (2, 2, 2),
    "ABS": (1, 2, 3),
    "SUM": (1, 2, 2),
    "MEAN": (1, 2, 3),
    "AVERAGE_POOL_2D": (1, 2, 3),
    "LOGISTIC": (1, 2, 3),
    "TANH": (1, 2, 3),
    "SOFTMAX": (1, 2, 3),
    "LEAKY_RELU": (1, 2, 2),
    "RELU": (1, 2, 2),
    "RELU6": (1, 2, 2),
    "QUANTIZE": (2, 2, 2),
    "RESIZE_BILINEAR": (1, 2, 4),
    "SQUARED_DIFFERENCE": (1, 2, 2),
    "PRELU": (1, 1, 1),
}
KINDS = ("u1", "i1", "i2")


class Kind:
    """An element type: a model, and common operands of its operators."""

    def __init__(self, dtype):
        self.m: Any = Model(f"reference {dtype}")
        self.dtype, self.place = dtype, KINDS.index(dtype)
        self.zero = {"u1": 121, "i1": -7, "i2": 0}[dtype]
        self.fine = 1 if dtype != "i2" else 1 / 256
        self.x = self.input(IMAGE, SCALE, self.zero)
        zero = self.zero + (9 if self.zero else 0)
        self.y = self.input(IMAGE, OTHER, zero)
        # Nothing is divided by zero.
        self.m.feeds[1][self.m.feeds[1] == zero] += 1

    def input(self, shape, scale, zero):
        return self.m.input(self.dtype, shape, scale=scale * self.fine, zero=zero)

    def op(self, name, operands, shape, scale, options=None, zero=None, dtype=None, **fields):
        """`name` on operands, as an output."""
        step = scale if zero is not None else scale * self.fine
        zero = self.zero + (3 if self.zero else 0) if zero is None else zero
        y = self.m.tensor(f"{name} {len(self.m.graph.outputs)}", dtype or self.dtype, shape, scale=step, zero=zero)
        version = VERSIONS.get(name, (1, 1, 1))[self.place]
        self.m.op(name, operands, [y], options, version=version, **fields)
        self.m.graph.outputs.append(y)

    def filters(self, shape, axis, count):
        """Filters, their bias, and scales of each map but in uint8."""
        m, short = self.m, self.dtype == "i2"
        scales = m.random.uniform(0.004, 0.02, 1 if self.dtype == "u1" else count).astype("f4")
        low, high = (0, 256) if self.dtype == "u1" else (-127, 128)
        numbers = m.random.integers(low, high, shape)
        w = m.tensor("w", "u1" if self.dtype == "u1" else "i1", data=numbers, scale=scales, axis=axis)
        if self.dtype == "u1":
            m.graph.tensors[w].quantization.zeroPoint[:] = 119
        steps = np.float32(SCALE * self.fine) * scales
        bias = m.tensor("b", "i8" if short else "i4", data=m.random.integers(-400, 400, count), scale=steps)
        return w, bias


def windows(kind):
    stated = {"padding": 0, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    w, b = kind.filters((5, 2, 2, 4), 0, 5)
    kind.op("CONV_2D", [kind.x, w, b], (1, 7, 6, 5), 0.05, "Conv2DOptions", **stated, fusedActivationFunction=3)
    w, b = kind.filters((5, 1, 1, 4), 0, 5)
    stated |= {"padding": 1, "strideH": 2}
    kind.op("CONV_2D", [kind.x, w, b], (1, 4, 6, 5), 0.03, "Conv2DOptions", **stated)
    w, b = kind.filters((1, 3, 2, 8), 3, 8)
    stated |= {"padding": 0, "strideH": 1, "dilationHFactor": 2, "depthMultiplier": 2}
    kind.op("DEPTHWISE_CONV_2D", [kind.x, w, b], (1, 7, 6, 8), 0.04, "DepthwiseConv2DOptions", **stated)
    w, b = kind.filters((3, 2, 3, 4), 0, 3)
    shape = kind.m.tensor("shape", "i4", data=[1, 14, 12, 3])
    stated = {"padding": 0, "strideH": 2, "strideW": 2}
    kind.op("TRANSPOSE_CONV", [shape, w, kind.x, b], (1, 14, 12, 3), 0.04, "TransposeConvOptions", **stated)
    stated = {"padding": 0, "strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
    zero = {"zero": kind.zero}
    kind.op("AVERAGE_POOL_2D", [kind.x], (1, 4, 6, 4), SCALE * kind.fine, "Pool2DOptions", **zero, **stated)
    if kind.dtype == "u1":
        return
    size = kind.m.tensor("size", "i4", data=[11, 9])
    for name in ("halfPixelCenters", "alignCorners"):
        told = {name: True}
        kind.op(
            "RESIZE_BILINEAR", [kind.x, size], (1, 11, 9, 4), SCALE * kind.fine, "ResizeBilinearOptions", **zero, **told
        )


def products(kind):
    w, b = kind.filters((9, 4), 0, 9)
    kind.op("FULLY_CONNECTED", [kind.x, w, b], (42, 9), 0.03, "FullyConnectedOptions", fusedActivationFunction=1)
    if kind.dtype != "u1":
        kind.op("BATCH_MATMUL", [kind.x, kind.y], (1, 7, 6, 6), 0.06, "BatchMatMulOptions", adjY=True)


def elements(kind):
    kind.op("ADD", [kind.x, kind.y], IMAGE, 0.061, "AddOptions", fusedActivationFunction=1, potScaleInt16=False)
    kind.op("SUB", [kind.x, kind.y], IMAGE, 0.057, "SubOptions", potScaleInt16=False)
    kind.op("MUL", [kind.x, kind.y], IMAGE, 0.09 if kind.place < 2 else 4.0, "MulOptions")
    kind.op("LEAKY_RELU", [kind.x], IMAGE, 0.05, "LeakyReluOptions", alpha=0.3)
    kind.op("QUANTIZE", [kind.x], IMAGE, 0.033, "QuantizeOptions")
    kind.op("RELU", [kind.x], IMAGE, 0.031)
    axes = kind.m.tensor("axes", "i4", data=[1, 2])
    kind.op("MEAN", [kind.x, axes], (1, 4), 0.01, "ReducerOptions")
    kind.op("RELU6", [kind.x], IMAGE, 0.037)
    if kind.dtype == "i2":
        kind.op("ABS", [kind.x], IMAGE, 0.031, "AbsOptions")
        return
    kind.op("DIV", [kind.x, kind.y], IMAGE, 0.2, "DivOptions")
    kind.op("HARD_SWISH", [kind.x], IMAGE, 0.03, "HardSwishOptions")
    least = 0 if kind.dtype == "u1" else -128
    kind.op("LOGISTIC", [kind.x], IMAGE, 1 / 256, zero=least)
    kind.op("TANH", [kind.x], IMAGE, 1 / 128, zero=least + 128)
    kind.op("SOFTMAX", [kind.x], IMAGE, 1 / 256, "SoftmaxOptions", zero=least, beta=0.7)
    slopes = kind.m.tensor("a", kind.dtype, data=kind.m.random.integers(0, 100, (1, 1, 4)), scale=0.01, zero=kind.zero)
    kind.op("PRELU", [kind.x, slopes], IMAGE, 0.05)
    if kind.dtype == "i1":
        kind.op("ABS", [kind.x], IMAGE, 0.031, "AbsOptions")
        kind.op("SUM", [kind.x, axes], (1, 4), 1.1, "ReducerOptions")
        kind.op("SQUARED_DIFFERENCE", [kind.x, kind.y], IMAGE, 0.1, "SquaredDifferenceOptions")


def reals(kind):
    """Floats in multiples of 1/8, many of them ties."""
    halves = np.concatenate([np.arange(-40, 40) * 0.125, kind.m.random.normal(size=88) * 3])
    x = kind.m.input("f4", (168,), halves)
    zero = kind.zero
    kind.op("QUANTIZE", [x], (168,), 0.25, "QuantizeOptions", zero=zero)


def run(raw, feeds):
    interpreter = Interpreter(model_content=raw, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for port, array in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(port["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(port["index"]) for port in interpreter.get_output_details()]


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, dtype in (("uint8", "u1"), ("int8", "i1"), ("int16", "i2")):
        kind = Kind(dtype)
        for part in (windows, products, elements, reals):
            part(kind)
        raw = kind.m.bytes()
        (folder / f"{name}.tflite").write_bytes(raw)
        told = {f"in{index}": array for index, array in enumerate(kind.m.feeds)}
        told |= {f"out{index}": array for index, array in enumerate(run(raw, kind.m.feeds))}
        np.savez_compressed(folder / f"{name}.npz", **told)


if __name__ == "__main__":
    main()
