"""Write more files to `cases`: variables, custom operators, options of StableHLO, and int16.

python make_more_cases.py cases        with ai-edge-litert 2.3.0 and NumPy
"""

from __future__ import annotations

import struct

import make_cases as base
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from make_cases import CASES, case, main

base.TYPES |= {"U": 5, "handle": 13}
SECOND = {name: number for name, number in vars(schema.BuiltinOptions2).items() if not name.startswith("_")}
CASES.clear()


def texts(m, items):
    """A constant of text."""
    raw = [item.encode() for item in items]
    ends = np.cumsum([4 * (len(raw) + 2), *map(len, raw)]).tolist()
    index = m.tensor("texts", "U", (len(raw),))
    buffer = schema.BufferT()
    content = struct.pack(f"<{len(raw) + 2}i", len(raw), *ends) + b"".join(raw)
    buffer.data = np.frombuffer(content, "u1")
    m.model.buffers.append(buffer)
    m.graph.tensors[index].buffer = len(m.model.buffers) - 1
    return index


def second(m, name, inputs, outputs, options, **fields):
    """An operator whose options are of the second union."""
    m.op(name, inputs, outputs)
    record = getattr(schema, f"{options}T")()
    for field, value in fields.items():
        setattr(record, field, value)
    m.graph.operators[-1].builtinOptions2Type, m.graph.operators[-1].builtinOptions2 = SECOND[options], record


@case
def exact_softmax_int16(m):
    x = m.input("i2", (4, 7), scale=0.0004)
    m.graph.outputs = [m.tensor("y", "i2", (4, 7), scale=1 / 32768)]
    m.op("SOFTMAX", [x], m.graph.outputs, "SoftmaxOptions", version=3, beta=1.0)


@case
def exact_resize_bilinear_int16(m):
    x = m.input("i2", (1, 4, 5, 2), scale=0.0004)
    size = m.tensor("size", "i4", data=[7, 3])
    m.graph.outputs = [m.tensor("y", "i2", (1, 7, 3, 2), scale=0.0004)]
    m.op("RESIZE_BILINEAR", [x, size], m.graph.outputs, "ResizeBilinearOptions", version=4, halfPixelCenters=True)


@case
def exact_reduce_prod_int8(m):
    x = m.input("i1", (3, 4, 5), scale=0.02, zero=4)
    axes = m.tensor("axes", "i4", data=[1])
    m.graph.outputs = [m.tensor("y", "i1", (3, 5), scale=0.05, zero=-4)]
    m.op("REDUCE_PROD", [x, axes], m.graph.outputs, "ReducerOptions", version=2, keepDims=False)


@case
def exact_reduce_prod_int16(m):
    x = m.input("i2", (2, 3, 4), scale=0.00005)
    axes = m.tensor("axes", "i4", data=[0, 2])
    m.graph.outputs = [m.tensor("y", "i2", (1, 3, 1), scale=1 / 32768)]
    m.op("REDUCE_PROD", [x, axes], m.graph.outputs, "ReducerOptions", version=2, keepDims=True)


@case
def exact_layer_int16(m):
    x = m.input("i2", (3, 40), scale=0.0004)
    w = m.tensor("w", "i1", data=m.random.integers(-127, 128, (6, 40)), scale=0.0137)
    b = m.tensor("b", "i8", data=m.random.integers(-90000, 90000, 6), scale=0.0004 * np.float32(0.0137))
    m.graph.outputs = [m.tensor("y", "i2", (3, 6), scale=0.0031)]
    m.op("FULLY_CONNECTED", [x, w, b], m.graph.outputs, "FullyConnectedOptions", version=7)


@case
def exact_bias_of_other_steps(m):
    """Kernels add the stored bias to the accumulator and ignore its declared scale."""
    x = m.input("i2", (3, 40), scale=0.0004)
    w = m.tensor("w", "i1", data=m.random.integers(-127, 128, (6, 40)), scale=0.0137)
    b = m.tensor("b", "i8", data=m.random.integers(-90000, 90000, 6), scale=0.7 * 0.0004 * np.float32(0.0137))
    m.graph.outputs = [m.tensor("y", "i2", (3, 6), scale=0.0031)]
    m.op("FULLY_CONNECTED", [x, w, b], m.graph.outputs, "FullyConnectedOptions", version=7)


@case
def exact_split_of_which_half_is_told(m):
    """Integers are copied: a result without qparams has those of the operand."""
    x = m.input("i2", (2, 6), scale=0.0004)
    m.graph.outputs = [m.tensor("y", "i2", (2, 3), scale=0.0004), m.tensor("z", "i2", (2, 3))]
    m.op("SPLIT", [m.tensor("axis", "i4", data=1), x], m.graph.outputs, "SplitOptions", version=4, numSplits=2)


@case
def exact_convolution_int16(m):
    x = m.input("i2", (1, 5, 6, 3), scale=0.0004)
    w = m.tensor("w", "i1", data=m.random.integers(-127, 128, (4, 3, 3, 3)), scale=[0.01, 0.013, 0.017, 0.02])
    scale = np.float32(0.0004) * np.array([0.01, 0.013, 0.017, 0.02], "f4")
    b = m.tensor("b", "i8", data=m.random.integers(-90000, 90000, 4), scale=scale)
    m.graph.outputs = [m.tensor("y", "i2", (1, 5, 6, 4), scale=0.0011)]
    m.op("CONV_2D", [x, w, b], m.graph.outputs, "Conv2DOptions", version=4, strideW=1, strideH=1)


@case
def exact_requantize_int16(m):
    x = m.input("i2", (5, 20), scale=0.0005)
    m.graph.outputs = [m.tensor("y", "i4", (5, 20), scale=0.0007)]
    m.op("QUANTIZE", [x], m.graph.outputs, "QuantizeOptions", version=2)


@case
def mean_of_bytes_int8(m):
    x = m.input("i1", (6, 24), m.random.integers(-128, 128, (6, 24)), scale=0.05, zero=4)
    axes = m.tensor("axes", "i4", data=[1])
    m.graph.outputs = [m.tensor("y", "i1", (6, 1), scale=0.0073, zero=-5)]
    m.op("MEAN", [x, axes], m.graph.outputs, "ReducerOptions", version=2, keepDims=True)


@case
def mean_of_same_scale_int8(m):
    x = m.input("i1", (60, 8), m.random.integers(-128, 128, (60, 8)), scale=0.05, zero=4)
    axes = m.tensor("axes", "i4", data=[-1])
    m.graph.outputs = [m.tensor("y", "i1", (60,), scale=0.05, zero=4)]
    m.op("MEAN", [x, axes], m.graph.outputs, "ReducerOptions", version=2)


@case
def exact_requantize_shorts(m):
    x = m.input("i2", (5, 40), m.random.integers(-32768, 32768, (5, 40)), scale=0.0003)
    m.graph.outputs = [m.tensor("y", "i2", (5, 40), scale=0.0011)]
    m.op("QUANTIZE", [x], m.graph.outputs, "QuantizeOptions", version=2)


@case
def exact_leaky_relu_int16(m):
    x = m.input("i2", (5, 40), m.random.integers(-32768, 32768, (5, 40)), scale=0.0003)
    m.graph.outputs = [m.tensor("y", "i2", (5, 40), scale=0.0007)]
    m.op("LEAKY_RELU", [x], m.graph.outputs, "LeakyReluOptions", version=2, alpha=0.3)


@case
def less_int16(m):
    x, y = m.input("i2", (5, 20), scale=0.0005), m.input("i2", (5, 20), scale=0.0007)
    m.graph.outputs = [m.tensor("z", "?", (5, 20))]
    m.op("LESS", [x, y], m.graph.outputs, "LessOptions", version=3)


@case
def concatenation_int16(m):
    x, y = m.input("i2", (2, 3), scale=0.0005), m.input("i2", (2, 3), scale=0.0007)
    m.graph.outputs = [m.tensor("z", "i2", (2, 6), scale=0.0009)]
    m.op("CONCATENATION", [x, y], m.graph.outputs, "ConcatenationOptions", version=3, axis=1)


@case
def exact_cast_saturates(m):
    x = m.input("f4", (8,), [1.7, -3.5, -0.7, 300.2, 1e20, -1e20, np.nan, np.inf])
    m.graph.outputs = [m.tensor("y", "u1", (8,))]
    m.op("CAST", [x], m.graph.outputs, "CastOptions", inDataType=0, outDataType=3)


@case
def bitcast_narrower(m):
    x = m.input("i4", (2, 3))
    m.graph.outputs = [m.tensor("y", "i2", (2, 3, 2))]
    m.op("BITCAST", [x], m.graph.outputs, "BitcastOptions")


@case
def padded_between(m):
    x, number = m.input("f4", (3, 4)), m.tensor("number", "f4", data=np.float32(7))
    m.graph.outputs = [m.tensor("y", "f4", (6, 5))]
    edges = {"edgePaddingLow": [1, 0], "edgePaddingHigh": [0, -2], "interiorPadding": [1, 1]}
    second(m, "STABLEHLO_PAD", [x, number], m.graph.outputs, "StablehloPadOptions", **edges)


@case
def dilated(m):
    x, steps = m.input("f4", (3, 4)), m.tensor("steps", "i4", data=[2, 3])
    m.graph.outputs = [m.tensor("y", "f4", (5, 10))]
    m.op("DILATE", [x, steps, m.tensor("number", "f4", data=np.float32(-1))], m.graph.outputs)


@case
def embedded_sparsely(m):
    ids = m.input("i4", (3,), [1, 3, 0])
    places = m.input("i4", (3, 2), [[0, 0], [2, 0], [2, 1]])
    shape, weights = m.input("i4", (2,), [3, 2]), m.input("f4", (3,), [1, 2, 4])
    table = m.tensor("table", "f4", data=m.random.normal(size=(4, 3, 2)))
    m.graph.outputs = [m.tensor("y", "f4", (3, 3, 2))]
    operands = [ids, places, shape, weights, table]
    m.op("EMBEDDING_LOOKUP_SPARSE", operands, m.graph.outputs, "EmbeddingLookupSparseOptions", combiner=2)


def named(m, op_type, options, **fields):
    handle = m.tensor("handle", "handle", (1,))
    m.op(op_type, [], [handle], options, **fields)
    return handle


@case
def hash_table(m):
    asked = m.input("U", (3,), np.array(["bc", "zz", "a"]))
    default = m.tensor("default", "i8", data=[-1])
    told = {"tableId": 7, "keyDtype": 5, "valueDtype": 4}
    m.subgraph("begin")
    keys, values = texts(m, ["a", "bc", "d"]), m.tensor("values", "i8", data=[5, 6, 7])
    m.op("HASHTABLE_IMPORT", [named(m, "HASHTABLE", "HashtableOptions", **told), keys, values], [])
    m.graph = m.model.subgraphs[0]
    m.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    m.graph.outputs = [m.tensor("y", "i8", (3,))]
    handle = named(m, "HASHTABLE", "HashtableOptions", **told)
    m.op("HASHTABLE_FIND", [handle, asked, default], m.graph.outputs, "HashtableFindOptions")


def begun(m):
    """Return an input, and a variable with an initial value of its shape."""
    x, told = m.input("f4", (2, 3)), {"sharedName": "total", "container": ""}
    m.subgraph("begin")
    first = m.tensor("first", "f4", data=np.full((2, 3), 2))
    m.op("ASSIGN_VARIABLE", [named(m, "VAR_HANDLE", "VarHandleOptions", **told), first], [])
    m.graph = m.model.subgraphs[0]
    m.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    handle = named(m, "VAR_HANDLE", "VarHandleOptions", **told)
    return x, handle


@case
def accumulates(m):
    x, handle = begun(m)
    before, after = m.tensor("before", "f4", (2, 3)), m.tensor("after", "f4", (2, 3))
    m.op("READ_VARIABLE", [handle], [before], "ReadVariableOptions")
    m.op("ADD", [before, x], [after], "AddOptions")
    m.op("ASSIGN_VARIABLE", [handle, after], [], "AssignVariableOptions")
    m.graph.outputs = [after]


def detections(name, *, is_regular):
    def make(m):
        count, kinds = 20, 3
        boxes = m.input("f4", (1, count, 4))
        scores = m.input("f4", (1, count, kinds + 1), m.random.uniform(size=(1, count, kinds + 1)))
        anchors = np.concatenate([m.random.uniform(0.2, 0.8, (count, 2)), np.full((count, 2), 0.3)], 1)
        options = flexbuffers.Builder()
        with options.Map():
            for key, number in (("max_detections", 3), ("max_classes_per_detection", 1), ("num_classes", kinds)):
                options.Key(key)
                options.Int(number)
            thresholds = (("nms_score_threshold", 0.1), ("nms_iou_threshold", 0.4))
            for key, real in (*thresholds, *((f"{axis}_scale", 5.0) for axis in "yxhw")):
                options.Key(key)
                options.Float(real)
            options.Key("use_regular_nms")
            options.Bool(is_regular)
        shapes = ((1, 3, 4), (1, 3), (1, 3), (1,))
        m.graph.outputs = [m.tensor(f"y{i}", "f4", shape) for i, shape in enumerate(shapes)]
        m.op("CUSTOM", [boxes, scores, m.tensor("anchors", "f4", data=anchors)], m.graph.outputs)
        m.model.operatorCodes[-1].customCode = "TFLite_Detection_PostProcess"
        m.graph.operators[-1].customOptions = np.frombuffer(bytes(options.Finish()), "u1")

    CASES[name] = make


detections("detections", is_regular=False)
detections("detections_of_each_class", is_regular=True)

if __name__ == "__main__":
    main()
