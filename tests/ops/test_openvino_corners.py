"""Edge cases of OpenVINO operators found by random models, compared with its plugin."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(21)


def reals(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("constants", [(1, 2), ()], ids=["constant", "run time"])
def test_stridedslice_shrink_with_masked_begin_selects_the_first_element(constants):
    operands = [reals(5, 4, 3, 2), np.array([-2, -2, 0, -3]), np.array([-1, 6, 3, 6])]
    flags = {"begin_mask": (0, 1, 1, 0), "end_mask": (0, 1, 0, 1), "new_axis_mask": (0, 0, 1, 0)}
    flags |= {"shrink_axis_mask": (1, 1, 0, 0)}
    # OpenVINO has this shape too, but reads past the data: its elements differ in every run.
    expected = [operands[0][3, 0][None]]
    check_word("opset1.StridedSlice", operands, constants=constants, expected=expected, **flags)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "uint8"])
@pytest.mark.parametrize("indices", [np.array(2), np.array([0, 3])], ids=["a number", "a vector"])
def test_onehot_supports_every_value_dtype(dtype, indices):
    ends = [np.array(1).astype(dtype), np.array(0).astype(dtype)]
    check_word("opset1.OneHot", [indices, np.array(4), *ends], constants=(1,), axis=-1)


@pytest.mark.parametrize("lengths", [(2, -1), (-1, 5), (0, 6)])
def test_an_open_length_of_a_split_at_run_time(lengths):
    check_word("opset1.VariadicSplit", [reals(2, 6), np.array(1), np.array(lengths)], constants=(1,), outputs=2)


def test_fakeconvert_rounds_ties_through_float16():
    x = np.array([[-2.033387, 1.3441505, 0.7]], np.float32)
    scale, shift = np.array(1.5, np.float32), np.array(0.2, np.float32)
    for dtype in (DType.FLOAT8E5M2, DType.FLOAT8E4M3FN):
        check_word("opset13.FakeConvert", [x, scale, shift], constants=(1, 2), destination_type=dtype)


@pytest.mark.parametrize("pads", [(0, 0), (1, 1)])
@pytest.mark.parametrize("op_type", ["opset1.DeformableConvolution", "opset8.DeformableConvolution"])
def test_deformable_convolution_clamps_coordinates_after_the_last_element(op_type, pads):
    places = 5 + 2 * pads[0]
    operands = [reals(1, 2, 6, 6), 2 * reals(1, 8, places, places), reals(3, 2, 2, 2)]
    flags = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": pads, "pads_end": pads}
    check_word(op_type, operands, tolerance=1e-4, **flags)


REGIONS = np.array([[0.5, 1, 5, 6], [2, 0, 7, 3.5]], np.float32)


@pytest.mark.parametrize("aligned", ["asymmetric", "half_pixel", "half_pixel_for_nn"])
@pytest.mark.parametrize("samples", [1, 2])
def test_the_largest_sample_of_a_region(samples, aligned):
    said = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": samples, "spatial_scale": 1.0, "mode": "max"}
    operands = [reals(2, 2, 8, 8), REGIONS, np.array([0, 1], np.int32)]
    check_word("opset9.ROIAlign", operands, tolerance=1e-4, aligned_mode=aligned, **said)


@pytest.mark.parametrize("shape", [(2, 3), (1, 1)])
def test_regions_between_entries(shape):
    rois = np.array([[0, 0.1, 0.1, 0.5, 0.6], [1, 0, 0.2, 0.7, 1.2]], np.float32)
    said = {"output_size": shape, "pooled_h": shape[0], "pooled_w": shape[1], "spatial_scale": 1.0}
    check_word("opset2.ROIPooling", [reals(2, 2, 7, 8), rois], tolerance=1e-4, method="bilinear", **said)


@pytest.mark.parametrize(("shape", "axes"), [((2, 4), [1]), ((2, 4, 3), [1]), ((2, 4, 5, 5), [2, 3])])
def test_responses_are_normalized_in_any_rank(shape, axes):
    flags = {"alpha": 0.5, "beta": 0.75, "bias": 1.0, "size": 3}
    check_word("opset1.LRN", [reals(*shape), np.array(axes)], constants=(1,), tolerance=1e-4, **flags)


def test_a_roll_along_axes_that_the_run_names():
    check_word("opset7.Roll", [reals(3, 4, 2), np.array([2, 5, -1]), np.array([-1, 1, -1])])


@pytest.mark.parametrize("mode", ["symmetric", "reflect", "edge"])
def test_pad_accepts_negative_pads(mode):
    ends = np.array([-1, 0, 2]), np.array([1, -2, -1])
    check_word("opset12.Pad", [reals(3, 4, 4), *ends], constants=(1, 2), pad_mode=mode)


@pytest.mark.parametrize("fill_mode", ["zero", "lowest"])
def test_rows_of_segments_that_are_not_requested(fill_mode):
    operands = [reals(4, 3), np.array([0, 2, 2, 3]), np.array(3)]
    check_word("opset16.SegmentMax", operands, constants=(1, 2), fill_mode=fill_mode)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels_are_shuffled_along_an_open_axis(axis):
    check_word("opset1.ShuffleChannels", [reals(4, 6, 2)], axis=axis, group=2, symbolic=True)


def test_a_choice_between_claims():
    sides = [RANDOM.random((3, 4)) < 0.5 for _ in range(3)]
    check_word("opset1.Select", sides)


def test_attention_supports_a_dynamic_head_size():
    check_word(
        "opset13.ScaledDotProductAttention",
        [reals(1, 2, 3, 4), reals(1, 2, 5, 4), reals(1, 2, 5, 3)],
        symbolic=True,
        tolerance=1e-5,
    )
