"""An expression: read once, shown in every form, evaluated on any operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.garbage_collection import paused_collection
from graphport.core.packages import install
from graphport.core.short_repr import abridge
from graphport.expression.blocked import BlockedProgram, DirectCall, KernelFault
from graphport.expression.functions import NUMPY_FUNCTIONS
from graphport.expression.kernels import is_array
from graphport.expression.parse import parse
from graphport.expression.program import Argument, Builder, Program, Result, check_operand_count, span_of
from graphport.expression.promotion import scalar_dtype
from graphport.expression.rpn import Action, rpn
from graphport.expression.syntax import preorder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.expression.functions import Function
    from graphport.expression.fused.entry import CompiledEntry
    from graphport.expression.fused.kernel import FusedProgram
    from graphport.expression.program import Shape
    from graphport.expression.rpn import Step
    from graphport.expression.syntax import Node, Number
    from graphport.expression.tokens import Text, Token

Array = np.ndarray[Any, Any]

_MOST_PLANS = 32
_MOST_SHAPES = 64
_SEES_SHAPES = frozenset({"size", "int"})
Tier = Literal["auto", "numpy", "fused"]

_COMPILING = 2.5e7
"""Time to compile an expression, in nanoseconds; after this much time in NumPy compilation pays off."""
_PER_CALL, _PER_KERNEL = 2500, 700
"""Nanoseconds that a call takes, and every kernel in it, besides one for every element and kernel."""


class _Runner:
    """A program and its present evaluator."""

    def __init__(self, program: Program, functions: Mapping[str, Function], tier: Tier, threads: int | None) -> None:
        self.program = program
        self._functions = functions
        self._threads = threads
        self._fused: FusedProgram | None = None
        self._entry: CompiledEntry | DirectCall | None = None
        self._is_undecided = tier != "numpy"
        self._spent = _COMPILING if tier == "fused" else 0.0
        self.current: BlockedProgram | FusedProgram = BlockedProgram(program, functions)

    def run(self, operands: Sequence[Any], out: Array) -> None:
        """Compute into `out`; compile first once that pays off.

        Raises:
            KernelFault: integer division by zero.
        """
        if self._is_undecided:
            self._consider(out.size)
        self.current.run(operands, out)

    def compiled_call(self, used: Sequence[Array]) -> CompiledEntry | DirectCall | None:
        """Return a function that evaluates unconverted operands, if the program is compiled.

        Only for operands of equal shape: then rank-0 tensors are promoted like other tensors.
        """
        if self._is_undecided or any(array.shape != used[0].shape for array in used):
            return None
        if self._entry is None:
            if self._fused is not None:
                self._entry = self._fused.compiled_call()
            elif isinstance(self.current, BlockedProgram):
                self._entry = self.current.direct([array.dtype for array in used])
        return self._entry

    def _consider(self, size: int) -> None:
        self._spent += _PER_CALL + self.program.operation_count * (_PER_KERNEL + size)
        if self._spent < _COMPILING:
            return
        # Compilation imports modules and libraries that small computations do not need.
        from graphport.expression.fused.kernel import FusedProgram, can_compile

        self._is_undecided = False
        if can_compile(self.program):
            self.current = self._fused = FusedProgram(self.program, self._functions, self._threads)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The typed form of an expression for operands of given types."""

    result: Result
    runners: dict[int, _Runner]
    """By the identity of the programs in `result`."""
    shapes: dict[tuple[Shape, ...], Shape]
    """Shapes of operands that have been seen, and that of the result."""


class Expression:
    """A PNNX expression, for example `add(@0,mul(@1,@2))`.

    Attributes:
        tokens: the tokens, each with kind, text, start and end in code points.
        tree: the syntax tree; `str(tree)` is the canonical text.
        rpn: the steps in reverse Polish notation.
        findings: warnings about the notation; strict parsing has none.
        operand_count: the number of operands: the largest `@index` plus 1.
    """

    def __init__(
        self,
        text: str | Text,
        functions: Mapping[str, Function] = NUMPY_FUNCTIONS,
        *,
        lenient: bool = False,
        default_float: DType = DType.FLOAT32,
        tier: Tier = "auto",
        threads: int | None = None,
    ) -> None:
        """Parse `text`.

        Args:
            text: the expression, or its location in a file.
            functions: the function table.
            lenient: accept the malformed prefix texts that pnnx writes, with a warning.
            default_float: the type that integers are converted to by functions with fractional results (PyTorch's
                default).
            tier: the evaluator. `numpy` has no dependencies; `fused` compiles the expression to one loop, which
                takes some
                30 ms the first time (`graphport[fast]`; complex numbers and very long expressions use NumPy);
                    `auto` starts
                with NumPy and compiles once that pays off. Both agree within the errors stated in `fused.mathematics`.
            threads: limit of threads of a compiled loop, which uses one per million elements; None: one per processor.

        Raises:
            DiagnosticError: `EXPR0001` to `EXPR0106`, located at the error; `EXPR0209`: the tier is `fused` and
                llvmlite is
                not installed.
        """
        arities = {name: function.signature.arities for name, function in functions.items()}
        with paused_collection():
            parsed = parse(text, arities, lenient=lenient)
            self.text = parsed.text
            self.tokens: tuple[Token, ...] = parsed.tokens
            self.tree: Node = parsed.tree
            self.rpn: tuple[Step, ...] = rpn(parsed.tree, arities)
        self.findings: tuple[Diagnostic, ...] = parsed.findings
        self.operand_count = 1 + max((step.index for step in self.rpn), default=-1)
        self._functions = functions
        self._default_float = default_float
        self._sees_shapes = any(step.action is Action.APPLY and step.function in _SEES_SHAPES for step in self.rpn)
        self._plans: dict[object, _Plan] = {}
        self._tier: Tier = tier
        self._quick: CompiledEntry | DirectCall | None = None
        self._threads = threads
        if tier == "fused":
            self._check_compiler()

    def __str__(self) -> str:
        return str(self.tree)

    def __repr__(self) -> str:
        return f"Expression({abridge(str(self))})"

    def __call__(self, *operands: object, out: Array | None = None) -> Any:
        """Evaluate on `operands`: arrays (or array-likes) and Python scalars, which are weak scalars.

        Args:
            operands: `operand_count` operands.
            out: the result array, of the shape and element type of the result.

        Returns:
            An array; without tensor operands a scalar, None or a string; for a list expression, a list of them.

        Raises:
            DiagnosticError: `EXPR0201` to `EXPR0207`.
        """
        if self._quick is not None and operands:
            done = self._quickly(self._quick, operands, out)
            if done is not None:
                return done
        given = [_operand(operand) for operand in operands]
        if len(given) != self.operand_count:
            check_operand_count(self.text, self.rpn, len(given))
        plan = self._plan(given)
        if out is not None and not isinstance(plan.result.value, Program):
            raise self._error("EXPR0207", "the result is not a tensor and cannot be stored in an array")
        return self._value(plan.result, plan, given, out)

    def _quickly(
        self, quick: CompiledEntry | DirectCall, operands: tuple[object, ...], out: Array | None
    ) -> Array | None:
        """Evaluate by compiled code if it accepts the operands unconverted."""
        if out is not None:
            return quick.call(*operands, out)
        first = operands[0]
        if type(first) is not np.ndarray or first.size > quick.largest:
            return None
        return quick.call(*operands, np.empty(first.shape, quick.dtype))

    def forward(self, inputs: Sequence[object], batch_size: int, out: Sequence[Array] | None = None) -> list[Any]:
        """The values on a batch, item by item.

        Args:
            inputs: operand-major: all items of operand 0, then all of operand 1, …; unused operands too.
            batch_size: how many items each operand has.
            out: where the results go, one array an item.

        Returns:
            One result an item.

        Raises:
            DiagnosticError: `EXPR0208`, the counts do not fit; what `__call__` raises.
        """
        self._check_batch(len(inputs), batch_size, None if out is None else len(out))
        return [self(*inputs[item::batch_size], out=None if out is None else out[item]) for item in range(batch_size)]

    def data(self) -> dict[str, Any]:
        """Return tokens, tree and steps as plain data for JSON.

        The tree is a list of nodes, root first, in which nodes refer to their arguments by index: it is flat for any
        depth of nesting.
        """
        return {
            "tokens": [
                {"kind": str(token.kind), "text": token.text, "start": token.start, "end": token.end}
                for token in self.tokens
            ],
            "tree": _flat(self.tree),
            "rpn": [str(step) for step in self.rpn],
        }

    def _check_compiler(self) -> None:
        from graphport.expression.fused import engine

        if not engine.is_available():
            raise self._error("EXPR0209", "the tier fused requires the package llvmlite", install("llvmlite"))

    def _check_batch(self, count: int, batch_size: int, out_count: int | None) -> None:
        wanted = self.operand_count * batch_size
        if batch_size < 1:
            raise self._error("EXPR0208", f"invalid batch_size {batch_size}", "use a batch_size of 1 or more")
        if count == 0:
            raise self._error("EXPR0208", "the list of inputs is empty")
        if count != wanted:
            message = f"{self.operand_count} operands in batches of {batch_size} require {wanted} inputs, got {count}"
            raise self._error("EXPR0208", message, "pass all items of @0, then all of @1, …")
        if out_count is not None and out_count != batch_size:
            raise self._error("EXPR0208", f"a batch of {batch_size} requires {batch_size} outputs, got {out_count}")

    def _plan(self, operands: Sequence[Array | Number]) -> _Plan:
        key = tuple(map(self._plan_key, operands))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            with paused_collection():
                plan = self._plans[key] = self._prepared(self._built(operands))
        return plan

    def _plan_key(self, operand: Array | Number) -> object:
        if isinstance(operand, np.ndarray):
            return operand.dtype, operand.shape if self._sees_shapes else operand.ndim > 0
        # The same number in two types, and the two zeros, are different; a NaN is itself.
        return type(operand), repr(operand)

    def _built(self, operands: Sequence[Array | Number]) -> Result:
        arguments = [self._argument(operand) for operand in operands]
        return Builder(self.text, self._functions, arguments, self._default_float).build(self.rpn)

    def _argument(self, operand: Array | Number) -> Argument:
        if isinstance(operand, np.ndarray):
            return Argument(DType.of(operand.dtype), operand.shape)
        return Argument(scalar_dtype(operand, self._default_float), (), operand)

    def _prepared(self, result: Result) -> _Plan:
        runners: dict[int, _Runner] = {}
        pending = [result]
        while pending:
            value = pending.pop().value
            if isinstance(value, tuple):
                pending.extend(value)
            elif isinstance(value, Program):
                runners[id(value)] = _Runner(value, self._functions, self._tier, self._threads)
        return _Plan(result, runners, {})

    def _value(self, result: Result, plan: _Plan, operands: Sequence[Array | Number], out: Array | None) -> Any:
        if not isinstance(result.value, tuple):
            return self._leaf(result, plan, operands, out)
        finished: list[Any] = []
        pending: list[tuple[Result, list[Any]]] = [(item, finished) for item in reversed(result.value)]
        while pending:
            item, place = pending.pop()
            if isinstance(item.value, tuple):
                inner: list[Any] = []
                place.append(inner)
                pending.extend((deeper, inner) for deeper in reversed(item.value))
            else:
                place.append(self._leaf(item, plan, operands, None))
        return finished

    def _leaf(self, result: Result, plan: _Plan, operands: Sequence[Array | Number], out: Array | None) -> Any:
        program = result.value
        if not isinstance(program, Program):
            return program
        runner = plan.runners[id(program)]
        used = [array for index in runner.current.indices if is_array(array := operands[index])]
        shape = self._shape(plan, used, operands)
        target = self._target(program, shape, out, used)
        try:
            runner.run(operands, target)
        except KernelFault as error:
            raise error.fault.at(span_of(self.text, self.rpn, program, error.number)) from None
        if program is plan.result.value and not self._sees_shapes:
            self._quick = runner.compiled_call(used) if len(used) == self.operand_count else None
        if out is not None and target is not out:
            np.copyto(out, target)
            return out
        return target

    def _shape(self, plan: _Plan, used: Sequence[Array], operands: Sequence[Array | Number]) -> Shape:
        shapes: tuple[Shape, ...] = tuple(array.shape for array in used)
        known = plan.shapes.get(shapes)
        if known is not None:
            return known
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            # A second evaluation on these shapes locates the failing function.
            self._built(operands)
            raise
        if len(plan.shapes) >= _MOST_SHAPES:
            plan.shapes.clear()
        plan.shapes[shapes] = shape
        return shape

    def _target(self, program: Program, shape: Shape, out: Array | None, used: Sequence[Array]) -> Array:
        """Return the array to compute into: `out`, unless that would overwrite an operand that is still needed."""
        dtype = program.dtype.numpy
        if out is None:
            return np.empty(shape, dtype)
        if out.shape != shape or out.dtype != dtype:
            message = f"out is {out.dtype}{list(out.shape)}, but the result is {program.dtype}{list(shape)}"
            raise self._error("EXPR0207", message)
        if not out.flags.writeable:
            raise self._error("EXPR0207", "out is read-only")
        if any(np.may_share_memory(out, array) and not _is_same_view(out, array) for array in used):
            return np.empty(shape, dtype)
        return out

    def _error(self, code: str, message: str, help: str | None = None) -> DiagnosticError:
        return DiagnosticError(Diagnostic(code, message, self.text.span(0, len(self.text.text)), help))


def _operand(operand: object) -> Array | Number:
    if is_array(operand):
        return operand
    # NumPy's float64 is a Python float too, and yet a tensor without axes.
    if isinstance(operand, bool | int | float | complex) and not isinstance(operand, np.generic):
        return operand
    return np.asarray(operand)


def _is_same_view(a: Array, b: Array) -> bool:
    """Whether two arrays view the same elements in the same order."""
    return (
        a.__array_interface__["data"] == b.__array_interface__["data"]
        and a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def _flat(tree: Node) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    above: list[list[int]] = []
    for depth, node in preorder(tree):
        arguments: list[int] = []
        if depth:
            above[depth - 1].append(len(nodes))
        above[depth:] = [arguments]
        nodes.append(
            {
                "kind": type(node).__name__.lower(),
                "text": node.text,
                "start": node.start,
                "end": node.end,
                "arguments": arguments,
            }
        )
    return nodes
