"""TensorIterator, Loop and If of OpenVINO. Bodies do not capture outer values; operands are connected by index.

The attributes of these op types are described in `formats/openvino/container/subgraphs.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.definitions.reshape import Reshape, Shape, Transpose
from graphport.ops.lowering.captures import copied
from graphport.ops.lowering.extents import cut, joined
from graphport.ops.lowering.op_builder import OpBuilder

Map = tuple[tuple[int, ...], ...]
"""Which value outside belongs to which place of a body, and how it is cut, where it is."""
Edges = tuple[tuple[int, int], ...]
"""Which results of a body are operands of its next round."""


_LOWEST = -(1 << 62)
"""The end of a reversed slice over a full axis."""


class _Slice(NamedTuple):
    """Slicing of an operand, or concatenation of a result: `size` entries along `axis`, every `stride` entries."""

    axis: int
    start: int
    end: int
    stride: int
    size: int

    @property
    def is_backward(self) -> bool:
        """Whether the parts are in reverse order."""
        return self.stride < 0

    def check(self) -> None:
        """Refuse parts that overlap, have gaps or do not cover the axis."""
        whole = (self.start, self.end) == ((-1, 0) if self.is_backward else (0, -1))
        if not whole or abs(self.stride) != self.size or self.size < 1:
            message = (
                f"slices of {self.size} from {self.start} to {self.end} with stride {self.stride} do not tile the axis"
            )
            raise UnsupportedError(message)


# If


@lower("openvino", "opset8.If")
def if_(
    b: Builder,
    condition: Value,
    *operands: Value,
    then_body: Graph,
    else_body: Graph,
    then_inputs: Map = (),
    else_inputs: Map = (),
    then_outputs: Map = (),
    else_outputs: Map = (),
) -> tuple[Value, ...]:
    """Run one of two bodies with its operands."""
    given = (condition, *operands)
    branches: list[Graph] = []
    for body, inputs, outputs in ((then_body, then_inputs, then_outputs), (else_body, else_inputs, else_outputs)):
        branch = copied(b, body)
        _capture(branch, {inner: given[outer] for outer, inner, *_ in inputs})
        chosen = {outer: branch.outputs[inner] for outer, inner, *_ in outputs}
        returned = [_body_value(b, branch, chosen[place]) for place in range(b.count) if place in chosen]
        if len(returned) != b.count:
            message = f"a body of If returns {len(returned)} values, expected {b.count}"
            raise ShapeError(message)
        branch.set_outputs(returned)
        branches.append(branch)
    return b.results(If, b.count, _scalar(OpBuilder(b), condition), then_branch=branches[0], else_branch=branches[1])


def _capture(body: Graph, given: dict[int, Value]) -> None:
    """Replace the inputs of a body, given by index, by values of the outer graph."""
    inputs = body.inputs
    for place, value in given.items():
        inputs[place].replace_uses(value)
        body.remove_input(inputs[place])
    if body.inputs:
        message = f"the body input {body.inputs[0].name} is not connected to an input of the layer"
        raise ShapeError(message)


def _body_value(b: Builder, body: Graph, value: Value) -> Value:
    """Return a value that the body computes itself: insert an Identity for inputs and outer values."""
    return value if value.producer is not None and value.graph is body else _emit(b, body)("Identity", value)


def _emit(b: Builder, body: Graph, *, at_front: bool = False) -> OpBuilder:
    return OpBuilder(Builder(b.inference, body, body.first_node if at_front else None, origin=b.origin, stem=b.stem))


def _scalar(op: OpBuilder, x: Value) -> Value:
    """A tensor of one element as one of rank 0."""
    is_scalar = isinstance(x.fact, TensorFact) and x.fact.shape == ()
    return x if is_scalar else op("Reshape", x, op.constant(np.array([], np.int64)))


# Loops


@lower("openvino", "opset1.TensorIterator")
def tensor_iterator(
    b: Builder, *operands: Value, body: Graph, inputs: Map = (), outputs: Map = (), back_edges: Edges = (), **_: Any
) -> tuple[Value, ...]:
    """Convert TensorIterator: run the body once per part of the sliced operands."""
    parts = [(operands[outer], _Slice(*slice_)) for outer, _inner, *slice_ in inputs if slice_]
    if not parts:
        message = "a TensorIterator without a sliced input has no trip count"
        raise UnsupportedError(message)
    operand, slice_ = parts[0]
    op = OpBuilder(b)
    extent = op("Gather", op("Shape", operand), slice_.axis)
    rounds = op("Div", extent, slice_.size) if slice_.size > 1 else extent
    return _Lowering(b, operands, body, rounds, None).run(inputs, outputs, back_edges, None, None)


@lower("openvino", "opset5.Loop")
def loop(
    b: Builder,
    trip_count: Value,
    condition: Value,
    *operands: Value,
    body: Graph,
    inputs: Map = (),
    outputs: Map = (),
    back_edges: Edges = (),
    current_iteration: int | None = None,
    execution_condition: int | None = None,
) -> tuple[Value, ...]:
    """Convert Loop: run the body while the condition holds, at most `trip_count` times; -1 means no limit."""
    rounds: Value | None = trip_count
    known = trip_count.fact.elements if isinstance(trip_count.fact, TensorFact) else None
    op = OpBuilder(b)
    if known and isinstance(known[0], int) and known[0] < 0:
        rounds = None
    else:
        rounds = _scalar(op, op("Cast", trip_count, to=DType.INT64))
        if not known:
            rounds = op("Where", op("Less", rounds, 0), (1 << 63) - 1, rounds)
    given = (trip_count, condition, *operands)
    lowering = _Lowering(b, given, body, rounds, _scalar(OpBuilder(b), condition))
    return lowering.run(inputs, outputs, back_edges, current_iteration, execution_condition)


class _Lowering:
    """Lower a loop to ONNX: invariant operands are captured, states are carried, joined outputs are scanned."""

    def __init__(
        self, b: Builder, operands: tuple[Value, ...], body: Graph, rounds: Value | None, condition: Value | None
    ) -> None:
        self._b = b
        self._operands = operands
        self._body = copied(b, body)
        self._rounds = rounds
        self._condition = condition
        # Names in the body's prologue need no prefix.
        self._front = _emit(b, self._body, at_front=True)
        self._returned = self._body.outputs
        self._old = self._body.inputs
        self._round = self._body.add_input("round", TensorFact(DType.INT64, ()))
        self._goes_on = self._body.add_input("goes_on", TensorFact(DType.BOOL, ()))

    def run(
        self, inputs: Map, outputs: Map, back_edges: Edges, current_iteration: int | None, condition: int | None
    ) -> tuple[Value, ...]:
        carried = self._connect(inputs, {target: source for source, target in back_edges})
        if current_iteration is not None:
            self._count(self._old[current_iteration])
        for value in self._old:
            if value.is_input:
                message = f"the body input {value.name} is not connected to an input of the layer"
                raise ShapeError(message)
        finals = {source: place for place, (source, _) in enumerate(carried)}
        stacked = {outer: (inner, slice_) for outer, inner, *slice_ in outputs if slice_ or inner not in finals}
        self._set_outputs([source for source, _ in carried], [inner for inner, _ in stacked.values()], condition)
        made = self._b.results(
            Loop,
            len(carried) + len(stacked),
            self._rounds,
            self._condition,
            *(initial for _, initial in carried),
            body=self._body,
        )
        scans = dict(zip(stacked, made[len(carried) :], strict=True))
        results = {outer: made[finals[inner]] for outer, inner, *slice_ in outputs if not slice_ and inner in finals}
        for outer, value in scans.items():
            slice_ = stacked[outer][1]
            results[outer] = self._joined(value, _Slice(*slice_)) if slice_ else self._last_iteration(value)
        missing = [place for place in range(self._b.count) if place not in results]
        if missing:
            message = f"the body has no output {missing[0]}"
            raise ShapeError(message)
        return tuple(results[place] for place in range(self._b.count))

    def _connect(self, inputs: Map, sources: dict[int, int]) -> list[tuple[int, Value]]:
        """Connect the operands to the body; return the carried states as pairs of output index and initial value."""
        carried: list[tuple[int, Value]] = []
        for outer, inner, *slice_ in inputs:
            old, operand = self._old[inner], self._operands[outer]
            if slice_:
                new = self._slice_of_iteration(operand, _Slice(*slice_))
            elif inner in sources:
                fact = old.fact if isinstance(old.fact, TensorFact) else TensorFact(None, None)
                new = self._body.add_input(old.name, fact)
                carried.append((sources[inner], operand))
            else:
                new = operand
            old.replace_uses(new)
            self._returned = [new if value is old else value for value in self._returned]
            self._body.remove_input(old)
        return carried

    def _slice_of_iteration(self, operand: Value, slice_: _Slice) -> Value:
        """Return the slice of an operand that one iteration reads."""
        slice_.check()
        op, axis = self._front, self._vector(slice_.axis)
        number = self._round
        if slice_.is_backward:
            parts = op("Div", op("Gather", op("Shape", operand), slice_.axis), slice_.size)
            number = op("Sub", op("Sub", parts, 1), number)
        begin = op("Reshape", op("Mul", number, slice_.size), self._vector(1))
        return op("Slice", operand, begin, op("Add", begin, slice_.size), axis)

    def _vector(self, *numbers: int) -> Value:
        return self._front.constant(np.array(numbers, np.int64))

    def _count(self, value: Value) -> None:
        fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
        number = self._front("Cast", self._round, to=fact.dtype or DType.INT64)
        if fact.shape is None or len(fact.shape):
            number = self._front("Reshape", number, self._vector(1))
        value.replace_uses(number)
        self._returned = [number if each is value else each for each in self._returned]
        self._body.remove_input(value)

    def _set_outputs(self, carried: list[int], stacked: list[int], condition: int | None) -> None:
        body = self._body
        op = _emit(self._b, body)
        goes_on = self._goes_on if condition is None else _scalar(op, self._returned[condition])
        values = [goes_on, *(self._returned[inner] for inner in (*carried, *stacked))]
        seen: set[Value] = set()
        outputs: list[Value] = []
        for value in values:
            is_own = value.producer is not None and value.graph is body and value not in seen
            outputs.append(value if is_own else op("Identity", value))
            seen.add(value)
        body.set_outputs(outputs)

    def _joined(self, stacked: Value, slice_: _Slice) -> Value:
        """Concatenate the parts of all iterations along their axis."""
        slice_.check()
        b, fact = self._b, stacked.fact
        if not isinstance(fact, TensorFact) or fact.shape is None:
            message = "the rank of a body output is unknown"
            raise UnsupportedError(message)
        rank = len(fact.shape) - 1
        axis = slice_.axis % rank
        if slice_.is_backward:
            stacked = cut(b, stacked, -1, _LOWEST, 0, -1)
        moved = b(Transpose, stacked, perm=(*range(1, axis + 1), 0, *range(axis + 1, rank + 1)))
        extents = b(Shape, moved)
        front, back = cut(b, extents, 0, axis, 0), cut(b, extents, axis + 2, rank + 1, 0)
        return b(Reshape, moved, joined(b, front, -1, back))

    def _last_iteration(self, stacked: Value) -> Value:
        return OpBuilder(self._b)("Gather", stacked, -1, axis=0)
