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
    """Roughly what kernels take on one thread of a processor with dot products of bytes, in nanoseconds: real, rounded.

    Attributes:
        products: of a layer, for each of its results, and for each product that this adds up.
        windows: the same of a convolution that slides over more than one place.
        grouped: the same of a convolution of groups of channels, or of each by itself.
        sums: the same of a layer that gives its sums, with taking them back: over one place, and over more.
        pointwise: of a result of a node without weights.
        conversion: of an element that is rounded or taken back.
        layout: of an element of a map (of four axes and more) besides, whose channels real and rounded kernels have
            in other places.
        call: of any kernel.
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
    """A runtime: which operators it computes on integers, and on which grids.

    Attributes:
        name: what users call it.
        formats: formats that a model for it is written in; the first one by default.
        weighted: operators with a constant weight that have kernels for integers.
        leaves_float: those among them whose kernels give floating results: these are not quantized.
        summing: operators with another kernel, slower, that gives the sums of products as they are (not in groups).
        pointwise: operators without weights that have kernels for integers.
        fused: operators that disappear in the layer before them: the value between is not quantized.
        absorbed: operators that disappear in a real convolution before them, and in one of integers do not.
        shared: operators whose operands and results must have one grid, besides those that only move data.
        per_channel: operators whose weight may have a scale for each channel.
        activation: element type of activations.
        activations: the element types that activations may have; none for all.
        weights: the same for weights.
        wide: element type of activations of 16 bits, where they take part in plans.
        mixes: whether single layers may have those.
        has_blocks: whether entries along the summed axis may have scales of their own.
        block: how many entries share a scale, where there is one way only; 0 for any number.
        half_scales: scales of blocks are of half precision.
        only_weights: activations stay real: it has codes for weights alone.
        has_zeros: whether blocks of few bits have zero points of their own in its fast kernels.
        block_weights: element types of weights that may have them beside activations of eight bits; none for all.
        symmetric: whether zero is the middle of their range.
        weight: element type of weights.
        products: whether matrix products of two activations are quantized.
        bias_bits: of biases, in steps of the product of scales; 0 where they stay floating.
        pairs: whether products of two neighbours are added in 16 bits by processors without instructions for it.
        pairs_by_place: whether these are two channels of one place of a kernel, never of two places.
        power_of_two: whether scales must be powers of two.
        is_simulated: whether it is another runtime than that which measures noise: then every node is computed as it
            stands.
        inputs_only: only what weighted operators read is quantized.
        is_beside: grids are written to a table, too.
        axes: over how many axes convolutions on integers slide; none for any number.
        product_axes: how many axes what is multiplied with a constant matrix may have; 0 for any number.
        real_groups: groups of so many results, or of a multiple, stay real; 0 for none.
        grouped_axes: over how many axes convolutions in groups slide at most; 0 for any number.
        unknown: operators without weights, each with attributes whose combination its kernel does not know.
        real_biased: operators that stay real where a constant is added to their result.
        by_group: the weight of a convolution in groups has a scale for each group, not for each channel.
        real_depthwise: convolutions of each channel by itself are left real, unless somebody asks for them.
        is_narrow: the least code of activations is not used.
        guarded: operators that the runtime computes on integers wherever they stand between such, with weights that it
            rounds by itself: where they are to stay real, they are kept apart from what is rounded.
        for_all: what weighted operators read rounded, everybody does.
        is_dynamic: it has kernels for products whose activations are rounded while they run.
        rounds_rows: they round each row by itself.
        stored: element types in which it reads weights that it multiplies as real numbers.
        half_kernels: whether it computes on reals of 16 bits itself, and how it is asked to; or why not.
        table: the element type of codes in tables that it picks rows out of, where it does that.
        encodings: the form of a text beside a real model that tells its grids; none where roundings stand in the graph.
        is_whole: who reads the result may compute on integers only: no layer stays real because it is cheap.
        has_whole: a model may compute on integers alone there, from its inputs to its outputs (`full_integer`).
        decomposes: operators that are replaced by others if a model computes on integers alone.
        constants: constants of any number of elements are operands of operators without weights, not of shared ones.
        centred: element types of activations that have zero points of 0 only.
        fixed: operators whose results have one grid alone: for each element type its scale and zero point.
        bytes_only: operators that have kernels for activations of eight bits and for no wider ones.
        halves: weights may be stored in half precision, and are taken back before they are used.
        short_factors: element types of activations in which kernels of convolutions multiply sums by 15 bits of the
            quotient of all scales.
        flavour: of the words that its format has, those that it reads, where there are several.
        rates: what its kernels take, where that is known: it decides which layers are cheap enough to stay real.
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
        """Scale and zero point that results of `op` have in `dtype`, where its kernels know no others."""
        found = [(scale, zero) for name, known, scale, zero in self.fixed if (name, known) == (op, dtype)]
        return found[0] if found else None
