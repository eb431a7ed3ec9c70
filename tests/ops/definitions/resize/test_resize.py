"""Resizing and sampling against ONNX Runtime, and what the shape rules refuse."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.core.storage import storage_of
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.resize import AffineGrid, GridSample, Resize
from graphport.ops.definitions.resize.sampling import COORDINATES
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator, run_word


def random(*shape, dtype: Any = np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


@st.composite
def resizings(draw):
    """Operands and attributes of a resizing that ONNX Runtime can do."""
    mode = draw(st.sampled_from(["nearest", "linear", "cubic"]))
    rank = 2 if mode == "cubic" else draw(st.integers(1, 3))
    dims = tuple(draw(st.integers(3, 7)) for _ in range(rank))
    # ONNX Runtime reads beside the region of three axes.
    crops = mode != "linear" or rank < 3
    coordinates = draw(st.sampled_from([name for name in COORDINATES if crops or name != "tf_crop_and_resize"]))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        modes = ["round_prefer_floor", "floor", "ceil"]
        # Of halves that fractions only come near, ONNX Runtime rounds some up.
        modes += ["round_prefer_ceil"] if coordinates != "asymmetric" else []
        attributes["nearest_mode"] = draw(st.sampled_from(modes))
    crops = coordinates == "tf_crop_and_resize"
    if mode == "cubic":
        attributes["cubic_coeff_a"] = draw(st.sampled_from([-0.5, -0.75]))
        attributes["exclude_outside"] = draw(st.integers(0, 1)) if not crops else 0
    if mode != "nearest" and rank == 2 and not crops:
        attributes["antialias"] = draw(st.integers(0, 1))
    roi = None
    if crops:
        starts, ends = ([draw(st.sampled_from(choice)) for _ in dims] for choice in ((0.0, 0.2, 0.4), (0.5, 1.0, 1.2)))
        roi = np.array([0, 0, *starts, 1, 1, *ends], np.float32)
        attributes["extrapolation_value"] = 10.0
    scales = sizes = None
    if draw(st.booleans()):
        sizes = np.array([1, 2, *(draw(st.integers(1, 12)) for _ in dims)])
        # ONNX Runtime copies where no extent changes, whatever the region.
        assume(not crops or all(size != n for size, n in zip(sizes[2:], dims, strict=True)))
        # Of whole coordinates that fractions only come near, ONNX Runtime has some lie below.
        if coordinates == "half_pixel_symmetric" and attributes.get("nearest_mode") == "floor":
            places = [
                Fraction(2 * y + 1, 2 * int(size)) * n
                for size, n in zip(sizes[2:], dims, strict=True)
                for y in range(size)
            ]
            assume(all(place.denominator != 2 for place in places))
    else:
        # Elsewhere the last bit of a coordinate decides, or the documents disagree about fractional extents.
        symmetric = mode == "nearest" and coordinates == "half_pixel_symmetric"
        whole = symmetric or coordinates in ("align_corners", "tf_crop_and_resize")
        choice = [2.0, 3.0] if whole else [0.5, 0.6, 0.8, 1.5, 2.0, 3.0]
        scales = np.array([1, 1, *(draw(st.sampled_from(choice)) for _ in dims)], np.float32)
        assume(all(int(np.float32(n) * s) not in (0, n) for n, s in zip(dims, scales[2:], strict=True)))
    return [random(1, 2, *dims), roi, scales, sizes], attributes


@given(resizings())
def test_resizing_is_that_of_onnx_runtime(case):
    inputs, attributes = case
    check_operator(Resize, inputs, tolerance=1e-4, **attributes)


@pytest.mark.parametrize(("length", "size"), [(3, 1), (3, 11), (5, 3), (6, 2)])
def test_resize_at_integer_coordinates_returns_the_element(length, size):
    """ONNX Runtime has it lie below by a last bit; the documents, counted in fractions, do not."""
    x = np.arange(length, dtype=np.float32)[None]
    attributes = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": "floor"}
    (y,) = run_operator(Resize, [x, None, None, np.array([1, size])], mode="nearest", **attributes)
    places = [(Fraction(2 * place + 1, 2 * size) * length - Fraction(1, 2)) // 1 for place in range(size)]
    assert y[0].tolist() == [min(max(place, 0), length - 1) for place in places]


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_keeps_the_aspect_ratio(policy, mode):
    inputs = [random(1, 2, 4, 6), None, None, np.array([7, 8])]
    attributes: dict[str, Any] = {"axes": (2, 3), "mode": mode, "keep_aspect_ratio_policy": policy}
    check_operator(Resize, inputs, tolerance=1e-4, **attributes)


def test_resize_axes_select_the_scaled_axes():
    x = random(1, 2, 4, 6)
    found = run_operator(Resize, [x, None, np.array([2.0, 0.5], np.float32)], axes=(3, 2), mode="linear")
    expected = run_operator(Resize, [x, None, np.array([1, 1, 0.5, 2], np.float32)], mode="linear")
    compare(found[0], expected[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_the_nearest_entry_keeps_its_type(dtype):
    x = (random(1, 2, 4, 6) * 20).astype(dtype)
    check_operator(Resize, [x, None, np.array([1, 1, 2, 0.5], np.float32)])


def test_text_and_boolean_can_be_resized():
    scales = np.array([2.0], np.float32)
    assert run_operator(Resize, [np.array(["a", "b"], object), None, scales])[0].tolist() == ["a", "a", "b", "b"]
    assert run_operator(Resize, [np.array([True, False]), None, scales])[0].tolist() == [True, True, False, False]


def test_interpolated_integers_are_rounded():
    x = np.array([0, 10, 3], np.uint8)
    found = run_operator(
        Resize, [x, None, None, np.array([6])], mode="linear", coordinate_transformation_mode="asymmetric"
    )
    assert found[0].tolist() == [0, 5, 10, 6, 3, 3]


def scales_fact(*scales):
    return TensorFact.of(storage_of(np.array(scales, np.float32)))


def test_shapes_follow_symbolic_extents():
    h, w = Symbol("H"), Symbol("W")
    x = TensorFact(DType.FLOAT32, (1, 3, h, w))
    (found,) = Inference().infer_operator(Resize, [x, None, scales_fact(1, 1, 2, 0.5)], {}, 1)
    assert found == TensorFact(DType.FLOAT32, (1, 3, 2 * h, w // 2))
    (found,) = Inference().infer_operator(Resize, [x, None, scales_fact(1, 1, 1.5, 1 / 3)], {}, 1)
    assert found == TensorFact(DType.FLOAT32, (1, 3, 3 * h // 2, OPEN))
    sizes = TensorFact(DType.INT64, (4,), (1, 3, 2 * h, 7))
    (found,) = Inference().infer_operator(Resize, [x, None, None, sizes], {}, 1)
    assert found == TensorFact(DType.FLOAT32, (1, 3, 2 * h, 7))
    computed = TensorFact(DType.FLOAT32, (2,))
    (found,) = Inference().infer_operator(Resize, [x, None, computed], {"axes": (2, 3)}, 1)
    assert found == TensorFact(DType.FLOAT32, (1, 3, OPEN, OPEN))


def test_resize_treats_empty_operands_as_absent():
    x, none = random(1, 1, 2), np.zeros(0, np.float32)
    found = run_operator(Resize, [x, none, none, np.array([1, 1, 4])])
    assert found[0].shape == (1, 1, 4)
    check_shapes(Resize, [x, none, none, np.array([1, 1, 4])], found)


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_old_resizing_is_equivalent(opset, mode):
    inputs = [random(1, 2, 4, 6), None, np.array([1, 1, 2, 0.5], np.float32)]
    if opset == 11:
        inputs[1] = np.zeros(8, np.float32)
    old_opset("Resize", opset, inputs, mode=mode, tolerance=1e-4)


@pytest.mark.parametrize("scales", [(2, 3), (0.5, 0.6), (0.6, 1.5), (1, 0.4)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_first_resizing_is_equivalent(scales, mode):
    inputs = [random(1, 2, 5, 6), np.array([1, 1, *scales], np.float32)]
    old_opset("Resize", 10, inputs, mode=mode, constants=(1,), tolerance=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsampling_is_equivalent(mode):
    x, scales = random(1, 2, 3, 4), np.array([1, 1, 2, 1.5], np.float32)
    for constants in ((), (1,)):
        old_opset("Upsample", 9, [x, scales], mode=mode, constants=constants, tolerance=1e-4)
    old_opset("Upsample", 7, [x], mode=mode, scales=(1.0, 1.0, 2.0, 1.5), tolerance=1e-4)
    (found,) = run_word(
        "onnx",
        "Upsample",
        [x],
        opset=1,
        mode="bilinear" if mode == "linear" else mode,
        height_scale=2.0,
        width_scale=1.5,
    )
    compare(found, old_opset("Upsample", 9, [x, scales], mode=mode)[0])


@given(
    st.sampled_from([2, 3]),
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.integers(0, 1),
    st.integers(0, 99),
)
def test_grid_sampling_is_that_of_onnx_runtime(rank, mode, padding_mode, align_corners, seed):
    assume(rank == 2 or mode != "cubic")
    rng = np.random.default_rng(seed)
    x = random(2, 3, *rng.integers(2, 6, rank))
    grid = rng.uniform(-1.6, 1.6, (2, *rng.integers(1, 5, rank), rank)).astype(np.float32)
    attributes: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    check_operator(GridSample, [x, grid], tolerance=1e-4, **attributes)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_old_modes_of_grid_sampling_were_called_after_images(mode):
    grid = np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)
    old_opset("GridSample", 16, [random(1, 2, 4, 5), grid], mode=mode, tolerance=1e-4)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("dims", [(3, 4), (2, 3, 4), (5, 2)])
def test_affine_grid_is_that_of_onnx_runtime(align_corners, dims):
    rank = len(dims)
    check_operator(
        AffineGrid, [random(2, rank, rank + 1), np.array([2, 3, *dims])], align_corners=align_corners, tolerance=1e-5
    )


def test_affinegrid_of_one_element_is_centered():
    theta = np.eye(2, 3, dtype=np.float32)[None]
    for align_corners in (0, 1):
        grid = run_operator(AffineGrid, [theta, np.array([1, 1, 1, 1])], align_corners=align_corners)[0]
        assert grid.tolist() == [[[[0, 0]]]]


def test_gridsample_with_the_identity_grid_returns_the_operand():
    x = random(2, 3, 4, 5)
    theta = np.tile(np.eye(2, 3, dtype=np.float32), (2, 1, 1))
    grid = run_operator(AffineGrid, [theta, np.array([2, 3, 4, 5])])[0]
    compare(run_operator(GridSample, [x, grid])[0], x, tolerance=1e-5)


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


def sizes_fact(*sizes):
    return TensorFact(DType.INT64, (len(sizes),), sizes)


IMAGE = fact(1, 2, 4, 6)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([IMAGE], {}, "both missing", id="nothing"),
        pytest.param([IMAGE, None, fact(4), sizes_fact(1, 2, 3, 4)], {}, "both set", id="both"),
        pytest.param([IMAGE, None, scales_fact(1, 2)], {}, "2 entries for 4 axes", id="too few scales"),
        pytest.param([IMAGE, None, None, sizes_fact(1)], {"axes": (2, 3)}, "1 entries for 2 axes", id="too few sizes"),
        pytest.param([IMAGE, None, scales_fact(1, 1, 0, 1)], {}, "a scale is 0", id="scale 0"),
        pytest.param([IMAGE, None, scales_fact(1, 1, float("inf"), 1)], {}, "a scale is inf", id="no number"),
        pytest.param(
            [fact(1, 2, "H", 6), None, scales_fact(1, 1, float("inf"), 1)], {}, "is inf", id="of an open length"
        ),
        pytest.param([IMAGE, None, scales_fact(1, 1, 3e38, 1)], {}, "exceeds the range of float32", id="past float32"),
        pytest.param([IMAGE, None, fact(4)], {"mode": "quadratic"}, "mode is", id="mode"),
        pytest.param([IMAGE, None, fact(4)], {"nearest_mode": "round"}, "nearest_mode is", id="nearest_mode"),
        pytest.param([IMAGE, None, fact(4)], {"coordinate_transformation_mode": "x"}, "_mode is", id="coordinates"),
        pytest.param(
            [IMAGE, None, fact(4)], {"coordinate_transformation_mode": "tf_crop_and_resize"}, "without roi", id="roi"
        ),
        pytest.param([IMAGE, None, fact(4)], {"axes": (4,)}, "outside", id="axis"),
    ],
)
def test_resizing_refuses(operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(Resize, operands, attributes, 1)


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(GridSample, [IMAGE, fact(1, 3, 2)], {}, "grid has rank 3", id="ranks"),
        pytest.param(GridSample, [IMAGE, fact(1, 3, 4, 3)], {}, "numbers of a place", id="place"),
        pytest.param(GridSample, [IMAGE, fact(2, 3, 4, 2)], {}, "batch", id="batch"),
        pytest.param(GridSample, [IMAGE, fact(1, 3, 4, 2)], {"padding_mode": "wrap"}, "padding_mode", id="padding"),
        pytest.param(GridSample, [IMAGE, fact(1, 3, 4, 2)], {"mode": "bilinear"}, "mode is", id="mode"),
        pytest.param(AffineGrid, [fact(1, 2, 3), sizes_fact(1, 3, 4)], {}, "size has 3", id="size"),
        pytest.param(AffineGrid, [fact(1, 2, 2), sizes_fact(1, 3, 4, 4)], {}, "columns of theta", id="theta"),
        pytest.param(AffineGrid, [fact(2, 3), sizes_fact(1, 3, 4, 4)], {}, "theta has rank 2", id="theta's rank"),
    ],
)
def test_sampling_refuses(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)
