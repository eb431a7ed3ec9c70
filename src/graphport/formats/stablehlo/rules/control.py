"""Calls, branches, loops, and operations of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.stablehlo.program import Dense
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.shapes import ints_of
from graphport.formats.stablehlo.rules.values import Held, Token, flattened, rebuilt
from graphport.ir.graph import Graph, Value
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.stablehlo.program import Block, Operation


@rule("call", takes_codes=True)
@complex_rule("call")
def call(e: Emitter, op: Operation, *xs: Held) -> list[Held]:
    """Inline the called function."""
    return e.call(str(op.attributes.get("callee", "")), xs)


@rule("composite", takes_codes=True)
@complex_rule("composite")
def composite(e: Emitter, op: Operation, *xs: Held) -> list[Held]:
    """Convert a composite by its own rule, else by its decomposition."""
    from graphport.formats.stablehlo.rules.special import COMPOSITES

    known = COMPOSITES.get(str(op.attributes.get("name", "")))
    if known is not None and all(isinstance(x, Value) for x in xs):
        return known(e, op, *xs)
    return e.call(str(op.attributes.get("decomposition", "")), xs)


# Branches


@rule("if", takes_codes=True)
def if_(e: Emitter, op: Operation, condition: Held) -> list[Held]:
    """Convert to If: run one of two regions."""
    if not isinstance(condition, Value):
        refuse("SH0007", "if: the condition is not a tensor")
    known = e.scalar(condition)
    if known is not None:
        return e.block(op.regions[0 if known else 1], [])
    return _branches(e, condition, lambda: e.block(op.regions[0], []), lambda: e.block(op.regions[1], []))


@rule("case", takes_codes=True)
def case(e: Emitter, op: Operation, index: Held) -> list[Held]:
    """Convert to nested Ifs: run the region of the index; an index out of range selects the last region."""
    if not op.regions or not isinstance(index, Value) or not e.dtype(index).is_integer:
        refuse("SH0007", "case: expected an integer tensor and regions")
    known = e.scalar(index)
    last = len(op.regions) - 1
    if known is not None:
        return e.block(op.regions[int(known) if 0 <= known < last else last], [])

    def branch(place: int) -> list[Held]:
        if place == last:
            return e.block(op.regions[place], [])
        return _branches(e, e("Equal", index, place), lambda: e.block(op.regions[place], []), lambda: branch(place + 1))

    return branch(0)


def _branches(e: Emitter, condition: Value, *branches: Callable[[], list[Held]]) -> list[Held]:
    bodies: list[Graph] = []
    like: list[Held] = []
    for branch in branches:
        body = Graph("branch", opsets={"": OPSET})
        with e.inside(body):
            like = branch()
            _return(e, body, like)
        bodies.append(body)
    count = len(bodies[0].outputs)
    if count == 0:
        return like
    if len(bodies[1].outputs) != count:
        refuse("SH0007", "the branches differ in their result count")
    flag = e.reshape(condition, [])
    found = list(e.results("If", count, flag, then_branch=bodies[0], else_branch=bodies[1]))
    return [rebuilt(held, found) for held in like]


def _return(e: Emitter, body: Graph, results: Sequence[Held]) -> None:
    """Make results the outputs of a body; values from outside go through an Identity."""
    taken: set[Value] = set()
    for value in [value for held in results for value in flattened(held)]:
        own = value
        if value.graph is not body or value.producer is None or value in taken:
            own = e("Identity", value)
        taken.add(own)
        body.add_output(own)


# Loops


@rule("while", takes_codes=True)
@complex_rule("while")
def while_(e: Emitter, op: Operation, *initial: Held) -> list[Held]:
    """Convert to a Loop with a condition."""
    condition, step = op.regions
    start = _condition(e, condition, initial)
    count, known = _trip_count(e, condition, step, initial)
    if (known and count == 0) or e.scalar(start) is False:
        return list(initial)
    given = [value for held in initial for value in flattened(held)]
    body = Graph("step", opsets={"": OPSET})
    with e.inside(body):
        body.add_input("iteration", TensorFact(DType.INT64, ()))
        body.add_input("condition", TensorFact(DType.BOOL, ()))
        facts = [_carried_fact(value) for value in given]
        arguments = [body.add_input(body.fresh("carried"), fact) for fact in facts]
        values = list(arguments)
        carried = e.block(step, [rebuilt(held, values) for held in initial])
        going = e.constant(True, DType.BOOL) if known else _condition(e, condition, carried)
        results = [value for held in carried for value in flattened(held)]
        if len(results) != len(given):
            refuse("SH0007", f"while carries {len(given)} values, but its body returns {len(results)}")
        _return(e, body, [e("Identity", going), *results])
    trips = e.constant(count, DType.INT64) if known else None
    flag = None if known else start
    found = list(e.results("Loop", len(given), trips, flag, *given, body=body))
    return [rebuilt(held, found) for held in initial]


def _condition(e: Emitter, block: Block, carried: Sequence[Held]) -> Value:
    """The result of the condition of a loop.

    Raises:
        RefusedError: SH0007 it is not one tensor.
    """
    found = e.block(block, carried)
    if len(found) != 1 or not isinstance(found[0], Value):
        refuse("SH0007", "while: the condition must return one boolean")
    return found[0]


def counted_loop(
    e: Emitter, count: Value, initial: Sequence[Value], step: Callable[[Value, list[Value]], list[Held]]
) -> list[Held]:
    """Apply `step(index, carried)` for each index from 0 to `count`; return the carried values."""
    body = Graph("step", opsets={"": OPSET})
    with e.inside(body):
        index = body.add_input("iteration", TensorFact(DType.INT64, ()))
        body.add_input("condition", TensorFact(DType.BOOL, ()))
        carried = [body.add_input(body.fresh("carried"), _carried_fact(value)) for value in initial]
        results = step(index, carried)
        _return(e, body, [e("Identity", e.constant(True, DType.BOOL)), *results])
    return list(e.results("Loop", len(initial), count, None, *initial, body=body))


def _carried_fact(value: Value) -> TensorFact:
    """The fact of a carried value in every iteration: its element type and shape."""
    fact = value.fact
    return TensorFact(fact.dtype, fact.shape) if isinstance(fact, TensorFact) else TensorFact(None, None)


def _trip_count(e: Emitter, condition: Block, step: Block, initial: Sequence[Held]) -> tuple[int, bool]:
    """The number of iterations of a loop that counts from a known number to a known number.

    The condition is `i < limit`, and the body adds 1 to `i`.
    """
    unknown = (0, False)
    operations = {key: op for op in condition.operations for key in op.results}
    last = condition.operations[-1] if condition.operations else None
    if last is None or last.name != "return" or len(last.operands) != 1 or len(step.arguments) != len(initial):
        return unknown
    test = operations.get(last.operands[0])
    if test is None or test.name != "compare" or test.attributes.get("comparison_direction") != "LT":
        return unknown
    places = {key: place for place, (key, _) in enumerate(condition.arguments)}
    place = places.get(test.operands[0])
    if place is None:
        return unknown
    limit_place = places.get(test.operands[1])
    limit = e.scalar(e.values[test.operands[1]]) if test.operands[1] in e.values else None
    returned = next((op.operands for op in step.operations if op.name == "return"), list[int]())
    if len(returned) != len(step.arguments):
        return unknown
    if limit_place is not None and returned[limit_place] != step.arguments[limit_place][0]:
        return unknown
    start = e.scalar(initial[place])
    counts = _adds_one(e, step, returned[place], step.arguments[place][0])
    if not isinstance(start, int) or not isinstance(limit, int) or not counts:
        return unknown
    return max(limit - start, 0), True


def _adds_one(e: Emitter, step: Block, result: int, argument: int) -> bool:
    """Whether a body returns one of its integer arguments plus 1."""
    made = {key: op for op in step.operations for key in op.results}
    op = made.get(result)
    if op is None or op.name != "add" or argument not in op.operands:
        return False
    other = next((key for key in op.operands if key != argument), argument)
    source = made.get(other)
    if source is None:
        return other in e.values and e.scalar(e.values[other]) == 1
    value = source.attributes.get("value")
    if source.name != "constant" or not isinstance(value, Dense) or value.type.count != 1:
        return False
    return value.array().item() == 1


# Side effects and devices


@rule("create_token", "after_all", takes_codes=True)
def token(e: Emitter, op: Operation, *xs: Held) -> Held:
    """Return a token, which orders side effects; there are none."""
    del e, op, xs
    return Token()


@rule("replica_id", "partition_id")
def device_id(e: Emitter, op: Operation) -> Value:
    """Return the id of the only device."""
    del op
    return e.constant(0, DType.UINT32)


@rule(
    "all_reduce",
    "all_gather",
    "all_to_all",
    "reduce_scatter",
    "collective_permute",
    "collective_broadcast",
    "cross-replica-sum",
    moves=True,
)
def collective(e: Emitter, op: Operation, *xs: Value) -> list[Held]:
    """Return the operands of a collective operation: there is only one device."""
    del e
    groups = op.attributes.get("replica_groups", op.attributes.get("source_target_pairs"))
    members = ints_of(groups, "replica_groups") if groups is not None else []
    alone = op.name != "collective_permute" or members == [0, 0]
    if len(members) > (2 if op.name == "collective_permute" else 1) or not alone:
        refuse(
            "SH0006", f"unsupported: {op.shown()} between several devices", help="export the function for one device"
        )
    return list(xs)


@rule("sdy.sharding_constraint", "builtin.unrealized_conversion_cast", moves=True, takes_codes=True)
def sharding_constraint(e: Emitter, op: Operation, x: Value) -> Value:
    """Return the operand: a sharding does not change values."""
    del e, op
    return x


@rule("map")
def map_(e: Emitter, op: Operation, *xs: Value) -> list[Held]:
    """Apply a region of scalars to all elements."""
    return e.vectorized(op.regions[0], xs, len(op.results))
