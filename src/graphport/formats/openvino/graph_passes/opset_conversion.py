"""Rules from newer OpenVINO operations to older ones, for devices with older software."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.attention import attended
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import dtype_of, float_elements, integers, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.ir.graph import Node, Value
    from graphport.ops.builder import Builder

Older: TypeAlias = "Callable[[Builder, Node], tuple[Value, ...]]"
"""Function of a builder and a node that returns the replacements of the node's results."""

_BYTE = 8
_LARGE = 1 << 31
"""Ends of a slice beyond any extent."""


def set_of(op_type: str) -> int:
    """Return the first operation set that has an op type."""
    return int(op_type[len("opset") : op_type.index(".")])


def rule(op_type: str, newest: int) -> Older | None:
    """Return the rule from a newer op type to older ones; `None` if `newest` has the op type or there is no rule."""
    return _RULES.get(op_type) if set_of(op_type) > newest else None


def _only(claim: bool, what: str) -> None:  # noqa: FBT001  it is the sentence's first word
    if not claim:
        message = f"older operation sets do not support {what}"
        raise UnsupportedError(message)


def _use_version(op_type: str, *dropped: str, **needed: Any) -> Older:
    """Convert to the older `op_type`: remove the attributes `dropped`, require the values `needed`, keep all others."""

    def emitted(b: Builder, node: Node) -> tuple[Value, ...]:
        for name, wanted in needed.items():
            own = _attributes_of(node).get(name, wanted)
            _only(own == wanted, f"{name} = {own}")
        kept = {name: a for name, a in _attributes_of(node).items() if name not in dropped and name not in needed}
        return emits(b, op_type, len(node.outputs), *node.inputs, **kept)

    return emitted


def _apply_formula(function: Callable[[Builder, Value], Value]) -> Older:
    """Apply a formula to the single operand."""
    return lambda b, node: (function(b, _x(node)),)


def _attributes_of(node: Node) -> dict[str, Any]:
    return dict(node.attributes)


def _x(node: Node, place: int = 0) -> Value:
    value = node.operand(place)
    if value is None:
        message = f"missing input {place} of {node.op}"
        raise UnsupportedError(message)
    return value


def _identity(b: Builder, node: Node) -> tuple[Value, ...]:
    dtype = dtype_of(_x(node))
    _only(dtype is not DType.STRING and dtype.bits >= _BYTE, f"a copy of {dtype}")
    return (emit(b, "opset1.Convert", _x(node), destination_type=dtype),)


def _average_pool(b: Builder, node: Node) -> tuple[Value, ...]:
    _only(all(n == 1 for n in _attributes_of(node).get("dilations", ())), "dilated average pooling")
    return _use_version("opset14.AvgPool", "dilations")(b, node)


def _rounded_pool(op_type: str, *dropped: str, **needed: Any) -> Older:
    def emitted(b: Builder, node: Node) -> tuple[Value, ...]:
        _only(_attributes_of(node).get("rounding_type", "floor") != "ceil_torch", "rounding_type = ceil_torch")
        return _use_version(op_type, *dropped, **needed)(b, node)

    return emitted


def _max_pool(b: Builder, node: Node) -> tuple[Value, ...]:
    _only(all(n == 1 for n in _attributes_of(node).get("dilations", ())), "dilated pooling")
    _only(not any(value.uses or value.is_output for value in node.results[1:]), "the indices output of MaxPool")
    kept = {
        name: a for name, a in _attributes_of(node).items() if name not in ("dilations", "axis", "index_element_type")
    }
    found = emit(b, "opset1.MaxPool", _x(node), **kept)
    return (found, *(found for _ in node.outputs[1:]))


def _pad(b: Builder, node: Node) -> tuple[Value, ...]:
    edges = [integers(node.operand(place)) for place in (1, 2)]
    _only(all(side is not None and min(side, default=0) >= 0 for side in edges), "negative padding")
    return _use_version("opset1.Pad")(b, node)


def _top(b: Builder, node: Node) -> tuple[Value, ...]:
    values, indices = emits(
        b,
        "opset1.TopK",
        2,
        *node.inputs,
        **{name: a for name, a in _attributes_of(node).items() if name in ("axis", "mode", "sort")},
    )
    wanted = _attributes_of(node).get("index_element_type", DType.INT32)
    return values, indices if wanted is DType.INT32 else emit(b, "opset1.Convert", indices, destination_type=wanted)


def _emit_interpolate(b: Builder, node: Node) -> tuple[Value, ...]:
    """Emit Interpolate-4 with sizes and scales; the operand that the mode ignores is computed if static, else 1."""
    x, operand, axes = _x(node), _x(node, 1), node.operand(2)
    (count,) = sizes(b.dims(operand), "the number of resampled axes")
    chosen = integers(axes)
    extents = [] if chosen is None else [b.dims(x)[axis] for axis in chosen]
    dims = [n for n in extents if isinstance(n, int)]
    given = (
        integers(operand) if _attributes_of(node).get("shape_calculation_mode") != "scales" else float_elements(operand)
    )
    is_known = given is not None and len(dims) == count
    if _attributes_of(node).get("shape_calculation_mode") == "scales":
        lengths = [int(np.floor(np.float32(n) * np.float32(s) + 1e-5)) for n, s in zip(dims, given or (), strict=False)]
        operands = (vector(b, lengths if is_known else [1] * count), operand)
    else:
        scales = [out / n if n else 1.0 for n, out in zip(dims, given or (), strict=False)]
        operands = (operand, b.constant(np.array(scales if is_known else [1.0] * count, np.float32)))
    return (emit(b, "opset4.Interpolate", x, *operands, axes, **_attributes_of(node)),)


def _attended(b: Builder, node: Node) -> tuple[Value, ...]:
    q, k, v, mask, scale = (_x(node, place) for place in range(5))
    _only(b.dims(mask) == (), "attention with a mask")
    return (attended(b, (q, k, v), scale, causal=bool(_attributes_of(node).get("causal"))),)


def _gather(b: Builder, node: Node) -> tuple[Value, ...]:
    """Emit Gather with negative indices normalized."""
    x, indices, axis = _x(node), _x(node, 1), integers(node.operand(2))
    known = integers(indices)
    if known is None or min(known, default=0) < 0:
        _only(axis is not None, "a non-constant axis")
        length = emit(b, "opset1.Convert", _length(b, x, (axis or (0,))[0]), destination_type=dtype_of(indices))
        is_negative = emit(b, "opset1.Less", indices, 0)
        indices = emit(b, "opset1.Select", is_negative, emit(b, "opset1.Add", indices, length), indices)
    return (
        emit(b, "opset7.Gather", x, indices, node.operand(2), batch_dims=_attributes_of(node).get("batch_dims", 0)),
    )


def _length(b: Builder, x: Value, axis: int) -> Value:
    """Emit the length of an axis as a scalar."""
    place = axis if axis >= 0 else axis + len(b.dims(x))
    shape = emit(b, "opset1.ShapeOf", x)
    zero = b.constant(np.array(0, np.int64))
    return emit(b, "opset1.Gather", shape, b.constant(np.array(place, np.int64)), zero)


def _gather_nd(b: Builder, node: Node) -> tuple[Value, ...]:
    _only(_attributes_of(node).get("batch_dims", 0) < 2, "batch_dims above 1")
    return _use_version("opset5.GatherND")(b, node)


def _slice(b: Builder, node: Node) -> tuple[Value, ...]:
    x, rank = _x(node), len(b.dims(_x(node)))
    given = [integers(node.operand(place)) for place in range(1, 4)]
    axes = integers(node.operand(4)) if node.operand(4) is not None else tuple(range(len(given[0] or ())))
    _only(axes is not None and all(each is not None for each in given), "non-constant slices")
    begins, ends, steps = [0] * rank, [0] * rank, [1] * rank
    begin_mask, end_mask = [1] * rank, [1] * rank
    for axis, start, stop, step in zip(axes or (), *(each or () for each in given), strict=True):
        place = axis % rank
        begins[place], ends[place], steps[place] = start, stop, step
        begin_mask[place], end_mask[place] = int(abs(start) >= _LARGE), int(abs(stop) >= _LARGE)
    emitted = {"begin_mask": tuple(begin_mask), "end_mask": tuple(end_mask)}
    kept = [[0 if abs(n) >= _LARGE else n for n in side] for side in (begins, ends)]
    return (emit(b, "opset1.StridedSlice", x, *(vector(b, side) for side in (*kept, steps)), **emitted),)


def _softmax(b: Builder, node: Node) -> tuple[Value, ...]:
    axis = _attributes_of(node).get("axis", 1)
    place = axis if axis >= 0 else axis + len(b.dims(_x(node)))
    return (emit(b, "opset1.SoftMax", _x(node), axis=place),)


def _log_softmax(b: Builder, node: Node) -> tuple[Value, ...]:
    x, axis = _x(node), vector(b, [_attributes_of(node).get("axis", -1)])
    low = emit(b, "opset1.Subtract", x, emit(b, "opset1.ReduceMax", x, axis, keep_dims=True))
    total = emit(b, "opset1.ReduceSum", emit(b, "opset1.Exp", low), axis, keep_dims=True)
    return (emit(b, "opset1.Subtract", low, emit(b, "opset1.Log", total)),)


def _gelu(b: Builder, node: Node) -> tuple[Value, ...]:
    x = _x(node)
    if _attributes_of(node).get("approximation_mode", "erf") == "erf":
        return (emit(b, "opset2.Gelu", x),)
    cube = emit(b, "opset1.Multiply", emit(b, "opset1.Multiply", emit(b, "opset1.Multiply", x, x), x), 0.044715)
    inner = emit(b, "opset1.Multiply", emit(b, "opset1.Add", x, cube), float(np.sqrt(2 / np.pi)))
    return (_gelu_of_gate(b, x, emit(b, "opset1.Tanh", inner)),)


def _old_gelu(b: Builder, node: Node) -> tuple[Value, ...]:
    x = _x(node)
    return (_gelu_of_gate(b, x, emit(b, "opset1.Erf", emit(b, "opset1.Multiply", x, float(np.sqrt(0.5))))),)


def _gelu_of_gate(b: Builder, x: Value, share: Value) -> Value:
    return emit(b, "opset1.Multiply", emit(b, "opset1.Multiply", x, 0.5), emit(b, "opset1.Add", share, 1.0))


def _mvn(b: Builder, node: Node) -> tuple[Value, ...]:
    x, axes, emitted = _x(node), _x(node, 1), _attributes_of(node)
    low = emit(b, "opset1.Subtract", x, emit(b, "opset1.ReduceMean", x, axes, keep_dims=True))
    if not emitted.get("normalize_variance", True):
        return (low,)
    square = emit(b, "opset1.ReduceMean", emit(b, "opset1.Multiply", low, low), axes, keep_dims=True)
    if emitted.get("eps_mode") == "outside_sqrt":
        spread = emit(b, "opset1.Add", emit(b, "opset1.Sqrt", square), emitted["eps"])
    else:
        spread = emit(b, "opset1.Sqrt", emit(b, "opset1.Add", square, emitted["eps"]))
    return (emit(b, "opset1.Divide", low, spread, m_pythondiv=True),)


def _batch_norm(b: Builder, node: Node) -> tuple[Value, ...]:
    x, scale, shift, mean, variance = node.inputs
    return (emit(b, "opset1.BatchNormInference", scale, shift, x, mean, variance, **_attributes_of(node)),)


def _round(b: Builder, node: Node) -> tuple[Value, ...]:
    x = _x(node)
    low = emit(b, "opset1.Floor", x)
    rest = emit(b, "opset1.Subtract", x, low)
    up = emit(b, "opset1.Greater", rest, 0.5)
    is_tie = emit(b, "opset1.Equal", rest, 0.5)
    if _attributes_of(node).get("mode", "half_to_even") == "half_to_even":
        goes_up = emit(b, "opset1.Equal", emit(b, "opset1.FloorMod", low, 2.0), 1.0)
    else:
        goes_up = emit(b, "opset1.Greater", x, 0.0)
    up = emit(b, "opset1.LogicalOr", up, emit(b, "opset1.LogicalAnd", is_tie, goes_up))
    return (emit(b, "opset1.Add", low, emit(b, "opset1.Convert", up, destination_type=dtype_of(x))),)


def _softplus(b: Builder, x: Value) -> Value:
    small = emit(b, "opset1.Exp", emit(b, "opset1.Negative", emit(b, "opset1.Abs", x)))
    return emit(
        b, "opset1.Add", emit(b, "opset1.Maximum", x, 0.0), emit(b, "opset1.Log", emit(b, "opset1.Add", small, 1.0))
    )


def _hard_swish(b: Builder, x: Value) -> Value:
    gate = emit(b, "opset1.Clamp", emit(b, "opset1.Add", x, 3.0), min=0.0, max=6.0)
    return emit(b, "opset1.Multiply", x, emit(b, "opset1.Multiply", gate, 1 / 6))


def _swish(b: Builder, node: Node) -> tuple[Value, ...]:
    x, beta = _x(node), node.operand(1)
    inner = x if beta is None else emit(b, "opset1.Multiply", x, beta)
    return (emit(b, "opset1.Multiply", x, emit(b, "opset1.Sigmoid", inner)),)


def _root_of_square(b: Builder, x: Value, shift: float) -> Value:
    return emit(b, "opset1.Sqrt", emit(b, "opset1.Add", emit(b, "opset1.Multiply", x, x), shift))


def _asinh(b: Builder, x: Value) -> Value:
    size = emit(b, "opset1.Abs", x)
    found = emit(b, "opset1.Log", emit(b, "opset1.Add", size, _root_of_square(b, x, 1.0)))
    return emit(b, "opset1.Multiply", emit(b, "opset1.Sign", x), found)


def _atanh(b: Builder, x: Value) -> Value:
    parts = [emit(b, "opset1.Log", emit(b, "opset1.Add", emit(b, "opset1.Multiply", x, s), 1.0)) for s in (1.0, -1.0)]
    return emit(b, "opset1.Multiply", emit(b, "opset1.Subtract", *parts), 0.5)


def _is_infinite(b: Builder, node: Node) -> tuple[Value, ...]:
    x, emitted = _x(node), _attributes_of(node)
    found = [
        emit(b, "opset1.Equal", x, number)
        for name, number in (("detect_negative", -np.inf), ("detect_positive", np.inf))
        if emitted.get(name, True)
    ]
    if not found:
        return (emit(b, "opset1.Less", x, -np.inf),)
    return (found[0] if len(found) == 1 else emit(b, "opset1.LogicalOr", *found),)


def _range(b: Builder, node: Node) -> tuple[Value, ...]:
    wanted = _attributes_of(node).get("output_type")
    types = {dtype_of(_x(node, place)) for place in range(3)}
    _only(types == {wanted}, "operands whose type differs from output_type")
    return (emit(b, "opset1.Range", *node.inputs),)


def _broadcast(b: Builder, node: Node) -> tuple[Value, ...]:
    mode = _attributes_of(node).get("mode", "numpy")
    _only(mode in ("numpy", "explicit"), f"mode = {mode}")
    return _use_version("opset1.Broadcast")(b, node)


def _shape(b: Builder, node: Node) -> tuple[Value, ...]:
    found = emit(b, "opset1.ShapeOf", _x(node))
    wanted = _attributes_of(node).get("output_type", DType.INT64)
    return (found if wanted is DType.INT64 else emit(b, "opset1.Convert", found, destination_type=wanted),)


def _group_norm(b: Builder, node: Node) -> tuple[Value, ...]:
    x, scale, shift = (_x(node, place) for place in range(3))
    rank, groups = len(b.dims(x)), _attributes_of(node)["num_groups"]
    shape = emit(b, "opset1.ShapeOf", x)
    grouped = emit(b, "opset1.Reshape", x, vector(b, [0, groups, -1]), special_zero=True)
    emitted = {"normalize_variance": True, "eps": _attributes_of(node)["epsilon"], "eps_mode": "inside_sqrt"}
    even = emit(b, "opset6.MVN", grouped, vector(b, [2]), **emitted)
    even = emit(b, "opset1.Reshape", even, shape, special_zero=False)
    behind = vector(b, [-1, *[1] * (rank - 2)])
    scale, shift = (emit(b, "opset1.Reshape", each, behind, special_zero=False) for each in (scale, shift))
    return (emit(b, "opset1.Add", emit(b, "opset1.Multiply", even, scale), shift),)


_RULES: Mapping[str, Older] = MappingProxyType(
    {
        "opset16.Identity": _identity,
        "opset16.AvgPool": _average_pool,
        "opset15.ScatterNDUpdate": _use_version("opset4.ScatterNDUpdate", reduction="none"),
        "opset15.Squeeze": _use_version("opset1.Squeeze", allow_axis_skip=False),
        "opset14.AvgPool": _rounded_pool("opset1.AvgPool"),
        "opset14.MaxPool": _rounded_pool("opset8.MaxPool"),
        "opset13.ScaledDotProductAttention": _attended,
        "opset12.ScatterElementsUpdate": _use_version("opset3.ScatterElementsUpdate", "use_init_val", reduction="none"),
        "opset12.Pad": _pad,
        "opset12.GroupNormalization": _group_norm,
        "opset11.TopK": _use_version("opset3.TopK", "stable"),
        "opset11.Interpolate": _emit_interpolate,
        "opset10.IsNaN": lambda b, node: (emit(b, "opset1.NotEqual", _x(node), _x(node)),),
        "opset10.IsInf": _is_infinite,
        "opset9.SoftSign": _apply_formula(
            lambda b, x: emit(
                b, "opset1.Divide", x, emit(b, "opset1.Add", emit(b, "opset1.Abs", x), 1.0), m_pythondiv=True
            )
        ),
        "opset9.ROIAlign": _use_version("opset3.ROIAlign", aligned_mode="asymmetric"),
        "opset9.NonMaxSuppression": _use_version("opset5.NonMaxSuppression"),
        "opset8.Gather": _gather,
        "opset8.GatherND": _gather_nd,
        "opset8.MaxPool": _max_pool,
        "opset8.Slice": _slice,
        "opset8.SoftMax": _softmax,
        "opset7.Gather": _use_version("opset1.Gather", batch_dims=0),
        "opset7.Gelu": _gelu,
        "opset6.MVN": _mvn,
        "opset5.BatchNormInference": _batch_norm,
        "opset5.LogSoftmax": _log_softmax,
        "opset5.Round": _round,
        "opset4.SoftPlus": _apply_formula(_softplus),
        "opset4.Mish": _apply_formula(
            lambda b, x: emit(b, "opset1.Multiply", x, emit(b, "opset1.Tanh", _softplus(b, x)))
        ),
        "opset4.HSwish": _apply_formula(_hard_swish),
        "opset4.Swish": _swish,
        "opset4.Asinh": _apply_formula(_asinh),
        "opset4.Acosh": _apply_formula(
            lambda b, x: emit(b, "opset1.Log", emit(b, "opset1.Add", x, _root_of_square(b, x, -1.0)))
        ),
        "opset4.Atanh": _apply_formula(_atanh),
        "opset4.Range": _range,
        "opset3.Broadcast": _broadcast,
        "opset3.ShapeOf": _shape,
        "opset3.TopK": _top,
        "opset2.Gelu": _old_gelu,
    }
)
