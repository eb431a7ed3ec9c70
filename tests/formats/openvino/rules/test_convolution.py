"""Convolutions in OpenVINO."""

import numpy as np

import graphport as gp
from graphport.conversion.export import export_graph
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.definitions.convolution import Conv, ConvInteger, ConvTranspose, DeformConv, QLinearConv
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape.columns import Col2Im
from graphport.ops.infer import Inference
from tests.at_once import at_once
from tests.formats.openvino.documents import Layer, parameter, write_ir
from tests.ops.openvino_oracle import check_operator, check_word, run_ir
from tests.ops.oracle import run_operator

RANDOM = np.random.default_rng(4)


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def slid(rank, **given):
    return {
        "strides": (1,) * rank,
        "pads_begin": (0,) * rank,
        "pads_end": (0,) * rank,
        "dilations": (1,) * rank,
    } | given


WINDOWS = [
    ("plain", {}),
    ("strides", {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 2)}),
    ("dilations", {"dilations": (2, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}),
    ("same upper", {"strides": (2, 2), "auto_pad": "same_upper"}),
    ("same lower", {"strides": (2, 2), "auto_pad": "same_lower"}),
    ("same dilated", {"dilations": (2, 1), "auto_pad": "same_upper"}),
    ("valid", {"auto_pad": "valid", "pads_begin": (0, 0)}),
]


@at_once("given", [case[1] for case in WINDOWS], ids=[case[0] for case in WINDOWS])
@at_once("constants", [(), (1,)])
def test_convolution(given, constants):
    operands = [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2)]
    check_word("opset1.Convolution", operands, constants=constants, tolerance=1e-5, **slid(2, **given))


@at_once("rank", [1, 3])
def test_convolution_of_other_ranks(rank):
    operands = [numbers(1, 2, *[5] * rank), numbers(3, 2, *[2] * rank)]
    check_word("opset1.Convolution", operands, constants=(1,), tolerance=1e-5, **slid(rank))


@at_once("constants", [(), (1,)])
def test_group_convolution(constants):
    operands = [numbers(1, 4, 5, 5), numbers(2, 3, 2, 3, 3)]
    flags = slid(2, strides=(2, 1), pads_begin=(1, 1), pads_end=(1, 1))
    check_word("opset1.GroupConvolution", operands, constants=constants, tolerance=1e-5, **flags)


def test_convolution_over_a_batch_that_is_open():
    operands = [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2)]
    for given in ({}, {"auto_pad": "same_upper", "strides": (2, 2)}):
        check_word("opset1.Convolution", operands, constants=(1,), symbolic=True, tolerance=1e-5, **slid(2, **given))


PAINTED = [
    ("plain", {}, None),
    ("strides", {"strides": (2, 3), "pads_begin": (1, 0), "pads_end": (0, 1)}, None),
    ("output padding", {"strides": (2, 2), "output_padding": (1, 0)}, None),
    ("dilations", {"dilations": (2, 1)}, None),
    ("same upper", {"strides": (2, 2), "auto_pad": "same_upper"}, None),
    ("valid", {"strides": (2, 2), "auto_pad": "valid"}, None),
    ("shape, valid", {"strides": (2, 2), "auto_pad": "valid"}, (8, 9)),
    ("shape, explicit", {"strides": (2, 2)}, (10, 9)),
    ("shape, same upper", {"strides": (2, 2), "auto_pad": "same_upper"}, (8, 9)),
    ("shape, same lower", {"strides": (2, 2), "auto_pad": "same_lower"}, (8, 9)),
]


@at_once(("given", "shape"), [case[1:] for case in PAINTED], ids=[case[0] for case in PAINTED])
@at_once("group", [1, 2])
def test_convolution_backprop(given, shape, group):
    operands = [numbers(1, 4, 4, 5), numbers(4, 3, 3, 2) if group == 1 else numbers(2, 2, 3, 3, 2)]
    op_type = "opset1.ConvolutionBackpropData" if group == 1 else "opset1.GroupConvolutionBackpropData"
    operands += [] if shape is None else [np.array(shape, np.int64)]
    check_word(op_type, operands, constants=range(1, len(operands)), tolerance=1e-5, **slid(2, **given))


@at_once("masked", [False, True])
def test_deformable_convolution(masked):
    operands = [numbers(1, 4, 6, 6), numbers(1, 2 * 2 * 9, 4, 4), numbers(6, 2, 3, 3)]
    operands += [RANDOM.uniform(size=(1, 2 * 9, 4, 4)).astype(np.float32)] if masked else []
    flags = slid(2, group=2, deformable_group=2, bilinear_interpolation_pad=True)
    check_word("opset8.DeformableConvolution", operands, tolerance=1e-4, **flags)


@at_once("auto_pad", ["valid", "same_upper", "same_lower"])
def test_image_patches(auto_pad):
    x = np.arange(2 * 3 * 7 * 8, dtype=np.float32).reshape(2, 3, 7, 8)
    flags = {"sizes": (2, 3), "strides": (2, 3), "rates": (1, 2), "auto_pad": auto_pad}
    check_word("opset3.ExtractImagePatches", [x], **flags)


def painted(columns, size, kernel, begins):
    """Columns added up, as the specification describes it."""
    n, rows, _ = columns.shape
    channels, taps = rows // np.prod(kernel), np.prod(kernel)
    places = [s + 2 * b - k + 1 for s, k, b in zip(size, kernel, begins, strict=True)]
    canvas = np.zeros((n, channels, *(s + 2 * b for s, b in zip(size, begins, strict=True))), np.float32)
    parts = columns.reshape(n, channels, taps, *places)
    for number, (i, j) in enumerate(np.ndindex(*kernel)):
        canvas[:, :, i : i + places[0], j : j + places[1]] += parts[:, :, number]
    return canvas[:, :, begins[0] : begins[0] + size[0], begins[1] : begins[1] + size[1]]


@at_once(("size", "begins"), [((4, 5), (0, 0)), ((3, 4), (1, 0))])
def test_columns_become_an_image(size, begins):
    columns = numbers(2, 3 * 4, 12)
    operands = [columns, np.array(size, np.int64), np.array((2, 2), np.int64)]
    # OpenVINO's plugin crashes on some of these cases.
    expected = [painted(columns, size, (2, 2), begins)]
    flags = {"pads_begin": begins, "pads_end": begins}
    check_word("opset15.Col2Im", operands, constants=(1, 2), tolerance=1e-5, expected=expected, **flags)


STATED = [
    (Conv, [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2)], {}),
    (Conv, [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2), numbers(4)], {"strides": (2, 1), "pads": (1, 0, 2, 1)}),
    (Conv, [numbers(2, 4, 7, 8), numbers(6, 2, 3, 2), numbers(6)], {"group": 2, "dilations": (2, 1)}),
    (Conv, [numbers(2, 3, 7, 8), numbers(4, 3, 3, 2)], {"auto_pad": "SAME_LOWER", "strides": (2, 2)}),
    (Conv, [numbers(2, 3, 7), numbers(4, 3, 3), numbers(4)], {}),
    (ConvTranspose, [numbers(1, 4, 4, 5), numbers(4, 3, 3, 2)], {}),
    (ConvTranspose, [numbers(1, 4, 4, 5), numbers(4, 3, 3, 2), numbers(6)], {"group": 2, "strides": (2, 3)}),
    (ConvTranspose, [numbers(1, 4, 4, 5), numbers(4, 3, 3, 2)], {"strides": (3, 2), "output_shape": (10, 8)}),
    (ConvTranspose, [numbers(1, 4, 4, 5), numbers(4, 3, 3, 3)], {"strides": (2, 2), "auto_pad": "SAME_UPPER"}),
    (ConvTranspose, [numbers(1, 4, 4, 5), numbers(4, 3, 3, 2)], {"strides": (2, 2), "output_padding": (1, 0)}),
    (
        DeformConv,
        [numbers(1, 4, 6, 6), numbers(6, 2, 3, 3), numbers(1, 36, 4, 4), numbers(6)],
        {"group": 2, "offset_group": 2},
    ),
]


@at_once(("op_def", "inputs", "attributes"), STATED, ids=[f"{i}-{case[0].name}" for i, case in enumerate(STATED)])
@at_once("constants", [(), (1, 2)])
def test_exporting_a_page_preserves_its_semantics(op_def, inputs, attributes, constants):
    given = tuple(place for place in constants if place < len(inputs) and op_def is not DeformConv)
    assert check_operator(op_def, inputs, constants=given, tolerance=1e-4, **attributes) is not None


def test_exporting_quantized_convolutions():
    x, w = (
        RANDOM.integers(0, 255, (1, 2, 4, 4)).astype(np.uint8),
        RANDOM.integers(-128, 127, (3, 2, 3, 3)).astype(np.int8),
    )
    assert check_operator(ConvInteger, [x, w, np.array(7, np.uint8)], pads=(1, 1, 1, 1)) is not None
    scale = np.array(0.05, np.float32)
    per_map = np.array([0.1, 0.02, 0.03], np.float32)
    zeros = np.zeros(3, np.int8)
    operands = [x, scale, np.array(120, np.uint8), w, per_map, zeros, np.array(0.4, np.float32)]
    operands += [np.array(100, np.uint8), np.array([1000, -300, 5], np.int32)]
    assert check_operator(QLinearConv, operands) is not None


FILTERS = {"Convolution": "3,2,3,3", "GroupConvolution": "2,3,1,3,3", "ConvolutionBackpropData": "2,3,3,3"}


def findings(folder, kind, **given):
    """Return the findings for a window over two axes with these lists and default others."""
    lists = {"strides": "1,1", "dilations": "1,1", "pads_begin": "0,0", "pads_end": "0,0"} | given
    reads = ["x", "w"] if kind in FILTERS else ["x"]
    data = lists if kind in FILTERS else lists | {"kernel": "2,2"}
    layers = [parameter("x", "1,2,5,5"), parameter("w", FILTERS.get(kind, "1"))]
    layers.append(Layer("y", f"{'opset1' if kind in FILTERS else 'opset8'}.{kind}", data, reads, 3 - len(reads)))
    return gp.check(write_ir(folder, layers, ["y"]))


@at_once("kind", [*FILTERS, "MaxPool"])
@at_once("name", ["strides", "dilations", "pads_begin", "pads_end"])
@at_once("count", [1, 3])
def test_lists_have_an_entry_for_each_axis(kind, name, count, tmp_path):
    (found,) = findings(tmp_path, kind, **{name: ",".join("0" * count if "pads" in name else "1" * count)})
    assert found.code == "SHAPE0001"
    assert f"{name} " in found.message
    assert f"has {count} entries for 2 spatial axes" in found.message


@at_once("kind", FILTERS)
def test_an_empty_list_is_a_default(kind, tmp_path):
    assert not findings(tmp_path, kind, strides="", dilations="", pads_begin="", pads_end="")


@at_once("auto_pad", ["same_upper", "same_lower"])
def test_computed_padding_of_a_window_with_gaps_at_run_time(auto_pad):
    x, w = numbers(1, 2, 7, 8), numbers(3, 2, 2, 3)
    flags = {"strides": (2, 1), "dilations": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0), "auto_pad": auto_pad}
    check_word("opset1.Convolution", [x, w], constants=(1,), symbolic=True, tolerance=1e-4, **flags)


def test_columns_of_sizes_computed_at_run_time():
    x, image, block = numbers(2, 12, 9), np.array([4, 4]), np.array([2, 2])
    plain = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    check_word("opset15.Col2Im", [x, image, block], **plain)
    check_word("opset15.Col2Im", [x[0], image, block], constants=(1, 2), **plain)


def test_columns_are_written():
    operands = [numbers(2, 12, 9), np.array([4, 4]), np.array([2, 2])]
    assert check_operator(Col2Im, operands, constants=(1, 2)) == ["opset15.Col2Im"]
    gaps = {"dilations": (2, 1), "pads": (1, 0, 0, 1), "strides": (1, 2)}
    columns = numbers(1, 4, 3 * 2)
    assert check_operator(Col2Im, [columns, np.array([4, 3]), np.array([2, 2])], constants=(1, 2), **gaps)
    assert check_operator(Col2Im, [numbers(1, 4, 3), np.array([6]), np.array([4])], constants=(1, 2)) is None


@at_once("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
def test_convolution_of_integers_takes_the_nearest_that_the_type_has(dtype):
    draw = np.random.default_rng(9)
    low = 0 if dtype is np.uint8 else -9

    def check(op_type, x, w, **given):
        operands = [x.astype(dtype), w.astype(dtype)]
        if dtype is np.int8:
            # On processors without VNNI, OpenVINO's int8 results are wrong; those of int32 are right and exact here.
            wide = check_word(op_type, [x.astype(np.int32), w.astype(np.int32)], constants=(1,), **slid(2, **given))
            expected = [np.clip(y, -128, 127).astype(dtype) for y in wide]
            check_word(op_type, operands, constants=(1,), expected=expected, **slid(2, **given))
        else:
            check_word(op_type, operands, constants=(1,), **slid(2, **given))

    for given in ({}, {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 2)}):
        check("opset1.Convolution", *(draw.integers(low, 10, shape) for shape in ((2, 3, 7, 8), (4, 3, 3, 2))), **given)
    check("opset1.GroupConvolution", *(draw.integers(low, 10, shape) for shape in ((1, 4, 5, 5), (2, 3, 2, 3, 3))))


DRAWN = np.random.default_rng(14)


def drawn(rank):
    """Return zero pads of a strided transposed convolution, and its window."""
    pick = lambda low, high: tuple(int(n) for n in DRAWN.integers(low, high, rank))  # noqa: E731
    strides, group = pick(1, 4), int(DRAWN.integers(1, 3))
    window = {"strides": strides, "group": group, "pads": pick(0, 3) + pick(0, 3)}
    window["output_padding"] = tuple(int(DRAWN.integers(0, s)) for s in strides)
    filters = numbers(4, 3, *pick(3, 5))
    return pick(0, 3) + pick(0, 3), window, filters, numbers(3 * group) if DRAWN.integers(2) else None


@at_once("zeros, window, filters, bias", [drawn(1 + place % 2) for place in range(24)])
def test_zeros_around_what_is_painted_in_steps(zeros, window, filters, bias):
    rank = filters.ndim - 2
    x = numbers(1, 4, *(4, 5)[:rank])
    graph = Graph("padded")
    edges = np.array((0, 0, *zeros[:rank], 0, 0, *zeros[rank:]))
    given = graph.add_input("x", TensorFact.of(storage_of(x)))
    stored = [
        None if each is None else graph.add_constant(name, TensorFact.of(storage_of(each)), storage_of(each))
        for name, each in (("edges", edges), ("w", filters), ("b", bias))
    ]
    b = Builder(Inference(), graph)
    padded = b(Pad, given, stored[0])
    graph.add_output(b(ConvTranspose, padded, *stored[1:], **window))
    (wanted,) = run_operator(ConvTranspose, [np.pad(x, edges.reshape(2, -1).T), filters, bias], **window)
    said, findings = export_graph(graph, "openvino")
    assert not findings
    (found,) = run_ir(said, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
