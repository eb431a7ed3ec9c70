"""Write `words.json`: a document for each operator of tract's registries, and tract's results.

python -m tests.formats.nnef.tract.make_words    needs tract 0.23.9; each document runs in a separate process
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

REGISTRIES = ("core", "onnx", "pulse", "extra", "transformers")
WORDS = Path(__file__).with_name("words.json")
DATA = {"f4": "f32", "f2": "f16", "i8": "i64", "i4": "i32", "u1": "u8"}
QUERY = "q: 1,2,3,4; k: 1,2,5,4; v: 1,2,5,4"

DOCUMENTS = {
    # name: (inputs "name: shape [type]; …", statements that make y, y1, …)
    "recip": ("x: 2,3", "y = recip(x);"),
    "square": ("x: 2,3", "y = square(x);"),
    "shl": ("x: 4 i64", "y = tract_shl(x, [1, 2, 3, 0]);"),
    "shr": ("x: 4 i64", "y = tract_shr(x, [1, 2, 3, 0]);"),
    "shifts_of_bytes": ("x: 4 u8; z: 4 u8", "y = tract_shl(x, z); y1 = tract_shr(x, z);"),
    "shifts_of_words": ("x: 4 i32; z: 4 u8", "y = tract_shl(x, tract_core_cast(z, to = 'i32')); y1 = tract_shr(x, [1, 2, 3, 0]);"),
    "reals_of_integers": ("x: 8 i32", "y = sqrt(x); y1 = exp(x); y2 = log(x); y3 = recip(x); y4 = square(x); y5 = rsqrt(x); y6 = sinh(x); y7 = atan(x);"),
    "reals_of_bytes": ("x: 8 u8", "y = sqrt(x); y1 = exp(x); y2 = log(x); y3 = recip(x); y4 = sqr(x); y5 = sinh(x); y6 = cosh(x); y7 = asinh(x);"),
    "whole_integers": ("x: 4 i64", "y = floor(x); y1 = ceil(x); y2 = round(x);"),
    "bits_of_truths": (
        "x: 6; z: 6",
        "p = x > 0.0; q = z > 0.0; y = tract_core_bitand(p, q); y1 = tract_core_bitor(p, q); y2 = tract_core_bitxor(p, q);",
    ),
    "batch_normalization_of_the_standard": (
        "x: 1,2,4,4",
        "y = batch_normalization(x, [[[[0.1]], [[-0.2]]]], [[[[0.5]], [[2.0]]]], [[[[0.3]], [[0.4]]]], [[[[1.5]], [[0.7]]]], epsilon = 0.001);",
    ),
    "truths_of_the_standard": (
        "x: 1,2,4,4; z: 1,2,4,4",
        "p = gt(x, z); y = any_reduce(p, axes = [1]); y1 = all_reduce(p, axes = [3]); y2 = and(p, x < 0.5); y3 = select(p, x, mul(z, 2.0));",
    ),
    "functions_of_the_standard": ("x: 1,2,4,4", "y = sum_reduce(x, axes = [2, 3]); y1 = exp(x); y2 = log(y1 + 0.5);"),
    "avg_pool_of_the_standard": (
        "x: 1,2,4,4",
        "y = avg_pool(x, size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0), (0,0), (0,0), (0,0)], dilation = [1,1,1,1], border = 'ignore');",
    ),
    "slice_of_the_standard": ("x: 1,2,4,4", "y = slice(x, axes = [2, 3], begin = [1, 0], end = [3, 4], stride = [1, 2]);"),
    "prelu_of_the_standard": ("x: 3,2", "y = prelu(x, [[0.5, 0.25]]);"),
    "round": ("x: 9 halves", "y = round(x);"),
    "round_even": ("x: 9 halves", "y = tract_core_round_even(x);"),
    "erf": ("x: 3,4", "y = tract_core_erf(x);"),
    "hard_swish": ("x: 3,4", "y = tract_core_hard_swish(x * 4.0);"),
    "silu": ("x: 3,4", "y = tract_core_silu(x); y1 = tract_transformers_silu(x);"),
    "is_nan": ("x: 3", "y = tract_core_is_nan(x);"),
    "is_inf": ("x: 3", "y = tract_core_is_inf(x / 0.0);"),
    "is_inf_one": ("x: 6", "y = tract_core_is_inf(x / 0.0, detect_positive = true, detect_negative = false);"),
    "bitnot": ("x: 4 i64", "y = tract_core_bitnot(x);"),
    "bitnot_bool": ("x: 4", "y = tract_core_bitnot(x > 0.0);"),
    "xor": ("x: 6", "y = tract_core_xor(x > 0.0, x < 0.5);"),
    "bits": ("x: 4 i64; z: 4 i64", "y = tract_core_bitand(x, z); y1 = tract_core_bitor(x, z); y2 = tract_core_bitxor(x, z);"),
    "pow_const": ("x: 2,3", "y = tract_core_pow_const(abs(x), exponent = 1.5);"),
    "gelu_approx": ("x: 3,4", "y = tract_core_gelu_approx(x, fast_impl = false); y1 = tract_transformers_gelu_approx(x, fast_impl = true);"),
    "clamped_swiglu": ("x: 3,4; z: 3,4", "y = tract_core_clamped_swiglu(x * 3.0, z * 3.0, alpha = 1.7, limit = 2.0);"),
    "cast_i32": ("x: 9 halves", "y = tract_core_cast(x, to = 'i32');"),
    "cast_u8": ("x: 9 halves", "y = tract_core_cast(x * 100.0, to = 'u8');"),
    "cast_far": ("x: 9 halves", "y = tract_core_cast(x * 1e10, to = 'i32'); y1 = tract_core_cast(x * 1e10, to = 'u32'); y2 = tract_core_cast(x * 1e10, to = 'i16'); y3 = tract_core_cast(x * 1e10, to = 'u64');"),
    "cast_bool": ("x: 3 i64", "y = tract_core_cast(x, to = 'bool');"),
    "cast_f64": ("x: 3", "y = tract_core_cast(x, to = 'f64');"),
    "broadcast": ("x: 1,3,1", "y = tract_core_broadcast(x, shape = [2, 3, 4]);"),
    "shape_of": ("x: 2,3,4", "y = tract_core_cast(tract_core_shape_of(x), to = 'i64');"),
    "range": ("x: 3", "y = tract_core_cast(tract_core_range(1, 9, 3), to = 'i64') + tract_core_cast(x * 0.0, to = 'i64');"),
    "range_real": ("x: 5", "y = x + tract_core_range(0.0, 2.5, 0.5);"),
    "gather": ("x: 4,3; i: 2,2 at4", "y = tract_core_gather(x, i, axis = 0);"),
    "gather_negative": ("x: 4,3", "y = tract_core_gather(x, [-1, 0, 2], axis = 1);"),
    "gather_elements": ("x: 4,3; i: 2,3 at4", "y = tract_core_gather_elements(x, i, axis = 0);"),
    "gather_nd": ("x: 3,4,2; i: 5,2 at3", "y = tract_core_gather_nd(x, i, batch_dims = 0);"),
    "gather_nd_batch": ("x: 3,4,2; i: 3,1 at4", "y = tract_core_gather_nd(x, i, batch_dims = 1);"),
    "scatter_elements": ("x: 4,3; i: 2,3 at4; u: 2,3", "y = tract_core_scatter_elements(x, i, u, axis = 0, reduction = 'add');"),
    "scatter_elements_none": ("x: 4,3; u: 1,3", "y = tract_core_scatter_elements(x, [[1, 3, 0]], u, axis = 0);"),
    "scatter_nd": ("x: 4,3; u: 2,3", "y = tract_core_scatter_nd(x, [[1], [3]], u);"),
    "scatter_nd_max": ("x: 4,3; u: 2,3", "y = tract_core_scatter_nd(x, [[1], [1]], u, reduction = 'max');"),
    "one_hot": ("x: 5 at4", "y = tract_core_one_hot(x, axis = 0, dim = 4, value_off = -1.0, value_on = 2.0);"),
    "topk": ("x: 3,6", "(y, y1) = tract_core_topk(x, k = 2, axis = 1, largest = true);"),
    "topk_least": ("x: 6,2", "(y, y1) = tract_core_topk(x, k = 3, axis = 0, largest = false);"),
    "trilu": ("x: 4,5", "y = tract_core_trilu(x, k = 1, upper = true); y1 = tract_core_trilu(x, k = 0, upper = false);"),
    "cumsum": ("x: 3,4", "y = tract_core_cumsum(x, axis = 1, exclusive = false, reverse = false); y1 = tract_core_cumsum(x, axis = 0, exclusive = true, reverse = true);"),
    "arg_last": ("x: 3,4", "y = tract_core_argmax_reduce_last(floor(x), axes = [1]); y1 = tract_core_argmin_reduce_last(floor(x), axes = [0]);"),
    "arg_first": ("x: 3,4", "y = argmax_reduce(floor(x), axes = [1]); y1 = argmin_reduce(floor(x), axes = [0]);"),
    "product": ("x: 3,4", "y = tract_core_product_reduce(x, axes = [1]);"),
    "softmaxes": ("x: 3,4", "y = tract_core_softmax(x, axes = [1]); y1 = tract_core_log_softmax(x, axes = [0]);"),
    "softmax_two": ("x: 2,3,4", "y = tract_core_softmax(x, axes = [0, 2]);"),
    "rms_norm": ("x: 3,4", "y = tract_core_rms_norm(x, axis = 1, eps = 0.01); y1 = tract_transformers_rms_norm(x, axis = 0);"),
    "scaled_rms": ("x: 3,4", "y = tract_core_scaled_rms_norm(x, [1.0, 2.0, 3.0, 4.0], axis = 1, eps = 0.01);"),
    "einsum": ("x: 2,3,4; z: 2,4,5", "y = tract_core_einsum([x, z], expr = 'bik,bkj->bij', acc = 'f32', output = '');"),
    "einsum_one": ("x: 2,3,4", "y = tract_core_einsum([x], expr = 'abc->ca', acc = 'f32');"),
    "einsum_growing": ("x: 1,3,4; z: 2,4,5", "y = tract_core_einsum([x, z], expr = 'bik,bkj->ibj', acc = 'f32');"),
    "resize_nearest": ("x: 1,2,3,4", "y = tract_core_resize(x, sizes = [1, 2, 5, 7], coord_transformer = 'asymmetric', interpolator = 'nearest', nearest_mode = 'floor');"),
    "resize_linear": ("x: 1,1,3,4", "y = tract_core_resize(x, scales = [1.0, 1.0, 2.0, 1.5], coord_transformer = 'align_corners', interpolator = 'linear');"),
    "resize_cubic": ("x: 1,1,4,4", "y = tract_core_resize(x, scales = [1.0, 1.0, 2.0, 2.0], coord_transformer = 'half_pixel', interpolator = 'cubic');"),
    "resize_ceil": ("x: 1,1,3,4", "y = tract_core_resize(x, scales = [1.0, 1.0, 2.0, 2.0], interpolator = 'nearest', nearest_mode = 'round_prefer_ceil');"),
    "resize_pytorch": ("x: 1,1,3,4", "y = tract_core_resize(x, sizes = [1, 1, 1, 6], coord_transformer = 'pytorch_half_pixel', interpolator = 'linear');"),
    "resize_onnx": ("x: 1,1,3,4", "y = tract_onnx_resize(x, [1.0, 1.0, 2.0, 2.0], coord_transformer = 'half_pixel', interpolator = 'linear', nearest_mode = 'floor');"),
    "grid_sample": ("x: 1,2,4,4; g: 1,3,3,2", "y = tract_core_grid_sample(x, g, mode = 'bilinear', padding_mode = 'zeros', align_corners = false);"),
    "grid_nearest": ("x: 1,2,4,4; g: 1,3,3,2", "y = tract_core_grid_sample(x, g, mode = 'nearest', padding_mode = 'border', align_corners = true);"),
    "downsample": ("x: 7,2", "y = tract_core_downsample(x, axis = 0, stride = 3, modulo = 1); y1 = tract_core_downsample(x, axis = 0, stride = -1);"),
    "dyn_slice": ("x: 6,2", "y = tract_core_dyn_slice(x, 1, 4, len = 3, axis = 0);"),
    "fft": ("x: 2,8,2", "y = tract_core_fft(x, axis = 1, inverse = false); y1 = tract_core_fft(x, axis = 1, inverse = true);"),
    "stft": ("x: 1,16,2", "y = tract_core_stft(x, axis = 1, frame = 8, stride = 4);"),
    "stft_window": ("x: 1,16,2", "y = tract_core_stft(x, axis = 1, frame = 8, stride = 4, window = [0.5, 1.0, 1.0, 0.5]);"),
    "lstm_epilogue": ("x: 2,12; c: 2,3", "(y, y1) = tract_core_lstm_epilogue(x, c, hidden = 3);"),
    "gru_epilogue": ("x: 2,9; r: 2,9; h: 2,3", "y = tract_core_gru_epilogue(x, r, h, hidden = 3);"),
    "nearest_upsample": ("x: 1,2,2,3", "y = nearest_upsample(x, factor = [2, 3]);"),
    "multilinear": ("x: 1,1,3,3", "y = multilinear_upsample(x, factor = [2, 2], method = 'symmetric', border = 'replicate'); y1 = multilinear_upsample(x, factor = [2, 2], method = 'aligned', border = 'replicate'); y2 = multilinear_upsample(x, factor = [2, 2], method = 'asymmetric', border = 'replicate');"),
    "sdpa": (QUERY, "y = tract_transformers_sdpa(q, k, v, datum_type = 'f32', acc_datum_type = 'f32', is_causal = false);"),
    "sdpa_causal": (QUERY, "y = tract_transformers_sdpa(q, k, v, datum_type = 'f32', acc_datum_type = 'f32', is_causal = true);"),
    "sdpa_masked": (QUERY + "; m: 1,1,3,5", "y = tract_transformers_sdpa(q, k, v, m, scale = 0.3, datum_type = 'f32', acc_datum_type = 'f32', is_causal = false);"),
    "sdpa_grouped": ("q: 1,4,3,4; k: 1,2,5,4; v: 1,2,5,4", "y = tract_transformers_sdpa(q, k, v, datum_type = 'f32', acc_datum_type = 'f32', is_causal = false);"),
    "rope": ("x: 1,2,3,4; c: 1,1,3,4; s: 1,1,3,4", "y = tract_transformers_apply_rope(x, c, s);"),
    "masked_softmax": ("x: 1,2,3,4; m: 1,1,3,4", "y = tract_transformers_scaled_masked_softmax(x, m, scale = 0.5);"),
    "lrn": ("x: 1,5,2,2", "y = tract_onnx_lrn(x, alpha = 0.3, beta = 0.75, bias = 1.0, size = 3);"),
    "exp_unit_norm": ("x: 1,5,3", "y = tract_extra_exp_unit_norm(x, [[0.5, 0.5, 0.5]], axis = 1, alpha = 0.9, stateless = true);"),
    "exp_mean_norm": ("x: 1,5,3", "y = tract_extra_exp_mean_norm(x, [[0.5, 0.5, 0.5]], axis = 1, alpha = 0.9, stateless = true, scaling_factor = 2.0);"),
    "window_sdpa": ("q: 1,2,3,4; k: 1,2,7,4; v: 1,2,7,4", "y = tract_transformers_window_kv_sdpa(q, k, v, axis = 2, window = 4, scale = 0.5);"),
    "gated_delta": (
        "q: 1,3,2,4; k: 1,3,2,4; v: 1,3,2,4; g: 1,3,2; b: 1,3,2; s: 1,2,4,4",
        "(y, y1) = tract_transformers_gdn_recurrent(q, k, v, g, b, s);",
    ),
    "causal_convolution": ("x: 1,6,2 f16; w: 6,4 f16; s: 1,6,4 f16", "(y, y1) = tract_transformers_causal_conv1d_update(x, w, s);"),
    "non_max_suppression": (
        "x: 1,6,4; z: 1,2,6",
        "n = tract_core_cast(3, to = 'i64'); y = tract_onnx_non_max_suppression(x, z, max_output_boxes_per_class = n, iou_threshold = 0.5, score_threshold = 0.2, center_point_box = 1);",
    ),
    "non_zero": ("x: 2,3", "y = tract_onnx_non_zero(floor(x), count_symbol = 'N');"),
    "grid_sample_onnx": ("x: 1,1,4,4; g: 1,2,2,2", "y = tract_onnx_grid_sample(x, g, mode = 'bilinear', padding_mode = 'zeros', align_corners = false);"),
    "einsum_q": ("x: 2,3", "a = tract_core_cast(x * 50.0, to = 'i8'); w = tract_core_cast([[10.0, 20.0], [30.0, -40.0], [5.0, 6.0]], to = 'i8'); z = tract_core_cast(0, to = 'i32'); y = tract_core_cast(tract_core_einsum_q([a, w], expr = 'ik,kj,,,,,,,->ij', acc = 'i32', output = 'i32', bias = tract_core_cast(7, to = 'i32'), a0 = tract_core_cast(1, to = 'i32'), a_scale = 1.0, b0 = tract_core_cast(2, to = 'i32'), b_scale = 1.0, c0 = z, c_scale = 1.0), to = 'i64');"),
    # stateful operators, whose run equals that of the first pulse
    "qconv": ("x: 1,2,3,3 u8", "y = tract_core_cast(tract_core_qconv(x, tract_core_cast([[[[3, -7], [5, 1]], [[2, 2], [-9, 4]]]], to = 'i8'), tract_core_cast([11], to = 'i32'), stride = [1, 1], dilation = [1, 1], groups = 1, border = 'constant', padding = [(1, 0), (0, 1)], a0 = tract_core_cast(1, to = 'i32'), a_scale = 0.25, b0 = tract_core_cast(9, to = 'i32'), b_scale = 0.5, c0 = tract_core_cast(20, to = 'i32'), c_scale = 4.0, output_dt = 'u8'), to = 'i64');"),
    "quantized_sdpa": ("q: 1,2,3,8; k: 1,2,5,8; v: 1,2,5,8", "y = tract_transformers_quantized_kv_sdpa(q, k, v, axis = 2, scale = 0.5);"),
    "quantized_sdpa_far": ("q: 1,2,3,8; k: 1,2,5,8; v: 1,2,5,8", "y = tract_transformers_quantized_kv_sdpa(q, k * 90.0, v, axis = 2, scale = 0.01);"),
    "kv_cache": ("x: 1,2,3,4", "y = tract_transformers_dyn_kv_cache(x, name = 'past', axis = 2, datum_type = 'f32', past_sequence_shape = [1, 2, P, 4], input_sequence_shape = [1, 2, 3, 4]);"),
    "quantized_cache": ("x: 1,2,3,4", "y = tract_transformers_quantized_dyn_kv_cache(x, name = 'past', axis = 2, datum_type = 'f32', past_sequence_shape = [1, 2, P, 4], input_sequence_shape = [1, 2, 3, 4], bits = 8, per_channel = 0);"),
    "gru_seq": ("x: 2,5,3; w: 6,3; r: 6,2; h: 2,1,2", "(y, y1) = tract_core_gru_seq(x, w, r, [[0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8, 0.9, 0.2, 0.1, -0.3]], h, hidden = 2, chunk = 1, has_bias = 1, reset_every_turn = 0, emit_y = 1, projected = 0);"),
    "pulse_delay": ("x: 1,6,2", "y = tract_pulse_delay(x, axis = 1, delay = 2, overlap = 0); y1 = tract_pulse_delay(x, axis = 1, delay = 0, overlap = 2); y2 = tract_pulse_delay(x, axis = 1, delay = 2, overlap = 1);"),
    "pulse_mask": ("x: 1,6,2", "y = tract_pulse_mask(x, axis = 1, begin = 1, end = 3, value = 9.0);"),
    "pulse_pad": ("x: 1,6,2", "y = tract_pulse_pulse_pad(x, axis = 1, before = 1, after = 2, begin_input = 1, end_input = 4, border = 'constant', value = 7.0, overlap = 0); y1 = tract_pulse_pulse_pad(x, axis = 1, before = 1, after = 1, begin_input = 1, end_input = 4, border = 'replicated', value = 0.0, overlap = 0);"),
    "pulse_cumsum": ("x: 1,6,2", "y = tract_pulse_cumsum(x, axis = 1, exclusive = false, skip = 2); y1 = tract_pulse_cumsum(x, axis = 1, exclusive = true, skip = 1);"),
    "unit_norm_of_pairs": ("x: 1,5,3,2", "y = tract_extra_exp_unit_norm(x, [[0.5, 0.5, 0.5]], axis = 1, alpha = 0.9, complex = true, stateless = true);"),
    # a table with 32-bit indices; and properties of random results that hold for each draw
    "direct_lookup": ("x: 8 i32", "v = tract_core_cast([10, 20, 30, 40, 50], to = 'i64'); z = tract_core_cast(7, to = 'i64'); y = tract_onnx_ml_direct_lookup(x, v, z);"),
    "multinomial": ("x: 2,3", "y = tract_onnx_multinomial(x * 40.0, dtype = 6, sample_size = 4);"),
    "random_uniform": ("x: 2,2", "r = tract_onnx_random('f32', [1, 20000], 'uniform', [1.0, 3.0]); m = mean_reduce(r, axes = [0, 1]); y = round(m * 4.0) + x * 0.0; y1 = round(sqrt(mean_reduce(sqr(r - m), axes = [0, 1])) * 10.0); y2 = round(min_reduce(r, axes = [0, 1]) * 10.0); y3 = round(max_reduce(r, axes = [0, 1]) * 10.0);"),
    "random_normal": ("x: 2,2", "r = tract_onnx_random('f32', [1, 20000], 'normal', [1.0, 2.0]); m = mean_reduce(r, axes = [0, 1]); y = round(m) + x * 0.0; y1 = round(sqrt(mean_reduce(sqr(r - m), axes = [0, 1])) * 4.0);"),
    # liberties of the grammar
    "overlooked": ("x: 2,3", "y = sigmoid(x, axes = [1]); y1 = softmax(x, [1], 3, beta = 4);"),
    "positional": ("x: 2,3", "y = leaky_relu(x, 0.2); y1 = softmax(x, [1]);"),
    "one_for_many": ("x: 2,3", "y = softmax(x, axes = 1); y1 = reshape(x, shape = 6);"),
    "arrays_for_tuples": ("x: 1,3", "y = pad(x, padding = [[0, 0], [1, 2]], border = 'constant');"),
    "brackets": ("x: 2,3", "[a, b] = unstack(x, axis = 0); (c, d) = unstack(x, axis = 0); e, f = unstack(x, axis = 0); y = a + d + e;"),
    "array_constant": ("x: 2,1", "c = [[0.5, 0.25]]; y = x + c;"),
    "escaped_names": ("x: 2,3", 'i"odd name/1" = relu(x); y = i"odd name/1" + 1.0;'),
    "subscript": ("x: 2,3", "s = tract_core_shape_of(x); y = reshape(x, shape = [s[1], s[0]]);"),
    "wires": ("x: 2,3", "s = tract_core_shape_of(x); n = squeeze(slice(s, axes = [0], begin = [1], end = [2]), axes = [0]); y = reshape(x, shape = [n, -1]); y1 = slice(x, axes = [1], begin = [n - 2], end = [n]); y2 = tile(x, repeats = [n, 1]);"),
    "slices": ("x: 2,7", "y = slice(x, axes = [1], begin = [-3], end = [7]); y1 = slice(x, axes = [1], begin = [0], end = [7], stride = [3]);"),
    "integers": ("x: 4 i64", "y = tract_core_cast(x * 3 - x / 2, to = 'i64'); y1 = tract_core_cast(max(x, 0), to = 'i64');"),
    "mixed_types": ("x: 4 i64", "y = x + 1.5;"),
    "precedence": ("x: 2,3", "y = 1.0 - x * 2.0 + x ^ 2.0 / 4.0 - 3.0;"),
    "left_aligned": ("x: 2,3", "y = x + [1.0, 2.0];"),
    "generic_call": ("x: 2,3", "y = copy<scalar>(x);"),
    "concat_types": ("x: 2,3", "y = concat([x, [[1, 2, 3]]], axis = 0);"),
    # slices of more than one entry
    "scan_of_pairs": (
        "x: 6,3; z: 1,3",
        "(y, y1) = tract_core_scan(body = 'pair', scan = [('a', x, 0, 2)], full = [], state = [('s', z, 't')], output = [('o', 'full', 0, 2), ('t', 'last', 0, 1)], skip = 0, reset_every_turn = false, external_state = false);",
    ),
    # operators of the standard with a different meaning in tract
    "stack": ("x: 2,3; z: 2,3", "y = stack([x, z, x], axis = 1); y1 = stack([x], axis = 0); y2 = stack([x, z], axis = 2);"),
    "local_means": (
        "x: 1,3,5,6",
        "y = local_mean_normalization(x, size = [1, 1, 3, 3]); y1 = local_mean_normalization(x, size = [1, 3, 3, 2]); y2 = local_variance_normalization(x, size = [1, 1, 3, 3], bias = 0.5, epsilon = 0.25); y3 = local_contrast_normalization(x, size = [1, 1, 5, 3]); y4 = local_contrast_normalization(x, size = [1, 1, 3, 3], bias = 0.5, epsilon = 0.25);",
    ),
    "rms_pool": (
        "x: 1,3,5,6",
        "y = rms_pool(x, size = [1, 1, 3, 2], stride = [1, 1, 2, 1], padding = [(0, 0), (0, 0), (1, 1), (0, 1)]); y1 = rms_pool(x, size = [1, 1, 3, 2], border = 'ignore');",
    ),
    "deconv": ("x: 1,2,4", "y = deconv(x, [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[1.0, 0.0], [0.0, 1.0]]], stride = [2], padding = [(0, 0)]);"),
    "deconv_groups": ("x: 1,4,3", "y = deconv(x, [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]], [[1.0, 0.0], [0.0, 1.0]], [[2.0, 2.0], [3.0, 1.0]]], stride = [1], padding = [(0, 0)], groups = 2);"),
    "box_channels": ("x: 1,3,4,4", "y = box(x, size = [1, 3, 2, 2], padding = [(0,0),(1,1),(0,0),(0,0)], normalize = true);"),
    "max_pool_constant": ("x: 1,1,4,4", "y = max_pool(x - 9.0, size = [1, 1, 3, 3], padding = [(0,0),(0,0),(1,1),(1,1)], border = 'constant');"),
    "max_pool_index": ("x: 1,2,4,4", "(y, y1) = max_pool_with_index(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [(0,0),(0,0),(0,0),(0,0)], border = 'ignore');"),
    "pads": ("x: 1,4", "y = pad(x, padding = [(0, 0), (2, 1)], border = 'reflect'); y1 = pad(x, padding = [(0, 0), (2, 1)], border = 'replicated');"),
    "elu": ("x: 2,3", "y = elu(x);"),
    "lrn_channels": ("x: 1,4,3,3", "y = local_response_normalization(x, size = [1, 3, 1, 1], alpha = 0.5, beta = 0.75, bias = 1.0);"),
}  # fmt: skip

FRAGMENTS = {
    "scan_of_pairs": "fragment pair( s: tensor<scalar>, a: tensor<scalar> ) -> ( t: tensor<scalar>, o: tensor<scalar> )\n"
    "{\n    p = sum_reduce(a, axes = [0]);\n    t = s + p;\n    o = a * t;\n}\n\n"
}


def arrays(inputs: str) -> dict[str, np.ndarray]:
    """Return reproducible inputs of a document."""
    found = {}
    for place, part in enumerate(inputs.split("; ")):
        name, _, rest = part.partition(": ")
        shape, _, kind = rest.partition(" ")
        extents = tuple(map(int, shape.split(",")))
        random = np.random.default_rng([place, *extents])
        match kind:
            case "i64":
                found[name] = random.integers(-6, 7, extents)
            case "i32":
                found[name] = np.resize(np.array([-3, 0, 1, 4, 9, -1, 2, 100], np.int32), extents)
            case "u8":
                found[name] = np.resize(np.array([200, 0, 1, 4, 9, 17, 2, 100], np.uint8), extents)
            case "f16":
                found[name] = random.normal(size=extents).astype(np.float16)
            case "halves":
                found[name] = np.resize(
                    np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, -0.6, 1.2], np.float32), extents
                )
            case _ if kind.startswith("at"):
                found[name] = random.integers(0, int(kind[2:]), extents)
            case _:
                found[name] = random.normal(size=extents).astype(np.float32)
    return found


def document(inputs: str, statements: str, fragments: str = "") -> str:
    """The whole text."""
    given = arrays(inputs)
    lines = [
        f"    {name} = tract_core_external(shape = {list(array.shape)}, datum_type = '{DATA[array.dtype.str[1:]]}');"
        for name, array in given.items()
    ]
    outputs = [
        f"y{n or ''}"
        for n in range(9)
        if f"y{n or ''} =" in statements or f"y{n or ''}," in statements or f"y{n or ''})" in statements
    ]
    head = "".join(f"extension tract_registry tract_{name};\n" for name in REGISTRIES)
    head += "extension tract_symbol P;\n" if "P," in statements else ""
    body = "".join(f"    {line}\n" for line in [*lines, statements])
    return f"version 1.0;\n{head}{fragments}graph g({', '.join(given)}) -> ({', '.join(outputs)})\n{{\n{body}}}\n"


def _computed(text: str, given: list[Any], queue) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    import tract

    framework = tract.nnef().with_onnx().with_pulse().with_tract_extra().with_tract_transformers()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "graph.nnef").write_text(text)
        try:
            model = framework.load(folder).into_runnable()
            queue.put([tensor.to_numpy().tolist() for tensor in model.run(given)])
        except Exception as error:  # noqa: BLE001  any exception of tract
            queue.put(str(error).split("Stack backtrace", maxsplit=1)[0][-300:])


def main() -> None:
    context = multiprocessing.get_context("fork")
    found = {}
    for name, (inputs, statements) in DOCUMENTS.items():
        queue = context.Queue()
        text = document(inputs, statements, FRAGMENTS.get(name, ""))
        child = context.Process(target=_computed, args=(text, list(arrays(inputs).values()), queue))
        child.start()
        child.join(60)
        answer = queue.get(timeout=1) if not queue.empty() else f"ended with {child.exitcode}"
        if isinstance(answer, str):
            print(name, answer, file=sys.stderr)  # noqa: T201
        else:
            found[name] = {
                "text": text,
                "inputs": {k: v.tolist() for k, v in arrays(inputs).items()},
                "outputs": answer,
            }
    WORDS.write_text(json.dumps(found, allow_nan=True).replace('}, "', '},\n"') + "\n")


if __name__ == "__main__":
    main()
