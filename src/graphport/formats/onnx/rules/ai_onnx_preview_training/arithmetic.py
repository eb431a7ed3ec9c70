"""Optimizer steps.  Source: ONNX ai.onnx.preview.training 1.

Operands are the learning rate, the step count, then all tensors, all gradients, and all states of each kind; results
are the new tensors and states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from graphport.formats.onnx.rules.ai_onnx_preview_training import DIALECT, JUDGED
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Step: TypeAlias = "Callable[..., tuple[Value, ...]]"
"""Function of a tensor, its gradient and its states that returns their new values, without the gradient."""


def _apply_to_all(operands: tuple[Value, ...], parts: int, step: Step) -> tuple[Value, ...]:
    """Apply an optimizer step to each tensor; the operands are `parts` groups with one operand per tensor."""
    count, rest = divmod(len(operands), parts)
    if rest or not count:
        message = f"{len(operands)} operands after the learning rate and the step count"
        raise ShapeError(message, f"{parts} for each tensor")
    stepped = [step(*operands[place::count]) for place in range(count)]
    return tuple(value for kind in zip(*stepped, strict=True) for value in kind)


def _pulled(b: Builder, x: Value, gradient: Value, coefficient: float) -> Value:
    """Add the gradient of the L2 penalty."""
    return b(Add, b(Mul, x, coefficient), gradient) if coefficient else gradient


@lower(DIALECT, "Adagrad", until=JUDGED)
def adagrad(
    b: Builder,
    rate: Value,
    number: Value,
    *operands: Value,
    norm_coefficient: float = 0.0,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
) -> tuple[Value, ...]:
    """Adagrad: divide each step by the root of the sum of squared gradients."""
    decay = b(Mul, cast(b, number, dtype_of(rate)), decay_factor)
    shorter = b(Div, rate, b(Add, decay, 1))

    def step(x: Value, gradient: Value, squares: Value) -> tuple[Value, ...]:
        gradient = _pulled(b, x, gradient, norm_coefficient)
        squares = b(Add, squares, b(Mul, gradient, gradient))
        moved = b(Mul, cast(b, shorter, dtype_of(x)), gradient)
        return b(Sub, x, b(Div, moved, b(Add, b(Sqrt, squares), epsilon))), squares

    return _apply_to_all(operands, 3, step)


@lower(DIALECT, "Adam", until=JUDGED)
def adam(
    b: Builder,
    rate: Value,
    number: Value,
    *operands: Value,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Value, ...]:
    """Adam: move along the running mean of gradients, divided by the root of their running mean square."""
    times = cast(b, number, dtype_of(rate))
    left = [b(Sub, b.like(rate, 1), b(Pow, b.like(rate, each), times)) for each in (alpha, beta)]
    corrected = b(Div, b(Mul, rate, b(Sqrt, left[1])), left[0])
    adjusted = b(Where, b(Greater, times, 0), corrected, rate)

    def step(x: Value, gradient: Value, mean: Value, squares: Value) -> tuple[Value, ...]:
        gradient = _pulled(b, x, gradient, norm_coefficient)
        mean = b(Add, b(Mul, mean, alpha), b(Mul, gradient, 1 - alpha))
        squares = b(Add, b(Mul, squares, beta), b(Mul, b(Mul, gradient, gradient), 1 - beta))
        moved = b(Mul, cast(b, adjusted, dtype_of(x)), mean)
        x = b(Sub, x, b(Div, moved, b(Add, b(Sqrt, squares), epsilon)))
        return b(Mul, x, 1 - norm_coefficient_post) if norm_coefficient_post else x, mean, squares

    return _apply_to_all(operands, 4, step)


@lower(DIALECT, "Momentum", until=JUDGED)
def momentum(
    b: Builder,
    rate: Value,
    number: Value,
    *operands: Value,
    alpha: float,
    beta: float,
    norm_coefficient: float,
    mode: str,
) -> tuple[Value, ...]:
    """Momentum: steps along an exponentially decaying sum of gradients, or with `nesterov`."""
    if mode not in ("standard", "nesterov"):
        message = f"mode is {mode!r}"
        raise ShapeError(message, "standard or nesterov")
    is_later = b(Greater, number, 0)
    weight = b(Where, is_later, b.like(rate, beta), b.like(rate, 1))

    def step(x: Value, gradient: Value, velocity: Value) -> tuple[Value, ...]:
        gradient = _pulled(b, x, gradient, norm_coefficient)
        velocity = b(Add, b(Mul, velocity, alpha), b(Mul, cast(b, weight, dtype_of(x)), gradient))
        along = b(Add, gradient, b(Mul, velocity, alpha)) if mode == "nesterov" else velocity
        return b(Sub, x, b(Mul, cast(b, rate, dtype_of(x)), along)), velocity

    return _apply_to_all(operands, 3, step)
