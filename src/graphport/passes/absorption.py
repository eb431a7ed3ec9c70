"""Fold an affine map into the weights and bias of the operator before or after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.products import constant_elements
from graphport.passes.affine import Affine, of_batchnorm
from graphport.passes.journal import NotApplicable
from graphport.passes.substitution import Scaled, float_elements, is_real_constant, rounded, set_constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.graph import Node, Value

    Reals: TypeAlias = NDArray[np.float64]
    Stored: TypeAlias = NDArray[Any]


def absorb_after(node: Node, affine: Affine) -> None:
    """Fold a following `x * factor + summand` into `node`, the producer of `x`.

    Conv and ConvTranspose: `w * k`, `b * k + s`, with the factor along the output channels.
    Gemm: `alpha * A @ (B * k) + (beta * C * k + s)`; its `beta` becomes 1.
    MatMul: the factor only, into the constant operand that has the channel axis.
    BatchNormalization: `scale * k`, `B * k + s`.

    Raises:
        Left: a weight or bias to change is not a float constant, or a result would not be finite.
    """
    _AFTER[node.op](node, affine)


def is_absorbing(node: Node) -> bool:
    """Whether `absorb_after` supports the operator."""
    return node.op in _AFTER


def absorb_before(node: Node, affine: Affine) -> None:
    """Fold `x * factor + summand`, the first operand of `node`, into the weights of `node`.

    Conv: `w * k` with the factor along the input channels, and `bias + sum(w * s)` over the window. This is valid
    without padding, or with a summand of 0. Gemm and MatMul of rank 2: rows of the weight.

    Raises:
        Left: a weight or bias is not a float constant, or the convolution pads.
    """
    _BEFORE[node.op](node, affine)


def is_foldable_before(node: Node) -> bool:
    """Whether `absorb_before` supports the operator."""
    return node.op in _BEFORE


def weight_of(node: Node, index: int = 1) -> Reals:
    """Return the elements of a weight.

    Raises:
        Left: the operand is not a float constant.
    """
    found = float_elements(node.operand(index))
    if found is None:
        value = node.operand(index)
        raise NotApplicable(f"the weight {value.name if value else ''} of {node.op} is not a float constant")
    return found


def _bias_of(node: Node) -> Reals | None:
    if node.operand(2) is None:
        return None
    found = float_elements(node.operand(2))
    if found is None:
        raise NotApplicable(f"the bias of {node.op} is not constant")
    return found


def _stored(node: Node, index: int = 1) -> Stored:
    """Return the storage of a weight without reading it.

    Raises:
        Left: the operand is not a float constant.
    """
    value = node.operand(index)
    found = constant_elements(value) if is_real_constant(value) else None
    if found is None:
        raise NotApplicable(f"the weight {value.name if value else ''} of {node.op} is not a float constant")
    return found


def _replace(node: Node, new: dict[int, Reals | Scaled | None]) -> None:
    """Compute all replacement operands, then set them; if one fails, the node is unchanged."""
    dtype = _dtype(node)
    storages: dict[int, Storage] = {}
    for index, array in new.items():
        if array is None:
            continue
        storage = array.rounded(dtype) if isinstance(array, Scaled) else rounded(array, dtype)
        if storage is None:
            raise NotApplicable(f"a parameter of {node.op} would overflow {dtype}")
        storages[index] = storage
    stem = node.name or node.output.name
    for index, storage in storages.items():
        set_constant(node, index, storage, f"{stem}.{'weight' if index < 2 else 'bias'}")


def _dtype(node: Node) -> DType:
    for value in node.operands:
        if isinstance(value.fact, TensorFact) and value.fact.dtype is not None:
            return value.fact.dtype
    raise NotApplicable("its element type is unknown")


def _mapped(bias: Reals | None, affine: Affine) -> Reals | None:
    """Return `bias * factor + summand`, or None if bias and summand are absent."""
    if bias is not None and affine.factor is not None:
        bias = bias * affine.factor
    if affine.summand is None:
        return bias
    return affine.summand if bias is None else bias + affine.summand


def _after_conv(node: Node, affine: Affine) -> None:
    _after_windowed(node, affine, _maps_of_conv, lambda w, k, _: Scaled(w, k.reshape(-1, *[1] * (w.ndim - 1))))


def _after_transposed(node: Node, affine: Affine) -> None:
    _after_windowed(node, affine, _maps_of_transposed, _scaled_transposed)


def _after_windowed(
    node: Node,
    affine: Affine,
    count: Callable[[Node], int],
    scaled: Callable[[Stored, Reals, int], Scaled],
) -> None:
    maps = count(node)
    _check_length(affine, maps)
    new: dict[int, Reals | Scaled | None] = {}
    if affine.factor is not None:
        factor = np.broadcast_to(affine.factor, (maps,))
        new[1] = scaled(_stored(node), factor, _group(node))
    bias = _mapped(_bias_of(node), affine)
    if bias is not None:
        new[2] = np.broadcast_to(bias, (maps,))
    _replace(node, new)


def _scaled_transposed(w: Stored, factor: Reals, group: int) -> Scaled:
    # [C, M/g, *k]: for each input channel, the output channels of its group.
    along = factor.reshape(group, -1)
    rows = along if group == 1 else np.repeat(along, w.shape[0] // group, axis=0)
    return Scaled(w, rows.reshape(*rows.shape, *[1] * (w.ndim - 2)))


def _group(node: Node) -> int:
    group = node.attributes.get("group", 1)
    return group if isinstance(group, int) else 1


def _dim(value: Value | None, axis: int) -> int:
    fact = None if value is None else value.fact
    dim = fact.shape[axis] if isinstance(fact, TensorFact) and fact.shape is not None else None
    if not isinstance(dim, int):
        raise NotApplicable("the number of channels is unknown")
    return dim


def _maps_of_conv(node: Node) -> int:
    return _dim(node.operand(1), 0)


def _maps_of_transposed(node: Node) -> int:
    return _dim(node.operand(1), 1) * _group(node)


def _after_gemm(node: Node, affine: Affine) -> None:
    new: dict[int, Reals | Scaled | None] = {}
    if affine.factor is not None:
        new[1] = _scaled_columns(node, affine.factor)
    summand = _mapped(_beta_times_c(node), affine)
    if summand is not None:
        new[2] = np.atleast_1d(summand)
    _replace(node, new)
    if summand is not None:
        node.remove_attribute("beta")


def _check_length(affine: Affine, count: int) -> None:
    for array in (affine.factor, affine.summand):
        if array is not None and array.size not in (1, count):
            raise NotApplicable(f"{array.size} elements do not match {count} channels")


def _scaled_columns(node: Node, factor: Reals) -> Scaled:
    w = _stored(node)
    _check_length(Affine(factor, None), w.shape[0 if node.attributes.get("transB") else 1])
    return Scaled(w, factor.reshape((-1, 1) if node.attributes.get("transB") else (1, -1)))


def _beta_times_c(node: Node) -> Reals | None:
    c = _bias_of(node)
    beta = node.attributes.get("beta", 1.0)
    return c if c is None or not isinstance(beta, int | float) else c * beta


def add_to_gemm(node: Node, array: Reals) -> None:
    """Add `array`, which broadcasts to the result, to the summand of a `Gemm`: `beta * C + array`.

    Raises:
        Left: the present summand is not a float constant.
    """
    c = _beta_times_c(node)
    _replace(node, {2: np.atleast_1d(array if c is None else c + array)})
    node.remove_attribute("beta")


def _after_batchnorm(node: Node, affine: Affine) -> None:
    of_batchnorm(node)
    scale, shift = weight_of(node, 1), weight_of(node, 2)
    _check_length(affine, scale.size)
    new: dict[int, Reals | Scaled | None] = {2: _mapped(shift, affine)}
    if affine.factor is not None:
        new[1] = scale * affine.factor
    _replace(node, new)


def _after_matmul(node: Node, affine: Affine) -> None:
    if affine.summand is not None:
        raise NotApplicable("a MatMul has no bias")
    if affine.factor is None:
        return
    for index in (1, 0):
        w = constant_elements(node.operand(index)) if is_real_constant(node.operand(index)) else None
        if w is None:
            continue
        shape = _factor_shape(node, w.shape, index, affine.factor.size)
        if shape is not None:
            _replace(node, {index: Scaled(w, affine.factor.reshape(shape))})
            return
    raise NotApplicable("no constant operand of the MatMul has the channel axis")


def _factor_shape(node: Node, shape: tuple[int, ...], index: int, count: int) -> tuple[int, ...] | None:
    """Return the shape in which `count` factors along axis 1 of the product multiply operand `index`, or None."""
    if count == 1:
        return (1,) * len(shape)
    fact = node.output.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or len(shape) < 2:
        return None
    axis = 1 - (len(fact.shape) - len(shape))
    summed = len(shape) - (2 if index else 1)
    if axis < 0 or axis == summed or shape[axis] != count:
        return None
    return tuple(count if each == axis else 1 for each in range(len(shape)))


def _before_conv(node: Node, affine: Affine) -> None:
    w = weight_of(node)
    group = _group(node)
    channels = w.shape[1] * group
    _check_length(affine, channels)
    summand = affine.summand
    if summand is not None and summand.any() and _may_pad(node):
        raise NotApplicable("the convolution pads with zeros, and the summand would have to be padded instead")
    split = w.reshape(group, -1, *w.shape[1:])
    along = (group, 1, w.shape[1], *[1] * (w.ndim - 2))
    new: dict[int, Reals | Scaled | None] = {}
    if summand is not None and summand.any():
        full = np.broadcast_to(summand, (channels,)).reshape(along)
        added = (split * full).reshape(w.shape[0], -1).sum(axis=1)
        bias = _bias_of(node)
        new[2] = added if bias is None else bias + added
    if affine.factor is not None:
        new[1] = (split * np.broadcast_to(affine.factor, (channels,)).reshape(along)).reshape(w.shape)
    _replace(node, new)


def _may_pad(node: Node) -> bool:
    match node.attributes.get("auto_pad", "NOTSET"):
        case "VALID":
            return False
        case "NOTSET":
            pads = node.attributes.get("pads")
            return isinstance(pads, tuple) and any(pads)
        case _:
            return True


def _before_gemm(node: Node, affine: Affine) -> None:
    if node.attributes.get("transA"):
        raise NotApplicable("the channels are the rows of the product")
    w = weight_of(node)
    rows = w.T if node.attributes.get("transB") else w
    _check_length(affine, rows.shape[0])
    new: dict[int, Reals | Scaled | None] = {}
    if affine.summand is not None:
        alpha = node.attributes.get("alpha", 1.0)
        added = np.broadcast_to(affine.summand, (rows.shape[0],)) @ rows
        added = added * alpha if isinstance(alpha, int | float) else added
        c = _beta_times_c(node)
        new[2] = added if c is None else c + added
    if affine.factor is not None:
        scaled = rows * np.broadcast_to(affine.factor, (rows.shape[0],))[:, None]
        new[1] = scaled.T if node.attributes.get("transB") else scaled
    _replace(node, new)
    if 2 in new:
        node.remove_attribute("beta")


def _before_matmul(node: Node, affine: Affine) -> None:
    if any(not isinstance(v.fact, TensorFact) or v.fact.shape is None or len(v.fact.shape) != 2 for v in node.operands):
        raise NotApplicable("an operand of the MatMul is not a matrix")
    _before_gemm(node, affine)
    if node.operand(2) is not None:
        node.op_type = "Gemm"


_AFTER: dict[str, Callable[[Node, Affine], None]] = {
    "Conv": _after_conv,
    "ConvTranspose": _after_transposed,
    "Gemm": _after_gemm,
    "MatMul": _after_matmul,
    "BatchNormalization": _after_batchnorm,
}

_BEFORE: dict[str, Callable[[Node, Affine], None]] = {
    "Conv": _before_conv,
    "Gemm": _before_gemm,
    "MatMul": _before_matmul,
}
