"""A program computed by NumPy, block by block, in registers that are reused: no temporary grows with the operands."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.expression.faults import Fault
from graphport.expression.kernels import KERNELS
from graphport.expression.program import Apply, Constant, Load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.core.dtypes import DType
    from graphport.expression.functions import Compute, Function
    from graphport.expression.program import Program, Shape
    from graphport.expression.syntax import Number

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Array]

CACHE = 1 << 19
"""Bytes of all registers together: the L2 cache of one core, also of a small one."""
_SHORTEST, _LONGEST = 1 << 12, 1 << 16
"""Bounds of a block, in elements: below, calling costs more than computing; above, operands drive registers out."""
_SMALL = 1 << 16
"""Number of elements up to which temporaries are allocated anew; larger ones need system calls."""
_LINE = 64
"""Bytes of a line of the cache."""


def _silent() -> Context:
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


_SILENT = _silent()
"""NumPy error state without warnings; entering a copied context costs a tenth of `np.errstate`."""


class KernelFault(Exception):  # noqa: N818  becomes a diagnostic where the text is known
    """Value `number` of a program cannot be computed; the cause is a `Fault`."""

    def __init__(self, number: int, fault: Fault) -> None:
        super().__init__(fault.message)
        self.number = number
        self.fault = fault


@dataclass(frozen=True, slots=True)
class _Operation:
    """A kernel call; `number` is the index of the computed value, `register` its buffer if it is intermediate."""

    number: int
    kernel: Kernel
    arguments: tuple[int, ...]
    dtype: np.dtype[Any]
    register: int
    ends: tuple[int, ...]
    """Computed values that nothing after this reads."""


class BlockedProgram:
    """A program with NumPy's kernels and registers in place."""

    def __init__(self, program: Program, functions: Mapping[str, Function]) -> None:
        self.program = program
        self.loads = [(number, value.index) for number, value in enumerate(program.values) if isinstance(value, Load)]
        self.indices = [index for _, index in self.loads]
        self.operations = _operations(program, functions)
        # A single NumPy call already makes one pass over memory.
        self._has_no_temporaries = len(self.operations) == 1 and isinstance(self.operations[0].kernel, np.ufunc)
        self.register_count = 1 + max((operation.register for operation in self.operations), default=-1)
        self.width = max((operation.dtype.itemsize for operation in self.operations), default=1)
        self.block = _block_length(self.register_count * self.width)
        self._idle: list[list[Array]] = []
        with np.errstate(all="ignore"):
            self._constants = [
                constant_array(program.constants[value.slot], value.dtype) if isinstance(value, Constant) else None
                for value in program.values
            ]

    def direct(self, dtypes: Sequence[np.dtype[Any]]) -> DirectCall | None:
        """Return the program as a function of arrays of these types; NumPy functions only, which cannot fail."""
        if not all(isinstance(operation.kernel, np.ufunc) for operation in self.operations):
            return None
        return DirectCall(self, [*dtypes, self.program.dtype.numpy])

    def run(self, operands: Sequence[Array], out: Array) -> None:
        """Compute the program on `operands` (by index) into `out`, which has the shape of the result.

        Raises:
            KernelFault: an integer is divided by zero; `out` may hold some of the result by then.
        """
        values = self._constants.copy()
        for number, index in self.loads:
            values[number] = operands[index]
        if not self.operations:
            _SILENT.copy().run(np.copyto, out, operands[self.loads[0][1]])
        elif out.size <= min(self.block, _SMALL) or self._has_no_temporaries:
            _SILENT.copy().run(self._run_whole, values, out)
        else:
            _SILENT.copy().run(self._run_blocks, values, out)

    def _run_whole(self, values: list[Any], out: Array) -> None:
        """Evaluate all elements at once, if the temporaries are no larger than a block."""
        last = self.operations[-1]
        for operation in self.operations[:-1]:
            arguments = [values[argument] for argument in operation.arguments]
            if operation.kernel is _convert:
                values[operation.number] = arguments[0].astype(operation.dtype)
            else:
                values[operation.number] = _called(operation, arguments)
            for number in operation.ends:
                values[number] = None
        _called(last, [values[argument] for argument in last.arguments], out)

    def _run_blocks(self, values: list[Any], out: Array) -> None:
        """Evaluate block by block; the overhead per block outside NumPy's calls dominates short chains."""
        loads, out = _flattened([(number, values[number]) for number, _ in self.loads], out)
        shapes = self._shapes(loads, out.ndim)
        registers = self._idle.pop() if self._idle else _registers(self.register_count, self.block * self.width)
        moving = [(number, array) for number, array in loads if array.shape == out.shape]
        others = [(number, array) for number, array in loads if array.shape != out.shape]
        steps = [(operation.kernel, *_pair(operation.arguments), operation.number) for operation in self.operations]
        last = self.operations[-1].number
        length: Shape | None = None
        number = last
        try:
            for place in blocks(out.shape, self.block):
                target = out[place]
                if target.shape != length:
                    length = target.shape
                    for operation in self.operations[:-1]:
                        shape = _block_shape(shapes[operation.number], length)
                        values[operation.number] = _view(registers[operation.register], operation.dtype, shape)
                for number, array in moving:
                    values[number] = array[place]
                for number, array in others:
                    values[number] = array[_within(place, array.shape)]
                values[last] = target
                for kernel, first, second, number in steps:
                    if second is None:
                        kernel(values[first], out=values[number])
                    else:
                        kernel(values[first], values[second], out=values[number])
        except Fault as fault:
            raise KernelFault(number, fault) from None
        self._idle.append(registers)

    def _shapes(self, loads: Sequence[tuple[int, Array]], rank: int) -> dict[int, Shape]:
        """The shape of every value, of full rank; a constant has extents 1."""
        ones = (1,) * rank
        shapes: dict[int, Shape] = {number: ones[array.ndim :] + array.shape for number, array in loads}
        for operation in self.operations:
            merged = [shapes.get(argument, ones) for argument in operation.arguments]
            first = merged[0]
            shapes[operation.number] = (
                first if all(shape == first for shape in merged) else np.broadcast_shapes(*merged)
            )
        return shapes


class DirectCall:
    """A program on arrays without conversion: `call(*operands, out)` returns `out`, or None if it did not compute.

    None means that the arrays differ in shape or from the program's element types, or overlap.
    """

    largest = 1 << 62

    def __init__(self, program: BlockedProgram, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.dtype = dtypes[-1]
        self._program = program
        self._dtypes = tuple(dtypes)
        self._alone = _single_kernel(program)

    def call(self, *arrays: Any) -> Array | None:
        if len(arrays) != len(self._dtypes):
            return None
        out = arrays[-1]
        shape = getattr(out, "shape", None)
        for array, dtype in zip(arrays, self._dtypes, strict=True):
            if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                return None
        if not out.flags.writeable:
            return None
        operands = arrays[:-1]
        for array in operands:
            if array is not out and np.may_share_memory(array, out):
                return None
        if self._alone is None:
            self._program.run(operands, out)
        else:
            kernel, positions = self._alone
            _SILENT.copy().run(kernel, *[operands[place] for place in positions], out)
        result: Array = out
        return result


def _single_kernel(program: BlockedProgram) -> tuple[Kernel, list[int]] | None:
    """Return the only function of a program of one operation, and the indices of its operands."""
    index_of = dict(program.loads)
    if len(program.operations) != 1 or any(place not in index_of for place in program.operations[0].arguments):
        return None
    (operation,) = program.operations
    return operation.kernel, [index_of[place] for place in operation.arguments]


def constant_array(value: Number, dtype: DType) -> Array:
    """`value` as a tensor without axes; integers wrap round, as PyTorch's do."""
    return np.array(value).astype(dtype.numpy)


def blocks(shape: Shape, limit: int) -> Iterator[tuple[slice, ...]]:
    """Boxes that tile `shape` in order, each of about `limit` elements or less: whole inner axes, a run of one axis."""
    axis = len(shape)
    inner = 1
    while axis and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    rest = tuple(slice(None) for _ in shape[axis:])
    if axis == 0:
        yield rest
        return
    extent = shape[axis - 1]
    count = -(-extent // max(1, limit // inner))
    edges = [extent * part // count for part in range(count + 1)]
    runs = [slice(start, stop) for start, stop in pairwise(edges)]
    for outer in product(*(range(n) for n in shape[: axis - 1])):
        for run in runs:
            yield (*(slice(index, index + 1) for index in outer), run, *rest)


def _block_length(width: int) -> int:
    # A multiple of 64 keeps every register aligned to a cache line.
    return min(max(CACHE // max(1, width), _SHORTEST), _LONGEST) // 64 * 64


def _operations(program: Program, functions: Mapping[str, Function]) -> list[_Operation]:
    """Return the kernel calls with registers; a register is reused after the last use of its value."""
    last_use: dict[int, int] = {}
    for number, value in enumerate(program.values):
        if isinstance(value, Apply):
            last_use.update((argument, number) for argument in value.arguments)
    operations: list[_Operation] = []
    register_of: dict[int, int] = {}
    free: list[int] = []
    count = 0
    for number, value in enumerate(program.values):
        if not isinstance(value, Apply):
            continue
        dying = {argument for argument in value.arguments if last_use[argument] == number and argument in register_of}
        # A result may take the place of an argument only if the two are read and written in step.
        same = [argument for argument in dying if program.values[argument].dtype is value.dtype]
        free.extend(register_of.pop(argument) for argument in same)
        if not free:
            free.append(count)
            count += 1
        register_of[number] = free.pop()
        free.extend(register_of.pop(argument) for argument in dying - set(same))
        kernel = _kernel(value.kernel, functions)
        operations.append(
            _Operation(number, kernel, value.arguments, value.dtype.numpy, register_of[number], tuple(dying))
        )
    return operations


def _kernel(name: str, functions: Mapping[str, Function]) -> Kernel:
    if name == "copy":
        return _convert
    if name in KERNELS:
        return KERNELS[name]
    function = functions[name]
    return function.into or _with_out(function.compute)


def _with_out(compute: Compute) -> Kernel:
    def kernel(*arrays: Array, out: Array | None = None) -> Array:
        result: Array = compute(*arrays)
        if out is None:
            return result
        np.copyto(out, result, casting="unsafe")
        return out

    return kernel


def _convert(x: Array, out: Array) -> Array:
    np.copyto(out, x, casting="unsafe")
    return out


def _pair(arguments: tuple[int, ...]) -> tuple[int, int | None]:
    """Return the arguments of a kernel as a pair; a unary kernel has `None` second."""
    return arguments[0], arguments[1] if len(arguments) > 1 else None


def _called(operation: _Operation, arguments: Sequence[Array], out: Array | None = None) -> Array:
    try:
        return operation.kernel(*arguments, out=out)
    except Fault as fault:
        raise KernelFault(operation.number, fault) from None


def _flattened(loads: Sequence[tuple[int, Array]], out: Array) -> tuple[Sequence[tuple[int, Array]], Array]:
    """Collapse all axes into one if each operand has the result's memory layout or is a scalar."""
    is_plain = out.flags.c_contiguous and all(
        array.size == 1 or (array.shape == out.shape and array.flags.c_contiguous) for _, array in loads
    )
    if not is_plain:
        return loads, out
    return [(number, array.reshape(-1)) for number, array in loads], out.reshape(-1)


def _within(place: tuple[slice, ...], shape: Shape) -> tuple[slice, ...]:
    """Return the index of the part of an operand of shape `shape` that a block of the result reads."""
    whole = slice(None)
    inner = place[len(place) - len(shape) :]
    return tuple(whole if extent == 1 else part for extent, part in zip(shape, inner, strict=True))


def _block_shape(shape: Shape, block: Shape) -> Shape:
    if shape == block:
        return block
    return tuple(1 if extent == 1 else length for extent, length in zip(shape, block, strict=True))


def _registers(count: int, size: int) -> list[Array]:
    """Allocate `count` registers of `size` bytes, aligned to cache lines."""
    size = -(-size // _LINE) * _LINE
    memory = np.empty(count * size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return [memory[start + size * number : start + size * (number + 1)] for number in range(count)]


def _view(register: Array, dtype: np.dtype[Any], shape: Shape) -> Array:
    return register[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
