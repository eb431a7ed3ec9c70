"""Make canonical operators for the operations of a program, functions inlined."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core import budget
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, Unknown
from graphport.formats.stablehlo.program import MAX_CALL_DEPTH, Dense, OtherType, TensorType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.values import Held, Pair, Quantized, Token, flattened, rebuilt
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import UncomputedError, folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.quantization import integer_range
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dims import Dim
    from graphport.formats.stablehlo.program import Block, Function, Operation, Program, Type
    from graphport.ir.graph import Attribute

    Rule: TypeAlias = Callable[..., Any]

DIALECT = "stablehlo"
MAX_FILLED = 4096
"""Elements of a constant that is stored; a larger splat or iota is computed by operators."""

RULES: dict[str, Rule] = {}
MOVERS: set[str] = set()
"""Operations that move elements: on complex tensors they move the real and the imaginary parts."""
COMPLEX: dict[str, Rule] = {}
"""Rules for complex operands."""
INTEGER_CODES: set[str] = set()
"""Operations that take quantized tensors as they are."""
SHAPED: set[str] = set()
"""Operations that have no meaning in a body that is applied to all elements at once."""


def rule(*names: str, moves: bool = False, takes_codes: bool = False) -> Callable[[Rule], Rule]:
    """Register an import rule: `function(emitter, operation, *operands)` returns one result or a list."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if moves:
                MOVERS.add(name)
            if takes_codes:
                INTEGER_CODES.add(name)
        return function

    return register


def complex_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register an import rule for operations with complex operands, which are `Pair`s."""

    def register(function: Rule) -> Rule:
        COMPLEX.update(dict.fromkeys(names, function))
        return function

    return register


def as_results(found: Held | list[Held]) -> list[Held]:
    """Return the results of a rule as a list; a single result need not be in a list."""
    return found if isinstance(found, list) else [found]


_NARROW: dict[DType | None, DType] = {
    DType.INT2: DType.INT8,
    DType.INT4: DType.INT8,
    DType.UINT2: DType.UINT8,
    DType.UINT4: DType.UINT8,
    **dict.fromkeys(
        (
            *(DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ, DType.FLOAT8E8M0),
            DType.FLOAT4E2M1,
        ),
        DType.FLOAT32,
    ),
}
_BFLOAT16: dict[DType | None, DType] = {DType.BFLOAT16: DType.FLOAT32}
_FLOATS16: dict[DType | None, DType] = _BFLOAT16 | {DType.FLOAT16: DType.FLOAT32}
_INTEGERS16: dict[DType | None, DType] = {DType.INT16: DType.INT32, DType.UINT16: DType.INT32}
_UINT64: dict[DType | None, DType] = {DType.UINT64: DType.INT64}
_COMPUTED_IN: dict[str, dict[DType | None, DType]] = {
    **dict.fromkeys(("Reshape", "Transpose", "Slice", "Concat", "Gather", "GatherND", "GatherElements"), _NARROW),
    **dict.fromkeys(("ScatterND", "Unsqueeze", "Squeeze", "Tile"), _NARROW),
    "Expand": _NARROW | _BFLOAT16,
    "Pad": _NARROW | _BFLOAT16 | _INTEGERS16,
    "Where": _NARROW | _BFLOAT16 | _INTEGERS16 | _UINT64 | {DType.INT8: DType.INT32, DType.UINT32: DType.INT64},
    **dict.fromkeys(("Max", "Min"), _INTEGERS16),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _INTEGERS16 | _UINT64),
    "BitShift": {DType.UINT16: DType.UINT32},
    **dict.fromkeys(("Add", "Sub", "Mul", "ReduceSum", "ReduceProd"), _UINT64),
}
"""Element types for which an operator is not defined or the runtime has no kernel, and the type that replaces each.

The replacement holds every element of the type, or has the same low bits.
"""


@cache
def _operand_types(function: Rule) -> tuple[inspect.Signature, tuple[str, ...]]:
    """The signature of a rule without emitter and operation, and the annotations of its operands."""
    signature = inspect.signature(function)
    operands = [each for each in list(signature.parameters.values())[2:] if each.kind is not each.KEYWORD_ONLY]
    return signature.replace(parameters=operands), tuple(str(each.annotation) for each in operands)


@cache
def mismatch(function: Rule, count: int) -> str:
    """Why a rule does not take `count` operands; empty if it does."""
    try:
        _operand_types(function)[0].bind(*range(count))
    except TypeError as error:
        return str(error)
    return ""


def _check_operands(operation: Operation, function: Rule, operands: Sequence[Held]) -> None:
    """Refuse an operation whose operands do not match the signature of its rule.

    Raises:
        RefusedError: SH0007 another number of operands, or a tuple, token or complex tensor instead of a tensor.
    """
    reason = mismatch(function, len(operands))
    if reason:
        refuse("SH0007", f"{operation.shown()} has {len(operands)} operands: {reason}")
    annotations = _operand_types(function)[1]
    for index, operand in enumerate(operands):
        annotation = annotations[min(index, len(annotations) - 1)]
        if annotation == "Value" and not isinstance(operand, Value):
            refuse("SH0007", f"operand {index} of {operation.shown()} is not a real tensor")
        if annotation == "Pair" and not isinstance(operand, Pair):
            refuse("SH0007", f"operand {index} of {operation.shown()} is not a complex tensor")


class Emitter:
    """Makes nodes at the end of the current graph; `values` maps the keys of a program to canonical values."""

    def __init__(self, graph: Graph, program: Program, locate: Callable[[int | None], Span]) -> None:
        self.root = self.graph = graph
        self.program = program
        self.inference = Inference()
        self.inference.meet(graph)
        self.values: dict[int, Held] = {}
        self.counting_axes: dict[Value, int] = {}
        """Results of `iota` that are no constants, with the axis along which they count."""
        self.is_vectorized = False
        """Whether a body of scalars is applied to whole tensors, so that its declared shapes do not hold."""
        self.last_offset: int | None = None
        self._locate = locate
        self._op_defs = registry.op_defs()
        self._builder = Builder(self.inference, graph)
        self._calls: list[str] = []
        self._known: dict[Value, Any] = {}
        self._constants: dict[Any, Value] = {}

    # Nodes

    def __call__(self, op_type: str, *operands: Value | float | None, **attributes: Attribute) -> Value:
        """The first result of a canonical operator; a Python scalar is a constant of the first tensor's type."""
        return self.results(op_type, 1, *operands, **attributes)[0]

    def results(
        self, op_type: str, count: int, *operands: Value | float | None, **attributes: Attribute
    ) -> tuple[Value, ...]:
        """The first `count` results of a canonical operator."""
        like = next((x for x in reversed(operands) if isinstance(x, Value) and x.dtype is not DType.BOOL), None)
        dtype = DType.INT64 if like is None else like.dtype
        values = [x if isinstance(x, Value) or x is None else self.constant(x, dtype) for x in operands]
        if op_type in _COMPUTED_IN:
            replaced = self._computed_in(op_type, values, attributes)
            if replaced is not None:
                return (replaced,)
        try:
            return self._builder.results(self._op_defs[op_type], count, *values, **attributes)
        except Unknown:
            refuse("SH0009", f"{op_type}: the types or shapes of its operands are unknown")
        except (ShapeError, UnsupportedError) as error:
            refuse("SH0007", f"{op_type}: {error}")

    def _computed_in(
        self, op_type: str, values: Sequence[Value | None], attributes: dict[str, Attribute]
    ) -> Value | None:
        """The result computed in another element type, or `None` if the operands' own type is supported."""
        if op_type == "Where" and values[1] is not None and values[1].dtype is DType.BOOL:
            condition, x, y = values
            return self("Or", self("And", condition, x), self("And", self("Not", condition), y))
        if op_type in ("ReduceMax", "ReduceMin"):
            return self._extreme_uint64(op_type, values, attributes)
        replacements = _COMPUTED_IN[op_type]
        if op_type == "ScatterND" and attributes.get("reduction", "none") != "none":
            replacements = replacements | _FLOATS16
        dtype = next((x.dtype for x in values if x is not None and x.dtype in replacements), None)
        if dtype is None:
            return None
        other = replacements[dtype]
        given = [x if x is None or x.dtype is not dtype else self.cast(x, other) for x in values]
        return self.cast(self(op_type, *given, **attributes), dtype)

    def _extreme_uint64(
        self, op_type: str, values: Sequence[Value | None], attributes: dict[str, Attribute]
    ) -> Value | None:
        """Reduce uint64 elements as int64, with inverted highest bits, which keeps their order."""
        x, *axes = values
        if x is None or x.dtype is not DType.UINT64:
            return None
        highest = self.constant(1 << 63, DType.UINT64)
        signed = self.cast(self("BitwiseXor", x, highest), DType.INT64)
        found = self.cast(self(op_type, signed, *axes, **attributes), DType.UINT64)
        return self("BitwiseXor", found, highest)

    def opaque(self, op_type: str, facts: Sequence[TensorFact], *operands: Value) -> tuple[Value, ...]:
        """The results of an operator of StableHLO that has no canonical form."""
        builder = Builder(self.inference, self.graph, dialect=DIALECT, origin=self._builder.origin, stem=op_type)
        return builder.emit(op_type, *operands, facts=facts)

    def constant(self, data: Any, dtype: DType | None = None) -> Value:
        """A constant; small ones are shared within a graph."""
        _check_fits(data, dtype)
        array = np.asarray(data, None if dtype is None else dtype.numpy)
        if array.size > 64:
            return self._builder.constant(array, dtype)
        key = (id(self.graph), dtype, array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._builder.constant(array, dtype)
        return self._constants[key]

    def ints(self, *numbers: int) -> Value:
        """An int64 vector.

        Raises:
            RefusedError: SH0008 a number exceeds int64.
        """
        if any(abs(number) >= 1 << 63 for number in numbers):
            refuse("SH0008", f"{numbers} exceed int64")
        return self.constant(np.array(numbers, np.int64).reshape(-1), DType.INT64)

    def cast(self, x: Value, dtype: DType) -> Value:
        """`x` in another element type; integers wrap around."""
        return x if x.dtype is dtype else self("Cast", x, to=dtype)

    def at(self, operation: Operation) -> None:
        """Set `operation` as the origin of new nodes."""
        self.last_offset = operation.offset if operation.offset is not None else self.last_offset
        origin = self._locate(self.last_offset)
        stem = operation.name.rpartition(".")[2]
        self._builder = Builder(self.inference, self.graph, origin=origin, stem=stem)

    @contextmanager
    def inside(self, body: Graph) -> Generator[None]:
        """Add nodes to `body` inside the `with` block."""
        outer, builder = self.graph, self._builder
        outer.share_names(body)
        self.graph = body
        self._builder = Builder(self.inference, body, origin=builder.origin, stem=builder.stem)
        try:
            with self.inference.in_body():
                yield
        finally:
            self.graph, self._builder = outer, builder

    # Facts

    def dims(self, x: Value) -> tuple[Dim, ...]:
        """The shape of a tensor.

        Raises:
            RefusedError: SH0009 its rank is not known.
        """
        if x.shape is None:
            refuse("SH0009", f"unknown rank of %{x.name}")
        return x.shape

    def rank(self, x: Value) -> int:
        """The rank of a tensor."""
        return len(self.dims(x))

    def dtype(self, x: Value) -> DType:
        """The element type of a tensor."""
        if x.dtype is None:
            refuse("SH0009", f"unknown element type of %{x.name}")
        return x.dtype

    def dim(self, x: Value, axis: int) -> int | Value:
        """A dim: a number, or an int64 vector of one element that a run computes."""
        found = self.dims(x)[axis]
        if isinstance(found, int):
            return found
        return self("Shape", x, start=axis, end=axis + 1)

    def static(self, x: Value, axis: int) -> int:
        """A dim that must be known.

        Raises:
            RefusedError: SH0009 the dim is symbolic.
        """
        found = self.dims(x)[axis]
        if not isinstance(found, int):
            refuse("SH0009", f"dim {axis} of %{x.name} must be static, got {found}")
        return found

    def constant_elements(self, x: Held) -> np.ndarray[Any, Any] | None:
        """The elements of a small tensor that depends on constants alone; `None` of any other."""
        if not isinstance(x, Value):
            return None
        fact = x.fact
        if not isinstance(fact, TensorFact) or not fact.is_static:
            return None
        count = int(np.prod([d for d in fact.dims if isinstance(d, int)], dtype=np.float64))
        if count > MAX_FILLED:
            return None
        try:
            storage = folded(x, self._known)
            return None if storage is None else storage.numpy()
        except UncomputedError:
            return None

    def scalar(self, x: Held) -> Any:
        """The only element of a known tensor, as a Python number; `None` where it is not known."""
        found = self.constant_elements(x)
        return found.reshape(()).item() if found is not None and found.size == 1 else None

    def known_sizes(self, x: Held) -> list[Dim] | None:
        """The integers of an operand, of which some may be symbolic; `None` if a run computes them otherwise."""
        known = self.constant_elements(x)
        if known is not None:
            return [int(n) for n in known.reshape(-1)]
        fact = x.fact if isinstance(x, Value) else None
        return None if not isinstance(fact, TensorFact) or fact.elements is None else list(fact.elements)

    def must_know(self, x: Held, name: str) -> list[int]:
        """The integers of an operand that must be constant.

        Raises:
            RefusedError: SH0009 they are computed at run time.
        """
        found = self.constant_elements(x)
        if found is None:
            refuse("SH0009", f"the operand {name} must be constant", help="export the function with fixed sizes")
        return [int(n) for n in found.reshape(-1)]

    # Shapes

    def shape(self, parts: Sequence[int | Value]) -> Value:
        """An int64 vector of integers and vectors of one element."""
        if all(isinstance(part, int) for part in parts):
            return self.ints(*[part for part in parts if isinstance(part, int)])
        groups: list[Value] = []
        numbers: list[int] = []
        for part in parts:
            if isinstance(part, int):
                numbers.append(part)
                continue
            if numbers:
                groups.append(self.ints(*numbers))
                numbers = []
            groups.append(part)
        if numbers:
            groups.append(self.ints(*numbers))
        return groups[0] if len(groups) == 1 else self("Concat", *groups, axis=0)

    def reshape(self, x: Value, parts: Sequence[int | Value]) -> Value:
        """`x` in another shape of as many elements."""
        dims = self.dims(x)
        if list(dims) == list(parts):
            return x
        open_parts = [index for index, part in enumerate(parts) if not isinstance(part, int)]
        numbers = [part if isinstance(part, int) else -1 for part in parts]
        if len(open_parts) == 1 and 0 not in numbers:
            return self("Reshape", x, self.ints(*numbers))
        return self("Reshape", x, self.shape(parts), allowzero=int(0 in numbers) or None)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """`x` with its axes in another order."""
        return x if list(order) == list(range(len(order))) else self("Transpose", x, perm=tuple(order))

    def expand(self, x: Value, parts: Sequence[int | Value]) -> Value:
        """`x` broadcast to a shape."""
        if list(self.dims(x)) == list(parts):
            return x
        return self("Expand", x, self.shape(parts))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """`x` with new axes of one element."""
        return self("Unsqueeze", x, self.ints(*axes)) if axes else x

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """A part of one axis."""
        if step == 1 and start == 0 and stop == self.dims(x)[axis]:
            return x
        steps = [] if step == 1 else [self.ints(step)]
        return self("Slice", x, self.ints(start), self.ints(stop), self.ints(axis), *steps)

    def index(self, x: Value) -> Value:
        """Integers as int64."""
        return self.cast(x, DType.INT64)

    def sizes(self, x: Value) -> list[int | Value]:
        """All dims: integers, or vectors of one element."""
        return [self.dim(x, axis) for axis in range(self.rank(x))]

    # Operations

    def block(self, block: Block, operands: Sequence[Held]) -> list[Held]:
        """Emit a block's operations inline, with `operands` as its arguments; return the operands of its return."""
        if len(block.arguments) != len(operands):
            refuse("SH0007", f"a region has {len(block.arguments)} arguments, got {len(operands)}")
        for (key, _), operand in zip(block.arguments, operands, strict=True):
            self.values[key] = operand
        for operation in block.operations:
            if operation.name == "return":
                return self._operands(operation)
            self.operation(operation)
        return []

    def vectorized(self, block: Block, operands: Sequence[Held], count: int) -> list[Held]:
        """The `count` results of a block of scalars, applied to all elements of tensors of one shape.

        Raises:
            RefusedError: SH0007 the block returns another number of values.
        """
        before, self.is_vectorized = self.is_vectorized, True
        try:
            found = self.block(block, operands)
        finally:
            self.is_vectorized = before
        if len(found) != count:
            refuse("SH0007", f"a region returns {len(found)} values, expected {count}")
        return found

    def _operands(self, operation: Operation) -> list[Held]:
        """The operands of an operation.

        Raises:
            RefusedError: SH0007 one is not defined before it is used.
        """
        if any(key not in self.values for key in operation.operands):
            refuse("SH0007", f"{operation.shown()} uses an undefined value")
        return [self.values[key] for key in operation.operands]

    def call(self, name: str, operands: Sequence[Held]) -> list[Held]:
        """The results of a function, inlined.

        Raises:
            RefusedError: SH0004 it is not defined, SH0008 functions call each other endlessly.
        """
        function = self.program.functions.get(name)
        if function is None or function.body is None:
            refuse("SH0004", f"undefined function @{name}")
        if name in self._calls or len(self._calls) >= MAX_CALL_DEPTH:
            refuse("SH0008", f"@{name} is recursive, or calls are nested more than {MAX_CALL_DEPTH} levels deep")
        outer, self.values = self.values, {}
        self._calls.append(name)
        try:
            return self.block(function.body, operands)
        finally:
            self._calls.pop()
            self.values = outer

    def operation(self, operation: Operation) -> None:
        """Emit an operation by its rule."""
        self.at(operation)
        results = self.apply(operation, self._operands(operation))
        if len(results) != len(operation.results):
            message = f"{operation.shown()} has {len(results)} results, but declares {len(operation.results)}"
            refuse("SH0007", message)
        for key, result, type in zip(operation.results, results, operation.result_types, strict=True):
            self.values[key] = self.checked(operation, result, type)

    def apply(self, operation: Operation, operands: list[Held]) -> list[Held]:
        """Emit an operation with `operands`; return its results.

        Raises:
            RefusedError: SH0006 there is no rule, or it does not support the operands.
        """
        name = operation.name
        function = RULES.get(name)
        if any(isinstance(x, Quantized) for x in operands) and name not in INTEGER_CODES:
            operands = [self.dequantize(x) if isinstance(x, Quantized) else x for x in operands]
        if any(isinstance(x, Pair) for x in operands) and name in COMPLEX:
            function = COMPLEX[name]
        elif any(isinstance(x, Pair) for x in operands) and name in MOVERS:
            return self._moved(operation, operands)
        elif any(isinstance(x, Pair) for x in operands) and name not in INTEGER_CODES:
            refuse("SH0006", f"unsupported: {operation.shown()} of complex tensors")
        if function is None:
            help = "replace custom calls and composites that graphport does not know" if name == "custom_call" else None
            refuse("SH0006", f"unsupported operator {operation.shown()}", help=help)
        _check_operands(operation, function, operands)
        results = as_results(function(self, operation, *operands))
        return [self.requantized(x, type) for x, type in zip(results, operation.result_types, strict=False)] or results

    def _moved(self, operation: Operation, operands: list[Held]) -> list[Held]:
        """Apply a rule that moves elements to the real and to the imaginary parts."""
        function = RULES[operation.name]
        parts: list[list[Held]] = []
        for side in ("real", "imaginary"):
            given = [getattr(x, side) if isinstance(x, Pair) else x for x in operands]
            _check_operands(operation, function, given)
            parts.append(as_results(function(self, operation, *given)))
        if len(parts[0]) != len(operation.result_types):
            refuse(
                "SH0007",
                f"{operation.shown()} has {len(parts[0])} results but {len(operation.result_types)} result types",
            )
        return [
            Pair(a, b) if isinstance(type, TensorType) and type.is_complex else a
            for a, b, type in zip(*parts, operation.result_types, strict=True)
        ]

    def checked(self, operation: Operation, held: Held, type: Type) -> Held:
        """A result whose shape and element type are those declared; open dims get the declared sizes.

        Raises:
            RefusedError: SH0007 they differ.
        """
        if self.is_vectorized or not isinstance(type, TensorType) or isinstance(held, Token):
            return held
        values = flattened(held)
        return rebuilt(held, [self._checked(operation, value, type) for value in values])

    def _checked(self, operation: Operation, value: Value, type: TensorType) -> Value:
        wanted, dims = type.shape, self.dims(value)
        dtype = type.dtype
        if type.is_complex:
            dtype = DType.FLOAT32 if dtype is DType.COMPLEX64 else DType.FLOAT64
        if value.dtype is not dtype:
            refuse("SH0007", f"{operation.shown()} computes {value.dtype}, but declares {type}")
        fits = len(wanted) == len(dims) and all(
            a is None or not isinstance(b, int) or a == b for a, b in zip(wanted, dims, strict=True)
        )
        if not fits:
            shown = ", ".join(str(dim) for dim in dims)
            refuse("SH0007", f"{operation.shown()} computes shape [{shown}], but declares {type}")
        pairs = list(zip(wanted, dims, strict=True))
        if any(a is not None and isinstance(b, Symbolic) for a, b in pairs):
            parts = [self.dim(value, axis) if a is None else a for axis, (a, _) in enumerate(pairs)]
            shaped = self("Reshape", value, self.shape(parts))
            if value in self.counting_axes:
                self.counting_axes[shaped] = self.counting_axes[value]
            return shaped
        return value

    # Constants and quantized tensors

    def dense(self, dense: Dense) -> Held:
        """A constant of the file."""
        type = dense.type
        if type.is_complex:
            array = dense.storage.numpy()
            parts = [self._splat_or_constant(np.array(x), dense) for x in (array.real, array.imag)]
            return Pair(*parts)
        if dense.is_splat:
            value = self._splat_or_constant(dense.storage.numpy(), dense)
        elif dense.storage.count <= 64:
            value = self.constant(dense.storage.numpy(), type.dtype)
        else:
            value = self._builder.constant(dense.storage)
        return value if type.quantization is None else Quantized(value, type.quantization)

    def _splat_or_constant(self, array: np.ndarray[Any, Any], dense: Dense) -> Value:
        if not dense.is_splat:
            return self.constant(array)
        shape = tuple(dim or 0 for dim in dense.type.shape)
        if self.is_vectorized:
            return self.constant(array.reshape(()))
        if dense.type.count <= MAX_FILLED:
            return self.constant(np.broadcast_to(array.reshape(()), shape))
        try:
            budget.reserve_expanded(dense.type.count, "elements of a constant")
        except budget.OverBudgetError as error:
            refuse("SH0008", str(error))
        return self("Expand", self.constant(array.reshape(())), self.ints(*shape))

    def dequantize(self, x: Quantized) -> Value:
        """Dequantize: the floats that quantized elements represent."""
        q = x.parameters
        dtype = TensorType(q.expressed, ()).dtype
        codes = self.cast(x.codes, DType.FLOAT32)
        shifted = self("Sub", codes, self._channels(x.codes, q, np.array(q.zero_points, np.float32)))
        floats = self("Mul", shifted, self._channels(x.codes, q, np.array(q.scales, np.float32)))
        return self.cast(floats, dtype)

    def _channels(self, x: Value, q: Any, numbers: np.ndarray[Any, Any]) -> Value:
        if q.axis is None or numbers.size == 1:
            return self.constant(numbers.reshape(-1)[0])
        if not 0 <= q.axis < self.rank(x):
            refuse("SH0007", f"a tensor of rank {self.rank(x)} is quantized along axis {q.axis}")
        return self.constant(numbers.reshape([-1 if axis == q.axis else 1 for axis in range(self.rank(x))]))

    def requantized(self, x: Held, type: Type) -> Held:
        """A float result as the quantized tensor that its type declares."""
        if not isinstance(type, TensorType) or type.quantization is None or not isinstance(x, Value):
            return x
        q = type.quantization
        dtype = type.dtype
        if not self.dtype(x).is_floating:
            return x
        lowest, highest = integer_range(dtype)
        lowest = lowest if q.lowest is None else q.lowest
        highest = highest if q.highest is None else q.highest
        wide = self.cast(x, DType.FLOAT32)
        scaled = self("Div", wide, self._channels(x, q, np.array(q.scales, np.float32)))
        rounded = self("Round", scaled)
        shifted = self("Add", rounded, self._channels(x, q, np.array(q.zero_points, np.float32)))
        bounded = self("Min", self("Max", shifted, float(lowest)), float(highest))
        return Quantized(self.cast(bounded, dtype), q)


def _check_fits(data: Any, dtype: DType | None) -> None:
    """Refuse a number that the integer type of a constant does not hold.

    Raises:
        RefusedError: SH0007.
    """
    if dtype is None or not dtype.is_integer or not isinstance(data, (int, float)):
        return
    lowest, highest = integer_range(dtype)
    if not lowest <= data <= highest:
        refuse("SH0007", f"{data} is out of range for {dtype}")


def element_type(type: Type, default: DType) -> DType:
    """Return the element type of an operation's result; in a short form without result type, that of the operands."""
    if isinstance(type, OtherType):
        return default
    if type.quantization is not None:
        return TensorType(type.quantization.expressed, ()).dtype
    if type.is_complex:
        return DType.FLOAT32 if type.dtype is DType.COMPLEX64 else DType.FLOAT64
    return type.dtype


def expanded_operations(program: Program, entry: Function) -> int:
    """Count the operations of a function with all calls inlined.

    Raises:
        RefusedError: SH0008 functions call each other in a circle.
    """
    found: dict[str, int] = {}
    active: set[str] = set()
    stack: list[tuple[Function, bool]] = [(entry, False)]
    while stack:
        function, is_done = stack.pop()
        if is_done:
            active.discard(function.name)
            own, calls = _counted(function)
            found[function.name] = own + sum(found.get(name, 0) for name in calls)
            continue
        if function.name in found:
            continue
        active.add(function.name)
        stack.append((function, True))
        for name in dict.fromkeys(_counted(function)[1]):
            if name in active:
                refuse("SH0008", f"recursive function @{name}", help="remove the recursion", offset=function.offset)
            called = program.functions.get(name)
            if called is not None and name not in found:
                stack.append((called, False))
    return found[entry.name]


def _counted(function: Function) -> tuple[int, list[str]]:
    """The number of a function's operations, and the functions that they call."""
    count, calls = 0, list[str]()
    blocks = [] if function.body is None else [function.body]
    while blocks:
        block = blocks.pop()
        for operation in block.operations:
            count += 1
            blocks += operation.regions
            for key in ("callee", "decomposition"):
                name = operation.attributes.get(key)
                if isinstance(name, str) and operation.name in ("call", "composite"):
                    calls.append(str(name))
    return count, calls
