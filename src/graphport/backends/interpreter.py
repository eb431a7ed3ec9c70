"""One node after another, each computed by a function: what `reference` and `fused` have in common."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from graphport.core.child_process import resident_bytes
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import UNKNOWN, TensorFact, as_integer
from graphport.core.faults import FOUND, stumbled
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage, storage_of
from graphport.ir import opaque
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.infer import Inference
from graphport.runtimes.run_limits import OUT_OF_MEMORY, RunLimitError, current, out_of_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.facts import Fact
    from graphport.ops.declare import OpDef

_TITLE = "the reference interpreter"
_LOOK_SECONDS = 0.01
"""Between two looks at the memory of the process, which cost more than many a node."""


def check(graph: Graph) -> None:
    """Refuse a graph with operators that have no operator definition.

    Raises:
        DiagnosticError: RUN0003 names every one.
    """
    unknown = opaque.count_opaque(node for inner in walk(graph) for node in inner if registry.meaning(node) is None)
    if unknown:
        message = f"the reference interpreter does not support {', '.join(unknown)}"
        if any(node.dialect and node.dialect not in registry.dialects() for inner in walk(graph) for node in inner):
            remedy = "define the operators: --operators FILE.py (gp.operator), or --ort-library FILE for ONNX Runtime"
            raise DiagnosticError(Diagnostic("RUN0003", message, None, remedy))
        raise DiagnosticError(
            Diagnostic(
                "RUN0003", message, None, "run graphport ops for the supported operators, or choose another backend"
            )
        )


class InterpreterSession:
    """A graph with loaded constants, and the functions that compute its operators."""

    def __init__(self, graph: Graph, op_defs: Mapping[str, Callable[..., Any]]) -> None:
        self._graph = graph
        self._op_defs = op_defs
        self._constants = {value: value.storage.numpy() for value in graph.constants if value.storage is not None}
        self._known_sizes: dict[Node, tuple[list[Any], int]] = {}

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        every_value: bool = False,
        deadline: float = math.inf,
        observe: Callable[[Graph, Sequence[Any]], None] | None = None,
        watch: Callable[[Node, Sequence[Any], Sequence[Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Compute the outputs as every session does, with a deadline and with callbacks.

        Args:
            inputs: arrays by the names of the graph's inputs.
            every_value: also return each value that the graph itself computes.
            deadline: time of `time.monotonic` after which no further node is computed.
            observe: called with each body and its inputs before the body runs.
            watch: called with each node, its operands and its results after the node is computed, in bodies too.

        Raises:
            TimeoutError: the deadline has passed.
            RunLimitError: a limit of `run_limits.current` is reached.
        """
        given = {value: inputs[value.name] for value in self._graph.inputs}
        values = self._constants | given
        limits = current()
        if limits is not None:
            limits.check(_TITLE)
            limits.check_nodes(self._graph, _TITLE)
        began, left = time.monotonic(), math.inf if limits is None else limits.remaining_seconds
        allowed = 0 if limits is None else limits.nbytes
        nbytes = allowed and resident_bytes() + allowed
        work = _Work(self._op_defs, min(deadline, began + left), observe, watch, nbytes, self._known_sizes)
        try:
            with np.errstate(all="ignore"):
                _execute(self._graph, values, work, keep=every_value)
        except TimeoutError:
            if limits is None or began + left > deadline:
                raise
            raise limits.exceeded(_TITLE, out_of_time(left)) from None
        except RunLimitError as error:
            # A run with its own deadline is optional for its caller.
            if limits is not None and deadline == math.inf:
                limits.exceeded(_TITLE, error.reason)
            raise
        wanted = self._graph.outputs
        if every_value:
            wanted = [*(value for node in self._graph for value in node.results), *wanted]
        return {value.name: values[value] for value in wanted}


@dataclass(slots=True)
class _Work:
    """The functions of the operators, the limits of the run, and its callbacks."""

    op_defs: Mapping[str, Callable[..., Any]]
    deadline: float
    observe: Callable[[Graph, Sequence[Any]], None] | None
    watch: Callable[[Node, Sequence[Any], Sequence[Any]], None] | None
    nbytes: int = 0
    """Bytes that this process may hold; 0 for any number."""
    known_sizes: dict[Node, tuple[list[Any], int]] = field(default_factory=dict["Node", "tuple[list[Any], int]"])
    """The shapes of the operands with which each node of open size ran last, in any run, and its result's elements."""
    _next_look: float = 0.0

    def check(self) -> None:
        """Stop the run at a limit; called before each node and each run of a body.

        Raises:
            TimeoutError: the deadline is over.
            RunLimitError: the process holds more memory than it may.
        """
        if not self.nbytes and self.deadline == math.inf:
            return
        now = time.monotonic()
        if now > self.deadline:
            raise TimeoutError
        if self.nbytes and now > self._next_look:
            self._next_look = now + _LOOK_SECONDS
            if resident_bytes() > self.nbytes:
                raise RunLimitError(_TITLE, OUT_OF_MEMORY)


def _execute(graph: Graph, values: dict[Value, Any], work: _Work, *, keep: bool) -> None:
    """Compute every node's results into `values`; values without later consumers are released unless `keep`."""
    left = {value: len(value.uses) for node in graph for value in node.results}
    for node in graph:
        work.check()
        operands = [None if value is None else values[value] for value in node.inputs]
        results = _compute(node, operands, values, work)
        if work.watch is not None:
            work.watch(node, operands, results)
        answers = zip(node.outputs, results, strict=False)
        values.update({value: array for value, array in answers if value is not None and (keep or left[value])})
        if keep:
            continue
        for value in node.operands:
            if value in left:
                left[value] -= 1
                if not left[value]:
                    values.pop(value, None)


def _compute(node: Node, operands: list[Any], values: Mapping[Value, Any], work: _Work) -> tuple[Any, ...]:
    attributes = {name: _argument(attribute, values, work) for name, attribute in node.attributes.items()}
    function = work.op_defs.get(node.op) or registry.meaning(node)
    if function is None:
        message = f"{node.op} has no reference implementation"
        raise LookupError(message)
    fault = _operand_fault(node, operands) or _size_fault(node, operands, work)
    if fault:
        raise DiagnosticError(Diagnostic("RUN0005", f"{node.op} {node.name}: {fault}", node.origin))
    try:
        answer = function(*operands, **attributes)
    except (ShapeError, ValueError, IndexError, ArithmeticError, MemoryError) as error:
        raise DiagnosticError(Diagnostic("RUN0005", f"{node.op} {node.name}: {error}", node.origin)) from error
    except FOUND as error:
        if registry.user_definition(node) is not None:
            message = f"{node.op} {node.name}: the reference implementation raises {type(error).__name__}: {error}"
            raise DiagnosticError(Diagnostic("RUN0005", message, node.origin)) from error
        raise DiagnosticError(stumbled(f"the reference implementation of {node.op}", error, node.origin)) from error
    # A list is one result, a sequence; several results are a tuple.
    answers: tuple[Any, ...] = tuple(answer) if is_sequence(answer) and not isinstance(answer, list) else (answer,)
    return tuple(_array(answer, value) for answer, value in zip(answers, node.outputs, strict=False))


def _size_fault(node: Node, operands: list[Any], work: _Work) -> str:
    """Return why a result of open size is not computed; empty if it fits in memory.

    The memory of a run is only checked between nodes, and one node may take all memory of the machine.
    """
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if not work.nbytes or op_def is None or node.has_bodies or all(_is_static(value.fact) for value in node.results):
        return ""
    shapes = [getattr(operand, "shape", None) for operand in operands]
    known, elements = work.known_sizes.get(node, (None, 0))
    if op_def.index_operands or known != shapes:
        elements = _count_elements(node, op_def, operands)
        work.known_sizes[node] = (shapes, elements)
    if elements * _BYTES_PER_ELEMENT > work.nbytes:
        return f"the result has {float(elements):.3g} elements"
    return ""


def _count_elements(node: Node, op_def: OpDef, operands: list[Any]) -> int:
    """Return the number of elements of all results of known shape; 0 for invalid operands."""
    try:
        facts = [_run_fact(op_def, index, operand) for index, operand in enumerate(operands)]
        results = Inference().infer_operator(op_def, facts, node.stated, len(node.outputs))
    except (ShapeError, *FOUND):
        return 0  # the function of the operator reports the operands
    return sum(math.prod(map(as_integer, result.dims)) for result in results if _is_static(result))


_BYTES_PER_ELEMENT = 8


def _is_static(fact: Fact) -> TypeGuard[TensorFact]:
    return isinstance(fact, TensorFact) and fact.is_static


def _run_fact(op_def: OpDef, index: int, operand: Any) -> Fact | None:
    """Return the fact of an operand of a run, with its elements if they may decide the size of a result."""
    if operand is None or is_sequence(operand):
        return None if operand is None else UNKNOWN
    storage = storage_of(operand)
    declared = op_def.signature.operand(index)
    if declared is None or declared.name not in op_def.index_operands:
        return TensorFact(storage.dtype, storage.shape)
    return TensorFact.of(storage)


def _operand_fault(node: Node, operands: list[Any]) -> str:
    """The first operand that is absent or has a rank that the operator's signature excludes; empty if there is none."""
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None:
        return ""
    for index, array in enumerate(operands):
        operand = op_def.signature.operand(index)
        if operand is None or (node.inputs[index] is None and not operand.is_optional):
            return f"operand {index} is {'unexpected' if operand is None else 'missing'}"
        if operand.rank is not None and array is not None and (fault := operand.rank.fault(np.shape(array))):
            return f"{operand.name} {fault}"
    return ""


def _argument(attribute: Any, values: Mapping[Value, Any], work: _Work) -> Any:
    if isinstance(attribute, Graph):
        return _BoundBody(attribute, values, work)
    return attribute.numpy() if isinstance(attribute, Storage) else attribute


def _array(answer: Any, value: Value | None) -> Any:
    # NumPy turns arrays of rank 0 into scalars on every occasion.
    is_scalar = type(answer) is not np.ndarray and np.isscalar(answer)
    return np.asarray(answer) if is_scalar and value is not None else answer


class _BoundBody:
    """A body together with the outer values that it reads."""

    def __init__(self, graph: Graph, outer: Mapping[Value, Any], work: _Work) -> None:
        self._graph = graph
        self._outer = outer
        self._work = work

    @property
    def facts(self) -> list[Fact]:
        return [value.fact for value in self._graph.outputs]

    def __call__(self, *inputs: Any) -> list[Any]:
        self._work.check()
        if self._work.observe is not None:
            self._work.observe(self._graph, inputs)
        values = dict(self._outer)
        values.update((value, value.storage.numpy()) for value in self._graph.constants if value.storage is not None)
        values.update(zip(self._graph.inputs, inputs, strict=True))
        _execute(self._graph, values, self._work, keep=False)
        return [values[value] for value in self._graph.outputs]
