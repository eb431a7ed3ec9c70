"""A program as one compiled loop."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.expression.blocked import BlockedProgram, KernelFault, constant_array
from graphport.expression.faults import Fault
from graphport.expression.fused import engine
from graphport.expression.fused.arguments import ENTRY, LARGE
from graphport.expression.fused.entry import CompiledEntry, object_layout
from graphport.expression.fused.layout import Layout, layout
from graphport.expression.fused.operators import ELEMENTS, divides_integers, is_compiled
from graphport.expression.fused.segments import MOST_SLOTS, slot_count
from graphport.expression.fused.source import KERNEL, Access, module
from graphport.expression.fused.workers import processors, run_parallel
from graphport.expression.program import Apply, Constant, Load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.expression.functions import Function
    from graphport.expression.program import Program, Value

    Array = np.ndarray[Any, Any]

LONGEST = 4096
"""Operations of a program that is compiled; longer ones take seconds, which NumPy would need for gigabytes."""
_WORTH_THREADS = 1 << 20
"""Elements from which a second thread saves more than waking it costs."""
_PART = 1 << 18
"""Elements that a thread takes at once."""
_MOST_WORKS = 64
_ADDRESS = ctypes.c_void_p
_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64, _ADDRESS, _ADDRESS, _ADDRESS, ctypes.c_int64, ctypes.c_int64, _ADDRESS, _ADDRESS
)
_SLOW = frozenset({"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "logaddexp", "div", "sqrt", "rsqrt"})
"""Kernels with long chains of dependent instructions: more vectors at a time hide them, though registers run out."""
_PLAIN = frozenset({"add", "sub", "mul", "neg", "square"})
"""Kernels of which LLVM makes good code for any number of vectors; others want a power of two."""


def can_compile(program: Program) -> bool:
    """Whether all kernels of `program` can be compiled, and it is short enough to compile quickly."""
    if not 0 < program.operation_count <= LONGEST or not engine.is_available():
        return False
    for value in program.values:
        if value.dtype not in ELEMENTS or (value.dtype is DType.FLOAT16 and not engine.target().converts_half):
            return False
        if isinstance(value, Apply) and not is_compiled(value.kernel, program.values[value.arguments[0]].dtype):
            return False
    return slot_count(program) <= MOST_SLOTS


class _Chunk:
    """A part of a computation for one thread: its axes, and the start address of each operand."""

    def __init__(self, plan: Layout, offsets: tuple[int, ...]) -> None:
        self.offsets = offsets
        self.rank = len(plan.outer)
        self.length = plan.length
        strides = [stride for _, strides in plan.outer for stride in strides]
        numbers = [*strides, *(extent for extent, _ in plan.outer), *plan.inner]
        # One array keeps the three addresses valid for its lifetime.
        self._numbers = np.array(numbers, np.int64)
        start = self._numbers.ctypes.data
        self._addresses = (start, start + 8 * len(strides), start + 8 * (len(strides) + self.rank))

    def call(self, function: Callable[..., int], addresses: Sequence[int], constants: int) -> int:
        """Call the kernel; return 0, or the index of the value that divides by zero."""
        outer, extents, inner = self._addresses
        starts = [address + offset for address, offset in zip(addresses, self.offsets, strict=True)]
        pointers = (_ADDRESS * len(starts))(*starts)
        return function(pointers, outer, extents, self.rank, self.length, inner, constants)


@dataclass(frozen=True, slots=True)
class _Work:
    """A program on arrays of certain shapes and strides: the kernel, and the parts for threads."""

    function: Callable[..., int]
    code: engine.Code
    parts: list[_Chunk]
    threads: int


class FusedProgram:
    """A compiled program, with one kernel per memory layout of the operands along the innermost axis."""

    def __init__(self, program: Program, functions: Mapping[str, Function], threads: int | None = None) -> None:
        """Prepare `program`, for which `can_compile` holds, on up to `threads` threads (`None`: the processors)."""
        self.program = program
        self.loads = [(number, value.index) for number, value in enumerate(program.values) if isinstance(value, Load)]
        self.indices = [index for _, index in self.loads]
        self.threads = threads
        self._functions = functions
        self._sizes = [program.values[number].dtype.numpy.itemsize for number, _ in self.loads]
        self._sizes.append(program.dtype.numpy.itemsize)
        self._constants = _constant_table(program)
        self._works: dict[object, _Work] = {}
        self._kernels: dict[Access, tuple[Callable[..., int], engine.Code]] = {}
        self._blocked: BlockedProgram | None = None

    def run(self, operands: Sequence[Array], out: Array) -> None:
        """Compute the program on `operands` (by index) into `out`, which has the shape of the result.

        Raises:
            KernelFault: an integer is divided by zero; `out` may hold some of the result by then.
        """
        arrays = [*(operands[index] for index in self.indices), out]
        # A scalar beside an empty operand may be divided by zero: NumPy detects it, a loop of length 0 does not.
        if not out.size or not all(array.flags.aligned and array.dtype.isnative for array in arrays):
            self._by_numpy().run(operands, out)
        else:
            self._compute(arrays)

    def kernel(self, access: Access) -> tuple[Callable[..., int], engine.Code]:
        """Return the compiled function for operands with this memory layout."""
        known = self._kernels.get(access)
        if known is None:
            target = engine.target()
            objects = object_layout() if set(access.modes) == {"c"} and not access.bypasses_cache else None
            text = module(
                self.program,
                access,
                self._lanes(target),
                objects,
                largest=self._largest_alone(),
                x86=target.is_x86,
                scales=target.scales,
            )
            code = engine.load(text, [KERNEL] if objects is None else [KERNEL, ENTRY])
            known = self._kernels[access] = (_SIGNATURE(code.addresses[KERNEL]), code)
        return known

    def compiled_call(self) -> CompiledEntry | None:
        """Return a function that Python calls directly; `None` if that is impossible.

        One that divides integers may find a zero when it has overwritten operands; it could not begin again.
        """
        if object_layout() is None or any(self._divides(value) for value in self.program.values):
            return None
        _, code = self.kernel(Access("c" * len(self._sizes)))
        dtypes = [self.program.values[number].dtype for number, _ in self.loads]
        return CompiledEntry(code, [*dtypes, self.program.dtype], self._constants)

    def _largest_alone(self) -> int:
        """Number of elements up to which a single thread is used."""
        return LARGE if (self.threads or processors()) == 1 else _WORTH_THREADS

    def _lanes(self, target: engine.Target) -> int:
        """Number of elements processed at a time, chosen so that all operands fit into registers."""
        computed = [value for value in self.program.values if isinstance(value, Apply)]
        width = max(4, min(value.dtype.numpy.itemsize for value in computed))
        most = 6 if target.registers > 16 else 4
        vectors = min(most, max(1, (target.registers - 1) // (len(self.loads) + 1)))
        if any(value.kernel in _SLOW for value in computed):
            vectors = 4
        elif any(value.kernel not in _PLAIN for value in computed):
            vectors = min(4, 1 << (vectors.bit_length() - 1))
        return vectors * target.vector_bytes // width

    def _compute(self, arrays: Sequence[Array]) -> None:
        key = tuple((array.shape, array.strides) for array in arrays)
        work = self._works.get(key)
        if work is None:
            if len(self._works) >= _MOST_WORKS:
                self._works.clear()
            work = self._works[key] = self._prepared(arrays)
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        constants = self._constants.ctypes.data
        faults: list[int] = []

        def compute(number: int) -> None:
            fault = work.parts[number].call(work.function, addresses, constants)
            if fault:
                faults.append(fault)

        if len(work.parts) == 1:
            compute(0)
        else:
            run_parallel(compute, len(work.parts), work.threads)
        if faults:
            self._refuse(min(faults) - 1)

    def _prepared(self, arrays: Sequence[Array]) -> _Work:
        out = arrays[-1]
        plan = layout(out.shape, arrays)
        is_large = sum(array.nbytes for array in arrays) > 2 * last_level_cache()
        function, code = self.kernel(Access(plan.modes(self._sizes), is_large and plan.inner[-1] == out.itemsize))
        threads = (self.threads or processors()) if out.size > self._largest_alone() else 1
        return _Work(function, code, [_Chunk(*part) for part in _split_layout(plan, out.size, threads)], threads)

    def _divides(self, value: Value) -> bool:
        return isinstance(value, Apply) and divides_integers(value.kernel, value.dtype)

    def _refuse(self, number: int) -> None:
        value = self.program.values[number]
        name = value.kernel if isinstance(value, Apply) else ""
        fault = Fault(
            "EXPR0204", f"{name} divides an integer by zero", "cast an operand to float, where the result is inf or nan"
        )
        raise KernelFault(number, fault)

    def _by_numpy(self) -> BlockedProgram:
        if self._blocked is None:
            self._blocked = BlockedProgram(self.program, self._functions)
        return self._blocked


def _constant_table(program: Program) -> Array:
    """The constants as the kernel reads them, 8 bytes each."""
    constants = [value for value in program.values if isinstance(value, Constant)]
    table = np.zeros((max(1, len(constants)), 8), np.uint8)
    with np.errstate(all="ignore"):
        for row, constant in zip(table, constants, strict=False):
            raw = constant_array(program.constants[constant.slot], constant.dtype).tobytes()
            row[: len(raw)] = np.frombuffer(raw, np.uint8)
    return table


@cache
def last_level_cache() -> int:
    """Bytes of the largest cache of the processor."""
    name = "SC_LEVEL3_CACHE_SIZE"
    known = os.sysconf(name) if hasattr(os, "sysconf") and name in os.sysconf_names else 0
    return known if known > 0 else 16 << 20


def _split_layout(plan: Layout, size: int, threads: int) -> list[tuple[Layout, tuple[int, ...]]]:
    """The layout in parts for threads, each with the bytes from the beginning of every operand."""
    none = (0,) * len(plan.inner)
    if threads == 1 or size < 2 * _PART:
        return [(plan, none)]
    count = min(size // _PART, 64 * threads)
    if not plan.outer or plan.length >= prod(extent for extent, _ in plan.outer):
        edges = [plan.length * part // count // 64 * 64 for part in range(count)] + [plan.length]
        return [
            (Layout(plan.outer, stop - start, plan.inner), tuple(start * stride for stride in plan.inner))
            for start, stop in pairwise(edges)
            if stop > start
        ]
    axis = max(range(len(plan.outer)), key=lambda number: plan.outer[number][0])
    extent, strides = plan.outer[axis]
    count = min(count, extent)
    edges = [extent * part // count for part in range(count + 1)]
    return [
        (
            Layout((*plan.outer[:axis], (stop - start, strides), *plan.outer[axis + 1 :]), plan.length, plan.inner),
            tuple(start * stride for stride in strides),
        )
        for start, stop in pairwise(edges)
    ]
