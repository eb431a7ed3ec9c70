"""Reference evaluation, one function at a time on whole arrays as in PyTorch; the other evaluators must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.expression.faults import Fault, misfit
from graphport.expression.kernels import KERNELS, is_array
from graphport.expression.promotion import ARITHMETIC, Operand, Priority, resolve, scalar_dtype
from graphport.expression.rpn import Action
from graphport.expression.scalars import apply_to_scalars
from graphport.expression.syntax import List, Literal, Reference, postorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.expression.functions import Function
    from graphport.expression.promotion import Resolution
    from graphport.expression.rpn import Step
    from graphport.expression.syntax import Node, Number
    from graphport.expression.tokens import Text

Array = np.ndarray[Any, Any]


def evaluate_rpn(
    text: Text,
    steps: Sequence[Step],
    functions: Mapping[str, Function],
    operands: Sequence[object],
    default_float: DType = DType.FLOAT32,
) -> object:
    """Evaluate `steps` on a stack; the result is an array, a scalar, None, a string, or a list of them.

    `operands` are arrays and Python scalars.

    Raises:
        DiagnosticError: `EXPR0202` to `EXPR0206`, located at the failing step.
    """
    stack: list[object] = []
    origins: list[Step] = []
    for step in steps:
        taken = stack[len(stack) - step.arity :]
        of = origins[len(origins) - step.arity :]
        del stack[len(stack) - step.arity :], origins[len(origins) - step.arity :]
        origins.append(step)
        try:
            match step.action:
                case Action.LOAD:
                    stack.append(operands[step.index])
                case Action.PUSH:
                    stack.append(step.value)
                case Action.COLLECT:
                    stack.append(taken)
                case Action.APPLY:
                    stack.append(_apply(functions[step.function], taken, default_float))
        except Fault as fault:
            place = step if fault.operand is None else of[fault.operand]
            raise fault.at(text.span(place.start, place.end)) from None
    return stack[0]


def evaluate_tree(
    text: Text,
    tree: Node,
    functions: Mapping[str, Function],
    operands: Sequence[object],
    default_float: DType = DType.FLOAT32,
) -> object:
    """Evaluate the syntax tree node by node, keeping all intermediate results.

    Raises:
        DiagnosticError: like `evaluate_rpn`.
    """
    results: dict[int, object] = {}
    for node in postorder(tree):
        taken = [results[id(argument)] for argument in node.arguments]
        try:
            match node:
                case Reference():
                    results[id(node)] = operands[node.index]
                case Literal():
                    results[id(node)] = node.value
                case List():
                    results[id(node)] = taken
                case _:
                    results[id(node)] = _apply(functions[node.text], taken, default_float)
        except Fault as fault:
            place = node if fault.operand is None else node.arguments[fault.operand]
            raise fault.at(text.span(place.start, place.end)) from None
    return results[id(tree)]


def _apply(function: Function, taken: Sequence[object], default_float: DType) -> object:
    arrays = [entry for entry in taken if is_array(entry)]
    if function.name == "size":
        return _size(taken)
    if not arrays:
        return apply_to_scalars(function, [_require_number(entry) for entry in taken])
    shapes: list[tuple[int, ...]] = [array.shape for array in arrays]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        indices = [place for place, entry in enumerate(taken) if is_array(entry)]
        message = f"{function.name}: shapes {shapes} do not broadcast"
        raise Fault("EXPR0202", message, operand=indices[misfit(shapes)]) from None
    if function.name == "int" and arrays[0].size != 1:
        raise Fault("EXPR0203", "int requires a scalar", "use torch.long")
    operands = [_operand(entry, default_float) for entry in taken]
    resolution = resolve(function.name, function.signature, operands, default_float)
    inputs = [_prepared(entry, resolution) for entry in taken[: resolution.takes]]
    if resolution.kernel == "copy":
        return np.array(inputs[0])
    # A power may be computed as a square root, which the table need not have: its own functions compute that.
    with np.errstate(all="ignore"):
        result = np.asarray(_compute(function, resolution.kernel, inputs))
    return _converted(result, resolution.result)


def _compute(function: Function, kernel: str, inputs: Sequence[Array]) -> Array:
    if function.name == "pow" and kernel != "pow":
        return KERNELS[kernel](*inputs)
    return function.compute(*inputs)


def _prepared(entry: object, resolution: Resolution) -> Array:
    if not is_array(entry):
        return _converted(entry, resolution.computed)
    for dtype in resolution.conversions(DType.of(entry.dtype)):
        entry = _converted(entry, dtype)
    return entry


def _converted(entry: object, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(entry).astype(dtype.numpy)


def _operand(entry: object, default_float: DType) -> Operand:
    if is_array(entry):
        dtype = DType.of(entry.dtype)
        if dtype not in ARITHMETIC:
            raise Fault("EXPR0203", f"unsupported element type {dtype}")
        return Operand(dtype, Priority.TENSOR if entry.ndim else Priority.ZERO_DIM)
    number = _require_number(entry)
    return Operand(scalar_dtype(number, default_float), Priority.SCALAR, number)


def _require_number(entry: object) -> Number:
    if isinstance(entry, bool | int | float | complex):
        return entry
    raise Fault("EXPR0203", f"{entry} is neither a tensor nor a number")


def _size(taken: Sequence[object]) -> object:
    array = taken[0]
    if not is_array(array):
        raise Fault("EXPR0203", "size requires a tensor")
    if len(taken) == 1:
        return list(array.shape)
    axis = taken[1]
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise Fault("EXPR0203", "the axis of size must be an integer")
    if not -array.ndim <= axis < array.ndim:
        raise Fault("EXPR0205", f"axis {axis} is out of range for rank {array.ndim}", operand=1)
    return array.shape[axis]
