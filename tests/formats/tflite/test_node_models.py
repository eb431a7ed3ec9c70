"""ONNX's node tests as TFLite files, in LiteRT: training updates compute ONNX's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.conformance.onnx.nodes import cases
from tests.draws import spread
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = (
    *("abs", "acos", "acosh_example", "add", "add_uint8", "and3d", "argmax_keepdims_example_select_last_index"),
    *("argmin_default_axis_example", "asinh", "atanh", "attention_3d", "attention_4d_causal", "attention_4d_fp16"),
    *("attention_24_qk_matmul_output_mode3_softmax_precision", "averagepool_2d_pads", "batchnorm_example"),
    *("cast_FLOAT_to_FLOAT16", "ceil", "clip_default_int8_inbounds", "compress_0", "compress_1"),
    *("constant_pad", "conv_with_strides_padding", "convtranspose_pads", "cumsum_1d", "cumsum_1d_reverse_exclusive"),
    *("depthtospace_crd_mode_example", "div_int8", "edge_pad", "equal_uint8", "erf", "expand_dim_changed"),
    *("gather_elements_negative_indices", "gathernd_example_int32_batch_dim1", "gelu_default_1", "greater_int8"),
    *("group_normalization_example", "gru_defaults", "layer_normalization_4d_axis_negative_1", "less_equal_uint32"),
    *("lstm_defaults", "matmul_4d", "max_float16", "max_float64", "max_int8", "mod_mixed_sign_int16"),
    *("mod_uint32", "mul_int16", "onehot_negative_indices", "onehot_with_negative_axis", "pow_types_float32_int64"),
    *(
        "reduce_l2_do_not_keepdims_example",
        "reduce_log_sum_exp_default_axes_keepdims_example",
        "reduce_max_bool_inputs",
    ),
    *("reduce_sum_empty_axes_input_noop", "reflect_pad", "reshape_negative_dim", "reshape_zero_dim", "rnn_seq_length"),
    *("scatter_elements_with_axis", "scatter_elements_with_duplicate_indices", "scatternd_max", "slice", "slice_neg"),
    *("slice_neg_steps", "slice_negative_axes", "slice_end_out_of_bounds", "split_variable_parts_2d_opset18"),
    *("squeeze_negative_axes", "sub_uint16", "top_k_negative_axis", "top_k_smallest"),
    *(
        "tril_neg",
        "triu_pos",
        "unique_not_sorted_without_axis",
        "unique_sorted_without_axis",
        "unsqueeze_unsorted_axes",
    ),
    *(
        "averagepool_2d_dilations",
        "averagepool_2d_same_lower",
        "averagepool_3d_dilations_small",
        "bitshift_left_uint16",
    ),
    *(
        "bitshift_right_uint32",
        "bitwise_and_ui8_bcast_4v3d",
        "bitwise_or_i32_2d",
        "bitwise_not_2d",
        "convinteger_with_padding",
    ),
    *("convtranspose_autopad_same", "convtranspose_dilations", "convtranspose_group_2", "convtranspose_output_shape"),
    *("dequantizelinear_axis", "dequantizelinear_blocked", "dropout_default_mask", "dynamicquantizelinear"),
    *("einsum_batch_matmul", "einsum_inner_prod", "einsum_sum", "eyelike_with_dtype", "hannwindow", "hardmax_axis_1"),
    *("if", "l1normalization_axis_last", "lppool_2d_same_upper", "matmulinteger", "maxpool_2d_dilations"),
    *("maxpool_2d_uint8", "maxpool_3d_dilations", "maxpool_with_argmax_2d_precomputed_strides"),
    *("maxpool_with_argmax_2d_precomputed_pads", "nonmaxsuppression_center_point_box_format"),
    *("nonmaxsuppression_iou_threshold_boundary", "nonmaxsuppression_two_classes", "qlinearconv"),
    *("qlinearmatmul_3D_uint8_float32", "quantizelinear", "quantizelinear_axis", "quantizelinear_blocked_symmetric"),
    *(
        "resize_downsample_scales_linear",
        "resize_upsample_scales_cubic",
        "resize_upsample_sizes_nearest_ceil_half_pixel",
    ),
    *("resize_downsample_scales_cubic_align_corners", "resize_upsample_scales_linear_half_pixel_symmetric"),
    *("where_long_example", "wrap_pad", "xor_bcast4v2d"),
    *("nllloss_NCd1d2_with_weight_reduction_sum_ii", "nllloss_NC", "nllloss_NCd1d2d3_none_no_weight_negative_ii"),
    *("sce_mean_weight_ii_log_prob", "sce_none", "sce_NCd1d2d3d4d5_mean_weight", "mvn", "det_2d", "det_nd"),
    *("gridsample", "gridsample_bicubic_align_corners_0_additional_1", "gridsample_reflection_padding"),
    *("gridsample_zeros_padding", "gridsample_border_padding", "gridsample_nearest"),
    "gridsample_volumetric_bilinear_align_corners_1",
    *("rotary_embedding_3d_input", "rotary_embedding_interleaved", "rotary_embedding_with_rotary_dim"),
    *("tensorscatter_circular", "tensorscatter_3d", "attention_4d_diff_heads_mask4d_padded_kv", "celu_expanded"),
    *("attention_4d_gqa_causal_nonpad_decode", "isinf_float16", "attention_local_window_gqa_rank4_mask"),
    "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "attention_causal_boolmask_nan_robustness",
    "attention_causal_boolmask_nan_robustness_expanded",
    "attention_4d_causal_nonpad_negative_offset_structural_empty_expanded",
    *("center_crop_pad_pad", "center_crop_pad_crop_negative_axes_hwc", "center_crop_pad_crop_axes_chw_expanded"),
    *("cumprod_2d_negative_axis", "cumprod_1d_int32_exclusive", "maxunpool_export_without_output_shape"),
    *("batchnorm_epsilon_training_mode", "reduce_max_empty_set", "reduce_log_sum_exp_empty_set", "add_uint64"),
    *("less_uint64", "greater_equal_uint64", "min_uint64", "equal_uint64", "bitwise_and_ui64_bcast_3v1d"),
    *("bitshift_left_uint64", "bitshift_left_int64", "bitshift_right_int8", "mod_float_edge_cases_fmod_0_float32"),
    *("mod_float16_mixed_sign_fmod_0", "celu_float16", "swiglu_alpha", "range_float16_type_positive_delta"),
    *("causal_conv_with_state_silu_fp16", "causal_conv_with_state_with_past_state"),
    *("slice_start_out_of_bounds", "split_zero_size_splits_opset18", "reduce_sum_empty_set_non_reduced_axis_zero"),
    *("linear_attention_gated_delta_gqa", "linear_attention_fp16", "flexattention_score_mod", "flexattention_gqa"),
    *("bitshift_right_uint64", "bitshift_right_int64", "div_uint64", "mod_uint64", "top_k_uint64"),
    *("pow_types_int64_int64", "pow_types_int64_float32", "pow_types_int32_float32", "roialign_mode_max", "loop11"),
    *("unique_sorted_with_axis", "unique_sorted_with_axis_3d", "unique_sorted_with_negative_axis"),
    *("einsum_batch_diagonal", "resize_tf_crop_and_resize", "resize_tf_crop_and_resize_extrapolation_value"),
    *("resize_tf_crop_and_resize_axes_3_2", "resize_downsample_scales_linear_antialias"),
    *("resize_downsample_sizes_cubic_antialias", "optional_get_element_tensor"),
    *("optional_has_element_empty_no_input_tensor_input", "optional_has_element_empty_no_input_name_optional_input"),
    *("adam_multiple", "adagrad", "nesterov_momentum", "spacetodepth_crd_mode_example"),
)
WITH_CONSTANTS = (
    *("col2im", "col2im_dilations", "col2im_pads", "col2im_strides", "col2im_5d", "cumprod_1d_reverse_exclusive"),
    *("cumprod_2d_axis_0", "affine_grid_2d_align_corners", "affine_grid_3d", "center_crop_pad_crop_and_pad"),
    *("center_crop_pad_crop_negative_axes_hwc", "pow_types_float32_uint64", "stft_with_window"),
    *("affine_grid_3d_expanded", "affine_grid_3d_align_corners_expanded"),
)
"""Those whose shapes and axes are stored, as they are in models."""
REFUSED = ("training_dropout_mask", "cast_FLOAT_to_FLOAT8E5M2", "string_concat")
"""A few of those for which LiteRT has no kernel."""


def test_a_written_node_computes_the_onnx_operator(tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    with LiteRT() as litert:
        for name in spread((*WRITTEN, *WITH_CONSTANTS)):
            case = cases()[f"test_{name}"]
            given, results = (
                [onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x) for x in each]
                for each in case.data_sets[0]
            )
            proto = onnx.ModelProto.FromString(case.model.SerializeToString())
            if name in WITH_CONSTANTS:
                told = {value.name: array for value, array in zip(proto.graph.input, given, strict=True)}
                ports = [value for value in proto.graph.input if told[value.name].dtype.kind == "f"]
                proto.graph.initializer.extend(
                    onnx.numpy_helper.from_array(array, key) for key, array in told.items() if array.dtype.kind != "f"
                )
                del proto.graph.input[:]
                proto.graph.input.extend(ports)
                given = [told[port.name] for port in ports]
            onnx.save(proto, tmp_path / "node.onnx")
            gp.save(gp.load(tmp_path / "node.onnx"), tmp_path / "node.tflite")
            found = litert(tmp_path / "node.tflite", given)
            if isinstance(found, str):
                wrong[name] = found
                continue
            for one, other in zip(found, results, strict=True):
                if one.dtype != other.dtype or one.shape != other.shape:
                    wrong[name] = f"{one.dtype}{one.shape} for {other.dtype}{other.shape}"
                    continue
                near = max(case.atol, 1e-3 if one.dtype == np.float16 else 1e-5)
                if not np.allclose(one, other, rtol=max(case.rtol, 1e-4), atol=near, equal_nan=True):
                    wrong[name] = "other numbers"
    assert wrong == {}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_without_kernel_are_refused(name: str, tmp_path: Path) -> None:
    onnx.save(cases()[f"test_{name}"].model, tmp_path / "node.onnx")
    with pytest.raises(DiagnosticError, match="tflite: unsupported operator"):
        gp.save(gp.load(tmp_path / "node.onnx"), tmp_path / "node.tflite")
