"""Control flow of TFLite: subgraphs with explicit inputs for all values that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.ir.graph import Graph, Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.comparison import Equal
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.lowering.captures import copied
from graphport.ops.lowering.inlining import inlined
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence


def _body(op: Operator, name: str, count: int, results: int) -> Graph:
    """Return a subgraph with the expected number of inputs and outputs.

    Raises:
        UnsupportedError: the subgraph is absent.
        ShapeError: the numbers differ.
    """
    return _checked(op.options.get(name), name, count, results)


def _checked(body: object, name: str, count: int, results: int) -> Graph:
    if not isinstance(body, Graph):
        message = f"{name} is missing"
        raise UnsupportedError(message)
    if len(body.inputs) != count or len(body.outputs) != results:
        message = (
            f"{name} has {len(body.inputs)} inputs and {len(body.outputs)} outputs, expected {count} and {results}"
        )
        raise ShapeError(message)
    return body


def own_results(b: Builder, body: Graph, values: Sequence[Value]) -> list[Value]:
    """Make each body result a distinct value computed in the body, as ONNX requires."""
    op = OpBuilder(Builder(b.inference, body, origin=b.origin, stem=b.stem))
    found: list[Value] = []
    for value in values:
        is_own = value.producer is not None and value.graph is body and value not in found
        found.append(value if is_own else op("Identity", value))
    return found


def _scalar(op: OpBuilder, x: Value) -> Value:
    if isinstance(x.fact, TensorFact) and x.fact.shape == ():
        return x
    return op("Reshape", x, op.constant(np.array([], np.int64)))


@import_rule("IF", is_raw=True)
def if_(op: Operator) -> tuple[Value, ...]:
    """IF: run one of two subgraphs on the operands after the condition."""
    b, operands = op.b, [op.raw(index) for index in range(1, op.count)]
    bodies = [_body(op, name, len(operands), b.count) for name in ("then_subgraph", "else_subgraph")]
    then, otherwise = (_branch(b, body, operands) for body in bodies)
    return b.results(If, b.count, _scalar(OpBuilder(b), op.raw(0)), then_branch=then, else_branch=otherwise)


@import_rule("STABLEHLO_CASE", is_raw=True)
def stablehlo_case(op: Operator) -> tuple[Value, ...]:
    """STABLEHLO_CASE: run the subgraph of an index on the operands after it; the last one for an invalid index."""
    bodies = op.option("branch_subgraph", ())
    operands = [op.raw(index) for index in range(1, op.count)]
    if not bodies:
        message = "branch_subgraph is missing"
        raise UnsupportedError(message)
    branches = [_checked(body, "branch_subgraph", len(operands), op.b.count) for body in bodies]
    return _case(op.b, _scalar(OpBuilder(op.b), op.raw(0)), branches, operands, 0)


def _case(
    b: Builder, number: Value, bodies: Sequence[Graph], operands: Sequence[Value], first: int
) -> tuple[Value, ...]:
    if len(bodies) == 1:
        return tuple(inlined(b, bodies[0], operands))
    is_this = b(Equal, number, first)
    otherwise = Graph(f"{b.stem}.otherwise")
    if b.graph is not None:
        b.graph.share_names(otherwise)
    inside = Builder(b.inference, otherwise, count=b.count, origin=b.origin, stem=b.stem)
    otherwise.set_outputs(own_results(inside, otherwise, _case(inside, number, bodies[1:], operands, first + 1)))
    return b.results(If, b.count, is_this, then_branch=_branch(b, bodies[0], operands), else_branch=otherwise)


def _branch(b: Builder, body: Graph, operands: Sequence[Value]) -> Graph:
    """Return a body that uses the operands directly."""
    branch = copied(b, body)
    returned = branch.outputs
    for inner, outer in zip(branch.inputs, operands, strict=True):
        returned = [outer if value is inner else value for value in returned]
        inner.replace_uses(outer)
        branch.remove_input(inner)
    branch.set_outputs(own_results(b, branch, returned))
    return branch


@import_rule("WHILE", "STABLEHLO_WHILE", is_raw=True)
def while_(op: Operator) -> tuple[Value, ...]:
    """WHILE: run the body subgraph while the condition subgraph returns true."""
    b, operands = op.b, [op.raw(index) for index in range(op.count)]
    condition = _body(op, "cond_subgraph", len(operands), 1)
    twin = copied(b, _body(op, "body_subgraph", len(operands), len(operands)))
    old, returned = twin.inputs, twin.outputs
    twin.add_input("round", TensorFact(DType.INT64, ()))
    twin.add_input("goes_on", TensorFact(DType.BOOL, ()))
    for value in old:
        new = twin.add_input(value.name, value.fact)
        returned = [new if each is value else each for each in returned]
        value.replace_uses(new)
        twin.remove_input(value)
    inside = Builder(b.inference, twin, origin=b.origin, stem=b.stem)
    (again,) = inlined(inside, condition, returned)
    again = _scalar(OpBuilder(inside), again)
    twin.set_outputs(own_results(b, twin, [again, *returned]))
    (begins,) = inlined(b, condition, operands)
    return b.results(Loop, len(operands), None, _scalar(OpBuilder(b), begins), *operands, body=twin)


@import_rule("CALL", is_raw=True)
def call(op: Operator) -> list[Value]:
    """CALL_ONCE and CALL: inline the results of a subgraph."""
    return _called(op, "subgraph")


@import_rule("STABLEHLO_COMPOSITE", is_raw=True)
def stablehlo_composite(op: Operator) -> list[Value]:
    """STABLEHLO_COMPOSITE: inline the subgraph that decomposes the composite operator."""
    return _called(op, "decomposition_subgraph")


def _called(op: Operator, name: str) -> list[Value]:
    operands = [op.raw(index) for index in range(op.count)]
    return inlined(op.b, _body(op, name, len(operands), op.b.count), operands)
