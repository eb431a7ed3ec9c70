"""Resizing and sampling in OpenVINO."""

import numpy as np
import openvino as ov

import graphport as gp
from graphport.backends import prepare, reference
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.definitions.resize import AffineGrid, GridSample, Resize
from graphport.ops.infer import Inference
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word
from tests.passes.cases import info, model, node

RANDOM = np.random.default_rng(12)
X = RANDOM.normal(size=(1, 2, 5, 6)).astype(np.float32)
LARGER, SMALLER, AXES = np.array([8, 11], np.int64), np.array([3, 4], np.int64), np.array([2, 3], np.int64)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"]


@at_once("coordinates", COORDINATES)
@at_once("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"])
@at_once("wanted", [LARGER, SMALLER], ids=["larger", "smaller"])
def test_nearest(coordinates, nearest, wanted):
    flags = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest, "mode": "nearest"}
    operands = [X, wanted, AXES]
    check_word("opset11.Interpolate", operands, constants=(1, 2), shape_calculation_mode="sizes", **flags)


BETWEEN = [(mode, coordinates) for mode in ("linear", "linear_onnx", "cubic") for coordinates in COORDINATES]


@at_once(("mode", "coordinates"), BETWEEN)
@at_once("wanted", [LARGER, SMALLER], ids=["larger", "smaller"])
def test_between_entries(mode, coordinates, wanted):
    flags = {"coordinate_transformation_mode": coordinates, "mode": mode, "shape_calculation_mode": "sizes"}
    check_word("opset11.Interpolate", [X, wanted, AXES], constants=(1, 2), tolerance=1e-4, **flags)


@at_once("mode", ["bilinear_pillow", "bicubic_pillow"])
@at_once("wanted", [LARGER, SMALLER], ids=["larger", "smaller"])
def test_as_pillow_does_it(mode, wanted):
    flags = {"mode": mode, "shape_calculation_mode": "sizes", "cube_coeff": -0.5}
    check_word("opset11.Interpolate", [X, wanted, AXES], constants=(1, 2), tolerance=1e-4, **flags)


def test_antialiased():
    # The plugin forgets it, the reference does it.
    flags = {"mode": "linear", "shape_calculation_mode": "sizes", "antialias": True, "by_reference": True}
    check_word("opset11.Interpolate", [X, SMALLER, AXES], constants=(1, 2), tolerance=1e-4, **flags)


SCALES = np.array([1.5, 0.7], np.float32)


@at_once("mode", ["nearest", "linear_onnx", "cubic"])
def test_by_scales(mode):
    flags = {"mode": mode, "shape_calculation_mode": "scales", "coordinate_transformation_mode": "asymmetric"}
    check_word("opset11.Interpolate", [X, SCALES, AXES], constants=(1, 2), tolerance=1e-4, **flags)
    operands = [X, np.array([1, 1], np.int64), SCALES, AXES]
    check_word("opset4.Interpolate", operands, constants=(1, 2, 3), tolerance=1e-4, **flags)


@at_once("mode", ["nearest", "linear_onnx"])
def test_of_dynamic_shape(mode):
    flags = {"mode": mode, "shape_calculation_mode": "sizes"}
    check_word("opset11.Interpolate", [X, LARGER, AXES], constants=(1, 2), symbolic=True, tolerance=1e-4, **flags)
    check_word("opset11.Interpolate", [X, LARGER, AXES], constants=(2,), tolerance=1e-4, **flags)


def test_after_padding():
    flags = {"mode": "nearest", "shape_calculation_mode": "sizes", "coordinate_transformation_mode": "asymmetric"}
    pads = {"pads_begin": (0, 0, 1, 0), "pads_end": (0, 0, 0, 2)}
    check_word("opset4.Interpolate", [X, LARGER, np.ones(2, np.float32), AXES], constants=(1, 2, 3), **flags, **pads)


@at_once("mode", ["nearest", "linear"])
@at_once("corners", [False, True])
@at_once("wanted", [LARGER, SMALLER], ids=["larger", "smaller"])
def test_first_interpolation(mode, corners, wanted):
    flags = {"axes": (2, 3), "mode": mode, "align_corners": corners}
    check_word("opset1.Interpolate", [X, wanted], constants=(1,), tolerance=1e-4, **flags)


GRID = RANDOM.uniform(-1.2, 1.2, (1, 4, 3, 2)).astype(np.float32)


@at_once("mode", ["bilinear", "nearest", "bicubic"])
@at_once("padding", ["zeros", "border", "reflection"])
@at_once("corners", [False, True])
def test_grid_sample(mode, padding, corners):
    flags = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check_word("opset9.GridSample", [X, GRID], tolerance=1e-4, **flags)


def whole(*numbers):
    return np.array(numbers, np.int64)


RESIZED = [
    ({}, [X, None, None, whole(1, 2, 8, 11)]),
    ({"nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"}, [X, None, None, whole(1, 2, 3, 4)]),
    ({"mode": "linear"}, [X, None, None, whole(1, 2, 8, 11)]),
    ({"mode": "linear", "axes": (2, 3)}, [X, None, np.array([1.5, 0.5], np.float32)]),
    ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [X, None, None, whole(1, 2, 8, 4)]),
    (
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
        [X, None, np.array([1, 1, 0.55, 1.3], np.float32)],
    ),
    ({"mode": "linear", "antialias": 1}, [X, None, None, whole(1, 2, 3, 4)]),
    ({"mode": "cubic"}, [X, None, None, whole(1, 2, 8, 11)]),
    ({"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}, [X, None, None, whole(1, 2, 8, 4)]),
    ({"mode": "cubic", "antialias": 1}, [X, None, None, whole(1, 2, 3, 4)]),
    ({"keep_aspect_ratio_policy": "not_larger", "axes": (2, 3)}, [X, None, None, whole(7, 9)]),
    (
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0},
        [X, np.array([0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7], np.float32), None, whole(1, 2, 3, 3)],
    ),
]


@at_once(("attributes", "inputs"), RESIZED, ids=map(str, range(len(RESIZED))))
def test_exporting_a_resizing(attributes, inputs):
    constants = [place for place in range(1, len(inputs)) if inputs[place] is not None]
    assert check_operator(Resize, inputs, constants=constants, tolerance=1e-4, **attributes) is not None


def test_exporting_a_resizing_of_dynamic_shape():
    operands = [X, None, None, whole(8, 11)]
    for mode in ("nearest", "linear"):
        said = check_operator(Resize, operands, constants=(3,), symbolic=True, tolerance=1e-4, mode=mode, axes=(2, 3))
        assert said == ["opset11.Interpolate"]


@at_once("mode", ["linear", "nearest", "cubic"])
def test_exporting_a_sampling(mode):
    assert check_operator(GridSample, [X, GRID], tolerance=1e-4, mode=mode, padding_mode="border") is not None


@at_once("corners", [0, 1])
def test_exporting_affine_grids(corners):
    theta = RANDOM.normal(size=(2, 2, 3)).astype(np.float32)
    said = check_operator(AffineGrid, [theta, whole(2, 3, 4, 5)], constants=(1,), tolerance=1e-5, align_corners=corners)
    assert said is not None
    theta = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
    said = check_operator(
        AffineGrid, [theta, whole(2, 3, 4, 5, 2)], constants=(1,), tolerance=1e-5, align_corners=corners
    )
    assert said is not None


@at_once("mode", ["bilinear_pillow", "bicubic_pillow"])
@at_once("scales", [(2.0, 0.7), (0.5, 1.3)])
def test_pillow_knows_sizes_whatever_scales_led_to_them(mode, scales):
    x = np.random.default_rng(6).normal(size=(1, 2, 5, 4)).astype(np.float32)
    flags = {"shape_calculation_mode": "scales", "coordinate_transformation_mode": "half_pixel", "mode": mode}
    operands = [x, np.array(scales, np.float32), np.array([2, 3])]
    check_word("opset11.Interpolate", operands, constants=(1, 2), tolerance=1e-4, **flags)


@at_once("how", [{"mode": "cubic"}, {"mode": "linear", "antialias": 1}, {"mode": "nearest"}])
@at_once("by_scales", [False, True], ids=["sizes", "scales"])
def test_an_open_batch_need_not_be_known_where_the_rest_is_resized(how, by_scales):
    for batch in (1, 3):
        x = RANDOM.normal(size=(batch, 2, 5, 6)).astype(np.float32)
        graph = Graph()
        given = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N", 1), 2, 5, 6)))
        builder = Builder(Inference(), graph)
        numbers = np.array([1, 1, 1.5, 0.5], np.float32)
        if by_scales:
            y = builder(Resize, given, None, builder.constant(numbers), **how)
        else:
            sizes = builder(Concat, builder(Shape, given, end=2), builder.constant(np.array([7, 3])), axis=0)
            y = builder(Resize, given, None, None, sizes, **how)
        graph.add_output(y)
        (expected,) = reference.prepare(graph).run({"x": x}).values()
        (found,) = prepare(graph, "openvino").run({"x": x}).values()
        assert expected.shape == (batch, 2, 7, 3)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@at_once(("mode", "a"), [("linear", -0.75), ("cubic", -0.5)])
def test_a_dynamic_dim_is_resampled_without_aliases_as_it_turns_out(mode, a, tmp_path):
    stated = {"mode": mode, "antialias": 1, "exclude_outside": 1, "cubic_coeff_a": a}
    proto = model(
        [node("Resize", "x _ _ s", "y", **stated)],
        [info("x", [1, 2, "H", "W"])],
        [info("y", None)],
        {"s": np.array([1, 2, 5, 7])},
        opset=18,
    )
    gp.save(gp.from_onnx(proto), tmp_path / "net.xml")
    compiled = ov.compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for height, width in ((11, 6), (4, 19), (5, 7)):
        x = RANDOM.normal(size=(1, 2, height, width)).astype(np.float32)
        expected = Resize.function(x, None, None, np.array([1, 2, 5, 7]), **stated)
        np.testing.assert_allclose(compiled(x)[0], expected, rtol=1e-4, atol=1e-5)


@at_once("mode", ["nearest", "linear", "cubic"])
@at_once("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
def test_lengths_that_stay_beside_an_open_batch(mode, coordinates, tmp_path):
    stated = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": "ceil"}
    nodes = [
        node("Shape", "x", "n", end=1),
        node("Concat", "n rest", "s", axis=0),
        node("Resize", "x _ _ s", "y", **stated),
    ]
    proto = model(nodes, [info("x", ["N", 2, 5, 7])], [info("y", None)], {"rest": np.array([2, 5, 7])}, opset=18)
    read = gp.from_onnx(proto)
    gp.save(read, tmp_path / "net.xml")
    x = RANDOM.normal(size=(3, 2, 5, 7)).astype(np.float32)
    expected = gp.run(read, {"x": x}, backend="reference")["y"]
    found = ov.compile_model(tmp_path / "net.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_corners_of_a_dynamic_dim_are_aligned_beside_a_batch_of_one():
    graph = Graph()
    given = graph.add_input("x", TensorFact(DType.FLOAT32, (1, 2, Symbol("H", 2), 6)))
    builder = Builder(Inference(), graph)
    scales = builder.constant(np.array([1, 1, 4, 4], np.float32))
    how = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    graph.add_output(builder(Resize, given, None, scales, **how))
    for height in (5, 3):
        x = RANDOM.normal(size=(1, 2, height, 6)).astype(np.float32)
        (expected,) = reference.prepare(graph).run({"x": x}).values()
        (found,) = prepare(graph, "openvino").run({"x": x}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
