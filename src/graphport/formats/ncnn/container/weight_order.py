"""Which weights a layer loads, in which order: the file of weights has no names and no lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

Parameters: TypeAlias = Mapping[str, object]

MOST = 1 << 40
"""Maximum number of elements of a weight."""


class Weight(NamedTuple):
    """One weight of a layer: its number of elements, whether a storage tag precedes it, and its element size.

    `bits` is the element size without a tag: 32 is float32, 16 float16, 8 int8.
    """

    length: int
    is_tagged: bool = False
    bits: int = 32


Rule: TypeAlias = Callable[[Parameters], Iterator[Weight]]


def integer(parameters: Parameters, key: int, default: int = 0) -> int:
    """Return parameter `key` as an integer; `default` if it is absent, infinite, NaN or not a number."""
    value = parameters.get(str(key), default)
    return int(value) if isinstance(value, int | float) and isfinite(value) else default


def weights_of(type_: str, parameters: Parameters) -> list[Weight]:
    """Return the weights of a layer of op type `type_` in file order; empty for an op type without a rule.

    Raises:
        ValueError: the parameters give a negative length, or one above `MOST`.
    """
    rule = RULES.get(type_)
    found = list(rule(parameters)) if rule is not None else []
    for weight in found:
        if not 0 <= weight.length <= MOST:
            message = f"a weight of {weight.length} elements, at most {MOST} are supported"
            raise ValueError(message)
    return found


def _convolution(p: Parameters) -> Iterator[Weight]:
    return _list_convolution_weights(p, 19, lambda _: integer(p, 0))


def _depthwise(p: Parameters) -> Iterator[Weight]:
    return _list_convolution_weights(p, 19, lambda term: integer(p, 7, 1) if term in (1, 101) else 1)


def _list_float_convolution(p: Parameters) -> Iterator[Weight]:
    """List the weights of convolutions that have no int8 form."""
    return _list_convolution_weights(p, 19)


def _deconvolution(p: Parameters) -> Iterator[Weight]:
    return _list_convolution_weights(p, 28)


def _list_convolution_weights(
    p: Parameters, is_given: int, scales: Callable[[int], int] | None = None
) -> Iterator[Weight]:
    """Weight and bias, unless parameter `is_given` makes them operands.

    `scales` is the number of weight scales in the int8 form; scales of input and output follow.
    """
    if integer(p, is_given):
        return
    yield Weight(integer(p, 6), is_tagged=True)
    if integer(p, 5):
        yield Weight(integer(p, 0))
    term = integer(p, 8) if scales is not None else 0
    if scales is not None and term:
        yield Weight(scales(term))
        yield Weight(1)
    if term > 100:
        yield Weight(1)


def _inner_product(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 2), is_tagged=True)
    if integer(p, 1):
        yield Weight(integer(p, 0))
    if integer(p, 8):
        yield Weight(integer(p, 0))
        yield Weight(1)


def _batch_norm(p: Parameters) -> Iterator[Weight]:
    for _ in range(4):
        yield Weight(integer(p, 0))


def _scale(p: Parameters) -> Iterator[Weight]:
    if integer(p, 0) == -233:
        return
    yield Weight(integer(p, 0))
    if integer(p, 1):
        yield Weight(integer(p, 0))


def _list_channel_weights(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 0))


def _affine(size: int, flag: int, count: int, default: int = 1) -> Rule:
    def affine(p: Parameters) -> Iterator[Weight]:
        if integer(p, flag, default):
            for _ in range(count):
                yield Weight(integer(p, size))

    return affine


def _embed(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 3), is_tagged=True)
    if integer(p, 2):
        yield Weight(integer(p, 0))
    if integer(p, 18):
        yield Weight(1)


def _memory_data(p: Parameters) -> Iterator[Weight]:
    count = 1
    for key in (0, 1, 11, 2):
        count *= integer(p, key) or 1
    kind = integer(p, 21, 1)
    yield Weight(count, is_tagged=kind == 0, bits={2: 16, 3: 8}.get(kind, 32))


def _attention(p: Parameters) -> Iterator[Weight]:
    embed = integer(p, 0)
    size = integer(p, 2)
    query = size // embed if embed else 0
    for count, bias in (
        (embed * query, embed),
        (embed * integer(p, 3, embed), embed),
        (embed * integer(p, 4, embed), embed),
        (query * embed, query),
    ):
        yield Weight(count, is_tagged=True)
        yield Weight(bias)
    if integer(p, 18):
        for count in (embed, embed, embed, 1):
            yield Weight(count)


def _recurrent(gates: int, biases: int) -> Rule:
    def recurrent(p: Parameters) -> Iterator[Weight]:
        out = integer(p, 0)
        directions = 2 if integer(p, 2) == 2 else 1
        hidden = integer(p, 3, out) if gates == 4 else out
        yield Weight(integer(p, 1), is_tagged=True)
        yield Weight(hidden * biases * directions, is_tagged=True)
        yield Weight(out * hidden * gates * directions, is_tagged=True)
        if gates == 4 and out != hidden:
            yield Weight(hidden * out * directions, is_tagged=True)
        if integer(p, 8):
            yield Weight(hidden * gates * directions)
            yield Weight(hidden * gates * directions)

    return recurrent


def _normalize(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 3))


def _dequantize(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 0, 1))
    if integer(p, 1):
        yield Weight(integer(p, 1))


def _requantize(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 0, 1))
    yield Weight(integer(p, 1, 1))
    if integer(p, 2):
        yield Weight(integer(p, 2))


def _quantize(p: Parameters) -> Iterator[Weight]:
    yield Weight(integer(p, 0, 1))


def _gemm(p: Parameters) -> Iterator[Weight]:
    m, n, k = (integer(p, key) for key in (7, 8, 9))
    if integer(p, 4):
        yield Weight(m * k, is_tagged=True)
    if integer(p, 5):
        yield Weight(n * k, is_tagged=True)
    broadcast = integer(p, 10)
    if integer(p, 6) and broadcast != -1:
        yield Weight({0: 1, 1: m, 2: m, 3: m * n, 4: n}.get(broadcast, 0), is_tagged=True)
    if integer(p, 18):  # int8: a scale for each row of A, and one for B
        yield from (Weight(count) for key, count in ((4, m), (5, 1)) if integer(p, key))


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "Convolution": _convolution,
        "ConvolutionDepthWise": _depthwise,
        **dict.fromkeys(
            (
                "Convolution1D",
                "ConvolutionDepthWise1D",
                "Convolution3D",
                "ConvolutionDepthWise3D",
                "DeformableConv2D",
            ),
            _list_float_convolution,
        ),
        **dict.fromkeys(
            (
                "Deconvolution",
                "DeconvolutionDepthWise",
                "Deconvolution1D",
                "DeconvolutionDepthWise1D",
                "Deconvolution3D",
                "DeconvolutionDepthWise3D",
            ),
            _deconvolution,
        ),
        "InnerProduct": _inner_product,
        "BatchNorm": _batch_norm,
        "Scale": _scale,
        "Bias": _list_channel_weights,
        "PReLU": _list_channel_weights,
        "LayerNorm": _affine(0, 2, 2),
        "GroupNorm": _affine(1, 3, 2),
        "InstanceNorm": _affine(0, 2, 2),
        "RMSNorm": _affine(0, 2, 1),
        "Embed": _embed,
        "MemoryData": _memory_data,
        "MultiHeadAttention": _attention,
        "LSTM": _recurrent(4, 4),
        "GRU": _recurrent(3, 4),
        "RNN": _recurrent(1, 1),
        "Normalize": _normalize,
        "Quantize": _quantize,
        "Dequantize": _dequantize,
        "Requantize": _requantize,
        "Gemm": _gemm,
    }
)
"""By type; types without a rule have no weights."""

BINARY_TYPES = (
    *("AbsVal", "ArgMax", "BatchNorm", "Bias", "BNLL", "Concat", "Convolution", "Crop", "Deconvolution", "Dropout"),
    *("Eltwise", "ELU", "Embed", "Exp", "Flatten", "InnerProduct", "Input", "Log", "LRN", "MemoryData", "MVN"),
    *("Pooling", "Power", "PReLU", "Proposal", "Reduction", "ReLU", "Reshape", "ROIPooling", "Scale", "Sigmoid"),
    *("Slice", "Softmax", "Split", "SPP", "TanH", "Threshold", "Tile", "RNN", "LSTM", "BinaryOp", "UnaryOp"),
    *("ConvolutionDepthWise", "Padding", "Squeeze", "ExpandDims", "Normalize", "Permute", "PriorBox"),
    *("DetectionOutput", "Interp", "DeconvolutionDepthWise", "ShuffleChannel", "InstanceNorm", "Clip", "Reorg"),
    *("YoloDetectionOutput", "Quantize", "Dequantize", "Yolov3DetectionOutput", "PSROIPooling", "ROIAlign"),
    *("Packing", "Requantize", "Cast", "HardSigmoid", "SELU", "HardSwish", "Noop", "PixelShuffle", "DeepCopy"),
    *("Mish", "StatisticsPooling", "Swish", "Gemm", "GroupNorm", "LayerNorm", "Softplus", "GRU"),
    *("MultiHeadAttention", "GELU", "Convolution1D", "Pooling1D", "ConvolutionDepthWise1D", "Convolution3D"),
    *("ConvolutionDepthWise3D", "Pooling3D", "MatMul", "Deconvolution1D", "DeconvolutionDepthWise1D"),
    *("Deconvolution3D", "DeconvolutionDepthWise3D", "Einsum", "DeformableConv2D", "GLU", "Fold", "Unfold"),
    *("GridSample", "CumulativeSum", "CopyTo", "Erf", "Diag", "CELU", "Shrink", "RMSNorm", "Spectrogram"),
    *("InverseSpectrogram", "Flip"),
)
"""Numbers of layer types in binary files."""
