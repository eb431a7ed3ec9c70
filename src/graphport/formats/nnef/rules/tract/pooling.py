"""Pooling in tract's NNEF: windows slide over spatial axes only; entries for batch and channels are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution_borders import bordered, emitted_padding
from graphport.formats.nnef.rules.convolution_borders import static_dims as known_dims
from graphport.formats.nnef.rules.pooling import pools
from graphport.formats.nnef.rules.pooling.arrangement import Pooling, arranged
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule
from graphport.ops import registry
from graphport.ops.definitions.convolution.window import integer_pads
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.windows import window_options
from graphport.ops.views.pooling import MaxPoolView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


def spatial(attributes: dict[str, Any]) -> Pooling:
    """Return window attributes with size 1, stride 1 and no padding on the first two axes."""
    found = dict(attributes)
    for name, own in (("size", 1), ("stride", 1), ("dilation", 1), ("padding", (0, 0))):
        given = found.get(name)
        if given and len(given) > 2:
            found[name] = (own, own, *given[2:])
    return Pooling(**found)


@import_rule("max_pool")
def max_pool(b: Builder, input: Value, **attributes: Any) -> Value:
    """Max pooling; padding is ignored."""
    return pools.max_pool(b, spatial({**attributes, "border": "ignore"}), input)


@import_rule("avg_pool")
def avg_pool(b: Builder, input: Value, **attributes: Any) -> Value:
    """Average pooling."""
    return pools.avg_pool(b, spatial(attributes), input)


@import_rule("box")
def box(b: Builder, input: Value, *, normalize: bool = False, **attributes: Any) -> Value:
    """Sum pooling, or average pooling with `normalize`."""
    return pools.box(b, spatial(attributes), input, normalize=normalize)


@import_rule("rms_pool")
def rms_pool(b: Builder, input: Value, **attributes: Any) -> Value:
    """Root mean square pooling."""
    return pools.rms_pool(b, spatial(attributes), input)


@import_rule("max_pool_with_index")
def max_pool_with_index(b: Builder, input: Value, **attributes: Any) -> tuple[Value, Value]:
    """Max pooling; return also the index of the maximum in the flattened spatial axes."""
    found = arranged(b, input, spatial(attributes))
    x, slide = bordered(b, found.x, found.slide, "ignore", native="ignore")
    dims = b.dims(x)
    attributes = slide.attributes(dims[2:])
    y, indices = b.results(registry.op_defs()["MaxPool"], 2, x, kernel_shape=known_dims(slide.kernel), **attributes)
    emit = OpBuilder(b)
    plane = emit("ReduceProd", emit("Shape", x, start=2), [0], keepdims=0)
    return found.restored(b, y), found.restored(b, emit("Mod", indices, plane))


@MaxPoolView.export_rule(DIALECT)
def export_max_pool(b: Builder, op: MaxPoolView) -> Any:
    """Export MaxPool with indices, which tract counts per channel and ONNX in the tensor."""
    dims = b.dims(op.x)
    static_dims = [dim for dim in dims if isinstance(dim, int)]
    if not b.wants(1) or op.storage_order or len(static_dims) < len(dims):
        return None
    count = len(op.kernel_shape)
    found = emitted_padding(dims[2:], op.kernel_shape, **window_options(op))
    if found is None:
        return None
    padding = found[0] or integer_pads(found[1].pads)
    given: dict[str, Any] = {
        "size": (1, 1, *op.kernel_shape),
        "border": "ignore",
        "padding": ((0, 0), (0, 0), *padding),
        "stride": (1, 1, *(op.strides or (1,) * count)),
        "dilation": (1, 1, *(op.dilations or (1,) * count)),
    }
    free = TensorFact(None, None)
    y, place = b.emit("max_pool_with_index", op.x, facts=[free, free], **given)
    planes = np.arange(reserve(*static_dims[:2]), dtype=np.int64).reshape(*static_dims[:2], *[1] * count)
    (index,) = b.emit("add", place, b.constant(planes * int(np.prod(static_dims[2:]))), facts=[free])
    return y, index
