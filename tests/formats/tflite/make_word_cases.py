"""Write more files to `cases`: op types that no other file has.

python make_word_cases.py cases        with ai-edge-litert 2.3.0 and NumPy
"""

from __future__ import annotations

import make_cases as base
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from make_cases import CASES, case, main, simple
from make_more_cases import second, texts

base.TYPES |= {"U": 5, "i8": 4}
CASES.clear()

simple("relu_0_to_1", "RELU_0_TO_1")
simple("zeros_like", "ZEROS_LIKE", "ZerosLikeOptions")
simple("rank", "RANK", "RankOptions", out="i4")
simple("matrix_diag", "MATRIX_DIAG", "MatrixDiagOptions", shapes=((2, 3),))
simple("pack", "PACK", "PackOptions", shapes=((2, 3),) * 3, valuesCount=3, axis=-1)
simple("fake_quant", "FAKE_QUANT", "FakeQuantOptions", min=-1.3, max=1.1, numBits=4)
simple("fake_quant_wide", "FAKE_QUANT", "FakeQuantOptions", min=-1.7, max=2.2, numBits=16)
simple("fake_quant_above_zero", "FAKE_QUANT", "FakeQuantOptions", min=0.5, max=1.6, numBits=5)
_window = {"padding": 0, "strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2, "fusedActivationFunction": 3}
simple("l2_pool", "L2_POOL_2D", "Pool2DOptions", shapes=((1, 6, 5, 3),), **_window)


WITNESSES = {}


def witnessed(make):
    """Register a case of op types without LiteRT kernels; its witness has equivalent operators that LiteRT supports."""
    CASES[make.__name__] = lambda m: make(m, is_witness=False)
    WITNESSES[make.__name__] = lambda m: make(m, is_witness=True)
    return make


def several(m, steps):
    """Words, each with its own operands; every result is an output."""
    for op_type, operands, results, options, fields in steps:
        outputs = [m.tensor(f"y{len(m.graph.outputs) + index}", *told) for index, told in enumerate(results)]
        m.op(op_type, operands, outputs, options, **fields)
        m.graph.outputs += outputs


@case
def floor_div(m):
    """Quotients of both signs, exact and inexact, as floats and integers of each width."""
    steps = []
    for dtype, version in (("i4", 1), ("i1", 3), ("i2", 3)):
        limits = np.iinfo(dtype)
        x = m.input(dtype, (6, 1), [7, -7, 6, -6, limits.max, limits.min])
        y = m.input(dtype, (6,), [2, -2, 3, -3, 5, 1])
        steps.append(("FLOOR_DIV", [x, y], [(dtype, (6, 6))], "FloorDivOptions", {"version": version}))
    x, y = m.input("f4", (6, 1), [7, -7, 6, -6, 0.5, -0.0]), m.input("f4", (4,), [2, -2, 0.3, np.inf])
    steps.append(("FLOOR_DIV", [x, y], [("f4", (6, 4))], "FloorDivOptions", {"version": 2}))
    several(m, steps)


@case
def exact_unpack(m):
    x, y = m.input("i1", (2, 3, 2), scale=0.05, zero=3), m.input("?", (2, 1), [[True], [False]])
    told = [("i1", (2, 2), None, 0.05, 3)] * 3
    several(
        m,
        [
            ("UNPACK", [x], told, "UnpackOptions", {"num": 3, "axis": -2, "version": 2}),
            ("UNPACK", [y], [("?", (2,))], "UnpackOptions", {"num": 1, "axis": 1, "version": 3}),
        ],
    )


@case
def exact_pack(m):
    x, y = (m.input("i1", (2, 3), scale=0.05, zero=3) for _ in range(2))
    told = [("i1", (2, 2, 3), None, 0.05, 3)]
    several(m, [("PACK", [x, y], told, "PackOptions", {"valuesCount": 2, "axis": 1, "version": 2})])


@case
def exact_made_of_integers(m):
    """ZerosLike, Rank and MatrixDiag of quantized integers."""
    x = m.input("i1", (2, 3), scale=0.05, zero=3)
    long = m.input("i8", (2, 0, 3), np.zeros((2, 0, 3)))
    several(
        m,
        [
            ("MATRIX_DIAG", [x], [("i1", (2, 3, 3), None, 0.05, 3)], "MatrixDiagOptions", {}),
            ("ZEROS_LIKE", [m.input("i8", (2, 3))], [("i8", (2, 3))], "ZerosLikeOptions", {}),
            ("RANK", [long], [("i4", ())], "RankOptions", {}),
            ("RANK", [m.input("i4", ())], [("i4", ())], "RankOptions", {}),
        ],
    )


@case
def dynamic_update_slice(m):
    """An update begins where it still fits."""
    x, update = m.input("f4", (4, 5)), m.input("f4", (2, 3))
    steps = []
    for starts in ([1, 2], [3, -1], [-5, 9]):
        at = m.input("i4", (2,), starts)
        steps.append(("DYNAMIC_UPDATE_SLICE", [x, update, at], [("f4", (4, 5))], "DynamicUpdateSliceOptions", {}))
    several(m, steps)


@case
def exact_dynamic_update_slice(m):
    """int64 updates at int64 indices: an empty one, a partial one, and one of the full size."""
    x = m.input("i8", (3, 4))
    told = (((1, 2), [1, 1]), ((3, 4), [1, 1]))
    steps = []
    for shape, starts in told:
        operands = [x, m.input("i8", shape), m.input("i8", (2,), starts)]
        steps.append(("DYNAMIC_UPDATE_SLICE", operands, [("i8", (3, 4))], "DynamicUpdateSliceOptions", {"version": 2}))
    several(m, steps)


@case
def segments(m):
    """Segment reductions; negative indices are ignored, and empty segments have the initial value."""
    x, pairs = m.input("f4", (5, 2)), m.input("f4", (2, 3, 2))
    whole = m.input("i4", (5, 2), m.random.integers(-9, 9, (5, 2)))
    numbers, grid = m.input("i4", (5,), [2, 0, -1, 2, 0]), m.input("i4", (2, 3), [[2, 0, -1], [2, 0, 3]])
    count = m.tensor("count", "i4", data=4)
    steps = []
    for op_type in ("SUM", "PROD", "MAX", "MIN"):
        for data, shape in ((x, ("f4", (4, 2))), (whole, ("i4", (4, 2)))):
            options = f"UnsortedSegment{op_type.capitalize()}Options"
            steps.append((f"UNSORTED_SEGMENT_{op_type}", [data, numbers, count], [shape], options, {}))
    steps.append(("UNSORTED_SEGMENT_SUM", [pairs, grid, count], [("f4", (4, 2))], "UnsortedSegmentSumOptions", {}))
    sorted_ = m.tensor("sorted", "i4", data=[0, 0, 1, 2, 2])
    steps.append(("SEGMENT_SUM", [x, sorted_], [("f4", (3, 2))], "SegmentSumOptions", {}))
    steps.append(("SEGMENT_SUM", [whole, sorted_], [("i4", (3, 2))], "SegmentSumOptions", {}))
    several(m, steps)


@case
def embedding_lookup(m):
    """Rows of floats, of int8 with one scale, with a scale per row, and of int4."""
    rows = m.input("i4", (4,), [2, 0, 2, 4])
    reals = m.tensor("reals", "f4", data=m.random.normal(size=(5, 2, 3)))
    numbers = m.random.integers(-127, 128, (5, 4))
    bytes_ = m.tensor("bytes", "i1", data=numbers, scale=0.02)
    each = m.tensor("each", "i1", data=numbers, scale=[0.1, 0.02, 0.03, 0.5, 0.01])
    four = m.tensor("four", "int4", data=m.random.integers(-7, 8, (5, 4)), scale=[0.1, 0.02, 0.03, 0.5, 0.01])
    several(
        m,
        [
            ("EMBEDDING_LOOKUP", [rows, reals], [("f4", (4, 2, 3))], None, {}),
            ("EMBEDDING_LOOKUP", [rows, bytes_], [("f4", (4, 4))], None, {"version": 3}),
            ("EMBEDDING_LOOKUP", [rows, each], [("f4", (4, 4))], None, {"version": 4}),
            ("EMBEDDING_LOOKUP", [rows, four], [("f4", (4, 4))], None, {"version": 4}),
            ("EMBEDDING_LOOKUP", [rows, bytes_], [("i1", (4, 4), None, 0.02)], None, {"version": 3}),
        ],
    )


@case
def hashtable_lookup(m):
    asked, keys = m.input("i4", (4,), [7, -3, 8, 20]), m.tensor("keys", "i4", data=[-3, 2, 7, 20])
    reals = m.tensor("values", "f4", data=m.random.normal(size=(4, 3)))
    found = [("f4", (4, 3)), ("u1", (4,))]
    several(m, [("HASHTABLE_LOOKUP", [asked, keys, reals], found, None, {})])


@case
def hashtable_lookup_of_texts(m):
    asked, keys = m.input("i4", (3,), [2, 5, -3]), m.tensor("keys", "i4", data=[-3, 2, 7])
    found = [("U", (3,)), ("u1", (3,))]
    several(m, [("HASHTABLE_LOOKUP", [asked, keys, texts(m, ["a", "", "ccc"])], found, None, {})])


def recurrent(m, name, count, *shapes):
    return [
        m.tensor(f"{name}{i}", "f4", data=m.random.normal(size=shape) * 0.5) for i, shape in enumerate(shapes * count)
    ]


def state(m, name, units):
    return m.tensor(name, "f4", (2, units), variable=True)


@case
def bidirectional_rnn(m):
    """Both directions separate, and merged with time-major inputs; an auxiliary input for the backward cell."""
    x, y, major, other = (m.input("f4", shape) for shape in ((2, 5, 4), (2, 5, 4), (5, 2, 4), (5, 2, 4)))
    steps, options = [], "BidirectionalSequenceRNNOptions"
    for index, (given, beside, is_merged) in enumerate(((x, -1, 0), (major, -1, 1), (major, other, 0), (x, y, 0))):
        forward = [*recurrent(m, f"f{index}", 1, (6, 4), (6, 6), (6,)), state(m, f"h{index}", 6)]
        backward = [*recurrent(m, f"b{index}", 1, (6, 4), (6, 6), (6,)), state(m, f"g{index}", 6)]
        front = (5, 2) if given == major else (2, 5)
        results = [("f4", (*front, 12))] if is_merged else [("f4", (*front, 6))] * 2
        told = {"fusedActivationFunction": 4 - index, "mergeOutputs": is_merged, "timeMajor": given == major}
        operands = [given, *forward, *backward, beside, -1, -1]
        steps.append(("BIDIRECTIONAL_SEQUENCE_RNN", operands, results, options, told))
    several(m, steps)


def gates(m, name, width, units, *, peepholes=False, projected=0):
    """Weights of an LSTM, from the input gate's to the bias of the projection."""
    held = projected or units
    weights = recurrent(m, f"{name}w", 4, (units, width)) + recurrent(m, f"{name}r", 4, (units, held))
    weights += recurrent(m, f"{name}p", 3, (units,)) if peepholes else [-1] * 3
    weights += recurrent(m, f"{name}b", 4, (units,))
    return weights + (recurrent(m, f"{name}j", 1, (projected, units), (projected,)) if projected else [-1] * 2)


def bidirectional_lstm_of(m, given, beside, *, merges, is_major, **more):
    front = (5, 2) if is_major else (2, 5)
    held = more.get("projected") or 6
    forward, backward = gates(m, "f", 4, 6, **more), gates(m, "g", 4, 6, **more)
    states = [state(m, name, size) for name, size in (("h", held), ("c", 6), ("k", held), ("d", 6))]
    results = [("f4", (*front, 2 * held))] if merges else [("f4", (*front, held))] * 2
    told = {"fusedActivationFunction": 4, "mergeOutputs": merges, "timeMajor": is_major}
    operands = [given, *forward, *backward, *states, beside, *[-1] * 8]
    several(m, [("BIDIRECTIONAL_SEQUENCE_LSTM", operands, results, "BidirectionalSequenceLSTMOptions", told)])


@case
def bidirectional_lstm(m):
    bidirectional_lstm_of(m, m.input("f4", (5, 2, 4)), -1, merges=False, is_major=True)


@case
def bidirectional_lstm_merged(m):
    """With peepholes and a projection. (With the batch in front kernels look for the states in the wrong place then.)"""
    x = m.input("f4", (5, 2, 4))
    bidirectional_lstm_of(m, x, -1, merges=True, is_major=True, peepholes=True, projected=3)


@case
def bidirectional_lstm_projected(m):
    x = m.input("f4", (2, 5, 4))
    bidirectional_lstm_of(m, x, -1, merges=False, is_major=False, peepholes=True, projected=3)


@case
def bidirectional_lstm_of_two(m):
    """Backward over something else."""
    x, other = m.input("f4", (2, 5, 4)), m.input("f4", (2, 5, 4))
    bidirectional_lstm_of(m, x, other, merges=False, is_major=False)


@case
def lstm_step(m):
    """One step, with peepholes, a projection and limits."""
    x = m.input("f4", (2, 4))
    operands = [x, *gates(m, "w", 4, 6, peepholes=True, projected=3), state(m, "h", 3), state(m, "c", 6)]
    told = {"fusedActivationFunction": 4, "cellClip": 0.4, "projClip": 0.2, "version": 1}
    several(m, [("LSTM", operands, [("f4", (2, 3))], "LSTMOptions", told)])


@case
def lstm_basic(m):
    """One step with all weights in a matrix: the states are operands and results."""
    x, h, c = m.input("f4", (2, 4)), m.input("f4", (2, 6)), m.input("f4", (2, 6))
    weights, bias = recurrent(m, "w", 1, (24, 10), (24,))
    results = [("f4", (2, 6)), ("f4", (2, 6)), ("f4", (2, 10)), ("f4", (2, 24))]
    told = {"fusedActivationFunction": 4, "kernelType": 1, "version": 2}
    several(m, [("LSTM", [x, h, weights, bias, c], results, "LSTMOptions", told)])


@case
def stablehlo_arithmetic(m):
    steps = []
    for dtype, pair in (("f4", [None, None]), ("i4", [m.random.integers(-9, 9, (3, 4)) for _ in range(2)])):
        x, y = (m.input(dtype, (3, 4), feed) for feed in pair)
        words = ("STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY")
        steps += [(op_type, [x, y], [(dtype, (3, 4))], None, {}) for op_type in words]
    several(m, steps)


@witnessed
def stablehlo_differences(m, is_witness):
    x, y = m.input("f4", (3, 4)), m.input("f4", (3, 4))
    found = [("f4", (3, 4))]
    words = ("SUB", "DIV") if is_witness else ("STABLEHLO_SUBTRACT", "STABLEHLO_DIVIDE")
    several(m, [(op_type, [x, y], found, None, {}) for op_type in words])


@case
def exact_stablehlo_shift_left(m):
    x, by = (
        m.input("i4", (8,), [1, -1, 7, -(2**31), 2**31 - 1, -5, 3, 0]),
        m.input("i4", (8,), [0, 1, 2, 1, 1, 30, 31, 4]),
    )
    steps = [("STABLEHLO_SHIFT_LEFT", [x, by], [("i4", (8,))], None, {})]
    for dtype in ("i1", "i2"):
        bits = np.iinfo(dtype).bits
        y, k = m.input(dtype, (4,), [1, -1, 5, -7]), m.input(dtype, (4,), [bits - 1, 1, bits - 2, 3])
        steps.append(("STABLEHLO_SHIFT_LEFT", [y, k], [(dtype, (4,))], None, {}))
    several(m, steps)


@case
def stablehlo_composite(m):
    """The decomposition of a composite is a subgraph."""
    x, y = m.input("f4", (2, 3)), m.input("f4", (2, 3))
    m.subgraph("decomposition")
    a, b = m.input("f4", (2, 3)), m.input("f4", (2, 3))
    inner = m.tensor("inner", "f4", (2, 3))
    m.graph.outputs = [m.tensor("z", "f4", (2, 3)), m.tensor("w", "f4", (2, 3))]
    m.op("MUL", [a, b], [inner], "MulOptions")
    m.op("SUB", [inner, b], m.graph.outputs[:1], "SubOptions")
    m.op("TANH", [inner], m.graph.outputs[1:])
    m.graph = m.model.subgraphs[0]
    m.graph.outputs = [m.tensor("y0", "f4", (2, 3)), m.tensor("y1", "f4", (2, 3))]
    told = {"decompositionSubgraphIndex": 1, "version": 1}
    second(m, "STABLEHLO_COMPOSITE", [x, y], m.graph.outputs, "StableHLOCompositeOptions", **told)
    options = m.graph.operators[-1].builtinOptions2
    options.name, options.compositeAttributes = "mine.product", np.frombuffer(bytes(flexbuffers.Dumps({})), "u1")


@witnessed
def stablehlo_while(m, is_witness):
    """Doubled while a number is below a limit."""
    n, x = m.input("i4", (1,), [0]), m.input("f4", (2, 3))
    m.subgraph("condition")
    i, _ = m.input("i4", (1,)), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("again", "?", (1,))]
    m.op("LESS", [i, m.tensor("most", "i4", data=[3])], m.graph.outputs, "LessOptions")
    m.subgraph("body")
    i, a = m.input("i4", (1,)), m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("next", "i4", (1,)), m.tensor("twice", "f4", (2, 3))]
    m.op("ADD", [i, m.tensor("one", "i4", data=[1])], m.graph.outputs[:1], "AddOptions")
    m.op("ADD", [a, a], m.graph.outputs[1:], "AddOptions")
    m.graph = m.model.subgraphs[0]
    m.graph.outputs = [m.tensor("count", "i4", (1,)), m.tensor("y", "f4", (2, 3))]
    told = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    if is_witness:
        m.op("WHILE", [n, x], m.graph.outputs, "WhileOptions", **told)
    else:
        second(m, "STABLEHLO_WHILE", [n, x], m.graph.outputs, "StablehloWhileOptions", **told)


@witnessed
def call(m, is_witness):
    """Two calls of one subgraph, the second on the results of the first."""
    x = m.input("f4", (2, 3))
    m.subgraph("called")
    a = m.input("f4", (2, 3))
    m.graph.outputs = [m.tensor("z", "f4", (2, 3)), m.tensor("w", "f4", (2, 3))]
    m.op("TANH", [a], m.graph.outputs[:1])
    m.op("MUL", [a, m.graph.outputs[0]], m.graph.outputs[1:], "MulOptions")
    m.graph = m.model.subgraphs[0]
    m.graph.outputs = [m.tensor(f"y{index}", "f4", (2, 3)) for index in range(4)]
    for start in (0, 2):
        given, found = x if not start else m.graph.outputs[1], m.graph.outputs[start : start + 2]
        if is_witness:
            m.op("TANH", [given], found[:1])
            m.op("MUL", [given, found[0]], found[1:], "MulOptions")
        else:
            m.op("CALL", [given], found, "CallOptions", subgraph=1)


@case
def densify(m):
    """A sparse matrix in CSR form with non-zero elements only."""
    x = m.input("f4", (2, 4))
    dense = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [3, 0, 0, 0.5]], "f4")
    rows, columns = np.nonzero(dense)
    sparse = m.tensor("sparse", "f4", data=dense[rows, columns])
    tensor = m.graph.tensors[sparse]
    tensor.shape, tensor.sparsity = [3, 4], schema.SparsityParametersT()
    tensor.sparsity.traversalOrder = [0, 1]
    outer, inner = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    outer.format, outer.denseSize = schema.DimensionType.DENSE, 3
    inner.format = schema.DimensionType.SPARSE_CSR
    inner.arraySegmentsType = inner.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    inner.arraySegments, inner.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    inner.arraySegments.values = np.cumsum([0, *(dense != 0).sum(1)]).astype("i4")
    inner.arrayIndices.values = columns.astype("i4")
    tensor.sparsity.dimMetadata = [outer, inner]
    weights = m.tensor("weights", "f4", (3, 4))
    m.op("DENSIFY", [sparse], [weights], "DensifyOptions")
    m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
    m.op("FULLY_CONNECTED", [x, weights, -1], m.graph.outputs, "FullyConnectedOptions")


if __name__ == "__main__":
    main(WITNESSES)
