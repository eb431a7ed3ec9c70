"""The schema of TFLite files as data: tables with ordered fields, operators and their option tables.

Source: tflite/converter/schema/schema.fbs of LiteRT 2.3 (Apache-2.0), field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTIFIER = b"TFL3"
VERSION = 3
CUSTOM = 32
"""Number of custom operators, which are identified by name."""
NEWER = 127
"""Value of the deprecated one-byte field for operators whose number exceeds it."""

_TABLES = """
Model version:I operator_codes:[*OperatorCode] subgraphs:[*SubGraph] description:s buffers:[*Buffer]
  metadata_buffer:[i] metadata:[*Metadata] signature_defs:[*SignatureDef]
  external_buffer_groups:[*ExternalBufferGroup] external_buffers:[*ExternalBuffer]
OperatorCode deprecated_builtin_code:b custom_code:s version:i=1 builtin_code:i
SubGraph tensors:[*Tensor] inputs:[i] outputs:[i] operators:[*Operator] name:s debug_metadata_index:i=-1
Tensor shape:[i] type:b buffer:I name:s quantization:*QuantizationParameters is_variable:?
  sparsity:*SparsityParameters shape_signature:[i] has_rank:? variant_tensors:[*VariantSubType]
  external_buffer:I
Operator opcode_index:I inputs:[i] outputs:[i] builtin_options_type:B builtin_options:@options
  custom_options:[B] custom_options_format:b mutating_variable_inputs:[?] intermediates:[i]
  large_custom_options_offset:Q large_custom_options_size:Q builtin_options2_type:B
  builtin_options2:@options_2 debug_metadata_index:i=-1
Buffer data:[B] offset:Q size:Q
CustomQuantization custom:[B]
BlockwiseQuantization scales:i zero_points:i block_size:i block_shape:[i]
MultiAxisQuantization scales:i zero_points:i block_size:i quantized_dimensions:[i]
QuantizationParameters min:[f] max:[f] scale:[f] zero_point:[q] details_type:B details:@details
  quantized_dimension:i
Int32Vector values:[i]
Uint16Vector values:[H]
Uint8Vector values:[B]
DimensionMetadata format:b dense_size:i array_segments_type:B array_segments:@sparse array_indices_type:B
  array_indices:@sparse
SparsityParameters traversal_order:[i] block_map:[i] dim_metadata:[*DimensionMetadata]
VariantSubType shape:[i] type:b has_rank:?
StablehloGatherOptions offset_dims:[q] collapsed_slice_dims:[q] start_index_map:[q] index_vector_dim:q
  slice_sizes:[q] indices_are_sorted:?
StablehloTransposeOptions permutation:[q]
StablehloDotGeneralOptions lhs_batching_dimensions:[q] rhs_batching_dimensions:[q]
  lhs_contracting_dimensions:[q] rhs_contracting_dimensions:[q] precision_config:[I]
StablehloReduceWindowOptions window_dimensions:[q] window_strides:[q] base_dilations:[q] window_dilations:[q]
  padding:[q] body_subgraph_index:i
StablehloWhileOptions cond_subgraph_index:i body_subgraph_index:i
StablehloSortOptions dimension:q is_stable:? comparator_subgraph_index:i
StablehloConcatenateOptions dimension:q
StablehloBroadcastInDimOptions broadcast_dimensions:[q]
StablehloCompareOptions comparison_direction:I compare_type:I
StablehloDynamicSliceOptions slice_sizes:[q]
StablehloPadOptions edge_padding_low:[q] edge_padding_high:[q] interior_padding:[q]
StablehloIotaOptions iota_dimension:q
StablehloCustomCallOptions call_target_name:s has_side_effect:? backend_config:s api_version:i
  called_computations:[i] custom_attributes:[B]
StablehloReduceOptions dimensions:[q] body_subgraph_index:i
StablehloSliceOptions start_indices:[q] limit_indices:[q] strides:[q]
StablehloConvolutionOptions window_strides:[q] padding:[q] lhs_dilation:[q] rhs_dilation:[q]
  window_reversal:[?] input_batch_dimension:q input_feature_dimension:q input_spatial_dimensions:[q]
  kernel_input_feature_dimension:q kernel_output_feature_dimension:q kernel_spatial_dimensions:[q]
  output_batch_dimension:q output_feature_dimension:q output_spatial_dimensions:[q] feature_group_count:q
  batch_group_count:q precision_config:[I]
StablehloScatterOptions indices_are_sorted:? update_window_dims:[q] inserted_window_dims:[q]
  scatter_dims_to_operand_dims:[q] index_vector_dim:q unique_indices:? update_computation_subgraph_index:i
StablehloCaseOptions branch_subgraph_indices:[i]
StablehloRngBitGeneratorOptions algorithm:b
Conv2DOptions padding:b stride_w:i stride_h:i fused_activation_function:b dilation_w_factor:i=1
  dilation_h_factor:i=1 quantized_bias_type:b
Conv3DOptions padding:b stride_d:i stride_w:i stride_h:i fused_activation_function:b dilation_d_factor:i=1
  dilation_w_factor:i=1 dilation_h_factor:i=1
Pool2DOptions padding:b stride_w:i stride_h:i filter_width:i filter_height:i fused_activation_function:b
DepthwiseConv2DOptions padding:b stride_w:i stride_h:i depth_multiplier:i fused_activation_function:b
  dilation_w_factor:i=1 dilation_h_factor:i=1
ConcatEmbeddingsOptions num_channels:i num_columns_per_channel:[i] embedding_dim_per_channel:[i]
LSHProjectionOptions type:b
SVDFOptions rank:i fused_activation_function:b asymmetric_quantize_inputs:?
RNNOptions fused_activation_function:b asymmetric_quantize_inputs:?
SequenceRNNOptions time_major:? fused_activation_function:b asymmetric_quantize_inputs:?
BidirectionalSequenceRNNOptions time_major:? fused_activation_function:b merge_outputs:?
  asymmetric_quantize_inputs:?
FullyConnectedOptions fused_activation_function:b weights_format:b keep_num_dims:?
  asymmetric_quantize_inputs:? quantized_bias_type:b quant_spec:[B]
SoftmaxOptions beta:f
ConcatenationOptions axis:i fused_activation_function:b
AddOptions fused_activation_function:b pot_scale_int16:?=1
MulOptions fused_activation_function:b
L2NormOptions fused_activation_function:b
LocalResponseNormalizationOptions radius:i bias:f alpha:f beta:f
LSTMOptions fused_activation_function:b cell_clip:f proj_clip:f kernel_type:b asymmetric_quantize_inputs:?
UnidirectionalSequenceLSTMOptions fused_activation_function:b cell_clip:f proj_clip:f time_major:?
  asymmetric_quantize_inputs:? diagonal_recurrent_tensors:?
BidirectionalSequenceLSTMOptions fused_activation_function:b cell_clip:f proj_clip:f merge_outputs:?
  time_major:?=1 asymmetric_quantize_inputs:?
ResizeBilinearOptions - - align_corners:? half_pixel_centers:?
ResizeNearestNeighborOptions align_corners:? half_pixel_centers:?
CallOptions subgraph:I
PadOptions
PadV2Options
ReshapeOptions new_shape:[i]
SpaceToBatchNDOptions
BatchToSpaceNDOptions
SkipGramOptions ngram_size:i max_skip_size:i include_all_ngrams:?
SpaceToDepthOptions block_size:i
DepthToSpaceOptions block_size:i
SubOptions fused_activation_function:b pot_scale_int16:?=1
DivOptions fused_activation_function:b
TopKV2Options
EmbeddingLookupSparseOptions combiner:b
GatherOptions axis:i batch_dims:i
TransposeOptions
ExpOptions
CosOptions
ReducerOptions keep_dims:?
SqueezeOptions squeeze_dims:[i]
SplitOptions num_splits:i
SplitVOptions num_splits:i
StridedSliceOptions begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?
LogSoftmaxOptions
CastOptions in_data_type:b out_data_type:b
DequantizeOptions
MaximumMinimumOptions
TileOptions
ArgMaxOptions output_type:b
ArgMinOptions output_type:b
GreaterOptions
GreaterEqualOptions
LessOptions
LessEqualOptions
NegOptions
SelectOptions
SliceOptions
TransposeConvOptions padding:b stride_w:i stride_h:i fused_activation_function:b quantized_bias_type:b
ExpandDimsOptions
SparseToDenseOptions validate_indices:?
EqualOptions
NotEqualOptions
ShapeOptions out_type:b
RankOptions
PowOptions
FakeQuantOptions min:f max:f num_bits:i narrow_range:?
PackOptions values_count:i axis:i
LogicalOrOptions
OneHotOptions axis:i
AbsOptions
HardSwishOptions
LogicalAndOptions
LogicalNotOptions
UnpackOptions num:i axis:i
FloorDivOptions
SquareOptions
ZerosLikeOptions
FillOptions
FloorModOptions
RangeOptions
LeakyReluOptions alpha:f
SquaredDifferenceOptions
MirrorPadOptions mode:b
UniqueOptions idx_out_type:b=2
ReverseV2Options
AddNOptions
GatherNdOptions
WhereOptions
ReverseSequenceOptions seq_dim:i batch_dim:i
MatrixDiagOptions
QuantizeOptions
MatrixSetDiagOptions
IfOptions then_subgraph_index:i else_subgraph_index:i
CallOnceOptions init_subgraph_index:i
WhileOptions cond_subgraph_index:i body_subgraph_index:i
NonMaxSuppressionV4Options
NonMaxSuppressionV5Options
ScatterNdOptions
SelectV2Options
DensifyOptions
SegmentSumOptions
BatchMatMulOptions adj_x:? adj_y:? asymmetric_quantize_inputs:?
CumsumOptions exclusive:? reverse:?
BroadcastToOptions
Rfft2dOptions
HashtableOptions table_id:i key_dtype:b value_dtype:b
HashtableFindOptions
HashtableImportOptions
HashtableSizeOptions
VarHandleOptions container:s shared_name:s
ReadVariableOptions
AssignVariableOptions
RandomOptions seed:q seed2:q
BucketizeOptions boundaries:[f]
GeluOptions approximate:?
DynamicUpdateSliceOptions
UnsortedSegmentProdOptions
UnsortedSegmentMaxOptions
UnsortedSegmentSumOptions
ATan2Options
UnsortedSegmentMinOptions
SignOptions
BitcastOptions
BitwiseXorOptions
RightShiftOptions
DilateOptions
ReduceWindowOptions reduce_function:i
StableHLOCompositeOptions name:s decomposition_subgraph_index:i composite_attributes:[B]
  composite_attributes_format:b version:i
StablehloShiftLeftOptions
ExternalBufferGroup name:s
ExternalBuffer id:I group:I offset:Q length:Q packing:s
Metadata name:s buffer:I
TensorMap name:s tensor_index:I
SignatureDef inputs:[*TensorMap] outputs:[*TensorMap] signature_key:s - subgraph_index:I
"""
"""One table per row: `field:type=default`. Types are NumPy's letters, `s` string, `*` a table, `@` a union, `[]` a
vector; `-` is a removed field.
"""

_OPERATORS = """
ADD:AddOptions AVERAGE_POOL_2D:Pool2DOptions CONCATENATION:ConcatenationOptions CONV_2D:Conv2DOptions
  DEPTHWISE_CONV_2D:DepthwiseConv2DOptions DEPTH_TO_SPACE:DepthToSpaceOptions DEQUANTIZE:DequantizeOptions
  EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED:FullyConnectedOptions HASHTABLE_LOOKUP L2_NORMALIZATION:L2NormOptions
  L2_POOL_2D:Pool2DOptions LOCAL_RESPONSE_NORMALIZATION:LocalResponseNormalizationOptions LOGISTIC
  LSH_PROJECTION:LSHProjectionOptions LSTM:LSTMOptions MAX_POOL_2D:Pool2DOptions MUL:MulOptions RELU
  RELU_N1_TO_1 RELU6 RESHAPE:ReshapeOptions RESIZE_BILINEAR:ResizeBilinearOptions RNN:RNNOptions
  SOFTMAX:SoftmaxOptions SPACE_TO_DEPTH:SpaceToDepthOptions SVDF:SVDFOptions TANH
  CONCAT_EMBEDDINGS:ConcatEmbeddingsOptions SKIP_GRAM:SkipGramOptions CALL:CallOptions CUSTOM
  EMBEDDING_LOOKUP_SPARSE:EmbeddingLookupSparseOptions PAD:PadOptions
  UNIDIRECTIONAL_SEQUENCE_RNN:SequenceRNNOptions GATHER:GatherOptions BATCH_TO_SPACE_ND:BatchToSpaceNDOptions
  SPACE_TO_BATCH_ND:SpaceToBatchNDOptions TRANSPOSE:TransposeOptions MEAN:ReducerOptions SUB:SubOptions
  DIV:DivOptions SQUEEZE:SqueezeOptions UNIDIRECTIONAL_SEQUENCE_LSTM:UnidirectionalSequenceLSTMOptions
  STRIDED_SLICE:StridedSliceOptions BIDIRECTIONAL_SEQUENCE_RNN:BidirectionalSequenceRNNOptions EXP:ExpOptions
  TOPK_V2:TopKV2Options SPLIT:SplitOptions LOG_SOFTMAX:LogSoftmaxOptions DELEGATE
  BIDIRECTIONAL_SEQUENCE_LSTM:BidirectionalSequenceLSTMOptions CAST:CastOptions PRELU
  MAXIMUM:MaximumMinimumOptions ARG_MAX:ArgMaxOptions MINIMUM:MaximumMinimumOptions LESS:LessOptions
  NEG:NegOptions PADV2:PadV2Options GREATER:GreaterOptions GREATER_EQUAL:GreaterEqualOptions
  LESS_EQUAL:LessEqualOptions SELECT:SelectOptions SLICE:SliceOptions SIN TRANSPOSE_CONV:TransposeConvOptions
  SPARSE_TO_DENSE:SparseToDenseOptions TILE:TileOptions EXPAND_DIMS:ExpandDimsOptions EQUAL:EqualOptions
  NOT_EQUAL:NotEqualOptions LOG SUM:ReducerOptions SQRT RSQRT SHAPE:ShapeOptions POW:PowOptions
  ARG_MIN:ArgMinOptions FAKE_QUANT:FakeQuantOptions REDUCE_PROD:ReducerOptions REDUCE_MAX:ReducerOptions
  PACK:PackOptions LOGICAL_OR:LogicalOrOptions ONE_HOT:OneHotOptions LOGICAL_AND:LogicalAndOptions
  LOGICAL_NOT:LogicalNotOptions UNPACK:UnpackOptions REDUCE_MIN:ReducerOptions FLOOR_DIV:FloorDivOptions
  REDUCE_ANY:ReducerOptions SQUARE:SquareOptions ZEROS_LIKE:ZerosLikeOptions FILL:FillOptions
  FLOOR_MOD:FloorModOptions RANGE:RangeOptions RESIZE_NEAREST_NEIGHBOR:ResizeNearestNeighborOptions
  LEAKY_RELU:LeakyReluOptions SQUARED_DIFFERENCE:SquaredDifferenceOptions MIRROR_PAD:MirrorPadOptions
  ABS:AbsOptions SPLIT_V:SplitVOptions UNIQUE:UniqueOptions CEIL REVERSE_V2:ReverseV2Options ADD_N:AddNOptions
  GATHER_ND:GatherNdOptions COS:CosOptions WHERE:WhereOptions RANK:RankOptions ELU
  REVERSE_SEQUENCE:ReverseSequenceOptions MATRIX_DIAG:MatrixDiagOptions QUANTIZE:QuantizeOptions
  MATRIX_SET_DIAG:MatrixSetDiagOptions ROUND HARD_SWISH:HardSwishOptions IF:IfOptions WHILE:WhileOptions
  NON_MAX_SUPPRESSION_V4:NonMaxSuppressionV4Options NON_MAX_SUPPRESSION_V5:NonMaxSuppressionV5Options
  SCATTER_ND:ScatterNdOptions SELECT_V2:SelectV2Options DENSIFY:DensifyOptions SEGMENT_SUM:SegmentSumOptions
  BATCH_MATMUL:BatchMatMulOptions PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM:CumsumOptions
  CALL_ONCE:CallOnceOptions BROADCAST_TO:BroadcastToOptions RFFT2D:Rfft2dOptions CONV_3D:Conv3DOptions IMAG
  REAL COMPLEX_ABS HASHTABLE:HashtableOptions HASHTABLE_FIND:HashtableFindOptions
  HASHTABLE_IMPORT:HashtableImportOptions HASHTABLE_SIZE:HashtableSizeOptions REDUCE_ALL:ReducerOptions
  CONV_3D_TRANSPOSE:Conv3DOptions VAR_HANDLE:VarHandleOptions READ_VARIABLE:ReadVariableOptions
  ASSIGN_VARIABLE:AssignVariableOptions BROADCAST_ARGS RANDOM_STANDARD_NORMAL:RandomOptions
  BUCKETIZE:BucketizeOptions RANDOM_UNIFORM:RandomOptions MULTINOMIAL:RandomOptions GELU:GeluOptions
  DYNAMIC_UPDATE_SLICE:DynamicUpdateSliceOptions RELU_0_TO_1 UNSORTED_SEGMENT_PROD:UnsortedSegmentProdOptions
  UNSORTED_SEGMENT_MAX:UnsortedSegmentMaxOptions UNSORTED_SEGMENT_SUM:UnsortedSegmentSumOptions
  ATAN2:ATan2Options UNSORTED_SEGMENT_MIN:UnsortedSegmentMinOptions SIGN:SignOptions BITCAST:BitcastOptions
  BITWISE_XOR:BitwiseXorOptions RIGHT_SHIFT:RightShiftOptions STABLEHLO_LOGISTIC STABLEHLO_ADD
  STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP
  STABLEHLO_CONCATENATE:StablehloConcatenateOptions STABLEHLO_BROADCAST_IN_DIM:StablehloBroadcastInDimOptions
  STABLEHLO_CONVOLUTION:StablehloConvolutionOptions STABLEHLO_SLICE:StablehloSliceOptions
  STABLEHLO_CUSTOM_CALL:StablehloCustomCallOptions STABLEHLO_REDUCE:StablehloReduceOptions STABLEHLO_ABS
  STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
  STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
  STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER:StablehloScatterOptions
  STABLEHLO_COMPARE:StablehloCompareOptions STABLEHLO_CONVERT
  STABLEHLO_DYNAMIC_SLICE:StablehloDynamicSliceOptions STABLEHLO_DYNAMIC_UPDATE_SLICE
  STABLEHLO_PAD:StablehloPadOptions STABLEHLO_IOTA:StablehloIotaOptions
  STABLEHLO_DOT_GENERAL:StablehloDotGeneralOptions STABLEHLO_REDUCE_WINDOW:StablehloReduceWindowOptions
  STABLEHLO_SORT:StablehloSortOptions STABLEHLO_WHILE:StablehloWhileOptions
  STABLEHLO_GATHER:StablehloGatherOptions STABLEHLO_TRANSPOSE:StablehloTransposeOptions DILATE:DilateOptions
  STABLEHLO_RNG_BIT_GENERATOR:StablehloRngBitGeneratorOptions REDUCE_WINDOW:ReduceWindowOptions
  STABLEHLO_COMPOSITE:StableHLOCompositeOptions STABLEHLO_SHIFT_LEFT:StablehloShiftLeftOptions STABLEHLO_CBRT
  STABLEHLO_CASE:StablehloCaseOptions
"""
"""Operators in the order of their numbers, each with its option table."""

_OPTIONS = """
NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions
  SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
  LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions
  SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions
  BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions
  SqueezeOptions SequenceRNNOptions StridedSliceOptions ExpOptions TopKV2Options SplitOptions
  LogSoftmaxOptions CastOptions DequantizeOptions MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions
  PadV2Options GreaterOptions GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions
  TransposeConvOptions SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions
  ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions
  LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions FillOptions
  BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions UnidirectionalSequenceLSTMOptions
  FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions SquaredDifferenceOptions
  MirrorPadOptions AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions GatherNdOptions
  CosOptions WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions
  MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options
  NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions
  BatchMatMulOptions CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions
  HashtableOptions HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
  ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
  DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions UnsortedSegmentMinOptions
  UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions BitwiseXorOptions RightShiftOptions
"""
_OPTIONS_2 = """
NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions
  StablehloConvolutionOptions StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions
  StablehloCompareOptions StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions
  StablehloDotGeneralOptions StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions
  StablehloGatherOptions StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions
  ReduceWindowOptions StableHLOCompositeOptions StablehloShiftLeftOptions StablehloCaseOptions
"""

_UNIONS = {
    "options": _OPTIONS.split(),
    "options_2": _OPTIONS_2.split(),
    "details": ["NONE", "CustomQuantization", "BlockwiseQuantization", "MultiAxisQuantization"],
    "sparse": ["NONE", "Int32Vector", "Uint16Vector", "Uint8Vector"],
}


ENUMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: tuple(members.split())
        for name, members in {
            "fused_activation_function": "NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT",
            "padding": "SAME VALID",
            "LSHProjectionOptions.type": "UNKNOWN SPARSE DENSE",
            "weights_format": "DEFAULT SHUFFLED4x16INT8",
            "kernel_type": "FULL BASIC",
            "combiner": "SUM MEAN SQRTN",
            "MirrorPadOptions.mode": "REFLECT SYMMETRIC",
            "reduce_function": "UNSUPPORTED ADD MUL MINIMUM MAXIMUM ALL ANY",
            "comparison_direction": "EQ NE GE GT LE LT",
            "compare_type": "NOTYPE FLOAT FLOAT_TOTAL_ORDER SIGNED UNSIGNED",
            "precision_config": "DEFAULT HIGH HIGHEST",
            "algorithm": "DEFAULT PHILOX THREEFRY",
            "custom_options_format": "FLEXBUFFERS",
            "composite_attributes_format": "FLEXBUFFERS",
            "DimensionMetadata.format": "DENSE SPARSE_CSR",
        }.items()
    }
)
"""Members of enumerations by the field that holds one, or by table and field where field names clash."""

ELEMENT_TYPES = frozenset(
    (
        "quantized_bias_type",
        "in_data_type",
        "out_data_type",
        "output_type",
        "out_type",
        "idx_out_type",
        "key_dtype",
        "value_dtype",
    )
)
"""Option fields that hold the number of an element type."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table.

    `kind` is a NumPy type letter for a number, `s` for a string, `*TABLE` for a table or `@UNION` for a union.
    """

    name: str
    slot: int
    kind: str
    default: float = 0
    is_vector: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the field holds a number or a vector of numbers."""
        return self.kind in SIZES and self.kind != "?"

    @property
    def is_scalar(self) -> bool:
        """Whether the field is stored inline in the table."""
        return not self.is_vector and len(self.kind) == 1 and self.kind != "s"

    @property
    def target(self) -> str:
        """Name of the referenced table or union."""
        return self.kind[1:]


@dataclass(frozen=True, slots=True)
class Operator:
    """A builtin operator and its option table; `options` is empty if it has none."""

    name: str
    number: int
    options: str


SIZES = MappingProxyType({"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8})
"""Bytes of a number by type letter."""


def _tables() -> dict[str, tuple[Field, ...]]:
    rows: list[list[str]] = []
    for line in _TABLES.strip().splitlines():
        if line.startswith(" "):
            rows[-1] += line.split()
        else:
            rows.append([str(text) for text in line.split()])
    return {name: tuple(_fields(fields)) for name, *fields in rows}


def _fields(texts: list[str]) -> list[Field]:
    found: list[Field] = []
    for index, text in enumerate(texts):
        if text == "-":
            continue
        name, _, rest = text.partition(":")
        kind, _, default = rest.partition("=")
        is_vector = kind.startswith("[")
        found.append(Field(name, 4 + 2 * index, kind.strip("[]"), float(default or 0), is_vector))
    return found


TABLES: Mapping[str, tuple[Field, ...]] = MappingProxyType(_tables())
"""Fields of each table by table name."""

UNIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({name: tuple(names) for name, names in _UNIONS.items()})
"""Tables of each union by number."""

OPERATORS: tuple[Operator, ...] = tuple(
    Operator(text.partition(":")[0], number, text.partition(":")[2]) for number, text in enumerate(_OPERATORS.split())
)
"""Builtin operators by number."""

BY_NAME: Mapping[str, Operator] = MappingProxyType({operator.name: operator for operator in OPERATORS})
