"""Write the files of `cases` and record the results of LiteRT's kernels.

    python make_cases.py cases        with ai-edge-litert 2.3.0 and NumPy

Each file has few operators. A recording has the inputs `in0`, …, and the outputs `out0`, … of LiteRT's optimized
kernels. (The reference kernel of LOCAL_RESPONSE_NORMALIZATION omits a neighbour.)
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

CODES = {name: number for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
FIRST = {name: number for name, number in vars(schema.BuiltinOptions).items() if not name.startswith("_")}
TYPES = {"f4": 0, "f2": 1, "i4": 2, "u1": 3, "i8": 4, "?": 6, "i2": 7, "i1": 9, "int4": 17, "int2": 19}
CASES = {}


class Model:
    """A model that is being made."""

    def __init__(self, name):
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, "graphport tests"
        self.model.operatorCodes, self.model.buffers, self.model.subgraphs = [], [schema.BufferT()], []
        self.feeds = []
        self.subgraph("main")

    def subgraph(self, name):
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators, graph.inputs, graph.outputs = name, [], [], [], []
        self.model.subgraphs.append(graph)
        self.graph = graph

    def tensor(self, name, dtype, shape=(), data=None, scale=None, zero=0, axis=0, variable=False):
        tensor = schema.TensorT()
        tensor.name, tensor.type, tensor.buffer, tensor.hasRank, tensor.isVariable = (
            name,
            TYPES[dtype],
            0,
            True,
            variable,
        )
        if data is not None:
            array = packed(data, dtype)
            shape, buffer = np.asarray(data).shape, schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), "u1")
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        tensor.shape = list(shape)
        if scale is not None:
            told = schema.QuantizationParametersT()
            told.scale = np.atleast_1d(np.asarray(scale, "f4"))
            told.zeroPoint = np.broadcast_to(np.asarray(zero, "i8"), told.scale.shape).copy()
            told.quantizedDimension = axis
            tensor.quantization = told
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, dtype, shape, feed=None, **told):
        index = self.tensor(f"x{len(self.graph.inputs)}", dtype, shape, **told)
        self.graph.inputs.append(index)
        if len(self.model.subgraphs) == 1:
            if feed is None and dtype == "f4":
                feed = self.random.normal(size=shape)
            if feed is None:
                limits = np.iinfo(dtype)
                feed = self.random.integers(limits.min, limits.max + 1, shape)
            self.feeds.append(np.asarray(feed).astype(dtype).reshape(shape))
        return index

    def op(self, name, inputs, outputs, options=None, version=1, **fields):
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = CODES[name], version
        code.deprecatedBuiltinCode = min(CODES[name], 127)
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = len(self.model.operatorCodes) - 1, inputs, outputs
        if options:
            record = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                setattr(record, field, value)
            operator.builtinOptionsType, operator.builtinOptions = FIRST[options], record
        self.graph.operators.append(operator)

    def bytes(self):
        builder = flatbuffers.Builder(4096)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def packed(data, dtype):
    """Return the bytes of a constant; elements of two or four bits are packed, the low bits first."""
    if not dtype.startswith("int"):
        return np.ascontiguousarray(np.asarray(data).astype(dtype))
    width = int(dtype[3:])
    flat = np.asarray(data).astype("u1").reshape(-1, 8 // width) & ((1 << width) - 1)
    return (flat << np.arange(0, 8, width)).sum(1).astype("u1")


def case(make):
    CASES[make.__name__] = make
    return make


def simple(name, operator, options=None, constants=(), shapes=((2, 3, 4),), out=None, **fields):
    """An operator on float inputs and constants."""

    def make(m):
        inputs = [m.input("f4", shape) for shape in shapes]
        inputs += [m.tensor(f"c{i}", dtype, data=data) for i, (dtype, data) in enumerate(constants)]
        y = m.tensor("y", out or "f4", (1,))
        m.op(operator, inputs, [y], options, **fields)
        m.graph.outputs = [y]

    CASES[name] = make


simple("relu_n1_to_1", "RELU_N1_TO_1")
simple("softmax_beta", "SOFTMAX", "SoftmaxOptions", beta=0.5)
simple("leaky_relu", "LEAKY_RELU", "LeakyReluOptions", alpha=0.25)
simple("add_relu6", "ADD", "AddOptions", shapes=((2, 3, 4), (3, 1)), fusedActivationFunction=3)
simple("floor_mod", "FLOOR_MOD", "FloorModOptions", shapes=((2, 3, 4), (4,)))
simple("mean", "MEAN", "ReducerOptions", (("i4", [-1, 1]),), keepDims=True)
simple("mean_of_no_axes", "MEAN", "ReducerOptions", (("i4", np.zeros(0)),), keepDims=True)
simple(
    "strided_slice",
    "STRIDED_SLICE",
    "StridedSliceOptions",
    (("i4", [0, -1, 3]), ("i4", [2, 0, 0]), ("i4", [1, -1, -2])),
    beginMask=4,
    endMask=4,
    shrinkAxisMask=1,
)
simple("gather_batch", "GATHER", "GatherOptions", (("i4", [[1, 0], [2, 2]]),), axis=1, batchDims=1)
simple("mirror_pad", "MIRROR_PAD", "MirrorPadOptions", (("i4", [[0, 0], [1, 2], [3, 1]]),), mode=1)
simple(
    "resize_nearest",
    "RESIZE_NEAREST_NEIGHBOR",
    "ResizeNearestNeighborOptions",
    (("i4", [7, 5]),),
    ((1, 3, 4, 2),),
    halfPixelCenters=True,
)
simple(
    "resize_bilinear", "RESIZE_BILINEAR", "ResizeBilinearOptions", (("i4", [7, 5]),), ((1, 3, 4, 2),), alignCorners=True
)
simple(
    "space_to_batch",
    "SPACE_TO_BATCH_ND",
    "SpaceToBatchNDOptions",
    (("i4", [2, 2]), ("i4", [[0, 1], [1, 0]])),
    ((1, 3, 5, 2),),
)
simple("depth_to_space", "DEPTH_TO_SPACE", "DepthToSpaceOptions", (), ((1, 3, 2, 8),), blockSize=2)
simple(
    "max_pool_same",
    "MAX_POOL_2D",
    "Pool2DOptions",
    (),
    ((1, 6, 5, 3),),
    padding=0,
    strideW=2,
    strideH=2,
    filterWidth=3,
    filterHeight=3,
    fusedActivationFunction=1,
)
simple(
    "average_pool_same",
    "AVERAGE_POOL_2D",
    "Pool2DOptions",
    (),
    ((1, 6, 5, 3),),
    padding=0,
    strideW=1,
    strideH=1,
    filterWidth=3,
    filterHeight=2,
)
simple(
    "local_response",
    "LOCAL_RESPONSE_NORMALIZATION",
    "LocalResponseNormalizationOptions",
    (),
    ((1, 2, 2, 9),),
    radius=2,
    bias=1.5,
    alpha=0.3,
    beta=0.6,
)
simple("l2_normalization", "L2_NORMALIZATION", "L2NormOptions")
simple("cumsum", "CUMSUM", "CumsumOptions", (("i4", 1),), exclusive=True, reverse=True)


@case
def one_hot_negative(m):
    i = m.input("i4", (4,), [1, -1, 2, 7])
    constants = [m.tensor("d", "i4", data=3), m.tensor("on", "f4", data=5.0), m.tensor("off", "f4", data=-1.0)]
    m.graph.outputs = [m.tensor("y", "f4", (4, 3))]
    m.op("ONE_HOT", [i, *constants], m.graph.outputs, "OneHotOptions", axis=-1)


@case
def scatter_nd_adds(m):
    i, x = m.input("i4", (3, 1), [[1], [3], [1]]), m.input("f4", (3, 2))
    m.graph.outputs = [m.tensor("y", "f4", (5, 2))]
    m.op("SCATTER_ND", [i, x, m.tensor("s", "i4", data=[5, 2])], m.graph.outputs, "ScatterNdOptions")


def convolution(m, dtype, mode):
    """CONV_2D on floats, on int8, on int16, or with int8 weights; strides 2, SAME, relu6."""
    w = m.random.uniform(-1, 1, (4, 3, 3, 3))
    b = m.random.uniform(-1, 1, 4)
    if mode == "f4":
        x, y = m.input("f4", (1, 7, 6, 3)), m.tensor("y", "f4", (1, 4, 3, 4))
        weights, bias = m.tensor("w", "f4", data=w), m.tensor("b", "f4", data=b)
        version = 1
    else:
        scales = np.abs(w).max((1, 2, 3)) / 127
        xs, xz, ys, yz = (0.02, -7, 0.024, -128) if dtype == "i1" else (0.0001, 0, 0.0002, 0)
        x = m.input(dtype, (1, 7, 6, 3), scale=xs, zero=xz)
        y = m.tensor("y", dtype, (1, 4, 3, 4), scale=ys, zero=yz)
        weights = m.tensor("w", "i1", data=np.round(w / scales[:, None, None, None]), scale=scales)
        bias = m.tensor("b", "i4" if dtype == "i1" else "i8", data=np.round(b / (xs * scales)), scale=xs * scales)
        version = 3 if dtype == "i1" else 4
    m.op(
        "CONV_2D",
        [x, weights, bias],
        [y],
        "Conv2DOptions",
        version,
        padding=0,
        strideH=2,
        strideW=2,
        dilationHFactor=1,
        dilationWFactor=1,
        fusedActivationFunction=3,
    )
    m.graph.outputs = [y]


@case
def conv_2d(m):
    convolution(m, "f4", "f4")


@case
def conv_2d_int8(m):
    convolution(m, "i1", "i1")


@case
def conv_2d_int16(m):
    convolution(m, "i2", "i2")


@case
def depthwise(m):
    x = m.input("f4", (1, 6, 5, 3))
    w, b = (
        m.tensor("w", "f4", data=m.random.normal(size=(1, 3, 3, 6))),
        m.tensor("b", "f4", data=m.random.normal(size=6)),
    )
    m.graph.outputs = [m.tensor("y", "f4", (1, 3, 3, 6))]
    m.op(
        "DEPTHWISE_CONV_2D",
        [x, w, b],
        m.graph.outputs,
        "DepthwiseConv2DOptions",
        padding=0,
        strideH=2,
        strideW=2,
        dilationHFactor=1,
        dilationWFactor=1,
        depthMultiplier=2,
    )


@case
def transpose_conv(m):
    x = m.input("f4", (1, 3, 4, 2))
    s, w = m.tensor("s", "i4", data=[1, 6, 8, 3]), m.tensor("w", "f4", data=m.random.normal(size=(3, 3, 3, 2)))
    m.graph.outputs = [m.tensor("y", "f4", (1, 6, 8, 3))]
    m.op("TRANSPOSE_CONV", [s, w, x], m.graph.outputs, "TransposeConvOptions", padding=0, strideH=2, strideW=2)


@case
def fully_connected_keeps_dims(m):
    x = m.input("f4", (2, 3, 4))
    w, b = m.tensor("w", "f4", data=m.random.normal(size=(5, 4))), m.tensor("b", "f4", data=m.random.normal(size=5))
    m.graph.outputs = [m.tensor("y", "f4", (2, 3, 5))]
    m.op("FULLY_CONNECTED", [x, w, b], m.graph.outputs, "FullyConnectedOptions", 5, keepNumDims=True)


@case
def fully_connected_int8(m):
    x = m.input("i1", (3, 8), scale=0.03, zero=5)
    w = m.tensor("w", "i1", data=m.random.integers(-127, 128, (4, 8)), scale=0.01)
    b = m.tensor("b", "i4", data=m.random.integers(-500, 500, 4), scale=0.0003)
    m.graph.outputs = [m.tensor("y", "i1", (3, 4), scale=0.08, zero=-3)]
    m.op("FULLY_CONNECTED", [x, w, b], m.graph.outputs, "FullyConnectedOptions", 4)


@case
def add_int8(m):
    x, y = m.input("i1", (2, 5), scale=0.05, zero=3), m.input("i1", (1, 5), scale=0.02, zero=-9)
    m.graph.outputs = [m.tensor("y", "i1", (2, 5), scale=0.06, zero=1)]
    m.op("ADD", [x, y], m.graph.outputs, "AddOptions", 2, fusedActivationFunction=1)


def fully_connected_bits(m, dtype, version):
    x = m.input("i1", (3, 8), scale=0.03, zero=5)
    w = m.tensor("w", dtype, data=m.random.integers(-2, 2, (4, 8)), scale=[0.1, 0.2, 0.05, 0.3])
    b = m.tensor("b", "i4", data=np.zeros(4), scale=[0.003, 0.006, 0.0015, 0.009])
    m.graph.outputs = [m.tensor("y", "i1", (3, 4), scale=0.04, zero=-3)]
    m.op("FULLY_CONNECTED", [x, w, b], m.graph.outputs, "FullyConnectedOptions", version)


@case
def fully_connected_int4(m):
    fully_connected_bits(m, "int4", 10)


@case
def fully_connected_int2(m):
    fully_connected_bits(m, "int2", 14)


@case
def depthwise_int4(m):
    x = m.input("i1", (1, 6, 5, 2), scale=0.03, zero=5)
    w = m.tensor("w", "int4", data=m.random.integers(-7, 8, (1, 3, 3, 2)), scale=[0.1, 0.2], axis=3)
    b = m.tensor("b", "i4", data=[100, -100], scale=[0.003, 0.006])
    m.graph.outputs = [m.tensor("y", "i1", (1, 6, 5, 2), scale=0.1, zero=-3)]
    m.op(
        "DEPTHWISE_CONV_2D",
        [x, w, b],
        m.graph.outputs,
        "DepthwiseConv2DOptions",
        7,
        padding=0,
        strideH=1,
        strideW=1,
        dilationHFactor=1,
        dilationWFactor=1,
        depthMultiplier=1,
    )


@case
def exact_functions_int16(m):
    """Functions with lookup tables: both limits, the curved part, and interpolated positions."""
    near = np.arange(-40, 40) * 11
    x = m.input("i2", (240,), np.concatenate([near, np.linspace(-32768, 32767, 160)]), scale=3e-4)
    functions = (
        ("EXP", "ExpOptions", 0.002, 1, {}),
        ("LOG", None, 3e-4, 1, {}),
        ("GELU", "GeluOptions", 2.9e-4, 2, {"approximate": False}),
        ("GELU", "GeluOptions", 2.9e-4, 2, {"approximate": True}),
        ("TANH", None, 2.0**-15, 3, {}),
        ("LOGISTIC", None, 2.0**-15, 3, {}),
    )
    for index, (name, options, scale, version, told) in enumerate(functions):
        y = m.tensor(f"y{index}", "i2", (240,), scale=scale)
        m.op(name, [x], [y], options, version, **told)
        m.graph.outputs.append(y)


@case
def exact_rsqrt_int16(m):
    x = m.input("i2", (120,), np.linspace(1, 181, 120) ** 2, scale=3e-4)
    m.graph.outputs = [m.tensor("y", "i2", (120,), scale=0.002)]
    m.op("RSQRT", [x], m.graph.outputs, version=2)


@case
def exact_requantize_int8(m):
    """A quarter of the scale is rounded twice."""
    x = m.input("i1", (256,), np.arange(-128, 128), scale=1 / 256, zero=-128)
    m.graph.outputs = [m.tensor("y", "i1", (256,), scale=0.015665881, zero=63)]
    m.op("QUANTIZE", [x], m.graph.outputs, version=2)


@case
def maximum_of_no_numbers(m):
    x = m.input("f4", (4,), [np.nan, 1, 3, 2])
    y = m.input("f4", (4,), [1, np.nan, 2, 3])
    m.graph.outputs = [m.tensor("y0", "f4", (4,)), m.tensor("y1", "f4", (4,))]
    m.op("MAXIMUM", [x, y], m.graph.outputs[:1], "MaximumMinimumOptions")
    m.op("MINIMUM", [x, y], m.graph.outputs[1:], "MaximumMinimumOptions")


@case
def negative_int8(m):
    x = m.input("i1", (2, 5), scale=0.05, zero=3)
    m.graph.outputs = [m.tensor("y", "i1", (2, 5), scale=0.06, zero=1)]
    m.op("NEG", [x], m.graph.outputs, "NegOptions")


@case
def pad_uint8(m):
    x = m.input("u1", (2, 3), scale=0.05, zero=130)
    m.graph.outputs = [m.tensor("y", "u1", (3, 5), scale=0.05, zero=130)]
    m.op("PAD", [x, m.tensor("p", "i4", data=[[1, 0], [0, 2]])], m.graph.outputs, "PadOptions")


@case
def branches(m):
    condition, x = m.input("?", (1,), [True]), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
    m.op("IF", [condition, x], m.graph.outputs, "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    for operator in ("ADD", "MUL"):
        m.subgraph(operator)
        a, k = m.input("f4", (2, 3)), m.tensor("k", "f4", data=np.full((1, 3), 3.0))
        m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
        m.op(operator, [a, k], m.graph.outputs, f"{operator.capitalize()}Options")


@case
def repeats(m):
    count, x = m.input("i4", (), 3), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("n", "i4", ()), m.tensor("y", "f4", (2, 3))]
    m.op("WHILE", [count, x], m.graph.outputs, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    m.subgraph("goes_on")
    n, _ = m.input("i4", ()), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("b", "?", ())]
    m.op("GREATER", [n, m.tensor("z", "i4", data=0)], m.graph.outputs, "GreaterOptions")
    m.subgraph("step")
    n, a = m.input("i4", ()), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("less", "i4", ()), m.tensor("more", "f4", (2, 3))]
    m.op("SUB", [n, m.tensor("one", "i4", data=1)], m.graph.outputs[:1], "SubOptions")
    m.op("MUL", [a, m.tensor("two", "f4", data=2.0)], m.graph.outputs[1:], "MulOptions")


@case
def svdf(m):
    x = m.input("f4", (2, 4))
    weights = [m.tensor(n, "f4", data=m.random.normal(size=s)) for n, s in (("f", (6, 4)), ("t", (6, 5)), ("b", (3,)))]
    m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
    m.op("SVDF", [x, *weights, m.tensor("s", "f4", (2, 30), variable=True)], m.graph.outputs, "SVDFOptions", rank=2)


@case
def sequence_lstm(m):
    x = m.input("f4", (2, 5, 4))
    shapes = [(6, 4)] * 4 + [(6, 6)] * 4
    weights = [m.tensor(f"w{i}", "f4", data=m.random.normal(size=s) * 0.5) for i, s in enumerate(shapes)]
    biases = [m.tensor(f"b{i}", "f4", data=m.random.normal(size=6)) for i in range(4)]
    states = [m.tensor(n, "f4", (2, 6), variable=True) for n in "hc"]
    m.graph.outputs = [m.tensor("y", "f4", (2, 5, 6))]
    operands = [x, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    m.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands,
        m.graph.outputs,
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
    )


@case
def coupled_lstm(m):
    x = m.input("f4", (2, 3, 4))
    shapes = [(6, 4)] * 3 + [(3, 6)] * 0 + [(6, 6)] * 3
    weights = [m.tensor(f"w{i}", "f4", data=m.random.normal(size=s) * 0.5) for i, s in enumerate(shapes)]
    biases = [m.tensor(f"b{i}", "f4", data=m.random.normal(size=6)) for i in range(3)]
    states = [m.tensor(n, "f4", (2, 6), variable=True) for n in "hc"]
    m.graph.outputs = [m.tensor("y", "f4", (2, 3, 6))]
    operands = [x, -1, *weights[:3], -1, *weights[3:], -1, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    m.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands,
        m.graph.outputs,
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        cellClip=0.4,
    )


def run(raw, feeds):
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=raw, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for told, feed in zip(interpreter.get_input_details(), feeds, strict=True):
        interpreter.set_tensor(told["index"], feed)
    interpreter.invoke()
    found = [np.array(interpreter.get_tensor(told["index"])) for told in interpreter.get_output_details()]
    return [np.strings.decode(array.astype("S")) if array.dtype.kind == "O" else array for array in found]


def main(witnesses=None):
    folder = Path(sys.argv[1])
    for name, make in CASES.items():
        m, witness = Model(name), Model(name)
        make(m)
        (folder / f"{name}.tflite").write_bytes(m.bytes())
        # For op types without a LiteRT kernel, the results are those of an equivalent witness file.
        (witnesses or {}).get(name, make)(witness)
        outputs = run(witness.bytes(), m.feeds)
        told = {f"in{i}": array for i, array in enumerate(m.feeds)} | {
            f"out{i}": array for i, array in enumerate(outputs)
        }
        np.savez_compressed(folder / f"{name}.npz", **told)


if __name__ == "__main__":
    main()
