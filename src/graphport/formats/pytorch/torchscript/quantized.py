"""Quantized operators: float operators between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.formats.pytorch.torchscript import packed
from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.scalar_functions import static_items_or_none
from graphport.formats.pytorch.torchscript.values import List, Packed, Quantized, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.formats.pytorch.torchscript.context import Calls

_SPACE = "quantized_decomposed."
_TYPES = {12: ("torch.int8", -128, 127), 13: ("torch.uint8", 0, 255), 14: ("torch.int32", -(1 << 31), (1 << 31) - 1)}
_FIXED = {
    "sigmoid": (1 / 256, {13: 0, 12: -128}),
    "softmax": (1 / 256, {13: 0, 12: -128}),
    "tanh": (2 / 256, {13: 128, 12: 0}),
}
"""Operators whose quantized results always have the same scale and zero point."""


def quantized(ops: Calls, x: Tensor, scale: Any, zero_point: Any, dtype: int, axis: int | None = None) -> Quantized:
    """Quantize a tensor."""
    if dtype not in _TYPES:
        refuse("TS0006", f"unsupported tensors of the quantized element type {dtype}")
    name, low, high = _TYPES[dtype]
    attributes: dict[str, Any] = {"quant_min": low, "quant_max": high, "dtype": name}
    operands = [("input", x.value, False)]
    for key, value in (("scale", scale), ("zero_point", zero_point)):
        key_ = key if axis is None else f"{key}s"
        if isinstance(value, Tensor):
            operands.append((key_, value.value, False))
        elif hasattr(value, "kind"):
            operands.append((key_, value.value, True))
        else:
            attributes[key_] = value
    if axis is not None:
        attributes["axis"] = axis
    kind = "tensor" if axis is None else "channel"
    value = ops.emitter.node(f"{_SPACE}quantize_per_{kind}.default", operands, attributes)[0]
    return Quantized(Tensor(value), scale, zero_point, axis, dtype)


def quantize_per_tensor(ops: Calls, x: Tensor, scale: Any, zero_point: Any, dtype: int) -> Quantized:
    """Evaluate `torch.quantize_per_tensor`; qparams are scalars or tensors of one element."""
    numbers = ops.to_scalar(scale, "float"), ops.to_scalar(zero_point, "int")
    return quantized(ops, x, *numbers, dtype)


def quantize_per_channel(ops: Calls, x: Tensor, scales: Any, zero_points: Any, axis: int, dtype: int) -> Quantized:
    """Evaluate `torch.quantize_per_channel`."""
    return quantized(ops, x, scales, zero_points, dtype, axis)


def dequantized(ops: Calls, x: Any) -> Any:
    """Dequantize a quantized tensor; return other values unchanged."""
    if isinstance(x, List):
        return List([dequantized(ops, each) for each in x.items], x.element)
    if not isinstance(x, Quantized):
        return x
    name, low, high = _TYPES[x.dtype]
    attributes: dict[str, Any] = {"quant_min": low, "quant_max": high, "dtype": name}
    operands = [("input", x.codes.value, False)]
    for key, value in (("scale", x.scale), ("zero_point", x.zero_point)):
        key_ = key if x.axis is None else f"{key}s"
        if isinstance(value, Tensor):
            operands.append((key_, value.value, False))
        elif hasattr(value, "kind"):
            operands.append((key_, value.value, True))
        else:
            attributes[key_] = value
    if x.axis is not None:
        attributes["axis"] = x.axis
    kind = "tensor" if x.axis is None else "channel"
    return Tensor(ops.emitter.node(f"{_SPACE}dequantize_per_{kind}.default", operands, attributes)[0])


def on_quantized(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Any:
    """Evaluate an ATen operator on quantized tensors; most results have the qparams of the first operand."""
    special = _ON_QUANTIZED.get(name)
    if special is not None:
        return special(ops, *given, **named)
    first = next(x for x in _flat([*given, *named.values()]) if isinstance(x, Quantized))
    if first.axis is not None:
        refuse("TS0006", f"unsupported aten::{name} of a per-channel quantized tensor")
    floats = ops.torch(name, [dequantized(ops, x) for x in given], {k: dequantized(ops, x) for k, x in named.items()})
    scale, zero_point = first.scale, first.zero_point
    if name.rstrip("_") in _FIXED:
        scale, zeros = _FIXED[name.rstrip("_")]
        zero_point = zeros[first.dtype]
    return _requantize(ops, floats, scale, zero_point, first.dtype)


def _requantize(ops: Calls, value: Any, scale: Any, zero_point: Any, dtype: int) -> Any:
    if isinstance(value, Tensor):
        is_float = ops.emitter.dtype(value).kind == "f"
        return quantized(ops, value, scale, zero_point, dtype) if is_float else value
    if isinstance(value, List):
        return List([_requantize(ops, x, scale, zero_point, dtype) for x in value.items], value.element)
    if not isinstance(value, tuple):
        return value
    return tuple([_requantize(ops, x, scale, zero_point, dtype) for x in cast("tuple[Any, ...]", value)])


def _flat(values: list[Any]) -> list[Any]:
    return [x for value in values for x in (static_items_or_none(value) or [value])]


def _int_repr(ops: Calls, x: Quantized) -> Tensor:
    del ops
    return x.codes


def _q_scale(ops: Calls, x: Any) -> Any:
    return x.scale


def _q_zero_point(ops: Calls, x: Any) -> Any:
    return x.zero_point


def _q_per_channel_axis(ops: Calls, x: Any) -> Any:
    return x.axis


def _q_per_channel_scales(ops: Calls, x: Any) -> Any:
    return x.scale


def _q_per_channel_zero_points(ops: Calls, x: Any) -> Any:
    return x.zero_point


def _is_floating_point(ops: Calls, x: Any) -> Any:
    return False


_ON_QUANTIZED: Mapping[str, Callable[..., Any]] = {
    "dequantize": dequantized,
    "int_repr": _int_repr,
    "q_scale": _q_scale,
    "q_zero_point": _q_zero_point,
    "q_per_channel_axis": _q_per_channel_axis,
    "q_per_channel_scales": _q_per_channel_scales,
    "q_per_channel_zero_points": _q_per_channel_zero_points,
    "is_floating_point": _is_floating_point,
}


def _with_relu(ops: Calls, y: Any, *, relu: bool) -> Any:
    return ops.torch("relu", [y], {}) if relu else y


def _linear(ops: Calls, x: Any, weights: Packed, scale: Any, zero_point: Any, *, relu: bool = False) -> Any:
    state = packed.weights_of(ops.context, weights)
    y = ops.torch("linear", [dequantized(ops, x), dequantized(ops, state["weight"]), state["bias"]], {})
    return quantized(ops, _with_relu(ops, y, relu=relu), scale, zero_point, x.dtype)


def _linear_dynamic(ops: Calls, x: Any, weights: Packed, reduce_range: Any = False, *, relu: bool = False) -> Any:
    """Linear layer with dynamic quantization of the input by its minimum and maximum, to 7 bits if `reduce_range`."""
    state = packed.weights_of(ops.context, weights)
    low = ops.torch("clamp", [ops.torch("min", [x], {}), None, 0], {})
    high = ops.torch("clamp", [ops.torch("max", [x], {}), 0], {})
    steps = 127 if reduce_range else 255
    scale = ops.torch("clamp", [ops.torch("div", [ops.torch("sub", [high, low], {}), steps], {}), 1e-30], {})
    zero = ops.torch(
        "clamp", [ops.torch("round", [ops.torch("neg", [ops.torch("div", [low, scale], {})], {})], {}), 0, steps], {}
    )
    codes = ops.torch(
        "clamp",
        [ops.torch("add", [ops.torch("round", [ops.torch("div", [x, scale], {})], {}), zero], {}), 0, steps],
        {},
    )
    floats = ops.torch("mul", [ops.torch("sub", [codes, zero], {}), scale], {})
    y = ops.torch("linear", [floats, dequantized(ops, state["weight"]), state["bias"]], {})
    return _with_relu(ops, y, relu=relu)


# ── recurrent layers whose inputs are quantized in each step ──────────────────────────────────────────────────────────


def _layer(ops: Calls, x: Any, cell: Packed, place: str) -> Any:
    state = cell.state
    if state["kind"] == "quantized_fp16":
        return _linear_float16(ops, x, state[place])
    return _linear_dynamic(ops, x, state[place], state["reduce_range"])


def _gate(ops: Calls, name: str, *given: Any) -> Any:
    return ops.torch(name, list(given), {})


def _lstm_step(ops: Calls, gates: Any, state: tuple[Any, ...], cell: Packed) -> tuple[Any, ...]:
    h, c = state
    total = _gate(ops, "add", gates, _layer(ops, h, cell, "hidden"))
    i, f, g, o = ops.torch("chunk", [total, 4, 1], {}).items
    kept = _gate(ops, "mul", _gate(ops, "sigmoid", f), c)
    c = _gate(ops, "add", kept, _gate(ops, "mul", _gate(ops, "sigmoid", i), _gate(ops, "tanh", g)))
    return _gate(ops, "mul", _gate(ops, "sigmoid", o), _gate(ops, "tanh", c)), c


def _gru_step(ops: Calls, gates: Any, state: tuple[Any, ...], cell: Packed) -> tuple[Any, ...]:
    (h,) = state
    ours = ops.torch("chunk", [gates, 3, 1], {}).items
    theirs = ops.torch("chunk", [_layer(ops, h, cell, "hidden"), 3, 1], {}).items
    reset, update = (_gate(ops, "sigmoid", _gate(ops, "add", ours[i], theirs[i])) for i in (0, 1))
    new = _gate(ops, "tanh", _gate(ops, "add", ours[2], _gate(ops, "mul", reset, theirs[2])))
    return (_gate(ops, "add", _gate(ops, "mul", _gate(ops, "sub", h, new), update), new),)


def _direction(
    ops: Calls, x: Any, state: tuple[Any, ...], cell: Packed, step: Callable[..., Any], *, is_reverse: bool
) -> tuple[list[Any], tuple[Any, ...]]:
    """Evaluate one direction of a recurrent layer; return all outputs and the last state.

    All time steps are quantized with the same scale and zero point.
    """
    gates = ops.torch("unbind", [_layer(ops, x, cell, "input"), 0], {}).items
    found: list[Any] = []
    for each in reversed(gates) if is_reverse else gates:
        state = step(ops, each, state, cell)
        found.append(state[0])
    return (found[::-1] if is_reverse else found), state


def _recurrent(
    ops: Calls, x: Any, states: list[Any], cells: Any, options: tuple[Any, ...], step: Callable[..., Any]
) -> tuple[Any, ...]:
    layers, train, is_bidirectional, batch_first = options
    if train:
        refuse("TS0009", "unsupported: a recurrent layer in training mode")
    if batch_first:
        x = ops.torch("transpose", [x, 0, 1], {})
    directions = 2 if is_bidirectional else 1
    split = [ops.torch("unbind", [s, 0], {}).items for s in states]
    last: list[tuple[Any, ...]] = []
    for layer in range(layers):
        outputs: list[Any] = []
        for direction in range(directions):
            place = layer * directions + direction
            state = tuple([s[place] for s in split])
            steps, state = _direction(ops, x, state, cells.items[place], step, is_reverse=bool(direction))
            outputs.append(ops.torch("stack", [List(steps, "Tensor"), 0], {}))
            last.append(state)
        x = outputs[0] if directions == 1 else ops.torch("cat", [List(outputs, "Tensor"), 2], {})
    if batch_first:
        x = ops.torch("transpose", [x, 0, 1], {})
    count = len(states)
    return x, *(ops.torch("stack", [List([state[i] for state in last], "Tensor"), 0], {}) for i in range(count))


def lstm(ops: Calls, x: Any, hx: Any, cells: Any, *given: Any, **named: Any) -> tuple[Any, ...]:
    """Evaluate `aten::quantized_lstm`; `given`: has_biases, num_layers, dropout, train, bidirectional, batch_first."""
    del named
    if not isinstance(hx, List):
        refuse("TS0006", "unsupported aten::quantized_lstm of packed sequences")
    _, layers, _, train, bidirectional, batch_first = given[:6]
    return _recurrent(ops, x, hx.items, cells, (layers, train, bidirectional, batch_first), _lstm_step)


def gru(ops: Calls, x: Any, hx: Any, cells: Any, *given: Any, **named: Any) -> tuple[Any, ...]:
    """Evaluate `aten::quantized_gru`."""
    del named
    if not isinstance(cells, List):
        refuse("TS0006", "unsupported aten::quantized_gru of packed sequences")
    _, layers, _, train, bidirectional, batch_first = given[:6]
    return _recurrent(ops, x, [hx], cells, (layers, train, bidirectional, batch_first), _gru_step)


def _rows(ops: Calls, weights: Packed) -> Any:
    """Dequantize an embedding table with per-row scales and zero points."""
    weight = weights.state["weight"]
    codes = ops.torch("to", [weight.codes, 6], {})
    scale, zero = (
        ops.torch("unsqueeze", [ops.torch("to", [x, 6], {}), -1], {}) for x in (weight.scale, weight.zero_point)
    )
    return ops.torch("mul", [ops.torch("sub", [codes, zero], {}), scale], {})


def _embedding_bag(
    ops: Calls,
    weights: Packed,
    indices: Any,
    offsets: Any = None,
    scale_grad: Any = False,
    mode: Any = 0,
    pruned: Any = False,
    per_sample: Any = None,
    mapping: Any = None,
    include_last_offset: Any = False,
) -> Any:
    if pruned or mapping is not None:
        refuse("TS0006", "unsupported embedding tables with pruned rows")
    if offsets is None:
        refuse("TS0006", "unsupported quantized embedding bag without offsets")
    given = [_rows(ops, weights), indices, offsets, scale_grad, mode, False, per_sample, include_last_offset]
    return ops.torch("embedding_bag", given, {})[0]


def _embedding(ops: Calls, weights: Packed, indices: Any, pruned: Any = False) -> Any:
    del pruned
    return ops.torch("embedding", [_rows(ops, weights), indices], {})


def _linear_float16(ops: Calls, x: Any, weights: Packed, *, relu: bool = False) -> Any:
    """Linear layer with weights rounded to float16."""
    state = packed.weights_of(ops.context, weights)
    y = ops.torch("linear", [x, ops.torch("to", [state["weight"], 6], {}), state["bias"]], {})
    return _with_relu(ops, y, relu=relu)


def _convolution(ops: Calls, x: Any, weights: Packed, scale: Any, zero_point: Any, *, relu: bool = False) -> Any:
    state = packed.weights_of(ops.context, weights)
    numbers = {key: List(list(state[key]), "int") for key in ("stride", "padding", "dilation", "output_padding")}
    floats = dequantized(ops, x)
    weight = dequantized(ops, state["weight"])
    rank = len(ops.emitter.shape(floats))
    is_flat = rank == 3 and len(ops.emitter.shape(weight)) == 4
    if is_flat:
        floats = ops.torch("unsqueeze", [floats, -2], {})
    y = ops.torch(
        "convolution",
        [
            *(floats, weight, state["bias"], numbers["stride"], numbers["padding"], numbers["dilation"]),
            *(state["transposed"], numbers["output_padding"], state["groups"]),
        ],
        {},
    )
    if is_flat:
        y = ops.torch("squeeze", [y, -2], {})
    return quantized(ops, _with_relu(ops, y, relu=relu), scale, zero_point, x.dtype)


def _convolution_relu(ops: Calls, x: Any, weights: Packed, scale: Any, zero_point: Any) -> Any:
    return _convolution(ops, x, weights, scale, zero_point, relu=True)


def _binary(name: str, *, relu: bool = False) -> Callable[..., Any]:
    def compute(ops: Calls, a: Quantized, b: Any, scale: Any, zero_point: Any) -> Any:
        y = ops.torch(name, [dequantized(ops, a), dequantized(ops, b)], {})
        return quantized(ops, _with_relu(ops, y, relu=relu), scale, zero_point, a.dtype)

    return compute


def _unary(name: str, *extra: Any) -> Callable[..., Any]:
    """Return the function of a unary operator whose last arguments are scale and zero point."""

    def compute(ops: Calls, x: Quantized, *given: Any) -> Any:
        *rest, scale, zero_point = given
        y = ops.torch(name, [dequantized(ops, x), *rest, *extra], {})
        return quantized(ops, y, scale, zero_point, x.dtype)

    return compute


def _scalar(name: str, *, relu: bool = False) -> Callable[..., Any]:
    """Return the function of `quantized::NAME_scalar`, which adapts scale and zero point to the scalar operand."""

    def compute(ops: Calls, x: Quantized, number: Any) -> Any:
        number = ops.to_scalar(number, "float")
        if not isinstance(number, float) or isinstance(x.scale, Tensor):
            refuse("TS0009", f"unsupported quantized::{name}_scalar of a number that depends on run-time values")
        scale, zero = _after_scalar(name, x, number)
        y = ops.torch(name, [dequantized(ops, x), number], {})
        return quantized(ops, _with_relu(ops, y, relu=relu), scale, zero, x.dtype)

    return compute


def _after_scalar(name: str, x: Quantized, number: float) -> tuple[float, int]:
    """Return the qparams of PyTorch's result for a scalar operand."""
    _, low, high = _TYPES[x.dtype]
    if name == "mul":
        if number > 0:
            return x.scale * number, x.zero_point
        return (1.0, 0) if number == 0 else (x.scale * -number, high - (x.zero_point - low))
    codes = round(number / x.scale)
    zero, scale = x.zero_point, x.scale
    if low > zero - codes:
        return (float(high) - (zero - codes)) / (float(high) - low) * scale, low
    if high < zero - codes:
        return (float(zero - codes) - low) / (float(high) - low) * scale, high
    return scale, zero - codes


def _concatenated(ops: Calls, tensors: Any, dim: int, scale: Any = None, zero_point: Any = None) -> Any:
    first = tensors.items[0]
    y = ops.torch("cat", [dequantized(ops, tensors), dim], {})
    chosen = (first.scale, first.zero_point) if scale is None else (scale, zero_point)
    return quantized(ops, y, *chosen, first.dtype)


def _batch_norm(
    ops: Calls, x: Any, w: Any, b: Any, mean: Any, var: Any, eps: Any, scale: Any, zero: Any, *, relu: bool = False
) -> Any:
    y = ops.torch("batch_norm", [dequantized(ops, x), w, b, mean, var, False, 0.0, eps, False], {})
    return quantized(ops, _with_relu(ops, y, relu=relu), scale, zero, x.dtype)


def _layer_norm(ops: Calls, x: Any, shape: Any, w: Any, b: Any, eps: Any, scale: Any, zero: Any) -> Any:
    y = ops.torch("layer_norm", [dequantized(ops, x), shape, w, b, eps], {})
    return quantized(ops, y, scale, zero, x.dtype)


def _group_norm(ops: Calls, x: Any, groups: Any, w: Any, b: Any, eps: Any, scale: Any, zero: Any) -> Any:
    y = ops.torch("group_norm", [dequantized(ops, x), groups, w, b, eps], {})
    return quantized(ops, y, scale, zero, x.dtype)


def _linear_prepack(ops: Calls, weight: Any, bias: Any = None) -> Packed:
    del ops
    return Packed(packed.LINEAR, {"weight": weight, "bias": bias})


def _float16_prepack(ops: Calls, weight: Any, bias: Any = None) -> Packed:
    return Packed(packed.LINEAR, {"weight": ops.torch("to", [ops.torch("to", [weight, 5], {}), 6], {}), "bias": bias})


def _convolution_prepack(rank: int, *, transposed: bool = False) -> Callable[..., Any]:
    def pack(ops: Calls, weight: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Packed:
        del ops
        output_padding: Any = List([0] * rank, "int")
        if transposed:
            output_padding, *rest_ = rest
        else:
            rest_ = list(rest)
        dilation, groups = rest_
        lists = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
        state: dict[str, Any] = {key: tuple(static_items_or_none(value) or ()) for key, value in lists.items()}
        if rank == 1:
            fill = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
            state = {key: (fill[key], *value) if len(value) == 1 else value for key, value in state.items()}
        state |= {"weight": weight, "bias": bias, "groups": groups, "transposed": transposed}
        return Packed(packed.convolution_class(max(rank, 2)), state)

    return pack


def _unpacked(ops: Calls, weights: Packed) -> tuple[Any, Any]:
    state = packed.weights_of(ops.context, weights)
    return state["weight"], state["bias"]


def _relu6(ops: Calls, x: Quantized, inplace: Any = False) -> Any:
    del inplace
    y = ops.torch("hardtanh", [dequantized(ops, x), 0.0, 6.0], {})
    return quantized(ops, y, x.scale, x.zero_point, x.dtype)


def _embedding_bag_unpack(ops: Calls, weights: Any) -> Any:
    return weights.state["weight"]


def _embedding_bag_prepack(ops: Calls, weight: Any) -> Any:
    return Packed(packed.EMBEDDING, {"weight": weight, "bias": None})


def _linear_relu(ops: Calls, *given: Any) -> Any:
    return _linear(ops, *given, relu=True)


def _linear_relu_dynamic(ops: Calls, *given: Any) -> Any:
    return _linear_dynamic(ops, *given, relu=True)


def _linear_relu_dynamic_fp16(ops: Calls, *given: Any) -> Any:
    return _linear_float16(ops, *given, relu=True)


def _cat_relu(ops: Calls, tensors: Any, *given: Any) -> Any:
    return ops.torch("relu", [_concatenated(ops, tensors, *given)], {})


def _elu(ops: Calls, x: Any, scale: Any, zero: Any, alpha: Any = 1.0, *rest: Any) -> Any:
    return quantized(ops, ops.torch("elu", [dequantized(ops, x), alpha, *rest], {}), scale, zero, x.dtype)


def _celu(ops: Calls, x: Any, scale: Any, zero: Any, alpha: Any = 1.0) -> Any:
    return quantized(ops, ops.torch("celu", [dequantized(ops, x), alpha], {}), scale, zero, x.dtype)


def _leaky_relu(ops: Calls, x: Any, slope: Any, inplace: Any, scale: Any, zero: Any) -> Any:
    return quantized(ops, ops.torch("leaky_relu", [dequantized(ops, x), slope], {}), scale, zero, x.dtype)


def _prelu(ops: Calls, x: Any, weight: Any, scale: Any, zero: Any) -> Any:
    return quantized(ops, ops.torch("prelu", [dequantized(ops, x), dequantized(ops, weight)], {}), scale, zero, x.dtype)


def _softmax(ops: Calls, x: Any, dim: Any, scale: Any, zero: Any) -> Any:
    return quantized(ops, ops.torch("softmax", [dequantized(ops, x), dim, None], {}), scale, zero, x.dtype)


def _batch_norm_relu(ops: Calls, *given: Any) -> Any:
    return _batch_norm(ops, *given, relu=True)


def _batch_norm2d_relu(ops: Calls, *given: Any) -> Any:
    return _batch_norm(ops, *given, relu=True)


def _batch_norm3d_relu(ops: Calls, *given: Any) -> Any:
    return _batch_norm(ops, *given, relu=True)


_CALLS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("embedding_bag_byte", "embedding_bag_4bit"), _embedding_bag),
    **dict.fromkeys(("embedding_byte", "embedding_4bit"), _embedding),
    "embedding_bag_unpack": _embedding_bag_unpack,
    "embedding_bag_prepack": _embedding_bag_prepack,
    "linear": _linear,
    "linear_relu": _linear_relu,
    "linear_dynamic": _linear_dynamic,
    "linear_relu_dynamic": _linear_relu_dynamic,
    "linear_dynamic_fp16": _linear_float16,
    "linear_relu_dynamic_fp16": _linear_relu_dynamic_fp16,
    "linear_prepack": _linear_prepack,
    "linear_prepack_fp16": _float16_prepack,
    "linear_unpack": _unpacked,
    "linear_unpack_fp16": _unpacked,
    **{f"conv{n}d": _convolution for n in (1, 2, 3)},
    **dict.fromkeys([f"conv{n}d_relu" for n in (1, 2, 3)], _convolution_relu),
    **{f"conv_transpose{n}d": _convolution for n in (1, 2, 3)},
    **{f"conv{n}d_prepack": _convolution_prepack(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d_prepack": _convolution_prepack(n, transposed=True) for n in (1, 2, 3)},
    **{f"conv{n}d_unpack": _unpacked for n in (1, 2, 3)},
    "add": _binary("add"),
    "add_relu": _binary("add", relu=True),
    "mul": _binary("mul"),
    "mul_relu": _binary("mul", relu=True),
    "matmul": _binary("matmul"),
    "add_scalar": _scalar("add"),
    "mul_scalar": _scalar("mul"),
    "add_scalar_relu": _scalar("add", relu=True),
    "mul_scalar_relu": _scalar("mul", relu=True),
    "cat": _concatenated,
    "cat_relu": _cat_relu,
    "hardswish": _unary("hardswish"),
    "sigmoid": _unary("sigmoid"),
    "elu": _elu,
    "celu": _celu,
    "leaky_relu": _leaky_relu,
    "prelu": _prelu,
    "relu6": _relu6,
    "softmax": _softmax,
    "batch_norm": _batch_norm,
    "batch_norm1d": _batch_norm,
    "batch_norm2d": _batch_norm,
    "batch_norm3d": _batch_norm,
    "batch_norm_relu": _batch_norm_relu,
    "batch_norm2d_relu": _batch_norm2d_relu,
    "batch_norm3d_relu": _batch_norm3d_relu,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
}


def call(ops: Calls, name: str, given: list[Any], named: dict[str, Any]) -> Any:
    """Evaluate a call of `ops.quantized.name`.

    Raises:
        RefusedError: TS0006 the operator is not supported.
    """
    function = _CALLS.get(name.removesuffix("_out"))
    if function is None:
        refuse("TS0006", f"unsupported operator quantized::{name}")
    return function(ops, *given, **named)
