"""Messages of Caffe: names, numbers and types of fields, of the public format and of common forks.

Semantics and defaults are defined by the import rules of the layers.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

NET = "NetParameter"
LAYER = "LayerParameter"
V1_LAYER = "V1LayerParameter"
V0_LAYER = "V0LayerParameter"
BLOB = "BlobProto"
SHAPE = "BlobShape"
FILLER = "FillerParameter"
ENGINE = "Engine"
"""Enumeration of computing libraries; it does not affect the result."""

SCALARS = frozenset({"int32", "uint32", "int64", "bool", "float", "double", "string", "bytes"})


class Field(NamedTuple):
    """A field of a message; `type` names a scalar type, an enumeration or a message."""

    name: str
    number: int
    type: str
    is_repeated: bool = False
    is_packed: bool = False


# One line per message: `name number type`, with `*` after the type of a repeated field and `+` after a packed one. If a
# fork and the original use one number, the original's field is listed.
_MESSAGES: Mapping[str, str] = {
    SHAPE: "dim 1 int64+",
    BLOB: "num 1 int64, channels 2 int64, height 3 int64, width 4 int64, data 5 float+, diff 6 float+,"
    " shape 7 BlobShape, double_data 8 double+, double_diff 9 double+, raw_data_type 10 RawType,"
    " raw_diff_type 11 RawType, raw_data 12 bytes, raw_diff 13 bytes",
    NET: "name 1 string, layers 2 V1LayerParameter*, input 3 string*, input_dim 4 int64*, force_backward 5 bool,"
    " state 6 NetState, debug_info 7 bool, input_shape 8 BlobShape*, layer 100 LayerParameter*",
    "NetState": "phase 1 Phase, level 2 int64, stage 3 string*",
    "NetStateRule": "phase 1 Phase, min_level 2 int64, max_level 3 int64, stage 4 string*, not_stage 5 string*",
    "ParamSpec": "name 1 string, share_mode 2 DimCheckMode, lr_mult 3 float, decay_mult 4 float",
    FILLER: "type 1 string, value 2 float, min 3 float, max 4 float, mean 5 float, std 6 float, sparse 7 int64,"
    " variance_norm 8 VarianceNorm",
    LAYER: "name 1 string, type 2 string, bottom 3 string*, top 4 string*, loss_weight 5 float*, param 6 ParamSpec*,"
    " blobs 7 BlobProto*, include 8 NetStateRule*, exclude 9 NetStateRule*, phase 10 Phase, propagate_down 11 bool*,"
    " transform_param 100 TransformationParameter, loss_param 101 LossParameter, accuracy_param 102 AccuracyParameter,"
    " argmax_param 103 ArgMaxParameter, concat_param 104 ConcatParameter,"
    " contrastive_loss_param 105 ContrastiveLossParameter, convolution_param 106 ConvolutionParameter,"
    " data_param 107 DataParameter, dropout_param 108 DropoutParameter, dummy_data_param 109 DummyDataParameter,"
    " eltwise_param 110 EltwiseParameter, exp_param 111 ExpParameter, hdf5_data_param 112 HDF5DataParameter,"
    " hdf5_output_param 113 HDF5OutputParameter, hinge_loss_param 114 HingeLossParameter,"
    " image_data_param 115 ImageDataParameter, infogain_loss_param 116 InfogainLossParameter,"
    " inner_product_param 117 InnerProductParameter, lrn_param 118 LRNParameter,"
    " memory_data_param 119 MemoryDataParameter, mvn_param 120 MVNParameter, pooling_param 121 PoolingParameter,"
    " power_param 122 PowerParameter, relu_param 123 ReLUParameter, sigmoid_param 124 SigmoidParameter,"
    " softmax_param 125 SoftmaxParameter, slice_param 126 SliceParameter, tanh_param 127 TanHParameter,"
    " threshold_param 128 ThresholdParameter, window_data_param 129 WindowDataParameter,"
    " python_param 130 PythonParameter, prelu_param 131 PReLUParameter, spp_param 132 SPPParameter,"
    " reshape_param 133 ReshapeParameter, log_param 134 LogParameter, flatten_param 135 FlattenParameter,"
    " reduction_param 136 ReductionParameter, embed_param 137 EmbedParameter, tile_param 138 TileParameter,"
    " batch_norm_param 139 BatchNormParameter, elu_param 140 ELUParameter, bias_param 141 BiasParameter,"
    " scale_param 142 ScaleParameter, input_param 143 InputParameter, crop_param 144 CropParameter,"
    " parameter_param 145 ParameterParameter, recurrent_param 146 RecurrentParameter, swish_param 147 SwishParameter,"
    " clip_param 148 ClipParameter, annotated_data_param 200 AnnotatedDataParameter,"
    " permute_param 202 PermuteParameter, prior_box_param 203 PriorBoxParameter,"
    " detection_output_param 204 DetectionOutputParameter, norm_param 206 NormalizeParameter,"
    # Forks use different numbers for the following fields; texts use names.
    " proposal_param 1201 ProposalParameter, interp_param 2001 InterpParameter, upsample_param 2002 UpsampleParameter,"
    " shuffle_channel_param 2003 ShuffleChannelParameter, bn_param 2004 BNParameter, reorg_param 2005 ReorgParameter,"
    " hard_sigmoid_param 2006 HardSigmoidParameter, unpooling_param 2007 PoolingParameter,"
    " psroi_pooling_param 10002 PSROIPoolingParameter, roi_pooling_param 8266711 ROIPoolingParameter",
    V1_LAYER: "layer 1 V0LayerParameter, bottom 2 string*, top 3 string*, name 4 string, type 5 LayerType,"
    " blobs 6 BlobProto*, blobs_lr 7 float*, weight_decay 8 float*, concat_param 9 ConcatParameter,"
    " convolution_param 10 ConvolutionParameter, data_param 11 DataParameter, dropout_param 12 DropoutParameter,"
    " hdf5_data_param 13 HDF5DataParameter, hdf5_output_param 14 HDF5OutputParameter,"
    " image_data_param 15 ImageDataParameter, infogain_loss_param 16 InfogainLossParameter,"
    " inner_product_param 17 InnerProductParameter, lrn_param 18 LRNParameter, pooling_param 19 PoolingParameter,"
    " window_data_param 20 WindowDataParameter, power_param 21 PowerParameter,"
    " memory_data_param 22 MemoryDataParameter, argmax_param 23 ArgMaxParameter, eltwise_param 24 EltwiseParameter,"
    " threshold_param 25 ThresholdParameter, dummy_data_param 26 DummyDataParameter,"
    " accuracy_param 27 AccuracyParameter, hinge_loss_param 29 HingeLossParameter, relu_param 30 ReLUParameter,"
    " slice_param 31 SliceParameter, include 32 NetStateRule*, exclude 33 NetStateRule*, mvn_param 34 MVNParameter,"
    " loss_weight 35 float*, transform_param 36 TransformationParameter, tanh_param 37 TanHParameter,"
    " sigmoid_param 38 SigmoidParameter, softmax_param 39 SoftmaxParameter,"
    " contrastive_loss_param 40 ContrastiveLossParameter, exp_param 41 ExpParameter, loss_param 42 LossParameter,"
    " param 1001 string*, blob_share_mode 1002 DimCheckMode*",
    V0_LAYER: "name 1 string, type 2 string, num_output 3 uint32, biasterm 4 bool, weight_filler 5 FillerParameter,"
    " bias_filler 6 FillerParameter, pad 7 uint32, kernelsize 8 uint32, group 9 uint32, stride 10 uint32,"
    " pool 11 PoolMethod, dropout_ratio 12 float, local_size 13 uint32, alpha 14 float, beta 15 float,"
    " source 16 string, scale 17 float, meanfile 18 string, batchsize 19 uint32, cropsize 20 uint32, mirror 21 bool,"
    " k 22 float, blobs 50 BlobProto*, blobs_lr 51 float*, weight_decay 52 float*, rand_skip 53 uint32,"
    " det_fg_threshold 54 float, det_bg_threshold 55 float, det_fg_fraction 56 float, det_context_pad 58 uint32,"
    " det_crop_mode 59 string, new_num 60 int32, new_channels 61 int32, new_height 62 int32, new_width 63 int32,"
    " shuffle_images 64 bool, concat_dim 65 uint32, hdf5_output_param 1001 HDF5OutputParameter",
    "TransformationParameter": "scale 1 float, mirror 2 bool, crop_size 3 uint32, mean_file 4 string,"
    " mean_value 5 float*, force_color 6 bool, force_gray 7 bool",
    "LossParameter": "ignore_label 1 int32, normalize 2 bool, normalization 3 NormalizationMode",
    "AccuracyParameter": "top_k 1 uint32, axis 2 int32, ignore_label 3 int32",
    "ArgMaxParameter": "out_max_val 1 bool, top_k 2 uint32, axis 3 int32",
    "ConcatParameter": "concat_dim 1 uint32, axis 2 int32",
    "BatchNormParameter": "use_global_stats 1 bool, moving_average_fraction 2 float, eps 3 float, scale_bias 7 bool",
    "BiasParameter": "axis 1 int32, num_axes 2 int32, filler 3 FillerParameter",
    "ContrastiveLossParameter": "margin 1 float, legacy_version 2 bool",
    "ConvolutionParameter": "num_output 1 uint32, bias_term 2 bool, pad 3 uint32*, kernel_size 4 uint32*,"
    " group 5 uint32, stride 6 uint32*, weight_filler 7 FillerParameter, bias_filler 8 FillerParameter,"
    " pad_h 9 uint32, pad_w 10 uint32, kernel_h 11 uint32, kernel_w 12 uint32, stride_h 13 uint32,"
    " stride_w 14 uint32, engine 15 Engine, axis 16 int32, force_nd_im2col 17 bool, dilation 18 uint32*",
    "CropParameter": "axis 1 int32, offset 2 uint32*",
    "DataParameter": "source 1 string, scale 2 float, mean_file 3 string, batch_size 4 uint32, crop_size 5 uint32,"
    " mirror 6 bool, rand_skip 7 uint32, backend 8 Backend, force_encoded_color 9 bool, prefetch 10 uint32",
    "AnnotatedDataParameter": "label_map_file 2 string",
    "DropoutParameter": "dropout_ratio 1 float, scale_train 2 bool",
    "DummyDataParameter": "data_filler 1 FillerParameter*, num 2 uint32*, channels 3 uint32*, height 4 uint32*,"
    " width 5 uint32*, shape 6 BlobShape*",
    "EltwiseParameter": "operation 1 EltwiseOp, coeff 2 float*, stable_prod_grad 3 bool",
    "ELUParameter": "alpha 1 float",
    "EmbedParameter": "num_output 1 uint32, input_dim 2 uint32, bias_term 3 bool, weight_filler 4 FillerParameter,"
    " bias_filler 5 FillerParameter",
    "ExpParameter": "base 1 float, scale 2 float, shift 3 float",
    "FlattenParameter": "axis 1 int32, end_axis 2 int32",
    "HDF5DataParameter": "source 1 string, batch_size 2 uint32, shuffle 3 bool",
    "HDF5OutputParameter": "file_name 1 string",
    "HingeLossParameter": "norm 1 Norm",
    "ImageDataParameter": "source 1 string, scale 2 float, mean_file 3 string, batch_size 4 uint32, crop_size 5 uint32,"
    " mirror 6 bool, rand_skip 7 uint32, shuffle 8 bool, new_height 9 uint32, new_width 10 uint32, is_color 11 bool,"
    " root_folder 12 string",
    "InfogainLossParameter": "source 1 string, axis 2 int32",
    "InnerProductParameter": "num_output 1 uint32, bias_term 2 bool, weight_filler 3 FillerParameter,"
    " bias_filler 4 FillerParameter, axis 5 int32, transpose 6 bool",
    "InputParameter": "shape 1 BlobShape*",
    "LogParameter": "base 1 float, scale 2 float, shift 3 float",
    "LRNParameter": "local_size 1 uint32, alpha 2 float, beta 3 float, norm_region 4 NormRegion, k 5 float,"
    " engine 6 Engine",
    "MemoryDataParameter": "batch_size 1 uint32, channels 2 uint32, height 3 uint32, width 4 uint32",
    "MVNParameter": "normalize_variance 1 bool, across_channels 2 bool, eps 3 float",
    "ParameterParameter": "shape 1 BlobShape",
    "PoolingParameter": "pool 1 PoolMethod, kernel_size 2 uint32, stride 3 uint32, pad 4 uint32, kernel_h 5 uint32,"
    " kernel_w 6 uint32, stride_h 7 uint32, stride_w 8 uint32, pad_h 9 uint32, pad_w 10 uint32, engine 11 Engine,"
    " global_pooling 12 bool, round_mode 13 RoundMode, ceil_mode 1013 bool",
    "PowerParameter": "power 1 float, scale 2 float, shift 3 float",
    "PythonParameter": "module 1 string, layer 2 string, param_str 3 string, share_in_parallel 4 bool",
    "RecurrentParameter": "num_output 1 uint32, weight_filler 2 FillerParameter, bias_filler 3 FillerParameter,"
    " debug_info 4 bool, expose_hidden 5 bool",
    "ReductionParameter": "operation 1 ReductionOp, axis 2 int32, coeff 3 float",
    "ReLUParameter": "negative_slope 1 float, engine 2 Engine",
    "ReshapeParameter": "shape 1 BlobShape, axis 2 int32, num_axes 3 int32",
    "ScaleParameter": "axis 1 int32, num_axes 2 int32, filler 3 FillerParameter, bias_term 4 bool,"
    " bias_filler 5 FillerParameter",
    "SigmoidParameter": "engine 1 Engine",
    "SliceParameter": "slice_dim 1 uint32, slice_point 2 uint32*, axis 3 int32",
    "SoftmaxParameter": "engine 1 Engine, axis 2 int32",
    "SwishParameter": "beta 1 float",
    "TanHParameter": "engine 1 Engine",
    "TileParameter": "axis 1 int32, tiles 2 int32",
    "ThresholdParameter": "threshold 1 float",
    "WindowDataParameter": "source 1 string, scale 2 float, mean_file 3 string, batch_size 4 uint32,"
    " crop_size 5 uint32, mirror 6 bool, fg_threshold 7 float, bg_threshold 8 float, fg_fraction 9 float,"
    " context_pad 10 uint32, crop_mode 11 string, cache_images 12 bool, root_folder 13 string",
    "SPPParameter": "pyramid_height 1 uint32, pool 2 PoolMethod, engine 6 Engine",
    "PReLUParameter": "filler 1 FillerParameter, channel_shared 2 bool",
    "ClipParameter": "min 1 float, max 2 float",
    "PermuteParameter": "order 1 uint32*",
    "NormalizeParameter": "across_spatial 1 bool, scale_filler 2 FillerParameter, channel_shared 3 bool, eps 4 float",
    "PriorBoxParameter": "min_size 1 float*, max_size 2 float*, aspect_ratio 3 float*, flip 4 bool, clip 5 bool,"
    " variance 6 float*, img_size 7 uint32, img_h 8 uint32, img_w 9 uint32, step 10 float, step_h 11 float,"
    " step_w 12 float, offset 13 float, offset_h 14 float*, offset_w 15 float*, width 16 float*, height 17 float*",
    "DetectionOutputParameter": "num_classes 1 uint32, share_location 2 bool, background_label_id 3 int32,"
    " nms_param 4 NonMaximumSuppressionParameter, save_output_param 5 SaveOutputParameter, code_type 6 CodeType,"
    " keep_top_k 7 int32, variance_encoded_in_target 8 bool, confidence_threshold 9 float, visualize 10 bool,"
    " visualize_threshold 11 float, save_file 12 string, normalized_bbox 1010 bool",
    "NonMaximumSuppressionParameter": "nms_threshold 1 float, top_k 2 int32, eta 3 float",
    "SaveOutputParameter": "output_directory 1 string, output_name_prefix 2 string, output_format 3 string,"
    " label_map_file 4 string, name_size_file 5 string, num_test_image 6 uint32",
    "InterpParameter": "height 1 int32, width 2 int32, zoom_factor 3 int32, shrink_factor 4 int32, pad_beg 5 int32,"
    " pad_end 6 int32",
    "UpsampleParameter": "scale 1 uint32, scale_h 2 uint32, scale_w 3 uint32, pad_out_h 4 bool, pad_out_w 5 bool,"
    " upsample_h 6 uint32, upsample_w 7 uint32",
    "ShuffleChannelParameter": "group 1 uint32",
    "BNParameter": "scale_filler 1 FillerParameter, shift_filler 2 FillerParameter, var_eps 3 float, momentum 4 float,"
    " frozen 5 bool, bn_mode 6 BNMode, eps 7 float, engine 8 Engine, slope_filler 9 FillerParameter,"
    " bias_filler 10 FillerParameter, icnet 11 bool",
    "ReorgParameter": "stride 1 uint32, reverse 2 bool",
    "HardSigmoidParameter": "alpha 1 float, beta 2 float",
    "ROIPoolingParameter": "pooled_h 1 uint32, pooled_w 2 uint32, spatial_scale 3 float",
    "PSROIPoolingParameter": "spatial_scale 1 float, output_dim 2 int32, group_size 3 int32",
    "ProposalParameter": "feat_stride 1 uint32, base_size 2 uint32, min_size 3 uint32, ratio 4 float*, scale 5 float*,"
    " pre_nms_topn 6 uint32, post_nms_topn 7 uint32, nms_thresh 8 float",
}

ENUMS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "Phase": {"TRAIN": 0, "TEST": 1},
        "DimCheckMode": {"STRICT": 0, "PERMISSIVE": 1},
        "VarianceNorm": {"FAN_IN": 0, "FAN_OUT": 1, "AVERAGE": 2},
        "RawType": {"DOUBLE": 0, "FLOAT": 1, "FLOAT16": 2, "INT": 3, "UINT": 4},
        "Backend": {"LEVELDB": 0, "LMDB": 1},
        ENGINE: {"DEFAULT": 0, "CAFFE": 1, "CUDNN": 2},
        "NormalizationMode": {"FULL": 0, "VALID": 1, "BATCH_SIZE": 2, "NONE": 3},
        "EltwiseOp": {"PROD": 0, "SUM": 1, "MAX": 2},
        "Norm": {"L1": 1, "L2": 2},
        "NormRegion": {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1},
        "PoolMethod": {"MAX": 0, "AVE": 1, "STOCHASTIC": 2},
        "RoundMode": {"CEIL": 0, "FLOOR": 1},
        "ReductionOp": {"SUM": 1, "ASUM": 2, "SUMSQ": 3, "MEAN": 4},
        "CodeType": {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3},
        "BNMode": {"LEARN": 0, "INFERENCE": 1},
        "LayerType": {
            name: number
            for number, name in enumerate(
                [
                    "NONE",
                    "ACCURACY",
                    "BNLL",
                    "CONCAT",
                    "CONVOLUTION",
                    "DATA",
                    "DROPOUT",
                    "EUCLIDEAN_LOSS",
                    "FLATTEN",
                    "HDF5_DATA",
                    "HDF5_OUTPUT",
                    "IM2COL",
                    "IMAGE_DATA",
                    "INFOGAIN_LOSS",
                    "INNER_PRODUCT",
                    "LRN",
                    "MULTINOMIAL_LOGISTIC_LOSS",
                    "POOLING",
                    "RELU",
                    "SIGMOID",
                    "SOFTMAX",
                    "SOFTMAX_LOSS",
                    "SPLIT",
                    "TANH",
                    "WINDOW_DATA",
                    "ELTWISE",
                    "POWER",
                    "SIGMOID_CROSS_ENTROPY_LOSS",
                    "HINGE_LOSS",
                    "MEMORY_DATA",
                    "ARGMAX",
                    "THRESHOLD",
                    "DUMMY_DATA",
                    "SLICE",
                    "MVN",
                    "ABSVAL",
                    "SILENCE",
                    "CONTRASTIVE_LOSS",
                    "EXP",
                    "DECONVOLUTION",
                ]
            )
        },
    }
)


@cache
def fields(kind: str) -> Mapping[str, Field]:
    """Return the fields of the message `kind` by name; empty for an unknown message."""
    found: dict[str, Field] = {}
    for entry in _MESSAGES.get(kind, "").split(","):
        words = entry.split()
        if words:
            name, number, type = words
            is_packed, is_repeated = type.endswith("+"), type.endswith(("*", "+"))
            found[name] = Field(name, int(number), type.rstrip("*+"), is_repeated, is_packed)
    return MappingProxyType(found)


@cache
def fields_by_number(kind: str) -> Mapping[int, Field]:
    """Return the fields of the message `kind` by number."""
    return MappingProxyType({field.number: field for field in fields(kind).values()})


def is_message(type: str) -> bool:
    """Whether `type` names a message."""
    return type in _MESSAGES


def kinds() -> tuple[str, ...]:
    """Return the names of all messages."""
    return tuple(_MESSAGES)
