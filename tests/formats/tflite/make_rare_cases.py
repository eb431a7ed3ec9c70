"""Makes more files in `cases`: StableHLO's slices, windows and branches, spectra, and operators that are rarely met.

python make_rare_cases.py cases        with ai-edge-litert 2.3.0 and NumPy
"""

from __future__ import annotations

import make_cases as base
import numpy as np
from flatbuffers import flexbuffers
from make_cases import CASES, case, main
from make_more_cases import begun, second

base.TYPES |= {"c8": 8}
CASES.clear()


def combining(m, op_type):
    """Add a subgraph that combines two scalars with `op_type`, or returns the second one for "second"."""
    m.subgraph("combining")
    a, b = m.input("f4", ()), m.input("f4", ())
    m.graph.outputs = [b if op_type == "second" else m.tensor("z", "f4", ())]
    if op_type != "second":
        m.op(op_type, [a, b], m.graph.outputs)
    m.graph = m.model.subgraphs[0]
    return len(m.model.subgraphs) - 1


@case
def stablehlo_gather(m):
    """Slices of two rows of one column; where they would leave x, they begin sooner."""
    x, places = m.input("f4", (5, 4)), m.input("i4", (3, 2), [[0, 1], [4, 3], [-1, 2]])
    m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
    fields = {"offsetDims": [0], "collapsedSliceDims": [1], "startIndexMap": [0, 1], "indexVectorDim": 1}
    second(m, "STABLEHLO_GATHER", [x, places], m.graph.outputs, "StablehloGatherOptions", sliceSizes=[2, 1], **fields)


def scattered(m, op_type, places):
    x, at, updates = m.input("f4", (5, 4)), m.input("i4", (3, 2), places), m.input("f4", (3, 2, 2))
    m.graph.outputs = [m.tensor("y", "f4", (5, 4))]
    fields = {"updateWindowDims": [1, 2], "insertedWindowDims": [], "scatterDimsToOperandDims": [1, 0]}
    fields |= {"indexVectorDim": 1, "updateComputationSubgraphIndex": combining(m, op_type)}
    second(m, "STABLEHLO_SCATTER", [x, at, updates], m.graph.outputs, "StablehloScatterOptions", **fields)


@case
def stablehlo_scatter_adds(m):
    """Indices out of bounds are ignored; duplicate indices accumulate."""
    scattered(m, "STABLEHLO_ADD", [[0, 1], [3, 4], [0, 0]])


@case
def stablehlo_scatter_assigns(m):
    scattered(m, "second", [[0, 1], [2, 3], [0, 3]])


@case
def stablehlo_reduce_window(m):
    """A window of 5 decomposes into windows of 1 and 4; the initial value is not the neutral element."""
    x, begins = m.input("f4", (3, 9)), m.tensor("begins", "f4", data=np.float32(1.5))
    m.graph.outputs = [m.tensor("y", "f4", (4, 5))]
    fields = {"windowDimensions": [2, 5], "windowStrides": [1, 2], "baseDilations": [2, 1], "windowDilations": [1, 1]}
    fields |= {"padding": [0, 0, 2, 2], "bodySubgraphIndex": combining(m, "STABLEHLO_ADD")}
    second(m, "STABLEHLO_REDUCE_WINDOW", [x, begins], m.graph.outputs, "StablehloReduceWindowOptions", **fields)


@case
def reduce_window_least(m):
    x, begins = m.input("i4", (6, 7), m.random.integers(-9, 10, (6, 7))), m.tensor("begins", "i4", data=np.int32(4))
    window = [m.tensor(name, "i8", data=told) for name, told in (("k", [3, 2]), ("s", [2, 1]), ("d", [1, 3]))]
    m.graph.outputs = [m.tensor("y", "i4", (2, 4))]
    second(m, "REDUCE_WINDOW", [x, begins, *window], m.graph.outputs, "ReduceWindowOptions", reduceFunction=3)


def branch_of(number):
    def make(m):
        at, x = m.input("i4", (1,), [number]), m.input("f4", (2, 3))
        m.graph.outputs = [m.tensor("y", "f4", (2, 3))]
        for op_type in ("ADD", "MUL", "SUB"):
            m.subgraph(op_type)
            m.graph.outputs = [m.tensor("z", "f4", (2, 3))]
            operands = [m.input("f4", (2, 3)), m.tensor("three", "f4", data=[3.0])]
            m.op(op_type, operands, m.graph.outputs, f"{op_type.capitalize()}Options")
        m.graph = m.model.subgraphs[0]
        second(m, "STABLEHLO_CASE", [at, x], m.graph.outputs, "StablehloCaseOptions", branchSubgraphIndices=[1, 2, 3])

    return make


for _number, _name in ((1, "second"), (7, "beyond")):
    _make = branch_of(_number)
    _make.__name__ = f"stablehlo_case_{_name}"
    case(_make)


@case
def exact_stablehlo_add_int8(m):
    """The kernel adds the stored integers, ignoring their scales, and they wrap."""
    x, y = m.input("i1", (2, 9), scale=0.02, zero=4), m.input("i1", (2, 9), scale=0.03, zero=-9)
    m.graph.outputs = [m.tensor("z", "i1", (2, 9), scale=0.05, zero=1)]
    m.op("STABLEHLO_ADD", [x, y], m.graph.outputs)


@case
def exact_right_shift_uint8(m):
    """No bits move farther than all but one."""
    x, by = m.input("u1", (12,)), m.input("u1", (12,), np.arange(12))
    m.graph.outputs = [m.tensor("y", "u1", (12,))]
    m.op("RIGHT_SHIFT", [x, by], m.graph.outputs, "RightShiftOptions")


@case
def svdf_int8(m):
    """The kernel of integers leaves the activation out."""
    x = m.input("i1", (2, 5), scale=0.02, zero=3)
    weights = m.tensor("w", "i1", data=m.random.integers(-127, 128, (6, 5)), scale=0.004)
    time = m.tensor("t", "i2", data=m.random.integers(-32767, 32768, (6, 4)), scale=0.00002)
    bias = m.tensor("b", "i4", data=m.random.integers(-900, 900, 3), scale=0.0004 * 0.00002)
    memory = m.tensor("s", "i2", (2, 24), scale=0.0004, variable=True)
    m.graph.outputs = [m.tensor("y", "i1", (2, 3), scale=0.01, zero=-4)]
    operands = [x, weights, time, bias, memory]
    m.op("SVDF", operands, m.graph.outputs, "SVDFOptions", version=3, rank=2, fusedActivationFunction=1)


@case
def spectrum(m):
    """Magnitude, real and imaginary part of spectra of an input cropped along one axis and padded along the other."""
    x, lengths = m.input("f4", (2, 6, 7)), m.tensor("lengths", "i4", data=[8, 4])
    z = m.tensor("z", "c8", (2, 8, 3))
    m.op("RFFT2D", [x, lengths], [z], "Rfft2dOptions")
    m.graph.outputs = [m.tensor(name, "f4", (2, 8, 3)) for name in ("real", "imag", "size")]
    for op_type, y in zip(("REAL", "IMAG", "COMPLEX_ABS"), m.graph.outputs, strict=True):
        m.op(op_type, [z], [y])


def custom(m, name, inputs, outputs, **options):
    m.op("CUSTOM", inputs, outputs)
    m.model.operatorCodes[-1].customCode = name
    m.graph.operators[-1].customOptions = np.frombuffer(bytes(flexbuffers.Dumps(options)), "u1")


@case
def spoken_word(m):
    x, rate = m.input("f4", (400, 2)), m.tensor("rate", "i4", data=[16000])
    spectra = m.tensor("spectra", "f4", (2, 5, 65))
    custom(m, "AudioSpectrogram", [x], [spectra], window_size=100, stride=64, magnitude_squared=True)
    m.graph.outputs = [m.tensor("y", "f4", (2, 5, 8))]
    limits = {"upper_frequency_limit": 4000.0, "lower_frequency_limit": 20.0}
    counts = {"filterbank_channel_count": 12, "dct_coefficient_count": 8}
    custom(m, "Mfcc", [spectra, rate], m.graph.outputs, **limits, **counts)


@case
def spectrogram(m):
    x = m.input("f4", (256, 1))
    m.graph.outputs = [m.tensor("y", "f4", (1, 7, 33))]
    custom(m, "AudioSpectrogram", [x], m.graph.outputs, window_size=64, stride=32, magnitude_squared=False)


@case
def numeric_verify(m):
    x, wanted = m.input("i1", (3, 4), scale=0.03, zero=5), m.input("f4", (3, 4))
    m.graph.outputs = [m.tensor("y", "f4", (3, 4))]
    custom(m, "NumericVerify", [x, wanted], m.graph.outputs, tolerance=5.0, log_if_failed=False)


@case
def transpose_by_fed_order(m):
    x, order = m.input("f4", (2, 3, 4)), m.input("i4", (3,), [2, 0, 1])
    m.graph.outputs = [m.tensor("y", "f4", (4, 2, 3))]
    m.op("TRANSPOSE", [x, order], m.graph.outputs, "TransposeOptions")


def transposed_convolution(shape, padding):
    def make(m):
        wanted, x = m.input("i4", (4,), shape), m.input("f4", (1, 4, 5, 3))
        filters, bias = m.tensor("w", "f4", data=m.random.normal(size=(2, 3, 3, 3))), m.tensor("b", "f4", data=[1, 2])
        m.graph.outputs = [m.tensor("y", "f4", shape)]
        fields = {"padding": padding, "strideH": 2, "strideW": 2}
        m.op("TRANSPOSE_CONV", [wanted, filters, x, bias], m.graph.outputs, "TransposeConvOptions", version=3, **fields)

    return make


CASES["transpose_conv_fed_less"] = transposed_convolution([1, 7, 9, 2], 0)
CASES["transpose_conv_fed_more"] = transposed_convolution([1, 10, 12, 2], 1)


@case
def exact_resize_bilinear_int8(m):
    """Coordinates in fixed-point steps of 1/1024 accumulate an error over 15 columns."""
    x, size = m.input("i1", (2, 4, 5, 3), scale=0.03, zero=5), m.tensor("size", "i4", data=[8, 15])
    m.graph.outputs = [m.tensor("y", "i1", (2, 8, 15, 3), scale=0.03, zero=5)]
    m.op("RESIZE_BILINEAR", [x, size], m.graph.outputs, "ResizeBilinearOptions", version=2, alignCorners=True)


@case
def matrix_set_diag_int16(m):
    x, diagonal = m.input("i2", (2, 3, 4)), m.input("i2", (2, 3))
    m.graph.outputs = [m.tensor("y", "i2", (2, 3, 4))]
    m.op("MATRIX_SET_DIAG", [x, diagonal], m.graph.outputs, "MatrixSetDiagOptions")


def of_other_scales(name, op_type, options, shape=(1, 4, 5, 2), constants=(), inputs=1, version=2, **fields):
    """Return a case for kernels that compute on stored integers and ignore their scales."""

    def make(m):
        operands = [m.input("i1", shape, scale=0.03, zero=5) for _ in range(inputs)]
        operands += [m.tensor(f"c{place}", "i4", data=told) for place, told in enumerate(constants)]
        m.graph.outputs = [m.tensor("y", "i1", (1,), scale=0.05, zero=-7)]
        m.op(op_type, operands, m.graph.outputs, options, version=version, **fields)

    CASES[f"exact_{name}_of_other_scales"] = make


of_other_scales("reverse", "REVERSE_V2", "ReverseV2Options", constants=([2],), version=3)
of_other_scales("maximum", "MAXIMUM", "MaximumMinimumOptions", inputs=2)
of_other_scales("pad", "PAD", "PadOptions", constants=([[0, 0], [1, 2], [0, 1], [1, 0]],))
of_other_scales("nearest", "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", constants=([7, 3],))
_window = {"filterHeight": 2, "filterWidth": 3, "strideH": 1, "strideW": 2}
of_other_scales("max_pool", "MAX_POOL_2D", "Pool2DOptions", **_window)
of_other_scales("gather", "GATHER", "GatherOptions", constants=([3, 0],), axis=1)


def softly_suppressed(m, boxes, scores, *, most=8, overlap=0.6, least=0.05, sigma=0.5, is_fed=False):
    """Boxes of which each lowers the scores of those it overlaps."""
    told = [m.input("f4", np.shape(boxes), boxes), m.input("f4", np.shape(scores), scores)]
    told += [m.tensor("most", "i4", data=np.int32(most))]
    told += [m.tensor(name, "f4", data=np.float32(x)) for name, x in (("overlap", overlap), ("least", least))]
    told += [m.input("f4", (), sigma) if is_fed else m.tensor("sigma", "f4", data=np.float32(sigma))]
    m.graph.outputs = [m.tensor("kept", "i4", (most,)), m.tensor("scores", "f4", (most,)), m.tensor("count", "i4", ())]
    m.op("NON_MAX_SUPPRESSION_V5", told, m.graph.outputs, "NonMaxSuppressionV5Options")


def overlapping(seed, count):
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 4, (count, 1, 2)) + random.uniform(-2, 2, (count, 2, 2))
    return corners.reshape(count, 4), random.uniform(0, 1, count)


@case
def softly_suppressed_boxes(m):
    softly_suppressed(m, *overlapping(1, 30), most=12, overlap=0.7, sigma=0.3, is_fed=True)


@case
def softly_suppressed_without_a_limit(m):
    """No box is suppressed: a selected box decays its own score too, and may be selected again."""
    softly_suppressed(m, *overlapping(2, 6), most=9, overlap=1.5, least=0.2)


@case
def softly_suppressed_without_area(m):
    """A box without area lowers no score, not even its own."""
    boxes, scores = overlapping(3, 5)
    boxes[2] = [1, 1, 1, 2]
    softly_suppressed(m, boxes, scores, most=4)


@case
def softly_suppressed_to_nothing(m):
    softly_suppressed(m, *overlapping(4, 3), least=1.0)


def quantized_pair(m, dtype, shape=(3, 4)):
    """Two inputs of one scale."""
    zero = 0 if dtype == "i2" else 3
    return [m.input(dtype, shape, scale=0.02, zero=zero) for _ in range(2)], {"scale": 0.02, "zero": zero}


@case
def words_of_reals(m):
    """Op types on floats that no other file has, each with separate operands."""
    x, rows = m.input("f4", (3, 4)), m.input("f4", (3, 4))
    image = m.input("f4", (1, 3, 4, 4, 2))
    kernel = m.tensor("kernel", "f4", data=m.random.normal(size=(2, 2, 2, 2, 3)))
    truth = m.input("?", (3,), [True, False, True])
    reals = {"axis": m.tensor("axis", "i4", data=1), "lengths": m.input("i4", (3,), [2, 4, 1])}
    conv = {"padding": 0, "strideD": 1, "strideH": 1, "strideW": 1, "fusedActivationFunction": 1}
    conv |= {"dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    steps = [
        ("SQUARE", [x], "f4", (3, 4), "SquareOptions", {}),
        ("ADD_N", [x, rows, x], "f4", (3, 4), "AddNOptions", {}),
        ("SELECT", [truth, x, rows], "f4", (3, 4), "SelectOptions", {}),
        ("LOG_SOFTMAX", [x], "f4", (3, 4), "LogSoftmaxOptions", {}),
        ("DIV", [x, rows], "f4", (3, 4), "DivOptions", {"fusedActivationFunction": 3}),
        ("REVERSE_SEQUENCE", [x, reals["lengths"]], "f4", (3, 4), "ReverseSequenceOptions", {"seqDim": 1}),
        ("REDUCE_MIN", [x, m.tensor("none", "i4", data=np.zeros(0))], "f4", (3, 4), "ReducerOptions", {}),
        ("ARG_MIN", [x, reals["axis"]], "i4", (3,), "ArgMinOptions", {"outputType": 2}),
        ("BUCKETIZE", [x], "i4", (3, 4), "BucketizeOptions", {"boundaries": [-0.5, 0.1, 0.7]}),
        ("CONV_3D", [image, kernel], "f4", (1, 3, 4, 4, 3), "Conv3DOptions", conv),
        ("CONV_3D", [image, kernel], "f4", (1, 3, 4, 4, 3), "Conv3DOptions", conv | {"fusedActivationFunction": 0}),
    ]
    for index, (op_type, operands, dtype, shape, options, fields) in enumerate(steps):
        m.graph.outputs.append(m.tensor(f"y{index}", dtype, shape))
        m.op(op_type, operands, m.graph.outputs[-1:], options, **fields)
    whole = m.input("i4", (3, 4), m.random.integers(-9, 9, (3, 4)))
    m.graph.outputs.append(m.tensor("total", "i4", (3, 4)))
    m.op("ADD_N", [whole, whole, whole], m.graph.outputs[-1:], "AddNOptions")
    table = [m.input("i4", (2,), [1, 4]), m.tensor("extent", "i4", data=[6])]
    table += [m.tensor("values", "f4", data=[2.5, -1.0]), m.tensor("default", "f4", data=np.float32(0.5))]
    m.graph.outputs.append(m.tensor("dense", "f4", (6,)))
    m.op("SPARSE_TO_DENSE", table, m.graph.outputs[-1:], "SparseToDenseOptions")
    pairs = [m.input("i4", (2, 2), [[0, 2], [1, 0]]), m.tensor("extents", "i4", data=[2, 3]), *table[2:]]
    m.graph.outputs.append(m.tensor("map", "f4", (2, 3)))
    m.op("SPARSE_TO_DENSE", pairs, m.graph.outputs[-1:], "SparseToDenseOptions")
    places = [m.tensor("at", "i4", data=[[1], [4]]), m.tensor("updates", "i8", data=[7, -3]), table[1]]
    m.graph.outputs.append(m.tensor("scattered", "i8", (6,)))
    m.op("SCATTER_ND", places, m.graph.outputs[-1:], "ScatterNdOptions")


@case
def words_of_recurrence(m):
    """An RNN step, a batch-major sequence, and a time-major LSTM."""
    x, sequence, major = m.input("f4", (2, 4)), m.input("f4", (2, 5, 4)), m.input("f4", (5, 2, 4))

    def weights(name, *shapes):
        return [m.tensor(f"{name}{i}", "f4", data=m.random.normal(size=shape) * 0.5) for i, shape in enumerate(shapes)]

    def state(name):
        return m.tensor(name, "f4", (2, 6), variable=True)

    m.graph.outputs = [m.tensor("y", "f4", (2, 6)), m.tensor("z", "f4", (2, 5, 6)), m.tensor("u", "f4", (5, 2, 6))]
    step, whole = weights("a", (6, 4), (6, 6), (6,)), weights("b", (6, 4), (6, 6), (6,))
    m.op("RNN", [x, *step, state("s")], m.graph.outputs[:1], "RNNOptions", fusedActivationFunction=4)
    op_type, options = "UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions"
    m.op(op_type, [sequence, *whole, state("t")], m.graph.outputs[1:2], options, fusedActivationFunction=4)
    gates = weights("w", *[(6, 4)] * 4, *[(6, 6)] * 4, *[(6,)] * 4)
    operands = [major, *gates[:8], -1, -1, -1, *gates[8:], -1, -1, state("h"), state("c"), -1, -1, -1, -1]
    op_type, options = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions"
    m.op(op_type, operands, m.graph.outputs[2:], options, fusedActivationFunction=4, timeMajor=True)


@case
def words_of_bytes(m):
    """Quantized integers: compared, normalized, and with elementwise functions."""
    (x, y), number = quantized_pair(m, "i1")
    steps = [
        ("LESS", [x, y], "?", {}, "LessOptions"),
        ("GREATER_EQUAL", [x, y], "?", {}, "GreaterEqualOptions"),
        ("L2_NORMALIZATION", [x], "i1", {"scale": 1 / 128, "zero": 0}, "L2NormOptions"),
        ("LOG_SOFTMAX", [x], "i1", {"scale": 16 / 256, "zero": 127}, "LogSoftmaxOptions"),
        ("GELU", [x], "i1", number, "GeluOptions"),
    ]
    (a, b), short = quantized_pair(m, "i2")
    steps += [("MINIMUM", [a, b], "i2", short, "MaximumMinimumOptions")]
    for index, (op_type, operands, dtype, told, options) in enumerate(steps):
        m.graph.outputs.append(m.tensor(f"y{index}", dtype, (3, 4), **told))
        m.op(op_type, operands, m.graph.outputs[-1:], options, version=2)
    m.graph.outputs.append(m.tensor("least", "i1", (3,), **number))
    m.op("REDUCE_MIN", [x, m.tensor("axes", "i4", data=[1])], m.graph.outputs[-1:], "ReducerOptions", version=2)
    w = m.tensor("w", "i1", data=m.random.integers(-127, 128, (5, 4)), scale=0.01)
    m.graph.outputs.append(m.tensor("layer", "i1", (3, 5), scale=0.03, zero=-128))
    options = {"fusedActivationFunction": 3}
    m.op("FULLY_CONNECTED", [x, w, -1], m.graph.outputs[-1:], "FullyConnectedOptions", version=4, **options)


@case
def suppressed_boxes(m):
    softly_suppressed(m, *overlapping(5, 20), most=8, sigma=0.0)


def dilated_in_parts(m, dtype, *, space=(13,), pads=((2, 1),), crops=((0, 0),), blocks=(2,), depthwise=False, stride=1):
    """A convolution between SpaceToBatchND and BatchToSpaceND, TensorFlow's form of a dilated convolution."""
    number = {} if dtype == "f4" else {"scale": 0.02, "zero": -3}
    padded = [n + sum(pair) for n, pair in zip(space, pads, strict=True)]
    parts = [n // block for n, block in zip(padded, blocks, strict=True)]
    batch = 2 * int(np.prod(blocks))
    is_signal = len(space) == 1
    kernel = (1, 2) if is_signal else (2, 3)
    image = (1, *parts) if is_signal else tuple(parts)
    made = [(n - k) // stride + 1 for n, k in zip(image, kernel, strict=True)]
    maps = 3 if depthwise else 4
    x = m.input(dtype, (2, *space, 3), **number)
    shape, table = m.tensor("blocks", "i4", data=blocks), m.tensor("pads", "i4", data=pads)
    apart = m.tensor("apart", dtype, (batch, *parts, 3), **number)
    m.op("SPACE_TO_BATCH_ND", [x, shape, table], [apart], "SpaceToBatchNDOptions", 2)
    if is_signal:
        wide = m.tensor("wide", dtype, (batch, 1, *parts, 3), **number)
        m.op("EXPAND_DIMS", [apart, m.tensor("axis", "i4", data=1)], [wide], "ExpandDimsOptions")
        apart = wide
    weights = m.random.uniform(-1, 1, (1, *kernel, 3) if depthwise else (maps, *kernel, 3))
    bias = m.random.uniform(-1, 1, maps)
    if dtype == "f4":
        w, b, told = m.tensor("w", "f4", data=weights), m.tensor("b", "f4", data=bias), {}
    else:
        step = np.abs(weights).max() / 127
        w = m.tensor("w", "i1", data=np.round(weights / step), scale=step)
        b = m.tensor("b", "i4", data=np.round(bias / (0.02 * step)), scale=0.02 * step)
        told = {"scale": 0.05, "zero": 5}
    y = m.tensor("convolved", dtype, (batch, *made, maps), **told)
    fields = {"padding": 1, "strideH": stride, "strideW": stride, "dilationHFactor": 1, "dilationWFactor": 1}
    op_type, record = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    fields |= {"depthMultiplier": 1} if depthwise else {}
    m.op(op_type, [apart, w, b], [y], record, 1 if dtype == "f4" else 3, fusedActivationFunction=1, **fields)
    if is_signal:
        narrow = m.tensor("narrow", dtype, (batch, *made[1:], maps), **told)
        m.op("RESHAPE", [y, m.tensor("shape", "i4", data=(batch, *made[1:], maps))], [narrow], "ReshapeOptions")
        y, made = narrow, made[1:]
    whole = [n * block - sum(pair) for n, block, pair in zip(made, blocks, crops, strict=True)]
    m.graph.outputs = [m.tensor("y", dtype, (2, *whole, maps), **told)]
    cut = m.tensor("crops", "i4", data=crops)
    m.op("BATCH_TO_SPACE_ND", [y, shape, cut], m.graph.outputs, "BatchToSpaceNDOptions", 2)


_IMAGE = {"space": (7, 9), "pads": ((2, 3), (1, 2)), "crops": ((1, 2), (0, 2)), "blocks": (3, 2)}


@case
def dilated_in_parts_signal(m):
    dilated_in_parts(m, "f4")


@case
def dilated_in_parts_signal_int8(m):
    dilated_in_parts(m, "i1", pads=((3, 4),), blocks=(4,))


@case
def dilated_in_parts_image(m):
    """Padding up to a multiple of the block is cropped at the end."""
    dilated_in_parts(m, "f4", **_IMAGE)


@case
def dilated_in_parts_image_int8(m):
    dilated_in_parts(m, "i1", **_IMAGE, depthwise=True)


@case
def strided_in_parts(m):
    """The convolution has stride 2 in each block, which is not equivalent to a dilated convolution."""
    dilated_in_parts(m, "f4", **{**_IMAGE, "pads": ((2, 6), (1, 4)), "crops": ((0, 0), (0, 0))}, stride=2)


@case
def cut_in_parts(m):
    """More is cut off than was filled up."""
    dilated_in_parts(m, "f4", **{**_IMAGE, "crops": ((3, 0), (2, 0))})


@case
def reads_before_and_after(m):
    """A variable's value is returned as read: before and after the assignment."""
    x, handle = begun(m)
    before, sum_, after = (m.tensor(name, "f4", (2, 3)) for name in ("before", "sum", "after"))
    m.op("READ_VARIABLE", [handle], [before], "ReadVariableOptions")
    m.op("ADD", [before, x], [sum_], "AddOptions")
    m.op("ASSIGN_VARIABLE", [handle, sum_], [], "AssignVariableOptions")
    m.op("READ_VARIABLE", [handle], [after], "ReadVariableOptions")
    m.graph.outputs = [after, before]


if __name__ == "__main__":
    main()
