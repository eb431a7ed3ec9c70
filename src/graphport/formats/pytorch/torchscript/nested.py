"""Nested tensors of transformer encoders: padded tensors with a mask of their valid rows.

PyTorch packs the rows of a batch if its padding mask is left-aligned; then the padding of the result is zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.scalar_functions import static_items_or_none
from graphport.formats.pytorch.torchscript.values import Nested, Tensor

if TYPE_CHECKING:
    from graphport.formats.pytorch.torchscript.context import Calls

_MASK = 18
"""Index of `mask` in the arguments of `_transformer_encoder_layer_fwd`, before `mask_type`."""
_KEY_PADDING = 1


def from_mask(ops: Calls, t: Tensor, mask: Tensor, mask_check: Any = None) -> Nested:
    """Return a nested tensor of the rows of `t` [n, s, c] where `mask` [n, s] is true."""
    del mask_check
    before, after = (ops.on_tensors("slice", [mask, 1, *ends], {}) for ends in ((0, -1), (1, None)))
    is_behind_padding = ops.on_tensors("logical_and", [after, ops.on_tensors("logical_not", [before], {})], {})
    is_ragged = ops.on_tensors("any", [is_behind_padding], {})
    return Nested(t.value, padding=ops.on_tensors("logical_not", [mask], {}), is_ragged=is_ragged)


def encoder_layer(ops: Calls, src: Tensor, *given: Any, **named: Any) -> Tensor:
    """Evaluate a transformer encoder layer; the padding of a nested tensor is masked as a key."""
    if not isinstance(src, Nested):
        return ops.on_tensors("_transformer_encoder_layer_fwd", [src, *given], named)
    if named or any(x is not None for x in given[_MASK - 1 :]):
        refuse("TS0009", "an encoder layer gets a nested tensor and a mask")
    arguments = [Tensor(src.value), *given[: _MASK - 1], src.padding, _KEY_PADDING]
    return replace(src, value=ops.on_tensors("_transformer_encoder_layer_fwd", arguments, {}).value)


def to_padded(ops: Calls, tensor: Any, padding: Any, output_size: Any = None) -> Tensor:
    """Convert a nested tensor to a padded one, whose padding has the value `padding` if the rows are left-aligned."""
    if not isinstance(tensor, Nested):
        refuse("TS0009", "to_padded_tensor takes a nested tensor, which _nested_tensor_from_mask creates")
    shape, sizes = ops.emitter.shape(tensor), static_items_or_none(output_size)
    if sizes is None or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(sizes, shape, strict=True)
    ):
        refuse("TS0009", "to_padded_tensor has another size than the tensor before it was packed")
    is_aligned = ops.on_tensors("logical_not", [tensor.is_ragged], {})
    mask = ops.on_tensors("unsqueeze", [ops.on_tensors("logical_and", [tensor.padding, is_aligned], {}), -1], {})
    return ops.on_tensors("masked_fill", [Tensor(tensor.value), mask, padding], {})
