"""Capabilities of runtimes for quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from graphport.core.dtypes import DType

INTEGERS = frozenset(
    {DType.INT4, DType.UINT4, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16},
)
"""Integer element types of quantized tensors."""

PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
"""Operators that all runtimes implement with a constant weight."""
LAYERS = PRODUCTS | {"ConvTranspose"}


Rate: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rates:
    """Approximate kernel times in nanoseconds, on one thread with int8 dot product instructions: (float, int8).

    Attributes:
        products: time per element of a layer's result, and per multiplication.
        windows: `products` for convolutions with a kernel larger than 1x1.
        grouped: `products` for grouped and depthwise convolutions.
        sums: `products` for layers with int32 results that are dequantized: 1x1 kernels, and larger ones.
        pointwise: time per element of a node without weights.
        conversion: time per element of QuantizeLinear or DequantizeLinear.
        layout: additional time per element to convert an image (rank 4 or more) between the layouts of both kernels.
        call: time of any kernel call.
    """

    products: tuple[Rate, Rate]
    windows: tuple[Rate, Rate]
    grouped: tuple[Rate, Rate]
    sums: tuple[Rate, Rate]
    pointwise: Rate
    conversion: float
    layout: float
    call: Rate


@dataclass(frozen=True, slots=True)
class Target:
    """The quantized operators and element types that a runtime supports.

    Attributes:
        name: name in the command line.
        formats: model formats of the runtime, default first.
        weighted: operators with integer kernels for a constant weight.
        leaves_float: operators of `weighted` with float results, which are not quantized.
        summing: operators with another, slower kernel that returns int32 sums (not for groups).
        pointwise: operators without weights that have integer kernels.
        fused: operators fused into the preceding layer: the value between both is not quantized.
        absorbed: operators fused into a preceding float convolution, but not into an integer one.
        shared: operators that require equal scales of operands and results, in addition to data movement.
        per_channel: operators with per-channel weight scales.
        activation: default element type of activations.
        activations: supported element types of activations; empty for all.
        weights: supported element types of weights; empty for all.
        wide: 16-bit element type of activations, if supported.
        mixes: whether single layers may use `wide`.
        has_blocks: whether weights may have a scale for each block along the reduction axis.
        block: required block size; 0 for any.
        half_scales: whether block scales are float16.
        only_weights: whether only weights are quantized.
        has_zeros: whether fast kernels support zero points of blocks of 4 bits or fewer.
        block_weights: element types of block-quantized weights with 8-bit activations; empty for all.
        symmetric: whether the zero point of activations is the middle of the range.
        weight: default element type of weights.
        products: whether products of two activations are quantized.
        bias_bits: bits of biases, with the scale of input times weight; 0 for float biases.
        pairs: whether processors without dot product instructions add two products in 16 bits (saturation).
        pairs_by_place: whether both products are from channels of one kernel element.
        power_of_two: whether scales must be powers of two.
        is_simulated: whether the noise is measured in another runtime, which computes every node unfused.
        inputs_only: whether only operands of weighted operators are quantized.
        tries_writer: whether the writer is run on each plan to find unsupported layers.
        is_beside: whether scales are also written to a table file.
        axes: supported numbers of spatial axes of integer convolutions; empty for all.
        product_axes: maximum rank of the operand of a product with a constant matrix; 0 for any.
        real_groups: convolutions whose results per group are a multiple of this are not quantized; 0 for none.
        grouped_axes: maximum number of spatial axes of grouped convolutions; 0 for any.
        unknown: operators without weights, with the attributes whose combination has no kernel.
        real_biased: operators that are not quantized if a constant is added to their result.
        by_group: whether grouped convolutions have a weight scale for each group instead of each channel.
        real_depthwise: whether depthwise convolutions are not quantized by default.
        is_narrow: whether the smallest code of activations is unused.
        guarded: operators that the runtime quantizes between integer nodes by itself; float ones need a barrier.
        for_all: whether all consumers of a value quantized for a weighted operator read the quantized value.
        is_dynamic: whether kernels exist that quantize activations at run time.
        rounds_rows: whether these have a scale for each row.
        stored: element types of weights that are dequantized before a float product.
        half_kernels: how to enable float16 kernels, or why there are none.
        table: element type of quantized tables that Gather reads, if supported.
        encodings: file type of a separate text with scales for a float model; empty if the graph contains them.
        is_whole: whether a consumer may require an integer model: cheap layers are quantized, too.
        has_whole: whether integer models with integer inputs and outputs (`full_integer`) are supported.
        decomposes: operators that are decomposed for integer models.
        constants: whether operators without weights, except `shared`, accept constants of any number of elements.
        centred: element types of activations that require the zero point 0.
        fixed: operators with a fixed (element type, scale, zero point) of results.
        bytes_only: operators with integer kernels for 8-bit activations only.
        halves: whether weights may be stored as float16.
        short_factors: element types of activations whose convolution kernels multiply sums by a 15-bit ratio of scales.
        flavour: variant of the format that the runtime reads, if there are several.
        rates: approximate kernel times, if known; they decide which layers are too cheap to quantize.
    """

    name: str
    formats: tuple[str, ...]
    weighted: frozenset[str]
    leaves_float: frozenset[str] = frozenset()
    summing: frozenset[str] = frozenset()
    pointwise: frozenset[str] = frozenset()
    fused: frozenset[str] = frozenset()
    absorbed: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    per_channel: frozenset[str] = frozenset()
    activation: DType = DType.UINT8
    symmetric: bool = False
    weight: DType = DType.INT8
    activations: frozenset[DType] = frozenset()
    weights: frozenset[DType] = frozenset()
    wide: DType | None = None
    mixes: bool = False
    has_blocks: bool = True
    block: int = 0
    half_scales: bool = False
    only_weights: bool = False
    has_zeros: bool = False
    block_weights: frozenset[DType] = frozenset()
    products: bool = False
    bias_bits: int = 32
    pairs: bool = False
    pairs_by_place: bool = False
    power_of_two: bool = False
    is_simulated: bool = True
    inputs_only: bool = False
    tries_writer: bool = False
    is_beside: bool = False
    for_all: bool = False
    axes: tuple[int, ...] = ()
    product_axes: int = 0
    real_groups: int = 0
    grouped_axes: int = 0
    unknown: tuple[tuple[str, frozenset[str]], ...] = ()
    real_biased: frozenset[str] = frozenset()
    by_group: bool = False
    real_depthwise: bool = False
    is_narrow: bool = False
    guarded: frozenset[str] = frozenset()
    is_dynamic: bool = False
    rounds_rows: bool = False
    stored: frozenset[DType] = frozenset()
    half_kernels: str = ""
    table: DType | None = None
    encodings: str = ""
    is_whole: bool = False
    has_whole: bool = False
    decomposes: frozenset[str] = frozenset()
    constants: bool = False
    centred: frozenset[DType] = frozenset()
    fixed: tuple[tuple[str, DType, float, int], ...] = ()
    bytes_only: frozenset[str] = frozenset()
    halves: bool = False
    short_factors: frozenset[DType] = frozenset()
    flavour: str | None = None
    rates: Rates | None = None

    def fixed_qparams(self, op: str, dtype: DType) -> tuple[float, int] | None:
        """Return the fixed scale and zero point of results of `op` in `dtype`; `None` if they are free."""
        found = [(scale, zero) for name, known, scale, zero in self.fixed if (name, known) == (op, dtype)]
        return found[0] if found else None
