"""Typed expressions: element types resolved, scalars folded, conversions explicit.

A program is a list of values, each computed from earlier ones. Equal values are computed once. The order keeps few
values alive, and every value has exactly the width of its element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.expression.faults import Fault, misfit
from graphport.expression.promotion import ARITHMETIC, Operand, Priority, resolve, scalar_dtype
from graphport.expression.rpn import Action
from graphport.expression.scalars import apply_to_scalars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dtypes import DType
    from graphport.expression.functions import Function
    from graphport.expression.promotion import Resolution
    from graphport.expression.rpn import Step
    from graphport.expression.syntax import Number
    from graphport.expression.tokens import Text

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Operand number `index`."""

    index: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant number `slot`; its value is no part of the program, so that one kernel serves all values."""

    slot: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """Kernel `kernel` of earlier values, which share an element type (but for `copy`, which converts)."""

    kernel: str
    arguments: tuple[int, ...]
    dtype: DType


Value = Load | Constant | Apply


@dataclass(frozen=True, slots=True)
class Program:
    """Values in order of computation; the last one is the result.

    `constants` are the constants of `Constant` values by slot, `positions` the text positions of the values.
    """

    values: tuple[Value, ...]
    constants: tuple[Number, ...]
    positions: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """Element type of the result."""
        return self.values[-1].dtype

    @property
    def operation_count(self) -> int:
        """How many values are computed rather than loaded."""
        return sum(isinstance(value, Apply) for value in self.values)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of typing an expression: a scalar, another constant, a program, or a list of them."""

    value: Number | str | Program | tuple[Result, ...] | None


@dataclass(frozen=True, slots=True)
class Argument:
    """The static information about an operand; `value` is that of a weak scalar."""

    dtype: DType
    shape: Shape
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A value on the stack: its index, and the properties that promotion and `size` need."""

    number: int
    dtype: DType
    shape: Shape

    @property
    def operand(self) -> Operand:
        return Operand(self.dtype, Priority.TENSOR if self.shape else Priority.ZERO_DIM)


@dataclass(frozen=True, slots=True)
class _ListOperand:
    """A list on the stack."""

    entries: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a list of `count` entries that is being finished."""

    count: int


class Builder:
    """Executes the steps of an expression on types and shapes instead of elements."""

    def __init__(
        self, text: Text, functions: Mapping[str, Function], arguments: Sequence[Argument], default_float: DType
    ) -> None:
        self.text = text
        self.functions = functions
        self.arguments = arguments
        self.default_float = default_float
        self.pool: list[Value] = []
        self.positions: list[int] = []
        self.constants: list[Number] = []
        self.slots: dict[tuple[type, str], int] = {}
        self.numbers: dict[Value, int] = {}

    def build(self, steps: Sequence[Step]) -> Result:
        """Type the expression `steps` for the given arguments.

        Raises:
            DiagnosticError: `EXPR0201` to `EXPR0206`, located at the failing step.
        """
        if any(step.index >= len(self.arguments) for step in steps):
            check_operand_count(self.text, steps, len(self.arguments))
        stack: list[object] = []
        origins: list[Step] = []
        for position, step in enumerate(steps):
            taken = stack[len(stack) - step.arity :]
            of = origins[len(origins) - step.arity :]
            del stack[len(stack) - step.arity :], origins[len(origins) - step.arity :]
            origins.append(step)
            try:
                stack.append(self.step(step, taken, position))
            except Fault as fault:
                place = step if fault.operand is None else of[fault.operand]
                raise fault.at(self.text.span(place.start, place.end)) from None
        return self.finished(stack[0])

    def step(self, step: Step, taken: list[object], position: int) -> object:
        match step.action:
            case Action.LOAD:
                return self.load(self.arguments[step.index], step.index, position)
            case Action.PUSH:
                return step.value
            case Action.COLLECT:
                return _ListOperand(tuple(taken))
            case Action.APPLY:
                return self.apply(self.functions[step.function], taken, position)

    def load(self, argument: Argument, index: int, position: int) -> object:
        if argument.value is not None:
            return argument.value
        if argument.dtype not in ARITHMETIC:
            raise Fault("EXPR0203", f"unsupported element type {argument.dtype}", "cast the operand first")
        return _Tensor(self.value(Load(index, argument.dtype), position), argument.dtype, argument.shape)

    def apply(self, function: Function, taken: list[object], position: int) -> object:
        if function.name == "size":
            return _size(taken)
        if any(isinstance(entry, _Tensor) for entry in taken):
            return self.compute(function, taken, position)
        return apply_to_scalars(function, [_require_number(function.name, entry) for entry in taken])

    def compute(self, function: Function, taken: list[object], position: int) -> _Tensor:
        """Emit a function with at least one tensor argument; return its result."""
        shape = _broadcast(function.name, taken)
        operands = [self.operand(function.name, entry) for entry in taken]
        resolution = resolve(function.name, function.signature, operands, self.default_float)
        if function.name == "int" and np.prod(shape, dtype=object) != 1:
            raise Fault("EXPR0203", f"int requires a scalar, got a tensor {_dims(shape)}", "use torch.long")
        numbers = [self.converted(entry, resolution, position) for entry in taken[: resolution.takes]]
        if resolution.kernel == "copy":
            number = numbers[0]
        else:
            number = self.value(Apply(resolution.kernel, tuple(numbers), resolution.produced), position)
        if resolution.produced is not resolution.result:
            number = self.value(Apply("copy", (number,), resolution.result), position)
        return _Tensor(number, resolution.result, shape)

    def operand(self, name: str, entry: object) -> Operand:
        if isinstance(entry, _Tensor):
            return entry.operand
        number = _require_number(name, entry)
        return Operand(scalar_dtype(number, self.default_float), Priority.SCALAR, number)

    def converted(self, entry: object, resolution: Resolution, position: int) -> int:
        """Return the index of `entry` after the conversions that the kernel requires."""
        if not isinstance(entry, _Tensor):
            return self.constant(_require_number("", entry), resolution.computed, position)
        number = entry.number
        for dtype in resolution.conversions(entry.dtype):
            number = self.value(Apply("copy", (number,), dtype), position)
        return number

    def constant(self, number: Number, dtype: DType, position: int) -> int:
        # The text as key finds a NaN again and distinguishes the two zeros.
        key = (type(number), repr(number))
        slot = self.slots.setdefault(key, len(self.constants))
        if slot == len(self.constants):
            self.constants.append(number)
        return self.value(Constant(slot, dtype), position)

    def value(self, value: Value, position: int) -> int:
        """Return the index of `value`; equal values share one."""
        known = self.numbers.get(value)
        if known is not None:
            return known
        self.numbers[value] = len(self.pool)
        self.pool.append(value)
        self.positions.append(position)
        return len(self.pool) - 1

    def finished(self, entry: object) -> Result:
        """The result; lists may be nested to any depth that a text can hold, so they are finished with a stack."""
        pending: list[object] = [entry]
        done: list[Result] = []
        while pending:
            current = pending.pop()
            if isinstance(current, _ListOperand):
                pending.append(_End(len(current.entries)))
                pending.extend(reversed(current.entries))
            elif isinstance(current, _End):
                start = len(done) - current.count
                done[start:] = [Result(tuple(done[start:]))]
            else:
                done.append(self.leaf(current))
        return done[0]

    def leaf(self, entry: object) -> Result:
        if isinstance(entry, _Tensor):
            return Result(self.program(entry.number))
        if entry is None or isinstance(entry, str):
            return Result(entry)
        return Result(_require_number("", entry))

    def program(self, root: int) -> Program:
        """Return the values that `root` depends on, in an order that keeps few of them alive."""
        order = _schedule(self.pool, root)
        renumbered = {old: new for new, old in enumerate(order)}
        slots: dict[int, int] = {}
        values: list[Value] = []
        for old in order:
            match self.pool[old]:
                case Apply() as value:
                    arguments = tuple(renumbered[argument] for argument in value.arguments)
                    values.append(Apply(value.kernel, arguments, value.dtype))
                case Constant() as value:
                    values.append(Constant(slots.setdefault(value.slot, len(slots)), value.dtype))
                case value:
                    values.append(value)
        constants = tuple(self.constants[slot] for slot in slots)
        return Program(tuple(values), constants, tuple(self.positions[old] for old in order))


def _schedule(pool: Sequence[Value], root: int) -> list[int]:
    """The values below `root`, each after its arguments, the argument that needs more registers first.

    With that order a tree of n operations keeps at most log2(n) + 1 results alive (Sethi and Ullman).
    """
    needs = [0] * (root + 1)
    for number in range(root + 1):
        value = pool[number]
        if isinstance(value, Apply):
            wanted = sorted((needs[argument] for argument in value.arguments), reverse=True)
            needs[number] = max(1, *(need + rank for rank, need in enumerate(wanted)))
    order: list[int] = []
    is_done = bytearray(root + 1)
    pending = [(root, False)]
    while pending:
        number, is_open = pending.pop()
        if is_done[number]:
            continue
        value = pool[number]
        if is_open or not isinstance(value, Apply):
            is_done[number] = 1
            order.append(number)
            continue
        pending.append((number, True))
        # A stack pops in reverse order; among equals the left one should come first.
        backwards = value.arguments[::-1]
        pending.extend((argument, False) for argument in sorted(backwards, key=needs.__getitem__))
    return order


def _size(taken: Sequence[object]) -> object:
    tensor = taken[0]
    if not isinstance(tensor, _Tensor):
        raise Fault("EXPR0203", "size requires a tensor")
    if len(taken) == 1:
        return _ListOperand(tensor.shape)
    axis = taken[1]
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise Fault("EXPR0203", "the axis of size must be an integer")
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise Fault("EXPR0205", f"axis {axis} is out of range for rank {rank}", operand=1)
    return tensor.shape[axis]


def _require_number(function: str, entry: object) -> Number:
    if isinstance(entry, bool | int | float | complex):
        return entry
    what = "a list" if isinstance(entry, _ListOperand) else str(entry)
    raise Fault("EXPR0203", f"{function} requires tensors and numbers, got {what}")


def _broadcast(function: str, taken: Sequence[object]) -> Shape:
    shapes = [entry.shape for entry in taken if isinstance(entry, _Tensor)]
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        message = f"{function}: shapes {' and '.join(map(_dims, shapes))} do not broadcast"
        indices = [place for place, entry in enumerate(taken) if isinstance(entry, _Tensor)]
        remedy = "use dims that are equal or 1, aligned at the last axis"
        raise Fault("EXPR0202", message, remedy, indices[misfit(shapes)]) from None


def _dims(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def check_operand_count(text: Text, steps: Sequence[Step], given: int) -> None:
    """Refuse a wrong number of operands.

    Raises:
        DiagnosticError: `EXPR0201`, at the first reference to an operand that is not there.
    """
    wanted = 1 + max((step.index for step in steps), default=-1)
    if given == wanted:
        return
    plural = "" if wanted == 1 else "s"
    message = f"the expression takes {wanted} operand{plural}, got {given}"
    missing = next((step for step in steps if step.index >= given), None)
    span = text.span(0, len(text.text)) if missing is None else text.span(missing.start, missing.end)
    raise DiagnosticError(Diagnostic("EXPR0201", message, span))


def span_of(text: Text, steps: Sequence[Step], program: Program, number: int) -> Span:
    """Return the text position of value `number` of `program`."""
    step = steps[program.positions[number]]
    return text.span(step.start, step.end)
