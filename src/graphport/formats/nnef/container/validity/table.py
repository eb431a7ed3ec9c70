"""Rules for the arguments of an operation beyond their types: ranges, lengths, names, and compatible shapes.

Rules use the known parts of operands' shapes and report certain errors only: symbolic dims and unknown operands pass.
They do not compute result shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.nnef.container.validity.arguments import (
    all_positive,
    bit_count,
    copy_count,
    lengths_fit,
    one_border,
    one_method,
    paddings_at_least_0,
    positive_shape,
    some_summed,
    superseded,
    valid_axes,
    valid_axis,
    value_count,
)
from graphport.formats.nnef.container.validity.case import Case, Rule
from graphport.formats.nnef.container.validity.shapes import (
    broadcasting,
    is_permutation,
    joining,
    linear_fits,
    matrices_fit,
    reshaping,
    slicing,
    splitting,
    squeezing,
    unsqueezing,
    update_fits,
)
from graphport.formats.nnef.container.validity.windows import (
    convolving,
    factors_divide,
    indexing,
    pooling,
    regions_fit,
    separable_convolution,
    unpooling,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Diagnostic
    from graphport.formats.nnef.container.operation import Operation


_BORDERS = ("constant", "replicate", "reflect", "reflect-even", "ignore")


def faults(operation: Operation, *, is_final: bool) -> Iterator[Diagnostic]:
    """Yield the errors in the arguments of `operation`."""
    case = Case(operation, is_final)
    for rule in RULES.get(operation.name, ()):
        yield from rule(case)


_WINDOW = ("padding", "stride", "dilation")

_POSITIVE_WINDOW = all_positive("size", "stride", "dilation")

_POOL: tuple[Rule, ...] = (
    one_border(*_BORDERS),
    _POSITIVE_WINDOW,
    paddings_at_least_0,
    lengths_fit("input", "size", may_be_empty=False),
    lengths_fit("input", *_WINDOW),
    pooling,
)

_UNPOOL: tuple[Rule, ...] = (
    _POSITIVE_WINDOW,
    paddings_at_least_0,
    all_positive("output_shape"),
    lengths_fit("input", "size", may_be_empty=False),
    lengths_fit("input", *_WINDOW),
    unpooling,
)

_CONVOLUTION: tuple[Rule, ...] = (
    one_border("constant", "replicate", "reflect", "reflect-even"),
    all_positive("stride", "dilation", "output_shape"),
    paddings_at_least_0,
    lengths_fit("input", *_WINDOW, skipped=2),
)

_FACTOR: tuple[Rule, ...] = (all_positive("factor"), lengths_fit("input", "factor", skipped=2, may_be_empty=False))

_REDUCE: tuple[Rule, ...] = (valid_axes("input"),)

_NORMALIZE: tuple[Rule, ...] = (all_positive("size"), lengths_fit("input", "size", may_be_empty=False))

_REGIONS: tuple[Rule, ...] = (
    all_positive("output_size", "sampling_rate"),
    lengths_fit("input", "output_size", "sampling_rate", skipped=2, may_be_empty=False),
    regions_fit,
)

_ELEMENTWISE: tuple[Rule, ...] = (broadcasting,)

_BINARY = (
    *("add", "sub", "mul", "div", "pow", "lt", "gt", "le", "ge", "eq", "ne", "and", "or", "min", "max"),
    *("select", "clamp", "prelu", "batch_normalization"),
)

RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("external", "variable"), (positive_shape,)),
    "constant": (positive_shape, value_count),
    **dict.fromkeys(_BINARY, _ELEMENTWISE),
    **dict.fromkeys(("conv", "deconv", "planewise_conv", "planewise_deconv"), (*_CONVOLUTION, convolving)),
    **dict.fromkeys(("separable_conv", "separable_deconv"), (*_CONVOLUTION, separable_convolution)),
    **dict.fromkeys(("box", "max_pool", "avg_pool", "rms_pool", "argmax_pool", "max_pool_with_index"), _POOL),
    "sample": (*_POOL, indexing),
    "debox": (one_border(*_BORDERS), *_UNPOOL),
    "desample": (one_border("constant"), *_UNPOOL, indexing),
    **dict.fromkeys(("nearest_downsample", "area_downsample"), (*_FACTOR, factors_divide)),
    "nearest_upsample": _FACTOR,
    "multilinear_upsample": (*_FACTOR, one_method(), one_border("constant", "replicate", "reflect", "reflect-even")),
    **dict.fromkeys(
        ("sum_reduce", "max_reduce", "min_reduce", "mean_reduce", "argmax_reduce", "argmin_reduce", "all_reduce"),
        _REDUCE,
    ),
    **dict.fromkeys(("any_reduce", "moments", "l1_normalization", "l2_normalization"), _REDUCE),
    "softmax": (valid_axes("x"),),
    "reshape": (reshaping,),
    "squeeze": (valid_axes("input"), squeezing),
    "unsqueeze": (unsqueezing,),
    "transpose": (is_permutation,),
    "split": (valid_axis("value"), all_positive("ratios"), splitting),
    "concat": (valid_axis("values"), joining),
    "stack": (valid_axis("values", more=1), joining),
    "unstack": (valid_axis("value"),),
    "slice": (valid_axes("input"), slicing),
    "pad": (
        one_border("constant", "replicate", "reflect", "reflect-even"),
        lengths_fit("input", "padding", may_be_empty=False),
    ),
    "tile": (all_positive("repeats"), lengths_fit("input", "repeats", may_be_empty=False)),
    "gather": (valid_axis("input"),),
    **dict.fromkeys(("avg_roi_pool", "max_roi_pool"), _REGIONS),
    "roi_resample": (
        one_method(),
        *_REGIONS[:1],
        lengths_fit("input", "output_size", skipped=2, may_be_empty=False),
        regions_fit,
    ),
    **dict.fromkeys(("avg_roi_align", "max_roi_align"), (one_method("resize_method"), *_REGIONS)),
    "matmul": (matrices_fit,),
    "linear": (linear_fits,),
    "update": (update_fits,),
    **dict.fromkeys(
        (
            *("local_response_normalization", "local_mean_normalization"),
            *("local_variance_normalization", "local_contrast_normalization"),
        ),
        _NORMALIZE,
    ),
    **dict.fromkeys(
        ("min_max_linear_quantize", "zero_point_linear_quantize", "logarithmic_quantize"), (bit_count, broadcasting)
    ),
    "linear_quantize": (superseded, bit_count, broadcasting),
    "copy_n": (copy_count,),
    "add_n": (some_summed,),
}
"""The rules of each operation; where an operation has parameters that another lacks, rules pass over them."""
