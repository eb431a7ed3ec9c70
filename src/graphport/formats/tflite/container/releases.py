"""First TFLite release that runs a version of an operator, after LiteRT's `runtime_version.cc` of August 2026."""

from __future__ import annotations

from functools import cache

_ROWS = """
- 2.5.0 2.5.0 2.23.0: BROADCAST_TO
1.10.0: EXPAND_DIMS POW SHAPE
1.10.0 1.15.0: SUM
1.10.0 2.21.0: SQRT
1.10.0 2.5.0 2.15.0: RSQRT
1.10.1 2.2.0 2.8.0: TILE
1.11.0: LOGICAL_AND LOGICAL_NOT LOGICAL_OR ONE_HOT REDUCE_ANY
1.11.0 1.14.0 2.2.0 2.3.0 2.22.0 2.23.0: UNPACK
1.11.0 1.14.0 2.3.0 2.13.0 2.23.0: PACK
1.11.0 1.14.0 2.5.0: REDUCE_MAX REDUCE_MIN
1.11.0 2.6.0: REDUCE_PROD
1.12.0: SQUARE ZEROS_LIKE
1.13.0 1.14.0 1.14.0 2.18.0 2.21.0: EMBEDDING_LOOKUP
1.13.0 2.13.0: FLOOR_MOD
1.13.0 2.14.0: RANGE
1.13.0 2.3.0 2.5.0 2.12.0 2.23.0: FILL
1.13.0 2.4.0 2.5.0 2.6.0 2.12.0: ABS
1.13.1 1.14.0 1.15.0 2.2.0 2.7.0 2.18.0 2.21.0 2.22.0 2.23.0: DEQUANTIZE
1.13.1 1.14.0 2.3.0 2.12.0: UNIDIRECTIONAL_SEQUENCE_LSTM
1.13.1 1.14.0 2.3.0 2.4.0: RESIZE_NEAREST_NEIGHBOR
1.13.1 2.3.0: LEAKY_RELU
1.13.1 2.3.0 2.12.0: MIRROR_PAD
1.13.1 2.3.0 2.23.0: SPLIT_V
1.13.1 2.5.0: SQUARED_DIFFERENCE
1.14.0: ADD_N CEIL ELU MATRIX_DIAG MATRIX_SET_DIAG RANK REVERSE_SEQUENCE ROUND UNIQUE
1.14.0 1.14.0: GREATER LESS_EQUAL LOG_SOFTMAX
1.14.0 1.14.0 1.14.0: BIDIRECTIONAL_SEQUENCE_LSTM
1.14.0 1.14.0 1.14.0 2.4.0 2.5.0 2.14.0 2.21.0 2.23.0: SLICE
1.14.0 1.14.0 2.12.0 2.12.0: SELECT
1.14.0 1.14.0 2.13.0: FLOOR_DIV GREATER_EQUAL LESS
1.14.0 1.14.0 2.3.0: BIDIRECTIONAL_SEQUENCE_RNN LOGISTIC TANH UNIDIRECTIONAL_SEQUENCE_RNN
1.14.0 1.14.0 2.3.0 2.13.0 2.21.0: EQUAL
1.14.0 1.14.0 2.3.0 2.21.0: NOT_EQUAL
1.14.0 1.14.0 2.3.0 2.3.0: MAXIMUM MINIMUM
1.14.0 1.15.0 2.7.0 2.21.0 2.21.0 2.21.0: QUANTIZE
1.14.0 2.15.0: LOG
1.14.0 2.2.0 2.5.0 2.23.0: REVERSE_V2
1.14.0 2.23.0: COS
1.14.0 2.3.0 2.5.0 2.13.0 2.16.0 2.23.0: GATHER_ND
1.14.0 2.8.0: WHERE
1.15.0: HARD_SWISH IF WHILE
1.5.0: EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LSH_PROJECTION RELU_N1_TO_1
    RESHAPE SKIP_GRAM
1.5.0 1.10.0: FAKE_QUANT
1.5.0 1.10.0 1.14.0 1.14.0 2.0.0 2.1.0 2.3.0 2.3.0 2.3.0 2.11.0 2.15.0 2.17.0 2.18.0 2.21.0: FULLY_CONNECTED
1.5.0 1.12.0 1.14.0 2.2.0 2.3.0 2.3.0 2.11.0: DEPTHWISE_CONV_2D
1.5.0 1.14.0: L2_NORMALIZATION SPACE_TO_DEPTH
1.5.0 1.14.0 1.14.0 2.3.0 2.23.0: SPLIT
1.5.0 1.14.0 1.14.0 2.3.0 2.4.0 2.9.0 2.11.0 2.15.0: CONV_2D
1.5.0 1.14.0 1.15.0 2.3.0 2.6.0 2.11.0 2.13.0 2.23.0: MUL
1.5.0 1.14.0 2.2.0 2.3.0: SVDF
1.5.0 1.14.0 2.3.0: AVERAGE_POOL_2D MAX_POOL_2D RNN
1.5.0 1.14.0 2.3.0 2.14.0 2.21.0 2.23.0 2.23.0: CONCATENATION
1.5.0 1.14.0 2.3.0 2.23.0: SOFTMAX
1.5.0 1.14.0 2.4.0 2.6.0 2.13.0 2.23.0: ADD
1.5.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0: PAD
1.5.0 1.14.0 2.5.0: RELU6
1.5.0 2.1.0 2.5.0: RELU
1.5.0 2.7.0 2.8.0 2.9.0 2.12.0 2.15.0 2.17.0 2.21.0 2.23.0: CAST
1.6.0 1.14.0 1.15.0 2.3.0 2.4.0 2.12.0 2.14.4 2.22.0 2.23.0: TRANSPOSE
1.6.0 1.14.0 1.15.0 2.4.0 2.5.0 2.13.0 2.15.0 2.23.0: GATHER
1.6.0 1.14.0 2.1.0 2.2.0 2.5.0 2.6.0 2.14.0 2.14.0: STRIDED_SLICE
1.6.0 1.14.0 2.3.0 2.12.0: BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND
1.6.0 1.14.0 2.3.0 2.4.0 2.4.0: SUB
1.6.0 1.14.0 2.4.0: MEAN
1.6.0 2.3.0: DIV
1.6.0 2.5.0: SQUEEZE
1.7.0 1.10.0 1.14.0 2.3.0: LSTM
1.7.0 1.14.0 2.13.0: TOPK_V2
1.7.0 1.14.0 2.2.0 2.5.0: RESIZE_BILINEAR
1.7.0 2.12.0: EXP
1.8.0: PRELU
1.9.0: FLOOR NEG
1.9.0 1.14.0 1.15.0: SPARSE_TO_DENSE
1.9.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0: PADV2
1.9.0 1.14.0 2.9.0: ARG_MAX ARG_MIN
1.9.0 2.2.0 2.3.0 2.13.0 2.15.0: TRANSPOSE_CONV
1.9.0 2.23.0: SIN
2.1.0: NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND
2.1.0 2.5.0: DEPTH_TO_SPACE
2.10.0: ATAN2 RELU_0_TO_1 UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
2.11.0: UNSORTED_SEGMENT_MIN
2.11.0 2.12.0: SIGN
2.13.0: BITCAST BITWISE_XOR RIGHT_SHIFT
2.15.0: DILATE REDUCE_WINDOW STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SCATTER
2.16.0: STABLEHLO_ADD STABLEHLO_GATHER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY STABLEHLO_PAD
    STABLEHLO_REDUCE_WINDOW
2.17.0: STABLEHLO_AND STABLEHLO_CASE STABLEHLO_CBRT STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT
2.2.0: DENSIFY SEGMENT_SUM
2.2.0 2.12.0: SELECT_V2
2.3.0 2.3.0 2.4.0 2.5.0: BATCH_MATMUL
2.4.0: CUMSUM
2.5.0: CALL_ONCE COMPLEX_ABS CONV_3D HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE IMAG REAL RFFT2D
2.6.0: ASSIGN_VARIABLE BROADCAST_ARGS CONV_3D_TRANSPOSE READ_VARIABLE REDUCE_ALL VAR_HANDLE
2.8.0: BUCKETIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM
2.9.0 2.17.0 2.19.0 2.20.0 2.21.0 2.22.0: DYNAMIC_UPDATE_SLICE
2.9.0 2.9.0 2.23.0: GELU
"""
"""Releases that introduced version 1, 2, … of the operators after the colon."""


MAX_CUSTOM_VERSION = 1 << 16


@cache
def _releases() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    releases: tuple[str, ...] = ()
    for token_line in _ROWS.split("\n"):
        release, colon, words = token_line.rpartition(":")
        if colon:
            releases = tuple(release.split())
        found |= dict.fromkeys(words.split(), releases)
    return found


def release_of(op_type: str, version: int) -> str:
    """Return the first release that runs a version of an operator; empty if LiteRT does not list it."""
    releases = _releases().get(op_type, ())
    found = releases[version - 1] if 0 < version <= len(releases) else ""
    return found.strip("-")


def newest_version(op_type: str) -> int:
    """Return the newest version that LiteRT lists; 1 if there is none, unlimited for a custom operator."""
    return MAX_CUSTOM_VERSION if op_type.startswith("custom.") else max(len(_releases().get(op_type, ())), 1)


def least_release(words: list[tuple[str, int]]) -> str:
    """Return the first release that runs all operators in their versions."""
    return max((release_of(*each) for each in words), key=_version_key, default="")


def _version_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")) if release else ()
